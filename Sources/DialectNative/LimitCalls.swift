import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The call that shows which keys meet their limits: an app that calls too often loses calls, and its makers may not know it.
enum LimitCalls {
    static func routes(_ sources: Native.Sources) -> [Endpoint] {
        [
            Endpoint(
                .get, "/onym/v1/stats/limits", scope: .consoleRead,
                operation: Operation(
                    id: "limits",
                    summary: "Lists the keys whose calls were refused in the last day because of a limit.",
                    description: """
                        The list also has the keys that use \(manyPercent) % of their limit now. The counts are of this \
                        server since its start, to five minutes.
                        """,
                    responses: [
                        .init(
                            .ok, "The keys, the most refused calls of the last hour first.",
                            schema: .object([
                                .init("keys", .array(schema), required: true),
                                .init("since", .string("The start of the server."), required: true),
                            ]))
                    ] + Native.problems([])),
                action: .answer { request, caller, tools in
                    guard let status = sources.status() else {
                        return Native.problem(.unavailable(retryAfterSeconds: Gateway.retryAfterSeconds), request.id)
                    }
                    let keys = tools.directory.keys.values.filter {
                        $0.project == caller?.project && $0.revokedAt == nil
                    }
                    let uses = keys.compactMap { key in
                        sources.keyLimit(key.id, tools.now).flatMap { use in
                            use.refusedInDay > 0 || use.percentage >= manyPercent ? (key: key, use: use) : nil
                        }
                    }
                    return answer(uses.sorted(by: comesFirst), since: status.startedAt)
                })
        ]
    }

    private static let manyPercent = 80

    private static func comesFirst(
        _ one: (key: AccessKey, use: KeyLimitUse), _ other: (key: AccessKey, use: KeyLimitUse)
    )
        -> Bool
    {
        let (first, second) = (one.use, other.use)
        if first.refusedInHour != second.refusedInHour { return first.refusedInHour > second.refusedInHour }
        if first.refusedInDay != second.refusedInDay { return first.refusedInDay > second.refusedInDay }
        return one.key.id.rawValue < other.key.id.rawValue
    }

    private static func answer(_ uses: [(key: AccessKey, use: KeyLimitUse)], since: Instant) -> Response {
        Native.json(.ok) { json in
            json.key("keys")
            json.array { json in
                for (key, use) in uses {
                    json.object { json in
                        json.key("key")
                        json.decimalString(key.id.rawValue)
                        json.key("name")
                        json.string(key.name)
                        json.key("limited_last_hour")
                        json.integer(use.refusedInHour)
                        json.key("limited_last_day")
                        json.integer(use.refusedInDay)
                        json.key("last_at")
                        json.moment(use.lastAt)
                        json.key("share_used")
                        json.double(Double(use.percentage) / 100)
                    }
                }
            }
            json.key("since")
            json.moment(since)
        }
    }

    private static let schema = Schema.object([
        .init("key", .string(), required: true), .init("name", .string(), required: true),
        .init("limited_last_hour", .integer("The refused calls of the last hour."), required: true),
        .init("limited_last_day", .integer("The refused calls of the last day."), required: true),
        .init("last_at", AdminText.optionalText, required: true),
        .init("share_used", .number("The used part of the limit now: 0 to 1."), required: true),
    ])
}
