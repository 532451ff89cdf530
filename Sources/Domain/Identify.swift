/// A call that finds or makes a person and links identities to it: IDSync's `identify`, `login` and `logout` (spec/idsync.md
/// 3.2 and 3.3).
package struct Identify: Act {
    /// The occasion of the call.
    package enum Occasion: UInt8, CaseIterable, Sendable {
        /// An app started, or got new identities.
        case start
        /// A user logs in.
        case login
        /// A user logs out. The call names the identities that remain, mostly the device.
        case logout
    }

    package let occasion: Occasion
    /// The identities of the caller: at most one value of each type.
    package private(set) var identities: [Identity]
    /// The person of the device before the call, if there was a person.
    package private(set) var previous: PersonID?
    package let inspection: Inspection
    /// Whether the caller may merge nobody, and finds nobody by an equal user id of another dialect, because it has no proof
    /// (spec/rules.md, decision 9).
    package private(set) var mergesNobody = false
    /// One bit for each identity whose value was a random UUID, in a call that the journal has kept without values.
    private(set) var keptUUIDs: UInt64?
    /// Whether the call also named blocked values, which the journal and the call log do not keep.
    private(set) var namedBlocked = false

    package init(
        _ occasion: Occasion = .start, identities: [Identity], previous: PersonID? = nil,
        inspection: Inspection = []
    ) {
        precondition(identities.count <= Identified.identitiesAtMost, "An identity type was named twice.")
        self.occasion = occasion
        self.identities = identities
        self.previous = previous
        self.inspection = inspection
    }

    /// The same call of a caller that may merge nobody.
    package var mergingNobody: Identify {
        var call = self
        call.mergesNobody = true
        return call
    }

    /// The same call with other identities of the same types, and after another person of the device.
    func with(_ identities: [Identity], previous: PersonID?) -> Identify {
        var call = self
        (call.identities, call.previous) = (identities, previous)
        return call
    }

    /// The same call, which also named blocked values.
    var namingBlocked: Identify {
        var call = self
        call.namedBlocked = true
        return call
    }

    /// The same call, with the facts about its values that the journal has kept.
    func kept(uuids: UInt64) -> Identify {
        var call = self
        call.keptUUIDs = uuids
        return call
    }
}

/// The answer to ``Identify`` and ``Search``. It fits into three machine words, so passing it on allocates no memory.
package struct Identified: Sendable {
    package let person: PersonID
    /// One bit for each identity of the call, and two bits for the kind of call and of person.
    private let bits: UInt64
    private let grounds: Grounds?

    /// The limit of identities in one call.
    package static let identitiesAtMost = 62

    /// The explanation is rare and large, so it is a separate object.
    private final class Grounds: Sendable {
        let explanation: Explanation
        init(_ explanation: Explanation) { self.explanation = explanation }
    }

    package init(
        person: PersonID, matched: UInt64, isKnown: Bool, isReadOnly: Bool = false, explanation: Explanation? = nil
    ) {
        self.person = person
        bits = matched & Identified.matches | (isKnown ? Identified.known : 0) | (isReadOnly ? Identified.readOnly : 0)
        grounds = explanation.map(Grounds.init)
    }

    private static let known: UInt64 = 1 << 63
    private static let readOnly: UInt64 = 1 << 62
    private static let matches = readOnly - 1

    /// One bit for each identity of the call that the person held before the call.
    package var matched: UInt64 { bits & Identified.matches }
    /// Whether the person now holds a login identity.
    package var isKnown: Bool { bits & Identified.known != 0 }
    /// Whether the call changes nothing. The id is 0 if a changing call would make a person.
    package var isReadOnly: Bool { bits & Identified.readOnly != 0 }
    /// The explanation of the answer, if the caller asked for it.
    package var explanation: Explanation? { grounds?.explanation }
}

