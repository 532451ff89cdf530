import Crypto
import Domain
import Leaves
import SQLite
import Threads

/// The committed facts: the index finds them, and a separate connection reads them.
struct SQLiteSnapshot: Snapshot {
    /// Nil for a glance, which never reads the disk.
    let disk: Reader?
    let index: PeopleIndex
    let lock: IndexLock
    let groups: LockedGroups
    let settled: Settled
    let documents: DocumentCache
    let hash: KeyedHash
    let derived: DerivedValues?

    var readLimit: ReadLimit { disk?.limit ?? .none }

    private func reader() throws(StoreFault) -> Reader {
        guard let disk else { throw StoreFault(.notFound, "The document is not in memory.") }
        try disk.limit.check()
        return disk
    }

    func person(_ id: PersonID, in project: ProjectID) -> PersonSummary? {
        lock.read {
            guard let place = index.committed.person(id, in: project) else { return nil }
            var counts: [RowKind: Int] = [:]
            for head in index.heads(of: place) { counts[head.kind] = head.count }
            return PersonSummary(id: id, lastSeen: index.lastSeen(of: place).moment, counts: counts)
        }
    }

    func holders(of identity: IdentityKey) -> [PersonID] {
        lock.read {
            var holders: [PersonID] = []
            index.committed.forEachHolder(of: identity) { holders.append(index.id(of: $0)) }
            return holders
        }
    }

    func group(of person: PersonID) -> Group {
        let group = lock.read { index.committed.group(of: person) }
        // The members are read later, and that read needs the lock.
        return group.count == 1 ? group : Group(root: group.root, count: group.count, groups)
    }

    func totals(of group: Group) -> GroupTotals {
        lock.read { index.committed.totals(of: index.committed.group(of: group.root)) }
    }

    func identities(of person: PersonID) throws(StoreFault) -> [HeldIdentity] {
        let numbers = lock.read { index.place(of: person).map { index.committedLinks(of: $0) } ?? [] }
        return try reader().identities([numbers])[0]
    }

    func identities(of people: [PersonID]) throws(StoreFault) -> [PersonID: [HeldIdentity]] {
        var links: [[Int64]] = []
        links.reserveCapacity(people.count)
        readIndex(people) { person in
            links.append(index.place(of: person).map { index.committedLinks(of: $0) } ?? [])
        }
        return Dictionary(zip(people, try reader().identities(links))) { $1 }
    }

    func row(_ number: RowNumber) throws(StoreFault) -> StoredRow? {
        // The sweep removes rows of erased people later, and until then nobody may read them.
        try reader().row(number).flatMap { row in lock.read { index.isErased(row.person) } ? nil : row }
    }

    func arrivals(of rows: [RowNumber]) throws(StoreFault) -> [RowNumber: RowArrival] {
        try reader().arrivals(of: rows)
    }

    func rows(
        of kind: RowKind, in project: ProjectID, _ range: RowsByTime
    ) throws(StoreFault) -> [StoredRow] {
        var rows: [StoredRow] = []
        var range = range
        let wanted = range.limit
        // Rows of other projects, and of erased people, may be in between. Then the pages grow, up to a limit.
        while true {
            let page = try reader().rows(of: kind, range)
            let own = lock.read {
                page.filter { row in
                    index.place(of: row.person).map { index.project(of: $0) } == project && !index.isErased(row.person)
                }
            }
            rows += own.prefix(wanted - rows.count)
            guard page.count == range.limit, rows.count < wanted, let last = page.last else { break }
            range.after = RowsByTime.Place(at: last.row.at, number: last.number)
            range.limit = max(range.limit, min(2 * range.limit, SQLiteSnapshot.rowsInPage))
        }
        return rows
    }

    private static let rowsInPage = 4096

    private static let pagesAtMost = 1000

    func rows(after number: RowNumber, limit: Int) throws(StoreFault) -> [(project: ProjectID, row: StoredRow)] {
        // A row may be on the disk and its person not yet in the index.
        let page = try reader().rows(after: number, upTo: lastRow, limit: limit)
        return lock.read {
            page.compactMap { row in
                guard !index.isErased(row.person), let place = index.place(of: row.person) else { return nil }
                return (index.project(of: place), row)
            }
        }
    }

