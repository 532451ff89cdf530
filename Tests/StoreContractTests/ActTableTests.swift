import Domain
import Engine
import TestKit
import Testing

/// What holds for every act, shown for each of the registry: a new act is in this table as soon as it is in the registry, and
/// the test asks for a call of it.
@Suite("Every act")
struct ActTableTests {
    @Test("is kept, packed and repeated as any other", arguments: [StoreKind.memory, .sqlite])
    func repeats(_ kind: StoreKind) throws {
        let world = try ActWorld(kind)
        try world.playAll { act in
            let before = world.fixture.store.counts.lastSequence
            let reply = try world.make(act).get()
            if act is any KeptAct {
                let stamp = Stamp(at: world.fixture.clock.now, person: PersonID(rawValue: 1))
                func note(_ act: any Act) -> GroupNote? {
                    GroupNote(act, stamp, readRootsOf: [PersonID(rawValue: 1)], .default)
                }
                let packed = try #require(note(act)).act
                let kept = try #require(KeptCall(packed: packed), "\(type(of: act)): a kept act is read again")
                #expect(type(of: kept.act) == type(of: act) && kept.at == stamp.at && note(kept.act)?.act == packed)
            }
            if type(of: act).kinds.isEmpty {
                #expect(world.fixture.store.counts.lastSequence == before, "\(act) changes nothing")
                return reply
            }
            #expect(Reply(packed: reply.packed) == reply, "\(type(of: act)): what is kept is read again")
            let calls = try world.calls(after: before)
            #expect(calls.count <= 1)
            if let call = calls.first {
                #expect(type(of: act).kinds.contains(call.kind), "\(type(of: act)) is journalled as \(call.kind.name)")
                if let about = act.subjects.about, let person = call.person {
                    #expect(
                        ([about] + act.subjects.people).contains(person),
                        "\(type(of: act)) is journalled under a person it names")
                }
                let again = try world.repeatLast(act).get()
                #expect(again == reply, "\(type(of: act)): a repeated call gets the same answer")
                #expect(try world.calls(after: before).count == 1, "\(type(of: act)) is journalled once")
            }
            return reply
        }
        let missing = Registry.acts.filter { act in !world.played.contains(ObjectIdentifier(act)) }
        #expect(missing.isEmpty, "There is no call of \(missing).")
    }

    @Test("survives a commit that fails, and one whose answer is lost", arguments: [CommitFault.before, .after])
    func faults(_ fault: CommitFault) throws {
        let world = try ActWorld(.sqlite)
        try world.playAll { act in
            let before = world.fixture.store.counts.lastSequence
            world.fixture.failNextCommit(fault)
            let first = world.make(act)
            if !world.fixture.writer.needsRecovery {
                world.fixture.cancelCommitFault()
                return try first.get()
            }
            #expect(world.fixture.writer.recover() == nil)
            let reply = try world.repeatLast(act).get()
            #expect(try world.calls(after: before).count == 1, "\(type(of: act)) took effect once")
            return reply
        }
    }

    @Test("is refused without a proof where it speaks for a known user")
    func proofs() throws {
        let world = try ActWorld(.memory)
        var refused = 0
        try world.playAll { act in
            for dialect in Dialect.allCases {
                let strategy = world.fixture.store.directory.strategy(of: World.project)
                guard act.subjects.spokenFor.contains(where: { strategy.isKnown($0, in: dialect) }) else { continue }
                let proof = IdentityProof(dialect: dialect, mode: .require, proven: [], fault: .missing)
                guard case .failure(.refused(let refusal)) = world.make(act, proof) else {
                    Issue.record("\(type(of: act)) speaks for a known user, and took no proof.")
                    continue
                }
                #expect(refusal.tokenFault == .missing)
                refused += 1
            }
            return try world.make(act).get()
        }
        #expect(refused >= 9)
    }

    @Test("is taken back as if it had never been made, and its undo too, or says why not")
    func undos() throws {
        var (undone, refused): (Set<String>, [String: Set<String>]) = ([], [:])
        var number = 0
        while true {
            // The first world takes the call with this number back. The second world stops before the call.
            let (one, other) = (try ActWorld(.memory), try ActWorld(.memory))
            guard let call = try one.play(upTo: number + 1).last else { break }
            guard try other.play(upTo: number).count == number else { break }
            number += 1
            let made = try one.calls(after: call.before).first
            guard let made else { continue }
            let kind = made.kind
            let undoable = try #require(try one.undoable(made.sequence), "\(kind.name)")
            if case .never(let reason) = kind.undo {
                #expect(undoable.refusal?.code == reason.rawValue, "\(kind.name): \(undoable)")
                #expect(undoable.plan.people.isEmpty && undoable.factsEnded.isEmpty && undoable.factsBack.isEmpty)
                refused[kind.name, default: []].insert(reason.rawValue)
                continue
            }
            if let refusal = undoable.refusal {
                #expect(["rows_stay", "nothing_changed"].contains(refusal.code), "\(kind.name): \(refusal)")
                refused[kind.name, default: []].insert(refusal.code)
                continue
            }
            let played = try one.reading(of: nil)
            let planned = try one.reading(of: nil, after: undoable.plan)
            let undo = try one.undo(made.sequence)
            undone.insert(kind.name)
            if undoable.plan.strategy == nil {
                #expect(try planned == one.reading(of: nil), "\(kind.name): as the answer showed it before")
            }
            let people = try other.people()
            let difference = try one.reading(of: people).difference(from: other.reading(of: people))
            #expect(difference.isEmpty, "\(kind.name), call \(made.sequence.rawValue): \(difference)")
            let after = try #require(try one.undoable(made.sequence))
            #expect(after.refusal?.code == "already_undone" && after.undoneBy == undo.sequence, "\(kind.name)")
            #expect(undo.events.contains { $0.kind == .callUndone }, "\(kind.name)")
            #expect(one.make(UndoCall(undoable.plan)).isRefused, "\(kind.name) is taken back once")
            // An alias and a transfer that came back are as before, apart from the moment of their undo.
            let redo = try one.undo(undo.sequence)
            #expect(redo.kind == undo.kind)
            #expect(try one.reading(of: nil) == played, "\(kind.name): the undo is taken back")
            #expect(try one.undoable(made.sequence)?.refusal == nil, "\(kind.name) can be taken back again")
        }
        let missing = Registry.kinds.values.filter { kind in
            kind.undo == .facts && !undone.contains(kind.name) && refused[kind.name] == nil
        }
        #expect(Set(missing.map(\.name)) == ActTableTests.notInTheTable, "\(missing.map(\.name))")
    }

    /// The kinds of calls that can be taken back and that no act of the table makes.
    private static let notInTheTable: Set<String> = ["logout", "undo_settings"]

    @Test(
        "takes as many steps as what it names and answers asks for, however large its people, groups and store are",
        arguments: [1, 100, Soak.factor > 1 ? 10_000 : 2_000])
    func work(_ size: Int) throws {
        let world = try ActWorld(.sqlite, isCounted: true)
        var edit = StrategyEdit()
        edit.membersPerGroup = Bounds.membersPerGroupRange.upperBound
        edit.identitiesPerPerson = Bounds.identitiesPerPersonRange.upperBound
        edit.identitiesPerDeviceType = Bounds.identitiesPerDeviceTypeRange.upperBound
        _ = try world.make(SetStrategy.edit(edit)).get()
        try world.playAll { act in
            try world.grow(act, to: size)
            return try world.make(act).get()
        }
        let counted = try #require(world.fixture.counter).most
        let missing = Registry.acts.map { "\($0)" }.filter { counted[$0] == nil }
        #expect(missing.isEmpty, "No steps of \(missing) were counted.")
        for (name, most) in counted.sorted(by: { $0.value.share > $1.value.share }) {
            Soak.report("\(name) takes \(most.steps) steps at size \(size), \(Int(most.share * 100)) % of its bound")
        }
    }

    @Test("has numbers and a name of its own")
    func registry() {
        for (number, kind) in Registry.kinds {
            #expect(ActKind(rawValue: number) == kind && !kind.name.isEmpty)
        }
        #expect(Set(Registry.kinds.values.map(\.name)).count == Registry.kinds.count)
        #expect(ActKind(rawValue: 254) == nil)
    }
}

