package import Domain

/// Decides batches of calls, one after the other, and has the store keep what changes: the one hand that writes.
///
/// It has no thread of its own. The engine calls it from one; tests and simulations call it as they like.
package final class Writer {
    package typealias Answer = Result<Reply, CallFailure>

    private let store: any Store
    private let chance: () -> UInt64
    private var lastPerson: PersonID?
    private var lastStamp: Instant?

    /// Whether the store has to be recovered before the next batch.
    package private(set) var needsRecovery = false
    /// People that were seen since their sightings were last folded in; the store knows, and has not kept it yet.
    private var sightings = PeopleMap<Instant>()

    /// What was journalled today for want of a token, each key and person once: whoever calls in a loop is not to fill the
    /// journal.
    private var daily = DailyCalls()

    /// Whether the last batch erased anybody, so that there is something to sweep.
    private(set) var hasErased = false

    /// People that a batch saw whose commit failed.
    private var seenBeforeFault: [PersonID: Instant] = [:]

    package init(store: any Store, chance: @escaping () -> UInt64) {
        self.store = store
        self.chance = chance
        lastPerson = store.lastPerson
        lastStamp = store.lastMoment
    }

    /// Decides calls in their order, each seeing what those before it changed, and commits what they change at once.
    ///
    /// There is an answer for each call, in the same order. A refusal concerns nobody else's call; a fault of the store
    /// fails them all, and then ``recover()`` is due.
    package func process(_ jobs: [Job], at moment: Instant) -> [Answer] {
        precondition(!needsRecovery, "A batch was given to a store that has to be recovered.")
        // One for each call, whichever time it is decided.
        let chances = jobs.map { _ in chance() }
        for _ in 1..<Writer.attempts {
            if let answers = attempt(jobs, chances, at: moment, isLast: false) { return answers }
        }
        return attempt(jobs, chances, at: moment, isLast: true) ?? []
    }

    /// How often a batch is decided of which nothing was kept.
    private static let attempts = 4

    /// Decides a batch and commits it; nil where nothing of it was kept and it may be tried again at once.
    private func attempt(_ jobs: [Job], _ chances: [UInt64], at moment: Instant, isLast: Bool) -> [Answer]? {
        // Seen is seen, even if the commit fails.
        var seen: [PersonID: Instant] = [:]
        let noted = daily
        do throws(StoreFault) {
            var needs = FactKeys()
            // Asked for before the batch is decided: whoever decides has the store to itself.
            let directory = store.directory
            var userIDs: [Int: SameUserID] = [:]
            for (index, job) in jobs.enumerated() {
                needs.add(job.call, job.act)
                guard let names = names(of: job, directory) else { continue }
                for name in names.names.values {
                    for other in name.others { needs.add(other) }
                }
                userIDs[index] = names
            }
            var answers: [Answer] = []
            answers.reserveCapacity(jobs.count)
            var entries: [JournalEntry] = []
            entries.reserveCapacity(jobs.count)
            let (person, stamp) = (lastPerson, lastStamp)
            try store.decide(needs) { workspace in
                // It may be that it is not decided for the first time, and that others have written since the last batch.
                (answers, entries, seen, daily, hasErased) = ([], [], [:], noted, false)
                lastPerson = Writer.later(person, store.lastPerson)
                lastStamp = Writer.later(stamp, store.lastMoment)
                for (index, job) in jobs.enumerated() {
                    let stamp = self.stamp(at: moment, chances[index])
                    answers.append(decide(job, userIDs[index], stamp, workspace, &entries, &seen))
                }
            }
            if !entries.isEmpty { try store.commit(entries) }
            note(seen)
            return answers
        } catch {
            needsRecovery = true
            daily = noted
            if error.kind == .interrupted, !isLast, recover() == nil { return nil }
            seenBeforeFault = seen
            return jobs.map { _ in .failure(.fault(error)) }
        }
    }

    private static func later<Value: Comparable>(_ one: Value?, _ other: Value?) -> Value? {
        guard let one, let other else { return one ?? other }
        return max(one, other)
    }

    private func decide(
        _ job: Job, _ names: SameUserID?, _ stamp: Stamp, _ workspace: any BatchFacts,
        _ entries: inout [JournalEntry],
        _ seen: inout [PersonID: Instant]
    ) -> Answer {
        let call = job.call
        func keep(_ entry: JournalEntry) {
            workspace.apply(entry)
            entries.append(entry)
        }
        do throws(Refusal) {
            // Before repetitions are known: an answer is for whoever may have it.
            let proof = call.proof.flatMap { $0.mode == .off ? nil : $0 }
            var refusal = proof.flatMap { workspace.refusal(of: job.act, by: $0, in: call.project) }
            if let refusal, proof?.mode == .require { throw refusal }
            if let claim = call.replay, let earlier = try workspace.earlier(claim)?.reply(for: claim) {
                if let proof, proof.mode == .require,
                    let refusal = workspace.refusal(of: Decision(earlier), by: proof, in: call.project)
                {
                    throw refusal
                }
                return .success(earlier)
            }
            let decision = try workspace.decide(job.act, stamp, in: call.project)
            if let proof, refusal == nil {
                refusal = workspace.refusal(of: decision, by: proof, in: call.project)
                if let refusal, proof.mode == .require { throw refusal }
            }
            var isNew = false
            var full = decision.full
            if var outcome = decision.outcome {
                assert(type(of: job.act).kinds.contains(outcome.kind), "An act is journalled as a kind of another.")
                if let names {
                    let merges = workspace.merges(names, after: outcome.changes, stamp, in: call.project)
                    outcome.changes += merges.changes
                    full = full ?? merges.full
                }
                let merges = dependencies(of: job, stamp, .success(decision), workspace)
                outcome.changes += workspace.folds(after: outcome.changes, in: call.project)
                keep(JournalEntry(call, stamp, outcome, decision.answer, dependsOn: merges))
                // The id is used up, whatever it was used for.
                lastPerson = max(lastPerson ?? stamp.person, stamp.person)
                for change in outcome.changes {
                    switch change {
                    case .personMade(let person, _):
                        lastPerson = max(lastPerson ?? person, person)
                        if person == decision.answer.seen { isNew = true }
                    case .merged(let merge):
                        let id = PersonID(rawValue: merge.id.rawValue)
                        lastPerson = max(lastPerson ?? id, id)
                    case .personErased: hasErased = true
                    default: break
                    }
                }
            }
            if let full { noteFull(full, about: decision.answer.seen, call, stamp, kind: .leftOut, keep) }
            if let refusal, let proof {
                daily.count(proof.dialect)
                if daily.note(refusal, call.key, at: stamp.at) {
                    keep(JournalEntry(call, stamp, refusal, person: refusal.about, kind: .unproven))
                }
            }
            // Who is new was seen when they were made.
            if let person = decision.answer.seen, !isNew {
                workspace.see(person, at: stamp.at)
                seen[person] = stamp.at
            }
            return .success(decision.answer)
        } catch {
            if error.tokenFault != nil {
                let taken = job.act as? NoteUnproven
                if let taken { daily.count(taken.dialect) }
                if daily.note(error, call.key, at: stamp.at) {
                    let kind: ActKind = taken == nil ? .refused : .unproven
                    keep(JournalEntry(call, stamp, error, person: error.about, kind: kind))
                }
            } else if let full = error.full {
                noteFull(full, about: error.about ?? job.act.subjects.about, call, stamp, kind: .refused, keep)
            } else if error.isJournalled {
                let merges = dependencies(of: job, stamp, .failure(error), workspace)
                keep(
                    JournalEntry(
                        call, stamp, error, person: job.act.subjects.about ?? error.about, dependsOn: merges))
            }
            return .failure(.refused(error))
        }
    }

    /// Counts a call that met a person or group without room, and journals the first of a day about that person.
    private func noteFull(
        _ full: Full, about person: PersonID?, _ call: Call, _ stamp: Stamp, kind: ActKind,
        _ keep: (JournalEntry) -> Void
    ) {
        daily.count(full)
        guard let person else { return }
        let refusal = Refusal.full(full, about: person)
        if daily.note(refusal, nil, at: stamp.at) {
            keep(JournalEntry(call, stamp, refusal, person: person, kind: kind))
        }
    }

    /// The user ids that a call names and that may be those of somebody in another dialect; nil where that is nothing to the
    /// project.
    private func names(of job: Job, _ directory: Directory) -> SameUserID? {
        let strategy = directory.strategy(of: job.call.project)
        guard strategy.guards.joinsSameUserIDs else { return nil }
        var identities = job.act.subjects.userIDs
        // Whoever may not speak for a user in one dialect is not to be made one with that user by another.
        if let proof = job.call.proof, strategy.guards.requiresProof {
            identities.removeAll { !proof.proves($0.key) }
        }
        if identities.isEmpty { return nil }
        return SameUserID(identities, except: strategy.blockedValues, in: job.call.project, hash: store.hash)
    }

    private func dependencies(
        of job: Job, _ stamp: Stamp, _ result: Result<Decision<Reply>, Refusal>, _ workspace: any BatchFacts
    ) -> [MergeID] {
        guard type(of: job.act).readsMerges else { return [] }
        return workspace.dependencies(of: job.act, stamp, in: job.call.project, result)
    }

    /// In the journal time never goes back from one call to the next, whatever the clock does, and ids of people only grow. A
    /// clock that was ahead once must not make that the time by which codes and grants expire: that is the clock's.
    private func stamp(at moment: Instant, _ chance: UInt64) -> Stamp {
        let ordered = max(moment, lastStamp ?? moment)
        lastStamp = ordered
        var person = PersonID(at: ordered, chance: chance)
        if let lastPerson, person <= lastPerson { person = lastPerson.next }
        return Stamp(at: moment, journalledAt: ordered, person: person)
    }

    /// The moment that the journal has come to.
    var journalMoment: Instant? { Writer.later(lastStamp, store.lastMoment) }

    /// Takes note of when people were seen: later decisions know at once, and ``fold(limit:)`` keeps it.
    package func note(_ seen: [PersonID: Instant]) {
        if seen.isEmpty { return }
        store.see(seen)
        for (person, moment) in seen { sightings[person] = max(sightings[person] ?? moment, moment) }
    }

    /// Has the store keep when some of the people that were seen were last seen; true while there are more of them.
    package func fold(limit: Int) -> Bool {
        guard !needsRecovery else { return false }
        var part: [PersonID: Instant] = [:]
        while part.count < limit, let (person, moment) = sightings.popFirst() { part[person] = moment }
        do throws(StoreFault) {
            let isMore = try store.fold(part)
            return isMore || !sightings.isEmpty
        } catch {
            needsRecovery = true
            return false
        }
    }

    /// Has the store take out a little of what was stored under people who were erased; true while there is more of it.
    package func sweep() -> Bool {
        guard !needsRecovery else { return false }
        do throws(StoreFault) {
            return try store.sweep()
        } catch {
            needsRecovery = true
            return false
        }
    }

    /// How many calls were taken, by dialect, that have named a known user and shown no token; each is told once.
    func takeUnproven() -> [Dialect: Int] { daily.takeCounts() }

    /// How many calls met a person or a group without room; each is told once.
    func takeFull() -> [Full: Int] { daily.takeFull() }

    /// Has the store give a little room back; nil after a fault.
    package func compact() -> Compaction? {
        guard !needsRecovery else { return nil }
        do throws(StoreFault) {
            return try store.compact()
        } catch {
            needsRecovery = true
            return nil
        }
    }

    /// Has the store let go of some old rows of a kind; true while there may be more of them.
    package func expire(_ kind: RowKind, before moment: Instant, limit: Int) -> Bool {
        guard !needsRecovery else { return false }
        do throws(StoreFault) {
            return try store.expire(kind, before: moment, limit: limit)
        } catch {
            needsRecovery = true
            return false
        }
    }

    /// Opens the store anew after a fault; answers why that cannot be done yet, or nil when it is done.
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

/// Calls of which the journal keeps the first of a day: those that showed no token for a known user, and those that met a person
/// or a group without room.
private struct DailyCalls {
    private struct Call: Hashable {
        let key: KeyID?
        let person: PersonID?
        let code: String
    }

    private var noted: Set<Call> = []
    private var day: Int64 = 0
    /// How many were taken, of which there is not always a line.
    private var taken: [Dialect: Int] = [:]
    private var full: [Full: Int] = [:]

    private static let notedAtMost = 65_536
    private static let dayMilliseconds: Int64 = 86_400_000

    mutating func count(_ dialect: Dialect) { taken[dialect, default: 0] += 1 }
    mutating func count(_ full: Full) { self.full[full, default: 0] += 1 }

    /// How many met something without room since this was last asked.
    mutating func takeFull() -> [Full: Int] {
        defer { full = [:] }
        return full
    }

    /// How many were taken since this was last asked.
    mutating func takeCounts() -> [Dialect: Int] {
        defer { taken = [:] }
        return taken
    }

    /// Whether a call is worth a line: the first of a day with its key, about its person, for its reason.
    mutating func note(_ refusal: Refusal, _ key: KeyID?, at moment: Instant) -> Bool {
        let today = moment.milliseconds / DailyCalls.dayMilliseconds
        if today != day { (day, noted) = (today, []) }
        guard noted.count < DailyCalls.notedAtMost else { return false }
        return noted.insert(Call(key: key, person: refusal.about, code: refusal.code)).inserted
    }
}

/// Why a call has no reply.
package enum CallFailure: Error, Equatable, Sendable {
    /// The caller can do something about it.
    case refused(Refusal)
    /// The store failed; nobody knows whether the call took effect, and it may be made again.
    case fault(StoreFault)
    /// There is more to do than the queue holds, or the server is stopping. The call took no effect.
    case overloaded
}
