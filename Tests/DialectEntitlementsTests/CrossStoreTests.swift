import Domain
import Foundation
import TestKit
import Testing

/// The cases across stores (spec/entitlements-live.md 10), as shipped clients call, against stores on this machine.
@Suite("Cases across stores")
struct CrossStoreTests {
    private typealias Told = StoresScene.Told
    private let bought = Told(id: "100", original: "100")

    // MARK: - One account on several installs

    @Test(
        "X1 two installs of one account see what it paid for, however often each restores",
        arguments: ["receipts", "transactions", "one of each"])
    func x1(_ form: String) throws {
        let scene = try StoresScene(restore: "transfer")
        let (receipt, text) = (try scene.receipt([bought]), try scene.signed(bought))
        for user in ["A", "B"] { try scene.client.makeUser(user) }
        for user in ["A", "B", "A", "B"] {
            let usesReceipt = form == "receipts" || (form == "one of each" && user == "A")
            let answer =
                try usesReceipt
                ? scene.iOS("/v1/user/init", user, receipt: receipt, trigger: "Restore") : scene.report(user, text)
            #expect([200, 201].contains(answer.status), "\(answer)")
            #expect(try scene.client.active(user) == ["X"])
        }
        #expect(try scene.client.active("A") == ["X"] && scene.client.active("B") == ["X"])
    }

    /// A scene after X2: u1 on A owns X, and B, signed out, has started with the account's receipt.
    private func shared(_ restore: String = "copy") throws -> (scene: StoresScene, receipt: String) {
        let scene = try StoresScene(restore: restore)
        let receipt = try scene.receipt([bought])
        _ = try scene.iOS("/v1/user/init", "A")
        #expect(try scene.identify("A", "u1") == "A")
        let purchase =
            #","purchase":{"product":"X","transaction_id":"100","original_transaction_id":"","value":"9.99"}"#
        let answer = try scene.iOS("/v1/user/purchase", "A", receipt: receipt, trigger: "Purchase", purchase)
        #expect(answer.status == 200, "\(answer)")
        _ = try scene.iOS("/v1/user/init", "B", receipt: receipt)
        return (scene, receipt)
    }

    @Test("X2 the same account signed out sees what another identity owns, and that identity keeps it")
    func x2() throws {
        let (scene, _) = try shared()
        #expect(try scene.client.active("B") == ["X"] && scene.client.active("A") == ["X"])
    }

    @Test("X3 and it sees nothing of that as another identity")
    func x3() throws {
        let (scene, receipt) = try shared()
        let user = try scene.identify("B", "u2")
        let start = try scene.iOS("/v1/user/init", user, receipt: receipt, trigger: "Identify")
        #expect(try LaunchReader(start.body).active == [])
        #expect(try scene.client.active(user) == [] && scene.client.active("A") == ["X"])
    }

    @Test(
        "X4 a restore goes by the strategy",
        arguments: [
            ("copy", ["A", "B"]), ("transfer", ["B"]), ("keep_original", ["A"]), ("transfer_if_inactive", ["A"]),
        ])
    func x4(_ strategy: String, _ holders: [String]) throws {
        let (scene, receipt) = try shared(strategy)
        #expect(try scene.identify("B", "u2") == "B")
        #expect(try scene.iOS("/v1/user/init", "B", receipt: receipt, trigger: "Restore").status == 200)
        #expect(try ["A", "B"].filter { try scene.client.active($0) == ["X"] } == holders)
    }

    @Test(
        "X5 an app that is installed anew has its purchases, with iOS 6 and with iOS 5.12",
        arguments: ["6.13.0", "5.12.0"])
    func x5(_ version: String) throws {
        let scene = try StoresScene()
        let receipt = try scene.receipt([bought])
        _ = try scene.iOS("/v1/user/init", "A", receipt: receipt)
        let answer = try scene.iOS(
            "/v1/user/init", "new", receipt: receipt, trigger: version == "6.13.0" ? "Restore" : nil, version: version)
        let launch = try LaunchReader(answer.body)
        #expect(launch.active == ["X"] && launch.user == "new")
    }

