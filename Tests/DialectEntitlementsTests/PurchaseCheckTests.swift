import ByteText
import CivilTime
import Crypto
import DialectEntitlements
import Foundation
import Outbound
import TestKit
import Testing
import Threads

/// The server's own questions to stores (spec/entitlements-live.md 7): no store tells anything here, and no client calls.
@Suite("Purchases are checked by themselves")
struct PurchaseCheckTests {
    private func scene(_ kind: StoreKind = .memory) throws -> PlayScene {
        try PlayScene(kind) {
            $0.purchaseChecks.pauseMilliseconds = 5
            $0.purchaseChecks.perSecond = 1000
        }
    }

    private func day(_ client: AccessClient, _ day: Int64, minutes: Int64 = 0) {
        client.clock.set(seconds: 1_750_000_000 + day * 86_400 + minutes * 60)
    }

    /// Waits while the clock goes on: an answer may be stored only after the clock was set, and then the next question is later.
    private func comes(_ scene: PlayScene, everySeconds seconds: Int64 = 60, _ isSo: () throws -> Bool) rethrows -> Bool
    {
        try Patience.until {
            scene.client.clock.set(seconds: scene.client.clock.seconds + seconds)
            return try isSo()
        }
    }

    private func questions(_ scene: PlayScene, _ token: String) -> Int {
        scene.google.stand.received.count { $0.line.contains("/subscriptionsv2/tokens/\(token) ") }
    }

    @Test("a renewal counts ten minutes after the end of its period (X14)", arguments: StoreKind.allCases)
    func renewal(_ kind: StoreKind) throws {
        let scene = try scene(kind)
        scene.google.says("tok-1", scene.subscription())
        scene.google.says("tok-2", scene.subscription(until: 31))
        _ = try scene.buy("A", "tok-1")
        _ = try scene.buy("B", "tok-2")
        scene.google.says("tok-1", scene.subscription(order: "GPA.1..0", until: 60))
        day(scene.client, 30)
        #expect(try scene.client.active("A") == [], "the period is over, and nobody has asked yet")
        day(scene.client, 30, minutes: 10)
        #expect(try Patience.until { try scene.client.active("A") == ["X"] })
        #expect(questions(scene, "tok-1") == 2)
        // The next question comes with the next end: the other purchase's question shows that the server has looked.
        scene.google.says("tok-2", scene.subscription(order: "GPA.2..0", until: 61))
        day(scene.client, 31, minutes: 10)
        #expect(Patience.until { questions(scene, "tok-2") == 2 })
        #expect(questions(scene, "tok-1") == 2)
        day(scene.client, 60, minutes: 10)
        #expect(Patience.until { questions(scene, "tok-1") == 3 })
        let key = scene.client.server.credentials.adminKey
        #expect(
            try Patience.until {
                try scene.client.call("GET", "/metrics", key: key).body
                    .contains(#"onym_purchase_checks_total{store="playstore",result="answered"} 3"#)
            })
    }

