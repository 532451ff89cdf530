import Domain
import Postgres

/// Projects, apps, keys and strategies. There are few of them, so they are written one at a time and read all at once.
enum DirectoryTables {
    private typealias Statement = Connection.Statement

    private static let project = Statement(
        "INSERT INTO projects (id, name, made_at, made_by) VALUES ($1::bigint, $2, $3, $4)")
    private static let app = Statement(
        """
        INSERT INTO apps
            (id, project, dialect, name, platform, bundle_id, public_id, secret_hash, made_at, made_by, web_origins, revoked_at)
        VALUES ($1, $2::bigint, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
        """)
    private static let key = Statement(
        """
        INSERT INTO keys (id, project, app, kind, name, hash, scopes, made_at, made_by, expires_at, revoked_at)
        VALUES ($1, $2::bigint, $3, $4, $5, $6, $7, $8, $9, $10, $11)
        """)
    private static let strategy = Statement(
        "INSERT INTO strategies (made_by, project, version, document) VALUES ($1, $2::bigint, $3, $4)")
    private static let renameProject = Statement("UPDATE projects SET name = $2 WHERE id = $1::bigint")
    private static let renameApp = Statement("UPDATE apps SET name = $2 WHERE id = $1")
    private static let revokeApp = Statement("UPDATE apps SET revoked_at = $2 WHERE id = $1")
    private static let revokeKey = Statement("UPDATE keys SET revoked_at = $2 WHERE id = $1")

    /// Sends the changes of a call to the directory.
    static func send(_ entry: JournalEntry, madeBy call: Int64, to connection: Connection) {
        for change in entry.changes {
            switch change {
            case .projectMade(let project):
                var parameters = Parameters()
                parameters.add(Int64(project.id.rawValue))
                parameters.add(project.name)
                parameters.add(project.madeAt.milliseconds)
                parameters.add(call)
                connection.send(DirectoryTables.project, parameters)
            case .appMade(let app): send(app, call, to: connection)
            case .keyMade(let key): send(key, call, to: connection)
            case .appRevoked(let app, let moment):
                connection.send(revokeApp, Parameters(app.rawValue, moment.milliseconds))
            case .keyRevoked(let key, let moment):
                connection.send(revokeKey, Parameters(key.rawValue, moment.milliseconds))
            case .renamed(let named, let name):
                let statement: Statement
                var parameters = Parameters()
                switch named {
                case .project(let id):
                    statement = renameProject
                    parameters.add(Int64(id.rawValue))
                case .app(let id):
                    statement = renameApp
                    parameters.add(id.rawValue)
                }
                parameters.add(name)
                connection.send(statement, parameters)
            case .strategySet(let version, let strategy):
                var parameters = Parameters(call, Int64(entry.project.rawValue), Int64(version))
                parameters.add(strategy.packed)
                connection.send(DirectoryTables.strategy, parameters)
            case .personMade, .linked, .unlinked, .rowAdded, .rowSuperseded, .documentPut, .merged, .mergeUndone,
                .personErased:
                break
            }
        }
    }

    private static func send(_ app: App, _ call: Int64, to connection: Connection) {
        var parameters = Parameters(app.id.rawValue, Int64(app.project.rawValue))
        parameters.add(app.dialect.rawValue)
        parameters.add(app.name)
        parameters.add(app.platform.rawValue)
        parameters.add(app.bundleID)
        parameters.add(app.publicID)
        parameters.add(app.secretHash?.bytes)
        parameters.add(app.madeAt.milliseconds)
        parameters.add(call)
        parameters.add(app.webOrigins.isEmpty ? nil : app.webOrigins.joined(separator: " "))
        parameters.add(app.revokedAt?.milliseconds)
        connection.send(DirectoryTables.app, parameters)
    }

    private static func send(_ key: AccessKey, _ call: Int64, to connection: Connection) {
        var parameters = Parameters(key.id.rawValue, Int64(key.project.rawValue))
        parameters.add(key.app?.rawValue)
        parameters.add(key.kind.rawValue)
        parameters.add(key.name)
        parameters.add(key.hash.bytes)
        parameters.add(key.scopes.names)
        parameters.add(key.madeAt.milliseconds)
        parameters.add(call)
        parameters.add(key.expiresAt?.milliseconds)
        parameters.add(key.revokedAt?.milliseconds)
        connection.send(DirectoryTables.key, parameters)
    }

    // MARK: - Reading

    private static let projects = Statement("SELECT id, name, made_at FROM projects")
    private static let apps = Statement(
        """
        SELECT id, project, dialect, name, platform, bundle_id, public_id, secret_hash, made_at, web_origins, revoked_at
        FROM apps
        """)
    private static let keys = Statement(
        "SELECT id, project, app, kind, name, hash, scopes, made_at, expires_at, revoked_at FROM keys")
    private static let strategies = Statement(
        """
        SELECT strategies.project, document, journal.at, journal.key, made_by, version FROM strategies
        LEFT JOIN journal ON sequence = made_by ORDER BY made_by
        """)

    /// The documents of the projects that belong to the directory, because each call may need them.
    private static let directoryDocuments = Statement(
        """
        SELECT asked.project, found.kind, found.body FROM unnest($1::bigint[], $2::uuid[]) AS asked (project, hash)
        CROSS JOIN LATERAL (
            SELECT DISTINCT ON (kind) kind, body FROM documents
            WHERE hash = asked.hash AND kind IN (\(Directory.documentKinds.map { String($0.rawValue) }.joined(separator: ", ")))
            ORDER BY kind, id DESC
        ) AS found
        """)

