import Domain
import Engine
import HTTPServer

/// How long a call may read.
package struct ReadTimes: Equatable, Sendable {
    /// For a client that is there.
    package var milliseconds: UInt64 = 10_000
    /// For a client that sends nothing more: it may wait for the answer, but mostly it has left.
    package var silentMilliseconds: UInt64 = 2_000

    package init() {}

    /// When a reading that begins now has to end: at its time, when its client has left, or when the server stops.
    func limit(
        _ client: ClientPresence, _ readers: Readers, _ monotonic: @escaping @Sendable () -> UInt64
    ) -> ReadLimit {
        let start = monotonic()
        return ReadLimit { [self] in
            if readers.isEnding { return true }
            switch client.state {
            case .there: return monotonic() &- start > milliseconds * 1_000_000
            case .silent: return monotonic() &- start > silentMilliseconds * 1_000_000
            case .gone: return true
            }
        }
    }
}
