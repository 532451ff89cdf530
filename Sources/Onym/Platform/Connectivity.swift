import Foundation

#if canImport(Network)
    import Network
#endif

/// How the device reaches the network.
public struct NetworkPath: Hashable, Sendable {
    /// Whether there is a way at all.
    public var isAvailable: Bool
    /// Whether the person wants little data to go over it: Low Data Mode.
    public var isConstrained: Bool

    /// Makes one.
    public init(isAvailable: Bool, isConstrained: Bool = false) {
        (self.isAvailable, self.isConstrained) = (isAvailable, isConstrained)
    }
}

/// Tells how the device reaches the network. On Apple's platforms, the system's own is used.
public protocol Connectivity: Sendable {
    /// Tells an observer how it is now, and of each change, on any thread. Answers what ends that.
    func observe(_ observer: @escaping @Sendable (NetworkPath) -> Void) -> @Sendable () -> Void
}

/// The platform's own connectivity.
enum PlatformConnectivity {
    /// nil where the platform does not tell.
    static var available: (any Connectivity)? {
        #if canImport(Network)
            PathConnectivity()
        #else
            nil
        #endif
    }
}

#if canImport(Network)
    private struct PathConnectivity: Connectivity {
        func observe(_ observer: @escaping @Sendable (NetworkPath) -> Void) -> @Sendable () -> Void {
            let monitor = NWPathMonitor()
            monitor.pathUpdateHandler = { path in
                observer(NetworkPath(isAvailable: path.status == .satisfied, isConstrained: path.isConstrained))
            }
            monitor.start(queue: DispatchQueue(label: "onym.path"))
            return { monitor.cancel() }
        }
    }
#endif

/// The path as it was last told.
package final class KnownPath: @unchecked Sendable {
    /// Guards `path`.
    private let lock = NSLock()
    private var path: NetworkPath?

    /// What a change of the path brings.
    struct Change {
        /// There is a way again, and there was none.
        let isBack: Bool
        /// More data may go again.
        let isFree: Bool
    }

    func set(_ new: NetworkPath) -> Change {
        lock.lock()
        defer { lock.unlock() }
        let old = path
        path = new
        return Change(
            isBack: new.isAvailable && old?.isAvailable == false,
            isFree: !new.isConstrained && old?.isConstrained == true)
    }

    /// Whether little data is to go. Nobody who has not said so wants that.
    package var isConstrained: Bool { lock.withLock { path?.isConstrained ?? false } }
}
