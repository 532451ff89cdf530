import Crypto
import Domain
import Leaves
import SQLite

/// The last numbers of links, rows and other facts in a store.
struct LastNumbers: Equatable, Sendable {
    var sequence = JournalSequence.zero
    var link: Int64 = 0
    var row: Int64 = 0
    var document: Int64 = 0

    init(_ connection: Connection) throws(SQLiteFault) {
        sequence = JournalSequence(rawValue: try connection.integer("SELECT max(sequence) FROM journal") ?? 0)
        link = try connection.integer("SELECT max(id) FROM links") ?? 0
        row = try connection.integer("SELECT max(id) FROM rows") ?? 0
        document = try connection.integer("SELECT max(id) FROM documents") ?? 0
    }

    /// Advances the numbers by the facts of some entries.
    mutating func advance(by entries: [JournalEntry]) {
        for entry in entries {
            sequence = sequence.next
            for change in entry.changes {
                switch change {
                case .linked: link += 1
                case .rowAdded: row += 1
                case .documentPut: document += 1
                case .personMade, .unlinked, .rowSuperseded, .merged, .mergeUndone, .personErased, .projectMade,
                    .appMade, .appRevoked, .keyMade, .keyRevoked, .renamed, .strategySet:
                    break
                }
            }
        }
    }
}

/// Writes the rows of a batch with prepared statements.
final class RowWriter {
    private let begin: Statement
    private let commit: Statement
    private let rollback: Statement
    private let sighting: Statement
    private let probe: Statement
    private let trial: Statement
    private let trialEnd: Statement
    /// The number of bytes of a trial write.
    private static let trialBytes = 1 << 20
    private let people: RowInserter
    private let links: RowInserter
    private let linkEnds: RowInserter
    private let merges: RowInserter
    private let mergeEnds: RowInserter
    private let rows: RowInserter
    private let documents: RowInserter
    private let rowHeads: Statement
    private let oldRows: Statement
    private let rowExists: Statement
    private let emptyRow: Statement
    private let deleteRow: Statement
    private let supersede: Statement
    private let emptySuperseded: Statement
    private let deleteDocument: Statement
    private let laterVersions: Statement
    private let emptyDocument: Statement
    private let rowsFolded: Statement
    private let erase: Statement
    private let journal: RowInserter
    private let leaves: RowInserter
    private let treeRoots: RowInserter
    private let callPeople: RowInserter
    private let callGroups: RowInserter
    private let callActs: RowInserter
    let log: LogWriter
    private let projects: RowInserter
    private let apps: RowInserter
    private let keys: RowInserter
    private let strategies: RowInserter
    private let revokeApp: Statement
    private let renameProject: Statement
    private let renameApp: Statement
    private let revokeKey: Statement

