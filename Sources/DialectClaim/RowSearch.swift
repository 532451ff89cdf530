import Domain
import Gateway
import HTTPMessage
import JSON

/// The result of a search, which takes the found rows one after the other.
protocol RowFinding: Sendable {
    /// Takes the next row, and may read other facts about it. Returns false if the finding is complete and needs no further row.
    mutating func take(_ row: FoundRow, _ snapshot: any Snapshot) throws(StoreFault) -> Bool

    /// The number of rows that the search reads at once. A page needs few rows.
    var rowsAtOnce: Int { get }

    /// Whether the finding can take the columns of runs instead of rows.
    static var takesColumns: Bool { get }

    /// Takes the matching rows of a run. Returns false if the run is replaced; then the finding is as before.
    mutating func take(
        _ run: RowRun, _ match: RunMatch, _ snapshot: any Snapshot
    ) throws(StoreFault) -> Bool

    /// What the finding gathers, if findings of different runs add up to the finding of all runs: then the server keeps the findings of
    /// old runs, each under its name (docs/decisions/0070). Nil if they do not add up.
    var sumName: [UInt8]? { get }

    /// Whether the server also keeps the findings of blocks of runs, for searches in a part of all time. Such findings are small.
    static var keepsBlocks: Bool { get }

    /// Adds a finding of other runs, which is not finished.
    mutating func add(_ other: Self)

    /// Brings the finding into the form in which the server keeps it.
    mutating func settle()

    /// The bytes of the finding in memory.
    var byteCount: Int { get }

    /// Goes on with the completion of the finding after the last run. Each call is one reading, and takes a few milliseconds at most.
    mutating func finish(in project: ProjectID, _ snapshot: any Snapshot) throws(StoreFault) -> FindingEnd
}

/// The state of a finding after its last run.
enum FindingEnd {
    case complete
    /// The next reading goes on.
    case unfinished
    /// A row that the finding needs is gone, so the search begins again.
    case outdated
}

extension RowFinding {
    var rowsAtOnce: Int { 10_000 }
    static var takesColumns: Bool { false }
    var sumName: [UInt8]? { nil }
    static var keepsBlocks: Bool { false }
    mutating func settle() {}
    var byteCount: Int { 0 }
    mutating func add(_ other: Self) { preconditionFailure("Findings of this type do not add up.") }
    mutating func take(_ run: RowRun, _ match: RunMatch, _ snapshot: any Snapshot) throws(StoreFault) -> Bool {
        preconditionFailure("The finding takes rows only.")
    }
    mutating func finish(in project: ProjectID, _ snapshot: any Snapshot) throws(StoreFault) -> FindingEnd {
        .complete
    }
}

/// A row that a search has found.
struct FoundRow: Sendable {
    let stored: StoredRow
    let members: EventMembers
    /// The user that readers see; nil for a row without a user.
    let user: ShownUser?
}

/// Searches the rows of a kind, and gives them to a finding. It finds them in the columns of runs, and in the rows themselves
/// while most rows are in no run (docs/decisions/0028). One reading looks at a limited number of rows, so that other
/// readings run in between: a project can have more rows than fit into memory. A search ends with the last row, and not
/// before.
struct RowSearch<Finding: RowFinding>: Sendable {
    private let filter: RowFilter
    private let kind: RowKind
    private(set) var finding: Finding
    /// The last row that the search passed.
    private var place: RowsByTime.Place?
    private var isComplete: Bool
    /// The finding before the search, for a search that begins again.
    private let empty: Finding
    private var way: Way?
    /// What the first reading of columns saw.
    private var moment: RunReading.Moment?
    /// The people of the user at the first reading of columns; nil before it. A claim in between changes no count.
    private var own: [UInt64]?
    /// The first row number that the finding has not taken from runs.
    private var start: Int64 = 0
    /// The runs whose finding the search may keep, while it takes them.
    private var stretch: Stretch?
    /// Whether the finding has taken all runs, and is being completed.
    private var isFinishing = false
    /// Whether an earlier reading has begun. The first one waits in the queue of small reads, so it does little.
    private var hasBegun = false
    /// How often the search has begun again because rows were gone.
    private var restarts = 0

