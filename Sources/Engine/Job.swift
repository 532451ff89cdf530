package import Domain

/// A call on its way to the writer. A class, because several parts pass it on.
package final class Job: Sendable {
    package let call: Call
    package let act: any Act
    /// The jobs of one request that are done together or not at all; nil for a job that stands alone.
    package let group: JobGroup?
    /// Gets the answer, on the thread of the job's loop.
    package let done: @Sendable (Writer.Answer) -> Void

    package init(
        call: Call, act: any Act, in group: JobGroup? = nil,
        done: @escaping @Sendable (Writer.Answer) -> Void = { _ in }
    ) {
        self.call = call
        self.act = act
        self.group = group
        self.done = done
    }

    /// Whether both jobs are in one group.
    func isWith(_ other: Job) -> Bool { group != nil && group === other.group }
}

/// Marks the jobs that are done together or not at all. They follow each other in the queue, and are in one commit.
package final class JobGroup: Sendable {
    package init() {}
}
