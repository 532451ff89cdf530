import Program
import TestKit
import Testing
import Threads

@Suite("Work for the loops")
struct LoopPostsTests {
    private final class Heard: Sendable {
        let lanes = Monitor<[String]>([])
        func post(_ lane: Int) -> LoopPosts.Post {
            { [self] work in
                lanes.withLock { $0.append("lane \(lane)") }
                work()
            }
        }
        func work(_ name: String) -> LoopPosts.Work { { [self] in lanes.withLock { $0.append(name) } } }
    }

    @Test("An answer that is ready before all loops are known waits for its loop")
    func early() {
        let (posts, heard) = (LoopPosts(), Heard())
        posts.deliver(1, heard.work("first"))
        posts.deliver(0, heard.work("second"))
        #expect(heard.lanes.withLock { $0 } == [])
        posts.open([heard.post(0), heard.post(1)])
        #expect(heard.lanes.withLock { $0 } == ["lane 1", "first", "lane 0", "second"])
        posts.deliver(1, heard.work("third"))
        #expect(heard.lanes.withLock { $0.suffix(2) } == ["lane 1", "third"])
    }

    @Test("After the end no work runs")
    func closed() {
        let (posts, heard) = (LoopPosts(), Heard())
        posts.deliver(0, heard.work("early"))
        posts.close()
        posts.deliver(0, heard.work("late"))
        #expect(heard.lanes.withLock { $0 } == [])
    }
}
