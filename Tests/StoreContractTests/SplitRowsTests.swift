import Domain
import Engine
import TestKit
import Testing

/// Splits that give rows and properties to another person, on every store.
@Suite("Splits of rows")
struct SplitRowsTests {
    /// The tablet's story: Bob uses the tablet without an account. Then Ada logs in on it, and uses her phone, too.
    private struct Story {
        let fixture: StoreFixture
        let ada: PersonID
        let login: JournalSequence

        init(_ kind: StoreKind) throws {
            fixture = try StoreFixture(kind)
            ada = try fixture.identify([.iosIDFV: "TABLET"]).person
            try fixture.upload(["b1", "b2"], for: ada, from: "TABLET", ["plan": "free", "name": "Bob"])
            #expect(try fixture.identify([.customerID: "ada", .iosIDFV: "TABLET"]).person == ada)
            login = fixture.store.counts.lastSequence
            try fixture.upload(["a1"], for: ada, from: "PHONE", ["plan": "pro"])
            try fixture.upload(["b3"], for: ada, from: "TABLET", ["color": "red"])
            try fixture.upload(["a2"], for: ada, from: "PHONE", [:])
        }

        func lanes(_ values: String...) -> SplitSelector {
            var selector = SplitSelector()
            selector.lanes = values.map { fixture.name(.iosIDFV, $0) }
            return selector
        }
    }

    @Test("rows and properties of a device go to the other person, and come back", arguments: StoreKind.allCases)
    func lane(_ kind: StoreKind) throws {
        let story = try Story(kind)
        let (fixture, ada) = (story.fixture, story.ada)
        let before = try fixture.world([ada])
        let split = try fixture.split(ada, story.lanes("TABLET"), [.iosIDFV: "TABLET"])
        #expect(try fixture.timeline(ada) == ["a2", "a1"])
        #expect(try fixture.timeline(split.into) == ["b3", "b2", "b1"])
        #expect(try fixture.events(ada) == 2 && fixture.events(split.into) == 3)
        #expect(try fixture.values(ada) == ["plan": "\"pro\""], "Ada wrote it after Bob")
        #expect(try fixture.values(split.into) == ["plan": "\"free\"", "name": "\"Bob\"", "color": "\"red\""])
        try fixture.reopen()
        #expect(try fixture.timeline(ada, limit: 1) == ["a2", "a1"])
        #expect(try fixture.timeline(split.into, limit: 1) == ["b3", "b2", "b1"])
        #expect(try fixture.owners() == ["b1": split.into, "b2": split.into, "b3": split.into, "a1": ada, "a2": ada])

        try fixture.undo(split)
        #expect(try fixture.world([ada]) == before)
        #expect(try fixture.world([split.into]) == [[], [], []], "nothing came to the other person")
        let again = try fixture.split(ada, story.lanes("TABLET"), [.iosIDFV: "TABLET"])
        #expect(try fixture.timeline(again.into) == ["b3", "b2", "b1"])
        try fixture.undo(again)
        #expect(try fixture.world([ada]) == before)
    }

    @Test("a client that still names the person sends to the other person by its device", arguments: StoreKind.allCases)
    func late(_ kind: StoreKind) throws {
        let story = try Story(kind)
        let (fixture, ada) = (story.fixture, story.ada)
        let split = try fixture.split(ada, story.lanes("TABLET"), [.iosIDFV: "TABLET"])
        try fixture.upload(["b4"], for: ada, from: "TABLET", ["size": "L"])
        try fixture.upload(["a3"], for: ada, from: "PHONE", [:])
        #expect(try fixture.timeline(split.into) == ["b4", "b3", "b2", "b1"])
        #expect(try fixture.timeline(ada) == ["a3", "a2", "a1"])
        #expect(try fixture.values(split.into)["size"] == "\"L\"" && fixture.values(ada)["size"] == nil)
        try fixture.undo(split)
        #expect(try fixture.timeline(ada) == ["a3", "b4", "a2", "b3", "a1", "b2", "b1"])
        #expect(try fixture.values(ada)["size"] == nil, "it is the property of the other member")
        try fixture.upload(["b5"], for: ada, from: "TABLET", [:])
        #expect(try fixture.owners()["b5"] == ada, "the rule has ended")
    }

