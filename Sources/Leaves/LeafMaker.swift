package import Crypto
package import Domain

/// The packed columns of a call that its leaf commits to.
package struct PackedCall {
    package let inputs: [UInt8]?
    package let reply: [UInt8]

    package init(inputs: [UInt8]?, reply: [UInt8]) { (self.inputs, self.reply) = (inputs, reply) }
}

/// A new leaf.
package struct NewLeaf {
    package let sequence: Int64
    package let place: Int
    package let mark: [UInt8]
    package let opening: [UInt8]
    /// The people of the call beside its own person.
    package let others: [Int64]
}

/// What a batch adds to the tree over the journal.
package struct TreeAddition {
    package fileprivate(set) var leaves: [NewLeaf] = []
    package fileprivate(set) var roots: [(number: Int, root: Digest)] = []
    package fileprivate(set) var edge: MerkleEdge
}

/// Makes the leaves of the calls of one writer.
package struct LeafMaker {
    private let hasher = SHA256()
    private var salts: [UInt8] = []
    private var usedSalts = 0

    private static let saltsAtOnce = 256 * LeafOpening.saltBytes

    package init() {}

    /// Makes the leaves of a batch, which come behind an edge.
    package mutating func addition(
        of entries: [JournalEntry], _ packed: [PackedCall], after last: Int64, to edge: MerkleEdge, _ hash: KeyedHash
    ) -> TreeAddition {
        var addition = TreeAddition(edge: edge)
        addition.leaves.reserveCapacity(entries.count)
        var sequence = last
        for (entry, packed) in zip(entries, packed) {
            sequence += 1
            let columns = LeafColumns(
                sequence: sequence, at: entry.at.milliseconds, project: Int64(entry.project.rawValue),
                key: entry.key?.rawValue, kind: Int64(entry.kind.rawValue), person: entry.person?.rawValue,
                requestID: entry.requestID, replay: entry.replay?.key.hash.bytes, body: entry.replay?.body.bytes,
                inputs: packed.inputs, reply: packed.reply, note: entry.note)
            let opening = LeafOpening(salt: nextSalt(), LeafMaker.facts(of: entry, hash), hasher)
            let leaf = opening.leaf(columns, hasher)
            addition.leaves.append(
                NewLeaf(
                    sequence: sequence, place: addition.edge.count, mark: LeafOpening.mark(of: leaf),
                    opening: opening.packed(), others: opening.parts.dropFirst().map(\.person)))
            if let root = addition.edge.add(leaf, hasher) {
                addition.roots.append((addition.edge.count / MerkleEdge.keptLeaves - 1, root))
            }
        }
        return addition
    }

    private mutating func nextSalt() -> Hash128 {
        if usedSalts == salts.count { (salts, usedSalts) = (SecureRandom.bytes(LeafMaker.saltsAtOnce), 0) }
        defer { usedSalts += LeafOpening.saltBytes }
        guard let salt = Hash128(salts.span.extracting(usedSalts..<usedSalts + LeafOpening.saltBytes)) else {
            preconditionFailure("A salt has 16 bytes.")
        }
        return salt
    }

    /// The packed facts of a call by person, its own person first.
    private static func facts(of entry: JournalEntry, _ hash: KeyedHash) -> [(person: Int64, facts: Packer)] {
        var parts = [(person: entry.person?.rawValue ?? 0, facts: Packer(reserving: 96))]
        var places: [Int64: Int] = [:]
        for change in entry.changes {
            guard let (person, fact, name) = LeafFact.of(change, hash) else { continue }
            var place = 0
            // Most calls have one person.
            if person != parts[0].person {
                place = places[person] ?? parts.count
                if place == parts.count {
                    parts.append((person, Packer()))
                    places[person] = place
                }
            }
            fact.pack(into: &parts[place].facts)
            name?.pack(into: &parts[place].facts)
        }
        return parts
    }
}

/// Makes the first leaf of a tree, which stands for the calls before the tree.
package struct FirstLeaf {
    private let hasher: SHA256

    package init(_ hasher: SHA256) {
        self.hasher = hasher
        hasher.begin()
    }

    /// Adds a call from before the tree. Calls are added in the order of their numbers.
    package func add(sequence: Int64, at: Int64, project: Int64, kind: Int64) {
        var packer = Packer()
        for number in [sequence, at, project, kind] { packer.add(fixed: UInt64(bitPattern: number)) }
        hasher.update(packer.bytes)
    }

    /// The content of the leaf: the number of the last call before the tree, and a hash of the added calls.
    package func content(last: Int64) -> [UInt8] {
        let journal = hasher.finish()
        var packer = Packer()
        packer.add(plain: Array("onym".utf8))
        packer.add(fixed: UInt64(bitPattern: last))
        packer.add(plain: journal.bytes)
        return packer.bytes
    }
}
