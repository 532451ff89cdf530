/// The access that people would have if other restore strategies had been in force from the first call.
///
/// The dry run decides each call about a purchase, a restore, a linked identity or an undone transfer twice: with the old
/// strategies and with the new strategies. Old journals do not have all data for these decisions. The dry run counts calls
/// without enough data.
struct AccessDryRun {
    /// The purchases under one set of restore strategies.
    fileprivate struct World {
        let project: ProjectID
        var documents = ScratchDocuments()
    }

    private let project: ProjectID
    private let strategies: RestoreStrategies
    private var now: World
    private var then: World
    private var users: Set<PersonID> = []
    private var purchases: Set<PurchaseID> = []
    private var lastTransfer: Int64 = 0
    private var moment = Instant(milliseconds: 0)
    private var difference = Difference.Access()

    init(_ strategies: RestoreStrategies, for project: ProjectID) {
        self.project = project
        self.strategies = strategies
        (now, then) = (World(project: project), World(project: project))
    }

    // MARK: - Deciding a call again

    mutating func take(_ call: RecordedCall) {
        moment = max(moment, call.at)
        let erased = call.facts.compactMap { if case .personErased(let person) = $0 { person } else { nil } }
        if !erased.isEmpty { erase(erased) }
        guard case .reply(let answer) = call.answer else { return }
        if let moved = answer.as(PurchaseMoved.self) { return move(moved, call) }
        // The journal does not have what an undo of a call needs.
        if call.kind == .undoCall, call.facts.contains(where: \.isOfPurchase) { difference.unknown += 1 }
        guard let reply = answer.as(AccessReply.self) else { return }
        switch reply {
        case .kept(let answer, let circumstances): again(circumstances, answer, call)
        case .edited(let catalog):
            now.documents.apply([catalog.put(project)])
            then.documents.apply([catalog.put(project)])
        case .transferUndone(let undone): undo(undone.id, call)
        case .unfrozen(let purchase):
            now.unfreeze(purchase, stamp(call, nil))
            then.unfreeze(purchase, stamp(call, nil))
        case .purchased, .purchaseKept, .purchaseFrozen, .restored, .identified: difference.unknown += 1
        case .user, .granted, .revoked, .propertiesSet, .noted: break
        }
    }

    private mutating func again(_ circumstances: AccessCircumstances, _ answer: AccessReply, _ call: RecordedCall) {
        switch circumstances {
        case .purchased(let parties, let receipt, let strategy, let world):
            meet(parties.people, call.at)
            purchases.insert(receipt.purchase)
            var transfer: TransferID?
            if case .purchased(_, _, let made) = answer { transfer = made }
            let stamp = stamp(call, transfer)
            let was = now.record(receipt, parties, by: strategy, in: world, stamp)
            let would = then.record(receipt, parties, by: strategies[world], in: world, stamp)
            if was != would { differs(call, parties.user, now: was.text, then: would.text) }
        case .restored(let parties, let receipts, let extent, let world):
            meet(parties.people, call.at)
            purchases.formUnion(receipts.compactMap { $0?.purchase })
            if case .restore = extent { difference.restores += 1 }
            guard case .restored(let restored) = answer else { return }
            let stamp = stamp(call, restored.transfer)
            let outcomes = restored.items.map(\.outcome)
            // The journal may have the answer of an earlier version, so the same version decides both.
            let was = now.restore(parties, receipts, extent, by: restored.strategy, in: world, stamp)
            let would =
                extent.isAllowed(by: strategies[world])
                ? then.restore(parties, receipts, extent, by: strategies[world], in: world, stamp) : nil
            if would != (was ?? outcomes) {
                differs(call, parties.user, now: text(was ?? outcomes), then: would.map(text) ?? "refused")
            }
        case .told(let receipts):
            purchases.formUnion(receipts.map(\.purchase))
            let stamp = stamp(call, nil)
            for world in [\AccessDryRun.now, \.then] {
                let taken = TakeStoreNews.take(receipts, stamp, in: project, self[keyPath: world].documents)
                self[keyPath: world].documents.apply(taken.outcome?.changes ?? [])
            }
        case .identified(let person, let payer):
            meet([person, payer].compactMap { $0 }, call.at)
            let stamp = Stamp(at: call.at, person: person)
            for world in [\AccessDryRun.now, \.then] {
                guard var user = self[keyPath: world].documents.accessUser(person) else { continue }
                let payer = payer == person ? user : payer.flatMap { self[keyPath: world].documents.accessUser($0) }
                let changes =
                    payer.map { user.takeOver(paidBy: $0, stamp, in: project, self[keyPath: world].documents) } ?? []
                self[keyPath: world].documents.apply(changes + [user.put])
            }
        }
    }

