import Domain

/// Decides the calls of a batch one after the other, and collects what the calls make. Each call sees the changes of the calls
/// before it.
///
/// A batch is a value, and changes nothing but the facts of the batch: the writer takes over its results after the commit, and
/// drops them if the store keeps nothing.
struct BatchDecision {
    private let jobs: [Job]
    private let chances: [UInt64]
    /// The moment of the batch by the clock.
    let moment: Instant
    private let directory: Directory
    private let hash: KeyedHash
    private let order: SightingOrder

    /// An answer for each decided job, in the order of the jobs. A batch ends before its last job if its changes are large.
    private(set) var answers: [Writer.Answer] = []
    /// The bytes of the documents and rows of the batch.
    private var bytes = 0
    /// Whether the derived documents of groups go on with the changes.
    private var makesFolds = true
    private(set) var entries: [JournalEntry] = []
    /// The calls for the call log.
    private(set) var logged: [CallLog.Pending] = []
    private(set) var seen: [PersonID: SeenAt] = [:]
    private(set) var erased: Set<PersonID> = []
    /// The notes of today, with those of the batch.
    private(set) var daily: DailyCalls
    /// The greatest id of a person, and the last moment of the journal, with those of the batch.
    var lastPerson: PersonID?
    var lastStamp: Instant?

    /// The last moment of the journal, if the clock went back since: the batch begins with a note of the step.
    var steppedFrom: Instant?

    /// Whether the batch erased people, so that a sweep is due.
    var hasErased: Bool { !erased.isEmpty }

    /// How the decision of a batch ended.
    enum Ending {
        /// The jobs with an answer are decided.
        case decided
        /// A job of a group was refused after other jobs of the group were decided. Nothing of the batch may be kept: the jobs before the
        /// group must be decided again, and those of the group get these answers.
        case refused(first: Int, [Writer.Answer])
        /// Each job has an answer, and nothing of the batch may be kept.
        case rehearsed
    }

    /// Makes a batch in which nothing is decided yet.
    ///
    /// - Parameters:
    ///   - jobs: the jobs.
    ///   - chances: a random number for each job, so that a second decision makes the same ids.
    ///   - moment: the moment of the batch.
    ///   - directory: the projects and their rules.
    ///   - hash: the hash of the store.
    ///   - order: gives the places of sightings.
    ///   - daily: the notes of today.
    init(
        _ jobs: [Job], _ chances: [UInt64], at moment: Instant, _ directory: Directory, hash: KeyedHash,
        order: SightingOrder, daily: DailyCalls
    ) {
        self.jobs = jobs
        self.chances = chances
        self.moment = moment
        self.directory = directory
        self.hash = hash
        self.order = order
        self.daily = daily
        answers.reserveCapacity(jobs.count)
        entries.reserveCapacity(jobs.count)
    }

    /// The bytes of changes beyond which a batch ends: a small call may write a large document.
    static let bytesAtMost = 64 << 20

    /// Decides the jobs, up to the limit of bytes.
    mutating func decide(over facts: any BatchFacts) -> Ending {
        if jobs.first?.isRehearsal == true {
            rehearse(facts)
            return .rehearsed
        }
        noteStep(facts)
        var start = 0
        while start < jobs.count, bytes < BatchDecision.bytesAtMost {
            let end = end(ofGroupFrom: start)
            if end - start == 1 {
                answers.append(decide(start, facts))
            } else if let refusals = decide(groupOf: start..<end, facts) {
                return .refused(first: start, refusals)
            }
            start = end
        }
        return .decided
    }

    /// Decides the jobs one after the other, up to the first refusal.
    private mutating func rehearse(_ facts: any BatchFacts) {
        var isRefused = false
        for index in jobs.indices {
            // No decision comes after the last one, and folds may cost a step for each member of a group.
            makesFolds = index + 1 < jobs.count
            if isRefused {
                answers.append(.failure(.refused(.otherActRefused)))
                continue
            }
            let known = entries.count
            let answer = decide(index, facts)
            if case .failure = answer { isRefused = true }
            let made = entries[known...]
            answers.append(answer.map { Reply(Rehearsed($0, made.flatMap(\.changes), at: made.last?.at ?? moment)) })
        }
    }

    private func end(ofGroupFrom start: Int) -> Int {
        var end = start + 1
        while end < jobs.count, jobs[end].isWith(jobs[start]) { end += 1 }
        return end
    }

    /// Decides the jobs of a group, all or none. Returns the answers of all jobs if a job was refused after others were decided.
    private mutating func decide(groupOf range: Range<Int>, _ facts: any BatchFacts) -> [Writer.Answer]? {
        // Most groups that fail have a job that fails alone too. Nothing of such a group is applied.
        let bad = refusedJob(in: range, facts)
        for index in range {
            if let bad, bad != index {
                answers.append(.failure(.refused(.otherActRefused)))
                continue
            }
            let answer = decide(index, facts)
            if bad == nil, case .failure = answer {
                var refusals = range.map { _ in Writer.Answer.failure(.refused(.otherActRefused)) }
                refusals[index - range.lowerBound] = answer
                return refusals
            }
            answers.append(answer)
        }
        return nil
    }

