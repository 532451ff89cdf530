/// A call that grants access (spec/entitlements.md 1.4).
package struct GrantAccess: Act {
    package let user: Identity
    package let entitlement: String
    /// The end of the grant; nil for a grant without an end.
    package let expiresAt: Instant?
    /// The reason, in the caller's words.
    package let reason: String?

    package init(_ entitlement: String, to user: Identity, expiresAt: Instant?, reason: String? = nil) {
        self.user = user
        self.entitlement = entitlement
        self.expiresAt = expiresAt
        self.reason = reason
    }

    package static var kinds: [ActKind] { [.grantAccess] }
    package var subjects: Subjects { Subjects(speaksFor: [user]) }
    package var byteCount: Int { 1024 }

    /// Grants the access. Throws `noSuchUser`, `noSuchEntitlement`, `grantInThePast`, or `tooManyGrants` at the user's limit.
    /// A grant to the same principal that is still active stays as it is, so a repeated call changes nothing.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<AccessReply> {
        guard var user = view.accessUser(user) else { throw .noSuchUser }
        guard view.catalog(of: project).entitlement(entitlement) != nil else { throw .noSuchEntitlement }
        if let expiresAt, expiresAt <= stamp.at { throw .grantInThePast }
        // A second grant to the same principal answers the first grant.
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
                kind: .grantAccess, person: user.person, changes: [user.put, .rowAdded(user.person, event)],
                note: reason))
    }
}

/// A call that ends granted access.
package struct RevokeAccess: Act {
    package let user: Identity
    package let entitlement: String
    /// The reason, in the caller's words.
    package let reason: String?

    package init(_ entitlement: String, of user: Identity, reason: String? = nil) {
        self.user = user
        self.entitlement = entitlement
        self.reason = reason
    }

    package static var kinds: [ActKind] { [.revokeAccess] }
    package var subjects: Subjects { Subjects(speaksFor: [user]) }
    package var byteCount: Int { 1024 }

    /// Ends the grants of the entitlement. Throws `noSuchUser` or `noSuchEntitlement`. Without a grant nothing changes,
    /// because purchases are not affected by this call.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<AccessReply> {
        guard var user = view.accessUser(user) else { throw .noSuchUser }
        // A grant can be ended also if its entitlement is no longer defined.
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
                kind: .revokeAccess, person: user.person, changes: [user.put, .rowAdded(user.person, event)],
                note: reason))
    }
}

extension ActKind {
    package static let grantAccess = ActKind(42, "grant_access", undo: .facts(needs: .consoleAct))
    package static let revokeAccess = ActKind(43, "revoke_access", undo: .facts(needs: .consoleAct))
}
