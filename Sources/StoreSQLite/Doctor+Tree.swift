import Crypto
import Domain
import SQLite

/// Compares the store with the tree over its journal: each call with its leaf, and each fact with the facts of the leaf.
extension Doctor {
    /// A fact that differs from the leaf of its call.
    struct Difference: Sendable {
        let call: Int64
        let person: Int64
        let fact: LeafFact
        /// Whether the store lacks the fact. Otherwise no leaf has the fact.
        let isMissing: Bool
        /// The number of the link that a table has and no leaf.
        var link: Int64?
        /// The place of the fact among the facts of its call.
        var order = 0
    }

    private static let leavesAtOnce = 2000
    private static let factsAtOnce = 100_000

    /// Whether the store has a tree. A store that this version has not opened yet has none.
    func hasTree() throws(SQLiteFault) -> Bool {
        try connection.integer("SELECT 1 FROM sqlite_master WHERE name = 'leaves'") != nil
    }

    /// Checks leaves, and the facts of their calls: all since the tree began, or those of the last leaves and of the subtree in which
    /// the first of them is.
    func examineTree(last leavesAtMost: Int = .max) throws(SQLiteFault) {
        progress("tree over the journal")
        guard try hasTree(), var origin = try connection.integer("SELECT sequence FROM leaves WHERE place = 0"),
            let key = try? SQLiteStore.hashKey(connection)
        else { return }
        var (edge, after) = (MerkleEdge(), Int64(-1))
        let reader = try TreeReader(connection)
        let skipped = max(0, try reader.count() - leavesAtMost) / MerkleEdge.keptLeaves
        if skipped > 0 {
            edge = MerkleEdge(kept: Array(try reader.keptRoots().prefix(skipped)), SHA256())
            origin = try reader.sequence(at: skipped * MerkleEdge.keptLeaves - 1)
            after = origin
        }
        var tree = try TreeComparison(self, KeyedHash(key: key), after: origin, edge)
        while let last = try tree.comparePage(after: after) { after = last }
        try tree.compareDirectory()
        let missing = try connection.prepare(
            """
            SELECT journal.sequence FROM journal LEFT JOIN leaves ON leaves.sequence = journal.sequence
            WHERE journal.sequence > ? AND journal.sequence <= ? AND leaves.sequence IS NULL ORDER BY journal.sequence
            """)
        missing.bind(1, origin)
        missing.bind(2, lastSequence)
        while try missing.step() {
            found("leaf", "Call \(missing.integer(0)) is not in the tree over the journal. Restore a copy.")
        }
    }

    /// One pass over the tree.
    private struct TreeComparison {
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

        private let doctor: Doctor
        private let hash: KeyedHash
        private let origin: Int64
        private let hasher = SHA256()
        private let leaves: Statement
        private let root: Statement
        private let people: Statement
        private let linkEnds: Statement
        private let mergeEnds: Statement
        private let erasures: Statement
        private let strategies: Statement
        private let superseding: Statement
        private let older: Statement
        private let erased: Statement
        private let links: FactStream
        private let merges: FactStream
        private let rows: FactStream
        private let documents: FactStream

        private var edge: MerkleEdge
        /// Whether a leaf of the present subtree differs.
        private var differs = false
        /// The facts of the present page: how many more the leaves have than the tables.
        private var balance: [Known: Int] = [:]
        private var sealed: Set<[Int64]> = []
        /// The links of facts that tables have, and the places of facts that leaves have.
        private var linksOf: [Known: [Int64]] = [:]
        private var orders: [Known: Int] = [:]
        private var projects: [Int64: Int64] = [:]
        private var made: [Thing: UInt64] = [:]
        private var names: [Thing: UInt64] = [:]
        private var revoked: [Thing: Int64] = [:]
        /// Rows and documents whose content an erasure or a later call has removed.
        private var emptied: [Known] = []
        /// The last end of a project's history: retention empties versions from before it.
        private let historyEnd: Int64

