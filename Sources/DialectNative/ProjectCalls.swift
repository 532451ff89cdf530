import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that list, create and revoke projects, and count the rows of the server (spec/native.md, Administration).
enum ProjectCalls {
    /// Whether the operator of the server may leave out the project in a call with this path.
    static func concernAllProjects(_ path: String) -> Bool {
        path.hasPrefix("/onym/v1/projects")
            || [
                "/onym/v1/stats", "/onym/v1/compact", "/onym/v1/backups", "/onym/v1/server", "/onym/v1/master-keys",
                "/onym/v1/master-keys/reload",
            ].contains(path)
            || !path.hasPrefix("/onym/")
    }

    /// Whether the operator's key opens a route: the figures of the server, and its projects.
    static func opensToOperators(_ path: String) -> Bool {
        ["/metrics", "/onym/v1/stats", "/onym/v1/server"].contains(path) || path.hasPrefix("/onym/v1/projects")
    }

    static func routes(_ sources: Native.Sources) -> [Endpoint] {
        [list, make(sources.mint), stats(sources)]
            + AdminText.revocations(
                "/onym/v1/projects", .project,
                "Revokes a project with its apps and keys. Stored facts stay."
            ) { id, caller, _ in
                // A key is valid for its own project only.
                let project = ProjectID(rawValue: Int32(truncatingIfNeeded: id))
                guard Int64(project.rawValue) == id, caller.isOperator || project == caller.project else { return nil }
                return .revokeProject(project)
            }
    }

    private static let list = Endpoint(
        .get, "/onym/v1/projects", scope: .admin,
        operation: Operation(
            id: "projects_list",
            summary: "Lists the project of the key; on the command line, all projects.",
            query: ListQuery.parameters,
            responses: [.init(.ok, "Projects.", schema: AdminText.list("projects", of: schema))]
                + Native.problems([.badRequest])),
        action: .query { request, caller, tools throws(Rejection) in
            let list = try ListQuery(request)
            let all = tools.directory.projects.values
            let projects = all.filter { caller.isOperator || $0.id == caller.project }
            return { _ in
                AdminText.Page(projects, list) { Int64($0.id.rawValue) }.answer("projects", write)
            }
        })

    private static func make(_ mint: Mint) -> Endpoint {
        Endpoint(
            .post, "/onym/v1/projects", scope: .admin,
            operation: Operation(
                id: "project_make",
                summary:
                    "Makes a project with an app for each dialect and their keys. Only this answer shows the keys.",
                description:
                    "The answer is the document of onym init --json. The answer to a repeated call has no keys.",
                request: .object([.init("name", .string(), required: true)], others: false),
                responses: [
                    .init(
                        .created, "The project and its keys.",
                        schema: .object(
                            [
                                .init(
                                    "project",
                                    .object([
                                        .init("id", .string(), required: true),
                                        .init("name", .string(), required: true),
                                    ]), required: true), .init("admin_key", .string()),
                            ] + ["claim", "entitlements", "idsync", "linking", "onym"].map { .init($0, .object([])) }))
                ] + Native.problems([.badRequest, .conflict, .unprocessableContent])),
            action: .call(
                body: BufferedBody(),
                decode: { request, caller, tools throws(Rejection) in
                    var name: String?
                    try AdminText.read(request, tools) { key, value throws(JSONFault) in
                        guard case "name" = key else { return false }
                        name = try AdminText.name(value, at: "name")
                        return true
                    }
                    guard let name else { throw AdminText.wrong("name is required.", request.id) }
                    try mint.checkReadiness(request.id)
                    let made = mint.project(name, caller.now)
                    return PreparedCall(Administer(.makeProject(made.setUp))) { done, _ in
                        guard let id = done.projects.first else { return nil }
                        if done.hash == made.setUp.keys.first?.hash {
                            return Response(.created, contentType: "application/json", body: made.credentials(id))
                        }
                        return Native.json(.created) { json in
                            json.key("project")
                            json.object { json in
                                json.key("id")
                                json.decimalString(id.rawValue)
                                json.key("name")
                                json.string(name)
                            }
                        }
                    }
                }))
    }

    private static func write(_ project: Project, _ json: inout JSONWriter) {
        json.key("id")
        json.decimalString(project.id.rawValue)
        json.key("name")
        json.string(project.name)
        json.key("made_at")
        json.moment(project.madeAt)
    }

    private static let schema = Schema.object([
        .init("id", .string(), required: true), .init("name", .string(), required: true),
        .init("made_at", .string(), required: true),
    ])

    // MARK: - How much there is

    private static func stats(_ sources: Native.Sources) -> Endpoint {
        Endpoint(
            .get, "/onym/v1/stats", scope: .consoleRead,
            operation: Operation(
                id: "stats", summary: "Counts the facts of the server or of the project.",
                description: """
                    A call over the server's socket gets the counts of all projects, and so does the administrator \
                    of the only project. With several projects, an administrator gets the number of the project's \
                    apps and keys. people leaves out erased people. rows and merges also count what was erased since.
                    """,
                responses: [
                    .init(
                        .ok, "The counts.",
                        schema: .object(
                            ["projects", "apps", "keys"].map { .init($0, .integer(), required: true) }
                                + ["people", "identities", "links", "rows", "merges", "last_seq"].map {
                                    .init($0, .integer())
                                }))
                ] + Native.problems([])),
            action: .answer { _, caller, tools in
                let (counts, directory) = (sources.counts(), tools.directory)
                let isWhole = Native.mayKnowServer(caller, directory)
                func isTold(_ project: ProjectID) -> Bool { isWhole || project == caller?.project }
                // Sessions of the console are no keys for programs.
                let keys = directory.keys.values.filter {
                    $0.revokedAt == nil && $0.kind != .console && isTold($0.project)
                }
                return Native.json(.ok) { json in
                    var numbers: [(StaticString, Int)] = [
                        ("projects", directory.projects.keys.count(where: isTold)),
                        ("apps", directory.apps.values.count { isTold($0.project) }), ("keys", keys.count),
                    ]
                    if isWhole {
                        numbers += [
                            ("people", counts.people), ("identities", counts.identities), ("links", counts.links),
                            ("rows", counts.rows), ("merges", counts.merges),
                            ("last_seq", Int(counts.lastSequence.rawValue)),
                        ]
                    }
                    for (name, number) in numbers {
                        json.key(name)
                        json.integer(number)
                    }
                }
            })
    }
}
