/// A note of the server before an erasure: rows that a split gave to another person become rows of this person in the store, and
/// their first copies lose their content. So the erasure of one person of a split leaves what is the other's, and takes and
/// counts all of its own (docs/decisions/0044).
package struct SettleRows: Act {
    /// A row as the store keeps it.
    package struct Item: Sendable {
        package let row: StoredRow
        /// The person that owns the row.
        package let owner: PersonID
    }

    package let items: [Item]
    /// The splits whose rows are all settled with this call.
    package let ends: [SplitID]
    /// The numbers of rows when a reader found the items. If they changed, the items may be settled already.
    package let stored: [PersonID: [RowKind: Int]]

    /// The limit of rows of one call.
    package static let rowsAtMost = 500

    package init(_ items: [Item], ends: [SplitID], stored: [PersonID: [RowKind: Int]]) {
        (self.items, self.ends, self.stored) = (items, ends, stored)
    }
}

extension SettleRows {
    package static var kinds: [ActKind] { [.settleRows] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects {
        Subjects(people: Set(items.map(\.row.person) + items.map(\.owner)).union(stored.keys).sorted())
    }
    package var byteCount: Int { items.reduce(256) { $0 + 64 + $1.row.row.body.count } }

    /// Supersedes the rows, and adds them to their owners. Throws `changedMeanwhile` if the people have other rows than the reader
    /// found.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<Done> {
        for (person, counts) in stored {
            for (kind, count) in counts where view.rowCount(of: person, kind) != count { throw .changedMeanwhile }
        }
        var changes: [Change] = []
        for item in items {
            guard view.person(item.row.person, in: project) != nil else { throw .changedMeanwhile }
            changes.append(.rowSuperseded(item.row.person, item.row.row.kind, item.row.number))
            if view.person(item.owner, in: project) != nil { changes.append(.rowAdded(item.owner, item.row.row)) }
        }
        if !ends.isEmpty {
            var routes = RowRoutes(view)
            for split in ends { routes.remove(split) }
            changes.append(routes.put)
        }
        if changes.isEmpty { return Decision(Done()) }
        return Decision(Done(), outcome: Outcome(kind: .settleRows, person: nil, changes: changes))
    }
}

/// The rows that an erasure must settle first, the oldest first, so that the order of rows stays.
package struct UnsettledRows: Sendable {
    private struct Row {
        let number: RowNumber
        let owner: PersonID
    }

    private let project: ProjectID
    private let splits: [SplitID]
    private var rows: ArraySlice<Row>

    private static let rowsReadAtOnce = 500

    /// Nil if no split in force gave rows to one of the people, or took rows from one.
    package init?(of members: [PersonID], in project: ProjectID, _ snapshot: any Snapshot) throws(StoreFault) {
        guard let routed = snapshot as? RoutedSnapshot else { return nil }
        let routes = RowRoutes(packed: try snapshot.document(RowRoutes.key)).splits(of: members)
        if routes.isEmpty { return nil }
        self.project = project
        splits = routes.map(\.split)
        let (wanted, erased) = (Set(splits), Set(members))
        var rows: [Row] = []
        for source in Set(routes.flatMap { routed.sources(of: $0.person) }).sorted() {
            for kind in RowKind.allCases where kind.isSplittable {
                var from: RowNumber?
                repeat {
                    let page = try routed.base.rows(of: source, kind, from: from, limit: UnsettledRows.rowsReadAtOnce)
                    for row in page {
                        guard let owner = try routed.owner(of: row.number, kind, at: source, by: wanted) else {
                            continue
                        }
                        if erased.contains(owner), erased.contains(source) { continue }
                        rows.append(Row(number: row.number, owner: owner))
                    }
                    from = page.last?.previous
                } while from != nil
            }
        }
        self.rows = rows.sorted { $0.number < $1.number }[...]
    }

    /// The next call. The last call ends the splits.
    package mutating func next(_ snapshot: any Snapshot) throws(StoreFault) -> SettleRows {
        let base = snapshot.physical
        let page = rows.prefix(SettleRows.rowsAtMost)
        rows = rows.dropFirst(SettleRows.rowsAtMost)
        let owners = Dictionary(uniqueKeysWithValues: page.map { ($0.number, $0.owner) })
        let items = try base.rows(page.map(\.number)).sorted { $0.number < $1.number }.compactMap { row in
            owners[row.number].map { SettleRows.Item(row: row, owner: $0) }
        }
        var stored: [PersonID: [RowKind: Int]] = [:]
        for person in Set(items.flatMap { [$0.row.person, $0.owner] }) {
            let counts = base.person(person, in: project)?.counts ?? [:]
            stored[person] = counts.filter { $0.key.isSplittable }
        }
        return SettleRows(items, ends: rows.isEmpty ? splits : [], stored: stored)
    }
}

extension Refusal {
    /// An erasure that would take rows of others with it.
    package static let rowsNotSettled = Refusal(
        .conflict, "split_in_force",
        "A split gave rows of this person to another person, or the other way round. "
            + "Erase the person by DELETE /onym/v1/people, or undo the split first.")
}

extension ActKind {
    package static let settleRows = ActKind(178, "settle_split_rows", undo: .never(.noteOfServer))
}
