import Domain
import Postgres

/// How a store is reached.
package struct PostgresSettings: Sendable {
    /// `postgres://…`, as libpq takes it. It may have a password: it is for no log.
    package var address: String
    /// Where the tables are: lower-case letters, digits and underscores.
    package let schema: String
    /// Whether statements are prepared once for each connection. What a pooler lends for a transaction may not have them.
    package var preparesStatements = true
    /// How long a statement may take, and how long one may wait for the turn.
    package var statementMilliseconds = 5000
    /// How long whoever has the turn may be silent. Then the database takes it away.
    package var idleMilliseconds = 4000
    /// How long a reading stays at one moment: while it does, the database keeps all that was changed since.
    package var momentMilliseconds = 1000
    /// For how long whoever leads does so without another look.
    package var leaseMilliseconds = 2000
    /// How many rows a stretch of their table is for: old ones are dropped stretch by stretch.
    package var partitionRows: Int64 = 50_000_000

    /// Nil where the schema's name is none.
    package init?(address: String, schema: String = "onym") {
        let letters = schema.utf8.allSatisfy { byte in
            byte == UInt8(ascii: "_") || (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte)
                || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
        }
        guard letters, (1...63).contains(schema.utf8.count), schema.utf8.first.map({ $0 > UInt8(ascii: "9") }) == true
        else { return nil }
        self.address = address
        self.schema = schema
    }

    /// Makes a connection that is set up for the store.
    func connect() throws(StoreFault) -> Connection {
        // Each statement looks things up by keys, thousands at once: always through the indexes, whatever is known of how
        // many rows there are, and planned once. What is planned each time anyway is planned for what it is given: then
        // it is about few partitions.
        try connect([
            ("plan_cache_mode", preparesStatements ? "force_generic_plan" : "force_custom_plan"),
            ("enable_seqscan", "off"), ("enable_hashjoin", "off"),
            ("enable_mergejoin", "off"), ("random_page_cost", "0.01"),
            ("idle_in_transaction_session_timeout", "\(idleMilliseconds)"),
        ])
    }

    /// Makes a connection for who goes through whole tables, and has the time for it.
    func connectForWholeTables() throws(StoreFault) -> Connection {
        var settings = self
        settings.statementMilliseconds = 24 * 3600 * 1000
        return try settings.connect([("plan_cache_mode", "force_custom_plan")])
    }

    private func connect(_ values: [(String, String)]) throws(StoreFault) -> Connection {
        var settings = ConnectionSettings(address: address)
        settings.preparesStatements = preparesStatements
        settings.answerMilliseconds = statementMilliseconds + 2000
        let all =
            [
                ("search_path", schema), ("client_min_messages", "warning"), ("jit", "off"),
                ("statement_timeout", "\(statementMilliseconds)"),
            ] + values
        let calls =
            all.map { "set_config('\($0)', '\($1)', true)" } + [
                """
                set_config('synchronous_commit', coalesce(nullif(current_setting('synchronous_commit'), 'off'), 'on'), true)
                """
            ]
        settings.setUp = Connection.Statement("SELECT \(calls.joined(separator: ", "))")
        return try attempt { () throws(PostgresFault) in try Connection(settings) }
    }
}

/// The writer's connection.
final class Session {
    let connection: Connection
    private let turn: Connection.Statement

    static let begin = Connection.Statement("BEGIN")
    static let commit = Connection.Statement("COMMIT")
    static let rollback = Connection.Statement("ROLLBACK")

    init(_ settings: PostgresSettings) throws(StoreFault) {
        connection = try settings.connect()
        turn = Connection.Statement(
            "SELECT pg_advisory_xact_lock(\(Turn.key(of: settings.schema, for: .writing)))")
    }

    /// Has all that is asked until the end be of one moment, the one of the first question.
    static let beginReading = Connection.Statement("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    private static let noTurn = Connection.Statement("SELECT")

    /// Sends what begins a transaction that has the turn, or one that only reads, all of one moment; asks for the state.
    func sendBegin(hasTurn: Bool = true) {
        connection.send(hasTurn ? Session.begin : Session.beginReading)
        connection.send(hasTurn ? turn : Session.noTurn)
        connection.send(StoreState.select)
    }

    /// Takes the answers to ``sendBegin()``.
    static func takeBegin(_ answers: inout ArraySlice<Rows>) -> StoreState {
        answers.removeFirst(2)
        return StoreState(answers.removeFirst())
    }

    /// Begins a transaction that has the turn.
    func begin() throws(StoreFault) -> StoreState {
        sendBegin()
        var answers = try attempt { () throws(PostgresFault) in try connection.answers() }[...]
        return Session.takeBegin(&answers)
    }

    func commit() throws(StoreFault) { try run(Session.commit) }

    func rollBack() throws(StoreFault) { try run(Session.rollback) }

    private func run(_ statement: Connection.Statement) throws(StoreFault) {
        _ = try attempt { () throws(PostgresFault) in try connection.run(statement) }
    }
}
