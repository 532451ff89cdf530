import Foundation
import TestKit
import Testing

/// `onym-stores` and the built program, as an operator tries them (docs/stores.md, "Without an account at a store").
@Suite("Stand-ins for app stores", .timeLimit(.minutes(5)))
struct StandInStoresTests {
    /// The built program `onym-stores`, until the object goes.
    private final class Stores {
        private let process = Process()
        let client: HTTPClient
        let settings: [String]

        init(in folder: String, flags: [String] = []) throws {
            process.executableURL = URL(filePath: ServerProcess.program + "-stores")
            process.arguments = ["--folder", folder, "--port", "0", "--onym", "1"] + flags
            let output = try process.start(piping: \.standardOutput)[0].fileHandleForReading
            let line = String(decoding: output.availableData, as: UTF8.self)
            let port = line.firstMatch(of: /127\.0\.0\.1:(\d+)/).flatMap { UInt16($0.1) }
            client = HTTPClient(port: try #require(port, "\(line)"))
            settings = try String(contentsOfFile: folder + "/settings", encoding: .utf8).split(separator: "\n").map {
                String($0.replacing("'", with: ""))
            }
        }

        deinit {
            kill(process.processIdentifier, SIGKILL)
            process.waitUntilExit()
        }

        func call(_ method: String, _ path: String, _ json: String) throws -> [String: Any] {
            let answer = try client.call(method, path, json: json)
            try #require(answer.status == 200, "\(answer)")
            return try #require(try JSONSerialization.jsonObject(with: Data(answer.body.utf8)) as? [String: Any])
        }
    }

