import Foundation

/// An HAProxy before several PostgreSQLs, which passes connections on to the one that writes: it asks each over and over whether it
/// is a standby.
package final class HAProxy: Sendable {
    /// Why there is none here; nil where there is one.
    package static let absence: String? =
        FileManager.default.isExecutableFile(atPath: program)
        ? PostgresCluster.absence : "HAProxy is not installed here: \"Tools/setup tests\" installs it."

    private static let program = "/usr/sbin/haproxy"

    private let companion: Companion

    /// - Parameter clusters: those of which one writes.
    package init(_ clusters: [PostgresCluster]) throws {
        let servers = clusters.enumerated().map { number, cluster in
            "    server pg\(number) unix@\(cluster.folder)/.s.PGSQL.5432 check"
        }
        companion = try Companion("haproxy") { folder in
            [
                "haproxy.cfg": """
                defaults
                    mode tcp
                    timeout connect 1s
                    timeout check 1s
                    timeout client 1h
                    timeout server 1h
                listen primary
                    bind unix@\(folder)/.s.PGSQL.5432 mode 666
                    option tcp-check
                    tcp-check connect
                    tcp-check send-binary \(HAProxy.hexadecimal(HAProxy.startUp))
                    tcp-check expect binary 5a0000000549
                    tcp-check send-binary \(HAProxy.hexadecimal(HAProxy.question))
                    tcp-check expect binary \(HAProxy.hexadecimal(HAProxy.isPrimary))
                    tcp-check send-binary 5800000004
                    default-server inter 500ms fastinter 200ms downinter 200ms fall 2 rise 1 on-marked-down shutdown-sessions
                \(servers.joined(separator: "\n"))

                """
            ]
        } command: {
            [HAProxy.program, "-db", "-f", "\($0)/haproxy.cfg"]
        }
        try companion.awaitListener(".s.PGSQL.5432")
        // It takes all to be there until it has asked them.
        let companion = companion
        guard Patience.until({ companion.log.split(separator: " is DOWN").count >= clusters.count }) else {
            throw Shell.Failed(description: "HAProxy has not found out who only reads: \(companion.log)")
        }
    }

    package var address: String { "postgres:///postgres?host=\(companion.folder)&user=onym" }

    // MARK: - What it asks, as PostgreSQL's protocol has it

    /// Length | protocol 3.0 | names and values, each with a zero behind it | a zero.
    private static let startUp: [UInt8] = {
        let body = [0, 3, 0, 0] + Array("user\0onym\0database\0postgres\0\0".utf8)
        return [0, 0, 0, UInt8(body.count + 4)] + body
    }()

    /// A query, which is answered with t or f.
    private static let question: [UInt8] = {
        let body = Array("SELECT pg_is_in_recovery()\0".utf8)
        return [UInt8(ascii: "Q"), 0, 0, 0, UInt8(body.count + 4)] + body
    }()

    /// A row with one column, in which stands f.
    private static let isPrimary = [UInt8(ascii: "D"), 0, 0, 0, 11, 0, 1, 0, 0, 0, 1, UInt8(ascii: "f")]

    private static func hexadecimal(_ bytes: [UInt8]) -> String {
        bytes.map { String(format: "%02x", $0) }.joined()
    }
}
