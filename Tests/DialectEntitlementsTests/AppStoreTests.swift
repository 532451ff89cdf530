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
            $0.stores.appStoreRoot = root
            $0.stores.options["app_store.bundle_id"] = "com.example.app"
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
                == #"{"object":"list","data":[{"id":"X","active":true,"started":\#(chain.now),"expires":\#(chain.now + 604_800),"source":"appstore","product":{"product_id":"X","store_id":"X","subscription":{"renew_state":"will_renew","current_period_type":"trial"}}}]}"#
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
        try expectFraud(client, chain.sign(transaction(chain), chain: [chain.leaf, chain.intermediate]))
        try expectFraud(client, chain.sign(transaction(chain), chain: [chain.intermediate, chain.leaf, chain.root]))
        try expectFraud(
            client, chain.sign(transaction(chain), chain: [chain.unmarked, chain.intermediate, chain.root]))
        try expectFraud(
            client, chain.sign(transaction(chain), chain: [chain.leaf, stranger.intermediate, stranger.root]))
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

    @Test("are put off where no root is known")
    func noRoot() throws {
        let chain = try AppStoreTests.chain.get()
        let client = try AccessClient(.memory, at: chain.now)
        try client.makeUser("A")
        let answer = try client.purchase("A", chain.sign(transaction(chain)))
        #expect(answer.status == 503 && answer.body.contains("network_error"), "\(answer)")
        #expect(answer["Retry-After"] != nil)
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
