import ByteText
import CivilTime
import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that find and show people: the profile, the timeline and the journal (spec/native.md, People).
enum PeopleCalls {
    static let routes = [
        Endpoint(
            .get, "/onym/v1/people", scope: .consoleRead,
            operation: Operation(
                id: "people_find",
                summary: "Finds the people that hold an identity: ?type=email&value=ada@example.com.",
                description: """
                    With ?order=recent instead of type and value, the call lists the people that calls made or changed \
                    last, each group once on a page. It takes limit and cursor. The server reads at most \
                    \(RecentPeople.readAtMost) calls of the journal for a page, so a page may be short: next_cursor \
                    continues, and a later page may name a person again. Events that change nothing else do count; calls \
                    that only find a person do not.
                    """,
                query: [
                    .init("type", .string("An identity type.")),
                    .init("value", .string("The value of the identity.")),
                    .init("order", .string("The order of a list of people.", oneOf: [RecentPeople.order])),
                ] + ListQuery.parameters + [AsOf.parameter],
                responses: [
                    .init(
                        .ok, "The people.",
                        schema: .anyOf([
                            .object([.init("people", .array(profileSchema), required: true)]), RecentPeople.schema,
                        ]))
                ] + Native.problems([.badRequest, .gone])),
            action: .query { request, caller, tools throws(Rejection) in
                let (project, id) = (caller.project, request.id)
                let asOf = try AsOf(request)
                if let order = request.query?["order"] {
                    let others = ["type", "value", "at"].filter { request.query?[$0] != nil }
                    guard order == RecentPeople.order, others.isEmpty else {
                        throw AdminText.wrong("order must be recent, without type, value and at.", id)
                    }
                    let recent = try RecentPeople(request)
                    return { snapshot throws(StoreFault) in try recent.answer(in: project, snapshot) }
                }
                guard ["limit", "cursor"].allSatisfy({ request.query?[$0] == nil }) else {
                    throw AdminText.wrong("limit and cursor need order=recent.", id)
                }
                guard let query = request.query, let type = query["type"].flatMap(IdentityType.init(named:)),
                    let value = query["value"], !value.isEmpty
                else {
                    throw Rejection(
                        Native.problem(
                            .badRequest, code: "validation_error",
                            "type must be an identity type, and value what it is: ?type=email&value=ada@example.com.",
                            id))
                }
                let keys = PersonName.keys(type, PersonName.values(type, value, caller, tools), caller, tools)
                return { snapshot throws(StoreFault) in
                    try asOf.answer(in: project, snapshot, id) { snapshot throws(StoreFault) in
                        var profiles: [(PersonID, Profile)] = []
                        for person in PersonName.holders(keys, snapshot).sorted().prefix(peopleAtMost) {
                            if let profile = try Profile(person, in: project, snapshot, page: firstPage) {
                                profiles.append((person, profile))
                            }
                        }
                        return Native.json(.ok) { json in
                            json.key("people")
                            json.array { json in
                                for (person, profile) in profiles { json.object { write(profile, of: person, &$0) } }
                            }
                        }
                    }
                }
            }),
        Endpoint(
            .get, "/onym/v1/people/:id", scope: .consoleRead,
            operation: Operation(
                id: "person_get", summary: "Shows a person, by an id or by an identity (customerid:42).",
                description: """
                    Each page has the properties and counts of the whole group, and a page of members with their \
                    identities and holdings: limit (1 to 200; 200 by default) and the next_cursor of the page \
                    before.
                    """,
                query: [
                    .init("limit", .integer("The greatest number of members: 1 to 200; the default is 200.")),
                    .init("cursor", .string("The next_cursor of the page before.")), AsOf.parameter,
                ],
                responses: [.init(.ok, "The person.", schema: profileSchema)]
                    + Native.problems([.badRequest, .notFound, .conflict, .gone])),
            action: .query { request, caller, tools throws(Rejection) in
                let (name, project, id) = (
                    PersonName(request.parameters[0], caller, tools), caller.project, request.id
                )
                let list = try ListQuery(request, standardLimit: membersPerPage)
                let page = Profile.Page(
                    after: list.cursor.map { PersonID(rawValue: Int64($0)) }, limit: list.limit)
                let asOf = try AsOf(request)
                return { snapshot throws(StoreFault) in
                    try asOf.answer(in: project, snapshot, id) { snapshot throws(StoreFault) in
                        switch name.find(in: snapshot) {
                        case .failure(let problem): return problem.response(id)
                        case .success(let person):
                            guard let profile = try Profile(person, in: project, snapshot, page: page) else {
                                return Native.problem(.refused(.noSuchPerson), id)
                            }
                            return Native.json(.ok) { write(profile, of: person, &$0) }
                        }
                    }
                }
            }),
        Endpoint(
            .get, "/onym/v1/people/:id/timeline", scope: .consoleRead,
            operation: Operation(
                id: "person_timeline",
                summary: "Shows the rows of a person, the last row first.",
                description: """
                    Takes kinds, member, since and until (ISO 8601, for the moment of the row), limit (1 to 200) and the \
                    cursor of the page before. A page may be short if few of many rows match. identifier is an identity by \
                    which the row came; null if its call named none.
                    """,
                query: [
                    kindsParameter, memberParameter,
                    .init("since", .string("A time like 2026-11-21T09:00:00Z.")), .init("until", .string("As since.")),
                    .init("limit", .integer("1 to 200.")),
                    .init("cursor", .string("The next_cursor of the page before.")),
                    AsOf.parameter,
                ],
                responses: [
                    .init(
                        .ok, "A page.",
                        schema: .object([
                            .init("rows", .array(.object([])), required: true),
                            .init("next_cursor", .anyOf([.string(), .null]), required: true),
                        ]))
                ] + Native.problems([.badRequest, .notFound, .conflict, .gone])),
            action: .query { request, caller, tools throws(Rejection) in
                let (name, project, id) = (
                    PersonName(request.parameters[0], caller, tools), caller.project, request.id
                )
                let (filter, asOf) = (try timelineFilter(request), try AsOf(request))
                return { snapshot throws(StoreFault) in
                    try asOf.answer(in: project, snapshot, id) { snapshot throws(StoreFault) in
                        switch name.find(in: project, snapshot) {
                        case .failure(let problem): return problem.response(id)
                        case .success(let person):
                            let timeline = try Timeline(of: person, filter, snapshot)
                            return answer(timeline, try ways(of: timeline.rows, snapshot))
                        }
                    }
                }
            }),
        journal,
    ]

