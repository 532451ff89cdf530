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
        #expect(lines.count == 7)
        #expect(lines[0].hasPrefix("start: user ") && lines[0].hasSuffix(", anonymous"))
        #expect(lines[1].hasPrefix("login: user ") && lines[1].hasSuffix(", known"))
        #expect(lines[2].replacing("modify", with: "login") == lines[1])
        #expect(lines[3] == "names: ada.lovelace@example.com")
        #expect(lines[4].hasPrefix("logout: user ") && lines[4].hasSuffix(", anonymous"))
        #expect(lines[6] == "sent: everything")
    }

    @Test("of Claim")
    func claim() throws {
        let lines = try run("example-claim", try #require(scene.store.claim["client_key"]))
        #expect(
            lines == [
                "nobody yet: owl_anon_…", "somebody: example-user", "sent: everything", "feedback: taken",
                "nobody again: owl_anon_…",
            ])
        #expect(
            try scene.events("claim_user_id:example-user").prefix(3)
                == ["sdk:session_started", "Opened", "step:signup"])
    }

    @Test("of Entitlements")
    func entitlements() throws {
        try scene.administrator("/onym/v1/entitlements/plus", "PUT", "{}")
        try scene.administrator(
            "/onym/v1/products/yearly", "PUT",
            #"{"type":"subscription","duration_seconds":2592000,"entitlements":["plus"]}"#)
        let receipt = try Shell.result([
            ServerProcess.program, "receipt", "--product", "yearly", "--data", scene.store.data,
        ]).output.split(separator: "\n").first.map(String.init)
        let lines = try run(
            "example-entitlements", try #require(scene.store.entitlements["project_key"]), try #require(receipt))
        #expect(
            lines == [
                "userInfo: QON_…", "may use: nothing", "identify: example-user", "purchase: plus", "may use: plus",
                "may use after logout: plus", "sent: everything",
            ])
    }

    @Test("of Linking")
    func linking() throws {
        let lines = try run("example-linking", try #require(scene.store.linking["api_key"]))
        #expect(
            lines == [
                "first phone starts: true", "first phone: user of 24 digits",
                "first phone again: failed: userAlreadyExists", "second phone starts: true",
                "second phone: user of 24 digits", "the same user: true", "first phone is active: false, superseded",
                "first phone forgets: true, a user is there: false",
            ])
    }
}
