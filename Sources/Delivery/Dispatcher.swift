import ByteText
package import Domain
package import Engine
package import Outbound
import Threads

/// Sends changes to webhooks: it reads the feed, makes the calls, and records the results in the store.
///
/// The store has the dispatcher's whole state, so a server that ends at any moment continues later. An unrecorded delivery is
/// sent again, and no change is lost. The changes of one person arrive in order; a failing delivery delays only the later
/// changes of the same person.
package final class Dispatcher: Sendable {
    /// The parts that the dispatcher needs.
    package struct Parts: Sendable {
        package let store: any Store
        package let engine: Engine
        /// The engine's queue whose answers may arrive on any thread.
        package let lane: Int
        /// The client that makes the calls. It refuses forbidden addresses.
        package let client: OutboundClient
        package let clock: @Sendable () -> Instant
        package typealias Signature = @Sendable (_ webhook: Webhook, ProjectID, _ content: [UInt8]) -> [UInt8]?
        /// Signs the content for a webhook of a project; nil if the server does not have the webhook's master key.
        package let signature: Signature
        /// The form of a change for webhooks; it refers to people, and contains no value of theirs.
        package let payload: @Sendable (RecordedCall, ChangeEvent, any Snapshot) -> [UInt8]

        package init(
            store: any Store, engine: Engine, lane: Int, client: OutboundClient,
            clock: @escaping @Sendable () -> Instant,
            signature: @escaping Signature,
            payload: @escaping @Sendable (RecordedCall, ChangeEvent, any Snapshot) -> [UInt8]
        ) {
            self.store = store
            self.engine = engine
            self.lane = lane
            self.client = client
            self.clock = clock
            self.signature = signature
            self.payload = payload
        }
    }

    private struct State {
        var isStopping = false
        /// The webhooks with a running delivery.
        var busy: Set<Int64> = []
        /// The place up to which the feed was read without a change for the webhook.
        var readTo: [Int64: JournalSequence] = [:]
        /// Rises when new work may exist.
        var wakes = 0
        /// The deliveries of each webhook when the dispatcher last looked.
        var figures: [Int64: Figures] = [:]
        /// The chains of each project that are under way.
        var running: [ProjectID: Int] = [:]
        /// Rises with each look, so that each webhook of a project comes first at times.
        var turn = 0
    }

    /// How many deliveries wait for another try, and how many are parked.
    package struct Figures: Equatable, Sendable {
        package var waiting = 0
        package var parked = 0
    }

    private let parts: Parts
    private let state = Monitor(State())
    private let thread = Monitor<WorkerThread?>(nil)

    private static let pauseMilliseconds = 50
    /// The chains of one project at once: half of the calls that the client makes at once, so that receivers of one project that do not
    /// answer never hold all of them.
    private static let chainsOfProject = 32
    /// The pause after a fault of the store, or after a full queue.
    private static let faultPauseMilliseconds = 1000

    package init(_ parts: Parts) {
        self.parts = parts
        thread.withLock { $0 = WorkerThread(name: "onym-delivery") { [self] in run() } }
    }

    /// Starts no further delivery, and returns when the thread has ended. Running deliveries end without a result: the caller
    /// stops the client next, so the client must still exist.
    package func stop() {
        state.change { $0.isStopping = true }
        thread.withLock { $0.take() }?.join()
    }

    /// The deliveries of all webhooks, as this process last saw them; zero where another process sends the changes.
    package var figures: Figures {
        state.withLock { state in
            state.figures.values.reduce(into: Figures()) { sum, figures in
                sum.waiting += figures.waiting
                sum.parked += figures.parked
            }
        }
    }

    private func run() {
        while true {
            let (wakes, isStopping) = state.withLock { ($0.wakes, $0.isStopping) }
            if isStopping { return }
            var pause = Dispatcher.pauseMilliseconds
            do throws(StoreFault) {
                for round in try rounds() { begin(round) }
            } catch {
                // The store logs its own faults; the dispatcher only tries again.
                pause = Dispatcher.faultPauseMilliseconds
            }
            let _: Bool? = state.wait(milliseconds: pause) { $0.isStopping || $0.wakes != wakes ? true : nil }
        }
    }

    // MARK: - What to tell

    private func rounds() throws(StoreFault) -> [Round] {
        // Another process sends the changes.
        guard parts.store.leads else {
            state.withLock { $0.figures = [:] }
            return []
        }
        let projects = parts.store.directory.projects.keys
        let now = parts.clock()
        let (busy, readTo, running, turn) = state.withLock { state in
            state.turn += 1
            return (state.busy, state.readTo, state.running, state.turn)
        }
        return try parts.store.read { snapshot throws(StoreFault) in
            var rounds: [Round] = []
            var figures: [Int64: Figures] = [:]
            for project in projects {
                var room = Dispatcher.chainsOfProject - running[project, default: 0]
                let webhooks = try Webhook.all(of: project, snapshot)
                let first = webhooks.isEmpty ? 0 : turn % webhooks.count
                for webhook in webhooks[first...] + webhooks[..<first] {
                    guard let deliveries = try Deliveries.of(webhook, snapshot) else { continue }
                    figures[webhook.id] = Figures(waiting: deliveries.waiting.count, parked: deliveries.parked.count)
                    if busy.contains(webhook.id) || room <= 0 { continue }
                    var plan = RoundPlan(
                        webhook, deliveries, from: readTo[webhook.id], at: now,
                        chainsAtMost: min(RoundPlan.chainsAtMost, room))
                    try plan.fill(project, snapshot, parts.payload)
                    room -= plan.chains.count
                    if plan.isEmpty {
                        state.withLock { $0.readTo[webhook.id] = plan.readTo }
                    } else {
                        rounds.append(Round(webhook: webhook, project: project, plan: plan))
                    }
                }
            }
            state.withLock { $0.figures = figures }
            return rounds
        }
    }

    // MARK: - Telling it

    private struct Round: Sendable {
        let webhook: Webhook
        let project: ProjectID
        let plan: RoundPlan
    }

    /// The results of a round: chains run in parallel, and the changes of a chain one after the other.
    private final class Progress: Sendable {
        struct Results {
            var done: [NoteDeliveries.Result]
            var chainsLeft: Int
        }

        let results: Monitor<Results>

        init(_ plan: RoundPlan) {
            results = Monitor(Results(done: plan.held, chainsLeft: plan.chains.count))
        }
    }

    private func begin(_ round: Round) {
        state.withLock { state in
            state.busy.insert(round.webhook.id)
            state.running[round.project, default: 0] += round.plan.chains.count
        }
        let progress = Progress(round.plan)
        if round.plan.chains.isEmpty { return note(round, round.plan.held) }
        for chain in round.plan.chains { send(chain[...], round, progress) }
    }

    /// Sends the first delivery of a chain, and then the rest. After a failure, the rest waits.
    private func send(_ chain: ArraySlice<RoundPlan.Item>, _ round: Round, _ progress: Progress) {
        guard let item = chain.first else { return end(round, progress) }
        let id = "msg_\(item.change.call.rawValue)_\(item.change.index)"
        send(item.payload, id, to: round.webhook, in: round.project) { [self] attempt in
            switch attempt {
            case .answered(let status) where (200..<300).contains(status):
                progress.results.withLock { $0.done.append(item.result(.delivered)) }
                send(chain.dropFirst(), round, progress)
            case .answered(let status): fail("The receiver answered \(status).", chain, round, progress)
            // The receiver did not cause this: the delivery is tried again after the next start.
            case .cancelled: break
            case .failed(let why): fail(why, chain, round, progress)
            }
        }
    }

    /// The result of one message to a webhook.
    package enum Attempt: Equatable, Sendable {
        case answered(Int)
        case failed(String)
        /// The server ends.
        case cancelled
    }

    /// Sends a message to a webhook, with its signature, and keeps nothing of it.
    package func send(
        _ payload: [UInt8], _ id: String, to webhook: Webhook, in project: ProjectID,
        then: @escaping @Sendable (Attempt) -> Void
    ) {
        guard let url = OutboundURL(webhook.url) else { return then(.failed("The address is invalid.")) }
        let timestamp = String(parts.clock().milliseconds / 1000)
        let content = Array("\(id).\(timestamp).".utf8) + payload
        guard let signature = parts.signature(webhook, project, content) else {
            return then(.failed("The server does not have the master key of the webhook's secret."))
        }
        let call = OutboundCall(
            .post(payload, contentType: "application/json"), url,
            fields: [
                ("webhook-id", id), ("webhook-timestamp", timestamp),
                ("webhook-signature", "v1,\(Base64.encode(signature))"),
            ])
        parts.client.submit(call) { result in
            switch result {
            case .success(let answer): then(.answered(answer.status))
            case .failure(.cancelled): then(.cancelled)
            case .failure(let fault): then(.failed(fault.message))
            }
        }
    }

    private func fail(_ why: String, _ chain: ArraySlice<RoundPlan.Item>, _ round: Round, _ progress: Progress) {
        progress.results.withLock { results in
            for (place, item) in chain.enumerated() {
                if place == 0 {
                    results.done.append(item.result(.failed(why)))
                } else if !item.isWaiting {
                    results.done.append(item.result(.held))
                }
            }
        }
        end(round, progress)
    }

    private func end(_ round: Round, _ progress: Progress) {
        let done: [NoteDeliveries.Result]? = progress.results.withLock { results in
            results.chainsLeft -= 1
            return results.chainsLeft == 0 ? results.done : nil
        }
        if let done { note(round, done) }
    }

    /// Records the results of a round in the store. The webhook gets nothing more before that.
    private func note(_ round: Round, _ results: [NoteDeliveries.Result]) {
        let note = NoteDeliveries(webhook: round.webhook.id, readTo: round.plan.readTo, results)
        let job = Job(call: Call(project: round.project, key: nil), act: note) { [self] _ in
            // After a fault of the store the round runs again: a repeated delivery is better than a lost one.
            free(round)
        }
        if !parts.engine.submit([job], lane: parts.lane) { free(round) }
    }

    private func free(_ round: Round) {
        state.change { state in
            state.busy.remove(round.webhook.id)
            state.running[round.project, default: 0] -= round.plan.chains.count
            state.wakes += 1
        }
    }
}
