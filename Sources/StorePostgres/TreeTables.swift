import Crypto
import Domain
import Leaves
import Postgres

/// The tree over the journal in the tables `leaves` and `tree`, as the embedded store has it (docs/decisions/0064).
///
/// The edge of the tree is in `state`, so the process with the turn knows it from its first question. `leaf_people` has the people of
/// a leaf beside the call's own person, so that an erasure finds the leaves.
struct TreeTables: LeafRows {
    typealias Failure = StoreFault
    private typealias Statement = Connection.Statement

    let hasher = SHA256()
    private let ask: (Connection.Statement, Parameters) throws(StoreFault) -> Rows

    /// - Parameter ask: asks the database a question.
    init(_ ask: @escaping (Connection.Statement, Parameters) throws(StoreFault) -> Rows) { self.ask = ask }

    init(_ connection: Connection) {
        ask = { (statement, parameters) throws(StoreFault) in
            try attempt { () throws(PostgresFault) in try connection.run(statement, parameters) }
        }
    }

    // MARK: - Reading

    private static let columns = """
        leaves.sequence, place, mark, opening, at, project, key, kind, person, request_id, replay, body, inputs, reply, note
        """
    private static let last = Statement(
        """
        SELECT place + 1, leaves.sequence, at FROM leaves LEFT JOIN journal ON journal.sequence = leaves.sequence
        ORDER BY leaves.sequence DESC LIMIT 1
        """)
    private static let root = Statement("SELECT root FROM tree WHERE number = $1")
    private static let roots = Statement("SELECT root FROM tree ORDER BY number")
    private static let placeOf = Statement("SELECT place FROM leaves WHERE sequence = $1")
    private static let placeFrom = Statement(
        "SELECT place FROM leaves WHERE sequence >= $1 ORDER BY sequence LIMIT 1")
    private static let page = Statement(
        """
        SELECT \(columns) FROM leaves LEFT JOIN journal ON journal.sequence = leaves.sequence
        WHERE leaves.sequence >= $1 ORDER BY leaves.sequence LIMIT $2
        """)
    private static let some = Statement(
        """
        SELECT \(columns) FROM leaves LEFT JOIN journal ON journal.sequence = leaves.sequence
        WHERE leaves.sequence = ANY ($1::bigint[])
        """)

    func end() throws(StoreFault) -> TreeEnd? {
        let rows = try ask(TreeTables.last, Parameters())
        if rows.count == 0 { return nil }
        return TreeEnd(leaves: Int(rows.integer(0, 0)), sequence: rows.integer(0, 1), at: rows.integer(0, 2))
    }

    func keptRoot(_ number: Int) throws(StoreFault) -> Digest? {
        let rows = try ask(TreeTables.root, Parameters(Int64(number)))
        return rows.count == 0 ? nil : rows.blob(0, 0).flatMap { Digest($0) }
    }

    private func keptRoots() throws(StoreFault) -> [Digest] {
        let rows = try ask(TreeTables.roots, Parameters())
        var kept: [Digest] = []
        for row in 0..<rows.count {
            guard let root = rows.blob(row, 0).flatMap({ Digest($0) }) else {
                throw damage("a root of the tree over the journal is damaged")
            }
            kept.append(root)
        }
        return kept
    }

    func place(of sequence: Int64) throws(StoreFault) -> Int? {
        let rows = try ask(TreeTables.placeOf, Parameters(sequence))
        return rows.count == 0 ? nil : Int(rows.integer(0, 0))
    }

    func place(from sequence: Int64) throws(StoreFault) -> Int? {
        let rows = try ask(TreeTables.placeFrom, Parameters(sequence))
        return rows.count == 0 ? nil : Int(rows.integer(0, 0))
    }

    func rows(from sequence: Int64, limit: Int) throws(StoreFault) -> [LeafRow] {
        let rows = try ask(TreeTables.page, Parameters(sequence, Int64(limit)))
        return (0..<rows.count).map { LeafRow(rows, $0) }
    }

    func damage(_ message: String) -> StoreFault { StoreFault(.corrupt, "The store is damaged: \(message).") }

    // MARK: - Making

    private static let call = Statement(
        "SELECT sequence, at, project, kind FROM journal WHERE sequence > $1 ORDER BY sequence LIMIT 10000")
    private static let addFirst = Statement(
        "INSERT INTO leaves (sequence, place, mark, opening) VALUES ($1, 0, $2, $3)")
    private static let keepEdge = Statement("UPDATE state SET leaves = $1, edge = $2")

