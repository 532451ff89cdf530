import Foundation
import Postgres

/// What the store is compared with: the same people, with the same indexes, each by a transaction of its own. It looks for three
/// identities and inserts five rows in one statement, one round trip: the best that can be done for one request. A claim looks for
/// both ids, and makes the two people, their links and the merge.
enum PerRequest {
    private static let tables = [
        "CREATE SEQUENCE ids", "CREATE SEQUENCE calls",
        "CREATE TABLE people (id bigint PRIMARY KEY, project integer NOT NULL, made_by bigint NOT NULL, last_seen bigint NOT NULL)",
        "CREATE INDEX ON people (made_by)",
        """
        CREATE TABLE links (id bigint PRIMARY KEY DEFAULT nextval('ids'), person bigint NOT NULL, type smallint NOT NULL,
            hash uuid NOT NULL, value bytea NOT NULL, made_by bigint NOT NULL, ended_by bigint)
        """,
        "CREATE UNIQUE INDEX ON links (hash) WHERE ended_by IS NULL", "CREATE INDEX ON links (person, id)",
        """
        CREATE TABLE journal (sequence bigint PRIMARY KEY, at bigint NOT NULL, kind smallint NOT NULL, person bigint,
            request_id bytea NOT NULL, reply bytea NOT NULL)
        """,
        "CREATE INDEX ON journal (person, sequence)",
        """
        CREATE TABLE merges (id bigint PRIMARY KEY, source bigint NOT NULL, destination bigint NOT NULL, made_by bigint NOT NULL,
            ended_by bigint)
        """,
        "CREATE INDEX ON merges (source) WHERE ended_by IS NULL",
        "CREATE INDEX ON merges (destination) WHERE ended_by IS NULL",
    ]

    private static let identify = Connection.Statement(
        """
        WITH found AS (
            SELECT links.person FROM unnest($1::uuid[]) AS asked (hash) CROSS JOIN LATERAL (
                SELECT person FROM links WHERE hash = asked.hash AND ended_by IS NULL OFFSET 0
            ) AS links LIMIT 1
        ), call AS (
            SELECT nextval('calls') AS sequence WHERE NOT EXISTS (SELECT FROM found)
        ), person AS (
            INSERT INTO people SELECT $2::bigint, 1, sequence, $3::bigint FROM call RETURNING id, made_by
        ), held AS (
            INSERT INTO links (person, type, hash, value, made_by)
            SELECT person.id, 1, new.hash, new.value, made_by FROM person, unnest($1::uuid[], $4::bytea[]) AS new (hash, value)
        )
        INSERT INTO journal SELECT made_by, $3::bigint, 1, person.id, $5, $5 FROM person
        """)

    private static let claim = Connection.Statement(
        """
        WITH found AS (
            SELECT links.person FROM unnest($1::uuid[]) AS asked (hash) CROSS JOIN LATERAL (
                SELECT person FROM links WHERE hash = asked.hash AND ended_by IS NULL OFFSET 0
            ) AS links
        ), call AS (
            SELECT nextval('calls') AS sequence WHERE NOT EXISTS (SELECT FROM found)
        ), person AS (
            INSERT INTO people SELECT $2::bigint + side, 1, sequence, $3::bigint FROM call, generate_series(0, 1) AS side RETURNING id, made_by
        ), held AS (
            INSERT INTO links (person, type, hash, value, made_by)
            SELECT $2::bigint + place - 1, 1, new.hash, new.value, sequence
            FROM call, unnest($1::uuid[], $4::bytea[]) WITH ORDINALITY AS new (hash, value, place)
        ), merged AS (
            INSERT INTO merges SELECT $2::bigint, $2::bigint, $2::bigint + 1, sequence FROM call
        )
        INSERT INTO journal SELECT sequence, $3::bigint, 1, $2::bigint + 1, $5, $5 FROM call, (SELECT count(*) FROM person) AS made
        """)

    private static func connect(_ address: String, _ schema: String) throws -> Connection {
        let connection = try Connection(ConnectionSettings(address: address))
        for setting in [
            "search_path = \(schema)", "jit = off", "plan_cache_mode = force_generic_plan", "enable_seqscan = off",
        ] { try connection.run(Connection.Statement("SET \(setting)")) }
        return connection
    }

    static func measure(_ work: BenchStore.Work, _ address: String, connections count: Int) throws -> Int {
        let schema = "peer_\(work)_\(count)_\(Int(Date().timeIntervalSince1970))"
        let first = try connect(address, schema)
        try first.run(Connection.Statement("CREATE SCHEMA \(schema)"))
        for table in tables { try first.run(Connection.Statement(table)) }
        let texts = Texts(count: count)
        // Alone it takes its time.
        let each = 1024
        let duration = try ContinuousClock().measure {
            for number in 0..<count {
                Thread {
                    do {
                        let connection = try connect(address, schema)
                        for place in number * each..<(number + 1) * each { try make(work, place, connection) }
                        texts.set(number, "done")
                    } catch {
                        texts.set(number, "failed: \(error)")
                    }
                }.start()
            }
            try texts.wait()
        }
        return Int(Double(each * count) / (duration / .seconds(1)))
    }

    private static func make(_ work: BenchStore.Work, _ number: Int, _ connection: Connection) throws {
        let names =
            switch work {
            case .people: ["customer-\(number)", "customer-\(number)@example.com", "device-\(number)"]
            case .claims: ["owl_anon_\(number)", "user-\(number)"]
            }
        var generator = SystemRandomNumberGenerator()
        let hashes = names.map { _ in (0..<16).map { _ in UInt8.random(in: .min ... .max, using: &generator) } }
        var parameters = Parameters()
        parameters.add(uuids: hashes)
        parameters.add(Int64(2 * number + 1))
        parameters.add(Int64(1_800_000_000_000))
        parameters.add(texts: names)
        parameters.add([1, 2, 3, 4, 5, 6, 7, 8])
        try connection.run(work == .people ? identify : claim, parameters)
    }
}

/// What threads have come to.
final class Texts: @unchecked Sendable {
    // Unchecked: behind the lock.
    private let condition = NSCondition()
    private var texts: [String?]

    init(count: Int) { texts = Array(repeating: nil, count: count) }

    func set(_ number: Int, _ text: String) {
        condition.withLock {
            texts[number] = text
            condition.broadcast()
        }
    }

    /// Waits for all; one that has failed has the whole fail.
    func wait() throws {
        condition.lock()
        defer { condition.unlock() }
        while texts.contains(nil) { condition.wait() }
        for case .some(let text) in texts where text.hasPrefix("failed") { throw Failed(description: text) }
    }

    struct Failed: Error, CustomStringConvertible { let description: String }
}
