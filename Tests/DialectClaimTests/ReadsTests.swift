import Foundation
import TestKit
import Testing

/// Reading events and users (spec/claim.md 1.7), on every store.
@Suite("Reads of the Claim dialect")
struct ReadsTests {
    private func read(_ client: OwlClient, _ path: String) throws -> [String: Any] {
        let answer = try client.call("GET", path, key: client.server.credentials.claimAgentKey)
        #expect(answer.status == 200, "\(path): \(answer)")
        return try JSONSerialization.jsonObject(with: Data(answer.body.utf8)) as? [String: Any] ?? [:]
    }

    private func messages(_ client: OwlClient, _ query: String) throws -> [String] {
        (try read(client, "/v1/events?data_mode=all&\(query)")["events"] as? [[String: Any]] ?? []).compactMap {
            $0["message"] as? String
        }
    }

    /// An upload whose events happened some minutes ago.
    private func send(
        _ client: OwlClient, _ user: String, _ events: [(message: String, minutes: Int)], more: String = ""
    ) throws {
        let events = events.map { event in
            let at = Date(timeIntervalSinceNow: Double(-event.minutes) * 60).formatted(.iso8601)
            return OwlClient.event(user, event.message, more: #","timestamp":"\#(at)"\#(more)"#)
        }
        let answer = try client.ingest(events)
        #expect(answer.body.contains(#""rejected":0"#), "\(answer.body)")
    }

    /// A server whose clock is right, so that what happened a minute ago did.
    private func client(_ kind: StoreKind) throws -> OwlClient { OwlClient(try TestServer(kind)) }

    @Test("events are listed by when they happened, page by page", arguments: StoreKind.allCases)
    func events(_ kind: StoreKind) throws {
        let client = try client(kind)
        try send(client, "ada", [("b", 20), ("d", 5)])
        try send(client, "owl_anon_1", [("a", 30), ("c", 10)])
        #expect(try messages(client, "") == ["d", "c", "b", "a"])
        #expect(try messages(client, "order=asc") == ["a", "b", "c", "d"])
        #expect(try messages(client, "since=15m") == ["d", "c"])
        #expect(try messages(client, "user_id=ada") == ["d", "b"])
        #expect(try messages(client, "level=error,info&session_id=\(OwlClient.session)").count == 4)
        #expect(try messages(client, "level=error").isEmpty)
        #expect(try messages(client, "user_id=nobody").isEmpty)
        for order in ["asc", "desc"] {
            var (query, all): (String, [String]) = ("limit=1&order=\(order)", [])
            for _ in 0..<10 {
                let page = try read(client, "/v1/events?data_mode=all&\(query)")
                all += (page["events"] as? [[String: Any]] ?? []).compactMap { $0["message"] as? String }
                guard page["has_more"] as? Bool == true, let cursor = page["cursor"] as? String else { break }
                query = "limit=1&order=\(order)&cursor=\(cursor)"
            }
            #expect(all == (order == "asc" ? ["a", "b", "c", "d"] : ["d", "c", "b", "a"]))
        }
        #expect(try messages(client, "cursor=garbage").count == 4, "a cursor that is none is passed over")
        #expect(try read(client, "/v1/events/count?data_mode=all&user_id=ada")["count"] as? Int == 2)
    }

    @Test("what is rare is found among many, in as many readings as that takes", arguments: StoreKind.allCases)
    func rare(_ kind: StoreKind) throws {
        let client = try client(kind)
        try send(client, "ada", [("first", 120), ("second", 110)])
        let many = (0..<100).map { ("of many", 20 + $0 % 40) }
        for upload in 0..<102 {
            try send(client, upload.isMultiple(of: 2) ? "bob" : "eve", many, more: #","screen_name":"s""#)
        }
        #expect(try read(client, "/v1/events/count?data_mode=all")["count"] as? Int == 10_202)
        #expect(try read(client, "/v1/events/count?data_mode=all&user_id=bob")["count"] as? Int == 5100)
        #expect(try read(client, "/v1/events/count?data_mode=all&screen_name=s")["count"] as? Int == 10_200)
        #expect(try messages(client, "limit=200&since=3h&until=100m") == ["second", "first"])
        // Of one with few events these alone are looked at.
        #expect(try messages(client, "user_id=ada") == ["second", "first"])
        #expect(try messages(client, "user_id=ada&order=asc") == ["first", "second"])
        #expect(try messages(client, "user_id=ada&until=115m") == ["first"])
        let page = try read(client, "/v1/events?data_mode=all&user_id=ada&limit=1")
        let cursor = try #require(page["cursor"] as? String)
        #expect(page["has_more"] as? Bool == true)
        #expect(try messages(client, "user_id=ada&limit=1&cursor=\(cursor)") == ["first"])
        let last = try read(client, "/v1/events?data_mode=all&user_id=ada&limit=1&cursor=\(cursor)")
        #expect(last["has_more"] as? Bool == false && last["cursor"] is NSNull)
    }

    @Test("a claimed id is not seen any more: its events are the user's", arguments: StoreKind.allCases)
    func claimed(_ kind: StoreKind) throws {
        let client = try client(kind)
        try send(client, "owl_anon_1", [("a", 30)])
        _ = try client.claim("owl_anon_1", "ada")
        let events = try read(client, "/v1/events?data_mode=all")["events"] as? [[String: Any]]
        #expect(events?.map { $0["user_id"] as? String } == ["ada"])
        #expect(try messages(client, "user_id=ada") == ["a"])
        let event = try #require(events?.first)
        for column in ["screen_name", "custom_attributes", "os_version", "country_code"] {
            #expect(event[column] is NSNull, "\(column)")
        }
        #expect((event["id"] as? String)?.count == 36 && (event["app_id"] as? String)?.count == 36)
    }

    @Test("users are listed with what they claimed", arguments: StoreKind.allCases)
    func users(_ kind: StoreKind) throws {
        let client = try client(kind)
        try send(client, "owl_anon_1", [("a", 30)], more: #","app_version":"1.0","locale":"de_DE""#)
        try send(client, "owl_anon_2", [("b", 3)])
        func users(_ query: String = "") throws -> [[String: Any]] {
            try read(client, "/v1/app-users?data_mode=all&\(query)")["users"] as? [[String: Any]] ?? []
        }
        let anonymous = try users().last
        #expect(anonymous?["user_id"] as? String == "owl_anon_1" && anonymous?["is_anonymous"] as? Bool == true)
        _ = try client.properties("owl_anon_1", #"{"plan":"free"}"#)
        _ = try client.claim("owl_anon_1", "ada")
        #expect(try users().compactMap { $0["user_id"] as? String } == ["ada", "owl_anon_2"])
        let ada = try #require(try users("search=AD").first)
        #expect(ada["claimed_from"] as? [String] == ["owl_anon_1"] && ada["is_anonymous"] as? Bool == false)
        #expect(ada["id"] as? String == anonymous?["id"] as? String, "renamed in place")
        #expect(ada["last_app_version"] as? String == "1.0" && ada["last_locale"] as? String == "de_DE")
        #expect(ada["properties"] as? [String: String] == ["plan": "free"])
        #expect((ada["apps"] as? [[String: Any]])?.count == 1)
        #expect(ada["first_seen_at"] as? String == anonymous?["first_seen_at"] as? String)
        #expect(try users("is_anonymous=true").count == 1)
        // Page by page.
        let page = try read(client, "/v1/app-users?data_mode=all&limit=1")
        let cursor = try #require(page["cursor"] as? String)
        #expect(try users("limit=1&cursor=\(cursor)").first?["user_id"] as? String == "owl_anon_2")
    }

    @Test("projects, apps and keys are listed, and no key's secret", arguments: StoreKind.allCases)
    func lists(_ kind: StoreKind) throws {
        let client = try client(kind)
        let projects = try read(client, "/v1/projects")["projects"] as? [[String: Any]]
        #expect(projects?.count == 1)
        let keyCount = (try read(client, "/v1/auth/keys")["api_keys"] as? [Any])?.count
        for (team, isOwn) in [("6f6e796d-0006-8000-8000-000000000001", true), ("x", false)] {
            let found = try read(client, "/v1/projects?team_id=\(team)")["projects"] as? [Any]
            #expect(found?.count == (isOwn ? 1 : 0), "\(team)")
            let keys = try read(client, "/v1/auth/keys?team_id=\(team)")["api_keys"] as? [Any]
            #expect(keys?.count == (isOwn ? keyCount : 0) && keyCount == 3, "\(team)")
        }
        let project = try read(client, "/v1/projects/\(projects?.first?["id"] as? String ?? "none")")
        #expect(project["name"] as? String == "Test" && (project["apps"] as? [Any])?.count == 1)
        let agent = client.server.credentials.claimAgentKey
        #expect(try client.call("GET", "/v1/projects/x", key: agent).body == #"{"error":"Project not found"}"#)
        let apps = try read(client, "/v1/apps")["apps"] as? [[String: Any]]
        let app = try #require(apps?.first?["id"] as? String)
        #expect(apps?.first?["bundle_id"] as? String == "com.example.demo")
        try send(client, "ada", [("a", 1)])
        #expect((try read(client, "/v1/apps/\(app)/users?data_mode=all")["users"] as? [Any])?.count == 1)
        let keys = try client.call("GET", "/v1/auth/keys", key: client.server.credentials.claimAgentKey)
        #expect(keys.status == 200 && !keys.body.contains(client.clientKey))
        let unknown = try client.call("GET", "/v1/apps/x/users", key: client.server.credentials.claimAgentKey)
        #expect(unknown.status == 404)
        #expect(try client.call("GET", "/v1/events").body == #"{"error":"Missing permission: events:read"}"#)
    }
}
