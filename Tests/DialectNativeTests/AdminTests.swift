import Foundation
import StoreSQLite
import TestKit
import Testing

@Suite("Projects, apps and keys")
struct AdminTests {
    private func kinds(_ client: NativeClient, after: Int) throws -> [String] {
        try client.get("/onym/v1/changes?after=\(after)").list("changes").compactMap { $0["kind"] as? String }
    }

    private func call(_ client: NativeClient, admin key: String, _ path: String = "/onym/v1/stats") throws -> Int {
        try client.server.client.call("GET", path, fields: [("Authorization", "Bearer \(key)")]).status
    }

    private func identify(_ client: NativeClient, _ key: String, origin: String? = nil) throws -> Wire.Answer {
        let fields = [("x-mp-key", key)] + (origin.map { [("Origin", $0)] } ?? [])
        return try client.server.client.call(
            "POST", "/v1/identify", fields: fields,
            json: #"{"environment":"development","known_identities":{"customerid":"a"}}"#)
    }

    @Test(
        "a key is shown once, works, and is taken no more from the call that revokes it on",
        arguments: StoreKind.allCases)
    func keys(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        let start = try #require(client.get("/onym/v1/changes").number("next_after"))
        let made = try client.post("/onym/v1/keys", #"{"kind":"admin","name":"Second"}"#)
        #expect(made.status == 201, "\(made)")
        let (id, text) = (try #require(made.text("id")), try #require(made.text("key")))
        #expect(text.wholeMatch(of: /onym_admin_[0-9a-f]{48}/) != nil)
        #expect(try call(client, admin: text) == 200)
        let listed = try client.get("/onym/v1/keys")
        #expect(!listed.wire.body.contains(text))
        let key = try #require(listed.list("keys").first { $0["id"] as? String == id })
        #expect(key["name"] as? String == "Second" && key["revoked_at"] is NSNull && key["last_used"] is String)

        let revoked = try client.call("DELETE", "/onym/v1/keys/\(id)")
        #expect(revoked.status == 200 && revoked["keys"] as? [String] == [id], "\(revoked)")
        #expect(try call(client, admin: text) == 401)
        let again = try client.post("/onym/v1/keys/\(id)/revoke")
        #expect(again.status == 200 && again["keys"] as? [String] == [], "it is revoked already")
        let end = try #require(try client.get("/onym/v1/keys").list("keys").first { $0["id"] as? String == id })
        #expect(end["revoked_at"] is String)
        #expect(try kinds(client, after: start) == ["key.created", "key.revoked"])
        #expect(try !client.get("/onym/v1/changes").wire.body.contains(text))
        #expect(try client.call("DELETE", "/onym/v1/keys/999").status == 404)
        #expect(try client.call("DELETE", "/onym/v1/keys/x").status == 404)
    }

    @Test("a call that is repeated makes no second key, and shows none", arguments: StoreKind.allCases)
    func repeated(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        func make(_ path: String, _ body: String) throws -> NativeClient.Answer {
            let fields = [
                ("Authorization", "Bearer \(client.server.credentials.adminKey)"), ("Idempotency-Key", "once \(path)"),
            ]
            return NativeClient.Answer(try client.server.client.call("POST", path, fields: fields, json: body))
        }
        for (path, body, secret) in [
            ("/onym/v1/keys", #"{"kind":"claim_agent"}"#, "key"),
            ("/onym/v1/apps", #"{"name":"L","dialect":"linking"}"#, "app_secret"),
        ] {
            let (first, second) = (try make(path, body), try make(path, body))
            #expect(first.text(secret) != nil && first.text("id") != nil, "\(first)")
            #expect(second.status == 201 && second[secret] == nil, "\(second)")
            #expect(first.text("id") == second.text("id"))
            #expect(try make(path, "{}").status != 201)
        }
        let project = try make("/onym/v1/projects", #"{"name":"P"}"#)
        let same = try make("/onym/v1/projects", #"{"name":"P"}"#)
        #expect(project.text("admin_key") != nil && same["admin_key"] == nil)
        #expect((project["project"] as? [String: String]) == (same["project"] as? [String: String]))
    }

    @Test("keys of apps work as those from the start do; revoking the app revokes them", arguments: StoreKind.allCases)
    func apps(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        let app = try client.post(
            "/onym/v1/apps",
            #"{"name":"Shop","dialect":"idsync","platform":"web","web_origins":["https://Shop.example.com"]}"#)
        #expect(app.status == 201 && app["app_secret"] == nil, "\(app)")
        let id = try #require(app.text("id"))
        let web = try client.post("/onym/v1/keys", #"{"kind":"idsync_web","app":"\#(id)"}"#)
        let key = try #require(web.text("key"), "\(web)")
        #expect(try identify(client, key).status == 200)
        #expect(try identify(client, key, origin: "https://shop.example.com").status == 200)
        #expect(try identify(client, key, origin: "https://evil.example").status == 403)
        // Keys of apps that name no origins are taken from anywhere.
        let free = client.server.credentials.idsyncWebKey
        #expect(try identify(client, free, origin: "https://evil.example").status == 200)

        let signing = try client.post("/onym/v1/keys", #"{"kind":"idsync","app":"\#(id)"}"#)
        let basic = Data("\(signing.text("key") ?? ""):\(signing.text("secret") ?? "")".utf8).base64EncodedString()
        let answer = try client.server.client.call(
            "POST", "/v1/identify", fields: [("Authorization", "Basic \(basic)")],
            json: #"{"environment":"development","known_identities":{"customerid":"a"}}"#)
        #expect(answer.status == 200)

        let revoked = try client.post("/onym/v1/apps/\(id)/revoke")
        #expect(revoked["apps"] as? [String] == [id] && (revoked["keys"] as? [String])?.count == 2, "\(revoked)")
        #expect(try identify(client, key).status == 401)
        #expect(try client.post("/onym/v1/keys", #"{"kind":"idsync_web","app":"\#(id)"}"#).status == 404)
        let shown = try client.get("/onym/v1/apps").list("apps").first { $0["id"] as? String == id }
        #expect(shown?["revoked_at"] is String && shown?["web_origins"] as? [String] == ["https://shop.example.com"])
    }

    @Test("a new project is a world of its own, with an app and keys for each dialect", arguments: StoreKind.allCases)
    func projects(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        try client.identify(#"{"customerid":"a"}"#)
        let made = try client.post("/onym/v1/projects", #"{"name":"Other"}"#)
        #expect(made.status == 201, "\(made)")
        let (key, web) = (made.text("admin_key") ?? "", (made["idsync"] as? [String: String])?["web_key"] ?? "")
        let fields = [("Authorization", "Bearer \(key)")]
        func get(_ path: String) throws -> NativeClient.Answer {
            NativeClient.Answer(try client.server.client.call("GET", path, fields: fields))
        }
        #expect(try get("/onym/v1/people?type=customerid&value=a").list("people").isEmpty)
        #expect(try identify(client, web).status == 200)
        #expect(try get("/onym/v1/people?type=customerid&value=a").list("people").count == 1)
        #expect(try get("/onym/v1/apps").list("apps").count == 5)
        #expect(try get("/onym/v1/keys").list("keys").count == 11)
        // A key speaks for its own project, and sees no other.
        let id = try #require((made["project"] as? [String: String])?["id"])
        #expect(try get("/onym/v1/projects").list("projects").map { $0["id"] as? String } == [id])
        #expect(try client.call("DELETE", "/onym/v1/projects/\(id)").status == 404)
        let first = try #require(try client.get("/onym/v1/keys?limit=1").list("keys").first?["id"] as? String)
        #expect(
            try client.server.client.call("DELETE", "/onym/v1/keys/\(first)", fields: fields).status == 404)
        let own = try client.server.client.call("DELETE", "/onym/v1/projects/\(id)", fields: fields)
        #expect(own.status == 200, "\(own)")
        #expect(try get("/onym/v1/apps").status == 401)
        #expect(try identify(client, web).status == 401)
        #expect(try client.get("/onym/v1/apps").status == 200)
    }

    @Test("what was made and revoked is there again after a restart")
    func reopened() throws {
        let folder = TemporaryFolder()
        let client = NativeClient(try TestServer(.sqlite, in: folder))
        let app = try client.post(
            "/onym/v1/apps", #"{"name":"S","dialect":"claim","bundle_id":"b","web_origins":["http://localhost:3000"]}"#)
        let id = try #require(app.text("id"))
        _ = try client.post(
            "/onym/v1/keys", #"{"kind":"claim_client","app":"\#(id)","expires_at":"2100-01-01T00:00:00Z"}"#)
        _ = try client.post("/onym/v1/apps/\(id)/revoke")
        let (apps, directory) = (try client.get("/onym/v1/apps").wire.body, client.server.store.directory)
        client.server.stop()
        (client.server.store as? SQLiteStore)?.close()
        let store = try SQLiteStore(StoreFile(folder: folder.path))
        #expect(Set(store.directory.apps.values.map { "\($0)" }) == Set(directory.apps.values.map { "\($0)" }))
        #expect(store.directory.keys == directory.keys)
        #expect(apps.contains("http://localhost:3000"))
        store.close()
    }

    @Test("when a key was used is kept, to the hour", arguments: StoreKind.allCases)
    func lastUsed(_ kind: StoreKind) throws {
        let clock = ManualClock()
        let server = try TestServer(kind) { $0.clock = { clock.now } }
        let client = NativeClient(server)
        func last() throws -> String? {
            try client.get("/onym/v1/keys").list("keys").first { $0["kind"] as? String == "idsync_web" }?["last_used"]
                as? String
        }
        #expect(try last() == nil)
        try client.identify(#"{"customerid":"a"}"#)
        let first = try #require(try last())
        let before = server.store.counts.lastSequence
        clock.advance(milliseconds: 10_000)
        try client.identify(#"{"customerid":"a"}"#)
        #expect(try #require(try last()) > first)
        #expect(server.store.counts.lastSequence == before, "nothing is written for each call")
        clock.advance(milliseconds: 3_600_000)
        try client.identify(#"{"customerid":"a"}"#)
        #expect(try #require(try last()) > first)
        // It is noted on the way, so nobody waits for that.
        let isNoted = try Patience.until {
            _ = try last()
            return server.store.counts.lastSequence > before
        }
        #expect(isNoted)
    }

    @Test(
        "says what is wrong",
        arguments: [
            ("keys", "{}", "kind is required"), ("keys", #"{"kind":"x"}"#, "one of admin"),
            ("keys", #"{"kind":"idsync"}"#, "app is required"),
            ("keys", #"{"kind":"admin","app":"1"}"#, "whole project"),
            ("keys", #"{"kind":"claim_client","app":"1"}"#, "speaks idsync"),
            ("keys", #"{"kind":"admin","expires_at":"2001-01-01T00:00:00Z"}"#, "to come"),
            ("keys", #"{"kind":"admin","expires_at":"soon"}"#, "must be a moment"),
            ("keys", #"{"kind":"idsync_web","app":"1","scopes":["admin"]}"#, "can have"),
            ("keys", #"{"kind":"admin","scopes":["all"]}"#, "scopes[0]"),
            ("keys", #"{"kind":"admin","name":""}"#, "1 to 255"), ("keys", #"{"kind":"admin","id":1}"#, "not a member"),
            ("apps", "{}", "name is required"), ("apps", #"{"name":"a"}"#, "dialect is required"),
            ("apps", #"{"name":"a","dialect":"native"}"#, "native"),
            ("apps", #"{"name":"a","dialect":"claim","web_origins":["shop.example"]}"#, "must be an origin"),
            ("apps", #"{"name":"a","dialect":"claim","web_origins":["https://a/b"]}"#, "must be an origin"),
            ("apps", #"{"name":"a","dialect":"claim","platform":"beos"}"#, "one of apple"),
            ("projects", "{}", "name is required"), ("projects", "[]", "must be an object"),
        ])
    func refuses(_ path: String, _ body: String, _ says: String) throws {
        let answer = try NativeClient(.memory).post("/onym/v1/\(path)", body)
        #expect(answer.status == 400 && answer.text("detail")?.contains(says) == true, "\(answer)")
    }

    @Test("lists go page by page, and the numbers add up", arguments: StoreKind.allCases)
    func lists(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        var (seen, cursor): ([String], String?) = ([], nil)
        repeat {
            let page = try client.get("/onym/v1/keys?limit=4" + (cursor.map { "&cursor=\($0)" } ?? ""))
            seen += page.list("keys").compactMap { $0["id"] as? String }
            cursor = page.text("next_cursor")
        } while cursor != nil
        #expect(seen == (1...11).map(String.init))
        try client.identify(#"{"customerid":"a","email":"e"}"#)
        let stats = try client.get("/onym/v1/stats")
        #expect(stats.number("people") == 1 && stats.number("identities") == 2, "\(stats)")
        #expect(stats.number("keys") == 11, "\(stats)")
        #expect(stats.number("projects") == 1 && stats.number("apps") == 5 && stats.number("last_seq") == 2)
    }

    @Test("an administrator of one project among several is told of that one alone", arguments: StoreKind.allCases)
    func severalProjects(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        try client.identify(#"{"customerid":"a"}"#)
        #expect(try client.get("/metrics").status == 200)
        let other = try #require(try client.post("/onym/v1/projects", #"{"name":"Other"}"#).text("admin_key"))
        for key in [client.server.credentials.adminKey, other] {
            let fields = [("Authorization", "Bearer \(key)")]
            let stats = JSONAnswer(try client.server.client.call("GET", "/onym/v1/stats", fields: fields))
            #expect(stats.status == 200 && stats.number("projects") == 1, "\(stats)")
            #expect(stats.number("keys") == 11, "\(stats)")
            for figure in ["people", "identities", "links", "rows", "merges", "last_seq"] {
                #expect(stats[figure] == nil, "\(stats)")
            }
            let metrics = JSONAnswer(try client.server.client.call("GET", "/metrics", fields: fields))
            #expect(metrics.status == 403 && metrics.code == "operators_only", "\(metrics)")
        }
    }
}
