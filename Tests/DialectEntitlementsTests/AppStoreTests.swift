import ByteText
import Crypto
import DialectEntitlements
import Foundation
import TestKit
import Testing

/// Transactions that the App Store has signed (spec/entitlements.md, decision 11), against a chain of certificates of our own.
@Suite("App Store transactions")
struct AppStoreTests {
    private static let chain = Result { try AppleChain() }

    private func client(_ kind: StoreKind = .memory) throws -> (AccessClient, AppleChain) {
        let chain = try AppStoreTests.chain.get()
        let root = try #require(Certificate(pem: chain.rootPEM))
        let client = try AccessClient(kind, at: chain.now) {
            $0.stores.appStore = AppStore(root: root, bundleID: "com.example.app")
        }
        try client.makeUser("A")
        return (client, chain)
    }

    private func transaction(_ chain: AppleChain, _ changes: [String: any Sendable] = [:]) -> [String: Any] {
        var payload: [String: Any] = [
            "transactionId": "2", "originalTransactionId": "1", "bundleId": "com.example.app", "productId": "X",
            "purchaseDate": chain.now * 1000, "expiresDate": (chain.now + 604_800) * 1000,
            "signedDate": chain.now * 1000, "type": "Auto-Renewable Subscription", "environment": "Sandbox",
            "inAppOwnershipType": "PURCHASED", "quantity": 1,
        ]
        for (key, value) in changes { payload[key] = value }
        return payload
    }

