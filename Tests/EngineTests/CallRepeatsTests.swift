import Domain
import Engine
import TestKit
import Testing

/// Repeated calls and the call log (spec/rules.md, section 7).
@Suite("Repeated calls")
struct CallRepeatsTests {
    private let fixture: StoreFixture
    private let log: CallLog

    init() throws {
        fixture = try StoreFixture(.memory)
        log = CallLog(after: fixture.store.counts.lastSequence, buckets: 1 << 10)
        try log.learn(from: fixture.store, limit: 1000) { false }
        fixture.use(log)
    }

    /// The number of calls that the log kept.
    private func kept(_ body: () throws -> Void) rethrows -> Int {
        let before = log.figures.kept
        try body()
        return log.figures.kept - before
    }

    @Test("are left out while nothing touches their naming component")
    func leftOut() throws {
        _ = try fixture.identify([.customerID: "ada", .iosIDFV: "1"])
        _ = try fixture.identify([.customerID: "bob", .iosIDFV: "2"])
        #expect(try kept { _ = try fixture.identify([.customerID: "ada"]) } == 1, "the first call that changes nothing")
        #expect(try kept { for _ in 0..<5 { _ = try fixture.identify([.customerID: "ada"]) } } == 0)
        #expect(log.figures.repeated == 5)
        // A call of somebody else touches nothing of ada.
        #expect(try kept { _ = try fixture.identify([.customerID: "bob"]) } == 1)
        #expect(try kept { _ = try fixture.identify([.customerID: "ada"]) } == 0)
        // A call of the device does: it was named together with ada.
        #expect(try kept { _ = try fixture.identify([.iosIDFV: "1"]) } == 0, "it makes a person, which the journal has")
        #expect(try kept { _ = try fixture.identify([.customerID: "ada"]) } == 1)
        // Another call of the same component is no repetition, and comes between.
        #expect(try kept { _ = try fixture.identify([.iosIDFV: "1"]) } == 1)
        #expect(try kept { _ = try fixture.identify([.customerID: "ada"]) } == 1)
    }

    @Test("are kept again after a merge of their person with another, and after its undo")
    func merges() throws {
        let ada = try fixture.identify([.customerID: "ada"]).person
        let bob = try fixture.identify([.customerID: "bob"]).person
        _ = try fixture.identify([.customerID: "ada"])
        #expect(try kept { _ = try fixture.identify([.customerID: "ada"]) } == 0)
        let merge = try #require(
            fixture.process(MergePeople(from: bob, into: ada, reason: nil) as any Act).as(Merge.self))
        #expect(try kept { _ = try fixture.identify([.customerID: "ada"]) } == 1)
        // From now on a call of bob touches ada.
        #expect(try kept { _ = try fixture.identify([.customerID: "bob"]) } == 1)
        #expect(try kept { _ = try fixture.identify([.customerID: "ada"]) } == 1)
        _ = try fixture.process(UndoMerge(merge.id, reason: nil) as any Act)
        #expect(try kept { _ = try fixture.identify([.customerID: "ada"]) } == 1)
    }

    @Test("of a logout, and of a call with a blocked value, are always kept")
    func always() throws {
        _ = try fixture.identify([.customerID: "ada"])
        let logout = StoreFixture.IdentifyCall([.customerID: "ada"])
        var call = logout
        call.occasion = .logout
        #expect(try kept { for _ in 0..<3 { _ = try fixture.identify(call) } } == 3)
        #expect(try kept { for _ in 0..<3 { _ = try fixture.identify([.customerID: "ada", .email: "null"]) } } == 3)
    }

    @Test("are known after a restart, from the journal and the log")
    func restart() throws {
        _ = try fixture.identify([.customerID: "ada", .iosIDFV: "1"])
        for _ in 0..<2 { _ = try fixture.identify([.customerID: "ada"]) }
        fixture.writer.writeLog(within: LogLimit(), at: fixture.clock.now, isLast: true)
        let next = CallLog(after: fixture.store.counts.lastSequence, buckets: 1 << 10)
        fixture.use(next)
        // Until it has learned the components, the log keeps each call.
        for _ in 0..<2 { _ = try fixture.identify([.customerID: "ada"]) }
        #expect(next.figures.kept == 2 && next.figures.repeated == 0)
        try next.learn(from: fixture.store, limit: 1000) { false }
        _ = try fixture.identify([.customerID: "ada"])
        #expect(next.figures.repeated == 1, "the last call is remembered")
        _ = try fixture.identify([.iosIDFV: "1"])
        _ = try fixture.identify([.customerID: "ada"])
        #expect(next.figures.repeated == 1, "the device belongs to the component, as the journal says")
    }

    @Test("are not looked for where there are too many calls to learn, and where several servers share a store")
    func notLookedFor() throws {
        for _ in 0..<5 { _ = try fixture.identify([.customerID: "ada"]) }
        fixture.writer.writeLog(within: LogLimit(), at: fixture.clock.now, isLast: true)
        for log in [
            CallLog(after: fixture.store.counts.lastSequence, buckets: 1 << 10),
            CallLog(after: fixture.store.counts.lastSequence, writer: 5, buckets: 1 << 10),
        ] {
            try log.learn(from: fixture.store, limit: 1) { false }
            fixture.use(log)
            for _ in 0..<3 { _ = try fixture.identify([.customerID: "ada"]) }
            #expect(log.figures.repeated == 0)
        }
    }

    @Test("are counted with their types in the log")
    func counted() throws {
        _ = try fixture.identify([.customerID: "ada", .iosIDFV: "1"])
        for _ in 0..<4 { _ = try fixture.identify([.customerID: "ada", .iosIDFV: "1"]) }
        fixture.writer.writeLog(within: LogLimit(), at: fixture.clock.now, isLast: true)
        let segments = try fixture.store.read { snapshot throws(StoreFault) in
            try snapshot.logged(in: World.project, after: 0, limit: 10)
        }
        let readings = segments.map(\.segment.reading)
        #expect(readings.flatMap(\.calls).count == 1)
        #expect(readings.map(\.repeats.calls).reduce(0, +) == 3)
        let types = readings.reduce(0) { $0 | $1.repeats.types }
        #expect(types == 1 << UInt64(IdentityType.customerID.rawValue) | 1 << UInt64(IdentityType.iosIDFV.rawValue))
    }
}
