/// The answer of a call of the Linking dialect.
package indirect enum LinkingReply: Equatable, Sendable {
    case installMade(Session, InstallStatus)
    case codeIssued(expiresAt: Instant, CodePreview?)
    case redeemed(Session, InstallStatus, isRestored: Bool)
    case linked(PersonID)
    case refreshed(Session, InstallStatus)
    case status(InstallStatus)
    case submitted(Submitted, InstallStatus)
    /// The install; nil in old journals.
    case reset(InstallID?)
    case deleted
    case settings(LinkingSettings)
    case appMade(AppID)
    case keyMade(KeyID)
    case keyRevoked(KeyID)
    /// An answer with events of installs.
    case telling(LinkingReply, [InstallEvent])
    /// A refusal that changes facts.
    case refused(Refusal)

    /// The result of an upload of an install.
    package struct Submitted: Equatable, Sendable {
        package internal(set) var accepted = 0
        package internal(set) var repeated = 0
        /// The number of rows from times in which the install was not active.
        package internal(set) var dropped = 0
    }

    /// The person that the call found; nil if the call found no person.
    package var seen: PersonID? {
        switch self {
        case .installMade(_, let status), .redeemed(_, let status, _), .refreshed(_, let status),
            .submitted(_, let status):
            status.user
        case .linked(let person): person
        case .telling(let reply, _): reply.seen
        case .codeIssued, .status, .reset, .deleted, .settings, .appMade, .keyMade, .keyRevoked, .refused: nil
        }
    }
}

/// The values from which an install's tokens are made.
package struct Session: Equatable, Sendable {
    package let install: InstallID
    package let app: AppID
    package let family: Int64
    package let generation: UInt64
    package let thumbprint: String?
    /// The moment at which the access token expires.
    package let expiresAt: Instant

    init(_ install: Install, _ stamp: Stamp, _ settings: LinkingSettings) {
        self.install = install.id
        app = install.app
        family = install.tokens.id
        generation = install.tokens.generation
        thumbprint = install.thumbprint
        // The token itself has full seconds too.
        let end = stamp.at.milliseconds + settings.tokenSeconds * 1000
        expiresAt = Instant(milliseconds: end - end % 1000)
    }

    fileprivate init(
        install: InstallID, app: AppID, family: Int64, generation: UInt64, thumbprint: String?, expiresAt: Instant
    ) {
        self.install = install
        self.app = app
        self.family = family
        self.generation = generation
        self.thumbprint = thumbprint
        self.expiresAt = expiresAt
    }
}

/// The state of an install.
package struct InstallStatus: Equatable, Sendable {
    package let install: InstallID
    package let user: PersonID?
    package let link: Install.Link
    package let state: Install.State
    package let isDisabled: Bool
    package let isDeleted: Bool
    package let ending: Install.Ending?
    /// The epoch in which the install got its state; the user's present epoch follows.
    package let epoch: UInt64
    package let currentEpoch: UInt64
    package let policy: ActivationPolicy

    /// The status of an install that was deleted together with its user.
    init(deleted install: InstallID, _ settings: LinkingSettings) {
        self.install = install
        (user, link, state, isDisabled, isDeleted, ending) = (nil, .none, .unlinked, false, true, nil)
        (epoch, currentEpoch) = (0, 0)
        policy = settings.policy
    }

    init(_ install: Install, _ user: LinkedUser?, _ settings: LinkingSettings) {
        self.install = install.id
        self.user = install.user
        link = install.link
        state = install.state
        isDisabled = install.isDisabled
        isDeleted = false
        ending = install.ending
        epoch = install.epoch
        currentEpoch = max(install.epoch, user?.epoch ?? 0)
        policy = settings.policy
    }

    /// Whether the server accepts new rows of the install.
    package var isActive: Bool {
        !isDisabled && !isDeleted && (state == .active || state == .unlinked)
    }

    fileprivate func pack(into packer: inout Packer) {
        packer.add(UInt64(bitPattern: install.rawValue))
        packer.add(kept: user?.rawValue)
        packer.add(link.rawValue)
        packer.add(state.rawValue)
        packer.add(isDisabled)
        packer.add(isDeleted)
        packer.add(ending != nil)
        if let ending {
            packer.add(ending.reason.rawValue)
            packer.add(ending.by?.rawValue ?? 0xFF)
            packer.add(ending.at)
        }
        packer.add(epoch)
        packer.add(currentEpoch)
        packer.add(policy)
    }

    fileprivate init?(unpacking unpacker: inout Unpacker) {
        guard let install = unpacker.integer(), let user = unpacker.keptNumber(),
            let link = unpacker.byte().flatMap(Install.Link.init),
            let state = unpacker.byte().flatMap(Install.State.init), let isDisabled = unpacker.bool(),
            let isDeleted = unpacker.bool(),
            let ending = unpacker.kept({ unpacker -> Install.Ending? in
                guard let reason = unpacker.byte().flatMap(Install.Ending.Reason.init), let by = unpacker.byte(),
                    let at = unpacker.instant()
                else { return nil }
                return Install.Ending(reason: reason, by: DeviceClass(rawValue: by), at: at)
            }),
            let epoch = unpacker.integer(), let currentEpoch = unpacker.integer(), let policy = unpacker.policy()
        else { return nil }
        self.install = InstallID(install)
        self.user = user.value.map(PersonID.init(rawValue:))
        (self.link, self.state, self.isDisabled, self.isDeleted) = (link, state, isDisabled, isDeleted)
        (self.ending, self.epoch, self.currentEpoch, self.policy) = (ending.value, epoch, currentEpoch, policy)
    }
}