    init(_ connection: Connection) throws(SQLiteFault) {
        begin = try connection.prepare("BEGIN IMMEDIATE")
        commit = try connection.prepare("COMMIT")
        rollback = try connection.prepare("ROLLBACK")
        sighting = try connection.prepare("UPDATE people SET last_seen = max(last_seen, ?) WHERE id = ?")
        trial = try connection.prepare(
            "INSERT OR REPLACE INTO settings (name, value) VALUES ('trial', zeroblob(\(RowWriter.trialBytes)))")
        trialEnd = try connection.prepare("DELETE FROM settings WHERE name = 'trial'")
        probe = try connection.prepare(
            "INSERT INTO settings (name, value) VALUES ('recovered', x'00') ON CONFLICT (name) DO UPDATE SET value = x'00'"
        )
        people = try RowInserter(connection, into: "people", ["id", "project", "made_by", "last_seen"])
        links = try RowInserter(connection, into: "links", ["id", "person", "type", "value", "made_by"])
        linkEnds = try RowInserter(connection, into: "link_ends", ["link", "ended_by"])
        merges = try RowInserter(connection, into: "merges", ["id", "source", "destination", "rule", "made_by"])
        mergeEnds = try RowInserter(connection, into: "merge_ends", ["merge", "ended_by"])
        rows = try RowInserter(
            connection, into: "rows",
            ["id", "person", "previous", "kind", "at", "recognition", "device", "made_by", "body"])
        documents = try RowInserter(
            connection, into: "documents", ["id", "kind", "hash", "person", "made_by", "body", "previous"])
        rowHeads = try connection.prepare("UPDATE people SET rows = ? WHERE id = ?")
        oldRows = try connection.prepare(
            """
            SELECT id, person, previous, superseded_by IS NULL, at FROM rows
            WHERE kind = ?1 AND at >= ?4 AND at < ?2 AND (at > ?4 OR id > ?5) AND id <= ?6
                AND id < (SELECT max(id) FROM rows) ORDER BY at, id LIMIT ?3
            """)
        rowExists = try connection.prepare("SELECT 1 FROM rows WHERE id = ?")
        emptyRow = try connection.prepare(
            "UPDATE rows SET kind = \(RowWriter.removedKind), body = x'', recognition = NULL, device = NULL WHERE id = ?"
        )
        deleteRow = try connection.prepare("DELETE FROM rows WHERE id = ?")
        supersede = try connection.prepare("UPDATE rows SET superseded_by = ? WHERE id = ?")
        emptySuperseded = try connection.prepare("UPDATE rows SET body = x'' WHERE id = ?")
        deleteDocument = try connection.prepare("DELETE FROM documents WHERE id = ?")
        let forgetting = DocumentKind.forgetting.map { String($0.rawValue) }.joined(separator: ", ")
        laterVersions = try connection.prepare(
            """
            SELECT id, CASE WHEN kind IN (\(forgetting)) THEN previous END, made_by FROM documents
            WHERE id > ? ORDER BY id LIMIT ?
            """)
        emptyDocument = try connection.prepare("UPDATE documents SET body = x'' WHERE id = ? AND body <> x''")
        rowsFolded = try connection.prepare(
            "INSERT INTO settings (name, value) VALUES ('rows_folded', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
        )
        erase = try connection.prepare("UPDATE people SET erased_by = ? WHERE id = ?")
        journal = try RowInserter(
            connection, into: "journal",
            [
                "sequence", "at", "project", "key", "kind", "person", "previous", "request_id", "replay", "body",
                "inputs", "reply", "note",
            ])
        leaves = try RowInserter(connection, into: "leaves", ["sequence", "place", "mark", "opening"])
        treeRoots = try RowInserter(connection, into: "tree", ["number", "root"])
        callGroups = try RowInserter(connection, into: "call_groups", ["person", "sequence"])
        callActs = try RowInserter(connection, into: "call_acts", ["sequence", "act"])
        log = try LogWriter(connection)
        callPeople = try RowInserter(connection, into: "call_people", ["person", "sequence"])
        projects = try RowInserter(connection, into: "projects", ["id", "name", "made_at", "made_by"])
        apps = try RowInserter(
            connection, into: "apps",
            [
                "id", "project", "dialect", "name", "platform", "bundle_id", "public_id", "secret_hash", "made_at",
                "made_by", "web_origins", "revoked_at",
            ])
        keys = try RowInserter(
            connection, into: "keys",
            [
                "id", "project", "app", "kind", "name", "hash", "scopes", "made_at", "made_by", "expires_at",
                "revoked_at",
            ])
        renameProject = try connection.prepare("UPDATE projects SET name = ? WHERE id = ?")
        renameApp = try connection.prepare("UPDATE apps SET name = ? WHERE id = ?")
        revokeApp = try connection.prepare("UPDATE apps SET revoked_at = ? WHERE id = ?")
        revokeKey = try connection.prepare("UPDATE keys SET revoked_at = ? WHERE id = ?")
        strategies = try RowInserter(connection, into: "strategies", ["made_by", "project", "version", "document"])
    }

    /// Runs a body in one transaction. After a fault the store has no change of the transaction, except perhaps after a
    /// fault of the commit itself.
    func transaction(_ body: () throws(SQLiteFault) -> Void) throws(SQLiteFault) {
        try begin.run()
        do throws(SQLiteFault) {
            try body()
            try commit.run()
        } catch {
            // SQLite may have rolled back already. Then this statement fails without harm.
            try? rollback.run()
            throw error
        }
    }

    // MARK: - A batch

