import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that read the users of apps, and the project's apps and keys (spec/claim.md 1.2 and 1.7).
enum UserReads {
    static func routes(_ terms: ProjectTerms) -> [Endpoint] {
        [
            users("/v1/apps/:id/users", "list_app_users", "Lists the users of an app."),
            users("/v1/app-users", "list_users", "Lists the users of all apps."),
            list("/v1/projects", .projectsRead, "list_projects", "projects") { caller, tools, json in
                guard let project = tools.directory.projects[caller.project] else { return }
                json.object { write(project, terms, &$0) }
            },
            project(terms),
            list("/v1/apps", .appsRead, "list_apps", "apps") { caller, tools, json in
                for app in apps(caller, tools) { json.object { write(app, &$0) } }
            },
            list("/v1/auth/keys", .appsRead, "list_keys", "api_keys") { caller, tools, json in
                let keys = tools.directory.keys.values.filter {
                    $0.project == caller.project && $0.kind.dialect == .claim && $0.revokedAt == nil
                }
                for key in keys.sorted(by: { $0.id.rawValue < $1.id.rawValue }) {
                    json.object { write(key, tools, &$0) }
                }
            },
        ]
    }

    // MARK: - Users

    private struct Filter: Sendable {
        var app: Int64?
        var search: String?
        var isAnonymous: Bool?
        var isDevelopment: Bool?
        var limit = 50
        var before: Int64?
    }

    private static func users(_ path: String, _ id: String, _ summary: String) -> Endpoint {
        Endpoint(
            .get, path, scope: .appsRead,
            operation: Operation(
                id: id, summary: summary,
                description: "Takes search, is_anonymous, data_mode, limit (1 to 200) and cursor.",
                responses: [
                    .init(
                        .ok, "A page.",
                        schema: .object([
                            .init("users", .array(.object([])), required: true),
                            .init("cursor", .anyOf([.string(), .null]), required: true),
                            .init("has_more", .boolean(), required: true),
                        ])),
                    .init(.notFound, "There is no such app.", schema: ClaimFault.schema),
                ] + ClaimFault.answers),
            action: .query { request, caller, tools throws(Rejection) in
                let filter: Filter
                do throws(ClaimFault) {
                    filter = try self.filter(request, caller, tools)
                } catch {
                    throw error.rejection()
                }
                let names = Dictionary(uniqueKeysWithValues: apps(caller, tools).map { ($0.id, $0.name) })
                return { snapshot throws(StoreFault) in
                    let page = try read(filter, caller.project, snapshot)
                    return IdentityCalls.json { json in
                        json.key("users")
                        json.array { json in
                            for user in page.users { json.object { write(user, caller.project, names, &$0) } }
                        }
                        json.key("cursor")
                        json.text(page.next.map(String.init))
                        json.key("has_more")
                        json.bool(page.next != nil)
                    }
                }
            })
    }

    private static func filter(
        _ request: borrowing Request, _ caller: Caller, _ tools: LoopTools
    ) throws(ClaimFault) -> Filter {
        let query = try ReadQuery(request)
        var filter = Filter()
        if let id = request.parameters.first {
            guard let app = ClaimID.number(.app, id),
                tools.directory.apps[AppID(rawValue: app)]?.project == caller.project
            else { throw ClaimFault("App not found", status: .notFound) }
            filter.app = app
        }
        filter.search = query["search"]?.lowercased()
        filter.isAnonymous = query["is_anonymous"].map { $0 == "true" }
        filter.isDevelopment = query.isDevelopment
        filter.limit = query.limit
        filter.before = query["cursor"].flatMap(Int64.init)
        return filter
    }

    /// A user for readers, with the anonymous ids that the user has claimed.
    struct User {
        /// The person whose id is the user's id, if that person is still in the group.
        let id: PersonID
        let userID: String
        let isAnonymous: Bool
        let claimedFrom: [String]
        let user: AppUser
        let properties: [String: String]
    }

    private static let linksLookedAt = 100_000

    private static func read(
        _ filter: Filter, _ project: ProjectID, _ snapshot: any Snapshot
    ) throws(StoreFault) -> (users: [User], next: Int64?) {
        var users: [User] = []
        var before = filter.before
        var lookedAt = 0
        while lookedAt < linksLookedAt {
            let links = try snapshot.holders(
                of: [.claimUserID, .claimAnonymousID], in: project, before: before, limit: 200)
            for link in links {
                lookedAt += 1
                if users.count == filter.limit { return (users, before) }
                before = link.link
                guard let user = try user(link, snapshot), matches(user, filter) else { continue }
                users.append(user)
            }
            if links.count < 200 { return (users, nil) }
        }
        return (users, before)
    }