extension Identified: Equatable {
    package static func == (one: Identified, other: Identified) -> Bool {
        one.person == other.person && one.bits == other.bits && one.explanation == other.explanation
    }
}

extension Identify {
    package static var kinds: [ActKind] { [.identify, .login, .logout] }
    package static var isDecidedInMemory: Bool { true }
    package var subjects: Subjects { Subjects(limitedBy: identities, speaksFor: identities) }
    package var byteCount: Int { identities.reduce(64) { $0 + $1.value.utf8.count } }

    /// Finds a person by the strategy, or makes a person, and links the identities that the person lacks. Throws the refusals
    /// of ``Procedure``. Throws
    /// `noLoginIdentity` for a login without a login identity, if the strategy makes a person for each new known user: such
    /// a login names no user. The journal notes values that a rule refuses, and the call still succeeds.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<Identified> {
        guard view.strategy(of: project).isPlain else {
            var procedure = Procedure(self, stamp, in: project, view)
            let decision = try procedure.decide()
            return inspection.isEmpty ? decision : inspected(decision, procedure.explanation, view)
        }
        guard !inspection.isEmpty else {
            var nobody = NoObserver()
            return try decide(stamp, in: project, view, &nobody)
        }
        var explanation = Explanation()
        return inspected(try decide(stamp, in: project, view, &explanation), explanation, view)
    }

    /// The decision of ``decide(_:in:_:)``, with an observer of the search. Throws `noLoginIdentity`.
    private func decide<V: DecisionFacts, Observer: ResolutionObserver>(
        _ stamp: Stamp, in project: ProjectID, _ view: V, _ observer: inout Observer
    ) throws(Refusal) -> Decision<Identified> {
        let strategy = view.strategy(of: project)
        var resolution = Resolution(identities: identities, strategy: strategy, joining: mergesNobody ? nil : project)
        resolution.setAside(in: view)
        observer.setsAside(resolution.inputsSetAside)
        // A strategy without login types has no known users, so a login is an identify.
        if strategy.onNewKnown == .create, !strategy.login.isEmpty, occasion == .login, !resolution.namesLogin {
            throw .noLoginIdentity
        }
        if makesSomebody(resolution, view) {
            observer.decides(.strategy)
            return make(stamp, resolution, view)
        }
        if let person = resolution.find(previous: previous, in: view, &observer) {
            return attach(to: person, stamp, resolution, view)
        }
        if let key = standInKey(strategy, resolution, view) {
            observer.decides(.standIn)
            return kept(
                view.keptPerson(key, in: project).map { view.id(of: $0) }, key,
                inputs: identities.indices.map { index in
                    JournalEntry.Input(identities[index], resolution.reasonSetAside(index) ?? .heldElsewhere)
                }, stamp)
        }
        return make(stamp, resolution, view)
    }

    /// Whether the strategy makes a new person, even if a search could find people.
    private func makesSomebody<V: DecisionFacts>(_ resolution: Resolution, _ view: V) -> Bool {
        let strategy = resolution.strategy
        if strategy.onNewKnown == .create, resolution.namesNewKnownUser(in: view) { return true }
        // The person after a logout is new, unless the call names a known user (decision 2). A strategy without login types
        // has no logout.
        return occasion == .logout && strategy.onLogout == .create && !strategy.login.isEmpty && !resolution.namesLogin
    }

    /// The decision for a caller that asked for an explanation or for a result without changes.
    private func inspected<V: DecisionFacts>(
        _ decision: Decision<Identified>, _ explanation: Explanation, _ view: V
    ) -> Decision<Identified> {
        let identified = decision.answer
        let isMade = decision.outcome?.changes.contains { if case .personMade = $0 { true } else { false } } ?? false
        let isReadOnly = inspection.contains(.readOnly)
        let person = isReadOnly && isMade ? PersonID(rawValue: 0) : identified.person
        return Decision(
            Identified(
                person: person, matched: identified.matched, isKnown: identified.isKnown, isReadOnly: isReadOnly,
                explanation: explanation.sorted),
            outcome: isReadOnly ? nil : decision.outcome, restsOnSightings: decision.restsOnMore(isReadOnly, view),
            full: isReadOnly ? nil : decision.full)
    }

    /// Links the identities of the call to a person with a known id, if the person lacks them.
    func attach<V: DecisionFacts>(to person: V.Person, _ stamp: Stamp, in project: ProjectID, _ view: V) -> Decision<
        Identified
    > {
        let strategy = view.strategy(of: project)
        var resolution = Resolution(identities: identities, strategy: strategy)
        resolution.setAside(in: view)
        if strategy.rules.contestedDevice == .stableAnonymous {
            // The neutral person of a device never holds the device.
            for (index, identity) in identities.enumerated() where resolution.types.contains(identity.type) {
                if view.keptPerson(KeptPeople.neutral(identity.key), in: project) == person {
                    resolution.leaveOut(index, .contested)
                }
            }
        }
        // An upload gives no second user to a person whom an administrator has merged with one.
        let userTypes = strategy.userTypes
        let isNamed = resolution.types.isDisjoint(with: userTypes) || view.holds(person, anyOf: userTypes)
        for (index, identity) in identities.enumerated()
        where !isNamed && userTypes.contains(identity.type) && resolution.types.contains(identity.type) {
            if view.isOfOtherUser(view.id(of: person), than: identity.key, [], in: project) {
                resolution.leaveOut(index, .otherUser)
            }
        }
        return attach(to: person, stamp, resolution, view)
    }

    /// Links the identities of the call to a found person, if the person lacks them.
    private func attach<V: DecisionFacts>(
        to person: V.Person, _ stamp: Stamp, _ resolution: Resolution, _ view: V
    ) -> Decision<Identified> {
        let strategy = resolution.strategy
        let (matched, held) = resolution.match(person, in: view)
        let id = view.id(of: person)
        let isKnown = !held.isDisjoint(with: strategy.login)
        let unchanged = Decision(reply(id, matched, isKnown), restsOnSightings: resolution.restsOnSightings)
        // Most calls name only identities that the person holds already.
        if matched == 1 << UInt64(identities.count) - 1 { return unchanged }

        var attaching = Attaching(person: id, resolution, Room(of: person, strategy.guards.bounds, view))
        if !strategy.guards.limits.isEmpty {
            view.forEachIdentity(of: person) { type, _ in
                attaching.held[type, default: 0] += 1
                return true
            }
        }
        for index in identities.indices {
            let identity = identities[index]
            if matched & 1 << UInt64(index) != 0 {
                attaching.leave(identity, .matched)
            } else if let reason = resolution.reasonSetAside(index) {
                attaching.leave(identity, reason)
            } else if strategy.immutable.contains(identity.type), held.contains(identity.type) {
                attaching.leave(identity, .immutable)
            } else {
                attaching.link(identity, in: view)
            }
        }
        // The journal keeps a refused value, also if nothing changes.
        guard attaching.hasLinked || attaching.hasRefused else {
            return attaching.isFull
                ? Decision(unchanged.answer, restsOnSightings: unchanged.restsOnSightings, full: .person)
                : unchanged
        }
        let becomesKnown = !attaching.linked.isDisjoint(with: strategy.login)
        return Decision(
            reply(id, matched, isKnown || becomesKnown), outcome: attaching.outcome(occasion.journalKind),
            full: attaching.isFull ? .person : nil)
    }

    private func reply(_ person: PersonID, _ matched: UInt64, _ isKnown: Bool) -> Identified {
        Identified(person: person, matched: matched, isKnown: isKnown)
    }

    /// Makes a person with the identities of the call.
    private func make<V: DecisionFacts>(_ stamp: Stamp, _ resolution: Resolution, _ view: V) -> Decision<Identified> {
        var attaching = Attaching(
            person: stamp.person, resolution, Room(of: nil, resolution.strategy.guards.bounds, view))
        attaching.changes.append(.personMade(stamp.person, at: stamp.seen))
        for index in identities.indices {
            if let reason = resolution.reasonSetAside(index) {
                attaching.leave(identities[index], reason)
            } else {
                attaching.link(identities[index], in: view)
            }
        }
        let isKnown = !attaching.linked.isDisjoint(with: resolution.strategy.login)
        return Decision(
            reply(stamp.person, 0, isKnown), outcome: attaching.outcome(occasion.journalKind),
            full: attaching.isFull ? .person : nil)
    }
}