    /// Writes entries and their facts, with the next numbers. Returns the packed columns of the entries.
    ///
    /// - Parameter endedLinks: the numbers of the links that the entries end, in their order.
    func write(
        _ entries: [JournalEntry], after numbers: LastNumbers, endedLinks: [Int64],
        head: (PersonID, RowKind) -> RowHead?, lastCall: (PersonID) -> JournalSequence?,
        linkNumber: (IdentityKey) -> Int64?, documentNumber: (DocumentKey) -> Int64?
    ) throws(SQLiteFault) -> [PackedCall] {
        let batch = BatchRows(entries, after: numbers, endedLinks: endedLinks)
        var sequence = numbers.sequence
        for entry in entries {
            sequence = sequence.next
            if entry.changesDirectory { try writeDirectory(entry, madeBy: sequence.rawValue) }
        }
        try writePeople(batch)
        try write(batch.rows, after: numbers.row, head: head)
        try writeSuperseded(batch.supersededRows)
        try write(batch.documents, after: numbers.document, documentNumber)
        for (person, call) in batch.erasures {
            erase.bind(1, call)
            erase.bind(2, person.rawValue)
            try erase.run()
        }
        try writeNotes(batch)
        return try writeJournal(entries, after: numbers.sequence, lastCall, linkNumber)
    }

    /// Writes the people of a batch, and the links and merges that it makes and ends.
    private func writePeople(_ batch: BatchRows) throws(SQLiteFault) {
        try people.insert(batch.people) { row, column, person in
            row.bind(column + 1, person.id.rawValue)
            row.bind(column + 2, Int64(person.project.rawValue))
            row.bind(column + 3, person.madeBy)
            row.bind(column + 4, person.seen.rawValue)
        }
        try links.insert(batch.links) { row, column, link in
            row.bind(column + 1, link.id)
            row.bind(column + 2, link.person.rawValue)
            row.bind(column + 3, Int64(link.identity.type.rawValue))
            row.bind(column + 4, text: link.identity.value)
            row.bind(column + 5, link.madeBy)
        }
        try linkEnds.insert(batch.endedLinks) { row, column, end in
            row.bind(column + 1, end.link)
            row.bind(column + 2, end.endedBy)
        }
        try merges.insert(batch.merges) { row, column, merged in
            row.bind(column + 1, merged.merge.id.rawValue)
            row.bind(column + 2, merged.merge.from.rawValue)
            row.bind(column + 3, merged.merge.into.rawValue)
            row.bind(column + 4, Int64(merged.merge.rule.rawValue))
            row.bind(column + 5, merged.madeBy)
        }
        try mergeEnds.insert(batch.endedMerges) { row, column, end in
            row.bind(column + 1, end.merge.rawValue)
            row.bind(column + 2, end.endedBy)
        }
    }

    private func writeSuperseded(_ rows: [BatchRows.SupersededRow]) throws(SQLiteFault) {
        for (row, call, isEmptied) in rows {
            supersede.bind(1, call)
            supersede.bind(2, row.rawValue)
            try supersede.run()
            if isEmptied {
                emptySuperseded.bind(1, row.rawValue)
                try emptySuperseded.run()
            }
        }
    }

    /// Writes what an undo and an erasure later find calls by.
    private func writeNotes(_ batch: BatchRows) throws(SQLiteFault) {
        try callGroups.insert(batch.groupsRead) { row, column, read in
            row.bind(column + 1, read.root.rawValue)
            row.bind(column + 2, read.call)
        }
        try callActs.insert(batch.acts) { row, column, kept in
            row.bind(column + 1, kept.call)
            row.bind(column + 2, blob: kept.act)
        }
        try callPeople.insert(batch.touched) { row, column, touched in
            row.bind(column + 1, touched.person.rawValue)
            row.bind(column + 2, touched.call)
        }
    }

