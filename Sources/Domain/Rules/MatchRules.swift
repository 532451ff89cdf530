/// The rules with which calls choose between several people, and merge people (spec/rules.md, section 1).
package struct MatchRules: Equatable, Sendable {
    /// Whether a call decides on single people or on groups, and thus whether its answer is a person or a root.
    package enum DecideOn: UInt8, CaseIterable, Sendable {
        case member
        case group
    }

    /// The treatment of a call that names identities of several groups.
    package enum MergeOnMatch: UInt8, CaseIterable, Sendable {
        case never
        case anonymousIntoKnown
        case any
    }

    /// A condition of a merge.
    package enum MergeGuard: UInt8, CaseIterable, Sendable {
        /// The group that the search found holds no device.
        case targetWithoutDevice
        /// The devices that lead to the other group have random ids.
        case deviceIsUUID4
    }

    /// The group whose root stands for all after a merge.
    package enum MergeRoot: UInt8, CaseIterable, Sendable {
        /// The group that the search found.
        case known
        /// The group whose first member was made first.
        case oldest
    }

    /// The result of a call that names only devices.
    package enum DeviceWithoutUser: UInt8, CaseIterable, Sendable {
        /// The search decides.
        case resolve
        /// The last user that logged in on the device.
        case lastKnown
        /// The known holder of the device with the oldest link.
        case firstKnown
        /// A new person, unless the previous person is an anonymous holder.
        case alwaysNew
    }

    /// The treatment of a device that several known users hold.
    package enum ContestedDevice: UInt8, CaseIterable, Sendable {
        case resolve
        /// The device has one anonymous person of its own.
        case stableAnonymous
    }

    /// The treatment of a call whose identities belong to several groups.
    package enum OnExistingUser: UInt8, CaseIterable, Sendable {
        case `switch`
        case refuse
    }

    /// Whether a known group is found only by one of its login identities.
    package var protectsKnown = true
    package var decideOn = DecideOn.member
    package var mergeOnMatch = MergeOnMatch.never
    package var mergeGuards: [MergeGuard] = []
    /// Whether a rule may merge two known users that no limit keeps apart.
    package var mergesKnownIntoKnown = false
    package var mergeRoot = MergeRoot.known
    package var deviceWithoutUser = DeviceWithoutUser.resolve
    package var contestedDevice = ContestedDevice.resolve
    package var onExistingUser = OnExistingUser.switch

    package init() {}
}

extension MatchRules {
    func pack(into packer: inout Packer) {
        packer.add(protectsKnown ? 1 : 0 as UInt8)
        packer.add(decideOn.rawValue)
        packer.add(mergeOnMatch.rawValue)
        packer.add(UInt64(mergeGuards.count))
        for condition in mergeGuards { packer.add(condition.rawValue) }
        packer.add(mergesKnownIntoKnown ? 1 : 0 as UInt8)
        packer.add(mergeRoot.rawValue)
        packer.add(deviceWithoutUser.rawValue)
        packer.add(contestedDevice.rawValue)
        packer.add(onExistingUser.rawValue)
    }

    init?(unpacking unpacker: inout Unpacker) {
        guard let protects = unpacker.flag(), let decideOn = unpacker.byte().flatMap(DecideOn.init),
            let mergeOnMatch = unpacker.byte().flatMap(MergeOnMatch.init), let count = unpacker.integer()
        else { return nil }
        for _ in 0..<count {
            guard let condition = unpacker.byte().flatMap(MergeGuard.init) else { return nil }
            mergeGuards.append(condition)
        }
        guard let merges = unpacker.flag(), let root = unpacker.byte().flatMap(MergeRoot.init),
            let device = unpacker.byte().flatMap(DeviceWithoutUser.init),
            let contested = unpacker.byte().flatMap(ContestedDevice.init),
            let existing = unpacker.byte().flatMap(OnExistingUser.init)
        else { return nil }
        (protectsKnown, self.decideOn, self.mergeOnMatch, mergesKnownIntoKnown) = (
            protects, decideOn, mergeOnMatch, merges
        )
        (mergeRoot, deviceWithoutUser, contestedDevice, onExistingUser) = (root, device, contested, existing)
    }
}
