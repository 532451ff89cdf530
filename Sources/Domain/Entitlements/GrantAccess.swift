/// A call that gives access by hand (spec/entitlements.md 1.4).
package struct GrantAccess: Act {
    package let user: Identity
    package let entitlement: String
    /// Nil for ever.
    package let expiresAt: Instant?

    package init(_ entitlement: String, to user: Identity, expiresAt: Instant?) {
        self.user = user
        self.entitlement = entitlement
        self.expiresAt = expiresAt
    }

    package static var kinds: [ActKind] { [.grantAccess] }
    package var subjects: Subjects { Subjects(speaksFor: [user]) }
    package var byteCount: Int { 1024 }

    /// Gives the access; refused where the user or the entitlement does not exist, the end is in the past, or the user has
    /// as many grants as a user may.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<AccessReply> {
        guard var user = view.accessUser(user) else { throw .noSuchUser }
        guard view.catalog(of: project).entitlement(entitlement) != nil else { throw .noSuchEntitlement }
        if let expiresAt, expiresAt <= stamp.at { throw .grantInThePast }
        // Whoever grants twice to the same principal gets what was granted first.
        let isOfIdentity = user.identity != nil
        func isTheSame(_ grant: AccessUser.Grant) -> Bool {
            grant.isOfIdentity == isOfIdentity && grant.entitlement.hasSameBytes(as: entitlement)
        }
        if let known = user.grants.first(where: { isTheSame($0) && $0.isActive(at: stamp.at) }) {
            return Decision(.granted(known))
        }
        user.grants.removeAll(where: isTheSame)
        guard user.grants.count < AccessUser.grantsPerUser else { throw .tooManyGrants }
        let grant = AccessUser.Grant(
            entitlement: entitlement, startedAt: stamp.at, expiresAt: expiresAt, isOfIdentity: isOfIdentity)
        user.grants.append(grant)
        let event = AccessEvent.granted(entitlement: entitlement).row(stamp)
        return Decision(
            .granted(grant),
            outcome: Outcome(
                kind: .grantAccess, person: user.person, changes: [user.put, .rowAdded(user.person, event)]))
    }
}

/// A call that takes back access that was given by hand.
package struct RevokeAccess: Act {
    package let user: Identity
    package let entitlement: String

    package init(_ entitlement: String, of user: Identity) {
        self.user = user
        self.entitlement = entitlement
    }

    package static var kinds: [ActKind] { [.revokeAccess] }
    package var subjects: Subjects { Subjects(speaksFor: [user]) }
    package var byteCount: Int { 1024 }

    /// Takes the access back; refused where the user or the entitlement does not exist. Where nothing was given by hand,
    /// nothing changes.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<AccessReply> {
        guard var user = view.accessUser(user) else { throw .noSuchUser }
        // What was given can be taken back also where it is no longer defined.
        let others = user.grants.filter { !$0.entitlement.hasSameBytes(as: entitlement) }
        guard others.count < user.grants.count else {
            guard view.catalog(of: project).entitlement(entitlement) != nil else { throw .noSuchEntitlement }
            return Decision(.revoked)
        }
        user.grants = others
        let event = AccessEvent.revoked(entitlement: entitlement).row(stamp)
        return Decision(
            .revoked,
            outcome: Outcome(
                kind: .revokeAccess, person: user.person, changes: [user.put, .rowAdded(user.person, event)]))
    }
}

extension ActKind {
    package static let grantAccess = ActKind(42, "grant_access")
    package static let revokeAccess = ActKind(43, "revoke_access")
}
