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
        // What Google has forgotten is over, and no fraud.
        google.forgotten.withLock { $0 = ["gone"] }
        let gone = try scene.buy("A", "gone")
        #expect(gone.status == 200 && gone.body.contains(#""permissions":[]"#), "\(gone)")
        let third = try client.call(
            "POST", "/v3/users/A/purchases",
            #"{"price":"1","currency":"EUR","play_store_data":{"purchase_token":"gone"}}"#)
        #expect(third.status == 200 && third.body.contains(#""user_id":"A""#), "\(third)")
        #expect(
            try client.call(
                "POST", "/v3/users/nobody/purchases",
                #"{"price":"1","currency":"EUR","play_store_data":{"purchase_token":"gone"}}"#
            ).status == 404)
        google.isDown.withLock { $0 = true }
        let later = try scene.buy("A", "tok-1")
        #expect(later.status == 503 && later.body.contains(#""code":20300"#) && later["Retry-After"] != nil, "\(later)")
        #expect(try client.active("A") == [])
    }

    /// What Google says after the start, and what that comes to by days.
    struct Case: Sendable, CustomTestStringConvertible {
        let name: String
        /// The number of the notification.
        let type: Int
        let state: String
        var order = "GPA.1"
        var until: Int64 = 30
        var renews = true
        /// Further members of Google's answer.
        var more = ""
        let active: [(day: Int64, products: [String])]
        var renewState: String?
        var testDescription: String { name }
    }

    static let cases: [Case] = [
        Case(name: "G1 bought", type: 4, state: "ACTIVE", active: [(29, ["X"]), (30, [])], renewState: "will_renew"),
        Case(
            name: "G3 renewed", type: 2, state: "ACTIVE", order: "GPA.1..0", until: 60, active: [(59, ["X"]), (60, [])]),
        Case(
            name: "G4 canceled", type: 3, state: "CANCELED", renews: false, active: [(29, ["X"]), (30, [])],
            renewState: "canceled"),
        Case(
            name: "G4 canceled by the developer", type: 3, state: "CANCELED", renews: false,
            more: #","canceledStateContext":{"developerInitiatedCancellation":{}}"#, active: [(29, ["X"]), (30, [])],
            renewState: "canceled"),
        Case(name: "G5 restarted", type: 7, state: "ACTIVE", active: [(29, ["X"])], renewState: "will_renew"),
        Case(
            name: "G6 grace", type: 6, state: "IN_GRACE_PERIOD", until: 33, active: [(32, ["X"]), (33, [])],
            renewState: "billing_issue"),
        Case(name: "G7 on hold", type: 5, state: "ON_HOLD", active: [(2, [])], renewState: "billing_issue"),
        Case(name: "G8 recovered", type: 1, state: "ACTIVE", order: "GPA.1..1", until: 70, active: [(69, ["X"])]),
        Case(name: "G9 deferred", type: 9, state: "ACTIVE", until: 40, active: [(39, ["X"]), (40, [])]),
        Case(
            name: "G10 a pause is planned", type: 11, state: "ACTIVE",
            more: #","pausedStateContext":{"autoResumeTime":"2025-09-01T00:00:00Z"}"#, active: [(29, ["X"]), (30, [])],
            renewState: "will_renew"),
        Case(name: "G11 paused", type: 10, state: "PAUSED", active: [(2, [])]),
        Case(name: "G12 revoked", type: 12, state: "EXPIRED", active: [(2, [])], renewState: "canceled"),
        Case(name: "G13 expired", type: 13, state: "EXPIRED", until: 1, active: [(2, [])]),
        Case(name: "G14 a new price, agreed", type: 8, state: "ACTIVE", active: [(29, ["X"]), (30, [])]),
        Case(
            name: "G14 a new price", type: 19, state: "ACTIVE", active: [(29, ["X"]), (30, [])],
            renewState: "will_renew"),
        Case(name: "G14 consent to a step up", type: 22, state: "ACTIVE", active: [(29, ["X"]), (30, [])]),
        Case(
            name: "G16 the end is planned", type: 18, state: "ACTIVE", renews: false, active: [(29, ["X"]), (30, [])],
            renewState: "canceled"),
        Case(name: "G17 a pending purchase canceled", type: 20, state: "PENDING_PURCHASE_CANCELED", active: [(2, [])]),
        Case(
            name: "G26 an unknown type", type: 99, state: "ACTIVE", order: "GPA.1..0", until: 60, active: [(59, ["X"])]),
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
            scene.subscription(row.state, order: row.order, until: row.until, renews: row.renews, more: row.more))
        for _ in 0..<2 { #expect(try scene.changed("tok-1", type: row.type).body == "{}") }
        if let state = row.renewState {
            #expect(try client.call("GET", "/v3/users/A/entitlements").body.contains("\"renew_state\":\"\(state)\""))
        }
        for (day, products) in row.active {
            client.clock.set(seconds: 1_750_000_000 + day * 86_400)
            #expect(try client.active("A") == products, "\(row.name), day \(day)")
        }
    }

    @Test("an item that is added counts, and one that is taken out ends (G15)", arguments: StoreKind.allCases)
    func items(_ kind: StoreKind) throws {
        let scene = try PlayScene(kind) { $0.purchaseChecks.perSecond = 0 }
        let (client, google) = (scene.client, scene.google)
        func tell(_ items: [(product: String, order: String, until: Int64)]) throws {
            client.clock.set(seconds: client.clock.seconds + 1)
            google.says("tok-1", scene.items(items))
            for _ in 0..<2 { #expect(try scene.changed("tok-1", type: 17).status == 200) }
        }
        google.says("tok-1", scene.items([("X", "GPA.1", 30), ("Y", "GPA.1", 30)]))
        _ = try client.call("POST", "/v1/user/init", #"{"q_uid":"A"}"#)
        _ = try client.call("POST", "/v2/identities", #"{"anon_id":"A","identity_id":"u1"}"#)
        #expect(try scene.buy("A", "tok-1").status == 200)
        // The identity owns both items, on another device as well.
        let explained = try client.call("GET", "/v3/users/A/entitlements?explain=true").body
        #expect(explained.components(separatedBy: #""rule":"owner""#).count == 3, "\(explained)")
        try tell([("X", "GPA.1", 30), ("Y", "GPA.1", 30), ("Z", "GPA.2", 30)])
        #expect(try client.active("A") == ["X", "Y", "Z"], "the new item goes to the owner of the others")
        try tell([("X", "GPA.1", 30), ("Z", "GPA.2", 30)])
        #expect(try client.active("A") == ["X", "Z"])
        try tell([("Z", "GPA.2", 30)])
        #expect(try client.active("A") == ["Z"], "the first item is out")
        try tell([("Z", "GPA.2", 30), ("Y", "GPA.3", 30)])
        #expect(try client.active("A") == ["Y", "Z"], "an item may come back")
        #expect(try client.events("A").prefix(2) == ["entitlement_granted", "entitlement_lost"])
    }

    @Test("the other items of a token end with it too")
    func itemsOfReplaced() throws {
        let scene = try PlayScene { $0.purchaseChecks.perSecond = 0 }
        let (client, google) = (scene.client, scene.google)
        google.says("old", scene.items([("X", "GPA.1", 30), ("Y", "GPA.1", 30)]))
        _ = try scene.buy("A", "old")
        #expect(try client.active("A") == ["X", "Y"])
        client.clock.advance(days: 1)
        google.says(
            "new",
            scene.subscription(product: "Z", order: "GPA.2", from: 1, until: 31, more: #","linkedPurchaseToken":"old""#)
        )
        #expect(try scene.changed("new", type: 4).status == 200)
        #expect(try client.active("A") == ["Z"])
        #expect(try scene.changed("old").status == 200)
        #expect(try client.active("A") == ["Z"])
    }

    @Test("another product from the next period on (G18)")
    func deferred() throws {
        let scene = try PlayScene { $0.purchaseChecks.perSecond = 0 }
        let (client, google) = (scene.client, scene.google)
        google.says("tok-1", scene.subscription())
        _ = try scene.buy("A", "tok-1")
        client.clock.advance(days: 1)
        google.says(
            "tok-1",
            scene.subscription().replacing(
                #""autoRenewingPlan""#, with: #""deferredItemReplacement":{"productId":"Y"},"autoRenewingPlan""#))
        #expect(try scene.changed("tok-1", type: 17).status == 200)
        #expect(try client.active("A") == ["X"])
        let explained = try client.call("GET", "/v3/users/A/entitlements?explain=true").body
        #expect(explained.contains(#""next_store_id":"Y""#), "\(explained)")
        client.clock.set(seconds: 1_750_000_000 + 30 * 86_400)
        #expect(try client.active("A") == [], "the old product ends with its period")
        google.says("tok-1", scene.subscription(product: "Y", order: "GPA.1..0", until: 60))
        #expect(try scene.changed("tok-1").status == 200)
        #expect(try client.active("A") == ["Y"])
    }

    @Test("a prepaid subscription ends later when it is topped up (G24)")
    func prepaid() throws {
        let scene = try PlayScene { $0.purchaseChecks.perSecond = 0 }
        let (client, google) = (scene.client, scene.google)
        func says(_ order: String, _ until: Int64) {
            google.says(
                "tok-1",
                scene.subscription(order: order, until: until).replacing(
                    #""autoRenewingPlan":{"autoRenewEnabled":true}"#,
                    with: #""prepaidPlan":{"allowExtendAfterTime":"2025-07-01T00:00:00Z"}"#))
        }
        says("GPA.1", 30)
        _ = try scene.buy("A", "tok-1")
        client.clock.advance(days: 20)
        says("GPA.2", 60)
        #expect(try scene.changed("tok-1", type: 2).status == 200)
        for (day, products) in [(59, ["X"]), (60, [])] as [(Int64, [String])] {
            client.clock.set(seconds: 1_750_000_000 + day * 86_400)
            #expect(try client.active("A") == products, "day \(day)")
        }
    }

    @Test("swapped and repeated notifications lead to one state (G25), and a test changes nothing (G26)")
    func swapped() throws {
        var states: Set<String> = []
        for order in [[3, 3, 2, 2], [2, 3, 2, 3], [2, 2, 3, 3]] {
            let scene = try PlayScene { $0.purchaseChecks.perSecond = 0 }
            scene.google.says("tok-1", scene.subscription())
            _ = try scene.buy("A", "tok-1")
            scene.client.clock.advance(days: 1)
            // It was renewed early and canceled then, and the two notifications come in any order.
            scene.google.says("tok-1", scene.subscription("CANCELED", order: "GPA.1..0", until: 60, renews: false))
            for type in order { #expect(try scene.changed("tok-1", type: type).status == 200) }
            #expect(try scene.notify(#""testNotification":{"version":"1.0"}"#).body == "{}")
            states.insert(try scene.client.call("GET", "/v3/users/A/entitlements").body)
        }
        #expect(states.count == 1 && states.first?.contains(#""renew_state":"canceled""#) == true, "\(states)")
    }

    @Test("what was topped up and then revoked ends at once, whatever an earlier order says (G12, G24)")
    func revokedEarly() throws {
        let scene = try PlayScene { $0.purchaseChecks.perSecond = 0 }
        let (client, google) = (scene.client, scene.google)
        google.says("tok-1", scene.subscription())
        _ = try scene.buy("A", "tok-1")
        for (day, state, active) in [(5, "ACTIVE", ["X"]), (20, "EXPIRED", [String]())] {
            client.clock.set(seconds: 1_750_000_000 + Int64(day) * 86_400)
            google.says("tok-1", scene.subscription(state, order: "GPA.1..0", until: 60))
            #expect(try scene.changed("tok-1").status == 200)
            #expect(try client.active("A") == active, "day \(day)")
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

    /// Users A and B with the identities u1 and u2, by the strategy `transfer`. A has bought the token `old`.
    private func twoUsers(_ kind: StoreKind) throws -> PlayScene {
        let scene = try PlayScene(kind) { $0.purchaseChecks.perSecond = 0 }
        try scene.client.restore(by: "transfer")
        scene.google.says("old", scene.subscription())
        _ = try scene.buy("A", "old")
        for (user, identity) in [("A", "u1"), ("B", "u2")] {
            _ = try scene.client.call("POST", "/v1/user/init", #"{"q_uid":"\#(user)"}"#)
            _ = try scene.client.call("POST", "/v2/identities", #"{"anon_id":"\#(user)","identity_id":"\#(identity)"}"#)
        }
        #expect(try scene.client.active("A") == ["X"])
        scene.client.clock.advance(days: 1)
        return scene
    }

    private func sayNew(_ scene: PlayScene) {
        let link = #","linkedPurchaseToken":"old""#
        scene.google.says(
            "new", scene.subscription(product: "Y", order: "GPA.2", from: 1, until: 31, more: link))
    }

    private func restore(_ client: AccessClient, _ token: String) throws -> (answer: Wire.Answer, transfer: String) {
        let answer = try client.call(
            "POST", "/v3/users/B/restore", #"{"transactions":[{"play_store_data":{"purchase_token":"\#(token)"}}]}"#)
        let transfer = try #require(answer.body.firstMatch(of: /"transfer_id":"(t_[0-9]+)"/)?.1, "\(answer)")
        return (answer, String(transfer))
    }

    @Test(
        "a restore of a new token that takes over from another one's is a transfer, told and undone",
        arguments: StoreKind.allCases)
    func transferOfNew(_ kind: StoreKind) throws {
        let scene = try twoUsers(kind)
        let client = scene.client
        sayNew(scene)
        let (answer, transfer) = try restore(client, "new")
        #expect(answer.body.contains(#""outcome":"moved""#), "\(answer)")
        #expect(try client.active("A") == [] && client.active("B") == ["Y"])
        #expect(try client.events("A").first == "entitlement_transferred")
        #expect(try client.events("B").first == "entitlement_transferred")
        #expect(try client.administrator("POST", "/transfers/\(transfer)/undo").status == 200)
        #expect(try client.active("A") == ["Y"] && client.active("B") == [])
    }

    @Test(
        "what has replaced a purchase goes back with it, and moves in its place", arguments: StoreKind.allCases)
    func undoOfReplaced(_ kind: StoreKind) throws {
        let scene = try twoUsers(kind)
        let client = scene.client
        let (_, transfer) = try restore(client, "old")
        #expect(try client.active("A") == [] && client.active("B") == ["X"])
        sayNew(scene)
        #expect(try scene.changed("new").status == 200)
        #expect(try client.active("B") == ["Y"])
        let undone = try client.administrator("POST", "/transfers/\(transfer)/undo")
        #expect(
            undone.status == 200 && undone.body.contains(#""product_id":"Y","from":["u2"],"to":["u1"]"#), "\(undone)")
        #expect(try client.active("A") == ["Y"] && client.active("B") == [])
        let body = #"{"transaction":"playstore:old","to":"sandbox_identity:u2"}"#
        let moved = try client.administrator("POST", "/transfers", body)
        #expect(moved.status == 200 && moved.body.contains(#""product_id":"Y","from":["u1"],"to":["u2"]"#), "\(moved)")
        #expect(try client.active("A") == [] && client.active("B") == ["Y"])
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

    @Test("a restore of many purchases asks about some at the same time, and takes all of them")
    func longHistory() throws {
        let scene = try PlayScene { $0.purchaseChecks.perSecond = 0 }
        let (client, google) = (scene.client, scene.google)
        let names = (0..<150).map { "tok-\($0)" }
        for name in names { google.says(name, scene.subscription()) }
        google.says("tok-149", scene.subscription(product: "Y"))
        let history = names.map { #"{"product":"X","purchase_token":"\#($0)","purchase_time":1750000000}"# }
        @Sendable func asked() -> [String] {
            google.stand.received.map(\.line).filter { $0.contains("/subscriptionsv2/") }
        }
        // No answer comes before many questions are open.
        google.isSlow.withLock { $0 = true }
        let isOpen = Monitor(false)
        let answers = WorkerThread(name: "google") {
            let areMany = Patience.until { asked().count >= 16 }
            isOpen.withLock { $0 = areMany }
            google.isSlow.withLock { $0 = false }
        }
        let restored = try client.call(
            "POST", "/v1/user/restore",
            #"{"q_uid":"A","version":"9.6.0","history":[\#(history.joined(separator: ","))]}"#,
            fields: [("Platform", "android"), ("Trigger", "Restore")])
        answers.join()
        #expect(restored.status == 200 && isOpen.withLock { $0 }, "\(restored)")
        #expect(try client.active("A") == ["X", "Y"])
        #expect(Set(asked()).count == names.count && asked().count == names.count, "each once")
    }

    @Test("a client's invented tokens are asked about some times only, and what Google has forgotten is no fault")
    func inventedHistory() throws {
        let scene = try PlayScene { $0.purchaseChecks.perSecond = 0 }
        let google = scene.google
        func restore(_ tokens: [String]) throws -> Wire.Answer {
            let history = tokens.map { #"{"product":"X","purchase_token":"\#($0)","purchase_time":1750000000}"# }
            return try scene.client.call(
                "POST", "/v1/user/restore",
                #"{"q_uid":"A","version":"9.6.0","history":[\#(history.joined(separator: ","))]}"#,
                fields: [("Platform", "android"), ("Trigger", "Restore")])
        }
        google.forgotten.withLock { $0 = ["gone"] }
        let gone = try restore(["gone"])
        #expect(gone.status == 200 && gone.body.contains(#""permissions":[]"#), "\(gone)")
        let before = google.stand.received.count
        let invented = try restore((0..<1000).map { "tok-\($0)" })
        #expect(invented.status == 422 && invented.body.contains(#""code":20008"#), "\(invented)")
        #expect((1...64).contains(google.stand.received.count - before), "\(google.stand.received.count)")
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
        let plain = try AccessClient(.memory)
        #expect(try plain.http.call("POST", path, json: "{}").status == 503)
    }
}
