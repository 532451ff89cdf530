package import Domain
package import Engine
import Threads

/// Repeats the journal's calls under another strategy, for one project at a time, to show what the strategy would change. A
/// dry run has a thread of its own and reads committed facts only, so the writer goes on.
package final class DryRuns: Sendable {
    package struct ID: Hashable, Sendable {
        package let rawValue: Int64
        package init(rawValue: Int64) { self.rawValue = rawValue }
    }

    /// The progress and the result of a dry run.
    package struct Status: Sendable {
        package enum State: Sendable {
            case running
            case done(Difference)
            case stopped
            case failed(StoreFault)
        }

        package let id: ID
        package let project: ProjectID
        package internal(set) var strategy: Strategy
        package let begunAt: Instant
        /// The last call of the journal at the start of the dry run. The dry run ignores later calls.
        package let end: JournalSequence
        package internal(set) var place = JournalSequence.zero
        package internal(set) var endedAt: Instant?
        package internal(set) var state = State.running
    }

    private struct Known: Sendable {
        var all: [Status] = []
        var running: ID?
        var isStopping = false
        var thread: WorkerThread?
        var last: Int64 = 0
    }

    /// The greatest number of remembered dry runs; the oldest is forgotten first.
    private static let remembered = 16
    /// The number of calls in one reading.
    private static let page = 512

    /// The time for which a dry run waits for the last calls of the log.
    private static let logMilliseconds = 5000

    private let store: any Store
    /// The calls that the store does not have yet; nil if no server runs in this process.
    private let log: CallLog?
    private let clock: @Sendable () -> Instant
    private let known = Monitor(Known())

    package init(store: any Store, log: CallLog?, clock: @escaping @Sendable () -> Instant) {
        (self.store, self.log) = (store, log)
        self.clock = clock
    }

    /// Starts a dry run; nil while another dry run of the server runs.
    package func begin(_ strategy: Strategy, for project: ProjectID) -> Status? {
        let directory = store.directory
        let end = store.counts.lastSequence
        let status: Status? = known.change { known in
            guard known.running == nil, !known.isStopping else { return nil }
            known.last += 1
            let status = Status(
                id: ID(rawValue: known.last), project: project, strategy: strategy, begunAt: clock(), end: end)
            known.running = status.id
            known.all = known.all.suffix(DryRuns.remembered - 1) + [status]
            return status
        }
        guard let status else { return nil }
        let thread = WorkerThread(name: "onym-dry-run") { [self] in run(status, directory) }
        known.withLock { $0.thread = thread }
        return status
    }

    /// The status of a dry run of this project.
    package func status(_ id: ID, of project: ProjectID) -> Status? {
        known.withLock { $0.all.first { $0.id == id && $0.project == project } }
    }

    /// All remembered dry runs of a project, the oldest first.
    package func statuses(of project: ProjectID) -> [Status] {
        known.withLock { $0.all.filter { $0.project == project } }
    }

    /// Stops a dry run of this project, if it runs.
    package func stop(_ id: ID, of project: ProjectID) {
        change(id) { status in
            if status.project == project, case .running = status.state { status.state = .stopped }
        }
    }

    /// Stops the running dry run, and waits for its end.
    package func stop() {
        let thread = known.change { known in
            known.isStopping = true
            return known.thread
        }
        thread?.join()
    }

    private func change(_ id: ID, _ body: (inout Status) -> Void) {
        known.change { known in
            guard let place = known.all.firstIndex(where: { $0.id == id }) else { return }
            body(&known.all[place])
        }
    }

    /// Whether a dry run may continue from a place of the journal.
    private func goesOn(_ id: ID, _ place: JournalSequence) -> Bool {
        known.change { known in
            guard !known.isStopping, let index = known.all.firstIndex(where: { $0.id == id }),
                case .running = known.all[index].state
            else { return false }
            known.all[index].place = place
            return true
        }
    }

    private func run(_ status: Status, _ directory: Directory) {
        let state: Status.State
        do throws(StoreFault) {
            let settings = try store.read { snapshot throws(StoreFault) in
                LinkingSettings(document: try snapshot.document(LinkingSettings.key(of: status.project)))
            }
            let strategy = status.strategy.activating(settings.formerPolicy)
            change(status.id) { $0.strategy = strategy }
            let erased = try store.read { snapshot throws(StoreFault) in
                try snapshot.erasedPeople(in: status.project)
            }
            let dryRun = StrategyDryRun(strategy, for: status.project, directory, hash: store.hash, erased: erased)
            // The last calls of the log are in memory for a moment.
            log?.waitUntilWritten(milliseconds: DryRuns.logMilliseconds)
            dryRun.take(
                try store.read { snapshot throws(StoreFault) in try snapshot.logNotes(in: status.project) })
            var logged = LogCursor(status.project)
            var place = JournalSequence.zero
            var isDone = false
            while !isDone, goesOn(status.id, place) {
                let calls = try store.read { snapshot throws(StoreFault) in
                    let calls = try snapshot.calls(after: place, limit: DryRuns.page)
                    try logged.read(upTo: calls.last?.sequence ?? status.end, snapshot)
                    return calls
                }
                dryRun.take(calls.lazy.filter { $0.sequence <= status.end }, &logged.calls)
                place = calls.last?.sequence ?? status.end
                isDone = place >= status.end
            }
            while let call = logged.calls.first, call.place <= status.end { dryRun.take(logged.calls.removeFirst()) }
            dryRun.skip(logged.repeats)
            dryRun.skipUnreadable(logged.unreadable)
            // The calls of people that were erased meanwhile may have lost their values.
            let late = try store.read { snapshot throws(StoreFault) in
                try snapshot.erasedPeople(in: status.project)
            }
            dryRun.skipUnreadable(late.subtracting(erased).count)
            state = isDone ? .done(dryRun.difference) : .stopped
        } catch {
            state = .failed(error)
        }
        let now = clock()
        known.change { known in
            known.running = nil
            guard let place = known.all.firstIndex(where: { $0.id == status.id }) else { return }
            known.all[place].endedAt = now
            if case .done = state { known.all[place].place = status.end }
            known.all[place].state = state
        }
    }
}
