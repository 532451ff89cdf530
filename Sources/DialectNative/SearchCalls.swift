import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that find what a text names: people, merges, splits, purchases, keys, requests, deliveries. They are for a person who has an id or a value, and
/// does not know its type. A browser sends the text in a body, so that no log of a proxy has the value.
enum SearchCalls {
    static func routes(_ sources: Native.Sources) -> [Endpoint] { [byQuery(sources), byBody(sources)] }

    private static func byQuery(_ sources: Native.Sources) -> Endpoint {
        Endpoint(
            .get, "/onym/v1/search", scope: .consoleRead,
            operation: Operation(
                id: "find", summary: "Finds what a text names: ?q=ada@example.com.", description: explanation,
                query: [.init("q", .string("The id or the whole value."), required: true)], responses: responses),
            action: .query { request, caller, tools throws(Rejection) in
                guard let text = request.query?["q"] else { throw AdminText.wrong("q is required.", request.id) }
                return try search(text, request.id, caller, tools, sources.requestLog())
            })
    }

    private static func byBody(_ sources: Native.Sources) -> Endpoint {
        Endpoint(
            .post, "/onym/v1/search", scope: .consoleRead,
            operation: Operation(
                id: "search_by_body", summary: "Finds what a text names, with the text in the body.",
                description: explanation,
                request: .object([.init("q", .string("The id or the whole value."), required: true)], others: false),
                responses: responses),
            action: .steps(
                body: BufferedBody(),
                decode: { request, caller, tools throws(Rejection) in
                    var text: String?
                    try AdminText.read(request, tools) { key, value throws(JSONFault) in
                        guard case "q" = key else { return false }
                        text = try value.string(at: "q")
                        return true
                    }
                    guard let text else { throw AdminText.wrong("q is required.", request.id) }
                    let look = try search(text, request.id, caller, tools, sources.requestLog())
                    return .read { snapshot throws(StoreFault) in .answer(try look(snapshot)) }
                }))
    }

    private static let explanation = """
        The text is an id of any form, type:value, or a whole value of any type. The answer has at most \(resultsAtMost) \
        results. A value is compared as the text is written, and an e-mail address also in lower case. 32 hexadecimal digits \
        that name nothing else are looked for among the ids of requests.
        """
    private static let textBytes = 1...1024
    private static let resultsAtMost = 50

    /// A thing that a text names.
    private enum Found {
        case person(PersonID, match: (type: String, value: String))
        case merge(Merge, undoneAt: Instant?)
        case split(MadeSplit)
        case purchase(Purchase)
        case install(Install)
        case key(AccessKey)
        case request(RequestEntry)
        case delivery(DeliveryCalls.Listed)
    }

