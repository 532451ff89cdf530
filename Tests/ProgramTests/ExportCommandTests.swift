import Foundation
import Program
import TestKit
import Testing
import Threads

/// `onym export --all`, on a store that nobody serves.
@Suite("The program exports all people")
struct ExportCommandTests {
    private let folder = TemporaryFolder()

    private func run(_ words: [String], in data: String = "data") -> (code: Int32, text: String) {
        let text = Monitor("")
        let terminal = Terminal(
            output: { line in text.withLock { $0 += line } }, error: { line in text.withLock { $0 += line } })
        return (
            Program.run(words + ["--data", "\(folder.path)/\(data)"], environment: [:], terminal: terminal),
            text.withLock { $0 }
        )
    }

    private func path(_ name: String) -> String { "\(folder.path)/\(name)" }
    private func text(_ name: String) throws -> String { try String(contentsOfFile: path(name), encoding: .utf8) }

    private func writePeople(_ numbers: ClosedRange<Int>) throws -> String {
        let lines = numbers.flatMap { number in
            [
                #"{"kind":"person","id":"-\#(number)","made":"2024-03-01T08:00:00.000Z"}"#,
                #"{"kind":"link","person":"-\#(number)","type":"customerid","value":"c\#(number)","since":"2024-03-02T08:00:00.000Z"}"#,
            ]
        }
        let all = [#"{"kind":"header","onym":1,"form":"facts"}"#] + lines + [#"{"kind":"end","lines":\#(lines.count)}"#]
        try all.map { $0 + "\n" }.joined().write(toFile: path("in.jsonl"), atomically: true, encoding: .utf8)
        return path("in.jsonl")
    }

    @Test("to a file, compressed too, and an import of the file has the same people")
    func files() throws {
        #expect(run(["init"]).code == 0)
        #expect(run(["import", try writePeople(1...2600)]).code == 0)
        let done = run(["export", "--all", "--output", path("all.jsonl")])
        #expect(done.code == 0 && done.text.contains("5202 lines"), "\(done)")
        #expect(!FileManager.default.fileExists(atPath: path("all.jsonl.part")))
        #expect(!FileManager.default.fileExists(atPath: path("all.jsonl.part.next")))
        let lines = try text("all.jsonl").split(separator: "\n")
        #expect(lines.count == 5202 && lines[0].contains(#""form":"facts""#), "\(lines[0])")
        #expect(lines[5201].hasPrefix(#"{"kind":"end","lines":5200,"sums":{"person":[2600,""#), "\(lines[5201])")
        // The vendor's moment stays, not that of the import.
        #expect(lines.contains { $0.contains(#""value":"c7","since":"2024-03-02T08:00:00.000Z","until":null"#) })

        #expect(run(["export", "--all", "--output", path("all.jsonl.gz")]).code == 0)
        #expect(run(["init"], in: "other").code == 0)
        let taken = run(["import", path("all.jsonl.gz")], in: "other")
        #expect(taken.code == 0 && taken.text.contains("People: 2600 taken, 0 were here."), "\(taken)")
        #expect(taken.text.contains("Identities: 2600 taken, 0 were here."), "\(taken)")
        // Both stores have the same sums.
        #expect(run(["export", "--all", "--output", path("other.jsonl")], in: "other").code == 0)
        let sums = try text("other.jsonl").split(separator: "\n").last?.split(separator: "]").dropFirst(1).first
        #expect(sums == lines[5201].split(separator: "]").dropFirst(1).first, "the links are the same")
        #expect(run(["doctor"], in: "other").code == 0)
    }

    @Test("from where an interrupted export stands")
    func resumed() throws {
        #expect(run(["init"]).code == 0)
        #expect(run(["import", try writePeople(1...2600)]).code == 0)
        let printed = run(["export", "--all"])
        let whole = printed.text.split(separator: "\n", omittingEmptySubsequences: false)
        #expect(printed.code == 0 && whole.count == 5203)

        // The state of an export that ended behind its first part, in the midst of the second.
        let answer = run(["export", "--all", "--output", path("whole.jsonl")])
        #expect(answer.code == 0)
        let full = try text("whole.jsonl")
        let cut = try #require(full.range(of: "\n", range: full.index(full.startIndex, offsetBy: 300)..<full.endIndex))
        try String(full[..<cut.upperBound]).write(toFile: path("a.jsonl.part"), atomically: true, encoding: .utf8)
        try "12 5 AAAA\n".write(toFile: path("a.jsonl.part.next"), atomically: true, encoding: .utf8)
        let refused = run(["export", "--all", "--output", path("a.jsonl")])
        #expect(refused.code == 1 && refused.text.contains("--since 5"), "\(refused)")
        // A note that was cut by a crash counts as no note.
        try "12 5".write(toFile: path("a.jsonl.part.next"), atomically: true, encoding: .utf8)
        #expect(run(["export", "--all", "--output", path("a.jsonl")]).code == 0)
        let again = try text("a.jsonl").split(separator: "\n")
        #expect(Array(again.dropFirst()) == Array(full.split(separator: "\n").dropFirst()))
        // An invalid cursor is the server's to refuse.
        try "x".write(toFile: path("b.jsonl.part"), atomically: true, encoding: .utf8)
        try "1 0 AAAA\n".write(toFile: path("b.jsonl.part.next"), atomically: true, encoding: .utf8)
        let invalid = run(["export", "--all", "--output", path("b.jsonl")])
        #expect(invalid.code == 1 && invalid.text.contains("cursor"), "\(invalid)")
        #expect(run(["export", "--all", "--anew", "--output", path("b.jsonl")]).code == 0)
    }

    @Test("and says what is wrong with its flags")
    func flags() throws {
        #expect(run(["init"]).code == 0)
        #expect(run(["export"]).text.contains("ID is missing"))
        #expect(run(["export", "--all", "customerid:1"]).text.contains("one word too many"))
        #expect(run(["export", "customerid:1", "--since", "3"]).text.contains("--since is for --all"))
        #expect(run(["export", "--all", "--anew"]).text.contains("--anew is for --output"))
        #expect(run(["export", "--all", "--since", "x"]).text.contains("since must be"))
    }
}
