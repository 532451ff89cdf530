// swift-format-ignore-file
// The code below is the seed's, to the letter, but for the import line and what is noted here.
//
// Seed 004, "Login and Logout": in functions.

import Foundation
import OnymMParticle

enum Seed004_LoginAndLogout {
    static func login(_ identityRequest: MPIdentityApiRequest, _ identityCallback: @escaping (MPIdentityApiResult?, Error?) -> Void) {
MParticle.sharedInstance().identity.login(identityRequest, completion: identityCallback)
    }

    static func logout(_ identityCallback: @escaping (MPIdentityApiResult?, Error?) -> Void) {
MParticle.sharedInstance().identity.logout(completion: identityCallback)

// exluding the identity request from any IDSync API is the same as invoking the following:
MParticle.sharedInstance().identity.logout(MPIdentityApiRequest.withEmptyUser(),
                                            completion: identityCallback)
    }
}
