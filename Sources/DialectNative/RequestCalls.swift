import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that show the log of requests: what did this server answer, to whom, and what did it change? They are for a person who has
/// the request id of an error.
enum RequestCalls {
    static func routes(_ sources: Native.Sources) -> [Endpoint] { [list(sources), one(sources)] }

    private static func list(_ sources: Native.Sources) -> Endpoint {
        Endpoint(
            .get, "/onym/v1/requests", scope: .consoleRead,
            operation: Operation(
                id: "requests", summary: "Lists the last requests of this server, the newest first.",
                description: """
                    Each server has a log of its own. A page may be short, because the server reads some files of the log \
                    for a page: next_cursor continues. Requests without a caller are only in the list of the operator, and \
                    of the only project. seq and person are null if the request changed nothing, or if too many calls of \
                    the journal were made about the same time. A request id that the client chose may have a value in it, so \
                    the log has its hash alone.
                    """,
                query: [
                    .init("key", .string("Only requests with this key.")),
                    .init("route", .string("Only requests of this route: its path, or its method and path.")),
                    .init("status", .string("Only answers with this status, such as 409 or 4xx.")),
                    .init("since", .string("The time of the oldest request of the list.")),
                ] + ListQuery.parameters,
                responses: [
                    .init(
                        .ok, "Requests.",
                        schema: .object([
                            .init("requests", .array(.object(members)), required: true),
                            .init("kept_since", AdminText.optionalText, required: true),
                            .init("next_cursor", AdminText.optionalText, required: true),
                        ]))
                ] + Native.problems([.notFound])),
            action: .query { request, caller, tools throws(Rejection) in
                let (filter, list) = (try Filter(request), try ListQuery(request))
                let log = try log(sources, request.id)
                let sees = sees(caller, tools)
                return { snapshot throws(StoreFault) in
                    let page = try log.requests(
                        before: list.cursor, since: filter.since, limit: list.limit, until: snapshot.readLimit
                    ) { entry in sees(entry) && filter.takes(entry) }
                    var journal = Journal(log, snapshot, callsAtMost: callsPerPage)
                    let rows = try page.entries.map { entry throws(StoreFault) in
                        (entry, try journal.calls(of: entry))
                    }
                    return Native.json(.ok) { json in
                        json.key("requests")
                        json.array { json in
                            for (entry, calls) in rows { json.object { write(entry, calls, &$0) } }
                        }
                        json.key("kept_since")
                        json.moment(log.keptSince)
                        json.key("next_cursor")
                        json.decimalString(page.next.map(Int64.init))
                    }
                }
            })
    }

    private static func one(_ sources: Native.Sources) -> Endpoint {
        Endpoint(
            .get, "/onym/v1/requests/:id", scope: .consoleRead,
            operation: Operation(
                id: "request", summary: "Shows a request: its answer, the calls that it made, and their deliveries.",
                description: """
                    The id is the X-Request-Id of the answer. The state of a delivery is waiting, parked, sent (to a \
                    webhook that wants such a change) or unread.
                    """,
                responses: [
                    .init(
                        .ok, "The request.",
                        schema: .object(
                            members + [
                                .init(
                                    "calls", .array(.object(JournalText.members)), required: true),
                                .init(
                                    "deliveries",
                                    .array(
                                        .object([
                                            .init("id", AdminText.optionalText, required: true),
                                            .init("webhook", .string(), required: true),
                                            .init("seq", .integer(), required: true),
                                            .init("state", .string(), required: true),
                                            .init("attempts", .integer(), required: true),
                                            .init("fault", AdminText.optionalText, required: true),
                                        ])), required: true),
                            ]))
                ] + Native.problems([.notFound])),
            action: .query { request, caller, tools throws(Rejection) in
                let (text, id, project) = (request.parameters[0], request.id, caller.project)
                let log = try log(sources, id)
                let sees = sees(caller, tools)
                return { snapshot throws(StoreFault) in
                    guard let entry = try log.request(text, until: snapshot.readLimit, where: sees) else {
                        return unknown(text, log, id)
                    }
                    var journal = Journal(log, snapshot, callsAtMost: callsPerRequest)
                    let heads = try journal.calls(of: entry)
                    let calls = try snapshot.calls(heads.map(\.sequence))
                    let deliveries = try deliveries(of: calls, in: project, snapshot)
                    return Native.json(.ok) { json in
                        write(entry, heads, &json)
                        json.key("calls")
                        json.array { json in
                            for call in calls { json.object { JournalText.write(call, &$0) } }
                        }
                        json.key("deliveries")
                        json.array { json in
                            for delivery in deliveries { json.object { delivery.write(to: &$0) } }
                        }
                    }
                }
            })
    }

