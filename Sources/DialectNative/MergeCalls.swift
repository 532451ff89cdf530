import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// Taking merges back (spec/native.md, People).
enum MergeCalls {
    static let routes = [
        SurfaceRoute(
            .post, "/onym/v1/merges", scope: .admin,
            operation: Operation(
                id: "merge_make",
                summary: "Says that one person is another: they are read as one. Nothing is rewritten.",
                request: .object([
                    .init("from", .string("A person's id."), required: true),
                    .init("into", .string("The id of whoever that is."), required: true),
                ]),
                responses: [
                    .init(
                        .ok, "They are one.",
                        schema: .object([
                            .init("id", .string(), required: true), .init("from", .string(), required: true),
                            .init("into", .string(), required: true),
                        ]))
                ] + Native.problems([.badRequest, .notFound, .conflict, .unprocessableContent])),
            action: .command(
                body: BufferedBody(),
                decode: { request, _, tools throws(Rejection) in
                    var (from, into): (Int64?, Int64?)
                    do throws(JSONFault) {
                        try tools.json.read(request.body) { root throws(JSONFault) in
                            try root.forEachMember(at: "the body") { key, value throws(JSONFault) in
                                switch key {
                                case "from": from = Int64(decimal: try value.string(at: "from"))
                                case "into": into = Int64(decimal: try value.string(at: "into"))
                                default: throw JSONFault(.wrong("is not a member of this call"), at: key.shown)
                                }
                            }
                        }
                    } catch {
                        throw Rejection(
                            Native.problem(.badRequest, code: Native.validationError, error.message, request.id))
                    }
                    guard let from, let into else {
                        throw Rejection(
                            Native.problem(
                                .badRequest, code: Native.validationError,
                                "from and into must be ids of people: strings of digits.", request.id))
                    }
                    return DecodedCommand(
                        .mergePeople(
                            MergePeople(from: PersonID(rawValue: from), into: PersonID(rawValue: into))))
                },
                encode: { reply, _, _ in
                    guard case .merged(let merge) = reply else {
                        preconditionFailure("A merge was asked for, and something else was answered.")
                    }
                    return Native.json(.ok) { json in
                        json.key("id")
                        json.string("m_\(merge.id.rawValue)")
                        json.key("from")
                        json.decimalString(merge.from.rawValue)
                        json.key("into")
                        json.decimalString(merge.into.rawValue)
                    }
                })),
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
                })),
    ]
}
