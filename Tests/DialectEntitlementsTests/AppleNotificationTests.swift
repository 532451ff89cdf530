import Crypto
import DialectEntitlements
import Foundation
import TestKit
import Testing

/// Notifications of the App Store's server (spec/entitlements-live.md 4.3 to 4.6). A period has thirty days; a day here has 100
/// seconds, so that the certificates of the tests are valid at all times.
@Suite("App Store notifications")
struct AppleNotificationTests {
    private static let chain = Result { try AppleChain() }

    /// A statement of the store about a transaction, by days.
    struct Told: Sendable {
        var id = "1"
        var product = "X"
        var start = 0
        var end: Int? = 30
        var revoked: Int?
        var signed: Int
        var more: [String: any Sendable] = [:]
    }

    /// A statement about the renewal.
    struct Renewal: Sendable {
        var renews = true
        var isRetrying = false
        var grace: Int?
        var next = "X"
        var signed: Int
        var more: [String: any Sendable] = [:]
    }

    struct News: Sendable {
        var type: String
        var told: Told?
        var renewal: Renewal?

        init(_ type: String, _ told: Told?, _ renewal: Renewal? = nil) {
            self.type = type
            self.told = told
            self.renewal = renewal
        }
    }

    struct Case: Sendable, CustomTestStringConvertible {
        let name: String
        let news: [News]
        /// By day, the products that are active.
        let active: [(day: Int, products: [String])]
        /// The state of the renewal that clients see on the first of these days.
        var renewState: String?
        var testDescription: String { name }
    }

