/// The decision of a call under any strategy (spec/rules.md, section 3). The numbers in comments are the steps of that page.
///
/// ``Identify`` decides calls under plain strategies in a shorter way, with the same result.
struct Procedure<V: DecisionFacts> {
    /// A person, or a group under a strategy that decides on groups.
    private struct Party {
        /// The person, or the root of the group.
        let id: PersonID
        /// The place of the person, or of a member that holds an identity of the call.
        let holder: V.Person
        let group: Group
    }

    private let call: Identify
    private let stamp: Stamp
    private let project: ProjectID
    private let view: V
    private let strategy: Strategy
    private let rules: MatchRules
    private let decidesOnGroups: Bool
    private var resolution: Resolution
    /// The groups that the search leaves out because of a limit.
    private var separated: Set<PersonID> = []
    private(set) var explanation = Explanation()
    /// The identities that the call did not link, also if the decision changes nothing.
    private(set) var inputs: [JournalEntry.Input]?
    private(set) var restsOnSightings = false
    /// The root of the person's group after the merges of equal user ids; nil if they merged nobody.
    private(set) var joinedRoot: PersonID?
    private var full: Full?
    /// The member of each group that holds the strongest identity of the round; nil before the round needs one.
    private var anchors: [PersonID: PersonID]?

    /// The groups that one call merges with its target at most. Each is compared with all before it, and a later call merges the next.
    private static var mergesAtOnce: Int { 100 }

    private var identities: [Identity] { call.identities }

    /// - Parameter tried: other rules, in the place of the project's strategy.
    init(_ call: Identify, _ stamp: Stamp, in project: ProjectID, _ view: V, trying tried: Strategy? = nil) {
        self.call = call
        self.stamp = stamp
        self.project = project
        self.view = view
        strategy = tried ?? view.strategy(of: project)
        rules = strategy.rules
        decidesOnGroups = rules.decideOn == .group
        resolution = Resolution(
            identities: call.identities, strategy: strategy, joining: call.mergesNobody ? nil : project)
    }

    /// The person of a call, or the reason why the call makes a person.
    private enum Target {
        case found(Party)
        case new(ground: Explanation.Ground)
        case neutral(Identity)
        /// Only the writer has the documents that decide.
        case needsWriter
    }

    /// Decides the call. Throws `noLoginIdentity`, `identityInUse` and `limitReached`.
    mutating func decide() throws(Refusal) -> Decision<Identified> {
        begin()
        if strategy.onNewKnown == .create, !strategy.login.isEmpty, call.occasion == .login, !resolution.namesLogin {
            throw .noLoginIdentity
        }
        if let decision = unchanged() { return decision }
        if let target = targetWithoutSearch() { return settle(target, merging: []) }
        // Each round leaves out an identity or ends.
        while true {
            if let target = try target() {
                guard let others = try others(of: target) else { continue }
                return settle(target, merging: others)
            }
        }
    }

    /// The decision of a call that finds all its identities in place; nil for other calls. Most calls are of this kind, and a rule has
    /// no say in them: each identity has one holder, these holders are one person or are merged for such a call already, and
    /// no rule excludes them.
    private func unchanged() -> Decision<Identified>? {
        // Logouts and calls of devices alone have rules of their own, and only the writer knows the last users of devices and the
        // times of links.
        guard call.inspection.isEmpty, call.occasion != .logout, strategy.guards.windows.isEmpty else { return nil }
        if !resolution.namesLogin, call.occasion == .login || rules.deviceWithoutUser != .resolve { return nil }
        if rules.deviceWithoutUser == .lastKnown, identities.contains(where: \.type.isDevice) { return nil }
        var first: V.Person?
        var isOnePerson = true
        var isSearched = false
        for identity in identities {
            guard takesPart(identity), let holder = onlyHolder(of: identity) else { return nil }
            if let first { isOnePerson = isOnePerson && first == holder }
            first = first ?? holder
            isSearched = isSearched || strategy.hierarchy.contains(identity.type)
        }
        guard let first, isSearched else { return nil }
        let party = party(of: first)
        guard isOnePerson || areMerged(in: party.group), resolution.reasonToExclude(first, in: view) == nil else {
            return nil
        }
        let isKnown =
            resolution.namesLogin
            || (decidesOnGroups
                ? self.isKnown(party) : !IdentityTypeSet(types(of: first)).isDisjoint(with: strategy.login))
        return Decision(Identified(person: party.id, matched: 1 << UInt64(identities.count) - 1, isKnown: isKnown))
    }

    /// The holder of an identity; nil if it has none or several.
    private func onlyHolder(of identity: Identity) -> V.Person? {
        var (holder, count): (V.Person?, Int) = (nil, 0)
        view.forEachHolder(of: identity.key) { person in
            holder = person
            count += 1
        }
        return count == 1 ? holder : nil
    }

