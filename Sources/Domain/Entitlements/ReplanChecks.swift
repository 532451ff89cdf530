/// A note of the server that questions to stores are planned again, because the clock was ahead when they were planned
/// (spec/entitlements-live.md 9). Otherwise a purchase would be asked about only when that wrong time has come.
package struct ReplanChecks: Act {
    package let purchases: [PurchaseID]
    package let walk: CheckWalk

    package init(_ planned: PlannedAhead) { (purchases, walk) = (planned.purchases, planned.walk) }

    package static var kinds: [ActKind] { [.replanChecks] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { .none }
    package var byteCount: Int { 256 * (1 + purchases.count) }

    /// Plans the next question about each purchase, and throws nothing. A question that was planned rightly stays.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<Done> {
        let catalog = view.catalog(of: project)
        var lists = CheckLists()
        var changes: [Change] = []
        for id in purchases {
            guard let known = view.purchase(id), known.check != nil else { continue }
            var purchase = known
            purchase.replanCheck(at: stamp.at, catalog.product(purchase.product))
            if purchase == known { continue }
            lists.move(
                id, of: purchase.source, from: known.check?.dueAt, to: purchase.check?.dueAt, in: project, view)
            changes.append(purchase.put)
        }
        changes += lists.puts
        changes.append(.documentPut(CheckWalk.key(of: project), .nobody, walk.packed))
        return Decision(Done(), outcome: Outcome(kind: .replanChecks, person: nil, changes: changes))
    }
}

extension ActKind {
    package static let replanChecks = ActKind(116, "replan_purchase_checks", undo: .never(.noteOfServer))
}
