import Domain
import Foundation
import SQLite
import StoreSQLite
import TestKit
import Testing

@Suite("Every store forgets who was erased")
struct ErasureContractTests {
    /// People with names, rows, attributes and calls of which each has a word that is nobody else's.
    private struct Town {
        let fixture: StoreFixture
        private(set) var people: [PersonID] = []

        static func word(_ number: Int) -> String { "word\(number)x" }

        init(_ kind: StoreKind, people count: Int) throws {
            fixture = try StoreFixture(kind)
            var edit = StrategyEdit()
            edit.unique = [.customerID, .email]
            edit.login = [.customerID, .email]
            edit.immutable = [.customerID, .email]
            try fixture.set(.edit(edit))
            for number in 0..<count {
                let word = Town.word(number)
                let person = try fixture.identify([
                    .customerID: "\(word)-c", .email: "\(word)-e", .iosIDFV: "shared-\(number / 2)",
                ]).person
                people.append(person)
                // Refused, and so kept with the call alone.
                _ = try fixture.identify([.customerID: "\(word)-c", .email: "\(word)-other"])
                for round in 0..<3 {
                    let body = Array(
                        #"{"what":"\#(word) did \#(round)","long":"\#(String(repeating: word, count: 2000))"}"#.utf8)
                    let rows = (0..<2).map { _ in Row(.event, at: fixture.clock.now, body: body) }
                    let attributes = [Attributes.Write("likes", Array(#""\#(word) \#(round)""#.utf8))]
                    _ = try fixture.process(
                        Ingest(person: person, identities: [], attributes: attributes, rows: rows))
                }
                // Taken back again: no longer in force, and still there.
                _ = try fixture.process([modify(person, add: .other, "\(word)-old")])[0].get()
                _ = try fixture.process([modify(person, remove: .other, "\(word)-old")])[0].get()
            }
        }

        private func modify(
            _ person: PersonID, add: IdentityType? = nil, remove: IdentityType? = nil, _ value: String
        ) -> StoreFixture.IdentifyCall {
            var call = StoreFixture.IdentifyCall(add.map { [$0: value] } ?? [:])
            if let remove { call.oldNames = [remove: value] }
            call.modifies = person
            return call
        }

        /// All that can be read of a person.
        func reading(_ person: PersonID) throws -> String {
            try fixture.store.read { snapshot throws(StoreFault) in
                guard let profile = try Profile(person, in: World.project, snapshot) else { return "nobody" }
                let rows = try snapshot.rows(of: person, .event, from: nil, limit: 100)
                let calls = try snapshot.calls(of: person, before: nil, limit: 100)
                let attributes = profile.properties[0].folded.entries.mapValues(\.value).sorted { $0.key < $1.key }
                return """
                    \(profile.identities.map { "\($0.identity.type) \($0.identity.value)" }) \(profile.counts[.event] ?? 0) \
                    \(rows.map(\.row.body)) \(attributes) \(calls.map { "\($0.sequence) \($0.inputs) \($0.facts)" })
                    """
            }
        }

        /// Takes out all that is to go; as if the server ended in between, if wanted.
        func sweep(crashingAfter steps: Int? = nil) throws {
            var taken = 0
            while try fixture.store.sweep() {
                taken += 1
                if taken == steps { try fixture.reopen() }
                try #require(taken < 10_000)
            }
            while try fixture.store.compact() != .done {}
        }

        /// The people of whom a word is in some file.
        func traces() throws -> [Int] {
            var files = fixture.disk.map { disk in disk.paths.compactMap { disk.bytes(of: $0) }.map { Data($0) } } ?? []
            for name in try FileManager.default.contentsOfDirectory(atPath: fixture.folder.path) {
                files.append(try Data(contentsOf: URL(filePath: "\(fixture.folder.path)/\(name)")))
            }
            return people.indices.filter { number in
                let word = Data(Town.word(number).utf8)
                return files.contains { $0.range(of: word) != nil }
            }
        }
    }

    @Test("others have all that they had, and the erased are nobody", arguments: StoreKind.allCases)
    func others(_ kind: StoreKind) throws {
        let town = try Town(kind, people: 12)
        let (fixture, people) = (town.fixture, town.people)
        let before = try people.map(town.reading)
        for number in [2, 3, 7] {
            guard let erased = try fixture.process(ErasePerson(people[number])).as(Erased.self) else {
                Issue.record("not erased")
                return
            }
            #expect(erased.people == [people[number]] && erased.rows[.event] == 6)
            // Two of a pair share a device: the first of both leaves it to the other.
            #expect(erased.kept.count == (number == 3 ? 0 : 1))
        }
        for isSwept in [false, true] {
            if isSwept { try town.sweep() }
            for (number, person) in people.enumerated() {
                let reading = try town.reading(person)
                if [2, 3, 7].contains(number) {
                    #expect(reading == "nobody")
                } else {
                    #expect(reading == before[number])
                }
            }
        }
        let again = try fixture.identify([.customerID: "\(Town.word(2))-c"])
        #expect(!people.contains(again.person), "whoever comes by that name is somebody else")
        #expect(fixture.process([ErasePerson(people[2])]) == [.failure(.refused(.noSuchPerson))])
        try fixture.reopen()
        #expect(try town.reading(people[3]) == "nobody")
        let findings = try fixture.findings()
        #expect(findings.isEmpty, "\(findings.map(\.description))")
    }

    @Test("counts of people leave out erased people", arguments: StoreKind.allCases)
    func counts(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        let people = try (0..<5).map { try fixture.identify([.customerID: "c\($0)", .email: "e\($0)@x"]).person }
        _ = try fixture.process(MergePeople(from: people[0], into: people[1]))
        _ = try fixture.process(ErasePerson(people[0]))
        _ = try fixture.process(ErasePerson(people[4]))
        func isRight() -> Bool {
            let counts = fixture.store.counts
            return counts.people == 2 && counts.identities == 4 && counts.links == 4
        }
        #expect(isRight(), "\(fixture.store.counts)")
        while try fixture.store.sweep() {}
        while try fixture.store.compact() != .done {}
        #expect(isRight(), "after the sweep: \(fixture.store.counts)")
        try fixture.reopen()
        #expect(isRight(), "after a start: \(fixture.store.counts)")
        // Somebody comes with the name of an erased person, and is one more.
        _ = try fixture.identify([.customerID: "c4"])
        #expect(fixture.store.counts.people == 3)
    }

    @Test(
        "a read that names nobody finds no row of the erased, before the sweep and after it",
        arguments: StoreKind.allCases)
    func rows(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        let people = try (0..<3).map { number in
            let person = try fixture.identify([.customerID: "c\(number)"]).person
            let rows = (0..<2).map { index in
                Row(
                    .event, at: fixture.clock.now, recognition: RowHash(rawValue: UInt64(10 * number + index + 1)),
                    body: Array("{}".utf8))
            }
            _ = try fixture.process(Ingest(person: person, identities: [], attributes: [], rows: rows))
            return person
        }
        func found(_ isAscending: Bool) throws -> [StoredRow] {
            try fixture.store.read { snapshot throws(StoreFault) in
                var range = RowsByTime()
                (range.limit, range.isAscending) = (100, isAscending)
                return try snapshot.rows(of: .event, in: World.project, range)
            }
        }
        let all = try found(true)
        #expect(all.count == 6)
        _ = try fixture.process(ErasePerson(people[1]))
        for isSwept in [false, true] {
            if isSwept { while try fixture.store.sweep() {} }
            for isAscending in [true, false] {
                #expect(try found(isAscending).map(\.person).sorted() == [people[0], people[0], people[2], people[2]])
            }
            for row in all {
                let isErased = row.person == people[1]
                let (byNumber, byHash) = try fixture.store.read { snapshot throws(StoreFault) in
                    (try snapshot.row(row.number), try snapshot.recentRow(row.row.recognition ?? RowHash(rawValue: 0)))
                }
                #expect((byNumber == nil) == isErased && (byHash == nil) == isErased)
            }
        }
    }

    @Test("no byte of what they were called or did is left in any file", arguments: [nil, 1, 5, 9, 14])
    func bytes(_ steps: Int?) throws {
        let town = try Town(.sqlite, people: 40)
        #expect(try town.traces().count == 40)
        let erased = [0, 5, 6, 7, 20, 38, 39]
        for number in erased { _ = try town.fixture.process(ErasePerson(town.people[number])) }
        try town.sweep(crashingAfter: steps)
        #expect(try town.traces() == (0..<40).filter { !erased.contains($0) })
        let findings = try town.fixture.findings()
        #expect(findings.isEmpty, "\(findings.map(\.description))")
    }

    @Test("no byte is left beside somebody who reads, and who is in the way is waited for")
    func readers() throws {
        let town = try Town(.sqlite, people: 20)
        let fixture = town.fixture
        // One that has looked before, and looks again afterwards; it may be asked to do both again.
        var toErase = town.people[..<3]
        let reading = try fixture.store.read { snapshot throws(StoreFault) -> [Int] in
            var counts: [Int] = []
            func count() throws(StoreFault) {
                counts.append(try snapshot.rows(of: town.people[9], .event, from: nil, limit: 100).count)
            }
            try count()
            while let person = toErase.popFirst() {
                guard case .success = fixture.process([ErasePerson(person)])[0] else { return [] }
            }
            while try fixture.store.sweep() {}
            var isDone = false
            while !isDone {
                isDone = try fixture.store.compact() == .done
                // Others write meanwhile.
                guard (try? fixture.identify([.customerID: "meanwhile"])) != nil else { return [] }
            }
            try count()
            return counts
        }
        #expect(reading == [6, 6])
        #expect(try town.traces() == Array(3..<20))

        // One from outside that sees all as it was for as long as it likes.
        let outside = try Connection(
            path: fixture.file.path, mode: .readWrite, disk: fixture.disk?.sqliteName)
        try outside.execute("BEGIN")
        let before = try outside.integer("SELECT count(*) FROM journal")
        for number in 3..<6 { _ = try fixture.process(ErasePerson(town.people[number])) }
        while try fixture.store.sweep() {}
        var step = Compaction.step(pages: 0)
        while case .step = step { step = try fixture.store.compact() }
        #expect(step == .held)
        #expect(try outside.integer("SELECT count(*) FROM journal") == before)
        _ = try fixture.identify([.customerID: "meanwhile, too"])
        #expect(try fixture.store.compact() == .held)
        try outside.execute("COMMIT")
        while try fixture.store.compact() != .done {}
        #expect(try town.traces() == Array(6..<20))
    }

    @Test("no byte is left in the files of PostgreSQL's tables", .enabled(if: StoreKind.allCases.contains(.postgres)))
    func postgresFiles() throws {
        let town = try Town(.postgres, people: 20)
        let cluster = try PostgresCluster.shared.get()
        let schema = try #require(town.fixture.schema?.schema)
        func traces() throws -> [Int] {
            try cluster.run("CHECKPOINT")
            let names = try cluster.run(
                """
                SELECT pg_relation_filepath(c.oid) FROM pg_class c WHERE pg_relation_filepath(c.oid) IS NOT NULL AND (
                    c.relnamespace = '\(schema)'::regnamespace OR c.oid IN (
                        SELECT unnest(ARRAY[t.oid, i.indexrelid]) FROM pg_class t JOIN pg_index i ON i.indrelid = t.oid
                        WHERE t.oid IN (SELECT reltoastrelid FROM pg_class WHERE relnamespace = '\(schema)'::regnamespace)))
                """)
            let files = try names.split(separator: "\n").map {
                try Data(contentsOf: URL(filePath: "\(cluster.folder)/data/\($0)"))
            }
            return town.people.indices.filter { number in
                files.contains { $0.range(of: Data(Town.word(number).utf8)) != nil }
            }
        }
        #expect(try traces() == Array(0..<20))
        for number in 0..<5 { _ = try town.fixture.process(ErasePerson(town.people[number])) }
        while try town.fixture.store.sweep() {}
        #expect(try Patience.until { try town.fixture.store.compact() == .done })
        #expect(try traces() == Array(5..<20))
    }

    @Test("what was captured before comes too late", arguments: StoreKind.allCases)
    func late(_ kind: StoreKind) throws {
        let town = try Town(kind, people: 2)
        let fixture = town.fixture
        let captured = fixture.clock.now
        _ = try fixture.process(ErasePerson(town.people[0]))
        let name = Identity(.customerID, "\(Town.word(0))-c", in: World.project, hash: fixture.store.hash)
        func ingest(_ at: Instant, _ person: PersonID? = nil) throws -> Ingested {
            let rows = [Row(.event, at: at, body: Array("{}".utf8))]
            let identities = person == nil ? [name] : []
            let reply = try fixture.process(Ingest(person: person, identities: identities, rows: rows))
            guard let ingested = reply.as(Ingested.self) else { throw Unexpected(reply: reply) }
            return ingested
        }
        #expect(try ingest(captured).accepted == 0)
        #expect(try ingest(fixture.clock.now, town.people[0]).accepted == 0)
        let fresh = try ingest(fixture.clock.now)
        #expect(fresh.accepted == 1 && !town.people.contains(fresh.person))
        #expect(try ingest(captured).accepted == 0)
        let tombstone = try fixture.store.read { snapshot throws(StoreFault) in
            try snapshot.document(Tombstone.key(of: name.key)).flatMap(Tombstone.init(packed:))
        }
        #expect(tombstone?.dropped == 2 && tombstone?.person == town.people[0])
        _ = try fixture.process(ReleaseTombstone(name.key.hash))
        #expect(try ingest(captured).accepted == 1)
        #expect(
            fixture.process([ReleaseTombstone(name.key.hash)]) == [
                .failure(.refused(.noSuchTombstone))
            ])
    }

    private struct Unexpected: Error { let reply: Reply }
}