    /// Whether all holders of the call's identities are of a group, and have the merges that the call would make.
    private func areMerged(in group: Group) -> Bool {
        guard decidesOnGroups else { return false }
        var hub: PersonID?
        for identity in searched {
            guard let id = onlyHolder(of: identity).map({ view.id(of: $0) }), view.group(of: id).root == group.root
            else {
                return false
            }
            if let hub, id != hub, rules.mergeOnMatch != .never, !view.areMerged(hub, id, by: .match) { return false }
            hub = hub ?? id
        }
        return identities.allSatisfy { identity in
            onlyHolder(of: identity).map { view.group(of: view.id(of: $0)).root == group.root } ?? false
        }
    }

    /// Finds the person of a search; nil if no person fits. Throws as ``decide()``, and writes nothing.
    mutating func search() throws(Refusal) -> (person: PersonID, matched: UInt64, isKnown: Bool)? {
        begin()
        switch targetWithoutSearch() {
        case nil: break
        case .found(let party): return answer(party)
        case .new, .neutral, .needsWriter: return nil
        }
        while true {
            switch try target() {
            case nil: continue
            case .found(let party): return answer(party)
            case .neutral(let device):
                let key = KeptPeople.neutral(device.key)
                return view.keptPerson(key, in: project).map { (view.id(of: $0), 0, false) }
            case .new, .needsWriter: return nil
            }
        }
    }

    private func answer(_ party: Party) -> (person: PersonID, matched: UInt64, isKnown: Bool) {
        (party.id, matches(of: [party]), isKnown(party))
    }

    private mutating func begin() {
        resolution.setAside(in: view)
        explanation.setsAside(resolution.inputsSetAside)
        // A logout never takes over a known person, unless it names the person.
        if call.occasion == .logout, strategy.onLogout == .return, !resolution.namesLogin {
            resolution.protectsKnown = true
        }
    }

    // MARK: - Parties

    private func party(of person: V.Person) -> Party {
        let id = view.id(of: person)
        let group = view.group(of: id)
        return Party(id: decidesOnGroups ? group.root : id, holder: person, group: group)
    }

    /// The holders of an identity, each person or group once, in the order in which they were made.
    private func parties(of identity: Identity) -> [Party] {
        var parties: [Party] = []
        view.forEachHolder(of: identity.key) { person in
            let party = party(of: person)
            if let known = parties.firstIndex(where: { $0.id == party.id }) {
                // The choice of the member must not depend on the store.
                if view.id(of: person) < view.id(of: parties[known].holder) { parties[known] = party }
            } else {
                parties.append(party)
            }
        }
        return parties.sorted { made($0) < made($1) }
    }

    /// The time order of groups: by the first member, then by the id.
    private func made(_ party: Party) -> PersonID {
        guard decidesOnGroups, party.group.count > 1 else { return party.id }
        return view.totals(of: party.group).first ?? party.id
    }

    /// Whether a group was made before another. Imported people have any id, and the moment of their file. In large groups
    /// the member with the first id counts, so that a call stays cheap.
    private func isOlder(_ one: Party, _ other: Party) -> Bool {
        // Groups are compared for a merge, and the writer decides each merge again with the documents of imported people.
        guard view.hasDocuments else { return made(one) < made(other) }
        func age(_ party: Party) -> (Instant, PersonID) {
            let members = party.group.count <= 16 ? Array(party.group.members) : [made(party)]
            return members.map { (view.madeAt($0), $0) }.min { $0 < $1 } ?? (view.madeAt(party.id), party.id)
        }
        return age(one) < age(other)
    }

    private func holds(_ party: Party, _ identity: IdentityKey) -> Bool {
        if !decidesOnGroups || party.group.count == 1 { return view.holds(party.holder, identity) }
        return groupHolds(party, identity)
    }

    /// Whether any member of the party's group holds an identity.
    private func groupHolds(_ party: Party, _ identity: IdentityKey) -> Bool {
        if party.group.count == 1 { return view.holds(party.holder, identity) }
        var isHeld = false
        view.forEachHolder(of: identity) { holder in
            isHeld = isHeld || view.group(of: view.id(of: holder)).root == party.group.root
        }
        return isHeld
    }

    /// The numbers of identities of each type that the group of a party holds. A value of two members counts twice.
    private func counts(_ party: Party) -> [IdentityType: Int] {
        if party.group.count > 1 { return view.totals(of: party.group).identities }
        var counts: [IdentityType: Int] = [:]
        view.forEachIdentity(of: party.holder) { type, _ in
            counts[type, default: 0] += 1
            return true
        }
        return counts
    }

