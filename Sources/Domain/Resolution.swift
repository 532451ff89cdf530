/// Finds the person that a set of identities means, by a project's strategy (spec/idsync.md 3.2).
struct Resolution {
    let strategy: Strategy
    private let identities: [Identity]
    private var types = IdentityTypeSet()
    // A bit for each identity that is neither looked up nor linked.
    private var blocked: UInt64 = 0
    private var tooCommon: UInt64 = 0
    /// Whether the person was chosen among equals by when each was seen.
    private(set) var restsOnSightings = false

    init(identities: [Identity], strategy: Strategy) {
        self.identities = identities
        self.strategy = strategy
    }

    /// How many identities the call names.
    var count: Int { identities.count }

    /// Sets aside the values that tell nobody apart.
    mutating func setAside<V: DecisionFacts>(in view: V) {
        for index in identities.indices {
            switch Resolution.reasonToSetAside(identities[index], strategy, view) {
            case nil: types.insert(identities[index].type)
            case .blocked: blocked |= 1 << UInt64(index)
            default: tooCommon |= 1 << UInt64(index)
            }
        }
    }

    /// Why a value is neither looked up nor linked; nil where it is.
    static func reasonToSetAside<V: DecisionFacts>(
        _ identity: Identity, _ strategy: Strategy, _ view: V
    ) -> JournalEntry.Input.Fate? {
        if strategy.blockedValues.contains(identity.value) { return .blocked }
        return view.holderCount(of: identity.key) >= strategy.guards.holders(of: identity.type) ? .tooCommon : nil
    }

    /// Why an identity was set aside; nil where it was not.
    func reasonSetAside(_ index: Int) -> JournalEntry.Input.Fate? {
        if blocked & 1 << UInt64(index) != 0 { return .blocked }
        if tooCommon & 1 << UInt64(index) != 0 { return .tooCommon }
        return nil
    }

    /// The values that were set aside, and why.
    var inputsSetAside: [JournalEntry.Input] {
        identities.indices.compactMap { index in
            reasonSetAside(index).map { JournalEntry.Input(identities[index], $0) }
        }
    }

    /// Whether the call names an identity that logs in.
    var namesLogin: Bool { !types.isDisjoint(with: strategy.login) }

    /// Which of the call's identities a person holds, as a bit for each, and the types of all that the person holds.
    func match<V: DecisionFacts>(_ person: V.Person, in view: V) -> (matched: UInt64, held: IdentityTypeSet) {
        var matched: UInt64 = 0
        var held = IdentityTypeSet()
        view.forEachIdentity(of: person) { type, key in
            held.insert(type)
            for index in identities.indices where identities[index].key == key { matched |= 1 << UInt64(index) }
            return true
        }
        return (matched, held)
    }

    /// Whether the call names login identities, none of which anybody holds.
    func namesNewKnownUser<V: DecisionFacts>(in view: V) -> Bool {
        var names = false
        for identity in identities where types.contains(identity.type) && strategy.login.contains(identity.type) {
            if view.holderCount(of: identity.key) > 0 { return false }
            names = true
        }
        return names
    }

    /// The person that the identities mean; nil where they mean nobody.
    ///
    /// The most telling type that anybody eligible holds decides; the types after it only choose among several. A value
    /// that nobody holds vetoes nothing.
    mutating func find<V: DecisionFacts>(previous: PersonID?, in view: V) -> V.Person? {
        var nobody = NoObserver()
        return find(previous: previous, in: view, &nobody)
    }

    mutating func find<V: DecisionFacts, Observer: ResolutionObserver>(
        previous: PersonID?, in view: V, _ observer: inout Observer
    ) -> V.Person? {
        // Most calls find one person by the first type that finds any; only several need a list.
        var only: V.Person?
        var candidates: [V.Person] = []
        for type in strategy.hierarchy where types.contains(type) {
            guard let identity = identities.first(where: { $0.type == type }) else { continue }
            observer.begins(type)
            if candidates.isEmpty {
                view.forEachHolder(of: identity.key) { person in
                    if let rule = reasonToExclude(person, in: view) {
                        observer.excludes(view.id(of: person), by: rule)
                        return
                    }
                    observer.finds(view.id(of: person))
                    if let first = only {
                        if candidates.isEmpty { candidates.append(first) }
                        candidates.append(person)
                    } else {
                        only = person
                    }
                }
                if candidates.isEmpty, let only {
                    observer.decides(.identity(type))
                    return only
                }
            } else {
                let both = candidates.filter { view.holds($0, identity.key) }
                for person in both { observer.finds(view.id(of: person)) }
                if both.count == 1 {
                    observer.decides(.identity(type))
                    return both[0]
                }
                if !both.isEmpty { candidates = both }
            }
        }
        let chosen = breakTie(candidates, previous, view)
        if chosen != nil { observer.decides(restsOnSightings ? .lastSeen : .previousPerson) }
        return chosen
    }

    /// A known person is found only by one of the identities that make it known, so that nobody lands on another's
    /// profile by a shared device; and if its identities are immutable, only by one of these.
    private func reasonToExclude<V: DecisionFacts>(_ person: V.Person, in view: V) -> Explanation.Rule? {
        if strategy.login.isEmpty, strategy.immutable.isEmpty { return nil }
        var (holdsLogin, matchesLogin, holdsImmutable, matchesImmutable) = (false, false, false, false)
        view.forEachIdentity(of: person) { type, key in
            let logsIn = strategy.login.contains(type)
            let isImmutable = strategy.immutable.contains(type)
            guard logsIn || isImmutable else { return true }
            let matches = identities.contains { $0.key == key && types.contains(type) }
            if logsIn { (holdsLogin, matchesLogin) = (true, matchesLogin || matches) }
            if isImmutable { (holdsImmutable, matchesImmutable) = (true, matchesImmutable || matches) }
            return true
        }
        if holdsLogin, !matchesLogin { return .login }
        return holdsImmutable && !matchesImmutable ? .immutable : nil
    }

    /// Chooses among equals: the one that the device was before, else the one seen last, else the oldest (decision 1).
    private mutating func breakTie<V: DecisionFacts>(_ candidates: [V.Person], _ previous: PersonID?, _ view: V) -> V
        .Person?
    {
        if let previous, let person = candidates.first(where: { view.id(of: $0) == previous }) { return person }
        restsOnSightings = !candidates.isEmpty
        return candidates.max { one, other in
            let (a, b) = (view.lastSeen(of: one), view.lastSeen(of: other))
            return a != b ? a < b : view.id(of: one) > view.id(of: other)
        }
    }
}
