import Crypto
import Domain
import Leaves
import SQLite

/// The tree over the journal: a leaf for each call, and one hash for the whole journal (spec/moving.md 5).
///
/// A row of `leaves` has what a leaf needs beside the row of the journal. The leaf itself is made again from both. The table `tree`
/// has the hash of each whole subtree of 256 leaves.
struct JournalTree {
    private(set) var edge: MerkleEdge
    private var maker = LeafMaker()

    /// Reads the edge of a store's tree. A store without a tree gets its first leaf, which stands for the calls before.
    init(_ connection: Connection, last: Int64) throws(SQLiteFault) {
        let hasher = SHA256()
        if try connection.integer("SELECT 1 FROM leaves LIMIT 1") == nil {
            let first = try JournalTree.origin(connection, last, hasher)
            let insert = try connection.prepare(
                "INSERT INTO leaves (sequence, place, mark, opening) VALUES (?, 0, ?, ?)")
            insert.bind(1, last)
            insert.bind(2, blob: LeafOpening.mark(of: MerkleTree.leaf(first, hasher)))
            insert.bind(3, blob: first)
            try insert.run()
        }
        let reader = try TreeReader(connection, hasher)
        edge = try reader.edge(try reader.keptRoots())
    }

    private static func origin(_ connection: Connection, _ last: Int64, _ hasher: SHA256) throws(SQLiteFault) -> [UInt8]
    {
        let rows = try connection.prepare("SELECT sequence, at, project, kind FROM journal ORDER BY sequence")
        let first = FirstLeaf(hasher)
        while try rows.step() {
            first.add(
                sequence: rows.integer(0), at: rows.integer(1), project: rows.integer(2), kind: rows.integer(3))
        }
        return first.content(last: last)
    }

    /// Makes the leaves of a batch. The tree has them after ``adopt(_:)``.
    mutating func addition(
        _ entries: [JournalEntry], _ packed: [PackedCall], after last: Int64, _ hash: KeyedHash
    ) -> TreeAddition {
        maker.addition(of: entries, packed, after: last, to: edge, hash)
    }

    mutating func adopt(_ addition: TreeAddition) { edge = addition.edge }
}

/// Reads the tree of a store.
final class TreeReader: LeafRows {
    private let size: Statement
    private let roots: Statement
    private let root: Statement
    private let page: Statement
    private let leaf: Statement
    private let firstAt: Statement
    private let placeOf: Statement
    private let reopening: Statement
    let hasher: SHA256

    static let columns = """
        leaves.sequence, place, mark, opening, at, project, key, kind, person, request_id, replay, body, inputs, reply, note
        """

    init(_ connection: Connection, _ hasher: SHA256 = SHA256()) throws(SQLiteFault) {
        self.hasher = hasher
        size = try connection.prepare(
            """
            SELECT place + 1, leaves.sequence, at FROM leaves LEFT JOIN journal ON journal.sequence = leaves.sequence
            ORDER BY leaves.sequence DESC LIMIT 1
            """)
        roots = try connection.prepare("SELECT root FROM tree ORDER BY number")
        root = try connection.prepare("SELECT root FROM tree WHERE number = ?")
        page = try connection.prepare(
            """
            SELECT \(TreeReader.columns) FROM leaves LEFT JOIN journal ON journal.sequence = leaves.sequence
            WHERE leaves.sequence >= ? ORDER BY leaves.sequence LIMIT ?
            """)
        leaf = try connection.prepare(
            """
            SELECT \(TreeReader.columns) FROM leaves LEFT JOIN journal ON journal.sequence = leaves.sequence
            WHERE leaves.sequence = ?
            """)
        firstAt = try connection.prepare("SELECT sequence, place FROM leaves WHERE sequence >= ? LIMIT 1")
        placeOf = try connection.prepare("SELECT place FROM leaves WHERE sequence = ?")
        reopening = try connection.prepare("UPDATE leaves SET opening = ? WHERE sequence = ?")
    }

