extension Purchase {
    /// The state of a subscription's renewal. Stores keep the raw values, so a raw value never changes.
    package enum Renewal: UInt8, Sendable {
        case willRenew = 1
        case canceled = 2
        case billingIssue = 3
    }

    /// The kind of a subscription's period. Stores keep the raw values, so a raw value never changes.
    package enum Period: UInt8, Sendable {
        case normal = 1
        case trial = 2
        case intro = 3
    }

    /// The statement of a store about one transaction.
    package struct Transaction: Equatable, Sendable {
        package let id: String
        package internal(set) var product: String
        package let startedAt: Instant
        /// The end; nil for a transaction without an end, or if the product's duration decides.
        package var endsAt: Instant?
        /// The moment of a refund; nil if there was no refund.
        package var revokedAt: Instant?
        /// Whether it is of a subscription; nil if the store does not say.
        package var isSubscription: Bool?
        package var period = Period.normal
        /// Whether a higher product of the same group has replaced it.
        package var isUpgraded = false
        /// Whether a member of the buyer's family has it.
        package var isFamilys = false
        /// Whether the statement comes from a form that cannot say of upgrades, families and offers.
        package var isBrief = false
        /// Whether the statement comes from a form that cannot say of refunds. A refund that is known stays then.
        package var isSilentOnRefunds = false
        /// Whether only an import tells of the transaction. The word of a store replaces it.
        package var isImported = false
        /// The id of an offer code; nil without a code.
        package var offer: String?
        /// The moment at which the store signed the data; nil if it is unknown.
        package var signedAt: Instant?

        package init(id: String, product: String, startedAt: Instant) {
            self.id = id
            self.product = product
            self.startedAt = startedAt
        }

        /// Whether the statement replaces a known one about the same transaction: the one with the later signature counts, and
        /// a refund counts of two statements of one moment. A statement without a signature's moment is older than a signed
        /// one. Of two such statements the later arrival counts, apart from a refund.
        fileprivate func replaces(_ known: Transaction) -> Bool {
            if isImported != known.isImported { return known.isImported }
            switch (signedAt, known.signedAt) {
            case (nil, _?): return false
            case (nil, nil): return known.revokedAt == nil || revokedAt != nil
            case (let moment?, nil):
                guard let revokedAt = known.revokedAt, self.revokedAt == nil else { return true }
                return moment > revokedAt
            case (let moment?, let before?):
                return moment != before ? moment > before : revokedAt != nil && known.revokedAt == nil
            }
        }

        /// The statement with the facts of an earlier one that its own form cannot have.
        fileprivate func completed(by known: Transaction) -> Transaction {
            var complete = self
            if isSilentOnRefunds { complete.revokedAt = revokedAt ?? known.revokedAt }
            guard isBrief, !known.isBrief else { return complete }
            (complete.isUpgraded, complete.isFamilys, complete.offer) = (known.isUpgraded, known.isFamilys, known.offer)
            complete.isBrief = false
            return complete
        }

        /// Whether it is the earlier one. Google Play gives all periods of a subscription the same start, so then the ends count.
        fileprivate func precedes(_ other: Transaction) -> Bool {
            if startedAt != other.startedAt { return startedAt < other.startedAt }
            let (end, otherEnd) = (endsAt?.milliseconds ?? .max, other.endsAt?.milliseconds ?? .max)
            return end != otherEnd ? end < otherEnd : id.precedesByBytes(other.id)
        }
    }

    /// The statement of a store about the renewal of a subscription.
    package struct RenewalState: Equatable, Sendable {
        package var renewal: Renewal
        /// The end of the time in which the store still tries to charge, with access; nil without such a time.
        package var graceEndsAt: Instant?
        /// The product of the next period, if it is another one.
        package var nextProduct: String?
        /// Whether the buyer has not yet agreed to a higher price.
        package var awaitsPriceConsent = false
        /// Whether the store lets the subscription go on without charging for it.
        package var isCollectionPaused = false
        package var saidAt: Instant

        package init(_ renewal: Renewal, saidAt: Instant) {
            self.renewal = renewal
            self.saidAt = saidAt
        }
    }