    /// The journal of a person and of all members of its group.
    private static let journal = Endpoint(
        .get, "/onym/v1/people/:id/journal", scope: .consoleRead,
        operation: Operation(
            id: "person_journal", summary: "Shows the calls that changed a person, the last call first.",
            description: "Takes limit (1 to 200) and the cursor of the page before.",
            query: ListQuery.parameters + [AsOf.parameter],
            responses: [
                .init(
                    .ok, "A page.",
                    schema: .object([
                        .init("calls", .array(JournalText.schema), required: true),
                        .init("next_cursor", .anyOf([.string(), .null]), required: true),
                    ]))
            ] + Native.problems([.badRequest, .notFound, .conflict, .gone])),
        action: .query { request, caller, tools throws(Rejection) in
            let (name, project, id) = (PersonName(request.parameters[0], caller, tools), caller.project, request.id)
            let (list, asOf) = (try ListQuery(request), try AsOf(request))
            return { snapshot throws(StoreFault) in
                try asOf.answer(in: project, snapshot, id) { snapshot throws(StoreFault) in
                    switch name.find(in: project, snapshot) {
                    case .failure(let problem): return problem.response(id)
                    case .success(let person):
                        return try JournalText.answer(person, list, snapshot)
                    }
                }
            }
        })

    /// The number of members on a page.
    private static let membersPerPage = 200
    private static let firstPage = Profile.Page(after: nil, limit: membersPerPage)

    /// The greatest number of people in an answer.
    private static let peopleAtMost = 200

    // MARK: - A person

