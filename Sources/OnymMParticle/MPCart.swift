import Foundation
import Onym

/// A user's shopping cart. The SDK keeps the cart on this device alone.
@available(*, deprecated, message: "Log an MPCommerceEvent with the products instead.")
public final class MPCart: Sendable {
    private static let note = "cart"
    private let onym: OnymClient
    private let user: User

    init(_ user: User, _ onym: OnymClient) { (self.user, self.onym) = (user, onym) }

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
        if shouldLogEvents { log(.addToCart, products) }
    }

    /// Adds a product to the cart, and logs an event.
    public func addProduct(_ product: MPProduct) { addAllProducts([product], shouldLogEvents: true) }

    /// Removes a product from the cart, and logs an event.
    public func removeProduct(_ product: MPProduct) {
        keep(products.filter { $0 != product })
        log(.removeFromCart, [product])
    }

    /// Removes all products.
    public func clear() { keep([]) }

    private func log(_ action: MPCommerceEventAction, _ products: [MPProduct]) {
        let event = MPCommerceEvent(action: action, product: nil)
        for product in products { event.addProduct(product) }
        onym.log(event.event)
    }
}

extension MParticleUser {
    /// The user's shopping cart.
    @available(*, deprecated, message: "Log an MPCommerceEvent with the products instead.")
    public var cart: MPCart { MPCart(stored, owner) }
}
