import ByteText
import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The call that undoes the transfer of a restored purchase (spec/native.md, Administration;
/// spec/entitlements.md, decision 5).
enum TransferCalls {
    static let routes = [
        Endpoint(
            .post, "/onym/v1/transfers/:id/undo", scope: .consoleAct,
            operation: Operation(
                id: "transfer_undo", summary: "Undoes the transfer of a restore.",
                query: [.init("dry_run", .boolean("Whether the call only answers the result, and changes nothing."))],
                responses: [.init(.ok, "The purchases and their owners.", schema: schema)]
                    + Native.problems([.badRequest, .notFound, .conflict, .unprocessableContent])),
            action: .act(
                UndoTransfer.self, body: .optional,
                decode: { request, caller, _ throws(Rejection) in
                    let name = request.parameters[0]
                    guard name.hasPrefix("t_"), let id = Int64(decimal: name.dropFirst(2)) else {
                        throw Rejection(Native.problem(.refused(.noSuchTransfer), request.id))
                    }
                    let isDryRun = try request.isDryRun()
                    return Decoded(UndoTransfer(TransferID(rawValue: id), isDryRun: isDryRun))
                },
                encode: { reply, _, _ in
                    guard case .transferUndone(let undone) = reply else {
                        preconditionFailure("A transfer was to be undone, and something else was answered.")
                    }
                    return answer(undone)
                }))
    ]

    private static func answer(_ undone: TransferUndone) -> Response {
        Native.json(.ok) { json in
            json.key("id")
            json.string("t_\(undone.id.rawValue)")
            json.key("dry_run")
            json.bool(undone.isDryRun)
            json.key("transactions")
            json.array { json in
                for item in undone.items {
                    json.object { json in
                        json.key("transaction_id")
                        json.string(item.transaction)
                        json.key("product_id")
                        json.string(item.product)
                        for (key, names) in [("from", item.from), ("to", item.to)] {
                            json.key(key)
                            json.array { json in
                                for name in names { json.string(name) }
                            }
                        }
                    }
                }
            }
        }
    }

    private static let schema = Schema.object([
        .init("id", .string(), required: true), .init("dry_run", .boolean(), required: true),
        .init(
            "transactions",
            .array(
                .object([
                    .init("transaction_id", .string(), required: true), .init("product_id", .string(), required: true),
                    .init("from", .array(.string()), required: true), .init("to", .array(.string()), required: true),
                ])), required: true),
    ])
}
