import Domain

/// A column of a run: a member of the rows, as numbers that searches compare. Runs keep the raw values, so a raw value never
/// changes.
enum RunColumn: UInt8, CaseIterable, Sendable {
    case person = 1
    case app = 2
    /// Whether the rows are of production or of development.
    case mode = 3
    case level = 4
    case environment = 5
    case session = 6
    case screen = 7
    case appVersion = 8
    case deviceModel = 9
    case systemVersion = 10
    case slug = 11
    case phase = 12
    case tracking = 13
    case step = 14
    case error = 15
    case duration = 16
    case issue = 17

    /// The number of a row without the member.
    static let missing: UInt64 = 0

    static let production: UInt64 = 1
    static let development: UInt64 = 2

    /// The member whose text the column has as a hash; nil for a column with other numbers.
    var member: String? {
        switch self {
        case .person, .app, .mode, .duration: nil
        case .level: "level"
        case .environment: "environment"
        case .session: "session_id"
        case .screen: "screen_name"
        case .appVersion: "app_version"
        case .deviceModel: "device_model"
        case .systemVersion: "os_version"
        case .slug: "metric_slug"
        case .phase: "phase"
        case .tracking: "tracking_id"
        case .step: "step_name"
        case .error: "error"
        case .issue: "issue_id"
        }
    }

    init?(of member: String) {
        guard let column = RunColumn.allCases.first(where: { $0.member == member }) else { return nil }
        self = column
    }

    /// The columns of the rows of a kind; nil for a kind without runs.
    static func columns(of kind: RowKind) -> [RunColumn]? {
        switch kind {
        case .event: [.person, .app, .mode, .level, .environment, .session, .screen]
        case .metric:
            [
                .person, .app, .mode, .environment, .appVersion, .deviceModel, .systemVersion, .slug, .phase, .tracking,
                .error, .duration,
            ]
        case .step: [.person, .app, .mode, .environment, .appVersion, .screen, .step]
        case .occurrence: [.person, .app, .mode, .issue]
        case .attachment, .feedback, .answer: [.person, .app, .mode]
        case .context, .accessGranted, .accessLost, .accessTransferred, .accessProperties, .attribution, .install: nil
        }
    }

    /// The number of a text. A UUID is the same in small and in capital letters.
    func number(of text: String, in project: ProjectID, _ hash: KeyedHash) -> UInt64 {
        let text = RowFilter.uuids.contains(member ?? "") ? text.lowercased() : text
        return max(1, RowHash(.member, text.utf8.span, in: project, hash: hash).rawValue)
    }

    /// The number of a duration.
    static func number(ofDuration duration: Int64) -> UInt64 { UInt64(bitPattern: duration) ^ 1 << 63 }
    static func duration(_ number: UInt64) -> Int64? {
        number == missing ? nil : Int64(bitPattern: number ^ 1 << 63)
    }
}

/// The columns of one row.
struct RunRow: Equatable, Sendable {
    let number: Int64
    let at: Int64
    /// The numbers in the order of the kind's columns.
    let values: [UInt64]

    init(number: Int64, at moment: Int64, values: [UInt64]) {
        (self.number, at, self.values) = (number, moment, values)
    }

    /// Reads a row of a kind with columns.
    init(
        _ stored: StoredRow, _ members: EventMembers, _ columns: [RunColumn], in project: ProjectID, _ hash: KeyedHash
    ) {
        number = stored.number.rawValue
        at = stored.row.at.milliseconds
        values = columns.map { column in
            switch column {
            case .person: UInt64(bitPattern: stored.person.rawValue)
            case .app: UInt64(bitPattern: members.app)
            case .mode: members.isDevelopment ? RunColumn.development : RunColumn.production
            case .duration: members.durationMilliseconds.map(RunColumn.number(ofDuration:)) ?? RunColumn.missing
            case .level, .environment, .session, .screen, .appVersion, .deviceModel, .systemVersion, .slug, .phase,
                .tracking, .step, .error, .issue:
                column.member.flatMap { members[$0] }.map { column.number(of: $0, in: project, hash) }
                    ?? RunColumn.missing
            }
        }
    }
}
