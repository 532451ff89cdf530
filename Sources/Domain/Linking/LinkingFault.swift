/// Why a call of the Linking dialect is refused (spec/linking.md 1.4). The names are part of the interface.
package enum LinkingFault: String, Error, CaseIterable, Equatable, Sendable {
    case notConfigured = "USERLINKING_NOT_CONFIGURED"
    case installNotFound = "INSTALL_NOT_FOUND"
    case installOfOtherApp = "INSTALL_DOES_NOT_BELONG_TO_APP"
    case installDeleted = "INSTALL_DELETED"
    case installDisabled = "INSTALL_DISABLED"
    case linkedToOtherUser = "INSTALL_LINKED_TO_OTHER_USER"
    case installDeactivated = "INSTALL_DEACTIVATED"
    case installInUse = "CANNOT_LINK_EXISTING_PERSON_TO_OTHER_PERSON"
    /// More installs of a person are active than may be; what is decided here never comes to that.
    case multipleInstallsActive = "MULTIPLE_INSTALLS_ACTIVE"
    case userNotFound = "USER_NOT_FOUND"
    /// The code is unknown, used up, too old, for another app or for another key: which, nobody is told.
    case invalidCode = "INVALID_AUTHENTICATION_CODE"
    /// The external id belongs to another user, who cannot be restored like this.
    case externalIDTaken = "EXTERNAL_ID_ALREADY_HAS_A_USER"
    case alreadyLinked = "USER_ALREADY_LINKED"
    /// Two users that cannot be made one: both have an external id, or installs.
    case bothHaveExternalIDs = "USERS_HAVE_EXTERNAL_IDS"
    case bothHaveInstalls = "USERS_HAVE_INSTALLS"
    case notLinked = "INSTALL_NOT_LINKED"
    case secretNotTaken = "APP_SECRET_NOT_ACCEPTED"
    case proofRequired = "DPOP_PROOF_REQUIRED"
    case invalidToken = "INVALID_TOKEN"
    case tokenReused = "REFRESH_TOKEN_REUSED"
    case otherUser = "INSUFFICIENT_SCOPE"
    case tooManyKeys = "TOO_MANY_KEYS"
    case tooManyApps = "TOO_MANY_APPS"
    case keyNotFound = "KEY_NOT_FOUND"
    /// The person has as many installs as a person may, or the group as many members.
    case personFull = "PERSON_FULL"
    case groupFull = "GROUP_FULL"

    /// Whether the journal keeps it: not what anybody can have refused as often as they like.
    var isJournalled: Bool {
        switch self {
        case .linkedToOtherUser, .installDeactivated, .installInUse, .multipleInstallsActive, .externalIDTaken: true
        default: false
        }
    }
}
