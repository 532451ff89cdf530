/// Finds the person of a set of identities with a project's strategy (spec/idsync.md 3.2).
struct Resolution {
    let strategy: Strategy
    private let identities: [Identity]
    /// The types of the identities that take part in the search.
    private(set) var types = IdentityTypeSet()
    /// Whether a known group is found only by one of its login identities.
    var protectsKnown: Bool
    // One bit for each identity that is neither looked up nor linked.
    private var blocked: UInt64 = 0
    private var tooCommon: UInt64 = 0
    private var demoted: UInt64 = 0
    private var overLimit: UInt64 = 0
    private var contested: UInt64 = 0
    private var ofOtherUsers: UInt64 = 0
    /// The project, if an equal user id of another dialect finds a known group; nil otherwise.
    private let joining: ProjectID?
    /// Whether the moments of sightings decided between several people.
    private(set) var restsOnSightings = false

    /// - Parameter joining: the project of a caller that may get a group by an equal user id of another dialect; nil for other
    ///   callers.
    init(identities: [Identity], strategy: Strategy, joining: ProjectID? = nil) {
        self.identities = identities
        self.strategy = strategy
        self.joining = strategy.guards.joinsSameUserIDs ? joining : nil
        protectsKnown = strategy.rules.protectsKnown
    }

    /// The number of identities in the call.
    var count: Int { identities.count }

    /// Ignores the values that do not identify a single person.
    mutating func setAside<V: DecisionFacts>(in view: V) {
        for index in identities.indices {
            switch Resolution.reasonToSetAside(identities[index], strategy, view) {
            case nil: types.insert(identities[index].type)
            case .blocked: blocked |= 1 << UInt64(index)
            default: tooCommon |= 1 << UInt64(index)
            }
        }
    }

    /// The reason why a value is neither looked up nor linked; nil for other values.
    static func reasonToSetAside<V: DecisionFacts>(
        _ identity: Identity, _ strategy: Strategy, _ view: V
    ) -> JournalEntry.Input.Fate? {
        strategy.reasonToSetAside(identity.value, identity.type, holders: view.holderCount(of: identity.key))
    }

    /// The reason why an identity was ignored; nil if it was not ignored.
    func reasonSetAside(_ index: Int) -> JournalEntry.Input.Fate? {
        if blocked & 1 << UInt64(index) != 0 { return .blocked }
        if tooCommon & 1 << UInt64(index) != 0 { return .tooCommon }
        if overLimit & 1 << UInt64(index) != 0 { return .tooMany }
        if demoted & 1 << UInt64(index) != 0 { return .demoted }
        if contested & 1 << UInt64(index) != 0 { return .contested }
        if ofOtherUsers & 1 << UInt64(index) != 0 { return .otherUser }
        return nil
    }

    /// Leaves an identity out of the search.
    mutating func leaveOut(_ index: Int, _ fate: JournalEntry.Input.Fate) {
        switch fate {
        case .tooMany: overLimit |= 1 << UInt64(index)
        case .demoted: demoted |= 1 << UInt64(index)
        case .contested: contested |= 1 << UInt64(index)
        case .otherUser: ofOtherUsers |= 1 << UInt64(index)
        case .matched, .heldElsewhere, .immutable, .blocked, .tooCommon, .notHeld, .personFull, .sentFrom:
            preconditionFailure("No search leaves out an identity for this reason.")
        }
        types.remove(identities[index].type)
    }

    /// The ignored values with the reasons.
    var inputsSetAside: [JournalEntry.Input] {
        identities.indices.compactMap { index in
            reasonSetAside(index).map { JournalEntry.Input(identities[index], $0) }
        }
    }

    /// Whether the call names a login identity.
    var namesLogin: Bool { !types.isDisjoint(with: strategy.login) }

    /// One bit for each identity of the call that a person holds, and the types of all identities of the person.
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

    /// Whether the call names login identities, and no person holds any of them.
    func namesNewKnownUser<V: DecisionFacts>(in view: V) -> Bool {
        var names = false
        for identity in identities where types.contains(identity.type) && strategy.login.contains(identity.type) {
            if view.holderCount(of: identity.key) > 0 { return false }
            names = true
        }
        return names
    }

    /// The person of the identities; nil if no person fits.
    ///
    /// The first type in the hierarchy with an eligible holder decides. Later types only choose between several people. A
    /// value without holders excludes no person.
    mutating func find<V: DecisionFacts>(previous: PersonID?, in view: V) -> V.Person? {
        var nobody = NoObserver()
        return find(previous: previous, in: view, &nobody)
    }

