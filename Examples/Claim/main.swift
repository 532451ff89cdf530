import Foundation
import OnymOwl

// An app that was written for OwlMetry: what happens before its user is known is the user's afterwards. An error has a file.
//
//     swift run example-claim http://127.0.0.1:8080 <client key> [bundle id]

let words = CommandLine.arguments
guard words.count >= 3 else {
    print("usage: example-claim <endpoint> <client key> [bundle id]")
    exit(2)
}
let bundleID = words.count > 3 ? words[3] : "com.example.demo"
try Owl.configure(endpoint: words[1], apiKey: words[2], bundleID: bundleID, attributionEnabled: false) {
    $0.folder = FileManager.default.temporaryDirectory.appending(path: "onym-example-\(UUID().uuidString)")
    $0.environment = .development
}
print("nobody yet: \(Owl.currentUserId?.prefix(9) ?? "")…")
let coupon: String? = nil
Owl.info("Opened", screenName: "Home", attributes: ["from": "the example", "coupon": coupon])
Owl.setExperiment("example-checkout", variant: "short")
print("variant: \(Owl.getVariant("example-checkout", options: ["short", "long"]))")
Owl.clearExperiments()
Owl.step("signup")
Owl.setUser("example-user")
print("somebody: \(Owl.currentUserId ?? "")")
Owl.setUserProperties(["plan": "pro"])
let operation = Owl.startOperation("checkout")
Owl.info("Bought")
operation.complete(attributes: ["order": operation.trackingId])
Owl.error(
    CocoaError(.fileReadNoSuchFile), "Upload failed", attributes: ["coupon": coupon],
    attachments: [OwlAttachment(data: Data("what happened".utf8), name: "log.txt")])
do {
    try await Owl.flush()
    print("sent: everything")
    let receipt = try await Owl.sendFeedback(message: "It works.", name: "Ada")
    print("feedback: \(receipt.id.isEmpty ? "no id" : "taken")")
    // The SDK sends the file after its event, while the process lives.
    try await Task.sleep(for: .seconds(2))
} catch {
    print("sent: not yet, \(error)")
}
Owl.clearUser()
print("nobody again: \(Owl.currentUserId?.prefix(9) ?? "")…")
await Owl.shutdown()
