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
                    journal for a page, so a page may be short: next_after continues. The role is the role of a \
                    session, key, operator for the command line, device or store. It is null where the journal does \
                    not tell who called without a key.
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
                            .init("calls", .array(.object(JournalText.members + author)), required: true),
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
        /// The role of a session; `key` for a key, `operator` for the command line, `device` for an install, and `store` for
        /// an app store. Nil for a call without a key that several of them may have made.
        let role: String?

        /// Finds the author; nil for calls of apps, and for notes of the server.
        init?(_ call: RecordedCall, _ directory: Directory) {
            var session: KeyID?
            if case .reply(let reply) = call.answer { session = reply.as(ConsoleOpened.self)?.session }
            guard let id = call.key ?? session else {
                // The server's own notes have no request.
                guard !call.requestID.isEmpty else { return nil }
                name = nil
                role = Author.roleWithoutKey(call)
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

        /// The role of a caller without a key: the command line, an install of the Linking dialect, or an app store.
        private static func roleWithoutKey(_ call: RecordedCall) -> String? {
            switch call.kind {
            case .makeInstall, .linkInstall, .redeemCode, .refreshTokens, .submitRows, .resetInstall: return "device"
            case .storeNews, .storeNotice: return "store"
            case .erase:
                guard case .reply(let reply) = call.answer else { return nil }
                return reply.as(Erased.self) == nil ? "device" : "operator"
            // The command line and devices make these.
            case .changeInstall, .refused, .unproven, .leftOut, .sharedReceipt, .clockStep: return nil
            default: return "operator"
            }
        }
    }

    private static let author: [Schema.Property] = [
        .init("name", AdminText.optionalText, required: true), .init("role", AdminText.optionalText, required: true),
    ]

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
