/// A call that changes the identities of a person: IDSync's `modify` (spec/idsync.md 1.5 and 3.4). It makes no person. No
/// other call moves a unique value from one person to another.
package struct Modify: Act {
    /// One change: the person loses the old value, if it holds it, and gets the new value.
    package struct Item: Sendable {
        package let type: IdentityType
        package let old: Identity?
        package let new: Identity?

        package init(_ type: IdentityType, old: Identity?, new: Identity?) {
            precondition((old?.type ?? type) == type && (new?.type ?? type) == type, "A change is of another type.")
            self.type = type
            self.old = old
            self.new = new
        }

        /// Whether both values are missing. Clients send such items for identities that the person never had.
        var isEmpty: Bool { old == nil && new == nil }
        /// Whether the new value is the old value. Clients send such items for unchanged identities.
        var isUnchanged: Bool { new != nil && old == new }
    }

    package let person: PersonID
    /// The changes in their order. Each change starts from the result of the change before it.
    package let items: [Item]
    /// The new user ids in other dialects (``Strategy/equalUserIDs(_:in:_:)``), by their keys. The log of calls does not keep them.
    package let equals: [IdentityKey: [IdentityKey]]

    package init(person: PersonID, items: [Item], equals: [IdentityKey: [IdentityKey]] = [:]) {
        self.person = person
        self.items = items
        self.equals = equals
    }

    /// The identities that the items remove or add, each once.
    var identities: [Identity] {
        var seen: Set<Identity> = []
        return items.flatMap { [$0.old, $0.new] }.compactMap(\.self).filter { seen.insert($0).inserted }
    }
}

/// The answer to ``Modify``.
package struct Modified: Equatable, Sendable {
    /// The mark that an identity of a person changed.
    package struct Touch: Hashable, Sendable {
        package let person: PersonID
        package let type: IdentityType

        package init(_ person: PersonID, _ type: IdentityType) {
            self.person = person
            self.type = type
        }
    }

    package let person: PersonID
    /// The changed identities with their people, including people that lost a value.
    package let touched: [Touch]

    package init(person: PersonID, touched: [Touch]) {
        self.person = person
        self.touched = touched
    }
}

extension Modify {
    package static var kinds: [ActKind] { [.modify] }
    package static var isDecidedInMemory: Bool { true }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects {
        Subjects(
            limitedBy: identities, speaksFor: items.compactMap(\.new), mentions: equals.values.flatMap(\.self),
            about: person)
    }
    package var byteCount: Int {
        items.reduce(64) { $0 + 64 + ($1.old?.value.utf8.count ?? 0) + ($1.new?.value.utf8.count ?? 0) }
    }

    /// Removes and adds the identities in their order. An item whose new value is its old value changes nothing if the
    /// person holds the value, and adds the value otherwise (spec/idsync-clients.md decision 7). Throws `noSuchPerson`, and
    /// `immutableIdentity` if a person would change an immutable value, or if a unique and immutable value belongs to
    /// another person. Throws `limitReached` for one value too many of a type, and `full` if the person has no room. Throws
    /// `personOfOtherUser` for a new user id of a person that names no user of IDSync, and is another user in its group. A unique value moves to
    /// the person, because the caller says that the value belongs to this person.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<Modified> {
        guard let place = view.person(person, in: project) else { throw .noSuchPerson }
        let strategy = view.strategy(of: project)
        var modifying = Modifying(
            person: person, in: project, at: stamp.at, Room(of: place, strategy.guards.bounds, view))
        view.forEachIdentity(of: place) { type, key in
            modifying.held[key] = type
            return true
        }
        let namesUser = modifying.held.values.contains(where: strategy.userTypes.contains)
        for item in items where !item.isEmpty {
            let isUnchanged = item.isUnchanged
            if isUnchanged, let new = item.new, modifying.held[new.key] != nil { continue }
            if strategy.immutable.contains(item.type), modifying.held.values.contains(item.type),
                modifying.wouldChange(item, strategy, view)
            {
                throw .immutableIdentity(item.type)
            }
            if let old = item.old, !isUnchanged { modifying.remove(old) }
            if let new = item.new {
                // The call takes no ignored value from another person, even if that person got the value before it was
                // blocked.
                if strategy.immutable.contains(item.type), strategy.unique.contains(item.type),
                    Resolution.reasonToSetAside(new, strategy, view) == nil, modifying.isHeldElsewhere(new, view)
                {
                    throw .immutableIdentity(item.type)
                }
                if !namesUser, strategy.userTypes.contains(new.type),
                    Resolution.reasonToSetAside(new, strategy, view) == nil,
                    view.isOfOtherUser(person, than: new.key, equals[new.key] ?? [], in: project)
                {
                    throw .personOfOtherUser
                }
                try modifying.add(new, strategy, view)
            }
        }
        let reply = Modified(person: person, touched: modifying.touched)
        // The journal keeps a refused value, also if nothing changes.
        guard !modifying.changes.isEmpty || modifying.inputs.contains(where: \.isRefused) else {
            return Decision(reply)
        }
        return Decision(
            reply,
            outcome: Outcome(kind: .modify, person: person, inputs: modifying.inputs, changes: modifying.changes))
    }
}

