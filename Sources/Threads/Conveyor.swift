/// Things that one thread makes and another one takes, in order. The maker waits while many of them wait.
package final class Conveyor<Thing: Sendable>: Sendable {
    private struct State {
        var things: [Thing] = []
        var isClosed = false
    }

    private let state = Monitor(State())
    private let limit: Int

    package init(limit: Int) { self.limit = limit }

    /// Passes a thing on; answers false after the end.
    package func put(_ thing: Thing) -> Bool {
        _ = state.wait { $0.isClosed || $0.things.count < limit ? true : nil }
        return state.change { state in
            if !state.isClosed { state.things.append(thing) }
            return !state.isClosed
        }
    }

    /// Waits for the next thing; nil at the end.
    package func take() -> Thing? {
        _ = state.wait { $0.isClosed || !$0.things.isEmpty ? true : nil }
        return state.change { $0.things.isEmpty ? nil : $0.things.removeFirst() }
    }

    /// Ends both sides. What waits can still be taken.
    package func close() { state.change { $0.isClosed = true } }
}
