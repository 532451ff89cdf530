import Foundation
import Program
import TestKit
import Testing
import Threads

/// `onym undo`, on a store that nobody serves.
@Suite("The program takes back what an id names")
struct UndoCommandTests {
    private let folder = TemporaryFolder()

    private func run(_ words: [String]) -> (code: Int32, text: String) {
        let text = Monitor("")
        let terminal = Terminal(
            output: { line in text.withLock { $0 += line } }, error: { line in text.withLock { $0 += line } })
        return (
            Program.run(words + ["--data", "\(folder.path)/data"], environment: [:], terminal: terminal),
            text.withLock { $0 }
        )
    }

    @Test("an alias too, after a dry run that changes nothing")
    func alias() throws {
        let (facts, until) = ("\(folder.path)/facts.jsonl", Int(Date().timeIntervalSince1970 * 1000) - 1000)
        let lines = [
            #"{"kind":"header","onym":1,"form":"facts"}"#,
            #"{"kind":"person","id":"-1","made":"2024-03-01T08:00:00.000Z"}"#,
            #"{"kind":"person","id":"-2","made":"2024-03-01T08:00:00.000Z"}"#,
            #"{"kind":"alias","source":"-1","destination":"-2","from":\#(until - 60_000),"until":\#(until)}"#,
            #"{"kind":"end","lines":3}"#,
        ]
        try lines.map { $0 + "\n" }.joined().write(toFile: facts, atomically: true, encoding: .utf8)
        #expect(run(["init"]).code == 0)
        #expect(run(["import", facts]).code == 0)
        func aliases() -> String { run(["person", "-2", "--json"]).text }
        let id = String(try #require(aliases().firstMatch(of: /"aliases":\[\{"id":"(-?\d+)"/), "\(aliases())").1)

        let dry = run(["undo", "a_\(id)", "--dry-run", "--json"])
        #expect(dry.code == 0 && dry.text.contains(#""dry_run":true"#), "\(dry)")
        #expect(!aliases().contains("undone_at"))
        #expect(run(["undo", "a_\(id)", "--reason", "no"]).code == 2)
        #expect(run(["undo", "a_\(id)", "--cascade"]).code == 2)
        let undone = run(["undo", "a_\(id)", "--json"])
        #expect(undone.code == 0 && undone.text.contains(#""undone":"\#(id)","dry_run":false"#), "\(undone)")
        #expect(aliases().contains("undone_at"))
        #expect(run(["undo", "a_x"]).text.contains("There is no alias with this id."))
        let other = run(["undo", "x"])
        #expect(other.code == 2 && other.text.contains("begins with m_, s_, t_ or a_"), "\(other)")
    }
}
