package import Domain

/// A call on its way to the writer. A class, because several parts pass it on.
package final class Job: Sendable {
    package let call: Call
    package let act: any Act
    /// The group of the job: jobs of one request that the writer does together or not at all. Nil for a single job.
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

/// Marks the jobs of a group, which the writer does together or not at all. The jobs of a group follow each other in the
/// queue, and are in one commit.
package final class JobGroup: Sendable {
    package init() {}
}
