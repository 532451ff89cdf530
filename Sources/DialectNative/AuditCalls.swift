import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The call that shows what people and administrators' programs did: the calls of the journal with their keys, names and reasons.
enum AuditCalls {
    static let routes = [
        Endpoint(
            .get, "/onym/v1/audit", scope: .admin,
            operation: Operation(
                id: "audit", summary: "Lists the calls of administrators, people in the console and the command line.",
                description: """
                    The calls come in the order of the journal. The server reads at most \(readAtMost) calls of the \
                    journal for a page, so a page may be short: next_after continues.
                    """,
                query: [
                    .init("after", .integer("The seq of a call; 0 by default.")),
                    .init("name", .string("Only calls of keys and sessions with this name.")),
                    .init("kind", .string("Only calls of this kind, such as merge.")),
                    .init("limit", .integer("The greatest number of calls: 1 to 200; the default is 50.")),
                ],
                responses: [
                    .init(
                        .ok, "Calls.",
                        schema: .object([
                            .init("calls", .array(JournalText.schema), required: true),
                            .init("next_after", .anyOf([.integer(), .null]), required: true),
                        ]))
                ] + Native.problems([])),
            action: .query { request, caller, tools throws(Rejection) in
                let (query, list) = (request.query, try ListQuery(request))
                guard let after = Int64(query?["after"] ?? "0"), after >= 0 else {
                    throw AdminText.wrong("after must be the seq of a call.", request.id)
                }
                let (name, kind) = (query?["name"], query?["kind"])
                let (project, directory) = (caller.project, tools.directory)
                return { snapshot throws(StoreFault) in
                    var (found, read): ([(RecordedCall, Author)], Int) = ([], 0)
                    var last: JournalSequence? = JournalSequence(rawValue: after)
                    while found.count < list.limit, read < readAtMost, let position = last {
                        let calls = try snapshot.calls(after: position, limit: ListQuery.limitAtMost)
                        read += calls.count
                        last = calls.count < ListQuery.limitAtMost ? nil : calls.last?.sequence
                        for call in calls {
                            guard call.project == project, let author = Author(call, directory),
                                name == nil || author.name == name, kind == nil || call.kind.name == kind
                            else { continue }
                            found.append((call, author))
                            if found.count == list.limit {
                                last = call.sequence
                                break
                            }
                        }
                    }
                    return answer(found, last)
                }
            })
    ]

    /// The greatest number of calls that the server reads for one page.
    private static let readAtMost = 10_000

    /// The maker of a call.
    private struct Author {
        let name: String?
        /// The role of a session; `key` for a key, and `operator` for the command line.
        let role: String

        /// Finds the author; nil for calls of apps, and for notes of the server.
        init?(_ call: RecordedCall, _ directory: Directory) {
            guard let id = call.key else {
                // The command line has no key. The server's own notes have no request.
                guard !call.requestID.isEmpty else { return nil }
                name = nil
                role = "operator"
                return
            }
            guard let key = directory.keys[id] else { return nil }
            switch key.kind {
            case .console: role = ConsoleRole(key.scopes).rawValue
            case .admin, .operator: role = "key"
            default: return nil
            }
            name = key.name
        }
    }

    private static func answer(_ found: [(RecordedCall, Author)], _ last: JournalSequence?) -> Response {
        Native.json(.ok) { json in
            json.key("calls")
            json.array { json in
                for (call, author) in found {
                    json.object { json in
                        JournalText.write(call, &json)
                        json.key("name")
                        json.string(author.name)
                        json.key("role")
                        json.string(author.role)
                    }
                }
            }
            json.key("next_after")
            if let last { json.integer(last.rawValue) } else { json.null() }
        }
    }
}
