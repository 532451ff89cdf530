/// The protection of a known user's group against a caller that names another user (spec/taking-back.md, decision 8). Identify and login have
/// it in ``Resolution``.
extension DecisionFacts {
    /// Whether a person is in the group of a known user that is another user than the caller's. Such a person is no anonymous profile any
    /// more: an administrator may join two known users, and a client may not. The group of people that an undo has parted from the
    /// caller's user is another user's as well, also with an equal user id.
    ///
    /// - Parameters:
    ///   - user: the user whom the caller names.
    ///   - equals: the user's id in other dialects (``Strategy/equalUserIDs(_:in:_:)``).
    func isOfOtherUser(
        _ person: PersonID, than user: IdentityKey, _ equals: [IdentityKey], in project: ProjectID
    ) -> Bool {
        let strategy = strategy(of: project)
        let group = group(of: person)
        guard strategy.rules.protectsKnown,
            totals(of: group).identities.contains(where: { $0.value > 0 && strategy.makesGroupKnown($0.key) })
        else { return false }
        func holders(of key: IdentityKey) -> [PersonID] {
            var holders: [PersonID] = []
            forEachHolder(of: key) { holders.append(id(of: $0)) }
            return holders
        }
        func isInGroup(_ holder: PersonID) -> Bool { self.group(of: holder).root == group.root }
        let own = holders(of: user)
        if own.contains(where: isInGroup) { return false }
        guard equals.contains(where: { holders(of: $0).contains(where: isInGroup) }) else { return true }
        return own.contains { SameUserID.areParted($0, person, self, membersAtMost: SameUserID.askedAtMost) }
    }
}

extension Strategy {
    /// The types with which IDSync names a user: the login types, or the customer id in a strategy without login types.
    var userTypes: IdentityTypeSet { login.isEmpty ? [.customerID] : login }

    /// Whether an identity of a type makes a group known: an identity that names a user of IDSync, or a user id of another dialect.
    func makesGroupKnown(_ type: IdentityType) -> Bool {
        userTypes.contains(type) || SameUserID.typesOfOtherDialects.contains(type)
    }

    /// The user ids of other dialects that belong to the human with a user id; none if equal user ids are not one human's. A value that is
    /// blocked for a type names nobody there.
    package func equalUserIDs(_ user: Identity, in project: ProjectID, _ hash: KeyedHash) -> [IdentityKey] {
        guard guards.joinsSameUserIDs, !user.value.isEmpty, !blockedValues.contains(user.value, user.type) else {
            return []
        }
        return SameUserID.types.filter { $0 != user.type && !blockedValues.contains(user.value, $0) }
            .map { IdentityKey($0, user.value.utf8.span, in: project, hash: hash) }
    }
}
