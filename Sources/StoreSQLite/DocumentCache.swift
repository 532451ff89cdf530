import Threads

/// Recently read documents, by their numbers. The document under a number changes only by an erasure, and an erasure empties
/// the cache.
///
/// The cache has two generations. When the younger generation is full, it becomes the older generation, and unused documents
/// are dropped.
package final class DocumentCache: Sendable {
    private struct Shard {
        /// The limit of a generation.
        var limit: Int
        var younger: [Int64: [UInt8]] = [:]
        var older: [Int64: [UInt8]] = [:]
        var youngerBytes = 0
    }

    private let shards: [Monitor<Shard>]

    /// The approximate size of an entry without its bytes.
    private static let entryBytes = 96
    private static let shardCount = 32

    /// - Parameter bytes: the limit of the cache.
    package init(bytes: Int) {
        shards = (0..<DocumentCache.shardCount).map { _ in Monitor(Shard(limit: DocumentCache.share(of: bytes))) }
    }

    /// Sets the limit anew. Documents beyond a smaller limit go with the next documents.
    package func limit(_ bytes: Int) {
        for shard in shards { shard.withLock { $0.limit = DocumentCache.share(of: bytes) } }
    }

    private static func share(of bytes: Int) -> Int { bytes / shardCount / 2 }

    package subscript(number: Int64) -> [UInt8]? {
        shard(number).withLock { shard in
            if let body = shard.younger[number] { return body }
            guard let body = shard.older[number] else { return nil }
            add(number, body, to: &shard)
            return body
        }
    }

    package func add(_ number: Int64, _ body: [UInt8]) {
        shard(number).withLock { add(number, body, to: &$0) }
    }

    /// Empties the cache.
    package func removeAll() {
        for shard in shards { shard.withLock { $0 = Shard(limit: $0.limit) } }
    }

    private func add(_ number: Int64, _ body: [UInt8], to shard: inout Shard) {
        let bytes = body.count + DocumentCache.entryBytes
        if bytes > shard.limit { return }
        if shard.youngerBytes + bytes > shard.limit {
            shard.older = shard.younger
            shard.younger = [:]
            shard.youngerBytes = 0
        }
        if shard.younger.updateValue(body, forKey: number) == nil { shard.youngerBytes += bytes }
    }

    private func shard(_ number: Int64) -> Monitor<Shard> {
        shards[Int(truncatingIfNeeded: UInt64(bitPattern: number) % UInt64(DocumentCache.shardCount))]
    }
}
