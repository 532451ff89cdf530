/// A purchase: a store's original transaction. Whatever the store says of it later is another state of the same one.
package struct PurchaseID: Hashable, Sendable {
    package let hash: Hash128
    package init(hash: Hash128) { self.hash = hash }

    /// - Parameter transaction: the store's original transaction.
    package init(
        _ source: Purchase.Source, _ transaction: String, in world: AccessWorld, of project: ProjectID, hash: KeyedHash
    ) {
        // Far from the tags of everything else that is hashed with the key.
        let tag = 5 << 61 | UInt64(UInt32(bitPattern: project.rawValue)) << 8 | UInt64(world.rawValue) << 7
        self.hash = hash.hash(tag: tag | UInt64(source.rawValue), transaction)
    }

    var key: DocumentKey { DocumentKey(.purchase, hash: hash) }
}

/// The account that paid, as far as a store tells (spec/entitlements.md, decision 5).
package enum StoreAccount: Equatable, Sendable {
    /// Whoever uses the install that told of the purchase first.
    case install(PersonID)
    /// An account that the store has a name for, by the name's hash.
    case named(Hash128)

    /// The hash of a name that a store has for an account.
    package static func named(
        _ source: Purchase.Source, _ name: String, in world: AccessWorld, of project: ProjectID, hash: KeyedHash
    ) -> StoreAccount {
        let tag = 7 << 60 | UInt64(UInt32(bitPattern: project.rawValue)) << 8 | UInt64(world.rawValue) << 7
        return .named(hash.hash(tag: tag | UInt64(source.rawValue), name))
    }
}

/// What a store has vouched for.
package struct Receipt: Equatable, Sendable {
    package var purchase: PurchaseID
    package var source: Purchase.Source
    package var transaction: String
    package var originalTransaction: String
    package var product: String
    package var purchasedAt: Instant
    /// Nil for what never expires, and where the product's own duration says when.
    package var expiresAt: Instant?
    /// When the store took it back, if it did.
    package var revokedAt: Instant?
    /// Whether it is a subscription; nil where the store does not say.
    package var isSubscription: Bool?
    package var renewal = Purchase.Renewal.willRenew
    package var period = Purchase.Period.normal
    /// The account that the store names; nil where it names none.
    package var account: StoreAccount?
    /// When the store said all this; nil where it does not say when.
    package var signedAt: Instant?

    package init(
        purchase: PurchaseID, source: Purchase.Source, transaction: String, originalTransaction: String,
        product: String, purchasedAt: Instant
    ) {
        self.purchase = purchase
        self.source = source
        self.transaction = transaction
        self.originalTransaction = originalTransaction
        self.product = product
        self.purchasedAt = purchasedAt
    }
}

