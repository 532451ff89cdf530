/// A tree of hashes over a list of leaves, as in RFC 6962: one hash of 32 bytes stands for the whole list. A few hashes prove that
/// a leaf is in the list, and that a shorter list is the beginning of a longer one.
package enum MerkleTree {
    /// Hashes the content of a leaf.
    package static func leaf(_ content: [UInt8], _ hasher: SHA256 = SHA256()) -> Digest {
        hasher.begin()
        hasher.update([0])
        hasher.update(content)
        return hasher.finish()
    }

    /// The hash of two subtrees.
    package static func node(_ left: Digest, _ right: Digest, _ hasher: SHA256 = SHA256()) -> Digest {
        hasher.digest(of: 1, left, right)
    }

    /// The hash of a list without leaves.
    package static let empty = SHA256.digest(of: [])

    /// The number of leaves in the left subtree of a list: the largest power of two below the number.
    static func split(_ count: Int) -> Int {
        1 << (Int.bitWidth - 1 - (count - 1).leadingZeroBitCount)
    }

    /// The hash of a part of a list, by the hashes that a function knows. The function returns nil for a part that it does not know; it
    /// knows each single leaf.
    package static func root<Failure>(
        of part: Range<Int>, _ hasher: SHA256, _ known: (Range<Int>) throws(Failure) -> Digest?
    ) throws(Failure) -> Digest {
        if part.isEmpty { return empty }
        if let hash = try known(part) { return hash }
        precondition(part.count > 1, "Each leaf has a hash.")
        let middle = part.lowerBound + split(part.count)
        let left = try root(of: part.lowerBound..<middle, hasher, known)
        let right = try root(of: middle..<part.upperBound, hasher, known)
        return node(left, right, hasher)
    }

    /// The hashes that prove that a leaf is in a list, the lowest first.
    package static func path<Failure>(
        to leaf: Int, in part: Range<Int>, _ hasher: SHA256, _ known: (Range<Int>) throws(Failure) -> Digest?
    ) throws(Failure) -> [Digest] {
        if part.count == 1 { return [] }
        let middle = part.lowerBound + split(part.count)
        let (left, right) = (part.lowerBound..<middle, middle..<part.upperBound)
        let (own, other) = leaf < middle ? (left, right) : (right, left)
        return try path(to: leaf, in: own, hasher, known) + [try root(of: other, hasher, known)]
    }

    /// The hashes that prove that the first leaves of a list are a list with an earlier hash.
    package static func consistency<Failure>(
        of first: Int, in count: Int, _ hasher: SHA256, _ known: (Range<Int>) throws(Failure) -> Digest?
    ) throws(Failure) -> [Digest] {
        func proof(_ first: Int, _ part: Range<Int>, isWhole: Bool) throws(Failure) -> [Digest] {
            let end = part.lowerBound + first
            if end == part.upperBound { return isWhole ? [] : [try root(of: part, hasher, known)] }
            let middle = part.lowerBound + split(part.count)
            if end <= middle {
                return try proof(first, part.lowerBound..<middle, isWhole: isWhole)
                    + [try root(of: middle..<part.upperBound, hasher, known)]
            }
            return try proof(end - middle, middle..<part.upperBound, isWhole: false)
                + [try root(of: part.lowerBound..<middle, hasher, known)]
        }
        return first == 0 ? [] : try proof(first, 0..<count, isWhole: true)
    }

    /// The hash of the list that a path leads to; nil if a list of this length has no such path.
    package static func root(from leaf: Digest, at place: Int, of count: Int, by path: [Digest]) -> Digest? {
        guard place >= 0, place < count else { return nil }
        var (node, last, hash) = (place, count - 1, leaf)
        for other in path {
            if last == 0 { return nil }
            if node & 1 == 1 || node == last {
                hash = MerkleTree.node(other, hash)
                while node & 1 == 0, node != 0 { (node, last) = (node >> 1, last >> 1) }
            } else {
                hash = MerkleTree.node(hash, other)
            }
            (node, last) = (node >> 1, last >> 1)
        }
        return last == 0 ? hash : nil
    }

    /// Whether hashes prove that a list with an earlier hash is the beginning of a list with a later hash.
    package static func isPrefix(
        _ earlier: Digest, of first: Int, _ later: Digest, of second: Int, by proof: [Digest]
    ) -> Bool {
        if first < 0 || first > second { return false }
        if first == 0 { return earlier == empty && proof.isEmpty }
        if first == second { return proof.isEmpty && earlier == later }
        var hashes = proof
        // The first list is then a node of the later tree.
        if first & (first - 1) == 0 { hashes.insert(earlier, at: 0) }
        guard let start = hashes.first else { return false }
        var (node, last) = (first - 1, second - 1)
        while node & 1 == 1 { (node, last) = (node >> 1, last >> 1) }
        var (one, two) = (start, start)
        for hash in hashes.dropFirst() {
            if last == 0 { return false }
            if node & 1 == 1 || node == last {
                (one, two) = (MerkleTree.node(hash, one), MerkleTree.node(hash, two))
                while node & 1 == 0, node != 0 { (node, last) = (node >> 1, last >> 1) }
            } else {
                two = MerkleTree.node(two, hash)
            }
            (node, last) = (node >> 1, last >> 1)
        }
        return last == 0 && one == earlier && two == later
    }
}