        /// - Parameter origin: the last call that is not compared.
        init(
            _ doctor: Doctor, _ hash: KeyedHash, after origin: Int64, _ edge: MerkleEdge
        ) throws(SQLiteFault) {
            (self.doctor, self.hash, self.origin, self.edge) = (doctor, hash, origin, edge)
            let connection = doctor.connection
            leaves = try connection.prepare(
                """
                SELECT \(TreeReader.columns) FROM leaves LEFT JOIN journal ON journal.sequence = leaves.sequence
                WHERE leaves.sequence > ? AND leaves.sequence <= ? ORDER BY leaves.sequence
                """)
            root = try connection.prepare("SELECT root FROM tree WHERE number = ?")
            people = try connection.prepare(
                "SELECT made_by, id FROM people INDEXED BY people_by_call WHERE made_by BETWEEN ? AND ?")
            linkEnds = try connection.prepare(
                """
                SELECT ended_by, person, type, value, link FROM link_ends JOIN links ON links.id = link
                WHERE ended_by BETWEEN ? AND ?
                """)
            mergeEnds = try connection.prepare(
                """
                SELECT ended_by, source, merges.id FROM merge_ends JOIN merges ON merges.id = merge
                WHERE ended_by BETWEEN ? AND ?
                """)
            erasures = try connection.prepare(
                "SELECT erased_by, id FROM people INDEXED BY people_erased WHERE erased_by BETWEEN ? AND ?")
            strategies = try connection.prepare(
                "SELECT made_by, version, document FROM strategies WHERE made_by BETWEEN ? AND ?")
            superseding = try connection.prepare("SELECT superseded_by FROM rows WHERE id = ?")
            older = try connection.prepare(
                """
                SELECT 1 FROM rows INDEXED BY rows_by_time JOIN people ON people.id = rows.person
                WHERE rows.kind = ?1 AND rows.at <= ?2 AND rows.made_by <= ?3 AND (rows.at < ?2 OR rows.made_by < ?3)
                    AND people.project = ?4 LIMIT 1
                """)
            erased = try connection.prepare("SELECT erased_by IS NOT NULL FROM people WHERE id = ?")
            links = try FactStream(connection, "links", ["person", "type", "value"], after: origin)
            merges = try FactStream(connection, "merges", ["source", "destination", "rule"], after: origin)
            rows = try FactStream(
                connection, "rows", ["person", "kind", "at", "body", "recognition", "device", "superseded_by"],
                after: origin)
            documents = try FactStream(connection, "documents", ["person", "kind", "hash", "body"], after: origin)
            let ends = try connection.prepare(
                "SELECT body FROM documents WHERE kind = \(DocumentKind.historyEnd.rawValue)")
            var last = JournalSequence.zero
            while try ends.step() { last = max(last, HistoryEnd(packed: ends.blob(0))?.call ?? .zero) }
            historyEnd = last.rawValue
        }

        /// Compares the calls of the next page. Returns the last of them; nil at the end.
        mutating func comparePage(after: Int64) throws(SQLiteFault) -> Int64? {
            (balance, sealed, projects, emptied) = ([:], [], [:], [])
            (linksOf, orders) = ([:], [:])
            return try doctor.connection.reading { () throws(SQLiteFault) in try compareLeaves(after: after) }
        }

        private mutating func compareLeaves(after: Int64) throws(SQLiteFault) -> Int64? {
            leaves.bind(1, after)
            leaves.bind(2, doctor.lastSequence)
            defer { leaves.reset() }
            var (last, count, facts) = (Int64?.none, 0, 0)
            while count < Doctor.leavesAtOnce, facts < Doctor.factsAtOnce, try leaves.step() {
                last = leaves.integer(0)
                count += 1
                facts += try compareLeaf()
            }
            guard let last else { return nil }
            if last > origin { try compareFacts(max(after, origin) + 1...last) }
            return last
        }

