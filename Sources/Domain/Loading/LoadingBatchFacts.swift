/// Batch facts that note missing facts during decisions, so that the store can read them.
///
/// A decision that needs a missing fact continues as if the fact did not exist, and its result is worthless. The batch facts
/// note the missing fact and apply no more changes. The remaining decisions only find more missing facts. Then the store
/// reads all of them at once and decides the batch again, until no fact is missing. So no act has to list its facts in
/// advance, and a batch of a thousand calls needs as few reads as one call.
package final class LoadingBatchFacts: DecidingBatchFacts {
    /// The index with the changes of the batch so far.
    package let index: PeopleIndex
    private let loaded: LoadedFacts
    private var replays: RememberedCalls
    private let missing = Missing()
    /// Whether the batch has something to commit.
    package private(set) var hasChanged = false
    /// The change of the number of held identities.
    package private(set) var identityChange = 0

    final class Missing {
        var asks = MissingFacts()
    }

    package init(
        _ loaded: LoadedFacts, _ directory: Directory, lastLink: Int64, lastRow: Int64 = 0,
        sightings: [PersonID: SeenAt] = [:], groupSightings: [PersonID: SeenAt] = [:]
    ) {
        self.loaded = loaded
        replays = loaded.replays
        index = loaded.index(
            directory, lastLink: lastLink, lastRow: lastRow, sightings: sightings, groupSightings: groupSightings)
        let missing = missing
        index.noteUnlisted = { missing.asks.groups.insert($0) }
        index.findNamedRow = { hash in
            if !loaded.asked.namedRows.contains(hash) { missing.asks.namedRows.insert(hash) }
            return loaded.namedRows[hash]
        }
    }

    /// The missing facts. If there are any, the results of the decisions are worthless.
    package var asks: MissingFacts { missing.asks }

    package var view: LoadingFacts {
        LoadingFacts(base: index.pending, index: index, loaded: loaded, missing: missing)
    }

    package var trace: GroupTrace { index.trace }

    /// The label of a person's group before the batch; nil for a person without merges.
    package func group(of person: PersonID) -> PersonID? { loaded.people[person]?.group }

    /// The labels of the large groups of the loaded people.
    ///
    /// - Parameter changed: the labels of the groups that the batch has changed, by their roots.
    package func largeGroups(_ changed: [PersonID: PersonID] = [:]) -> [PersonID: PersonID] {
        if changed.isEmpty, loaded.groups.values.allSatisfy({ !$0.isLarge }) { return [:] }
        return loaded.people.compactMapValues { person in
            let group = index.pending.group(of: person.id)
            guard group.keepsFolds else { return nil }
            return changed[group.root] ?? person.group
        }
    }

    package func earlier(_ claim: ReplayClaim) -> RememberedCall? { replays.earlier(claim) }

    package func apply(_ entry: JournalEntry) {
        hasChanged = true
        // The other holders decide whether an identity is new, and a row needs the number of the row before it.
        let touched = Set(entry.changes.compactMap(\.identity))
        let before = touched.count { view.holderCount(of: $0) > 0 }
        for change in entry.changes {
            switch change {
            case .rowAdded(let person, _), .rowSuperseded(let person, _, _): _ = view.person(person)
            case .merged(let merge):
                // Both groups are kept as one from now on. A person of this very call is not there yet.
                for person in [merge.from, merge.into] where !entry.makes(person) { _ = view.person(person) }
            case .mergeUndone(let merge):
                // Both sides are listed, and counted anew.
                for member in view.group(of: merge.from).members { _ = view.person(member) }
            case .personMade, .linked, .unlinked, .documentPut, .personErased, .projectMade,
                .appMade, .appRevoked, .keyMade, .keyRevoked, .renamed, .strategySet:
                break
            }
        }
        guard missing.asks.isEmpty else { return }
        index.apply(entry)
        identityChange += touched.count { view.holderCount(of: $0) > 0 } - before
        if let claim = entry.replay {
            replays.add(claim.key, RememberedCall(body: claim.body, reply: entry.reply, at: entry.at))
        }
    }

    package func see(_ person: PersonID, at moment: SeenAt) { index.see(person, at: moment) }
}

extension JournalEntry {
    fileprivate func makes(_ person: PersonID) -> Bool {
        changes.contains { if case .personMade(let made, _) = $0 { made == person } else { false } }
    }
}

