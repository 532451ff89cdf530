/// The installs that would be active if another policy had been in force from the first call.
///
/// No policy decides the links of installs, so the dry run takes the links from the journal. It decides the results again:
/// the installs that become active, make room, wait, or become active later.
struct ActivationDryRun {
    private let policy: ActivationPolicy
    private let project: ProjectID
    private let hash: KeyedHash
    private var documents = ScratchDocuments()
    private var graceSeconds = LinkingSettings().graceSeconds
    /// The states of installs in the journal.
    private var was: [InstallID: Install.State] = [:]
    /// The person to whom an install's rows belong.
    private var owners: [InstallID: PersonID] = [:]
    private var installs: [PersonID: [InstallID]] = [:]
    private(set) var difference = Difference.Installs()

    init(_ policy: ActivationPolicy, for project: ProjectID, hash: KeyedHash) {
        self.policy = policy
        self.project = project
        self.hash = hash
    }

    // MARK: - Deciding a call again

    /// Decides a call of the journal again, if it is a call about installs. The merges are the merges of the journal after
    /// the call.
    mutating func take(_ call: RecordedCall, _ merges: GroupIndex) {
        for fact in call.facts {
            switch fact {
            case .personErased(let person): erase(person)
            case .mergeUndone(let merge):
                part(merge.from, merges, call.at)
                part(merge.into, merges, call.at)
            case .personMade, .unlinked, .linked, .merged, .rowsAdded, .documentPut:
                break
            }
        }
        guard case .reply(let kept) = call.answer, let answer = kept.as(LinkingReply.self) else { return }
        var (reply, events): (LinkingReply, [InstallEvent]) = (answer, [])
        if case .telling(let plain, let told) = answer { (reply, events) = (plain, told) }
        for event in events { note(event) }
        switch reply {
        case .settings(let settings): graceSeconds = settings.graceSeconds
        case .installMade(let session, _): if let person = call.person { own(session.install, person) }
        case .redeemed(let session, _, _):
            if let person = call.person { own(session.install, person) }
            join(events, call)
        case .linked: join(events, call)
        case .status(let status):
            guard call.kind == .changeInstall else { break }
            let isTurned = events.contains { $0.kind == .disabled || $0.kind == .enabled }
            if isTurned { disable(status, call) } else { check(status, call) }
        case .submitted(_, let status): submit(status, call)
        case .reset(let install):
            if let install = install ?? events.first?.install {
                was[install] = .reset
                reset(install, call)
            } else {
                difference.unknown += 1
            }
        case .codeIssued, .refreshed, .deleted, .appMade, .keyMade, .keyRevoked, .refused, .telling: break
        }
    }

    /// Notes the state of an install from an install event.
    private mutating func note(_ event: InstallEvent) {
        switch event.kind {
        case .activated: was[event.install] = .active
        case .blocked: was[event.install] = .blocked
        case .deactivated:
            was[event.install] = event.reason == .unlinked ? .unlinked : event.reason == .reset ? .reset : .deactivated
            if event.reason == .superseded { difference.displacedNow += 1 }
        case .disabled, .enabled: break
        }
    }

    private mutating func own(_ install: InstallID, _ person: PersonID) {
        owners[install] = person
        installs[person, default: []].append(install)
    }

    private func name(of install: InstallID) -> IdentityKey { Identity(install, in: project, hash: hash).key }

    private func install(_ id: InstallID) -> Install? { documents.install(id, name(of: id)) }

    private func user(of install: Install) -> LinkedUser? { install.user.flatMap { documents.linkedUser($0) } }

    /// Adds an install to a user.
    private mutating func join(_ events: [InstallEvent], _ call: RecordedCall) {
        let joined = events.first {
            ($0.kind == .activated || $0.kind == .blocked) && ($0.reason == .linked || $0.reason == .codeRedeemed)
        }
        guard let joined else { return }
        var install =
            install(joined.install)
            ?? Install(
                joined.install, name(of: joined.install), app: AppID(rawValue: 0),
                person: owners[joined.install] ?? joined.person, Install.Device(joined.device), thumbprint: nil,
                at: call.at)
        if owners[joined.install] == nil { own(joined.install, joined.person) }
        (install.user, install.link) = (joined.person, .external)
        var user = documents.linkedUser(joined.person) ?? LinkedUser(of: joined.person)
        var changes = InstallChanges(at: call.at)
        guard (try? changes.activate(&install, &user, policy, reason: joined.reason, documents)) != nil else { return }
        changes.put(install, user)
        finish(changes)
        let left = Set(events.filter { $0.reason == .superseded }.map(\.install))
        let would = Set(changes.events.filter { $0.reason == .superseded }.map(\.install))
        compare(
            call, install.id, now: joined.kind == .activated ? .active : .blocked, then: install.state,
            isElse: left != would)
    }