    /// Reads the whole directory, in two round trips.
    static func read(_ connection: Connection, _ hash: KeyedHash) throws(StoreFault) -> Directory {
        let answers = try StorePostgres.attempt { () throws(PostgresFault) in
            for statement in [projects, apps, keys, strategies] { connection.send(statement) }
            return try connection.answers()
        }
        let found = (0..<answers[0].count).map { project(answers[0], $0) }
        let directory = Directory(
            projects: found, apps: try apps(answers[1]), keys: try keys(answers[2]),
            strategies: try strategies(answers[3]), hash: hash)
        guard let whole = directory.with(try documents(of: found, connection)) else {
            throw unknown("the directory has a document")
        }
        return whole
    }

    private static func documents(
        of projects: [Project], _ connection: Connection
    ) throws(StoreFault) -> [(kind: DocumentKind, project: ProjectID, body: [UInt8])] {
        if projects.isEmpty { return [] }
        var parameters = Parameters()
        parameters.add(integers: projects.map { Int64($0.id.rawValue) })
        // The key of a document has the same hash for each kind.
        parameters.add(uuids: projects.map { ConsoleBook.key(of: $0.id).hash.uuid })
        let rows = try StorePostgres.attempt { () throws(PostgresFault) in
            try connection.run(directoryDocuments, parameters)
        }
        return try (0..<rows.count).map { row throws(StoreFault) in
            guard let kind = DocumentKind(rawValue: UInt8(truncatingIfNeeded: rows.integer(row, 1))) else {
                throw unknown("the directory has a document")
            }
            return (kind, ProjectID(rawValue: Int32(truncatingIfNeeded: rows.integer(row, 0))), rows.blob(row, 2) ?? [])
        }
    }

    private static func project(_ rows: Rows, _ row: Int) -> Project {
        Project(
            id: ProjectID(rawValue: Int32(truncatingIfNeeded: rows.integer(row, 0))), name: rows.text(row, 1) ?? "",
            madeAt: Instant(milliseconds: rows.integer(row, 2)))
    }

    private static func apps(_ rows: Rows) throws(StoreFault) -> [App] {
        var apps: [App] = []
        for row in 0..<rows.count {
            guard let dialect = rows.text(row, 2).flatMap(Dialect.init),
                let platform = rows.text(row, 4).flatMap(App.Platform.init)
            else { throw unknown("app \(rows.integer(row, 0)) has a dialect or a platform") }
            apps.append(
                App(
                    id: AppID(rawValue: rows.integer(row, 0)),
                    project: ProjectID(rawValue: Int32(truncatingIfNeeded: rows.integer(row, 1))), dialect: dialect,
                    name: rows.text(row, 3) ?? "", platform: platform, bundleID: rows.text(row, 5),
                    publicID: rows.text(row, 6),
                    secretHash: rows.isNull(row, 7) ? nil : rows.withBytes(row, 7) { KeyHash($0) },
                    webOrigins: (rows.text(row, 9) ?? "").split(separator: " ").map(String.init),
                    madeAt: Instant(milliseconds: rows.integer(row, 8)),
                    revokedAt: rows.optionalInteger(row, 10).map(Instant.init)))
        }
        return apps
    }

    private static func keys(_ rows: Rows) throws(StoreFault) -> [AccessKey] {
        var keys: [AccessKey] = []
        for row in 0..<rows.count {
            guard let kind = rows.text(row, 3).flatMap(AccessKey.Kind.init),
                let hash = rows.withBytes(row, 5, { KeyHash($0) })
            else { throw unknown("key \(rows.integer(row, 0)) has a kind") }
            keys.append(
                AccessKey(
                    id: KeyID(rawValue: rows.integer(row, 0)),
                    project: ProjectID(rawValue: Int32(truncatingIfNeeded: rows.integer(row, 1))),
                    app: rows.optionalInteger(row, 2).map(AppID.init), kind: kind, name: rows.text(row, 4) ?? "",
                    hash: hash, scopes: ScopeSet(names: rows.text(row, 6) ?? ""),
                    madeAt: Instant(milliseconds: rows.integer(row, 7)),
                    expiresAt: rows.optionalInteger(row, 8).map(Instant.init),
                    revokedAt: rows.optionalInteger(row, 9).map(Instant.init)))
        }
        return keys
    }

    private static func strategies(_ rows: Rows) throws(StoreFault) -> [ProjectID: StrategyHistory] {
        var histories: [ProjectID: StrategyHistory] = [:]
        for row in 0..<rows.count {
            let project = ProjectID(rawValue: Int32(truncatingIfNeeded: rows.integer(row, 0)))
            guard let strategy = rows.blob(row, 1).flatMap(Strategy.init(packed:)) else {
                throw unknown("call \(rows.integer(row, 4)) has a strategy")
            }
            if rows.integer(row, 5) == 1 {
                histories[project] = StrategyHistory(first: strategy)
                continue
            }
            histories[project, default: .initial].add(
                strategy, at: Instant(milliseconds: rows.integer(row, 2)),
                by: rows.optionalInteger(row, 3).map(KeyID.init))
        }
        return histories
    }

    private static func unknown(_ what: String) -> StoreFault {
        StoreFault(.corrupt, "In the store, \(what) that this version does not know.")
    }
}
