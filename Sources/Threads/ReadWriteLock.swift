import Glibc

/// A lock for many readers together, or for one writer alone. A waiting writer comes before new readers, so that a steady
/// stream of reads cannot keep it out.
@safe
package final class ReadWriteLock: @unchecked Sendable {
    private let lock: UnsafeMutablePointer<pthread_rwlock_t>

    package init() {
        unsafe lock = .allocate(capacity: 1)
        var attributes = pthread_rwlockattr_t()
        unsafe pthread_rwlockattr_init(&attributes)
        unsafe pthread_rwlockattr_setkind_np(
            &attributes, CInt(PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP))
        if unsafe pthread_rwlock_init(lock, &attributes) != 0 { Shortage.end(missing: "memory for a lock") }
        unsafe pthread_rwlockattr_destroy(&attributes)
    }

    deinit {
        unsafe pthread_rwlock_destroy(lock)
        unsafe lock.deallocate()
    }

    /// Runs a body while no thread writes. Bodies do not nest.
    @inline(__always)
    package func read<Result>(_ body: () -> Result) -> Result {
        let code = unsafe pthread_rwlock_rdlock(lock)
        precondition(code == 0, "A body reads that is within another.")
        defer { unsafe pthread_rwlock_unlock(lock) }
        return body()
    }

    /// Runs a body while no thread writes; nil if a thread writes now, or waits to write. The call never waits.
    @inline(__always)
    package func readIfFree<Result>(_ body: () -> Result) -> Result? {
        guard unsafe pthread_rwlock_tryrdlock(lock) == 0 else { return nil }
        defer { unsafe pthread_rwlock_unlock(lock) }
        return body()
    }

    /// The attempts to get the lock before a thread sleeps. A reader has the lock for a few microseconds, and to sleep and wake costs
    /// more.
    private static let attempts = 64

    /// Runs a body while no other thread reads or writes.
    @inline(__always)
    package func write<Result, Failure>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result {
        var code = unsafe pthread_rwlock_trywrlock(lock)
        var left = ReadWriteLock.attempts
        while code == EBUSY, left > 0 {
            left -= 1
            code = unsafe pthread_rwlock_trywrlock(lock)
        }
        if code == EBUSY { code = unsafe pthread_rwlock_wrlock(lock) }
        precondition(code == 0, "A body writes that is within another.")
        defer { unsafe pthread_rwlock_unlock(lock) }
        return try body()
    }
}
