/// The committed facts with the rows of each split shown at the person that has them now. The store keeps a row with the person of
/// its call, and this snapshot names its owner (docs/decisions/0044).
package final class RoutedSnapshot: LayeredSnapshot {
    /// The rows of one kind that a person owns, as a merge of the chains of the people with whom the store keeps them.
    private struct Walk {
        struct Chain {
            let person: PersonID
            var read: ArraySlice<StoredRow> = []
            var from: RowNumber?
            var isAtEnd = false
            /// The rows of others since the last row that the person owns.
            var othersRows = 0
        }

        var chains: [Chain]
        /// A row that was read and not shown.
        var pending: StoredRow?
    }

    private struct Place: Hashable {
        let person: PersonID
        let kind: RowKind
    }

    /// The facts with each row at the person of its call.
    package let base: any Snapshot
    private let routes: [RowRoutes.Route]
    private var sets: [SplitID: SplitRows] = [:]
    private var walks: [Place: Walk] = [:]
    /// The numbers of rows of people that were asked for.
    private var known: [PersonID: [RowKind: Int]] = [:]

    private static let rowsReadAtOnce = 200
    /// After so many rows of others a walk asks the journal for the next row that the person owns.
    private static let othersRowsReadAtMost = 1000
    /// The rows of a person that a count looks at. Beyond it the count of a split is the count at the moment of the split, without
    /// the rows that retention removed since.
    private static let rowsCountedAtMost = 2000

    private init(_ base: any Snapshot, _ routes: [RowRoutes.Route]) {
        self.base = base
        self.routes = routes
    }

    /// The same facts with rows at their owners.
    package static func over(_ base: any Snapshot) throws(StoreFault) -> any Snapshot {
        guard let packed = try base.document(RowRoutes.key) else { return base }
        let routes = RowRoutes(packed: packed).routes
        return routes.isEmpty ? base : RoutedSnapshot(base, routes)
    }

    // MARK: - Owners

    private func rows(of split: SplitID) throws(StoreFault) -> SplitRows {
        if let known = sets[split] { return known }
        let rows = try base.document(split.documentKey).flatMap(Split.init(packed:))?.rows
        let set = rows ?? SplitRows(ranges: [], counts: [:])
        sets[split] = set
        return set
    }

    /// The person that owns a row of a person of the store.
    package func owner(of row: RowNumber, _ kind: RowKind, at person: PersonID) throws(StoreFault) -> PersonID {
        guard kind.isSplittable else { return person }
        var owner = person
        for route in routes where route.person == owner {
            if try rows(of: route.split).contains(row) { owner = route.into }
        }
        return owner
    }

    /// The person that owns a row, if one of some splits gave the row to another person; nil for other rows.
    func owner(
        of row: RowNumber, _ kind: RowKind, at person: PersonID, by splits: Set<SplitID>
    ) throws(StoreFault) -> PersonID? {
        guard kind.isSplittable else { return nil }
        var (owner, isOfSplits) = (person, false)
        for route in routes where route.person == owner {
            guard try rows(of: route.split).contains(row) else { continue }
            owner = route.into
            if splits.contains(route.split) { isOfSplits = true }
        }
        return isOfSplits ? owner : nil
    }

    /// The people with whom the store may keep rows that a person owns: the person itself first.
    package func sources(of person: PersonID) -> [PersonID] {
        var sources = [person]
        for route in routes.reversed() where sources.contains(route.into) && !sources.contains(route.person) {
            sources.append(route.person)
        }
        return sources
    }

    private func owned(_ row: StoredRow) throws(StoreFault) -> StoredRow {
        let owner = try owner(of: row.number, row.row.kind, at: row.person)
        if owner == row.person { return row }
        return StoredRow(number: row.number, person: owner, row: row.row, previous: row.previous)
    }

    private func owned(_ rows: [StoredRow]) throws(StoreFault) -> [StoredRow] {
        var shown: [StoredRow] = []
        shown.reserveCapacity(rows.count)
        for row in rows { shown.append(try owned(row)) }
        return shown
    }

    /// Whether splits in force moved rows of a kind.
    package func hasRoutes(of kind: RowKind) -> Bool { routes.contains { $0.counts[kind] ?? 0 > 0 } }

    // MARK: - Rows of a person

    package func rows(
        of person: PersonID, _ kind: RowKind, from: RowNumber?, limit: Int
    ) throws(StoreFault) -> [StoredRow] {
        let sources = kind.isSplittable ? sources(of: person) : [person]
        guard sources.count > 1 || kind.isSplittable && routes.contains(where: { $0.person == person }) else {
            return try base.rows(of: person, kind, from: from, limit: limit)
        }
        let place = Place(person: person, kind: kind)
        var walk: Walk
        if let known = walks[place], let from, known.pending?.number == from {
            walk = known
        } else {
            // The chain of the row continues there. Only the other chains, which have no row with this number, begin at their ends.
            var start: StoredRow?
            if let from { start = try base.row(from) }
            walk = Walk(
                chains: sources.map { source in
                    let isStart = start?.person == source && start?.row.kind == kind
                    return Walk.Chain(person: source, from: isStart ? from : nil)
                })
        }
        var found: [StoredRow] = []
        while found.count < limit, let row = try next(&walk, person, kind) {
            if let from, row.number > from { continue }
            found.append(row)
        }
        walk.pending = found.count == limit ? try next(&walk, person, kind) : nil
        walks[place] = walk
        return found.enumerated().map { place, row in
            let previous = place + 1 < found.count ? found[place + 1].number : walk.pending?.number
            return StoredRow(number: row.number, person: person, row: row.row, previous: previous)
        }
    }

    /// The next row of a walk that the person owns.
    private func next(_ walk: inout Walk, _ person: PersonID, _ kind: RowKind) throws(StoreFault) -> StoredRow? {
        if let row = walk.pending {
            walk.pending = nil
            return row
        }
        while true {
            var newest: (chain: Int, number: RowNumber)?
            for index in walk.chains.indices {
                if walk.chains[index].read.isEmpty, !walk.chains[index].isAtEnd {
                    let chain = walk.chains[index]
                    let rows = try base.rows(
                        of: chain.person, kind, from: chain.from, limit: RoutedSnapshot.rowsReadAtOnce)
                    walk.chains[index].read = rows[...]
                    walk.chains[index].from = rows.last?.previous
                    walk.chains[index].isAtEnd = rows.last?.previous == nil
                }
                guard let number = walk.chains[index].read.first?.number else { continue }
                if newest.map({ $0.number < number }) ?? true { newest = (index, number) }
            }
            guard let newest, let row = walk.chains[newest.chain].read.popFirst() else { return nil }
            if try owner(of: row.number, kind, at: row.person) == person {
                walk.chains[newest.chain].othersRows = 0
                return row
            }
            walk.chains[newest.chain].othersRows += 1
            if walk.chains[newest.chain].othersRows == RoutedSnapshot.othersRowsReadAtMost {
                try skip(&walk.chains[newest.chain], before: row.number, to: person, kind)
            }
        }
    }

    /// Takes a chain to the next row that a person owns, by the person's journal. The chain stays where it is if rows came by calls
    /// that the journal of their person does not have, or if rows are gone.
    private func skip(
        _ chain: inout Walk.Chain, before row: RowNumber, to person: PersonID, _ kind: RowKind
    ) throws(StoreFault) {
        chain.othersRows = 0
        guard let route = routes.first(where: { $0.person == chain.person }),
            let project = try split(route.split)?.project
        else { return }
        let (trace, end) = (try PersonTrace(of: chain.person, base), try base.lastCall())
        guard trace.rows(of: kind, upTo: end) == base.person(chain.person, in: project)?.counts[kind] else { return }
        for visit in trace.visits.reversed() where visit.call <= end {
            guard let first = visit.firstRow, first < row, let count = trace.rows(of: visit)[kind],
                try owner(of: first, kind, at: chain.person) == person
            else { continue }
            (chain.read, chain.isAtEnd) = ([], false)
            chain.from = try last(count, of: chain.person, kind, since: first, before: row)
            chain.isAtEnd = chain.from == nil
            return
        }
        (chain.read, chain.isAtEnd) = ([], true)
    }

    /// The last of so many rows of a person and kind that one call added.
    private func last(
        _ count: Int, of person: PersonID, _ kind: RowKind, since first: RowNumber, before end: RowNumber
    ) throws(StoreFault) -> RowNumber? {
        var (after, left, last) = (RowNumber(rawValue: first.rawValue - 1), count, RowNumber?.none)
        while left > 0, after < end {
            let page = try base.rows(after: after, limit: RoutedSnapshot.rowsReadAtOnce)
            for (_, row) in page where left > 0 && row.number < end && row.person == person && row.row.kind == kind {
                (last, left) = (row.number, left - 1)
            }
            guard let next = page.last?.row.number else { break }
            after = next
        }
        return last
    }

    // MARK: - Counts

    package func person(_ id: PersonID, in project: ProjectID) -> PersonSummary? {
        guard let summary = base.person(id, in: project) else { return nil }
        guard routes.contains(where: { $0.person == id || $0.into == id }) else { return summary }
        return PersonSummary(id: id, lastSeen: summary.lastSeen, counts: counts(of: id, in: project))
    }

    private func counts(of person: PersonID, in project: ProjectID) -> [RowKind: Int] {
        if let known = known[person] { return known }
        var counts = base.person(person, in: project)?.counts ?? [:]
        let sources = sources(of: person)
        for kind in RowKind.allCases where kind.isSplittable {
            let stored = sources.map { base.person($0, in: project)?.counts[kind] ?? 0 }.reduce(0, +)
            if stored == 0 { continue }
            var shown = (counts[kind] ?? 0) + change(of: [person], kind)
            if stored <= RoutedSnapshot.rowsCountedAtMost {
                do throws(StoreFault) {
                    shown = try rows(of: person, kind, from: nil, limit: stored).count
                } catch {
                    // This question has no answer for a fault. The count of the split is near, and a read of the rows meets
                    // the fault again.
                }
            }
            counts[kind] = shown > 0 ? shown : nil
        }
        known[person] = counts
        return counts
    }

    /// The rows that splits brought to some people, without those that splits took from them.
    private func change(of people: Set<PersonID>, _ kind: RowKind) -> Int {
        routes.reduce(0) { sum, route in
            let count = route.counts[kind] ?? 0
            return sum + (people.contains(route.into) ? count : 0) - (people.contains(route.person) ? count : 0)
        }
    }

    package func totals(of group: Group) throws(StoreFault) -> GroupTotals {
        var totals = try base.totals(of: group)
        let members = group.members
        let known = Set(members)
        let crossing = routes.filter { known.contains($0.person) != known.contains($0.into) }
        guard let first = crossing.first else { return totals }
        let project = try split(first.split)?.project
        for kind in RowKind.allCases where kind.isSplittable {
            var shown = totals.rows[kind] ?? 0
            for member in members where crossing.contains(where: { $0.person == member || $0.into == member }) {
                guard let project else { continue }
                shown -= base.person(member, in: project)?.counts[kind] ?? 0
                shown += counts(of: member, in: project)[kind] ?? 0
            }
            totals.rows[kind] = shown > 0 ? shown : nil
        }
        return totals
    }

    private func split(_ id: SplitID) throws(StoreFault) -> Split? {
        try base.document(id.documentKey).flatMap(Split.init(packed:))
    }

    // MARK: - Other rows

    package func row(_ number: RowNumber) throws(StoreFault) -> StoredRow? {
        guard let row = try base.row(number) else { return nil }
        return try owned(row)
    }

    package func rows(_ numbers: [RowNumber]) throws(StoreFault) -> [StoredRow] { try owned(try base.rows(numbers)) }

    package func recentRow(_ recognition: RowHash) throws(StoreFault) -> StoredRow? {
        guard let row = try base.recentRow(recognition) else { return nil }
        return try owned(row)
    }

    package func rows(
        of kind: RowKind, in project: ProjectID, _ range: RowsByTime
    ) throws(StoreFault) -> [StoredRow] {
        try owned(try base.rows(of: kind, in: project, range))
    }

    package func rows(after number: RowNumber, limit: Int) throws(StoreFault) -> [(project: ProjectID, row: StoredRow)]
    {
        var shown: [(project: ProjectID, row: StoredRow)] = []
        for (project, row) in try base.rows(after: number, limit: limit) { shown.append((project, try owned(row))) }
        return shown
    }

    // MARK: - Questions about many, which the store answers at once

    package func groups(of people: [PersonID]) throws(StoreFault) -> [PersonID: Group] { try base.groups(of: people) }
    package func documents(_ keys: [DocumentKey]) throws(StoreFault) -> [DocumentKey: [UInt8]] {
        try base.documents(keys)
    }
}

extension Snapshot {
    /// The facts with each row at the person of its call.
    package var physical: any Snapshot { (self as? RoutedSnapshot)?.base ?? self }

    /// Whether splits in force moved rows of a kind, so that the people of rows differ from those in runs.
    package func hasRoutes(of kind: RowKind) -> Bool { (self as? RoutedSnapshot)?.hasRoutes(of: kind) ?? false }
}
