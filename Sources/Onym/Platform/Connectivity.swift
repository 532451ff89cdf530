import Foundation

#if canImport(Network)
    import Network
#endif

/// The state of the device's network.
public struct NetworkPath: Hashable, Sendable {
    /// Whether the device has a network.
    public var isAvailable: Bool
    /// Whether the person wants the app to send little data: Low Data Mode.
    public var isConstrained: Bool

    /// Makes a path.
    public init(isAvailable: Bool, isConstrained: Bool = false) {
        (self.isAvailable, self.isConstrained) = (isAvailable, isConstrained)
    }
}

/// Reports the state of the device's network. On Apple's platforms, the default is the system's own report.
public protocol Connectivity: Sendable {
    /// Reports the present state and each change to an observer, on any thread. Answers a function that removes the observer.
    func observe(_ observer: @escaping @Sendable (NetworkPath) -> Void) -> @Sendable () -> Void
}

/// The platform's own connectivity.
enum PlatformConnectivity {
    /// The platform's own report; nil on platforms without a report.
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

/// The last reported path.
package final class KnownPath: @unchecked Sendable {
    /// Guards `path`.
    private let lock = NSLock()
    private var path: NetworkPath?

    /// The effect of a change of the path.
    struct Change {
        /// The network is back after it was gone.
        let isBack: Bool
        /// Low Data Mode is over.
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

    /// Whether the app is to send little data. Without a report, the answer is no.
    package var isConstrained: Bool { lock.withLock { path?.isConstrained ?? false } }
}