    var lastRow: RowNumber { lock.read { RowNumber(rawValue: Int64(index.counts.rows)) } }

    func keys(
        of types: [IdentityType], heldBy people: [PersonID]
    ) throws(StoreFault) -> [HeldKey] {
        _ = try reader()
        var held: [HeldKey] = []
        held.reserveCapacity(people.count)
        readIndex(people) { person in
            guard let place = index.place(of: person) else { return }
            let start = held.count
            index.committed.forEachIdentity(of: place) { type, key in
                if types.contains(type) { held.append((person, type, key)) }
                return true
            }
            // The newest link came first.
            if held.count > start + 1 { held[start...].reverse() }
        }
        return held
    }

    func groups(of people: [PersonID]) throws(StoreFault) -> [PersonID: Group] {
        _ = try reader()
        var groups: [PersonID: Group] = [:]
        readIndex(people) { person in
            let group = index.committed.group(of: person)
            // The members are read later, and that read needs the lock.
            if group.count > 1 { groups[person] = Group(root: group.root, count: group.count, self.groups) }
        }
        return groups
    }

    /// Runs a body for each of many items under the lock of the index, some at a time: the writer waits while a reader has the lock.
    private func readIndex<Item>(_ items: [Item], _ body: (Item) -> Void) {
        for start in stride(from: 0, to: items.count, by: SQLiteSnapshot.itemsAtOnce) {
            lock.read {
                for item in items[start..<min(items.count, start + SQLiteSnapshot.itemsAtOnce)] { body(item) }
            }
        }
    }

    private static let itemsAtOnce = 500

    func holders(
        of types: IdentityTypeSet, in project: ProjectID, before: Int64?, limit: Int
    ) throws(StoreFault) -> [(link: Int64, person: PersonID, type: IdentityType, value: String)] {
        var holders: [(link: Int64, person: PersonID, type: IdentityType, value: String)] = []
        var before = before
        for _ in 0..<SQLiteSnapshot.pagesAtMost {
            let page = try reader().links(of: types, before: before, limit: limit)
            let own = lock.read {
                page.filter { link in index.place(of: link.person).map { index.project(of: $0) } == project }
            }
            holders += own.prefix(limit - holders.count)
            guard page.count == limit, holders.count < limit, let last = page.last else { break }
            before = last.link
        }
        return holders
    }

    func calls(after sequence: JournalSequence, limit: Int) throws(StoreFault) -> [RecordedCall] {
        // A call may be on the disk and not yet in the index. The next read shows it with its changes.
        try reader().calls(after: sequence, limit: limit).filter { $0.sequence <= settled.sequence }
    }

    func namingCalls(after sequence: JournalSequence, limit: Int) throws(StoreFault) -> [RecordedCall] {
        try reader().namingCalls(after: sequence, limit: limit).filter { $0.sequence <= settled.sequence }
    }

    func callHeads(after sequence: JournalSequence, limit: Int) throws(StoreFault) -> [CallHead] {
        try reader().callHeads(after: sequence, limit: limit).filter { $0.sequence <= settled.sequence }
    }

    func callHeads(_ sequences: [JournalSequence]) throws(StoreFault) -> [CallHead] {
        try reader().callHeads(sequences)
    }

    func spans(of calls: ClosedRange<JournalSequence>) throws(StoreFault) -> [JournalSequence: FactSpans] {
        try reader().spans(of: calls)
    }

    func calls(
        of person: PersonID, before: JournalSequence?, limit: Int
    ) throws(StoreFault) -> [RecordedCall] {
        // A call may be on the disk and not yet in the index: no call from there on, so that no earlier call is left out.
        let (known, end) = lock.read { (index.lastCall(of: person), settled.sequence.next) }
        guard let last = known else { return [] }
        return try reader().calls(of: person, last: last, before: min(before ?? end, end), limit: limit)
    }