    /// The statements of a store about a purchase (spec/entitlements-live.md 4.4). The state follows from the store's times,
    /// never from the order of arrival.
    package struct History: Equatable, Sendable {
        /// The transactions in the order of their starts. There is at least one.
        package private(set) var transactions: [Transaction]
        package private(set) var renewalState: RenewalState?
        /// The start of the first transaction that was ever known.
        package private(set) var startedAt: Instant

        /// The limit of transactions. The earliest ones leave.
        package static let transactionsAtMost = 60

        init(_ first: Transaction, _ renewal: RenewalState?) {
            transactions = [first]
            renewalState = renewal
            startedAt = first.startedAt
        }

        /// Sets the start of a purchase whose first transactions are not known any more.
        mutating func begin(at moment: Instant) { startedAt = min(startedAt, moment) }

        /// Whether the store has made a statement about a transaction.
        package func knows(_ transaction: String) -> Bool {
            transactions.contains { $0.id.hasSameBytes(as: transaction) }
        }

        /// Adds the statements of a receipt. A statement with an earlier moment changes nothing.
        mutating func update(_ receipt: Receipt) {
            for told in receipt.others + [receipt.told] { update(told) }
            transactions.sort { $0.precedes($1) }
            startedAt = min(startedAt, transactions[0].startedAt)
            transactions.removeFirst(max(0, transactions.count - History.transactionsAtMost))
            guard let renewal = receipt.renewal else { return }
            let known = renewalState?.saidAt
            // Data without a signature has the moment of its transaction, so a later arrival of the same moment counts.
            if known.map({ renewal.saidAt >= $0 }) ?? true { renewalState = renewal }
        }

        /// The difference of moments from which on an earlier statement was made while the clock was ahead.
        private static let aheadMilliseconds: Int64 = 120_000

        /// Makes statements from the future older than a new one. They were made while the clock was ahead.
        mutating func correct(before saidAt: Instant, at moment: Instant) {
            let latest = max(saidAt, moment).advanced(byMilliseconds: History.aheadMilliseconds)
            let earlier = saidAt.advanced(byMilliseconds: -1)
            for place in transactions.indices where transactions[place].signedAt.map({ $0 > latest }) ?? false {
                transactions[place].signedAt = earlier
            }
            if let state = renewalState, state.saidAt > latest { renewalState?.saidAt = earlier }
        }

        private mutating func update(_ told: Transaction) {
            if let place = transactions.firstIndex(where: { $0.id.hasSameBytes(as: told.id) }) {
                if told.replaces(transactions[place]) { transactions[place] = told.completed(by: transactions[place]) }
            } else {
                transactions.append(told)
            }
        }

        /// The latest transaction without a refund; the latest one if the store has refunded all of them.
        package var current: Transaction { transactions.last { $0.revokedAt == nil } ?? latest }

        private var latest: Transaction { transactions[transactions.count - 1] }

        /// The refund of the latest transaction.
        var revokedAt: Instant? { latest.revokedAt }

        /// Whether a transaction is there that can give access.
        var givesAccess: Bool { !granting.isEmpty }

        /// The transactions that can give access: those of the current product, without a refund. An earlier product gives
        /// nothing from the start of a later one on.
        private var granting: [Transaction] {
            let product = current.product
            return transactions.filter {
                $0.revokedAt == nil && !$0.isUpgraded && $0.product.hasSameBytes(as: product)
            }
        }

        /// The renewal of the current transaction. A statement from before its start is about an earlier one.
        private var currentRenewal: RenewalState? {
            renewalState.flatMap { $0.saidAt >= latest.startedAt ? $0 : nil }
        }

        var renewal: Renewal { currentRenewal?.renewal ?? .willRenew }

        /// The end of the access; nil for access without an end.
        ///
        /// - Parameter source: the store of the statements. If each of them is the whole present state, a later one replaces the
        ///   statements about periods that began no later: it may end the access sooner than they did.
        func end(_ definition: Catalog.Product?, by source: Source) -> Instant? {
            var last: Instant?
            var counting = granting
            if source.tellsPresentState, let saidAt = counting.compactMap(\.signedAt).max(),
                let newest = counting.last(where: { $0.signedAt == saidAt })
            {
                counting.removeAll { $0.startedAt <= newest.startedAt && $0.signedAt != saidAt }
            }
            for transaction in counting.isEmpty ? [current] : counting {
                guard let end = transaction.endsAt ?? definition?.end(from: transaction.startedAt) else { return nil }
                last = max(last ?? end, end)
            }
            guard let last else { return nil }
            // After a refund, the store gives no more time to pay.
            if latest.revokedAt != nil { return last }
            return currentRenewal?.graceEndsAt.map { max(last, $0) } ?? last
        }

        /// Ends the latest transaction: the store has told of the subscription, and this item was not there any more.
        mutating func drop(at saidAt: Instant, _ definition: Catalog.Product?) {
            var told = latest
            guard told.signedAt.map({ $0 < saidAt }) ?? true else { return }
            let end = told.endsAt ?? definition?.end(from: told.startedAt)
            guard end.map({ $0 > saidAt }) ?? true else { return }
            told.endsAt = saidAt
            told.signedAt = saidAt
            transactions[transactions.count - 1] = told
            renewalState = RenewalState(.canceled, saidAt: max(saidAt, renewalState?.saidAt ?? saidAt))
        }

        /// Whether the statements are equal, apart from the moments of their signatures.
        func isSame(as other: History) -> Bool { withoutMoments == other.withoutMoments }

        /// Whether the statements and the state that follows from them are equal. A statement of the same content may be about
        /// a later transaction.
        func isSameState(as other: History) -> Bool {
            isSame(as: other) && renewal == other.renewal
                && currentRenewal?.graceEndsAt == other.currentRenewal?.graceEndsAt
        }

        private var withoutMoments: History {
            var plain = self
            for place in plain.transactions.indices { plain.transactions[place].signedAt = nil }
            plain.renewalState?.saidAt = Instant(milliseconds: 0)
            return plain
        }
    }
}

