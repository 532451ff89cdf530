extension Snapshot {
    /// The facts as they would be after the undo of a call. A plan that does not fit the facts any more changes less.
    package func undoing(
        _ plan: UndoPlan, at moment: Instant, in project: ProjectID
    ) throws(StoreFault) -> PlannedSnapshot {
        var changes: [Change] = plan.ended.map { .unlinked($0.person, $0.identity.type, $0.identity.key) }
        for link in plan.back where !holders(of: link.identity.key).contains(link.person) {
            changes.append(.linked(link.person, link.identity))
        }
        for merge in plan.endedMerges { changes += try self.changes(ending: merge, at: moment, in: project) }
        // The server gives a merge that comes back a new id, so it is the last merge of its group.
        let first = Int64.max - Int64(plan.mergesBack.count)
        for (place, merge) in plan.mergesBack.enumerated() {
            let id = MergeID(rawValue: first + Int64(place))
            changes.append(.merged(Merge(id: id, from: merge.from, into: merge.into, rule: merge.rule)))
        }
        for document in plan.documents {
            guard case .change(let bytes) = document.undone(try self.document(document.key), at: moment) else {
                continue
            }
            changes.append(.documentPut(document.key, document.person, bytes))
        }
        return try PlannedSnapshot(self, after: changes, at: moment, in: project)
    }

    /// The facts as they would be after the undo of a merge.
    package func undoing(
        _ merge: Merge, at moment: Instant, in project: ProjectID
    ) throws(StoreFault) -> PlannedSnapshot {
        try PlannedSnapshot(
            self, after: changes(ending: merge, at: moment, in: project), at: moment, in: project)
    }

    private func changes(
        ending merge: Merge, at moment: Instant, in project: ProjectID
    ) throws(StoreFault) -> [Change] {
        let documents = SnapshotDocuments(self)
        var installs = InstallChanges(at: moment)
        installs.part(merge, in: group(of: merge.from), documents) { documents.installs(of: $0, in: project) }
        if let fault = documents.fault { throw fault }
        return [.mergeUndone(merge)] + installs.changes
    }
}

/// The documents of a snapshot, for changes that are made of documents alone.
private final class SnapshotDocuments: DocumentFacts {
    private let snapshot: any Snapshot
    /// The first fault of a question.
    private(set) var fault: StoreFault?

    init(_ snapshot: any Snapshot) { self.snapshot = snapshot }

    func document(_ key: DocumentKey) -> [UInt8]? { ask { snapshot throws(StoreFault) in try snapshot.document(key) } }

    /// The names of one person's installs.
    func installs(of person: PersonID, in project: ProjectID) -> [IdentityKey] {
        let held = ask { snapshot throws(StoreFault) in try snapshot.identities(of: person) } ?? []
        return held.filter { $0.type == .linkingInstallID }.map { $0.key(in: project, snapshot.hash) }
    }

    private func ask<Answer>(_ question: (any Snapshot) throws(StoreFault) -> Answer?) -> Answer? {
        do throws(StoreFault) {
            return try question(snapshot)
        } catch {
            fault = fault ?? error
            return nil
        }
    }
}
