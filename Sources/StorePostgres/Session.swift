import ByteText
import Domain
import Postgres

/// The address of a store in PostgreSQL, and its limits.
package struct PostgresSettings: Sendable {
    /// The address `postgres://…` for libpq. It may contain a password, so no log may show it.
    package var address: String
    /// The schema of the tables: lower-case letters, digits and underscores.
    package let schema: String
    /// Whether each connection prepares its statements once. Connections of a pooler in transaction mode cannot do this.
    package var preparesStatements = true
    /// The limit of time of a statement, and of a wait for the turn.
    package var statementMilliseconds = 5000
    /// The longest pause of the process with the turn. After it the database takes the turn away.
    package var idleMilliseconds = 4000
    /// The longest transaction of a read. During it the database keeps all changed rows.
    package var momentMilliseconds = 1000
    /// The time for which a process leads without a new check.
    package var leaseMilliseconds = 1500
    /// The number of rows in a range of their table. Old rows are dropped range by range.
    package var partitionRows: Int64 = 50_000_000

    /// Nil if the schema's name is invalid.
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

    /// The parameters of an address that are no secrets.
    private static let shownParameters: Set = ["host", "port", "dbname", "user", "sslmode", "target_session_attrs"]

    /// The place of the store for people: the address without its secrets, and the schema if it is not the usual one.
    package var shown: String {
        guard let start = address.firstRange(of: "://") else { return "" }
        var rest = address[start.upperBound...]
        var user = ""
        // A password may have a question mark, so the part before the host is cut off first.
        if let at = rest.prefix(while: { $0 != "/" }).lastIndex(of: "@") {
            user = rest[..<at].prefix { $0 != ":" } + "@"
            rest = rest[rest.index(after: at)...]
        }
        let parts = rest.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        let kept =
            parts.count < 2
            ? []
            : parts[1].split(separator: "&").filter { parameter in
                PostgresSettings.shownParameters.contains(String(parameter.prefix { $0 != "=" }))
            }
        let query = kept.isEmpty ? "" : "?" + kept.joined(separator: "&")
        let name = schema == "onym" ? "" : ", schema \(schema)"
        return String(address[..<start.upperBound]) + user + String(parts.first ?? "") + query + name
    }

    /// Makes a connection with the settings of the store.
    func connect() throws(StoreFault) -> Connection {
        // Each statement looks up thousands of keys at once, so it must always use the indexes, independent of statistics,
        // with one plan. A statement that is planned each time is planned for its parameters, and then few partitions remain.
        try connect([
            ("plan_cache_mode", preparesStatements ? "force_generic_plan" : "force_custom_plan"),
            ("enable_seqscan", "off"), ("enable_hashjoin", "off"),
            ("enable_mergejoin", "off"), ("random_page_cost", "0.01"),
            ("idle_in_transaction_session_timeout", "\(idleMilliseconds)"),
        ])
    }

    /// Makes a connection for long reads of whole tables.
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

/// The connection of the writer.
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

    /// Begins a transaction in which all questions see the moment of the first question.
    static let beginReading = Connection.Statement("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    private static let noTurn = Connection.Statement("SELECT")

    /// Sends the beginning of a transaction with the turn, or of a transaction that only reads at one moment, and asks for
    /// the state.
    func sendBegin(hasTurn: Bool = true) {
        connection.send(hasTurn ? Session.begin : Session.beginReading)
        connection.send(hasTurn ? turn : Session.noTurn)
        connection.send(StoreState.select)
    }

    /// Reads the answers to ``sendBegin()``.
    static func takeBegin(_ answers: inout ArraySlice<Rows>) -> StoreState {
        answers.removeFirst(2)
        return StoreState(answers.removeFirst())
    }

    /// Begins a transaction with the turn.
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
