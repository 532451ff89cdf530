import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// Taking merges back (spec/native.md, People).
enum MergeCalls {
    static let routes = [
        SurfaceRoute(
            .post, "/onym/v1/merges/:id/undo", scope: .admin,
            operation: Operation(
                id: "merge_undo",
                summary: "Takes a merge back: each side has again what came by its own identifiers.",
                responses: [
                    .init(.ok, "They are two again.", schema: .object([.init("undone", .string(), required: true)]))
                ] + Native.problems([.notFound, .unprocessableContent])),
            action: .command(
                body: .optional,
                decode: { request, _, _ throws(Rejection) in
                    let name = request.parameters[0]
                    guard name.hasPrefix("m_"), let id = Int64(decimal: name.dropFirst(2)) else {
                        throw Rejection(Native.problem(.refused(.noSuchMerge), request.id))
                    }
                    return DecodedCommand(.undoMerge(UndoMerge(MergeID(rawValue: id))))
                },
                encode: { reply, _, _ in
                    guard case .mergeUndone(let merge) = reply else {
                        preconditionFailure("A merge was to be undone, and something else was answered.")
                    }
                    return Native.json(.ok) { json in
                        json.key("undone")
                        json.string("m_\(merge.rawValue)")
                    }
                }))
    ]
}
