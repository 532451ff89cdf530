/// A call that finds or makes a person as ``Identify`` does, with a full answer: the identities that the call linked or left
/// out, and the merges that it made (spec/rules.md, section 5).
package struct IdentifyUser: KeptAct {
    package let identify: Identify
    /// The traits that the call gives the person. A value is JSON, and nil removes a trait.
    package let traits: [Attributes.Write]
    /// Other rules, which a dry run compares with the rules in force.
    package let tried: Strategy?

    /// The limits of traits: their number for one person, and their bytes in one call.
    package static let traitsPerPerson = 200
    package static let traitBytes = 16 << 10

    package init(_ identify: Identify, traits: [Attributes.Write] = [], trying tried: Strategy? = nil) {
        self.identify = identify
        self.traits = traits
        self.tried = tried
    }

    /// The same call of a caller that may merge nobody.
    var mergingNobody: IdentifyUser { IdentifyUser(identify.mergingNobody, traits: traits, trying: tried) }

    package static var kinds: [ActKind] { Identify.kinds }
    package static var isDecidedInMemory: Bool { true }
    // Identify has the same kinds.
    package static var keptNumber: UInt8 { 161 }
    package var subjects: Subjects {
        Subjects(
            limitedBy: identify.identities, speaksFor: identify.identities,
            mentionedPeople: identify.previous.map { [$0] } ?? [])
    }
    package var byteCount: Int {
        traits.reduce(identify.byteCount) { $0 + 64 + $1.name.utf8.count + ($1.value?.count ?? 0) }
    }

    /// Decides as ``Identify``, and describes the decision. Throws `noLoginIdentity`, `identityInUse`, `limitReached` and
    /// `tooManyTraits`.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<UserIdentified> {
        let now = try decide(stamp, in: project, view, trying: nil)
        guard let tried else { return now }
        let then = try decide(stamp, in: project, view, trying: tried)
        var answer = now.answer
        answer.then = [then.answer]
        return Decision(answer, restsOnSightings: now.restsOnSightings || then.restsOnSightings)
    }

    /// Decides by the strategy of the project, or by a tried strategy.
    private func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V, trying tried: Strategy?
    ) throws(Refusal) -> Decision<UserIdentified> {
        var procedure = Procedure(identify, stamp, in: project, view, trying: tried)
        let decision = try procedure.decide()
        let isReadOnly = identify.inspection.contains(.readOnly)
        var answer = UserIdentified(person: decision.answer.person, root: decision.answer.person)
        answer.isKnown = decision.answer.isKnown
        answer.isReadOnly = isReadOnly
        for (index, identity) in identify.identities.enumerated()
        where decision.answer.matched & 1 << UInt64(index) != 0 {
            answer.matched.append(identity.type)
        }
        let inputs = decision.outcome?.inputs ?? procedure.inputs ?? procedure.explanation.setAside
        // A value that took no part in the search may still be one that the person holds.
        answer.left = inputs.filter { $0.fate != .matched && !answer.matched.contains($0.identity.type) }
            .map { UserIdentified.Left(type: $0.identity.type, fate: $0.fate) }
        for change in decision.outcome?.changes ?? [] {
            switch change {
            case .personMade(let person, _): answer.isNew = answer.isNew || person == answer.person
            case .linked(_, let identity): answer.linked.append(identity.type)
            case .merged(let merge): answer.merged.append(merge)
            case .unlinked, .rowAdded, .rowSuperseded, .documentPut, .mergeUndone, .personErased, .projectMade,
                .appMade, .appRevoked, .keyMade, .keyRevoked, .renamed, .strategySet:
                break
            }
        }
        answer.keptApart = procedure.explanation.keptApart.map(\.rule)
        let decideOn = (tried ?? view.strategy(of: project)).rules.decideOn
        if !answer.isNew, decideOn == .member { answer.root = view.group(of: answer.person).root }
        answer.root = procedure.joinedRoot ?? answer.root
        if let previous = identify.previous {
            answer.previousIsUnknown = view.isErased(previous) || view.person(previous, in: project) == nil
        }
        let written = try writeTraits(of: answer.person, isNew: answer.isNew, stamp, view)
        answer.traits = written?.names
        if isReadOnly, answer.isNew {
            // A dry run makes no person, so no id exists.
            let nobody = PersonID(rawValue: 0)
            func named(_ person: PersonID) -> PersonID { person == stamp.person ? nobody : person }
            answer.merged = answer.merged.map {
                Merge(id: $0.id, from: named($0.from), into: named($0.into), rule: $0.rule)
            }
            answer.person = PersonID(rawValue: 0)
            answer.root = procedure.joinedRoot ?? answer.person
        }
        if identify.inspection.contains(.explains) { answer.explanation = procedure.explanation.sorted }
        var outcome = decision.outcome
        if let written {
            var changed =
                outcome ?? Outcome(kind: identify.occasion.journalKind, person: decision.answer.person, changes: [])
            changed.changes.append(written.change)
            outcome = changed
        }
        // The facts in memory have no traits.
        let needsDocuments = !traits.isEmpty && !view.hasDocuments
        return Decision(
            answer, outcome: isReadOnly ? nil : outcome,
            restsOnSightings: decision.restsOnMore(isReadOnly, view) || needsDocuments,
            full: isReadOnly ? nil : decision.full)
    }

    /// The change of the person's traits; nil if all traits have their values already. Throws `tooManyTraits`.
    private func writeTraits<V: DecisionFacts>(
        of person: PersonID, isNew: Bool, _ stamp: Stamp, _ view: V
    ) throws(Refusal) -> (change: Change, names: ChangedNames)? {
        if traits.isEmpty || !view.hasDocuments { return nil }
        let key = DocumentKey(.traits, of: person)
        var own = isNew ? Attributes() : view.document(key).flatMap(Attributes.init(packed:)) ?? Attributes()
        let shown: FoldedAttributes? = isNew ? nil : view.fold(.traits, of: view.group(of: person))
        // A member may have a value that the group does not show.
        let writes = traits.filter { own.entries[$0.name]?.value != $0.value || shown?[$0.name] != $0.value }
        guard own.set(writes, stamp) else { return nil }
        guard own.valueCount <= IdentifyUser.traitsPerPerson else { throw .tooManyTraits }
        let names = ChangedNames(
            written: writes.filter { $0.value != nil }.map(\.name),
            removed: writes.filter { $0.value == nil }.map(\.name))
        return (.documentPut(key, person, own.packed), names)
    }

    package func pack(into packer: inout Packer, _ strategy: Strategy) { identify.pack(into: &packer, strategy) }

    package init?(unpacking unpacker: inout Unpacker) {
        guard let identify = Identify(unpacking: &unpacker) else { return nil }
        self.init(identify)
    }
}

