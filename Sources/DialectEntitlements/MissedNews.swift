import Domain

/// The search for a project's notifications of Apple that came while no server ran (spec/entitlements-live.md 4.5). Apple repeats a
/// notification of production for three days, and a notification about testers never.
struct MissedNews: Sendable {
    enum State: Sendable {
        /// The store notes the begin of the search.
        case beginning
        /// The next page may be asked for from a moment of the monotonic clock on.
        case waiting(UInt64)
        case asking
        case done
    }

    let project: ProjectID
    let span: ClosedRange<Instant>
    var state = State.beginning
    /// The apps whose notifications are not read yet, first their purchases, and then those of their testers.
    private(set) var places: [(bundleID: String, isSandbox: Bool)]
    /// The place of the next page of the first app; nil for its first page.
    private(set) var page: String?

    /// The time before the end of the last server for which notifications may have been lost on their way.
    private static let overlapMilliseconds: Int64 = 3_600_000
    /// Apple's clock may differ from the server's.
    private static let slackMilliseconds: Int64 = 600_000
    /// The pause after a question without an answer.
    static let pauseNanoseconds: UInt64 = 60_000_000_000

    /// - Parameters:
    ///   - project: the project.
    ///   - since: the moment up to which a server ran.
    ///   - now: the present moment.
    ///   - bundleIDs: the project's apps.
    init(_ project: ProjectID, since: Instant, at now: Instant, _ bundleIDs: [String]) {
        self.project = project
        let earliest = now.advanced(byMilliseconds: MissedNews.slackMilliseconds - AppStoreServer.keptMilliseconds)
        let start = since.advanced(byMilliseconds: -MissedNews.overlapMilliseconds)
        span = min(max(start, earliest), now)...now
        places = bundleIDs.flatMap { [($0, false), ($0, true)] }
    }

    /// Goes on to the next page, and to the next app after the last page.
    mutating func go(on next: String?) {
        page = next
        if next == nil { places.removeFirst() }
        state = places.isEmpty ? .done : .waiting(0)
    }
}
