public import Foundation
import Onym

/// A product that a shop sells.
public final class MPProduct: Hashable, Sendable {
    /// The product's name.
    public let name: String
    /// The shop's id of the product.
    public let sku: String
    /// The number of items.
    public let quantity: NSNumber
    /// The price of one item.
    public let price: NSNumber?

    /// Makes a product.
    public init(name: String, sku: String, quantity: NSNumber, price: NSNumber?) {
        (self.name, self.sku, self.quantity, self.price) = (name, sku, quantity, price)
    }

    init?(_ json: JSON) {
        guard let name = json["name"]?.text, let sku = json["sku"]?.text else { return nil }
        (self.name, self.sku) = (name, sku)
        quantity = NSNumber(value: json["quantity"]?.integer ?? 1)
        if case .number(let value)? = json["price"] { price = NSNumber(value: value) } else { price = nil }
    }

    var json: JSON {
        .sparse([
            "name": .string(name), "sku": .string(sku), "quantity": .integer(quantity.int64Value),
            "price": price.map { .number($0.doubleValue) } ?? .null,
        ])
    }

    /// Whether both products are equal.
    public static func == (first: MPProduct, second: MPProduct) -> Bool { first.json == second.json }
    /// Hashes the product.
    public func hash(into hasher: inout Hasher) { hasher.combine(json) }
}

/// A user's shopping cart. The SDK keeps the cart on this device alone.
public final class MPCart: Sendable {
    private static let note = "cart"
    private let onym: Onym
    private let user: User

    init(_ user: User, _ onym: Onym) { (self.user, self.onym) = (user, onym) }

    /// The products in the cart.
    public var products: [MPProduct] {
        (onym.users.user(user.id)?.notes[MPCart.note]?.elements ?? []).compactMap(MPProduct.init)
    }

    private func keep(_ products: [MPProduct]) {
        onym.users.setNote(MPCart.note, products.isEmpty ? .null : .array(products.map(\.json)), of: user)
    }

    /// Adds products to the cart.
    public func addAllProducts(_ products: [MPProduct], shouldLogEvents: Bool) {
        keep(self.products + products)
        if shouldLogEvents { log("add_to_cart", products) }
    }

    /// Adds a product to the cart, and logs an event.
    public func addProduct(_ product: MPProduct) { addAllProducts([product], shouldLogEvents: true) }

    /// Removes a product from the cart, and logs an event.
    public func removeProduct(_ product: MPProduct) {
        keep(products.filter { $0 != product })
        log("remove_from_cart", [product])
    }

    /// Removes all products.
    public func clear() { keep([]) }

    private func log(_ action: String, _ products: [MPProduct]) {
        onym.log(Event(action, type: "commerce_event", attributes: ["products": .array(products.map(\.json))]))
    }
}

extension MParticleUser {
    /// The user's shopping cart.
    public var cart: MPCart { MPCart(stored, owner) }
}
