package import Domain

/// A call on its way to the writer. A class, because several parts pass it on.
package final class Job: Sendable {
    package let call: Call
    package let act: any Act
    /// Gets the answer, on the thread of the job's loop.
    package let done: @Sendable (Writer.Answer) -> Void

    package init(call: Call, act: any Act, done: @escaping @Sendable (Writer.Answer) -> Void = { _ in }) {
        self.call = call
        self.act = act
        self.done = done
    }
}
