package import Crypto
package import Domain

/// The row of a leaf, with the columns of the call that it stands for.
package struct LeafRow {
    package let sequence: Int64
    package let place: Int
    package let mark: [UInt8]
    package let opening: [UInt8]
    /// Nil if the journal has no such call.
    package let columns: LeafColumns?

    package init(sequence: Int64, place: Int, mark: [UInt8], opening: [UInt8], columns: LeafColumns?) {
        (self.sequence, self.place, self.mark) = (sequence, place, mark)
        (self.opening, self.columns) = (opening, columns)
    }

    /// The bytes that the leaf is the hash of; nil for a row that cannot be read.
    func content(_ hasher: SHA256) -> [UInt8]? {
        if place == 0 { return opening }
        guard let opening = LeafOpening(packed: opening, hasher), let columns else { return nil }
        return opening.content(columns, hasher)
    }

    /// The opening without the salts and facts of some people, and of the call itself if the call loses its content. Nil if nothing
    /// changes. The columns must still be whole.
    package func sealed(_ people: Set<Int64>, andCall: Bool, _ hasher: SHA256) -> [UInt8]? {
        guard place > 0, let columns, var opening = LeafOpening(packed: opening, hasher),
            opening.seal(people, andCall: andCall, columns, hasher)
        else { return nil }
        return opening.packed()
    }
}

/// The last leaf of a tree.
package struct TreeEnd {
    package let leaves: Int
    package let sequence: Int64
    package let at: Int64

    package init(leaves: Int, sequence: Int64, at: Int64) {
        (self.leaves, self.sequence, self.at) = (leaves, sequence, at)
    }
}

/// The tree over the journal of a store, as a store's tables have it. The questions of a proof come from here.
package protocol LeafRows {
    associatedtype Failure: Error

    var hasher: SHA256 { get }

    /// The last leaf; nil for a store without a tree.
    func end() throws(Failure) -> TreeEnd?
    /// The kept root of a whole subtree.
    func keptRoot(_ number: Int) throws(Failure) -> Digest?
    /// The place of a call in the tree; nil for a call before the tree.
    func place(of sequence: Int64) throws(Failure) -> Int?
    /// The place of the first leaf that is of a call or of a later one.
    func place(from sequence: Int64) throws(Failure) -> Int?
    /// The rows of the leaves of a call and of later ones.
    func rows(from sequence: Int64, limit: Int) throws(Failure) -> [LeafRow]
    /// The fault of a store whose tree is damaged.
    func damage(_ message: String) -> Failure
}

extension LeafRows {
    /// The number of leaves.
    package func count() throws(Failure) -> Int { try end()?.leaves ?? 0 }

    /// The row of the leaf with a place in the tree; nil for a place behind the tree.
    package func leaf(at place: Int) throws(Failure) -> LeafRow? {
        try rows(from: try sequence(at: place), limit: 1).first
    }

    /// The least number behind the leaf before a place. Calls and places grow together, so a binary search finds it.
    private func sequence(at place: Int) throws(Failure) -> Int64 {
        var (low, high): (Int64, Int64) = (Int64(place), Int64(place))
        var step: Int64 = 1
        // Mostly the numbers differ by the number of calls before the tree.
        while try self.place(from: high).map({ $0 < place }) ?? false {
            low = high
            high += step
            step *= 2
        }
        while low < high {
            let middle = low + (high - low) / 2
            if let found = try self.place(from: middle), found < place { low = middle + 1 } else { high = middle }
        }
        return low
    }

    /// The leaves with some places, made again from their rows.
    package func leaves(_ places: Range<Int>) throws(Failure) -> [Digest] {
        if places.isEmpty { return [] }
        var leaves: [Digest] = []
        for row in try rows(from: try sequence(at: places.lowerBound), limit: places.count) {
            leaves.append(MerkleTree.leaf(try content(of: row), hasher))
        }
        guard leaves.count == places.count else { throw damage("the tree over the journal lacks leaves") }
        return leaves
    }

    /// The edge of the tree, from the kept roots and the leaves behind them.
    package func edge(_ kept: [Digest]) throws(Failure) -> MerkleEdge {
        var edge = MerkleEdge(kept: kept, hasher)
        for leaf in try leaves(edge.count..<(try count())) { _ = edge.add(leaf, hasher) }
        return edge
    }

    private func content(of row: LeafRow) throws(Failure) -> [UInt8] {
        guard let content = row.content(hasher) else {
            throw damage("the leaf of journal row \(row.sequence) cannot be read")
        }
        return content
    }

    /// The hash of a part of the tree, from the kept roots and from rows.
    private func known(_ part: Range<Int>) throws(Failure) -> Digest? {
        if part.count == MerkleEdge.keptLeaves, part.lowerBound % MerkleEdge.keptLeaves == 0 {
            return try keptRoot(part.lowerBound / MerkleEdge.keptLeaves)
        }
        if part.count > MerkleEdge.keptLeaves { return nil }
        // A part below a kept root is read at once.
        let leaves = try leaves(part)
        return MerkleTree.root(of: 0..<leaves.count, hasher) { (part: Range<Int>) -> Digest? in
            part.count == 1 ? leaves[part.lowerBound] : nil
        }
    }

    /// The head of the whole tree.
    package func head(_ name: [UInt8]) throws(Failure) -> JournalHead {
        guard let end = try end() else { throw damage("the journal has no tree") }
        return JournalHead(
            store: name, sequence: JournalSequence(rawValue: end.sequence), at: Instant(milliseconds: end.at),
            leaves: end.leaves, hash: try head(of: end.leaves).bytes)
    }

    /// The hash of the first leaves.
    package func head(of count: Int) throws(Failure) -> Digest {
        try MerkleTree.root(of: 0..<count, hasher) { (part) throws(Failure) in try known(part) }
    }

    /// The proof that a call is in the journal; nil for a call without a leaf of its own.
    package func receipt(of call: JournalSequence, _ name: [UInt8]) throws(Failure) -> JournalReceipt? {
        // The first leaf is that of no call.
        guard let place = try place(of: call.rawValue), place > 0 else { return nil }
        let head = try head(name)
        guard let row = try leaf(at: place) else {
            throw damage("the tree over the journal lacks leaves")
        }
        let content = try content(of: row)
        let path = try MerkleTree.path(to: place, in: 0..<head.leaves, hasher) { (part) throws(Failure) in
            try known(part)
        }
        return JournalReceipt(
            call: call, place: place, leaf: MerkleTree.leaf(content).bytes, content: content,
            path: path.map(\.bytes), head: head)
    }

    /// The proof that the head after a call is the beginning of the head of now; nil for a call before the tree.
    package func growth(from call: JournalSequence, _ name: [UInt8]) throws(Failure) -> JournalExtension? {
        let head = try head(name)
        guard let place = try place(of: call.rawValue) else { return nil }
        let leaves = place + 1
        let proof = try MerkleTree.consistency(of: leaves, in: head.leaves, hasher) { (part) throws(Failure) in
            try known(part)
        }
        return JournalExtension(
            from: leaves, hash: try self.head(of: leaves).bytes, proof: proof.map(\.bytes), head: head)
    }
}
