import Domain
import TestKit
import Testing

/// The index in memory beside the dictionaries that are its model.
@Suite("The index of people")
struct PeopleIndexTests {
    /// Both, changed alike.
    private struct Pair {
        var facts = Facts()
        let index = PeopleIndex()
        var journal: [JournalEntry] = []
        var sequence = JournalSequence.zero
        var now = Instant(milliseconds: 1_800_000_000_000)
        var random: SeededGenerator

        init(seed: UInt64) { random = SeededGenerator(seed: seed) }

        /// A batch of random entries: new people, and links of old and new values to old and new people.
        mutating func randomBatch() -> [JournalEntry] {
            var people = Array(facts.people.keys)
            return (0..<Int.random(in: 1...8, using: &random)).map { _ in
                now = now.advanced(byMilliseconds: 1)
                let isNew = people.isEmpty || random.oneIn(2)
                let person =
                    isNew
                    ? PersonID(at: now, chance: random.next())
                    : people.randomElement(using: &random) ?? PersonID(rawValue: 1)
                var changes: [Change] = isNew ? [.personMade(person, at: SeenAt(now))] : []
                people.append(person)
                var types = Set<IdentityType>()
                for _ in 0..<Int.random(in: 0...4, using: &random) {
                    let type = [IdentityType.email, .iosIDFV, .customerID].randomElement(using: &random) ?? .email
                    // A person holds a value once; in one entry, one value of a type.
                    let identity = World.identity(type, "\(Int.random(in: 0..<60, using: &random))")
                    let holds = facts.people[person]?.identities.contains { $0.key == identity.key } ?? false
                    if !holds, types.insert(type).inserted, !justLinked.contains("\(person)\(identity.key)") {
                        justLinked.insert("\(person)\(identity.key)")
                        changes.append(.linked(person, identity))
                        values[identity.key] = identity
                    }
                }
                // Some links of before the batch end, and some of those come back at once.
                if random.oneIn(3), let held = facts.people[person]?.identities.randomElement(using: &random),
                    !justLinked.contains("\(person)\(held.key)"), ended.insert("\(person)\(held.key)").inserted
                {
                    changes.append(.unlinked(person, held.type, held.key))
                    if let identity = values[held.key], random.oneIn(3) { changes.append(.linked(person, identity)) }
                }
                return JournalEntry(
                    Call(project: World.project, key: nil), Stamp(at: now, person: person),
                    Outcome(kind: .identify, person: person, changes: changes), Reply(Done()))
            }
        }

        private var justLinked = Set<String>()
        private var ended = Set<String>()
        private var values: [IdentityKey: Identity] = [:]

        /// Decides a batch in the index, and keeps it or takes it back.
        mutating func run(_ batch: [JournalEntry], commits: Bool) {
            justLinked = []
            ended = []
            let workspace = IndexBatchFacts(index, replays: RememberedCalls()) { $0() }
            for entry in batch { workspace.apply(entry) }
            if commits {
                index.commit(batch, sequence: sequence.next)
                for entry in batch {
                    facts.apply(entry)
                    sequence = sequence.next
                }
            }
        }

        func expectAgreement(_ place: SourceLocation = #_sourceLocation) {
            let view = index.committed
            for number in 0..<60 {
                for type in [IdentityType.email, .iosIDFV, .customerID] {
                    let key = World.identity(type, "\(number)").key
                    var holders: [PersonID] = []
                    view.forEachHolder(of: key) { holders.append(view.id(of: $0)) }
                    let expected = facts.holders[key] ?? []
                    #expect(holders.sorted() == expected.sorted(), sourceLocation: place)
                    #expect(view.holderCount(of: key) == expected.count, sourceLocation: place)
                    #expect((index.linkNumber(of: key) != nil) == !expected.isEmpty, sourceLocation: place)
                }
            }
            for (person, state) in facts.people {
                guard let found = index.place(of: person) else {
                    Issue.record("A person is missing.", sourceLocation: place)
                    continue
                }
                var held: [IdentityKey] = []
                view.forEachIdentity(of: found) { _, key in
                    held.append(key)
                    return true
                }
                #expect(Set(held) == Set(state.identities.map(\.key)), sourceLocation: place)
                #expect(held.count == state.identities.count, sourceLocation: place)
                #expect(view.lastSeen(of: found) == state.lastSeen, sourceLocation: place)
                #expect(index.project(of: found) == state.project, sourceLocation: place)
            }
            #expect(index.counts.people == facts.people.count, sourceLocation: place)
        }
    }

    @Test("agrees with its model after any history of commits and faults", arguments: 1...30)
    func agreesWithModel(_ seed: Int) {
        var pair = Pair(seed: UInt64(seed))
        for round in 0..<60 {
            let batch = pair.randomBatch()
            if pair.random.oneIn(3) {
                pair.run(batch, commits: false)
                pair.index.rollBack()
            } else {
                pair.run(batch, commits: true)
            }
            if round % 10 == 9 { pair.expectAgreement() }
        }
    }

