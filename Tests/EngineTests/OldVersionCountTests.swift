import Domain
import Engine
import TestKit
import Testing
import Threads

@Suite("The count of old versions", .timeLimit(.minutes(30)))
struct OldVersionCountTests {
    @Test("has later versions soon, and leaves out removed ones an hour later", arguments: StoreKind.allCases)
    func count(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        let user = Identity(.claimUserID, "ada", in: World.project, hash: fixture.store.hash)
        func set(_ plan: String) throws { _ = try fixture.process(SetProperties(user: user, values: [("plan", plan)])) }
        try set("free")
        let nanoseconds = Monitor<UInt64>(0)
        let count = OldVersionCount(fixture.store, pauseMilliseconds: 5) { nanoseconds.withLock { $0 } }
        defer { count.stop() }
        #expect(Patience.until { count.bytes != nil })
        let first = count.bytes ?? 0
        try set("pro")
        #expect(Patience.until { count.bytes ?? 0 > first })
        try set("pro, paid by the year")
        let end = fixture.store.counts.lastSequence
        try set("none")
        let whole = try fixture.store.read { snapshot throws(StoreFault) in
            try snapshot.oldVersions(after: 0, limit: 1000).bytes
        }
        #expect(Patience.until { count.bytes == whole })
        #expect(try fixture.store.forgetVersions(after: 0, supersededUpTo: end, limit: 1000) > 0)
        nanoseconds.withLock { $0 = OldVersionCount.recountNanoseconds + 1 }
        let rest = try fixture.store.read { snapshot throws(StoreFault) in
            try snapshot.oldVersions(after: 0, limit: 1000).bytes
        }
        #expect(rest < whole && Patience.until { count.bytes == rest })
    }
}
