import Foundation
import Onym
import Program
import TestKit
import Testing

/// What a package and a service manager need of the program.
@Suite("The program in a package", .serialized)
struct PackagedTests {
    /// The repository, two folders above this file's.
    private static let repository = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    @Test("VERSION is the one place of the version and its date")
    func version() throws {
        let text = try String(contentsOf: PackagedTests.repository.appending(path: "VERSION"), encoding: .utf8)
        let lines = text.split(separator: "\n").map(String.init)
        #expect(lines == [Program.version, Program.releaseDate])
        #expect(OnymClient.version == Program.version)
        let changelog = try String(
            contentsOf: PackagedTests.repository.appending(path: "CHANGELOG.md"), encoding: .utf8)
        #expect(changelog.contains("## \(Program.version)"), "the changelog has a section for the version")
    }

    /// The socket of a service manager that listens.
    private final class Manager {
        let path: String
        private let descriptor: Int32

        init(in folder: String) throws {
            path = folder + "/notify"
            descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
            var address = sockaddr_un()
            address.sun_family = sa_family_t(AF_UNIX)
            withUnsafeMutableBytes(of: &address.sun_path) { bytes in bytes.copyBytes(from: Array(path.utf8)) }
            let bound = withUnsafePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
                }
            }
            guard bound == 0 else { throw Shell.Failed(description: "The socket cannot be made: \(errno)") }
        }

        deinit { close(descriptor) }

        /// The next report, as far as one comes in time.
        func next() -> String? { nextWithin(milliseconds: Patience.milliseconds) }

        func nextWithin(milliseconds: Int) -> String? {
            var awaited = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            guard poll(&awaited, 1, Int32(milliseconds)) > 0 else { return nil }
            var bytes = [UInt8](repeating: 0, count: 1024)
            let count = recv(descriptor, &bytes, bytes.count, 0)
            return count < 0 ? nil : String(decoding: bytes[..<count], as: UTF8.self)
        }

        /// The next report that is no sign of life.
        func nextNews() -> String? {
            for _ in 0..<1000 {
                let report = next()
                if report != "WATCHDOG=1" { return report }
            }
            return nil
        }
    }

    @Test("reports to the service manager that it serves, lives, reloads and stops")
    func reports() throws {
        let store = try Store()
        let manager = try Manager(in: store.folder.path)
        let server = try ServerProcess(
            data: store.data, environment: ["NOTIFY_SOCKET=\(manager.path)", "WATCHDOG_USEC=90000"])
        #expect(manager.next() == "READY=1")
        for _ in 0..<5 { #expect(manager.next() == "WATCHDOG=1") }
        server.signal(SIGHUP)
        #expect(manager.nextNews()?.hasPrefix("RELOADING=1\nMONOTONIC_USEC=") == true)
        #expect(manager.nextNews() == "READY=1")
        // A stopped process gives no sign of life, so the service manager would restart it.
        server.signal(SIGSTOP)
        while let report = manager.nextWithin(milliseconds: 200) { #expect(report == "WATCHDOG=1") }
        server.signal(SIGCONT)
        #expect(manager.next() == "WATCHDOG=1")
        #expect(server.stop() == 0)
        #expect(manager.nextNews() == "STOPPING=1")
        // A watchdog for another process is none of the server's.
        let other = try ServerProcess(
            data: store.data,
            environment: ["NOTIFY_SOCKET=\(manager.path)", "WATCHDOG_USEC=1000", "WATCHDOG_PID=1"])
        #expect(manager.next() == "READY=1" && other.stop() == 0 && manager.next() == "STOPPING=1")
    }

    @Test("takes its settings from a file elsewhere, and secrets from the service manager")
    func settings() throws {
        let folder = TemporaryFolder()
        let (file, data) = (folder.path + "/onym.toml", folder.path + "/store")
        try "data = '\(data)' # where it is\nlisten = \"127.0.0.1:0\"\n".write(
            toFile: file, atomically: true, encoding: .utf8)
        try "sk_test_1\n".write(toFile: folder.path + "/onym_stripe_secret_key", atomically: true, encoding: .utf8)
        func onym(_ words: String...) throws -> Shell.Result {
            try Shell.result(
                ["/usr/bin/env", "CREDENTIALS_DIRECTORY=\(folder.path)", ServerProcess.program] + words
                    + ["--config", file])
        }
        let keys = folder.path + "/keys.json"
        let made = try onym("init", "--keys-file", keys)
        #expect(made.code == 0 && made.output.isEmpty && !made.errors.contains("onym_admin_"), "\(made)")
        let permissions = try FileManager.default.attributesOfItem(atPath: keys)[.posixPermissions] as? Int
        #expect(permissions == 0o600)
        #expect(FileManager.default.fileExists(atPath: data + "/onym.db"))
        let shown = try onym("settings").output
        #expect(shown.contains(/stripe_secret_key +\(set\)  \(credential\)/), "\(shown)")
        #expect(shown.contains("\(data)  (file)"), "\(shown)")

        // A store is made only if its keys can be kept.
        let again = try onym("init", "--data", folder.path + "/second", "--keys-file", keys)
        #expect(again.code == 1 && !FileManager.default.fileExists(atPath: folder.path + "/second/onym.db"), "\(again)")
        #expect(try onym("init", "--keys-file", folder.path + "/more.json").code == 1, "there is a store already")
        #expect(!FileManager.default.fileExists(atPath: folder.path + "/more.json"))
        let missing = try Shell.result([ServerProcess.program, "settings", "--config", folder.path + "/none.toml"])
        #expect(missing.code == 1 && missing.errors.contains("none.toml"), "\(missing)")
        // The file in the data folder cannot name another data folder.
        try "data = 'x'".write(toFile: data + "/onym.toml", atomically: true, encoding: .utf8)
        let circle = try Shell.result([ServerProcess.program, "settings", "--data", data])
        #expect(circle.code == 2 && circle.errors.contains("cannot set"), "\(circle)")
    }

    @Test("shows the first keys from their file, and says whether the server is ready")
    func keysAndHealth() throws {
        let store = try Store()
        func onym(_ words: String...) throws -> Shell.Result {
            try Shell.result([ServerProcess.program] + words + ["--data", store.data])
        }
        let none = try onym("keys", "show")
        #expect(none.code == 1 && none.errors.contains("keys create"), "\(none)")
        try #"{"admin_key":"x"}"#.write(toFile: store.data + "/first-keys.json", atomically: true, encoding: .utf8)
        #expect(try onym("keys", "show").output == "{\"admin_key\":\"x\"}\n")
        let away = try onym("health")
        #expect(away.code == 3 && away.errors.contains("No server runs"), "\(away)")
        let server = try ServerProcess(data: store.data)
        let ready = try onym("health")
        #expect(ready.code == 0 && ready.output.contains("ready"), "\(ready)")
        #expect(server.stop() == 0)
    }

    @Test("writes the keys of a first project into a private file, and prints none into a log")
    func firstKeys() throws {
        for mode in ["production", "development"] {
            let folder = TemporaryFolder()
            let data = folder.path + "/data"
            let server = try ServerProcess(data: data, flags: ["--mode", mode])
            let file = data + "/first-keys.json"
            let keys = try String(contentsOfFile: file, encoding: .utf8)
            let admin = try #require(keys.firstMatch(of: /"admin_key":"([^"]+)"/)).1
            #expect(try FileManager.default.attributesOfItem(atPath: file)[.posixPermissions] as? Int == 0o600)
            #expect(server.errors(with: "onym keys show").contains("first-keys.json"))
            #expect(!server.errors.contains(admin))
            let answer = try server.client.call(
                "GET", "/onym/v1/stats", fields: [("Authorization", "Bearer \(admin)")])
            #expect(answer.status == 200)
            #expect(server.stop() == 0)
        }
    }

    @Test("prints the pages of its package, and no others")
    func pages() throws {
        for page in ["onym.1", "onym.toml.5", "onym.toml", "onym.bash", "_onym", "onym.fish"] {
            let printed = try Shell.result([ServerProcess.program, "pages", page])
            #expect(printed.code == 0 && printed.output.contains("onym"), "\(page)")
        }
        #expect(try Shell.result([ServerProcess.program, "pages", "other"]).code == 2)
        #expect(!(try Shell.result([ServerProcess.program, "help"]).output.contains("pages")))
        // The printed settings are settings that the program takes.
        let folder = TemporaryFolder()
        let text = try Shell.result([ServerProcess.program, "pages", "onym.toml"]).output
        let values = text.split(separator: "\n").map { line in
            line.hasPrefix("#") && line.contains(" = ") && !line.hasSuffix("\"\"")
                ? String(line.drop { "# ".contains($0) }) : String(line)
        }
        let settings = values.filter { line in !line.hasPrefix("#") && line.wholeMatch(of: /[a-z_]+ = .*/) != nil }
        #expect(settings.count > 20)
        try settings.joined(separator: "\n").write(
            toFile: folder.path + "/all.toml", atomically: true, encoding: .utf8)
        let taken = try Shell.result([ServerProcess.program, "settings", "--config", folder.path + "/all.toml"])
        #expect(taken.code == 0, "\(taken)")
    }
}
