import Foundation
import TestKit
import Testing

/// Telling of purchases (spec/entitlements.md 1.6), on every store.
@Suite("Purchases of Entitlements")
struct PurchaseTests {
    @Test("a purchase is echoed, and gives its entitlement", arguments: StoreKind.allCases)
    func buys(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        try client.makeUser("A")
        let receipt = client.receipt("X", "t1")
        let body =
            #"{"price":"12.99","currency":"usd","purchased":1750000123,"play_store_data":{"receipt":"\#(receipt)","nothing":null,"deep":{"a":null,"b":[null,1]}}}"#
        let echo =
            #"{"price":"12.99","currency":"USD","purchased":1750000000,"play_store_data":{"receipt":"\#(receipt)","deep":{"b":[1]}},"user_id":"A"}"#
        let answer = try client.call("POST", "/v3/users/A/purchases", body)
        #expect(answer.status == 201 && answer.body == echo, "\(answer)")
        let again = try client.call("POST", "/v3/users/A/purchases", body)
        #expect(again.status == 200 && again.body == echo, "told again: \(again)")
        #expect(
            try client.call("GET", "/v3/users/A/entitlements").body
                == #"{"object":"list","data":[{"id":"X","active":true,"started":1750000000,"expires":1752592000,"source":"appstore","product":{"product_id":"X","store_id":"X","subscription":{"renew_state":"will_renew","current_period_type":"normal"}}}]}"#
        )
        client.clock.advance(days: 30)
        #expect(
            try client.call("GET", "/v3/users/A/entitlements").body.contains(#""id":"X","active":false,"#),
            "by the server's clock")
    }

    @Test(
        "a key belongs to one call; another call about the same transaction needs another key, and the purchase is known",
        arguments: StoreKind.allCases)
    func keys(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        for user in ["A", "B"] { try client.makeUser(user) }
        let receipt = client.receipt("X", "t1")
        func tell(_ user: String, price: String, key: String) throws -> Int {
            let body = #"{"price":"\#(price)","currency":"EUR","app_store_data":{"receipt":"\#(receipt)"}}"#
            return try client.call("POST", "/v3/users/\(user)/purchases", body, fields: [("Idempotency-Key", key)])
                .status
        }
        #expect(try tell("A", price: "9.99", key: "1") == 201)
        #expect(try tell("A", price: "9.99", key: "1") == 201, "the first answer again")
        #expect(try tell("A", price: "0", key: "1") == 422)
        #expect(try tell("B", price: "9.99", key: "1") == 422)
        #expect(try tell("A", price: "0", key: "2") == 200)
        #expect(try client.active("A") == ["X"])
    }

    @Test("what lasts for ever has no end, and is no subscription", arguments: StoreKind.allCases)
    func lifetime(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        try client.sell("life", #"{"type":"non_consumable","entitlements":["X","Y"]}"#)
        try client.makeUser("A")
        _ = try client.purchase("A", client.receipt("life", "t1"))
        let item =
            #""active":true,"started":1750000000,"source":"appstore","product":{"product_id":"life","store_id":"life"}}"#
        #expect(
            try client.call("GET", "/v3/users/A/entitlements").body
                == #"{"object":"list","data":[{"id":"X",\#(item),{"id":"Y",\#(item)]}"#)
        // The latest end wins: what never ends goes before a month.
        _ = try client.purchase("A", client.receipt("X", "t2"))
        #expect(
            try client.call("GET", "/v3/users/A/entitlements").body.contains(#"{"id":"X",\#(item)"#))
    }

    static let refused: [(String, String, Int, String)] = [
        ("nobody", #"{"price":"5,01"}"#, 404, "User not found"),
        ("A", #"{"price":"5,01","currency":"EURRR"}"#, 400, "failed to parse price"),
        ("A", #"{"currency":"EUR"}"#, 400, "exactly one of"),
        ("A", #"{"price":"","currency":""}"#, 400, "exactly one of"),
        ("A", #"{"price":"-1","currency":"EUR"}"#, 400, "failed to parse price"),
        ("A", #"{"price":"1.","currency":"EUR"}"#, 400, "failed to parse price"),
        ("A", #"{"price":"5.01","currency":"EURRR"}"#, 400, "failed to recognize currency"),
        ("A", #"{"price":"5.01"}"#, 400, "exactly one of"),
        ("A", #"{"price":"5.01","currency":"EUR"}"#, 400, "exactly one of"),
        ("A", #"{"price":"5.01","currency":"EUR","app_store_data":{},"stripe_store_data":{}}"#, 400, "exactly one of"),
        ("A", #"{"price":"5.01","currency":"EUR","app_store_data":{}}"#, 422, fraud),
        (
            "A", #"{"price":"5.01","currency":"eur","stripe_store_data":{"subscription_id":"s","product_id":"p"}}"#,
            503, notSetUp
        ),
        ("A", #"{"price":5.01,"currency":"EUR","play_store_data":{"purchase_token":"x"}}"#, 503, notSetUp),
        ("A", #"{"price":"5","currency":"EUR","play_store_data":{"purchase_token":""}}"#, 422, fraud),
        (
            "A", #"{"price":"5","currency":"EUR","paddle_store_data":{"transaction_id":"x"}}"#, 422,
            "Purchases of Paddle are not supported"
        ),
    ]
    private static let notSetUp = "This server is not set up for the store of the purchase"
    private static let fraud = "Couldn't validate purchase with store request, potential fraud"

    @Test("refuses in the vendor's words and order", arguments: refused)
    func refuses(_ user: String, _ body: String, _ status: Int, _ message: String) throws {
        let client = try AccessClient(.memory)
        try client.makeUser("A")
        let answer = try client.call("POST", "/v3/users/\(user)/purchases", body)
        #expect(answer.status == status && answer.body.contains(#""message":"\#(message)"#), "\(answer)")
    }

    @Test("a bad receipt leaves nothing but a line in the journal", arguments: StoreKind.allCases)
    func frauds(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        for user in ["A", "B"] { try client.makeUser(user) }
        #expect(try client.purchase("A", client.receipt("X", "good")).status == 201)
        var forged = client.receipt("X", "t1")
        forged.replaceSubrange(forged.index(before: forged.endIndex)..., with: forged.hasSuffix("A") ? "E" : "A")
        let parts = client.receipt("X", "t1").split(separator: ".")
        let other = client.receipt("Y", "t1").split(separator: ".")
        let frauds = [
            ("B", forged), ("A", forged), ("A", "\(other[0]).\(parts[1])"), ("A", String(parts[0])),
            ("A", "onym_receipt_."),
        ]
        for (user, receipt) in frauds {
            let before = client.server.store.counts
            let answer = try client.purchase(user, receipt)
            #expect(answer.status == 422, "\(answer)")
            #expect(
                answer.body
                    == #"{"error":{"type":"logical","code":"purchase_fraud","message":"\#(PurchaseTests.fraud)"}}"#)
            var after = before
            after.lastSequence = before.lastSequence.next
            #expect(client.server.store.counts == after)
        }
        // Of another transaction than the client says. The product's id is a hint.
        for more in [#""transaction_id":"t9""#, #""original_transaction_id":"t9""#] {
            let receipt = client.receipt("X", "t4")
            let body =
                #"{"price":"1","currency":"EUR","app_store_data":{"receipt":"\#(receipt)",\#(more)}}"#
            #expect(try client.call("POST", "/v3/users/A/purchases", body).status == 422)
        }
        #expect(try client.active("A") == ["X"])
        #expect(try client.active("B") == [])
    }

    @Test("what is over is recorded, and gives nothing", arguments: StoreKind.allCases)
    func over(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        try client.makeUser("A")
        let now = client.clock.seconds
        for receipt in [
            client.receipt("X", "t2", purchased: now - 9, expires: now),
            client.receipt("Y", "t3", purchased: now - 2_592_000),
        ] {
            #expect(try client.purchase("A", receipt).status == 201)
        }
        #expect(try client.active("A") == [])
        #expect(try client.events("A") == [], "nobody has got anything")
        let list = try client.call("GET", "/v3/users/A/entitlements").body
        #expect(list.contains(#""id":"X","active":false"#) && list.contains(#""id":"Y","active":false"#), "\(list)")
    }

    @Test("a receipt that is known is a restore for whoever has no part in it", arguments: StoreKind.allCases)
    func knownReceipt(_ kind: StoreKind) throws {
        for (strategy, status, holders) in [
            ("copy", 200, ["A", "B"]), ("transfer", 200, ["B"]), ("keep_original", 422, ["A"]),
            ("transfer_if_inactive", 422, ["A"]),
        ] {
            let client = try AccessClient(kind, restore: strategy)
            let (a, b) = (try Install("A", .exact, client), try Install("B", .exact, client))
            try a.identify("u1")
            try a.buy("X", "t1")
            try b.identify("u2")
            let answer = try b.buy("X", "t1")
            #expect(answer.status == status, "\(strategy): \(answer)")
            if status == 422 { #expect(answer.body.contains("purchase belongs to another user"), "\(answer)") }
            let seeing = try [("A", a), ("B", b)].filter { try $0.1.active() == ["X"] }.map(\.0)
            #expect(seeing == holders, "\(strategy)")
            // Signed out, both phones have proven the account.
            for phone in [a, b] { phone.logOut() }
            #expect(try a.active() == ["X"] && b.active() == ["X"], "\(strategy)")
        }
    }

    @Test(
        "a renewal is the owner's, whoever tells of it", arguments: StoreKind.allCases, Install.DecisionFacts.allCases)
    func renewal(_ kind: StoreKind, _ view: Install.DecisionFacts) throws {
        let client = try AccessClient(kind)
        let (a, b) = (try Install("A", view, client), try Install("B", view, client))
        try a.identify("u1")
        try b.identify("u2")
        try a.buy("X", "t1")
        client.clock.advance(days: 31)
        #expect(try a.active() == [])
        let renewal = client.receipt("X", "t2", original: "t1")
        let answer = try client.purchase(b.current, renewal)
        #expect(answer.status == 200 && answer.body.hasSuffix(#""user_id":"QON_A"}"#), "\(answer)")
        #expect(try a.active() == ["X"])
        #expect(try b.active() == [])
        // What is older than that is no news.
        let stale = client.receipt("X", "t1", purchased: client.clock.seconds - 86_400 * 31)
        #expect(try client.purchase(a.current, stale).status == 200)
        #expect(try a.active() == ["X"])
    }

    @Test("whoever logs in on the paying phone is told whose the purchase is", arguments: StoreKind.allCases)
    func resolved(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        let phone = try Install("A", .exact, client)
        try phone.buy("X", "t1")
        try phone.identify("u1")
        phone.logOut()
        try phone.identify("u2")
        // As an SDK does at each start.
        let answer = try phone.buy("X", "t1")
        #expect(answer.status == 200 && answer.body.hasSuffix(#""user_id":"QON_A"}"#), "\(answer)")
        #expect(try phone.active() == [], "nothing is transferred by it")
    }

    @Test("a store account with a name is one on all its devices", arguments: StoreKind.allCases)
    func account(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        let installs = try ["A", "B", "C"].map { try Install($0, .exact, client) }
        try installs[0].buy("X", "t1", account: "ada")
        #expect(try installs[1].active() == [])
        try installs[1].buy("Y", "t2", account: "ada")
        #expect(try installs[0].active() == ["X", "Y"])
        #expect(try installs[1].active() == ["X", "Y"])
        #expect(try installs[2].active() == [])
        try installs[1].identify("u1")
        #expect(try installs[0].active() == ["X", "Y"], "logged out, it still is what the account has paid for")
        try installs[2].identify("u1")
        #expect(try installs[2].active() == ["X", "Y"])
    }

    @Test("what nobody else has goes with whoever is erased", arguments: StoreKind.allCases)
    func erased(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        let (a, b) = (try Install("A", .exact, client), try Install("B", .exact, client))
        try a.identify("u1")
        try a.buy("X", "t1")
        try a.buy("Y", "t2")
        try b.identify("u2")
        #expect(try b.restore([client.receipt("X", "t1")]).body.contains(#""outcome":"shared""#))
        #expect(try client.administrator("DELETE", "/people/sandbox_user_id:QON_A").status == 200)
        #expect(try client.call("GET", "/v3/users/QON_A").status == 404)
        #expect(try client.call("GET", "/v3/identities/u1").status == 404)
        #expect(try b.active() == ["X"], "it is u2's as well")
        // Whoever comes by that name again is somebody new.
        try client.makeUser("QON_A")
        #expect(try client.active("QON_A") == [])
        #expect(try client.purchase("QON_A", client.receipt("Y", "t2")).status == 201, "nobody knows it any more")
        #expect(try client.purchase("QON_A", client.receipt("X", "t1")).status == 200, "a proof of the account")
        #expect(try b.active() == ["X"])
    }

    @Test("those who follow along are told, without a value", arguments: StoreKind.allCases)
    func changes(_ kind: StoreKind) throws {
        let client = try AccessClient(kind, restore: "transfer")
        let (a, b) = (try Install("A", .exact, client), try Install("B", .exact, client))
        try a.buy("X", "t1")
        try a.identify("u1")
        try b.identify("u2")
        _ = try b.restore([client.receipt("X", "t1")])
        _ = try client.call(
            "POST", "/v3/users/QON_A/properties", #"[{"key":"_q_custom_user_id","value":"secret-name"}]"#)
        _ = try client.purchase("QON_A", "nonsense")
        _ = try client.call("POST", "/v3/users/QON_A/entitlements", #"{"id":"Y"}"#, key: client.secretKey)
        _ = try client.call("DELETE", "/v3/users/QON_A/entitlements/Y", key: client.secretKey)
        let answer = try client.administrator("GET", "/changes?limit=200")
        let page = try JSONSerialization.jsonObject(with: Data(answer.body.utf8)) as? [String: Any]
        let kinds = (page?["changes"] as? [[String: Any]] ?? []).compactMap { $0["kind"] as? String }
            .filter { $0 != "identity.linked" && $0 != "person.created" && $0 != "strategy.changed" }
        #expect(
            kinds == [
                "entitlement.granted", "entitlement.transferred", "entitlement.transferred", "properties.changed",
                "refused", "entitlement.granted", "entitlement.lost",
            ])
        #expect(answer.body.contains(#""dialect":"entitlements""#) && answer.body.contains("receipt_unreadable"))
        #expect(!answer.body.contains("secret-name"))
        #expect(answer.body.contains(#""data":{"product":"X","transaction":"t1"}"#), "what was bought: \(answer)")
        let transferred = /"data":\{"product":"X","transaction":"t1","from":\["[0-9]+"\],"to":\["[0-9]+"\]\}/
        #expect(answer.body.matches(of: transferred).count == 2, "\(answer)")
        #expect(answer.body.contains(#""data":{"entitlement":"Y","source":"manual"}"#))
        #expect(answer.body.contains(#""names":["_q_custom_user_id"]"#))
    }

    @Test("explains by which rule and which purchase", arguments: StoreKind.allCases)
    func explains(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        let (a, b) = (try Install("A", .exact, client), try Install("B", .exact, client))
        try a.buy("X", "t1")
        try a.identify("u1")
        try b.buy("Y", "t2")
        try b.identify("u1")
        let path = "/v3/users/QON_A/entitlements?explain=true&device_user_id=QON_B&identity_id=u1"
        #expect(try !client.call("GET", path).body.contains("owners"), "they are nothing to an app")
        let answer = try client.call("GET", path, key: client.secretKey)
        let purchases = [("X", "t1", "owner", #"["u1"]"#), ("Y", "t2", "unclaimed", "[]")].map {
            id, transaction, rule, owners in
            #""granted_by":[{"rule":"\#(rule)","active":true,"expires":1752592000,"purchase":{"source":"appstore","product_id":"\#(id)","store_id":"\#(id)","transaction_id":"\#(transaction)","original_transaction_id":"\#(transaction)","owners":\#(owners)}}]"#
        }
        for text in purchases { #expect(answer.body.contains(text), "\(answer)") }
        let loggedOut = try client.call(
            "GET", "/v3/users/QON_A/entitlements?explain=true&device_user_id=QON_A&identity_id=")
        #expect(loggedOut.body.contains(#""rule":"store_account""#), "\(loggedOut)")
        let granted = try client.call(
            "POST", "/v3/users/QON_A/entitlements", #"{"id":"Z"}"#, key: client.secretKey)
        #expect(granted.status == 200)
        #expect(
            try client.call("GET", "/v3/users/QON_A/entitlements?explain=true").body
                .contains(#""granted_by":[{"rule":"granted_to_identity","active":true}]"#))
    }

    @Test("a session that contradicts itself is refused", arguments: StoreKind.allCases)
    func sessions(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        for user in ["A", "B"] { try client.makeUser(user) }
        _ = try client.call("POST", "/v3/identities/u1", #"{"user_id":"A"}"#)
        for query in [
            "device_user_id=nobody", "device_user_id=B", "identity_id=u2", "identity_id=u2&device_user_id=A",
            "device_user_id=", "x=y",
        ] {
            let answer = try client.call("GET", "/v3/users/A/entitlements?\(query)")
            #expect(answer.status == 400 && answer.body.contains(#""code":"invalid_data""#), "\(query): \(answer)")
        }
        for query in ["device_user_id=A", "identity_id=u1", "identity_id=u1&device_user_id=B", "identity_id="] {
            #expect(try client.call("GET", "/v3/users/A/entitlements?\(query)").status == 200, "\(query)")
        }
    }
}
