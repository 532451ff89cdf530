import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The call that finds people by a part of a value: the support team has half of an e-mail address. No index has parts of values, so
/// each call reads some identities of the project, the last first, and the caller continues with the cursor.
enum ScanCalls {
    static let routes = [
        Endpoint(
            .post, "/onym/v1/search/scan", scope: .consoleRead,
            operation: Operation(
                id: "scan", summary: "Finds people by a part of a value, in slices of identities.",
                description: """
                    A call reads at most \(readAtMost) identities in force, the last first, and answers at most \
                    \(resultsAtMost) people among them: each person once, with the first of its values that has the \
                    text. next_cursor continues; the next slice may name a person again. The letters A to Z are the \
                    same in either case. Attributes and events are not read.
                    """,
                request: .object(
                    [
                        .init(
                            "text", .string("The part: \(textBytes.lowerBound) to \(textBytes.upperBound) bytes."),
                            required: true),
                        .init("types", .array(.string("An identity type; all types by default."))),
                        .init("cursor", .anyOf([.string("The next_cursor of the slice before."), .null])),
                    ], others: false),
                responses: [.init(.ok, "A slice.", schema: schema)] + Native.problems([])),
            action: .steps(
                body: BufferedBody(),
                decode: { request, caller, tools throws(Rejection) in
                    let (wanted, project) = (try Wanted(request, tools), caller.project)
                    return .read { snapshot throws(StoreFault) in .answer(try answer(wanted, in: project, snapshot)) }
                }))
    ]

    private static let textBytes = 2...256
    private static let readAtMost = 20_000
    private static let resultsAtMost = 200

    /// The content of a call.
    private struct Wanted: Sendable {
        var text = ""
        var types = IdentityTypeSet()
        var before: Int64?

        init(_ request: borrowing Request, _ tools: LoopTools) throws(Rejection) {
            try AdminText.read(request, tools) { key, value throws(JSONFault) in
                switch key {
                case "text": text = try value.string(at: "text")
                case "types":
                    try value.forEachElement(at: "types") { element throws(JSONFault) in
                        guard let type = IdentityType(named: try element.string(at: "types")) else {
                            throw JSONFault(.wrong("must have identity types"), at: "types")
                        }
                        types.insert(type)
                    }
                case "cursor":
                    if value.isNull { return true }
                    guard let place = Int64(decimal: try value.string(at: "cursor")), place > 0 else {
                        throw JSONFault(.wrong("must be a next_cursor that was answered before"), at: "cursor")
                    }
                    before = place
                default: return false
                }
                return true
            }
            guard textBytes.contains(text.utf8.count) else {
                throw AdminText.wrong(
                    "text must have \(textBytes.lowerBound) to \(textBytes.upperBound) bytes.", request.id)
            }
            if types.isEmpty { types = IdentityTypeSet(IdentityType.allCases) }
        }
    }

    /// A person with the value that has the text.
    private struct Match {
        let person: PersonID
        let type: IdentityType
        let value: String
    }

    private static func answer(
        _ wanted: Wanted, in project: ProjectID, _ snapshot: any Snapshot
    ) throws(StoreFault) -> Response {
        let links = try snapshot.holders(of: wanted.types, in: project, before: wanted.before, limit: readAtMost)
        let part = TextPart(wanted.text)
        var (matches, roots): ([Match], Set<PersonID>) = ([], [])
        var (read, next) = (0, links.count == readAtMost ? links.last?.link : nil)
        for (link, person, type, value) in links {
            read += 1
            guard part.isIn(value), roots.insert(snapshot.group(of: person).root).inserted else { continue }
            matches.append(Match(person: person, type: type, value: value))
            if matches.count == resultsAtMost {
                if read < links.count { next = link }
                break
            }
        }
        var people: [FoundPerson] = []
        for match in matches { people.append(try FoundPerson(match.person, snapshot)) }
        return Native.json(.ok) { json in
            json.key("results")
            json.array { json in
                for (match, person) in zip(matches, people) { json.object { write(match, person, &$0) } }
            }
            json.key("read")
            json.integer(read)
            json.key("next_cursor")
            json.decimalString(next)
        }
    }

    private static func write(_ match: Match, _ person: FoundPerson, _ json: inout JSONWriter) {
        json.key("person")
        json.decimalString(match.person.rawValue)
        person.write(to: &json)
        json.key("match")
        json.object { json in
            json.key("type")
            json.string("\(match.type.name)")
            json.key("value")
            json.string(match.value)
        }
    }

    private static let schema = Schema.object([
        .init(
            "results",
            .array(
                .object(
                    [
                        .init("person", .string(), required: true),
                        .init(
                            "match",
                            .object([
                                .init("type", .string(), required: true), .init("value", .string(), required: true),
                            ]), required: true),
                    ] + FoundPerson.schema)), required: true),
        .init("read", .integer("The number of identities that the call read."), required: true),
        .init(
            "next_cursor",
            .anyOf([.string("The place of the next slice; at most so many identities are left."), .null]),
            required: true),
    ])
}

/// A part of a value. The letters A to Z are the same in either case.
struct TextPart: Sendable {
    private let bytes: [UInt8]

    init(_ text: String) { bytes = text.utf8.map(TextPart.lowercased) }

    /// Whether a value has the part.
    func isIn(_ value: String) -> Bool {
        let value = value.utf8.span
        guard let first = bytes.first, value.count >= bytes.count else { return false }
        for start in 0...(value.count - bytes.count) where TextPart.lowercased(value[start]) == first {
            var offset = 1
            while offset < bytes.count, TextPart.lowercased(value[start + offset]) == bytes[offset] { offset += 1 }
            if offset == bytes.count { return true }
        }
        return false
    }

    private static func lowercased(_ byte: UInt8) -> UInt8 { (0x41...0x5A).contains(byte) ? byte | 0x20 : byte }
}
