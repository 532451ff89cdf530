import ByteText
import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that read the users of apps (spec/claim-reads.md 7).
enum UserReads {
    static let routes = [
        users("/v1/apps/:id/users", "list_app_users", "Lists the users of an app."),
        users("/v1/app-users", "list_users", "Lists the users of all apps."),
        get, locales("/v1/projects/:id/users/locales", "project_locales"), locales("/v1/users/locales", "locales"),
    ]

    // MARK: - Lists

    /// The users that a caller asks for.
    struct Filter: Sendable {
        let project: ProjectID
        var app: AppID?
        var search: String?
        var isAnonymous: Bool?
        var isDevelopment: Bool?
        var billing: Set<String> = []
        var isByFirstSeen = false
        var limit = 50
        var since: Instant?
        var until: Instant?
        var before: (at: Instant, number: Int64)?
        var isEmpty = false

        init(_ request: borrowing Request, _ caller: Caller, _ tools: LoopTools, ofApp: Bool) throws(ClaimFault) {
            project = caller.project
            let query = try ReadQuery(request)
            let own = ClaimID.text(.project, Int64(caller.project.rawValue))
            if ofApp {
                guard let id = ClaimID.number(.app, request.parameters[0]).map(AppID.init),
                    let app = tools.directory.apps[id], app.project == caller.project, app.revokedAt == nil
                else { throw ClaimFault("App not found", status: .notFound) }
                self.app = id
            } else {
                if let path = request.parameters.first, path.lowercased() != own {
                    throw ClaimFault("Project not found", status: .notFound)
                }
                app = try query.condition("app_id").map { AppID(rawValue: ClaimID.number(.app, $0) ?? -1) }
                isEmpty = try query.condition("team_id").map { $0.lowercased() != ClaimID.team } ?? false
                let project = try query.condition("project_id")
                if app == nil, let project, project.lowercased() != own { isEmpty = true }
                since = try query.moment("since", at: caller.now)
                until = try query.moment("until", at: caller.now)
            }
            search = query["search"]?.lowercased()
            isAnonymous = try query.flag("is_anonymous")
            isDevelopment = query.isDevelopment
            billing = Set((query["billing_status"] ?? "").split(separator: ",").map { String($0).trimmed })
                .intersection(Filter.billings)
            if billing.count == Filter.billings.count { billing = [] }
            isByFirstSeen = query["sort"] == "first_seen"
            limit = query.limit
            before = query["cursor"].flatMap { ListCursor.place($0, .user, tools) }
        }

        static let billings: Set<String> = ["paid", "trial", "free"]

        /// The moment by which the list is sorted.
        func moment(_ user: User) -> Instant { isByFirstSeen ? user.user.firstSeen : user.user.lastSeen }

        func includes(_ user: User) -> Bool {
            if let app, user.user.apps[app] == nil { return false }
            if let search, !user.userID.lowercased().contains(search) { return false }
            if let isAnonymous, user.isAnonymous != isAnonymous { return false }
            if let isDevelopment, user.user.isDevelopment != isDevelopment { return false }
            if let since, user.user.lastSeen < since { return false }
            if let until, user.user.lastSeen > until { return false }
            return billing.isEmpty || billing.contains(user.billing)
        }
    }

    private static func users(_ path: String, _ id: String, _ summary: String) -> Endpoint {
        let ofApp = path.contains(":id")
        let more: [Schema.Property] =
            ofApp
            ? []
            : ["team_id", "project_id", "app_id", "since", "until"].map { Schema.Property($0, .string()) }
        return Endpoint(
            .get, path, scope: .appsRead,
            operation: Operation(
                id: id, summary: summary,
                description: "since and until are about the moment at which a user was last seen.",
                query: [
                    .init("search", .string("A part of the user id.")),
                    .init("is_anonymous", .string(oneOf: ["true", "false"])),
                    .init("billing_status", .string("A list of paid, trial and free.")),
                    .init("data_mode", .string("production by default.", oneOf: ["production", "development", "all"])),
                    .init("sort", .string("last_seen by default.", oneOf: ["last_seen", "first_seen"])),
                ] + RowFilter.pages + more,
                responses: [
                    .init(.ok, "A page.", schema: RowPage.schema("users", .object([]))),
                    .init(.notFound, "There is no such app.", schema: ClaimFault.schema),
                ] + ClaimFault.answers),
            action: .steps(
                body: .optional,
                decode: { request, caller, tools throws(Rejection) in
                    let filter: Filter
                    do throws(ClaimFault) {
                        filter = try Filter(request, caller, tools, ofApp: ofApp)
                    } catch {
                        throw error.rejection()
                    }
                    let apps = AppCalls.apps(caller, tools)
                    return UserPage.step(filter) { page in
                        IdentityCalls.json { json in
                            json.key("users")
                            json.array { json in
                                for user in page.users { json.object { write(user, filter.project, apps, &$0) } }
                            }
                            json.key("cursor")
                            let last = page.hasMore ? page.users.last : nil
                            json.text(last.map { ListCursor.text(filter.moment($0), .user, $0.person.rawValue) })
                            json.key("has_more")
                            json.bool(page.hasMore)
                        }
                    }
                }))
    }

