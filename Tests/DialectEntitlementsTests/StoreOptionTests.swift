import Crypto
import DialectEntitlements
import Domain
import Foundation
import Gateway
import Outbound
import TestKit
import Testing

/// The options of projects for their stores (spec/entitlements-live.md, decision L17).
@Suite("Options of a project's stores")
struct StoreOptionTests {
    private func body(_ scene: PlayScene) throws -> String {
        let play: [String: Any] = [
            "package_name": "com.example.app", "service_account": scene.account, "push_secret": PlayScene.secret,
        ]
        return String(decoding: try JSONSerialization.data(withJSONObject: ["play": play]), as: UTF8.self)
    }

    @Test("are the project's own, work at once, and are told without their secrets", arguments: StoreKind.allCases)
    func projects(_ kind: StoreKind) throws {
        let scene = try PlayScene(kind, isServers: false) { $0.stores.isForTrying = true }
        let client = scene.client
        scene.google.says("tok-1", scene.subscription())
        #expect(try scene.buy("A", "tok-1").status == 503, "nobody has set Google up")
        let empty = try client.administrator("GET", "/stores")
        #expect(
            empty.body
                == #"{"version":0,"at":null,"app_store":{},"play":{},"stripe":{},"poll":{},"from_server":[],"faults":{}}"#
        )

        let set = try client.administrator("PUT", "/stores", try body(scene))
        #expect(set.status == 200 && set.body.contains(#""version":1"#), "\(set)")
        #expect(
            set.body.contains(
                #""play":{"package_name":"com.example.app","service_account":{"set":true},"push_secret":{"set":true}}"#)
        )
        #expect(try scene.buy("A", "tok-1").status == 200)
        #expect(try client.active("A") == ["X"])
        #expect(try scene.changed("tok-1").status == 200)
        let status = try client.administrator("GET", "/stores/status").body
        #expect(status.contains(#"{"store":"play","set_up":true,"fault":null,"fault_at":null,"#), "\(status)")
        #expect(!status.contains(#""notified_at":null}],"#) || status.contains(#""store":"stripe","set_up":false"#))

        // A document that was read can be written: the secrets stay, and nothing is new.
        let same = try client.administrator("PUT", "/stores", set.body)
        #expect(same.body == set.body, "\(same)")
        #expect(try client.administrator("PUT", "/stores", try body(scene)).body == set.body, "equal secrets")
        for place in try [client.server.storeBytes(), Data(set.body.utf8)] {
            for secret in [PlayScene.secret, "BEGIN PRIVATE KEY", "iam.gserviceaccount"] {
                #expect(place.range(of: Data(secret.utf8)) == nil, "\(secret) is nowhere in the clear")
            }
        }

        // Without the value the server's setting counts, which does not exist here.
        let less = try client.administrator("PUT", "/stores", #"{"play":{"service_account":null}}"#)
        #expect(less.body.contains(#""version":2"#) && !less.body.contains("service_account"))
        #expect(try scene.buy("B", "tok-1").status == 503)
    }

