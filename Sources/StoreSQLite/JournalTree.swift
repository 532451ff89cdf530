import Crypto
import Domain
import SQLite

/// The tree over the journal: a leaf for each call, and one hash for the whole journal (spec/moving.md 5).
///
/// A row of `leaves` has what a leaf needs beside the row of the journal. The leaf itself is made again from both. The table `tree`
/// has the hash of each whole subtree of 256 leaves.
struct JournalTree {
    /// A new leaf.
    struct Leaf {
        let sequence: Int64
        let place: Int
        let mark: [UInt8]
        let opening: [UInt8]
    }

    /// What a batch adds to the tree.
    struct Addition {
        var leaves: [Leaf] = []
        var roots: [(number: Int, root: Digest)] = []
        var edge: MerkleEdge
    }

    private(set) var edge: MerkleEdge
    private let hasher = SHA256()
    private var salts: ArraySlice<UInt8> = []

    private static let saltsAtOnce = 256 * LeafOpening.saltBytes

    /// Reads the edge of a store's tree. A store without a tree gets its first leaf, which stands for the calls before.
    init(_ connection: Connection, last: Int64) throws(SQLiteFault) {
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
        edge = MerkleEdge(kept: try reader.keptRoots(), hasher)
        let whole = edge.count
        for leaf in try reader.leaves(whole..<(try reader.count())) { _ = edge.add(leaf, hasher) }
    }

    /// The content of the first leaf: the number of the last call before the tree, and a hash of the journal up to there.
    private static func origin(_ connection: Connection, _ last: Int64, _ hasher: SHA256) throws(SQLiteFault) -> [UInt8]
    {
        let rows = try connection.prepare("SELECT sequence, at, project, kind FROM journal ORDER BY sequence")
        var packer = Packer()
        hasher.begin()
        while try rows.step() {
            packer = Packer()
            for column in 0..<Int32(4) { packer.add(fixed: UInt64(bitPattern: rows.integer(column))) }
            hasher.update(packer.bytes)
        }
        let journal = hasher.finish()
        packer = Packer()
        for byte in Array("onym".utf8) { packer.add(byte) }
        packer.add(fixed: UInt64(bitPattern: last))
        return packer.bytes + journal.bytes
    }

    /// Makes the leaves of a batch. The tree has them after ``adopt(_:)``.
    mutating func addition(
        _ entries: [JournalEntry], _ packed: [RowWriter.PackedCall], after last: Int64, _ hash: KeyedHash
    ) -> Addition {
        var addition = Addition(edge: edge)
        addition.leaves.reserveCapacity(entries.count)
        var sequence = last
        for (entry, packed) in zip(entries, packed) {
            sequence += 1
            let columns = LeafColumns(
                sequence: sequence, at: entry.at.milliseconds, project: Int64(entry.project.rawValue),
                key: entry.key?.rawValue, kind: Int64(entry.kind.rawValue), person: entry.person?.rawValue,
                requestID: entry.requestID, replay: entry.replay?.key.hash.bytes, body: entry.replay?.body.bytes,
                inputs: packed.inputs, reply: packed.reply, note: entry.note)
            let opening = LeafOpening(salt: nextSalt(), JournalTree.facts(of: entry, hash), hasher)
            let leaf = opening.leaf(columns, hasher)
            addition.leaves.append(
                Leaf(
                    sequence: sequence, place: addition.edge.count, mark: LeafOpening.mark(of: leaf),
                    opening: opening.packed()))
            if let root = addition.edge.add(leaf, hasher) {
                addition.roots.append((addition.edge.count / MerkleEdge.keptLeaves - 1, root))
            }
        }
        return addition
    }

    mutating func adopt(_ addition: Addition) { edge = addition.edge }

    private mutating func nextSalt() -> [UInt8] {
        if salts.isEmpty { salts = SecureRandom.bytes(JournalTree.saltsAtOnce)[...] }
        defer { salts = salts.dropFirst(LeafOpening.saltBytes) }
        return Array(salts.prefix(LeafOpening.saltBytes))
    }

