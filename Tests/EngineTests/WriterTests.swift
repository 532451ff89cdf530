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
        #expect(person(next.process([identify("next")], at: Instant(milliseconds: 1_600_000_000_000))[0]) == last.next)
    }

    @Test("journals in the order of time, whatever the clock does")
    func growingTime() {
        let store = MemoryStore(hash: World.hash)
        let writer = Writer(store: store, chance: { 0 })
        for time in [1_800_000_000_000, 1_700_000_000_000, 1_900_000_000_000] {
            _ = writer.process([identify("\(time)")], at: Instant(milliseconds: Int64(time)))
        }
        #expect(store.journal.map(\.at.milliseconds) == [1_800_000_000_000, 1_800_000_000_000, 1_900_000_000_000])
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
        #expect(entry.changes == [.personMade(made, at: entry.at), .linked(made, World.identity(.email, "a@x"))])
        _ = writer.process([job], at: Instant(milliseconds: 1_800_000_000_001))
        #expect(store.journal.count == 2, "a value that was refused is journalled each time")
        let plain = Identify(identities: World.identities([.email: "a@x"]))
        let quiet = Job(call: Call(project: World.project, key: KeyID(rawValue: 7)), act: plain)
        _ = writer.process([quiet], at: Instant(milliseconds: 1_800_000_000_002))
        #expect(store.journal.count == 2, "a call that changes nothing is not")
    }
}
