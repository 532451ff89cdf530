import Foundation
import Onym
import OnymQonversion

// An app that was written for Qonversion: it shows what is for sale, logs somebody in, buys, and shows what may be used.
//
//     swift run example-entitlements http://127.0.0.1:8080 <project key> [receipt]
//
// A receipt to try a purchase with is made by `onym receipt --product …`.

let words = CommandLine.arguments
guard words.count >= 3 else {
    print("usage: example-entitlements <endpoint> <project key> [receipt]")
    exit(2)
}
let configuration = Qonversion.Configuration(projectKey: words[2], launchMode: .subscriptionManagement)
configuration.setProxyURL(words[1])
configuration.setEnvironment(.sandbox)
configuration.configure = {
    $0.folder = FileManager.default.temporaryDirectory.appending(path: "onym-example-\(UUID().uuidString)")
}
let app = Qonversion.initWithConfig(configuration)
let campaign: [String: Any] = ["campaign": "spring"]
app.attribution(campaign, from: .appsFlyer)

/// Ends the wait for a call's one callback with a line about it.
func line<Value>(
    _ continuation: CheckedContinuation<String, Never>, _ text: @escaping (Value) -> String
) -> (Value, (any Error)?) -> Void {
    { value, error in
        continuation.resume(returning: error.map { "failed: \($0.localizedDescription)" } ?? text(value))
    }
}

func active(_ list: [String: Qonversion.Entitlement]) -> String {
    let names = list.values.filter(\.isActive).map(\.entitlementID).sorted()
    return names.isEmpty ? "nothing" : names.joined(separator: ", ")
}

func entitlements() async -> String {
    await withCheckedContinuation { app.checkEntitlements(line($0, active)) }
}

/// The latest transactions of an entitlement.
func transactions(_ entitlement: Qonversion.Entitlement?) -> String {
    let lines = (entitlement?.transactions ?? []).map { transaction in
        let isFirst = transaction.originalTransactionId == transaction.transactionId
        return "\(transaction.type) in \(transaction.environment)\(isFirst ? ", the first" : "")"
    }
    return lines.isEmpty ? "none" : lines.joined(separator: "; ")
}

let user = await withCheckedContinuation { app.userInfo(line($0) { "\($0?.qonversionId.prefix(4) ?? "")…" }) }
print("userInfo: \(user)")
print("may use: \(await entitlements())")
let products = await withCheckedContinuation { continuation in
    app.products(line(continuation) { $0.keys.sorted().joined(separator: ", ") })
}
print("for sale: \(products)")
let offerings = await withCheckedContinuation { continuation in
    app.offerings(
        line(continuation) { offerings in
            guard let main = offerings?.main else { return "no main offering" }
            return "\(main.identifier) with \(main.products.map(\.qonversionID).joined(separator: ", "))"
        })
}
print("offerings: \(offerings)")
let identity = await withCheckedContinuation { continuation in
    app.identify("example-user", completion: line(continuation) { $0?.identityId ?? "nobody" })
}
print("identify: \(identity)")
app.setUserProperty(.userID, value: "example-user")
if words.count > 3 {
    let purchase = Purchase(price: "9.99", currency: "EUR", purchased: Date(), appStoreReceipt: words[3])
    let bought = await withCheckedContinuation { app.purchase(purchase, completion: line($0, active)) }
    print("purchase: \(bought)")
    let history = await withCheckedContinuation { continuation in
        app.checkEntitlements(line(continuation) { transactions($0["plus"]) })
    }
    print("transactions: \(history)")
    let restored = await withCheckedContinuation { app.restore([words[3]], completion: line($0, active)) }
    print("restore: \(restored)")
    print("may use: \(await entitlements())")
}
app.logout()
print("may use after logout: \(await entitlements())")
do {
    try await app.core?.flush()
    print("sent: everything")
} catch {
    print("sent: not yet, \(error)")
}
