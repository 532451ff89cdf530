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

    @Test("as tables, and never of the lines that another project's export has left")
    func otherProject() throws {
        #expect(run(["init"]).code == 0)
        #expect(run(["projects", "create", "Second", "--json"]).code == 0)
        #expect(run(["import", try writePeople(1...3), "--project", "1"]).code == 0)
        try FileManager.default.createDirectory(atPath: path("t"), withIntermediateDirectories: false)
        #expect(run(["export", "--all", "--project", "1", "--output", path("t/lines.jsonl.gz")]).code == 0)
        let words = ["export", "--tables", path("t"), "--format", "csv", "--project", "2"]
        let refused = run(words)
        #expect(refused.code == 1 && refused.text.contains("is an export of project 1"), "\(refused)")
        #expect(run(words + ["--anew"]).code == 0)
        #expect(try rows("people", in: "t").isEmpty)
    }

    /// The rows of a table in CSV, without its header.
    private func rows(_ table: String, in folder: String) throws -> [String] {
        try text("\(folder)/\(table)/part-00000.csv").split(whereSeparator: \.isNewline).dropFirst().map(String.init)
    }

    private func upTo(of folder: String) throws -> String {
        String(try #require(try text("\(folder)/manifest.json").firstMatch(of: /"upto":(\d+)/)).1)
    }

    @Test("as tables that tell a person's own root after an undo, also if the other side was erased since")
    func rootAfterErasure() throws {
        #expect(run(["init"]).code == 0)
        #expect(run(["import", try writePeople(1...3)]).code == 0)
        #expect(run(["merge", "customerid:c2", "customerid:c1"]).code == 0)
        let merged = run(["merge", "customerid:c3", "customerid:c1"])
        let merge = String(try #require(merged.text.firstMatch(of: /m_\d+/)).0)
        #expect(run(["export", "--tables", path("all"), "--format", "csv"]).code == 0)
        let first = try rows("id_graph_updates", in: "all").suffix(2)
        #expect(first.count == 2 && first.allSatisfy { $0.contains(",-1,merged,") }, "\(first)")

        #expect(run(["undo", merge]).code == 0)
        #expect(run(["erase", "customerid:c1"]).code == 0)
        let later = run(["export", "--tables", path("later"), "--format", "csv", "--since", try upTo(of: "all")])
        #expect(later.code == 0, "\(later)")
        let updates = try rows("id_graph_updates", in: "later").map {
            $0.split(separator: ",")[1...3].joined(separator: ",")
        }
        #expect(updates.first == "-3,-3,undone", "\(updates)")
        let numbers = try rows("id_graph_updates", in: "later").compactMap { Int($0.split(separator: ",")[0]) }
        #expect(numbers == numbers.sorted())
        #expect(try rows("people", in: "later").count == 2, "the two erased people")
        #expect(try rows("merges", in: "later").isEmpty, "no merge of an erased person")

        // Erasures of earlier parts do not come again.
        #expect(
            run(["export", "--tables", path("last"), "--format", "csv", "--since", try upTo(of: "later")]).code == 0)
        #expect(try rows("id_graph_updates", in: "last").isEmpty && rows("people", in: "last").isEmpty)
    }

    @Test("as tables of the moment of their lines, if the command was interrupted behind the lines")
    func interruptedTables() throws {
        #expect(run(["init"]).code == 0)
        #expect(run(["import", try writePeople(1...3)]).code == 0)
        try FileManager.default.createDirectory(atPath: path("t"), withIntermediateDirectories: false)
        let words = ["export", "--tables", path("t"), "--format", "csv", "--since", "1"]
        let lines = run(["export", "--all", "--since", "1"]).text
        let upTo = try #require(lines.firstMatch(of: /"upto":(\d+)/)).1
        #expect(run(["export", "--all", "--since", "1", "--output", path("t/lines.jsonl.gz")]).code == 0)
        #expect(run(["merge", "customerid:c3", "customerid:c1"]).code == 0)
        let other = run(words.dropLast() + ["2"])
        #expect(other.code == 1 && other.text.contains("--since 1"), "\(other)")
        let done = run(words)
        #expect(done.code == 0, "\(done)")
        #expect(try self.upTo(of: "t") == String(upTo))
        let updates = try rows("id_graph_updates", in: "t")
        #expect(updates.count == 3 && updates.allSatisfy { $0.contains(",created,") }, "\(updates)")
        #expect(!FileManager.default.fileExists(atPath: path("t/lines.jsonl.gz")))
    }

    @Test("as tables in no folder that has other files under their names")
    func foreignFolder() throws {
        #expect(run(["init"]).code == 0)
        try FileManager.default.createDirectory(atPath: path("home/people"), withIntermediateDirectories: true)
        try "mine".write(toFile: path("home/people/list.txt"), atomically: true, encoding: .utf8)
        let refused = run(["export", "--tables", path("home")])
        #expect(refused.code == 1 && refused.text.contains("home/people is there already"), "\(refused)")
        #expect(try text("home/people/list.txt") == "mine")
        #expect(try FileManager.default.contentsOfDirectory(atPath: path("home")) == ["people"])
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
