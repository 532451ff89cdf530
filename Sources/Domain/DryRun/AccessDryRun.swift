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
        guard case .reply(let answer) = call.answer, let reply = answer.as(AccessReply.self) else { return }
        switch reply {
        case .kept(let answer, let circumstances): again(circumstances, answer, call)
        case .edited(let catalog):
            now.documents.apply([catalog.put(project)])
            then.documents.apply([catalog.put(project)])
        case .transferUndone(let undone): undo(undone.id, call)
        case .purchased, .restored, .identified: difference.unknown += 1
        case .user, .granted, .revoked, .propertiesSet: break
        }
    }

    private mutating func again(_ circumstances: AccessCircumstances, _ answer: AccessReply, _ call: RecordedCall) {
        switch circumstances {
        case .purchased(let parties, let receipt):
            meet(parties.people, call.at)
            purchases.insert(receipt.purchase)
            let stamp = Stamp(at: call.at, person: parties.user)
            _ = now.record(receipt, parties, stamp)
            if !then.record(receipt, parties, stamp) { differs(call, parties.user, now: "taken", then: "refused") }
        case .restored(let parties, let receipts, let named, let world):
            meet(parties.people, call.at)
            purchases.formUnion(receipts.compactMap { $0?.purchase })
            difference.restores += 1
            guard case .restored(let restored) = answer else { return }
            // If the journal has no transfer for the call, the transfer of the dry run gets a number that no real transfer
            // has.
            lastTransfer -= 1
            let id = restored.transfer?.rawValue ?? lastTransfer
            let stamp = Stamp(at: call.at, person: PersonID(rawValue: id))
            let outcomes = restored.items.map(\.outcome)
            _ = now.restore(parties, receipts, by: restored.strategy, stamp, circumstances)
            let isAllowed = named?.isAllowed(by: strategies[world]) ?? true
            let would =
                isAllowed
                ? then.restore(parties, receipts, by: named?.strategy ?? strategies[world], stamp, circumstances) : nil
            if would != outcomes {
                differs(call, parties.user, now: text(outcomes), then: would.map(text) ?? "refused")
            }
        case .identified(let person, let payer):
            meet([person, payer].compactMap { $0 }, call.at)
            for world in [\AccessDryRun.now, \.then] {
                guard var user = self[keyPath: world].documents.accessUser(person) else { continue }
                let payer = payer == person ? user : payer.flatMap { self[keyPath: world].documents.accessUser($0) }
                let changes = payer.map { user.takeOver(paidBy: $0, self[keyPath: world].documents) } ?? []
                self[keyPath: world].documents.apply(changes + [user.put])
            }
        }
    }

    /// A user exists from the first call that names it.
    private mutating func meet(_ people: [PersonID], _ moment: Instant) {
        for person in people where users.insert(person).inserted {
            let user = AccessUser(person, id: "", madeAt: moment, isForTrying: false)
            now.documents.apply([user.put])
            then.documents.apply([user.put])
        }
    }

    private mutating func undo(_ id: TransferID, _ call: RecordedCall) {
        let stamp = Stamp(at: call.at, person: PersonID(rawValue: id.rawValue))
        var isRefused = false
        for world in [\AccessDryRun.now, \.then] {
            let undone = try? UndoTransfer(id, isDryRun: false).undo(
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

    /// The holders of a purchase, independent of sessions: its owners, and the installs whose store account paid.
    func holders(of purchase: PurchaseID) -> (owners: [PersonID], payers: [PersonID])? {
        holders(of: purchase, in: then.documents, payers(in: then.documents))
    }

    private func holders(
        of id: PurchaseID, in documents: ScratchDocuments, _ payers: [Hash128: [PersonID]]
    ) -> (owners: [PersonID], payers: [PersonID])? {
        guard let purchase = documents.purchase(id) else { return nil }
        let paying: [PersonID] =
            switch purchase.account {
            case .install(let person): [person]
            case .named(let hash): payers[hash] ?? []
            case nil: []
            }
        return (purchase.owners, paying)
    }

    /// The installs that paid with a named account.
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
    /// Decides a purchase; false if the call would be refused.
    mutating func record(_ receipt: Receipt, _ parties: AccessParties, _ stamp: Stamp) -> Bool {
        let principals = principals(parties, stamp.at)
        let decision = try? RecordPurchase.record(receipt, for: principals, stamp, in: project, documents)
        documents.apply(decision?.outcome?.changes ?? [])
        return decision != nil
    }

    /// Decides a restore, and returns the result of each item; nil if the whole call would be refused.
    mutating func restore(
        _ parties: AccessParties, _ receipts: [Receipt?], by strategy: RestoreStrategy, _ stamp: Stamp,
        _ circumstances: AccessCircumstances
    ) -> [Restored.Kind]? {
        let restoring = Restoring(
            receipts: receipts, strategy: strategy, isDryRun: false, circumstances: circumstances)
        let principals = principals(parties, stamp.at)
        let decision = try? restoring.decide(for: principals, stamp, in: project, documents)
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
