import ByteText
import Crypto
import Domain
import Foundation
import Gateway
import TestKit
import Testing

/// Keys that customers sign with, and the three ways in which a project may ask for tokens.
@Suite("Signing keys")
struct SigningKeyTests {
    static let stores = StoreKind.allCases

    private func keys(_ scene: Scene) throws -> [[String: Any]] {
        try scene.administer("GET", "/signing-keys").object["signing_keys"] as? [[String: Any]] ?? []
    }

    @Test("are added, listed without their secrets, and retired", arguments: stores)
    func keys(_ kind: StoreKind) throws {
        let scene = try Scene(kind, hasAda: false)
        let all = try keys(scene)
        #expect(all.map { $0["algorithm"] as? String } == ["EdDSA", "HS256"])
        #expect(all.map { $0["name"] as? String } == ["back end", "by HMAC"])
        #expect(all[1]["jwk"] is NSNull && all[1]["secret"] == nil && all[1]["kid"] as? String == scene.secretKeyID)
        #expect((all[0]["jwk"] as? [String: Any])?["crv"] as? String == "Ed25519")
        #expect(scene.secret.hasPrefix("onym_sign_") && scene.secret.utf8.count == 74)
        let body = try scene.administer("GET", "/signing-keys").wire.body
        #expect(!body.contains(scene.secret.suffix(64)))

        let login = #"{"customerid":"ada"}"#
        #expect(try scene.identify(login, token: scene.token("ada")).status == 200)
        let retired = try scene.administer("DELETE", "/signing-keys/\(scene.edKey)")
        #expect(retired.status == 200 && !(retired.object["retired_at"] is NSNull), "\(retired)")
        #expect(try scene.identify(login, token: scene.token("ada")).wantsToken)
        #expect(try scene.identify(login, token: scene.tokenByHMAC("ada")).status == 200)
        // One alone is left, so tokens need not name it.
        let unnamed = Scene.jwt(#"{"alg":"HS256"}"#, #"{"sub":"ada","exp":\#(scene.now + 60)}"#) {
            HMAC(key: Array(scene.secret.utf8)).authenticate($0).bytes
        }
        #expect(try scene.identify(login, token: unnamed).status == 200)
        // Retired is retired: again it is no news, and its name is not given to another.
        #expect(try scene.administer("POST", "/signing-keys/\(scene.edKey)/retire", "{}").object.count == 7)
        #expect(try scene.administer("POST", "/signing-keys", #"{"kid":"ed-1"}"#).status == 409)
        #expect(try scene.administer("DELETE", "/signing-keys/1").status == 404)
        #expect(try scene.administer("DELETE", "/signing-keys/x").status == 404)
        let kinds = try scene.administer("GET", "/changes?limit=200").object["changes"] as? [[String: Any]] ?? []
        #expect(kinds.count { $0["kind"] as? String == "signing_key.created" } == 2)
        #expect(kinds.count { $0["kind"] as? String == "signing_key.retired" } == 1)
    }

