import ByteText
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
    ///   - isMeant: whether a subscription of the answer is the one that the question is for.
    ///   - next: reads the signed texts of the subscription's last transaction.
    ///   - otherwise: the result if Apple does not know the subscription.
    func ask(
        about original: String, of bundleIDs: ArraySlice<String>, at now: Instant,
        where isMeant: @escaping @Sendable (SubscriptionStatus.Last) -> Bool,
        next: @escaping @Sendable (SubscriptionStatus.Last, LoopTools) -> StoreCheck,
        otherwise: @escaping @Sendable () -> StoreCheck
    ) -> StoreCheck {
        read("inApps/v1/subscriptions/", original, of: bundleIDs, at: now) { body, tools in
            let status = try? tools.json.read(body) { root throws(JSONFault) in try SubscriptionStatus(root) }
            guard let status else { return AppStoreServer.outage }
            return status.all.first(where: isMeant).map { next($0, tools) } ?? otherwise()
        } otherwise: {
            otherwise()
        }
    }

    /// Asks for the transactions of a purchase that is no subscription.
    ///
    /// - Parameters:
    ///   - original: the purchase's original transaction.
    ///   - bundleIDs: the apps of the project, one of which has the purchase.
    ///   - now: the present moment.
    ///   - next: reads the signed transactions.
    func askHistory(
        of original: String, of bundleIDs: ArraySlice<String>, at now: Instant,
        next: @escaping @Sendable ([String], LoopTools) -> StoreCheck
    ) -> StoreCheck {
        page(of: .history, original, bundleIDs, now, revision: nil, [], pages: 1, next)
    }

    /// Asks for the refunded transactions of the account that has a purchase.
    ///
    /// - Parameters:
    ///   - original: the purchase's original transaction.
    ///   - bundleIDs: the apps of the project, one of which has the purchase.
    ///   - now: the present moment.
    ///   - next: reads the signed transactions.
    func askRefunds(
        of original: String, of bundleIDs: ArraySlice<String>, at now: Instant,
        next: @escaping @Sendable ([String], LoopTools) -> StoreCheck
    ) -> StoreCheck {
        page(of: .refunds, original, bundleIDs, now, revision: nil, [], pages: 1, next)
    }

    /// A list of an account's transactions.
    private enum List: String, Sendable {
        case history = "inApps/v2/history/"
        case refunds = "inApps/v2/refund/lookup/"
    }

    /// Reads a page of a list after the transactions of the pages before.
    private func page(
        of list: List, _ original: String, _ bundleIDs: ArraySlice<String>, _ now: Instant, revision: String?,
        _ before: [String], pages: Int, _ next: @escaping @Sendable ([String], LoopTools) -> StoreCheck
    ) -> StoreCheck {
        let query = revision.map { "?revision=\(PercentCoding.encode($0))" } ?? ""
        return read(list.rawValue, original, query, of: bundleIDs, at: now) { body, tools in
            guard let page = try? tools.json.read(body, { root throws(JSONFault) in try HistoryPage(root) }) else {
                return AppStoreServer.outage
            }
            let all = before + page.transactions
            guard page.hasMore, let revision = page.revision, pages < AppStoreServer.pagesAtMost else {
                return next(all, tools)
            }
            return self.page(
                of: list, original, bundleIDs, now, revision: revision, all, pages: pages + 1, next)
        } otherwise: {
            .bad(.unknown)
        }
    }

    /// A page has 20 transactions.
    private static let pagesAtMost = 50

    /// Asks for each app after the other, first as a purchase, and then as one of a tester.
    private func read(
        _ path: String, _ original: String, _ query: String = "", of bundleIDs: ArraySlice<String>, at now: Instant,
        _ next: @escaping @Sendable ([UInt8], LoopTools) -> StoreCheck,
        otherwise: @escaping @Sendable () -> StoreCheck
    ) -> StoreCheck {
        guard let bundleID = bundleIDs.first else { return .unavailable(.appStore, .notSetUp) }
        guard (1...64).contains(original.utf8.count),
            original.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) })
        else { return .bad(.unreadable) }
        let place = path + original + query
        return ask(production + place, bundleID, now, next) {
            ask(sandbox + place, bundleID, now, next) {
                let rest = bundleIDs.dropFirst()
                return rest.isEmpty
                    ? otherwise() : read(path, original, query, of: rest, at: now, next, otherwise: otherwise)
            }
        }
    }

    private func ask(
        _ address: String, _ bundleID: String, _ now: Instant,
        _ next: @escaping @Sendable ([UInt8], LoopTools) -> StoreCheck,
        otherwise: @escaping @Sendable () -> StoreCheck
    ) -> StoreCheck {
        guard let url = OutboundURL(address) else { return .bad(.unreadable) }
        let proof = token(for: bundleID, at: now)
        return .ask(OutboundCall(.get, url, bearer: proof, sharing: .follows("\(keyID) \(bundleID) \(address)"))) {
            result, tools in
            guard case .success(let answer) = result else { return AppStoreServer.outage }
            switch answer.status {
            case 200..<300: return next(answer.body, tools)
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

    /// The signed proof of the server for one of its apps.
    private func token(for bundleID: String, at now: Instant) -> String {
        key.token(keyID: keyID) { json in
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
    }

    // MARK: - Past notifications

    /// Apple keeps its notifications for 180 days.
    static let keptMilliseconds: Int64 = 180 * 86_400_000

    /// Asks for a page of the notifications that Apple has sent. An app that Apple does not know at the address has none.
    ///
    /// - Parameters:
    ///   - bundleID: the app.
    ///   - isSandbox: whether the notifications are about purchases of testers.
    ///   - span: the moments of the notifications.
    ///   - page: the place of the page; nil for the first one.
    ///   - now: the present moment.
    func notifications(
        of bundleID: String, isSandbox: Bool, in span: ClosedRange<Instant>, page: String?, at now: Instant
    ) -> StoreQuestion<NotificationPage> {
        let query = page.map { "?paginationToken=\(PercentCoding.encode($0))" } ?? ""
        guard let url = OutboundURL("\(isSandbox ? sandbox : production)inApps/v1/notifications/history\(query)") else {
            return .bad(.unreadable)
        }
        let body = #"{"startDate":\#(span.lowerBound.milliseconds),"endDate":\#(span.upperBound.milliseconds)}"#
        return .ask(
            OutboundCall(
                .post(Array(body.utf8), contentType: "application/json"), url, bearer: token(for: bundleID, at: now))
        ) { result, tools in
            guard case .success(let answer) = result else { return .unavailable(.appStore, .unreachable) }
            switch answer.status {
            case 200..<300:
                let page = try? tools.json.read(answer.body) { root throws(JSONFault) in try NotificationPage(root) }
                return page.map { .done(.success($0)) } ?? .unavailable(.appStore, .unreachable)
            case 400, 404: return .done(.success(NotificationPage()))
            case 401, 403: return .unavailable(.appStore, .notSetUp)
            default: return .unavailable(.appStore, .unreachable)
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

/// A page of the notifications that Apple has sent.
struct NotificationPage: Sendable {
    private(set) var payloads: [String] = []
    /// The place of the next page; nil for the last one.
    private(set) var next: String?

    fileprivate init() {}

    init(_ root: JSONValue) throws(JSONFault) {
        var hasMore = false
        try root.forEachMember(at: "the answer") { key, value throws(JSONFault) in
            switch key {
            case "notificationHistory":
                try value.forEachElement(at: "notificationHistory") { element throws(JSONFault) in
                    try element.forEachMember(at: "notificationHistory") { key, value throws(JSONFault) in
                        if case "signedPayload" = key { payloads.append(try value.string(at: "signedPayload")) }
                    }
                }
            case "paginationToken": next = try value.optionalText(at: "paginationToken")?.copy()
            case "hasMore": hasMore = try value.bool(at: "hasMore")
            default: break
            }
        }
        if !hasMore { next = nil }
    }
}

/// A page of the history of an account at Apple.
struct HistoryPage {
    private(set) var transactions: [String] = []
    private(set) var revision: String?
    private(set) var hasMore = false

    init(_ root: JSONValue) throws(JSONFault) {
        try root.forEachMember(at: "the answer") { key, value throws(JSONFault) in
            switch key {
            case "signedTransactions":
                try value.forEachElement(at: "signedTransactions") { element throws(JSONFault) in
                    transactions.append(try element.string(at: "signedTransactions"))
                }
            case "revision": revision = try value.optionalText(at: "revision")?.copy()
            case "hasMore": hasMore = try value.bool(at: "hasMore")
            default: break
            }
        }
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
    /// The apps of a project, first the app of the settings.
    func bundleIDs(of project: ProjectID, _ directory: Directory) -> [String] {
        let own = directory.apps.values.filter { $0.project == project }.compactMap(\.bundleID)
        return (bundleID.map { [$0] } ?? []) + Set(own).subtracting(bundleID.map { [$0] } ?? []).sorted()
    }

    /// Asks Apple for the present state of a purchase.
    ///
    /// - Parameters:
    ///   - purchase: the purchase.
    ///   - catalog: the products of the project.
    ///   - project: the project.
    ///   - now: the present moment.
    ///   - directory: the project's apps.
    ///   - withRefunds: whether Apple is also asked about refunds of a subscription's earlier periods. They change no access, and
    ///     cost a second question.
    func question(
        about purchase: Purchase, _ catalog: Catalog, in project: ProjectID, at now: Instant, _ directory: Directory,
        withRefunds: Bool
    ) -> StoreCheck {
        guard let server else { return .unavailable(.appStore, .notSetUp) }
        let bundleIDs = bundleIDs(of: project, directory)
        let original = purchase.originalTransaction
        guard purchase.isSubscription(catalog.product(purchase.product)) else {
            return server.askHistory(of: original, of: bundleIDs[...], at: now) { texts, tools in
                do throws(StoreProblem) {
                    var told: [Receipt] = []
                    for text in texts {
                        told += try state(text, nil, in: project, at: now, tools).filter { $0.purchase == purchase.id }
                    }
                    return told.isEmpty ? .bad(.unknown) : .done(.success(told))
                } catch {
                    return .done(.failure(error))
                }
            }
        }
        return server.ask(about: original, of: bundleIDs[...], at: now) {
            $0.original.hasSameBytes(as: original)
        } next: { last, tools in
            guard let text = last.transaction else { return .bad(.unreadable) }
            do throws(StoreProblem) {
                let told = try state(text, last.renewal, in: project, at: now, tools)
                return withRefunds
                    ? refunds(of: purchase, after: told, server, bundleIDs, in: project, at: now)
                    : .done(.success(told))
            } catch {
                return .done(.failure(error))
            }
        } otherwise: {
            .bad(.unknown)
        }
    }

    /// Adds the refunds of a purchase to what Apple has said about its last period. Without them, that still counts.
    private func refunds(
        of purchase: Purchase, after told: [Receipt], _ server: AppStoreServer, _ bundleIDs: [String],
        in project: ProjectID, at now: Instant
    ) -> StoreCheck {
        server.askRefunds(of: purchase.originalTransaction, of: bundleIDs[...], at: now) { texts, tools in
            let refunded = texts.flatMap { text in (try? state(text, nil, in: project, at: now, tools)) ?? [] }
            return .done(.success(told + refunded.filter { $0.purchase == purchase.id }))
        }.or(told)
    }
}

extension StoreCheck {
    /// The same check, which has other statements if the store does not answer.
    fileprivate func or(_ receipts: [Receipt]) -> StoreCheck {
        switch self {
        case .done(.success): self
        case .done(.failure): .done(.success(receipts))
        case .ask(let call, let then): .ask(call) { result, tools in then(result, tools).or(receipts) }
        }
    }
}
