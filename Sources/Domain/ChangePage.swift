/// A stretch of what there is to tell, in the order of the journal.
package struct ChangePage: Sendable {
    package struct Change: Sendable {
        package let call: RecordedCall
        package let event: ChangeEvent

        package init(call: RecordedCall, event: ChangeEvent) {
            self.call = call
            self.event = event
        }
    }

    package let changes: [Change]
    /// Where to go on.
    package let next: JournalSequence

    /// One page looks at no more calls than this, of which few may be of the project or of the kinds.
    private static let callsLookedAt = 10_000
    private static let callsReadAtOnce = 200

    /// Reads on from a call. What one call changed is all there or not at all, so there may be more than the limit.
    package init(
        _ kinds: Set<ChangeEvent.Kind>?, in project: ProjectID, after: JournalSequence, limit: Int,
        _ snapshot: any Snapshot
    ) throws(StoreFault) {
        var (changes, next, looked): ([Change], JournalSequence, Int) = ([], after, 0)
        while changes.count < limit, looked < ChangePage.callsLookedAt {
            let calls = try snapshot.calls(after: next, limit: ChangePage.callsReadAtOnce)
            for call in calls {
                if changes.count >= limit { break }
                next = call.sequence
                looked += 1
                guard call.project == project else { continue }
                for event in call.events where kinds?.contains(event.kind) ?? true {
                    changes.append(Change(call: call, event: event))
                }
            }
            if calls.count < ChangePage.callsReadAtOnce { break }
        }
        (self.changes, self.next) = (changes, next)
    }
}
