import Domain
import TestKit
import Testing

@Suite("Every store's journal")
struct JournalContractTests {
    /// Some calls of chance, of the kinds that touch people.
    private func play(_ fixture: StoreFixture, seed: UInt64, calls: Int) throws {
        var generator = SeededGenerator(seed: seed)
        var people: [PersonID] = []
        var merges: [MergeID] = []
        var edit = StrategyEdit()
        edit.preset = .profileLink
        for round in 0..<calls {
            if round == calls / 2 { try fixture.set(.edit(edit)) }
            switch generator.oneIn(4) ? Int.random(in: 0..<3, using: &generator) : 9 {
            case 0 where people.count > 1:
                let pair = people.shuffled(using: &generator)
                let answer = fixture.process([MergePeople(from: pair[0], into: pair[1])])[0]
                if case .success(let reply) = answer, let merge = reply.as(Merge.self) { merges.append(merge.id) }
            case 1:
                guard let merge = merges.randomElement(using: &generator) else { continue }
                _ = fixture.process([UndoMerge(merge)])
            case 2:
                guard let person = people.randomElement(using: &generator) else { continue }
                let rows = (0..<3).map { _ in Row(.event, at: fixture.clock.now, body: Array("{}".utf8)) }
                let attributes = [Attributes.Write("plan", Array("\(round)".utf8))]
                _ = try fixture.process(
                    Ingest(person: person, identities: [], attributes: attributes, rows: rows))
            default:
                let batch = (0..<4).map { _ in StoreFixture.IdentifyCall.random(&generator, among: people) }
                for answer in fixture.process(batch) {
                    if case .success(let reply) = answer, let identified = reply.as(Identified.self),
                        !people.contains(identified.person)
                    {
                        people.append(identified.person)
                    }
                }
            }
        }
    }

    private func all(_ fixture: StoreFixture) throws -> [RecordedCall] {
        try fixture.store.read { snapshot throws(StoreFault) in
            var calls: [RecordedCall] = []
            while true {
                let page = try snapshot.calls(after: calls.last?.sequence ?? .zero, limit: 7)
                let naming = try snapshot.namingCalls(after: calls.last?.sequence ?? .zero, limit: 7)
                #expect(naming.map { $0.names(snapshot.hash) } == page.map { $0.names(snapshot.hash) })
                if page.isEmpty { return calls }
                calls += page
            }
        }
    }

    private func calls(of person: PersonID, _ fixture: StoreFixture) throws -> [RecordedCall] {
        try fixture.store.read { snapshot throws(StoreFault) in
            var calls: [RecordedCall] = []
            while true {
                let page = try snapshot.calls(of: person, before: calls.last?.sequence, limit: 3)
                if page.isEmpty { return calls }
                calls += page
            }
        }
    }

    @Test("a start does not read the rows of all calls to learn their names")
    func learning() throws {
        let fixture = try StoreFixture(.sqlite)
        try play(fixture, seed: 1, calls: 60)
        let hasRows = try [true, false].map { isWhole in
            try fixture.store.read { snapshot throws(StoreFault) in
                let calls =
                    isWhole
                    ? try snapshot.calls(after: .zero, limit: 100) : try snapshot.namingCalls(after: .zero, limit: 100)
                return calls.contains { call in
                    call.facts.contains { if case .rowsAdded = $0 { true } else { false } }
                }
            }
        }
        #expect(hasRows == [true, false])
    }

    /// Facts as they may be compared: a call that ends several links may do so in any order.
    private func facts(_ call: RecordedCall) -> [String] { call.facts.map { "\($0)" }.sorted() }

    @Test(
        "reads calls back with all that they were and did", arguments: StoreKind.allCases.filter(\.isDurable),
        [UInt64](1...6))
    func same(_ kind: StoreKind, _ seed: UInt64) throws {
        let (model, store) = (try StoreFixture(.memory), try StoreFixture(kind))
        for fixture in [model, store] { try play(fixture, seed: seed, calls: 60) }
        let expected = try all(model)
        #expect(expected.count == Int(model.store.counts.lastSequence.rawValue))
        for isReopened in [false, true] {
            if isReopened { try store.reopen() }
            let found = try all(store)
            #expect(found.count == expected.count)
            for (one, other) in zip(found, expected) {
                #expect(one.sequence == other.sequence && one.at == other.at && one.kind == other.kind)
                #expect(one.person == other.person && one.inputs == other.inputs && one.answer == other.answer)
                #expect(one.requestID == other.requestID && one.key == other.key)
                #expect(facts(one) == facts(other))
                #expect(one.firstRow == other.firstRow)
            }
        }
    }

    @Test("reads calls by their numbers, and names the first row of a call", arguments: StoreKind.allCases)
    func byNumber(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        try play(fixture, seed: 9, calls: 80)
        let journal = try all(fixture)
        var generator = SeededGenerator(seed: 9)
        try fixture.store.read { snapshot throws(StoreFault) in
            for _ in 0..<20 {
                let start = Int.random(in: 0..<journal.count, using: &generator)
                // Near each other, far from each other, backwards, and by chance.
                let wanted =
                    switch Int.random(in: 0..<4, using: &generator) {
                    case 0: journal[start...].prefix(9) + journal.prefix(2)
                    case 1: journal.enumerated().filter { $0.offset % 5 == start % 5 }.map(\.element)[...]
                    case 2: (journal[start...].reversed() + journal[..<start].reversed())[...]
                    default: journal.shuffled(using: &generator)[...]
                    }
                #expect(try snapshot.calls(wanted.map(\.sequence)) == Array(wanted))
            }
            let unknown = [JournalSequence.zero, JournalSequence(rawValue: 1 << 40), journal[3].sequence]
            #expect(try snapshot.calls(unknown) == [journal[3]])
            for call in journal {
                let adds = call.facts.contains { if case .rowsAdded = $0 { true } else { false } }
                let next = RowNumber(rawValue: try snapshot.lastRow(before: call.sequence).rawValue + 1)
                #expect(call.firstRow == (adds ? next : nil))
            }
        }
        #expect(journal.count { $0.firstRow != nil } > 2)
    }

    @Test("reads the calls of a person, and of nobody else", arguments: StoreKind.allCases)
    func ofPerson(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        try play(fixture, seed: 3, calls: 40)
        try fixture.reopen()
        // On from there: who came last is known again.
        try play(fixture, seed: 4, calls: 40)
        let journal = try all(fixture)
        let people = journal.flatMap(\.facts).compactMap { fact -> PersonID? in
            if case .personMade(let person) = fact { person } else { nil }
        }
        #expect(people.count > 20)
        for person in people {
            let expected = journal.filter { call in
                call.person == person
                    || call.facts.contains { fact in
                        switch fact {
                        case .personMade(person), .linked(person, _, _), .unlinked(person, _, _): true
                        case .merged(let merge), .mergeUndone(let merge): merge.from == person || merge.into == person
                        default: false
                        }
                    }
            }
            #expect(try calls(of: person, fixture).map(\.sequence) == expected.map(\.sequence).reversed())
        }
    }
}
