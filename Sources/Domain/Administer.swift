/// A call that makes or revokes projects, apps and keys.
package struct Administer: Act {
    /// The thing that the call makes or revokes.
    package enum Subject: Sendable {
        /// A project with its apps and keys. Their ids count from one within the call.
        case makeProject(SetUp)
        case makeApp(App)
        case makeKey(AccessKey)
        /// An app with its first key. Not only administrators make apps: see ``Refusal/exemptKey``.
        case makeAppWithKey(App, AccessKey, byAdministrator: Bool)
        /// Gives a new name to the caller's project, or to an app of it, and changes its settings in the Claim dialect. Nil keeps the
        /// name.
        case change(Named, name: String?, ClaimSettings.Edit = [:])
        /// Revokes all apps and keys of a project, an app with its keys, or one key. The stored facts stay.
        case revokeProject(ProjectID)
        case revokeApp(AppID)
        case revokeKey(KeyID)
        /// Revokes a key of the server's operator.
        case revokeOperatorKey(KeyID)
    }

    package let subject: Subject
    package init(_ subject: Subject) { self.subject = subject }

    /// The word for a thing that does not exist, or of which a project has too many. The names are part of messages.
    package enum Noun: String, Sendable {
        case project, app, key, webhook, delivery
        case signingKey = "signing key"
        case consoleLink = "link"
        case session
    }

    package static let projectsAtMost = 1000
    package static let appsPerProject = 200
    package static let keysPerProject = 1000
}

/// The answer to ``Administer``. It contains no secret: only the caller that has just made a secret can show it.
package struct Administered: Equatable, Sendable {
    /// The kind of the call.
    package let kind: ActKind
    package let at: Instant
    package var projects: [ProjectID] = []
    package var apps: [AppID] = []
    package var keys: [KeyID] = []
    /// The hash of the new key or secret. A caller with another secret repeats a call that was answered before.
    package var hash: KeyHash?

    package init(_ kind: ActKind, at moment: Instant) {
        self.kind = kind
        at = moment
    }
}

extension Administer {
    package static var kinds: [ActKind] { [.makeProject, .makeApp, .makeKey, .revoke, .rename, .changeSettings] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { .none }
    package var byteCount: Int { 4096 }

    /// Makes, renames or revokes projects, apps and keys. Throws `noSuch` for an unknown project, app or key, `tooMany` at a limit of
    /// projects, apps or keys, `tooManyKeys` for a linking key over its app's limit, `appOfOtherDialect`, and `exemptKey` for an app whose
    /// key would need no identity tokens. The limits keep the directory small, because every call reads it. A project, an app or a key
    /// that was revoked before stays as it is.
    ///
    /// - Parameter project: the project of the caller. Apps and keys of other projects do not exist for the call.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<Administered> {
        let directory = view.directory
        switch subject {
        case .makeProject(let setUp): return try make(setUp, directory, stamp)
        case .makeApp(let app): return try make(app, directory, stamp)
        case .makeKey(let key): return try make(key, directory, stamp)
        case .makeAppWithKey(let app, let key, let byAdministrator):
            let needsToken = Directory.isClients(key.kind, of: app.platform)
            // Otherwise an agent could give itself the power to speak for all known users.
            guard byAdministrator || needsToken || !directory.strategy(of: app.project).guards.requiresProof else {
                throw .exemptKey
            }
            let made = try make(app, directory, stamp)
            guard directory.keysThatCount(of: app.project).count < Administer.keysPerProject else {
                throw .tooMany(.key)
            }
            let own = key.placed(
                KeyID(rawValue: directory.lastKey + 1), app.project, made.answer.apps.first, at: stamp.at)
            var done = made.answer
            done.keys = [own.id]
            done.hash = own.hash
            return decision(done, (made.outcome?.changes ?? []) + [.keyMade(own)])
        case .change(let named, let name, let edit):
            return try change(named, name, edit, project, stamp, view)
        case .revokeProject(let id):
            guard directory.projects[id] != nil else { throw .noSuch(.project) }
            // The links of the command line have no key that could end them.
            return revoke(
                [id], directory.apps.values.filter { $0.project == id },
                directory.keys.values.filter { $0.project == id }, stamp,
                more: directory.console(of: id) == ConsoleBook() ? [] : [ConsoleBook().put(for: id)])
        case .revokeApp(let id):
            guard let app = directory.apps[id], app.project == project else { throw .noSuch(.app) }
            return revoke([], [app], directory.keys.values.filter { $0.app == id }, stamp)
        case .revokeKey(let id):
            guard let key = directory.keys[id], key.project == project else { throw .noSuch(.key) }
            return revoke([], [], [key], stamp)
        case .revokeOperatorKey(let id):
            guard let key = directory.keys[id], key.kind == .operator else { throw .noSuch(.key) }
            return revoke([], [], [key], stamp)
        }
    }

