import DialectEntitlements
import Testing
import Threads

@Suite("The bell of notices")
struct NoticeBellTests {
    /// A listener that was wrapped once more by each ring ended in a stack overflow here.
    @Test("rings its listener directly, after any number of rings")
    func rings() {
        let rung = Monitor(0)
        let bell = NoticeBell()
        bell.wake()
        bell.setListener { rung.withLock { $0 += 1 } }
        for _ in 0..<200_000 { bell.wake() }
        bell.setListener(nil)
        bell.wake()
        #expect(rung.withLock { $0 } == 200_000)
    }
}