    /// The first job of a group that is refused as a single job; nil if there is none.
    private mutating func refusedJob(in range: Range<Int>, _ facts: any BatchFacts) -> Int? {
        let stamp = stamp(0)
        return range.first { index in
            facts.verdict(on: jobs[index], stamp, directory.strategy(of: jobs[index].call.project)).refusal != nil
        }
    }

    // MARK: - One call

    private mutating func decide(_ index: Int, _ facts: any BatchFacts) -> Writer.Answer {
        let (job, stamp) = (jobs[index], stamp(chances[index]))
        let strategy = directory.strategy(of: job.call.project)
        switch facts.verdict(on: job, stamp, strategy) {
        case .repeated(let reply):
            return .success(reply)
        case .turnedAway(let refusal):
            refuse(job, refusal, Ruling(act: job.act), stamp, strategy, facts)
            return .failure(.refused(refusal))
        case .refused(let refusal, let ruling):
            log(ruling.act, job.call, isJournalled: false, person: nil, stamp, strategy, facts)
            refuse(job, refusal, ruling, stamp, strategy, facts)
            return .failure(.refused(refusal))
        case .decided(let decision, let ruling, let unproven):
            keep(decision, of: job, ruling, unproven: unproven, stamp, strategy, facts)
            return .success(decision.answer)
        }
    }

    /// Keeps a decision: its changes and what follows from them, the entry in the journal, the notes and the sighting.
    private mutating func keep(
        _ decision: Decision<Reply>, of job: Job, _ ruling: Ruling, unproven: Refusal?, _ stamp: Stamp,
        _ strategy: Strategy, _ facts: any BatchFacts
    ) {
        let (call, person) = (job.call, decision.answer.seen)
        var (isNew, full) = (false, decision.full)
        if var outcome = decision.outcome {
            assert(type(of: job.act).kinds.contains(outcome.kind), "An act is journalled as a kind of another.")
            if let userIDs = joining(outcome.linked, call, strategy) {
                let merges = facts.merges(userIDs, after: outcome.changes, stamp, in: call.project)
                outcome.changes += merges.changes
                full = full ?? merges.full
            }
            let folds = makesFolds ? facts.folds(after: outcome.changes, by: stamp.person, in: call.project) : []
            // Appending nothing would copy the changes.
            if !folds.isEmpty { outcome.changes += folds }
            let note = note(of: call, ruling, about: outcome.person, stamp, strategy)
            keep(JournalEntry(call, stamp, outcome, decision.answer, groupNote: note), facts)
            // The id is used, also if the call makes no person.
            use(stamp.person)
            if let last = PersonID.lastGiven(in: outcome.changes, of: stamp.person, upTo: stamp.journalledAt) {
                use(last)
            }
            for change in outcome.changes {
                isNew = isNew || change.makes(person)
                if case .personErased(let person) = change { erased.insert(person) }
            }
        }
        log(ruling.act, call, isJournalled: decision.outcome != nil, person: person, stamp, strategy, facts)
        if let full {
            noteFull(full, about: person ?? decision.outcome?.person, call, stamp, kind: full.note, facts)
        }
        if let unproven, let proof = call.proof {
            daily.count(proof.dialect)
            noteDaily(unproven, call, stamp, kind: .unproven, facts)
        }
        // A new person was seen when it was made.
        if let person, !isNew {
            facts.see(person, at: stamp.seen)
            seen[person] = stamp.seen
        }
    }

    /// Notes a refusal in the journal, if the journal has such refusals.
    private mutating func refuse(
        _ job: Job, _ refusal: Refusal, _ ruling: Ruling, _ stamp: Stamp, _ strategy: Strategy, _ facts: any BatchFacts
    ) {
        let call = job.call
        if refusal.tokenFault != nil {
            let permitted = job.act as? NoteUnproven
            if let permitted { daily.count(permitted.dialect) }
            noteDaily(refusal, call, stamp, kind: permitted == nil ? .refused : .unproven, facts)
        } else if let full = refusal.full {
            noteFull(full, about: refusal.about ?? job.act.subjects.about, call, stamp, kind: .refused, facts)
        } else if refusal.isJournalled {
            let person = job.act.subjects.about ?? refusal.about
            let note = note(of: call, ruling, about: person, stamp, strategy)
            keep(JournalEntry(call, stamp, refusal, person: person, groupNote: note), facts)
        }
    }

    // MARK: - What is kept

    private mutating func keep(_ entry: JournalEntry, _ facts: any BatchFacts) {
        facts.apply(entry)
        entries.append(entry)
        for change in entry.changes { bytes += change.bodyBytes }
    }