    private func make(_ setUp: SetUp, _ directory: Directory, _ stamp: Stamp) throws(Refusal) -> Decision<Administered>
    {
        guard directory.projects.count < Administer.projectsAtMost else { throw .tooMany(.project) }
        let id = ProjectID(rawValue: (directory.projects.keys.map(\.rawValue).max() ?? 0) + 1)
        let (apps, keys) = (directory.lastApp, directory.lastKey)
        var done = Administered(.makeProject, at: stamp.at)
        done.projects = [id]
        done.hash = setUp.keys.first?.hash
        var changes: [Change] = [.projectMade(Project(id: id, name: setUp.project.name, madeAt: stamp.at))]
        for app in setUp.apps {
            changes.append(.appMade(app.placed(AppID(rawValue: apps + app.id.rawValue), id, at: stamp.at)))
        }
        for key in setUp.keys {
            let app = key.app.map { AppID(rawValue: apps + $0.rawValue) }
            changes.append(.keyMade(key.placed(KeyID(rawValue: keys + key.id.rawValue), id, app, at: stamp.at)))
        }
        if let key = setUp.masterKey { changes.append(MasterKeyHistory(beginning: key).put(for: id)) }
        return decision(done, changes)
    }

    private func make(_ app: App, _ directory: Directory, _ stamp: Stamp) throws(Refusal) -> Decision<Administered> {
        let others = directory.apps.values.filter { $0.project == app.project }
        guard others.count < Administer.appsPerProject else { throw .tooMany(.app) }
        let app = app.placed(AppID(rawValue: directory.lastApp + 1), app.project, at: stamp.at)
        var done = Administered(.makeApp, at: stamp.at)
        done.apps = [app.id]
        done.hash = app.secretHash
        return decision(done, [.appMade(app)])
    }

    private func make(_ key: AccessKey, _ directory: Directory, _ stamp: Stamp) throws(Refusal) -> Decision<
        Administered
    > {
        let others = directory.keysThatCount(of: key.project)
        guard others.count < Administer.keysPerProject else { throw .tooMany(.key) }
        if let id = key.app {
            guard let app = directory.apps[id], app.project == key.project, app.revokedAt == nil else {
                throw .noSuch(.app)
            }
            guard app.dialect == key.kind.dialect else { throw .appOfOtherDialect(app.dialect) }
        }
        if key.kind == .linking {
            let active = others.count { $0.kind == .linking && $0.app == key.app && $0.isValid(at: stamp.at) }
            guard active < MakeLinkingKey.activeAtMost else { throw .tooManyKeys }
        }
        let key = key.placed(KeyID(rawValue: directory.lastKey + 1), key.project, key.app, at: stamp.at)
        var done = Administered(.makeKey, at: stamp.at)
        done.keys = [key.id]
        done.hash = key.hash
        return decision(done, [.keyMade(key)])
    }

