package import Domain
package import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The state of the server, as an operator looks at it.
package struct ServerStatus: Sendable {
    package let version: String
    package let startedAt: Instant
    /// The engine of the store: memory, sqlite or postgres.
    package let store: String
    /// The bytes of the store's files, and the free bytes of their disk; nil if the files are not on this machine.
    package let bytes: Int64?
    package let freeBytes: Int64?
    /// The reason why the store takes no calls; nil if it takes calls.
    package let fault: String?
    /// The last fault of the store since the server started; nil for a store without a fault.
    package let lastFault: SeenFault?
    package let clock: Clock
    /// The number of calls that wait for the writer, and the time for which the oldest of them has waited.
    package let queuedCalls: Int
    package let oldestMilliseconds: Int64
    package let counts: StoreCounts
    /// The hash of the console's files, and their bytes; nil without a console.
    package let console: (hash: String, bytes: Int)?

    /// What the server knows of its clock.
    package struct Clock: Sendable {
        /// The time by which the clock is behind the journal.
        package let behindMilliseconds: Int64
        /// The time by which the clock was ahead of the last store that answered; nil before the first answer.
        package let aheadMilliseconds: Int64?
        /// The last times that somebody set the clock.
        package let steps: [SeenStep]

        package init(behindMilliseconds: Int64, aheadMilliseconds: Int64?, steps: [SeenStep]) {
            self.behindMilliseconds = behindMilliseconds
            self.aheadMilliseconds = aheadMilliseconds
            self.steps = steps
        }
    }

    /// A fault of the store.
    package struct SeenFault: Sendable {
        package let at: Instant
        package let text: String

        package init(at: Instant, text: String) { (self.at, self.text) = (at, text) }
    }

    package init(
        version: String, startedAt: Instant, store: String, bytes: Int64?, freeBytes: Int64?, fault: String?,
        lastFault: SeenFault?, clock: Clock, queuedCalls: Int, oldestMilliseconds: Int64, counts: StoreCounts,
        console: (hash: String, bytes: Int)?
    ) {
        (self.lastFault, self.clock, self.oldestMilliseconds) = (lastFault, clock, oldestMilliseconds)
        self.version = version
        self.startedAt = startedAt
        self.store = store
        self.bytes = bytes
        self.freeBytes = freeBytes
        self.fault = fault
        self.queuedCalls = queuedCalls
        self.counts = counts
        self.console = console
    }
}

/// The call that answers the state of the server: is it well, and how full is it?
enum StatusCalls {
    static func routes(_ sources: Native.Sources) -> [Endpoint] {
        [
            Endpoint(
                .get, "/onym/v1/server", scope: .consoleRead,
                operation: Operation(
                    id: "server", summary: "Answers the state of the server: version, store, clock and queue.",
                    description: """
                        With several projects, only the operator gets the size of the store, the queue and the last \
                        call of the journal. clock.behind_ms compares with the journal, and clock.ahead_ms with the app \
                        stores; it is null before a store answered. clock.steps are the last times that somebody set \
                        the clock. store.last_fault is null if the store has not failed since the start.
                        """,
                    responses: [
                        .init(
                            .ok, "The state.",
                            schema: .object([
                                .init("version", .string(), required: true),
                                .init("started_at", .string(), required: true),
                                .init("store", .object([]), required: true),
                                .init("clock", .object([]), required: true),
                                .init("queue", .object([])), .init("last_seq", .integer()),
                                .init("console", .anyOf([.object([]), .null]), required: true),
                            ]))
                    ] + Native.problems([])),
                action: .answer { request, caller, tools in
                    guard let status = sources.status() else {
                        return Native.problem(.unavailable(retryAfterSeconds: Gateway.retryAfterSeconds), request.id)
                    }
                    return answer(status, now: tools.now, isWhole: Native.mayKnowServer(caller, tools.directory))
                })
        ]
    }

    private static func answer(_ status: ServerStatus, now: Instant, isWhole: Bool) -> Response {
        Native.json(.ok) { json in
            json.key("version")
            json.string(status.version)
            json.key("started_at")
            json.moment(status.startedAt)
            json.key("store")
            json.object { writeStore(status, isWhole: isWhole, &$0) }
            json.key("clock")
            json.object { writeClock(status.clock, now: now, &$0) }
            if isWhole {
                json.key("queue")
                json.object { json in
                    json.key("calls")
                    json.integer(status.queuedCalls)
                    json.key("oldest_ms")
                    json.integer(status.oldestMilliseconds)
                }
                json.key("last_seq")
                json.integer(status.counts.lastSequence.rawValue)
            }
            json.key("console")
            if let console = status.console {
                json.object { json in
                    json.key("hash")
                    json.string(console.hash)
                    json.key("bytes")
                    json.integer(console.bytes)
                }
            } else {
                json.null()
            }
        }
    }

    private static func writeStore(_ status: ServerStatus, isWhole: Bool, _ json: inout JSONWriter) {
        json.key("kind")
        json.string(status.store)
        json.key("writable")
        json.bool(status.fault == nil)
        json.key("fault")
        json.string(status.fault)
        json.key("last_fault")
        if let fault = status.lastFault {
            json.object { json in
                json.key("at")
                json.moment(fault.at)
                json.key("fault")
                json.string(fault.text)
            }
        } else {
            json.null()
        }
        guard isWhole else { return }
        for (name, number) in [("bytes", status.bytes), ("free_bytes", status.freeBytes)] {
            json.key(name)
            if let number { json.integer(number) } else { json.null() }
        }
    }

    private static func writeClock(_ clock: ServerStatus.Clock, now: Instant, _ json: inout JSONWriter) {
        json.key("now")
        json.moment(now)
        json.key("behind_ms")
        json.integer(clock.behindMilliseconds)
        json.key("ahead_ms")
        if let ahead = clock.aheadMilliseconds { json.integer(ahead) } else { json.null() }
        json.key("steps")
        json.array { json in
            for step in clock.steps {
                json.object { json in
                    json.key("at")
                    json.moment(step.at)
                    json.key("ms")
                    json.integer(step.milliseconds)
                }
            }
        }
    }
}
