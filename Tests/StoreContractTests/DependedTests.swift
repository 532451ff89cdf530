import Domain
import SQLite
import StoreSQLite
import TestKit
import Testing

/// The calls whose results depended on a merge (spec/core.md, section 1).
@Suite("The calls that depended on a merge")
struct DependedTests {
    @Test(
        "are all listed, however many merges the group has", arguments: StoreKind.allCases, [1, 16, 17, 40])
    func sizes(_ kind: StoreKind, _ size: Int) throws {
        let group = try ClaimedGroup(kind, size: size)
        let refused = try (0..<size).map { number in try group.claim(number, by: "eve") }
        let properties = try group.call(SetProperties(user: group.user("ada"), values: [("plan", "pro")]))
        for isReopened in [false, true] where !isReopened || kind.isDurable {
            if isReopened { try group.fixture.reopen() }
            for number in Set([0, 1, size / 2, size - 1]) where number < size {
                // The id 0 had a property, which the answer of the user's property call has since the claim.
                let expected = [refused[number]] + (number == 0 ? [properties] : [])
                #expect(try group.depended(on: number) == expected, "\(number)")
            }
        }
    }

    @Test("are all listed for a group with 5,000 merges, page by page beside other calls")
    func large() throws {
        let group = try ClaimedGroup(.sqlite, size: 5_000)
        var refused = try [0, 0, 2_500, 4_999].map { number in try group.claim(number, by: "eve") }
        let properties = try group.call(SetProperties(user: group.user("ada"), values: [("plan", "pro")]))
        refused.append(try group.claim(0, by: "eve"))
        #expect(try group.depended(on: 2_500) == [refused[2]])
        let (search, directory) = (try group.search(group.merges[0]), group.fixture.store.directory)
        var (pages, found): (Int, [JournalSequence]?) = (0, nil)
        while found == nil {
            found = try group.fixture.store.read { snapshot throws(StoreFault) in try search.page(snapshot) }
            pages += 1
            // These calls come after the beginning of the search: they join, change and leave the group.
            try group.claim(0, by: "eve")
            try group.claim(5_000 + pages, by: "ada")
            if pages == 2 { try group.call(UndoMerge(group.merges[0])) }
        }
        #expect(found == [refused[0], refused[1], properties, refused[4]])
        #expect(pages > 5, "A page has a limited amount of work.")
        let after = try group.fixture.store.read { snapshot throws(StoreFault) in
            try snapshot.calls(dependingOn: group.merges[0], directory)
        }
        #expect(after.prefix(4) == found?[...] && after.count == 6, "Two claims came before the undo.")
    }

    @Test("are listed the same before and after the undo, and after another undo", arguments: StoreKind.allCases)
    func undone(_ kind: StoreKind) throws {
        let group = try ClaimedGroup(kind, size: 3)
        let refused = try group.claim(0, by: "eve")
        let merged = try group.merge("ada", into: "bob")
        let second = try group.claim(0, by: "eve")
        _ = try group.call(UndoMerge(merged))
        #expect(try group.depended(on: 0) == [refused, second])
        _ = try group.call(UndoMerge(group.merges[0]))
        // This claim finds the id alone.
        let taken = try group.claim(0, by: "eve")
        #expect(try group.depended(on: 0) == [refused, second])
        #expect(try group.depended(on: 1).isEmpty && taken > second)
    }

    @Test("depend on each of several merges of one group only if it made a difference", arguments: StoreKind.allCases)
    func several(_ kind: StoreKind) throws {
        let group = try ClaimedGroup(kind, size: 2)
        // An administrator's merge supports the claim of the id 0, so the refusal depends on neither alone.
        let supporting = try group.merge(.claimAnonymousID, "owl_anon_0", into: "ada")
        _ = try group.claim(0, by: "eve")
        #expect(try group.depended(on: 0).isEmpty)
        #expect(try group.depended(on: supporting).isEmpty)
        let refused = try group.claim(1, by: "eve")
        #expect(try group.depended(on: 1) == [refused])
    }

