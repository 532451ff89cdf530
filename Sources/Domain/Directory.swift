/// The projects, their apps, keys and strategies. Every call reads the directory and few calls change it, so it is one
/// immutable object, and a change makes a new object.
package final class Directory: Sendable {
    package let projects: [ProjectID: Project]
    package let apps: [AppID: App]
    package let keys: [KeyID: AccessKey]
    private let keysByHash: [KeyHash: AccessKey]
    private let appsByPublicID: [String: App]
    /// The strategies of projects that changed the default strategy.
    private let strategies: [ProjectID: StrategyHistory]
    /// The keys that sign tokens for known users. Retired keys are included.
    package let signingKeys: [ProjectID: [SigningKey]]
    /// The links and sessions of the consoles.
    private let consoles: [ProjectID: ConsoleBook]
    /// The options of projects for the stores that confirm purchases.
    private let storeOptions: [ProjectID: StoreOptions]
    /// The master keys of projects whose key was changed.
    private let masterKeys: [ProjectID: MasterKeyHistory]
    /// The hash of the store's identities, with which a decision finds equal user ids of other dialects. Nil only in facts that
    /// belong to no store.
    package let hash: KeyedHash?

    package init(
        projects: [Project] = [], apps: [App] = [], keys: [AccessKey] = [],
        strategies: [ProjectID: StrategyHistory] = [:], signingKeys: [ProjectID: [SigningKey]] = [:],
        consoles: [ProjectID: ConsoleBook] = [:], storeOptions: [ProjectID: StoreOptions] = [:],
        masterKeys: [ProjectID: MasterKeyHistory] = [:], hash: KeyedHash? = nil
    ) {
        self.hash = hash
        self.masterKeys = masterKeys
        self.storeOptions = storeOptions
        self.consoles = consoles
        self.signingKeys = signingKeys
        self.strategies = strategies
        self.projects = Dictionary(uniqueKeysWithValues: projects.map { ($0.id, $0) })
        self.apps = Dictionary(uniqueKeysWithValues: apps.map { ($0.id, $0) })
        self.keys = Dictionary(uniqueKeysWithValues: keys.map { ($0.id, $0) })
        keysByHash = Dictionary(uniqueKeysWithValues: keys.map { ($0.hash, $0) })
        appsByPublicID = Dictionary(
            apps.compactMap { app in app.publicID.map { ($0, app) } }, uniquingKeysWith: { first, _ in first })
    }

    /// The app with a public id.
    package func app(publicID: String) -> App? { appsByPublicID[publicID] }

    /// The directory after a call. Changes of other facts do not affect it.
    package func applying(_ entry: JournalEntry) -> Directory {
        var (projects, apps, keys, strategies) = (projects, apps, keys, strategies)
        var (signingKeys, consoles, storeOptions) = (signingKeys, consoles, storeOptions)
        var masterKeys = masterKeys
        for change in entry.changes {
            switch change {
            case .projectMade(let project): projects[project.id] = project
            case .appMade(let app): apps[app.id] = app
            case .keyMade(let key): keys[key.id] = key
            case .appRevoked(let app, let moment): apps[app] = apps[app]?.revoked(at: moment)
            case .keyRevoked(let key, let moment): keys[key] = keys[key]?.revoked(at: moment)
            case .renamed(.project(let id), let name): projects[id] = projects[id]?.renamed(name)
            case .renamed(.app(let id), let name): apps[id] = apps[id]?.renamed(name)
            case .strategySet(_, let strategy):
                strategies[entry.project, default: .initial].add(strategy, at: entry.at, by: entry.key)
            case .documentPut(let key, _, let body):
                switch key.kind {
                case .signingKeys: signingKeys[entry.project] = SigningKey.unpack(body)
                case .consoleBook:
                    // A call in one project may revoke another one, and empties its book then.
                    let isOwn = key == ConsoleBook.key(of: entry.project)
                    let other = isOwn ? nil : projects.keys.first { key == ConsoleBook.key(of: $0) }
                    consoles[other ?? entry.project] = ConsoleBook(packed: body)
                case .storeOptions: storeOptions[entry.project] = StoreOptions(packed: body)
                case .masterKeys:
                    // A call in one project makes another one with its first history.
                    let isOwn = key == MasterKeyHistory.key(of: entry.project)
                    let other = isOwn ? nil : projects.keys.first { key == MasterKeyHistory.key(of: $0) }
                    masterKeys[other ?? entry.project] = MasterKeyHistory(packed: body)
                default: continue
                }
            case .personMade, .linked, .unlinked, .rowAdded, .rowSuperseded, .merged, .mergeUndone, .personErased:
                continue
            }
        }
        return Directory(
            projects: Array(projects.values), apps: Array(apps.values), keys: Array(keys.values),
            strategies: strategies, signingKeys: signingKeys, consoles: consoles, storeOptions: storeOptions,
            masterKeys: masterKeys, hash: hash)
    }

    /// The links and sessions of a project's console.
    package func console(of project: ProjectID) -> ConsoleBook { consoles[project] ?? ConsoleBook() }

    /// The options of a project for the stores that confirm purchases.
    package func storeOptions(of project: ProjectID) -> StoreOptions { storeOptions[project] ?? StoreOptions() }

    /// The master keys of a project over time.
    package func masterKeys(of project: ProjectID) -> MasterKeyHistory { masterKeys[project] ?? MasterKeyHistory() }

    /// The key with a hash. The key may be revoked or expired.
    package func key(_ hash: KeyHash) -> AccessKey? { keysByHash[hash] }

    /// The current strategy of a project.
    package func strategy(of project: ProjectID) -> Strategy { strategies[project]?.current.strategy ?? .default }

    /// The kinds of documents that a directory contains, one document for each project.
    package static let documentKinds: [DocumentKind] = [.signingKeys, .consoleBook, .storeOptions, .masterKeys]

    /// The same directory with documents that a store has read; nil if this version cannot read a document. An undo of the first call that
    /// writes a document leaves it empty: it counts as no document.
    package func with(_ documents: [(kind: DocumentKind, project: ProjectID, body: [UInt8])]) -> Directory? {
        var (signingKeys, consoles, storeOptions) = (signingKeys, consoles, storeOptions)
        var masterKeys = masterKeys
        for (kind, project, body) in documents where !body.isEmpty {
            switch kind {
            case .signingKeys:
                guard let keys = SigningKey.unpack(body) else { return nil }
                signingKeys[project] = keys
            case .consoleBook:
                guard let book = ConsoleBook(packed: body) else { return nil }
                consoles[project] = book
            case .storeOptions:
                guard let options = StoreOptions(packed: body) else { return nil }
                storeOptions[project] = options
            case .masterKeys:
                guard let history = MasterKeyHistory(packed: body) else { return nil }
                masterKeys[project] = history
            default: preconditionFailure("The directory has no documents of the kind \(kind).")
            }
        }
        return Directory(
            projects: Array(projects.values), apps: Array(apps.values), keys: Array(keys.values),
            strategies: strategies, signingKeys: signingKeys, consoles: consoles, storeOptions: storeOptions,
            masterKeys: masterKeys, hash: hash)
    }

    /// Whether a key is inside an app, so that every user of the app has it. Such a key proves nothing about its caller.
    package func isClients(_ key: AccessKey) -> Bool {
        Directory.isClients(key.kind, of: key.app.flatMap { apps[$0] }?.platform)
    }

    /// Whether a key of a kind is inside an app, if the app has a platform.
    static func isClients(_ kind: AccessKey.Kind, of platform: App.Platform?) -> Bool {
        switch kind {
        case .idsyncWeb, .claimClient, .entitlementsProject, .onymClient: return platform != .backend
        // A key is secret only on a back end. A key inside an app is public.
        case .idsync: return platform == .apple || platform == .android || platform == .web
        case .admin, .operator, .claimAgent, .claimImport, .entitlementsSecret, .linking, .onymServer, .console:
            return false
        }
    }

    /// All strategies of a project.
    package func strategies(of project: ProjectID) -> StrategyHistory { strategies[project] ?? .initial }
}

