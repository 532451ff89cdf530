/// The settings that a project or an app has of its own in the Claim dialect. A missing setting has the server's value.
package struct ClaimSettings: Equatable, Sendable {
    /// A setting. Stores keep the raw values, so a raw value never changes.
    package enum Field: UInt8, CaseIterable, Sendable {
        /// The color of a project in lists.
        case color = 1
        /// The bytes of attachments that a user and a project may have, as digits.
        case userQuota = 2
        case projectQuota = 3
        /// The id of an app in Apple's store.
        case appStoreID = 4
        /// The languages of an app as JSON. They replace the languages that its uploads name.
        case languages = 5
        /// The days for which a project keeps its events, metric events and steps of funnels, as digits.
        case eventDays = 6
        case metricDays = 7
        case stepDays = 8
        /// The first name of a project that was renamed. Its address is made from this name, and stays.
        case firstName = 9
    }

    /// New values; nil for a setting that the project or the app gives up.
    package typealias Edit = [Field: String?]

    private var values: [Field: String] = [:]

    package subscript(field: Field) -> String? { values[field] }

    init() {}

    init(packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        while let raw = unpacker.byte(), let value = unpacker.text() {
            if let field = Field(rawValue: raw) { values[field] = value }
        }
    }

    mutating func apply(_ edit: Edit) {
        for (field, value) in edit { values[field] = value }
    }

    var packed: [UInt8] {
        var packer = Packer()
        for (field, value) in values.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
            packer.add(field.rawValue)
            packer.add(value)
        }
        return packer.bytes
    }

    static func key(of named: Named) -> DocumentKey {
        switch named {
        case .project(let id): DocumentKey(.claimProjectSettings, of: Int64(id.rawValue))
        case .app(let id): DocumentKey(.claimAppSettings, of: id.rawValue)
        }
    }

    /// The settings of retention, and the kinds of rows of each.
    private static let retentions: [(field: Field, kinds: [RowKind])] = [
        (.eventDays, [.event, .context]), (.metricDays, [.metric]), (.stepDays, [.step]),
    ]

    /// The limits of days for which the server or a project can keep rows.
    package static let retentionDaysAllowed = 3...36_500

    /// The days for which a project keeps rows. A kind without days is kept for ever.
    ///
    /// - Parameter days: the server's days, for a project without its own.
    package func retentionDays(or days: [RowKind: Int]) -> [RowKind: Int] {
        var own = days
        for (field, kinds) in ClaimSettings.retentions {
            guard let days = values[field].flatMap({ Int($0) }), ClaimSettings.retentionDaysAllowed.contains(days)
            else { continue }
            for kind in kinds { own[kind] = days }
        }
        return own
    }

    /// The quotas of a project.
    ///
    /// - Parameter quotas: the server's quotas, for a project without its own.
    package func quotas(or quotas: AttachmentQuotas) -> AttachmentQuotas {
        var own = quotas
        own.userBytes = values[.userQuota].flatMap { Int($0) } ?? quotas.userBytes
        own.projectBytes = values[.projectQuota].flatMap { Int($0) } ?? quotas.projectBytes
        return own
    }
}

extension DocumentFacts {
    /// The settings of a project or an app.
    func claimSettings(of named: Named) -> ClaimSettings {
        document(ClaimSettings.key(of: named)).map(ClaimSettings.init(packed:)) ?? ClaimSettings()
    }
}

extension Snapshot {
    /// The settings of a project or an app.
    package func claimSettings(of named: Named) throws(StoreFault) -> ClaimSettings {
        try document(ClaimSettings.key(of: named)).map(ClaimSettings.init(packed:)) ?? ClaimSettings()
    }
}
