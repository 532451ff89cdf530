/// A page of the feed, in the order of the journal.
package struct ChangePage: Sendable {
    /// An event with the call that caused it.
    package struct Change: Sendable {
        package let call: RecordedCall
        package let event: ChangeEvent

        package init(call: RecordedCall, event: ChangeEvent) {
            self.call = call
            self.event = event
        }
    }

    package let changes: [Change]
    /// The call after which the next page begins.
    package let next: JournalSequence

    /// The limit of calls that one page reads. Few of them may belong to the project or have the wanted kinds.
    private static let callsLookedAt = 10_000
    private static let callsReadAtOnce = 200
    private static let callsReadAtFirst = 25
    private static let factsAtOnce = 2000

    /// Reads the feed after a call. A page never splits the changes of one call, so it may have more changes than the limit.
    package init(
        _ kinds: Set<ChangeEvent.Kind>?, in project: ProjectID, after: JournalSequence, limit: Int,
        _ snapshot: any Snapshot
    ) throws(StoreFault) {
        var (changes, next, looked): ([Change], JournalSequence, Int) = ([], after, 0)
        var size = ChangePage.callsReadAtFirst
        while changes.count < limit, looked < ChangePage.callsLookedAt {
            let calls = try snapshot.calls(after: next, limit: size)
            let isLast = calls.count < size
            // The batches of an import have thousands of facts each, and most calls have few.
            let facts = calls.reduce(0) { $0 + $1.facts.count }
            size = facts > ChangePage.factsAtOnce ? max(1, size / 8) : min(ChangePage.callsReadAtOnce, size * 2)
            for call in calls {
                if changes.count >= limit { break }
                next = call.sequence
                looked += 1
                guard call.project == project else { continue }
                for event in call.events where kinds?.contains(event.kind) ?? true {
                    changes.append(Change(call: call, event: event))
                }
            }
            if isLast { break }
        }
        (self.changes, self.next) = (changes, next)
    }
}
