import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that list the waiting and parked deliveries of webhooks, and try a parked delivery again (spec/native.md,
/// Changes).
enum DeliveryCalls {
    static let routes = [list, replay]

    private static let list = Endpoint(
        .get, "/onym/v1/deliveries", scope: .admin,
        operation: Operation(
            id: "deliveries_list",
            summary: "Lists the waiting and parked deliveries.",
            query: [
                .init("state", .string("Only deliveries in this state.", oneOf: ["waiting", "parked"])),
                .init("webhook", .string("Only deliveries of one webhook.")),
            ] + ListQuery.parameters,
            responses: [.init(.ok, "Deliveries.", schema: AdminText.list("deliveries", of: schema))]
                + Native.problems([.badRequest])),
        action: .query { request, caller, _ throws(Rejection) in
            let (list, project) = (try ListQuery(request), caller.project)
            let (state, webhook) = (request.query?["state"], request.query?["webhook"])
            guard state.map({ ["waiting", "parked"].contains($0) }) ?? true else {
                throw AdminText.wrong("state must be waiting or parked.", request.id)
            }
            return { snapshot throws(StoreFault) in
                var all: [Listed] = []
                for hook in try Webhook.all(of: project, snapshot) {
                    guard webhook.map({ $0 == String(hook.id) }) ?? true,
                        let deliveries = try Deliveries.of(hook, snapshot)
                    else { continue }
                    if state != "parked" {
                        all += deliveries.waiting.map { Listed(webhook: hook.id, state: "waiting", delivery: $0) }
                    }
                    if state != "waiting" {
                        all += deliveries.parked.map { Listed(webhook: hook.id, state: "parked", delivery: $0) }
                    }
                }
                let start = min(list.cursor ?? 0, all.count)
                let page = all[start...].prefix(list.limit)
                return Native.json(.ok) { json in
                    json.key("deliveries")
                    json.array { json in
                        for listed in page { json.object { write(listed, &$0) } }
                    }
                    json.key("next_cursor")
                    if page.endIndex < all.count { json.decimalString(page.endIndex) } else { json.null() }
                }
            }
        })

    private static let replay = Endpoint(
        .post, "/onym/v1/deliveries/:id/replay", scope: .consoleAct,
        operation: Operation(
            id: "delivery_replay", summary: "Tries a parked delivery again, for another 24 hours.",
            responses: [
                .init(.ok, "The delivery waits again.", schema: .object([.init("replayed", .string(), required: true)]))
            ] + Native.problems([.notFound, .unprocessableContent])),
        action: .call(
            body: .optional,
            decode: { request, _, _ throws(Rejection) in
                let text = request.parameters[0]
                guard let name = place(text) else {
                    throw Rejection(Native.problem(.refused(.noSuch(.delivery)), request.id))
                }
                return PreparedCall(ReplayDelivery(webhook: name.webhook, name.change)) { _, _ in
                    Native.json(.ok) { json in
                        json.key("replayed")
                        json.string(text)
                    }
                }
            }))

    /// A delivery that waits or is parked.
    struct Listed {
        let webhook: Int64
        let state: String
        let delivery: Delivery
    }

    /// The webhook and the change that an id names; nil for a text that is no id of a delivery.
    private static func place(_ text: String) -> (webhook: Int64, change: ChangeReference)? {
        let parts = text.split(separator: "_", omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 4, parts[0] == "d", let webhook = Int64(decimal: parts[1]),
            let call = Int64(decimal: parts[2]), let index = Int64(decimal: parts[3])
        else { return nil }
        return (webhook, ChangeReference(call: JournalSequence(rawValue: call), index: Int(index)))
    }

    /// The delivery with an id; nil if it does not wait and is not parked.
    static func delivery(
        _ text: String, in project: ProjectID, _ snapshot: any Snapshot
    ) throws(StoreFault) -> Listed? {
        guard let (webhook, change) = place(text),
            let hook = try Webhook.all(of: project, snapshot).first(where: { $0.id == webhook }),
            let deliveries = try Deliveries.of(hook, snapshot)
        else { return nil }
        for (state, list) in [("waiting", deliveries.waiting), ("parked", deliveries.parked)] {
            guard let found = list.first(where: { $0.change == change }) else { continue }
            return Listed(webhook: webhook, state: state, delivery: found)
        }
        return nil
    }

    /// The id of a delivery.
    static func id(of delivery: Delivery, to webhook: Int64) -> String {
        "d_\(webhook)_\(delivery.change.call.rawValue)_\(delivery.change.index)"
    }

    static func write(_ listed: Listed, _ json: inout JSONWriter) {
        let delivery = listed.delivery
        json.key("id")
        json.string(id(of: delivery, to: listed.webhook))
        json.key("webhook")
        json.decimalString(listed.webhook)
        json.key("seq")
        json.integer(Int(delivery.change.call.rawValue))
        json.key("state")
        json.string(listed.state)
        json.key("attempts")
        json.integer(delivery.attempts)
        json.key("first_tried_at")
        json.moment(delivery.firstAt)
        json.key("next_try_at")
        json.moment(listed.state == "waiting" ? delivery.nextAt : nil)
        json.key("fault")
        json.string(delivery.fault.isEmpty ? nil : delivery.fault)
    }

    private static let schema = Schema.object([
        .init("id", .string(), required: true), .init("webhook", .string(), required: true),
        .init("seq", .integer(), required: true), .init("state", .string(), required: true),
        .init("attempts", .integer(), required: true),
        .init("first_tried_at", AdminText.optionalText, required: true),
        .init("next_try_at", AdminText.optionalText, required: true),
        .init("fault", AdminText.optionalText, required: true),
    ])
}
