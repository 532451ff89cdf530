/// The two worlds of access. A purchase in one world is unknown in the other world.
package enum AccessWorld: UInt8, CaseIterable, Sendable {
    case production = 0
    case sandbox = 1

    package var name: StaticString {
        switch self {
        case .production: "production"
        case .sandbox: "sandbox"
        }
    }

    /// The type of the ids of installs.
    package var userType: IdentityType { self == .production ? .accessUserID : .sandboxUserID }
    /// The type of the app's names for signed-in users.
    package var identityType: IdentityType { self == .production ? .accessIdentity : .sandboxIdentity }
}

/// The treatment of a purchase that another user restores (spec/entitlements.md, decision 5).
package enum RestoreStrategy: UInt8, CaseIterable, Sendable {
    /// Both users have the purchase.
    case copy = 0
    /// The purchase moves to the user of the restore.
    case transfer = 1
    /// The purchase stays with its owners.
    case keepOriginal = 2
    /// The purchase moves, except an active subscription.
    case transferIfInactive = 3

    package var name: StaticString {
        switch self {
        case .copy: "copy"
        case .transfer: "transfer"
        case .keepOriginal: "keep_original"
        case .transferIfInactive: "transfer_if_inactive"
        }
    }

    package init?(named name: String) {
        guard let strategy = RestoreStrategy.allCases.first(where: { "\($0.name)" == name }) else { return nil }
        self = strategy
    }
}

/// A strategy that a call names.
package struct NamedStrategy: Equatable, Sendable {
    package let strategy: RestoreStrategy
    /// Whether the call has a server's key. Such a call may name any strategy.
    package let isByServer: Bool

    package init(_ strategy: RestoreStrategy, isByServer: Bool) {
        self.strategy = strategy
        self.isByServer = isByServer
    }

    /// Whether the call may name the strategy in a project. Every user has a client's key, so a client's strategy must not
    /// give more access than the project's strategy.
    func isAllowed(by project: RestoreStrategy) -> Bool {
        isByServer || strategy.givesNoMore(than: project)
    }
}

extension RestoreStrategy {
    /// Whether this strategy gives no access and removes no access that the other strategy would not give or remove. A copy
    /// removes nothing, and a transfer leaves one owner. So neither a copy nor a transfer gives less than the other.
    fileprivate func givesNoMore(than other: RestoreStrategy) -> Bool {
        switch (self, other) {
        case (.keepOriginal, _), (.transferIfInactive, .transfer): true
        case (.copy, _), (.transfer, _), (.transferIfInactive, _): self == other
        }
    }
}

/// The restore strategies of a project, one for each world.
package struct RestoreStrategies: Equatable, Sendable {
    package var production = RestoreStrategy.copy
    package var sandbox = RestoreStrategy.copy
    /// Whether a restore of what an anonymous person bought merges that person into the person that restores.
    package var joinsAnonymous = false

    package init() {}

    package subscript(world: AccessWorld) -> RestoreStrategy { world == .production ? production : sandbox }
}
