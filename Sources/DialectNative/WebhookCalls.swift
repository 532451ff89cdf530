import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that list, create and remove webhooks: addresses to which the server sends the feed (spec/native.md, Changes).
enum WebhookCalls {
    private static let kindsAtMost = 100

    static func routes(_ sources: Native.Sources) -> [Endpoint] { [list, make(sources), remove] }

    private static let list = Endpoint(
        .get, "/onym/v1/webhooks", scope: .admin,
        operation: Operation(
            id: "webhooks_list", summary: "Lists the webhooks with their progress.",
            responses: [.init(.ok, "Webhooks.", schema: .object([.init("webhooks", .array(schema), required: true)]))]
                + Native.problems([])),
        action: .query { _, caller, _ in
            let project = caller.project
            return { snapshot throws(StoreFault) in
                var all: [(Webhook, Deliveries)] = []
                for webhook in try Webhook.all(of: project, snapshot) {
                    guard let deliveries = try Deliveries.of(webhook, snapshot) else { continue }
                    all.append((webhook, deliveries))
                }
                return Native.json(.ok) { json in
                    json.key("webhooks")
                    json.array { json in
                        for (webhook, deliveries) in all {
                            json.object { json in
                                write(webhook, &json)
                                write(deliveries, &json)
                            }
                        }
                    }
                }
            }
        })

    private static func make(_ sources: Native.Sources) -> Endpoint {
        Endpoint(
            .post, "/onym/v1/webhooks", scope: .admin,
            operation: Operation(
                id: "webhook_make", summary: "Makes a webhook, which sends changes to an address.",
                description: """
                    Each change is a POST with {"type","timestamp","data"}; data is the change in the form of the \
                    feed. The signature follows standardwebhooks.com, and only this answer shows the secret. Changes \
                    of one person come in order, each at least once; an equal webhook-id marks a repetition. Without \
                    an answer of 2xx, the server tries again for 24 hours, with growing pauses, and then parks the \
                    change. kinds lists the wanted kinds; the default is all kinds. after is the place in the feed \
                    to begin after; the default is now.
                    """,
                request: .object(
                    [
                        .init("url", .string("https://… or http://…"), required: true),
                        .init("kinds", .array(.string(oneOf: ChangeEvent.Kind.allCases.map(\.rawValue)))),
                        .init(
                            "imports",
                            .boolean(
                                "Whether the webhook also gets each fact of imports. The default is false: it gets their ends."
                            )),
                        .init("after", .integer("The seq of a change; 0 for the whole feed.")),
                    ], others: false),
                responses: [.init(.created, "The webhook, and its secret.", schema: schema)]
                    + Native.problems([.badRequest, .conflict, .unprocessableContent])),
            action: .call(
                body: BufferedBody(),
                decode: { request, caller, tools throws(Rejection) in
                    let project = caller.project
                    try sources.mint.checkReadiness(request.id)
                    var (url, kinds, after): (String?, [ChangeEvent.Kind], Int64?) = (nil, [], nil)
                    var getsImports = false
                    try AdminText.read(request, tools) { key, value throws(JSONFault) in
                        switch key {
                        case "url": url = try self.url(value)
                        case "imports": getsImports = try value.bool(at: "imports")
                        case "kinds":
                            try value.forEachElement(at: "kinds") { element throws(JSONFault) in
                                kinds.append(
                                    try AdminText.one(element, at: "kinds[\(kinds.count)]", of: ChangeEvent.Kind.self))
                            }
                        case "after": after = try value.integer(at: "after")
                        default: return false
                        }
                        return true
                    }
                    guard let url else { throw AdminText.wrong("url is required.", request.id) }
                    guard kinds.count <= kindsAtMost else {
                        throw AdminText.wrong("kinds has too many entries.", request.id)
                    }
                    let last = sources.counts().lastSequence
                    guard (0...last.rawValue).contains(after ?? 0) else {
                        throw AdminText.wrong("after must be the seq of a change, or 0.", request.id)
                    }
                    let (wanted, withImports) = (kinds, getsImports)
                    let make = MakeWebhook(
                        url: url, kinds: kinds, getsImports: getsImports, after: after.map(JournalSequence.init) ?? last
                    )
                    return PreparedCall(make) { made, _ in
                        Native.json(.created) { json in
                            write(
                                Webhook(
                                    id: made.id, url: url, kinds: wanted, getsImports: withImports, madeAt: made.at),
                                &json)
                            json.key("secret")
                            json.string(sources.mint.webhookSecret(made.id, made.at, project))
                        }
                    }
                }))
    }

    private static func url(_ value: JSONValue) throws(JSONFault) -> String {
        let text = try value.string(at: "url")
        let rest = ["https://", "http://"].first { text.hasPrefix($0) }.map { text.dropFirst($0.count) } ?? ""
        guard Webhook.urlBytes.contains(text.utf8.count), let first = rest.utf8.first, first != UInt8(ascii: "/"),
            text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }), !rest.prefix(while: { $0 != "/" }).contains("@"),
            WebAddress.isWhole(text)
        else {
            throw JSONFault(
                .wrong("must be a whole address that begins with https:// or http://, without a user"), at: "url")
        }
        return text
    }

    private static let remove = Endpoint(
        .delete, "/onym/v1/webhooks/:id", scope: .admin,
        operation: Operation(
            id: "webhook_remove", summary: "Removes a webhook and its waiting deliveries.",
            responses: [.init(.ok, "It is gone.", schema: .object([.init("removed", .string(), required: true)]))]
                + Native.problems([.notFound, .unprocessableContent])),
        action: .act(
            RemoveWebhook.self, body: .optional,
            decode: { request, _, _ throws(Rejection) in
                Decoded(RemoveWebhook(try AdminText.id(request, .webhook)))
            },
            encode: { removed, _, _ in
                Native.json(.ok) { json in
                    json.key("removed")
                    json.decimalString(removed.id)
                }
            }))

    private static func write(_ webhook: Webhook, _ json: inout JSONWriter) {
        json.key("id")
        json.decimalString(webhook.id)
        json.key("url")
        json.string(webhook.url)
        json.key("kinds")
        json.array { json in for kind in webhook.kinds { json.string(kind.rawValue) } }
        json.key("imports")
        json.bool(webhook.getsImports)
        json.key("made_at")
        json.moment(webhook.madeAt)
    }

    private static func write(_ deliveries: Deliveries, _ json: inout JSONWriter) {
        json.key("delivered")
        json.integer(deliveries.delivered)
        json.key("read_to")
        json.integer(Int(deliveries.cursor.rawValue))
        json.key("waiting")
        json.integer(deliveries.waiting.count)
        json.key("parked")
        json.integer(deliveries.parked.count)
        json.key("paused")
        json.bool(deliveries.isFull)
    }

    private static let schema = Schema.object([
        .init("id", .string(), required: true), .init("url", .string(), required: true),
        .init("kinds", .array(.string()), required: true),
        .init("imports", .boolean("Whether the webhook also gets each fact of imports."), required: true),
        .init("made_at", .string(), required: true),
        .init("secret", .string("whsec_…, only in the answer that makes the webhook.")), .init("delivered", .integer()),
        .init("read_to", .integer()),
        .init("waiting", .integer()), .init("parked", .integer()),
        .init(
            "paused",
            .boolean(
                "Whether the server reads no more of the feed, because too many changes wait."
            )),
    ])
}