/// A project, which keeps its people apart from the people of other projects.
package struct Project: Equatable, Sendable {
    package let id: ProjectID
    package let name: String
    package let madeAt: Instant

    package init(id: ProjectID, name: String, madeAt: Instant) {
        self.id = id
        self.name = name
        self.madeAt = madeAt
    }

    func renamed(_ name: String) -> Project { Project(id: id, name: name, madeAt: madeAt) }
}

/// An app of a project. The dialect of the app decides which fields have a meaning.
package struct App: Equatable, Sendable {
    package let id: AppID
    package let project: ProjectID
    package let dialect: Dialect
    package let name: String
    package let platform: Platform
    /// The id of the app in its app store.
    package let bundleID: String?
    /// The id with which the app calls the server.
    package let publicID: String?
    /// The hash of the secret that belongs to the public id.
    package let secretHash: KeyHash?
    /// The origins from which a browser may use the app's keys, as in the `Origin` field; an empty list allows all origins.
    package let webOrigins: [String]
    package let madeAt: Instant
    package let revokedAt: Instant?

    /// The platform of an app. The names are stored.
    package enum Platform: String, CaseIterable, Sendable { case apple, android, web, backend, any }

    package init(
        id: AppID, project: ProjectID, dialect: Dialect, name: String, platform: Platform = .any,
        bundleID: String? = nil, publicID: String? = nil, secretHash: KeyHash? = nil, webOrigins: [String] = [],
        madeAt: Instant, revokedAt: Instant? = nil
    ) {
        self.id = id
        self.project = project
        self.dialect = dialect
        self.name = name
        self.platform = platform
        self.bundleID = bundleID
        self.publicID = publicID
        self.secretHash = secretHash
        self.webOrigins = webOrigins
        self.madeAt = madeAt
        self.revokedAt = revokedAt
    }

    func renamed(_ name: String) -> App {
        App(
            id: id, project: project, dialect: dialect, name: name, platform: platform, bundleID: bundleID,
            publicID: publicID, secretHash: secretHash, webOrigins: webOrigins, madeAt: madeAt, revokedAt: revokedAt)
    }

    func revoked(at moment: Instant) -> App {
        App(
            id: id, project: project, dialect: dialect, name: name, platform: platform, bundleID: bundleID,
            publicID: publicID, secretHash: secretHash, webOrigins: webOrigins, madeAt: madeAt, revokedAt: moment)
    }
}