/// The answer to ``IdentifyUser``.
package struct UserIdentified: Answer {
    /// An identity of the call that the person did not get.
    package struct Left: Equatable, Sendable {
        package let type: IdentityType
        package let fate: JournalEntry.Input.Fate
    }

    /// The person; 0 in a dry run that would make a person.
    package fileprivate(set) var person: PersonID
    package fileprivate(set) var root: PersonID
    /// Whether the person, or under a strategy of groups its group, is known.
    package fileprivate(set) var isKnown = false
    package fileprivate(set) var isNew = false
    package fileprivate(set) var isReadOnly = false
    package fileprivate(set) var matched: [IdentityType] = []
    package fileprivate(set) var linked: [IdentityType] = []
    package fileprivate(set) var left: [Left] = []
    package fileprivate(set) var merged: [Merge] = []
    /// The rules that kept other groups apart.
    package fileprivate(set) var keptApart: [String] = []
    /// The explanation, if the caller asked for it. The journal does not keep it.
    package fileprivate(set) var explanation: Explanation?
    /// Whether the call named a previous person that does not exist.
    package fileprivate(set) var previousIsUnknown = false
    /// The traits that the call changed; nil if it changed none.
    package fileprivate(set) var traits: ChangedNames?
    /// The answer under the tried rules, if the caller named some. At most one; a list, because a struct cannot contain itself.
    package fileprivate(set) var then: [UserIdentified] = []

    fileprivate init(person: PersonID, root: PersonID) {
        self.person = person
        self.root = root
    }

    package static let tags: [UInt8] = [161]

    package var seen: PersonID? { isReadOnly ? nil : person }
    package var found: [PersonID] { [person] }

    package var plain: UserIdentified {
        var plain = self
        plain.explanation = nil
        plain.then = []
        return plain
    }

    package func pack(into packer: inout Packer) {
        packer.add(person)
        packer.add(root)
        packer.add((isKnown ? 1 : 0) | (isNew ? 2 : 0) | (previousIsUnknown ? 4 : 0) as UInt8)
        for types in [matched, linked] {
            packer.add(UInt64(types.count))
            for type in types { packer.add(type.rawValue) }
        }
        packer.add(UInt64(left.count))
        for one in left {
            packer.add(one.type.rawValue)
            packer.add(one.fate.rawValue)
        }
        packer.add(UInt64(merged.count))
        for merge in merged { merge.pack(into: &packer) }
        packer.add(UInt64(keptApart.count))
        for rule in keptApart { packer.add(rule) }
        guard let traits else { return }
        for names in [traits.written, traits.removed] {
            packer.add(UInt64(names.count))
            for name in names { packer.add(name) }
        }
    }

    package init?(tag: UInt8, unpacking unpacker: inout Unpacker) {
        guard let person = unpacker.person(), let root = unpacker.person(), let flags = unpacker.byte(), flags < 8,
            let matched = unpacker.list(of: { $0.byte().flatMap(IdentityType.init(rawValue:)) }),
            let linked = unpacker.list(of: { $0.byte().flatMap(IdentityType.init(rawValue:)) }),
            let left = unpacker.list(of: { unpacker -> Left? in
                guard let type = unpacker.byte().flatMap(IdentityType.init(rawValue:)),
                    let fate = unpacker.byte().flatMap(JournalEntry.Input.Fate.init(rawValue:))
                else { return nil }
                return Left(type: type, fate: fate)
            }),
            let merged = unpacker.list(of: { Merge(tag: Merge.tags[0], unpacking: &$0) }),
            let keptApart = unpacker.list(of: { $0.text() })
        else { return nil }
        self.init(person: person, root: root)
        (isKnown, isNew) = (flags & 1 != 0, flags & 2 != 0)
        (self.matched, self.linked, self.left) = (matched, linked, left)
        (self.merged, self.keptApart) = (merged, keptApart)
        previousIsUnknown = flags & 4 != 0
        // A call without traits, and each call of an older version, ends here.
        if unpacker.isAtEnd { return }
        guard let written = unpacker.list(of: { $0.text() }), let removed = unpacker.list(of: { $0.text() }) else {
            return nil
        }
        traits = ChangedNames(written: written, removed: removed)
    }
}

extension Refusal {
    static let tooManyTraits = Refusal(
        .invalid, "too_many_traits",
        "A person has at most \(IdentifyUser.traitsPerPerson) traits; remove some first.", isJournalled: true)
}