/// The changes of one call, while the decision collects them: at most one for each value of a person. The journal keeps no order of the
/// facts of a call, so from two facts of one value no reader could tell what was true after the call.
private struct Modifying<V: DecisionFacts> {
    let person: PersonID
    private let project: ProjectID
    private let now: Instant
    private var room: Room<V>
    /// The identities that the person holds at this step.
    var held: [IdentityKey: IdentityType] = [:]
    /// The identities that this call took from other people.
    private var taken: Set<IdentityKey> = []
    private(set) var changes: [Change] = []
    private(set) var inputs: [JournalEntry.Input] = []
    private(set) var touched: [Modified.Touch] = []

    init(person: PersonID, in project: ProjectID, at now: Instant, _ room: Room<V>) {
        self.person = person
        (self.project, self.now) = (project, now)
        self.room = room
    }

    /// Whether a change would change the identities of the person. Clients also name identities that the person holds.
    func wouldChange(_ item: Modify.Item, _ strategy: Strategy, _ view: V) -> Bool {
        if let old = item.old, held[old.key] != nil { return true }
        guard let new = item.new, held[new.key] == nil else { return false }
        return Resolution.reasonToSetAside(new, strategy, view) == nil
    }

    /// Whether another person holds a value and would lose it.
    func isHeldElsewhere(_ identity: Identity, _ view: V) -> Bool {
        var isHeld = false
        view.forEachHolder(of: identity.key) { isHeld = isHeld || view.id(of: $0) != person }
        return isHeld
    }

    mutating func remove(_ identity: Identity) {
        guard held.removeValue(forKey: identity.key) != nil else {
            inputs.append(JournalEntry.Input(identity, .notHeld))
            return
        }
        room.give(identity.type)
        if let place = changes.firstIndex(where: { $0.isLink(of: identity.key, to: person) }) {
            changes.remove(at: place)
            inputs.append(JournalEntry.Input(identity, .notHeld))
        } else {
            changes.append(.unlinked(person, identity.type, identity.key))
        }
        touch(person, identity.type)
    }

    mutating func add(_ identity: Identity, _ strategy: Strategy, _ view: V) throws(Refusal) {
        if let reason = Resolution.reasonToSetAside(identity, strategy, view) {
            inputs.append(JournalEntry.Input(identity, reason))
            return
        }
        // The type may have become unique later, so other people may hold the person's value.
        if strategy.unique.contains(identity.type) { take(identity, view) }
        if held[identity.key] != nil {
            inputs.append(JournalEntry.Input(identity, .matched))
        } else {
            let own = held.filter { $0.value == identity.type }.map(\.key)
            if view.isAtLimit(of: identity, person, holding: own, strategy, in: project, at: now) {
                throw .limitReached(IdentityTypeSet([identity.type]))
            }
            guard room.take(identity.type) else { throw .full(.person, about: person) }
            held[identity.key] = identity.type
            if let place = changes.firstIndex(where: { $0.isEnd(of: identity.key, of: person) }) {
                changes.remove(at: place)
                inputs.append(JournalEntry.Input(identity, .matched))
            } else {
                changes.append(.linked(person, identity))
            }
            touch(person, identity.type)
        }
    }

    /// Takes an identity from all other people. A person without identities cannot be found any more.
    private mutating func take(_ identity: Identity, _ view: V) {
        guard taken.insert(identity.key).inserted else { return }
        var holders: [PersonID] = []
        view.forEachHolder(of: identity.key) { holders.append(view.id(of: $0)) }
        for holder in holders.sorted() where holder != person {
            changes.append(.unlinked(holder, identity.type, identity.key))
            touch(holder, identity.type)
        }
    }

    private mutating func touch(_ person: PersonID, _ type: IdentityType) {
        let touch = Modified.Touch(person, type)
        if !touched.contains(touch) { touched.append(touch) }
    }
}

extension Change {
    fileprivate func isLink(of key: IdentityKey, to person: PersonID) -> Bool {
        if case .linked(person, let identity) = self { identity.key == key } else { false }
    }

    fileprivate func isEnd(of key: IdentityKey, of person: PersonID) -> Bool {
        if case .unlinked(person, _, key) = self { true } else { false }
    }
}

extension Modified: Answer {
    package static let tags: [UInt8] = [ActKind.modify.rawValue]

    package var seen: PersonID? { person }

    package func pack(into packer: inout Packer) {
        packer.add(UInt64(bitPattern: person.rawValue))
        packer.add(UInt64(touched.count))
        for touch in touched {
            packer.add(UInt64(bitPattern: touch.person.rawValue))
            packer.add(touch.type.rawValue)
        }
    }

    package init?(tag: UInt8, unpacking unpacker: inout Unpacker) {
        guard let person = unpacker.person(), let count = unpacker.integer() else { return nil }
        var touched: [Touch] = []
        for _ in 0..<count {
            guard let person = unpacker.person(), let type = unpacker.byte().flatMap(IdentityType.init)
            else { return nil }
            touched.append(Touch(person, type))
        }
        self.init(person: person, touched: touched)
    }
}

extension Refusal {
    /// The type is immutable.
    package static func immutableIdentity(_ type: IdentityType) -> Refusal {
        let message =
            type.isDialectsOwn
            ? "Only the calls of its own dialect change \(type.name), because the dialect keeps documents beside it."
            : "By this project's strategy, the value of \(type.name) never changes."
        return Refusal(.invalid, "immutable_identity", message, isJournalled: true)
    }
}

extension Refusal {
    package static let personOfOtherUser = Refusal(
        .invalid, "person_of_other_user",
        "The person is one with a user that has another login identity. Log the new user in with \"login\".",
        isJournalled: true)
}

extension ActKind {
    package static let modify = ActKind(6, "modify", undo: .facts(needs: .consoleAct))
}
