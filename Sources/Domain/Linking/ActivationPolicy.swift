/// The rule that decides which installs of a person are active (spec/linking.md, decision 4).
package struct ActivationPolicy: Equatable, Sendable {
    /// The order in which installs get a place. Stores keep the raw values, so a raw value never changes.
    package enum Order: UInt8, Sendable {
        /// The newest install replaces an older install.
        case lastWins = 0
        /// An active install keeps its place.
        case firstWins = 1
    }

    package var order = Order.lastWins
    /// The number of active installs that one person may have.
    package var limit = 1
    /// The kinds of devices, the strongest first. A weaker device never replaces a stronger device. A kind that is not in the
    /// list counts as the first kind.
    package var devices: [DeviceClass] = [.phone, .tablet]

    package static let limits = 1...100

    package init() {}

    package init(order: Order, limit: Int = 1, devices: [DeviceClass] = [.phone, .tablet]) {
        self.order = order
        self.limit = limit
        self.devices = devices
    }

    /// The policy's name in every document.
    package var name: String {
        switch order {
        case .firstWins: "first_wins"
        case .lastWins: limit == 1 ? "last_wins" : "n_active"
        }
    }

    /// The position in the list of kinds; 0 is the strongest.
    private func rank(_ device: DeviceClass) -> Int { devices.firstIndex(of: device) ?? 0 }

    /// The result for an install that asks to be active.
    package enum Admission: Equatable, Sendable {
        /// The install becomes active, and the listed installs stop being active.
        case active(instead: [LinkedUser.Live])
        case blocked
    }

    /// Decides about an install that asks to be active, among the active installs.
    package func admit(_ device: DeviceClass, among live: [LinkedUser.Live]) -> Admission {
        let active = live.filter(\.takesPlace)
        if active.count < limit { return .active(instead: []) }
        if order == .firstWins { return .blocked }
        let leaving = weakestFirst(active).prefix(active.count - limit + 1)
        guard leaving.allSatisfy({ rank($0.device) >= rank(device) }) else { return .blocked }
        return .active(instead: Array(leaving))
    }

    /// The active installs over the limit, after a lower limit or after an operator enabled an install again.
    func excess(among live: [LinkedUser.Live]) -> [LinkedUser.Live] {
        let active = live.filter(\.takesPlace)
        if active.count <= limit { return [] }
        let leaving =
            order == .firstWins
            ? active.sorted { ($0.epoch, $0.install) > ($1.epoch, $1.install) } : weakestFirst(active)
        return Array(leaving.prefix(active.count - limit))
    }

    /// The order in which installs are replaced: the weakest first, and the oldest first among equal devices.
    private func weakestFirst(_ active: [LinkedUser.Live]) -> [LinkedUser.Live] {
        active.sorted { one, other in
            let (a, b) = (rank(one.device), rank(other.device))
            return a != b ? a > b : (one.epoch, one.install) < (other.epoch, other.install)
        }
    }
}

/// The kind of an install's device. Stores keep the raw values, so a raw value never changes.
package enum DeviceClass: UInt8, CaseIterable, Sendable {
    case phone = 0
    case tablet = 1
    case desktop = 2
    case watch = 3
    case television = 4
    case car = 5
    case other = 6

    package var name: String {
        switch self {
        case .phone: "phone"
        case .tablet: "tablet"
        case .desktop: "desktop"
        case .watch: "watch"
        case .television: "tv"
        case .car: "car"
        case .other: "other"
        }
    }

    package init?(named name: String) {
        guard let device = DeviceClass.allCases.first(where: { $0.name == name }) else { return nil }
        self = device
    }
}