    private static func write(_ profile: Profile, of id: PersonID, _ json: inout JSONWriter) {
        let members = profile.members.map(\.id.rawValue)
        json.key("id")
        json.decimalString(id.rawValue)
        json.key("root")
        json.decimalString(profile.root.rawValue)
        json.key("members")
        json.array { json in
            for member in members { json.decimalString(member) }
        }
        json.key("members_count")
        json.integer(profile.memberCount)
        json.key("identities_count")
        json.integer(profile.identityCount)
        json.key("next_cursor")
        json.decimalString(profile.next?.rawValue)
        json.key("merges")
        json.array { json in
            for merge in profile.merges { json.object { write(merge, &$0) } }
        }
        json.key("ids")
        json.object { json in
            json.key("mpid")
            json.people(profile.members.map(\.id))
            json.key("linking_user_id")
            json.array { json in
                for member in profile.members where profile.holdings[member.id]?.isLinkedUser == true {
                    json.string(member.id.linkingText)
                }
            }
            for (name, types) in [
                ("qonversion", AccessWorld.allCases.map(\.userType)), ("claim_user_id", [IdentityType.claimUserID]),
            ] {
                json.key(name)
                json.array { json in
                    for (_, identity) in profile.identities where types.contains(identity.type) {
                        json.string(identity.value)
                    }
                }
            }
        }
        json.key("identities")
        json.array { json in
            for (holder, identity) in profile.identities { json.object { write(identity, of: holder, &$0) } }
        }
        json.key("properties")
        json.object { json in
            for (dialect, folded) in profile.properties {
                json.key(dialect.rawValue)
                json.object { write(folded, of: dialect, &$0) }
            }
        }
        json.key("installs")
        json.array { json in
            for install in profile.members.flatMap({ profile.holdings[$0.id]?.installs ?? [] }) {
                json.object { LinkingCalls.write(install, &$0) }
            }
        }
        json.key("purchases")
        json.array { json in
            for (purchase, world) in profile.purchases { json.object { write(purchase, world, &$0) } }
        }
        json.key("aliases")
        json.array { json in
            for alias in profile.aliases { json.object { AliasCalls.write(alias, &$0) } }
        }
        json.key("first_seen")
        json.moment(profile.firstSeen)
        json.key("last_seen")
        json.moment(profile.lastSeen)
        json.key("counts")
        json.counts(profile.counts)
    }

    private static func write(_ merge: Merge, _ json: inout JSONWriter) {
        json.key("id")
        json.string("m_\(merge.id.rawValue)")
        json.members(of: merge)
        json.key("at")
        json.moment(merge.id.madeAt)
    }

    static func write(_ identity: HeldIdentity, of holder: PersonID, _ json: inout JSONWriter) {
        json.key("holder")
        json.decimalString(holder.rawValue)
        json.key("type")
        json.string("\(identity.type.name)")
        json.key("value")
        json.string(identity.value)
        json.key("since")
        json.moment(identity.since)
        json.key("key")
        json.decimalString(identity.key?.rawValue)
        json.key("request_id")
        json.string(identity.requestID)
    }

    static func write(_ purchase: Purchase, _ world: AccessWorld, _ json: inout JSONWriter) {
        json.key("transaction")
        json.string(purchase.originalTransaction)
        json.key("product")
        json.string(purchase.product)
        json.key("source")
        json.string(purchase.source.name)
        json.key("environment")
        json.string("\(world.name)")
        json.key("started_at")
        json.moment(purchase.startedAt)
        json.key("purchased_at")
        json.moment(purchase.purchasedAt)
        json.key("revoked_at")
        json.moment(purchase.revokedAt)
        json.key("reporter")
        json.decimalString(purchase.reporter.rawValue)
        json.key("installs")
        json.people(purchase.installs.people)
        json.key("shared_at")
        json.moment(purchase.sharedAt)
        // Until its store tells of the purchase, only a file does.
        json.key("imported")
        json.bool(purchase.isImported)
        json.key("device")
        json.string(purchase.device.map { "\($0.name)" })
        json.key("owners")
        json.people(purchase.owners)
    }

    /// Writes properties.
    ///
    /// - Parameters:
    ///   - attributes: the properties of a group.
    ///   - dialect: the dialect that wrote them.
    ///   - other: a person, and the one to show in its place; nil for a person that does not exist yet.
    static func write(
        _ attributes: FoldedAttributes, of dialect: Dialect, showing other: (PersonID, shown: PersonID?)? = nil,
        _ json: inout JSONWriter
    ) {
        for (name, entry) in attributes.entries.sorted(by: { $0.key < $1.key }) {
            json.key(name)
            json.object { json in
                json.key("value")
                json.property(entry.value, of: dialect)
                json.key("at")
                json.moment(entry.at)
                json.key("origin")
                let isOther = entry.origin == other?.0
                json.decimalString((isOther ? other?.shown : entry.origin)?.rawValue)
            }
        }
    }

    private static let profileSchema = Schema.object([
        .init("id", .string("A 64-bit integer, in digits."), required: true),
        .init("root", .string(), required: true), .init("members", .array(.string()), required: true),
        .init("members_count", .integer("The number of members of the group."), required: true),
        .init("identities_count", .integer("The number of identities of all members."), required: true),
        .init("next_cursor", .anyOf([.string("The cursor of the next members."), .null]), required: true),
        .init("merges", .array(.object([])), required: true),
        .init("ids", .object([]), required: true),
        .init(
            "identities",
            .array(
                .object([
                    .init("holder", .string(), required: true), .init("type", .string(), required: true),
                    .init("value", .string(), required: true),
                    .init("since", .string(), required: true),
                    .init("key", .anyOf([.string(), .null]), required: true),
                    .init("request_id", .string(), required: true),
                ])),
            required: true),
        .init("properties", .object([]), required: true),
        .init("installs", .array(LinkingCalls.installSchema), required: true),
        .init("purchases", .array(.object([])), required: true),
        .init("aliases", .array(AliasCalls.schema), required: true),
        .init("first_seen", .string(), required: true), .init("last_seen", .string(), required: true),
        .init("counts", .object([]), required: true),
    ])