    /// Whether the group of a party holds an identity of some types.
    private func holdsAny(_ party: Party, _ isWanted: (IdentityType) -> Bool) -> Bool {
        counts(party).contains { $0.value > 0 && isWanted($0.key) }
    }

    /// Whether the group of a party has a login identity or a user id of another dialect.
    private func isKnown(_ party: Party) -> Bool {
        holdsAny(party, strategy.makesKnown)
    }

    /// Whether a party has a user id of another dialect.
    private func isOtherDialectsUser(_ party: Party) -> Bool {
        holdsAny(party) { SameUserID.typesOfOtherDialects.contains($0) }
    }

    private func lastSeen(_ party: Party) -> SeenAt {
        guard decidesOnGroups, party.group.count > 1 else { return view.lastSeen(of: party.holder) }
        return view.totals(of: party.group).lastSeen ?? view.lastSeen(of: party.holder)
    }

    /// One bit for each identity of the call that some parties hold.
    private func matches(of parties: [Party]) -> UInt64 {
        var matched: UInt64 = 0
        for (index, identity) in identities.enumerated() where parties.contains(where: { holds($0, identity.key) }) {
            matched |= 1 << UInt64(index)
        }
        return matched
    }

    private func takesPart(_ identity: Identity) -> Bool { resolution.types.contains(identity.type) }

    /// The identities that take part in the search, the strongest first.
    private var searched: [Identity] {
        strategy.hierarchy.filter(resolution.types.contains).compactMap { type in
            identities.first { $0.type == type }
        }
    }

    // MARK: - The target

    /// The person of a call that needs no search: steps 3 and 4.
    private mutating func targetWithoutSearch() -> Target? {
        // Only the writer knows the times of links.
        if !strategy.guards.windows.isEmpty, !view.hasDocuments { return .needsWriter }
        let devices = searched.filter(\.type.isDevice)
        // A call that names a blocked user id is no call of the device's last user.
        let namesOnlyDevices = !devices.isEmpty && identities.allSatisfy(\.type.isDevice)
        if namesOnlyDevices {
            switch rules.deviceWithoutUser {
            case .resolve: break
            case .lastKnown:
                guard view.hasDocuments else { return .needsWriter }
                for device in devices {
                    guard let user = view.keptPerson(KeptPeople.deviceUser(device.key), in: project) else { continue }
                    explanation.decides(.lastKnownUser)
                    return .found(party(of: user))
                }
            case .firstKnown:
                for device in devices {
                    let holders = view.holdersByAge(of: device.key).map { party(of: $0) }
                    guard let first = holders.first(where: { isKnown($0) }) else { continue }
                    explanation.decides(.firstKnownUser)
                    return .found(first)
                }
            case .alwaysNew:
                explanation.decides(.alwaysNew)
                for device in devices {
                    let holders = parties(of: device)
                    if let holder = holders.first(where: { isPrevious($0) && !isKnown($0) }) { return .found(holder) }
                }
                return .new(ground: .alwaysNew)
            }
        }
        if call.occasion == .logout, strategy.onLogout == .create, !strategy.login.isEmpty, !resolution.namesLogin {
            explanation.decides(.strategy)
            return .new(ground: .strategy)
        }
        return nil
    }

    private func isPrevious(_ party: Party) -> Bool {
        guard let previous = call.previous else { return false }
        return party.id == (decidesOnGroups ? view.group(of: previous).root : previous)
    }

    /// Steps 5 to 8; nil if the round left out an identity.
    private mutating func target() throws(Refusal) -> Target? {
        if let device = leaveOutContested() { return .neutral(device) }
        try checkExistingUser()
        if strategy.onNewKnown == .create, resolution.namesNewKnownUser(in: view) {
            explanation.decides(.strategy)
            return .new(ground: .strategy)
        }
        while let found = find() {
            let over = typesOverLimit([found])
            if over.isEmpty { return .found(found) }
            switch strategy.guards.onLimit {
            case .demote:
                demote(over, [found])
                return nil
            case .separate:
                separated.insert(found.id)
                keepApart(found, over)
            case .refuse: throw .limitReached(over)
            case .leave: return .found(found)
            }
        }
        explanation.decides(.nobody)
        return .new(ground: .nobody)
    }

    /// Step 5: leaves out the devices of several known users, also devices of types that the hierarchy does not have. The first
    /// device, if no identity remains.
    private mutating func leaveOutContested() -> Identity? {
        guard rules.contestedDevice == .stableAnonymous, !resolution.namesLogin else { return nil }
        var first: Identity?
        let others = identities.filter { takesPart($0) && !strategy.hierarchy.contains($0.type) }
        for device in searched + others where device.type.isDevice {
            guard parties(of: device).count(where: { isKnown($0) }) > 1,
                let index = identities.firstIndex(of: device)
            else { continue }
            resolution.leaveOut(index, .contested)
            explanation.demotes(device, .contested)
            first = first ?? device
        }
        guard let first, resolution.types.isEmpty else { return nil }
        explanation.decides(.contestedDevice)
        return first
    }

