import ByteText
import Foundation
import TestKit
import Threads

/// The three stores on one port of this machine, and the calls that say what happens at them.
final class StandInStores: Sendable {
    struct Options: Sendable {
        var folder = "stores"
        var port: UInt16 = 9300
        /// The port of the server that the stores tell of purchases.
        var onym: UInt16 = 8080
        var project = 1
        var isProduction = false
        /// Whether Google signs pushes, and the address of pushes has no secret.
        var signsPushes = false
    }

    private struct State {
        var sold: [Sold] = []
        var faults: [Shop: Fault] = [:]
        /// The questions to each store, also those without an answer.
        var asked: [Shop: Int] = [:]
        /// The statuses with which the server has answered notifications.
        var told: [Shop: [Int: Int]] = [:]
        /// The signed texts of Apple's notifications, also those that nobody took.
        var sent: [String] = []
        var aheadMilliseconds: Int64 = 0
        /// The port of the server.
        var onym: UInt16 = 0
    }

    static let pushSecret = "stand-in-push-secret-0123456789abcdef"

    private let options: Options
    private let apple: AppleStand
    private let google: GoogleStand
    private let stripe: StripeStand
    private let state = Monitor(State())
    let port: UInt16

    init(_ options: Options) throws {
        self.options = options
        state.withLock { $0.onym = options.onym }
        let folder = options.folder
        for name in ["transactions", "receipts", "stranger"] {
            try FileManager.default.createDirectory(atPath: "\(folder)/\(name)", withIntermediateDirectories: true)
        }
        // Certificates of Apple are valid for years.
        func chain(_ name: String, isOfRSA: Bool = false) throws -> AppleChain {
            try AppleChain(isOfRSA: isOfRSA, days: 3650, in: "\(folder)/\(name)")
        }
        apple = AppleStand(
            transactions: try chain("transactions"), receipts: try chain("receipts", isOfRSA: true),
            stranger: try chain("stranger"), isProduction: options.isProduction)
        for name in ["account.key", "google.key"] {
            try Shell.run("openssl", "genrsa", "-out", "\(folder)/\(name)", "2048")
        }
        try Shell.run(
            "openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out",
            "\(folder)/apple.p8")
        google = try GoogleStand(isProduction: options.isProduction, key: "\(folder)/google.key")
        stripe = StripeStand(isProduction: options.isProduction)
        let answer = Monitor<(@Sendable (StandIn.Received) -> StandIn.Answer)?>(nil)
        port =
            StandIn(port: options.port) { request in
                answer.withLock { $0 }?(request) ?? .status(503, "{}")
            }.port
        answer.withLock { $0 = { [self] request in self.answer(request) } }
        try writeFiles()
    }

    private var now: Int64 {
        Int64(Date().timeIntervalSince1970 * 1000) + state.withLock { $0.aheadMilliseconds }
    }

    // MARK: - Settings

    /// The settings of a server that asks these stores.
    private var settings: [(name: String, value: String)] {
        let (folder, url) = (URL(filePath: options.folder).standardizedFileURL.path(), "http://127.0.0.1:\(port)")
        let pushes =
            options.signsPushes
            ? [("PUSH_AUDIENCE", GoogleStand.audience), ("PUSH_EMAIL", GoogleStand.pushAccount)]
            : [("PUSH_SECRET", StandInStores.pushSecret)]
        return [
            ("MODE", "development"), ("APP_STORE_ROOT", "\(folder)/transactions/root.pem"),
            ("APP_STORE_RECEIPT_ROOT", "\(folder)/receipts/root.pem"), ("APP_STORE_BUNDLE_ID", AppleStand.bundleID),
            ("APP_STORE_KEY_FILE", "\(folder)/apple.p8"), ("APP_STORE_KEY_ID", AppleStand.keyID),
            ("APP_STORE_ISSUER_ID", AppleStand.issuer),
            ("APP_STORE_URL", "\(url)/apple\(options.isProduction ? "" : "-none")/"),
            ("APP_STORE_SANDBOX_URL", "\(url)/apple\(options.isProduction ? "-none" : "")/"),
            ("PLAY_SERVICE_ACCOUNT", "\(folder)/account.json"), ("PLAY_PACKAGE_NAME", GoogleStand.package),
            ("PLAY_URL", "\(url)/google/"), ("PLAY_CERTS_URL", "\(url)/google/certs"), ("STRIPE_URL", "\(url)/stripe/"),
            ("STRIPE_SECRET_KEY", StripeStand.key), ("STRIPE_WEBHOOK_SECRET", StripeStand.secret),
        ].map { ("ONYM_\($0.0)", $0.1) } + pushes.map { ("ONYM_PLAY_\($0.0)", $0.1) }
    }