    func calls(_ sequences: [JournalSequence]) throws(StoreFault) -> [RecordedCall] {
        try reader().calls(sequences.filter { $0 <= settled.sequence })
    }

    func calls(dependingOn merge: MergeID) throws(StoreFault) -> [JournalSequence] {
        try reader().calls(dependingOn: merge)
    }

    func calls(
        readingGroupsOf people: [PersonID], after sequence: JournalSequence, limit: Int
    ) throws(StoreFault) -> [NotedCall] {
        try reader().calls(readingGroupsOf: people, after: sequence, limit: limit)
    }

    func erasedPeople(in project: ProjectID) throws(StoreFault) -> Set<PersonID> {
        try reader().erasedPeople(in: project)
    }

    func logNotes(in project: ProjectID) throws(StoreFault) -> [LogSegment] { try reader().logNotes(in: project) }

    func logged(in project: ProjectID, after number: Int64, limit: Int) throws(StoreFault) -> [LogSegment.Stored] {
        try reader().logged(in: project, after: number, limit: limit)
    }

    func journalHead() throws(StoreFault) -> JournalHead? { try reader().journalHead(name) }

    func journalReceipt(of call: JournalSequence) throws(StoreFault) -> JournalReceipt? {
        try reader().journalReceipt(of: call, name)
    }

    func journalExtension(from call: JournalSequence) throws(StoreFault) -> JournalExtension? {
        try reader().journalExtension(from: call, name)
    }

    private var name: [UInt8] { SQLiteStore.name(hash).bytes }

    func lastCall() throws(StoreFault) -> JournalSequence { settled.sequence }

    func endedLinks(after place: EndedLink.Place, limit: Int) throws(StoreFault) -> [EndedLink] {
        try reader().endedLinks(after: place, limit: limit)
    }

    func lastRow(before sequence: JournalSequence) throws(StoreFault) -> RowNumber {
        try reader().lastRow(before: sequence)
    }

    func merges(before merge: MergeID?, limit: Int) throws(StoreFault) -> [MergeID] {
        try reader().merges(before: merge, limit: limit)
    }

    func call(ofMerge merge: MergeID) throws(StoreFault) -> RecordedCall? { try reader().call(ofMerge: merge) }

    func recentRow(_ recognition: RowHash) throws(StoreFault) -> StoredRow? {
        guard lock.read({ index.recentRows.knows(recognition) }) else { return nil }
        return try reader().recentRow(recognition).flatMap { number throws(StoreFault) in try row(number) }
    }

    func document(_ key: DocumentKey) throws(StoreFault) -> [UInt8]? {
        var number = lock.read { index.documentNumber(key) }
        while let wanted = number {
            if let body = documents[wanted] { return body.isEmpty ? nil : body }
            if let body = try reader().document(wanted) {
                documents.add(wanted, body)
                return body
            }
            // A kept fold is deleted when a newer fold replaces it.
            number = lock.read { index.documentNumber(key) }
            if number == wanted { return nil }
        }
        return nil
    }

    func documents(_ keys: [DocumentKey]) throws(StoreFault) -> [DocumentKey: [UInt8]] {
        var numbers: [(key: DocumentKey, number: Int64)] = []
        readIndex(keys) { key in
            if let number = index.documentNumber(key) { numbers.append((key, number)) }
        }
        var found: [DocumentKey: [UInt8]] = [:]
        found.reserveCapacity(numbers.count)
        numbers.removeAll { key, number in
            guard let body = documents[number] else { return false }
            if !body.isEmpty { found[key] = body }
            return true
        }
        if numbers.isEmpty { return found }
        let bodies = try reader().documents(numbers.map(\.number))
        for ((key, number), body) in zip(numbers, bodies) {
            if let body {
                documents.add(number, body)
                found[key] = body
            } else {
                // What is gone by now has perhaps a later version.
                found[key] = try document(key)
            }
        }
        return found
    }

