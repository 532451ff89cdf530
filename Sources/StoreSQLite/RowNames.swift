import Domain
import SQLite

/// Finds rows of any time by their recognition hash.
///
/// An index over all hashes would write to a random page for each row. Instead, the hashes of the last rows wait in memory. When they
/// are many, they become a run: a part for each value of a byte of the hash, sorted by hash. A run never changes, so each row is
/// written once. Each run has a filter in memory, so a search reads one part of each run that may have the hash.
///
///     row_names.id   8 bits of the hash, then 40 bits with the number of the last row of the run
///     entries        16 bytes for each row: the hash and the number, little-endian
///
/// The rows are the truth. A search checks the rows that it finds, because a row may be removed or superseded.
final class RowNames {
    // Only the writer's thread uses it.

    private var waiting = WaitingNames()
    /// The number of rows in a run that is written and not committed.
    private var written = 0
    /// The filters of the runs. A run has the number of its last row.
    private var filters = RunFilters()

    /// The number of rows in a run. A part has about 3 KB and fits on a page.
    static let rowsPerRun = 49_152
    private static let parts: Int64 = 256
    private static let rowBits: Int64 = 40
    private static let setting = "rows_named"

    /// Reads the rows that no run has. A store of an older version has no runs, so all its rows become runs first.
    init(_ connection: Connection) throws(SQLiteFault) {
        try fillFilters(connection)
        var named = try RowNames.lastRow(connection)
        while true {
            let rows = try connection.prepare(
                "SELECT id, recognition FROM rows WHERE id > ? ORDER BY id LIMIT \(RowNames.rowsPerRun)")
            rows.bind(1, named)
            var count = 0
            while try rows.step() {
                named = rows.integer(0)
                count += 1
                guard let hash = rows.optionalInteger(1) else { continue }
                waiting.add(UInt64(bitPattern: hash), named)
            }
            if isDue {
                try connection.transaction { () throws(SQLiteFault) in try write(connection) }
                forgetWritten()
            }
            if count < RowNames.rowsPerRun { break }
        }
    }

    /// Makes the filters of the runs that are there.
    private func fillFilters(_ connection: Connection) throws(SQLiteFault) {
        let parts = try connection.prepare("SELECT id, entries FROM row_names ORDER BY id")
        while try parts.step() {
            let run = parts.integer(0) & (1 << RowNames.rowBits - 1)
            let filter = filters.place(of: run)
            parts.withBytes(1) { part in RowNames.forEachName(in: part) { hash, _ in filters.add(hash, at: filter) } }
        }
    }

    /// The last row of the last run; 0 if there are no runs.
    static func lastRow(_ connection: Connection) throws(SQLiteFault) -> Int64 {
        guard let value = try KeptSetting.read(setting, connection) else { return 0 }
        var unpacker = Unpacker(value)
        return unpacker.integer().map(Int64.init(bitPattern:)) ?? 0
    }

    /// The last rows of the runs that end at a row or later, the oldest run first.
    static func runs(_ connection: Connection, since first: Int64) throws(SQLiteFault) -> [Int64] {
        var runs: [Int64] = []
        // A run has a part for the byte 0: that none of 49,152 hashes begins with it happens in one of 10^83 runs.
        let parts = try connection.prepare("SELECT id FROM row_names WHERE id BETWEEN ? AND ? ORDER BY id")
        parts.bind(1, first)
        parts.bind(2, Int64(1) << rowBits - 1)
        while try parts.step() { runs.append(parts.integer(0)) }
        return runs
    }

    /// The hashes and numbers of the rows of some runs: first all that begin with the lowest byte.
    static func forEachName(
        of runs: [Int64], _ connection: Connection, _ body: (_ run: Int64, _ hash: UInt64, _ row: Int64) -> Void
    ) throws(SQLiteFault) {
        let find = try connection.prepare("SELECT entries FROM row_names WHERE id = ?")
        for part in 0..<parts {
            for run in runs {
                find.bind(1, part << rowBits | run)
                if try find.step() { find.withBytes(0) { bytes in forEachName(in: bytes) { body(run, $0, $1) } } }
                find.reset()
            }
        }
    }

    private static func forEachName(
        in part: borrowing Span<UInt8>, _ body: (_ hash: UInt64, _ row: Int64) -> Void
    ) {
        for place in stride(from: 0, to: part.count, by: 16) {
            body(word(place, part), Int64(bitPattern: word(place + 8, part)))
        }
    }

    /// Whether enough rows wait for a run.
    var isDue: Bool { waiting.count >= RowNames.rowsPerRun }

    /// Adds the rows of a commit.
    ///
    /// - Parameters:
    ///   - entries: the calls of the commit.
    ///   - last: the number of the last row before the commit.
    func add(_ entries: [JournalEntry], after last: Int64) {
        written = 0
        var number = last
        for entry in entries {
            for case .rowAdded(_, let row) in entry.changes {
                number += 1
                guard let hash = row.recognition else { continue }
                waiting.add(hash.rawValue, number)
            }
        }
    }

