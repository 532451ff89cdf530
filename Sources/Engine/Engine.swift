package import Domain
import Synchronization
import Threads

/// Counts events of the engine. The engine calls it on the writer's thread.
package protocol EngineObserver: AnyObject, Sendable {
    func committed(calls: Int, nanoseconds: UInt64)
    func faulted(_ fault: StoreFault)
    func recovered()
    /// The clock was set forward or back.
    func clockJumped(byMilliseconds milliseconds: Int64)
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

    private struct Queue: Sendable {
        var jobs: [(lane: Int, job: Job)] = []
        /// The bytes of the waiting jobs.
        var bytes = 0
        var isStopping = false
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
    private let compaction = Monitor(CompactionStatus())
    private let thread = Monitor<WorkerThread?>(nil)
    package let log: CallLog
    /// The number of this server in the call log.
    private let server = UInt64.random(in: 1 ... .max)
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
    ///   - deliver: runs some work soon on the thread of a loop.
    package init(
        store: any Store, lanes: Int, limits: Limits = Limits(), clock: @escaping @Sendable () -> Instant,
        monotonic: @escaping @Sendable () -> UInt64, observer: any EngineObserver,
        deliver: @escaping @Sendable (Int, @escaping @Sendable () -> Void) -> Void
    ) {
        self.store = store
        self.limits = limits
        self.clock = clock
        self.monotonic = monotonic
        self.observer = observer
        self.deliver = deliver
        journalMoment = Atomic(store.lastMoment?.milliseconds ?? .min)
        sightings = (0..<lanes).map { _ in Sightings() }
        order = SightingOrder(after: store.lastMoment)
        log = CallLog(
            after: store.counts.lastSequence, writer: store.isShared ? server : 0, buckets: limits.logBuckets)
        let thread = WorkerThread(name: "onym-writer") { [self] in run() }
        self.thread.withLock { $0 = thread }
    }

    /// Whether the store accepts commits.
    package var isHealthy: Bool { healthy.load(ordering: .relaxed) }

    // MARK: - Time

    /// The difference between clock and expectation up to which no jump is reported.
    package static let clockSlackMilliseconds: Int64 = 10_000

    /// The time by which the clock is behind the journal; 0 for a very small difference. The journal's time never goes back,
    /// so the clock was ahead once or is behind now. Until the clock catches up, all entries of the journal have one moment.
    package var clockBehindMilliseconds: Int64 {
        let last = journalMoment.load(ordering: .relaxed)
        guard last != .min else { return 0 }
        let behind = last - clock().milliseconds
        return behind > Engine.clockSlackMilliseconds ? behind : 0
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
    package var queueDepth: Int { queue.withLock { $0.jobs.count } }

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
        let bytes = jobs.reduce(0) { $0 + $1.act.byteCount }
        return queue.change { queue in
            guard !queue.isStopping, queue.jobs.count + jobs.count <= limits.queuedCalls,
                queue.jobs.isEmpty || queue.bytes + bytes <= limits.queuedBytes
            else { return false }
            for job in jobs { queue.jobs.append((lane, job)) }
            queue.bytes += bytes
            return true
        }
    }

    /// Answers the calls in the queue and ends the writer. Returns after the end.
    package func stop() {
        queue.change { $0.isStopping = true }
        thread.withLock { $0.take() }?.join()
    }

    // MARK: - The writer's thread

    private func run() {
        var generator = FastGenerator(seed: UInt64.random(in: .min ... .max))
        let writer = Writer(store: store, order: order, log: log) { generator.next() }
        openLog(writer)
        if log.findsRepeats {
            let learner = WorkerThread(name: "onym-call-log") { [self] in learn() }
            self.learner.withLock { $0 = learner }
        }
        var isForgetting = writer.mustForget
        var beatAt = clock().advanced(byMilliseconds: Engine.beatMilliseconds)
        var logAt = clock().advanced(byMilliseconds: limits.logMilliseconds)
        var trimAt = clock()
        var foldAt = clock().advanced(byMilliseconds: limits.foldMilliseconds)
        var watch = ClockWatch(clock(), monotonic())
        // A fold of many people has small steps, with room for batches between the steps.
        var (isFolding, stepAt) = (false, clock())
        var (pass, isLettingGo) = (RetentionPass(limits.retention, monotonic: monotonic), false)
        // A sweep continues after a restart in the middle of it.
        var (isSweeping, hasSwept, compactAt) = (
            true, false, clock().advanced(byMilliseconds: limits.compactMilliseconds)
        )
        while true {
            let isBusy = isFolding || isLettingGo || isSweeping || isForgetting || compaction.withLock { $0.isRunning }
            let wait = isBusy ? Engine.foldPauseMilliseconds : Engine.idleMilliseconds
            let batch = queue.wait(milliseconds: wait) { queue in
                !queue.jobs.isEmpty ? take(&queue) : queue.isStopping ? [] : nil
            }
            // The sightings come before the batch, because a choice between equal people depends on them.
            writer.note(takeSightings())
            if let batch {
                if batch.isEmpty { break }
                process(batch, writer)
                if writer.hasErased { (isSweeping, isForgetting) = (true, true) }
            }
            let now = clock()
            if let last = writer.journalMoment { journalMoment.store(last.milliseconds, ordering: .relaxed) }
            if let jump = watch.look(now, monotonic()) {
                observer.clockJumped(byMilliseconds: jump)
                // A clock that was ahead must not delay periodic work.
                foldAt = min(foldAt, now.advanced(byMilliseconds: limits.foldMilliseconds))
                compactAt = min(compactAt, now.advanced(byMilliseconds: limits.compactMilliseconds))
                stepAt = min(stepAt, now)
                (logAt, trimAt, beatAt) = (min(logAt, now), min(trimAt, now), min(beatAt, now))
            }
            if now >= logAt || log.isWanted {
                // Calls grow too old also while no call comes.
                let trims = now >= trimAt
                if trims { trimAt = now.advanced(byMilliseconds: limits.foldMilliseconds) }
                writer.writeLog(within: logLimit(at: now), at: now, trims: trims)
                logAt = now.advanced(byMilliseconds: limits.logMilliseconds)
            }
            if store.isShared, now >= beatAt {
                beatAt = now.advanced(byMilliseconds: Engine.beatMilliseconds)
                writer.note(inLog: [opened(at: now)])
                noteDeadServers(writer, at: now)
            }
            if now >= foldAt {
                isFolding = true
                isLettingGo = true
                pass.begin()
                foldAt = now.advanced(byMilliseconds: limits.foldMilliseconds)
            }
            if now >= compactAt {
                compactAt = now.advanced(byMilliseconds: limits.compactMilliseconds)
                requestCompaction()
            }
            if isBusy || isSweeping || isFolding, now >= stepAt {
                var pause = Int64(Engine.foldPauseMilliseconds)
                // Only one kind of work runs in one step.
                if isFolding {
                    isFolding = writer.fold(limit: limits.foldPeople)
                } else if isLettingGo {
                    isLettingGo = pass.step(writer, at: now)
                } else if isSweeping {
                    isSweeping = writer.sweep()
                    if isSweeping { hasSwept = true }
                    // After a sweep, a compaction removes the bytes from the files too.
                    if !isSweeping, hasSwept {
                        hasSwept = false
                        requestCompaction()
                    }
                } else if isForgetting {
                    isForgetting = writer.forgetInLog(at: now)
                } else {
                    pause = compact(writer, at: now)
                }
                stepAt = now.advanced(byMilliseconds: pause)
            }
            if writer.needsRecovery {
                healthy.store(false, ordering: .relaxed)
                recover(writer)
                // The fault may have come from the sweep.
                isSweeping = true
            }
        }
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
        writer.searchLogForErased()
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

    /// Takes the next batch from the queue.
    private func take(_ queue: inout Queue) -> [(lane: Int, job: Job)] {
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

    private func process(_ batch: [(lane: Int, job: Job)], _ writer: Writer) {
        let start = monotonic()
        let answers = writer.process(batch.map(\.job), at: clock())
        if case .failure(.fault(let fault)) = answers.first {
            healthy.store(false, ordering: .relaxed)
            observer.faulted(fault)
        } else {
            observer.committed(calls: batch.count, nanoseconds: monotonic() &- start)
            for (full, calls) in writer.takeFull() { observer.metFull(full, calls: calls) }
            for (dialect, calls) in writer.takeUnproven() { observer.tookUnproven(dialect, calls: calls) }
        }
        answer(batch, answers)
    }

    /// Delivers the answers of each loop together.
    private func answer(_ batch: [(lane: Int, job: Job)], _ answers: [Writer.Answer]) {
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

    /// Refuses calls until the store can be opened again.
    private func recover(_ writer: Writer) {
        var pause = Engine.recoveryMilliseconds.lowerBound
        while let fault = writer.recover() {
            observer.faulted(fault)
            let waited: Bool? = queue.wait(milliseconds: pause) { $0.isStopping ? true : nil }
            let batch = queue.withLock { queue in
                defer { (queue.jobs, queue.bytes) = ([], 0) }
                return queue.jobs
            }
            answer(batch, batch.map { _ in .failure(.fault(fault)) })
            if waited != nil { return }
            pause = min(pause * 2, Engine.recoveryMilliseconds.upperBound)
        }
        healthy.store(true, ordering: .relaxed)
        observer.recovered()
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
