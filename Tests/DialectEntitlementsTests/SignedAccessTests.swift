import ByteText
import Crypto
import Foundation
import TestKit
import Testing

/// Answers about access with a signature (spec/entitlements-live.md 8), checked as an app checks them.
@Suite("Answers about access")
struct SignedAccessTests {
    private static let nonce = Base64.encodeForAddresses([UInt8](repeating: 5, count: 16))

    /// The parts of the field with the signature.
    private func parts(_ answer: Wire.Answer) throws -> [String: String] {
        let field = try #require(answer["Onym-Signature"], "\(answer)")
        let words = field.split(separator: ";").map(String.init)
        #expect(words.first == "v1")
        return Dictionary(
            uniqueKeysWithValues: words.dropFirst().compactMap { word in
                word.firstIndex(of: "=").map { (String(word[..<$0]), String(word[word.index(after: $0)...])) }
            })
    }

    private func isSigned(
        _ client: AccessClient, _ answer: Wire.Answer, _ method: String, _ target: String, device: String = "",
        identity: String = "", nonce: String = SignedAccessTests.nonce
    ) throws -> Bool {
        let parts = try parts(answer)
        func bytes(_ text: String?) -> [UInt8] { text.flatMap { Base64.decodeForAddresses(Array($0.utf8).span) } ?? [] }
        let root = try client.administrator("GET", "/access-root").body
        let rootKey = PublicKey.ed25519(bytes(root.split(separator: "\"").dropLast().last.map(String.init)))
        let keyLines = [parts["kid"], parts["x"], parts["nbf"], parts["end"]].compactMap { $0 }
        let lines = [
            "onym-entitlements-v1", "1", client.world == "test_" ? "sandbox" : "production", method, target, device,
            identity, nonce, parts["t"] ?? "", parts["exp"] ?? "", String(answer.status),
            Hexadecimal.encode(SHA256.digest(of: Array(answer.body.utf8)).bytes),
        ]
        return rootKey.verifies(bytes(parts["root_sig"]), of: Array(keyLines.joined(separator: "\n").utf8))
            && PublicKey.ed25519(bytes(parts["x"])).verifies(
                bytes(parts["sig"]), of: Array(lines.joined(separator: "\n").utf8))
    }

    @Test("are signed where the request has a nonce, also refusals", arguments: StoreKind.allCases)
    func signs(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        let nonce = [("Onym-Nonce", SignedAccessTests.nonce)]
        let made = try client.call("POST", "/v3/users/A", #"{"environment":"sandbox"}"#, fields: nonce)
        #expect(try made.status == 201 && isSigned(client, made, "POST", "/v3/users/A"))
        let view = nonce + [("Onym-Device-User", "A"), ("Onym-Identity", "")]
        let target = "/v3/users/A/entitlements?explain=true"
        let list = try client.call("GET", target, fields: view)
        #expect(try list.status == 200 && isSigned(client, list, "GET", target, device: "A"))
        #expect(try !isSigned(client, list, "GET", "/v3/users/B/entitlements?explain=true", device: "A"))
        #expect(try !isSigned(client, list, "GET", target, device: "B"))
        #expect(try !isSigned(client, list, "GET", target, device: "A", identity: "u"))
        #expect(try !isSigned(client, list, "GET", target, device: "A", nonce: "AAAAAAAAAAAAAAAAAAAAAA"))
        let missing = try client.call("GET", "/v3/users/none", fields: nonce)
        #expect(try missing.status == 404 && isSigned(client, missing, "GET", "/v3/users/none"))
        let wrong = try client.call("POST", "/v3/users/A/purchases", "{", fields: nonce)
        #expect(try wrong.status >= 400 && isSigned(client, wrong, "POST", "/v3/users/A/purchases"))
        let linked = try client.call("POST", "/v3/identities/u1", #"{"user_id":"A"}"#, fields: nonce)
        #expect(try linked.status < 300 && isSigned(client, linked, "POST", "/v3/identities/u1"))
        let launch = try client.call(
            "POST", "/v1/user/init", #"{"q_uid":"A","version":"6.13.0"}"#, fields: nonce + [("Platform", "iOS")])
        #expect(try launch.status == 200 && isSigned(client, launch, "POST", "/v1/user/init"))
        // Without a nonce, and without a project, nothing is signed.
        #expect(try client.call("GET", target)["Onym-Signature"] == nil)
        #expect(try client.call("GET", target, fields: [("Onym-Nonce", "short")])["Onym-Signature"] == nil)
        #expect(try client.call("GET", target, key: "nobody", fields: nonce)["Onym-Signature"] == nil)
        #expect(try client.call("GET", "/v3/users/A/properties", fields: nonce)["Onym-Signature"] == nil)
    }

    @Test("count without the server for as long as their access, and at most a month")
    func ends() throws {
        let client = try AccessClient(.memory)
        try client.makeUser("A")
        func usable() throws -> Int64 {
            let answer = try client.call(
                "GET", "/v3/users/A/entitlements", fields: [("Onym-Nonce", SignedAccessTests.nonce)])
            return try #require(Int64(parts(answer)["exp"] ?? "")) - client.clock.seconds
        }
        #expect(try usable() == 30 * 86_400)
        let end = client.clock.seconds + 86_400
        _ = try client.call(
            "POST", "/v3/users/A/entitlements", #"{"id":"X","expires":\#(end)}"#, key: client.secretKey)
        #expect(try usable() == 4 * 86_400, "three days after the end of the day")
        _ = try client.call("POST", "/v3/users/A/entitlements", #"{"id":"Y"}"#, key: client.secretKey)
        #expect(try usable() == 30 * 86_400)
    }

    @Test("have keys that change each month, and are in the server's list of keys")
    func keys() throws {
        let client = try AccessClient(.memory)
        try client.makeUser("A")
        func id() throws -> String {
            let answer = try client.call("GET", "/v3/users/A", fields: [("Onym-Nonce", SignedAccessTests.nonce)])
            #expect(try isSigned(client, answer, "GET", "/v3/users/A"))
            return try #require(parts(answer)["kid"])
        }
        let first = try id()
        let list = try client.http.call("GET", "/.well-known/jwks.json").body
        #expect(list.contains("\"kid\":\"\(first)\"") && list.contains("root_sig"), "\(list)")
        #expect(try client.http.call("GET", "/.well-known/jwks.json").body == list, "the list is kept")
        #expect(list.components(separatedBy: "root_sig").count == 4, "three keys of one project")
        client.clock.advance(days: 30)
        let second = try id()
        #expect(second != first && list.contains("\"kid\":\"\(second)\""), "the next key was in the list before")
        #expect(try client.http.call("GET", "/.well-known/jwks.json").body.contains("\"kid\":\"\(first)\""))
        #expect(try client.http.call("GET", "/.well-known/jwks.json").body != list, "each month has a list of its own")
    }
}