/// The calls of one vendor, or the server's own calls. The names are stored.
package enum Dialect: String, CaseIterable, Sendable {
    case idsync, claim, entitlements, linking, native
    /// The login of users that come from no vendor. It has the identities of IDSync.
    case onym

    /// The dialect whose identities clients of this dialect name.
    package var identities: Dialect { self == .onym ? .idsync : self }

    /// Whether the values of properties in this dialect are JSON. In other dialects they are text.
    package var hasJSONProperties: Bool { self == .idsync || self == .onym }
}

/// A key of a caller. The store keeps only the hash of the key. A class, because every call passes the key on.
package final class AccessKey: Sendable {
    /// The purpose of a key. The names are stored.
    package enum Kind: String, CaseIterable, Sendable {
        case admin
        /// A key of no project, for the figures of the whole server and for its projects.
        case `operator`
        /// A key that signs its calls, or sends its secret with them.
        case idsync
        /// A key without a secret, for web pages.
        case idsyncWeb = "idsync_web"
        case claimClient = "claim_client"
        case claimAgent = "claim_agent"
        case claimImport = "claim_import"
        case entitlementsProject = "entitlements_project"
        case entitlementsSecret = "entitlements_secret"
        case linking
        /// A key of an app and of a back end, for the login of users that come from no vendor.
        case onymClient = "onym_client"
        case onymServer = "onym_server"
        /// A session of a person in the console.
        case console

        package var dialect: Dialect {
            switch self {
            case .admin, .operator, .console: .native
            case .idsync, .idsyncWeb: .idsync
            case .claimClient, .claimAgent, .claimImport: .claim
            case .entitlementsProject, .entitlementsSecret: .entitlements
            case .linking: .linking
            case .onymClient, .onymServer: .onym
            }
        }
    }

    package let id: KeyID
    /// The project of the key; ``ProjectID/none`` for a key of the server's operator.
    package let project: ProjectID
    package let app: AppID?
    package let kind: Kind
    package let name: String
    package let hash: KeyHash
    package let scopes: ScopeSet
    package let madeAt: Instant
    package let expiresAt: Instant?
    package let revokedAt: Instant?

    package init(
        id: KeyID, project: ProjectID, app: AppID?, kind: Kind, name: String, hash: KeyHash, scopes: ScopeSet,
        madeAt: Instant, expiresAt: Instant? = nil, revokedAt: Instant? = nil
    ) {
        self.id = id
        self.project = project
        self.app = app
        self.kind = kind
        self.name = name
        self.hash = hash
        self.scopes = scopes
        self.madeAt = madeAt
        self.expiresAt = expiresAt
        self.revokedAt = revokedAt
    }
}

