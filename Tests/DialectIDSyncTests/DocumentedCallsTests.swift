import EventLoop
import Foundation
import TestKit
import Testing

/// The commands of docs/idsync.md, and the answers that stand there, which
/// `ONYM_RECORD=1 swift test --filter DocumentedCallsTests` writes anew.
@Suite("The commands of docs/idsync.md")
struct DocumentedCallsTests {
    /// What comes from chance: ids, which are numbered as they come up, and the ids of requests.
    private func settled(_ output: String) -> String {
        var ids: [String] = []
        return output.replacing(/\b[0-9a-f]{32}\b/) { _ in "…" }
            .replacing(/9[0-9]{17}/) { match in
                let id = String(match.0)
                if !ids.contains(id) { ids.append(id) }
                return "9120105921768745\((ids.firstIndex(of: id) ?? 0) + 10)"
            }
    }

    @Test("answer what stands there")
    func documented() throws {
        let (clock, folder) = (ManualClock(), TemporaryFolder())
        let server = try TestServer(.sqlite, in: folder) { configuration in
            configuration.clock = { clock.now }
            configuration.control = SocketFile(folder: folder.path, name: "onym.sock")
        }
        let program = URL(filePath: CommandLine.arguments[0]).deletingLastPathComponent().path() + "onym"
        let keys = server.credentials
        let outcome = try DocumentedCalls("idsync.md").run(
            environment: [
                "ONYM": "http://127.0.0.1:\(server.port)", "KEY": keys.idsyncKey, "SECRET": keys.idsyncSecret,
                "ADMIN": keys.adminKey, "ONYM_DATA": folder.path,
            ], setUp: "onym() { \(program) \"$@\" 2>&1; }", settled: settled)
        #expect(outcome.errors.isEmpty && outcome.isComplete, "\(outcome.errors)")
        #expect(!outcome.recorded.contains("Internal Server Error"))
        #expect(
            outcome.document == outcome.recorded,
            "ONYM_RECORD=1 swift test --filter DocumentedCallsTests writes them anew.")
    }
}
