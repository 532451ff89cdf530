import ByteText
import DialectEntitlements
import Foundation
import Outbound
import TestKit
import Testing
import Threads

/// Google Play, which the server asks about tokens (spec/entitlements-live.md 5), against a stand-in.
@Suite("Google Play")
struct PlayTests {
    private static let secret = "0123456789abcdef0123456789abcdef"

    /// Google, as far as the server asks it.
    private final class Google: Sendable {
        /// By token, the answer about a subscription or a product.
        let subscriptions = Monitor<[String: String]>([:])
        let products = Monitor<[String: String]>([:])
        let isDown = Monitor(false)
        let tokens = Monitor(0)
        let stand: StandIn

        init() {
            let (subscriptions, products, isDown, tokens) = (subscriptions, products, isDown, tokens)
            stand = StandIn { request in
                if isDown.withLock({ $0 }) { return .status(500, "") }
                if request.line.hasPrefix("POST /token ") {
                    let hasGrant = request.body.hasPrefix(
                        "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=")
                    let parts = request.body.split(separator: "=").last?.split(separator: ".") ?? []
                    guard hasGrant, parts.count == 3 else { return .status(400, "{}") }
                    let number = tokens.withLock { count in
                        count += 1
                        return count
                    }
                    return .status(200, #"{"access_token":"ya29.\#(number)","expires_in":3599}"#)
                }
                guard request.fields.contains(where: { $0.hasPrefix("Authorization: Bearer ya29.") }) else {
                    return .status(401, "{}")
                }
                let path = request.line.split(separator: " ")[1]
                let token = String(path.split(separator: "/").last ?? "")
                let start = "/androidpublisher/v3/applications/com.example.app/purchases/"
                if path.hasPrefix(start + "subscriptionsv2/tokens/"), let said = subscriptions.withLock({ $0[token] }) {
                    return .status(200, said)
                }
                if path.hasPrefix(start + "productsv2/tokens/"), let said = products.withLock({ $0[token] }) {
                    return .status(200, said)
                }
                return .status(404, "{}")
            }
        }

        func says(_ token: String, _ subscription: String) { subscriptions.withLock { $0[token] = subscription } }
    }

    private static let key = Result {
        let folder = TemporaryFolder()
        let made = try Shell.result(["openssl", "genrsa", "-out", folder.path + "/key", "2048"])
        guard made.code == 0 else { throw Shell.Failed(description: made.errors) }
        return try String(contentsOf: URL(filePath: folder.path + "/key"), encoding: .utf8)
    }

    private func scene(_ kind: StoreKind = .memory) throws -> (AccessClient, Google) {
        let google = Google()
        let file = try JSONSerialization.data(withJSONObject: [
            "client_email": "onym@example.iam.gserviceaccount.com", "private_key": try PlayTests.key.get(),
            "private_key_id": "k1", "token_uri": google.stand.url + "token",
        ])
        let account = try #require(PlayStore.ServiceAccount(json: [UInt8](file)))
        let url = try #require(OutboundURL(google.stand.url))
        let client = try AccessClient(kind) {
            $0.stores.play = PlayStore(url, package: "com.example.app", account: account, pushSecret: PlayTests.secret)
        }
        return (client, google)
    }

    /// Google's answer about a subscription, by days from the start.
    private func subscription(
        _ client: AccessClient, _ state: String = "ACTIVE", product: String = "X", order: String = "GPA.1",
        from: Int64 = 0, until: Int64 = 30, renews: Bool = true, more: String = ""
    ) -> String {
        func day(_ number: Int64) -> String {
            Date(timeIntervalSince1970: TimeInterval(1_750_000_000 + number * 86_400)).ISO8601Format()
        }
        return
            #"{"kind":"androidpublisher#subscriptionPurchaseV2","subscriptionState":"SUBSCRIPTION_STATE_\#(state)","startTime":"\#(day(from))","acknowledgementState":"ACKNOWLEDGEMENT_STATE_ACKNOWLEDGED","testPurchase":{},"lineItems":[{"productId":"\#(product)","expiryTime":"\#(day(until))","latestSuccessfulOrderId":"\#(order)","autoRenewingPlan":{"autoRenewEnabled":\#(renews)}}]\#(more)}"#
    }

    private func buy(_ client: AccessClient, _ user: String, _ token: String, product: String = "X") throws
        -> Wire.Answer
    {
        try client.call(
            "POST", "/v1/user/purchase",
            #"{"q_uid":"\#(user)","version":"9.6.0","purchase":{"purchase_token":"\#(token)","product":"\#(product)","product_id":"","original_transaction_id":""}}"#,
            fields: [("Platform", "android"), ("Trigger", "Purchase")])
    }