    @Test("hides what has not been committed from everybody but its batch")
    func hidesPending() throws {
        let index = PeopleIndex()
        let (person, key) = (PersonID(rawValue: 77), World.identity(.email, "a@x"))
        let stamp = Stamp(at: Instant(milliseconds: 1), person: person)
        let call = Call(project: World.project, key: nil)
        let entry = JournalEntry(
            call, stamp,
            Outcome(
                kind: .identify, person: person, changes: [.personMade(person, at: stamp.seen), .linked(person, key)]),
            Reply(Done()))
        let workspace = IndexBatchFacts(index, replays: RememberedCalls()) { $0() }
        workspace.apply(entry)

        let identify = Identify(identities: [key])
        #expect(index.committed.holderCount(of: key.key) == 0)
        #expect(index.peek(call, identify, stamp) == .needsWriter)
        #expect(try workspace.decide(identify, stamp, in: World.project).outcome == nil)

        index.commit([entry], sequence: JournalSequence(rawValue: 1))
        #expect(index.committed.holderCount(of: key.key) == 1)
        let expected = Identified(person: person, matched: 1, isKnown: false)
        #expect(index.peek(call, identify, stamp) == .reply(Reply(expected)))
    }

    @Test("finds each of many people and identities")
    func many() throws {
        let index = PeopleIndex()
        let count = 100_000
        index.load(
            (1...count).map { number in
                PeopleIndex.LoadedPerson(
                    PersonID(rawValue: Int64(number) << 22), in: World.project,
                    seen: SeenAt(Instant(milliseconds: Int64(number))), madeBy: .zero, heads: [])
            })
        var last: PeopleIndex.Place?
        var links: [PeopleIndex.LoadedLink] = []
        // Every other place is not the next one after the place before.
        for number in (1...count).filter({ $0 % 3 > 0 }) + (1...count).filter({ $0 % 3 == 0 }) {
            let place = try #require(index.place(of: PersonID(rawValue: Int64(number) << 22), after: last))
            links.append(
                PeopleIndex.LoadedLink(
                    .email, World.identity(.email, "\(number)").key, of: place, number: Int64(links.count + 1)))
            last = place
        }
        index.load(links)
        #expect(index.counts.people == count)
        #expect(index.counts.identities == count)
        #expect(index.lastPerson == PersonID(rawValue: Int64(count) << 22))
        for number in stride(from: 1, through: count, by: 37) {
            var found: [PersonID] = []
            index.committed.forEachHolder(of: World.identity(.email, "\(number)").key) {
                found.append(index.id(of: $0))
            }
            #expect(found == [PersonID(rawValue: Int64(number) << 22)])
        }
        #expect(index.place(of: PersonID(rawValue: 5)) == nil)
        #expect(index.committed.holderCount(of: World.identity(.email, "0").key) == 0)
    }

    @Test("remembers calls for a day, and forgets them within two")
    func replays() {
        let index = ReplayIndex()
        let hour: Int64 = 3_600_000
        func key(_ number: Int64) -> ReplayKey {
            let text = Array("call \(number)".utf8)
            return ReplayKey(.requestID, text.span, in: World.project, hash: World.hash)
        }
        for number in Int64(1)...100 {
            index.add(key(number).hash, JournalSequence(rawValue: number), at: Instant(milliseconds: number * hour))
            for earlier in max(1, number - 24)...number {
                #expect(index.candidates(key(earlier)) == [JournalSequence(rawValue: earlier)])
            }
            if number > 48 { #expect(!index.mayKnow(key(number - 48))) }
        }
        #expect(!index.mayKnow(key(1000)))
        index.add(key(100).hash, JournalSequence(rawValue: 101), at: Instant(milliseconds: 100 * hour))
        #expect(index.candidates(key(100)).map(\.rawValue) == [101, 100], "the newest first")
    }

    @Test(
        "says who is one with whom as the merges in force do, to the batch and to everybody",
        arguments: Soak.histories(30))
    func merges(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let index = PeopleIndex()
        let people = (1...16).map { PersonID(rawValue: Int64($0) << 20) }
        var committed: [Merge] = []
        var (sequence, lastMerge): (Int64, Int64) = (0, 0)
        for _ in 1...100 {
            var inForce = committed
            var entries: [JournalEntry] = []
            for _ in 0..<Int.random(in: 1...6, using: &random) {
                var changes: [Change] = []
                for _ in 0..<Int.random(in: 1...3, using: &random) {
                    let (one, other) = (
                        people[Int.random(in: 0..<16, using: &random)], people[Int.random(in: 0..<16, using: &random)]
                    )
                    if random.oneIn(3), !inForce.isEmpty {
                        changes.append(
                            .mergeUndone(inForce.remove(at: Int.random(in: 0..<inForce.count, using: &random))))
                    } else if one != other, !isMerged(one, other, inForce) {
                        lastMerge += 1
                        let merge = Merge(
                            id: MergeID(rawValue: lastMerge), from: one, into: other, rule: .administrator)
                        inForce.append(merge)
                        changes.append(.merged(merge))
                    }
                }
                sequence += 1
                let entry = JournalEntry(
                    Call(project: World.project, key: nil),
                    Stamp(at: Instant(milliseconds: sequence), person: people[0]),
                    Outcome(kind: .claim, person: nil, changes: changes), Reply(Done()))
                index.apply(entry)
                entries.append(entry)
                expect(people, to: inForce) { index.pending.group(of: $0) }
                let (one, other) = (people.randomElement(using: &random)!, people.randomElement(using: &random)!)
                #expect(
                    index.pending.areMerged(one, other, by: .administrator) == isMerged(one, other, inForce)
                        && index.committed.areMerged(one, other, by: .administrator) == isMerged(one, other, committed)
                        && !index.pending.areMerged(one, other, by: .claim))
                #expect(inForce.allSatisfy { index.pending.merge($0.id) == $0 })
            }
            // A third of the batches are taken back.
            if random.oneIn(3) {
                index.rollBack()
            } else {
                index.commit(entries, sequence: JournalSequence(rawValue: sequence))
                committed = inForce
            }
            expect(people, to: committed) { index.committed.group(of: $0) }
            #expect(index.counts.merges == committed.count)
        }
    }

