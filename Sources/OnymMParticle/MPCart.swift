public import Foundation
import Onym

/// Something that is sold.
public final class MPProduct: Hashable, Sendable {
    /// What it is called.
    public let name: String
    /// What the shop knows it by.
    public let sku: String
    /// How many.
    public let quantity: NSNumber
    /// What one costs.
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

    /// Whether both are the same.
    public static func == (first: MPProduct, second: MPProduct) -> Bool { first.json == second.json }
    /// Hashes what it is.
    public func hash(into hasher: inout Hasher) { hasher.combine(json) }
}

/// What a user wants to buy. It is kept on this device alone.
public final class MPCart: Sendable {
    private static let note = "cart"
    private let onym: Onym
    private let user: User

    init(_ user: User, _ onym: Onym) { (self.user, self.onym) = (user, onym) }

    /// What is in it.
    public var products: [MPProduct] {
        (onym.users.user(user.id)?.notes[MPCart.note]?.elements ?? []).compactMap(MPProduct.init)
    }

    private func keep(_ products: [MPProduct]) {
        onym.users.setNote(MPCart.note, products.isEmpty ? .null : .array(products.map(\.json)), of: user)
    }

    /// Puts products in.
    public func addAllProducts(_ products: [MPProduct], shouldLogEvents: Bool) {
        keep(self.products + products)
        if shouldLogEvents { log("add_to_cart", products) }
    }

    /// Puts a product in, and logs it.
    public func addProduct(_ product: MPProduct) { addAllProducts([product], shouldLogEvents: true) }

    /// Takes a product out, and logs it.
    public func removeProduct(_ product: MPProduct) {
        keep(products.filter { $0 != product })
        log("remove_from_cart", [product])
    }

    /// Takes everything out.
    public func clear() { keep([]) }

    private func log(_ action: String, _ products: [MPProduct]) {
        onym.log(Event(action, type: "commerce_event", attributes: ["products": .array(products.map(\.json))]))
    }
}

extension MParticleUser {
    /// What the user wants to buy.
    public var cart: MPCart { MPCart(stored, owner) }
}
