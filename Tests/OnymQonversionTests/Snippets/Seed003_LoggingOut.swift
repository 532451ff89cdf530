// swift-format-ignore-file
// The code below is the seed's, to the letter, but for the import line and what is noted here.
//
// Seed 003, "Logging out": in a function.

import OnymQonversion

enum Seed003_LoggingOut {
    static func snippet() {
Qonversion.shared().logout()
    }
}
