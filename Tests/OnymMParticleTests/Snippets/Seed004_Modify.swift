// swift-format-ignore-file
// The code below is the seed's, to the letter, but for the import line and what is noted here.
//
// Seed 004, "Modify": in functions; the page's `var` would be a warning, which is an error here, so it is `let`.

import Foundation
import OnymMParticle

enum Seed004_Modify {
    static func change(_ identityCallback: @escaping (MPIdentityApiResult?, Error?) -> Void) {
let identityRequest = MPIdentityApiRequest.withEmptyUser()
identityRequest.email = "updated-email@example.com"
MParticle.sharedInstance().identity.modify(identityRequest, completion: identityCallback)
    }

    static func remove(_ identityCallback: @escaping (MPIdentityApiResult?, Error?) -> Void) {
let identityRequest = MPIdentityApiRequest.withEmptyUser()
identityRequest.email = nil
MParticle.sharedInstance().identity.modify(identityRequest, completion: identityCallback)
    }
}
