package import Domain
package import HTTPMessage

extension AccessRefusal {
    package var status: Status {
        switch self {
        case .userExists, .identityRepeated, .userHasIdentity, .identityTaken, .badReceipt, .tooManyPurchases,
            .tooManyGrants:
            .unprocessableContent
        case .noSuchUser, .noSuchTransfer, .noSuchProduct, .noSuchDefinition: .notFound
        case .identityOfNobody, .noSuchEntitlement, .grantInThePast, .malformedPrice, .unknownCurrency,
            .malformedStoreData, .sessionMismatch, .undefinedEntitlement, .tooManyDefinitions:
            .badRequest
        case .storeUnavailable: .serviceUnavailable
        case .strategyNotAllowed: .forbidden
        case .transferOutdated, .entitlementInUse, .storeIDTaken: .conflict
        }
    }

    /// One sentence for a person; where clients compare it, to the letter (spec/entitlements.md 1).
    package var message: String {
        switch self {
        case .userExists: "User with given uid already exists"
        case .noSuchUser: "User not found"
        case .identityOfNobody: "user not found"
        case .identityRepeated: "user already has identity"
        case .userHasIdentity: "user already converted"
        case .identityTaken: "identity already exists: it's linked to another user"
        case .noSuchEntitlement: "Invalid entitlement uid, no such entitlement found"
        case .grantInThePast:
            "Invalid expires at value has been provided, should be in unix timestamp format in seconds in future"
        case .malformedPrice: "failed to parse price"
        case .unknownCurrency: "failed to recognize currency"
        case .malformedStoreData:
            "exactly one of stripe_store_data, app_store_data, play_store_data and paddle_store_data must be there, with what the store knows the purchase by"
        case .badReceipt: "Couldn't validate purchase with store request, potential fraud"
        case .storeUnavailable: "The store cannot be asked at the moment; try again later"
        case .sessionMismatch:
            "Onym-Device-User must be a user that exists, and Onym-Identity, if it is not empty, an identity of the user in the path; without it that is the device's user"
        case .tooManyPurchases:
            "A user can have at most \(AccessUser.purchasesPerUser) purchases, of at most \(AccessUser.accountsPerUser) store accounts, and a purchase at most \(Purchase.ownersAtMost) owners"
        case .tooManyGrants: "A user can be granted no more entitlements"
        case .noSuchTransfer: "There is no transfer with this id, or it was undone."
        case .transferOutdated:
            "What this transfer moved has moved again since, which has to be undone first, or whom it was taken from was erased."
        case .noSuchProduct: "There is no product with this id."
        case .undefinedEntitlement(let id): "entitlements has \"\(id)\", which is not defined; define it first."
        case .noSuchDefinition: "There is no entitlement with this id."
        case .storeIDTaken: "Another product has this store_id; change that one first."
        case .entitlementInUse: "Products give this entitlement; change or remove them first."
        case .strategyNotAllowed:
            "strategy: a project key may name only a strategy that gives away no more than the project's; leave it out, or call with a secret key"
        case .tooManyDefinitions: "There is no room for more definitions."
        }
    }
}
