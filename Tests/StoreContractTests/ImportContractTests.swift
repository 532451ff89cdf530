import Domain
import Engine
import TestKit
import Testing

/// Imports over stored facts: what is taken, what is refused, and what an undo leaves. Random files have equal results on every
/// store.
@Suite("Every store imports records")
struct ImportContractTests {
    /// One import into a store.
    private final class Importing {
        let fixture: StoreFixture
        let id: ImportID
        private var position: UInt64 = 0

        init(_ fixture: StoreFixture, _ onConflict: Import.OnConflict = .refuse) throws {
            self.fixture = fixture
            let started = try fixture.process(
                StartImport(name: "f", form: "facts", onConflict: onConflict, since: fixture.store.counts.lastSequence))
            id = try #require(started.as(ImportShown.self)).progress.id
        }

        func take(_ records: [ImportRecord], dryRun: ImportDryRun? = nil) throws -> [ImportOutcome] {
            let to = Import.Place(position: position + UInt64(records.count), line: 0, crc: 0)
            let reply = try fixture.process(
                ImportRecords(id, from: position, to: to, records, dryRun: dryRun))
            dryRun?.keep()
            position = to.position
            return try #require(reply.as(Imported.self)).results.map(\.outcome)
        }

        /// Takes the whole import back, and returns the sum of all parts.
        func undo() throws -> ImportUndone {
            let parts = try fixture.store.read { [id] snapshot throws(StoreFault) in
                var parts: [UndoImport.Part] = []
                for call in try snapshot.calls(after: .zero, limit: 10_000) {
                    if let part = try call.part(of: id, snapshot) { parts.append(part) }
                }
                return parts
            }
            var sum = ImportUndone(id, isComplete: false)
            for (place, part) in (parts + [UndoImport.Part()]).enumerated() {
                let reply = try fixture.process(UndoImport(id, part, isLast: place == parts.count))
                sum = sum + (try #require(reply.as(ImportUndone.self)))
            }
            return sum
        }
    }

    private static func identity(_ type: IdentityType, _ value: String) -> Identity {
        Identity(type, value, in: World.project, hash: World.hash)
    }

    private static func key(_ name: String) -> ImportRecord.Owner { .key(identity(.importedID, "v:\(name)")) }

    private static func link(
        _ owner: ImportRecord.Owner, _ type: IdentityType, _ value: String, until: Instant? = nil, again: Bool = false
    ) -> ImportRecord {
        let identity = identity(type, value)
        let needsUser = type == .accessIdentity
        return ImportRecord(
            line: 1, kind: .link, owner: owner,
            content: .link(identity, since: Instant(milliseconds: 1_700_000_000_000), until: until),
            user: needsUser ? self.identity(.accessUserID, "QON_of_\(value)") : nil, isAgain: again)
    }

    private static func person(_ owner: ImportRecord.Owner, made: Int64) -> ImportRecord {
        ImportRecord(
            line: 1, kind: .person, owner: owner, content: .person(made: Instant(milliseconds: made), seen: nil))
    }

    private static func property(_ owner: ImportRecord.Owner, _ value: String, at: Int64) -> ImportRecord {
        ImportRecord(
            line: 1, kind: .property, owner: owner,
            content: .property(
                .attributes, Attributes.Write("plan", Array(value.utf8)), at: Instant(milliseconds: at)))
    }

    private static func purchase(
        _ type: IdentityType, _ principal: String, _ original: String, asOf: Int64 = 5
    ) -> ImportRecord {
        var told = Purchase.Transaction(id: original, product: "pro", startedAt: Instant(milliseconds: 1))
        told.isImported = true
        told.signedAt = Instant(milliseconds: asOf)
        return ImportRecord(
            line: 1, kind: .purchase, owner: .key(identity(type, principal)),
            content: .purchase(
                Receipt(
                    purchase: PurchaseID(.appStore, original, in: .production, of: World.project, hash: World.hash),
                    source: .appStore, originalTransaction: original, told: told)),
            user: identity(.accessUserID, "QON_of_\(principal)"))
    }

    private static func merge(_ from: ImportRecord.Owner, _ into: ImportRecord.Owner) -> ImportRecord {
        ImportRecord(line: 1, kind: .merge, owner: from, content: .merge(into: into, .imported))
    }

