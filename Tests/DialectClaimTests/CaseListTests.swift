import Domain
import Foundation
import TestKit
import Testing

/// Cases of the vendor's own tests (spec/claim.md 4.1) that no other test here has, on every store.
@Suite("The vendor's cases")
struct CaseListTests {
    private func users(_ client: OwlClient) throws -> [[String: Any]] {
        try client.agent("/v1/app-users?data_mode=all")["users"] as? [[String: Any]] ?? []
    }

    @Test("a batch may name the user, an id that was claimed and one that was not", arguments: StoreKind.allCases)
    func mixedBatch(_ kind: StoreKind) throws {
        let client = try OwlClient(kind)
        for (anonymous, user) in [("owl_anon_1", "ada"), ("owl_anon_2", "ada"), ("owl_anon_3", "bob")] {
            #expect(try client.claim(anonymous, user).status == 200)
        }
        let names = ["ada", "owl_anon_1", "owl_anon_2", "owl_anon_3", "owl_anon_4"]
        let sent = try client.ingest(
            names.map { OwlClient.event($0, "of \($0)") } + [OwlClient.event(nil, "of nobody")])
        #expect(sent.body == #"{"accepted":6,"rejected":0}"#)
        #expect(try client.messages("ada") == ["of owl_anon_2", "of owl_anon_1", "of ada"])
        #expect(try client.messages("bob") == ["of owl_anon_3"] && client.messages("owl_anon_4") == ["of owl_anon_4"])
        let known = try users(client).map { $0["user_id"] as? String ?? "" }
        #expect(known.sorted() == ["ada", "bob", "owl_anon_4"])
    }

    @Test("metrics, steps and occurrences move, those that come late as well", arguments: StoreKind.allCases)
    func derived(_ kind: StoreKind) throws {
        let client = try OwlClient(kind)
        func send(_ name: String) throws {
            let error = OwlClient.event("owl_anon_1", "\(name) broke").replacing("info", with: "error")
            _ = try client.ingest([
                OwlClient.event("owl_anon_1", "metric:\(name):record"), OwlClient.event("owl_anon_1", "step:\(name)"),
                error.replacing(OwlClient.session, with: UUID().uuidString),
            ])
        }
        try send("early")
        #expect(try client.claim("owl_anon_1", "ada").body == #"{"claimed":true,"events_reassigned_count":3}"#)
        try send("late")
        #expect(try client.messages("ada", kinds: "metric") == ["late", "early"])
        #expect(try client.messages("ada", kinds: "step") == ["late", "early"])
        #expect((try client.person("ada")["counts"] as? [String: Int])?["occurrence"] == 2)
        try client.undoClaim("ada")
        #expect(try client.messages("ada", kinds: "metric").isEmpty)
        #expect(try client.messages("owl_anon_1", kinds: "step") == ["late", "early"])
    }

    @Test("a claim through one app holds for events of another app of the project", arguments: StoreKind.allCases)
    func otherApp(_ kind: StoreKind) throws {
        let other = AppID(rawValue: 50)
        let app = App(
            id: other, project: ProjectID(rawValue: 1), dialect: .claim, name: "Other", platform: .android,
            bundleID: "com.example.other", publicID: nil, secretHash: nil,
            madeAt: Instant(milliseconds: 1_600_000_000_000))
        let text = "owl_client_" + String(repeating: "b", count: 48)
        let key = TestServer.key(text, id: 50, app: other, kind: .claimClient, scopes: [.eventsWrite, .usersWrite])
        let client = OwlClient(try TestServer(kind, more: ([app], [key])))
        _ = try client.ingest([OwlClient.event("owl_anon_1", "first")], bundle: "com.example.other", key: text)
        #expect(try client.claim("owl_anon_1", "ada").body == #"{"claimed":true,"events_reassigned_count":1}"#)
        _ = try client.ingest([OwlClient.event("owl_anon_1", "late")], bundle: "com.example.other", key: text)
        #expect(try client.messages("ada") == ["late", "first"])
        let apps = try users(client).first?["apps"] as? [[String: Any]] ?? []
        #expect(apps.map { $0["app_name"] as? String } == ["Other"])
        _ = try client.ingest([OwlClient.event("ada", "own")])
        #expect((try users(client).first?["apps"] as? [Any])?.count == 2)
        let wrong = try client.ingest([OwlClient.event("ada", "m")], key: text)
        #expect(wrong.status == 403)
    }

