import Domain
import Leaves
import SQLite

/// The rows of a copy that the store lost. A row of the copy counts only if its content is the one that the leaf of its call names.
///
/// The copy is attached to the connection of the store.
struct CopiedFacts {
    /// A row of a table, and what it is to people.
    private struct Place {
        let table: String
        let id: Int64
        let name: String
    }

    /// The name under which the connection has the copy.
    static let name = "copy"

    /// The rows of each fact: a call may have made several rows that do not differ.
    private var places: [FactOfCall: [Place]] = [:]
    private var columns: [String: [String]] = [:]

    /// Attaches a copy of the store.
    static func attach(_ copy: StoreFile, to connection: Connection, of file: StoreFile) throws(StoreFault) {
        // The copy may be of an earlier version: this one updates its tables.
        _ = try copy.open(.use)
        let isCopy = try file.attempt { () throws(SQLiteFault) in
            let attach = try connection.prepare("ATTACH DATABASE ? AS \(name)")
            attach.bind(1, text: copy.path)
            try attach.run()
            return try connection.integer(
                """
                SELECT 1 FROM main.settings AS ours JOIN \(name).settings AS theirs USING (name)
                WHERE name = 'hash_key' AND ours.value = theirs.value
                """) != nil
        }
        guard isCopy else { throw StoreFault(.corrupt, "The copy is of another store. Nothing was changed.") }
    }

    /// Finds the rows of the facts that a store lost.
    init(_ connection: Connection, _ hash: KeyedHash, of lost: [LeafDifference]) throws(SQLiteFault) {
        let wanted = Set(lost.map(\.known))
        let calls = Set(lost.map(\.call))
        if wanted.isEmpty { return }
        func keep(_ place: Place, _ key: FactOfCall) {
            if wanted.contains(key) { places[key, default: []].append(place) }
        }
        let rows = try connection.prepare(
            """
            SELECT id, made_by, person, kind, at, body, recognition, device FROM \(CopiedFacts.name).rows AS theirs
            WHERE \(CopiedFacts.isLost("rows", "id", "person", "kind", "at", "body", "recognition", "device"))
            """)
        while try rows.step() {
            guard calls.contains(rows.integer(1)) else { continue }
            let content = LeafFact.content(
                rows.blob(5) ?? [], hash, recognition: rows.optionalInteger(6).map { UInt64(bitPattern: $0) },
                device: rows.optionalInteger(7).map { UInt64(bitPattern: $0) })
            let fact = LeafFact.rowAdded(
                kind: UInt8(truncatingIfNeeded: rows.integer(3)), at: rows.integer(4), content: content)
            let key = FactOfCall(rows.integer(1), rows.integer(2), fact)
            keep(Place(table: "rows", id: rows.integer(0), name: "row"), key)
        }
        let documents = try connection.prepare(
            """
            SELECT id, made_by, person, kind, hash, body FROM \(CopiedFacts.name).documents AS theirs
            WHERE \(CopiedFacts.isLost("documents", "id", "person", "kind", "hash", "body"))
            """)
        while try documents.step() {
            guard calls.contains(documents.integer(1)), let name = documents.withBytes(4, { Hash128($0) }) else {
                continue
            }
            let fact = LeafFact.documentPut(
                kind: UInt8(truncatingIfNeeded: documents.integer(3)), key: name,
                content: LeafFact.content(documents.blob(5) ?? [], hash))
            let key = FactOfCall(documents.integer(1), documents.integer(2), fact)
            keep(Place(table: "documents", id: documents.integer(0), name: "document"), key)
        }
        let strategies = try connection.prepare(
            """
            SELECT made_by, version, document FROM \(CopiedFacts.name).strategies AS theirs
            WHERE \(CopiedFacts.isLost("strategies", "project", "version", "document"))
            """)
        while try strategies.step() {
            let fact = LeafFact.strategySet(
                version: strategies.integer(1), content: LeafFact.content(strategies.blob(2) ?? [], hash))
            let key = FactOfCall(strategies.integer(0), 0, fact)
            keep(Place(table: "strategies", id: strategies.integer(0), name: "strategy"), key)
        }
        for table in Set(places.values.joined().map(\.table)) {
            columns[table] = try CopiedFacts.columns(of: table, connection)
        }
    }

    /// The names of the columns of a table.
    static func columns(of table: String, _ connection: Connection) throws(SQLiteFault) -> [String] {
        let rows = try connection.prepare("SELECT name FROM pragma_table_info('\(table)')")
        var names: [String] = []
        while try rows.step() { names.append(rows.text(0) ?? "") }
        return names
    }

    /// The condition that the store does not have a row of the copy as it is there.
    private static func isLost(_ table: String, _ columns: String...) -> String {
        let isSame = (["made_by"] + columns).map { "ours.\($0) IS theirs.\($0)" }.joined(separator: " AND ")
        return "NOT EXISTS (SELECT 1 FROM main.\(table) AS ours WHERE \(isSame))"
    }

    /// The change that takes a lost fact from the copy; nil if the copy does not have it.
    mutating func step(for lost: LeafDifference) -> StoreRepair.Step? {
        guard let place = places[lost.known]?.popLast(), let columns = columns[place.table] else { return nil }
        let key = place.table == "strategies" ? "made_by" : "id"
        // A row may have been replaced since the copy.
        let values = columns.map { column in
            column == "superseded_by"
                ? "coalesce((SELECT superseded_by FROM main.rows WHERE id = theirs.id), superseded_by)" : column
        }
        return StoreRepair.Step(
            sql: """
                INSERT OR REPLACE INTO main.\(place.table) (\(columns.joined(separator: ", ")))
                SELECT \(values.joined(separator: ", ")) FROM \(CopiedFacts.name).\(place.table) AS theirs WHERE \(key) = ?
                """,
            values: [.integer(place.id)],
            description: "Takes \(place.name) \(place.id) of call \(lost.call) from the copy.")
    }
}
