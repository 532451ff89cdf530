/// A call of a store, or the answer of a store that the server has asked (spec/entitlements-live.md 4.3). The store's own
/// statements count whoever brings them.
package struct TakeStoreNews: Act {
    /// The statements; none for news that changes no purchase.
    package let receipts: [Receipt]
    /// The purchase about which the server has asked by itself; nil for a call of the store.
    package let asked: PurchaseID?
    /// Whether the store has told of the purchases by itself.
    private let isNotification: Bool
    /// The notification about which the server has asked; nil for other news.
    private let notice: StoreNotice?

    package init(
        _ receipts: [Receipt], asked: PurchaseID? = nil, isNotification: Bool = false,
        because notice: StoreNotice? = nil
    ) {
        self.receipts = receipts
        self.asked = asked
        self.isNotification = isNotification || notice != nil
        self.notice = notice
    }

    package static var kinds: [ActKind] { [.storeNews, .storeNotice] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { .none }
    package var byteCount: Int { 512 * (1 + receipts.count) }

    /// Adds the statements to their purchases, and throws nothing. The state of a purchase follows from the store's times, so
    /// a repeated or late statement changes nothing. A purchase that no user has proven is kept for its first user.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<AccessReply> {
        let decision = TakeStoreNews.take(
            receipts, asked: asked, toldAt: isNotification ? notice?.toldAt ?? stamp.at : nil, stamp, in: project, view)
        guard let notice else { return decision }
        var queue = StoreNoticeQueue(view, in: project)
        queue.end(notice)
        if queue.changes.isEmpty { return decision }
        var outcome = decision.outcome ?? Outcome(kind: .storeNotice, person: nil, changes: [])
        outcome.changes += queue.changes
        return Decision(decision.answer, outcome: outcome)
    }

    static func take<V: DocumentFacts>(
        _ receipts: [Receipt], asked: PurchaseID? = nil, toldAt: Instant? = nil, _ stamp: Stamp,
        in project: ProjectID, _ view: V
    ) -> Decision<AccessReply> {
        let catalog = view.catalog(of: project)
        var ledger = AccessLedger(view, at: stamp.at, catalog)
        var events: [Change] = []
        for receipt in receipts {
            let known = ledger.purchase(receipt.purchase)
            var purchase = known ?? Purchase(receipt, reporter: PersonID(rawValue: 0))
            purchase.take(receipt, at: stamp.at, catalog)
            if purchase.isUnclaimed, known.map({ !$0.history.isSameState(as: purchase.history) }) ?? true {
                purchase.noteUnclaimed(at: stamp.at)
            }
            if let toldAt { purchase.note(notificationAt: toldAt, since: known) }
            let old = receipt.replaces.flatMap { ledger.purchase($0) }
            ledger.replace(receipt.replaces, by: &purchase, isNew: known?.isUnclaimed ?? true)
            ledger.follow(receipt.itemOf, with: &purchase, isNew: false)
            do throws(Refusal) {
                try ledger.join(nil, to: &purchase, by: receipt.accounts)
            } catch {
                // An account at its limit keeps the purchase under its other names.
                ledger.put(purchase)
            }
            if let old, old.replacedBy == nil, old.isActive(at: stamp.at, catalog.product(old.product)) {
                let ended = AccessEvent.purchased(old, isActive: false)
                events += ledger.audience(of: old).map { .rowAdded($0, ended.row(stamp)) }
            }
            // A new purchase without owners concerns nobody yet.
            if known.map({ purchase.history.isSame(as: $0.history) }) ?? purchase.isUnclaimed { continue }
            let product = catalog.product(purchase.product)
            let (was, isNow) = (
                known?.isActive(at: stamp.at, product) ?? false, purchase.isActive(at: stamp.at, product)
            )
            guard was || isNow else { continue }
            let news = AccessEvent.purchased(purchase, isActive: isNow)
            events += ledger.audience(of: purchase).map { .rowAdded($0, news.row(stamp)) }
        }
        ledger.replaceLate(receipts)
        for item in ledger.settleItems(of: receipts) {
            let ended = AccessEvent.purchased(item, isActive: false)
            events += ledger.audience(of: item).map { .rowAdded($0, ended.row(stamp)) }
        }
        if let asked, let purchase = ledger.purchase(asked) { ledger.put(purchase) }
        ledger.scheduleChecks(asked: asked, in: project)
        let changes = ledger.changes
        guard !changes.isEmpty else { return Decision(.noted) }
        let person = receipts.lazy.compactMap { receipt in
            ledger.purchase(receipt.purchase).flatMap { ledger.audience(of: $0).first }
        }.first
        return Decision(
            .kept(.noted, .told(receipts)),
            outcome: Outcome(kind: .storeNews, person: person, changes: changes + events))
    }
}

extension ActKind {
    package static let storeNews = ActKind(111, "store_news", undo: .never(.storeVouches))
}
