import Domain
import JSON

/// The texts behind the numbers of a column. Runs have no texts, so the search notes a row for each number, and reads the row's
/// member at the end.
struct RunTexts: Sendable {
    private let member: String
    private var rows: [UInt64: RowNumber] = [:]

    /// - Parameter column: a column with the hashes of texts.
    init(_ column: RunColumn) {
        guard let member = column.member else { preconditionFailure("The column has no texts.") }
        self.member = member
    }

    func contains(_ number: UInt64) -> Bool { rows[number] != nil }

    /// Notes a row with a number.
    mutating func note(_ number: UInt64, _ row: Int64) { rows[number] = RowNumber(rawValue: row) }

    mutating func formUnion(_ other: RunTexts) { rows.merge(other.rows) { one, _ in one } }

    /// The texts of numbers; nil if one of the rows is gone.
    func texts(_ numbers: some Collection<UInt64>, _ snapshot: any Snapshot) throws(StoreFault) -> [UInt64: String]? {
        let wanted = numbers.compactMap { rows[$0] }
        let parser = JSONParser()
        var ofRows: [RowNumber: String] = [:]
        for row in try snapshot.rows(wanted) {
            ofRows[row.number] = try EventMembers.present(of: row.row, parser, snapshot)?[member]
        }
        var texts: [UInt64: String] = [:]
        for number in numbers {
            guard let text = rows[number].flatMap({ ofRows[$0] }) else { return nil }
            texts[number] = text
        }
        return texts
    }
}

extension RunTexts? {
    /// The texts of numbers; nil if one of the rows is gone. A column without texts has none.
    func texts(_ numbers: some Collection<UInt64>, _ snapshot: any Snapshot) throws(StoreFault) -> [UInt64: String]? {
        guard let self else { return [:] }
        return try self.texts(numbers, snapshot)
    }

    /// Adds the texts of other runs, if these have noted any.
    mutating func formUnion(_ other: RunTexts?) {
        guard let other else { return }
        if case nil = self { self = other } else { self?.formUnion(other) }
    }
}
