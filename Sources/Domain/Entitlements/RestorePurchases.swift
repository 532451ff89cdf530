/// A call that restores purchases on an install (spec/entitlements.md, decision 5, and 2.4 rule 6). No other call moves
/// purchases to new owners.
package struct RestorePurchases: Act {
    package let session: AccessSession
    /// The strategy of the call; nil for the project's strategy.
    package let named: NamedStrategy?
    /// The confirmed receipts, and the faults of other receipts.
    package let items: [Result<Receipt, ReceiptFault>]
    package let isDryRun: Bool
    private let world: AccessWorld

    /// The limit of transactions in one call.
    package static let itemsPerCall = 100

    /// - Parameter isByServer: whether the call has a server's key.
    package init(
        _ session: AccessSession, _ items: [Result<Receipt, ReceiptFault>], strategy: RestoreStrategy?,
        isByServer: Bool = true, isDryRun: Bool, in world: AccessWorld
    ) {
        self.session = session
        self.items = items
        named = strategy.map { NamedStrategy($0, isByServer: isByServer) }
        self.isDryRun = isDryRun
        self.world = world
    }

    package static var kinds: [ActKind] { [.restorePurchases] }
    package var subjects: Subjects { Subjects(speaksFor: session.identities, signedIn: session.userSignedIn) }
    package var byteCount: Int { 512 * (1 + items.count) }

    /// Restores the confirmed purchases by the strategy. Throws `strategyNotAllowed` if a client's key names a strategy that
    /// gives more access than the project's strategy, `noSuchUser`, `sessionMismatch`, and `tooManyPurchases`. Each copy of
    /// the app has the client's key, so a client must not choose a more generous strategy.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<AccessReply> {
        let strategy = view.strategy(of: project).restore[world]
        guard named?.isAllowed(by: strategy) ?? true else { throw .strategyNotAllowed }
        let principals = try view.principals(session)
        let parties = AccessParties(principals)
        let receipts = items.map { try? $0.get() }
        let restoring = Restoring(
            receipts: receipts, strategy: named?.strategy ?? strategy, isDryRun: isDryRun,
            circumstances: .restored(parties, receipts, by: named, in: world))
        return try restoring.decide(for: principals, stamp, in: project, view)
    }
}

/// A restore for known principals.
struct Restoring {
    /// Nil for an invalid receipt.
    let receipts: [Receipt?]
    let strategy: RestoreStrategy
    let isDryRun: Bool
    let circumstances: AccessCircumstances

