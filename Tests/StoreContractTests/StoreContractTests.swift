import Domain
import Engine
import StoreSQLite
import Synchronization
import TestKit
import Testing

/// The clauses of the Store protocol, on every store.
@Suite("The contract of stores", .serialized)
struct StoreContractTests {
    typealias Call = StoreFixture.IdentifyCall

    @Test("later batches and peeks see the committed changes", arguments: StoreKind.allCases)
    func committedIsSeen(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        let call = Call([.customerID: "1", .email: "a@x"])
        #expect(fixture.peek(call) == .needsWriter)
        let made = try fixture.identify(call)
        #expect(made.isKnown && made.matched == 0)

        let again = Identified(person: made.person, matched: 0b11, isKnown: true)
        #expect(fixture.peek(call) == (kind.looksIntoMemory ? .reply(Reply(again)) : .needsWriter))
        #expect(try fixture.identify(call) == again)
        #expect(fixture.store.counts.people == 1)
        #expect(fixture.store.counts.identities == 2)
        #expect(fixture.store.counts.links == 2)
        #expect(fixture.changes == 1)
        #expect(fixture.store.lastPerson == made.person)
    }

    @Test("each call of a batch sees what those before it changed", arguments: StoreKind.allCases)
    func batchOrder(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        let answers = try fixture.process([
            Call([.iosIDFV: "1"]),
            Call([.iosIDFV: "1", .email: "a@x"]),
            Call([.email: "a@x"]),
            Call([.iosIDFV: "2"]),
        ]).map { try $0.get() }
        let people = try answers.map { try #require($0.as(Identified.self)) }
        let (first, second, third, fourth) = (people[0], people[1], people[2], people[3])
        #expect(first.person == second.person && second.person == third.person)
        #expect(second.matched == 0b10 && third.matched == 1)
        #expect(fourth.person != first.person)
        #expect(fixture.changes == 3, "the third call changed nothing")
    }

    @Test("two first calls with one new identity make one person", arguments: StoreKind.allCases)
    func oneFirstPerson(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        let answers = fixture.process(Array(repeating: Call([.deviceApplicationStamp: "D"]), count: 20))
        let people = try Set(
            answers.map { answer in
                guard let identified = try answer.get().as(Identified.self) else { preconditionFailure() }
                return identified.person
            })
        #expect(people.count == 1)
        #expect(fixture.store.counts.people == 1)
    }

    @Test("a batch may be empty, and may be large", arguments: StoreKind.allCases)
    func batchSizes(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        #expect(fixture.process([Call]()).isEmpty)
        for size in [1, 7, 8, 9, 31, 32, 33, 40, 1024] {
            let before = fixture.store.counts
            let calls = (0..<size).map {
                Call([.customerID: "\(size)-\($0)", .email: "\(size)-\($0)@x", .iosIDFV: "d-\(size)-\($0)"])
            }
            for answer in fixture.process(calls) { _ = try answer.get() }
            #expect(fixture.store.counts.people == before.people + size)
            #expect(fixture.store.counts.links == before.links + 3 * size)
        }
        if kind.isDurable {
            let counts = fixture.store.counts
            try fixture.reopen()
            #expect(fixture.store.counts == counts)
        }
    }

    // MARK: - Repetitions

    @Test("a repeated call is recognized, and given the answer that it had", arguments: StoreKind.allCases)
    func repeated(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        let byID = Call([.customerID: "1", .email: "a@x"], requestID: "r1")
        let byKey = Call([.customerID: "2", .email: "b@x"], idempotencyKey: "k1")
        let (first, second) = (try fixture.identify(byID), try fixture.identify(byKey))
        // Not what they would be decided as now: then both identities would match.
        #expect(first.matched == 0 && second.matched == 0)
        #expect(fixture.peek(byID) == .needsWriter)
        #expect(try fixture.identify(byID) == first)
        #expect(try fixture.identify(byKey) == second)
        #expect(fixture.changes == 2)

        let both = fixture.process([
            Call([.email: "c@x"], requestID: "r2"), Call([.email: "c@x"], requestID: "r2"),
        ])
        #expect(both[0] == both[1], "in one batch, too")
        if kind.isDurable {
            try fixture.reopen()
            #expect(try fixture.identify(byID) == first)
            #expect(try fixture.identify(byKey) == second)
        }
    }

    @Test("a request id with another body is another call", arguments: StoreKind.allCases)
    func requestIDReused(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        let first = try fixture.identify(Call([.customerID: "1"], requestID: "r"))
        let second = try fixture.identify(Call([.customerID: "2"], requestID: "r"))
        #expect(first.person != second.person)
        #expect(try fixture.identify(Call([.customerID: "2"], requestID: "r")) == second, "the newest is remembered")
    }

    @Test("each call under one request id is recognized by its body", arguments: StoreKind.allCases)
    func requestIDUsedAgain(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        let calls = (0..<40).map { Call([.customerID: "c\($0)"], requestID: "constant") }
        let first = try calls.map { try fixture.identify($0) }
        if kind.isDurable { try fixture.reopen() }
        // The last of them, the first answer included: whoever was made, matched nothing.
        for (call, answer) in zip(calls, first).suffix(RememberedCalls.callsPerKey) {
            #expect(try fixture.identify(call) == answer)
        }
        // Those before are calls of their own again, and find whom they made.
        #expect(try fixture.identify(calls[0]).person == first[0].person)
        #expect(try fixture.identify(calls[0]).matched == 1)
    }

    @Test("a read sees the commits of one moment", arguments: StoreKind.allCases)
    func readingIsOfOneMoment(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        let email = [IdentityType.email: "a@x"]
        let customer = [IdentityType.customerID: "1"]
        let person = try fixture.identify([.iosIDFV: "1", .email: "a@x"]).person
        /// Looks for whoever holds the one and the other, and has the person lose the one for the other in between.
        func reader(losing one: [IdentityType: String], for other: [IdentityType: String]) -> (any Snapshot) -> [Int] {
            var isFirst = true
            return { snapshot in
                let held = World.identities(one).map { snapshot.holders(of: $0.key).count }
                if isFirst {
                    isFirst = false
                    var change = Call(other)
                    (change.modifies, change.oldNames) = (person, one)
                    #expect(throws: Never.self) { _ = try fixture.process([change])[0].get() }
                }
                return held + World.identities(other).map { snapshot.holders(of: $0.key).count }
            }
        }
        let read = try fixture.store.read(reader(losing: email, for: customer))
        #expect(read == [1, 0] || read == [0, 1], "before or after, and not between them")
        if kind.looksIntoMemory {
            let glanced = fixture.store.glance(reader(losing: customer, for: email))
            #expect(glanced == [1, 0] || glanced == [0, 1])
        }
    }

    @Test("a read that must end ends at its next question", arguments: StoreKind.allCases)
    func readingEnds(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        let person = try fixture.identify(Call([.customerID: "1"])).person
        let isOver = Atomic(false)
        let limit = ReadLimit { isOver.load(ordering: .relaxed) }
        func questions(_ snapshot: any Snapshot) throws(StoreFault) {
            _ = try snapshot.identities(of: person)
            _ = try snapshot.calls(of: person, before: nil, limit: 10)
            _ = try snapshot.calls(after: .zero, limit: 10)
            _ = try snapshot.rows(of: person, .event, from: nil, limit: 10)
            _ = try snapshot.row(RowNumber(rawValue: 1))
        }
        try fixture.store.read(until: limit, questions)
        #expect(throws: ReadLimit.fault) {
            // Whoever asks for ever, as a mistake may have it.
            try fixture.store.read(until: limit) { snapshot throws(StoreFault) in
                try questions(snapshot)
                isOver.store(true, ordering: .relaxed)
                while true { try questions(snapshot) }
            }
        }
        isOver.store(false, ordering: .relaxed)
        // The next one is not held to the limit of that before.
        try fixture.store.read(until: limit, questions)
        try fixture.store.read(questions)
    }