    static let cases: [Case] = [
        Case(
            name: "A1 bought", news: [News("SUBSCRIBED", Told(signed: 0), Renewal(signed: 0))],
            active: [(29, ["X"]), (30, [])]),
        Case(
            name: "A2 bought again", news: [News("SUBSCRIBED", Told(id: "2", start: 40, end: 70, signed: 40))],
            active: [(41, ["X"]), (70, [])]),
        Case(
            name: "A3 renewed", news: [News("DID_RENEW", Told(id: "2", start: 30, end: 60, signed: 30))],
            active: [(59, ["X"]), (60, [])], renewState: "will_renew"),
        Case(
            name: "A4 recovered on day 40",
            news: [
                News("DID_FAIL_TO_RENEW", Told(signed: 30), Renewal(isRetrying: true, signed: 30)),
                News("DID_RENEW", Told(id: "2", start: 40, end: 70, signed: 40), Renewal(signed: 40)),
            ], active: [(41, ["X"]), (69, ["X"]), (70, [])], renewState: "will_renew"),
        Case(
            name: "A5 canceled",
            news: [News("DID_CHANGE_RENEWAL_STATUS", Told(signed: 3), Renewal(renews: false, signed: 3))],
            active: [(29, ["X"]), (30, [])], renewState: "canceled"),
        Case(
            name: "A6 not canceled after all",
            news: [
                News("DID_CHANGE_RENEWAL_STATUS", Told(signed: 3), Renewal(renews: false, signed: 3)),
                News("DID_CHANGE_RENEWAL_STATUS", Told(signed: 4), Renewal(signed: 4)),
            ], active: [(29, ["X"])], renewState: "will_renew"),
        Case(
            name: "A7 upgraded at once",
            news: [
                News("DID_CHANGE_RENEWAL_PREF", Told(id: "2", product: "Y", start: 10, end: 40, signed: 10)),
                News("DID_CHANGE_RENEWAL_PREF", Told(signed: 10, more: ["isUpgraded": true])),
            ], active: [(11, ["Y"]), (39, ["Y"]), (40, [])]),
        Case(
            name: "A8 a lower product from the next period on",
            news: [News("DID_CHANGE_RENEWAL_PREF", Told(signed: 5), Renewal(next: "Y", signed: 5))],
            active: [(29, ["X"]), (30, [])]),
        Case(
            name: "A9 the lower product",
            news: [
                News("DID_CHANGE_RENEWAL_PREF", Told(signed: 5), Renewal(next: "Y", signed: 5)),
                News("DID_RENEW", Told(id: "2", product: "Y", start: 30, end: 60, signed: 30), Renewal(signed: 30)),
            ], active: [(31, ["Y"]), (60, [])]),
        Case(
            name: "A10 taken back",
            news: [
                News("DID_CHANGE_RENEWAL_PREF", Told(signed: 5), Renewal(next: "Y", signed: 5)),
                News("DID_CHANGE_RENEWAL_PREF", Told(signed: 6), Renewal(signed: 6)),
            ], active: [(29, ["X"])]),
        Case(
            name: "A11 another product of the same rank, at once",
            news: [News("DID_CHANGE_RENEWAL_PREF", Told(id: "2", product: "Z", start: 10, end: 40, signed: 10))],
            active: [(11, ["Z"])]),
        Case(
            name: "A12 grace till 46",
            news: [News("DID_FAIL_TO_RENEW", Told(signed: 30), Renewal(grace: 46, signed: 30))],
            active: [(45, ["X"]), (46, [])], renewState: "billing_issue"),
        Case(
            name: "A13 no grace",
            news: [News("DID_FAIL_TO_RENEW", Told(signed: 30), Renewal(isRetrying: true, signed: 30))],
            active: [(31, [])], renewState: "billing_issue"),
        Case(
            name: "A14 the grace is over",
            news: [
                News("DID_FAIL_TO_RENEW", Told(signed: 30), Renewal(grace: 46, signed: 30)),
                News("GRACE_PERIOD_EXPIRED", Told(signed: 46), Renewal(isRetrying: true, signed: 46)),
            ], active: [(47, [])], renewState: "billing_issue"),
        Case(
            name: "A15 over", news: [News("EXPIRED", Told(signed: 31), Renewal(renews: false, signed: 31))],
            active: [(31, [])], renewState: "canceled"),
        Case(
            name: "A16 over, and a renewal that was signed later",
            news: [
                News("DID_RENEW", Told(id: "2", start: 31, end: 61, signed: 31), Renewal(signed: 31)),
                News("EXPIRED", Told(signed: 30), Renewal(renews: false, signed: 30)),
            ], active: [(32, ["X"])], renewState: "will_renew"),
        Case(
            name: "A17 a code",
            news: [
                News(
                    "OFFER_REDEEMED",
                    Told(id: "2", start: 30, end: 60, signed: 30, more: ["offerType": 3, "offerIdentifier": "CODE"]))
            ], active: [(31, ["X"])]),
        Case(
            name: "A18 a price to agree to",
            news: [News("PRICE_INCREASE", Told(signed: 5), Renewal(signed: 5, more: ["priceIncreaseStatus": 0]))],
            active: [(29, ["X"]), (30, [])]),
        Case(
            name: "A19 agreed",
            news: [News("PRICE_INCREASE", Told(signed: 6), Renewal(signed: 6, more: ["priceIncreaseStatus": 1]))],
            active: [(29, ["X"])]),
        Case(
            name: "A20 the present period refunded", news: [News("REFUND", Told(revoked: 9, signed: 9))],
            active: [(10, [])]),
        Case(
            name: "A21 a past period refunded",
            news: [
                News("DID_RENEW", Told(id: "2", start: 30, end: 60, signed: 30)),
                News("REFUND", Told(revoked: 31, signed: 31)),
            ], active: [(32, ["X"])]),
        Case(
            name: "A22 a purchase for ever, refunded",
            news: [News("REFUND", Told(end: nil, revoked: 9, signed: 9, more: ["type": "Non-Consumable"]))],
            active: [(10, [])]),
        Case(
            name: "A23 refunded in part",
            news: [News("REFUND", Told(revoked: 9, signed: 9, more: ["revocationType": "REFUND_PRORATED"]))],
            active: [(10, [])]),
        Case(
            name: "A24 the refund reversed, before the end and after it",
            news: [News("REFUND", Told(revoked: 9, signed: 9)), News("REFUND_REVERSED", Told(signed: 12))],
            active: [(13, ["X"]), (30, [])]),
        Case(
            name: "A25 no refund",
            news: [News("REFUND_DECLINED", Told(signed: 9)), News("CONSUMPTION_REQUEST", Told(signed: 9))],
            active: [(10, ["X"])]),
        Case(
            name: "the grace of a period is over with the refund of the next one",
            news: [
                News("DID_FAIL_TO_RENEW", Told(signed: 30), Renewal(grace: 46, signed: 30)),
                News("DID_RENEW", Told(id: "2", start: 35, end: 65, signed: 35)),
                News("REFUND", Told(id: "2", start: 35, end: 65, revoked: 40, signed: 40)),
            ], active: [(41, [])]),
        Case(
            name: "A27 longer", news: [News("RENEWAL_EXTENDED", Told(end: 40, signed: 9))],
            active: [(39, ["X"]), (40, [])]),
        Case(name: "A28 a summary", news: [News("RENEWAL_EXTENSION", nil)], active: [(10, ["X"]), (30, [])]),
        Case(
            name: "A30 unknown, with a transaction",
            news: [News("SOMETHING_NEW", Told(id: "2", start: 30, end: 60, signed: 30))], active: [(31, ["X"])]),
        Case(name: "A31 a test", news: [News("TEST", nil)], active: [(10, ["X"])]),
    ]

