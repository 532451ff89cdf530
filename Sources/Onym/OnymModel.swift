#if canImport(Combine)
    public import Combine
#endif
#if canImport(Observation)
    public import Observation
#endif
#if canImport(SwiftUI)
    public import SwiftUI
#endif

/// The state of the SDK for views, on the main actor.
///
/// A view reads ``user``, ``isLoggedIn``, ``access`` and ``deactivation``, and is drawn again after a change. On Apple's platforms
/// the model is an `ObservableObject`. Where the Observation framework exists (from iOS 17 on, and on Linux), the model is
/// `Observable` too: a view is then drawn again only after a change of a property that it has read.
@MainActor
public final class OnymModel {
    /// The instance behind the model.
    public let onym: OnymClient
    private var state: State
    private let watching = Ending()

    /// The values that views see.
    private struct State {
        var user: User?
        var access: [String: Entitlement]
        var deactivation: Deactivation?

        init(_ onym: OnymClient) {
            (user, access) = (onym.users.current, onym.access.cached ?? [:])
            deactivation = onym.device.state?.deactivation
        }
    }

    #if canImport(Combine)
        /// Announces changes to views. The protocol reads the publisher on any thread, and nothing ever replaces it.
        nonisolated(unsafe) public let objectWillChange = ObservableObjectPublisher()
    #endif
    #if canImport(Observation)
        /// The `ObservationRegistrar`, on systems that have one. A stored property cannot have the type, because the SDK also
        /// runs on older systems.
        private let registrar: (any Sendable)?
    #endif

    /// Makes a model of an instance.
    public init(_ onym: OnymClient) {
        self.onym = onym
        state = State(onym)
        #if canImport(Observation)
            if #available(macOS 14, iOS 17, tvOS 17, watchOS 10, *) {
                registrar = ObservationRegistrar()
            } else {
                registrar = nil
            }
        #endif
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

    /// The current user; nil before the server's first answer.
    public var user: User? {
        noteRead(\.user)
        return state.user
    }

    /// The user's entitlements by name, as the device knows them.
    public var access: [String: Entitlement] {
        noteRead(\.access)
        return state.access
    }

    /// The reason why the user is inactive on this device; nil if the user is active.
    public var deactivation: Deactivation? {
        noteRead(\.deactivation)
        return state.deactivation
    }

    /// Whether the current user is known to the server.
    public var isLoggedIn: Bool { user?.isLoggedIn ?? false }

    /// Reads the state again. The model does so after each change by itself.
    public func refresh() {
        let new = State(onym)
        #if canImport(Combine)
            objectWillChange.send()
        #endif
        if new.user != state.user { change(\.user) { state.user = new.user } }
        if new.access != state.access { change(\.access) { state.access = new.access } }
        if new.deactivation != state.deactivation {
            change(\.deactivation) { state.deactivation = new.deactivation }
        }
    }

    /// Tells the Observation framework that a view reads a property.
    private func noteRead<Value>(_ property: KeyPath<OnymModel, Value>) {
        #if canImport(Observation)
            if #available(macOS 14, iOS 17, tvOS 17, watchOS 10, *) {
                (registrar as? ObservationRegistrar)?.access(self, keyPath: property)
            }
        #endif
    }

    /// Changes a property, and tells the Observation framework.
    private func change<Value>(_ property: KeyPath<OnymModel, Value>, _ body: () -> Void) {
        #if canImport(Observation)
            if #available(macOS 14, iOS 17, tvOS 17, watchOS 10, *), let registrar = registrar as? ObservationRegistrar
            {
                return registrar.withMutation(of: self, keyPath: property, body)
            }
        #endif
        body()
    }
}

#if canImport(Combine)
    extension OnymModel: ObservableObject {}
#endif

#if canImport(Observation)
    @available(macOS 14, iOS 17, tvOS 17, watchOS 10, *)
    extension OnymModel: Observable {}
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
