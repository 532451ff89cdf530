import CPostgres
import Glibc

/// The address of a database, and the time limits for it.
package struct ConnectionSettings: Sendable {
    /// A connection string of libpq, `postgres://…`. It may contain several hosts. It may contain a password, so it must not
    /// be in a log.
    package var address: String
    /// The greatest time to connect, for each host.
    package var connectSeconds = 3
    /// The greatest time for the answers to sent statements. After it the connection is closed.
    package var answerMilliseconds = 10_000
    /// Whether each connection prepares a statement once. A pooler that changes the connection for each transaction may not
    /// allow that.
    package var preparesStatements = true
    /// A statement at the start of each transaction, for settings that end with the transaction. A pooler gives the
    /// connection to another client afterwards, so no setting may stay.
    package var setUp: Connection.Statement?

    package init(address: String) { self.address = address }
}

/// A connection to PostgreSQL. It belongs to one thread at a time.
///
/// Many statements can be sent before their answers, and ``answers()`` waits for all of them together: that costs one round
/// trip. After any fault the connection is closed.
@safe
package final class Connection {
    // Nil after the connection is closed.
    private var handle: OpaquePointer?
    private let settings: ConnectionSettings
    /// The names of the statements that the server has prepared.
    private var prepared: [String: String] = [:]
    /// The statements that the last sending prepares.
    private var expected: [Expected] = []

    /// Whether the answers are not needed any more. The connection asks regularly while it waits. If the answer is true, the
    /// server gets a cancel request, and the connection is closed.
    package var isOver: @Sendable () -> Bool = { false }

    /// Whether a transaction is open after the last sent statements.
    private var isInTransaction = false

    /// The expected answers of the server, in order.
    private enum Expected { case prepared, setUp, rows, left, end }

    /// Connects.
    package init(_ settings: ConnectionSettings) throws(PostgresFault) {
        self.settings = settings
        // The address's own values override these values.
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

    /// Closes the connection. It stays unknown whether unanswered statements were run.
    package func close() {
        unsafe PQfinish(handle)
        unsafe handle = nil
    }

    package var isOpen: Bool { unsafe handle != nil }

    /// An object with which another thread can cancel the running statement.
    package func canceller() -> Canceller? { unsafe handle.flatMap { unsafe PQgetCancel($0) }.map(Canceller.init) }

    /// Cancels the running statement of a connection; the connection gets a fault.
    @safe
    package final class Canceller: @unchecked Sendable {
        // Unchecked: the handle does not change, and libpq lets any thread use it.
        private let handle: OpaquePointer

        fileprivate init(_ handle: OpaquePointer) { unsafe self.handle = handle }

        deinit { unsafe PQfreeCancel(handle) }

        package func cancel() {
            var message = [CChar](repeating: 0, count: 256)
            _ = unsafe PQcancel(handle, &message, Int32(message.count))
        }
    }

    /// A statement; statements with the same text are equal.
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

    /// Sends a statement. ``answers()`` reports its errors.
    ///
    /// Statements outside a transaction form one common transaction, which ends with their answers.
    package func send(_ statement: Statement, _ parameters: Parameters = Parameters()) {
        guard unsafe handle != nil else { return }
        let isFirst = !isInTransaction && (expected.isEmpty || expected.last == .end)
        // The isolation of a transaction has to be set before its first query.
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
            // If the preparation fails, the connection is closed and forgets the name.
            prepared[statement.text] = name
            unsafe PQsendPrepare(handle, name, statement.text, 0, nil)
            expected.append(.prepared)
        }
        unsafe withValues(parameters) { values, lengths, formats, count in
            unsafe PQsendQueryPrepared(handle, name, count, values, lengths, formats, 1)
        }
        expected.append(answer)
    }

    /// Sends a statement without waiting for its answer; the next wait reads that answer.
    package func leave(_ statement: Statement) {
        guard let handle = unsafe handle else { return }
        queue(statement, Parameters(), .left)
        isInTransaction = false
        // Unsent bytes go out with the next statement, and a failure here repeats there.
        if unsafe PQpipelineSync(handle) == 1 { expected.append(.end) }
        _ = unsafe PQflush(handle)
    }

    /// Waits for the answers to all sent statements; answers the rows of each statement, in order. After a failed statement,
    /// the later statements were not run.
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

    /// The size of the data at the last planning of statements.
    private var plannedSize: Int64 = 0

    /// Plans statements again when the data has doubled since the last planning: a plan for an empty table would read a whole
    /// large table.
    package func plan(forSize size: Int64) throws(PostgresFault) {
        guard settings.preparesStatements, size / 2 > plannedSize else { return }
        try run(Statement("DISCARD PLANS"))
        plannedSize = size
    }

    // MARK: - The socket

    /// Sends the waiting bytes, and reads incoming bytes meanwhile: the server may stop reading until its answers are read.
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

    /// The interval between two questions whether the answers are still needed.
    private static let lookMilliseconds: Int64 = 100

    private static func now() -> Int64 {
        var time = timespec()
        unsafe clock_gettime(CLOCK_MONOTONIC, &time)
        return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
    }

    // MARK: - Faults

    /// The fault of the connection, which is then closed.
    private func fault() -> PostgresFault {
        let message = unsafe String(message: PQerrorMessage(handle))
        close()
        return .lost(message.isEmpty ? "The connection was lost." : message)
    }

    /// The fault of a statement; the connection is then closed too.
    private func fault(of answer: OpaquePointer) -> PostgresFault {
        let code = unsafe PQresultErrorField(answer, Int32(Connection.stateField))
        let state = unsafe code.map { unsafe String(cString: $0) } ?? ""
        let message = unsafe String(message: PQresultErrorMessage(answer))
        // Whether the server has ended the connection: the error may name the reason, with the end after it.
        let isLost = unsafe state.isEmpty || PQstatus(handle) == CONNECTION_BAD
        close()
        return PostgresFault(state: state, message: message, isConnectionLost: isLost)
    }

    /// `PG_DIAG_SQLSTATE`.
    private static let stateField = UInt8(ascii: "C")

    // MARK: - C

    private typealias Strings = UnsafePointer<UnsafePointer<CChar>?>

    /// Lends strings as C strings, with a null at the end of the list.
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
            // An empty array may have no address, and libpq treats such an array as NULL.
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
                        // A failure here repeats at the end, where it is reported.
                        _ = unsafe body(values.baseAddress, lengths.baseAddress, formats.baseAddress, Int32(count))
                    }
                }
            }
        }
    }
}
