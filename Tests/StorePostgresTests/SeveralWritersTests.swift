import Domain
import Engine
import StorePostgres
import TestKit
import Testing
import Threads

/// Several writers over one store, as several processes are: each has connections and a thread of its own.
@Suite("Several writers over one store", .enabled(if: PostgresCluster.absence == nil, "PostgreSQL is not installed."))
struct SeveralWritersTests {
    /// A process's part of it.
    private final class Hand: @unchecked Sendable {
        // Unchecked: one thread has it.
        let store: PostgresStore
        let writer: Writer

        init(_ settings: PostgresSettings, _ number: UInt64) throws {
            store = try StoreFixture.openPostgres(settings)
            // All have the same chances, so that ids would be the same if only chance parted them.
            var generator = SeededGenerator(seed: 1)
            writer = Writer(store: store) { generator.next() }
        }

        func process(_ commands: [any Act], at moment: Instant) -> [Writer.Answer] {
            let jobs = commands.map { Job(call: Call(project: World.project, key: nil), act: $0) }
            return writer.process(jobs, at: moment)
        }

        deinit { store.close() }
    }

    private static let start = Instant(milliseconds: 1_800_000_000_000)

    /// Hands over a new store in which there is a project.
    private func hands(_ count: Int, _ way: PostgresWay, momentMilliseconds: Int? = nil) throws -> [Hand] {
        var settings = try way.newSchema()
        if let momentMilliseconds { settings.momentMilliseconds = momentMilliseconds }
        return try hands(count, settings)
    }

    private func hands(_ count: Int, _ settings: PostgresSettings) throws -> [Hand] {
        let hands = try (0..<count).map { try Hand(settings, UInt64($0)) }
        let project = Project(id: World.project, name: "Test", madeAt: SeveralWritersTests.start)
        let setUp = SetUp(project: project, apps: [], keys: [])
        _ = try hands[0].process([setUp], at: SeveralWritersTests.start)[0].get()
        return hands
    }

    /// Has each hand do something on a thread of its own, at once with the others.
    private func atOnce<Result: Sendable>(
        _ hands: [Hand], _ body: @escaping @Sendable (Hand, Int) -> Result
    ) -> [Result] {
        let results = Monitor<[Int: Result]>([:])
        let threads = hands.enumerated().map { number, hand in
            WorkerThread(name: "hand-\(number)") {
                let result = body(hand, number)
                results.change { $0[number] = result }
            }
        }
        for thread in threads { thread.join() }
        let all = results.withLock { $0 }
        return hands.indices.compactMap { all[$0] }
    }

    private func journal(_ hand: Hand) throws -> [RecordedCall] {
        try hand.store.read { snapshot throws(StoreFault) in
            var calls: [RecordedCall] = []
            while true {
                let page = try snapshot.calls(after: calls.last?.sequence ?? .zero, limit: 200)
                if page.isEmpty { return calls }
                calls += page
            }
        }
    }

    @Test(
        "a reading is of one moment, and goes on at another when it takes longer than it may hold one",
        arguments: PostgresWay.allCases, [nil: [0, 0], 0: [0, 1]])
    func moments(_ way: PostgresWay, _ held: (key: Int?, value: [Int])) throws {
        let hands = try hands(2, way, momentMilliseconds: held.key)
        let email = Identity(.email, "a@x", in: World.project, hash: hands[0].store.hash)
        let seen = try hands[0].store.read { snapshot in
            let before = snapshot.holders(of: email.key).count
            _ = hands[1].process(
                [Identify(.start, identities: [email], previous: nil)], at: SeveralWritersTests.start)
            return [before, snapshot.holders(of: email.key).count]
        }
        #expect(seen == held.value)
    }

    @Test("they make one person of one new identity, whoever comes first", arguments: [2, 3, 4], PostgresWay.allCases)
    func firstPerson(_ count: Int, _ way: PostgresWay) throws {
        let hands = try hands(count, way)
        let hash = hands[0].store.hash
        let people = atOnce(hands) { hand, number in
            (0..<40).map { round -> PersonID? in
                let identities = [
                    Identity(.customerID, "c\(round)", in: World.project, hash: hash),
                    Identity(.iosIDFV, "d\(number)-\(round)", in: World.project, hash: hash),
                ]
                let answers = hand.process(
                    [Identify(.start, identities: identities, previous: nil)],
                    at: SeveralWritersTests.start)
                guard case .success(let reply) = answers[0], let identified = reply.as(Identified.self) else {
                    return nil
                }
                return identified.person
            }
        }
        for round in 0..<40 {
            let found = Set(people.map { $0[round] })
            #expect(found.count == 1 && !found.contains(nil), "\(round): \(found)")
        }
        #expect(Set(people[0]).count == 40)
    }

    @Test("every answer of theirs is the model's, in the order of the journal", arguments: Soak.seeds(3), [2, 3])
    func explained(_ seed: UInt64, _ count: Int) throws { try explain(seed, count, .direct) }

