/// The circumstances of a call about access. The journal keeps them with the answer, so that a dry run can decide the call
/// under other rules. They name people by id and accounts by hash.
package enum AccessCircumstances: Equatable, Sendable {
    /// A reported purchase, and the project's strategy at that time.
    case purchased(AccessParties, Receipt, by: RestoreStrategy, in: AccessWorld)
    /// Receipts of an install. Nil stands for an invalid receipt.
    case restored(AccessParties, [Receipt?], RestorePurchases.Extent, in: AccessWorld)
    /// The statements of a store.
    case told([Receipt])
    /// The user that an identity was linked to, and the install whose store account pays for the user.
    case identified(PersonID, payer: PersonID?)
}

/// The principals of a session as ids, without their documents.
package struct AccessParties: Equatable, Sendable {
    package let user: PersonID
    package let install: PersonID?
    package let identity: PersonID?
    package let isExact: Bool

    init(_ principals: AccessPrincipals) {
        user = principals.user.person
        install = principals.install?.person
        identity = principals.identity?.person
        isExact = principals.isExact
    }

    var people: [PersonID] { [user, install, identity].compactMap { $0 } }
}

extension AccessPrincipals {
    /// The principals of the session, with the documents that the function returns for them.
    init(_ parties: AccessParties, _ find: (PersonID) -> AccessUser) {
        user = find(parties.user)
        install = parties.install.map(find)
        identity = parties.identity.map(find)
        isExact = parties.isExact
    }
}

extension AccessCircumstances {
    func pack(into packer: inout Packer) {
        switch self {
        case .purchased(let parties, let receipt, let strategy, let world):
            packer.add(4 as UInt8)
            parties.pack(into: &packer)
            receipt.pack(into: &packer)
            packer.add(strategy.rawValue)
            packer.add(world.rawValue)
        case .restored(let parties, let receipts, let extent, let world):
            packer.add(2 as UInt8)
            parties.pack(into: &packer)
            extent.pack(into: &packer)
            packer.add(world.rawValue)
            packer.add(UInt64(receipts.count))
            for receipt in receipts {
                packer.add(receipt != nil)
                receipt?.pack(into: &packer)
            }
        case .told(let receipts):
            packer.add(5 as UInt8)
            packer.add(UInt64(receipts.count))
            for receipt in receipts { receipt.pack(into: &packer) }
        case .identified(let person, let payer):
            packer.add(3 as UInt8)
            packer.add(person)
            packer.add(kept: payer?.rawValue)
        }
    }

    init?(unpacking unpacker: inout Unpacker) {
        let tag = unpacker.byte()
        switch tag {
        case 1, 4:
            guard let parties = AccessParties(unpacking: &unpacker), let receipt = Receipt(unpacking: &unpacker) else {
                return nil
            }
            // The first versions had no such calls that restore. So neither strategy nor world counts for them.
            var (strategy, world) = (RestoreStrategy.keepOriginal, AccessWorld.production)
            if tag == 4 {
                guard let named = unpacker.byte().flatMap(RestoreStrategy.init(rawValue:)),
                    let place = unpacker.byte().flatMap(AccessWorld.init)
                else { return nil }
                (strategy, world) = (named, place)
            }
            self = .purchased(parties, receipt, by: strategy, in: world)
        case 2:
            guard let parties = AccessParties(unpacking: &unpacker),
                let extent = RestorePurchases.Extent(unpacking: &unpacker),
                let world = unpacker.byte().flatMap(AccessWorld.init), let count = unpacker.integer()
            else { return nil }
            var receipts: [Receipt?] = []
            for _ in 0..<count {
                guard let receipt = unpacker.kept({ Receipt(unpacking: &$0) }) else { return nil }
                receipts.append(receipt.value)
            }
            self = .restored(parties, receipts, extent, in: world)
        case 5:
            guard let count = unpacker.integer() else { return nil }
            var receipts: [Receipt] = []
            for _ in 0..<count {
                guard let receipt = Receipt(unpacking: &unpacker) else { return nil }
                receipts.append(receipt)
            }
            self = .told(receipts)
        case 3:
            guard let person = unpacker.person(), let payer = unpacker.keptNumber() else { return nil }
            self = .identified(person, payer: payer.value.map(PersonID.init(rawValue:)))
        default: return nil
        }
    }
}

extension RestorePurchases.Extent {
    /// The bytes for the extents other than a restore. No strategy has them.
    private static let syncByte: UInt8 = 0xFE
    private static let purchaseByte: UInt8 = 0xFD

    fileprivate func pack(into packer: inout Packer) {
        switch self {
        case .restore(let named): packer.add(named.packed)
        case .sync: packer.add(Self.syncByte)
        case .purchase(let id):
            packer.add(Self.purchaseByte)
            packer.add(id.hash)
        }
    }

    fileprivate init?(unpacking unpacker: inout Unpacker) {
        guard let byte = unpacker.byte() else { return nil }
        switch byte {
        case Self.syncByte: self = .sync
        case Self.purchaseByte:
            guard let hash = unpacker.hash() else { return nil }
            self = .purchase(PurchaseID(hash: hash))
        default:
            guard let named = NamedStrategy?(packed: byte) else { return nil }
            self = .restore(named)
        }
    }
}

extension NamedStrategy? {
    /// The byte for no named strategy.
    private static let none: UInt8 = 0xFF
    /// The bit that marks a strategy that a client named.
    private static let byClient: UInt8 = 0x40

    fileprivate var packed: UInt8 {
        guard let self else { return Self.none }
        return self.strategy.rawValue | (self.isByServer ? 0 : Self.byClient)
    }

    fileprivate init?(packed byte: UInt8) {
        if byte == Self.none {
            self = nil
            return
        }
        guard let strategy = RestoreStrategy(rawValue: byte & ~Self.byClient) else { return nil }
        self = .some(NamedStrategy(strategy, isByServer: byte & Self.byClient == 0))
    }
}

extension AccessParties {
    fileprivate func pack(into packer: inout Packer) {
        packer.add(user)
        packer.add(kept: install?.rawValue)
        packer.add(kept: identity?.rawValue)
        packer.add(isExact)
    }

    fileprivate init?(unpacking unpacker: inout Unpacker) {
        guard let user = unpacker.person(), let install = unpacker.keptNumber(), let identity = unpacker.keptNumber(),
            let isExact = unpacker.bool()
        else { return nil }
        self.user = user
        self.install = install.value.map(PersonID.init(rawValue:))
        self.identity = identity.value.map(PersonID.init(rawValue:))
        self.isExact = isExact
    }
}
