import ByteText
import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that upload events (spec/idsync.md 1.1): each event becomes a row of the person that the upload names.
enum EventCalls {
    /// The routes.
    ///
    /// - Parameter warnings: counts the uploads that the server refuses and answers with 202.
    static func routes(_ warnings: ClientWarnings) -> [Endpoint] {
        [
            route(
                "uploadEvents", "/v2/:api_key/events", ["/nativeevents/v2/:api_key/events"],
                "Takes an upload of a native client.",
                .init(.accepted, "The server keeps the whole upload.", schema: NativeReceipt.schema)
            ) { request, caller, tools throws(Rejection) in
                let batch = try checked(request) { () throws(JSONFault) in
                    try read(request, caller, tools, .native)
                }
                let receipt = NativeReceipt(at: caller.now, stamp: batch.stamp)
                return PreparedCalls([(batch.act(), batch.replayKey)]) { results, id in
                    refusal(results, id) ?? receipt.response(to: results[0], id)
                }
            },
            route(
                "uploadWebEvents", "/v3/JS/:api_key/events",
                ["/webevents/v3/JS/:api_key/events"] + EventCalls.olderWebPaths, "Takes an upload of a web client.",
                .init(
                    .accepted,
                    """
                    The server keeps the whole upload, or the upload is invalid and the journal has the reason. \
                    There is no body.
                    """)
            ) { request, caller, tools throws(Rejection) in
                web(request, caller, tools, warnings)
            },
            route(
                "sendEvents", "/v2/events", [], "Takes the events of one person from a back end.",
                .init(.accepted, "The server keeps all events. There is no body.")
            ) { request, caller, tools throws(Rejection) in
                let batch = try checked(request) { () throws(JSONFault) in
                    try read(request, caller, tools, .backEnd)
                }
                return PreparedCalls([(batch.act(), batch.replayKey)]) { results, id in
                    refusal(results, id) ?? Response(.accepted)
                }
            },
            route(
                "sendBulkEvents", "/v2/bulkevents", [], "Takes the events of several people from a back end.",
                .init(.accepted, "The server keeps all events. There is no body.")
            ) { request, caller, tools throws(Rejection) in
                let batches = try checked(request) { () throws(JSONFault) in
                    try readSeveral(request, caller, tools)
                }
                return PreparedCalls(batches.map { ($0.act(), $0.replayKey) }) { results, id in
                    refusal(results, id, isBulk: true) ?? Response(.accepted)
                }
            },
        ]
    }

    /// The paths of older web clients, which send each event alone.
    private static let olderWebPaths = ["/v1", "/v2"].flatMap { version in
        ["", "/webevents"].map { "\($0)\(version)/JS/:api_key/events" }
    }

    /// The greatest number of uploads in a request (spec/idsync.md 1.8).
    static let batchesPerRequest = 100

    private static func read(
        _ request: borrowing Request, _ caller: Caller, _ tools: LoopTools, _ client: EventBatch.Client
    ) throws(JSONFault) -> EventBatch {
        try tools.json.read(request.body, mends: true) { root throws(JSONFault) in
            try EventBatch(root, IdentityReader(caller, tools), from: client, at: caller.now, path: "")
        }
    }

    private static func readSeveral(
        _ request: borrowing Request, _ caller: Caller, _ tools: LoopTools
    ) throws(JSONFault) -> [EventBatch] {
        var batches: [EventBatch] = []
        let reader = IdentityReader(caller, tools)
        try tools.json.read(request.body, mends: true) { root throws(JSONFault) in
            try root.forEachElement(at: "the body") { element throws(JSONFault) in
                guard batches.count < batchesPerRequest else {
                    throw JSONFault(.wrong("must have at most \(batchesPerRequest) batches"), at: "the body")
                }
                batches.append(
                    try EventBatch(element, reader, from: .backEnd, at: caller.now, path: "[\(batches.count)]."))
            }
        }
        return batches
    }

    private static func checked<Value>(
        _ request: borrowing Request, _ read: () throws(JSONFault) -> Value
    ) throws(Rejection) -> Value {
        do throws(JSONFault) {
            return try read()
        } catch {
            throw Rejection(IDSyncFault(error).response(request.id))
        }
    }

    /// The answer to the refused act; nil if no act was refused.
    ///
    /// - Parameters:
    ///   - results: the results of the acts.
    ///   - id: the id of the request.
    ///   - isBulk: whether the request is a list, so that the answer names the place of the act.
    private static func refusal(
        _ results: [Result<Reply, Refusal>], _ id: RequestID, isBulk: Bool = false
    ) -> Response? {
        for (place, result) in results.enumerated() {
            guard let refusal = reason(result), refusal != .otherActRefused else { continue }
            if refusal == .idempotencyMismatch || refusal.tokenFault != nil {
                return IDSyncFault.response(to: .refused(refusal), id)
            }
            let whose = isBulk ? "[\(place)].mpid: " : ""
            return IDSyncFault(.validation, whose + refusal.message).response(id)
        }
        return nil
    }

    /// The refusal of an act. An upload of a web client can have the same id; its client got the answer of a kept upload.
    private static func reason(_ result: Result<Reply, Refusal>) -> Refusal? {
        switch result {
        case .failure(let refusal): refusal
        case .success(let reply): reply.as(Ingested.self)?.isRefused == true ? .noSuchPerson : nil
        }
    }

    // MARK: - Web clients

