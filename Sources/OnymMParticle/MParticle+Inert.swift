public import Foundation
import Onym

#if canImport(UIKit) && os(iOS)
    public import UIKit
#endif
#if canImport(UserNotifications) && os(iOS)
    public import UserNotifications
#endif
#if canImport(WebKit)
    public import WebKit
#endif

// The vendor's names that do nothing here: integrations, the vendor's own surveys and advertisements, and reports of the system
// that an identity server does not need.

/// Inert: the vendor's plan of data.
public final class MPDataPlanOptions {
    /// Makes options.
    public init() {}
}

/// Inert: an integration of the app's own.
public final class MPSideloadedKit {
    /// Makes an integration.
    public init() {}
}

/// Inert: the source of an install.
public final class MPAttributionResult {
    /// Makes a result.
    public init() {}
}

/// Inert: whether the app is new on the device. The raw values are the vendor's.
public enum MPInstallationType: Int, CaseIterable, Sendable {
    /// The SDK finds it out.
    case autodetect = 0
    /// The app is new.
    case knownInstall = 1
    /// The app was updated.
    case knownUpgrade = 2
    /// Neither of both.
    case knownSameVersion = 3
}

/// Inert: the vendor's surveys. The raw values are the vendor's.
public enum MPSurveyProvider: UInt, CaseIterable, Sendable {
    /// The provider Foresee.
    case foresee = 64
}

/// Inert: the vendor's advertisements.
public final class MPRokt: Sendable {
    private let note: @Sendable (String) -> Void

    init(_ note: @escaping @Sendable (String) -> Void) { self.note = note }

    /// Inert: shows an advertisement.
    public func selectPlacements(_ identifier: String, attributes: [String: String]?) { note("rokt") }
}

extension MParticle {
    private func note(_ name: String) { core?.runtime.log.noteInert(name) }

    /// Inert: the vendor's advertisements.
    public var rokt: MPRokt { MPRokt { [weak self] in self?.note($0) } }

    /// Inert: the sources of the install; always nil.
    public func attributionInfo() -> [NSNumber: MPAttributionResult]? {
        note("attributionInfo()")
        return nil
    }

    /// Inert: whether an integration runs; always false.
    public func isKitActive(_ kitCode: NSNumber) -> Bool {
        note("isKitActive(_:)")
        return false
    }

    /// Inert: an integration; always nil.
    public func kitInstance(_ kitCode: NSNumber) -> Any? {
        note("kitInstance(_:)")
        return nil
    }

    /// Inert: waits for an integration. As with the vendor's SDK, the handler is not called while the integration does not run.
    public func kitInstance(_ kitCode: NSNumber, completionHandler: @escaping (Any?) -> Void) {
        note("kitInstance(_:completionHandler:)")
    }

    /// Inert: calls the block at once, because no integration has to start.
    public func onKitsInitialized(_ block: () -> Void) {
        note("onKitsInitialized(_:)")
        block()
    }

    /// Inert: sets attributes of an integration.
    public func setIntegrationAttributes(_ attributes: [String: String], forKit integrationId: NSNumber) {
        note("setIntegrationAttributes(_:forKit:)")
    }

    /// Inert: removes the attributes of an integration.
    public func clearIntegrationAttributes(forKit integrationId: NSNumber) {
        note("clearIntegrationAttributes(forKit:)")
    }

    /// Inert: the attributes of an integration; always nil.
    public func integrationAttributes(forKit integrationId: NSNumber) -> [AnyHashable: Any]? {
        note("integrationAttributes(forKit:)")
        return nil
    }

    /// Inert: the address of a survey; always nil.
    public func surveyURL(_ surveyProvider: MPSurveyProvider) -> String? {
        note("surveyURL(_:)")
        return nil
    }

    /// Inert: adds an extension of the vendor's SDK; always false.
    public static func registerExtension(_ extension: Any) -> Bool {
        sharedInstance().note("registerExtension(_:)")
        return false
    }

    /// Inert: logs a crash of the app.
    public func logCrash(_ message: String?, stackTrace: String?, plCrashReport: String) {
        note("logCrash(_:stackTrace:plCrashReport:)")
    }

