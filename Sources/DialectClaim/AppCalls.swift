import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls for the project, its apps and its keys (spec/claim.md 1.2, spec/claim-reads.md 7).
enum AppCalls {
    /// Makes the key of an app, and its hash.
    typealias KeyMaker = @Sendable () -> (text: String, hash: KeyHash)

    static func routes(_ terms: ProjectTerms, _ makeKey: @escaping KeyMaker) -> [Endpoint] {
        [
            whoami, projects(terms), project(terms), changeProject(terms), list, make(makeKey), get, change, delete,
            keys,
        ]
    }

    // MARK: - The caller

    private static let whoami = Endpoint(
        .get, "/v1/auth/whoami", scope: nil,
        operation: Operation(
            id: "whoami", summary: "Shows the key of the call, and what it may do.",
            responses: [
                .init(
                    .ok, "The key.",
                    schema: .object([
                        .init("type", .string(), required: true), .init("key_type", .string(), required: true),
                        .init(
                            "team",
                            .object(["id", "name", "slug"].map { .init($0, .string(), required: true) }), required: true
                        ),
                        .init("permissions", .array(.string()), required: true),
                    ])), .init(.unauthorized, "No valid key.", schema: ClaimFault.schema),
            ]),
        // Each key may make this call, so no scope fits.
        action: .answer { request, _, tools in
            let caller: Caller
            do throws(Rejection) {
                caller = try ClaimDialect.authenticate(request, tools.directory, tools.now, tools)
            } catch {
                return error.response
            }
            let name = tools.directory.projects[caller.project]?.name ?? ""
            return IdentityCalls.json { json in
                json.key("type")
                json.string("api_key")
                json.key("key_type")
                json.string(caller.key.map { type(of: $0.kind) } ?? "admin")
                json.key("team")
                json.object { json in
                    json.key("id")
                    json.string(ClaimID.team)
                    json.key("name")
                    json.string(name)
                    json.key("slug")
                    json.string(slug(name))
                }
                write(caller.scopes, &json)
            }
        })

    private static func type(of kind: AccessKey.Kind) -> String {
        switch kind {
        case .claimClient: "client"
        case .claimAgent: "agent"
        case .claimImport: "import"
        case .admin, .operator, .console, .idsync, .idsyncWeb, .entitlementsProject, .entitlementsSecret, .linking,
            .onymClient, .onymServer:
            "admin"
        }
    }

    // MARK: - Projects

    private static func projects(_ terms: ProjectTerms) -> Endpoint {
        Endpoint(
            .get, "/v1/projects", scope: .projectsRead,
            operation: Operation(
                id: "list_projects", summary: "Lists the project of the key.",
                query: [.init("team_id", .string())],
                responses: [
                    .init(
                        .ok, "All of them.", schema: .object([.init("projects", .array(.object([])), required: true)]))
                ] + ClaimFault.answers),
            action: .query { request, caller, tools throws(Rejection) in
                let filter = try RowFilter.read(request, caller, tools)
                let project = filter.isEmpty ? nil : tools.directory.projects[caller.project]
                return { snapshot throws(StoreFault) in
                    let settings = try project.map { project throws(StoreFault) in
                        try snapshot.claimSettings(of: .project(project.id))
                    }
                    return IdentityCalls.json { json in
                        json.key("projects")
                        json.array { json in
                            guard let project, let settings else { return }
                            json.object { write(project, terms, settings, &$0) }
                        }
                    }
                }
            })
    }

    private static func project(_ terms: ProjectTerms) -> Endpoint {
        Endpoint(
            .get, "/v1/projects/:id", scope: .projectsRead,
            operation: Operation(
                id: "get_project", summary: "Shows the project, and its apps.",
                responses: [
                    .init(.ok, "The project.", schema: .object([.init("apps", .array(.object([])), required: true)])),
                    .init(.notFound, "Nothing has this id.", schema: ClaimFault.schema),
                ] + ClaimFault.answers),
            action: .query { request, caller, tools throws(Rejection) in
                try caller.requireProject(request)
                let (project, apps) = (tools.directory.projects[caller.project], apps(caller, tools))
                return { snapshot throws(StoreFault) in
                    guard let project else { return ClaimFault("Project not found", status: .notFound).response }
                    let facts = try facts(of: apps, snapshot)
                    let settings = try snapshot.claimSettings(of: .project(project.id))
                    return IdentityCalls.json { json in
                        write(project, terms, settings, &json)
                        json.key("apps")
                        json.array { json in
                            for app in apps { json.object { write(app, facts[app.id], &$0) } }
                        }
                    }
                }
            })
    }