    func versions(of key: DocumentKey, since sequence: JournalSequence) throws(StoreFault) -> [DocumentVersion] {
        guard let last = lock.read({ index.documentNumber(key) }) else { return [] }
        return try reader().versions(of: key, from: last, since: sequence)
    }

    func documents(writtenBy call: JournalSequence) throws(StoreFault) -> [WrittenDocument] {
        call <= settled.sequence ? try reader().documents(writtenBy: call) : []
    }

    func content(of version: DocumentVersion) throws(StoreFault) -> [UInt8]? {
        guard let found = try reader().content(of: version), !lock.read({ index.isErased(found.person) }) else {
            return nil
        }
        return found.body.isEmpty ? nil : found.body
    }

    func oldVersions(after place: Int64, limit: Int) throws(StoreFault) -> OldVersions {
        try reader().oldVersions(after: place, limit: limit)
    }

    func rows(
        of person: PersonID, _ kind: RowKind, from: RowNumber?, limit: Int
    ) throws(StoreFault) -> [StoredRow] {
        guard let last = lock.read({ index.head(of: person, kind)?.last }) else { return [] }
        return try reader().rows(of: person, kind, from: from ?? last, limit: limit)
    }
}

/// The members of groups, read while no thread changes the index.
final class LockedGroups: GroupSource {
    private let index: PeopleIndex
    private let lock: IndexLock

    init(_ index: PeopleIndex, _ lock: IndexLock) {
        self.index = index
        self.lock = lock
    }

    func members(ofGroupWith person: PersonID) -> [PersonID] {
        lock.read { index.committed.group(of: person).members }
    }

    func merges(ofGroupWith person: PersonID) -> [Merge] { lock.read { index.committed.group(of: person).merges } }

    func members(ofGroupWith person: PersonID, after: PersonID?, limit: Int) -> [PersonID] {
        lock.read { index.committed.group(of: person).members(after: after, limit: limit) }
    }

    func path(from start: PersonID, to end: PersonID) -> [Merge] {
        lock.read { index.committed.group(of: start).path(from: start, to: end) }
    }

    func merges(ofGroupWith person: PersonID, limit: Int) -> [Merge] {
        lock.read { index.committed.group(of: person).merges(limit: limit) }
    }
}

/// A connection that only reads, with its statements.
final class Reader {
    private let file: StoreFile
    private let connection: Connection
    private let link: Statement
    private let body: Statement
    private let version: Statement
    private let oldVersions: Statement
    private let row: Statement
    private let arrival: Statement
    private let journal: JournalReader

    /// The condition that ends the present read.
    var limit = ReadLimit.none {
        didSet { connection.interruptStatements(when: limit.isOver) }
    }

    init(_ file: StoreFile) throws(StoreFault) {
        self.file = file
        let connection = try file.openBeside(.readWrite)
        self.connection = connection
        (link, body, version, oldVersions, row, arrival, journal) = try file.attempt { () throws(SQLiteFault) in
            // A connection that is opened read-only could not read the log.
            try connection.execute("PRAGMA query_only = ON; PRAGMA cache_size = -2048;")
            return (
                try connection.prepare(
                    """
                    SELECT links.type, links.value, journal.at, journal.key, journal.request_id, journal.sequence
                    FROM links JOIN journal ON journal.sequence = links.made_by WHERE links.id = ?
                    """),
                try connection.prepare("SELECT body FROM documents WHERE id = ?"),
                try connection.prepare("SELECT made_by, previous, person, body FROM documents WHERE id = ?"),
                try connection.prepare(
                    """
                    SELECT later.id, length(documents.body) FROM documents AS later
                    LEFT JOIN documents ON documents.id = later.previous WHERE later.id > ? ORDER BY later.id LIMIT ?
                    """),
                try connection.prepare(
                    """
                    SELECT previous, at, recognition, device, body, person, kind, superseded_by IS NOT NULL
                    FROM rows WHERE id = ?
                    """),
                try connection.prepare(
                    """
                    SELECT journal.at, journal.key, journal.sequence FROM rows JOIN journal ON journal.sequence = rows.made_by
                    WHERE rows.id = ?
                    """),
                try JournalReader(connection)
            )
        }
    }