        /// Compares a call with its leaf, and notes the leaf's facts. Returns the number of facts.
        private mutating func compareLeaf() throws(SQLiteFault) -> Int {
            let (call, place) = (leaves.integer(0), Int(leaves.integer(1)))
            var (leaf, count, isMade) = (MerkleTree.empty, 0, true)
            if place != edge.count {
                doctor.found(
                    "leaf", "Call \(call) has the place \(place) in the tree, and not \(edge.count). Restore a copy.")
                differs = true
            }
            if place == 0 {
                leaf = MerkleTree.leaf(leaves.blob(3) ?? [], hasher)
            } else if let columns = LeafColumns(leaves) {
                guard let opening = leaves.blob(3).flatMap({ LeafOpening(packed: $0, hasher) }) else {
                    doctor.found("leaf", "The leaf of call \(call) cannot be read. Restore a copy.")
                    differs = true
                    _ = edge.add(leaf, hasher)
                    return 0
                }
                leaf = opening.leaf(columns, hasher)
                projects[call] = columns.project
                count = note(opening, of: call)
            } else {
                doctor.found("leaf", "Call \(call) is in the tree and not in the journal. Restore a copy.")
                (isMade, differs) = (false, true)
            }
            if isMade, LeafOpening.mark(of: leaf) != leaves.blob(2) {
                doctor.found("leaf", "Call \(call) differs from its leaf: the journal was changed. Restore a copy.")
                differs = true
            }
            if let computed = edge.add(leaf, hasher) {
                let number = edge.count / MerkleEdge.keptLeaves - 1
                root.bind(1, Int64(number))
                defer { root.reset() }
                let kept = try root.step() ? root.blob(0).flatMap { Digest($0) } : nil
                if kept != computed, !differs {
                    doctor.found(
                        "head",
                        "The tree has another hash for the \(MerkleEdge.keptLeaves) calls up to \(call). Restore a copy."
                    )
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
                    doctor.found("leaf", "The leaf of call \(call) has facts that this version cannot read.")
                    continue
                }
                count += facts.count
                for fact in facts {
                    switch fact {
                    case .made(let kind, let id, let content): made[Thing(kind: kind, id: id)] = content
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

        private mutating func take(_ call: Int64, _ person: Int64, _ fact: LeafFact, link: Int64? = nil) {
            let known = Known(call: call, person: person, fact: fact)
            balance[known, default: 0] -= 1
            if let link { linksOf[known, default: []].append(link) }
        }

        private func project(of person: Int64, _ call: Int64) -> ProjectID {
            let found = doctor.index.place(of: PersonID(rawValue: person)).map { doctor.index.project(of: $0) }
            return found ?? ProjectID(rawValue: Int32(truncatingIfNeeded: projects[call] ?? 0))
        }

        private func identity(_ call: Int64, _ person: Int64, _ type: Int64, _ value: [UInt8]) -> Hash128 {
            let project = project(of: person, call).rawValue
            let tag = UInt64(UInt32(bitPattern: project)) << 8 | UInt64(UInt8(truncatingIfNeeded: type))
            return hash.hash(tag: tag, value.span)
        }

        private mutating func compareFacts(_ calls: ClosedRange<Int64>) throws(SQLiteFault) {
            func each(_ statement: Statement, _ body: (Statement) -> Void) throws(SQLiteFault) {
                statement.bind(1, calls.lowerBound)
                statement.bind(2, calls.upperBound)
                while try statement.step() { body(statement) }
            }
            try each(people) { take($0.integer(0), $0.integer(1), .personMade) }
            try each(linkEnds) { row in
                let (call, person, type) = (row.integer(0), row.integer(1), row.integer(2))
                let hash = identity(call, person, type, row.blob(3) ?? [])
                take(call, person, .unlinked(type: UInt8(truncatingIfNeeded: type), hash), link: row.integer(4))
            }
            try each(mergeEnds) { take($0.integer(0), $0.integer(1), .mergeUndone(id: $0.integer(2))) }
            try each(erasures) { take($0.integer(0), $0.integer(1), .personErased) }
            try each(strategies) { row in
                let content = LeafFact.content(row.blob(2) ?? [], hash)
                take(row.integer(0), 0, .strategySet(version: row.integer(1), content: content))
            }
            for link in try links.take(upTo: calls.upperBound) where link.call > origin {
                let (person, type) = (link.integer(0), link.integer(1))
                let hash = identity(link.call, person, type, link.bytes(2))
                take(link.call, person, .linked(type: UInt8(truncatingIfNeeded: type), hash), link: link.id)
            }
            for merge in try merges.take(upTo: calls.upperBound) where merge.call > origin {
                take(
                    merge.call, merge.integer(0),
                    .merged(
                        id: merge.id, from: merge.integer(0), into: merge.integer(1),
                        rule: UInt8(truncatingIfNeeded: merge.integer(2))))
            }
            for row in try rows.take(upTo: calls.upperBound) where row.call > origin { takeRow(row) }
            for document in try documents.take(upTo: calls.upperBound) where document.call > origin {
                takeDocument(document)
            }
            try report()
        }

        private mutating func takeRow(_ row: FactStream.Item) {
            let kind = UInt8(truncatingIfNeeded: row.integer(1))
            // A removed row only keeps its place.
            if row.integer(1) == RowWriter.removedKind { return }
            let body = row.bytes(3)
            func rowHash(_ column: Int) -> UInt64? { row.optionalInteger(column).map { UInt64(bitPattern: $0) } }
            let content = LeafFact.content(body, hash, recognition: rowHash(4), device: rowHash(5))
            let known = Known(
                call: row.call, person: row.integer(0),
                fact: .rowAdded(kind: kind, at: row.integer(2), content: content))
            if body.isEmpty, row.optionalInteger(6) != nil {
                emptied.append(known)
            } else {
                balance[known, default: 0] -= 1
            }
        }

        private mutating func takeDocument(_ document: FactStream.Item) {
            guard let kind = DocumentKind(rawValue: UInt8(truncatingIfNeeded: document.integer(1))), !kind.isDerived,
                let key = Hash128(document.bytes(2).span)
            else { return }
            let body = document.bytes(3)
            let known = Known(
                call: document.call, person: document.integer(0),
                fact: .documentPut(kind: kind.rawValue, key: key, content: LeafFact.content(body, hash)))
            let isForgotten = DocumentKind.forgetting.contains(kind) && document.call < historyEnd
            if body.isEmpty, kind == .attachment || isForgotten, balance[known] == nil {
                emptied.append(known)
            } else {
                balance[known, default: 0] -= 1
            }
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

        private mutating func report() throws(SQLiteFault) {
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
                    doctor.note(
                        Difference(
                            call: known.call, person: known.person, fact: known.fact, isMissing: isMissing,
                            link: links.indices.contains(place) ? links[links.count - 1 - place] : nil,
                            order: orders[known] ?? 0))
                }
            }
        }

        private func isDamage(_ known: Known, isMissing: Bool) throws(SQLiteFault) -> Bool {
            // Later calls are not examined, and an erasure has removed the facts of a sealed part.
            if known.call > doctor.lastSequence || (!isMissing && sealed.contains([known.call, known.person])) {
                return false
            }
            switch known.fact {
            case .rowSuperseded(_, let row):
                superseding.bind(1, row)
                defer { superseding.reset() }
                return try superseding.step() && superseding.optionalInteger(0) != known.call
            case .rowAdded(let kind, let at, _):
                if try isErased(known.person) { return false }
                if !isMissing { return true }
                // Retention removes the oldest rows first, so an older row that is there shows a loss.
                older.bind(1, Int64(kind))
                older.bind(2, at)
                older.bind(3, known.call)
                older.bind(4, Int64(project(of: known.person, known.call).rawValue))
                defer { older.reset() }
                return try older.step()
            case .documentPut: return try !isErased(known.person)
            case .personMade, .linked, .unlinked, .merged, .mergeUndone, .personErased, .strategySet, .made, .revoked,
                .named:
                return true
            }
        }

        private func isErased(_ person: Int64) throws(SQLiteFault) -> Bool {
            erased.bind(1, person)
            defer { erased.reset() }
            return try erased.step() && erased.integer(0) == 1
        }

        // MARK: - The directory

        /// Compares the projects, apps and keys with the leaves of the calls that made and changed them.
        mutating func compareDirectory() throws(SQLiteFault) {
            var seen: Set<Thing> = []
            func compare(
                _ thing: Thing, _ madeBy: Int64, _ name: String, _ columns: [LeafFact.Column], _ revokedAt: Int64?
            ) {
                if madeBy > doctor.lastSequence { return }
                seen.insert(thing)
                var differs = false
                for fact in LeafFact.made(thing.kind, thing.id, name, columns, hash) {
                    switch fact {
                    case .made(_, _, let content): differs = differs || (madeBy > origin && made[thing] != content)
                    case .named(_, _, let content):
                        differs = differs || (names[thing].map { $0 != content } ?? (madeBy > origin))
                    case .personMade, .linked, .unlinked, .rowAdded, .rowSuperseded, .documentPut, .merged,
                        .mergeUndone,
                        .personErased, .revoked, .strategySet:
                        break
                    }
                }
                let isKnown = madeBy > origin || revoked[thing] != nil
                differs = differs || (isKnown && revoked[thing] != revokedAt)
                if differs {
                    doctor.found(
                        thing.kind.code(isGone: false),
                        "\(thing.kind.title) \(thing.id) is not as a call made it. Restore a copy, or make a new one.")
                }
            }
            let projects = try doctor.connection.prepare("SELECT id, made_by, name, made_at FROM projects ORDER BY id")
            while try projects.step() {
                compare(
                    Thing(kind: .project, id: projects.integer(0)), projects.integer(1), projects.text(2) ?? "",
                    [.integer(projects.integer(3))], nil)
            }
            let apps = try doctor.connection.prepare(
                """
                SELECT id, made_by, name, project, dialect, platform, bundle_id, public_id, secret_hash, made_at,
                    web_origins, revoked_at FROM apps ORDER BY id
                """)
            while try apps.step() {
                compare(
                    Thing(kind: .app, id: apps.integer(0)), apps.integer(1), apps.text(2) ?? "",
                    [
                        .integer(apps.integer(3)), .text(apps.text(4)), .text(apps.text(5)), .text(apps.text(6)),
                        .text(apps.text(7)), .bytes(apps.blob(8)), .integer(apps.integer(9)), .text(apps.text(10)),
                    ], apps.optionalInteger(11))
            }
            let keys = try doctor.connection.prepare(
                """
                SELECT id, made_by, name, project, app, kind, hash, scopes, made_at, expires_at, revoked_at
                FROM keys ORDER BY id
                """)
            while try keys.step() {
                compare(
                    Thing(kind: .key, id: keys.integer(0)), keys.integer(1), keys.text(2) ?? "",
                    [
                        .integer(keys.integer(3)), .integer(keys.optionalInteger(4)), .text(keys.text(5)),
                        .bytes(keys.blob(6)), .text(keys.text(7)), .integer(keys.integer(8)),
                        .integer(keys.optionalInteger(9)),
                    ], keys.optionalInteger(10))
            }
            for thing in made.keys.filter({ !seen.contains($0) }).sorted(by: {
                ($0.kind.rawValue, $0.id) < ($1.kind.rawValue, $1.id)
            }) {
                doctor.found(
                    thing.kind.code(isGone: true),
                    "\(thing.kind.title) \(thing.id) does not exist any more. Restore a copy, or make a new one.")
            }
        }
    }

    /// Notes a fact that differs from its leaf.
    private func note(_ difference: Difference) {
        differences.append(difference)
        let (code, what) = difference.fact.finding(isMissing: difference.isMissing)
        let place = difference.person == 0 ? "" : " of person \(difference.person)"
        let state =
            difference.isMissing
            ? "The store does not have \(what)\(place) that call \(difference.call) made."
            : "Call \(difference.call) did not make \(what)\(place) that the store has."
        found(code, "\(state) \(difference.advice)")
    }
}

extension Doctor.Difference {
    fileprivate var advice: String {
        switch remedy {
        case .leaf: break
        case .copy: return "\"onym doctor --repair --from-backup DIR\" takes it from a copy."
        case .restore: return "Restore a copy."
        }
        // The leaf has only the hash of a link's value. Another link or call of the store may have the value.
        if isMissing, case .linked = fact { return "\"onym doctor --repair\" says whether it can put it right." }
        return "\"onym doctor --repair\" can put it right."
    }

    /// Where the fact is taken from.
    enum Remedy {
        /// The leaf says enough for a repair.
        case leaf
        /// A repair takes it from a copy.
        case copy
        /// No repair restores it.
        case restore
    }

    var remedy: Remedy {
        switch fact {
        case .personMade, .linked, .unlinked, .merged, .mergeUndone, .personErased, .rowSuperseded: .leaf
        case .rowAdded, .documentPut, .strategySet: .copy
        case .made, .revoked, .named: .restore
        }
    }
}

extension LeafFact.Thing {
    fileprivate var title: String {
        switch self {
        case .project: "Project"
        case .app: "App"
        case .key: "Key"
        }
    }

    fileprivate func code(isGone: Bool) -> String {
        switch self {
        case .project: isGone ? "project_missing" : "project_differs"
        case .app: isGone ? "app_missing" : "app_differs"
        case .key: isGone ? "key_missing" : "key_differs"
        }
    }
}

extension LeafFact {
    /// The code of a finding about a fact, and the name of the fact.
    fileprivate func finding(isMissing: Bool) -> (code: String, what: String) {
        switch self {
        case .personMade: (isMissing ? "person_missing" : "person_added", "the making")
        case .linked(let type, _): (isMissing ? "link_missing" : "link_differs", "a link (\(LeafFact.name(type)))")
        case .unlinked(let type, _):
            (isMissing ? "end_missing" : "end_added", "the end of a link (\(LeafFact.name(type)))")
        case .rowAdded: ("row_differs", isMissing ? "a row" : "a row with this content")
        case .rowSuperseded(_, let row): ("row_differs", "the replacement of row \(row)")
        case .documentPut: ("document_differs", isMissing ? "a document" : "a document with this content")
        case .merged(let id, _, _, _): (isMissing ? "merge_missing" : "merge_added", "merge \(id)")
        case .mergeUndone(let id): (isMissing ? "merge_end_missing" : "merge_end_added", "the end of merge \(id)")
        case .personErased: ("person_erasure", "the erasure")
        case .strategySet(let version, _): ("strategy_differs", "version \(version) of a strategy")
        case .made(let thing, let id, _), .named(let thing, let id, _), .revoked(let thing, let id, _):
            (thing.code(isGone: false), "\(thing.title.lowercased()) \(id)")
        }
    }

    private static func name(_ type: UInt8) -> String {
        IdentityType(rawValue: type).map { "\($0.name)" } ?? "type \(type)"
    }
}

/// Reads a table of facts in the order of its keys, which is the order of the calls.
private final class FactStream {
    struct Item {
        let id: Int64
        let call: Int64
        fileprivate let values: [Value]

        func integer(_ column: Int) -> Int64 { optionalInteger(column) ?? 0 }

        func optionalInteger(_ column: Int) -> Int64? {
            if case .integer(let value) = values[column] { value } else { nil }
        }

        func bytes(_ column: Int) -> [UInt8] {
            if case .bytes(let value) = values[column] { value } else { [] }
        }
    }

    enum Value {
        case integer(Int64)
        case bytes([UInt8])
        case null
    }

    private let statement: Statement
    private let kinds: [Bool]
    private var buffer: ArraySlice<Item> = []
    private var after = Int64.min
    private var isAtEnd = false

    private static let rowsAtOnce = 2000
    /// The rows behind a row by which the row is told to stand in the wrong place.
    private static let lookAhead = 16
    private static let bytesColumns: Set<String> = ["value", "body", "hash"]

    /// - Parameter call: the last call whose rows nobody asks for.
    init(
        _ connection: Connection, _ table: String, _ columns: [String], after call: Int64
    ) throws(SQLiteFault) {
        statement = try connection.prepare(
            """
            SELECT id, made_by, \(columns.joined(separator: ", ")) FROM \(table)
            WHERE id > ? ORDER BY id LIMIT \(FactStream.rowsAtOnce)
            """)
        kinds = columns.map(FactStream.bytesColumns.contains)
        try skip(
            to: call, try connection.prepare("SELECT made_by FROM \(table) WHERE id >= ? ORDER BY id LIMIT 1"),
            from: try connection.integer("SELECT min(id) FROM \(table)") ?? 0,
            last: try connection.integer("SELECT max(id) FROM \(table)") ?? 0)
    }

    /// Skips the rows of earlier calls, by a binary search, but for as many as may stand in the wrong place.
    private func skip(to call: Int64, _ caller: Statement, from first: Int64, last: Int64) throws(SQLiteFault) {
        var (low, high) = (first, last)
        while low < high {
            let middle = low + (high - low) / 2
            caller.bind(1, middle)
            defer { caller.reset() }
            if try caller.step(), caller.integer(0) <= call { low = middle + 1 } else { high = middle }
        }
        if low > first { after = low - 1 - Int64(FactStream.lookAhead) }
    }

    /// The next rows up to a call. A row with a later call among rows of earlier calls comes with them.
    func take(upTo call: Int64) throws(SQLiteFault) -> [Item] {
        var taken: [Item] = []
        while true {
            if buffer.count <= FactStream.lookAhead, !isAtEnd { try fill() }
            guard let first = buffer.first else { return taken }
            if first.call > call {
                let behind = buffer.dropFirst().prefix(FactStream.lookAhead)
                if behind.allSatisfy({ $0.call > call }) { return taken }
            }
            taken.append(first)
            buffer.removeFirst()
        }
    }

    private func fill() throws(SQLiteFault) {
        statement.bind(1, after)
        var (items, read) = (Array(buffer), 0)
        while try statement.step() {
            read += 1
            after = statement.integer(0)
            let values = kinds.enumerated().map { place, isBytes -> Value in
                let column = Int32(place + 2)
                if statement.isNull(column) { return .null }
                return isBytes ? .bytes(statement.blob(column) ?? []) : .integer(statement.integer(column))
            }
            items.append(Item(id: after, call: statement.integer(1), values: values))
        }
        isAtEnd = read < FactStream.rowsAtOnce
        buffer = items[...]
    }
}
