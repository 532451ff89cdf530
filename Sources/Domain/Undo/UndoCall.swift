/// A call that takes a call of the journal back: it ends the facts that the call began, and brings back the facts that the call
/// ended (spec/taking-back.md, decision 5). The undo is itself a call that can be taken back.
package struct UndoCall: Act {
    package let plan: UndoPlan
    /// The reason, in the caller's words.
    package let reason: String?

    package init(_ plan: UndoPlan, reason: String? = nil) { (self.plan, self.reason) = (plan, reason) }

    package static var kinds: [ActKind] { [.undoCall, .undoSettings] }
    package static var readsMerges: Bool { false }
    package var byteCount: Int {
        plan.documents.reduce(256 + 128 * (plan.ended.count + plan.back.count)) {
            $0 + ($1.before?.count ?? 0) + ($1.after?.count ?? 0)
        }
    }

    package var subjects: Subjects {
        Subjects(
            mentions: (plan.ended + plan.back).map(\.identity.key), people: plan.people,
            merges: plan.endedMerges.map(\.id), links: plan.back.map(\.identity))
    }

    /// Takes the call back. The plan comes from a reader, so the decision compares each fact with the present facts. Throws
    /// `builtUpon` if a later call changed a fact of the call, `cannotUndo` if a person of the call was erased, and `full`,
    /// `bothHaveExternalIDs` or `bothHaveInstalls` if a merge cannot come back.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<CallUndone> {
        for person in plan.people where view.person(person, in: project) == nil { throw .cannotUndo(.erased) }
        var changes = try links(in: project, view)
        var ended: [Merge] = []
        for merge in plan.endedMerges {
            guard let known = view.merge(merge.id) else { throw .builtUpon }
            ended.append(known)
        }
        if !ended.isEmpty { changes += UndoMerge.end(ended, stamp, in: project, view) }
        changes += try mergesBack(stamp, in: project, view)
        for document in plan.documents { changes += try document.changes(stamp, view) }
        var undone = CallUndone(plan.call)
        if let version = plan.strategy {
            let history = view.strategies(of: project)
            guard let made = history[version]?.strategy, let former = history[version - 1]?.strategy,
                history.current.strategy == made
            else { throw .builtUpon }
            undone.strategy = history.current.number + 1
            changes.append(.strategySet(version: history.current.number + 1, former))
        }
        guard !changes.isEmpty else { throw .callAlreadyUndone }
        // An undo of an undo brings the mark of the first call back with the other documents.
        changes.append(.documentPut(UndoCall.mark(plan.call), plan.person ?? .nobody, [1]))
        return Decision(
            undone,
            outcome: Outcome(
                kind: plan.changesDirectory ? .undoSettings : .undoCall, person: plan.person, changes: changes,
                note: reason))
    }

    /// The key of the document that marks a call as taken back.
    package static func mark(_ call: JournalSequence) -> DocumentKey { DocumentKey(.callUndone, of: call.rawValue) }

    private func links<V: DecisionFacts>(in project: ProjectID, _ view: V) throws(Refusal) -> [Change] {
        var changes: [Change] = []
        for link in plan.ended {
            guard let place = view.person(link.person, in: project), view.holds(place, link.identity.key) else {
                throw .builtUpon
            }
            changes.append(.unlinked(link.person, link.identity.type, link.identity.key))
        }
        let unique = view.strategy(of: project).unique
        for link in plan.back {
            guard let place = view.person(link.person, in: project) else { throw .cannotUndo(.erased) }
            if view.holds(place, link.identity.key) { continue }
            if unique.contains(link.identity.type) || link.identity.type.dialect != .idsync {
                var isHeld = false
                view.forEachHolder(of: link.identity.key) { holder in
                    let id = view.id(of: holder)
                    isHeld = isHeld || !plan.ended.contains { $0.person == id && $0.identity == link.identity }
                }
                if isHeld { throw .builtUpon }
            }
            changes.append(.linked(link.person, link.identity))
        }
        return changes
    }

    private func mergesBack<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> [Change] {
        var changes: [Change] = []
        var id = stamp.person
        for merge in plan.mergesBack where !view.areMerged(merge.from, merge.into, by: merge.rule) {
            if !view.areOne(merge.from, merge.into) {
                if let refusal = view.reasonToKeepApart(merge.from, merge.into) { throw refusal }
                let bounds = view.strategy(of: project).guards.bounds
                if view.isFull(joining: view.group(of: merge.from), view.group(of: merge.into), bounds) {
                    throw .full(.group, about: merge.into)
                }
            }
            // The server never uses the id of a merge again.
            let back = Merge(id: MergeID(rawValue: id.rawValue), from: merge.from, into: merge.into, rule: merge.rule)
            changes.append(.merged(back))
            id = id.next
        }
        return changes
    }
}