    /// Step 7: throws `identityInUse` if no group holds all held identities of the call.
    private func checkExistingUser() throws(Refusal) {
        guard rules.onExistingUser == .refuse else { return }
        var common: Set<PersonID>?
        var types = IdentityTypeSet()
        for identity in searched {
            let roots = Set(parties(of: identity).map(\.group.root))
            if roots.isEmpty { continue }
            types.insert(identity.type)
            common = common.map(roots.intersection) ?? roots
        }
        if common?.isEmpty == true { throw .identityInUse(types) }
    }

    /// Step 6: the party of the first type of the hierarchy with an eligible holder.
    private mutating func find() -> Party? {
        var candidates: [Party] = []
        for identity in searched {
            explanation.begins(identity.type)
            let holders = parties(of: identity)
            if candidates.isEmpty {
                for holder in holders where !separated.contains(holder.id) {
                    if let rule = resolution.reasonToExclude(holder.holder, in: view) {
                        explanation.excludes(holder.id, by: rule)
                    } else {
                        explanation.finds(holder.id)
                        candidates.append(holder)
                    }
                }
            } else {
                let both = candidates.filter { candidate in holders.contains { $0.id == candidate.id } }
                for candidate in both { explanation.finds(candidate.id) }
                if !both.isEmpty { candidates = both }
            }
            if candidates.count == 1 {
                explanation.decides(.identity(identity.type))
                return candidates[0]
            }
        }
        if candidates.isEmpty { return nil }
        if let previous = candidates.first(where: isPrevious) {
            explanation.decides(.previousPerson)
            return previous
        }
        restsOnSightings = true
        explanation.decides(.lastSeen)
        return candidates.max { one, other in
            let (a, b) = (lastSeen(one), lastSeen(other))
            return a != b ? a < b : made(one) > made(other)
        }
    }

    // MARK: - Limits

    /// The types of which some groups and the call together have more values than the limit. One group is over its limit only
    /// by a value that the call adds.
    private func typesOverLimit(_ parties: [Party]) -> IdentityTypeSet {
        var over = IdentityTypeSet()
        if strategy.guards.limits.isEmpty { return over }
        let held = parties.map(counts)
        for (type, limit) in strategy.guards.limits {
            let named = identities.first { $0.type == type && takesPart($0) }
            let added = named.flatMap { named in
                parties.contains { groupHolds($0, named.key) } ? nil : named
            }
            if added == nil, parties.count < 2 { continue }
            let atMost = held.reduce(added == nil ? 0 : 1) { $0 + $1[type, default: 0] }
            if atMost <= limit { continue }
            if distinct(type, parties) + (added == nil ? 0 : 1) > limit { over.insert(type) }
        }
        return over
    }

    /// The number of different values of a type that some groups hold, as far as the limit of the type counts them.
    private func distinct(_ type: IdentityType, _ parties: [Party]) -> Int {
        parties.reduce(into: Set<IdentityKey>()) { values, party in
            values.formUnion(view.counted(type, of: party.group, strategy, in: project, at: stamp.at))
        }.count
    }

    /// Leaves out the weakest identity of the call, among identities that the groups hold and identities of a type over its
    /// limit.
    private mutating func demote(_ over: IdentityTypeSet, _ parties: [Party]) {
        var weakest: (index: Int, rank: Int)?
        for (index, identity) in identities.enumerated() where takesPart(identity) {
            guard over.contains(identity.type) || parties.contains(where: { groupHolds($0, identity.key) }) else {
                continue
            }
            let rank = strategy.hierarchy.firstIndex(of: identity.type) ?? strategy.hierarchy.count
            if weakest.map({ rank > $0.rank }) ?? true { weakest = (index, rank) }
        }
        guard let weakest else { preconditionFailure("A call over a limit names no identity of the limit.") }
        let identity = identities[weakest.index]
        let isOver = over.contains(identity.type) && !parties.contains { groupHolds($0, identity.key) }
        resolution.leaveOut(weakest.index, isOver ? .tooMany : .demoted)
        explanation.demotes(identity, isOver ? .tooMany : .demoted)
    }

    private mutating func keepApart(_ party: Party, _ over: IdentityTypeSet) {
        for type in over.types { keepApart(party, "limit_reached:\(type.name)") }
    }

    private mutating func keepApart(_ party: Party, _ rule: String) {
        let kept = Explanation.KeptApart(rule: rule, root: party.group.root)
        // After `demote` the next round finds the same groups again.
        if !explanation.keptApart.contains(kept) { explanation.keptApart.append(kept) }
    }