    /// The calls of the journal that the server reads for a page and for a request at most.
    private static let callsPerPage = 2000
    private static let callsPerRequest = 20_000

    private static func log(_ sources: Native.Sources, _ id: RequestID) throws(Rejection) -> RequestLog {
        guard let log = sources.requestLog() else {
            throw Rejection(
                Native.problem(
                    .notFound, code: "no_request_log",
                    "There is no log of requests: request_log_mib is 0, or the server does not run.", id))
        }
        return log
    }

    /// Whether a caller may see a request. Requests without a caller belong to no project.
    static func sees(_ caller: Caller, _ tools: LoopTools) -> @Sendable (RequestEntry) -> Bool {
        let (project, seesGuests) = (caller.project, Native.mayKnowServer(caller, tools.directory))
        return { $0.project == project || ($0.project == .none && seesGuests) }
    }

    private static func unknown(_ text: String, _ log: RequestLog, _ id: RequestID) -> Response {
        let since = log.keptSince.map { AdminText.text(of: $0) } ?? "the start of the log"
        return Native.problem(
            .notFound, code: "no_such_request",
            "The log has no request with this id. The request is older than \(since), of another server, or of another project.",
            id)
    }

    /// The filters of the list.
    private struct Filter: Sendable {
        let key: KeyID?
        let route: String?
        let statuses: ClosedRange<UInt16>?
        let since: Instant?

        init(_ request: borrowing Request) throws(Rejection) {
            let query = request.query
            key = try query?["key"].map { text throws(Rejection) in
                guard let number = Int64(decimal: text) else {
                    throw AdminText.wrong("key must be the id of a key.", request.id)
                }
                return KeyID(rawValue: number)
            }
            route = query?["route"]
            since = try AdminText.moment(request, "since")
            statuses = try query?["status"].map { text throws(Rejection) in
                if let status = UInt16(text), (100...599).contains(status) { return status...status }
                guard text.utf8.count == 3, text.hasSuffix("xx"), let kind = UInt16(text.prefix(1)),
                    (1...5).contains(kind)
                else { throw AdminText.wrong("status must be a status such as 409, or 4xx.", request.id) }
                return kind * 100...kind * 100 + 99
            }
        }

        func takes(_ entry: RequestEntry) -> Bool {
            if let key, entry.key != key { return false }
            if let statuses, !statuses.contains(entry.status) { return false }
            guard let route else { return true }
            guard let name = entry.route else { return false }
            return name == route || name.drop { $0 != " " }.dropFirst() == route
        }
    }

    /// Finds the calls of the journal that requests made. Requests of one second have the same last call, so their calls are read once.
    private struct Journal {
        private let log: RequestLog
        private let snapshot: any Snapshot
        private var left: Int
        /// The calls that were read, by the numbers of their requests.
        private var read: [Hash128: [CallHead]] = [:]
        /// The parts of the journal that were read, with the moments of their first calls.
        private var ranges: [(calls: ClosedRange<Int64>, since: Instant?)] = []

        private static let callsAtOnce = 200
        /// A call is in the journal before its answer. The time of the journal may be a little later than the answer's.
        private static let slackMilliseconds: Int64 = 2000

        init(_ log: RequestLog, _ snapshot: any Snapshot, callsAtMost: Int) {
            self.log = log
            self.snapshot = snapshot
            left = callsAtMost
        }

        mutating func calls(of entry: RequestEntry) throws(StoreFault) -> [CallHead] {
            let start = entry.at.milliseconds - Int64(entry.microseconds / 1000) - Journal.slackMilliseconds
            var end = entry.last.rawValue
            while end > 0 {
                if let range = ranges.first(where: { $0.calls.contains(end) }) {
                    // All calls before this part are older than the request.
                    if let since = range.since, since.milliseconds < start { break }
                    end = range.calls.lowerBound - 1
                    continue
                }
                guard left > 0 else { break }
                let after = max(0, end - Int64(Journal.callsAtOnce))
                let calls = try snapshot.callHeads(after: JournalSequence(rawValue: after), limit: Int(end - after))
                    .filter { $0.sequence.rawValue <= end }
                left -= calls.count
                for call in calls where !call.requestID.isEmpty {
                    for number in log.numbers(of: call.requestID) { read[number, default: []].append(call) }
                }
                ranges.append((after + 1...end, calls.first?.at))
                end = after
                if let first = calls.first, first.at.milliseconds < start { break }
            }
            return (read[entry.id] ?? []).filter { $0.project == entry.project && $0.at.milliseconds >= start }
                .sorted { $0.sequence < $1.sequence }
        }
    }

