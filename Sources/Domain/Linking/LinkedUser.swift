/// The state of a person in the Linking dialect: its active and its waiting installs.
package struct LinkedUser: Equatable, Sendable {
    /// An install that is active or waits for a place.
    package struct Live: Equatable, Sendable {
        package let install: InstallID
        /// The identity of the install's id.
        package let name: IdentityKey
        package let device: DeviceClass
        package var isActive: Bool
        /// Whether an administrator has disabled the install. A disabled install takes no place.
        package var isDisabled = false
        /// The epoch in which the install got its present state.
        package var epoch: UInt64

        /// Whether the install counts for the limit of active installs.
        var takesPlace: Bool { isActive && !isDisabled }
    }

    package let person: PersonID
    /// A number that grows with each change of the active installs. An install can compare it after a long absence.
    package private(set) var epoch: UInt64 = 0
    package private(set) var live: [Live] = []

    /// The limit of waiting installs. Over the limit the first waiting install is deactivated.
    package static let blockedAtMost = 16

    package init(of person: PersonID) { self.person = person }

    /// The key of the document with a person's Linking state.
    package static func key(of person: PersonID) -> DocumentKey { DocumentKey(.linkedUser, of: person) }

    var put: Change { .documentPut(LinkedUser.key(of: person), person, packed) }

    package var active: [InstallID] { live.filter(\.takesPlace).map(\.install) }

    /// The result for an install that asked to be active.
    struct Admitted {
        let isActive: Bool
        /// The installs that stop being active.
        let leaving: [Live]
        /// The installs that stop waiting, because too many installs wait.
        let expired: [Live]
    }

    /// Adds an install.
    mutating func admit(_ install: Install, _ policy: ActivationPolicy) -> Admitted {
        live.removeAll { $0.install == install.id }
        epoch += 1
        var entry = Live(
            install: install.id, name: install.name, device: install.device.deviceClass, isActive: true, epoch: epoch)
        switch policy.admit(entry.device, among: live) {
        case .active(let leaving):
            live.removeAll { leaving.contains($0) }
            live.append(entry)
            return Admitted(isActive: true, leaving: leaving, expired: [])
        case .blocked:
            entry.isActive = false
            live.append(entry)
            return Admitted(isActive: false, leaving: [], expired: expire())
        }
    }

    /// Removes waiting installs over the limit.
    private mutating func expire() -> [Live] {
        let expired = Array(live.filter { !$0.isActive }.dropLast(LinkedUser.blockedAtMost))
        live.removeAll { expired.contains($0) }
        return expired
    }

    /// Makes the active installs over the limit wait.
    mutating func trim(_ policy: ActivationPolicy) -> (waiting: [Live], expired: [Live]) {
        let excess = policy.excess(among: live).map(\.install)
        if excess.isEmpty { return ([], []) }
        epoch += 1
        for index in live.indices where excess.contains(live[index].install) {
            live[index].isActive = false
            live[index].epoch = epoch
        }
        let expired = expire()
        return (live.filter { excess.contains($0.install) }, expired)
    }

    /// Disables or enables an install; false if the user has no such install.
    mutating func disable(_ install: InstallID, _ isDisabled: Bool) -> Bool {
        guard let index = live.firstIndex(where: { $0.install == install }) else { return false }
        live[index].isDisabled = isDisabled
        return true
    }

    /// Whether a waiting install can become active without replacing another install.
    func hasRoom(_ policy: ActivationPolicy) -> Bool { active.count < policy.limit }

    /// Replaces the active and the waiting installs.
    mutating func replaceLive(_ installs: [Live]) {
        live = installs
        epoch += 1
    }

    /// Removes an install; false if the user has no such install.
    mutating func remove(_ install: InstallID) -> Bool {
        guard live.contains(where: { $0.install == install }) else { return false }
        live.removeAll { $0.install == install }
        epoch += 1
        return true
    }

    package var packed: [UInt8] {
        var packer = Packer()
        packer.add(epoch)
        packer.add(UInt64(live.count))
        for install in live {
            packer.add(UInt64(bitPattern: install.install.rawValue))
            packer.add(install.name.hash.bytes)
            packer.add(install.device.rawValue)
            packer.add(install.isActive)
            packer.add(install.isDisabled)
            packer.add(install.epoch)
        }
        return packer.bytes
    }

    package init?(of person: PersonID, packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        guard let epoch = unpacker.integer(), let count = unpacker.integer() else { return nil }
        self.init(of: person)
        self.epoch = epoch
        for _ in 0..<count {
            guard let install = unpacker.integer(), let name = unpacker.bytes().flatMap({ Hash128($0.span) }),
                let device = unpacker.byte().flatMap(DeviceClass.init), let isActive = unpacker.bool(),
                let isDisabled = unpacker.bool(), let epoch = unpacker.integer()
            else { return nil }
            live.append(
                Live(
                    install: InstallID(install), name: IdentityKey(hash: name), device: device, isActive: isActive,
                    isDisabled: isDisabled, epoch: epoch))
        }
    }
}

extension Packer {
    mutating func add(_ value: Bool) { add(value ? 1 : 0 as UInt8) }

    mutating func add(kept moment: Instant?) {
        add(moment != nil)
        if let moment { add(moment) }
    }

    mutating func add(kept text: String?) {
        add(text != nil)
        if let text { add(text) }
    }

    mutating func add(kept number: Int64?) {
        add(number != nil)
        if let number { add(UInt64(bitPattern: number)) }
    }
}
