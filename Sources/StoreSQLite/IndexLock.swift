import Threads

/// The lock of the index, which tells for how long it kept readers out.
final class IndexLock: @unchecked Sendable {
    // Unchecked: the watcher is set before there are any threads but one.
    private let lock = ReadWriteLock()
    private var note: (@Sendable (UInt64) -> Void)?

    func watch(_ note: @escaping @Sendable (UInt64) -> Void) { self.note = note }

    /// Runs a body while nobody changes the index. Bodies do not nest.
    @inline(__always)
    func read<Result>(_ body: () -> Result) -> Result { lock.read(body) }

    /// Changes the index while nobody reads it.
    func write<Result>(_ body: () -> Result) -> Result {
        lock.write {
            guard let note else { return body() }
            let start = ContinuousClock.now
            let result = body()
            let held = (ContinuousClock.now - start).components
            note(UInt64(held.seconds) &* 1_000_000_000 &+ UInt64(held.attoseconds / 1_000_000_000))
            return result
        }
    }
}
