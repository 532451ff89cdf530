import CivilTime
import Domain
import Telemetry
import Threads

/// Compares the server's clock with the clocks of stores (spec/entitlements-live.md 9). A wrong clock ends access too early or too
/// late, so the operator has to know it.
final class StoresClock: Sendable {
    /// A difference up to these milliseconds is usual.
    private static let slack: Int64 = 120_000

    private let clock: @Sendable () -> Instant
    private let logger: Logger
    private let state = Monitor((aheadMilliseconds: Int64?.none, isTold: false))

    init(clock: @escaping @Sendable () -> Instant, logger: Logger) { (self.clock, self.logger) = (clock, logger) }

    /// Notes the moment of a store's answer, by the store's clock. A problem is logged once, until it has passed.
    func note(date text: String) {
        guard let seconds = HTTPDate.seconds(text) else { return }
        let ahead = clock().milliseconds - Int64(seconds) * 1000
        let problem = StoresClock.problem(aheadMilliseconds: ahead)
        let wasTold = state.withLock { state in
            defer { state = (ahead, problem != nil) }
            return state.isTold
        }
        guard let problem, !wasTold else { return }
        logger.log(.warning, "The clock may be wrong.", [("reason", .text(problem))])
    }

    /// The seconds by which the server's clock is ahead of the stores'; negative if it is behind, 0 before the first answer.
    var skewSeconds: Int { Int((aheadMilliseconds ?? 0) / 1000) }

    /// The milliseconds by which the server's clock was ahead of the last store that answered; nil before the first answer.
    var aheadMilliseconds: Int64? { state.withLock { $0.aheadMilliseconds } }

    /// The sentence about a clock that differs too much.
    var problem: String? { StoresClock.problem(aheadMilliseconds: aheadMilliseconds ?? 0) }

    private static func problem(aheadMilliseconds ahead: Int64) -> String? {
        guard abs(ahead) > slack else { return nil }
        return "The clock is \(abs(ahead) / 1000) s \(ahead > 0 ? "ahead of" : "behind") the clocks of the stores."
    }
}
