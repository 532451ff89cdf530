/// The users, accounts and purchases of a decision. Each changed document is written once.
struct AccessLedger<V: DocumentFacts> {
    private let view: V
    private let moment: Instant
    private let catalog: Catalog
    private var users: [PersonID: AccessUser] = [:]
    private var accounts: [Hash128: NamedAccount] = [:]
    private var purchases: [PurchaseID: Purchase] = [:]
    private var checks: CheckLists
    private var removed: Set<PurchaseID> = []
    private var ended: Set<PersonID> = []

    /// - Parameters:
    ///   - view: the facts of the decision.
    ///   - moment: the moment of the call.
    ///   - catalog: the products and the settings of the project.
    ///   - checks: lists that the decision has changed already.
    init(_ view: V, at moment: Instant, _ catalog: Catalog, checks: CheckLists = CheckLists()) {
        self.checks = checks
        self.view = view
        self.moment = moment
        self.catalog = catalog
    }

    func purchase(_ id: PurchaseID) -> Purchase? {
        removed.contains(id) ? nil : purchases[id] ?? view.purchase(id)
    }

    func user(_ person: PersonID) -> AccessUser? {
        ended.contains(person) ? nil : users[person] ?? view.accessUser(person)
    }

    func account(_ hash: Hash128) -> NamedAccount {
        accounts[hash] ?? NamedAccount(hash, packed: view.document(NamedAccount.key(hash)))
    }

    /// The changed documents, in the order of their ids.
    var changes: [Change] {
        let puts =
            purchases.values.sorted { $0.id.hash.low < $1.id.hash.low }.map(\.put)
            + accounts.values.sorted { $0.hash.low < $1.hash.low }.map(\.put)
            + users.values.sorted { $0.person < $1.person }.map(\.put) + checks.puts
            + ended.sorted().map { .documentPut(AccessUser.key($0), $0, []) }
            + removed.sorted { $0.hash.low < $1.hash.low }.map { .documentPut($0.key, .nobody, []) }
        return puts.filter { !isAsBefore($0) }
    }

    private func isAsBefore(_ change: Change) -> Bool {
        guard case .documentPut(let key, _, let body) = change else { return false }
        return view.document(key) ?? [] == body
    }

    /// The people whose access a change of a purchase concerns: its owners, or else the installs that have joined its account.
    func audience(of purchase: Purchase) -> [PersonID] {
        if !purchase.owners.isEmpty { return purchase.owners }
        var people = purchase.installs.people
        for person in purchase.accounts.flatMap({ account($0).installs.people }) where !people.contains(person) {
            people.append(person)
        }
        return people
    }

    /// Schedules the next question about each purchase of which the store has said something new.
    ///
    /// - Parameters:
    ///   - asked: the purchase about which the server has asked. Its next question is due later, also if nothing is new.
    ///   - project: the project of the purchases.
    mutating func scheduleChecks(asked: PurchaseID? = nil, in project: ProjectID) {
        for id in purchases.keys.sorted(by: { $0.hash.low < $1.hash.low }) {
            guard var purchase = purchases[id], purchase.check != nil else { continue }
            let known = view.purchase(id)
            let isNew =
                known.map { known in
                    !known.history.isSameState(as: purchase.history) || known.replacedBy != purchase.replacedBy
                        || known.check?.isUnacknowledged != purchase.check?.isUnacknowledged
                        || known.check?.isSilent != purchase.check?.isSilent
                        || known.forgottenAt != purchase.forgottenAt
                } ?? true
            guard isNew || id == asked else { continue }
            purchase.scheduleCheck(after: moment, isAsked: id == asked, catalog.product(purchase.product))
            checks.move(
                id, of: purchase.source, from: known?.check?.dueAt, to: purchase.check?.dueAt, in: project, view)
            purchases[id] = purchase
        }
    }

    mutating func put(_ purchase: Purchase) { purchases[purchase.id] = purchase }

    /// Gives a purchase to some identities, and removes all other owners.
    mutating func own(_ purchase: inout Purchase, _ owners: [PersonID]) throws(Refusal) {
        let isGrowing = owners.count > purchase.owners.count
        // The checks come before the first change: a refused call changes nothing.
        guard owners.count <= Purchase.ownersAtMost || !isGrowing,
            owners.allSatisfy({ person in
                user(person).map { $0.owned.contains(purchase.id) || $0.owned.count < AccessUser.purchasesPerUser }
                    ?? true
            })
        else { throw .tooManyPurchases }
        for person in purchase.owners where !owners.contains(person) {
            guard var user = user(person) else { continue }
            user.owned.removeAll { $0 == purchase.id }
            users[person] = user
        }
        for person in owners {
            guard var user = user(person), !user.owned.contains(purchase.id) else { continue }
            user.owned.append(purchase.id)
            users[person] = user
        }
        purchase.own(owners.sorted(), at: moment)
        purchases[purchase.id] = purchase
    }