/// The SHA-256 of a key or a secret.
package struct KeyHash: Hashable, Sendable {
    private let first: Hash128
    private let second: Hash128

    package init(_ first: Hash128, _ second: Hash128) {
        (self.first, self.second) = (first, second)
    }

    /// Reads exactly 32 bytes.
    package init?(_ bytes: borrowing Span<UInt8>) {
        guard bytes.count == 32, let first = Hash128(bytes.extracting(0..<16)),
            let second = Hash128(bytes.extracting(16..<32))
        else { return nil }
        (self.first, self.second) = (first, second)
    }

    package var bytes: [UInt8] { first.bytes + second.bytes }

    /// The first half of the hash, which is enough for a search.
    var half: Hash128 { first }

    package func hash(into hasher: inout Hasher) { first.hash(into: &hasher) }
}

/// An action that a key may be allowed to do. The names are stored, and shown to people.
package enum Scope: String, CaseIterable, Sendable {
    case identityRead = "identity:read"
    case identityWrite = "identity:write"
    case eventsWrite = "events:write"
    case eventsRead = "events:read"
    case funnelsRead = "funnels:read"
    case funnelsWrite = "funnels:write"
    case appsRead = "apps:read"
    case appsWrite = "apps:write"
    case projectsRead = "projects:read"
    case projectsWrite = "projects:write"
    case metricsRead = "metrics:read"
    case metricsWrite = "metrics:write"
    case auditLogsRead = "audit_logs:read"
    case usersWrite = "users:write"
    case integrationsRead = "integrations:read"
    case integrationsWrite = "integrations:write"
    case jobsRead = "jobs:read"
    case jobsWrite = "jobs:write"
    case issuesRead = "issues:read"
    case issuesWrite = "issues:write"
    case feedbackRead = "feedback:read"
    case feedbackWrite = "feedback:write"
    case questionnairesRead = "questionnaires:read"
    case questionnairesWrite = "questionnaires:write"
    case reviewsRead = "reviews:read"
    case reviewsWrite = "reviews:write"
    case accessRead = "access:read"
    case accessWrite = "access:write"
    case userLink = "user.link"
    case userRead = "user.read"
    case userDelete = "user.delete"
    /// The calls that an install may do with its own token.
    case install
    case admin
    /// The calls that read, for a person in the console.
    case consoleRead = "console:read"
    /// The calls that change people and can be undone, for a person in the console.
    case consoleAct = "console:act"
}

/// A set of scopes.
package struct ScopeSet: Hashable, Sendable, ExpressibleByArrayLiteral {
    private var bits: UInt64 = 0

    package init(_ scopes: some Sequence<Scope>) {
        for scope in scopes { bits |= ScopeSet.bit(scope) }
    }

    package init(arrayLiteral scopes: Scope...) { self.init(scopes) }

    /// Whether the set has a scope.
    package func contains(_ scope: Scope) -> Bool { bits & ScopeSet.bit(scope) != 0 }

    /// The names in a fixed order, with spaces between them. Stores keep a set in this form.
    package var names: String {
        Scope.allCases.filter(contains).map(\.rawValue).joined(separator: " ")
    }

    /// Reads stored names. A name that this version does not know is left out, so it allows nothing.
    package init(names: String) {
        self.init(names.split(separator: " ").compactMap { Scope(rawValue: String($0)) })
    }

    private static let bits: [Scope: UInt64] = Dictionary(
        uniqueKeysWithValues: Scope.allCases.enumerated().map { ($1, 1 << UInt64($0)) })

    private static func bit(_ scope: Scope) -> UInt64 { bits[scope, default: 0] }
}

extension AccessKey: Equatable {
    package static func == (one: AccessKey, other: AccessKey) -> Bool {
        one.id == other.id && one.project == other.project && one.app == other.app && one.kind == other.kind
            && one.name == other.name && one.hash == other.hash && one.scopes == other.scopes
            && one.madeAt == other.madeAt && one.expiresAt == other.expiresAt && one.revokedAt == other.revokedAt
    }

    func revoked(at moment: Instant) -> AccessKey {
        AccessKey(
            id: id, project: project, app: app, kind: kind, name: name, hash: hash, scopes: scopes, madeAt: madeAt,
            expiresAt: expiresAt, revokedAt: moment)
    }

    /// Whether the key is valid at a moment.
    package func isValid(at moment: Instant) -> Bool {
        revokedAt == nil && expiresAt.map { moment < $0 } ?? true
    }
}
