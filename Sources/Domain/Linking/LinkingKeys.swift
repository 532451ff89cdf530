/// A call that makes another Linking app of a project: another environment, or another product for the same people.
package struct MakeLinkingApp: Act {
    package let name: String
    package let publicID: String
    package let secretHash: KeyHash

    package static let appsAtMost = 100

    package init(name: String, publicID: String, secretHash: KeyHash) {
        self.name = name
        self.publicID = publicID
        self.secretHash = secretHash
    }

    package static var kinds: [ActKind] { [.linkingSettings] }
    package var subjects: Subjects { .none }
    package var byteCount: Int { 512 }

    /// Makes the app. Throws `tooManyApps` at the project's limit, because every call reads the directory with all apps.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<LinkingReply> {
        let apps = view.directory.apps.values
        guard apps.count(where: { $0.project == project && $0.dialect == .linking }) < MakeLinkingApp.appsAtMost
        else { throw .tooManyApps }
        let app = App(
            id: AppID(rawValue: (apps.map(\.id.rawValue).max() ?? 0) + 1), project: project, dialect: .linking,
            name: name, publicID: publicID, secretHash: secretHash, madeAt: stamp.at)
        return Decision(
            .appMade(app.id),
            outcome: Outcome(kind: .linkingSettings, person: nil, changes: [.appMade(app)]))
    }
}

/// A call that makes a key for an app's back end (spec/linking.md 1.2).
package struct MakeLinkingKey: Act {
    package let app: AppID
    package let name: String
    package let hash: KeyHash
    package let scopes: ScopeSet
    package let expiresAt: Instant

    /// The limit of valid keys of one app.
    package static let activeAtMost = 10

    package init(app: AppID, name: String, hash: KeyHash, scopes: ScopeSet, expiresAt: Instant) {
        self.app = app
        self.name = name
        self.hash = hash
        self.scopes = scopes
        self.expiresAt = expiresAt
    }

    package static var kinds: [ActKind] { [.linkingSettings] }
    package var subjects: Subjects { .none }
    package var byteCount: Int { 512 }

    /// Makes the key. Throws `tooManyKeys` if the app has its limit of valid keys. Revoked and expired keys do not count, so
    /// that an app can always rotate its keys.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<LinkingReply> {
        let keys = view.directory.keys.values
        let active = keys.count { $0.kind == .linking && $0.app == app && $0.isValid(at: stamp.at) }
        guard active < MakeLinkingKey.activeAtMost else { throw .tooManyKeys }
        let last = keys.map(\.id.rawValue).max() ?? 0
        let key = AccessKey(
            id: KeyID(rawValue: last + 1), project: project, app: app, kind: .linking, name: name, hash: hash,
            scopes: scopes, madeAt: stamp.at, expiresAt: expiresAt)
        return Decision(
            .keyMade(key.id),
            outcome: Outcome(kind: .linkingSettings, person: nil, changes: [.keyMade(key)]))
    }
}

/// A call that revokes a key at once and for good.
package struct RevokeLinkingKey: Act {
    package let key: KeyID
    package init(_ key: KeyID) { self.key = key }

    package static var kinds: [ActKind] { [.linkingSettings] }
    package var subjects: Subjects { .none }
    package var byteCount: Int { 512 }

    /// Revokes the key. Throws `keyNotFound` if the project has no such Linking key. A key that was revoked before keeps its
    /// moment.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<LinkingReply> {
        guard let key = view.directory.keys[key], key.project == project, key.kind == .linking else {
            throw .keyNotFound
        }
        let reply = LinkingReply.keyRevoked(key.id)
        guard key.revokedAt == nil else { return Decision(reply) }
        return Decision(
            reply,
            outcome: Outcome(kind: .linkingSettings, person: nil, changes: [.keyRevoked(key.id, at: stamp.at)]))
    }
}
