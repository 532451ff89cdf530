/// A call that reports a purchase (spec/entitlements.md 1.6). It moves no purchase.
package struct RecordPurchase: Act {
    package let session: AccessSession
    /// The confirmed receipt, or the refusal of the call. Only a caller with a user gets this refusal.
    package let receipt: Result<Receipt, Refusal>

    package init(_ session: AccessSession, _ receipt: Result<Receipt, Refusal>) {
        self.session = session
        self.receipt = receipt
    }

    package static var kinds: [ActKind] { [.recordPurchase] }
    package var subjects: Subjects { Subjects(speaksFor: session.identities, signedIn: session.userSignedIn) }
    package var byteCount: Int { 1024 }

    /// Adds the purchase, or updates a known purchase. Throws `noSuchUser`, `sessionMismatch`, `tooManyPurchases`, the
    /// refusal of the receipt, and `badReceipt` for an expired or replayed receipt. A report of a known purchase changes no
    /// owner, because a copied receipt must not give access.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<AccessReply> {
        let principals = try view.principals(session)
        do throws(Refusal) {
            return try RecordPurchase.record(try receipt.get(), for: principals, stamp, in: project, view)
        } catch {
            // The journal notes the person that sent a bad receipt.
            throw error.isBadReceipt ? error.about(principals.user.person) : error
        }
    }

    /// Records a purchase for the principals of a session.
    static func record<V: DocumentFacts>(
        _ receipt: Receipt, for principals: AccessPrincipals, _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<AccessReply> {
        let circumstances = AccessCircumstances.purchased(AccessParties(principals), receipt)
        if let known = view.purchase(receipt.purchase) {
            return try update(known, receipt, principals, circumstances, stamp, view)
        }
        let catalog = view.catalog(of: project)
        if let end = receipt.expiry(catalog.product(receipt.product)), end <= stamp.at { throw .badReceipt(.expired) }
        var ledger = AccessLedger(view)
        let purchase = try ledger.add(receipt, for: principals)
        let event = AccessEvent.purchased(purchase).row(stamp)
        return Decision(
            .kept(.purchased(user: principals.user.id, isNew: true), circumstances),
            outcome: Outcome(
                kind: .recordPurchase, person: principals.user.person,
                changes: ledger.changes + [.rowAdded(principals.user.person, event)]))
    }

    /// Applies a receipt to a known purchase. The owners stay.
    private static func update<V: DocumentFacts>(
        _ known: Purchase, _ receipt: Receipt, _ principals: AccessPrincipals, _ circumstances: AccessCircumstances,
        _ stamp: Stamp, _ view: V
    ) throws(Refusal) -> Decision<AccessReply> {
        let isSeen = principals.rule(for: known) != nil
        let isNews = known.isBehind(receipt)
        // A user who is neither an owner nor the payer has copied the receipt of the same transaction.
        guard isNews || isSeen || principals.pays(known.account) else { throw .badReceipt(.replayed) }
        var purchase = known
        purchase.update(receipt)
        let user = purchase.user(shownTo: principals, view)
        let answer = AccessReply.purchased(user: user.id, isNew: false)
        guard purchase != known else { return Decision(answer) }
        // A repeated receipt only updates the moment of the signature, and makes no event.
        let events: [Change] =
            purchase.isSame(as: known)
            ? [] : [.rowAdded(user.person, AccessEvent.purchased(purchase).row(stamp))]
        return Decision(
            .kept(answer, circumstances),
            outcome: Outcome(
                kind: .recordPurchase, person: principals.user.person, changes: [purchase.put] + events))
    }
}

extension Purchase {
    /// The user of the answer: the user of the call if it sees the purchase.
    func user<V: DocumentFacts>(shownTo principals: AccessPrincipals, _ view: V) -> AccessUser {
        if principals.rule(for: self) != nil { return principals.user }
        var person = reporter
        if let owner = owners.first {
            person = owner
        } else if case .install(let payer) = account {
            person = payer
        }
        return view.accessUser(person) ?? principals.user
    }
}

/// The users, accounts and purchases of a decision. Each changed document is written once.
struct AccessLedger<V: DocumentFacts> {
    private let view: V
    private var users: [PersonID: AccessUser] = [:]
    private var accounts: [Hash128: NamedAccount] = [:]
    private var purchases: [PurchaseID: Purchase] = [:]

