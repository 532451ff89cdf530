/// The rules with which a project keeps strangers apart and protects its known users.
package struct Guards: Equatable, Sendable {
    /// The treatment of a client that names a known user without a proof.
    package enum Signing: UInt8, CaseIterable, Sendable {
        case off
        /// The server accepts the call and notes it in the journal.
        case log
        /// The server refuses the call.
        case require
    }

    /// The treatment of a call that would give a person more values of a type than the limit.
    package enum OnLimit: UInt8, CaseIterable, Sendable {
        /// The search ignores the weakest identity that leads to the person, so the call finds another person.
        case demote
        /// The call finds the person, and the value is not linked.
        case leave
        /// The search leaves out the person, so the call finds another person.
        case separate
        /// The call is refused.
        case refuse
    }

    /// The number of values of a type that the people of one group may hold, for types with a limit.
    package var limits: [IdentityType: Int] = [:]
    package var onLimit = OnLimit.demote
    /// Whether a change named ``onLimit``, or set the limits since it exists. A stored strategy from before 0.2.0 has limits and does
    /// not say, and works otherwise since then. So the log and the doctor name it.
    package var namesOnLimit = true
    /// The types whose limit counts only the values of a last time. A limit without a window counts all values.
    package var windows: [IdentityType: LimitWindow] = [:]
    /// The days for which the call log keeps calls for dry runs.
    package var dryRunDays = Guards.dryRunDays
    /// The number of people that may hold one device identity. At this number the device is shared, and no search finds
    /// people by the device.
    package var sharedDevicePeople = Strategy.holdersPerValue
    /// The limits of people and groups.
    package var bounds = Bounds()
    /// Whether the server merges people with equal user ids in several dialects.
    package var joinsSameUserIDs = false
    /// The dialects in which a client needs a proof to name a known user.
    package var signing: [Dialect: Signing] = [:]

    package init() {}

    package static let dryRunDays = 30
    package static let dryRunDaysRange = 0...400

    /// The number of people that may hold a value of a type.
    package func holders(of type: IdentityType) -> Int { type.isDevice ? sharedDevicePeople : Strategy.holdersPerValue }

    /// The treatment of a missing proof in a dialect.
    ///
    /// Calls of the dialect `onym` name the users of IDSync, so a proof that IDSync asks for is asked for there as well.
    package func signing(in dialect: Dialect) -> Signing {
        let own = signing[dialect] ?? .off
        guard dialect == .onym, let idsync = signing[.idsync], idsync.rawValue > own.rawValue else { return own }
        return idsync
    }

    /// Whether a dialect asks its clients for a proof.
    package var asksForProof: Bool { signing.values.contains { $0 != .off } }

    /// Whether a dialect requires a proof from its clients.
    package var requiresProof: Bool { signing.values.contains(.require) }
}

extension DecisionFacts {
    /// Whether a further value of a type would be one too many for the group of a person.
    ///
    /// - Parameters:
    ///   - own: the values of the type that the person holds at this step of a call.
    ///   - now: the moment of the call.
    func isAtLimit(
        of identity: Identity, _ person: PersonID, holding own: [IdentityKey], _ strategy: Strategy,
        in project: ProjectID, at now: Instant
    ) -> Bool {
        guard let limit = strategy.guards.limits[identity.type] else { return false }
        let group = group(of: person)
        let atMost = totals(of: group).identities[identity.type, default: 0] + own.count
        if group.count == 1 ? own.count < limit : atMost < limit { return false }
        if strategy.guards.windows[identity.type] != nil {
            // Only the writer has the times of links, and it decides each change again.
            guard hasDocuments else { return false }
            var counted = counted(identity.type, of: group, strategy, in: project, at: now)
            // The call may have removed values of the person before this step.
            if let place = self.person(person) {
                forEachIdentity(of: place) { type, key in
                    if type == identity.type, !own.contains(key) { counted.remove(key) }
                    return true
                }
            }
            let added = own.filter { key in self.person(person).map { !holds($0, key) } ?? true }
            return !counted.contains(identity.key) && counted.union(added).count >= limit
        }
        if group.count == 1 { return true }
        var values = Set(own)
        for member in group.members where member != person {
            guard let place = self.person(member) else { continue }
            forEachIdentity(of: place) { type, key in
                if type == identity.type { values.insert(key) }
                return true
            }
        }
        return !values.contains(identity.key) && values.count >= limit
    }
}

extension Guards {
    package func pack(into packer: inout Packer) {
        packer.add(UInt64(limits.count))
        for (type, limit) in limits.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
            packer.add(type.rawValue)
            packer.add(UInt64(limit))
        }
        packer.add(UInt64(sharedDevicePeople))
        packer.add(joinsSameUserIDs ? 1 : 0 as UInt8)
        packer.add(UInt64(signing.count))
        for (dialect, signing) in signing.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
            packer.add(dialect.rawValue)
            packer.add(signing.rawValue)
        }
    }

    init?(unpacking unpacker: inout Unpacker) {
        guard let limitCount = unpacker.integer() else { return nil }
        for _ in 0..<limitCount {
            guard let type = unpacker.byte().flatMap(IdentityType.init(rawValue:)), let limit = unpacker.count()
            else {
                return nil
            }
            limits[type] = limit
        }
        guard let people = unpacker.count(), let joins = unpacker.byte(), let count = unpacker.integer() else {
            return nil
        }
        (sharedDevicePeople, joinsSameUserIDs) = (people, joins == 1)
        for _ in 0..<count {
            guard let dialect = unpacker.text().flatMap(Dialect.init),
                let signing = unpacker.byte().flatMap(Signing.init)
            else { return nil }
            self.signing[dialect] = signing
        }
    }
}
