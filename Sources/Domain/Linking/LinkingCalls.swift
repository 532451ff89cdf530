/// The install of a call, as its token names it.
package struct LinkingCaller: Sendable {
    package let install: InstallID
    package let app: AppID
    /// The token family of the token.
    package let family: Int64
    /// The thumbprint of the key that the call proved; nil without a proof.
    package let thumbprint: String?
    /// The identity of the install's id.
    package let name: Identity

    package init(
        _ install: InstallID, app: AppID, family: Int64, thumbprint: String?, in project: ProjectID, hash: KeyedHash
    ) {
        self.install = install
        self.app = app
        self.family = family
        self.thumbprint = thumbprint
        name = Identity(install, in: project, hash: hash)
    }

    init(_ install: InstallID, app: AppID, family: Int64, thumbprint: String?, name: Identity) {
        self.install = install
        self.app = app
        self.family = family
        self.thumbprint = thumbprint
        self.name = name
    }
}

extension Identity {
    package init(_ install: InstallID, in project: ProjectID, hash: KeyedHash) {
        self.init(.linkingInstallID, install.text, in: project, hash: hash)
    }
}

extension DocumentFacts {
    func install(_ id: InstallID, _ name: IdentityKey) -> Install? {
        document(Install.key(of: name)).flatMap { Install(id, name, packed: $0) }
    }

    func install(_ live: LinkedUser.Live) -> Install? { install(live.install, live.name) }

    func linkedUser(_ person: PersonID) -> LinkedUser? {
        document(LinkedUser.key(of: person)).flatMap { LinkedUser(of: person, packed: $0) }
    }

    /// The install with a name. The id of its token family equals the name, so the install's id is not needed.
    func install(named name: IdentityKey) -> Install? {
        guard let packed = document(Install.key(of: name)),
            let install = Install(InstallID(rawValue: 0), name, packed: packed)
        else { return nil }
        return Install(InstallID(rawValue: install.tokens.id), name, packed: packed)
    }
}

extension DecisionFacts {
    func linkingSettings(of project: ProjectID) -> LinkingSettings {
        var settings = LinkingSettings(document: document(LinkingSettings.key(of: project)))
        settings.policy = strategy(of: project).activation ?? settings.formerPolicy
        return settings
    }

    /// The names of one person's installs, without the installs of its group.
    func installs(of person: PersonID) -> [IdentityKey] { names(.linkingInstallID, of: person) }

    private func names(_ type: IdentityType, of person: PersonID) -> [IdentityKey] {
        guard let place = self.person(person) else { return [] }
        var names: [IdentityKey] = []
        forEachIdentity(of: place) { held, key in
            if held == type { names.append(key) }
            return true
        }
        return names
    }

    /// The external id of a person's group; nil if no member has one.
    func externalKey(of person: PersonID) -> IdentityKey? {
        if let own = names(.linkingExternalID, of: person).first { return own }
        let group = group(of: person)
        guard group.count > 1, hasExternalID(group) else { return nil }
        for member in group.members {
            if let key = names(.linkingExternalID, of: member).first { return key }
        }
        return nil
    }

    /// Whether a member of a group has an external id.
    func hasExternalID(_ group: Group) -> Bool {
        totals(of: group).identities[.linkingExternalID, default: 0] > 0
    }

    /// Whether a member of a group has active or waiting installs.
    func hasLiveInstalls(_ group: Group) -> Bool {
        let members: LinkedMembers = fold(.linkedUser, of: group)
        return members.hasLive
    }

    /// The member of a person's group that keeps the installs: a member with installs, or else a user.
    func linkedMember(of person: PersonID) -> PersonID? {
        let members: LinkedMembers = fold(.linkedUser, of: group(of: person))
        return members.first(for: person)
    }

    /// The refusal of a merge that the Linking dialect forbids: a user has one external id and one list of active installs.
    func reasonToKeepApart(_ one: PersonID, _ other: PersonID) -> Refusal? {
        let groups = [group(of: one), group(of: other)]
        if groups.allSatisfy(hasExternalID) { return .bothHaveExternalIDs }
        return groups.allSatisfy(hasLiveInstalls) ? .bothHaveInstalls : nil
    }

    /// Whether the user of an existing install was deleted.
    func isDeleted(_ install: Install) -> Bool { install.user.map { linkedUser($0) == nil } ?? false }

    /// Whether an install was deleted together with its person.
    func wasDeleted(_ name: IdentityKey) -> Bool { tombstone(of: name) != nil }

    /// The install of a call. Throws `installDeleted`, `invalidToken` and `proofRequired`.
    func install(_ caller: LinkingCaller, _ settings: LinkingSettings) throws(Refusal) -> Install {
        guard let install = install(caller.install, caller.name.key) else {
            throw wasDeleted(caller.name.key) ? .installDeleted : .invalidToken
        }
        guard install.app == caller.app, install.tokens.id == caller.family else { throw .invalidToken }
        if isDeleted(install) { throw .installDeleted }
        guard !install.tokens.isRevoked else { throw .invalidToken }
        // An install with a key must prove the key. If the app requires keys, every install has a key.
        guard install.thumbprint == caller.thumbprint, install.thumbprint != nil || !settings[caller.app].requiresProof
        else { throw .proofRequired }
        return install
    }
}

/// The changes of installs in one call: the documents of installs and users, and the events.
struct InstallChanges {
    private(set) var changes: [Change] = []
    private(set) var events: [InstallEvent] = []
    let moment: Instant

    init(at moment: Instant) { self.moment = moment }

    mutating func add(_ change: Change) { changes.append(change) }