    // MARK: - Other groups

    /// Step 9: the groups that the call merges with the target; nil if the round left out an identity.
    private mutating func others(of target: Target) throws(Refusal) -> [Party]? {
        guard rules.mergeOnMatch != .never else { return [] }
        let own: Party?
        switch target {
        case .found(let party): own = party
        case .new: own = nil
        case .neutral, .needsWriter: return []
        }
        let others = found(beside: own)
        if others.isEmpty { return [] }
        anchors = nil
        var merging: [Party] = []
        let isKnownTarget = own.map { isKnown($0) } ?? false || makesKnown(own)
        for other in others {
            let parties = [own].compactMap(\.self) + merging + [other]
            switch rules.mergeOnMatch {
            case .never: return []
            case .anonymousIntoKnown:
                if isKnown(other) {
                    let over = typesOverLimit(parties)
                    if strategy.guards.onLimit == .refuse, !over.isEmpty { throw .limitReached(over) }
                    keepApart(other, Explanation.KeptApart.Rule.knownIntoKnown.rawValue)
                    continue
                }
                guard isKnownTarget else { continue }
            case .any:
                if let rule = resolution.reasonToExclude(other.holder, in: view) {
                    keepApart(other, "\(rule.name)")
                    continue
                }
                // Limits keep users of IDSync apart, and user ids of other dialects have no limits.
                if !rules.mergesKnownIntoKnown, isKnown(other), parties.dropLast().contains(where: isKnown),
                    parties.contains(where: isOtherDialectsUser)
                {
                    keepApart(other, Explanation.KeptApart.Rule.knownIntoKnown.rawValue)
                    continue
                }
            }
            if let rule = reasonNotToMerge(other, own, merging) {
                keepApart(other, rule)
                continue
            }
            if isFull(parties, joinsNewPerson: own == nil) {
                keepApart(other, Full.group.rawValue)
                full = .group
                continue
            }
            let over = typesOverLimit(parties)
            if !over.isEmpty {
                switch strategy.guards.onLimit {
                case .demote:
                    demote(over, [own].compactMap(\.self) + [other])
                    return nil
                case .separate, .leave:
                    keepApart(other, over)
                    continue
                case .refuse: throw .limitReached(over)
                }
            }
            merging.append(other)
        }
        return merging
    }

    /// The other groups that hold identities of the call, those of the strongest identity first.
    private func found(beside own: Party?) -> [Party] {
        var found: [Party] = []
        var known = separated
        if let own { known.insert(own.id) }
        for identity in searched {
            for party in parties(of: identity) where known.insert(party.id).inserted { found.append(party) }
        }
        return found
    }

    /// Whether the call gives the target a login identity. A unique value that belongs to somebody else stays there.
    private func makesKnown(_ own: Party?) -> Bool {
        identities.contains { identity in
            guard takesPart(identity), strategy.login.contains(identity.type) else { return false }
            return !strategy.unique.contains(identity.type) || view.holderCount(of: identity.key) == 0
                || own.map { groupHolds($0, identity.key) } == true
        }
    }

    /// The rule that keeps another group from the target, beside the limits.
    ///
    /// - Parameter merging: the groups that the call merges with the target before this group.
    private mutating func reasonNotToMerge(_ other: Party, _ own: Party?, _ merging: [Party]) -> String? {
        for condition in rules.mergeGuards {
            switch condition {
            case .targetWithoutDevice:
                if let own, holdsAny(own, \.isDevice) { return Explanation.KeptApart.Rule.targetHasDevice.rawValue }
            case .deviceIsUUID4:
                let isRandom = identities.enumerated().allSatisfy { index, identity in
                    !identity.type.isDevice || !takesPart(identity) || !groupHolds(other, identity.key)
                        || call.isUUID4(index)
                }
                if !isRandom { return Explanation.KeptApart.Rule.deviceIsNotUUID4.rawValue }
            }
        }
        if call.mergesNobody { return Explanation.KeptApart.Rule.identityTokenRequired.rawValue }
        if merging.count == Procedure.mergesAtOnce { return Explanation.KeptApart.Rule.mergesAtOnce.rawValue }
        let parties = [own].compactMap(\.self) + merging
        guard view.hasDocuments else {
            // Only the writer knows whether an undo parted two groups.
            if !parties.isEmpty { restsOnSightings = true }
            return nil
        }
        // The target must not join two groups that an undo parted.
        let two = anchor(of: other)
        for party in parties {
            let one = anchor(of: party)
            if SameUserID.areParted(one, two, view) { return Explanation.KeptApart.Rule.parted.rawValue }
            if let refusal = view.reasonToKeepApart(one, two) { return refusal.code }
        }
        return nil
    }

