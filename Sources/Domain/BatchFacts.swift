/// Batch facts that decide every call over one view of the facts.
package protocol DecidingBatchFacts: BatchFacts {
    associatedtype Seen: DecisionFacts
    var view: Seen { get }
    /// The groups that the current decision reads.
    var trace: GroupTrace { get }
}

extension DecidingBatchFacts {
    package func decide(_ act: any Act, _ stamp: Stamp, in project: ProjectID) throws(Refusal) -> Decision<Reply> {
        trace.clear()
        return try view.decide(act, stamp, in: project)
    }

    package func named(_ reply: Reply) -> Reply { reply.named(by: view) }

    package func refusal(of act: any Act, by proof: IdentityProof, in project: ProjectID) -> Refusal? {
        proof.refusal(of: act, in: project, view)
    }

    package func refusal(of decision: Decision<Reply>, by proof: IdentityProof, in project: ProjectID) -> Refusal? {
        proof.refusal(of: decision, in: project, view)
    }

    package var groupsRead: Set<PersonID> { trace.groups }
    package var peopleRead: Set<PersonID> { trace.people }

    package func folds(after changes: [Change], by call: PersonID, in project: ProjectID) -> [Change] {
        guard changes.contains(where: \.mayChangeFolds) else { return [] }
        return KeptFolds.changes(after: changes, by: call, in: project, view)
            + RemovedRows.changes(after: changes, view)
    }

    package func holders(of identities: [Identity], limit: Int) -> [PersonID] {
        var holders: [PersonID] = []
        for identity in identities {
            view.forEachHolder(of: identity.key) { person in
                let id = view.id(of: person)
                if holders.count < limit, !holders.contains(id) { holders.append(id) }
            }
        }
        return holders.sorted()
    }

    package func merges(
        _ names: SameUserID, after changes: [Change], _ stamp: Stamp, in project: ProjectID
    ) -> (changes: [Change], full: Full?) {
        names.merges(after: changes, stamp, in: project, view)
    }
}

/// Batch facts in dictionaries: the facts that a store loaded, or all facts.
package final class PlainBatchFacts: DecidingBatchFacts {
    package private(set) var facts: Facts
    package var view: Facts { facts }
    package let trace = GroupTrace()

    package init(_ facts: Facts) {
        self.facts = facts
        self.facts.trace = trace
    }

    package func earlier(_ claim: ReplayClaim) -> RememberedCall? { facts.replays.earlier(claim) }

    package func apply(_ entry: JournalEntry) { facts.apply(entry) }

    package func see(_ person: PersonID, at moment: SeenAt) { facts.see(person, at: moment) }
}

/// Batch facts in the index itself. The batch copies nothing: its changes go into the index, and readers see them after the
/// commit.
///
/// Decisions run while other threads read. Only the writer changes the index, so the facts do not change during a decision.
/// Readers wait only while the changes of one decision go into the index.
package final class IndexBatchFacts: DecidingBatchFacts {
    private let index: PeopleIndex
    private var replays: RememberedCalls
    private let change: (() -> Void) -> Void
    package var view: PeopleIndex.IndexFacts { index.pending }
    package var trace: GroupTrace { index.trace }

    /// - Parameters:
    /// - replays: the remembered calls that the batch may repeat.
    /// - change: runs a change of the index while no other thread reads.
    package init(_ index: PeopleIndex, replays: RememberedCalls, change: @escaping (() -> Void) -> Void) {
        self.index = index
        self.replays = replays
        self.change = change
        index.beginSeeing()
    }

    package func earlier(_ claim: ReplayClaim) -> RememberedCall? { replays.isEmpty ? nil : replays.earlier(claim) }

    package func see(_ person: PersonID, at moment: SeenAt) { index.seeInBatch(person, at: moment) }

    package func apply(_ entry: JournalEntry) {
        change { index.apply(entry) }
        if let claim = entry.replay {
            replays.add(claim.key, RememberedCall(body: claim.body, reply: entry.reply, at: entry.at))
        }
    }
}
