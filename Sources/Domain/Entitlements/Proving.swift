/// The handling of confirmed receipts for known principals (spec/entitlements-live.md 2). A receipt is a proof: the install
/// joins the store account that paid. Only a restore moves a purchase to other owners.
struct Proving {
    /// The reason for which a call has sent receipts.
    enum Purpose: Equatable, Sendable {
        /// A person asked for the purchases. The strategy decides about the purchases of other identities.
        case restore(RestoreStrategy)
        /// The app sent what it has, at a start or by its own code. No owner changes.
        case sync
        /// The app reports this purchase as new. All other receipts only join.
        case purchase(PurchaseID)

        /// Whether an unknown purchase belongs to the signed-in identity.
        fileprivate func owns(_ purchase: PurchaseID) -> Bool {
            switch self {
            case .restore: true
            case .sync: false
            case .purchase(let bought): bought == purchase
            }
        }
    }

    /// The results of the receipts.
    struct Proven {
        fileprivate(set) var items: [Restored.Item] = []
        fileprivate(set) var transfer: TransferID?
        /// All changes, with the events for the people concerned.
        fileprivate(set) var changes: [Change] = []
        /// The purchases of the receipts, in their order.
        fileprivate(set) var purchases: [Purchase] = []
    }

    /// Nil for an invalid receipt.
    let receipts: [Receipt?]
    let purpose: Purpose
    /// The strategy that a transfer notes.
    let strategy: RestoreStrategy

