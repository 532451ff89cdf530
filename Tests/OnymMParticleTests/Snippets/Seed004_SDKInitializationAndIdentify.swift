// swift-format-ignore-file
// The code below is the seed's, to the letter, but for the import line and what is noted here.
//
// Seed 004, "SDK Initialization and Identify": in a class; the page leaves the `return` out, and tests need to say where the server is.

import Foundation
import OnymMParticle

final class Seed004_SDKInitializationAndIdentify {
func application(_ application: UIApplication, didFinishLaunchingWithOptions launchOptions: [UIApplication.LaunchOptionsKey: Any]?) -> Bool {
    let options = MParticleOptions(key: "REPLACE WITH APP KEY",
                                secret: "REPLACE WITH APP SECRET")
    let identityRequest = MPIdentityApiRequest.withEmptyUser()
    identityRequest.email = "foo@example.com"
    identityRequest.customerId = "123456"
    options.identifyRequest = identityRequest
    options.onIdentifyComplete =  {(result: MPIdentityApiResult?, error: Error?) in
        if let user = result?.user {
            user.setUserAttribute("example attribute key", value: "example attribute value")
        } else {
            //handle failure - see "Error Handling" section below
        }
    }

    SnippetScene.prepare(options)
    MParticle.sharedInstance().start(with: options)
    return true
}
}