    private static func matches(_ user: User, _ filter: Filter) -> Bool {
        if let app = filter.app, user.user.apps[AppID(rawValue: app)] == nil { return false }
        if let search = filter.search, !user.userID.lowercased().contains(search) { return false }
        if let isAnonymous = filter.isAnonymous, user.isAnonymous != isAnonymous { return false }
        if let isDevelopment = filter.isDevelopment, user.user.isDevelopment != isDevelopment { return false }
        return true
    }

    /// A user, found by one link; nil if the link belongs to an anonymous id that a user has claimed.
    private static func user(
        _ link: (link: Int64, person: PersonID, type: IdentityType, value: String), _ snapshot: any Snapshot
    ) throws(StoreFault) -> User? {
        let group = snapshot.group(of: link.person)
        var claimedFrom: [String] = []
        if link.type == .claimAnonymousID {
            if group.count > 1, try snapshot.totals(of: group).identities[.claimUserID, default: 0] > 0 {
                // An administrator may have given a user id to a person of an anonymous id: then the list shows the person
                // twice.
                let own = try snapshot.identities(of: link.person).contains { $0.type == .claimUserID }
                if !own { return nil }
            }
        } else {
            // An anonymous person may have been claimed by two users of the group.
            var claimed: Set<PersonID> = []
            for merge in group.merges where merge.rule == .claim && claimed.insert(merge.from).inserted {
                claimedFrom += try snapshot.identities(of: merge.from).filter { $0.type == .claimAnonymousID }
                    .map(\.value)
            }
        }
        let own = try snapshot.document(DocumentKey(.appUser, of: link.person))
            .flatMap { AppUser(of: link.person, packed: $0) }
        var user = own ?? AppUser(of: link.person, at: link.person.madeAt)
        let folded: FoldedAppUser = try snapshot.fold(.appUser, of: group)
        user.take(folded)
        let properties: FoldedAttributes = try snapshot.fold(.properties, of: group)
        return User(
            id: snapshot.areOne(user.idPerson, link.person) ? user.idPerson : link.person,
            userID: link.value, isAnonymous: link.type == .claimAnonymousID, claimedFrom: claimedFrom,
            user: user,
            properties: properties.entries.mapValues { String(decoding: $0.value, as: UTF8.self) })
    }

    private static let columns: [(StaticString, AppUser.Field)] = [
        ("last_country_code", .countryCode), ("last_app_version", .appVersion), ("last_sdk_name", .sdkName),
        ("last_sdk_version", .sdkVersion), ("last_locale", .locale), ("last_preferred_language", .preferredLanguage),
    ]

