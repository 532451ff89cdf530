#if canImport(Combine)
    public import Combine
#endif
#if canImport(SwiftUI)
    public import SwiftUI
#endif

/// The state of the SDK for views, on the main actor. On Apple's platforms it is an `ObservableObject`.
///
/// A view reads ``user``, ``isLoggedIn`` and ``access`` and is drawn again after each change.
@MainActor
public final class OnymModel {
    /// The instance behind the model.
    public let onym: OnymClient
    /// The current user; nil before the server's first answer.
    public private(set) var user: User?
    /// The user's entitlements by name, as the device knows them.
    public private(set) var access: [String: Entitlement] = [:]
    /// The reason why the user is inactive on this device; nil if the user is active.
    public private(set) var deactivation: Deactivation?
    private let watching = Ending()

    #if canImport(Combine)
        /// Announces changes to views.
        public let objectWillChange = ObservableObjectPublisher()
    #else
        /// Gets each change, on platforms without Combine.
        package var willChange: () -> Void = {}
    #endif

    /// Makes a model of an instance.
    public init(_ onym: OnymClient) {
        self.onym = onym
        (user, access, deactivation) = OnymModel.state(onym)
        watching.set(
            onym.observe { [weak self] notice in
                switch notice {
                case .userChanged, .accessChanged, .deactivated, .reactivated, .unlocked:
                    Task { @MainActor in self?.refresh() }
                case .purchaseReported, .untrusted, .dropped, .held, .imported, .fileSetAside, .storageFailed: break
                }
            })
    }

    deinit { watching.end() }

    /// Whether the current user is known to the server.
    public var isLoggedIn: Bool { user?.isLoggedIn ?? false }

    /// Reads the state again. The model does so after each change by itself.
    public func refresh() {
        #if canImport(Combine)
            objectWillChange.send()
        #else
            willChange()
        #endif
        (user, access, deactivation) = OnymModel.state(onym)
    }

    private static func state(_ onym: OnymClient) -> (User?, [String: Entitlement], Deactivation?) {
        (onym.users.current, onym.access.cached ?? [:], onym.device.state?.deactivation)
    }
}

#if canImport(Combine)
    extension OnymModel: ObservableObject {}
#endif

#if canImport(SwiftUI)
    extension View {
        /// Logs that the person sees a screen, each time the view appears. The model comes from the environment.
        public func onymScreen(_ name: String) -> some View { modifier(ScreenLog(name: name)) }
    }

    /// Logs the appearance of a view.
    private struct ScreenLog: ViewModifier {
        let name: String
        @EnvironmentObject private var model: OnymModel

        func body(content: Content) -> some View {
            content.onAppear { model.onym.log(Event(name, type: "screen_view")) }
        }
    }
#endif
