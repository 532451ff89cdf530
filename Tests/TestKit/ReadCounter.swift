import Domain
import Threads

/// Counts the rows, the documents and the calls that reads get from a store. The work of a read must not grow with the store
/// (docs/decisions/0052).
package final class ReadCounter: Sendable {
    package struct Work: Equatable, Sendable {
        package var rows = 0
        package var documents = 0
        package var calls = 0
        package var people = 0
    }

    private let counted = Monitor(Work())

    package init() {}

    /// What reads got since the last question.
    package func take() -> Work {
        counted.withLock { work in
            defer { work = Work() }
            return work
        }
    }

    fileprivate func add(rows: Int = 0, documents: Int = 0, calls: Int = 0, people: Int = 0) {
        counted.withLock { work in
            work.rows += rows
            work.documents += documents
            work.calls += calls
            work.people += people
        }
    }
}

/// The facts of a snapshot, which counts what it gives.
struct CountedSnapshot: LayeredSnapshot {
    let base: any Snapshot
    let counter: ReadCounter

    var derived: DerivedValues? { base.derived }

    func totals(of group: Group) throws(StoreFault) -> GroupTotals { try base.totals(of: group) }

    // MARK: - Rows

    func row(_ number: RowNumber) throws(StoreFault) -> StoredRow? {
        counter.add(rows: 1)
        return try base.row(number)
    }

    func rows(_ numbers: [RowNumber]) throws(StoreFault) -> [StoredRow] {
        let rows = try base.rows(numbers)
        counter.add(rows: rows.count)
        return rows
    }

    func rows(of person: PersonID, _ kind: RowKind, from: RowNumber?, limit: Int) throws(StoreFault) -> [StoredRow] {
        let rows = try base.rows(of: person, kind, from: from, limit: limit)
        counter.add(rows: rows.count)
        return rows
    }

    func rows(of kind: RowKind, in project: ProjectID, _ range: RowsByTime) throws(StoreFault) -> [StoredRow] {
        let rows = try base.rows(of: kind, in: project, range)
        counter.add(rows: rows.count)
        return rows
    }

    func rows(after number: RowNumber, limit: Int) throws(StoreFault) -> [(project: ProjectID, row: StoredRow)] {
        let rows = try base.rows(after: number, limit: limit)
        counter.add(rows: rows.count)
        return rows
    }

    // MARK: - Documents, calls and people

    func document(_ key: DocumentKey) throws(StoreFault) -> [UInt8]? {
        counter.add(documents: 1)
        return try base.document(key)
    }

    func documents(_ keys: [DocumentKey]) throws(StoreFault) -> [DocumentKey: [UInt8]] {
        counter.add(documents: keys.count)
        return try base.documents(keys)
    }

    func calls(after sequence: JournalSequence, limit: Int) throws(StoreFault) -> [RecordedCall] {
        let calls = try base.calls(after: sequence, limit: limit)
        counter.add(calls: calls.count)
        return calls
    }

    func callHeads(after sequence: JournalSequence, limit: Int) throws(StoreFault) -> [CallHead] {
        let heads = try base.callHeads(after: sequence, limit: limit)
        counter.add(calls: heads.count)
        return heads
    }

    func keys(of types: [IdentityType], heldBy people: [PersonID]) throws(StoreFault) -> [HeldKey] {
        counter.add(people: people.count)
        return try base.keys(of: types, heldBy: people)
    }

    func identities(of person: PersonID) throws(StoreFault) -> [HeldIdentity] {
        counter.add(people: 1)
        return try base.identities(of: person)
    }

    func groups(of people: [PersonID]) throws(StoreFault) -> [PersonID: Group] { try base.groups(of: people) }
}
