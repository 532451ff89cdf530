/// The bytes of purchases and receipts. Stores and journals keep them, so each form stays readable.
extension Purchase {
    /// The mark on the first byte of the present form. The first form began with the source alone.
    fileprivate static let mark: UInt8 = 0x80

    package var packed: [UInt8] {
        var packer = Packer()
        packer.add(source.rawValue | Purchase.mark)
        packer.add(originalTransaction)
        packer.add(reporter)
        history.pack(into: &packer)
        installs.pack(into: &packer)
        packer.add(hashes: accounts)
        packer.add(owners)
        packer.add(UInt64(owningMoments.count))
        for moment in owningMoments { packer.add(moment) }
        packer.add(keptFrom)
        packer.add(optional: sharedAt)
        let flags: UInt8 =
            (replacedBy == nil ? 0 : 1) | (check == nil ? 0 : 2) | (unfrozenAt == nil ? 0 : 4)
            | (notifiedAt == nil ? 0 : 8) | ((check?.graceMilliseconds ?? 0) == 0 ? 0 : 32) | (items.isEmpty ? 0 : 64)
            | (device == nil && forgottenAt == nil ? 0 : 128)
        guard flags != 0 else { return packer.bytes }
        packer.add(flags)
        if let replacedBy { packer.add(replacedBy.hash) }
        if let unfrozenAt { packer.add(unfrozenAt) }
        if let notifiedAt { packer.add(notifiedAt) }
        check?.pack(into: &packer)
        if let grace = check?.graceMilliseconds, grace != 0 { packer.add(UInt64(grace)) }
        if !items.isEmpty { packer.add(hashes: items.map(\.hash)) }
        if device != nil || forgottenAt != nil {
            packer.add(device?.rawValue ?? 0)
            packer.add(optional: forgottenAt)
        }
        return packer.bytes
    }

    package init?(_ id: PurchaseID, packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        guard let first = unpacker.byte(), let source = Source(rawValue: first & ~Purchase.mark) else { return nil }
        if first & Purchase.mark == 0 {
            self.init(id, source, firstForm: &unpacker)
            return
        }
        guard let original = unpacker.text(), let reporter = unpacker.person(),
            let history = History(unpacking: &unpacker), let installs = JoinedInstalls(unpacking: &unpacker),
            let accounts = unpacker.hashes(), let owners = unpacker.people(), let count = unpacker.integer()
        else { return nil }
        self.init(
            id: id, source: source, originalTransaction: original, history: history, reporter: reporter,
            owners: owners)
        self.installs = installs
        self.accounts = accounts
        for _ in 0..<count {
            guard let moment = unpacker.instant() else { return nil }
            owningMoments.append(moment)
        }
        guard let keptFrom = unpacker.people(), let sharedAt = unpacker.optionalInstant() else { return nil }
        self.keptFrom = keptFrom
        self.sharedAt = sharedAt
        // Earlier versions ended here.
        if unpacker.isAtEnd { return }
        guard let flags = unpacker.byte() else { return nil }
        if flags & 1 != 0 {
            guard let replacedBy = unpacker.hash() else { return nil }
            self.replacedBy = PurchaseID(hash: replacedBy)
        }
        var moments: [UInt8: Instant] = [:]
        // Earlier versions stored the end of a grace with the flag 16.
        for flag: UInt8 in [4, 8, 16] where flags & flag != 0 {
            guard let moment = unpacker.instant() else { return nil }
            moments[flag] = moment
        }
        (unfrozenAt, notifiedAt) = (moments[4], moments[8])
        if flags & 2 != 0 {
            guard var check = Check(unpacking: &unpacker) else { return nil }
            if flags & 32 != 0 {
                guard let grace = unpacker.integer(), let grace = Int64(exactly: grace) else { return nil }
                check.graceMilliseconds = grace
            }
            self.check = check
        }
        if flags & 64 != 0 {
            guard let items = unpacker.hashes() else { return nil }
            self.items = items.map(PurchaseID.init)
        }
        if flags & 128 != 0 {
            guard let device = unpacker.byte(), let forgottenAt = unpacker.optionalInstant() else { return nil }
            self.device = DeviceBinding(rawValue: device)
            self.forgottenAt = forgottenAt
        }
    }

    /// Reads a purchase from before store accounts were sets of installs: it had one transaction and one payer.
    private init?(_ id: PurchaseID, _ source: Source, firstForm unpacker: inout Unpacker) {
        guard let original = unpacker.text(), let transaction = unpacker.text(), let product = unpacker.text(),
            let startedAt = unpacker.instant(), let purchasedAt = unpacker.instant(),
            let endsAt = unpacker.optionalInstant(), let revokedAt = unpacker.optionalInstant(),
            let isSubscription = unpacker.byte(), let renewal = unpacker.byte().flatMap(Renewal.init),
            let period = unpacker.byte().flatMap(Period.init), let reporter = unpacker.person(),
            let account = unpacker.accountOfFirstForm(), let owners = unpacker.people()
        else { return nil }
        // The first versions of this form did not store the last two values.
        let signedAt = unpacker.optionalInstant() ?? nil
        var told = Transaction(id: transaction, product: product, startedAt: purchasedAt)
        told.endsAt = endsAt
        told.revokedAt = revokedAt
        told.isSubscription = isSubscription == 2 ? nil : isSubscription == 1
        told.period = period
        told.signedAt = signedAt
        var history = History(told, RenewalState(renewal, saidAt: signedAt ?? purchasedAt))
        history.begin(at: startedAt)
        self.init(
            id: id, source: source, originalTransaction: original, history: history, reporter: reporter,
            owners: owners)
        switch account {
        case .install(let person): _ = installs.join(person, at: startedAt)
        case .named(let hash): accounts = [hash]
        case nil: break
        }
        guard !unpacker.isAtEnd else { return }
        guard let keptFrom = unpacker.people() else { return nil }
        self.keptFrom = keptFrom
    }
}