/// A project in which one call of each act can be made, one after the other.
private final class ActWorld {
    let fixture: StoreFixture
    private(set) var played: Set<ObjectIdentifier> = []
    private var number: UInt64 = 0
    private var hash: KeyedHash { fixture.store.hash }
    private let app = AppID(rawValue: 1)

    init(_ kind: StoreKind, isCounted: Bool = false) throws {
        fixture = try StoreFixture(kind, isCounted: isCounted)
    }

    /// Makes the people of a call large: each holds as many identities, and its group has as many members.
    func grow(_ act: any Act, to size: Int) throws {
        let subjects = act.subjects
        let named = [subjects.about].compactMap(\.self) + subjects.people + subjects.mentionedPeople
        let keys = subjects.spokenFor.map(\.key) + subjects.mentions + subjects.links.map(\.key)
        let small = try fixture.store.read { snapshot throws(StoreFault) in
            var small: [PersonID: (members: Int, identities: Int)] = [:]
            for person in named + keys.flatMap({ snapshot.holders(of: $0) }) {
                let held = try snapshot.identities(of: person).count
                guard held > 0 else { continue }
                small[person] = (size - snapshot.group(of: person).count, size - held)
            }
            return small
        }
        var grown: Set<PersonID> = []
        for (person, lack) in small.sorted(by: { $0.key < $1.key }) {
            let root = try fixture.store.read { snapshot throws(StoreFault) in snapshot.group(of: person).root }
            let members = grown.insert(root).inserted ? max(0, lack.members) : 0
            if members == 0, lack.identities <= 0 { continue }
            _ = try make(
                Grow(person, members: members, identities: max(0, lack.identities), hash: hash)
            ).get()
        }
    }

