/// Runs calls one after the other. An identical call joins the last call that waits or runs. Each added call ends exactly
/// once. The queue lives inside a client's lock.
package final class CallQueue<Call: Equatable, Value: Sendable> {
    package typealias Completion = @Sendable (Result<Value, OnymError>) -> Void

    private struct Entry {
        let call: Call
        var completions: [Completion]
    }

    private var entries: [Entry] = []
    private var isRunning = false
    /// Makes a call; it ends by `finish`.
    package var run: (Call) -> Void = { _ in }
    private let callback: (@escaping @Sendable () -> Void) -> Void

    package init(callback: @escaping (@escaping @Sendable () -> Void) -> Void) { self.callback = callback }

    package var isEmpty: Bool { entries.isEmpty }
    /// All calls that wait or run, in order.
    package var calls: [Call] { entries.map(\.call) }

    package func add(_ call: Call, _ overlap: Configuration.Overlap, _ completion: @escaping Completion) {
        if overlap == .refuse, !entries.isEmpty {
            return callback { completion(.failure(.refused(.inProgress))) }
        }
        if let last = entries.indices.last, entries[last].call == call {
            entries[last].completions.append(completion)
            return
        }
        entries.append(Entry(call: call, completions: [completion]))
        next()
    }

    private func next() {
        guard !isRunning, let first = entries.first else { return }
        isRunning = true
        run(first.call)
    }

    /// Ends the call that runs.
    package func finish(_ result: Result<Value, OnymError>) {
        guard isRunning else { return }
        isRunning = false
        let entry = entries.removeFirst()
        for completion in entry.completions { callback { completion(result) } }
        next()
    }

    /// Ends all calls with an error.
    package func close(_ error: OnymError) {
        let ended = entries
        entries = []
        isRunning = false
        for completion in ended.flatMap(\.completions) { callback { completion(.failure(error)) } }
    }

    /// Ends some calls with an error. If the running call is among them, the next call starts.
    package func close(_ error: OnymError, where isEnded: (Call) -> Bool) {
        guard let first = entries.first else { return }
        let ended = entries.filter { isEnded($0.call) }
        entries.removeAll { isEnded($0.call) }
        for completion in ended.flatMap(\.completions) { callback { completion(.failure(error)) } }
        if isRunning, isEnded(first.call) {
            isRunning = false
            next()
        }
    }
}
