import Dispatch
package import Foundation

/// A phase in the life of an app.
public enum LifeCyclePhase: Hashable, Sendable {
    /// The app goes to the background. The system may suspend it soon.
    case background
    /// The app comes back to the foreground.
    case foreground
    /// The app ends.
    case termination
    /// The person has unlocked the device for the first time since its start: files can be read now.
    case unlocked
}

/// Reports the phases of the app. On Apple's platforms, the default is the system's own report.
public protocol LifeCycle: Sendable {
    /// A receiver of phases. It calls `done` after its work for the phase, so that the system can suspend the app.
    typealias Observer = @Sendable (_ phase: LifeCyclePhase, _ done: @escaping @Sendable () -> Void) -> Void

    /// Reports each phase to an observer, on any thread. Answers a function that removes the observer.
    func observe(_ observer: @escaping Observer) -> @Sendable () -> Void
}

/// The life cycle of a system that posts notifications.
package struct NotifiedLifeCycle: LifeCycle {
    /// Keeps the app from being suspended while a body runs. The body calls its parameter at its end.
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
    /// The platform's own report; nil on platforms that do not suspend apps.
    static var available: (any LifeCycle)? {
        // The notifications by name: the system's constants belong to the main actor, and are not available in app
        // extensions.
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
        /// The system allows the activity for a while, and then asks it to end. Unsent letters are on the disk by then.
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

extension OnymClient {
    /// The platform's own report of the life cycle; nil on platforms that do not suspend apps.
    package static var platformLifeCycle: (any LifeCycle)? { PlatformLifeCycle.available }
}

/// A function that runs at most once, to end something.
package final class Ending: @unchecked Sendable {
    /// Guards the other properties.
    private let lock = NSLock()
    private var action: (@Sendable () -> Void)?

    package init() {}

    package func set(_ action: @escaping @Sendable () -> Void) { lock.withLock { self.action = action } }
    package func end() { lock.withLock { action.take() }?() }
}
