import Crypto
import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The call that makes receipts for test purchases (spec/native.md, The command line).
enum ReceiptCalls {
    static func routes(_ receipts: TestReceipts) -> [Endpoint] {
        [
            Endpoint(
                .post, "/onym/v1/receipts", scope: .admin,
                operation: Operation(
                    id: "receipt_make", summary: "Makes a signed receipt for test purchases.",
                    request: .object(
                        [
                            .init("product", .string(), required: true),
                            .init("store_account", .string("The store's name of the paying account.")),
                            .init("transaction", .string("The transaction; a new transaction by default.")),
                            .init("original_transaction", .string("The original transaction of a renewal.")),
                            .init("source", .string(oneOf: sources.map(\.0))),
                            .init("purchased", .integer("In seconds; now by default.")),
                            .init("expires", .integer("In seconds.")),
                            .init("renew_state", .string(oneOf: renewals.map(\.0))),
                            .init("period_type", .string(oneOf: periods.map(\.0))),
                        ], others: false),
                    responses: [
                        .init(
                            .ok, "The receipt.",
                            schema: .object([
                                .init("receipt", .string(), required: true),
                                .init("transaction", .string(), required: true),
                            ]))
                    ] + Native.problems([.badRequest])),
                action: .steps(
                    body: BufferedBody(),
                    decode: { request, caller, tools throws(Rejection) in
                        do throws(JSONFault) {
                            let payload = try tools.json.read(request.body) { root throws(JSONFault) in
                                try self.payload(root, caller, now: tools.now)
                            }
                            return .answer(
                                Native.json(.ok) { json in
                                    json.key("receipt")
                                    json.string(receipts.receipt(payload))
                                    json.key("transaction")
                                    json.string(payload.transaction)
                                })
                        } catch {
                            throw Rejection(Native.problem(error, request.id))
                        }
                    }))
        ]
    }

    private static let sources = Purchase.Source.allCases.map { ($0.name, $0) }
    private static let renewals: [(String, Purchase.Renewal)] = [
        ("will_renew", .willRenew), ("canceled", .canceled), ("billing_issue", .billingIssue),
    ]
    private static let periods: [(String, Purchase.Period)] = [
        ("normal", .normal), ("trial", .trial), ("intro", .intro),
    ]

    private static func payload(
        _ root: JSONValue, _ caller: Caller, now: Instant
    ) throws(JSONFault) -> TestReceipts.Payload {
        var payload = TestReceipts.Payload(
            project: caller.project, product: "",
            transaction: "test_" + SecureRandom.text(20, from: "0123456789abcdefghijklmnopqrstuvwxyz"),
            purchasedAt: now)
        payload.signedAt = now
        var original: String?
        func text(_ value: JSONValue, _ name: String) throws(JSONFault) -> String {
            let text = try value.string(at: name)
            guard (1...255).contains(text.utf8.count) else {
                throw JSONFault(.wrong("must have 1 to 255 bytes"), at: name)
            }
            return text
        }
        func moment(_ value: JSONValue, _ name: String) throws(JSONFault) -> Instant {
            let seconds = try value.integer(at: name)
            guard (0...253_402_300_799).contains(seconds) else {
                throw JSONFault(.wrong("must be a time in seconds"), at: name)
            }
            return Instant(milliseconds: seconds * 1000)
        }
        func named<Value>(_ value: JSONValue, _ name: String, _ values: [(String, Value)]) throws(JSONFault) -> Value {
            let text = try value.string(at: name)
            guard let found = values.first(where: { $0.0 == text }) else {
                throw JSONFault(.wrong("must be \(values.map(\.0).joined(separator: ", "))"), at: name)
            }
            return found.1
        }
        try root.forEachMember(at: "the body") { key, value throws(JSONFault) in
            switch key {
            case "product": payload.product = try text(value, "product")
            case "store_account": payload.account = try text(value, "store_account")
            case "transaction": payload.transaction = try text(value, "transaction")
            case "original_transaction": original = try text(value, "original_transaction")
            case "source": payload.source = try named(value, "source", sources)
            case "purchased": payload.purchasedAt = try moment(value, "purchased")
            case "expires": payload.expiresAt = try moment(value, "expires")
            case "renew_state": payload.renewal = try named(value, "renew_state", renewals)
            case "period_type": payload.period = try named(value, "period_type", periods)
            default: throw JSONFault(.wrong("is not a field of a receipt"), at: key.shown)
            }
        }
        guard !payload.product.isEmpty else { throw JSONFault(.wrong("is required"), at: "product") }
        payload.originalTransaction = original ?? payload.transaction
        return payload
    }
}
