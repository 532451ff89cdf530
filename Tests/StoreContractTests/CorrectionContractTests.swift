import Domain
import TestKit
import Testing

/// Imports that correct known events, in every store.
@Suite("Every store corrects events")
struct CorrectionContractTests {
    /// Removes a document, so that a store is as an older version of the server left it.
    private struct RemoveDocument: Act {
        let key: DocumentKey

        static var kinds: [ActKind] { [.collect] }
        var subjects: Subjects { Subjects() }
        var byteCount: Int { 64 }

        func decide<V: DecisionFacts>(_ stamp: Stamp, in project: ProjectID, _ view: V) -> Decision<Collected> {
            Decision(
                Collected(accepted: 0, repeated: 0),
                outcome: Outcome(kind: .collect, person: nil, changes: [.documentPut(key, PersonID(rawValue: 0), [])]))
        }
    }

    private let fixture: StoreFixture
    private let sighting = AppUser.Sighting(app: AppID(rawValue: 1))

    private init(_ kind: StoreKind) throws { fixture = try StoreFixture(kind) }

    init() throws { try self.init(.memory) }

    private func user(_ name: String) -> Identity {
        Identity(.claimUserID, name, in: World.project, hash: fixture.store.hash)
    }

    private func hash(_ text: String) -> RowHash {
        RowHash(.event, text.utf8.span, in: World.project, hash: fixture.store.hash)
    }

    private func row(_ id: String, _ text: String) -> Row {
        Row(.event, at: fixture.clock.now, recognition: hash(id), body: Array(#"{"n":"\#(text)"}"#.utf8))
    }

    /// An import of an event. It takes an error away where a report is given.
    private func correct(_ name: String, _ row: Row, without error: ErrorReport? = nil) -> Collect {
        Collect([.init(user: user(name), rows: [row], sighting: sighting)]) { known, _, sent in
            EventCorrection(
                isChange: known.stored.row.body != sent[0].body, first: known.stored.number, rows: sent,
                errorBefore: error, error: nil)
        }
    }

    private func person(_ name: String) throws -> PersonID? {
        try fixture.store.read { snapshot throws(StoreFault) in
            snapshot.holders(of: user(name).key).first
        }
    }

    private func count(_ name: String, _ kind: RowKind = .event) throws -> Int {
        try fixture.store.read { snapshot throws(StoreFault) in
            snapshot.holders(of: user(name).key).first.flatMap {
                snapshot.person($0, in: World.project)?.counts[kind]
            } ?? 0
        }
    }

    @Test("an import in the batch of an erasure takes no event of the erased person", arguments: StoreKind.allCases)
    func erasure(_ kind: StoreKind) throws {
        let test = try CorrectionContractTests(kind)
        let fixture = test.fixture
        _ = try fixture.process(
            Collect([.init(user: test.user("ada"), rows: [test.row("1", "first")], sighting: test.sighting)]))
        let ada = try #require(try test.person("ada"))
        // The event of the committed row is new; the event that the batch itself adds is then known.
        let answers = fixture.process([
            ErasePerson(ada), test.correct("bob", test.row("1", "second")), test.correct("eve", test.row("1", "third")),
        ])
        let collected = answers.map { answer in (try? answer.get())?.as(Collected.self) }
        #expect(
            collected == [nil, Collected(accepted: 1, repeated: 0), Collected(accepted: 0, repeated: 1)])
        #expect(try [test.count("bob"), test.count("eve")] == [0, 1])
        // The person's row of the same batch.
        let both = fixture.process([
            test.correct("zoe", test.row("2", "first")), test.correct("eve", test.row("3", "first")),
        ])
        #expect(both.count == 2)
        let zoe = try #require(try test.person("zoe"))
        let last = fixture.process([
            test.correct("zoe", test.row("4", "first")), ErasePerson(zoe), test.correct("eve", test.row("4", "second")),
        ])
        #expect((try? last[2].get())?.as(Collected.self) == Collected(accepted: 1, repeated: 0))
        #expect(try test.count("eve") == 3)
    }

    @Test("an occurrence of an older version stays, however many errors are corrected", arguments: StoreKind.allCases)
    func occurrences(_ kind: StoreKind) throws {
        let test = try CorrectionContractTests(kind)
        let fixture = test.fixture
        func report(_ name: String) -> ErrorReport {
            let issue = Issue(
                id: IssueID(rawValue: 7), fingerprint: "f", app: AppID(rawValue: 1), isDevelopment: false,
                title: "It broke", sourceModule: nil, madeAt: fixture.clock.now)
            let occurrence = Row(
                .occurrence, at: fixture.clock.now, recognition: test.hash("o\(name)"),
                body: Array(#"{"issue":7}"#.utf8))
            return ErrorReport(
                issue: issue, at: fixture.clock.now, occurrence: occurrence, session: test.hash("s\(name)"))
        }
        for (name, isOld) in [("new", false), ("old", true)] {
            let errors = (1...2).map { number in (row: test.row("\(name)\(number)", "error"), report: report(name)) }
            for error in errors {
                _ = try fixture.process(
                    Collect([
                        .init(
                            user: test.user(name), rows: [error.row], sighting: test.sighting,
                            errors: [0: error.report])
                    ]))
            }
            #expect(try test.count(name, .occurrence) == 1)
            if isOld {
                let key = DocumentKey(.occurrenceErrors, of: Int64(bitPattern: test.hash("o\(name)").rawValue))
                _ = try fixture.process(RemoveDocument(key: key))
            }
            for (number, error) in errors.enumerated() {
                _ = try fixture.process(
                    test.correct(name, test.row("\(name)\(number + 1)", "plain"), without: error.report))
                #expect(try test.count(name, .occurrence) == (isOld || number == 0 ? 1 : 0), "\(name) \(number)")
            }
        }
    }
}