extension Receipt {
    /// Packs the receipt for the journal, which has only receipts that counted. So the trust is left out.
    func pack(into packer: inout Packer) {
        packer.add(purchase.hash)
        packer.add(source.rawValue | Purchase.mark)
        packer.add(kept: originalTransaction.hasSameBytes(as: transaction) ? nil : originalTransaction)
        told.pack(into: &packer)
        packer.add(renewal != nil)
        renewal?.pack(into: &packer)
        packer.add(hashes: accounts)
        packer.add(UInt64(others.count))
        for transaction in others { transaction.pack(into: &packer) }
        packer.add(
            (replaces == nil ? 0 : 1) | (canBeAsked ? 2 : 0) | (isUnacknowledged ? 4 : 0)
                | (graceMilliseconds == 0 ? 0 : 8) | (items == nil ? 0 : 16) | (itemOf == nil ? 0 : 32)
                | (device?.rawValue ?? 0) << 6 as UInt8)
        if let replaces { packer.add(replaces.hash) }
        if graceMilliseconds != 0 { packer.add(UInt64(graceMilliseconds)) }
        if let items { packer.add(hashes: items.map(\.hash)) }
        if let itemOf { packer.add(itemOf.hash) }
    }

    init?(unpacking unpacker: inout Unpacker) {
        guard let purchase = unpacker.hash(), let first = unpacker.byte(),
            let source = Purchase.Source(rawValue: first & ~Purchase.mark)
        else { return nil }
        if first & Purchase.mark == 0 {
            self.init(PurchaseID(hash: purchase), source, firstForm: &unpacker)
            return
        }
        guard let original = unpacker.keptText(), let told = Purchase.Transaction(unpacking: &unpacker),
            let renewal = unpacker.kept({ Purchase.RenewalState(unpacking: &$0) }), let accounts = unpacker.hashes()
        else { return nil }
        self.init(
            purchase: PurchaseID(hash: purchase), source: source, originalTransaction: original.value ?? told.id,
            told: told)
        self.renewal = renewal.value
        self.accounts = accounts
        guard let count = unpacker.integer() else { return nil }
        for _ in 0..<count {
            guard let transaction = Purchase.Transaction(unpacking: &unpacker) else { return nil }
            others.append(transaction)
        }
        guard let flags = unpacker.byte() else { return nil }
        (canBeAsked, isUnacknowledged) = (flags & 2 != 0, flags & 4 != 0)
        if flags & 1 != 0 {
            guard let replaced = unpacker.hash() else { return nil }
            replaces = PurchaseID(hash: replaced)
        }
        if flags & 8 != 0 {
            guard let grace = unpacker.integer(), let grace = Int64(exactly: grace) else { return nil }
            graceMilliseconds = grace
        }
        device = Purchase.DeviceBinding(rawValue: flags >> 6)
        if flags & 16 != 0 {
            guard let all = unpacker.hashes() else { return nil }
            items = all.map(PurchaseID.init)
        }
        if flags & 32 != 0 {
            guard let first = unpacker.hash() else { return nil }
            itemOf = PurchaseID(hash: first)
        }
    }

    private init?(_ purchase: PurchaseID, _ source: Purchase.Source, firstForm unpacker: inout Unpacker) {
        guard let transaction = unpacker.text(), let original = unpacker.keptText(), let product = unpacker.text(),
            let purchasedAt = unpacker.instant(), let endsAt = unpacker.optionalInstant(),
            let revokedAt = unpacker.optionalInstant(), let isSubscription = unpacker.byte(), isSubscription < 3,
            let renewal = unpacker.byte().flatMap(Purchase.Renewal.init),
            let period = unpacker.byte().flatMap(Purchase.Period.init),
            let account = unpacker.accountOfFirstForm(), let signedAt = unpacker.optionalInstant()
        else { return nil }
        self.init(
            purchase: purchase, source: source, transaction: transaction,
            originalTransaction: original.value ?? transaction, product: product, purchasedAt: purchasedAt)
        told.endsAt = endsAt
        told.revokedAt = revokedAt
        told.isSubscription = isSubscription == 2 ? nil : isSubscription == 1
        told.period = period
        told.signedAt = signedAt
        self.renewal = Purchase.RenewalState(renewal, saidAt: signedAt ?? purchasedAt)
        if case .named(let hash) = account { accounts = [hash] }
    }
}

/// The account of a purchase in the first form: an install, or a name.
enum AccountOfFirstForm: Equatable {
    case install(PersonID)
    case named(Hash128)
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

    mutating func add(hashes: [Hash128]) {
        add(UInt64(hashes.count))
        for hash in hashes { add(hash) }
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

    mutating func hashes() -> [Hash128]? {
        guard let count = integer() else { return nil }
        var hashes: [Hash128] = []
        for _ in 0..<count {
            guard let hash = hash() else { return nil }
            hashes.append(hash)
        }
        return hashes
    }

    mutating func accountOfFirstForm() -> AccountOfFirstForm?? {
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
