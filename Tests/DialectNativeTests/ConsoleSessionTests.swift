import Domain
import Foundation
import TestKit
import Testing

@Suite("Signing in to the console")
struct ConsoleSessionTests {
    /// A page of the console in a browser: its cookie goes with each call, and the call names the page's session.
    private struct Page {
        let server: TestServer
        var cookie: String?
        var id: String?

        func call(
            _ method: String, _ path: String, _ json: String? = nil, fields: [(String, String)]? = nil
        ) throws -> JSONAnswer {
            let all = (fields ?? [("Onym-Console", id ?? "1")]) + (cookie.map { [("Cookie", $0)] } ?? [])
            guard let json else { return JSONAnswer(try server.client.call(method, path, fields: all)) }
            return JSONAnswer(try server.client.call(method, path, fields: all, json: json))
        }

        mutating func open(_ code: String, fields: [(String, String)] = [("Onym-Console", "1")]) throws -> JSONAnswer {
            let answer = try call("POST", ConsoleSessionTests.session, #"{"code":"\#(code)"}"#, fields: fields)
            if let field = answer.wire["Set-Cookie"] { cookie = String(field.prefix { $0 != ";" }) }
            id = answer.text("id") ?? id
            return answer
        }
    }

    private static let session = "/onym/v1/console/session"

    private func link(_ client: NativeClient, _ body: String = "{}") throws -> String {
        let made = try client.post("/onym/v1/console/links", body)
        #expect(made.status == 201, "\(made)")
        return try #require(made.text("code"))
    }

