import Postgres
import TestKit
import Testing

@Suite("A connection to PostgreSQL", .enabled(if: PostgresCluster.absence == nil, "PostgreSQL is not installed."))
struct PostgresTests {
    private let settings: ConnectionSettings

    init() throws {
        settings = ConnectionSettings(address: try PostgresCluster.shared.get().address)
    }

    private func connection(_ change: (inout ConnectionSettings) -> Void = { _ in }) throws -> Connection {
        var settings = settings
        change(&settings)
        return try Connection(settings)
    }

    /// The fault that running something comes to.
    private func fault(_ body: () throws -> Void) -> PostgresFault? {
        do {
            try body()
            return nil
        } catch {
            return error as? PostgresFault
        }
    }

    @Test("gives back every value that it is given", arguments: [true, false])
    func values(_ prepares: Bool) throws {
        let connection = try connection { $0.preparesStatements = prepares }
        let statement = Connection.Statement(
            "SELECT $1::bigint, $2::bigint, $3::boolean, $4::text, $5::bytea, $6::uuid, $7::text, $8::bytea, $2::smallint"
        )
        for _ in 0..<2 {
            var parameters = Parameters(Int64.min, -2)
            parameters.add(true)
            parameters.add("é\n")
            parameters.add([0, 255, 7])
            parameters.add([UInt8](1...16))
            parameters.add(nil as String?)
            parameters.add([])
            let rows = try connection.run(statement, parameters)
            #expect(rows.count == 1)
            #expect(rows.integer(0, 0) == .min && rows.integer(0, 1) == -2 && rows.integer(0, 2) == 1)
            #expect(rows.text(0, 3) == "é\n" && rows.blob(0, 4) == [0, 255, 7])
            #expect(rows.blob(0, 5) == Array(1...16) && rows.text(0, 6) == nil && rows.isNull(0, 6))
            #expect(rows.blob(0, 7) == [] && rows.integer(0, 8) == -2 && rows.optionalInteger(0, 6) == nil)
        }
    }

    @Test("takes arrays apart, with what is missing in them", arguments: [0, 1, 3, 5000])
    func arrays(_ count: Int) throws {
        let connection = try connection()
        var parameters = Parameters()
        parameters.add(integers: (0..<count).map { Int64($0) - 2 })
        var some = ArrayParameter(.integers)
        for number in 0..<count { some.add(number == 1 ? nil : Int64(number)) }
        parameters.add(some)
        parameters.add(blobs: (0..<count).map { $0 == 2 ? nil : [UInt8](repeating: 9, count: $0 % 5) })
        parameters.add(uuids: (0..<count).map { $0 == 0 ? nil : [UInt8](repeating: UInt8($0 % 256), count: 16) })
        var texts = ArrayParameter(.blobs)
        for number in 0..<count { texts.add(number == 2 ? nil : "t\(number)\0") }
        parameters.add(texts)
        let rows = try connection.run(
            Connection.Statement(
                """
                SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bytea[], $4::uuid[], $5::bytea[])
                """), parameters)
        #expect(rows.count == count)
        for row in 0..<rows.count {
            #expect(rows.integer(row, 0) == Int64(row) - 2)
            #expect(rows.optionalInteger(row, 1) == (row == 1 ? nil : Int64(row)))
            #expect(rows.blob(row, 2) == (row == 2 ? nil : [UInt8](repeating: 9, count: row % 5)))
            #expect(rows.blob(row, 3) == (row == 0 ? nil : [UInt8](repeating: UInt8(row % 256), count: 16)))
            #expect(rows.text(row, 4) == (row == 2 ? nil : "t\(row)\0"))
        }
    }

    @Test("answers many statements at once, in their order")
    func pipeline() throws {
        let connection = try connection()
        for number in 0..<300 {
            // Long enough that neither side's buffers hold all of it.
            var parameters = Parameters(Int64(number))
            parameters.add([UInt8](repeating: UInt8(number % 256), count: 20_000))
            connection.send(Connection.Statement("SELECT $1::bigint, $2::bytea || $2::bytea"), parameters)
        }
        let answers = try connection.answers()
        #expect(answers.count == 300)
        for (number, rows) in answers.enumerated() {
            #expect(rows.integer(0, 0) == Int64(number))
            #expect(rows.withBytes(0, 1) { $0.count } == 40_000)
        }
        #expect(try connection.answers().isEmpty)
    }

    @Test("says what was wrong with a statement, runs nothing behind it, and is closed then")
    func mistakes() throws {
        let connection = try connection()
        connection.send(Connection.Statement("CREATE TEMPORARY TABLE t (id bigint PRIMARY KEY)"))
        connection.send(Connection.Statement("SELECT 1 / 0"))
        connection.send(Connection.Statement("SELECT 1"))
        let fault = fault { _ = try connection.answers() }
        #expect(fault?.state == "22012" && fault?.isConnectionLost == false && fault?.stateClass == "22")
        #expect(!connection.isOpen)
        #expect(self.fault { _ = try connection.run(Connection.Statement("SELECT 1")) }?.isConnectionLost == true)
    }

    @Test(
        "says that there is nobody to connect to", arguments: ["host=/nowhere", "host=127.0.0.1 port=1", "no address"])
    func nobody(_ address: String) {
        let fault = fault { _ = try Connection(ConnectionSettings(address: address)) }
        #expect(fault?.isConnectionLost == true && fault?.state == "" && fault?.message.isEmpty == false)
    }

    @Test("begins each transaction with what it is set up with, which ends with it", arguments: [true, false])
    func setUp(_ prepares: Bool) throws {
        let connection = try connection {
            $0.preparesStatements = prepares
            $0.setUp = Connection.Statement("SELECT set_config('work_mem', '77MB', true)")
        }
        func isSetUp() throws -> Bool {
            let shown = Connection.Statement("SELECT current_setting('work_mem') = '77MB'")
            return try connection.run(shown).integer(0, 0) == 1
        }
        for _ in 0..<2 {
            #expect(try isSetUp())
            // It may be asked nothing before its isolation is chosen.
            try connection.run(Connection.Statement("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"))
            try connection.run(Connection.Statement("SET LOCAL work_mem = '78MB'"))
            #expect(try !isSetUp(), "a transaction is set up once")
            try connection.run(Connection.Statement("COMMIT"))
        }
    }

    @Test("notices that the server has ended the connection")
    func ended() throws {
        let (connection, other) = (try connection(), try connection())
        let process = try connection.run(Connection.Statement("SELECT pg_backend_pid()")).integer(0, 0)
        try other.run(Connection.Statement("SELECT pg_terminate_backend($1::bigint::int)"), Parameters(process))
        let fault = fault { _ = try connection.run(Connection.Statement("SELECT pg_sleep(10)")) }
        #expect(fault != nil && !connection.isOpen)
        #expect(fault?.isConnectionLost == true || fault?.state == "57P01")
    }

    @Test("does not wait for longer than it is told to")
    func silence() throws {
        let connection = try connection { $0.answerMilliseconds = 100 }
        let fault = fault { _ = try connection.run(Connection.Statement("SELECT pg_sleep(30)")) }
        #expect(fault?.isConnectionLost == true && !connection.isOpen)
    }
}