    private func isMerged(_ one: PersonID, _ other: PersonID, _ merges: [Merge]) -> Bool {
        merges.contains { [$0.from, $0.into] == [one, other] || [$0.from, $0.into] == [other, one] }
    }

    private func expect(_ people: [PersonID], to merges: [Merge], _ group: (PersonID) -> Group) {
        // One expectation for all: there are hundreds of thousands.
        let wrong = people.filter { person in
            let (expected, found) = (Model(of: person, merges), group(person))
            var isRight = found.members == expected.members && found.count == expected.members.count
            isRight = isRight && found.root == expected.root && found.merges == expected.merges
            if let other = expected.members.last(where: { $0 != person }) {
                let path = ListedGroup(of: person, merges).path(from: person, to: other)
                isRight = isRight && !path.isEmpty && found.path(from: person, to: other) == path
            }
            let paged = paged(found)
            return !isRight || paged.count != found.count || Set(paged) != Set(expected.members)
        }
        #expect(wrong == [])
    }

    /// The members of a group, page by page.
    private func paged(_ group: Group) -> [PersonID] {
        var (paged, last): ([PersonID], PersonID?) = ([], nil)
        repeat {
            let page = group.members(after: last, limit: 2)
            paged += page
            last = page.count == 2 && paged.count < group.count ? page.last : nil
        } while last != nil
        return paged
    }

    /// Who is one with a person, found out in the plainest way.
    private struct Model {
        let members: [PersonID]
        let merges: [Merge]
        let root: PersonID

        init(of person: PersonID, _ all: [Merge]) {
            var members: Set<PersonID> = [person]
            var isGrowing = true
            while isGrowing {
                let before = members.count
                for merge in all where members.contains(merge.from) || members.contains(merge.into) {
                    members.formUnion([merge.from, merge.into])
                }
                isGrowing = members.count > before
            }
            var above: [PersonID: PersonID] = [:]
            func root(_ person: PersonID) -> PersonID {
                var root = person
                while let next = above[root] { root = next }
                return root
            }
            merges = all.filter { members.contains($0.from) }.sorted { $0.id < $1.id }
            for merge in merges where root(merge.from) != root(merge.into) {
                above[root(merge.from)] = root(merge.into)
            }
            self.members = members.sorted()
            self.root = root(person)
        }
    }

    @Test("a derived document that was removed leaves no memory, and another document stays known when it is empty")
    func removedDocuments() throws {
        let index = PeopleIndex()
        var (sequence, number) = (JournalSequence.zero, Int64(0))
        func put(_ key: DocumentKey, _ body: [UInt8]) {
            let stamp = Stamp(at: Instant(milliseconds: 1), person: PersonID(rawValue: 0))
            let outcome = Outcome(kind: .noteChecks, person: nil, changes: [.documentPut(key, .nobody, body)])
            let entry = JournalEntry(Call(project: World.project, key: nil), stamp, outcome, Reply(Done()))
            let workspace = IndexBatchFacts(index, replays: RememberedCalls()) { $0() }
            workspace.apply(entry)
            index.commit([entry], sequence: sequence.next)
            sequence = sequence.next
            number += 1
        }
        let kept = DocumentKey(.checkList, of: -1)
        put(kept, [7])
        for minute in Int64(0)..<5000 {
            let key = DocumentKey(.checkList, of: minute)
            put(key, [1])
            #expect(index.documentNumber(key) == number)
            put(key, [])
            #expect(index.documentNumber(key) == nil)
        }
        #expect(index.documentPlaces == 2)
        #expect(index.documentNumber(kept) == 1)
        let catalog = DocumentKey(.catalog, of: 1)
        put(catalog, [])
        #expect(index.documentNumber(catalog) == number)
    }
}