    /// Inert: logs how long a request of the app took.
    public func logNetworkPerformance(
        _ urlString: String, httpMethod: String, startTime: TimeInterval, duration: TimeInterval, bytesSent: UInt,
        bytesReceived: UInt
    ) {
        note("logNetworkPerformance(_:httpMethod:startTime:duration:bytesSent:bytesReceived:)")
    }

    /// Inert: logs a notification.
    public func didReceiveRemoteNotification(_ userInfo: [AnyHashable: Any]) {
        note("didReceiveRemoteNotification(_:)")
    }

    /// Inert: logs that the app got no token for notifications.
    public func didFailToRegisterForRemoteNotificationsWithError(_ error: (any Error)?) {
        note("didFailToRegisterForRemoteNotificationsWithError(_:)")
    }

    /// Inert: logs the answer to a notification.
    public func handleAction(withIdentifier identifier: String?, forRemoteNotification userInfo: [AnyHashable: Any]?) {
        note("handleAction(withIdentifier:forRemoteNotification:)")
    }

    /// Inert: logs the answer to a notification, with the text of the person.
    public func handleAction(
        withIdentifier identifier: String?, forRemoteNotification userInfo: [AnyHashable: Any]?,
        withResponseInfo responseInfo: [AnyHashable: Any]
    ) {
        note("handleAction(withIdentifier:forRemoteNotification:withResponseInfo:)")
    }

    /// Inert: logs that a notification came.
    public func logNotificationReceived(withUserInfo userInfo: [AnyHashable: Any]) {
        note("logNotificationReceived(withUserInfo:)")
    }

    /// Inert: logs that the person has answered a notification.
    public func logNotificationOpened(
        withUserInfo userInfo: [AnyHashable: Any], andActionIdentifier actionIdentifier: String?
    ) {
        note("logNotificationOpened(withUserInfo:andActionIdentifier:)")
    }

    /// Inert: logs an address that the app opens.
    public func open(_ url: URL, options: [String: Any]?) { note("open(_:options:)") }

    /// Inert: logs an address that the app opens.
    public func open(_ url: URL, sourceApplication: String?, annotation: Any?) {
        note("open(_:sourceApplication:annotation:)")
    }

    #if canImport(ObjectiveC)
        /// Inert: logs an exception of the app.
        public func logException(_ exception: NSException) { note("logException(_:)") }

        /// Inert: logs an exception of the app.
        public func logException(_ exception: NSException, topmostContext: Any?) {
            note("logException(_:topmostContext:)")
        }

        /// Inert: logs an activity that the app continues.
        public func handleUserActivity(_ userActivity: NSUserActivity) { note("handleUserActivity(_:)") }

        /// Inert: logs an activity that the app continues; always false.
        public func `continue`(
            _ userActivity: NSUserActivity, restorationHandler: @escaping ([Any]?) -> Void
        ) -> Bool {
            note("continue(_:restorationHandler:)")
            return false
        }
    #endif

    #if canImport(UIKit) && os(iOS)
        /// Inert: logs an address that the app opens.
        public func handleURLContext(_ urlContext: UIOpenURLContext) { note("handleURLContext(_:)") }
    #endif

    #if canImport(UserNotifications) && os(iOS)
        /// Inert: logs that a notification came while the person used the app.
        public func userNotificationCenter(
            _ center: UNUserNotificationCenter, willPresent notification: UNNotification
        ) {
            note("userNotificationCenter(_:willPresent:)")
        }

        /// Inert: logs that the person has answered a notification.
        public func userNotificationCenter(
            _ center: UNUserNotificationCenter, didReceive response: UNNotificationResponse
        ) {
            note("userNotificationCenter(_:didReceive:)")
        }
    #endif

    #if canImport(WebKit)
        /// Inert: connects a web page with the SDK.
        public func initializeWKWebView(_ webView: WKWebView) { note("initializeWKWebView(_:)") }

        /// Inert: connects a web page with the SDK.
        public func initializeWKWebView(_ webView: WKWebView, bridgeName: String?) {
            note("initializeWKWebView(_:bridgeName:)")
        }
    #endif
}
