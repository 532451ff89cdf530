import Crypto
import Domain
import Leaves
import SQLite

/// Compares the store with the tree over its journal.
extension Doctor {
    /// Whether the store has a tree. A store that this version has not opened yet has none.
    func hasTree() throws(SQLiteFault) -> Bool {
        try connection.integer("SELECT 1 FROM sqlite_master WHERE name = 'leaves'") != nil
    }

    /// Checks leaves, and the facts of their calls: all since the tree began, or those of the last leaves and of the subtree in which
    /// the first of them is.
    func examineTree(last leavesAtMost: Int = .max) throws(SQLiteFault) {
        progress("tree over the journal")
        guard try hasTree(), let key = try? SQLiteStore.hashKey(connection) else { return }
        guard var origin = try connection.integer("SELECT sequence FROM leaves WHERE place = 0") else {
            found("leaf", "The tree over the journal has no first leaf. Restore a copy.")
            return
        }
        var (edge, after) = (MerkleEdge(), Int64(-1))
        let reader = try TreeReader(connection)
        let skipped = max(0, try reader.count() - leavesAtMost) / MerkleEdge.keptLeaves
        if skipped > 0 {
            edge = MerkleEdge(kept: Array(try reader.keptRoots().prefix(skipped)), SHA256())
            origin = try reader.leaf(at: skipped * MerkleEdge.keptLeaves - 1)?.sequence ?? origin
            after = origin
        }
        let report = TreeComparison<ComparedTables>.Report(
            found: { self.found($0) },
            differs: { difference in
                self.differences.append(difference)
                self.found(difference.finding(canRepair: true))
            },
            thingDiffers: { difference in
                self.thingDifferences.append(difference)
                self.found(difference.finding(canRepair: true))
            },
            listDiffers: { difference in
                self.listDifferences.append(difference)
                self.found(difference.finding(canRepair: true))
            })
        var comparison = try TreeComparison(
            try ComparedTables(connection, reader, index, after: origin), KeyedHash(key: key), after: origin,
            upTo: lastSequence, edge, report)
        var isAtEnd = false
        while !isAtEnd {
            // The leaves and the facts of a page are those of one moment.
            try connection.reading { () throws(SQLiteFault) in
                if let last = try comparison.comparePage(after: after) { after = last } else { isAtEnd = true }
            }
        }
        try comparison.compareThings()
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
}

/// The tables of the store for a comparison with the tree.
private struct ComparedTables: StoredFacts {
    let tree: TreeReader
    private let connection: Connection
    private let index: PeopleIndex
    private let people: Statement
    private let linkEnds: Statement
    private let mergeEnds: Statement
    private let erasures: Statement
    private let strategies: Statement
    private let superseding: Statement
    private let older: Statement
    private let erased: Statement
    private let streams: [FactStream<SQLiteFault>]

