/// A call that makes a user of the Entitlements dialect under an id of the caller's choice.
package struct MakeAccessUser: Act {
    package let user: Identity
    /// Whether the user belongs to the sandbox.
    package let isForTrying: Bool
    /// The hash of the device of the call; nil if the call names none.
    package let device: Hash128?

    package init(_ user: Identity, isForTrying: Bool, device: Hash128? = nil) {
        self.device = device
        self.user = user
        self.isForTrying = isForTrying
    }

    package static var kinds: [ActKind] { [.accessUser] }
    package var subjects: Subjects { Subjects(speaksFor: [user]) }
    package var byteCount: Int { 1024 }

    /// Makes the user. Throws `userExists` if a user has the id, because a second install must not get the access of the
    /// first.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<AccessReply> {
        guard view.holder(of: user) == nil else { throw .userExists }
        var people = PeopleMaker(stamp)
        let made = AccessUser(
            people.make(user), id: user.value, madeAt: stamp.at, isForTrying: isForTrying, device: device)
        let tellsMilliseconds = Catalog.tellsMilliseconds(packed: view.document(Catalog.key(project)))
        return Decision(
            .user(made, tellsMilliseconds: tellsMilliseconds),
            outcome: Outcome(kind: .accessUser, person: made.person, changes: people.changes + [made.put]))
    }
}

/// The answers to calls about access.
package indirect enum AccessReply: Equatable, Sendable {
    /// The new user, and whether the answer has its creation time in milliseconds.
    case user(AccessUser, tellsMilliseconds: Bool)
    /// The linked identity, and the id of its user.
    case identified(identity: String, user: String)
    case granted(AccessUser.Grant)
    case revoked
    /// The id of the user that sees the purchase, and the transfer if the purchase moved.
    case purchased(user: String, isNew: Bool, transfer: TransferID?)
    /// The purchase is another identity's, and the strategy leaves it there.
    case purchaseKept
    /// Too many have proven the purchase, so nobody joins its account and nobody takes it over.
    case purchaseFrozen
    /// An administrator has ended the freeze of a purchase.
    case unfrozen(PurchaseID)
    /// The news of a store were taken.
    case noted
    case restored(Restored)
    case propertiesSet(saved: [AccessProperty], tooMany: [String])
    case transferUndone(TransferUndone)
    case edited(Catalog)
    /// An answer with its circumstances. The journal keeps them so that a dry run can decide the call under other rules.
    case kept(AccessReply, AccessCircumstances)
}

/// The problem of a receipt.
package enum ReceiptFault: Error, Equatable, Sendable {
    /// The receipt has no valid signature.
    case forged
    /// The receipt is in no form that its store uses.
    case unreadable
    /// The receipt does not have the reported transaction.
    case absent
    /// The store does not know the purchase.
    case unknown
    /// The purchase has ended.
    case expired
    /// Another user has used the receipt before.
    case replayed
    /// The receipt is for another app, another world or another product.
    case foreign

    package var name: StaticString {
        switch self {
        case .forged: "forged"
        case .unreadable: "unreadable"
        case .absent: "absent"
        case .unknown: "unknown"
        case .expired: "expired"
        case .replayed: "replayed"
        case .foreign: "foreign"
        }
    }
}

extension Snapshot {
    package func catalog(of project: ProjectID) throws(StoreFault) -> Catalog {
        try document(Catalog.key(project)).flatMap(Catalog.init(packed:)) ?? Catalog()
    }

    package func accessUser(_ person: PersonID) throws(StoreFault) -> AccessUser? {
        try document(AccessUser.key(person)).flatMap { AccessUser(person, packed: $0) }
    }
}

extension DocumentFacts {
    func accessUser(_ person: PersonID) -> AccessUser? {
        document(AccessUser.key(person)).flatMap { AccessUser(person, packed: $0) }
    }

    func purchase(_ id: PurchaseID) -> Purchase? { document(id.key).flatMap { Purchase(id, packed: $0) } }

    func catalog(of project: ProjectID) -> Catalog {
        document(Catalog.key(project)).flatMap(Catalog.init(packed:)) ?? Catalog()
    }
}

extension DecisionFacts {
    func accessUser(_ identity: Identity) -> AccessUser? { holder(of: identity).flatMap(accessUser) }

    func principals(_ session: AccessSession) throws(Refusal) -> AccessPrincipals {
        do throws(AccessFault<Never>) {
            return try AccessPrincipals(session, holder: { holder(of: $0) }, document: { document($0) })
        } catch {
            switch error {
            case .refused(let refusal): throw refusal
            }
        }
    }
}

extension ActKind {
    package static let accessUser = ActKind(40, "make_access_user", undo: .facts(needs: .consoleAct))
}
