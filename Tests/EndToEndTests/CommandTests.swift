import Foundation
import TestKit
import Testing

/// The commands that are clients of the API, with a server and without.
@Suite("The command line, for people and for projects", .serialized)
struct CommandTests {
    private func onym(_ store: Store, _ words: String...) throws -> Shell.Result {
        try Shell.result([ServerProcess.program] + words + ["--data", store.data])
    }

    private func object(_ text: String) throws -> [String: Any] {
        try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any], "\(text)")
    }

    private func status(_ client: HTTPClient, _ key: String) throws -> Int {
        try client.call("GET", "/onym/v1/stats", fields: [("Authorization", "Bearer \(key)")]).status
    }

    @Test("prints the pin of a certificate, as OpenSSL makes it, and says what is not a certificate")
    func pin() throws {
        let folder = TemporaryFolder()
        let (certificate, key) = (folder.path + "/cert.pem", folder.path + "/key.pem")
        let made = try Shell.result([
            "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=onym.test", "-days", "2",
            "-keyout",
            key, "-out", certificate,
        ])
        try #require(made.code == 0, "\(made)")
        let expected = try Shell.result([
            "sh", "-c",
            "openssl pkey -in \(key) -pubout -outform DER | openssl dgst -sha256 -binary | openssl base64 -A",
        ])
        let printed = try Shell.result([ServerProcess.program, "tls", "pin", certificate])
        #expect(printed.code == 0 && printed.output == "sha256/\(expected.output)\n", "\(printed)")
        let wrong = try Shell.result([ServerProcess.program, "tls", "pin", key])
        #expect(wrong.code == 1 && wrong.errors.contains("no certificate"), "\(wrong)")
    }

    @Test(
        "makes a key for the operator of the server, which opens the server's figures and its projects, and no people")
    func operatorKey() throws {
        let store = try Store()
        let server = try ServerProcess(data: store.data)
        let client = server.client
        func call(_ method: String, _ path: String, _ key: String, _ json: String? = nil) throws -> Wire.Answer {
            let fields = [("Authorization", "Bearer \(key)")]
            guard let json else { return try client.call(method, path, fields: fields) }
            return try client.call(method, path, fields: fields, json: json)
        }
        #expect(try onym(store, "projects", "create", "Second", "--json").code == 0)
        for path in ["/metrics", "/onym/v1/stats"] {
            let answer = try call("GET", path, store.adminKey)
            #expect(answer.status == 403 || !answer.body.contains("people"), "\(answer)")
        }
        // Nor do the figures of long work and of the journal tell of other projects.
        #expect(try call("GET", "/onym/v1/compact", store.adminKey).body.contains(#""pages_given_back":null"#))
        let made = try call("POST", "/onym/v1/keys", store.adminKey, #"{"kind":"operator"}"#)
        #expect(made.status == 403 && made.body.contains("operators_only"), "\(made)")

        // No project has to be named: the key belongs to none.
        let created = try onym(store, "keys", "create", "--kind", "operator", "--name", "Monitoring", "--json")
        let key = try object(created.output)
        let (text, id) = (try #require(key["key"] as? String), try #require(key["id"] as? String))
        #expect(text.hasPrefix("onym_operator_"))
        #expect(try call("GET", "/metrics", text).body.contains("onym_people 0"))
        #expect(try call("GET", "/onym/v1/stats", text).body.contains(#""projects":2"#))
        #expect(try call("GET", "/onym/v1/projects", text).body.contains("Second"))
        #expect(try call("POST", "/onym/v1/projects", text, #"{"name":"Third"}"#).status == 201)
        for path in ["/onym/v1/people?type=email&value=a", "/onym/v1/keys", "/onym/v1/changes", "/onym/v1/strategy"] {
            let answer = try call("GET", path, text)
            #expect(answer.status == 403 && answer.body.contains("operator_key"), "\(path): \(answer)")
        }
        // An administrator of a project neither sees nor revokes the key.
        #expect(!(try call("GET", "/onym/v1/keys", store.adminKey).body.contains("Monitoring")))
        #expect(try call("DELETE", "/onym/v1/keys/\(id)", store.adminKey).status == 404)
        #expect(try onym(store, "keys", "list", "--project", "2").output.contains("Monitoring"))
        #expect(try onym(store, "keys", "revoke", id, "--project", "2").code == 0)
        #expect(try call("GET", "/metrics", text).status == 401)
        #expect(server.stop() == 0)
        #expect(try store.doctor().code == 0)
    }

    @Test("makes and revokes keys, apps and projects, beside a server and alone")
    func administration() throws {
        let store = try Store()
        let server = try ServerProcess(data: store.data)
        let client = server.client
        let key = try object(try onym(store, "keys", "create", "--kind", "admin", "--name", "Ops", "--json").output)
        let text = try #require(key["key"] as? String)
        #expect(try status(client, text) == 200)
        let listed = try onym(store, "keys", "list").output
        #expect(listed.contains("name Ops") && !listed.contains(text))
        let revoked = try onym(store, "keys", "revoke", try #require(key["id"] as? String))
        #expect(revoked.code == 0 && revoked.output.contains("keys              12"), "\(revoked)")
        #expect(try status(client, text) == 401)

        let app = try object(
            try onym(store, "apps", "create", "--name", "Web", "--dialect", "idsync", "--platform", "web", "--json")
                .output)
        let id = try #require(app["id"] as? String)
        let web = try onym(store, "keys", "create", "--kind", "idsync_web", "--app", id, "--json")
        #expect(web.code == 0 && web.output.contains(#""key":"us1-"#), "\(web)")
        #expect(try onym(store, "apps", "revoke", id).code == 0)
        #expect(try onym(store, "apps", "list", "--json").output.contains(#""revoked_at":"2"#))
        #expect(try onym(store, "stats").output.contains("apps              6"))

        let refused = try onym(store, "keys", "create", "--kind", "idsync", "--json")
        #expect(refused.code == 1 && refused.errors.contains("app is required"), "\(refused)")
        #expect(try onym(store, "keys", "create").code == 2)
        #expect(try onym(store, "keys", "revoke").code == 2)
        #expect(try onym(store, "keys", "revoke", "77").code == 1)
        #expect(try onym(store, "keys", "revoke", "1", "2").code == 2)
        #expect(server.stop() == 0)

        let alone = try onym(store, "projects", "create", "Second", "--json")
        #expect(alone.code == 0, "\(alone)")
        let project = try object(alone.output)
        #expect((project["project"] as? [String: String])?["id"] == "2")
        #expect(try onym(store, "projects", "list").output.contains("name Second"))
        // There are two projects now, so each has to be named.
        #expect(try onym(store, "keys", "list").code == 1)
        #expect(try onym(store, "keys", "list", "--project", "2").output.contains("Second Client Key"))
        let again = try ServerProcess(data: store.data)
        #expect(try status(again.client, try #require(project["admin_key"] as? String)) == 200)
        #expect(again.stop() == 0)
        #expect(try store.doctor().code == 0)
    }

    @Test("shows the calls whose types the rules do not have, as long as the server runs")
    func unmatched() throws {
        let store = try Store()
        let server = try ServerProcess(data: store.data)
        #expect(try !onym(store, "strategy", "show").output.contains("unmatched_types"))
        for _ in 1...2 { _ = try store.identify(#"{"other2":"x"}"#, server.client) }
        _ = try store.identify(#"{"push_token":"x"}"#, server.client)
        let shown = try onym(store, "strategy", "show").output
        #expect(shown.contains("\nunmatched_types  other2 2, push_token 1\n"), "\(shown)")
        let document = try onym(store, "strategy", "show", "--json").output
        #expect(try object(document)["unmatched_types"] as? [String: Int] == ["other2": 2, "push_token": 1])
        #expect(server.stop() == 0)
        #expect(try !onym(store, "strategy", "show").output.contains("unmatched_types"))
    }

    @Test("finds a person by a value without its type, and lists the people if several hold the value")
    func untyped() throws {
        let store = try Store()
        let server = try ServerProcess(data: store.data)
        let ada = try #require(try store.identify(#"{"customerid":"ada"}"#, server.client).mpid)
        let number = try #require(try store.identify(#"{"customerid":"42"}"#, server.client).mpid)
        #expect(try object(try onym(store, "person", "ada", "--json").output)["id"] as? String == ada)
        #expect(try object(try onym(store, "person", "42", "--json").output)["id"] as? String == number)
        #expect(try onym(store, "journal", "ada").code == 0)
        let nobody = try onym(store, "person", "eve")
        #expect(nobody.code == 1 && nobody.errors.contains("No person holds the whole value eve"), "\(nobody)")
        let other = try #require(try store.identify(#"{"other":"ada"}"#, server.client).mpid)
        let several = try onym(store, "person", "ada")
        #expect(several.code == 1 && several.errors.contains("  \(ada)  customerid:ada"), "\(several)")
        #expect(several.errors.contains("  \(other)  other:ada"))
        #expect(try onym(store, "merge", "customerid:ada", "other:ada").code == 0)
        #expect(try onym(store, "person", "ada").code == 0, "one person holds the value twice")
        // What cannot be undone needs the type.
        #expect(try onym(store, "erase", "ada").code == 1)
        #expect(server.stop() == 0)
    }

    @Test("makes demo data and removes them, beside a server in development mode and alone")
    func demo() throws {
        let store = try Store()
        let refused = try onym(store, "demo")
        #expect(refused.code == 1 && refused.errors.contains("--mode development"), "\(refused)")
        let made = try onym(store, "demo", "--mode", "development")
        #expect(made.code == 0 && made.output.contains("people            200"), "\(made)")
        #expect(made.errors.contains("onym person email:ada.berg@example.com"))
        let ada = try onym(store, "person", "email:ada.berg@example.com")
        #expect(ada.code == 0, "\(ada)")

        let pro = try onym(store, "grant", "email:ada.berg@example.com", "demo_pro")
        #expect(pro.code == 1 && pro.errors.contains("no user of the Entitlements dialect"), "\(pro)")
        let dry = try onym(store, "grant", "access_identity:demo-1165", "demo_pro", "--dry-run")
        #expect(dry.code == 0 && dry.output.contains("entitlement demo_pro"), "\(dry)")
        let words = ["--reason", "asked by mail", "--until", "2099-01-31T00:00:00Z"]
        let granted = try Shell.result(
            [ServerProcess.program, "grant", "access_identity:demo-1165", "demo_pro", "--data", store.data] + words)
        #expect(granted.code == 0, "\(granted)")
        #expect(try onym(store, "access", "access_identity:demo-1165").output.contains("2099-01-31"))
        let ended = try onym(store, "grant", "access_identity:demo-1165", "demo_pro", "--end")
        #expect(ended.code == 0 && !ended.output.contains("then              demo"), "\(ended)")

        let server = try ServerProcess(data: store.data, flags: ["--mode", "development"])
        #expect(try onym(store, "demo").errors.contains("is here already"))
        #expect(try onym(store, "demo", "--remove", "--dry-run").output.contains("erased            200"))
        #expect(try onym(store, "demo", "--remove").code == 0)
        #expect(try onym(store, "demo", "--json").output.contains(#""people":200"#))
        #expect(server.stop() == 0)
        #expect(try store.doctor().code == 0)
    }

    @Test("ends with 3 where the server or the store cannot be reached or opened")
    func unreachable() throws {
        let store = try Store()
        for command in [["health"], ["console"], ["changes", "--follow"]] {
            #expect(
                try Shell.result([ServerProcess.program] + command + ["--data", store.data]).code == 3, "\(command)")
        }
        let folder = TemporaryFolder()
        for command in [
            ["person", "ada"], ["keys", "list"], ["doctor"], ["stats"], ["export", "--all"], ["backup", "x"],
        ] {
            let result = try Shell.result([ServerProcess.program] + command + ["--data", folder.path])
            #expect(result.code == 3, "\(command): \(result)")
        }
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: store.data + "/master.key")
        #expect(try onym(store, "stats").code == 3)
    }

    @Test("finds, explains, merges, undoes, follows and erases")
    func people() throws {
        let store = try Store()
        let server = try ServerProcess(data: store.data)
        let client = server.client
        let one = try #require(try store.identify(#"{"customerid":"a b/c","email":"e"}"#, client).mpid)
        let two = try #require(try store.identify(#"{"customerid":"2"}"#, client).mpid)
        let person = try onym(store, "person", "customerid:a b/c")
        #expect(person.code == 0 && person.output.contains("root              \(one)"), "\(person)")
        #expect(person.output.contains("type email  value e"))
        #expect(try object(try onym(store, "person", one, "--json").output)["id"] as? String == one)
        #expect(try onym(store, "person", "77").code == 1)
        #expect(try onym(store, "person").code == 2)

        let recent = try object(try onym(store, "recent", "--limit", "1", "--json").output)
        #expect((recent["people"] as? [[String: Any]])?.map { $0["id"] as? String } == [two], "\(recent)")
        let days = try object(try onym(store, "stats", "--days", "2", "--json").output)
        let today = try #require((days["days"] as? [[String: Any]])?.last)
        #expect(today["people_made"] as? Int == 2 && days["complete"] as? Bool == true, "\(days)")
        #expect(try onym(store, "stats", "--days", "0").code == 1)
        let part = try onym(store, "find", "--scan", "B/")
        #expect(part.code == 0 && part.output.hasPrefix("\(one)  e  type customerid  value a b/c"), "\(part)")
        #expect(part.output.split(separator: "\n").count == 1 && part.errors.contains("found 1 people"), "\(part)")
        let typed = try onym(store, "find", "--scan", "b/", "--types", "email,phone_number", "--json")
        #expect(typed.code == 1 && typed.errors.contains("identity types"), "\(typed)")
        #expect(try onym(store, "find", "--scan", "b/", "--types", "email", "--json").output.isEmpty)
        #expect(try onym(store, "find", "b", "--types", "email").code == 2)

        let exported = try onym(store, "export", "email:e")
        let kinds = try exported.output.split(separator: "\n").map { try object(String($0))["kind"] as? String }
        #expect(exported.code == 0 && kinds.first == "person" && kinds.contains("identity"), "\(exported)")
        #expect(!kinds.contains("next"))
        #expect(try onym(store, "export", "77").code == 1)

        let apart = try object(try onym(store, "explain", one, two, "--json").output)
        #expect(apart["connected"] as? Bool == false)
        let dry = try onym(store, "merge", one, "customerid:2", "--dry-run", "--json")
        #expect(try dry.code == 0 && object(dry.output)["id"] is NSNull, "\(dry)")
        let merged = try object(try onym(store, "merge", one, two, "--reason", "same human", "--json").output)
        let merge = try #require(merged["id"] as? String)
        let explained = try onym(store, "explain", one, two)
        #expect(explained.output.contains("connected         yes") && explained.output.contains("fact merge"))
        #expect(try onym(store, "journal", two).output.contains("same human"))
        #expect(try onym(store, "undo", merge, "--dry-run").code == 0)
        let undone = try onym(store, "undo", merge, "--reason", "no")
        #expect(undone.code == 0 && undone.output.contains("undone            yes"), "\(undone)")
        #expect(try onym(store, "undo", merge).code == 1)

        let all = try onym(store, "changes").output.split(separator: "\n")
        #expect(all.count == 7 && all[6].contains("merge.undone") && all[6].contains("from \(one)"), "\(all)")
        let lines = try onym(store, "changes", "--json", "--kinds", "person.merged").output
        #expect(try object(lines)["kind"] as? String == "person.merged")
        let followed = try onym(store, "changes", "--follow", "--count", "3", "--json")
        #expect(followed.code == 0 && followed.output.split(separator: "\n").count == 3)
        #expect(try onym(store, "changes", "--count", "0").code == 2)

        #expect(try onym(store, "erase", "email:e", "--dry-run").output.contains("erased            no"))
        #expect(try onym(store, "erase", "email:e").output.contains("erased            yes"))
        #expect(try onym(store, "person", "email:e").code == 1)
        let compacted = try onym(store, "compact", "--json")
        #expect(try compacted.code == 0 && object(compacted.output)["running"] as? Bool == false, "\(compacted)")
        #expect(server.stop() == 0)

        let alone = try onym(store, "compact")
        #expect(alone.code == 0 && alone.output.contains("running           no"), "\(alone)")
        #expect(try onym(store, "changes", "--count", "2").output.split(separator: "\n").count == 2)
        let follow = try onym(store, "changes", "--follow")
        #expect(follow.code == 3 && follow.errors.contains("No server serves this store"), "\(follow)")
    }
}
