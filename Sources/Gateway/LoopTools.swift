package import Crypto
package import Domain
package import JSON

/// The tools with which a loop's thread reads and answers requests. Each loop has its own tools.
package final class LoopTools {
    package let json = JSONParser()
    /// The hash under which the store keeps identities.
    package let hash: KeyedHash

    private let look: @Sendable () -> Round
    private var round: Round?
    private let sha256 = SHA256()
    /// The keys found in a directory, under a cheaper hash than the store's. The table has at most as many entries as the
    /// directory has keys.
    private var knownKeys: [Hash128: AccessKey] = [:]
    private var knownIn: Directory?
    /// The statements of tokens with valid signatures, under the keys of a directory.
    var knownStatements: [Hash128: IdentityTokens.Statement] = [:]
    private var statementsReadIn: Directory?

    /// The facts that hold for all requests of a round.
    package struct Round: Sendable {
        package let now: Instant
        package let directory: Directory

        package init(now: Instant, directory: Directory) {
            self.now = now
            self.directory = directory
        }
    }

    /// - Parameter look: reads the clock and the store.
    package init(hash: KeyedHash, look: @escaping @Sendable () -> Round) {
        self.hash = hash
        self.look = look
    }

    package var now: Instant { thisRound.now }
    package var directory: Directory { thisRound.directory }

    /// The loop reads the clock and the store at most once in a round, because a round takes far less than a millisecond.
    private var thisRound: Round {
        if let round { return round }
        let round = look()
        self.round = round
        return round
    }

    func endRound() { round = nil }

    /// The directory's key for a text, also if the key is not valid any more.
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

    /// A tag that no other use of this hash key has.
    private static let keyTag: UInt64 = 0xFFFF_FFFF_FFFF_FFFF
}

extension Digest {
    package var keyHash: KeyHash {
        KeyHash(Hash128(high: words.1, low: words.0), Hash128(high: words.3, low: words.2))
    }
}
