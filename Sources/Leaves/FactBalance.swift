import Crypto
import Domain

/// The facts of a page of calls, as leaves and as tables have them.
///
/// It is no part of the generic comparison, so that the many keys have a type that the compiler knows.
struct FactBalance {
    private struct CallOfPerson: Hashable {
        let call: Int64
        let person: Int64
    }

    private struct Thing: Hashable {
        let kind: LeafFact.Thing
        let id: Int64
    }

    private let hash: KeyedHash
    /// The last end of a project's history: retention empties versions from before it.
    private let historyEnd: Int64

    /// How many more the leaves have than the tables.
    private var balance: [FactOfCall: Int] = [:]
    /// The facts of leaves in their order, and the facts of tables about links with the links' numbers.
    private var noted: [FactOfCall] = []
    private var links: [(fact: FactOfCall, number: Int64)] = []
    private var sealed: Set<CallOfPerson> = []
    /// Rows and documents whose content an erasure or a later call has removed.
    private var emptied: [FactOfCall] = []
    /// The projects and the own people of the calls.
    private(set) var projects: [Int64: Int64] = [:]
    private var owners: [Int64: Int64] = [:]
    /// The calls with their other people, as the tables of facts and as the lists of people's calls have them.
    private var others: Set<CallOfPerson> = []
    private var newcomers: Set<CallOfPerson> = []
    private var listed: Set<CallOfPerson> = []
    private var lastOther: CallOfPerson?

    // All pages
    private var made: [Thing: (content: UInt64, call: Int64)] = [:]
    private var names: [Thing: UInt64] = [:]
    private var revoked: [Thing: Int64] = [:]

    init(_ hash: KeyedHash, historyEnd: Int64) { (self.hash, self.historyEnd) = (hash, historyEnd) }

    /// Begins a page.
    mutating func begin() {
        balance.removeAll(keepingCapacity: true)
        noted.removeAll(keepingCapacity: true)
        links.removeAll(keepingCapacity: true)
        (sealed, emptied) = ([], [])
        projects.removeAll(keepingCapacity: true)
        owners.removeAll(keepingCapacity: true)
        others.removeAll(keepingCapacity: true)
        newcomers.removeAll(keepingCapacity: true)
        (listed, lastOther) = ([], nil)
    }

    // MARK: - Leaves

    /// Notes the facts of a leaf. Returns their number, and nil for facts that this version cannot read.
    mutating func note(_ opening: LeafOpening, _ columns: LeafColumns) -> Int? {
        let call = columns.sequence
        projects[call] = columns.project
        owners[call] = columns.person
        var (count, isReadable) = (0, true)
        for part in opening.parts {
            guard case .open(_, let packed) = part.content else {
                sealed.insert(CallOfPerson(call: call, person: part.person))
                continue
            }
            guard let facts = LeafFact.unpack(packed) else {
                isReadable = false
                continue
            }
            count += facts.count
            for fact in facts { note(FactOfCall(call, part.person, fact)) }
        }
        return isReadable ? count : nil
    }

    private mutating func note(_ known: FactOfCall) {
        switch known.fact {
        case .made(let kind, let id, let content): made[Thing(kind: kind, id: id)] = (content, known.call)
        case .named(let kind, let id, let name): names[Thing(kind: kind, id: id)] = name
        case .revoked(let kind, let id, let at): revoked[Thing(kind: kind, id: id)] = at
        case .personMade, .linked, .unlinked, .rowAdded, .rowSuperseded, .documentPut, .merged, .mergeUndone,
            .personErased, .strategySet:
            balance[known, default: 0] += 1
            noted.append(known)
        }
    }

    // MARK: - Tables