    @Test("contain the deletion of a response that two people of the group continued", arguments: StoreKind.allCases)
    func responses(_ kind: StoreKind) throws {
        let group = try ClaimedGroup(kind, size: 1)
        let question = Questionnaire.Question(id: "q", .text, isRequired: true)
        let text = Questionnaire.Text(name: "N", description: nil, schema: Array("{}".utf8), questions: [question])
        let survey = try #require(
            try group.fixture.process(SetQuestionnaire.put(slug: "n", text)).as(Questionnaire.self))
        func answer(_ user: Identity, isComplete: Bool) -> AnswerQuestionnaire {
            AnswerQuestionnaire(
                slug: "n", user: user, answers: [("q", .text("yes"))], isComplete: isComplete,
                details: Array(#"{"text":"good"}"#.utf8), sighting: AppUser.Sighting(app: AppID(rawValue: 1)))
        }
        _ = try group.fixture.process(answer(group.anonymous(0), isComplete: false))
        let answered = try #require(
            try group.fixture.process(answer(group.user("ada"), isComplete: false)).as(Answered.self))
        let deleted = try group.call(ReviewResponse(answered.id, to: survey.id, .delete))
        #expect(try group.depended(on: 0).contains(deleted))
    }

    @Test(
        "find documents as the calls found them, also in a store of an earlier version", arguments: StoreKind.allCases)
    func documents(_ kind: StoreKind) throws {
        let group = try ClaimedGroup(kind, size: 1)
        let person = try #require(try group.holder(group.user("ada")))
        let key = DocumentKey(.properties, of: person)
        var calls: [JournalSequence] = []
        for value in ["1", "2", "3"] {
            calls.append(try group.call(SetProperties(user: group.user("ada"), values: [("v", value)])))
        }
        try group.fixture.forgetGroupNotes("SELECT 1")
        calls.append(try group.call(SetProperties(user: group.user("ada"), values: [("v", "4")])))
        let found = try group.fixture.store.read { snapshot throws(StoreFault) -> [String?] in
            var values: [String?] = []
            for call in calls + [JournalSequence(rawValue: .max)] {
                let version = try snapshot.versions(of: key, since: call).last { $0.madeBy < call }
                let body = try version.flatMap { version throws(StoreFault) in try snapshot.content(of: version) }
                values.append(
                    body.flatMap(Attributes.init(packed:))?.entries["v"].map {
                        String(decoding: $0.value ?? [], as: UTF8.self)
                    })
            }
            return values
        }
        #expect(found == [nil, "1", "2", "3", "4"])
        _ = try group.call(ErasePerson(person))
        let gone = try group.fixture.store.read { snapshot throws(StoreFault) in
            try snapshot.versions(of: key, since: calls[3]).map { version throws(StoreFault) in
                try snapshot.content(of: version)
            }
        }
        #expect(gone.count > 1 && gone.allSatisfy { $0 == nil })
    }

    @Test("of an earlier version are listed too", arguments: StoreKind.allCases.filter(\.isDurable))
    func earlierVersion(_ kind: StoreKind) throws {
        let group = try ClaimedGroup(kind, size: 2)
        let refused = try group.claim(0, by: "eve")
        try group.fixture.forgetGroupNotes(
            "INSERT INTO call_merges (merge, sequence) VALUES (\(group.merges[0].rawValue), \(refused.rawValue))")
        #expect(try group.depended(on: 0) == [refused])
        let later = try group.claim(0, by: "eve")
        #expect(try group.depended(on: 0) == [refused, later])
    }

    @Test("are not kept after an erasure", arguments: StoreKind.allCases)
    func erased(_ kind: StoreKind) throws {
        let group = try ClaimedGroup(kind, size: 2)
        _ = try group.claim(0, by: "eve")
        let person = try #require(try group.holder(group.user("ada")))
        let people = try group.fixture.store.read { snapshot throws(StoreFault) in snapshot.group(of: person).members }
        #expect(try !group.notes(of: people).isEmpty)
        _ = try group.call(ErasePerson(person))
        while try group.fixture.store.sweep() {}
        #expect(try group.notes(of: people).isEmpty)
    }

