import Crypto
package import Domain
import Leaves
import SQLite

/// Checks the invariants of a store that the writer keeps.
///
/// It reads beside a running server, page by page, so that it delays no call. Facts that are written meanwhile are not
/// checked.
package final class Doctor {
    let file: StoreFile
    private let head: HeadFile.Head?
    private let hasDamagedLog: Bool
    let connection: Connection
    let progress: (String) -> Void
    private var findings: [Finding] = []
    /// The present moment, after which the journal has no entry; nil to skip this check.
    package var now: Instant?
    /// The number of findings of each invariant. Only the first findings are described.
    private var broken: [String: Int] = [:]

    private static let describedAtMost = 5
    private static let pageRows: Int64 = 50_000

    /// - Parameter progress: gets the name of each check.
    package init(_ file: StoreFile, progress: @escaping (String) -> Void) throws(StoreFault) {
        guard file.exists else { throw StoreFault(.notFound, "There is no store at \(file.path).") }
        self.file = file
        self.progress = progress
        // A head that is read before the journal is never ahead of it.
        head = HeadFile.read(file)
        hasDamagedLog = file.hasDamagedLog
        let hasLog = file.hasLog
        connection = try file.openChecked()
        // The doctor changes nothing, also if no server runs.
        if hasLog { connection.keepLogAtClose() }
    }

    /// Runs all checks. A healthy store has no findings.
    package func examine() throws(StoreFault) -> [Finding] {
        do throws(SQLiteFault) {
            try examineFile()
            try examineSettings()
            try examineJournal()
            try examineStrategies()
            try examinePeople()
            try examineCallsOfPeople()
            try examineLinks()
            try examineMerges()
            try examineCallsOfMerges()
            try examineKeptActs()
            try examineRows()
            try examineRowHeads()
            try examineDocuments()
            try examineOrigins()
            try examineTree()
        } catch {
            throw StoreFault(error, path: file.path)
        }
        return described()
    }

    private func described() -> [Finding] {
        for (code, count) in broken.sorted(by: { $0.key < $1.key }) where count > Doctor.describedAtMost {
            findings.append(Finding(code: code, description: "… and \(count - Doctor.describedAtMost) more of these."))
        }
        return findings
    }

    /// Checks that the store has all its calls, the last calls and their facts, and the counts of links and of hashes of the tree.
    ///
    /// It reads no page that these checks do not need, so a damaged page elsewhere, or an earlier call that was changed, stays unknown.
    package func examineQuickly(lastCalls: Int = 100_000) throws(StoreFault) -> [Finding] {
        do throws(SQLiteFault) {
            try examineSettings()
            lastSequence = try connection.integer("SELECT max(sequence) FROM journal") ?? 0
            let last = try connection.integer("SELECT at FROM journal ORDER BY sequence DESC LIMIT 1")
            if let last { compareClock(withCallAt: last) }
            try examineCounts()
            try examineTree(last: lastCalls)
        } catch {
            throw StoreFault(error, path: file.path)
        }
        return described()
    }

    /// Checks that the numbers of links have no gap, and that the tree has the hash of each whole subtree.
    private func examineCounts() throws(SQLiteFault) {
        progress("counts")
        try connection.reading { () throws(SQLiteFault) in
            let links = try connection.integer("SELECT count(*) FROM links") ?? 0
            let lastLink = try connection.integer("SELECT max(id) FROM links") ?? 0
            if links != lastLink {
                found("link_gap", "There are \(links) links, and the last one has the number \(lastLink).")
            }
            guard try hasTree() else { return }
            let hashes = try connection.integer("SELECT count(*) FROM tree") ?? 0
            let whole = try TreeReader(connection).count() / MerkleEdge.keptLeaves
            if hashes != whole {
                found("head", "The tree over the journal has \(hashes) hashes, and not \(whole). Restore a copy.")
            }
        }
    }

    private func examineFile() throws(SQLiteFault) {
        progress("pages of the file")
        let rows = try connection.prepare("PRAGMA integrity_check(20)")
        while try rows.step() {
            let line = rows.text(0) ?? ""
            if line != "ok" { found("file", "SQLite reports a problem of the file: \(line). Restore a backup.") }
        }
    }

    /// Checks that the store has the key of its hash and all of its calls.
    private func examineSettings() throws(SQLiteFault) {
        let key = try connection.prepare("SELECT value FROM settings WHERE name = 'hash_key'")
        guard try key.step(), let hashKey = key.withBytes(0, { Hash128($0) }) else {
            found("hash_key", "The key of the store's hash is missing. Restore a backup.")
            return
        }
        let last = try connection.integer("SELECT max(sequence) FROM journal") ?? 0
        let name = SQLiteStore.name(KeyedHash(key: hashKey))
        if let fault = StoreFault(lostSince: last, head, isDamaged: hasDamagedLog, name: name, path: file.path) {
            found("lost_calls", fault.description)
        } else if head?.name != name {
            found(
                Finding(
                    code: "no_head",
                    description:
                        "\(file.headPath) is missing, damaged or of another store, so nobody can tell whether the last calls are "
                        + "here. The next start of the server makes it anew.",
                    isWarning: true))
        }
    }

    /// The value of a setting; nil if the store has none.
    package func setting(_ name: String) throws(StoreFault) -> [UInt8]? {
        try file.attempt { () throws(SQLiteFault) in
            let setting = try connection.prepare("SELECT value FROM settings WHERE name = ?")
            setting.bind(1, text: name)
            return try setting.step() ? setting.blob(0) : nil
        }
    }

    /// The marks of the master keys with which the store makes new secrets.
    ///
    /// - Parameter name: the setting with the mark of the first key.
    package func masterKeys(first name: String) throws(StoreFault) -> Set<MasterKeyMark> {
        let first = try setting(name).map { MasterKeyMark($0) }
        return try file.attempt { () throws(SQLiteFault) in
            // The versions before the last one name keys that may have been dropped since.
            let rows = try connection.prepare(
                """
                SELECT body FROM documents WHERE id IN (
                    SELECT max(id) FROM documents WHERE kind = \(DocumentKind.masterKeys.rawValue) GROUP BY hash
                )
                """)
            var histories: [[UInt8]] = []
            while try rows.step() { histories.append(rows.blob(0) ?? []) }
            let projects = try connection.integer("SELECT count(*) FROM projects") ?? 0
            return MasterKeyHistory.newest(in: histories, projects: projects, first: first)
        }
    }

    /// Checks the journal: it has all numbers from 1, and its time goes back only with a note of a step of the clock.
    private func examineJournal() throws(SQLiteFault) {
        progress("journal")
        var (expected, lastAt): (Int64, Int64) = (1, .min)
        try page("SELECT sequence, at, kind FROM journal WHERE sequence > ? ORDER BY sequence LIMIT ?") { row in
            let (sequence, at) = (row.integer(0), row.integer(1))
            // A restored store leaves out the numbers of the calls that it does not have.
            let isLeftOut = sequence > expected && row.integer(2) == Int64(ActKind.restored.rawValue)
            if sequence != expected, !isLeftOut {
                found("journal_gap", "After journal row \(expected - 1) comes row \(sequence).")
            }
            if at < lastAt, row.integer(2) != Int64(ActKind.clockStep.rawValue) {
                found(
                    "journal_time",
                    "Journal row \(sequence) has an earlier time than the row before it, and notes no step of the clock."
                )
            }
            if ActKind(rawValue: UInt8(truncatingIfNeeded: row.integer(2))) == nil {
                found("journal_kind", "Journal row \(sequence) is of a kind that this version does not know.")
            }
            (expected, lastAt) = (sequence &+ 1, at)
            return sequence
        }
        compareClock(withCallAt: lastAt)
        lastSequence = expected &- 1
    }

    /// Finds a last call that is ahead of the clock.
    private func compareClock(withCallAt last: Int64) {
        if let now, let fault = Finding(journalEndingAt: Instant(milliseconds: last), now: now) {
            findings.append(fault)
        }
    }

    /// Checks strategies: each strategy is readable, has its call, and follows the version before it.
    private func examineStrategies() throws(SQLiteFault) {
        let row = try connection.prepare(
            """
            SELECT made_by, strategies.project, version, document, kind FROM strategies
            LEFT JOIN journal ON sequence = made_by ORDER BY made_by
            """)
        var current: [ProjectID: Strategy] = [:]
        while try row.step() {
            let (madeBy, project) = (row.integer(0), ProjectID(rawValue: Int32(truncatingIfNeeded: row.integer(1))))
            if madeBy > lastSequence {
                later.append(("strategy_origin", "The strategy of journal row \(madeBy)", madeBy))
                continue
            }
            // A store from before a change of the default has the former default as the version before all calls.
            if madeBy < 0, row.integer(2) == 1, uniqueTypes[project] == nil,
                let strategy = row.blob(3).flatMap(Strategy.init(packed:))
            {
                uniqueTypes[project] = [(0, strategy.unique)]
                continue
            }
            let earlier = uniqueTypes[project] ?? [(0, Strategy.default.unique)]
            if row.integer(2) != Int64(earlier.count + 1) {
                found(
                    "strategy_version", "Version \(row.integer(2)) of a strategy does not follow the version before it."
                )
            }
            // The first project of a store is made with a strategy, and an undo brings the version before a call back.
            let kinds = [ActKind.setStrategy, .setUp, .undoSettings].map { Int64($0.rawValue) }
            if !kinds.contains(row.integer(4)) {
                found("strategy_origin", "The strategy of journal row \(madeBy) has no journal row.")
            }
            guard let strategy = row.blob(3).flatMap(Strategy.init(packed:)) else {
                found("strategy_document", "The strategy of journal row \(madeBy) cannot be read.")
                continue
            }
            uniqueTypes[project] = earlier + [(madeBy, strategy.unique)]
            current[project] = strategy
        }
        for (project, strategy) in current.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
            if let warning = Finding(strategy, of: project) { findings.append(warning) }
        }
    }

    /// The unique types of a project, from a journal row on.
    private var uniqueTypes: [ProjectID: [(since: Int64, types: IdentityTypeSet)]] = [:]

    /// Whether a type was unique at a journal row.
    private func wasUnique(_ type: IdentityType, in project: ProjectID, at sequence: Int64) -> Bool {
        let types = uniqueTypes[project]?.last { $0.since < sequence }?.types ?? Strategy.default.unique
        return types.contains(type)
    }

    var lastSequence: Int64 = 0
    var index = PeopleIndex()
    /// The facts that differ from the tree over the journal.
    var differences: [LeafDifference] = []
    /// The projects, apps and keys that differ from it.
    var thingDifferences: [ThingDifference] = []
    /// The lists of people's calls that differ from the facts of the calls.
    var listDifferences: [ListDifference] = []
    /// The things with a journal row that is later than the checked journal.
    var later: [(code: String, what: String, madeBy: Int64)] = []

    /// Checks people: each person has an id that is not 0, a project and its journal row.
    private func examinePeople() throws(SQLiteFault) {
        progress("people")
        let projects = Set(try integers("SELECT id FROM projects"))
        try page("SELECT id, project, made_by FROM people WHERE id > ? ORDER BY id LIMIT ?", from: .min) { row in
            let (id, project, madeBy) = (row.integer(0), row.integer(1), row.integer(2))
            if madeBy > lastSequence {
                later.append(("person_origin", "Person \(id)", madeBy))
                return id
            }
            if id == 0 { found("person_id", "A person has the id 0.") }
            if !projects.contains(project) {
                found("person_project", "Person \(id) belongs to project \(project), which does not exist.")
            }
            if madeBy < 1 { found("person_origin", "Person \(id) has no journal row.") }
            index.load(
                PersonID(rawValue: id), in: ProjectID(rawValue: Int32(truncatingIfNeeded: project)),
                seen: SeenAt(rawValue: 0))
            return id
        }
    }

    /// Checks that each call knows the call that came to its person before it.
    private func examineCallsOfPeople() throws(SQLiteFault) {
        progress("calls of people")
        var last: [Int64: Int64] = [:]
        let sql = """
            SELECT sequence, person, journal.previous, made_by FROM journal LEFT JOIN people ON people.id = person
            WHERE sequence > ? ORDER BY sequence LIMIT ?
            """
        try page(sql) { row in
            let call = row.integer(0)
            // A call may name a person that nobody has made. Such calls have no chain.
            guard let person = row.optionalInteger(1), let madeBy = row.optionalInteger(3) else { return call }
            let before = last.updateValue(call, forKey: person) ?? (madeBy < call ? madeBy : nil)
            if row.optionalInteger(2) != before {
                found("call_chain", "Call \(call) does not follow the call that came to person \(person) before it.")
            }
            return call
        }
    }

    /// Checks links: each link has a number behind the link before it, a person, a known type, a value and its journal row. No
    /// person holds a value twice, and a unique value has one holder.
    private func examineLinks() throws(SQLiteFault) {
        progress("links")
        let hash = KeyedHash(key: Hash128(high: 0x6F6E_796D, low: 0x646F_6374_6F72))
        let moves = try moves(hash)
        let sql = """
            SELECT id, person, type, value, made_by, (SELECT ended_by FROM link_ends WHERE link = id)
            FROM links WHERE id > ? ORDER BY id LIMIT ?
            """
        var expected: Int64 = 1
        try page(sql) { row in
            let (id, person, madeBy) = (row.integer(0), row.integer(1), row.integer(4))
            // The store numbers links without gaps, and removes no link.
            if id != expected { found("link_gap", "After link \(expected - 1) comes link \(id).") }
            // A damaged row may have the greatest number, and no row comes behind it.
            expected = id &+ 1
            if madeBy > lastSequence {
                later.append(("link_origin", "Link \(id)", madeBy))
                return id
            }
            if madeBy < 1 { found("link_origin", "Link \(id) has no journal row.") }
            guard let type = IdentityType(rawValue: UInt8(truncatingIfNeeded: row.integer(2))) else {
                found("link_type", "Link \(id) has type \(row.integer(2)), which this version does not know.")
                return id
            }
            let isEmpty = row.withBytes(3) { !Identity.valueBytes.contains($0.count) }
            // The values of erased people are removed.
            if isEmpty, row.optionalInteger(5) == nil {
                found("link_value", "Link \(id) has a value that is empty or too long.")
            }
            guard let place = index.place(of: PersonID(rawValue: person)) else {
                found("link_person", "Link \(id) belongs to person \(person), who does not exist.")
                return id
            }
            if let endedBy = row.optionalInteger(5) {
                // A link that ended after the first read may seem to overlap a newer link.
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
            } else if wasUnique(type, in: project, at: madeBy), index.committed.holderCount(of: key) > 0,
                !moves.contains(Move(call: madeBy, identity: key))
            {
                found("link_unique", "Link \(id) gives person \(person) a \(type.name) that another person holds.")
            }
            index.load(type, key, of: place, number: id)
            return id
        }
    }

    /// An identity that a split or the undo of a call moved from one person to another.
    private struct Move: Hashable {
        let call: Int64
        let identity: IdentityKey
    }

    /// The moved identities. Their new links are what the links from before were, so a rule that came in between does not count
    /// for them.
    private func moves(_ hash: KeyedHash) throws(SQLiteFault) -> Set<Move> {
        let kinds = ActKind.movingLinks.map { String($0.rawValue) }.joined(separator: ", ")
        let row = try connection.prepare(
            """
            SELECT sequence, type, value, project FROM journal JOIN link_ends ON ended_by = sequence
            JOIN links ON links.id = link WHERE kind IN (\(kinds))
            """)
        var moves: Set<Move> = []
        while try row.step() {
            guard let type = IdentityType(rawValue: UInt8(truncatingIfNeeded: row.integer(1))) else { continue }
            let project = ProjectID(rawValue: Int32(truncatingIfNeeded: row.integer(3)))
            moves.insert(
                Move(
                    call: row.integer(0), identity: row.withBytes(2) { IdentityKey(type, $0, in: project, hash: hash) })
            )
        }
        return moves
    }

    /// Checks that the journal rows of later things now exist.
    private func examineOrigins() throws(SQLiteFault) {
        let last = try connection.integer("SELECT max(sequence) FROM journal") ?? 0
        for (code, what, madeBy) in later where madeBy > last {
            found(code, "\(what) was made by journal row \(madeBy), which does not exist.")
        }
    }

    // MARK: - Reading

    /// Reads a table by its key, one page at a time. The body returns the key of its row. The keys of a damaged page are in no order: a
    /// page whose keys are not greater ends the reading.
    func page(
        _ sql: String, from start: Int64 = 0, _ body: (Statement) -> Int64
    ) throws(SQLiteFault) {
        let rows = try connection.prepare(sql)
        var last = start
        while true {
            let before = last
            rows.bind(1, last)
            rows.bind(2, Doctor.pageRows)
            var count: Int64 = 0
            while try rows.step() {
                last = max(last, body(rows))
                count += 1
            }
            if count < Doctor.pageRows || last == before { return }
        }
    }

    private func integers(_ sql: String) throws(SQLiteFault) -> [Int64] {
        let rows = try connection.prepare(sql)
        var integers: [Int64] = []
        while try rows.step() { integers.append(rows.integer(0)) }
        return integers
    }

    func found(_ code: String, _ description: String) { found(Finding(code: code, description: description)) }

    func found(_ finding: Finding) {
        broken[finding.code, default: 0] += 1
        if broken[finding.code, default: 0] <= Doctor.describedAtMost { findings.append(finding) }
    }
}
