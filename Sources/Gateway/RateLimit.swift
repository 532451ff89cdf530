/// A limit of calls: the calls per second in the long run, and the calls at once.
package struct RateLimit: Equatable, Sendable {
    /// Calls a second; 0 stands for no limit.
    package var perSecond: Int
    /// Calls at once, after a pause.
    package var burst: Int

    package static let rates = 0...100_000
    package static let bursts = 1...1_000_000

    package init(perSecond: Int, burst: Int) {
        precondition(RateLimit.rates.contains(perSecond) && RateLimit.bursts.contains(burst), "No such rate is kept.")
        self.perSecond = perSecond
        self.burst = burst
    }

    package static let off = RateLimit(perSecond: 0, burst: 1)
}

/// The limits of calls (spec/idsync.md, decision 13).
package struct RateLimits: Equatable, Sendable {
    /// The limit of all calls with one key.
    package var key = RateLimit(perSecond: 1000, burst: 2000)
    /// The limit of all calls that name one identity: a runaway client mostly repeats calls about one person.
    package var identity = RateLimit(perSecond: 20, burst: 100)
    /// The limit of the Claim dialect's calls that the vendor limits, with one key (spec/claim.md 1.1).
    package var claim = RateLimit(perSecond: 10, burst: 100)

    package init() {}

    package init(key: RateLimit, identity: RateLimit, claim: RateLimit = RateLimits().claim) {
        self.key = key
        self.identity = identity
        self.claim = claim
    }

    package static let off = RateLimits(key: .off, identity: .off, claim: .off)
}

/// The limit that a call has exceeded.
package enum RateLimitScope: Sendable, CaseIterable { case key, identity }

/// The arithmetic of a limit: each call adds an interval to a debt, time reduces the debt, and the debt has a greatest depth
/// (the generic cell rate algorithm). So the limiter keeps only one moment: the moment at which the debt will be zero.
///
///     slot, 8 bytes:   16 bits: tag, for the owner of the slots | 48 bits: the moment, in microseconds
///
/// The moment wraps around every nine years, so only its distance from now has a meaning.
struct Pace: Sendable {
    /// The interval in microseconds, rounded down, so that each caller gets at least the promised rate.
    let interval: Int64
    let depth: Int64

    static let tagMask: UInt64 = 0xFFFF << 48
    /// The greatest difference between the loops' clocks, because each loop reads its clock once in a round. A debt beyond
    /// the depth and this slack means an unused slot or a clock that was set back: then the debt counts as zero.
    private static let slack: Int64 = 1_000_000

    /// The result of a call, in microseconds.
    enum Grant: Equatable {
        case granted(debt: Int64)
        case refused(wait: Int64)
    }

    /// Makes the arithmetic; nil without a limit.
    init?(_ limit: RateLimit) {
        guard limit.perSecond > 0 else { return nil }
        interval = 1_000_000 / Int64(limit.perSecond)
        depth = interval * Int64(limit.burst)
    }

    /// The debt at a moment.
    @inline(__always)
    func debt(_ slot: UInt64, at now: UInt64) -> Int64 {
        let distance = Int64(bitPattern: (slot &- now) &<< 16) &>> 16
        return distance > 0 && distance <= depth &+ Pace.slack ? distance : 0
    }

    /// The result of a call, for a caller with a debt.
    @inline(__always)
    func grant(owing debt: Int64) -> Grant {
        let more = debt &+ interval
        return more <= depth ? .granted(debt: more) : .refused(wait: more &- depth)
    }

    /// The slot for a debt at a moment.
    @inline(__always)
    func slot(tag: UInt64, owing debt: Int64, at now: UInt64) -> UInt64 {
        tag | (now &+ UInt64(bitPattern: debt)) & ~Pace.tagMask
    }

    /// The used part of the limit in percent.
    func percentage(owing debt: Int64) -> Int { Int(min(100, debt * 100 / depth)) }
}