    /// A page of users. It keeps the first users in the order of the list.
    struct UserPage: UserFinding {
        private let filter: Filter
        private(set) var users: [User] = []
        private(set) var hasMore = false

        init(_ filter: Filter) { self.filter = filter }

        /// The step of a call that answers with a page. Users by last sighting come from the journal, or else from all users.
        static func step(_ filter: Filter, _ answer: @escaping @Sendable (UserPage) -> Response) -> Step {
            let all = UserSearch(filter, UserPage(filter)).step { page, _ in answer(page) }
            return filter.isByFirstSeen || filter.isEmpty ? all : SeenUsers(filter).step(orElse: all, answer)
        }

        mutating func take(_ user: User) {
            // Two users of a group can have the same id and the same moment, but each person is one user.
            let place = (filter.moment(user), user.person.rawValue)
            if let before = filter.before, place >= (before.at, before.number) { return }
            let index = users.firstIndex { (filter.moment($0), $0.person.rawValue) < place } ?? users.count
            if index == filter.limit {
                hasMore = true
                return
            }
            users.insert(user, at: index)
            if users.count > filter.limit {
                users.removeLast()
                hasMore = true
            }
        }
    }

    // MARK: - One user

    private static let get = Endpoint(
        .get, "/v1/app-users/:id", scope: .appsRead,
        operation: Operation(
            id: "get_app_user", summary: "Shows a user.",
            responses: [
                .init(.ok, "The user.", schema: .object([.init("user_id", .string(), required: true)])),
                .init(.notFound, "There is no such user.", schema: ClaimFault.schema),
            ] + ClaimFault.answers),
        action: .query { request, caller, tools throws(Rejection) in
            let id = ClaimID.number(.user, request.parameters[0]).map(PersonID.init)
            let (project, apps) = (caller.project, AppCalls.apps(caller, tools))
            return { snapshot throws(StoreFault) in
                guard let id, snapshot.person(id, in: project) != nil, let user = try user(id, snapshot) else {
                    return ClaimFault("User not found", status: .notFound).response
                }
                return IdentityCalls.json { write(user, project, apps, &$0) }
            }
        })

    /// The user with an id. A user that was anonymous before has the id of the anonymous person.
    private static func user(_ id: PersonID, _ snapshot: any Snapshot) throws(StoreFault) -> User? {
        let claims = snapshot.group(of: id).merges.filter { $0.rule == .claim && $0.from == id }
        for person in [id] + claims.map(\.into) {
            guard let identity = shownID(among: try snapshot.identities(of: person)),
                let user = try user((0, person, identity.type, identity.value), snapshot), user.id == id
            else { continue }
            return user
        }
        return nil
    }

    /// The id of a user, found by a person that holds the user id.
    static func userID(of person: PersonID, _ snapshot: any Snapshot) throws(StoreFault) -> PersonID? {
        guard let identity = shownID(among: try snapshot.identities(of: person)) else { return nil }
        return try user((0, person, identity.type, identity.value), snapshot)?.id
    }

    // MARK: - Locales