    @Test(
        "properties of an id without events are the user's after the claim, and so are later ones",
        arguments: StoreKind.allCases)
    func properties(_ kind: StoreKind) throws {
        let client = try OwlClient(kind)
        _ = try client.properties("owl_anon_1", #"{"early":"1"}"#)
        #expect(try client.claim("owl_anon_1", "ada").body == #"{"claimed":true,"events_reassigned_count":0}"#)
        _ = try client.properties("owl_anon_1", #"{"late":"2"}"#)
        let all = try users(client)
        #expect(all.map { $0["user_id"] as? String } == ["ada"] && all.first?["is_anonymous"] as? Bool == false)
        #expect(all.first?["properties"] as? [String: String] == ["early": "1", "late": "2"])
        #expect(all.first?["claimed_from"] as? [String] == ["owl_anon_1"])
    }

    @Test("keys are told apart: expired, without an app, without a permission", arguments: StoreKind.allCases)
    func keys(_ kind: StoreKind) throws {
        let app = AppID(rawValue: 2)
        func text(_ letter: String, _ kind: String = "client") -> String {
            "owl_\(kind)_" + String(repeating: letter, count: 48)
        }
        let clock = ManualClock()
        let both: ScopeSet = [.eventsWrite, .usersWrite]
        let keys = [
            TestServer.key(
                text("c"), id: 51, app: app, kind: .claimClient, scopes: both,
                expiresAt: clock.now.advanced(byMilliseconds: 1000)),
            TestServer.key(text("d"), id: 52, app: nil, kind: .claimClient, scopes: both),
            TestServer.key(text("e"), id: 53, app: AppID(rawValue: 99), kind: .claimClient, scopes: both),
            TestServer.key(text("f"), id: 54, app: app, kind: .claimClient, scopes: [.usersWrite]),
            TestServer.key(text("a", "import"), id: 55, app: app, kind: .claimImport, scopes: [.eventsWrite]),
        ]
        let client = OwlClient(try TestServer(kind, more: ([], keys)) { $0.clock = { clock.now } })
        func claim(_ key: String) throws -> String {
            let answer = try client.call(
                "POST", "/v1/identity/claim", #"{"anonymous_id":"owl_anon_1","user_id":"ada"}"#, key: key)
            return "\(answer.status) \(answer.body)"
        }
        #expect(try claim(text("c")) == #"200 {"claimed":true,"events_reassigned_count":0}"#)
        clock.advance(milliseconds: 1000)
        #expect(try claim(text("c")) == #"401 {"error":"API key expired"}"#)
        #expect(try claim(text("d")) == #"400 {"error":"Client key must be scoped to an app"}"#)
        #expect(try claim(text("e")) == #"400 {"error":"App not found"}"#)
        #expect(try claim(text("f")) == #"403 {"error":"Missing permission: events:write"}"#)
        #expect(try claim(text("0")) == #"401 {"error":"Invalid API key"}"#)
        #expect(try claim("eyJ") == #"401 {"error":"Invalid or expired token"}"#)
        let events = [OwlClient.event("ada", "m")]
        #expect(try client.ingest(events, key: text("d")).body == #"{"error":"API key must be scoped to an app"}"#)
        #expect(
            try client.ingest(events, key: text("e")).body
                == #"{"error":"App associated with this API key no longer exists"}"#)
        let properties = try client.call(
            "POST", "/v1/identity/properties", #"{"user_id":"ada","properties":{}}"#, key: text("a", "import"))
        #expect(properties.body == #"{"error":"Missing permission: users:write"}"#)
    }

    @Test(
        "a person whom an administrator made one with a known user is nobody else's to claim",
        arguments: StoreKind.allCases)
    func mergedByAdministrator(_ kind: StoreKind) throws {
        let client = try OwlClient(kind)
        _ = try client.ingest([OwlClient.event("owl_anon_1", "a"), OwlClient.event("bob", "b")])
        let ids = try ["owl_anon_1", "bob"].map { try #require(try client.person($0)["id"] as? String) }
        let merged = try client.call(
            "POST", "/onym/v1/merges", #"{"from":"\#(ids[0])","into":"\#(ids[1])"}"#,
            key: client.server.credentials.adminKey)
        #expect(merged.status < 300, "\(merged)")
        #expect(try client.claim("owl_anon_1", "ada").status == 409)
    }
}