    /// Runs that follow each other, and whose rows all count: ``finding`` is theirs alone.
    private struct Stretch: Sendable {
        /// The finding of the runs before; nil for none.
        let before: Finding?
        var heads: [RunHead] = []
    }

    /// Where a search finds rows.
    private enum Way {
        case rows
        case runs
    }

    private static var rowsAtOnce: Int { 500 }
    private static var rowsInOneReading: Int { 10_000 }
    /// One reading takes a few milliseconds at most.
    private static var columnsInOneReading: Int { 1 << 18 }
    private static var columnsInFirstReading: Int { 1 << 14 }
    /// The cost of a run without matching rows, in rows.
    private static var costOfRun: Int { 512 }
    /// The bytes of a kept finding that cost as much as a row when they are added.
    private static var bytesLikeRow: Int { 32 }
    /// A run can be replaced while a search reads it. Then the search reads the list of runs again.
    private static var attempts: Int { 5 }
    /// Without runs, a user with at most this many rows is searched alone, without the other users' rows.
    private static var rowsOfOneUser: Int { 2000 }
    /// A user with so few rows and people is always searched alone.
    private static var rowsOfSmallUser: Int { 200 }
    private static var peopleOfSmallUser: Int { 16 }

    init(_ kind: RowKind, _ filter: RowFilter, _ finding: Finding) {
        (self.kind, self.filter, self.finding, empty) = (kind, filter, finding, finding)
        place = filter.range.after
        isComplete = filter.isEmpty
    }

    /// Makes the step of a call that answers with the finding.
    func step(
        _ answer: @escaping @Sendable (Finding, any Snapshot) throws(StoreFault) -> Response
    ) -> Step {
        .read { snapshot throws(StoreFault) in
            var search = self
            return try search.goOn(snapshot)
                ? search.step(answer).later : .answer(try answer(search.finding, snapshot))
        }
    }

    /// Makes the step of a call that continues with the finding.
    func then(_ next: @escaping @Sendable (Finding) -> Step) -> Step {
        .read { snapshot throws(StoreFault) in
            var search = self
            return try search.goOn(snapshot) ? search.then(next).later : next(search.finding)
        }
    }

    /// Looks at further rows; false when the search is complete.
    private mutating func goOn(_ snapshot: any Snapshot) throws(StoreFault) -> Bool {
        if isComplete { return false }
        defer { hasBegun = true }
        if isFinishing, let isMore = try finish(snapshot) { return isMore }
        let parser = JSONParser()
        var users = UserNames(filter.project)
        let people = filter.user.map { snapshot.everybody(who: $0) }
        // The people of rows in runs are those of the calls.
        if snapshot.hasRoutes(of: kind) { turnToRows() }
        // The rows of a user with few rows are read faster than the user is found in all runs.
        if way == nil, let people, people.count <= RowSearch.peopleOfSmallUser,
            let rows = try rows(of: people, atMost: RowSearch.rowsOfSmallUser, snapshot)
        {
            _ = try look(at: rows, people, &users, parser, snapshot)
            return false
        }
        if way != .rows {
            for _ in 0..<RowSearch.attempts where way != .rows {
                let begun = try RunReading(kind, in: filter.project, isBegun: way == .runs, as: moment, snapshot)
                guard var reading = begun else {
                    turnToRows()
                    break
                }
                way = .runs
                if let isMore = try goOn(&reading, people, &users, parser, snapshot) { return isMore }
            }
            // The list still has a run that cannot be read. The rows answer until the server has made the run again.
            turnToRows()
        }
        if let people, let rows = try rows(of: people, atMost: RowSearch.rowsOfOneUser, snapshot) {
            _ = try look(at: rows, people, &users, parser, snapshot)
            return false
        }
        var lookedAt = 0
        while lookedAt < RowSearch.rowsInOneReading {
            var range = filter.range
            (range.after, range.limit) = (place, RowSearch.rowsAtOnce)
            let page = try snapshot.rows(of: kind, in: filter.project, range)
            guard try look(at: page, people, &users, parser, snapshot), page.count == RowSearch.rowsAtOnce else {
                return false
            }
            place = page.last.map { RowsByTime.Place(at: $0.row.at, number: $0.number) }
            lookedAt += page.count
        }
        return true
    }

