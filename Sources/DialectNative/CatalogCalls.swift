import Domain
import Gateway
import HTTPMessage
import HTTPServer
import JSON

/// The calls that define a project's entitlements, products and offerings, and set how the Entitlements dialect answers (spec/native.md,
/// Administration).
enum CatalogCalls {
    static let routes = [
        list("/onym/v1/entitlements", "entitlements", "entitlement_list", "Lists the entitlements.", entitlement) {
            catalog, json in
            for entitlement in catalog.entitlements { write(entitlement, &json) }
        },
        Endpoint(
            .put, "/onym/v1/entitlements/:id", scope: .admin,
            operation: Operation(
                id: "entitlement_put", summary: "Defines an entitlement.",
                request: .object([.init("name", .string("The name for people."))], others: false),
                responses: [.init(.ok, "The definition is in force.", schema: entitlement)]
                    + Native.problems([.badRequest, .unprocessableContent])),
            action: edit(
                { request, tools throws(Rejection) in .putEntitlement(try readEntitlement(request, tools)) },
                answer: { catalog, id in catalog.entitlement(id).map { entitlement in { write(entitlement, &$0) } } })),
        remove("/onym/v1/entitlements/:id", "entitlement_remove", "Removes an entitlement that no product gives.") {
            .removeEntitlement($0)
        },
        list("/onym/v1/products", "products", "product_list", "Lists the products with their entitlements.", product) {
            catalog, json in
            for product in catalog.products { write(product, &json) }
        },
        Endpoint(
            .put, "/onym/v1/products/:id", scope: .admin,
            operation: Operation(
                id: "product_put", summary: "Defines the entitlements of a product, and the time of access.",
                request: .object(
                    productFields.map { .init($0.0, $0.1) }, others: false),
                responses: [.init(.ok, "The definition is in force.", schema: product)]
                    + Native.problems([.badRequest, .conflict, .unprocessableContent])),
            action: edit(
                { request, tools throws(Rejection) in .putProduct(try readProduct(request, tools)) },
                answer: { catalog, id in
                    catalog.products.first { $0.id.hasSameBytes(as: id) }.map { product in { write(product, &$0) } }
                })),
        remove(
            "/onym/v1/products/:id", "product_remove", "Removes a product. Its purchases no longer give access."
        ) {
            .removeProduct($0)
        },
        list("/onym/v1/offerings", "offerings", "offering_list", "Lists which products apps show together.", offering) {
            catalog, json in
            for offering in catalog.offerings { write(offering, &json) }
        },
        Endpoint(
            .put, "/onym/v1/offerings/:id", scope: .admin,
            operation: Operation(
                id: "offering_put", summary: "Says which products apps show together.",
                request: .object(offeringFields.map { .init($0.0, $0.1) }, others: false),
                responses: [.init(.ok, "It is defined.", schema: offering)]
                    + Native.problems([.badRequest, .unprocessableContent])),
            action: edit(
                { request, tools throws(Rejection) in .putOffering(try readOffering(request, tools)) },
                answer: { catalog, id in catalog.offering(id).map { offering in { write(offering, &$0) } } })),
        remove("/onym/v1/offerings/:id", "offering_remove", "Removes an offering; its products stay.") {
            .removeOffering($0)
        },
        Endpoint(
            .put, "/onym/v1/access", scope: .admin,
            operation: Operation(
                id: "access_set", summary: "Changes settings of the Entitlements dialect.",
                request: settingsRequest,
                responses: [.init(.ok, "The settings.", schema: settings)]
                    + Native.problems([.badRequest, .unprocessableContent])),
            action: edit(
                { request, tools throws(Rejection) in try readSettings(request, tools) },
                answer: { catalog, _ in { write(settings: catalog, &$0) } })),
        Endpoint(
            .get, "/onym/v1/access", scope: .admin,
            operation: Operation(
                id: "access_get", summary: "Shows the settings of the Entitlements dialect.",
                responses: [.init(.ok, "The settings.", schema: settings)] + Native.problems([])),
            action: query { catalog, json in write(settings: catalog, &json) }),
    ]

    // MARK: - Routes of a kind

