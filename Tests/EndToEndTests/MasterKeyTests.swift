import Foundation
import TestKit
import Testing

/// `onym master-key`, while the server runs, while it does not, with several servers, and killed in the middle
/// (docs/decisions/0059-several-master-keys.md).
@Suite("Master keys", .serialized)
struct MasterKeyTests {
    /// A store, and what others have of it: secrets, tokens and receipts.
    private struct Scene {
        let store: Store
        var flags: [String] = []
        var environment: [String: String]?

        func onym(_ words: String..., at data: String? = nil) throws -> Shell.Result {
            try Shell.result(
                [ServerProcess.program] + words + ["--data", data ?? store.data] + flags, environment: environment)
        }

        /// The ids of the keys in a data folder, as `list` shows them, with their states.
        func keys(at data: String? = nil) throws -> [(id: String, state: String)] {
            let list = try onym("master-key", "list", "--json", at: data).output
            return list.matches(of: /"id":"([0-9a-f]{8})","state":"([a-z]+)"/).map { (String($0.1), String($0.2)) }
        }

        /// The text of `list` about one key.
        func dependents(of id: String) throws -> String {
            let list = try onym("master-key", "list").output
            return list.components(separatedBy: "\(id)  ").last?.components(separatedBy: "\n")
                .dropFirst().prefix { $0.hasPrefix("     ") }.joined(separator: "\n") ?? ""
        }

        /// The status of a call that proves a secret of IDSync.
        func sign(_ key: String, _ secret: String, _ client: HTTPClient) throws -> Int {
            let proof = Data("\(key):\(secret)".utf8).base64EncodedString()
            return try client.call(
                "POST", "/v2/events", fields: [("Authorization", "Basic \(proof)")],
                json: #"{"environment":"development","user_identities":{"customer_id":"a"},"events":[]}"#
            ).status
        }

        /// An install of Linking: its access token and its refresh token.
        func install(_ client: HTTPClient) throws -> (access: String, refresh: String) {
            let answer = try client.call(
                "POST", "/sdk/installs",
                json:
                    #"{"app_id":"\#(store.linking["app_id"] ?? "")","secret":"\#(store.linking["app_secret"] ?? "")"}"#)
            return Scene.tokens(answer.body)
        }

        static func tokens(_ body: String) -> (access: String, refresh: String) {
            (
                body.firstMatch(of: /"token":"([^"]+)"/).map { String($0.1) } ?? "",
                body.firstMatch(of: /"refresh_token":"([^"]+)"/).map { String($0.1) } ?? ""
            )
        }

        func configStatus(_ access: String, _ client: HTTPClient) throws -> Int {
            try client.call("GET", "/sdk/config", fields: [("Authorization", "Bearer \(access)")]).status
        }

        func refresh(_ token: String, _ client: HTTPClient) throws -> (status: Int, refresh: String) {
            let answer = try client.call(
                "POST", "/sdk/token", json: #"{"grant_type":"refresh_token","refresh_token":"\#(token)"}"#)
            return (answer.status, Scene.tokens(answer.body).refresh)
        }

        /// The answer to a call of an administrator.
        func administrator(
            _ method: String, _ path: String, _ client: HTTPClient, json: String? = nil
        ) throws -> Wire.Answer {
            let fields = [("Authorization", "Bearer \(store.adminKey)"), ("Content-Type", "application/json")]
            return try client.call(method, path, fields: fields, body: json.map { Array($0.utf8) })
        }
    }