extension LinkingReply: Answer {
    package static let tags: [UInt8] = [ActKind.linkInstall.rawValue]

    package var orphans: Orphans { plain == .deleted ? .contentsOfPeople : .none }

    package func events(_ person: PersonID?) -> [ChangeEvent] {
        switch self {
        case .telling(_, let told): told.map { ChangeEvent($0) }
        case .appMade(let app): [ChangeEvent(.appCreated, nil, [.init("app", .id(app.rawValue))])]
        case .keyMade(let key): [ChangeEvent(.keyCreated, nil, [.init("key", .id(key.rawValue))])]
        case .keyRevoked(let key): [ChangeEvent(.keyRevoked, nil, [.init("key", .id(key.rawValue))])]
        case .installMade, .codeIssued, .redeemed, .linked, .refreshed, .status, .submitted, .reset, .deleted,
            .settings,
            .refused:
            []
        }
    }

    /// Writes the bytes from which the answer can be made again. They contain no secret.
    package func pack(into packer: inout Packer) {
        switch self {
        case .installMade(let session, let status):
            packer.add(1 as UInt8)
            session.pack(into: &packer)
            status.pack(into: &packer)
        case .codeIssued(let expiresAt, let preview):
            packer.add(2 as UInt8)
            packer.add(expiresAt)
            packer.add(preview != nil)
            preview?.pack(into: &packer)
        case .redeemed(let session, let status, let isRestored):
            packer.add(3 as UInt8)
            session.pack(into: &packer)
            status.pack(into: &packer)
            packer.add(isRestored)
        case .telling(let reply, let events):
            packer.add(15 as UInt8)
            packer.add(UInt64(events.count))
            for event in events { event.pack(into: &packer) }
            reply.pack(into: &packer)
        case .linked(let person):
            packer.add(4 as UInt8)
            packer.add(UInt64(bitPattern: person.rawValue))
        case .refreshed(let session, let status):
            packer.add(5 as UInt8)
            session.pack(into: &packer)
            status.pack(into: &packer)
        case .status(let status):
            packer.add(6 as UInt8)
            status.pack(into: &packer)
        case .submitted(let submitted, let status):
            packer.add(7 as UInt8)
            packer.add(UInt64(submitted.accepted))
            packer.add(UInt64(submitted.repeated))
            packer.add(UInt64(submitted.dropped))
            status.pack(into: &packer)
        case .reset(let install):
            packer.add(install == nil ? 8 : 16 as UInt8)
            if let install { packer.add(UInt64(bitPattern: install.rawValue)) }
        case .deleted: packer.add(9 as UInt8)
        case .settings(let settings):
            packer.add(10 as UInt8)
            packer.add(settings.packed)
        case .appMade(let app):
            packer.add(14 as UInt8)
            packer.add(UInt64(bitPattern: app.rawValue))
        case .keyMade(let key):
            packer.add(12 as UInt8)
            packer.add(UInt64(bitPattern: key.rawValue))
        case .keyRevoked(let key):
            packer.add(13 as UInt8)
            packer.add(UInt64(bitPattern: key.rawValue))
        case .refused(let fault):
            packer.add(11 as UInt8)
            packer.add(fault.code)
        }
    }

