import Domain
import SQLite

/// Writes the rows of a batch by statements that are prepared once.
final class RowWriter {
    private let begin: Statement
    private let commit: Statement
    private let rollback: Statement
    private let sighting: Statement
    private let probe: Statement
    private let people: RowInserter
    private let links: RowInserter
    private let linkEnds: RowInserter
    private let journal: RowInserter
    private let projects: RowInserter
    private let apps: RowInserter
    private let keys: RowInserter

    init(_ connection: Connection) throws(SQLiteFault) {
        begin = try connection.prepare("BEGIN IMMEDIATE")
        commit = try connection.prepare("COMMIT")
        rollback = try connection.prepare("ROLLBACK")
        sighting = try connection.prepare("UPDATE people SET last_seen = max(last_seen, ?) WHERE id = ?")
        probe = try connection.prepare(
            "INSERT INTO settings (name, value) VALUES ('recovered', x'00') ON CONFLICT (name) DO UPDATE SET value = x'00'"
        )
        people = try RowInserter(connection, into: "people", ["id", "project", "made_by", "last_seen"])
        links = try RowInserter(connection, into: "links", ["id", "person", "type", "value", "made_by"])
        linkEnds = try RowInserter(connection, into: "link_ends", ["link", "ended_by"])
        journal = try RowInserter(
            connection, into: "journal",
            ["sequence", "at", "project", "key", "kind", "person", "request_id", "replay", "body", "inputs", "reply"])
        projects = try RowInserter(connection, into: "projects", ["id", "name", "made_at", "made_by"])
        apps = try RowInserter(
            connection, into: "apps",
            [
                "id", "project", "dialect", "name", "platform", "bundle_id", "public_id", "secret_hash", "made_at",
                "made_by",
            ])
        keys = try RowInserter(
            connection, into: "keys",
            [
                "id", "project", "app", "kind", "name", "hash", "scopes", "made_at", "made_by", "expires_at",
                "revoked_at",
            ])
    }

    /// Runs a body in one transaction. After a fault nothing of it is there, unless the fault came at the commit itself.
    func transaction(_ body: () throws(SQLiteFault) -> Void) throws(SQLiteFault) {
        try begin.run()
        do throws(SQLiteFault) {
            try body()
            try commit.run()
        } catch {
            // SQLite may have rolled back by itself; then this fails, and says nothing new.
            try? rollback.run()
            throw error
        }
    }

    // MARK: - A batch

    private typealias PersonRow = (id: PersonID, project: ProjectID, madeBy: Int64, seen: Instant)
    private typealias LinkRow = (id: Int64, person: PersonID, identity: Identity, madeBy: Int64)

    /// Writes entries and the facts that they made, numbered on from what is there.
    ///
    /// - Parameter endedLinks: the numbers of the links that the entries end, in their order.
    func write(
        _ entries: [JournalEntry], after last: JournalSequence, lastLink: Int64, endedLinks: [Int64],
        linkNumber: (IdentityKey) -> Int64?
    ) throws(SQLiteFault) {
        var personRows: [PersonRow] = []
        var linkRows: [LinkRow] = []
        personRows.reserveCapacity(entries.count)
        linkRows.reserveCapacity(entries.count * 4)
        var endRows: [(link: Int64, endedBy: Int64)] = []
        var (sequence, link) = (last.rawValue, lastLink)
        for entry in entries {
            sequence += 1
            for change in entry.changes {
                switch change {
                case .personMade(let id, let moment):
                    personRows.append((id, entry.project, sequence, moment))
                case .linked(let person, let identity):
                    link += 1
                    linkRows.append((link, person, identity, sequence))
                case .unlinked: endRows.append((endedLinks[endRows.count], sequence))
                case .projectMade, .appMade, .keyMade: break
                }
            }
            if entry.changesDirectory { try write(entry.changes, madeBy: sequence) }
        }
        try people.insert(personRows) { row, column, person in
            row.bind(column + 1, person.id.rawValue)
            row.bind(column + 2, Int64(person.project.rawValue))
            row.bind(column + 3, person.madeBy)
            row.bind(column + 4, person.seen.milliseconds)
        }
        try links.insert(linkRows) { row, column, link in
            row.bind(column + 1, link.id)
            row.bind(column + 2, link.person.rawValue)
            row.bind(column + 3, Int64(link.identity.type.rawValue))
            row.bind(column + 4, text: link.identity.value)
            row.bind(column + 5, link.madeBy)
        }
        try linkEnds.insert(endRows) { row, column, end in
            row.bind(column + 1, end.link)
            row.bind(column + 2, end.endedBy)
        }
        sequence = last.rawValue
        try journal.insert(entries) { row, column, entry in
            sequence += 1
            row.bind(column + 1, sequence)
            row.bind(column + 2, entry.at.milliseconds)
            row.bind(column + 3, Int64(entry.project.rawValue))
            row.bind(column + 4, entry.key?.rawValue)
            row.bind(column + 5, Int64(entry.kind.rawValue))
            row.bind(column + 6, entry.person?.rawValue)
            row.bind(column + 7, text: entry.requestID)
            row.bind(column + 8, blob: entry.replay?.key.hash.bytes)
            row.bind(column + 9, blob: entry.replay?.body.bytes)
            row.bind(column + 10, blob: JournalCoding.pack(entry.inputs, linkNumber: linkNumber))
            row.bind(column + 11, blob: entry.reply.packed)
        }
    }

    // MARK: - The directory

    private func write(_ changes: [Change], madeBy: Int64) throws(SQLiteFault) {
        for change in changes {
            switch change {
            case .projectMade(let project): try write(project, madeBy)
            case .appMade(let app): try write(app, madeBy)
            case .keyMade(let key): try write(key, madeBy)
            case .personMade, .linked, .unlinked: break
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
        }
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

    // MARK: - Other rows

    func write(_ seen: PersonID, at moment: Instant) throws(SQLiteFault) {
        sighting.bind(1, moment.milliseconds)
        sighting.bind(2, seen.rawValue)
        try sighting.run()
    }

    /// Changes something that means nothing, to see whether the store can be written.
    func probeWriting() throws(SQLiteFault) {
        try transaction { () throws(SQLiteFault) in try probe.run() }
    }
}
