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

    @Test("keeps the last note of each server that has not ended", arguments: StoreKind.allCases)
    func server(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        func note(_ content: LogSegment.Content, at milliseconds: Int64) throws -> LogSegment {
            let note = LogSegment(
                project: LogSegment.server, last: .zero, at: Instant(milliseconds: milliseconds), content: content)
            try fixture.store.keep([note], within: LogLimit())
            return note
        }
        _ = try note(.opened(1), at: 5)
        let other = try note(.opened(2), at: 6)
        let own = try note(.opened(1), at: 7)
        #expect(try CallLogTests.notes(fixture, in: LogSegment.server) == [other, own])
        _ = try note(.closed(2), at: 8)
        #expect(try CallLogTests.notes(fixture, in: LogSegment.server) == [own])
        _ = try note(.closed(1), at: 9)
        #expect(try CallLogTests.notes(fixture, in: LogSegment.server).isEmpty)
        let gap = LogSegment(
            project: World.project, last: .zero, at: Instant(milliseconds: 5), content: .gap(milliseconds: 2000))
        try fixture.store.keep([gap], within: LogLimit())
        #expect(try CallLogTests.notes(fixture) == [gap])
    }

    @Test("has no calls of an erased person after they are removed", arguments: StoreKind.allCases)
    func erasure(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        let ada = try fixture.identify([.customerID: "ada", .iosIDFV: "1"]).person
        let bob = try fixture.identify([.customerID: "bob"]).person
        for _ in 0..<3 { _ = try fixture.identify([.customerID: "ada"]) }
        _ = try fixture.identify([.customerID: "bob"])
        // A refused call has nobody, and names a value of the person.
        let refused = fixture.process([AttachIdentity(fixture.identity(.customerID, "ada"), to: bob, reason: nil)])
        guard case .failure = refused[0] else {
            Issue.record("\(refused)")
            return
        }
        fixture.writer.writeLog(within: LogLimit(), at: fixture.clock.now)
        func calls() throws -> [LoggedCall] {
            try CallLogTests.segments(fixture).flatMap(\.reading.calls)
        }
        #expect(try calls().map(\.person) == [ada, ada, ada, bob, nil])
        _ = fixture.process([ErasePerson(ada)])
        #expect(fixture.writer.mustForget)
        while fixture.writer.forgetInLog(at: fixture.clock.now) {}
        #expect(try calls().map(\.person) == [bob])
        #expect(try CallLogTests.notes(fixture).map(\.content) == [.erased(calls: 4)])
        #expect(
            try fixture.store.read { snapshot throws(StoreFault) in try snapshot.erasedPeople(in: World.project) }
                == [ada])
        #expect(!fixture.writer.mustForget)
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
        segment.add(packed, at: JournalSequence(rawValue: 300))
        let reading = segment.reading
        let call = try #require(reading.calls.first)
        #expect(reading.calls.count == 1 && reading.unreadable == 0)
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
        segment.add(packed, at: .zero)
        let call = try #require(segment.reading.calls.first)
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
        // A call at place 5 with two bytes that mean nothing. The differences have a sign.
        (segment.content, segment.last) = (.calls([10, 2, 2, 0xFF, 0xFF]), JournalSequence(rawValue: 5))
        segment.add(packed, at: JournalSequence(rawValue: 6))
        let reading = segment.reading
        #expect(reading.unreadable == 1 && reading.calls.map(\.place.rawValue) == [6])
        #expect(reading.calls.map(\.at) == [moment])
    }

    @Test("has at most 40 bytes for a user and a device on average, and a note about repetitions beside it")
    func size() throws {
        var segment = LogSegment(project: World.project, last: .zero, at: Instant(milliseconds: 0), content: .calls([]))
        let start: Int64 = 1_800_000_000_000
        for number in 0..<1000 {
            let person = PersonID(at: Instant(milliseconds: start), chance: UInt64(number))
            let names: [Identity] =
                number % 3 == 0
                ? [
                    LoggedCallTests.identity(.customerID, "u\(number)"),
                    LoggedCallTests.identity(.iosIDFV, "d\(number)"),
                ]
                : [LoggedCallTests.identity(.iosIDFV, "d\(number)")]
            let packed = try #require(
                LoggedCall.pack(
                    .identify(Identify(identities: names)), at: Instant(milliseconds: start + Int64(number)),
                    isJournalled: false, person: person, .default))
            segment.add(packed, at: JournalSequence(rawValue: Int64(1000 + number / 10)))
        }
        #expect(segment.byteCount <= 40 * 1000, "\(Double(segment.byteCount) / 1000) bytes a call")
        var note = RepeatNote()
        (note.calls, note.types) = (7, 3)
        segment.add(note)
        #expect(segment.reading.repeats == note && segment.reading.calls.count == 1000)
    }

    @Test("has its server in a store of several servers")
    func server() throws {
        let packed = try #require(
            LoggedCall.pack(
                LoggedCallTests.acts[5], at: Instant(milliseconds: 1), isJournalled: false, person: nil, .default))
        var segment = LogSegment(project: World.project, last: .zero, at: Instant(milliseconds: 1), content: .calls([]))
        segment.add(writer: 99)
        segment.add(packed, at: JournalSequence(rawValue: 6))
        #expect(segment.reading.calls.map(\.writer) == [99])
    }
}

extension StoreFixture {
    fileprivate func identity(_ type: IdentityType, _ value: String) -> Identity {
        Identity(type, value, in: World.project, hash: store.hash)
    }
}