    /// Restores each receipt by the strategy, and makes one transfer for all purchases that move, so that one undo moves
    /// all of them back. Throws `tooManyPurchases`.
    func decide<V: DocumentFacts>(
        for principals: AccessPrincipals, _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<AccessReply> {
        let catalog = view.catalog(of: project)
        var ledger = AccessLedger(view)
        var results: [Restored.Item] = []
        var moves: [Transfer.Move] = []
        var events: [Change] = []
        for receipt in receipts {
            guard let receipt else {
                results.append(Restored.Item(transaction: nil, product: nil, outcome: .invalid))
                continue
            }
            let outcome: Restored.Outcome
            if var purchase = ledger.purchase(receipt.purchase) {
                let (known, before) = (purchase, Transfer.Side(purchase))
                purchase.update(receipt)
                let isNews = !purchase.isSame(as: known)
                let product = catalog.product(purchase.product)
                outcome = try restore(&purchase, receipt, product, strategy, principals, stamp, &ledger)
                ledger.put(purchase)
                let after = Transfer.Side(purchase)
                if before != after { moves.append(Transfer.Move(purchase: purchase.id, before: before, after: after)) }
                let told = self.events(purchase, before, after, principals, stamp)
                events += told
                // The receipt may have new data about a purchase that stays with its owners.
                if told.isEmpty, isNews {
                    let user = purchase.user(shownTo: principals, view)
                    events.append(.rowAdded(user.person, AccessEvent.purchased(purchase).row(stamp)))
                }
            } else if receipt.expiry(catalog.product(receipt.product)).map({ $0 <= stamp.at }) ?? false {
                // The purchase is unknown and gives no access.
                outcome = .invalid
            } else {
                let purchase = try ledger.add(receipt, for: principals)
                events.append(.rowAdded(principals.user.person, AccessEvent.purchased(purchase).row(stamp)))
                outcome = .yours
            }
            let names = outcome.people.compactMap { ledger.user($0)?.identity }.sorted()
            results.append(
                Restored.Item(
                    transaction: receipt.transaction, product: receipt.product, outcome: outcome.kind, names: names))
        }
        var changes = ledger.changes.filter { !isAsBefore($0, view) }
        var transfer: TransferID?
        if !moves.isEmpty {
            let made = Transfer(
                id: TransferID(rawValue: stamp.person.rawValue), in: project, user: principals.user.person,
                at: stamp.at,
                strategy: strategy, moves: moves)
            transfer = made.id
            changes.append(made.put)
        }
        let restored = Restored(
            user: principals.user.id, strategy: strategy, isDryRun: isDryRun, transfer: isDryRun ? nil : transfer,
            items: results)
        // The journal notes an invalid receipt, as for a reported purchase. It also notes once that a purchase stayed,
        // because other rules would move that purchase.
        let isForged = receipts.contains { $0 == nil }
        if isDryRun || (changes.isEmpty && !isForged) { return Decision(.restored(restored)) }
        return Decision(
            .kept(.restored(restored), circumstances),
            outcome: Outcome(kind: .restorePurchases, person: principals.user.person, changes: changes + events))
    }

    private func isAsBefore<V: DocumentFacts>(_ change: Change, _ view: V) -> Bool {
        guard case .documentPut(let key, _, let body) = change else { return false }
        return view.document(key) ?? [] == body
    }

    private func restore<V: DocumentFacts>(
        _ purchase: inout Purchase, _ receipt: Receipt, _ product: Catalog.Product?, _ strategy: RestoreStrategy,
        _ principals: AccessPrincipals, _ stamp: Stamp, _ ledger: inout AccessLedger<V>
    ) throws(Refusal) -> Restored.Outcome {
        guard let identity = principals.identity?.person else {
            // No signed-in user loses access by this binding.
            try ledger.bind(&purchase, to: receipt.account ?? purchase.namedAccount, of: principals)
            return .yours
        }
        let others = purchase.owners.filter { $0 != identity }
        if purchase.owners.contains(identity) || purchase.owners.isEmpty {
            try ledger.own(&purchase, purchase.owners.isEmpty ? [identity] : purchase.owners)
            try ledger.bind(&purchase, to: receipt.account ?? purchase.namedAccount, of: principals)
            return .yours
        }
        switch strategy {
        case .keepOriginal:
            purchase.keep(from: identity)
            return .kept(by: others)
        case .transferIfInactive where purchase.isSubscription(product) && purchase.isActive(at: stamp.at, product):
            purchase.keep(from: identity)
            return .kept(by: others)
        case .transfer, .transferIfInactive:
            try ledger.own(&purchase, [identity])
            try ledger.bind(&purchase, to: receipt.account ?? purchase.namedAccount, of: principals)
            return .moved(from: others)
        case .copy:
            try ledger.own(&purchase, purchase.owners + [identity])
            try ledger.bind(&purchase, to: receipt.account ?? purchase.namedAccount, of: principals)
            return .shared
        }
    }

    /// The events for both sides.
    private func events(
        _ purchase: Purchase, _ before: Transfer.Side, _ after: Transfer.Side, _ principals: AccessPrincipals,
        _ stamp: Stamp
    ) -> [Change] {
        let (lost, gained) = before.parties(goingTo: after, by: principals.payer?.person)
        if lost.isEmpty {
            return gained.map { .rowAdded($0, AccessEvent.purchased(purchase).row(stamp)) }
        }
        return (lost + gained).map { .rowAdded($0, AccessEvent.transferred(purchase, lost, gained).row(stamp)) }
    }
}

extension Purchase {
    /// The account that a store has named before.
    fileprivate var namedAccount: StoreAccount? {
        if case .named = account { account } else { nil }
    }
}

/// The answer to ``RestorePurchases``.
package struct Restored: Equatable, Sendable {
    /// The result for one transaction.
    package struct Item: Equatable, Sendable {
        /// The transaction; nil for an invalid receipt.
        package let transaction: String?
        package let product: String?
        package let outcome: Kind
        /// The identities that lost the purchase, or that keep it.
        package let names: [String]

        init(transaction: String?, product: String?, outcome: Kind, names: [String] = []) {
            self.transaction = transaction
            self.product = product
            self.outcome = outcome
            self.names = names
        }
    }

    /// Stores keep the raw values, so a raw value never changes.
    package enum Kind: UInt8, Sendable {
        case yours = 1
        case moved = 2
        case shared = 3
        case kept = 4
        case invalid = 5

        package var name: StaticString {
            switch self {
            case .yours: "yours"
            case .moved: "moved"
            case .shared: "shared"
            case .kept: "kept"
            case .invalid: "invalid"
            }
        }
    }

    enum Outcome {
        case yours
        case moved(from: [PersonID])
        case shared
        case kept(by: [PersonID])
        case invalid

        var kind: Kind {
            switch self {
            case .yours: .yours
            case .moved: .moved
            case .shared: .shared
            case .kept: .kept
            case .invalid: .invalid
            }
        }

        var people: [PersonID] {
            switch self {
            case .moved(let people), .kept(let people): people
            case .yours, .shared, .invalid: []
            }
        }
    }

    package let user: String
    package let strategy: RestoreStrategy
    package let isDryRun: Bool
    /// The transfer, for an undo of the moves; nil if no purchase moved.
    package let transfer: TransferID?
    package let items: [Item]
}

extension ActKind {
    package static let restorePurchases = ActKind(45, "restore")
}