    /// Whether some groups together are too large, maybe with the person that the call makes.
    private func isFull(_ parties: [Party], joinsNewPerson: Bool) -> Bool {
        let bounds = strategy.guards.bounds
        if parties.reduce(joinsNewPerson ? 1 : 0, { $0 + $1.group.count }) > bounds.membersPerGroup { return true }
        guard let limit = bounds.identitiesPerGroup else { return false }
        return parties.reduce(0) { $0 + counts($1).values.reduce(0, +) } > limit
    }

    /// The member that holds the strongest identity of the call; the root if no member holds one.
    private mutating func anchor(of party: Party) -> PersonID {
        if anchors == nil {
            // Many people may hold one value, so its holders are looked at once, and not for each two groups.
            var found: [PersonID: PersonID] = [:]
            for identity in searched {
                var firsts: [PersonID: PersonID] = [:]
                view.forEachHolder(of: identity.key) { holder in
                    let id = view.id(of: holder)
                    let root = view.group(of: id).root
                    firsts[root] = min(firsts[root] ?? id, id)
                }
                found.merge(firsts) { known, _ in known }
            }
            anchors = found
        }
        return anchors?[party.group.root] ?? party.group.root
    }

    // MARK: - Steps 10 to 12

    private mutating func settle(_ target: Target, merging: [Party]) -> Decision<Identified> {
        switch target {
        case .needsWriter:
            return Decision(Identified(person: stamp.person, matched: 0, isKnown: false), restsOnSightings: true)
        case .neutral(let device): return neutral(device)
        case .found(let party): return attach(to: party, merging)
        case .new(let ground):
            if merging.isEmpty, ground == .nobody, let decision = standIn() { return decision }
            return attach(to: nil, merging)
        }
    }

    /// The neutral person of a device: one person for ever, which never holds the device.
    private func neutral(_ device: Identity) -> Decision<Identified> {
        let key = KeptPeople.neutral(device.key)
        let known = view.keptPerson(key, in: project)
        return kept(known, key, inputs: resolution.inputsSetAside)
    }

    /// The stand-in of a call whose identities are all unique and belong to others.
    private mutating func standIn() -> Decision<Identified>? {
        guard let key = call.standInKey(strategy, resolution, view) else { return nil }
        explanation.decides(.standIn)
        return kept(
            view.keptPerson(key, in: project), key,
            inputs: identities.indices.map { index in
                JournalEntry.Input(identities[index], resolution.reasonSetAside(index) ?? .heldElsewhere)
            })
    }

    private func kept(_ known: V.Person?, _ key: DocumentKey, inputs: [JournalEntry.Input]) -> Decision<Identified> {
        call.kept(known.map { view.id(of: $0) }, key, inputs: inputs, stamp)
    }

    /// Links the identities that the target lacks, and merges other groups with the target.
    private mutating func attach(to target: Party?, _ merging: [Party]) -> Decision<Identified> {
        let own = target.map { [$0] } ?? []
        let parties = own + merging
        let oldest =
            rules.mergeRoot == .oldest && target != nil ? parties.min { isOlder($0, $1) } ?? target : target
        let person: PersonID
        let place: V.Person?
        if let oldest {
            person = oldest.id
            place = decidesOnGroups ? view.person(person, in: project) ?? oldest.holder : oldest.holder
        } else {
            (person, place) = (stamp.person, nil)
        }
        let matched = matches(of: own)
        let held = matches(of: parties)
        let heldTypes = IdentityTypeSet(
            target.map { party in
                decidesOnGroups ? counts(party).filter { $0.value > 0 }.map(\.key) : types(of: party.holder)
            } ?? [])
        // Beyond `leave`, only a person that the call found without a search can be over a limit here.
        let over = target != nil ? typesOverLimit(parties) : IdentityTypeSet()

        var links = Attaching(person: person, resolution, Room(of: place, strategy.guards.bounds, view))
        if target == nil { links.changes.append(.personMade(person, at: stamp.seen)) }
        for (index, identity) in identities.enumerated() {
            if held & 1 << UInt64(index) != 0 {
                links.leave(identity, .matched)
            } else if let reason = resolution.reasonSetAside(index) {
                links.leave(identity, reason)
            } else if strategy.immutable.contains(identity.type), heldTypes.contains(identity.type) {
                links.leave(identity, .immutable)
            } else if over.contains(identity.type) {
                links.leave(identity, .tooMany)
            } else {
                links.link(identity, in: view)
            }
        }
        inputs = links.inputs
        let merges = merges(parties, oldest, person, links.linked)
        let root = target == nil && !merging.isEmpty ? person : oldest?.id ?? person
        links.changes += merges.map(Change.merged)
        noteUser(root, parties, held, &links)
        joinSameUserIDs(&links)

        let isKnown =
            !links.linked.isDisjoint(with: strategy.login)
            || (decidesOnGroups
                ? parties.contains { self.isKnown($0) }
                : target.map { !IdentityTypeSet(types(of: $0.holder)).isDisjoint(with: strategy.login) } ?? false)
        let reply = Identified(person: root, matched: matched, isKnown: isKnown)
        let isFull = links.isFull ? Full.person : full
        guard !links.changes.isEmpty || links.hasRefused else {
            return Decision(reply, restsOnSightings: restsOnSightings, full: isFull)
        }
        // The writer knows all sightings, so a decision with an outcome is final.
        return Decision(reply, outcome: links.outcome(call.occasion.journalKind), full: isFull)
    }