    @Test("the calls before any place are read, and before the first there are none", arguments: StoreKind.allCases)
    func callsBefore(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        let person = try fixture.identify(Call([.customerID: "1"])).person
        _ = try fixture.identify(Call([.customerID: "1", .email: "a@x"]))
        _ = try fixture.identify(Call([.customerID: "1", .email: "b@x"]))
        let all = try fixture.store.read { snapshot throws(StoreFault) in
            try snapshot.calls(of: person, before: nil, limit: 10).map(\.sequence.rawValue)
        }
        #expect(all.count == 3)
        // Should it never end, the test does.
        let limit = ReadLimit.lasting(milliseconds: Patience.milliseconds)
        for before in [Int64.min, -1, 0, 1, 2, 3, 4, 5, 1000, .max] {
            let found = try fixture.store.read(until: limit) { snapshot throws(StoreFault) in
                try snapshot.calls(of: person, before: JournalSequence(rawValue: before), limit: 10)
            }
            #expect(found.map(\.sequence.rawValue) == all.filter { $0 < before }, "before \(before)")
        }
    }

    @Test("a step of the clock back is noted, and the journal goes on by the clock", arguments: StoreKind.allCases)
    func clockSetBack(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        let days: Int64 = 41 * 86_400_000
        let first = try fixture.identify([.customerID: "a"])
        let right = fixture.clock.now
        fixture.clock.advance(milliseconds: days)
        let ahead = try fixture.identify([.customerID: "b"])
        let before = try #require(fixture.store.lastMoment)
        // Some seconds are no step: the journal stays where it is.
        fixture.clock.advance(milliseconds: -ClockStep.slackMilliseconds)
        _ = try fixture.identify([.customerID: "near"])
        #expect(fixture.store.lastMoment == before)
        try fixture.reopen()
        fixture.clock.advance(milliseconds: ClockStep.slackMilliseconds - days + 1000)
        let after = try fixture.identify([.customerID: "c"])
        let back = fixture.clock.now
        #expect(first.person < ahead.person && ahead.person < after.person, "ids only grow")
        #expect(try #require(fixture.store.lastMoment) < before && fixture.store.latestMoment == before)
        try fixture.reopen()
        #expect(fixture.store.latestMoment == before)
        let later = try fixture.identify([.customerID: "d"])
        #expect(later.person > after.person)
        let read = try fixture.store.read { snapshot throws(StoreFault) in
            (
                steps: try snapshot.clockSteps(), last: try snapshot.lastCall(),
                atRight: try snapshot.lastCall(upTo: right), atBack: try snapshot.lastCall(upTo: back),
                atAhead: try snapshot.lastCall(upTo: before),
                atNothing: try snapshot.lastCall(upTo: Instant(milliseconds: 0)),
                fromAhead: try snapshot.firstCall(from: right.advanced(byMilliseconds: days / 2)),
                fromBack: try snapshot.firstCall(from: back),
                fromStart: try snapshot.firstCall(from: Instant(milliseconds: 0)),
                fromNever: try snapshot.firstCall(from: before.advanced(byMilliseconds: 1)),
                calls: try snapshot.calls(after: .zero, limit: 100)
            )
        }
        let step = try #require(read.steps.first)
        #expect(read.steps.count == 1 && step.before == before && step.after < before)
        #expect(read.calls.map(\.kind).filter { $0 == .clockStep }.count == 1)
        func number(_ person: PersonID) throws -> JournalSequence {
            try #require(read.calls.first { $0.person == person }).sequence
        }
        #expect(try read.atRight == number(first.person))
        #expect(read.atBack.rawValue == step.sequence.rawValue + 1 && read.atBack < read.last)
        #expect(read.atAhead == read.last && read.atNothing == .zero)
        #expect(try read.fromAhead == number(ahead.person))
        #expect(try read.fromBack == number(ahead.person), "all calls before it are earlier")
        #expect(read.fromStart.rawValue == 1 && read.fromNever.rawValue == read.last.rawValue + 1)
        if kind == .memory { return }
        #expect(try fixture.findings(now: fixture.clock.now).isEmpty)
        let behind = try fixture.findings(now: fixture.clock.now.advanced(byMilliseconds: -days))
        #expect(behind.map(\.code) == ["clock"], "the journal is 41 days ahead")
    }