    @Test("give what they tell of", arguments: StoreKind.allCases)
    func takes(_ kind: StoreKind) throws {
        let (client, chain) = try client(kind)
        let signed = try chain.sign(transaction(chain, ["offerType": 1, "offerDiscountType": "FREE_TRIAL"]))
        let answer = try client.purchase("A", signed)
        #expect(answer.status == 201, "\(answer)")
        #expect(
            try client.call("GET", "/v3/users/A/entitlements").body
                == #"{"object":"list","data":[{"id":"X","active":true,"started":\#(chain.now),"expires":\#(chain.now + 604_800),"source":"appstore","product":{"product_id":"X","subscription":{"renew_state":"will_renew","current_period_type":"trial"}}}]}"#
        )
        // The store took it back.
        let revoked = try chain.sign(transaction(chain, ["revocationDate": chain.now * 1000]))
        #expect(try client.purchase("A", revoked).status == 200)
        #expect(try client.active("A") == [])
        #expect(try client.events("A") == ["entitlement_lost", "entitlement_granted"])
        // What it said before does not bring it back; what it says afterwards does.
        #expect(try client.purchase("A", signed).status == 200)
        #expect(try client.active("A") == [])
        let again = try chain.sign(transaction(chain, ["signedDate": chain.now * 1000 + 1000]))
        #expect(try client.purchase("A", again).status == 200)
        #expect(try client.active("A") == ["X"])
    }

    @Test("are taken back by a restore as well, which is told", arguments: StoreKind.allCases)
    func restored(_ kind: StoreKind) throws {
        let (client, chain) = try client(kind)
        #expect(try client.purchase("A", try chain.sign(transaction(chain))).status == 201)
        let revoked = try chain.sign(transaction(chain, ["revocationDate": chain.now * 1000]))
        for _ in 0..<2 {
            let answer = try client.call("POST", "/v3/users/A/restore", #"{"transactions":["\#(revoked)"]}"#)
            #expect(answer.status == 200, "\(answer)")
        }
        #expect(try client.active("A") == [])
        #expect(try client.events("A") == ["entitlement_lost", "entitlement_granted"])
    }

    @Test("name the store account where the app has named it")
    func account() throws {
        let (client, chain) = try client()
        let token = "5a4c8a2e-1111-2222-3333-444455556666"
        let (a, b) = (try Install("P", .exact, client), try Install("Q", .exact, client))
        for (install, id, product) in [(a, "11", "X"), (b, "12", "Y")] {
            let signed = try chain.sign(
                transaction(
                    chain,
                    [
                        "transactionId": id, "originalTransactionId": id, "productId": product,
                        "appAccountToken": token,
                    ]))
            let fields = [("Onym-Device-User", install.original), ("Onym-Identity", "")]
            #expect(try client.purchase(install.current, signed, fields: fields).status == 201)
        }
        #expect(try a.active() == ["X", "Y"])
        #expect(try b.active() == ["X", "Y"])
    }

    static let foreign: [(String, [String: any Sendable])] = [
        ("another app's", ["bundleId": "com.example.other"]), ("no app's", ["bundleId": ""]),
        ("the other world's", ["environment": "Production"]), ("no world's", ["environment": ""]),
        ("nothing bought", ["productId": ""]), ("no transaction", ["transactionId": ""]),
        ("a price for a time", ["purchaseDate": "now"]), ("no time at all", ["expiresDate": -5]),
        ("signed long ago", ["signedDate": 1_000_000_000_000]), ("signed tomorrow", ["signedDate": 4_000_000_000_000]),
        ("over", ["expiresDate": 1_700_000_000_000]),
    ]

    @Test("are refused where they are another's, or over", arguments: foreign.map(\.0))
    func refuses(_ name: String) throws {
        let (client, chain) = try client()
        let changes = AppStoreTests.foreign.first { $0.0 == name }?.1 ?? [:]
        var payload = transaction(chain)
        for (key, value) in changes { payload[key] = value }
        try expectFraud(client, chain.sign(payload))
    }

    @Test("are refused where nobody has signed whom the root vouches for")
    func forged() throws {
        let (client, chain) = try client()
        let stranger = try AppleChain()
        let good = try chain.sign(transaction(chain))
        try expectFraud(client, stranger.sign(transaction(chain)))
        try expectFraud(client, chain.sign(transaction(chain), chain: []))
        try expectFraud(client, chain.sign(transaction(chain), chain: [chain.leaf]))
        try expectFraud(client, chain.sign(transaction(chain), chain: [chain.intermediate, chain.leaf]))
        try expectFraud(client, chain.sign(transaction(chain), chain: [chain.unmarked, chain.intermediate]))
        try expectFraud(client, chain.sign(transaction(chain), chain: [chain.leaf, stranger.intermediate]))
        try expectFraud(client, chain.sign(transaction(chain), algorithm: "none"))
        try expectFraud(client, chain.sign(transaction(chain), algorithm: "HS256"))
        let parts = good.split(separator: ".").map(String.init)
        let other = try chain.sign(transaction(chain, ["productId": "Y"])).split(separator: ".").map(String.init)
        for text in [
            "\(parts[0]).\(other[1]).\(parts[2])", "\(parts[0]).\(parts[1]).", "\(parts[0]).\(parts[1])",
            "\(parts[0]).\(parts[1]).AAAA", "..", "a.b.c", "\(good).x", "\(good)=",
        ] {
            try expectFraud(client, text)
        }
        #expect(try client.purchase("A", good).status == 201)
    }

    @Test("are refused where no root is known")
    func noRoot() throws {
        let chain = try AppStoreTests.chain.get()
        let client = try AccessClient(.memory, at: chain.now)
        try client.makeUser("A")
        try expectFraud(client, chain.sign(transaction(chain)))
    }

    private func expectFraud(
        _ client: AccessClient, _ receipt: String, _ location: SourceLocation = #_sourceLocation
    ) throws {
        let before = client.server.store.counts
        let answer = try client.purchase("A", receipt)
        #expect(answer.status == 422 && answer.body.contains("purchase_fraud"), "\(answer)", sourceLocation: location)
        var after = before
        after.lastSequence = before.lastSequence.next
        #expect(client.server.store.counts == after, sourceLocation: location)
    }
}

