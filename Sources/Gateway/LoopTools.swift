package import Crypto
package import Domain
package import JSON

/// What a loop's thread has at hand to read and answer requests with. Each loop has its own.
package final class LoopTools {
    package let json = JSONParser()
    /// The hash that the store knows identities by.
    package let hash: KeyedHash

    private let look: @Sendable () -> Round
    private var round: Round?
    private let sha256 = SHA256()
    /// Keys that were found in a directory, by a hash that costs less than the one they are kept by. There are never
    /// more of them than the directory has keys.
    private var knownKeys: [Hash128: AccessKey] = [:]
    private var knownIn: Directory?
    /// What tokens say whose signatures hold, under the keys of a directory.
    var knownStatements: [Hash128: IdentityTokens.Statement] = [:]
    private var statementsReadIn: Directory?

    /// What holds for all requests of a round.
    package struct Round: Sendable {
        package let now: Instant
        package let directory: Directory

        package init(now: Instant, directory: Directory) {
            self.now = now
            self.directory = directory
        }
    }

    /// - Parameter look: looks at the clock and at the store.
    package init(hash: KeyedHash, look: @escaping @Sendable () -> Round) {
        self.hash = hash
        self.look = look
    }

    package var now: Instant { thisRound.now }
    package var directory: Directory { thisRound.directory }

    /// Looked at once, and only when somebody asks: a round takes far less than a millisecond.
    private var thisRound: Round {
        if let round { return round }
        let round = look()
        self.round = round
        return round
    }

    func endRound() { round = nil }

    /// The key that a directory has for a text, whether or not it may still be used.
    package func key(_ text: borrowing Span<UInt8>, in directory: Directory) -> AccessKey? {
        if knownIn !== directory {
            knownKeys = [:]
            knownIn = directory
        }
        let quick = hash.hash(tag: LoopTools.keyTag, text)
        if let key = knownKeys[quick] { return key }
        guard let key = directory.key(sha256.digest(of: text).keyHash) else { return nil }
        knownKeys[quick] = key
        return key
    }

    func forgetStatements(unlessReadIn directory: Directory) {
        if statementsReadIn === directory { return }
        knownStatements = [:]
        statementsReadIn = directory
    }

    static let statementsAtMost = 4096
    static let tokenTag: UInt64 = 0xFFFF_FFFD_0000_0000

    /// Unlike the tag of anything else that is hashed with the same key.
    private static let keyTag: UInt64 = 0xFFFF_FFFF_FFFF_FFFF
}

extension Digest {
    package var keyHash: KeyHash {
        KeyHash(Hash128(high: words.1, low: words.0), Hash128(high: words.3, low: words.2))
    }
}
