import CivilTime
import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that list and change the server's master keys (docs/decisions/0059-several-master-keys.md). Only the command line reaches
/// them, because they belong to no project. No answer has a key: an id tells keys apart, and does not reveal them.
enum MasterKeyCalls {
    static func routes(_ sources: Native.Sources, at door: Native.Door) -> [Endpoint] {
        switch door {
        case .network: []
        case .control: [list(sources), rotate(sources), reload(sources), renewRoot(sources)]
        }
    }

    /// The time for which a key without use stays necessary for Linking: a refresh token has no end of its own, and an install that
    /// calls gets a new one.
    static let refreshMilliseconds: Int64 = 90 * 86_400_000

    private static func list(_ sources: Native.Sources) -> Endpoint {
        Endpoint(
            .get, "/onym/v1/master-keys", scope: .admin,
            operation: Operation(
                id: "master_keys_list", summary: "Lists the master keys, and what depends on each.",
                responses: [.init(.ok, "The keys, the newest last.", schema: .object([]))] + Native.problems([])),
            action: .query { _, caller, loop in
                // The file may have a key that waits.
                sources.masterKeys.reload()
                let (directory, now) = (loop.directory, caller.now)
                return { snapshot throws(StoreFault) in
                    var webhooks: [ProjectID: [Webhook]] = [:]
                    for project in directory.projects.keys {
                        webhooks[project] = try Webhook.all(of: project, snapshot)
                    }
                    return write(sources, directory, webhooks, at: now)
                }
            })
    }

    private static func write(
        _ sources: Native.Sources, _ directory: Directory, _ webhooks: [ProjectID: [Webhook]], at now: Instant
    ) -> Response {
        let keys = sources.masterKeys
        let (all, newest, missing) = (keys.all, keys.newest.mark, keys.missing)
        let place = all.firstIndex { $0.mark == newest } ?? 0
        let projects = directory.projects.values.sorted { $0.id.rawValue < $1.id.rawValue }
        return Native.json(.ok) { json in
            json.key("keys")
            json.array { json in
                for (index, key) in all.enumerated() {
                    json.object { json in
                        json.key("id")
                        json.string(key.mark.id)
                        json.key("state")
                        json.string(index == place ? "newest" : index < place ? "older" : "waiting")
                        json.key("depends")
                        json.array { json in
                            for project in projects {
                                let dependents = Dependents(
                                    of: key.mark, in: project, sources, directory, webhooks[project.id] ?? [], at: now)
                                for dependent in dependents.all {
                                    json.object { json in write(dependent, project.id, &json) }
                                }
                            }
                        }
                    }
                }
            }
            json.key("missing")
            json.array { json in for mark in missing { json.string(mark.id) } }
        }
    }

    private static func write(_ dependent: Dependents.Dependent, _ project: ProjectID, _ json: inout JSONWriter) {
        json.key("project")
        json.decimalString(project.rawValue)
        json.key("what")
        json.string(dependent.what.rawValue)
        if let id = dependent.id {
            json.key("id")
            json.decimalString(id)
        }
        json.key("text")
        json.string(dependent.text)
    }

    private static func rotate(_ sources: Native.Sources) -> Endpoint {
        Endpoint(
            .post, "/onym/v1/master-keys", scope: .admin,
            operation: Operation(
                id: "master_key_use",
                summary:
                    "Makes the last master key the newest one of the project, and seals the project's secrets again.",
                responses: [.init(.ok, "The newest key.", schema: .object([]))] + Native.problems([])),
            action: .call(
                body: BufferedBody(),
                decode: { _, caller, loop throws(Rejection) in
                    let keys = sources.masterKeys
                    keys.reload()
                    let all = keys.all
                    let newest = all[all.count - 1].mark
                    let options = loop.directory.storeOptions(of: caller.project)
                    let act = RotateMasterKey(
                        to: newest, first: keys.first, sealed: sources.stores.resealed(options, caller.project, newest))
                    return PreparedCall(act) { rotated, _ in answer(newest, rotated) }
                }))
    }

    private static func renewRoot(_ sources: Native.Sources) -> Endpoint {
        Endpoint(
            .post, "/onym/v1/access-root", scope: .admin,
            operation: Operation(
                id: "access_root_renew",
                summary: "Makes the project's access root anew, from the newest master key of the project.",
                responses: [.init(.ok, "The newest key.", schema: .object([]))] + Native.problems([])),
            action: .call(
                body: BufferedBody(),
                decode: { request, caller, _ throws(Rejection) in
                    try sources.mint.checkReadiness(request.id)
                    let newest = sources.masterKeys.newest(of: caller.project)
                    let act = RotateMasterKey(to: newest, first: sources.masterKeys.first, renewsRoot: true)
                    return PreparedCall(act) { rotated, _ in answer(newest, rotated) }
                }))
    }

