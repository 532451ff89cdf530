import ByteText
import Crypto
import DialectLinking
import Domain
import Foundation
import Gateway
import TestKit
import Testing

/// What somebody may try who has something that is not theirs, or makes something up.
@Suite("Attacks on linking")
struct AttackTests {
    static let stores = StoreKind.allCases

    @Test("a token that was changed, or made by somebody else, is none", arguments: stores)
    func forged(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let (user, victim) = (try client.user("e1"), try client.user("e2"))
        let parts = user.token.split(separator: ".").map(String.init)
        let payload = String(decoding: Base64.decodeForAddresses(Array(parts[1].utf8).span) ?? [], as: UTF8.self)
        let changed = Base64.encodeForAddresses(Array(payload.replacing(user.install, with: victim.install).utf8))
        let none = Base64.encodeForAddresses(Array(#"{"alg":"none","typ":"at+jwt"}"#.utf8))
        let key = Ed25519Key(seed: [UInt8](repeating: 9, count: 32))
        let signature = Base64.encodeForAddresses(key.sign(Array("\(parts[0]).\(changed)".utf8)))
        // A key of the forger's own, by which the header is to be believed.
        let own = Base64.encodeForAddresses(
            Array(#"{"alg":"EdDSA","typ":"at+jwt","kid":"\#(JSONWebKey(.ed25519(key.publicKey)).thumbprint)"}"#.utf8))
        let ownSignature = Base64.encodeForAddresses(key.sign(Array("\(own).\(changed)".utf8)))
        let foreign = LinkingTokens(MasterKeys([[UInt8](repeating: 8, count: 32)]))
        let tokens = [
            "\(parts[0]).\(changed).\(parts[2])", "\(parts[0]).\(changed).\(signature)", "\(none).\(changed).",
            "\(own).\(changed).\(ownSignature)", "\(parts[0]).\(parts[1]).", "\(parts[0]).\(parts[1])",
            user.token + "A", user.refreshToken, "..", "a.b.c",
        ]
        for token in tokens {
            for answer in [try client.person(token), try client.delete(victim.user, key: token)] {
                #expect(answer.status == 401, "\(token) \(answer)")
            }
        }
        #expect(foreign.refresh(user.refreshToken) == nil)
        var sealed = Base64.decodeForAddresses(Array(user.refreshToken.utf8).span) ?? []
        sealed[31] ^= 1
        for token in [Base64.encodeForAddresses(sealed), "", "x", user.token, String(repeating: "A", count: 128)] {
            let answer = try client.refresh(token)
            #expect(answer.status == 401 || (token.isEmpty && answer.status == 400), "\(answer)")
        }
        #expect(try client.config(victim.token).isActive == true)
    }

    @Test("a proof is no access token, and an access token no proof")
    func confused() throws {
        let client = try LinkingClient(.memory)
        let key = InstallKeyPair()
        let user = try client.user("e1", key)
        let proof = key.sign(InstallKeyPair.Proof("GET", "/sdk/person", at: client.clock.now))
        #expect(try client.person(proof).code == "INVALID_TOKEN")
        let answer = try client.call(
            "GET", "/sdk/person", fields: [("Authorization", "DPoP \(user.token)"), ("DPoP", user.token)])
        #expect(answer.code == "INVALID_DPOP_PROOF")
    }

    @Test("a key of another app redeems, links and revokes nothing of this one's", arguments: stores)
    func foreignKeys(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let app = try client.otherApp()
        let install = try client.makeInstall()
        #expect(try client.link(install.install, "e1", key: app.key).code == "INSTALL_DOES_NOT_BELONG_TO_APP")
        let secrets = [
            (client.server.credentials.linkingAppID, app.secret), (app.id, client.server.credentials.linkingAppSecret),
            ("nobody", app.secret), (app.id, ""),
        ]
        for (id, secret) in secrets {
            let answer = try client.call("POST", "/sdk/installs", #"{"app_id":"\#(id)","secret":"\#(secret)"}"#)
            #expect(answer.status == (secret.isEmpty ? 400 : 401), "\(answer)")
        }
    }

    @Test("a key that expired or was revoked is none, to the millisecond", arguments: stores)
    func keys(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let key = try client.makeKey(#""USER_LINK""#, days: 1)["key"] ?? ""
        #expect(key.wholeMatch(of: /[0-9a-f]{15}\.[A-Za-z0-9]{48}/) != nil)
        client.clock.advance(milliseconds: 86_399_999)
        #expect(try client.requestCode("e1", key: key).status == 200)
        client.clock.advance(milliseconds: 1)
        let refused = try client.requestCode("e1", key: key)
        #expect(refused.status == 401 && refused.code == "UNAUTHORIZED")
    }

    @Test("an app has ten keys that may be used, and no more", arguments: stores)
    func tenKeys(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        var last = ""
        for _ in 0..<9 { last = try client.makeKey(#""user.link""#)["id"] ?? "" }
        let eleventh = try client.makeKey(#""user.link""#)
        #expect(eleventh.status == 409 && eleventh["code"] == "TOO_MANY_KEYS", "\(eleventh)")
        #expect(try client.administrator("POST", "/onym/v1/linking/keys/\(last)/revoke", "{}").status == 200)
        #expect(try client.makeKey(#""user.link""#).status == 201)
        let list = try client.administrator("GET", "/onym/v1/linking/keys").json["keys"] as? [[String: Any]]
        #expect(list?.count == 11 && list?.count { $0["revoked_at"] is String } == 1)
        for body in [
            #"{"app_id":"x","name":"a","scopes":["user.link"]}"#, #"{"name":"a","scopes":["user.link"]}"#,
            #"{"app_id":"APP","name":"a","scopes":["admin"]}"#, #"{"app_id":"APP","name":"a","scopes":[]}"#,
            #"{"app_id":"APP","name":"","scopes":["user.link"]}"#,
            #"{"app_id":"APP","name":"a","scopes":["user.link"],"expires_in_days":0}"#,
        ] {
            let body = body.replacing("APP", with: client.server.credentials.linkingAppID)
            #expect(try client.administrator("POST", "/onym/v1/linking/keys", body).status == 400)
        }
        for id in ["1", "99", "x"] {
            #expect(try client.administrator("POST", "/onym/v1/linking/keys/\(id)/revoke", "{}").status == 404)
        }
    }

    @Test("one install in a loop is held back, and nobody else", arguments: stores)
    func rates(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind) {
            $0.rates = RateLimits(key: .off, identity: RateLimit(perSecond: 1, burst: 3))
        }
        let (user, other) = (try client.user("e1"), try client.user("e2"))
        let answers = try (0..<5).map { _ in try client.config(user.token) }
        #expect(answers.map(\.status) == [200, 200, 200, 429, 429])
        #expect(answers.last?.code == "RATE_LIMITED" && answers.last?.field("Retry-After") == "1")
        #expect(try client.config(other.token).status == 200)
        client.clock.advance(milliseconds: 1000)
        #expect(try client.config(user.token).status == 200)
    }

    @Test("nothing secret is in the store's files")
    func secrets() throws {
        let client = try LinkingClient(.sqlite)
        let code = try client.code("e1")
        let key = try client.makeKey(#""user.link""#)["key"] ?? ""
        let user = try client.redeem(code)
        let next = try client.refresh(user.refreshToken)
        let bytes = try client.server.storeBytes()
        for secret in [code, key, user.token, user.refreshToken, next.refreshToken] {
            #expect(!secret.isEmpty && bytes.firstRange(of: Data(secret.utf8)) == nil)
            for raw in [
                Hexadecimal.decode(Array(secret.utf8).span), Base64.decodeForAddresses(Array(secret.utf8).span),
            ] {
                if let raw, raw.count >= 32 { #expect(bytes.firstRange(of: Data(raw)) == nil) }
            }
        }
        #expect(bytes.firstRange(of: Data(user.install.utf8)) != nil, "the files were looked at")
    }

    @Test("a code that somebody made up uses up no proof")
    func forgedCodes() throws {
        let client = try LinkingClient(.memory)
        let key = InstallKeyPair()
        let code = try client.code("e1")
        let app = try #require(
            client.server.store.directory.apps.values.first {
                $0.publicID == client.server.credentials.linkingAppID
            })
        // As codes were before: the app under a mask that anybody can make.
        let random = [UInt8](repeating: 5, count: 56)
        let number = UInt64(bitPattern: app.id.rawValue) ^ SHA256.digest(of: random).words.0
        let forged = Hexadecimal.encode(
            random + (0..<8).map { UInt8(truncatingIfNeeded: number >> UInt64(56 - $0 * 8)) })
        let fields = [client.prove(key, "POST", "/sdk/users")]
        for _ in 0..<2 {
            #expect(try client.redeem(forged, fields: fields).code == "INVALID_AUTHENTICATION_CODE")
        }
        #expect(try client.redeem(code, fields: fields).status == 201, "the proof is as good as new")
    }

    @Test("of a user who was deleted no file says what it was called, nor does a code that nobody has redeemed")
    func erased() throws {
        let folder = TemporaryFolder()
        let client = try LinkingClient(.sqlite, in: folder)
        let (name, other) = ("the-name-of-somebody", "the-name-of-nobody-else")
        let user = try client.user(name)
        _ = try client.code(name)
        _ = try client.code(other)
        _ = try client.link(try client.makeInstall().install, name)
        func traces(_ text: String) throws -> Int {
            try FileManager.default.subpathsOfDirectory(atPath: folder.path).count { file in
                let data = try? Data(contentsOf: URL(filePath: "\(folder.path)/\(file)"))
                return data?.range(of: Data(text.utf8)) != nil
            }
        }
        #expect(try traces(name) > 0, "the files were looked at")
        #expect(try traces(other) == 0)
        #expect(try client.delete(user.user).status == 200)
        #expect(try client.administrator("POST", "/onym/v1/compact", "{}").status == 202)
        let isGone = try Patience.until {
            // Each step waits a moment; and what is in the log goes when others write.
            client.clock.advance(milliseconds: 1000)
            let isRunning = try client.administrator("GET", "/onym/v1/compact").json["running"] as? Bool
            guard isRunning == false else { return false }
            if try traces(name) == 0 { return true }
            _ = try client.makeInstall()
            return false
        }
        #expect(isGone)
    }

    @Test(
        "no body ends in a fault of the server's",
        arguments: [
            "/sdk/installs", "/sdk/users", "/sdk/users/link", "/sdk/token", "/sdk/events", "/sdk/link-legacy-install",
        ])
    func bodies(_ path: String) throws {
        let client = try LinkingClient(.memory)
        let token = try client.makeInstall().token
        let bodies = [
            "", "{", "[]", "1", "null", #""text""#, "{}", #"{"device":1}"#, #"{"device":{"class":"fridge"}}"#,
            #"{"app_id":{},"secret":[],"authentication_code":1,"refresh_token":false,"events":0,"grant_type":null}"#,
            #"{"authentication_code":"\#(String(repeating: "f", count: 5000))"}"#, #"{"jwk":[],"sdk":"x"}"#,
            String(repeating: "[", count: 1000), #"{"a\u0000":1}"#, "\u{FEFF}{}",
        ]
        for body in bodies {
            let answer = try client.call("POST", path, body, key: token)
            #expect((200..<500).contains(answer.status), "\(path) \(body.prefix(60)): \(answer)")
            if answer.status >= 400 { #expect(!answer.code.isEmpty && answer["message"]?.isEmpty == false) }
        }
    }
}
