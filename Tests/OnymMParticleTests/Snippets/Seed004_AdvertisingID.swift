// swift-format-ignore-file
// The code below is the seed's, to the letter, but for the import line and what is noted here.
//
// Seed 004, "Advertising ID (IDFA)": in a function.

import Foundation
import OnymMParticle

enum Seed004_AdvertisingID {
    static func snippet(_ identityCallback: @escaping (MPIdentityApiResult?, Error?) -> Void) {
let identityRequest = MPIdentityApiRequest.withEmptyUser()
identityRequest.setIdentity(ASIdentifierManager.shared().advertisingIdentifier.uuidString, identityType: MPIdentity.iosAdvertiserId)
MParticle.sharedInstance().identity.modify(identityRequest, completion: identityCallback)
    }
}
