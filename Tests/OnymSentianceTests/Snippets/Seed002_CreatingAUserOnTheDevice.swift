// swift-format-ignore-file
// The code below is the seed's, to the letter, but for the import line and what is noted here.
//
// Seed 002, "Creating a User On the Device": in a function, whose name tells the test what came of it. The page cuts off the
// `return` and the braces at the end, which are restored.

import OnymSentiance

enum Seed002_CreatingAUserOnTheDevice {
    static func snippet(_ use: @escaping (SENTUserCreationResult?, SENTUserCreationFailureReason?) -> Void) {
let options = SENTUserCreationOptions(authenticationCode: "authCode you received")

Sentiance.shared.createUser(options: options) { result, error in
    guard let result = result else {
    print ("Error: \(error!.failureReason)")
        use(nil, error!.failureReason)
        return
    }
    // Use result
    use(result, nil)
}
    }
}