    /// Writes the first waiting rows as a run. After the commit ``forgetWritten()`` follows; after a fault the same run is written
    /// again.
    func write(_ connection: Connection) throws(SQLiteFault) {
        let count = min(waiting.count, RowNames.rowsPerRun)
        let run = waiting.numbers[count - 1]
        let rows = zip(waiting.hashes.prefix(count), waiting.numbers).sorted { $0.0 < $1.0 }
        let insert = try connection.prepare("INSERT OR REPLACE INTO row_names (id, entries) VALUES (?, ?)")
        // After a fault the same run follows, so its filter can stay.
        let filter = filters.place(of: run)
        for (hash, _) in rows { filters.add(hash, at: filter) }
        var place = 0
        for part in 0..<RowNames.parts {
            var entries: [UInt8] = []
            entries.reserveCapacity(4096)
            while place < count, RowNames.part(of: rows[place].0) == part {
                RowNames.append(rows[place].0, to: &entries)
                RowNames.append(UInt64(bitPattern: rows[place].1), to: &entries)
                place += 1
            }
            if entries.isEmpty { continue }
            insert.bind(1, part << RowNames.rowBits | run)
            insert.bind(2, blob: entries)
            try insert.run()
        }
        var packer = Packer()
        packer.add(UInt64(bitPattern: run))
        try KeptSetting.keep(packer.bytes, as: RowNames.setting, connection)
        written = count
    }

    /// Forgets the rows of the run that a transaction has written, if it has written one.
    func forgetWritten() {
        if written == 0 { return }
        waiting.removeFirst(written)
        written = 0
    }

    private static func part(of hash: UInt64) -> Int64 { Int64(hash >> 56) }

    private static func append(_ value: UInt64, to bytes: inout [UInt8]) {
        for place in 0..<8 { bytes.append(UInt8(truncatingIfNeeded: value >> UInt64(8 * place))) }
    }

    // MARK: - Finding

    /// The statements of a search. An import makes one for each of its rows.
    struct Search {
        fileprivate let part: Statement
        fileprivate let rows: Statement

        init(_ connection: Connection) throws(SQLiteFault) {
            part = try connection.prepare("SELECT entries FROM row_names WHERE id = ?")
            rows = try connection.prepare(
                """
                SELECT rows.id, rows.person, rows.previous, rows.kind, rows.at, recognition, device, rows.body, journal.at,
                    journal.key
                FROM rows JOIN journal ON journal.sequence = made_by
                WHERE rows.id IN (?1, ?1 + 1) AND superseded_by IS NULL ORDER BY rows.id
                """)
        }
    }

    /// The row with a hash that no other row has superseded; nil if it does not exist.
    func find(_ hash: RowHash, _ search: Search) throws(SQLiteFault) -> NamedRow? {
        for number in try candidates(hash.rawValue, search) {
            if let row = try RowNames.row(number, hash, search) { return row }
        }
        return nil
    }

    /// The numbers of the rows that came with a hash, the last first.
    private func candidates(_ hash: UInt64, _ search: Search) throws(SQLiteFault) -> [Int64] {
        var found = waiting.numbers(of: hash)
        for run in filters.runs(with: hash) {
            search.part.bind(1, RowNames.part(of: hash) << RowNames.rowBits | run)
            defer { search.part.reset() }
            if try search.part.step() {
                search.part.withBytes(0) { bytes in RowNames.collect(hash, in: bytes, &found) }
            }
        }
        return found.sorted(by: >)
    }

    private static func collect(_ hash: UInt64, in bytes: borrowing Span<UInt8>, _ found: inout [Int64]) {
        var (low, high) = (0, bytes.count / 16)
        while low < high {
            let middle = (low + high) / 2
            if word(middle * 16, bytes) < hash { low = middle + 1 } else { high = middle }
        }
        while low * 16 < bytes.count, word(low * 16, bytes) == hash {
            found.append(Int64(bitPattern: word(low * 16 + 8, bytes)))
            low += 1
        }
    }

    private static func word(_ place: Int, _ bytes: borrowing Span<UInt8>) -> UInt64 {
        var value: UInt64 = 0
        for offset in 0..<8 { value |= UInt64(bytes[place + offset]) << UInt64(8 * offset) }
        return value
    }

    private static func row(
        _ number: Int64, _ hash: RowHash, _ search: Search
    ) throws(SQLiteFault) -> NamedRow? {
        let rows = search.rows
        rows.bind(1, number)
        defer { rows.reset() }
        var event: (row: StoredRow, arrival: RowArrival)?
        while try rows.step() {
            guard let stored = rows.storedRow else { continue }
            let arrival = RowArrival(
                at: Instant(milliseconds: rows.integer(8)), key: rows.optionalInteger(9).map(KeyID.init))
            if stored.number.rawValue == number {
                guard stored.row.recognition == hash else { return nil }
                event = (stored, arrival)
            } else if let event, event.row.row.kind == .event, stored.row.kind.isDerived,
                stored.person == event.row.person
            {
                return NamedRow(stored: event.row, arrival: event.arrival, derived: stored)
            }
        }
        return event.map { NamedRow(stored: $0.row, arrival: $0.arrival, derived: nil) }
    }
}
