/// The reason why two identifiers belong to one person, or do not (spec/native.md, explain).
package enum Relation: Sendable {
    /// The identifiers belong to one person. The chain leads from the first to the second.
    case connected(root: PersonID, chain: [Tie])
    case apart(Separation)

    /// One end of an explanation: an identity or a person.
    package enum End: Hashable, Sendable {
        case identity(IdentityType, String)
        case person(PersonID)
    }

    /// A fact that connects two ends.
    package struct Tie: Sendable {
        /// The kind of the fact.
        package enum Fact: Sendable {
            case link
            case merge(Merge)
            case alias(Alias)
        }

        package let fact: Fact
        package let from: End
        package let to: End
        package let at: Instant
        /// The call that made the fact; nil if only the request id is known.
        package let call: JournalSequence?
        package let key: KeyID?
        package let requestID: String
        /// The place of a link in the file of its import; nil for other facts.
        package internal(set) var origin: ImportOrigin?
        /// The reason that the caller gave, in the caller's words.
        package internal(set) var note: String?

        package init(
            fact: Fact, from: End, to: End, at: Instant, call: JournalSequence?, key: KeyID?, requestID: String
        ) {
            self.fact = fact
            self.from = from
            self.to = to
            self.at = at
            self.call = call
            self.key = key
            self.requestID = requestID
        }
    }

    /// The reason why two identifiers do not belong to one person.
    package struct Separation: Sendable {
        /// The kind of the separation. The names are part of the API.
        package enum Reason: String, CaseIterable, Sendable {
            /// No person holds the first identifier, or the second.
            case firstUnknown = "first_unknown"
            case secondUnknown = "second_unknown"
            /// The identifiers belonged to one person by a merge that was undone.
            case mergeUndone = "merge_undone"
            /// A call took one identifier from the person that holds the other identifier.
            case moved
            /// A split gave one identifier to another person.
            case splitFrom = "split_from"
            /// A call named both identifiers, and a rule kept them apart.
            case refused
            /// Both people held one device.
            case sharedDevice = "shared_device"
            case neverTogether = "never_together"
        }

        /// A call that kept the identifiers apart.
        package struct Evidence: Sendable {
            package let call: RecordedCall
            /// The name of the rule in the journal.
            package let rule: String
        }

        /// The time in which a person held a device.
        package struct Span: Equatable, Sendable {
            package let person: PersonID
            package let since: Instant
            /// Nil if the person holds the device now.
            package let until: Instant?
        }

        /// A device that both people held.
        package struct SharedDevice: Equatable, Sendable {
            package let type: IdentityType
            package let value: String
            /// The spans of both people, in the order of the question.
            package let spans: [Span]
        }

        package let reason: Reason
        package let refused: [Evidence]
        package let undone: [Evidence]
        /// The devices that both people held, as far as their last calls show this.
        package let devices: [SharedDevice]
    }
}

/// An identifier of the question, and the people that hold it.
package struct Explained: Sendable {
    package let end: Relation.End
    package let people: [PersonID]

    package init(_ end: Relation.End, people: [PersonID]) {
        self.end = end
        self.people = people
    }
}

extension Relation {
    /// The limit of calls of a person that an explanation reads, and the limit of people.
    private static let callsLookedAt = 20
    private static let peopleLookedAt = 16
    private static let peopleWalked = 10_000

    package init(_ first: Explained, _ second: Explained, _ snapshot: any Snapshot) throws(StoreFault) {
        if first.people.isEmpty || second.people.isEmpty {
            let reason: Separation.Reason = first.people.isEmpty ? .firstUnknown : .secondUnknown
            self = .apart(try Separation(reason, first, second, snapshot))
            return
        }
        guard let path = try Relation.path(from: first.people, to: Set(second.people), snapshot) else {
            self = .apart(try Separation(.neverTogether, first, second, snapshot))
            return
        }
        var chain: [Tie] = []
        let (start, end) = (path.first?.from ?? path.only, path.last?.to ?? path.only)
        if let tie = try Relation.link(first.end, of: start, isFirst: true, snapshot) { chain.append(tie) }
        for step in path.steps { chain.append(try Relation.tie(step, snapshot)) }
        if let tie = try Relation.link(second.end, of: end, isFirst: false, snapshot) { chain.append(tie) }
        self = .connected(root: snapshot.group(of: start).root, chain: chain)
    }

    // MARK: - The chain

    private struct Step {
        let fact: Tie.Fact
        let from: PersonID
        let to: PersonID
    }

    private struct Path {
        /// The person, if both identifiers belong to this person.
        let only: PersonID
        let steps: [Step]
        var first: Step? { steps.first }
        var last: Step? { steps.last }
    }

