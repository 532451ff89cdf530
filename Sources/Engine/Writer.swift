package import Domain

/// Decides batches of calls one after the other, and commits their changes. It is the only part that writes facts.
///
/// The writer has no thread of its own. The engine calls it from one thread, and tests call it directly.
package final class Writer {
    package typealias Answer = Result<Reply, CallFailure>

    private let store: any Store
    private let chance: () -> UInt64
    private let order: SightingOrder
    private var lastPerson: PersonID?
    private var lastStamp: Instant?

    /// Whether the store needs a recovery before the next batch.
    package private(set) var needsRecovery = false
    /// The sightings since the last fold. The store shows them, and has not stored them yet.
    private var sightings = PeopleMap<SeenAt>()

    /// The notes of today about missing tokens, one for each key and person. A caller that repeats a call must not fill the
    /// journal.
    private var daily = DailyCalls()

    /// Whether the last batch erased people, so that a sweep is due.
    private(set) var hasErased = false
    /// The erased people whose calls may still be in the call log.
    private var erased: Set<PersonID> = []
    private var erasedInBatch: Set<PersonID> = []
    /// The place of the search for these calls; nil if no search is under way.
    private var forgetting: (people: Set<PersonID>, projects: [ProjectID], after: Int64)?

    /// The calls that dry runs need and that the journal does not have.
    private let log: CallLog
    /// The calls of the present batch for the log.
    private var logged: [CallLog.Pending] = []

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
        self.order = order ?? SightingOrder(after: store.lastMoment)
        self.chance = chance
        lastPerson = store.lastPerson
        lastStamp = store.lastMoment
    }

    /// Decides calls in their order and commits their changes together. Each call sees the changes of the calls before it.
    ///
    /// Returns an answer for each call, in the same order. A refusal affects one call only. A fault of the store fails all
    /// calls, and then ``recover()`` is due.
    package func process(_ jobs: [Job], at moment: Instant) -> [Answer] {
        precondition(!needsRecovery, "A batch was given to a store that has to be recovered.")
        // Each call has one number, so that a second decision makes the same ids.
        let chances = jobs.map { _ in chance() }
        var groups: [ObjectIdentifier: [Answer]] = [:]
        var left = Writer.attempts
        while true {
            switch attempt(jobs, chances, at: moment, isLast: left == 1, refused: groups) {
            case .answers(let answers): return answers
            case .keptNothing: left -= 1
            // A group can be refused only once, so the loop ends.
            case .refused(let group, let answers): groups[ObjectIdentifier(group)] = answers
            }
        }
    }

    /// The end of one attempt for a batch.
    private enum Attempt {
        case answers([Answer])
        /// The store kept nothing, and the batch may be tried again at once.
        case keptNothing
        /// A job of the group was refused after other jobs of the group were decided. The store keeps no change of the
        /// batch.
        case refused(JobGroup, [Answer])
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
    ///   - refused: the answers of groups that are refused.
    private func attempt(
        _ jobs: [Job], _ chances: [UInt64], at moment: Instant, isLast: Bool, refused: [ObjectIdentifier: [Answer]]
    ) -> Attempt {
        // Sightings stay, also after a failed commit.
        var seen: [PersonID: SeenAt] = [:]
        let noted = daily
        do throws(StoreFault) {
            var needs = FactKeys()
            // The directory is read before the decisions, because the store is locked during the decisions.
            let directory = store.directory
            for job in jobs {
                needs.add(job.call, job.act)
                let strategy = directory.strategy(of: job.call.project)
                guard strategy.guards.joinsSameUserIDs,
                    let userIDs = joining(job.act.subjects.userIDs, job.call, strategy)
                else { continue }
                for name in userIDs.names.values {
                    for other in name.others { needs.add(other) }
                }
            }
            var answers: [Answer] = []
            answers.reserveCapacity(jobs.count)
            var entries: [JournalEntry] = []
            entries.reserveCapacity(jobs.count)
            var half: (group: JobGroup, answers: [Answer])?
            let (person, stamp) = (lastPerson, lastStamp)
            try store.decide(needs) { workspace in
                // The body may run a second time, and other processes may have written since the last batch.
                (answers, entries, seen, daily, hasErased) = ([], [], [:], noted, false)
                (logged, erasedInBatch) = ([], [])
                lastPerson = Writer.later(person, store.lastPerson)
                lastStamp = Writer.later(stamp, store.lastMoment)
                half = nil
                var start = 0
                while start < jobs.count, half == nil {
                    let end = Writer.end(of: jobs, from: start)
                    let group = end - start > 1 ? jobs[start].group : nil
                    if let group, let known = refused[ObjectIdentifier(group)] {
                        answers += known
                        start = end
                        continue
                    }
                    let bad = group == nil ? nil : refusedJob(of: jobs[start..<end], at: moment, workspace)
                    for index in start..<end {
                        if let bad, bad != index {
                            answers.append(.failure(.refused(.otherActRefused)))
                            continue
                        }
                        let stamp = self.stamp(at: moment, chances[index])
                        let answer = decide(jobs[index], directory, stamp, workspace, &entries, &seen)
                        answers.append(answer)
                        if let group, bad == nil, case .failure = answer {
                            half = (group, jobs[start..<end].map { _ in .failure(.refused(.otherActRefused)) })
                            half?.answers[index - start] = answer
                            break
                        }
                    }
                    start = end
                }
            }
            if let half {
                try store.discard()
                daily = noted
                return .refused(half.group, half.answers)
            }
            if !entries.isEmpty { try store.commit(entries) }
            if !entries.isEmpty || !logged.isEmpty {
                log.add(logged, entries, last: store.counts.lastSequence)
            }
            erased.formUnion(erasedInBatch)
            note(seen)
            return .answers(answers)
        } catch {
            needsRecovery = true
            daily = noted
            if error.kind == .interrupted, !isLast, recover() == nil { return .keptNothing }
            seenBeforeFault = seen
            return .answers(jobs.map { _ in .failure(.fault(error)) })
        }
    }

    /// The end of the group that begins with a job.
    private static func end(of jobs: [Job], from start: Int) -> Int {
        var end = start + 1
        while end < jobs.count, jobs[end].isWith(jobs[start]) { end += 1 }
        return end
    }

    /// The first job of a group with a refusal; nil if no job has a refusal. The writer decides each job as a single job,
    /// and keeps no change.
    private func refusedJob(of jobs: ArraySlice<Job>, at moment: Instant, _ workspace: any BatchFacts) -> Int? {
        let stamp = stamp(at: moment, 0)
        return jobs.indices.first { index in
            let (call, act) = (jobs[index].call, jobs[index].act)
            let proof = call.proof.flatMap { $0.mode == .require ? $0 : nil }
            if let proof, workspace.refusal(of: act, by: proof, in: call.project) != nil { return true }
            do throws(Refusal) {
                if let claim = call.replay, try workspace.earlier(claim)?.reply(for: claim) != nil { return false }
                let decision = try workspace.decide(act, stamp, in: call.project)
                return proof.map { workspace.refusal(of: decision, by: $0, in: call.project) != nil } ?? false
            } catch {
                return true
            }
        }
    }

    private static func later<Value: Comparable>(_ one: Value?, _ other: Value?) -> Value? {
        guard let one, let other else { return one ?? other }
        return max(one, other)
    }

    private func decide(
        _ job: Job, _ directory: Directory, _ stamp: Stamp, _ workspace: any BatchFacts,
        _ entries: inout [JournalEntry],
        _ seen: inout [PersonID: SeenAt]
    ) -> Answer {
        let call = job.call
        var (groups, people): (Set<PersonID>, Set<PersonID>) = ([], [])
        /// The note of a call. An erasure finds the note of a call that is about nobody by the people of the call.
        func note(about person: PersonID?) -> GroupNote? {
            GroupNote(
                call.permitted(job.act, directory.strategy(of: call.project)), stamp,
                readRootsOf: person == nil ? groups.union(people) : groups,
                directory.strategy(of: call.project))
        }
        func keep(_ entry: JournalEntry) {
            workspace.apply(entry)
            entries.append(entry)
        }
        /// Gives the call to the log, if the rules decided it. The entry of the call comes before.
        func log(_ act: any Act, isJournalled: Bool, person: PersonID?) {
            guard let naming = act.naming,
                let packed = LoggedCall.pack(
                    naming, at: stamp.journalledAt, isJournalled: isJournalled, person: person,
                    holders: person == nil ? workspace.holders(of: act.subjects.speaksFor, limit: 8) : [],
                    directory.strategy(of: call.project))
            else { return }
            logged.append(CallLog.Pending(packed: packed, project: call.project, entries: entries.count))
        }
        do throws(Refusal) {
            // The proof is checked before repetitions, because only a permitted caller may get an earlier answer.
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
            let act = call.permitted(job.act, directory.strategy(of: call.project))
            let result = Result { () throws(Refusal) in try workspace.decide(act, stamp, in: call.project) }
            // The proof and the folds read groups too, and no result depends on these groups.
            if type(of: job.act).readsMerges { (groups, people) = (workspace.groupsRead, workspace.peopleRead) }
            if case .failure(let refusal) = result {
                log(act, isJournalled: false, person: nil)
                throw refusal
            }
            let decision = try result.get()
            if let proof, refusal == nil {
                refusal = workspace.refusal(of: decision, by: proof, in: call.project)
                if let refusal, proof.mode == .require { throw refusal }
            }
            var isNew = false
            var full = decision.full
            if var outcome = decision.outcome {
                assert(type(of: job.act).kinds.contains(outcome.kind), "An act is journalled as a kind of another.")
                let strategy = directory.strategy(of: call.project)
                if strategy.guards.joinsSameUserIDs, let userIDs = joining(outcome.linked, call, strategy) {
                    let merges = workspace.merges(userIDs, after: outcome.changes, stamp, in: call.project)
                    outcome.changes += merges.changes
                    full = full ?? merges.full
                }
                outcome.changes += workspace.folds(after: outcome.changes, in: call.project)
                keep(JournalEntry(call, stamp, outcome, decision.answer, groupNote: note(about: outcome.person)))
                // The id is used, also if the call makes no person.
                lastPerson = max(lastPerson ?? stamp.person, stamp.person)
                for change in outcome.changes {
                    switch change {
                    case .personMade(let person, _):
                        // An import keeps the ids of other servers, and new ids do not continue them.
                        if person < .limit(at: stamp.journalledAt) { lastPerson = max(lastPerson ?? person, person) }
                        if person == decision.answer.seen { isNew = true }
                    case .merged(let merge):
                        let id = PersonID(rawValue: merge.id.rawValue)
                        lastPerson = max(lastPerson ?? id, id)
                    case .personErased(let person):
                        hasErased = true
                        erasedInBatch.insert(person)
                    default: break
                    }
                }
            }
            log(act, isJournalled: decision.outcome != nil, person: decision.answer.seen)
            if let full { noteFull(full, about: decision.answer.seen, call, stamp, kind: .leftOut, keep) }
            if let refusal, let proof {
                daily.count(proof.dialect)
                if daily.note(refusal, call.key, at: stamp.at) {
                    keep(JournalEntry(call, stamp, refusal, person: refusal.about, kind: .unproven))
                }
            }
            // A new person was seen when it was made.
            if let person = decision.answer.seen, !isNew {
                workspace.see(person, at: stamp.seen)
                seen[person] = stamp.seen
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
                let person = job.act.subjects.about ?? error.about
                keep(JournalEntry(call, stamp, error, person: person, groupNote: note(about: person)))
            }
            return .failure(.refused(error))
        }
    }

    /// Counts a call that found a person or a group at its limit, and notes the first such call of a day in the journal.
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

    /// The user ids among some identities that other dialects may also have; nil if there are none.
    private func joining(_ identities: [Identity], _ call: Call, _ strategy: Strategy) -> SameUserID? {
        // A merge through another dialect must not connect a caller with a user for whom the caller has no proof.
        let proof = strategy.guards.requiresProof ? call.proof : nil
        let userIDs = identities.filter { identity in
            SameUserID.types.contains(identity.type) && proof?.proves(identity.key) ?? true
        }
        if userIDs.isEmpty { return nil }
        return SameUserID(userIDs, except: strategy.blockedValues, in: call.project, hash: store.hash)
    }

    /// The stamp of the next call. The journal's time never goes back, and ids of people only grow. The expiry of codes and
    /// grants uses the clock's time instead, because a clock that was ahead once must not change expiry.
    private func stamp(at moment: Instant, _ chance: UInt64) -> Stamp {
        let ordered = max(moment, lastStamp ?? moment)
        lastStamp = ordered
        var person = PersonID(at: ordered, chance: chance)
        if let lastPerson, person <= lastPerson { person = lastPerson.next }
        return Stamp(at: moment, journalledAt: ordered, person: person, seen: order.next(at: moment))
    }

    /// The moment of the last journal entry.
    var journalMoment: Instant? { Writer.later(lastStamp, store.lastMoment) }

    /// Notes sightings. Later decisions see them at once, and ``fold(limit:)`` stores them.
    package func note(_ seen: [PersonID: SeenAt]) {
        if seen.isEmpty { return }
        store.see(seen)
        for (person, moment) in seen { sightings[person] = max(sightings[person] ?? moment, moment) }
    }

    /// Stores the sightings of some people; true if more remain.
    package func fold(limit: Int) -> Bool {
        guard !needsRecovery else { return false }
        var part: [PersonID: SeenAt] = [:]
        while part.count < limit, let (person, moment) = sightings.popFirst() { part[person] = moment }
        do throws(StoreFault) {
            let isMore = try store.fold(part)
            return isMore || !sightings.isEmpty
        } catch {
            needsRecovery = true
            return false
        }
    }

    /// Gives the calls of the log to the store, and removes what is beyond a limit.
    ///
    /// - Parameter trims: whether the store removes what is beyond the limit even if there are no calls.
    package func writeLog(within limit: LogLimit, at now: Instant, trims: Bool = false, isLast: Bool = false) {
        guard !needsRecovery else { return }
        let segments = log.take(at: now, isLast: isLast)
        do throws(StoreFault) {
            if trims || !segments.isEmpty { try store.keep(segments, within: limit) }
            log.wrote()
        } catch {
            needsRecovery = true
            log.lose(segments, at: now)
        }
    }

    /// Notes that the call log may have calls of any erased people: the server before has not ended properly.
    func searchLogForErased() {
        let projects = store.directory.projects.keys
        let found = try? store.read { snapshot throws(StoreFault) in
            var people: Set<PersonID> = []
            for project in projects { people.formUnion(try snapshot.erasedPeople(in: project)) }
            return people
        }
        erased.formUnion(found ?? [])
    }

    /// Whether the call log may have calls of erased people.
    package var mustForget: Bool { forgetting != nil || !erased.isEmpty }

    /// Removes a part of the calls of erased people from the call log; true if more remains. The store has all calls of the log at
    /// the first step.
    package func forgetInLog(at now: Instant) -> Bool {
        guard !needsRecovery else { return false }
        if forgetting == nil {
            if erased.isEmpty { return false }
            writeLog(within: LogLimit(bytes: .max), at: now)
            forgetting = (erased, store.directory.projects.keys.sorted { $0.rawValue < $1.rawValue }, 0)
            erased = []
        }
        guard var search = forgetting, let project = search.projects.first else {
            forgetting = nil
            return !erased.isEmpty
        }
        do throws(StoreFault) {
            let page = try store.read { snapshot throws(StoreFault) in
                try snapshot.logged(in: project, after: search.after, limit: Writer.segmentsPerStep)
            }
            var calls = 0
            let changed = page.compactMap { stored -> LogSegment.Stored? in
                guard let left = stored.segment.forgetting(search.people) else { return nil }
                calls += left.calls
                return LogSegment.Stored(number: stored.number, left.segment)
            }
            if !changed.isEmpty { try store.replace(changed) }
            if calls > 0 {
                let note = LogSegment(project: project, last: .zero, at: now, content: .erased(calls: calls))
                try store.keep([note], within: LogLimit(bytes: .max))
            }
            search.after = page.last?.number ?? search.after
            if page.count < Writer.segmentsPerStep {
                (search.projects, search.after) = (Array(search.projects.dropFirst()), 0)
            }
            forgetting = search.projects.isEmpty ? nil : search
            return mustForget
        } catch {
            needsRecovery = true
            return false
        }
    }

    /// The greatest number of segments of the call log that one step of ``forgetInLog(at:)`` reads.
    private static let segmentsPerStep = 16

    /// Adds a note to the call log.
    func note(inLog segments: [LogSegment]) {
        guard !needsRecovery, !segments.isEmpty else { return }
        do throws(StoreFault) {
            try store.keep(segments, within: LogLimit())
        } catch {
            needsRecovery = true
        }
    }

    /// Removes a part of the rows and documents of erased people; true if more remains.
    package func sweep() -> Bool {
        guard !needsRecovery else { return false }
        do throws(StoreFault) {
            return try store.sweep()
        } catch {
            needsRecovery = true
            return false
        }
    }

    /// The number of accepted calls without a token since the last question, by dialect.
    func takeUnproven() -> [Dialect: Int] { daily.takeCounts() }

    /// The number of calls at a limit since the last question.
    func takeFull() -> [Full: Int] { daily.takeFull() }

    /// Runs one step of compaction; nil after a fault.
    package func compact() -> Compaction? {
        guard !needsRecovery else { return nil }
        do throws(StoreFault) {
            return try store.compact()
        } catch {
            needsRecovery = true
            return nil
        }
    }

    /// Removes some old rows. Returns what remains, and nil after the last row or a fault.
    func expire(_ old: OldRows, limit: Int) -> OldRows? {
        guard !needsRecovery else { return nil }
        do throws(StoreFault) {
            return try store.expire(old, limit: limit)
        } catch {
            needsRecovery = true
            return nil
        }
    }

    /// The number of projects.
    var projects: Int { store.directory.projects.count }

    /// Keeps the ends that retention has at a moment, and returns them; nil after a fault.
    func expireRows(_ retention: Retention, at now: Instant) -> [(project: ProjectID, kind: RowKind, end: ExpiredRows)]?
    {
        guard !needsRecovery else { return nil }
        var ends: [(project: ProjectID, kind: RowKind, end: ExpiredRows)] = []
        for project in store.directory.projects.keys.sorted(by: { $0.rawValue < $1.rawValue }) {
            // The store logs its own faults. The next pass tries again.
            guard let next = try? retention.ends(of: project, at: now, store) else { return nil }
            if !next.later.isEmpty {
                let job = Job(call: Call(project: project, key: nil), act: ExpireRows(next.later))
                guard case .success = process([job], at: now)[0] else { return nil }
            }
            for (kind, end) in next.all { ends.append((project, kind, end)) }
        }
        return ends
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

/// The calls of which the journal keeps only the first of a day: calls about a known user without a token, and calls at a
/// limit.
private struct DailyCalls {
    private struct Call: Hashable {
        let key: KeyID?
        let person: PersonID?
        let code: String
    }

    private var noted: Set<Call> = []
    private var day: Int64 = 0
    /// The number of accepted calls. The journal does not have all of them.
    private var taken: [Dialect: Int] = [:]
    private var full: [Full: Int] = [:]

    private static let notedAtMost = 65_536
    private static let dayMilliseconds: Int64 = 86_400_000

    mutating func count(_ dialect: Dialect) { taken[dialect, default: 0] += 1 }
    mutating func count(_ full: Full) { self.full[full, default: 0] += 1 }

    /// The number of calls at a limit since the last question.
    mutating func takeFull() -> [Full: Int] {
        defer { full = [:] }
        return full
    }

    /// The number of accepted calls since the last question.
    mutating func takeCounts() -> [Dialect: Int] {
        defer { taken = [:] }
        return taken
    }

    /// Whether the journal notes a call: only the first of a day with its key, person and reason.
    mutating func note(_ refusal: Refusal, _ key: KeyID?, at moment: Instant) -> Bool {
        let today = moment.milliseconds / DailyCalls.dayMilliseconds
        if today != day { (day, noted) = (today, []) }
        guard noted.count < DailyCalls.notedAtMost else { return false }
        return noted.insert(Call(key: key, person: refusal.about, code: refusal.code)).inserted
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
