// swift-format-ignore-file
// The code below is the seed's, to the letter, but for the import line and what is noted here.
//
// Seed 003, "Logging in": in a function; a line after the comment tells the test.

import OnymQonversion

enum Seed003_LoggingIn {
    static func snippet(_ use: @escaping (String?) -> Void) {
Qonversion.shared().identify("your_custom_user_id")
// or the following option, if you want to get notified about the result.
Qonversion.shared().identify("your_custom_user_id") { user, error in
// use user if necessary
use(user?.qonversionId)
}
    }
}
