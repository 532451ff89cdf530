/// A workspace in which everything is decided over one view of the facts.
package protocol ViewWorkspace: Workspace {
    associatedtype Seen: View
    var view: Seen { get }
}

extension ViewWorkspace {
    package func decide(_ command: Command, _ stamp: Stamp, in project: ProjectID) throws(Refusal) -> Decision {
        try command.decide(stamp, project: project, in: view)
    }

    package func refusal(of command: Command, by proof: IdentityProof, in project: ProjectID) -> Refusal? {
        proof.refusal(of: command, in: project, view)
    }

    package func refusal(of decision: Decision, by proof: IdentityProof, in project: ProjectID) -> Refusal? {
        proof.refusal(of: decision, in: project, view)
    }

    package func dependencies(
        of command: Command, _ stamp: Stamp, in project: ProjectID, _ result: Result<Decision, Refusal>
    ) -> [MergeID] {
        command.dependencies(stamp, project: project, in: view, result)
    }

    package func merges(
        _ names: SameUserID, after changes: [Change], _ stamp: Stamp, in project: ProjectID
    ) -> [Change] {
        names.merges(after: changes, stamp, in: project, view)
    }
}

/// A workspace over facts in dictionaries: those that a store loaded, or all of them.
package final class FactsWorkspace: ViewWorkspace {
    package private(set) var facts: Facts
    package var view: Facts { facts }

    package init(_ facts: Facts) { self.facts = facts }

    package func earlier(_ claim: ReplayClaim) -> Replay? { facts.replays.earlier(claim) }

    package func apply(_ entry: JournalEntry) { facts.apply(entry) }

    package func see(_ person: PersonID, at moment: Instant) { facts.see(person, at: moment) }
}

/// A workspace in the index itself. Nothing is copied: what the batch changes is added, and shown to others when it is
/// committed.
package final class IndexWorkspace: ViewWorkspace {
    private let index: PeopleIndex
    private var replays: Replays
    package var view: PeopleIndex.IndexView { index.pending }

    /// - Parameter replays: what the store remembers of the calls that the batch may repeat.
    package init(_ index: PeopleIndex, replays: Replays) {
        self.index = index
        self.replays = replays
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
