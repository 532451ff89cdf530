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
            graceMilliseconds: graceMilliseconds, hash: hash)
        guard !receipts.isEmpty else { return .failure(.bad(.foreign)) }
        // The claimed product is the reported one.
        let reported =
            claim.product.flatMap { product in
                receipts.firstIndex { $0.names.contains { $0.hasSameBytes(as: product) } }
            } ?? 0
        return .success([receipts[reported]] + receipts[..<reported] + receipts[(reported + 1)...])
    }

    /// Whether the first client that names a subscription has it.
    private func takesFirst(in world: AccessWorld) -> Bool { proof.map { $0 == .id } ?? (world == .sandbox) }

    /// The question for a subscription; nil for a text that cannot be an id at Stripe, so that it becomes no part of an address.
    private func asking(for id: String, at folder: String = "subscriptions") -> OutboundCall? {
        guard Stripe.isID(id), let url = OutboundURL("\(base)v1/\(folder)/\(id)")
        else { return nil }
        // Each caller gets an answer to a question that began after its own.
        return OutboundCall(.get, url, bearer: key, sharing: .follows("\(key) \(url)"))
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

    /// The notice that an event leaves; nil for one about nothing that the server keeps.
    func notice(of event: StripeEvent, for project: ProjectID, at now: Instant, _ hash: KeyedHash) -> StoreNotice? {
        guard let subject = event.subject else { return nil }
        let (id, kept): (String, StoreNotice.Subject) =
            switch subject {
            case .subscription(let id): (id, .purchase(id))
            case .customer(let id): (id, .customer(id))
            case .checkout(let id): (id, .checkout(id))
            case .payment(let payment): (payment.charge, .payment(payment.charge, isTaken: payment.isTaken))
            }
        // Without the option a refund is the shop's own matter: the state of the subscription decides.
        if case .payment = subject, !refundEnds { return nil }
        guard Stripe.isID(id) else { return nil }
        return StoreNotice(
            .stripe, kept, in: event.isLive ? .production : .sandbox, of: project, at: now, hash: hash)
    }

    /// Asks for the subscriptions of a notice.
    func question(
        because notice: StoreNotice, _ known: [String], _ catalog: Catalog, in project: ProjectID, at now: Instant
    ) -> NoticeQuestion {
        let place = StorePlace(newsFor: project, in: notice.world ?? .production, at: now)
        let refund = refundEnds ? StripeRefund.untold : StripeRefund.none
        @Sendable func news(about ids: [String], buyer: String? = nil) -> NoticeQuestion {
            ask(about: ids[...], [], catalog, refund: refund, place).map { StoreNews(receipts: $0, buyer: buyer) }
        }
        switch notice.subject {
        case .purchase(let id): return news(about: [id])
        case .customer: return news(about: Array(known.suffix(Stripe.subscriptionsOfCustomer)))
        case .checkout(let id):
            return ask(for: id, at: "checkout/sessions").flatMap { session in
                session?.subscriptionID.map { news(about: [$0], buyer: session?.buyer) }
                    ?? .done(.success(StoreNews()))
            }
        case .payment(let charge, let isTaken):
            return ask(about: StripePayment(charge: charge, isTaken: isTaken), catalog, place).map {
                StoreNews(receipts: $0)
            }
        case .refund: return .done(.success(StoreNews()))
        }
    }

    /// The limit of questions because of one event. The server asks about all others at the end of their periods.
    private static let subscriptionsOfCustomer = 20

    /// Asks about one subscription after the other.
    private func ask(
        about ids: ArraySlice<String>, _ known: [Receipt], _ catalog: Catalog, refund: StripeRefund,
        _ place: StorePlace
    ) -> StoreCheck {
        guard let id = ids.first else { return .done(.success(known)) }
        let rest = ids.dropFirst()
        guard let call = asking(for: id) else { return ask(about: rest, known, catalog, refund: refund, place) }
        return .ask(call) { result, tools in
            var known = known
            switch read(result, id, at: place.now, tools) {
            case .failure(.bad): break
            case .failure(let problem): return .done(.failure(problem))
            case .success(let subscription):
                if subscription.isLive == (place.world == .production) {
                    known += statements(subscription, catalog, refund: refund, place, tools.hash)
                }
            }
            return ask(about: rest, known, catalog, refund: refund, place)
        }
    }

    // MARK: - Payments

    /// Asks for the subscription of a payment. Its access ends if the payment was for the present period, and the buyer has the
    /// money back.
    private func ask(about payment: StripePayment, _ catalog: Catalog, _ place: StorePlace) -> StoreCheck {
        ask(for: payment.charge, at: "charges").flatMap { charge in
            guard let charge else { return .done(.success([])) }
            return isTaken(payment, charge).flatMap { isTaken in
                if let invoice = charge.invoice { return ask(aboutInvoice: invoice, isTaken: isTaken, catalog, place) }
                // Later versions of the API name the invoice beside the payment only.
                guard let intent = charge.paymentIntent, Stripe.isID(intent),
                    let url = OutboundURL(
                        "\(base)v1/invoice_payments?payment%5Btype%5D=payment_intent&payment%5Bpayment_intent%5D=\(intent)"
                    )
                else { return .done(.success([])) }
                return ask(OutboundCall(.get, url, bearer: key)).flatMap { list in
                    list?.firstInvoice.map { ask(aboutInvoice: $0, isTaken: isTaken, catalog, place) }
                        ?? .done(.success([]))
                }
            }
        }
    }

    /// Asks whether the buyer of a payment has the money back, or disputes the payment.
    private func isTaken(_ payment: StripePayment, _ charge: StripeObject) -> StoreQuestion<Bool> {
        guard !charge.isRefunded, charge.isDisputed,
            let url = OutboundURL("\(base)v1/disputes?charge=\(payment.charge)"),
            case .ask(let call, let then) = ask(OutboundCall(.get, url, bearer: key))
        else { return .done(.success(charge.isRefunded)) }
        return .ask(call) { result, tools in
            // A key that may not read disputes leaves the word of the event.
            if case .success(let answer) = result, answer.status == 403 { return .done(.success(payment.isTaken)) }
            return then(result, tools).map { $0?.hasTakingDispute ?? false }
        }
    }

    private func ask(
        aboutInvoice id: String, isTaken: Bool, _ catalog: Catalog, _ place: StorePlace
    ) -> StoreCheck {
        ask(for: id, at: "invoices").flatMap { invoice in
            guard let subscription = invoice?.subscriptionID, let call = asking(for: subscription) else {
                return .done(.success([]))
            }
            return .ask(call) { result, tools in
                switch read(result, subscription, at: place.now, tools) {
                case .failure(.bad): return .done(.success([]))
                case .failure(let problem): return .done(.failure(problem))
                case .success(let known):
                    guard known.isLive == (place.world == .production) else { return .done(.success([])) }
                    let isPresent = known.latestInvoice?.hasSameBytes(as: id) ?? false
                    let refund: StripeRefund = isPresent ? (isTaken ? .made : .none) : .untold
                    return .done(.success(statements(known, catalog, refund: refund, place, tools.hash)))
                }
            }
        }
    }

    /// Asks for an object; nil if Stripe does not have it.
    private func ask(for id: String, at folder: String) -> StoreQuestion<StripeObject?> {
        asking(for: id, at: folder).map { ask($0) } ?? .done(.success(nil))
    }

    private func ask(_ call: OutboundCall) -> StoreQuestion<StripeObject?> {
        .ask(call) { result, tools in
            guard case .success(let answer) = result else { return .done(.failure(Stripe.outage)) }
            switch answer.status {
            case 200..<300:
                let object = try? tools.json.read(answer.body) { root throws(JSONFault) in try StripeObject(root) }
                return .done(object.map { .success($0) } ?? .failure(Stripe.outage))
            case 400, 404: return .done(.success(nil))
            case 401, 403: return .done(.failure(Stripe.wrongKey))
            default: return .done(.failure(Stripe.outage))
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
        ).map { $0.named(by: catalog) }
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

    private static func isID(_ text: String) -> Bool {
        (1...255).contains(text.utf8.count) && text.utf8.allSatisfy { isWord($0) }
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
