import Foundation
import Onym

/// An event of a shop: products, a transaction, impressions or promotions.
public class MPCommerceEvent: MPBaseEvent {
    /// What the person did with the products.
    public var action: MPCommerceEventAction
    /// The products of the action.
    public private(set) var products: [MPProduct]?
    /// The products that the person saw, by the name of their list.
    public private(set) var impressions: [String: Set<MPProduct>]?
    /// The promotions that the person saw or chose.
    public var promotionContainer: MPPromotionContainer?
    /// The facts of a purchase or refund.
    public var transactionAttributes: MPTransactionAttributes?
    /// The step of a checkout; `NSNotFound` without a step.
    public var checkoutStep = NSNotFound
    /// Whether the event came without an act of the person.
    public var nonInteractive = false
    /// The currency of all amounts.
    public var currency: String?
    /// The options of a checkout.
    public var checkoutOptions: String?
    /// The name of the products' list.
    public var productListName: String?
    /// The source of the products' list.
    public var productListSource: String?
    /// The name of the screen.
    public var screenName: String?

    private enum Kind { case product, impression, promotion }
    private let kind: Kind

    /// Makes an event of an action with products.
    public init(action: MPCommerceEventAction, product: MPProduct?) {
        (self.action, kind) = (action, .product)
        super.init(action.eventType)
        if let product { addProduct(product) }
    }

    /// Makes an event of products that the person saw.
    public init(impressionName: String?, product: MPProduct?) {
        (action, kind) = (.viewDetail, .impression)
        super.init(.impression)
        if let impressionName, let product { addImpression(product, listName: impressionName) }
    }

    /// Makes an event of promotions.
    public init(promotionContainer: MPPromotionContainer?) {
        (action, kind) = (.viewDetail, .promotion)
        self.promotionContainer = promotionContainer
        super.init(promotionContainer?.action == .click ? .promotionClick : .promotionView)
    }

    /// Adds a product that the person saw in a list.
    public func addImpression(_ product: MPProduct, listName: String) {
        impressions = (impressions ?? [:]).merging([listName: [product]]) { $0.union($1) }
    }

    /// Adds a product of the action.
    public func addProduct(_ product: MPProduct) { products = (products ?? []) + [product] }

    /// Removes a product of the action.
    public func removeProduct(_ product: MPProduct) {
        products?.removeAll { $0 == product }
        if products?.isEmpty == true { products = nil }
    }

    override var event: Event {
        var event = Event("", type: "commerce_event", attributes: JSON.attributes(customAttributes))
        event.time = ownTimestamp
        event.details = details.merging([
            "product_action": kind == .product ? productAction : .null,
            "promotion_action": promotionContainer?.wire ?? .null, "product_impressions": productImpressions,
            "currency_code": .optional(currency), "screen_name": .optional(screenName),
            "is_non_interactive": nonInteractive ? true : .null,
        ]) { $1 }
        return event
    }

    private var productAction: JSON {
        let facts = transactionAttributes
        return .sparse([
            "action": .string(action.wireName), "transaction_id": .optional(facts?.transactionId),
            "affiliation": .optional(facts?.affiliation), "coupon_code": .optional(facts?.couponCode),
            "total_amount": number(facts?.revenue), "tax_amount": number(facts?.tax),
            "shipping_amount": number(facts?.shipping),
            "checkout_step": checkoutStep == NSNotFound ? .null : .integer(Int64(checkoutStep)),
            "checkout_options": .optional(checkoutOptions), "product_action_list": .optional(productListName),
            "product_list_source": .optional(productListSource),
            "products": products.map { .array($0.map(\.wire)) } ?? .null,
        ])
    }

    private func number(_ value: NSNumber?) -> JSON { value.map { .number($0.doubleValue) } ?? .null }

    private var productImpressions: JSON {
        guard let impressions else { return .null }
        return .array(
            impressions.sorted { $0.key < $1.key }.map { name, products in
                let inOrder = products.sorted { ($0.sku, $0.name) < ($1.sku, $1.name) }
                return ["product_impression_list": .string(name), "products": .array(inOrder.map(\.wire))]
            })
    }
}

/// The actions with products. The raw values are the vendor's.
public enum MPCommerceEventAction: UInt, CaseIterable, Sendable {
    /// The person put products into the cart.
    case addToCart = 0
    /// The person removed products from the cart.
    case removeFromCart = 1
    /// The person put products on the wish list.
    case addToWishList = 2
    /// The person removed products from the wish list.
    case removeFromWishlist = 3
    /// The person is at a step of the checkout.
    case checkout = 4
    /// The person has chosen options of the checkout.
    case checkoutOptions = 5
    /// The person has chosen a product.
    case click = 6
    /// The person looked at a product.
    case viewDetail = 7
    /// The person bought products.
    case purchase = 8
    /// The person got money back.
    case refund = 9

    /// The name on the wire.
    package var wireName: String {
        switch self {
        case .addToCart: "add_to_cart"
        case .removeFromCart: "remove_from_cart"
        case .addToWishList: "add_to_wishlist"
        case .removeFromWishlist: "remove_from_wish_list"
        case .checkout: "checkout"
        case .checkoutOptions: "checkout_option"
        case .click: "click"
        case .viewDetail: "view_detail"
        case .purchase: "purchase"
        case .refund: "refund"
        }
    }

    /// The kind of event of the action.
    var eventType: MPEventType {
        switch self {
        case .addToCart: .addToCart
        case .removeFromCart: .removeFromCart
        case .addToWishList: .addToWishlist
        case .removeFromWishlist: .removeFromWishlist
        case .checkout: .checkout
        case .checkoutOptions: .checkoutOption
        case .click: .click
        case .viewDetail: .viewDetail
        case .purchase: .purchase
        case .refund: .refund
        }
    }
}

/// The actions with promotions. The raw values are the vendor's.
public enum MPPromotionAction: UInt, CaseIterable, Sendable {
    /// The person chose a promotion.
    case click = 0
    /// The person saw a promotion.
    case view = 1

    /// The name on the wire.
    package var wireName: String {
        switch self {
        case .click: "click"
        case .view: "view"
        }
    }
}
