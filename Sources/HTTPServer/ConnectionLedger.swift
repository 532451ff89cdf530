import EventLoop
import Threads

/// Counts the connections of all loops, in total and per address, and decides whether another connection is allowed.
final class ConnectionLedger: Sendable {
    private struct Counts {
        var total = 0
        var perAddress: [PeerAddress: Int] = [:]
    }

    private let counts = Monitor(Counts())
    private let limits: ServerLimits

    init(limits: ServerLimits) {
        self.limits = limits
    }

    var total: Int { counts.withLock { $0.total } }

    func admit(_ peer: PeerAddress) -> Bool {
        counts.withLock { counts in
            guard counts.total < limits.connections,
                counts.perAddress[peer, default: 0] < limits.connectionsPerAddress
            else { return false }
            counts.total += 1
            counts.perAddress[peer, default: 0] += 1
            return true
        }
    }

    func release(_ peer: PeerAddress) {
        counts.withLock { counts in
            counts.total -= 1
            if let count = counts.perAddress[peer] {
                counts.perAddress[peer] = count > 1 ? count - 1 : nil
            }
        }
    }
}
