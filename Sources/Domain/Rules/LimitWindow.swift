/// The time for which a limit counts a value (spec/rules.md, section 1). A window slides: it counts the values that were linked
/// within its last days.
package enum LimitWindow: UInt8, CaseIterable, Sendable {
    case week = 1
    case month = 2
    case year = 3

    package var milliseconds: Int64 {
        let days: Int64 =
            switch self {
            case .week: 7
            case .month: 30
            case .year: 365
            }
        return days * 24 * 3600 * 1000
    }
}

/// The moments at which a person got the values of types with a window. The decision of each call that links such a value writes
/// them into a document, because the index in memory has no times of links.
struct LinkTimes {
    private(set) var times: [Hash128: Instant] = [:]

    init() {}

    init?(packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        while !unpacker.isAtEnd {
            guard let hash = unpacker.bytes().flatMap({ Hash128($0.span) }), let at = unpacker.instant() else {
                return nil
            }
            times[hash] = at
        }
    }

    mutating func add(_ identity: IdentityKey, at moment: Instant) { times[identity.hash] = moment }

    /// Forgets values that the person no longer holds.
    mutating func keep(_ held: Set<Hash128>) { times = times.filter { held.contains($0.key) } }

    var packed: [UInt8] {
        var packer = Packer()
        let sorted = times.sorted { ($0.key.high, $0.key.low) < ($1.key.high, $1.key.low) }
        for (hash, at) in sorted {
            packer.add(hash.bytes)
            packer.add(at)
        }
        return packer.bytes
    }

    static func key(of person: PersonID) -> DocumentKey { DocumentKey(.linkTimes, of: person) }
}

extension DecisionFacts {
    /// The different values of a type that a group holds, as far as the limit of the type counts them at a moment.
    func counted(_ type: IdentityType, of group: Group, _ strategy: Strategy, in project: ProjectID, at now: Instant)
        -> Set<IdentityKey>
    {
        guard let window = strategy.guards.windows[type] else { return values(of: type, in: group) }
        let begin = now.advanced(byMilliseconds: -window.milliseconds)
        var counted: Set<IdentityKey> = []
        for member in group.members {
            guard let place = person(member) else { continue }
            let times = document(LinkTimes.key(of: member)).flatMap(LinkTimes.init(packed:)) ?? LinkTimes()
            forEachIdentity(of: place) { held, key in
                if held == type, times.times[key.hash] ?? windowBegan(type, in: project) > begin { counted.insert(key) }
                return true
            }
        }
        return counted
    }

    /// The moment at which the window of a type came into force. A value of an earlier time counts as linked at this moment, because
    /// nobody noted the time of its link.
    private func windowBegan(_ type: IdentityType, in project: ProjectID) -> Instant {
        let versions = strategies(of: project).newestFirst.prefix { $0.strategy.guards.windows[type] != nil }
        return versions.last?.at ?? Instant(milliseconds: 0)
    }

    /// The changes that note the times of a decision's links of types with a window.
    func linkTimes(after changes: [Change], _ stamp: Stamp, in project: ProjectID) -> [Change] {
        let windows = strategy(of: project).guards.windows
        if windows.isEmpty { return [] }
        var linked: [PersonID: [IdentityKey]] = [:]
        for case .linked(let person, let identity) in changes where windows[identity.type] != nil {
            linked[person, default: []].append(identity.key)
        }
        return linked.sorted { $0.key < $1.key }.map { person, keys in
            var times = document(LinkTimes.key(of: person)).flatMap(LinkTimes.init(packed:)) ?? LinkTimes()
            var held: Set<Hash128> = []
            if let place = self.person(person) {
                forEachIdentity(of: place) { _, key in
                    held.insert(key.hash)
                    return true
                }
            }
            times.keep(held)
            for key in keys { times.add(key, at: stamp.at) }
            return .documentPut(LinkTimes.key(of: person), person, times.packed)
        }
    }
}

extension Decision<Reply> {
    /// The decision with the times of its links.
    func notingLinks<V: DecisionFacts>(_ stamp: Stamp, in project: ProjectID, _ view: V) -> Decision {
        guard var outcome, view.hasDocuments else { return self }
        let times = view.linkTimes(after: outcome.changes, stamp, in: project)
        if times.isEmpty { return self }
        outcome.changes += times
        return Decision(answer, outcome: outcome, restsOnSightings: restsOnSightings, full: full)
    }
}
