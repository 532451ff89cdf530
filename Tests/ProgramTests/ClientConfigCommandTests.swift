import Foundation
import Program
import TestKit
import Testing
import Threads

/// `onym client-config`, on a store that nobody serves.
@Suite("The program's configuration of clients")
struct ClientConfigCommandTests {
    private let folder = TemporaryFolder()

    private func run(_ words: [String]) -> (code: Int32, text: String) {
        let text = Monitor("")
        let terminal = Terminal(
            output: { line in text.withLock { $0 += line } }, error: { line in text.withLock { $0 += line } })
        return (
            Program.run(words + ["--data", folder.path + "/data"], environment: [:], terminal: terminal),
            text.withLock { $0 }
        )
    }

    @Test("is shown, replaced, and refused where a client would lose its data")
    func config() throws {
        #expect(run(["init"]).code == 0)
        #expect(run(["client-config", "show"]).text == #"{"version":0,"at":null,"native":{},"web":{}}"# + "\n")
        let file = folder.path + "/config.json"
        func write(_ text: String) throws { try text.write(toFile: file, atomically: true, encoding: .utf8) }
        try write(#"{"native":{"stl":60}}"#)
        #expect(run(["client-config", "set", "--file", file]).code == 0)
        let shown = run(["client-config", "show"]).text
        #expect(shown.hasPrefix(#"{"version":1,"at":""#) && shown.hasSuffix(#","native":{"stl":60},"web":{}}"# + "\n"))
        try write(shown)
        #expect(run(["client-config", "set", "--file", file]).text == shown, "what is shown can be set")
        try write(#"{"native":{"rp":50}}"#)
        let refused = run(["client-config", "set", "--file", file])
        #expect(refused.code == 1 && refused.text.contains("native.rp cannot be set"), "\(refused)")
        #expect(run(["client-config", "set"]).code == 2)
    }
}
