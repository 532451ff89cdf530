package import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// Sends a message with an id to a webhook of a project, and gives the result, once and on any thread.
package typealias WebhookSender =
    @Sendable (
        _ payload: [UInt8], _ id: String, Webhook, ProjectID, _ then: @escaping @Sendable (WebhookResult) -> Void
    ) -> Void

/// What came of a message to a webhook.
package enum WebhookResult: Equatable, Sendable {
    /// The status of the receiver's answer.
    case answered(Int)
    /// The reason why the receiver did not answer.
    case failed(String)
}

/// The calls that list, create, try and remove webhooks: addresses to which the server sends the feed (spec/native.md, Changes).
enum WebhookCalls {
    private static let kindsAtMost = 100

    static func routes(_ sources: Native.Sources) -> [Endpoint] {
        [list, one, make(sources), remove, test(sources), replay]
    }

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

    private static let one = Endpoint(
        .get, "/onym/v1/webhooks/:id", scope: .admin,
        operation: Operation(
            id: "webhook", summary: "Shows a webhook: how far it is behind the feed, and the last failed attempt.",
            responses: [
                .init(
                    .ok, "The webhook.",
                    schema: .object(
                        members + [
                            .init("behind_calls", .integer("The calls of the journal that it has not read.")),
                            .init("waiting_since", AdminText.optionalText, required: true),
                            .init("last_fault", AdminText.optionalText, required: true),
                            .init("last_fault_attempts", .integer(), required: true),
                        ]))
            ] + Native.problems([.notFound])),
        action: .query { request, caller, _ throws(Rejection) in
            let (number, id, project) = (try AdminText.id(request, .webhook), request.id, caller.project)
            return { snapshot throws(StoreFault) in
                guard let (webhook, deliveries) = try find(number, in: project, snapshot) else {
                    return Native.problem(.refused(.noSuch(.webhook)), id)
                }
                let last = try snapshot.lastCall()
                let failed = (deliveries.waiting + deliveries.parked).filter { $0.attempts > 0 }
                    .max { $0.nextAt < $1.nextAt }
                return Native.json(.ok) { json in
                    write(webhook, &json)
                    write(deliveries, &json)
                    json.key("behind_calls")
                    json.integer(max(0, last.rawValue - deliveries.cursor.rawValue))
                    json.key("waiting_since")
                    json.moment(deliveries.waiting.compactMap(\.firstAt).min())
                    json.key("last_fault")
                    json.string(failed.flatMap { $0.fault.isEmpty ? nil : $0.fault })
                    json.key("last_fault_attempts")
                    json.integer(failed?.attempts ?? 0)
                }
            }
        })

    private static func find(
        _ number: Int64, in project: ProjectID, _ snapshot: any Snapshot
    ) throws(StoreFault) -> (Webhook, Deliveries)? {
        guard let webhook = try Webhook.all(of: project, snapshot).first(where: { $0.id == number }),
            let deliveries = try Deliveries.of(webhook, snapshot)
        else { return nil }
        return (webhook, deliveries)
    }

    private static func test(_ sources: Native.Sources) -> Endpoint {
        Endpoint(
            .post, "/onym/v1/webhooks/:id/test", scope: .admin,
            operation: Operation(
                id: "webhook_test", summary: "Sends a test message to a webhook, and answers what its receiver said.",
                description: """
                    The message has the type test and the id of the webhook, and no change. It is signed as all \
                    messages are. The server sends it once, and keeps nothing of it. status is null if the receiver \
                    did not answer; fault has the reason.
                    """,
                responses: [
                    .init(
                        .ok, "The result.",
                        schema: .object([
                            .init("status", .anyOf([.integer(), .null]), required: true),
                            .init("ms", .integer(), required: true),
                            .init("fault", AdminText.optionalText, required: true),
                        ]))
                ] + Native.problems([.notFound])),
            action: .steps(
                body: .optional,
                decode: { request, caller, tools throws(Rejection) in
                    let number = try AdminText.id(request, .webhook)
                    let (id, project, now) = (request.id, caller.project, tools.now)
                    guard let send = sources.sendToWebhook() else {
                        throw Rejection(
                            Native.problem(
                                .serviceUnavailable, code: "no_server", "Only a running server sends messages.", id))
                    }
                    return .read { snapshot throws(StoreFault) in
                        guard let (webhook, _) = try find(number, in: project, snapshot) else {
                            return .answer(Native.problem(.refused(.noSuch(.webhook)), id))
                        }
                        let payload = message(to: webhook, at: now)
                        // A client may choose the id of its request, so the digits that stand for the request name the message.
                        var digits: [UInt8] = []
                        digits.append(traceOf: id)
                        let name = "msg_test_\(String(decoding: digits, as: UTF8.self))"
                        return .wait { next in
                            let begun = MonotonicClock.nanoseconds()
                            send(payload, name, webhook, project) { result in
                                let milliseconds = (MonotonicClock.nanoseconds() - begun) / 1_000_000
                                next(.answer(answer(result, milliseconds)))
                            }
                        }
                    }
                }))
    }

    private static func message(to webhook: Webhook, at now: Instant) -> [UInt8] {
        var json = JSONWriter()
        json.object { json in
            json.key("type")
            json.string("test")
            json.key("timestamp")
            json.moment(now)
            json.key("data")
            json.object { json in
                json.key("webhook")
                json.decimalString(webhook.id)
            }
        }
        return json.bytes
    }

    private static func answer(_ result: WebhookResult, _ milliseconds: UInt64) -> Response {
        Native.json(.ok) { json in
            json.key("status")
            if case .answered(let status) = result { json.integer(status) } else { json.null() }
            json.key("ms")
            json.integer(milliseconds)
            json.key("fault")
            if case .failed(let why) = result { json.string(why) } else { json.null() }
        }
    }

    private static let replay = Endpoint(
        .post, "/onym/v1/webhooks/:id/replay", scope: .consoleAct,
        operation: Operation(
            id: "webhook_replay", summary: "Tries all parked deliveries of a webhook again, for another 24 hours.",
            responses: [
                .init(
                    .ok, "The deliveries wait again.", schema: .object([.init("replayed", .integer(), required: true)]))
            ] + Native.problems([.notFound, .unprocessableContent])),
        action: .steps(
            body: .optional,
            decode: { request, caller, _ throws(Rejection) in
                let (number, id, project) = (try AdminText.id(request, .webhook), request.id, caller.project)
                return .read { snapshot throws(StoreFault) in
                    guard let (_, deliveries) = try find(number, in: project, snapshot) else {
                        return .answer(Native.problem(.refused(.noSuch(.webhook)), id))
                    }
                    let count = deliveries.parked.count
                    let answer = Native.json(.ok) { json in
                        json.key("replayed")
                        json.integer(count)
                    }
                    if count == 0 { return .answer(answer) }
                    return .call(PreparedCall(ReplayDelivery(webhook: number, nil)) { _, _ in answer })
                }
            }))

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

    private static let schema = Schema.object(members)

    private static let members: [Schema.Property] = [
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
    ]
}
