/// The purchases that a restore moved. The store keeps this document so that an administrator can undo the restore.
package struct Transfer: Equatable, Sendable {
    /// The owners of a purchase.
    package struct Side: Equatable, Sendable {
        package let owners: [PersonID]

        init(_ purchase: Purchase) { owners = purchase.owners }

        fileprivate init(owners: [PersonID]) { self.owners = owners }

        /// Whether all people of the side still exist. A purchase cannot return to an erased person.
        fileprivate func isThere<V: DocumentFacts>(_ view: V) -> Bool {
            owners.allSatisfy { person in view.accessUser(person) != nil }
        }

        /// The people that lose a purchase and the people that gain it.
        func parties(goingTo other: Side) -> (lost: [PersonID], gained: [PersonID]) {
            (owners.filter { !other.owners.contains($0) }, other.owners.filter { !owners.contains($0) })
        }
    }

    /// A purchase with its sides before and after the restore.
    package struct Move: Equatable, Sendable {
        package let purchase: PurchaseID
        package let before: Side
        package let after: Side
    }

    package let id: TransferID
    package let project: ProjectID
    /// The user of the restore.
    package let user: PersonID
    package let at: Instant
    package let strategy: RestoreStrategy
    package let moves: [Move]
    package internal(set) var undoneAt: Instant?

    init(
        id: TransferID, in project: ProjectID, user: PersonID, at: Instant, strategy: RestoreStrategy, moves: [Move]
    ) {
        self.id = id
        self.project = project
        self.user = user
        self.at = at
        self.strategy = strategy
        self.moves = moves
    }

    /// The key of the document with a transfer.
    package static func key(_ id: TransferID) -> DocumentKey { DocumentKey(.transfer, of: id.rawValue) }

    var put: Change { .documentPut(Transfer.key(id), user, packed) }

    package var packed: [UInt8] {
        var packer = Packer()
        packer.add(UInt64(UInt32(bitPattern: project.rawValue)))
        packer.add(user)
        packer.add(at)
        packer.add(strategy.rawValue)
        packer.add(optional: undoneAt)
        packer.add(UInt64(moves.count))
        for move in moves {
            packer.add(move.purchase.hash)
            for side in [move.before, move.after] {
                packer.add(side.owners)
                // Earlier versions stored the payer here.
                packer.add(0 as UInt8)
            }
        }
        return packer.bytes
    }

    package init?(_ id: TransferID, packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        guard let project = unpacker.integer(), let user = unpacker.person(), let at = unpacker.instant(),
            let strategy = unpacker.byte().flatMap(RestoreStrategy.init(rawValue:)),
            let undoneAt = unpacker.optionalInstant(), let count = unpacker.integer()
        else { return nil }
        var moves: [Move] = []
        for _ in 0..<count {
            guard let purchase = unpacker.hash(), let before = unpacker.side(), let after = unpacker.side()
            else { return nil }
            moves.append(Move(purchase: PurchaseID(hash: purchase), before: before, after: after))
        }
        self.init(
            id: id, in: ProjectID(rawValue: Int32(truncatingIfNeeded: project)), user: user, at: at,
            strategy: strategy, moves: moves)
        self.undoneAt = undoneAt
    }
}

extension Unpacker {
    fileprivate mutating func side() -> Transfer.Side? {
        guard let owners = people(), accountOfFirstForm() != nil else { return nil }
        return Transfer.Side(owners: owners)
    }
}

/// A call that undoes a transfer of purchases.
package struct UndoTransfer: Act {
    package let transfer: TransferID

    package init(_ transfer: TransferID) { self.transfer = transfer }

    package static var kinds: [ActKind] { [.undoTransfer] }
    package var subjects: Subjects { .none }
    package var byteCount: Int { 1024 }

    /// Moves the purchases of the transfer back. Throws `noSuchTransfer` if the transfer does not exist or was undone, and
    /// `transferOutdated` if a purchase has moved again or an owner was erased. Throws `tooManyPurchases` at the limit of a
    /// principal. The undo is all or nothing, because half an undo would be a third state that no call asked for. Installs that have
    /// joined the store account stay joined, because their proofs hold. A purchase that has since been replaced gives nothing, so the
    /// purchases that have replaced it move back too.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<AccessReply> {
        try undo(stamp, in: project, view)
    }

    /// Moves all purchases of a restore back, or no purchase if any of them has moved again.
    func undo<V: DocumentFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<AccessReply> {
        let id = transfer
        guard var transfer = view.document(Transfer.key(id)).flatMap({ Transfer(id, packed: $0) }),
            transfer.undoneAt == nil, transfer.project == project
        else { throw .noSuchTransfer }
        var ledger = AccessLedger(view, at: stamp.at, view.catalog(of: project))
        var events: [Change] = []
        var moved: [TransferUndone.Item] = []
        var returning = Set(transfer.moves.map(\.purchase))
        for move in transfer.moves {
            guard var purchase = ledger.purchase(move.purchase), move.before.isThere(view) else {
                throw .transferOutdated
            }
            try returnOwners(of: &purchase, move, &ledger)
            // A purchase that the transfer has moved itself returns by its own move.
            while let next = purchase.replacedBy, returning.insert(next).inserted,
                let follower = ledger.purchase(next)
            {
                purchase = follower
                try returnOwners(of: &purchase, move, &ledger)
            }
            let (losers, winners) = move.after.parties(goingTo: move.before)
            events += (losers + winners).map {
                .rowAdded($0, AccessEvent.transferred(purchase, losers, winners).row(stamp))
            }
            moved.append(
                TransferUndone.Item(
                    transaction: purchase.transaction, product: purchase.product,
                    from: NamedPeople(losers, in: ledger), to: NamedPeople(winners, in: ledger)))
        }
        transfer.undoneAt = stamp.at
        return Decision(
            .transferUndone(TransferUndone(id: id, items: moved)),
            outcome: Outcome(
                kind: .undoTransfer, person: transfer.user, changes: ledger.changes + [transfer.put] + events))
    }

    private func returnOwners<V: DocumentFacts>(
        of purchase: inout Purchase, _ move: Transfer.Move, _ ledger: inout AccessLedger<V>
    ) throws(Refusal) {
        guard Transfer.Side(purchase) == move.after else { throw .transferOutdated }
        try ledger.own(&purchase, move.before.owners)
    }
}

/// The id of a transfer. The server never reuses it.
package struct TransferID: Hashable, Sendable {
    package let rawValue: Int64
    package init(rawValue: Int64) { self.rawValue = rawValue }
}

/// The answer to an undone transfer.
package struct TransferUndone: Equatable, Sendable {
    /// A purchase that the undo moved back.
    package struct Item: Equatable, Sendable {
        package let transaction: String
        package let product: String
        /// The people that lose the purchase and the people that have it again.
        package let from: NamedPeople
        package let to: NamedPeople
    }

    package let id: TransferID
    package let items: [Item]
}

extension ActKind {
    package static let undoTransfer = ActKind(46, "undo_transfer", undo: .facts(needs: .consoleAct))
}