/// A root, what it vouches for, and what that vouches for: as Apple has them.
private final class AppleChain: Sendable {
    let now: Int64
    let rootPEM: [UInt8]
    let intermediate: String
    let leaf: String
    /// A leaf that is not marked as one that signs receipts.
    let unmarked: String
    private let folder = TemporaryFolder()

    init() throws {
        let path = folder.path
        func run(_ words: [String]) throws {
            let result = try Shell.result(words)
            guard result.code == 0 else { throw Shell.Failed(description: result.errors) }
        }
        func make(_ name: String, by issuer: String?, _ extensions: String) throws -> String {
            try Data(extensions.utf8).write(to: URL(filePath: "\(path)/\(name).ext"))
            try run([
                "openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                "/CN=\(name)",
                "-keyout", "\(path)/\(name).key", "-out", "\(path)/\(name).csr",
            ])
            var words = [
                "openssl", "x509", "-req", "-in", "\(path)/\(name).csr", "-days", "2", "-extfile",
                "\(path)/\(name).ext",
                "-out", "\(path)/\(name).pem",
            ]
            if let issuer {
                words += ["-CA", "\(path)/\(issuer).pem", "-CAkey", "\(path)/\(issuer).key", "-CAcreateserial"]
            } else {
                words += ["-signkey", "\(path)/\(name).key"]
            }
            try run(words)
            try run(["openssl", "x509", "-in", "\(path)/\(name).pem", "-outform", "DER", "-out", "\(path)/\(name).der"])
            return Base64.encode(try [UInt8](Data(contentsOf: URL(filePath: "\(path)/\(name).der"))))
        }
        let authority = "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign\n"
        _ = try make("root", by: nil, authority)
        intermediate = try make("intermediate", by: "root", authority + "1.2.840.113635.100.6.2.1=ASN1:NULL\n")
        let signing = "keyUsage=critical,digitalSignature\n"
        leaf = try make("leaf", by: "intermediate", signing + "1.2.840.113635.100.6.11.1=ASN1:NULL\n")
        unmarked = try make("unmarked", by: "intermediate", signing)
        rootPEM = try [UInt8](Data(contentsOf: URL(filePath: "\(path)/root.pem")))
        // All of them hold from some moment before now on.
        now = Int64(Date().timeIntervalSince1970)
    }

    /// A signed token of a payload.
    func sign(_ payload: [String: Any], chain: [String]? = nil, algorithm: String = "ES256") throws -> String {
        let certificates = chain ?? [leaf, intermediate]
        let header = try JSONSerialization.data(withJSONObject: ["alg": algorithm, "x5c": certificates])
        let body = try JSONSerialization.data(withJSONObject: payload)
        let signed = Base64.encodeForAddresses([UInt8](header)) + "." + Base64.encodeForAddresses([UInt8](body))
        let files = TemporaryFolder()
        try Data(signed.utf8).write(to: URL(filePath: files.path + "/text"))
        let key = certificates.first == unmarked ? "unmarked" : "leaf"
        let result = try Shell.result([
            "openssl", "dgst", "-sha256", "-sign", "\(folder.path)/\(key).key", "-out", files.path + "/signature",
            files.path + "/text",
        ])
        guard result.code == 0 else { throw Shell.Failed(description: result.errors) }
        let der = try [UInt8](Data(contentsOf: URL(filePath: files.path + "/signature")))
        return signed + "." + Base64.encodeForAddresses(AppleChain.raw(der))
    }

    /// A sequence of two integers as 32 bytes each.
    private static func raw(_ der: [UInt8]) -> [UInt8] {
        var rest = der.dropFirst(2)
        func integer() -> [UInt8] {
            let count = Int(rest[rest.startIndex + 1])
            let bytes = rest.dropFirst(2).prefix(count).drop { $0 == 0 }
            rest = rest.dropFirst(2 + count)
            return [UInt8](repeating: 0, count: 32 - bytes.count) + bytes
        }
        return integer() + integer()
    }
}
