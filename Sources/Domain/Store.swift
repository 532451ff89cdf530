/// Keeps facts. Batch-shaped: a workspace is opened with what a batch needs, the batch is decided in it, and what that
/// changed is committed, once each.
///
/// The clauses below are the contract; each has a test of that name which runs on every store.
///
/// - A commit is atomic: after a fault or a crash, all of a batch is there, or nothing of it.
/// - A commit is durable when it returns.
/// - What is committed is what later batches and peeks see, and nothing else is.
/// - A repeated call is recognized after a restart, for at least ``RememberedCall/memoryMilliseconds``.
/// - Opening rebuilds exactly the facts that were committed.
/// - What is seen at a glance is what is read.
/// - A reading sees what was committed at one moment. What takes long may see what comes later as it is then.
/// - A reading that has to end does so at its next question, and within one that takes long.
/// - Rows that are let go are gone from every answer and count, and those of the same person that stay are all still found.
///
/// ``decide(_:_:)``, ``commit(_:)``, ``see(_:)``, ``fold(_:)``, ``expire(_:before:limit:)``, ``sweep()``, ``compact()`` and
/// ``recover()`` belong to the writer's thread. ``peek(_:_:_:)``, ``read(until:_:)``, ``glance(_:)``,
/// ``counts`` and ``directory`` may be called from any.
package protocol Store: AnyObject, Sendable {
    /// The hash that this store knows identities by.
    var hash: KeyedHash { get }

    /// Decides a call over the committed facts, if that can be done at once and without the writer: it changes
    /// nothing, and it repeats no call that did. A store that has nothing in memory leaves every call to the writer.
    func peek(_ call: Call, _ act: any Act, _ stamp: Stamp) -> Peek

    /// Opens a workspace with all that a batch needs, and has the batch decided in it. Nobody else sees the store's facts
    /// until that is done, so it must not take long.
    ///
    /// A store that finds out only then what else the batch looks at has it decided again, from the beginning; what the last
    /// time came to is what holds.
    func decide(_ needs: FactKeys, _ body: (any BatchFacts) -> Void) throws(StoreFault)

    /// Makes durable what the batch in the last workspace changed, all of it or nothing. After a fault nobody knows
    /// which, until ``recover()`` has returned.
    func commit(_ entries: [JournalEntry]) throws(StoreFault)

    /// Lends what is committed to somebody who reads. It may read the disk, so it is for threads that may wait. What came to
    /// be committed meanwhile may have it read again, from the beginning.
    ///
    /// - Parameter limit: when the reading ends without a result.
    func read<Result>(
        until limit: ReadLimit, _ body: (any Snapshot) throws(StoreFault) -> Result
    ) throws(StoreFault) -> Result

    /// Lends what is committed to somebody who must not wait; nil where what that asks for is not in memory, or is too much
    /// to be looked at in passing.
    func glance<Result>(_ body: (any Snapshot) throws(StoreFault) -> Result) -> Result?

    /// Has later decisions know when people were last seen, which ``fold(_:)`` will keep.
    func see(_ sightings: [PersonID: Instant])

    /// Keeps when people were last seen, as they were shown before, and what else can be found out again after a crash, a
    /// little at a time; true while there is more of that. Losing when people were seen in a crash is allowed.
    func fold(_ sightings: [PersonID: Instant]) throws(StoreFault) -> Bool

    /// Lets go of the oldest rows of a kind from before some moment, so many at most; true while there may be more of them. The last
    /// row of all stays.
    func expire(_ kind: RowKind, before moment: Instant, limit: Int) throws(StoreFault) -> Bool

    /// Takes a little of what was stored under people who were erased out of the store; true while there is more of it. On
    /// from ``commit(_:)`` nobody can read it.
    func sweep() throws(StoreFault) -> Bool

    /// Gives a little of the room back that nothing needs any more, and at last has no file hold a byte of what was taken
    /// out.
    func compact() throws(StoreFault) -> Compaction

    /// Opens the store anew after a fault, and finds out whether the last commit stands.
    func recover() throws(StoreFault)

    /// The largest id that a person has; new ones are made after it.
    var lastPerson: PersonID? { get }

    /// When the last call was journalled; time goes on from there, whatever the clock says.
    var lastMoment: Instant? { get }

    var counts: StoreCounts { get }
    var directory: Directory { get }

    /// Why it can be neither read nor written at the moment, as far as it has noticed without being asked to.
    var trouble: StoreFault? { get }

    /// Whether this process is the one of those that have the store which does what only one may do.
    var leads: Bool { get }

    /// Has somebody told how many nanoseconds readers were kept out each time. Called once, before there are any calls.
    func watchHolds(_ note: @escaping @Sendable (UInt64) -> Void)
}

extension Store {
    /// A store in this process is there.
    package var trouble: StoreFault? { nil }
    /// A store that one process has is led by it.
    package var leads: Bool { true }
    /// A store that keeps no readers out has nothing to tell.
    package func watchHolds(_ note: @escaping @Sendable (UInt64) -> Void) {}