    @Test("nothing is asked about a purchase that has ended, is replaced, or is gone")
    func ends() throws {
        let scene = try scene()
        for token in ["over", "gone", "old", "other"] { scene.google.says(token, scene.subscription(order: token)) }
        for token in ["over", "gone", "old", "other"] { _ = try scene.buy(token, token) }
        scene.google.says("over", scene.subscription("EXPIRED", order: "over", renews: false))
        scene.google.subscriptions.withLock { $0["gone"] = nil }
        scene.google.forgotten.withLock { $0 = ["gone"] }
        scene.google.says(
            "new", scene.subscription(product: "Y", order: "new", until: 400, more: #","linkedPurchaseToken":"old""#))
        _ = try scene.changed("new")
        day(scene.client, 30, minutes: 10)
        #expect(Patience.until { ["over", "gone", "other"].allSatisfy { questions(scene, $0) == 2 } })
        // The other one is not paid: it is asked about each day, while no question is about the first three.
        for next in 31...34 {
            let before = questions(scene, "other")
            #expect(comes(scene, everySeconds: 3600) { questions(scene, "other") > before }, "day \(next)")
        }
        #expect(["over", "gone", "old"].map { questions(scene, $0) } == [2, 2, 1])
    }

    @Test("a store that is down is asked again until it answers (X15)", arguments: [StoreKind.memory, .postgres])
    func outage(_ kind: StoreKind) throws {
        guard StoreKind.allCases.contains(kind) else { return }
        let scene = try scene(kind)
        scene.google.says("tok-1", scene.subscription())
        _ = try scene.buy("A", "tok-1")
        scene.google.isDown.withLock { $0 = true }
        day(scene.client, 30, minutes: 10)
        for fault in 1...3 {
            let before = scene.google.stand.received.count
            #expect(comes(scene) { scene.google.stand.received.count > before }, "fault \(fault)")
        }
        #expect(try scene.client.active("A") == [])
        scene.google.isDown.withLock { $0 = false }
        scene.google.says("tok-1", scene.subscription(order: "GPA.1..0", until: 60))
        #expect(try comes(scene) { try scene.client.active("A") == ["X"] })
    }

    @Test(
        "while a store does not answer, access is unconfirmed, and goes on for the time of grace (X15)",
        arguments: [0, 4])
    func outage(_ hours: Int64) throws {
        let scene = try PlayScene {
            $0.purchaseChecks.pauseMilliseconds = 5
            $0.purchaseChecks.perSecond = 1000
            $0.purchaseChecks.graceMilliseconds = hours * 3_600_000
        }
        func stored() throws -> String {
            try scene.client.administrator("GET", "/purchases/playstore:tok-1/check").body
        }
        scene.google.says("tok-1", scene.subscription())
        scene.google.says("tok-2", scene.subscription(renews: false))
        for (user, token) in [("A", "tok-1"), ("B", "tok-2")] { _ = try scene.buy(user, token) }
        #expect(try stored().contains(#""why":"period_runs""#))
        scene.google.isDown.withLock { $0 = true }
        day(scene.client, 30)
        #expect(try scene.client.active("A") == (hours > 0 ? ["X"] : []), "before the first question")
        day(scene.client, 30, minutes: 10)
        #expect(try Patience.until { try stored().contains(#""why":"unconfirmed""#) })
        #expect(try scene.client.active("A") == (hours > 0 ? ["X"] : []))
        #expect(try scene.client.active("B") == [], "a canceled subscription ends with its period")
        day(scene.client, 30, minutes: 239)
        #expect(try scene.client.active("A") == (hours > 0 ? ["X"] : []))
        day(scene.client, 30, minutes: 240)
        #expect(try scene.client.active("A") == [])
        #expect(try Patience.until { try stored().contains(#""why":"unconfirmed""#) })
        scene.google.says("tok-1", scene.subscription(order: "GPA.1..0", until: 60))
        scene.google.isDown.withLock { $0 = false }
        #expect(try comes(scene) { try scene.client.active("A") == ["X"] })
        #expect(try stored().contains(#""why":"period_runs""#))
        // An answer that tells of no renewal ends the access at once.
        scene.google.isDown.withLock { $0 = true }
        day(scene.client, 60, minutes: 10)
        #expect(try comes(scene, everySeconds: 1) { try stored().contains(#""why":"unconfirmed""#) })
        scene.google.isDown.withLock { $0 = false }
        #expect(try comes(scene) { try stored().contains(#""why":"ended""#) })
        #expect(try scene.client.active("A") == [])
    }

    @Test(
        "an outage gives no access to a subscription whose access had ended before",
        arguments: ["PENDING", "PAUSED", "not renewed", "unknown"])
    func ended(_ state: String) throws {
        let scene = try PlayScene {
            $0.purchaseChecks.pauseMilliseconds = 5
            $0.purchaseChecks.perSecond = 1000
            $0.purchaseChecks.graceMilliseconds = 72 * 3_600_000
        }
        let isRunning = state.contains { $0.isLowercase }
        scene.google.says("tok", scene.subscription(isRunning ? "ACTIVE" : state))
        _ = try scene.buy("A", "tok")
        #expect(try scene.client.active("A") == (isRunning ? ["X"] : []))
        if isRunning {
            if state == "unknown" { scene.google.subscriptions.withLock { $0 = [:] } }
            day(scene.client, 30)
            #expect(try scene.client.active("A") == ["X"], "nobody has asked")
            day(scene.client, 30, minutes: 10)
            #expect(try Patience.until { try scene.client.active("A") == [] }, "an answer of the store ends the grace")
        }
        scene.google.isDown.withLock { $0 = true }
        func stored() throws -> String {
            try scene.client.administrator("GET", "/purchases/playstore:tok/check").body
        }
        #expect(try comes(scene) { try stored().contains(#""why":"unconfirmed""#) })
        #expect(try scene.client.active("A") == [])
    }

    @Test("a purchase that users have is acknowledged once, and one that nobody has is not")
    func acknowledges() throws {
        let scene = try scene()
        let acknowledged = #""ACKNOWLEDGEMENT_STATE_ACKNOWLEDGED""#
        for token in ["mine", "nobodys"] {
            scene.google.says(
                token,
                scene.subscription(order: token)
                    .replacing(acknowledged, with: #""ACKNOWLEDGEMENT_STATE_PENDING""#))
        }
        _ = try scene.changed("nobodys")
        _ = try scene.buy("A", "mine")
        func acknowledgements() -> [String] {
            scene.google.stand.received.map(\.line).filter { $0.contains(":acknowledge") }
        }
        let path = "/androidpublisher/v3/applications/com.example.app/purchases/subscriptions/X/tokens/mine:acknowledge"
        #expect(Patience.until { acknowledgements() == ["POST \(path) HTTP/1.1"] })
        // The next question is about the end of the period.
        for token in ["mine", "nobodys"] { scene.google.says(token, scene.subscription(order: token, until: 60)) }
        let before = questions(scene, "mine")
        day(scene.client, 30, minutes: 10)
        #expect(comes(scene) { questions(scene, "mine") > before && questions(scene, "nobodys") == 2 })
        #expect(acknowledgements().count == 1)
    }

    @Test("a payment that is made later counts without a notification")
    func pending() throws {
        let scene = try scene()
        try scene.client.sell("Y", #"{"type":"non_consumable","entitlements":["Y"]}"#)
        func says(_ state: String) {
            scene.google.products.withLock {
                $0["tok"] =
                    #"{"productLineItem":[{"productId":"Y"}],"purchaseStateContext":{"purchaseState":"\#(state)"},"testPurchaseContext":{},"orderId":"GPA.2","purchaseCompletionTime":"2025-06-15T15:06:40Z"}"#
            }
        }
        says("PENDING")
        #expect(try scene.buy("A", "tok", product: "Y").status == 200)
        #expect(try scene.client.active("A") == [])
        says("PURCHASED")
        day(scene.client, 0, minutes: 17)
        #expect(try Patience.until { try scene.client.active("A") == ["Y"] })
    }

    /// A user with a subscription at Stripe.
    private func subscribed() throws -> (AccessClient, StandIn) {
        let stand = StandIn(.status(200, StripeTests.subscription()))
        let url = try #require(OutboundURL(stand.url))
        let client = try AccessClient(.memory) {
            $0.stores.addresses.stripe = url
            $0.stores.options["stripe.secret_key"] = "rk_secret"
            $0.purchaseChecks.pauseMilliseconds = 5
            $0.purchaseChecks.perSecond = 1000
        }
        try client.makeUser("A")
        let body =
            #"{"price":"9.99","currency":"EUR","purchased":1700000000,"stripe_store_data":{"subscription_id":"sub_1","product_id":"X"}}"#
        #expect(try client.call("POST", "/v3/users/A/purchases", body).status == 201)
        return (client, stand)
    }

    @Test("Stripe is asked at the end of a period")
    func stripe() throws {
        let (client, stand) = try subscribed()
        stand.answer(
            .status(
                200, StripeTests.subscription(#","current_period_start":1750000099,"current_period_end":1750086400"#)))
        client.clock.set(seconds: 1_750_000_099 + 600)
        #expect(try Patience.until { try client.active("A") == ["X"] })
    }

    @Test("a purchase that a store does not find is asked about again: the settings may have been wrong")
    func unknown() throws {
        let scene = try scene()
        scene.google.says("tok-1", scene.subscription())
        _ = try scene.buy("A", "tok-1")
        scene.google.subscriptions.withLock { $0 = [:] }
        day(scene.client, 30, minutes: 10)
        #expect(Patience.until { questions(scene, "tok-1") == 2 })
        scene.google.says("tok-1", scene.subscription(order: "GPA.1..0", until: 60))
        #expect(try comes(scene) { try scene.client.active("A") == ["X"] })
    }

    @Test("a subscription that is paused is asked about at longer and longer intervals")
    func paused() throws {
        let (client, stand) = try subscribed()
        stand.answer(
            .status(200, StripeTests.subscription(#","status":"paused","current_period_end":1800000000"#)))
        // Each answer says that the access has ended now.
        var asked: [Int64] = []
        var count = stand.received.count
        for _ in 0..<200 {
            client.clock.set(seconds: client.clock.seconds + 1800)
            let (wanted, sequence) = (count + 1, client.server.store.counts.lastSequence)
            _ = Patience.until(milliseconds: 20) {
                stand.received.count >= wanted && client.server.store.counts.lastSequence > sequence
            }
            if stand.received.count > count { asked.append(client.clock.seconds - 1_750_000_099) }
            count = stand.received.count
        }
        // 100 hours: some in the first hours, and then one a day.
        #expect((2...12).contains(asked.count), "\(asked)")
    }

    @Test("an operator asks a store, and is told why there is access", arguments: StoreKind.allCases)
    func askedByOperator(_ kind: StoreKind) throws {
        let scene = try PlayScene(kind) { $0.purchaseChecks.perSecond = 0 }
        scene.google.says("tok-1", scene.subscription())
        _ = try scene.buy("A", "tok-1")
        let path = "/purchases/playstore:tok-1/check"
        func shown(_ method: String) throws -> [String: Any] {
            let body = try scene.client.administrator(method, path).body
            return try #require(try JSONSerialization.jsonObject(with: Data(body.utf8)) as? [String: Any], "\(body)")
        }
        func says(_ answer: [String: Any], _ name: String) -> String? {
            (answer["store_says"] as? [String: Any])?[name] as? String
        }
        func access(_ answer: [String: Any]) -> [String: Any]? { (answer["access"] as? [[String: Any]])?.first }
        scene.google.says("tok-1", scene.subscription(order: "GPA.1..0", until: 60))
        day(scene.client, 31)
        let stored = try shown("GET")
        #expect(says(stored, "state") == "ended" && access(stored)?["active"] as? Bool == false)
        let asked = try shown("POST")
        #expect(
            says(asked, "state") == "period_runs" && says(asked, "fault") == nil
                && says(asked, "renewal") == "will_renew")
        #expect(access(asked)?["entitlement"] as? String == "X" && access(asked)?["why"] as? String == "period_runs")
        #expect((asked["next_check"] as? String)?.hasPrefix("2025-08-14") == true, "\(asked)")
        #expect(try scene.client.active("A") == ["X"])
        scene.google.isDown.withLock { $0 = true }
        day(scene.client, 61)
        let down = try shown("POST")
        #expect(says(down, "fault")?.contains("cannot be asked") == true && says(down, "state") == "ended")
        for id in ["playstore:other", "playstore", "nowhere:tok-1", "stripe:tok-1"] {
            #expect(try scene.client.administrator("POST", "/purchases/\(id)/check").status == 404, "\(id)")
        }
        let key = scene.client.projectKey
        #expect(try scene.client.call("GET", "/onym/v1" + path, key: key).status == 401)
    }

    private static let chain = Result { try AppleChain() }

    /// A server that asks stand-ins for Apple's servers.
    private func client(
        _ chain: AppleChain, production: StandIn, sandbox: StandIn,
        _ configure: @escaping (inout PurchaseChecker.Limits) -> Void = { _ in }
    ) throws -> AccessClient {
        let pem = try [UInt8](Data(contentsOf: URL(filePath: chain.path + "/leaf.key")))
        let root = try #require(Certificate(pem: chain.rootPEM))
        return try AccessClient(.memory, at: chain.now) {
            $0.stores.appStoreRoot = root
            $0.stores.addresses.appStore = OutboundURL(production.url)
            $0.stores.addresses.appStoreSandbox = OutboundURL(sandbox.url)
            $0.stores.options["app_store.bundle_id"] = "com.example.app"
            $0.stores.options["app_store.key"] = String(decoding: pem, as: UTF8.self)
            $0.stores.options["app_store.key_id"] = "K1"
            $0.stores.options["app_store.issuer_id"] = "issuer"
            $0.purchaseChecks.pauseMilliseconds = 5
            configure(&$0.purchaseChecks)
        }
    }

    @Test("a start of the app with a new signature of the same state keeps the access of an outage")
    func start() throws {
        let chain = try PurchaseCheckTests.chain.get()
        let down = StandIn(.status(500, ""))
        let client = try client(chain, production: down, sandbox: down) { $0.graceMilliseconds = 3_600_000 }
        func transaction(signed: Int64, revoked: Bool = false) throws -> String {
            var payload: [String: Any] = [
                "transactionId": "1", "originalTransactionId": "1", "bundleId": "com.example.app", "productId": "X",
                "purchaseDate": chain.now * 1000, "expiresDate": (chain.now + 100) * 1000,
                "signedDate": (chain.now + signed) * 1000, "type": "Auto-Renewable Subscription",
                "environment": "Sandbox",
            ]
            if revoked { payload["revocationDate"] = (chain.now + signed) * 1000 }
            return try chain.sign(payload)
        }
        try client.makeUser("A")
        #expect(try client.purchase("A", try transaction(signed: 0)).status == 201)
        client.clock.set(seconds: chain.now + 700)
        #expect(Patience.until { !down.received.isEmpty })
        #expect(try client.active("A") == ["X"])
        _ = try client.purchase("A", try transaction(signed: 600))
        #expect(try client.active("A") == ["X"])
        _ = try client.purchase("A", try transaction(signed: 650, revoked: true))
        #expect(try client.active("A") == [], "a refund ends it")
    }

    @Test("Apple's server is asked, for purchases and then for those of testers")
    func apple() throws {
        let chain = try PurchaseCheckTests.chain.get()
        let status = Monitor("")
        func says(_ answer: String) { status.withLock { $0 = answer } }
        let production = StandIn { _ in
            .status(404, #"{"errorCode":4040010,"errorMessage":"Transaction id not found."}"#)
        }
        let sandbox = StandIn { _ in .status(200, status.withLock { $0 }) }
        let client = try client(chain, production: production, sandbox: sandbox)
        func transaction(_ id: String, from start: Int64, to end: Int64) throws -> String {
            try chain.sign([
                "transactionId": id, "originalTransactionId": "1", "bundleId": "com.example.app", "productId": "X",
                "purchaseDate": (chain.now + start) * 1000, "expiresDate": (chain.now + end) * 1000,
                "signedDate": (chain.now + start) * 1000, "type": "Auto-Renewable Subscription",
                "environment": "Sandbox",
            ])
        }
        try client.makeUser("A")
        let bought = try client.purchase("A", try transaction("1", from: 0, to: 100))
        #expect(bought.status == 201, "\(bought)")
        let renewed = try transaction("2", from: 100, to: 5000)
        says(
            #"{"environment":"Sandbox","bundleId":"com.example.app","data":[{"lastTransactions":[{"status":1,"originalTransactionId":"9","signedTransactionInfo":"a.b.c"},{"status":1,"originalTransactionId":"1","signedTransactionInfo":"\#(renewed)"}]}]}"#
        )
        client.clock.set(seconds: chain.now + 700)
        #expect(try Patience.until { try client.active("A") == ["X"] })
        let asked = try #require(production.received.first { $0.line == "GET /inApps/v1/subscriptions/1 HTTP/1.1" })
        let bearer = asked.fields.first { $0.hasPrefix("Authorization: Bearer ") } ?? ""
        let parts = bearer.dropFirst("Authorization: Bearer ".count).split(separator: ".").map(String.init)
        try #require(parts.count == 3)
        let payload = Array(parts[1].utf8)
        let claims = Base64.decodeForAddresses(payload.span) ?? []
        let read = try JSONSerialization.jsonObject(with: Data(claims)) as? [String: Any]
        #expect(read?["aud"] as? String == "appstoreconnect-v1" && read?["bid"] as? String == "com.example.app")
        #expect(read?["iss"] as? String == "issuer")
    }

    @Test("a purchase of an erased person is not asked about any more", arguments: StoreKind.allCases)
    func erased(_ kind: StoreKind) throws {
        let scene = try scene(kind)
        scene.google.says("tok-1", scene.subscription())
        scene.google.says("tok-2", scene.subscription(order: "GPA.2"))
        _ = try scene.buy("A", "tok-1")
        _ = try scene.buy("B", "tok-2")
        let found = try scene.client.administrator("GET", "/people/sandbox_user_id:A").body
        let person = try JSONSerialization.jsonObject(with: Data(found.utf8)) as? [String: Any]
        let id = try #require(person?["id"] as? String)
        #expect(try scene.client.administrator("DELETE", "/people/\(id)").status == 200)
        day(scene.client, 30, minutes: 10)
        #expect(Patience.until { questions(scene, "tok-2") == 2 })
        #expect(questions(scene, "tok-1") == 1)
    }

    @Test("a purchase that nobody has proven is forgotten after 180 days, and one that somebody has is not")
    func forgotten() throws {
        let scene = try scene()
        for token in ["nobodys", "somebodys", "late"] {
            scene.google.says(token, scene.subscription("EXPIRED", order: token, until: 0, renews: false))
            #expect(try scene.changed(token, type: 13).status == 200)
        }
        func isKnown(_ token: String) throws -> Bool {
            try scene.client.administrator("GET", "/purchases/playstore:\(token)/check").status == 200
        }
        #expect(try ["nobodys", "somebodys", "late"].allSatisfy { try isKnown($0) })
        _ = try scene.buy("A", "somebodys")
        day(scene.client, 100)
        // News that change something count as new; the others do not.
        scene.google.says("late", scene.subscription(order: "late2", until: 120))
        for token in ["late", "nobodys"] { #expect(try scene.changed(token).status == 200) }
        scene.google.says("late", scene.subscription("EXPIRED", order: "late2", until: 120, renews: false))
        day(scene.client, 181)
        #expect(try Patience.until { try !isKnown("nobodys") })
        #expect(try isKnown("somebodys") && isKnown("late"))
        // What its store tells after that is told for the first time.
        scene.google.says("nobodys", scene.subscription(order: "new", until: 300))
        #expect(try scene.changed("nobodys").status == 200)
        #expect(try isKnown("nobodys"))
        _ = try scene.buy("B", "nobodys")
        #expect(try scene.client.active("B") == ["X"])
        day(scene.client, 400)
        #expect(try Patience.until { try !isKnown("late") })
        #expect(try isKnown("somebodys") && isKnown("nobodys"))
    }

    @Test("what an app proves at Apple without a key for its server is forgotten too, if only Apple tells of it")
    func forgottenSilently() throws {
        let chain = try PurchaseCheckTests.chain.get()
        let root = try #require(Certificate(pem: chain.rootPEM))
        let client = try AccessClient(.memory, at: chain.now) {
            $0.stores.appStoreRoot = root
            $0.stores.options["app_store.bundle_id"] = "com.example.app"
            $0.purchaseChecks.pauseMilliseconds = 5
        }
        func transaction(_ id: String) throws -> String {
            try chain.sign([
                "transactionId": id, "originalTransactionId": id, "bundleId": "com.example.app", "productId": "X",
                "purchaseDate": chain.now * 1000, "expiresDate": (chain.now + 100) * 1000,
                "signedDate": chain.now * 1000,
                "type": "Auto-Renewable Subscription", "environment": "Sandbox",
            ])
        }
        for id in ["1", "2"] {
            let payload: [String: Any] = [
                "notificationType": "SUBSCRIBED", "notificationUUID": id, "signedDate": chain.now * 1000,
                "data": [
                    "environment": "Sandbox", "bundleId": "com.example.app",
                    "signedTransactionInfo": try transaction(id),
                ],
            ]
            let body = #"{"signedPayload":"\#(try chain.sign(payload))"}"#
            #expect(try client.http.call("POST", "/onym/v1/stores/apple/1", json: body).status == 200)
        }
        func isKnown(_ id: String) throws -> Bool {
            try client.administrator("GET", "/purchases/appstore:\(id)/check").status == 200
        }
        try client.makeUser("A")
        #expect(try client.purchase("A", try transaction("2")).status == 201)
        client.clock.advance(days: 179)
        #expect(try isKnown("1") && isKnown("2"))
        client.clock.advance(days: 2)
        #expect(try Patience.until { try !isKnown("1") })
        #expect(try isKnown("2"))
    }

    @Test("the clocks of stores show that the server's is wrong, and nothing else depends on it (9)")
    func clocks() throws {
        let date = Monitor("")
        let stand = StandIn { _ in
            .status(200, StripeTests.subscription(), fields: ["Date: \(date.withLock { $0 })"])
        }
        let url = try #require(OutboundURL(stand.url))
        let client = try AccessClient(.memory) {
            $0.stores.addresses.stripe = url
            $0.stores.options["stripe.secret_key"] = "rk_secret"
            $0.purchaseChecks.perSecond = 0
        }
        try client.makeUser("A")
        let body = #"{"price":"1","currency":"EUR","stripe_store_data":{"subscription_id":"sub_1","product_id":"X"}}"#
        #expect(try client.call("POST", "/v3/users/A/purchases", body).status == 201)
        func ready() throws -> String { try client.http.call("GET", "/readyz").body }
        func skew() throws -> String {
            let text = try client.call("GET", "/metrics", key: client.server.credentials.adminKey).body
            return try #require(text.firstMatch(of: /\nonym_clock_skew_seconds (-?[0-9]+)/).map { String($0.1) })
        }
        for (ahead, says) in [
            (0, nil), (119, nil), (300, "300 s ahead of the clocks of the stores"),
            (-86_400, "86400 s behind the clocks of the stores"), (1, nil),
        ] as [(Int, String?)] {
            let stores = Int(client.clock.seconds) - ahead
            date.withLock { $0 = String(decoding: HTTPDate.format(secondsSince1970: stores), as: UTF8.self) }
            #expect(try client.administrator("POST", "/purchases/stripe:sub_1/check").status == 200)
            let answer = try ready()
            #expect(answer.contains(#""status":"ready""#), "\(answer)")
            #expect(
                answer.contains(#""clock":""#) == (says != nil) && says.map { answer.contains($0) } ?? true,
                "\(ahead): \(answer)")
            #expect(abs((Int(try skew()) ?? .max) - ahead) <= 1, "\(ahead)")
        }
    }

    @Test("what Stripe has said while the clock was ahead gives way to what it says later (9)")
    func saidAhead() throws {
        let answer = Monitor((StripeTests.subscription(), 0))
        let stand = StandIn { _ in
            let (body, seconds) = answer.withLock { $0 }
            let date = String(decoding: HTTPDate.format(secondsSince1970: seconds), as: UTF8.self)
            return .status(200, body, fields: ["Date: \(date)"])
        }
        let url = try #require(OutboundURL(stand.url))
        let client = try AccessClient(.memory) {
            $0.stores.addresses.stripe = url
            $0.stores.options["stripe.secret_key"] = "rk_secret"
            $0.purchaseChecks.perSecond = 0
        }
        func check(_ body: String, after seconds: Int) throws {
            answer.withLock { $0 = (body, 1_750_000_000 + seconds) }
            #expect(try client.administrator("POST", "/purchases/stripe:sub_1/check").status == 200)
        }
        try client.makeUser("A")
        answer.withLock { $0.1 = 1_750_000_000 }
        client.clock.advance(days: 41)
        let body = #"{"price":"1","currency":"EUR","stripe_store_data":{"subscription_id":"sub_1","product_id":"X"}}"#
        #expect(try client.call("POST", "/v3/users/A/purchases", body).status == 201)
        client.clock.set(seconds: 1_750_000_000)
        #expect(try client.active("A") == ["X"])
        client.clock.set(seconds: 1_750_000_010)
        try check(StripeTests.subscription(#","status":"canceled","ended_at":1750000005"#), after: 10)
        #expect(try client.active("A") == [])
        client.clock.set(seconds: 1_750_000_020)
        try check(StripeTests.subscription(), after: 20)
        #expect(try client.active("A") == ["X"])
    }

    @Test(
        "the server asks in time also if its clock was 41 days ahead when it asked last, and after a restart (9)",
        arguments: StoreKind.allCases, [false, true])
    func askedAhead(_ kind: StoreKind, _ restarts: Bool) throws {
        if restarts, !kind.isDurable { return }
        let scene = try scene(kind)
        let google = scene.google
        for token in ["tok-1", "tok-2"] { google.says(token, scene.subscription(order: token)) }
        for (user, token) in [("A", "tok-1"), ("B", "tok-2")] { _ = try scene.buy(user, token) }
        // The periods seem to be over, and Google says nothing new.
        day(scene.client, 41)
        #expect(Patience.until { ["tok-1", "tok-2"].allSatisfy { questions(scene, $0) >= 2 } })
        func isPlanned(_ start: String) throws -> Bool {
            try ["tok-1", "tok-2"].allSatisfy { token in
                try scene.client.administrator("GET", "/purchases/playstore:\(token)/check").body
                    .contains(#""next_check":"\#(start)"#)
            }
        }
        let stored = try Patience.until { try isPlanned("2025-07-27") }
        #expect(stored, "the next question is planned for the wrong time")
        day(scene.client, 1)
        if restarts { try scene.client.restart() }
        #expect(try Patience.until { try isPlanned("2025-07-15T15:") })
        for token in ["tok-1", "tok-2"] {
            google.says(token, scene.subscription(order: token + "..0", until: 60))
        }
        day(scene.client, 30, minutes: 10)
        #expect(try Patience.until { try scene.client.active("A") == ["X"] })
        #expect(try Patience.until { try scene.client.active("B") == ["X"] })
    }

    /// Ten thousand in a soak, with an end within a minute.
    private static let subscriptions = Soak.factor > 1 ? 10_000 : 200

    @Test("30 days of many subscriptions: each renewal is found on its day, without a notification and without a call")
    func month() throws {
        let scene = try PlayScene {
            $0.purchaseChecks.pauseMilliseconds = 5
            $0.purchaseChecks.perSecond = 100_000
            $0.purchaseChecks.noticesPerSecond = 100_000
        }
        func says(_ number: Int, _ order: Int, until: Int64) {
            let token = "tok-\(number)"
            scene.google.says(token, scene.subscription(order: "GPA.\(number)..\(order)", until: until))
        }
        func end(_ number: Int) -> Int64 { 1 + Int64(number % 30) }
        let numbers = 0..<PurchaseCheckTests.subscriptions
        for number in numbers {
            says(number, 0, until: end(number))
            let text =
                #"{"version":"1.0","packageName":"com.example.app","subscriptionNotification":{"notificationType":4,"purchaseToken":"tok-\#(number)"}}"#
            #expect(
                try scene.client.http.call(
                    "POST", "/onym/v1/stores/google/1/\(PlayScene.secret)",
                    json: #"{"message":{"data":"\#(Base64.encode(Array(text.utf8)))"}}"#
                ).status == 200)
        }
        #expect(Patience.until { scene.google.subscriptionReads >= numbers.count })
        let begun = ContinuousClock.now
        for number in numbers { says(number, 1, until: end(number) + 30) }
        // On the next day, the first ones would be due once more.
        for day in 1...30 as ClosedRange<Int64> {
            self.day(scene.client, day, minutes: 10)
            let due = numbers.count { end($0) <= day }
            #expect(
                comes(scene, everySeconds: 1) { scene.google.subscriptionReads >= numbers.count + due }, "day \(day)")
        }
        #expect(scene.google.subscriptionReads == 2 * numbers.count, "each was asked about once")
        for number in [0, 1, numbers.count - 1] {
            let stored = try scene.client.administrator("GET", "/purchases/playstore:tok-\(number)/check").body
            #expect(stored.contains(#""state":"period_runs""#), "\(stored)")
        }
        if Soak.factor > 1 {
            let seconds = (ContinuousClock.now - begun).components.seconds
            #expect(seconds <= 60)
            Soak.report("30 days of \(numbers.count) subscriptions in \(seconds) s")
        }
    }

    @Test("a clock that was 41 days ahead, and is right again, spoils nothing (9)", arguments: StoreKind.allCases)
    func ahead(_ kind: StoreKind) throws {
        let scene = try PlayScene(kind) { $0.purchaseChecks.perSecond = 0 }
        let (client, google) = (scene.client, scene.google)
        google.says("tok-1", scene.subscription())
        _ = try scene.buy("A", "tok-1")
        let start = client.clock.seconds
        // The clock is ahead: the periods seem to be over, and what is written has a late moment.
        client.clock.advance(days: 41)
        #expect(try client.active("A") == [])
        google.says("tok-2", scene.subscription(product: "Y", order: "GPA.2", until: 75))
        _ = try scene.buy("B", "tok-2")
        #expect(try client.purchase("B", client.receipt("Z", "z1", expires: client.clock.seconds + 60)).status == 201)
        client.clock.set(seconds: start + 60)
        #expect(try client.active("A") == ["X"], "the access of the moment")
        // A new receipt, a grant, a restore, a signed answer and a renewal count at once.
        try client.makeUser("C")
        #expect(try client.purchase("C", client.receipt("Z", "z2", expires: start + 3600)).status == 201)
        #expect(
            try client.call(
                "POST", "/v3/users/C/entitlements", #"{"id":"Y","expires":\#(start + 3600)}"#, key: client.secretKey
            ).status == 200)
        #expect(try client.active("C") == ["Y", "Z"])
        #expect(try client.call("POST", "/v3/users/D", "{}").status == 201)
        let restored = try client.call(
            "POST", "/v3/users/D/restore", #"{"transactions":["\#(client.receipt("Z", "z2", expires: start + 3600))"]}"#
        )
        #expect(restored.body.contains(#""outcome":"yours""#), "\(restored)")
        let nonce = Base64.encodeForAddresses([UInt8](repeating: 5, count: 16))
        let signed = try client.call("GET", "/v3/users/C/entitlements", fields: [("Onym-Nonce", nonce)])
        #expect(signed["Onym-Signature"]?.contains(";t=\((start + 60) * 1000);") == true, "\(signed)")
        google.says("tok-1", scene.subscription(order: "GPA.1..0", until: 60))
        day(client, 31)
        #expect(try scene.changed("tok-1").status == 200)
        #expect(try client.active("A") == ["X"], "a renewal")
        client.clock.set(seconds: start + 50 * 86_400)
        google.says("tok-2", scene.subscription("CANCELED", product: "Y", order: "GPA.2", until: 75, renews: false))
        #expect(try scene.changed("tok-2", type: 3).status == 200)
        #expect(try client.call("GET", "/v3/users/B/entitlements").body.contains(#""renew_state":"canceled""#))
    }
}
