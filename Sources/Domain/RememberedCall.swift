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
        /// The id of an upload: whatever it carries the second time, it is the same one.
        case uploadID = 3
    }

    /// The key of the same name as somebody's own.
    package func of(_ owner: UInt64) -> ReplayKey {
        ReplayKey(hash: Hash128(high: hash.high, low: hash.low ^ owner &* 0x9E37_79B9_7F4A_7C15), name: name)
    }

    /// The key of one of several commands that came under one key.
    package func at(_ place: Int) -> ReplayKey {
        ReplayKey(hash: Hash128(high: hash.high, low: hash.low &+ UInt64(place) &* 0x9E37_79B9_7F4A_7C15), name: name)
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

/// What is remembered of calls, by what they are recognized by.
///
/// Under an idempotency key there is one. A request id is used again by some clients, so under one of these the last few
/// calls are remembered, each with its body.
package struct RememberedCalls: Sendable {
    private var byKey: [ReplayKey: [RememberedCall]] = [:]

    /// How many calls are remembered under one key.
    package static let callsPerKey = 16

    package init() {}

    package var isEmpty: Bool { byKey.isEmpty }

    package func knows(_ key: ReplayKey) -> Bool { byKey[key] != nil }

    /// The earlier call that a claim is a repetition of; where there is none, the last under its key.
    package func earlier(_ claim: ReplayClaim) -> RememberedCall? {
        guard let calls = byKey[claim.key] else { return nil }
        return calls.last { $0.body == claim.body } ?? calls.last
    }

    /// Remembers a call, the last under its key.
    package mutating func add(_ key: ReplayKey, _ replay: RememberedCall) {
        byKey[key, default: []].append(replay)
        if byKey[key, default: []].count > RememberedCalls.callsPerKey { byKey[key]?.removeFirst() }
    }

    /// The calls under some keys alone.
    func under(_ keys: [ReplayKey]) -> RememberedCalls {
        var some = RememberedCalls()
        for key in keys { some.byKey[key] = byKey[key] }
        return some
    }

    /// Forgets the calls that came to some people.
    mutating func forget(_ people: Set<PersonID>) {
        byKey = byKey.compactMapValues { calls in
            let kept = calls.filter { call in call.reply.seen.map { !people.contains($0) } ?? true }
            return kept.isEmpty ? nil : kept
        }
    }

    /// Forgets the calls from before some moment.
    mutating func forget(before moment: Instant) {
        byKey = byKey.compactMapValues { calls in
            let kept = calls.filter { $0.at >= moment }
            return kept.isEmpty ? nil : kept
        }
    }
}

/// What is remembered of a call that changed something, so that the same call is given the same answer.
package struct RememberedCall: Equatable, Sendable {
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

    /// The answer to a call that was made before; nil where the call is a new one after all.
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
