/// The rows of a batch by their recognition hash. They are read from the calls of the batch at the first question, so that a batch
/// without questions pays nothing.
struct PendingNamedRows {
    private(set) var rows: [RowHash: NamedRow] = [:]
    /// The number of calls that were read, and the number of the last row in them.
    private var callsRead = 0
    private var lastRow: Int64 = 0

    /// Reads the calls that were added since the last question.
    ///
    /// - Parameters:
    ///   - calls: all calls of the batch.
    ///   - committed: the number of the last committed row.
    mutating func read(_ calls: [JournalEntry], after committed: Int64) {
        if callsRead == 0 { lastRow = committed }
        while callsRead < calls.count {
            read(calls[callsRead])
            callsRead += 1
        }
    }

    private mutating func read(_ call: JournalEntry) {
        let arrival = RowArrival(at: call.at, key: call.key)
        var event: RowHash?
        for case .rowAdded(let person, let row) in call.changes {
            lastRow += 1
            let stored = StoredRow(number: RowNumber(rawValue: lastRow), person: person, row: row, previous: nil)
            if let hash = row.recognition {
                rows[hash] = NamedRow(stored: stored, arrival: arrival, derived: nil)
                event = row.kind == .event ? hash : nil
                continue
            }
            if row.kind.isDerived, let event, let known = rows[event] {
                rows[event] = NamedRow(stored: known.stored, arrival: arrival, derived: stored)
            }
            event = nil
        }
    }
}