    @Test("are changed while the server runs: what others have stays valid, and new secrets come from the new key")
    func running() throws {
        let scene = Scene(store: try Store())
        let server = try ServerProcess(data: scene.store.data)
        let client = server.client
        let first = try #require(try scene.keys().first)
        #expect(first.state == "newest")
        let install = try scene.install(client)
        #expect(try scene.sign(scene.store.key, scene.store.secret, client) == 202)
        let secret = scene.store.folder.path + "/stripe"
        try "rk_live_of_a_test".write(toFile: secret, atomically: true, encoding: .utf8)
        #expect(try scene.onym("stores", "set", "stripe.secret_key=@\(secret)").code == 0)
        let root = try scene.onym("keys", "access-root").output
        // The folder of copies begins under the first key.
        let copies = scene.store.folder.path + "/copies"
        #expect(try scene.onym("backup", copies).code == 0)

        let rotated = try scene.onym("master-key", "rotate")
        #expect(rotated.code == 0 && rotated.output.contains("1 secrets were sealed again"), "\(rotated)")
        let keys = try scene.keys()
        #expect(keys.map(\.state) == ["older", "newest"] && keys[0].id == first.id, "\(keys)")
        // What others have.
        #expect(try scene.sign(scene.store.key, scene.store.secret, client) == 202)
        #expect(try scene.configStatus(install.access, client) == 200)
        let refreshed = try scene.refresh(install.refresh, client)
        #expect(refreshed.status == 200)
        #expect(try scene.onym("keys", "access-root").output.contains(root.split(separator: "\n").last ?? "?"))
        #expect(try scene.onym("stores", "status", "--json").output.contains("sealed under another") == false)
        // What is made now.
        let app = scene.store.folder.path + "/key.json"
        let apps = try scene.onym("apps", "list", "--json").output
        let id = try #require(apps.firstMatch(of: /"id":"(\d+)","name":"[^"]*idsync/)).1
        #expect(
            try scene.onym("keys", "create", "--kind", "idsync", "--app", String(id), "--keys-file", app).code == 0)
        let made = try String(contentsOfFile: app, encoding: .utf8)
        let (key, keySecret) = (
            try #require(made.firstMatch(of: /"key":"([^"]+)"/)).1,
            try #require(made.firstMatch(of: /"secret":"([^"]+)"/)).1
        )
        #expect(try scene.sign(String(key), String(keySecret), client) == 202)
        #expect(try scene.dependents(of: keys[0].id).contains("IDSync key \"IDSync\""))
        #expect(try !scene.dependents(of: keys[0].id).contains("IDSync key \"idsync\""))
        #expect(try scene.dependents(of: keys[1].id).contains("IDSync key \"idsync\""))
        #expect(server.stop() == 0)

        // The same after the next start.
        let again = try ServerProcess(data: scene.store.data)
        #expect(try scene.sign(scene.store.key, scene.store.secret, again.client) == 202)
        #expect(try scene.sign(String(key), String(keySecret), again.client) == 202)
        #expect(try scene.refresh(refreshed.refresh, again.client).status == 200)
        #expect(try scene.onym("backup", copies).code == 0)
        #expect(again.stop() == 0)
        #expect(try scene.store.doctor().code == 0)

