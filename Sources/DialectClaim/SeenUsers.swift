import Domain
import Gateway
import HTTPMessage

/// The users that were last seen before a moment, the last first, for lists in this order. Each call that notes the sighting of a user
/// is in the journal, so the list reads the journal backwards and needs no index of its own (docs/decisions/0070).
struct SeenUsers: Sendable {
    private let filter: UserReads.Filter
    private(set) var page: UserReads.UserPage
    /// The calls that are not read yet, in parts in which moments grow: the last part is read first, backwards. Nil before the first
    /// reading.
    private var parts: [Range<Int64>]?
    /// The groups whose users the page has taken.
    private var seen: Set<PersonID> = []
    private var lookedAt = 0

    /// The result of a reading.
    enum Progress {
        case complete
        case unfinished
        /// The wanted users are too far apart in the journal. A search of all users is faster.
        case tooFar
    }

    /// The calls and the users that a list may look at.
    static let most = 4000
    private static let callsAtOnce = 100
    private static let inOneReading = 500
    /// A user with more ids is left to a search of all users.
    private static let membersAtMost = 1000
    /// A sighting may be this much older than its call: it is kept to the minute, and servers may have different clocks.
    private static let laterMilliseconds: Int64 = 180_000

    init(_ filter: UserReads.Filter) { (self.filter, page) = (filter, UserReads.UserPage(filter)) }

    /// The step of a call that answers with the page.
    ///
    /// - Parameter search: the step that searches all users.
    func step(orElse search: Step, _ answer: @escaping @Sendable (UserReads.UserPage) -> Response) -> Step {
        .read { snapshot throws(StoreFault) in
            var list = self
            switch try list.goOn(snapshot) {
            case .complete: return .answer(answer(list.page))
            case .unfinished: return list.step(orElse: search, answer).later
            case .tooFar: return search.later
            }
        }
    }

    /// Reads further calls.
    mutating func goOn(_ snapshot: any Snapshot) throws(StoreFault) -> Progress {
        var parts = if let known = self.parts { known } else { try start(snapshot) }
        defer { self.parts = parts }
        var rest = SeenUsers.inOneReading
        while rest > 0 {
            guard let part = parts.popLast() else { return .complete }
            if part.isEmpty { continue }
            if lookedAt >= SeenUsers.most { return .tooFar }
            let first = max(part.upperBound - Int64(SeenUsers.callsAtOnce), part.lowerBound)
            let calls = try snapshot.calls(
                after: JournalSequence(rawValue: first - 1), limit: Int(part.upperBound - first)
            ).filter { $0.sequence.rawValue < part.upperBound && $0.project == filter.project }
            lookedAt += Int(part.upperBound - first)
            rest -= Int(part.upperBound - first)
            switch try take(calls, &rest, snapshot) {
            case .complete: break
            case .unfinished: parts.append(part.lowerBound..<first)
            case .tooFar: return .tooFar
            }
        }
        return .unfinished
    }

    /// Takes the users that calls have noted, the last call first. The result is complete if the earlier calls of the same part of the
    /// journal noted no user of the page.
    private mutating func take(
        _ calls: [RecordedCall], _ rest: inout Int, _ snapshot: any Snapshot
    ) throws(StoreFault) -> Progress {
        for call in calls.reversed() {
            if isComplete(at: call.at) { return .complete }
            for person in SeenUsers.people(of: call) {
                let group = snapshot.group(of: person)
                guard seen.insert(group.root).inserted else { continue }
                guard group.count <= SeenUsers.membersAtMost else { return .tooFar }
                lookedAt += 1
                rest -= 1
                try take(group, snapshot)
            }
        }
        return .unfinished
    }

    /// Whether no user whose last sighting an earlier call noted belongs on the page.
    private func isComplete(at moment: Instant) -> Bool {
        if let since = filter.since, moment < since { return true }
        return page.hasMore && page.users.last.map { moment < filter.moment($0) } ?? false
    }

    /// The people whose sightings a call noted.
    private static func people(of call: RecordedCall) -> [PersonID] {
        call.facts.compactMap { fact in
            switch fact {
            case .documentPut(let person, .appUser), .personMade(let person): person
            case .documentPut, .unlinked, .linked, .merged, .mergeUndone, .personErased, .rowsAdded: nil
            }
        }
    }

    /// Takes the users of a group.
    private mutating func take(_ group: Group, _ snapshot: any Snapshot) throws(StoreFault) {
        for member in group.members where snapshot.person(member, in: filter.project) != nil {
            guard let identity = UserReads.shownID(among: try snapshot.identities(of: member)) else { continue }
            let link = (link: Int64(0), person: member, type: identity.type, value: identity.value)
            if let user = try UserReads.user(link, snapshot), filter.includes(user) { page.take(user) }
        }
    }

    /// The parts of the journal with the sightings of the list.
    private func start(_ snapshot: any Snapshot) throws(StoreFault) -> [Range<Int64>] {
        let parts = try snapshot.growingParts()
        guard let end = [filter.before?.at, filter.until].compactMap(\.self).min() else { return parts.map(\.numbers) }
        // A call of an import notes sightings from long before the call.
        if try snapshot.document(Import.listKey(filter.project)) != nil { return parts.map(\.numbers) }
        let latest = end.advanced(byMilliseconds: SeenUsers.laterMilliseconds)
        return try parts.map { part throws(StoreFault) in
            part.numbers.lowerBound..<(try snapshot.end(in: part) { $0 <= latest })
        }
    }
}
