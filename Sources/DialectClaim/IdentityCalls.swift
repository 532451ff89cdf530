import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that claim an anonymous id for a known user, and set properties (spec/claim.md 1.3 and 1.4).
enum IdentityCalls {
    static let routes = [claim, properties]

    // MARK: - Claim

    private static let claim = Endpoint(
        .post, "/v1/identity/claim", scope: .eventsWrite, limit: .none,
        operation: Operation(
            id: "claim_anonymous_id", summary: "Gives what an anonymous id has gathered to a known user.",
            description: "It holds for what comes in later as well. Claiming again changes nothing.",
            request: .object([
                .init("anonymous_id", .string("It begins with owl_anon_."), required: true),
                .init("user_id", .string(), required: true),
            ]),
            responses: [
                .init(
                    .ok, "It is the user's.",
                    schema: .object([
                        .init("claimed", .boolean(), required: true),
                        .init("events_reassigned_count", .integer(), required: true),
                    ])),
                .init(.conflict, "Another user has claimed it.", schema: ClaimFault.schema),
            ] + ClaimFault.answers),
        action: .act(
            Claim.self, body: ClaimDialect.body,
            decode: { request, caller, tools throws(Rejection) in
                do throws(ClaimFault) {
                    return Decoded(try claim(request, caller, tools))
                } catch {
                    throw error.rejection()
                }
            },
            encode: { claimed, _, _ in
                json { json in
                    json.key("claimed")
                    json.bool(true)
                    json.key("events_reassigned_count")
                    json.integer(claimed.events)
                }
            }))

    private static let anonymousIDCharacters = 1000

    private static func claim(
        _ request: borrowing Request, _ caller: Caller, _ tools: LoopTools
    ) throws(ClaimFault) -> Claim {
        try caller.refuseAgents()
        let members = try Members(request, tools, ["anonymous_id", "user_id"])
        // An anonymous id that is longer than a user id can be claimed too, although no upload can name it.
        let anonymousID = try members.userID("anonymous_id", characters: anonymousIDCharacters)
        let userID = try members.userID("user_id")
        guard anonymousID.hasPrefix(ClaimDialect.anonymousPrefix) else {
            throw ClaimFault("anonymous_id must start with \"\(ClaimDialect.anonymousPrefix)\"")
        }
        guard !userID.hasPrefix(ClaimDialect.anonymousPrefix) else {
            throw ClaimFault("user_id must not start with anonymous prefix")
        }
        _ = try caller.app(tools)
        let user = ClaimDialect.identity(userID, caller, tools)
        return Claim(
            anonymous: ClaimDialect.identity(anonymousID, caller, tools), user: user,
            equals: tools.directory.strategy(of: caller.project).equalUserIDs(user, in: caller.project, tools.hash))
    }

    // MARK: - Properties

    private static let properties = Endpoint(
        .post, "/v1/identity/properties", scope: .usersWrite, limit: .none,
        operation: Operation(
            id: "set_properties", summary: "Sets properties of a user; an empty value takes one away.",
            request: .object([
                .init("user_id", .string(), required: true), .init("properties", .object([]), required: true),
            ]),
            responses: [
                .init(
                    .ok, "All that the user's properties are now.",
                    schema: .object([
                        .init("updated", .boolean(), required: true), .init("properties", .object([]), required: true),
                    ]))
            ] + ClaimFault.answers),
        action: .act(
            SetProperties.self, body: ClaimDialect.body,
            decode: { request, caller, tools throws(Rejection) in
                do throws(ClaimFault) {
                    return Decoded(try properties(request, caller, tools))
                } catch {
                    throw error.rejection()
                }
            },
            encode: { reply, _, _ in
                let properties = reply.properties
                return json { json in
                    json.key("updated")
                    json.bool(true)
                    json.key("properties")
                    json.object { write(properties, &$0) }
                }
            }))

    private static let nameUnits = 50
    static let valueUnits = 200

    private static func properties(
        _ request: borrowing Request, _ caller: Caller, _ tools: LoopTools
    ) throws(ClaimFault) -> SetProperties {
        try caller.refuseAgents()
        let members = try Members(request, tools, ["user_id"], readsProperties: true)
        let userID = try members.userID("user_id")
        guard let properties = members.properties else { throw ClaimFault("properties must be an object") }
        for (name, value) in properties {
            guard !name.isEmpty else { throw ClaimFault("Property keys must be non-empty strings") }
            guard name.utf16.count <= nameUnits else {
                throw ClaimFault("Property key \"\(name)\" exceeds max length of \(nameUnits)")
            }
            guard let value else { throw ClaimFault("Property value for \"\(name)\" must be a string") }
            guard value.utf16.count <= valueUnits else {
                throw ClaimFault("Property value for \"\(name)\" exceeds max length of \(valueUnits)")
            }
        }
        _ = try caller.app(tools)
        return SetProperties(
            user: ClaimDialect.identity(userID, caller, tools), values: properties.map { ($0.name, $0.value ?? "") })
    }

