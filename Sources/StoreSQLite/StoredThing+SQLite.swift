import Leaves
import SQLite

extension StoredThing {
    /// All projects, apps and keys of a store.
    ///
    /// - Parameter schema: the name under which the connection has the store.
    static func all(_ connection: Connection, in schema: String = "main") throws(SQLiteFault) -> [StoredThing] {
        var things: [StoredThing] = []
        let projects = try connection.prepare("SELECT id, made_by, name, made_at FROM \(schema).projects ORDER BY id")
        while try projects.step() {
            things.append(
                StoredThing(
                    .project, projects.integer(0), madeBy: projects.integer(1), projects.text(2) ?? "",
                    [.integer(projects.integer(3))], revokedAt: nil))
        }
        let apps = try connection.prepare(
            """
            SELECT id, made_by, name, project, dialect, platform, bundle_id, public_id, secret_hash, made_at,
                web_origins, revoked_at FROM \(schema).apps ORDER BY id
            """)
        while try apps.step() {
            things.append(
                StoredThing(
                    .app, apps.integer(0), madeBy: apps.integer(1), apps.text(2) ?? "",
                    [
                        .integer(apps.integer(3)), .text(apps.text(4)), .text(apps.text(5)), .text(apps.text(6)),
                        .text(apps.text(7)), .bytes(apps.blob(8)), .integer(apps.integer(9)), .text(apps.text(10)),
                    ], revokedAt: apps.optionalInteger(11)))
        }
        let keys = try connection.prepare(
            """
            SELECT id, made_by, name, project, app, kind, hash, scopes, made_at, expires_at, revoked_at
            FROM \(schema).keys ORDER BY id
            """)
        while try keys.step() {
            things.append(
                StoredThing(
                    .key, keys.integer(0), madeBy: keys.integer(1), keys.text(2) ?? "",
                    [
                        .integer(keys.integer(3)), .integer(keys.optionalInteger(4)), .text(keys.text(5)),
                        .bytes(keys.blob(6)), .text(keys.text(7)), .integer(keys.integer(8)),
                        .integer(keys.optionalInteger(9)),
                    ], revokedAt: keys.optionalInteger(10)))
        }
        return things
    }
}
