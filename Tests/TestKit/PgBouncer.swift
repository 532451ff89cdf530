import Foundation
package import StorePostgres

/// A PgBouncer before a PostgreSQL, which lends connections for one transaction each.
package final class PgBouncer: Sendable {
    /// Why there is none here; nil where there is one.
    package static let absence: String? =
        FileManager.default.isExecutableFile(atPath: program)
        ? PostgresCluster.absence : "PgBouncer is not installed here: \"Tools/setup tests\" installs it."

    private static let program = "/usr/sbin/pgbouncer"

    private let companion: Companion

    /// - Parameter connections: how many it has to the server for all who connect to it.
    package init(_ cluster: PostgresCluster, connections: Int) throws {
        companion = try Companion("bouncer") { folder in
            [
                "pgbouncer.ini": """
                [databases]
                postgres = host=\(cluster.folder) user=onym
                [pgbouncer]
                listen_port = 6432
                unix_socket_dir = \(folder)
                auth_type = any
                pool_mode = transaction
                default_pool_size = \(connections)
                max_client_conn = 2000
                """
            ]
        } command: {
            [PgBouncer.program, "\($0)/pgbouncer.ini"]
        }
        try companion.awaitListener(".s.PGSQL.6432")
    }

    package var address: String { "postgres:///postgres?host=\(companion.folder)&port=6432&user=onym" }

    /// The same schema, reached through here.
    package func settings(_ other: PostgresSettings) -> PostgresSettings {
        var settings = other.reached(at: address)
        settings.preparesStatements = false
        return settings
    }

    /// The one that tests share, before the cluster that they share.
    package static let shared: Result<PgBouncer, Shell.Failed> = PostgresCluster.shared.flatMap { cluster in
        do {
            return .success(try PgBouncer(cluster, connections: 4))
        } catch {
            return .failure(error as? Shell.Failed ?? Shell.Failed(description: "\(error)"))
        }
    }
}

/// How a store of tests reaches its PostgreSQL.
package enum PostgresWay: String, CaseIterable, Sendable {
    case direct, pooled

    /// Those that can be gone here.
    package static let allCases: [PostgresWay] = PgBouncer.absence == nil ? [.direct, .pooled] : [.direct]

    package func newSchema() throws -> PostgresSettings {
        let settings = try PostgresCluster.shared.get().newSchema()
        return self == .direct ? settings : try PgBouncer.shared.get().settings(settings)
    }
}
