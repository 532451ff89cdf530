import Threads

/// Values that reads have derived from facts which never change, for later reads. They are in memory only.
///
/// The values have two generations. When the younger generation is full, it becomes the older generation, and unused values are
/// dropped.
package final class DerivedValues: Sendable {
    /// The name of a value: the document that it comes from, and its form.
    package struct Key: Hashable, Sendable {
        private let document: DocumentKey
        private let form: UInt64

        package init(of document: DocumentKey, form: UInt64) { (self.document, self.form) = (document, form) }
    }

    private struct Values {
        var generationBytes: Int
        var younger: [Key: (value: any Sendable, bytes: Int)] = [:]
        var older: [Key: (value: any Sendable, bytes: Int)] = [:]
        var youngerBytes = 0
    }

    private let values: Monitor<Values>

    /// Values that are small and dear, with a limit of their own: one large read derives more values than fit, and would drop them.
    package let sums: DerivedValues?

    /// - Parameters:
    ///   - bytes: the limit of the values of both generations.
    ///   - sumBytes: the limit of the sums; nil for no sums.
    package init(bytes: Int = CacheLimits.standard.values, sumBytes: Int? = CacheLimits.standard.sums) {
        values = Monitor(Values(generationBytes: bytes / 2))
        sums = sumBytes.map { DerivedValues(bytes: $0, sumBytes: nil) }
    }

    /// Sets the limits anew. Values beyond a smaller limit go with the next values.
    package func limit(_ limits: CacheLimits) {
        values.withLock { $0.generationBytes = limits.values / 2 }
        sums?.values.withLock { $0.generationBytes = limits.sums / 2 }
    }

    /// The value under a key; nil without a value of this type.
    package func value<Value: Sendable>(_ key: Key, _ type: Value.Type = Value.self) -> Value? {
        values.withLock { values in
            if let known = values.younger[key] { return known.value as? Value }
            guard let known = values.older[key] else { return nil }
            add(key, known.value, known.bytes, to: &values)
            return known.value as? Value
        }
    }

    /// Keeps a value of a size in bytes. A value that is too large for the limit is not kept.
    package func keep(_ value: some Sendable, _ key: Key, bytes: Int) {
        values.withLock { add(key, value, bytes, to: &$0) }
    }

    /// Drops all values, after an erasure.
    package func removeAll() {
        values.withLock { $0 = Values(generationBytes: $0.generationBytes) }
        sums?.removeAll()
    }

    private func add(_ key: Key, _ value: any Sendable, _ bytes: Int, to values: inout Values) {
        if bytes > values.generationBytes { return }
        if values.youngerBytes + bytes > values.generationBytes {
            values.older = values.younger
            (values.younger, values.youngerBytes) = ([:], 0)
        }
        values.youngerBytes -= values.younger[key]?.bytes ?? 0
        values.younger[key] = (value, bytes)
        values.youngerBytes += bytes
    }
}

/// The limits of all that a store keeps in memory for quicker reads, in bytes: one figure, in fixed shares. The index of people and
/// identities is no part of it.
package struct CacheLimits: Equatable, Sendable {
    /// The values that reads derive from runs.
    package let values: Int
    /// The sums of such values.
    package let sums: Int
    /// Documents that were just read or written.
    package let documents: Int

    package init(values: Int, sums: Int, documents: Int) {
        (self.values, self.sums, self.documents) = (values, sums, documents)
    }

    package init(mebibytes: Int) {
        let share = (mebibytes << 20) / 6
        self.init(values: (mebibytes << 20) - 2 * share, sums: share, documents: share)
    }

    package static let standardMebibytes = 384
    package static let standard = CacheLimits(mebibytes: standardMebibytes)
}
