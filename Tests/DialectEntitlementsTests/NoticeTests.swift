import DialectEntitlements
import Domain
import Foundation
import TestKit
import Testing

/// Notifications of Google and Stripe, which are answered before the store is asked (spec/entitlements-live.md 5.2, 7).
@Suite("Notifications wait for an answer of their store")
struct NoticeTests {
    private func reads(_ scene: StoresScene, _ token: String) -> Int {
        scene.google.stand.received.count { $0.line.contains("/subscriptionsv2/tokens/\(token) ") }
    }

    private func metric(_ scene: StoresScene, _ name: String) throws -> String? {
        let text = try scene.client.call("GET", "/metrics", key: scene.client.server.credentials.adminKey).body
        return text.split(separator: "\n").first { $0.hasPrefix(name + " ") }.map {
            String($0.dropFirst(name.count + 1))
        }
    }

    @Test(
        "while the store is down a notification is taken, and counts when the store is back",
        arguments: StoreKind.allCases, ["google", "stripe"])
    func outage(_ kind: StoreKind, _ store: String) throws {
        let scene = try StoresScene(kind)
        try scene.client.makeUser("A")
        if store == "google" {
            scene.googleSays("tok")
            _ = try scene.android(
                "/v1/user/purchase", "A", trigger: "Purchase", #","purchase":{"purchase_token":"tok","product":"X"}"#)
        } else {
            scene.says("sub_1")
            _ = try scene.client.call(
                "POST", "/v3/users/A/purchases",
                #"{"price":"9.99","currency":"EUR","stripe_store_data":{"subscription_id":"sub_1","product_id":"X"}}"#)
        }
        #expect(try scene.client.active("A") == ["X"])
        scene.set(.broken, of: store)
        for _ in 0..<2 {
            let answer = try store == "google" ? scene.push("tok") : scene.event("sub_1")
            #expect(answer.status == 200 && answer.body == "{}")
        }
        #expect(try metric(scene, "onym_store_notices_waiting") == "1", "a repetition waits with the first")
        if store == "google" {
            scene.googleSays("tok", "ON_HOLD")
        } else {
            scene.says("sub_1", #","status":"canceled","ended_at":\#(scene.moment(0))"#)
        }
        // Five faults in a row would let the server rest for a minute.
        scene.set(nil, of: store)
        #expect(try scene.client.active("A") == ["X"], "the next question is a minute later")
        scene.turn(to: 0, minutes: 2)
        #expect(try Patience.until { try scene.client.active("A") == [] })
        #expect(try Patience.until { try metric(scene, "onym_store_notices_waiting") == "0" })
    }

    @Test("a clock that was ahead neither gives a notification up nor makes it wait", arguments: StoreKind.allCases)
    func clockAhead(_ kind: StoreKind) throws {
        let scene = try StoresScene(kind)
        try scene.client.makeUser("A")
        scene.googleSays("tok")
        _ = try scene.android(
            "/v1/user/purchase", "A", trigger: "Purchase", #","purchase":{"purchase_token":"tok","product":"X"}"#)
        scene.set(.broken, of: "google")
        // Google answers no question of the eighth day, which begins with one for a new token.
        func tokens() -> Int { scene.google.stand.received.count { $0.line.hasPrefix("POST /token ") } }
        let before = tokens()
        scene.turn(to: 0, minutes: 1)
        #expect(try scene.push("tok").status == 200)
        scene.turn(to: 8)
        #expect(Patience.until { tokens() > before })
        scene.googleSays("tok", "ON_HOLD")
        scene.set(nil, of: "google")
        // The question of the eighth day may end before or after the clock goes back.
        var minutes: Int64 = 2
        let isAsked = try Patience.until {
            scene.turn(to: 0, minutes: minutes)
            minutes += 1
            return try scene.client.active("A") == []
        }
        #expect(isAsked)
    }

    @Test(
        "a notification that comes while the store is asked leads to one more question, and a repetition before to none"
    )
    func whileAsked() throws {
        let scene = try StoresScene()
        try scene.client.makeUser("A")
        scene.googleSays("tok")
        _ = try scene.android(
            "/v1/user/purchase", "A", trigger: "Purchase", #","purchase":{"purchase_token":"tok","product":"X"}"#)
        let before = reads(scene, "tok")
        // Google takes its time for the first question, and tells of a hold meanwhile.
        scene.google.isSlow.withLock { $0 = true }
        func push() throws {
            #expect(
                try scene.client.http.call(
                    "POST", "/onym/v1/stores/google/1/\(PlayScene.secret)", json: scene.pushed("tok")
                ).status == 200)
        }
        try push()
        #expect(Patience.until { reads(scene, "tok") == before + 1 })
        scene.client.clock.set(seconds: scene.client.clock.seconds + 1)
        scene.googleSays("tok", "ON_HOLD")
        for _ in 0..<3 { try push() }
        scene.google.isSlow.withLock { $0 = false }
        #expect(try Patience.until { try scene.client.active("A") == [] })
        #expect(try Patience.until { try metric(scene, "onym_store_notices_waiting") == "0" })
        #expect(reads(scene, "tok") == before + 2)
    }

    @Test(
        "notifications of Apple that came while no server ran are read after the start, also if Apple is down then",
        arguments: StoreKind.allCases.filter(\.isDurable))
    func missed(_ kind: StoreKind) throws {
        let scene = try StoresScene(kind, polls: true)
        let client = scene.client
        let bought = ["1", "2", "3", "4"].map { StoresScene.Told(id: $0, original: $0, end: nil) }
        for (user, told) in zip(["A", "B", "C", "D"], bought) {
            try client.makeUser(user)
            #expect(try client.purchase(user, scene.signed(told)).status == 201)
            #expect(try client.active(user) == ["X"])
        }
        let refunds = bought.map { told in
            var told = told
            (told.revoked, told.signed) = (1, 1)
            return told
        }
        let other = try AppleChain(days: 400)
        func searches() -> [String] {
            scene.apple.received.filter { $0.line.hasPrefix("POST /inApps/v1/notifications/history") }.map(\.body)
        }
        // The first server has a store from long ago. It has nothing to read.
        let isRead = try Patience.until {
            let left = try client.server.store.read { snapshot throws(StoreFault) in
                try snapshot.missedNews(of: ProjectID(rawValue: 1))
            }
            return left == nil && !searches().isEmpty
        }
        #expect(isRead)
        let pages = try [
            [scene.notification("TEST", refunds[3], by: other), scene.notification("REFUND", refunds[0])],
            [scene.notification("REFUND", refunds[1])],
        ]
        scene.history.withLock { $0 = pages }
        scene.set(.broken, of: "apple")
        scene.turn(to: 2)
        let asked = scene.apple.received.count
        try client.restart()
        #expect(Patience.until { scene.apple.received.count > asked })
        // The search survives another restart.
        scene.set(nil, of: "apple")
        scene.turn(to: 3)
        try client.restart()
        for user in ["A", "B"] { #expect(try Patience.until { try client.active(user) == [] }, "\(user)") }
        for user in ["C", "D"] { #expect(try client.active(user) == ["X"], "\(user)") }
        #expect(
            searches().last
                == #"{"startDate":\#(scene.moment(0) * 1000 - 3_600_000),"endDate":\#(scene.moment(3) * 1000)}"#)
    }

    @Test("nobody asks about a notification of another app, of a payment that does not count, or of a malformed name")
    func ignored() throws {
        let scene = try StoresScene()
        #expect(try scene.push("no/token").status == 200)
        #expect(
            try scene.event(
                body:
                    #"{"id":"e","object":"event","livemode":false,"type":"charge.refunded","data":{"object":{"id":"ch_1","object":"charge","refunded":true}}}"#
            ).status == 200)
        #expect(try scene.event("../x").status == 200)
        #expect(scene.google.stand.received.isEmpty && scene.stripe.received.isEmpty)
        #expect(try metric(scene, "onym_store_notices_waiting") == "0")
    }
}
