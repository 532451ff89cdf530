import ByteText
import Crypto
import Domain
import Foundation
import Gateway
import TestKit
import Testing

/// Which tokens count, and what goes through with one that does.
@Suite("Tokens for known users")
struct TokenTests {
    static let stores = StoreKind.allCases

    @Test("calls that are taken without proof are counted, each of them, by dialect", arguments: stores)
    func counted(_ kind: StoreKind) throws {
        let scene = try Scene(kind, mode: #""log""#)
        func count(_ dialect: String) throws -> Int {
            let text = try scene.http.call(
                "GET", "/metrics", fields: [("Authorization", "Bearer \(scene.credentials.adminKey)")]
            ).body
            let name = #"onym_unproven_calls_total{dialect="\#(dialect)"} "#
            let line = text.split(separator: "\n").first { $0.hasPrefix(name) }
            return Int(try #require(line).dropFirst(name.count)) ?? -1
        }
        let before = try count("idsync")
        for _ in 0..<3 { #expect(try scene.identify(#"{"customerid":"ada"}"#).status == 200) }
        _ = try scene.identify(#"{"customerid":"ada"}"#, token: scene.token("ada"))
        _ = try scene.identify(#"{"ios_idfv":"nobody's"}"#)
        #expect(try count("idsync") == before + 3, "one of these had proof, and one needed none")
        let reads = try count("entitlements")
        #expect(try scene.access("GET", "/v3/users/QON_ada/entitlements").status == 200)
        // It is told beside the answer, and what is written after it comes after it.
        #expect(try scene.access("POST", "/v3/users/QON_late", "{}").status == 201)
        #expect(try count("entitlements") == reads + 1, "a question that is looked up twice is one call")
    }

    // MARK: - With a right token everything works

    @Test("each dialect works with a right token, and a back end's key needs none", arguments: stores)
    func everythingWorks(_ kind: StoreKind) throws {
        let scene = try Scene(kind)
        for ada in [scene.token("ada"), scene.tokenByHMAC("ada"), scene.token("ada", more: #","aud":"onym""#)] {
            let answer = try scene.identify(#"{"customerid":"ada","ios_idfv":"idfv-new"}"#, "login", token: ada)
            #expect(answer.status == 200 && answer.told("mpid") == scene.mpid, "\(answer)")
            let search = try scene.identify(#"{"customerid":"ada"}"#, "search", token: ada)
            #expect(search.told("mpid") == scene.mpid, "\(search)")
            let events = #"{"mpid":"\#(scene.mpid)","user_attributes":{"a":"b"},"events":[{"event_type":"x","n":"e"}]}"#
            #expect(try scene.web("/v2/events", events, token: ada).status == 202)
            let changes = #"{"identity_type":"other","old_value":null,"new_value":"o"}"#
            let modified = try scene.web(
                "/v1/\(scene.mpid)/modify", #"{"environment":"production","identity_changes":[\#(changes)]}"#,
                token: ada)
            #expect(modified.status == 200, "\(modified)")

            let read = try scene.claim(
                "POST", "/v1/identity/properties", #"{"user_id":"ada","properties":{}}"#, token: ada)
            #expect(read.status == 200 && read.wire.body.contains("ada-plan"), "\(read)")
            let byAnonymous = try scene.claim(
                "POST", "/v1/identity/properties", #"{"user_id":"owl_anon_ada","properties":{}}"#, token: ada)
            #expect(byAnonymous.wire.body.contains("ada-plan"), "\(byAnonymous)")
            #expect(try scene.ingest(["ada", "owl_anon_ada"], token: ada).object["accepted"] as? Int == 2)
            let offer = "/v1/questionnaires/nps?bundle_id=com.example.demo&user_id="
            #expect(try scene.claim("GET", offer + "ada", token: ada).wire.body.contains("ada-answer"))
            #expect(try scene.claim("GET", offer + "owl_anon_ada", token: ada).wire.body.contains("ada-answer"))
            let claimed = try scene.claim(
                "POST", "/v1/identity/claim", #"{"anonymous_id":"owl_anon_two","user_id":"ada"}"#, token: ada)
            #expect(claimed.status == 200, "\(claimed)")

            #expect(try scene.access("GET", "/v3/identities/ada", token: ada).told("user_id") == "QON_ada")
            for path in ["", "/entitlements", "/properties", "/entitlements?identity_id=ada"] {
                #expect(try scene.access("GET", "/v3/users/QON_ada\(path)", token: ada).status == 200)
            }
            let restored = try scene.access(
                "POST", "/v3/users/QON_ada/restore", #"{"transactions":["\#(scene.receipt("t-ada"))"]}"#, token: ada)
            #expect(restored.status == 200, "\(restored)")
            #expect(try scene.access("POST", "/v1/user/init", #"{"q_uid":"QON_ada"}"#, token: ada).status == 200)
        }
        #expect(try scene.access("GET", "/v3/users/QON_ada/entitlements", isServer: true).status == 200)
        let login = #"{"environment":"production","known_identities":{"customerid":"ada"}}"#
        #expect(try scene.backEnd("/v1/login", login).told("mpid") == scene.mpid)
    }

    @Test("who is not known needs no token", arguments: stores)
    func anonymous(_ kind: StoreKind) throws {
        let scene = try Scene(kind)
        #expect(try scene.identify(#"{"ios_idfv":"idfv-new","email":"new@x"}"#).status == 200)
        // A value that stands for nobody is nobody's.
        #expect(try scene.identify(#"{"customerid":"null","ios_idfv":"idfv-new"}"#).status == 200)
        #expect(try scene.ingest(["owl_anon_new", "owl_anon_ada"]).object["accepted"] as? Int == 2)
        let set = #"{"user_id":"owl_anon_new","properties":{"a":"b"}}"#
        #expect(try scene.claim("POST", "/v1/identity/properties", set).status == 200)
        #expect(try scene.access("POST", "/v3/users/QON_new", "{}").status == 201)
        #expect(try scene.access("GET", "/v3/users/QON_new/entitlements").status == 200)
        // An install on which nobody is signed in buys, restores and sees what its store account has paid for.
        let nobody = [("Onym-Device-User", "QON_ada"), ("Onym-Identity", "")]
        #expect(try scene.access("GET", "/v3/users/QON_ada/entitlements", fields: nobody).status == 200)
        #expect(
            try scene.access("POST", "/v3/users/QON_ada/purchases", scene.purchase("t-2"), fields: nobody).status == 201
        )
    }

    @Test("several identities need a token each", arguments: stores)
    func several(_ kind: StoreKind) throws {
        let scene = try Scene(kind, preset: "profile_link")
        let both = #"{"customerid":"ada","email":"ada@x"}"#
        let (user, address) = (scene.token("ada"), scene.token("ada@x", more: #","type":"email""#))
        #expect(try scene.identify(both, token: user).wantsToken)
        #expect(try scene.identify(both, token: address).wantsToken)
        #expect(try scene.identify(both, token: "\(user), \(address)").told("mpid") == scene.mpid)
        #expect(try scene.identify(#"{"email":"ada@x"}"#, token: address).told("mpid") == scene.mpid)
        // One that is no token spoils nothing, and more than four are not looked at.
        #expect(try scene.identify(#"{"customerid":"ada"}"#, token: "x,\(user)").status == 200)
        #expect(try scene.identify(#"{"customerid":"ada"}"#, token: "x,x,x,x,\(user)").wantsToken)
    }

    @Test("after the first wrong signature no other token of the call is checked", arguments: stores)
    func firstWrongSignature(_ kind: StoreKind) throws {
        let scene = try Scene(kind)
        let login = #"{"customerid":"ada"}"#
        let (good, wrong) = (scene.token("ada"), scene.token("ada", by: scene.keys.stranger))
        // Other mistakes cost no check of a signature, or one that was right.
        for first in ["x", scene.token("ada", kid: "ed-2"), scene.token("mallory"), scene.token("ada", lasts: -100)] {
            #expect(try scene.identify(login, token: "\(first),\(good)").status == 200, "\(first)")
        }
        #expect(try scene.identify(login, token: "\(wrong),\(good)").wantsToken)
        #expect(try scene.identify(login, token: "\(good),\(wrong)").status == 200)
    }

    @Test("nobody without a token learns whether an id exists", arguments: stores)
    func existence(_ kind: StoreKind) throws {
        let scene = try Scene(kind)
        let calls: [(String, (String, String?) throws -> Scene.Answer)] = [
            ("identify", { try scene.identify(#"{"customerid":"\#($0)"}"#, token: $1) }),
            ("search", { try scene.identify(#"{"customerid":"\#($0)"}"#, "search", token: $1) }),
            ("login", { try scene.identify(#"{"customerid":"\#($0)"}"#, "login", token: $1) }),
            (
                "properties",
                {
                    try scene.claim(
                        "POST", "/v1/identity/properties", #"{"user_id":"\#($0)","properties":{}}"#, token: $1)
                }
            ),
            ("access", { try scene.access("GET", "/v3/identities/\($0)", token: $1) }),
            (
                "an identity",
                { try scene.access("POST", "/v3/identities/\($0)", #"{"user_id":"QON_mallory"}"#, token: $1) }
            ),
        ]
        for (name, call) in calls {
            for token in [nil, scene.token("mallory")] {
                let (known, unknown) = (try call("ada", token), try call("nobody", token))
                #expect(known.wantsToken && unknown.wantsToken, "\(name): \(known) and \(unknown)")
                #expect(
                    known.wire.body.replacing(/[0-9a-f]{32}/, with: "").replacing("ada", with: "ID")
                        == unknown.wire.body.replacing(/[0-9a-f]{32}/, with: "").replacing("nobody", with: "ID"),
                    "\(name)")
            }
        }
    }

    @Test("users whom an administrator has made one speak for each other", arguments: stores)
    func merged(_ kind: StoreKind) throws {
        let scene = try Scene(kind)
        let bob = #"{"user_id":"bob","properties":{"a":"b"}}"#
        #expect(try scene.claim("POST", "/v1/identity/properties", bob, token: scene.token("bob")).status == 200)
        func id(_ user: String) throws -> String {
            try scene.administer("GET", "/people/claim_user_id:\(user)").told("id")
        }
        let merge = #"{"from":"\#(try id("bob"))","into":"\#(try id("ada"))"}"#
        let merged = try scene.administer("POST", "/merges", merge)
        #expect(merged.status == 200, "\(merged)")
        let offer = "/v1/questionnaires/nps?bundle_id=com.example.demo&user_id=owl_anon_ada"
        for user in ["ada", "bob"] {
            let token = scene.token(user)
            for name in [user, "owl_anon_ada"] {
                let read = #"{"user_id":"\#(name)","properties":{}}"#
                let answer = try scene.claim("POST", "/v1/identity/properties", read, token: token)
                #expect(answer.wire.body.contains("ada-plan"), "\(user), \(name): \(answer)")
            }
            #expect(try scene.claim("GET", offer, token: token).wire.body.contains("ada-answer"))
        }
        #expect(try scene.claim("GET", offer, token: scene.token("mallory")).wantsToken)
    }

    @Test("an address is written as the project writes addresses", arguments: stores)
    func lowercase(_ kind: StoreKind) throws {
        let scene = try Scene(kind, preset: "profile_link")
        try scene.administer("PUT", "/strategy", #"{"lowercase_email":true}"#)
        let token = scene.token("Ada@X", more: #","type":"email""#)
        let answer = try scene.identify(#"{"email":"ADA@x"}"#, token: token)
        #expect(answer.told("mpid") == scene.mpid, "\(answer)")
    }

    @Test("an answer is given again to those alone who may have it", arguments: stores)
    func replays(_ kind: StoreKind) throws {
        let scene = try Scene(kind, preset: "best_match")
        let call =
            #"{"environment":"production","request_id":"r1","known_identities":{"ios_idfv":"idfv-ada","other":"o"}}"#
        let first = try scene.web("/v1/identify", call, token: scene.token("ada"))
        #expect(first.told("mpid") == scene.mpid, "\(first)")
        #expect(try scene.web("/v1/identify", call).wantsToken)
        #expect(try scene.web("/v1/identify", call, token: scene.token("ada")).wire == first.wire)
    }

    // MARK: - Tokens that do not count

    struct Forgery: Sendable, CustomTestStringConvertible {
        let name: String
        /// The reason that is given.
        let reason: IdentityTokenFault
        let make: @Sendable (Scene) throws -> String

        init(_ name: String, _ reason: IdentityTokenFault, _ make: @escaping @Sendable (Scene) throws -> String) {
            (self.name, self.reason, self.make) = (name, reason, make)
        }

        var testDescription: String { name }
    }

    private static func unsigned(_ header: String, _ scene: Scene) -> String {
        Scene.jwt(header, #"{"sub":"ada","exp":\#(scene.now + 600)}"#) { _ in [] }
    }

    static let forgeries: [Forgery] = [
        Forgery("nothing", .missing) { _ in "" },
        Forgery("no token", .malformed) { _ in "ada" },
        Forgery("two parts", .malformed) {
            "\($0.token("ada").split(separator: ".").dropLast().joined(separator: "."))"
        },
        Forgery("another's, replayed", .otherIdentity) { $0.token("mallory") },
        Forgery("over", .expired) { $0.token("ada", lasts: -61) },
        Forgery("for more than a day", .tooLong) { $0.token("ada", lasts: 86_400 + 61) },
        Forgery("for ever", .tooLong) {
            Scene.jwt(
                #"{"alg":"EdDSA","kid":"ed-1"}"#, #"{"sub":"ada","exp":9223372036854775807}"#, $0.keys.ed25519.sign)
        },
        Forgery("without an end", .malformed) {
            Scene.jwt(#"{"alg":"EdDSA","kid":"ed-1"}"#, #"{"sub":"ada"}"#, $0.keys.ed25519.sign)
        },
        Forgery("from tomorrow", .notYet) { $0.token("ada", more: #","nbf":\#($0.now + 120)"#) },
        Forgery("made tomorrow", .notYet) { $0.token("ada", more: #","iat":\#($0.now + 120)"#) },
        Forgery("for somebody else's server", .wrongAudience) { $0.token("ada", more: #","aud":"example.com""#) },
        Forgery("for another dialect", .wrongAudience) { $0.token("ada", more: #","aud":["linking"]"#) },
        Forgery("of another type", .otherIdentity) { $0.token("ada", more: #","type":"linking_external_id""#) },
        Forgery("of no type", .otherIdentity) { $0.token("ada", more: #","type":"root""#) },
        Forgery("for two", .malformed) { $0.token("mallory", more: #","sub":"ada""#) },
        Forgery("with an extension", .malformed) {
            Scene.jwt(
                #"{"alg":"EdDSA","kid":"ed-1","crit":["b64"],"b64":false}"#,
                #"{"sub":"ada","exp":\#($0.now + 600)}"#, $0.keys.ed25519.sign)
        },
        Forgery("signed by a stranger", .wrongSignature) { $0.token("ada", by: $0.keys.stranger) },
        Forgery("of a key that is not there", .unknownKey) { $0.token("ada", kid: "ed-2") },
        Forgery("of a key that it does not name, where there are several", .unknownKey) { $0.token("ada", kid: nil) },
        Forgery("with a letter changed", .wrongSignature) { scene in
            var parts = scene.token("mallory").split(separator: ".").map(String.init)
            parts[1] = scene.token("ada").split(separator: ".").map(String.init)[1]
            return parts.joined(separator: ".")
        },
        Forgery("alg none", .wrongAlgorithm) { unsigned(#"{"alg":"none","kid":"ed-1"}"#, $0) },
        Forgery("alg None", .wrongAlgorithm) { unsigned(#"{"alg":"None","kid":"ed-1"}"#, $0) },
        Forgery("alg none without a key", .unknownKey) { unsigned(#"{"alg":"none"}"#, $0) },
        Forgery("without an alg", .wrongAlgorithm) { unsigned(#"{"kid":"ed-1"}"#, $0) },
        Forgery("no signature at all", .wrongSignature) { unsigned(#"{"alg":"EdDSA","kid":"ed-1"}"#, $0) },
        Forgery("HS256 with the public key's bytes as the secret", .wrongAlgorithm) {
            $0.tokenByHMAC("ada", kid: "ed-1", secret: $0.keys.ed25519.publicKey)
        },
        Forgery("HS256 with the public key's text as the secret", .wrongAlgorithm) {
            $0.tokenByHMAC(
                "ada", kid: "ed-1", secret: Array(Base64.encodeForAddresses($0.keys.ed25519.publicKey).utf8))
        },
        Forgery("HS256 with nothing as the secret", .wrongSignature) { $0.tokenByHMAC("ada", secret: [0]) },
        Forgery("HS256 with the key's name as the secret", .wrongSignature) {
            $0.tokenByHMAC("ada", secret: Array($0.secretKeyID.utf8))
        },
        Forgery("EdDSA under the name of the secret", .wrongAlgorithm) { $0.token("ada", kid: $0.secretKeyID) },
        Forgery("of a foreign project", .unknownKey) { scene in
            let project = try scene.administer("POST", "/projects", #"{"name":"Other"}"#)
            let admin = [("Authorization", "Bearer \(project.told("admin_key"))")]
            let key = try scene.call("POST", "/onym/v1/signing-keys", "{}", admin)
            return scene.tokenByHMAC("ada", kid: key.told("kid"), secret: Array(key.told("secret").utf8))
        },
        Forgery("of a foreign project, under our key's name", .wrongSignature) { scene in
            let project = try scene.administer("POST", "/projects", #"{"name":"Other"}"#)
            let admin = [("Authorization", "Bearer \(project.told("admin_key"))")]
            let key = try scene.call("POST", "/onym/v1/signing-keys", "{}", admin)
            return scene.tokenByHMAC("ada", secret: Array(key.told("secret").utf8))
        },
        Forgery("of a retired key", .unknownKey) { scene in
            let key = try scene.administer("POST", "/signing-keys", #"{"kid":"old"}"#)
            let token = scene.tokenByHMAC("ada", kid: "old", secret: Array(key.told("secret").utf8))
            // It is taken, and remembered, before the key goes.
            let answer = try scene.identify(#"{"customerid":"ada"}"#, token: token)
            #expect(answer.status == 200, "\(answer)")
            let retired = try scene.administer("POST", "/signing-keys/\(key.told("id"))/retire", "{}")
            #expect(retired.status == 200, "\(retired)")
            return token
        },
        Forgery("with a space in it", .malformed) { scene in
            var token = scene.token("ada")
            token.insert(" ", at: token.index(token.startIndex, offsetBy: 30))
            return token
        },
        Forgery("with a tab before a dot", .malformed) { scene in
            scene.token("ada").replacingOccurrences(of: ".", with: "\t.")
        },
        Forgery("longer than a token may be", .malformed) {
            $0.token("ada", more: #","x":"\#(String(repeating: "x", count: 7000))""#)
        },
    ]

    @Test("a token that was made up, or is another's, does not count", arguments: stores, forgeries)
    func forged(_ kind: StoreKind, _ forgery: Forgery) throws {
        let scene = try Scene(kind)
        let token = try forgery.make(scene)
        let before = try scene.ada()
        let identified = try scene.identify(#"{"customerid":"ada"}"#, token: token)
        #expect(identified.wantsToken && identified.told("ErrorCode") == "IDENTITY_TOKEN_REQUIRED", "\(identified)")
        #expect(identified.wire.body.contains(forgery.reason.message), "\(identified)")
        let claimed = try scene.claim(
            "POST", "/v1/identity/properties", #"{"user_id":"ada","properties":{}}"#, token: token)
        #expect(claimed.wantsToken && claimed.told("error").contains(forgery.reason.message), "\(claimed)")
        let access = try scene.access("GET", "/v3/identities/ada", token: token)
        let error = access.object["error"] as? [String: Any]
        #expect(access.wantsToken && error?["code"] as? String == "identity_token_required", "\(access)")
        #expect(try scene.ada() == before)
    }

    @Test("a token with anything changed is none, whatever that is", arguments: Soak.seeds(2))
    func changed(_ seed: UInt64) throws {
        let scene = try Scene(.memory)
        var generator = SeededGenerator(seed: seed)
        let tokens = [scene.token("ada"), scene.tokenByHMAC("ada")].map { Array($0.utf8) }
        let letters = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=+/ ,;{}\"'".utf8)
        for round in 0..<1000 {
            var token = tokens[round % 2]
            for _ in 0..<Int.random(in: 1...3, using: &generator) {
                let place = Int.random(in: 0..<token.count, using: &generator)
                let letter = letters[Int.random(in: 0..<letters.count, using: &generator)]
                switch Int.random(in: 0..<3, using: &generator) {
                case 0: token[place] = letter
                case 1: token.insert(letter, at: place)
                default: token.remove(at: place)
                }
            }
            let text = String(decoding: token, as: UTF8.self)
            // Commas stand between tokens, and spaces around them say nothing.
            let isSame = token.split(separator: 0x2C).contains { part in
                tokens.contains(Array(part.drop { $0 == 0x20 }.reversed().drop { $0 == 0x20 }.reversed()))
            }
            let answer = try scene.identify(#"{"customerid":"ada"}"#, token: text)
            #expect(answer.wantsToken || isSame, "\(text): \(answer)")
        }
    }

    @Test("a token that was good is over when its time is", arguments: stores)
    func ends(_ kind: StoreKind) throws {
        let scene = try Scene(kind)
        let token = scene.token("ada", lasts: 100)
        #expect(try scene.identify(#"{"customerid":"ada"}"#, token: token).status == 200)
        // Clocks may differ by a minute.
        scene.clock.advance(milliseconds: 159_000)
        #expect(try scene.identify(#"{"customerid":"ada"}"#, token: token).status == 200)
        scene.clock.advance(milliseconds: 1000)
        #expect(try scene.identify(#"{"customerid":"ada"}"#, token: token).wantsToken)
    }

    @Test("ES256, as others' libraries make it, with a key in PEM", arguments: stores)
    func es256(_ kind: StoreKind) throws {
        let scene = try Scene(kind)
        let folder = TemporaryFolder()
        let file = "\(folder.path)/key.pem"
        try Shell.run("openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", file)
        let pem = try Shell.run("openssl", "ec", "-in", file, "-pubout")
        let key = try scene.administer(
            "POST", "/signing-keys", #"{"kid":"es-1","pem":"\#(pem.replacing("\n", with: "\\n"))"}"#)
        #expect(key.status == 201 && key.told("algorithm") == "ES256", "\(key)")
        let token = try Scene.jwt(
            #"{"alg":"ES256","kid":"es-1"}"#, #"{"sub":"ada","exp":\#(scene.now + 600)}"#
        ) { message in
            try Data(message).write(to: URL(filePath: "\(folder.path)/message"))
            try Shell.run(
                "openssl", "dgst", "-sha256", "-sign", file, "-out", "\(folder.path)/signature",
                "\(folder.path)/message")
            let der = [UInt8](try Data(contentsOf: URL(filePath: "\(folder.path)/signature")))
            // A sequence of two integers, each with its length, and a zero before a high bit.
            func integer(at start: Int) -> (bytes: [UInt8], end: Int) {
                let end = start + 2 + Int(der[start + 1])
                let bytes = Array(der[start + 2..<end].drop { $0 == 0 })
                return ([UInt8](repeating: 0, count: 32 - bytes.count) + bytes, end)
            }
            let r = integer(at: 2)
            return r.bytes + integer(at: r.end).bytes
        }
        #expect(try scene.identify(#"{"customerid":"ada"}"#, token: token).told("mpid") == scene.mpid)
        let other =
            token.split(separator: ".").dropLast().joined(separator: ".") + "."
            + Base64.encodeForAddresses([UInt8](repeating: 1, count: 64))
        #expect(try scene.identify(#"{"customerid":"ada"}"#, token: other).wantsToken)
    }
}
