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
    @Test("is asked about what Android reports, with one token for an hour", arguments: StoreKind.allCases)
    func buys(_ kind: StoreKind) throws {
        let scene = try PlayScene(kind) { $0.purchaseChecks.perSecond = 0 }
        let (client, google) = (scene.client, scene.google)
        google.says("tok-1", scene.subscription())
        #expect(try scene.buy("A", "tok-1").body.contains(#""id":"X","associated_product":"X","active":1"#))
        google.products.withLock {
            $0["tok-2"] =
                #"{"productLineItem":[{"productId":"Y"}],"purchaseStateContext":{"purchaseState":"PURCHASED"},"testPurchaseContext":{},"orderId":"GPA.2","purchaseCompletionTime":"2025-06-15T15:06:40Z"}"#
        }
        try client.sell("Y", #"{"type":"non_consumable","entitlements":["Y"]}"#)
        #expect(try scene.buy("A", "tok-2", product: "Y").status == 200)
        #expect(try client.active("A") == ["X", "Y"])
        #expect(google.tokens.withLock { $0 } == 1, "the token is kept")
        client.clock.set(seconds: client.clock.seconds + 3_000)
        #expect(try scene.buy("A", "tok-1").status == 200)
        #expect(google.tokens.withLock { $0 } == 2)
        // Another install of the account restores by the token.
        let history = #"{"q_uid":"B","version":"9.6.0","history":[{"product":"X","purchase_token":"tok-1"}]}"#
        #expect(try client.call("POST", "/v1/user/restore", history, fields: [("Platform", "android")]).status == 200)
        #expect(try client.active("A") == ["X", "Y"] && client.active("B") == ["X"])
    }

    @Test("refuses what Google does not know, and waits while it cannot be asked")
    func refuses() throws {
        let scene = try PlayScene()
        let (client, google) = (scene.client, scene.google)
        google.says("real", scene.subscription().replacing(#""testPurchase":{},"#, with: ""))
        for (token, status, code) in [("unknown", 422, 20008), ("../x", 422, 20102), ("real", 422, 10008)] {
            let answer = try scene.buy("A", token)
            #expect(answer.status == status && answer.body.contains("\"code\":\(code),"), "\(token): \(answer)")
        }
        google.isDown.withLock { $0 = true }
        let later = try scene.buy("A", "tok-1")
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
        let scene = try PlayScene()
        let (client, google) = (scene.client, scene.google)
        google.says("tok-1", scene.subscription())
        _ = try scene.buy("A", "tok-1")
        client.clock.advance(days: 1)
        google.says(
            "tok-1",
            scene.subscription(row.state, product: row.product, order: row.order, until: row.until, renews: row.renews))
        for _ in 0..<2 { #expect(try scene.changed("tok-1").body == "{}") }
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
        let scene = try PlayScene(kind)
        let (client, google) = (scene.client, scene.google)
        google.says("old", scene.subscription())
        _ = try scene.buy("A", "old")
        _ = try client.call("POST", "/v2/identities", #"{"anon_id":"A","identity_id":"u1"}"#)
        client.clock.advance(days: 1)
        google.says(
            "new",
            scene.subscription(product: "Y", order: "GPA.2", from: 1, until: 31, more: #","linkedPurchaseToken":"old""#)
        )
        #expect(try scene.changed("new").status == 200)
        #expect(try client.active("A") == ["Y"], "the owner of the old one has it")
        // The old token gives nothing any more, even where Google says that it is active.
        #expect(try scene.changed("old").status == 200)
        #expect(try scene.buy("B", "old").status == 200)
        #expect(try client.active("A") == ["Y"])
        #expect(try client.active("B") == [])
        // A loop is cut.
        google.says("old", scene.subscription(more: #","linkedPurchaseToken":"new""#))
        #expect(try scene.changed("old").status == 200)
        #expect(try client.active("A").count <= 1)
    }

    @Test("a change that nobody has paid for ends nothing (G17)")
    func pendingChange() throws {
        let scene = try PlayScene()
        let (client, google) = (scene.client, scene.google)
        google.says("old", scene.subscription())
        _ = try scene.buy("A", "old")
        client.clock.advance(days: 1)
        let link = #","linkedPurchaseToken":"old""#
        for state in ["PENDING", "PENDING_PURCHASE_CANCELED"] {
            google.says("new", scene.subscription(state, product: "Y", order: "GPA.2", from: 1, until: 31, more: link))
            #expect(try scene.changed("new").status == 200)
            #expect(try client.active("A") == ["X"], "\(state)")
        }
        google.says("new", scene.subscription(product: "Y", order: "GPA.2", from: 1, until: 31, more: link))
        client.clock.set(seconds: client.clock.seconds + 1)
        #expect(try scene.changed("new").status == 200)
        #expect(try client.active("A") == ["Y"])
        #expect(try client.events("A").suffix(2) == ["entitlement_lost", "entitlement_granted"])
    }

    @Test("a token that is told of after the one that replaces it gives nothing")
    func linkedLate() throws {
        let scene = try PlayScene()
        let (client, google) = (scene.client, scene.google)
        google.says("old", scene.subscription())
        google.says(
            "new",
            scene.subscription(product: "Y", order: "GPA.2", from: 1, until: 31, more: #","linkedPurchaseToken":"old""#)
        )
        let history = ["new", "old"].map { #"{"product":"X","purchase_token":"\#($0)"}"# }.joined(separator: ",")
        let restored = try client.call(
            "POST", "/v1/user/restore", #"{"q_uid":"A","version":"9.6.0","history":[\#(history)]}"#,
            fields: [("Platform", "android")])
        #expect(restored.status == 200)
        #expect(try client.active("A") == ["Y"])
    }

    @Test("the tenth order of a subscription comes after the ninth, and a refund of an earlier one ends nothing")
    func tenOrders() throws {
        let scene = try PlayScene()
        let (client, google) = (scene.client, scene.google)
        google.says("tok-1", scene.subscription())
        _ = try scene.buy("A", "tok-1")
        for number: Int64 in 0...70 {
            client.clock.set(seconds: client.clock.seconds + 60)
            google.says("tok-1", scene.subscription(order: "GPA.1..\(number)", until: 31 + number))
            #expect(try scene.changed("tok-1").status == 200)
        }
        client.clock.advance(days: 100)
        client.clock.set(seconds: 1_750_000_000 + 101 * 86_400 - 60)
        #expect(try client.active("A") == ["X"], "the last order counts, though others are later by their letters")
        let data =
            #""voidedPurchaseNotification":{"purchaseToken":"tok-1","orderId":"GPA.1..69","productType":1,"refundType":1}"#
        #expect(try scene.notify(data).status == 200)
        #expect(try client.active("A") == ["X"])
    }

    @Test("a refund in full ends what it was for, and one in part does not (G21, G22)")
    func voided() throws {
        let scene = try PlayScene()
        let (client, google) = (scene.client, scene.google)
        google.says("tok-1", scene.subscription(order: "GPA.1..1", until: 60))
        _ = try scene.buy("A", "tok-1")
        client.clock.advance(days: 1)
        func void(_ order: String, _ refund: Int) throws {
            let data =
                #""voidedPurchaseNotification":{"purchaseToken":"tok-1","orderId":"\#(order)","productType":1,"refundType":\#(refund)}"#
            #expect(try scene.notify(data).status == 200)
        }
        try void("GPA.1..1", 2)
        #expect(try client.active("A") == ["X"], "in part")
        try void("GPA.1", 1)
        #expect(try client.active("A") == ["X"], "an old order")
        client.clock.set(seconds: client.clock.seconds + 1)
        try void("GPA.1..1", 1)
        #expect(try client.active("A") == [], "the present order")
        // What Google says of the token tells nothing of refunds.
        client.clock.set(seconds: client.clock.seconds + 1)
        #expect(try scene.changed("tok-1").status == 200)
        #expect(try client.active("A") == [], "after another question")
    }

    @Test("a purchase that is paid later (G19), and one taken back (G20)")
    func pending() throws {
        let scene = try PlayScene()
        let (client, google) = (scene.client, scene.google)
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
                try scene.notify(
                    #""oneTimeProductNotification":{"notificationType":\#(type),"purchaseToken":"tok","sku":"Y"}"#
                ).status == 200)
        }
        says("PENDING")
        #expect(try scene.buy("A", "tok", product: "Y").status == 200)
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
        // The server's own questions would be counted too.
        let scene = try PlayScene { $0.purchaseChecks.perSecond = 0 }
        let (client, google) = (scene.client, scene.google)
        google.says("tok-1", scene.subscription())
        let test = #""testNotification":{"version":"1.0"}"#
        #expect(try scene.notify(test).body == "{}")
        #expect(try scene.notify(test, secret: PlayScene.secret.uppercased()).status == 401)
        #expect(try scene.notify(test, project: "99").status == 404)
        let path = "/onym/v1/stores/google/1/\(PlayScene.secret)"
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
        #expect(try scene.changed("tok-1").status == 503)
        let plain = try AccessClient(.memory)
        #expect(try plain.http.call("POST", path, json: "{}").status == 503)
    }
}