    private static func search(
        _ text: String, _ id: RequestID, _ caller: Caller, _ tools: LoopTools, _ log: RequestLog?
    ) throws(Rejection) -> Endpoint.EndpointQuery {
        let text = trimmed(text)
        guard textBytes.contains(text.utf8.count) else {
            throw AdminText.wrong("q must have 1 to \(textBytes.upperBound) bytes.", id)
        }
        let (project, hash) = (caller.project, tools.hash)
        let keys = names(text).map { ($0, IdentityKey($0.type, $0.value.utf8.span, in: project, hash: hash)) }
        let people = [Int64(decimal: text).map(PersonID.init(rawValue:)), PersonID(linkingText: text)]
            .compactMap(\.self)
        let merge = text.hasPrefix("m_") ? Int64(decimal: text.dropFirst(2)).map(MergeID.init(rawValue:)) : nil
        let split = SplitID(text: text)
        let named = accessKeys(named: text, caller, tools)
        let sees = RequestCalls.sees(caller, tools)
        let purchases = AccessWorld.allCases.flatMap { world in
            Purchase.Source.allCases.map { PurchaseID($0, text, in: world, of: project, hash: hash) }
        }
        return { snapshot throws(StoreFault) in
            var found: [Found] = []
            var seen: Set<PersonID> = []
            for person in people where snapshot.person(person, in: project) != nil && seen.insert(person).inserted {
                found.append(.person(person, match: ("id", text)))
            }
            for (name, key) in keys where found.count < resultsAtMost {
                for person in snapshot.holders(of: key).sorted().prefix(resultsAtMost)
                where seen.insert(person).inserted {
                    found.append(.person(person, match: ("\(name.type.name)", name.value)))
                }
            }
            if let merge, let made = try MadeMerge(merge, in: project, snapshot) {
                found.append(.merge(made.merge, undoneAt: try made.undo(snapshot)?.at))
            }
            if let split, let made = try MadeSplit(split, in: project, snapshot) { found.append(.split(made)) }
            for id in purchases {
                if let purchase = try snapshot.purchase(id) { found.append(.purchase(purchase)) }
            }
            if let install = try snapshot.install(text, in: project) { found.append(.install(install)) }
            if let delivery = try DeliveryCalls.delivery(text, in: project, snapshot) {
                found.append(.delivery(delivery))
            }
            found += named.map { .key($0) }
            // The log is read from its end to its start. So other things come first, and only an id that the server made is
            // looked for; GET /onym/v1/requests/{id} finds also the ids that clients chose.
            if found.isEmpty, isRequestID(text),
                let entry = try log?.request(text, until: snapshot.readLimit, where: sees)
            {
                found.append(.request(entry))
            }
            let results = found.prefix(resultsAtMost)
            var people: [PersonID: FoundPerson] = [:]
            for case .person(let person, _) in results { people[person] = try FoundPerson(person, snapshot) }
            return Native.json(.ok) { json in
                json.key("q")
                json.string(text)
                json.key("results")
                json.array { json in for found in results { json.object { write(found, people, &$0) } } }
            }
        }
    }

    /// The keys of the project with a name. Names of keys are for administrators.
    private static func accessKeys(named name: String, _ caller: Caller, _ tools: LoopTools) -> [AccessKey] {
        guard caller.scopes.contains(.admin) else { return [] }
        return tools.directory.keys.values.filter { $0.project == caller.project && $0.name == name }
            .sorted { $0.id.rawValue < $1.id.rawValue }
    }

    /// The identities that a text may name, with its type or without.
    private static func names(_ text: String) -> [(type: IdentityType, value: String)] {
        var names: [(type: IdentityType, value: String)] = []
        if let colon = text.firstIndex(of: ":"), let type = IdentityType(named: String(text[..<colon])) {
            let value = String(text[text.index(after: colon)...])
            names.append((type, value))
            if type == .email, value.lowercased() != value { names.append((type, value.lowercased())) }
        }
        for type in IdentityType.allCases { names.append((type, text)) }
        if text.lowercased() != text { names.append((.email, text.lowercased())) }
        return names
    }

    /// Whether a text has the form of the ids that the server gives to requests.
    private static func isRequestID(_ text: String) -> Bool {
        text.utf8.count == 32 && text.utf8.allSatisfy { (48...57).contains($0) || (97...102).contains($0) }
    }

    private static func trimmed(_ text: String) -> String {
        let start = text.drop(while: \.isWhitespace)
        return start.lastIndex { !$0.isWhitespace }.map { String(start[...$0]) } ?? ""
    }

    private static func write(_ found: Found, _ people: [PersonID: FoundPerson], _ json: inout JSONWriter) {
        json.key("kind")
        switch found {
        case .person(let person, let match):
            json.string("person")
            json.key("person")
            json.decimalString(person.rawValue)
            people[person]?.write(to: &json)
            json.key("match")
            json.object { json in
                json.key("type")
                json.string(match.type)
                json.key("value")
                json.string(match.value)
            }
        case .merge(let merge, let undoneAt):
            json.string("merge")
            writeChange("m_\(merge.id.rawValue)", from: merge.from, into: merge.into, undoneAt, &json)
        case .split(let made):
            json.string("split")
            writeChange(made.split.id.text, from: made.split.person, into: made.split.into, made.undo?.at, &json)
        case .purchase(let purchase):
            json.string("purchase")
            json.key("transaction")
            json.string(purchase.originalTransaction)
            json.key("product")
            json.string(purchase.product)
            json.key("person")
            let reporter = purchase.reporter.rawValue
            json.decimalString(reporter == 0 ? nil : reporter)
        case .install(let install):
            json.string("install")
            json.key("id")
            json.string(install.id.text)
            json.key("person")
            json.decimalString(install.person.rawValue)
            json.key("state")
            json.string("\(install.state.name)")
        case .key(let key):
            json.string("key")
            json.key("id")
            json.decimalString(key.id.rawValue)
            json.key("name")
            json.string(key.name)
        case .delivery(let delivery):
            json.string("delivery")
            DeliveryCalls.write(delivery, &json)
        case .request(let entry):
            json.string("request")
            RequestCalls.writeHead(entry, &json)
        }
    }

