import Domain
import Gateway
import TestKit
import Testing
import Threads

@Suite("Limits of calls")
struct RateLimiterTests {
    private static let start = Instant(milliseconds: 1_800_000_000_000)

    private static func after(_ milliseconds: Int64) -> Instant { start.advanced(byMilliseconds: milliseconds) }

    /// How many calls in a row are let through.
    private func granted(_ calls: Int, at now: Instant, _ call: (Instant) throws -> Void) -> Int {
        var granted = 0
        for _ in 0..<calls where (try? call(now)) != nil { granted += 1 }
        return granted
    }

    // MARK: - Keys

    @Test("let as many through at once as may come at once, and then as many a second as may come a second")
    func burstAndRate() {
        let limiter = RateLimiter(RateLimits(key: RateLimit(perSecond: 10, burst: 5), identity: .off))
        let bucket = limiter.bucket(of: KeyID(rawValue: 1))
        func calls(_ count: Int, _ milliseconds: Int64) -> Int {
            granted(count, at: Self.after(milliseconds)) { _ = try limiter.count(bucket, at: $0) }
        }
        #expect(calls(9, 0) == 5)
        #expect(calls(9, 99) == 0)
        #expect(calls(9, 100) == 1)
        #expect(calls(9, 350) == 2)
        #expect(calls(99, 100_000) == 5, "what was not used is not saved up")
        // Over a long time exactly the rate comes through.
        var sum = 0
        for step in 1...1000 { sum += calls(3, 100_000 + Int64(step) * 37) }
        #expect(sum == 370)
    }

    @Test("say when to come again, and how much is used")
    func waiting() throws {
        let limiter = RateLimiter(RateLimits(key: RateLimit(perSecond: 1, burst: 4), identity: .off))
        let bucket = limiter.bucket(of: KeyID(rawValue: 1))
        let used = try (0..<4).map { _ in try limiter.count(bucket, at: Self.start) }
        #expect(used == [25, 50, 75, 100])
        do {
            _ = try limiter.count(bucket, at: Self.after(-500))
            Issue.record("It was let through.")
        } catch {
            #expect(error.scope == .key && error.wait == 1_500_000 && error.retryAfterSeconds == 2)
        }
        #expect(try limiter.count(bucket, at: Self.after(1000)) == 100)
    }

    @Test("count the refused calls of the last hour and of the last day")
    func refusedCalls() throws {
        let limiter = RateLimiter(RateLimits(key: RateLimit(perSecond: 1, burst: 1), identity: .off))
        let (key, minute) = (KeyID(rawValue: 1), Int64(60_000))
        #expect(limiter.use(of: key, at: Self.start) == nil, "a key that has not called")
        let bucket = limiter.bucket(of: key)
        func refused(_ count: Int, _ milliseconds: Int64) {
            #expect(granted(count + 1, at: Self.after(milliseconds)) { _ = try limiter.count(bucket, at: $0) } == 1)
        }
        func counts(_ milliseconds: Int64) -> [Int] {
            limiter.use(of: key, at: Self.after(milliseconds)).map { [$0.refusedInHour, $0.refusedInDay] } ?? []
        }
        refused(3, 0)
        #expect(limiter.use(of: key, at: Self.start)?.percentage == 100)
        refused(2, 30 * minute)
        #expect(counts(30 * minute) == [5, 5])
        #expect(counts(70 * minute) == [2, 5])
        #expect(limiter.use(of: key, at: Self.after(70 * minute))?.lastAt == Self.after(30 * minute))
        refused(1, 20 * 60 * minute)
        #expect(counts(20 * 60 * minute) == [1, 6])
        #expect(counts(26 * 60 * minute) == [0, 1])
        refused(4, 90 * 24 * 60 * minute)
        #expect(counts(90 * 24 * 60 * minute) == [4, 4], "months without a call")
        #expect(counts(100 * 24 * 60 * minute) == [0, 0])
    }

    @Test("hold each key to a limit of its own")
    func keysApart() throws {
        let limiter = RateLimiter(RateLimits(key: RateLimit(perSecond: 1, burst: 1), identity: .off))
        for key in 1...1000 {
            let bucket = limiter.bucket(of: KeyID(rawValue: Int64(key)))
            #expect(granted(2, at: Self.start) { _ = try limiter.count(bucket, at: $0) } == 1)
            #expect(limiter.bucket(of: KeyID(rawValue: Int64(key))) === bucket)
        }
    }

