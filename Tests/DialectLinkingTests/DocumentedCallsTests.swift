import TestKit
import Testing

/// The calls of docs/linking.md, and the answers that stand there, which
/// `ONYM_RECORD=1 swift test --filter DocumentedCallsTests` writes anew.
@Suite("The calls of docs/linking.md")
struct DocumentedCallsTests {
    /// What comes from chance: codes, tokens, keys, and ids, which are numbered as they come up.
    private func settled(_ output: String) -> String {
        var ids: [String] = []
        return output.replacing(/\beyJ[0-9A-Za-z_-]+\.[0-9A-Za-z_-]+\.[0-9A-Za-z_-]+/) { _ in "eyJ…" }
            .replacing(/\b[0-9a-f]{128}\b/) { _ in "…" }
            .replacing(/"(refresh_token|key)":"[^"]*"/) { "\"\($0.1)\":\"…\"" }
            .replacing(/"ref":"[^"]*"/) { _ in "\"ref\":\"…\"" }
            .replacing(/\b[0-9a-f]{24}\b/) { match in
                let id = String(match.0)
                if !ids.contains(id) { ids.append(id) }
                return "6b01d8fe0ca8342ed1eed7\((ids.firstIndex(of: id) ?? 0) + 10)"
            }
    }

    /// The first key of the store has expired by the clock of the test.
    private let key = """
        KEY=$(curl -s -H "Authorization: Bearer $ADMIN" -H 'content-type: application/json' $ONYM/onym/v1/linking/keys \
          -d '{"app_id":"'$APP'","name":"Back end","scopes":["user.link"]}' | sed 's/.*"key":"\\([^"]*\\).*/\\1/')
        """

    @Test("answer what stands there")
    func documented() throws {
        let clock = ManualClock()
        let server = try TestServer(.sqlite) { $0.clock = { clock.now } }
        let keys = server.credentials
        let outcome = try DocumentedCalls("linking.md").run(
            environment: [
                "ONYM": "http://127.0.0.1:\(server.port)", "APP": keys.linkingAppID, "ADMIN": keys.adminKey,
            ], setUp: key, settled: settled)
        #expect(outcome.errors.isEmpty && outcome.isComplete, "\(outcome.errors)")
        #expect(!outcome.recorded.contains("\"errorCode\":\"UNAUTHORIZED"))
        #expect(
            outcome.document == outcome.recorded,
            "ONYM_RECORD=1 swift test --filter DocumentedCallsTests writes them anew.")
    }
}
