package import Domain

/// Decides batches of calls one after the other, and commits their changes. It is the only part that writes facts.
///
/// The writer has no thread of its own. The engine calls it from one thread, and tests call it directly.
package final class Writer {
    package typealias Answer = Result<Reply, CallFailure>

    let store: any Store
    private let chance: () -> UInt64
    private let order: SightingOrder
    private var lastPerson: PersonID?
    private var lastStamp: Instant?
    /// The clock's moment at the last batch; before the first batch the last moment of the journal. Another server on the same
    /// store may have another clock, and its moments are no steps of this clock.
    private var lastClock: Instant?

    /// Whether the store needs a recovery before the next batch.
    package internal(set) var needsRecovery = false
    /// The sightings since the last fold. The store shows them, and has not stored them yet.
    var sightings = PeopleMap<SeenAt>()

    /// The notes of today about missing tokens, one for each key and person. A caller that repeats a call must not fill the
    /// journal.
    var daily = DailyCalls()

    /// Whether the last batch erased people, so that a sweep is due.
    private(set) var hasErased = false
    /// The erased people whose calls may still be in the call log.
    var erased: Set<PersonID> = []
    /// Whether the call log may still have calls of any erased person.
    var forgetsAllErased = false
    /// The place of the search for these calls; nil if no search is under way.
    var forgetting: (people: Set<PersonID>, projects: [ProjectID], after: Int64)?

    /// The calls that dry runs need and that the journal does not have.
    let log: CallLog

    /// The sightings of a batch with a failed commit.
    private var seenBeforeFault: [PersonID: SeenAt] = [:]

    /// Makes a writer.
    ///
    /// - Parameters:
    ///   - store: the store.
    ///   - order: gives the places of sightings; nil if the writer alone sees people.
    ///   - log: gets the calls that the journal does not have; nil if the writer alone decides calls.
    ///   - chance: gives random numbers.
    package init(
        store: any Store, order: SightingOrder? = nil, log: CallLog? = nil, chance: @escaping () -> UInt64
    ) {
        self.store = store
        self.log = log ?? CallLog(after: store.counts.lastSequence)
        self.order = order ?? SightingOrder(after: store.latestMoment)
        self.chance = chance
        lastPerson = store.lastPerson
        (lastStamp, lastClock) = (store.lastMoment, store.lastMoment)
    }

    /// Decides calls in their order and commits their changes together, or in several parts if the changes are large or a group is
    /// refused. Each call sees the changes of the calls before it.
    ///
    /// Returns an answer for each call, in the same order. A refusal affects one call only. A fault of the store fails all
    /// calls, and then ``recover()`` is due. A rehearsal is a batch of its own.
    package func process(_ jobs: [Job], at moment: Instant) -> [Answer] {
        precondition(!needsRecovery, "A batch was given to a store that has to be recovered.")
        precondition(jobs.allSatisfy { $0.isRehearsal == jobs[0].isRehearsal }, "A rehearsal is a batch of its own.")
        // Each call has one number, so that a second decision makes the same ids. Nobody gets the ids of a rehearsal.
        let chances = jobs.map { $0.isRehearsal ? 0 : chance() }
        var answers: [Answer] = []
        // The next group that is refused. The jobs before it are a batch of their own, so that no job is decided once for each such group.
        var refused: (first: Int, answers: [Answer])?
        var left = Writer.attempts
        hasErased = false
        while answers.count < jobs.count {
            if let group = refused, group.first == answers.count {
                answers += group.answers
                refused = nil
                continue
            }
            let next = answers.count..<(refused?.first ?? jobs.count)
            let isWhole = next.count == jobs.count
            switch attempt(
                isWhole ? jobs : Array(jobs[next]), isWhole ? chances : Array(chances[next]), at: moment,
                isLast: left == 1)
            {
            case .answers(let more): answers += more
            case .keptNothing: left -= 1
            case .refused(let first, let refusals): refused = (next.lowerBound + first, refusals)
            case .failed(let fault):
                answers += repeatElement(Answer.failure(.fault(fault)), count: jobs.count - answers.count)
            }
        }
        return answers
    }

    /// The end of one attempt for a batch.
    private enum Attempt {
        /// The answers of the first jobs, or of all.
        case answers([Answer])
        /// The store kept nothing, and the batch may be tried again at once.
        case keptNothing
        /// A job of a group was refused after other jobs of the group were decided. The store keeps no change of the
        /// batch.
        case refused(first: Int, [Answer])
        /// The store needs a recovery.
        case failed(StoreFault)
    }

    /// The limit of attempts for a batch that the store did not keep.
    private static let attempts = 4

    /// Decides a batch and commits it.
    ///
    /// - Parameters:
    ///   - jobs: the jobs of the batch.
    ///   - chances: a number for each job.
    ///   - moment: the moment of the batch.
    ///   - isLast: whether no further attempt follows.
    private func attempt(_ jobs: [Job], _ chances: [UInt64], at moment: Instant, isLast: Bool) -> Attempt {
        // The directory is read before the decisions, because the store is locked during the decisions.
        let fresh = BatchDecision(
            jobs, chances, at: moment, store.directory, hash: store.hash, order: order, daily: daily)
        var batch = fresh
        do throws(StoreFault) {
            var ending = BatchDecision.Ending.decided
            try store.decide(fresh) { facts in
                // The store may run this a second time, and other processes may have written since the last batch.
                batch = fresh
                batch.lastPerson = Writer.later(lastPerson, store.lastPerson)
                batch.lastStamp = journalMoment
                batch.steppedFrom = stepBack(to: moment)
                ending = batch.decide(over: facts)
            }
            switch ending {
            case .decided:
                if !batch.entries.isEmpty { try store.commit(batch.entries) }
                take(batch)
            case .refused(let first, let answers):
                try store.discard()
                return .refused(first: first, answers)
            case .rehearsed: try store.discard()
            }
            return .answers(batch.answers)
        } catch {
            needsRecovery = true
            if error.kind == .interrupted, !isLast, recover() == nil { return .keptNothing }
            // The batch may have an erasure, and may have become durable.
            hasErased = hasErased || batch.hasErased
            // Sightings stay, also after a failed commit.
            seenBeforeFault = batch.seen
            return .failed(error)
        }
    }

    /// Takes over what a committed batch has made.
    private func take(_ batch: BatchDecision) {
        if !batch.entries.isEmpty || !batch.logged.isEmpty {
            log.add(batch.logged, batch.entries, last: store.counts.lastSequence)
        }
        (lastPerson, lastStamp, daily) = (batch.lastPerson, batch.lastStamp, batch.daily)
        lastClock = batch.moment
        hasErased = hasErased || batch.hasErased
        erased.formUnion(batch.erased)
        note(batch.seen)
    }

    private static func later<Value: Comparable>(_ one: Value?, _ other: Value?) -> Value? {
        guard let one, let other else { return one ?? other }
        return max(one, other)
    }

    /// The moment of the last journal entry, or of the last call without an entry. Of several servers on a store only the store
    /// knows it.
    var journalMoment: Instant? { store.isShared ? store.lastMoment : Writer.later(lastStamp, store.lastMoment) }

    /// The latest moment of the journal.
    var latestMoment: Instant? { Writer.later(store.latestMoment, journalMoment) }

    /// The moment from which the clock went back to a moment; nil if it did not.
    private func stepBack(to moment: Instant) -> Instant? {
        guard let lastClock, let last = journalMoment, ClockStep.isBack(from: lastClock, to: moment),
            ClockStep.isBack(from: last, to: moment)
        else { return nil }
        return last
    }

    /// Notes sightings. Later decisions see them at once, and ``fold(limit:)`` stores them.
    package func note(_ seen: [PersonID: SeenAt]) {
        if seen.isEmpty { return }
        store.see(seen)
        for (person, moment) in seen { sightings[person] = max(sightings[person] ?? moment, moment) }
    }

    /// Opens the store again after a fault. Returns the fault that still prevents it; nil after success.
    package func recover() -> StoreFault? {
        do throws(StoreFault) {
            try store.recover()
            needsRecovery = false
            note(seenBeforeFault)
            seenBeforeFault = [:]
            lastPerson = max(lastPerson ?? PersonID(rawValue: 0), store.lastPerson ?? PersonID(rawValue: 0))
            return nil
        } catch {
            return error
        }
    }
}

/// The reason why a call has no reply.
package enum CallFailure: Error, Equatable, Sendable {
    /// The call was refused. The caller can act on the refusal.
    case refused(Refusal)
    /// The store failed. The effect of the call is unknown, and the client may send the call again.
    case fault(StoreFault)
    /// The queue is full, or the server stops. The call had no effect.
    case overloaded
}