    /// The way from some people to others: over the merges of a group, or else the shortest way over merges and aliases in
    /// force.
    private static func path(
        from start: [PersonID], to goal: Set<PersonID>, _ snapshot: any Snapshot
    ) throws(StoreFault) -> Path? {
        if let same = start.first(where: goal.contains) { return Path(only: same, steps: []) }
        for person in start {
            let group = snapshot.group(of: person)
            guard group.count > 1, let end = goal.sorted().first(where: { snapshot.group(of: $0).root == group.root })
            else { continue }
            var place = person
            var steps: [Step] = []
            for merge in group.path(from: person, to: end) {
                let other = merge.from == place ? merge.into : merge.from
                steps.append(Step(fact: .merge(merge), from: place, to: other))
                place = other
            }
            return Path(only: person, steps: steps)
        }
        var cameBy: [PersonID: Step] = [:]
        /// The merges of the groups on the way, by both people of each merge.
        var merges: [PersonID: [Merge]] = [:]
        var roots: Set<PersonID> = []
        var seen = Set(start)
        var queue = start
        var next = 0
        while next < queue.count, next < peopleWalked {
            let person = queue[next]
            next += 1
            if goal.contains(person) {
                var steps: [Step] = []
                var place = person
                while let step = cameBy[place] {
                    steps.append(step)
                    place = step.from
                }
                return Path(only: person, steps: steps.reversed())
            }
            let group = snapshot.group(of: person)
            if group.count > 1, roots.insert(group.root).inserted {
                for merge in group.merges {
                    merges[merge.from, default: []].append(merge)
                    merges[merge.into, default: []].append(merge)
                }
            }
            for merge in merges[person] ?? [] {
                let other = merge.from == person ? merge.into : merge.from
                if seen.insert(other).inserted {
                    cameBy[other] = Step(fact: .merge(merge), from: person, to: other)
                    queue.append(other)
                }
            }
            for alias in try snapshot.aliases(of: person) where alias.undoneAt == nil {
                let other = alias.source == person ? alias.destination : alias.source
                if seen.insert(other).inserted {
                    cameBy[other] = Step(fact: .alias(alias), from: person, to: other)
                    queue.append(other)
                }
            }
        }
        return nil
    }

    private static func link(
        _ end: End, of person: PersonID, isFirst: Bool, _ snapshot: any Snapshot
    ) throws(StoreFault) -> Tie? {
        guard case .identity(let type, let value) = end else { return nil }
        let held = try snapshot.heldIdentities(of: person).last { $0.type == type && $0.value == value }
        guard let held else { return nil }
        let holder = End.person(person)
        var tie = Tie(
            fact: .link, from: isFirst ? end : holder, to: isFirst ? holder : end, at: held.since, call: held.call,
            key: held.key, requestID: held.requestID)
        let call = try snapshot.call(held.call)
        tie.note = call?.note
        tie.origin = call?.origin(of: person, type, value)
        return tie
    }

    private static func tie(_ step: Step, _ snapshot: any Snapshot) throws(StoreFault) -> Tie {
        let (from, to) = (End.person(step.from), End.person(step.to))
        switch step.fact {
        case .merge(let merge):
            let call = try snapshot.call(ofMerge: merge.id)
            var tie = Tie(
                fact: step.fact, from: from, to: to, at: call?.at ?? merge.id.madeAt, call: call?.sequence,
                key: call?.key, requestID: call?.requestID ?? "")
            tie.note = call?.note
            return tie
        case .alias(let alias):
            return Tie(
                fact: step.fact, from: from, to: to, at: alias.madeAt, call: nil, key: nil, requestID: alias.requestID)
        case .link: preconditionFailure("A link is no way from person to person.")
        }
    }

    /// The people whose last calls the explanation reads.
    fileprivate static func looked(_ explained: Explained, _ snapshot: any Snapshot) -> [PersonID] {
        var people: [PersonID] = []
        for person in explained.people.prefix(peopleLookedAt) {
            for member in snapshot.group(of: person).members(limit: peopleLookedAt) where !people.contains(member) {
                people.append(member)
            }
        }
        return Array(people.prefix(peopleLookedAt))
    }

    fileprivate static func lastCalls(
        _ explained: Explained, _ snapshot: any Snapshot
    ) throws(StoreFault) -> [RecordedCall] {
        var calls: [RecordedCall] = []
        for person in looked(explained, snapshot) {
            calls += try snapshot.calls(of: person, before: nil, limit: callsLookedAt)
        }
        return calls
    }
}