    private func types(of person: V.Person) -> [IdentityType] {
        var types: [IdentityType] = []
        view.forEachIdentity(of: person) { type, _ in
            types.append(type)
            return true
        }
        return types
    }

    /// The merges of the call. Each member that holds an identity of the call after the call has one merge with the member
    /// that holds the strongest identity (decision 7). So the same call finds all merges in place the next time.
    ///
    /// - Parameters:
    ///   - parties: the target and the other groups.
    ///   - winner: the group whose root stands for all; nil for a person that the call makes.
    ///   - person: the person to which the call links identities.
    ///   - linked: the types of these identities.
    private func merges(
        _ parties: [Party], _ winner: Party?, _ person: PersonID, _ linked: IdentityTypeSet
    ) -> [Merge] {
        guard rules.mergeOnMatch != .never, !call.mergesNobody else { return [] }
        var holders: [PersonID] = []
        for identity in searched {
            var found: [PersonID] = []
            view.forEachHolder(of: identity.key) { holder in
                let id = view.id(of: holder)
                let root = view.group(of: id).root
                if parties.contains(where: { $0.group.root == root }) { found.append(id) }
            }
            if linked.contains(identity.type) { found.append(person) }
            for id in found.sorted() where !holders.contains(id) { holders.append(id) }
        }
        guard let hub = holders.first, holders.count > 1 else { return [] }
        func root(of id: PersonID) -> PersonID { winner == nil && id == person ? person : view.group(of: id).root }
        let end = winner?.group.root ?? person
        var next = winner == nil ? stamp.person.next : stamp.person
        var merges: [Merge] = []
        func add(_ from: PersonID, into: PersonID) {
            merges.append(Merge(id: MergeID(rawValue: next.rawValue), from: from, into: into, rule: .match))
            next = next.next
        }
        var joined: Set<PersonID> = [end]
        var paired: Set<PersonID> = [hub]
        // The root of the last merge stands for all, so the group of the strongest holder joins the winner first.
        if joined.insert(root(of: hub)).inserted {
            let into = holders.first { root(of: $0) == end } ?? end
            add(hub, into: into)
            paired.insert(into)
        }
        for holder in holders where joined.insert(root(of: holder)).inserted {
            add(holder, into: hub)
            paired.insert(holder)
        }
        for holder in holders where !paired.contains(holder) && !view.areMerged(hub, holder, by: .match) {
            if view.hasDocuments, view.document(SameUserID.parted(hub, holder)) != nil { continue }
            add(holder, into: hub)
        }
        return merges
    }

    /// Merges the person with the people that hold the call's user id in other dialects, so that the answer can tell these merges
    /// and the root. The writer does the same after each call that links a user id, and finds these merges in place.
    private mutating func joinSameUserIDs(_ links: inout Attaching<V>) {
        guard strategy.guards.joinsSameUserIDs, links.hasLinked, !call.mergesNobody, view.hasDocuments,
            let hash = view.directory.hash
        else { return }
        let names = SameUserID(
            identities.filter { links.linked.contains($0.type) }, except: strategy.blockedValues, in: project,
            hash: hash)
        let joins = names.joins(after: links.changes, stamp, in: project, view)
        links.changes += joins.changes
        (joinedRoot, full) = (joins.root, full ?? joins.full)
    }

    /// Notes the last user of the devices of a call that names a login identity of the person.
    private func noteUser(_ person: PersonID, _ parties: [Party], _ held: UInt64, _ links: inout Attaching<V>) {
        guard rules.deviceWithoutUser == .lastKnown else { return }
        let isUsers = identities.enumerated().contains { index, identity in
            takesPart(identity) && strategy.login.contains(identity.type)
                && (held & 1 << UInt64(index) != 0 || links.linked.contains(identity.type))
        }
        guard isUsers else { return }
        for device in identities where device.type.isDevice && takesPart(device) {
            let key = KeptPeople.deviceUser(device.key)
            if let user = view.keptPerson(key, in: project) {
                let root = view.group(of: view.id(of: user)).root
                if parties.contains(where: { $0.group.root == root }) { continue }
            }
            links.changes.append(.documentPut(key, person, KeptPeople.naming(person)))
        }
    }
}

