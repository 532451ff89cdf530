/// The facts that calls made and ended, by call, as a store reads them. The order is the order of the cases in
/// ``RecordedCall/Fact``.
package struct FactsOfCalls {
    private struct Rows: Hashable {
        let call: Int64
        let person: PersonID
        let kind: RowKind
    }

    private var facts: [Int64: [RecordedCall.Fact]] = [:]
    private var places: [Rows: Int] = [:]

    package init() {}

    package subscript(call: Int64) -> [RecordedCall.Fact] { facts[call] ?? [] }

    package mutating func add(_ fact: RecordedCall.Fact, of call: Int64) { facts[call, default: []].append(fact) }

    /// Adds a row. The rows of one person and kind in one call are one fact. A kind that this version does not know is
    /// skipped.
    package mutating func addRow(of call: Int64, _ person: PersonID, kind: Int64, body: @autoclosure () -> [UInt8]?) {
        guard let kind = RowKind(rawValue: UInt8(truncatingIfNeeded: kind)) else { return }
        let rows = Rows(call: call, person: person, kind: kind)
        let told = kind.isTold ? [body() ?? []] : []
        if let place = places[rows], case .rowsAdded(_, _, let count, let bodies) = facts[call]?[place] {
            facts[call]?[place] = .rowsAdded(person, kind, count: count + 1, bodies: bodies + told)
            return
        }
        places[rows] = self[call].count
        add(.rowsAdded(person, kind, count: 1, bodies: told), of: call)
    }

    /// Adds a document. A kind that this version does not know is skipped.
    package mutating func addDocument(of call: Int64, _ person: PersonID, kind: Int64) {
        guard let kind = DocumentKind(rawValue: UInt8(truncatingIfNeeded: kind)), !kind.isDerived else { return }
        add(.documentPut(person, kind), of: call)
    }
}