    private func writeFiles() throws {
        func write(_ name: String, _ text: String) throws {
            try Data(text.utf8).write(to: URL(filePath: "\(options.folder)/\(name)"))
        }
        let key = try String(contentsOf: URL(filePath: "\(options.folder)/account.key"), encoding: .utf8)
        try write(
            "account.json",
            text([
                "type": "service_account", "client_email": GoogleStand.account, "private_key": key,
                "private_key_id": "stand-in", "token_uri": "http://127.0.0.1:\(port)/google/token",
            ]))
        try write("settings", settings.map { "\($0.name)='\($0.value)'\n" }.joined())
    }

    // MARK: - Requests

    private func answer(_ request: StandIn.Received) -> StandIn.Answer {
        let words = request.line.split(separator: " ").map(String.init)
        let parts = words[1].split(separator: "/", maxSplits: 1).map(String.init)
        let (first, rest) = (parts.first ?? "", parts.count > 1 ? parts[1] : "")
        let answer: StandIn.Answer
        do {
            switch first {
            case "control": answer = try control(words[0], rest, request.body)
            case "apple": answer = try serve(.appStore, rest, request)
            case "google": answer = try serve(.play, rest, request)
            case "stripe": answer = try serve(.stripe, rest, request)
            // Apple has the purchases of the other world at the other address.
            case "apple-none": answer = .status(404, text(["errorCode": 4_040_010]))
            default: answer = .status(404, "{}")
            }
        } catch {
            return .status(500, text(["error": "\(error)"]))
        }
        guard case .status(let status, let body, let fields) = answer else { return answer }
        let date = Date(timeIntervalSince1970: Double(now) / 1000)
        return .status(
            status, body, fields: fields + ["Content-Type: application/json", "Date: \(StandInStores.httpDate(date))"])
    }

    /// A date in the form of HTTP.
    private static func httpDate(_ date: Date) -> String {
        let form = DateFormatter()
        form.locale = Locale(identifier: "en_US_POSIX")
        form.timeZone = TimeZone(secondsFromGMT: 0)
        form.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
        return form.string(from: date)
    }

    private func serve(_ shop: Shop, _ path: String, _ request: StandIn.Received) throws -> StandIn.Answer {
        let (sold, sent, fault) = state.withLock { state in
            state.asked[shop, default: 0] += 1
            return (state.sold.filter { $0.shop == shop }, state.sent, state.faults[shop])
        }
        switch fault {
        case .tooMany: return .status(429, "{}", fields: ["Retry-After: 1"])
        case .broken: return .status(500, "")
        case .hangs: return .hang
        case .cut: return .bytes(Array("HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{\"a\":".utf8))
        case .garbage: return .status(200, "\u{1}nonsense")
        case .strangersSignature, .anothers, nil: break
        }
        switch shop {
        case .appStore: return try apple.answer(path, request, sold, sent, at: now, fault)
        case .stripe: return stripe.answer(path, request, sold, fault)
        case .play:
            if path == "certs" { return .status(200, google.keys) }
            if path == "token" { return google.accessToken(request) }
            let start = "androidpublisher/v3/applications/\(GoogleStand.package)/purchases/"
            guard path.hasPrefix(start) else { return .status(404, "{}") }
            guard request.value(of: "authorization") == "Bearer ya29.stand-in" else { return .status(401, "{}") }
            return google.answer(String(path.dropFirst(start.count)), sold, at: now, fault) { token in
                self.state.withLock { state in
                    for index in state.sold.indices where state.sold[index].id == token {
                        state.sold[index].isAcknowledged = true
                    }
                }
            }
        }
    }

