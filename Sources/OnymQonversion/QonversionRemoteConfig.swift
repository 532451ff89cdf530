// The vendor's names of remote settings. The server has none, so no call here ever answers such an object.

extension Qonversion {
    /// Inert: remote settings of the vendor's server.
    public final class RemoteConfig: @unchecked Sendable {
        /// The settings.
        public let payload: [AnyHashable: Any]?
        /// The experiment that the settings come from.
        public let experiment: Experiment?
        /// The source of the settings.
        public let source: RemoteConfigurationSource

        package init(_ source: RemoteConfigurationSource) { (self.source, payload, experiment) = (source, nil, nil) }
    }

    /// Inert: several remote settings of the vendor's server.
    public final class RemoteConfigList {
        /// The settings.
        public var remoteConfigs: [RemoteConfig] = []

        /// Makes an empty list.
        public init() {}

        /// The settings of a context; nil without such settings.
        public func remoteConfig(forContextKey key: String) -> RemoteConfig? {
            remoteConfigs.first { $0.source.contextKey == key }
        }

        /// The settings without a context; nil without such settings.
        public func remoteConfigForEmptyContextKey() -> RemoteConfig? {
            remoteConfigs.first { ($0.source.contextKey ?? "").isEmpty }
        }
    }

    /// Inert: the source of remote settings.
    public final class RemoteConfigurationSource: Sendable {
        /// The source's id.
        public let identifier: String
        /// The source's name.
        public let name: String
        /// The kind of source.
        public let type: RemoteConfigurationSourceType
        /// The way in which the user got the settings.
        public let assignmentType: RemoteConfigurationAssignmentType
        /// The context; nil for settings without a context.
        public let contextKey: String?

        package init(contextKey: String?) {
            (identifier, name, self.contextKey) = ("", "", contextKey)
            (type, assignmentType) = (.unknown, .unknown)
        }
    }

    /// Inert: the kinds of sources of remote settings. The raw values are the vendor's.
    public enum RemoteConfigurationSourceType: Int, CaseIterable, Sendable {
        /// The kind is unknown.
        case unknown = -1
        /// The users of an experiment who see no change.
        case experimentControlGroup = 0
        /// The users of an experiment who see a change.
        case experimentTreatmentGroup = 1
        /// A configuration.
        case remoteConfiguration = 2
    }

    /// Inert: the ways in which a user gets remote settings. The raw values are the vendor's.
    public enum RemoteConfigurationAssignmentType: Int, CaseIterable, Sendable {
        /// The way is unknown.
        case unknown = -1
        /// The vendor's server has decided.
        case auto = 0
        /// A call has attached the user.
        case manual = 1
    }

    /// Inert: an experiment of the vendor's server.
    public final class Experiment: Sendable {
        /// The experiment's id.
        public let identifier: String
        /// The experiment's name.
        public let name: String
        /// The user's group.
        public let group: ExperimentGroup

        private init(_ group: ExperimentGroup) { (identifier, name, self.group) = ("", "", group) }
    }

    /// Inert: a group of users of an experiment.
    public final class ExperimentGroup: Sendable {
        /// The group's name.
        public let name: String
        /// The kind of group.
        public let type: ExperimentGroupType

        private init() { (name, type) = ("", .unknown) }
    }

    /// Inert: the kinds of groups of an experiment. The raw values are the vendor's.
    public enum ExperimentGroupType: Int, CaseIterable, Sendable {
        /// The kind is unknown.
        case unknown = -1
        /// The users who see no change.
        case control = 0
        /// The users who see a change.
        case treatment = 1
    }

    /// Inert: the ends of a link that gives access to a purchase on the web. The raw values are the vendor's.
    public enum RedemptionResult: Int, CaseIterable, Sendable {
        /// The user has the purchase.
        case success = 0
        /// The link has expired.
        case tokenExpired = 1
        /// The link was used before.
        case alreadyConsumed = 2
        /// The link is not known.
        case invalidToken = 3
        /// No answer came.
        case networkError = 4
        /// The app may try again later.
        case retryable = 5
    }
}