extension Identify.Occasion {
    var journalKind: ActKind {
        switch self {
        case .start: .identify
        case .login: .login
        case .logout: .logout
        }
    }
}

/// The links of one call to one person, while the decision collects them.
struct Attaching<V: DecisionFacts> {
    let person: PersonID
    private var room: Room<V>
    /// Whether an identity was left out because the person is full.
    private(set) var isFull = false
    private let unique: IdentityTypeSet
    private let limits: [IdentityType: Int]
    /// The number of values that the person holds, for each type with a limit.
    var held: [IdentityType: Int] = [:]
    var changes: [Change] = []
    private(set) var linked = IdentityTypeSet()
    private(set) var inputs: [JournalEntry.Input] = []

    var hasLinked: Bool { !linked.isEmpty }
    var hasRefused: Bool { inputs.contains(where: \.isRefused) }

    init(person: PersonID, _ resolution: Resolution, _ room: Room<V>) {
        self.person = person
        self.room = room
        unique = resolution.strategy.unique
        limits = resolution.strategy.guards.limits
        changes.reserveCapacity(resolution.count + 1)
    }

    /// Links an identity that the person does not hold. A unique value of another person is not linked.
    mutating func link(_ identity: Identity, in view: V) {
        if unique.contains(identity.type), view.holderCount(of: identity.key) > 0 {
            leave(identity, .heldElsewhere)
        } else if let limit = limits[identity.type], held[identity.type, default: 0] >= limit {
            leave(identity, .tooMany)
        } else if !room.take(identity.type) {
            isFull = true
            leave(identity, .personFull)
        } else {
            if !limits.isEmpty { held[identity.type, default: 0] += 1 }
            linked.insert(identity.type)
            changes.append(.linked(person, identity))
        }
    }

