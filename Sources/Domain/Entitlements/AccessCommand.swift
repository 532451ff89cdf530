/// A call that may change who has access to what.
package struct AccessCommand: Sendable {
    package enum Action: Sendable {
        case makeUser(Identity, isForTrying: Bool)
        case identify(LinkAccessIdentity)
        case grant(GrantAccess)
        /// Takes back what was given by hand.
        case revoke(Identity, entitlement: String)
        case purchase(RecordPurchase)
        case restore(RestorePurchases)
        case setProperties(Identity, [AccessProperty])
        case undoTransfer(TransferID, isDryRun: Bool)
        case edit(CatalogEdit)
    }

    package let world: AccessWorld
    package let action: Action

    package init(_ action: Action, in world: AccessWorld) {
        self.action = action
        self.world = world
    }

    /// The identities that the call names.
    package var identities: [Identity] {
        switch action {
        case .makeUser(let user, _): [user]
        case .identify(let link): [link.identity, link.user, link.install].compactMap { $0 }
        case .grant(let grant): [grant.user]
        case .revoke(let user, _): [user]
        case .purchase(let purchase): purchase.session.identities
        case .restore(let restore): restore.session.identities
        case .setProperties(let user, _): [user]
        case .undoTransfer, .edit: []
        }
    }

    /// What the call carries, roughly, in bytes.
    var byteCount: Int {
        switch action {
        case .restore(let restore): 512 * (1 + restore.items.count)
        case .setProperties(_, let properties):
            properties.reduce(256) { $0 + 64 + $1.name.utf8.count + $1.value.utf8.count }
        default: 1024
        }
    }

    func decide<V: View>(_ stamp: Stamp, in project: ProjectID, _ view: V) throws(Refusal) -> Decision {
        do throws(AccessRefusal) {
            switch action {
            case .makeUser(let user, let isForTrying):
                return try makeUser(user, isForTrying, stamp, in: project, view)
            case .identify(let link): return try link.decide(stamp, view)
            case .grant(let grant): return try grant.decide(stamp, in: project, view)
            case .revoke(let user, let entitlement):
                return try GrantAccess.revoke(entitlement, of: user, stamp, in: project, view)
            case .purchase(let purchase): return try purchase.decide(stamp, in: project, view)
            case .restore(let restore): return try restore.decide(stamp, in: project, view)
            case .setProperties(let user, let properties):
                return try AccessProperty.set(properties, of: user, stamp, view)
            case .undoTransfer(let id, let isDryRun):
                return try Transfer.undo(id, isDryRun: isDryRun, stamp, in: project, view)
            case .edit(let edit): return try edit.decide(in: project, view)
            }
        } catch {
            throw .access(error)
        }
    }

    private func makeUser<V: View>(
        _ user: Identity, _ isForTrying: Bool, _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(AccessRefusal) -> Decision {
        guard view.holder(of: user) == nil else { throw .userExists }
        var people = PeopleMaker(stamp)
        let made = AccessUser(people.make(user), id: user.value, madeAt: stamp.at, isForTrying: isForTrying)
        let tellsMilliseconds = Catalog.tellsMilliseconds(packed: view.document(Catalog.key(project)))
        return Decision(
            reply: .access(.user(made, tellsMilliseconds: tellsMilliseconds)),
            outcome: Outcome(kind: .accessUser, person: made.person, changes: people.changes + [made.put]))
    }
}

/// The answer to ``AccessCommand``.
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

/// Why a call about access was refused.
package enum AccessRefusal: Error, Equatable, Sendable {
    case userExists
    case noSuchUser
    /// The user that an identity was to be linked to is none.
    case identityOfNobody
    case identityRepeated
    /// The user has another identity, for ever.
    case userHasIdentity
    /// The identity is another user's.
    case identityTaken
    case noSuchEntitlement
    case grantInThePast
    case malformedPrice
    case unknownCurrency
    /// It is not said, or said twice, what the store should vouch for.
    case malformedStoreData
    /// The store has not vouched for a purchase, of which some user has told.
    case badReceipt(ReceiptFault, by: PersonID? = nil)
    /// The store cannot be asked now.
    case storeUnavailable
    /// The call says two things of who it comes from that cannot both be.
    case sessionMismatch
    case tooManyPurchases
    case tooManyGrants
    case noSuchTransfer
    /// What a transfer moved has moved again.
    case transferOutdated
    case noSuchProduct
    /// Entitlements that a product shall give have to be there first.
    case undefinedEntitlement(String)
    /// Products give the entitlement that is to be taken away.
    case entitlementInUse
    case noSuchDefinition
    /// Another product goes by that name in stores.
    case storeIDTaken
    case tooManyDefinitions
    /// A client's key has named a restore strategy that gives away more than the project's.
    case strategyNotAllowed

    /// Whether the journal keeps it.
    var isJournalled: Bool {
        if case .badReceipt = self { true } else { false }
    }

    /// The user that the refused call was about, where it was found out.
    var person: PersonID? {
        if case .badReceipt(_, let person) = self { person } else { nil }
    }

    /// A stable name, for programs and for the journal.
    package var code: String {
        switch self {
        case .userExists, .identityRepeated, .userHasIdentity, .identityTaken: "already_exists"
        case .noSuchUser, .identityOfNobody, .noSuchEntitlement, .noSuchTransfer, .noSuchProduct,
            .noSuchDefinition:
            "not_found"
        case .grantInThePast, .malformedPrice, .unknownCurrency, .malformedStoreData, .sessionMismatch,
            .undefinedEntitlement:
            "validation_error"
        case .badReceipt(let fault, _): "receipt_\(fault.name)"
        case .storeUnavailable: "store_unavailable"
        case .strategyNotAllowed: "strategy_not_allowed"
        case .tooManyPurchases, .tooManyGrants, .tooManyDefinitions: "too_many"
        case .transferOutdated, .entitlementInUse, .storeIDTaken: "conflict"
        }
    }
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

extension DocumentView {
    func accessUser(_ person: PersonID) -> AccessUser? {
        document(AccessUser.key(person)).flatMap { AccessUser(person, packed: $0) }
    }

    func purchase(_ id: PurchaseID) -> Purchase? { document(id.key).flatMap { Purchase(id, packed: $0) } }

    func catalog(of project: ProjectID) -> Catalog {
        document(Catalog.key(project)).flatMap(Catalog.init(packed:)) ?? Catalog()
    }
}

extension View {
    func accessUser(_ identity: Identity) -> AccessUser? { holder(of: identity).flatMap(accessUser) }

    func principals(_ session: AccessSession) throws(AccessRefusal) -> AccessPrincipals {
        do throws(AccessFault<Never>) {
            return try AccessPrincipals(session, holder: { holder(of: $0) }, document: { document($0) })
        } catch {
            switch error {
            case .refused(let refusal): throw refusal
            }
        }
    }
}