    /// Reads an upload of a web client.
    ///
    /// A web client keeps an upload that got a 400, and everything after it, for ever. So an upload that is invalid at every
    /// repetition gets 202, and the journal has the reason (spec/idsync-clients.md 2).
    private static func web(
        _ request: borrowing Request, _ caller: Caller, _ tools: LoopTools, _ warnings: ClientWarnings
    ) -> PreparedCalls {
        do throws(JSONFault) {
            let batch = try read(request, caller, tools, .web)
            return PreparedCalls([(batch.act(keepsRefusal: true), batch.replayKey)]) { results, id in
                answer(results, id, warnings)
            }
        } catch {
            let refused = RefuseUpload(upload: uploadID(in: request.body.span), reason: error.message)
            return PreparedCalls([(refused, nil)]) { results, id in answer(results, id, warnings) }
        }
    }

    private static func answer(
        _ results: [Result<Reply, Refusal>], _ id: RequestID, _ warnings: ClientWarnings
    ) -> Response {
        for result in results {
            switch result {
            case .success(let reply):
                if reply.as(Ingested.self)?.isRefused == true { warnings.refusedUpload() }
            // A repetition with a token, or with another Idempotency-Key, is kept.
            case .failure(let refusal) where refusal.tokenFault != nil || refusal == .idempotencyMismatch:
                return IDSyncFault.response(to: .refused(refusal), id)
            case .failure: warnings.refusedUpload()
            }
        }
        return Response(.accepted)
    }

    /// The id of an upload whose body is not JSON, such as a body that a browser cut off; nil if the bytes have no id.
    private static func uploadID(in body: borrowing Span<UInt8>) -> String? {
        let text = String(copying: body.extracting(0..<min(body.count, uploadIDWithinBytes)))
        guard let name = text.firstRange(of: "\"source_request_id\"") else { return nil }
        let rest = text[name.upperBound...].drop { $0 == " " || $0 == ":" }
        guard rest.first == "\"" else { return nil }
        let id = rest.dropFirst().prefix { $0 != "\"" && $0 != "\\" }
        return id.isEmpty || id.endIndex == rest.endIndex ? nil : String(id)
    }

    /// The bytes of a body in which its id is looked for.
    private static let uploadIDWithinBytes = 65_536

    // MARK: - The routes' common part

    private static func route(
        _ id: String, _ path: String, _ otherPaths: [String], _ summary: String, _ kept: Operation.Answer,
        _ decode: @escaping @Sendable (borrowing Request, Caller, LoopTools) throws(Rejection) -> PreparedCalls
    ) -> Endpoint {
        Endpoint(
            .post, path, otherPaths: otherPaths, ignoresCase: true, scope: .eventsWrite,
            keyPlace: path.contains(":api_key") ? .path(isOpen: false) : .fields,
            operation: Operation(
                id: id, summary: summary,
                description: """
                    Events belong to the person of the upload's mpid, or of its identities. The server keeps a \
                    repeated upload or event, with the same id, only once.
                    """,
                // A web client keeps an upload that gets 400, and everything after it, for ever.
                ignoresOtherParameters: id == "uploadWebEvents",
                request: id == "sendBulkEvents" ? .array(.object([])) : .object([]),
                responses: [kept] + IDSyncFault.answers + [IDSyncFault.mismatch]),
            action: .calls(body: .plainTextToo, decode: decode))
    }
}

/// The answer to an upload of a native client. Android reads the body first: without a body it keeps the upload and all
/// later uploads for ever (spec/idsync-clients.md 1).
private struct NativeReceipt: Sendable {
    private let at: Instant
    private let stamp: String?

    init(at moment: Instant, stamp: String?) {
        at = moment
        self.stamp = stamp
    }

    func response(to result: Result<Reply, Refusal>, _ id: RequestID) -> Response {
        guard case .success(let reply) = result, let ingested = reply.as(Ingested.self) else {
            // The id of the upload belongs to an earlier call of another kind.
            return IDSyncFault.response(to: .refused(.idempotencyMismatch), id)
        }
        var json = JSONWriter()
        json.object { json in
            json.key("dt")
            json.string("rh")
            json.key("id")
            json.string(NativeReceipt.uuid(of: id))
            json.key("ct")
            json.integer(at.milliseconds)
            json.key("msgs")
            json.array { _ in }
            json.key("ci")
            json.object { json in
                // A client that takes this person for the current user must not get a person that does not exist.
                if let person = ingested.seen {
                    json.key("mpid")
                    json.integer(person.rawValue)
                }
                json.key("ck")
                json.object { _ in }
                if let stamp {
                    json.key("das")
                    json.string(stamp)
                }
            }
        }
        return Response(.accepted, contentType: IDSyncFault.contentType, body: json.bytes)
    }

    /// The request's own number in the form of a UUID.
    private static func uuid(of id: RequestID) -> String {
        var digits: [UInt8] = []
        digits.append(traceOf: id)
        var text: [UInt8] = []
        for (place, digit) in digits.enumerated() {
            if [8, 12, 16, 20].contains(place) { text.append(UInt8(ascii: "-")) }
            text.append(digit)
        }
        return String(decoding: text, as: UTF8.self)
    }

    static let schema = Schema.object([
        .init("dt", .string(oneOf: ["rh"]), required: true), .init("id", .string("A UUID."), required: true),
        .init("ct", .integer("The server's time in milliseconds."), required: true),
        .init("msgs", .array(.object([])), required: true),
        .init(
            "ci",
            .object([
                .init("mpid", .integer("The person of the upload.")),
                .init("ck", .object([], others: false), required: true),
                .init("das", .string("The upload's device application stamp.")),
            ]),
            required: true),
    ])
}