    /// The packed facts of a call by person, its own person first.
    private static func facts(of entry: JournalEntry, _ hash: KeyedHash) -> [(person: Int64, facts: [UInt8])] {
        var parts: [(person: Int64, facts: Packer)] = [(entry.person?.rawValue ?? 0, Packer())]
        var places: [Int64: Int] = [:]
        for change in entry.changes {
            guard let (person, facts) = LeafFact.of(change, hash) else { continue }
            var place = 0
            // Most calls have one person.
            if person != parts[0].person {
                place = places[person] ?? parts.count
                if place == parts.count {
                    parts.append((person, Packer()))
                    places[person] = place
                }
            }
            for fact in facts { fact.pack(into: &parts[place].facts) }
        }
        return parts.map { ($0.person, $0.facts.bytes) }
    }
}

/// Reads the tree of a store.
final class TreeReader {
    private let size: Statement
    private let roots: Statement
    private let root: Statement
    private let page: Statement
    private let leaf: Statement
    private let firstAt: Statement
    private let placeOf: Statement
    private let hasher: SHA256

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
    }

    /// The number of leaves.
    func count() throws(SQLiteFault) -> Int {
        defer { size.reset() }
        return try size.step() ? Int(size.integer(0)) : 0
    }

    func keptRoots() throws(SQLiteFault) -> [Digest] {
        var kept: [Digest] = []
        defer { roots.reset() }
        while try roots.step() {
            guard let root = roots.blob(0).flatMap({ Digest($0) }) else {
                throw SQLiteFault(code: 11, message: "a root of the tree over the journal is damaged")
            }
            kept.append(root)
        }
        return kept
    }

    /// The place of a call in the tree; nil for a call before the tree.
    func place(of sequence: Int64) throws(SQLiteFault) -> Int? {
        placeOf.bind(1, sequence)
        defer { placeOf.reset() }
        return try placeOf.step() ? Int(placeOf.integer(0)) : nil
    }

    /// The call with a place in the tree. Calls and places grow together, so a binary search finds it.
    func sequence(at place: Int) throws(SQLiteFault) -> Int64 {
        var (low, high): (Int64, Int64) = (Int64(place), Int64(place))
        var step: Int64 = 1
        // Mostly the numbers differ by the number of calls before the tree.
        while try self.place(from: high).map({ $0 < place }) ?? false {
            low = high
            high += step
            step *= 2
        }
        while low < high {
            let middle = low + (high - low) / 2
            if let found = try self.place(from: middle), found < place { low = middle + 1 } else { high = middle }
        }
        return low
    }

    private func place(from sequence: Int64) throws(SQLiteFault) -> Int? {
        firstAt.bind(1, sequence)
        defer { firstAt.reset() }
        return try firstAt.step() ? Int(firstAt.integer(1)) : nil
    }

    /// The leaves with some places, made again from their rows.
    func leaves(_ places: Range<Int>) throws(SQLiteFault) -> [Digest] {
        if places.isEmpty { return [] }
        page.bind(1, try sequence(at: places.lowerBound))
        page.bind(2, Int64(places.count))
        defer { page.reset() }
        var leaves: [Digest] = []
        while try page.step() { leaves.append(MerkleTree.leaf(try TreeReader.content(page, hasher), hasher)) }
        guard leaves.count == places.count else {
            throw SQLiteFault(code: 11, message: "the tree over the journal lacks leaves")
        }
        return leaves
    }

    /// The bytes that the leaf with a place is the hash of.
    func content(at place: Int) throws(SQLiteFault) -> [UInt8] {
        page.bind(1, try sequence(at: place))
        page.bind(2, 1)
        defer { page.reset() }
        guard try page.step() else { throw SQLiteFault(code: 11, message: "the tree over the journal lacks leaves") }
        return try TreeReader.content(page, hasher)
    }

    /// Makes the bytes of a leaf again from its row.
    private static func content(_ row: Statement, _ hasher: SHA256) throws(SQLiteFault) -> [UInt8] {
        let packed = row.blob(3) ?? []
        if row.integer(1) == 0 { return packed }
        guard let opening = LeafOpening(packed: packed, hasher), let columns = LeafColumns(row) else {
            throw SQLiteFault(code: 11, message: "the leaf of journal row \(row.integer(0)) cannot be read")
        }
        return opening.content(columns, hasher)
    }

    /// The hash of a part of the tree, from the kept roots and from rows.
    private func known(_ part: Range<Int>) throws(SQLiteFault) -> Digest? {
        if part.count == MerkleEdge.keptLeaves, part.lowerBound % MerkleEdge.keptLeaves == 0 {
            root.bind(1, Int64(part.lowerBound / MerkleEdge.keptLeaves))
            defer { root.reset() }
            return try root.step() ? root.blob(0).flatMap { Digest($0) } : nil
        }
        if part.count > MerkleEdge.keptLeaves { return nil }
        // A part below a kept root is read at once.
        let leaves = try leaves(part)
        return MerkleTree.root(of: 0..<leaves.count, hasher) { (part: Range<Int>) -> Digest? in
            part.count == 1 ? leaves[part.lowerBound] : nil
        }
    }

    /// The head of the whole tree.
    func head(_ name: [UInt8]) throws(SQLiteFault) -> JournalHead {
        guard try size.step() else { throw SQLiteFault(code: 11, message: "the journal has no tree") }
        let (count, sequence, at) = (Int(size.integer(0)), size.integer(1), size.integer(2))
        size.reset()
        return JournalHead(
            store: name, sequence: JournalSequence(rawValue: sequence), at: Instant(milliseconds: at), leaves: count,
            hash: try head(of: count).bytes)
    }

    /// The hash of the first leaves.
    func head(of count: Int) throws(SQLiteFault) -> Digest {
        try MerkleTree.root(of: 0..<count, hasher) { (part) throws(SQLiteFault) in try known(part) }
    }

    /// The hashes that prove that a leaf is among the first leaves.
    func path(to place: Int, of count: Int) throws(SQLiteFault) -> [Digest] {
        try MerkleTree.path(to: place, in: 0..<count, hasher) { (part) throws(SQLiteFault) in try known(part) }
    }

    /// The hashes that prove that a head of fewer leaves is the beginning.
    func consistency(of first: Int, in count: Int) throws(SQLiteFault) -> [Digest] {
        try MerkleTree.consistency(of: first, in: count, hasher) { (part) throws(SQLiteFault) in try known(part) }
    }

    /// Seals the leaf of a call (``LeafOpening/seal(_:andCall:_:_:)``). The row of the journal must still be whole.
    func seal(
        _ sequence: Int64, _ people: Set<Int64>, andCall: Bool, _ connection: Connection
    ) throws(SQLiteFault) {
        leaf.bind(1, sequence)
        var sealed: [UInt8]?
        if try leaf.step(), leaf.integer(1) > 0, let columns = LeafColumns(leaf),
            var opening = leaf.blob(3).flatMap({ LeafOpening(packed: $0, hasher) }),
            opening.seal(people, andCall: andCall, columns, hasher)
        {
            sealed = opening.packed()
        }
        leaf.reset()
        guard let sealed else { return }
        let update = try connection.prepare("UPDATE leaves SET opening = ? WHERE sequence = ?")
        update.bind(1, blob: sealed)
        update.bind(2, sequence)
        try update.run()
    }

    /// The people with a part in the leaves of some calls.
    func people(_ sequences: ClosedRange<Int64>) throws(SQLiteFault) -> [(sequence: Int64, people: Set<Int64>)] {
        page.bind(1, sequences.lowerBound)
        page.bind(2, .max)
        defer { page.reset() }
        var found: [(sequence: Int64, people: Set<Int64>)] = []
        while try page.step(), page.integer(0) <= sequences.upperBound {
            guard page.integer(1) > 0, let opening = page.blob(3) else { continue }
            found.append((page.integer(0), LeafOpening.people(packed: opening)))
        }
        return found
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