    /// The stamp of a call that may move purchases. If the journal has no transfer for the call, the transfer here gets a
    /// number that no real transfer has.
    private mutating func stamp(_ call: RecordedCall, _ transfer: TransferID?) -> Stamp {
        lastTransfer -= 1
        return Stamp(at: call.at, person: PersonID(rawValue: transfer?.rawValue ?? lastTransfer))
    }

    /// A user exists from the first call that names it.
    private mutating func meet(_ people: [PersonID], _ moment: Instant) {
        for person in people where users.insert(person).inserted {
            let user = AccessUser(person, id: "", madeAt: moment, isForTrying: false)
            now.documents.apply([user.put])
            then.documents.apply([user.put])
        }
    }

    /// An administrator moved the purchase, whatever the strategies.
    private mutating func move(_ moved: PurchaseMoved, _ call: RecordedCall) {
        let stamp = stamp(call, moved.transfer)
        for world in [\AccessDryRun.now, \.then] {
            let decision = try? MovePurchase(moved.purchase, to: moved.owner).move(
                stamp, in: project, self[keyPath: world].documents)
            self[keyPath: world].documents.apply(decision?.outcome?.changes ?? [])
        }
    }

    private mutating func undo(_ id: TransferID, _ call: RecordedCall) {
        let stamp = Stamp(at: call.at, person: PersonID(rawValue: id.rawValue))
        var isRefused = false
        for world in [\AccessDryRun.now, \.then] {
            let undone = try? UndoTransfer(id).undo(
                stamp, in: project, self[keyPath: world].documents)
            self[keyPath: world].documents.apply(undone?.outcome?.changes ?? [])
            isRefused = undone == nil
        }
        if isRefused { differs(call, call.person, now: "undone", then: "refused") }
    }

    private mutating func erase(_ people: [PersonID]) {
        for world in [\AccessDryRun.now, \.then] {
            let changes = self[keyPath: world].documents.purchasesErased(of: people)
            self[keyPath: world].documents.apply(changes)
            for person in people { self[keyPath: world].documents.put(AccessUser.key(person), []) }
        }
        users.subtract(people)
    }

    private mutating func differs(_ call: RecordedCall, _ person: PersonID?, now: String, then: String) {
        difference.calls += 1
        guard difference.samplesOfCalls.count < Difference.samples else { return }
        difference.samplesOfCalls.append(
            Difference.Access.Call(Difference.Answered(call), person: person, now: now, then: then))
    }

    private func text(_ outcomes: [Restored.Kind]) -> String { outcomes.map { "\($0.name)" }.joined(separator: ",") }

    // MARK: - Differences

    /// The holders of a purchase, independent of sessions: its owners, and the installs that have joined the account that paid.
    func holders(of purchase: PurchaseID) -> (owners: [PersonID], payers: [PersonID])? {
        holders(of: purchase, in: then.documents, payers(in: then.documents))
    }

    private func holders(
        of id: PurchaseID, in documents: ScratchDocuments, _ payers: [Hash128: [PersonID]]
    ) -> (owners: [PersonID], payers: [PersonID])? {
        guard let purchase = documents.purchase(id) else { return nil }
        var paying = purchase.installs.people
        for person in purchase.accounts.flatMap({ payers[$0] ?? [] }) where !paying.contains(person) {
            paying.append(person)
        }
        return (purchase.owners, paying)
    }

    /// The installs that have joined an account by a name.
    private func payers(in documents: ScratchDocuments) -> [Hash128: [PersonID]] {
        var payers: [Hash128: [PersonID]] = [:]
        for person in users.sorted() {
            for account in documents.accessUser(person)?.accounts ?? [] { payers[account, default: []].append(person) }
        }
        return payers
    }

