/// A workspace over facts in dictionaries: those that a store loaded, or all of them.
package final class FactsWorkspace: Workspace {
    package private(set) var facts: Facts

    package init(_ facts: Facts) { self.facts = facts }

    package func decide(_ command: Command, _ stamp: Stamp, in project: ProjectID) throws(Refusal) -> Decision {
        try command.decide(stamp, project: project, in: facts)
    }

    package func earlier(_ claim: ReplayClaim) -> Replay? { facts.replays.earlier(claim) }

    package func apply(_ entry: JournalEntry) { facts.apply(entry) }

    package func see(_ person: PersonID, at moment: Instant) { facts.see(person, at: moment) }
}

/// A workspace in the index itself. Nothing is copied: what the batch changes is added, and shown to others when it is
/// committed.
package final class IndexWorkspace: Workspace {
    private let index: PeopleIndex
    private var replays: Replays

    /// - Parameter replays: what the store remembers of the calls that the batch may repeat.
    package init(_ index: PeopleIndex, replays: Replays) {
        self.index = index
        self.replays = replays
    }

    package func decide(_ command: Command, _ stamp: Stamp, in project: ProjectID) throws(Refusal) -> Decision {
        try command.decide(stamp, project: project, in: index.pending)
    }

    package func earlier(_ claim: ReplayClaim) -> Replay? { replays.isEmpty ? nil : replays.earlier(claim) }

    package func see(_ person: PersonID, at moment: Instant) { index.see(person, at: moment) }

    package func apply(_ entry: JournalEntry) {
        index.apply(entry)
        if let claim = entry.replay {
            replays.add(claim.key, Replay(body: claim.body, reply: entry.reply, at: entry.at))
        }
    }
}
