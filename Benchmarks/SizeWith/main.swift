import Foundation
import Onym

// The same as `size-without`, with the SDK: bench-sdk compares the sizes of the programs.
let folder = URL(filePath: CommandLine.arguments.dropFirst().first ?? "/tmp/onym-size")
guard let endpoint = URL(string: "https://id.example.com") else { fatalError() }
let onym = try OnymClient(
    Configuration(
        endpoint: endpoint,
        keys: [
            .idSync(key: "k", secret: nil), .claim(key: "owl_client_k", bundleID: "b"), .entitlements(key: "k"),
            .linking(appID: nil, secret: nil),
        ], folder: folder))
onym.log("opened", ["at": .string("\(Date())")])
onym.close()
print(endpoint, folder)
