import ByteText
import Domain
import Foundation
import TestKit
import Testing

/// All routes that the API's description has, called with all numbers that a client may think of.
@Suite("Numbers that clients send")
struct NumbersTests {
    private static let numbers = [
        "0", "1", "-1", "9223372036854775807", "-9223372036854775808", "18446744073709551616", "text", "",
    ]
    private static let integers: [Int64] = [0, -1, .max]

    /// Cursors that are bytes: what lists have made of numbers, and others.
    private static let cursors: [String] = {
        var cursors = [Data(), Data([255]), Data(repeating: 128, count: 40)]
        for first in integers {
            for part in [0, 1, 7, 8, 9, 1 << 31] as [UInt64] {
                for last in integers {
                    var packer = Packer()
                    packer.add(UInt64(bitPattern: first))
                    packer.add(part)
                    packer.add(UInt64(bitPattern: last))
                    cursors.append(Data(packer.bytes))
                }
            }
        }
        for id in ["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"] {
            for year in ["0001", "9999"] { cursors.append(Data(#"["\#(year)-01-01T00:00:00Z","\#(id)"]"#.utf8)) }
        }
        // Some lists have the letters for addresses, and others those of usual Base64.
        return cursors.flatMap {
            [
                Base64.encodeForAddresses(Array($0)),
                $0.base64EncodedString().addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? "",
            ]
        }
    }()

    /// Places of an export of all people, with the sums of no line.
    private static let places: [String] = {
        var places: [String] = []
        for since in integers {
            for upTo in integers + [1] {
                for part in 0...2 as ClosedRange<UInt8> {
                    for after in integers {
                        var packer = Packer()
                        packer.add(UInt64(bitPattern: since))
                        packer.add(UInt64(bitPattern: upTo))
                        packer.add(part)
                        packer.add(UInt64(bitPattern: after))
                        for _ in 0..<2 * ExportedFact.Kind.allCases.count { packer.add(0 as UInt8) }
                        places.append(Base64.encodeForAddresses(packer.bytes))
                    }
                }
            }
        }
        return places
    }()

    @Test("a GET is answered the same whatever its Content-Type says, which is of no body")
    func contentTypes() throws {
        let scene = try NumberScene(.memory)
        for route in scene.routes where route.isRead {
            for type in ["application/json", "text/plain", "nonsense", ""] {
                let statuses = try [[], [("Content-Type", type)]].map { try scene.status(route, $0) }
                #expect(statuses[0] == statuses[1], "\(route.name) with \(type)")
            }
        }
    }

    @Test("are answered on every route, and never by a fault", arguments: StoreKind.allCases)
    func everyRoute(_ kind: StoreKind) throws {
        let scene = try NumberScene(kind)
        var (parameters, members): (Set<String>, Set<String>) = ([], [])
        for route in scene.routes {
            let good = scene.path(route)
            for (place, name) in route.parameters.enumerated() {
                // The first of a kind is a key, an app or a project, without which nobody could call.
                for number in Self.numbers.dropLast() where route.isRead || Int(number) != 1 {
                    let path = scene.path(route, place, number)
                    try scene.call(route, path, "\(name) \(number)")
                    if route.isRead { try scene.call(route, scene.path(route, place, "m_\(number)"), name) }
                }
            }
            // Calls that take somebody away come last.
            for name in route.query {
                for number in Self.numbers { try scene.call(route, "\(good)?\(name)=\(number)", name) }
                parameters.insert(name)
            }
            if route.query.contains("cursor") {
                for cursor in Self.cursors { try scene.call(route, "\(good)?cursor=\(cursor)", "cursor") }
            }
            if route.path == "/onym/v1/export" {
                for place in Self.places { try scene.call(route, "\(good)?cursor=\(place)", "cursor") }
            }
            guard let body = route.body, route.method != "DELETE" else { continue }
            for number in Self.numbers.dropLast() {
                let json = Double(number) == nil ? #""\#(number)""# : number
                try scene.call(route, good, "body \(number)", body: body.text(number: json))
                // One member after the other: a body with a wrong member is refused before the others are read.
                for member in body.members {
                    try scene.call(route, good, "\(member) \(number)", body: body.text(number: json, in: member))
                    members.insert(member.last ?? "")
                }
            }
        }
        let named: Set = ["limit", "cursor", "after", "wait", "since", "until", "app_id", "if_seq", "days"]
        #expect(parameters.isSuperset(of: named), "\(named.subtracting(parameters))")
        #expect(members.isSuperset(of: ["code_seconds", "purchased", "shared_device_people"]), "\(members.sorted())")
        // Whoever reads is not kept waiting by whoever read before.
        try #expect(scene.http.call("GET", "/healthz").status == 200)
    }
}

/// A server that has one of everything, and its routes.
final class NumberScene {
    let server: TestServer
    private let clock: ManualClock
    var http: HTTPClient
    private(set) var routes: [NumberRoute] = []
    private var samples: [String: String] = [:]
    private var keys: [String: [(String, String)]] = [:]

    /// - Parameters:
    ///   - counter: counts what calls read from the store; nil if nobody counts.
    ///   - size: how many things of each kind the server has besides.
    init(_ kind: StoreKind, counter: ReadCounter? = nil, size: Int = 0) throws {
        // A year later some of its keys have expired.
        let clock = ManualClock(1_610_000_000_000)
        self.clock = clock
        server = try TestServer(kind) {
            $0.attribution.takesMocks = true
            $0.clock = { clock.now }
            if counter != nil { $0.runs = TestServer.tinyRuns }
        } wrap: { store in
            guard let counter else { return store }
            let counted = FailingStore(store)
            counted.readCounter.withLock { $0 = counter }
            return counted
        }
        http = server.client
        let credentials = server.credentials
        let bearers = [
            credentials.adminKey, credentials.claimAgentKey, credentials.claimImportKey, credentials.claimClientKey,
            credentials.entitlementsSecretKey, credentials.linkingKey,
        ]
        callers =
            bearers.map { [("Authorization", "Bearer \($0)")] } + [
                [
                    (
                        "Authorization",
                        "Basic \(Data("\(credentials.idsyncKey):\(credentials.idsyncSecret)".utf8).base64EncodedString())"
                    )
                ],
                [("x-mp-key", credentials.idsyncWebKey)],
            ]
        try fill()
        if size > 0 { try grow(to: size) }
        let document = JSONAnswer(try http.call("GET", "/openapi.json"))
        let paths = try #require(document["paths"] as? [String: [String: Any]])
        for (path, methods) in paths.sorted(by: { $0.key < $1.key }) {
            for (method, operation) in methods.sorted(by: { $0.key < $1.key }) {
                routes.append(NumberRoute(method.uppercased(), path, operation as? [String: Any] ?? [:]))
            }
        }
        #expect(routes.count > 100)
        // Those that change something last, and of those the ones that take something away.
        let order = ["GET", "PUT", "POST", "DELETE"]
        routes.sort { order.firstIndex(of: $0.method) ?? 0 < order.firstIndex(of: $1.method) ?? 0 }
        // Before any of them has changed who may call.
        for route in routes { keys[route.name] = try caller(route) }
        #expect(keys.count > 100)
    }

    /// Whoever may make calls, each with a key of another kind.
    private let callers: [[(String, String)]]

    private func send(
        _ caller: Int, _ method: String, _ path: String, _ json: String, _ status: Int = 200
    ) throws -> JSONAnswer {
        let answer = JSONAnswer(try http.call(method, path, fields: callers[caller], json: json))
        #expect(answer.status == status, "\(method) \(path): \(answer)")
        return answer
    }

    private func fill() throws {
        let identify = #"{"environment":"production","known_identities":{"customerid":"ada","email":"ada@x"#
        let ada = try send(6, "POST", "/v1/login", identify + #""}}"#)
        _ = try send(6, "POST", "/v1/identify", identify + #".org"}}"#)
        _ = try send(
            6, "POST", "/v1/identify", #"{"environment":"production","known_identities":{"customerid":"bob"}}"#)
        _ = try send(0, "PUT", "/onym/v1/funnels/f", #"{"name":"F","steps":[{"name":"a","step":"a"}]}"#)
        _ = try send(0, "PUT", "/onym/v1/metrics/m", #"{"name":"M"}"#)
        _ = try send(
            0, "PUT", "/onym/v1/questionnaires/nps",
            #"{"name":"S","schema":{"version":1,"questions":[{"id":"q1","type":"text","title":"Why?"}]}}"#)
        let events = (0..<3).map { number in
            #"{"user_id":"ada","message":"m\#(number)","level":"error","session_id":"6F9619FF-8B86-D011-B42D-00CF4FC964FF"}"#
        }
        _ = try send(
            3, "POST", "/v1/ingest", #"{"bundle_id":"com.example.demo","events":[\#(events.joined(separator: ","))]}"#)
        _ = try send(
            3, "POST", "/v1/questionnaires/nps/responses",
            #"{"bundle_id":"com.example.demo","user_id":"ada","answers":{"q1":"because"}}"#, 201)
        let projects = JSONAnswer(try http.call("GET", "/v1/projects", fields: callers[1]))
        samples = [
            "/onym/v1/people/{id}": ada.text("mpid") ?? "", "{mpid}": ada.text("mpid") ?? "",
            "/v1/projects/{id}": projects.list("projects").first?["id"] as? String ?? "",
            "/v1/projects/{id}/funnels/{slug}": "f", "/v1/projects/{id}/metrics/{slug}": "m", "{slug}": "nps",
            "{type}": "customerid", "{value}": "ada", "{source}": "apple-search-ads",
            "{api_key}": server.credentials.idsyncKey,
        ]
    }

    // MARK: - More of everything

    /// Makes so many things of each kind that lists have. Most are of one person, so that the lists of this person are long too.
    private func grow(to size: Int) throws {
        let project = "/v1/projects/\(samples["/v1/projects/{id}"] ?? "")"
        for number in 0..<size {
            clock.advance(milliseconds: 600_000)
            try growPeople(number)
            try growSettings(number)
            try growRows(number)
            let feedback = try send(
                3, "POST", "/v1/feedback",
                #"{"message":"m\#(number)","user_id":"ada","bundle_id":"com.example.demo"}"#, 201)
            // All comments are of the first one.
            let first = samples["{feedback}"] ?? feedback.text("id") ?? ""
            samples["{feedback}"] = first
            _ = try send(1, "POST", "\(project)/feedback/\(first)/comments", #"{"body":"c"}"#, 201)
        }
        func first(_ list: String, _ isWanted: ([String: Any]) -> Bool = { _ in true }) throws -> String? {
            let answer = JSONAnswer(try http.call("GET", "\(project)/\(list)", fields: callers[1]))
            return answer.list(list).first(where: isWanted)?["id"] as? String
        }
        let apps = JSONAnswer(try http.call("GET", "/v1/apps", fields: callers[1]))
        samples["/v1/apps/{id}"] = apps.list("apps").first?["id"] as? String
        samples["{issue}"] = try first("issues")
        samples["{questionnaire}"] = try first("questionnaires") { $0["slug"] as? String == "nps" }
    }

    /// Makes two people, merges them, and splits an address off. The first person of all gets one more identity.
    private func growPeople(_ number: Int) throws {
        func login(_ name: String) throws -> String {
            let identities = #"{"customerid":"\#(name)","email":"\#(name)@x.org"}"#
            let body = #"{"environment":"production","known_identities":\#(identities)}"#
            return try send(6, "POST", "/v1/login", body).text("mpid") ?? ""
        }
        let (one, other) = (try login("one\(number)"), try login("other\(number)"))
        let merge = try send(0, "POST", "/onym/v1/merges", #"{"from":"\#(one)","into":"\#(other)"}"#)
        samples["/onym/v1/merges/{id}"] = merge.text("id")
        _ = try send(
            0, "POST", "/onym/v1/people/\(other)/split",
            #"{"identities":[{"type":"email","value":"other\#(number)@x.org"}]}"#)
        _ = try send(
            0, "POST", "/onym/v1/people/\(samples["{mpid}"] ?? "")/identities",
            #"{"type":"other","value":"ada\#(number)"}"#)
        _ = try send(3, "POST", "/v1/identity/properties", #"{"user_id":"one\#(number)","properties":{"plan":"a"}}"#)
    }

    private func growSettings(_ number: Int) throws {
        _ = try send(0, "PUT", "/onym/v1/strategy", #"{"preset":"default","same_user_id":\#(number % 2 == 0)}"#)
        _ = try send(0, "POST", "/onym/v1/keys", #"{"kind":"admin","name":"k\#(number)"}"#, 201)
        _ = try send(
            0, "POST", "/onym/v1/apps", #"{"name":"a\#(number)","dialect":"claim","bundle_id":"b\#(number)"}"#, 201)
        _ = try send(0, "POST", "/onym/v1/imports", #"{"name":"i\#(number)"}"#, 201)
        _ = try send(
            0, "PUT", "/onym/v1/questionnaires/q\(number)",
            #"{"name":"S","schema":{"version":1,"questions":[{"id":"q1","type":"text","title":"Why?"}]}}"#)
    }

    /// Rows of somebody with many, and an issue of its own for each.
    private func growRows(_ number: Int) throws {
        let letters = String(String(number).map { Array("abcdefghij")[$0.wholeNumberValue ?? 0] })
        let session = "6F9619FF-8B86-D011-B42D-00CF4FC964FF"
        let events = ["broken \(letters)", "metric:m:complete"].map { message in
            let level = message.hasPrefix("metric") ? "info" : "error"
            return #"{"user_id":"ada","message":"\#(message)","level":"\#(level)","session_id":"\#(session)"}"#
        }
        _ = try send(
            3, "POST", "/v1/ingest", #"{"bundle_id":"com.example.demo","events":[\#(events.joined(separator: ","))]}"#)
        _ = try send(
            7, "POST", "/v3/JS/\(server.credentials.idsyncWebKey)/events",
            #"{"mpid":"\#(samples["{mpid}"] ?? "")","n":"click","dt":4,"et":1,"dbg":false,"sdk":"2.0","sid":"s"}"#, 202)
        _ = try send(
            3, "POST", "/v1/questionnaires/nps/responses",
            #"{"bundle_id":"com.example.demo","user_id":"one\#(number)","answers":{"q1":"because"}}"#, 201)
        _ = try send(
            3, "POST", "/v1/ingest/attachment",
            """
            {"client_event_id":"6F9619FF-8B86-D011-B42D-\(100_000_000_000 + number)","user_id":"ada",\
            "original_filename":"a.txt","content_type":"text/plain","size_bytes":1,\
            "sha256":"\(String(repeating: "0", count: 64))"}
            """, 201)
    }

    /// A path with what is there in place of its parameters, but for one of them.
    func path(_ route: NumberRoute, _ place: Int? = nil, _ text: String = "") -> String {
        var (whole, parameter) = ("", 0)
        let parts = route.path.split(separator: "/").map { part -> String in
            whole += "/\(part)"
            guard part.hasPrefix("{") else { return String(part) }
            defer { parameter += 1 }
            return parameter == place ? text : samples[whole] ?? samples[String(part)] ?? "77"
        }
        return "/" + parts.joined(separator: "/")
    }

    /// What a call is answered with that has some fields besides.
    func status(_ route: NumberRoute, _ fields: [(String, String)]) throws -> Int {
        try http.call(route.method, path(route), fields: (keys[route.name] ?? []) + fields).status
    }

    /// The answer to a call with a query; nil if no key of the scene may make the call.
    func answer(_ route: NumberRoute, query: String? = nil, json: String = "{}") throws -> Wire.Answer? {
        guard let fields = keys[route.name] ?? nil else { return nil }
        let path = path(route) + (query.map { "?\($0)" } ?? "")
        if route.isRead || route.method == "DELETE" { return try http.call(route.method, path, fields: fields) }
        return try http.call(route.method, path, fields: fields, json: json)
    }

    /// Makes a call as somebody who may, and looks at its status.
    func call(_ route: NumberRoute, _ path: String, _ what: String, body: String = "{}") throws {
        let json = route.isRead || route.method == "DELETE" ? nil : body
        let fields = keys[route.name] ?? []
        let answer: Wire.Answer
        do {
            answer =
                try json.map { try http.call(route.method, path, fields: fields, json: $0) }
                ?? http.call(route.method, path, fields: fields)
        } catch {
            throw Unanswered(description: "\(route.method) \(path) with \(what), \(body): \(error)")
        }
        // Where a key is known to be right, it is the number that is looked at.
        if keys[route.name] != nil, !route.isKeyed, body == "{}" {
            #expect(answer.status != 401, "\(route.method) \(path)")
        }
        #expect(answer.status < 500, "\(route.method) \(path) with \(what), \(body): \(answer)")
    }

    /// Whoever may call a route; nobody where that takes more than a key.
    private func caller(_ route: NumberRoute) throws -> [(String, String)]? {
        let path = route.isRead || route.isKeyed ? path(route) : path(route, 0, "none")
        return try callers.first { caller in
            let answer =
                try route.isRead || route.method == "DELETE"
                ? http.call(route.method, path, fields: caller)
                : http.call(route.method, path, fields: caller, json: "{}")
            return answer.status != 401 && answer.status != 403
        }
    }

    struct Unanswered: Error, CustomStringConvertible { let description: String }
}

/// A route, as the API's description has it.
struct NumberRoute {
    let method: String
    let path: String
    /// The names of what is in the path.
    let parameters: [String]
    /// The names of the parameters of the query.
    let query: [String]
    let body: NumberBody?

    init(_ method: String, _ path: String, _ operation: [String: Any]) {
        self.method = method
        self.path = path
        parameters = path.split(separator: "/").filter { $0.hasPrefix("{") }.map { String($0.dropFirst().dropLast()) }
        query = (operation["parameters"] as? [[String: Any]] ?? []).filter { $0["in"] as? String == "query" }
            .compactMap { $0["name"] as? String }
        let request = operation["requestBody"] as? [String: Any]
        let content = (request?["content"] as? [String: Any])?["application/json"] as? [String: Any]
        body = (content?["schema"] as? [String: Any]).map { NumberBody(schema: $0, example: content?["example"]) }
    }

    var name: String { "\(method) \(path)" }
    /// Whether the path names the key.
    var isKeyed: Bool { path.contains("{api_key}") }
    var isRead: Bool { method == "GET" }
}

/// A body of the shape that a route takes, with one number in all places that take numbers.
struct NumberBody {
    let schema: [String: Any]
    /// A body that the call takes, as far as the description has one.
    let example: Any?

    func text(number: String) -> String { text(schema, number) }

    /// The places of all members that take numbers, as the schema declares them. A list counts with its first element.
    var members: [[String]] { NumberBody.members(of: schema) }

    private static func members(of schema: [String: Any]) -> [[String]] {
        let schemas = schema["anyOf"] as? [[String: Any]] ?? [schema]
        return schemas.flatMap { schema -> [[String]] in
            switch schema["type"] as? String {
            case "integer", "number": [[]]
            case "array": members(of: schema["items"] as? [String: Any] ?? [:]).map { [element] + $0 }
            case "object":
                (schema["properties"] as? [String: [String: Any]] ?? [:]).sorted { $0.key < $1.key }.flatMap {
                    (name, schema) in members(of: schema).map { [name] + $0 }
                }
            default: []
            }
        }
    }

    /// The body of the example, or else of the schema, with a number in one place.
    func text(number: String, in member: [String]) throws -> String {
        let body = try example ?? JSONSerialization.jsonObject(with: Data(text(number: "1").utf8))
        let bytes = try JSONSerialization.data(withJSONObject: NumberBody.put(at: member[...], in: body))
        return String(decoding: bytes, as: UTF8.self).replacing("\"\(NumberBody.mark)\"", with: number)
    }

    private static func put(at place: ArraySlice<String>, in value: Any?) -> Any {
        guard let name = place.first else { return mark }
        if name == element {
            let list = value as? [Any] ?? []
            return [put(at: place.dropFirst(), in: list.first)] + list.dropFirst()
        }
        var members = value as? [String: Any] ?? [:]
        members[name] = put(at: place.dropFirst(), in: members[name])
        return members
    }

    /// What stands for an element of a list, and for the number.
    private static let (element, mark) = ("[]", "the number")

    private func text(_ schema: [String: Any], _ number: String) -> String {
        if let schemas = schema["anyOf"] as? [[String: Any]], let first = schemas.first { return text(first, number) }
        switch schema["type"] as? String {
        case "integer", "number": return number
        case "boolean": return "true"
        case "array": return "[\(text(schema["items"] as? [String: Any] ?? [:], number))]"
        case "object":
            let members = (schema["properties"] as? [String: [String: Any]] ?? [:]).sorted { $0.key < $1.key }
            return "{\(members.map { #""\#($0.key)":\#(text($0.value, number))"# }.joined(separator: ","))}"
        case "string": return "\"\((schema["enum"] as? [String])?.first ?? number.filter { $0 != "\"" })\""
        default: return "null"
        }
    }
}
