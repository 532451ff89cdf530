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
                    The calls come in the order of the journal. The server reads at most \(JournalPage<Author>.readAtMost) calls of the \
                    journal for a page, so a page may be short: next_after continues. The role is the role of a \
                    session, key, operator for the command line, device or store. It is null where the journal does \
                    not tell who called without a key.
                    """,
                query: [
                    .init("after", .integer("The seq of a call; 0 by default.")),
                    .init("name", .string("Only calls of keys and sessions with this name.")),
                    .init("kind", .string("Only calls of this kind, such as merge.")),
                    JournalPage<Author>.limit,
                ],
                responses: [
                    .init(
                        .ok, "Calls.",
                        schema: .object([
                            .init("calls", .array(.object(JournalText.members + author)), required: true),
                            JournalPage<Author>.next,
                        ]))
                ] + Native.problems([])),
            action: .query { request, caller, tools throws(Rejection) in
                let (after, list) = (try JournalPage<Author>.place(request), try ListQuery(request))
                let (name, kind) = (request.query?["name"], try JournalPage<Author>.kind(request))
                let (project, directory) = (caller.project, tools.directory)
                return { snapshot throws(StoreFault) in
                    let page = try JournalPage<Author>(
                        after: after, limit: list.limit, in: project, snapshot
                    ) { call in
                        guard kind == nil || call.kind == kind, let author = Author(call, directory) else {
                            return nil
                        }
                        return name == nil || author.name == name ? author : nil
                    }
                    return page.answer { call, author, json in
                        JournalText.write(call, &json)
                        json.key("name")
                        json.string(author.name)
                        json.key("role")
                        json.string(author.role)
                    }
                }
            })
    ]

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
            if call.kind == .erase {
                guard case .reply(let reply) = call.answer else { return nil }
                return reply.as(Erased.self) == nil ? "device" : "operator"
            }
            return KeylessRoles.kinds.first { $0.kinds.contains(call.kind) }?.role
        }
    }

    private static let author: [Schema.Property] = [
        .init("name", AdminText.optionalText, required: true), .init("role", AdminText.optionalText, required: true),
    ]
}
