import Foundation
package import StorePostgres
import Synchronization
import Threads

/// A PostgreSQL for tests, in a temporary folder, reached by a socket in it. It ends with this process, however that ends.
package final class PostgresCluster: Sendable {
    /// The PostgreSQL that tests share. It is started when it is first needed, and nothing of it has to survive. All processes of
    /// one run of `Tools/run-tests` have the same.
    package static let shared: Result<PostgresCluster, Shell.Failed> = {
        do {
            let place = ProcessInfo.processInfo.environment["ONYM_TEST_SHARED"]
            return .success(try place.map(PostgresCluster.shared(in:)) ?? PostgresCluster())
        } catch {
            return .failure(error as? Shell.Failed ?? Shell.Failed(description: "\(error)"))
        }
    }()

    /// Why there is no PostgreSQL here; nil where there is one.
    package static let absence: String? = {
        if PostgresCluster.programs != nil { return nil }
        return "PostgreSQL is not installed here: \"Tools/setup tests\" installs it."
    }()

    private static let programs: String? = {
        let folder = "/usr/lib/postgresql"
        let versions = ((try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []).compactMap(Int.init)
        return versions.filter { $0 >= 15 }.min().map { "\(folder)/\($0)/bin" }
    }()

    /// The settings of one that survives a crash.
    private static let durable = ["shared_buffers=64MB", "autovacuum_naptime=10s"]

    /// The settings of one that nothing has to survive: hundreds of stores are made in it, and nobody waits for its disk.
    private static let passing = [
        "shared_buffers=256MB", "autovacuum=off", "fsync=off", "full_page_writes=off", "synchronous_commit=off",
        "wal_level=minimal", "max_wal_senders=0", "checkpoint_timeout=1h", "max_wal_size=8GB",
    ]

    package let folder: String
    private let programs: String
    /// The user that it runs as: PostgreSQL will not run as root.
    private let become: [String]
    private let options: [String]
    /// Whoever holds the other end of this ends PostgreSQL when it is closed, by whatever.
    private let life = Monitor<Pipe?>(nil)
    private let schemas = Atomic(0)
    /// A pipe that a longer life than this process holds the other end of; nil where this process ends PostgreSQL.
    private let longerLife: String?

    /// The PostgreSQL of the processes that share a folder. The first one starts it, and the folder's owner ends it.
    private static func shared(in place: String) throws -> PostgresCluster {
        let lock = open("\(place)/postgres.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard lock >= 0, flock(lock, LOCK_EX) == 0 else { throw Shell.Failed(description: "\(place): \(errno)") }
        defer { close(lock) }
        let note = "\(place)/postgres"
        if let folder = try? String(contentsOfFile: note, encoding: .utf8) {
            return PostgresCluster(runningIn: folder, longerLife: "\(place)/life")
        }
        let cluster = try PostgresCluster(longerLife: "\(place)/life")
        try cluster.folder.write(toFile: note, atomically: true, encoding: .utf8)
        return cluster
    }

    /// A PostgreSQL that another process has started.
    private init(runningIn folder: String, longerLife: String) {
        self.folder = folder
        self.longerLife = longerLife
        (programs, become, options) = (PostgresCluster.programs ?? "", [], [])
    }

    /// - Parameters:
    ///   - isDurable: whether it survives a crash of the machine; slower.
    ///   - primary: of which it is to be the standby, if of any.
    package init(
        isDurable: Bool = false, settings: [String] = [], standbyOf primary: PostgresCluster? = nil,
        longerLife: String? = nil
    ) throws {
        guard let programs = PostgresCluster.programs else {
            throw Shell.Failed(description: PostgresCluster.absence ?? "")
        }
        self.programs = programs
        self.longerLife = longerLife
        // A socket's address has 107 bytes.
        folder = "/tmp/onym-pg-\(UUID().uuidString.prefix(8))"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
        if let user = Companion.user { try Shell.run("chown", user, folder) }
        become = Companion.become(Companion.user)
        options =
            [
                "listen_addresses=''", "unix_socket_directories='\(folder)'", "max_connections=1000",
            ] + (isDurable ? PostgresCluster.durable : PostgresCluster.passing) + settings
        let make =
            if let primary {
                [
                    "\(programs)/pg_basebackup", "--pgdata=\(folder)/data", "--host=\(primary.folder)",
                    "--username=onym",
                    "--checkpoint=fast", "--wal-method=stream", "--write-recovery-conf", "--no-sync",
                ]
            } else {
                [
                    "\(programs)/initdb", "--pgdata=\(folder)/data", "--auth=trust", "--username=onym", "--no-sync",
                    "--encoding=UTF8", "--locale=C",
                ]
            }
        let made = try Shell.result(become + make, folder: folder)
        guard made.code == 0 else { throw Shell.Failed(description: "\(make[0]): \(made.errors)") }
        try start()
    }

    /// Starts it, and waits until it can be asked.
    package func start() throws {
        let arguments = options.map { "-c \($0)" }.joined(separator: " ")
        let script = """
            "\(programs)/postgres" -D "\(folder)/data" \(arguments) </dev/null >>"\(folder)/log" 2>&1 & server=$!
            read -r life \(longerLife.map { "<\"\($0)\"" } ?? "") && exit
            kill -QUIT $server
            for tenth in $(seq 50); do [ -e "\(folder)/data/postmaster.pid" ] && sleep 0.1; done
            rm -rf "\(folder)"
            """
        let pipe = try Companion.start(become + ["sh", "-c", script], in: folder)
        life.withLock { $0 = pipe }
        let isReady = try Patience.until {
            try Shell.result(["\(programs)/pg_isready", "--host=\(folder)", "--quiet"]).code == 0
        }
        if isReady { return }
        let log = (try? String(contentsOfFile: "\(folder)/log", encoding: .utf8)) ?? ""
        throw Shell.Failed(description: "PostgreSQL has not started: \(log)")
    }

    /// Kills it, as a power cut does. What it had on the disk stays.
    package func kill() throws {
        let text = try String(contentsOfFile: "\(folder)/data/postmaster.pid", encoding: .utf8)
        guard let server = text.split(separator: "\n").first.flatMap({ Int32($0) }) else {
            throw Shell.Failed(description: "PostgreSQL does not run.")
        }
        Foundation.kill(server, SIGKILL)
        // Whoever looks after it has nothing to do any more.
        life.withLock { life in
            try? life?.fileHandleForWriting.write(contentsOf: Data("over\n".utf8))
            life = nil
        }
        // The rest of it ends by itself. Then the files go that say who has the data and the socket: PostgreSQL would take
        // whoever is not yet waited for to be alive.
        guard Patience.until({ !isAlive }) else {
            throw Shell.Failed(description: "PostgreSQL was killed, and has not ended.")
        }
        for file in ["data/postmaster.pid", ".s.PGSQL.5432.lock"] {
            try FileManager.default.removeItem(atPath: "\(folder)/\(file)")
        }
    }

    /// Whether any process of it is at work in its data.
    private var isAlive: Bool {
        let processes = (try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []
        return processes.contains { process in
            let place = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/\(process)/cwd")
            return place == "\(folder)/data"
        }
    }

    /// Has it do something; answers what it printed.
    @discardableResult
    package func run(_ sql: String) throws -> String {
        let result = try Shell.result([
            "\(programs)/psql", "--host=\(folder)", "--username=onym", "--dbname=postgres", "--no-psqlrc", "--quiet",
            "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1", "--command=\(sql)",
        ])
        guard result.code == 0 else { throw Shell.Failed(description: "\(sql): \(result.errors)") }
        return result.output.trimmingCharacters(in: .whitespacesAndNewlines)
    }

    deinit {
        if longerLife != nil { return }
        let isKilled = life.withLock { life in
            defer { life = nil }
            try? life?.fileHandleForWriting.close()
            return life == nil
        }
        if isKilled { try? FileManager.default.removeItem(atPath: folder) }
    }

    package var address: String { "postgres:///postgres?host=\(folder)&user=onym" }

    /// Where a store is that nobody else has.
    package func newSchema() -> PostgresSettings {
        let number = schemas.wrappingAdd(1, ordering: .relaxed).newValue
        guard let settings = PostgresSettings(address: address, schema: "test_\(getpid())_\(number)") else {
            preconditionFailure("That is a name.")
        }
        return settings.patient
    }
}

extension PostgresSettings {
    /// The same, with limits that a machine does not reach that has much else to do.
    package var patient: PostgresSettings {
        var settings = self
        settings.statementMilliseconds = Patience.milliseconds
        settings.idleMilliseconds = Patience.milliseconds
        settings.momentMilliseconds = Patience.milliseconds
        // Where it is not given back, somebody is still there who waits for it to be over.
        settings.leaseMilliseconds = Patience.milliseconds / 2
        return settings
    }

    /// The same, reached another way.
    package func reached(at address: String) -> PostgresSettings {
        var settings = self
        settings.address = address
        return settings
    }
}