/// What was bought, who paid, and whose it is: two different things (spec/entitlements.md 2.4).
package struct Purchase: Equatable, Sendable {
    /// Who vouches for it. The raw values are stored: they never change.
    package enum Source: UInt8, CaseIterable, Sendable {
        case appStore = 1
        case playStore = 2
        case stripe = 3
        case paddle = 4
    }

    package enum Renewal: UInt8, Sendable {
        case willRenew = 1
        case canceled = 2
        case billingIssue = 3
    }

    package enum Period: UInt8, Sendable {
        case normal = 1
        case trial = 2
        case intro = 3
    }

    package let id: PurchaseID
    package let source: Source
    package let originalTransaction: String
    /// The last transaction that was heard of, and the product that it is of.
    package private(set) var transaction: String
    package private(set) var product: String
    /// When the first transaction was that was heard of, and the last.
    package let startedAt: Instant
    package private(set) var purchasedAt: Instant
    /// What the store has said of its end and kind. Where it did not say, the product's definition tells, whenever it was made.
    private var expiresAt: Instant?
    package private(set) var revokedAt: Instant?
    private var saysSubscription: Bool?
    package private(set) var renewal: Renewal
    package private(set) var period: Period
    /// When the store said so; nil where it did not say when.
    private var signedAt: Instant?
    /// The user that told of it first.
    package let reporter: PersonID
    /// Who paid; nil where nobody can tell.
    package internal(set) var account: StoreAccount?
    /// The identities that it belongs to, by the users they are linked to.
    package internal(set) var owners: [PersonID]
    /// Identities that asked for it in vain while it was these owners', so that the journal is told once.
    private(set) var keptFrom: [PersonID] = []

    /// Each owner is told of the others when it goes over: that is not to be more than a call can say.
    package static let ownersAtMost = 100

    /// As many are kept; of more the journal is not told.
    private static let keptFromAtMost = 32

    init(_ receipt: Receipt, reporter: PersonID, account: StoreAccount?, owners: [PersonID]) {
        id = receipt.purchase
        source = receipt.source
        originalTransaction = receipt.originalTransaction
        startedAt = receipt.purchasedAt
        self.reporter = reporter
        self.account = account
        self.owners = owners
        transaction = receipt.transaction
        product = receipt.product
        purchasedAt = receipt.purchasedAt
        expiresAt = receipt.expiresAt
        revokedAt = receipt.revokedAt
        saysSubscription = receipt.isSubscription
        renewal = receipt.renewal
        period = receipt.period
        signedAt = receipt.signedAt
    }

    /// It stays where it is, though somebody asked for it.
    mutating func keep(from person: PersonID) {
        guard !keptFrom.contains(person), keptFrom.count < Purchase.keptFromAtMost else { return }
        keptFrom.append(person)
    }

    /// It goes over to other owners.
    mutating func own(_ owners: [PersonID]) {
        if owners != self.owners { keptFrom = [] }
        self.owners = owners
    }

    /// Whether a receipt tells of a transaction after the last that was heard of.
    func isBehind(_ receipt: Receipt) -> Bool {
        !receipt.transaction.hasSameBytes(as: transaction) && receipt.purchasedAt > purchasedAt
    }

    /// Takes in what the store says now. What it said of an earlier transaction, or before, is no news.
    mutating func update(_ receipt: Receipt) {
        guard receipt.transaction.hasSameBytes(as: transaction) ? isAsNew(receipt) : isBehind(receipt) else { return }
        transaction = receipt.transaction
        product = receipt.product
        purchasedAt = receipt.purchasedAt
        expiresAt = receipt.expiresAt
        revokedAt = receipt.revokedAt
        saysSubscription = receipt.isSubscription
        renewal = receipt.renewal
        period = receipt.period
        signedAt = receipt.signedAt
    }

    /// Whether a receipt of the same transaction was not signed before the last. What was taken back stays so until the store
    /// has said otherwise afterwards.
    private func isAsNew(_ receipt: Receipt) -> Bool {
        if let revokedAt, receipt.revokedAt == nil {
            return receipt.signedAt.map { $0 > signedAt ?? revokedAt } ?? false
        }
        guard let signedAt else { return true }
        return receipt.signedAt.map { $0 >= signedAt } ?? false
    }

    /// Whether it is as it was, whenever that was said.
    func isSame(as other: Purchase) -> Bool {
        var other = other
        other.signedAt = signedAt
        return self == other
    }

    /// When it expires: by the store's word, else by the product's duration; nil for what never does.
    package func expiry(_ definition: Catalog.Product?) -> Instant? {
        expiresAt ?? definition?.end(from: purchasedAt)
    }

    package func isSubscription(_ definition: Catalog.Product?) -> Bool {
        saysSubscription ?? definition.map { $0.kind == .subscription } ?? (expiresAt != nil)
    }

    /// Whether it gives access at some moment.
    package func isActive(at moment: Instant, _ definition: Catalog.Product?) -> Bool {
        revokedAt == nil && expiry(definition).map { moment < $0 } ?? true
    }

    var put: Change { .documentPut(id.key, keeper, packed) }

    /// The person with whom it goes when they are erased; nobody where only a name is known of who paid.
    private var keeper: PersonID {
        if let owner = owners.first { return owner }
        if case .install(let person) = account { return person }
        return PersonID(rawValue: 0)
    }
}

extension Receipt {
    /// When what it tells of expires: by the store's word, else by the product's duration.
    func expiry(_ product: Catalog.Product?) -> Instant? {
        expiresAt ?? product?.end(from: purchasedAt)
    }
}

