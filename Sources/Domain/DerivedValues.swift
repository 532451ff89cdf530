import Synchronization

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
        var younger: [Key: (value: any Sendable, bytes: Int)] = [:]
        var older: [Key: (value: any Sendable, bytes: Int)] = [:]
        var youngerBytes = 0
    }

    private let values = Mutex(Values())
    private let generationBytes: Int

    /// The limit of a store's values in bytes.
    package static let standardBytes = 256 << 20
    /// The limit of a store's sums in bytes.
    package static let sumBytes = 64 << 20

    /// Values that are small and dear, with a limit of their own: one large read derives more values than fit, and would drop them.
    package let sums: DerivedValues?

    /// - Parameters:
    ///   - bytes: the limit of the values of both generations.
    ///   - sumBytes: the limit of the sums; nil for no sums.
    package init(bytes: Int = DerivedValues.standardBytes, sumBytes: Int? = DerivedValues.sumBytes) {
        generationBytes = bytes / 2
        sums = sumBytes.map { DerivedValues(bytes: $0, sumBytes: nil) }
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
        values.withLock { $0 = Values() }
        sums?.removeAll()
    }

    private func add(_ key: Key, _ value: any Sendable, _ bytes: Int, to values: inout Values) {
        if bytes > generationBytes { return }
        if values.youngerBytes + bytes > generationBytes {
            values.older = values.younger
            (values.younger, values.youngerBytes) = ([:], 0)
        }
        values.youngerBytes -= values.younger[key]?.bytes ?? 0
        values.younger[key] = (value, bytes)
        values.youngerBytes += bytes
    }
}
