import ByteText
package import Domain
package import Engine
package import Outbound
import Threads

/// Tells webhooks what happens: reads the feed, makes the calls, and notes in the store what came of them.
///
/// All that it knows is in the store, so a server that ends at any moment goes on where it was: what was delivered and not
/// noted is delivered again, and nothing is left out. Changes of one person come in order; one that fails holds up those
/// behind it, and nobody else's.
package final class Dispatcher: Sendable {
    /// What it is put together with.
    package struct Parts: Sendable {
        package let store: any Store
        package let engine: Engine
        /// The lane of the engine whose answers are delivered at once, on any thread.
        package let lane: Int
        /// Refuses addresses that are not to be called.
        package let client: OutboundClient
        package let clock: @Sendable () -> Instant
        package let signature: @Sendable (_ webhook: Int64, _ content: [UInt8]) -> [UInt8]
        /// A change as it is told; it refers to people, and has no value of theirs.
        package let payload: @Sendable (RecordedCall, ChangeEvent, any Snapshot) -> [UInt8]

        package init(
            store: any Store, engine: Engine, lane: Int, client: OutboundClient,
            clock: @escaping @Sendable () -> Instant,
            signature: @escaping @Sendable (_ webhook: Int64, _ content: [UInt8]) -> [UInt8],
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
        /// Webhooks that are being told something.
        var busy: Set<Int64> = []
        /// How far the feed was read for each, where there was nothing to tell.
        var readTo: [Int64: JournalSequence] = [:]
        /// Grows when there may be more to do.
        var wakes = 0
    }

    private let parts: Parts
    private let state = Monitor(State())
    private let thread = Monitor<WorkerThread?>(nil)

    private static let pauseMilliseconds = 50
    /// After a fault of the store, or where its queue is full.
    private static let faultPauseMilliseconds = 1000

    package init(_ parts: Parts) {
        self.parts = parts
        thread.withLock { $0 = WorkerThread(name: "onym-delivery") { [self] in run() } }
    }

    /// Begins nothing more, and returns when the thread has ended. What is under way comes to nothing: the client, which
    /// has to be there still, is stopped next.
    package func stop() {
        state.change { $0.isStopping = true }
        thread.withLock { $0.take() }?.join()
    }

    private func run() {
        while true {
            let (wakes, isStopping) = state.withLock { ($0.wakes, $0.isStopping) }
            if isStopping { return }
            var pause = Dispatcher.pauseMilliseconds
            do throws(StoreFault) {
                for round in try rounds() { begin(round) }
            } catch {
                // The store says so itself in the log; here it is only tried again.
                pause = Dispatcher.faultPauseMilliseconds
            }
            let _: Bool? = state.wait(milliseconds: pause) { $0.isStopping || $0.wakes != wakes ? true : nil }
        }
    }

    // MARK: - What to tell

    private func rounds() throws(StoreFault) -> [Round] {
        // Another process tells them.
        guard parts.store.leads else { return [] }
        let projects = parts.store.directory.projects.keys
        let now = parts.clock()
        let (busy, readTo) = state.withLock { ($0.busy, $0.readTo) }
        return try parts.store.read { snapshot throws(StoreFault) in
            var rounds: [Round] = []
            for project in projects {
                for webhook in try Webhook.all(of: project, snapshot) where !busy.contains(webhook.id) {
                    guard let deliveries = try Deliveries.of(webhook, snapshot) else { continue }
                    var plan = RoundPlan(webhook, deliveries, from: readTo[webhook.id], at: now)
                    try plan.fill(project, snapshot, parts.payload)
                    if plan.isEmpty {
                        state.withLock { $0.readTo[webhook.id] = plan.readTo }
                    } else {
                        rounds.append(Round(webhook: webhook, project: project, plan: plan))
                    }
                }
            }
            return rounds
        }
    }

    // MARK: - Telling it

    private struct Round: Sendable {
        let webhook: Webhook
        let project: ProjectID
        let plan: RoundPlan
    }

    /// What has come of a round: chains run beside each other, the changes of each one after the other.
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
        state.withLock { _ = $0.busy.insert(round.webhook.id) }
        let progress = Progress(round.plan)
        if round.plan.chains.isEmpty { return note(round, round.plan.held) }
        for chain in round.plan.chains { send(chain[...], round, progress) }
    }

    /// Sends the first of a chain, and then the rest; what stands behind one that fails waits.
    private func send(_ chain: ArraySlice<RoundPlan.Item>, _ round: Round, _ progress: Progress) {
        guard let item = chain.first else { return end(round, progress) }
        guard let url = OutboundURL(round.webhook.url) else {
            return fail("The address is none.", chain, round, progress)
        }
        let id = "msg_\(item.change.call.rawValue)_\(item.change.index)"
        let timestamp = String(parts.clock().milliseconds / 1000)
        let signature = parts.signature(round.webhook.id, Array("\(id).\(timestamp).".utf8) + item.payload)
        let call = OutboundCall(
            .post(item.payload, contentType: "application/json"), url,
            fields: [
                ("webhook-id", id), ("webhook-timestamp", timestamp),
                ("webhook-signature", "v1,\(Base64.encode(signature))"),
            ])
        parts.client.submit(call) { [self] result in
            switch result {
            case .success(let answer) where (200..<300).contains(answer.status):
                progress.results.withLock { $0.done.append(item.result(.delivered)) }
                send(chain.dropFirst(), round, progress)
            case .success(let answer): fail("The receiver answered \(answer.status).", chain, round, progress)
            // Not the receiver's doing: it is tried again after the start.
            case .failure(.cancelled): break
            case .failure(let fault): fail(fault.message, chain, round, progress)
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

    /// Has the store keep what came of a round; until it has, the webhook is told nothing more.
    private func note(_ round: Round, _ results: [NoteDeliveries.Result]) {
        let note = NoteDeliveries(webhook: round.webhook.id, readTo: round.plan.readTo, results)
        let job = Job(call: Call(project: round.project, key: nil), act: note) { [self] _ in
            // Where the store has failed the round is made again: it is told twice rather than not at all.
            free(round.webhook.id)
        }
        if !parts.engine.submit([job], lane: parts.lane) { free(round.webhook.id) }
    }

    private func free(_ webhook: Int64) {
        state.change { state in
            state.busy.remove(webhook)
            state.wakes += 1
        }
    }
}
