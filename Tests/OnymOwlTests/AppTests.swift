import Foundation
import Owlmetry
import Testing

/// Lines of an ordinary app, with the import line that it always had.
private enum App {
    static func launch() throws {
        try Owl.configure(endpoint: "https://ingest.example.com", apiKey: "owl_client_x", consoleLogging: false)
        Owl.setUser("u")
        Owl.info("opened", screenName: "Home", attributes: ["a": "b"])
        let file = URL(fileURLWithPath: "/tmp/trace.log")
        Owl.error("failed", attributes: nil, attachments: [OwlAttachment(fileURL: file)])
        Owl.step("checkout")
        let operation: OwlOperation = Owl.startOperation("load", attributes: ["size": nil])
        operation.complete(attributes: ["id": operation.trackingId])
        let coupon: String? = nil
        Owl.info("bought", attributes: ["coupon": coupon])
        do {
            try send(coupon)
        } catch {
            Owl.error(error, "while sending", screenName: "Cart", attributes: ["coupon": coupon])
            Owl.error(error)
        }
        if Owl.getVariant("checkout", options: ["short", "long"]) == "short" { Owl.step("short") }
        Owl.setExperiment("checkout", variant: "long")
        Owl.clearExperiments()
        Owl.clearUser()
    }

    static func send(_ coupon: String?) throws {}

    static func send() async -> String? {
        do {
            let receipt = try await Owl.sendFeedback(message: "good", name: "Ada")
            return receipt.id
        } catch OwlFeedbackError.serverError(let status, _) {
            return "\(status)"
        } catch {
            return nil
        }
    }
}

@Suite("An app with OwlMetry's import")
struct AppTests {
    @Test("compiles, and a wrong key is refused as with the vendor's SDK")
    func compiles() {
        #expect(throws: Owl.ConfigurationError.invalidApiKey) {
            try Owl.configure(endpoint: "https://ingest.example.com", apiKey: "x")
        }
    }
}