    private mutating func check(_ status: InstallStatus, _ call: RecordedCall) {
        guard var install = install(status.install), var user = user(of: install) else { return }
        var changes = InstallChanges(at: call.at)
        if (try? changes.renew(&install, &user, policy, documents)) == true {
            changes.put(install, user)
            finish(changes)
        }
        compare(call, install.id, now: status.state, then: install.state)
    }

    private mutating func disable(_ status: InstallStatus, _ call: RecordedCall) {
        guard var install = install(status.install) else { return }
        var user = user(of: install)
        var changes = InstallChanges(at: call.at)
        changes.disable(&install, &user, status.isDisabled, policy, documents)
        finish(changes)
        compare(call, install.id, now: status.state, then: install.state)
    }

    private mutating func submit(_ status: InstallStatus, _ call: RecordedCall) {
        guard var install = install(status.install), var user = user(of: install) else { return }
        var changes = InstallChanges(at: call.at)
        let isTrimmed = changes.trim(&install, &user, policy, documents)
        let isRefused = install.isTooLate(at: call.at, graceSeconds: graceSeconds) && install.state != .blocked
        if isTrimmed, !isRefused {
            changes.put(install, user)
            finish(changes)
        }
        compare(call, install.id, now: status.state, then: isRefused ? nil : install.state)
    }

    private mutating func reset(_ id: InstallID, _ call: RecordedCall) {
        guard var install = install(id) else { return }
        install.reset(at: call.at)
        var user = user(of: install)
        if user?.remove(id) != true { user = nil }
        var changes = InstallChanges(at: call.at)
        changes.put(install, user)
        finish(changes)
    }

    private mutating func finish(_ changes: InstallChanges) {
        difference.displacedThen += changes.events.count { $0.reason == .superseded }
        documents.apply(changes.changes)
    }

    private mutating func compare(
        _ call: RecordedCall, _ install: InstallID, now: Install.State, then: Install.State?, isElse: Bool = false
    ) {
        guard now != then || isElse else { return }
        difference.calls += 1
        guard difference.samplesOfCalls.count < Difference.samples else { return }
        difference.samplesOfCalls.append(
            Difference.Installs.Call(Difference.Answered(call), install: install, now: now, then: then))
    }

    // MARK: - Undone merges and erased people

    /// Detaches the installs that the undone merge had attached.
    private mutating func part(_ person: PersonID, _ merges: GroupIndex, _ moment: Instant) {
        for member in merges.group(of: person).members {
            for id in installs[member] ?? [] {
                guard var install = install(id), let joined = install.user,
                    merges.group(of: joined).root != merges.group(of: member).root
                else { continue }
                var user = documents.linkedUser(joined)
                if user?.remove(id) != true { user = nil }
                install.unlink(at: moment)
                if was[id] != .reset { was[id] = .unlinked }
                var changes = InstallChanges(at: moment)
                changes.put(install, user)
                finish(changes)
            }
        }
    }

    private mutating func erase(_ person: PersonID) {
        documents.put(LinkedUser.key(of: person), [])
        for id in installs.removeValue(forKey: person) ?? [] {
            documents.put(Install.key(of: name(of: id)), [])
            owners[id] = nil
            was[id] = nil
        }
    }

    // MARK: - Differences

    /// The state of each install that was ever linked.
    var standing: [InstallID: Install.State] {
        var standing: [InstallID: Install.State] = [:]
        for id in owners.keys { if let install = install(id) { standing[id] = install.state } }
        return standing
    }

    /// The differences after all calls so far.
    func finished() -> Difference.Installs {
        var difference = difference
        for (id, then) in standing.sorted(by: { $0.key < $1.key }) {
            let now = was[id] ?? .unlinked
            if now == .active { difference.activeNow += 1 }
            if then == .active { difference.activeThen += 1 }
            guard now != then else { continue }
            difference.otherwise += 1
            guard difference.samples.count < Difference.samples, let install = install(id) else { continue }
            difference.samples.append(
                Difference.Installs.Install(
                    install: id, person: install.user ?? install.person, device: install.device.deviceClass, now: now,
                    then: then))
        }
        return difference
    }
}
