import Domain
import Foundation
import StoreSQLite
import TestKit
import Testing

@Suite("Erasing people")
struct EraseTests {
    @Test("nothing leads to them any more, and others have what they had", arguments: StoreKind.allCases)
    func erase(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        let one = try client.identify(#"{"customerid":"a","email":"shared"}"#)
        let two = try client.identify(#"{"customerid":"b"}"#)
        let other = try client.identify(#"{"customerid":"c","email":"shared"}"#)
        _ = try client.merge(one, into: two)
        let kept = try client.get("/onym/v1/people/\(other)").wire.body

        let dry = try client.call("DELETE", "/onym/v1/people/customerid:a?dry_run=true")
        #expect(dry.status == 200 && dry["erased"] as? Bool == false && dry.number("identities") == 3, "\(dry)")
        #expect(Set(dry["people"] as? [String] ?? []) == [one, two])
        #expect(try client.get("/onym/v1/people/\(one)").status == 200)

        let receipt = try client.call("DELETE", "/onym/v1/people/customerid:a")
        #expect(receipt.status == 200 && receipt["erased"] as? Bool == true, "\(receipt)")
        #expect(Set(receipt["people"] as? [String] ?? []) == [one, two])
        #expect(receipt.list("tombstones").compactMap { $0["type"] as? String } == ["customerid", "customerid"])
        #expect(receipt.list("kept").first?["held_by"] as? [String] == [other])
        for id in [one, two, "customerid:a", "customerid:b"] {
            for path in ["", "/timeline", "/journal", "/graph"] {
                #expect(try client.get("/onym/v1/people/\(id)\(path)").status == 404, "\(id)\(path)")
            }
            #expect(try client.call("DELETE", "/onym/v1/people/\(id)").status == 404)
        }
        #expect(try client.get("/onym/v1/people/\(other)").wire.body == kept)
        #expect(try client.get("/onym/v1/changes?kinds=person.erased").list("changes").count == 2)
        #expect(try client.modify(one, "[]").status == 404 || client.modify(one, "[]").status == 400)

        let again = try client.identify(#"{"customerid":"a"}"#)
        #expect(![one, two, other].contains(again))
    }

    @Test("a tombstone is released by its id", arguments: StoreKind.allCases)
    func release(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        let one = try client.identify(#"{"customerid":"a"}"#)
        let receipt = try client.call("DELETE", "/onym/v1/people/\(one)")
        let id = try #require(receipt.list("tombstones").first?["id"] as? String)
        #expect(try client.call("DELETE", "/onym/v1/tombstones/\(id)").text("released") == id)
        for wrong in [id, "x", "00"] {
            #expect(try client.call("DELETE", "/onym/v1/tombstones/\(wrong)").status == 404)
        }
        #expect(try client.call("DELETE", "/onym/v1/people/7?dry_run=maybe").status == 400)
    }

    @Test("no byte is left in any file, while others go on")
    func bytes() throws {
        let folder = TemporaryFolder()
        let client = NativeClient(try TestServer(.sqlite, in: folder))
        var people: [String] = []
        for number in 0..<30 {
            people.append(try client.identify(#"{"customerid":"word\#(number)x","email":"word\#(number)x@y"}"#))
        }
        func traces() throws -> Set<Int> {
            var files: [Data] = []
            for name in try FileManager.default.subpathsOfDirectory(atPath: folder.path) {
                if let data = try? Data(contentsOf: URL(filePath: "\(folder.path)/\(name)")) { files.append(data) }
            }
            return Set(
                (0..<30).filter { number in files.contains { $0.range(of: Data("word\(number)x".utf8)) != nil } })
        }
        #expect(try traces().count == 30)
        for number in 0..<10 { #expect(try client.call("DELETE", "/onym/v1/people/\(people[number])").status == 200) }
        // It follows by itself; a compaction that was asked for is over when all is gone.
        #expect(try client.call("POST", "/onym/v1/compact", "{}").status == 202)
        var round = 0
        let isGone = try Patience.until {
            round += 1
            try client.identify(#"{"customerid":"other\#(round)"}"#)
            return try traces() == Set(10..<30) && client.get("/onym/v1/compact")["running"] as? Bool == false
        }
        #expect(isGone)
        #expect(try client.get("/onym/v1/compact").text("done_at") != nil)
    }
}
