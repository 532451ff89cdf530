import CLinux
import Glibc

/// A thread of the operating system that runs one function. Other threads can wait for its end.
///
/// The server's hot path runs on a few such threads; Swift's tasks are for other work (docs/architecture.md).
package final class WorkerThread: Sendable {
    /// The thread to wait for; nil after a thread has waited.
    private let thread: Monitor<pthread_t?>

    /// Starts the thread. The name shows in `ps` and in a profile; Linux keeps its first 15 bytes.
    package init(name: String, _ body: @escaping @Sendable () -> Void) {
        let start = Start(name: name, body: body)
        var thread = pthread_t()
        let code = unsafe pthread_create(
            &thread, nil,
            { argument in
                guard let argument = unsafe argument else { return nil }
                let start = unsafe Unmanaged<Start>.fromOpaque(argument).takeRetainedValue()
                unsafe onym_name_thread(start.name)
                WorkerThread.blockLostPeers()
                start.body()
                return nil
            }, Unmanaged.passRetained(start).toOpaque())
        if code != 0 { Shortage.end(missing: "memory for the thread \(name)") }
        self.thread = Monitor(thread)
    }

    /// The failing call reports a peer that is gone, and not a signal that ends the process.
    private static func blockLostPeers() {
        var pipe = sigset_t()
        unsafe sigemptyset(&pipe)
        unsafe sigaddset(&pipe, SIGPIPE)
        unsafe pthread_sigmask(SIG_BLOCK, &pipe, nil)
    }

    deinit {
        // No thread waits any more, so the system may free the thread at its end.
        thread.withLock { thread in
            if let thread = thread.take() { pthread_detach(thread) }
        }
    }

    /// Waits until the thread has ended. Several callers may wait together; later calls return at once.
    package func join() {
        thread.withLock { thread in
            if let thread = thread.take() { pthread_join(thread, nil) }
        }
    }

    private final class Start: Sendable {
        let name: String
        let body: @Sendable () -> Void

        init(name: String, body: @escaping @Sendable () -> Void) {
            self.name = name
            self.body = body
        }
    }
}