extension Catalog.Product {
    /// When its own duration ends; nil where it has none.
    fileprivate func end(from moment: Instant) -> Instant? {
        durationSeconds.map { moment.advanced(byMilliseconds: $0 * 1000) }
    }
}

extension Purchase {
    package var packed: [UInt8] {
        var packer = Packer()
        packer.add(source.rawValue)
        packer.add(originalTransaction)
        packer.add(transaction)
        packer.add(product)
        packer.add(startedAt)
        packer.add(purchasedAt)
        packer.add(optional: expiresAt)
        packer.add(optional: revokedAt)
        packer.add(saysSubscription.map { $0 ? 1 : 0 } ?? 2 as UInt8)
        packer.add(renewal.rawValue)
        packer.add(period.rawValue)
        packer.add(reporter)
        packer.add(account)
        packer.add(UInt64(owners.count))
        for owner in owners { packer.add(owner) }
        packer.add(optional: signedAt)
        if !keptFrom.isEmpty { packer.add(keptFrom) }
        return packer.bytes
    }

    package init?(_ id: PurchaseID, packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        guard let source = unpacker.byte().flatMap(Source.init), let original = unpacker.text(),
            let transaction = unpacker.text(), let product = unpacker.text(), let startedAt = unpacker.instant(),
            let purchasedAt = unpacker.instant(), let expiresAt = unpacker.optionalInstant(),
            let revokedAt = unpacker.optionalInstant(), let isSubscription = unpacker.byte(),
            let renewal = unpacker.byte().flatMap(Renewal.init), let period = unpacker.byte().flatMap(Period.init),
            let reporter = unpacker.person(), let account = unpacker.account(), let owners = unpacker.people()
        else { return nil }
        self.id = id
        self.source = source
        originalTransaction = original
        self.transaction = transaction
        self.product = product
        self.startedAt = startedAt
        self.purchasedAt = purchasedAt
        self.expiresAt = expiresAt
        self.revokedAt = revokedAt
        saysSubscription = isSubscription == 2 ? nil : isSubscription == 1
        self.renewal = renewal
        self.period = period
        self.reporter = reporter
        self.account = account
        self.owners = owners
        // Earlier versions did not keep it.
        signedAt = unpacker.optionalInstant() ?? nil
        guard !unpacker.isAtEnd else { return }
        guard let keptFrom = unpacker.people() else { return nil }
        self.keptFrom = keptFrom
    }
}

extension Packer {
    mutating func add(_ person: PersonID) { add(UInt64(bitPattern: person.rawValue)) }

    mutating func add(_ people: [PersonID]) {
        add(UInt64(people.count))
        for person in people { add(person) }
    }

    mutating func add(optional moment: Instant?) {
        add(moment == nil ? 0 : 1 as UInt8)
        if let moment { add(moment) }
    }

    mutating func add(_ hash: Hash128) {
        for byte in hash.bytes { add(byte) }
    }

    mutating func add(_ account: StoreAccount?) {
        switch account {
        case nil: add(0 as UInt8)
        case .install(let person):
            add(1 as UInt8)
            add(person)
        case .named(let hash):
            add(2 as UInt8)
            add(hash)
        }
    }
}

extension Unpacker {
    /// Nil where there is none to read; else the moment, or that there is none.
    mutating func optionalInstant() -> Instant?? {
        switch byte() {
        case 0: .some(nil)
        case 1: instant().map { .some($0) } ?? nil
        default: nil
        }
    }

    mutating func hash() -> Hash128? {
        var bytes: [UInt8] = []
        for _ in 0..<16 {
            guard let byte = byte() else { return nil }
            bytes.append(byte)
        }
        return Hash128(bytes.span)
    }

    mutating func account() -> StoreAccount?? {
        switch byte() {
        case 0: .some(nil)
        case 1: person().map { .some(.install($0)) } ?? nil
        case 2: hash().map { .some(.named($0)) } ?? nil
        default: nil
        }
    }

    mutating func people() -> [PersonID]? {
        guard let count = integer() else { return nil }
        var people: [PersonID] = []
        for _ in 0..<count {
            guard let person = person() else { return nil }
            people.append(person)
        }
        return people
    }
}
