/// A call that makes an install with the app's id and secret (spec/linking.md 1.5). The install has its own person, so that
/// rows from before a link belong to a person.
package struct MakeInstall: Act {
    package let app: AppID
    package let device: Install.Device
    package let thumbprint: String?
    package let hash: KeyedHash

    package init(app: AppID, device: Install.Device, thumbprint: String?, hash: KeyedHash) {
        self.app = app
        self.device = device
        self.thumbprint = thumbprint
        self.hash = hash
    }

    package static var kinds: [ActKind] { [.makeInstall] }
    package var subjects: Subjects { .none }
    package var byteCount: Int { 512 }

    /// Makes the install and its person. Throws `secretNotTaken` if the app accepts no installs with a secret, and
    /// `proofRequired` if the app requires a key. The settings are checked here, so that a changed setting applies from the
    /// next call.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<LinkingReply> {
        let settings = view.linkingSettings(of: project)
        guard settings[app].takesSecret else { throw .secretNotTaken }
        guard thumbprint != nil || !settings[app].requiresProof else { throw .proofRequired }
        let id = InstallID(next: stamp)
        let name = Identity(id, in: project, hash: hash)
        let install = Install(
            id, name.key, app: app, person: stamp.person, device, thumbprint: thumbprint, at: stamp.at)
        return Decision(
            .installMade(Session(install, stamp, settings), InstallStatus(install, nil, settings)),
            outcome: Outcome(
                kind: .makeInstall, person: stamp.person,
                changes: [
                    .personMade(stamp.person, at: stamp.seen),
                    .linked(stamp.person, name), install.put,
                ]))
    }
}

extension InstallID {
    /// The id of a new install: the number after the person that the call may make. The numbers of the next call are larger
    /// by at least one.
    init(next stamp: Stamp) { self.init(rawValue: stamp.person.next.rawValue) }
}

/// A call with which a back end links an install to the user with an external id (spec/linking.md 3.1).
package struct LinkInstall: Act {
    package let install: InstallID
    package let app: AppID
    package let external: Identity
    package let name: Identity

    package init(_ install: InstallID, app: AppID, to external: Identity, in project: ProjectID, hash: KeyedHash) {
        self.install = install
        self.app = app
        self.external = external
        name = Identity(install, in: project, hash: hash)
    }

    init(_ install: InstallID, app: AppID, to external: Identity, name: Identity) {
        self.install = install
        self.app = app
        self.external = external
        self.name = name
    }

    package static var kinds: [ActKind] { [.linkInstall] }
    package var subjects: Subjects { Subjects(mentions: [name.key], links: [external]) }
    package var byteCount: Int { 512 }

    /// Links the install to the user, and merges the install's person into the user if needed. Throws `notConfigured`,
    /// `installNotFound`, `installOfOtherApp`, `installDeleted`, `installDisabled`, `installDeactivated`,
    /// `linkedToOtherUser`, `installInUse`, and `linkedGroupFull`. The call merges and does not move rows, so that an undo
    /// can return the rows to the install's own person.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<LinkingReply> {
        let settings = view.linkingSettings(of: project)
        guard settings[app].isOn else { throw .notConfigured }
        let known = view.install(self.install, name.key)
        let tombstone = view.tombstone(of: name.key)
        // The app is checked before the state, because other apps must not learn the state.
        if let owner = known?.app ?? tombstone?.app, owner != app {
            throw settings[app].hidesForeignInstalls ? .installNotFound : .installOfOtherApp
        }
        guard var install = known else { throw tombstone == nil ? .installNotFound : .installDeleted }
        if view.isDeleted(install) { throw .installDeleted }
        if install.isDisabled { throw .installDisabled }
        let holder = view.holder(of: external)
        // Another call may have merged the two people.
        let own = install.user ?? install.person
        let isHolders = holder.map { view.areOne(own, $0) } ?? false
        if install.link == .external, !isHolders { throw .linkedToOtherUser }
        switch install.state {
        case .deactivated, .reset: throw .installDeactivated
        case .unlinked, .active, .blocked: break
        }
        switch install.link {
        case .external: return Decision(.linked(own))
        case .hard:
            if isHolders { return install.know(nil, external.key) }
            guard holder == nil else { throw .installInUse }
            guard view.externalKey(of: own) == nil else { throw .linkedToOtherUser }
            return install.know(external, external.key)
        case .none:
            var changes = InstallChanges(at: stamp.at)
            let user = view.linkedMember(of: holder ?? own) ?? holder ?? own
            if let holder {
                // The rows of the install join the user by a merge. The server rewrites nothing, so an undo is possible. If
                // the two people are one for another reason, the link makes a supporting merge.
                if !isHolders {
                    if view.reasonToKeepApart(own, holder) != nil { throw .installInUse }
                    let (joining, joined) = (view.group(of: install.person), view.group(of: holder))
                    if view.isFull(joining: joining, joined, view.strategy(of: project).guards.bounds) {
                        throw .linkedGroupFull
                    }
                }
                if install.person != holder, !view.areMerged(install.person, holder, by: .linking) {
                    let id = MergeID(rawValue: stamp.person.rawValue)
                    changes.add(.merged(Merge(id: id, from: install.person, into: holder, rule: .linking)))
                }
            } else {
                guard view.externalKey(of: own) == nil else { throw .linkedToOtherUser }
                changes.add(.linked(user, external))
            }
            install.externalKey = external.key
            return try install.join(user, .external, settings.policy, &changes, view)
        }
    }
}

