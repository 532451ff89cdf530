import ByteText
import Crypto
import DialectClaim
import Domain
import Foundation
import Gateway
import Program
import TestKit
import Testing

/// A server whose project asks clients for tokens, with a user, Ada, whom every dialect knows, and Mallory, who is a user too.
final class Scene {
    let server: TestServer
    let http: HTTPClient
    let clock = ManualClock(1_610_000_000_000)
    let keys = Keys()
    private(set) var secret = ""
    private(set) var secretKeyID = ""
    private(set) var edKey = ""
    var credentials: ProjectPlan.Credentials { server.credentials }

    /// The customer's own keys.
    struct Keys {
        let ed25519 = Ed25519Key(seed: [UInt8](repeating: 3, count: 32))
        let stranger = Ed25519Key(seed: [UInt8](repeating: 4, count: 32))
    }

    /// What Ada's calls have been answered, and nobody else's may be.
    private(set) var mpid = ""
    static let privateTexts = ["ada-plan", "ada-answer", "ada-city", "ada-tier", "QON_ada"]

    /// - Parameter mode: as in `signed_identities`, from when all is set up.
    init(
        _ kind: StoreKind, mode: String? = #""require""#, preset: String = "profile_conversion",
        more: (apps: [App], keys: [AccessKey]) = ([], []), hasAda: Bool = true,
        in folder: TemporaryFolder = TemporaryFolder()
    ) throws {
        let clock = clock
        server = try TestServer(kind, in: folder, more: more) { configuration in
            configuration.clock = { clock.now }
            configuration.attribution.takesMocks = true
        }
        http = server.client
        try administer("PUT", "/strategy", #"{"preset":"\#(preset)"}"#)
        let jwk = JSONWebKey(.ed25519(keys.ed25519.publicKey)).members.map { #""\#($0)":"\#($1)""# }
        edKey = try administer(
            "POST", "/signing-keys", #"{"name":"back end","kid":"ed-1","jwk":{\#(jwk.joined(separator: ","))}}"#
        ).told("id")
        let made = try administer("POST", "/signing-keys", #"{"name":"by HMAC"}"#)
        (secret, secretKeyID) = (made.told("secret"), made.told("kid"))
        if hasAda { try makeAda() }
        if let mode { try require(mode) }
    }

    func require(_ mode: String) throws { try administer("PUT", "/strategy", #"{"signed_identities":\#(mode)}"#) }

    // MARK: - Tokens

    var now: Int64 { clock.now.milliseconds / 1000 }

    static func jwt(
        _ header: String, _ payload: String, _ sign: ([UInt8]) throws -> [UInt8]
    ) rethrows -> String {
        let signed =
            Base64.encodeForAddresses(Array(header.utf8)) + "." + Base64.encodeForAddresses(Array(payload.utf8))
        return signed + "." + Base64.encodeForAddresses(try sign(Array(signed.utf8)))
    }

    /// A token that the customer's back end signs.
    func token(
        _ subject: String, kid: String? = "ed-1", lasts seconds: Int64 = 600, more: String = "",
        by key: Ed25519Key? = nil
    ) -> String {
        let kid = kid.map { #","kid":"\#($0)""# } ?? ""
        return Scene.jwt(
            #"{"alg":"EdDSA","typ":"JWT"\#(kid)}"#, #"{"sub":"\#(subject)","exp":\#(now + seconds)\#(more)}"#,
            (key ?? keys.ed25519).sign)
    }

    func tokenByHMAC(_ subject: String, kid: String? = nil, secret: [UInt8]? = nil) -> String {
        let secret = secret ?? Array(self.secret.utf8)
        return Scene.jwt(
            #"{"alg":"HS256","kid":"\#(kid ?? secretKeyID)"}"#, #"{"sub":"\#(subject)","exp":\#(now + 600)}"#
        ) { HMAC(key: secret).authenticate($0).bytes }
    }

    // MARK: - Calls

    typealias Answer = JSONAnswer

    @discardableResult
    func call(
        _ method: String, _ path: String, _ json: String? = nil, token: String? = nil, _ fields: [(String, String)]
    ) throws -> Answer {
        let fields = fields + (token.map { [("Onym-Identity-Token", $0)] } ?? [])
        guard let json else { return Answer(try http.call(method, path, fields: fields)) }
        return Answer(try http.call(method, path, fields: fields, json: json))
    }

    @discardableResult
    func administer(_ method: String, _ path: String, _ json: String? = nil) throws -> Answer {
        try call(method, "/onym/v1" + path, json, [("Authorization", "Bearer \(credentials.adminKey)")])
    }

    /// IDSync, with the key that web pages carry.
    func web(_ path: String, _ json: String, token: String? = nil) throws -> Answer {
        try call("POST", path, json, token: token, [("x-mp-key", credentials.idsyncWebKey)])
    }

    func identify(_ identities: String, _ verb: String = "identify", token: String? = nil) throws -> Answer {
        try web("/v1/\(verb)", #"{"environment":"production","known_identities":\#(identities)}"#, token: token)
    }

    /// IDSync, as a back end.
    func backEnd(_ path: String, _ json: String) throws -> Answer {
        let pair = Base64.encode(Array("\(credentials.idsyncKey):\(credentials.idsyncSecret)".utf8))
        return try call("POST", path, json, [("Authorization", "Basic \(pair)")])
    }

    func claim(_ method: String, _ path: String, _ json: String? = nil, token: String? = nil) throws -> Answer {
        try call(method, path, json, token: token, [("Authorization", "Bearer \(credentials.claimClientKey)")])
    }

    func ingest(_ users: [String], token: String? = nil) throws -> Answer {
        let events = users.map { user in
            #"{"user_id":"\#(user)","message":"m","level":"info","session_id":"6F9619FF-8B86-D011-B42D-00CF4FC964FF"}"#
        }
        return try claim(
            "POST", "/v1/ingest",
            #"{"bundle_id":"com.example.demo","events":[\#(events.joined(separator: ","))]}"#, token: token)
    }

    func access(
        _ method: String, _ path: String, _ json: String? = nil, token: String? = nil, isServer: Bool = false,
        fields: [(String, String)] = []
    ) throws -> Answer {
        let key = isServer ? credentials.entitlementsSecretKey : credentials.entitlementsProjectKey
        return try call(method, path, json, token: token, [("Authorization", "Bearer test_\(key)")] + fields)
    }

    func receipt(_ transaction: String) -> String {
        let payload = TestReceipts.Payload(
            project: ProjectID(rawValue: 1), product: "month", transaction: transaction, purchasedAt: clock.now)
        return TestReceipts(master: [UInt8](repeating: 7, count: 32)).receipt(payload)
    }

    func purchase(_ transaction: String) -> String {
        #"{"price":"9.99","currency":"usd","purchased":1610000000,"app_store_data":{"receipt":"\#(receipt(transaction))"}}"#
    }

    // MARK: - Ada

    static let bundle = #""bundle_id":"com.example.demo""#

    private func makeAda() throws {
        mpid = try backEnd(
            "/v1/login",
            #"{"environment":"production","known_identities":{"customerid":"ada","email":"ada@x","ios_idfv":"idfv-ada"}}"#
        ).told("mpid")
        try expect(
            backEnd("/v2/events", #"{"mpid":"\#(mpid)","user_attributes":{"city":"ada-city"},"events":[]}"#), 202)
        try expect(
            administer(
                "PUT", "/questionnaires/nps",
                #"""
                {"name":"S","schema":{"version":1,"questions":[{"id":"q1","type":"text","title":"Why?"},
                {"id":"q2","type":"text","title":"How?","required":true}]}}
                """#), 200)
        try expect(ingest(["owl_anon_ada"]), 200)
        try expect(claim("POST", "/v1/identity/claim", #"{"anonymous_id":"owl_anon_ada","user_id":"ada"}"#), 200)
        try expect(
            claim("POST", "/v1/identity/properties", #"{"user_id":"ada","properties":{"plan":"ada-plan"}}"#), 200)
        try expect(
            claim(
                "POST", "/v1/questionnaires/nps/responses",
                #"{\#(Scene.bundle),"user_id":"ada","answers":{"q1":"ada-answer"}}"#), 201)
        try administer("PUT", "/entitlements/pro", "{}")
        try administer(
            "PUT", "/products/month", #"{"type":"subscription","duration_seconds":2592000,"entitlements":["pro"]}"#)
        try expect(access("POST", "/v3/users/QON_ada", "{}"), 201)
        try expect(access("POST", "/v3/identities/ada", #"{"user_id":"QON_ada"}"#), 201)
        try expect(
            access(
                "POST", "/v3/users/QON_ada/purchases", purchase("t-ada"),
                fields: [("Onym-Device-User", "QON_ada"), ("Onym-Identity", "ada")]), 201)
        try expect(
            access("POST", "/v3/users/QON_ada/properties", #"[{"key":"tier","value":"ada-tier"}]"#), 200)
        try expect(access("POST", "/v3/users/QON_mallory", "{}"), 201)
    }

    private func expect(_ answer: Answer, _ status: Int) throws {
        if answer.status != status { throw Unexpected(answer: answer.wire) }
    }

    struct Unexpected: Error { let answer: Wire.Answer }

    /// All that is held about Ada, as an administrator sees it, but for what is written down about those who were refused.
    func ada() throws -> [String] {
        try [
            "/people/\(mpid)", "/people/claim_user_id:ada", "/people/claim_anonymous_id:owl_anon_ada",
            "/people/sandbox_user_id:QON_ada",
            "/people/\(mpid)/timeline?limit=200", "/people/claim_user_id:ada/timeline?limit=200",
        ].map { path in
            // A copy of a receipt joins its install to the store account, and takes nothing from her.
            try administer("GET", path).wire.body.replacing(
                /"installs":\["[^\]]*"\],"shared_at"/, with: #""shared_at""#)
        } + [
            try access("GET", "/v3/users/QON_ada/entitlements", isServer: true).wire.body,
            try access("GET", "/v3/users/QON_ada/properties", isServer: true).wire.body,
            try call(
                "GET", "/v1/app-users?data_mode=all&search=ada", nil,
                [("Authorization", "Bearer \(credentials.claimAgentKey)")]
            ).wire.body,
        ]
    }
}

extension JSONAnswer {
    /// A member that has to be there.
    func told(_ name: String) -> String { text(name) ?? "none: \(self)" }

    /// Whether the answer asks for a token: 403, or 422 in the Entitlements dialect, whose SDKs stop for good after 403.
    var wantsToken: Bool {
        let isOfEntitlements = wire.body.contains("identity_token_required") || wire.body.contains(#""success":false"#)
        return status == (isOfEntitlements ? 422 : 403) && wire.body.contains("Onym-Identity-Token")
    }
}
