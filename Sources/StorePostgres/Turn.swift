import Crypto
import Domain
import Postgres

/// The lock of a store: its owner may write, and all other processes wait. See DESIGN.md.
enum Turn {
    enum Purpose: UInt64 {
        case writing = 1
        case migration = 2
        /// The owner moves a store to this place. The lock belongs to a connection.
        case moving = 3
    }

    /// The number of an advisory lock. PostgreSQL has one number space for each database, so the number depends on the schema
    /// and differs from other programs.
    static func key(of schema: String, for purpose: Purpose) -> Int64 {
        let hash = KeyedHash(key: Hash128(high: 0x6F6E_796D, low: 0)).hash(tag: purpose.rawValue, schema)
        return Int64(bitPattern: hash.low)
    }
}

/// The row that a writing process reads first and writes last.
struct StoreState: Equatable, Sendable {
    var sequence = JournalSequence.zero
    /// The latest moment of the journal, and the last one, which is earlier after the clock went back.
    var moment: Instant?
    var lastMoment: Instant?
    var person: PersonID?
    var link: Int64 = 0
    var row: Int64 = 0
    var document: Int64 = 0
    /// The last call that changed the directory.
    var directory: Int64 = 0
    var people: Int64 = 0
    var identities: Int64 = 0
    var links: Int64 = 0
    var merges: Int64 = 0
    /// The edge of the tree over the journal; nil if it cannot be read.
    var edge: MerkleEdge? = MerkleEdge()

    static let select = Connection.Statement(
        """
        SELECT sequence, moment, person, link, row_number, document, directory, people, identities, links, merges,
            (SELECT at FROM journal ORDER BY sequence DESC LIMIT 1), leaves, edge
        FROM state
        """)

    private static let update = Connection.Statement(
        """
        UPDATE state SET sequence = $1, moment = $2, person = $3, link = $4, row_number = $5, document = $6,
            directory = $7, people = $8, identities = $9, links = $10, merges = $11, leaves = $12, edge = $13
        """)

    init(_ rows: Rows) {
        sequence = JournalSequence(rawValue: rows.integer(0, 0))
        moment = rows.optionalInteger(0, 1).map(Instant.init)
        person = rows.optionalInteger(0, 2).map(PersonID.init)
        (link, row, document) = (rows.integer(0, 3), rows.integer(0, 4), rows.integer(0, 5))
        (directory, people) = (rows.integer(0, 6), rows.integer(0, 7))
        (identities, links, merges) = (rows.integer(0, 8), rows.integer(0, 9), rows.integer(0, 10))
        lastMoment = rows.optionalInteger(0, 11).map(Instant.init)
        edge = MerkleEdge(count: Int(rows.integer(0, 12)), rows.blob(0, 13) ?? [])
    }

    func send(to connection: Connection) {
        var parameters = Parameters()
        parameters.add(sequence.rawValue)
        parameters.add(moment?.milliseconds)
        parameters.add(person?.rawValue)
        for value in [link, row, document, directory, people, identities, links, merges] { parameters.add(value) }
        parameters.add(edge.map { Int64($0.count) })
        parameters.add(edge?.bytes)
        connection.send(StoreState.update, parameters)
    }

    /// The approximate number of all facts.
    var size: Int64 { sequence.rawValue + people + link + row + document }

    var counts: StoreCounts {
        var counts = StoreCounts()
        (counts.people, counts.identities, counts.links) = (Int(people), Int(identities), Int(links))
        (counts.rows, counts.merges) = (Int(row), Int(merges))
        counts.lastSequence = sequence
        return counts
    }
}
