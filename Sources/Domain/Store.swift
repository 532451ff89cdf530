/// Keeps the facts. The writer works in batches: it opens batch facts with the keys of a batch, decides the batch over these
/// facts, and commits the changes.
///
/// The following clauses are the contract. Each clause has a test of the same name that runs on every store.
///
/// - A commit is atomic: after a fault or a crash, the store has all changes of a batch or no change of the batch.
/// - A commit is durable when it returns.
/// - Later batches and peeks see the committed changes, and no other changes.
/// - A repeated call is recognized after a restart, for at least ``RememberedCall/memoryMilliseconds``.
/// - After it is opened again, a store has exactly the committed facts.
/// - A glance sees the same facts as a read.
/// - A read sees the commits of one moment. A long read may see later commits.
/// - A read that must end ends at its next question, and also during a long question.
/// - The call log has its segments in their order, and says where segments are missing.
/// - No answer and no count has expired rows, and reads find all other rows of the same person.
///
/// Only the writer's thread calls ``decide(_:_:)``, ``commit(_:)``, ``discard()``, ``see(_:)``, ``fold(_:)``,
/// ``keep(_:within:)``, ``expire(_:limit:)``, ``sweep()``, ``compact()`` and ``recover()``. Any thread may call ``peek(_:_:_:)``,
/// ``read(until:_:)``, ``glance(_:)``, ``counts`` and ``directory``.
package protocol Store: AnyObject, Sendable {
    /// The hash with which this store finds identities.
    var hash: KeyedHash { get }

    /// Decides a call over the committed facts on the calling thread. This works if the call changes nothing and repeats no
    /// call that changed something. A store without an index sends every call to the writer.
    func peek(_ call: Call, _ act: any Act, _ stamp: Stamp) -> Peek

    /// Opens batch facts with the facts that a batch needs, and calls the body to decide the batch. Readers may wait until
    /// the body returns, so the body must be fast.
    ///
    /// The store may find during the body that the batch reads more facts. Then it calls the body again from the beginning.
    /// Only the result of the last run counts.
    func decide(_ needs: any BatchNeeds, _ body: (any BatchFacts) -> Void) throws(StoreFault)

    /// Makes the changes of the last batch durable, all or nothing. After a fault the result is unknown until ``recover()``
    /// returns.
    func commit(_ entries: [JournalEntry]) throws(StoreFault)

    /// Discards the decisions of the last batch instead of a commit.
    func discard() throws(StoreFault)

    /// Calls the body with the committed facts. The read may use the disk, so only threads that may wait call it. A commit
    /// during the read may make the store call the body again from the beginning.
    ///
    /// - Parameter limit: the condition that ends the read without a result.
    func read<Result>(
        until limit: ReadLimit, _ body: (any Snapshot) throws(StoreFault) -> Result
    ) throws(StoreFault) -> Result

    /// Calls the body with the committed facts on a thread that must not wait. Returns nil if the facts are not in memory, or
    /// if the read is too large.
    func glance<Result>(_ body: (any Snapshot) throws(StoreFault) -> Result) -> Result?

    /// Shows sightings to later decisions. ``fold(_:)`` stores them later.
    func see(_ sightings: [PersonID: SeenAt])

    /// Stores sightings that ``see(_:)`` showed before, and other values that a restart can rebuild. Each call does a small
    /// part; true if more remains. A crash may lose sightings.
    func fold(_ sightings: [PersonID: SeenAt]) throws(StoreFault) -> Bool

    /// Adds segments to the call log, and removes what is beyond a limit: a small part in each call. A crash may lose the segments
    /// of the last call.
    func keep(_ segments: [LogSegment], within limit: LogLimit) throws(StoreFault)

    /// Replaces the content of segments of the call log. A segment that the log no longer has is left out.
    func replace(_ segments: [LogSegment.Stored]) throws(StoreFault)

    /// Removes old rows, the oldest first and up to the limit. Returns what remains; nil if no such rows remain. The last row of
    /// the store stays.
    func expire(_ old: OldRows, limit: Int) throws(StoreFault) -> OldRows?

    /// Removes the content of versions of documents that a call up to a call superseded, of the kinds in
    /// ``DocumentKind/forgetting``.
    ///
    /// - Parameters:
    ///   - place: the version after which the store continues to look; 0 at first.
    ///   - limit: the greatest number of versions to look at.
    /// - Returns: the place of the next step; the same place if there is nothing more to look at.
    func forgetVersions(
        after place: Int64, supersededUpTo call: JournalSequence, limit: Int
    ) throws(StoreFault) -> Int64

    /// Removes a part of the rows and documents of erased people from the store; true if more remains. After ``commit(_:)``
    /// no reader sees them.
    func sweep() throws(StoreFault) -> Bool

    /// Returns a part of the unused space to the system. At the end no file contains a byte of removed facts.
    func compact() throws(StoreFault) -> Compaction

    /// Opens the store again after a fault, and finds out whether the last commit is durable. Throws while the store cannot be
    /// written, for example because the disk is still full.
    func recover() throws(StoreFault)

    /// The largest id that the store's calls have given, to people or to other things. New ids are larger.
    var lastPerson: PersonID? { get }

    /// The moment of the last journal entry.
    var lastMoment: Instant? { get }

    /// The latest moment of the journal. It is later than the last one after the clock went back.
    var latestMoment: Instant? { get }

    var counts: StoreCounts { get }
    var directory: Directory { get }

    /// The fault that prevents reads and writes at the moment, as far as the store knows without a new attempt.
    var trouble: StoreFault? { get }

    /// Whether this process leads the store. Several processes may share a store, and some work is for the leader only.
    var leads: Bool { get }

    /// Whether several processes may write to the store.
    var isShared: Bool { get }

    /// Sets a function that gets the nanoseconds for which readers waited each time. The server calls this once, before all
    /// calls.
    func watchHolds(_ note: @escaping @Sendable (UInt64) -> Void)

    /// Sets the limits of what the store keeps in memory for quicker reads.
    func limit(_ caches: CacheLimits)
}