    /// Writes the calls. Returns their packed columns.
    private func writeJournal(
        _ entries: [JournalEntry], after last: JournalSequence, _ lastCall: (PersonID) -> JournalSequence?,
        _ linkNumber: (IdentityKey) -> Int64?
    ) throws(SQLiteFault) -> [PackedCall] {
        var sequence = last.rawValue
        // The earlier calls of people in this batch. Most people have one call in a batch, the call that made them.
        var earlier: [PersonID: Int64] = [:]
        let packed = entries.map { entry in
            PackedCall(inputs: JournalCoding.pack(entry.inputs, linkNumber: linkNumber), reply: entry.reply.packed)
        }
        var place = 0
        try journal.insert(entries) { row, column, entry in
            sequence += 1
            row.bind(column + 1, sequence)
            row.bind(column + 2, entry.at.milliseconds)
            row.bind(column + 3, Int64(entry.project.rawValue))
            row.bind(column + 4, entry.key?.rawValue)
            row.bind(column + 5, Int64(entry.kind.rawValue))
            row.bind(column + 6, entry.person?.rawValue)
            row.bind(column + 7, entry.person.flatMap { earlier[$0] ?? RowWriter.call(lastCall($0)) })
            row.bind(column + 8, text: entry.requestID)
            row.bind(column + 9, blob: entry.replay?.key.hash.bytes)
            row.bind(column + 10, blob: entry.replay?.body.bytes)
            row.bind(column + 11, blob: packed[place].inputs)
            row.bind(column + 12, blob: packed[place].reply)
            row.bind(column + 13, text: entry.note)
            for case .personMade(let person, _) in entry.changes { earlier[person] = sequence }
            if let person = entry.person { earlier[person] = sequence }
            place += 1
        }
        return packed
    }

    /// Writes what a batch adds to the tree over the journal.
    func write(_ addition: TreeAddition) throws(SQLiteFault) {
        try leaves.insert(addition.leaves) { row, column, leaf in
            row.bind(column + 1, leaf.sequence)
            row.bind(column + 2, Int64(leaf.place))
            row.bind(column + 3, blob: leaf.mark)
            row.bind(column + 4, blob: leaf.opening)
        }
        try treeRoots.insert(addition.roots) { row, column, root in
            row.bind(column + 1, Int64(root.number))
            row.bind(column + 2, blob: root.root.bytes)
        }
    }

    /// A committed call. A person of the batch has no committed call.
    private static func call(_ last: JournalSequence?) -> Int64? {
        last.flatMap { $0 == .zero ? nil : $0.rawValue }
    }

    private struct Chain: Hashable {
        let person: PersonID
        let kind: RowKind
    }

    private func write(
        _ added: [BatchRows.AddedRow], after last: Int64, head: (PersonID, RowKind) -> RowHead?
    ) throws(SQLiteFault) {
        if added.isEmpty { return }
        var number = last
        var heads: [Chain: Int64] = [:]
        // The rows of one chain are often next to each other.
        var latest: (chain: Chain, number: Int64)?
        try rows.insert(added) { statement, column, added in
            let chain = Chain(person: added.person, kind: added.row.kind)
            number += 1
            if let ended = latest, ended.chain != chain {
                heads[ended.chain] = ended.number
                latest = heads[chain].map { (chain, $0) }
            }
            let previous = latest?.number ?? head(added.person, added.row.kind)?.last.rawValue
            latest = (chain, number)
            statement.bind(column + 1, number)
            statement.bind(column + 2, added.person.rawValue)
            statement.bind(column + 3, previous)
            statement.bind(column + 4, Int64(added.row.kind.rawValue))
            statement.bind(column + 5, added.row.at.milliseconds)
            statement.bind(column + 6, added.row.recognition.map { Int64(bitPattern: $0.rawValue) })
            statement.bind(column + 7, added.row.device.map { Int64(bitPattern: $0.rawValue) })
            statement.bind(column + 8, added.madeBy)
            statement.bind(column + 9, blob: added.row.body)
        }
    }

    /// Writes documents, each with the number of the version before it. Derived documents have no history, so their earlier versions
    /// are deleted, and an empty version is not written.
    private func write(
        _ put: [BatchRows.PutDocument], after last: Int64, _ documentNumber: (DocumentKey) -> Int64?
    ) throws(SQLiteFault) {
        var latest: [DocumentKey: Int64?] = [:]
        let versions = put.enumerated().map { place, put in
            let number = last + Int64(place) + 1
            let known = latest.updateValue(put.key.isKept(put.body) ? number : nil, forKey: put.key)
            return (put: put, number: number, previous: known ?? documentNumber(put.key))
        }
        try documents.insert(versions.filter { $0.put.key.isKept($0.put.body) }) { statement, column, version in
            let put = version.put
            statement.bind(column + 1, version.number)
            statement.bind(column + 2, Int64(put.key.kind.rawValue))
            statement.bind(column + 3, blob: put.key.hash.bytes)
            statement.bind(column + 4, put.person.rawValue)
            statement.bind(column + 5, put.madeBy)
            statement.bind(column + 6, blob: put.body)
            statement.bind(column + 7, put.key.kind.isDerived ? nil : version.previous)
        }
        for version in versions where version.put.key.kind.isDerived {
            guard let previous = version.previous else { continue }
            deleteDocument.bind(1, previous)
            try deleteDocument.run()
        }
    }