    @Test("each type does what it says, in every order and twice", arguments: cases)
    func types(_ row: Case) throws {
        let scene = try Scene(row.name)
        // In order, in the other order, and each twice.
        for (user, orders) in [
            ("A", [row.news]), ("B", [row.news.reversed()]), ("C", [row.news, row.news.reversed()]),
        ] {
            try scene.begin(user)
            for news in orders.joined() {
                let answer = try scene.send(news, of: user)
                #expect(answer.status == 200 && answer.body == "{}", "\(answer)")
            }
        }
        for (place, (day, products)) in row.active.enumerated() {
            scene.turn(to: day)
            for user in ["A", "B", "C"] {
                #expect(try scene.client.active(user) == products, "\(row.name), day \(day), \(user)")
            }
            guard place == 0, let state = row.renewState else { continue }
            #expect(
                try scene.client.call("GET", "/v3/users/A/entitlements").body.contains("\"renew_state\":\"\(state)\""))
        }
    }

    @Test(
        "a purchase for ever comes with its notification (A29), and a family's is its own (A26)",
        arguments: StoreKind.allCases)
    func purchases(_ kind: StoreKind) throws {
        let scene = try Scene("kinds", kind)
        for user in ["A", "B"] { try scene.client.makeUser(user) }
        // Nobody has proven it when the store tells of it.
        let life = Told(end: nil, signed: 0, more: ["type": "Non-Consumable"])
        #expect(try scene.send(News("ONE_TIME_CHARGE", life), of: "A").status == 200)
        #expect(try scene.client.active("A") == [])
        #expect(try scene.client.purchase("A", scene.signed(life, of: "A")).status == 201, "new to its first user")
        #expect(try scene.client.active("A") == ["X"])
        let shared = ["inAppOwnershipType": "FAMILY_SHARED"]
        #expect(try scene.client.purchase("B", scene.signed(Told(signed: 0, more: shared), of: "B")).status == 201)
        #expect(try scene.client.active("B") == ["X"])
        let revoked = Told(revoked: 4, signed: 4, more: shared)
        scene.turn(to: 5)
        #expect(try scene.send(News("REVOKE", revoked), of: "B").status == 200)
        #expect(try scene.client.active("B") == [])
        #expect(try scene.client.active("A") == ["X"])
        // The owner is told of what the store has told.
        #expect(try scene.client.events("B") == ["entitlement_lost", "entitlement_granted"])
    }

    @Test("what the store tells first is taken from nobody who has got it since", arguments: StoreKind.allCases)
    func takenOver(_ kind: StoreKind) throws {
        let scene = try Scene("taken", kind)
        scene.client.clock.set(seconds: scene.chain.now + 100)
        try scene.client.restore(by: "keep_original")
        let (a, b) = (try Install("A", .exact, scene.client), try Install("B", .exact, scene.client))
        let account = ["appTransactionId": "T"]
        func told(_ id: String, _ product: String) -> Told { Told(id: id, product: product, signed: 0, more: account) }
        func buy(_ install: Install, _ text: String) throws -> Wire.Answer {
            try scene.client.purchase(
                install.current, text,
                fields: [("Onym-Device-User", install.original), ("Onym-Identity", install.identity ?? "")])
        }
        // One of the account's purchases is proven; the other one only the store has told of.
        #expect(try buy(a, scene.signed(told("1", "X"), of: "P")).status == 201)
        var second = told("1", "Y")
        #expect(try scene.send(News("SUBSCRIBED", second), of: "Q").status == 200)
        #expect(try a.active() == ["X", "Y"])
        try a.identify("u1")
        try b.identify("u2")
        second.more["quantity"] = 1
        #expect(try buy(b, scene.signed(second, of: "Q")).status == 422)
        #expect(try b.active() == [])
        #expect(try a.active() == ["X", "Y"])
    }

    @Test("one notification under two ids changes one thing (A32)", arguments: StoreKind.allCases)
    func twice(_ kind: StoreKind) throws {
        let scene = try Scene("twice", kind)
        try scene.begin("A")
        scene.turn(to: 31)
        let news = News("DID_RENEW", Told(id: "2", start: 30, end: 60, signed: 30))
        #expect(try scene.send(news, of: "A").status == 200)
        let after = scene.client.server.store.counts
        for _ in 0..<3 {
            #expect(try scene.send(news, of: "A").status == 200)
            scene.client.clock.set(seconds: scene.client.clock.seconds + 3600)
        }
        // Since hours go by, the server may note the use of keys meanwhile, and nothing else.
        var now = scene.client.server.store.counts
        let answer = try scene.client.administrator("GET", "/journal?after=\(after.lastSequence.rawValue)")
        let page = try JSONSerialization.jsonObject(with: Data(answer.body.utf8)) as? [String: Any]
        let calls = try #require(page?["calls"] as? [[String: Any]])
        #expect(calls.allSatisfy { $0["kind"] as? String == "note_key_use" }, "\(answer.body)")
        now.lastSequence = after.lastSequence
        #expect(now == after)
        #expect(try scene.client.events("A") == ["entitlement_granted"])
    }

    @Test("counts only with a signature that leads to the root, and for the project's app")
    func refuses() throws {
        let scene = try Scene("refusals")
        try scene.begin("A")
        scene.turn(to: 5)
        let news = News("REFUND", Told(revoked: 3, signed: 3))
        let stranger = try AppleChain()
        let inner = try scene.signed(news.told, of: "A")
        func post(_ payload: [String: Any], _ chain: AppleChain, path: String? = nil) throws -> Wire.Answer {
            try scene.post(#"{"signedPayload":"\#(try chain.sign(payload))"}"#, path: path)
        }
        let good = try scene.payload(news, of: "A")
        #expect(try post(good, stranger).status == 401)
        var forged = good
        forged["data"] = ["environment": "Sandbox", "bundleId": "com.example.app", "signedTransactionInfo": "a.b.c"]
        #expect(try post(forged, scene.chain).status == 401)
        var mixed = good
        mixed["data"] = [
            "environment": "Production", "bundleId": "com.example.app", "signedTransactionInfo": inner,
        ]
        #expect(try post(mixed, scene.chain).status == 401, "for another world than its transaction")
        var other = good
        other["data"] = ["environment": "Sandbox", "bundleId": "com.example.other", "signedTransactionInfo": inner]
        #expect(try post(other, scene.chain).status == 200, "another app's is taken, and ignored")
        for body in ["{}", "[]", #"{"signedPayload":5}"#, "x"] {
            #expect(try scene.post(body).status == 400, "\(body)")
        }
        #expect(try post(good, scene.chain, path: "/onym/v1/stores/apple/99").status == 404)
        #expect(try post(good, scene.chain, path: "/v1/apple-s2s/nonsense").status == 404)
        #expect(try scene.client.active("A") == ["X"])
        // Both addresses take it; a console that looks finds them.
        let key = scene.client.server.credentials.entitlementsProjectKey
        for path in ["/onym/v1/stores/apple/1", "/v1/apple-s2s/\(key)"] {
            #expect(try scene.client.http.call("GET", path).body == "{}", "\(path)")
        }
        #expect(try post(good, scene.chain, path: "/v1/apple-s2s/\(key)").status == 200)
        #expect(try scene.client.active("A") == [])
    }

    @Test("waits while the server has no root")
    func notSetUp() throws {
        let client = try AccessClient(.memory)
        let answer = try client.http.call("POST", "/onym/v1/stores/apple/1", json: #"{"signedPayload":"a.b.c"}"#)
        #expect(answer.status == 503 && answer["Retry-After"] != nil, "\(answer)")
    }

    /// A server, the App Store's part of it, and its clock.
    private struct Scene {
        let client: AccessClient
        let chain: AppleChain
        private let name: String

        init(_ name: String, _ kind: StoreKind = .memory) throws {
            let chain = try AppleNotificationTests.chain.get()
            let root = try #require(Certificate(pem: chain.rootPEM))
            self.chain = chain
            self.name = name
            client = try AccessClient(kind, at: chain.now) {
                $0.stores.appStoreRoot = root
                $0.stores.options["app_store.bundle_id"] = "com.example.app"
            }
        }

        private func moment(_ day: Int) -> Int64 { (chain.now + Int64(day) * 100) * 1000 }

        func turn(to day: Int) { client.clock.set(seconds: chain.now + Int64(day) * 100) }

        /// Makes a user with the first transaction, on the day of the last statement of all.
        func begin(_ user: String) throws {
            turn(to: 80)
            try client.makeUser(user)
            #expect(try client.purchase(user, signed(Told(signed: 0), of: user)).status == 201)
            client.clock.set(seconds: chain.now + 8_000)
        }

        private func transaction(_ told: Told, of user: String) -> [String: Any] {
            var payload: [String: Any] = [
                "transactionId": "\(user)\(told.id)", "originalTransactionId": "\(user)1",
                "bundleId": "com.example.app", "productId": told.product, "purchaseDate": moment(told.start),
                "signedDate": moment(told.signed), "type": "Auto-Renewable Subscription", "environment": "Sandbox",
                "inAppOwnershipType": "PURCHASED",
            ]
            payload["expiresDate"] = told.end.map(moment)
            payload["revocationDate"] = told.revoked.map(moment)
            for (key, value) in told.more { payload[key] = value }
            return payload
        }

        func signed(_ told: Told?, of user: String) throws -> String {
            try chain.sign(transaction(try #require(told), of: user))
        }

        func payload(_ news: News, of user: String) throws -> [String: Any] {
            var data: [String: Any] = ["environment": "Sandbox", "bundleId": "com.example.app", "appAppleId": 5]
            if let told = news.told { data["signedTransactionInfo"] = try signed(told, of: user) }
            if let renewal = news.renewal {
                var payload: [String: Any] = [
                    "originalTransactionId": "\(user)1", "productId": "X", "autoRenewProductId": renewal.next,
                    "autoRenewStatus": renewal.renews ? 1 : 0, "isInBillingRetryPeriod": renewal.isRetrying,
                    "signedDate": moment(renewal.signed), "environment": "Sandbox",
                ]
                payload["gracePeriodExpiresDate"] = renewal.grace.map(moment)
                for (key, value) in renewal.more { payload[key] = value }
                data["signedRenewalInfo"] = try chain.sign(payload)
            }
            return [
                "notificationType": news.type, "notificationUUID": UUID().uuidString, "version": "2.0",
                "signedDate": moment(news.told?.signed ?? 1), "data": data,
            ]
        }

        func send(_ news: News, of user: String) throws -> Wire.Answer {
            try post(#"{"signedPayload":"\#(try chain.sign(payload(news, of: user)))"}"#)
        }

        func post(_ body: String, path: String? = nil) throws -> Wire.Answer {
            try client.http.call("POST", path ?? "/onym/v1/stores/apple/1", json: body)
        }
    }
}
