import Foundation
import OnymMParticle

// An app that was written for mParticle: it starts, logs in, asks for consent, times a video, sells a room, changes its user's
// e-mail, and logs out.
//
//     swift run example-idsync http://127.0.0.1:8080 <key> <secret>
//
// `make run` prints the keys of its demo project when it makes it.

let words = CommandLine.arguments
guard words.count == 4, let endpoint = URL(string: words[1]) else {
    print("usage: example-idsync <endpoint> <key> <secret>")
    exit(2)
}

/// Waits for a call's one callback, and shows what it brings.
func show(_ step: String, _ call: (@escaping MPIdentityApi.Completion) -> Void) async {
    let line: String = await withCheckedContinuation { continuation in
        call { result, error in
            if let result {
                let known = result.user.isLoggedIn ? "known" : "anonymous"
                continuation.resume(returning: "user \(result.user.userId), \(known)")
            } else {
                continuation.resume(returning: "failed: \(error?.localizedDescription ?? "")")
            }
        }
    }
    print("\(step): \(line)")
}

let options = MParticleOptions(key: words[2], secret: words[3])
options.networkOptions = MPNetworkOptions()
options.networkOptions?.customBaseURL = endpoint
options.environment = .development
options.configure = {
    $0.folder = FileManager.default.temporaryDirectory.appending(path: "onym-example-\(UUID().uuidString)")
}
await show("start") { done in
    options.onIdentifyComplete = done
    MParticle.sharedInstance().start(with: options)
}
let app = MParticle.sharedInstance()
app.logEvent("Opened", eventType: .navigation, eventInfo: ["from": "the example"])

let request = MPIdentityApiRequest.withEmptyUser()
request.customerId = "example-customer"
request.email = "ada@example.com"
await show("login") { app.identity.login(request, completion: $0) }
let consent = MPGDPRConsent()
(consent.consented, consent.document) = (true, "terms-3")
let consents = MPConsentState()
consents.addGDPRConsentState(consent, purpose: "analytics")
app.identity.currentUser?.setConsentState(consents)
if let video = MPEvent(name: "Video", type: .media) {
    app.beginTimedEvent(video)
    app.endTimedEvent(video)
}
let purchase = MPCommerceEvent(
    action: .purchase, product: MPProduct(name: "Room", sku: "room-1", quantity: 1, price: 9.99))
purchase.currency = "EUR"
purchase.transactionAttributes = MPTransactionAttributes()
purchase.transactionAttributes?.transactionId = "order-1"
app.logEvent(purchase)
app.identity.currentUser?.setUserAttribute("plan", value: "pro")
app.identity.currentUser?.incrementUserAttribute("visits", byValue: 1)
app.logNotificationReceived(withUserInfo: ["aps": ["alert": "Your room is ready"]])
app.endSession()
print("session: \(app.currentSession == nil ? "ended" : "goes on")")

let change = MPIdentityApiRequest.withEmptyUser()
change.email = "ada.lovelace@example.com"
await show("modify") { app.identity.modify(change, completion: $0) }
print("names: \(app.identity.currentUser?.userIdentities[.email] ?? "none")")
await show("logout") { app.identity.logout(completion: $0) }
print("users on this device: \(app.identity.getAllUsers().count)")
do {
    try await app.core?.flush()
    print("sent: everything")
} catch {
    print("sent: not yet, \(error)")
}