    /// Takes a fact of a table.
    mutating func take(_ stored: StoredFact) {
        switch stored.content {
        case .plain(let fact):
            count(stored, fact)
            note(stored, fact)
        case .link(let id, let type, let value, let project, let isEnd):
            let project = project ?? projects[stored.call] ?? 0
            let tag = UInt64(UInt32(truncatingIfNeeded: project)) << 8 | UInt64(type)
            let identity = hash.hash(tag: tag, value.span)
            let known = count(
                stored, isEnd ? .unlinked(type: type, identity) : .linked(type: type, identity))
            links.append((known, id))
            note(stored, known.fact)
        case .mergeEnd(let id, let into):
            count(stored, .mergeUndone(id: id))
            note(stored, .mergeUndone(id: id))
            others.insert(CallOfPerson(call: stored.call, person: into))
        case .strategy(let version, let document, let project):
            // That of another project is not what the call made.
            guard projects[stored.call] ?? project == project else { return }
            count(stored, .strategySet(version: version, content: LeafFact.content(document, hash)))
        case .listed: listed.insert(CallOfPerson(call: stored.call, person: stored.person))
        case .row(let kind, let at, let body, let recognition, let device, let isReplaced):
            let content = LeafFact.content(body, hash, recognition: recognition, device: device)
            let known = known(stored, .rowAdded(kind: kind, at: at, content: content))
            if body.isEmpty, isReplaced { emptied.append(known) } else { balance[known, default: 0] -= 1 }
        case .document(let code, let key, let body):
            guard let kind = DocumentKind(rawValue: code), !kind.isDerived else { return }
            let known = known(stored, .documentPut(kind: code, key: key, content: LeafFact.content(body, hash)))
            let isForgotten = DocumentKind.forgetting.contains(kind) && stored.call < historyEnd
            if body.isEmpty, kind == .attachment || isForgotten, balance[known] == nil {
                emptied.append(known)
            } else {
                balance[known, default: 0] -= 1
            }
        }
    }

    /// Notes the people of a call whose lists have the call.
    private mutating func note(_ stored: StoredFact, _ fact: LeafFact) {
        let call = CallOfPerson(call: stored.call, person: stored.person)
        switch fact {
        case .personMade: newcomers.insert(call)
        case .linked, .unlinked, .personErased, .mergeUndone:
            // The links of a person mostly come together.
            if call != lastOther { others.insert(call) }
            lastOther = call
        case .merged(_, let from, let into, _):
            for person in [from, into] { others.insert(CallOfPerson(call: stored.call, person: person)) }
        case .rowAdded, .rowSuperseded, .documentPut, .strategySet, .made, .named, .revoked: break
        }
    }

    private func known(_ stored: StoredFact, _ fact: LeafFact) -> FactOfCall {
        FactOfCall(stored.call, stored.person, fact)
    }

    @discardableResult
    private mutating func count(_ stored: StoredFact, _ fact: LeafFact) -> FactOfCall {
        let known = known(stored, fact)
        balance[known, default: 0] -= 1
        return known
    }

    /// Whether a fact is an emptied one, but for its content.
    private static func matches(_ fact: LeafFact, _ emptied: LeafFact) -> Bool {
        switch fact {
        case .rowAdded(let kind, let at, _):
            if case .rowAdded(kind, at, _) = emptied { true } else { false }
        case .documentPut(let kind, let key, _):
            if case .documentPut(kind, key, _) = emptied { true } else { false }
        case .personMade, .linked, .unlinked, .rowSuperseded, .merged, .mergeUndone, .personErased, .made, .revoked,
            .named, .strategySet:
            false
        }
    }

    // MARK: - Findings

