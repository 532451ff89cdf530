import Domain
import SQLite
import TestKit
import Testing

@Suite("The embedded store removes what is of erased people in small steps")
struct SweepTests {
    @Test("a step writes a hundred calls or documents anew at most, and the last one leaves none")
    func steps() throws {
        let fixture = try StoreFixture(.sqlite)
        let person = try fixture.identify([.customerID: "ada"]).person
        let body = Array(#"{"event_name":"word"}"#.utf8)
        for _ in 0..<350 {
            let rows = [Row(.event, at: fixture.clock.now, body: body)]
            _ = try fixture.process(Ingest(person: person, identities: [], attributes: [], rows: rows))
        }
        // Calls of somebody else that name the person's value.
        for _ in 0..<150 { _ = try fixture.identify([.customerID: "ada", .iosIDFV: "other"]) }
        _ = try fixture.process(ErasePerson(person))
        let file = try Connection(path: fixture.folder.path + "/onym.db", mode: .readWrite)
        func left() throws -> [Int64] {
            try [
                "journal WHERE reply <> x'' AND kind <> \(ActKind.erase.rawValue)",
                "documents WHERE body <> x'' AND kind <> \(DocumentKind.tombstone.rawValue)", "rows WHERE body <> x''",
            ].map { try file.integer("SELECT count(*) FROM \($0)") ?? 0 }
        }
        var (before, steps) = (try left(), 0)
        let first = before
        while try fixture.store.sweep() {
            let now = try left()
            #expect(zip(before, now).allSatisfy { $0 - $1 <= 100 }, "\(before) \(now)")
            before = now
            steps += 1
            try #require(steps < 1000)
        }
        #expect(first[0] - before[0] >= 350 && before[2] == 0, "\(first) \(before)")
    }
}