    init(_ view: V) { self.view = view }

    func purchase(_ id: PurchaseID) -> Purchase? { purchases[id] ?? view.purchase(id) }

    func user(_ person: PersonID) -> AccessUser? { users[person] ?? view.accessUser(person) }

    private func account(_ hash: Hash128) -> NamedAccount {
        accounts[hash] ?? NamedAccount(hash, packed: view.document(NamedAccount.key(hash)))
    }

    /// The changed documents, in the order of their ids.
    var changes: [Change] {
        purchases.values.sorted { $0.id.hash.low < $1.id.hash.low }.map(\.put)
            + accounts.values.sorted { $0.hash.low < $1.hash.low }.map(\.put)
            + users.values.sorted { $0.person < $1.person }.map(\.put)
    }

    /// Adds an unknown purchase. It belongs to the principals of the session.
    mutating func add(
        _ receipt: Receipt, for principals: AccessPrincipals
    ) throws(Refusal) -> Purchase {
        var purchase = Purchase(
            receipt, reporter: principals.user.person, account: nil, owners: [])
        if let identity = principals.identity { try own(&purchase, [identity.person]) }
        try bind(&purchase, to: receipt.account, of: principals)
        purchases[purchase.id] = purchase
        return purchase
    }

    mutating func put(_ purchase: Purchase) { purchases[purchase.id] = purchase }

    /// Gives a purchase to some identities, and removes all other owners.
    mutating func own(_ purchase: inout Purchase, _ owners: [PersonID]) throws(Refusal) {
        let isGrowing = owners.count > purchase.owners.count
        guard owners.count <= Purchase.ownersAtMost || !isGrowing else { throw .tooManyPurchases }
        for person in purchase.owners where !owners.contains(person) {
            guard var user = user(person) else { continue }
            user.owned.removeAll { $0 == purchase.id }
            users[person] = user
        }
        for person in owners {
            guard var user = user(person), !user.owned.contains(purchase.id) else { continue }
            guard user.owned.count < AccessUser.purchasesPerUser else { throw .tooManyPurchases }
            user.owned.append(purchase.id)
            users[person] = user
        }
        purchase.own(owners.sorted())
        purchases[purchase.id] = purchase
    }

    /// Binds a purchase to the store account that paid: the account that the store names, or else the install's account.
    mutating func bind(
        _ purchase: inout Purchase, to named: StoreAccount?, of principals: AccessPrincipals
    ) throws(Refusal) {
        let payer = principals.payer.map { user($0.person) ?? $0 }
        if case .named(let hash) = named {
            if var payer, !payer.accounts.contains(hash) {
                // An install sees only the purchases of accounts in this list.
                guard payer.accounts.count < AccessUser.accountsPerUser else { throw .tooManyPurchases }
                payer.accounts.append(hash)
                users[payer.person] = payer
            }
            try set(named, of: &purchase)
        } else if let payer {
            try set(.install(payer.person), of: &purchase)
        }
    }

    /// Sets the store account that paid.
    mutating func set(_ account: StoreAccount?, of purchase: inout Purchase) throws(Refusal) {
        guard account != purchase.account else { return }
        switch purchase.account {
        case .install(let person):
            if var user = user(person) {
                user.paid.removeAll { $0 == purchase.id }
                users[person] = user
            }
        case .named(let hash):
            var known = self.account(hash)
            known.paid.removeAll { $0 == purchase.id }
            accounts[hash] = known
        case nil: break
        }
        switch account {
        case .install(let person):
            if var user = user(person), !user.paid.contains(purchase.id) {
                guard user.paid.count < AccessUser.purchasesPerUser else { throw .tooManyPurchases }
                user.paid.append(purchase.id)
                users[person] = user
            }
        case .named(let hash):
            var known = self.account(hash)
            guard known.paid.count < AccessUser.purchasesPerUser else { throw .tooManyPurchases }
            if !known.paid.contains(purchase.id) { known.paid.append(purchase.id) }
            accounts[hash] = known
        case nil: break
        }
        purchase.account = account
        purchases[purchase.id] = purchase
    }
}

extension ActKind {
    package static let recordPurchase = ActKind(44, "purchase")
}
