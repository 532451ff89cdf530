import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that list, create and revoke keys (spec/native.md, Administration).
enum KeyCalls {
    static func routes(_ sources: Native.Sources) -> [Endpoint] {
        [list(sources), make(sources.mint)]
            + AdminText.revocations("/onym/v1/keys", .key, "Revokes a key, from its next call on.") {
                id, caller, directory in
                let id = KeyID(rawValue: id)
                return caller.isOperator && directory.keys[id]?.kind == .operator
                    ? .revokeOperatorKey(id) : .revokeKey(id)
            }
    }

    private static func list(_ sources: Native.Sources) -> Endpoint {
        Endpoint(
            .get, "/onym/v1/keys", scope: .admin,
            operation: Operation(
                id: "keys_list", summary: "Lists the keys of the project, including revoked keys.",
                description: """
                    The server keeps only hashes, so the list does not show the keys themselves. last_used is exact \
                    while the server runs; a time from before its start may be up to an hour too early.
                    """,
                query: ListQuery.parameters,
                responses: [.init(.ok, "Keys.", schema: AdminText.list("keys", of: schema))]
                    + Native.problems([.badRequest])),
            action: .query { request, caller, tools throws(Rejection) in
                let list = try ListQuery(request)
                let keys = tools.directory.keys.values.filter { key in
                    key.project == caller.project || key.kind == .operator && caller.isOperator
                }
                let page = AdminText.Page(keys, list) { $0.id.rawValue }
                return { snapshot throws(StoreFault) in
                    var uses: [KeyID: Instant] = [:]
                    for key in page.things {
                        let noted = try NoteKeyUse.lastUse(of: key.id, snapshot)
                        uses[key.id] = [noted, sources.keyUse(key.id)].compactMap { $0 }.max()
                    }
                    return page.answer("keys") { key, json in
                        write(key, id: key.id, madeAt: key.madeAt, lastUsed: uses[key.id], &json)
                    }
                }
            })
    }

    private static func make(_ mint: Mint) -> Endpoint {
        Endpoint(
            .post, "/onym/v1/keys", scope: .admin,
            operation: Operation(
                id: "key_make", summary: "Makes a key. Only this answer shows the key.",
                description: """
                    A key has all scopes of its kind, or fewer if scopes names fewer. A Linking key expires after a \
                    year by default, other keys never expire by default. The answer to a repeated call has no key.
                    """,
                request: .object(
                    [
                        .init("kind", .string(oneOf: AccessKey.Kind.makeable.map(\.rawValue)), required: true),
                        .init("name", .string("The name; the kind by default.")),
                        .init("app", .string("The id of the key's app; not for admin and claim_agent.")),
                        .init("scopes", .array(.string())), .init("expires_at", .string()),
                    ], others: false),
                responses: [.init(.created, "The key.", schema: schema)]
                    + Native.problems([.badRequest, .notFound, .conflict, .unprocessableContent])),
            action: .call(
                body: BufferedBody(),
                decode: { request, caller, tools throws(Rejection) in
                    let wanted = try wanted(request, caller, tools)
                    if wanted.kind == .idsync { try mint.checkReadiness(request.id) }
                    let made = mint.key(wanted.kind)
                    let key = AccessKey(
                        id: KeyID(rawValue: 0), project: wanted.kind == .operator ? .none : caller.project,
                        app: wanted.app, kind: wanted.kind,
                        name: wanted.name, hash: made.hash, scopes: wanted.scopes, madeAt: caller.now,
                        expiresAt: wanted.expiresAt)
                    return PreparedCall(Administer(.makeKey(key))) { done, _ in
                        guard let id = done.keys.first else { return nil }
                        return Native.json(.created) { json in
                            write(key, id: id, madeAt: done.at, lastUsed: nil, &json)
                            // The answer to a repeated call would show a key that does not exist.
                            guard done.hash == made.hash else { return }
                            json.key("key")
                            json.string(made.text)
                            if let secret = made.secret(done.at, key.project) {
                                json.key("secret")
                                json.string(secret)
                            }
                        }
                    }
                }))
    }

