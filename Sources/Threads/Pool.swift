/// Things that one thread uses at a time, kept for whoever needs one next.
package final class Pool<Thing>: Sendable {
    private struct Idle: @unchecked Sendable {
        // Unchecked: a thing is here, or with one thread that took it.
        var things: [Thing] = []
        var isClosed = false
    }

    private let idle = Monitor(Idle())

    package init() {}

    /// Lends one that is idle; nil where none is.
    package func take() -> Thing? { idle.withLock { $0.things.popLast() } }

    /// Takes one back.
    package func put(_ thing: Thing) {
        idle.withLock { if !$0.isClosed { $0.things.append(thing) } }
    }

    /// Lets go of those that are idle.
    package func clear() {
        // They end when nobody holds the lock.
        let things = idle.withLock { idle in
            defer { idle.things = [] }
            return idle.things
        }
        _ = things
    }

    /// Lets go of those that are idle, and of those that come back.
    package func close() {
        idle.withLock { $0.isClosed = true }
        clear()
    }
}
