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
    private var sightings: [PersonID: Instant] = [:]

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
        // Seen is seen, even if the commit fails.
        var seen: [PersonID: Instant] = [:]
        do throws(StoreFault) {
            var needs = Needs()
            for job in jobs { needs.add(job.call, job.command) }
            var answers: [Answer] = []
            answers.reserveCapacity(jobs.count)
            var entries: [JournalEntry] = []
            entries.reserveCapacity(jobs.count)
            try store.decide(needs) { workspace in
                for job in jobs { answers.append(decide(job, at: moment, workspace, &entries, &seen)) }
            }
            if !entries.isEmpty { try store.commit(entries) }
            note(seen)
            return answers
        } catch {
            needsRecovery = true
            seenBeforeFault = seen
            return jobs.map { _ in .failure(.fault(error)) }
        }
    }

    private func decide(
        _ job: Job, at moment: Instant, _ workspace: any Workspace, _ entries: inout [JournalEntry],
        _ seen: inout [PersonID: Instant]
    ) -> Answer {
        let (call, stamp) = (job.call, stamp(at: moment))
        do throws(Refusal) {
            if let claim = call.replay, let earlier = try workspace.earlier(claim)?.decision(for: claim) {
                return .success(earlier.reply)
            }
            let decision = try workspace.decide(job.command, stamp, in: call.project)
            if let outcome = decision.outcome {
                let entry = JournalEntry(call, stamp, outcome, decision.reply)
                workspace.apply(entry)
                entries.append(entry)
                // The id is used up, whatever it was used for.
                lastPerson = max(lastPerson ?? stamp.person, stamp.person)
                for case .personMade(let person, _) in outcome.changes {
                    lastPerson = max(lastPerson ?? person, person)
                }
            }
            if let person = decision.reply.seen {
                workspace.see(person, at: stamp.at)
                seen[person] = stamp.at
            }
            return .success(decision.reply)
        } catch {
            if error.isJournalled { entries.append(JournalEntry(call, stamp, error, person: job.command.person)) }
            return .failure(.refused(error))
        }
    }

    /// Time never goes back from one call to the next, whatever the clock does; ids of people only grow.
    private func stamp(at moment: Instant) -> Stamp {
        let at = max(moment, lastStamp ?? moment)
        lastStamp = at
        var person = PersonID(at: at, chance: chance())
        if let lastPerson, person <= lastPerson { person = lastPerson.next }
        return Stamp(at: at, person: person)
    }

    /// Takes note of when people were seen: later decisions know at once, and ``fold(limit:)`` keeps it.
    package func note(_ seen: [PersonID: Instant]) {
        if seen.isEmpty { return }
        store.see(seen)
        sightings.merge(seen) { max($0, $1) }
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

/// Why a call has no reply.
package enum CallFailure: Error, Equatable, Sendable {
    /// The caller can do something about it.
    case refused(Refusal)
    /// The store failed; nobody knows whether the call took effect, and it may be made again.
    case fault(StoreFault)
    /// There is more to do than the queue holds, or the server is stopping. The call took no effect.
    case overloaded
}
