import Glibc
import Testing
import Threads

@Suite("Threads")
struct ThreadsTests {
    @Test("run what they are given and can be waited for")
    func workers() {
        let count = Monitor(0)
        let threads = (0..<8).map { index in
            WorkerThread(name: "test-\(index)") {
                for _ in 0..<1000 { count.change { $0 += 1 } }
            }
        }
        for thread in threads { thread.join() }
        #expect(count.withLock { $0 } == 8000)
        // Two owners may each wait for the same thread.
        for thread in threads { thread.join() }
    }

    @Test("pass things on in their order, and end together")
    func conveyors() {
        let conveyor = Conveyor<Int>(limit: 4)
        let maker = WorkerThread(name: "test-conveyor") {
            for number in 0..<10_000 where !conveyor.put(number) { return }
            conveyor.close()
        }
        var taken: [Int] = []
        while let number = conveyor.take() { taken.append(number) }
        maker.join()
        #expect(taken == Array(0..<10_000))
        // A maker whose things nobody takes any more goes on.
        let other = Conveyor<Int>(limit: 1)
        let waiting = WorkerThread(name: "test-conveyor") { while other.put(1) {} }
        _ = other.take()
        other.close()
        waiting.join()
        #expect(other.take() == 1 || other.take() == nil)
    }

    @Test("are not ended by a peer that is gone")
    func lostPeer() {
        let number = Monitor<CInt>(0)
        let thread = WorkerThread(name: "test-peer") {
            var ends: [CInt] = [0, 0]
            guard pipe(&ends) == 0 else { return }
            close(ends[0])
            let count = write(ends[1], "a", 1)
            let reason = errno
            close(ends[1])
            number.withLock { $0 = count < 0 ? reason : 0 }
        }
        thread.join()
        #expect(number.withLock { $0 } == EPIPE)
    }

    @Test("wait for a change, and are woken by it")
    func waiting() {
        let value = Monitor(0)
        let thread = WorkerThread(name: "changer") {
            for _ in 0..<100 { value.change { $0 += 1 } }
        }
        let seen = value.wait { $0 == 100 ? $0 : nil }
        #expect(seen == 100)
        thread.join()
    }

    @Test("wait no longer than they are told to")
    func timeout() {
        let value = Monitor(0)
        let seen: Int? = value.wait(milliseconds: 20) { $0 > 0 ? $0 : nil }
        #expect(seen == nil)
    }

    @Test("read together and write alone")
    func readersAndWriters() {
        // Two numbers that are only ever changed together: a reader that sees them differ has read amid a write.
        final class Pair: @unchecked Sendable {
            var one = 0
            var other = 0
        }
        let lock = ReadWriteLock()
        let pair = Pair()
        let torn = Monitor(0)
        let writers = (0..<2).map { index in
            WorkerThread(name: "writer-\(index)") {
                for _ in 0..<2000 {
                    lock.write {
                        pair.one += 1
                        pair.other += 1
                    }
                }
            }
        }
        let readers = (0..<4).map { index in
            WorkerThread(name: "reader-\(index)") {
                for _ in 0..<2000 {
                    if lock.read({ pair.one != pair.other }) { torn.change { $0 += 1 } }
                    if lock.readIfFree({ pair.one != pair.other }) == true { torn.change { $0 += 1 } }
                }
            }
        }
        for thread in writers + readers { thread.join() }
        #expect(torn.withLock { $0 } == 0)
        #expect(lock.read { pair.one } == 4000)
        #expect(lock.readIfFree { pair.other } == 4000)
    }

    @Test("a read that must not wait gives up while a thread writes")
    func readIfFree() {
        let lock = ReadWriteLock()
        let isRefused = Monitor(false)
        lock.write {
            let reader = WorkerThread(name: "reader") {
                if lock.readIfFree({ true }) == nil { isRefused.change { $0 = true } }
            }
            reader.join()
        }
        #expect(isRefused.withLock { $0 })
    }

    @Test("a lock without a value is refused where it is made, not by a reader of the sanitizer's reports")
    func nothingBehindALock() async {
        await #expect(processExitsWith: .failure) { _ = Monitor(()) }
    }
}
