/// The activation or deactivation of an install, with its reason.
package struct InstallEvent: Equatable, Sendable {
    /// Stores keep the raw values, so a raw value never changes.
    package enum Kind: UInt8, Sendable {
        case activated = 0
        case blocked = 1
        case deactivated = 2
        case disabled = 3
        case enabled = 4

        package var name: StaticString {
            switch self {
            case .activated: "activated"
            case .blocked: "blocked"
            case .deactivated: "deactivated"
            case .disabled: "disabled"
            case .enabled: "enabled"
            }
        }
    }

    /// Stores keep the raw values, so a raw value never changes.
    package enum Reason: UInt8, Sendable {
        case linked = 0
        case codeRedeemed = 1
        case superseded = 2
        case promoted = 3
        case reset = 4
        case byOperator = 5
        /// The limit of active installs became lower.
        case limited = 6
        /// The merge that attached the install to the user was undone.
        case unlinked = 7

        package var name: StaticString {
            switch self {
            case .linked: "linked"
            case .codeRedeemed: "code_redeemed"
            case .superseded: "superseded"
            case .promoted: "promoted"
            case .reset: "reset"
            case .byOperator: "operator"
            case .limited: "limited"
            case .unlinked: "unlinked"
            }
        }
    }

    package let kind: Kind
    package let reason: Reason
    package let install: InstallID
    package let person: PersonID
    package let device: DeviceClass
    /// The install that replaced it.
    package let by: InstallID?
    package let epoch: UInt64

    /// The body in a timeline. All its texts are names and numbers of the server, so they need no JSON escapes.
    var json: [UInt8] {
        let by = by.map { #","by":"\#($0.text)""# } ?? ""
        return Array(
            """
            {"change":"\(kind.name)","install_id":"\(install.text)","device_class":"\(device.name)",\
            "reason":"\(reason.name)","epoch":\(epoch)\(by)}
            """.utf8)
    }

    func pack(into packer: inout Packer) {
        packer.add(kind.rawValue)
        packer.add(reason.rawValue)
        packer.add(UInt64(bitPattern: install.rawValue))
        packer.add(UInt64(bitPattern: person.rawValue))
        packer.add(device.rawValue)
        packer.add(kept: by?.rawValue)
        packer.add(epoch)
    }

    init(
        kind: Kind, reason: Reason, install: InstallID, person: PersonID, device: DeviceClass, by: InstallID?,
        epoch: UInt64
    ) {
        self.kind = kind
        self.reason = reason
        self.install = install
        self.person = person
        self.device = device
        self.by = by
        self.epoch = epoch
    }

    init?(unpacking unpacker: inout Unpacker) {
        guard let kind = unpacker.byte().flatMap(Kind.init), let reason = unpacker.byte().flatMap(Reason.init),
            let install = unpacker.integer(), let person = unpacker.person(),
            let device = unpacker.byte().flatMap(DeviceClass.init), let by = unpacker.keptNumber(),
            let epoch = unpacker.integer()
        else { return nil }
        self.init(
            kind: kind, reason: reason, install: InstallID(install), person: person, device: device,
            by: by.value.map(InstallID.init(rawValue:)), epoch: epoch)
    }
}

extension ChangeEvent {
    /// The event of an install in the feed.
    init(_ event: InstallEvent) {
        let kind: Kind =
            switch event.kind {
            case .activated: .installActivated
            case .blocked: .installBlocked
            case .deactivated: .installDeactivated
            case .disabled: .installDisabled
            case .enabled: .installEnabled
            }
        var data: [Field] = [
            .init("install", .text(event.install.text)), .init("device_class", .text(event.device.name)),
            .init("reason", .text("\(event.reason.name)")), .init("epoch", .number(Int64(event.epoch))),
        ]
        if let by = event.by { data.append(.init("by", .text(by.text))) }
        self.init(kind, event.person, data)
    }
}
