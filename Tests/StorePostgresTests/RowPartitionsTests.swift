import Domain
import Engine
import Foundation
import Postgres
import StorePostgres
import TestKit
import Testing

@Suite(
    "The parts of the table of rows", .enabled(if: PostgresCluster.absence == nil, "PostgreSQL is not installed."),
    .timeLimit(.minutes(30)))
struct RowPartitionsTests {
    private let cluster: PostgresCluster

    init() throws { cluster = try PostgresCluster.shared.get() }

    /// A store whose stretches have twenty rows.
    private func fixture() throws -> StoreFixture {
        var settings = cluster.newSchema()
        settings.partitionRows = 20
        return try StoreFixture(.postgres, schema: settings)
    }

    private func ingest(_ fixture: StoreFixture, _ person: PersonID, _ ids: Range<Int>, age: Int64 = 0) throws {
        let at = fixture.clock.now.advanced(byMilliseconds: -age)
        let events = ids.map { id in
            Row(
                .event, at: at,
                recognition: RowHash(.event, "\(id)".utf8.span, in: World.project, hash: fixture.store.hash),
                body: Array("\(id)".utf8))
        }
        let rows = [Row(.context, at: at, body: Array("{}".utf8))] + events
        _ = try fixture.process(Ingest(person: person, identities: [], rows: rows))
    }

    private func events(_ fixture: StoreFixture, _ person: PersonID) throws -> [Int] {
        let rows = try fixture.store.read { snapshot throws(StoreFault) in
            try snapshot.rows(of: person, .event, from: nil, limit: 10_000)
        }
        return rows.compactMap { Int(String(decoding: $0.row.body, as: UTF8.self)) }
    }

    private func counts(_ fixture: StoreFixture, _ person: PersonID) throws -> [RowKind: Int]? {
        try fixture.store.read { snapshot throws(StoreFault) in
            snapshot.person(person, in: World.project)?.counts.filter { $0.value > 0 }
        }
    }