    /// Ends a grant; false if the user has no such grant.
    mutating func remove(_ grant: AccessUser.Grant, of person: PersonID) -> Bool {
        guard var user = user(person), let place = user.grants.firstIndex(of: grant) else { return false }
        user.grants.remove(at: place)
        users[person] = user
        return true
    }

    /// Forgets an identity that its user no longer holds. A user without any other content ends.
    mutating func forget(_ identity: Identity, of person: PersonID) {
        guard var user = user(person) else { return }
        if user.identity?.hasSameBytes(as: identity.value) == true { user.identity = nil }
        let isEmpty = user.identity == nil && user.grants.isEmpty && user.paid.isEmpty && user.owned.isEmpty
        if isEmpty, user.id.hasSameBytes(as: identity.value) {
            users[person] = nil
            ended.insert(person)
        } else {
            users[person] = user
        }
    }

    /// Removes a purchase of which only an import tells; false for a purchase that a store has confirmed.
    mutating func remove(imported id: PurchaseID) -> Bool {
        guard let purchase = purchase(id), purchase.isImported, purchase.replacedBy == nil else { return false }
        for person in purchase.owners + purchase.installs.people {
            guard var user = user(person) else { continue }
            user.owned.removeAll { $0 == id }
            user.paid.removeAll { $0 == id }
            users[person] = user
        }
        purchases[id] = nil
        removed.insert(id)
        return true
    }

    /// Forgets a purchase that nobody has proven. A purchase that somebody has now stays, and so does one of an account with
    /// installs, because the installs see it.
    mutating func forget(_ id: PurchaseID, in project: ProjectID) {
        guard var purchase = purchase(id) else { return }
        let dueAt = purchase.check?.dueAt
        let hasInstalls = purchase.accounts.contains { !account($0).installs.all.isEmpty }
        if hasInstalls || !purchase.isForgotten(at: moment) {
            purchase.forgottenAt = nil
            purchase.scheduleCheck(after: moment, isAsked: false, catalog.product(purchase.product))
            purchases[id] = purchase
        } else {
            for name in purchase.accounts {
                accounts[name] = account(name)
                accounts[name]?.paid.removeAll { $0 == id }
            }
            purchases[id] = nil
            removed.insert(id)
        }
        checks.move(id, of: purchase.source, from: dueAt, to: purchases[id]?.check?.dueAt, in: project, view)
    }

    /// Joins an install to the account that paid for a purchase, by the original transaction and by the names in a receipt.
    /// No other install leaves the account because of it, apart from the limit of installs.
    ///
    /// - Parameter provenAt: the moment of the proof; nil for the present moment.
    mutating func join(
        _ install: PersonID?, at provenAt: Instant? = nil, to purchase: inout Purchase, by names: [Hash128]
    ) throws(Refusal) {
        // The check comes before the first change: a refused join changes nothing.
        let payer = install.flatMap { user($0) }
        guard payer.map({ $0.paid.contains(purchase.id) || $0.paid.count < AccessUser.purchasesPerUser }) ?? true else {
            throw .tooManyPurchases
        }
        for name in names where !purchase.accounts.contains(name) {
            guard purchase.accounts.count < Purchase.accountsAtMost else { break }
            purchase.accounts.append(name)
        }
        for name in names where purchase.accounts.contains(name) {
            var account = account(name)
            if !account.paid.contains(purchase.id) {
                // An account at its limit is left out: its installs see the purchase by their own proofs.
                guard account.paid.count < AccessUser.purchasesPerUser else { continue }
                account.paid.append(purchase.id)
            }
            if let install, var user = user(install), mayJoin(install, account), join(&user, name) {
                users[install] = user
                if let leaving = account.installs.join(install, at: moment), var left = self.user(leaving) {
                    left.accounts.removeAll { $0 == name }
                    users[leaving] = left
                }
            }
            accounts[name] = account
        }
        if let install, var user = user(install) {
            if !user.paid.contains(purchase.id) {
                user.paid.append(purchase.id)
                users[install] = user
            }
            let isNew = !purchase.installs.contains(install)
            if let leaving = purchase.installs.join(install, at: provenAt ?? moment), var left = self.user(leaving) {
                left.paid.removeAll { $0 == purchase.id }
                users[leaving] = left
            }
            if isNew { purchase.noteSharing(at: moment) }
        }
        purchases[purchase.id] = purchase
    }