    /// The fate of a call's changes at a webhook.
    private struct CallDelivery {
        let webhook: Int64
        let call: JournalSequence
        let state: StaticString
        /// The delivery that waits or is parked.
        var delivery: Delivery?

        func write(to json: inout JSONWriter) {
            json.key("id")
            json.string(delivery.map { DeliveryCalls.id(of: $0, to: webhook) })
            json.key("webhook")
            json.decimalString(webhook)
            json.key("seq")
            json.integer(Int(call.rawValue))
            json.key("state")
            json.string("\(state)")
            json.key("attempts")
            json.integer(delivery?.attempts ?? 0)
            json.key("fault")
            json.string(delivery.flatMap { $0.fault.isEmpty ? nil : $0.fault })
        }
    }

    private static func deliveries(
        of calls: [RecordedCall], in project: ProjectID, _ snapshot: any Snapshot
    ) throws(StoreFault) -> [CallDelivery] {
        if calls.isEmpty { return [] }
        var all: [CallDelivery] = []
        for webhook in try Webhook.all(of: project, snapshot) {
            guard let deliveries = try Deliveries.of(webhook, snapshot) else { continue }
            for call in calls {
                let lists: [(StaticString, [Delivery])] = [
                    ("waiting", deliveries.waiting), ("parked", deliveries.parked),
                ]
                let found = lists.flatMap { state, list in
                    list.filter { $0.change.call == call.sequence }.map {
                        CallDelivery(webhook: webhook.id, call: call.sequence, state: state, delivery: $0)
                    }
                }
                let rest: StaticString = deliveries.cursor >= call.sequence ? "sent" : "unread"
                all += found.isEmpty ? [CallDelivery(webhook: webhook.id, call: call.sequence, state: rest)] : found
            }
        }
        return all
    }

    /// Writes what a list of results shows of a request.
    static func writeHead(_ entry: RequestEntry, _ json: inout JSONWriter) {
        json.key("request_id")
        json.string(entry.text)
        json.key("at")
        json.moment(entry.at)
        json.key("route")
        json.string(entry.route)
        json.key("status")
        json.integer(Int(entry.status))
    }

    private static func write(_ entry: RequestEntry, _ calls: [CallHead], _ json: inout JSONWriter) {
        writeHead(entry, &json)
        json.key("code")
        json.string(entry.code)
        json.key("key")
        json.decimalString(entry.key?.rawValue)
        json.key("person")
        json.decimalString(calls.lazy.compactMap(\.person).first?.rawValue)
        json.key("ms")
        json.double(Double(entry.microseconds) / 1000)
        json.key("bytes_in")
        json.integer(entry.bytesIn)
        json.key("bytes_out")
        json.integer(entry.bytesOut)
        json.key("seq")
        if let call = calls.last { json.integer(Int(call.sequence.rawValue)) } else { json.null() }
    }

    private static let members: [Schema.Property] = [
        .init("request_id", .string("The id; for an id of the client, 32 digits of its hash."), required: true),
        .init("at", .string("The time of the answer."), required: true),
        .init("route", AdminText.optionalText, required: true), .init("status", .integer(), required: true),
        .init("code", AdminText.optionalText, required: true), .init("key", AdminText.optionalText, required: true),
        .init("person", AdminText.optionalText, required: true),
        .init("ms", .number("The milliseconds from the request to its answer."), required: true),
        .init("bytes_in", .integer(), required: true), .init("bytes_out", .integer(), required: true),
        .init("seq", .anyOf([.integer(), .null]), required: true),
    ]
}

extension RequestEntry {
    /// The digits of the id, with which the entry is found again.
    var text: String {
        var digits: [UInt8] = []
        digits.append(traceOf: RequestID(high: id.high, low: id.low))
        return String(decoding: digits, as: UTF8.self)
    }
}
