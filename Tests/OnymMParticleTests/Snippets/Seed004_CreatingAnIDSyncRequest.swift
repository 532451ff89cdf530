// swift-format-ignore-file
// The code below is the seed's, to the letter, but for the import line and what is noted here.
//
// Seed 004, "Creating an IDSync Request": in a function, so that it can be called.

import Foundation
import OnymMParticle

enum Seed004_CreatingAnIDSyncRequest {
    static func snippet() -> MPIdentityApiRequest {
let identityRequest = MPIdentityApiRequest.withEmptyUser()
//the MPIdentityApiRequest provides convenience methods for common identity types
identityRequest.email = "foo@example.com"
identityRequest.customerId = "123456"
//alternatively, you can use the setIdentity method and supply the MPIdentity type
identityRequest.setIdentity("bar-id", identityType: MPIdentity.other)
identityRequest.setIdentity(ASIdentifierManager.shared().advertisingIdentifier.uuidString, identityType: MPIdentity.iosAdvertiserId)
        return identityRequest
    }
}
