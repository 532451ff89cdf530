import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that upload events (spec/idsync.md 1.1): each event becomes a row of the person that the upload names.
enum EventCalls {
    static let routes = [
        route(
            "uploadEvents", "/v2/:api_key/events", ["/nativeevents/v2/:api_key/events"],
            "Takes an upload of a native client.", EventCalls.one),
        route(
            "uploadWebEvents", "/v3/JS/:api_key/events",
            ["/webevents/v3/JS/:api_key/events"] + EventCalls.olderWebPaths,
            "Takes an upload of a web client.", EventCalls.one),
        route("sendEvents", "/v2/events", [], "Takes the events of one person from a back end.", EventCalls.one),
        route(
            "sendBulkEvents", "/v2/bulkevents", [], "Takes the events of several people from a back end.",
            EventCalls.several),
    ]

    /// The paths of older web clients, which send each event alone.
    private static let olderWebPaths = ["/v1", "/v2"].flatMap { version in
        ["", "/webevents"].map { "\($0)\(version)/JS/:api_key/events" }
    }

    /// The greatest number of uploads in a request (spec/idsync.md 1.8).
    static let batchesPerRequest = 100

    private typealias Read = @Sendable (JSONValue, Caller, LoopTools) throws(JSONFault) -> [EventBatch]

    private static let one: Read = { root, caller, tools throws(JSONFault) in
        [try EventBatch(root, IdentityReader(caller, tools), at: caller.now, path: "")]
    }

    private static let several: Read = { root, caller, tools throws(JSONFault) in
        var batches: [EventBatch] = []
        let reader = IdentityReader(caller, tools)
        try root.forEachElement(at: "the body") { element throws(JSONFault) in
            guard batches.count < batchesPerRequest else {
                throw JSONFault(.wrong("must have at most \(batchesPerRequest) batches"), at: "the body")
            }
            batches.append(
                try EventBatch(
                    element, reader, at: caller.now, path: "[\(batches.count)]."))
        }
        return batches
    }

    private static func route(
        _ id: String, _ path: String, _ otherPaths: [String], _ summary: String, _ read: @escaping Read
    ) -> Endpoint {
        Endpoint(
            .post, path, otherPaths: otherPaths, ignoresCase: true, scope: .eventsWrite,
            keyPlace: path.contains(":api_key") ? .path(isOpen: false) : .fields,
            operation: Operation(
                id: id, summary: summary,
                description: """
                    Events are kept under the person of their mpid, or of the identities that come with them. What was sent \
                    before, by the upload's id or the event's, is not kept again.
                    """,
                request: id == "sendBulkEvents" ? .array(.object([])) : .object([]),
                responses: [.init(.accepted, "All of it is kept. There is no body.")] + IDSyncFault.answers
                    + [IDSyncFault.mismatch]),
            action: .calls(
                body: .plainTextToo,
                decode: { request, caller, tools throws(Rejection) in
                    do throws(JSONFault) {
                        let batches = try tools.json.read(request.body) { root throws(JSONFault) in
                            try read(root, caller, tools)
                        }
                        return batches.map { ($0.act, $0.replayKey) }
                    } catch {
                        throw Rejection(IDSyncFault(error).response(request.id))
                    }
                },
                encode: { results, id in
                    for (place, result) in results.enumerated() {
                        guard case .failure(let refusal) = result else { continue }
                        if refusal == .idempotencyMismatch || refusal.tokenFault != nil {
                            return IDSyncFault.response(to: .refused(refusal), id)
                        }
                        let whose = results.count > 1 ? "Batch \(place): " : ""
                        return IDSyncFault(.validation, whose + refusal.message).response(id)
                    }
                    return Response(.accepted)
                }))
    }
}
