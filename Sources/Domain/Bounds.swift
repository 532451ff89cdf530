/// The limits of people and groups (spec/rules.md, section 1). A key inside an app is public, so a caller can add many facts.
/// The limits keep the cost of every other call small.
package struct Bounds: Equatable, Sendable {
    /// The limit of identities of one dialect that a person may hold.
    package var identitiesPerPerson = 1000
    /// The limit of identities of one device type that a person may hold.
    package var identitiesPerDeviceType = 100
    /// The limit of members of a group.
    package var membersPerGroup = 10_000
    /// The limit of identities that all members of a group hold together; nil for no limit.
    package var identitiesPerGroup: Int?

    package init() {}

    /// The values that a strategy may choose for each limit.
    package static let identitiesPerPersonRange = 1...10_000
    package static let identitiesPerDeviceTypeRange = 1...10_000
    package static let membersPerGroupRange = 2...100_000
    package static let identitiesPerGroupRange = 2...10_000_000
}

/// The thing that is at its limit. A call that finds people leaves out the rest and succeeds; a call that asks for a link or
/// a merge is refused. The names are part of the API.
package enum Full: String, CaseIterable, Sendable {
    case person = "person_full"
    case group = "group_full"
    /// A purchase that more installs or identities have proven in 30 days than is usual. The call goes on
    /// (spec/entitlements-live.md 2).
    case receipt = "shared_receipt"

    /// The kind of the note about a call that met the limit and went on.
    package var note: ActKind {
        switch self {
        case .person, .group: .leftOut
        case .receipt: .sharedReceipt
        }
    }
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

/// The room for identities that a person still has. It is counted only near a limit.
struct Room<V: DecisionFacts> {
    private let view: V
    private let person: V.Person?
    private let bounds: Bounds
    /// An upper bound of the identities that the person holds now.
    private var atMost: Int
    /// The types that the call added before the count, one byte each, and their number.
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

    /// Uses room for one identity; false if there is no room.
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

    /// Frees the room of an identity that the person no longer holds.
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
    /// Whether two groups together would be larger than the limits.
    func isFull(joining one: Group, _ other: Group, _ bounds: Bounds) -> Bool {
        if one.count + other.count > bounds.membersPerGroup { return true }
        guard let limit = bounds.identitiesPerGroup else { return false }
        let held = [one, other].reduce(0) { $0 + totals(of: $1).identities.values.reduce(0, +) }
        return held > limit
    }
}

extension ActKind {
    /// An accepted call that left out identities or merges, because a person or a group was at its limit.
    package static let leftOut = ActKind(93, "left_out", undo: .never(.noteOfServer))
    /// An accepted call that proved a purchase which is in unusually many hands.
    package static let sharedReceipt = ActKind(94, "shared_receipt", undo: .never(.noteOfServer))
}
