/// The hash of what a call is recognized by: its idempotency key, or the request id of its dialect.
package struct ReplayKey: Hashable, Sendable {
    package let hash: Hash128
    package let name: Name

    package init(hash: Hash128, name: Name) {
        self.hash = hash
        self.name = name
    }

    /// By what kind of name a call is recognized.
    package enum Name: UInt8, Sendable {
        /// The `Idempotency-Key` field: another body under the same key is refused.
        case idempotencyKey = 1
        /// A request id in the body: another body under the same id is a call of its own.
        case requestID = 2
    }

    package init(_ name: Name, _ text: borrowing Span<UInt8>, in project: ProjectID, hash: KeyedHash) {
        self.name = name
        // Far from the tags of identities, which end in a type of eight bits.
        let tag = 1 << 63 | UInt64(UInt32(bitPattern: project.rawValue)) << 8 | UInt64(name.rawValue)
        self.hash = hash.hash(tag: tag, text)
    }
}

/// A call's claim to be recognized: by what, and what it asks for.
package struct ReplayClaim: Equatable, Sendable {
    package let key: ReplayKey
    /// The hash of the call's path and body.
    package let body: Hash128

    package init(key: ReplayKey, body: Hash128) {
        self.key = key
        self.body = body
    }
}

/// What is remembered of a call that changed something, so that the same call is given the same answer.
package struct Replay: Equatable, Sendable {
    package let body: Hash128
    package let reply: Reply
    package let at: Instant

    package init(body: Hash128, reply: Reply, at: Instant) {
        self.body = body
        self.reply = reply
        self.at = at
    }

    /// How long a call is remembered, at least.
    package static let memoryMilliseconds: Int64 = 24 * 3600 * 1000

    /// What a call comes to that was made before; nil where it is a call of its own after all.
    package func decision(for claim: ReplayClaim) throws(Refusal) -> Decision? {
        if body == claim.body { return Decision(reply: reply) }
        switch claim.key.name {
        case .idempotencyKey: throw .idempotencyMismatch
        case .requestID: return nil
        }
    }
}