    private static let days = Schema.anyOf([.integer("3 to 36500."), .null])

    private static func changeProject(_ terms: ProjectTerms) -> Endpoint {
        Endpoint(
            .patch, "/v1/projects/:id", scope: .projectsWrite,
            operation: Operation(
                id: "change_project",
                summary: "Changes the project's name, color, quotas and days of retention.",
                description: """
                    Null gives a setting up, and the setting of the server is in force again. Days can be longer or shorter than \
                    the server's days. Only administrators may change the days of retention, because rows that retention has \
                    removed do not come back.
                    """,
                request: .object([
                    .init("name", .string()), .init("color", .anyOf([.string("As #12ab9f."), .null])),
                    .init("attachment_user_quota_bytes", .anyOf([.integer(), .null])),
                    .init("attachment_project_quota_bytes", .anyOf([.integer(), .null])),
                    .init("retention_days_events", days), .init("retention_days_metrics", days),
                    .init("retention_days_funnels", days),
                ]),
                responses: [
                    .init(.ok, "The project.", schema: .object([.init("name", .string(), required: true)])),
                    .init(.notFound, "Nothing has this id.", schema: ClaimFault.schema),
                ] + ClaimFault.answers),
            action: .steps(
                body: ClaimDialect.body,
                decode: { request, caller, tools throws(Rejection) in
                    try caller.requireProject(request)
                    let edit = try SettingsEdit.read(request, tools, ofProject: true)
                    if let member = edit.retention {
                        try caller.requireAdministrator("Only administrators can change \(member)")
                    }
                    let known = tools.directory.projects[caller.project]
                    let project = Project(
                        id: caller.project, name: edit.name ?? known?.name ?? "", madeAt: known?.madeAt ?? caller.now)
                    let named = Named.project(caller.project)
                    return .decide(Administer(.change(named, name: edit.name, edit.settings))) { result, _ in
                        answer(result) {
                            .read { snapshot throws(StoreFault) in
                                let settings = try snapshot.claimSettings(of: named)
                                return .answer(IdentityCalls.json { write(project, terms, settings, &$0) })
                            }
                        }
                    }
                }))
    }

    // MARK: - Apps

    private static let list = Endpoint(
        .get, "/v1/apps", scope: .appsRead,
        operation: Operation(
            id: "list_apps", summary: "Lists the apps of the project, the oldest first.",
            query: [.init("team_id", .string()), .init("project_id", .string())],
            responses: [
                .init(.ok, "All of them.", schema: .object([.init("apps", .array(.object(schema)), required: true)]))
            ] + ClaimFault.answers),
        action: .query { request, caller, tools throws(Rejection) in
            let filter = try RowFilter.read(request, caller, tools)
            let apps = filter.isEmpty ? [] : apps(caller, tools)
            return { snapshot throws(StoreFault) in
                let facts = try facts(of: apps, snapshot)
                return IdentityCalls.json { json in
                    json.key("apps")
                    json.array { json in
                        for app in apps { json.object { write(app, facts[app.id], &$0) } }
                    }
                }
            }
        })

    private static let get = Endpoint(
        .get, "/v1/apps/:id", scope: .appsRead,
        operation: Operation(
            id: "get_app", summary: "Shows an app.",
            responses: [.init(.ok, "The app.", schema: .object(schema)), missing] + ClaimFault.answers),
        action: .query { request, caller, tools throws(Rejection) in
            let app = try app(request, caller, tools)
            return { snapshot throws(StoreFault) in
                let facts = try AppDescription(of: app.id, snapshot)
                return IdentityCalls.json { write(app, facts, &$0) }
            }
        })

