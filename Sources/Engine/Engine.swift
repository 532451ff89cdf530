package import Domain
import Synchronization
import Threads

/// What the engine tells whoever counts. Called on the writer's thread.
package protocol EngineObserver: AnyObject, Sendable {
    func committed(calls: Int, nanoseconds: UInt64)
    func faulted(_ fault: StoreFault)
    func recovered()
    /// The clock went on by more, or less, than time did.
    func clockJumped(byMilliseconds milliseconds: Int64)
    /// Calls were taken that have named a known user and shown no token for it.
    func tookUnproven(_ dialect: Dialect, calls: Int)
    /// Calls met a person or a group that has no more room.
    func metFull(_ full: Full, calls: Int)
}

/// The writer's thread and its queue. Calls gather while a batch is on its way to the disk, so that the next batch is
/// as large as it has to be; nothing waits for a timer.
package final class Engine: Sendable {
    package struct Limits: Equatable, Sendable {
        /// Calls that wait for the writer. More are turned away.
        package var queuedCalls = 16_384
        /// What the waiting calls carry, in bytes. More are turned away.
        package var queuedBytes = 64 << 20
        /// Calls of one batch.
        package var batchCalls = 1024
        /// What the calls of one batch carry, in bytes.
        package var batchBytes = 4 << 20
        /// How often what was seen of people is kept.
        package var foldMilliseconds: Int64 = 60_000
        /// How many people that is at a time, so that no batch has to wait for long.
        package var foldPeople = 128
        /// How often room is given back that nothing needs any more.
        package var compactMilliseconds: Int64 = 24 * 3600 * 1000
        /// For how long rows are kept.
        package var retention = Retention()
        /// People that may have been seen since, per lane; more are let go.
        package var sightings = 65_536

        package init() {}
    }

    private struct Queue: Sendable {
        var jobs: [(lane: Int, job: Job)] = []
        /// What the jobs carry.
        var bytes = 0
        var isStopping = false
    }

    private let store: any Store
    private let clock: @Sendable () -> Instant
    private let monotonic: @Sendable () -> UInt64
    private let limits: Limits
    private let observer: any EngineObserver
    /// Takes the answers of one lane, from the writer's thread.
    private let deliver: @Sendable (Int, @escaping @Sendable () -> Void) -> Void
    private let queue = Monitor(Queue())
    private let sightings: [Sightings]
    private let healthy = Atomic(true)
    /// The moment that the journal has come to, in milliseconds.
    private let journalMoment: Atomic<Int64>
    private let compaction = Monitor(CompactionStatus())
    private let thread = Monitor<WorkerThread?>(nil)

    /// People seen on one lane. A class, because a lock has to stay where it is.
    private final class Sightings: Sendable {
        let people = Monitor<[PersonID: Instant]>([:])
    }

    /// Starts the writer.
    ///
    /// - Parameters:
    ///   - lanes: how many threads take answers.
    ///   - deliver: has the thread of a lane run some work soon.
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
        let thread = WorkerThread(name: "onym-writer") { [self] in run() }
        self.thread.withLock { $0 = thread }
    }

    /// Whether the store takes commits.
    package var isHealthy: Bool { healthy.load(ordering: .relaxed) }

    // MARK: - Time

    /// By how much the clock may differ from what is expected before that is worth saying.
    package static let clockSlackMilliseconds: Int64 = 10_000

    /// By how much the clock is behind the journal, whose time never goes back; 0 where that is next to nothing. It was ahead once,
    /// or is behind now. Until it has caught up the journal has all calls at one moment.
    package var clockBehindMilliseconds: Int64 {
        let last = journalMoment.load(ordering: .relaxed)
        guard last != .min else { return 0 }
        let behind = last - clock().milliseconds
        return behind > Engine.clockSlackMilliseconds ? behind : 0
    }

    // MARK: - Room

    /// How far giving back the room that nothing needs has come.
    package struct CompactionStatus: Equatable, Sendable {
        package var isRunning = false
        /// Somebody reads who still sees what was taken out; it goes on when they are done.
        package var isHeld = false
        /// What was given back since it was last begun.
        package var pages = 0
        /// When it was last done.
        package var doneAt: Instant?

        package init() {}
    }

    package var compactionStatus: CompactionStatus { compaction.withLock { $0 } }

    /// Has the room that nothing needs any more be given back soon, a little at a time.
    package func requestCompaction() {
        compaction.withLock { status in
            if status.isRunning { return }
            status.isRunning = true
            status.pages = 0
        }
        // Whoever waits for calls has something else to do.
        queue.change { _ in }
    }

    /// Gives a little room back; answers how long to wait until there may be more.
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
        // Each time it waits a little for whoever is in the way, and calls wait with it: not all the time.
        return step == .held ? Engine.heldPauseMilliseconds : Int64(Engine.foldPauseMilliseconds)
    }

    /// Calls that wait for the writer.
    package var queueDepth: Int { queue.withLock { $0.jobs.count } }

    // MARK: - For the lanes

    /// Answers a call at once if it changes nothing.
    package func peek(_ call: Call, _ act: any Act, lane: Int, at now: Instant) -> Peek {
        let peek = store.peek(call, act, Stamp(at: now, person: PersonID(rawValue: 0)))
        if case .reply(let reply) = peek, let person = reply.seen {
            sightings[lane].people.withLock { people in
                if people.count < limits.sightings || people[person] != nil {
                    people[person] = now
                }
            }
        }
        return peek
    }

    /// Hands jobs to the writer, all of them or, when the queue is full or the engine stops, none.
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

    /// Answers what is queued, then ends the writer. Returns when it has ended.
    package func stop() {
        queue.change { $0.isStopping = true }
        thread.withLock { $0.take() }?.join()
    }

    // MARK: - The writer's thread

    private func run() {
        var generator = FastGenerator(seed: UInt64.random(in: .min ... .max))
        let writer = Writer(store: store) { generator.next() }
        var foldAt = clock().advanced(byMilliseconds: limits.foldMilliseconds)
        var watch = ClockWatch(clock(), monotonic())
        // Many people are folded in a little at a time, with room for batches in between.
        var (isFolding, stepAt) = (false, clock())
        var (pass, isLettingGo) = (RetentionPass(limits.retention, monotonic: monotonic), false)
        // A server that ended half way goes on.
        var (isSweeping, hasSwept, compactAt) = (
            true, false, clock().advanced(byMilliseconds: limits.compactMilliseconds)
        )
        while true {
            let isBusy = isFolding || isLettingGo || isSweeping || compaction.withLock { $0.isRunning }
            let wait = isBusy ? Engine.foldPauseMilliseconds : Engine.idleMilliseconds
            let batch = queue.wait(milliseconds: wait) { queue in
                !queue.jobs.isEmpty ? take(&queue) : queue.isStopping ? [] : nil
            }
            // Before the batch: who is chosen among equals depends on them.
            writer.note(takeSightings())
            if let batch {
                if batch.isEmpty { break }
                process(batch, writer)
                if writer.hasErased { isSweeping = true }
            }
            let now = clock()
            if let last = writer.journalMoment { journalMoment.store(last.milliseconds, ordering: .relaxed) }
            if let jump = watch.look(now, monotonic()) {
                observer.clockJumped(byMilliseconds: jump)
                // What is done every so often is not put off by a clock that was ahead.
                foldAt = min(foldAt, now.advanced(byMilliseconds: limits.foldMilliseconds))
                compactAt = min(compactAt, now.advanced(byMilliseconds: limits.compactMilliseconds))
                stepAt = min(stepAt, now)
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
                // One after the other, so that a step is never more than one of them.
                if isFolding {
                    isFolding = writer.fold(limit: limits.foldPeople)
                } else if isLettingGo {
                    isLettingGo = pass.step(writer, at: now)
                } else if isSweeping {
                    isSweeping = writer.sweep()
                    if isSweeping { hasSwept = true }
                    // What was taken out shall be gone from the files, too.
                    if !isSweeping, hasSwept {
                        hasSwept = false
                        requestCompaction()
                    }
                } else {
                    pause = compact(writer, at: now)
                }
                stepAt = now.advanced(byMilliseconds: pause)
            }
            if writer.needsRecovery {
                healthy.store(false, ordering: .relaxed)
                recover(writer)
                // It may have been what failed.
                isSweeping = true
            }
        }
        writer.note(takeSightings())
        while writer.fold(limit: limits.foldPeople) {}
    }

    /// Takes the next batch off the queue.
    private func take(_ queue: inout Queue) -> [(lane: Int, job: Job)] {
        var end = 0
        var bytes = 0
        while end < queue.jobs.count, end < limits.batchCalls {
            let more = queue.jobs[end].job.act.byteCount
            if bytes + more > limits.batchBytes, end > 0 { break }
            bytes += more
            end += 1
        }
        queue.bytes -= bytes
        if end == queue.jobs.count {
            defer { queue.jobs = [] }
            return queue.jobs
        }
        // Taken out for good, so that a queue that is never empty keeps nothing of what it once had.
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

    /// Gives each lane its answers, all of them together.
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

    /// Collects the people that the lanes have seen.
    private func takeSightings() -> [PersonID: Instant] {
        var seen: [PersonID: Instant] = [:]
        for lane in sightings {
            let people = lane.people.withLock { people in
                defer { people = [:] }
                return people
            }
            seen.merge(people) { max($0, $1) }
        }
        return seen
    }

    /// Turns calls away until the store can be opened again.
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

/// Compares the clock on the wall, which is set, with one that only counts.
private struct ClockWatch {
    private var wall: Instant
    private var counted: UInt64

    init(_ wall: Instant, _ counted: UInt64) { (self.wall, self.counted) = (wall, counted) }

    /// By how many milliseconds the clock was set since it was last looked at; nil where it was not.
    mutating func look(_ wall: Instant, _ counted: UInt64) -> Int64? {
        let went = Int64((counted &- self.counted) / 1_000_000)
        let jump = wall.milliseconds - self.wall.milliseconds - went
        (self.wall, self.counted) = (wall, counted)
        return abs(jump) > Engine.clockSlackMilliseconds ? jump : nil
    }
}

/// Numbers that spread well and cost next to nothing (SplitMix64). Nobody's safety depends on them.
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