    private func change<V: DecisionFacts>(
        _ named: Named, _ name: String?, _ edit: ClaimSettings.Edit, _ project: ProjectID, _ stamp: Stamp, _ view: V
    ) throws(Refusal) -> Decision<Administered> {
        let directory = view.directory
        var done = Administered(edit.isEmpty ? .rename : .changeSettings, at: stamp.at)
        let former: String
        switch named {
        case .project(let id):
            guard let known = directory.projects[id], id == project else { throw .noSuch(.project) }
            (former, done.projects) = (known.name, [id])
        case .app(let id):
            guard let known = directory.apps[id], known.project == project, known.revokedAt == nil else {
                throw .noSuch(.app)
            }
            (former, done.apps) = (known.name, [id])
        }
        var changes: [Change] = []
        if let name, name != former { changes.append(.renamed(named, name)) }
        let before = view.claimSettings(of: named)
        var settings = before
        settings.apply(edit)
        if case .project = named, let name, name != former, settings[.firstName] == nil {
            settings.apply([.firstName: former])
        }
        if settings != before {
            changes.append(.documentPut(ClaimSettings.key(of: named), .nobody, settings.packed))
        }
        return changes.isEmpty ? Decision(done) : decision(done, changes)
    }

    /// Revokes apps and keys. An app or a key that was revoked before keeps the moment of its first revocation.
    private func revoke(
        _ projects: [ProjectID], _ apps: [App], _ keys: [AccessKey], _ stamp: Stamp, more: [Change] = []
    ) -> Decision<Administered> {
        var done = Administered(.revoke, at: stamp.at)
        done.projects = projects
        done.apps = apps.filter { $0.revokedAt == nil }.map(\.id).sorted { $0.rawValue < $1.rawValue }
        done.keys = keys.filter { $0.revokedAt == nil }.map(\.id).sorted { $0.rawValue < $1.rawValue }
        let changes =
            done.apps.map { Change.appRevoked($0, at: stamp.at) } + done.keys.map { .keyRevoked($0, at: stamp.at) }
            + more
        return changes.isEmpty ? Decision(done) : decision(done, changes)
    }

    private func decision(_ done: Administered, _ changes: [Change]) -> Decision<Administered> {
        Decision(done, outcome: Outcome(kind: done.kind, person: nil, changes: changes))
    }
}

extension Directory {
    fileprivate var lastApp: Int64 { apps.keys.map(\.rawValue).max() ?? 0 }
    var lastKey: Int64 { keys.keys.map(\.rawValue).max() ?? 0 }

    /// The keys of a project that its limit counts. Sessions of the console have a limit of their own.
    fileprivate func keysThatCount(of project: ProjectID) -> [AccessKey] {
        keys.values.filter { $0.project == project && $0.kind != .console }
    }
}

extension App {
    fileprivate func placed(_ id: AppID, _ project: ProjectID, at moment: Instant) -> App {
        App(
            id: id, project: project, dialect: dialect, name: name, platform: platform, bundleID: bundleID,
            publicID: publicID, secretHash: secretHash, webOrigins: webOrigins, madeAt: moment)
    }
}

extension AccessKey {
    fileprivate func placed(_ id: KeyID, _ project: ProjectID, _ app: AppID?, at moment: Instant) -> AccessKey {
        AccessKey(
            id: id, project: project, app: app, kind: kind, name: name, hash: hash, scopes: scopes, madeAt: moment,
            expiresAt: expiresAt)
    }
}

extension Administered: Answer {
    package static let tags: [UInt8] = [
        ActKind.makeProject, .makeApp, .makeKey, .revoke, .rename, .changeSettings,
    ].map(\.rawValue)
    package var tag: UInt8 { kind.rawValue }

    package func pack(into packer: inout Packer) {
        packer.add(at)
        packer.add(hash == nil ? 0 : 1 as UInt8)
        if let hash { packer.add(hash.bytes) }
        for ids in [projects.map { Int64($0.rawValue) }, apps.map(\.rawValue), keys.map(\.rawValue)] {
            packer.add(UInt64(ids.count))
            for id in ids { packer.add(UInt64(bitPattern: id)) }
        }
    }

