import ByteText
import Crypto
import DialectEntitlements
import Domain
import Foundation
import TestKit
import Testing

/// Receipts that are in too many hands, and offers for subscribers (spec/entitlements-live.md 1.3, 2).
@Suite("Shared receipts and offers")
struct SharedReceiptTests {
    private let transaction = "t1"

    /// A purchase of u1 that 21 installs have proven, under a project's setting.
    private func scene(_ kind: StoreKind, freezes: Bool) throws -> (AccessClient, owner: Install, joined: Install) {
        let client = try AccessClient(kind, restore: "transfer")
        if freezes { try client.administrator("PUT", "/access", #"{"on_shared_receipt":"freeze"}"#) }
        let owner = try Install("owner", .exact, client)
        try owner.buy("X", transaction)
        try owner.identify("u1")
        var joined = owner
        for number in 1...Purchase.installsPerMonth {
            joined = try Install("i\(number)", .exact, client)
            #expect(try joined.restore([client.receipt("X", transaction)]).status == 200, "\(number)")
        }
        return (client, owner, joined)
    }

    private func check(_ client: AccessClient) throws -> String {
        try client.administrator("GET", "/purchases/appstore:\(transaction)/check").body
    }

    @Test(
        "a frozen purchase stays with its installs and its owner, until an administrator ends that",
        arguments: StoreKind.allCases)
    func freezes(_ kind: StoreKind) throws {
        let (client, owner, joined) = try scene(kind, freezes: true)
        #expect(try check(client).contains(#""owners":["u1"],"installs":21,"frozen":true"#))
        let receipt = client.receipt("X", transaction)
        let late = try Install("late", .exact, client)
        let before = client.server.store.counts.lastSequence
        let refused = try late.restore([receipt])
        let noted = client.server.store.counts.lastSequence
        #expect(try late.restore([receipt]).status == 422)
        #expect(noted > before && client.server.store.counts.lastSequence == noted, "the journal notes it once")
        #expect(refused.status == 422 && refused.body.contains(#""code":"already_exists""#), "\(refused)")
        #expect(try late.buy("X", transaction).status == 422)
        let both = try late.restore([receipt, client.receipt("Y", "t2")])
        #expect(both.body.contains(#""outcome":"frozen""#) && both.body.contains(#""outcome":"yours""#), "\(both)")
        #expect(try late.active() == ["Y"])
        try joined.identify("u2")
        #expect(try joined.restore([receipt]).status == 422, "a transfer")
        #expect(try owner.active() == ["X"] && joined.active() == [])
        joined.logOut()
        #expect(try joined.active() == ["X"])
        #expect(try joined.restore([receipt]).body.contains(#""outcome":"yours""#))
        // A start goes on.
        let start = try client.call(
            "POST", "/v1/user/init", #"{"q_uid":"QON_late","version":"6.0.0","receipt":"\#(receipt)"}"#,
            fields: [("Platform", "ios"), ("Trigger", "Init")])
        #expect(start.status == 200 && !start.body.contains(#""id":"X","associated_product""#), "\(start)")
        // What the store says counts, whoever brings it.
        let renewed = client.receipt(
            "X", "t1b", expires: client.clock.seconds + 90 * 86_400, original: transaction,
            signed: client.clock.seconds + 1)
        #expect(try late.restore([renewed]).status == 422)
        client.clock.advance(days: 60)
        #expect(try owner.active() == ["X"])
        let path = "/purchases/appstore:\(transaction)"
        #expect(try client.call("POST", "/onym/v1\(path)/unfreeze", key: client.projectKey).status == 401)
        #expect(try client.administrator("POST", "/purchases/appstore:other/unfreeze").status == 404)
        for _ in 0..<2 {
            #expect(try client.administrator("POST", "\(path)/unfreeze").body.contains(#""frozen":false"#))
        }
        #expect(try late.restore([renewed]).status == 200)
        #expect(try late.active() == ["X", "Y"].filter { $0 == "X" })
        #expect(try check(client).contains(#""frozen":false"#), "earlier proofs do not count again")
    }

    @Test("a shared receipt is in the journal once a day and person, in the metric each time, and in explain")
    func told() throws {
        let (client, owner, joined) = try scene(.memory, freezes: false)
        func metric() throws -> Int? {
            let key = client.server.credentials.adminKey
            let text = try client.call("GET", "/metrics", key: key).body
            return text.firstMatch(of: /\nonym_shared_receipts_total (\d+)/).flatMap { Int($0.1) }
        }
        #expect(Patience.until { (try? metric()) == 1 })
        func notes() throws -> Int {
            try client.server.store.read { snapshot throws(StoreFault) in
                try snapshot.calls(after: .zero, limit: 1000).count { $0.kind == .sharedReceipt }
            }
        }
        #expect(try notes() == 1)
        // What changes no part in the purchase is no proof.
        #expect(try joined.restore([client.receipt("X", transaction)]).status == 200)
        #expect(try notes() == 1 && metric() == 1)
        let late = try Install("late", .exact, client)
        #expect(try late.restore([client.receipt("X", transaction)]).status == 200)
        #expect(try notes() == 2)
        #expect(Patience.until { (try? metric()) == 2 })
        let path = "/v3/users/\(owner.current)/entitlements?explain=true"
        let told = try client.call("GET", path, key: client.secretKey).body
        #expect(told.contains(#""shared_at":\#(client.clock.seconds),"owners""#), "\(told)")
        #expect(try !client.call("GET", path).body.contains("shared_at"))
    }

    @Test("without the setting a shared receipt is only noted, and the setting counts for what was noted")
    func tells() throws {
        let (client, _, _) = try scene(.memory, freezes: false)
        #expect(try check(client).contains(#""frozen":false"#))
        let late = try Install("late", .exact, client)
        #expect(try late.restore([client.receipt("X", transaction)]).status == 200)
        let settings = try client.administrator("PUT", "/access", #"{"on_shared_receipt":"freeze"}"#)
        #expect(settings.body == #"{"created":"seconds","on_shared_receipt":"freeze"}"#)
        #expect(try check(client).contains(#""frozen":true"#))
        for body in ["{}", #"{"on_shared_receipt":"stop"}"#, #"{"shared":1}"#] {
            #expect(try client.administrator("PUT", "/access", body).status == 400, "\(body)")
        }
        #expect(try client.administrator("PUT", "/access", #"{"created":"milliseconds"}"#).body.contains("freeze"))
    }

    @Test("nobody gets a frozen purchase by a sign-in, or by a name of its account")
    func bypasses() throws {
        let client = try AccessClient(.memory, restore: "transfer")
        try client.administrator("PUT", "/access", #"{"on_shared_receipt":"freeze"}"#)
        let owner = try Install("owner", .exact, client)
        try owner.buy("X", transaction, account: "acc")
        var joined = owner
        for number in 1...Purchase.installsPerMonth {
            joined = try Install("i\(number)", .exact, client)
            #expect(try joined.restore([client.receipt("X", transaction)]).status == 200)
        }
        #expect(try check(client).contains(#""owners":[],"installs":21,"frozen":true"#))
        try joined.identify("u9")
        #expect(try check(client).contains(#""owners":[]"#), "a sign-in")
        let late = try Install("late", .exact, client)
        #expect(try late.buy("Y", "t2", account: "acc").status == 201)
        #expect(try late.active() == ["Y"], "a name")
        #expect(try owner.buy("Z", "t3", account: "acc").status == 201)
        #expect(try owner.active() == ["X", "Y", "Z"], "who has the name keeps it")
        try client.administrator("POST", "/purchases/appstore:\(transaction)/unfreeze")
        #expect(try late.buy("Y", "t2", account: "acc").status < 300)
        #expect(try late.active() == ["X", "Y", "Z"])
    }

    @Test("a change of the product is no new proof, and keeps the end of a freeze")
    func upgrade() throws {
        let scene = try PlayScene()
        let client = scene.client
        try client.administrator("PUT", "/access", #"{"on_shared_receipt":"freeze"}"#)
        scene.google.says("old", scene.subscription(until: 400))
        for number in 0...Purchase.installsPerMonth { _ = try scene.buy("i\(number)", "old") }
        func isFrozen(_ token: String) throws -> Bool {
            try client.administrator("GET", "/purchases/playstore:\(token)/check").body.contains(#""frozen":true"#)
        }
        #expect(try isFrozen("old"))
        client.clock.advance(days: 1)
        try client.administrator("POST", "/purchases/playstore:old/unfreeze")
        client.clock.advance(days: 1)
        scene.google.says(
            "new",
            scene.subscription(
                product: "Y", order: "GPA.2", from: 2, until: 400, more: #","linkedPurchaseToken":"old""#)
        )
        #expect(try scene.changed("new").status == 200)
        #expect(try client.active("i7") == ["Y"])
        #expect(try !isFrozen("new"))
        _ = try scene.buy("late", "new", product: "Y")
        #expect(try client.active("late") == ["Y"])
    }

    @Test("an offer is signed for the app of the key")
    func offers() throws {
        let folder = TemporaryFolder()
        let path = folder.path + "/key"
        let made = try Shell.result(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", path])
        #expect(made.code == 0)
        let pem = try String(contentsOf: URL(filePath: path), encoding: .utf8)
        let client = try AccessClient(.memory)
        try client.makeUser("A")
        func sign(_ body: String) throws -> Wire.Answer {
            try client.call("POST", "/v3/users/A/offers/spring/signatures", body)
        }
        let body =
            #"{"product":"X","app_account_token":"6F1E5F0A-0000-4000-8000-00000000000A","app_bundle_id":"com.example.app"}"#
        let missing = try sign(body)
        #expect(missing.status == 422 && missing.body.contains(#""code":"not_implemented""#), "\(missing)")
        let alone = try JSONSerialization.data(withJSONObject: ["app_store": ["offer_key": pem, "offer_key_id": "K1"]])
        let refused = try client.administrator("PUT", "/stores", String(decoding: alone, as: UTF8.self))
        #expect(refused.body.contains("app_store.bundle_id"), "\(refused)")
        #expect(try sign(body).status == 422, "a caller names no app")
        let options = try JSONSerialization.data(withJSONObject: [
            "app_store": ["offer_key": pem, "offer_key_id": "K1", "bundle_id": "com.example.app"]
        ])
        #expect(try client.administrator("PUT", "/stores", String(decoding: options, as: UTF8.self)).status == 200)
        #expect(try sign(body.replacing("com.example.app", with: "com.other")).status == 422)
        #expect(try sign("{}").status == 400)
        let answer = try sign(body)
        let members = try #require(try JSONSerialization.jsonObject(with: Data(answer.body.utf8)) as? [String: String])
        let nonce = try #require(members["nonce"])
        #expect(UUID(uuidString: nonce) != nil && nonce == nonce.lowercased())
        #expect(members["timestamp"] == "\(client.clock.seconds * 1000)" && members["key_identifier"] == "K1")
        // Apple's check, by OpenSSL.
        let text = [
            "com.example.app", "K1", "X", "spring", "6f1e5f0a-0000-4000-8000-00000000000a", nonce,
            "\(client.clock.seconds * 1000)",
        ].joined(separator: "\u{2063}")
        try Data(text.utf8).write(to: URL(filePath: folder.path + "/text"))
        let signature = try #require(Data(base64Encoded: members["signature"] ?? ""))
        try signature.write(to: URL(filePath: folder.path + "/signature"))
        let pub = try Shell.result(["openssl", "ec", "-in", path, "-pubout", "-out", folder.path + "/public"])
        #expect(pub.code == 0)
        let checked = try Shell.result([
            "openssl", "dgst", "-sha256", "-verify", folder.path + "/public", "-signature", folder.path + "/signature",
            folder.path + "/text",
        ])
        #expect(checked.code == 0, "\(checked)")
    }
}