    /// Writes a merge or a split.
    private static func writeChange(
        _ id: String, from: PersonID, into: PersonID, _ undoneAt: Instant?, _ json: inout JSONWriter
    ) {
        json.key("id")
        json.string(id)
        json.key("from")
        json.decimalString(from.rawValue)
        json.key("into")
        json.decimalString(into.rawValue)
        json.key("undone_at")
        json.moment(undoneAt)
    }

    private static let responses: [Operation.Answer] =
        [
            .init(
                .ok, "The results.",
                schema: .object([
                    .init("q", .string(), required: true),
                    .init(
                        "results",
                        .array(
                            .object([
                                .init(
                                    "kind",
                                    .string(
                                        oneOf: [
                                            "person", "merge", "split", "purchase", "install", "key", "request",
                                            "delivery",
                                        ]), required: true),
                                .init("person", .string()),
                                .init("match", .object([.init("type", .string()), .init("value", .string())])),
                                .init("root", .string()), .init("label", AdminText.optionalText),
                                .init("identities", .integer()), .init("last_seen", .string()),
                                .init("id", .string()), .init("from", .string()), .init("into", .string()),
                                .init("undone_at", AdminText.optionalText), .init("transaction", .string()),
                                .init("product", AdminText.optionalText), .init("name", .string()),
                                .init("request_id", .string()), .init("at", .string()),
                                .init("route", AdminText.optionalText), .init("status", .integer()),
                                .init("state", .string()), .init("webhook", .string()), .init("seq", .integer()),
                                .init("attempts", .integer()), .init("first_tried_at", AdminText.optionalText),
                                .init("next_try_at", AdminText.optionalText), .init("fault", AdminText.optionalText),
                            ])), required: true),
                ]))
        ] + Native.problems([])
}

/// The short form of a person in lists.
struct FoundPerson {
    private let root: PersonID
    private let label: String?
    private let identities: Int
    private let lastSeen: Instant

    /// The types whose values name a person to people, the best first.
    private static let labels: [IdentityType] = [
        .email, .customerID, .claimUserID, .linkingExternalID, .accessIdentity, .mobileNumber,
    ]

    init(_ person: PersonID, _ snapshot: any Snapshot) throws(StoreFault) {
        let group = snapshot.group(of: person)
        let totals = try snapshot.totals(of: group)
        root = group.root
        identities = totals.identities.values.reduce(0, +)
        if let seen = totals.lastSeen?.moment { lastSeen = seen } else { lastSeen = try snapshot.madeAt(person) }
        var held = try snapshot.identities(of: person)
        if root != person { held += try snapshot.identities(of: root) }
        label = FoundPerson.labels.lazy.compactMap { type in held.first { $0.type == type }?.value }.first
    }

    static let schema: [Schema.Property] = [
        .init("root", .string(), required: true), .init("label", AdminText.optionalText, required: true),
        .init("identities", .integer(), required: true), .init("last_seen", .string(), required: true),
    ]

    func write(to json: inout JSONWriter) {
        json.key("root")
        json.decimalString(root.rawValue)
        json.key("label")
        json.string(label)
        json.key("identities")
        json.integer(identities)
        json.key("last_seen")
        json.moment(lastSeen)
    }
}