    private func signIn(_ client: NativeClient, _ role: ConsoleRole = .admin) throws -> Page {
        var page = Page(server: client.server)
        let opened = try page.open(try link(client, #"{"role":"\#(role.rawValue)"}"#))
        #expect(opened.status == 201, "\(opened)")
        return page
    }

    @Test("A link makes one session, and both are in the journal", arguments: StoreKind.allCases)
    func once(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        let start = try #require(client.get("/onym/v1/changes").number("next_after"))
        let made = try client.post(
            "/onym/v1/console/links", #"{"role":"support","name":"Grace","session_seconds":7200}"#)
        let code = try #require(made.text("code"))
        #expect(code.wholeMatch(of: /oc_1_[0-9a-f]{32}/) != nil)
        #expect(made.text("url") == "http://127.0.0.1:\(client.server.port)/console#code=\(code)")

        var (page, other) = (Page(server: client.server), Page(server: client.server))
        let opened = try page.open(code)
        #expect(opened.status == 201 && opened.text("name") == "Grace" && opened.text("role") == "support", "\(opened)")
        #expect(opened["scopes"] as? [String] == ["console:read", "console:act"])
        #expect((opened["project"] as? [String: String])?["name"] == "Test")
        let field = try #require(opened.wire["Set-Cookie"])
        #expect(
            field.wholeMatch(of: /onym_[0-9a-f]{8}=[0-9a-f]{64}; Path=\/; HttpOnly; SameSite=Strict/) != nil, "\(field)"
        )
        let again = try other.open(code)
        #expect(again.status == 401 && again.code == "code_used", "\(again)")
        #expect(other.cookie == nil)

        let known = try page.call("GET", ConsoleSessionTests.session)
        #expect(known.status == 200 && known.text("expires_at") == opened.text("expires_at"), "\(known)")
        #expect(try page.call("GET", "/onym/v1/stats").status == 200)
        let ended = try page.call("DELETE", ConsoleSessionTests.session)
        #expect(ended.status == 200 && ended.wire["Set-Cookie"]?.contains("Max-Age=0") == true, "\(ended)")
        #expect(try page.call("GET", "/onym/v1/stats").code == "session_ended")

        let changes = try client.get("/onym/v1/changes?after=\(start)")
        #expect(changes.list("changes").compactMap { $0["kind"] as? String } == ["console.opened", "console.closed"])
        let secret = try #require(page.cookie?.suffix(64))
        #expect(!changes.wire.body.contains(code) && !changes.wire.body.contains(secret))
    }

    @Test("A wrong link makes no session, and ten wrong links of a minute are the last", arguments: StoreKind.allCases)
    func wrong(_ kind: StoreKind) throws {
        let clock = ManualClock(Int64(Date().timeIntervalSince1970) * 1000)
        let client = NativeClient(try TestServer(kind, configure: { $0.clock = { clock.now } }))
        var page = Page(server: client.server)
        let late = try link(client, #"{"valid_seconds":60}"#)
        clock.advance(milliseconds: 60_000)
        #expect(try page.open(late).code == "code_expired")
        for code in ["", "oc_", "oc_x_1", "oc_1_00", "oc_9_00", "oc_1_\(String(repeating: "0", count: 32))"] {
            let answer = try page.open(code)
            #expect(answer.status == 401 && answer.code == "code_unknown", "\(code): \(answer)")
        }
        #expect(try page.call("POST", ConsoleSessionTests.session, "{}").status == 400)
        let good = try link(client)
        for _ in 0..<3 { #expect(try page.open("oc_1_11").status == 401) }
        let refused = try page.open("oc_1_11")
        #expect(refused.status == 429 && refused.wire["Retry-After"] == "60", "\(refused)")
        // Other people may have the same address, so a right code is let in.
        #expect(try page.open(good).status == 201)
        #expect(try page.open(good).status == 429, "a used code is a wrong code")
        clock.advance(milliseconds: 60_000)
        #expect(try page.open("oc_1_11").code == "code_unknown")
    }

    @Test("A session ends by its time, without use, by a revocation, and by no restart", arguments: StoreKind.allCases)
    func ends(_ kind: StoreKind) throws {
        let clock = ManualClock(Int64(Date().timeIntervalSince1970) * 1000)
        var client = NativeClient(try TestServer(kind, configure: { $0.clock = { clock.now } }))
        var (page, viewer) = (try signIn(client), try signIn(client, .viewer))
        for _ in 0..<3 {
            clock.advance(milliseconds: 29 * 60_000)
            #expect(try page.call("GET", "/onym/v1/stats").status == 200)
            // The note of the use comes after the answer.
            let store = client.server.store
            #expect(
                Patience.until {
                    store.directory.console(of: ProjectID(rawValue: 1)).sessions.contains { $0.usedAt == clock.now }
                })
        }
        if kind != .memory {
            client = NativeClient(try TestServer(restarting: client.server, configure: { $0.clock = { clock.now } }))
            (page, viewer) = (
                Page(server: client.server, cookie: page.cookie, id: page.id),
                Page(server: client.server, cookie: viewer.cookie, id: viewer.id)
            )
        }
        // A page that only waits for changes, or asks by itself, is not used.
        clock.advance(milliseconds: 28 * 60_000)
        #expect(try page.call("GET", "/onym/v1/changes?after=0&wait=1").status == 200)
        let unused = [("Onym-Console", try #require(page.id)), ("Onym-Use", "none")]
        #expect(try page.call("GET", "/onym/v1/stats", fields: unused).status == 200)
        clock.advance(milliseconds: 3 * 60_000)
        #expect(try page.call("GET", "/onym/v1/stats").code == "session_ended")
        #expect(try viewer.call("GET", "/onym/v1/stats").status == 200)
        let keys = try client.get("/onym/v1/keys").list("keys").filter { $0["kind"] as? String == "console" }
        #expect(keys.count == 2)
        let id = try #require(keys.last?["id"] as? String)
        #expect(try client.post("/onym/v1/keys/\(id)/revoke").status == 200)
        #expect(try viewer.call("GET", "/onym/v1/stats").code == "session_ended")
        var short = Page(server: client.server)
        #expect(try short.open(try link(client, #"{"session_seconds":60}"#)).status == 201)
        clock.advance(milliseconds: 60_000)
        #expect(try short.call("GET", "/onym/v1/stats").code == "session_ended")
    }

    @Test("A clock that was ahead gives no session and no link a longer life", arguments: StoreKind.allCases)
    func clockAhead(_ kind: StoreKind) throws {
        let clock = ManualClock(Int64(Date().timeIntervalSince1970) * 1000)
        let client = NativeClient(try TestServer(kind, configure: { $0.clock = { clock.now } }))
        let days: Int64 = 20 * 86_400_000
        clock.advance(milliseconds: days)
        var (page, late) = (try signIn(client), Page(server: client.server))
        let link = try link(client)
        for _ in 0..<10 { _ = try late.open("oc_1_11") }
        #expect(try late.open("oc_1_11").status == 429)
        #expect(try page.call("GET", "/onym/v1/stats").status == 200)
        clock.advance(milliseconds: -days)
        #expect(try late.open("oc_1_11").status == 401, "the minute of wrong codes is no longer than a minute")
        #expect(try page.call("GET", "/onym/v1/stats").code == "session_ended")
        #expect(try late.open(link).code == "code_expired")
        clock.advance(milliseconds: days / 2)
        #expect(try page.call("GET", "/onym/v1/stats").code == "session_ended")
        #expect(try late.open(link).code == "code_expired")
    }

    @Test("A session opens one server's door and the other's")
    func twoServers() throws {
        guard StoreKind.allCases.contains(.postgres) else { return }
        let client = try NativeClient(.postgres)
        let other = try TestServer(beside: client.server)
        var page = Page(server: client.server)
        let code = try link(client)
        #expect(try page.open(code).status == 201)
        page = Page(server: other, cookie: page.cookie, id: page.id)
        try #expect(Patience.until { try page.call("GET", "/onym/v1/stats").status == 200 })
        var late = Page(server: other)
        #expect(try late.open(code).code == "code_used")
        #expect(try page.call("DELETE", ConsoleSessionTests.session).status == 200)
        let first = Page(server: client.server, cookie: page.cookie, id: page.id)
        try #expect(Patience.until { try first.call("GET", "/onym/v1/stats").status == 401 })
    }

    @Test("A call that a page of another place may have caused is refused")
    func otherPages() throws {
        let client = try NativeClient(.memory)
        let page = try signIn(client)
        let own = ("Onym-Console", try #require(page.id))
        let port = client.server.port
        let rows: [([(String, String)], Int, String?)] = [
            ([own], 200, nil),
            ([own, ("Origin", "http://127.0.0.1")], 200, nil),
            ([own, ("Host", "localhost:\(port)"), ("Origin", "http://localhost:\(port)")], 200, nil),
            ([own, ("Host", "[::1]:\(port)"), ("Sec-Fetch-Site", "same-origin")], 200, nil),
            ([], 403, "not_the_console"),
            ([("Onym-Console", "x")], 403, "not_the_console"),
            ([("Onym-Console", "1")], 409, "other_session"),
            ([own, ("Origin", "http://127.0.0.1:1")], 403, "not_the_console"),
            ([own, ("Origin", "https://127.0.0.1")], 403, "not_the_console"),
            ([own, ("Origin", "null")], 403, "not_the_console"),
            ([own, ("Sec-Fetch-Site", "same-site")], 403, "not_the_console"),
            ([own, ("Sec-Fetch-Site", "cross-site")], 403, "not_the_console"),
            ([own, ("Host", "evil.example")], 421, "wrong_host"),
            ([own, ("Host", "127.0.0.1.evil.example")], 421, "wrong_host"),
            ([own, ("Host", "192.0.2.1")], 403, "console_needs_tls"),
            ([own, ("Authorization", "Bearer \(client.server.credentials.adminKey)")], 400, "two_credentials"),
        ]
        for (fields, status, code) in rows {
            let answer = try page.call("GET", "/onym/v1/stats", fields: fields)
            #expect(answer.status == status && answer.code == code, "\(fields): \(answer)")
        }
        var opener = Page(server: client.server)
        let code = try link(client)
        for (fields, status, _) in rows where status == 403 || status == 421 {
            #expect(try opener.open(code, fields: fields).status == status, "\(fields)")
        }
        // None of these calls has used the link.
        #expect(try opener.open(code).status == 201)
        // A session is no key of an app, and a session makes no session.
        let secret = try #require(page.cookie?.suffix(64))
        let bearer = [("Authorization", "Bearer \(secret)")]
        #expect(try Page(server: client.server).call("GET", "/onym/v1/stats", fields: bearer).status == 401)
        #expect(try page.call("POST", "/onym/v1/console/links", "{}").code == "not_by_session")
        #expect(try page.call("POST", "/onym/v1/keys", #"{"kind":"console"}"#).status == 400)
        let answer = try client.server.client.call("GET", "/console", fields: [("Host", "evil.example")])
        #expect(answer.status == 200, "the page itself has nothing of a project")
    }

    @Test("With HTTPS before the server, the browser itself keeps the cookie to the server")
    func publicURL() throws {
        let server = try TestServer(.memory, configure: { $0.publicURL = "https://onym.example.com" })
        let client = NativeClient(server)
        let made = try client.post("/onym/v1/console/links", "{}")
        #expect(made.text("url")?.hasPrefix("https://onym.example.com/console#code=oc_1_") == true, "\(made)")
        var page = Page(server: server)
        let fields = [
            ("Onym-Console", "1"), ("Host", "onym.example.com"), ("Origin", "https://onym.example.com"),
            ("Sec-Fetch-Site", "same-origin"),
        ]
        let opened = try page.open(try #require(made.text("code")), fields: fields)
        let field = try #require(opened.wire["Set-Cookie"])
        #expect(
            field.wholeMatch(of: /__Host-onym_[0-9a-f]{8}=[0-9a-f]{64}; Path=\/; HttpOnly; SameSite=Strict; Secure/)
                != nil,
            "\(field)")
        let ownFields = [("Onym-Console", try #require(page.id))] + fields.dropFirst()
        #expect(try page.call("GET", "/onym/v1/stats", fields: ownFields).status == 200)
        // Another address has another cookie.
        #expect(try page.call("GET", "/onym/v1/stats").code == "session_ended")
    }

    @Test("A page of a session makes no calls as the session of a later sign-in")
    func otherTab() throws {
        let client = try NativeClient(.memory)
        let made = try client.post("/onym/v1/projects", #"{"name":"Other"}"#)
        let key = try #require(made.text("admin_key"))
        let code = try #require(
            JSONAnswer(
                try client.server.client.call(
                    "POST", "/onym/v1/console/links", fields: [("Authorization", "Bearer \(key)")], json: "{}")
            ).text("code"))
        let first = try signIn(client)
        var tab = first
        #expect(try tab.open(code).status == 201)
        #expect(tab.cookie != first.cookie && tab.id != first.id)
        let old = Page(server: client.server, cookie: tab.cookie, id: first.id)
        for (method, path) in [("GET", "/stats"), ("POST", "/projects/1/revoke"), ("DELETE", "/console/session")] {
            let answer = try old.call(method, "/onym/v1\(path)", method == "POST" ? "{}" : nil)
            #expect(answer.status == 409 && answer.code == "other_session", "\(path): \(answer)")
        }
        // A page that was just loaded learns its session, and does nothing else without it.
        let loaded = Page(server: client.server, cookie: tab.cookie)
        let known = try loaded.call("GET", ConsoleSessionTests.session)
        #expect(known.text("id") == tab.id && (known["project"] as? [String: String])?["name"] == "Other", "\(known)")
        #expect(try loaded.call("GET", "/onym/v1/stats").code == "other_session")
        #expect(try tab.call("GET", "/onym/v1/stats").status == 200)
        #expect(try first.call("GET", "/onym/v1/stats").code == "session_ended", "the second sign-in ends the first")
        let mine = try client.get("/onym/v1/keys").list("keys").filter { $0["kind"] as? String == "console" }
        #expect(mine.count == 1 && mine[0]["revoked_at"] is String, "\(mine)")
    }

    @Test("A link ends with the key that made it", arguments: StoreKind.allCases)
    func revokedMaker(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        let made = try client.post("/onym/v1/keys", #"{"kind":"admin"}"#)
        let (key, id) = (try #require(made.text("key")), try #require(made.text("id")))
        let code = try #require(
            JSONAnswer(
                try client.server.client.call(
                    "POST", "/onym/v1/console/links", fields: [("Authorization", "Bearer \(key)")], json: "{}")
            ).text("code"))
        #expect(try client.post("/onym/v1/keys/\(id)/revoke").status == 200)
        var page = Page(server: client.server)
        let refused = try page.open(code)
        #expect(refused.status == 401 && refused.code == "code_revoked", "\(refused)")
    }

    @Test("A role may make its calls, and no others", arguments: ConsoleRole.allCases)
    func roles(_ role: ConsoleRole) throws {
        let client = try NativeClient(.memory)
        let person = try client.identify(#"{"customerid":"ada"}"#)
        let page = try signIn(client, role)
        let calls: [(String, String, ConsoleRole)] = [
            ("GET", "/people/\(person)", .viewer), ("GET", "/people/\(person)/graph", .viewer),
            ("GET", "/people/\(person)/timeline", .viewer), ("GET", "/people/\(person)/journal", .viewer),
            ("GET", "/explain?a=customerid:ada&b=customerid:ada", .viewer), ("GET", "/changes", .viewer),
            ("GET", "/stats", .viewer), ("GET", "/strategy", .viewer), ("GET", "/strategy/versions", .viewer),
            ("GET", "/people?order=recent", .viewer), ("POST", "/search/scan", .viewer),
            ("GET", "/stats/days", .viewer), ("GET", "/requests", .viewer), ("GET", "/requests/1", .viewer),
            ("GET", "/jobs", .viewer), ("DELETE", "/jobs/x", .admin), ("POST", "/webhooks/1/test", .admin),
            ("POST", "/webhooks/1/replay", .support), ("GET", "/webhooks/1", .admin),
            ("GET", "/people/\(person)/access", .viewer), ("POST", "/people/\(person)/grants", .support),
            ("DELETE", "/people/\(person)/grants/pro", .support), ("POST", "/transfers", .support),
            ("POST", "/merges", .support), ("POST", "/merges/m_1/undo", .support),
            ("GET", "/splits", .viewer), ("GET", "/people/\(person)/splits", .viewer),
            ("POST", "/people/\(person)/split", .support), ("POST", "/splits/s_1/undo", .support),
            ("POST", "/people/\(person)/identities", .support), ("POST", "/people/\(person)/export", .support),
            ("POST", "/devices/ios_idfv/1/release", .support), ("POST", "/transfers/1/undo", .support),
            ("POST", "/deliveries/1/replay", .support),
            ("DELETE", "/people/\(person)?dry_run=true", .admin), ("PUT", "/strategy", .admin),
            ("GET", "/keys", .admin),
            ("POST", "/keys", .admin), ("GET", "/apps", .admin), ("GET", "/webhooks", .admin),
            ("POST", "/compact", .admin),
            ("GET", "/signing-keys", .admin), ("POST", "/same-user-ids", .admin),
        ]
        let order = ConsoleRole.allCases
        for (method, path, needed) in calls {
            let answer = try page.call(method, "/onym/v1\(path)", method == "GET" ? nil : "{}")
            let may = order.firstIndex(of: role)! >= order.firstIndex(of: needed)!
            #expect((answer.status != 403) == may, "\(role) \(method) \(path): \(answer)")
            #expect(answer.status != 401, "\(answer)")
        }
    }

    @Test("Only an administrator takes back what only an administrator can set")
    func settings() throws {
        let client = try NativeClient(.memory)
        let made = try client.post("/onym/v1/keys", #"{"kind":"admin","scopes":["console:read","console:act"]}"#)
        let key = [("Authorization", "Bearer \(try #require(made.text("key")))")]
        let support = try signIn(client, .support)
        let (ada, bob) = (
            try client.identify(#"{"customerid":"ada"}"#), try client.identify(#"{"email":"bob@example.com"}"#)
        )
        func last() throws -> Int { try #require(client.get("/onym/v1/stats")["last_seq"] as? Int) }
        func refuse(_ call: Int, _ kind: String) throws {
            #expect(try client.get("/onym/v1/calls/\(call)").text("kind") == kind)
            for query in ["", "?dry_run=true", "?cascade=true", "?cascade=true&dry_run=true", "?if_seq=0"] {
                let path = "/onym/v1/calls/\(call)/undo\(query)"
                let answer = try support.call("POST", path, "{}")
                #expect(answer.status == 403 && answer.code == "forbidden", "\(kind)\(query): \(answer)")
                let ofKey = try client.server.client.call("POST", path, fields: key, json: "{}")
                #expect(ofKey.status == 403, "\(kind)\(query): \(ofKey)")
            }
        }
        let settings = [
            ("set_strategy", "PUT", "/onym/v1/strategy", #"{"signed_identities":"require"}"#),
            ("linking_settings", "PUT", "/onym/v1/linking", #"{"code_seconds":200}"#),
            ("set_client_config", "PUT", "/onym/v1/client-config", #"{"native":{"stl":61}}"#),
            ("edit_catalog", "PUT", "/onym/v1/entitlements/gold", "{}"),
            ("set_store_options", "PUT", "/onym/v1/stores", #"{"poll":{"enabled":false}}"#),
            ("define", "PUT", "/onym/v1/metrics/taps", #"{"name":"Taps"}"#),
            (
                "change_settings", "PATCH", "/v1/projects/6f6e796d-0001-8000-8000-000000000001",
                #"{"retention_days_events":30}"#
            ),
        ]
        for (kind, method, path, body) in settings {
            let set = try client.call(method, path, body)
            #expect(set.status < 300, "\(path): \(set)")
            let call = try last()
            try refuse(call, kind)
            // The undo of an undo sets the setting again.
            #expect(try client.post("/onym/v1/calls/\(call)/undo").status == 200, "\(kind)")
            let undo = try last()
            try refuse(undo, try #require(client.get("/onym/v1/calls/\(undo)").text("kind")))
            #expect(try client.post("/onym/v1/calls/\(undo)/undo").status == 200, "\(kind)")
            try refuse(try last(), try #require(client.get("/onym/v1/calls/\(undo)").text("kind")))
        }
        _ = try client.merge(ada, into: bob)
        for _ in 1...3 {
            let undone = try support.call("POST", "/onym/v1/calls/\(try last())/undo", "{}")
            #expect(undone.status == 200, "a call about a person: \(undone)")
        }
    }

    @Test("An admin key may have the scopes of a viewer only")
    func keyOfViewer() throws {
        let client = try NativeClient(.memory)
        let made = try client.post("/onym/v1/keys", #"{"kind":"admin","scopes":["console:read"]}"#)
        let fields = [("Authorization", "Bearer \(try #require(made.text("key")))")]
        #expect(try client.server.client.call("GET", "/onym/v1/stats", fields: fields).status == 200)
        #expect(try client.server.client.call("POST", "/onym/v1/merges", fields: fields, json: "{}").status == 403)
    }

    @Test("A server without a console has no such calls")
    func off() throws {
        let server = try TestServer(.memory, configure: { $0.hasConsole = false })
        // The description has the calls of a server with a console.
        let client = HTTPClient(port: server.port)
        let fields = [("Authorization", "Bearer \(server.credentials.adminKey)")]
        #expect(try client.call("POST", "/onym/v1/console/links", fields: fields, json: "{}").status == 404)
        #expect(try client.call("GET", ConsoleSessionTests.session, fields: fields).status == 404)
        #expect(try client.call("GET", "/console").status == 404)
    }
}
