import Threads

/// The lock of the index. It reports how long readers waited.
final class IndexLock: @unchecked Sendable {
    // Unchecked: the watcher is set while only one thread exists.
    private let lock = ReadWriteLock()
    private var note: (@Sendable (UInt64) -> Void)?

    func watch(_ note: @escaping @Sendable (UInt64) -> Void) { self.note = note }

    /// Runs a body while no thread changes the index. Bodies must not nest.
    @inline(__always)
    func read<Result>(_ body: () -> Result) -> Result { lock.read(body) }

    /// The same without waiting; nil while a thread changes the index.
    @inline(__always)
    func readIfFree<Result>(_ body: () -> Result) -> Result? { lock.readIfFree(body) }

    /// Changes the index while no thread reads it.
    func write<Result>(_ body: () -> Result) -> Result {
        lock.write {
            guard let note else { return body() }
            let start = MonotonicMoment.now
            let result = body()
            note(start.nanosecondsUntilNow)
            return result
        }
    }
}