    @Test("are not kept after an erasure of a person that a refused call was about", arguments: StoreKind.allCases)
    func erasedRefusal(_ kind: StoreKind) throws {
        let group = try ClaimedGroup(kind, size: 1)
        let person = try #require(try group.holder(group.anonymous(0)))
        let all = try group.fixture.store.read { snapshot throws(StoreFault) in snapshot.group(of: person).members }
        let values = (0..<200).map { ("name\($0)", "secret") }
        let refused = try group.call(SetProperties(user: group.anonymous(0), values: values))
        #expect(try group.notes(of: all).contains { $0.call == refused })
        _ = try group.call(UndoMerge(group.merges[0]))
        _ = try group.call(ErasePerson(person))
        while try group.fixture.store.sweep() {}
        #expect(try !group.notes(of: all).contains { $0.call == refused })
    }

    @Test(
        "are those that a whole second decision finds", arguments: StoreKind.allCases, [UInt64](1...Soak.count(8)))
    func model(_ kind: StoreKind, _ seed: UInt64) throws {
        let history = try RandomHistory(kind, seed: seed)
        var count = 0
        for merge in history.merges {
            let (found, expected) = (try history.depended(on: merge), history.model(without: merge))
            #expect(found == expected, "merge \(merge) of seed \(seed)")
            count += expected.count
        }
        #expect(count > 0, "The history has no call that depends on a merge.")
    }
}

extension Soak {
    /// The number of histories of a test.
    fileprivate static func count(_ histories: UInt64) -> UInt64 { histories * UInt64(max(1, Soak.factor)) }
}

/// A known user with some claimed ids. The first id has a property from before its claim.
private final class ClaimedGroup {
    let fixture: StoreFixture
    private(set) var merges: [MergeID] = []

    init(_ kind: StoreKind, size: Int) throws {
        fixture = try StoreFixture(kind)
        _ = try call(SetProperties(user: anonymous(0), values: [("own", "1")]))
        for start in stride(from: 0, to: size, by: 250) {
            let claims = (start..<min(start + 250, size)).map { Claim(anonymous: anonymous($0), user: user("ada")) }
            _ = fixture.process(claims)
        }
        let person = try #require(try holder(user("ada")))
        merges = try fixture.store.read { snapshot throws(StoreFault) in
            snapshot.group(of: person).merges.map(\.id)
        }
        #expect(merges.count == size)
    }

    func anonymous(_ number: Int) -> Identity {
        Identity(.claimAnonymousID, "owl_anon_\(number)", in: World.project, hash: fixture.store.hash)
    }

    func user(_ name: String) -> Identity {
        Identity(.claimUserID, name, in: World.project, hash: fixture.store.hash)
    }

    func holder(_ identity: Identity) throws -> PersonID? {
        try fixture.store.read { snapshot throws(StoreFault) in snapshot.holders(of: identity.key).first }
    }

    /// Makes a call, and returns its place in the journal.
    @discardableResult
    func call(_ act: some Act) throws -> JournalSequence {
        _ = fixture.process([act])
        return fixture.store.counts.lastSequence
    }

    @discardableResult
    func claim(_ number: Int, by name: String) throws -> JournalSequence {
        try call(Claim(anonymous: anonymous(number), user: user(name)))
    }

    /// Merges a known user into another, which the call makes if it does not exist.
    func merge(_ name: String, into other: String) throws -> MergeID { try merge(.claimUserID, name, into: other) }

    func merge(_ type: IdentityType, _ name: String, into other: String) throws -> MergeID {
        if try holder(user(other)) == nil { try call(SetProperties(user: user(other), values: [("a", "b")])) }
        let from = try #require(try holder(Identity(type, name, in: World.project, hash: fixture.store.hash)))
        let into = try #require(try holder(user(other)))
        let reply = try fixture.process(MergePeople(from: from, into: into))
        return try #require(reply.as(Merge.self)).id
    }

    /// A search that has not begun.
    func search(_ merge: MergeID) throws -> DependedCalls {
        let call = try #require(
            try fixture.store.read { snapshot throws(StoreFault) in try snapshot.call(ofMerge: merge) })
        for case .merged(let made) in call.facts where made.id == merge {
            return DependedCalls(on: made, madeBy: call, fixture.store.directory)
        }
        throw StoreFault(.notFound, "The call made another merge.")
    }

    func depended(on number: Int) throws -> [JournalSequence] { try depended(on: merges[number]) }

    func depended(on merge: MergeID) throws -> [JournalSequence] { try fixture.depended(on: merge) }

    func notes(of people: [PersonID]) throws -> [NotedCall] {
        try fixture.store.read { snapshot throws(StoreFault) in
            try snapshot.calls(readingGroupsOf: people, after: .zero, limit: .max)
        }
    }
}