    private static func write(
        _ user: User, _ project: ProjectID, _ names: [AppID: String], _ json: inout JSONWriter
    ) {
        json.key("id")
        json.string(ClaimID.text(.user, user.id.rawValue))
        json.key("project_id")
        json.string(ClaimID.text(.project, Int64(project.rawValue)))
        json.key("user_id")
        json.string(user.userID)
        json.key("is_anonymous")
        json.bool(user.isAnonymous)
        json.key("claimed_from")
        if user.claimedFrom.isEmpty {
            json.null()
        } else {
            json.array { json in
                for id in user.claimedFrom { json.string(id) }
            }
        }
        json.key("properties")
        json.object { IdentityCalls.write(user.properties, &$0) }
        json.key("apps")
        json.array { json in
            for (app, use) in user.user.apps.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
                json.object { json in
                    json.key("app_id")
                    json.string(ClaimID.text(.app, app.rawValue))
                    json.key("app_name")
                    json.text(names[app])
                    json.key("first_seen_at")
                    json.moment(use.first)
                    json.key("last_seen_at")
                    json.moment(use.last)
                }
            }
        }
        json.key("first_seen_at")
        json.moment(user.user.firstSeen)
        json.key("last_seen_at")
        json.moment(user.user.lastSeen)
        for (column, field) in columns {
            json.key(column)
            json.text(user.user.fields[field])
        }
        json.key("total_revenue_usd_cents")
        json.null()
        json.key("revenue_synced_at")
        json.null()
        json.key("is_dev")
        json.bool(user.user.isDevelopment)
    }

    // MARK: - Projects, apps and keys

    private static func list(
        _ path: String, _ scope: Scope, _ id: String, _ key: StaticString,
        _ body: @escaping @Sendable (Caller, LoopTools, inout JSONWriter) -> Void
    ) -> Endpoint {
        Endpoint(
            .get, path, scope: scope,
            operation: Operation(
                id: id, summary: "Lists the \(key) of the project.",
                responses: [
                    .init(.ok, "All of them.", schema: .object([.init("\(key)", .array(.object([])), required: true)]))
                ] + ClaimFault.answers),
            action: .answer { _, caller, tools in
                IdentityCalls.json { json in
                    json.key(key)
                    json.array { json in
                        if let caller { body(caller, tools, &json) }
                    }
                }
            })
    }

    private static func project(_ terms: ProjectTerms) -> Endpoint {
        Endpoint(
            .get, "/v1/projects/:id", scope: .projectsRead,
            operation: Operation(
                id: "get_project", summary: "Tells of the project, and of its apps.",
                responses: [
                    .init(.ok, "The project.", schema: .object([.init("apps", .array(.object([])), required: true)])),
                    .init(.notFound, "There is none with this id.", schema: ClaimFault.schema),
                ] + ClaimFault.answers),
            action: .answer { request, caller, tools in
                guard let caller, let project = tools.directory.projects[caller.project],
                    request.parameters[0].lowercased() == ClaimID.text(.project, Int64(project.id.rawValue))
                else { return ClaimFault("Project not found", status: .notFound).response }
                return IdentityCalls.json { json in
                    write(project, terms, &json)
                    json.key("apps")
                    json.array { json in
                        for app in apps(caller, tools) { json.object { write(app, &$0) } }
                    }
                }
            })
    }

    private static func apps(_ caller: Caller, _ tools: LoopTools) -> [App] {
        tools.directory.apps.values.filter { $0.project == caller.project && $0.dialect == .claim }
            .sorted { $0.id.rawValue < $1.id.rawValue }
    }

    private static func write(_ project: Project, _ terms: ProjectTerms, _ json: inout JSONWriter) {
        json.key("id")
        json.string(ClaimID.text(.project, Int64(project.id.rawValue)))
        json.key("team_id")
        json.string(ClaimID.team)
        json.key("name")
        json.string(project.name)
        json.key("slug")
        json.string(slug(project.name))
        json.key("color")
        json.null()
        terms.write(&json)
        json.key("created_at")
        json.moment(project.madeAt)
    }

    /// A project's name in the form of the vendor's addresses.
    private static func slug(_ name: String) -> String {
        let words = name.lowercased().split { !($0.isASCII && ($0.isLetter || $0.isNumber)) }
        return words.isEmpty ? "project" : words.joined(separator: "-")
    }

    private static func write(_ app: App, _ json: inout JSONWriter) {
        json.key("id")
        json.string(ClaimID.text(.app, app.id.rawValue))
        json.key("team_id")
        json.string(ClaimID.team)
        json.key("project_id")
        json.string(ClaimID.text(.project, Int64(app.project.rawValue)))
        json.key("name")
        json.string(app.name)
        json.key("platform")
        json.string(app.platform.rawValue)
        json.key("bundle_id")
        json.text(app.bundleID)
        json.key("created_at")
        json.moment(app.madeAt)
    }

    private static func write(_ key: AccessKey, _ tools: LoopTools, _ json: inout JSONWriter) {
        json.key("id")
        json.string(ClaimID.text(.key, key.id.rawValue))
        json.key("key_type")
        json.string(key.kind == .claimClient ? "client" : key.kind == .claimAgent ? "agent" : "import")
        json.key("app_id")
        json.text(key.app.map { ClaimID.text(.app, $0.rawValue) })
        json.key("app_name")
        json.text(key.app.flatMap { tools.directory.apps[$0]?.name })
        json.key("team_id")
        json.string(ClaimID.team)
        json.key("name")
        json.string(key.name)
        json.key("permissions")
        json.array { json in
            for name in key.scopes.names.split(separator: " ") { json.string(String(name)) }
        }
        json.key("created_at")
        json.moment(key.madeAt)
        json.key("expires_at")
        if let expiresAt = key.expiresAt { json.moment(expiresAt) } else { json.null() }
    }
}
