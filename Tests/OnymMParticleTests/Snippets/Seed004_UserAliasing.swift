// swift-format-ignore-file
// The code below is the seed's, to the letter, but for the import line and what is noted here.
//
// Seed 004, "User Aliasing": in functions. The Objective-C snippet also copies a cart: there is none here, nor in the vendor's Swift.

import Foundation
import OnymMParticle

enum Seed004_UserAliasing {
    static func basic() {
// Basic - Call alias as the result of a successful login
MParticle.sharedInstance().identity.login(completion: { (apiResult: MPIdentityApiResult?, error: Error?) in
    guard let apiResult = apiResult else { return }
    
    // Successful login request returns new and previous users
    let newUser = apiResult.user
    guard let previousUser = apiResult.previousUser else { return }
    
    // Copy attributes from previous to new user.
    newUser.userAttributes = previousUser.userAttributes
    
    // Create and send the alias request
    let request = MPAliasRequest(sourceUser:previousUser, destinationUser:newUser)
    MParticle.sharedInstance().identity.aliasUsers(request)
})
    }

    static func anyTime() {
// Call alias at any time

// The getAllUsers API returns users in reverse chronological order
let allUsers = MParticle.sharedInstance().identity.getAllUsers();
if allUsers.count >= 2 {
    let sourceUser = allUsers[1];
    let destinationUser = allUsers[0];

    let request = MPAliasRequest(sourceMPID: sourceUser.userId,
                                    destinationMPID: destinationUser.userId,
                                    startTime: sourceUser.firstSeen, // must be within 90 days
                                    endTime: sourceUser.lastSeen) // must be between startTime and now

    MParticle.sharedInstance().identity.aliasUsers(request)
}
    }
}