    /// - Parameter origin: the last call whose facts nobody asks for.
    init(
        _ connection: Connection, _ tree: TreeReader, _ index: PeopleIndex, after origin: Int64
    ) throws(SQLiteFault) {
        (self.connection, self.tree, self.index) = (connection, tree, index)
        people = try connection.prepare(
            "SELECT made_by, id FROM people INDEXED BY people_by_call WHERE made_by BETWEEN ? AND ?")
        linkEnds = try connection.prepare(
            """
            SELECT link, ended_by, person, type, value FROM link_ends JOIN links ON links.id = link
            WHERE ended_by BETWEEN ? AND ?
            """)
        mergeEnds = try connection.prepare(
            """
            SELECT ended_by, source, merges.id, destination FROM merge_ends JOIN merges ON merges.id = merge
            WHERE ended_by BETWEEN ? AND ?
            """)
        erasures = try connection.prepare(
            "SELECT erased_by, id FROM people INDEXED BY people_erased WHERE erased_by BETWEEN ? AND ?")
        strategies = try connection.prepare(
            "SELECT made_by, version, document, project FROM strategies WHERE made_by BETWEEN ? AND ?")
        superseding = try connection.prepare("SELECT superseded_by FROM rows WHERE id = ?")
        older = try connection.prepare(
            """
            SELECT 1 FROM rows INDEXED BY rows_by_time JOIN people ON people.id = rows.person
            WHERE rows.kind = ?1 AND rows.at <= ?2 AND rows.made_by <= ?3 AND (rows.at < ?2 OR rows.made_by < ?3)
                AND people.project = ?4 LIMIT 1
            """)
        erased = try connection.prepare("SELECT erased_by IS NOT NULL FROM people WHERE id = ?")
        streams = [
            try FactStream(connection, "links", "person, type, value", after: origin) { row in
                StoredFact(row.integer(1), row.integer(2), ComparedTables.link(row, isEnd: false, index))
            },
            try FactStream(connection, "merges", "source, destination, rule", after: origin) { row in
                StoredFact(
                    row.integer(1), row.integer(2),
                    .merged(
                        id: row.integer(0), from: row.integer(2), into: row.integer(3),
                        rule: UInt8(truncatingIfNeeded: row.integer(4))))
            },
            try FactStream(
                connection, "rows", "person, kind, at, body, recognition, device, superseded_by", after: origin,
                ComparedTables.row),
            try FactStream(connection, "documents", "person, kind, hash, body", after: origin, ComparedTables.document),
            try FactStream(
                connection,
                """
                SELECT superseded_by, person, kind, id FROM rows INDEXED BY rows_superseded
                WHERE superseded_by IS NOT NULL AND superseded_by > ? AND kind <> \(RowWriter.removedKind)
                """, after: origin
            ) { row in
                StoredFact(
                    row.integer(0), row.integer(1),
                    .rowSuperseded(kind: UInt8(truncatingIfNeeded: row.integer(2)), row: row.integer(3)))
            },
            try FactStream(connection, "SELECT sequence, person FROM call_people WHERE sequence > ?", after: origin) {
                row in
                StoredFact(row.integer(0), row.integer(1), .listed)
            },
        ]
    }

    private static func project(_ index: PeopleIndex, of person: Int64) -> Int64? {
        index.place(of: PersonID(rawValue: person)).map { Int64(index.project(of: $0).rawValue) }
    }

    /// The link in a row with the columns number, call, person, type and value.
    private static func link(_ row: Statement, isEnd: Bool, _ index: PeopleIndex) -> StoredFact.Content {
        .link(
            id: row.integer(0), type: UInt8(truncatingIfNeeded: row.integer(3)), value: row.blob(4) ?? [],
            project: project(index, of: row.integer(2)), isEnd: isEnd)
    }

    private static func row(_ row: Statement) -> StoredFact? {
        // A removed row only keeps its place.
        if row.integer(3) == RowWriter.removedKind { return nil }
        return StoredFact(
            row.integer(1), row.integer(2),
            .row(
                kind: UInt8(truncatingIfNeeded: row.integer(3)), at: row.integer(4), body: row.blob(5) ?? [],
                recognition: row.optionalInteger(6).map { UInt64(bitPattern: $0) },
                device: row.optionalInteger(7).map { UInt64(bitPattern: $0) }, isReplaced: !row.isNull(8)))
    }

    private static func document(_ row: Statement) -> StoredFact? {
        guard let key = row.withBytes(4, { Hash128($0) }) else { return nil }
        return StoredFact(
            row.integer(1), row.integer(2),
            .document(kind: UInt8(truncatingIfNeeded: row.integer(3)), key: key, body: row.blob(5) ?? []))
    }

    func facts(of calls: ClosedRange<Int64>) throws(SQLiteFault) -> [StoredFact] {
        var facts: [StoredFact] = []
        func add(_ statement: Statement, _ fact: (Statement) -> StoredFact) throws(SQLiteFault) {
            statement.bind(1, calls.lowerBound)
            statement.bind(2, calls.upperBound)
            while try statement.step() { facts.append(fact(statement)) }
        }
        try add(people) { StoredFact($0.integer(0), $0.integer(1), .personMade) }
        try add(linkEnds) { StoredFact($0.integer(1), $0.integer(2), ComparedTables.link($0, isEnd: true, index)) }
        try add(mergeEnds) {
            StoredFact($0.integer(0), $0.integer(1), .mergeEnd(id: $0.integer(2), into: $0.integer(3)))
        }
        try add(erasures) { StoredFact($0.integer(0), $0.integer(1), .personErased) }
        try add(strategies) {
            StoredFact(
                $0.integer(0), 0,
                .strategy(version: $0.integer(1), document: $0.blob(2) ?? [], project: $0.integer(3)))
        }
        for stream in streams { try stream.move(upTo: calls.upperBound, to: &facts) }
        return facts
    }

