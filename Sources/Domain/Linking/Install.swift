/// The state of an install in the Linking dialect (spec/linking.md 3.4).
package struct Install: Equatable, Sendable {
    /// The way in which an install got its user. Stores keep the raw values, so a raw value never changes.
    package enum Link: UInt8, Sendable {
        case none = 0
        /// The install's user has no external id and no other install.
        case hard = 1
        /// The install's user has an external id.
        case external = 2
    }

    /// Stores keep the raw values, so a raw value never changes.
    package enum State: UInt8, Sendable {
        case unlinked = 0
        case active = 1
        /// The install waits, because another install has its place.
        case blocked = 2
        /// Another install has replaced this install for good.
        case deactivated = 3
        /// The install has removed its user for good.
        case reset = 4

        package var name: StaticString {
            switch self {
            case .unlinked: "unlinked"
            case .active: "active"
            case .blocked: "blocked"
            case .deactivated: "deactivated"
            case .reset: "reset"
            }
        }
    }

    /// The reason why an install is not active, and the install that replaced it. Stores keep the raw values of the reasons.
    package struct Ending: Equatable, Sendable {
        /// The reason why the install is not active.
        package enum Reason: UInt8, Sendable {
            case superseded = 0
            /// An install with a better claim is active.
            case blocked = 1
            case reset = 2

            package var name: StaticString {
                switch self {
                case .superseded: "superseded"
                case .blocked: "blocked"
                case .reset: "reset"
                }
            }
        }

        package let reason: Reason
        /// The kind of device of the install that is active instead.
        package let by: DeviceClass?
        package let at: Instant
    }

    /// A span of time in which the install was not active. Rows from this time are dropped.
    package struct Silence: Equatable, Sendable {
        package let since: Instant
        package var until: Instant?

        func contains(_ moment: Instant) -> Bool { moment > since && until.map { moment < $0 } ?? true }
    }

    package let id: InstallID
    /// The identity of the install's id. Its hash is the key of the install's documents, so an erasure of the holder removes
    /// them.
    package let name: IdentityKey
    package let app: AppID
    /// The person of the install's rows: a person that was made with the install, or the user of its code.
    package let person: PersonID
    package internal(set) var user: PersonID?
    package internal(set) var link = Link.none
    /// The external id by which the install was linked.
    package internal(set) var externalKey: IdentityKey?
    package internal(set) var state = State.unlinked
    /// Whether an operator has disabled the install.
    package internal(set) var isDisabled = false
    package let madeAt: Instant
    package internal(set) var lastSeen: Instant
    package let device: Device
    /// The thumbprint of the install's own key; nil for an install without a key.
    package let thumbprint: String?
    /// The user's epoch in which the install last became active or began to wait.
    package internal(set) var epoch: UInt64 = 0
    package internal(set) var ending: Ending?
    /// The times in which the install was not active. The last time may still continue.
    package private(set) var silences: [Silence] = []
    package internal(set) var tokens: TokenFamily

    /// The fields of the device and the app that an install sends.
    package struct Device: Equatable, Sendable {
        /// Stores keep the raw values, so a raw value never changes.
        package enum Field: UInt8, CaseIterable, Sendable {
            case os = 1
            case osVersion = 2
            case model = 3
            case locale = 4
            case sdkName = 5
            case sdkVersion = 6
        }

        package var deviceClass: DeviceClass
        package var fields: [Field: String]

        package init(_ deviceClass: DeviceClass = .phone, fields: [Field: String] = [:]) {
            self.deviceClass = deviceClass
            self.fields = fields
        }
    }

    init(
        _ id: InstallID, _ name: IdentityKey, app: AppID, person: PersonID, _ device: Device, thumbprint: String?,
        at moment: Instant
    ) {
        self.id = id
        self.name = name
        self.app = app
        self.person = person
        self.device = device
        self.thumbprint = thumbprint
        madeAt = moment
        lastSeen = moment
        tokens = TokenFamily(id: id.rawValue)
    }

    /// The key of the document with an install.
    package static func key(of name: IdentityKey) -> DocumentKey { DocumentKey(.install, hash: name.hash) }

    /// The limit of separate silences.
    static let silencesAtMost = 8

    var isSilent: Bool { silences.last.map { $0.until == nil } ?? false }

    /// Begins a silence: later rows are dropped.
    mutating func fallSilent(at moment: Instant) {
        if isSilent { return }
        silences.append(Silence(since: moment))
        // Over the limit, the first two silences become one, so that no silence is lost.
        guard silences.count > Install.silencesAtMost else { return }
        let first = silences.removeFirst()
        silences[0] = Silence(since: first.since, until: silences[0].until)
    }

    /// Ends a silence: later rows are accepted.
    mutating func speak(at moment: Instant) {
        if isSilent { silences[silences.count - 1].until = moment }
    }

    /// Whether the silence has lasted so long that all rows are refused.
    func isTooLate(at moment: Instant, graceSeconds: Int64) -> Bool {
        guard isSilent, let since = silences.last?.since else { return false }
        return moment >= since.advanced(byMilliseconds: graceSeconds * 1000)
    }

    /// Removes the user of the install for good.
    mutating func reset(at moment: Instant) {
        state = .reset
        tokens.isRevoked = true
        ending = Ending(reason: .reset, by: nil, at: moment)
    }

    var put: Change { .documentPut(Install.key(of: name), person, packed) }

    package var packed: [UInt8] {
        var packer = Packer()
        packer.add(UInt64(bitPattern: app.rawValue))
        packer.add(UInt64(bitPattern: person.rawValue))
        packer.add(kept: user?.rawValue)
        packer.add(link.rawValue)
        packer.add(externalKey != nil)
        if let externalKey { packer.add(externalKey.hash.bytes) }
        packer.add(state.rawValue)
        packer.add(isDisabled)
        packer.add(madeAt)
        packer.add(lastSeen)
        packer.add(kept: thumbprint)
        packer.add(epoch)
        packer.add(ending != nil)
        if let ending {
            packer.add(ending.reason.rawValue)
            packer.add(ending.by?.rawValue ?? 0xFF)
            packer.add(ending.at)
        }
        packer.add(UInt64(silences.count))
        for silence in silences {
            packer.add(silence.since)
            packer.add(kept: silence.until)
        }
        packer.add(UInt64(bitPattern: tokens.id))
        packer.add(tokens.generation)
        packer.add(tokens.isRevoked)
        packer.add(device.deviceClass.rawValue)
        for (field, value) in device.fields.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
            packer.add(field.rawValue)
            packer.add(value)
        }
        return packer.bytes
    }

    package init?(_ id: InstallID, _ name: IdentityKey, packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        guard let app = unpacker.integer(), let person = unpacker.person(), let user = unpacker.keptNumber(),
            let link = unpacker.byte().flatMap(Link.init),
            let externalKey = unpacker.kept({ $0.bytes().flatMap { Hash128($0.span) }.map(IdentityKey.init) }),
            let state = unpacker.byte().flatMap(State.init),
            let isDisabled = unpacker.bool(), let madeAt = unpacker.instant(), let lastSeen = unpacker.instant(),
            let thumbprint = unpacker.keptText(), let epoch = unpacker.integer(),
            let ending = unpacker.kept({ unpacker -> Ending? in
                guard let reason = unpacker.byte().flatMap(Ending.Reason.init), let by = unpacker.byte(),
                    let at = unpacker.instant()
                else { return nil }
                return Ending(reason: reason, by: DeviceClass(rawValue: by), at: at)
            }),
            let silences = Install.silences(&unpacker),
            let family = unpacker.integer(), let generation = unpacker.integer(), let isRevoked = unpacker.bool(),
            let deviceClass = unpacker.byte().flatMap(DeviceClass.init)
        else { return nil }
        var device = Device(deviceClass)
        while !unpacker.isAtEnd {
            guard let field = unpacker.byte().flatMap(Device.Field.init), let value = unpacker.text() else {
                return nil
            }
            device.fields[field] = value
        }
        self.init(
            id, name, app: AppID(rawValue: Int64(bitPattern: app)), person: person, device,
            thumbprint: thumbprint.value,
            at: madeAt)
        (self.user, self.link, self.state) = (user.value.map(PersonID.init(rawValue:)), link, state)
        (self.isDisabled, self.lastSeen, self.epoch, self.ending) = (isDisabled, lastSeen, epoch, ending.value)
        self.externalKey = externalKey.value
        self.silences = silences
        tokens = TokenFamily(
            id: Int64(bitPattern: family), generation: generation, isRevoked: isRevoked)
    }

    private static func silences(_ unpacker: inout Unpacker) -> [Silence]? {
        guard let count = unpacker.integer(), count <= silencesAtMost else { return nil }
        var silences: [Silence] = []
        for _ in 0..<count {
            guard let since = unpacker.instant(), let until = unpacker.keptInstant() else { return nil }
            silences.append(Silence(since: since, until: until.value))
        }
        return silences
    }
}

/// The tokens of an install in their order (RFC 9700 2.2.2).
///
/// A refresh token is made from the family and a number. So only the last number is stored.
package struct TokenFamily: Equatable, Sendable {
    package let id: Int64
    /// The number of the newest token.
    package internal(set) var generation: UInt64 = 0
    package internal(set) var isRevoked = false

    init(id: Int64, generation: UInt64 = 0, isRevoked: Bool = false) {
        self.id = id
        self.generation = generation
        self.isRevoked = isRevoked
    }

    /// The result of a refresh token.
    enum Turn: Equatable {
        /// The next token is due.
        case next
        /// The answer with the newest token was probably lost. The install gets it again.
        case again
        /// A call used an old token again, so another device has the token.
        case reused
        /// The server has not given out this token.
        case unknown
    }

    func turn(_ generation: UInt64) -> Turn {
        if generation > self.generation { return .unknown }
        return switch self.generation - generation {
        case 0: .next
        case 1: .again
        default: .reused
        }
    }
}
