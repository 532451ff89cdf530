import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that show and change a project's strategy, list its versions, and return to an earlier version.
enum StrategyCalls {
    /// The routes.
    ///
    /// - Parameter sources: knows the calls that found no person because of their types.
    static func routes(_ sources: Native.Sources) -> [Endpoint] { [show(sources)] + changes }

    private static func show(_ sources: Native.Sources) -> Endpoint {
        Endpoint(
            .get, "/onym/v1/strategy", scope: .consoleRead,
            operation: Operation(
                id: "strategy_get", summary: "Shows the strategy.",
                responses: [document] + Native.problems([])),
            action: .glance { _, caller, tools in
                let history = tools.directory.strategies(of: caller.project)
                return { snapshot throws(StoreFault) in
                    let current = try snapshot.whole(history, of: caller.project).current
                    let unmatched = sources.warnings.unmatchedTypes(of: caller.project)
                    return answer(current.strategy, version: current.number, unmatched: unmatched)
                }
            })
    }

    private static let changes = [
        Endpoint(
            .put, "/onym/v1/strategy", scope: .admin,
            operation: Operation(
                id: "strategy_set", summary: "Changes the strategy, from the next call on.",
                description: """
                    Takes any part of the document. With a preset, the preset sets all other members. Without a \
                    preset, all other members stay. An equal strategy makes no version.
                    """,
                request: StrategyDocument.schema(isWhole: false),
                responses: [document] + Native.problems([.badRequest, .unprocessableContent])),
            action: command { root throws(JSONFault) in .edit(try StrategyDocument.read(root)) }),
        Endpoint(
            .get, "/onym/v1/strategy/versions", scope: .consoleRead,
            operation: Operation(
                id: "strategy_versions", summary: "Lists the versions of the strategy, the newest first.",
                query: ListQuery.parameters,
                responses: [.init(.ok, "The versions.", schema: versionsSchema)] + Native.problems([.badRequest])),
            action: .query { request, caller, tools throws(Rejection) in
                let history = tools.directory.strategies(of: caller.project)
                let (list, project) = (try ListQuery(request), tools.directory.projects[caller.project])
                return { snapshot throws(StoreFault) in
                    versions(try snapshot.whole(history, of: caller.project), list, project)
                }
            }),
        Endpoint(
            .post, "/onym/v1/strategy/rollback", scope: .admin,
            operation: Operation(
                id: "strategy_rollback", summary: "Makes a new version that equals an earlier version.",
                request: .object([.init("version", .integer(), required: true)], others: false),
                responses: [document] + Native.problems([.badRequest, .notFound, .unprocessableContent])),
            action: command { root throws(JSONFault) in .rollback(to: try rollbackVersion(root)) }),
    ]

    // MARK: - Showing

    private static func answer(
        _ strategy: Strategy, version: Int, unmatched: [(type: IdentityType, calls: Int)] = []
    ) -> Response {
        var json = JSONWriter()
        StrategyDocument.write(strategy, version: version, unmatched: unmatched, &json)
        return Response(.ok, contentType: "application/json", body: json.bytes)
    }

    private static func versions(_ history: StrategyHistory, _ list: ListQuery, _ project: Project?) -> Response {
        let rest = history.newestFirst.drop { $0.number >= list.cursor ?? .max }
        let page = rest.prefix(list.limit)
        return Native.json(.ok) { json in
            json.key("versions")
            json.array { json in
                for version in page { write(version, project, &json) }
            }
            json.key("next_cursor")
            if page.count < rest.count, let last = page.last { json.decimalString(last.number) } else { json.null() }
        }
    }

    private static func write(_ version: StrategyVersion, _ project: Project?, _ json: inout JSONWriter) {
        json.object { json in
            json.key("version")
            json.integer(version.number)
            json.key("at")
            // The first version holds since the project exists.
            if let moment = version.at ?? project?.madeAt {
                json.moment(moment)
            } else {
                json.null()
            }
            json.key("key")
            json.decimalString(version.key?.rawValue)
            json.key("document")
            StrategyDocument.write(version.strategy, version: version.number, &json)
        }
    }

    // MARK: - Changing

    private static func command(
        _ read: @escaping @Sendable (JSONValue) throws(JSONFault) -> SetStrategy
    ) -> Endpoint.Action {
        .act(
            SetStrategy.self, body: BufferedBody(),
            decode: { request, _, tools throws(Rejection) in
                do throws(JSONFault) {
                    return Decoded(try tools.json.read(request.body, read))
                } catch {
                    guard case .wrong(StrategyDocument.badPattern) = error.problem else {
                        throw Rejection(Native.problem(error, request.id))
                    }
                    throw Rejection(
                        Native.problem(.badRequest, code: "bad_pattern", "\(error.message).", request.id))
                }
            },
            encode: { set, _, _ in answer(set.strategy, version: set.version) })
    }

    private static func rollbackVersion(_ root: JSONValue) throws(JSONFault) -> Int {
        var version: Int64?
        try root.forEachMember(at: "the body") { key, value throws(JSONFault) in
            switch key {
            case "version": version = try value.integer(at: "version")
            default: throw JSONFault(.wrong("is not a field of this call"), at: key.shown)
            }
        }
        guard let version else { throw JSONFault(.wrong("is required: the version to go back to"), at: "version") }
        return Int(version)
    }

    // MARK: - What the API's description says

    private static let document = Operation.Answer(
        .ok, "The whole document.", schema: StrategyDocument.schema(isWhole: true))

    private static let versionsSchema = Schema.object([
        .init(
            "versions",
            .array(
                .object([
                    .init("version", .integer(), required: true), .init("at", .string(), required: true),
                    .init("key", .anyOf([.string("The id of the key that set the version."), .null]), required: true),
                    .init("document", StrategyDocument.schema(isWhole: true), required: true),
                ])), required: true),
        .init("next_cursor", .anyOf([.string(), .null]), required: true),
    ])
}

extension Snapshot {
    /// A project's strategy and its earlier versions. Versions from before the rule for installs get that rule from the
    /// settings of linking.
    fileprivate func whole(_ history: StrategyHistory, of project: ProjectID) throws(StoreFault) -> StrategyHistory {
        history.activating(LinkingSettings(document: try document(LinkingSettings.key(of: project))).formerPolicy)
    }
}
