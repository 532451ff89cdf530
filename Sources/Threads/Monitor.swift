import Glibc

/// A value behind a lock, and threads that wait for it to change.
@safe
package final class Monitor<State>: @unchecked Sendable {
    // The value is touched only under the lock; both C objects stay where they were made.
    private var state: State
    private let lock: UnsafeMutablePointer<pthread_mutex_t>
    private let changed: UnsafeMutablePointer<pthread_cond_t>

    package init(_ state: sending State) {
        // A value without a size has the address of what lies beside it, which is read without the lock.
        precondition(MemoryLayout<State>.size > 0, "A lock without a value is a ReadWriteLock.")
        self.state = state
        unsafe lock = .allocate(capacity: 1)
        unsafe changed = .allocate(capacity: 1)
        var attributes = pthread_condattr_t()
        unsafe pthread_condattr_init(&attributes)
        // Waits are measured by a clock that nobody sets.
        unsafe pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
        let made = unsafe pthread_mutex_init(lock, nil) == 0 && pthread_cond_init(changed, &attributes) == 0
        if !made { Shortage.end(missing: "memory for a lock") }
        unsafe pthread_condattr_destroy(&attributes)
    }

    deinit {
        unsafe pthread_cond_destroy(changed)
        unsafe pthread_mutex_destroy(lock)
        unsafe changed.deallocate()
        unsafe lock.deallocate()
    }

    /// Runs a body with the value, while no other thread has it.
    package func withLock<Result, Failure>(
        _ body: (inout State) throws(Failure) -> sending Result
    ) throws(Failure) -> sending Result {
        unsafe pthread_mutex_lock(lock)
        defer { unsafe pthread_mutex_unlock(lock) }
        return try body(&state)
    }

    /// Changes the value, then wakes every thread that waits for a change.
    package func change<Result>(_ body: (inout State) -> sending Result) -> sending Result {
        unsafe pthread_mutex_lock(lock)
        defer {
            unsafe pthread_mutex_unlock(lock)
            unsafe pthread_cond_broadcast(changed)
        }
        return body(&state)
    }

    /// Waits until a body has an answer, asking it again after every change; nil when the time is over.
    package func wait<Result>(
        milliseconds: Int? = nil, for body: (inout State) -> Result?
    ) -> sending Result? {
        let deadline = milliseconds.map { timespec.monotonic(afterMilliseconds: $0) }
        unsafe pthread_mutex_lock(lock)
        defer { unsafe pthread_mutex_unlock(lock) }
        while true {
            if let result = body(&state) { return result }
            if var deadline {
                if unsafe pthread_cond_timedwait(changed, lock, &deadline) == ETIMEDOUT { return body(&state) }
            } else {
                unsafe pthread_cond_wait(changed, lock)
            }
        }
    }
}

extension timespec {
    fileprivate static func monotonic(afterMilliseconds milliseconds: Int) -> timespec {
        var now = timespec()
        unsafe clock_gettime(CLOCK_MONOTONIC, &now)
        let nanoseconds = now.tv_nsec + milliseconds % 1000 * 1_000_000
        return timespec(
            tv_sec: now.tv_sec + milliseconds / 1000 + nanoseconds / 1_000_000_000, tv_nsec: nanoseconds % 1_000_000_000
        )
    }
}
