/// Refusals of calls about access.
extension Refusal {
    package static let userExists = Refusal(.unprocessable, "already_exists", "A user with this id exists.")
    package static let noSuchUser = Refusal(.notFound, "not_found", "There is no user with this id.")
    package static let identityOfNobody = Refusal(
        .invalid, "not_found",
        "The user of the link does not exist.")
    package static let identityRepeated = Refusal(
        .unprocessable, "already_exists",
        "The user has this identity already.")
    package static let userHasIdentity = Refusal(
        .unprocessable, "already_exists",
        "The user has another identity, which never changes.")
    package static let identityTaken = Refusal(.unprocessable, "already_exists", "The identity is another user's.")
    package static let noSuchEntitlement = Refusal(.invalid, "not_found", "There is no entitlement with this id.")
    package static let grantInThePast = Refusal(
        .invalid, "validation_error",
        "The grant would end in the past.")
    package static let malformedPrice = Refusal(.invalid, "validation_error", "The price is not a price.")
    package static let unknownCurrency = Refusal(
        .invalid, "validation_error",
        "The currency is not a code of three letters.")
    package static let malformedStoreData = Refusal(
        .invalid, "validation_error",
        "exactly one of stripe_store_data, app_store_data, play_store_data and paddle_store_data is required, "
            + "with the data by which the store finds the purchase"
    )
    package static let sessionMismatch = Refusal(
        .invalid, "validation_error",
        "Onym-Device-User must be an existing user. Onym-Identity must be an identity of the user in the path, or empty; "
            + "if it is empty, the user in the path must be the device's user"
    )
    package static let tooManyPurchases = Refusal(
        .unprocessable, "too_many",
        "A user can have at most \(AccessUser.purchasesPerUser) purchases, of at most "
            + "\(AccessUser.accountsPerUser) store accounts, and a purchase at most \(Purchase.ownersAtMost) owners"
    )
    package static let tooManyGrants = Refusal(
        .unprocessable, "too_many",
        "The user has as many grants as a user may have.")
    package static let noSuchTransfer = Refusal(
        .notFound, "not_found",
        "There is no transfer with this id, or it was undone.")
    package static let noSuchPurchase = Refusal(
        .notFound, "not_found",
        "There is no purchase with this id. An id begins with appstore:, playstore: or stripe:, as in playstore:TOKEN.")
    package static let transferOutdated = Refusal(
        .conflict, "conflict",
        "A purchase of this transfer has moved again, or a former owner was erased. Undo the later transfer first."
    )
    package static let noSuchProduct = Refusal(.notFound, "not_found", "There is no product with this id.")
    package static let noSuchDefinition = Refusal(.notFound, "not_found", "There is no entitlement with this id.")
    package static let storeIDTaken = Refusal(
        .conflict, "conflict",
        "Another product has this store_id; change that product first.")
    package static let entitlementInUse = Refusal(
        .conflict, "conflict",
        "Products give this entitlement; change or remove them first.")
    package static let noSuchOffering = Refusal(.notFound, "not_found", "There is no offering with this id.")
    package static let productOffered = Refusal(
        .conflict, "conflict",
        "Offerings have this product; change or remove them first.")
    /// A call with a client's key named a restore strategy that gives more access than the project's strategy.
    package static let strategyNotAllowed = Refusal(
        .forbidden, "strategy_not_allowed",
        "strategy: a project key may name only a strategy that gives away no more than the project's strategy; "
            + "omit strategy, or use a secret key"
    )
    package static let catalogFull = Refusal(
        .invalid, "too_many", "The catalog has as many definitions as it may have.")

    /// A product names an entitlement that is not defined.
    package static func undefinedEntitlement(_ id: String) -> Refusal {
        Refusal(
            .invalid, "validation_error", "entitlements has \"\(id)\", which is not defined; define it first.")
    }

    /// An offering names a product that is not defined.
    package static func undefinedProduct(_ id: String) -> Refusal {
        Refusal(.invalid, "validation_error", "products has \"\(id)\", which is not defined; define it first.")
    }

    /// The store does not confirm a purchase.
    package static func badReceipt(_ fault: ReceiptFault, by person: PersonID? = nil) -> Refusal {
        Refusal(
            .unprocessable, "receipt_\(fault.name)", "The store does not confirm this purchase.", isJournalled: true
        ).about(person)
    }

    /// Whether the store does not confirm a purchase.
    package var isBadReceipt: Bool { code.hasPrefix("receipt_") }
}
