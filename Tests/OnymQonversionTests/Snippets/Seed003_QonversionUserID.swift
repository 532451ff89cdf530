// swift-format-ignore-file
// The code below is the seed's, to the letter, but for the import line and what is noted here.
//
// Seed 003, "1. Qonversion User ID": in a function; a line after the comment tells the test.

import OnymQonversion

enum Seed003_QonversionUserID {
    static func snippet(_ use: @escaping (String?) -> Void) {
Qonversion.shared().userInfo { user, error in
// use user?.qonversionId
use(user?.qonversionId)
}
    }
}
