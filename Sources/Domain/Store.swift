/// Keeps facts. Batch-shaped: a workspace is opened with what a batch needs, the batch is decided in it, and what that
/// changed is committed, once each.
///
/// The clauses below are the contract; each has a test of that name which runs on every store.
///
/// - A commit is atomic: after a fault or a crash, all of a batch is there, or nothing of it.
/// - A commit is durable when it returns.
/// - What is committed is what later batches and peeks see, and nothing else is.
/// - A repeated call is recognized after a restart, for at least ``Replay/memoryMilliseconds``.
/// - Opening rebuilds exactly the facts that were committed.
///
/// ``decide(_:_:)``, ``commit(_:)``, ``see(_:)``, ``fold(_:)`` and ``recover()`` belong to the writer's thread. ``peek(_:_:_:)``, ``read(_:)``,
/// ``counts`` and ``directory`` may be called from any.
package protocol Store: AnyObject, Sendable {
    /// The hash that this store knows identities by.
    var hash: KeyedHash { get }

    /// Decides a call over the committed facts, if that can be done at once and without the writer: it changes
    /// nothing, and it repeats no call that did.
    func peek(_ call: Call, _ command: Command, _ stamp: Stamp) -> Peek

    /// Opens a workspace with all that a batch needs, and has the batch decided in it. Nobody else sees the store's facts
    /// until that is done, so it must not take long.
    func decide(_ needs: Needs, _ body: (any Workspace) -> Void) throws(StoreFault)

    /// Makes durable what the batch in the last workspace changed, all of it or nothing. After a fault nobody knows
    /// which, until ``recover()`` has returned.
    func commit(_ entries: [JournalEntry]) throws(StoreFault)

    /// Lends what is committed to somebody who reads. It may read the disk, so it is for threads that may wait.
    func read<Result>(_ body: (any Snapshot) throws(StoreFault) -> Result) throws(StoreFault) -> Result

    /// Has later decisions know when people were last seen, which ``fold(_:)`` will keep.
    func see(_ sightings: [PersonID: Instant])

    /// Keeps when people were last seen, as they were shown before, and what else can be found out again after a crash, a
    /// little at a time; true while there is more of that. Losing when people were seen in a crash is allowed.
    func fold(_ sightings: [PersonID: Instant]) throws(StoreFault) -> Bool

    /// Opens the store anew after a fault, and finds out whether the last commit stands.
    func recover() throws(StoreFault)

    /// The largest id that a person has; new ones are made after it.
    var lastPerson: PersonID? { get }

    /// When the last call was journalled; time goes on from there, whatever the clock says.
    var lastMoment: Instant? { get }

    var counts: StoreCounts { get }
    var directory: Directory { get }
}

/// Where a batch is decided: it sees the committed facts, and what was changed in it before.
package protocol Workspace: AnyObject {
    /// Decides a call, to which no earlier one is the same.
    func decide(_ command: Command, _ stamp: Stamp, in project: ProjectID) throws(Refusal) -> Decision

    /// What became of the earlier call that a claim is a repetition of; where there is none, of the last under its key.
    func earlier(_ claim: ReplayClaim) -> Replay?

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
    package init<V: View>(_ command: Command, _ stamp: Stamp, _ project: ProjectID, in view: V) {
        guard command.mayPeek else {
            self = .needsWriter
            return
        }
        do throws(Refusal) {
            let decision = try command.decide(stamp, project: project, in: view)
            let isSettled = decision.outcome == nil && !decision.restsOnSightings
            self = isSettled ? .reply(decision.reply) : .needsWriter
        } catch {
            // What is kept in the journal goes there first.
            self = error.isJournalled ? .needsWriter : .refusal(error)
        }
    }
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
        case .locked, .diskFull, .inputOutput, .readOnly: true
        case .notAStore, .newerSchema, .notFound, .corrupt: false
        }
    }
}
