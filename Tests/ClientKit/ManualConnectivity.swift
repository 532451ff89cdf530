import Foundation
package import Onym

/// A network that is there when the test says so.
package final class ManualConnectivity: Connectivity, @unchecked Sendable {
    private let lock = NSLock()
    private var observers: [Int: @Sendable (NetworkPath) -> Void] = [:]
    private var next = 0

    package init() {}

    /// How many are told.
    package var count: Int { lock.withLock { observers.count } }

    package func observe(_ observer: @escaping @Sendable (NetworkPath) -> Void) -> @Sendable () -> Void {
        let number = lock.withLock {
            next += 1
            observers[next] = observer
            return next
        }
        return { [weak self] in _ = self.map { path in path.lock.withLock { path.observers[number] = nil } } }
    }

    package func send(_ path: NetworkPath) { for observer in lock.withLock({ observers.values }) { observer(path) } }
}