    private static func list(
        _ path: String, _ key: StaticString, _ id: String, _ summary: String, _ schema: Schema,
        _ body: @escaping @Sendable (Catalog, inout JSONWriter) -> Void
    ) -> Endpoint {
        Endpoint(
            .get, path, scope: .admin,
            operation: Operation(
                id: id, summary: summary,
                responses: [
                    .init(.ok, "All of them.", schema: .object([.init("\(key)", .array(schema), required: true)]))
                ] + Native.problems([])),
            action: query { catalog, json in
                json.object { json in
                    json.key(key)
                    json.array { body(catalog, &$0) }
                }
            })
    }

    private static func query(
        _ body: @escaping @Sendable (Catalog, inout JSONWriter) -> Void
    ) -> Endpoint.Action {
        .query { _, caller, _ in
            { snapshot throws(StoreFault) in
                let catalog = try snapshot.catalog(of: caller.project)
                return answer { body(catalog, &$0) }
            }
        }
    }

    private static func answer(_ body: (inout JSONWriter) -> Void) -> Response {
        var json = JSONWriter()
        body(&json)
        return Response(.ok, contentType: "application/json", body: json.bytes)
    }

    private static func edit(
        _ read: @escaping @Sendable (borrowing Request, LoopTools) throws(Rejection) -> CatalogEdit,
        answer: @escaping @Sendable (Catalog, String) -> ((inout JSONWriter) -> Void)?
    ) -> Endpoint.Action {
        .call(
            body: BufferedBody(),
            decode: { request, _, tools throws(Rejection) in
                let edit = try read(request, tools)
                let id = request.parameters.first ?? ""
                return PreparedCall(edit) { reply, _ in
                    guard case .edited(let catalog) = reply, let body = answer(catalog, id) else { return nil }
                    return self.answer(body)
                }
            })
    }

    private static func remove(
        _ path: String, _ operation: String, _ summary: String,
        _ edit: @escaping @Sendable (String) -> CatalogEdit
    ) -> Endpoint {
        Endpoint(
            .delete, path, scope: .admin,
            operation: Operation(
                id: operation, summary: summary,
                responses: [.init(.ok, "It is gone.", schema: .object([.init("removed", .string(), required: true)]))]
                    + Native.problems([.badRequest, .notFound, .conflict, .unprocessableContent])),
            action: .call(
                body: .optional,
                decode: { request, _, _ in
                    let id = request.parameters[0]
                    return PreparedCall(edit(id)) { _, _ in
                        Native.json(.ok) { json in
                            json.key("removed")
                            json.string(id)
                        }
                    }
                }))
    }

    // MARK: - Reading

    private static let idBytes = 1...255
    private static let nameBytes = 255
    /// A hundred years.
    private static let durationSeconds: ClosedRange<Int64> = 1...3_155_760_000

    private static func id(_ request: borrowing Request) throws(Rejection) -> String {
        let id = request.parameters[0]
        guard idBytes.contains(id.utf8.count), id.unicodeScalars.allSatisfy({ $0 >= " " && $0 != "\u{7F}" })
        else {
            throw Rejection(
                Native.problem(
                    .badRequest, code: Native.validationError,
                    "The id must have 1 to 255 bytes, none of them a control character.", request.id))
        }
        return id
    }

    private static func read<Result>(
        _ request: borrowing Request, _ tools: LoopTools, _ body: (JSONValue) throws(JSONFault) -> Result
    ) throws(Rejection) -> Result {
        do throws(JSONFault) {
            return try tools.json.read(request.body, body)
        } catch {
            throw Rejection(Native.problem(error, request.id))
        }
    }

    private static func readEntitlement(
        _ request: borrowing Request, _ tools: LoopTools
    ) throws(Rejection) -> Catalog.Entitlement {
        let id = try id(request)
        return try read(request, tools) { root throws(JSONFault) in
            var name: String?
            try root.forEachMember(at: "the body") { key, value throws(JSONFault) in
                switch key {
                // These members have no meaning. They are allowed so that a caller can send an answer back unchanged.
                case "id": _ = try value.string(at: "id")
                case "name": name = try text(value, "name")
                default: throw JSONFault(.wrong("is not a field of an entitlement"), at: key.shown)
                }
            }
            return Catalog.Entitlement(id: id, name: name)
        }
    }

