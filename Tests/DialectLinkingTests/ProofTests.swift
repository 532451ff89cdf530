import ByteText
import Crypto
import DialectLinking
import Domain
import Foundation
import Gateway
import TestKit
import Testing

/// An install's own key, and the proofs that it makes (RFC 9449).
struct InstallKeyPair {
    let key: Ed25519Key

    init(_ seed: UInt8 = 1) { key = Ed25519Key(seed: [UInt8](repeating: seed, count: 32)) }

    var jwk: JSONWebKey { JSONWebKey(.ed25519(key.publicKey)) }
    var thumbprint: String { jwk.thumbprint }
    var json: String { "{" + jwk.members.map { #""\#($0)":"\#($1)""# }.joined(separator: ",") + "}" }

    static func hash(_ token: String) -> String {
        Base64.encodeForAddresses(SHA256.digest(of: Array(token.utf8)).bytes)
    }

    /// What of a proof may be wrong.
    struct Proof {
        var method = "POST"
        var address: String
        var at: Instant
        var id = UUID().uuidString
        var token: String?
        var type = "dpop+jwt"
        var algorithm = "EdDSA"
        var more = ""
        /// What else the header says.
        var header = ""

        init(_ method: String, _ path: String, at: Instant, token: String? = nil) {
            self.method = method
            address = "https://127.0.0.1\(path)"
            self.at = at
            self.token = token
        }
    }

    func sign(_ proof: Proof) -> String {
        let ath = proof.token.map { #","ath":"\#(InstallKeyPair.hash($0))""# } ?? ""
        let header =
            #"{"typ":"\#(proof.type)","alg":"\#(proof.algorithm)"\#(proof.header),"jwk":\#(json.dropLast())\#(proof.more)}}"#
        let payload =
            #"{"jti":"\#(proof.id)","htm":"\#(proof.method)","htu":"\#(proof.address)","iat":\#(proof.at.milliseconds / 1000)\#(ath)}"#
        let signed =
            Base64.encodeForAddresses(Array(header.utf8)) + "." + Base64.encodeForAddresses(Array(payload.utf8))
        return signed + "." + Base64.encodeForAddresses(key.sign(Array(signed.utf8)))
    }
}

extension LinkingClient {
    func prove(_ key: InstallKeyPair, _ method: String, _ path: String, token: String? = nil) -> (String, String) {
        ("DPoP", key.sign(InstallKeyPair.Proof(method, path, at: clock.now, token: token)))
    }

    /// A call with a token that is bound to a key.
    func call(_ method: String, _ path: String, _ json: String? = nil, token: String, _ key: InstallKeyPair) throws
        -> LinkingAnswer
    {
        try call(
            method, path, json,
            fields: [("Authorization", "DPoP \(token)"), prove(key, method, path, token: token)])
    }

    func user(_ external: String, _ key: InstallKeyPair) throws -> LinkingAnswer {
        try redeem(try code(external), fields: [prove(key, "POST", "/sdk/users")])
    }
}

@Suite("Proof of possession")
struct ProofTests {
    static let stores = StoreKind.allCases

    @Test("thumbprints are those of RFC 9449 and RFC 8037")
    func thumbprints() {
        func part(_ text: String) -> [UInt8] { Base64.decodeForAddresses(Array(text.utf8).span) ?? [] }
        let ec = JSONWebKey(
            .p256(
                x: part("l8tFrhx-34tV3hRICRDY9zCkDlpBhF42UQUfWVAWBFs"),
                y: part("9VE4jf_Ok_o64zbTTlcuNJajHmt6v9TDVrU0CdvGRDA")))
        #expect(ec.thumbprint == "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I")
        let okp = JSONWebKey(.ed25519(part("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo")))
        #expect(okp.thumbprint == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k")
    }

    @Test("binds an install's tokens to its key", arguments: stores)
    func bound(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let (key, thief) = (InstallKeyPair(1), InstallKeyPair(2))
        let user = try client.user("e1", key)
        #expect(user.status == 201 && user["token_type"] == "DPoP")
        #expect(try client.call("GET", "/sdk/person", token: user.token, key).user == user.user)
        #expect(try client.call("POST", "/sdk/reset", "{}", token: user.token, thief).code == "DPOP_PROOF_REQUIRED")
        for answer in [
            try client.person(user.token), try client.config(user.token), try client.reset(user.token),
            try client.submit(user.token, [("a", client.clock.now)]), try client.delete(user.user, key: user.token),
            try client.refresh(user.refreshToken),
        ] { #expect(answer.status == 401 && answer.code == "DPOP_PROOF_REQUIRED", "\(answer)") }
        let body = #"{"grant_type":"refresh_token","refresh_token":"\#(user.refreshToken)"}"#
        let stolen = try client.call("POST", "/sdk/token", body, fields: [client.prove(thief, "POST", "/sdk/token")])
        #expect(stolen.status == 401 && stolen.code == "DPOP_PROOF_REQUIRED")
        let next = try client.call("POST", "/sdk/token", body, fields: [client.prove(key, "POST", "/sdk/token")])
        #expect(next.status == 200 && next["token_type"] == "DPoP", "\(next)")
        #expect(try client.call("GET", "/sdk/config", token: next.token, key).isActive == true)
    }

    @Test("binds a code to the key that it was asked for", arguments: stores)
    func boundCodes(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let (key, thief) = (InstallKeyPair(1), InstallKeyPair(2))
        let code = try client.code("e1", more: #","dpop_jkt":"\#(key.thumbprint)""#)
        let proof = { (key: InstallKeyPair) in [client.prove(key, "POST", "/sdk/users")] }
        for answer in [try client.redeem(code), try client.redeem(code, fields: proof(thief))] {
            #expect(answer.status == 400 && answer.code == "INVALID_AUTHENTICATION_CODE", "\(answer)")
        }
        let install = try client.makeInstall()
        #expect(try client.linkLate(install.token, code).code == "INVALID_AUTHENTICATION_CODE")
        let user = try client.redeem(code, fields: proof(key))
        #expect(user.status == 201)
        // C11: the key is what the install is known by.
        #expect(try client.redeem(code, fields: proof(key)).install == user.install)
        #expect(try client.redeem(code, fields: proof(thief)).status == 400)
        for bad in ["x", String(repeating: "A", count: 44)] {
            #expect(try client.requestCode("e1", more: #","dpop_jkt":"\#(bad)""#).status == 400)
        }
    }

    @Test("is asked for where an app's setting says so", arguments: stores)
    func required(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let app = client.server.credentials.linkingAppID
        let before = try client.user("e1")
        let install = try client.makeInstall()
        _ = try client.set(#"{"apps":{"\#(app)":{"require_proof":true}}}"#)
        for answer in [
            try client.user("e1"), try client.makeInstall(), try client.config(before.token),
            try client.refresh(before.refreshToken), try client.linkHard(install.token),
        ] { #expect(answer.status == 401 && answer.code == "DPOP_PROOF_REQUIRED", "\(answer)") }
        let key = InstallKeyPair()
        #expect(try client.user("e1", key).status == 200)
        #expect(try client.makeInstall(fields: [client.prove(key, "POST", "/sdk/installs")]).status == 201)
    }

    /// What may be wrong with a proof, and what is said of it.
    static let wrong: [(String, @Sendable (inout InstallKeyPair.Proof) -> Void)] = [
        ("htm", { $0.method = "GET" }), ("htu", { $0.address = "https://127.0.0.1/sdk/events" }),
        ("htu", { $0.address = "https://example.com/sdk/reset" }), ("htu", { $0.address = "/sdk/reset" }),
        ("htu", { $0.address = "https://127.0.0.1" }),
        ("from now", { $0.at = $0.at.advanced(byMilliseconds: -61_000) }),
        ("from now", { $0.at = $0.at.advanced(byMilliseconds: 61_000) }), ("jti", { $0.id = "" }),
        ("jti", { $0.id = String(repeating: "x", count: 129) }), ("ath", { $0.token = "another" }),
        ("ath", { $0.token = nil }), ("dpop+jwt", { $0.type = "JWT" }), ("ES256 or EdDSA", { $0.algorithm = "none" }),
        ("ES256 or EdDSA", { $0.algorithm = "HS256" }), ("ES256 or EdDSA", { $0.algorithm = "ES256" }),
        ("private", { $0.more = #","d":"AAAA""# }), ("crit", { $0.header = #","crit":["exp"],"exp":1"# }),
        ("crit", { $0.header = #","crit":[]"# }),
    ]

    @Test("a proof that is not for this call, from now, by this key is refused", arguments: wrong.indices)
    func refused(_ index: Int) throws {
        let client = try LinkingClient(.memory)
        client.clock.advance(milliseconds: 120_000)
        let key = InstallKeyPair()
        let user = try client.user("e1", key)
        var proof = InstallKeyPair.Proof("POST", "/sdk/reset", at: client.clock.now, token: user.token)
        ProofTests.wrong[index].1(&proof)
        let answer = try client.call(
            "POST", "/sdk/reset", "{}", fields: [("Authorization", "DPoP \(user.token)"), ("DPoP", key.sign(proof))])
        #expect(answer.status == 401 && answer.code == "INVALID_DPOP_PROOF", "\(answer)")
        #expect(answer["message"]?.contains(ProofTests.wrong[index].0) == true, "\(answer)")
        #expect(try client.call("GET", "/sdk/config", token: user.token, key).isActive == true)
    }

    @Test(
        "what is no proof is refused",
        arguments: ["", "x", "a.b.c", "..", "e30.e30.", "e30.e30.AAAA", String(repeating: "a", count: 4000) + ".b.c"])
    func garbage(_ proof: String) throws {
        let client = try LinkingClient(.memory)
        let user = try client.user("e1")
        let answer = try client.call(
            "GET", "/sdk/person", fields: [("Authorization", "Bearer \(user.token)"), ("DPoP", proof)])
        #expect(answer.status == 401 && answer.code == "INVALID_DPOP_PROOF", "\(answer)")
    }

    @Test("a proof is good once, also for another loop and long after", arguments: stores)
    func replay(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let key = InstallKeyPair()
        let user = try client.user("e1", key)
        let ahead = client.clock.now.advanced(byMilliseconds: 60_000)
        for at in [client.clock.now, ahead] {
            let proof = key.sign(InstallKeyPair.Proof("GET", "/sdk/person", at: at, token: user.token))
            let fields = [("Authorization", "DPoP \(user.token)"), ("DPoP", proof)]
            #expect(try client.call("GET", "/sdk/person", fields: fields).status == 200)
            for _ in 0..<4 {
                let again = try client.another.call("GET", "/sdk/person", fields: fields)
                #expect(again.status == 401 && again.code == "INVALID_DPOP_PROOF", "\(again)")
                client.clock.advance(milliseconds: 25_000)
            }
        }
        // A server that has just begun does not know what the one before it has seen.
        if kind.isDurable {
            let before = client.clock.now.advanced(byMilliseconds: -1000)
            let restarted = try client.restarted()
            let proof = key.sign(InstallKeyPair.Proof("GET", "/sdk/person", at: before, token: user.token))
            let answer = try restarted.call(
                "GET", "/sdk/person", fields: [("Authorization", "DPoP \(user.token)"), ("DPoP", proof)])
            #expect(answer.code == "INVALID_DPOP_PROOF")
        }
    }

    @Test(
        "a clock that was ahead at the start refuses no proof after its correction",
        arguments: stores.filter(\.isDurable))
    func clockAhead(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let key = InstallKeyPair()
        let user = try client.user("e1", key)
        let ahead: Int64 = 41 * 86_400_000
        client.clock.advance(milliseconds: ahead)
        let restarted = try client.restarted()
        _ = try restarted.user("e2", InstallKeyPair(2))
        client.clock.advance(milliseconds: -ahead)
        let fields = [
            ("Authorization", "DPoP \(user.token)"), restarted.prove(key, "GET", "/sdk/person", token: user.token),
        ]
        let answer = try restarted.call("GET", "/sdk/person", fields: fields)
        #expect(answer.status == 200, "\(answer)")
        // Each proof is still good once.
        #expect(try restarted.call("GET", "/sdk/person", fields: fields).code == "INVALID_DPOP_PROOF")
    }

    @Test("a proof stays used when the clock goes back a little", arguments: [1, 30, 60])
    func clockBack(_ seconds: Int64) throws {
        let client = try LinkingClient(.memory)
        let key = InstallKeyPair()
        let user = try client.user("e1", key)
        func fields() -> [(String, String)] {
            [("Authorization", "DPoP \(user.token)"), client.prove(key, "GET", "/sdk/person", token: user.token)]
        }
        func code(_ fields: [(String, String)]) throws -> String? {
            let answer = try client.call("GET", "/sdk/person", fields: fields)
            return answer.status == 200 ? nil : answer.code
        }
        // The generations turn twice, and a proof is used shortly before each turn.
        var used: [[(String, String)]] = []
        for pause in [1, 118, 3, 118, 3] as [Int64] {
            client.clock.advance(milliseconds: pause * 1000)
            used.append(fields())
            #expect(try code(used[used.count - 1]) == nil)
        }
        client.clock.advance(milliseconds: -seconds * 1000)
        let new = fields()
        _ = try code(new)
        #expect(try (used + [new]).map(code) == Array(repeating: "INVALID_DPOP_PROOF", count: used.count + 1))
    }

    @Test("a key that is named has to be proved, and be a public one of a kind that is known")
    func named() throws {
        let client = try LinkingClient(.memory)
        let (key, other) = (InstallKeyPair(1), InstallKeyPair(2))
        func redeem(_ jwk: String, _ fields: [(String, String)]) throws -> LinkingAnswer {
            try client.call(
                "POST", "/sdk/users",
                #"{"authentication_code":"\#(try client.code("e1"))","install_key":"\#(UUID())","jwk":\#(jwk)}"#,
                fields: fields)
        }
        #expect(try redeem(key.json, []).code == "DPOP_PROOF_REQUIRED")
        #expect(try redeem(key.json, [client.prove(other, "POST", "/sdk/users")]).code == "DPOP_PROOF_REQUIRED")
        #expect(try redeem(key.json, [client.prove(key, "POST", "/sdk/users")]).status == 201)
        for jwk in [#"{"kty":"RSA"}"#, #"{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}"#, "1", "{}"] {
            #expect(try redeem(jwk, []).code == "BAD_REQUEST")
        }
    }

    @Test("ES256, as hardware keys of phones have it, is taken")
    func hardware() throws {
        let client = try LinkingClient(.memory)
        let folder = TemporaryFolder()
        func openssl(_ arguments: String, _ input: [UInt8] = []) throws -> [UInt8] {
            let process = Process()
            process.executableURL = URL(filePath: "/usr/bin/openssl")
            process.arguments = arguments.split(separator: " ").map(String.init)
            process.standardError = FileHandle.nullDevice
            let pipes = try process.start(piping: \.standardInput, \.standardOutput)
            try pipes[0].fileHandleForWriting.write(contentsOf: Data(input))
            try pipes[0].fileHandleForWriting.close()
            let output = try pipes[1].fileHandleForReading.readToEnd() ?? Data()
            process.end()
            return Array(output)
        }
        let file = "\(folder.path)/key.pem"
        _ = try openssl("ecparam -name prime256v1 -genkey -noout -out \(file)")
        let point = try openssl("ec -in \(file) -pubout -outform DER").suffix(64)
        let jwk = JSONWebKey(.p256(x: Array(point.prefix(32)), y: Array(point.suffix(32))))
        let members = jwk.members.map { #""\#($0)":"\#($1)""# }.joined(separator: ",")
        let header = #"{"typ":"dpop+jwt","alg":"ES256","jwk":{\#(members)}}"#
        let payload =
            #"{"jti":"1","htm":"POST","htu":"http://127.0.0.1/sdk/users","iat":\#(client.clock.now.milliseconds / 1000)}"#
        let signed =
            Base64.encodeForAddresses(Array(header.utf8)) + "." + Base64.encodeForAddresses(Array(payload.utf8))
        // DER: a sequence of two integers, each with its length, and a zero before a high bit.
        let der = try openssl("dgst -sha256 -sign \(file)", Array(signed.utf8))
        func integer(at start: Int) -> (bytes: [UInt8], end: Int) {
            let end = start + 2 + Int(der[start + 1])
            let bytes = Array(der[start + 2..<end].drop { $0 == 0 })
            return ([UInt8](repeating: 0, count: 32 - bytes.count) + bytes, end)
        }
        let r = integer(at: 2)
        let proof = signed + "." + Base64.encodeForAddresses(r.bytes + integer(at: r.end).bytes)
        let user = try client.redeem(
            try client.code("e1", more: #","dpop_jkt":"\#(jwk.thumbprint)""#), fields: [("DPoP", proof)])
        #expect(user.status == 201 && user["token_type"] == "DPoP", "\(user)")
    }
}