    /// Reads in one transaction. Outside a transaction, each statement locks the file anew, which costs more than most statements.
    private func once<Result>(_ body: () throws(SQLiteFault) -> Result) throws(StoreFault) -> Result {
        try file.attempt { () throws(SQLiteFault) in try connection.reading(body) }
    }

    /// The identities of several people, each by the numbers of its links.
    func identities(_ links: [[Int64]]) throws(StoreFault) -> [[HeldIdentity]] {
        try once { () throws(SQLiteFault) in
            var all: [[HeldIdentity]] = []
            all.reserveCapacity(links.count)
            for numbers in links {
                var identities: [HeldIdentity] = []
                identities.reserveCapacity(numbers.count)
                for number in numbers { if let identity = try identity(number) { identities.append(identity) } }
                all.append(identities)
            }
            return all
        }
    }

    private func identity(_ number: Int64) throws(SQLiteFault) -> HeldIdentity? {
        link.bind(1, number)
        defer { link.reset() }
        guard try link.step(), let type = IdentityType(rawValue: UInt8(truncatingIfNeeded: link.integer(0))) else {
            return nil
        }
        return HeldIdentity(
            type: type, value: link.text(1) ?? "", since: Instant(milliseconds: link.integer(2)),
            call: JournalSequence(rawValue: link.integer(5)), key: link.optionalInteger(3).map(KeyID.init),
            requestID: link.text(4) ?? "")
    }

    func arrivals(of rows: [RowNumber]) throws(StoreFault) -> [RowNumber: RowArrival] {
        try once { () throws(SQLiteFault) in
            var arrivals: [RowNumber: RowArrival] = [:]
            for number in rows {
                arrival.bind(1, number.rawValue)
                defer { arrival.reset() }
                guard try arrival.step() else { continue }
                arrivals[number] = RowArrival(
                    at: Instant(milliseconds: arrival.integer(0)), key: arrival.optionalInteger(1).map(KeyID.init),
                    call: JournalSequence(rawValue: arrival.integer(2)))
            }
            return arrivals
        }
    }

    // MARK: - The tree over the journal

    /// Runs a body over the tree of one moment.
    private func withTree<Result>(
        _ body: (TreeReader) throws(SQLiteFault) -> Result
    ) throws(StoreFault) -> Result {
        try file.attempt { () throws(SQLiteFault) in
            let tree = try TreeReader(connection)
            return try connection.reading { () throws(SQLiteFault) in try body(tree) }
        }
    }

    func journalHead(_ name: [UInt8]) throws(StoreFault) -> JournalHead {
        try withTree { (tree) throws(SQLiteFault) in try tree.head(name) }
    }

    func journalReceipt(of call: JournalSequence, _ name: [UInt8]) throws(StoreFault) -> JournalReceipt? {
        try withTree { (tree) throws(SQLiteFault) in try tree.receipt(of: call, name) }
    }

    func journalExtension(from call: JournalSequence, _ name: [UInt8]) throws(StoreFault) -> JournalExtension? {
        try withTree { (tree) throws(SQLiteFault) in try tree.growth(from: call, name) }
    }

    func calls(after sequence: JournalSequence, limit: Int) throws(StoreFault) -> [RecordedCall] {
        try once { () throws(SQLiteFault) in try journal.calls(after: sequence, limit: limit) }
    }

    func namingCalls(after sequence: JournalSequence, limit: Int) throws(StoreFault) -> [RecordedCall] {
        try once { () throws(SQLiteFault) in try journal.calls(after: sequence, limit: limit, withRows: false) }
    }

    func callHeads(after sequence: JournalSequence, limit: Int) throws(StoreFault) -> [CallHead] {
        try once { () throws(SQLiteFault) in try journal.callHeads(after: sequence, limit: limit) }
    }

    func callHeads(_ sequences: [JournalSequence]) throws(StoreFault) -> [CallHead] {
        try once { () throws(SQLiteFault) in try journal.callHeads(sequences.map(\.rawValue)) }
    }

