import Domain
import Engine
import StoreSQLite
import TestKit
import Testing

/// Rows, documents and reading, on every store.
@Suite("The contract of stores: rows and documents", .serialized)
struct RowsContractTests {
    private func event(_ fixture: StoreFixture, _ id: Int, device: String? = nil, at: Int64? = nil) -> Row {
        let hash = fixture.store.hash
        return Row(
            .event, at: at.map(Instant.init(milliseconds:)) ?? fixture.clock.now,
            recognition: RowHash(.event, "\(id)".utf8.span, in: World.project, hash: hash),
            device: device.map { RowHash(.device, $0.utf8.span, in: World.project, hash: hash) },
            body: Array(#"{"id":\#(id)}"#.utf8))
    }

    private func ingest(_ fixture: StoreFixture, _ person: PersonID, _ ids: [Int], device: String? = nil) throws
        -> Ingested
    {
        let rows =
            [Row(.context, at: fixture.clock.now, body: Array("{}".utf8))]
            + ids.map { event(fixture, $0, device: device) }
        return try ingested(fixture.process(Ingest(person: person, identities: [], rows: rows)))
    }

    private func ingested(_ reply: Reply) throws -> Ingested {
        guard let ingested = reply.as(Ingested.self) else { throw Unexpected(reply: reply) }
        return ingested
    }

    private struct Unexpected: Error { let reply: Reply }

    /// The bodies of all the pages of a timeline.
    private func timeline(_ fixture: StoreFixture, _ person: PersonID, limit: Int = 3, kinds: [RowKind] = [.event])
        throws -> [String]
    {
        var filter = Timeline.Filter()
        (filter.limit, filter.kinds) = (limit, kinds)
        var bodies: [String] = []
        for _ in 0..<1000 {
            let page = try fixture.store.read { snapshot throws(StoreFault) in
                try Timeline(of: person, filter, snapshot)
            }
            bodies += page.rows.map { String(decoding: $0.row.body, as: UTF8.self) }
            guard let next = page.next else { return bodies }
            // A cursor goes to the client and back.
            filter.cursor = Timeline.Cursor(packed: next.packed)
            #expect(filter.cursor == next)
        }
        Issue.record("The timeline has no end.")
        return bodies
    }

    private func ids(_ ids: some Sequence<Int>) -> [String] { ids.map { #"{"id":\#($0)}"# } }

    private final class Silent: EngineObserver {
        func committed(calls: Int, nanoseconds: UInt64) {}
        func faulted(_ fault: StoreFault) {}
        func recovered() {}
        func tookUnproven(_ dialect: Dialect, calls: Int) {}
        func metFull(_ full: Full, calls: Int) {}
        func clockJumped(to moment: Instant, byMilliseconds milliseconds: Int64) {}
    }

    @Test("retention removes nothing as long as a clock that went ahead may be wrong", arguments: StoreKind.allCases)
    func retentionRests(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        let person = try fixture.identify([.customerID: "ada"]).person
        // The last row of all stays always.
        _ = try ingest(fixture, person, [1, 2, 3])
        let (clock, counted) = (fixture.clock, ManualClock(0))
        var limits = Engine.Limits()
        limits.retention.days = [.event: 10]
        let engine = Engine(
            store: fixture.store, lanes: 1, limits: limits, clock: { clock.now },
            monotonic: { UInt64(counted.now.milliseconds) * 1_000_000 }, observer: Silent(), hasThread: false,
            deliver: { _, work in work() })
        defer { engine.stop() }
        func pass(hours: Int64) {
            for pause in Array(repeating: hours * 360_000, count: 10) + Array(repeating: 20, count: 40) {
                for clock in [clock, counted] { clock.advance(milliseconds: pause) }
                engine.step()
            }
        }
        func isThere(_ id: Int) throws -> Bool { try timeline(fixture, person).contains(ids([id])[0]) }
        let years: Int64 = 5 * 365 * 86_400_000
        clock.advance(milliseconds: years)
        for _ in 0..<40 { pass(hours: 0) }
        pass(hours: 20)
        #expect(try isThere(1) && isThere(2), "the clock may be wrong")
        clock.advance(milliseconds: -years)
        pass(hours: 24)
        #expect(try isThere(1) && isThere(2), "it was wrong")
        pass(hours: 10 * 24)
        #expect(try !isThere(1) && !isThere(2), "the days have passed")
        _ = try ingest(fixture, person, [4, 5])
        clock.advance(milliseconds: years)
        pass(hours: 20)
        #expect(try isThere(4))
        pass(hours: 10)
        #expect(try !isThere(4), "the clock is still the same after a day")
    }

    @Test(
        "no answer and no count has expired rows, and reads find all other rows of the same person",
        arguments: StoreKind.allCases)
    func expire(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        let (one, other) = (
            try fixture.identify([.iosIDFV: "1"]).person, try fixture.identify([.iosIDFV: "2"]).person
        )
        let start = fixture.clock.now.milliseconds
        // They do not come in the order in which they happened: of 1, 2, 3 … the even ones are old.
        for number in 1...9 {
            let age: Int64 = number.isMultiple(of: 2) ? 1_000_000 : 0
            let context = Row(.context, at: Instant(milliseconds: start - age), body: Array("{}".utf8))
            for person in number == 4 ? [one, other] : [one] {
                let row = event(fixture, person == one ? number : 14, at: start - age + Int64(number))
                _ = try fixture.process(Ingest(person: person, identities: [], rows: [context, row]))
            }
        }
        func expire(before milliseconds: Int64, limit: Int) throws -> Bool {
            let end = ExpiredRows(before: Instant(milliseconds: milliseconds), upTo: RowNumber(rawValue: .max))
            return try fixture.store.expire(OldRows(.event, end), limit: limit) != nil
        }
        func counts(_ person: PersonID) throws -> [RowKind: Int]? {
            try fixture.store.read { snapshot throws(StoreFault) in
                snapshot.person(person, in: World.project)?.counts.filter { $0.value > 0 }
            }
        }
        #expect(try !expire(before: start - 2_000_000, limit: 3))
        #expect(try timeline(fixture, one) == ids((1...9).reversed()))
        #expect(try expire(before: start, limit: 2))
        #expect(try timeline(fixture, one) == ids([9, 8, 7, 6, 5, 3, 1]))
        while try expire(before: start, limit: 2) {}
        for _ in 0..<2 {
            #expect(try timeline(fixture, one) == ids([9, 7, 5, 3, 1]))
            #expect(try timeline(fixture, other).isEmpty)
            #expect(try counts(one) == [.event: 5, .context: 9] && counts(other) == [.context: 1])
            try fixture.reopen()
        }
        _ = try ingest(fixture, one, [10])
        _ = try ingest(fixture, other, [11])
        #expect(try timeline(fixture, one) == ids([10, 9, 7, 5, 3, 1]) && timeline(fixture, other) == ids([11]))
        // All but the last of all, after which the next is numbered.
        while try expire(before: start + 1_000_000_000, limit: 2) {}
        try fixture.reopen()
        #expect(try timeline(fixture, one).isEmpty && timeline(fixture, other) == ids([11]))
        _ = try ingest(fixture, one, [12])
        #expect(try timeline(fixture, one) == ids([12]))
    }

    @Test(
        "old rows of one project go, among rows of another, and a row after the end stays",
        arguments: StoreKind.allCases)
    func expireOfProject(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        let other = Project(id: ProjectID(rawValue: 9), name: "Other", madeAt: fixture.clock.now)
        func process(_ act: any Act, in project: ProjectID) throws -> Reply {
            fixture.clock.advance(milliseconds: 10)
            return try fixture.writer.process(
                [Job(call: Call(project: project, key: nil), act: act)], at: fixture.clock.now)[0].get()
        }
        _ = try process(SetUp(project: other, apps: [], keys: []), in: other.id)
        let sighting = AppUser.Sighting(app: AppID(rawValue: 1))
        let start = fixture.clock.now.milliseconds
        // Two rows of the other project are around each row of the project. Rows 1, 4, 7 … are the project's.
        for number in 0..<40 {
            let project = number % 3 == 0 ? World.project : other.id
            let user = Identity(.claimUserID, "ada", in: project, hash: fixture.store.hash)
            let row = Row(.event, at: Instant(milliseconds: start), body: Array("{}".utf8))
            _ = try process(Collect([.init(user: user, rows: [row], sighting: sighting)]), in: project)
        }
        func left(_ project: ProjectID) throws -> [Int64] {
            try fixture.store.read { snapshot throws(StoreFault) in
                var range = RowsByTime()
                range.isAscending = true
                return try snapshot.rows(of: .event, in: project, range).map(\.number.rawValue)
            }
        }
        let others = try left(other.id)
        let end = ExpiredRows(before: Instant(milliseconds: start + 1), upTo: RowNumber(rawValue: 30))
        var old: OldRows? = OldRows(.event, in: World.project, end)
        var steps = 0
        while let rows = old {
            old = try fixture.store.expire(rows, limit: 4)
            steps += 1
            if steps == 2 { try fixture.reopen() }
        }
        for _ in 0..<2 {
            #expect(try left(World.project) == [31, 34, 37, 40] && left(other.id) == others && steps > 2)
            let person = try fixture.store.read { snapshot throws(StoreFault) in
                let ada = Identity(.claimUserID, "ada", in: World.project, hash: snapshot.hash)
                return snapshot.holders(of: ada.key).first.flatMap { snapshot.person($0, in: World.project) }
            }
            #expect(person?.counts[.event] == 4)
            try fixture.reopen()
        }
        // The rows of all projects.
        old = OldRows(.event, ExpiredRows(before: end.before, upTo: RowNumber(rawValue: 38)))
        while let rows = old { old = try fixture.store.expire(rows, limit: 4) }
        #expect(try left(World.project) == [40] && left(other.id) == [39])
    }

    @Test("the end of a project's old rows never goes back", arguments: StoreKind.allCases)
    func ends(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        func end(_ before: Int64, _ upTo: Int64) -> ExpiredRows {
            ExpiredRows(before: Instant(milliseconds: before), upTo: RowNumber(rawValue: upTo))
        }
        for (wanted, kept) in [(end(10, 5), end(10, 5)), (end(9, 8), end(10, 5)), (end(12, 8), end(12, 8))] {
            let before = fixture.store.counts.lastSequence
            _ = try fixture.process(ExpireRows([.event: wanted]))
            #expect((fixture.store.counts.lastSequence == before) == (wanted != kept))
            try fixture.store.read { snapshot throws(StoreFault) in
                let key = ExpiredRows.key(of: .event, in: World.project)
                #expect(ExpiredRows(packed: try snapshot.document(key)) == kept)
                #expect(try snapshot.document(ExpiredRows.key(of: .metric, in: World.project)) == nil)
            }
        }
        // An end in the future goes back, and the document still says up to where rows may be gone.
        let future = fixture.clock.now.milliseconds + 50
        for wanted in [end(future, 9), end(20, 9), end(30, 9)] {
            _ = try fixture.process(ExpireRows([.event: wanted]))
            let document = try fixture.store.read { snapshot throws(StoreFault) in
                try snapshot.document(ExpiredRows.key(of: .event, in: World.project))
            }
            #expect(ExpiredRows(packed: document) == wanted)
            #expect(ExpiredRows.latest(packed: document)?.milliseconds == future)
        }
    }

    @Test("superseded versions lose their content up to a call, and the others keep it", arguments: StoreKind.allCases)
    func versions(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        let user = Identity(.claimUserID, "ada", in: World.project, hash: fixture.store.hash)
        var calls: [JournalSequence] = []
        for plan in 0..<6 {
            _ = try fixture.process(SetProperties(user: user, values: [("plan", "p\(plan)")]))
            calls.append(fixture.store.counts.lastSequence)
            _ = try fixture.identify([.customerID: "c\(plan)"])
        }
        func contents() throws -> [String?] {
            try fixture.store.read { snapshot throws(StoreFault) in
                guard let ada = snapshot.holders(of: user.key).first else { return [] }
                var contents: [String?] = []
                for version in try snapshot.versions(of: DocumentKey(.properties, of: ada), since: .zero) {
                    let bytes = try snapshot.content(of: version)
                    contents.append(bytes.map { String(decoding: $0.filter { $0 > 31 && $0 < 127 }, as: UTF8.self) })
                }
                return contents
            }
        }
        /// The bytes of old versions, page by page.
        func oldBytes() throws -> Int64 {
            var (place, sum): (Int64, Int64) = (0, 0)
            for _ in 0..<100 {
                let page = try fixture.store.read { [place] snapshot throws(StoreFault) in
                    try snapshot.oldVersions(after: place, limit: 2)
                }
                if page.end == place { return sum }
                (place, sum) = (page.end, sum + page.bytes)
            }
            return -1
        }
        /// The bytes of the contents of all versions but the last ones.
        func bytesOfContents() throws -> Int64 {
            let last = fixture.store.counts.lastSequence.rawValue
            return try fixture.store.read { snapshot throws(StoreFault) in
                var keys: Set<DocumentKey> = []
                for call in 1...last {
                    let written = try snapshot.documents(writtenBy: JournalSequence(rawValue: call))
                    keys.formUnion(written.map(\.version.key))
                }
                var bytes: Int64 = 0
                for key in keys {
                    for version in try snapshot.versions(of: key, since: .zero).dropFirst() {
                        bytes += Int64(try snapshot.content(of: version)?.count ?? 0)
                    }
                }
                return bytes
            }
        }
        let before = try contents()
        #expect(before.count == 6 && before.allSatisfy { $0 != nil })
        let bytes = try oldBytes()
        #expect(try bytes == bytesOfContents())
        for (end, gone) in [(calls[0], 0), (calls[2], 2), (calls[3], 3)] {
            var place: Int64 = 0
            for step in 0..<100 {
                let next = try fixture.store.forgetVersions(after: place, supersededUpTo: end, limit: 2)
                if next == place { break }
                place = next
                if step == 1, kind != .memory { try fixture.reopen() }
            }
            #expect(try contents() == Array(before.prefix(6 - gone)) + Array(repeating: nil, count: gone))
            #expect(try oldBytes() == bytesOfContents())
            #expect(try (oldBytes() < bytes) == (gone > 0))
        }
    }

    @Test("rows are read back, the last first, page by page", arguments: StoreKind.allCases)
    func pages(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        let (first, second) = (
            try fixture.identify([.iosIDFV: "1"]).person, try fixture.identify([.iosIDFV: "2"]).person
        )
        for upload in 0..<4 {
            #expect(try ingest(fixture, first, Array(upload * 10..<upload * 10 + 5)).accepted == 5)
            #expect(try ingest(fixture, second, [1000 + upload]).accepted == 1)
        }
        let expected = [34, 33, 32, 31, 30, 24, 23, 22, 21, 20, 14, 13, 12, 11, 10, 4, 3, 2, 1, 0]
        for limit in [1, 3, 5, 20, 200] {
            #expect(try timeline(fixture, first, limit: limit) == ids(expected), "\(limit)")
        }
        #expect(try timeline(fixture, first, kinds: [.event, .context]).count == 24)
        #expect(try timeline(fixture, second) == ids([1003, 1002, 1001, 1000]))
        try fixture.reopen()
        #expect(try timeline(fixture, first) == ids(expected))
        #expect(try ingest(fixture, first, [99]).accepted == 1)
        #expect(try timeline(fixture, first) == ids([99] + expected))
        let counts = try fixture.store.read { snapshot throws(StoreFault) in
            snapshot.person(first, in: World.project)?.counts
        }
        #expect(counts == [.event: 21, .context: 5])
        #expect(fixture.store.counts.rows == 21 + 5 + 8)
    }

    @Test("a row that is sent again is kept once", arguments: StoreKind.allCases)
    func sentAgain(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        let person = try fixture.identify([.iosIDFV: "1"]).person
        #expect(try ingest(fixture, person, [1, 2, 1]) == Ingested(person: person, accepted: 2, repeated: 1))
        #expect(try ingest(fixture, person, [2, 3]) == Ingested(person: person, accepted: 1, repeated: 1))
        let other = try fixture.identify([.iosIDFV: "2"]).person
        #expect(try ingest(fixture, other, [1, 2, 3]) == Ingested(person: other, accepted: 0, repeated: 3))
        // Within one batch too.
        let row = event(fixture, 7)
        let answers = fixture.process(
            (0..<3).map { _ in Ingest(person: person, identities: [], rows: [row]) })
        #expect(try answers.map { try ingested($0.get()).accepted } == [1, 0, 0])
        try fixture.reopen()
        #expect(try ingest(fixture, person, [1, 2, 3, 7]).accepted == 0)
        #expect(try timeline(fixture, person) == ids([7, 3, 2, 1]))
    }

    @Test(
        "a fault at the commit loses the rows or keeps them, and says which", arguments: [CommitFault.before, .after])
    func faults(_ fault: CommitFault) throws {
        for kind in StoreKind.allCases {
            let fixture = try StoreFixture(kind)
            let person = try fixture.identify([.iosIDFV: "1"]).person
            _ = try ingest(fixture, person, [1])
            fixture.failNextCommit(fault)
            let failed = fixture.process([Ingest(person: person, identities: [], rows: [event(fixture, 2)])])
            #expect(throws: CallFailure.self) { try failed[0].get() }
            #expect(fixture.writer.recover() == nil)
            #expect(try timeline(fixture, person) == ids(fault == .before ? [1] : [2, 1]), "\(kind)")
            #expect(try ingest(fixture, person, [2, 3]).accepted == (fault == .before ? 2 : 1))
            #expect(try timeline(fixture, person) == ids([3, 2, 1]))
        }
    }

    @Test(
        "an alias shows the source's rows at the destination, in its time and of its device",
        arguments: StoreKind.allCases)
    func alias(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        let (source, destination) = (
            try fixture.identify([.iosIDFV: "1"]).person, try fixture.identify([.customerID: "c"]).person
        )
        let start = fixture.clock.now
        _ = try ingest(fixture, source, [1, 2], device: "D")
        _ = try ingest(fixture, destination, [3])
        _ = try ingest(fixture, source, [4], device: "E")
        let end = fixture.clock.now
        fixture.clock.advance(milliseconds: 5000)
        _ = try ingest(fixture, source, [5], device: "D")
        let device = RowHash(.device, "D".utf8.span, in: World.project, hash: fixture.store.hash)
        let make = MakeAlias(
            source: source, destination: destination, start: start, end: end, device: device, requestID: "r")
        guard case .made(let alias) = try fixture.process(make).as(Aliased.self) else {
            Issue.record("No alias was made.")
            return
        }
        #expect(try timeline(fixture, destination, limit: 1) == ids([3, 2, 1]))
        // What comes in later is there as well, as far as it happened in that time.
        _ = try fixture.process(

            Ingest(
                person: source, identities: [],
                rows: [event(fixture, 6, device: "D", at: start.milliseconds), event(fixture, 7, device: "D")]))
        #expect(try timeline(fixture, destination) == ids([6, 3, 2, 1]))
        #expect(try timeline(fixture, source) == ids([7, 6, 5, 4, 2, 1]))
        try fixture.reopen()
        #expect(try timeline(fixture, destination) == ids([6, 3, 2, 1]))
        let profile = try fixture.store.read { snapshot throws(StoreFault) in
            try Profile(destination, in: World.project, snapshot)
        }
        #expect(profile?.firstSeen == source.madeAt)
        #expect(profile?.aliases.map(\.id) == [alias])
        #expect(try fixture.process(UndoAlias(alias)) == Reply(AliasUndone(alias)))
        #expect(try fixture.process(UndoAlias(alias)) == Reply(AliasUndone(alias)))
        #expect(try timeline(fixture, destination) == ids([3]))
    }

    @Test("what is known of a person is set, taken away and read back", arguments: StoreKind.allCases)
    func attributes(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        let person = try fixture.identify([.iosIDFV: "1"]).person
        let moment = fixture.clock.now
        func write(_ writes: [(String, String?)]) throws {
            let writes = writes.map { Attributes.Write($0.0, $0.1.map { Array($0.utf8) }) }
            _ = try fixture.process(
                Ingest(person: person, identities: [], attributes: writes, writtenAt: moment, rows: []))
        }
        func read() throws -> [String: String] {
            let profile = try fixture.store.read { snapshot throws(StoreFault) in
                try Profile(person, in: World.project, snapshot)
            }
            return (profile?.properties[0].folded.entries ?? [:]).mapValues {
                String(decoding: $0.value, as: UTF8.self)
            }
        }
        try write([("a", "1"), ("b", "\"x\"")])
        try write([("b", nil), ("c", "[1,2]"), ("d", nil)])
        #expect(try read() == ["a": "1", "c": "[1,2]"])
        let changes = fixture.changes
        try write([("a", "1"), ("b", nil)])
        #expect(fixture.changes == changes, "nothing is newer")
        try fixture.reopen()
        #expect(try read() == ["a": "1", "c": "[1,2]"])
        try write((0..<150).map { ("n\($0)", "0") })
        #expect(try read().count == Attributes.namesPerPerson)
    }

    @Test("a glance sees the same facts as a read", arguments: StoreKind.allCases)
    func glance(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        let user = Identity(.accessUserID, "a", in: World.project, hash: fixture.store.hash)
        func properties(_ snapshot: any Snapshot) throws(StoreFault) -> [UInt8]? {
            guard let person = snapshot.holders(of: user.key).first else { return nil }
            return try snapshot.document(AccessProperty.key(person))
        }
        func set(_ value: String) throws {
            let set = SetAccessProperties([AccessProperty("name", value)], of: user)
            _ = try fixture.process(set)
        }
        let make = MakeAccessUser(user, isForTrying: false)
        _ = try fixture.process(make)
        guard kind.looksIntoMemory else {
            #expect(fixture.store.glance(properties) == nil)
            return
        }
        #expect(fixture.store.glance(properties) == .some(nil), "there is nothing to see, and that is seen")
        for value in ["1", "2", "3"] {
            try set(value)
            let read = try fixture.store.read(properties)
            #expect(read != nil)
            #expect(fixture.store.glance(properties) == .some(read), "what was read is in memory")
        }
        try set("4")
        // What is newer than that is read, or not seen; what is older never is.
        let glanced = fixture.store.glance(properties)
        #expect(try glanced == nil || glanced == .some(fixture.store.read(properties)))
        try fixture.reopen()
        let reopened = try fixture.store.read(properties)
        #expect(reopened != nil && fixture.store.glance(properties) == .some(reopened))
    }

    @Test("identities are read with since when and by which call", arguments: StoreKind.allCases)
    func identities(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        let person = try fixture.identify([.iosIDFV: "1"]).person
        let since = fixture.clock.now
        _ = try fixture.identify([.iosIDFV: "1", .email: "a@x"])
        var modify = StoreFixture.IdentifyCall([.email: "b@x"])
        (modify.modifies, modify.oldNames) = (person, [.email: "a@x"])
        _ = try fixture.process([modify])[0].get()
        let held = try fixture.store.read { snapshot throws(StoreFault) in try snapshot.identities(of: person) }
        #expect(held.map(\.value) == ["1", "b@x"])
        #expect(held.first?.since == since)
        #expect(held.map(\.requestID) == ["request 1", "request 3"])
    }
}