    private static func answer(_ newest: MasterKeyMark, _ rotated: MasterKeyRotated) -> Response {
        Native.json(.ok) { json in
            json.key("newest")
            json.string(newest.id)
            json.key("sealed_again")
            json.integer(rotated.resealed)
        }
    }

    private static func reload(_ sources: Native.Sources) -> Endpoint {
        Endpoint(
            .post, "/onym/v1/master-keys/reload", scope: .admin,
            operation: Operation(
                id: "master_keys_reload", summary: "Reads the master keys again.",
                responses: [.init(.ok, "The keys.", schema: .object([]))] + Native.problems([])),
            action: .steps(
                body: BufferedBody(),
                decode: { _, _, _ throws(Rejection) in
                    sources.masterKeys.reload()
                    return .answer(
                        Native.json(.ok) { json in
                            json.key("keys")
                            json.array { json in for key in sources.masterKeys.all { json.string(key.mark.id) } }
                        })
                }))
    }
}

/// The things of a project that depend on a master key: without the key they stop working.
private struct Dependents {
    /// The kind of a thing. The names are part of answers.
    enum What: String {
        case project
        case idsyncKey = "idsync_key"
        case signingKey = "signing_key"
        case webhook
        case accessRoot = "access_root"
        case sealedSecrets = "sealed_secrets"
        case tokens
    }

    struct Dependent {
        let what: What
        let id: Int64?
        let text: String
    }

    private(set) var all: [Dependent] = []

    init(
        of mark: MasterKeyMark, in project: Project, _ sources: Native.Sources, _ directory: Directory,
        _ webhooks: [Webhook], at now: Instant
    ) {
        let (keys, id) = (sources.masterKeys, project.id)
        func depends(_ moment: Instant) -> Bool { keys.mark(at: moment, in: id) == mark }
        if keys.newest(of: id) == mark {
            add(.project, nil, "New secrets of the project come from this key.")
        }
        for key in directory.keys.values.sorted(by: { $0.id.rawValue < $1.id.rawValue })
        where key.project == id && key.kind == .idsync && key.isValid(at: now) && depends(key.madeAt) {
            add(
                .idsyncKey, key.id.rawValue,
                "The secret of the IDSync key \"\(key.name)\". Make another key, and revoke it.")
        }
        for key in directory.signingKeys[id] ?? []
        where key.algorithm == .hs256 && key.retiredAt == nil && depends(key.madeAt) {
            add(.signingKey, key.id, "The secret of the signing key \"\(key.keyID)\". Add another key, and retire it.")
        }
        for webhook in webhooks where depends(webhook.madeAt) {
            add(
                .webhook, webhook.id,
                "The secret of the webhook to \(webhook.url). Make another webhook, and remove it.")
        }
        // A project whose keys are all revoked has no app that could ask for a signed answer.
        let isUsed = directory.keys.values.contains { $0.project == id && $0.isValid(at: now) }
        if isUsed, keys.root(of: id) == mark {
            add(.accessRoot, nil, "The access root. Make it anew: onym keys access-root --renew")
        }
        let sealed = sources.stores.sealedCount(directory.storeOptions(of: id), id, mark)
        if sealed > 0 {
            add(
                .sealedSecrets, nil,
                "\(sealed) secrets of stores are sealed under it. onym master-key rotate seals them again.")
        }
        if let until = tokensUntil(mark, directory.masterKeys(of: id), keys.first), until > now,
            directory.apps.values.contains(where: { $0.project == id && $0.dialect == .linking && $0.revokedAt == nil })
        {
            let day = String(
                decoding: ISO8601.format(millisecondsSince1970: until.milliseconds).prefix(10), as: UTF8.self)
            add(
                .tokens, nil,
                "Refresh tokens of Linking, until \(day). --end-tokens ends the tokens of installs that have not called since."
            )
        }
    }

    private mutating func add(_ what: What, _ id: Int64?, _ text: String) {
        all.append(Dependent(what: what, id: id, text: text))
    }

    /// The moment up to which tokens of a key count; nil for a key that the project has not replaced.
    private func tokensUntil(_ mark: MasterKeyMark, _ history: MasterKeyHistory, _ first: MasterKeyMark) -> Instant? {
        let marks = [first] + history.entries.map(\.key)
        guard let place = marks.lastIndex(of: mark), place < history.entries.count else { return nil }
        return history.entries[place].from.advanced(byMilliseconds: MasterKeyCalls.refreshMilliseconds)
    }
}