    /// The differences after all calls so far, for purchases that give access at the time of the last call.
    func finished() -> Difference.Access {
        var difference = difference
        let catalog = then.documents.catalog(of: project)
        let payers = (payers(in: now.documents), payers(in: then.documents))
        var (gaining, losing): (Set<PersonID>, Set<PersonID>) = ([], [])
        for id in purchases.sorted(by: { ($0.hash.high, $0.hash.low) < ($1.hash.high, $1.hash.low) }) {
            func holders(_ documents: ScratchDocuments, _ payers: [Hash128: [PersonID]]) -> (
                owners: Set<PersonID>, payers: Set<PersonID>
            ) {
                guard let purchase = documents.purchase(id),
                    purchase.isActive(at: moment, catalog.product(purchase.product)),
                    let holders = self.holders(of: id, in: documents, payers)
                else { return ([], []) }
                return (Set(holders.owners), Set(holders.payers))
            }
            let (had, has) = (holders(now.documents, payers.0), holders(then.documents, payers.1))
            // A payer that is not an owner has the purchase on that install only.
            let gained = has.owners.subtracting(had.owners).union(has.payers.subtracting(had.payers))
            let lost = had.owners.subtracting(has.owners).union(had.payers.subtracting(has.payers))
            gaining.formUnion(gained)
            losing.formUnion(lost)
            let product = (then.documents.purchase(id) ?? now.documents.purchase(id))?.product ?? ""
            let changes = gained.sorted().map { ($0, true) } + lost.sorted().map { ($0, false) }
            for (person, isGained) in changes where difference.samples.count < Difference.samples {
                difference.samples.append(
                    Difference.Access.Holder(
                        person: person, product: product,
                        entitlements: catalog.product(product)?.entitlements ?? [], isGained: isGained))
            }
        }
        (difference.gaining, difference.losing) = (gaining.count, losing.count)
        return difference
    }
}

extension AccessDryRun.World {
    /// The result of a reported purchase.
    enum Reported: Equatable {
        case taken
        case kept
        case frozen
        case refused

        var text: String {
            switch self {
            case .taken: "taken"
            case .kept: "kept"
            case .frozen: "frozen"
            case .refused: "refused"
            }
        }
    }

    /// Decides a reported purchase.
    mutating func record(
        _ receipt: Receipt, _ parties: AccessParties, by strategy: RestoreStrategy, in world: AccessWorld,
        _ stamp: Stamp
    ) -> Reported {
        let principals = principals(parties, stamp.at)
        let decision = try? RecordPurchase.record(
            receipt, for: principals, by: strategy, in: world, stamp, project, documents)
        documents.apply(decision?.outcome?.changes ?? [])
        switch decision?.answer.plain {
        case nil: return .refused
        case .purchaseKept: return .kept
        case .purchaseFrozen: return .frozen
        case .user, .identified, .granted, .revoked, .purchased, .unfrozen, .noted, .restored, .propertiesSet,
            .transferUndone, .edited, .kept:
            return .taken
        }
    }

    /// Ends the freeze of a purchase.
    mutating func unfreeze(_ purchase: PurchaseID, _ stamp: Stamp) {
        let decision = try? UnfreezePurchase(purchase).unfreeze(stamp, documents)
        documents.apply(decision?.outcome?.changes ?? [])
    }

    /// Decides a restore, and returns the result of each item; nil if the whole call would be refused.
    mutating func restore(
        _ parties: AccessParties, _ receipts: [Receipt?], _ extent: RestorePurchases.Extent,
        by strategy: RestoreStrategy, in world: AccessWorld, _ stamp: Stamp
    ) -> [Restored.Kind]? {
        let decision = try? RestorePurchases.decide(
            receipts, extent, by: strategy, for: principals(parties, stamp.at), in: world, stamp,
            project, documents)
        documents.apply(decision?.outcome?.changes ?? [])
        guard case .restored(let restored) = decision?.answer.plain else { return nil }
        return restored.items.map(\.outcome)
    }

    private func principals(_ parties: AccessParties, _ moment: Instant) -> AccessPrincipals {
        AccessPrincipals(parties) { person in
            documents.accessUser(person) ?? AccessUser(person, id: "", madeAt: moment, isForTrying: false)
        }
    }
}

extension RecordedCall.Fact {
    fileprivate var isOfPurchase: Bool {
        if case .documentPut(_, .purchase) = self { true } else { false }
    }
}
