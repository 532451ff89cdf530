/// A call that links the app's name of a signed-in user to a user, once and for ever (spec/entitlements.md 1.3, and 2.4 rule
/// 2).
package struct LinkAccessIdentity: Act {
    package let identity: Identity
    /// Nil for a call that makes a new user with the id of ``newUser``.
    package let user: Identity?
    package let newUser: Identity
    /// The install of the call; nil for the user's own install.
    package let install: Identity?
    /// Whether the call answers the owner of an identity that another user has. Otherwise the call is refused.
    package let findsOwner: Bool
    /// The same user's id in other dialects (``Strategy/equalUserIDs(_:in:_:)``).
    package let equals: [IdentityKey]

    package init(
        _ identity: Identity, user: Identity?, newUser: Identity, install: Identity?, findsOwner: Bool = false,
        equals: [IdentityKey] = []
    ) {
        self.equals = equals
        self.identity = identity
        self.user = user
        self.newUser = newUser
        self.install = install
        self.findsOwner = findsOwner
    }

    package static var kinds: [ActKind] { [.accessIdentity] }
    /// The decision needs the value of the identity, which no kept act has. It reads a group only to refuse.
    package static var readsMerges: Bool { false }
    package var subjects: Subjects {
        Subjects(speaksFor: [identity, user, install].compactMap { $0 }, mentions: equals)
    }
    package var byteCount: Int { 1024 }

    /// Links the identity to the user, or to a new user. Throws `identityOfNobody` for an unknown user, `identityRepeated`,
    /// `userHasIdentity`, also for a user in the group of another known user, `identityTaken`, and `sessionMismatch` for an unknown
    /// install. A link never changes, because purchases belong to the identity, and a login must not move them.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<AccessReply> {
        let owner = view.accessUser(identity)
        if findsOwner, let owner {
            return Decision(.identified(identity: identity.value, user: owner.id))
        }
        var people = PeopleMaker(stamp)
        var target: AccessUser
        if let user {
            guard let found = view.accessUser(user) else { throw .identityOfNobody }
            if found.identity?.hasSameBytes(as: identity.value) == true { throw .identityRepeated }
            if found.identity != nil, !findsOwner { throw .userHasIdentity }
            guard owner == nil else { throw .identityTaken }
            if found.identity == nil, view.isOfOtherUser(found.person, than: identity.key, equals, in: project) {
                throw .userHasIdentity
            }
            target =
                found.identity == nil
                ? found
                : AccessUser(
                    people.make(newUser), id: newUser.value, madeAt: stamp.at, isForTrying: found.isForTrying,
                    device: found.device)
        } else {
            guard owner == nil else { throw .identityTaken }
            target = AccessUser(
                people.make(newUser), id: newUser.value, madeAt: stamp.at,
                isForTrying: identity.type == AccessWorld.sandbox.identityType)
        }
        var payer: AccessUser? = user == nil ? nil : target
        if let install {
            guard let found = view.accessUser(install) else { throw .sessionMismatch }
            payer = found
        }
        target.identity = identity.value
        var changes = people.changes + [.linked(target.person, identity)]
        if let payer { changes += target.takeOver(paidBy: payer, stamp, in: project, view) }
        changes.append(target.put)
        let answer = AccessReply.identified(identity: identity.value, user: target.id)
        return Decision(
            .kept(answer, .identified(target.person, payer: payer?.person)),
            outcome: Outcome(kind: .accessIdentity, person: target.person, changes: changes))
    }
}

extension AccessUser {
    /// Gives the purchases without owners of the payer's store account to a new identity. A frozen purchase stays without.
    mutating func takeOver<V: DocumentFacts>(
        paidBy payer: AccessUser, _ stamp: Stamp, in project: ProjectID, _ view: V
    ) -> [Change] {
        var changes: [Change] = []
        let catalog = view.catalog(of: project)
        for var purchase in payer.paidPurchases(view) where purchase.owners.isEmpty && !purchase.isFrozen(catalog) {
            guard owned.count < AccessUser.purchasesPerUser else { break }
            purchase.own([person], at: stamp.at)
            if purchase.reporter.rawValue == 0 { purchase.reporter = person }
            owned.append(purchase.id)
            changes.append(purchase.put)
        }
        return changes
    }

    /// The purchases of the install's store account.
    func paidPurchases<V: DocumentFacts>(_ view: V) -> [Purchase] {
        let principals = AccessPrincipals(loggedOut: self)
        let purchases: [Purchase] = principals.purchases { view.document($0) }
        return purchases.filter { principals.pays($0) }
    }
}

extension AccessPrincipals {
    /// The principals of an install without a signed-in user.
    init(loggedOut install: AccessUser) {
        user = install
        self.install = install
        identity = nil
        isExact = true
    }
}

extension ActKind {
    package static let accessIdentity = ActKind(41, "link_access_identity", undo: .facts(needs: .consoleAct))
}
