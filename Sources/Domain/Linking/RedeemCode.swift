/// A call that makes a code, with which an install becomes an install of the user with an external id (spec/linking.md 1.3).
package struct IssueCode: Act {
    package let app: AppID
    package let key: KeyID?
    package let external: Identity
    package let digest: KeyHash
    package let seal: CodeSeal
    package let thumbprint: String?
    /// The kind of device for a preview of the redemption; nil for no preview.
    package let preview: DeviceClass?

    package init(
        app: AppID, key: KeyID?, external: Identity, digest: KeyHash, seal: CodeSeal, thumbprint: String?,
        preview: DeviceClass?
    ) {
        self.app = app
        self.key = key
        self.external = external
        self.digest = digest
        self.seal = seal
        self.thumbprint = thumbprint
        self.preview = preview
    }

    package static var kinds: [ActKind] { [.issueCode] }
    /// The journal must not keep the seal of a code (docs/decisions/0012).
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { Subjects(mentions: [external.key]) }
    package var byteCount: Int { 512 }

    /// Stores the code for a limited time. Throws `notConfigured` if the app accepts no linking calls. The user need not
    /// exist: the redemption makes the user, so that an unused code leaves no person.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<LinkingReply> {
        let settings = view.linkingSettings(of: project)
        guard settings[app].isOn else { throw .notConfigured }
        let until = stamp.at.advanced(byMilliseconds: settings.codeSeconds * 1000)
        let code = LinkCode(
            digest, app: app, key: key, for: external, seal: seal, thumbprint: thumbprint, until: until)
        let holder = view.holder(of: external)
        let preview = preview.map { device in
            var preview = CodePreview(user: holder)
            let live = holder.flatMap { view.linkedUser(view.linkedMember(of: $0) ?? $0) }?.live ?? []
            switch settings.policy.admit(device, among: live) {
            case .blocked: preview.isBlocked = true
            case .active(let leaving):
                preview.leaving = leaving.compactMap { view.install($0) }.map { CodePreview.Leaving($0) }
            }
            return preview
        }
        return Decision(
            .codeIssued(expiresAt: until, preview),
            outcome: Outcome(kind: .issueCode, person: holder, changes: [code.put()]))
    }
}

/// The result that a redemption of the code would have now.
package struct CodePreview: Equatable, Sendable {
    package let user: PersonID?
    /// Whether the new install would wait.
    package internal(set) var isBlocked = false
    package internal(set) var leaving: [Leaving] = []

    /// An install that would stop being active.
    package struct Leaving: Equatable, Sendable {
        package let install: InstallID
        package let device: Install.Device
        package let lastSeen: Instant

        init(_ install: Install) {
            self.install = install.id
            device = install.device
            lastSeen = install.lastSeen
        }

        init(install: InstallID, device: Install.Device, lastSeen: Instant) {
            self.install = install
            self.device = device
            self.lastSeen = lastSeen
        }
    }
}

/// A call that makes an install of the user of a code (spec/linking.md 3.2).
package struct RedeemCode: Act {
    package let digest: KeyHash
    package let seal: CodeSeal
    package let app: AppID
    /// The hash that recognizes a repeated call of the install.
    package let installKey: Hash128
    package let device: Install.Device
    package let thumbprint: String?
    package let hash: KeyedHash

    package init(
        digest: KeyHash, seal: CodeSeal, app: AppID, installKey: Hash128, device: Install.Device, thumbprint: String?,
        hash: KeyedHash
    ) {
        self.digest = digest
        self.seal = seal
        self.app = app
        self.installKey = installKey
        self.device = device
        self.thumbprint = thumbprint
        self.hash = hash
    }

    package static var kinds: [ActKind] { [.redeemCode] }
    /// The journal must not keep the seal of a code (docs/decisions/0012).
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { Subjects(codes: [SealedName(digest, seal, hash: hash)]) }
    package var byteCount: Int { 512 }

    /// Makes an install of the code's user, and the user if needed. Throws `invalidCode`, `notConfigured`, `proofRequired`
    /// and `installsFull`. A redeemed code answers only the same install again, and only before its first token refresh,
    /// because that install may have lost the answer.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<LinkingReply> {
        let settings = view.linkingSettings(of: project)
        guard var code = view.linkCode(digest, app) else { throw .invalidCode }
        if let redemption = code.redemption {
            guard code.mayRepeat(installKey, at: stamp.at),
                let install = view.install(
                    redemption.install, Identity(redemption.install, in: project, hash: hash).key),
                install.thumbprint == thumbprint, install.state != .reset, !view.isDeleted(install),
                // An install that has refreshed its tokens has received the answer.
                install.tokens.generation == 0, !install.tokens.isRevoked
            else { throw .invalidCode }
            return Decision(

                answer(
                    install, view.linkedUser(install.user ?? install.person), redemption.isRestored, stamp, settings
                ))
        }
        guard code.isGood(at: stamp.at, thumbprint, view), let external = code.external(seal) else {
            throw .invalidCode
        }
        guard settings[app].isOn else { throw .notConfigured }
        guard thumbprint != nil || !settings[app].requiresProof else { throw .proofRequired }

        let name = Identity(.linkingExternalID, external.id, in: project, hash: hash)
        var changes = InstallChanges(at: stamp.at)
        let holder = view.holder(of: name)
        let person = holder ?? stamp.person
        // An administrator may have merged the person with a user that keeps the installs.
        let member = holder.flatMap { view.linkedMember(of: $0) } ?? person
        if holder == nil {
            changes.add(.personMade(person, at: stamp.seen))
            changes.add(.linked(person, name))
        }
        if let place = view.person(person, in: project) {
            var room = Room(of: place, view.strategy(of: project).guards.bounds, view)
            guard room.take(.linkingInstallID) else { throw .installsFull }
        }
        let id = InstallID(next: stamp)
        let installName = Identity(id, in: project, hash: hash)
        var install = Install(
            id, installName.key, app: app, person: person, device, thumbprint: thumbprint, at: stamp.at)
        (install.user, install.link, install.externalKey) = (member, .external, name.key)
        var user = view.linkedUser(member) ?? LinkedUser(of: member)
        changes.add(.linked(person, installName))
        try changes.activate(&install, &user, settings.policy, reason: .codeRedeemed, view)
        changes.put(install, user)
        code.redemption = LinkCode.Redemption(
            install: install.id, installKey: installKey, isRestored: holder != nil, at: stamp.at)
        changes.add(code.put(for: person))
        return Decision(
            changes.reply(answer(install, user, holder != nil, stamp, settings)),
            outcome: Outcome(kind: .redeemCode, person: person, changes: changes.changes))
    }

    private func answer(
        _ install: Install, _ user: LinkedUser?, _ isRestored: Bool, _ stamp: Stamp, _ settings: LinkingSettings
    ) -> LinkingReply {
        .redeemed(Session(install, stamp, settings), InstallStatus(install, user, settings), isRestored: isRestored)
    }
}

