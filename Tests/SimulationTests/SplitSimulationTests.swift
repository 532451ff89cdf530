import Domain
import Engine
import TestKit
import Testing

/// Two worlds with the same calls by chance, but for one login on a device that somebody without an account had used. In the first
/// world the login comes to that person, goes on, and the person is split at the login. In the second world the login answers
/// somebody new. Where the calls in between came to the same people, or to the one instead of the other, everything that can be
/// read of anybody is the same at the end (spec/taking-back.md, decision 4).
@Suite("Worlds with a split at a login, and with a login that answers somebody new")
struct SplitSimulationTests {
    static let seeds = Soak.histories(Soak.factor == 1 ? 40 : 1000)
    /// So many histories for each seed: 2,000 in a check, a million in a soak of twenty times.
    private static let histories: UInt64 = 50

    @Test("end the same", arguments: seeds)
    func worlds(_ seed: UInt64) throws {
        var (same, otherwise) = (0, 0)
        for number in 0..<SplitSimulationTests.histories {
            let others = StoreKind.simulated(seed, postgresOneIn: 10).dropFirst()
            let kind = others.count > number ? others[Int(number) + 1] : .memory
            let script = Script(seed: seed &* 1000 + number)
            let one = try SplitWorld(kind, script, newAt: nil)
            guard let join = one.join else { continue }
            let other = try SplitWorld(kind, script, newAt: join.step)
            let hint = "ONYM_SEED=\(seed), history \(number) on \(kind), login at \(join.step): \(script.steps)"
            guard let pairs = one.pairs(with: other) else {
                otherwise += 1
                continue
            }
            same += 1
            let before = try one.fixture.world(pairs.map(\.one))
            let split = try one.splitAtLogin()
            for (person, counterpart) in pairs {
                let (now, then) = (try one.reading(of: person), try other.reading(of: counterpart))
                #expect(now == then, "\(hint): \(person)")
            }
            // A login on another device of the person changed nothing, so the journal does not have it.
            let unseen = Set((0..<3).filter { $0 != join.client }.map { "ios_idfv:d\($0)" })
            let new = try #require(other.madeNew)
            let (now, then) = (try one.reading(of: split.into), try other.reading(of: new))
            #expect(now[0...1] == then[0...1], "\(hint): somebody new")
            #expect(Set(now[2]).subtracting(unseen) == Set(then[2]).subtracting(unseen), "\(hint): somebody new")
            try one.fixture.undo(split)
            #expect(try one.fixture.world(pairs.map(\.one)) == before, "\(hint): undone")
        }
        #expect(same > SplitSimulationTests.histories / 8, "\(same) and \(otherwise)")
    }
}

/// Calls of some clients by chance. Each client has a device, and knows the person that it was told last.
private struct Script {
    enum Step: CustomStringConvertible {
        case start(client: Int)
        case login(client: Int, user: Int)
        case logout(client: Int)
        case email(client: Int, Int)
        case upload(client: Int, property: Int?)

        var description: String {
            switch self {
            case .start(let client): "start \(client)"
            case .login(let client, let user): "login \(client) u\(user)"
            case .logout(let client): "logout \(client)"
            case .email(let client, let email): "email \(client) e\(email)"
            case .upload(let client, let property): "upload \(client)\(property.map { " p\($0)" } ?? "")"
            }
        }
    }

    let steps: [Step]
    let seed: UInt64

    init(seed: UInt64) {
        self.seed = seed
        var generator = SeededGenerator(seed: seed)
        func some(_ count: Int) -> Int { Int.random(in: 0..<count, using: &generator) }
        steps = (0..<20).map { _ in
            let client = some(3)
            return switch some(10) {
            case 0, 1: .start(client: client)
            case 2, 3: .login(client: client, user: some(4))
            case 4: .logout(client: client)
            case 5: .email(client: client, some(3))
            default: .upload(client: client, property: some(2) == 0 ? some(3) : nil)
            }
        }
    }
}

private final class SplitWorld {
    let fixture: StoreFixture
    /// The first login that came to a person without an account: its step, its call, and the person.
    private(set) var join: (step: Int, client: Int, call: JournalSequence, person: PersonID)?
    /// The person that the login at the given step made.
    private(set) var madeNew: PersonID?
    /// For each step, the person that it came to, and whether it was refused.
    private var answers: [(person: PersonID?, isRefused: Bool)] = []
    private var clients = [(person: PersonID, user: Int?)?](repeating: nil, count: 3)

