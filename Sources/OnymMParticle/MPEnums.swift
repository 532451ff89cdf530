/// The kinds of names that users and devices have. The raw values are the vendor's (spec/idsync.md 2.1).
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
    /// A type that is none any more; it is never sent.
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

/// Why an identity call failed. The raw values are the vendor's (spec/idsync.md 4.3); any other status of HTTP stands for
/// itself in an error's `code`.
public enum MPIdentityErrorResponseCode: UInt, Sendable {
    /// Something else.
    case unknown = 0
    /// Another call is under way. Never with the default policy, which has calls wait their turn.
    case requestInProgress = 1
    /// No answer came in time.
    case clientSideTimeout = 2
    /// There is no network.
    case clientNoConnection = 3
    /// The server's certificate is not trusted.
    case sslError = 4
    /// The person has opted out.
    case optOut = 5
    /// The key or the signature is wrong.
    case unauthorized = 401
    /// Too many calls: come again later.
    case retry = 429
    /// A fault of the server.
    case internalServerError = 500
    /// A fault of a server in between.
    case badGateway = 502
    /// A server in between got no answer in time.
    case timeout = 504
}

/// The kinds of events.
public enum MPEventType: UInt, Sendable {
    /// Moving through the app.
    case navigation = 1
    /// Where the user is.
    case location = 2
    /// Looking for something.
    case search = 3
    /// Buying.
    case transaction = 4
    /// Content.
    case userContent = 5
    /// Preferences.
    case userPreference = 6
    /// Friends.
    case social = 7
    /// Anything else.
    case other = 8
    /// Media.
    case media = 9

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
        }
    }
}

/// The world that an app is built for.
public enum MPEnvironment: UInt, Sendable {
    /// As the build says.
    case autoDetect = 0
    /// That of developers.
    case development = 1
    /// That of customers.
    case production = 2
}