extension Install {
    /// Gives an external id to the install's user: a new one, or the id of a member of the user's group.
    mutating func know(_ new: Identity?, _ key: IdentityKey) -> Decision<LinkingReply> {
        let user = user ?? person
        link = .external
        externalKey = key
        return Decision(
            .linked(user),
            outcome: Outcome(
                kind: .linkInstall, person: user, changes: new.map { [Change.linked(user, $0), put] } ?? [put]))
    }

    /// Removes the user of the install. Rows from a silence stay dropped.
    mutating func unlink(at moment: Instant) {
        (user, link, externalKey) = (nil, .none, nil)
        speak(at: moment)
        guard state != .reset else { return }
        (state, ending) = (.unlinked, nil)
    }

    /// Adds the install to a user's installs for good.
    mutating func join<V: DecisionFacts>(
        _ person: PersonID, _ link: Link, _ policy: ActivationPolicy, _ changes: inout InstallChanges, _ view: V
    ) throws(Refusal) -> Decision<LinkingReply> {
        (user, self.link) = (person, link)
        var user = view.linkedUser(person) ?? LinkedUser(of: person)
        try changes.activate(&self, &user, policy, reason: .linked, view)
        changes.put(self, user)
        return Decision(
            changes.reply(.linked(person)),
            outcome: Outcome(kind: .linkInstall, person: person, changes: changes.changes))
    }
}

/// A call that gives an install a user without an external id (spec/linking.md 2.3).
package struct LinkHard: Act {
    package let caller: LinkingCaller
    package init(_ caller: LinkingCaller) { self.caller = caller }

    package static var kinds: [ActKind] { [.linkInstall] }
    package var subjects: Subjects { Subjects(mentions: [caller.name.key]) }
    package var byteCount: Int { 512 }

    /// Makes the install's own person a user, and activates the install. Throws `notConfigured`, `installDisabled`, and the
    /// refusals of the install's token. An install with a user keeps it, so a repeated call changes nothing.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<LinkingReply> {
        let settings = view.linkingSettings(of: project)
        guard settings[caller.app].isOn else { throw .notConfigured }
        var install = try view.install(caller, settings)
        if install.isDisabled { throw .installDisabled }
        if let user = install.user { return Decision(.linked(user)) }
        var changes = InstallChanges(at: stamp.at)
        // An administrator may have merged the install's person with a user.
        install.externalKey = view.externalKey(of: install.person)
        let user = view.linkedMember(of: install.person) ?? install.person
        let link = install.externalKey == nil ? Install.Link.hard : .external
        return try install.join(user, link, settings.policy, &changes, view)
    }
}

extension ActKind {
    package static let makeInstall = ActKind(50, "make_install", undo: .never(.revokeInstead))
    package static let linkInstall = ActKind(51, "link_install", undo: .facts(needs: .consoleAct))
}