    @Test(
        "every answer of theirs is the model's behind a pooler, too",
        .enabled(if: PgBouncer.absence == nil, "No PgBouncer."),
        arguments: Soak.seeds(2))
    func explainedPooled(_ seed: UInt64) throws { try explain(seed, 3, .pooled) }

    private func explain(_ seed: UInt64, _ count: Int, _ way: PostgresWay) throws {
        let hands = try hands(count, way)
        let hash = hands[0].store.hash
        typealias Said = (command: any Act, answer: Writer.Answer)
        let said = atOnce(hands) { hand, number -> [[Said]] in
            var generator = SeededGenerator(seed: seed &* 1000 &+ UInt64(number))
            var people: [PersonID] = []
            return (0..<30).map { _ in
                let commands = (0..<Int.random(in: 1...5, using: &generator)).map { _ in
                    SeveralWritersTests.command(&generator, people, hash)
                }
                // Clocks differ, and go back.
                let moment = SeveralWritersTests.start.advanced(
                    byMilliseconds: Int64.random(in: -5000...5000, using: &generator))
                let answers = hand.process(commands, at: moment)
                for case .success(let reply) in answers { people += reply.answer.found }
                return zip(commands, answers).map { ($0, $1) }
            }
        }
        let calls = try journal(hands[0])
        #expect(calls.map(\.sequence.rawValue) == Array(1...Int64(calls.count)))
        #expect(zip(calls, calls.dropFirst()).allSatisfy { $0.at <= $1.at })
        var made: [PersonID] = []
        for case .personMade(let person) in calls.flatMap(\.facts) { made.append(person) }
        #expect(Set(made).count == made.count && made.sorted() == made)
        // Nobody was told of a fault, and who was made is in the journal.
        for (_, answer) in said.joined().joined() {
            if case .failure(.fault(let fault)) = answer { Issue.record("\(fault)") }
            if case .success(let reply) = answer, let identified = reply.as(Identified.self) {
                #expect(made.contains(identified.person))
            }
        }
        // What changed something was decided on what those before it in the journal had left.
        let facts = try Replayed(calls, hash)
        #expect(facts.contradictions.isEmpty, "ONYM_SEED=\(seed): \(facts.contradictions.prefix(3))")
        for hand in hands { #expect(hand.store.counts.people <= made.count) }
    }

    private static func command(
        _ generator: inout SeededGenerator, _ people: [PersonID], _ hash: KeyedHash
    ) -> any Act {
        if generator.oneIn(6), people.count > 1 {
            let pair = people.shuffled(using: &generator)
            return MergePeople(from: pair[0], into: pair[1])
        }
        let types: [IdentityType] = [.customerID, .email, .iosIDFV]
        let identities = types.filter { _ in generator.oneIn(2) }.map {
            Identity($0, "\(Int.random(in: 0..<12, using: &generator))", in: World.project, hash: hash)
        }
        return Identify(.start, identities: identities, previous: nil)
    }

    /// The journal's facts, taken in one after the other.
    private struct Replayed {
        private(set) var contradictions: [String] = []

        init(_ calls: [RecordedCall], _ hash: KeyedHash) throws {
            var holders: [String: [PersonID]] = [:]
            var merged: Set<Set<PersonID>> = []
            for call in calls {
                for fact in call.facts {
                    switch fact {
                    case .linked(let person, .customerID, let value):
                        // One person alone holds a customer id.
                        if let others = holders[value], !others.isEmpty {
                            contradictions.append("\(call.sequence): \(value) is held already")
                        }
                        holders[value, default: []].append(person)
                    case .unlinked(let person, .customerID, let value): holders[value]?.removeAll { $0 == person }
                    case .merged(let merge):
                        if !merged.insert([merge.from, merge.into]).inserted {
                            contradictions.append("\(call.sequence): merged twice")
                        }
                    default: break
                    }
                }
            }
        }
    }

    @Test("merges and undos of large groups by all at once leave the groups that the journal says", arguments: [2, 3])
    func largeGroups(_ count: Int) throws {
        let settings = try PostgresWay.direct.newSchema()
        let hands = try hands(count, settings)
        let hash = hands[0].store.hash
        let moment = SeveralWritersTests.start
        @Sendable func name(_ number: Int) -> Identity {
            Identity(.customerID, "c\(number)", in: World.project, hash: hash)
        }
        // Half of the groups are large, and the others become large.
        let users = try (0..<12).map { number in
            let reply = hands[0].process([Identify(.start, identities: [name(number)], previous: nil)], at: moment)
            let person = try #require(try reply[0].get().as(Identified.self)).person
            let grow = Grow(person, members: number.isMultiple(of: 2) ? 40 : 6, identities: 3, hash: hash)
            _ = try hands[0].process([grow], at: moment)[0].get()
            return person
        }
        let answers = atOnce(hands) { hand, number -> [Writer.Answer] in
            var generator = SeededGenerator(seed: UInt64(count * 10 + number))
            var merges: [MergeID] = []
            return (0..<40).flatMap { round -> [Writer.Answer] in
                let pair = users.shuffled(using: &generator)
                var acts: [any Act] = [MergePeople(from: pair[0], into: pair[1])]
                if generator.oneIn(2) {
                    let identities = [name(Int.random(in: 0..<12, using: &generator))]
                    acts.append(Identify(.start, identities: identities, previous: nil))
                }
                if let merge = merges.randomElement(using: &generator) { acts.append(UndoMerge(merge)) }
                let answers = hand.process(acts, at: moment.advanced(byMilliseconds: Int64(round)))
                for case .success(let reply) in answers {
                    if let merged = reply.as(Merge.self) { merges.append(merged.id) }
                }
                if generator.oneIn(8) { while hand.writer.fold(limit: 100) {} }
                return answers
            }
        }
        for case .failure(.fault(let fault)) in answers.joined() { Issue.record("\(fault)") }
        for hand in hands { while hand.writer.fold(limit: 100) {} }
        var inForce: [Merge] = []
        var (made, undone) = (0, 0)
        for fact in try journal(hands[0]).flatMap(\.facts) {
            if case .merged(let merge) = fact {
                #expect(
                    !inForce.contains { PersonPair($0.from, $0.into) == PersonPair(merge.from, merge.into) },
                    "Two people were merged already.")
                inForce.append(merge)
                made += 1
            } else if case .mergeUndone(let merge) = fact {
                #expect(inForce.contains { $0.id == merge.id }, "An undone merge was undone again.")
                inForce.removeAll { $0.id == merge.id }
                undone += 1
            }
        }
        let told = answers.joined().reduce(into: (merged: 0, undone: 0)) { told, answer in
            guard case .success(let reply) = answer else { return }
            told.merged += reply.as(Merge.self) == nil ? 0 : 1
            told.undone += reply.as(MergeUndone.self) == nil ? 0 : 1
        }
        // The members of the groups were merged before.
        #expect(told.merged == made - users.indices.reduce(0) { $0 + ($1.isMultiple(of: 2) ? 40 : 6) })
        #expect(told.undone == undone && undone > 0)
        var seen: [PersonID: Instant] = [:]
        for hand in hands {
            try hand.store.read { snapshot throws(StoreFault) in
                for user in users {
                    let (expected, found) = (ListedGroup(of: user, inForce), snapshot.group(of: user))
                    #expect(found.root == expected.root && found.members == expected.members)
                    for member in expected.members where seen[member] == nil {
                        seen[member] = snapshot.person(member, in: World.project)?.lastSeen
                    }
                    let totals = try snapshot.totals(of: found)
                    #expect(totals.first == expected.members[0])
                    #expect(totals.lastSeen?.moment == expected.members.compactMap { seen[$0] }.max())
                }
            }
        }
        try #expect(PostgresDoctor(settings) { _ in }.examine() == [])
    }

