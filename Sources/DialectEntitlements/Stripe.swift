import ByteText
import Crypto
import Domain
import Gateway
import HTTPMessage
import JSON
package import Outbound
import Threads

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
    /// Whether a refund in full and a dispute end the access of the present period. Otherwise the state at Stripe decides.
    private let refundEnds: Bool
    private let recent = Monitor(RecentAnswers())

    /// The last answers. A client's call causes at most one question in a minute about a subscription.
    private struct RecentAnswers {
        private var all: [String: (subscription: StripeSubscription, readAt: Instant)] = [:]

        private static let keptMilliseconds: Int64 = 60_000
        private static let atMost = 10_000

        /// A clock that was set back makes an answer old.
        func answer(about id: String, at now: Instant) -> StripeSubscription? {
            all[id].flatMap {
                (0..<RecentAnswers.keptMilliseconds).contains(now.milliseconds - $0.readAt.milliseconds)
                    ? $0.subscription : nil
            }
        }

        mutating func note(_ subscription: StripeSubscription, _ id: String, at now: Instant) {
            if all.count >= RecentAnswers.atMost { all = [:] }
            all[id] = (subscription, now)
        }
    }

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
    ///   - refundEnds: whether a refund in full and a dispute end the access.
    ///   - graceMilliseconds: the time of access after the end of a period while Stripe does not answer.
    package init(
        _ url: OutboundURL, key: String, webhookSecrets: [String] = [], graceDays: Int64 = Stripe.standardGraceDays,
        proof: ProofRule? = nil, refundEnds: Bool = false, graceMilliseconds: Int64 = 0
    ) {
        self.refundEnds = refundEnds
        self.graceMilliseconds = graceMilliseconds
        base = url.folder
        self.key = key
        self.webhookSecrets = webhookSecrets.map { HMAC(key: Array($0.utf8)) }
        self.graceDays = graceDays
        self.proof = proof
    }

    func check(_ claim: StoreClaim, _ place: StorePlace, _ tools: LoopTools) -> StoreCheck {
        if let checkout = claim.checkout { return check(claim, checkout: checkout, place) }
        return claim.subscription.map { check(claim, $0, buyer: nil, place, tools) } ?? .bad(.forged)
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
            return check(claim, subscription, buyer: session.buyer, place, tools)
        }
    }

    /// - Parameter buyer: the user for whom the app's server has made the checkout.
    private func check(
        _ claim: StoreClaim, _ id: String, buyer: String?, _ place: StorePlace, _ tools: LoopTools
    ) -> StoreCheck {
        guard let call = asking(for: id) else { return .bad(.forged) }
        if let recent = recent.withLock({ $0.answer(about: id, at: place.now) }) {
            return .done(receipts(recent, claim, buyer: buyer, place, tools.hash))
        }
        return .ask(call) { result, tools in
            .done(
                read(result, id, at: place.now, tools).flatMap { subscription in
                    receipts(subscription, claim, buyer: buyer, place, tools.hash)
                })
        }
    }

    /// The purchases of a subscription that a client claims.
    private func receipts(
        _ subscription: StripeSubscription, _ claim: StoreClaim, buyer: String?, _ place: StorePlace,
        _ hash: KeyedHash
    ) -> Result<[Receipt], StoreProblem> {
        guard subscription.isLive == (place.world == .production),
            claim.product.map({ product in subscription.items.contains { $0.isOf(product) } }) ?? true
        else { return .failure(.bad(.foreign)) }
        let receipts = subscription.receipts(
            in: place.project, isProof: place.isServer, buyer: buyer,
            takesFirst: takesFirst(in: place.world), refund: refundEnds ? .untold : .none, graceDays: graceDays,
            graceMilliseconds: graceMilliseconds, hash: hash
        ) { names in claim.product.flatMap { product in names.first { $0 == product } } ?? names.first }
        // The claimed product is the reported one.
        let reported = receipts.firstIndex { $0.product == claim.product } ?? 0
        return .success([receipts[reported]] + receipts[..<reported] + receipts[(reported + 1)...])
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
        _ result: OutboundClient.Result, _ id: String, at now: Instant, _ tools: LoopTools
    ) -> Result<StripeSubscription, StoreProblem> {
        guard case .success(let answer) = result else { return .failure(Stripe.outage) }
        switch answer.status {
        case 200..<300: break
        case 404, 400: return .failure(.bad(.forged))
        case 401, 403: return .failure(Stripe.wrongKey)
        default: return .failure(Stripe.outage)
        }
        let subscription = try? tools.json.read(answer.body) { root throws(JSONFault) in try StripeSubscription(root) }
        guard var subscription else { return .failure(Stripe.outage) }
        subscription.saidAt = answer.moment(now)
        guard subscription.id == id, !subscription.items.isEmpty else { return .failure(.bad(.foreign)) }
        recent.withLock { $0.note(subscription, id, at: now) }
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

    /// Asks for the subscriptions of an event, and continues with their statements.
    func news(
        of event: StripeEvent, for project: ProjectID, at now: Instant,
        _ next: @escaping @Sendable (Result<[Receipt], StoreProblem>) -> Step
    ) -> Step {
        let place = StorePlace(newsFor: project, in: event.isLive ? .production : .sandbox, at: now)
        let refund = refundEnds ? StripeRefund.untold : StripeRefund.none
        switch event.subject {
        case nil: return next(.success([]))
        case .subscription(let id): return ask(about: [id], refund: refund, place, next)
        case .customer(let id):
            return .read { snapshot throws(StoreFault) in
                let account = StoreAccount.name(.stripe, id, in: place.world, of: project, hash: snapshot.hash)
                let known = try snapshot.purchases(ofAccount: account).map(\.originalTransaction)
                // The further items of a subscription come with it.
                let ids = known.filter { !$0.contains(":") }.suffix(Stripe.subscriptionsOfCustomer)
                return ask(about: Array(ids), refund: refund, place, next)
            }
        case .payment(let payment):
            // Without the option a refund is the shop's own matter: the state of the subscription decides.
            return refundEnds ? ask(about: payment, place, next) : next(.success([]))
        }
    }

    /// The limit of questions because of one event. The server asks about all others at the end of their periods.
    private static let subscriptionsOfCustomer = 20

    /// Asks about one subscription after the other.
    private func ask(
        about ids: [String], _ known: [Receipt] = [], refund: StripeRefund, _ place: StorePlace,
        _ next: @escaping @Sendable (Result<[Receipt], StoreProblem>) -> Step
    ) -> Step {
        guard let id = ids.first else { return next(.success(known)) }
        let rest = Array(ids.dropFirst())
        guard let call = asking(for: id) else { return ask(about: rest, known, refund: refund, place, next) }
        return .ask(call) { result, tools in
            switch read(result, id, at: place.now, tools) {
            case .failure(.bad): return ask(about: rest, known, refund: refund, place, next)
            case .failure(let problem): return next(.failure(problem))
            case .success(let subscription):
                guard subscription.isLive == (place.world == .production) else {
                    return ask(about: rest, known, refund: refund, place, next)
                }
                // A product has two names at Stripe. The project's catalog has one of them.
                return .read { snapshot throws(StoreFault) in
                    let catalog = try snapshot.catalog(of: place.project)
                    let told = statements(subscription, catalog, refund: refund, place, snapshot.hash)
                    return ask(about: rest, known + told, refund: refund, place, next)
                }
            }
        }
    }

    // MARK: - Payments

    /// Asks for the subscription of a payment. Its access ends if the payment was for the present period.
    private func ask(
        about payment: StripePayment, _ place: StorePlace,
        _ next: @escaping @Sendable (Result<[Receipt], StoreProblem>) -> Step
    ) -> Step {
        ask(for: payment.charge, at: "charges", next) { charge in
            if let invoice = charge.invoice { return ask(aboutInvoice: invoice, payment, place, next) }
            // Later versions of the API name the invoice beside the payment only.
            guard let intent = charge.paymentIntent, intent.utf8.allSatisfy({ Stripe.isWord($0) }),
                let url = OutboundURL(
                    "\(base)v1/invoice_payments?payment%5Btype%5D=payment_intent&payment%5Bpayment_intent%5D=\(intent)")
            else { return next(.success([])) }
            return ask(OutboundCall(.get, url, bearer: key), next) { list in
                list.firstInvoice.map { ask(aboutInvoice: $0, payment, place, next) } ?? next(.success([]))
            }
        }
    }

    private func ask(
        aboutInvoice id: String, _ payment: StripePayment, _ place: StorePlace,
        _ next: @escaping @Sendable (Result<[Receipt], StoreProblem>) -> Step
    ) -> Step {
        ask(for: id, at: "invoices", next) { invoice in
            guard let subscription = invoice.subscriptionID, let call = asking(for: subscription) else {
                return next(.success([]))
            }
            return .ask(call) { result, tools in
                switch read(result, subscription, at: place.now, tools) {
                case .failure(.bad): return next(.success([]))
                case .failure(let problem): return next(.failure(problem))
                case .success(let known):
                    guard known.isLive == (place.world == .production) else { return next(.success([])) }
                    let isPresent = known.latestInvoice?.hasSameBytes(as: id) ?? false
                    let refund: StripeRefund = isPresent ? (payment.isTaken ? .made : .none) : .untold
                    return .read { snapshot throws(StoreFault) in
                        let catalog = try snapshot.catalog(of: place.project)
                        return next(.success(statements(known, catalog, refund: refund, place, snapshot.hash)))
                    }
                }
            }
        }
    }

    /// Asks for an object, and ends the news if Stripe does not have it.
    private func ask(
        for id: String, at folder: String, _ end: @escaping @Sendable (Result<[Receipt], StoreProblem>) -> Step,
        _ next: @escaping @Sendable (StripeObject) -> Step
    ) -> Step {
        asking(for: id, at: folder).map { ask($0, end, next) } ?? end(.success([]))
    }

    private func ask(
        _ call: OutboundCall, _ end: @escaping @Sendable (Result<[Receipt], StoreProblem>) -> Step,
        _ next: @escaping @Sendable (StripeObject) -> Step
    ) -> Step {
        .ask(call) { result, tools in
            guard case .success(let answer) = result else { return end(.failure(Stripe.outage)) }
            switch answer.status {
            case 200..<300:
                let object = try? tools.json.read(answer.body) { root throws(JSONFault) in try StripeObject(root) }
                return object.map(next) ?? end(.failure(Stripe.outage))
            case 400, 404: return end(.success([]))
            case 401, 403: return end(.failure(Stripe.wrongKey))
            default: return end(.failure(Stripe.outage))
            }
        }
    }

    /// The statements about a subscription, under the names that the catalog has.
    private func statements(
        _ subscription: StripeSubscription, _ catalog: Catalog, refund: StripeRefund, _ place: StorePlace,
        _ hash: KeyedHash
    ) -> [Receipt] {
        subscription.receipts(
            in: place.project, isProof: true, refund: refund, graceDays: graceDays,
            graceMilliseconds: graceMilliseconds, hash: hash
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
                read(result, id, at: now, tools).map { subscription in
                    let place = StorePlace(
                        newsFor: project, in: subscription.isLive ? .production : .sandbox, at: now)
                    return statements(
                        subscription, catalog, refund: refundEnds ? .untold : .none, place, tools.hash)
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
