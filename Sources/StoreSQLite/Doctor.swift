package import Domain
import SQLite

/// Looks through a store for what must never be: the invariants that the writer keeps.
///
/// It reads beside a running server, page by page, so that it holds nobody up; what is written meanwhile is left out.
package final class Doctor {
    private let file: StoreFile
    let connection: Connection
    let progress: (String) -> Void
    private var findings: [Finding] = []
    /// The present moment; the journal has nothing from after it. Nil where nobody knows.
    package var now: Instant?
    /// How often each invariant was found broken; only the first few are described.
    private var broken: [String: Int] = [:]

    private static let describedAtMost = 5
    private static let pageRows: Int64 = 50_000

    /// - Parameter progress: told what is being looked at.
    package init(_ file: StoreFile, progress: @escaping (String) -> Void) throws(StoreFault) {
        guard file.exists else { throw StoreFault(.notFound, "There is no store at \(file.path).") }
        self.file = file
        self.progress = progress
        connection = try file.openChecked()
    }

    /// Looks at everything. A healthy store has no findings.
    package func examine() throws(StoreFault) -> [Finding] {
        do throws(SQLiteFault) {
            try examineFile()
            try examineSettings()
            try examineJournal()
            try examineStrategies()
            try examinePeople()
            try examineLinks()
            try examineMerges()
            try examineRows()
            try examineRowHeads()
            try examineDocuments()
            try examineOrigins()
        } catch {
            throw StoreFault(error, path: file.path)
        }
        for (code, count) in broken.sorted(by: { $0.key < $1.key }) where count > Doctor.describedAtMost {
            findings.append(Finding(code: code, description: "… and \(count - Doctor.describedAtMost) more of these."))
        }
        return findings
    }

    private func examineFile() throws(SQLiteFault) {
        progress("pages of the file")
        let rows = try connection.prepare("PRAGMA integrity_check(20)")
        while try rows.step() {
            let line = rows.text(0) ?? ""
            if line != "ok" { found("file", "SQLite says of the file: \(line). Restore a backup.") }
        }
    }

    /// The store has the key of its hash.
    private func examineSettings() throws(SQLiteFault) {
        let key = try connection.prepare("SELECT value FROM settings WHERE name = 'hash_key'")
        guard try key.step(), key.withBytes(0, { Hash128($0) }) != nil else {
            found("hash_key", "The key of the store's hash is missing. Restore a backup.")
            return
        }
    }

    /// The journal has every number from 1 on, and time does not go back.
    private func examineJournal() throws(SQLiteFault) {
        progress("journal")
        var (expected, lastAt): (Int64, Int64) = (1, .min)
        try page("SELECT sequence, at, kind FROM journal WHERE sequence > ? ORDER BY sequence LIMIT ?") { row in
            let (sequence, at) = (row.integer(0), row.integer(1))
            if sequence != expected { found("journal_gap", "The journal goes from \(expected - 1) to \(sequence).") }
            if at < lastAt { found("journal_time", "Journal row \(sequence) is from before the row that it follows.") }
            if ActKind(rawValue: UInt8(truncatingIfNeeded: row.integer(2))) == nil {
                found("journal_kind", "Journal row \(sequence) is of a kind that this version does not know.")
            }
            (expected, lastAt) = (sequence + 1, at)
            return sequence
        }
        if let now, let fault = Finding(journalEndingAt: Instant(milliseconds: lastAt), now: now) {
            findings.append(fault)
        }
        lastSequence = expected - 1
    }

    /// Every strategy can be read, was set by a call of that kind, and follows the one before.
    private func examineStrategies() throws(SQLiteFault) {
        let row = try connection.prepare(
            """
            SELECT made_by, strategies.project, version, document, kind FROM strategies
            LEFT JOIN journal ON sequence = made_by ORDER BY made_by
            """)
        while try row.step() {
            let (madeBy, project) = (row.integer(0), ProjectID(rawValue: Int32(truncatingIfNeeded: row.integer(1))))
            if madeBy > lastSequence {
                later.append(("strategy_origin", "The strategy of journal row \(madeBy)", madeBy))
                continue
            }
            let earlier = uniqueTypes[project] ?? [(0, Strategy.default.unique)]
            if row.integer(2) != Int64(earlier.count + 1) {
                found("strategy_version", "Version \(row.integer(2)) of a strategy does not follow the one before it.")
            }
            if row.integer(4) != Int64(ActKind.setStrategy.rawValue) {
                found("strategy_origin", "The strategy of journal row \(madeBy) was set by no such call.")
            }
            guard let strategy = row.blob(3).flatMap(Strategy.init(packed:)) else {
                found("strategy_document", "The strategy of journal row \(madeBy) cannot be read.")
                continue
            }
            uniqueTypes[project] = earlier + [(madeBy, strategy.unique)]
        }
    }

    /// Which types were unique in a project, since which journal row.
    private var uniqueTypes: [ProjectID: [(since: Int64, types: IdentityTypeSet)]] = [:]

    /// Whether a type was unique when a journal row was written.
    private func wasUnique(_ type: IdentityType, in project: ProjectID, at sequence: Int64) -> Bool {
        let types = uniqueTypes[project]?.last { $0.since < sequence }?.types ?? Strategy.default.unique
        return types.contains(type)
    }

    var lastSequence: Int64 = 0
    var index = PeopleIndex()
    /// What was made since the journal was looked at, if its origin is to be believed.
    var later: [(code: String, what: String, madeBy: Int64)] = []

    /// Every person has an id above 0, a project, and the journal row that made it.
    private func examinePeople() throws(SQLiteFault) {
        progress("people")
        let projects = Set(try integers("SELECT id FROM projects"))
        try page("SELECT id, project, made_by FROM people WHERE id > ? ORDER BY id LIMIT ?", from: .min) { row in
            let (id, project, madeBy) = (row.integer(0), row.integer(1), row.integer(2))
            if madeBy > lastSequence {
                later.append(("person_origin", "Person \(id)", madeBy))
                return id
            }
            if id <= 0 { found("person_id", "Person \(id) has an id that is not positive.") }
            if !projects.contains(project) {
                found("person_project", "Person \(id) belongs to project \(project), which is not there.")
            }
            if madeBy < 1 { found("person_origin", "Person \(id) was made by no journal row.") }
            index.load(
                PersonID(rawValue: id), in: ProjectID(rawValue: Int32(truncatingIfNeeded: project)),
                seen: Instant(milliseconds: 0))
            return id
        }
    }

    /// Every link has a person, a known type, a value and the journal row that made it; nobody holds a value twice, and
    /// no value is given to a second holder while its type is unique.
    private func examineLinks() throws(SQLiteFault) {
        progress("links")
        let hash = KeyedHash(key: Hash128(high: 0x6F6E_796D, low: 0x646F_6374_6F72))
        let sql = """
            SELECT id, person, type, value, made_by, (SELECT ended_by FROM link_ends WHERE link = id)
            FROM links WHERE id > ? ORDER BY id LIMIT ?
            """
        try page(sql) { row in
            let (id, person, madeBy) = (row.integer(0), row.integer(1), row.integer(4))
            if madeBy > lastSequence {
                later.append(("link_origin", "Link \(id)", madeBy))
                return id
            }
            if madeBy < 1 { found("link_origin", "Link \(id) was made by no journal row.") }
            guard let type = IdentityType(rawValue: UInt8(truncatingIfNeeded: row.integer(2))) else {
                found("link_type", "Link \(id) has type \(row.integer(2)), which this version does not know.")
                return id
            }
            let isEmpty = row.withBytes(3) { !Identity.valueBytes.contains($0.count) }
            // Of people who were erased nobody knows any more what they were called.
            if isEmpty, row.optionalInteger(5) == nil {
                found("link_value", "Link \(id) has a value that is empty or too long.")
            }
            guard let place = index.place(of: PersonID(rawValue: person)) else {
                found("link_person", "Link \(id) belongs to person \(person), who is not there.")
                return id
            }
            if let endedBy = row.optionalInteger(5) {
                // One that has ended since the others were read may be in the way of what they hold now.
                if endedBy <= lastSequence, endedBy < madeBy {
                    found("link_end", "Link \(id) ended before it was made.")
                }
                return id
            }
            let project = index.project(of: place)
            let key = row.withBytes(3) { IdentityKey(type, $0, in: project, hash: hash) }
            var holdsAlready = false
            index.committed.forEachHolder(of: key) { if $0 == place { holdsAlready = true } }
            if holdsAlready {
                found("link_twice", "Link \(id) gives person \(person) a \(type.name) that it has.")
            } else if wasUnique(type, in: project, at: madeBy), index.committed.holderCount(of: key) > 0 {
                found("link_unique", "Link \(id) gives person \(person) a \(type.name) that another person holds.")
            }
            index.load(type, key, of: place, number: id)
            return id
        }
    }

    /// What seemed to be made since the journal was looked at has its row there now.
    private func examineOrigins() throws(SQLiteFault) {
        let last = try connection.integer("SELECT max(sequence) FROM journal") ?? 0
        for (code, what, madeBy) in later where madeBy > last {
            found(code, "\(what) was made by journal row \(madeBy), which is not there.")
        }
    }

    // MARK: - Reading

    /// Reads a table by its key, a page at a time. The body answers the key of its row.
    func page(
        _ sql: String, from start: Int64 = 0, _ body: (Statement) -> Int64
    ) throws(SQLiteFault) {
        let rows = try connection.prepare(sql)
        var last = start
        while true {
            rows.bind(1, last)
            rows.bind(2, Doctor.pageRows)
            var count: Int64 = 0
            while try rows.step() {
                last = body(rows)
                count += 1
            }
            if count < Doctor.pageRows { return }
        }
    }

    private func integers(_ sql: String) throws(SQLiteFault) -> [Int64] {
        let rows = try connection.prepare(sql)
        var integers: [Int64] = []
        while try rows.step() { integers.append(rows.integer(0)) }
        return integers
    }

    func found(_ code: String, _ description: String) {
        broken[code, default: 0] += 1
        if broken[code, default: 0] <= Doctor.describedAtMost {
            findings.append(Finding(code: code, description: description))
        }
    }
}