    // MARK: - The directory

    private func writeDirectory(_ entry: JournalEntry, madeBy: Int64) throws(SQLiteFault) {
        for change in entry.changes {
            switch change {
            case .projectMade(let project): try write(project, madeBy)
            case .appMade(let app): try write(app, madeBy)
            case .keyMade(let key): try write(key, madeBy)
            case .appRevoked(let app, let moment): try revoke(revokeApp, app.rawValue, at: moment)
            case .keyRevoked(let key, let moment): try revoke(revokeKey, key.rawValue, at: moment)
            case .renamed(.project(let id), let name): try rename(renameProject, Int64(id.rawValue), name)
            case .renamed(.app(let id), let name): try rename(renameApp, id.rawValue, name)
            case .strategySet(let version, let strategy): try write(strategy, version, entry.project, madeBy)
            case .personMade, .linked, .unlinked, .rowAdded, .rowSuperseded, .documentPut, .merged, .mergeUndone,
                .personErased:
                break
            }
        }
    }

    private func write(_ project: Project, _ madeBy: Int64) throws(SQLiteFault) {
        try projects.insert(CollectionOfOne(project)) { row, _, project in
            row.bind(1, Int64(project.id.rawValue))
            row.bind(2, text: project.name)
            row.bind(3, project.madeAt.milliseconds)
            row.bind(4, madeBy)
        }
    }

    private func write(_ app: App, _ madeBy: Int64) throws(SQLiteFault) {
        try apps.insert(CollectionOfOne(app)) { row, _, app in
            row.bind(1, app.id.rawValue)
            row.bind(2, Int64(app.project.rawValue))
            row.bind(3, text: app.dialect.rawValue)
            row.bind(4, text: app.name)
            row.bind(5, text: app.platform.rawValue)
            row.bind(6, text: app.bundleID)
            row.bind(7, text: app.publicID)
            row.bind(8, blob: app.secretHash?.bytes)
            row.bind(9, app.madeAt.milliseconds)
            row.bind(10, madeBy)
            row.bind(11, text: app.webOrigins.isEmpty ? nil : app.webOrigins.joined(separator: " "))
            row.bind(12, app.revokedAt?.milliseconds)
        }
    }

    private func rename(_ statement: Statement, _ id: Int64, _ name: String) throws(SQLiteFault) {
        statement.bind(1, text: name)
        statement.bind(2, id)
        try statement.run()
    }

    private func revoke(_ statement: Statement, _ id: Int64, at moment: Instant) throws(SQLiteFault) {
        statement.bind(1, moment.milliseconds)
        statement.bind(2, id)
        try statement.run()
    }

    private func write(_ key: AccessKey, _ madeBy: Int64) throws(SQLiteFault) {
        try keys.insert(CollectionOfOne(key)) { row, _, key in
            row.bind(1, key.id.rawValue)
            row.bind(2, Int64(key.project.rawValue))
            row.bind(3, key.app?.rawValue)
            row.bind(4, text: key.kind.rawValue)
            row.bind(5, text: key.name)
            row.bind(6, blob: key.hash.bytes)
            row.bind(7, text: key.scopes.names)
            row.bind(8, key.madeAt.milliseconds)
            row.bind(9, madeBy)
            row.bind(10, key.expiresAt?.milliseconds)
            row.bind(11, key.revokedAt?.milliseconds)
        }
    }

    private func write(
        _ strategy: Strategy, _ version: Int, _ project: ProjectID, _ madeBy: Int64
    ) throws(SQLiteFault) {
        try strategies.insert(CollectionOfOne(strategy)) { row, _, strategy in
            row.bind(1, madeBy)
            row.bind(2, Int64(project.rawValue))
            row.bind(3, Int64(version))
            row.bind(4, blob: strategy.packed)
        }
    }

    // MARK: - Folds of sightings and heads

    func write(_ heads: [RowHead], of person: PersonID) throws(SQLiteFault) {
        rowHeads.bind(1, blob: heads.packed)
        rowHeads.bind(2, person.rawValue)
        try rowHeads.run()
    }

