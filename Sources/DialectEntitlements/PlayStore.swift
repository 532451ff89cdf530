import ByteText
import CivilTime
import Crypto
import Domain
import Gateway
import HTTPMessage
import JSON
import Outbound
import Threads

/// Google Play: the server asks it about the token of a purchase (spec/entitlements-live.md 5).
package struct PlayStore: StoreValidator {
    /// The account with which the server asks Google, from its file.
    package struct ServiceAccount: Sendable {
        let email: String
        let key: PrivateKey
        let keyID: String
        let tokenURL: OutboundURL

        /// Whether tokens come from Google itself.
        var isAtGoogle: Bool { tokenURL.description.hasPrefix("https://oauth2.googleapis.com/") }

        /// Reads the file of a service account; nil for another text.
        package init?(json bytes: [UInt8]) {
            var texts: [String: String] = [:]
            let isRead: Void? = try? JSONParser().read(bytes) { root throws(JSONFault) in
                try root.forEachMember(at: "the service account") { key, value throws(JSONFault) in
                    if value.kind == .string { texts[key.copy()] = try value.string(at: "a member") }
                }
            }
            guard isRead != nil, let email = texts["client_email"], let pem = texts["private_key"],
                let key = PrivateKey(pem: Array(pem.utf8)), "\(key.algorithm)" == "RS256",
                let tokenURL = OutboundURL(texts["token_uri"] ?? "https://oauth2.googleapis.com/token")
            else { return nil }
            self.email = email
            self.key = key
            keyID = texts["private_key_id"] ?? ""
            self.tokenURL = tokenURL
        }
    }

    package static let standardURL = "https://androidpublisher.googleapis.com/"
    private static let scope = "https://www.googleapis.com/auth/androidpublisher"

    private let base: String
    private let package: String
    private let account: ServiceAccount
    /// The secret in the address of notifications; nil if the server takes none.
    private let pushSecret: String?
    /// The check of pushes whose address has no secret; nil if the server takes none.
    let pushTokens: GooglePushTokens?
    /// Whether the server tells Google that the app's users have their purchases. Google refunds others after three days.
    private let acknowledges: Bool
    private let graceMilliseconds: Int64
    private let kept = Monitor<Access?>(nil)

    /// A token with which the server may ask, until a moment.
    private struct Access: Sendable {
        let token: String
        let madeAt: Instant
        let renewsAt: Instant

        /// A clock that was set back makes the token old.
        func isFresh(at now: Instant) -> Bool { now >= madeAt && now < renewsAt }
    }

    /// - Parameters:
    ///   - url: Google's address; tests use another address.
    ///   - package: the name of the app at Google.
    ///   - account: the account with which the server asks.
    ///   - pushSecret: the secret in the address of notifications; nil to take none.
    ///   - pushTokens: the check of pushes whose address has no secret; nil to take none.
    ///   - acknowledges: whether the server tells Google that the app's users have their purchases.
    ///   - graceMilliseconds: the time of access after the end of a period while Google does not answer.
    init(
        _ url: OutboundURL, package: String, account: ServiceAccount, pushSecret: String?,
        pushTokens: GooglePushTokens?, acknowledges: Bool, graceMilliseconds: Int64
    ) {
        self.graceMilliseconds = graceMilliseconds
        self.pushTokens = pushTokens
        self.pushSecret = pushSecret
        self.acknowledges = acknowledges
        base = url.folder
        self.package = package
        self.account = account
    }

    func check(_ claim: StoreClaim, _ place: StorePlace, _ tools: LoopTools) -> StoreCheck {
        guard let token = claim.receipt, let name = PlayStore.segment(token) else { return .bad(.unreadable) }
        return read(name, at: place.now) { bought, moment, tools in
            guard bought.isTest == (place.world == .sandbox) else { return .bad(.foreign) }
            let receipts = receipts(of: bought, token, place.at(moment), tools)
            return receipts.isEmpty ? .bad(.foreign) : .done(.success(receipts))
        }
    }

    /// Asks what a token stands for: a subscription, or a product that is bought once.
    private func read(
        _ token: String, at now: Instant,
        _ next: @escaping @Sendable (any PlayBought, _ saidAt: Instant, LoopTools) -> StoreCheck
    ) -> StoreCheck {
        withAccess(at: now) { access in
            ask("subscriptionsv2/tokens/\(token)", PlaySubscription.self, access, at: now, next) {
                // Google knows no subscription with this token.
                ask("productsv2/tokens/\(token)", PlayProduct.self, access, at: now, next) { .bad(.unknown) }
            }
        }
    }

    private func receipts(
        of bought: any PlayBought, _ token: String, _ place: StorePlace, _ tools: LoopTools
    ) -> [Receipt] {
        var receipts = bought.receipts(token, place, tools.hash)
        guard !receipts.isEmpty else { return [] }
        receipts[0].canBeAsked = true
        receipts[0].graceMilliseconds = graceMilliseconds
        receipts[0].isUnacknowledged = acknowledges && bought.isUnacknowledged
        return receipts
    }

    /// Asks for the present state of a purchase, and acknowledges it if users have it.
    func question(about purchase: Purchase, in project: ProjectID, at now: Instant) -> StoreCheck {
        let token = purchase.originalTransaction
        guard let name = PlayStore.segment(token) else { return .bad(.unreadable) }
        return read(name, at: now) { bought, moment, tools in
            let place = StorePlace(newsFor: project, in: bought.isTest ? .sandbox : .production, at: moment)
            var receipts = receipts(of: bought, token, place, tools)
            guard let first = receipts.first, first.isUnacknowledged, !purchase.isUnclaimed else {
                return .done(.success(receipts))
            }
            // What Google has said counts also if the acknowledgement fails. Then the server tries again later.
            let unacknowledged = receipts
            receipts[0].isUnacknowledged = false
            guard let product = PlayStore.segment(first.product) else { return .done(.success(receipts)) }
            let acknowledged = receipts
            return withAccess(at: now) { access in
                let path = "\(bought.kind)/\(product)/tokens/\(name):acknowledge"
                guard let url = address(path) else { return .bad(.unreadable) }
                return .ask(
                    OutboundCall(.post(Array("{}".utf8), contentType: "application/json"), url, bearer: access)
                ) { result, _ in
                    guard case .success(let answer) = result, (200..<300).contains(answer.status) else {
                        return .done(.success(unacknowledged))
                    }
                    return .done(.success(acknowledged))
                }
            }
        }
    }

    /// A token as a part of an address; nil for a text that is no token.
    private static func segment(_ token: String) -> String? {
        guard (1...1024).contains(token.utf8.count),
            token.utf8.allSatisfy({ byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."):
                    true
                default: false
                }
            }), token != ".", token != ".."
        else { return nil }
        return token
    }

    // MARK: - Notifications

    /// Whether a text is the secret of the address.
    func isAddressed(by text: String) -> Bool {
        guard let pushSecret else { return false }
        return equalsInConstantTime(text.utf8.span, pushSecret.utf8.span)
    }

    /// The notice that a notification leaves; nil for one about another app, or about no purchase.
    func notice(
        of notification: PlayNotification, for project: ProjectID, at now: Instant, _ hash: KeyedHash
    ) -> StoreNotice? {
        guard notification.package?.hasSameBytes(as: package) == true, let token = notification.token,
            PlayStore.segment(token) != nil
        else { return nil }
        let subject = notification.voidedOrder.map { StoreNotice.Subject.refund(token, order: $0) } ?? .purchase(token)
        return StoreNotice(.playStore, subject, in: nil, of: project, at: now, hash: hash)
    }

    /// Asks for the purchase of a notice.
    func question(because notice: StoreNotice, in project: ProjectID, at now: Instant) -> NoticeQuestion {
        let (token, refunded): (String, String?)
        switch notice.subject {
        case .purchase(let name): (token, refunded) = (name, nil)
        case .refund(let name, let order): (token, refunded) = (name, order)
        case .customer, .checkout, .payment: return .done(.success(StoreNews()))
        }
        guard let name = PlayStore.segment(token) else { return .bad(.unreadable) }
        return read(name, at: now) { bought, moment, tools in
            let place = StorePlace(newsFor: project, in: bought.isTest ? .sandbox : .production, at: moment)
            var receipts = receipts(of: bought, token, place, tools)
            if let refunded { for index in receipts.indices { receipts[index].refund(refunded, at: moment) } }
            return .done(.success(receipts))
        }.map { StoreNews(receipts: $0) }
    }

    // MARK: - Asking

    private func ask<Bought: PlayBought>(
        _ path: String, _ type: Bought.Type, _ access: String, at now: Instant,
        _ next: @escaping @Sendable (any PlayBought, _ saidAt: Instant, LoopTools) -> StoreCheck,
        otherwise: @escaping @Sendable () -> StoreCheck
    ) -> StoreCheck {
        guard let url = address(path) else { return .bad(.unreadable) }
        return .ask(OutboundCall(.get, url, bearer: access, sharing: .follows("\(account.email) \(url)"))) {
            result, tools in
            guard case .success(let answer) = result else { return .unavailable(.playStore, .unreachable) }
            switch answer.status {
            case 200..<300:
                let bought = try? tools.json.read(answer.body) { root throws(JSONFault) in try Bought(root) }
                return bought.map { next($0, answer.moment(now), tools) } ?? .unavailable(.playStore, .unreachable)
            case 400, 404: return otherwise()
            // A wrong key of this server is no mistake of the buyer.
            case 401, 403:
                // The token may have lost its validity early.
                kept.withLock { $0 = nil }
                return .unavailable(.playStore, .notSetUp)
            // Google forgets a purchase 60 days after its end.
            case 410: return .bad(.expired)
            default: return .unavailable(.playStore, .unreachable)
            }
        }
    }

    // MARK: - Refunds

    /// The app and the account of a search for refunds. A search under other settings begins anew.
    var refundPlace: String { "\(package) \(account.email)" }

    /// The limit of refunds in one answer, which keeps the answer below the limit of bytes of all answers.
    private static let refundsPerPage = 100

    /// Asks for a page of the refunds. Google tells some refunds only in this list.
    ///
    /// - Parameters:
    ///   - since: the moment of the earliest refund; nil for all refunds that Google still lists. Google refuses a moment
    ///     that is too old.
    ///   - page: the place of the page; nil for the first one.
    ///   - now: the present moment.
    func refunds(since: Instant?, page: String?, at now: Instant) -> StoreQuestion<PlayRefunds> {
        withAccess(at: now) { access in
            let start = since.map { "&startTime=\($0.milliseconds)" } ?? ""
            let next = page.map { "&token=\(PercentCoding.encode($0))" } ?? ""
            let query = "type=1&maxResults=\(PlayStore.refundsPerPage)\(start)\(next)"
            guard let url = address("voidedpurchases?\(query)") else { return .bad(.unreadable) }
            return .ask(OutboundCall(.get, url, bearer: access)) { result, tools in
                guard case .success(let answer) = result else { return .unavailable(.playStore, .unreachable) }
                switch answer.status {
                case 200..<300: break
                case 401:
                    kept.withLock { $0 = nil }
                    return .unavailable(.playStore, .notSetUp)
                // The account may lack the permission for the list alone. Its token stays good for questions.
                case 403: return .unavailable(.playStore, .notSetUp)
                default: return .unavailable(.playStore, .unreachable)
                }
                let read = try? tools.json.read(answer.body) { root throws(JSONFault) in try PlayRefunds(root) }
                return read.map { .done(.success($0)) } ?? .unavailable(.playStore, .unreachable)
            }
        }
    }

    private func address(_ path: String) -> OutboundURL? {
        OutboundURL("\(base)androidpublisher/v3/applications/\(package)/purchases/\(path)")
    }

    /// Continues with a token for questions. A token that is kept is renewed when four fifths of its time are over.
    private func withAccess<Value>(
        at now: Instant, _ next: @escaping @Sendable (String) -> StoreQuestion<Value>
    ) -> StoreQuestion<Value> {
        if let known = kept.withLock({ $0 }), known.isFresh(at: now) { return next(known.token) }
        let form = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=\(assertion(at: now))"
        return .ask(
            OutboundCall(
                .post(Array(form.utf8), contentType: "application/x-www-form-urlencoded"), account.tokenURL,
                sharing: .joins("token \(account.email) \(account.tokenURL)"))
        ) { result, tools in
            guard case .success(let answer) = result else { return .unavailable(.playStore, .unreachable) }
            guard answer.status == 200 else {
                return answer.status < 500
                    ? .unavailable(.playStore, .notSetUp) : .unavailable(.playStore, .unreachable)
            }
            var (token, seconds): (String?, Int64) = (nil, 0)
            try? tools.json.read(answer.body) { root throws(JSONFault) in
                try root.forEachMember(at: "the answer") { key, value throws(JSONFault) in
                    switch key {
                    case "access_token": token = try value.string(at: "access_token")
                    case "expires_in": seconds = try value.integer(at: "expires_in")
                    default: break
                    }
                }
            }
            guard let token, token.utf8.allSatisfy({ (0x21..<0x7F).contains($0) }) else {
                return .unavailable(.playStore, .unreachable)
            }
            // Four fifths of the token's time.
            let renewsAt = now.advanced(byMilliseconds: min(max(seconds, 0), 86_400) * 800)
            kept.withLock { $0 = Access(token: token, madeAt: now, renewsAt: renewsAt) }
            return next(token)
        }
    }

    /// The signed request for a token.
    private func assertion(at now: Instant) -> String {
        account.key.token(keyID: account.keyID) { json in
            json.key("iss")
            json.string(account.email)
            json.key("scope")
            json.string(PlayStore.scope)
            json.key("aud")
            json.string(account.tokenURL.description)
            json.key("iat")
            json.integer(now.seconds)
            json.key("exp")
            json.integer(now.seconds + 3600)
        }
    }
}
