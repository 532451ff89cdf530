import Domain
import Engine
import HTTPMessage
import HTTPServer
import Outbound
import Threads

// Calls that take several steps, because they read facts or ask other servers before they decide.

extension Gateway {
    /// The state of a request that takes several steps.
    private struct CallInProgress: Sendable {
        let id: RequestID
        let project: ProjectID
        let key: KeyID?
        let proof: IdentityProof?
        let idempotencyKey: ReplayKey?
        let body: Hash128
        let kind: CallKind
        let usage: UsageNote
        /// The nanoseconds that the call has read so far. Only one step of a call runs at a time.
        let spent = Monitor<UInt64>(0)

        /// The call for the engine.
        func call(_ key: ReplayKey? = nil) -> Call {
            var call = Call(project: project, key: self.key, replayKey: key)
            call.proof = proof
            call.requestID = id.text
            if let key { call.replay = ReplayClaim(key: key, body: body) }
            return call
        }
    }

    /// Begins a call with the first step that its dialect has read.
    func begin(
        _ admitted: Admitted<Step>, _ request: borrowing Request, _ exchange: Exchange, _ context: LoopContext,
        _ kind: CallKind
    ) throws(Rejection) -> Handling {
        let caller = admitted.caller
        let progress = CallInProgress(
            id: request.id, project: caller.project, key: caller.key?.id, proof: caller.proof,
            idempotencyKey: try idempotencyKey(of: request, caller, context.tools, kind),
            body: Gateway.hash(request, context.tools.hash), kind: kind, usage: admitted.usage)
        return run(step: admitted.content, progress, exchange)
    }

    /// Runs a call's next step, on the loop's thread.
    private func run(step: Step, _ progress: CallInProgress, _ exchange: Exchange) -> Handling {
        switch step {
        case .answer(let response): return .answer(progress.usage.added(to: response))
        case .call(let prepared):
            let call = progress.call(progress.idempotencyKey ?? prepared.replayKey)
            queue(call, prepared, progress.id, progress.kind, contexts[exchange.loopIndex]) { response in
                exchange.answer(progress.usage.added(to: response))
            }
            return .later
        case .decide(let act, let then):
            queue(progress.call(), act, contexts[exchange.loopIndex]) { [self] answer in
                switch answer {
                case .success(let reply): go(on: then(.success(reply), tools(of: exchange)), progress, exchange)
                case .failure(.refused(let refusal)):
                    go(on: then(.failure(refusal), tools(of: exchange)), progress, exchange)
                case .failure(let failure):
                    exchange.answer(Gateway.response(to: failure, progress.id, progress.kind))
                }
            }
            return .later
        case .rehearse(let acts, let then, let otherwise):
            rehearse(acts, progress.call(), contexts[exchange.loopIndex]) { [self] result in
                switch result {
                case .success(let rehearsal):
                    go(on: .read { snapshot throws(StoreFault) in try then(rehearsal, snapshot) }, progress, exchange)
                case .failure(let failure):
                    if let otherwise { return go(on: otherwise(), progress, exchange) }
                    exchange.answer(Gateway.response(to: failure, progress.id, progress.kind))
                }
            }
            return .later
        case .read(let look): return read(look, in: .first, progress, exchange)
        case .readOn(let look): return read(look, in: .later, progress, exchange)
        case .wait(let begin):
            begin { [self] next in exchange.post { [self] in go(on: next, progress, exchange) } }
            return .later
        case .askAll(let calls, let then):
            ask(calls) { [self] results in
                exchange.post { [self] in go(on: then(results, tools(of: exchange)), progress, exchange) }
            }
            return .later
        }
    }

    /// Asks other servers at the same time, and continues once on any thread when all have answered.
    private func ask(_ calls: [OutboundCall], _ next: @escaping @Sendable ([OutboundClient.Result]) -> Void) {
        guard let outbound else {
            preconditionFailure("A surface asks other servers, and nobody is there to do it.")
        }
        precondition(!calls.isEmpty, "A call that asks nobody would wait for ever.")
        let known = Monitor<[Int: OutboundClient.Result]>([:])
        for (place, call) in calls.enumerated() {
            outbound.submit(call) { result in
                let all = known.withLock { known -> [OutboundClient.Result]? in
                    known[place] = result
                    return known.count == calls.count ? calls.indices.compactMap { known[$0] } : nil
                }
                if let all { next(all) }
            }
        }
    }

    /// Continues a call after a read.
    private func read(
        _ look: @escaping @Sendable (any Snapshot) throws(StoreFault) -> Step, in lane: Readers.Lane,
        _ progress: CallInProgress, _ exchange: Exchange
    ) -> Handling {
        let limit = limit(for: exchange, spent: progress.spent.withLock(\.self))
        let work: @Sendable () -> Void = { [self] in
            let start = monotonic()
            let next: Step
            do throws(StoreFault) {
                next = try store.read(until: limit()) { snapshot throws(StoreFault) in
                    try look(try RoutedSnapshot.over(snapshot))
                }
            } catch {
                next = .answer(progress.kind.unavailable(progress.id))
            }
            progress.spent.withLock { $0 += monotonic() &- start }
            exchange.post { [self] in go(on: next, progress, exchange) }
        }
        return readers.submit(work, in: lane)
            ? .later : .answer(progress.kind.dialect.refuse(.http(.overloaded), progress.id))
    }

    /// Runs the next step of a call that has waited for an earlier step.
    private func go(on step: Step, _ progress: CallInProgress, _ exchange: Exchange) {
        if case .answer(let response) = run(step: step, progress, exchange) { exchange.answer(response) }
    }

    private func tools(of exchange: Exchange) -> LoopTools { contexts[exchange.loopIndex].tools }
}