extension StoreFixture {
    fileprivate func depended(on merge: MergeID) throws -> [JournalSequence] {
        let directory = store.directory
        return try store.read { snapshot throws(StoreFault) in try snapshot.calls(dependingOn: merge, directory) }
    }

    /// Brings a store on disk into the form before the call log, and opens it again.
    func forgetCallLog() throws {
        switch kind {
        case .memory: return
        case .sqlite:
            sqlite?.close()
            let connection = try Connection(path: file.path, mode: .readWrite, disk: disk?.sqliteName)
            let version = try connection.integer("PRAGMA user_version") ?? 0
            try connection.execute("DROP TABLE leaves; DROP TABLE tree; DROP TABLE call_log")
            try connection.execute("PRAGMA user_version = \(version - 2)")
        case .postgres:
            let schema = try #require(schema?.schema)
            try PostgresCluster.shared.get().run(
                """
                SET search_path = \(schema); DROP TABLE call_log; \(StoreFixture.withoutGroups);
                DELETE FROM migrations WHERE version >= 8
                """)
        }
        try reopen()
    }

    /// Brings a store on disk into the form before the last four migrations, runs a statement, and opens the
    /// store again.
    fileprivate func forgetGroupNotes(_ statement: String) throws {
        switch kind {
        case .memory: return
        case .sqlite:
            sqlite?.close()
            let connection = try Connection(path: file.path, mode: .readWrite, disk: disk?.sqliteName)
            let version = try connection.integer("PRAGMA user_version") ?? 0
            try connection.execute(
                "DROP TABLE leaves; DROP TABLE tree; DROP TABLE call_log; DROP INDEX people_by_call")
            try connection.execute(
                "ALTER TABLE documents DROP COLUMN previous; DROP TABLE call_groups; DROP TABLE call_acts; \(statement)"
            )
            try connection.execute("PRAGMA user_version = \(version - 4)")
        case .postgres:
            let schema = try #require(schema?.schema)
            try PostgresCluster.shared.get().run(
                """
                SET search_path = \(schema); DROP TABLE call_log; DROP TABLE call_groups; DROP TABLE call_acts;
                \(StoreFixture.withoutGroups); \(statement);
                DELETE FROM migrations WHERE version >= 7
                """)
        }
        try reopen()
    }
}

/// Calls by chance in a store, and a slow model of their dependence: the whole journal again, without the merge.
private final class RandomHistory {
    let fixture: StoreFixture
    private(set) var merges: [MergeID] = []
    private var acts: [JournalSequence: any Act] = [:]
    private var entries: [JournalEntry] = []

    init(_ kind: StoreKind, seed: UInt64) throws {
        fixture = try StoreFixture(kind)
        // The model needs the entries themselves, which the memory store has.
        let twin = try StoreFixture(.memory)
        var generator = SeededGenerator(seed: seed)
        for _ in 0..<70 {
            let state = generator
            _ = try step(fixture, &generator)
            var same = state
            if let act = try step(twin, &same),
                twin.store.counts.lastSequence > JournalSequence(rawValue: Int64(entries.count))
            {
                acts[twin.store.counts.lastSequence] = act
            }
            entries = (twin.store as? FailingStore)?.journal ?? []
            fixture.clock.advance(milliseconds: 5)
            twin.clock.advance(milliseconds: 5)
        }
        #expect(fixture.store.counts.lastSequence == twin.store.counts.lastSequence)
        merges = entries.flatMap(\.changes).compactMap { if case .merged(let merge) = $0 { merge.id } else { nil } }
    }

