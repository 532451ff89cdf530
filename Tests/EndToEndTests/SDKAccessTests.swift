import Foundation
import Onym
import TestKit
import Testing

/// The examples of the seed, played by the SDK's devices against the built server.
@Suite("The SDK: access", .timeLimit(.minutes(30)))
struct SDKAccessTests {
    private let scene: SDKScene

    init() throws {
        scene = try SDKScene()
        for id in ["X", "Y"] {
            try scene.administrator("/onym/v1/entitlements/\(id)", "PUT", "{}")
            try scene.administrator(
                "/onym/v1/products/\(id)", "PUT",
                #"{"type":"subscription","duration_seconds":2592000,"entitlements":["\#(id)"]}"#)
        }
    }

    /// The examples: who does what, and who may use what then. A device is made where it is first named.
    static let examples: [(String, [String])] = [
        ("1. No User Identity", ["A -> ", "B -> ", "B buys X", "A buys Y", "B -> X", "A -> Y"]),
        (
            "2. Single User Identity for two separate devices",
            ["A -> ", "B buys X", "B is u1", "A is u1", "A -> X", "B -> X"]
        ),
        (
            "3. One anonymous user logs in & logs out",
            ["A buys X", "A is u1", "A buys Y", "A -> X Y", "A leaves", "A -> X Y"]
        ),
        (
            "4. Two different anonymous users log in & Log out",
            ["A buys X", "A is u1", "A buys Y", "B is u1", "B -> X Y", "A leaves", "A -> X Y", "B leaves", "B -> "]
        ),
        (
            "5. Two accounts with two separate purchases",
            [
                "A buys X", "A is u1", "B buys Y", "B is u1", "B -> X Y", "A -> X", "A leaves", "A -> X", "B leaves",
                "B -> Y",
            ]
        ),
        (
            "6. Two accounts log in using the same device with one active purchase",
            [
                "A buys X", "A is u1", "C is u1", "C -> X", "A leaves", "A is u2", "A -> ", "A restores X", "A -> X",
                "C -> ",
            ]
        ),
        (
            "a second identity on a device gets nothing of the first",
            ["A buys X", "A is u1", "A leaves", "A is u2", "A -> "]
        ),
    ]

    @Test("Example", arguments: examples.map(\.0))
    func example(name: String) async throws {
        let steps = try #require(SDKAccessTests.examples.first { $0.0 == name }?.1)
        var devices: [String: OnymClient] = [:]
        var receipts: [String: String] = [:]
        for step in steps {
            let words = step.split(separator: " ").map(String.init)
            let device = try devices[words[0]] ?? device(words[0])
            devices[words[0]] = device
            switch words[1] {
            case "buys":
                receipts[words[2]] = try receipt(words[2])
                let receipt = try #require(receipts[words[2]])
                try await device.access.purchase(
                    Purchase(price: "9.99", currency: "EUR", purchased: Date(), appStoreReceipt: receipt))
            case "is": try await device.access.identify(words[2])
            case "leaves": device.access.logout()
            case "restores":
                // An app's key may name no strategy that gives away more than the project's.
                try scene.administrator(
                    "/onym/v1/strategy", "PUT", #"{"restore":{"production":"transfer","sandbox":"transfer"}}"#)
                let restored = try await device.access.restore([try #require(receipts[words[2]])], strategy: "transfer")
                #expect(restored.map(\.outcome) == ["moved"], "\(step)")
            default:
                // Nobody waits five minutes in a test: a device that is opened anew asks anew.
                await device.shutdown()
                devices[words[0]] = try self.device(words[0])
                let list = try await devices[words[0]]?.access.entitlements(.newerThan(300)) ?? [:]
                #expect(list.values.filter(\.isActive).map(\.id).sorted() == Array(words.dropFirst(2)), "\(step)")
            }
        }
    }

    private func device(_ name: String) throws -> OnymClient {
        // Each answer has to be signed by the server.
        let root = try #require(try scene.administrator("/onym/v1/access-root")["root"] as? String)
        return try scene.device(name, .entitlements(key: try #require(scene.store.entitlements["project_key"]))) {
            $0.accessRoot = root
        }
    }

    private func receipt(_ product: String) throws -> String {
        let made = try Shell.result([
            ServerProcess.program, "receipt", "--product", product, "--transaction", "t-\(product)", "--data",
            scene.store.data,
        ])
        return try #require(made.output.split(separator: "\n").first.map(String.init), "\(made)")
    }

    @Test("properties go to the user they were set for, and the same user is found again")
    func properties() async throws {
        let phone = try device("phone")
        phone.access.setProperties(["plan": "anonymous"])
        let user = try await phone.access.identify("me@example.com")
        phone.access.setProperties(["plan": "known"])
        try await phone.flush()
        #expect(user.id == user.deviceID && user.identityID == "me@example.com")
        let tablet = try device("tablet")
        #expect(try await tablet.access.identify("me@example.com").id == user.id)
        tablet.access.logout()
        tablet.access.setProperties(["plan": "tablet"])
        try await tablet.flush()
        func plan(_ user: String) throws -> String {
            let key = "Bearer test_\(scene.store.entitlements["project_key"] ?? "")"
            return try scene.server.client.call(
                "GET", "/v3/users/\(user)/properties", fields: [("Authorization", key)]
            ).body
        }
        #expect(try plan(user.id) == #"[{"key":"plan","value":"known"}]"#)
        #expect(try plan(try #require(tablet.access.user?.id)) == #"[{"key":"plan","value":"tablet"}]"#)
    }
}
