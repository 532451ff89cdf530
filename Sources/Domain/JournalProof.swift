/// The head of the tree over the journal: one hash that stands for all calls up to a call (docs/decisions/0064).
package struct JournalHead: Equatable, Sendable {
    /// The name of the store, 16 bytes, which is the same in all its copies.
    package let store: [UInt8]
    /// The last call, and its moment.
    package let sequence: JournalSequence
    package let at: Instant
    /// The number of leaves of the tree: the calls since the tree began, and a leaf for the calls before.
    package let leaves: Int
    /// The 32 bytes of the hash.
    package let hash: [UInt8]

    package init(store: [UInt8], sequence: JournalSequence, at: Instant, leaves: Int, hash: [UInt8]) {
        self.store = store
        self.sequence = sequence
        self.at = at
        self.leaves = leaves
        self.hash = hash
    }
}

/// The proof that a call is in the journal under a head.
package struct JournalReceipt: Equatable, Sendable {
    package let call: JournalSequence
    /// The place of the call's leaf in the tree, from 0.
    package let place: Int
    /// The hash of the call's leaf.
    package let leaf: [UInt8]
    /// The bytes that the leaf is the hash of (``LeafContent``). They have no value of anybody.
    package let content: [UInt8]
    /// The hashes that lead from the leaf to the head, as in RFC 6962.
    package let path: [[UInt8]]
    package let head: JournalHead

    package init(
        call: JournalSequence, place: Int, leaf: [UInt8], content: [UInt8], path: [[UInt8]], head: JournalHead
    ) {
        self.call = call
        self.place = place
        self.leaf = leaf
        self.content = content
        self.path = path
        self.head = head
    }
}

/// The proof that an earlier head is a beginning of the journal under a head.
package struct JournalExtension: Equatable, Sendable {
    /// The leaves of the earlier head.
    package let from: Int
    /// The hash that the earlier head had.
    package let hash: [UInt8]
    package let proof: [[UInt8]]
    package let head: JournalHead

    package init(from: Int, hash: [UInt8], proof: [[UInt8]], head: JournalHead) {
        self.from = from
        self.hash = hash
        self.proof = proof
        self.head = head
    }
}

/// The bytes that a leaf of the tree is the hash of: eight numbers of eight bytes each, and a commitment of 32 bytes for each
/// person of the call.
package struct LeafContent: Equatable, Sendable {
    package let call: JournalSequence
    package let at: Instant
    package let project: ProjectID

    private static let headBytes = 64
    private static let commitmentBytes = 32

    /// The numbers of a call at the beginning of its leaf.
    package static func head(
        sequence: Int64, at: Int64, project: Int64, key: Int64?, kind: Int64, person: Int64?
    ) -> [UInt8] {
        var packer = Packer(reserving: LeafContent.headBytes + 2 * LeafContent.commitmentBytes)
        packer.add(fixed: UInt64(bitPattern: sequence), UInt64(bitPattern: at))
        packer.add(fixed: UInt64(bitPattern: project))
        packer.add(fixed: key == nil ? 0 : 1, UInt64(bitPattern: key ?? 0))
        packer.add(fixed: UInt64(bitPattern: kind))
        packer.add(fixed: person == nil ? 0 : 1, UInt64(bitPattern: person ?? 0))
        return packer.bytes
    }

    /// Reads the bytes of a leaf; nil for other bytes.
    package init?(_ bytes: [UInt8]) {
        let commitments = bytes.count - LeafContent.headBytes
        guard commitments > 0, commitments % LeafContent.commitmentBytes == 0 else { return nil }
        var unpacker = Unpacker(bytes)
        guard let sequence = unpacker.fixed(), let at = unpacker.fixed(), let project = unpacker.fixed(),
            let project = Int32(exactly: project)
        else { return nil }
        call = JournalSequence(rawValue: Int64(bitPattern: sequence))
        self.at = Instant(milliseconds: Int64(bitPattern: at))
        self.project = ProjectID(rawValue: project)
    }
}