    /// Counts a call that found a person or a group at its limit, and notes the first such call of a day in the journal.
    private mutating func noteFull(
        _ full: Full, about person: PersonID?, _ call: Call, _ stamp: Stamp, kind: ActKind, _ facts: any BatchFacts
    ) {
        daily.count(full)
        guard let person else { return }
        let refusal = Refusal.full(full, about: person)
        if daily.note(refusal, nil, at: stamp.at) {
            keep(JournalEntry(call, stamp, refusal, person: person, kind: kind), facts)
        }
    }

    /// Notes the first refusal of a day with a key, a person and a reason in the journal.
    private mutating func noteDaily(
        _ refusal: Refusal, _ call: Call, _ stamp: Stamp, kind: ActKind, _ facts: any BatchFacts
    ) {
        if daily.note(refusal, call.key, at: stamp.at) {
            keep(JournalEntry(call, stamp, refusal, person: refusal.about, kind: kind), facts)
        }
    }

    /// The note of a call, by which an undo finds the calls that depended on a merge. An erasure finds the note of a call that
    /// is about nobody by the people of the call.
    private func note(
        of call: Call, _ ruling: Ruling, about person: PersonID?, _ stamp: Stamp, _ strategy: Strategy
    ) -> GroupNote? {
        let roots = person == nil ? ruling.groups.union(ruling.people) : ruling.groups
        return GroupNote(ruling.act, stamp, readRootsOf: roots, strategy)
    }

    /// Gives a call to the call log, if the rules of the project decide such calls. The entry of the call comes before.
    private mutating func log(
        _ act: any Act, _ call: Call, isJournalled: Bool, person: PersonID?, _ stamp: Stamp, _ strategy: Strategy,
        _ facts: any BatchFacts
    ) {
        guard let naming = act.naming,
            let packed = LoggedCall.pack(
                naming, at: stamp.journalledAt, isJournalled: isJournalled, person: person,
                holders: person == nil ? facts.holders(of: act.subjects.speaksFor, limit: 8) : [], strategy)
        else { return }
        logged.append(CallLog.Pending(packed: packed, project: call.project, entries: entries.count))
    }

    /// The user ids among some identities that other dialects may also have; nil if there are none, or if the project does not
    /// merge equal user ids.
    private func joining(
        _ identities: @autoclosure () -> [Identity], _ call: Call, _ strategy: Strategy
    ) -> SameUserID? {
        guard strategy.guards.joinsSameUserIDs else { return nil }
        // A merge through another dialect must not connect a caller with a user for whom the caller has no proof.
        let proof = strategy.guards.requiresProof ? call.proof : nil
        let userIDs = identities().filter { identity in
            SameUserID.types.contains(identity.type) && proof?.proves(identity.key) ?? true
        }
        if userIDs.isEmpty { return nil }
        return SameUserID(userIDs, except: strategy.blockedValues, in: call.project, hash: hash)
    }

    // MARK: - Ids and moments

    /// Notes that the clock went back. The journal goes on from the clock's moment, and ids of people go on growing.
    private mutating func noteStep(_ facts: any BatchFacts) {
        guard let before = steppedFrom, let job = jobs.first else { return }
        lastStamp = moment
        let stamp = stamp(0)
        let outcome = Outcome.clockStep(from: before, to: moment)
        keep(JournalEntry(Call(project: job.call.project, key: nil), stamp, outcome, Reply(Done())), facts)
        use(stamp.person)
    }

    /// The stamp of the next call. The journal's time does not go back within a few seconds, and ids of people only grow. The
    /// expiry of codes and grants uses the clock's time.
    private mutating func stamp(_ chance: UInt64) -> Stamp {
        let ordered = max(moment, lastStamp ?? moment)
        lastStamp = ordered
        var person = PersonID(at: ordered, chance: chance)
        if let lastPerson, person <= lastPerson { person = lastPerson.next }
        return Stamp(at: moment, journalledAt: ordered, person: person, seen: order.next(at: moment))
    }

    private mutating func use(_ person: PersonID) { lastPerson = max(lastPerson ?? person, person) }
}

extension BatchDecision: BatchNeeds {
    var replays: [ReplayKey] { jobs.compactMap { $0.call.replay?.key } }

    var keys: FactKeys {
        var keys = FactKeys()
        for job in jobs {
            keys.add(job.call, job.act)
            let strategy = directory.strategy(of: job.call.project)
            guard let userIDs = joining(job.act.subjects.userIDs, job.call, strategy) else { continue }
            for name in userIDs.names.values {
                for other in name.others { keys.add(other) }
            }
        }
        return keys
    }
}

extension Change {
    /// The bytes of a document or row.
    fileprivate var bodyBytes: Int {
        switch self {
        case .documentPut(_, _, let body): body.count
        case .rowAdded(_, let row): row.body.count
        case .personMade, .linked, .unlinked, .rowSuperseded, .merged, .mergeUndone, .personErased, .projectMade,
            .appMade, .keyMade, .appRevoked, .keyRevoked, .renamed, .strategySet:
            0
        }
    }

    /// Whether the change makes a person.
    fileprivate func makes(_ person: PersonID?) -> Bool {
        if case .personMade(let made, _) = self { made == person } else { false }
    }
}
