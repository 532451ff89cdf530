package import Domain
package import HTTPMessage
import HTTPServer
package import Outbound

/// The next step of a call that takes several steps: the call may ask other servers before it decides.
///
/// No thread waits between the steps: the call continues when the answer has arrived.
package enum Step: Sendable {
    /// The call ends with an answer.
    case answer(Response)
    /// The writer decides an act, and its answer ends the call.
    case call(PreparedCall)
    /// The writer decides an act, and the call continues on its loop with the reply.
    case decide(any Act, then: @Sendable (Result<Reply, Refusal>, LoopTools) -> Step)
    /// The writer decides acts one after the other and keeps nothing of them. The call continues with the result, and reads committed
    /// facts, which may be newer than the decisions. Without a writer the call continues with another step, or ends.
    case rehearse(
        [any Act], then: @Sendable (Rehearsal<Reply>, any Snapshot) throws(StoreFault) -> Step,
        otherwise: (@Sendable () -> Step)? = nil)
    /// The call reads committed facts, on a thread that may wait for the disk, and continues with the result.
    case read(@Sendable (any Snapshot) throws(StoreFault) -> Step)
    /// The same for a later slice of a large read, which waits for smaller reads.
    case readOn(@Sendable (any Snapshot) throws(StoreFault) -> Step)
    /// The call asks other servers at the same time, and continues with their answers, in the order of the questions. There is at
    /// least one question.
    case askAll([OutboundCall], then: @Sendable ([OutboundClient.Result], LoopTools) -> Step)
    /// The call begins other work, which gives the next step, once and on any thread.
    case wait(@Sendable (@escaping @Sendable (Step) -> Void) -> Void)

    /// The same step, as a later slice of a large read.
    package var later: Step {
        if case .read(let look) = self { return .readOn(look) }
        return self
    }
}

/// What acts would answer and change, one after the other, if the writer did them now.
package struct Rehearsal<Answer: Sendable>: Sendable {
    /// The answer of the last act, or the first refusal.
    package let result: Result<Answer, Refusal>
    /// The changes of all acts; none if one was refused.
    package let changes: [Change]
    /// The moment of the last act.
    package let moment: Instant

    package var refusal: Refusal? { if case .failure(let refusal) = result { refusal } else { nil } }

    init(_ result: Result<Answer, Refusal>, _ changes: [Change] = [], at moment: Instant = Instant(milliseconds: 0)) {
        (self.result, self.changes, self.moment) = (result, changes, moment)
    }
}

extension Snapshot {
    /// The facts as they would be after a rehearsed call.
    package func after<Answer: Sendable>(
        _ rehearsal: Rehearsal<Answer>, in project: ProjectID
    ) throws(StoreFault) -> any Snapshot {
        try after(rehearsal.changes, at: rehearsal.moment, in: project)
    }
}

extension Step {
    /// The call asks another server, and continues with the answer.
    package static func ask(
        _ call: OutboundCall, then: @escaping @Sendable (OutboundClient.Result, LoopTools) -> Step
    ) -> Step {
        .askAll([call]) { results, tools in then(results[0], tools) }
    }

    /// The writer decides an act, and the call continues on its loop with the act's own answer.
    package static func deciding<A: Act>(
        _ act: A, then: @escaping @Sendable (Result<A.Answer, Refusal>, LoopTools) -> Step
    ) -> Step {
        .decide(act) { result, tools in then(result.map { answer($0, to: act) }, tools) }
    }

    /// The writer decides an act and keeps nothing of it, and the call continues with what the act would answer and change.
    package static func rehearsing<A: Act>(
        _ act: A, then: @escaping @Sendable (Rehearsal<A.Answer>, any Snapshot) throws(StoreFault) -> Step,
        otherwise: (@Sendable () -> Step)? = nil
    ) -> Step {
        .rehearse(
            [act],
            then: { rehearsal, snapshot throws(StoreFault) in
                let result = rehearsal.result.map { answer($0, to: act) }
                return try then(Rehearsal(result, rehearsal.changes, at: rehearsal.moment), snapshot)
            }, otherwise: otherwise)
    }

    private static func answer<A: Act>(_ reply: Reply, to act: A) -> A.Answer {
        guard let answer = reply.as(A.Answer.self) else {
            preconditionFailure("A call without a key was answered as another call.")
        }
        return answer
    }
}
