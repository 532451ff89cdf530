import Foundation
import TestKit
import Testing

/// The calls for projects, apps and their users (spec/claim-reads.md 7), on every store.
@Suite("Apps and their users")
struct AppTests {
    private func call(
        _ client: OwlClient, _ method: String, _ path: String, _ body: String? = nil, key: String? = nil
    ) throws -> Wire.Answer {
        try client.call(method, path, body, key: key ?? client.server.credentials.claimAgentKey)
    }

    private func check(_ answer: Wire.Answer, _ status: Int, _ text: String, _ line: Int = #line) {
        #expect(answer.status == status && answer.body == #"{"error":"\#(text)"}"#, "line \(line): \(answer)")
    }

    @Test("whoami shows the key of each caller")
    func whoami() throws {
        let client = try OwlClient(.memory)
        let keys = client.server.credentials
        for (key, kind, permissions) in [
            (keys.claimClientKey, "client", #"["events:write","users:write"]"#),
            (keys.claimImportKey, "import", #"["events:write","users:write"]"#), (keys.claimAgentKey, "agent", nil),
            (keys.adminKey, "admin", nil),
        ] as [(String, String, String?)] {
            let answer = try call(client, "GET", "/v1/auth/whoami", key: key)
            let team = #""team":{"id":"6f6e796d-0006-8000-8000-000000000001","name":"Test","slug":"test"}"#
            #expect(
                answer.body.hasPrefix(#"{"type":"api_key","key_type":"\#(kind)",\#(team),"permissions":["#), "\(answer)"
            )
            if let permissions { #expect(answer.body.hasSuffix(#""permissions":\#(permissions)}"#), "\(answer)") }
        }
        let agent = try call(client, "GET", "/v1/auth/whoami").body
        #expect(agent.contains(#""issues:write""#) && !agent.contains(#""events:write""#))
        check(try call(client, "GET", "/v1/auth/whoami", key: "owl_agent_x"), 401, "Invalid API key")
    }

    @Test("apps are made with a key, renamed and deleted", arguments: StoreKind.allCases)
    func apps(_ kind: StoreKind) throws {
        let client = try OwlClient(kind)
        let project = try client.project()
        let required = "name, platform, and project_id are required"
        let platform = "Invalid platform. Must be one of: apple, android, web, backend"
        for (body, text) in [
            ("{}", required), (#"{"name":"A","platform":"web"}"#, required),
            (#"{"name":" ","platform":"web","project_id":"\#(project)"}"#, required),
            (#"{"name":"A","platform":"any","project_id":"\#(project)"}"#, platform),
            (
                #"{"name":"A","platform":"web","project_id":"\#(project)"}"#,
                "bundle_id is required for non-backend platforms"
            ),
        ] { check(try call(client, "POST", "/v1/apps", body), 400, text) }
        check(
            try call(client, "POST", "/v1/apps", #"{"name":"A","platform":"backend","project_id":"x"}"#), 404,
            "Project not found")
        let body = #"{"name":"Shop","platform":"android","bundle_id":"com.example.shop","project_id":"\#(project)"}"#
        check(
            try call(client, "POST", "/v1/apps", body, key: client.clientKey), 403, "Missing permission: apps:write")
        let made = try call(client, "POST", "/v1/apps", body)
        let app = try OwlClient.json(made)
        #expect(made.status == 201 && app["name"] as? String == "Shop" && app["platform"] as? String == "android")
        #expect(app["bundle_id"] as? String == "com.example.shop" && app["project_id"] as? String == project)
        let key = try #require(app["client_secret"] as? String)
        let path = "/v1/apps/\(app["id"] as? String ?? "")"
        #expect(app.count == 20 && app["supported_languages"] is NSNull && app["ratings_synced_at"] is NSNull)
        #expect(try OwlClient.json(try call(client, "GET", path))["client_secret"] is NSNull)
        let keys = try client.agent("/v1/auth/keys")["api_keys"] as? [[String: Any]] ?? []
        #expect(keys.contains { $0["name"] as? String == "Shop Client Key" && $0["key_type"] as? String == "client" })
        // The key works, and uploads tell about the app.
        func upload(_ version: String, _ more: String = "") throws {
            let event = OwlClient.event("ada", more: #","app_version":"\#(version)"\#(more)"#)
            #expect(try client.ingest([event], bundle: "com.example.shop", key: key).status == 200)
        }
        try upload("1.9", #","supported_languages":["de","en"]"#)
        try upload("1.10")
        try upload("1.2")
        try upload("3.0", #","is_dev":true"#)
        let told = try OwlClient.json(try call(client, "GET", path))
        #expect(
            told["latest_app_version"] as? String == "1.10"
                && told["latest_app_version_source"] as? String == "computed")
        #expect(told["supported_languages"] as? [String] == ["de", "en"])
        // What is no language must not reach a read.
        try upload("1.9", #","supported_languages":["fr",7,null,["x"],{"a":1},"\u0000"]"#)
        #expect(try OwlClient.json(try call(client, "GET", path))["supported_languages"] as? [String] == ["fr"])
        try upload("1.9", #","supported_languages":7"#)
        #expect(try call(client, "GET", "/v1/apps").status == 200)
        // A repeated call makes no second app, and shows no key.
        let fields = [("Authorization", "Bearer \(client.server.credentials.claimAgentKey)"), ("Idempotency-Key", "k")]
        let twice = try (0..<2).map { _ in try client.http.call("POST", "/v1/apps", fields: fields, json: body) }
        let answers = try twice.map { try OwlClient.json($0) }
        #expect(answers[0]["id"] as? String == answers[1]["id"] as? String, "\(twice)")
        #expect(answers[0]["client_secret"] is String && answers[1]["client_secret"] is NSNull)
        check(try call(client, "PATCH", path, "{}"), 400, "At least one field to update is required")
        check(try call(client, "PATCH", path, #"{"name":" "}"#), 400, "name must have 1 to 255 characters")
        #expect(
            try OwlClient.json(try call(client, "PATCH", path, #"{"name":"Market"}"#))["name"] as? String == "Market")
        #expect(try OwlClient.json(try call(client, "GET", path))["name"] as? String == "Market")
        func names() throws -> [String?] {
            (try client.agent("/v1/apps")["apps"] as? [[String: Any]] ?? []).map { $0["name"] as? String }
        }
        #expect(try names() == ["Test (claim)", "Market", "Shop"])
        check(try call(client, "DELETE", path), 403, "Only users can delete apps")
        let deleted = try call(client, "DELETE", path, key: client.server.credentials.adminKey)
        #expect(deleted.body == #"{"deleted":true}"#)
        #expect(try names() == ["Test (claim)", "Shop"])
        for (method, body) in [("GET", nil), ("PATCH", #"{"name":"A"}"#), ("DELETE", nil)] as [(String, String?)] {
            check(try call(client, method, path, body, key: client.server.credentials.adminKey), 404, "App not found")
        }
        #expect(try client.ingest([OwlClient.event("ada")], bundle: "com.example.shop", key: key).status == 401)
        // The project has a name too.
        check(try call(client, "PATCH", "/v1/projects/x", #"{"name":"New"}"#), 404, "Project not found")
        let renamed = try call(client, "PATCH", "/v1/projects/\(project)", #"{"name":"New name"}"#)
        #expect(renamed.body.contains(#""name":"New name","slug":"test""#), "an address stays: \(renamed)")
        let shown = try client.agent("/v1/projects/\(project)")
        #expect(shown["name"] as? String == "New name" && (shown["apps"] as? [Any])?.count == 2)
    }

    @Test("a project and an app take all settings, and give them up", arguments: StoreKind.allCases)
    func settings(_ kind: StoreKind) throws {
        let client = try OwlClient(kind)
        _ = try client.ingest([OwlClient.event("ada", more: #","supported_languages":["de"]"#)])
        let project = "/v1/projects/\(try client.project())"
        let apps = try client.agent("/v1/apps")["apps"] as? [[String: Any]]
        let app = "/v1/apps/\(apps?.first?["id"] as? String ?? "none")"
        let noted = client.server.store.counts.lastSequence
        for (path, body, fault) in [
            (project, "{}", "At least one field to update is required"),
            (project, #"{"apple_app_store_id":"1"}"#, "At least one field to update is required"),
            (app, ##"{"color":"#12ab9f"}"##, "At least one field to update is required"),
            (project, #"{"name":" "}"#, "name must have 1 to 255 characters"),
            (project, #"{"name":7}"#, "name must be a string"),
            (project, #"{"color":"red"}"#, "color must be a color as #12ab9f"),
            (project, #"{"name":"N","attachment_user_quota_bytes":0}"#, nil),
            (project, #"{"attachment_project_quota_bytes":"9"}"#, nil),
            (project, #"{"retention_days_events":2}"#, "retention_days_events must be an integer from 3 to 36500"),
            (project, #"{"retention_days_funnels":"9"}"#, nil), (project, #"{"retention_days_metrics":36501}"#, nil),
            (project, #"{"issue_alert_frequency":"daily"}"#, "issue_alert_frequency is a setting of the server"),
            (project, #"{"slug":"s"}"#, "slug is immutable after creation"),
            (app, #"{"bundle_id":"com.example.x"}"#, "bundle_id is immutable after creation"),
            (app, #"{"apple_app_store_id":"a1"}"#, "apple_app_store_id must be digits"),
            (app, #"{"supported_languages":["de",7]}"#, nil), (app, #"{"supported_languages":"de"}"#, nil),
        ] as [(String, String, String?)] {
            let answer = try call(client, "PATCH", path, body)
            if let fault { check(answer, 400, fault) }
            #expect(answer.status == 400, "\(body): \(answer)")
        }
        #expect(client.server.store.counts.lastSequence == noted, "a refused call keeps nothing")
        func shown(_ path: String) throws -> [String: Any] { try client.agent(path) }
        func reserve(_ bytes: Int) throws -> Wire.Answer {
            try client.call(
                "POST", "/v1/ingest/attachment",
                #"""
                {"client_event_id":"\#(UUID())","user_id":"ada","original_filename":"f","content_type":"text/plain",\#
                "size_bytes":\#(bytes),"sha256":"\#(String(repeating: "a", count: 64))"}
                """#)
        }
        let changed = try OwlClient.json(
            try call(
                client, "PATCH", project,
                ##"""
                {"name":"New","color":"#12ab9f","attachment_user_quota_bytes":10,"attachment_project_quota_bytes":15}
                """##))
        for answer in [changed, try shown(project)] {
            #expect(answer["name"] as? String == "New" && answer["color"] as? String == "#12ab9f")
            #expect(answer["attachment_user_quota_bytes"] as? Int == 10)
            #expect(answer["effective_attachment_project_quota_bytes"] as? Int == 15)
        }
        let listed = try client.agent("/v1/projects")["projects"] as? [[String: Any]]
        #expect(listed?.first?["color"] as? String == "#12ab9f")
        #expect(try reserve(11).body.contains("user_quota_exhausted") && reserve(8).status == 201)
        #expect(try shown("\(project)/attachment-usage")["user_quota_bytes"] as? Int == 10)
        let edited = try OwlClient.json(
            try call(client, "PATCH", app, #"{"apple_app_store_id":12345,"supported_languages":["fr","en"]}"#))
        for answer in [edited, try shown(app)] {
            #expect(answer["apple_app_store_id"] as? String == "12345")
            #expect(answer["supported_languages"] as? [String] == ["fr", "en"])
            #expect(answer["supported_languages_source"] as? String == "manual")
            #expect(answer["name"] as? String == apps?.first?["name"] as? String)
        }
        #expect(try shown("\(project)/users/locales")["supported_languages"] as? [String] == ["en", "fr"])
        _ = try call(client, "PATCH", app, #"{"apple_app_store_id":null,"supported_languages":null}"#)
        _ = try call(client, "PATCH", project, #"{"color":null,"attachment_user_quota_bytes":null}"#)
        let last = try (shown(app), shown(project))
        #expect(last.0["apple_app_store_id"] is NSNull && last.0["supported_languages"] as? [String] == ["de"])
        #expect(last.0["supported_languages_source"] as? String == "computed")
        #expect(last.1["color"] is NSNull && last.1["attachment_user_quota_bytes"] is NSNull)
        #expect(last.1["attachment_project_quota_bytes"] as? Int == 15 && last.1["name"] as? String == "New")
    }

    @Test("new names are kept", arguments: [StoreKind.sqlite, .postgres])
    func renamed(_ kind: StoreKind) throws {
        let folder = TemporaryFolder()
        let server = try TestServer(kind, in: folder)
        let client = OwlClient(server)
        let project = try client.project()
        #expect(try call(client, "PATCH", "/v1/projects/\(project)", #"{"name":"New"}"#).status == 200)
        let app = try client.agent("/v1/apps")["apps"] as? [[String: Any]]
        let id = app?.first?["id"] as? String ?? ""
        #expect(try call(client, "PATCH", "/v1/apps/\(id)", #"{"name":"Shop"}"#).status == 200)
        let again = OwlClient(try TestServer(restarting: server))
        let shown = try again.agent("/v1/projects/\(project)")
        #expect(shown["name"] as? String == "New")
        #expect((shown["apps"] as? [[String: Any]])?.first?["name"] as? String == "Shop")
    }

    // MARK: - Users

    /// A server with five users, who were seen a minute apart.
    private func users(_ kind: StoreKind, _ clock: ManualClock) throws -> OwlClient {
        let client = OwlClient(try TestServer(kind) { $0.clock = { clock.now } })
        for (user, more) in [
            ("ada", #""locale":"de_DE","preferred_language":"de-DE""#), ("owl_anon_1", #""locale":"en_US""#),
            ("bob", #""locale":"de_DE","preferred_language":"de-DE","supported_languages":["de"]"#),
            ("Eve", #""is_dev":true"#), ("dan", #""locale":"fr""#),
        ] {
            let fields = [
                ("Authorization", "Bearer \(client.clientKey)"), ("CF-IPCountry", user == "dan" ? "FR" : "DE"),
            ]
            let event = OwlClient.event(user, more: ",\(more)")
            _ = try client.http.call(
                "POST", "/v1/ingest", fields: fields,
                json: #"{"bundle_id":"com.example.demo","events":[\#(event)]}"#)
            clock.advance(milliseconds: 60_000)
        }
        _ = try client.ingest([OwlClient.event("ada")])
        _ = try client.properties("bob", #"{"rc_subscriber":"true"}"#)
        _ = try client.properties("dan", #"{"rc_subscriber":"true","rc_period_type":"trial"}"#)
        return client
    }

    private func ids(_ client: OwlClient, _ query: String, path: String = "/v1/app-users") throws -> [String] {
        (try client.agent("\(path)?\(query)")["users"] as? [[String: Any]] ?? []).compactMap {
            $0["user_id"] as? String
        }
    }

    @Test("users are found by each filter, and sorted", arguments: StoreKind.allCases)
    func filters(_ kind: StoreKind) throws {
        let clock = ManualClock(1_750_000_000_000)
        let client = try users(kind, clock)
        for (query, expected) in [
            ("", ["ada", "dan", "bob", "owl_anon_1"]), ("sort=first_seen", ["dan", "bob", "owl_anon_1", "ada"]),
            ("data_mode=all", ["ada", "dan", "Eve", "bob", "owl_anon_1"]), ("data_mode=development", ["Eve"]),
            ("search=A", ["ada", "dan", "owl_anon_1"]), ("search=eve&data_mode=all", ["Eve"]), ("search=zz", []),
            ("is_anonymous=true", ["owl_anon_1"]), ("is_anonymous=false", ["ada", "dan", "bob"]),
            ("billing_status=paid", ["bob"]), ("billing_status=trial", ["dan"]),
            ("billing_status=free", ["ada", "owl_anon_1"]), ("billing_status=paid,%20trial", ["dan", "bob"]),
            ("billing_status=x,paid", ["bob"]), ("billing_status=x", ["ada", "dan", "bob", "owl_anon_1"]),
            ("billing_status=paid,free,trial", ["ada", "dan", "bob", "owl_anon_1"]),
            ("team_id=x", []), ("project_id=x", []), ("app_id=x", []), ("since=90s", ["ada", "dan"]),
            ("until=90s", ["bob", "owl_anon_1"]), ("cursor=none", ["ada", "dan", "bob", "owl_anon_1"]),
            ("cursor=2025-06-15T15:10:40.000Z", ["bob", "owl_anon_1"]),
        ] {
            #expect(try ids(client, query) == expected, "\(query)")
        }
        let app = (try client.agent("/v1/apps")["apps"] as? [[String: Any]])?.first?["id"] as? String ?? ""
        #expect(try ids(client, "app_id=\(app)&project_id=x").count == 4)
        #expect(try ids(client, "", path: "/v1/apps/\(app)/users").count == 4)
        check(try call(client, "GET", "/v1/apps/x/users"), 404, "App not found")
        for (sort, limit) in [("last_seen", 1), ("last_seen", 2), ("first_seen", 3), ("last_seen", 4)] {
            var (query, found, pages): (String, [String], Int) = ("sort=\(sort)&limit=\(limit)", [], 0)
            while pages < 9 {
                let page = try client.agent("/v1/app-users?\(query)")
                found += (page["users"] as? [[String: Any]] ?? []).compactMap { $0["user_id"] as? String }
                pages += 1
                guard page["has_more"] as? Bool == true, let cursor = page["cursor"] as? String else { break }
                query = "sort=\(sort)&limit=\(limit)&cursor=\(cursor)"
            }
            #expect(try found == ids(client, "sort=\(sort)") && pages == (4 + limit - 1) / limit, "\(sort) \(limit)")
        }
    }

    @Test(
        "the list by last sighting has every user once, whatever calls saw them", arguments: StoreKind.allCases,
        Soak.seeds(2))
    func seen(_ kind: StoreKind, _ seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed &* 4409)
        let clock = ManualClock(1_750_000_000_000)
        let client = OwlClient(try TestServer(kind) { $0.clock = { clock.now } })
        func user() -> String {
            generator.oneIn(2)
                ? "u\(Int.random(in: 0..<20, using: &generator))"
                : "owl_anon_\(Int.random(in: 0..<20, using: &generator))"
        }
        var ahead: Int64 = 0
        for _ in 0..<120 {
            clock.advance(milliseconds: Int64.random(in: 0..<90_000, using: &generator))
            if generator.oneIn(20) {
                // The clock is wrong for a while.
                ahead = ahead == 0 ? 41 * 86_400_000 : -ahead
                clock.advance(milliseconds: ahead)
                if ahead < 0 { ahead = 0 }
            }
            switch Int.random(in: 0..<5, using: &generator) {
            case 0: _ = try client.properties(user(), #"{"plan":"x"}"#)
            case 1:
                let claimed = "owl_anon_\(Int.random(in: 0..<20, using: &generator))"
                _ = try client.claim(claimed, "u\(Int.random(in: 0..<20, using: &generator))")
            default:
                _ = try client.ingest(
                    (0..<Int.random(in: 1...3, using: &generator)).map { _ in OwlClient.event(user()) })
            }
        }
        // The list by first sighting searches all users, and no journal.
        func all(_ query: String) throws -> [(id: String, seen: String)] {
            let page = try client.agent("/v1/app-users?\(query)")
            return (page["users"] as? [[String: Any]] ?? []).map {
                ("\($0["id"] ?? "") \($0["user_id"] ?? "")", $0["last_seen_at"] as? String ?? "")
            }
        }
        for filter in ["data_mode=all", "data_mode=all&is_anonymous=true", "data_mode=all&search=1"] {
            let expected = try all("\(filter)&sort=first_seen&limit=200")
            #expect(!expected.isEmpty)
            for limit in [1, 7, 200] {
                var (found, query): ([(id: String, seen: String)], String) = ([], "\(filter)&limit=\(limit)")
                while found.count <= expected.count {
                    let page = try client.agent("/v1/app-users?\(query)")
                    found += try all(query)
                    guard page["has_more"] as? Bool == true, let cursor = page["cursor"] as? String else { break }
                    query = "\(filter)&limit=\(limit)&cursor=\(cursor)"
                }
                #expect(found.map(\.id).sorted() == expected.map(\.id).sorted(), "seed \(seed), \(filter), \(limit)")
                #expect(found.map(\.seen) == expected.map(\.seen).sorted(by: >), "seed \(seed), \(filter), \(limit)")
            }
        }
    }

    /// The user ids of the list, from pages with one user.
    private func pages(_ client: OwlClient, _ filter: String) throws -> [String] {
        var (query, found): (String, [String]) = ("\(filter)&limit=1", [])
        for _ in 0..<9 {
            let page = try client.agent("/v1/app-users?\(query)")
            found += (page["users"] as? [[String: Any]] ?? []).compactMap { $0["user_id"] as? String }
            guard page["has_more"] as? Bool == true, let cursor = page["cursor"] as? String else { break }
            query = "\(filter)&limit=1&cursor=\(cursor)"
        }
        return found
    }

    @Test("a person with several ids is one user, with the known id", arguments: StoreKind.allCases)
    func severalIDs(_ kind: StoreKind) throws {
        let clock = ManualClock(1_750_000_000_000)
        let client = OwlClient(try TestServer(kind) { $0.clock = { clock.now } })
        _ = try client.ingest([OwlClient.event("bob")])
        clock.advance(milliseconds: 60_000)
        _ = try client.ingest([OwlClient.event("owl_anon_1")])
        let further = [("claim_user_id", "ada"), ("claim_user_id", "eve"), ("claim_anonymous_id", "owl_anon_2")]
        for (type, value) in further {
            let attached = try client.call(
                "POST", "/onym/v1/people/claim_anonymous_id:owl_anon_1/identities",
                #"{"type":"\#(type)","value":"\#(value)"}"#, key: client.server.credentials.adminKey)
            #expect(attached.status == 200, "\(attached)")
        }
        let shown = try client.agent("/v1/events")["events"] as? [[String: Any]]
        #expect(shown?.map { $0["user_id"] as? String } == ["ada", "bob"])
        for sort in ["last_seen", "first_seen"] {
            #expect(try ids(client, "sort=\(sort)") == ["ada", "bob"], "\(sort)")
            #expect(try pages(client, "sort=\(sort)") == ["ada", "bob"], "\(sort)")
            #expect(try ids(client, "sort=\(sort)&is_anonymous=true").isEmpty, "\(sort)")
        }
        #expect(try client.agent("/v1/users/locales")["total_users"] as? Int == 2)
        let user = (try client.agent("/v1/app-users?limit=1")["users"] as? [[String: Any]])?.first?["id"] as? String
        #expect(try client.agent("/v1/app-users/\(user ?? "none")")["user_id"] as? String == "ada")
    }

    @Test("two users with the id of one anonymous person are both on the pages", arguments: StoreKind.allCases)
    func sameID(_ kind: StoreKind) throws {
        let client = try OwlClient(kind)
        _ = try client.ingest([OwlClient.event("owl_anon_1")])
        #expect(try client.claim("owl_anon_1", "ada").status == 200)
        try client.undoClaim("ada")
        #expect(try client.claim("owl_anon_1", "bob").status == 200)
        let people = try ["ada", "bob"].map { try #require(try client.person($0)["id"] as? String) }
        let merged = try client.call(
            "POST", "/onym/v1/merges", #"{"from":"\#(people[0])","into":"\#(people[1])"}"#,
            key: client.server.credentials.adminKey)
        #expect(merged.status == 200 || merged.status == 201, "\(merged)")
        for sort in ["last_seen", "first_seen"] {
            #expect(try pages(client, "sort=\(sort)").sorted() == ["ada", "bob"], "\(sort)")
        }
    }

    @Test("a user that was last seen before very many others is found by a search of all users")
    func seenLongAgo() throws {
        // The store in memory searches its whole journal for each user.
        guard StoreKind.allCases.contains(.sqlite) else { return }
        let clock = ManualClock(1_750_000_000_000)
        let client = OwlClient(try TestServer(.sqlite) { $0.clock = { clock.now } })
        _ = try client.ingest([OwlClient.event("first")])
        clock.advance(milliseconds: 600_000)
        for batch in 0..<41 { _ = try client.ingest((0..<100).map { OwlClient.event("u-\(batch)-\($0)") }) }
        #expect(try ids(client, "search=first") == ["first"])
        #expect(try ids(client, "until=5m&limit=1") == ["first"])
        #expect(try ids(client, "search=u-40-99") == ["u-40-99"])
    }

    @Test("the list by last sighting has imported users, which were seen long before the import")
    func imported() throws {
        let clock = ManualClock(1_750_000_000_000)
        let client = OwlClient(try TestServer(.sqlite) { $0.clock = { clock.now } })
        func post(_ path: String, _ body: String) throws -> Wire.Answer {
            try client.call("POST", path, body, key: client.server.credentials.adminKey)
        }
        let id = try OwlClient.json(try post("/onym/v1/imports", "{}"))["id"] as? String ?? ""
        let users = (10..<25).map { "user-\($0)" }
        let lines = users.enumerated().map { place, user in
            #"{"kind":"link","key":"shop:\#(user)","type":"claim_user_id","value":"\#(user)","#
                + #""since":"2024-03-\#(String(place + 10))T00:00:00Z"}"#
        }
        let taken = try post("/onym/v1/imports/\(id)/batches?position=0", lines.joined(separator: "\n") + "\n")
        #expect(taken.status == 200, "\(taken)")
        #expect(try ids(client, "data_mode=all&limit=50").count == users.count)
        #expect(try ids(client, "data_mode=all&limit=50&until=2024-03-31T00:00:00Z").count == users.count)
        #expect(
            try ids(client, "data_mode=all&limit=50&until=2024-03-12T12:00:00Z") == ["user-12", "user-11", "user-10"])
    }

    @Test(
        "one user is shown, also by the id from before a claim, and locales are counted", arguments: StoreKind.allCases)
    func one(_ kind: StoreKind) throws {
        let client = try users(kind, ManualClock(1_750_000_000_000))
        let all = try client.agent("/v1/app-users?data_mode=all")["users"] as? [[String: Any]] ?? []
        for user in all {
            let shown = try client.agent("/v1/app-users/\(user["id"] as? String ?? "")")
            #expect(shown["user_id"] as? String == user["user_id"] as? String)
        }
        let anonymous = all.first { $0["is_anonymous"] as? Bool == true }?["id"] as? String ?? ""
        _ = try client.claim("owl_anon_1", "new")
        let claimed = try client.agent("/v1/app-users/\(anonymous)")
        #expect(claimed["user_id"] as? String == "new" && claimed["claimed_from"] as? [String] == ["owl_anon_1"])
        check(try call(client, "GET", "/v1/app-users/x"), 404, "User not found")
        check(try call(client, "GET", "/v1/app-users/6f6e796d-0004-8000-8000-000000000001"), 404, "User not found")
        let team = try call(client, "GET", "/v1/users/locales")
        #expect(
            team.body == #"{"by_locale":[{"locale":"de-DE","base_language":"de","user_count":2,"shipped":null},"#
                + #"{"locale":"en_US","base_language":"en","user_count":1,"shipped":null},"#
                + #"{"locale":"fr","base_language":"fr","user_count":1,"shipped":null}],"#
                + #""by_country":[{"country_code":"DE","user_count":3},{"country_code":"FR","user_count":1}],"#
                + #""supported_languages":null,"users_with_preferred_language":2,"total_users":4}"#, "\(team)")
        let own = try call(client, "GET", "/v1/projects/\(try client.project())/users/locales")
        #expect(own.body.contains(#""base_language":"de","user_count":2,"shipped":true"#), "\(own)")
        #expect(own.body.contains(#""base_language":"fr","user_count":1,"shipped":false"#))
        #expect(own.body.contains(#""supported_languages":["de"]"#))
        check(try call(client, "GET", "/v1/projects/x/users/locales"), 404, "Project not found")
    }
}