extension DocumentUndo {
    /// The changes that take back what the call wrote into the document. Throws `builtUpon` if a later call changed it.
    fileprivate func changes<V: DecisionFacts>(_ stamp: Stamp, _ view: V) throws(Refusal) -> [Change] {
        let current = view.document(key)
        let bytes: [UInt8]
        switch undone(current, at: stamp.at) {
        case .builtUpon: throw .builtUpon
        case .none: return []
        case .change(let new): bytes = new
        }
        switch key.kind {
        case .purchase:
            guard let known = current.flatMap({ Purchase(PurchaseID(hash: key.hash), packed: $0) }),
                let purchase = Purchase(PurchaseID(hash: key.hash), packed: bytes)
            else { return [] }
            // A purchase cannot return to an erased person.
            for owner in purchase.owners where view.accessUser(owner) == nil { throw .cannotUndo(.erased) }
            let losers = known.owners.filter { !purchase.owners.contains($0) }
            let winners = purchase.owners.filter { !known.owners.contains($0) }
            return [purchase.put]
                + (losers + winners).map {
                    .rowAdded($0, AccessEvent.transferred(purchase, losers, winners).row(stamp))
                }
        case .accessUser:
            func grants(_ bytes: [UInt8]?) -> [AccessUser.Grant] {
                bytes.flatMap { AccessUser(person, packed: $0) }?.grants ?? []
            }
            let (former, now) = (grants(current), grants(bytes))
            let lost = former.filter { !now.contains($0) }.map { AccessEvent.revoked(entitlement: $0.entitlement) }
            let gained = now.filter { !former.contains($0) }.map { AccessEvent.granted(entitlement: $0.entitlement) }
            return [.documentPut(key, person, bytes)] + (lost + gained).map { .rowAdded(person, $0.row(stamp)) }
        // Other documents have no rows that say who gained or lost something.
        default: return [.documentPut(key, person, bytes)]
        }
    }
}

/// The answer to ``UndoCall``.
package struct CallUndone: Answer {
    /// The call that was taken back.
    package let call: JournalSequence
    /// The version of the strategy that the undo set; nil if the call had not changed the strategy.
    package internal(set) var strategy: Int?

    package init(_ call: JournalSequence) { self.call = call }

    package static let tags: [UInt8] = [ActKind.undoCall.rawValue]

    package func events(_ person: PersonID?) -> [ChangeEvent] {
        var events = [ChangeEvent(.callUndone, person, [.init("call", .number(call.rawValue))])]
        if let strategy {
            events.append(ChangeEvent(.strategyChanged, nil, [.init("version", .number(Int64(strategy)))]))
        }
        return events
    }

    package func pack(into packer: inout Packer) {
        packer.add(UInt64(bitPattern: call.rawValue))
        packer.add(UInt64(strategy ?? 0))
    }

    package init?(tag: UInt8, unpacking unpacker: inout Unpacker) {
        guard let call = unpacker.integer(), let version = unpacker.integer().flatMap(Int.init(exactly:)) else {
            return nil
        }
        self.init(JournalSequence(rawValue: Int64(bitPattern: call)))
        strategy = version == 0 ? nil : version
    }
}

extension ActKind {
    package static let undoCall = ActKind(175, "undo_call", undo: .asUndone)
    /// The undo of a call that had changed the strategy or the settings of stores.
    package static let undoSettings = ActKind(176, "undo_settings", undo: .asUndone, changesDirectory: true)
}
