import ByteText
import Crypto
import DialectEntitlements
import Foundation
import Outbound
import Program
import TestKit
import Testing
import Threads

/// Apple, Google and Stripe as servers on this machine, each with faults, and a server of ours that believes and asks them. Apple's
/// signatures come from chains of the test's own certificates. All clocks are one clock, which the test sets.
final class StoresScene {
    /// What a store does instead of an answer.
    enum Fault: String, CaseIterable, Sendable {
        case tooMany
        case broken
        case hangs
        case cut
        case garbage
        /// The answer is signed by a stranger, where the store signs.
        case strangersSignature
        /// The answer is about another purchase.
        case anothers
    }

    /// The certificates of Apple's transactions and of its receipts, and those of a stranger.
    private static let chains = Result {
        (
            transactions: try AppleChain(days: 400), receipts: try AppleChain(isOfRSA: true, days: 400),
            stranger: try AppleChain(days: 400)
        )
    }

    /// A transaction at Apple, by days from the start.
    struct Told {
        var id: String
        var original: String
        var product = "X"
        var start: Int64 = 0
        var end: Int64? = 30
        var signed: Int64 = 0
        var revoked: Int64?
        var more: [String: Any] = [:]
    }

    let transactions: AppleChain
    let receipts: AppleChain
    private let stranger: AppleChain
    let client: AccessClient
    /// The start of all days, in seconds.
    let start: Int64
    /// Apple's last word about a purchase, by its original transaction.
    private let statuses = Monitor<[String: String]>([:])
    /// Apple's pages of past notifications.
    let history = Monitor<[[String]]>([])
    /// Apple's list of refunds; nil while Apple does not answer about refunds.
    let refunds = Monitor<[String]?>([])
    private let strangers = Monitor<[String: String]>([:])
    let google = PlayScene.Google()
    /// Stripe's last word about a subscription, by its id.
    private let subscriptions = Monitor<[String: String]>([:])
    private let faults = Monitor<[String: Fault]>([:])
    let apple: StandIn
    let stripe: StandIn

    static let stripeSecret = "whsec_0123456789"

