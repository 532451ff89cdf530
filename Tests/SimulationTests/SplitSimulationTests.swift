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
            let othersBefore = try one.readingsOfOthers()
            let split = try one.splitAtLogin()
            for (person, counterpart) in pairs {
                let (now, then) = (try one.reading(of: person), try other.reading(of: counterpart))
                #expect(now == then, "\(hint): \(person)")
            }
            // A login on another device of the person changed nothing, so the journal does not have it.
            let unseen = Set((0..<3).filter { $0 != join.client }.map { "ios_idfv:d\($0)" })
            let new = try #require(other.madeNew)
            let (now, then) = (try one.reading(of: split.into), try other.reading(of: new))
            #expect(now.dropLast() == then.dropLast(), "\(hint): somebody new")
            #expect(
                Set(now.last ?? []).subtracting(unseen) == Set(then.last ?? []).subtracting(unseen),
                "\(hint): somebody new")
            #expect(try one.readingsOfOthers() == other.readingsOfOthers(), "\(hint): others")
            try one.fixture.undo(split)
            #expect(try one.fixture.world(pairs.map(\.one)) == before, "\(hint): undone")
            #expect(try one.readingsOfOthers() == othersBefore, "\(hint): others, undone")
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
        /// An upload of an anonymous visitor of the Claim dialect.
        case collect(visitor: Int)
        case claim(visitor: Int, user: Int)
        case buy(shopper: Int)
        /// A new install with a user of the Linking dialect, and a row of the install.
        case install(user: Int)
        /// An administrator says that a client's person is somebody whom another dialect knows.
        case join(client: Int, Other)

        var description: String {
            switch self {
            case .start(let client): "start \(client)"
            case .login(let client, let user): "login \(client) u\(user)"
            case .logout(let client): "logout \(client)"
            case .email(let client, let email): "email \(client) e\(email)"
            case .upload(let client, let property): "upload \(client)\(property.map { " p\($0)" } ?? "")"
            case .collect(let visitor): "collect v\(visitor)"
            case .claim(let visitor, let user): "claim v\(visitor) c\(user)"
            case .buy(let shopper): "buy s\(shopper)"
            case .install(let user): "install x\(user)"
            case .join(let client, let other): "join \(client) \(other)"
            }
        }
    }

    /// A person that a dialect beside IDSync knows.
    enum Other: Hashable, CustomStringConvertible {
        case visitor(Int)
        case user(Int)
        case shopper(Int)
        case linked(Int)

        static let all: [Other] = (0..<2).flatMap { [.visitor($0), .user($0), .shopper($0), .linked($0)] }

        var name: (type: IdentityType, value: String) {
            switch self {
            case .visitor(let number): (.claimAnonymousID, "owl_anon_v\(number)")
            case .user(let number): (.claimUserID, "c\(number)")
            case .shopper(let number): (.accessUserID, "QON_s\(number)")
            case .linked(let number): (.linkingExternalID, "x\(number)")
            }
        }

        var description: String { name.value }
    }

    let steps: [Step]
    let seed: UInt64

    init(seed: UInt64) {
        self.seed = seed
        var generator = SeededGenerator(seed: seed)
        func some(_ count: Int) -> Int { Int.random(in: 0..<count, using: &generator) }
        steps = (0..<24).map { _ in
            let client = some(3)
            return switch some(14) {
            case 0, 1: .start(client: client)
            case 2, 3: .login(client: client, user: some(4))
            case 4: .logout(client: client)
            case 5: .email(client: client, some(3))
            case 6: some(2) == 0 ? .collect(visitor: some(2)) : .claim(visitor: some(2), user: some(2))
            case 7: .buy(shopper: some(2))
            case 8: .install(user: some(2))
            case 9: .join(client: client, Other.all[some(Other.all.count)])
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
    /// The steps in which an administrator named a person. Their calls stay about this person after the split.
    private var joins: Set<Int> = []
    private var clients = [(person: PersonID, user: Int?)?](repeating: nil, count: 3)

    /// Plays a script.
    ///
    /// - Parameter step: the login that answers somebody new; nil to let all calls come to whom the rules find.
    init(_ kind: StoreKind, _ script: Script, newAt step: Int?) throws {
        fixture = try StoreFixture(kind, seed: script.seed)
        try open()
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
        case .collect, .claim, .buy, .install: try play(other: step, index)
        case .join(let client, let other):
            guard let known = clients[client], let person = try self.person(other) else {
                return answers.append((nil, false))
            }
            let answer = fixture.process([MergePeople(from: person, into: known.person)])[0]
            let isRefused = if case .failure = answer { true } else { false }
            joins.insert(index)
            answers.append((known.person, isRefused))
        }
    }

    // MARK: - Other dialects

    private static let app = AppID(rawValue: 1)

    /// What the other dialects need: something to sell, and an app of installs.
    private func open() throws {
        _ = try fixture.process(CatalogEdit.putEntitlement(Catalog.Entitlement(id: "plus", name: nil)))
        _ = try fixture.process(
            CatalogEdit.putProduct(
                Catalog.Product(
                    id: "plus", storeID: nil, kind: .nonConsumable, durationSeconds: nil, entitlements: ["plus"])))
        let secret = KeyHash(Hash128(high: 1, low: 1), Hash128(high: 1, low: 1))
        let app = MakeLinkingApp(name: "Test", publicID: "test", secretHash: secret)
        #expect(try fixture.process(app) == Reply(LinkingReply.appMade(SplitWorld.app)))
    }

    private func identity(_ other: Script.Other) -> Identity { fixture.name(other.name.type, other.name.value) }

    private func person(_ other: Script.Other) throws -> PersonID? {
        try fixture.store.read { snapshot throws(StoreFault) in snapshot.holders(of: identity(other).key).first }
    }

    /// Calls of other dialects, which name nobody that the clients know.
    private func play(other step: Script.Step, _ index: Int) throws {
        let hash = fixture.store.hash
        var answer: Writer.Answer?
        switch step {
        case .collect(let visitor):
            let row = Row(.event, at: fixture.clock.now, body: Array("\"v\(index)\"".utf8))
            let part = Collect.Part(
                user: identity(.visitor(visitor)), rows: [row], sighting: .init(app: SplitWorld.app))
            answer = fixture.process([Collect([part])])[0]
        case .claim(let visitor, let user):
            answer = fixture.process([Claim(anonymous: identity(.visitor(visitor)), user: identity(.user(user)))])[0]
        case .buy(let shopper):
            let user = identity(.shopper(shopper))
            _ = fixture.process([MakeAccessUser(user, isForTrying: false)])
            let name = "t\(index)"
            let id = PurchaseID(.appStore, name, in: .production, of: World.project, hash: hash)
            let receipt = Receipt(
                purchase: id, source: .appStore, transaction: name, originalTransaction: name, product: "plus",
                purchasedAt: fixture.clock.now)
            answer = fixture.process([RecordPurchase(AccessSession(user), .success(receipt), in: .production)])[0]
        case .install(let user):
            let make = MakeInstall(app: SplitWorld.app, device: .init(), thumbprint: nil, hash: hash)
            guard case .installMade(let session, _) = try fixture.process(make).as(LinkingReply.self) else { break }
            _ = fixture.process([
                LinkInstall(
                    session.install, app: SplitWorld.app, to: identity(.linked(user)), in: World.project, hash: hash)
            ])
            let caller = LinkingCaller(
                session.install, app: SplitWorld.app, family: session.install.rawValue, thumbprint: nil,
                in: World.project, hash: hash)
            let row = Row(
                .event, at: fixture.clock.now.advanced(byMilliseconds: 5),
                recognition: RowHash(.event, "i\(index)".utf8.span, in: World.project, hash: hash),
                body: Array("\"i\(index)\"".utf8))
            answer = fixture.process([SubmitRows(caller, rows: [row])])[0]
        case .start, .login, .logout, .email, .upload, .join: break
        }
        let isRefused = if case .failure = answer { true } else { false }
        answers.append((nil, isRefused))
    }

    /// For each person that another dialect knows: what can be read of the person.
    func readingsOfOthers() throws -> [[String]] {
        try Script.Other.all.flatMap { other in try person(other).map { try reading(of: $0) } ?? [["\(other): nobody"]]
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
        for (index, (mine, theirs)) in zip(answers, other.answers).enumerated() {
            guard mine.isRefused == theirs.isRefused else { return nil }
            guard let person = mine.person, let counterpart = theirs.person else { continue }
            if counterpart == madeNew {
                if person != join.person || joins.contains(index) { return nil }
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

    /// The timeline, the properties, what the person's group holds and may use, and the identities of a person. Other worlds have
    /// other ids of people and installs.
    func reading(of person: PersonID) throws -> [[String]] {
        let now = fixture.clock.now
        let group = try fixture.routed { snapshot throws(StoreFault) in
            guard let profile = try Profile(person, in: World.project, snapshot) else { return ["nobody"] }
            let access = try PersonAccess(of: person, in: World.project, at: now, snapshot)
            let installs = profile.holdings.values.flatMap(\.installs).map { "install \($0.state.name)" }
            let purchases = profile.purchases.map { "purchase \($0.purchase.transaction)" }
            let properties = profile.properties.flatMap { dialect, folded in
                folded.entries.map { "\(dialect) \($0.key)=\(String(decoding: $0.value.value, as: UTF8.self))" }
            }
            let counts = profile.counts.map { "\($0.value) of \($0.key.name)" }
            return ["members \(profile.memberCount)"] + counts.sorted() + installs.sorted() + purchases.sorted()
                + properties.sorted() + access.entitlements.map { "\($0.id): \($0.because.count)" }
        }
        return [
            try fixture.timeline(person), try fixture.values(person).map { "\($0.key)=\($0.value)" }.sorted(), group,
            try fixture.store.read { snapshot throws(StoreFault) in
                try snapshot.heldIdentities(of: person)
                    .map { $0.type == .linkingInstallID ? "an install" : "\($0.type.name):\($0.value)" }.sorted()
            },
        ]
    }
}
