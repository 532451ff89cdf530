import ByteText
import Crypto
import DialectIDSync
import TestKit
import Testing

@Suite("Who calls IDSync")
struct AuthenticationTests {
    @Test(
        "signs as the vendor's clients do",
        arguments: [
            ("20170712T224127Z", "b795bc485a38e1aff3c4897be8120a7c87d27b359005e59b815db817268c9655"),
            ("Wed, 12 Jul 2017 22:41:27 GMT", "0c041378e90f5b1261798355dfe0cbb3998612453b172713cfcbf4038b8ba661"),
        ])
    func vectors(_ date: String, _ expected: String) {
        let body = """
            {"client_sdk":{"platform":"android","sdk_vendor":"mparticle","sdk_version":"5.0.0"},\
            "environment":"development","request_timestamp_ms":1499875715564,\
            "request_id":"ad58a7c1-cf35-4be5-8c42-a09989f85cc1","known_identities":{"android_uuid":"f924f1e5707b34b7"}}
            """
        let head = IDSyncSignature.head("POST", date: Array(date.utf8), path: "/v1/identify")
        let signature = HMAC(key: Array("example-api-secret".utf8)).authenticate(head, Array(body.utf8))
        #expect(Hexadecimal.encode(signature.bytes) == expected)
    }

    @Test("takes every kind of client for what it is, and all of them for one project", arguments: StoreKind.allCases)
    func proofs(_ kind: StoreKind) throws {
        let client = IDSyncClient(try TestServer(kind))
        let mpids = try IDSyncClient.Proof.allCases.map { try client.identify(#"{"customerid":"1"}"#, by: $0).mpid }
        #expect(Set(mpids).count == 1, "\(mpids)")
    }

    @Test("derives a secret from its key, another one from another key or another master key")
    func secrets() {
        let secrets = IDSyncSecrets(master: [1])
        #expect(secrets.secret(for: "us1-a") == IDSyncSecrets(master: [1]).secret(for: "us1-a"))
        #expect(secrets.secret(for: "us1-a") != secrets.secret(for: "us1-b"))
        #expect(secrets.secret(for: "us1-a") != IDSyncSecrets(master: [2]).secret(for: "us1-a"))
        #expect(secrets.secret(for: "us1-a").utf8.count == 64)
    }

    @Test("accepts a signature over the path with its query, and over the path alone")
    func query() throws {
        let client = IDSyncClient(try TestServer(.memory))
        let body = IDSyncClient.body(#"{"customerid":"1"}"#)
        for signed in ["/v1/identify", "/v1/identify?read_only=0"] {
            #expect(try client.call("/v1/identify?read_only=0", body, by: .apple, signedPath: signed).status == 200)
        }
        #expect(
            try client.call("/v1/identify?read_only=0", body, by: .apple, signedPath: "/v1/identify?read_only=1").status
                == 401)
    }

    @Test("takes a date of any time, unless a window is set; then only one within it", arguments: StoreKind.allCases)
    func dates(_ kind: StoreKind) throws {
        // 21 November 2026, 09:00 UTC.
        let clock = ManualClock(1_795_251_600_000)
        let strict = IDSyncClient(
            try TestServer(kind) { configuration in
                configuration.signedDateWindowMinutes = 10
                configuration.clock = { clock.now }
            })
        let lenient = IDSyncClient(try TestServer(kind) { $0.clock = { clock.now } })
        func statuses(_ client: IDSyncClient) throws -> [Int] {
            try [.apple, .android, .basic, .web].map { try client.identify(#"{"customerid":"1"}"#, by: $0).wire.status }
        }
        #expect(try statuses(strict) == [200, 200, 200, 200])
        clock.advance(milliseconds: 10 * 60_000 + 1000)
        #expect(try statuses(strict) == [401, 401, 200, 200], "only a signature has a date")
        #expect(try statuses(lenient) == [200, 200, 200, 200])
        clock.advance(milliseconds: -20 * 60_000)
        #expect(try statuses(strict) == [200, 200, 200, 200])
    }

    @Test("tells others apart, and says no more than no", arguments: StoreKind.allCases)
    func refused(_ kind: StoreKind) throws {
        let server = try TestServer(kind)
        let credentials = server.credentials
        let client = server.client
        let body = IDSyncClient.body(#"{"customerid":"1"}"#)
        func basic(_ key: String, _ secret: String) -> (String, String) {
            ("Authorization", "Basic \(Base64.encode(Array("\(key):\(secret)".utf8)))")
        }
        let right = HMAC(key: Array(credentials.idsyncSecret.utf8)).authenticate(
            IDSyncSignature.head("POST", date: Array("d".utf8), path: "/v1/identify"), Array(body.utf8))
        let signature = ("x-mp-signature", Hexadecimal.encode(right.bytes))
        let key = ("x-mp-key", credentials.idsyncKey)
        #expect(
            try client.call("POST", "/v1/identify", fields: [key, ("Date", "d"), signature], json: body).status == 200)

        let callers: [(String, [(String, String)])] = [
            ("nobody", []),
            ("a key that is none", [("x-mp-key", "us1-00000000000000000000000000000000")]),
            ("an empty key", [("x-mp-key", "")]),
            ("a key that has to sign", [key]),
            ("a signature without a date", [key, signature]),
            ("a signature with another date", [key, ("Date", "e"), signature]),
            ("a signature that is none", [key, ("Date", "d"), ("x-mp-signature", "zz")]),
            ("a signature that is cut", [key, ("Date", "d"), ("x-mp-signature", String(signature.1.dropLast(2)))]),
            ("another key's signature", [("x-mp-key", credentials.idsyncWebKey), ("Date", "d"), signature]),
            ("a wrong secret", [basic(credentials.idsyncKey, "wrong")]),
            ("no secret", [basic(credentials.idsyncKey, "")]),
            ("a web key with a secret", [basic(credentials.idsyncWebKey, "x")]),
            ("Basic without a colon", [("Authorization", "Basic \(Base64.encode(Array("abc".utf8)))")]),
            ("Basic that is not Base64", [("Authorization", "Basic ???")]),
            ("Bearer", [("Authorization", "Bearer \(credentials.idsyncKey)")]),
            ("a claim key", [("x-mp-key", credentials.claimClientKey)]),
            ("an admin key", [("x-mp-key", credentials.adminKey)]),
            ("an entitlements key", [basic(credentials.entitlementsSecretKey, "x")]),
        ]
        for (name, fields) in callers {
            let answer = try client.call("POST", "/v1/identify", fields: fields, json: body)
            #expect(answer.status == 401 && answer.body.isEmpty, "\(name): \(answer)")
        }
        #expect(server.store.counts.people == 1, "only the one that was right has made anybody")
    }
}