    private static func locales(_ path: String, _ id: String) -> Endpoint {
        Endpoint(
            .get, path, scope: .appsRead,
            operation: Operation(
                id: id, summary: "Counts users by their language and by their country.",
                query: ["team_id", "project_id", "app_id", "since", "until"].map { Schema.Property($0, .string()) } + [
                    .init("data_mode", .string("production by default.", oneOf: ["production", "development", "all"]))
                ],
                responses: [
                    .init(
                        .ok, "The numbers.",
                        schema: .object([
                            .init(
                                "by_locale",
                                .array(
                                    .object([
                                        .init("locale", .string(), required: true),
                                        .init("base_language", .string(), required: true),
                                        .init("user_count", .integer(), required: true),
                                        .init("shipped", .anyOf([.boolean(), .null]), required: true),
                                    ])), required: true),
                            .init(
                                "by_country",
                                .array(
                                    .object([
                                        .init("country_code", .string(), required: true),
                                        .init("user_count", .integer(), required: true),
                                    ])), required: true),
                            .init("supported_languages", .anyOf([.array(.string()), .null]), required: true),
                            .init("users_with_preferred_language", .integer(), required: true),
                            .init("total_users", .integer(), required: true),
                        ])), .init(.notFound, "The project does not exist.", schema: ClaimFault.schema),
                ] + ClaimFault.answers),
            action: .steps(
                body: .optional,
                decode: { request, caller, tools throws(Rejection) in
                    let filter: Filter
                    do throws(ClaimFault) {
                        filter = try Filter(request, caller, tools, ofApp: false)
                    } catch {
                        throw error.rejection()
                    }
                    let apps = AppCalls.apps(caller, tools).map(\.id)
                    let isOfProject = path.contains(":id")
                    return UserSearch(filter, LocaleCount()).step { count, snapshot throws(StoreFault) in
                        var languages: Set<String> = []
                        for app in isOfProject ? apps : [] {
                            languages.formUnion(try AppDescription(of: app, snapshot).languages)
                        }
                        let shipped = languages.isEmpty ? nil : languages.sorted()
                        return IdentityCalls.json { count.write(shipped, &$0) }
                    }
                }))
    }

    /// The numbers of users by language and by country.
    private struct LocaleCount: UserFinding {
        private var locales: [String: Int] = [:]
        private var countries: [String: Int] = [:]
        private var withLanguage = 0
        private var total = 0

        mutating func take(_ user: User) {
            total += 1
            let language = user.user.fields[.preferredLanguage]
            if language != nil { withLanguage += 1 }
            if let locale = language ?? user.user.fields[.locale] { locales[locale, default: 0] += 1 }
            if let country = user.user.fields[.countryCode] { countries[country, default: 0] += 1 }
        }

        /// The language of a locale without its region.
        private static func base(_ locale: String) -> String {
            String(locale.prefix { $0 != "-" && $0 != "_" }).lowercased()
        }

        private static func sorted(_ counts: [String: Int]) -> [(key: String, value: Int)] {
            counts.sorted { ($1.value, $0.key) < ($0.value, $1.key) }
        }

        func write(_ shipped: [String]?, _ json: inout JSONWriter) {
            let languages = shipped.map { Set($0.map(LocaleCount.base)) }
            json.key("by_locale")
            json.array { json in
                for (locale, count) in LocaleCount.sorted(locales) {
                    json.object { json in
                        json.key("locale")
                        json.string(locale)
                        json.key("base_language")
                        json.string(LocaleCount.base(locale))
                        json.key("user_count")
                        json.integer(count)
                        json.key("shipped")
                        if let languages {
                            json.bool(languages.contains(LocaleCount.base(locale)))
                        } else {
                            json.null()
                        }
                    }
                }
            }
            json.key("by_country")
            json.array { json in
                for (country, count) in LocaleCount.sorted(countries) {
                    json.object { json in
                        json.key("country_code")
                        json.string(country)
                        json.key("user_count")
                        json.integer(count)
                    }
                }
            }
            json.key("supported_languages")
            if let shipped {
                json.array { json in for language in shipped { json.string(language) } }
            } else {
                json.null()
            }
            json.key("users_with_preferred_language")
            json.integer(withLanguage)
            json.key("total_users")
            json.integer(total)
        }
    }

    // MARK: - Users

    /// The user id that lists show for a person with some identities: the known id, or else the anonymous id. A person that got
    /// further ids from an administrator is still one user, as in rows (``UserNames``).
    static func shownID(among identities: [HeldIdentity]) -> HeldIdentity? {
        identities.first { $0.type == .claimUserID } ?? identities.first { $0.type == .claimAnonymousID }
    }

    /// The user ids that lists show for people, as hashes (``shownID(among:)``).
    static func shownIDs(
        of people: [PersonID], _ snapshot: any Snapshot
    ) throws(StoreFault) -> [PersonID: IdentityKey] {
        var shown: [PersonID: (type: IdentityType, key: IdentityKey)] = [:]
        for held in try snapshot.keys(of: [.claimUserID, .claimAnonymousID], heldBy: people) {
            if let known = shown[held.person], known.type == .claimUserID || held.type != .claimUserID { continue }
            shown[held.person] = (held.type, held.key)
        }
        return shown.mapValues(\.key)
    }

