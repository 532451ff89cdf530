/// How large people and groups may become (spec/rules.md, section 1): so no call costs more because of what somebody has
/// gathered with a key that is in everybody's hands.
package struct Bounds: Equatable, Sendable {
    /// How many identities of one dialect a person may hold.
    package var identitiesPerPerson = 1000
    /// How many identities of one type of device a person may hold.
    package var identitiesPerDeviceType = 100
    /// How many people may be one.
    package var membersPerGroup = 10_000
    /// How many identities all people of a group may hold together; nil for no limit of their own.
    package var identitiesPerGroup: Int?

    package init() {}

    /// What each limit may be set to.
    package static let identitiesPerPersonRange = 1...10_000
    package static let identitiesPerDeviceTypeRange = 1...10_000
    package static let membersPerGroupRange = 2...100_000
    package static let identitiesPerGroupRange = 2...10_000_000
}

/// What is as large as it may become. A call that finds people leaves out what does not fit, and is answered; a call that asks
/// for a link or a merge is refused. The names are part of the API.
package enum Full: String, CaseIterable, Sendable {
    case person = "person_full"
    case group = "group_full"
}

extension Bounds {
    func pack(into packer: inout Packer) {
        packer.add(UInt64(identitiesPerPerson))
        packer.add(UInt64(identitiesPerDeviceType))
        packer.add(UInt64(membersPerGroup))
        packer.add(UInt64(identitiesPerGroup ?? 0))
    }

    init?(unpacking unpacker: inout Unpacker) {
        guard let identities = unpacker.integer(), let devices = unpacker.integer(), let members = unpacker.integer(),
            let ofGroup = unpacker.integer()
        else { return nil }
        (identitiesPerPerson, identitiesPerDeviceType) = (Int(clamping: identities), Int(clamping: devices))
        membersPerGroup = Int(clamping: members)
        identitiesPerGroup = ofGroup == 0 ? nil : Int(clamping: ofGroup)
    }
}

/// How much room a person has for identities, counted only where a limit may be near.
struct Room<V: DecisionFacts> {
    private let view: V
    private let person: V.Person?
    private let bounds: Bounds
    /// How many identities the person holds by now, at most.
    private var atMost: Int
    /// The types that were taken before anything was counted, a byte each, and how many.
    private var taken: (types: UInt64, count: Int) = (0, 0)
    private var byDialect: [Dialect: Int]?
    private var byDevice: [IdentityType: Int] = [:]

    /// - Parameter person: nil for a person that the call makes.
    init(of person: V.Person?, _ bounds: Bounds, _ view: V) {
        self.view = view
        self.person = person
        self.bounds = bounds
        atMost = person.map { view.identityCount(of: $0) } ?? 0
    }

    /// Takes room for an identity; false where there is no room.
    mutating func take(_ type: IdentityType) -> Bool {
        let smallest = min(bounds.identitiesPerPerson, bounds.identitiesPerDeviceType)
        if byDialect == nil, atMost < smallest, taken.count < 8 {
            atMost += 1
            taken = (taken.types << 8 | UInt64(type.rawValue), taken.count + 1)
            return true
        }
        var dialects = byDialect ?? count()
        defer { byDialect = dialects }
        if dialects[type.dialect, default: 0] >= bounds.identitiesPerPerson { return false }
        if type.isDevice {
            if byDevice[type, default: 0] >= bounds.identitiesPerDeviceType { return false }
            byDevice[type, default: 0] += 1
        }
        dialects[type.dialect, default: 0] += 1
        return true
    }

    /// Gives back the room of an identity that the person no longer holds.
    mutating func give(_ type: IdentityType) {
        var dialects = byDialect ?? count()
        dialects[type.dialect, default: 0] -= 1
        if type.isDevice { byDevice[type, default: 0] -= 1 }
        byDialect = dialects
    }

    private mutating func count() -> [Dialect: Int] {
        var dialects: [Dialect: Int] = [:]
        func add(_ type: IdentityType) {
            dialects[type.dialect, default: 0] += 1
            if type.isDevice { byDevice[type, default: 0] += 1 }
        }
        if let person {
            view.forEachIdentity(of: person) { type, _ in
                add(type)
                return true
            }
        }
        for place in 0..<taken.count {
            if let type = IdentityType(rawValue: UInt8(truncatingIfNeeded: taken.types >> (8 * UInt64(place)))) {
                add(type)
            }
        }
        return dialects
    }
}

extension DecisionFacts {
    /// Whether two groups are too large to become one.
    func isFull(joining one: Group, _ other: Group, _ bounds: Bounds) -> Bool {
        if one.count + other.count > bounds.membersPerGroup { return true }
        guard let limit = bounds.identitiesPerGroup else { return false }
        let held = [one, other].reduce(0) { $0 + totals(of: $1).identities.values.reduce(0, +) }
        return held > limit
    }
}

extension ActKind {
    /// A call that was taken although a person or a group had no room for all that it named.
    package static let leftOut = ActKind(93, "left_out")
}
