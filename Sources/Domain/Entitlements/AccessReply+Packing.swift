extension AccessReply: Answer {
    package static let tags: [UInt8] = [ActKind.accessUser.rawValue]

    /// A byte in kept answers that once said whether the call was a dry run.
    fileprivate static let unused: UInt8 = 0

    /// The answer without its circumstances.
    package var plain: AccessReply { if case .kept(let reply, _) = self { reply } else { self } }

    package func pack(into packer: inout Packer) {
        switch self {
        case .user(let user, let tellsMilliseconds):
            packer.add(tellsMilliseconds ? 10 : 1 as UInt8)
            packer.add(user.person)
            packer.add(user.packed)
        case .identified(let identity, let user):
            packer.add(2 as UInt8)
            packer.add(identity)
            packer.add(user)
        case .granted(let grant):
            packer.add(3 as UInt8)
            packer.add(grant.entitlement)
            packer.add(grant.startedAt)
            packer.add(optional: grant.expiresAt)
            packer.add(grant.isOfIdentity ? 1 : 0 as UInt8)
        case .revoked: packer.add(4 as UInt8)
        case .purchased(let user, let isNew, let transfer):
            packer.add(transfer == nil ? 5 : 12 as UInt8)
            packer.add(user)
            packer.add(isNew ? 1 : 0 as UInt8)
            if let transfer { packer.add(UInt64(bitPattern: transfer.rawValue)) }
        case .purchaseKept: packer.add(13 as UInt8)
        case .noted: packer.add(14 as UInt8)
        case .purchaseFrozen: packer.add(15 as UInt8)
        case .unfrozen(let purchase):
            packer.add(16 as UInt8)
            packer.add(purchase.hash)
        case .restored(let restored):
            packer.add(17 as UInt8)
            restored.pack(into: &packer)
        case .propertiesSet(let saved, let tooMany):
            packer.add(7 as UInt8)
            packer.add(UInt64(saved.count))
            for property in saved {
                packer.add(property.name)
                packer.add(property.value)
            }
            packer.add(texts: tooMany)
        case .transferUndone(let undone):
            packer.add(18 as UInt8)
            packer.add(UInt64(bitPattern: undone.id.rawValue))
            packer.add(AccessReply.unused)
            packer.add(UInt64(undone.items.count))
            for item in undone.items {
                packer.add(item.transaction)
                packer.add(item.product)
                item.from.pack(into: &packer)
                item.to.pack(into: &packer)
            }
        case .edited(let catalog):
            packer.add(9 as UInt8)
            packer.add(catalog.packed)
        case .kept(let reply, let circumstances):
            packer.add(11 as UInt8)
            circumstances.pack(into: &packer)
            reply.pack(into: &packer)
        }
    }

    package init?(tag: UInt8, unpacking unpacker: inout Unpacker) {
        let tag = unpacker.byte()
        switch tag {
        case 1, 10:
            guard let person = unpacker.person(),
                let user = unpacker.bytes().flatMap({ AccessUser(person, packed: $0) })
            else { return nil }
            self = .user(user, tellsMilliseconds: tag == 10)
        case 2:
            guard let identity = unpacker.text(), let user = unpacker.text() else { return nil }
            self = .identified(identity: identity, user: user)
        case 3:
            guard let entitlement = unpacker.text(), let startedAt = unpacker.instant(),
                let expiresAt = unpacker.optionalInstant(), let isOfIdentity = unpacker.byte()
            else { return nil }
            self = .granted(
                AccessUser.Grant(
                    entitlement: entitlement, startedAt: startedAt, expiresAt: expiresAt,
                    isOfIdentity: isOfIdentity == 1))
        case 4: self = .revoked
        case 5, 12:
            guard let user = unpacker.text(), let isNew = unpacker.byte() else { return nil }
            var transfer: TransferID?
            if tag == 12 {
                guard let number = unpacker.integer() else { return nil }
                transfer = TransferID(rawValue: Int64(bitPattern: number))
            }
            self = .purchased(user: user, isNew: isNew == 1, transfer: transfer)
        case 13: self = .purchaseKept
        case 14: self = .noted
        case 15: self = .purchaseFrozen
        case 16:
            guard let hash = unpacker.hash() else { return nil }
            self = .unfrozen(PurchaseID(hash: hash))
        case 6, 17:
            guard let restored = Restored(unpacking: &unpacker, keepsNames: tag == 6) else { return nil }
            self = .restored(restored)
        case 7:
            guard let count = unpacker.integer() else { return nil }
            var saved: [AccessProperty] = []
            for _ in 0..<count {
                guard let name = unpacker.text(), let value = unpacker.text() else { return nil }
                saved.append(AccessProperty(name, value))
            }
            guard let tooMany = unpacker.texts() else { return nil }
            self = .propertiesSet(saved: saved, tooMany: tooMany)
        case 8, 18:
            guard let id = unpacker.integer(), unpacker.byte() != nil, let count = unpacker.integer()
            else { return nil }
            var items: [TransferUndone.Item] = []
            for _ in 0..<count {
                guard let transaction = unpacker.text(), let product = unpacker.text(),
                    let from = unpacker.others(asNames: tag == 8), let to = unpacker.others(asNames: tag == 8)
                else { return nil }
                items.append(TransferUndone.Item(transaction: transaction, product: product, from: from, to: to))
            }
            self = .transferUndone(
                TransferUndone(id: TransferID(rawValue: Int64(bitPattern: id)), items: items))
        case 9:
            guard let catalog = unpacker.bytes().flatMap(Catalog.init(packed:)) else { return nil }
            self = .edited(catalog)
        case 11:
            guard let circumstances = AccessCircumstances(unpacking: &unpacker),
                let reply = AccessReply(tag: AccessReply.tags[0], unpacking: &unpacker)
            else { return nil }
            self = .kept(reply, circumstances)
        default: return nil
        }
    }
}

extension Restored {
    fileprivate func pack(into packer: inout Packer) {
        packer.add(user)
        packer.add(strategy.rawValue)
        packer.add(AccessReply.unused)
        packer.add(UInt64(bitPattern: transfer?.rawValue ?? 0))
        packer.add(UInt64(items.count))
        for item in items {
            packer.add(optional: item.transaction)
            packer.add(optional: item.product)
            packer.add(item.outcome.rawValue)
            item.others.pack(into: &packer)
        }
    }

    fileprivate init?(unpacking unpacker: inout Unpacker, keepsNames: Bool) {
        guard let user = unpacker.text(), let strategy = unpacker.byte().flatMap(RestoreStrategy.init(rawValue:)),
            unpacker.byte() != nil, let transfer = unpacker.integer(), let count = unpacker.integer()
        else { return nil }
        var items: [Item] = []
        for _ in 0..<count {
            guard let transaction = unpacker.optionalText(), let product = unpacker.optionalText(),
                let outcome = unpacker.byte().flatMap(Kind.init(rawValue:)),
                let others = unpacker.others(asNames: keepsNames)
            else { return nil }
            items.append(Item(transaction: transaction, product: product, outcome: outcome, others: others))
        }
        self.init(
            user: user, strategy: strategy,
            transfer: transfer == 0 ? nil : TransferID(rawValue: Int64(bitPattern: transfer)), items: items)
    }
}

extension Unpacker {
    /// Other people in an answer, which earlier versions kept by their names.
    fileprivate mutating func others(asNames: Bool) -> NamedPeople? {
        asNames ? NamedPeople(unpackingNames: &self) : NamedPeople(unpacking: &self)
    }
}

extension Packer {
    mutating func add(texts: [String]) {
        add(UInt64(texts.count))
        for text in texts { add(text) }
    }
}