    private struct Wanted {
        let kind: AccessKey.Kind
        let name: String
        let app: AppID?
        let scopes: ScopeSet
        let expiresAt: Instant?
    }

    private static func wanted(
        _ request: borrowing Request, _ caller: Caller, _ tools: LoopTools
    ) throws(Rejection) -> Wanted {
        var (kind, name, app, expiresAt): (AccessKey.Kind?, String?, AppID?, Instant?)
        var scopes: [Scope]?
        try AdminText.read(request, tools) { key, value throws(JSONFault) in
            switch key {
            case "kind": kind = try AdminText.one(value, at: "kind", of: AccessKey.Kind.makeable)
            case "name": name = try AdminText.name(value, at: "name")
            case "app":
                guard let id = Int64(decimal: try value.string(at: "app")) else {
                    throw JSONFault(.wrong("must be the id of an app"), at: "app")
                }
                app = AppID(rawValue: id)
            case "scopes":
                var named: [Scope] = []
                try value.forEachElement(at: "scopes") { element throws(JSONFault) in
                    named.append(try AdminText.one(element, at: "scopes[\(named.count)]", of: Scope.self))
                }
                scopes = named
            case "expires_at": expiresAt = try AdminText.moment(value, at: "expires_at")
            default: return false
            }
            return true
        }
        guard let kind else { throw AdminText.wrong("kind is required.", request.id) }
        if kind == .operator, !caller.isOperator {
            throw Rejection(
                Native.problem(
                    .forbidden, code: "operators_only",
                    "Only the operator of the server makes such a key: onym keys create --kind operator.", request.id))
        }
        if kind.needsApp, app == nil {
            throw AdminText.wrong(
                "app is required: a key of this kind belongs to an app that speaks \(kind.dialect.rawValue).",
                request.id)
        }
        if !kind.needsApp, app != nil {
            throw AdminText.wrong("app: a key of this kind belongs to the whole project.", request.id)
        }
        let set = scopes.map { ScopeSet($0) } ?? kind.scopes
        guard set.isSubset(of: kind.scopes) else {
            throw AdminText.wrong(
                "scopes: a key of this kind can have \(kind.scopes.names), and no others.", request.id)
        }
        if let expiresAt, expiresAt <= caller.now {
            throw AdminText.wrong("expires_at must be a moment to come.", request.id)
        }
        return Wanted(
            kind: kind, name: name ?? kind.rawValue, app: app, scopes: set,
            // Keys for linking last a year (spec/linking.md 1.2).
            expiresAt: expiresAt ?? (kind == .linking ? caller.now.advanced(byMilliseconds: 365 * 86_400_000) : nil))
    }

    private static func write(
        _ key: AccessKey, id: KeyID, madeAt: Instant, lastUsed: Instant?, _ json: inout JSONWriter
    ) {
        json.key("id")
        json.decimalString(id.rawValue)
        json.key("name")
        json.string(key.name)
        json.key("kind")
        json.string(key.kind.rawValue)
        json.key("dialect")
        json.string(key.kind.dialect.rawValue)
        json.key("app")
        json.decimalString(key.app?.rawValue)
        json.key("scopes")
        json.array { json in for name in key.scopes.names.split(separator: " ") { json.string(String(name)) } }
        json.key("made_at")
        json.moment(madeAt)
        json.key("expires_at")
        json.moment(key.expiresAt)
        json.key("revoked_at")
        json.moment(key.revokedAt)
        json.key("last_used")
        json.moment(lastUsed)
    }

    private static let schema = Schema.object([
        .init("id", .string(), required: true), .init("name", .string(), required: true),
        .init("kind", .string(), required: true), .init("dialect", .string(), required: true),
        .init("app", AdminText.optionalText, required: true), .init("scopes", .array(.string()), required: true),
        .init("made_at", .string(), required: true), .init("expires_at", AdminText.optionalText, required: true),
        .init("revoked_at", AdminText.optionalText, required: true),
        .init("last_used", AdminText.optionalText, required: true),
        .init("key", .string("Only in the answer that makes the key.")),
        .init("secret", .string("Only for a key that signs its calls, in the answer that makes the key.")),
    ])
}