    /// A call that would exceed a limit of its person must not get this person, because the call may come from another user
    /// of the same device. The search then ignores the weakest identity that leads to the person, and begins again.
    mutating func find<V: DecisionFacts, Observer: ResolutionObserver>(
        previous: PersonID?, in view: V, _ observer: inout Observer
    ) -> V.Person? {
        while let person = findOnce(previous: previous, in: view, &observer) {
            guard let weakest = weakestOverLimit(of: person, in: view) else { return person }
            leaveOut(weakest.index, weakest.isOverLimit ? .tooMany : .demoted)
            observer.demotes(identities[weakest.index], weakest.isOverLimit ? .tooMany : .demoted)
        }
        observer.decides(.nobody)
        return nil
    }

    /// The position of the weakest identity of the call, among identities that the person's group holds and identities of a
    /// type over its limit; nil if the call exceeds no limit. A value that the group already holds exceeds no limit.
    private func weakestOverLimit<V: DecisionFacts>(
        of person: V.Person, in view: V
    ) -> (index: Int, isOverLimit: Bool)? {
        if strategy.guards.limits.isEmpty || strategy.guards.onLimit == .leave { return nil }
        let group = view.group(of: view.id(of: person))
        let held = group.count == 1 ? nil : view.totals(of: group).identities
        var isOver = false
        var weakest: (index: Int, isOverLimit: Bool, rank: Int)?
        for (index, identity) in identities.enumerated() where types.contains(identity.type) {
            let isHeld = holds(group, person, identity.key, in: view)
            var isOfFullType = false
            if !isHeld, let limit = strategy.guards.limits[identity.type] {
                let count = held.map { $0[identity.type, default: 0] } ?? count(identity.type, of: person, view)
                // Two members may hold one value.
                isOfFullType =
                    count >= limit && (held == nil || view.values(of: identity.type, in: group).count >= limit)
            }
            isOver = isOver || isOfFullType
            guard isHeld || isOfFullType else { continue }
            let rank = strategy.hierarchy.firstIndex(of: identity.type) ?? strategy.hierarchy.count
            if weakest.map({ rank > $0.rank }) ?? true { weakest = (index, isOfFullType, rank) }
        }
        return isOver ? weakest.map { ($0.index, $0.isOverLimit) } : nil
    }

    private func count<V: DecisionFacts>(_ type: IdentityType, of person: V.Person, _ view: V) -> Int {
        var count = 0
        view.forEachIdentity(of: person) { held, _ in
            if held == type { count += 1 }
            return true
        }
        return count
    }

    /// Whether a member of a person's group holds an identity.
    private func holds<V: DecisionFacts>(
        _ group: Group, _ person: V.Person, _ identity: IdentityKey, in view: V
    ) -> Bool {
        if group.count == 1 { return view.holds(person, identity) }
        var isHeld = false
        view.forEachHolder(of: identity) { holder in
            isHeld = isHeld || view.group(of: view.id(of: holder)).root == group.root
        }
        return isHeld
    }

