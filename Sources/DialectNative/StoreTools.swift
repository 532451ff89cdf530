package import Domain
package import Gateway

/// The functions through which the dialect reaches the stores that confirm purchases.
package struct StoreTools: Sendable {
    package typealias Ask =
        @Sendable (Purchase, Catalog, ProjectID, Instant, Directory, @escaping @Sendable (_ fault: String?) -> Step) ->
        Step

    /// What a store has said since the server started.
    package struct State: Sendable {
        /// The store, as in the names of its options.
        package let store: String
        package let isSetUp: Bool
        /// Whether the server can ask the store about purchases by itself.
        package let isAsked: Bool
        package let answeredAt: Instant?
        package let faultAt: Instant?
        /// The reason of the last fault; nil if the store has answered since.
        package let fault: String?
        package let notifiedAt: Instant?

        package init(
            store: String, isSetUp: Bool, isAsked: Bool, answeredAt: Instant?, faultAt: Instant?, fault: String?,
            notifiedAt: Instant?
        ) {
            self.store = store
            self.isSetUp = isSetUp
            self.isAsked = isAsked
            self.answeredAt = answeredAt
            self.faultAt = faultAt
            self.fault = fault
            self.notifiedAt = notifiedAt
        }
    }

    /// Asks the store of a purchase, and continues with the reason why it has not answered.
    package let ask: Ask
    /// The sealed form of a project's secret, which the option with this name has.
    package let sealed: @Sendable (_ text: String, _ option: String, ProjectID) -> [UInt8]
    /// The mistakes in a project's options, by store.
    package let faults: @Sendable (StoreOptions, ProjectID) -> [String: String]
    /// The options that the server's settings have.
    package let serverOptions: Set<String>
    /// The public key with which an app of a project checks answers about access.
    package let accessRoot: @Sendable (ProjectID) -> String?
    /// The public key that takes its place when an operator makes it anew.
    package let nextAccessRoot: @Sendable (ProjectID) -> String
    /// The sealed forms of a project's secrets under a master key.
    package let resealed: @Sendable (StoreOptions, ProjectID, MasterKeyMark) -> [String: RotateMasterKey.Resealed]
    /// The number of a project's secrets that are sealed under a master key.
    package let sealedCount: @Sendable (StoreOptions, ProjectID, MasterKeyMark) -> Int
    package let states: @Sendable (ProjectID, Directory) -> [State]
    /// The number of due questions to stores that the last search found, and the moment since which the first is due.
    package let due: @Sendable () -> (count: Int, since: Instant?)

    package init(
        ask: @escaping Ask, sealed: @escaping @Sendable (String, String, ProjectID) -> [UInt8],
        faults: @escaping @Sendable (StoreOptions, ProjectID) -> [String: String], serverOptions: Set<String>,
        accessRoot: @escaping @Sendable (ProjectID) -> String?,
        nextAccessRoot: @escaping @Sendable (ProjectID) -> String,
        resealed: @escaping @Sendable (StoreOptions, ProjectID, MasterKeyMark) -> [String: RotateMasterKey.Resealed],
        sealedCount: @escaping @Sendable (StoreOptions, ProjectID, MasterKeyMark) -> Int,
        states: @escaping @Sendable (ProjectID, Directory) -> [State],
        due: @escaping @Sendable () -> (count: Int, since: Instant?)
    ) {
        self.ask = ask
        self.sealed = sealed
        self.faults = faults
        self.serverOptions = serverOptions
        self.accessRoot = accessRoot
        self.nextAccessRoot = nextAccessRoot
        self.resealed = resealed
        self.sealedCount = sealedCount
        self.states = states
        self.due = due
    }
}
