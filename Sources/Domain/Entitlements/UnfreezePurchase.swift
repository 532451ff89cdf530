/// A call that ends the freeze of a purchase that too many people have proven (spec/entitlements-live.md 2).
package struct UnfreezePurchase: Act {
    package let purchase: PurchaseID

    package init(_ purchase: PurchaseID) { self.purchase = purchase }

    package static var kinds: [ActKind] { [.unfreezePurchase] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { .none }
    package var byteCount: Int { 256 }

    /// Ends the freeze, and counts later proofs anew. Throws `noSuchPurchase`. A purchase that nobody has shared stays as it is.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<AccessReply> {
        try unfreeze(stamp, view)
    }

    func unfreeze<V: DocumentFacts>(_ stamp: Stamp, _ view: V) throws(Refusal) -> Decision<AccessReply> {
        guard var known = view.purchase(purchase) else { throw .noSuchPurchase }
        guard let sharedAt = known.sharedAt, known.unfrozenAt.map({ $0 < sharedAt }) ?? true else {
            return Decision(.unfrozen(purchase))
        }
        known.unfrozenAt = max(stamp.at, sharedAt)
        return Decision(
            .unfrozen(purchase),
            outcome: Outcome(kind: .unfreezePurchase, person: known.owners.first, changes: [known.put]))
    }
}

extension ActKind {
    package static let unfreezePurchase = ActKind(114, "unfreeze_purchase", undo: .never(.storeVouches))
}