    @Test(
        "X6 Android restores by the strategy, and a sync of its code moves nothing",
        arguments: ["copy", "keep_original"])
    func x6(_ strategy: String) throws {
        let scene = try StoresScene(restore: strategy)
        scene.googleSays("tok-1")
        let history = #","history":[{"product":"X","purchase_token":"tok-1","purchase_time":1750000000}]"#
        _ = try scene.android("/v1/user/init", "A", #","purchases":[]"#)
        _ = try scene.identify("A", "u1")
        let purchase =
            #","purchase":{"purchase_token":"tok-1","product":"X","product_id":"","original_transaction_id":""}"#
        #expect(try scene.android("/v1/user/purchase", "A", trigger: "Purchase", purchase).status == 200)
        _ = try scene.android("/v1/user/init", "B", #","purchases":[]"#)
        _ = try scene.identify("B", "u2")
        #expect(try scene.android("/v1/user/restore", "B", trigger: "SyncPurchases", history).status == 200)
        #expect(try scene.client.active("A") == ["X"] && scene.client.active("B") == [])
        #expect(try scene.android("/v1/user/restore", "B", trigger: "Restore", history).status == 200)
        #expect(try scene.client.active("A") == ["X"])
        #expect(try scene.client.active("B") == (strategy == "copy" ? ["X"] : []))
    }

    @Test("no answer to an app has Google's token, which is a proof of the buyer", arguments: ["GPA.1", ""])
    func hiddenToken(order: String) throws {
        let scene = try StoresScene()
        scene.googleSays("tok-1", order: order)
        _ = try scene.android("/v1/user/init", "A", #","purchases":[]"#)
        let bought = try scene.android(
            "/v1/user/purchase", "A", trigger: "Purchase",
            #","purchase":{"purchase_token":"tok-1","product":"X","product_id":"","original_transaction_id":""}"#)
        let answers = [
            bought, try scene.android("/v1/user/init", "A", #","purchases":[]"#),
            try scene.client.call("GET", "/v3/users/A/entitlements?explain=true"),
        ]
        for answer in answers {
            #expect(answer.status == 200 && answer.body.contains("original_transaction_id"), "\(answer)")
            #expect(!answer.body.contains("tok-1"), "\(answer)")
        }
        // A back end with a secret key may know it.
        let whole = try scene.client.call(
            "GET", "/v3/users/A/entitlements?explain=true", key: scene.client.secretKey)
        #expect(whole.body.contains("tok-1"), "\(whole)")
    }

    @Test(
        "X7 the v3 client restores by reporting again: another install, a second device, another identity",
        arguments: [("transfer", 200), ("keep_original", 422)])
    func x7(_ strategy: String, _ status: Int) throws {
        let scene = try StoresScene(restore: strategy)
        let text = try scene.signed(bought)
        let installs = try ["A", "A2", "B"].map { try Install($0, .plain, scene.client) }
        #expect(try scene.report(installs[0].current, text).status == 201)
        for install in installs.dropFirst() { #expect(try scene.report(install.current, text).status == 200) }
        #expect(try installs.allSatisfy { try $0.active() == ["X"] })
        try installs[0].identify("u1")
        let other = try Install("C", .plain, scene.client)
        try other.identify("u2")
        let answer = try scene.report(other.current, text)
        #expect(answer.status == status, "\(answer)")
        if status == 422 { #expect(answer.body.contains("purchase belongs to another user"), "\(answer)") }
        #expect(try other.active() == (status == 200 ? ["X"] : []))
        #expect(try installs[0].active() == (status == 200 ? [] : ["X"]))
    }

    // MARK: - What a store says, whoever brings it

    @Test("X8 a renewal that a stranger tells first is the owner's")
    func x8() throws {
        let scene = try StoresScene()
        let (owner, stranger) = (try Install("A", .plain, scene.client), try Install("S", .plain, scene.client))
        #expect(try scene.report(owner.current, try scene.signed(bought)).status == 201)
        try owner.identify("u1")
        try stranger.identify("u9")
        scene.turn(to: 31)
        #expect(try owner.active() == [])
        let renewal = Told(id: "101", original: "100", start: 30, end: 60, signed: 30)
        #expect(try scene.report(stranger.current, try scene.signed(renewal)).status == 200)
        #expect(try owner.active() == ["X"] && stranger.active() == [])
    }

    @Test("X9 a refund counts whoever tells of it", arguments: ["secret key", "stranger", "poller", "notification"])
    func x9(_ teller: String) throws {
        let scene = try StoresScene(polls: teller == "poller")
        for user in ["A", "S"] { try scene.client.makeUser(user) }
        #expect(try scene.report("A", try scene.signed(bought)).status == 201)
        scene.turn(to: 5)
        var refund = bought
        (refund.signed, refund.revoked) = (4, 3)
        switch teller {
        case "secret key":
            #expect(try scene.report("A", try scene.signed(refund), key: scene.client.secretKey).status == 200)
        case "stranger": #expect(try scene.report("S", try scene.signed(refund)).status == 200)
        case "notification": #expect(try scene.notify("REFUND", refund).status == 200)
        default:
            // The server asks at the end of the period; an operator's question comes earlier.
            try scene.says(refund)
            let answer = try scene.client.administrator("POST", "/purchases/appstore:100/check")
            #expect(answer.body.contains(#""why":"refunded""#), "\(answer)")
        }
        #expect(try scene.client.active("A") == [])
    }

    @Test("X10 another app, another world, a forged leaf and two certificates are refused")
    func x10() throws {
        let scene = try StoresScene()
        try scene.client.makeUser("A")
        let stranger = try AppleChain()
        var (other, production) = (bought, bought)
        other.more = ["bundleId": "com.example.other"]
        production.more = ["environment": "Production"]
        let chain = scene.transactions
        for text in [
            try scene.signed(other), try scene.signed(production), try scene.signed(bought, by: stranger),
            try scene.signed(bought, by: stranger, chain: [stranger.leaf, chain.intermediate, chain.root]),
            try scene.signed(bought, chain: [chain.leaf, chain.intermediate]),
        ] {
            let answer = try scene.report("A", text)
            #expect(answer.status == 422 && answer.body.contains("purchase_fraud"), "\(answer)")
        }
        #expect(try scene.client.active("A") == [])
    }

    @Test("X11 a period that is over is taken, and gives nothing")
    func x11() throws {
        let scene = try StoresScene()
        scene.turn(to: 70)
        let receipt = try scene.receipt([Told(id: "101", original: "100", start: 30, end: 60), bought], at: 69)
        let purchase = #","purchase":{"product":"X","transaction_id":"101","original_transaction_id":"100"}"#
        let answer = try scene.iOS("/v1/user/purchase", "A", receipt: receipt, trigger: "Purchase", purchase)
        #expect(answer.status == 200, "\(answer)")
        #expect(try LaunchReader(answer.body).active == [])
        #expect(answer.body.contains(#""id":"X","associated_product":"X","active":0"#), "\(answer)")
    }

    @Test("X12 an empty original transaction and a product of ours are taken")
    func x12() throws {
        let scene = try StoresScene()
        try scene.client.sell(
            "monthly",
            #"{"type":"subscription","store_id":"store.month","duration_seconds":2592000,"entitlements":["Y"]}"#)
        scene.googleSays("tok-1", product: "store.month")
        let purchase =
            #","purchase":{"purchase_token":"tok-1","product":"store.month","product_id":"monthly","transaction_id":"GPA.1..0","original_transaction_id":""}"#
        let answer = try scene.android("/v1/user/purchase", "A", trigger: "Purchase", purchase)
        #expect(try LaunchReader(answer.body).associated == ["Y": "monthly"], "\(answer)")
        let receipt = try scene.receipt([bought])
        let apple = #","purchase":{"product":"X","transaction_id":"100","original_transaction_id":""}"#
        #expect(try scene.iOS("/v1/user/purchase", "A", receipt: receipt, trigger: "Purchase", apple).status == 200)
        #expect(try scene.client.active("A") == ["X", "Y"])
    }

    @Test(
        "X13 a product for ever has the type that each Android reads",
        arguments: [("6.3.0", 2), ("8.2.4", 3), ("9.2.0", 3), ("9.6.0", 3)])
    func x13(_ version: String, _ type: Int) throws {
        let scene = try StoresScene()
        try scene.client.sell("life", #"{"type":"non_consumable","entitlements":["Z"]}"#)
        scene.google.products.withLock {
            $0["tok-2"] =
                #"{"productLineItem":[{"productId":"life"}],"purchaseStateContext":{"purchaseState":"PURCHASED"},"testPurchaseContext":{},"orderId":"GPA.2","purchaseCompletionTime":"2025-06-15T15:06:40Z"}"#
        }
        let purchase =
            #","purchase":{"purchase_token":"tok-2","product":"life","product_id":"","original_transaction_id":""}"#
        let answer = try scene.android("/v1/user/purchase", "A", trigger: "Purchase", version: version, purchase)
        let launch = try LaunchReader(answer.body)
        #expect(
            launch.products["life"] == type && launch.active == ["Z"]
                && launch.transactionKinds["Z"] == ["non_consumable_purchase"])
    }

    // MARK: - When nobody calls

    /// Users with a subscription at each store, which all three renew on day 30.
    private func subscribed(grace: Int64 = 0) throws -> StoresScene {
        let scene = try StoresScene(polls: true) { $0.purchaseChecks.graceMilliseconds = grace }
        for user in ["A", "G", "S"] { try scene.client.makeUser(user) }
        #expect(try scene.report("A", try scene.signed(bought)).status == 201)
        scene.googleSays("tok-1")
        _ = try scene.android(
            "/v1/user/purchase", "G", trigger: "Purchase", #","purchase":{"purchase_token":"tok-1","product":"X"}"#)
        scene.says("sub_1")
        let stripe = #"{"price":"1","currency":"EUR","stripe_store_data":{"subscription_id":"sub_1","product_id":"X"}}"#
        #expect(try scene.client.call("POST", "/v3/users/S/purchases", stripe).status == 201)
        try scene.says(Told(id: "101", original: "100", start: 30, end: 60, signed: 30))
        scene.googleSays("tok-1", order: "GPA.1..0", until: 60)
        scene.says("sub_1", from: 30, until: 60)
        return scene
    }

    private func all(_ scene: StoresScene, _ products: [String]) throws -> Bool {
        try ["A", "G", "S"].allSatisfy { try scene.client.active($0) == products }
    }

    @Test("X14 on day 31, renewed, with no push and no call, each store's access is right within 10 minutes")
    func x14() throws {
        let scene = try subscribed()
        #expect(try all(scene, ["X"]))
        scene.turn(to: 30)
        #expect(try all(scene, []), "the periods are over, and nobody has asked")
        scene.turn(to: 30, minutes: 10)
        #expect(try Patience.until { try all(scene, ["X"]) })
    }

    @Test(
        "X15 while a store has a fault for six hours, access is unconfirmed, and then right within 10 minutes",
        arguments: StoresScene.Fault.allCases.filter { $0 != .hangs })
    func x15(_ fault: StoresScene.Fault) throws {
        let scene = try subscribed(grace: 8 * 3_600_000)
        try scene.says(Told(id: "another", original: "another"))
        for store in ["apple", "google", "stripe"] { scene.set(fault, of: store) }
        scene.turn(to: 30, minutes: 10)
        func state(_ id: String) throws -> String {
            try scene.client.administrator("GET", "/purchases/\(id)/check").body
        }
        // Only Google's and Stripe's own answers cannot be forged; Apple's are signed.
        let ids = fault == .strangersSignature ? ["appstore:100"] : ["appstore:100", "playstore:tok-1", "stripe:sub_1"]
        // An answer about another purchase is no outage: the store was there, and did not know this one.
        let isOutage = fault != .anothers && fault != .strangersSignature
        for id in ids where isOutage || id.hasPrefix("playstore") {
            #expect(try Patience.until { try state(id).contains(#""why":"unconfirmed""#) }, "\(id)")
            #expect(try state(id).contains(#""active":true"#), "\(id)")
        }
        scene.turn(to: 30, minutes: 360)
        for store in ["apple", "google", "stripe"] { scene.set(nil, of: store) }
        if !isOutage {
            // A store that does not know a purchase is asked less and less.
            scene.turn(to: 31)
        }
        scene.client.clock.set(seconds: scene.client.clock.seconds + 600)
        // A fault that was under way when the store came back counts from its own note on.
        if try !Patience.until(milliseconds: 3000, { try all(scene, ["X"]) }) {
            scene.client.clock.set(seconds: scene.client.clock.seconds + 600)
        }
        #expect(try Patience.until { try all(scene, ["X"]) })
        func isRight() throws -> Bool { try ids.allSatisfy { try state($0).contains(#""why":"period_runs""#) } }
        if try !Patience.until(milliseconds: 3000, isRight) {
            scene.client.clock.set(seconds: scene.client.clock.seconds + 600)
        }
        #expect(try Patience.until { try isRight() })
    }

    // MARK: - Many hands

    @Test("X17 of 101 installs the one unseen longest leaves, and 21 in 30 days are told")
    func x17() throws {
        let scene = try StoresScene()
        let text = try scene.signed(bought)
        for number in 0...100 {
            try scene.client.makeUser("i\(number)")
            let answer = try scene.report("i\(number)", text)
            #expect([200, 201].contains(answer.status), "\(number): \(answer)")
        }
        #expect(try scene.client.active("i0") == [] && scene.client.active("i1") == ["X"])
        #expect(try scene.client.active("i100") == ["X"])
        let check = try scene.client.administrator("GET", "/purchases/appstore:100/check").body
        #expect(check.contains(#""installs":100"#) && !check.contains(#""shared_at":null"#), "\(check)")
    }

    @Test("X18 a project key names no more than the project's strategy, and learns nobody's name")
    func x18() throws {
        let scene = try StoresScene(restore: "keep_original")
        let owner = try Install("A", .plain, scene.client)
        #expect(try scene.report(owner.current, try scene.signed(bought)).status == 201)
        try owner.identify("u1")
        let other = try Install("B", .plain, scene.client)
        try other.identify("u2")
        let text = try scene.signed(bought)
        let refused = try other.restore([text], strategy: "transfer")
        #expect(refused.status == 422 && refused.body.contains("strategy not allowed with a project key"), "\(refused)")
        let dry = try other.restore([text], isDryRun: true)
        #expect(dry.body.contains(#""outcome":"kept""#) && !dry.body.contains("u1"), "\(dry)")
        let server = try other.restore([text], isDryRun: true, isServer: true)
        #expect(server.body.contains(#""by":["u1"]"#), "\(server)")
        #expect(try owner.active() == ["X"] && other.active() == [])
    }

    @Test("X19 another's subscription at Stripe is refused as an unknown one")
    func x19() throws {
        let scene = try StoresScene()
        scene.says("sub_1")
        for user in ["A", "B"] { try scene.client.makeUser(user) }
        func claim(_ user: String, _ id: String) throws -> Wire.Answer {
            try scene.client.call(
                "POST", "/v3/users/\(user)/purchases",
                #"{"price":"1","currency":"EUR","stripe_store_data":{"subscription_id":"\#(id)","product_id":"X"}}"#)
        }
        #expect(try claim("A", "sub_1").status == 201)
        let (known, unknown) = (try claim("B", "sub_1"), try claim("B", "sub_2"))
        #expect(known.status == 422 && known.body == unknown.body, "\(known)")
        #expect(try scene.client.active("B") == [])
    }

    @Test("X20 a member of the family and the buyer restore, and a revocation ends the member's access only")
    func x20() throws {
        let scene = try StoresScene()
        let buyers = Told(id: "100", original: "100", more: ["appTransactionId": "T1"])
        var members = Told(
            id: "200", original: "200", more: ["appTransactionId": "T2", "inAppOwnershipType": "FAMILY_SHARED"])
        for user in ["A", "M"] { try scene.client.makeUser(user) }
        for (user, told) in [("A", buyers), ("M", members), ("A", buyers), ("M", members)] {
            #expect([200, 201].contains(try scene.report(user, try scene.signed(told)).status))
            #expect(try scene.client.active(user) == ["X"])
        }
        let launch = try scene.iOS("/v1/user/init", "M")
        #expect(launch.body.contains(#""grant_type":"family_sharing""#), "\(launch)")
        scene.turn(to: 3)
        (members.revoked, members.signed) = (2, 3)
        #expect(try scene.notify("REVOKE", members).status == 200)
        #expect(try scene.client.active("M") == [] && scene.client.active("A") == ["X"])
    }

    // MARK: - Apple beside its receipts

    @Test("a launch tells since when a subscription is canceled, and no longer after the buyer has subscribed again")
    func resubscribed() throws {
        let scene = try StoresScene()
        try scene.client.makeUser("A")
        let canceled = try scene.transactions.sign([
            "originalTransactionId": "100", "productId": "X", "autoRenewProductId": "X", "autoRenewStatus": 0,
            "bundleId": "com.example.app", "environment": "Sandbox", "signedDate": scene.moment(1) * 1000,
        ])
        scene.turn(to: 2)
        let body = #"{"app_store_data":{"receipt":"\#(try scene.signed(bought))","renewal_info":"\#(canceled)"}}"#
        #expect(try scene.client.call("POST", "/v3/users/A/purchases", body).status == 201)
        let member = #""auto_renew_disable_timestamp":"#
        let before = try scene.iOS("/v1/user/init", "A").body
        #expect(before.contains(#""renew_state":2"#) && before.contains("\(member)\(scene.moment(1))"), "\(before)")
        scene.turn(to: 32)
        let again = Told(id: "101", original: "100", start: 31, end: 61, signed: 31)
        #expect(try scene.report("A", try scene.signed(again)).status == 200)
        let after = try scene.iOS("/v1/user/init", "A").body
        #expect(after.contains(#""renew_state":1"#) && !after.contains(member), "\(after)")
    }

    @Test("a transaction that the receipt does not have yet is asked for, and counts for a purchase that it has")
    func absent() throws {
        let scene = try StoresScene()
        let receipt = try scene.receipt([bought])
        scene.turn(to: 31)
        try scene.says(Told(id: "101", original: "100", start: 30, end: 60, signed: 30))
        try scene.says(Told(id: "900", original: "900", start: 30, end: 60, signed: 30))
        func buy(_ id: String) throws -> Wire.Answer {
            try scene.iOS(
                "/v1/user/purchase", "A", receipt: receipt, trigger: "Purchase",
                #","purchase":{"product":"X","transaction_id":"\#(id)","original_transaction_id":""}"#)
        }
        let answer = try buy("101")
        #expect(try LaunchReader(answer.body).active == ["X"], "\(answer)")
        for id in ["900", "7"] {
            let refused = try buy(id)
            #expect(refused.status == 422 && refused.body.contains(#""code":20008"#), "\(id): \(refused)")
        }
        scene.set(.broken, of: "apple")
        #expect(try buy("102").status == 503)
    }

    @Test("an operator asks Apple about a purchase for ever, and is told of its refund")
    func lifetime() throws {
        let scene = try StoresScene()
        try scene.client.sell("life", #"{"type":"non_consumable","entitlements":["Z"]}"#)
        try scene.client.makeUser("A")
        var life = Told(id: "300", original: "300", product: "life", end: nil)
        #expect(try scene.report("A", try scene.signed(life)).status == 201)
        #expect(try scene.client.active("A") == ["Z"])
        try scene.says(life)
        #expect(
            try scene.client.administrator("POST", "/purchases/appstore:300/check").body.contains(#""why":"no_end""#))
        scene.turn(to: 5)
        (life.signed, life.revoked) = (5, 4)
        try scene.says(life)
        let answer = try scene.client.administrator("POST", "/purchases/appstore:300/check").body
        #expect(answer.contains(#""why":"refunded""#) && answer.contains(#""fault":null"#), "\(answer)")
        #expect(scene.apple.received.allSatisfy { $0.line.hasPrefix("GET /inApps/v2/history/300 ") })
        #expect(try scene.client.active("A") == [])
    }

    @Test("an operator is told of refunds of earlier periods too, and they end nothing (A21)")
    func earlierRefund() throws {
        let scene = try StoresScene()
        try scene.client.makeUser("A")
        var first = Told(id: "400", original: "400", end: 30)
        #expect(try scene.report("A", try scene.signed(first)).status == 201)
        try scene.says(Told(id: "401", original: "400", start: 30, end: 60, signed: 30))
        scene.turn(to: 31)
        func check() throws -> String {
            let answer = try scene.client.administrator("POST", "/purchases/appstore:400/check").body
            #expect(answer.contains(#""fault":null"#) && answer.contains(#""why":"period_runs""#), "\(answer)")
            return try scene.iOS("/v1/user/init", "A").body
        }
        // What Apple says of the last period counts also while it does not answer about refunds.
        scene.refunds.withLock { $0 = nil }
        #expect(try !check().contains("transaction_revoke_timestamp"))
        (first.signed, first.revoked) = (31, 31)
        // A refund of another purchase of the account changes nothing here.
        let other = Told(id: "500", original: "500", end: 30, signed: 31, revoked: 31)
        let texts = try [first, other].map { try scene.signed($0) }
        scene.refunds.withLock { $0 = texts }
        let launch = try check()
        #expect(launch.components(separatedBy: "transaction_revoke_timestamp").count == 2, "\(launch)")
        #expect(launch.contains(#""active":1"#))
        #expect(try scene.client.administrator("GET", "/purchases/appstore:500/check").status == 404)
    }

    @Test("the purchase says whether its receipt names the device", arguments: StoreKind.allCases)
    func device(_ kind: StoreKind) throws {
        let scene = try StoresScene(kind)
        let device = "6F9619FF-8B86-D011-B42D-00CF4FC964FF"
        var maker = ReceiptMaker(scene.receipts)
        maker.createdAt = scene.start
        maker.device = UUID(uuidString: device)
        maker.entries = [
            ReceiptMaker.Entry(
                product: "X", transaction: "1", original: "1", purchased: scene.start, expires: scene.moment(30))
        ]
        let receipt = try maker.receipt()
        for (id, binding) in [(device, "bound"), (device.replacing("FF", with: "FE"), "unbound"), ("mac", "unknown")] {
            let answer = try scene.client.call(
                "POST", "/v1/user/init",
                #"{"q_uid":"A","version":"6.13.0","receipt":"\#(receipt)","device":{"os":"ios","device_id":"\#(id)"}}"#,
                fields: [("Platform", "ios"), ("Trigger", "Init")])
            #expect(try LaunchReader(answer.body).active == ["X"], "\(answer)")
            let explained = try scene.client.call("GET", "/v3/users/A/entitlements?explain=true").body
            #expect(explained.contains(#""device":"\#(binding)""#), "\(explained)")
            #expect(
                try scene.client.administrator("GET", "/purchases/appstore:1/check").body
                    .contains(#""device":"\#(binding)""#))
        }
    }

    // MARK: - Bad input

    @Test(
        "no change of the bytes of a transaction or a notification gives anything, or ends the server",
        arguments: Soak.seeds(2))
    func mutations(_ seed: UInt64) throws {
        let scene = try StoresScene()
        try scene.client.makeUser("A")
        var generator = SeededGenerator(seed: seed)
        let text = try scene.signed(bought)
        let notification = try scene.transactions.sign([
            "notificationType": "SUBSCRIBED", "notificationUUID": "1", "version": "2.0",
            "signedDate": scene.start * 1000,
            "data": ["environment": "Sandbox", "bundleId": "com.example.app", "signedTransactionInfo": text],
        ])
        let push =
            #"{"message":{"data":"eyJ2ZXJzaW9uIjoiMS4wIn0","messageId":"1","attributes":{}},"subscription":"s"}"#
        let event =
            #"{"id":"evt_1","object":"event","livemode":false,"type":"charge.refunded","data":{"object":{"id":"ch_1","object":"charge","refunded":true}}}"#
        func changed(_ text: String) -> String {
            var bytes = Array(text.utf8)
            switch Int.random(in: 0..<3, using: &generator) {
            case 0:
                let place = Int.random(in: bytes.indices, using: &generator)
                bytes[place] = bytes[place] == UInt8(ascii: "x") ? UInt8(ascii: "y") : UInt8(ascii: "x")
            case 1: bytes.removeLast(Int.random(in: 1..<bytes.count, using: &generator))
            default: bytes.insert(UInt8.random(in: 0x61...0x7A, using: &generator), at: bytes.count / 2)
            }
            return String(decoding: bytes, as: UTF8.self)
        }
        for round in 0..<200 {
            let answer: Wire.Answer
            switch round % 4 {
            case 0: answer = try scene.report("A", changed(text).filter { $0 != "\"" && $0 != "\\" })
            case 1:
                let body = #"{"signedPayload":"\#(changed(notification).filter { $0 != "\"" && $0 != "\\" })"}"#
                answer = try scene.client.http.call("POST", "/onym/v1/stores/apple/1", json: body)
            case 2:
                answer = try scene.client.http.call(
                    "POST", "/onym/v1/stores/google/1/\(PlayScene.secret)", json: changed(push))
            default: answer = try scene.event(body: changed(event))
            }
            #expect([200, 400, 401, 422].contains(answer.status), "ONYM_SEED=\(seed), round \(round): \(answer)")
        }
        #expect(try scene.client.active("A") == [])
        #expect(try scene.client.administrator("GET", "/purchases/appstore:100/check").status == 404)
    }
}
