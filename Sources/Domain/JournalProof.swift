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
    /// The hash of the call's leaf. It tells nothing about the people of the call.
    package let leaf: [UInt8]
    /// The hashes that lead from the leaf to the head, as in RFC 6962.
    package let path: [[UInt8]]
    package let head: JournalHead

    package init(call: JournalSequence, place: Int, leaf: [UInt8], path: [[UInt8]], head: JournalHead) {
        self.call = call
        self.place = place
        self.leaf = leaf
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
