/// Reads the call log of a project beside the journal, in the order of the places.
package struct LogCursor {
    private let project: ProjectID
    private var number: Int64 = 0
    private var isAtEnd = false
    /// The calls that are read and not yet taken.
    package var calls: ArraySlice<LoggedCall> = []
    /// Calls that the log has left out because they repeat others.
    package private(set) var repeats = RepeatNote()
    /// The number of calls that this version cannot read.
    package private(set) var unreadable = 0

    private static let page = 16
    /// Servers that share a store write their calls at different times. A call comes at most so long after others of its place.
    private static let slackMilliseconds: Int64 = 10_000

    package init(_ project: ProjectID) { self.project = project }

    /// Reads at least all calls up to a place of the journal.
    package mutating func read(upTo place: JournalSequence, _ snapshot: any Snapshot) throws(StoreFault) {
        var isInOrder = true
        while !isAtEnd, !hasPassed(place) {
            let segments = try snapshot.logged(in: project, after: number, limit: LogCursor.page)
            isAtEnd = segments.count < LogCursor.page
            for stored in segments {
                let reading = stored.segment.reading
                for call in reading.calls {
                    if let last = calls.last, last.place > call.place { isInOrder = false }
                    calls.append(call)
                }
                repeats.add(reading.repeats)
                unreadable += reading.unreadable
                number = stored.number
            }
        }
        if isInOrder { return }
        // Calls of one place keep the order of the log.
        calls = ArraySlice(
            calls.enumerated().sorted { ($0.element.place, $0.offset) < ($1.element.place, $1.offset) }
                .map(\.element))
    }

    private func hasPassed(_ place: JournalSequence) -> Bool {
        guard let last = calls.last, last.place > place else { return false }
        guard let wanted = calls.last(where: { $0.place <= place })?.at ?? calls.first?.at else { return true }
        return last.writer == 0 || last.at > wanted.advanced(byMilliseconds: LogCursor.slackMilliseconds)
    }
}