    private static func make(_ makeKey: @escaping KeyMaker) -> Endpoint {
        Endpoint(
            .post, "/v1/apps", scope: .appsWrite,
            operation: Operation(
                id: "make_app", summary: "Makes an app with a client key, which is shown this once.",
                description: """
                    Where a dialect of the project requires identity tokens, only an administrator may make an app with the \
                    platform backend, because its key needs no tokens.
                    """,
                request: .object([
                    .init("name", .string(), required: true),
                    .init("platform", .string(oneOf: platforms.map(\.rawValue)), required: true),
                    .init("project_id", .string(), required: true), .init("bundle_id", .anyOf([.string(), .null])),
                ]),
                responses: [.init(.created, "The app.", schema: .object(schema)), missing] + ClaimFault.answers),
            action: .call(
                body: ClaimDialect.body,
                decode: { request, caller, tools throws(Rejection) in
                    let new: App
                    do throws(ClaimFault) {
                        new = try newApp(request, caller, tools)
                    } catch {
                        throw error.rejection()
                    }
                    let made = makeKey()
                    let key = AccessKey(
                        id: KeyID(rawValue: 0), project: caller.project, app: nil, kind: .claimClient,
                        name: "\(new.name) Client Key", hash: made.hash, scopes: AccessKey.Kind.claimClient.scopes,
                        madeAt: caller.now)
                    let subject = Administer.Subject.makeAppWithKey(
                        new, key, byAdministrator: caller.isAdministrator)
                    return PreparedCall(Administer(subject)) { done, _ in
                        // The answer to a repeated call would show a key that does not exist.
                        let secret = done.hash == made.hash ? made.text : nil
                        return IdentityCalls.json(.created) { json in
                            for app in done.apps {
                                let app = App(
                                    id: app, project: new.project, dialect: .claim, name: new.name,
                                    platform: new.platform, bundleID: new.bundleID, madeAt: done.at)
                                write(app, nil, secret: secret, &json)
                            }
                        }
                    }
                }))
    }

    private static func newApp(
        _ request: borrowing Request, _ caller: Caller, _ tools: LoopTools
    ) throws(ClaimFault) -> App {
        let members = try Members(request, tools, ["name", "platform", "project_id", "bundle_id"])
        guard let name = members["name"]?.trimmed, !name.isEmpty, let platform = members["platform"], !platform.isEmpty,
            let project = members["project_id"], !project.isEmpty
        else { throw ClaimFault("name, platform, and project_id are required") }
        guard let platform = platforms.first(where: { $0.rawValue == platform }) else {
            let names = platforms.map(\.rawValue).joined(separator: ", ")
            throw ClaimFault("Invalid platform. Must be one of: \(names)")
        }
        let bundleID = members["bundle_id"]?.trimmed
        guard platform == .backend || bundleID.map({ !$0.isEmpty }) ?? false else {
            throw ClaimFault("bundle_id is required for non-backend platforms")
        }
        for (name, text) in [("name", name), ("bundle_id", bundleID ?? "")]
        where text.unicodeScalars.count > characters {
            throw ClaimFault("\(name) must have at most \(characters) characters")
        }
        guard project.lowercased() == ClaimID.text(.project, Int64(caller.project.rawValue)) else {
            throw ClaimFault("Project not found", status: .notFound)
        }
        return App(
            id: AppID(rawValue: 0), project: caller.project, dialect: .claim, name: name, platform: platform,
            bundleID: platform == .backend ? nil : bundleID, madeAt: caller.now)
    }

