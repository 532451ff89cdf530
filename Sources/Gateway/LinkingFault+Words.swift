package import Domain
package import HTTPMessage

extension LinkingFault {
    package var status: Status {
        switch self {
        case .notConfigured, .installOfOtherApp, .installDeleted, .installDisabled, .linkedToOtherUser,
            .installDeactivated, .installInUse, .secretNotTaken, .otherUser:
            .forbidden
        case .installNotFound, .userNotFound, .notLinked, .keyNotFound: .notFound
        case .bothHaveExternalIDs, .bothHaveInstalls, .personFull, .groupFull: .conflict
        case .multipleInstallsActive, .externalIDTaken, .alreadyLinked, .tooManyKeys, .tooManyApps: .conflict
        case .invalidCode: .badRequest
        case .proofRequired, .invalidToken, .tokenReused: .unauthorized
        }
    }

    /// One sentence for a person. Where the vendor has words of its own, these are they.
    package var message: String {
        switch self {
        case .notConfigured: "User linking is not configured for this application."
        case .installNotFound: "Install was not found by the install ID provided."
        case .installOfOtherApp: "Install does not belong to this application."
        case .installDeleted: "Install is deleted."
        case .installDisabled: "Install is disabled."
        case .linkedToOtherUser: "Install linked to another user."
        case .installDeactivated: "Install is deactivated: another install of its user is active."
        case .installInUse: "This install is already in use, linking to another install is not possible."
        case .multipleInstallsActive: "More than one install of this user is active."
        case .userNotFound: "User was not found by the user ID provided."
        case .invalidCode: "The authentication code is not valid: ask your back end for a new one."
        case .externalIDTaken:
            "This external ID has a user already: reset, then create the user with a code to restore it."
        case .alreadyLinked: "The user of this install is linked already."
        case .bothHaveExternalIDs: "Both users have an external ID, and one user has one: delete one of them first."
        case .bothHaveInstalls: "Both users have installs that are active or wait: reset those of one of them first."
        case .notLinked: "The install is not linked yet."
        case .secretNotTaken: "This application makes installs by authentication code only."
        case .proofRequired: "This call needs a DPoP proof by the install's own key (RFC 9449)."
        case .invalidToken: "The token is not valid, or not any more."
        case .tokenReused: "This refresh token was used up long ago, so all tokens of the install were revoked."
        case .tooManyKeys:
            "The app has \(MakeLinkingKey.activeAtMost) keys that may be used; revoke one first."
        case .tooManyApps: "The project has \(MakeLinkingApp.appsAtMost) apps that link, and can have no more."
        case .keyNotFound: "There is no such key."
        case .personFull: "The user has as many installs as a user may have: raise person_limits, or detach some."
        case .groupFull: "The user is one with as many people as may be: raise group_limits, or undo some merges."
        case .otherUser: "An install's token may delete its own user only."
        }
    }
}