    /// Writes properties in the order of the vendor's database: shorter names first.
    static func write(_ properties: [String: String], _ json: inout JSONWriter) {
        for (name, value) in properties.sorted(by: { one, other in
            let (a, b) = (one.key.utf8.count, other.key.utf8.count)
            return a != b ? a < b : one.key.utf8.lexicographicallyPrecedes(other.key.utf8)
        }) {
            json.key(name)
            json.string(value)
        }
    }

    /// The answer to a deletion.
    static let deleted = json { json in
        json.key("deleted")
        json.bool(true)
    }

    static let deletedSchema = Schema.object([.init("deleted", .boolean(), required: true)])

    static func json(_ status: Status = .ok, _ body: (inout JSONWriter) -> Void) -> Response {
        var json = JSONWriter()
        json.object(body)
        return Response(status, contentType: ClaimFault.contentType, body: json.bytes)
    }
}

/// The members of an object in order: of several members with one name, the last stays.
struct LastOfEachName<Value> {
    private var all: [(name: String, value: Value)?] = []
    private var places: [String: Int] = [:]

    var members: [(name: String, value: Value)] { all.compactMap(\.self) }

    mutating func add(_ name: String, _ value: Value) {
        if let place = places.updateValue(all.count, forKey: name) { all[place] = nil }
        all.append((name, value))
    }
}

/// The members of a body that a call reads. A body that is not an object has no members.
struct Members {
    private var texts: [String: String] = [:]
    /// The properties in order; nil for a value that is not a string.
    private(set) var properties: [(name: String, value: String?)]?

    init(
        _ request: borrowing Request, _ tools: LoopTools, _ names: [String], readsProperties: Bool = false
    ) throws(ClaimFault) {
        guard ClaimDialect.hasJSON(request) else { return }
        var texts: [String: String] = [:]
        var properties: [(name: String, value: String?)]?
        do throws(JSONFault) {
            try tools.json.read(request.body, mends: true) { root throws(JSONFault) in
                guard root.kind == .object else { return }
                try root.forEachMember(at: "the body") { key, value throws(JSONFault) in
                    let name = key.copy()
                    if names.contains(name), value.kind == .string { texts[name] = try value.string(at: name) }
                    guard readsProperties, name == "properties", value.kind == .object else { return }
                    var found = LastOfEachName<String?>()
                    try value.forEachMember(at: "properties") { key, value throws(JSONFault) in
                        let name = key.copy()
                        found.add(name, value.kind == .string ? try value.string(at: "properties.\(name)") : nil)
                    }
                    properties = found.members
                }
            }
        } catch {
            throw ClaimFault(error.message)
        }
        self.texts = texts
        self.properties = properties
    }

    /// A text; nil if the member is missing or is not a text.
    subscript(name: String) -> String? { texts[name] }

    /// A user id, which must exist.
    func userID(_ name: String, characters: Int = ClaimDialect.userIDCharacters) throws(ClaimFault) -> String {
        guard let text = texts[name], !text.isEmpty else { throw ClaimFault("\(name) is required") }
        guard text.unicodeScalars.count <= characters else {
            throw ClaimFault("\(name) must have at most \(characters) characters")
        }
        return text
    }
}

extension Caller {
    /// Refuses agents: an agent is not an app, so it may not say who a user is.
    func refuseAgents() throws(ClaimFault) {
        if key?.kind == .claimAgent {
            throw ClaimFault("Client or import key required for identity calls", status: .forbidden)
        }
    }

    /// Refuses a path that names another project in its first parameter.
    func requireProject(_ request: borrowing Request) throws(Rejection) {
        guard request.parameters[0].lowercased() == ClaimID.text(.project, Int64(project.rawValue)) else {
            throw ClaimFault("Project not found", status: .notFound).rejection()
        }
    }

    /// Whether the key is an administrator's, or the operator of the server calls.
    var isAdministrator: Bool { key.map { $0.kind == .admin } ?? isOperator }

    /// Refuses all callers except administrators. The vendor wants a signed-in person for such a call.
    func requireAdministrator(_ message: String) throws(Rejection) {
        guard isAdministrator else { throw ClaimFault(message, status: .forbidden).rejection() }
    }

    /// The app of the key.
    func app(
        _ tools: LoopTools, unscoped: String = "Client key must be scoped to an app", gone: String = "App not found"
    ) throws(ClaimFault) -> App {
        guard let id = key?.app else { throw ClaimFault(unscoped) }
        guard let app = tools.directory.apps[id] else { throw ClaimFault(gone) }
        return app
    }
}
