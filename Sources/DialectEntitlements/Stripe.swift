import ByteText
import Crypto
import Domain
import Gateway
import HTTPMessage
import JSON
package import Outbound

/// Stripe: the server asks it about a subscription by the subscription's id (spec/entitlements.md, decision 11).
package struct Stripe: StoreValidator {
    private let base: String
    private let key: String
    /// The secrets with which Stripe signs events, each as a prepared hash.
    private let webhookSecrets: [HMAC]
    private let graceDays: Int64
    /// The time for which a subscription that would renew gives access after its end while Stripe does not answer.
    private let graceMilliseconds: Int64
    private let proof: ProofRule?

    /// Whether a client needs a proof for a subscription that nobody has.
    package enum ProofRule: String, Sendable {
        case required
        /// The first client that names a subscription has it.
        case id
    }

    package static let standardURL = "https://api.stripe.com/"
    package static let standardGraceDays: Int64 = 3

    /// - Parameters:
    ///   - url: Stripe's address; tests use another address.
    ///   - key: the secret key of the customer's account.
    ///   - webhookSecrets: the secrets with which Stripe signs events; none if the server takes no events.
    ///   - graceDays: the days of access after the end of a period whose payment has failed.
    ///   - proof: the rule for clients; nil for the rule of the world.
    ///   - graceMilliseconds: the time of access after the end of a period while Stripe does not answer.
    package init(
        _ url: OutboundURL, key: String, webhookSecrets: [String] = [], graceDays: Int64 = Stripe.standardGraceDays,
        proof: ProofRule? = nil, graceMilliseconds: Int64 = 0
    ) {
        self.graceMilliseconds = graceMilliseconds
        base = url.folder
        self.key = key
        self.webhookSecrets = webhookSecrets.map { HMAC(key: Array($0.utf8)) }
        self.graceDays = graceDays
        self.proof = proof
    }

    func check(_ claim: StoreClaim, _ place: StorePlace, _ tools: LoopTools) -> StoreCheck {
        if let checkout = claim.checkout { return check(claim, checkout: checkout, place) }
        return claim.subscription.map { check(claim, $0, buyer: nil, place) } ?? .bad(.forged)
    }

    /// Checks a claim by the checkout: it names the subscription, and the user for whom the app's server has made it.
    private func check(_ claim: StoreClaim, checkout: String, _ place: StorePlace) -> StoreCheck {
        guard let call = asking(for: checkout, at: "checkout/sessions") else { return .bad(.forged) }
        return .ask(call) { result, tools in
            guard case .success(let answer) = result else { return .done(.failure(Stripe.outage)) }
            switch answer.status {
            case 200..<300: break
            case 404, 400: return .bad(.forged)
            case 401, 403: return .done(.failure(Stripe.wrongKey))
            default: return .done(.failure(Stripe.outage))
            }
            let session = try? tools.json.read(answer.body) { root throws(JSONFault) in try StripeCheckout(root) }
            guard let session else { return .done(.failure(Stripe.outage)) }
            guard let subscription = session.subscription,
                claim.subscription.map({ $0.hasSameBytes(as: subscription) }) ?? true
            else { return .bad(.foreign) }
            return check(claim, subscription, buyer: session.buyer, place)
        }
    }

    /// - Parameter buyer: the user for whom the app's server has made the checkout.
    private func check(_ claim: StoreClaim, _ id: String, buyer: String?, _ place: StorePlace) -> StoreCheck {
        guard let call = asking(for: id) else { return .bad(.forged) }
        return .ask(call) { result, tools in
            .done(
                read(result, id, tools).flatMap { subscription in
                    guard subscription.isLive == (place.world == .production),
                        claim.product.map({ product in subscription.items.contains { $0.isOf(product) } }) ?? true
                    else { return .failure(.bad(.foreign)) }
                    let receipts = subscription.receipts(
                        in: place.project, at: place.now, isProof: place.isServer, buyer: buyer,
                        takesFirst: takesFirst(in: place.world), graceDays: graceDays,
                        graceMilliseconds: graceMilliseconds, hash: tools.hash
                    ) { names in claim.product.flatMap { product in names.first { $0 == product } } ?? names.first }
                    // The claimed product is the reported one.
                    let reported = receipts.firstIndex { $0.product == claim.product } ?? 0
                    return .success([receipts[reported]] + receipts[..<reported] + receipts[(reported + 1)...])
                })
        }
    }

    /// Whether the first client that names a subscription has it.
    private func takesFirst(in world: AccessWorld) -> Bool { proof.map { $0 == .id } ?? (world == .sandbox) }

    /// The question for a subscription; nil for a text that cannot be an id at Stripe, so that it becomes no part of an address.
    private func asking(for id: String, at folder: String = "subscriptions") -> OutboundCall? {
        guard (1...255).contains(id.utf8.count), id.utf8.allSatisfy({ Stripe.isWord($0) }),
            let url = OutboundURL("\(base)v1/\(folder)/\(id)")
        else { return nil }
        return OutboundCall(.get, url, bearer: key)
    }

    /// The buyer has made no mistake if the key is wrong, so the call may come again.
    private static let wrongKey = StoreProblem.unavailable(StoreOutage(source: .stripe, reason: .notSetUp))
    private static let outage = StoreProblem.unavailable(StoreOutage(source: .stripe, reason: .unreachable))

    /// Reads Stripe's answer about a subscription.
    private func read(
        _ result: OutboundClient.Result, _ id: String, _ tools: LoopTools
    ) -> Result<StripeSubscription, StoreProblem> {
        guard case .success(let answer) = result else { return .failure(Stripe.outage) }
        switch answer.status {
        case 200..<300: break
        case 404, 400: return .failure(.bad(.forged))
        case 401, 403: return .failure(Stripe.wrongKey)
        default: return .failure(Stripe.outage)
        }
        let subscription = try? tools.json.read(answer.body) { root throws(JSONFault) in try StripeSubscription(root) }
        guard let subscription else { return .failure(Stripe.outage) }
        guard subscription.id == id, !subscription.items.isEmpty else { return .failure(.bad(.foreign)) }
        return .success(subscription)
    }

    // MARK: - Events

    /// The greatest age of an event's signature.
    private static let secondsAtMost: Int64 = 300

    /// Whether one of the secrets has signed a body, at about this time.
    func hasSigned(_ body: [UInt8], _ field: String, at now: Instant) -> Bool {
        var moment: Int64?
        var signatures: [[UInt8]] = []
        for part in field.utf8.split(separator: UInt8(ascii: ",")) {
            let pair = part.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            guard pair.count == 2 else { continue }
            let value = String(decoding: pair[1], as: UTF8.self)
            switch String(decoding: pair[0], as: UTF8.self) {
            case "t": moment = Int64(value)
            case "v1": if signatures.count < 8 { signatures.append(Array(value.utf8)) }
            default: break
            }
        }
        guard let moment, (-Stripe.secondsAtMost...Stripe.secondsAtMost).contains(now.seconds &- moment) else {
            return false
        }
        let signed = Array("\(moment).".utf8) + body
        return webhookSecrets.contains { secret in
            let wanted = Array(Hexadecimal.encode(secret.authenticate(signed).bytes).utf8)
            return signatures.contains { equalsInConstantTime($0.span, wanted.span) }
        }
    }

    /// Asks for the subscription of an event, and continues with its statements.
    func news(
        of event: StripeEvent, for project: ProjectID, at now: Instant,
        _ next: @escaping @Sendable (Result<[Receipt], StoreProblem>) -> Step
    ) -> Step {
        guard let id = event.subscription, let call = asking(for: id) else { return next(.success([])) }
        return .ask(call) { result, tools in
            switch read(result, id, tools) {
            case .failure(.bad): return next(.success([]))
            case .failure(let problem): return next(.failure(problem))
            case .success(let subscription):
                guard subscription.isLive == event.isLive else { return next(.success([])) }
                // A product has two names at Stripe. The project's catalog has one of them.
                return .read { snapshot throws(StoreFault) in
                    let catalog = try snapshot.catalog(of: project)
                    return next(.success(statements(subscription, catalog, in: project, at: now, snapshot.hash)))
                }
            }
        }
    }

    /// The statements about a subscription, under the names that the catalog has.
    private func statements(
        _ subscription: StripeSubscription, _ catalog: Catalog, in project: ProjectID, at now: Instant,
        _ hash: KeyedHash
    ) -> [Receipt] {
        subscription.receipts(
            in: project, at: now, isProof: true, graceDays: graceDays, graceMilliseconds: graceMilliseconds, hash: hash
        ) { names in
            names.first { catalog.product($0) != nil } ?? names.first
        }
    }

    /// Asks for the present state of a purchase.
    func question(about purchase: Purchase, _ catalog: Catalog, in project: ProjectID, at now: Instant) -> StoreCheck {
        let id = purchase.originalTransaction
        guard let call = asking(for: id) else { return .bad(.unreadable) }
        return .ask(call) { result, tools in
            .done(
                read(result, id, tools).map { subscription in
                    statements(subscription, catalog, in: project, at: now, tools.hash)
                })
        }
    }

    private static func isWord(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"):
            true
        default: false
        }
    }
}
