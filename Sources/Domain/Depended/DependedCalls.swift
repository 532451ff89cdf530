/// The calls whose results depended on a merge: without the merge, the same call at the same moment has another result.
///
/// The search decides each call again that read the merge's group while the merge was in force, with the merge and without
/// it. The cost grows with these calls and with the histories of the group's people. Only readers run the search.
package struct DependedCalls {
    /// The calls in the order of the journal.
    package let calls: [JournalSequence]

    /// Searches for the calls.
    ///
    /// - Parameters:
    ///   - merge: the merge, which may be undone already.
    ///   - call: the call that made the merge.
    ///   - directory: the projects with all versions of their strategies.
    package init(
        on merge: Merge, madeBy call: RecordedCall, _ directory: Directory, _ snapshot: any Snapshot
    ) throws(StoreFault) {
        // Calls of earlier versions were decided again at once.
        var found = Set(try snapshot.calls(dependingOn: merge.id))
        let start = call.sequence.next
        let past = try PeoplePast(snapshot, of: call.project, from: start)
        let people = try DependedCalls.people(around: merge, past)
        let noted = try snapshot.calls(readingGroupsOf: people, after: call.sequence)
        let facts = PastFacts(past, from: start, directory)
        let without = PastFacts(past, from: start, directory, without: merge.id)
        for facts in [facts, without] {
            try facts.load(merge.from)
            try facts.load(merge.into)
        }
        for note in noted {
            // An erasure removes acts of its people.
            guard let kept = KeptCall(packed: note.act) else { continue }
            let result = try facts.decide(kept, note.call)
            guard facts.has(merge.id) else { break }
            if try without.decide(kept, note.call) != result { found.insert(note.call) }
        }
        calls = found.sorted()
    }

    /// The people that merges have ever connected with the merge.
    private static func people(around merge: Merge, _ past: PeoplePast) throws(StoreFault) -> [PersonID] {
        var people: Set<PersonID> = []
        var waiting = [merge.from, merge.into]
        while let person = waiting.popLast() {
            guard people.insert(person).inserted else { continue }
            for (_, event) in try past.past(of: person) ?? [] {
                if case .merged(let merge) = event { waiting += [merge.from, merge.into] }
            }
        }
        return people.sorted()
    }
}
