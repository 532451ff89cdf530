/// The protection of a known user's group against a caller that names another user (spec/taking-back.md, decision 8). Identify and login have
/// it in ``Resolution``.
extension DecisionFacts {
    /// Whether a person is in the group of a known user that is another user than the caller's. Such a person is no anonymous profile any
    /// more: an administrator may join two known users, and a client may not.
    ///
    /// - Parameter equals: the caller's user id in other dialects (``Strategy/equalUserIDs(_:in:_:)``).
    func isOfOtherUser(_ person: PersonID, than equals: [IdentityKey], in project: ProjectID) -> Bool {
        let strategy = strategy(of: project)
        let group = group(of: person)
        guard strategy.rules.protectsKnown,
            totals(of: group).identities.contains(where: { $0.value > 0 && strategy.makesKnown($0.key) })
        else { return false }
        return !equals.contains { key in
            var isHeld = false
            forEachHolder(of: key) { isHeld = isHeld || self.group(of: id(of: $0)).root == group.root }
            return isHeld
        }
    }
}

extension Strategy {
    /// The user ids of other dialects that belong to the human with a user id; none if equal user ids are not one human's.
    package func equalUserIDs(_ user: Identity, in project: ProjectID, _ hash: KeyedHash) -> [IdentityKey] {
        guard guards.joinsSameUserIDs, !user.value.isEmpty, !blockedValues.contains(user.value, user.type) else {
            return []
        }
        return SameUserID.types.filter { $0 != user.type }
            .map { IdentityKey($0, user.value.utf8.span, in: project, hash: hash) }
    }
}
