import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that upload events (spec/claim.md 1.6): the events of an app, and an import of older events.
enum IngestCalls {
    static let routes = [
        route(
            "/v1/ingest", "ingest", "Takes events of an app's users.",
            "A bad event is turned away by itself; the others are kept. The server drops an event that it has already.",
            .ingest),
        route(
            "/v1/import", "import", "Takes events of long ago, with an import key.",
            """
            Events may be of any age. The import updates an event with a known client_event_id: the event has the content and \
            the user that were sent last, and it keeps its id and its time. Its measurement, its step and its issue follow. A \
            bundle_id is not read.
            """, .importing),
    ]

    /// The two kinds of upload, with their differences.
    enum Kind: Sendable {
        case ingest, importing

        var eventsPerBatch: Int { self == .ingest ? 100 : 1000 }
    }

    private static func route(
        _ path: String, _ id: String, _ summary: String, _ description: String, _ kind: Kind
    ) -> Endpoint {
        Endpoint(
            .post, path, scope: .eventsWrite, limit: kind == .ingest ? .claim : .none,
            operation: Operation(
                id: id, summary: summary, description: description,
                request: .object([
                    .init("bundle_id", .anyOf([.string(), .null])),
                    .init("events", .array(.object([])), required: true),
                ]),
                responses: [
                    .init(
                        .ok, "How many were taken, and why others were not.",
                        schema: .object([
                            .init("accepted", .integer(), required: true), .init("updated", .integer()),
                            .init("rejected", .integer(), required: true),
                            .init(
                                "errors",
                                .array(
                                    .object([
                                        .init("index", .integer(), required: true),
                                        .init("message", .string(), required: true),
                                    ]))),
                        ]))
                ] + ClaimFault.answers),
            action: .call(
                body: ClaimDialect.body,
                decode: { request, caller, tools throws(Rejection) in
                    do throws(ClaimFault) {
                        let upload = try EventUpload.read(request, caller, tools, kind)
                        let rejected = upload.rejected
                        return PreparedCall(Collect(upload.parts, correct: upload.correct)) { reply, _ in
                            answer(reply, rejected, kind)
                        }
                    } catch {
                        throw error.rejection()
                    }
                }))
    }

    private static func answer(
        _ collected: Collected, _ rejected: [(index: Int, message: String)], _ kind: Kind
    ) -> Response {
        IdentityCalls.json { json in
            json.key("accepted")
            json.integer(collected.accepted)
            if kind == .importing {
                json.key("updated")
                json.integer(collected.repeated)
            }
            json.key("rejected")
            json.integer(rejected.count)
            if rejected.isEmpty { return }
            json.key("errors")
            json.array { json in
                for (index, message) in rejected {
                    json.object { json in
                        json.key("index")
                        json.integer(index)
                        json.key("message")
                        json.string(message)
                    }
                }
            }
        }
    }
}
