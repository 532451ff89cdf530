import CivilTime
import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The common parts of the calls about projects, apps and keys.
enum AdminText {
    static let nameBytes = 1...255

    /// Reads the members of a body, by name. Unknown members are refused.
    static func read(
        _ request: borrowing Request, _ tools: LoopTools,
        _ member: (JSONText, JSONValue) throws(JSONFault) -> Bool
    ) throws(Rejection) {
        do throws(JSONFault) {
            try tools.json.read(request.body) { root throws(JSONFault) in
                try root.forEachMember(at: "the body") { key, value throws(JSONFault) in
                    guard try member(key, value) else {
                        throw JSONFault(.wrong("is not a member of this call"), at: key.shown)
                    }
                }
            }
        } catch {
            throw Rejection(Native.problem(error, request.id))
        }
    }

    static func name(_ value: JSONValue, at path: String) throws(JSONFault) -> String {
        let name = try value.string(at: path)
        guard nameBytes.contains(name.utf8.count) else { throw JSONFault(.wrong("must have 1 to 255 bytes"), at: path) }
        return name
    }

    static func one<Choice: RawRepresentable & CaseIterable>(
        _ value: JSONValue, at path: String, of type: Choice.Type
    ) throws(JSONFault) -> Choice where Choice.RawValue == String {
        try one(value, at: path, of: Array(type.allCases))
    }

    static func one<Choice: RawRepresentable>(
        _ value: JSONValue, at path: String, of choices: [Choice]
    ) throws(JSONFault) -> Choice where Choice.RawValue == String {
        let text = try value.string(at: path)
        guard let choice = choices.first(where: { $0.rawValue == text }) else {
            let names = choices.map(\.rawValue).joined(separator: ", ")
            throw JSONFault(.wrong("must be one of \(names)"), at: path)
        }
        return choice
    }

    static func moment(_ value: JSONValue, at path: String) throws(JSONFault) -> Instant {
        guard let milliseconds = ISO8601.parse(try value.string(at: path).utf8.span) else {
            throw JSONFault(.wrong("must be a moment such as 2027-01-31T00:00:00Z"), at: path)
        }
        return Instant(milliseconds: milliseconds)
    }

    /// A number of the query; nil if the query has none.
    ///
    /// - Parameter demand: the words of the refusal for another text; the range by default.
    static func number(
        _ request: borrowing Request, _ name: String, in range: ClosedRange<Int>, or demand: String? = nil
    ) throws(Rejection) -> Int? {
        guard let text = request.query?[name] else { return nil }
        guard let number = Int(text), range.contains(number) else {
            let demand = demand ?? "an integer from \(range.lowerBound) to \(range.upperBound)"
            throw wrong("\(name) must be \(demand).", request.id)
        }
        return number
    }

    /// A moment of the query; nil if the query has none.
    static func moment(_ request: borrowing Request, _ name: String) throws(Rejection) -> Instant? {
        guard let text = request.query?[name] else { return nil }
        guard let milliseconds = ISO8601.parse(text.utf8.span) else {
            throw wrong("\(name) must be a time like 2026-11-21T09:00:00Z.", request.id)
        }
        return Instant(milliseconds: milliseconds)
    }

    /// The text of a moment, for a sentence.
    static func text(of moment: Instant) -> String {
        String(decoding: ISO8601.format(millisecondsSince1970: moment.milliseconds), as: UTF8.self)
    }

    static func wrong(_ detail: String, _ id: RequestID) -> Rejection {
        Rejection(Native.problem(.badRequest, code: Native.validationError, detail, id))
    }

    /// The id in a path; for a text that is not a number, an id that no thing has.
    static func id(_ request: borrowing Request, _ noun: Administer.Noun) throws(Rejection) -> Int64 {
        guard let id = Int64(decimal: request.parameters[0]) else {
            throw Rejection(Native.problem(.refused(.noSuch(noun)), request.id))
        }
        return id
    }

    /// Things with numbers, in order.
    struct Page<Thing: Sendable>: Sendable {
        let things: ArraySlice<Thing>
        /// The cursor of the next page; nil on the last page.
        let next: Int64?

        init(_ things: [Thing], _ list: ListQuery, number: (Thing) -> Int64) {
            let rest = things.filter { number($0) > Int64(list.cursor ?? -1) }.sorted { number($0) < number($1) }
            self.things = rest.prefix(list.limit)
            next = self.things.count < rest.count ? self.things.last.map(number) : nil
        }

        func answer(_ name: StaticString, _ write: (Thing, inout JSONWriter) -> Void) -> Response {
            Native.json(.ok) { json in
                json.key(name)
                json.array { json in
                    for thing in things { json.object { write(thing, &$0) } }
                }
                json.key("next_cursor")
                if let next { json.decimalString(next) } else { json.null() }
            }
        }
    }

    static func list(_ name: String, of schema: Schema) -> Schema {
        .object([
            .init(name, .array(schema), required: true),
            .init("next_cursor", .anyOf([.string(), .null]), required: true),
        ])
    }

    static let optionalText = Schema.anyOf([.string(), .null])

    /// The routes that revoke a thing: `DELETE`, and `POST …/revoke`.
    static func revocations(
        _ path: String, _ noun: Administer.Noun, _ summary: String,
        _ subject: @escaping @Sendable (Int64, Caller, Directory) -> Administer.Subject?
    ) -> [Endpoint] {
        [(Method.delete, "\(path)/:id", ""), (Method.post, "\(path)/:id/revoke", "_by_post")].map {
            method, path, suffix in
            Endpoint(
                method, path, scope: .admin,
                operation: Operation(
                    id: "\(noun.rawValue)_revoke\(suffix)", summary: summary,
                    responses: [.init(.ok, "The revoked apps and keys.", schema: revoked)]
                        + Native.problems([.notFound, .unprocessableContent])),
                action: .act(
                    Administer.self, body: .optional,
                    decode: { request, caller, tools throws(Rejection) in
                        guard let subject = subject(try id(request, noun), caller, tools.directory) else {
                            throw Rejection(Native.problem(.refused(.noSuch(noun)), request.id))
                        }
                        return Decoded(Administer(subject))
                    },
                    encode: { done, _, _ in
                        Native.json(.ok) { json in
                            json.key("revoked_at")
                            json.moment(done.at)
                            json.key("apps")
                            json.array { json in for app in done.apps { json.decimalString(app.rawValue) } }
                            json.key("keys")
                            json.array { json in for key in done.keys { json.decimalString(key.rawValue) } }
                        }
                    }))
        }
    }

    private static let revoked = Schema.object([
        .init("revoked_at", .string(), required: true), .init("apps", .array(.string()), required: true),
        .init("keys", .array(.string()), required: true),
    ])
}
