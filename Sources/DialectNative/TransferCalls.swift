import ByteText
import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that move a purchase to another user, and that undo a transfer (spec/taking-back.md, section 2;
/// spec/entitlements.md, decision 5).
enum TransferCalls {
    static let routes = [
        Endpoint(
            .post, "/onym/v1/transfers", scope: .consoleAct,
            operation: Operation(
                id: "transfer_make", summary: "Moves a purchase to another user, without a receipt.",
                description: """
                    transaction is the original transaction, or the store and the original transaction: \
                    playstore:TOKEN. If several stores have the transaction, the answer is 409 ambiguous. to is a person \
                    with one identity of the Entitlements dialect, in any form. With ?dry_run=true nothing changes.
                    """,
                query: [DryRun.parameter, IfUnchanged.parameter],
                request: .object([
                    .init("transaction", .string("The purchase."), required: true),
                    .init("to", .string("The new owner."), required: true),
                    .init("reason", .string("The reason, for the journal.")),
                ]),
                responses: [.init(.ok, "The purchase, its former owners and its new owner.", schema: moved)]
                    + Native.problems([.badRequest, .notFound, .conflict, .unprocessableContent])),
            action: .steps(
                body: BufferedBody(),
                decode: { request, caller, tools throws(Rejection) in
                    let wanted = try Wanted(request, caller, tools)
                    return .read { snapshot throws(StoreFault) in try wanted.step(snapshot) }
                })),
        Endpoint(
            .post, "/onym/v1/transfers/:id/undo", scope: .consoleAct,
            operation: Operation(
                id: "transfer_undo", summary: "Undoes the transfer of a restore.",
                query: [DryRun.parameter, IfUnchanged.parameter],
                responses: [.init(.ok, "The purchases and their owners.", schema: schema)]
                    + Native.problems([.badRequest, .notFound, .conflict, .unprocessableContent])),
            action: .steps(
                body: .optional,
                decode: { request, caller, _ throws(Rejection) in
                    let name = request.parameters[0]
                    guard name.hasPrefix("t_"), let number = Int64(decimal: name.dropFirst(2)) else {
                        throw Rejection(Native.problem(.refused(.noSuchTransfer), request.id))
                    }
                    let transfer = TransferID(rawValue: number)
                    let (isDry, unchanged) = (try request.isDryRun(), try IfUnchanged(request))
                    let (id, project) = (request.id, caller.project)
                    return .read { snapshot throws(StoreFault) in
                        let made = try snapshot.transfer(transfer).flatMap { $0.project == project ? $0 : nil }
                        let people = made?.moves.flatMap { $0.before.owners + $0.after.owners } ?? []
                        if isDry {
                            return try unchanged.rehearse(UndoTransfer(transfer), ifSame: people, id, snapshot) {
                                reply, last in
                                answer(reply, last) ?? Native.problem(.refused(.noSuchTransfer), id)
                            }
                        }
                        let call = PreparedCall(UndoTransfer(transfer)) { reply, _ in answer(reply, nil) }
                        return try unchanged.step(call, ifSame: people, id, snapshot)
                    }
                })),
    ]

    /// A request to move a purchase.
    private struct Wanted: Sendable {
        let transaction: String
        let to: PersonName
        let reason: String?
        let isDry: Bool
        let unchanged: IfUnchanged
        let project: ProjectID
        let id: RequestID

        init(_ request: borrowing Request, _ caller: Caller, _ tools: LoopTools) throws(Rejection) {
            var (transaction, to, reason): (String?, String?, String?)
            try AdminText.read(request, tools) { key, value throws(JSONFault) in
                switch key {
                case "transaction": transaction = try value.string(at: "transaction")
                case "to": to = try value.string(at: "to")
                case "reason": reason = try MergeCalls.reason(value)
                default: return false
                }
                return true
            }
            guard let transaction, let to, !transaction.isEmpty else {
                throw AdminText.wrong("transaction and to are required.", request.id)
            }
            (self.transaction, self.to, self.reason) = (transaction, PersonName(to, caller, tools), reason)
            (isDry, project, id) = (try request.isDryRun(), caller.project, request.id)
            unchanged = try IfUnchanged(request)
        }

        func step(_ snapshot: any Snapshot) throws(StoreFault) -> Step {
            let purchases = try purchases(snapshot)
            guard let named = purchases.first else { return refuse(.noSuchPurchase) }
            if purchases.count > 1 {
                let names = purchases.map { "\($0.source.name):\($0.originalTransaction)" }.joined(separator: ", ")
                return .answer(
                    Native.problem(
                        .conflict, code: "ambiguous", "Several stores have this transaction; name one: \(names).", id))
            }
            // A replaced purchase gives nothing.
            let purchase = try named.present { id throws(StoreFault) in try snapshot.purchase(id) }
            let person: PersonID
            switch to.find(in: project, snapshot) {
            case .failure(let problem): return .answer(problem.response(id))
            case .success(let found): person = found
            }
            var users: [AccessUser] = []
            for member in snapshot.group(of: person).members {
                guard let user = try snapshot.accessUser(member), user.identity != nil else { continue }
                // A name of one user means this user, and not the others of its group.
                if member == person { users = [user] }
                if !users.contains(where: { $0.person == person }) { users.append(user) }
            }
            guard let user = users.first else { return refuse(.noAccessIdentity) }
            if users.count > 1 {
                let names = users.map { String($0.person.rawValue) }.joined(separator: ", ")
                return .answer(
                    Native.problem(
                        .conflict, code: "ambiguous", "Several users are this person; name one: \(names).", id))
            }
            var from: [String] = []
            for owner in purchase.owners { from += [try snapshot.accessUser(owner)?.principal].compactMap(\.self) }
            let (former, name) = (from, user.principal)
            @Sendable func answer(_ transfer: TransferID?, _ last: JournalSequence?) -> Response {
                let item: Item = (purchase.transaction, purchase.product, former.filter { $0 != name }, [name])
                return Native.json(.ok) { json in
                    write(transfer, isDry: last != nil, [item], &json)
                    IfUnchanged.write(last, &json)
                }
            }
            let act = MovePurchase(purchase.id, to: user.person, reason: reason)
            let people = purchase.owners + [user.person]
            if isDry {
                return try unchanged.rehearse(act, ifSame: people, id, snapshot) { _, last in answer(nil, last) }
            }
            let call = PreparedCall(act) { moved, _ in answer(moved.transfer, nil) }
            return try unchanged.step(call, ifSame: people, id, snapshot)
        }

        private func refuse(_ refusal: Refusal) -> Step { .answer(Native.problem(.refused(refusal), id)) }

        /// The purchases of all stores and worlds that the transaction names.
        private func purchases(_ snapshot: any Snapshot) throws(StoreFault) -> [Purchase] {
            var sources = Purchase.Source.allCases
            var original = transaction
            if let colon = transaction.firstIndex(of: ":"),
                let source = sources.first(where: { $0.name == transaction[..<colon] })
            {
                (sources, original) = ([source], String(transaction[transaction.index(after: colon)...]))
            }
            var found: [Purchase] = []
            for source in sources {
                for world in AccessWorld.allCases {
                    let id = PurchaseID(source, original, in: world, of: project, hash: snapshot.hash)
                    if let purchase = try snapshot.purchase(id) { found.append(purchase) }
                }
            }
            return found
        }
    }

    private static let moved = Schema.object([
        .init("id", AdminText.optionalText, required: true), .init("dry_run", .boolean(), required: true),
        transactions, IfUnchanged.member,
    ])

    /// A purchase with its former owners and its new owners.
    private typealias Item = (transaction: String, product: String, from: [String], to: [String])

    /// The answer to an undo; nil if a call of another kind had the same key.
    ///
    /// - Parameter last: the last call that a dry run knew; nil for the undo itself.
    private static func answer(_ reply: AccessReply, _ last: JournalSequence?) -> Response? {
        guard case .transferUndone(let undone) = reply.plain else { return nil }
        return Native.json(.ok) { json in
            let items: [Item] = undone.items.map { ($0.transaction, $0.product, $0.from.names, $0.to.names) }
            write(undone.id, isDry: last != nil, items, &json)
            IfUnchanged.write(last, &json)
        }
    }

    private static func write(_ id: TransferID?, isDry: Bool, _ items: [Item], _ json: inout JSONWriter) {
        json.key("id")
        json.string(id.map { "t_\($0.rawValue)" })
        json.key("dry_run")
        json.bool(isDry)
        json.key("transactions")
        json.array { json in
            for item in items {
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

    private static let schema = Schema.object([
        .init("id", .string(), required: true), .init("dry_run", .boolean(), required: true), transactions,
        IfUnchanged.member,
    ])

    private static let transactions = Schema.Property(
        "transactions",
        .array(
            .object([
                .init("transaction_id", .string(), required: true), .init("product_id", .string(), required: true),
                .init("from", .array(.string()), required: true), .init("to", .array(.string()), required: true),
            ])), required: true)
}
