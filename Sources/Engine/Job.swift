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

    /// Whether the writer decides the job and keeps nothing of it.
    var isRehearsal: Bool { group?.isRehearsal == true }
}

/// Marks the jobs of a group, which the writer does together or not at all. The jobs of a group follow each other in the
/// queue, and are in one commit.
package final class JobGroup: Sendable {
    /// Whether the writer decides the jobs one after the other and keeps nothing of them. Each gets ``Rehearsed`` as its answer.
    package let isRehearsal: Bool

    package init(isRehearsal: Bool = false) { self.isRehearsal = isRehearsal }
}

/// The answer to a job that was only rehearsed. No journal keeps it.
package struct Rehearsed: Answer {
    /// What the call would answer.
    package let reply: Reply
    /// What the call would change, with the merges that follow. Derived documents may be missing.
    package let changes: [Change]
    /// The moment of the call.
    package let at: Instant

    package static let tags: [UInt8] = []

    init(_ reply: Reply, _ changes: [Change], at moment: Instant) {
        (self.reply, self.changes, at) = (reply, changes, moment)
    }

    package func pack(into packer: inout Packer) {}
    package init?(tag: UInt8, unpacking unpacker: inout Unpacker) { return nil }
}
