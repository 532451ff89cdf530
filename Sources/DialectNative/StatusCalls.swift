package import Domain
import Gateway
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
    package let clockBehindMilliseconds: Int64
    /// The number of calls that wait for the writer.
    package let queuedCalls: Int
    package let counts: StoreCounts
    /// The hash of the console's files; nil without a console.
    package let console: String?

    package init(
        version: String, startedAt: Instant, store: String, bytes: Int64?, freeBytes: Int64?, fault: String?,
        clockBehindMilliseconds: Int64, queuedCalls: Int, counts: StoreCounts, console: String?
    ) {
        self.version = version
        self.startedAt = startedAt
        self.store = store
        self.bytes = bytes
        self.freeBytes = freeBytes
        self.fault = fault
        self.clockBehindMilliseconds = clockBehindMilliseconds
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
                        call of the journal.
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
            json.object { json in
                json.key("kind")
                json.string(status.store)
                json.key("writable")
                json.bool(status.fault == nil)
                json.key("fault")
                json.string(status.fault)
                guard isWhole else { return }
                for (name, number) in [("bytes", status.bytes), ("free_bytes", status.freeBytes)] {
                    json.key(name)
                    if let number { json.integer(number) } else { json.null() }
                }
            }
            json.key("clock")
            json.object { json in
                json.key("now")
                json.moment(now)
                json.key("behind_ms")
                json.integer(status.clockBehindMilliseconds)
            }
            if isWhole {
                json.key("queue")
                json.object { json in
                    json.key("calls")
                    json.integer(status.queuedCalls)
                }
                json.key("last_seq")
                json.integer(status.counts.lastSequence.rawValue)
            }
            json.key("console")
            if let console = status.console {
                json.object { json in
                    json.key("hash")
                    json.string(console)
                }
            } else {
                json.null()
            }
        }
    }
}