    @Test("do nothing where they are off")
    func off() throws {
        let limiter = RateLimiter(.off)
        let bucket = limiter.bucket(of: KeyID(rawValue: 1))
        for _ in 0..<10_000 {
            #expect(try limiter.count(bucket, at: Self.start) == nil)
            try limiter.count([World.identity(.email, "a")], at: Self.start)
        }
    }

    @Test("begin anew when the clock is set back, and are not fooled when it is set forward")
    func clockSet() {
        let limiter = RateLimiter(RateLimits(key: RateLimit(perSecond: 10, burst: 5), identity: .off))
        let bucket = limiter.bucket(of: KeyID(rawValue: 1))
        func calls(_ milliseconds: Int64) -> Int {
            granted(9, at: Self.after(milliseconds)) { _ = try limiter.count(bucket, at: $0) }
        }
        #expect(calls(0) == 5)
        #expect(calls(-10) == 0, "loops look at their clocks at different times")
        #expect(calls(-3_600_000) == 5)
        #expect(calls(0) == 5)
        #expect(calls(86_400_000 * 365 * 4) == 5)
    }

    @Test("let no more through when all threads call at once")
    func concurrentKeys() {
        let limiter = RateLimiter(
            RateLimits(key: RateLimit(perSecond: 1, burst: 1000), identity: RateLimit(perSecond: 1, burst: 500)))
        let sum = Monitor((key: 0, identity: 0))
        let threads = (0..<4).map { number in
            WorkerThread(name: "caller-\(number)") {
                let bucket = limiter.bucket(of: KeyID(rawValue: 7))
                let identities = [World.identity(.customerID, "hot")]
                var (key, identity) = (0, 0)
                for _ in 0..<1000 {
                    if (try? limiter.count(bucket, at: Self.start)) != nil { key += 1 }
                    if (try? limiter.count(identities, at: Self.start)) != nil { identity += 1 }
                }
                sum.withLock { [key, identity] in $0 = ($0.key + key, $0.identity + identity) }
            }
        }
        for thread in threads { thread.join() }
        let (key, identity) = sum.withLock { $0 }
        #expect(key == 1000)
        #expect(identity == 500)
    }

    // MARK: - Identities

    @Test("hold each identity to its limit, whichever others a call names")
    func identities() {
        let limiter = RateLimiter(RateLimits(key: .off, identity: RateLimit(perSecond: 20, burst: 3)))
        func calls(_ identities: [Identity], _ milliseconds: Int64 = 0) -> Int {
            granted(9, at: Self.after(milliseconds)) { try limiter.count(identities, at: $0) }
        }
        let (ada, phone) = (World.identity(.customerID, "ada"), World.identity(.iosIDFV, "phone"))
        #expect(calls([ada]) == 3)
        #expect(calls([World.identity(.email, "ada")]) == 3, "another type is another identity")
        #expect(calls([ada, phone]) == 0)
        #expect(calls([phone]) == 3)
        #expect(calls([ada], 50) == 1)
        #expect(calls([], 50) == 9)
    }

    @Test("forget what has been idle, never what is hot, however many others come by")
    func boundedMemory() {
        let limiter = RateLimiter(RateLimits(key: .off, identity: RateLimit(perSecond: 20, burst: 100)))
        let hot = [World.identity(.customerID, "hot")]
        #expect(granted(200, at: Self.start) { try limiter.count(hot, at: $0) } == 100)
        // Far more than there is room for, all in one moment.
        var refused = 0
        for number in 0..<200_000 {
            let other = [World.identity(.customerID, "other-\(number)")]
            if granted(1, at: Self.start, { try limiter.count(other, at: $0) }) == 0 { refused += 1 }
        }
        #expect(refused == 0)
        #expect(granted(200, at: Self.start) { try limiter.count(hot, at: $0) } == 0)
        #expect(granted(200, at: Self.after(1000)) { try limiter.count(hot, at: $0) } == 20)
        #expect(granted(200, at: Self.after(60_000)) { try limiter.count(hot, at: $0) } == 100)
    }
}
