/// The facts that calls made and ended, by call, as a store reads them. The order is the order of the cases in
/// ``RecordedCall/Fact``. A store calls ``endRows()`` after the last row.
package struct FactsOfCalls {
    /// Rows of one person and kind in one call.
    private struct Rows: Hashable {
        let call: Int64
        let person: PersonID
        let kind: RowKind
    }

    private var facts: [Int64: [RecordedCall.Fact]] = [:]
    private var firstRows: [Int64: RowNumber] = [:]
    private var places: [Rows: Int] = [:]
    /// The rows that came last. Mostly the next row is of the same call, person and kind.
    private var run: (rows: Rows, count: Int, bodies: [[UInt8]])?

    package init() {}

    package subscript(call: Int64) -> [RecordedCall.Fact] { facts[call] ?? [] }

    /// The first row of a call; nil if the call added no row.
    package func firstRow(of call: Int64) -> RowNumber? { firstRows[call] }

    package mutating func add(_ fact: RecordedCall.Fact, of call: Int64) { facts[call, default: []].append(fact) }

    /// Adds a row. The rows of one person and kind in one call are one fact. A kind that this version does not know is
    /// skipped.
    package mutating func addRow(
        _ number: RowNumber, of call: Int64, _ person: PersonID, kind: Int64, body: @autoclosure () -> [UInt8]?
    ) {
        let kind = RowKind(rawValue: UInt8(truncatingIfNeeded: kind))
        if let kind, let last = run?.rows, last.call == call, last.person == person, last.kind == kind {
            run?.count += 1
            if kind.isTold { run?.bodies.append(body() ?? []) }
            return
        }
        endRows()
        if firstRows[call] == nil { firstRows[call] = number }
        guard let kind else { return }
        run = (Rows(call: call, person: person, kind: kind), 1, kind.isTold ? [body() ?? []] : [])
    }

    /// Makes a fact of the rows that came last.
    package mutating func endRows() {
        guard let (rows, count, bodies) = run else { return }
        run = nil
        if let place = places[rows], case .rowsAdded(_, _, let known, let told) = facts[rows.call]?[place] {
            facts[rows.call]?[place] = .rowsAdded(rows.person, rows.kind, count: known + count, bodies: told + bodies)
            return
        }
        places[rows] = self[rows.call].count
        add(.rowsAdded(rows.person, rows.kind, count: count, bodies: bodies), of: rows.call)
    }

    /// Adds a document. A kind that this version does not know is skipped.
    package mutating func addDocument(of call: Int64, _ person: PersonID, kind: Int64) {
        guard let kind = DocumentKind(rawValue: UInt8(truncatingIfNeeded: kind)), !kind.isDerived else { return }
        add(.documentPut(person, kind), of: call)
    }
}