    // MARK: - Calls

    /// Makes a call that can be recognized when it is repeated.
    func make(_ act: any Act, _ proof: IdentityProof? = nil) -> Writer.Answer {
        number += 1
        return process(act, proof)
    }

    /// Makes the last call again.
    func repeatLast(_ act: any Act) -> Writer.Answer { process(act, nil) }

    private func process(_ act: any Act, _ proof: IdentityProof?) -> Writer.Answer {
        fixture.clock.advance(milliseconds: 10)
        let key = ReplayKey(hash: Hash128(high: 9, low: number), name: .idempotencyKey)
        var call = Call(project: World.project, key: KeyID(rawValue: 7), replayKey: key)
        call.replay = ReplayClaim(key: key, body: Hash128(high: 1, low: number))
        call.requestID = "request \(number)"
        call.proof = proof
        return fixture.writer.process([Job(call: call, act: act)], at: fixture.clock.now)[0]
    }

    private struct Stop: Error {}

    /// Makes the first calls of the table, and returns the journal's last call before each of them.
    func play(upTo count: Int) throws -> [(act: any Act, before: JournalSequence)] {
        var played: [(act: any Act, before: JournalSequence)] = []
        do {
            try playAll { act in
                if played.count == count { throw Stop() }
                played.append((act, fixture.store.counts.lastSequence))
                return try make(act).get()
            }
        } catch is Stop {}
        return played
    }

    func undoable(_ sequence: JournalSequence) throws -> Undoable? {
        let directory = fixture.store.directory
        return try fixture.store.read { snapshot throws(StoreFault) in
            try Undoable(sequence, in: World.project, directory, snapshot)
        }
    }

    /// Takes a call back, and returns the undo.
    func undo(_ sequence: JournalSequence) throws -> RecordedCall {
        let undoable = try #require(try undoable(sequence))
        #expect(undoable.refusal == nil, "\(undoable)")
        let before = fixture.store.counts.lastSequence
        _ = try make(UndoCall(undoable.plan, reason: "a mistake")).get()
        return try #require(try calls(after: before).first)
    }

    func people() throws -> Set<PersonID> {
        let calls = try fixture.store.read { snapshot throws(StoreFault) in
            try snapshot.calls(after: .zero, limit: 10_000)
        }
        var people: Set<PersonID> = []
        for case .personMade(let person) in calls.flatMap(\.facts) { people.insert(person) }
        return people
    }

