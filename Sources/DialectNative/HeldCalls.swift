import ByteText
import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that show the identities of a person, page by page, and the other people that hold the same identities. A page of a
/// person has all identities of some members; these calls are for people with many identities.
enum HeldCalls {
    static let routes = [
        Endpoint(
            .get, "/onym/v1/people/:id/identities", scope: .consoleRead,
            operation: Operation(
                id: "person_identities", summary: "Lists the identities of a person and of all members of its group.",
                query: [
                    .init("type", .string("Only identities of this type.")),
                    .init("q", .string("Only identities whose value contains this text.")),
                    .init("holder", .string("Only identities that this member holds.")),
                ] + ListQuery.parameters,
                responses: [
                    .init(
                        .ok, "Identities.",
                        schema: .object([
                            .init("identities", .array(identitySchema), required: true),
                            .init("of", .integer("The number of identities that match."), required: true),
                            .init("next_cursor", AdminText.optionalText, required: true),
                        ]))
                ] + Native.problems([.notFound, .conflict])),
            action: .query { request, caller, tools throws(Rejection) in
                let (list, text) = (try ListQuery(request), request.query?["q"]?.lowercased())
                let named = request.query?["type"]
                let type = named.flatMap(IdentityType.init(named:))
                let holder = try request.query?["holder"].map { text throws(Rejection) in
                    guard let number = Int64(decimal: text) else {
                        throw AdminText.wrong("holder must be the id of a member.", request.id)
                    }
                    return PersonID(rawValue: number)
                }
                if named != nil, type == nil { throw AdminText.wrong("type must be an identity type.", request.id) }
                let (name, project, id) = (PersonName(request.parameters[0], caller, tools), caller.project, request.id)
                return { snapshot throws(StoreFault) in
                    switch name.find(in: project, snapshot) {
                    case .failure(let problem): return problem.response(id)
                    case .success(let person):
                        let held = try held(by: person, snapshot).filter { member, identity in
                            (type == nil || type == identity.type) && (holder == nil || holder == member)
                                && (text.map { identity.value.lowercased().contains($0) } ?? true)
                        }
                        return page(held, list, in: project, snapshot)
                    }
                }
            }),
        Endpoint(
            .get, "/onym/v1/people/:id/shared", scope: .consoleRead,
            operation: Operation(
                id: "person_shared", summary: "Lists the identities of a person that people of other groups hold too.",
                responses: [
                    .init(
                        .ok, "The identities with their people.",
                        schema: .object([.init("shared", .array(sharedSchema), required: true)]))
                ] + Native.problems([.notFound, .conflict])),
            action: .query { request, caller, tools throws(Rejection) in
                let (name, project, id) = (PersonName(request.parameters[0], caller, tools), caller.project, request.id)
                let strategy = tools.directory.strategy(of: project)
                return { snapshot throws(StoreFault) in
                    switch name.find(in: project, snapshot) {
                    case .failure(let problem): return problem.response(id)
                    case .success(let person):
                        return try shared(person, strategy, in: project, snapshot)
                    }
                }
            }),
    ]

    /// The limit of identities and of people for each identity in a list of shared identities.
    private static let sharedAtMost = 200
    private static let peopleAtMost = 50

    private static func held(
        by person: PersonID, _ snapshot: any Snapshot
    ) throws(StoreFault) -> [(holder: PersonID, identity: HeldIdentity)] {
        var held: [(holder: PersonID, identity: HeldIdentity)] = []
        for member in snapshot.group(of: person).members {
            held += try snapshot.heldIdentities(of: member).map { (member, $0) }
        }
        return held
    }

    /// The roots of the groups that hold an identity.
    private static func roots(
        _ identity: HeldIdentity, in project: ProjectID, _ snapshot: any Snapshot
    ) -> Set<PersonID> {
        let key = IdentityKey(identity.type, identity.value.utf8.span, in: project, hash: snapshot.hash)
        return Set(snapshot.holders(of: key).map { snapshot.group(of: $0).root })
    }

    /// Whether calls ignore an identity: the rule of resolution, which counts people and not groups.
    private static func isSetAside(
        _ identity: HeldIdentity, _ strategy: Strategy, in project: ProjectID, _ snapshot: any Snapshot
    ) -> Bool {
        let key = IdentityKey(identity.type, identity.value.utf8.span, in: project, hash: snapshot.hash)
        return strategy.reasonToSetAside(
            identity.value, identity.type, holders: snapshot.holders(of: key).count) != nil
    }

    private static func page(
        _ held: [(holder: PersonID, identity: HeldIdentity)], _ list: ListQuery, in project: ProjectID,
        _ snapshot: any Snapshot
    ) -> Response {
        let first = min(list.cursor ?? 0, held.count)
        let page = held[first...].prefix(list.limit)
        return Native.json(.ok) { json in
            json.key("identities")
            json.array { json in
                for (holder, identity) in page {
                    json.object { json in
                        PeopleCalls.write(identity, of: holder, &json)
                        json.key("shared_with")
                        json.integer(roots(identity, in: project, snapshot).count - 1)
                    }
                }
            }
            json.key("of")
            json.integer(held.count)
            json.key("next_cursor")
            json.decimalString(page.endIndex < held.count ? Int64(page.endIndex) : nil)
        }
    }

    private static func shared(
        _ person: PersonID, _ strategy: Strategy, in project: ProjectID, _ snapshot: any Snapshot
    ) throws(StoreFault) -> Response {
        let own = snapshot.group(of: person).root
        var shared: [(identity: HeldIdentity, others: [PersonID])] = []
        var seen: Set<String> = []
        for (_, identity) in try held(by: person, snapshot) where shared.count < sharedAtMost {
            guard seen.insert("\(identity.type.name):\(identity.value)").inserted else { continue }
            let others = roots(identity, in: project, snapshot).subtracting([own])
            if !others.isEmpty { shared.append((identity, others.sorted())) }
        }
        var people: [PersonID: FoundPerson] = [:]
        for other in shared.flatMap({ $0.others.prefix(peopleAtMost) }) where people[other] == nil {
            people[other] = try FoundPerson(other, snapshot)
        }
        return Native.json(.ok) { json in
            json.key("shared")
            json.array { json in
                for (identity, others) in shared {
                    json.object { json in
                        json.key("type")
                        json.string("\(identity.type.name)")
                        json.key("value")
                        json.string(identity.value)
                        json.key("count")
                        json.integer(others.count + 1)
                        json.key("set_aside")
                        json.bool(isSetAside(identity, strategy, in: project, snapshot))
                        json.key("people")
                        json.array { json in
                            for other in others.prefix(peopleAtMost) {
                                json.object { json in
                                    json.key("id")
                                    json.decimalString(other.rawValue)
                                    people[other]?.write(to: &json)
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    private static let identitySchema = Schema.object([
        .init("holder", .string(), required: true), .init("type", .string(), required: true),
        .init("value", .string(), required: true), .init("since", .string(), required: true),
        .init("key", AdminText.optionalText, required: true), .init("request_id", .string(), required: true),
        .init("shared_with", .integer("The number of other groups that hold the identity."), required: true),
    ])

    private static let sharedSchema = Schema.object([
        .init("type", .string(), required: true), .init("value", .string(), required: true),
        .init("count", .integer("The number of groups that hold the identity."), required: true),
        .init(
            "set_aside", .boolean("Whether it finds nobody, because too many people hold it or its value is blocked."),
            required: true),
        .init("people", .array(.object([.init("id", .string(), required: true)] + FoundPerson.schema)), required: true),
    ])
}