    /// Reads for as long as it takes.
    package func read<Result>(
        _ body: (any Snapshot) throws(StoreFault) -> Result
    ) throws(StoreFault) -> Result {
        try read(until: .none, body)
    }
}

/// Where a batch is decided: it sees the committed facts, and what was changed in it before.
package protocol BatchFacts: AnyObject {
    /// Decides a call, to which no earlier one is the same.
    func decide(_ act: any Act, _ stamp: Stamp, in project: ProjectID) throws(Refusal) -> Decision<Reply>

    /// Why a call may not be made, by what it names; nil where its caller may speak for all of them.
    func refusal(of act: any Act, by proof: IdentityProof, in project: ProjectID) -> Refusal?

    /// Why a call may not come to what was decided; nil where it may.
    func refusal(of decision: Decision<Reply>, by proof: IdentityProof, in project: ProjectID) -> Refusal?

    /// The merges that follow from what a call has linked, where equal user ids are one human.
    func merges(
        _ names: SameUserID, after changes: [Change], _ stamp: Stamp, in project: ProjectID
    ) -> (changes: [Change], full: Full?)

    /// The merges without which a call would have come to something else than it did.
    func dependencies(
        of act: any Act, _ stamp: Stamp, in project: ProjectID, _ result: Result<Decision<Reply>, Refusal>
    ) -> [MergeID]

    /// What has to be put besides what a call changes, so that the folds of large groups stay in step (``KeptFolds``).
    func folds(after changes: [Change], in project: ProjectID) -> [Change]

    /// What became of the earlier call that a claim is a repetition of; where there is none, of the last under its key.
    func earlier(_ claim: ReplayClaim) -> RememberedCall?

    /// Takes in what a decision changed.
    func apply(_ entry: JournalEntry)

    /// Takes in that a decision came to a person.
    func see(_ person: PersonID, at moment: Instant)
}

/// What a look at the committed facts came to.
package enum Peek: Equatable, Sendable {
    case reply(Reply)
    case refusal(Refusal)
    /// The call has to go to the writer.
    case needsWriter

    /// Decides a call that is known to repeat none, over committed facts.
    package init<V: DecisionFacts>(_ act: any Act, _ stamp: Stamp, _ call: Call, in view: V) {
        let project = call.project
        guard type(of: act).isDecidedInMemory else {
            self = .needsWriter
            return
        }
        do throws(Refusal) {
            // What is not proven is journalled, whether it is taken or not.
            let proof = call.proof.flatMap { $0.mode == .off ? nil : $0 }
            if proof?.refusal(of: act, in: project, view) != nil {
                self = .needsWriter
                return
            }
            let decision = try view.decide(act, stamp, in: project)
            let isSettled =
                decision.outcome == nil && !decision.restsOnSightings && decision.full == nil
                && proof?.refusal(of: decision, in: project, view) == nil
            self = isSettled ? .reply(decision.answer) : .needsWriter
        } catch {
            // What is kept in the journal goes there first.
            self = error.isJournalled ? .needsWriter : .refusal(error)
        }
    }
}

/// What a step of making a store smaller came to.
package enum Compaction: Equatable, Sendable {
    /// Some pages were given back, and there may be more.
    case step(pages: Int)
    /// Somebody who reads is in the way for the moment.
    case held
    case done
}

/// How much a store holds.
package struct StoreCounts: Equatable, Sendable {
    package var people = 0
    package var identities = 0
    package var links = 0
    package var rows = 0
    package var merges = 0
    package var lastSequence = JournalSequence.zero

    package init() {}
}

/// Why a store could not do what it was asked: the disk, the file, another process. The caller of the server is told
/// that it was not its fault; this is for the log, and for whoever starts the server.
package struct StoreFault: Error, Equatable, Sendable, CustomStringConvertible {
    package enum Kind: Equatable, Sendable {
        /// The file is no store of ours.
        case notAStore
        /// The store was written by a newer version.
        case newerSchema
        /// Somebody else has the store.
        case locked
        case readOnly
        case diskFull
        case notFound
        case corrupt
        /// The system failed to read or write.
        case inputOutput
        /// The server that keeps the store cannot be reached, or serves nobody.
        case away
        /// Nothing of the batch was kept, and it may be decided again at once.
        case interrupted
        /// The reading took too long, or nobody waits for it any more.
        case ended
    }

    package let kind: Kind
    /// What went wrong and what to do, in a sentence or two.
    package let description: String

    package init(_ kind: Kind, _ description: String) {
        self.kind = kind
        self.description = description
    }

    /// Whether trying again may help, without anybody doing anything.
    package var mayPass: Bool {
        switch kind {
        case .locked, .diskFull, .inputOutput, .readOnly, .away, .interrupted, .ended: true
        case .notAStore, .newerSchema, .notFound, .corrupt: false
        }
    }
}
