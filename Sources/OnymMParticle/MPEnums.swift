/// The types of users' and devices' identities. The raw values are the vendor's (spec/idsync.md 2.1).
public enum MPIdentity: UInt, CaseIterable, Sendable {
    /// Any other name.
    case other = 0
    /// The app's own id of a customer.
    case customerId = 1
    /// A Facebook id.
    case facebook = 2
    /// A Twitter id.
    case twitter = 3
    /// A Google id.
    case google = 4
    /// A Microsoft id.
    case microsoft = 5
    /// A Yahoo id.
    case yahoo = 6
    /// An e-mail address.
    case email = 7
    /// An obsolete type that is never sent.
    case alias = 8
    /// A Facebook App User ID.
    case facebookCustomAudienceId = 9
    /// Any other name.
    case other2 = 10
    /// Any other name.
    case other3 = 11
    /// Any other name.
    case other4 = 12
    /// Any other name.
    case other5 = 13
    /// Any other name.
    case other6 = 14
    /// Any other name.
    case other7 = 15
    /// Any other name.
    case other8 = 16
    /// Any other name.
    case other9 = 17
    /// Any other name.
    case other10 = 18
    /// The user's mobile number.
    case mobileNumber = 19
    /// Any other phone number.
    case phoneNumber2 = 20
    /// Any other phone number.
    case phoneNumber3 = 21
    /// The device's advertising id.
    case iosAdvertiserId = 22
    /// The device's id for the vendor.
    case iosVendorId = 23
    /// The token for push notifications.
    case pushToken = 24
    /// The SDK's id of the installation.
    case deviceApplicationStamp = 25
}

extension MPIdentity {
    /// The name on the wire.
    package var wireName: String { MPIdentity.wireNames[Int(rawValue)] }

    private static let wireNames = [
        "other", "customerid", "facebook", "twitter", "google", "microsoft", "yahoo", "email", "alias",
        "facebookcustomaudienceid", "other2", "other3", "other4", "other5", "other6", "other7", "other8", "other9",
        "other10", "mobile_number", "phone_number_2", "phone_number_3", "ios_idfa", "ios_idfv", "push_token",
        "device_application_stamp",
    ]

    init?(wireName: String) {
        guard let place = MPIdentity.wireNames.firstIndex(of: wireName) else { return nil }
        self.init(rawValue: UInt(place))
    }
}

/// The reason why an identity call failed. The raw values are the vendor's (spec/idsync.md 4.3). For any other HTTP status,
/// an error's `code` is the status itself.
public enum MPIdentityErrorResponseCode: UInt, CaseIterable, Sendable {
    /// Another reason.
    case unknown = 0
    /// Another call runs. It never occurs with the default policy, under which calls wait for each other.
    case requestInProgress = 1
    /// No answer came in time.
    case clientSideTimeout = 2
    /// The device has no network.
    case clientNoConnection = 3
    /// The server's certificate is not trusted.
    case sslError = 4
    /// The person has opted out.
    case optOut = 5
    /// The key or the signature is wrong.
    case unauthorized = 401
    /// The key or identity has made too many calls: the app should try again later.
    case retry = 429
    /// The server failed.
    case internalServerError = 500
    /// A proxy before the server failed.
    case badGateway = 502
    /// A proxy before the server got no answer in time.
    case timeout = 504
}

/// The kinds of events.
public enum MPEventType: UInt, CaseIterable, Sendable {
    /// Navigation through the app.
    case navigation = 1
    /// The user's location.
    case location = 2
    /// A search.
    case search = 3
    /// A purchase.
    case transaction = 4
    /// Content of the user.
    case userContent = 5
    /// A preference of the user.
    case userPreference = 6
    /// A social action.
    case social = 7
    /// Any other event.
    case other = 8
    /// Media.
    case media = 9
    /// Products were put into the cart.
    case addToCart = 10
    /// Products were removed from the cart.
    case removeFromCart = 11
    /// A step of the checkout.
    case checkout = 12
    /// Options of the checkout.
    case checkoutOption = 13
    /// A product was chosen.
    case click = 14
    /// A product was looked at.
    case viewDetail = 15
    /// Products were bought.
    case purchase = 16
    /// Money was given back.
    case refund = 17
    /// A promotion was seen.
    case promotionView = 18
    /// A promotion was chosen.
    case promotionClick = 19
    /// Products were put on the wish list.
    case addToWishlist = 20
    /// Products were removed from the wish list.
    case removeFromWishlist = 21
    /// Products were seen.
    case impression = 22

    /// The name on the wire.
    package var wireName: String {
        switch self {
        case .navigation: "navigation"
        case .location: "location"
        case .search: "search"
        case .transaction: "transaction"
        case .userContent: "user_content"
        case .userPreference: "user_preference"
        case .social: "social"
        case .other: "other"
        case .media: "media"
        case .addToCart: "add_to_cart"
        case .removeFromCart: "remove_from_cart"
        case .checkout: "checkout"
        case .checkoutOption: "checkout_option"
        case .click: "click"
        case .viewDetail: "view_detail"
        case .purchase: "purchase"
        case .refund: "refund"
        case .promotionView: "promotion_view"
        case .promotionClick: "promotion_click"
        case .addToWishlist: "add_to_wishlist"
        case .removeFromWishlist: "remove_from_wish_list"
        case .impression: "impression"
        }
    }
}

/// The environment of an app's build.
public enum MPEnvironment: UInt, CaseIterable, Sendable {
    /// The environment that the build's configuration shows.
    case autoDetect = 0
    /// The environment of developers.
    case development = 1
    /// The environment of customers.
    case production = 2
}

/// The levels of the log. The raw values are the vendor's.
public enum MPILogLevel: UInt, CaseIterable, Sendable {
    /// No lines.
    case none = 0
    /// Errors.
    case error = 1
    /// Errors and warnings.
    case warning = 2
    /// Lines for developers.
    case debug = 3
    /// All lines.
    case verbose = 4
}

/// The person's answer to the system's question about tracking. The raw values are the vendor's.
public enum MPATTAuthorizationStatus: Int, CaseIterable, Sendable {
    /// The app has not asked the person yet.
    case notDetermined = 0
    /// The system forbids the question.
    case restricted = 1
    /// The person has refused.
    case denied = 2
    /// The person has allowed tracking.
    case authorized = 3
}
