import Synchronization

/// A row of numbers to which many threads add.
@safe
package final class Counters: Sendable {
    // The storage lives as long as the object; its atomics need no lock.
    private nonisolated(unsafe) let values: UnsafeMutablePointer<Atomic<UInt64>>
    package let count: Int

    package init(count: Int) {
        self.count = count
        unsafe values = .allocate(capacity: count)
        for index in 0..<count { unsafe (values + index).initialize(to: Atomic(0)) }
    }

    deinit {
        unsafe values.deinitialize(count: count)
        unsafe values.deallocate()
    }

    package func add(_ amount: UInt64 = 1, at index: Int) {
        precondition(index >= 0 && index < count, "There is no such counter.")
        unsafe values[index].wrappingAdd(amount, ordering: .relaxed)
    }

    package subscript(index: Int) -> UInt64 {
        precondition(index >= 0 && index < count, "There is no such counter.")
        return unsafe values[index].load(ordering: .relaxed)
    }
}

/// Counts durations or sizes: one count for each power of two.
package final class Histogram: Sendable {
    private let counters: Counters
    private let smallest: UInt64
    private let buckets: Int

    /// Makes buckets: the first for values up to `smallest`, the next up to twice as much, and so on; the last bucket takes
    /// the rest.
    package init(smallest: UInt64, buckets: Int) {
        self.smallest = smallest
        self.buckets = buckets
        // The sum has its place after the buckets.
        counters = Counters(count: buckets + 1)
    }

    package func record(_ value: UInt64) {
        let ratio = value <= 1 ? 0 : (value - 1) / smallest
        let bucket = min(buckets - 1, UInt64.bitWidth - ratio.leadingZeroBitCount)
        counters.add(at: bucket)
        counters.add(value, at: buckets)
    }

    /// The common counts of several histograms with the same buckets.
    package static func sum(_ histograms: [Histogram]) -> Snapshot {
        guard let first = histograms.first else { return Snapshot(bounds: [], counts: [], sum: 0) }
        return Snapshot(
            bounds: (0..<first.buckets).map { first.smallest << UInt64($0) },
            counts: (0..<first.buckets).map { bucket in histograms.reduce(0) { $0 + $1.counters[bucket] } },
            sum: histograms.reduce(0) { $0 + $1.counters[first.buckets] })
    }

    package struct Snapshot: Equatable, Sendable {
        /// The largest value of each bucket; the last bucket has no limit, so its number has no meaning.
        package let bounds: [UInt64]
        package let counts: [UInt64]
        package let sum: UInt64
    }
}