extension Store {
    /// A store in this process has no lasting fault.
    package var trouble: StoreFault? { nil }
    /// The only process of a store leads the store.
    package var leads: Bool { true }
    package var isShared: Bool { false }
    /// In this store no reader waits, so it reports no times.
    package func watchHolds(_ note: @escaping @Sendable (UInt64) -> Void) {}
    /// The limits stay the standard ones.
    package func limit(_ caches: CacheLimits) {}

    /// Reads without a limit.
    package func read<Result>(
        _ body: (any Snapshot) throws(StoreFault) -> Result
    ) throws(StoreFault) -> Result {
        try read(until: .none, body)
    }
}

/// The facts for the decisions of one batch: the committed facts, and the changes of earlier decisions of the batch.
package protocol BatchFacts: AnyObject {
    /// Decides a call that repeats no earlier call.
    func decide(_ act: any Act, _ stamp: Stamp, in project: ProjectID) throws(Refusal) -> Decision<Reply>

    /// The refusal of a call whose caller may not speak for all identities of the call; nil if the call is allowed.
    func refusal(of act: any Act, by proof: IdentityProof, in project: ProjectID) -> Refusal?

    /// The refusal of a decision that found people for whom the caller may not speak; nil if the decision is allowed.
    func refusal(of decision: Decision<Reply>, by proof: IdentityProof, in project: ProjectID) -> Refusal?

    /// The merges that follow from the links of a call, if the project merges equal user ids.
    func merges(
        _ names: SameUserID, after changes: [Change], _ stamp: Stamp, in project: ProjectID
    ) -> (changes: [Change], full: Full?)

    /// The roots of the groups with two or more members that the last decision read. Later questions to the batch facts add
    /// groups.
    var groupsRead: Set<PersonID> { get }

    /// The people of these groups by whom the last decision asked.
    var peopleRead: Set<PersonID> { get }

    /// The documents that a call must also replace to keep the folds of large groups correct (``KeptFolds``).
    func folds(after changes: [Change], by call: PersonID, in project: ProjectID) -> [Change]

    /// The earlier call with the key and the body of a claim. If no body matches, the last call under the key.
    func earlier(_ claim: ReplayClaim) -> RememberedCall?

    /// The answer of an earlier call, for its repetition: with the identities that the people in it have now.
    func named(_ reply: Reply) -> Reply

    /// Applies the changes of a decision.
    func apply(_ entry: JournalEntry)

    /// Notes that a decision found a person.
    func see(_ person: PersonID, at moment: SeenAt)

    /// The people that hold some identities, at most as many as a limit.
    func holders(of identities: [Identity], limit: Int) -> [PersonID]
}

