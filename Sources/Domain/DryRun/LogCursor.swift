/// Reads the call log of a project beside the journal.
package struct LogCursor {
    private let project: ProjectID
    private var number: Int64 = 0
    private var isAtEnd = false
    /// The calls that are read and not yet taken.
    package var calls: ArraySlice<LoggedCall> = []
    /// The number of calls that this version cannot read.
    package private(set) var unreadable = 0

    private static let page = 16

    package init(_ project: ProjectID) { self.project = project }

    /// Reads at least all calls up to a place of the journal.
    package mutating func read(upTo place: JournalSequence, _ snapshot: any Snapshot) throws(StoreFault) {
        while !isAtEnd, calls.last.map({ $0.place <= place }) ?? true {
            let segments = try snapshot.logged(in: project, after: number, limit: LogCursor.page)
            isAtEnd = segments.count < LogCursor.page
            for stored in segments {
                let (calls, unreadable) = stored.segment.calls
                self.calls += calls
                self.unreadable += unreadable
                number = stored.number
            }
        }
    }
}
