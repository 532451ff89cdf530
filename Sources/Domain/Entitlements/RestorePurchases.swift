/// A call that sends the receipts of an install: a restore, the start of an app, or the report of a purchase
/// (spec/entitlements-live.md 2).
package struct RestorePurchases: Act {
    /// The reason for which the call sends the receipts.
    package enum Extent: Equatable, Sendable {
        /// A person asked for the purchases, with the strategy of the call if the call names one.
        case restore(NamedStrategy?)
        /// The app sent what it has. No owner changes.
        case sync
        /// The app reports this purchase as new. All other receipts only join the store account.
        case purchase(PurchaseID)

        func purpose(by strategy: RestoreStrategy) -> Proving.Purpose {
            switch self {
            case .restore(let named): .restore(named?.strategy ?? strategy)
            case .sync: .sync
            case .purchase(let id): .purchase(id)
            }
        }

        /// Whether the call may have its strategy under the strategy of the project.
        func isAllowed(by strategy: RestoreStrategy) -> Bool {
            if case .restore(let named?) = self { named.isAllowed(by: strategy) } else { true }
        }
    }

    package let session: AccessSession
    package let extent: Extent
    /// The confirmed receipts, and the faults of other receipts.
    package let items: [Result<Receipt, ReceiptFault>]
    private let world: AccessWorld
    /// Whether the caller may merge nobody, because it has no proof (spec/rules.md, decision 9).
    private var mergesNobody = false

    /// The same call of a caller that may merge nobody.
    var mergingNobody: RestorePurchases {
        var call = self
        call.mergesNobody = true
        return call
    }

    /// The limit of transactions in one call: a user has no more purchases.
    package static let itemsPerCall = AccessUser.purchasesPerUser

    package init(
        _ session: AccessSession, _ items: [Result<Receipt, ReceiptFault>], _ extent: Extent,
        in world: AccessWorld
    ) {
        self.session = session
        self.items = items
        self.extent = extent
        self.world = world
    }

    package static var kinds: [ActKind] { [.restorePurchases] }
    // The owners of purchases do not depend on merges. The merges of a restore may, but the journal must not keep receipts
    // (docs/decisions/0029).
    package static var readsMerges: Bool { false }
    package var subjects: Subjects {
        Subjects(
            speaksFor: session.identities, signedIn: session.userSignedIn,
            purchases: items.compactMap { try? $0.get().purchase })
    }
    package var byteCount: Int { 512 * (1 + items.count) }

    /// Joins the install to the store accounts of the confirmed receipts, and restores purchases by the strategy. Throws
    /// `strategyNotAllowed` if a client's key names a strategy that gives more access than the project's strategy,
    /// `noSuchUser`, `sessionMismatch`, and `tooManyPurchases`. Each copy of the app has the client's key, so a client must
    /// not choose a more generous strategy.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<AccessReply> {
        let strategy = view.strategy(of: project).restore[world]
        guard extent.isAllowed(by: strategy) else { throw .strategyNotAllowed }
        let receipts = items.map { try? $0.get() }
        let principals = try view.principals(session)
        let restorer = principals.identity?.person ?? principals.user.person
        let joins = view.strategy(of: project).restore.joinsAnonymous && !mergesNobody
        let buyers = joins ? receipts.map { $0.flatMap { view.buyer(of: $0.purchase, beside: restorer) } } : []
        return try RestorePurchases.decide(
            receipts, extent, by: strategy, for: principals, in: world, stamp, project, view
        ) { items in
            let restored = zip(buyers, items).compactMap { buyer, item in
                item.outcome == .invalid || item.outcome == .frozen ? nil : buyer
            }
            return view.merges(of: restored, into: restorer, stamp, in: project)
        }
    }

    /// Decides the call for known principals.
    ///
    /// - Parameters:
    ///   - receipts: the receipts; nil for an invalid one.
    ///   - joining: the merges with the buyers of the purchases in a restore, by the results of the receipts.
    static func decide<V: DocumentFacts>(
        _ receipts: [Receipt?], _ extent: Extent, by project: RestoreStrategy,
        for principals: AccessPrincipals, in world: AccessWorld, _ stamp: Stamp, _ projectID: ProjectID, _ view: V,
        joining: ([Restored.Item]) -> [Change] = { _ in [] }
    ) throws(Refusal) -> Decision<AccessReply> {
        let purpose = extent.purpose(by: project)
        let strategy = if case .restore(let strategy) = purpose { strategy } else { project }
        let proving = Proving(receipts: receipts, purpose: purpose, strategy: strategy)
        let proven = try proving.prove(for: principals, stamp, in: projectID, view)
        let restored = Restored(
            user: principals.user.id, strategy: strategy, transfer: proven.transfer, items: proven.items)
        // The journal notes an invalid receipt, as for a reported purchase. It also notes once that a purchase stayed,
        // because other rules would move that purchase.
        let isForged = receipts.contains { $0 == nil }
        var changes = proven.changes
        if case .restore = purpose { changes += joining(proven.items) }
        if changes.isEmpty, !isForged { return Decision(.restored(restored)) }
        return Decision(
            .kept(.restored(restored), .restored(AccessParties(principals), receipts, extent, in: world)),
            outcome: Outcome(kind: .restorePurchases, person: principals.user.person, changes: changes),
            full: Purchase.sharing(changes, at: stamp.at))
    }
}