    /// Looks at further runs; false when the search is complete, and nil if a run is replaced.
    private mutating func goOn(
        _ reading: inout RunReading, _ people: Set<PersonID>?, _ users: inout UserNames, _ parser: JSONParser,
        _ snapshot: any Snapshot
    ) throws(StoreFault) -> Bool? {
        var conditions = filter.conditions(kind, snapshot.hash)
        if let people, let wanted = filter.user {
            var own = self.own ?? []
            for person in self.own == nil ? people : [] where try users.user(of: person, snapshot)?.key == wanted {
                own.append(UInt64(bitPattern: person.rawValue))
            }
            if Finding.takesColumns, conditions.isComplete { self.own = own }
            conditions.columns.append((.person, own))
        }
        if Finding.takesColumns, conditions.isComplete {
            if try beginsAgain(&reading) { return nil }
            return try goOnInColumns(&reading, conditions, snapshot)
        }
        var range = filter.range
        (range.after, range.limit) = (place, finding.rowsAtOnce)
        guard let page = try reading.page(conditions, range) else { return nil }
        let order = Dictionary(uniqueKeysWithValues: page.enumerated().map { ($1.number, $0) })
        let rows = try snapshot.rows(page.map(\.number)).sorted { order[$0.number] ?? 0 < order[$1.number] ?? 0 }
        guard try look(at: rows, people, &users, parser, snapshot), page.count == range.limit else { return false }
        place = page.last
        return true
    }

    /// Begins again if rows that the search must still take are gone. Otherwise notes what the first reading sees.
    private mutating func beginsAgain(_ reading: inout RunReading) throws(StoreFault) -> Bool {
        if try reading.hasLost(from: start) {
            beginAgain()
            restarts += 1
            return true
        }
        if moment == nil { moment = try reading.asMoment() }
        return false
    }

    /// The columns that a reading looks at. A search that has begun again several times looks at all columns in one reading, so that
    /// nothing can happen in between.
    private var columnsAtMost: Int { restarts < RowSearch.attempts ? RowSearch.columnsInOneReading : .max }

    /// Looks at the columns of further runs; false when the search is complete, and nil if a run is replaced.
    private mutating func goOnInColumns(
        _ reading: inout RunReading, _ conditions: RunConditions, _ snapshot: any Snapshot
    ) throws(StoreFault) -> Bool? {
        let sums = try empty.sumName.flatMap { name throws(StoreFault) in
            try RunSums<Finding>(name, conditions, filter.range, &reading, snapshot)
        }
        var lookedAt = 0
        var next = reading.runs.firstIndex { $0.head.end > start } ?? reading.runs.count
        while next < reading.runs.count {
            guard lookedAt < columnsAtMost else { return true }
            let first = next
            // Runs can become one long run between two readings, and then the search has counted some of its rows already.
            let isWhole = reading.runs[next].head.first >= start
            if !isWhole {
                endStretch()
            } else if let whole = sums?.whole, next == whole.lowerBound, stretch == nil {
                stretch = Stretch(before: next == 0 ? nil : finding)
                finding = empty
            }
            if isWhole, let sum = sums?.known(from: next) {
                let cost = RowSearch.costOfRun + sum.finding.byteCount / RowSearch.bytesLikeRow
                if isTooMuch(cost, after: lookedAt) { return true }
                // The kept finding can be that of another query, so it does not replace the finding of this one.
                finding.add(sum.finding)
                next += sum.runs
                lookedAt += cost
            } else if isTooMuch(
                Int(reading.runs[next].head.end - max(start, reading.runs[next].head.first)), after: lookedAt)
            {
                return true
            } else if Finding.keepsBlocks, isWhole, let sums, let runs = sums.block(from: next) {
                var sum = empty
                for run in reading.runs[next..<next + runs] {
                    guard let looked = try take(run, conditions, &reading, into: &sum, snapshot) else { return nil }
                    lookedAt += looked
                }
                sums.keep(sum, from: next)
                finding.add(sum)
                next += runs
            } else {
                let run = reading.runs[next]
                guard let looked = try take(run, conditions, &reading, into: &finding, snapshot) else { return nil }
                lookedAt += looked
                next += 1
            }
            start = reading.runs[next - 1].head.end
            stretch?.heads += reading.runs[first..<next].map(\.head)
            if let sums, next == sums.whole?.upperBound, let stretch {
                finding.settle()
                sums.keepWhole(finding, of: stretch.heads)
                endStretch()
            }
        }
        endStretch()
        isFinishing = true
        return try finish(snapshot)
    }