    private func notify(
        _ client: AccessClient, _ data: String, secret: String = PlayTests.secret, project: String = "1"
    ) throws -> Wire.Answer {
        let text = #"{"version":"1.0","packageName":"com.example.app","eventTimeMillis":"1",\#(data)}"#
        return try client.http.call(
            "POST", "/onym/v1/stores/google/\(project)/\(secret)",
            json: #"{"message":{"data":"\#(Base64.encode(Array(text.utf8)))","messageId":"1"},"subscription":"s"}"#)
    }

    private func changed(_ client: AccessClient, _ token: String) throws -> Wire.Answer {
        try notify(
            client, #""subscriptionNotification":{"version":"1.0","notificationType":2,"purchaseToken":"\#(token)"}"#)
    }

    @Test("is asked about what Android reports, with one token for an hour", arguments: StoreKind.allCases)
    func buys(_ kind: StoreKind) throws {
        let (client, google) = try scene(kind)
        google.says("tok-1", subscription(client))
        #expect(try buy(client, "A", "tok-1").body.contains(#""id":"X","associated_product":"X","active":1"#))
        google.products.withLock {
            $0["tok-2"] =
                #"{"productLineItem":[{"productId":"Y"}],"purchaseStateContext":{"purchaseState":"PURCHASED"},"testPurchaseContext":{},"orderId":"GPA.2","purchaseCompletionTime":"2025-06-15T15:06:40Z"}"#
        }
        try client.sell("Y", #"{"type":"non_consumable","entitlements":["Y"]}"#)
        #expect(try buy(client, "A", "tok-2", product: "Y").status == 200)
        #expect(try client.active("A") == ["X", "Y"])
        #expect(google.tokens.withLock { $0 } == 1, "the token is kept")
        client.clock.set(seconds: client.clock.seconds + 3_000)
        #expect(try buy(client, "A", "tok-1").status == 200)
        #expect(google.tokens.withLock { $0 } == 2)
        // Another install of the account restores by the token.
        let history = #"{"q_uid":"B","version":"9.6.0","history":[{"product":"X","purchase_token":"tok-1"}]}"#
        #expect(try client.call("POST", "/v1/user/restore", history, fields: [("Platform", "android")]).status == 200)
        #expect(try client.active("A") == ["X", "Y"] && client.active("B") == ["X"])
    }

    @Test("refuses what Google does not know, and waits while it cannot be asked")
    func refuses() throws {
        let (client, google) = try scene()
        google.says("real", subscription(client).replacing(#""testPurchase":{},"#, with: ""))
        for (token, status, code) in [("unknown", 422, 20008), ("../x", 422, 20102), ("real", 422, 10008)] {
            let answer = try buy(client, "A", token)
            #expect(answer.status == status && answer.body.contains("\"code\":\(code),"), "\(token): \(answer)")
        }
        google.isDown.withLock { $0 = true }
        let later = try buy(client, "A", "tok-1")
        #expect(later.status == 503 && later.body.contains(#""code":20300"#) && later["Retry-After"] != nil, "\(later)")
        #expect(try client.active("A") == [])
    }

    /// What Google says after the start, and what that comes to by days.
    struct Case: Sendable, CustomTestStringConvertible {
        let name: String
        let state: String
        var product = "X"
        var order = "GPA.1"
        var until: Int64 = 30
        var renews = true
        let active: [(day: Int64, products: [String])]
        var renewState: String?
        var testDescription: String { name }
    }

    static let cases: [Case] = [
        Case(name: "G1 bought", state: "ACTIVE", active: [(29, ["X"]), (30, [])], renewState: "will_renew"),
        Case(name: "G3 renewed", state: "ACTIVE", order: "GPA.1..0", until: 60, active: [(59, ["X"]), (60, [])]),
        Case(
            name: "G4 canceled", state: "CANCELED", renews: false, active: [(29, ["X"]), (30, [])],
            renewState: "canceled"),
        Case(name: "G5 restarted", state: "ACTIVE", active: [(29, ["X"])], renewState: "will_renew"),
        Case(
            name: "G6 grace", state: "IN_GRACE_PERIOD", until: 33, active: [(32, ["X"]), (33, [])],
            renewState: "billing_issue"),
        Case(name: "G7 on hold", state: "ON_HOLD", active: [(2, [])], renewState: "billing_issue"),
        Case(name: "G8 recovered", state: "ACTIVE", order: "GPA.1..1", until: 70, active: [(69, ["X"])]),
        Case(name: "G9 deferred", state: "ACTIVE", until: 40, active: [(39, ["X"]), (40, [])]),
        Case(name: "G11 paused", state: "PAUSED", active: [(2, [])]),
        Case(name: "G12 revoked", state: "EXPIRED", active: [(2, [])], renewState: "canceled"),
        Case(name: "G13 expired", state: "EXPIRED", until: 1, active: [(2, [])]),
        Case(name: "G17 a pending purchase canceled", state: "PENDING_PURCHASE_CANCELED", active: [(2, [])]),
    ]

    @Test("a notification makes the state what Google says now", arguments: cases)
    func states(_ row: Case) throws {
        let (client, google) = try scene()
        google.says("tok-1", subscription(client))
        _ = try buy(client, "A", "tok-1")
        client.clock.advance(days: 1)
        google.says(
            "tok-1",
            subscription(
                client, row.state, product: row.product, order: row.order, until: row.until, renews: row.renews))
        for _ in 0..<2 { #expect(try changed(client, "tok-1").body == "{}") }
        if let state = row.renewState {
            #expect(try client.call("GET", "/v3/users/A/entitlements").body.contains("\"renew_state\":\"\(state)\""))
        }
        for (day, products) in row.active {
            client.clock.set(seconds: 1_750_000_000 + day * 86_400)
            #expect(try client.active("A") == products, "\(row.name), day \(day)")
        }
    }

    @Test("a new token takes over from the one that it replaces (G2)", arguments: StoreKind.allCases)
    func linked(_ kind: StoreKind) throws {
        let (client, google) = try scene(kind)
        google.says("old", subscription(client))
        _ = try buy(client, "A", "old")
        _ = try client.call("POST", "/v2/identities", #"{"anon_id":"A","identity_id":"u1"}"#)
        client.clock.advance(days: 1)
        google.says(
            "new",
            subscription(
                client, product: "Y", order: "GPA.2", from: 1, until: 31, more: #","linkedPurchaseToken":"old""#))
        #expect(try changed(client, "new").status == 200)
        #expect(try client.active("A") == ["Y"], "the owner of the old one has it")
        // The old token gives nothing any more, even where Google says that it is active.
        #expect(try changed(client, "old").status == 200)
        #expect(try buy(client, "B", "old").status == 200)
        #expect(try client.active("A") == ["Y"])
        #expect(try client.active("B") == [])
        // A loop is cut.
        google.says("old", subscription(client, more: #","linkedPurchaseToken":"new""#))
        #expect(try changed(client, "old").status == 200)
        #expect(try client.active("A").count <= 1)
    }

    @Test("a refund in full ends what it was for, and one in part does not (G21, G22)")
    func voided() throws {
        let (client, google) = try scene()
        google.says("tok-1", subscription(client, order: "GPA.1..1", until: 60))
        _ = try buy(client, "A", "tok-1")
        client.clock.advance(days: 1)
        func void(_ order: String, _ refund: Int) throws {
            let data =
                #""voidedPurchaseNotification":{"purchaseToken":"tok-1","orderId":"\#(order)","productType":1,"refundType":\#(refund)}"#
            #expect(try notify(client, data).status == 200)
        }
        try void("GPA.1..1", 2)
        #expect(try client.active("A") == ["X"], "in part")
        try void("GPA.1", 1)
        #expect(try client.active("A") == ["X"], "an old order")
        client.clock.set(seconds: client.clock.seconds + 1)
        try void("GPA.1..1", 1)
        #expect(try client.active("A") == [], "the present order")
    }

    @Test("a purchase that is paid later (G19), and one taken back (G20)")
    func pending() throws {
        let (client, google) = try scene()
        try client.sell("Y", #"{"type":"non_consumable","entitlements":["Y"]}"#)
        func says(_ state: String) {
            google.products.withLock {
                $0["tok"] =
                    #"{"productLineItem":[{"productId":"Y"}],"purchaseStateContext":{"purchaseState":"\#(state)"},"testPurchaseContext":{},"orderId":"GPA.2"}"#
            }
            client.clock.set(seconds: client.clock.seconds + 1)
        }
        func tell(_ type: Int) throws {
            #expect(
                try notify(
                    client,
                    #""oneTimeProductNotification":{"notificationType":\#(type),"purchaseToken":"tok","sku":"Y"}"#
                ).status == 200)
        }
        says("PENDING")
        #expect(try buy(client, "A", "tok", product: "Y").status == 200)
        #expect(try client.active("A") == [])
        says("PURCHASED")
        try tell(1)
        #expect(try client.active("A") == ["Y"])
        says("CANCELLED")
        try tell(2)
        #expect(try client.active("A") == [])
    }

    @Test("a notification counts with the secret, and for the app")
    func notifications() throws {
        let (client, google) = try scene()
        google.says("tok-1", subscription(client))
        let test = #""testNotification":{"version":"1.0"}"#
        #expect(try notify(client, test).body == "{}")
        #expect(try notify(client, test, secret: PlayTests.secret.uppercased()).status == 401)
        #expect(try notify(client, test, project: "99").status == 404)
        let path = "/onym/v1/stores/google/1/\(PlayTests.secret)"
        for body in ["{}", "[]", #"{"message":{"data":"%"}}"#, #"{"message":{"data":"e30"}}"#] {
            let answer = try client.http.call("POST", path, json: body)
            #expect([200, 400].contains(answer.status), "\(body): \(answer)")
        }
        let other = Base64.encode(
            Array(#"{"packageName":"com.other","subscriptionNotification":{"purchaseToken":"tok-1"}}"#.utf8))
        let asked = google.stand.received.count
        #expect(try client.http.call("POST", path, json: #"{"message":{"data":"\#(other)"}}"#).status == 200)
        #expect(google.stand.received.count == asked)
        google.isDown.withLock { $0 = true }
        #expect(try changed(client, "tok-1").status == 503)
        let plain = try AccessClient(.memory)
        #expect(try plain.http.call("POST", path, json: "{}").status == 503)
    }
}
