/// A call that gives an install its next tokens.
package struct RefreshTokens: Act {
    package let caller: LinkingCaller
    package let generation: UInt64

    package init(_ caller: LinkingCaller, generation: UInt64) {
        self.caller = caller
        self.generation = generation
    }

    package static var kinds: [ActKind] { [.refreshTokens] }
    package var subjects: Subjects { Subjects(mentions: [caller.name.key]) }
    package var byteCount: Int { 512 }

    /// Gives the install its next tokens. Throws `invalidToken`, `installDeleted` and `proofRequired`. An old token revokes
    /// the whole family and answers `tokenReused`: two devices then have the tokens, and the server cannot know the thief
    /// (RFC 9700). An install with a lost answer gets its tokens again.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<LinkingReply> {
        let settings = view.linkingSettings(of: project)
        var install = try view.install(caller, settings)
        let user = install.user.flatMap { view.linkedUser($0) }
        func answer(_ outcome: Outcome?) -> Decision<LinkingReply> {
            let reply = LinkingReply.refreshed(
                Session(install, stamp, settings), InstallStatus(install, user, settings))
            return Decision(reply, outcome: outcome)
        }
        switch install.tokens.turn(generation) {
        case .unknown: throw .invalidToken
        case .again: return answer(nil)
        case .next:
            install.tokens.generation += 1
            install.lastSeen = stamp.at
            return answer(Outcome(kind: .refreshTokens, person: install.person, changes: [install.put]))
        case .reused:
            install.tokens.isRevoked = true
            return Decision(
                .refused(.tokenReused),
                outcome: Outcome(kind: .refreshTokens, person: install.person, changes: [install.put]))
        }
    }
}

/// A call that answers the state of an install. A waiting install becomes active if there is room (spec/linking.md 3.4).
/// After a lower limit, the installs over the limit begin to wait.
package struct CheckInstall: Act {
    package let caller: LinkingCaller
    package init(_ caller: LinkingCaller) { self.caller = caller }

    package static var kinds: [ActKind] { [.changeInstall] }
    package var subjects: Subjects { Subjects(mentions: [caller.name.key]) }
    package var byteCount: Int { 512 }

    /// Answers the state of the install, and applies the present policy to the user's installs. Throws `invalidToken` and
    /// `proofRequired`. If the user was deleted, the call answers this state and is not refused, because the install needs
    /// the state.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<LinkingReply> {
        let settings = view.linkingSettings(of: project)
        var install: Install
        do throws(Refusal) {
            install = try view.install(caller, settings)
        } catch {
            // The install must learn that its user was deleted.
            guard error == .installDeleted else { throw error }
            return Decision(.status(InstallStatus(deleted: caller.install, settings)))
        }
        guard var user = install.user.flatMap({ view.linkedUser($0) }) else {
            return Decision(.status(InstallStatus(install, nil, settings)))
        }
        var changes = InstallChanges(at: stamp.at)
        guard try changes.renew(&install, &user, settings.policy, view) else {
            return Decision(.status(InstallStatus(install, user, settings)))
        }
        changes.put(install, user)
        return Decision(
            changes.reply(.status(InstallStatus(install, user, settings))),
            outcome: Outcome(kind: .changeInstall, person: user.person, changes: changes.changes))
    }
}

/// A call that uploads the rows of an install. The rows belong to the install's own person, and reads show them with its
/// user.
package struct SubmitRows: Act {
    package let caller: LinkingCaller
    package let rows: [Row]

    package init(_ caller: LinkingCaller, rows: [Row]) {
        self.caller = caller
        self.rows = rows
    }

    package static var kinds: [ActKind] { [.submitRows] }
    package var subjects: Subjects { Subjects(mentions: [caller.name.key]) }
    package var byteCount: Int { rows.reduce(256) { $0 + 64 + $1.body.count } }

    /// Adds the rows to the install's person. Throws `invalidToken`, `installDeleted`, `proofRequired`, `installDisabled`,
    /// and `installDeactivated` after the grace time. Rows from a silence are dropped and counted, because the active install
    /// has sent rows for the same time.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<LinkingReply> {
        let settings = view.linkingSettings(of: project)
        var install = try view.install(caller, settings)
        if install.isDisabled { throw .installDisabled }
        var changes = InstallChanges(at: stamp.at)
        var user = install.user.flatMap { view.linkedUser($0) }
        if var trimmed = user, changes.trim(&install, &trimmed, settings.policy, view) {
            changes.put(install, trimmed)
            user = trimmed
        }
        let isTooLate = install.isTooLate(at: stamp.at, graceSeconds: settings.graceSeconds)
        // A waiting install may become active again. Its rows are counted as dropped, so that it does not stop.
        if isTooLate, install.state != .blocked { throw .installDeactivated }
        var submitted = LinkingReply.Submitted()
        var late = LateRows()
        // A new user may have the external id of a deleted user. Rows from before the erasure do not belong to the new user.
        let rows = late.filter(rows, by: [install.externalKey].compactMap { $0 }, view)
        submitted.dropped = late.dropped
        var recognized = RowHashSet(capacity: rows.count)
        for row in rows {
            // Another install was active at that time and has sent the same rows.
            if isTooLate || install.silences.contains(where: { $0.contains(row.at) }) {
                submitted.dropped += 1
            } else if let hash = row.recognition, view.knowsRow(hash) || !recognized.insert(hash) {
                submitted.repeated += 1
            } else {
                submitted.accepted += 1
                changes.add(.rowAdded(install.person, row))
            }
        }
        let reply = changes.reply(.submitted(submitted, InstallStatus(install, user, settings)))
        for change in late.changes { changes.add(change) }
        guard !changes.changes.isEmpty else { return Decision(reply) }
        return Decision(
            reply, outcome: Outcome(kind: .submitRows, person: install.person, changes: changes.changes))
    }
}