    /// What can be read of some people, or of all, and of the project.
    ///
    /// - Parameter plan: an undo that the reading shows as if it was made.
    func reading(of wanted: Set<PersonID>?, after plan: UndoPlan? = nil) throws -> [String] {
        let people = try wanted ?? people()
        let directory = fixture.store.directory
        return try fixture.store.read { stored throws(StoreFault) in
            var snapshot = stored
            if let plan { snapshot = try stored.undoing(plan, at: fixture.clock.now, in: World.project) }
            var lines = ["\(directory.strategy(of: World.project))"]
            for person in people.sorted() {
                let held = try snapshot.identities(of: person).map { "\($0.type.name):\($0.value)" }.sorted()
                let group = snapshot.group(of: person)
                lines.append(
                    "\(person.rawValue) \(held) \(group.root.rawValue) \(group.members.map(\.rawValue).sorted())")
                lines.append("\(group.merges.map { "\($0.rule.name)" }.sorted())")
            }
            var keys: [DocumentKey: PersonID] = [:]
            for number in 1...fixture.store.counts.lastSequence.rawValue {
                for written in try snapshot.documents(writtenBy: JournalSequence(rawValue: number)) {
                    keys[written.version.key] = written.person
                }
            }
            for (key, person) in keys where person.rawValue == 0 || people.contains(person) {
                guard let body = try snapshot.document(key) else { continue }
                switch key.kind {
                case .purchase:
                    let purchase = Purchase(PurchaseID(hash: key.hash), packed: body)
                    lines.append("\(key) \(purchase?.owners.map(\.rawValue) ?? [])")
                case .install:
                    guard let install = Install(InstallID(rawValue: 0), IdentityKey(hash: key.hash), packed: body),
                        people.contains(install.person), install.state != .reset || install.user != nil
                    else { continue }
                    let user = install.user?.rawValue ?? 0
                    lines.append("\(key) \(user) \(install.link) \(install.state) \(install.isDisabled)")
                case .linkedUser: lines.append("\(key) \(LinkedUser(of: person, packed: body)?.active ?? [])")
                case .alias where Alias(packed: body)?.undoneAt == nil: lines.append("\(key)")
                case .alias: continue
                case .transfer, .callUndone, .aliasesOfPerson, .appUser, .parted, .partedFrom, .storeAccount: continue
                case .attributes, .properties, .accessProperties, .traits:
                    lines.append("\(key) \(Attributes(packed: body)?.entries.mapValues(\.value) ?? [:])".sortedWords)
                default: lines.append("\(key) \(body)")
                }
            }
            return lines.sorted()
        }
    }

    func calls(after sequence: JournalSequence) throws -> [RecordedCall] {
        try fixture.store.read { snapshot throws(StoreFault) in try snapshot.calls(after: sequence, limit: 10) }
    }

    // MARK: - One of each

    private func identity(_ type: IdentityType, _ value: String) -> Identity {
        Identity(type, value, in: World.project, hash: hash)
    }

    private func receipt() -> Receipt {
        var receipt = Receipt(
            purchase: PurchaseID(.stripe, "t1", in: .production, of: World.project, hash: hash), source: .stripe,
            transaction: "t1", originalTransaction: "t1", product: "plus", purchasedAt: Instant(milliseconds: 5))
        receipt.told.endsAt = Instant(milliseconds: Int64.max / 4)
        return receipt
    }

    /// Makes a call of each act; `play` makes it, and answers what came of it.
    func playAll(_ play: (any Act) throws -> Reply) throws {
        try playPeople { act in try play(self.note(act)) }
        try playClaim { act in try play(self.note(act)) }
        try playAccess { act in try play(self.note(act)) }
        try playInstalls { act in try play(self.note(act)) }
        // A refusal is all that this one comes to.
        self.played.insert(ObjectIdentifier(NoteUnproven.self))
        let unproven = make(NoteUnproven(.missing, about: nil, by: .claim))
        #expect(unproven == .failure(.refused(.unproven(.missing, about: nil))))
    }

    private func note(_ act: any Act) -> any Act {
        played.insert(ObjectIdentifier(type(of: act)))
        return act
    }

