package import Domain

/// A project's facts in memory, decided on call by call: for tests of decisions alone.
package struct World {
    package static let project = ProjectID(rawValue: 1)
    package static let hash = KeyedHash(key: Hash128(high: 1, low: 2))

    package private(set) var facts: Facts
    /// The time of the next call; it moves on by a second with each.
    package var now = Instant(milliseconds: 1_800_000_000_000)
    private var made: UInt64 = 0

    package init(_ strategy: Strategy = .default) {
        facts = Facts(
            directory: Directory(strategies: [World.project: StrategyHistory(first: strategy)], hash: World.hash))
    }

    package static func identity(_ type: IdentityType, _ value: String) -> Identity {
        Identity(type, value, in: project, hash: hash)
    }

    /// Identities in the order of their types, so that bits can be read back.
    package static func identities(_ names: [IdentityType: String]) -> [Identity] {
        names.sorted { $0.key.rawValue < $1.key.rawValue }.map { identity($0.key, $0.value) }
    }

    /// What an identify came to, in words of the test.
    package struct Result: Equatable {
        package let person: PersonID
        package let matched: Set<IdentityType>
        package let isKnown: Bool
        package let decision: Decision<Reply>

        package var changes: [Change] { decision.outcome?.changes ?? [] }
    }

    @discardableResult
    package mutating func identify(_ names: [IdentityType: String], previous: PersonID? = nil) -> Result {
        do throws(Refusal) {
            return try call(.start, names, previous: previous)
        } catch {
            preconditionFailure("An identify is never refused.")
        }
    }

    /// An identify, on some occasion.
    @discardableResult
    package mutating func call(
        _ occasion: Identify.Occasion, _ names: [IdentityType: String], previous: PersonID? = nil
    ) throws(Refusal) -> Result {
        let identities = World.identities(names)
        return try decide(Identify(occasion, identities: identities, previous: previous), identities)
    }

    /// Changes what a person is called; each change is a type, what it was and what it is to be.
    @discardableResult
    package mutating func modify(
        _ person: PersonID, _ changes: [(type: IdentityType, old: String?, new: String?)]
    ) throws(Refusal) -> Modified {
        let items = changes.map { change in
            Modify.Item(
                change.type, old: change.old.map { World.identity(change.type, $0) },
                new: change.new.map { World.identity(change.type, $0) })
        }
        guard let modified = try apply(Modify(person: person, items: items)).answer.as(Modified.self) else {
            preconditionFailure("A modify was answered as something else.")
        }
        return modified
    }

    /// Changes the rules; answers the version that holds then.
    @discardableResult
    package mutating func set(_ change: SetStrategy) throws(Refusal) -> StrategyVersion {
        _ = try apply(change)
        return facts.strategies(of: World.project).current
    }

    package mutating func search(_ names: [IdentityType: String]) throws(Refusal) -> Result {
        let identities = World.identities(names)
        return try decide(Search(identities: identities), identities)
    }

    private mutating func decide(_ act: any Act, _ identities: [Identity]) throws(Refusal) -> Result {
        let decision = try apply(act)
        guard let identified = decision.answer.as(Identified.self) else {
            preconditionFailure("A person was asked for, and something else was answered.")
        }
        let matched = identities.indices.filter { identified.matched & 1 << UInt64($0) != 0 }
        return Result(
            person: identified.person, matched: Set(matched.map { identities[$0].type }), isKnown: identified.isKnown,
            decision: decision)
    }

    /// Decides a call, and keeps what it changes.
    private mutating func apply(_ act: any Act) throws(Refusal) -> Decision<Reply> {
        now = now.advanced(byMilliseconds: 1000)
        made += 1
        let stamp = Stamp(at: now, person: PersonID(at: now, chance: made))
        let decision = try decide(act, stamp)
        keep(decision, stamp)
        return decision
    }

    /// What a call would come to.
    package func decide(_ act: any Act, _ stamp: Stamp) throws(Refusal) -> Decision<Reply> {
        try facts.decide(act, stamp, in: World.project)
    }

    /// Keeps what a call changes.
    package mutating func keep(_ decision: Decision<Reply>, _ stamp: Stamp) {
        if let outcome = decision.outcome {
            facts.apply(JournalEntry(Call(project: World.project, key: nil), stamp, outcome, decision.answer))
        }
        if let person = decision.answer.seen { facts.see(person, at: stamp.seen) }
    }

    /// What a person holds.
    package func held(by person: PersonID) -> Set<IdentityKey> {
        Set(facts.people[person]?.identities.map(\.key) ?? [])
    }

    package func holds(_ person: PersonID, _ type: IdentityType, _ value: String) -> Bool {
        held(by: person).contains(World.identity(type, value).key)
    }
}

extension World {
    /// Has people seen at some moment.
    package mutating func see(_ people: [PersonID], at moment: Instant) {
        for person in people { facts.see(person, at: SeenAt(moment)) }
    }
}
