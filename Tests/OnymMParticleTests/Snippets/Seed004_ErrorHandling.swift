// swift-format-ignore-file
// The code below is the seed's, to the letter, but for the import line and what is noted here.
//
// Seed 004, "Error Handling": in a function; lines after the comments tell the test which way it went.

import Foundation
import OnymMParticle

enum Seed004_ErrorHandling {
    static func snippet(_ went: @escaping (String) -> Void) -> (MPIdentityApiResult?, Error?) -> Void {
let identityCallback = {(result: MPIdentityApiResult?, error: Error?) in
    if let user = result?.user {
        //IDSync request succeeded, mutate attributes or query for the MPID as needed
        user.setUserAttribute("example attribute key", value: "example attribute value")
        went("success")
    } else if let error = error {
        print(error.localizedDescription)
        if let resultCode = MPIdentityErrorResponseCode(rawValue: UInt((error as NSError).code)) {
            switch (resultCode) {
            case .clientNoConnection, .clientSideTimeout:
                //retry the IDSync request
                went("network")
                break;
            case .requestInProgress, .retry:
                //inspect your implementation if this occurs frequency
                //otherwise retry the IDSync request
                went("retry")
                break;
            default:
                // inspect error.localizedDescription to determine why the request failed
                // this typically means an implementation issue
                went("other")
                break;
            }
        }
    }
}
        return identityCallback
    }
}