    private func playPeople(_ play: (any Act) throws -> Reply) throws {
        func person(_ act: any Act) throws -> PersonID { try #require(try play(act).seen) }
        let one = try person(Identify(.login, identities: [identity(.customerID, "1")]))
        let other = try person(Identify(identities: [identity(.iosIDFV, "2")]))
        _ = try play(IdentifyUser(Identify(.login, identities: [identity(.customerID, "1"), identity(.google, "g")])))
        _ = try play(Search(identities: [identity(.customerID, "1")]))
        _ = try play(
            Modify(person: one, items: [Modify.Item(.email, old: nil, new: identity(.email, "a@example.com"))]))
        let row = Row(
            .event, at: fixture.clock.now,
            recognition: RowHash(.event, "e1".utf8.span, in: World.project, hash: hash), body: Array(#"{"n":1}"#.utf8))
        _ = try play(
            Ingest(
                person: one, identities: [identity(.customerID, "1")], attributes: [.init("plan", Array("pro".utf8))],
                rows: [row]))
        _ = try play(RefuseUpload(upload: "u", reason: "mpid must be there"))
        let now = fixture.clock.now
        let alias = try play(
            MakeAlias(
                source: other, destination: one, start: now.advanced(byMilliseconds: -1000), end: now, device: nil,
                requestID: "r"))
        guard case .made(let id) = alias.as(Aliased.self) else { throw Unexpected(reply: alias) }
        _ = try play(UndoAlias(id))
        let merged = try play(MergePeople(from: other, into: one, reason: "the same human"))
        _ = try play(UndoMerge(try #require(merged.as(Merge.self)).id))
        _ = try play(JoinSameUserIDs([.init(from: other, into: one)]))
        let part = SplitPerson.Part(identity(.email, "a@example.com"), linkedBy: .zero)
        let split = try #require(
            try play(SplitPerson(one, parts: [part], into: other, reason: "another human")).as(Split.self))
        _ = try play(
            UndoSplit(split.id, of: one, into: other, identities: [part.identity], reason: nil))
        _ = try play(AttachIdentity(identity(.other, "o"), to: one, reason: nil))
        _ = try play(DetachIdentity(identity(.other, "o"), from: one, reason: nil))
        let detached = try #require(try undoable(fixture.store.counts.lastSequence))
        _ = try play(UndoCall(detached.plan, reason: "a mistake"))
        _ = try play(ReleaseDevice(identity(.iosIDFV, "2"), reason: nil))
        _ = try play(SettleRows([], ends: [split.id], stored: [:]))
        let third = try person(Identify(identities: [identity(.email, "gone@example.com")]))
        let erased = try #require(try play(ErasePerson(third)).as(Erased.self))
        _ = try play(ReleaseTombstone(try #require(erased.tombstones.first).hash))
        var edit = StrategyEdit()
        edit.sharedDevicePeople = 77
        _ = try play(SetStrategy.edit(edit))
        _ = try play(SetClientConfig(native: [.init("stl", Array("60".utf8))], web: []))
        let started = try play(StartImport(name: "people", form: "facts", onConflict: .refuse, since: .zero))
        let importing = try #require(started.as(ImportShown.self)).progress.id
        _ = try play(
            ImportRecords(
                importing, from: 0, to: Import.Place(position: 10, line: 1, crc: 7),
                [
                    ImportRecord(
                        line: 1, kind: .link, owner: .id(PersonID(rawValue: -77)),
                        content: .link(identity(.customerID, "imported"), since: Instant(milliseconds: 5), until: nil))
                ]))
        _ = try play(FinishImport(importing))
        _ = try play(UndoImport(importing, UndoImport.Part(), isLast: true))
        _ = try play(SetStoreOptions(["stripe.grace_days": .plain("5"), "stripe.secret_key": .sealed([1, 2])]))
        let (first, second) = (
            MasterKeyMark([UInt8](repeating: 1, count: 32)), MasterKeyMark([UInt8](repeating: 2, count: 32))
        )
        let resealed = RotateMasterKey.Resealed(old: [1, 2], new: [3, 4])
        _ = try play(RotateMasterKey(to: second, first: first, sealed: ["stripe.secret_key": resealed]))
        let project = Project(id: ProjectID(rawValue: 9), name: "Other", madeAt: fixture.clock.now)
        _ = try play(SetUp(project: project, apps: [], keys: []))
        _ = try play(
            Administer(
                .makeApp(
                    App(
                        id: app, project: World.project, dialect: .linking, name: "A", platform: .backend,
                        bundleID: nil,
                        publicID: nil, secretHash: nil, webOrigins: [], madeAt: fixture.clock.now))))
        _ = try play(Administer(.change(.project(World.project), name: nil, [.color: "#12ab9f", .userQuota: "7"])))
        let made = try #require(
            try play(MakeSigningKey(name: "K", keyID: "k", .eddsa, publicKey: [UInt8](1...32))).as(SigningKey.self))
        _ = try play(RetireSigningKey(made.id))
        let webhook = try #require(
            try play(MakeWebhook(url: "https://example.com", kinds: [], after: .zero)).as(WebhookMade.self))
        let change = ChangeReference(call: JournalSequence(rawValue: 2), index: 0)
        let failed = NoteDeliveries.Result(change, people: [], .failed("no"))
        _ = try play(NoteDeliveries(webhook: webhook.id, readTo: JournalSequence(rawValue: 2), [failed]))
        // It is parked when it has failed for long.
        fixture.clock.advance(milliseconds: 100 * 3_600_000)
        _ = try play(NoteDeliveries(webhook: webhook.id, readTo: JournalSequence(rawValue: 2), [failed]))
        _ = try play(ReplayDelivery(webhook: webhook.id, change))
        _ = try play(RemoveWebhook(webhook.id))
        _ = try play(NoteKeyUse(KeyID(rawValue: 7), at: fixture.clock.now))
        try playConsole(play)
    }

    private func playConsole(_ play: (any Act) throws -> Reply) throws {
        func hash(_ number: UInt64) -> KeyHash {
            KeyHash(Hash128(high: 70, low: number), Hash128(high: 70, low: number))
        }
        _ = try play(
            MakeConsoleLink(
                ConsoleBook.Link(
                    hash: hash(1), role: .support, name: "Grace", sessionMilliseconds: 24 * 3_600_000,
                    expiresAt: fixture.clock.now.advanced(byMilliseconds: 60_000))))
        let opened = try #require(
            try play(OpenConsole(code: hash(1), session: hash(2))).as(ConsoleOpened.self))
        fixture.clock.advance(milliseconds: 3_600_000)
        _ = try play(NoteConsoleUse(opened.session, at: fixture.clock.now))
        _ = try play(CloseConsole(opened.session))
    }

    private func playClaim(_ play: (any Act) throws -> Reply) throws {
        let (user, anonymous) = (identity(.claimUserID, "ada"), identity(.claimAnonymousID, "owl_anon_1"))
        let sighting = AppUser.Sighting(app: app)
        let event = RowHash(.event, "c1".utf8.span, in: World.project, hash: hash)
        let row = Row(.event, at: fixture.clock.now, recognition: event, body: Array(#"{"n":1}"#.utf8))
        _ = try play(Collect([.init(user: anonymous, rows: [row], sighting: sighting)]))
        let claimed = try #require(try play(Claim(anonymous: anonymous, user: user)).seen)
        _ = try play(SetProperties(user: user, values: [("plan", "pro")]))
        _ = try play(Define(.metric, slug: "opened", .put(.init(name: "Opened"))))
        let body = Array(#"{"text":"good"}"#.utf8)
        let sent = try #require(
            try play(SendFeedback(user: user, body: body, sighting: sighting)).as(SentFeedback.self))
        _ = try play(ReviewFeedback(sent.id, .addressed))
        let author = Domain.Comment.Author(key: KeyID(rawValue: 7), isAgent: true)
        let subject = CommentSubject(.feedback, id: sent.id.rawValue)
        let comment = try #require(try play(PostComment(on: subject, by: author, "seen")).as(Domain.Comment.self))
        _ = try play(EditComment(comment.id, on: subject, by: author, .write("done")))
        _ = try play(EditComment(comment.id, on: subject, by: author, .delete))
        _ = try play(DeleteFeedback(sent.id))
        let question = Questionnaire.Question(id: "q", .text, isRequired: true)
        let text = Questionnaire.Text(name: "N", description: nil, schema: Array("{}".utf8), questions: [question])
        let survey = try #require(try play(SetQuestionnaire.put(slug: "n", text)).as(Questionnaire.self))
        let answered = try #require(
            try play(
                AnswerQuestionnaire(
                    slug: "n", user: user, answers: [("q", .text("yes"))], isComplete: true, details: body,
                    sighting: sighting)
            ).as(Answered.self))
        _ = try play(ReviewResponse(answered.id, to: survey.id, .status(.dismissed)))
        _ = try play(ReviewResponse(answered.id, to: survey.id, .delete))
        let issues = (1...2).map { number in
            Issue(
                id: IssueID(rawValue: Int64(number)), fingerprint: "f\(number)", app: AppID(rawValue: 1),
                isDevelopment: false, title: "It broke", sourceModule: nil, madeAt: fixture.clock.now)
        }
        for issue in issues {
            let session = RowHash(.session, "s\(issue.id.rawValue)".utf8.span, in: World.project, hash: hash)
            let failed = Row(
                .event, at: fixture.clock.now,
                recognition: RowHash(.event, issue.fingerprint.utf8.span, in: World.project, hash: hash),
                body: Array(#"{"n":2}"#.utf8))
            let report = ErrorReport(
                issue: issue, at: fixture.clock.now, occurrence: Row(.occurrence, at: fixture.clock.now, body: body),
                session: session)
            _ = try play(Collect([.init(user: user, rows: [failed], sighting: sighting, errors: [0: report])]))
        }
        _ = try play(SetIssueStatus(issues[0].id, .resolved, version: "1.0"))
        _ = try play(MergeIssues(issues[1].id, into: issues[0].id))
        _ = try play(MergeIssues(issues[1].id, into: issues[0].id, isUndo: true))
        let run = DocumentKey(.runPart, of: 1)
        _ = try play(KeepRuns(before: [DocumentKey(.runsEnd, of: 0): []], after: [(run, [1, 2])]))
        let end = ExpiredRows(before: Instant(milliseconds: 1), upTo: RowNumber(rawValue: 1))
        _ = try play(ExpireRows([.event: end], history: HistoryEnd(JournalSequence(rawValue: 1))))
        _ = try play(NoteRestored(last: JournalSequence(rawValue: 1)))
        _ = try play(NoteRepaired(changes: 1, copy: "onym.db.before-repair-1"))
        let awaited = RowHash(.event, "c2".utf8.span, in: World.project, hash: hash)
        let digest = [UInt8](1...32)
        func reserve() throws -> Domain.Attachment {
            try #require(
                try play(
                    ReserveAttachment(
                        user: identity(.claimNobody, "nobody"), event: awaited, isOfEvent: true,
                        description: .init(
                            app: app, clientEventID: "c2", filename: "f.txt", contentType: "text/plain", byteCount: 5,
                            digest: digest, isDevelopment: false), sighting: sighting, quotas: AttachmentQuotas())
                ).as(Domain.Attachment.self))
        }
        let attachment = try reserve()
        _ = try play(NoteEventOfAttachments(awaited, of: claimed, at: fixture.clock.now))
        _ = try play(StoreAttachment(attachment.id, app: app, byteCount: 5, digest: digest))
        _ = try play(DeleteAttachment(attachment.id))
    }

    private func playAccess(_ play: (any Act) throws -> Reply) throws {
        let (a, b) = (identity(.accessUserID, "A"), identity(.accessUserID, "B"))
        let product = Catalog.Product(
            id: "plus", storeID: nil, kind: .subscription, durationSeconds: nil, entitlements: ["x"])
        _ = try play(CatalogEdit.putEntitlement(Catalog.Entitlement(id: "x", name: nil)))
        _ = try play(CatalogEdit.putProduct(product))
        for user in [a, b] { _ = try play(MakeAccessUser(user, isForTrying: false)) }
        _ = try play(GrantAccess("x", to: a, expiresAt: nil))
        _ = try play(RevokeAccess("x", of: a))
        _ = try play(RecordPurchase(AccessSession(a), .success(receipt()), in: .production))
        for (user, name) in [(a, "u1"), (b, "u2")] {
            _ = try play(
                LinkAccessIdentity(
                    identity(.accessIdentity, name), user: user, newUser: identity(.accessUserID, "N"), install: nil))
        }
        let restored = try play(
            RestorePurchases(
                AccessSession(b), [.success(receipt())], .restore(NamedStrategy(.transfer, isByServer: true)),
                in: .production))
        guard case .restored(let moved) = restored.as(AccessReply.self)?.plain, let transfer = moved.transfer else {
            throw Unexpected(reply: restored)
        }
        _ = try play(UndoTransfer(transfer, isDryRun: false))
        let owner = try fixture.store.read { snapshot throws(StoreFault) in snapshot.holders(of: b.key).first }
        _ = try play(MovePurchase(receipt().purchase, to: try #require(owner), reason: "she bought it"))
        _ = try play(SetAccessProperties([AccessProperty("name", "Ada")], of: a))
        var later = receipt()
        later.told.revokedAt = Instant(milliseconds: 9)
        later.renewal = Purchase.RenewalState(.canceled, saidAt: Instant(milliseconds: 8))
        later.canBeAsked = true
        _ = try play(TakeStoreNews([later]))
        _ = try play(NoteChecks([(later.purchase, .failed(graceMilliseconds: 0))]))
        let notice = StoreNotice(
            .playStore, .purchase("token"), in: nil, of: World.project, at: fixture.clock.now, hash: hash)
        _ = try play(KeepStoreNotice(notice))
        _ = try play(NoteStoreNotices([(notice, .begun)]))
        _ = try play(NoteMissedNews(since: fixture.clock.now))
        let planned = try fixture.store.read { snapshot throws(StoreFault) in
            let now = fixture.clock.now
            return try PlannedAhead(
                in: World.project, at: now, latest: now.advanced(byMilliseconds: 3_600_000), snapshot)
        }
        _ = try play(ReplanChecks(try #require(planned)))
        _ = try play(UnfreezePurchase(later.purchase))
        _ = try play(RecordAttribution(Array(#"{"provider":"x"}"#.utf8), of: a))
    }

    private func playInstalls(_ play: (any Act) throws -> Reply) throws {
        func session(_ reply: Reply) throws -> Session {
            switch reply.as(LinkingReply.self)?.plain {
            case .installMade(let session, _), .redeemed(let session, _, _), .refreshed(let session, _): return session
            default: throw Unexpected(reply: reply)
            }
        }
        func caller(_ session: Session) -> LinkingCaller {
            LinkingCaller(
                session.install, app: session.app, family: session.family, thumbprint: nil, in: World.project,
                hash: hash)
        }
        let made = try play(
            MakeLinkingApp(
                name: "A", publicID: "a", secretHash: KeyHash(Hash128(high: 1, low: 1), Hash128(high: 1, low: 1))))
        guard case .appMade(let app) = made.as(LinkingReply.self) else { throw Unexpected(reply: made) }
        let expiresAt = fixture.clock.now.advanced(byMilliseconds: 1_000_000)
        let keyHash = KeyHash(Hash128(high: 2, low: 1), Hash128(high: 2, low: 2))
        let key = try play(
            MakeLinkingKey(app: app, name: "K", hash: keyHash, scopes: [.userLink], expiresAt: expiresAt))
        guard case .keyMade(let id) = key.as(LinkingReply.self) else { throw Unexpected(reply: key) }
        _ = try play(RevokeLinkingKey(id))
        var edit = EditLinking()
        edit.codeSeconds = 300
        _ = try play(EditLinking())
        _ = try play(edit)
        func install() throws -> Session {
            try session(play(MakeInstall(app: app, device: .init(), thumbprint: nil, hash: hash)))
        }
        let first = try install()
        let external = identity(.linkingExternalID, "e")
        _ = try play(LinkInstall(first.install, app: app, to: external, in: World.project, hash: hash))
        _ = try play(CheckInstall(caller(first)))
        let row = Row(
            .event, at: fixture.clock.now,
            recognition: RowHash(.event, "l1".utf8.span, in: World.project, hash: hash), body: Array("{}".utf8))
        _ = try play(SubmitRows(caller(first), rows: [row]))
        _ = try play(RefreshTokens(caller(first), generation: first.generation))
        let digest = KeyHash(Hash128(high: 3, low: 1), Hash128(high: 3, low: 2))
        let seal = CodeSeal(key: Hash128(high: 3, low: 3))
        func issue(_ external: Identity) throws {
            _ = try play(
                IssueCode(
                    app: app, key: nil, external: external, digest: digest, seal: seal, thumbprint: nil, preview: nil))
        }
        try issue(external)
        let second = try session(
            play(
                RedeemCode(
                    digest: digest, seal: seal, app: app, installKey: Hash128(high: 1, low: 1), device: .init(),
                    thumbprint: nil, hash: hash)))
        _ = try play(DisableInstall(second.install, isDisabled: true, in: World.project, hash: hash))
        let third = try install()
        _ = try play(LinkHard(caller(third)))
        let late = KeyHash(Hash128(high: 4, low: 1), Hash128(high: 4, low: 2))
        _ = try play(
            IssueCode(
                app: app, key: nil, external: identity(.linkingExternalID, "late"), digest: late, seal: seal,
                thumbprint: nil, preview: nil))
        let linked = try play(LinkLate(caller(third), digest: late, seal: seal, hash: hash))
        guard case .linked(let person) = linked.as(LinkingReply.self)?.plain else { throw Unexpected(reply: linked) }
        _ = try play(ResetInstall(caller(first)))
        _ = try play(DeleteUser(person, by: nil))
    }

    private struct Unexpected: Error { let reply: Reply }
}

extension String {
    /// The words in order, because dictionaries have none.
    fileprivate var sortedWords: String { split(separator: ",").sorted().joined(separator: ",") }
}

extension Writer.Answer {
    fileprivate var isRefused: Bool {
        if case .failure(.refused) = self { true } else { false }
    }
}