extension Catalog.Product {
    /// The end of the product's own duration; nil for a product without a duration.
    func end(from moment: Instant) -> Instant? {
        durationSeconds.map { moment.advanced(byMilliseconds: $0 * 1000) }
    }
}

extension Purchase.History {
    func pack(into packer: inout Packer) {
        packer.add(startedAt)
        packer.add(UInt64(transactions.count))
        for transaction in transactions { transaction.pack(into: &packer) }
        packer.add(renewalState != nil)
        renewalState?.pack(into: &packer)
    }

    init?(unpacking unpacker: inout Unpacker) {
        guard let startedAt = unpacker.instant(), let count = unpacker.integer(), count > 0 else { return nil }
        var transactions: [Purchase.Transaction] = []
        for _ in 0..<count {
            guard let transaction = Purchase.Transaction(unpacking: &unpacker) else { return nil }
            transactions.append(transaction)
        }
        guard let renewal = unpacker.kept({ Purchase.RenewalState(unpacking: &$0) }) else { return nil }
        self.init(transactions: transactions, renewal: renewal.value, startedAt: startedAt)
    }

    private init(transactions: [Purchase.Transaction], renewal: Purchase.RenewalState?, startedAt: Instant) {
        self.transactions = transactions
        self.renewalState = renewal
        self.startedAt = startedAt
    }
}

extension Purchase.Transaction {
    func pack(into packer: inout Packer) {
        packer.add(id)
        packer.add(product)
        packer.add(startedAt)
        packer.add(optional: endsAt)
        packer.add(optional: revokedAt)
        packer.add(isSubscription.map { $0 ? 1 : 0 } ?? 2 as UInt8)
        packer.add(period.rawValue)
        packer.add(
            (isUpgraded ? 1 : 0) | (isFamilys ? 2 : 0) | (isBrief ? 4 : 0) | (isSilentOnRefunds ? 8 : 0)
                | (isImported ? 16 : 0) as UInt8)
        packer.add(optional: offer)
        packer.add(optional: signedAt)
    }

    init?(unpacking unpacker: inout Unpacker) {
        guard let id = unpacker.text(), let product = unpacker.text(), let startedAt = unpacker.instant(),
            let endsAt = unpacker.optionalInstant(), let revokedAt = unpacker.optionalInstant(),
            let isSubscription = unpacker.byte(), isSubscription < 3,
            let period = unpacker.byte().flatMap(Purchase.Period.init), let flags = unpacker.byte(), flags < 32,
            let offer = unpacker.optionalText(), let signedAt = unpacker.optionalInstant()
        else { return nil }
        self.init(id: id, product: product, startedAt: startedAt)
        self.endsAt = endsAt
        self.revokedAt = revokedAt
        self.isSubscription = isSubscription == 2 ? nil : isSubscription == 1
        self.period = period
        isUpgraded = flags & 1 != 0
        isFamilys = flags & 2 != 0
        isBrief = flags & 4 != 0
        isSilentOnRefunds = flags & 8 != 0
        isImported = flags & 16 != 0
        self.offer = offer
        self.signedAt = signedAt
    }
}

extension Purchase.RenewalState {
    func pack(into packer: inout Packer) {
        packer.add(renewal.rawValue)
        packer.add(optional: graceEndsAt)
        packer.add(optional: nextProduct)
        packer.add((awaitsPriceConsent ? 1 : 0) | (isCollectionPaused ? 2 : 0) as UInt8)
        packer.add(saidAt)
    }

    init?(unpacking unpacker: inout Unpacker) {
        guard let renewal = unpacker.byte().flatMap(Purchase.Renewal.init), let grace = unpacker.optionalInstant(),
            let nextProduct = unpacker.optionalText(), let flags = unpacker.byte(), flags < 4,
            let saidAt = unpacker.instant()
        else { return nil }
        self.init(renewal, saidAt: saidAt)
        graceEndsAt = grace
        self.nextProduct = nextProduct
        (awaitsPriceConsent, isCollectionPaused) = (flags & 1 != 0, flags & 2 != 0)
    }
}