    mutating func leave(_ identity: Identity, _ fate: JournalEntry.Input.Fate) {
        inputs.append(JournalEntry.Input(identity, fate))
    }

    func outcome(_ kind: ActKind) -> Outcome {
        Outcome(kind: kind, person: person, inputs: inputs, changes: changes)
    }
}

extension Identified: Answer {
    package static let tags: [UInt8] = [ActKind.identify.rawValue]

    package var seen: PersonID? { isReadOnly ? nil : person }
    package var found: [PersonID] { [person] }

    package func pack(into packer: inout Packer) {
        packer.add(UInt64(bitPattern: person.rawValue))
        packer.add(matched)
        packer.add(isKnown ? 1 : 0 as UInt8)
    }

    package init?(tag: UInt8, unpacking unpacker: inout Unpacker) {
        guard let person = unpacker.person(), let matched = unpacker.integer(), let isKnown = unpacker.byte()
        else { return nil }
        self.init(person: person, matched: matched, isKnown: isKnown == 1)
    }
}

extension Refusal {
    package static let noLoginIdentity = Refusal(
        .invalid, "no_login_identity",
        "A login must name a login identity.", isJournalled: true)
}

extension ActKind {
    package static let identify = ActKind(2, "identify", undo: .facts(needs: .consoleAct))
    package static let login = ActKind(3, "login", undo: .facts(needs: .consoleAct))
    package static let logout = ActKind(4, "logout", undo: .facts(needs: .consoleAct))
}
