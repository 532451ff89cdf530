/// Things for one thread at a time, kept for the next user.
package final class Pool<Thing>: Sendable {
    private struct Idle: @unchecked Sendable {
        // Unchecked: a thing is here, or with the one thread that took it.
        var things: [Thing] = []
        var isClosed = false
    }

    private let idle = Monitor(Idle())

    package init() {}

    /// Lends an idle thing; nil if no thing is idle.
    package func take() -> Thing? { idle.withLock { $0.things.popLast() } }

    /// Takes a thing back.
    package func put(_ thing: Thing) {
        idle.withLock { if !$0.isClosed { $0.things.append(thing) } }
    }

    /// Frees the idle things.
    package func clear() {
        // The things are freed outside the lock.
        let things = idle.withLock { idle in
            defer { idle.things = [] }
            return idle.things
        }
        _ = things
    }

    /// Frees the idle things, and every thing that comes back later.
    package func close() {
        idle.withLock { $0.isClosed = true }
        clear()
    }
}
