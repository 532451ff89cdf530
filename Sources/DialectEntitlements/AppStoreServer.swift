package import Crypto
import Domain
import Gateway
import HTTPMessage
import JSON
package import Outbound

/// Apple's server for questions about subscriptions, the App Store Server API (spec/entitlements-live.md 4.5).
package struct AppStoreServer: Sendable {
    private let issuer: String
    private let keyID: String
    private let key: PrivateKey
    private let production: String
    private let sandbox: String

    package static let standardURL = "https://api.storekit.itunes.apple.com/"
    package static let standardSandboxURL = "https://api.storekit-sandbox.itunes.apple.com/"

    private static let tokenSeconds: Int64 = 1200

    /// - Parameters:
    ///   - url: Apple's address for purchases; tests use another address.
    ///   - sandboxURL: Apple's address for purchases of testers.
    ///   - issuer: the id of the account at Apple that has the key.
    ///   - keyID: Apple's name for the key.
    ///   - key: the key with which the server signs its questions.
    package init(_ url: OutboundURL, sandboxURL: OutboundURL, issuer: String, keyID: String, key: PrivateKey) {
        (production, sandbox) = (url.folder, sandboxURL.folder)
        (self.issuer, self.keyID, self.key) = (issuer, keyID, key)
    }

    private static let outage = StoreCheck.unavailable(.appStore, .unreachable)

    /// Asks for the last transactions of a subscription, first as a purchase, and then as one of a tester.
    ///
    /// - Parameters:
    ///   - original: the subscription's original transaction.
    ///   - bundleIDs: the apps of the project, one of which has the subscription.
    ///   - now: the present moment.
    ///   - next: reads the signed texts of the subscription's last transaction.
    func ask(
        about original: String, of bundleIDs: ArraySlice<String>, at now: Instant,
        _ next: @escaping @Sendable (SubscriptionStatus.Last, LoopTools) -> StoreCheck
    ) -> StoreCheck {
        guard let bundleID = bundleIDs.first else { return .unavailable(.appStore, .notSetUp) }
        guard (1...64).contains(original.utf8.count),
            original.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) })
        else { return .bad(.unreadable) }
        return ask(production, original, bundleID, now, next) {
            ask(sandbox, original, bundleID, now, next) {
                let rest = bundleIDs.dropFirst()
                return rest.isEmpty ? .bad(.unknown) : ask(about: original, of: rest, at: now, next)
            }
        }
    }

    private func ask(
        _ base: String, _ original: String, _ bundleID: String, _ now: Instant,
        _ next: @escaping @Sendable (SubscriptionStatus.Last, LoopTools) -> StoreCheck,
        otherwise: @escaping @Sendable () -> StoreCheck
    ) -> StoreCheck {
        guard let url = OutboundURL("\(base)inApps/v1/subscriptions/\(original)") else { return .bad(.unreadable) }
        let token = key.token(keyID: keyID) { json in
            json.key("iss")
            json.string(issuer)
            json.key("iat")
            json.integer(now.seconds)
            json.key("exp")
            json.integer(now.seconds + AppStoreServer.tokenSeconds)
            json.key("aud")
            json.string("appstoreconnect-v1")
            json.key("bid")
            json.string(bundleID)
        }
        return .ask(OutboundCall(.get, url, bearer: token)) { result, tools in
            guard case .success(let answer) = result else { return AppStoreServer.outage }
            switch answer.status {
            case 200..<300:
                let status = try? tools.json.read(answer.body) { root throws(JSONFault) in
                    try SubscriptionStatus(root)
                }
                guard let status else { return AppStoreServer.outage }
                let last = status.all.first { $0.original.hasSameBytes(as: original) }
                return last.map { next($0, tools) } ?? .bad(.unknown)
            case 404:
                // Apple says with some numbers of this status that the same question may succeed later.
                let code = AppStoreServer.errorCode(answer.body, tools)
                return [4_040_002, 4_040_004, 4_040_006].contains(code) ? AppStoreServer.outage : otherwise()
            // A wrong key of this server is no mistake of the buyer.
            case 401, 403: return .unavailable(.appStore, .notSetUp)
            case 400: return .bad(.unknown)
            default: return AppStoreServer.outage
            }
        }
    }

    private static func errorCode(_ body: [UInt8], _ tools: LoopTools) -> Int64? {
        var code: Int64?
        try? tools.json.read(body) { root throws(JSONFault) in
            try root.forEachMember(at: "the answer") { key, value throws(JSONFault) in
                if case "errorCode" = key { code = try value.integer(at: "errorCode") }
            }
        }
        return code
    }
}

/// Apple's answer about the subscriptions of an account.
struct SubscriptionStatus {
    /// The last transaction of a subscription, and the state of its renewal.
    struct Last: Sendable {
        var original = ""
        var transaction: String?
        var renewal: String?
    }

    private(set) var all: [Last] = []

    private static let subscriptionsAtMost = 200

    init(_ root: JSONValue) throws(JSONFault) {
        try root.forEachMember(at: "the answer") { key, value throws(JSONFault) in
            guard case "data" = key else { return }
            try value.forEachElement(at: "data") { group throws(JSONFault) in
                try group.forEachMember(at: "data") { key, value throws(JSONFault) in
                    guard case "lastTransactions" = key else { return }
                    try value.forEachElement(at: "lastTransactions") { element throws(JSONFault) in
                        guard all.count < SubscriptionStatus.subscriptionsAtMost else { return }
                        all.append(try SubscriptionStatus.last(element))
                    }
                }
            }
        }
    }

    private static func last(_ element: JSONValue) throws(JSONFault) -> Last {
        var last = Last()
        try element.forEachMember(at: "lastTransactions") { key, value throws(JSONFault) in
            switch key {
            case "originalTransactionId": last.original = try value.string(at: "originalTransactionId")
            case "signedTransactionInfo": last.transaction = try value.string(at: "signedTransactionInfo")
            case "signedRenewalInfo": last.renewal = try value.optionalText(at: "signedRenewalInfo")?.copy()
            default: break
            }
        }
        return last
    }
}

extension AppStore {
    /// Asks Apple for the present state of a purchase.
    func question(
        about purchase: Purchase, in project: ProjectID, at now: Instant, _ directory: Directory
    ) -> StoreCheck {
        guard let server else { return .unavailable(.appStore, .notSetUp) }
        let own = directory.apps.values.filter { $0.project == project }.compactMap(\.bundleID)
        let bundleIDs = (bundleID.map { [$0] } ?? []) + Set(own).subtracting(bundleID.map { [$0] } ?? []).sorted()
        return server.ask(about: purchase.originalTransaction, of: bundleIDs[...], at: now) { last, tools in
            guard let text = last.transaction else { return .bad(.unreadable) }
            do throws(StoreProblem) {
                return .done(.success(try state(text, last.renewal, in: project, at: now, tools)))
            } catch {
                return .done(.failure(error))
            }
        }
    }
}
