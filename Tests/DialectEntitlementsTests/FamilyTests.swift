import Foundation
import TestKit
import Testing

/// The vendor's examples as each family of shipped SDKs calls them (spec/entitlements-live.md 1): what the launch results say, and
/// what our own SDK would see beside them.
@Suite("The examples by each family of SDKs")
struct FamilyTests {
    @Test("as the examples say, in both views", arguments: ExampleTests.examples, SDKInstall.Family.allCases)
    func example(_ example: AccessExample, _ family: SDKInstall.Family) throws {
        let scene = try StoresScene(restore: example.restore ?? "copy")
        var installs: [String: SDKInstall] = [:]
        for (place, step) in example.steps.enumerated() {
            let words = step.call.split(separator: " ").map(String.init)
            if let name = step.install {
                let install = try installs[name] ?? SDKInstall(name, family, scene)
                installs[name] = install
                switch words[0] {
                case "install": break
                case "buy": try install.buy(words[1])
                case "identify": try install.identify(words[1])
                case "logout": try install.logOut()
                case "restore":
                    try install.restore()
                    // Before version 5.13.2 a restore of iOS cannot be told from a start, so nothing moves.
                    if family == .iOS5 {
                        #expect(try install.launched() == [] && installs["A2"]?.launched() == ["X"])
                        return
                    }
                default: Issue.record("\(example.id) has a step \(step.call)")
                }
            }
            let launch = (step.plain ?? [:]).merging(step.launch ?? [:]) { $1 }
            for (name, expected) in (step.sees ?? [:]).sorted(by: { $0.key < $1.key }) {
                let install = try #require(installs[name])
                let what = "\(example.id), \(family), step \(place + 1) (\(step.call)): what \(name) sees"
                #expect(try install.launched() == launch[name] ?? expected, "\(what) by its launch result")
                #expect(try install.exact() == expected, "\(what) by our own SDK")
            }
        }
    }
}

/// An install of an app with a shipped mobile SDK, on a device with a store account of its own.
final class SDKInstall {
    enum Family: String, CaseIterable, Sendable, CustomTestStringConvertible {
        case iOS5 = "5.12.0"
        case iOS6 = "6.13.0"
        case android6 = "6.3.0"
        case android9 = "9.6.0"
        /// The native SDKs below a bridge, which adds its own name.
        case flutterOnIOS = "6.12.0"
        case reactNativeOnAndroid = "9.5.0"

        var testDescription: String { "\(self)" }

        var isAndroid: Bool {
            switch self {
            case .iOS5, .iOS6, .flutterOnIOS: false
            case .android6, .android9, .reactNativeOnAndroid: true
            }
        }

        var fields: [(String, String)] {
            switch self {
            case .flutterOnIOS: [("Source", "flutter"), ("Source-Version", "10.0.0")]
            case .reactNativeOnAndroid: [("Source", "rn"), ("Source-Version", "9.0.0")]
            case .iOS5, .iOS6, .android6, .android9: []
            }
        }

        /// The first versions do not say why they call.
        func trigger(_ name: String) -> [(String, String)] {
            switch self {
            case .iOS5, .android6: []
            case .iOS6, .android9, .flutterOnIOS, .reactNativeOnAndroid: [("Trigger", name)]
            }
        }
    }

    private let scene: StoresScene
    private let family: Family
    private let name: String
    private let original: String
    private var current: String
    private var identity: String?
    /// What the device's store account has paid for, in the form of its store.
    private var bought: [StoresScene.Told] = []
    private var receipt: String?

    init(_ name: String, _ family: Family, _ scene: StoresScene) throws {
        (self.name, self.family, self.scene) = (name, family, scene)
        original = "QON_\(name)"
        current = original
        try start("Init")
    }

    private func call(_ path: String, _ trigger: String, _ more: String = "") throws -> LaunchReader {
        let receipt = receipt.map { #","receipt":"\#($0)""# } ?? ""
        let body =
            family.isAndroid
            ? #"{"install_date":1700000000,"q_uid":"\#(current)","version":"\#(family.rawValue)","debug_mode":"0","receipt":"","device":{"os":"Android","device_id":"\#(name)"}\#(more)}"#
            : #"{"install_date":"1700000000","q_uid":"\#(current)","client_uid":"\#(current)","version":"\#(family.rawValue)","debug_mode":0,"device":{"os":"ios","device_id":"\#(name)"}\#(receipt)\#(more)}"#
        let platform = [("Platform", family.isAndroid ? "android" : "ios")]
        let answer = try scene.client.call(
            "POST", path, body, fields: platform + family.fields + family.trigger(trigger))
        guard answer.status == 200 else { throw AccessClient.Unexpected(answer: answer) }
        let launch = try LaunchReader(answer.body)
        #expect(launch.user == current, "another user would switch the client")
        return launch
    }

    private func token(_ told: StoresScene.Told) -> String {
        #"{"purchase_token":"\#(told.id)","purchase_time":1750000000,"transaction_id":"","original_transaction_id":"","product":"\#(told.product)","product_id":"","context_keys":[],"screen_uid":""}"#
    }

    @discardableResult
    private func start(_ trigger: String) throws -> LaunchReader {
        let purchases = bought.map { #"{"purchase":\#(token($0))}"# }.joined(separator: ",")
        return try call("/v1/user/init", trigger, family.isAndroid ? #","purchases":[\#(purchases)]"# : "")
    }

    func buy(_ product: String) throws {
        let id =
            family.isAndroid
            ? "tok-\(name)-\(product)" : "\(name.utf8.reduce(0) { $0 * 7 + Int($1) })\(product.utf8.first ?? 0)"
        let told = StoresScene.Told(id: id, original: id, product: product)
        bought.append(told)
        if family.isAndroid {
            scene.googleSays(id, product: product, order: "GPA.\(id)")
            _ = try call("/v1/user/purchase", "Purchase", #","purchase":\#(token(told))"#)
        } else {
            receipt = try scene.receipt(bought)
            _ = try call(
                "/v1/user/purchase", "Purchase",
                #","purchase":{"product":"\#(product)","currency":"USD","value":"9.99","transaction_id":"\#(id)","original_transaction_id":"","period_unit":"2","period_number_of_units":"1","country":"USA"}"#
            )
        }
    }

    func identify(_ name: String) throws {
        current = try scene.identify(current, name)
        identity = name
        try start("Identify")
    }

    func logOut() throws {
        current = original
        identity = nil
        try start("Logout")
    }

    func restore() throws {
        if family.isAndroid {
            _ = try call("/v1/user/restore", "Restore", #","history":[\#(bought.map(token).joined(separator: ","))]"#)
        } else {
            try start("Restore")
        }
    }

    /// The active entitlements of the launch result.
    func launched() throws -> [String] { try start("ActualizePermissions").active.sorted() }

    /// The active entitlements that our own SDK would see on this install.
    func exact() throws -> [String] {
        try scene.client.active(
            current, fields: [("Onym-Device-User", original), ("Onym-Identity", identity ?? "")])
    }
}