extension DecisionFacts {
    /// The person that first reported a purchase that no other identity owns than the restorer's; nil if only the store has told
    /// of the purchase.
    fileprivate func buyer(of purchase: PurchaseID, beside restorer: PersonID) -> PersonID? {
        let known = document(purchase.key).flatMap { Purchase(purchase, packed: $0) }
        return known.flatMap { known in
            known.isUnclaimed || known.owners.contains { $0 != restorer } ? nil : known.reporter
        }
    }

    /// The merges of anonymous buyers with the person that restores their purchases.
    fileprivate func merges(
        of buyers: [PersonID], into restorer: PersonID, _ stamp: Stamp, in project: ProjectID
    ) -> [Change] {
        let strategy = strategy(of: project)
        var joined = Joined([])
        var others = [restorer]
        var merges: [Change] = []
        var next = stamp.person
        var met: Set<PersonID> = [restorer]
        for buyer in buyers where met.insert(buyer).inserted {
            guard person(buyer, in: project) != nil, !areMerged(buyer, restorer, by: .restore) else { continue }
            let group = group(of: buyer)
            if group.root != self.group(of: restorer).root {
                guard !totals(of: group).identities.contains(where: { $0.value > 0 && strategy.makesKnown($0.key) }),
                    !joined.isFull(joining: buyer, restorer, strategy.guards.bounds, self),
                    others.allSatisfy({ reasonToKeepApart(buyer, $0) == nil })
                else { continue }
            }
            if SameUserID.areParted(buyer, restorer, self) { continue }
            let merge = Merge(id: MergeID(rawValue: next.rawValue), from: buyer, into: restorer, rule: .restore)
            joined.add(merge)
            others.append(buyer)
            merges.append(.merged(merge))
            next = next.next
        }
        return merges
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
        /// The people that lost the purchase, or that keep it.
        package let others: NamedPeople

        init(transaction: String?, product: String?, outcome: Kind, others: NamedPeople = NamedPeople()) {
            self.transaction = transaction
            self.product = product
            self.outcome = outcome
            self.others = others
        }
    }

    /// Stores keep the raw values, so a raw value never changes.
    package enum Kind: UInt8, Sendable {
        case yours = 1
        case moved = 2
        case shared = 3
        case kept = 4
        case invalid = 5
        /// Too many have proven the purchase, and the project freezes such purchases.
        case frozen = 6

        package var name: StaticString {
            switch self {
            case .yours: "yours"
            case .moved: "moved"
            case .shared: "shared"
            case .kept: "kept"
            case .invalid: "invalid"
            case .frozen: "frozen"
            }
        }
    }

    enum Outcome {
        case yours
        case moved(from: [PersonID])
        case shared
        case kept(by: [PersonID])

        var kind: Kind {
            switch self {
            case .yours: .yours
            case .moved: .moved
            case .shared: .shared
            case .kept: .kept
            }
        }

        var people: [PersonID] {
            switch self {
            case .moved(let people), .kept(let people): people
            case .yours, .shared: []
            }
        }
    }

    package let user: String
    package let strategy: RestoreStrategy
    /// The transfer, for an undo of the moves; nil if no purchase moved.
    package let transfer: TransferID?
    package let items: [Item]

    /// Whether all purchases of the call are frozen.
    package var isFrozen: Bool { !items.isEmpty && items.allSatisfy { $0.outcome == .frozen } }
}

extension ActKind {
    package static let restorePurchases = ActKind(45, "restore", undo: .facts(needs: .consoleAct))
}
