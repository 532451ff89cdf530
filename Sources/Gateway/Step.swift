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
        .decide(act) { result, tools in
            then(
                result.map { reply in
                    guard let answer = reply.as(A.Answer.self) else {
                        preconditionFailure("A call without a key was answered as another call.")
                    }
                    return answer
                }, tools)
        }
    }
}
