import Domain
import Gateway
import HTTPMessage
import JSON

/// Looks for events, and keeps some or counts all. It looks at so many rows in one reading, so that others read between: what
/// a project has may be more than fits into memory, or into a moment.
struct EventSearch: Sendable {
    private let filter: EventReads.Filter
    private let project: ProjectID
    /// How many events are kept; nil where they are only counted.
    private let limit: Int?
    private(set) var events: [EventReads.Event] = []
    private(set) var count = 0
    /// The last row that was passed, behind which the next page begins.
    private(set) var place: RowsByTime.Place?
    /// Whether there may be more behind it.
    private(set) var hasMore = true
    private var lookedAt = 0

    private static let rowsAtOnce = 500
    private static let rowsInOneReading = 10_000
    /// One page looks at no more rows than this; behind a page with fewer events than asked for there may be more.
    private static let rowsForOnePage = 200_000
    /// The events of a user who has no more than this are looked at alone.
    private static let rowsOfOneUser = 2000

    init(_ filter: EventReads.Filter, _ project: ProjectID, keeping limit: Int?) {
        (self.filter, self.project, self.limit) = (filter, project, limit)
        place = filter.range.after
    }

    /// What a call does that answers with what was found.
    func step(_ answer: @escaping @Sendable (EventSearch) -> Response) -> Step {
        .read { snapshot throws(StoreFault) in
            var search = self
            return try search.goOn(snapshot) ? search.step(answer) : .answer(answer(search))
        }
    }

    /// Looks at some rows more; false when that is enough.
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

    /// All that is left of a few people's rows, in their order; nil where they are many.
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

    /// What an event says, where it is one that is looked for.
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
    /// Whoever a user is: those who hold the identity, and all who are one with them.
    func everybody(who user: IdentityKey) -> Set<PersonID> { Set(holders(of: user).flatMap { group(of: $0).members }) }
}