    /// Whether some rows are too many for the first reading.
    private func isTooMuch(_ rows: Int, after lookedAt: Int) -> Bool {
        !hasBegun && lookedAt + rows > RowSearch.columnsInFirstReading
    }

    /// Goes on with the completion of the finding; false when it is complete, and nil if the search begins again.
    private mutating func finish(_ snapshot: any Snapshot) throws(StoreFault) -> Bool? {
        switch try finding.finish(in: filter.project, snapshot) {
        case .complete: return false
        case .unfinished: return true
        case .outdated:
            // A text can come from a row that is gone, also in a sum.
            snapshot.derived?.sums?.removeAll()
            beginAgain()
            restarts += 1
            if restarts >= RowSearch.attempts { turnToRows() }
            return nil
        }
    }

    /// Puts the finding of a stretch to that of the runs before it.
    private mutating func endStretch() {
        if var sum = stretch?.before {
            sum.add(finding)
            finding = sum
        }
        stretch = nil
    }

    /// Searches the rows from now on. It reads all rows again, because a position in runs says nothing about a position in the rows.
    private mutating func turnToRows() {
        if way == .runs, start > 0 { beginAgain() }
        way = .rows
    }

    private mutating func beginAgain() {
        (finding, place, start, stretch, isFinishing) = (empty, filter.range.after, 0, nil, false)
        (moment, own) = (nil, nil)
    }

    /// Gives the matching rows of a run to a finding.
    ///
    /// - Returns: the cost in rows; nil if the run is replaced.
    private func take(
        _ run: RowRun, _ conditions: RunConditions, _ reading: inout RunReading, into finding: inout Finding,
        _ snapshot: any Snapshot
    ) throws(StoreFault) -> Int? {
        guard let match = try reading.match(run, conditions, filter.range, from: start) else { return nil }
        if match.count > 0, try !finding.take(run, match, snapshot) { return nil }
        return match.lookedAt + RowSearch.costOfRun
    }

    /// Gives the rows that match to the finding; false if the finding is complete.
    private mutating func look(
        at rows: [StoredRow], _ people: Set<PersonID>?, _ users: inout UserNames, _ parser: JSONParser,
        _ snapshot: any Snapshot
    ) throws(StoreFault) -> Bool {
        for row in rows {
            if let people, !people.contains(row.person) { continue }
            guard let members = try EventMembers.present(of: row.row, parser, snapshot), filter.includes(members) else {
                continue
            }
            let user = try users.user(of: row.person, snapshot)
            if let wanted = filter.user, user?.key != wanted { continue }
            if try !finding.take(FoundRow(stored: row, members: members, user: user), snapshot) { return false }
        }
        return true
    }

    /// All remaining rows of a few people, in order; nil if the rows are more than a limit.
    private func rows(
        of people: Set<PersonID>, atMost limit: Int, _ snapshot: any Snapshot
    ) throws(StoreFault) -> [StoredRow]? {
        let counts = people.map { snapshot.person($0, in: filter.project)?.counts[kind] ?? 0 }
        guard counts.reduce(0, +) <= limit else { return nil }
        var rows: [StoredRow] = []
        for person in people { rows += try snapshot.rows(of: person, kind, from: nil, limit: limit) }
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
}

/// A page of rows.
typealias RowPage = ItemPage<FoundRow>

/// A page of things that have a row each. It takes one thing more than it shows, so it knows whether a further page follows.
struct ItemPage<Item: Sendable>: RowFinding {
    private let limit: Int
    private let item: @Sendable (FoundRow, any Snapshot) throws(StoreFault) -> Item?
    private(set) var items: [Item] = []
    private var last: StoredRow?
    private(set) var hasMore = false

