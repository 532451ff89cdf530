/// A call that changes what a person is called: IDSync's `modify` (spec/idsync.md 1.5 and 3.4). It makes nobody, and it
/// alone takes a value of a unique type from one person and gives it to another.
package struct Modify: Act {
    /// One change: the old value goes, if the person holds it, and the new one comes.
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

        /// Whether the two values are one, or none: clients send that for what they did not change.
        var isEmpty: Bool { old == new }
    }

    package let person: PersonID
    /// In their order: each is made on what those before it left.
    package let items: [Item]

    package init(person: PersonID, items: [Item]) {
        self.person = person
        self.items = items
    }

    /// The identities that go or come, each once.
    var identities: [Identity] {
        var seen: Set<Identity> = []
        return items.flatMap { [$0.old, $0.new] }.compactMap(\.self).filter { seen.insert($0).inserted }
    }
}

/// The answer to ``Modify``.
package struct Modified: Equatable, Sendable {
    /// That an identity of a person changed.
    package struct Touch: Hashable, Sendable {
        package let person: PersonID
        package let type: IdentityType

        package init(_ person: PersonID, _ type: IdentityType) {
            self.person = person
            self.type = type
        }
    }

    package let person: PersonID
    /// What changed, and of whom: also of those that a value was taken from.
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
        Subjects(limitedBy: identities, speaksFor: items.compactMap(\.new), about: person)
    }
    package var byteCount: Int {
        items.reduce(64) { $0 + 64 + ($1.old?.value.utf8.count ?? 0) + ($1.new?.value.utf8.count ?? 0) }
    }

    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<Modified> {
        guard let place = view.person(person, in: project) else { throw .noSuchPerson }
        let strategy = view.strategy(of: project)
        var modifying = Modifying(person: person, Room(of: place, strategy.guards.bounds, view))
        view.forEachIdentity(of: place) { type, key in
            modifying.held[key] = type
            return true
        }
        for item in items where !item.isEmpty {
            if strategy.immutable.contains(item.type), modifying.held.values.contains(item.type),
                modifying.wouldChange(item, strategy, view)
            {
                throw .immutableIdentity(item.type)
            }
            if let old = item.old { modifying.remove(old) }
            if let new = item.new {
                // What is set aside is taken from nobody, also where somebody got it before it was blocked.
                if strategy.immutable.contains(item.type), strategy.unique.contains(item.type),
                    Resolution.reasonToSetAside(new, strategy, view) == nil, modifying.isHeldElsewhere(new, view)
                {
                    throw .immutableIdentity(item.type)
                }
                try modifying.add(new, strategy, view)
            }
        }
        let reply = Modified(person: person, touched: modifying.touched)
        // A value that was refused is journalled, also where nothing changes.
        guard !modifying.changes.isEmpty || modifying.inputs.contains(where: \.isRefused) else {
            return Decision(reply)
        }
        return Decision(
            reply,
            outcome: Outcome(kind: .modify, person: person, inputs: modifying.inputs, changes: modifying.changes))
    }
}

/// What one call changes, as it is gathered.
private struct Modifying<V: DecisionFacts> {
    let person: PersonID
    private var room: Room<V>
    /// What the person holds by now.
    var held: [IdentityKey: IdentityType] = [:]
    /// What this call has taken from others.
    private var taken: Set<IdentityKey> = []
    private(set) var changes: [Change] = []
    private(set) var inputs: [JournalEntry.Input] = []
    private(set) var touched: [Modified.Touch] = []

    init(person: PersonID, _ room: Room<V>) {
        self.person = person
        self.room = room
    }

    /// Whether the person would hold something else after a change. Clients name what is there already, too.
    func wouldChange(_ item: Modify.Item, _ strategy: Strategy, _ view: V) -> Bool {
        if let old = item.old, held[old.key] != nil { return true }
        guard let new = item.new, held[new.key] == nil else { return false }
        return Resolution.reasonToSetAside(new, strategy, view) == nil
    }

    /// Whether another person holds a value, who would lose it.
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
        changes.append(.unlinked(person, identity.type, identity.key))
        touch(person, identity.type)
    }

    mutating func add(_ identity: Identity, _ strategy: Strategy, _ view: V) throws(Refusal) {
        if let reason = Resolution.reasonToSetAside(identity, strategy, view) {
            inputs.append(JournalEntry.Input(identity, reason))
            return
        }
        // Also what the person holds already may be with others: it was not always unique.
        if strategy.unique.contains(identity.type) { take(identity, view) }
        if held[identity.key] != nil {
            inputs.append(JournalEntry.Input(identity, .matched))
        } else {
            guard room.take(identity.type) else { throw .full(.person, about: person) }
            held[identity.key] = identity.type
            changes.append(.linked(person, identity))
            touch(person, identity.type)
        }
    }

    /// Takes an identity from the others who hold it. They may be left with none; then nobody finds them any more.
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
    /// The type is one that a person never changes.
    package static func immutableIdentity(_ type: IdentityType) -> Refusal {
        let message =
            type.isDialectsOwn
            ? "The calls of its dialect alone give and take \(type.name), and keep it in step with what else they know."
            : "The value of \(type.name) never changes by this project's strategy."
        return Refusal(.invalid, "immutable_identity", message, isJournalled: true)
    }
}

extension ActKind {
    package static let modify = ActKind(6, "modify")
}