    init(
        _ kind: StoreKind = .memory, restore: String = "copy", polls: Bool = false,
        configure: @escaping (inout RunningServer.Configuration) -> Void = { _ in }
    ) throws {
        let chains = try StoresScene.chains.get()
        (transactions, receipts, stranger) = chains
        // The certificates are a little older than the first document.
        let start = chains.transactions.now + 60
        self.start = start
        let (history, refunds) = (history, refunds)
        let (statuses, strangers, subscriptions, faults) = (statuses, strangers, subscriptions, faults)
        @Sendable func fault(of store: String, _ another: String) -> StandIn.Answer? {
            switch faults.withLock({ $0[store] }) {
            case nil, .strangersSignature: nil
            case .tooMany: .status(429, "{}", fields: ["Retry-After: 1"])
            case .broken: .status(500, "")
            case .hangs: .hang
            case .cut: .bytes(Array("HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{\"a\":".utf8))
            case .garbage: .status(200, "\u{1}nonsense")
            case .anothers: .status(200, another)
            }
        }
        apple = StandIn { request in
            let path = request.line.split(separator: " ")[1]
            let id = String(path.split(separator: "?")[0].split(separator: "/").last ?? "")
            if let fault = fault(of: "apple", statuses.withLock { $0["another"] ?? "{}" }) { return fault }
            if path.hasPrefix("/inApps/v1/notifications/history") {
                let pages = history.withLock { $0 }
                let page = Int(path.split(separator: "paginationToken=p").last ?? "") ?? 0
                let rows = (pages.indices.contains(page) ? pages[page] : []).map { #"{"signedPayload":"\#($0)"}"# }
                return .status(
                    200,
                    #"{"notificationHistory":[\#(rows.joined(separator: ","))],"hasMore":\#(page + 1 < pages.count),"paginationToken":"p\#(page + 1)"}"#
                )
            }
            if path.hasPrefix("/inApps/v2/refund/lookup/") {
                guard let texts = refunds.withLock({ $0 }) else { return .status(500, "") }
                let all = texts.map { "\"\($0)\"" }.joined(separator: ",")
                return .status(200, #"{"signedTransactions":[\#(all)],"revision":"1","hasMore":false}"#)
            }
            let isStrangers = faults.withLock { $0["apple"] } == .strangersSignature
            let said = (isStrangers ? strangers : statuses).withLock { $0[id] }
            return said.map { .status(200, $0) } ?? .status(404, #"{"errorCode":4040010}"#)
        }
        stripe = StandIn { request in
            let id = String(request.line.split(separator: " ")[1].split(separator: "/").last ?? "")
            if let fault = fault(of: "stripe", StoresScene.subscription("sub_another", from: start, until: start + 9)) {
                return fault
            }
            return subscriptions.withLock { $0[id] }.map { .status(200, $0) } ?? .status(404, "{}")
        }
        let pem = try [UInt8](Data(contentsOf: URL(filePath: transactions.path + "/leaf.key")))
        let root = try #require(Certificate(pem: transactions.rootPEM))
        let receiptRoot = try #require(Certificate(pem: receipts.rootPEM))
        let account = try PlayScene.account(at: google)
        let (appleURL, googleURL, stripeURL) = (apple.url, google.stand.url, stripe.url)
        client = try AccessClient(kind, restore: restore, at: start) {
            $0.stores.appStoreRoot = root
            $0.stores.appStoreReceiptRoot = receiptRoot
            $0.stores.addresses.appStore = OutboundURL(appleURL)
            $0.stores.addresses.appStoreSandbox = OutboundURL(appleURL)
            $0.stores.addresses.play = OutboundURL(googleURL)
            $0.stores.addresses.stripe = OutboundURL(stripeURL)
            for (name, value) in [
                "app_store.bundle_id": "com.example.app", "app_store.key": String(decoding: pem, as: UTF8.self),
                "app_store.key_id": "K1", "app_store.issuer_id": "issuer", "play.package_name": "com.example.app",
                "play.service_account": account, "play.push_secret": PlayScene.secret, "stripe.secret_key": "rk_secret",
                "stripe.webhook_secret": StoresScene.stripeSecret,
            ] { $0.stores.options[name] = value }
            $0.purchaseChecks.pauseMilliseconds = 5
            $0.purchaseChecks.perSecond = polls ? 1000 : 0
            configure(&$0)
        }
        let clock = client.clock
        google.clock.withLock { $0 = clock }
    }

    // MARK: - The clock and the faults

    func turn(to day: Int64, minutes: Int64 = 0) { client.clock.set(seconds: moment(day) + minutes * 60) }

    func moment(_ day: Int64) -> Int64 { start + day * 86_400 }

    /// What a store does from now on: `apple`, `google` or `stripe`.
    func set(_ fault: Fault?, of store: String) {
        faults.withLock { $0[store] = fault }
        if store == "google" { google.isDown.withLock { $0 = fault != nil } }
    }

    // MARK: - Apple

    private func payload(_ told: Told) -> [String: Any] {
        var payload: [String: Any] = [
            "transactionId": told.id, "originalTransactionId": told.original, "bundleId": "com.example.app",
            "productId": told.product, "purchaseDate": moment(told.start) * 1000,
            "signedDate": moment(told.signed) * 1000,
            "type": told.end == nil ? "Non-Consumable" : "Auto-Renewable Subscription",
            "environment": "Sandbox", "inAppOwnershipType": "PURCHASED",
        ]
        payload["expiresDate"] = told.end.map { moment($0) * 1000 }
        payload["revocationDate"] = told.revoked.map { moment($0) * 1000 }
        for (key, value) in told.more { payload[key] = value }
        return payload
    }

    func signed(_ told: Told, by chain: AppleChain? = nil, chain certificates: [String]? = nil) throws -> String {
        try (chain ?? transactions).sign(payload(told), chain: certificates)
    }

    /// Sets Apple's word about a purchase.
    func says(_ told: Told) throws {
        for (list, chain) in [(statuses, transactions), (strangers, stranger)] {
            let text = try chain.sign(payload(told))
            let answer =
                told.end == nil
                ? #"{"signedTransactions":["\#(text)"],"revision":"1","hasMore":false}"#
                : #"{"environment":"Sandbox","bundleId":"com.example.app","data":[{"lastTransactions":[{"status":1,"originalTransactionId":"\#(told.original)","signedTransactionInfo":"\#(text)"}]}]}"#
            list.withLock {
                $0[told.original] = answer
                $0[told.id] = answer
            }
        }
    }

    func notify(_ type: String, _ told: Told) throws -> Wire.Answer {
        try client.http.call(
            "POST", "/onym/v1/stores/apple/1", json: #"{"signedPayload":"\#(try notification(type, told))"}"#)
    }

    /// The signed text of a notification.
    func notification(_ type: String, _ told: Told, by chain: AppleChain? = nil) throws -> String {
        let payload: [String: Any] = [
            "notificationType": type, "notificationUUID": UUID().uuidString, "version": "2.0",
            "signedDate": moment(told.signed) * 1000,
            "data": [
                "environment": "Sandbox", "bundleId": "com.example.app", "signedTransactionInfo": try signed(told),
            ],
        ]
        return try (chain ?? transactions).sign(payload)
    }

    /// A receipt as shipped iOS apps send it.
    func receipt(_ all: [Told], at day: Int64 = 0) throws -> String {
        var maker = ReceiptMaker(receipts)
        maker.createdAt = moment(day)
        maker.entries = all.map { told in
            ReceiptMaker.Entry(
                product: told.product, transaction: told.id, original: told.original, purchased: moment(told.start),
                expires: told.end.map(moment), canceled: told.revoked.map(moment))
        }
        return try maker.receipt()
    }

    // MARK: - Stripe

    static func subscription(
        _ id: String, product: String = "X", from: Int64, until: Int64, _ more: String = ""
    ) -> String {
        #"{"id":"\#(id)","object":"subscription","status":"active","livemode":false,"customer":"cus_\#(id)","current_period_start":\#(from),"current_period_end":\#(until),"items":{"object":"list","data":[{"id":"si_1","price":{"id":"price_1","product":"\#(product)"}}]}\#(more)}"#
    }

    func says(_ subscription: String, product: String = "X", from: Int64 = 0, until: Int64 = 30, _ more: String = "") {
        let text = StoresScene.subscription(
            subscription, product: product, from: moment(from), until: moment(until), more)
        subscriptions.withLock { $0[subscription] = text }
    }

    func event(_ subscription: String) throws -> Wire.Answer {
        try event(
            body:
                #"{"id":"evt_1","object":"event","livemode":false,"type":"customer.subscription.updated","data":{"object":{"id":"\#(subscription)","object":"subscription"}}}"#
        )
    }

    /// Sends a body that Stripe has signed.
    func event(body: String) throws -> Wire.Answer {
        let now = client.clock.seconds
        let signature = HMAC(key: Array(StoresScene.stripeSecret.utf8)).authenticate(Array("\(now).\(body)".utf8)).bytes
        return try client.settled(
            client.http.call(
                "POST", "/onym/v1/stores/stripe/1",
                fields: [("Stripe-Signature", "t=\(now),v1=\(Hexadecimal.encode(signature))")], json: body))
    }

    // MARK: - Google

    func googleSays(
        _ token: String, _ state: String = "ACTIVE", product: String = "X", order: String = "GPA.1", until: Int64 = 30
    ) {
        func day(_ number: Int64) -> String {
            Date(timeIntervalSince1970: TimeInterval(moment(number))).ISO8601Format()
        }
        google.says(
            token,
            #"{"subscriptionState":"SUBSCRIPTION_STATE_\#(state)","startTime":"\#(day(0))","acknowledgementState":"ACKNOWLEDGEMENT_STATE_ACKNOWLEDGED","testPurchase":{},"lineItems":[{"productId":"\#(product)","expiryTime":"\#(day(until))","latestSuccessfulOrderId":"\#(order)","autoRenewingPlan":{"autoRenewEnabled":true}}]}"#
        )
    }

    /// The body of a push about a subscription.
    func pushed(_ token: String) -> String {
        let text =
            #"{"version":"1.0","packageName":"com.example.app","eventTimeMillis":"1","subscriptionNotification":{"version":"1.0","notificationType":2,"purchaseToken":"\#(token)"}}"#
        return #"{"message":{"data":"\#(Base64.encode(Array(text.utf8)))","messageId":"1"},"subscription":"s"}"#
    }

    func push(_ token: String) throws -> Wire.Answer {
        try client.settled(
            client.http.call("POST", "/onym/v1/stores/google/1/\(PlayScene.secret)", json: pushed(token)))
    }

    // MARK: - Clients

    /// A call of a shipped iOS SDK.
    func iOS(
        _ path: String, _ user: String, receipt: String? = nil, trigger: String? = "Init", version: String = "6.13.0",
        _ more: String = ""
    ) throws -> Wire.Answer {
        let receipt = receipt.map { #","receipt":"\#($0)""# } ?? ""
        return try client.call(
            "POST", path,
            #"{"install_date":"1700000000","q_uid":"\#(user)","client_uid":"\#(user)","version":"\#(version)","debug_mode":0,"device":{"os":"ios","device_id":"d"}\#(receipt)\#(more)}"#,
            fields: [("Platform", "ios")] + (trigger.map { [("Trigger", $0)] } ?? []))
    }

    /// A call of a shipped Android SDK.
    func android(
        _ path: String, _ user: String, trigger: String? = "Init", version: String = "9.6.0", _ more: String = ""
    ) throws -> Wire.Answer {
        try client.call(
            "POST", path,
            #"{"install_date":1700000000,"q_uid":"\#(user)","version":"\#(version)","debug_mode":"0","receipt":"","device":{"os":"Android","device_id":"d"}\#(more)}"#,
            fields: [("Platform", "android")] + (trigger.map { [("Trigger", $0)] } ?? []))
    }

    func identify(_ user: String, _ identity: String) throws -> String {
        let answer = try client.call("POST", "/v2/identities", #"{"anon_id":"\#(user)","identity_id":"\#(identity)"}"#)
        let data = try JSONSerialization.jsonObject(with: Data(answer.body.utf8)) as? [String: Any]
        return try #require((data?["data"] as? [String: Any])?["anon_id"] as? String, "\(answer)")
    }

    /// A report of a transaction, as the v3 client makes it.
    func report(_ user: String, _ text: String, key: String? = nil, fields: [(String, String)] = []) throws
        -> Wire.Answer
    {
        try client.call(
            "POST", "/v3/users/\(user)/purchases",
            #"{"price":"","currency":"USD","purchased":1750000000,"app_store_data":{"transaction_id":"","original_transaction_id":"","product_id":"ours","receipt":"\#(text)"}}"#,
            key: key, fields: fields)
    }
}