    package init?(tag: UInt8, unpacking unpacker: inout Unpacker) {
        guard let kind = ActKind(rawValue: tag), let at = unpacker.instant(), let hasHash = unpacker.byte() else {
            return nil
        }
        self.init(kind, at: at)
        if hasHash == 1 {
            guard let hash = unpacker.bytes().flatMap({ KeyHash($0.span) }) else { return nil }
            self.hash = hash
        }
        guard let projects = unpacker.ids(), let apps = unpacker.ids(), let keys = unpacker.ids() else { return nil }
        self.projects = projects.map { ProjectID(rawValue: Int32(truncatingIfNeeded: $0)) }
        self.apps = apps.map(AppID.init)
        self.keys = keys.map(KeyID.init)
    }

    package func events(_ person: PersonID?) -> [ChangeEvent] {
        func event(_ kind: ChangeEvent.Kind, _ name: String, _ id: Int64) -> ChangeEvent {
            ChangeEvent(kind, nil, [.init(name, .id(id))])
        }
        // A new name or a new setting begins and ends nothing.
        if kind == .rename || kind == .changeSettings { return [] }
        let isEnd = kind == .revoke
        return projects.map { event(isEnd ? .projectRevoked : .projectCreated, "project", Int64($0.rawValue)) }
            + apps.map { event(isEnd ? .appRevoked : .appCreated, "app", $0.rawValue) }
            + keys.map { event(isEnd ? .keyRevoked : .keyCreated, "key", $0.rawValue) }
    }
}

extension Unpacker {
    mutating func ids() -> [Int64]? {
        guard let count = integer(), count <= 10_000 else { return nil }
        var ids: [Int64] = []
        for _ in 0..<count {
            guard let id = integer() else { return nil }
            ids.append(Int64(bitPattern: id))
        }
        return ids
    }
}

