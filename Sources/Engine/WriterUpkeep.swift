package import Domain

/// The writer's work between batches: it stores sightings and the call log, and removes what is erased or old, in small steps.
extension Writer {
    /// Stores the sightings of some people; true if more remain.
    package func fold(limit: Int) -> Bool {
        guard !needsRecovery else { return false }
        var part: [PersonID: SeenAt] = [:]
        while part.count < limit, let (person, moment) = sightings.popFirst() { part[person] = moment }
        do throws(StoreFault) {
            let isMore = try store.fold(part)
            return isMore || !sightings.isEmpty
        } catch {
            // A step after the recovery stores them.
            for (person, moment) in part { sightings[person] = moment }
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
    package func forgetAllErased() { forgetsAllErased = true }

    /// Whether the call log may have calls of erased people.
    package var mustForget: Bool { forgetting != nil || !erased.isEmpty || forgetsAllErased }

    /// Finds all erased people; false after a fault.
    private func findErased() -> Bool {
        let projects = store.directory.projects.keys
        do throws(StoreFault) {
            let found = try store.read { snapshot throws(StoreFault) in
                var people: Set<PersonID> = []
                for project in projects { people.formUnion(try snapshot.erasedPeople(in: project)) }
                return people
            }
            erased.formUnion(found)
            forgetsAllErased = false
            return true
        } catch {
            needsRecovery = true
            return false
        }
    }

    /// Removes a part of the calls of erased people from the call log; true if more remains. The store has all calls of the log at
    /// the first step.
    package func forgetInLog(at now: Instant) -> Bool {
        guard !needsRecovery else { return false }
        if forgetsAllErased, !findErased() { return false }
        if forgetting == nil {
            if erased.isEmpty { return false }
            writeLog(within: LogLimit(bytes: .max), at: now)
            // A step after the recovery begins again.
            guard !needsRecovery else { return false }
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

    /// Removes the content of some superseded versions of documents. Returns the place of the next step, which is the same after the
    /// last version and after a fault.
    func forgetVersions(after place: Int64, supersededUpTo call: JournalSequence, limit: Int) -> Int64 {
        guard !needsRecovery else { return place }
        do throws(StoreFault) {
            return try store.forgetVersions(after: place, supersededUpTo: call, limit: limit)
        } catch {
            needsRecovery = true
            return place
        }
    }

    /// Keeps the ends of history that retention has at a moment. Returns the earliest end; nil if a project's history has no end, and
    /// after a fault.
    func expireHistory(_ retention: Retention, at now: Instant) -> JournalSequence? {
        guard !needsRecovery else { return nil }
        var earliest: JournalSequence?
        for project in projectsInOrder {
            guard let next = try? retention.historyEnd(of: project, at: now, store) else { return nil }
            if next.isLater, !note(ExpireRows([:], history: HistoryEnd(next.end)), in: project, at: now) { return nil }
            earliest = min(earliest ?? next.end, next.end)
        }
        return earliest
    }

    /// The number of projects.
    var projects: Int { store.directory.projects.count }

    private var projectsInOrder: [ProjectID] {
        store.directory.projects.keys.sorted { $0.rawValue < $1.rawValue }
    }

    /// Notes ends of retention in the journal; false after a fault.
    private func note(_ ends: ExpireRows, in project: ProjectID, at now: Instant) -> Bool {
        let job = Job(call: Call(project: project, key: nil), act: ends)
        if case .success = process([job], at: now)[0] { return true }
        return false
    }

    /// Keeps the ends that retention has at a moment, and returns them; nil after a fault.
    func expireRows(_ retention: Retention, at now: Instant) -> [(project: ProjectID, kind: RowKind, end: ExpiredRows)]?
    {
        guard !needsRecovery else { return nil }
        var ends: [(project: ProjectID, kind: RowKind, end: ExpiredRows)] = []
        for project in projectsInOrder {
            // The store logs its own faults. The next pass tries again.
            guard let next = try? retention.ends(of: project, at: now, store) else { return nil }
            if !next.later.isEmpty, !note(ExpireRows(next.later), in: project, at: now) { return nil }
            for (kind, end) in next.all { ends.append((project, kind, end)) }
        }
        return ends
    }
}