    /// Adds an event of an install to a person's timeline and to the feed.
    mutating func announce(
        _ kind: InstallEvent.Kind, of install: Install, epoch: UInt64, reason: InstallEvent.Reason, by: InstallID? = nil
    ) {
        let person = install.user ?? install.person
        let event = InstallEvent(
            kind: kind, reason: reason, install: install.id, person: person, device: install.device.deviceClass, by: by,
            epoch: epoch)
        events.append(event)
        add(.rowAdded(person, Row(.install, at: moment, body: event.json)))
    }

    /// The answer of the call with its events.
    func reply(_ reply: LinkingReply) -> LinkingReply {
        (events.isEmpty ? reply : .telling(reply, events))
    }

    /// Activates an install or makes it wait, and replaces other installs.
    mutating func activate<V: DocumentFacts>(
        _ install: inout Install, _ user: inout LinkedUser, _ policy: ActivationPolicy, reason: InstallEvent.Reason,
        _ view: V
    ) throws(Refusal) {
        let before = user.active.count
        let device = install.device.deviceClass
        let admitted = user.admit(install, policy)
        // After a lower limit, the old number of active installs may remain, but it must not grow.
        guard user.active.count <= max(policy.limit, before) else { throw .multipleInstallsActive }
        install.epoch = user.epoch
        if admitted.isActive {
            install.state = .active
            install.ending = nil
            install.speak(at: moment)
        } else {
            install.state = .blocked
            install.fallSilent(at: moment)
            let stronger = user.live.last { $0.takesPlace }?.device
            install.ending = Install.Ending(reason: .blocked, by: stronger, at: moment)
        }
        for live in admitted.leaving + admitted.expired {
            guard var other = view.install(live) else { continue }
            other.state = .deactivated
            other.fallSilent(at: moment)
            other.ending = Install.Ending(reason: .superseded, by: device, at: moment)
            add(other.put)
            announce(.deactivated, of: other, epoch: user.epoch, reason: .superseded, by: install.id)
        }
        announce(admitted.isActive ? .activated : .blocked, of: install, epoch: user.epoch, reason: reason)
    }

    /// Makes the active installs over the limit wait. Returns whether there were any.
    mutating func trim<V: DocumentFacts>(
        _ install: inout Install, _ user: inout LinkedUser, _ policy: ActivationPolicy, _ view: V
    ) -> Bool {
        let trimmed = user.trim(policy)
        let device = user.live.last { $0.takesPlace }?.device
        for (live, isExpired) in trimmed.waiting.map({ ($0, false) }) + trimmed.expired.map({ ($0, true) }) {
            let isOwn = live.install == install.id
            guard var other = isOwn ? install : view.install(live) else { continue }
            other.state = isExpired ? .deactivated : .blocked
            other.epoch = user.epoch
            other.fallSilent(at: moment)
            other.ending = Install.Ending(reason: isExpired ? .superseded : .blocked, by: device, at: moment)
            announce(isExpired ? .deactivated : .blocked, of: other, epoch: user.epoch, reason: .limited)
            if isOwn { install = other } else { add(other.put) }
        }
        return !trimmed.waiting.isEmpty || !trimmed.expired.isEmpty
    }

    /// Makes the active installs over the limit wait, or else activates a waiting install if there is room. Returns whether
    /// anything changed.
    mutating func renew<V: DocumentFacts>(
        _ install: inout Install, _ user: inout LinkedUser, _ policy: ActivationPolicy, _ view: V
    ) throws(Refusal) -> Bool {
        if trim(&install, &user, policy, view) { return true }
        guard install.state == .blocked, !install.isDisabled, user.hasRoom(policy) else { return false }
        try activate(&install, &user, policy, reason: .promoted, view)
        return true
    }

    /// Disables or enables an install. Another install may have become active in between. Then the policy decides which of
    /// the two stays active.
    mutating func disable<V: DocumentFacts>(
        _ install: inout Install, _ user: inout LinkedUser?, _ isDisabled: Bool, _ policy: ActivationPolicy, _ view: V
    ) {
        install.isDisabled = isDisabled
        announce(isDisabled ? .disabled : .enabled, of: install, epoch: user?.epoch ?? 0, reason: .byOperator)
        guard var changed = user, changed.disable(install.id, isDisabled) else {
            put(install, nil)
            return
        }
        _ = trim(&install, &changed, policy, view)
        put(install, changed)
        user = changed
    }

    /// Detaches the installs that the undone merge had attached. If other merges connect the people, nothing is detached.
    mutating func part<V: DecisionFacts>(_ merge: Merge, _ view: V) {
        part(merge, in: view.group(of: merge.from), view) { view.installs(of: $0) }
    }

    /// - Parameters:
    ///   - group: the group with the merge.
    ///   - view: gives the documents of installs and users.
    ///   - installs: gives the names of one person's installs.
    mutating func part<V: DocumentFacts>(
        _ merge: Merge, in group: Group, _ view: V, installs: (PersonID) -> [IdentityKey]
    ) {
        let sides = group.parts(without: merge)
        if sides.count == 1 { return }
        let joined = Set(sides[0].members)
        var users: [PersonID: LinkedUser] = [:]
        for member in group.members {
            for name in installs(member) {
                guard var install = view.install(named: name), let person = install.user,
                    joined.contains(member) != joined.contains(person)
                else { continue }
                if var user = users[person] ?? view.linkedUser(person), user.remove(install.id) {
                    announce(.deactivated, of: install, epoch: user.epoch, reason: .unlinked)
                    users[person] = user
                }
                install.unlink(at: moment)
                add(install.put)
            }
        }
        for user in users.values.sorted(by: { $0.person < $1.person }) { add(user.put) }
    }

    /// Writes the documents of an install and its user.
    mutating func put(_ install: Install, _ user: LinkedUser?) {
        add(install.put)
        if let user { add(user.put) }
    }
}