    func spans(of calls: ClosedRange<JournalSequence>) throws(StoreFault) -> [JournalSequence: FactSpans] {
        try once { () throws(SQLiteFault) in
            try journal.spans(of: calls.lowerBound.rawValue...calls.upperBound.rawValue)
        }
    }

    func calls(
        of person: PersonID, last: JournalSequence, before: JournalSequence, limit: Int
    ) throws(StoreFault) -> [RecordedCall] {
        try once { () throws(SQLiteFault) in
            try journal.calls(of: person, last: last, before: before, limit: limit)
        }
    }

    func calls(_ sequences: [JournalSequence]) throws(StoreFault) -> [RecordedCall] {
        try once { () throws(SQLiteFault) in try journal.calls(sequences.map(\.rawValue)) }
    }

    func calls(dependingOn merge: MergeID) throws(StoreFault) -> [JournalSequence] {
        try once { () throws(SQLiteFault) in try journal.calls(dependingOn: merge) }
    }

    func calls(
        readingGroupsOf people: [PersonID], after sequence: JournalSequence, limit: Int
    ) throws(StoreFault) -> [NotedCall] {
        try once { () throws(SQLiteFault) in
            try journal.calls(readingGroupsOf: people, after: sequence, limit: limit)
        }
    }

    func erasedPeople(in project: ProjectID) throws(StoreFault) -> Set<PersonID> {
        try file.attempt { () throws(SQLiteFault) in try journal.erasedPeople(in: project) }
    }

    func logNotes(in project: ProjectID) throws(StoreFault) -> [LogSegment] {
        try file.attempt { () throws(SQLiteFault) in try journal.logNotes(in: project) }
    }

    func logged(in project: ProjectID, after number: Int64, limit: Int) throws(StoreFault) -> [LogSegment.Stored] {
        try once { () throws(SQLiteFault) in try journal.logged(in: project, after: number, limit: limit) }
    }

    func endedLinks(after place: EndedLink.Place, limit: Int) throws(StoreFault) -> [EndedLink] {
        try once { () throws(SQLiteFault) in try journal.endedLinks(after: place, limit: limit) }
    }

    func documents(writtenBy call: JournalSequence) throws(StoreFault) -> [WrittenDocument] {
        try once { () throws(SQLiteFault) in try journal.documents(writtenBy: call) }
    }

    func lastRow(before sequence: JournalSequence) throws(StoreFault) -> RowNumber {
        try once { () throws(SQLiteFault) in try journal.lastRow(before: sequence) }
    }

    func merges(before merge: MergeID?, limit: Int) throws(StoreFault) -> [MergeID] {
        try once { () throws(SQLiteFault) in try journal.merges(before: merge, limit: limit) }
    }

    func call(ofMerge merge: MergeID) throws(StoreFault) -> RecordedCall? {
        try once { () throws(SQLiteFault) in try journal.call(ofMerge: merge) }
    }

    /// Rows in the order of their moments.
    func rows(of kind: RowKind, _ range: RowsByTime) throws(StoreFault) -> [StoredRow] {
        let (sign, order) = range.isAscending ? (">", "ASC") : ("<", "DESC")
        let sql = """
            SELECT id, person, previous, kind, at, recognition, device, body FROM rows
            WHERE kind = ?1 AND at >= ?2 AND at < ?3 AND (at, id) \(sign) (?4, ?5) AND superseded_by IS NULL
            ORDER BY at \(order), id \(order) LIMIT ?6
            """
        return try once { () throws(SQLiteFault) in
            let statement = try connection.prepare(sql)
            let outside = range.isAscending ? Int64.min : Int64.max
            statement.bind(1, Int64(kind.rawValue))
            statement.bind(2, range.since?.milliseconds ?? .min)
            statement.bind(3, range.until?.milliseconds ?? .max)
            statement.bind(4, range.after?.at.milliseconds ?? outside)
            statement.bind(5, range.after?.number.rawValue ?? outside)
            statement.bind(6, Int64(range.limit))
            var rows: [StoredRow] = []
            while try statement.step() {
                if let row = statement.storedRow { rows.append(row) }
            }
            return rows
        }
    }

