import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The call that shows what a person may use, and why (spec/taking-back.md, section 2).
enum AccessCalls {
    static let routes = [
        Endpoint(
            .get, "/onym/v1/people/:id/access", scope: .consoleRead,
            operation: Operation(
                id: "person_access", summary: "Shows what a person may use now, and why, and what ended.",
                description: """
                    access has the active entitlements with their reasons: the purchase or the grant, the member and its \
                    principal. ended has the entitlements that a member had, or that a purchase of another identity \
                    would give: expired, refunded, transferred, replaced or other_identity, with the present owners in to.
                    """,
                query: [AsOf.parameter],
                responses: [.init(.ok, "The access.", schema: schema)]
                    + Native.problems([.badRequest, .notFound, .conflict, .gone])),
            action: .query { request, caller, tools throws(Rejection) in
                let (name, project, id) = (PersonName(request.parameters[0], caller, tools), caller.project, request.id)
                let (now, asOf) = (caller.now, try AsOf(request))
                return { snapshot throws(StoreFault) in
                    let moment = try asOf.moment(now, snapshot)
                    return try asOf.answer(in: project, snapshot, id) { snapshot throws(StoreFault) in
                        switch name.find(in: project, snapshot) {
                        case .failure(let problem): return problem.response(id)
                        case .success(let person):
                            let access = try PersonAccess(of: person, in: project, at: moment, snapshot)
                            return Native.json(.ok) { write(access, &$0) }
                        }
                    }
                }
            })
    ]

    private static func write(_ access: PersonAccess, _ json: inout JSONWriter) {
        json.key("access")
        write(access.entitlements, &json)
        json.key("ended")
        json.array { json in
            for ended in access.ended {
                json.object { json in
                    json.key("entitlement")
                    json.string(ended.entitlement)
                    json.key("member")
                    json.decimalString(ended.member.rawValue)
                    write(ended.purchase, &json)
                    json.key("at")
                    json.moment(ended.at)
                    json.key("why")
                    json.string(ended.why.rawValue)
                    json.key("to")
                    json.array { json in
                        for name in ended.to { json.string(name) }
                    }
                }
            }
        }
    }

    /// Writes active entitlements with their reasons.
    static func write(_ entitlements: [PersonAccess.Entitlement], _ json: inout JSONWriter) {
        json.array { json in
            for entitlement in entitlements {
                json.object { json in
                    json.key("entitlement")
                    json.string(entitlement.id)
                    json.key("active")
                    json.bool(true)
                    json.key("until")
                    json.moment(entitlement.until)
                    json.key("because")
                    json.array { json in
                        for reason in entitlement.because { json.object { write(reason, &$0) } }
                    }
                }
            }
        }
    }

    private static func write(_ reason: PersonAccess.Because, _ json: inout JSONWriter) {
        json.key("kind")
        let isShared = (reason.purchase?.owners.count ?? 0) > 1
        json.string(reason.purchase == nil ? "grant" : isShared ? "shared" : "purchase")
        write(reason.purchase, &json)
        json.key("principal")
        json.string(reason.principal)
        json.key("member")
        json.decimalString(reason.member.rawValue)
        json.key("rule")
        json.string("\(reason.rule.name)")
        json.key("store_account")
        json.string(reason.purchase.map { "\($0.source.name):\($0.originalTransaction)" })
        json.key("moved_by")
        json.string(reason.movedBy)
        json.key("since")
        json.moment(reason.since)
        json.key("until")
        json.moment(reason.until)
    }

    private static func write(_ purchase: Purchase?, _ json: inout JSONWriter) {
        json.key("transaction")
        json.string(purchase?.transaction)
        json.key("product")
        json.string(purchase?.product)
    }

    /// The active entitlements of an answer.
    static let entitlementsSchema = Schema.array(
        .object([
            .init("entitlement", .string(), required: true), .init("active", .boolean(), required: true),
            .init("until", AdminText.optionalText, required: true),
            .init("because", .array(.object([])), required: true),
        ]))

    private static let schema = Schema.object([
        .init("access", entitlementsSchema, required: true),
        .init(
            "ended",
            .array(
                .object([
                    .init("entitlement", .string(), required: true), .init("member", .string(), required: true),
                    .init("product", AdminText.optionalText), .init("transaction", AdminText.optionalText),
                    .init("at", AdminText.optionalText, required: true),
                    .init(
                        "why", .string(oneOf: PersonAccess.Ended.Why.allCases.map(\.rawValue)), required: true),
                    .init("to", .array(.string()), required: true),
                ])), required: true),
    ])
}
