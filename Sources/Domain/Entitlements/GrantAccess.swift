/// A call that gives access by hand (spec/entitlements.md 1.4).
package struct GrantAccess: Sendable {
    package let user: Identity
    package let entitlement: String
    /// Nil for ever.
    package let expiresAt: Instant?

    package init(_ entitlement: String, to user: Identity, expiresAt: Instant?) {
        self.user = user
        self.entitlement = entitlement
        self.expiresAt = expiresAt
    }

    func decide<V: View>(_ stamp: Stamp, in project: ProjectID, _ view: V) throws(AccessRefusal) -> Decision {
        guard var user = view.accessUser(user) else { throw .noSuchUser }
        guard view.catalog(of: project).entitlement(entitlement) != nil else { throw .noSuchEntitlement }
        if let expiresAt, expiresAt <= stamp.at { throw .grantInThePast }
        // Whoever grants twice to the same principal gets what was granted first.
        let isOfIdentity = user.identity != nil
        func isTheSame(_ grant: AccessUser.Grant) -> Bool {
            grant.isOfIdentity == isOfIdentity && grant.entitlement.hasSameBytes(as: entitlement)
        }
        if let known = user.grants.first(where: { isTheSame($0) && $0.isActive(at: stamp.at) }) {
            return Decision(reply: .access(.granted(known)))
        }
        user.grants.removeAll(where: isTheSame)
        guard user.grants.count < AccessUser.grantsPerUser else { throw .tooManyGrants }
        let grant = AccessUser.Grant(
            entitlement: entitlement, startedAt: stamp.at, expiresAt: expiresAt, isOfIdentity: isOfIdentity)
        user.grants.append(grant)
        let event = AccessEvent.granted(entitlement: entitlement).row(stamp)
        return Decision(
            reply: .access(.granted(grant)),
            outcome: Outcome(
                kind: .grantAccess, person: user.person, changes: [user.put, .rowAdded(user.person, event)]))
    }

    /// Takes back what was given by hand; where nothing was, nothing changes.
    static func revoke<V: View>(
        _ entitlement: String, of identity: Identity, _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(AccessRefusal) -> Decision {
        guard var user = view.accessUser(identity) else { throw .noSuchUser }
        // What was given can be taken back also where it is no longer defined.
        let others = user.grants.filter { !$0.entitlement.hasSameBytes(as: entitlement) }
        guard others.count < user.grants.count else {
            guard view.catalog(of: project).entitlement(entitlement) != nil else { throw .noSuchEntitlement }
            return Decision(reply: .access(.revoked))
        }
        user.grants = others
        let event = AccessEvent.revoked(entitlement: entitlement).row(stamp)
        return Decision(
            reply: .access(.revoked),
            outcome: Outcome(
                kind: .revokeAccess, person: user.person, changes: [user.put, .rowAdded(user.person, event)]))
    }
}
