/// The search for the calls whose results depended on a merge: without the merge, the same call at the same moment has another
/// result.
///
/// The search decides each call again that read the merge's group while the merge was in force, with the merge and without
/// it. The cost grows with these calls and with the histories of the group's people. Only readers run the search, page by
/// page, so that other reads take their turns. Each page belongs to one thread at a time. The search ignores calls that come
/// after its first page.
package final class DependedCalls: @unchecked Sendable {
    private let merge: Merge
    private let call: RecordedCall
    private let directory: Directory
    /// What the pages so far have read; nil before the first page.
    private var facts: (past: PeoplePast, with: PastFacts, without: PastFacts)?
    /// The people that merges have ever connected with the merge; nil until they are known.
    private var people: [PersonID]?
    /// The notes to decide, the first note last.
    private var notes: [NotedCall] = []
    private var place: JournalSequence
    private var end = JournalSequence.zero
    private var found: Set<JournalSequence> = []
    private var isDone = false

    /// The greatest number of notes that the search reads at once.
    private static let notesAtMost = 256
    /// A decision takes the time of some questions to the store.
    private static let questionsOfDecision = 8

    /// - Parameters:
    ///   - merge: the merge, which may be undone already.
    ///   - call: the call that made the merge.
    ///   - directory: the projects with all versions of their strategies.
    package init(on merge: Merge, madeBy call: RecordedCall, _ directory: Directory) {
        self.merge = merge
        self.call = call
        self.directory = directory
        place = call.sequence
    }

    /// Searches one more page. After the last page it returns the calls, in the order of the journal; before that, nil. A
    /// search ends with its first fault.
    package func page(_ snapshot: any Snapshot) throws(StoreFault) -> [JournalSequence]? {
        if !isDone { isDone = try search(snapshot) }
        return isDone ? found.sorted() : nil
    }

    /// Whether the page ends the search.
    private func search(_ snapshot: any Snapshot) throws(StoreFault) -> Bool {
        let (past, with, without) = try facts(snapshot)
        guard try past.begin(snapshot), try past.gather([merge.from, merge.into]) else { return false }
        let people: [PersonID]
        if let known = self.people {
            people = known
        } else {
            people = past.gathered
            self.people = people
            for facts in [with, without] {
                try facts.load(merge.from)
                try facts.load(merge.into)
            }
        }
        while past.take(DependedCalls.questionsOfDecision) {
            if notes.isEmpty {
                notes = try snapshot.calls(readingGroupsOf: people, after: place, limit: DependedCalls.notesAtMost)
                    .filter { $0.call <= end }.reversed()
            }
            guard let note = notes.last else { return true }
            // An erasure removes acts of its people, and this version may not know an act.
            if let kept = KeptCall(packed: note.act) {
                guard let result = try with.decide(kept, note.call) else { return false }
                guard with.has(merge.id) else { return true }
                guard let other = try without.decide(kept, note.call) else { return false }
                if other != result { found.insert(note.call) }
            }
            notes.removeLast()
            place = note.call
        }
        return false
    }

    private func facts(
        _ snapshot: any Snapshot
    ) throws(StoreFault) -> (past: PeoplePast, with: PastFacts, without: PastFacts) {
        if let facts { return facts }
        end = try snapshot.lastCall()
        // Calls of earlier versions were decided again at once.
        found = Set(try snapshot.calls(dependingOn: merge.id))
        let start = call.sequence.next
        let past = try PeoplePast(snapshot, of: call.project, from: start)
        let new = (
            past: past, with: PastFacts(past, from: start, directory),
            without: PastFacts(past, from: start, directory, without: merge.id)
        )
        facts = new
        return new
    }
}
