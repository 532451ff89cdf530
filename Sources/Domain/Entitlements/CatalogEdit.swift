/// A call that changes the catalog of a project.
package enum CatalogEdit: Act {
    case putEntitlement(Catalog.Entitlement)
    case removeEntitlement(String)
    case putProduct(Catalog.Product)
    case removeProduct(String)
    case putOffering(Catalog.Offering)
    case removeOffering(String)
    /// The settings that a call names; nil for those that stay.
    case settings(tellsMilliseconds: Bool?, freezesShared: Bool?)

    package static var kinds: [ActKind] { [.editCatalog] }
    package static var readsMerges: Bool { false }
    package var subjects: Subjects { .none }
    package var byteCount: Int { 1024 }

    /// Changes an entitlement, a product, an offering or the settings of the catalog. Throws `catalogFull`, `noSuchDefinition`,
    /// `noSuchProduct`, `noSuchOffering`, `entitlementInUse`, `productOffered`, `undefinedEntitlement`, `undefinedProduct`, or
    /// `storeIDTaken`. A product names only defined entitlements, and a store id means one product, so each purchase gives
    /// definite access.
    package func decide<V: DecisionFacts>(
        _ stamp: Stamp, in project: ProjectID, _ view: V
    ) throws(Refusal) -> Decision<AccessReply> {
        let before = view.catalog(of: project)
        var catalog = before
        switch self {
        case .putEntitlement(let entitlement):
            catalog.put(entitlement)
            guard catalog.entitlements.count <= Catalog.entitlementsPerProject else { throw .catalogFull }
        case .removeEntitlement(let id):
            guard catalog.entitlement(id) != nil else { throw .noSuchDefinition }
            let isInUse = catalog.products.contains { $0.entitlements.contains { $0.hasSameBytes(as: id) } }
            guard !isInUse else { throw .entitlementInUse }
            catalog.removeEntitlement(id)
        case .putProduct(let product):
            for id in product.entitlements where catalog.entitlement(id) == nil { throw .undefinedEntitlement(id) }
            if let storeID = product.storeID {
                let isTaken = catalog.products.contains { other in
                    !other.id.hasSameBytes(as: product.id) && other.storeID?.hasSameBytes(as: storeID) == true
                }
                guard !isTaken else { throw .storeIDTaken }
            }
            catalog.put(product)
            guard catalog.products.count <= Catalog.productsPerProject else { throw .catalogFull }
        case .removeProduct(let id):
            guard catalog.products.contains(where: { $0.id.hasSameBytes(as: id) }) else { throw .noSuchProduct }
            let isOffered = catalog.offerings.contains { $0.products.contains { $0.hasSameBytes(as: id) } }
            guard !isOffered else { throw .productOffered }
            catalog.removeProduct(id)
        case .putOffering(let offering):
            for id in offering.products where !catalog.products.contains(where: { $0.id.hasSameBytes(as: id) }) {
                throw .undefinedProduct(id)
            }
            catalog.put(offering)
            guard catalog.offerings.count <= Catalog.offeringsPerProject else { throw .catalogFull }
        case .removeOffering(let id):
            guard catalog.offering(id) != nil else { throw .noSuchOffering }
            catalog.removeOffering(id)
        case .settings(let tellsMilliseconds, let freezesShared):
            catalog.tellsMilliseconds = tellsMilliseconds ?? catalog.tellsMilliseconds
            catalog.freezesShared = freezesShared ?? catalog.freezesShared
        }
        let reply = AccessReply.edited(catalog)
        guard catalog.packed != before.packed else { return Decision(reply) }
        return Decision(
            reply, outcome: Outcome(kind: .editCatalog, person: nil, changes: [catalog.put(project)]))
    }
}

extension ActKind {
    package static let editCatalog = ActKind(48, "edit_catalog", undo: .facts(needs: .admin))
}