    private func step(_ fixture: StoreFixture, _ generator: inout SeededGenerator) throws -> (any Act)? {
        func some(_ count: Int) -> Int { Int.random(in: 0..<count, using: &generator) }
        func identity(_ type: IdentityType, _ value: String) -> Identity {
            Identity(type, value, in: World.project, hash: fixture.store.hash)
        }
        func anonymous() -> Identity { identity(.claimAnonymousID, "owl_anon_\(some(5))") }
        func user() -> Identity { identity(.claimUserID, "user\(some(3))") }
        func person() throws -> PersonID? {
            let name =
                switch some(3) {
                case 0: anonymous()
                case 1: user()
                default: identity(.customerID, "c\(some(3))")
                }
            return try fixture.store.read { snapshot throws(StoreFault) in snapshot.holders(of: name.key).first }
        }
        let act: any Act
        switch some(11) {
        case 0, 1:
            var names = [identity(.customerID, "c\(some(3))")]
            if some(2) == 0 { names.append(identity(.email, "e\(some(3))")) }
            act = Identify(identities: names)
        case 2, 3, 4: act = Claim(anonymous: anonymous(), user: user())
        case 5, 6:
            let name = some(2) == 0 ? anonymous() : user()
            act = SetProperties(user: name, values: [("k\(some(3))", some(4) == 0 ? "" : "\(some(3))")])
        case 7:
            let row = Row(.event, at: fixture.clock.now, body: Array("{}".utf8))
            let sighting = AppUser.Sighting(app: AppID(rawValue: 1))
            act = Collect([Collect.Part(user: anonymous(), rows: [row], sighting: sighting)])
        case 8:
            guard let from = try person(), let into = try person() else { return nil }
            act = MergePeople(from: from, into: into)
        case 9:
            var edit = StrategyEdit()
            edit.preset = [.default, .bestMatch, .profileLink, .profileIsolation][some(4)]
            edit.decideOn = some(2) == 0 ? .member : .group
            edit.mergeOnMatch = [.never, .anonymousIntoKnown, .any][some(3)]
            act = SetStrategy.edit(edit)
        default:
            let made = try fixture.store.read { snapshot throws(StoreFault) in
                try snapshot.calls(after: .zero, limit: 1000).flatMap(\.facts).compactMap { fact in
                    if case .merged(let merge) = fact { merge.id } else { nil }
                }
            }
            guard let merge = made.sorted().randomElement(using: &generator) else { return nil }
            act = UndoMerge(merge)
        }
        _ = fixture.process([act])
        return act
    }

    func depended(on merge: MergeID) throws -> [JournalSequence] { try fixture.depended(on: merge) }

    /// Decides each call again over the facts of all calls before it, with the merge and without it.
    func model(without merge: MergeID) -> [JournalSequence] {
        var (facts, without) = (Facts(), Facts())
        var isInForce = false
        var found: [JournalSequence] = []
        for (place, entry) in entries.enumerated() {
            let call = JournalSequence(rawValue: Int64(place) + 1)
            let stamp = Stamp(at: entry.at, person: PersonID(rawValue: .max - 1_000_000))
            if isInForce, let act = acts[call], type(of: act).readsMerges {
                let results = [facts, without].map { facts in
                    Result { () throws(Refusal) in try facts.decide(act, stamp, in: World.project) }
                }
                if results[0] != results[1] { found.append(call) }
            }
            facts.apply(entry)
            without.apply(entry.leavingOut(merge))
            if let person = entry.person {
                facts.see(person, at: SeenAt(entry.at))
                without.see(person, at: SeenAt(entry.at))
            }
            for change in entry.changes {
                switch change {
                case .merged(let made) where made.id == merge: isInForce = true
                case .mergeUndone(let ended) where ended.id == merge: isInForce = false
                default: break
                }
            }
        }
        return found
    }
}

extension JournalEntry {
    /// The same entry without the facts of one merge.
    fileprivate func leavingOut(_ merge: MergeID) -> JournalEntry {
        let changes = changes.filter { change in
            switch change {
            case .merged(let made): made.id != merge
            case .mergeUndone(let ended): ended.id != merge
            default: true
            }
        }
        let stamp = Stamp(at: at, person: id)
        let outcome = Outcome(kind: kind, person: person, inputs: inputs, changes: changes)
        return JournalEntry(Call(project: project, key: key), stamp, outcome, reply)
    }
}