    // MARK: - What happens at the stores

    private func control(_ method: String, _ path: String, _ body: String) throws -> StandIn.Answer {
        let values = try? JSONSerialization.jsonObject(with: Data((body.isEmpty ? "{}" : body).utf8))
        guard let object = values as? [String: Any] else { return StandInStores.wrong("a JSON object") }
        let parts = path.split(separator: "/").map(String.init)
        switch (method, parts.count, parts.first) {
        case ("GET", 0, _): return .status(200, report())
        case ("PUT", 1, "clock"):
            guard let seconds = object["ahead"] as? Int else { return StandInStores.wrong("ahead: seconds") }
            state.withLock { $0.aheadMilliseconds = Int64(seconds) * 1000 }
            return .status(200, report())
        case ("PUT", 1, "server"):
            guard let port = (object["port"] as? Int).flatMap(UInt16.init(exactly:)) else {
                return StandInStores.wrong("port: the port of the server")
            }
            state.withLock { $0.onym = port }
            return .status(200, report())
        case ("PUT", 1, "faults"):
            for (name, value) in object {
                let fault = (value as? String).flatMap(Fault.init)
                guard let shop = Shop(rawValue: name), fault != nil || value is NSNull else {
                    let faults = Fault.allCases.map(\.rawValue).joined(separator: ", ")
                    return StandInStores.wrong("app_store, play or stripe: one of \(faults), or null")
                }
                state.withLock { $0.faults[shop] = fault }
            }
            return .status(200, report())
        case ("POST", 1, "purchases"): return try sell(object)
        case ("POST", 3, "purchases"):
            guard let deed = Deed(rawValue: parts[2]), deed != .buy else {
                return StandInStores.wrong(
                    "one of \(Deed.allCases.dropFirst().map(\.rawValue).joined(separator: ", "))")
            }
            let now = now
            let sold = state.withLock { state -> Sold? in
                guard let index = state.sold.firstIndex(where: { $0.id == parts[1] }),
                    state.sold[index].does(deed, at: now)
                else { return nil }
                return state.sold[index]
            }
            guard let sold else {
                return .status(
                    400,
                    text([
                        "error":
                            "There is no such purchase, or the deed does not fit: it is refunded, bought once, or paid ahead."
                    ]))
            }
            return .status(200, text(try tell(deed, of: sold, object)))
        default: return .status(404, text(["error": "There is no such call."]))
        }
    }

    private static func wrong(_ what: String) -> StandIn.Answer {
        .status(400, text(["error": "The body or the path must have: \(what)."]))
    }

    /// Makes a purchase, as a user of the app does.
    private func sell(_ object: [String: Any]) throws -> StandIn.Answer {
        guard let shop = (object["store"] as? String).flatMap(Shop.init), let product = object["product"] as? String
        else {
            return StandInStores.wrong("store: app_store, play or stripe; product: the store's id")
        }
        let (now, days) = (now, (object["days"] as? Int).map(Int64.init))
        guard shop != .stripe || days != nil else { return StandInStores.wrong("days, for a subscription of Stripe") }
        let sold = state.withLock { state -> Sold in
            let number = now * 1000 + Int64(state.sold.count) * 100
            let id =
                switch shop {
                case .appStore: String(number)
                case .play: "token-\(number)"
                case .stripe: "sub_\(number)"
                }
            let sold = Sold(shop, id, product: product, days: days, buyer: object["user"] as? String, at: now)
            state.sold.append(sold)
            return sold
        }
        var answer = try tell(.buy, of: sold, object)
        switch shop {
        case .appStore:
            answer["report"] = ["app_store_data": ["receipt": try apple.transaction(sold, sold.last, at: now)]]
            let all = state.withLock { $0.sold.filter { $0.shop == .appStore } }
            answer["receipt"] = try apple.receipt(all, at: now)
        case .play: answer["report"] = ["play_store_data": ["purchase_token": sold.id]]
        case .stripe:
            var claim = ["subscription_id": sold.id]
            if sold.buyer != nil { claim = ["checkout_session_id": StripeStand.checkout(of: sold)] }
            answer["report"] = ["stripe_store_data": claim]
        }
        return .status(200, text(answer))
    }