    @Test("are refused with the reason, and a refused call changes nothing")
    func refuses() throws {
        let scene = try PlayScene(isServers: false)
        let client = scene.client
        let wrong = [
            (#"{"play":{"service_account":"{}"}}"#, "play.service_account is no service account of Google"),
            (#"{"app_store":{"key":"x"}}"#, "app_store.key is no key of Apple"),
            (#"{"stripe":{"grace_days":91}}"#, "stripe.grace_days must be a number from 0 to 90"),
            (#"{"stripe":{"proof":"none"}}"#, "stripe.proof must be required or id"),
            (#"{"stripe":{"webhook_secret":["a",""]}}"#, "stripe.webhook_secret must be 1 to 4 secrets"),
            (#"{"stripe":{"webhook_secret":{"set":false}}}"#, "must be a text, null, or"),
            (#"{"play":{"push_secret":"short"}}"#, "play.push_secret must have 32 to 255 bytes"),
            (#"{"play":{"color":"red"}}"#, "play.color is not an option of this store"),
            (#"{"shop":{}}"#, "shop is not a member of this call"),
            (#"{"poll":{"enabled":"yes"}}"#, "poll.enabled"),
        ]
        for (body, reason) in wrong {
            let answer = try client.administrator("PUT", "/stores", body)
            #expect([400, 422].contains(answer.status) && answer.body.contains(reason), "\(body): \(answer)")
        }
        // In production a project's token comes from Google alone.
        for address in [
            scene.google.stand.url + "token", "https://10.0.0.1/token",
            "https://oauth2.googleapis.com.example.com/token",
            "https://oauth2.googleapis.com:8443/token", "https://oauth2.googleapis.com@example.com/token",
        ] {
            var json = try #require(
                JSONSerialization.jsonObject(with: Data(scene.account.utf8)) as? [String: Any])
            json["token_uri"] = address
            let account = String(decoding: try JSONSerialization.data(withJSONObject: json), as: UTF8.self)
            let play = ["package_name": "com.example.app", "service_account": account]
            let body = try JSONSerialization.data(withJSONObject: ["play": play])
            let refused = try client.administrator("PUT", "/stores", String(decoding: body, as: UTF8.self))
            #expect(refused.body.contains("token_uri is not at https://oauth2.googleapis.com/"), "\(refused)")
        }
        #expect(try client.administrator("GET", "/stores").body.contains(#""version":0"#))
        #expect(try client.call("GET", "/onym/v1/stores").status == 401, "an app's key shows no options")
    }

    @Test("are all named if the master key does not open them")
    func sealed() {
        let stores = ProjectStores(
            ProjectStores.Server(), tests: TestReceipts(master: []), MasterKeys([[UInt8](repeating: 1, count: 32)]))
        let secrets = StoreOption.all.filter(\.isSecret)
        #expect(secrets.count == 6)
        let changes = secrets.map { ($0.id, StoreOptions.Value?.some(.sealed([1, 2, 3]))) }
        let options = StoreOptions().changed(Dictionary(uniqueKeysWithValues: changes))
        let faults = stores.faults(options, of: ProjectID(rawValue: 1))
        for secret in secrets {
            #expect(faults[secret.store]?.contains("\(secret.id) is sealed under another master key") == true)
        }
    }

    @Test("are new: a store's old fault is forgotten, and what nobody has proven is no word of the store")
    func status() throws {
        let stand = StandIn(.status(200, StripeTests.subscription()))
        let url = try #require(OutboundURL(stand.url))
        let client = try AccessClient(.memory) { $0.stores.addresses.stripe = url }
        func stripe() throws -> String {
            let status = try client.administrator("GET", "/stores/status").body
            let start = try #require(status.range(of: #"{"store":"stripe""#)).lowerBound
            return String(status[start...].prefix { $0 != "}" })
        }
        let event = #"{"id":"evt_1","type":"customer.subscription.updated","data":{"object":{"id":"sub_1"}}}"#
        #expect(try client.http.call("POST", "/onym/v1/stores/stripe/1", json: event).status == 503)
        #expect(try stripe().contains(#""notified_at":null"#), "the store is not set up")
        _ = try client.administrator("PUT", "/stores", #"{"stripe":{"secret_key":"rk_wrong"}}"#)
        try client.makeUser("A")
        let body =
            #"{"price":"9.99","currency":"EUR","purchased":1700000000,"stripe_store_data":{"subscription_id":"sub_1","product_id":"X"}}"#
        #expect(try client.call("POST", "/v3/users/A/purchases", body).status == 201)
        stand.answer(.status(401, "{}"))
        let asked = try client.administrator("POST", "/purchases/stripe:sub_1/check").body
        #expect(try stripe().contains(#""fault":"This server is not set up"#), "\(asked)")
        _ = try client.administrator("PUT", "/stores", #"{"stripe":{"secret_key":"rk_right"}}"#)
        #expect(try stripe().contains(#""set_up":true,"fault":null"#))
    }

    @Test("stand before the server's, one by one")
    func precedence() throws {
        let scene = try PlayScene()
        let client = scene.client
        scene.google.says("tok-1", scene.subscription())
        let shown = try client.administrator("GET", "/stores").body
        #expect(shown.contains(#""from_server":["play.package_name","play.push_secret","play.service_account"]"#))
        let own = String(repeating: "s", count: 40)
        let set = try client.administrator("PUT", "/stores", #"{"play":{"push_secret":"\#(own)"}}"#)
        #expect(set.body.contains(#""from_server":["play.package_name","play.service_account"]"#), "\(set)")
        #expect(try scene.changed("tok-1").status == 401, "the server's secret does not count for this project")
        let data = #""subscriptionNotification":{"version":"1.0","notificationType":4,"purchaseToken":"tok-1"}"#
        #expect(try scene.notify(data, secret: own).status == 200)
        let metrics = try client.http.call(
            "GET", "/metrics", fields: [("Authorization", "Bearer \(client.server.credentials.adminKey)")])
        #expect(metrics.body.contains(#"onym_store_notifications_total{store="playstore",result="refused"} 1"#))
        #expect(metrics.body.contains(#"onym_store_notifications_total{store="playstore",result="stored"} 1"#))
    }

    @Test("say what a client needs at Stripe")
    func proof() throws {
        let stand = StandIn(.status(200, StripeTests.subscription()))
        let client = try AccessClient(.memory) {
            $0.stores.addresses.stripe = OutboundURL(stand.url)
            $0.stores.options["stripe.secret_key"] = "rk_secret"
        }
        func buy(_ user: String) throws -> Int {
            try client.makeUser(user)
            return try client.call(
                "POST", "/v3/users/\(user)/purchases",
                #"{"purchased":1700000000,"stripe_store_data":{"subscription_id":"sub_1","product_id":"X"}}"#
            ).status
        }
        try client.administrator("PUT", "/stores", #"{"stripe":{"proof":"required"}}"#)
        #expect(try buy("A") == 422)
        try client.administrator("PUT", "/stores", #"{"stripe":{"proof":"id"}}"#)
        #expect(try buy("A") == 201)
    }

    @Test("keep the server from asking by itself, if the project wants that")
    func poll() throws {
        let scene = try PlayScene { $0.purchaseChecks.pauseMilliseconds = 5 }
        let client = scene.client
        scene.google.says("tok-1", scene.subscription())
        #expect(try scene.buy("A", "tok-1").status == 200)
        try client.administrator("PUT", "/stores", #"{"poll":{"enabled":false}}"#)
        scene.google.says("tok-1", scene.subscription(until: 60))
        client.clock.advance(days: 31)
        Thread.sleep(forTimeInterval: 0.2)
        #expect(try client.active("A") == [], "nobody has asked")
        try client.administrator("PUT", "/stores", #"{"poll":{"enabled":true}}"#)
        for _ in 0..<500 where try client.active("A").isEmpty { Thread.sleep(forTimeInterval: 0.02) }
        #expect(try client.active("A") == ["X"])
    }
}