    private static let change = Endpoint(
        .patch, "/v1/apps/:id", scope: .appsWrite,
        operation: Operation(
            id: "change_app", summary: "Changes the name of an app, its id in Apple's store and its languages.",
            description:
                "Null gives a setting up. Without languages of its own an app has the languages of its uploads.",
            request: .object([
                .init("name", .string()), .init("apple_app_store_id", .anyOf([.string(), .integer(), .null])),
                .init("supported_languages", .anyOf([.array(.string()), .null])),
            ]),
            responses: [.init(.ok, "The app.", schema: .object(schema)), missing] + ClaimFault.answers),
        action: .steps(
            body: ClaimDialect.body,
            decode: { request, caller, tools throws(Rejection) in
                let app = try app(request, caller, tools)
                let edit = try SettingsEdit.read(request, tools, ofProject: false)
                return .decide(Administer(.change(.app(app.id), name: edit.name, edit.settings))) { result, _ in
                    answer(result) {
                        .read { snapshot throws(StoreFault) in
                            let facts = try AppDescription(of: app.id, snapshot)
                            return .answer(IdentityCalls.json { write(app, facts, name: edit.name, &$0) })
                        }
                    }
                }
            }))

    private static let delete = Endpoint(
        .delete, "/v1/apps/:id", scope: .appsWrite,
        operation: Operation(
            id: "delete_app", summary: "Removes an app. Its keys end, and its rows stay.",
            description: "Only administrators may delete apps.",
            responses: [.init(.ok, "It is gone.", schema: IdentityCalls.deletedSchema), missing] + ClaimFault.answers),
        action: .act(
            Administer.self, body: ClaimDialect.body,
            decode: { request, caller, tools throws(Rejection) in
                try caller.requireAdministrator("Only users can delete apps")
                return Decoded(Administer(.revokeApp(try app(request, caller, tools).id)))
            },
            encode: { _, _, _ in IdentityCalls.deleted }))

    static let characters = 255
    private static let platforms: [App.Platform] = [.apple, .android, .web, .backend]
    private static let missing = Operation.Answer(
        .notFound, "The project or the app does not exist.", schema: ClaimFault.schema)

    /// The place of an app's platform in lists.
    static func rank(_ app: App) -> Int { platforms.firstIndex(of: app.platform) ?? platforms.count }

    /// The app that a path names.
    private static func app(
        _ request: borrowing Request, _ caller: Caller, _ tools: LoopTools
    ) throws(Rejection) -> App {
        guard let id = ClaimID.number(.app, request.parameters[0]).map(AppID.init),
            let app = tools.directory.apps[id], app.project == caller.project, app.dialect == .claim,
            app.revokedAt == nil
        else { throw ClaimFault("App not found", status: .notFound).rejection() }
        return app
    }

    /// The apps of the caller's project, the oldest first.
    static func apps(_ caller: Caller, _ tools: LoopTools) -> [App] {
        tools.directory.apps.values
            .filter { $0.project == caller.project && $0.dialect == .claim && $0.revokedAt == nil }
            .sorted { $0.id.rawValue < $1.id.rawValue }
    }

    private static func facts(of apps: [App], _ snapshot: any Snapshot) throws(StoreFault) -> [AppID: AppDescription] {
        var facts: [AppID: AppDescription] = [:]
        for app in apps { facts[app.id] = try AppDescription(of: app.id, snapshot) }
        return facts
    }

    // MARK: - Keys

    private static let keys = Endpoint(
        .get, "/v1/auth/keys", scope: .appsRead,
        operation: Operation(
            id: "list_keys", summary: "Lists the keys of the project.",
            query: [.init("team_id", .string())],
            responses: [
                .init(.ok, "All of them.", schema: .object([.init("api_keys", .array(.object([])), required: true)]))
            ] + ClaimFault.answers),
        action: .query { request, caller, tools throws(Rejection) in
            let filter = try RowFilter.read(request, caller, tools)
            let keys = tools.directory.keys.values.filter {
                !filter.isEmpty && $0.project == caller.project && $0.kind.dialect == .claim && $0.revokedAt == nil
            }
            let apps = tools.directory.apps
            return { _ throws(StoreFault) in
                IdentityCalls.json { json in
                    json.key("api_keys")
                    json.array { json in
                        for key in keys.sorted(by: { $0.id.rawValue < $1.id.rawValue }) {
                            json.object { write(key, apps, &$0) }
                        }
                    }
                }
            }
        })

    // MARK: - Writing

