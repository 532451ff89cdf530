/// A call with which an administrator moves a purchase to another user without a receipt (spec/taking-back.md, section 2).
package struct MovePurchase: Act {
    package let purchase: PurchaseID
    /// The user that gets the purchase.
    package let owner: PersonID
    /// The reason, in the administrator's words.
    package let reason: String?

    package init(_ purchase: PurchaseID, to owner: PersonID, reason: String? = nil) {
        (self.purchase, self.owner, self.reason) = (purchase, owner, reason)
    }

    package static var kinds: [ActKind] { [.movePurchase] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { Subjects(about: owner) }
    package var byteCount: Int { 1024 }

    /// Makes the user the only owner of the purchase. Throws `noSuchPurchase`, `noSuchUser`, `noAccessIdentity` for a user
    /// without an identity, because only an identity owns a purchase, and `tooManyPurchases`. Installs that have joined the
    /// store account stay joined, because their proofs hold. The transfer has an id, and its undo gives the purchase back. A
    /// purchase that was replaced gives nothing, so the purchase that counts in its place moves.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<PurchaseMoved> {
        guard view.person(owner, in: project) != nil else { throw .noSuchPerson }
        return try move(stamp, in: project, view)
    }

    /// Decides the call over documents alone.
    func move<V: DocumentFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<PurchaseMoved> {
        var ledger = AccessLedger(view, at: stamp.at, view.catalog(of: project))
        guard let named = ledger.purchase(self.purchase) else { throw .noSuchPurchase }
        var purchase = named.present { ledger.purchase($0) }
        guard let user = ledger.user(owner) else { throw .noSuchUser }
        guard user.identity != nil else { throw .noAccessIdentity }
        let before = Transfer.Side(purchase)
        var moved = PurchaseMoved(purchase: purchase.id, owner: owner, from: before.owners)
        if purchase.owners == [owner] { return Decision(moved) }
        try ledger.own(&purchase, [owner])
        let (losers, winners) = before.parties(goingTo: Transfer.Side(purchase))
        let transfer = Transfer(
            id: TransferID(rawValue: stamp.person.rawValue), in: project, user: owner, at: stamp.at,
            strategy: .transfer,
            moves: [Transfer.Move(purchase: purchase.id, before: before, after: Transfer.Side(purchase))])
        moved.transfer = transfer.id
        let events = (losers + winners).map {
            Change.rowAdded($0, AccessEvent.transferred(purchase, losers, winners).row(stamp))
        }
        return Decision(
            moved,
            outcome: Outcome(
                kind: .movePurchase, person: owner, changes: ledger.changes + [transfer.put] + events, note: reason))
    }
}

/// The answer to ``MovePurchase``.
package struct PurchaseMoved: Answer {
    package let purchase: PurchaseID
    package let owner: PersonID
    /// The owners before the call.
    package let from: [PersonID]
    /// The transfer, for its undo; nil if the purchase did not move.
    package internal(set) var transfer: TransferID?

    init(purchase: PurchaseID, owner: PersonID, from: [PersonID]) {
        (self.purchase, self.owner, self.from) = (purchase, owner, from)
    }

    package static let tags: [UInt8] = [ActKind.movePurchase.rawValue]

    package func pack(into packer: inout Packer) {
        packer.add(purchase.hash)
        packer.add(owner)
        packer.add(from)
        packer.add(kept: transfer?.rawValue)
    }

    package init?(tag: UInt8, unpacking unpacker: inout Unpacker) {
        guard let purchase = unpacker.hash(), let owner = unpacker.person(), let from = unpacker.people(),
            let transfer = unpacker.keptNumber()
        else { return nil }
        self.init(purchase: PurchaseID(hash: purchase), owner: owner, from: from)
        self.transfer = transfer.value.map(TransferID.init)
    }
}

extension Refusal {
    package static let noAccessIdentity = Refusal(
        .conflict, "no_identity", "The user has no identity, and only an identity owns a purchase.")
}

extension ActKind {
    package static let movePurchase = ActKind(177, "transfer", undo: .facts(needs: .consoleAct))
}
