import Foundation
import TestKit
import Testing

/// The examples, run as their readers run them.
@Suite("The examples", .timeLimit(.minutes(30)))
struct ExampleTests {
    private let scene: SDKScene

    init() throws { scene = try SDKScene() }

    private func run(_ name: String, _ words: String...) throws -> [String] {
        let result = try Shell.result([SDKScene.program(name), scene.server.base] + words)
        #expect(result.code == 0, "\(result)")
        return result.output.split(separator: "\n").map(String.init)
    }

    @Test("of IDSync")
    func idsync() throws {
        let lines = try run("example-idsync", scene.store.key, scene.store.secret)
        try #require(lines.count == 8)
        #expect(lines[0].hasPrefix("start: user ") && lines[0].hasSuffix(", anonymous"))
        #expect(lines[1].hasPrefix("login: user ") && lines[1].hasSuffix(", known"))
        #expect(lines[2] == "session: ended")
        #expect(lines[3].replacing("modify", with: "login") == lines[1])
        #expect(lines[4] == "names: ada.lovelace@example.com")
        #expect(lines[5].hasPrefix("logout: user ") && lines[5].hasSuffix(", anonymous"))
        #expect(lines[7] == "sent: everything")

        let events = try rows("customerid:example-customer", "event")
        #expect(
            events.map { $0["event_type"] as? String }
                == ["session_start", "custom_event", "custom_event", "commerce_event", "session_end"])
        let data = events.map { $0["data"] as? [String: Any] ?? [:] }
        #expect(data[1]["event_name"] as? String == "Opened" && data[2]["event_name"] as? String == "Video")
        #expect((data[2]["custom_attributes"] as? [String: Any])?["EventLength"] is Int)
        #expect(Set(data.map { $0["session_uuid"] as? String }).count == 1)
        let action = data[3]["product_action"] as? [String: Any]
        #expect(action?["action"] as? String == "purchase" && action?["transaction_id"] as? String == "order-1")
        let product = (action?["products"] as? [[String: Any]])?.first
        #expect(product?["id"] as? String == "room-1" && product?["total_product_amount"] as? Double == 9.99)
        #expect(product?["quantity"].map { "\($0)" } == "1" && data[3]["currency_code"] as? String == "EUR")
        let person = try scene.administrator("/onym/v1/people/customerid:example-customer")
        let properties = (person["properties"] as? [String: [String: [String: Any]]])?["idsync"]
        #expect(properties?["plan"]?["value"] as? String == "pro" && properties?["visits"]?["value"] as? Int == 1)
    }

    /// The bodies of a person's rows of a kind, the first first.
    private func rows(_ person: String, _ kind: String) throws -> [[String: Any]] {
        let page = try scene.administrator("/onym/v1/people/\(person)/timeline?limit=200&kinds=\(kind)")
        return (page["rows"] as? [[String: Any]] ?? []).reversed().compactMap { $0["body"] as? [String: Any] }
    }

    @Test("of Claim")
    func claim() throws {
        let lines = try run("example-claim", try #require(scene.store.claim["client_key"]))
        #expect(
            lines == [
                "nobody yet: owl_anon_…", "variant: short", "somebody: example-user", "sent: everything",
                "feedback: taken",
                "nobody again: owl_anon_…",
            ])
        #expect(
            try scene.events("claim_user_id:example-user").prefix(3)
                == ["sdk:session_started", "Opened", "step:signup"])
        let user = "claim_user_id:example-user"
        #expect(try rows(user, "metric").map { $0["phase"] as? String } == ["start", "complete"])
        #expect(try rows(user, "step").map { $0["step_name"] as? String } == ["signup"])
        #expect(try rows(user, "feedback").map { $0["message"] as? String } == ["It works."])
        #expect(try rows(user, "occurrence").count == 1)
        let agent = try #require(scene.store.claim["agent_key"])
        let list = try scene.server.client.call(
            "GET", "/v1/attachments?user_id=example-user", fields: [("Authorization", "Bearer \(agent)")])
        let files = (try JSONSerialization.jsonObject(with: Data(list.body.utf8)) as? [String: Any])?["attachments"]
        let file = (files as? [[String: Any]])?.first
        #expect(file?["original_filename"] as? String == "log.txt" && file?["size_bytes"] as? Int == 13)
        #expect(file?["uploaded_at"] is String && file?["issue_id"] is String, "\(list)")
        let person = try scene.administrator("/onym/v1/people/\(user)")
        let properties = (person["properties"] as? [String: [String: [String: Any]]])?["claim"]
        #expect(properties?["plan"]?["value"] as? String == "pro")
    }

    @Test("of Entitlements")
    func entitlements() throws {
        try scene.administrator("/onym/v1/entitlements/plus", "PUT", "{}")
        try scene.administrator(
            "/onym/v1/products/yearly", "PUT",
            #"{"type":"subscription","duration_seconds":2592000,"entitlements":["plus"]}"#)
        try scene.administrator("/onym/v1/offerings/standard", "PUT", #"{"products":["yearly"],"main":true}"#)
        let receipt = try Shell.result([
            ServerProcess.program, "receipt", "--product", "yearly", "--data", scene.store.data,
        ]).output.split(separator: "\n").first.map(String.init)
        let lines = try run(
            "example-entitlements", try #require(scene.store.entitlements["project_key"]), try #require(receipt))
        #expect(
            lines == [
                "userInfo: QON_…", "may use: nothing", "for sale: yearly",
                "offerings: standard with yearly", "identify: example-user", "purchase: plus",
                "transactions: subscriptionStarted in sandbox, the first", "restore: plus", "may use: plus",
                "may use after logout: plus", "sent: everything",
            ])
        let person = try scene.administrator("/onym/v1/people/sandbox_identity:example-user")
        let purchases = person["purchases"] as? [[String: Any]]
        #expect(purchases?.map { $0["product"] as? String } == ["yearly"], "the restored receipt is the same purchase")
        let properties = (person["properties"] as? [String: [String: [String: Any]]])?["entitlements"]
        #expect(properties?["_q_custom_user_id"]?["value"] as? String == "example-user")
    }

    @Test("of Linking")
    func linking() throws {
        let lines = try run("example-linking", try #require(scene.store.linking["api_key"]))
        #expect(
            lines == [
                "first phone starts: true", "first phone: user of 24 digits",
                "first phone again: failed: userAlreadyExists", "first phone detects: enabledAndDetecting",
                "second phone starts: true",
                "second phone: user of 24 digits", "the same user: true", "first phone is active: false, superseded",
                "first phone detects: enabledButBlocked",
                "first phone forgets: true, a user is there: false",
            ])
        let person = try scene.administrator("/onym/v1/people/linking_external_id:example-user")
        let installs = person["installs"] as? [[String: Any]]
        #expect(installs?.map { $0["state"] as? String } == ["reset", "active"])
    }
}
