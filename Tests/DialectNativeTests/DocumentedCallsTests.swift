import EventLoop
import Foundation
import TestKit
import Testing

/// The commands of docs/native.md and docs/beside.md, and the answers that stand there, which
/// `ONYM_RECORD=1 swift test --filter DocumentedCallsTests` writes anew.
@Suite("The commands of docs/native.md and docs/beside.md")
struct DocumentedCallsTests {
    /// What comes from chance: keys and secrets, and ids, which are numbered as they come up.
    private func settled(_ output: String) -> String {
        var ids: [String] = []
        return output.replacing(
            /(onym_admin_|onym_sign_|onym_client_|onym_server_|owl_client_|us1-|whsec_)[0-9A-Za-z+\/=]{20,}/
        ) { "\($0.1)…" }
        .replacing(/\beyJ[0-9A-Za-z_-]+\.[0-9A-Za-z_-]+\.[0-9A-Za-z_-]+/) { _ in "…" }
        .replacing(/\b[0-9a-f]{32,}\b/) { _ in "…" }
        .replacing(/9[0-9]{17}/) { match in
            let id = String(match.0)
            if !ids.contains(id) { ids.append(id) }
            return "9312000000000000\((ids.firstIndex(of: id) ?? 0) + 10)"
        }
    }

    @Test("answer what stands there", arguments: ["native.md", "beside.md"])
    func documented(_ page: String) throws {
        let (clock, folder) = (ManualClock(), TemporaryFolder())
        let server = try TestServer(.sqlite, in: folder) { configuration in
            configuration.clock = { clock.now }
            configuration.control = SocketFile(folder: folder.path, name: "onym.sock")
        }
        let program = URL(filePath: CommandLine.arguments[0]).deletingLastPathComponent().path() + "onym"
        let outcome = try DocumentedCalls(page).run(
            environment: [
                "ONYM": "http://127.0.0.1:\(server.port)", "WEB": server.credentials.idsyncWebKey,
                "ADMIN": server.credentials.adminKey, "CLIENT_KEY": server.credentials.onymClientKey,
                "SERVER_KEY": server.credentials.onymServerKey, "ONYM_DATA": folder.path,
            ], setUp: "onym() { \(program) \"$@\" 2>&1; }", settled: settled)
        #expect(outcome.errors.isEmpty && outcome.isComplete, "\(outcome.errors)")
        #expect(!outcome.recorded.contains("Internal Server Error"))
        #expect(
            outcome.document == outcome.recorded,
            "ONYM_RECORD=1 swift test --filter DocumentedCallsTests writes them anew.")
    }
}
