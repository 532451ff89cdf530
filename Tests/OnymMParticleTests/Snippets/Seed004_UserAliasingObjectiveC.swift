// swift-format-ignore-file
// The seed has these in Objective-C alone. This is what they are in Swift.
//
// Seed 004, "User Aliasing": the copy of a cart, and an alias by explicit MPIDs.

import Foundation
import OnymMParticle

enum Seed004_UserAliasingObjectiveC {
    static func basic() {
// Basic - Call alias as the result of a successful login
MParticle.sharedInstance().identity.login(completion: { apiResult, error in
    // Successful login request returns new and previous users
    guard let newUser = apiResult?.user, let previousUser = apiResult?.previousUser else { return }

    // Copy anything attributes and products from previous to new user.
    // This example copies everything
    newUser.userAttributes = previousUser.userAttributes
    newUser.cart.addAllProducts(previousUser.cart.products, shouldLogEvents: false)

    // Create and send the alias request
    let request = MPAliasRequest(sourceUser: previousUser, destinationUser: newUser)
    MParticle.sharedInstance().identity.aliasUsers(request)
})
    }

    static func anyTime(_ source: NSNumber, _ destination: NSNumber, _ start: Date, _ end: Date) {
let request = MPAliasRequest(sourceMPID: source,
                             destinationMPID: destination,
                             startTime: start, // must be within 90 days
                             endTime: end) // must be between startTime and now
MParticle.sharedInstance().identity.aliasUsers(request)
    }
}
