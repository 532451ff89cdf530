/// A note of the server about its questions to stores: which have begun, and which have no answer.
package struct NoteChecks: Act {
    package enum Progress: Equatable, Sendable {
        /// The question begins. It comes again after a minute if the server ends before the answer.
        ///
        /// - Parameter place: the list that has the purchase.
        case begun(place: CheckPlace)
        /// The store has not answered about the purchase, and the server asks again. In an outage of the store, a subscription
        /// may give access for some time after its end.
        ///
        /// - Parameter graceMilliseconds: this time; nil if the reason is no outage.
        case failed(graceMilliseconds: Int64?)
        /// The store does not know the purchase any more.
        case over
        /// The server keeps the purchase no longer: only its store has told of it.
        case forgotten
    }

    package let notes: [(purchase: PurchaseID, progress: Progress)]
    /// The hour before which no list has an entry.
    package let emptyBefore: Int64?

    package init(_ notes: [(purchase: PurchaseID, progress: Progress)], emptyBefore: Int64? = nil) {
        self.notes = notes
        self.emptyBefore = emptyBefore
    }

    package static var kinds: [ActKind] { [.noteChecks] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { .none }
    package var byteCount: Int { 512 * (1 + notes.count) }

    /// Notes the progress, and throws nothing. A purchase that was erased leaves the lists.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<Done> {
        var (lists, purchases): (CheckLists, [Purchase]) = (CheckLists(), [])
        var forgotten: [PurchaseID] = []
        let catalog = view.catalog(of: project)
        for (id, progress) in notes {
            var purchase = view.purchase(id)
            let before = purchase?.check?.dueAt
            switch progress {
            case .begun(let place):
                if purchase.flatMap({ found in before.map { CheckPlace(id, of: found.source, at: $0) } }) != place {
                    lists.remove(id, from: place, in: project, view)
                    continue
                }
                purchase?.check?.dueAt = stamp.at.advanced(byMilliseconds: Purchase.Check.leaseMilliseconds)
            case .failed(let grace):
                let product = purchase.flatMap { catalog.product($0.product) }
                purchase?.putOffCheck(after: stamp.at, product, graceMilliseconds: grace)
            case .over: purchase?.endChecks()
            case .forgotten:
                forgotten.append(id)
                continue
            }
            guard let purchase else { continue }
            lists.move(id, of: purchase.source, from: before, to: purchase.check?.dueAt, in: project, view)
            purchases.append(purchase)
        }
        if let emptyBefore { lists.begin(at: emptyBefore, in: project, view) }
        var ledger = AccessLedger(view, at: stamp.at, catalog, checks: lists)
        for id in forgotten { ledger.forget(id, in: project) }
        let changes = purchases.map(\.put) + ledger.changes
        if changes.isEmpty { return Decision(Done()) }
        return Decision(Done(), outcome: Outcome(kind: .noteChecks, person: nil, changes: changes))
    }
}

extension ActKind {
    package static let noteChecks = ActKind(112, "note_purchase_checks", undo: .never(.noteOfServer))
}
