import ByteText
import DialectEntitlements
import Foundation
import HTTPMessage
import Outbound
import Program
import TestKit
import Testing
import Threads

/// A server, a stand-in for Google Play, and a clock that goes only when the test says so.
struct PlayScene {
    static let secret = "0123456789abcdef0123456789abcdef"

    /// Google, as far as the server asks it.
    final class Google: Sendable {
        /// By token, the answer about a subscription or a product.
        let subscriptions = Monitor<[String: String]>([:])
        let products = Monitor<[String: String]>([:])
        let isDown = Monitor(false)
        /// Whether answers about subscriptions wait. They say what held when the question came.
        let isSlow = Monitor(false)
        /// Tokens that Google has forgotten.
        let forgotten = Monitor<Set<String>>([])
        let tokens = Monitor(0)
        /// Pages of the list of refunds: token, order, and the second of the refund.
        let refunds = Monitor<[[(token: String, order: String, at: Int64)]]>([])
        /// Whether the account may not read the list of refunds.
        let refusesList = Monitor(false)
        /// Google's own clock.
        let clock = Monitor<AccessClient.TestClock?>(nil)
        /// The answer about Google's keys.
        let keys = Monitor(#"{"keys":[]}"#)
        let stand: StandIn

        init() {
            let (subscriptions, products, isDown, tokens) = (subscriptions, products, isDown, tokens)
            let (forgotten, refunds, keys) = (forgotten, refunds, keys)
            let (refusesList, clock, isSlow) = (refusesList, clock, isSlow)
            stand = StandIn { request in
                if isDown.withLock({ $0 }) { return .status(500, "") }
                if request.line.hasPrefix("GET /certs ") { return .status(200, keys.withLock { $0 }) }
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
                if path.hasPrefix(start + "voidedpurchases?") {
                    if refusesList.withLock({ $0 }) { return .status(403, "{}") }
                    let now = clock.withLock { $0?.seconds ?? 0 } * 1000
                    let list = Google.list(refunds.withLock { $0 }, String(path), at: now)
                    return list.map { .status(200, $0) } ?? .status(400, "{}")
                }
                if path.hasPrefix(start + "subscriptionsv2/tokens/"), let said = subscriptions.withLock({ $0[token] }) {
                    Patience.until { !isSlow.withLock { $0 } }
                    return .status(200, said)
                }
                if path.hasPrefix(start + "productsv2/tokens/"), let said = products.withLock({ $0[token] }) {
                    return .status(200, said)
                }
                return .status(forgotten.withLock { $0.contains(token) } ? 410 : 404, "{}")
            }
        }

        /// A page of the refunds that a path asks for; nil for a span of time that Google refuses. Without a limit all entries
        /// are on one page. One entry has another form.
        private static func list(
            _ pages: [[(token: String, order: String, at: Int64)]], _ path: String, at now: Int64
        ) -> String? {
            let query = Query(Array(path.split(separator: "?")[1].utf8).span)
            func number(_ name: String) -> Int64? { query?[name].flatMap { Int64($0) } }
            // Google's clock differs from the server's by some minutes.
            let minutes: Int64 = 5 * 60_000
            if let end = number("endTime"), end > now - minutes { return nil }
            if let start = number("startTime"), start < now + minutes - 30 * 86_400_000 { return nil }
            let pages = number("maxResults") == 100 ? pages : [pages.flatMap { $0 }]
            let page = query?["token"].flatMap { Int($0.dropFirst("p+/=".count)) } ?? 0
            let entries = pages.indices.contains(page) ? pages[page] : []
            let rows = entries.filter { $0.at * 1000 >= number("startTime") ?? 0 }.map {
                #"{"kind":"androidpublisher#voidedPurchase","purchaseToken":"\#($0.token)","orderId":"\#($0.order)","voidedTimeMillis":"\#($0.at * 1000)","voidedSource":1}"#
            }
            let next = page + 1 < pages.count ? #","tokenPagination":{"nextPageToken":"p+/=\#(page + 1)"}"# : ""
            return
                #"{"voidedPurchases":[\#((rows.prefix(1) + [#"{"purchaseToken":7}"#] + rows.dropFirst(1)).joined(separator: ","))]\#(next)}"#
        }

        /// The questions about subscriptions so far.
        var subscriptionReads: Int { stand.received.count { $0.line.contains("/subscriptionsv2/tokens/") } }

        func says(_ token: String, _ subscription: String) { subscriptions.withLock { $0[token] = subscription } }
    }

    private static let key = Result {
        let folder = TemporaryFolder()
        let made = try Shell.result(["openssl", "genrsa", "-out", folder.path + "/key", "2048"])
        guard made.code == 0 else { throw Shell.Failed(description: made.errors) }
        return try String(contentsOf: URL(filePath: folder.path + "/key"), encoding: .utf8)
    }

