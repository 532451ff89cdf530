/// The access document of an install's user: its names, the purchases of its store account, the purchases of its identity,
/// and its grants.
package struct AccessUser: Equatable, Sendable {
    /// Access that an administrator granted. It stays with the principal that got it (spec/entitlements.md 2.4, rule 7).
    package struct Grant: Equatable, Sendable {
        package let entitlement: String
        package let startedAt: Instant
        /// The end of the grant; nil for a grant without an end.
        package let expiresAt: Instant?
        /// Whether the grant belongs to the identity. Otherwise it belongs to the install.
        package let isOfIdentity: Bool

        /// Whether the grant gives access at a moment.
        package func isActive(at moment: Instant) -> Bool { expiresAt.map { moment < $0 } ?? true }

        func pack(into packer: inout Packer) {
            packer.add(entitlement)
            packer.add(startedAt)
            packer.add(optional: expiresAt)
            packer.add(isOfIdentity ? 1 : 0 as UInt8)
        }

        init?(unpacking unpacker: inout Unpacker) {
            guard let entitlement = unpacker.text(), let startedAt = unpacker.instant(),
                let expiresAt = unpacker.optionalInstant(), let isOfIdentity = unpacker.byte()
            else { return nil }
            self.init(
                entitlement: entitlement, startedAt: startedAt, expiresAt: expiresAt, isOfIdentity: isOfIdentity == 1)
        }

        init(entitlement: String, startedAt: Instant, expiresAt: Instant?, isOfIdentity: Bool) {
            self.entitlement = entitlement
            self.startedAt = startedAt
            self.expiresAt = expiresAt
            self.isOfIdentity = isOfIdentity
        }
    }

    package let person: PersonID
    /// The id of the install's user.
    package let id: String
    package let madeAt: Instant
    /// Whether the install is a sandbox install.
    package let isForTrying: Bool
    /// The app's name for the signed-in user of this document. A call sets the name once, and the name never changes.
    package internal(set) var identity: String?
    /// The store accounts that the install has joined by a name.
    package internal(set) var accounts: [Hash128] = []
    /// Purchases that the install may have proven, and purchases that may belong to the identity. The purchase document
    /// decides.
    package internal(set) var paid: [PurchaseID] = []
    package internal(set) var owned: [PurchaseID] = []
    package internal(set) var grants: [Grant] = []
    /// The hash of the device that made the user, if the call named one.
    package let device: Hash128?

    /// The limit of purchases of one principal.
    package static let purchasesPerUser = 1000
    package static let accountsPerUser = 32
    static let grantsPerUser = 1000

    init(_ person: PersonID, id: String, madeAt: Instant, isForTrying: Bool, device: Hash128? = nil) {
        self.device = device
        self.person = person
        self.id = id
        self.madeAt = madeAt
        self.isForTrying = isForTrying
    }

    static func key(_ person: PersonID) -> DocumentKey { DocumentKey(.accessUser, of: person) }

    var put: Change { .documentPut(AccessUser.key(person), person, packed) }

    package var packed: [UInt8] {
        var packer = Packer()
        packer.add(id)
        packer.add(madeAt)
        packer.add(isForTrying ? 1 : 0 as UInt8)
        packer.add(identity == nil ? 0 : 1 as UInt8)
        if let identity { packer.add(identity) }
        for list in [accounts, paid.map(\.hash), owned.map(\.hash)] { packer.add(hashes: list) }
        packer.add(UInt64(grants.count))
        for grant in grants { grant.pack(into: &packer) }
        if let device { packer.add(device) }
        return packer.bytes
    }

    package init?(_ person: PersonID, packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        guard let id = unpacker.text(), let madeAt = unpacker.instant(), let isForTrying = unpacker.byte(),
            let hasIdentity = unpacker.byte()
        else { return nil }
        var identity: String?
        if hasIdentity == 1 {
            guard let text = unpacker.text() else { return nil }
            identity = text
        }
        guard let accounts = unpacker.hashes(), let paid = unpacker.hashes(), let owned = unpacker.hashes(),
            let count = unpacker.integer()
        else { return nil }
        var grants: [Grant] = []
        for _ in 0..<count {
            guard let grant = Grant(unpacking: &unpacker) else { return nil }
            grants.append(grant)
        }
        // Earlier versions ended here.
        let device = unpacker.isAtEnd ? nil : unpacker.hash()
        self.init(person, id: id, madeAt: madeAt, isForTrying: isForTrying == 1, device: device)
        self.identity = identity
        self.accounts = accounts
        self.paid = paid.map(PurchaseID.init)
        self.owned = owned.map(PurchaseID.init)
        self.grants = grants
    }

    /// The hash of a device's id.
    package static func device(_ id: String, in project: ProjectID, hash: KeyedHash) -> Hash128 {
        // This tag differs from all other tags of hashes under this key.
        hash.hash(tag: 3 << 60 | UInt64(UInt32(bitPattern: project.rawValue)) << 8, id)
    }
}

extension Snapshot {
    /// The purchases of a store account, by one of its names.
    package func purchases(ofAccount name: Hash128) throws(StoreFault) -> [Purchase] {
        var purchases: [Purchase] = []
        for id in NamedAccount(name, packed: try document(NamedAccount.key(name))).paid {
            if let purchase = try purchase(id) { purchases.append(purchase) }
        }
        return purchases
    }
}

/// A store account under one of its names: its purchases, and the installs that have joined it by that name.
struct NamedAccount: Equatable, Sendable {
    let hash: Hash128
    var paid: [PurchaseID] = []
    /// Documents from before store accounts were sets of installs do not have the installs.
    var installs = JoinedInstalls()

    static func key(_ hash: Hash128) -> DocumentKey { DocumentKey(.storeAccount, hash: hash) }

    /// The document belongs to no person. The store removes it with the last purchase.
    var put: Change { .documentPut(NamedAccount.key(hash), PersonID(rawValue: 0), paid.isEmpty ? [] : packed) }

    var packed: [UInt8] {
        var packer = Packer()
        packer.add(hashes: paid.map(\.hash))
        installs.pack(into: &packer)
        return packer.bytes
    }

    init(_ hash: Hash128, packed: [UInt8]?) {
        self.hash = hash
        guard let packed else { return }
        var unpacker = Unpacker(packed)
        paid = unpacker.hashes()?.map(PurchaseID.init) ?? []
        if !unpacker.isAtEnd { installs = JoinedInstalls(unpacking: &unpacker) ?? JoinedInstalls() }
    }
}
