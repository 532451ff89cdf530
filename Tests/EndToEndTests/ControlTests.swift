import Foundation
import TestKit
import Testing

@Suite("The program, asked on the command line while it serves", .serialized)
struct ControlTests {
    private func onym(_ store: Store, _ words: String..., input: String = "") throws -> Shell.Result {
        try Shell.result([ServerProcess.program] + words + ["--data", store.data], input: input)
    }

    private func logout(_ store: Store, _ client: HTTPClient) throws -> String {
        try client.call(
            "POST", "/v1/logout", fields: [("x-mp-key", store.webKey)],
            json: #"{"environment":"development","known_identities":{"ios_idfv":"1"}}"#
        ).body
    }

    @Test("changes the rules of the server that runs, from its next call on")
    func running() throws {
        let store = try Store()
        let server = try ServerProcess(data: store.data)
        let client = server.client
        #expect(try logout(store, client) != logout(store, client), "somebody new each time")
        let set = try onym(store, "strategy", "set", "--file", "-", input: #"{"preset":"profile_isolation"}"#)
        #expect(set.code == 0 && set.output.contains("preset           profile_isolation\n"), "\(set)")
        let back = try logout(store, client)
        #expect(try logout(store, client).firstMatch(of: /"mpid":"\d+"/)?.0 == back.firstMatch(of: /"mpid":"\d+"/)?.0)
        let document = try client.call(
            "GET", "/onym/v1/strategy", fields: [("Authorization", "Bearer \(store.adminKey)")]
        ).body
        #expect(try onym(store, "strategy", "show", "--json").output == document + "\n")
        let refused = try onym(store, "strategy", "set", "--file", "-", input: "{")
        #expect(refused.code == 1 && refused.errors.contains("not valid JSON"), "\(refused)")
        #expect(server.stop() == 0)

        #expect(try onym(store, "strategy", "rollback", "--version", "1").code == 0)
        let again = try ServerProcess(data: store.data)
        #expect(try onym(store, "strategy", "versions").output.split(separator: "\n").count == 4)
        #expect(again.stop() == 0)
    }

    @Test("prints a link that opens the console once, and only while a server has one")
    func console() throws {
        let store = try Store()
        let alone = try onym(store, "console")
        #expect(alone.code == 3 && alone.errors.contains("No server runs"), "\(alone)")
        let server = try ServerProcess(data: store.data)
        let link = try onym(store, "console", "--role", "support", "--name", "Grace", "--session", "2h")
        let code = try #require(link.output.firstMatch(of: /\/console#code=(oc_1_[0-9a-f]{32})\n$/)).1
        #expect(link.code == 0 && link.output.hasPrefix(server.base), "\(link)")
        let opened = try server.client.call(
            "POST", "/onym/v1/console/session", fields: [("Onym-Console", "1")], json: #"{"code":"\#(code)"}"#)
        #expect(opened.status == 201 && opened.body.contains(#""name":"Grace","role":"support""#), "\(opened)")
        let other = try onym(store, "console", "--url", "https://onym.example.com/")
        #expect(other.output.hasPrefix("https://onym.example.com/console#code=oc_1_"), "\(other)")
        for words in [["--role", "owner"], ["--session", "31d"], ["--valid", "2d"]] {
            #expect(try Shell.result([ServerProcess.program, "console", "--data", store.data] + words).code == 1)
        }
        #expect(try onym(store, "console", "--valid", "soon").code == 2)
        #expect(try onym(store, "status").output.contains("sqlite"))
        #expect(try onym(store, "audit").code == 0)
        #expect(!server.errors.contains("oc_"), "no link is in the log")
        #expect(server.stop() == 0)

        // The first calls of the console have keys in development mode only, and only from the file of the first start.
        let trying = try ServerProcess(data: store.data, flags: ["--mode", "development"])
        func keys() throws -> String {
            try trying.client.call(
                "GET", "/onym/v1/console/snippets", fields: [("Authorization", "Bearer \(store.adminKey)")]
            ).body
        }
        #expect(try keys() == #"{"keys":{}}"#)
        let first = #"{"idsync":{"web_key":"\#(store.webKey)"},"claim":{"client_key":"owl_client_00"},"more":1}"#
        try first.write(toFile: store.data + "/first-keys.json", atomically: true, encoding: .utf8)
        #expect(try keys() == #"{"keys":{"idsync":"\#(store.webKey)"}}"#)
        #expect(trying.stop() == 0)
        let live = try ServerProcess(data: store.data)
        let hidden = try live.client.call(
            "GET", "/onym/v1/console/snippets", fields: [("Authorization", "Bearer \(store.adminKey)")])
        #expect(hidden.body == #"{"keys":{}}"#)
        #expect(live.stop() == 0)

        let off = try ServerProcess(data: store.data, flags: ["--console", "off"])
        let refused = try onym(store, "console")
        #expect(refused.code == 1 && refused.errors.contains("is off"), "\(refused)")
        #expect(off.stop() == 0)
    }

    @Test("listens where only its owner can ask, and leaves nothing behind")
    func socket() throws {
        let store = try Store()
        let path = store.data + "/onym.sock"
        let killed = try ServerProcess(data: store.data)
        func mode() throws -> Int? { try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int }
        #expect(try mode() == 0o600)
        killed.kill()
        // What it left is in nobody's way.
        #expect(try onym(store, "strategy", "show").code == 0)
        #expect(!FileManager.default.fileExists(atPath: path))
        let server = try ServerProcess(data: store.data)
        #expect(try mode() == 0o600)
        let ready = try Shell.run("curl", "-s", "--unix-socket", path, "http://onym/metrics")
        #expect(ready.contains("\nonym_people 0\n"), "no key is needed")
        for name in ["onym_store_bytes", "onym_store_log_bytes", "onym_disk_free_bytes"] {
            let size = try #require(
                ready.firstMatch(of: try Regex("\n\(name) (\\d+)\n", as: (Substring, Substring).self)))
            #expect(try #require(Int(size.1)) > 0, "\(name)")
        }
        #expect(
            try Shell.run("curl", "-s", "--unix-socket", path, "-X", "POST", "http://onym/v1/identify").contains("404"))
        #expect(server.stop() == 0)
        #expect(!FileManager.default.fileExists(atPath: path))
    }

