import Synchronization

/// The facts of an import that the store does not have yet: those of the present batch, and in a rehearsal those of all
/// batches.
struct ImportLedger: Sendable {
    /// The new people.
    var made: Set<PersonID> = []
    /// The new holders of identities.
    var holders: [IdentityKey: [PersonID]] = [:]
    /// The new identities of people.
    var held: [PersonID: [(type: IdentityType, key: IdentityKey)]] = [:]
    /// The changed documents.
    var documents: [DocumentKey: [UInt8]] = [:]
    var rows: Set<RowHash> = []
    /// The groups that the import has joined: for each root another root, and the numbers of new members by roots.
    var parents: [PersonID: PersonID] = [:]
    var members: [PersonID: Int] = [:]
    /// The merges that the import has made.
    var merged: Set<Merged> = []
    /// The groups that the import has given a user id of a back end, by their roots.
    var named: Set<PersonID> = []
    /// The groups that the import has joined and that have active installs, by their roots.
    var live: Set<PersonID> = []

    /// Two people and the rule that made them one, in whatever direction.
    struct Merged: Hashable, Sendable {
        private let low: PersonID
        private let high: PersonID
        private let rule: Merge.Rule

        init(_ one: PersonID, _ other: PersonID, _ rule: Merge.Rule) {
            (low, high) = one < other ? (one, other) : (other, one)
            self.rule = rule
        }
    }

    /// The bytes that the ledger takes, roughly.
    var byteCount: Int {
        made.count * 24 + merged.count * 32 + holders.count * 96 + held.count * 128 + rows.count * 16 + parents.count
            * 64
            + documents.count * 320
    }

    func root(_ person: PersonID) -> PersonID {
        var root = person
        while let parent = parents[root] { root = parent }
        return root
    }
}

/// The results of the batches of an import that changes nothing. Each batch proposes its results, and the caller keeps them
/// after the decision, because a writer may decide a batch twice.
package final class ImportRehearsal: Sendable {
    private struct State {
        var progress: Import
        var ledger = ImportLedger()
        var proposal: (progress: Import, ledger: ImportLedger)?
    }

    private let state: Mutex<State>

    /// The greatest size of a rehearsal's results.
    package static let bytesAtMost = 1 << 30

    package init(_ progress: Import) { state = Mutex(State(progress: progress)) }

    package var progress: Import { state.withLock { $0.progress } }
    var ledger: ImportLedger { state.withLock { $0.ledger } }

    func propose(_ progress: Import, _ ledger: ImportLedger) {
        state.withLock { $0.proposal = (progress, ledger) }
    }

    /// Keeps the results of the last batch.
    package func keep() {
        state.withLock { state in
            guard let proposal = state.proposal else { return }
            (state.progress, state.ledger, state.proposal) = (proposal.progress, proposal.ledger, nil)
        }
    }

    /// Ends the rehearsal.
    package func finish(at moment: Instant) {
        state.withLock { state in
            state.progress.state = .finished
            state.progress.changedAt = moment
            state.ledger = ImportLedger()
        }
    }
}