    /// The facts that only leaves or only tables have. Not each of them is damage.
    func differences() -> [LeafDifference] {
        var rest = balance.filter { $0.value != 0 }
        if rest.isEmpty { return [] }
        for known in emptied {
            let match = rest.first { entry in
                entry.value > 0 && entry.key.call == known.call && entry.key.person == known.person
                    && FactBalance.matches(entry.key.fact, known.fact)
            }
            if let match { rest[match.key] = match.value == 1 ? nil : match.value - 1 }
        }
        var orders: [FactOfCall: Int] = [:]
        for (place, known) in noted.enumerated() where rest[known] != nil { orders[known] = place }
        var numbers: [FactOfCall: [Int64]] = [:]
        for (known, number) in links where rest[known] != nil { numbers[known, default: []].append(number) }
        var differences: [LeafDifference] = []
        for (known, count) in rest.sorted(by: { ($0.key.call, $0.key.person) < ($1.key.call, $1.key.person) }) {
            let links = count > 0 ? [] : numbers[known] ?? []
            for place in 0..<abs(count) {
                differences.append(
                    LeafDifference(
                        call: known.call, person: known.person, fact: known.fact, isMissing: count > 0,
                        link: links.indices.contains(place) ? links[links.count - 1 - place] : nil,
                        order: orders[known] ?? 0))
            }
        }
        return differences
    }

    /// Whether an erasure has removed what a leaf says of a person.
    func isSealed(_ call: Int64, _ person: Int64) -> Bool { sealed.contains(CallOfPerson(call: call, person: person)) }

    /// Compares the lists of people's calls with the facts of the calls. The own person of a call, and the people that it made, are
    /// found without them. A list may have a call that only added rows: earlier versions kept no such calls in it.
    func listDifferences() -> [ListDifference] {
        let expected = others.subtracting(newcomers).filter { owners[$0.call] != $0.person }
        var differing = expected.symmetricDifference(listed)
        if !differing.isSubset(of: expected) {
            differing.subtract(ownersOfRows.intersection(listed).subtracting(expected))
        }
        return differing.sorted(by: { ($0.call, $0.person) < ($1.call, $1.person) }).map { call in
            ListDifference(call: call.call, person: call.person, isMissing: !listed.contains(call))
        }
    }

    /// The people to whom calls added rows, as far as no erasure has sealed what the leaves say.
    private var ownersOfRows: Set<CallOfPerson> {
        var owners = sealed
        for known in noted {
            if case .rowAdded = known.fact { owners.insert(CallOfPerson(call: known.call, person: known.person)) }
        }
        return owners
    }

    // MARK: - The directory

    /// Compares projects, apps and keys with the leaves of the calls that made and changed them.
    func differences(of things: [StoredThing], after origin: Int64) -> [ThingDifference] {
        var differences: [ThingDifference] = []
        var seen: Set<Thing> = []
        func difference(_ thing: Thing, _ state: ThingDifference.State, _ madeBy: Int64?) -> ThingDifference {
            ThingDifference(
                kind: thing.kind, id: thing.id, state: state, madeBy: made[thing]?.call ?? madeBy,
                content: made[thing]?.content, name: names[thing], revokedAt: revoked[thing])
        }
        for stored in things {
            let thing = Thing(kind: stored.kind, id: stored.id)
            seen.insert(thing)
            if isAsMade(stored, thing, after: origin) { continue }
            let isAdded = made[thing] == nil && stored.madeBy > origin
            differences.append(difference(thing, isAdded ? .added : .changed, stored.madeBy))
        }
        let gone = made.keys.filter { !seen.contains($0) }
        for thing in gone.sorted(by: { ($0.kind.rawValue, $0.id) < ($1.kind.rawValue, $1.id) }) {
            differences.append(difference(thing, .gone, nil))
        }
        return differences
    }

    private func isAsMade(_ stored: StoredThing, _ thing: Thing, after origin: Int64) -> Bool {
        let isLater = stored.madeBy > origin
        let isMade = made[thing].map { $0 == (stored.content(hash), stored.madeBy) } ?? !isLater
        let isNamed = names[thing].map { $0 == stored.nameHash(hash) } ?? !isLater
        let isKnown = isLater || revoked[thing] != nil
        return isMade && isNamed && (!isKnown || revoked[thing] == stored.revokedAt)
    }
}
