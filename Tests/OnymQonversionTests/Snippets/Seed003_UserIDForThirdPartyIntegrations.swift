// swift-format-ignore-file
// The code below is the seed's, to the letter, but for the import line and what is noted here.
//
// Seed 003, "2. User ID for third-party Integrations": in a function.

import OnymQonversion

enum Seed003_UserIDForThirdPartyIntegrations {
    static func snippet() {
Qonversion.shared().setUserProperty(.userID, value: "yourSideUserId")
    }
}
