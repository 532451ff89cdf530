import Glibc

/// A value behind a lock, and threads that wait for a change of the value.
@safe
package final class Monitor<State>: @unchecked Sendable {
    // Only the holder of the lock uses the value; both C objects stay where they were made.
    private var state: State
    private let lock: UnsafeMutablePointer<pthread_mutex_t>
    private let changed: UnsafeMutablePointer<pthread_cond_t>

    package init(_ state: sending State) {
        // A value without a size has the address of its neighbor in memory, which other code reads without the lock.
        precondition(MemoryLayout<State>.size > 0, "A lock without a value is a ReadWriteLock.")
        self.state = state
        unsafe lock = .allocate(capacity: 1)
        unsafe changed = .allocate(capacity: 1)
        var attributes = pthread_condattr_t()
        unsafe pthread_condattr_init(&attributes)
        // A clock that nobody can set measures the waits.
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

    /// Runs a body with the value, while no other thread has the value.
    package func withLock<Result, Failure>(
        _ body: (inout State) throws(Failure) -> sending Result
    ) throws(Failure) -> sending Result {
        unsafe pthread_mutex_lock(lock)
        defer { unsafe pthread_mutex_unlock(lock) }
        return try body(&state)
    }

    /// Changes the value, then wakes every waiting thread.
    package func change<Result>(_ body: (inout State) -> sending Result) -> sending Result {
        unsafe pthread_mutex_lock(lock)
        defer {
            unsafe pthread_mutex_unlock(lock)
            unsafe pthread_cond_broadcast(changed)
        }
        return body(&state)
    }

    /// Waits until a body has an answer, and asks the body again after every change; nil after the end of the time.
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