    @Test("whoever reads the feed meanwhile misses nothing, and gets nothing twice", arguments: PostgresWay.allCases)
    func feed(_ way: PostgresWay) throws {
        let hands = try hands(3, way)
        let hash = hands[0].store.hash
        let isDone = Monitor(false)
        let read = Monitor<[Int64]>([])
        let reader = WorkerThread(name: "reader") {
            var last = JournalSequence.zero
            while true {
                let wasDone = isDone.withLock { $0 }
                let page = try? hands[2].store.read { snapshot throws(StoreFault) in
                    try snapshot.calls(after: last, limit: 7)
                }
                for call in page ?? [] { read.change { $0.append(call.sequence.rawValue) } }
                last = page?.last?.sequence ?? last
                if wasDone, page?.isEmpty == true { return }
            }
        }
        _ = atOnce(Array(hands.prefix(2))) { hand, number in
            for round in 0..<60 {
                let identities = [Identity(.email, "\(number) \(round)", in: World.project, hash: hash)]
                _ = hand.process(
                    [Identify(.start, identities: identities, previous: nil)],
                    at: SeveralWritersTests.start)
            }
        }
        isDone.change { $0 = true }
        reader.join()
        #expect(read.withLock { $0 } == Array(1...121))
    }

    @Test("what one changes of the rules, of apps and of keys the others know", arguments: PostgresWay.allCases)
    func directory(_ way: PostgresWay) throws {
        let hands = try hands(2, way)
        var edit = StrategyEdit()
        edit.preset = .profileLink
        _ = try hands[0].process([SetStrategy.edit(edit)], at: SeveralWritersTests.start)[0].get()
        // Decided by the new rules, though nobody has told it.
        edit.preset = .profileIsolation
        let answer = try hands[1].process([SetStrategy.edit(edit)], at: SeveralWritersTests.start)[0].get()
        #expect(answer.as(StrategySet.self)?.version == 3)
        #expect(Patience.until { hands[0].store.directory.strategies(of: World.project).current.number == 3 })
    }
}

/// Waits a little, for what another thread does.
func pause(milliseconds: Int) {
    let never = Monitor(false)
    let _: Bool? = never.wait(milliseconds: milliseconds) { $0 ? true : nil }
}
