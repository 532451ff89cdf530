import Domain
import Engine
import StoreMemory
import TestKit
import Testing

@Suite("The writer")
struct WriterTests {
    private func identify(_ name: String) -> Job {
        Job(
            call: Call(project: World.project, key: nil),
            act: Identify(identities: World.identities([.customerID: name])))
    }

    private func person(_ answer: Writer.Answer) -> PersonID? {
        guard case .success(let reply) = answer, let identified = reply.as(Identified.self) else { return nil }
        return identified.person
    }

    @Test("gives people ids that only grow, whatever the clock and chance do")
    func growingIDs() {
        let store = MemoryStore(hash: World.hash)
        // Chance that never varies, and a clock that goes back.
        let writer = Writer(store: store, chance: { .max })
        var last = PersonID(rawValue: 0)
        for (number, time) in [1_800_000_000_000, 1_800_000_000_000, 1_700_000_000_000, 1_800_000_000_001].enumerated()
        {
            let jobs = (0..<3).map { identify("\(number)-\($0)") }
            for answer in writer.process(jobs, at: Instant(milliseconds: Int64(time))) {
                guard let made = person(answer) else { preconditionFailure() }
                #expect(made > last)
                last = made
            }
        }
        let next = Writer(store: store, chance: { 0 })
        let after = person(next.process([identify("next")], at: Instant(milliseconds: 1_600_000_000_000))[0])
        #expect(after == last.next.next, "the note of the clock's step has an id, too")
    }

    @Test(
        "decides the calls around refused groups once, and those behind large changes in another part",
        arguments: StoreKind.allCases)
    func parts(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        func row(_ name: String, _ body: [UInt8] = Array("{}".utf8)) -> Row { fixture.row(name, body) }
        func identity(_ value: String) -> Identity { fixture.identity(value) }
        func job(_ ingest: Ingest, in group: JobGroup? = nil) -> Job {
            fixture.job(ingest, proves: ingest.identities, in: group)
        }
        var jobs: [Job] = []
        for number in 0..<4 {
            let device = try fixture.identify([.iosIDFV: "v\(number)"]).person
            let group = JobGroup()
            // The second of a group would pass alone. Behind the first one it names a known user without a proof.
            jobs += [
                job(Ingest(person: nil, identities: [identity("alone-\(number)")], rows: [row("alone-\(number)")])),
                job(
                    Ingest(person: device, identities: [identity("u\(number)")], rows: [row("1-\(number)")]), in: group),
                job(Ingest(person: device, identities: [], rows: [row("2-\(number)")]), in: group),
            ]
        }
        jobs.append(job(Ingest(person: nil, identities: [identity("last")], rows: [row("last")])))
        let answers = fixture.writer.process(jobs, at: fixture.clock.now)
        #expect(answers.count == jobs.count)
        for (place, answer) in answers.enumerated() {
            let isRefused = if case .failure = answer { true } else { false }
            #expect(isRefused == (place < 12 && place % 3 != 0), "\(place): \(answer)")
        }
        #expect(fixture.store.counts.rows == 5)

        // Each row is small enough, and all of them together are not.
        let large = [UInt8](repeating: UInt8(ascii: "x"), count: 8 << 20)
        let more = fixture.writer.process(
            (0..<10).map { number in
                job(Ingest(person: nil, identities: [identity("large")], rows: [row("large-\(number)", large)]))
            }, at: fixture.clock.now)
        #expect(more.count == 10 && more.allSatisfy { if case .success = $0 { true } else { false } })
        #expect(fixture.store.counts.rows == 15)
    }

    @Test("stores later when people were seen, if a fault came between")
    func foldAfterFault() throws {
        let store = FailingStore(MemoryStore(hash: World.hash))
        let writer = Writer(store: store, chance: { 0 })
        let now = Instant(milliseconds: 1_800_000_000_000)
        let made = writer.process([identify("a"), identify("b")], at: now).compactMap(person)
        for person in made { writer.note([person: SeenAt(now.advanced(byMilliseconds: 1000))]) }
        store.failNext(.fold)
        #expect(!writer.fold(limit: 10) && writer.needsRecovery)
        #expect(writer.recover() == nil)
        #expect(store.foldedPeople.withLock(\.self).isEmpty)
        while writer.fold(limit: 1) {}
        #expect(store.foldedPeople.withLock(\.self) == Set(made))
    }

    @Test("forgets the logged calls of erased people later, if a fault came between", arguments: [false, true])
    func forgetAfterFault(_ isStart: Bool) throws {
        let store = FailingStore(MemoryStore(hash: World.hash))
        let writer = Writer(store: store, chance: { 0 })
        let now = Instant(milliseconds: 1_800_000_000_000)
        func process(_ act: any Act) {
            _ = writer.process([Job(call: Call(project: World.project, key: nil), act: act)], at: now)
        }
        process(SetUp(project: Project(id: World.project, name: "Test", madeAt: now), apps: [], keys: []))
        let ada = try #require(person(writer.process([identify("ada")], at: now)[0]))
        _ = writer.process([identify("ada")], at: now)
        process(ErasePerson(ada))
        func logged() throws -> Int {
            try store.read { snapshot throws(StoreFault) in
                try snapshot.logged(in: World.project, after: 0, limit: 10).flatMap(\.segment.reading.calls).count
            }
        }
        if isStart {
            // The server before has written the log and not ended properly, and this one cannot read who is erased.
            writer.writeLog(within: LogLimit(), at: now)
            #expect(try logged() == 1)
            writer.forgetAllErased()
            store.failNext(.read)
        } else {
            store.failNext(.keep)
        }
        #expect(!writer.forgetInLog(at: now) && writer.needsRecovery && writer.mustForget)
        #expect(writer.recover() == nil)
        while writer.forgetInLog(at: now) {}
        #expect(try !writer.needsRecovery && !writer.mustForget && logged() == 0)
    }

