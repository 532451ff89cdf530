/// The id of a purchase: a store's original transaction. Later receipts of it change the state of the same purchase.
package struct PurchaseID: Hashable, Sendable {
    package let hash: Hash128
    package init(hash: Hash128) { self.hash = hash }

    /// - Parameter transaction: the store's original transaction.
    package init(
        _ source: Purchase.Source, _ transaction: String, in world: AccessWorld, of project: ProjectID, hash: KeyedHash
    ) {
        // This tag differs from all other tags of hashes under this key.
        let tag = 5 << 61 | UInt64(UInt32(bitPattern: project.rawValue)) << 8 | UInt64(world.rawValue) << 7
        self.hash = hash.hash(tag: tag | UInt64(source.rawValue), transaction)
    }

    var key: DocumentKey { DocumentKey(.purchase, hash: hash) }
}

extension Snapshot {
    /// A purchase; nil if the store has none with this id.
    package func purchase(_ id: PurchaseID) throws(StoreFault) -> Purchase? {
        try document(id.key).flatMap { Purchase(id, packed: $0) }
    }
}

/// A name by which a store knows the account that paid (spec/entitlements-live.md 3).
///
/// Installs join an account by proof: a receipt names the account, and the install that sends the receipt has joined. The
/// original transaction of a purchase is a name as well. The purchase itself keeps the installs that joined by that name.
package enum StoreAccount {
    /// The hash of a store's name for the account.
    package static func name(
        _ source: Purchase.Source, _ name: String, in world: AccessWorld, of project: ProjectID, hash: KeyedHash
    ) -> Hash128 {
        let tag = 7 << 60 | UInt64(UInt32(bitPattern: project.rawValue)) << 8 | UInt64(world.rawValue) << 7
        return hash.hash(tag: tag | UInt64(source.rawValue), name)
    }
}

/// The data of one store document: a transaction of a purchase or several, and the state of its renewal if the document has it.
package struct Receipt: Equatable, Sendable {
    package var purchase: PurchaseID
    package var source: Purchase.Source
    package var originalTransaction: String
    package var told: Purchase.Transaction
    /// Further transactions of the same purchase, if the document has several.
    package var others: [Purchase.Transaction] = []
    /// The state of the renewal; nil if the document does not have it.
    package var renewal: Purchase.RenewalState?
    /// The names of the account that paid, besides the original transaction.
    package var accounts: [Hash128] = []
    /// The names that the store has for the product, if it has several. The catalog decides which of them counts.
    package var names: [String] = []
    /// The purchase that this one replaces, where the store makes a new purchase for another product or a new start.
    package var replaces: PurchaseID?
    /// The further items of the subscription that the document tells of, each a purchase of its own. An item that is missing here
    /// has ended. Nil if the document does not tell of all items.
    package var items: [PurchaseID]?
    /// The purchase of the first item of the same subscription; nil for the first item.
    package var itemOf: PurchaseID?
    /// Whether the server can ask the store about the purchase later.
    package var canBeAsked = false
    /// The time for which a subscription that would renew gives access after its end until the store answers.
    package var graceMilliseconds: Int64 = 0
    /// Whether the store refunds the purchase unless the app or the server acknowledges it.
    package var isUnacknowledged = false
    /// The relation of the receipt to the device of the call; nil if the receipt names no device, or nobody has looked.
    package var device: Purchase.DeviceBinding?
    /// The weight of the receipt as a proof of the caller.
    package var trust = Trust.proof

    /// The weight of a receipt as a proof that the caller has the account that paid.
    package enum Trust: Equatable, Sendable {
        /// Whoever has the receipt has the account.
        case proof
        /// The receipt only names the purchase, so it counts for a caller that has a part in the account. It also counts for
        /// the user and the identity that the store names as the buyer.
        ///
        /// - Parameter takesFirst: whether an unknown purchase belongs to the first caller that names it.
        case name(user: String?, identity: String?, takesFirst: Bool)
    }

    package init(
        purchase: PurchaseID, source: Purchase.Source, transaction: String, originalTransaction: String,
        product: String, purchasedAt: Instant
    ) {
        self.purchase = purchase
        self.source = source
        self.originalTransaction = originalTransaction
        told = Purchase.Transaction(id: transaction, product: product, startedAt: purchasedAt)
    }

    package init(
        purchase: PurchaseID, source: Purchase.Source, originalTransaction: String, told: Purchase.Transaction
    ) {
        self.purchase = purchase
        self.source = source
        self.originalTransaction = originalTransaction
        self.told = told
    }

    package var transaction: String { told.id }
    package var product: String { told.product }

    /// The receipt with the name of its product that the catalog has, or else with the first name.
    package func named(by catalog: Catalog) -> Receipt {
        guard let name = names.first(where: { catalog.product($0) != nil }) ?? names.first else { return self }
        var named = self
        (named.told.product, named.names) = (name, [])
        return named
    }
}