    func end() throws(SQLiteFault) -> TreeEnd? {
        defer { size.reset() }
        guard try size.step() else { return nil }
        return TreeEnd(leaves: Int(size.integer(0)), sequence: size.integer(1), at: size.integer(2))
    }

    func damage(_ message: String) -> SQLiteFault { SQLiteFault(code: 11, message: message) }

    func keptRoots() throws(SQLiteFault) -> [Digest] {
        var kept: [Digest] = []
        defer { roots.reset() }
        while try roots.step() {
            guard let root = roots.blob(0).flatMap({ Digest($0) }) else {
                throw damage("a root of the tree over the journal is damaged")
            }
            kept.append(root)
        }
        return kept
    }

    func keptRoot(_ number: Int) throws(SQLiteFault) -> Digest? {
        root.bind(1, Int64(number))
        defer { root.reset() }
        return try root.step() ? root.blob(0).flatMap { Digest($0) } : nil
    }

    func place(of sequence: Int64) throws(SQLiteFault) -> Int? {
        placeOf.bind(1, sequence)
        defer { placeOf.reset() }
        return try placeOf.step() ? Int(placeOf.integer(0)) : nil
    }

    func place(from sequence: Int64) throws(SQLiteFault) -> Int? {
        firstAt.bind(1, sequence)
        defer { firstAt.reset() }
        return try firstAt.step() ? Int(firstAt.integer(1)) : nil
    }

    func rows(from sequence: Int64, limit: Int) throws(SQLiteFault) -> [LeafRow] {
        page.bind(1, sequence)
        page.bind(2, Int64(limit))
        defer { page.reset() }
        var rows: [LeafRow] = []
        while try page.step() { rows.append(LeafRow(page)) }
        return rows
    }

    /// Seals the leaf of a call (``LeafOpening/seal(_:andCall:_:_:)``). The row of the journal must still be whole.
    func seal(
        _ sequence: Int64, _ people: Set<Int64>, andCall: Bool, _ connection: Connection
    ) throws(SQLiteFault) {
        leaf.bind(1, sequence)
        let sealed = try leaf.step() ? LeafRow(leaf).sealed(people, andCall: andCall, hasher) : nil
        leaf.reset()
        guard let sealed else { return }
        reopening.bind(1, blob: sealed)
        reopening.bind(2, sequence)
        try reopening.run()
    }

    /// The people with a part in the leaves of some calls.
    func people(_ sequences: ClosedRange<Int64>) throws(SQLiteFault) -> [(sequence: Int64, people: Set<Int64>)] {
        page.bind(1, sequences.lowerBound)
        page.bind(2, .max)
        defer { page.reset() }
        var found: [(sequence: Int64, people: Set<Int64>)] = []
        while try page.step(), page.integer(0) <= sequences.upperBound {
            guard page.integer(1) > 0, let opening = page.blob(3) else { continue }
            found.append((page.integer(0), Set(LeafOpening.people(packed: opening))))
        }
        return found
    }
}

extension LeafRow {
    /// Reads a row in the order of ``TreeReader/columns``.
    init(_ row: Statement) {
        self.init(
            sequence: row.integer(0), place: Int(row.integer(1)), mark: row.blob(2) ?? [], opening: row.blob(3) ?? [],
            columns: LeafColumns(row))
    }
}

extension LeafColumns {
    /// Reads the columns of a row in the order of ``TreeReader/columns``; nil if the journal has no such row.
    init?(_ row: Statement) {
        guard let reply = row.blob(13), let requestID = row.text(9) else { return nil }
        self.init(
            sequence: row.integer(0), at: row.integer(4), project: row.integer(5), key: row.optionalInteger(6),
            kind: row.integer(7), person: row.optionalInteger(8), requestID: requestID, replay: row.blob(10),
            body: row.blob(11), inputs: row.blob(12), reply: reply, note: row.text(14))
    }
}