/// A note of the last use of a key. The server makes it at most once an hour for each key.
package struct NoteKeyUse: Act {
    package let key: KeyID
    package let at: Instant

    package init(_ key: KeyID, at moment: Instant) {
        self.key = key
        at = moment
    }

    /// The key of the document with the last use of a key.
    package static func document(of key: KeyID) -> DocumentKey { DocumentKey(.keyUse, of: key.rawValue) }

    /// The last noted use of a key; nil if there is no note.
    package static func lastUse(of key: KeyID, _ snapshot: any Snapshot) throws(StoreFault) -> Instant? {
        guard let packed = try snapshot.document(document(of: key)) else { return nil }
        var unpacker = Unpacker(packed)
        return unpacker.instant()
    }

    package static var kinds: [ActKind] { [.noteKeyUse] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { .none }
    package var byteCount: Int { 4096 }

    /// Notes the use as a document of the key. Throws nothing. The note changes nothing else, so a lost note does no harm.
    package func decide<V: DecisionFacts>(_ stamp: Stamp, in project: ProjectID, _ view: V) -> Decision<Done> {
        var packer = Packer()
        packer.add(at)
        let change = Change.documentPut(NoteKeyUse.document(of: key), PersonID(rawValue: 0), packer.bytes)
        return Decision(Done(), outcome: Outcome(kind: .noteKeyUse, person: nil, changes: [change]))
    }
}

extension AccessKey.Kind {
    /// The greatest set of scopes of a key of this kind. A new key has all of them unless the caller chooses fewer scopes.
    package var scopes: ScopeSet {
        switch self {
        case .admin: ScopeSet(Scope.allCases)
        // An operator's key opens a few routes, which need the scope of administrators.
        case .operator: [.admin]
        case .idsync: [.identityRead, .identityWrite, .eventsWrite]
        case .idsyncWeb: [.identityWrite, .eventsWrite]
        case .claimClient, .claimImport: [.eventsWrite, .usersWrite]
        // All scopes that spec/claim.md 1.2 allows to an agent: all except `events:write`.
        case .claimAgent:
            [
                .eventsRead, .funnelsRead, .funnelsWrite, .appsRead, .appsWrite, .projectsRead, .projectsWrite,
                .metricsRead, .metricsWrite, .auditLogsRead, .usersWrite, .integrationsRead, .integrationsWrite,
                .jobsRead, .jobsWrite, .issuesRead, .issuesWrite, .feedbackRead, .feedbackWrite, .questionnairesRead,
                .questionnairesWrite, .reviewsRead, .reviewsWrite,
            ]
        case .entitlementsProject: [.accessRead, .usersWrite]
        case .entitlementsSecret: [.accessRead, .accessWrite, .usersWrite]
        case .linking: [.userLink, .userRead, .userDelete]
        case .onymClient: [.identityWrite]
        case .onymServer: [.identityRead, .identityWrite]
        case .console: ConsoleRole.admin.scopes
        }
    }

    /// The kinds of keys that a caller can make. Only a link makes a session of the console.
    package static let makeable = allCases.filter { $0 != .console }

    /// Whether a key of this kind belongs to an app, and not to the whole project.
    package var needsApp: Bool {
        switch self {
        case .admin, .operator, .claimAgent, .console: false
        case .idsync, .idsyncWeb, .claimClient, .claimImport, .entitlementsProject, .entitlementsSecret, .linking,
            .onymClient,
            .onymServer:
            true
        }
    }
}

extension ScopeSet {
    /// Whether a caller with the set may make a call that needs a scope. An administrator may do all that the console does.
    package func allows(_ scope: Scope) -> Bool {
        contains(scope) || [.consoleRead, .consoleAct].contains(scope) && contains(.admin)
    }

    /// Whether all scopes of this set are in another set.
    package func isSubset(of other: ScopeSet) -> Bool {
        Scope.allCases.allSatisfy { !contains($0) || other.contains($0) }
    }
}

extension Refusal {
    /// The project has no such thing.
    package static func noSuch(_ noun: Administer.Noun) -> Refusal {
        Refusal(.notFound, "not_found", "There is no \(noun.rawValue) with this id.")
    }

    /// The project is at its limit of such things.
    package static func tooMany(_ noun: Administer.Noun) -> Refusal {
        Refusal(.conflict, "too_many", "The limit of \(noun.rawValue)s is reached.")
    }

    /// The key of the app would need no identity tokens, and a dialect of the project requires tokens.
    package static let exemptKey = Refusal(
        .forbidden, "administrator_required",
        """
        The project requires identity tokens, and the key of a backend app needs none. Only an administrator can make a backend \
        app.
        """, isJournalled: true)

    /// The key names an app that speaks another dialect.
    package static func appOfOtherDialect(_ dialect: Dialect) -> Refusal {
        Refusal(
            .invalid, "validation_error", "app: the app speaks \(dialect.rawValue), and a key of this kind does not.")
    }
}

extension ActKind {
    package static let makeProject = ActKind(60, "make_project", undo: .never(.revokeInstead), changesDirectory: true)
    package static let makeApp = ActKind(61, "make_app", undo: .never(.revokeInstead), changesDirectory: true)
    package static let makeKey = ActKind(62, "make_key", undo: .never(.revokeInstead), changesDirectory: true)
    package static let revoke = ActKind(63, "revoke", undo: .never(.secretGone), changesDirectory: true)
    package static let rename = ActKind(155, "rename", undo: .never(.callAgain), changesDirectory: true)
    package static let changeSettings = ActKind(
        158, "change_settings", undo: .facts(needs: .admin), changesDirectory: true)
    package static let noteKeyUse = ActKind(64, "note_key_use", undo: .never(.noteOfServer))
}