/// A purchase with its payers and its owners. Payer and owner are two different things (spec/entitlements.md 2.4).
package struct Purchase: Equatable, Sendable {
    /// The source of the confirmation. Stores keep the raw values, so a raw value never changes.
    package enum Source: UInt8, CaseIterable, Sendable {
        case appStore = 1
        case playStore = 2
        case stripe = 3
        case paddle = 4

        /// Whether each answer of the store is the whole present state of a purchase. Apple signs each period for itself.
        var tellsPresentState: Bool { self == .playStore || self == .stripe }
    }

    /// The relation of a receipt to the device of the call that brought it. Stores keep the raw values, so a raw value never
    /// changes.
    package enum DeviceBinding: UInt8, Sendable {
        case bound = 1
        case unbound = 2
        /// The call does not name the device, or not by an id that the receipt can confirm.
        case unknown = 3

        package var name: StaticString {
            switch self {
            case .bound: "bound"
            case .unbound: "unbound"
            case .unknown: "unknown"
            }
        }
    }

    package let id: PurchaseID
    package let source: Source
    package let originalTransaction: String
    /// The data from the store: transactions and the renewal.
    package internal(set) var history: History
    /// The user that first reported the purchase; person 0 while only the store has told of it.
    package internal(set) var reporter: PersonID
    /// The installs that have proven the original transaction.
    package internal(set) var installs = JoinedInstalls()
    /// The other names of the account that paid, in the order in which they became known.
    package internal(set) var accounts: [Hash128] = []
    /// The identities that own the purchase, as the users of these identities.
    package internal(set) var owners: [PersonID]
    /// The latest moments at which an identity became an owner.
    var owningMoments: [Instant] = []
    /// The identities that asked for the purchase in vain under the present owners. The journal notes each of them once.
    var keptFrom: [PersonID] = []
    /// The last moment at which too many installs or identities had proven the purchase; nil if that never happened.
    package internal(set) var sharedAt: Instant?
    /// The last moment at which an administrator ended the freeze of the purchase. Earlier proofs do not count again.
    package internal(set) var unfrozenAt: Instant?
    /// The moment of the last notification of the store; nil if the store has told nothing by itself.
    package internal(set) var notifiedAt: Instant?
    /// The purchase that has replaced this one. A replaced purchase gives nothing, whatever its store says of it.
    package internal(set) var replacedBy: PurchaseID?
    /// The further items of the subscription that the store has told of, each a purchase of its own.
    package internal(set) var items: [PurchaseID] = []
    /// The relation of the last receipt to the device of its call; nil if no receipt names a device.
    package internal(set) var device: DeviceBinding?
    /// The moment at which the server forgets the purchase, of which only its store has told; nil for a purchase that a user
    /// has proven.
    package internal(set) var forgottenAt: Instant?
    /// The questions to the store; nil for a purchase about which the server cannot ask.
    package internal(set) var check: Check?

    /// The limit of owners. A transfer reports all owners to each owner, and this must fit into one call.
    package static let ownersAtMost = 100
    /// The limit of names of an account, without the original transaction.
    package static let accountsAtMost = 3
    /// The limit of further items of a subscription.
    static let itemsAtMost = 100

    /// The limit of the list ``keptFrom``. The journal does not note identities beyond it.
    private static let keptFromAtMost = 32

    /// Whether only the store has told of the purchase, and no user has proven it.
    package var isUnclaimed: Bool { reporter.rawValue == 0 && owners.isEmpty && installs.all.isEmpty }

    /// Whether only an import tells of the purchase.
    package var isImported: Bool { history.transactions.allSatisfy(\.isImported) }

    /// - Parameter reporter: the user of the call; person 0 for a call of the store.
    init(_ receipt: Receipt, reporter: PersonID) {
        id = receipt.purchase
        source = receipt.source
        originalTransaction = receipt.originalTransaction
        history = History(receipt.told, receipt.renewal)
        self.reporter = reporter
        owners = []
    }

    init(
        id: PurchaseID, source: Source, originalTransaction: String, history: History, reporter: PersonID,
        owners: [PersonID]
    ) {
        self.id = id
        self.source = source
        self.originalTransaction = originalTransaction
        self.history = history
        self.reporter = reporter
        self.owners = owners
    }

    /// Adds the statements of a receipt.
    mutating func take(_ receipt: Receipt, at moment: Instant, _ catalog: Catalog) {
        let (before, wasAsked) = (history, check?.isSilent == false)
        // These stores sign no moment, so their statements have one of this server.
        if source.tellsPresentState, let saidAt = receipt.told.signedAt { history.correct(before: saidAt, at: moment) }
        history.update(receipt)
        for item in receipt.items ?? [] where !items.contains(item) && items.count < Purchase.itemsAtMost {
            items.append(item)
        }
        device = receipt.device ?? device
        if receipt.canBeAsked {
            var check = check ?? Check()
            check.isSilent = false
            check.isUnacknowledged = receipt.isUnacknowledged
            check.graceMilliseconds = receipt.graceMilliseconds
            self.check = check
        }
        if !wasAsked || !history.isSameState(as: before) { noteEnd(at: moment, catalog.product(product)) }
    }

    /// Ends an item of a subscription: the store has told of the subscription without it.
    mutating func drop(at saidAt: Instant, _ definition: Catalog.Product?) {
        if source.tellsPresentState { history.correct(before: saidAt, at: saidAt) }
        history.drop(at: saidAt, definition)
    }

    /// Notes a notification of the store. A notification that changes nothing else is a repetition.
    mutating func note(notificationAt moment: Instant, since known: Purchase?) {
        if notifiedAt == nil || self != known { notifiedAt = moment }
    }

    /// Notes that an identity asked for the purchase, and that the purchase stays.
    mutating func keep(from person: PersonID) {
        guard !keptFrom.contains(person), keptFrom.count < Purchase.keptFromAtMost else { return }
        keptFrom.append(person)
    }

    /// Gives the purchase to other owners.
    mutating func own(_ owners: [PersonID], at moment: Instant) {
        if owners != self.owners { keptFrom = [] }
        let isGrowing = owners.contains { !self.owners.contains($0) }
        self.owners = owners
        guard isGrowing else { return }
        owningMoments = Array((owningMoments + [moment]).suffix(Purchase.identitiesPerMonth + 1))
        noteSharing(at: moment)
    }

    // MARK: - Receipts that many people have

    /// More installs or identities than these in 30 days are unusual for one account.
    package static let installsPerMonth = 20
    package static let identitiesPerMonth = 5
    private static let monthMilliseconds: Int64 = 30 * 86_400_000

    /// Notes the moment if the receipt of the purchase is in unusually many hands.
    mutating func noteSharing(at moment: Instant) {
        let month = moment.advanced(byMilliseconds: -Purchase.monthMilliseconds)
        let start = unfrozenAt.map { max($0, month) } ?? month
        let isShared =
            installs.all.count { $0.joinedAt > start } > Purchase.installsPerMonth
            || owningMoments.count { $0 > start } > Purchase.identitiesPerMonth
        if isShared { sharedAt = moment }
    }

    /// The note for a call whose changes mark a purchase as shared; nil if they mark none.
    static func sharing(_ changes: [Change], at moment: Instant) -> Full? {
        let isShared = changes.contains { change in
            guard case .documentPut(let key, _, let body) = change, key.kind == .purchase else { return false }
            return Purchase(PurchaseID(hash: key.hash), packed: body)?.sharedAt == moment
        }
        return isShared ? .receipt : nil
    }

    /// Whether nobody may join the account of the purchase or take the purchase over, because too many have proven it.
    package func isFrozen(_ catalog: Catalog) -> Bool {
        guard catalog.freezesShared, let sharedAt else { return false }
        return unfrozenAt.map { sharedAt > $0 } ?? true
    }

    /// The purchase that counts in place of this one: the last of the purchases that have replaced each other.
    package func present<Failure>(
        _ find: (PurchaseID) throws(Failure) -> Purchase?
    ) throws(Failure) -> Purchase {
        var (present, seen): (Purchase, Set<PurchaseID>) = (self, [id])
        while let next = present.replacedBy, seen.insert(next).inserted, let follower = try find(next) {
            present = follower
        }
        return present
    }

    // MARK: - What counts now

    /// The transaction that counts.
    package var transaction: String { history.current.id }

    /// The name of a transaction for an app. Google names a transaction without an order by the token of the purchase, and whoever shows the
    /// token is taken for the buyer. An app gets a hash instead.
    package func shown(_ transaction: String) -> String {
        let isToken = originalTransaction.hasPrefix(transaction) || transaction.hasPrefix(originalTransaction)
        guard source == .playStore, isToken else { return transaction }
        return String(id.hash.high, radix: 16) + String(id.hash.low, radix: 16)
    }

    /// The name of the first transaction for an app.
    package var shownOriginal: String {
        source == .playStore ? shown(history.transactions.first?.id ?? originalTransaction) : originalTransaction
    }
    package var product: String { history.current.product }
    package var purchasedAt: Instant { history.current.startedAt }
    package var startedAt: Instant { history.startedAt }
    package var revokedAt: Instant? { history.revokedAt }
    package var period: Period { history.current.period }
    package var renewal: Renewal { history.renewal }

    /// The end of the purchase, from the store or from the product's duration; nil for a purchase without an end.
    package func expiry(_ definition: Catalog.Product?) -> Instant? { history.end(definition, by: source) }

    /// The end of the access as reads show it: the refund of a purchase that gives none any more, or else the expiry.
    func end(shownAt moment: Instant, _ definition: Catalog.Product?) -> Instant? {
        if let revokedAt, !isActive(at: moment, definition) { return revokedAt }
        return graceEnd(at: moment, definition) ?? expiry(definition)
    }

    /// Whether the purchase is a subscription, from the store or from the product's definition.
    package func isSubscription(_ definition: Catalog.Product?) -> Bool {
        history.current.isSubscription
            ?? definition.map { $0.kind == .subscription } ?? (history.current.endsAt != nil)
    }

    /// Whether the purchase gives access at a moment.
    package func isActive(at moment: Instant, _ definition: Catalog.Product?) -> Bool {
        isRunning(at: moment, definition) || graceEnd(at: moment, definition) != nil
    }

    /// Whether the purchase gives access at a moment by the statements of the store alone.
    func isRunning(at moment: Instant, _ definition: Catalog.Product?) -> Bool {
        guard replacedBy == nil, history.givesAccess else { return false }
        return expiry(definition).map { moment < $0 } ?? true
    }

    /// The end of the grace that a moment is in: a subscription that would renew gave access up to its end, and the store has
    /// said nothing since. Nil outside a grace.
    private func graceEnd(at moment: Instant, _ definition: Catalog.Product?) -> Instant? {
        guard let check, check.graceMilliseconds > 0, check.endedAt == nil, replacedBy == nil, revokedAt == nil,
            renewal == .willRenew, history.givesAccess, isSubscription(definition), let end = expiry(definition)
        else { return nil }
        let graceEnd = end.advanced(byMilliseconds: check.graceMilliseconds)
        return moment >= end && moment < graceEnd ? graceEnd : nil
    }

    /// Whether the period is over, and the store has not answered since. The purchase may have been renewed.
    private func isUnconfirmed(at moment: Instant, _ end: Instant?) -> Bool {
        guard let end, let check else { return false }
        return moment >= end && check.faults > 0 && renewal != .canceled
    }

    /// The reason for which a purchase gives access, or gives none.
    package struct Access: Sendable {
        package let isActive: Bool
        /// The end of the access; nil for access without an end.
        package let until: Instant?
        package let name: StaticString

        private static let names: [StaticString] = [
            "period_runs", "grace", "no_end", "unconfirmed", "replaced", "refunded", "upgraded", "ended",
        ]
        package static let allNames = names.map { "\($0)" }
    }

    /// The access that the purchase gives at a moment, with the reason.
    package func access(at moment: Instant, _ definition: Catalog.Product?) -> Access {
        let end = expiry(definition)
        if isActive(at: moment, definition) {
            guard let end else { return Access(isActive: true, until: nil, name: "no_end") }
            if let grace = graceEnd(at: moment, definition) {
                return Access(isActive: true, until: grace, name: "unconfirmed")
            }
            return Access(isActive: true, until: end, name: renewal == .billingIssue ? "grace" : "period_runs")
        }
        if replacedBy != nil { return Access(isActive: false, until: end, name: "replaced") }
        if let revokedAt { return Access(isActive: false, until: revokedAt, name: "refunded") }
        if !history.givesAccess { return Access(isActive: false, until: end, name: "upgraded") }
        return Access(isActive: false, until: end, name: isUnconfirmed(at: moment, end) ? "unconfirmed" : "ended")
    }

    /// The last moment at which the store has said something; nil if its statements have no moments.
    package var saidAt: Instant? {
        (history.transactions.compactMap(\.signedAt) + [history.renewalState?.saidAt].compactMap { $0 }).max()
    }

    var put: Change { .documentPut(id.key, keeper, packed) }

    /// The person with whose erasure the purchase is removed; nobody if only the name of the payer's account is known.
    private var keeper: PersonID { owners.first ?? installs.people.first ?? PersonID(rawValue: 0) }
}

