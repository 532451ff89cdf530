import Telemetry
import Threads

/// Writes a repeated log line at most once a second. The first line is written at once; later lines contain a count.
final class RepeatedLog: Sendable {
    private struct State {
        var nextAt: UInt64 = 0
        /// The number of events since the last line.
        var unsaid = 0
    }

    private let state = Monitor(State())
    private let logger: Logger
    private let monotonic: @Sendable () -> UInt64

    private static let pauseNanoseconds: UInt64 = 1_000_000_000

    init(_ logger: Logger, monotonic: @escaping @Sendable () -> UInt64) {
        self.logger = logger
        self.monotonic = monotonic
    }

    func log(_ level: Logger.Level, _ message: String, _ fields: [(StaticString, Logger.Value)] = []) {
        let now = monotonic()
        let count: Int? = state.withLock { state in
            state.unsaid += 1
            guard now >= state.nextAt else { return nil }
            defer { state = State(nextAt: now &+ RepeatedLog.pauseNanoseconds) }
            return state.unsaid
        }
        guard let count else { return }
        logger.log(level, message, fields + (count > 1 ? [("count", .integer(count))] : []))
    }
}
