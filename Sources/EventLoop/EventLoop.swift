import CUV
import Glibc
import Threads

/// One thread's loop over sockets and timers: libuv's. No pointer of libuv leaves this target.
///
/// All work of a loop happens on the thread that calls ``run()``. Other threads may only call ``post(_:)``.
@safe
package final class EventLoop: @unchecked Sendable {
    // Unchecked: the mailbox has a lock, the rest belongs to the loop's thread.

    let handle: UnsafeMutablePointer<uv_loop_t>
    private let wake: UnsafeMutablePointer<uv_async_t>
    private let afterPoll: UnsafeMutablePointer<uv_check_t>
    private let timer: UnsafeMutablePointer<uv_timer_t>
    private let mailbox = Monitor<Mailbox>(Mailbox())
    private var stopping = false

    /// Runs after each round of reads, so that the requests of many connections can be passed on together.
    package var onRoundEnd: () -> Void = {}
    /// Runs at the interval given to ``tick(everyMilliseconds:)``.
    package var onTick: () -> Void = {}
    /// The buffer of reads, before the connection gets the bytes.
    let readBuffer: UnsafeMutableRawBufferPointer

    private struct Mailbox: Sendable {
        var work: [@Sendable () -> Void] = []
        var isClosed = false
    }

    /// The greatest number of bytes of one read.
    package static let readBytes = 64 * 1024

    package init() throws(SystemFault) {
        unsafe handle = .allocate(capacity: 1)
        unsafe wake = .allocate(capacity: 1)
        unsafe afterPoll = .allocate(capacity: 1)
        unsafe timer = .allocate(capacity: 1)
        unsafe readBuffer = .allocate(byteCount: EventLoop.readBytes, alignment: 64)
        try unsafe SystemFault.check(uv_loop_init(handle), "make an event loop")

        let this = unsafe Unmanaged.passUnretained(self).toOpaque()
        try unsafe SystemFault.check(
            uv_async_init(handle, wake) { wake in
                guard let wake = unsafe wake else { return }
                unsafe Unmanaged<EventLoop>.fromOpaque(wake.pointee.data).takeUnretainedValue().emptyMailbox()
            }, "make an event loop's wake-up")
        unsafe wake.pointee.data = this
        unsafe uv_check_init(handle, afterPoll)
        unsafe afterPoll.pointee.data = this
        unsafe uv_check_start(afterPoll) { check in
            guard let check = unsafe check else { return }
            unsafe Unmanaged<EventLoop>.fromOpaque(check.pointee.data).takeUnretainedValue().onRoundEnd()
        }
        unsafe uv_timer_init(handle, timer)
        unsafe timer.pointee.data = this
    }

    deinit {
        unsafe handle.deallocate()
        unsafe wake.deallocate()
        unsafe afterPoll.deallocate()
        unsafe timer.deallocate()
        unsafe readBuffer.deallocate()
    }

    /// Runs until ``stop()``. The owners of listeners and streams close them earlier.
    package func run() {
        while !stopping {
            unsafe uv_run(handle, UV_RUN_ONCE)
        }
        let unheard = mailbox.withLock { mailbox in
            mailbox.isClosed = true
            return mailbox.work
        }
        for work in unheard { work() }
        unsafe wake.withMemoryRebound(to: uv_handle_t.self, capacity: 1) { unsafe uv_close($0, nil) }
        unsafe afterPoll.withMemoryRebound(to: uv_handle_t.self, capacity: 1) { unsafe uv_close($0, nil) }
        unsafe timer.withMemoryRebound(to: uv_handle_t.self, capacity: 1) { unsafe uv_close($0, nil) }
        while unsafe uv_run(handle, UV_RUN_DEFAULT) != 0 {}
        let code = unsafe uv_loop_close(handle)
        precondition(code == 0, "A loop ended while a stream or a listener was open.")
    }

    /// Ends ``run()`` after the current round. Call it on the loop's thread.
    package func stop() {
        stopping = true
    }

    /// Runs work on the loop's thread soon; any thread may call it. Several posts in a burst cost one wake-up.
    ///
    /// Answers false after the end of the loop: then the work does not run.
    @discardableResult
    package func post(_ work: @escaping @Sendable () -> Void) -> Bool {
        mailbox.withLock { mailbox in
            guard !mailbox.isClosed else { return false }
            mailbox.work.append(work)
            if mailbox.work.count == 1 { unsafe uv_async_send(wake) }
            return true
        }
    }

    /// Starts ``onTick``. Call it on the loop's thread.
    package func tick(everyMilliseconds interval: UInt64) {
        unsafe uv_timer_start(
            timer,
            { timer in
                guard let timer = unsafe timer else { return }
                unsafe Unmanaged<EventLoop>.fromOpaque(timer.pointee.data).takeUnretainedValue().onTick()
            }, interval, interval)
    }

    /// The time at the start of this round, in milliseconds, of a clock that nobody can set.
    package var now: UInt64 { unsafe uv_now(handle) }

    private func emptyMailbox() {
        let work = mailbox.withLock { mailbox in
            let work = mailbox.work
            mailbox.work = []
            return work
        }
        for work in work { work() }
    }
}

/// A failed call to the system.
package struct SystemFault: Error, Equatable, Sendable, CustomStringConvertible {
    /// The action that failed.
    package let action: String
    /// The error number, which is positive.
    package let code: CInt

    package init(action: String, code: CInt) {
        self.action = action
        self.code = code
    }

    package var description: String {
        let reason = unsafe String(cString: uv_strerror(-code))
        return "Could not \(action): \(reason)."
    }

    static func check(_ result: CInt, _ action: @autoclosure () -> String) throws(SystemFault) {
        if result < 0 { throw SystemFault(action: action(), code: -result) }
    }
}
