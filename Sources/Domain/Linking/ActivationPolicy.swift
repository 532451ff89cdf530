/// Which installs of a person may be active (spec/linking.md, decision 4).
package struct ActivationPolicy: Equatable, Sendable {
    /// Who goes first where there is no room for all. The raw values are stored: they never change.
    package enum Order: UInt8, Sendable {
        /// The newest install takes the place of an older one.
        case lastWins = 0
        /// Whoever is there stays.
        case firstWins = 1
    }

    package var order = Order.lastWins
    /// How many installs of one person may be active at once.
    package var limit = 1
    /// Kinds of devices, the strongest first: none makes way for a weaker one. A kind that is not named counts as the first.
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

    /// 0 is the strongest.
    private func rank(_ device: DeviceClass) -> Int { devices.firstIndex(of: device) ?? 0 }

    /// What becomes of an install that wants to be active.
    package enum Admission: Equatable, Sendable {
        /// It is active; these are so no longer.
        case active(instead: [LinkedUser.Live])
        case blocked
    }

    /// Decides over an install that wants to be active, among those that are.
    package func admit(_ device: DeviceClass, among live: [LinkedUser.Live]) -> Admission {
        let active = live.filter(\.takesPlace)
        if active.count < limit { return .active(instead: []) }
        if order == .firstWins { return .blocked }
        let leaving = weakestFirst(active).prefix(active.count - limit + 1)
        guard leaving.allSatisfy({ rank($0.device) >= rank(device) }) else { return .blocked }
        return .active(instead: Array(leaving))
    }

    /// Those who are active beyond the limit, where that was lowered or somebody is back who was turned off.
    func excess(among live: [LinkedUser.Live]) -> [LinkedUser.Live] {
        let active = live.filter(\.takesPlace)
        if active.count <= limit { return [] }
        let leaving =
            order == .firstWins
            ? active.sorted { ($0.epoch, $0.install) > ($1.epoch, $1.install) } : weakestFirst(active)
        return Array(leaving.prefix(active.count - limit))
    }

    /// In the order in which they make way: the weakest, and the oldest of these first.
    private func weakestFirst(_ active: [LinkedUser.Live]) -> [LinkedUser.Live] {
        active.sorted { one, other in
            let (a, b) = (rank(one.device), rank(other.device))
            return a != b ? a > b : (one.epoch, one.install) < (other.epoch, other.install)
        }
    }
}

/// What kind of thing an install is on. The raw values are stored: they never change.
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
