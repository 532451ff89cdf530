import Domain
import Engine
import HTTPServer

/// The time limits for reading.
package struct ReadTimes: Equatable, Sendable {
    /// The limit for a client that is still connected.
    package var milliseconds: UInt64 = 10_000
    /// The limit for a client that has ended its sending: the client may wait for the answer, but has mostly left.
    package var silentMilliseconds: UInt64 = 2_000
    /// The limit of all slices of a large read together. The time in which a slice waits for other reads does not count.
    package var slicedMilliseconds: UInt64 = 60_000

    package init() {}

    /// The limit of a reading that starts now: it ends after its time, after its client has left, or when the server stops.
    ///
    /// - Parameter spent: the nanoseconds that earlier slices of the same call took.
    func limit(
        _ client: ClientPresence, _ readers: Readers, _ monotonic: @escaping @Sendable () -> UInt64, spent: UInt64 = 0
    ) -> ReadLimit {
        let start = monotonic()
        return ReadLimit { [self] in
            if readers.isEnding { return true }
            let taken = monotonic() &- start
            if spent + taken > slicedMilliseconds * 1_000_000 { return true }
            switch client.state {
            case .there: return taken > milliseconds * 1_000_000
            case .silent: return taken > silentMilliseconds * 1_000_000
            case .gone: return true
            }
        }
    }
}