    /// Rows of all kinds in the order of their numbers.
    func rows(after number: RowNumber, upTo last: RowNumber, limit: Int) throws(StoreFault) -> [StoredRow] {
        try once { () throws(SQLiteFault) in
            let statement = try connection.prepare(
                """
                SELECT id, person, previous, kind, at, recognition, device, body FROM rows
                WHERE id > ? AND id <= ? AND superseded_by IS NULL ORDER BY id LIMIT ?
                """)
            statement.bind(1, number.rawValue)
            statement.bind(2, last.rawValue)
            statement.bind(3, Int64(limit))
            var rows: [StoredRow] = []
            while try statement.step() {
                if let row = statement.storedRow { rows.append(row) }
            }
            return rows
        }
    }

    /// Links in force of some types of identity, the last first.
    func links(
        of types: IdentityTypeSet, before: Int64?, limit: Int
    ) throws(StoreFault) -> [(link: Int64, person: PersonID, type: IdentityType, value: String)] {
        let list = types.types.map { String($0.rawValue) }.joined(separator: ", ")
        let sql = """
            SELECT id, person, type, value FROM links
            WHERE id < ?1 AND type IN (\(list)) AND NOT EXISTS (SELECT 1 FROM link_ends WHERE link = links.id)
            ORDER BY id DESC LIMIT ?2
            """
        return try file.attempt { () throws(SQLiteFault) in
            let statement = try connection.prepare(sql)
            statement.bind(1, before ?? .max)
            statement.bind(2, Int64(limit))
            var links: [(link: Int64, person: PersonID, type: IdentityType, value: String)] = []
            while try statement.step() {
                guard let type = IdentityType(rawValue: UInt8(truncatingIfNeeded: statement.integer(2))) else {
                    continue
                }
                links.append(
                    (
                        statement.integer(0), PersonID(rawValue: statement.integer(1)), type, statement.text(3) ?? ""
                    ))
            }
            return links
        }
    }

    func recentRow(_ recognition: RowHash) throws(StoreFault) -> RowNumber? {
        try file.attempt { () throws(SQLiteFault) in
            let row = try connection.prepare(
                """
                SELECT id FROM rows
                WHERE id > (SELECT max(id) FROM rows) - \(RowsByTime.lately) AND recognition = ?
                    AND superseded_by IS NULL ORDER BY id DESC LIMIT 1
                """)
            row.bind(1, Int64(bitPattern: recognition.rawValue))
            return try row.step() ? RowNumber(rawValue: row.integer(0)) : nil
        }
    }

    func document(_ number: Int64) throws(StoreFault) -> [UInt8]? {
        try file.attempt { () throws(SQLiteFault) in try readDocument(number) }
    }

    /// The documents with several numbers, in the order of the numbers.
    func documents(_ numbers: [Int64]) throws(StoreFault) -> [[UInt8]?] {
        try once { () throws(SQLiteFault) in
            var bodies: [[UInt8]?] = []
            bodies.reserveCapacity(numbers.count)
            for number in numbers { bodies.append(try readDocument(number)) }
            return bodies
        }
    }

    private func readDocument(_ number: Int64) throws(SQLiteFault) -> [UInt8]? {
        body.bind(1, number)
        defer { body.reset() }
        // An empty document means that the document was removed.
        return try body.step() ? body.blob(0).flatMap { $0.isEmpty ? nil : $0 } : nil
    }

    /// The versions of a document since a call, and the version before them: the chain of earlier versions from a version on.
    func versions(
        of key: DocumentKey, from last: Int64, since sequence: JournalSequence
    ) throws(StoreFault) -> [DocumentVersion] {
        try once { () throws(SQLiteFault) in
            var versions: [DocumentVersion] = []
            var next: Int64? = last
            while let number = next {
                version.bind(1, number)
                defer { version.reset() }
                guard try version.step() else { break }
                let found = DocumentVersion(
                    key, number: number, madeBy: JournalSequence(rawValue: version.integer(0)))
                versions.append(found)
                next = found.madeBy < sequence ? nil : version.optionalInteger(1)
            }
            return versions
        }
    }

