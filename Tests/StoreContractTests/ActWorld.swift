import Domain
import Engine
import Foundation
import TestKit
import Testing

/// A project in which one call of each act can be made, one after the other.
final class ActWorld {
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
    ///
    /// - Parameter note: gets the calls that each act of the table brought into the journal.
    func play(
        upTo count: Int, note: ([RecordedCall]) -> Void = { _ in }
    ) throws -> [(act: any Act, before: JournalSequence)] {
        var played: [(act: any Act, before: JournalSequence)] = []
        do {
            try playAll { act in
                if played.count == count { throw Stop() }
                let before = fixture.store.counts.lastSequence
                played.append((act, before))
                let reply = try make(act).get()
                note(try calls(after: before))
                return reply
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

    /// The people of a call in the journal. People that only got rows or documents are not included.
    static func people(of call: RecordedCall) -> Set<PersonID> {
        var people = Set([call.person].compactMap(\.self))
        for fact in call.facts {
            switch fact {
            case .linked(let person, _, _), .unlinked(let person, _, _), .personErased(let person):
                people.insert(person)
            case .merged(let merge), .mergeUndone(let merge): people.formUnion([merge.from, merge.into])
            case .personMade, .rowsAdded, .documentPut: break
            }
        }
        return people
    }

    /// The people that an act names, by id or by an identity.
    func people(of act: any Act) throws -> Set<PersonID> {
        let subjects = act.subjects
        let keys = (subjects.spokenFor + subjects.links).map(\.key) + subjects.mentions
        return try fixture.store.read { snapshot throws(StoreFault) in
            Set([subjects.about].compactMap(\.self) + subjects.people + keys.flatMap { snapshot.holders(of: $0) })
        }
    }

    /// The people of some that were not erased.
    func present(_ people: Set<PersonID>) throws -> [PersonID] {
        try fixture.store.read { snapshot throws(StoreFault) in
            people.sorted().filter { snapshot.person($0, in: World.project) != nil }
        }
    }

    /// The values of some that the journal, a document or a file of the store has, with the places.
    func traces(of values: [String]) throws -> [(value: String, place: String)] {
        var places = try fixture.store.read { snapshot throws(StoreFault) in
            var places: [(name: String, bytes: Data)] = []
            for call in try snapshot.calls(after: .zero, limit: 10_000) {
                places.append((call.kind.name, Data("\(call.inputs) \(call.facts) \(call.answer)".utf8)))
                for written in try snapshot.documents(writtenBy: call.sequence) {
                    guard let body = try snapshot.content(of: written.version) else { continue }
                    places.append(("\(written.version.key.kind)", Data(body)))
                }
            }
            return places
        }
        for path in fixture.disk?.paths ?? [] {
            if let bytes = fixture.disk?.bytes(of: path) { places.append((path, Data(bytes))) }
        }
        for name in try FileManager.default.contentsOfDirectory(atPath: fixture.folder.path) {
            places.append((name, try Data(contentsOf: URL(filePath: "\(fixture.folder.path)/\(name)"))))
        }
        var traces: [(value: String, place: String)] = []
        for value in values {
            for place in places where place.bytes.range(of: Data(value.utf8)) != nil {
                traces.append((value, place.name))
            }
        }
        return traces
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
    /// - Parameter rehearsed: a call that the reading shows as if it was made.
    func reading(of wanted: Set<PersonID>?, after rehearsed: Rehearsed? = nil) throws -> [String] {
        let people = try wanted ?? people()
        let directory = fixture.store.directory
        return try fixture.store.read { stored throws(StoreFault) in
            let snapshot = try stored.after(rehearsed, in: World.project)
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

    /// An identity whose value no other bytes of the store have by chance.
    private func identity(_ type: IdentityType, _ value: String) -> Identity {
        Identity(type, "the-\(value)-of-the-table", in: World.project, hash: hash)
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
        _ = try play(UndoTransfer(transfer))
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
    var isRefused: Bool {
        if case .failure(.refused) = self { true } else { false }
    }
}