extension Relation.Separation {
    /// Searches the last calls of both identifiers for a call that kept them apart.
    fileprivate init(
        _ reason: Reason, _ first: Explained, _ second: Explained, _ snapshot: any Snapshot
    ) throws(StoreFault) {
        var (refused, undone): ([Evidence], [Evidence]) = ([], [])
        /// The last call that took one identifier from the person that holds the other.
        var mover: ActKind?
        for (one, other) in [(first, second), (second, first)] {
            let others = Set(Relation.looked(other, snapshot)).union(other.people)
            for call in try Relation.lastCalls(one, snapshot) {
                for input in call.inputs where input.fate.isRefusal && other.end.isIdentity(input.type, input.value) {
                    refused.append(Evidence(call: call, rule: input.fate.name))
                }
                if case .refused(let code) = call.answer, call.kind != .unproven, call.facts.isEmpty,
                    call.person.map(others.contains) == true
                {
                    refused.append(Evidence(call: call, rule: code))
                }
                for fact in call.facts {
                    switch fact {
                    case .mergeUndone(let merge) where others.contains(merge.from) || others.contains(merge.into):
                        undone.append(Evidence(call: call, rule: "\(merge.rule.name)"))
                    case .unlinked(let person, let type, let value)
                    where other.end.isIdentity(type, value) && one.people.contains(person):
                        mover = mover ?? call.kind
                        undone.append(Evidence(call: call, rule: call.kind.name))
                    case .personMade, .unlinked, .linked, .merged, .mergeUndone, .personErased, .rowsAdded,
                        .documentPut:
                        break
                    }
                }
            }
        }
        (self.refused, self.undone) = (refused.once, undone.once)
        devices =
            reason == .neverTogether
            ? try SharedDevice.all(
                Relation.spans(first, snapshot), Relation.spans(second, snapshot)) : []
        self.reason =
            if reason != .neverTogether {
                reason
            } else if mover == .split {
                .splitFrom
            } else if mover != nil {
                .moved
            } else if !undone.isEmpty {
                .mergeUndone
            } else if !refused.isEmpty {
                .refused
            } else if !devices.isEmpty {
                .sharedDevice
            } else {
                .neverTogether
            }
    }
}

extension Relation {
    /// A device, and the spans in which people held it.
    fileprivate typealias DeviceSpans = [End: [Separation.Span]]

    /// The devices that the people of an identifier hold, and those that their last calls took from them.
    fileprivate static func spans(_ explained: Explained, _ snapshot: any Snapshot) throws(StoreFault) -> DeviceSpans {
        var spans: DeviceSpans = [:]
        for person in looked(explained, snapshot) {
            for held in try snapshot.identities(of: person) where held.type.isDevice {
                spans[.identity(held.type, held.value), default: []].append(
                    Separation.Span(person: person, since: held.since, until: nil))
            }
            var ends: [End: Instant] = [:]
            // The last call comes first, so the end of a link comes before its begin.
            for call in try snapshot.calls(of: person, before: nil, limit: callsLookedAt) {
                for fact in call.facts {
                    switch fact {
                    case .unlinked(person, let type, let value) where type.isDevice && !value.isEmpty:
                        ends[.identity(type, value)] = call.at
                    case .linked(person, let type, let value):
                        guard let until = ends.removeValue(forKey: .identity(type, value)) else { continue }
                        spans[.identity(type, value), default: []].append(
                            Separation.Span(person: person, since: call.at, until: until))
                    case .personMade, .unlinked, .linked, .merged, .mergeUndone, .personErased, .rowsAdded,
                        .documentPut:
                        break
                    }
                }
            }
            for (device, until) in ends {
                spans[device, default: []].append(
                    Separation.Span(person: person, since: try snapshot.madeAt(person), until: until))
            }
        }
        return spans
    }
}

extension Relation.Separation.SharedDevice {
    /// The devices of both sides, in the order of their types and values.
    fileprivate static func all(
        _ first: Relation.DeviceSpans, _ second: Relation.DeviceSpans
    ) -> [Relation.Separation.SharedDevice] {
        var devices: [Relation.Separation.SharedDevice] = []
        for (device, spans) in first {
            guard case .identity(let type, let value) = device, let others = second[device] else { continue }
            let both = [spans, others].flatMap { $0.sorted { $0.since < $1.since } }
            devices.append(.init(type: type, value: value, spans: both))
        }
        return devices.sorted { ($0.type.rawValue, $0.value) < ($1.type.rawValue, $1.value) }
    }
}

extension [Relation.Separation.Evidence] {
    /// Each call once, because both ends may list the same call.
    fileprivate var once: [Relation.Separation.Evidence] {
        var seen: Set<JournalSequence> = []
        return filter { seen.insert($0.call.sequence).inserted }
    }
}

extension Relation.End {
    fileprivate func isIdentity(_ type: IdentityType, _ value: String?) -> Bool {
        guard let value else { return false }
        return self == .identity(type, value)
    }
}

extension JournalEntry.Input.Fate {
    /// Whether a rule kept the value from the person.
    package var isRefusal: Bool {
        switch self {
        case .matched, .notHeld, .personFull, .demoted, .sentFrom: false
        case .heldElsewhere, .immutable, .blocked, .tooCommon, .tooMany, .contested, .otherUser: true
        }
    }

    /// The rule's name in explanations.
    package var name: String {
        switch self {
        case .matched: "matched"
        case .heldElsewhere: "held_elsewhere"
        case .immutable: "immutable"
        case .blocked: "blocked_value"
        case .tooCommon: "held_by_too_many"
        case .notHeld: "not_held"
        case .tooMany: "too_many_values"
        case .personFull: Full.person.rawValue
        case .demoted: "demoted"
        case .contested: "contested_device"
        case .otherUser: "other_user"
        case .sentFrom: "sent_from"
        }
    }
}
