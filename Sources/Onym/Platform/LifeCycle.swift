import Dispatch
package import Foundation

/// What becomes of an app, as its user sees it.
public enum LifeCyclePhase: Hashable, Sendable {
    /// It goes out of sight, and is suspended before long.
    case background
    /// It comes back.
    case foreground
    /// It ends.
    case termination
    /// Somebody has unlocked the device for the first time since its start: files can be read now.
    case unlocked
}

/// Tells when the app goes out of sight, and when it comes back. On Apple's platforms, the system's own is used.
public protocol LifeCycle: Sendable {
    /// Who is told of a phase, and calls back once all is done that has to be before the app is suspended.
    typealias Observer = @Sendable (_ phase: LifeCyclePhase, _ done: @escaping @Sendable () -> Void) -> Void

    /// Tells an observer of each phase, on any thread. Answers what ends that.
    func observe(_ observer: @escaping Observer) -> @Sendable () -> Void
}

/// The life cycle that an app's system posts notifications of.
package struct NotifiedLifeCycle: LifeCycle {
    /// Keeps the app from being suspended while a body runs that says when it is done.
    package typealias Awake = @Sendable (_ body: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void) -> Void

    private let center: Handover<NotificationCenter>
    private let phases: [Notification.Name: LifeCyclePhase]
    private let awake: Awake

    package init(
        _ phases: [Notification.Name: LifeCyclePhase], center: NotificationCenter = .default, awake: @escaping Awake
    ) {
        (self.center, self.phases, self.awake) = (Handover(center), phases, awake)
    }

    package func observe(_ observer: @escaping Observer) -> @Sendable () -> Void {
        let (awake, center) = (awake, center)
        let tokens = Handover(
            phases.map { name, phase in
                center.value.addObserver(forName: name, object: nil, queue: nil) { _ in
                    switch phase {
                    case .background: awake { done in observer(phase, done) }
                    case .foreground, .termination, .unlocked: observer(phase) {}
                    }
                }
            })
        return { for token in tokens.value { center.value.removeObserver(token) } }
    }
}

/// The platform's own life cycle.
enum PlatformLifeCycle {
    /// nil where apps are not suspended.
    static var available: (any LifeCycle)? {
        // The notifications by their names: their constants belong to the main actor, and to no app extension.
        #if canImport(WatchKit) && os(watchOS)
            NotifiedLifeCycle(
                [
                    Notification.Name("WKApplicationDidEnterBackgroundNotification"): .background,
                    Notification.Name("WKApplicationWillEnterForegroundNotification"): .foreground,
                ], awake: PlatformLifeCycle.awake)
        #elseif canImport(UIKit)
            NotifiedLifeCycle(
                [
                    Notification.Name("UIApplicationDidEnterBackgroundNotification"): .background,
                    Notification.Name("UIApplicationWillEnterForegroundNotification"): .foreground,
                    Notification.Name("UIApplicationWillTerminateNotification"): .termination,
                    Notification.Name("UIApplicationProtectedDataDidBecomeAvailable"): .unlocked,
                ], awake: PlatformLifeCycle.awake)
        #elseif canImport(AppKit)
            NotifiedLifeCycle(
                [Notification.Name("NSApplicationWillTerminateNotification"): .termination], awake: { body in body {} })
        #else
            nil
        #endif
    }

    #if canImport(UIKit) || os(watchOS)
        /// The system lets the activity go on for a while, and then says that it has to end: what is not sent by then is on the
        /// disk.
        private static let awake: NotifiedLifeCycle.Awake = { body in
            let end = DispatchSemaphore(value: 0)
            ProcessInfo.processInfo.performExpiringActivity(withReason: "onym") { hasExpired in
                if hasExpired {
                    end.signal()
                } else {
                    body { end.signal() }
                    end.wait()
                }
            }
        }
    #endif
}

/// Something that is ended once.
package final class Ending: @unchecked Sendable {
    /// Guards the rest.
    private let lock = NSLock()
    private var action: (@Sendable () -> Void)?

    package init() {}

    package func set(_ action: @escaping @Sendable () -> Void) { lock.withLock { self.action = action } }
    package func end() { lock.withLock { action.take() }?() }
}
