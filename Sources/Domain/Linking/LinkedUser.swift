/// What the Linking dialect keeps of a person: which installs are active, and which wait.
package struct LinkedUser: Equatable, Sendable {
    /// An install that is active, or waits for one that is to go.
    package struct Live: Equatable, Sendable {
        package let install: InstallID
        /// The identity that the install's id is.
        package let name: IdentityKey
        package let device: DeviceClass
        package var isActive: Bool
        /// The operator has turned it off: as long as that lasts, it takes nobody's place.
        package var isDisabled = false
        /// The epoch that began when it became what it is.
        package var epoch: UInt64

        /// Whether it is one of those that there are so many of at most.
        var takesPlace: Bool { isActive && !isDisabled }
    }

    package let person: PersonID
    /// Grows with each change of who is active, so that an install that was away can tell.
    package private(set) var epoch: UInt64 = 0
    package private(set) var live: [Live] = []

    /// As many installs as wait; of more the first is let go.
    package static let blockedAtMost = 16

    package init(of person: PersonID) { self.person = person }

    package static func key(of person: PersonID) -> DocumentKey { DocumentKey(.linkedUser, of: person) }

    var put: Change { .documentPut(LinkedUser.key(of: person), person, packed) }

    package var active: [InstallID] { live.filter(\.takesPlace).map(\.install) }

    /// What came of an install that wanted to be active.
    struct Admitted {
        let isActive: Bool
        /// Those that are active no longer.
        let leaving: [Live]
        /// Those that wait no longer, because too many do.
        let letGo: [Live]
    }

    /// Takes an install in.
    mutating func admit(_ install: Install, _ policy: ActivationPolicy) -> Admitted {
        live.removeAll { $0.install == install.id }
        epoch += 1
        var entry = Live(
            install: install.id, name: install.name, device: install.device.deviceClass, isActive: true, epoch: epoch)
        switch policy.admit(entry.device, among: live) {
        case .active(let leaving):
            live.removeAll { leaving.contains($0) }
            live.append(entry)
            return Admitted(isActive: true, leaving: leaving, letGo: [])
        case .blocked:
            entry.isActive = false
            live.append(entry)
            return Admitted(isActive: false, leaving: [], letGo: expire())
        }
    }

    /// Lets go of those who wait, where too many do.
    private mutating func expire() -> [Live] {
        let letGo = Array(live.filter { !$0.isActive }.dropLast(LinkedUser.blockedAtMost))
        live.removeAll { letGo.contains($0) }
        return letGo
    }

    /// Has those wait who are active beyond the limit.
    mutating func trim(_ policy: ActivationPolicy) -> (waiting: [Live], letGo: [Live]) {
        let excess = policy.excess(among: live).map(\.install)
        if excess.isEmpty { return ([], []) }
        epoch += 1
        for index in live.indices where excess.contains(live[index].install) {
            live[index].isActive = false
            live[index].epoch = epoch
        }
        let letGo = expire()
        return (live.filter { excess.contains($0.install) }, letGo)
    }

    /// Turns an install off or on; false where it is not there.
    mutating func disable(_ install: InstallID, _ isDisabled: Bool) -> Bool {
        guard let index = live.firstIndex(where: { $0.install == install }) else { return false }
        live[index].isDisabled = isDisabled
        return true
    }

    /// Whether an install that waits may be active now, without anybody making way.
    func hasRoom(_ policy: ActivationPolicy) -> Bool { active.count < policy.limit }

    /// Takes an install out; false where it was not there.
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

/// Something that may have been kept as missing: not the same as something that cannot be read.
struct Kept<Value> {
    let value: Value?
}

extension Unpacker {
    mutating func bool() -> Bool? {
        switch byte() {
        case 0: false
        case 1: true
        default: nil
        }
    }

    mutating func keptInstant() -> Kept<Instant>? { kept { $0.instant() } }
    mutating func keptText() -> Kept<String>? { kept { $0.text() } }
    mutating func keptNumber() -> Kept<Int64>? { kept { $0.integer().map { Int64(bitPattern: $0) } } }

    mutating func kept<Value>(_ read: (inout Unpacker) -> Value?) -> Kept<Value>? {
        guard let isThere = bool() else { return nil }
        if !isThere { return Kept(value: nil) }
        return read(&self).map { Kept(value: $0) }
    }
}