extension DecisionFacts {
    /// The different values of a type that a group holds.
    func values(of type: IdentityType, in group: Group) -> Set<IdentityKey> {
        var values: Set<IdentityKey> = []
        for member in group.members {
            guard let place = person(member) else { continue }
            forEachIdentity(of: place) { held, key in
                if held == type { values.insert(key) }
                return true
            }
        }
        return values
    }
}

extension Identify {
    /// The document of the stand-in, if each identity of the call is unique and belongs to another person; nil otherwise.
    func standInKey<V: DecisionFacts>(_ strategy: Strategy, _ resolution: Resolution, _ view: V) -> DocumentKey? {
        if namedBlocked { return nil }
        for (index, identity) in identities.enumerated() {
            switch resolution.reasonSetAside(index) {
            case nil, .demoted: break
            case .blocked, .tooCommon, .tooMany, .contested, .otherUser, .matched, .heldElsewhere, .immutable, .notHeld,
                .personFull, .sentFrom:
                return nil
            }
            guard strategy.unique.contains(identity.type), view.holderCount(of: identity.key) > 0 else { return nil }
        }
        return KeptPeople.standInKey(of: identities.map(\.key))
    }

    /// The decision for a person that a document names. Makes the person if the document names nobody.
    func kept(
        _ known: PersonID?, _ key: DocumentKey, inputs: [JournalEntry.Input], _ stamp: Stamp
    ) -> Decision<Identified> {
        let person = known ?? stamp.person
        let changes: [Change] =
            known != nil
            ? []
            : [.personMade(person, at: stamp.seen), .documentPut(key, person, KeptPeople.naming(person))]
        return Decision(
            Identified(person: person, matched: 0, isKnown: false),
            outcome: Outcome(kind: occasion.journalKind, person: person, inputs: inputs, changes: changes))
    }

    /// Whether the value of an identity is a random UUID.
    func isUUID4(_ index: Int) -> Bool {
        if let keptUUIDs { return keptUUIDs & 1 << UInt64(index) != 0 }
        let bytes = identities[index].value.utf8
        guard bytes.count == 36 else { return false }
        return bytes.enumerated().allSatisfy { place, byte in
            switch place {
            case 8, 13, 18, 23: byte == UInt8(ascii: "-")
            case 14: byte == UInt8(ascii: "4")
            case 19: "89abAB".utf8.contains(byte)
            default: "0123456789abcdefABCDEF".utf8.contains(byte)
            }
        }
    }

    /// One bit for each identity whose value is a random UUID.
    var uuids: UInt64 {
        identities.indices.reduce(0) { isUUID4($1) ? $0 | 1 << UInt64($1) : $0 }
    }
}

extension Call {
    /// The act as the caller may make it. While a dialect requires proof, a client without a proof of the call's users merges
    /// nobody, because a merge gives what a claim gives (decision 9). Equal user ids of other dialects give the same.
    package func permitted(_ act: any Act, _ strategy: Strategy) -> any Act {
        guard strategy.mergesByRule || strategy.guards.joinsSameUserIDs, strategy.guards.requiresProof, let proof else {
            return act
        }
        func isProven(_ identities: [Identity]) -> Bool {
            let users = identities.filter {
                strategy.login.contains($0.type)
                    || strategy.guards.joinsSameUserIDs && SameUserID.types.contains($0.type)
            }
            return !users.isEmpty && users.allSatisfy { proof.proves($0.key) }
        }
        if let identify = act as? Identify { return isProven(identify.identities) ? act : identify.mergingNobody }
        if let user = act as? IdentifyUser {
            return isProven(user.identify.identities) ? act : user.mergingNobody
        }
        if let restore = act as? RestorePurchases {
            return restore.session.userSignedIn.map { isProven([$0]) } ?? false ? act : restore.mergingNobody
        }
        if let ingest = act as? Ingest { return isProven(ingest.identities) ? act : ingest.mergingNobody }
        return act
    }
}

extension Refusal {
    /// The identities of the call belong to several users.
    static func identityInUse(_ types: IdentityTypeSet) -> Refusal {
        Refusal(
            .conflict, "identity_in_use",
            "The identities of the call belong to different users: \(types.names).", isJournalled: true)
    }

    /// The person of the call may not hold another value.
    package static func limitReached(_ types: IdentityTypeSet) -> Refusal {
        Refusal(
            .conflict, "limit_reached", "The person may hold no further value of these types: \(types.names).",
            isJournalled: true)
    }
}

extension IdentityTypeSet {
    fileprivate var names: String { types.map { "\($0.name)" }.joined(separator: ", ") }
}