/// A call that ends an install, after its device has removed the user.
package struct ResetInstall: Act {
    package let caller: LinkingCaller
    package init(_ caller: LinkingCaller) { self.caller = caller }

    package static var kinds: [ActKind] { [.resetInstall] }
    package var subjects: Subjects { Subjects(mentions: [caller.name.key]) }
    package var byteCount: Int { 512 }

    /// Ends the install, and frees its place. Throws `invalidToken`, `installDeleted` and `proofRequired`. A repeated reset
    /// succeeds, because the install may have lost the first answer.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<LinkingReply> {
        // The first answer may have been lost.
        if let install = view.install(caller.install, caller.name.key), install.state == .reset,
            install.app == caller.app,
            install.tokens.id == caller.family, install.thumbprint == caller.thumbprint
        {
            return Decision(.reset(install.id))
        }
        var install = try view.install(caller, view.linkingSettings(of: project))
        var changes = InstallChanges(at: stamp.at)
        install.reset(at: stamp.at)
        var user = install.user.flatMap { view.linkedUser($0) }
        if user?.remove(install.id) == true {
            changes.announce(.deactivated, of: install, epoch: user?.epoch ?? 0, reason: .reset)
        } else {
            user = nil
        }
        changes.put(install, user)
        return Decision(
            changes.reply(.reset(install.id)),
            outcome: Outcome(
                kind: .resetInstall, person: install.user ?? install.person, changes: changes.changes))
    }
}

/// A call with which an operator disables or enables an install.
package struct DisableInstall: Act {
    package let install: InstallID
    package let isDisabled: Bool
    package let name: Identity

    package init(_ install: InstallID, isDisabled: Bool, in project: ProjectID, hash: KeyedHash) {
        self.install = install
        name = Identity(install, in: project, hash: hash)
        self.isDisabled = isDisabled
    }

    package static var kinds: [ActKind] { [.changeInstall] }
    package var subjects: Subjects { Subjects(mentions: [name.key]) }
    package var byteCount: Int { 512 }

    /// Disables or enables the install. A disabled install gives its place to another install, and an enabled install may
    /// get a place. Throws `installNotFound` and `installDeleted`. A second equal call changes nothing.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<LinkingReply> {
        let settings = view.linkingSettings(of: project)
        guard var install = view.install(install, name.key), view.directory.apps[install.app]?.project == project
        else { throw view.wasDeleted(name.key) ? .installDeleted : .installNotFound }
        if view.isDeleted(install) { throw .installDeleted }
        var user = install.user.flatMap { view.linkedUser($0) }
        guard install.isDisabled != isDisabled else {
            return Decision(.status(InstallStatus(install, user, settings)))
        }
        var changes = InstallChanges(at: stamp.at)
        changes.disable(&install, &user, isDisabled, settings.policy, view)
        return Decision(
            changes.reply(.status(InstallStatus(install, user, settings))),
            outcome: Outcome(
                kind: .changeInstall, person: install.user ?? install.person, changes: changes.changes))
    }
}

extension ActKind {
    package static let refreshTokens = ActKind(54, "refresh_tokens", undo: .never(.revokeInstead))
    package static let changeInstall = ActKind(55, "change_install", undo: .facts(needs: .consoleAct))
    package static let submitRows = ActKind(56, "submit_rows", undo: .never(.rowsStay))
    package static let resetInstall = ActKind(57, "reset_install", undo: .never(.secretGone))
}