    func replacement(of row: Int64) throws(SQLiteFault) -> Int64? {
        superseding.bind(1, row)
        defer { superseding.reset() }
        return try superseding.step() ? superseding.optionalInteger(0) ?? 0 : nil
    }

    func hasRow(of kind: UInt8, in project: Int64, before at: Int64, _ call: Int64) throws(SQLiteFault) -> Bool {
        older.bind(1, Int64(kind))
        older.bind(2, at)
        older.bind(3, call)
        older.bind(4, project)
        defer { older.reset() }
        return try older.step()
    }

    func isErased(_ person: Int64) throws(SQLiteFault) -> Bool {
        erased.bind(1, person)
        defer { erased.reset() }
        return try erased.step() && erased.integer(0) == 1
    }

    func project(of person: Int64) throws(SQLiteFault) -> Int64? { ComparedTables.project(index, of: person) }

    func documents(_ kind: DocumentKind) throws(SQLiteFault) -> [(key: Hash128, body: [UInt8])] {
        let rows = try connection.prepare("SELECT hash, body FROM documents WHERE kind = \(kind.rawValue) ORDER BY id")
        var documents: [(key: Hash128, body: [UInt8])] = []
        while try rows.step() {
            if let key = rows.withBytes(0, { Hash128($0) }) { documents.append((key, rows.blob(1) ?? [])) }
        }
        return documents
    }

    func things() throws(SQLiteFault) -> [StoredThing] { try StoredThing.all(connection) }
}

extension FactStream<SQLiteFault> {
    private static var rowsAtOnce: Int { 2000 }

    /// Reads a table in the order of its keys, which is the order of the calls.
    ///
    /// - Parameters:
    ///   - call: the last call whose rows nobody asks for.
    ///   - fact: the fact in a row with the number, the call and the other columns; nil for a row without a fact.
    fileprivate convenience init(
        _ connection: Connection, _ table: String, _ columns: String, after call: Int64,
        _ fact: @escaping (Statement) -> StoredFact?
    ) throws(SQLiteFault) {
        let page = try connection.prepare(
            "SELECT id, made_by, \(columns) FROM \(table) WHERE id > ? ORDER BY id LIMIT \(FactStream.rowsAtOnce)")
        var after = try FactStream.start(connection, table, after: call)
        self.init { () throws(SQLiteFault) in
            var facts: [StoredFact] = []
            var last: Int64
            repeat {
                last = after
                page.bind(1, after)
                while try page.step() {
                    // The keys of a damaged page are in no order, and the reading must end.
                    after = max(after, page.integer(0))
                    if let fact = fact(page) { facts.append(fact) }
                }
            } while facts.isEmpty && after > last
            return after > last ? facts : []
        }
    }

    /// Reads the few rows of a question whose table is not in the order of the calls.
    fileprivate convenience init(
        _ connection: Connection, _ question: String, after call: Int64, _ fact: (Statement) -> StoredFact
    ) throws(SQLiteFault) {
        let rows = try connection.prepare(question)
        rows.bind(1, call)
        var facts: [StoredFact] = []
        while try rows.step() { facts.append(fact(rows)) }
        facts.sort { $0.call < $1.call }
        self.init { () throws(SQLiteFault) in
            defer { facts = [] }
            return facts
        }
    }

    /// The number behind which the rows of later calls are, by a binary search, but for as many as may stand in the wrong place.
    private static func start(_ connection: Connection, _ table: String, after call: Int64) throws(SQLiteFault) -> Int64
    {
        let caller = try connection.prepare("SELECT made_by FROM \(table) WHERE id >= ? ORDER BY id LIMIT 1")
        let first = try connection.integer("SELECT min(id) FROM \(table)") ?? 0
        var (low, high) = (first, try connection.integer("SELECT max(id) FROM \(table)") ?? 0)
        while low < high {
            // The numbers of damaged rows may be anywhere.
            let middle = low &+ Int64(UInt64(bitPattern: high &- low) / 2)
            caller.bind(1, middle)
            defer { caller.reset() }
            if try caller.step(), caller.integer(0) <= call { low = middle + 1 } else { high = middle }
        }
        let distance = 1 + Int64(FactStream.lookAhead)
        return low > first ? max(low, .min + distance) - distance : .min
    }
}