    /// A user for readers, with the anonymous ids that the user has claimed.
    struct User: Sendable {
        /// The person that holds the user id.
        let person: PersonID
        /// The person whose id is the user's id, if that person is still in the group.
        let id: PersonID
        let userID: String
        let isAnonymous: Bool
        let claimedFrom: [String]
        let user: AppUser
        let properties: [String: String]

        /// Whether the user pays, tries or does neither, as the user's properties of the vendor's store say.
        var billing: String {
            if properties["rc_period_type"] == "trial" { return "trial" }
            return properties["rc_subscriber"] == "true" ? "paid" : "free"
        }
    }

    /// A user, found by one link; nil if the link belongs to an anonymous id that a user has claimed.
    static func user(
        _ link: (link: Int64, person: PersonID, type: IdentityType, value: String), _ snapshot: any Snapshot
    ) throws(StoreFault) -> User? {
        let group = snapshot.group(of: link.person)
        var claimedFrom: [String] = []
        if link.type == .claimAnonymousID {
            if group.count > 1, try snapshot.totals(of: group).identities[.claimUserID, default: 0] > 0 { return nil }
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
            person: link.person, id: snapshot.areOne(user.idPerson, link.person) ? user.idPerson : link.person,
            userID: link.value, isAnonymous: link.type == .claimAnonymousID, claimedFrom: claimedFrom,
            user: user,
            properties: properties.entries.mapValues { String(decoding: $0.value, as: UTF8.self) })
    }

    private static let columns: [(StaticString, AppUser.Field)] = [
        ("last_country_code", .countryCode), ("last_app_version", .appVersion), ("last_sdk_name", .sdkName),
        ("last_sdk_version", .sdkVersion), ("last_locale", .locale), ("last_preferred_language", .preferredLanguage),
    ]

    private static func write(
        _ user: User, _ project: ProjectID, _ apps: [App], _ json: inout JSONWriter
    ) {
        let known = Dictionary(uniqueKeysWithValues: apps.map { ($0.id, $0) })
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
            let uses = user.user.apps.sorted { one, other in
                let ranks = [one, other].map { known[$0.key].map(AppCalls.rank) ?? .max }
                if ranks[0] != ranks[1] { return ranks[0] < ranks[1] }
                return (other.value.last, one.key.rawValue) < (one.value.last, other.key.rawValue)
            }
            for (app, use) in uses {
                json.object { json in
                    json.key("app_id")
                    json.string(ClaimID.text(.app, app.rawValue))
                    json.key("app_name")
                    json.text(known[app]?.name)
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
}

/// The result of a search of users, which takes the found users one after the other, in no order.
protocol UserFinding: Sendable {
    mutating func take(_ user: UserReads.User)
}

/// Searches all users of a project, and gives those that match to a finding. One reading looks at a limited number of users.
struct UserSearch<Finding: UserFinding>: Sendable {
    private let filter: UserReads.Filter
    private var finding: Finding
    /// The last link that the search passed.
    private var before: Int64?

    private static var usersInOneReading: Int { 2000 }
    private static var usersAtOnce: Int { 200 }

    init(_ filter: UserReads.Filter, _ finding: Finding) { (self.filter, self.finding) = (filter, finding) }

    /// Makes the step of a call that answers with the finding.
    func step(_ answer: @escaping @Sendable (Finding, any Snapshot) throws(StoreFault) -> Response) -> Step {
        .read { snapshot throws(StoreFault) in
            var search = self
            return try search.goOn(snapshot)
                ? search.step(answer).later : .answer(try answer(search.finding, snapshot))
        }
    }

    /// Looks at further users; false when the search is complete.
    private mutating func goOn(_ snapshot: any Snapshot) throws(StoreFault) -> Bool {
        if filter.isEmpty { return false }
        var lookedAt = 0
        while lookedAt < UserSearch.usersInOneReading {
            let links = try snapshot.holders(
                of: [.claimUserID, .claimAnonymousID], in: filter.project, before: before, limit: UserSearch.usersAtOnce
            )
            let shown = try UserReads.shownIDs(of: links.map(\.person), snapshot)
            for link in links {
                before = link.link
                let key = IdentityKey(link.type, link.value.utf8.span, in: filter.project, hash: snapshot.hash)
                guard shown[link.person] == key, let user = try UserReads.user(link, snapshot), filter.includes(user)
                else { continue }
                finding.take(user)
            }
            if links.count < UserSearch.usersAtOnce { return false }
            lookedAt += links.count
        }
        return true
    }
}
