/// The hash under which the server recognizes a call: of its idempotency key, or of the request id of its dialect.
package struct ReplayKey: Hashable, Sendable {
    package let hash: Hash128
    package let name: Name

    package init(hash: Hash128, name: Name) {
        self.hash = hash
        self.name = name
    }

    /// The kind of name under which the server recognizes a call.
    package enum Name: UInt8, Sendable {
        /// The `Idempotency-Key` field. The server refuses another body under the same key.
        case idempotencyKey = 1
        /// A request id in the body. Another body under the same id is a new call.
        case requestID = 2
        /// The id of an upload. A second upload with the id is a repetition, also with another body.
        case uploadID = 3
    }

    /// The same key in the space of one owner.
    package func of(_ owner: UInt64) -> ReplayKey {
        ReplayKey(hash: Hash128(high: hash.high, low: hash.low ^ owner &* 0x9E37_79B9_7F4A_7C15), name: name)
    }

    /// The key of one of several commands under one key.
    package func at(_ place: Int) -> ReplayKey {
        ReplayKey(hash: Hash128(high: hash.high, low: hash.low &+ UInt64(place) &* 0x9E37_79B9_7F4A_7C15), name: name)
    }

    package init(_ name: Name, _ text: borrowing Span<UInt8>, in project: ProjectID, hash: KeyedHash) {
        self.name = name
        // This tag differs from all tags of identities, which end in a type of eight bits.
        let tag = 1 << 63 | UInt64(UInt32(bitPattern: project.rawValue)) << 8 | UInt64(name.rawValue)
        self.hash = hash.hash(tag: tag, text)
    }
}

/// The key under which a call is remembered, and the hash of its content.
package struct ReplayClaim: Equatable, Sendable {
    package let key: ReplayKey
    /// The hash of the call's path and body.
    package let body: Hash128

    package init(key: ReplayKey, body: Hash128) {
        self.key = key
        self.body = body
    }
}

/// The remembered calls, by their keys.
///
/// An idempotency key has one call. Some clients use a request id again, so a request id has the last few calls, each with
/// its body.
package struct RememberedCalls: Sendable {
    private var byKey: [ReplayKey: [RememberedCall]] = [:]

    /// The limit of calls under one key.
    package static let callsPerKey = 16

    package init() {}

    package var isEmpty: Bool { byKey.isEmpty }

    /// Whether a call is remembered under a key.
    package func knows(_ key: ReplayKey) -> Bool { byKey[key] != nil }

    /// The earlier call with the key and the body of a claim. If no body matches, the last call under the key.
    package func earlier(_ claim: ReplayClaim) -> RememberedCall? {
        guard let calls = byKey[claim.key] else { return nil }
        return calls.last { $0.body == claim.body } ?? calls.last
    }

    /// Remembers a call as the last call under its key.
    package mutating func add(_ key: ReplayKey, _ replay: RememberedCall) {
        byKey[key, default: []].append(replay)
        if byKey[key, default: []].count > RememberedCalls.callsPerKey { byKey[key]?.removeFirst() }
    }

    /// The remembered calls under some keys.
    func under(_ keys: [ReplayKey]) -> RememberedCalls {
        var some = RememberedCalls()
        for key in keys { some.byKey[key] = byKey[key] }
        return some
    }

    /// Forgets the calls of some people.
    mutating func forget(_ people: Set<PersonID>) {
        byKey = byKey.compactMapValues { calls in
            let kept = calls.filter { call in call.reply.seen.map { !people.contains($0) } ?? true }
            return kept.isEmpty ? nil : kept
        }
    }

    /// Forgets the calls from before a moment.
    mutating func forget(before moment: Instant) {
        byKey = byKey.compactMapValues { calls in
            let kept = calls.filter { $0.at >= moment }
            return kept.isEmpty ? nil : kept
        }
    }
}

/// The answer of a call that changed something. A repetition of the call gets the same answer.
package struct RememberedCall: Equatable, Sendable {
    package let body: Hash128
    package let reply: Reply
    package let at: Instant

    package init(body: Hash128, reply: Reply, at: Instant) {
        self.body = body
        self.reply = reply
        self.at = at
    }

    /// The shortest time for which the server remembers a call.
    package static let memoryMilliseconds: Int64 = 24 * 3600 * 1000

    /// The answer of the earlier call; nil if the call is new. Throws `idempotencyMismatch` for another body under an
    /// idempotency key.
    package func reply(for claim: ReplayClaim) throws(Refusal) -> Reply? {
        if body == claim.body || claim.key.name == .uploadID { return reply }
        switch claim.key.name {
        case .idempotencyKey: throw .idempotencyMismatch
        case .requestID, .uploadID: return nil
        }
    }
}

extension Refusal {
    package static let idempotencyMismatch = Refusal(
        .unprocessable, "idempotency_mismatch",
        "This Idempotency-Key was used before, with another call; use a new key for a new call.")
}