    @Test(
        "ids go on behind a step of the clock, also those of merges, and in a store that is opened again and again",
        arguments: StoreKind.allCases, [Int64(41 * 86_400_000), 1000, 0])
    func idsBehindAStep(_ kind: StoreKind, _ back: Int64) throws {
        let fixture = try StoreFixture(kind)
        let people = try (0..<6).map { try fixture.identify([.customerID: "\($0)"]).person }
        fixture.clock.advance(milliseconds: -back)
        var given = try #require(people.max())
        for person in people.dropFirst() {
            try fixture.reopen()
            let merge = try #require(try fixture.process(MergePeople(from: person, into: people[0])).as(Merge.self))
            #expect(merge.id.rawValue > given.rawValue)
            given = PersonID(rawValue: merge.id.rawValue)
            #expect(try #require(fixture.store.lastPerson) >= given)
        }
        #expect(fixture.store.counts.merges == 5)
    }

    /// The second person of a call once had an id from behind the moment of the clock, and the next call of the batch made a person
    /// with the same id.
    @Test("behind a step of the clock the calls of a batch give each id once", arguments: StoreKind.allCases)
    func idsOfABatchBehindAStep(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        func identity(_ type: IdentityType, _ value: String) -> Identity {
            Identity(type, value, in: World.project, hash: fixture.store.hash)
        }
        _ = try fixture.identify([.customerID: "before"])
        fixture.clock.advance(milliseconds: -86_400_000)
        for isOpenedAgain in [false, true] {
            if isOpenedAgain { try fixture.reopen() }
            let before = fixture.store.counts.people
            let answers = fixture.process(
                (0..<3).map { number in
                    Claim(
                        anonymous: identity(.claimAnonymousID, "owl_anon_\(isOpenedAgain)_\(number)"),
                        user: identity(.claimUserID, "\(isOpenedAgain)_\(number)"))
                })
            for answer in answers { #expect(throws: Never.self) { try answer.get() } }
            #expect(fixture.store.counts.people == before + 6)
            let given = try #require(fixture.store.lastPerson)
            #expect(try fixture.identify([.customerID: "after \(isOpenedAgain)"]).person > given)
        }
    }

    @Test("an idempotency key with another body is refused, and changes nothing", arguments: StoreKind.allCases)
    func idempotencyKeyReused(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        _ = try fixture.identify(Call([.customerID: "1"], idempotencyKey: "k"))
        let answers = fixture.process([
            Call([.customerID: "2"], idempotencyKey: "k"), Call([.customerID: "3"]),
        ])
        #expect(answers[0] == .failure(.refused(.idempotencyMismatch)))
        #expect(throws: Never.self) { try answers[1].get() }
        #expect(fixture.store.counts.people == 2, "a refusal concerns nobody else's call")
    }

    @Test("a call that changed nothing is not remembered", arguments: StoreKind.allCases)
    func unchangedNotRemembered(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        _ = try fixture.identify([.customerID: "1"])
        let quiet = Call([.customerID: "1"], idempotencyKey: "k")
        _ = try fixture.identify(quiet)
        #expect((fixture.peek(quiet) != .needsWriter) == kind.looksIntoMemory)
        _ = try fixture.identify(Call([.customerID: "2"], idempotencyKey: "k"))
    }

    @Test("calls are remembered for a day, and not for ever", arguments: StoreKind.allCases)
    func memory(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        let hour: Int64 = 3_600_000
        let old = Call([.customerID: "old"], requestID: "old")
        let first = try fixture.identify(old)
        for number in 1...3 {
            fixture.clock.advance(milliseconds: 8 * hour - 1000)
            _ = try fixture.identify([.customerID: "\(number)"])
        }
        #expect(try fixture.identify(old) == first, "not yet a day")
        if kind.isDurable {
            try fixture.reopen()
            #expect(try fixture.identify(old) == first, "not yet a day, after a restart")
        }
        for number in 4...12 {
            fixture.clock.advance(milliseconds: 8 * hour)
            _ = try fixture.identify(Call([.customerID: "\(number)"], requestID: "\(number)"))
        }
        #expect(try fixture.identify(old).matched == 1, "decided anew")
    }

    // MARK: - When people were seen

    @Test("people are seen by the calls that come to them", arguments: StoreKind.allCases)
    func sightings(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        // Two anonymous people with one e-mail address.
        let first = try fixture.identify([.iosIDFV: "1", .email: "E"]).person
        let second = try fixture.identify([.mobileNumber: "N", .iosIDFV: "2"]).person
        _ = try fixture.identify([.mobileNumber: "N", .email: "E"])
        #expect(try fixture.identify([.email: "E"]).person == second)

        fixture.clock.advance(milliseconds: 1000)
        fixture.writer.note([first: SeenAt(fixture.clock.now)])
        fixture.fold()
        #expect(try fixture.identify([.email: "E"]).person == first)
        if kind.isDurable {
            try fixture.reopen()
            #expect(try fixture.identify([.email: "E"]).person == first, "kept")
        }
    }

    @Test("who was made just now is known to be seen, and is not written twice", arguments: StoreKind.allCases)
    func newPeopleAreSeen(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        let calls = (0..<3).map { Call([.customerID: "\($0)"]) }
        _ = fixture.process(calls)
        #expect(!fixture.writer.fold(limit: 1), "there is nothing to be kept")
        fixture.clock.advance(milliseconds: 1000)
        _ = fixture.process(calls)
        #expect(fixture.writer.fold(limit: 1), "one is kept of three who were seen again")
    }

    // MARK: - Faults

    @Test("a commit that failed has left nothing", arguments: StoreKind.allCases)
    func failedCommit(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        _ = try fixture.identify([.customerID: "1"])
        let counts = fixture.store.counts
        fixture.failNextCommit(.before)
        let calls = [Call([.customerID: "2", .email: "b@x"]), Call([.customerID: "1", .email: "a@x"])]
        for answer in fixture.process(calls) {
            guard case .failure(.fault) = answer else {
                Issue.record("A batch was answered although its commit failed.")
                continue
            }
        }
        #expect(fixture.writer.needsRecovery)
        #expect(fixture.writer.recover() == nil)
        #expect(!fixture.writer.needsRecovery)
        #expect(fixture.store.counts.people == counts.people)
        #expect(fixture.store.counts.links == counts.links)
        #expect(fixture.store.counts.lastSequence == counts.lastSequence)
        #expect(fixture.peek(calls[0]) == .needsWriter)
        for answer in fixture.process(calls) { _ = try answer.get() }
        #expect(fixture.store.counts.people == 2)
        try fixture.reopen()
        #expect(fixture.store.counts.people == 2 && fixture.store.counts.links == 4)
    }

    @Test("a commit whose answer was lost is found to stand", arguments: StoreKind.allCases)
    func lostAnswer(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        _ = try fixture.identify([.customerID: "1"])
        fixture.failNextCommit(.after)
        let call = Call([.customerID: "2", .email: "b@x"], requestID: "r")
        guard case .failure(.fault) = fixture.process([call])[0] else {
            Issue.record("A batch was answered although its commit failed.")
            return
        }
        #expect(fixture.writer.recover() == nil)
        #expect(fixture.store.counts.people == 2)
        #expect(fixture.changes == 2)
        let answer = try fixture.identify(call)
        #expect(answer.matched == 0, "the answer that was lost")
        #expect(fixture.changes == 2, "not applied twice")
        try fixture.reopen()
        #expect(fixture.store.counts.people == 2)
    }

    @Test("no read has a call that is on the disk and that its store does not know yet", arguments: StoreKind.allCases)
    func unknownYet(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        let (one, other) = (
            try fixture.identify([.customerID: "1"]).person, try fixture.identify([.customerID: "2"]).person
        )
        fixture.failNextCommit(.after)
        let rows = [Row(.event, at: fixture.clock.now, body: Array("{}".utf8))]
        // The last of these calls touches both people, and the others came to one of them each.
        let acts: [any Act] = [
            Ingest(person: one, identities: [], attributes: [], rows: rows),
            Ingest(person: other, identities: [], attributes: [], rows: rows), MergePeople(from: one, into: other),
        ]
        guard case .failure(.fault) = fixture.process(acts)[0] else {
            Issue.record("A batch was answered although its commit failed.")
            return
        }
        func journals() throws -> [[JournalSequence]] {
            try fixture.store.read { snapshot throws(StoreFault) in
                let last = try snapshot.lastCall()
                var journals: [[JournalSequence]] = []
                for person in [one, other] {
                    let calls = try snapshot.calls(of: person, before: nil, limit: 10).map(\.sequence)
                    #expect(calls.allSatisfy { $0 <= last })
                    journals.append(calls)
                }
                return journals
            }
        }
        // All of them or none: what is left out between two calls would be missed for ever by who reads on from the last.
        #expect(try journals().allSatisfy { $0.count == 1 || $0.count == 3 })
        #expect(fixture.writer.recover() == nil)
        #expect(try journals().map(\.count) == [3, 3])
    }

    // MARK: - Opening

    @Test(
        "opening rebuilds exactly the facts that were committed",
        arguments: StoreKind.allCases.filter(\.isDurable), [UInt64(1), 2, 3])
    func rebuilds(_ kind: StoreKind, _ seed: UInt64) throws {
        let (fixture, model) = (try StoreFixture(kind, seed: seed), try StoreFixture(.memory, seed: seed))
        var generator = SeededGenerator(seed: seed)
        for round in 0..<40 {
            let calls = (0..<Int.random(in: 1...20, using: &generator)).map { _ in Call.random(&generator) }
            #expect(fixture.process(calls) == model.process(calls))
            if round % 7 == 6 {
                try fixture.reopen()
                try model.reopen()
            }
            #expect(fixture.store.counts == model.store.counts)
        }
    }
}
