import CLinux
import Glibc
import HTTPServer
import Threads

/// The service manager that started the server (systemd, sd_notify(3)). The server reports that it serves, reloads and
/// stops, and that it still answers.
final class ServiceManager: Sendable {
    private let socket: String
    /// The milliseconds within which the service manager expects a sign of life; nil if it expects no signs.
    private let watchdogMilliseconds: Int?
    private let isEnding = Monitor(false)
    private let watch = Monitor<WorkerThread?>(nil)

    /// Nil if no service manager waits for reports.
    init?(_ environment: [String: String]) {
        guard let socket = environment["NOTIFY_SOCKET"], !socket.isEmpty else { return nil }
        self.socket = socket
        let isOurs = environment["WATCHDOG_PID"].map { $0 == "\(getpid())" } ?? true
        watchdogMilliseconds = isOurs ? environment["WATCHDOG_USEC"].flatMap(Int.init).map { $0 / 1000 } : nil
    }

    /// The server answers from now on.
    func serves(_ server: RunningServer) {
        send("READY=1")
        guard let watchdogMilliseconds, watchdogMilliseconds > 0 else { return }
        // A third of the time leaves room for a slow moment.
        let pause = max(1, watchdogMilliseconds / 3)
        watch.withLock { watch in
            watch = WorkerThread(name: "onym-watchdog") { [self] in
                let answered = Monitor(true)
                while isEnding.wait(milliseconds: pause, for: { $0 ? true : nil }) == nil {
                    // A loop that hangs answers no question, so no sign of life follows.
                    guard answered.withLock({ $0 }) else { continue }
                    send("WATCHDOG=1")
                    answered.change { $0 = false }
                    server.whenLoopsAnswer { answered.change { $0 = true } }
                }
            }
        }
    }

    /// The server reads its certificate again.
    func reloads(_ body: () -> Void) {
        send("RELOADING=1\nMONOTONIC_USEC=\(MonotonicClock.nanoseconds() / 1000)")
        body()
        send("READY=1")
    }

    /// The server finishes its calls, and ends.
    func stops() {
        send("STOPPING=1")
        isEnding.change { $0 = true }
        watch.withLock { $0 }?.join()
    }

    /// A service manager that does not listen is no reason to end.
    private func send(_ text: String) { _ = unsafe onym_send_datagram(socket, text) }
}
