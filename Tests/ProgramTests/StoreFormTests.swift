import Domain
import Foundation
import Program
import StoreSQLite
import TestKit
import Testing
import Threads

/// `onym export --all --form store` and `onym import --from store`.
@Suite("The program exports a whole store")
struct StoreFormTests {
    private let folder = TemporaryFolder()

    private func run(_ words: [String]) -> (code: Int32, output: String, errors: String) {
        let texts = Monitor(("", ""))
        let terminal = Terminal(
            output: { line in texts.withLock { $0.0 += line + "\n" } },
            error: { line in texts.withLock { $0.1 += line } })
        let code = Program.run(words, environment: [:], terminal: terminal)
        return texts.withLock { (code, $0.0, $0.1) }
    }

    private func path(_ name: String) -> String { folder.path + "/" + name }

    private func patient() throws -> StoreFixture {
        let fixture = try StoreFixture.patient(.sqlite)
        let person = try fixture.identify([.customerID: "c7"]).person
        _ = try fixture.process(ErasePerson(person))
        while try fixture.store.sweep() {}
        return fixture
    }

    @Test("into an empty folder, with the same rows, the same head and healthy, and the same again from there")
    func roundTrip() throws {
        let fixture = try patient()
        let head = try fixture.store.read { (facts) throws(StoreFault) in try facts.journalHead() }
        // Beside the open store.
        let first = run([
            "export", "--all", "--form", "store", "--output", path("a.jsonl.gz"), "--data", fixture.folder.path,
        ])
        #expect(first.code == 0 && first.output.contains("up to call"), "\(first)")
        let made = run(["import", "--from", "store", path("a.jsonl.gz"), "--data", path("made")])
        #expect(made.code == 0 && made.output.contains("links: "), "\(made)")
        let file = StoreFile(folder: path("made"))
        #expect(try Doctor(file) { _ in }.examine().isEmpty)

        func lines(_ data: String) -> String { run(["export", "--all", "--form", "store", "--data", data]).output }
        let original = lines(fixture.folder.path)
        #expect(original.contains(#""kind":"end""#))
        #expect(lines(path("made")) == original, "the same bytes")

        let store = try SQLiteStore(file)
        defer { store.close() }
        #expect(try store.read { (facts) throws(StoreFault) in try facts.journalHead() } == head)
        #expect(store.counts == fixture.store.counts)
        #expect(store.directory.projects == fixture.store.directory.projects)
    }

    @Test("and makes nothing from a file that is cut, changed or of another form, or in a folder with a store")
    func refused() throws {
        let fixture = try patient()
        let text = run(["export", "--all", "--form", "store", "--data", fixture.folder.path]).output
        let lines = text.split(separator: "\n").map(String.init)
        func attempt(_ lines: [String], _ message: String, end: String = "\n") throws {
            try (lines.joined(separator: "\n") + end).write(toFile: path("b"), atomically: true, encoding: .utf8)
            let result = run(["import", "--from", "store", path("b"), "--data", path("none")])
            #expect(result.code == 1 && result.errors.contains(message), "\(result)")
            #expect(!FileManager.default.fileExists(atPath: path("none/onym.db")))
            #expect(!FileManager.default.fileExists(atPath: path("none/onym.db.new")))
        }
        try attempt(Array(lines.dropLast()), "is cut")
        try attempt([#"{"kind":"end","lines":0,"tables":{}}"#], "does not begin with a header")
        try attempt(Array(lines.dropFirst()), "does not begin with a header")
        try attempt(lines, "is cut", end: "")
        let link = try #require(lines.firstIndex { $0.contains(#""table":"links""#) })
        var changed = lines
        changed[link] = changed[link].replacing("\"c0\"", with: "\"c1\"")
        try #require(changed != lines)
        try attempt(changed, "was changed")
        var missing = lines
        missing.remove(at: link)
        try attempt(missing, "was changed")
        var other = lines
        other[0] = other[0].replacing(#""schema":"#, with: #""schema":1"#)
        try attempt(other, "another version")
        other[0] = #"{"kind":"header","onym":1,"form":"facts"}"#
        try attempt(other, "not store")

        try text.write(toFile: path("b"), atomically: true, encoding: .utf8)
        let result = run(["import", "--from", "store", path("b"), "--data", fixture.folder.path])
        #expect(result.code != 0 && !result.errors.isEmpty, "\(result)")
        #expect(run(["export", "--all", "--form", "nonsense", "--data", fixture.folder.path]).code == 2)
        #expect(run(["import", "--from", "store", path("b"), path("b"), "--data", path("none")]).code == 2)
    }
}