    @Test("are there again when the server is")
    func restarts() throws {
        let scene = try Scene(.sqlite)
        let token = scene.tokenByHMAC("ada")
        #expect(try !String(decoding: scene.server.storeBytes(), as: UTF8.self).contains(scene.secret.suffix(64)))
        let clock = scene.clock
        let again = try TestServer(restarting: scene.server) { $0.clock = { clock.now } }
        let answer = try again.client.call(
            "POST", "/v1/identify",
            fields: [("x-mp-key", again.credentials.idsyncWebKey), ("Onym-Identity-Token", token)],
            json: #"{"environment":"production","known_identities":{"customerid":"ada"}}"#)
        #expect(answer.status == 200 && answer.body.contains(scene.mpid), "\(answer)")
    }

    @Test("of another project are not seen, nor retired", arguments: stores)
    func projects(_ kind: StoreKind) throws {
        let scene = try Scene(kind, hasAda: false)
        let other = try scene.administer("POST", "/projects", #"{"name":"Other"}"#)
        let admin = [("Authorization", "Bearer \(other.told("admin_key"))")]
        #expect(try scene.call("GET", "/onym/v1/signing-keys", nil, admin).wire.body.contains(#""signing_keys":[]"#))
        #expect(try scene.call("DELETE", "/onym/v1/signing-keys/\(scene.edKey)", nil, admin).status == 404)
        #expect(try scene.call("POST", "/onym/v1/signing-keys", #"{"kid":"ed-1"}"#, admin).status == 201)
    }

    static let faults: [(String, String)] = [
        (#"{"algorithm":"RS256"}"#, "algorithm"), (#"{"algorithm":"EdDSA"}"#, "pem or jwk"),
        (#"{"pem":"x"}"#, "pem"), (#"{"jwk":{"kty":"oct","k":"AA"}}"#, "jwk"),
        (#"{"jwk":{"kty":"OKP","crv":"Ed25519","x":"AA"}}"#, "jwk.x"), (#"{"kid":""}"#, "kid"),
        (#"{"kid":1}"#, "kid"), (#"{"secret":"mine"}"#, "secret"), (#"{"name":""}"#, "name"),
        (
            #"{"jwk":{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","d":"AA"}}"#,
            "private"
        ),
        (
            #"{"jwk":{"kty":"EC","crv":"P-256","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","y":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}}"#,
            "curve"
        ),
        (
            #"{"algorithm":"HS256","jwk":{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}}"#,
            "EdDSA"
        ),
    ]

    @Test("that are none are refused", arguments: faults)
    func refused(_ body: String, _ word: String) throws {
        let scene = try Scene(.memory, hasAda: false)
        let answer = try scene.administer("POST", "/signing-keys", body)
        #expect(answer.status == 400 && answer.told("detail").contains(word), "\(answer)")
        #expect(try keys(scene).count == 2)
    }

    @Test("are twenty at most")
    func many() throws {
        let scene = try Scene(.memory, hasAda: false)
        for _ in 0..<18 { #expect(try scene.administer("POST", "/signing-keys", "{}").status == 201) }
        let answer = try scene.administer("POST", "/signing-keys", "{}")
        #expect(answer.status == 409 && answer.told("detail").contains("signing key"), "\(answer)")
        #expect(try scene.administer("DELETE", "/signing-keys/\(scene.edKey)").status == 200)
        #expect(try scene.administer("POST", "/signing-keys", "{}").status == 201)
    }

    // MARK: - Off, log and require

    private func journal(_ scene: Scene, _ person: String) throws -> [[String: Any]] {
        let page = try scene.administer("GET", "/people/\(person)/journal")
        return page.object["calls"] as? [[String: Any]] ?? []
    }

    @Test("off asks for nothing, and log takes all and writes down who would be refused", arguments: stores)
    func modes(_ kind: StoreKind) throws {
        let scene = try Scene(kind, mode: #""off""#)
        #expect(try scene.identify(#"{"customerid":"ada"}"#).told("mpid") == scene.mpid)
        let set = #"{"user_id":"ada","properties":{"a":"b"}}"#
        #expect(try scene.claim("POST", "/v1/identity/properties", set).status == 200)
        #expect(try scene.access("GET", "/v3/identities/ada").status == 200)
        func unproven(_ person: String) throws -> [String?] {
            try journal(scene, person).filter { $0["kind"] as? String == "unproven" }.map { $0["refused"] as? String }
        }
        #expect(try unproven(scene.mpid).isEmpty)

        try scene.require(#""log""#)
        for _ in 0..<3 {
            #expect(try scene.identify(#"{"customerid":"ada"}"#).told("mpid") == scene.mpid)
            let old = scene.token("ada", lasts: -100)
            #expect(try scene.identify(#"{"customerid":"ada"}"#, token: old).told("mpid") == scene.mpid)
            #expect(try scene.identify(#"{"customerid":"ada"}"#, token: scene.token("ada")).status == 200)
            #expect(try scene.claim("POST", "/v1/identity/properties", set).status == 200)
            #expect(try scene.ingest(["ada"]).object["accepted"] as? Int == 1)
            #expect(try scene.access("GET", "/v3/identities/ada").status == 200)
            #expect(try scene.access("GET", "/v3/users/QON_ada/entitlements").status == 200)
            let offer = "/v1/questionnaires/nps?bundle_id=com.example.demo&user_id=owl_anon_ada"
            #expect(try scene.claim("GET", offer, token: scene.token("ada", lasts: -100)).status == 200)
        }
        // Each reason once a day, for each key and person.
        #expect(Set(try unproven(scene.mpid)) == ["identity_token_missing", "identity_token_expired"])
        #expect(try unproven(scene.mpid).count == 2)
        // Questions are written down too, behind their answers.
        #expect(try scene.identify(#"{"ios_idfv":"idfv-last"}"#).status == 200)
        #expect(
            try unproven("claim_user_id:ada").sorted { $0 ?? "" < $1 ?? "" } == [
                "identity_token_expired", "identity_token_missing",
            ])
        #expect(try unproven("sandbox_identity:ada") == ["identity_token_missing"])
        scene.clock.advance(milliseconds: 86_400_000)
        #expect(try scene.identify(#"{"customerid":"ada"}"#).status == 200)
        #expect(try unproven(scene.mpid).count == 3)
        let changes = try scene.administer("GET", "/changes?limit=200").object["changes"] as? [[String: Any]] ?? []
        let told = changes.filter { $0["kind"] as? String == "identity.unproven" }
        #expect(told.count == 6 && told.allSatisfy { ($0["data"] as? [String: Any])?["code"] != nil })
    }

    @Test("what is only watched is no call that a dry run of other rules makes again")
    func watched() {
        let dryRun = StrategyDryRun(.default, for: ProjectID(rawValue: 1), Directory(), hash: World.hash)
        func take(_ kind: ActKind, _ answer: RecordedCall.Answer) {
            dryRun.take(
                RecordedCall(
                    sequence: JournalSequence(rawValue: 1), at: Instant(milliseconds: 1),
                    project: ProjectID(rawValue: 1),
                    key: nil, requestID: "r", kind: kind, person: PersonID(rawValue: 5), inputs: [], answer: answer,
                    facts: []))
        }
        take(.unproven, .refused("identity_token_missing"))
        #expect(dryRun.calls == 0)
        take(.claim, .reply(Reply(Done())))
        #expect(dryRun.calls == 1)
    }

    @Test("what is refused is in the journal, once a day for each key, person and reason", arguments: stores)
    func journalled(_ kind: StoreKind) throws {
        let scene = try Scene(kind)
        for _ in 0..<5 { #expect(try scene.identify(#"{"customerid":"ada"}"#).wantsToken) }
        let refused = try journal(scene, scene.mpid).filter { $0["kind"] as? String == "refused" }
        #expect(refused.map { $0["refused"] as? String } == ["identity_token_missing"])
    }

    @Test("one dialect may require what others do not", arguments: stores)
    func dialects(_ kind: StoreKind) throws {
        let scene = try Scene(kind, mode: #"{"claim":"require"}"#)
        #expect(try scene.identify(#"{"customerid":"ada"}"#).status == 200)
        #expect(try scene.access("GET", "/v3/identities/ada").status == 200)
        let set = #"{"user_id":"ada","properties":{}}"#
        #expect(try scene.claim("POST", "/v1/identity/properties", set).wantsToken)
        // Going back takes effect at the next call.
        try scene.require(#""off""#)
        #expect(try scene.claim("POST", "/v1/identity/properties", set).status == 200)
    }

    // MARK: - Whose key it is

    @Test(
        "a file without a user belongs to the user of an event that came before, and needs no token for it",
        arguments: stores)
    func attachments(_ kind: StoreKind) throws {
        let scene = try Scene(kind)
        let event = "11111111-2222-4333-8444-555555555555"
        let sent = try scene.claim(
            "POST", "/v1/ingest",
            #"""
            {\#(Scene.bundle),"events":[{"client_event_id":"\#(event)","user_id":"ada","message":"m","level":"info",
            "session_id":"6F9619FF-8B86-D011-B42D-00CF4FC964FF"}]}
            """#, token: scene.token("ada"))
        #expect(sent.object["accepted"] as? Int == 1, "\(sent)")
        let digest = Hexadecimal.encode(SHA256.digest(of: [65]).bytes)
        let reserved = try scene.claim(
            "POST", "/v1/ingest/attachment",
            #"""
            {"client_event_id":"\#(event)","original_filename":"a.txt","content_type":"text/plain","size_bytes":1,
            "sha256":"\#(digest)"}
            """#)
        let id = try #require(reserved.text("attachment_id"), "\(reserved)")
        let stored = try scene.http.call(
            "PUT", "/v1/ingest/attachment/\(id)",
            fields: [
                ("Authorization", "Bearer \(scene.credentials.claimClientKey)"),
                ("Content-Type", "application/octet-stream"),
            ], body: [65])
        #expect(stored.status == 200, "\(stored)")
        let listed = try scene.call(
            "GET", "/v1/attachments?data_mode=all", nil,
            [("Authorization", "Bearer \(scene.credentials.claimAgentKey)")])
        #expect(listed.list("attachments").first?["user_id"] as? String == "ada", "\(listed)")
    }

    @Test("a key of an app that runs on a server needs no token, one that is shipped with its secret does")
    func platforms() throws {
        let moment = Instant(milliseconds: 1_600_000_000_000)
        func app(_ id: Int64, _ dialect: Dialect, _ platform: App.Platform) -> App {
            App(
                id: AppID(rawValue: id), project: ProjectID(rawValue: 1), dialect: dialect, name: "App \(id)",
                platform: platform, madeAt: moment)
        }
        let scopes: ScopeSet = [.identityWrite, .eventsWrite, .usersWrite, .accessRead]
        let rows: [(String, AccessKey.Kind, App, asks: Bool)] = [
            ("us1-page", .idsyncWeb, app(20, .idsync, .backend), false),
            ("us1-server", .idsync, app(21, .idsync, .backend), false),
            ("us1-unknown", .idsync, app(22, .idsync, .any), false),
            ("us1-phone", .idsync, app(23, .idsync, .apple), true),
            ("us1-robot", .idsync, app(24, .idsync, .android), true),
            ("owl_client_server", .claimClient, app(25, .claim, .backend), false),
            ("owl_client_phone", .claimClient, app(26, .claim, .android), true),
            ("owl_import_phone", .claimImport, app(27, .claim, .android), false),
            ("project", .entitlementsProject, app(28, .entitlements, .web), true),
            ("sk_secret", .entitlementsSecret, app(29, .entitlements, .web), false),
        ]
        let directory = Directory(apps: rows.map(\.2))
        for (place, row) in rows.enumerated() {
            let key = TestServer.key(row.0, id: 50 + Int64(place), app: row.2.id, kind: row.1, scopes: scopes)
            #expect(directory.isClients(key) == row.asks, "\(row.0)")
        }
    }
}
