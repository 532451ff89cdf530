import Domain
import TestKit
import Testing

/// The call log of the stores: segments of calls, and notes about calls that are missing.
@Suite("The call log")
struct CallLogTests {
    private static let other = ProjectID(rawValue: 77)

    private static func segment(_ number: Int64, in project: ProjectID = World.project, bytes: Int = 10) -> LogSegment {
        LogSegment(
            project: project, last: JournalSequence(rawValue: number), at: Instant(milliseconds: number * 1000),
            content: .calls(Array(repeating: UInt8(number), count: bytes)))
    }

    private static func segments(_ fixture: StoreFixture, in project: ProjectID = World.project) throws -> [LogSegment]
    {
        try fixture.store.read { snapshot throws(StoreFault) in
            var (found, number): ([LogSegment], Int64) = ([], 0)
            while true {
                let page = try snapshot.logged(in: project, after: number, limit: 2)
                found += page.map(\.segment)
                guard let last = page.last else { return found }
                number = last.number
            }
        }
    }

    private static func notes(_ fixture: StoreFixture, in project: ProjectID = World.project) throws -> [LogSegment] {
        try fixture.store.read { snapshot throws(StoreFault) in try snapshot.logNotes(in: project) }
    }

    @Test("has its segments in their order, by project, also after a restart", arguments: StoreKind.allCases)
    func order(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        let (own, others) = (
            (1...3).map { CallLogTests.segment($0) }, [CallLogTests.segment(9, in: CallLogTests.other)]
        )
        try fixture.store.keep([own[0], others[0]], within: LogLimit())
        try fixture.store.keep(Array(own[1...]), within: LogLimit())
        try fixture.reopen()
        #expect(try CallLogTests.segments(fixture) == own)
        #expect(try CallLogTests.segments(fixture, in: CallLogTests.other) == others)
        #expect(try CallLogTests.notes(fixture).isEmpty)
    }

    @Test("drops the oldest segments beyond its bytes, and says so once", arguments: StoreKind.allCases)
    func bytes(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        for number in Int64(1)...6 {
            try fixture.store.keep([CallLogTests.segment(number)], within: LogLimit(bytes: 30))
        }
        #expect(try CallLogTests.segments(fixture) == (4...6).map { CallLogTests.segment($0) })
        let notes = try CallLogTests.notes(fixture)
        #expect(notes.map(\.content) == [.missing] && notes.map(\.last.rawValue) == [3])
    }

    @Test("drops what is older than its project keeps", arguments: StoreKind.allCases)
    func age(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        let (own, others) = (
            (1...4).map { CallLogTests.segment($0) }, (1...2).map { CallLogTests.segment($0, in: CallLogTests.other) }
        )
        try fixture.store.keep(own + others, within: LogLimit())
        try fixture.store.keep([], within: LogLimit(oldest: [World.project: Instant(milliseconds: 3000)]))
        #expect(try CallLogTests.segments(fixture) == Array(own[2...]))
        #expect(try CallLogTests.segments(fixture, in: CallLogTests.other) == others)
        #expect(try CallLogTests.notes(fixture).map(\.last.rawValue) == [2])
        #expect(try CallLogTests.notes(fixture, in: CallLogTests.other).isEmpty)
    }

    @Test("keeps the last note of the server", arguments: StoreKind.allCases)
    func server(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        for content in [LogSegment.Content.opened, .closed, .opened] {
            let note = LogSegment(
                project: LogSegment.server, last: .zero, at: Instant(milliseconds: 5), content: content)
            try fixture.store.keep([note], within: LogLimit())
            #expect(try CallLogTests.notes(fixture, in: LogSegment.server) == [note])
        }
        let gap = LogSegment(
            project: World.project, last: .zero, at: Instant(milliseconds: 5), content: .gap(milliseconds: 2000))
        try fixture.store.keep([gap], within: LogLimit())
        #expect(try CallLogTests.notes(fixture) == [gap])
    }

    @Test(
        "of a store of an earlier version says that the calls before it are missing",
        arguments: [
            StoreKind.sqlite, .postgres,
        ].filter(StoreKind.allCases.contains))
    func earlier(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        _ = try fixture.identify([.customerID: "a"])
        try fixture.forgetCallLog()
        let notes = try CallLogTests.notes(fixture)
        #expect(notes.map(\.content) == [.missing] && notes.map(\.last) == [fixture.store.counts.lastSequence])
    }
}

/// The calls of a log, as dry runs read them.
@Suite("A call of the log")
struct LoggedCallTests {
    private static let hash = KeyedHash(key: Hash128(high: 1, low: 2))

    private static func identity(_ type: IdentityType, _ value: String) -> Identity {
        Identity(type, value, in: World.project, hash: hash)
    }

