/// Refusals of calls of the Linking dialect (spec/linking.md 1.4). The codes are part of the interface.
extension Refusal {
    package static let notConfigured = Refusal(
        .forbidden, "USERLINKING_NOT_CONFIGURED",
        "User linking is not configured for this application.")
    package static let installNotFound = Refusal(
        .notFound, "INSTALL_NOT_FOUND",
        "Install was not found by the install ID provided.")
    package static let installOfOtherApp = Refusal(
        .forbidden, "INSTALL_DOES_NOT_BELONG_TO_APP",
        "Install does not belong to this application.")
    package static let installDeleted = Refusal(.forbidden, "INSTALL_DELETED", "Install is deleted.")
    package static let installDisabled = Refusal(.forbidden, "INSTALL_DISABLED", "Install is disabled.")
    package static let linkedToOtherUser = Refusal(
        .forbidden, "INSTALL_LINKED_TO_OTHER_USER",
        "Install linked to another user.", isJournalled: true)
    package static let installDeactivated = Refusal(
        .forbidden, "INSTALL_DEACTIVATED",
        "Install is deactivated: another install of its user is active.", isJournalled: true)
    package static let installInUse = Refusal(
        .forbidden, "CANNOT_LINK_EXISTING_PERSON_TO_OTHER_PERSON",
        "This install is already in use, linking to another install is not possible.", isJournalled: true)
    /// More installs are active than the limit allows. A guard in ``InstallChanges`` throws this refusal, and no known
    /// decision reaches the guard.
    package static let multipleInstallsActive = Refusal(
        .conflict, "MULTIPLE_INSTALLS_ACTIVE",
        "More than one install of this user is active.", isJournalled: true)
    package static let userNotFound = Refusal(
        .notFound, "USER_NOT_FOUND",
        "User was not found by the user ID provided.")
    /// The code is unknown, redeemed or expired, or belongs to another app or key. The caller does not learn the reason.
    package static let invalidCode = Refusal(
        .invalid, "INVALID_AUTHENTICATION_CODE",
        "The authentication code is not valid: ask your back end for a new one.")
    package static let externalIDTaken = Refusal(
        .conflict, "EXTERNAL_ID_ALREADY_HAS_A_USER",
        "This external ID has a user already: reset, then create the user with a code to restore it.",
        isJournalled: true)
    package static let alreadyLinked = Refusal(
        .conflict, "USER_ALREADY_LINKED",
        "The user of this install is linked already.")
    package static let bothHaveExternalIDs = Refusal(
        .conflict, "USERS_HAVE_EXTERNAL_IDS",
        "Both users have an external ID, and a user can have only one: delete one user first.")
    package static let bothHaveInstalls = Refusal(
        .conflict, "USERS_HAVE_INSTALLS",
        "Both users have installs that are active or wait: reset the installs of one user first.")
    package static let notLinked = Refusal(.notFound, "INSTALL_NOT_LINKED", "The install is not linked yet.")
    package static let secretNotTaken = Refusal(
        .forbidden, "APP_SECRET_NOT_ACCEPTED",
        "This application makes installs by authentication code only.")
    package static let proofRequired = Refusal(
        .unauthorized, "DPOP_PROOF_REQUIRED",
        "This call needs a DPoP proof by the install's own key (RFC 9449).")
    package static let invalidToken = Refusal(
        .unauthorized, "INVALID_TOKEN",
        "The token is invalid, or no longer valid.")
    package static let tokenReused = Refusal(
        .unauthorized, "REFRESH_TOKEN_REUSED",
        "This refresh token was used up long ago, so all tokens of the install were revoked.")
    package static let otherUser = Refusal(
        .forbidden, "INSUFFICIENT_SCOPE",
        "An install's token may delete its own user only.")
    package static let tooManyKeys = Refusal(
        .conflict, "TOO_MANY_KEYS",
        "The app has \(MakeLinkingKey.activeAtMost) valid keys; revoke a key first.")
    package static let tooManyApps = Refusal(
        .conflict, "TOO_MANY_APPS",
        "The project has \(MakeLinkingApp.appsAtMost) Linking apps, and cannot have more.")
    package static let keyNotFound = Refusal(.notFound, "KEY_NOT_FOUND", "There is no such key.")

    /// The person has the limit of installs.
    package static let installsFull = full(
        .person, "PERSON_FULL", "The user has as many installs as a user may have: raise person_limits, or detach some."
    )
    package static let linkedGroupFull = full(
        .group, "GROUP_FULL", "The user is one with as many people as may be: raise group_limits, or undo some merges.")

    private static func full(_ full: Full, _ code: String, _ message: String) -> Refusal {
        var refusal = Refusal(.conflict, code, message)
        refusal.full = full
        return refusal
    }
}
