import Engine
import Testing
import Threads

@Suite("Readers without threads")
struct ReadersTests {
    /// What a caller of a read holds, and the caller holds the readers.
    private final class Caller: Sendable {
        let readers: Readers
        let answers = Monitor(0)

        init(_ readers: Readers) { self.readers = readers }

        func ask() -> Bool { readers.submit { self.answers.change { $0 += 1 } } }
    }

    @Test("answer what waits when they stop")
    func stop() {
        let readers = Readers(threads: 0)
        let caller = Caller(readers)
        #expect(caller.ask() && caller.ask())
        readers.stop()
        #expect(caller.answers.withLock { $0 } == 2)
        #expect(!caller.ask() && !readers.step())
    }

    @Test("let go of what waits, and of its callers, when their machine dies")
    func abandon() {
        weak var left: Caller?
        do {
            let readers = Readers(threads: 0)
            let caller = Caller(readers)
            left = caller
            #expect(caller.ask())
            readers.abandon()
            #expect(caller.answers.withLock { $0 } == 0)
        }
        #expect(left == nil)
    }
}
