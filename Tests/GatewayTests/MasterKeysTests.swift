import Domain
import Gateway
import JSON
import Testing
import Threads

@Suite("Several master keys")
struct MasterKeysTests {
    private static let bytes = (1...3).map { [UInt8](repeating: UInt8($0), count: 32) }
    private static let project = ProjectID(rawValue: 1)

    /// A directory whose project uses a key from a moment on.
    private static func directory(using key: Int?) -> Directory {
        let project = Project(id: project, name: "P", madeAt: Instant(milliseconds: 5))
        let history = key.map { [project.id: MasterKeyHistory(beginning: MasterKeyMark(of: bytes[$0]))] }
        return Directory(projects: [project], masterKeys: history ?? [:])
    }

    @Test("sign with the newest key in use, and check with all")
    func signs() {
        let present = Monitor(MasterKeysTests.directory(using: nil))
        let keys = MasterKeys(Array(MasterKeysTests.bytes[..<2]))
        keys.watch { present.withLock { $0 } }
        let receipts = TestReceipts(keys)
        let payload = TestReceipts.Payload(
            project: MasterKeysTests.project, product: "p", transaction: "t", purchasedAt: Instant(milliseconds: 1))
        let old = receipts.receipt(payload)
        #expect(old == TestReceipts(master: MasterKeysTests.bytes[0]).receipt(payload), "the second key waits")
        present.withLock { $0 = MasterKeysTests.directory(using: 1) }
        let new = receipts.receipt(payload)
        #expect(new == TestReceipts(master: MasterKeysTests.bytes[1]).receipt(payload))
        let parser = JSONParser()
        #expect(receipts.read(old, parser) == payload && receipts.read(new, parser) == payload)
        #expect(TestReceipts(master: MasterKeysTests.bytes[1]).read(old, parser) == nil, "without the old key")
    }

    @Test("name a key that is missing, and find it when its file is copied")
    func missing() {
        let file = Monitor([MasterKeysTests.bytes[0]])
        let keys = MasterKeys([MasterKeysTests.bytes[0]]) { file.withLock { $0 } }
        keys.watch { [directory = MasterKeysTests.directory(using: 2)] in directory }
        let mark = MasterKeyMark(of: MasterKeysTests.bytes[2])
        #expect(keys.missing == [mark] && keys.unreadiness?.contains(mark.id) == true)
        #expect(keys.newest.mark == keys.first, "it signs with what others can check")
        #expect(keys.key(at: Instant(milliseconds: 9), in: MasterKeysTests.project) == nil)
        file.withLock { $0.append(MasterKeysTests.bytes[2]) }
        #expect(keys.unreadiness == nil && keys.newest.mark == mark)
        // A file that cannot be read takes no key away.
        file.withLock { $0 = [] }
        keys.reload()
        #expect(keys.newest.mark == mark)
    }

    /// A directory's closure that was wrapped once more by each look ended in a stack overflow here.
    @Test("look at the directory as quickly after any number of looks")
    func looks() {
        let keys = MasterKeys(MasterKeysTests.bytes)
        keys.watch { [directory = MasterKeysTests.directory(using: 1)] in directory }
        var roots: Set<MasterKeyMark> = []
        for _ in 0..<200_000 { roots.insert(keys.root(of: MasterKeysTests.project)) }
        #expect(roots.count == 1)
    }

    @Test("have ids that follow from them, and say nothing about each other")
    func ids() {
        let marks = MasterKeysTests.bytes.map(MasterKeyMark.init(of:))
        #expect(Set(marks.map(\.id)).count == 3 && marks.allSatisfy { $0.id.wholeMatch(of: /[0-9a-f]{8}/) != nil })
        let keys = MasterKeys(MasterKeysTests.bytes)
        #expect(Set(keys.all.map { $0.derived(for: "a") } + keys.all.map { $0.derived(for: "b") }).count == 6)
        #expect(keys.first == marks[0] && keys.newest.mark == marks[0])
    }
}