    private static func write(_ scopes: ScopeSet, _ json: inout JSONWriter) {
        json.key("permissions")
        json.array { json in
            for name in scopes.names.split(separator: " ") { json.string(String(name)) }
        }
    }

    private static func write(
        _ project: Project, _ terms: ProjectTerms, _ settings: ClaimSettings, _ json: inout JSONWriter
    ) {
        json.key("id")
        json.string(ClaimID.text(.project, Int64(project.id.rawValue)))
        json.key("team_id")
        json.string(ClaimID.team)
        json.key("name")
        json.string(project.name)
        json.key("slug")
        json.string(slug(settings[.firstName] ?? project.name))
        json.key("color")
        json.text(settings[.color])
        terms.write(settings, &json)
        json.key("created_at")
        json.moment(project.madeAt)
    }

    /// A project's name in the form of the vendor's addresses.
    private static func slug(_ name: String) -> String {
        let words = name.lowercased().split { !($0.isASCII && ($0.isLetter || $0.isNumber)) }
        return words.isEmpty ? "project" : words.joined(separator: "-")
    }

    private static let unknown: [StaticString] = [
        "worldwide_average_rating", "worldwide_rating_count", "worldwide_rating_count_delta",
        "worldwide_current_version_rating", "worldwide_current_version_rating_count", "ratings_synced_at",
    ]

    private static let schema: [Schema.Property] =
        ["id", "team_id", "project_id", "name", "platform", "created_at"].map { .init($0, .string(), required: true) }
        + [
            "bundle_id", "latest_app_version", "latest_app_version_updated_at", "latest_app_version_source",
            "supported_languages_source", "apple_app_store_id", "client_secret",
        ].map { .init($0, .anyOf([.string(), .null]), required: true) }
        + [.init("supported_languages", .anyOf([.array(.string()), .null]), required: true)]
        + unknown.map { .init("\($0)", .null, required: true) }

    private static func write(
        _ app: App, _ description: AppDescription?, name: String? = nil, secret: String? = nil, _ json: inout JSONWriter
    ) {
        json.key("id")
        json.string(ClaimID.text(.app, app.id.rawValue))
        json.key("team_id")
        json.string(ClaimID.team)
        json.key("project_id")
        json.string(ClaimID.text(.project, Int64(app.project.rawValue)))
        json.key("name")
        json.string(name ?? app.name)
        json.key("platform")
        json.string(app.platform.rawValue)
        json.key("bundle_id")
        json.text(app.bundleID)
        let facts = description?.facts
        json.key("latest_app_version")
        json.text(facts?.version)
        json.key("latest_app_version_updated_at")
        if let at = facts?.versionAt { json.moment(at) } else { json.null() }
        json.key("latest_app_version_source")
        json.text(facts?.version == nil ? nil : "computed")
        let languages = description?.languages ?? []
        json.key("supported_languages")
        if languages.isEmpty {
            json.null()
        } else {
            json.array { json in for language in languages { json.string(language) } }
        }
        json.key("supported_languages_source")
        json.text(languages.isEmpty ? nil : description?.hasOwnLanguages == true ? "manual" : "computed")
        json.key("apple_app_store_id")
        json.text(description?.settings[.appStoreID])
        json.key("client_secret")
        json.text(secret)
        for name in unknown {
            json.key(name)
            json.null()
        }
        json.key("created_at")
        json.moment(app.madeAt)
    }

    private static func write(_ key: AccessKey, _ apps: [AppID: App], _ json: inout JSONWriter) {
        json.key("id")
        json.string(ClaimID.text(.key, key.id.rawValue))
        json.key("key_type")
        json.string(type(of: key.kind))
        json.key("app_id")
        json.text(key.app.map { ClaimID.text(.app, $0.rawValue) })
        json.key("app_name")
        json.text(key.app.flatMap { apps[$0]?.name })
        json.key("team_id")
        json.string(ClaimID.team)
        json.key("name")
        json.string(key.name)
        write(key.scopes, &json)
        json.key("created_at")
        json.moment(key.madeAt)
        json.key("expires_at")
        if let expiresAt = key.expiresAt { json.moment(expiresAt) } else { json.null() }
    }
}