    private func text(_ value: Any?) throws -> String {
        String(decoding: try JSONSerialization.data(withJSONObject: try #require(value)), as: UTF8.self)
    }

    @Test("a purchase of each store works, and follows what happens there", arguments: [[], ["--signed-pushes"]])
    func purchases(_ flags: [String]) throws {
        let store = try Store()
        let stores = try Stores(in: store.folder.path + "/stores", flags: flags)
        let server = try ServerProcess(data: store.data, environment: stores.settings)
        _ = try stores.call("PUT", "/control/server", #"{"port":\#(server.port)}"#)
        func onym(_ words: String...) throws -> Shell.Result {
            try Shell.result([ServerProcess.program] + words + ["--data", store.data])
        }
        #expect(try onym("entitlements", "set", "--id", "plus").code == 0)
        for product in ["app", "play", "web"] {
            let set = try onym(
                "products", "set", "--id", product, "--type", "subscription", "--store-id", "com.example.\(product)",
                "--entitlements", "plus")
            #expect(set.code == 0, "\(set)")
        }
        let key = [("Authorization", "Bearer test_\(try #require(store.entitlements["project_key"]))")]
        func isActive(_ user: String) throws -> Bool {
            try server.client.call("GET", "/v3/users/\(user)/entitlements", fields: key).body.contains(
                #""active":true"#)
        }
        var ids: [String: String] = [:]
        for (shop, product) in [("app_store", "app"), ("play", "play"), ("stripe", "web")] {
            let user = "QON_\(shop)"
            #expect(try server.client.call("POST", "/v3/users/\(user)", fields: key, json: "{}").status == 201)
            let sold = try stores.call(
                "POST", "/control/purchases",
                #"{"store":"\#(shop)","product":"com.example.\#(product)","days":30,"user":"\#(user)","times":2}"#)
            try #require(sold["notified"] as? [Int] == [200, 200], "\(sold)")
            let id = try #require(sold["id"] as? String)
            ids[shop] = id
            let bought = try server.client.call(
                "POST", "/v3/users/\(user)/purchases", fields: key, json: try text(sold["report"]))
            #expect([200, 201].contains(bought.status), "\(bought)")
            #expect(try isActive(user), "\(shop)")
            let check = try onym("purchases", "check", id)
            #expect(check.code == 0 && check.output.contains("period_runs"), "\(check)")
        }
        for (shop, id) in ids.sorted(by: { $0.key < $1.key }) {
            let user = "QON_\(shop)"
            let name = try #require(id.split(separator: ":").last)
            func happens(_ deed: String) throws {
                let told = try stores.call("POST", "/control/purchases/\(name)/\(deed)", "{}")
                try #require(told["notified"] as? [Int] == [200], "\(shop) \(deed): \(told)")
            }
            for (deed, access) in [
                ("cancel", true), ("restart", true), ("grace", true), ("hold", false),
                ("renew", true), ("expire", false), ("renew", true), ("refund", false),
            ] {
                try happens(deed)
                try #require(try Patience.until { try isActive(user) == access }, "\(shop): \(deed)")
            }
            // A store that does not answer is said to be the reason.
            for fault in ["broken", "garbage", "cut", "too_many"] {
                _ = try stores.call("PUT", "/control/faults", #"{"\#(shop)":"\#(fault)"}"#)
                let check = try onym("purchases", "check", id)
                #expect(check.code == 1 && check.output.contains("cannot be asked at the moment"), "\(fault): \(check)")
            }
            _ = try stores.call("PUT", "/control/faults", #"{"\#(shop)":null}"#)
            #expect(try onym("purchases", "check", id).code == 0)
        }
        // A period that is paid ahead cannot end before it begins.
        let ahead = try stores.call(
            "POST", "/control/purchases", #"{"store":"play","product":"com.example.play","days":30,"times":0}"#)
        let name = try #require((ahead["id"] as? String)?.split(separator: ":").last)
        #expect(try stores.call("POST", "/control/purchases/\(name)/renew", "{}")["notified"] as? [Int] == [200])
        let refused = try stores.client.call("POST", "/control/purchases/\(name)/expire", json: "{}")
        #expect(refused.status == 400 && refused.body.contains("ahead"), "\(refused)")
        let report = try text(try stores.call("GET", "/control", ""))
        #expect(report.contains(#""refunded""#) && report.contains(#""asked""#), "\(report)")
        #expect(try onym("stores", "status").code == 0)
        #expect(server.stop() == 0)
        #expect(try store.doctor().code == 0)
    }

    @Test("a clock that differs, a stranger's signature and a purchase without news are told")
    func faults() throws {
        let store = try Store()
        let stores = try Stores(in: store.folder.path + "/stores")
        // Nobody listens yet: the store tells nobody.
        let sold = try stores.call(
            "POST", "/control/purchases", #"{"store":"app_store","product":"com.example.app","days":30}"#)
        #expect(sold["notified"] as? [Int] == [0])
        let server = try ServerProcess(data: store.data, environment: stores.settings)
        _ = try stores.call("PUT", "/control/server", #"{"port":\#(server.port)}"#)
        let key = [("Authorization", "Bearer test_\(try #require(store.entitlements["project_key"]))")]
        func launch(_ receipt: Any?) throws -> Wire.Answer {
            try server.client.call(
                "POST", "/v1/user/init", fields: key + [("Platform", "ios")],
                json: #"{"q_uid":"QON_1","version":"6.13.0","receipt":\#(try text([receipt]).dropFirst().dropLast())}"#)
        }
        let receipt = try #require(sold["receipt"])
        #expect(try launch(receipt).status == 200)
        let id = try #require(sold["id"] as? String)
        func check() throws -> Shell.Result {
            try Shell.result([ServerProcess.program, "purchases", "check", id, "--data", store.data])
        }
        #expect(try check().code == 0)
        _ = try stores.call("PUT", "/control/faults", #"{"app_store":"strangers_signature"}"#)
        #expect(try check().code == 1)
        _ = try stores.call("PUT", "/control/faults", #"{"app_store":null}"#)
        _ = try stores.call("PUT", "/control/clock", #"{"ahead":400}"#)
        let late = try check()
        #expect(late.code == 1 && late.output.contains("clock"), "\(late)")
        for wrong in [
            ("POST", "purchases", "{}"), ("PUT", "clock", "{}"), ("PUT", "faults", #"{"play":"sleepy"}"#),
            ("POST", "purchases/1/dance", "{}"),
        ] {
            #expect(try stores.client.call(wrong.0, "/control/\(wrong.1)", json: wrong.2).status == 400)
        }
        #expect(server.stop() == 0)
    }
}