    /// Whether an install may join an account by name. The name would give the install a part in each purchase of the account,
    /// so nobody joins while one of them is frozen.
    private func mayJoin(_ install: PersonID, _ account: NamedAccount) -> Bool {
        !catalog.freezesShared || account.installs.contains(install)
            || !account.paid.contains { purchase($0)?.isFrozen(catalog) ?? false }
    }

    /// Ends the purchase that another one replaces. A new purchase takes over its owners, its account and the moments of its
    /// proofs, apart from those at their limits.
    mutating func replace(_ id: PurchaseID?, by purchase: inout Purchase, isNew: Bool) {
        guard let id, id != purchase.id, var old = self.purchase(id), old.replacedBy == nil else { return }
        old.replacedBy = purchase.id
        purchases[id] = old
        for item in old.items where item != purchase.id {
            guard var ended = self.purchase(item), ended.replacedBy == nil else { continue }
            ended.replacedBy = purchase.id
            purchases[item] = ended
        }
        if isNew { inherit(from: old, to: &purchase) }
    }

    /// Gives a new purchase the owners, the account and the moments of the proofs of an earlier one, apart from those at their
    /// limits.
    private mutating func inherit(from old: Purchase, to purchase: inout Purchase) {
        if purchase.isUnclaimed { (purchase.reporter, purchase.forgottenAt) = (old.reporter, nil) }
        let owners = Array(Set(purchase.owners + old.owners))
        purchase.unfrozenAt = old.unfrozenAt
        do throws(Refusal) { try own(&purchase, owners) } catch {}
        for joined in old.installs.all {
            do throws(Refusal) { try join(joined.person, at: joined.joinedAt, to: &purchase, by: []) } catch {}
        }
        // The change of the purchase is no new proof.
        (purchase.owningMoments, purchase.sharedAt) = (old.owningMoments, old.sharedAt)
        purchases[purchase.id] = purchase
        do throws(Refusal) { try join(nil, to: &purchase, by: old.accounts) } catch {}
    }

    /// Gives a further item of a subscription, which nobody has proven, to those that have the first item.
    ///
    /// - Parameter isNew: whether the call itself is the first that proves the item.
    mutating func follow(_ first: PurchaseID?, with item: inout Purchase, isNew: Bool) {
        guard let first, first != item.id, isNew || item.isUnclaimed, item.replacedBy == nil,
            let known = purchase(first),
            !known.isUnclaimed
        else { return }
        inherit(from: known, to: &item)
    }

    /// Brings the items of subscriptions in line: an item that a receipt with all items does not have has ended, and an item that
    /// only the store has told of goes to those that have another item, because the items were bought together.
    ///
    /// - Returns: the items whose access has ended.
    mutating func settleItems(of receipts: [Receipt]) -> [Purchase] {
        var ended: [Purchase] = []
        for receipt in receipts {
            guard receipt.items != nil || receipt.itemOf != nil,
                var first = purchase(receipt.itemOf ?? receipt.purchase)
            else { continue }
            let saidAt = receipt.told.signedAt ?? moment
            for id in first.items where first.isUnclaimed {
                if let claimed = purchase(id), !claimed.isUnclaimed { inherit(from: claimed, to: &first) }
            }
            for id in first.items {
                guard var item = purchase(id) else { continue }
                if receipt.items?.contains(id) ?? true {
                    follow(first.id, with: &item, isNew: false)
                } else {
                    let wasActive = item.isActive(at: moment, catalog.product(item.product))
                    item.drop(at: saidAt, catalog.product(item.product))
                    if wasActive, !item.isActive(at: moment, catalog.product(item.product)) { ended.append(item) }
                    purchases[id] = item
                }
            }
        }
        return ended
    }

    /// Ends the replaced purchases of receipts that the ledger did not know when it took the receipts that replace them.
    mutating func replaceLate(_ receipts: [Receipt]) {
        for receipt in receipts where receipt.replaces != nil {
            guard var purchase = purchase(receipt.purchase) else { continue }
            replace(receipt.replaces, by: &purchase, isNew: false)
        }
    }

    /// Adds the name of an account to a user; false if the user has too many. The user then sees this purchase by its
    /// original transaction only.
    private func join(_ user: inout AccessUser, _ name: Hash128) -> Bool {
        if user.accounts.contains(name) { return true }
        guard user.accounts.count < AccessUser.accountsPerUser else { return false }
        user.accounts.append(name)
        return true
    }
}
