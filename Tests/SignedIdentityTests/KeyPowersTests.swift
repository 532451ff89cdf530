import ByteText
import Crypto
import Foundation
import Program
import StoreSQLite
import TestKit
import Testing

/// What docs/threat-model.md says of each kind of key: what it can, and what it cannot do.
@Suite("The powers of keys")
struct KeyPowersTests {
    private static let stores: [StoreKind] = [.memory, .sqlite]

    private static func bearer(_ key: String) -> [(String, String)] { [("Authorization", "Bearer \(key)")] }

    private static func basic(_ credentials: ProjectPlan.Credentials) -> [(String, String)] {
        let pair = "\(credentials.idsyncKey):\(credentials.idsyncSecret)"
        return [("Authorization", "Basic \(Base64.encode(Array(pair.utf8)))")]
    }

    /// The path of the project in the Claim dialect, and the id of its app there.
    private static let project = "/v1/projects/6f6e796d-0001-8000-8000-000000000001"
    private static let app = "6f6e796d-0002-8000-8000-000000000002"

    /// A call that a key cannot make: its method, its path and its body.
    private typealias Attempt = (method: String, path: String, body: String?)

    /// The keys of a project but the administrator's, with the calls that each cannot make in its own dialect.
    private static func keys(_ scene: Scene) -> [(name: String, fields: [(String, String)], cannot: [Attempt])] {
        let credentials = scene.credentials
        let reads: [Attempt] = [
            ("GET", "/v1/events?user_id=ada", nil), ("GET", "/v1/feedback", nil), ("GET", "/v1/attachments", nil),
            ("GET", "/v1/apps", nil),
        ]
        let event = #"{"message":"m","level":"info","session_id":"6F9619FF-8B86-D011-B42D-00CF4FC964FF"}"#
        let grant: Attempt = (
            "POST", "/v3/users/QON_ada/entitlements", #"{"id":"pro","expires":1893456000}"#
        )
        return [
            ("idsync_web", [("x-mp-key", credentials.idsyncWebKey)], [("POST", "/v1/identify?explain=true", "{}")]),
            ("idsync", basic(credentials), []),
            ("claim_client", bearer(credentials.claimClientKey), reads + [("POST", "/v1/import", #"{"events":[]}"#)]),
            ("claim_import", bearer(credentials.claimImportKey), reads),
            (
                "claim_agent", bearer(credentials.claimAgentKey),
                [
                    ("POST", "/v1/ingest", #"{"bundle_id":"com.example.demo","events":[\#(event)]}"#),
                    ("POST", "/v1/import", #"{"events":[\#(event)]}"#),
                    ("POST", "/v1/identity/claim", #"{"anonymous_id":"owl_anon_ada","user_id":"mallory"}"#),
                    ("POST", "/v1/identity/properties", #"{"user_id":"ada","properties":{"plan":"x"}}"#),
                    (
                        "POST", "/v1/identity/attribution/apple-search-ads",
                        #"{"user_id":"ada","attribution_token":"t","dev_mock":"attributed"}"#
                    ),
                    ("POST", "/v1/feedback", #"{"bundle_id":"com.example.demo","message":"m"}"#),
                    (
                        "POST", "/v1/questionnaires/nps/responses",
                        #"{"bundle_id":"com.example.demo","user_id":"ada","answers":{"q1":"x"}}"#
                    ),
                    ("POST", "/v1/ingest/attachment", "{}"),
                    ("DELETE", "/v1/apps/\(KeyPowersTests.app)", nil),
                    ("PATCH", KeyPowersTests.project, #"{"retention_days_events":3}"#),
                    ("PATCH", KeyPowersTests.project, #"{"retention_days_metrics":null}"#),
                    ("PATCH", KeyPowersTests.project, #"{"name":"New","retention_days_funnels":3}"#),
                ]
            ),
            ("entitlements_project", bearer("test_\(credentials.entitlementsProjectKey)"), [grant]),
            ("entitlements_secret", bearer("test_\(credentials.entitlementsSecretKey)"), []),
            ("linking", bearer(credentials.linkingKey), []),
            ("onym_client", bearer(credentials.onymClientKey), []),
            ("onym_server", bearer(credentials.onymServerKey), []),
        ]
    }

    /// The calls of administrators: they read people, change people by hand, and administer.
    private static func calls(ofAdministratorsFor person: String) -> [Attempt] {
        [
            ("GET", "/onym/v1/people/\(person)", nil), ("GET", "/onym/v1/people/\(person)/journal", nil),
            ("GET", "/onym/v1/people/\(person)/timeline", nil), ("DELETE", "/onym/v1/people/\(person)", nil),
            ("POST", "/onym/v1/people/\(person)/export", "{}"), ("POST", "/onym/v1/people/\(person)/grants", "{}"),
            ("POST", "/onym/v1/people/\(person)/identities", "{}"), ("POST", "/onym/v1/merges", "{}"),
            ("POST", "/onym/v1/merges/m_1/undo", "{}"), ("POST", "/onym/v1/transfers", "{}"),
            ("POST", "/onym/v1/transfers/1/undo", "{}"), ("POST", "/onym/v1/imports", "{}"),
            ("GET", "/onym/v1/search?q=ada", nil), ("GET", "/onym/v1/changes", nil), ("GET", "/onym/v1/stats", nil),
            ("GET", "/onym/v1/keys", nil), ("POST", "/onym/v1/keys", "{}"), ("DELETE", "/onym/v1/keys/1", nil),
            ("GET", "/onym/v1/signing-keys", nil), ("POST", "/onym/v1/signing-keys", "{}"),
            ("GET", "/onym/v1/strategy", nil), ("PUT", "/onym/v1/strategy", "{}"),
            ("GET", "/onym/v1/webhooks", nil), ("POST", "/onym/v1/webhooks", "{}"),
            ("GET", "/onym/v1/projects", nil), ("POST", "/onym/v1/projects", #"{"name":"Mine"}"#),
            ("POST", "/onym/v1/console/links", "{}"), ("GET", "/metrics", nil),
        ]
    }

    @Test("no key but an administrator's administers, reads people, or changes them by hand", arguments: stores)
    func administers(_ kind: StoreKind) throws {
        let scene = try Scene(kind, mode: nil)
        let before = try scene.ada()
        let calls = KeyPowersTests.calls(ofAdministratorsFor: scene.mpid)
        // Without this, a call that nobody can make would prove nothing.
        for (method, path, body) in calls where method == "GET" && path != "/metrics" {
            let answer = try scene.call(method, path, body, KeyPowersTests.bearer(scene.credentials.adminKey))
            #expect(answer.status == 200, "\(method) \(path): \(answer)")
        }
        for key in KeyPowersTests.keys(scene) {
            for (method, path, body) in calls {
                let answer = try scene.call(method, path, body, key.fields)
                #expect([401, 403].contains(answer.status), "\(key.name): \(method) \(path): \(answer)")
            }
        }
        #expect(try scene.ada() == before)
    }

    @Test("each key makes only the calls of its own kind in its dialect", arguments: stores)
    func kinds(_ kind: StoreKind) throws {
        let scene = try Scene(kind, mode: nil)
        let before = try scene.ada()
        for key in KeyPowersTests.keys(scene) {
            for (method, path, body) in key.cannot {
                let answer = try scene.call(method, path, body, key.fields)
                #expect([401, 403].contains(answer.status), "\(key.name): \(method) \(path): \(answer)")
            }
        }
        #expect(try scene.ada() == before)
    }

    @Test("only an administrator deletes what users sent, or changes how long it stays", arguments: stores)
    func deletes(_ kind: StoreKind) throws {
        let scene = try Scene(kind, mode: nil)
        let credentials = scene.credentials
        let agent = KeyPowersTests.bearer(credentials.claimAgentKey)
        let sent = try scene.claim("POST", "/v1/feedback", #"{"bundle_id":"com.example.demo","message":"m"}"#)
        let reserved = try scene.claim(
            "POST", "/v1/ingest/attachment",
            #"""
            {"client_event_id":"11111111-2222-4333-8444-555555555555","user_id":"ada","original_filename":"a.txt",
            "content_type":"text/plain","size_bytes":1,"sha256":"\#(Hexadecimal.encode(SHA256.digest(of: [65]).bytes))"}
            """#)
        let attachment = reserved.told("attachment_id")
        let stored = try scene.http.call(
            "PUT", "/v1/ingest/attachment/\(attachment)",
            fields: KeyPowersTests.bearer(credentials.claimClientKey) + [("Content-Type", "application/octet-stream")],
            body: [65])
        #expect(stored.status == 200, "\(stored)")
        let survey = try #require(
            try scene.call("GET", "\(KeyPowersTests.project)/questionnaires?data_mode=all", nil, agent)
                .list("questionnaires").first?["id"])
        let responses = "\(KeyPowersTests.project)/questionnaires/\(survey)/responses"
        let response = try #require(
            try scene.call("GET", "\(responses)?data_mode=all", nil, agent).list("responses").first?["id"])
        let calls: [Attempt] = [
            ("DELETE", "\(KeyPowersTests.project)/feedback/\(sent.told("id"))", nil),
            ("DELETE", "/v1/attachments/\(attachment)", nil), ("DELETE", "\(responses)/\(response)", nil),
            ("PATCH", KeyPowersTests.project, #"{"retention_days_events":400}"#),
            ("PATCH", KeyPowersTests.project, #"{"retention_days_metrics":400}"#),
            ("PATCH", KeyPowersTests.project, #"{"retention_days_funnels":400}"#),
            ("DELETE", "/v1/apps/\(KeyPowersTests.app)", nil),
        ]
        let keys = [
            (credentials.claimClientKey, 403), (credentials.claimImportKey, 403), (credentials.claimAgentKey, 403),
            (credentials.adminKey, 200),
        ]
        for (method, path, body) in calls {
            for (key, status) in keys {
                let answer = try scene.call(method, path, body, KeyPowersTests.bearer(key))
                #expect(answer.status == status, "\(key.prefix(12)): \(method) \(path): \(answer)")
            }
        }
    }

    @Test("a questionnaire that an agent has deleted comes back by an undo, with its responses", arguments: stores)
    func deletedQuestionnaire(_ kind: StoreKind) throws {
        let scene = try Scene(kind, mode: nil)
        let agent = KeyPowersTests.bearer(scene.credentials.claimAgentKey)
        func questionnaires() throws -> [[String: Any]] {
            try scene.call("GET", "\(KeyPowersTests.project)/questionnaires?data_mode=all", nil, agent)
                .list("questionnaires")
        }
        let survey = try #require(try questionnaires().first)
        #expect(survey["response_count"] as? Int == 1)
        let path = "\(KeyPowersTests.project)/questionnaires/\(survey["id"] ?? "")"
        let deleted = try scene.call("DELETE", path, nil, agent)
        let call = scene.server.store.counts.lastSequence.rawValue
        #expect(deleted.status == 200, "\(deleted)")
        #expect(try questionnaires().isEmpty)
        let undone = try scene.administer("POST", "/calls/\(call)/undo", "{}")
        #expect(undone.status == 200, "\(undone)")
        #expect(try questionnaires().first?["response_count"] as? Int == 1)
    }

    // MARK: - Keys that an agent gets

    /// Makes an app of a platform in the Claim dialect.
    private func makeApp(_ platform: String, _ scene: Scene, by key: String) throws -> Scene.Answer {
        let bundle = platform == "backend" ? "" : #","bundle_id":"com.example.shop""#
        return try scene.call(
            "POST", "/v1/apps",
            #"{"name":"Shop","platform":"\#(platform)","project_id":"\#(KeyPowersTests.project.suffix(36))"\#(bundle)}"#,
            KeyPowersTests.bearer(key))
    }

    /// Sets a property of Ada with a client key.
    private func changeAda(_ scene: Scene, _ key: String, token: String? = nil) throws -> Scene.Answer {
        try scene.call(
            "POST", "/v1/identity/properties", #"{"user_id":"ada","properties":{"plan":"ada-plan"}}"#, token: token,
            KeyPowersTests.bearer(key))
    }

    @Test(
        "where any dialect requires tokens, an agent makes no key that needs none", arguments: stores,
        [#""require""#, #"{"idsync":"require","claim":"log"}"#])
    func exempt(_ kind: StoreKind, _ mode: String) throws {
        let scene = try Scene(kind, mode: mode)
        let (agent, admin) = (scene.credentials.claimAgentKey, scene.credentials.adminKey)
        func apps() throws -> Int {
            try scene.call("GET", "/v1/apps", nil, KeyPowersTests.bearer(agent)).list("apps").count
        }
        let before = try apps()
        let refused = try makeApp("backend", scene, by: agent)
        #expect(
            refused.status == 403 && refused.text("error")?.contains("administrator") == true
                && refused.text("client_secret") == nil, "\(refused)")
        #expect(try apps() == before)
        // An app that is published gets its key, which needs tokens like any other.
        for platform in ["apple", "android", "web"] {
            let made = try makeApp(platform, scene, by: agent)
            #expect(made.status == 201, "\(made)")
            let key = made.told("client_secret")
            let isRequired = mode == #""require""#
            #expect(try changeAda(scene, key).wantsToken == isRequired)
            let changed = try scene.call(
                "PATCH", "/v1/apps/\(made.told("id"))", #"{"platform":"backend"}"#, KeyPowersTests.bearer(agent))
            #expect(changed.status == 400, "\(changed)")
            #expect(try changeAda(scene, key).wantsToken == isRequired)
            #expect(try changeAda(scene, key, token: scene.token("ada")).status == 200)
        }
        let made = try makeApp("backend", scene, by: admin)
        #expect(made.status == 201, "\(made)")
        #expect(try changeAda(scene, made.told("client_secret")).status == 200)
    }

    @Test("a back end's key from before tokens were required needs none until it is revoked", arguments: stores)
    func exemptBefore(_ kind: StoreKind) throws {
        for mode in [#""off""#, #""log""#] {
            let scene = try Scene(kind, mode: mode)
            let made = try makeApp("backend", scene, by: scene.credentials.claimAgentKey)
            #expect(made.status == 201, "\(made)")
            let key = made.told("client_secret")
            try scene.require(#""require""#)
            #expect(try changeAda(scene, key).status == 200)
            let keys = try scene.administer("GET", "/keys").list("keys")
            let id = try #require(keys.first { $0["name"] as? String == "Shop Client Key" }?["id"], "\(keys)")
            #expect(try scene.administer("DELETE", "/keys/\(id)").status == 200)
            #expect(try changeAda(scene, key).status == 401)
        }
    }

    // MARK: - Keys of other dialects

    @Test("keys of one dialect open no other", arguments: stores)
    func dialects(_ kind: StoreKind) throws {
        let scene = try Scene(kind, mode: nil)
        let calls: [(own: [String], method: String, path: String, body: String?)] = [
            (
                ["idsync", "idsync_web"], "POST", "/v1/identify",
                #"{"environment":"production","known_identities":{"email":"e"}}"#
            ),
            (
                ["claim_client", "claim_import"], "POST", "/v1/identity/properties",
                #"{"user_id":"eve","properties":{}}"#
            ),
            (["claim_agent"], "GET", "/v1/events", nil),
            (["entitlements_project", "entitlements_secret"], "GET", "/v3/identities/ada", nil),
            (["linking"], "POST", "/users/auth-code", #"{"external_id":"eve"}"#),
            (["onym_client", "onym_server"], "POST", "/onym/v1/identify", #"{"ids":{"email":"e"}}"#),
        ]
        for call in calls {
            for key in KeyPowersTests.keys(scene) {
                let answer = try scene.call(call.method, call.path, call.body, key.fields)
                if call.own.contains(key.name) {
                    #expect((200..<300).contains(answer.status), "\(key.name): \(call.path): \(answer)")
                } else {
                    #expect([401, 403].contains(answer.status), "\(key.name): \(call.path): \(answer)")
                }
            }
        }
    }

    @Test("the store has no text of a key, a secret, a token or a session")
    func stored() throws {
        let folder = TemporaryFolder()
        let scene = try Scene(.sqlite, mode: nil, in: folder)
        let credentials = scene.credentials
        for key in KeyPowersTests.keys(scene) { _ = try scene.call("GET", "/onym/v1/stats", nil, key.fields) }
        let install = try scene.call(
            "POST", "/sdk/installs",
            """
            {"app_id":"\(credentials.linkingAppID)","secret":"\(credentials.linkingAppSecret)",\
            "device":{"class":"phone","os":"android","model":"Pixel"},"sdk":{"version":"1.0"}}
            """, [])
        let link = try scene.administer("POST", "/console/links", "{}")
        let session = try scene.call(
            "POST", "/onym/v1/console/session", #"{"code":"\#(link.told("code"))"}"#, [("Onym-Console", "1")])
        let cookie = try #require(session.wire["Set-Cookie"]?.firstMatch(of: /=([0-9a-f]{64});/)?.1, "\(session)")
        let texts = [
            credentials.adminKey, credentials.idsyncKey, credentials.idsyncSecret, credentials.idsyncWebKey,
            credentials.claimClientKey, credentials.claimImportKey, credentials.claimAgentKey,
            credentials.entitlementsProjectKey, credentials.entitlementsSecretKey, credentials.linkingKey,
            credentials.linkingAppSecret, credentials.onymClientKey, credentials.onymServerKey, scene.secret,
            install.told("token"), install.told("refresh_token"), link.told("code"),
            String(cookie),
        ]
        var bytes = Data()
        for name in ["onym.db", "onym.db-wal"] {
            bytes += try Data(contentsOf: URL(filePath: "\(folder.path)/\(name)"))
        }
        #expect(bytes.range(of: Data("ada-plan".utf8)) != nil, "the files have what calls said")
        for text in texts {
            #expect(text.utf8.count > 20 && bytes.range(of: Data(text.utf8)) == nil, "\(text.prefix(12))…")
        }
    }

    @Test("who repeats a call with its Idempotency-Key needs its body, its key, and a token again", arguments: stores)
    func repeated(_ kind: StoreKind) throws {
        let scene = try Scene(kind)
        let body = #"{"environment":"production","known_identities":{"customerid":"ada"}}"#
        func call(_ body: String, token: String?, _ key: (String, String)) throws -> Scene.Answer {
            try scene.call("POST", "/v1/identify", body, token: token, [key, ("Idempotency-Key", "k")])
        }
        let web = ("x-mp-key", scene.credentials.idsyncWebKey)
        #expect(try call(body, token: scene.token("ada"), web).told("mpid") == scene.mpid)
        #expect(try call(body, token: scene.token("ada"), web).told("mpid") == scene.mpid)
        #expect(try call(body, token: nil, web).wantsToken)
        #expect(try call(body, token: scene.token("mallory"), web).wantsToken)
        let other = body.replacing("ada", with: "mallory")
        #expect(try call(other, token: scene.token("mallory"), web).told("mpid") != scene.mpid)
        // A back end has a key of its own, so its call is another.
        let pair = KeyPowersTests.basic(scene.credentials)[0]
        #expect(try call(body.replacing("ada", with: "grace"), token: nil, pair).status == 200)
    }
}