    @Test("a split at a call takes what it and later calls brought", arguments: StoreKind.allCases)
    func atCall(_ kind: StoreKind) throws {
        let story = try Story(kind)
        let (fixture, bob) = (story.fixture, story.ada)
        var selector = SplitSelector()
        selector.atCall = story.login
        let plan = try fixture.plan(bob, selector)
        #expect(plan.identities.map(\.value) == ["ada"])
        #expect(plan.moved[.event] == 3 && plan.stays[.event] == 2 && plan.refusal == nil)
        let split = try fixture.split(bob, selector, [.customerID: "ada"])
        #expect(try fixture.timeline(bob) == ["b2", "b1"])
        #expect(try fixture.timeline(split.into) == ["a2", "b3", "a1"])
        #expect(try fixture.values(bob) == ["plan": "\"free\"", "name": "\"Bob\""])
        #expect(try fixture.values(split.into) == ["plan": "\"pro\"", "color": "\"red\""])
        #expect(try fixture.identify([.customerID: "ada"]).person == split.into)
        selector.atCall = JournalSequence(rawValue: 1000)
        #expect(try fixture.plan(bob, selector).refusal == .noSuchCall)
    }

    @Test("spans of time, of calls and keys are conditions that must all hold", arguments: StoreKind.allCases)
    func conditions(_ kind: StoreKind) throws {
        let story = try Story(kind)
        let (fixture, ada, login) = (story.fixture, story.ada, story.login)
        func moved(_ edit: (inout SplitSelector) -> Void) throws -> Int {
            var selector = SplitSelector()
            edit(&selector)
            let plan = try fixture.plan(ada, selector)
            #expect((plan.moved[.event] ?? 0) + (plan.stays[.event] ?? 0) == 5)
            return plan.moved[.event] ?? 0
        }
        #expect(try moved { $0.since = .call(login) } == 3)
        #expect(try moved { $0.until = .call(login) } == 2)
        #expect(try moved { $0.since = .moment(fixture.clock.now.advanced(byMilliseconds: 1)) } == 0)
        #expect(try moved { $0.until = .moment(fixture.clock.now.advanced(byMilliseconds: 1)) } == 5)
        #expect(try moved { $0.since = .moment(Instant(milliseconds: 0)) } == 5)
        #expect(try moved { $0.lanes = story.lanes("TABLET").lanes } == 3)
        #expect(try moved { $0.lanes = story.lanes("TABLET", "PHONE").lanes } == 5)
        #expect(
            try moved {
                $0.lanes = story.lanes("TABLET").lanes
                $0.since = .call(login)
            } == 1)
        #expect(try moved { $0.keys = [KeyID(rawValue: 77)] } == 0)
        let lanes = try fixture.store.read { snapshot throws(StoreFault) in
            try PersonLanes(of: ada, in: World.project, snapshot)
        }
        #expect(Dictionary(uniqueKeysWithValues: lanes.lanes.map { ($0.value, $0.rows) }) == ["TABLET": 3, "PHONE": 2])
        #expect(lanes.unknown == 0)
    }

    @Test(
        "a page behind many rows of the other person has the rows before them", arguments: StoreKind.allCases,
        [true, false])
    func behindMany(_ kind: StoreKind, takesLate: Bool) throws {
        let fixture = try StoreFixture(kind)
        let (ada, bob) = (
            try fixture.identify([.customerID: "ada"]).person, try fixture.identify([.customerID: "bob"]).person
        )
        var middle = JournalSequence.zero
        for number in 0..<26 {
            if number == 13 { middle = fixture.store.counts.lastSequence.next }
            try fixture.upload((0..<100).map { "\(number * 100 + $0)" }, for: ada, from: "TABLET", [:])
            try fixture.upload(["bob's \(number)"], for: bob, from: "PHONE", [:])
        }
        func first(_ person: PersonID) throws -> [String] {
            try fixture.routed { snapshot throws(StoreFault) in
                var filter = Timeline.Filter()
                (filter.kinds, filter.limit) = ([.event], 50)
                let newest = try Timeline(of: person, filter, snapshot)
                filter.cursor = newest.next
                return try (newest.rows + Timeline(of: person, filter, snapshot).rows).map {
                    String(decoding: $0.row.body.dropFirst().dropLast(), as: UTF8.self)
                }
            }
        }
        let (early, late) = ((1200..<1300).reversed().map(String.init), (2500..<2600).reversed().map(String.init))
        var selector = SplitSelector()
        if takesLate { selector.since = .call(middle) } else { selector.until = .call(middle) }
        let split = try fixture.split(ada, selector, [:])
        let (hers, other) = takesLate ? (early, late) : (late, early)
        #expect(try first(ada) == hers && first(split.into) == other)
        try fixture.upload(["later"], for: ada, from: "TABLET", [:])
        #expect(try first(ada) == ["later"] + hers.dropLast() && first(split.into) == other)
        try fixture.undo(split)
        #expect(try first(ada) == ["later"] + late.dropLast())
    }

    @Test("several splits of one person stand beside each other, and end in any order", arguments: StoreKind.allCases)
    func several(_ kind: StoreKind) throws {
        for order in [[0, 1], [1, 0]] {
            let story = try Story(kind)
            let (fixture, ada) = (story.fixture, story.ada)
            let before = try fixture.world([ada])
            let splits = [
                try fixture.split(ada, story.lanes("TABLET"), [.iosIDFV: "TABLET"]),
                try fixture.split(ada, story.lanes("PHONE"), [:]),
            ]
            #expect(try fixture.timeline(ada).isEmpty && fixture.events(ada) == 0)
            #expect(try fixture.timeline(splits[1].into) == ["a2", "a1"])
            for index in order { try fixture.undo(splits[index]) }
            #expect(try fixture.world([ada]) == before)
        }
    }

    @Test("a split of a split's side goes before it", arguments: StoreKind.allCases)
    func chain(_ kind: StoreKind) throws {
        let story = try Story(kind)
        let (fixture, ada) = (story.fixture, story.ada)
        let before = try fixture.world([ada])
        let first = try fixture.split(ada, story.lanes("TABLET"), [.iosIDFV: "TABLET"])
        var selector = SplitSelector()
        selector.until = .call(story.login)
        let second = try fixture.split(first.into, selector, [:])
        #expect(try fixture.timeline(first.into) == ["b3"] && fixture.timeline(second.into) == ["b2", "b1"])
        #expect(try fixture.events(first.into) == 1 && fixture.events(second.into) == 2 && fixture.events(ada) == 2)
        guard case .failure(.refused(let refusal)) = fixture.process([try fixture.undoing(first)])[0] else {
            Issue.record("A split was undone below a later split of its rows.")
            return
        }
        #expect(refusal == .splitRowsBuiltUpon(second.id))
        try fixture.undo(second)
        #expect(try fixture.timeline(first.into) == ["b3", "b2", "b1"])
        try fixture.undo(first)
        #expect(try fixture.world([ada]) == before)
    }

    @Test("a plan that is late is refused, and changes nothing", arguments: StoreKind.allCases)
    func lateRows(_ kind: StoreKind) throws {
        let story = try Story(kind)
        let (fixture, ada) = (story.fixture, story.ada)
        let act = try fixture.act(ada, story.lanes("TABLET"), [:])
        try fixture.upload(["a3"], for: ada, from: "PHONE", [:])
        guard case .failure(.refused(let refusal)) = fixture.process([act])[0] else {
            Issue.record("A late plan was made.")
            return
        }
        #expect(refusal == .changedMeanwhile)
        #expect(try fixture.timeline(ada).count == 6)
    }

    @Test("an erasure of one side leaves the rows of the other", arguments: StoreKind.allCases, [true, false])
    func erase(_ kind: StoreKind, _ erasesFirst: Bool) throws {
        let story = try Story(kind)
        let (fixture, ada) = (story.fixture, story.ada)
        let split = try fixture.split(ada, story.lanes("TABLET"), [.iosIDFV: "TABLET"])
        let (gone, kept) = erasesFirst ? (ada, split.into) : (split.into, ada)
        let before = try fixture.timeline(kept)
        guard case .failure(.refused(let refusal)) = fixture.process([ErasePerson(gone)])[0] else {
            Issue.record("An erasure took rows of the other person.")
            return
        }
        #expect(refusal == .rowsNotSettled)
        try fixture.settle([gone])
        #expect(try fixture.timeline(kept) == before)
        try fixture.reopen()
        _ = try fixture.process(ErasePerson(gone))
        while try fixture.store.sweep() {}
        try fixture.reopen()
        #expect(try fixture.timeline(kept) == before)
        #expect(try fixture.events(kept) == before.count)
        #expect(Set(try fixture.owners().keys) == Set(before), "no row of the erased person is left")
        try fixture.store.read { snapshot throws(StoreFault) in
            #expect(!(snapshot is RoutedSnapshot), "no split routes rows any more")
        }
    }

    @Test("questions as of a moment before and after the split", arguments: StoreKind.allCases)
    func past(_ kind: StoreKind) throws {
        let story = try Story(kind)
        let (fixture, ada) = (story.fixture, story.ada)
        let start = fixture.store.counts.lastSequence
        let split = try fixture.split(ada, story.lanes("TABLET"), [.iosIDFV: "TABLET"])
        let parted = fixture.store.counts.lastSequence
        try fixture.undo(split)
        func timeline(_ person: PersonID, _ sequence: JournalSequence) throws -> [String] {
            try fixture.store.read { snapshot throws(StoreFault) in
                try PastSnapshot.read(snapshot, after: sequence, in: World.project) { past throws(StoreFault) in
                    try StoreFixture.timeline(person, past)
                }
            }
        }
        #expect(try timeline(ada, start) == ["a2", "b3", "a1", "b2", "b1"])
        #expect(try timeline(ada, parted) == ["a2", "a1"])
        #expect(try timeline(split.into, parted) == ["b3", "b2", "b1"])
    }

    private func pick<Element>(_ list: [Element], _ generator: inout SeededGenerator) -> Element {
        list[Int.random(in: 0..<list.count, using: &generator)]
    }

    @Test(
        "an undo of a random split gives the world before it back",
        arguments: Soak.histories(Soak.factor == 1 ? 20 : 500))
    func random(_ seed: UInt64) throws {
        for kind in StoreKind.simulated(seed, postgresOneIn: 10) {
            var generator = SeededGenerator(seed: seed)
            let fixture = try StoreFixture(kind)
            let devices = ["1", "2", "3"]
            var people: [PersonID] = []
            var number = 0
            for device in devices { people.append(try fixture.identify([.iosIDFV: device]).person) }
            for _ in 0..<30 {
                let person = pick(people, &generator)
                number += 1
                try fixture.upload(
                    ["e\(number)"], for: person, from: pick(devices, &generator),
                    generator.oneIn(2) ? ["p\(Int.random(in: 0..<4, using: &generator))": "\(number)"] : [:])
                if generator.oneIn(4) { fixture.clock.advance(milliseconds: 1000) }
            }
            var open: [(split: Split, before: [[String]])] = []
            for _ in 0..<4 {
                let person = pick(people, &generator)
                var selector = SplitSelector()
                if generator.oneIn(2) { selector.lanes = [fixture.name(.iosIDFV, pick(devices, &generator))] }
                if generator.oneIn(2) {
                    selector.since = .call(JournalSequence(rawValue: Int64.random(in: 1...40, using: &generator)))
                }
                if generator.oneIn(3) {
                    selector.until = .call(JournalSequence(rawValue: Int64.random(in: 1...40, using: &generator)))
                }
                let plan = try fixture.plan(person, selector)
                guard selector.selects, !plan.content.isEmpty else { continue }
                let into = generator.oneIn(3) ? people.first { $0 != person } : nil
                let before = try fixture.world(people)
                let total = try people.reduce(0) { try $0 + fixture.events($1) }
                let split = try fixture.split(person, selector, [:], into: into)
                if into == nil { people.append(split.into) }
                open.append((split, before))
                #expect(
                    try people.reduce(0) { try $0 + fixture.events($1) } == total, "ONYM_SEED=\(seed) on \(kind)")
                for person in people {
                    #expect(
                        try fixture.timeline(person).count == fixture.events(person), "ONYM_SEED=\(seed) on \(kind)")
                }
            }
            while let (split, before) = open.popLast() {
                try fixture.undo(split)
                if split.makesPerson { people.removeLast() }
                #expect(try fixture.world(people) == before, "ONYM_SEED=\(seed) on \(kind)")
            }
        }
    }
}

extension StoreFixture {
    fileprivate func settle(_ people: [PersonID]) throws {
        guard
            var rows = try routed({ snapshot throws(StoreFault) in
                try UnsettledRows(of: people, in: World.project, snapshot)
            })
        else { return }
        for _ in 0..<100 {
            let act = try routed { snapshot throws(StoreFault) in try rows.next(snapshot) }
            _ = try process(act)
            if !act.ends.isEmpty { return }
        }
        Issue.record("The rows do not settle.")
    }

    /// The owners of all rows of the project, as lists of rows show them.
    fileprivate func owners() throws -> [String: PersonID] {
        try routed { snapshot throws(StoreFault) in
            var owners: [String: PersonID] = [:]
            for row in try snapshot.rows(of: .event, in: World.project, RowsByTime()) {
                owners[String(decoding: row.row.body.dropFirst().dropLast(), as: UTF8.self)] = row.person
            }
            for (_, row) in try snapshot.rows(after: RowNumber(rawValue: 0), limit: 1000) {
                let name = String(decoding: row.row.body.dropFirst().dropLast(), as: UTF8.self)
                let alone = try snapshot.row(row.number)?.person
                #expect(owners[name] == row.person && alone == row.person)
            }
            return owners
        }
    }
}
