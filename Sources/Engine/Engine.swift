package import Domain
import Synchronization
import Threads

/// Counts events of the engine. The engine calls it on the writer's thread.
package protocol EngineObserver: AnyObject, Sendable {
    func committed(calls: Int, nanoseconds: UInt64)
    func faulted(_ fault: StoreFault)
    func recovered()
    /// The clock was set forward or back, to a moment.
    func clockJumped(to moment: Instant, byMilliseconds milliseconds: Int64)
    /// The engine accepted calls that named a known user without a token.
    func tookUnproven(_ dialect: Dialect, calls: Int)
    /// Calls found a person or a group at its limit.
    func metFull(_ full: Full, calls: Int)
}

/// The writer's thread and its queue. While the store writes a batch to the disk, the next calls gather. So the size of a
/// batch follows the load, and no call waits for a timer.
package final class Engine: Sendable {
    /// The limits of the queue and of batches, and the pauses of periodic work.
    package struct Limits: Equatable, Sendable {
        /// The limit of calls in the queue. Further calls are refused.
        package var queuedCalls = 16_384
        /// The limit of bytes in the queue. Further calls are refused.
        package var queuedBytes = 64 << 20
        /// The limit of calls in one batch.
        package var batchCalls = 1024
        /// The limit of bytes in one batch.
        package var batchBytes = 4 << 20
        /// The pause between two folds of sightings into the store.
        package var foldMilliseconds: Int64 = 60_000
        /// The limit of people in one step of a fold, so that no batch waits long.
        package var foldPeople = 128
        /// The pause between two compactions.
        package var compactMilliseconds: Int64 = 24 * 3600 * 1000
        /// The times for which rows are kept.
        package var retention = Retention()
        /// The pause between two writes of the call log.
        package var logMilliseconds: Int64 = 1000
        /// The limit of the call log, in bytes.
        package var logBytes = 1 << 30
        /// The buckets of the table that finds repeated calls, of eight bytes each.
        package var logBuckets = 1 << 20
        /// The limit of earlier calls that the table learns at a start. With more calls the log has each call.
        package var learnedCalls = 2_000_000
        /// The limit of sightings of each loop. Further sightings are dropped.
        package var sightings = 65_536

        package init() {}
    }

    /// A call that waits for the writer.
    private struct Waiting: Sendable {
        let lane: Int
        let job: Job
        /// The moment of its arrival, by the clock that nobody can set.
        let since: UInt64
    }

    private struct Queue: Sendable {
        var jobs: [Waiting] = []
        /// Jobs that the writer only rehearses. They wait beside the others, so that they do not cut the others' batches.
        var rehearsals: [Waiting] = []
        /// Whether the last batch was one of jobs, and a rehearsal has its turn.
        var isRehearsalNext = false
        /// The bytes of the waiting jobs.
        var bytes = 0
        var isStopping = false

        var count: Int { jobs.count + rehearsals.count }
    }

    private let store: any Store
    private let clock: @Sendable () -> Instant
    private let monotonic: @Sendable () -> UInt64
    private let limits: Limits
    private let observer: any EngineObserver
    /// Runs the answers of one loop on its thread. The writer's thread calls it.
    private let deliver: @Sendable (Int, @escaping @Sendable () -> Void) -> Void
    private let queue = Monitor(Queue())
    private let sightings: [Sightings]
    private let order: SightingOrder
    private let healthy = Atomic(true)
    /// The moment of the last journal entry, in milliseconds.
    private let journalMoment: Atomic<Int64>
    private let latestJournalMoment: Atomic<Int64>
    private let compaction = Monitor(CompactionStatus())
    private let thread = Monitor<WorkerThread?>(nil)
    private let seed: UInt64
    /// The work of an engine without a thread.
    private let stepped = Monitor<Work?>(nil)
    package let log: CallLog
    /// The number of this server in the call log.
    private let server: UInt64
    private let learner = Monitor<WorkerThread?>(nil)
    private let isEnding = Atomic(false)

    /// The sightings of one loop. A class, because a lock must not move in memory.
    private final class Sightings: Sendable {
        let people = Monitor<[PersonID: SeenAt]>([:])
    }

    /// Starts the writer.
    ///
    /// - Parameters:
    ///   - lanes: the number of loops that take answers.
    ///   - seed: the seed of the random parts of ids. No secret depends on it.
    ///   - hasThread: whether the writer has a thread. Without it, the owner calls ``step()``.
    ///   - deliver: runs some work soon on the thread of a loop.
    package init(
        store: any Store, lanes: Int, limits: Limits = Limits(), clock: @escaping @Sendable () -> Instant,
        monotonic: @escaping @Sendable () -> UInt64, observer: any EngineObserver,
        seed: UInt64 = .random(in: .min ... .max), hasThread: Bool = true,
        deliver: @escaping @Sendable (Int, @escaping @Sendable () -> Void) -> Void
    ) {
        self.store = store
        self.limits = limits
        self.clock = clock
        self.monotonic = monotonic
        self.observer = observer
        self.deliver = deliver
        journalMoment = Atomic(store.lastMoment?.milliseconds ?? .min)
        latestJournalMoment = Atomic(store.latestMoment?.milliseconds ?? .min)
        sightings = (0..<lanes).map { _ in Sightings() }
        order = SightingOrder(after: store.latestMoment)
        self.seed = seed
        var generator = FastGenerator(seed: ~seed)
        server = max(1, generator.next())
        log = CallLog(
            after: store.counts.lastSequence, writer: store.isShared ? server : 0, buckets: limits.logBuckets)
        if hasThread {
            let thread = WorkerThread(name: "onym-writer") { [self] in run() }
            self.thread.withLock { $0 = thread }
        } else {
            let work = begin()
            if log.findsRepeats { learn() }
            stepped.withLock { $0 = work }
        }
    }

    /// Whether the store accepts commits.
    package var isHealthy: Bool { healthy.load(ordering: .relaxed) }

    // MARK: - Time

    /// The difference between clock and expectation up to which no jump is reported.
    package static let clockSlackMilliseconds = ClockStep.slackMilliseconds

    /// The time by which the clock is behind the last call of the journal; 0 for a very small difference. The clock was ahead, or
    /// is behind now. The next call notes a step of the clock, and the journal goes on by the clock.
    package var clockBehindMilliseconds: Int64 {
        let last = journalMoment.load(ordering: .relaxed)
        guard last != .min else { return 0 }
        let behind = last - clock().milliseconds
        return behind > Engine.clockSlackMilliseconds ? behind : 0
    }

    /// The latest moment of the journal, while the clock is behind it; nil otherwise. It stays after a step of the clock.
    package var momentAhead: Instant? {
        let latest = Instant(milliseconds: latestJournalMoment.load(ordering: .relaxed))
        return ClockStep.isBack(from: latest, to: clock()) ? latest : nil
    }

    // MARK: - Compaction

    /// The progress of a compaction.
    package struct CompactionStatus: Equatable, Sendable {
        package var isRunning = false
        /// A reader still needs removed pages. The compaction continues after the reader ends.
        package var isHeld = false
        /// The number of pages returned by the present compaction.
        package var pages = 0
        /// The end of the last compaction.
        package var doneAt: Instant?

        package init() {}
    }

    package var compactionStatus: CompactionStatus { compaction.withLock { $0 } }

    /// Starts a compaction soon. It runs in small steps.
    package func requestCompaction() {
        compaction.withLock { status in
            if status.isRunning { return }
            status.isRunning = true
            status.pages = 0
        }
        // This wakes the writer, which may wait for calls.
        queue.change { _ in }
    }

    /// Runs one step of a compaction, and returns the pause before the next step.
    private func compact(_ writer: Writer, at now: Instant) -> Int64 {
        guard compaction.withLock({ $0.isRunning }) else { return Int64(Engine.foldPauseMilliseconds) }
        let step = writer.compact()
        compaction.withLock { status in
            status.isHeld = step == .held
            switch step {
            case .step(let pages): status.pages += pages
            case .held, nil: break
            case .done: (status.isRunning, status.doneAt) = (false, now)
            }
        }
        // Each step waits a little for the reader, and calls wait for the step. So the pauses between such steps are longer.
        return step == .held ? Engine.heldPauseMilliseconds : Int64(Engine.foldPauseMilliseconds)
    }

    /// The number of calls that wait for the writer.
    package var queueDepth: Int { queue.withLock { $0.count } }

    /// The time for which the oldest call in the queue has waited, in milliseconds; 0 for an empty queue.
    package var oldestMilliseconds: Int64 {
        let oldest = queue.withLock { queue in
            [queue.jobs.first, queue.rehearsals.first].compactMap { $0?.since }.min()
        }
        guard let since = oldest else { return 0 }
        return Int64((max(monotonic(), since) - since) / 1_000_000)
    }

    // MARK: - For the loops

    /// Answers a call at once if the call changes nothing.
    package func peek(_ call: Call, _ act: any Act, lane: Int, at now: Instant) -> Peek {
        let peek = store.peek(call, act, Stamp(at: now, person: PersonID(rawValue: 0)))
        if let naming = act.naming { note(naming, call, act, peek, at: now) }
        if case .reply(let reply) = peek, let person = reply.seen {
            sightings[lane].people.withLock { people in
                if people.count < limits.sightings || people[person] != nil {
                    people[person] = order.next(at: now)
                }
            }
        }
        return peek
    }

    /// Gives a call that the rules decided without the writer to the call log.
    private func note(_ naming: NamingAct, _ call: Call, _ act: any Act, _ peek: Peek, at now: Instant) {
        var person: PersonID?
        switch peek {
        case .needsWriter: return
        case .reply(let reply): person = reply.seen
        case .refusal: break
        }
        let strategy = store.directory.strategy(of: call.project)
        // A caller without a proof may have made a smaller call.
        let decided = strategy.guards.requiresProof ? call.permitted(act, strategy).naming ?? naming : naming
        guard let packed = LoggedCall.pack(decided, at: now, isJournalled: false, person: person, strategy) else {
            return
        }
        log.add(packed, in: call.project)
    }

    /// Puts all jobs into the queue, or no job if the queue is full or the engine stops.
    package func submit(_ jobs: [Job], lane: Int) -> Bool {
        let (bytes, now) = (jobs.reduce(0) { $0 + $1.act.byteCount }, monotonic())
        return queue.change { queue in
            guard !queue.isStopping, queue.count + jobs.count <= limits.queuedCalls,
                queue.count == 0 || queue.bytes + bytes <= limits.queuedBytes
            else { return false }
            for job in jobs {
                let waiting = Waiting(lane: lane, job: job, since: now)
                if job.isRehearsal { queue.rehearsals.append(waiting) } else { queue.jobs.append(waiting) }
            }
            queue.bytes += bytes
            return true
        }
    }

    /// Ends without an answer to the calls in the queue, as a process does that ends.
    package func abandon() {
        queue.change { queue in (queue.isStopping, queue.jobs, queue.rehearsals, queue.bytes) = (true, [], [], 0) }
    }

    /// Answers the calls in the queue and ends the writer. Returns after the end.
    package func stop() {
        queue.change { $0.isStopping = true }
        thread.withLock { $0.take() }?.join()
        if let work = stepped.withLock({ $0.take() }) {
            while turn(work, waits: false) {}
            end(work)
        }
    }

    /// Does what is due now, and returns at once. It is for an engine without a thread.
    package func step() {
        guard let work = stepped.withLock({ $0 }) else { return }
        _ = turn(work, waits: false)
    }

    // MARK: - The writer's thread

    /// The writer, and the times of its periodic work. Only the writer's thread uses it.
    private final class Work: @unchecked Sendable {
        let writer: Writer
        var watch: ClockWatch
        var pass: RetentionPass
        var logAt: Instant
        var foldAt: Instant
        var compactAt: Instant
        var trimAt: Instant
        var beatAt: Instant
        /// A fold of many people has small steps, with room for batches between the steps.
        var stepAt: Instant
        var isFolding = false
        var isExpiring = false
        /// A sweep continues after a restart in the middle of it.
        var isSweeping = true
        var hasSwept = false
        var isForgetting: Bool
        var recoveryPause = Engine.recoveryMilliseconds.lowerBound
        /// The moment of the next attempt to recover, by the clock that only counts. An engine with a thread waits for it instead.
        var recoverAt: UInt64 = 0

        init(_ writer: Writer, _ limits: Limits, at now: Instant, _ monotonic: @escaping @Sendable () -> UInt64) {
            self.writer = writer
            watch = ClockWatch(now, monotonic())
            pass = RetentionPass(limits.retention, monotonic: monotonic)
            logAt = now.advanced(byMilliseconds: limits.logMilliseconds)
            foldAt = now.advanced(byMilliseconds: limits.foldMilliseconds)
            compactAt = now.advanced(byMilliseconds: limits.compactMilliseconds)
            beatAt = now.advanced(byMilliseconds: Engine.beatMilliseconds)
            (stepAt, trimAt) = (now, now)
            isForgetting = writer.mustForget
            // A start cannot tell a step ahead from hours without calls.
            if let last = writer.journalMoment { pass.rest(afterAhead: now.milliseconds - last.milliseconds) }
        }

        var isBusy: Bool { isFolding || isExpiring || isSweeping || isForgetting }

        /// Makes due what would be due much later by a clock that was ahead.
        func bringForward(to now: Instant, _ limits: Limits) {
            foldAt = min(foldAt, now.advanced(byMilliseconds: limits.foldMilliseconds))
            compactAt = min(compactAt, now.advanced(byMilliseconds: limits.compactMilliseconds))
            (logAt, trimAt, beatAt, stepAt) = (min(logAt, now), min(trimAt, now), min(beatAt, now), min(stepAt, now))
        }
    }

    private func run() {
        let work = begin()
        if log.findsRepeats {
            let learner = WorkerThread(name: "onym-call-log") { [self] in learn() }
            self.learner.withLock { $0 = learner }
        }
        while turn(work, waits: true) {}
        end(work)
    }

    private func begin() -> Work {
        var generator = FastGenerator(seed: seed)
        let writer = Writer(store: store, order: order, log: log) { generator.next() }
        openLog(writer)
        return Work(writer, limits, at: clock(), monotonic)
    }

    /// Decides the next batch, and does the periodic work that is due. False at the end.
    private func turn(_ work: Work, waits: Bool) -> Bool {
        let writer = work.writer
        if writer.needsRecovery { return recover(work, waits: waits) }
        let isBusy = work.isBusy || compaction.withLock { $0.isRunning }
        let wait = isBusy ? Engine.foldPauseMilliseconds : Engine.idleMilliseconds
        let batch = queue.wait(milliseconds: waits ? wait : 0) { queue in
            queue.count > 0 ? take(&queue) : queue.isStopping ? [] : nil
        }
        // The sightings come before the batch, because a choice between equal people depends on them.
        writer.note(takeSightings())
        // A call that has met another clock is answered when the step is known.
        _ = noteClock(work)
        if let batch {
            if batch.isEmpty { return false }
            process(batch, writer)
            if writer.hasErased { (work.isSweeping, work.isForgetting) = (true, true) }
        }
        // Other servers of a shared store move the journal on as well.
        publishMoments(of: writer)
        let now = noteClock(work)
        writeLog(work, at: now)
        if now >= work.foldAt {
            work.isFolding = true
            work.isExpiring = true
            work.pass.begin()
            work.foldAt = now.advanced(byMilliseconds: limits.foldMilliseconds)
        }
        if now >= work.compactAt {
            work.compactAt = now.advanced(byMilliseconds: limits.compactMilliseconds)
            requestCompaction()
        }
        if isBusy || work.isBusy, now >= work.stepAt {
            work.stepAt = now.advanced(byMilliseconds: stepPeriodicWork(work, at: now))
        }
        return true
    }

    /// Writes the call log if it is due, and notes in a shared store that this server still writes it.
    private func writeLog(_ work: Work, at now: Instant) {
        if now >= work.logAt || log.isWanted {
            // Calls grow too old also while no call comes.
            let trims = now >= work.trimAt
            if trims { work.trimAt = now.advanced(byMilliseconds: limits.foldMilliseconds) }
            work.writer.writeLog(within: logLimit(at: now), at: now, trims: trims)
            work.logAt = now.advanced(byMilliseconds: limits.logMilliseconds)
        }
        if store.isShared, now >= work.beatAt {
            work.beatAt = now.advanced(byMilliseconds: Engine.beatMilliseconds)
            work.writer.note(inLog: [opened(at: now)])
            noteDeadServers(work.writer, at: now)
            if work.writer.mustForget { work.isForgetting = true }
        }
    }

    /// Runs one step of one kind of periodic work, and returns the pause before the next step.
    private func stepPeriodicWork(_ work: Work, at now: Instant) -> Int64 {
        let writer = work.writer
        if work.isFolding {
            work.isFolding = writer.fold(limit: limits.foldPeople)
        } else if work.isExpiring {
            work.isExpiring = work.pass.step(writer, at: now)
        } else if work.isSweeping {
            work.isSweeping = writer.sweep()
            if work.isSweeping { work.hasSwept = true }
            // After a sweep, a compaction removes the bytes from the files too.
            if !work.isSweeping, work.hasSwept {
                work.hasSwept = false
                requestCompaction()
            }
        } else if work.isForgetting {
            work.isForgetting = writer.forgetInLog(at: now)
        } else {
            return compact(writer, at: now)
        }
        return Int64(Engine.foldPauseMilliseconds)
    }

    private func end(_ work: Work) {
        let writer = work.writer
        writer.note(takeSightings())
        while writer.fold(limit: limits.foldPeople) {}
        isEnding.store(true, ordering: .relaxed)
        learner.withLock { $0.take() }?.join()
        let now = clock()
        while writer.forgetInLog(at: now) {}
        writer.writeLog(within: logLimit(at: now), at: now, isLast: true)
        // The next start notes a gap and searches the log, unless all of this is in the store.
        guard !writer.mustForget, !writer.needsRecovery else { return }
        writer.note(inLog: [
            LogSegment(project: LogSegment.server, last: .zero, at: now, content: .closed(server))
        ])
    }

    /// Notes in the call log that this server writes it now.
    private func openLog(_ writer: Writer) {
        let now = clock()
        noteDeadServers(writer, at: now)
        writer.note(inLog: [opened(at: now)])
    }

    private func opened(at now: Instant) -> LogSegment {
        LogSegment(project: LogSegment.server, last: .zero, at: now, content: .opened(server))
    }

    /// Adds a gap to the log of each project for each server that has not ended properly, because its last calls may be missing. Servers
    /// that share a store say regularly that they write the log.
    private func noteDeadServers(_ writer: Writer, at now: Instant) {
        let notes = try? store.read { snapshot throws(StoreFault) in try snapshot.logNotes(in: LogSegment.server) }
        let silent = now.advanced(byMilliseconds: -Engine.silentMilliseconds)
        let dead = (notes ?? []).filter { note in
            guard case .opened(let other) = note.content, other != server else { return false }
            return !store.isShared || note.at < silent
        }
        if dead.isEmpty { return }
        let last = store.counts.lastSequence
        let gap = 2 * limits.logMilliseconds * Int64(dead.count)
        let gaps = store.directory.projects.keys.sorted { $0.rawValue < $1.rawValue }.map { project in
            LogSegment(project: project, last: last, at: now, content: .gap(milliseconds: gap))
        }
        let closed = dead.compactMap { note -> LogSegment? in
            guard case .opened(let other) = note.content else { return nil }
            return LogSegment(project: LogSegment.server, last: .zero, at: now, content: .closed(other))
        }
        writer.note(inLog: gaps + closed)
        writer.forgetAllErased()
    }

    /// The pause between two notes of a server that writes the call log of a shared store, and the time without such a note after which
    /// the server counts as ended.
    private static let beatMilliseconds: Int64 = 5000
    private static let silentMilliseconds: Int64 = 20_000

    /// Teaches the log its naming components. Until the end each call is kept.
    private func learn() {
        // The store logs its own faults, and then the log keeps each call.
        try? log.learn(from: store, limit: limits.learnedCalls) { [self] in isEnding.load(ordering: .relaxed) }
    }

    /// What the call log may hold at a moment.
    private func logLimit(at now: Instant) -> LogLimit {
        var limit = LogLimit(bytes: limits.logBytes)
        let directory = store.directory
        for project in directory.projects.keys {
            let days = Int64(directory.strategy(of: project).guards.dryRunDays)
            limit.oldest[project] = now.advanced(byMilliseconds: -days * 24 * 3600 * 1000)
        }
        return limit
    }

    /// Takes the next batch from the queue, or the next rehearsal if it is its turn.
    private func take(_ queue: inout Queue) -> [Waiting] {
        if let first = queue.rehearsals.first, queue.isRehearsalNext || queue.jobs.isEmpty {
            queue.isRehearsalNext = false
            let group = queue.rehearsals.prefix { $0.job.isWith(first.job) }
            queue.rehearsals.removeFirst(group.count)
            queue.bytes -= group.reduce(0) { $0 + $1.job.act.byteCount }
            return Array(group)
        }
        queue.isRehearsalNext = true
        var end = 0
        var bytes = 0
        while end < queue.jobs.count {
            let more = queue.jobs[end].job.act.byteCount
            // A group is in one batch, even over the limits: the limits of a request bound the group.
            let continues = end > 0 && queue.jobs[end].job.isWith(queue.jobs[end - 1].job)
            if !continues, end >= limits.batchCalls || (bytes + more > limits.batchBytes && end > 0) { break }
            bytes += more
            end += 1
        }
        queue.bytes -= bytes
        if end == queue.jobs.count {
            defer { queue.jobs = [] }
            return queue.jobs
        }
        // This removes the jobs from the array itself, so that a busy queue keeps no old jobs in memory.
        defer { queue.jobs.removeFirst(end) }
        return Array(queue.jobs[..<end])
    }

    private func process(_ batch: [Waiting], _ writer: Writer) {
        let start = monotonic()
        let answers = writer.process(batch.map(\.job), at: clock())
        // Whoever has an answer finds its moment.
        publishMoments(of: writer)
        if case .failure(.fault(let fault)) = answers.first {
            healthy.store(false, ordering: .relaxed)
            observer.faulted(fault)
        } else if batch.first?.job.isRehearsal != true {
            observer.committed(calls: batch.count, nanoseconds: monotonic() &- start)
            for (full, calls) in writer.takeFull() { observer.metFull(full, calls: calls) }
            for (dialect, calls) in writer.takeUnproven() { observer.tookUnproven(dialect, calls: calls) }
        }
        answer(batch, answers)
    }

    /// Reports a clock that was set since the last look, and returns its moment.
    private func noteClock(_ work: Work) -> Instant {
        let now = clock()
        guard let jump = work.watch.look(now, monotonic()) else { return now }
        observer.clockJumped(to: now, byMilliseconds: jump)
        work.pass.rest(afterAhead: jump)
        work.bringForward(to: now, limits)
        return now
    }

    /// Publishes to all threads the moments of the journal.
    private func publishMoments(of writer: Writer) {
        if let last = writer.journalMoment { journalMoment.store(last.milliseconds, ordering: .relaxed) }
        if let latest = writer.latestMoment { latestJournalMoment.store(latest.milliseconds, ordering: .relaxed) }
    }

    /// Delivers the answers of each loop together.
    private func answer(_ batch: [Waiting], _ answers: [Writer.Answer]) {
        for lane in sightings.indices {
            var answered: [(Job, Writer.Answer)] = []
            for (index, entry) in batch.enumerated() where entry.lane == lane {
                answered.append((entry.job, answers[index]))
            }
            if answered.isEmpty { continue }
            let done = answered
            deliver(lane) {
                for (job, answer) in done { job.done(answer) }
            }
        }
    }

    /// Collects the sightings of all loops.
    private func takeSightings() -> [PersonID: SeenAt] {
        var seen: [PersonID: SeenAt] = [:]
        for lane in sightings {
            let people = lane.people.withLock { people in
                defer { people = [:] }
                return people
            }
            seen.merge(people) { max($0, $1) }
        }
        return seen
    }

    /// Tries once to open the store again after a fault, and refuses the waiting calls if it cannot be opened. False at the end.
    private func recover(_ work: Work, waits: Bool) -> Bool {
        healthy.store(false, ordering: .relaxed)
        // The last attempt does not wait for its time: the calls in the queue get an answer before the end.
        if !waits, monotonic() < work.recoverAt, !queue.withLock({ $0.isStopping }) { return true }
        // The fault may have come from either.
        (work.isSweeping, work.isForgetting) = (true, work.writer.mustForget)
        guard let fault = work.writer.recover() else {
            work.recoveryPause = Engine.recoveryMilliseconds.lowerBound
            healthy.store(true, ordering: .relaxed)
            observer.recovered()
            return true
        }
        observer.faulted(fault)
        work.recoverAt = monotonic() + UInt64(work.recoveryPause) * 1_000_000
        let isStopping: Bool? = queue.wait(milliseconds: waits ? work.recoveryPause : 0) { $0.isStopping ? true : nil }
        let batch = queue.withLock { queue in
            defer { (queue.jobs, queue.rehearsals, queue.bytes) = ([], [], 0) }
            return queue.jobs + queue.rehearsals
        }
        answer(batch, batch.map { _ in .failure(.fault(fault)) })
        work.recoveryPause = min(work.recoveryPause * 2, Engine.recoveryMilliseconds.upperBound)
        return isStopping == nil
    }

    private static let idleMilliseconds = 1000
    private static let foldPauseMilliseconds = 10
    private static let heldPauseMilliseconds: Int64 = 1000
    private static let recoveryMilliseconds = 50...2000
}

/// Compares the system clock, which can be set, with a clock that only counts.
private struct ClockWatch {
    private var wall: Instant
    private var counted: UInt64

    init(_ wall: Instant, _ counted: UInt64) { (self.wall, self.counted) = (wall, counted) }

    /// The milliseconds by which the clock was set since the last look; nil if it was not set.
    mutating func look(_ wall: Instant, _ counted: UInt64) -> Int64? {
        let went = Int64((counted &- self.counted) / 1_000_000)
        let jump = wall.milliseconds - self.wall.milliseconds - went
        (self.wall, self.counted) = (wall, counted)
        return abs(jump) > Engine.clockSlackMilliseconds ? jump : nil
    }
}

/// A fast generator of evenly distributed numbers (SplitMix64). No secret depends on it.
package struct FastGenerator: RandomNumberGenerator, Sendable {
    private var state: UInt64

    package init(seed: UInt64) { state = seed }

    package mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var bits = state
        bits = (bits ^ bits >> 30) &* 0xBF58_476D_1CE4_E5B9
        bits = (bits ^ bits >> 27) &* 0x94D0_49BB_1331_11EB
        return bits ^ bits >> 31
    }
}
