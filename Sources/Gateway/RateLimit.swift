/// How fast calls may come: so many a second in the long run, and so many at once.
package struct RateLimit: Equatable, Sendable {
    /// Calls a second; 0 stands for no limit.
    package var perSecond: Int
    /// Calls at once, after a time without any.
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

/// The limits that calls are held to (spec/idsync.md, decision 13).
package struct RateLimits: Equatable, Sendable {
    /// Of all calls with one key.
    package var key = RateLimit(perSecond: 1000, burst: 2000)
    /// Of all calls that name one identity: what runs away is mostly one client with one person.
    package var identity = RateLimit(perSecond: 20, burst: 100)
    /// Of the calls of the Claim dialect that its vendor limits, with one key (spec/claim.md 1.1).
    package var claim = RateLimit(perSecond: 10, burst: 100)

    package init() {}

    package init(key: RateLimit, identity: RateLimit, claim: RateLimit = RateLimits().claim) {
        self.key = key
        self.identity = identity
        self.claim = claim
    }

    package static let off = RateLimits(key: .off, identity: .off, claim: .off)
}

/// Which limit a call has run into.
package enum RateLimitScope: Sendable, CaseIterable { case key, identity }

/// The arithmetic of a limit: each call owes an interval, time pays it off, and nobody may owe more than a depth (the generic
/// cell rate algorithm). So all that is kept of the past is a moment, when everything will be paid off.
///
///     slot, 8 bytes:   16 bits: tag, for whoever keeps slots | 48 bits: the moment, in microseconds
///
/// The moment comes round every nine years, so only its distance from now means anything.
struct Pace: Sendable {
    /// In microseconds, rounded down: nobody gets less than was promised.
    let interval: Int64
    let depth: Int64

    static let tagMask: UInt64 = 0xFFFF << 48
    /// How far clocks may disagree: loops look at theirs once in a round. What owes more than is possible was never used,
    /// or the clock was set back; then nothing is owed.
    private static let slack: Int64 = 1_000_000

    /// What a call comes to, in microseconds.
    enum Grant: Equatable {
        case granted(debt: Int64)
        case refused(wait: Int64)
    }

    /// Nil where there is no limit.
    init?(_ limit: RateLimit) {
        guard limit.perSecond > 0 else { return nil }
        interval = 1_000_000 / Int64(limit.perSecond)
        depth = interval * Int64(limit.burst)
    }

    /// What is owed at a moment.
    @inline(__always)
    func debt(_ slot: UInt64, at now: UInt64) -> Int64 {
        let distance = Int64(bitPattern: (slot &- now) &<< 16) &>> 16
        return distance > 0 && distance <= depth &+ Pace.slack ? distance : 0
    }

    /// What a call comes to for whoever owes so much already.
    @inline(__always)
    func grant(owing debt: Int64) -> Grant {
        let more = debt &+ interval
        return more <= depth ? .granted(debt: more) : .refused(wait: more &- depth)
    }

    /// A slot, for what is owed at a moment.
    @inline(__always)
    func slot(tag: UInt64, owing debt: Int64, at now: UInt64) -> UInt64 {
        tag | (now &+ UInt64(bitPattern: debt)) & ~Pace.tagMask
    }

    /// How much of the limit is used, in percent.
    func percentage(owing debt: Int64) -> Int { Int(min(100, debt * 100 / depth)) }
}