    @Test("journals by the clock, with a note where it goes back")
    func growingTime() {
        let store = MemoryStore(hash: World.hash)
        let writer = Writer(store: store, chance: { 0 })
        for time in [1_800_000_000_000, 1_700_000_000_000, 1_900_000_000_000] {
            _ = writer.process([identify("\(time)")], at: Instant(milliseconds: Int64(time)))
        }
        #expect(
            store.journal.map(\.at.milliseconds)
                == [1_800_000_000_000, 1_700_000_000_000, 1_700_000_000_000, 1_900_000_000_000])
        #expect(store.journal.map(\.kind) == [.identify, .clockStep, .identify, .identify])
    }

    @Test("journals who called and what came of it")
    func journal() throws {
        let store = MemoryStore(hash: World.hash)
        let writer = Writer(store: store, chance: { 0 })
        var call = Call(project: World.project, key: KeyID(rawValue: 7))
        call.requestID = "r-1"
        let identities = World.identities([.customerID: "null", .email: "a@x"])
        let job = Job(call: call, act: Identify(identities: identities))
        let made = try #require(person(writer.process([job], at: Instant(milliseconds: 1_800_000_000_000))[0]))
        let entry = try #require(store.journal.first)
        #expect(entry.key == KeyID(rawValue: 7) && entry.requestID == "r-1" && entry.kind == .identify)
        #expect(entry.person == made)
        #expect(entry.inputs == [.init(World.identity(.customerID, "null"), .blocked)])
        #expect(
            entry.changes == [.personMade(made, at: SeenAt(entry.at)), .linked(made, World.identity(.email, "a@x"))])
        _ = writer.process([job], at: Instant(milliseconds: 1_800_000_000_001))
        #expect(store.journal.count == 2, "a value that was refused is journalled each time")
        let plain = Identify(identities: World.identities([.email: "a@x"]))
        let quiet = Job(call: Call(project: World.project, key: KeyID(rawValue: 7)), act: plain)
        _ = writer.process([quiet], at: Instant(milliseconds: 1_800_000_000_002))
        #expect(store.journal.count == 2, "a call that changes nothing is not")
    }

    @Test(
        "keeps a group of calls together or not at all, also where an earlier one has a later one refused",
        arguments: StoreKind.allCases)
    func group(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        let device = try fixture.identify([.iosIDFV: "v"]).person
        func row(_ name: String) -> Row { fixture.row(name) }
        func identity(_ value: String) -> Identity { fixture.identity(value) }
        func job(_ act: any Act, proves: [Identity], in group: JobGroup?) -> Job {
            fixture.job(act, proves: proves, in: group)
        }
        let before = fixture.store.counts
        // The first call makes the device's person known, so the second one needs a proof that it does not have.
        let group = JobGroup()
        let ada = Ingest(person: device, identities: [identity("ada")], rows: [row("1")])
        let plain = Ingest(person: device, identities: [], rows: [row("2")])
        let alone = Ingest(person: nil, identities: [identity("eve")], rows: [row("3")])
        let answers = fixture.writer.process(
            [
                job(ada, proves: [identity("ada")], in: group), job(plain, proves: [], in: group),
                job(alone, proves: [identity("eve")], in: nil),
            ], at: fixture.clock.now)
        #expect(answers[0] == .failure(.refused(.otherActRefused)))
        guard case .failure(.refused(let refusal)) = answers[1] else { throw Unexpected() }
        #expect(refusal.tokenFault == .missing)
        _ = try answers[2].get()
        #expect(fixture.store.counts.rows == before.rows + 1 && fixture.store.counts.people == before.people + 1)
        // Without the first call nothing speaks against the second.
        let again = fixture.writer.process(
            [job(plain, proves: [], in: group), job(alone, proves: [identity("eve")], in: group)],
            at: fixture.clock.now)
        for answer in again { _ = try answer.get() }
        #expect(fixture.store.counts.rows == before.rows + 2)
    }

    private struct Unexpected: Error {}
}

extension StoreFixture {
    /// An event.
    fileprivate func row(_ name: String, _ body: [UInt8] = Array("{}".utf8)) -> Row {
        let recognition = RowHash(.event, name.utf8.span, in: World.project, hash: store.hash)
        return Row(.event, at: clock.now, recognition: recognition, body: body)
    }

    fileprivate func identity(_ value: String) -> Identity {
        Identity(.customerID, value, in: World.project, hash: store.hash)
    }

    /// A call of somebody who needs proofs, and has those of some identities.
    fileprivate func job(_ act: any Act, proves: [Identity], in group: JobGroup?) -> Job {
        var call = Call(project: World.project, key: nil)
        call.proof = IdentityProof(dialect: .idsync, mode: .require, proven: proves.map(\.key), fault: .missing)
        return Job(call: call, act: act, in: group)
    }
}
