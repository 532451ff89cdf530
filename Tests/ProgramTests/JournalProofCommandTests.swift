import Foundation
import Program
import SQLite
import TestKit
import Testing
import Threads

/// `onym journal head|receipt|proof|verify`, on a store that nobody serves.
@Suite("The program proves the journal")
struct JournalProofCommandTests {
    private let folder = TemporaryFolder()

    private func run(_ words: String...) -> (code: Int32, output: String, errors: String) {
        let texts = Monitor(("", ""))
        let terminal = Terminal(
            output: { line in texts.withLock { $0.0 += line } }, error: { line in texts.withLock { $0.1 += line } })
        let code = Program.run(words + ["--data", folder.path + "/data"], environment: [:], terminal: terminal)
        return texts.withLock { (code, $0.0, $0.1) }
    }

    private func keep(_ text: String, as name: String) throws -> String {
        let path = folder.path + "/" + name
        try text.write(toFile: path, atomically: true, encoding: .utf8)
        return path
    }

    private func importPeople(_ names: ClosedRange<Int>) throws {
        let rows = names.map { "c\($0),c\($0)@example.com" }
        let path = try keep((["id,mail"] + rows).joined(separator: "\n") + "\n", as: "people.csv")
        let map = try keep(
            """
            {"format":"csv","vendor":"shop","key":"id","identities":[{"type":"customerid","from":"id"},
             {"type":"email","from":"mail"}]}
            """, as: "map.json")
        let result = run("import", "--anew", "--from", "csv", "--map", map, path)
        try #require(result.code == 0, "\(result)")
    }

    @Test("by a head and receipts that stay valid while calls come, and after an erasure")
    func valid() throws {
        #expect(run("init").code == 0)
        try importPeople(1...3)
        let head = try keep(run("journal", "head").output, as: "head.json")
        let receipt = try keep(run("journal", "receipt", "2").output, as: "receipt.json")
        let erased = run("erase", "customerid:c2", "--json")
        #expect(erased.code == 0 && erased.output.contains(#""proof":{"seq":"#), "\(erased)")
        let erasure = try keep(erased.output, as: "erasure.json")
        try importPeople(4...9)
        for (flag, path) in [("--head", head), ("--receipt", receipt), ("--receipt", erasure)] {
            let result = run("journal", "verify", flag, path)
            #expect(result.code == 0, "\(path): \(result)")
        }
        #expect(run("journal", "verify", "--head", head).output.contains("are as they were"))
        let proof = run("journal", "proof", "--from", "2")
        #expect(proof.code == 0 && proof.output.contains(#""proof":["#), "\(proof)")
    }

    @Test("and finds a changed call, a changed head and a changed receipt")
    func changed() throws {
        #expect(run("init").code == 0)
        try importPeople(1...3)
        let text = run("journal", "head").output
        let head = try keep(text, as: "head.json")
        let receipt = run("journal", "receipt", "2").output
        let other = run("journal", "receipt", "3").output
        #expect(run("journal", "verify", "--head", head).code == 0)

        let forged = text.replacing(/"leaves":\d+/) { _ in #""leaves":2"# }
        let changedHead = run("journal", "verify", "--head", try keep(forged, as: "forged.json"))
        #expect(changedHead.code == 1 && changedHead.errors.contains("signature"), "\(changedHead)")

        let leaf = try #require(other.firstMatch(of: /"leaf":"([0-9a-f]+)"/)).1
        let swapped = receipt.replacing(/"leaf":"[0-9a-f]+"/) { _ in #""leaf":"\#(leaf)""# }
        let changedReceipt = run("journal", "verify", "--receipt", try keep(swapped, as: "swapped.json"))
        #expect(changedReceipt.code == 1 && changedReceipt.errors.contains("does not prove"), "\(changedReceipt)")

        let renumbered = receipt.replacing(#"{"seq":2,"#, with: #"{"seq":3,"#)
        #expect(renumbered != receipt)
        let otherCall = run("journal", "verify", "--receipt", try keep(renumbered, as: "renumbered.json"))
        #expect(otherCall.code == 1 && otherCall.errors.contains("does not prove"), "\(otherCall)")

        try Connection(path: folder.path + "/data/onym.db", mode: .readWrite)
            .execute("UPDATE journal SET at = at - 1 WHERE sequence = 2")
        let changed = run("journal", "verify", "--head", head)
        #expect(changed.code == 1 && changed.errors.contains("is not the journal of the head"), "\(changed)")
    }

    @Test("and says what is wrong with the words")
    func wrong() throws {
        #expect(run("init").code == 0)
        #expect(run("journal", "verify").code == 2)
        #expect(run("journal", "proof").code == 2)
        #expect(run("journal", "receipt", "99").code == 1)
        #expect(run("journal", "proof", "--from", "99").code == 1)
        #expect(run("journal", "verify", "--head", try keep("{}", as: "empty.json")).code == 1)
        #expect(run("journal", "verify", "--head", folder.path + "/absent.json").code == 1)
    }
}
