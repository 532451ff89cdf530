import Domain
import Engine
import HTTPMessage
import HTTPServer

// Calls that the writer decides, each with one act or with several.

extension Gateway {
    /// Answers at once a call that changes nothing, and queues other calls.
    func handle(
        _ admitted: Admitted<PreparedCall>, _ request: borrowing Request, _ exchange: Exchange,
        _ context: LoopContext, _ kind: CallKind
    ) throws(Rejection) -> Handling {
        let (caller, prepared, usage, id) = (admitted.caller, admitted.content, admitted.usage, request.id)
        let given = try idempotencyKey(of: request, caller, context.tools, kind)
        // The key of a repeated call: its Idempotency-Key, or else the dialect's own id.
        let key = prepared.isRemembered ? given ?? prepared.replayKey : nil
        var call = Call(project: caller.project, key: caller.key?.id, replayKey: key)
        call.proof = caller.proof
        switch engine.peek(call, prepared.act, lane: context.lane, at: context.tools.now) {
        case .reply(let reply):
            return .answer(usage.added(to: Gateway.response(to: .success(reply), prepared, id, kind)))
        case .refusal(let refusal): throw kind.refusal(.refused(refusal), id)
        case .needsWriter: break
        }
        call.requestID = id.text
        if let key { call.replay = ReplayClaim(key: key, body: Gateway.hash(request, context.tools.hash)) }
        queue(call, prepared, id, kind, context) { exchange.answer(usage.added(to: $0)) }
        return .later
    }

    /// Queues a call for the writer, and answers after the commit.
    func queue(
        _ call: Call, _ prepared: PreparedCall, _ id: RequestID, _ kind: CallKind, _ context: LoopContext,
        _ answer: @escaping @Sendable (Response) -> Void
    ) {
        queue(call, prepared.act, context) { answer(Gateway.response(to: $0, prepared, id, kind)) }
    }

    /// Queues an act for the writer, and goes on with the result after the commit. Files that no fact names any more are removed.
    func queue(
        _ call: Call, _ act: any Act, in group: JobGroup? = nil, _ context: LoopContext,
        then goOn: @escaping @Sendable (Writer.Answer) -> Void
    ) {
        context.jobs.append(
            Job(call: call, act: act, in: group) { [self] result in
                if case .success(let reply) = result { removeContents(orphanedBy: reply) }
                goOn(result)
            })
    }

    /// Queues several acts for the writer, and answers after the last of them.
    func handle(
        _ admitted: Admitted<PreparedCalls>, _ request: borrowing Request, _ exchange: Exchange,
        _ context: LoopContext, _ kind: CallKind
    ) throws(Rejection) -> Handling {
        let (caller, prepared, usage, id) = (admitted.caller, admitted.content, admitted.usage, request.id)
        if prepared.acts.isEmpty { return .answer(usage.added(to: prepared.encode([], id))) }
        // The request has one key for several acts: the place tells the acts apart.
        let given = try idempotencyKey(of: request, caller, context.tools, kind)
        let body = Gateway.hash(request, context.tools.hash)
        let answers = Answers(count: prepared.acts.count)
        let group = prepared.acts.count > 1 ? JobGroup() : nil
        for (place, (act, ownKey)) in prepared.acts.enumerated() {
            let key = given.map { $0.at(place) } ?? ownKey
            var call = Call(project: caller.project, key: caller.key?.id, replayKey: key)
            call.proof = caller.proof
            call.requestID = id.text
            if let key { call.replay = ReplayClaim(key: key, body: body) }
            queue(call, act, in: group, context) { answer in
                guard let all = answers.take(answer, at: place) else { return }
                exchange.answer(Gateway.response(to: all, prepared, usage, id, kind))
            }
        }
        return .later
    }

    /// Queues acts that the writer decides and keeps nothing of, and goes on with what they would change.
    func rehearse(
        _ acts: [any Act], _ call: Call, _ context: LoopContext,
        then goOn: @escaping @Sendable (Result<Rehearsal<Reply>, CallFailure>) -> Void
    ) {
        let (answers, group) = (Answers(count: acts.count), JobGroup(isRehearsal: true))
        for (place, act) in acts.enumerated() {
            queue(call, act, in: group, context) { answer in
                guard let all = answers.take(answer, at: place) else { return }
                goOn(Gateway.rehearsal(all))
            }
        }
    }

    private static func rehearsal(_ answers: [Writer.Answer]) -> Result<Rehearsal<Reply>, CallFailure> {
        var (last, changes): (Rehearsed?, [Change]) = (nil, [])
        for answer in answers {
            switch answer {
            case .success(let reply):
                guard let rehearsed = reply.as(Rehearsed.self) else {
                    preconditionFailure("A rehearsal was answered as a call.")
                }
                last = rehearsed
                changes += rehearsed.changes
            case .failure(.refused(let refusal)): return .success(Rehearsal(.failure(refusal)))
            case .failure(let failure): return .failure(failure)
            }
        }
        guard let last else { preconditionFailure("A rehearsal has no act.") }
        return .success(Rehearsal(.success(last.reply), changes, at: last.at))
    }

    /// Gathers the answers to one request's acts, on the loop's thread.
    private final class Answers: @unchecked Sendable {
        private var answers: [Writer.Answer?]
        private var missing: Int

        init(count: Int) {
            answers = Array(repeating: nil, count: count)
            missing = count
        }

        /// Adds an answer; the last addition returns all answers.
        func take(_ answer: Writer.Answer, at place: Int) -> [Writer.Answer]? {
            answers[place] = answer
            missing -= 1
            return missing == 0 ? answers.compactMap { $0 } : nil
        }
    }

    private static func response(
        to answers: [Writer.Answer], _ prepared: PreparedCalls, _ usage: UsageNote, _ id: RequestID, _ kind: CallKind
    ) -> Response {
        var results: [Result<Reply, Refusal>] = []
        for answer in answers {
            switch answer {
            case .success(let reply): results.append(.success(reply))
            case .failure(.refused(let refusal)): results.append(.failure(refusal))
            // If the client sends the whole request again, the server recognizes the acts that are already done.
            case .failure(let failure): return response(to: failure, id, kind)
            }
        }
        return usage.added(to: prepared.encode(results, id))
    }

    private static func response(
        to answer: Writer.Answer, _ prepared: PreparedCall, _ id: RequestID, _ kind: CallKind
    ) -> Response {
        switch answer {
        case .success(let reply):
            // The same key belongs to an earlier call with an answer of another kind.
            prepared.encode(reply, id) ?? kind.dialect.refuse(.refused(.idempotencyMismatch), id)
        case .failure(let failure): response(to: failure, id, kind)
        }
    }

    /// The answer to a call without a reply.
    static func response(to failure: CallFailure, _ id: RequestID, _ kind: CallKind) -> Response {
        switch failure {
        case .refused(let refusal): kind.dialect.refuse(.refused(refusal), id)
        case .fault: kind.unavailable(id)
        case .overloaded: kind.dialect.refuse(.http(.overloaded), id)
        }
    }
}
