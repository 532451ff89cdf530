package import Domain
package import HTTPMessage
import HTTPServer
package import Outbound

/// What a call does next, where it goes through several hands: it may ask other servers before it says what is to change.
///
/// Nothing waits meanwhile: whoever asks is sent away, and goes on when the answer is there.
package enum Step: Sendable {
    /// It is over.
    case answer(Response)
    /// It has an act decided, answers, and is over.
    case call(PreparedCall)
    /// It has an act decided, and goes on by what comes of it, on its loop.
    case decide(any Act, then: @Sendable (Result<Reply, Refusal>, LoopTools) -> Step)
    /// It looks at what is committed, on a thread that may wait for the disk, and goes on by what is there.
    case read(@Sendable (any Snapshot) throws(StoreFault) -> Step)
    /// It asks another server, and goes on by what comes of it.
    case ask(OutboundCall, then: @Sendable (OutboundClient.Result, LoopTools) -> Step)
}