    private static func text(_ value: JSONValue, _ name: String) throws(JSONFault) -> String? {
        guard let text = try value.optionalText(at: name)?.copy() else { return nil }
        guard (1...nameBytes).contains(text.utf8.count) else {
            throw JSONFault(.wrong("must have 1 to \(nameBytes) bytes"), at: name)
        }
        return text
    }

    private static func readProduct(
        _ request: borrowing Request, _ tools: LoopTools
    ) throws(Rejection) -> Catalog.Product {
        let id = try id(request)
        return try read(request, tools) { root throws(JSONFault) in
            var kind: Catalog.Product.Kind?
            var storeID: String?
            var (basePlan, group): (String?, String?)
            var duration: Int64?
            var entitlements: [String] = []
            try root.forEachMember(at: "the body") { key, value throws(JSONFault) in
                switch key {
                case "id": _ = try value.string(at: "id")
                case "type":
                    kind = Catalog.Product.Kind(named: try value.string(at: "type"))
                    guard kind != nil else {
                        throw JSONFault(.wrong("must be \(kinds.joined(separator: ", "))"), at: "type")
                    }
                case "store_id": storeID = try text(value, "store_id")
                case "base_plan": basePlan = try text(value, "base_plan")
                case "group": group = try text(value, "group")
                case "duration_seconds":
                    if value.isNull { return }
                    let seconds = try value.integer(at: "duration_seconds")
                    guard durationSeconds.contains(seconds) else {
                        throw JSONFault(
                            .wrong("must be 1 to \(durationSeconds.upperBound) seconds"), at: "duration_seconds")
                    }
                    duration = seconds
                case "entitlements":
                    try value.forEachElement(at: "entitlements") { element throws(JSONFault) in
                        let name = try element.string(at: "each of entitlements")
                        if !entitlements.contains(where: { $0.hasSameBytes(as: name) }) { entitlements.append(name) }
                        guard entitlements.count <= Catalog.entitlementsPerProduct else {
                            throw JSONFault(
                                .wrong("must have at most \(Catalog.entitlementsPerProduct)"), at: "entitlements")
                        }
                    }
                default: throw JSONFault(.wrong("is not a field of a product"), at: key.shown)
                }
            }
            guard let kind else { throw JSONFault(.wrong("is required: \(kinds.joined(separator: ", "))"), at: "type") }
            var product = Catalog.Product(
                id: id, storeID: storeID, kind: kind, durationSeconds: duration, entitlements: entitlements)
            (product.basePlan, product.group) = (basePlan, group)
            return product
        }
    }

    private static func readOffering(
        _ request: borrowing Request, _ tools: LoopTools
    ) throws(Rejection) -> Catalog.Offering {
        let id = try id(request)
        return try read(request, tools) { root throws(JSONFault) in
            var isMain = false
            var products: [String] = []
            try root.forEachMember(at: "the body") { key, value throws(JSONFault) in
                switch key {
                case "main": isMain = try value.bool(at: "main")
                case "products":
                    try value.forEachElement(at: "products") { element throws(JSONFault) in
                        let product = try element.string(at: "each of products")
                        if !products.contains(where: { $0.hasSameBytes(as: product) }) { products.append(product) }
                        guard products.count <= Catalog.productsPerOffering else {
                            throw JSONFault(
                                .wrong("must have at most \(Catalog.productsPerOffering)"), at: "products")
                        }
                    }
                default: throw JSONFault(.wrong("is not a field of an offering"), at: key.shown)
                }
            }
            return Catalog.Offering(id: id, isMain: isMain, products: products)
        }
    }

