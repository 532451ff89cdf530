import ByteText
import Crypto
import Foundation
import TestKit
import Testing

/// A notification that the built server has answered counts, also if the server is killed before its store has answered
/// (spec/entitlements-live.md 5.2, 10).
@Suite("Notifications of app stores and a server that is killed", .timeLimit(.minutes(5)))
struct StoreNoticeTests {
    private static let secret = "whsec_0123456789"
    private static let subscriptions = 3

    /// The begin of the period.
    private let start = Int(Date().timeIntervalSince1970) - 60

    private func subscription(_ id: String, _ status: String) -> String {
        let ended = status == "active" ? "null" : "\(start + 60)"
        return
            #"{"id":"\#(id)","object":"subscription","status":"\#(status)","ended_at":\#(ended),"livemode":false,"customer":"cus_\#(id)","current_period_start":\#(start),"current_period_end":\#(start + 2_592_000),"items":{"object":"list","data":[{"id":"si_1","price":{"id":"price_1","product":"X"}}]}}"#
    }

    private func tell(_ id: String, _ http: HTTPClient) throws -> Int {
        let body =
            #"{"id":"evt_\#(id)","object":"event","livemode":false,"type":"customer.subscription.deleted","data":{"object":{"id":"\#(id)","object":"subscription"}}}"#
        let now = Int(Date().timeIntervalSince1970)
        let mark = HMAC(key: Array(Self.secret.utf8)).authenticate(Array("\(now).\(body)".utf8)).bytes
        return try http.call(
            "POST", "/onym/v1/stores/stripe/1",
            fields: [("Stripe-Signature", "t=\(now),v1=\(Hexadecimal.encode(mark))")],
            json: body
        ).status
    }

    @Test("kill -9 between the answer and the question loses no notification")
    func kills() throws {
        let store = try Store()
        let stripe = StandIn { [self] request in
            let id = String(request.line.split(separator: " ")[1].split(separator: "/").last ?? "")
            return .status(200, subscription(id, "active"))
        }
        let environment = [
            "ONYM_STRIPE_URL=\(stripe.url)", "ONYM_STRIPE_SECRET_KEY=rk_1", "ONYM_STRIPE_WEBHOOK_SECRET=\(Self.secret)",
            "ONYM_PURCHASE_POLL_PER_SECOND=0",
        ]
        func serve() throws -> ServerProcess {
            try ServerProcess(data: store.data, flags: ["--mode", "development"], environment: environment)
        }
        var server = try serve()
        let admin = [("Authorization", "Bearer \(store.adminKey)")]
        _ = try server.client.call("PUT", "/onym/v1/entitlements/X", fields: admin, json: "{}")
        _ = try server.client.call(
            "PUT", "/onym/v1/products/X", fields: admin, json: #"{"type":"subscription","entitlements":["X"]}"#)
        let key = [("Authorization", "Bearer test_\(try #require(store.entitlements["project_key"]))")]
        let ids = (0..<Self.subscriptions).map { "sub_\($0)" }
        for id in ids {
            _ = try server.client.call("POST", "/v3/users/\(id)", fields: key, json: #"{"environment":"sandbox"}"#)
            let bought = try server.client.call(
                "POST", "/v3/users/\(id)/purchases", fields: key,
                json:
                    #"{"price":"9.99","currency":"EUR","stripe_store_data":{"subscription_id":"\#(id)","product_id":"X"}}"#
            )
            #expect(bought.status == 201, "\(bought)")
        }
        func isActive(_ id: String) throws -> Bool {
            try server.client.call("GET", "/v3/users/\(id)/entitlements", fields: key).body.contains(#""active":true"#)
        }
        for id in ids { #expect(try isActive(id)) }
        // Stripe does not answer any more. Each notification is answered, and the server is killed at once.
        stripe.answer(.hang)
        for id in ids {
            #expect(try tell(id, server.client) == 200)
            server.kill()
            server = try serve()
        }
        for id in ids { #expect(try isActive(id), "nobody has answered") }
        server.kill()
        stripe.answer { [self] request in
            let id = String(request.line.split(separator: " ")[1].split(separator: "/").last ?? "")
            return .status(200, subscription(id, "canceled"))
        }
        server = try serve()
        for id in ids { #expect(try Patience.until { try !isActive(id) }, "\(id)") }
        #expect(server.stop() == 0)
        #expect(try store.doctor().code == 0)
    }
}
