import CPostgres
import Glibc

/// Where a database is, and how long it is waited for.
package struct ConnectionSettings: Sendable {
    /// A connection string as libpq takes it, `postgres://…`. It may have several hosts, and it may have a password: it is
    /// for no log.
    package var address: String
    /// How long a connection may take to be made, for each host.
    package var connectSeconds = 3
    /// How long the answers to what was sent may take. Then the connection is given up.
    package var answerMilliseconds = 10_000
    /// Whether statements are prepared once for each connection. A pooler that gives each transaction another connection may
    /// not allow it.
    package var preparesStatements = true
    /// What each transaction begins with, as for settings that end with it: a pooler gives the connection to somebody else
    /// then, so that nothing may stay with it.
    package var setUp: Connection.Statement?

    package init(address: String) { self.address = address }
}

/// A connection to PostgreSQL. It belongs to one thread at a time.
///
/// Statements are sent ahead of their answers, as many as one likes, and ``answers()`` waits for all of them at once: so
/// that costs one round trip, however many there are. After a fault the connection is closed, whatever the fault was.
@safe
package final class Connection {
    // Nil when it is closed.
    private var handle: OpaquePointer?
    private let settings: ConnectionSettings
    /// The names of the statements that the server has prepared.
    private var prepared: [String: String] = [:]
    /// Those that are prepared by what was sent last.
    private var expected: [Expected] = []

    /// Whether answers are still wanted: asked now and then while they are waited for. When this is true the server is told to
    /// give up, and the connection is closed.
    package var isOver: @Sendable () -> Bool = { false }

    /// Whether what was sent last leaves a transaction open.
    private var isInTransaction = false

    /// What the server will answer with, in this order.
    private enum Expected { case prepared, setUp, rows, left, end }

    /// Connects.
    package init(_ settings: ConnectionSettings) throws(PostgresFault) {
        self.settings = settings
        // What the address says itself goes before these.
        let values = [
            ("connect_timeout", "\(settings.connectSeconds)"), ("application_name", "onym"),
            ("target_session_attrs", "read-write"), ("keepalives_idle", "5"), ("keepalives_interval", "2"),
            ("keepalives_count", "3"), ("tcp_user_timeout", "\(min(settings.answerMilliseconds, 10_000))"),
            ("dbname", settings.address),
        ]
        let handle = unsafe Connection.withStrings(values.map(\.0)) { names in
            unsafe Connection.withStrings(values.map(\.1)) { values in unsafe PQconnectdbParams(names, values, 1) }
        }
        unsafe self.handle = handle
        guard let handle = unsafe handle, unsafe PQstatus(handle) == CONNECTION_OK else { throw fault() }
        guard unsafe PQsetnonblocking(handle, 1) == 0, unsafe PQenterPipelineMode(handle) == 1 else { throw fault() }
    }

    deinit { close() }

    /// Closes it. What was not answered is undone, or done: nobody knows.
    package func close() {
        unsafe PQfinish(handle)
        unsafe handle = nil
    }

    package var isOpen: Bool { unsafe handle != nil }

    /// By which another thread may have the server give up what it is at.
    package func canceller() -> Canceller? { unsafe handle.flatMap { unsafe PQgetCancel($0) }.map(Canceller.init) }

    /// Has the server give up what a connection is at; the connection learns it as a fault.
    @safe
    package final class Canceller: @unchecked Sendable {
        // Unchecked: it does not change, and libpq lets any thread use it.
        private let handle: OpaquePointer

        fileprivate init(_ handle: OpaquePointer) { unsafe self.handle = handle }

        deinit { unsafe PQfreeCancel(handle) }

        package func cancel() {
            var message = [CChar](repeating: 0, count: 256)
            _ = unsafe PQcancel(handle, &message, Int32(message.count))
        }
    }

    /// A statement; those with the same text are the same.
    package struct Statement: Sendable {
        package let text: String
        fileprivate let begins: Bool
        fileprivate let ends: Bool

        package init(_ text: String) {
            self.text = text
            begins = text.hasPrefix("BEGIN")
            ends = text.hasPrefix("COMMIT") || text.hasPrefix("ROLLBACK")
        }
    }

    /// Sends a statement. What is wrong with it is said by ``answers()``.
    ///
    /// Statements that are sent outside of a transaction are one together, which is over when they are answered.
    package func send(_ statement: Statement, _ parameters: Parameters = Parameters()) {
        guard unsafe handle != nil else { return }
        let isFirst = !isInTransaction && (expected.isEmpty || expected.last == .end)
        // A transaction's isolation is chosen before it is asked anything.
        if isFirst, !statement.begins, let setUp = settings.setUp { queue(setUp, Parameters(), .setUp) }
        queue(statement, parameters, .rows)
        if isFirst, statement.begins, let setUp = settings.setUp { queue(setUp, Parameters(), .setUp) }
        if statement.begins || statement.ends { isInTransaction = statement.begins }
    }

    private func queue(_ statement: Statement, _ parameters: Parameters, _ answer: Expected) {
        guard let handle = unsafe handle else { return }
        guard settings.preparesStatements else {
            unsafe withValues(parameters) { values, lengths, formats, count in
                unsafe PQsendQueryParams(handle, statement.text, count, nil, values, lengths, formats, 1)
            }
            expected.append(answer)
            return
        }
        let name: String
        if let known = prepared[statement.text] {
            name = known
        } else {
            name = "s\(prepared.count)"
            // If that fails the connection is closed, and forgets it.
            prepared[statement.text] = name
            unsafe PQsendPrepare(handle, name, statement.text, 0, nil)
            expected.append(.prepared)
        }
        unsafe withValues(parameters) { values, lengths, formats, count in
            unsafe PQsendQueryPrepared(handle, name, count, values, lengths, formats, 1)
        }
        expected.append(answer)
    }

    /// Sends a statement whose answer nobody waits for; what comes next takes it.
    package func leave(_ statement: Statement) {
        guard let handle = unsafe handle else { return }
        queue(statement, Parameters(), .left)
        isInTransaction = false
        // What is not sent now is sent with what comes next, and what fails here fails again then.
        if unsafe PQpipelineSync(handle) == 1 { expected.append(.end) }
        _ = unsafe PQflush(handle)
    }

    /// Waits until all that was sent is answered; answers with the rows of each statement, in their order. Where one fails
    /// those behind it were not run.
    package func answers() throws(PostgresFault) -> [Rows] {
        guard let handle = unsafe handle else { throw .lost("The connection is closed.") }
        guard unsafe PQpipelineSync(handle) == 1 else { throw fault() }
        let deadline = Connection.now() + Int64(settings.answerMilliseconds)
        try flush(until: deadline)
        var rows: [Rows] = []
        rows.reserveCapacity(expected.count)
        for next in expected {
            if next == .end {
                try takeEnd(until: deadline)
                continue
            }
            let answer = unsafe try result(until: deadline)
            guard let answer = unsafe answer else { throw .lost("The server has left out an answer.") }
            let status = unsafe PQresultStatus(answer)
            guard status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK else {
                defer { unsafe PQclear(answer) }
                throw unsafe fault(of: answer)
            }
            let answered = unsafe Rows(answer)
            if case .rows = next { rows.append(answered) }
            // The end of each statement's answer.
            guard unsafe try result(until: deadline) == nil else { throw .lost("The server has answered twice.") }
        }
        try takeEnd(until: deadline)
        expected.removeAll(keepingCapacity: true)
        return rows
    }

    private func takeEnd(until deadline: Int64) throws(PostgresFault) {
        guard let end = unsafe try result(until: deadline) else { throw .lost("The server has not come to an end.") }
        defer { unsafe PQclear(end) }
        guard unsafe PQresultStatus(end) == PGRES_PIPELINE_SYNC else { throw unsafe fault(of: end) }
    }

    /// Sends one statement, and waits for its answer.
    @discardableResult
    package func run(_ statement: Statement, _ parameters: Parameters = Parameters()) throws(PostgresFault) -> Rows {
        send(statement, parameters)
        guard let rows = try answers().last else { throw .lost("The server has left out an answer.") }
        return rows
    }

    /// How much there was to look through when statements were last planned.
    private var plannedSize: Int64 = 0

    /// Has statements planned anew where there is twice as much to look through as there was when they were: what was planned
    /// for an empty table goes through all of it.
    package func plan(forSize size: Int64) throws(PostgresFault) {
        guard settings.preparesStatements, size / 2 > plannedSize else { return }
        try run(Statement("DISCARD PLANS"))
        plannedSize = size
    }

    // MARK: - The socket

    /// Sends what is to be sent, taking in meanwhile what comes: the server may not read on before somebody has.
    private func flush(until deadline: Int64) throws(PostgresFault) {
        while true {
            let left = unsafe PQflush(handle)
            if left == 0 { return }
            guard left > 0 else { throw fault() }
            try wait(for: POLLIN | POLLOUT, until: deadline)
            guard unsafe PQconsumeInput(handle) == 1 else { throw fault() }
        }
    }

    private func result(until deadline: Int64) throws(PostgresFault) -> OpaquePointer? {
        while unsafe PQisBusy(handle) == 1 {
            try wait(for: POLLIN, until: deadline)
            guard unsafe PQconsumeInput(handle) == 1 else { throw fault() }
        }
        return unsafe PQgetResult(handle)
    }

    private func wait(for events: Int32, until deadline: Int64) throws(PostgresFault) {
        var socket = unsafe pollfd(fd: PQsocket(handle), events: Int16(events), revents: 0)
        while true {
            let left = deadline - Connection.now()
            let ready = left <= 0 ? 0 : unsafe poll(&socket, 1, Int32(min(left, Connection.lookMilliseconds)))
            if ready > 0 { return }
            if ready < 0, errno == EINTR { continue }
            if isOver() {
                canceller()?.cancel()
                close()
                throw .lost("Nobody waits for the answer any more.")
            }
            if ready == 0, left > Connection.lookMilliseconds { continue }
            close()
            throw .lost("The server has not answered within \(settings.answerMilliseconds) milliseconds.")
        }
    }

    /// How often it is asked, while answers are waited for, whether they are still wanted.
    private static let lookMilliseconds: Int64 = 100

    private static func now() -> Int64 {
        var time = timespec()
        unsafe clock_gettime(CLOCK_MONOTONIC, &time)
        return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
    }

    // MARK: - Faults

    /// What was wrong with the connection, which is closed then.
    private func fault() -> PostgresFault {
        let message = unsafe String(message: PQerrorMessage(handle))
        close()
        return .lost(message.isEmpty ? "The connection was lost." : message)
    }

    /// What was wrong with a statement; the connection is closed then, too.
    private func fault(of answer: OpaquePointer) -> PostgresFault {
        let code = unsafe PQresultErrorField(answer, Int32(Connection.stateField))
        let state = unsafe code.map { unsafe String(cString: $0) } ?? ""
        let message = unsafe String(message: PQresultErrorMessage(answer))
        // Whether the server has ended: the error may say why, and the end come behind it.
        let isLost = unsafe state.isEmpty || PQstatus(handle) == CONNECTION_BAD
        close()
        return PostgresFault(state: state, message: message, isConnectionLost: isLost)
    }

    /// `PG_DIAG_SQLSTATE`.
    private static let stateField = UInt8(ascii: "C")

    // MARK: - C

    private typealias Strings = UnsafePointer<UnsafePointer<CChar>?>

    /// Lends strings as C has them, with nothing at the end.
    private static func withStrings<Result>(
        _ strings: [String], _ body: (Strings) -> Result
    ) -> Result {
        let copies = unsafe strings.map { unsafe strdup($0) }
        defer { for index in unsafe copies.indices { unsafe free(copies[index]) } }
        let pointers = unsafe copies.map { unsafe UnsafePointer($0) } + [nil]
        return unsafe pointers.withUnsafeBufferPointer { pointers in
            guard let start = pointers.baseAddress else { preconditionFailure("There is an end at least.") }
            return unsafe body(start)
        }
    }

    private func withValues(
        _ parameters: Parameters,
        _ body: (Strings?, UnsafePointer<Int32>?, UnsafePointer<Int32>?, Int32) -> Int32
    ) {
        let count = parameters.places.count
        let lengths = parameters.places.map { Int32($0?.count ?? 0) }
        let formats = [Int32](repeating: 1, count: count)
        unsafe parameters.bytes.withUnsafeBytes { bytes in
            // An empty array may have no address, and libpq takes that for NULL.
            let empty: StaticString = ""
            let values = unsafe parameters.places.map { place -> UnsafePointer<CChar>? in
                guard let place else { return nil }
                guard !place.isEmpty, let start = bytes.baseAddress else {
                    return unsafe UnsafeRawPointer(empty.utf8Start).assumingMemoryBound(to: CChar.self)
                }
                return unsafe (start + place.lowerBound).assumingMemoryBound(to: CChar.self)
            }
            unsafe values.withUnsafeBufferPointer { values in
                unsafe lengths.withUnsafeBufferPointer { lengths in
                    unsafe formats.withUnsafeBufferPointer { formats in
                        // What fails here fails again at the end, where it is said.
                        _ = unsafe body(values.baseAddress, lengths.baseAddress, formats.baseAddress, Int32(count))
                    }
                }
            }
        }
    }
}