    /// The content of a version, with its person.
    func content(of found: DocumentVersion) throws(StoreFault) -> (person: PersonID, body: [UInt8])? {
        try file.attempt { () throws(SQLiteFault) in
            version.bind(1, found.number)
            defer { version.reset() }
            return try version.step() ? (PersonID(rawValue: version.integer(2)), version.blob(3) ?? []) : nil
        }
    }

    func oldVersions(after place: Int64, limit: Int) throws(StoreFault) -> OldVersions {
        try once { () throws(SQLiteFault) in
            oldVersions.bind(1, place)
            oldVersions.bind(2, Int64(limit))
            defer { oldVersions.reset() }
            var (bytes, end): (Int64, Int64) = (0, place)
            while try oldVersions.step() {
                end = oldVersions.integer(0)
                bytes += oldVersions.optionalInteger(1) ?? 0
            }
            return OldVersions(bytes: bytes, end: end)
        }
    }

    func row(_ number: RowNumber) throws(StoreFault) -> StoredRow? {
        try file.attempt { () throws(SQLiteFault) in
            row.bind(1, number.rawValue)
            defer { row.reset() }
            guard try row.step(), row.integer(7) == 0,
                let kind = RowKind(rawValue: UInt8(truncatingIfNeeded: row.integer(6)))
            else { return nil }
            let stored = Row(
                kind, at: Instant(milliseconds: row.integer(1)), recognition: row.rowHash(2), device: row.rowHash(3),
                body: row.blob(4) ?? [])
            return StoredRow(
                number: number, person: PersonID(rawValue: row.integer(5)), row: stored,
                previous: row.optionalInteger(0).map(RowNumber.init))
        }
    }

    /// Reads a chain of rows back from a row.
    func rows(
        of person: PersonID, _ kind: RowKind, from first: RowNumber, limit: Int
    ) throws(StoreFault) -> [StoredRow] {
        try once { () throws(SQLiteFault) in
            var rows: [StoredRow] = []
            var next: Int64? = first.rawValue
            while let number = next, rows.count < limit {
                row.bind(1, number)
                defer { row.reset() }
                // Removed rows are the oldest rows of a chain. The first row may come from a client's cursor, so it is
                // checked.
                guard try row.step(), row.integer(5) == person.rawValue,
                    row.integer(6) == Int64(kind.rawValue) || row.integer(6) == RowWriter.removedKind
                else { break }
                next = row.optionalInteger(0)
                if row.integer(6) == RowWriter.removedKind || row.integer(7) == 1 { continue }
                let stored = Row(
                    kind, at: Instant(milliseconds: row.integer(1)), recognition: row.rowHash(2),
                    device: row.rowHash(3), body: row.blob(4) ?? [])
                rows.append(
                    StoredRow(
                        number: RowNumber(rawValue: number), person: person, row: stored,
                        previous: next.map(RowNumber.init)))
            }
            return rows
        }
    }
}

extension Statement {
    /// The row of the columns id, person, previous, kind, at, recognition, device and body; nil for a kind that this version does
    /// not know, and for a removed row.
    var storedRow: StoredRow? {
        guard let kind = RowKind(rawValue: UInt8(truncatingIfNeeded: integer(3))) else { return nil }
        let row = Row(
            kind, at: Instant(milliseconds: integer(4)), recognition: rowHash(5), device: rowHash(6),
            body: blob(7) ?? [])
        return StoredRow(
            number: RowNumber(rawValue: integer(0)), person: PersonID(rawValue: integer(1)), row: row,
            previous: optionalInteger(2).map(RowNumber.init))
    }

    func rowHash(_ column: Int32) -> RowHash? {
        optionalInteger(column).map { RowHash(rawValue: UInt64(bitPattern: $0)) }
    }
}