    func prove<V: DocumentFacts>(
        for principals: AccessPrincipals, _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Proven {
        let catalog = view.catalog(of: project)
        var ledger = AccessLedger(view, at: stamp.at, catalog)
        var proven = Proven()
        var moves: [Transfer.Move] = []
        var events: [Change] = []
        for receipt in receipts {
            guard let receipt else {
                proven.items.append(Restored.Item(transaction: nil, product: nil, outcome: .invalid))
                continue
            }
            let stored = ledger.purchase(receipt.purchase)
            // A purchase that only the store has told of is new for its first user.
            let known = stored.flatMap { $0.isUnclaimed ? nil : $0 }
            guard isTrusted(receipt, known, principals, ledger) else {
                proven.items.append(
                    Restored.Item(transaction: receipt.transaction, product: receipt.product, outcome: .invalid))
                continue
            }
            var purchase = stored ?? Purchase(receipt, reporter: principals.user.person)
            purchase.reporter = known?.reporter ?? principals.user.person
            purchase.forgottenAt = nil
            purchase.take(receipt, at: stamp.at, catalog)
            ledger.replace(receipt.replaces, by: &purchase, isNew: known == nil)
            if known == nil { ledger.follow(receipt.itemOf, with: &purchase, isNew: true) }
            // A new purchase that replaces another one has its owners.
            let before = Transfer.Side(purchase)
            let hasOwners = known != nil || !before.owners.isEmpty
            if let known, known.isFrozen(catalog) {
                // Nobody joins and nobody loses anything. What the store says counts all the same.
                let hasPart = principals.rule(for: known) != nil
                if !hasPart, purpose != .sync {
                    purchase.keep(from: principals.identity?.person ?? principals.user.person)
                }
                ledger.put(purchase)
                proven.purchases.append(purchase)
                events += self.events(
                    purchase, since: known, before, before, hasJoined: false, catalog.product(purchase.product),
                    principals, stamp, ledger)
                proven.items.append(
                    Restored.Item(
                        transaction: receipt.transaction, product: receipt.product,
                        outcome: hasPart ? .yours : .frozen))
                continue
            }
            let wasJoined = principals.payer == nil || principals.pays(purchase)
            let outcome = try outcome(of: &purchase, isKnown: hasOwners, catalog, principals, stamp, &ledger)
            do throws(Refusal) {
                try ledger.join(principals.payer?.person, to: &purchase, by: receipt.accounts)
            } catch {
                // A start must not fail because an install has more purchases than the server keeps for it. What the store
                // says of a known purchase counts all the same.
                guard purpose == .sync else { throw error }
                if stored != nil { ledger.put(purchase) }
                continue
            }
            proven.purchases.append(purchase)
            let after = Transfer.Side(purchase)
            if hasOwners, before != after {
                moves.append(Transfer.Move(purchase: purchase.id, before: before, after: after))
            }
            events += self.events(
                purchase, since: known, before, after, hasJoined: !wasJoined,
                catalog.product(purchase.product), principals, stamp, ledger)
            proven.items.append(
                Restored.Item(
                    transaction: receipt.transaction, product: receipt.product, outcome: outcome.kind,
                    others: NamedPeople(outcome.people, in: ledger)))
        }
        let taken = receipts.compactMap { $0 }.filter { receipt in
            proven.purchases.contains { $0.id == receipt.purchase }
        }
        ledger.replaceLate(receipts.compactMap { $0 })
        for item in ledger.settleItems(of: taken) {
            let ended = AccessEvent.purchased(item, isActive: false)
            events += ledger.audience(of: item).map { .rowAdded($0, ended.row(stamp)) }
        }
        ledger.scheduleChecks(in: project)
        proven.changes = ledger.changes
        if !moves.isEmpty {
            let made = Transfer(
                id: TransferID(rawValue: stamp.person.rawValue), in: project, user: principals.user.person,
                at: stamp.at, strategy: strategy, moves: moves)
            proven.transfer = made.id
            proven.changes.append(made.put)
        }
        if !proven.changes.isEmpty { proven.changes += events }
        return proven
    }

    /// Whether a receipt counts for the caller.
    private func isTrusted<V: DocumentFacts>(
        _ receipt: Receipt, _ known: Purchase?, _ principals: AccessPrincipals, _ ledger: AccessLedger<V>
    ) -> Bool {
        guard case .name(let user, let identity, let takesFirst) = receipt.trust else { return true }
        func hasPart(_ purchase: Purchase) -> Bool {
            principals.rule(for: purchase) != nil || principals.pays(purchase)
        }
        let ids = [principals.user, principals.install].compactMap { $0?.id }
        if let user, ids.contains(where: { $0.hasSameBytes(as: user) }) { return true }
        if let identity, principals.identity?.identity?.hasSameBytes(as: identity) == true { return true }
        if known.map(hasPart) ?? takesFirst { return true }
        return receipt.accounts.contains { name in
            ledger.account(name).paid.contains { ledger.purchase($0).map(hasPart) ?? false }
        }
    }

    /// Decides who owns a purchase.
    private func outcome<V: DocumentFacts>(
        of purchase: inout Purchase, isKnown: Bool, _ catalog: Catalog, _ principals: AccessPrincipals,
        _ stamp: Stamp, _ ledger: inout AccessLedger<V>
    ) throws(Refusal) -> Restored.Outcome {
        guard let identity = principals.identity?.person else { return .yours }
        let others = purchase.owners.filter { $0 != identity }
        guard isKnown, !others.isEmpty, !purchase.owners.contains(identity) else {
            // Nobody loses anything.
            let isOwner = purchase.owners.contains(identity)
            if !isOwner, isKnown ? isRestore : purpose.owns(purchase.id) { try ledger.own(&purchase, [identity]) }
            return .yours
        }
        guard case .restore(let strategy) = purpose else { return .kept(by: others) }
        let product = catalog.product(purchase.product)
        switch strategy {
        case .keepOriginal:
            purchase.keep(from: identity)
            return .kept(by: others)
        case .transferIfInactive where purchase.isSubscription(product) && purchase.isActive(at: stamp.at, product):
            purchase.keep(from: identity)
            return .kept(by: others)
        case .transfer, .transferIfInactive:
            try ledger.own(&purchase, [identity])
            return .moved(from: others)
        case .copy:
            try ledger.own(&purchase, purchase.owners + [identity])
            return .shared
        }
    }

    private var isRestore: Bool { if case .restore = purpose { true } else { false } }

    /// The events for the people whose access the receipt changes.
    private func events<V: DocumentFacts>(
        _ purchase: Purchase, since known: Purchase?, _ before: Transfer.Side, _ after: Transfer.Side, hasJoined: Bool,
        _ product: Catalog.Product?, _ principals: AccessPrincipals, _ stamp: Stamp, _ ledger: AccessLedger<V>
    ) -> [Change] {
        let isActive = purchase.isActive(at: stamp.at, product)
        func tell(_ people: [PersonID], _ event: AccessEvent) -> [Change] {
            people.map { .rowAdded($0, event.row(stamp)) }
        }
        let (lost, gained) = before.parties(goingTo: after)
        if !lost.isEmpty { return tell(lost + gained, .transferred(purchase, lost, gained)) }
        guard let known else {
            return isActive ? tell([principals.user.person], .purchased(purchase, isActive: true)) : []
        }
        let news = AccessEvent.purchased(purchase, isActive: isActive)
        if !gained.isEmpty { return isActive ? tell(gained, news) : [] }
        if hasJoined, isActive, principals.identity == nil || after.owners.isEmpty {
            return tell(principals.payer.map { [$0.person] } ?? [], news)
        }
        // The receipt may have new data about a purchase that stays with its owners.
        guard !purchase.history.isSame(as: known.history) else { return [] }
        guard isActive || known.isActive(at: stamp.at, product) else { return [] }
        return tell(ledger.audience(of: purchase), news)
    }
}
