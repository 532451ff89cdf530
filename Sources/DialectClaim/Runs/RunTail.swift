import Domain

/// The rows that no run has yet, as a run in memory. Reads keep the tail for later reads, which then read only the rows since.
struct RunTail: Sendable {
    private var rows: [RunRow] = []
    /// The last row number that the tail has looked at.
    private var last: Int64
    /// The parts of a run of all rows; nil after rows have been added.
    private var parts: [RowRun.Part: [UInt8]] = [:]
    private let columns: [RunColumn]
    private let start: Int64
    /// The number of erasures before the tail was read. A later erasure may have removed rows of the tail.
    private let erasures: UInt32

    /// The number after the last row.
    var end: Int64 { (rows.last?.number ?? start) + 1 }

    private init(_ columns: [RunColumn], from start: Int64, after erasures: UInt32) {
        (self.columns, self.start, self.erasures, last) = (columns, start, erasures, start - 1)
    }

    /// The tail as a run.
    func run(from first: Int64) -> RowRun {
        let parts = parts
        return RowRun(RunHead(rows, from: first, to: end)) { part in parts[part] }
    }

    /// Reads the tail of a project's rows of a kind; nil if more rows than a limit are in no run.
    static func read(
        _ kind: RowKind, _ columns: [RunColumn], in project: ProjectID, from start: Int64, after erasures: UInt32,
        limit: Int, _ snapshot: any Snapshot
    ) throws(StoreFault) -> RunTail? {
        let key = DerivedValues.Key(of: RunList.key(of: kind, in: project), form: UInt64(bitPattern: start))
        let newest = snapshot.lastRow.rawValue
        var tail = RunTail(columns, from: start, after: erasures)
        if let known = snapshot.derived?.value(key, RunTail.self), known.last <= newest, known.erasures == erasures {
            tail = known
        }
        let later = try snapshot.rows(after: RowNumber(rawValue: tail.last), limit: limit)
        if later.count == limit { return nil }
        let own = later.filter { $0.project == project && $0.row.row.kind == kind }
        let added = try RunReading.rows(own.map(\.row), columns, in: project, snapshot)
        // The parts of a run have the numbers of its rows in 16 bits.
        if let last = added.last, last.number - start >= RowRun.numbersAtMost { return nil }
        // Rows after the newest row that this process knows may come before rows that it does not see yet.
        let settled = added.prefix { $0.number <= newest }
        let isBehind = tail.last < newest
        tail.rows += settled
        tail.last = max(tail.last, newest)
        if tail.parts.isEmpty || !settled.isEmpty { tail.parts = RowRun.parts(tail.rows, columns, from: start) }
        if isBehind { snapshot.derived?.keep(tail, key, bytes: tail.bytes) }
        if settled.count == added.count { return tail }
        tail.rows += added[settled.endIndex...]
        tail.parts = RowRun.parts(tail.rows, columns, from: start)
        return tail
    }

    private var bytes: Int {
        rows.count * (64 + 8 * columns.count) + parts.values.reduce(0) { $0 + $1.count }
    }
}