/// The installs that have joined a store account, in the order of their last proofs.
package struct JoinedInstalls: Equatable, Sendable {
    package struct Joined: Equatable, Sendable {
        package let person: PersonID
        package let joinedAt: Instant
    }

    package private(set) var all: [Joined] = []

    /// The limit of installs of one account. The install whose last proof is the oldest leaves.
    package static let atMost = 100

    init() {}

    package var people: [PersonID] { all.map(\.person) }

    package func contains(_ person: PersonID) -> Bool { all.contains { $0.person == person } }

    /// Adds an install, and returns the install that leaves for it. The function moves an install that is there already to
    /// the end only from the first half, so that a proof at each start is seldom a change.
    mutating func join(_ person: PersonID, at moment: Instant) -> PersonID? {
        if let place = all.firstIndex(where: { $0.person == person }) {
            if place < all.count / 2 { all.append(all.remove(at: place)) }
            return nil
        }
        all.append(Joined(person: person, joinedAt: moment))
        return all.count > JoinedInstalls.atMost ? all.removeFirst().person : nil
    }

    mutating func remove(_ people: [PersonID]) { all.removeAll { people.contains($0.person) } }

    func pack(into packer: inout Packer) {
        packer.add(UInt64(all.count))
        for joined in all {
            packer.add(joined.person)
            packer.add(joined.joinedAt)
        }
    }

    init?(unpacking unpacker: inout Unpacker) {
        guard let count = unpacker.integer() else { return nil }
        for _ in 0..<count {
            guard let person = unpacker.person(), let joinedAt = unpacker.instant() else { return nil }
            all.append(Joined(person: person, joinedAt: joinedAt))
        }
    }
}
