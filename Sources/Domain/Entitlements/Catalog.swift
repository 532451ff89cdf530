/// The entitlements and products of a project: each product gives some entitlements for some time.
package struct Catalog: Equatable, Sendable {
    /// A right to use a part of an app, which products and grants give.
    package struct Entitlement: Equatable, Sendable {
        package let id: String
        package let name: String?

        package init(id: String, name: String?) {
            self.id = id
            self.name = name
        }
    }

    /// A thing that users can buy, with the entitlements that it gives.
    package struct Product: Equatable, Sendable {
        /// Stores keep the raw values, so a raw value never changes.
        package enum Kind: UInt8, CaseIterable, Sendable {
            case subscription = 1
            /// Bought once, without an end.
            case nonConsumable = 2
            case consumable = 3

            package var name: StaticString {
                switch self {
                case .subscription: "subscription"
                case .nonConsumable: "non_consumable"
                case .consumable: "consumable"
                }
            }

            package init?(named name: String) {
                guard let kind = Kind.allCases.first(where: { "\($0.name)" == name }) else { return nil }
                self = kind
            }
        }

        package let id: String
        /// The product's id in stores, if it differs.
        package let storeID: String?
        package let kind: Kind
        /// The time of access if the store names no end; nil for access without an end.
        package let durationSeconds: Int64?
        package let entitlements: [String]
        /// The base plan of the product at Google Play; nil without one.
        package var basePlan: String?
        /// The group of products of which a user has one at a time; nil without one.
        package var group: String?

        package init(id: String, storeID: String?, kind: Kind, durationSeconds: Int64?, entitlements: [String]) {
            self.id = id
            self.storeID = storeID
            self.kind = kind
            self.durationSeconds = durationSeconds
            self.entitlements = entitlements
        }

        /// The id of the product in its store.
        package var idInStore: String { storeID ?? id }
    }

    /// The products that an app shows together.
    package struct Offering: Equatable, Sendable {
        package let id: String
        /// Whether it is the one that an app shows if it asks for none by id.
        package var isMain: Bool
        package let products: [String]

        package init(id: String, isMain: Bool, products: [String]) {
            self.id = id
            self.isMain = isMain
            self.products = products
        }
    }

    /// The entitlements in the order of their ids.
    package private(set) var entitlements: [Entitlement] = []
    package private(set) var products: [Product] = []
    package private(set) var offerings: [Offering] = []
    /// Whether answers have the creation time of users in milliseconds (spec/entitlements.md, decision 4).
    package internal(set) var tellsMilliseconds = false
    /// Whether a purchase stays with its installs and owners once too many people have proven it.
    package internal(set) var freezesShared = false

    package static let entitlementsPerProject = 1000
    package static let productsPerProject = 1000
    package static let entitlementsPerProduct = 50
    package static let offeringsPerProject = 100
    package static let productsPerOffering = 100

    package init() {}

    /// The key of the document with a project's catalog.
    package static func key(_ project: ProjectID) -> DocumentKey { DocumentKey(.catalog, of: Int64(project.rawValue)) }

    /// The entitlement with an id; nil if it is not defined.
    package func entitlement(_ id: String) -> Entitlement? { entitlements.first { $0.id.hasSameBytes(as: id) } }

    /// The product with an id, or with an id in stores.
    package func product(_ id: String) -> Product? {
        var (low, high) = (0, products.count)
        while low < high {
            let middle = (low + high) / 2
            if products[middle].id.hasSameBytes(as: id) { return products[middle] }
            if products[middle].id.precedesByBytes(id) { low = middle + 1 } else { high = middle }
        }
        return products.first { $0.storeID?.hasSameBytes(as: id) == true }
    }

    mutating func put(_ entitlement: Entitlement) {
        removeEntitlement(entitlement.id)
        let place = entitlements.firstIndex { entitlement.id.precedesByBytes($0.id) } ?? entitlements.count
        entitlements.insert(entitlement, at: place)
    }

    mutating func put(_ product: Product) {
        removeProduct(product.id)
        let place = products.firstIndex { product.id.precedesByBytes($0.id) } ?? products.count
        products.insert(product, at: place)
    }

    /// Puts an offering. At most one offering is the main one.
    mutating func put(_ offering: Offering) {
        removeOffering(offering.id)
        if offering.isMain {
            for index in offerings.indices { offerings[index].isMain = false }
        }
        let place = offerings.firstIndex { offering.id.precedesByBytes($0.id) } ?? offerings.count
        offerings.insert(offering, at: place)
    }

    package func offering(_ id: String) -> Offering? { offerings.first { $0.id.hasSameBytes(as: id) } }

    mutating func removeOffering(_ id: String) { offerings.removeAll { $0.id.hasSameBytes(as: id) } }
    mutating func removeEntitlement(_ id: String) { entitlements.removeAll { $0.id.hasSameBytes(as: id) } }
    mutating func removeProduct(_ id: String) { products.removeAll { $0.id.hasSameBytes(as: id) } }

    /// The bits of the first byte.
    private static let millisecondsBit: UInt8 = 1
    private static let freezesBit: UInt8 = 2

    /// Whether a stored catalog uses milliseconds. The function reads only the first byte.
    static func tellsMilliseconds(packed: [UInt8]?) -> Bool { (packed?.first ?? 0) & millisecondsBit != 0 }

    func put(_ project: ProjectID) -> Change {
        // The document belongs to no person.
        .documentPut(Catalog.key(project), PersonID(rawValue: 0), packed)
    }

    package var packed: [UInt8] {
        var packer = Packer()
        packer.add((tellsMilliseconds ? Catalog.millisecondsBit : 0) | (freezesShared ? Catalog.freezesBit : 0))
        packer.add(UInt64(entitlements.count))
        for entitlement in entitlements {
            packer.add(entitlement.id)
            packer.add(optional: entitlement.name)
        }
        packer.add(UInt64(products.count))
        for product in products {
            packer.add(product.id)
            packer.add(optional: product.storeID)
            packer.add(product.kind.rawValue)
            packer.add(UInt64(bitPattern: product.durationSeconds ?? 0))
            packer.add(UInt64(product.entitlements.count))
            for entitlement in product.entitlements { packer.add(entitlement) }
        }
        // Catalogs of earlier versions end here. The bytes of a catalog without the later parts stay as they were.
        guard !offerings.isEmpty || products.contains(where: { $0.basePlan != nil || $0.group != nil }) else {
            return packer.bytes
        }
        for product in products {
            packer.add(optional: product.basePlan)
            packer.add(optional: product.group)
        }
        packer.add(UInt64(offerings.count))
        for offering in offerings {
            packer.add(offering.id)
            packer.add(offering.isMain)
            packer.add(texts: offering.products)
        }
        return packer.bytes
    }

    package init?(packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        guard let bits = unpacker.byte(), bits < 4, let entitlementCount = unpacker.integer() else { return nil }
        tellsMilliseconds = bits & Catalog.millisecondsBit != 0
        freezesShared = bits & Catalog.freezesBit != 0
        for _ in 0..<entitlementCount {
            guard let id = unpacker.text(), let name = unpacker.optionalText() else { return nil }
            entitlements.append(Entitlement(id: id, name: name))
        }
        guard let productCount = unpacker.integer() else { return nil }
        for _ in 0..<productCount {
            guard let id = unpacker.text(), let storeID = unpacker.optionalText(),
                let kind = unpacker.byte().flatMap(Product.Kind.init), let duration = unpacker.integer(),
                let count = unpacker.integer()
            else { return nil }
            var given: [String] = []
            for _ in 0..<count {
                guard let entitlement = unpacker.text() else { return nil }
                given.append(entitlement)
            }
            let seconds = Int64(bitPattern: duration)
            products.append(
                Product(
                    id: id, storeID: storeID, kind: kind, durationSeconds: seconds == 0 ? nil : seconds,
                    entitlements: given))
        }
        if unpacker.isAtEnd { return }
        for index in products.indices {
            guard let basePlan = unpacker.optionalText(), let group = unpacker.optionalText() else { return nil }
            products[index].basePlan = basePlan
            products[index].group = group
        }
        guard let offeringCount = unpacker.integer() else { return nil }
        for _ in 0..<offeringCount {
            guard let id = unpacker.text(), let isMain = unpacker.bool(), let products = unpacker.texts() else {
                return nil
            }
            offerings.append(Offering(id: id, isMain: isMain, products: products))
        }
    }
}

extension String {
    /// Whether two texts have equal bytes. Swift's own `==` treats two spellings of a letter as equal.
    package func hasSameBytes(as other: String) -> Bool { utf8.elementsEqual(other.utf8) }

    /// Whether the bytes of the text are before the bytes of another text.
    package func precedesByBytes(_ other: String) -> Bool { utf8.lexicographicallyPrecedes(other.utf8) }
}

extension Packer {
    mutating func add(optional text: String?) {
        add(text == nil ? 0 : 1 as UInt8)
        if let text { add(text) }
    }
}

extension Unpacker {
    mutating func optionalText() -> String?? {
        switch byte() {
        case 0: .some(nil)
        case 1: text().map { .some($0) } ?? nil
        default: nil
        }
    }
}