    package init?(tag: UInt8, unpacking unpacker: inout Unpacker) {
        guard let tag = unpacker.byte() else { return nil }
        switch tag {
        case 1, 3, 5:
            guard let session = Session(unpacking: &unpacker), let status = InstallStatus(unpacking: &unpacker) else {
                return nil
            }
            if tag == 1 {
                self = .installMade(session, status)
            } else if tag == 5 {
                self = .refreshed(session, status)
            } else {
                guard let isRestored = unpacker.bool() else { return nil }
                self = .redeemed(session, status, isRestored: isRestored)
            }
        case 2:
            guard let expiresAt = unpacker.instant(),
                let preview = unpacker.kept({ CodePreview(unpacking: &$0) })
            else { return nil }
            self = .codeIssued(expiresAt: expiresAt, preview.value)
        case 4:
            guard let person = unpacker.person() else { return nil }
            self = .linked(person)
        case 6:
            guard let status = InstallStatus(unpacking: &unpacker) else { return nil }
            self = .status(status)
        case 7:
            var submitted = Submitted()
            guard let accepted = unpacker.count(), let repeated = unpacker.count(), let dropped = unpacker.count(),
                let status = InstallStatus(unpacking: &unpacker)
            else { return nil }
            (submitted.accepted, submitted.repeated, submitted.dropped) = (accepted, repeated, dropped)
            self = .submitted(submitted, status)
        case 8: self = .reset(nil)
        case 16:
            guard let install = unpacker.integer() else { return nil }
            self = .reset(InstallID(install))
        case 9: self = .deleted
        case 10:
            guard let settings = unpacker.bytes().flatMap(LinkingSettings.init(packed:)) else { return nil }
            self = .settings(settings)
        case 15:
            guard let count = unpacker.integer() else { return nil }
            var events: [InstallEvent] = []
            for _ in 0..<count {
                guard let event = InstallEvent(unpacking: &unpacker) else { return nil }
                events.append(event)
            }
            guard let reply = LinkingReply(tag: LinkingReply.tags[0], unpacking: &unpacker) else { return nil }
            self = .telling(reply, events)
        case 14:
            guard let app = unpacker.integer() else { return nil }
            self = .appMade(AppID(rawValue: Int64(bitPattern: app)))
        case 12, 13:
            guard let key = unpacker.integer().map({ KeyID(rawValue: Int64(bitPattern: $0)) }) else { return nil }
            self = tag == 12 ? .keyMade(key) : .keyRevoked(key)
        case 11:
            guard unpacker.text() == Refusal.tokenReused.code else { return nil }
            self = .refused(.tokenReused)
        default: return nil
        }
    }
}

extension Session {
    fileprivate func pack(into packer: inout Packer) {
        packer.add(UInt64(bitPattern: install.rawValue))
        packer.add(UInt64(bitPattern: app.rawValue))
        packer.add(UInt64(bitPattern: family))
        packer.add(generation)
        packer.add(kept: thumbprint)
        packer.add(expiresAt)
    }

    fileprivate init?(unpacking unpacker: inout Unpacker) {
        guard let install = unpacker.integer(), let app = unpacker.integer(), let family = unpacker.integer(),
            let generation = unpacker.integer(), let thumbprint = unpacker.keptText(),
            let expiresAt = unpacker.instant()
        else { return nil }
        self.init(
            install: InstallID(install), app: AppID(rawValue: Int64(bitPattern: app)),
            family: Int64(bitPattern: family), generation: generation, thumbprint: thumbprint.value,
            expiresAt: expiresAt)
    }
}

extension CodePreview {
    fileprivate func pack(into packer: inout Packer) {
        packer.add(kept: user?.rawValue)
        packer.add(isBlocked)
        packer.add(UInt64(leaving.count))
        for leaving in leaving {
            packer.add(UInt64(bitPattern: leaving.install.rawValue))
            packer.add(leaving.lastSeen)
            packer.add(leaving.device.deviceClass.rawValue)
            packer.add(UInt64(leaving.device.fields.count))
            for (field, value) in leaving.device.fields.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
                packer.add(field.rawValue)
                packer.add(value)
            }
        }
    }

    fileprivate init?(unpacking unpacker: inout Unpacker) {
        guard let user = unpacker.keptNumber(), let isBlocked = unpacker.bool(), let count = unpacker.integer()
        else { return nil }
        self.init(user: user.value.map(PersonID.init(rawValue:)))
        self.isBlocked = isBlocked
        for _ in 0..<count {
            guard let install = unpacker.integer(), let lastSeen = unpacker.instant(),
                let deviceClass = unpacker.byte().flatMap(DeviceClass.init), let fields = unpacker.integer()
            else { return nil }
            var device = Install.Device(deviceClass)
            for _ in 0..<fields {
                guard let field = unpacker.byte().flatMap(Install.Device.Field.init), let value = unpacker.text()
                else { return nil }
                device.fields[field] = value
            }
            leaving.append(Leaving(install: InstallID(install), device: device, lastSeen: lastSeen))
        }
    }
}

extension LinkingReply {
    /// The answer without its events.
    package var plain: LinkingReply { if case .telling(let reply, _) = self { reply } else { self } }
}
