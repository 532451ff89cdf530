/// A call that reports a purchase (spec/entitlements.md 1.6).
package struct RecordPurchase: Act {
    package let session: AccessSession
    /// The confirmed receipt, or the refusal of the call. Only a caller with a user gets this refusal.
    package let receipt: Result<Receipt, Refusal>
    private let world: AccessWorld

    package init(_ session: AccessSession, _ receipt: Result<Receipt, Refusal>, in world: AccessWorld) {
        self.session = session
        self.receipt = receipt
        self.world = world
    }

    package static var kinds: [ActKind] { [.recordPurchase] }
    package var subjects: Subjects { Subjects(speaksFor: session.identities, signedIn: session.userSignedIn) }
    package var byteCount: Int { 1024 }

    /// Adds the purchase, or adds the receipt to a known purchase. Throws `noSuchUser`, `sessionMismatch`,
    /// `tooManyPurchases`, and the refusal of the receipt.
    ///
    /// A renewal belongs to the owners of the purchase, whoever reports it. A receipt that the server knows already, from a
    /// caller without a part in the purchase, is a restore: clients of the third generation restore in this way. So the
    /// project's strategy decides about it. If the purchase stays with its owners, the answer says so, and the journal notes
    /// the call once, because other rules would move the purchase.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<AccessReply> {
        let principals = try view.principals(session)
        do throws(Refusal) {
            return try RecordPurchase.record(
                try receipt.get(), for: principals, by: view.strategy(of: project).restore[world], in: world, stamp,
                project, view)
        } catch {
            // The journal notes the person that sent a bad receipt.
            throw error.isBadReceipt ? error.about(principals.user.person) : error
        }
    }

    /// Records a purchase for the principals of a session.
    static func record<V: DocumentFacts>(
        _ receipt: Receipt, for principals: AccessPrincipals, by strategy: RestoreStrategy, in world: AccessWorld,
        _ stamp: Stamp, _ project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<AccessReply> {
        let known = view.purchase(receipt.purchase).flatMap { $0.isUnclaimed ? nil : $0 }
        let isRestore = known.map { known in
            known.history.knows(receipt.transaction)
                && !(principals.rule(for: known) != nil || principals.pays(known))
        }
        let proving = Proving(
            receipts: [receipt], purpose: isRestore == true ? .restore(strategy) : .purchase(receipt.purchase),
            strategy: strategy)
        let proven = try proving.prove(for: principals, stamp, in: project, view)
        if proven.items.first?.outcome == .invalid { throw .badReceipt(.replayed) }
        let user = proven.purchases.first?.user(shownTo: principals, view) ?? principals.user
        let answer: AccessReply =
            switch proven.items.first?.outcome {
            case .frozen: .purchaseFrozen
            case .kept where isRestore == true: .purchaseKept
            case .yours, .moved, .shared, .kept, .invalid, nil:
                .purchased(user: user.id, isNew: known == nil, transfer: proven.transfer)
            }
        guard !proven.changes.isEmpty else { return Decision(answer) }
        return Decision(
            .kept(answer, .purchased(AccessParties(principals), receipt, by: strategy, in: world)),
            outcome: Outcome(kind: .recordPurchase, person: principals.user.person, changes: proven.changes),
            full: Purchase.sharing(proven.changes, at: stamp.at))
    }
}

extension Purchase {
    /// The user of the answer: the user of the call if it sees the purchase.
    func user<V: DocumentFacts>(shownTo principals: AccessPrincipals, _ view: V) -> AccessUser {
        if principals.rule(for: self) != nil { return principals.user }
        return view.accessUser(owners.first ?? installs.people.first ?? reporter) ?? principals.user
    }
}

extension ActKind {
    package static let recordPurchase = ActKind(44, "purchase", undo: .never(.storeVouches))
}
