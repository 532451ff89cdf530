import ByteText
package import Domain

/// A part of a search for a project's refunds at Google Play: one page of Google's list.
package struct RefundSearch: Sendable {
    package let project: ProjectID
    /// The moment of the earliest refund; nil for all refunds that Google still lists.
    package let since: Instant?
    let begunAt: Instant
    /// The place of the page; nil for the first one.
    package fileprivate(set) var page: String?
}

/// The searches for refunds that Google tells only in a list (spec/entitlements-live.md 5.1). Google takes 30 calls in 30 seconds,
/// and 6,000 in a day, so each search has one page.
package struct RefundSearches {
    /// What is known of a project's searches.
    private struct Line {
        /// The app and the account of the searches.
        let place: String
        /// The monotonic time of the next search, in nanoseconds.
        var dueAt: UInt64 = 0
        /// The begin of the last search that came to its end.
        var doneAt: Instant?
        /// The search that has more pages.
        var open: RefundSearch?
        /// Whether the store has kept all refunds of the open search.
        var isKept = true
        var isAsking = false
    }

    private var lines: [ProjectID: Line] = [:]
    private let pause: UInt64
    /// The monotonic time of the next page of any project, in nanoseconds.
    private var nextPageAt: UInt64 = 0

    /// Google lists refunds of 30 days, by its own clock, and refuses an earlier moment.
    private static let listedMilliseconds: Int64 = 30 * 86_400_000 - 600_000
    /// A refund may come into the list after its own moment.
    private static let overlapMilliseconds: Int64 = 3_600_000
    /// With this number of searches in five minutes Google gets less than 6,000 in a day.
    private static let projectsInPause = 20
    private static let betweenPages: UInt64 = 1_000_000_000

    package init(pauseMilliseconds: Int) { pause = UInt64(pauseMilliseconds) * 1_000_000 }

    /// The project whose search is due for the longest time.
    package func due(of projects: [ProjectID], at monotonic: UInt64) -> ProjectID? {
        guard monotonic >= nextPageAt else { return nil }
        return projects.filter { project in lines[project].map { !$0.isAsking && $0.dueAt <= monotonic } ?? true }
            .min { (lines[$0]?.dueAt ?? 0, $0.rawValue) < (lines[$1]?.dueAt ?? 0, $1.rawValue) }
    }

    /// Begins or continues the search of a project.
    ///
    /// - Parameters:
    ///   - project: the project.
    ///   - count: the number of projects with searches. They may all be one app at Google, and share its limits.
    ///   - place: the app and the account of the project. Other ones than before begin anew.
    ///   - now: the moment.
    ///   - monotonic: the monotonic time.
    package mutating func begin(
        _ project: ProjectID, of count: Int, _ place: String, at now: Instant, _ monotonic: UInt64
    ) -> RefundSearch {
        var line = lines[project].flatMap { $0.place.hasSameBytes(as: place) ? $0 : nil } ?? Line(place: place)
        line.isAsking = true
        let shares = (max(1, count) + RefundSearches.projectsInPause - 1) / RefundSearches.projectsInPause
        line.dueAt = monotonic + pause * UInt64(shares)
        nextPageAt = monotonic + min(RefundSearches.betweenPages, pause)
        defer { lines[project] = line }
        if let open = line.open { return open }
        // A clock that was set back makes the last search of no use.
        let earliest = now.advanced(byMilliseconds: -RefundSearches.listedMilliseconds)
        let since = line.doneAt.flatMap { doneAt in
            let since = doneAt.advanced(byMilliseconds: -RefundSearches.overlapMilliseconds)
            return doneAt <= now && since > earliest ? since : nil
        }
        let search = RefundSearch(project: project, since: since, begunAt: now)
        (line.open, line.isKept) = (search, true)
        return search
    }

    /// Notes an answer of Google.
    package mutating func end(_ search: RefundSearch, next page: String?, at monotonic: UInt64) {
        lines[search.project]?.isAsking = false
        guard let page else {
            if lines[search.project]?.isKept == true { lines[search.project]?.doneAt = search.begunAt }
            lines[search.project]?.open = nil
            return
        }
        lines[search.project]?.open?.page = page
        lines[search.project]?.dueAt = monotonic
    }

    /// Notes that Google has not answered. The next search begins again.
    package mutating func fail(_ search: RefundSearch) {
        lines[search.project]?.isAsking = false
        lines[search.project]?.open = nil
    }

    /// Notes that the store has not kept refunds. The next search goes back as far as the first one.
    package mutating func lose(_ project: ProjectID) {
        lines[project]?.doneAt = nil
        lines[project]?.isKept = false
    }
}
