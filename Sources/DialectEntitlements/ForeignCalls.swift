import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// Calls of shipped apps about screens, remote configurations, experiments and notifications (spec/entitlements-live.md 1.3).
/// Onym has none of these. The answers are empty and valid, so that apps continue, and nothing is kept.
enum ForeignCalls {
    /// The calls of the third and fourth generations.
    static let routes: [Endpoint] = [
        fixed(
            .get, "/v3/remote-config", "foreign_remote_config", "There is no remote configuration.", #"{"payload":{}}"#),
        fixed(.get, "/v3/remote-configs", "foreign_remote_configs", "There is no remote configuration.", "[]"),
        fixed(.get, "/v3/screens", "foreign_screens", "There are no screens.", "[]"),
        fixed(.post, "/v3/experiments/:id/users/:user", "foreign_experiment_join", "There are no experiments.", "{}"),
        fixed(
            .delete, "/v3/experiments/:id/users/:user", "foreign_experiment_leave", "There are no experiments.", "{}"),
        fixed(
            .post, "/v3/remote-configurations/:id/users/:user", "foreign_configuration_join",
            "There is no remote configuration.", "{}"),
        fixed(
            .delete, "/v3/remote-configurations/:id/users/:user", "foreign_configuration_leave",
            "There is no remote configuration.", "{}"),
        fixed(.post, "/v3/users/:id/screen-events", "foreign_screen_events", "There are no screens.", "{}"),
        missing(.get, "/v3/screens/:id", "foreign_screen", "Screen not found"),
        missing(.get, "/v3/contexts/:key/screens", "foreign_context_screen", "Screen not found"),
        missing(.post, "/v4/web/redeem", "foreign_redeem", "There are no redemptions"),
        fixed(
            .post, "/v4/web/redeem/status", "foreign_redeem_status", "There are no redemptions.",
            #"{"consumed":false,"expired":true}"#),
        fixed(.post, "/v4/web/redeem/reissue", "foreign_redeem_reissue", "There are no redemptions.", "{}"),
        Endpoint(
            .get, "/v3/products/:id", scope: .accessRead,
            operation: Operation(
                id: "products_of_user", summary: "Lists what is sold, as the vendor's Swift client reads it.",
                responses: [.init(.ok, "All products.", schema: .array(.object([])))] + Entitlements.answers()),
            action: .glance { request, caller, tools throws(Rejection) in
                _ = try Entitlements.user(request, caller, tools)
                return { snapshot throws(StoreFault) in products(try snapshot.catalog(of: caller.project)) }
            }),
        fixed(
            .get, "/v3/products/permissions", "foreign_products_permissions", "The launch result has them.",
            #"{"products_permissions":{}}"#),
        echo(.post, "/v3/device/:id", "foreign_device_set"),
        echo(.put, "/v3/device/:id", "foreign_device_put"),
        echo(.post, "/v3/appleads/:id", "foreign_search_ads"),
    ]

    /// The calls of the first two generations.
    static let legacyRoutes: [Endpoint] = [
        legacy(.post, "/v1/user/push-token", "foreign_push_token", "{}"),
        legacy(.post, "/v2/screens/:id/views", "foreign_screen_views", "{}"),
        legacy(.get, "/v2/users/:id/action-points", "foreign_action_points", #"{"items":[]}"#),
        Endpoint(
            .get, "/v2/screens/:id", scope: .accessRead,
            operation: Operation(
                id: "foreign_legacy_screen", summary: "There are no screens.", ignoresOtherParameters: true,
                responses: LegacyCalls.answers),
            action: answering { _, _ in LegacyCalls.failure(.notFound, LegacyCalls.general, "Screen not found") }),
    ]

    private static let nothing = Schema.anyOf([.object([]), .array(.object([]))])

    // MARK: - Routes of a kind

    private static func fixed(
        _ method: Method, _ path: String, _ id: String, _ summary: String, _ body: StaticString
    ) -> Endpoint {
        Endpoint(
            method, path, scope: method == .get ? .accessRead : .usersWrite,
            operation: Operation(
                id: id, summary: summary, ignoresOtherParameters: true,
                responses: [.init(.ok, "Nothing, in the form that apps read.", schema: nothing)]
                    + Entitlements.answers()),
            action: answering { _, _ in Entitlements.json { $0.raw(Array("\(body)".utf8)) } })
    }

    private static func missing(_ method: Method, _ path: String, _ id: String, _ message: String) -> Endpoint {
        Endpoint(
            method, path, scope: method == .get ? .accessRead : .usersWrite,
            operation: Operation(
                id: id, summary: message + ".", ignoresOtherParameters: true,
                responses: Entitlements.answers([.notFound])),
            action: answering { _, _ in Entitlements.error(.notFound, "resource", "not_found", message) })
    }

    /// Answers with the body of the call.
    private static func echo(_ method: Method, _ path: String, _ id: String) -> Endpoint {
        Endpoint(
            method, path, scope: .usersWrite,
            operation: Operation(
                id: id, summary: "Answers the body again, and keeps nothing.", ignoresOtherParameters: true,
                responses: [.init(.ok, "The body.", schema: nothing)] + Entitlements.answers()),
            action: answering { request, tools throws(Rejection) in
                let body: [UInt8]
                do throws(JSONFault) {
                    body = try tools.json.read(request.body, PurchaseBody.copy)
                } catch {
                    throw Entitlements.invalid(error)
                }
                return Entitlements.json { $0.raw(body) }
            })
    }

    private static func legacy(_ method: Method, _ path: String, _ id: String, _ data: StaticString) -> Endpoint {
        Endpoint(
            method, path, scope: method == .get ? .accessRead : .usersWrite,
            operation: Operation(
                id: id, summary: "Answers nothing in the form that apps read, and keeps nothing.",
                ignoresOtherParameters: true,
                responses: [.init(.ok, "Nothing.", schema: LegacyCalls.envelope)] + LegacyCalls.answers),
            action: answering { _, _ in
                Entitlements.object { json in
                    json.key("success")
                    json.bool(true)
                    json.key("data")
                    json.raw(Array("\(data)".utf8))
                }
            })
    }

    /// An action that reads nothing but the call.
    private static func answering(
        _ answer: @escaping @Sendable (borrowing Request, LoopTools) throws(Rejection) -> Response
    ) -> Endpoint.Action {
        .steps(
            body: .optional,
            decode: { request, _, tools throws(Rejection) in .answer(try answer(request, tools)) })
    }

    /// The products under the names of the vendor's Swift client.
    private static func products(_ catalog: Catalog) -> Response {
        Entitlements.json { json in
            json.array { json in
                for product in catalog.products {
                    json.object { json in
                        json.key("qonversionId")
                        json.string(product.id)
                        json.key("storeId")
                        json.string(product.idInStore)
                        let offering = catalog.offerings.first {
                            $0.products.contains { $0.hasSameBytes(as: product.id) }
                        }
                        if let offering {
                            json.key("offeringId")
                            json.string(offering.id)
                        }
                        json.key("entitlements")
                        json.array { json in
                            for id in product.entitlements { json.string(id) }
                        }
                    }
                }
            }
        }
    }
}