/// The result of a peek.
package enum Peek: Equatable, Sendable {
    case reply(Reply)
    case refusal(Refusal)
    /// The writer must decide the call.
    case needsWriter

    /// Decides a call over committed facts. The call repeats no earlier call.
    package init<V: DecisionFacts>(_ act: any Act, _ stamp: Stamp, _ call: Call, in view: V) {
        let project = call.project
        guard type(of: act).isDecidedInMemory else {
            self = .needsWriter
            return
        }
        do throws(Refusal) {
            // The journal notes a missing proof, also if the server accepts the call. So such a call goes to the writer.
            let proof = call.proof.flatMap { $0.mode == .off ? nil : $0 }
            if proof?.refusal(of: act, in: project, view) != nil {
                self = .needsWriter
                return
            }
            let decision = try view.decide(call.permitted(act, view.strategy(of: project)), stamp, in: project)
            let isSettled =
                decision.outcome == nil && !decision.restsOnSightings && decision.full == nil
                && proof?.refusal(of: decision, in: project, view) == nil
            self = isSettled ? .reply(decision.answer) : .needsWriter
        } catch {
            // The writer puts a refusal in the journal before the caller gets it.
            self = error.isJournalled ? .needsWriter : .refusal(error)
        }
    }
}

/// The result of one step of compaction.
package enum Compaction: Equatable, Sendable {
    /// The step returned some pages, and more pages may remain.
    case step(pages: Int)
    /// A reader prevents the step at the moment.
    case held
    case done
}

/// The numbers of facts in a store.
package struct StoreCounts: Equatable, Sendable {
    /// The people, without erased people.
    package var people = 0
    package var identities = 0
    package var links = 0
    package var rows = 0
    package var merges = 0
    package var lastSequence = JournalSequence.zero

    package init() {}
}

/// The reason why a store failed: the disk, the file or another process. Callers learn only that the server failed. The
/// description is for the log and for the operator.
package struct StoreFault: Error, Equatable, Sendable, CustomStringConvertible {
    /// The kind of a fault, which decides about a retry.
    package enum Kind: Equatable, Sendable {
        /// The file is not an Onym store.
        case notAStore
        /// The store was written by a newer version.
        case newerSchema
        /// Another process has the store.
        case locked
        case readOnly
        case diskFull
        case notFound
        case corrupt
        /// The system could not read or write.
        case inputOutput
        /// The store's database server cannot be reached, or accepts no connections.
        case away
        /// The store kept nothing of the batch. The writer may decide the batch again at once.
        case interrupted
        /// The read took too long, or no caller waits for it.
        case ended
    }

    package let kind: Kind
    /// One or two sentences: the problem, and the remedy.
    package let description: String

    package init(_ kind: Kind, _ description: String) {
        self.kind = kind
        self.description = description
    }

    /// Whether a retry may succeed without an operator's help.
    package var mayPass: Bool {
        switch kind {
        case .locked, .diskFull, .inputOutput, .readOnly, .away, .interrupted, .ended: true
        case .notAStore, .newerSchema, .notFound, .corrupt: false
        }
    }
}
