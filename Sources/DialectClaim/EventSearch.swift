import Domain
import Gateway
import HTTPMessage
import JSON

/// Searches for events, and keeps or counts them. One reading looks at a limited number of rows, so that other readings run
/// in between: a project can have more rows than fit into memory.
struct EventSearch: Sendable {
    private let filter: EventReads.Filter
    private let project: ProjectID
    /// The greatest number of kept events; nil if the search only counts.
    private let limit: Int?
    private(set) var events: [EventReads.Event] = []
    private(set) var count = 0
    /// The last row that the search passed; the next page begins after it.
    private(set) var place: RowsByTime.Place?
    /// Whether more rows may follow.
    private(set) var hasMore = true
    private var lookedAt = 0

    private static let rowsAtOnce = 500
    private static let rowsInOneReading = 10_000
    /// The greatest number of rows that one page looks at. A page with fewer events than asked for can have a next page.
    private static let rowsForOnePage = 200_000
    /// A user with at most this many rows is searched alone, without the other users' rows.
    private static let rowsOfOneUser = 2000

    init(_ filter: EventReads.Filter, _ project: ProjectID, keeping limit: Int?) {
        (self.filter, self.project, self.limit) = (filter, project, limit)
        place = filter.range.after
    }

    /// Makes the step of a call that answers with the search's result.
    func step(_ answer: @escaping @Sendable (EventSearch) -> Response) -> Step {
        .read { snapshot throws(StoreFault) in
            var search = self
            return try search.goOn(snapshot) ? search.step(answer) : .answer(answer(search))
        }
    }

    /// Looks at further rows; false when the search is complete.
    private mutating func goOn(_ snapshot: any Snapshot) throws(StoreFault) -> Bool {
        let parser = JSONParser()
        var users = UserNames(project)
        let people = filter.user.map { snapshot.everybody(who: $0) }
        let own = if let people { try rows(of: people, snapshot) } else { [StoredRow]?.none }
        let end = lookedAt + EventSearch.rowsInOneReading
        while hasMore, lookedAt < end {
            let page = if let own { own } else { try nextRows(snapshot) }
            for row in page {
                if people?.contains(row.person) ?? true, let found = try members(of: row, parser, snapshot) {
                    if events.count == limit { return false }
                    count += 1
                    if limit != nil {
                        let name = try users.name(of: row.person, snapshot)
                        events.append(EventReads.Event(stored: row, members: found, userID: name))
                    }
                }
                place = RowsByTime.Place(at: row.row.at, number: row.number)
            }
            lookedAt += page.count
            hasMore = own == nil && page.count == EventSearch.rowsAtOnce
        }
        return hasMore && (limit == nil || lookedAt < EventSearch.rowsForOnePage)
    }

    private func nextRows(_ snapshot: any Snapshot) throws(StoreFault) -> [StoredRow] {
        var range = filter.range
        (range.after, range.limit) = (place, EventSearch.rowsAtOnce)
        return try snapshot.rows(of: .event, in: project, range)
    }

    /// All remaining rows of a few people, in order; nil if the rows are many.
    private func rows(of people: Set<PersonID>, _ snapshot: any Snapshot) throws(StoreFault) -> [StoredRow]? {
        let counts = people.map { snapshot.person($0, in: project)?.counts[.event] ?? 0 }
        guard counts.reduce(0, +) <= EventSearch.rowsOfOneUser else { return nil }
        var rows: [StoredRow] = []
        for person in people {
            rows += try snapshot.rows(of: person, .event, from: nil, limit: EventSearch.rowsOfOneUser)
        }
        func key(_ row: StoredRow) -> (Int64, Int64) { (row.row.at.milliseconds, row.number.rawValue) }
        let range = filter.range
        let left = rows.filter { row in
            if let since = range.since, row.row.at < since { return false }
            if let until = range.until, row.row.at >= until { return false }
            guard let place else { return true }
            let passed = (place.at.milliseconds, place.number.rawValue)
            return range.isAscending ? key(row) > passed : key(row) < passed
        }
        return left.sorted { range.isAscending ? key($0) < key($1) : key($0) > key($1) }
    }

    /// The members of an event, if the search asks for this event.
    private func members(
        of row: StoredRow, _ parser: JSONParser, _ snapshot: any Snapshot
    ) throws(StoreFault) -> EventMembers? {
        guard let members = EventMembers(try snapshot.body(of: row.row), parser) else { return nil }
        if let app = filter.app, members.app != app { return nil }
        if let isDevelopment = filter.isDevelopment, members.isDevelopment != isDevelopment { return nil }
        if let levels = filter.levels, !levels.contains(members["level"] ?? "") { return nil }
        for (name, value) in filter.equal where members[name] != value { return nil }
        return members
    }
}

extension Snapshot {
    /// All people of a user: the holders of the identity, and all members of their groups.
    func everybody(who user: IdentityKey) -> Set<PersonID> { Set(holders(of: user).flatMap { group(of: $0).members }) }
}