    @Test("is reached in a folder whose path is longer than a socket's address")
    func longPath() throws {
        let store = try Store(in: String(repeating: "long", count: 40))
        #expect(try onym(store, "strategy", "set", "--preset", "best_match").code == 0)
        let server = try ServerProcess(data: store.data)
        #expect(try onym(store, "strategy", "show").output.contains("best_match"))
        #expect(!server.errors.contains("cannot reach"))
        #expect(server.stop() == 0)
        #expect(!FileManager.default.fileExists(atPath: store.data + "/onym.sock"))
    }

    @Test("serves without a socket rather than not at all, and removes no file that is none")
    func noSocket() throws {
        let store = try Store()
        let path = store.data + "/onym.sock"
        try Data("mine".utf8).write(to: URL(filePath: path))
        let server = try ServerProcess(data: store.data)
        #expect(server.errors(with: "Serving.").contains("The command line cannot reach this server."))
        #expect(try store.identify(#"{"customerid":"a"}"#, server.client).status == 200)
        let show = try onym(store, "strategy", "show")
        #expect(show.code == 3 && show.errors.contains("is in use by process"), "\(show)")
        #expect(server.stop() == 0)
        #expect(try Data(contentsOf: URL(filePath: path)) == Data("mine".utf8))
    }

    @Test("an import that is stopped with Ctrl-C beside a server ends where it stands, and goes on")
    func interrupted() throws {
        let store = try Store()
        let server = try ServerProcess(data: store.data)
        let count = 20_000
        let people = (1...count).map {
            #"{"kind":"person","id":"-\#($0)","made":"2024-03-01T08:00:00Z"}"#
                + "\n" + #"{"kind":"link","person":"-\#($0)","type":"customerid","value":"c\#($0)"}"#
        }
        let file = store.folder.path + "/people.jsonl"
        let (header, end) = (
            #"{"kind":"header","onym":1,"form":"facts"}"#, #"{"kind":"end","lines":\#(2 * count)}"#
        )
        try ([header] + people + [end, ""]).joined(separator: "\n").write(
            toFile: file, atomically: true, encoding: .utf8)
        let words = ["import", file, "--data", store.data]
        let process = Process()
        process.executableURL = URL(filePath: ServerProcess.program)
        process.arguments = words
        let errors = store.folder.path + "/errors"
        try Data().write(to: URL(filePath: errors))
        process.standardOutput = FileHandle.nullDevice
        let handle = try FileHandle(forWritingTo: URL(filePath: errors))
        defer { try? handle.close() }
        process.standardError = handle
        try process.start()
        // From now on it waits for an answer of the server most of the time.
        let hasBegun = try Patience.until {
            let imports = try server.client.call(
                "GET", "/onym/v1/imports", fields: [("Authorization", "Bearer \(store.adminKey)")])
            return imports.body.contains(#/"position":[1-9]/#)
        }
        #expect(hasBegun)
        kill(process.processIdentifier, SIGINT)
        process.end()
        let said = try String(contentsOfFile: errors, encoding: .utf8)
        #expect(process.terminationStatus == 130 && said.contains("Stopped at byte"), "\(said)")
        let whole = try Shell.result([ServerProcess.program] + words)
        #expect(whole.code == 0 && whole.errors.contains("goes on at byte"), "\(whole)")
        #expect(whole.output.contains("People: \(count) taken"), "\(whole)")
        #expect(server.stop() == 0)
    }

    @Test("dry runs of imports that fail take no room from the next ones")
    func failedDryRuns() throws {
        let store = try Store()
        let server = try ServerProcess(data: store.data)
        let file = store.folder.path + "/cut.jsonl"
        try """
        {"kind":"header","onym":1,"form":"facts"}
        {"kind":"person","id":"-1","made":"2024-03-01T08:00:00Z"}

        """.write(toFile: file, atomically: true, encoding: .utf8)
        for _ in 0..<6 {
            let failed = try onym(store, "import", "--dry-run", file)
            #expect(failed.code == 1 && failed.errors.contains("is cut"), "\(failed)")
        }
        #expect(server.stop() == 0)
    }

    @Test("the doctor asks about the stores of all projects, however many there are")
    func storesOfProjects() throws {
        let store = try Store()
        let root = store.folder.path + "/root"
        let request = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        let files = ["-keyout", root + ".key", "-out", root + ".pem", "-subj", "/CN=root", "-days", "2"]
        #expect(try Shell.result(request + files).code == 0)
        // The server knows how the App Store signs, and has no key to ask it.
        let server = try ServerProcess(data: store.data, flags: ["--app-store-root", root + ".pem"])
        for number in 0..<50 { #expect(try onym(store, "projects", "create", "P\(number)", "--json").code == 0) }
        let found = try onym(store, "doctor")
        let projects = Set(found.output.matches(of: /stores: Project (\d+), app_store/).map { String($0.1) })
        #expect(found.code == 4 && projects.count == 51, "\(found)")
        #expect(server.stop() == 0)
    }
}
