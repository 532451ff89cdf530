import Foundation
import Program
import TestKit
import Testing
import Threads

/// `onym import`, on a store that nobody serves.
@Suite("The program imports files")
struct ImportCommandTests {
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

    private func write(_ text: String, _ name: String = "people.jsonl") throws -> String {
        let path = folder.path + "/" + name
        try text.write(toFile: path, atomically: true, encoding: .utf8)
        return path
    }

    private static func facts(_ lines: [String], end: Bool = true) -> String {
        ([#"{"kind":"header","onym":1,"form":"facts"}"#] + lines
            + (end ? [#"{"kind":"end","lines":\#(lines.count)}"#] : [])).joined(separator: "\n") + "\n"
    }

    private static func people(_ numbers: ClosedRange<Int>) -> [String] {
        numbers.flatMap { number in
            [
                #"{"kind":"person","id":"-\#(number)","made":"2024-03-01T08:00:00Z"}"#,
                #"{"kind":"link","person":"-\#(number)","type":"customerid","value":"c\#(number)"}"#,
            ]
        }
    }

    @Test("of the form facts: tried, done, done again, mended, and taken back")
    func facts() throws {
        #expect(run(["init"]).code == 0)
        let lines =
            ImportCommandTests.people(1...3)
            + [#"{"kind":"link","person":"-2","type":"customerid","value":"c1","since":"2024-01-01T00:00:00Z"}"#]
        let path = try write(ImportCommandTests.facts(lines))
        let tried = run(["import", "--dry-run", path])
        #expect(tried.code == 0 && tried.text.contains("People: 3 taken"), "\(tried)")
        #expect(tried.text.contains("Nothing was written."))
        #expect(run(["person", "customerid:c1"]).code != 0)

        let done = run(["import", path])
        #expect(
            done.code == 0 && done.text.contains("Identities: 3 taken, 0 were here, 1 refused (1 held)."), "\(done)")
        let refused = try String(contentsOfFile: path + ".refused.jsonl", encoding: .utf8)
        #expect(refused.contains(#""line":8,"reason":"held","detail":"customerid:c1 is held by -1.""#), "\(refused)")
        #expect(run(["import", path]).text.contains("Identities: 0 taken, 3 were here"))

        let mended = try write(
            refused.replacingOccurrences(of: #""value":"c1""#, with: #""value":"c9""#), "mended.jsonl")
        #expect(run(["import", mended]).text.contains("Identities: 1 taken"), "a refused file imports as it is")
        #expect(run(["person", "customerid:c9"]).text.contains("-2"))

        let id = try #require(done.text.split(separator: " ").first { $0.hasPrefix("i_") })
        let undone = run(["import", "undo", String(id)])
        #expect(undone.code == 0 && undone.text.contains("Ended: 3 links"), "\(undone)")
        #expect(run(["person", "customerid:c1"]).code != 0)
        #expect(run(["doctor"]).code == 0)
    }

    @Test("whose calls the list of calls shows in short, and the call itself whole")
    func listed() throws {
        #expect(run(["init"]).code == 0)
        let path = try write(ImportCommandTests.facts(ImportCommandTests.people(1...100)))
        #expect(run(["import", path]).code == 0)
        let lines = run(["audit"]).text.split(separator: "\n")
        #expect(lines.contains { $0.contains(/^ {6}… and 28\d more, which --json shows$/) }, "\(lines)")
        #expect(!lines.contains("    refused       -"), "nothing is said of what a call does not have: \(lines)")
        let calls = run(["audit", "--json"]).text
        let call = try #require(
            calls.firstMatch(of: /"seq":(\d+),"at":"[^"]*","kind":"import"/), "\(calls.prefix(2000))"
        ).1
        let whole = run(["call", String(call)]).text
        #expect(whole.components(separatedBy: "fact linked").count == 101, "\(whole)")
    }

    @Test("that are compressed, in several parts, and from where an interrupted import stands")
    func resumed() throws {
        #expect(run(["init"]).code == 0)
        let all = ImportCommandTests.people(1...1400)
        let cut = try write(ImportCommandTests.facts(all, end: false))
        let first = run(["import", cut])
        #expect(first.code == 1 && first.text.contains("is cut"), "\(first)")
        _ = try write(ImportCommandTests.facts(all))
        let second = run(["import", cut])
        #expect(second.code == 0 && second.text.contains("goes on at byte"), "\(second)")
        #expect(second.text.contains("People: 1400 taken"), "the counts are those of the whole import: \(second)")

        let other = try write(ImportCommandTests.facts(Array(all.prefix(1200)), end: false), "b.jsonl")
        #expect(run(["import", other]).code == 1)
        _ = try write(ImportCommandTests.facts(all.map { $0.replacingOccurrences(of: "c1", with: "d1") }), "b.jsonl")
        let changed = run(["import", other])
        #expect(changed.code == 1 && changed.text.contains("The files have changed"), "\(changed)")
        #expect(run(["import", "--anew", other]).code == 0)

        let packed = try write(ImportCommandTests.facts(ImportCommandTests.people(5000...5002)), "c.jsonl")
        _ = try Shell.run("gzip", "-k", packed)
        let unpacked = run(["import", packed + ".gz", cut])
        #expect(unpacked.text.contains("People: 3 taken, 1400 were here"), "\(unpacked)")
    }

    @Test("and completes the file of refused records of a command that was killed")
    func refusedAfterKill() throws {
        #expect(run(["init"]).code == 0)
        let held = (1...3).map {
            #"{"kind":"link","person":"-\#($0 * 100)","type":"customerid","value":"c\#($0)","since":"2024-01-01T00:00:00Z"}"#
        }
        let all = ImportCommandTests.people(1...300) + held + ImportCommandTests.people(301...1200)
        let path = try write(ImportCommandTests.facts(all, end: false))
        #expect(run(["import", path]).code == 1)
        let refused = path + ".refused.jsonl"
        let whole = try String(contentsOfFile: refused, encoding: .utf8)
        #expect(whole.split(separator: "\n").count == 3)
        _ = try write(ImportCommandTests.facts(all))
        // The last lines were not written, or the last one in part.
        let last = whole.split(separator: "\n")[2]
        for kept in [whole, "", String(whole.dropLast(last.utf8.count + 1)), String(whole.dropLast(5))] {
            try kept.write(toFile: refused, atomically: true, encoding: .utf8)
            let again = run(["import", path])
            #expect(again.code == 0 && again.text.contains("The refused records are in"), "\(again)")
            #expect(try String(contentsOfFile: refused, encoding: .utf8) == whole)
            #expect(run(["doctor"]).code == 0)
            // Another import that is interrupted at the same place.
            _ = try write(ImportCommandTests.facts(all, end: false))
            #expect(run(["import", "--anew", path]).code == 1)
            _ = try write(ImportCommandTests.facts(all))
        }
    }

    @Test("that vendors and mapping files describe")
    func vendors() throws {
        #expect(run(["init"]).code == 0)
        let profile = """
            {"mpid":9080350317581165001,"created_timestamp_ms":1574704283462,\
            "device_identities":[{"type":"android_id","encoding":"none","value":"8789c459016a94b0"}],\
            "user_identities":[{"type":"email","encoding":"none","value":"a@b.c"}],"user_attributes":{"ltv":"342.1"}}

            """
        let mparticle = run(["import", "--from", "mparticle", try write(profile, "profiles.json")])
        #expect(mparticle.code == 0 && mparticle.text.contains("People: 1 taken"), "\(mparticle)")
        #expect(run(["person", "email:a@b.c"]).text.contains("9080350317581165001"))

        let merges =
            "canonical_segment_id,segment_id,seq,received_at,uuid_ts,timestamp\nprofile_1,profile_2,1,2022-06-22 10:48:00,2022-06-22 10:48:00,2022-06-22 10:48:00\n"
        let segment = run(["import", "--from", "segment", try write(merges, "profile_merges.csv")])
        #expect(segment.code == 0 && segment.text.contains("Merges: 1 taken"), "\(segment)")

        let edges = "customerid:x,email:x@y.z\nemail:x@y.z,ios_idfv:I1,2024-01-01T00:00:00Z\nnot an edge\n"
        let joined = run(["import", "--from", "edges", try write(edges, "edges.csv")])
        #expect(joined.code == 0 && joined.text.contains("Identities: 3 taken"), "\(joined)")
        let one = run(["explain", "customerid:x", "ios_idfv:I1"])
        #expect(one.text.contains("i_"), "the chain names the import: \(one)")
        let calls = run(["stats", "--json"]).text
        let empty = run(["import", "--from", "edges", "/dev/null"])
        #expect(empty.code == 1 && empty.text.contains("nothing to import"), "\(empty)")
        #expect(run(["stats", "--json"]).text == calls, "no import is made")
    }

    @Test("of edges, and joins no people by texts that only look the same")
    func edgesByBytes() throws {
        #expect(run(["init"]).code == 0)
        let path = folder.path + "/edges.csv"
        // The letters é and è of Latin-1, which are no UTF-8, and a letter in Unicode's two forms.
        var rows: [UInt8] = [0xEF, 0xBB, 0xBF] + Array("customerid:z,email:z@x.y\ncustomerid:a,email:andr".utf8)
        rows += [0xE9] + Array("@x.y\ncustomerid:b,email:andr".utf8)
        rows += [0xE8] + Array("@x.y\ncustomerid:c,email:e\u{301}@x.y\ncustomerid:d,email:\u{E9}@x.y\n".utf8)
        try Data(rows).write(to: URL(filePath: path))
        let done = run(["import", "--from", "edges", path])
        #expect(done.code == 0 && done.text.contains("Identities: 6 taken, 0 were here."), "\(done)")
        let refused = try String(contentsOfFile: path + ".refused.jsonl", encoding: .utf8).split(separator: "\n")
        #expect(refused.count == 2 && refused.allSatisfy { $0.contains("not text in UTF-8") }, "\(refused)")
        for (one, other) in [("a", "b"), ("c", "d")] {
            let apart = run(["explain", "customerid:\(one)", "customerid:\(other)", "--json"])
            #expect(apart.text.contains(#""connected":false"#), "\(apart)")
        }
        #expect(run(["explain", "customerid:c", "email:e\u{301}@x.y", "--json"]).text.contains(#""connected":true"#))
    }

    @Test("of edges to their end, also behind many rows about people who came before")
    func edgesAgain() throws {
        #expect(run(["init"]).code == 0)
        let known = String(repeating: "customerid:x,email:x@y.z\n", count: 9000)
        let done = run(["import", "--from", "edges", try write(known + "customerid:last,email:l@y.z\n", "edges.csv")])
        #expect(done.code == 0 && done.text.contains("Identities: 4 taken"), "\(done)")
        #expect(run(["person", "customerid:last"]).code == 0)
    }

    @Test("and nothing of them reaches the terminal as a command, not even the name of a property")
    func terminal() throws {
        #expect(run(["init"]).code == 0)
        let lines = [
            #"{"kind":"person","id":"-1","made":"2024-03-01T08:00:00Z"}"#,
            #"{"kind":"property","person":"-1","dialect":"idsync","name":"\u001b[2Jplan","value":"\u001b[3Jpro"}"#,
            #"{"kind":"link","person":"-1","type":"customerid","value":"\u001b[4Jada"}"#,
            #"{"kind":"link","person":"-1","type":"ios_idfv","value":"shared"}"#,
            #"{"kind":"person","id":"-2","made":"2024-03-01T08:00:00Z"}"#,
            #"{"kind":"link","person":"-2","type":"ios_idfv","value":"shared"}"#,
        ]
        #expect(run(["import", try write(Self.facts(lines))]).code == 0)
        let shown = run(["person", "-1"])
        #expect(shown.text.contains("[2Jplan") && shown.text.contains("[3Jpro"), "\(shown)")
        let several = run(["person", "shared"])
        #expect(several.code == 1 && several.text.contains("[4Jada"), "\(several)")
        #expect(!shown.text.contains("\u{1B}") && !several.text.contains("\u{1B}"), "\(shown) \(several)")
    }

    @Test("and shows the facts of the first five records by --map-check, without a store")
    func mapCheck() throws {
        let map = try write(
            #"{"format":"csv","vendor":"shop","key":"user_id","identities":[{"type":"customerid","from":"user_id"}],"#
                + #""properties":{"dialect":"idsync","from":"*","except":["user_id"]}}"#, "shop.map.json")
        let rows = (1...7).map { "u\($0),plan \($0)" }
        let path = try write("user_id,plan\n" + rows.joined(separator: "\n") + "\n", "people.csv")
        let shown = run(["import", "--from", "csv", "--map", map, "--map-check", path])
        #expect(shown.code == 0, "\(shown)")
        for number in 1...5 {
            #expect(shown.text.contains("people.csv, line \(number + 1):"))
            #expect(shown.text.contains(#""value":"u\#(number)""#) && shown.text.contains("plan \(number)"), "\(shown)")
        }
        #expect(!shown.text.contains("u6") && !shown.text.contains("x_line"))
        #expect(!FileManager.default.fileExists(atPath: folder.path + "/data"))
        let json = run(["import", "--from", "csv", "--map", map, "--map-check", "--json", path])
        let lines = json.text.split(separator: "\n")
        #expect(lines.count >= 10 && lines.allSatisfy { $0.hasPrefix("{") && $0.hasSuffix("}") }, "\(json)")
        #expect(run(["import", "--map-check", path]).code != 0, "only files of vendors have maps")
    }

    @Test("and refuses what it cannot read")
    func refuses() throws {
        #expect(run(["init"]).code == 0)
        for (words, reason) in [
            (["import", "/nowhere"], "cannot be read"), (["import", "--from", "paper", "x"], "--from must be"),
            (["import", "--on-conflict", "maybe", "x"], "refuse or join"),
            (["import", "--world", "sandbox", "x"], "for files of vendors"),
            (["import", "--from", "csv", "x"], "--map"), (["import", "undo", "i_7"], "no import"),
            (["import", try write("{}\n", "x.jsonl")], "does not begin"),
            (["import", try write(#"{"kind":"header","onym":2,"form":"facts"}"#, "y.jsonl")], "must have"),
        ] {
            let refused = run(words)
            #expect(refused.code != 0 && refused.text.contains(reason), "\(words): \(refused)")
        }
    }
}
