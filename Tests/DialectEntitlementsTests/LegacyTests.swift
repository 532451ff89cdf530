import TestKit
import Testing

/// What shipped mobile SDKs call (spec/entitlements.md 1.8), on every store.
@Suite("The first two generations of Entitlements")
struct LegacyTests {
    private func start(_ client: AccessClient, _ user: String, _ more: String = "") throws -> Wire.Answer {
        try client.call("POST", "/v1/user/init", #"{"q_uid":"\#(user)","debug_mode":"1"\#(more)}"#)
    }

    @Test("a start makes the user, and tells what is sold", arguments: StoreKind.allCases)
    func start(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        let first = try start(client, "QON_A")
        #expect(first.status == 200)
        #expect(
            first.body.hasPrefix(
                #"{"success":true,"data":{"uid":"QON_A","timestamp":1750000000,"permissions":[],"products":[{"id":"X","store_id":"X","type":1,"duration":1},"#
            ),
            "\(first)")
        #expect(
            first.body.hasSuffix(
                #""user_products":[],"offerings":[],"products_permissions":{"X":["X"],"Y":["Y"],"Z":["Z"]}}}"#))
        #expect(!first.body.contains("null"))
        #expect(try start(client, "QON_A").body == first.body)
        // The third generation knows the same user.
        #expect(try client.call("GET", "/v3/users/QON_A").status == 200)
    }

    @Test("one call identifies, and never conflicts", arguments: StoreKind.allCases)
    func identify(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        for user in ["A", "B"] { _ = try start(client, user) }
        func identify(_ user: String, _ identity: String) throws -> Wire.Answer {
            try client.call("POST", "/v2/identities", #"{"anon_id":"\#(user)","identity_id":"\#(identity)"}"#)
        }
        let linked = #"{"success":true,"data":{"anon_id":"A"}}"#
        for user in ["A", "A", "B"] {
            let answer = try identify(user, "u1")
            #expect(answer.status == 200 && answer.body == linked, "\(answer)")
        }
        // Another identity on the same phone is another user.
        let other = try identify("A", "u2")
        let made = try #require(other.body.firstMatch(of: /"anon_id":"(QON_[0-9a-f]{32})"/)?.1, "\(other)")
        #expect(try identify("B", "u2").body.contains(made))
        let unknown = try identify("nobody", "u3")
        #expect(unknown.status == 400 && unknown.body.contains(#""code":10004"#), "\(unknown)")
        #expect(try identify("", "u3").body.contains(#""success":false"#))
    }

    @Test("buys, and restores what another identity bought", arguments: StoreKind.allCases)
    func buys(_ kind: StoreKind) throws {
        let client = try AccessClient(kind, restore: "transfer")
        for user in ["A", "B"] { _ = try start(client, user) }
        let receipt = client.receipt("X", "t1")
        let purchase = #"{"q_uid":"USER","purchase":{"product_id":"X","purchase_token":"\#(receipt)"}}"#
        let bought = try client.call("POST", "/v1/user/purchase", purchase.replacing("USER", with: "A"))
        #expect(bought.status == 200)
        #expect(
            bought.body.contains(
                #""permissions":[{"id":"X","associated_product":"X","active":1,"renew_state":1,"source":"appstore","grant_type":"purchase","started_timestamp":1750000000,"expiration_timestamp":1752592000,"first_purchase_timestamp":1750000000,"last_purchase_timestamp":1750000000,"store_transactions":[]}]"#
            ),
            "\(bought)")
        for (user, identity) in [("A", "u1"), ("B", "u2")] {
            _ = try client.call("POST", "/v2/identities", #"{"anon_id":"\#(user)","identity_id":"\#(identity)"}"#)
        }
        let fraud = try client.call("POST", "/v1/user/purchase", purchase.replacing("USER", with: "B"))
        #expect(fraud.status == 422 && fraud.body.contains(#""code":10008"#), "\(fraud)")
        // A phone sends its receipt with each start: nothing is transferred by that.
        #expect(try start(client, "B", #","receipt":"\#(receipt)""#).body.contains(#""permissions":[]"#))
        #expect(try start(client, "B", #","receipt":"nonsense""#).status == 200)
        let restored = try client.call(
            "POST", "/v1/user/restore", #"{"q_uid":"B","history":[{"product":"X","purchase_token":"\#(receipt)"}]}"#)
        #expect(restored.body.contains(#""id":"X""#), "\(restored)")
        #expect(try client.active("A") == [])
        #expect(try client.active("B") == ["X"])
    }

    @Test("what is bought before it is told comes with a start", arguments: StoreKind.allCases)
    func receiptAtStart(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        #expect(try start(client, "A", #","receipt":"\#(client.receipt("X", "t1"))""#).body.contains(#""id":"X""#))
        #expect(try client.active("A") == ["X"])
    }

    static let bad: [(String, String, Int, Int)] = [
        ("/v1/user/init", "{", 400, 10000), ("/v1/user/init", "{}", 400, 10004), ("/v1/user/init", "[]", 400, 10000),
        ("/v1/user/purchase", #"{"q_uid":"nobody"}"#, 400, 10004), ("/v1/user/purchase", #"{"q_uid":"A"}"#, 422, 10008),
        ("/v1/user/restore", #"{"q_uid":"nobody"}"#, 400, 10004), ("/v2/identities", "{}", 400, 10004),
        ("/v1/user/purchase", #"{"q_uid":"A","purchase":7}"#, 422, 10008),
        ("/v1/user/restore", #"{"q_uid":"A","history":[7,{}]}"#, 200, 0),
        ("/v1/user/init", #"{"q_uid":"a\u000ab"}"#, 400, 10004),
    ]

    @Test("refuses in its own words", arguments: bad)
    func refuses(_ path: String, _ body: String, _ status: Int, _ code: Int) throws {
        let client = try AccessClient(.memory)
        _ = try start(client, "A")
        let answer = try client.call("POST", path, body)
        #expect(answer.status == status && (code == 0 || answer.body.contains(#""code":\#(code),"#)), "\(answer)")
    }

    @Test("takes the key from the body as well")
    func token() throws {
        let client = try AccessClient(.memory)
        func start(_ token: String) throws -> Wire.Answer {
            try client.http.call("POST", "/v1/user/init", json: #"{"q_uid":"A","access_token":"\#(token)"}"#)
        }
        #expect(try start(client.projectKey).status == 200)
        let refused = try start("nonsense")
        #expect(refused.status == 401 && refused.body.contains(#""code":10003"#), "\(refused)")
        #expect(try client.http.call("POST", "/v1/user/init", json: "{").status == 401)
    }
}