    private mutating func findOnce<V: DecisionFacts, Observer: ResolutionObserver>(
        previous: PersonID?, in view: V, _ observer: inout Observer
    ) -> V.Person? {
        // Most calls find one person by the first matching type. Only several people need a list.
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
                let both = candidates.filter(isHolder(of: identity.key, view, among: candidates.count))
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

    /// Whether people hold an identity. Of many people the holders are looked at, and not all that each of them holds.
    private func isHolder<V: DecisionFacts>(
        of identity: IdentityKey, _ view: V, among count: Int
    ) -> (V.Person) -> Bool {
        guard count > 8 else { return { view.holds($0, identity) } }
        var holders: Set<PersonID> = []
        view.forEachHolder(of: identity) { holders.insert(view.id(of: $0)) }
        return { holders.contains(view.id(of: $0)) }
    }

    /// The rule that excludes a person from the search. A known group is found only by a login identity, because another
    /// user of a shared device must not get the group's profile. A group with immutable identities is found only by an
    /// immutable identity. The rule holds for the whole group, so it also protects the anonymous members of a known group.
    func reasonToExclude<V: DecisionFacts>(_ person: V.Person, in view: V) -> Explanation.Rule? {
        let group = view.group(of: view.id(of: person))
        if group.count > 1 { return reasonToExclude(person, of: group, in: view) }
        if strategy.login.isEmpty, strategy.immutable.isEmpty { return nil }
        var (holdsLogin, matchesLogin, holdsImmutable, matchesImmutable) = (false, false, false, false)
        view.forEachIdentity(of: person) { type, key in
            let logsIn = strategy.knownTypes.contains(type)
            let isImmutable = strategy.immutable.contains(type)
            guard logsIn || isImmutable else { return true }
            let matches = identities.contains { $0.key == key && types.contains(type) }
            if logsIn { (holdsLogin, matchesLogin) = (true, matchesLogin || matches) }
            if isImmutable { (holdsImmutable, matchesImmutable) = (true, matchesImmutable || matches) }
            return true
        }
        if holdsLogin, !matchesLogin, protectsKnown, !holdsEqualUserID(group, person, in: view) { return .login }
        return holdsImmutable && !matchesImmutable ? .immutable : nil
    }

    /// The rule that excludes a member of a larger group. A user id of another dialect also makes the group known. In a
    /// strategy without login types, only a call with another customer id is a stranger's call.
    private func reasonToExclude<V: DecisionFacts>(
        _ person: V.Person, of group: Group, in view: V
    ) -> Explanation.Rule? {
        let held = view.totals(of: group).identities
        func holds(_ types: IdentityTypeSet) -> Bool { held.contains { $0.value > 0 && types.contains($0.key) } }
        func matches(_ wanted: IdentityTypeSet) -> Bool {
            identities.contains { identity in
                types.contains(identity.type) && wanted.contains(identity.type)
                    && self.holds(group, person, identity.key, in: view)
            }
        }
        let isOtherDialectsUser = holds(SameUserID.typesOfOtherDialects)
        let login = strategy.userTypes
        let isKnown = isOtherDialectsUser || holds(login)
        let isAskedForUser = !strategy.login.isEmpty || types.contains(.customerID)
        if isKnown, isAskedForUser, protectsKnown, !matches(login),
            !isOtherDialectsUser || !holdsEqualUserID(group, person, in: view)
        {
            return .login
        }
        return holds(strategy.immutable) && !matches(strategy.immutable) ? .immutable : nil
    }

    /// Whether a group holds a user id of another dialect that equals a user id of the call. Under `same_user_id` both belong to one
    /// human, so the group is found as by a login identity. A user id that somebody holds is not asked: its holder is in the group
    /// already, or an undo has parted the two.
    private func holdsEqualUserID<V: DecisionFacts>(_ group: Group, _ person: V.Person, in view: V) -> Bool {
        guard let joining, let hash = view.directory.hash else { return false }
        return identities.contains { identity in
            guard SameUserID.types.contains(identity.type), types.contains(identity.type), !identity.value.isEmpty,
                view.holderCount(of: identity.key) == 0
            else { return false }
            return SameUserID.types.contains { type in
                type != identity.type && !strategy.blockedValues.contains(identity.value, type)
                    && holds(
                        group, person, IdentityKey(type, identity.value.utf8.span, in: joining, hash: hash), in: view)
            }
        }
    }

    /// Chooses between equal people: the previous person of the device, else the person seen last, else the oldest person
    /// (decision 1).
    private mutating func breakTie<V: DecisionFacts>(_ candidates: [V.Person], _ previous: PersonID?, _ view: V) -> V
        .Person?
    {
        if let previous, let person = candidates.first(where: { view.id(of: $0) == previous }) { return person }
        restsOnSightings = !candidates.isEmpty
        return candidates.max { one, other in
            let (a, b) = (view.lastSeen(of: one), view.lastSeen(of: other))
            if a != b { return a < b }
            let (first, second) = (view.id(of: one), view.id(of: other))
            let (made, madeSecond) = (view.madeAt(first), view.madeAt(second))
            return made != madeSecond ? made > madeSecond : first > second
        }
    }
}

extension Strategy {
    /// The reason why a value is neither looked up nor linked; nil for other values.
    ///
    /// - Parameter holders: the number of people that hold the value.
    package func reasonToSetAside(
        _ value: String, _ type: IdentityType, holders: @autoclosure () -> Int
    ) -> JournalEntry.Input.Fate? {
        // An identity without its value was not blocked when it was kept.
        if !value.isEmpty, blockedValues.contains(value, type) { return .blocked }
        return holders() >= guards.holders(of: type) ? .tooCommon : nil
    }
}
