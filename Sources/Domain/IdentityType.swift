/// The type of an identity. Each dialect has its own types (DESIGN 1).
///
/// Stores keep the raw values. So a raw value never changes, and an unused raw value is not given to another type.
package enum IdentityType: UInt8, CaseIterable, Sendable {
    // IDSync: identities of people (spec/idsync.md 2.1).
    case other = 1
    case customerID = 2
    case facebook = 3
    case twitter = 4
    case google = 5
    case microsoft = 6
    case yahoo = 7
    case email = 8
    case facebookCustomAudienceID = 9
    case other2 = 10
    case other3 = 11
    case other4 = 12
    case other5 = 13
    case other6 = 14
    case other7 = 15
    case other8 = 16
    case other9 = 17
    case other10 = 18
    case mobileNumber = 19
    case phoneNumber2 = 20
    case phoneNumber3 = 21

    // IDSync: identities of devices.
    case iosIDFA = 22
    case iosIDFV = 23
    case pushToken = 24
    case deviceApplicationStamp = 25
    case androidAAID = 26
    case androidUUID = 27
    case ampID = 28
    case rokuAID = 29
    case rokuPublisherID = 30
    case fireAID = 31
    case microsoftAID = 32
    case microsoftPublisherID = 33

    // Claim: a known user, an anonymous user, and the user of calls without a user.
    case claimUserID = 34
    case claimAnonymousID = 35
    case claimNobody = 36

    // Linking: the user id of a back end, and the id of an install.
    case linkingExternalID = 80
    case linkingInstallID = 81
    /// The id of a user at the vendor from which an import took the user. The Linking dialect answers it instead of an id of
    /// the person.
    case linkingUserID = 82

    // Imports: the name of a person in a file, with the vendor: `posthog:<uuid>`.
    case importedID = 90

    // Entitlements: the user of an install, and the id of the signed-in user. Each world has its own ids.
    case accessUserID = 60
    case accessIdentity = 61
    case sandboxUserID = 62
    case sandboxIdentity = 63

    /// The dialect whose clients use the type.
    package var dialect: Dialect {
        switch self {
        case .claimUserID, .claimAnonymousID, .claimNobody: .claim
        case .accessUserID, .accessIdentity, .sandboxUserID, .sandboxIdentity: .entitlements
        case .linkingExternalID, .linkingInstallID, .linkingUserID: .linking
        case .importedID: .native
        case .other, .customerID, .facebook, .twitter, .google, .microsoft, .yahoo, .email, .facebookCustomAudienceID,
            .other2, .other3, .other4, .other5, .other6, .other7, .other8, .other9, .other10, .mobileNumber,
            .phoneNumber2, .phoneNumber3, .iosIDFA, .iosIDFV, .pushToken, .deviceApplicationStamp, .androidAAID,
            .androidUUID, .ampID, .rokuAID, .rokuPublisherID, .fireAID, .microsoftAID, .microsoftPublisherID:
            .idsync
        }
    }

    /// Whether the dialect keeps documents beside identities of this type. An administrator cannot attach or detach such an
    /// identity.
    package var isDialectsOwn: Bool { dialect == .entitlements || dialect == .linking || dialect == .native }

    /// The types of IDSync.
    package static let idsync = allCases.filter { $0.dialect == .idsync }

    /// The type's name in every document and in every dialect.
    package var name: StaticString {
        switch self {
        case .other: "other"
        case .customerID: "customerid"
        case .facebook: "facebook"
        case .twitter: "twitter"
        case .google: "google"
        case .microsoft: "microsoft"
        case .yahoo: "yahoo"
        case .email: "email"
        case .facebookCustomAudienceID: "facebookcustomaudienceid"
        case .other2: "other2"
        case .other3: "other3"
        case .other4: "other4"
        case .other5: "other5"
        case .other6: "other6"
        case .other7: "other7"
        case .other8: "other8"
        case .other9: "other9"
        case .other10: "other10"
        case .mobileNumber: "mobile_number"
        case .phoneNumber2: "phone_number_2"
        case .phoneNumber3: "phone_number_3"
        case .iosIDFA: "ios_idfa"
        case .iosIDFV: "ios_idfv"
        case .pushToken: "push_token"
        case .deviceApplicationStamp: "device_application_stamp"
        case .androidAAID: "android_aaid"
        case .androidUUID: "android_uuid"
        case .ampID: "amp_id"
        case .rokuAID: "roku_aid"
        case .rokuPublisherID: "roku_publisher_id"
        case .fireAID: "fire_aid"
        case .microsoftAID: "microsoft_aid"
        case .microsoftPublisherID: "microsoft_publisher_id"
        case .claimUserID: "claim_user_id"
        case .claimAnonymousID: "claim_anonymous_id"
        case .claimNobody: "claim_nobody"
        case .accessUserID: "access_user_id"
        case .accessIdentity: "access_identity"
        case .sandboxUserID: "sandbox_user_id"
        case .sandboxIdentity: "sandbox_identity"
        case .linkingExternalID: "linking_external_id"
        case .linkingInstallID: "linking_install_id"
        case .linkingUserID: "linking_user_id"
        case .importedID: "imported_id"
        }
    }

    package init?(named name: String) {
        self.init(named: name.utf8.span)
    }

    /// Finds a type by the bytes of its name.
    package init?(named name: borrowing Span<UInt8>) {
        guard name.count < IdentityType.byLength.count else { return nil }
        for (candidate, type) in IdentityType.byLength[name.count] {
            var index = 0
            while index < name.count, name[index] == candidate[index] { index += 1 }
            if index == name.count {
                self = type
                return
            }
        }
        return nil
    }

    /// The types by the lengths of their names, with the names.
    private static let byLength: [[([UInt8], IdentityType)]] = {
        let named = allCases.map { (Array("\($0.name)".utf8), $0) }
        let longest = named.map(\.0.count).max() ?? 0
        return (0...longest).map { length in named.filter { $0.0.count == length } }
    }()

    /// Whether the type names a device. Several people may share a device, so a device never logs a person in.
    package var isDevice: Bool { rawValue >= IdentityType.iosIDFA.rawValue && dialect == .idsync }
}

/// A set of identity types.
package struct IdentityTypeSet: Hashable, Sendable, ExpressibleByArrayLiteral {
    private var bits: UInt128 = 0

    package init(_ types: some Sequence<IdentityType> = []) {
        for type in types { insert(type) }
    }

    package init(arrayLiteral types: IdentityType...) { self.init(types) }

    package var isEmpty: Bool { bits == 0 }

    /// The types of the set, in a fixed order.
    package var types: [IdentityType] { IdentityType.allCases.filter(contains) }

    /// Whether the set has a type.
    package func contains(_ type: IdentityType) -> Bool { bits & 1 << UInt128(type.rawValue) != 0 }

    /// Adds a type to the set.
    package mutating func insert(_ type: IdentityType) { bits |= 1 << UInt128(type.rawValue) }

    /// Removes a type from the set.
    package mutating func remove(_ type: IdentityType) { bits &= ~(1 << UInt128(type.rawValue)) }

    /// The types of both sets.
    package func union(_ other: IdentityTypeSet) -> IdentityTypeSet {
        var union = self
        union.bits |= other.bits
        return union
    }

    /// Whether the two sets have no common type.
    package func isDisjoint(with other: IdentityTypeSet) -> Bool { bits & other.bits == 0 }
}