    var rowsAtOnce: Int { limit + 1 }

    /// - Parameters:
    ///   - limit: the greatest number of things on the page.
    ///   - item: reads the thing of a row; nil if the list does not show it.
    init(limit: Int, _ item: @escaping @Sendable (FoundRow, any Snapshot) throws(StoreFault) -> Item?) {
        (self.limit, self.item) = (limit, item)
    }

    mutating func take(_ row: FoundRow, _ snapshot: any Snapshot) throws(StoreFault) -> Bool {
        guard let found = try item(row, snapshot) else { return true }
        hasMore = items.count == limit
        if !hasMore {
            items.append(found)
            last = row.stored
        }
        return !hasMore
    }

    /// Writes the things under a name, the cursor, and whether a further page follows.
    func write(_ name: StaticString, _ json: inout JSONWriter, _ body: (Item, inout JSONWriter) -> Void) {
        json.key(name)
        json.array { json in
            for item in items { json.object { body(item, &$0) } }
        }
        json.key("cursor")
        json.text(hasMore ? last.map { RowCursor.text(after: $0) } : nil)
        json.key("has_more")
        json.bool(hasMore)
    }

    static func schema(_ name: String, _ row: Schema) -> Schema {
        .object([
            .init(name, .array(row), required: true), .init("cursor", .anyOf([.string(), .null]), required: true),
            .init("has_more", .boolean(), required: true),
        ])
    }
}

extension ItemPage where Item == FoundRow {
    init(limit: Int) { self.init(limit: limit) { row, _ in row } }
}

extension Snapshot {
    /// All people of a user: the holders of the identity, and all members of their groups.
    func everybody(who user: IdentityKey) -> Set<PersonID> { Set(holders(of: user).flatMap { group(of: $0).members }) }
}

/// A user id that readers see.
struct ShownUser: Hashable, Sendable {
    let id: String
    /// The hash of the id. Two ids that only look alike have different hashes.
    let key: IdentityKey

    static func == (one: ShownUser, other: ShownUser) -> Bool { one.key == other.key }
    func hash(into hasher: inout Hasher) { hasher.combine(key) }
}

/// The user ids that readers see for people.
struct UserNames {
    private let project: ProjectID
    private var users: [PersonID: ShownUser?] = [:]

    init(_ project: ProjectID) { self.project = project }

    /// The id of the known user at the root of the person's group; otherwise the person's own id. Filters, counts and answers
    /// all use this function, so a filter finds exactly the rows that show its user id (spec/claim-reads.md, decision 9).
    mutating func user(of person: PersonID, _ snapshot: any Snapshot) throws(StoreFault) -> ShownUser? {
        if let known = users[person] { return known }
        let group = snapshot.group(of: person)
        var shown = try id(of: group.root, .claimUserID, snapshot)
        if shown == nil, group.root != person { shown = try id(of: person, .claimUserID, snapshot) }
        if shown == nil, group.count > 1 {
            // An administrator can put a person of another dialect at the root. The claim is still in force.
            for merge in group.merges where merge.rule == .claim && merge.from == person && shown == nil {
                shown = try id(of: merge.into, .claimUserID, snapshot)
            }
        }
        if shown == nil { shown = try id(of: person, .claimAnonymousID, snapshot) }
        users[person] = shown
        return shown
    }

    mutating func name(of person: PersonID, _ snapshot: any Snapshot) throws(StoreFault) -> String? {
        try user(of: person, snapshot)?.id
    }

    private func id(
        of person: PersonID, _ type: IdentityType, _ snapshot: any Snapshot
    ) throws(StoreFault) -> ShownUser? {
        guard let identity = try snapshot.identities(of: person).first(where: { $0.type == type }) else { return nil }
        return ShownUser(
            id: identity.value,
            key: IdentityKey(type, identity.value.utf8.span, in: project, hash: snapshot.hash))
    }
}