    /// The file of a service account whose tokens come from a stand-in.
    static func account(at google: Google) throws -> String {
        let file = try JSONSerialization.data(withJSONObject: [
            "client_email": "onym@example.iam.gserviceaccount.com", "private_key": try PlayScene.key.get(),
            "private_key_id": "k1", "token_uri": google.stand.url + "token",
        ])
        return String(decoding: file, as: UTF8.self)
    }

    let client: AccessClient
    let google = Google()
    /// The file of the service account.
    let account: String

    /// - Parameter isServers: whether the server's settings have the options, and not the project.
    init(
        _ kind: StoreKind = .memory, isServers: Bool = true,
        configure: @escaping (inout RunningServer.Configuration) -> Void = { _ in }
    ) throws {
        let account = try PlayScene.account(at: google)
        self.account = account
        let url = try #require(OutboundURL(google.stand.url))
        let keys = OutboundURL(google.stand.url + "certs")
        client = try AccessClient(kind) {
            $0.stores.addresses.play = url
            $0.stores.addresses.googleKeys = keys
            if isServers {
                $0.stores.options["play.package_name"] = "com.example.app"
                $0.stores.options["play.service_account"] = account
                $0.stores.options["play.push_secret"] = PlayScene.secret
            }
            configure(&$0)
        }
        let clock = client.clock
        google.clock.withLock { $0 = clock }
    }

    /// Google's answer about a subscription, by days from the start.
    func subscription(
        _ state: String = "ACTIVE", product: String = "X", order: String = "GPA.1",
        from: Int64 = 0, until: Int64 = 30, renews: Bool = true, more: String = ""
    ) -> String {
        func day(_ number: Int64) -> String {
            Date(timeIntervalSince1970: TimeInterval(1_750_000_000 + number * 86_400)).ISO8601Format()
        }
        return
            #"{"kind":"androidpublisher#subscriptionPurchaseV2","subscriptionState":"SUBSCRIPTION_STATE_\#(state)","startTime":"\#(day(from))","acknowledgementState":"ACKNOWLEDGEMENT_STATE_ACKNOWLEDGED","testPurchase":{},"lineItems":[{"productId":"\#(product)","expiryTime":"\#(day(until))","latestSuccessfulOrderId":"\#(order)","autoRenewingPlan":{"autoRenewEnabled":\#(renews)}}]\#(more)}"#
    }

    func buy(_ user: String, _ token: String, product: String = "X") throws
        -> Wire.Answer
    {
        try client.call(
            "POST", "/v1/user/purchase",
            #"{"q_uid":"\#(user)","version":"9.6.0","purchase":{"purchase_token":"\#(token)","product":"\#(product)","product_id":"","original_transaction_id":""}}"#,
            fields: [("Platform", "android"), ("Trigger", "Purchase")])
    }

    func notify(
        _ data: String, secret: String = PlayScene.secret, project: String = "1"
    ) throws -> Wire.Answer {
        let text = #"{"version":"1.0","packageName":"com.example.app","eventTimeMillis":"1",\#(data)}"#
        return try client.settled(
            client.http.call(
                "POST", "/onym/v1/stores/google/\(project)/\(secret)",
                json: #"{"message":{"data":"\#(Base64.encode(Array(text.utf8)))","messageId":"1"},"subscription":"s"}"#)
        )
    }

    func changed(_ token: String, type: Int = 2) throws -> Wire.Answer {
        try notify(
            #""subscriptionNotification":{"version":"1.0","notificationType":\#(type),"purchaseToken":"\#(token)"}"#)
    }

    /// Google's answer about a subscription with several items, by days from the start.
    func items(_ items: [(product: String, order: String, until: Int64)], state: String = "ACTIVE") -> String {
        let start = Date(timeIntervalSince1970: 1_750_000_000).ISO8601Format()
        let lines = items.map { item in
            let end = Date(timeIntervalSince1970: TimeInterval(1_750_000_000 + item.until * 86_400)).ISO8601Format()
            return
                #"{"productId":"\#(item.product)","expiryTime":"\#(end)","latestSuccessfulOrderId":"\#(item.order)","autoRenewingPlan":{"autoRenewEnabled":true}}"#
        }
        return
            #"{"subscriptionState":"SUBSCRIPTION_STATE_\#(state)","startTime":"\#(start)","acknowledgementState":"ACKNOWLEDGEMENT_STATE_ACKNOWLEDGED","testPurchase":{},"lineItems":[\#(lines.joined(separator: ","))]}"#
    }
}
