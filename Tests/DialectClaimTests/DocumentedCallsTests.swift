import TestKit
import Testing

/// The commands of docs/claim.md, and the answers that stand there, which
/// `ONYM_RECORD=1 swift test --filter DocumentedCallsTests` writes anew.
@Suite("The commands of docs/claim.md")
struct DocumentedCallsTests {
    /// What differs from run to run: ids that come from chance, and what is made of them.
    private func settled(_ output: String) -> String {
        output.replacing(/(6f6e796d-00(?:04|07|08|09|0a|0b|0c|0d)-8000)-[0-9a-f]{4}-[0-9a-f]{12}/) { "\($0.1)-…" }
            .replacing(/(t=[^.]*\.[0-9]+)\.[0-9a-f]{64}/) { "\($0.1).…" }
    }

    @Test("answer what stands there")
    func documented() throws {
        let clock = ManualClock()
        let server = try TestServer(.sqlite) { configuration in
            configuration.clock = { clock.now }
            configuration.publicURL = "https://id.example.com"
            configuration.attribution.takesMocks = true
        }
        let keys = server.credentials
        let outcome = try DocumentedCalls("claim.md").run(
            environment: [
                "ONYM": "http://127.0.0.1:\(server.port)", "CLIENT": keys.claimClientKey, "AGENT": keys.claimAgentKey,
                "IMPORT": keys.claimImportKey, "ADMIN": keys.adminKey,
            ], settled: settled)
        #expect(outcome.errors.isEmpty && outcome.isComplete, "\(outcome.errors)")
        #expect(!outcome.recorded.contains("Internal Server Error") && !outcome.recorded.contains("Route "))
        #expect(
            outcome.document == outcome.recorded,
            "ONYM_RECORD=1 swift test --filter DocumentedCallsTests writes them anew.")
    }
}