/// The hashes of the full subtrees at the end of a list, which suffice to add leaves.
package struct MerkleEdge: Equatable, Sendable {
    /// The number of leaves.
    package private(set) var count: Int
    /// The roots of the full subtrees, the largest first.
    private var roots: [Digest] = []

    /// The number of leaves in the subtrees whose roots a store keeps.
    package static let keptLeaves = 256

    /// The edge of an empty list.
    package init() { count = 0 }

    /// The edge of a list of whole subtrees of ``keptLeaves`` leaves.
    package init(kept: [Digest], _ hasher: SHA256) {
        self.init()
        for root in kept { add(root, leaves: MerkleEdge.keptLeaves, hasher) }
    }

    /// The edge with the roots that ``bytes`` has; nil for other bytes.
    package init?(count: Int, _ bytes: [UInt8]) {
        guard count >= 0, bytes.count == count.nonzeroBitCount * Digest.byteCount else { return nil }
        self.count = count
        for start in stride(from: 0, to: bytes.count, by: Digest.byteCount) {
            guard let root = Digest(bytes[start..<start + Digest.byteCount]) else { return nil }
            roots.append(root)
        }
    }

    package static func == (one: MerkleEdge, other: MerkleEdge) -> Bool {
        one.count == other.count && one.roots == other.roots
    }

    /// The roots, one behind the other: at most 32 bytes for each binary digit of ``count``.
    package var bytes: [UInt8] { roots.flatMap(\.bytes) }

    /// Adds a leaf. Returns the root of the subtree of ``keptLeaves`` leaves that the leaf completes; nil if it completes none.
    package mutating func add(_ leaf: Digest, _ hasher: SHA256) -> Digest? {
        add(leaf, leaves: 1, hasher)
        if count % MerkleEdge.keptLeaves != 0 { return nil }
        return lastKept
    }

    private var lastKept: Digest?

    private mutating func add(_ root: Digest, leaves: Int, _ hasher: SHA256) {
        var (hash, size) = (root, leaves)
        var rest = count
        count += leaves
        if size == MerkleEdge.keptLeaves { lastKept = hash }
        while rest & size != 0, let left = roots.popLast() {
            hash = MerkleTree.node(left, hash, hasher)
            rest -= size
            size *= 2
            if size == MerkleEdge.keptLeaves { lastKept = hash }
        }
        roots.append(hash)
    }

    /// The hash of the list.
    package func head(_ hasher: SHA256) -> Digest {
        guard var hash = roots.last else { return MerkleTree.empty }
        for left in roots.dropLast().reversed() { hash = MerkleTree.node(left, hash, hasher) }
        return hash
    }
}