    /// Plays a script.
    ///
    /// - Parameter step: the login that answers somebody new; nil to let all calls come to whom the rules find.
    init(_ kind: StoreKind, _ script: Script, newAt step: Int?) throws {
        fixture = try StoreFixture(kind, seed: script.seed)
        for (index, next) in script.steps.enumerated() {
            try play(next, index, isNew: index == step)
            fixture.clock.advance(milliseconds: 1000)
        }
    }

    private func play(_ step: Script.Step, _ index: Int, isNew: Bool) throws {
        switch step {
        case .start(let client):
            try identify(.start, client, clients[client]?.user, index)
        case .login(let client, let user):
            if isNew {
                let made = try fixture.identify([.customerID: "u\(user)"]).person
                _ = try fixture.process(
                    AttachIdentity(fixture.name(.iosIDFV, "d\(client)"), to: made, reason: nil))
                madeNew = made
                clients[client] = (made, user)
                answers.append((made, false))
            } else {
                try identify(.login, client, user, index)
            }
        case .logout(let client):
            try identify(.logout, client, nil, index)
        case .email(let client, let email):
            // An app asks for the address of a user.
            guard let known = clients[client], known.user != nil else { return answers.append((nil, false)) }
            let item = Modify.Item(.email, old: nil, new: fixture.name(.email, "e\(email)@example.com"))
            let answer = fixture.process([Modify(person: known.person, items: [item])])[0]
            let isRefused = if case .failure = answer { true } else { false }
            answers.append((known.person, isRefused))
        case .upload(let client, let property):
            guard let known = clients[client] else { return answers.append((nil, false)) }
            let values = property.map { ["p\($0)": "\(index)"] } ?? [:]
            try fixture.upload(["e\(index)"], for: known.person, from: "d\(client)", values)
            answers.append((known.person, false))
        }
    }

    private func identify(_ occasion: Identify.Occasion, _ client: Int, _ user: Int?, _ index: Int) throws {
        let device = fixture.name(.iosIDFV, "d\(client)")
        let login = user.map { fixture.name(.customerID, "u\($0)") }
        let (holders, isNewUser) = try fixture.store.read { snapshot throws(StoreFault) in
            (snapshot.holders(of: device.key), login.map { snapshot.holders(of: $0.key).isEmpty } ?? false)
        }
        let people = fixture.store.counts.people
        let reply = try fixture.process(
            Identify(occasion, identities: (login.map { [$0] } ?? []) + [device], previous: clients[client]?.person))
        let person = try #require(reply.as(Identified.self)).person
        if occasion == .login, isNewUser, fixture.store.counts.people == people, holders.contains(person), join == nil {
            join = (index, client, fixture.store.counts.lastSequence, person)
        }
        clients[client] = (person, user)
        answers.append((person, false))
    }

    /// The people of this world beside their counterparts in a world whose login answered somebody new; nil if a later call came to
    /// somebody else for another reason than that.
    func pairs(with other: SplitWorld) -> [(one: PersonID, other: PersonID)]? {
        guard let join, let madeNew = other.madeNew else { return nil }
        var counterparts: [PersonID: PersonID] = [:]
        for (mine, theirs) in zip(answers, other.answers) {
            guard mine.isRefused == theirs.isRefused else { return nil }
            guard let person = mine.person, let counterpart = theirs.person else { continue }
            if counterpart == madeNew {
                if person != join.person { return nil }
            } else if counterparts[person, default: counterpart] != counterpart {
                return nil
            } else {
                counterparts[person] = counterpart
            }
        }
        guard Set(counterparts.values).count == counterparts.count else { return nil }
        return counterparts.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }

    func splitAtLogin() throws -> Split {
        let join = try #require(join)
        var selector = SplitSelector()
        selector.atCall = join.call
        let plan = try fixture.plan(join.person, selector)
        return try #require(
            try fixture.process(SplitPerson(join.person, plan, in: World.project, hash: fixture.store.hash)).as(
                Split.self))
    }

    /// The timeline, the properties and the identities of a person.
    func reading(of person: PersonID) throws -> [[String]] {
        [
            try fixture.timeline(person), try fixture.values(person).map { "\($0.key)=\($0.value)" }.sorted(),
            try fixture.store.read { snapshot throws(StoreFault) in
                try snapshot.heldIdentities(of: person).map { "\($0.type.name):\($0.value)" }.sorted()
            },
        ]
    }
}