    /// Notes that the stored heads include all rows up to a row.
    func writeFolded(_ row: Int64) throws(SQLiteFault) {
        var packer = Packer()
        packer.add(UInt64(bitPattern: row))
        rowsFolded.bind(1, blob: packer.bytes)
        try rowsFolded.run()
    }

    func write(_ seen: PersonID, at moment: SeenAt) throws(SQLiteFault) {
        sighting.bind(1, moment.rawValue)
        sighting.bind(2, seen.rawValue)
        try sighting.run()
    }

    // MARK: - Removed rows

    /// The kind of a removed row with an older kept row. It keeps the position in the chain.
    static let removedKind: Int64 = 0

    /// Removes the content of versions that a later version superseded, up to a call. Returns the last document that was looked at.
    func forgetVersions(after place: Int64, supersededUpTo call: Int64, limit: Int) throws(SQLiteFault) -> Int64 {
        laterVersions.bind(1, place)
        laterVersions.bind(2, Int64(limit))
        var (reached, superseded): (Int64, [Int64]) = (place, [])
        while try laterVersions.step(), laterVersions.integer(2) <= call {
            reached = laterVersions.integer(0)
            if let previous = laterVersions.optionalInteger(1) { superseded.append(previous) }
        }
        laterVersions.reset()
        for version in superseded {
            emptyDocument.bind(1, version)
            try emptyDocument.run()
        }
        return reached
    }

    /// Removes old rows, the oldest first. Returns the number of removed rows of each person, without superseded rows, and what
    /// remains. The last row of the store stays, so that no number is used twice.
    ///
    /// - Parameters:
    ///   - wanted: the rows to remove.
    ///   - limit: the limit of rows.
    ///   - project: finds the project of a person.
    func expire(
        _ wanted: OldRows, limit: Int, project: (PersonID) -> ProjectID?
    ) throws(SQLiteFault) -> (lost: [PersonID: Int], rest: OldRows?) {
        let lookedAt = wanted.project == nil ? limit : limit * RowWriter.lookedAtForOne
        oldRows.bind(1, Int64(wanted.kind.rawValue))
        oldRows.bind(2, wanted.end.before.milliseconds)
        oldRows.bind(3, Int64(lookedAt))
        oldRows.bind(4, wanted.after?.at.milliseconds ?? .min)
        oldRows.bind(5, wanted.after?.number.rawValue ?? 0)
        oldRows.bind(6, wanted.end.upTo.rawValue)
        var old: [(number: Int64, person: PersonID, previous: Int64?, isCounted: Bool)] = []
        var (found, rest) = (0, wanted)
        while old.count < limit, try oldRows.step() {
            found += 1
            let (number, person) = (oldRows.integer(0), PersonID(rawValue: oldRows.integer(1)))
            rest.after = RowsByTime.Place(
                at: Instant(milliseconds: oldRows.integer(4)), number: RowNumber(rawValue: number))
            if let wanted = wanted.project, project(person) != wanted { continue }
            old.append((number, person, oldRows.optionalInteger(2), oldRows.integer(3) == 1))
        }
        oldRows.reset()
        var lost: [PersonID: Int] = [:]
        for row in old {
            let statement = try isKept(row.previous) ? emptyRow : deleteRow
            statement.bind(1, row.number)
            try statement.run()
            lost[row.person, default: 0] += row.isCounted ? 1 : 0
        }
        return (lost, found == lookedAt || old.count == limit ? rest : nil)
    }

    /// The rows of one project are among rows of other projects. A step looks at this many rows for each row that it may remove.
    private static let lookedAtForOne = 8

    private func isKept(_ number: Int64?) throws(SQLiteFault) -> Bool {
        guard let number else { return false }
        rowExists.bind(1, number)
        defer { rowExists.reset() }
        return try rowExists.step()
    }

    /// Writes as many bytes as a batch and removes them again, to test the disk. A full disk often has room for a page or
    /// two.
    func probeWriting() throws(SQLiteFault) {
        try transaction { () throws(SQLiteFault) in try probe.run() }
        try transaction { () throws(SQLiteFault) in try trial.run() }
        try transaction { () throws(SQLiteFault) in try trialEnd.run() }
    }
}