    private static func readSettings(
        _ request: borrowing Request, _ tools: LoopTools
    ) throws(Rejection) -> CatalogEdit {
        try read(request, tools) { root throws(JSONFault) in
            var (tellsMilliseconds, freezesShared): (Bool?, Bool?)
            try root.forEachMember(at: "the body") { key, value throws(JSONFault) in
                switch key {
                case "created":
                    switch try value.string(at: "created") {
                    case "seconds": tellsMilliseconds = false
                    case "milliseconds": tellsMilliseconds = true
                    default: throw JSONFault(.wrong("must be seconds or milliseconds"), at: "created")
                    }
                case "on_shared_receipt":
                    switch try value.string(at: "on_shared_receipt") {
                    case "tell": freezesShared = false
                    case "freeze": freezesShared = true
                    default: throw JSONFault(.wrong("must be tell or freeze"), at: "on_shared_receipt")
                    }
                default: throw JSONFault(.wrong("is not a setting"), at: key.shown)
                }
            }
            guard tellsMilliseconds != nil || freezesShared != nil else {
                throw JSONFault(.wrong("must have created or on_shared_receipt"), at: "the body")
            }
            return .settings(tellsMilliseconds: tellsMilliseconds, freezesShared: freezesShared)
        }
    }

    // MARK: - Writing

    private static func write(_ entitlement: Catalog.Entitlement, _ json: inout JSONWriter) {
        json.object { json in
            json.key("id")
            json.string(entitlement.id)
            json.key("name")
            json.string(entitlement.name)
        }
    }

    private static func write(_ product: Catalog.Product, _ json: inout JSONWriter) {
        json.object { json in
            json.key("id")
            json.string(product.id)
            json.key("type")
            json.string("\(product.kind.name)")
            json.key("store_id")
            json.string(product.storeID)
            json.key("duration_seconds")
            if let seconds = product.durationSeconds { json.integer(seconds) } else { json.null() }
            json.key("entitlements")
            json.array { json in
                for id in product.entitlements { json.string(id) }
            }
            json.key("base_plan")
            json.string(product.basePlan)
            json.key("group")
            json.string(product.group)
        }
    }

    private static func write(_ offering: Catalog.Offering, _ json: inout JSONWriter) {
        json.object { json in
            json.key("id")
            json.string(offering.id)
            json.key("main")
            json.bool(offering.isMain)
            json.key("products")
            json.array { json in
                for id in offering.products { json.string(id) }
            }
        }
    }

    private static func write(settings catalog: Catalog, _ json: inout JSONWriter) {
        json.object { json in
            json.key("created")
            json.string(catalog.tellsMilliseconds ? "milliseconds" : "seconds")
            json.key("on_shared_receipt")
            json.string(catalog.freezesShared ? "freeze" : "tell")
        }
    }

    // MARK: - What the API's description says

    private static let kinds = Catalog.Product.Kind.allCases.map { "\($0.name)" }

    private static let entitlement = Schema.object([
        .init("id", .string(), required: true), .init("name", .anyOf([.string(), .null]), required: true),
    ])

    private static let productFields: [(String, Schema)] = [
        ("type", .string(oneOf: kinds)), ("store_id", .anyOf([.string("The product's id in stores."), .null])),
        (
            "duration_seconds",
            .anyOf([.integer("The time of access if the store names no end."), .null])
        ),
        ("entitlements", .array(.string())),
        ("base_plan", .anyOf([.string("The base plan at Google Play."), .null])),
        ("group", .anyOf([.string("The group of products of which a user has one at a time."), .null])),
    ]

    private static let offeringFields: [(String, Schema)] = [
        ("main", .boolean("Whether apps show it if they ask for none by id.")), ("products", .array(.string())),
    ]

    private static let offering = Schema.object(
        [.init("id", .string(), required: true)] + offeringFields.map { .init($0.0, $0.1, required: true) })

    private static let product = Schema.object(
        [.init("id", .string(), required: true)] + productFields.map { .init($0.0, $0.1, required: true) })

    private static let settingFields: [(String, Schema)] = [
        ("created", .string(oneOf: ["seconds", "milliseconds"])),
        ("on_shared_receipt", .string(oneOf: ["tell", "freeze"])),
    ]

    private static let settings = Schema.object(settingFields.map { .init($0.0, $0.1, required: true) })
    private static let settingsRequest = Schema.object(settingFields.map { .init($0.0, $0.1) }, others: false)
}
