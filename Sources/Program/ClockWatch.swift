import CivilTime
import DialectNative
import Domain
import Engine
import Telemetry
import Threads

/// Compares the server's clock with the clocks of stores, and with the clock that nobody sets (spec/entitlements-live.md 9). A
/// wrong clock ends access too early or too late, so the operator has to know it.
final class ClockWatch: Sendable {
    private struct State {
        /// The milliseconds by which the server's clock was ahead of the last store that answered.
        var aheadOfStores: Int64?
        /// The two clocks at the last look.
        var last: (wall: Int64, monotonic: UInt64)?
        /// The last times that somebody set the clock, the oldest first.
        var steps: [(step: NoticedStep, monotonic: UInt64)] = []
        var isStopping = false
        var isTold = false
    }

    /// A difference up to these milliseconds is usual.
    static let storeSlack: Int64 = 120_000
    static let stepSlack: Int64 = 30_000
    private static let stepShownNanoseconds: UInt64 = 3600 * 1_000_000_000
    /// A clock that is set for a shorter time, and without a call, harms nobody.
    private static let pauseMilliseconds = 5_000
    private static let stepsAtMost = 20

    private let clock: @Sendable () -> Instant
    private let monotonic: @Sendable () -> UInt64
    private let logger: Logger
    private let state = Monitor(State())
    private let thread = Monitor<WorkerThread?>(nil)

    init(clock: @escaping @Sendable () -> Instant, monotonic: @escaping @Sendable () -> UInt64, logger: Logger) {
        (self.clock, self.monotonic, self.logger) = (clock, monotonic, logger)
        look()
        thread.withLock { $0 = WorkerThread(name: "onym-clock") { [self] in run() } }
    }

    func stop() {
        state.change { $0.isStopping = true }
        thread.withLock { $0.take() }?.join()
    }

    private func run() {
        while true {
            let isStopping = state.wait(milliseconds: ClockWatch.pauseMilliseconds) { $0.isStopping ? true : nil }
            if isStopping == true { return }
            look()
        }
    }

    /// Notes the moment of a store's answer, by the store's clock.
    func note(storesDate text: String) {
        guard let seconds = HTTPDate.seconds(text) else { return }
        let now = clock().milliseconds
        let ahead = now - Int64(seconds) * 1000
        state.withLock { $0.aheadOfStores = ahead }
        tell()
    }

    /// Looks whether somebody has set the clock since the last look.
    func look() {
        let (wall, monotonic) = (clock().milliseconds, monotonic())
        state.withLock { state in
            if let last = state.last {
                let step = wall - last.wall - Int64((monotonic - min(monotonic, last.monotonic)) / 1_000_000)
                if abs(step) > ClockWatch.stepSlack {
                    let seen = NoticedStep(at: Instant(milliseconds: wall), milliseconds: step)
                    state.steps = state.steps.suffix(ClockWatch.stepsAtMost - 1) + [(seen, monotonic)]
                }
            }
            state.last = (wall, monotonic)
        }
        tell()
    }

    /// The seconds by which the server's clock is ahead of the stores'; negative if it is behind, 0 before the first answer.
    var skewSeconds: Int { Int(state.withLock { $0.aheadOfStores ?? 0 } / 1000) }

    /// The milliseconds by which the server's clock was ahead of the last store that answered; nil before the first answer.
    var aheadMilliseconds: Int64? { state.withLock { $0.aheadOfStores } }

    /// The last times that somebody set the clock, the oldest first.
    var steps: [NoticedStep] { state.withLock { $0.steps.map(\.step) } }

    /// The sentences about a clock that is wrong, or that was set a short time ago.
    var problems: [String] {
        let (ahead, step) = state.withLock { ($0.aheadOfStores ?? 0, $0.steps.last) }
        var problems: [String] = []
        if abs(ahead) > ClockWatch.storeSlack {
            problems.append(
                "The clock is \(abs(ahead) / 1000) s \(ahead > 0 ? "ahead of" : "behind") the clocks of the stores."
            )
        }
        if let step, monotonic() - min(monotonic(), step.monotonic) < ClockWatch.stepShownNanoseconds {
            problems.append(
                "The clock was set \(step.step.milliseconds > 0 ? "ahead" : "back") by \(abs(step.step.milliseconds) / 1000) s."
            )
        }
        return problems
    }

    /// Logs a problem once, until it has passed.
    private func tell() {
        let problems = problems
        let isNew = state.withLock { state in
            defer { state.isTold = !problems.isEmpty }
            return !problems.isEmpty && !state.isTold
        }
        if isNew {
            logger.log(.warning, "The clock may be wrong.", [("reason", .text(problems.joined(separator: " ")))])
        }
    }
}
