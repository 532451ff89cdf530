import Threads

/// Clients that do something at the same moment, each on a thread and a connection of its own.
package struct Crowd<Result: Sendable>: Sendable {
    /// What each of them came to, in no order.
    package private(set) var results: [Result] = []
    /// What went wrong, where something did.
    package private(set) var faults: [String] = []
    private var ready = 0

    /// Has them do it. All are connected before the first one begins.
    package init<Client>(
        of count: Int, client: @escaping @Sendable () -> Client, http: @escaping @Sendable (Client) -> HTTPClient,
        _ work: @escaping @Sendable (Int, Client) throws -> Result
    ) {
        let crowd = Monitor(Crowd())
        let threads = (0..<count).map { number in
            WorkerThread(name: "client-\(number)") {
                let client = client()
                do {
                    _ = try http(client).call("GET", "/healthz")
                    crowd.change { $0.ready += 1 }
                    _ = crowd.wait(milliseconds: Patience.milliseconds) { $0.ready == count ? true : nil }
                    let result = try work(number, client)
                    crowd.withLock { $0.results.append(result) }
                } catch {
                    let fault = "client \(number): \(error)"
                    crowd.change { crowd in
                        crowd.ready += 1
                        crowd.faults.append(fault)
                    }
                }
            }
        }
        for thread in threads { thread.join() }
        self = crowd.withLock { $0 }
    }

    private init() {}
}
