package import Crypto
package import Domain

/// Compares a store with the tree over its journal: each call with its leaf, and each fact with the facts of the leaf.
package struct TreeComparison<Facts: StoredFacts> {
    /// Where findings go.
    package struct Report {
        let found: (Finding) -> Void
        let differs: (LeafDifference) -> Void

        package init(
            found: @escaping (Finding) -> Void, differs: @escaping (LeafDifference) -> Void
        ) {
            (self.found, self.differs) = (found, differs)
        }
    }

    /// A fact of a call, as a leaf and a table may have it.
    private struct Known: Hashable {
        let call: Int64
        let person: Int64
        let fact: LeafFact
    }

    private struct Thing: Hashable {
        let kind: LeafFact.Thing
        let id: Int64
    }

    private struct CallOfPerson: Hashable {
        let call: Int64
        let person: Int64
    }

    private let store: Facts
    private let report: Report
    private let hash: KeyedHash
    /// The last call that is not compared.
    private let origin: Int64
    /// The last call that is compared.
    private let last: Int64
    private let hasher = SHA256()

    /// The edge of the tree behind the compared leaves.
    package private(set) var edge: MerkleEdge
    /// Whether a leaf of the present subtree differs.
    private var differs = false
    /// The facts of the present page: how many more the leaves have than the tables.
    private var balance: [Known: Int] = [:]
    private var sealed: Set<[Int64]> = []
    /// The links of facts that tables have, and the places of facts that leaves have.
    private var linksOf: [Known: [Int64]] = [:]
    private var orders: [Known: Int] = [:]
    /// The projects and the own people of the calls of the present page.
    private var projects: [Int64: Int64] = [:]
    private var owners: [Int64: Int64] = [:]
    /// The calls of the present page with their other people, as the tables of facts and as the lists of people's calls have them.
    private var others: Set<CallOfPerson> = []
    private var newcomers: Set<CallOfPerson> = []
    private var listed: Set<CallOfPerson> = []
    private var made: [Thing: (content: UInt64, call: Int64)] = [:]
    private var names: [Thing: UInt64] = [:]
    private var revoked: [Thing: Int64] = [:]
    /// Rows and documents whose content an erasure or a later call has removed.
    private var emptied: [Known] = []
    /// The last end of a project's history: retention empties versions from before it.
    private let historyEnd: Int64
    /// The moments before which retention has removed rows.
    private var expired: [Hash128: Int64] = [:]

    private static var leavesAtOnce: Int { 2000 }
    private static var leavesOfQuestion: Int { 250 }
    private static var factsAtOnce: Int { 100_000 }

    /// - Parameters:
    ///   - origin: the last call that is not compared.
    ///   - last: the last call that is compared.
    ///   - edge: the edge of the tree behind the call `origin`.
    package init(
        _ store: Facts, _ hash: KeyedHash, after origin: Int64, upTo last: Int64, _ edge: MerkleEdge, _ report: Report
    ) throws(Facts.Tree.Failure) {
        (self.store, self.hash, self.origin, self.last) = (store, hash, origin, last)
        (self.edge, self.report) = (edge, report)
        historyEnd =
            try store.documents(.historyEnd).compactMap { HistoryEnd(packed: $0.body)?.call.rawValue }.max() ?? 0
        for document in try store.documents(.expiredRows) {
            expired[document.key] = ExpiredRows(packed: document.body)?.before.milliseconds
        }
    }

    /// Compares the calls of the next page. Returns the last of them; nil at the end.
    package mutating func comparePage(after: Int64) throws(Facts.Tree.Failure) -> Int64? {
        (balance, sealed, projects, emptied) = ([:], [], [:], [])
        (linksOf, orders, owners) = ([:], [:], [:])
        (others, newcomers, listed) = ([], [], [])
        var (end, count, facts) = (after, 0, 0)
        while count < TreeComparison.leavesAtOnce, facts < TreeComparison.factsAtOnce {
            let rows = try store.tree.rows(from: end + 1, limit: TreeComparison.leavesOfQuestion)
                .prefix { $0.sequence <= last }
            for row in rows { facts += try compare(row) }
            guard let row = rows.last else { break }
            end = row.sequence
            count += rows.count
        }
        if count == 0 { return nil }
        if end > origin { try compareFacts(max(after, origin) + 1...end) }
        return end
    }

    private func found(_ code: String, _ text: String, _ call: Int64?, _ person: Int64? = nil) {
        report.found(
            Finding(
                code: code, description: text, call: call.map(JournalSequence.init),
                person: person.map(PersonID.init)))
    }

    /// Compares a call with its leaf, and notes the leaf's facts. Returns the number of facts.
    private mutating func compare(_ row: LeafRow) throws(Facts.Tree.Failure) -> Int {
        let call = row.sequence
        var (leaf, count, isMade) = (MerkleTree.empty, 0, true)
        if row.place != edge.count {
            found(
                "leaf", "Call \(call) has the place \(row.place) in the tree, and not \(edge.count). Restore a copy.",
                call)
            differs = true
        }
        if row.place == 0 {
            leaf = MerkleTree.leaf(row.opening, hasher)
        } else if let columns = row.columns {
            guard let opening = LeafOpening(packed: row.opening, hasher) else {
                found("leaf", "The leaf of call \(call) cannot be read. Restore a copy.", call)
                differs = true
                _ = edge.add(leaf, hasher)
                return 0
            }
            leaf = opening.leaf(columns, hasher)
            projects[call] = columns.project
            owners[call] = columns.person
            count = note(opening, of: call)
        } else {
            found("leaf", "Call \(call) is in the tree and not in the journal. Restore a copy.", call)
            (isMade, differs) = (false, true)
        }
        if isMade, LeafOpening.mark(of: leaf) != row.mark {
            found("leaf", "Call \(call) differs from its leaf: the journal was changed. Restore a copy.", call)
            differs = true
        }
        if let computed = edge.add(leaf, hasher) {
            let kept = try store.tree.keptRoot(edge.count / MerkleEdge.keptLeaves - 1)
            if kept != computed, !differs {
                found(
                    "head",
                    "The tree has another hash for the \(MerkleEdge.keptLeaves) calls up to \(call). Restore a copy.",
                    call)
            }
            differs = false
        }
        return count
    }

    private mutating func note(_ opening: LeafOpening, of call: Int64) -> Int {
        var count = 0
        for part in opening.parts {
            guard case .open(_, let packed) = part.content else {
                sealed.insert([call, part.person])
                continue
            }
            guard let facts = LeafFact.unpack(packed) else {
                found("leaf", "The leaf of call \(call) has facts that this version cannot read.", call)
                continue
            }
            count += facts.count
            for fact in facts {
                switch fact {
                case .made(let kind, let id, let content): made[Thing(kind: kind, id: id)] = (content, call)
                case .named(let kind, let id, let name): names[Thing(kind: kind, id: id)] = name
                case .revoked(let kind, let id, let at): revoked[Thing(kind: kind, id: id)] = at
                case .personMade, .linked, .unlinked, .rowAdded, .rowSuperseded, .documentPut, .merged,
                    .mergeUndone,
                    .personErased, .strategySet:
                    let known = Known(call: call, person: part.person, fact: fact)
                    balance[known, default: 0] += 1
                    orders[known] = orders.count
                }
            }
        }
        return count
    }

    // MARK: - Facts

    private mutating func compareFacts(_ calls: ClosedRange<Int64>) throws(Facts.Tree.Failure) {
        for fact in try store.facts(of: calls) where fact.call > origin { take(fact) }
        try reportFacts()
        reportLists()
    }

    private mutating func take(_ stored: StoredFact) {
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
            linksOf[known, default: []].append(id)
            note(stored, known.fact)
        case .mergeEnd(let id, let into):
            count(stored, .mergeUndone(id: id))
            note(stored, .mergeUndone(id: id))
            others.insert(CallOfPerson(call: stored.call, person: into))
        case .strategy(let version, let document, let project):
            count(stored, .strategySet(version: version, content: LeafFact.content(document, hash)))
            if let own = projects[stored.call], own != project {
                found(
                    "strategy_differs",
                    "Version \(version) of a strategy is of project \(project), and its call \(stored.call) of \(own). \(LeafDifference.restore)",
                    stored.call
                )
            }
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
        case .linked, .unlinked, .personErased, .mergeUndone: others.insert(call)
        case .merged(_, let from, let into, _):
            for person in [from, into] { others.insert(CallOfPerson(call: stored.call, person: person)) }
        case .rowAdded, .rowSuperseded, .documentPut, .strategySet, .made, .named, .revoked: break
        }
    }

    /// Compares the lists of people's calls with the facts of the calls. The own person of a call, and the people that it made, are
    /// found without them.
    private func reportLists() {
        let expected = others.subtracting(newcomers).filter { owners[$0.call] != $0.person }
        for call in expected.symmetricDifference(listed).sorted(by: { ($0.call, $0.person) < ($1.call, $1.person) }) {
            let state =
                listed.contains(call)
                ? "has call \(call.call), which did not touch the person." : "lacks call \(call.call)."
            found(
                "call_people", "The list of the calls of person \(call.person) \(state) \(LeafDifference.restore)",
                call.call, call.person)
        }
    }

    private func known(_ stored: StoredFact, _ fact: LeafFact) -> Known {
        Known(call: stored.call, person: stored.person, fact: fact)
    }

    @discardableResult
    private mutating func count(_ stored: StoredFact, _ fact: LeafFact) -> Known {
        let known = known(stored, fact)
        balance[known, default: 0] -= 1
        return known
    }

    /// Whether a fact is an emptied one, but for its content.
    private static func matches(_ fact: LeafFact, _ emptied: LeafFact) -> Bool {
        switch (fact, emptied) {
        case (.rowAdded(let kind, let at, _), .rowAdded(let otherKind, let otherAt, _)):
            kind == otherKind && at == otherAt
        case (.documentPut(let kind, let key, _), .documentPut(let otherKind, let otherKey, _)):
            kind == otherKind && key == otherKey
        default: false
        }
    }

    private func reportFacts() throws(Facts.Tree.Failure) {
        var rest = balance.filter { $0.value != 0 }
        for known in emptied {
            let match = rest.first { entry in
                entry.value > 0 && entry.key.call == known.call && entry.key.person == known.person
                    && TreeComparison.matches(entry.key.fact, known.fact)
            }
            if let match { rest[match.key] = match.value == 1 ? nil : match.value - 1 }
        }
        for (known, count) in rest.sorted(by: { ($0.key.call, $0.key.person) < ($1.key.call, $1.key.person) }) {
            let isMissing = count > 0
            if try !isDamage(known, isMissing: isMissing) { continue }
            for place in 0..<abs(count) {
                let links = isMissing ? [] : linksOf[known] ?? []
                report.differs(
                    LeafDifference(
                        call: known.call, person: known.person, fact: known.fact, isMissing: isMissing,
                        link: links.indices.contains(place) ? links[links.count - 1 - place] : nil,
                        order: orders[known] ?? 0))
            }
        }
    }

    private func isDamage(_ known: Known, isMissing: Bool) throws(Facts.Tree.Failure) -> Bool {
        // Later calls are not examined, and an erasure has removed the facts of a sealed part.
        if known.call > last || (!isMissing && sealed.contains([known.call, known.person])) { return false }
        switch known.fact {
        case .rowSuperseded(_, let row):
            // Retention and erasures remove rows.
            if !isMissing { return true }
            guard let call = try store.replacement(of: row) else { return false }
            return call != known.call
        case .rowAdded(let kind, let at, _):
            if try store.isErased(known.person) { return false }
            if !isMissing { return true }
            let project = try store.project(of: known.person) ?? projects[known.call] ?? 0
            let end = RowKind(rawValue: kind).map {
                ExpiredRows.key(of: $0, in: ProjectID(rawValue: Int32(truncatingIfNeeded: project))).hash
            }
            if at >= end.flatMap({ expired[$0] }) ?? .min { return true }
            // Retention removes the oldest rows first, so an older row that is there shows a loss.
            return try store.hasRow(of: kind, in: project, before: at, known.call)
        case .documentPut: return try !store.isErased(known.person)
        case .personMade, .linked, .unlinked, .merged, .mergeUndone, .personErased, .strategySet, .made, .revoked,
            .named:
            return true
        }
    }

    // MARK: - The directory

    /// Compares the projects, apps and keys with the leaves of the calls that made and changed them.
    package func compareThings() throws(Facts.Tree.Failure) {
        var seen: Set<Thing> = []
        for stored in try store.things() where stored.madeBy <= last {
            let thing = Thing(kind: stored.kind, id: stored.id)
            seen.insert(thing)
            if !isAsMade(stored, thing) {
                found(
                    thing.kind.code(isGone: false),
                    "\(thing.kind.title) \(thing.id) is not as a call made it. Restore a copy, or make a new one.",
                    stored.madeBy)
            }
        }
        for thing in made.keys.filter({ !seen.contains($0) }).sorted(by: {
            ($0.kind.rawValue, $0.id) < ($1.kind.rawValue, $1.id)
        }) {
            found(
                thing.kind.code(isGone: true),
                "\(thing.kind.title) \(thing.id) does not exist any more. Restore a copy, or make a new one.",
                made[thing]?.call)
        }
    }

    private func isAsMade(_ stored: StoredThing, _ thing: Thing) -> Bool {
        for fact in LeafFact.made(stored.kind, stored.id, stored.name, stored.columns, hash) {
            switch fact {
            case .made(_, _, let content):
                if let made = made[thing] {
                    if made != (content, stored.madeBy) { return false }
                } else if stored.madeBy > origin {
                    return false
                }
            case .named(_, _, let content):
                if let name = names[thing] {
                    if name != content { return false }
                } else if stored.madeBy > origin {
                    return false
                }
            case .personMade, .linked, .unlinked, .rowAdded, .rowSuperseded, .documentPut, .merged, .mergeUndone,
                .personErased, .revoked, .strategySet:
                break
            }
        }
        let isKnown = stored.madeBy > origin || revoked[thing] != nil
        return !isKnown || revoked[thing] == stored.revokedAt
    }
}