    /// Gives a store without a tree its first leaf, which stands for the calls before, and keeps the edge of the tree.
    func complete() throws(StoreFault) {
        if try end() == nil {
            let first = FirstLeaf(hasher)
            var last: Int64 = 0
            while true {
                let calls = try ask(TreeTables.call, Parameters(last))
                if calls.count == 0 { break }
                for row in 0..<calls.count {
                    last = calls.integer(row, 0)
                    first.add(
                        sequence: last, at: calls.integer(row, 1), project: calls.integer(row, 2),
                        kind: calls.integer(row, 3))
                }
            }
            let content = first.content(last: last)
            var leaf = Parameters(last)
            leaf.add(LeafOpening.mark(of: MerkleTree.leaf(content, hasher)))
            leaf.add(content)
            _ = try ask(TreeTables.addFirst, leaf)
        }
        let edge = try edge(try keptRoots())
        var kept = Parameters(Int64(edge.count))
        kept.add(edge.bytes)
        _ = try ask(TreeTables.keepEdge, kept)
    }

    // MARK: - Erasing

    private static let own = Statement(
        """
        SELECT sequence FROM journal WHERE person = ANY ($1::bigint[]) AND sequence > $2 ORDER BY sequence LIMIT $3
        """)
    private static let others = Statement(
        """
        SELECT DISTINCT sequence FROM leaf_people WHERE person = ANY ($1::bigint[]) AND sequence > $2
        ORDER BY sequence LIMIT $3
        """)
    private static let ofAttachments = Statement(
        """
        SELECT DISTINCT made_by FROM documents WHERE hash IN (
            SELECT hash FROM documents WHERE person = ANY ($1::bigint[]) AND kind = \(DocumentKind.attachment.rawValue)
        ) AND kind = \(DocumentKind.attachment.rawValue) AND made_by > $2 ORDER BY made_by LIMIT $3
        """)
    private static let keepSealed = Statement(
        """
        UPDATE leaves SET opening = sealed.opening FROM unnest($1::bigint[], $2::bytea[]) AS sealed (sequence, opening)
        WHERE leaves.sequence = sealed.sequence
        """)
    private static let sealedAtOnce: Int64 = 1000

    /// Seals the leaves of all calls that are about some people, page by page. The rows of these calls must still be whole.
    static func seal(_ people: [Int64], _ session: Session) throws(StoreFault) {
        for (statement, losesContent) in [(own, false), (others, false), (ofAttachments, true)] {
            var after: Int64 = 0
            while true {
                session.sendBegin()
                var parameters = Parameters()
                parameters.add(integers: people)
                parameters.add(after)
                parameters.add(sealedAtOnce)
                let found = try attempt { () throws(PostgresFault) in
                    try session.connection.run(statement, parameters)
                }
                let calls = (0..<found.count).map { found.integer($0, 0) }
                try TreeTables(session.connection).seal(calls, Set(people), andCall: losesContent)
                try session.commit()
                guard let last = calls.last else { break }
                after = last
            }
        }
    }

    /// Seals the leaves of some calls (``LeafOpening/seal(_:andCall:_:_:)``).
    func seal(_ calls: [Int64], _ people: Set<Int64>, andCall: Bool) throws(StoreFault) {
        if calls.isEmpty { return }
        var parameters = Parameters()
        parameters.add(integers: calls)
        let rows = try ask(TreeTables.some, parameters)
        var sealed: [(sequence: Int64, opening: [UInt8])] = []
        for row in 0..<rows.count {
            let leaf = LeafRow(rows, row)
            if let opening = leaf.sealed(people, andCall: andCall, hasher) { sealed.append((leaf.sequence, opening)) }
        }
        if sealed.isEmpty { return }
        var kept = Parameters()
        kept.add(integers: sealed.map(\.sequence))
        kept.add(blobs: sealed.map { $0.opening })
        _ = try ask(TreeTables.keepSealed, kept)
    }
}

extension LeafRow {
    /// Reads a row of `leaves` and of the journal.
    fileprivate init(_ rows: Rows, _ row: Int) {
        var columns: LeafColumns?
        if let requestID = rows.text(row, 9), let reply = rows.blob(row, 13) {
            columns = LeafColumns(
                sequence: rows.integer(row, 0), at: rows.integer(row, 4), project: rows.integer(row, 5),
                key: rows.optionalInteger(row, 6), kind: rows.integer(row, 7), person: rows.optionalInteger(row, 8),
                requestID: requestID, replay: rows.blob(row, 10), body: rows.blob(row, 11), inputs: rows.blob(row, 12),
                reply: reply, note: rows.text(row, 14))
        }
        self.init(
            sequence: rows.integer(row, 0), place: Int(rows.integer(row, 1)), mark: rows.blob(row, 2) ?? [],
            opening: rows.blob(row, 3) ?? [], columns: columns)
    }
}
