import Domain
import Engine
import TestKit
import Testing

/// The order of sightings (spec/idsync-clients.md decision 10). The ties are of 2,000 pairs, and of the specification's 100,000 with
/// `ONYM_SOAK=50`.
@Suite("The order of sightings")
struct SeenAtTests {
    @Test("grows with each sighting, also in one millisecond and when the clock goes back")
    func order() {
        let order = SightingOrder(after: Instant(milliseconds: 1000))
        var last = SeenAt(Instant(milliseconds: 999))
        for time in [1000, 1000, 900, 1001, 1001, 5] as [Int64] {
            let next = order.next(at: Instant(milliseconds: time))
            #expect(next > last && next.moment.milliseconds >= 1000)
            last = next
        }
        #expect(last.moment == Instant(milliseconds: 1001), "what is shown is the millisecond")
        #expect(SeenAt(Instant(milliseconds: 1_795_213_136_871)).moment.milliseconds == 1_795_213_136_871)
        #expect(SeenAt(Instant(milliseconds: .max)) > SeenAt(Instant(milliseconds: 1 << 42)))
    }

    @Test("decides each tie for the later of two calls in one millisecond", arguments: StoreKind.allCases)
    func ties(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        let pairs = kind == .memory ? min(100_000, 2000 * Soak.factor) : 100
        let hash = fixture.store.hash
        let moment = fixture.clock.now
        func identity(_ type: IdentityType, _ value: String) -> Identity {
            Identity(type, value, in: World.project, hash: hash)
        }
        func answers(_ acts: [any Act]) throws -> [PersonID] {
            let jobs = acts.map { Job(call: Call(project: World.project, key: nil), act: $0) }
            return try fixture.writer.process(jobs, at: moment).map { try #require(try $0.get().seen) }
        }
        var generator = SeededGenerator(seed: 3)
        // A logout makes a new person for the device, so two people hold it; their own addresses find each of them.
        for start in stride(from: 0, to: pairs, by: 50) {
            let numbers = start..<min(start + 50, pairs)
            let made = try answers(
                numbers.flatMap { number in
                    [0, 1].map { half in
                        Identify(
                            .logout,
                            identities: [identity(.iosIDFV, "v\(number)"), identity(.email, "\(number)-\(half)")])
                    }
                })
            let later = numbers.map { _ in Int.random(in: 0...1, using: &generator) }
            let seen = try answers(
                zip(numbers, later).flatMap { number, later in
                    [1 - later, later].map { Identify(identities: [identity(.email, "\(number)-\($0)")]) }
                })
            #expect(Set(seen) == Set(made))
            let found = try answers(numbers.map { Identify(identities: [identity(.iosIDFV, "v\($0)")]) })
            for (place, later) in later.enumerated() { #expect(found[place] == made[2 * place + later]) }
        }
        // The order stays when the store is opened again.
        let (first, second) = (try answers([Identify(identities: [identity(.email, "0-0")])]), "v0")
        try fixture.reopen()
        #expect(try answers([Identify(identities: [identity(.iosIDFV, second)])]) == first)
    }
}
