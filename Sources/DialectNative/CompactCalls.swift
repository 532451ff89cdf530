package import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that start a compaction, which returns unused room in the store's files, and show its progress (spec/native.md,
/// Administration).
package enum CompactCalls {
    /// The progress of a compaction.
    package struct Status: Sendable {
        package let isRunning: Bool
        /// A reader stops the compaction from continuing.
        package let isHeld: Bool
        package let pages: Int
        package let doneAt: Instant?

        package init(isRunning: Bool, isHeld: Bool, pages: Int, doneAt: Instant?) {
            self.isRunning = isRunning
            self.isHeld = isHeld
            self.pages = pages
            self.doneAt = doneAt
        }
    }

    static func routes(_ sources: Native.Sources) -> [Endpoint] {
        [
            Endpoint(
                .post, "/onym/v1/compact", scope: .admin,
                operation: Operation(
                    id: "compact",
                    summary: "Starts a compaction, which removes the bytes of erased data from all files.",
                    description: """
                        A compaction runs in small steps beside all other calls, and GET answers its progress. The \
                        server starts a compaction after each erasure, and once a day.
                        """,
                    responses: [.init(.accepted, "It has begun.", schema: schema)] + Native.problems([])),
                action: .answer { _, caller, tools in
                    sources.compact()
                    let isWhole = Native.mayKnowServer(caller, tools.directory)
                    return answer(.accepted, sources.compaction(), isWhole: isWhole)
                }),
            Endpoint(
                .get, "/onym/v1/compact", scope: .consoleRead,
                operation: Operation(
                    id: "compaction_get", summary: "Answers the progress of a compaction.",
                    responses: [.init(.ok, "The progress.", schema: schema)] + Native.problems([])),
                action: .answer { _, caller, tools in
                    answer(.ok, sources.compaction(), isWhole: Native.mayKnowServer(caller, tools.directory))
                }),
        ]
    }

    /// - Parameter isWhole: whether the caller may know figures of the whole server.
    private static func answer(_ code: HTTPMessage.Status, _ status: Status, isWhole: Bool) -> Response {
        Native.json(code) { json in
            json.key("running")
            json.bool(status.isRunning)
            json.key("waits_for_readers")
            json.bool(status.isHeld)
            json.key("pages_given_back")
            if isWhole { json.integer(status.pages) } else { json.null() }
            json.key("done_at")
            json.moment(status.doneAt)
        }
    }

    private static let schema = Schema.object([
        .init("running", .boolean(), required: true), .init("waits_for_readers", .boolean(), required: true),
        .init(
            "pages_given_back", .anyOf([.integer("Null for an administrator of one of several projects."), .null]),
            required: true),
        .init("done_at", .anyOf([.string(), .null]), required: true),
    ])
}
