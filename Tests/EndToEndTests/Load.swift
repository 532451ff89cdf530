import TestKit
import Threads

/// Clients that make new people as fast as they are answered, and remember who was acknowledged.
final class Load: Sendable {
    private struct State {
        var acknowledged: [String: String] = [:]
        var refused = 0
        var isStopping = false
    }

    private let state = Monitor(State())
    private let threads: Monitor<[WorkerThread]> = Monitor([])

    /// People who were acknowledged, by customer id.
    var acknowledged: [String: String] { state.withLock { $0.acknowledged } }
    /// Calls that were answered with something else than 200.
    var refused: Int { state.withLock { $0.refused } }

    /// Starts clients; each ends when its connection does.
    init(_ store: Store, port: UInt16, clients: Int, name: String) {
        let started = (0..<clients).map { number in
            WorkerThread(name: "load-\(number)") { [self] in
                let client = HTTPClient(port: port)
                var count = 0
                while !state.withLock({ $0.isStopping }) {
                    count += 1
                    let customer = "\(name)-\(number)-\(count)"
                    let identities =
                        #"{"customerid":"\#(customer)","email":"\#(customer)@x","ios_idfv":"d-\#(customer)"}"#
                    guard let answer = try? store.identify(identities, client) else { return }
                    state.withLock { state in
                        if answer.status == 200, let mpid = answer.mpid {
                            state.acknowledged[customer] = mpid
                        } else {
                            state.refused += 1
                        }
                    }
                }
            }
        }
        threads.withLock { $0 = started }
    }

    /// Has the clients stop after the call that they are at, and waits for them.
    func stop() {
        state.withLock { $0.isStopping = true }
        for thread in threads.withLock({ $0 }) { thread.join() }
    }

    /// Waits until so many calls were acknowledged.
    func wait(for count: Int) {
        Patience.until { acknowledged.count >= count }
    }
}
