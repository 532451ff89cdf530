import ByteText
import Crypto
import DialectEntitlements
import Foundation
import Outbound
import TestKit
import Testing
import Threads

/// Subscriptions that Stripe is asked about (spec/entitlements.md, decision 11).
@Suite("Stripe subscriptions")
struct StripeTests {
    private static let start = 1_750_000_000

    static func subscription(_ more: String = "", id: String = "sub_1", live: Bool = false) -> String {
        #"{"id":"\#(id)","object":"subscription","status":"active","livemode":\#(live),"customer":"cus_1","current_period_start":\#(start),"current_period_end":\#(start + 99),"items":{"object":"list","data":[{"id":"si_1","price":{"id":"price_1","product":"X"}}]}\#(more)}"#
    }

    private func client(_ kind: StoreKind, _ stand: StandIn) throws -> AccessClient {
        let url = try #require(OutboundURL(stand.url))
        let client = try AccessClient(kind) {
            $0.stores.addresses.stripe = url
            $0.stores.options["stripe.secret_key"] = "rk_secret"
        }
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
        // A client's call causes at most one question in a minute.
        let asked = stand.received.count
        client.clock.set(seconds: client.clock.seconds + 59)
        #expect(try buy(client).status == 200)
        #expect(stand.received.count == asked)
        #expect(try client.call("GET", "/v3/users/A/entitlements").body.contains(#""renew_state":"will_renew""#))
        client.clock.set(seconds: client.clock.seconds + 1)
        #expect(try buy(client).status == 200)
        #expect(stand.received.count == asked + 1)
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
        if row == 2 { #expect(answer.body.contains("not set up"), "\(answer)") }
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

    @Test("count by the name that the catalog has, whatever name a client gives", arguments: StoreKind.allCases)
    func catalogNames(_ kind: StoreKind) throws {
        let said = StripeTests.subscription().replacing(#""product":"X""#, with: #""product":"prod_9""#)
        let client = try client(kind, StandIn(.status(200, said)))
        try client.sell("month", #"{"type":"subscription","store_id":"price_1","entitlements":["Z"]}"#)
        #expect(try buy(client, product: "price_1").status == 201)
        #expect(try client.active("A") == ["Z"])
        client.clock.set(seconds: client.clock.seconds + 60)
        #expect(try buy(client, product: "prod_9").status == 200)
        #expect(try client.active("A") == ["Z"])
        let restored = try client.call(
            "POST", "/v3/users/A/restore",
            #"{"transactions":[{"stripe_store_data":{"subscription_id":"sub_1","product_id":"prod_9"}}]}"#)
        #expect(restored.body.contains(#""product_id":"price_1","outcome":"yours""#), "\(restored)")
    }

    // MARK: - Events

    /// What Stripe says of the subscription, and what that comes to.
    static let states: [(name: String, said: String, active: [String])] = [
        ("S1 active", subscription(), ["X"]),
        ("S2 on trial", subscription(#","status":"trialing","trial_end":\#(start + 50)"#), ["X"]),
        ("S2 the trial is over", subscription(#","status":"trialing","trial_end":\#(start - 1)"#), []),
        ("S4 ends with the period", subscription(#","cancel_at_period_end":true"#), ["X"]),
        ("S4 ends at a time", subscription(#","cancel_at":\#(start - 1)"#), []),
        ("S5 deleted", subscription(#","status":"canceled","ended_at":\#(start - 5)"#), []),
        ("S6 past due, for some days more", subscription(#","status":"past_due""#), ["X"]),
        ("S7 unpaid", subscription(#","status":"unpaid""#), []),
        ("S7 incomplete", subscription(#","status":"incomplete""#), []),
        ("S8 paused", subscription(#","status":"paused""#), []),
        ("S3 renewed", subscription(#","current_period_end":\#(start + 999)"#), ["X"]),
        ("S9 collection paused", subscription(#","pause_collection":{"behavior":"void"}"#), ["X"]),
        ("S10 another price", subscription().replacing(#""product":"X""#, with: #""product":"Y""#), ["Y"]),
        (
            "S13 two items",
            subscription().replacing("}]}", with: #"},{"id":"si_2","price":{"id":"price_2","product":"Y"}}]}"#),
            ["X", "Y"]
        ),
    ]

    private static let secret = "whsec_0123456789"

    private func listening(
        _ kind: StoreKind, _ stand: StandIn, options: [String: String] = [:]
    ) throws -> AccessClient {
        let url = try #require(OutboundURL(stand.url))
        let client = try AccessClient(kind) {
            for (name, value) in options { $0.stores.options[name] = value }
            $0.stores.addresses.stripe = url
            $0.stores.options["stripe.secret_key"] = "rk_secret"
            $0.stores.options["stripe.webhook_secret"] = "whsec_old,\(StripeTests.secret)"
        }
        try client.makeUser("A")
        return client
    }

    private func event(
        _ client: AccessClient, _ object: String = #"{"id":"sub_1","object":"subscription"}"#, live: Bool = false,
        secret: String = StripeTests.secret, at moment: Int64? = nil, project: String = "1", type: String = "t"
    ) throws -> Wire.Answer {
        let body =
            #"{"id":"evt_1","object":"event","livemode":\#(live),"type":"\#(type)","data":{"object":\#(object)}}"#
        let moment = moment ?? client.clock.seconds
        let signature = HMAC(key: Array(secret.utf8)).authenticate(Array("\(moment).\(body)".utf8)).bytes
        return try client.settled(
            client.http.call(
                "POST", "/onym/v1/stores/stripe/\(project)",
                fields: [("Stripe-Signature", "t=\(moment),v0=x,v1=\(Hexadecimal.encode(signature))")], json: body))
    }

    @Test("an event makes the state what Stripe says now", arguments: states.indices)
    func follows(_ row: Int) throws {
        let stand = StandIn(.status(200, StripeTests.subscription()))
        let client = try listening(.memory, stand)
        #expect(try buy(client).status == 201)
        let (name, said, active) = StripeTests.states[row]
        stand.answer(.status(200, said))
        client.clock.set(seconds: client.clock.seconds + 1)
        for _ in 0..<2 { #expect(try event(client).body == "{}") }
        #expect(try client.active("A") == active, "\(name)")
        // What holds again is back.
        stand.answer(.status(200, StripeTests.subscription()))
        client.clock.set(seconds: client.clock.seconds + 1)
        #expect(try event(client).status == 200)
        #expect(try client.active("A").contains("X"), "\(name)")
    }

    @Test("a payment that has failed ends the access after the days of grace")
    func pastDue() throws {
        let stand = StandIn(.status(200, StripeTests.subscription()))
        let client = try listening(.memory, stand)
        #expect(try buy(client).status == 201)
        let next =
            #","status":"past_due","current_period_start":\#(StripeTests.start + 99),"current_period_end":\#(StripeTests.start + 9_999_999)"#
        stand.answer(.status(200, StripeTests.subscription(next)))
        client.clock.set(seconds: client.clock.seconds + 100)
        #expect(try event(client).status == 200)
        for (days, active) in [(2, ["X"]), (1, [])] as [(Int64, [String])] {
            client.clock.advance(days: days)
            #expect(try client.active("A") == active, "\(days)")
        }
        #expect(try client.call("GET", "/v3/users/A/entitlements").body.contains(#""renew_state":"billing_issue""#))
    }

    @Test("a period that begins early ends the one before it, also where its own end is sooner")
    func earlyPeriod() throws {
        let start = StripeTests.start
        let stand = StandIn(.status(200, StripeTests.subscription(#","current_period_end":\#(start + 9_999)"#)))
        let client = try listening(.memory, stand)
        #expect(try buy(client).status == 201)
        func period(until second: Int, _ more: String = "") -> String {
            #","current_period_start":\#(start + 10),"current_period_end":\#(start + second)\#(more)"#
        }
        for (more, second, active) in [
            (period(until: 50), 10, ["X"]), (period(until: 50), 51, []), (period(until: 90), 52, ["X"]),
            (period(until: 90, #","status":"canceled","ended_at":\#(start + 53)"#), 53, []),
        ] as [(String, Int, [String])] {
            stand.answer(.status(200, StripeTests.subscription(more)))
            client.clock.set(seconds: Int64(start + second))
            #expect(try event(client).status == 200)
            #expect(try client.active("A") == active, "\(second)")
        }
    }

    @Test("an event tells the owners, and comes by an invoice and a session too", arguments: StoreKind.allCases)
    func events(_ kind: StoreKind) throws {
        let stand = StandIn(.status(200, StripeTests.subscription()))
        let client = try listening(kind, stand)
        #expect(try buy(client).status == 201)
        let canceled = StripeTests.subscription(#","status":"canceled","ended_at":\#(client.clock.seconds)"#)
        for (said, object, active) in [
            (canceled, #"{"id":"in_1","object":"invoice","subscription":"sub_1"}"#, [String]()),
            (
                StripeTests.subscription(),
                #"{"id":"in_2","object":"invoice","parent":{"subscription_details":{"subscription":"sub_1"}}}"#, ["X"]
            ), (canceled, #"{"id":"cs_1","object":"checkout.session","subscription":{"id":"sub_1"}}"#, []),
        ] {
            stand.answer(.status(200, said))
            client.clock.set(seconds: client.clock.seconds + 1)
            #expect(try event(client, object).status == 200)
            #expect(try client.active("A") == active)
        }
        #expect(
            try client.events("A") == [
                "entitlement_lost", "entitlement_granted", "entitlement_lost", "entitlement_granted",
            ])
        let asked = stand.received.count
        for object in [#"{"id":"ch_1","object":"charge"}"#, #"{"id":"../x","object":"subscription"}"#, "7"] {
            #expect(try event(client, object).status == 200, "\(object)")
        }
        #expect(stand.received.count == asked, "an event about something else is taken, and nobody is asked")
    }

    @Test("an event counts only with its signature")
    func refusesEvents() throws {
        let stand = StandIn(.status(200, StripeTests.subscription()))
        let client = try listening(.memory, stand)
        let now = client.clock.seconds
        for answer in [
            try event(client, secret: "whsec_other"), try event(client, at: now - 301),
            try event(client, at: now + 301),
            try client.http.call("POST", "/onym/v1/stores/stripe/1", json: "{}"),
            try client.http.call(
                "POST", "/onym/v1/stores/stripe/1", fields: [("Stripe-Signature", "t=\(now),v1=")], json: "{}"),
        ] { #expect(answer.status == 400, "\(answer)") }
        #expect(try event(client, project: "99").status == 404)
        #expect(stand.received.isEmpty)
        #expect(try event(client, secret: "whsec_old").status == 200, "each of the secrets counts")
        #expect(try event(client, live: true).status == 200, "for the other world: nothing comes of it")
        // A deleted subscription is not found any more; nothing is to be done.
        stand.answer(.status(404, "{}"))
        #expect(try event(client).status == 200)
        let plain = try AccessClient(.memory)
        #expect(try plain.http.call("POST", "/onym/v1/stores/stripe/1", json: "{}").status == 503)
    }

    @Test("a checkout proves the purchase for the user that it names")
    func checkout() throws {
        let stand = StandIn { request in
            if request.line.contains("/v1/checkout/sessions/cs_1 ") {
                return .status(
                    200, #"{"id":"cs_1","object":"checkout.session","subscription":"sub_1","client_reference_id":"B"}"#)
            }
            if request.line.contains("/v1/checkout/sessions/cs_2 ") {
                return .status(
                    200, #"{"id":"cs_2","object":"checkout.session","subscription":null,"client_reference_id":"B"}"#)
            }
            if request.line.contains("/v1/checkout/") { return .status(404, "{}") }
            return .status(200, StripeTests.subscription(live: true))
        }
        let client = try listening(.memory, stand)
        client.world = ""
        for user in ["A", "B"] { try client.makeUser(user) }
        func claim(_ user: String, _ data: String) throws -> Int {
            try client.call(
                "POST", "/v3/users/\(user)/purchases",
                #"{"price":"9.99","currency":"EUR","purchased":1700000000,"stripe_store_data":{\#(data)}}"#
            ).status
        }
        let session = #""checkout_session_id":"cs_1""#
        for (user, data, status) in [
            ("A", session, 422), ("A", #""subscription_id":"sub_1""#, 422),
            ("B", #""checkout_session_id":"cs_2""#, 422), ("B", #""checkout_session_id":"cs_3""#, 422),
            ("B", #""checkout_session_id":"../x""#, 422), ("B", session + #","subscription_id":"sub_2""#, 422),
            ("B", session + #","product_id":"X""#, 201), ("A", session, 422), ("B", session, 200),
        ] {
            #expect(try claim(user, data) == status, "\(user), \(data)")
        }
        #expect(try client.active("B") == ["X"] && client.active("A") == [])
    }

    @Test("the id is no proof in production, and the app's own names are", arguments: StoreKind.allCases)
    func proof(_ kind: StoreKind) throws {
        let stand = StandIn(.status(200, StripeTests.subscription(live: true)))
        let client = try listening(kind, stand)
        client.world = ""
        for user in ["A", "B", "C"] { try client.makeUser(user) }
        #expect(try buy(client).status == 422, "anybody can name it")
        for (more, user, status) in [
            (#","metadata":{"onym_user_id":"B"}"#, "A", 422), (#","metadata":{"onym_user_id":"B"}"#, "B", 201),
            ("", "B", 200), ("", "A", 422), (#","metadata":{"onym_identity_id":"u1"}"#, "C", 422),
        ] {
            stand.answer(.status(200, StripeTests.subscription(more, live: true)))
            client.clock.set(seconds: client.clock.seconds + 60)
            #expect(try buy(client, user).status == status, "\(more), \(user)")
        }
        // The identity has to be the caller's.
        _ = try client.call("POST", "/v3/identities/u1", #"{"user_id":"C"}"#)
        stand.answer(.status(200, StripeTests.subscription(#","metadata":{"onym_identity_id":"u1"}"#, live: true)))
        client.clock.set(seconds: client.clock.seconds + 60)
        #expect(try buy(client, "C").status == 200)
        client.clock.set(seconds: 1_750_000_000)
        #expect(try client.active("B") == ["X"] && client.active("A") == [])
        // Another subscription of a customer that the caller has a part in.
        stand.answer(.status(200, StripeTests.subscription(id: "sub_2", live: true)))
        #expect(try buy(client, "A", "sub_2").status == 422)
        #expect(try buy(client, "B", "sub_2").status == 201)
        // A server answers for it.
        stand.answer(.status(200, StripeTests.subscription(id: "sub_3", live: true)))
        let body =
            #"{"price":"1","currency":"EUR","stripe_store_data":{"subscription_id":"sub_3","product_id":"X"}}"#
        #expect(try client.call("POST", "/v3/users/A/purchases", body, key: client.secretKey).status == 201)
        #expect(try client.active("A") == ["X"])
    }

    // MARK: - Refunds, customers and checkouts

    /// Stripe with a subscription, its invoices and the payment of each.
    ///
    /// - Parameters:
    ///   - state: further members of the payment.
    ///   - dispute: the state of the payment's dispute; empty if the key may not read disputes.
    private func refunding(
        _ latest: Monitor<String>, _ asked: Monitor<[String]>, isLate: Bool = false,
        state: Monitor<String> = Monitor(""),
        dispute: Monitor<String> = Monitor("")
    ) -> StandIn {
        StandIn { request in
            let path = request.line.split(separator: " ")[1]
            asked.withLock { $0.append(String(path)) }
            switch path {
            case "/v1/charges/ch_1" where isLate:
                return .status(
                    200, #"{"id":"ch_1","object":"charge","payment_intent":"pi_1"\#(state.withLock { $0 })}"#)
            case "/v1/charges/ch_1":
                return .status(
                    200,
                    #"{"id":"ch_1","object":"charge","invoice":"in_1","customer":"cus_1"\#(state.withLock { $0 })}"#)
            case "/v1/disputes?charge=ch_1" where dispute.withLock({ $0.isEmpty }): return .status(403, "{}")
            case "/v1/disputes?charge=ch_1":
                return .status(
                    200,
                    #"{"object":"list","data":[{"id":"dp_1","object":"dispute","status":"\#(dispute.withLock { $0 })"}]}"#
                )
            case "/v1/charges/ch_2": return .status(200, #"{"id":"ch_2","object":"charge","invoice":null}"#)
            case "/v1/invoice_payments?payment%5Btype%5D=payment_intent&payment%5Bpayment_intent%5D=pi_1":
                return .status(200, #"{"object":"list","data":[{"id":"inpay_1","invoice":"in_1"}]}"#)
            case "/v1/invoices/in_1":
                return .status(
                    200,
                    isLate
                        ? #"{"id":"in_1","object":"invoice","parent":{"subscription_details":{"subscription":"sub_1"}}}"#
                        : #"{"id":"in_1","object":"invoice","subscription":"sub_1"}"#)
            case "/v1/subscriptions/sub_1":
                let invoice = latest.withLock { $0 }
                return .status(200, StripeTests.subscription(#","latest_invoice":"\#(invoice)""#))
            default: return .status(404, "{}")
            }
        }
    }

    @Test(
        "a refund and a dispute end the access of their period with stripe_refund_ends, and a dispute that is won does not (S11, S12)",
        arguments: [false, true])
    func refunds(_ isLate: Bool) throws {
        let (latest, asked, state, said) = (Monitor("in_1"), Monitor<[String]>([]), Monitor(""), Monitor(""))
        let stand = refunding(latest, asked, isLate: isLate, state: state, dispute: said)
        let client = try listening(.memory, stand, options: ["stripe.refund_ends": "on"])
        #expect(try buy(client).status == 201)
        func tell(_ type: String, _ object: String) throws {
            client.clock.set(seconds: client.clock.seconds + 1)
            #expect(try event(client, object, type: type).status == 200, "\(type)")
        }
        let charge = #"{"id":"ch_1","object":"charge","refunded":"#
        let dispute = #"{"id":"dp_1","object":"dispute","charge":"ch_1","status":"#
        try tell("charge.refunded", charge + "false}")
        #expect(try client.active("A") == ["X"], "in part")
        try tell("charge.refunded", #"{"id":"ch_2","object":"charge","refunded":true}"#)
        #expect(try client.active("A") == ["X"], "a payment for something else")
        state.withLock { $0 = #","disputed":true"# }
        try tell("charge.dispute.created", dispute + #""needs_response"}"#)
        #expect(try client.active("A") == [], "the key may not read disputes, so the event counts")
        try tell("customer.subscription.updated", #"{"id":"sub_1","object":"subscription"}"#)
        #expect(try client.active("A") == [], "what Stripe says of the subscription tells nothing of refunds")
        said.withLock { $0 = "won" }
        try tell("charge.dispute.closed", dispute + #""won"}"#)
        #expect(try client.active("A") == ["X"])
        try tell("charge.dispute.created", dispute + #""needs_response"}"#)
        #expect(try client.active("A") == ["X"], "an event that comes late changes nothing")
        said.withLock { $0 = "lost" }
        try tell("charge.dispute.closed", dispute + #""lost"}"#)
        #expect(try client.active("A") == [])
        said.withLock { $0 = "won" }
        try tell("charge.dispute.closed", dispute + #""won"}"#)
        state.withLock { $0 = #","disputed":true,"refunded":true"# }
        latest.withLock { $0 = "in_2" }
        try tell("charge.refunded", charge + "true}")
        #expect(try client.active("A") == ["X"], "the payment of a past period")
        latest.withLock { $0 = "in_1" }
        try tell("charge.refunded", charge + "true}")
        #expect(try client.active("A") == [])
    }

    @Test("without stripe_refund_ends the state of the subscription decides, and nobody asks about a payment")
    func refundsByState() throws {
        let asked = Monitor<[String]>([])
        let client = try listening(.memory, refunding(Monitor("in_1"), asked))
        #expect(try buy(client).status == 201)
        let before = asked.withLock { $0 }
        #expect(
            try event(client, #"{"id":"ch_1","object":"charge","refunded":true}"#, type: "charge.refunded").status
                == 200)
        #expect(try client.active("A") == ["X"] && asked.withLock { $0 } == before)
    }

    @Test(
        "the subscriptions of a deleted customer end (S14), and an item that is gone ends alone",
        arguments: StoreKind.allCases)
    func customers(_ kind: StoreKind) throws {
        let stand = StandIn(
            .status(
                200,
                StripeTests.subscription().replacing(
                    "}]}", with: #"},{"id":"si_2","price":{"id":"price_2","product":"Y"}}]}"#)))
        let client = try listening(kind, stand)
        _ = try client.call("POST", "/v3/identities/u1", #"{"user_id":"A"}"#)
        // The second item is claimed, and the subscription was bought as one.
        #expect(try buy(client, product: "Y").status == 201)
        #expect(try client.active("A") == ["X", "Y"])
        let explained = try client.call("GET", "/v3/users/A/entitlements?explain=true").body
        #expect(explained.components(separatedBy: #""rule":"owner""#).count == 3, "\(explained)")
        stand.answer(.status(200, StripeTests.subscription()))
        client.clock.set(seconds: client.clock.seconds + 1)
        #expect(try event(client).status == 200)
        #expect(try client.active("A") == ["X"])
        stand.answer(
            .status(200, StripeTests.subscription(#","status":"canceled","ended_at":\#(client.clock.seconds)"#)))
        client.clock.set(seconds: client.clock.seconds + 1)
        let asked = stand.received.count
        #expect(try event(client, #"{"id":"cus_2","object":"customer"}"#, type: "customer.deleted").status == 200)
        #expect(try client.active("A") == ["X"] && stand.received.count == asked)
        #expect(try event(client, #"{"id":"cus_1","object":"customer"}"#, type: "customer.deleted").status == 200)
        #expect(try client.active("A") == [])
    }

    @Test("a completed checkout gives the purchase to the user that it names (S15)", arguments: StoreKind.allCases)
    func completed(_ kind: StoreKind) throws {
        let session = #"{"id":"cs_1","object":"checkout.session","subscription":"sub_1","client_reference_id":"A"}"#
        let (buyer, said) = (Monitor("A"), Monitor(StripeTests.subscription()))
        @Sendable func completed() -> String {
            session.replacing(#":"A""#, with: #":"\#(buyer.withLock { $0 })""#)
        }
        let stand = StandIn { request in
            if request.line.contains("/v1/checkout/sessions/cs_1 ") { return .status(200, completed()) }
            return .status(200, said.withLock { $0 })
        }
        let client = try listening(kind, stand)
        for name in ["nobody", "A", "A"] {
            buyer.withLock { $0 = name }
            let object = completed()
            #expect(try event(client, object, type: "checkout.session.completed").status == 200, "\(name)")
            #expect(try client.active("A") == (name == "A" ? ["X"] : []))
        }
        try client.makeUser("B")
        #expect(try buy(client, "B").status == 422, "it is taken")
        // An update that was sent before the end comes after it: Stripe is asked for what holds now (S16).
        said.withLock { $0 = StripeTests.subscription(#","status":"canceled","ended_at":\#(client.clock.seconds)"#) }
        client.clock.set(seconds: client.clock.seconds + 1)
        for type in ["customer.subscription.deleted", "customer.subscription.updated"] {
            #expect(try event(client, type: type).status == 200)
            #expect(try client.active("A") == [])
        }
    }

    @Test("a checkout that is told of again moves nothing back", arguments: StoreKind.allCases)
    func completedAgain(_ kind: StoreKind) throws {
        let session = #"{"id":"cs_1","object":"checkout.session","subscription":"sub_1","client_reference_id":"A"}"#
        let stand = StandIn { request in
            .status(200, request.line.contains("/v1/checkout/") ? session : StripeTests.subscription())
        }
        let client = try listening(kind, stand)
        try client.restore(by: "transfer")
        try client.makeUser("B")
        for (user, identity) in [("A", "u1"), ("B", "u2")] {
            _ = try client.call("POST", "/v3/identities/\(identity)", #"{"user_id":"\#(user)"}"#)
        }
        #expect(try event(client, session, type: "checkout.session.completed").status == 200)
        #expect(try client.active("A") == ["X"])
        let moved = try client.administrator(
            "POST", "/transfers", #"{"transaction":"sub_1","to":"sandbox_identity:u2"}"#)
        #expect(moved.status == 200, "\(moved)")
        client.clock.set(seconds: client.clock.seconds + 1)
        #expect(try event(client, session, type: "checkout.session.completed").status == 200)
        #expect(try client.active("A") == [] && client.active("B") == ["X"])
    }

    @Test("a paused collection is explained (S9)")
    func paused() throws {
        let stand = StandIn(.status(200, StripeTests.subscription(#","pause_collection":{"behavior":"void"}"#)))
        let client = try client(.memory, stand)
        #expect(try buy(client).status == 201)
        let explained = try client.call("GET", "/v3/users/A/entitlements?explain=true").body
        #expect(explained.contains(#""collection_paused":true"#), "\(explained)")
    }
}