        // A restore takes the keys with the newest one, and not the first alone.
        let both = scene.store.data + "/master.key"
        let lines = try String(contentsOfFile: both, encoding: .utf8).split(separator: "\n")
        for (place, line) in lines.enumerated() {
            let file = scene.store.folder.path + "/key-\(place)"
            let isMade = FileManager.default.createFile(
                atPath: file, contents: Data((line + "\n").utf8), attributes: [.posixPermissions: 0o600])
            #expect(isMade)
            let restored = try Shell.result(
                [ServerProcess.program, "restore", copies, file + "-store", "--master-key", file])
            #expect(restored.code == (place == 0 ? 1 : 0), "\(place): \(restored)")
            #expect(place > 0 || restored.errors.contains("another master key"), "\(restored)")
        }
        let whole = try Shell.result(
            [ServerProcess.program, "restore", copies, scene.store.folder.path + "/restored", "--master-key", both])
        #expect(whole.code == 0, "\(whole)")
    }

    @Test("are dropped only when nothing depends on them, and the refusal lists what does")
    func dropped() throws {
        let scene = Scene(store: try Store())
        let old = try #require(try scene.keys().first).id
        #expect(try scene.onym("master-key", "drop", old).errors.contains("New secrets of the project"))
        let server = try ServerProcess(data: scene.store.data)
        let webhook = try scene.administrator(
            "POST", "/onym/v1/webhooks", server.client, json: #"{"url":"https://example.com/hook"}"#)
        let id = try #require(webhook.body.firstMatch(of: /"id":"(\d+)".*"secret":"whsec_/)).1
        #expect(try scene.onym("master-key", "rotate").code == 0)
        let refused = try scene.onym("master-key", "drop", old)
        #expect(refused.code == 1, "\(refused)")
        for part in ["IDSync key", "webhook to https://example.com/hook", "access root", "Refresh tokens"] {
            #expect(refused.errors.contains(part), "\(part): \(refused)")
        }
        #expect(try scene.keys().count == 2, "nothing was changed")
        #expect(try scene.administrator("DELETE", "/onym/v1/webhooks/\(id)", server.client).status == 200)
        let keys = try scene.onym("keys", "list", "--json").output
        let key = try #require(keys.firstMatch(of: /"id":"(\d+)","name":"IDSync","kind":"idsync"/)).1
        #expect(try scene.onym("keys", "revoke", String(key)).code == 0)
        let before = try scene.onym("keys", "access-root", "--json").output
        #expect(before.contains("\"next\""), "\(before)")
        #expect(try scene.onym("keys", "access-root", "--renew").code == 0)
        let after = try scene.onym("keys", "access-root", "--json").output
        #expect(after != before && !after.contains("\"next\""))
        let tokens = try scene.onym("master-key", "drop", old)
        #expect(tokens.code == 1 && tokens.errors.contains("--end-tokens"), "\(tokens)")
        #expect(try scene.onym("master-key", "drop", old, "--end-tokens").code == 0)
        #expect(try scene.keys().map(\.state) == ["newest"])
        #expect(try scene.onym("master-key", "drop", old).errors.contains("There is no master key"))
        #expect(try scene.store.doctor().code == 0)
        #expect(try server.client.call("GET", "/readyz").status == 200)
        #expect(server.stop() == 0)
        let again = try ServerProcess(data: scene.store.data)
        #expect(try again.client.call("GET", "/readyz").status == 200)
        #expect(again.stop() == 0)
    }

    @Test("that came between the first and the newest are dropped, and the store and its copies need them no more")
    func droppedBetween() throws {
        let scene = Scene(store: try Store())
        #expect(try scene.onym("projects", "create", "Second", "--json").code == 0)
        for _ in 0..<2 { #expect(try scene.onym("master-key", "rotate").code == 0) }
        let keys = try scene.keys()
        #expect(keys.map(\.state) == ["older", "older", "newest"])
        let dropped = try scene.onym("master-key", "drop", keys[1].id, "--end-tokens")
        #expect(dropped.code == 0, "\(dropped)")
        let examined = try scene.store.doctor()
        #expect(examined.code == 0, "\(examined)")
        let copies = scene.store.folder.path + "/copies"
        #expect(try scene.onym("backup", copies).code == 0)
        let restored = try Shell.result(
            [ServerProcess.program, "restore", copies, scene.store.folder.path + "/restored"]
                + ["--master-key", scene.store.data + "/master.key"])
        #expect(restored.code == 0, "\(restored)")
    }

    @Test("of one line are read as one key, as before; a file with a bad line is refused")
    func oneLine() throws {
        let scene = Scene(store: try Store())
        let file = scene.store.data + "/master.key"
        let text = try String(contentsOfFile: file, encoding: .utf8)
        #expect(text.wholeMatch(of: /[0-9a-f]{64}\n/) != nil)
        #expect(try scene.onym("master-key", "rotate").code == 0)
        let two = try String(contentsOfFile: file, encoding: .utf8)
        #expect(two.hasPrefix(text) && two.wholeMatch(of: /([0-9a-f]{64}\n){2}/) != nil)
        let mode = try FileManager.default.attributesOfItem(atPath: file)[.posixPermissions] as? Int
        #expect(mode == 0o600)
        // Without the newest key, the store is not opened.
        try text.write(toFile: file, atomically: false, encoding: .utf8)
        let lacking = try scene.onym("stats")
        #expect(lacking.code == 3 && lacking.errors.contains("another master key"), "\(lacking)")
        #expect(try scene.store.doctor().code == 1)
        for wrong in [two + "ab\n", two + text, ""] {
            try wrong.write(toFile: file, atomically: false, encoding: .utf8)
            #expect(try scene.onym("stats").code == 3)
        }
        try two.write(toFile: file, atomically: false, encoding: .utf8)
        #expect(try scene.onym("stats").code == 0)
    }

    @Test("of the environment are changed by the operator, and used by --copied")
    func environment() throws {
        let folder = TemporaryFolder()
        let (a, b) = (String(repeating: "ab", count: 32), String(repeating: "cd", count: 32))
        func onym(_ keys: String, _ words: String...) throws -> Shell.Result {
            try Shell.result(
                [ServerProcess.program] + words + ["--data", folder.path + "/data"],
                environment: ["ONYM_MASTER_KEY": keys])
        }
        #expect(try onym(a, "init", "--json").code == 0)
        let refused = try onym(a, "master-key", "rotate")
        #expect(refused.code == 1 && refused.errors.contains("behind a comma"), "\(refused)")
        let waiting = try onym("\(a),\(b)", "master-key", "list")
        #expect(waiting.output.contains("newest") && waiting.output.contains("waiting"), "\(waiting)")
        #expect(try onym("\(a),\(b)", "master-key", "rotate", "--copied").code == 0)
        #expect(try onym("\(a),\(b)", "master-key", "list").output.contains("older"))
        #expect(try onym(a, "stats").code == 3)
        #expect(try onym("\(a), \(b)", "stats").code == 0)
    }

    @Test("are changed by the same command again, if the command or the server is killed in the middle")
    func killed() throws {
        let scene = Scene(store: try Store())
        var names: [String] = []
        for number in 0..<8 {
            #expect(
                try scene.onym("projects", "create", "P\(number)", "--json").code == 0)
            names.append("P\(number)")
        }
        for round in 0..<6 {
            let server = try ServerProcess(data: scene.store.data)
            let before = try #require(try scene.keys().last).id
            let limit = String(format: "0.%03d", 6 + round * 9)
            let words = [ServerProcess.program, "master-key", "rotate", "--data", scene.store.data]
            _ = try Shell.result(["timeout", "--signal=KILL", limit] + words)
            if round % 2 == 1 { server.kill() } else { #expect(server.stop() == 0) }
            let next = try ServerProcess(data: scene.store.data)
            #expect(try next.client.call("GET", "/readyz").status == 200)
            #expect(try scene.sign(scene.store.key, scene.store.secret, next.client) == 202)
            // Until the newest key is another one in all projects.
            var keys = try scene.keys()
            let isChanged = isWhole(try scene.onym("master-key", "list"))
            if keys.last?.id == before || keys.last?.state == "waiting"
                || !isChanged
            {
                let rotated = try scene.onym("master-key", "rotate")
                #expect(rotated.code == 0, "\(rotated)")
                keys = try scene.keys()
            }
            #expect(keys.last?.state == "newest" && keys.last?.id != before, "round \(round): \(keys)")
            #expect(keys.dropLast().allSatisfy { $0.state == "older" })
            #expect(isWhole(try scene.onym("master-key", "list")))
            #expect(try scene.sign(scene.store.key, scene.store.secret, next.client) == 202)
            #expect(next.stop() == 0)
            #expect(try scene.store.doctor().code == 0)
        }
        #expect(try scene.keys().count <= 7, "no killed command leaves a key behind that nobody uses")
    }

    /// Whether all projects use the newest key.
    private func isWhole(_ list: Shell.Result) -> Bool {
        let lines = list.output.split(separator: "\n")
        guard let newest = lines.lastIndex(where: { $0.hasSuffix("  newest") }) else { return false }
        return !lines[..<newest].contains { $0.contains("New secrets of the project") }
    }

    @Test(
        "of two servers on one database: the file is copied first, and a server without the new key is not ready",
        .enabled(if: PostgresCluster.absence == nil, "PostgreSQL is not installed."))
    func several() throws {
        let cluster = try PostgresCluster.shared.get()
        let flags = ["--store", cluster.address, "--store-schema", cluster.newSchema().schema]
        let scene = Scene(store: try Store(flags: flags), flags: flags)
        let other = try scene.store.another(2)
        let (one, two) = (
            try ServerProcess(data: scene.store.data, flags: flags), try ServerProcess(data: other, flags: flags)
        )
        let install = try scene.install(two.client)
        let added = try scene.onym("master-key", "rotate")
        #expect(added.code == 0 && added.output.contains("Copy the file to all servers"), "\(added)")
        #expect(try scene.keys().map(\.state) == ["newest", "waiting"])
        #expect(try scene.onym("master-key", "rotate").output.contains("Copy the file"), "no second key is made")
        #expect(try scene.keys().count == 2)
        // An operator who does not copy the file: the other server says what is missing, and makes no secrets.
        #expect(try scene.onym("master-key", "rotate", "--copied").code == 0)
        #expect(try Patience.until { try two.client.call("GET", "/readyz").status == 503 })
        let unready = try two.client.call("GET", "/readyz").body
        #expect(unready.contains("Copy master.key"), "\(unready)")
        let hook = #"{"url":"https://example.com/"}"#
        let refused = try scene.administrator("POST", "/onym/v1/webhooks", two.client, json: hook)
        #expect(refused.status == 503 && refused.body.contains("master_key_missing"), "\(refused)")
        #expect(try one.client.call("GET", "/readyz").status == 200)
        // The copy is noticed without a restart.
        try FileManager.default.removeItem(atPath: "\(other)/master.key")
        try FileManager.default.copyItem(atPath: "\(scene.store.data)/master.key", toPath: "\(other)/master.key")
        #expect(try Patience.until { try two.client.call("GET", "/readyz").status == 200 })
        let made = try scene.administrator("POST", "/onym/v1/webhooks", two.client, json: hook)
        #expect(made.status == 201, "\(made)")
        // Each server checks what the other has signed, before and after.
        let tokens = try scene.install(one.client)
        for client in [one.client, two.client] {
            #expect(try scene.configStatus(install.access, client) == 200)
            #expect(try scene.configStatus(tokens.access, client) == 200)
            #expect(try scene.sign(scene.store.key, scene.store.secret, client) == 202)
        }
        #expect(try scene.refresh(install.refresh, one.client).status == 200)
        #expect(try scene.refresh(tokens.refresh, two.client).status == 200)
        #expect(one.stop() == 0)
        #expect(two.stop() == 0)
    }
}
