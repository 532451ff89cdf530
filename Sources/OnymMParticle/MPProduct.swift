public import Foundation
import Onym

/// A product that a shop sells.
public class MPProduct: Hashable {
    /// The product's name.
    public var name: String
    /// The shop's id of the product.
    public var sku: String
    /// The number of items.
    public var quantity: NSNumber
    /// The price of one item.
    public var price: NSNumber?
    /// The product's brand.
    public var brand: String?
    /// The product's category.
    public var category: String?
    /// The code of the coupon for the product.
    public var couponCode: String?
    /// The product's variant.
    public var variant: String?
    /// The product's place in a list.
    public var position: UInt = 0
    private var attributes: [String: Any] = [:]

    /// Makes a product.
    public init(name: String, sku: String, quantity: NSNumber, price: NSNumber?) {
        (self.name, self.sku, self.quantity, self.price) = (name, sku, quantity, price)
    }

    /// A further value of the product; nil removes it.
    public subscript(key: String) -> Any? {
        get { attributes[key] }
        set { attributes[key] = newValue }
    }

    /// Reads a product in the form of a cart.
    init?(_ json: JSON) {
        guard let name = json["name"]?.text, let sku = json["sku"]?.text else { return nil }
        (self.name, self.sku) = (name, sku)
        quantity = NSNumber(value: json["quantity"]?.integer ?? 1)
        if case .number(let value)? = json["price"] { price = NSNumber(value: value) }
        (brand, category) = (json["brand"]?.text, json["category"]?.text)
        (couponCode, variant) = (json["coupon_code"]?.text, json["variant"]?.text)
        position = UInt(clamping: json["position"]?.integer ?? 0)
        attributes = (json["custom_attributes"]?.members ?? [:]).mapValues(\.plain)
    }

    /// The product in the form of a cart.
    var json: JSON {
        .sparse(common.merging(["sku": .string(sku)]) { $1 })
    }

    /// The product in the form of the wire.
    var wire: JSON {
        let total = price.map { $0.doubleValue * quantity.doubleValue }
        return .sparse(
            common.merging(["id": .string(sku), "total_product_amount": total.map { .number($0) } ?? .null]) { $1 })
    }

    private var common: [String: JSON] {
        [
            "name": .string(name), "quantity": JSON(plain: quantity),
            "price": price.map { .number($0.doubleValue) } ?? .null, "brand": .optional(brand),
            "category": .optional(category), "variant": .optional(variant), "coupon_code": .optional(couponCode),
            "position": position == 0 ? .null : .integer(Int64(clamping: position)),
            "custom_attributes": attributes.isEmpty ? .null : .object(JSON.attributes(attributes)),
        ]
    }

    /// Whether both products are equal.
    public static func == (first: MPProduct, second: MPProduct) -> Bool { first.json == second.json }
    /// Hashes the product.
    public func hash(into hasher: inout Hasher) { hasher.combine(json) }
}

/// The facts of a purchase or a refund.
public class MPTransactionAttributes {
    /// The shop of the transaction.
    public var affiliation: String?
    /// The code of the transaction's coupon.
    public var couponCode: String?
    /// The transaction's id.
    public var transactionId: String?
    /// The cost of shipping.
    public var shipping: NSNumber?
    /// The tax.
    public var tax: NSNumber?
    /// The total amount.
    public var revenue: NSNumber?

    /// Makes attributes.
    public init() {}
}

/// An advertisement inside the app.
public class MPPromotion {
    /// The name of the advertisement's form.
    public var creative: String?
    /// The advertisement's name.
    public var name: String?
    /// The advertisement's place.
    public var position: String?
    /// The advertisement's id.
    public var promotionId: String?

    /// Makes a promotion.
    public init() {}

    var wire: JSON {
        .sparse([
            "id": .optional(promotionId), "name": .optional(name), "creative": .optional(creative),
            "position": .optional(position),
        ])
    }
}

/// Promotions that a person saw or chose.
public class MPPromotionContainer {
    /// The person's action.
    public var action: MPPromotionAction
    /// The promotions.
    public private(set) var promotions: [MPPromotion]?

    /// Makes a container.
    public init(action: MPPromotionAction, promotion: MPPromotion?) {
        self.action = action
        promotions = promotion.map { [$0] }
    }

    /// Adds a promotion.
    public func addPromotion(_ promotion: MPPromotion) { promotions = (promotions ?? []) + [promotion] }

    var wire: JSON {
        ["action": .string(action.wireName), "promotions": .array((promotions ?? []).map(\.wire))]
    }
}
