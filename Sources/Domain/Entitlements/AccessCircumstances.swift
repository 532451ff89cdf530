/// The circumstances of a call about access. The journal keeps them with the answer, so that a dry run can decide the call
/// under other rules. They name people by id and accounts by hash.
package enum AccessCircumstances: Equatable, Sendable {
    case purchased(AccessParties, Receipt)
    /// A restore, with the strategy of the call if the call named one. Nil stands for an invalid receipt.
    case restored(AccessParties, [Receipt?], by: NamedStrategy?, in: AccessWorld)
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
        case .purchased(let parties, let receipt):
            packer.add(1 as UInt8)
            parties.pack(into: &packer)
            receipt.pack(into: &packer)
        case .restored(let parties, let receipts, let strategy, let world):
            packer.add(2 as UInt8)
            parties.pack(into: &packer)
            packer.add(strategy.packed)
            packer.add(world.rawValue)
            packer.add(UInt64(receipts.count))
            for receipt in receipts {
                packer.add(receipt != nil)
                receipt?.pack(into: &packer)
            }
        case .identified(let person, let payer):
            packer.add(3 as UInt8)
            packer.add(person)
            packer.add(kept: payer?.rawValue)
        }
    }

    init?(unpacking unpacker: inout Unpacker) {
        switch unpacker.byte() {
        case 1:
            guard let parties = AccessParties(unpacking: &unpacker), let receipt = Receipt(unpacking: &unpacker) else {
                return nil
            }
            self = .purchased(parties, receipt)
        case 2:
            guard let parties = AccessParties(unpacking: &unpacker),
                let strategy = unpacker.byte().flatMap(NamedStrategy?.init(packed:)),
                let world = unpacker.byte().flatMap(AccessWorld.init), let count = unpacker.integer()
            else { return nil }
            var receipts: [Receipt?] = []
            for _ in 0..<count {
                guard let receipt = unpacker.kept({ Receipt(unpacking: &$0) }) else { return nil }
                receipts.append(receipt.value)
            }
            self = .restored(parties, receipts, by: strategy, in: world)
        case 3:
            guard let person = unpacker.person(), let payer = unpacker.keptNumber() else { return nil }
            self = .identified(person, payer: payer.value.map(PersonID.init(rawValue:)))
        default: return nil
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

extension Receipt {
    fileprivate func pack(into packer: inout Packer) {
        packer.add(purchase.hash)
        packer.add(source.rawValue)
        packer.add(transaction)
        packer.add(kept: originalTransaction.hasSameBytes(as: transaction) ? nil : originalTransaction)
        packer.add(product)
        packer.add(purchasedAt)
        packer.add(optional: expiresAt)
        packer.add(optional: revokedAt)
        packer.add(isSubscription.map { $0 ? 1 : 0 } ?? 2 as UInt8)
        packer.add(renewal.rawValue)
        packer.add(period.rawValue)
        packer.add(account)
        packer.add(optional: signedAt)
    }

    fileprivate init?(unpacking unpacker: inout Unpacker) {
        guard let purchase = unpacker.hash(), let source = unpacker.byte().flatMap(Purchase.Source.init),
            let transaction = unpacker.text(), let original = unpacker.keptText(), let product = unpacker.text(),
            let purchasedAt = unpacker.instant(), let expiresAt = unpacker.optionalInstant(),
            let revokedAt = unpacker.optionalInstant(), let isSubscription = unpacker.byte(), isSubscription < 3,
            let renewal = unpacker.byte().flatMap(Purchase.Renewal.init),
            let period = unpacker.byte().flatMap(Purchase.Period.init), let account = unpacker.account(),
            let signedAt = unpacker.optionalInstant()
        else { return nil }
        self.init(
            purchase: PurchaseID(hash: purchase), source: source, transaction: transaction,
            originalTransaction: original.value ?? transaction, product: product, purchasedAt: purchasedAt)
        self.expiresAt = expiresAt
        self.revokedAt = revokedAt
        self.isSubscription = isSubscription == 2 ? nil : isSubscription == 1
        (self.renewal, self.period, self.account, self.signedAt) = (renewal, period, account, signedAt)
    }
}
