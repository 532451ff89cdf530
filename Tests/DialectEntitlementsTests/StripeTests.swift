import DialectEntitlements
import Outbound
import TestKit
import Testing

/// Subscriptions that Stripe is asked about (spec/entitlements.md, decision 11).
@Suite("Stripe subscriptions")
struct StripeTests {
    private static let start = 1_750_000_000

    static func subscription(_ more: String = "", id: String = "sub_1", live: Bool = false) -> String {
        #"{"id":"\#(id)","object":"subscription","status":"active","livemode":\#(live),"customer":"cus_1","current_period_start":\#(start),"current_period_end":\#(start + 99),"items":{"object":"list","data":[{"id":"si_1","price":{"id":"price_1","product":"X"}}]}\#(more)}"#
    }

    private func client(_ kind: StoreKind, _ stand: StandIn) throws -> AccessClient {
        let url = try #require(OutboundURL(stand.url))
        let client = try AccessClient(kind) { $0.stores.stripe = Stripe(url, key: "rk_secret") }
        try client.makeUser("A")
        return client
    }

    private func buy(_ client: AccessClient, _ user: String = "A", _ id: String = "sub_1", product: String = "X") throws
        -> Wire.Answer
    {
        try client.call(
            "POST", "/v3/users/\(user)/purchases",
            #"{"price":"9.99","currency":"EUR","purchased":1700000000,"stripe_store_data":{"subscription_id":"\#(id)","product_id":"\#(product)"}}"#
        )
    }

    @Test("are taken on Stripe's word", arguments: StoreKind.allCases)
    func takes(_ kind: StoreKind) throws {
        let stand = StandIn(.status(200, StripeTests.subscription()))
        let client = try client(kind, stand)
        let answer = try buy(client)
        #expect(answer.status == 201, "\(answer)")
        #expect(
            answer.body
                == #"{"price":"9.99","currency":"EUR","purchased":1700000000,"stripe_store_data":{"subscription_id":"sub_1","product_id":"X"},"user_id":"A"}"#
        )
        #expect(stand.received.map(\.line) == ["GET /v1/subscriptions/sub_1 HTTP/1.1"])
        #expect(stand.received[0].fields.contains("Authorization: Bearer rk_secret"))
        #expect(
            try client.call("GET", "/v3/users/A/entitlements").body
                == #"{"object":"list","data":[{"id":"X","active":true,"started":1750000000,"expires":1750000099,"source":"stripe","product":{"product_id":"X","store_id":"X","subscription":{"renew_state":"will_renew","current_period_type":"normal"}}}]}"#
        )
        // What Stripe says later holds from then on.
        stand.answer(.status(200, StripeTests.subscription(#","cancel_at_period_end":true"#)))
        #expect(try buy(client).status == 200)
        #expect(try client.call("GET", "/v3/users/A/entitlements").body.contains(#""renew_state":"canceled""#))
    }

    static let answers: [(StandIn.Answer, Int)] = [
        (.status(404, "{}"), 422), (.status(400, "{}"), 422), (.status(401, "{}"), 503), (.status(500, ""), 503),
        (.status(200, "nonsense"), 503), (.close, 503), (.status(302, ""), 503),
        (.status(200, subscription(id: "sub_2")), 422), (.status(200, subscription(live: true)), 422),
        (.status(200, subscription(#","status":"canceled""#)), 201),
        (.status(200, subscription(#","status":"incomplete_expired""#)), 201),
        (.status(200, subscription(#","status":"past_due""#)), 201),
        (.status(200, subscription(#","current_period_end":1"#)), 201), (.status(200, "{}"), 422),
        (.status(200, subscription(#","customer":{"id":"cus_1","object":"customer"},"plan":null"#)), 201),
        (.status(200, subscription(#","customer":null"#)), 201),
    ]

    @Test("are refused where Stripe refuses, and are put off where it cannot be asked", arguments: answers.indices)
    func refuses(_ row: Int) throws {
        let (said, status) = StripeTests.answers[row]
        let client = try client(.memory, StandIn(said))
        let answer = try buy(client)
        #expect(answer.status == status, "\(answer)")
        // What is over is recorded, and gives nothing.
        let givesAccess = status == 201 && ![9, 10, 12].contains(row)
        #expect(try client.active("A") == (givesAccess ? ["X"] : []))
        if status == 503 { #expect(answer.body.contains(#""code":"network_error""#), "\(answer)") }
    }

    @Test("are asked about only by what can be an id, and of what is bought")
    func ids() throws {
        let stand = StandIn(.status(200, StripeTests.subscription()))
        let client = try client(.memory, stand)
        for id in ["", "../customers", "a?b", "a b", String(repeating: "s", count: 256)] {
            #expect(try buy(client, "A", id).status == 422)
        }
        #expect(stand.received.isEmpty)
        #expect(try buy(client, product: "other").status == 422)
        #expect(try buy(client, "nobody").status == 404)
        #expect(try buy(client, product: "price_1").status == 201)
    }

    @Test("belong to whom they were told of", arguments: StoreKind.allCases)
    func owner(_ kind: StoreKind) throws {
        let client = try client(kind, StandIn(.status(200, StripeTests.subscription())))
        try client.makeUser("B")
        #expect(try buy(client).status == 201)
        #expect(try buy(client, "B").status == 422, "it was overheard")
        #expect(try client.active("B") == [])
        let restore =
            #"{"transactions":[{"stripe_store_data":{"subscription_id":"sub_1"}},{"stripe_store_data":{"subscription_id":"sub_2"}}]}"#
        let answer = try client.call("POST", "/v3/users/A/restore", restore)
        #expect(
            answer.body.contains(
                #""transactions":[{"transaction_id":"sub_1:1750000000","product_id":"X","outcome":"yours"},{"outcome":"invalid"}]"#
            ),
            "\(answer)")
    }
}