    private static let kept = ImportRecord.Owner.id(PersonID(rawValue: -5_045_766_802_590_845_105))
    private static let made: Int64 = 1_600_000_000_000

    /// mParticle's ids of people are any numbers of 64 bits. Merges of equal user ids once took the ids that followed, and so did all
    /// ids after a move to PostgreSQL.
    @Test(
        "and no id follows one that another server gave, also by a merge, after a start and after a move",
        arguments: StoreKind.allCases, [UInt64(1), 5])
    func foreignIDs(_ kind: StoreKind, _ seed: UInt64) throws {
        typealias Tests = ImportContractTests
        let fixture = try StoreFixture(kind, seed: seed)
        var edit = StrategyEdit()
        edit.joinsSameUserIDs = true
        try fixture.set(.edit(edit))
        for name in ["ada", "bob", "eve"] {
            _ = try fixture.process(
                Claim(
                    anonymous: Tests.identity(.claimAnonymousID, "owl_\(name)"),
                    user: Tests.identity(.claimUserID, name)))
        }
        let importing = try Importing(fixture)
        let foreign = [Int64.max, 1 << 62, -5].map { ImportRecord.Owner.id(PersonID(rawValue: $0)) }
        let records = zip(foreign, ["ada", "bob", "eve"]).flatMap { owner, name in
            [Tests.person(owner, made: Tests.made), Tests.link(owner, .customerID, name)]
        }
        #expect(try importing.take(records).allSatisfy { $0 == .taken })
        #expect(fixture.store.counts.merges == 6, "each imported user is one with the user of the other dialect")
        for turn in 0..<2 {
            let limit = PersonID(at: fixture.clock.now.advanced(byMilliseconds: 60_000), chance: 0)
            let person = try fixture.identify([.customerID: "new \(turn)"]).person
            #expect(person < limit)
            let merges = try fixture.store.read { snapshot throws(StoreFault) in
                try snapshot.merges(before: nil, limit: 10)
            }
            #expect(merges.count == 6 && merges.allSatisfy { $0.rawValue < limit.rawValue })
            #expect(try #require(fixture.store.lastPerson) < limit)
            try fixture.reopen()
            #expect(try #require(fixture.store.lastPerson) >= person)
            #expect(try #require(fixture.store.lastPerson) < limit)
        }
    }

    /// Another Onym server's clock can be ahead of this one's.
    @Test("and an id that is a little ahead of the clock makes no id twice", arguments: StoreKind.allCases)
    func idAhead(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        let people = try (0..<3).map { try fixture.identify([.customerID: "\($0)"]).person }
        let ahead = PersonID(at: fixture.clock.now.advanced(byMilliseconds: 30_000), chance: 7)
        let taken = try Importing(fixture).take([ImportContractTests.person(.id(ahead), made: ImportContractTests.made)]
        )
        #expect(taken == [.taken])
        var given: [MergeID] = []
        for person in people.dropFirst() {
            let merge = try #require(try fixture.process(MergePeople(from: person, into: people[0])).as(Merge.self))
            given.append(merge.id)
            try fixture.reopen()
        }
        #expect(given.count == Set(given).count && given == given.sorted { $0.rawValue < $1.rawValue })
    }