extension Change {
    /// The identity that the change links or unlinks.
    fileprivate var identity: IdentityKey? {
        switch self {
        case .linked(_, let identity): identity.key
        case .unlinked(_, _, let key): key
        case .personMade, .merged, .mergeUndone, .rowAdded, .rowSuperseded, .documentPut, .personErased, .projectMade,
            .appMade, .appRevoked, .keyMade, .keyRevoked, .renamed, .strategySet:
            nil
        }
    }
}

/// Facts that note each read of a missing fact.
package struct LoadingFacts: DecisionFacts {
    package typealias Person = PeopleIndex.Place

    let base: PeopleIndex.IndexFacts
    let index: PeopleIndex
    let loaded: LoadedFacts
    let missing: LoadingBatchFacts.Missing

    private func isHere(_ identity: IdentityKey) -> Bool {
        if loaded.asked.identities.contains(identity) { return true }
        missing.asks.identities.insert(identity)
        return false
    }

    /// Whether all facts of a person were read. A person of the batch has no facts in the store.
    private func isHere(_ person: PersonID) -> Bool {
        if index.place(of: person) != nil || loaded.asked.people.contains(person) { return true }
        missing.asks.people.insert(person)
        return false
    }

    package func forEachHolder(of identity: IdentityKey, _ body: (Person) -> Void) {
        if isHere(identity) { base.forEachHolder(of: identity, body) }
    }

    package func holderCount(of identity: IdentityKey) -> Int { isHere(identity) ? base.holderCount(of: identity) : 0 }

    package func forEachIdentity(of person: Person, _ body: (IdentityType, IdentityKey) -> Bool) {
        base.forEachIdentity(of: person, body)
    }

    package func identityCount(of person: Person) -> Int { base.identityCount(of: person) }

    package func id(of person: Person) -> PersonID { base.id(of: person) }

    package func person(_ id: PersonID, in project: ProjectID) -> Person? {
        isHere(id) ? base.person(id, in: project) : nil
    }
    package func person(_ id: PersonID) -> Person? { isHere(id) ? base.person(id) : nil }
    package func isErased(_ id: PersonID) -> Bool { isHere(id) && base.isErased(id) }
    package func lastSeen(of person: Person) -> SeenAt { base.lastSeen(of: person) }

    package func merge(_ id: MergeID) -> Merge? {
        if let merge = base.merge(id) { return merge }
        // A loaded merge that is not in force was undone by the batch.
        if !loaded.has(id), !loaded.asked.merges.contains(id) { missing.asks.merges.insert(id) }
        return nil
    }

    package func areMerged(_ one: PersonID, _ other: PersonID, by rule: Merge.Rule) -> Bool {
        guard isHere(one), isHere(other) else { return false }
        if loaded.lacksMerges(between: one, other) {
            missing.asks.pairs.insert(PersonPair(one, other))
            return false
        }
        return base.areMerged(one, other, by: rule)
    }

    package func group(of person: PersonID) -> Group { isHere(person) ? base.group(of: person) : Group(alone: person) }
    package func totals(of group: Group) -> GroupTotals { base.totals(of: group) }

    package func rowCount(of person: PersonID, _ kind: RowKind) -> Int {
        isHere(person) ? base.rowCount(of: person, kind) : 0
    }

    package func document(_ key: DocumentKey) -> [UInt8]? {
        if let body = base.pendingDocument(key) { return body.isEmpty ? nil : body }
        if let body = loaded.documents[key] { return body.isEmpty ? nil : body }
        if !loaded.asked.documents.contains(key) { missing.asks.documents.insert(key) }
        return nil
    }

    package func knows(_ document: DocumentKey) -> Bool {
        if base.pendingDocument(document) != nil || loaded.asked.documents.contains(document) { return true }
        missing.asks.documents.insert(document)
        return false
    }

    package func knowsRow(_ hash: RowHash) -> Bool {
        if base.knowsRow(hash) || loaded.rows.contains(hash) { return true }
        if !loaded.asked.rows.contains(hash) { missing.asks.rows.insert(hash) }
        return false
    }

    package func namedRow(_ hash: RowHash) -> NamedRow? { base.namedRow(hash) }

    package func holdersByAge(of identity: IdentityKey) -> [Person] {
        isHere(identity) ? base.holdersByAge(of: identity) : []
    }

    package var directory: Directory { base.directory }
    package func strategy(of project: ProjectID) -> Strategy { base.strategy(of: project) }
    package func strategies(of project: ProjectID) -> StrategyHistory { base.strategies(of: project) }
}