extension DecisionFacts {
    /// The code with a hash; nil if the app has no such code.
    func linkCode(_ digest: KeyHash, _ app: AppID) -> LinkCode? {
        guard let code = document(LinkCode.documentKey(digest)).flatMap(LinkCode.init(packed:)), code.digest == digest,
            code.app == app
        else { return nil }
        return code
    }
}

extension LinkCode {
    /// Whether a caller with a proven key may redeem the code.
    func isGood<V: DecisionFacts>(at moment: Instant, _ thumbprint: String?, _ view: V) -> Bool {
        guard redemption == nil, expiresAt.ends(atMost: LinkCode.longestMilliseconds, runningAt: moment) else {
            return false
        }
        if let bound = self.thumbprint, bound != thumbprint { return false }
        return key.map { view.directory.keys[$0]?.revokedAt == nil } ?? true
    }
}

/// A call that gives the external id of a code to the user of an install without an external id (spec/linking.md 3.3).
package struct LinkLate: Act {
    package let caller: LinkingCaller
    package let digest: KeyHash
    package let seal: CodeSeal
    package let hash: KeyedHash

    package init(_ caller: LinkingCaller, digest: KeyHash, seal: CodeSeal, hash: KeyedHash) {
        self.caller = caller
        self.digest = digest
        self.seal = seal
        self.hash = hash
    }

    package static var kinds: [ActKind] { [.linkInstall] }
    /// The journal must not keep the seal of a code (docs/decisions/0012).
    package static var readsMerges: Bool { false }
    package var subjects: Subjects {
        Subjects(mentions: [caller.name.key], codes: [SealedName(digest, seal, hash: hash)])
    }
    package var byteCount: Int { 512 }

    /// Gives the external id of the code to the install's user. Throws `notConfigured`, `installDisabled`, `alreadyLinked`, also for
    /// an install in the group of another known user, `invalidCode`, and `externalIDTaken` if another person holds the external id: a
    /// code must not merge two existing users. The code then stays valid.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<LinkingReply> {
        let settings = view.linkingSettings(of: project)
        var install = try view.install(caller, settings)
        guard settings[caller.app].isOn else { throw .notConfigured }
        if install.isDisabled || install.state == .deactivated { throw .installDisabled }
        let code = view.linkCode(digest, caller.app)
        if let user = install.user, let code, code.mayRepeat(caller.name.key.hash, at: stamp.at) {
            return Decision(.linked(user))
        }
        if install.link == .external || view.externalKey(of: install.person) != nil { throw .alreadyLinked }
        guard var code, code.isGood(at: stamp.at, caller.thumbprint, view), let named = code.external(seal) else {
            throw .invalidCode
        }
        let external = Identity(.linkingExternalID, named.id, in: project, hash: hash)
        // The code stays valid: after a reset it can restore the other user.
        guard view.holder(of: external) == nil else { throw .externalIDTaken }
        let user = install.user ?? view.linkedMember(of: install.person) ?? install.person
        let equals = view.strategy(of: project).equalUserIDs(external, in: project, hash)
        guard !view.isOfOtherUser(user, than: external.key, equals, in: project) else { throw .alreadyLinked }
        install.externalKey = external.key
        code.redemption = LinkCode.Redemption(
            install: install.id, installKey: caller.name.key.hash, isRestored: false, at: stamp.at)
        var changes = InstallChanges(at: stamp.at)
        changes.add(.linked(user, external))
        changes.add(code.put(for: user))
        guard install.link == .none else {
            install.link = .external
            changes.add(install.put)
            return Decision(
                .linked(user),
                outcome: Outcome(kind: .linkInstall, person: user, changes: changes.changes))
        }
        return try install.join(user, .external, settings.policy, &changes, view)
    }
}

extension ActKind {
    package static let issueCode = ActKind(52, "issue_code", undo: .never(.revokeInstead))
    package static let redeemCode = ActKind(53, "redeem_code", undo: .facts(needs: .consoleAct))
}
