import Domain
import Synchronization

/// The last call whose changes all readers see. A read compares it to detect a commit.
final class Settled: Sendable {
    private let last: Atomic<Int64>

    init(_ sequence: JournalSequence) { last = Atomic(sequence.rawValue) }

    var sequence: JournalSequence {
        get { JournalSequence(rawValue: last.load(ordering: .acquiring)) }
        set { last.store(newValue.rawValue, ordering: .releasing) }
    }
}