    @Test("and refuse what stored facts contradict", arguments: StoreKind.allCases)
    func conflicts(_ kind: StoreKind) throws {
        typealias Tests = ImportContractTests
        let fixture = try StoreFixture(kind)
        let ada = try fixture.identify([.customerID: "ada"]).person
        let gone = try fixture.identify([.email: "gone@example.com"]).person
        _ = try fixture.process(ErasePerson(gone))
        let importing = try Importing(fixture)
        let (a, b) = (Tests.key("a"), Tests.key("b"))
        let cases: [(ImportRecord, ImportOutcome)] = [
            (Tests.person(Tests.kept, made: Tests.made), .taken),
            (Tests.person(Tests.kept, made: Tests.made), .same),
            (Tests.person(a, made: Tests.made), .taken),
            (Tests.person(.id(gone), made: Tests.made), .refused(.erased)),
            (Tests.link(a, .customerID, "eve"), .taken),
            (Tests.link(a, .customerID, "eve"), .same),
            (Tests.link(b, .customerID, "eve"), .refused(.held)),
            (Tests.link(b, .customerID, "ada"), .refused(.held)),
            (Tests.link(.id(ada), .customerID, "ada"), .same),
            (Tests.link(b, .email, "gone@example.com"), .refused(.erased)),
            (Tests.link(b, .email, "gone@example.com", again: true), .taken),
            (Tests.link(b, .customerID, "null"), .refused(.blocked)),
            (Tests.link(b, .email, "old@example.com", until: Instant(milliseconds: 2)), .taken),
            (Tests.link(b, .email, "old@example.com", until: Instant(milliseconds: 2)), .same),
            (Tests.link(b, .linkingExternalID, "x1"), .taken),
            (Tests.link(b, .linkingExternalID, "x2"), .refused(.otherIdentity)),
            (Tests.property(a, "1", at: 10), .taken),
            (Tests.property(a, "1", at: 10), .same),
            (Tests.property(a, "0", at: 9), .same),
            (Tests.property(a, "2", at: 11), .taken),
            (Tests.link(a, .accessUserID, "QON_1"), .taken),
            (Tests.purchase(.accessUserID, "QON_1", "t1"), .taken),
            (Tests.purchase(.accessUserID, "QON_1", "t1"), .same),
            (Tests.purchase(.accessUserID, "QON_2", "t1"), .refused(.twoOwners)),
            (Tests.purchase(.accessIdentity, "bob", "t2"), .taken),
            (Tests.merge(a, Tests.kept), .taken),
            (Tests.merge(a, Tests.kept), .same),
            (Tests.merge(a, Tests.key("nobody")), .refused(.noSuchPerson)),
        ]
        #expect(try importing.take(cases.map(\.0)) == cases.map(\.1))
        let last = fixture.store.counts.lastSequence
        let external = Tests.identity(.linkingExternalID, "x1")
        let (now, then) = try fixture.store.read { snapshot throws(StoreFault) in
            let person = snapshot.holders(of: external.key)[0]
            let then = try PastSnapshot.read(snapshot, after: last, in: World.project) { past throws(StoreFault) in
                try past.identities(of: person).map(\.value)
            }
            return (try snapshot.identities(of: person).map(\.value), then)
        }
        #expect(
            Set(then) == Set(now) && then.count == now.count, "a link that ended before the import is not held after it"
        )
        // The same file changes nothing.
        let before = try fixture.store.read { snapshot throws(StoreFault) in try snapshot.lastCall() }
        let again = try Importing(fixture).take(cases.map(\.0))
        #expect(!again.contains(.taken) || again == cases.map { $0.1 == .taken ? .same : $0.1 })
        #expect(again.count { $0.isRefused } == cases.count { $0.1.isRefused })
        let facts = try fixture.store.read { snapshot throws(StoreFault) in
            try snapshot.calls(after: before, limit: 10).filter { $0.kind == .importRecords }.flatMap(\.facts)
        }
        #expect(
            facts.allSatisfy { if case .documentPut(_, .importProgress) = $0 { true } else { false } }, "\(facts)")
    }

    @Test("and ids of other servers do not disturb the numbers of new people", arguments: StoreKind.allCases)
    func numbering(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        let first = try fixture.identify([.customerID: "first"]).person
        let late = ImportRecord.Owner.id(PersonID(rawValue: .max - 5))
        _ = try Importing(fixture).take([
            ImportContractTests.person(late, made: ImportContractTests.made),
            ImportContractTests.link(late, .customerID, "late"),
            ImportContractTests.link(ImportContractTests.kept, .customerID, "kept"),
        ])
        for name in ["second", "third"] {
            let next = try fixture.identify([.customerID: name]).person
            #expect(next > first && next < PersonID.limit(at: fixture.clock.now), "\(next)")
            try fixture.reopen()
        }
        #expect(try fixture.identify([.customerID: "kept"]).person.rawValue == -5_045_766_802_590_845_105)
        #expect(try fixture.identify([.customerID: "late"]).person.rawValue == .max - 5)
        let made = try fixture.store.read { snapshot throws(StoreFault) in
            try snapshot.madeAt(PersonID(rawValue: .max - 5))
        }
        #expect(made.milliseconds == ImportContractTests.made)
    }

    /// Random records about few people, so that most of them meet.
    private static func records(_ random: inout SeededGenerator, _ count: Int) -> [ImportRecord] {
        func owner() -> ImportRecord.Owner {
            random.oneIn(3)
                ? .id(PersonID(rawValue: Int64.random(in: 1...6, using: &random) &* -3_000_000_007))
                : key("\(Int.random(in: 1...8, using: &random))")
        }
        let types: [IdentityType] = [
            .customerID, .email, .iosIDFV, .claimUserID, .claimAnonymousID, .accessUserID, .accessIdentity,
            .linkingExternalID, .linkingUserID,
        ]
        return (0..<count).map { _ in
            switch Int.random(in: 0..<10, using: &random) {
            case 0: person(owner(), made: made + Int64.random(in: 0...9, using: &random))
            case 1..<6:
                link(
                    owner(), types.randomElement(using: &random) ?? .email,
                    "\(Int.random(in: 1...9, using: &random))",
                    until: random.oneIn(8) ? Instant(milliseconds: 7) : nil)
            case 6:
                property(
                    owner(), "\(Int.random(in: 1...4, using: &random))", at: Int64.random(in: 1...4, using: &random))
            case 7: merge(owner(), owner())
            default:
                purchase(
                    random.oneIn(2) ? .accessUserID : .accessIdentity, "\(Int.random(in: 1...5, using: &random))",
                    "t\(Int.random(in: 1...5, using: &random))", asOf: Int64.random(in: 1...3, using: &random))
            }
        }
    }

    @Test("with equal results, twice like once, dry runs like imports, and back again", arguments: Soak.seeds(6))
    func histories(_ seed: UInt64) throws {
        var model: [[ImportOutcome]] = []
        for kind in StoreKind.simulated(seed, postgresOneIn: 2) {
            var random = SeededGenerator(seed: seed)
            let fixture = try StoreFixture(kind, seed: seed)
            var own: Set<PersonID> = []
            for value in 1...3 {
                own.insert(try fixture.identify([.customerID: "\(value)", .iosIDFV: "\(value)"]).person)
            }
            let onConflict: Import.OnConflict = random.oneIn(2) ? .join : .refuse
            let batches = (0..<5).map { _ in ImportContractTests.records(&random, 40) }
            let importing = try Importing(fixture, onConflict)
            let tried = try Importing(fixture, onConflict)
            let progress = try fixture.store.read { snapshot throws(StoreFault) in
                try snapshot.importing(tried.id, in: World.project)
            }
            let dryRun = ImportDryRun(try #require(progress))
            let before = fixture.store.counts.lastSequence
            let expected = try batches.map { try tried.take($0, dryRun: dryRun) }
            #expect(fixture.store.counts.lastSequence == before, "a dry run changes nothing")
            let taken = try batches.map { try importing.take($0) }
            if model.isEmpty { model = taken }
            for (number, batch) in batches.enumerated() {
                for (place, record) in batch.enumerated() {
                    let outcome = taken[number][place]
                    guard outcome != expected[number][place] || outcome != model[number][place] else { continue }
                    Issue.record(
                        """
                        \(kind) \(seed): \(record) is \(outcome.name), \(expected[number][place].name) in a dry run and \
                        \(model[number][place].name) on the first store
                        """)
                }
            }
            try fixture.reopen()
            let again = try Importing(fixture, onConflict)
            for (batch, first) in zip(batches, taken) {
                // A merge may have come before one of its people.
                for (place, second) in try again.take(batch).enumerated() where !first[place].isRefused {
                    #expect(
                        second == .same, "\(kind) \(seed): \(batch[place]) was \(first[place].name) before")
                }
            }
            _ = try again.undo()
            let undone = try importing.undo()
            #expect(undone.isComplete && undone.links > 0)
            for (number, batch) in batches.enumerated() {
                for (record, outcome) in zip(batch, taken[number]) where outcome == .taken {
                    guard case .link(let identity, _, nil) = record.content else { continue }
                    let holders = try fixture.store.read { $0.holders(of: identity.key) }.filter { !own.contains($0) }
                    #expect(holders.isEmpty, "\(kind) \(seed): \(identity.type.name) \(identity.value) is held")
                }
            }
        }
    }
}
