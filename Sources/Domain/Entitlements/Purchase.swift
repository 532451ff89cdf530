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

/// The account that paid, as far as a store names it (spec/entitlements.md, decision 5).
package enum StoreAccount: Equatable, Sendable {
    /// The account of the install that first reported the purchase.
    case install(PersonID)
    /// The hash of a store's name for the account.
    case named(Hash128)

    /// The account with a store's name, as a hash.
    package static func named(
        _ source: Purchase.Source, _ name: String, in world: AccessWorld, of project: ProjectID, hash: KeyedHash
    ) -> StoreAccount {
        let tag = 7 << 60 | UInt64(UInt32(bitPattern: project.rawValue)) << 8 | UInt64(world.rawValue) << 7
        return .named(hash.hash(tag: tag | UInt64(source.rawValue), name))
    }
}

/// The data that a store has confirmed.
package struct Receipt: Equatable, Sendable {
    package var purchase: PurchaseID
    package var source: Purchase.Source
    package var transaction: String
    package var originalTransaction: String
    package var product: String
    package var purchasedAt: Instant
    /// The end; nil for a purchase without an end, or if the product's duration decides.
    package var expiresAt: Instant?
    /// The moment of a refund; nil if there was no refund.
    package var revokedAt: Instant?
    /// Whether it is a subscription; nil if the store does not say.
    package var isSubscription: Bool?
    package var renewal = Purchase.Renewal.willRenew
    package var period = Purchase.Period.normal
    /// The account that the store names; nil if the store names no account.
    package var account: StoreAccount?
    /// The moment at which the store signed the data; nil if it is unknown.
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

/// A purchase with its payer and its owners. Payer and owner are two different things (spec/entitlements.md 2.4).
package struct Purchase: Equatable, Sendable {
    /// The source of the confirmation. Stores keep the raw values, so a raw value never changes.
    package enum Source: UInt8, CaseIterable, Sendable {
        case appStore = 1
        case playStore = 2
        case stripe = 3
        case paddle = 4
    }

    /// The state of a subscription's renewal. Stores keep the raw values, so a raw value never changes.
    package enum Renewal: UInt8, Sendable {
        case willRenew = 1
        case canceled = 2
        case billingIssue = 3
    }

    /// The kind of a subscription's present period. Stores keep the raw values, so a raw value never changes.
    package enum Period: UInt8, Sendable {
        case normal = 1
        case trial = 2
        case intro = 3
    }

    package let id: PurchaseID
    package let source: Source
    package let originalTransaction: String
    /// The last known transaction, and its product.
    package private(set) var transaction: String
    package private(set) var product: String
    /// The moments of the first and the last known transaction.
    package let startedAt: Instant
    package private(set) var purchasedAt: Instant
    /// The store's data about the end and the kind. If the store gives none, the product's definition applies, also if it was
    /// made later.
    private var expiresAt: Instant?
    package private(set) var revokedAt: Instant?
    private var saysSubscription: Bool?
    package private(set) var renewal: Renewal
    package private(set) var period: Period
    /// The moment at which the store signed the data; nil if it is unknown.
    private var signedAt: Instant?
    /// The user that first reported the purchase.
    package let reporter: PersonID
    /// The payer; nil if it is unknown.
    package internal(set) var account: StoreAccount?
    /// The identities that own the purchase, as the users of these identities.
    package internal(set) var owners: [PersonID]
    /// The identities that asked for the purchase and did not get it, while the owners were the present owners. The journal
    /// notes each such identity once.
    private(set) var keptFrom: [PersonID] = []

    /// The limit of owners. A transfer reports all owners to each owner, and this must fit into one call.
    package static let ownersAtMost = 100

    /// The limit of this list. The journal does not note identities beyond it.
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

    /// Notes that an identity asked for the purchase, and that the purchase stays.
    mutating func keep(from person: PersonID) {
        guard !keptFrom.contains(person), keptFrom.count < Purchase.keptFromAtMost else { return }
        keptFrom.append(person)
    }

    /// Gives the purchase to other owners.
    mutating func own(_ owners: [PersonID]) {
        if owners != self.owners { keptFrom = [] }
        self.owners = owners
    }

    /// Whether a receipt has a later transaction than the last known transaction.
    func isBehind(_ receipt: Receipt) -> Bool {
        !receipt.transaction.hasSameBytes(as: transaction) && receipt.purchasedAt > purchasedAt
    }

    /// Applies a receipt. A receipt of an earlier transaction, or with an earlier signature, changes nothing.
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

    /// Whether a receipt of the same transaction is as new as the last receipt, or newer. A refund stays until the store
    /// signs other data later.
    private func isAsNew(_ receipt: Receipt) -> Bool {
        if let revokedAt, receipt.revokedAt == nil {
            return receipt.signedAt.map { $0 > signedAt ?? revokedAt } ?? false
        }
        guard let signedAt else { return true }
        return receipt.signedAt.map { $0 >= signedAt } ?? false
    }

    /// Whether the purchase equals another purchase, without the moment of the signature.
    func isSame(as other: Purchase) -> Bool {
        var other = other
        other.signedAt = signedAt
        return self == other
    }

    /// The end of the purchase, from the store or from the product's duration; nil for a purchase without an end.
    package func expiry(_ definition: Catalog.Product?) -> Instant? {
        expiresAt ?? definition?.end(from: purchasedAt)
    }

    /// Whether the purchase is a subscription, from the store or from the product's definition.
    package func isSubscription(_ definition: Catalog.Product?) -> Bool {
        saysSubscription ?? definition.map { $0.kind == .subscription } ?? (expiresAt != nil)
    }

    /// Whether the purchase gives access at a moment.
    package func isActive(at moment: Instant, _ definition: Catalog.Product?) -> Bool {
        revokedAt == nil && expiry(definition).map { moment < $0 } ?? true
    }

    var put: Change { .documentPut(id.key, keeper, packed) }

    /// The person whose erasure removes the purchase; no person if only the name of the payer's account is known.
    private var keeper: PersonID {
        if let owner = owners.first { return owner }
        if case .install(let person) = account { return person }
        return PersonID(rawValue: 0)
    }
}

extension Receipt {
    /// The end, from the store or from the product's duration; nil for a purchase without an end.
    func expiry(_ product: Catalog.Product?) -> Instant? {
        expiresAt ?? product?.end(from: purchasedAt)
    }
}

extension Catalog.Product {
    /// The end of the product's own duration; nil for a product without a duration.
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
        // Earlier versions did not store this value.
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
    /// The next optional moment. The outer nil means that the bytes are at their end.
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