    /// Tells the server of a deed, as often as the caller wants it.
    private func tell(_ deed: Deed, of sold: Sold, _ object: [String: Any]) throws -> [String: Any] {
        let times = object["times"] as? Int ?? 1
        var statuses: [Int] = []
        for _ in 0..<max(0, min(times, 100)) {
            let status = try send(deed, sold)
            statuses.append(status)
            state.withLock { $0.told[sold.shop, default: [:]][status, default: 0] += 1 }
        }
        var answer: [String: Any] = [
            "id": "\(sold.shop == .appStore ? "appstore" : sold.shop == .play ? "playstore" : "stripe"):\(sold.id)",
            "state": sold.state.rawValue, "notified": statuses,
        ]
        answer["until"] = (sold.graceEnd ?? sold.last.end).map {
            Date(timeIntervalSince1970: Double($0) / 1000).ISO8601Format()
        }
        return answer
    }

    /// Sends a notification. The status is 0 if no server listens.
    private func send(_ deed: Deed, _ sold: Sold) throws -> Int {
        let now = now
        var path = "/onym/v1/stores/"
        var fields: [(String, String)] = []
        let body: String
        switch sold.shop {
        case .appStore:
            let signed = try apple.notification(deed, sold, at: now)
            state.withLock { $0.sent.append(signed) }
            path += "apple/\(options.project)"
            body = text(["signedPayload": signed])
        case .play:
            path += "google/\(options.project)"
            if options.signsPushes {
                fields = [("Authorization", "Bearer \(google.token(at: now / 1000))")]
            } else {
                path += "/\(StandInStores.pushSecret)"
            }
            body = google.push(deed, sold, at: now)
        case .stripe:
            path += "stripe/\(options.project)"
            body = stripe.event(deed, sold)
            fields = [("Stripe-Signature", stripe.signature(body, at: now / 1000))]
        }
        return (try? HTTPClient(port: state.withLock { $0.onym }).call("POST", path, fields: fields, json: body).status)
            ?? 0
    }

    private func report() -> String {
        let now = now
        return state.withLock { state in
            let purchases = state.sold.map { sold in
                ["id": sold.id, "store": sold.shop.rawValue, "product": sold.product, "state": sold.state.rawValue]
            }
            func byShop<Value>(_ values: [Shop: Value], _ body: (Value) -> Any) -> [String: Any] {
                Dictionary(uniqueKeysWithValues: values.map { ($0.key.rawValue, body($0.value)) })
            }
            return text([
                "now": Date(timeIntervalSince1970: Double(now) / 1000).ISO8601Format(), "purchases": purchases,
                "asked": byShop(state.asked) { $0 }, "faults": byShop(state.faults) { $0.rawValue },
                "told": byShop(state.told) { statuses in
                    Dictionary(uniqueKeysWithValues: statuses.map { (String($0.key), $0.value) })
                },
            ])
        }
    }
}

extension StandIn.Received {
    func value(of name: String) -> String? {
        fields.first { $0.lowercased().hasPrefix("\(name):") }.map { line in
            String(line.drop { $0 != ":" }.dropFirst().drop { $0 == " " })
        }
    }

    /// The parts of the token with which a request is signed.
    var tokenParts: (header: [String: Any], payload: [String: Any])? {
        value(of: "authorization").flatMap { StandIn.Received.parts(of: String($0.dropFirst("Bearer ".count))) }
    }

    static func parts(of token: String) -> (header: [String: Any], payload: [String: Any])? {
        let parts = token.split(separator: ".").map { part in
            Base64.decodeForAddresses(Array(part.utf8).span).flatMap {
                try? JSONSerialization.jsonObject(with: Data($0)) as? [String: Any]
            }
        }
        guard parts.count == 3, let header = parts[0], let payload = parts[1] else { return nil }
        return (header, payload)
    }
}