    private static let person = PersonID(rawValue: 41)
    static let acts: [NamingAct] = [
        .identify(
            Identify(
                .login, identities: [identity(.customerID, "ada"), identity(.email, "a@b")],
                previous: PersonID(rawValue: 7))),
        .modify(
            Modify(
                person: person,
                items: [
                    Modify.Item(.email, old: identity(.email, "a@b"), new: identity(.email, "c@d")),
                    Modify.Item(.other, old: nil, new: identity(.other, "o")),
                    Modify.Item(.iosIDFV, old: identity(.iosIDFV, "i"), new: nil),
                ])),
        .ingest(
            Ingest(
                person: nil, identities: [identity(.customerID, "ada")], devices: [identity(.iosIDFV, "i")], rows: [])),
        .attach(AttachIdentity(identity(.email, "a@b"), to: person, reason: nil)),
        .detach(DetachIdentity(identity(.email, "a@b"), from: person, reason: nil)),
        .release(ReleaseDevice(identity(.iosIDFV, "i"), reason: nil)),
    ]

    @Test("is the same when it is read, but for the values", arguments: acts.indices)
    func roundTrip(_ index: Int) throws {
        let (act, moment) = (LoggedCallTests.acts[index], Instant(milliseconds: 1234))
        let packed = try #require(
            LoggedCall.pack(act, at: moment, isJournalled: false, person: LoggedCallTests.person, .default))
        var segment = LogSegment(
            project: World.project, last: .zero, at: moment, content: .calls([]))
        segment.add(packed, at: JournalSequence(rawValue: 300), moment)
        let (calls, unreadable) = segment.calls
        let call = try #require(calls.first)
        #expect(calls.count == 1 && unreadable == 0)
        #expect(call.place == JournalSequence(rawValue: 300) && call.at == moment && !call.isJournalled)
        #expect(call.person == LoggedCallTests.person && !call.namedBlocked)
        #expect(LoggedCallTests.shown(call.act) == LoggedCallTests.shown(act))
        #expect(segment.last == JournalSequence(rawValue: 300))
    }

    private static func shown(_ act: NamingAct) -> String {
        func keys(_ identities: [Identity]) -> String { "\(identities.map { ($0.type.name, $0.key) })" }
        return switch act {
        case .identify(let act): "\(act.occasion) \(String(describing: act.previous)) \(keys(act.identities))"
        case .modify(let act):
            "\(act.person) \(act.items.map { "\($0.type.name) \(keys([$0.old, $0.new].compactMap(\.self))) \($0.old == nil)" })"
        case .ingest(let act): "\(String(describing: act.person)) \(keys(act.identities)) \(keys(act.devices))"
        case .attach(let act): "attach \(act.person) \(keys([act.identity]))"
        case .detach(let act): "detach \(act.person) \(keys([act.identity]))"
        case .release(let act): "release \(keys([act.device]))"
        }
    }

    @Test("has no blocked values, and says that there were some")
    func blocked() throws {
        let act = NamingAct.identify(
            Identify(
                identities: [
                    LoggedCallTests.identity(.customerID, "null"), LoggedCallTests.identity(.email, "a@b"),
                ]))
        let packed = try #require(
            LoggedCall.pack(act, at: Instant(milliseconds: 1), isJournalled: true, person: nil, .default))
        var segment = LogSegment(
            project: World.project, last: .zero, at: Instant(milliseconds: 1), content: .calls([]))
        segment.add(packed, at: .zero, Instant(milliseconds: 1))
        let call = try #require(segment.calls.calls.first)
        #expect(call.namedBlocked && call.isJournalled && call.person == nil)
        guard case .identify(let kept) = call.act else {
            Issue.record("\(call.act)")
            return
        }
        #expect(kept.identities.map(\.type) == [.email] && kept.identities.map(\.value) == [""])
    }

    @Test("is left out if the journal has all of it")
    func leftOut() {
        let moment = Instant(milliseconds: 1)
        func isKept(_ act: NamingAct) -> Bool {
            LoggedCall.pack(act, at: moment, isJournalled: true, person: LoggedCallTests.person, .default) != nil
        }
        #expect(!isKept(.identify(Identify(identities: [LoggedCallTests.identity(.email, "a@b")]))))
        #expect(LoggedCallTests.acts.map(isKept) == [true, false, true, false, false, false])
    }

    @Test("that cannot be read is counted, and the calls after it are read")
    func unreadable() throws {
        let moment = Instant(milliseconds: 1)
        let packed = try #require(
            LoggedCall.pack(LoggedCallTests.acts[5], at: moment, isJournalled: false, person: nil, .default))
        var segment = LogSegment(project: World.project, last: .zero, at: moment, content: .calls([]))
        // A call at place 5 with two bytes that mean nothing.
        segment.content = .calls([5, 2, 0xFF, 0xFF])
        segment.add(packed, at: JournalSequence(rawValue: 6), moment)
        let (calls, unreadable) = segment.calls
        #expect(unreadable == 1 && calls.map(\.place.rawValue) == [6])
    }
}