    // MARK: - A timeline

    static let kindsParameter = Schema.Property(
        "kinds",
        .string("The wanted kinds, with commas between them; by default all but context, which each upload brings."))
    static let memberParameter = Schema.Property(
        "member", .string("Only rows that were written to this member, by its id."))

    /// The way by which a row came.
    private struct Way {
        let arrival: RowArrival
        /// The strongest identity that the call named.
        let identifier: (type: IdentityType, value: String)?
    }

    private static func ways(
        of rows: [StoredRow], _ snapshot: any Snapshot
    ) throws(StoreFault) -> [RowNumber: Way] {
        let arrivals = try snapshot.arrivals(of: rows.map(\.number))
        var calls: [JournalSequence: RecordedCall] = [:]
        var ways: [RowNumber: Way] = [:]
        for row in rows {
            guard let arrival = arrivals[row.number], let sequence = arrival.call else { continue }
            if calls[sequence] == nil {
                calls[sequence] = try snapshot.calls(
                    after: JournalSequence(rawValue: sequence.rawValue - 1), limit: 1
                ).first
            }
            let named = calls[sequence]?.identities(bringingTo: row.person) ?? []
            ways[row.number] = Way(
                arrival: arrival,
                identifier: named.min { ($0.type.rawValue, $0.value) < ($1.type.rawValue, $1.value) })
        }
        return ways
    }

    /// Reads the filter of a time line. The parameters of a page are known to the calls that have pages.
    static func timelineFilter(_ request: borrowing Request) throws(Rejection) -> Timeline.Filter {
        let id = request.id
        func refuse(_ detail: String) -> Rejection { AdminText.wrong(detail, id) }
        var filter = Timeline.Filter()
        for parameter in request.query?.parameters ?? [] {
            let value = parameter.value
            switch parameter.name {
            case "kinds":
                filter.kinds = []
                for name in value.split(separator: ",") {
                    guard let kind = RowKind(named: String(name)) else {
                        throw refuse("kinds: there is no kind \"\(name.prefix(32))\".")
                    }
                    if !filter.kinds.contains(kind) { filter.kinds.append(kind) }
                }
            case "member":
                guard let number = Int64(decimal: value) else { throw refuse("member must be the id of a member.") }
                filter.member = PersonID(rawValue: number)
            case "since", "until":
                let moment = try AdminText.moment(request, parameter.name)
                if parameter.name == "since" { filter.since = moment } else { filter.until = moment }
            case "limit": filter.limit = try ListQuery.limit(request) ?? filter.limit
            case "cursor":
                guard let cursor = Base64.decodeForAddresses(value.utf8.span).flatMap(Timeline.Cursor.init(packed:))
                else {
                    throw refuse("cursor must be the next_cursor of the page before.")
                }
                filter.cursor = cursor
            case "at", "buckets": continue
            default: throw refuse("there is no parameter \"\(parameter.name.prefix(32))\".")
            }
        }
        return filter
    }

    private static func answer(_ timeline: Timeline, _ ways: [RowNumber: Way]) -> Response {
        Native.json(.ok) { json in
            json.key("rows")
            json.array { json in
                for row in timeline.rows {
                    json.object { json in
                        json.key("id")
                        json.decimalString(row.number.rawValue)
                        json.key("kind")
                        json.string("\(row.row.kind.name)")
                        json.key("at")
                        json.moment(row.row.at)
                        json.key("origin")
                        json.decimalString(row.person.rawValue)
                        json.key("received_at")
                        json.moment(ways[row.number]?.arrival.at)
                        json.key("key")
                        json.decimalString(ways[row.number]?.arrival.key?.rawValue)
                        json.key("identifier")
                        json.string(ways[row.number]?.identifier.map { "\($0.type.name):\($0.value)" })
                        json.key("body")
                        json.raw(row.row.body)
                    }
                }
            }
            json.key("next_cursor")
            json.string(timeline.next.map { Base64.encodeForAddresses($0.packed) })
        }
    }
}
