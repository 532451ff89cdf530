/// The two worlds of access: what is bought in one is not known in the other.
package enum AccessWorld: UInt8, CaseIterable, Sendable {
    case production = 0
    case sandbox = 1

    package var name: StaticString {
        switch self {
        case .production: "production"
        case .sandbox: "sandbox"
        }
    }

    /// The type of the ids that installs call themselves by.
    package var userType: IdentityType { self == .production ? .accessUserID : .sandboxUserID }
    /// The type of the names that an app knows its signed-in users by.
    package var identityType: IdentityType { self == .production ? .accessIdentity : .sandboxIdentity }
}

/// What becomes of a purchase that somebody restores who is not its owner (spec/entitlements.md, decision 5).
package enum RestoreStrategy: UInt8, CaseIterable, Sendable {
    /// Both have it.
    case copy = 0
    /// It goes over to whoever restores.
    case transfer = 1
    /// It stays where it is.
    case keepOriginal = 2
    /// It goes over, unless it is a subscription that runs.
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

/// A strategy that a call names for itself.
package struct NamedStrategy: Equatable, Sendable {
    package let strategy: RestoreStrategy
    /// Whether a server's key names it: such a key may name any.
    package let isByServer: Bool

    package init(_ strategy: RestoreStrategy, isByServer: Bool) {
        self.strategy = strategy
        self.isByServer = isByServer
    }

    /// Whether the call may name it in a project with some strategy: everybody has a client's key, so it gives away no more than
    /// the project does.
    func isAllowed(by project: RestoreStrategy) -> Bool {
        isByServer || strategy.givesNoMore(than: project)
    }
}

extension RestoreStrategy {
    /// Whether nobody gets, and nobody loses, by this strategy what the other would leave with them. Copying takes from nobody and
    /// transferring leaves one owner, so neither gives less than the other.
    fileprivate func givesNoMore(than other: RestoreStrategy) -> Bool {
        switch (self, other) {
        case (.keepOriginal, _), (.transferIfInactive, .transfer): true
        case (.copy, _), (.transfer, _), (.transferIfInactive, _): self == other
        }
    }
}

/// The restore strategies of a project, by world.
package struct RestoreStrategies: Equatable, Sendable {
    package var production = RestoreStrategy.copy
    package var sandbox = RestoreStrategy.copy

    package init() {}

    package subscript(world: AccessWorld) -> RestoreStrategy { world == .production ? production : sandbox }
}
