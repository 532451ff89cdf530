import DialectIDSync
import Domain
import Engine
import Foundation
import Program
import SQLite
import StoreSQLite
import TestKit
import Testing
import Threads

/// The commands, run in this process: what they print and how they end.
@Suite("The program")
struct ProgramTests {
    private let folder = TemporaryFolder()
    private var data: String { folder.path + "/data" }

    private struct Outcome {
        let code: Int32
        let output: String
        let errors: String
    }

    private func run(_ words: String..., environment: [String: String] = [:]) -> Outcome {
        let (output, errors) = (Box(), Box())
        let terminal = Terminal(
            output: { text in output.text.withLock { $0 += text } },
            error: { text in errors.text.withLock { $0 += text } })
        let code = Program.run(words, environment: environment, terminal: terminal)
        return Outcome(code: code, output: output.text.withLock { $0 }, errors: errors.text.withLock { $0 })
    }

    private func help(_ words: [String]) -> Outcome {
        words.count == 1 ? run("help", words[0]) : run("help", words[0], words[1])
    }

    private final class Box: Sendable {
        let text = Monitor("")
    }

    private func object(_ text: String) throws -> [String: Any] {
        try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any])
    }

    // MARK: - init

    @Test("makes a store and prints its keys once, for programs")
    func initJSON() throws {
        let made = run("init", "--data", data, "--project", "Shop", "--json")
        #expect(made.code == 0 && made.errors.isEmpty)
        let keys = try object(made.output)
        #expect((keys["project"] as? [String: String])?["name"] == "Shop")
        func value(_ group: String, _ name: String) -> String { (keys[group] as? [String: String])?[name] ?? "" }
        let forms: [(String, Regex<Substring>)] = [
            (keys["admin_key"] as? String ?? "", /onym_admin_[0-9a-f]{48}/),
            (value("idsync", "key"), /us1-[0-9a-f]{32}/), (value("idsync", "secret"), /[0-9a-f]{64}/),
            (value("idsync", "web_key"), /us1-[0-9a-f]{32}/),
            (value("claim", "client_key"), /owl_client_[0-9a-f]{48}/),
            (value("claim", "agent_key"), /owl_agent_[0-9a-f]{48}/),
            (value("claim", "import_key"), /owl_import_[0-9a-f]{48}/),
            (value("claim", "bundle_id"), /com\.example\.demo/),
            (value("entitlements", "project_key"), /[A-Za-z0-9_-]{32}/),
            (value("entitlements", "secret_key"), /sk_[A-Za-z0-9_-]{32}/),
            (value("linking", "app_id"), /[0-9a-f]{24}/), (value("linking", "app_secret"), /[0-9a-f]{64}/),
            (value("linking", "api_key"), /[0-9a-f]{15}\.[A-Za-z0-9]{48}/),
            (value("onym", "client_key"), /onym_client_[0-9a-f]{48}/),
            (value("onym", "server_key"), /onym_server_[0-9a-f]{48}/),
        ]
        for (text, form) in forms { #expect(text.wholeMatch(of: form) != nil, "\(text)") }
        #expect(keys.count == 7)
        // Nothing of them is in the store, but for their hashes.
        let bytes = try Data(contentsOf: URL(filePath: data + "/onym.db"))
        for (text, _) in forms where text != "com.example.demo" && text != value("linking", "app_id") {
            #expect(bytes.range(of: Data(text.utf8)) == nil, "\(text) is in the store")
        }
        let master = try FileManager.default.attributesOfItem(atPath: data + "/master.key")[.posixPermissions] as? Int
        #expect(master == 0o600)
    }

    @Test("prints keys for people, too")
    func initText() {
        let made = run("init", "--data", data)
        #expect(made.code == 0)
        #expect(made.output.contains("Project \"Demo\"") && made.output.contains("onym_admin_"))
    }

    @Test("changes nothing where there is a store")
    func initTwice() throws {
        #expect(run("init", "--data", data).code == 0)
        let before = try Data(contentsOf: URL(filePath: data + "/onym.db"))
        let again = run("init", "--data", data, "--json")
        #expect(again.code == 1 && again.output.isEmpty)
        #expect(again.errors.contains("already has a store; nothing was changed"))
        #expect(try Data(contentsOf: URL(filePath: data + "/onym.db")) == before)
    }

    @Test("a folder of copies keeps as many copies as backup_keep says")
    func backupKeep() throws {
        #expect(run("init", "--data", data).code == 0)
        let copies = folder.path + "/copies"
        for _ in 0..<4 {
            let made = run("backup", copies, "--data", data, environment: ["ONYM_BACKUP_KEEP": "2"])
            #expect(made.code == 0, "\(made)")
        }
        let bases = try FileManager.default.contentsOfDirectory(atPath: copies + "/base").sorted()
        #expect(bases == ["00000003", "00000004"])
    }

    @Test("says where it cannot make a store")
    func initFails() {
        let missing = run("init", "--data", folder.path + "/a/b/c")
        #expect(missing.code == 1 && missing.errors.contains("cannot be made"))
        #expect(run("init", "--data", data, "--project", "").code == 2)
        #expect(!FileManager.default.fileExists(atPath: data))
    }

    @Test("derives secrets from a master key that is given, and makes none then")
    func initWithMasterKey() throws {
        let environment = ["ONYM_MASTER_KEY": String(repeating: "ab", count: 32)]
        let keys = try object(run("init", "--data", data, "--json", environment: environment).output)
        #expect(!FileManager.default.fileExists(atPath: data + "/master.key"))
        let idsync = try #require(keys["idsync"] as? [String: String])
        let secrets = IDSyncSecrets(master: [UInt8](repeating: 0xAB, count: 32))
        let key = try #require(idsync["key"])
        #expect(idsync["secret"] == secrets.secret(for: key))
    }

    @Test("is served with no other master key than it was made with")
    func otherMasterKey() throws {
        #expect(run("init", "--data", data).code == 0)
        let other = ["ONYM_MASTER_KEY": String(repeating: "ab", count: 32)]
        for _ in 0..<2 {
            let served = run("serve", "--data", data, "--listen", "127.0.0.1:0", environment: other)
            #expect(served.code == 3 && served.errors.contains("another master key"), "\(served.errors)")
            #expect(run("stats", "--data", data, environment: other).code == 3)
        }
        #expect(run("stats", "--data", data).code == 0)
        // A store from before the mark was kept keeps that of the first key that it is opened with.
        let file = try Connection(path: data + "/onym.db", mode: .readWrite)
        try file.execute("DELETE FROM settings WHERE name = 'master_key_mark'")
        #expect(run("stats", "--data", data).code == 0)
        #expect(run("stats", "--data", data, environment: other).code == 3)
    }

    @Test("takes no settings and no master key that it cannot rely on")
    func unreliableFiles() throws {
        #expect(run("init", "--data", data).code == 0)
        try Shell.run("chmod", "644", data + "/master.key")
        let shared = run("serve", "--data", data, "--listen", "127.0.0.1:0")
        #expect(shared.code == 3 && shared.errors.contains("chmod 600"))
        try FileManager.default.createDirectory(atPath: data + "/onym.toml", withIntermediateDirectories: false)
        let settings = run("settings", "--data", data)
        #expect(settings.code == 1 && settings.errors.contains("onym.toml cannot be read"))
    }

    // MARK: - doctor

    @Test("finds a new store healthy, and says what is wrong with another")
    func doctor() throws {
        #expect(run("init", "--data", data).code == 0)
        let healthy = run("doctor", "--data", data, "--json")
        #expect(healthy.code == 0 && healthy.output == "{\"healthy\":true,\"findings\":[]}\n")
        #expect(run("doctor", "--data", data).output == "The store is healthy.\n")
        #expect(healthy.errors.contains("Checking"), "progress goes to standard error")
        #expect(run("doctor", "--quick", "--data", data).output == "The store is healthy.\n")
        #expect(run("doctor", "--quick", "--repair", "--data", data).code == 2)
        try Shell.run(
            "python3", "-c",
            "import sqlite3,sys; c=sqlite3.connect(sys.argv[1]); c.execute('UPDATE journal SET kind=200'); c.commit()",
            data + "/onym.db")
        let sick = run("doctor", "--data", data)
        #expect(sick.code == 1 && sick.output.contains("journal_kind: "))
        let findings = try object(run("doctor", "--data", data, "--json").output)
        #expect(findings["healthy"] as? Bool == false)
        #expect(run("doctor", "--data", folder.path + "/none").code == 3)
    }

    // MARK: - strategy

    @Test("shows, sets, lists and takes back the rules of a store that nobody serves")
    func strategy() throws {
        #expect(run("init", "--data", data).code == 0)
        let shown = run("strategy", "show", "--data", data)
        #expect(shown.code == 0 && shown.errors.isEmpty)
        let first = "version          2\npreset           default\norder_free       -\nhierarchy        customerid, "
        #expect(shown.output.hasPrefix(first))
        #expect(shown.output.contains("\nsame_user_id     yes\n"), "of the projects that init makes")
        let set = run("strategy", "set", "--preset", "profile_link", "--data", data)
        #expect(set.code == 0 && set.output.contains("\nlogin            customerid, email\n"))

        let file = folder.path + "/strategy.json"
        try Data(#"{"blocked_values":[],"lowercase_email":true}"#.utf8).write(to: URL(filePath: file))
        let custom = try object(run("strategy", "set", "--file=\(file)", "--data", data, "--json").output)
        #expect(custom["version"] as? Int == 4 && custom["preset"] as? String == "custom")
        #expect(custom["login"] as? [String] == ["customerid", "email"] && custom["lowercase_email"] as? Bool == true)

        let back = run("strategy", "rollback", "--version", "1", "--data", data)
        #expect(back.code == 0 && back.output.hasPrefix("version          5\npreset           default\n"))
        let versions = run("strategy", "versions", "--data", data)
        let lines = versions.output.split(separator: "\n")
        #expect(lines.map { $0.prefix(1) } == ["5", "4", "3", "2", "1"])
        #expect(lines[2].wholeMatch(of: /3  \d{4}-\d\d-\d\dT[\d:.]+Z  profile_link/) != nil, "no key")
        #expect(run("strategy", "versions", "--cursor", "3", "--data", data).output.hasPrefix("2  "))
        let names = try FileManager.default.contentsOfDirectory(atPath: data).sorted()
        #expect(names == ["master.key", "onym.db", "onym.head", "onym.lock"], "nothing is left")
        #expect(run("doctor", "--data", data).code == 0)
        let other = run("strategy", "set", "--preset", "mparticle.link", "--data", data)
        #expect(other.code == 0 && other.output.contains("\npreset           profile_link\n"))
        #expect(other.output.contains("\nlimits           -\n"))
        #expect(run("strategy", "set", "--preset", "segments", "--data", data).code == 2)
    }

    @Test("says why the rules were not changed, and whose fault it is")
    func strategyRefused() throws {
        let nowhere = run("strategy", "show", "--data", data)
        #expect(nowhere.code == 3 && nowhere.errors.contains("Make one with \"onym init\""))
        #expect(!FileManager.default.fileExists(atPath: data))
        #expect(run("init", "--data", data).code == 0)
        let file = folder.path + "/strategy.json"
        try Data(#"{"login":["ios_idfv"]}"#.utf8).write(to: URL(filePath: file))
        let refused = run("strategy", "set", "--file", file, "--data", data)
        #expect(refused.code == 1 && refused.output.isEmpty)
        #expect(
            refused.errors
                == "onym strategy set: login must not have ios_idfv, because a device never logs a person in.\n")
        let missing = run("strategy", "rollback", "--version", "9", "--data", data)
        #expect(missing.code == 1 && missing.errors.contains("no version with this number"))
        for preset in ["fancy", "custom", ""] {
            let unknown = run("strategy", "set", "--preset", preset, "--data", data)
            #expect(unknown.code == 2 && unknown.errors.contains("default, profile_conversion"), "\(unknown)")
        }
        #expect(run("strategy", "set", "--file", folder.path + "/none", "--data", data).code == 1)
        #expect(run("strategy", "show", "--project", "2", "--data", data).errors.contains("There is no project 2."))
        for words in [
            ["set"], ["set", "--preset", "default", "--file", file], ["rollback"], ["rollback", "--version", "x"],
            ["show", "word"], ["show", "--preset", "x"], ["versions", "--cursor", "a b"],
            ["show", "--project", "a\r\n"],
            ["dance"], [],
        ] {
            let terminal = Terminal(output: { _ in }, error: { _ in })
            #expect(Program.run(["strategy"] + words, environment: [:], terminal: terminal) == 2, "\(words)")
        }
        #expect(run("strategy", "show", "--data", data).output.hasPrefix("version          2\n"), "nothing changed")
    }

    @Test("asks for the project if there are several")
    func severalProjects() throws {
        #expect(run("init", "--data", data, "--project", "Shop").code == 0)
        let store = try SQLiteStore(StoreFile(folder: data))
        let project = Project(id: ProjectID(rawValue: 2), name: "Club", madeAt: Instant(milliseconds: 0))
        let setUp = SetUp(project: project, apps: [], keys: [])
        let job = Job(call: Call(project: project.id, key: nil), act: setUp)
        _ = try Writer(store: store, chance: { 0 }).process([job], at: Instant(milliseconds: 0))[0].get()
        store.close()
        let which = run("strategy", "show", "--data", data)
        #expect(which.code == 1 && which.errors.contains("Name the project: 1 (Shop), 2 (Club)."))
        #expect(run("strategy", "set", "--preset", "best_match", "--project", "2", "--data", data).code == 0)
        #expect(run("strategy", "show", "--project", "1", "--data", data).output.contains("preset           default\n"))
        let other = run("strategy", "show", "--project=2", "--data", data)
        #expect(other.output.contains("preset           best_match\n"))
    }

    @Test("explains what can be done with the rules")
    func strategyHelp() {
        let group = run("help", "strategy")
        #expect(group.code == 0 && group.output.contains("  strategy rollback    Makes an earlier version"))
        #expect(run("strategy", "--help").output == group.output)
        let help = run("help", "strategy", "set")
        #expect(help.output.contains("usage: onym strategy set (--preset NAME | --file FILE)"))
        #expect(run("strategy", "set", "--help").output == help.output)
        #expect(run("help", "strategy", "dance").code == 2)
        let unknown = run("strategy", "dance")
        #expect(unknown.code == 2 && unknown.errors.contains("there is no command \"strategy dance\""))
        #expect(run("help").output.contains("strategy"))
    }

    // MARK: - settings

    @Test("prints each setting with where it came from")
    func settings() throws {
        try FileManager.default.createDirectory(atPath: data, withIntermediateDirectories: true)
        try Data("listen = \"127.0.0.1:1\"\nloops = 3\nmode = \"development\"\n".utf8).write(
            to: URL(filePath: data + "/onym.toml"))
        let settings = try object(
            run(
                "settings", "--data", data, "--listen", "127.0.0.1:2", "--json",
                environment: ["ONYM_MODE": "production"]
            ).output)
        func entry(_ name: String) -> [String]? {
            (settings[name] as? [String: Any]).map { ["\($0["value"] ?? "")", "\($0["source"] ?? "")"] }
        }
        #expect(entry("listen") == ["127.0.0.1:2", "flag"])
        #expect(entry("mode") == ["production", "environment"])
        #expect(entry("loops") == ["3", "file"])
        #expect(entry("log_level") == ["info", "default"])
        let key = String(repeating: "ab", count: 32)
        let text = run("settings", "--data", data, environment: ["ONYM_MASTER_KEY": key]).output
        #expect(text.contains("(set)") && !text.contains(key), "a secret is never shown")
        #expect(text.contains("listen") && text.contains("(file)"))
    }

    // MARK: - Usage

    @Test("takes no flag for a forgotten value")
    func forgottenValue() {
        let outcome = run("init", "--data", "--json")
        #expect(outcome.code == 2 && outcome.errors.contains("--data needs a value"))
        #expect(run("help", "nonsense").code == 2)
    }

    @Test("ends with 2 where it was told wrongly, and says how it is told")
    func usage() {
        #expect(run().code == 2)
        let unknown = run("dance")
        #expect(unknown.code == 2 && unknown.errors.contains("there is no command \"dance\""))
        for words in [
            ["--nonsense"], ["--listen", "nowhere"], ["--mode", "quick"], ["word"], ["--loops", "many"], ["--data"],
        ] {
            let terminal = Terminal(output: { _ in }, error: { _ in })
            #expect(Program.run(["serve"] + words, environment: [:], terminal: terminal) == 2, "\(words)")
        }
        let flag = run("init", "--nonsense")
        #expect(flag.errors.contains("There is no flag --nonsense.") && flag.errors.contains("usage: onym init"))
        #expect(run("serve", "--data", data, "--tls-cert", "x").errors.contains("--tls-cert and --tls-key go together"))
        // A name that is kept for later is refused wherever it stands: a server without the sign-in must not seem to have it.
        let reserved = run("serve", "--data", data, environment: ["ONYM_CONSOLE_PROXY_HEADER": "X-User"])
        #expect(reserved.code == 2 && reserved.errors.contains("ONYM_CONSOLE_PROXY_HEADER must be left out"))
        #expect(!FileManager.default.fileExists(atPath: data), "nothing is made before all is right")
    }

    @Test("explains itself")
    func help() {
        let help = run("help")
        #expect(help.code == 0)
        for command in ["init", "serve", "doctor", "settings", "strategy", "keys"] {
            #expect(help.output.contains(" \(command)"), "\(command)")
        }
        #expect(run("help", "serve").output.contains("--tls-cert"))
        // Each help fits a screen.
        let commands = run("pages", "onym.1").output.matches(of: /\n\.It Nm Cm (.+)/).map { String($0.1) }
        #expect(commands.count > 35)
        let groups = ["server", "people", "rules", "access", "projects", "events"]
        for words in [""] + commands + groups {
            let shown = words.isEmpty ? help : self.help(words.split(separator: " ").map(String.init))
            #expect(shown.code == 0 && shown.output.split(separator: "\n").count <= 25, "\(words): \(shown)")
        }
        for command in commands {
            let words = command.split(separator: " ").map(String.init)
            let shown = words.count == 1 ? run(words[0], "--help") : run(words[0], words[1], "--help")
            #expect(shown.output.contains("\n  $ onym \(command)"), "\(command) has no example")
        }
        #expect(run("help", "people").output.contains("explain"))
        let misspelt = run("persn")
        #expect(misspelt.code == 2 && misspelt.errors.contains("Did you mean \"person\"?"), "\(misspelt)")
        #expect(!run("zzz").errors.contains("Did you mean"))
        let group = run("people")
        #expect(group.code == 2 && group.errors.contains("See \"onym help people\"."), "\(group)")
    }

    @Test("explains the settings in groups that fit a screen")
    func settingsHelp() throws {
        let list = run("settings", "--help").output.components(separatedBy: "of a group:\n").last ?? ""
        let groups = list.matches(of: #/\n  ([a-z_]+) /#).map { String($0.1) }
        #expect(groups.count > 5)
        var explained: [String] = []
        for group in groups {
            let help = run("help", "settings", group).output
            #expect(help.split(separator: "\n", omittingEmptySubsequences: false).count <= 25, "\(group)")
            #expect(help == run("settings", "--help", group).output && help == run("settings", group, "--help").output)
            explained += help.matches(of: /\n  --([a-z-]+)/).map { $0.1.replacing("-", with: "_") }
            explained += help.matches(of: /\n  ONYM_([A-Z_]+)/).map { $0.1.lowercased() }
        }
        // `onym settings` prints a line for each, and the values of one group.
        let settings = run("settings").output.matches(of: #/(?m)^([a-z_]+) /#).map { String($0.1) }
        #expect(explained.sorted() == settings.sorted() && Set(settings).count == settings.count && settings.count > 60)
        let stripe = run("settings", "stripe", "--stripe-grace-days", "4")
        #expect(stripe.output.contains("stripe_grace_days             4  (flag)") && !stripe.output.contains("listen"))
        let unknown = run("settings", "nonsense")
        #expect(unknown.code == 2 && unknown.errors.contains("The groups are server, store"), "\(unknown.errors)")
    }

    @Test("tells a number for every disk, also for one beyond all numbers (Console)")
    func freeBytes() {
        #expect(StorePlace.bytes(of: 3, blocksOf: 4096) == 12_288)
        for (blocks, size) in [(UInt64.max, 1), (.max, 4096), (1 << 62, 4), (1 << 51, 4096)] as [(UInt64, UInt64)] {
            #expect(StorePlace.bytes(of: blocks, blocksOf: size) == .max)
        }
    }

    @Test("explains the words of the page of concepts")
    func concepts() throws {
        let page = try String(
            contentsOf: URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
                .deletingLastPathComponent().appending(path: "docs/concepts.md"), encoding: .utf8)
        let list = try #require(run("help").output.firstMatch(of: /a word of Onym: (.+)/)).1
        let words = list.split(separator: ", ").map(String.init)
        #expect(words.count >= 9)
        for word in words {
            // A word may also begin some commands; then their list follows.
            let paragraph = run("help", word).output.split(separator: "\n\n")[0].trimmingCharacters(in: .newlines)
            #expect(page.contains("## \(word.capitalized)\n\n\(paragraph)\n"), "\(word)")
        }
        #expect(run("serve", "--help").output == run("help", "serve").output)
        #expect(run("--version").output == "onym \(Program.version) (\(Program.releaseDate))\n")
    }

    @Test("serves no folder that holds something else")
    func foreignFolder() throws {
        try FileManager.default.createDirectory(atPath: data, withIntermediateDirectories: true)
        try Data("x".utf8).write(to: URL(filePath: data + "/holiday.jpg"))
        let served = run("serve", "--data", data, "--listen", "127.0.0.1:0")
        #expect(served.code == 1 && served.errors.contains("other files"))
        #expect(try FileManager.default.contentsOfDirectory(atPath: data) == ["holiday.jpg"])
    }
}