    private func schema(_ fixture: StoreFixture) throws -> String { try #require(fixture.schema).schema }

    /// The numbers with which stretches begin.
    private func stretches(_ fixture: StoreFixture) throws -> [Int] {
        try cluster.run(
            "SELECT substring(inhrelid::regclass::text FROM 'rows_from_([0-9]+)$') FROM pg_inherits WHERE inhparent = '\(schema(fixture)).rows'::regclass"
        ).split(separator: "\n").compactMap { Int($0) }
    }

    private func isAhead(_ fixture: StoreFixture) throws -> Bool {
        try stretches(fixture).max() ?? 0 > fixture.store.counts.rows
    }

    @Test("rows are found in all of them, whether or not those were made in time", arguments: [true, false])
    func found(_ waits: Bool) throws {
        let fixture = try fixture()
        let people = try ["1", "2"].map { try fixture.identify([.iosIDFV: $0]).person }
        for upload in 0..<30 {
            try ingest(fixture, people[upload % 2], upload * 5..<upload * 5 + 5)
            if waits { #expect(try Patience.until { try isAhead(fixture) }) }
        }
        #expect(try Patience.until { try isAhead(fixture) })
        for _ in 0..<2 {
            for number in 0..<2 {
                #expect(try events(fixture, people[number]) == (0..<150).reversed().filter { $0 / 5 % 2 == number })
                #expect(try counts(fixture, people[number]) == [.event: 75, .context: 15])
            }
            // What is sent again is known, wherever it is.
            try ingest(fixture, people[0], 0..<150)
            let calls = try fixture.store.read { snapshot throws(StoreFault) in
                try snapshot.calls(after: .zero, limit: 100)
            }
            #expect(calls.flatMap(\.facts).count == 64)
            try fixture.reopen()
        }
        #expect(try stretches(fixture).count > (waits ? 7 : 0))
    }

    @Test("those of old rows are dropped, and what is counted is what there is, whoever is stopped meanwhile")
    func dropped() throws {
        let fixture = try fixture()
        let people = try ["1", "2"].map { try fixture.identify([.iosIDFV: $0]).person }
        for upload in 0..<60 {
            try ingest(fixture, people[upload % 2], upload * 5..<upload * 5 + 5, age: upload < 40 ? 1_000_000 : 0)
            #expect(try Patience.until { try isAhead(fixture) })
        }
        func parts() throws -> Int? {
            Int(
                try cluster.run(
                    "SELECT count(*) FROM pg_tables WHERE schemaname = '\(schema(fixture))' AND tablename ~ '^rows_from_[0-9]+_1$'"
                ))
        }
        let before = try #require(try parts())
        let end = ExpiredRows(
            before: fixture.clock.now.advanced(byMilliseconds: -500_000), upTo: RowNumber(rawValue: .max))
        _ = try fixture.process(ExpireRows([.event: end]))
        func expire() throws -> Bool {
            try fixture.store.expire(OldRows(.event, end), limit: 7) != nil
        }
        // Again and again it is stopped in the middle.
        for step in 0... {
            guard try expire() else { break }
            if step % 5 == 4 { try fixture.reopen() }
            // Something is counted out and not dropped, now and then; that is no damage.
            if step == 7 || step == 9 {
                let doctor = try PostgresDoctor(try #require(fixture.schema)) { _ in }
                #expect(try doctor.examine().map(\.description) == [])
            }
        }
        for number in 0..<2 { #expect(try counts(fixture, people[number]) == [.event: 50, .context: 30]) }
        let waiting = "SELECT count(*) FROM \(try schema(fixture)).row_drops"
        #expect(try Patience.until { try cluster.run(waiting) == "0" })
        for number in 0..<2 {
            #expect(try events(fixture, people[number]) == (200..<300).reversed().filter { $0 / 5 % 2 == number })
            #expect(try counts(fixture, people[number]) == [.event: 50, .context: 30])
        }
        #expect(try #require(try parts()) <= before - 8)
        #expect(try !expire())
        try ingest(fixture, people[0], 300..<301)
        #expect(try events(fixture, people[0]).first == 300)
    }

    @Test("who reads for long is waited for by nobody, and what comes meanwhile has its place")
    func heldUp() throws {
        let fixture = try fixture()
        let person = try fixture.identify([.iosIDFV: "1"]).person
        let reader = try Connection(ConnectionSettings(address: cluster.address))
        try reader.run(Connection.Statement("BEGIN"))
        try reader.run(Connection.Statement("SELECT count(*) FROM \(schema(fixture)).rows"))
        for upload in 0..<12 {
            try ingest(fixture, person, upload * 5..<upload * 5 + 5)
            pause(milliseconds: 50)
        }
        #expect(try events(fixture, person) == (0..<60).reversed())
        #expect(try !isAhead(fixture))
        #expect(try fixture.store.trouble == nil && events(fixture, person).count == 60)
        try reader.run(Connection.Statement("COMMIT"))
        #expect(try Patience.until { try isAhead(fixture) })
        #expect(try events(fixture, person) == (0..<60).reversed())
    }

    @Test("a store of the first version is taken over, and a server of that version goes on")
    func firstVersion() throws {
        let file = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "Version1.sql")
        _ = try cluster.run(try String(contentsOf: file, encoding: .utf8))
        let older = try Connection(ConnectionSettings(address: cluster.address))
        try older.run(Connection.Statement("SET search_path = version1"))
        let person: Int64 = 931_819_998_455_721_063
        /// What that version says of rows.
        func asOlder(_ id: Int64, rows: Int) throws {
            try older.run(
                Connection.Statement(
                    """
                    INSERT INTO rows (id, project, person, previous, kind, at, recognition, device, made_by, body)
                    SELECT id, 1, person, NULL, 1, 1, id, NULL, 9, body
                    FROM unnest($1::bigint[], $2::bigint[], $3::bytea[]) AS new (id, person, body)
                    """), inserted(id, of: person))
            let found = try older.run(
                Connection.Statement(
                    """
                    SELECT id, body FROM rows WHERE person = $1 AND kind = $2::bigint::smallint AND id <= $3
                    ORDER BY id DESC LIMIT $4
                    """), Parameters(person, 1, .max, 100))
            #expect(found.count == rows && found.integer(0, 0) == id)
            let known = try older.run(
                Connection.Statement(
                    "SELECT DISTINCT recognition FROM rows WHERE recognition = ANY (ARRAY[$1::bigint])"),
                Parameters(id))
            #expect(known.count == 1)
            let gone = try older.run(
                Connection.Statement(
                    """
                    WITH old AS (
                        SELECT id FROM rows WHERE kind = $1::bigint::smallint AND at < $2 ORDER BY at, id LIMIT $3
                    ), gone AS (
                        DELETE FROM rows USING old WHERE rows.id = old.id RETURNING rows.person
                    )
                    SELECT count(*) FROM gone
                    """), Parameters(1, 2, 10))
            #expect(gone.integer(0, 0) == 1)
        }
        try asOlder(1_000_000, rows: 13)
        var settings = try #require(PostgresSettings(address: cluster.address, schema: "version1")).patient
        settings.partitionRows = 20
        let fixture = try StoreFixture(.postgres, schema: settings)
        let strategy = fixture.store.directory.strategy(of: ProjectID(rawValue: 1))
        #expect(strategy.hierarchy == Strategy.olderDefault.hierarchy, "its people are found as before")
        for id in [1_000_001, 1_000_002] as [Int64] { try asOlder(id, rows: 13) }
        #expect(try fixture.identify([.customerID: "c1"]).person.rawValue == person)
        #expect(try counts(fixture, PersonID(rawValue: person)) == [.event: 12, .context: 3])
        let kept = try fixture.store.read { snapshot throws(StoreFault) in
            try snapshot.rows(of: PersonID(rawValue: person), .event, from: nil, limit: 100)
        }
        #expect(kept.map(\.number.rawValue) == [15, 14, 13, 12, 10, 9, 8, 7, 5, 4, 3, 2])
        try ingest(fixture, PersonID(rawValue: person), 0..<30)
        #expect(try counts(fixture, PersonID(rawValue: person)) == [.event: 42, .context: 4])
        #expect(try events(fixture, PersonID(rawValue: person)) == (0..<30).reversed())
    }

    private func inserted(_ id: Int64, of person: Int64) -> Parameters {
        var parameters = Parameters()
        parameters.add(integers: [id])
        parameters.add(integers: [person])
        parameters.add(blobs: [[1]])
        return parameters
    }
}
