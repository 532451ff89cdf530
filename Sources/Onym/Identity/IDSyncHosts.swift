public import Foundation

/// The addresses of the calls of the IDSync dialect, for apps that have a host for each kind of call. A call without an address
/// here goes to the configuration's endpoint.
public struct IDSyncHosts: Hashable, Sendable {
    /// The address of identity calls.
    public var identity: Address?
    /// The address of uploads of events.
    public var events: Address?
    /// The address of aliases.
    public var alias: Address?
    /// The address of identity calls after the person has allowed tracking.
    public var identityTracking: Address?
    /// The address of uploads of events after the person has allowed tracking.
    public var eventsTracking: Address?
    /// The address of aliases after the person has allowed tracking.
    public var aliasTracking: Address?

    /// Makes hosts without an address.
    public init() {}

    /// The address of one kind of call.
    public struct Address: Hashable, Sendable {
        /// The part of the address before the call's path: `https://identity.example.com`.
        public var base: URL
        /// Whether the call's path has no version in front (spec/idsync.md 1.1).
        public var omitsVersion: Bool

        /// Makes an address.
        public init(_ base: URL, omitsVersion: Bool = false) { (self.base, self.omitsVersion) = (base, omitsVersion) }
    }

    /// The kinds of calls.
    enum Kind { case identity, events, alias }

    /// The address of a kind of call.
    func address(_ kind: Kind, isTracked: Bool) -> Address? {
        switch kind {
        case .identity: isTracked ? identityTracking ?? identity : identity
        case .events: isTracked ? eventsTracking ?? events : events
        case .alias: isTracked ? aliasTracking ?? alias : alias
        }
    }
}

/// The person's answer to the system's question about tracking.
public enum TrackingStatus: String, Sendable {
    /// The app has not asked the person yet.
    case notDetermined = "not_determined"
    /// The system forbids the question.
    case restricted
    /// The person has refused.
    case denied
    /// The person has allowed tracking.
    case authorized
}
