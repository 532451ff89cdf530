import Threads

/// The facts of an import that the store does not have yet: those of the present batch, and in a dry run those of all
/// batches.
struct ImportLedger: Sendable {
    /// The new people.
    var made = Layers<PersonID, Bool>()
    /// The new holders of identities.
    var holders = Layers<IdentityKey, [PersonID]>()
    /// The new identities of people.
    var held = Layers<PersonID, [(type: IdentityType, key: IdentityKey)]>()
    /// The changed documents.
    var documents = Layers<DocumentKey, [UInt8]>()
    var rows = Layers<RowHash, Bool>()
    /// The groups that the import has joined: for each root another root, and the numbers of new members by roots.
    var parents = Layers<PersonID, PersonID>()
    var members = Layers<PersonID, Int>()
    /// The merges that the import has made.
    var merged = Layers<Merged, Bool>()
    /// The groups that the import has given a user id of a back end, by their roots.
    var named = Layers<PersonID, Bool>()
    /// The groups that the import has joined and that have active installs, by their roots.
    var live = Layers<PersonID, Bool>()

    /// A dictionary in two layers. A batch writes to the upper one, so that it can be decided again. The lower one is shared by all
    /// copies, so that a batch costs what it adds.
    struct Layers<Key: Hashable & Sendable, Value: Sendable>: Sendable {
        /// Only the thread that decides batches touches the values.
        private final class Lower: @unchecked Sendable {
            var values: [Key: Value] = [:]
        }

        private let lower = Lower()
        private var upper: [Key: Value] = [:]

        subscript(key: Key) -> Value? {
            get { upper[key] ?? lower.values[key] }
            set { upper[key] = newValue }
        }

        subscript(key: Key, default other: @autoclosure () -> Value) -> Value {
            get { self[key] ?? other() }
            set { upper[key] = newValue }
        }

        /// At least the number of keys.
        var count: Int { lower.values.count + upper.count }

        func contains(_ key: Key) -> Bool where Value == Bool { self[key] != nil }

        /// Returns whether the key is new.
        @discardableResult
        mutating func insert(_ key: Key) -> Bool where Value == Bool {
            if contains(key) { return false }
            upper[key] = true
            return true
        }

        /// Moves the upper layer into the lower one, for all copies.
        mutating func settle() {
            lower.values.merge(upper) { $1 }
            upper = [:]
        }
    }

    /// Keeps the facts of the batch for all copies.
    mutating func settle() {
        made.settle()
        holders.settle()
        held.settle()
        documents.settle()
        rows.settle()
        parents.settle()
        members.settle()
        merged.settle()
        named.settle()
        live.settle()
    }

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
package final class ImportDryRun: Sendable {
    private struct State {
        var progress: Import
        var ledger = ImportLedger()
        /// Whether the facts of a kept batch are still in the upper layers of the ledger.
        var isUnsettled = false
        var proposal: (progress: Import, ledger: ImportLedger)?
    }

    private let state: Monitor<State>

    /// The greatest size of a dry run's results.
    package static let bytesAtMost = 1 << 30

    package init(_ progress: Import) { state = Monitor(State(progress: progress)) }

    package var progress: Import { state.withLock { $0.progress } }

    /// The facts of the kept batches, for the thread that decides the next one.
    func settledLedger() -> ImportLedger {
        state.withLock { state in
            if state.isUnsettled { state.ledger.settle() }
            state.isUnsettled = false
            return state.ledger
        }
    }

    func propose(_ progress: Import, _ ledger: ImportLedger) {
        state.withLock { $0.proposal = (progress, ledger) }
    }

    /// Keeps the results of the last batch.
    package func keep() {
        state.withLock { state in
            guard let proposal = state.proposal else { return }
            (state.progress, state.ledger, state.proposal) = (proposal.progress, proposal.ledger, nil)
            state.isUnsettled = true
        }
    }

    /// Ends the dry run.
    package func finish(at moment: Instant) {
        state.withLock { state in
            state.progress.state = .finished
            state.progress.changedAt = moment
            (state.ledger, state.isUnsettled) = (ImportLedger(), false)
        }
    }
}
