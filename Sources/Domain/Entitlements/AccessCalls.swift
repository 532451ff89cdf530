/// A call that makes a user of the Entitlements dialect under an id that the caller has chosen.
package struct MakeAccessUser: Act {
    package let user: Identity
    /// Whether the user is one of the sandbox.
    package let isForTrying: Bool

    package init(_ user: Identity, isForTrying: Bool) {
        self.user = user
        self.isForTrying = isForTrying
    }

    package static var kinds: [ActKind] { [.accessUser] }
    package var subjects: Subjects { Subjects(speaksFor: [user]) }
    package var byteCount: Int { 1024 }

    /// Makes the user; refused where the id is taken.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<AccessReply> {
        guard view.holder(of: user) == nil else { throw .userExists }
        var people = PeopleMaker(stamp)
        let made = AccessUser(people.make(user), id: user.value, madeAt: stamp.at, isForTrying: isForTrying)
        let tellsMilliseconds = Catalog.tellsMilliseconds(packed: view.document(Catalog.key(project)))
        return Decision(
            .user(made, tellsMilliseconds: tellsMilliseconds),
            outcome: Outcome(kind: .accessUser, person: made.person, changes: people.changes + [made.put]))
    }
}

/// The answers to calls about access.
package indirect enum AccessReply: Equatable, Sendable {
    /// A user that was made, and whether it is told in milliseconds when.
    case user(AccessUser, tellsMilliseconds: Bool)
    /// An identity was linked to the user with an id.
    case identified(identity: String, user: String)
    case granted(AccessUser.Grant)
    case revoked
    /// The id of the user that the purchase is seen by.
    case purchased(user: String, isNew: Bool)
    case restored(Restored)
    case propertiesSet(saved: [AccessProperty], tooMany: [String])
    case transferUndone(TransferUndone)
    case edited(Catalog)
    /// An answer, with what the journal keeps so that the call can be decided again under other rules.
    case kept(AccessReply, AccessCircumstances)
}

/// What is wrong with a receipt.
package enum ReceiptFault: Error, Equatable, Sendable {
    /// Nobody has signed it whose word counts, or it is no receipt.
    case forged
    /// What it tells of is over.
    case expired
    /// It was used before, by somebody else.
    case replayed
    /// It is another app's, another world's, or of another product.
    case foreign

    package var name: StaticString {
        switch self {
        case .forged: "forged"
        case .expired: "expired"
        case .replayed: "replayed"
        case .foreign: "foreign"
        }
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
    package static let accessUser = ActKind(40, "make_access_user")
}
