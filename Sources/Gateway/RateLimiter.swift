package import Domain
import Synchronization
import Threads

/// Limits callers, over all loops together. It counts for this process alone, and its counts end with the process.
package final class RateLimiter: Sendable {
    private let key: Pace?
    private let claim: Pace?
    private let identity: (pace: Pace, buckets: BucketTable)?
    /// The buckets by key, for keys that have called. So the table has at most as many entries as keys existed.
    private let keys = Monitor<[KeyID: KeyBucket]>([:])
    /// The buckets of apps for their calls without a key.
    private let apps = Monitor<[AppID: KeyBucket]>([:])

    /// The debt of a key.
    package final class KeyBucket: Sendable {
        fileprivate let slot = Atomic<UInt64>(0)
        fileprivate let claimSlot = Atomic<UInt64>(0)
        /// The last use of the key, and the last use that the store keeps, in milliseconds since 1970.
        private let usedAt = Atomic<Int64>(0)
        private let notedAt = Atomic<Int64>(0)

        /// The last use of the key, to the second; nil without a use since the server started.
        package var lastUse: Instant? {
            let moment = usedAt.load(ordering: .relaxed)
            return moment == 0 ? nil : Instant(milliseconds: moment)
        }

        /// Records a use. Answers true once an hour: then the caller keeps the use in the store.
        package func use(at now: Instant) -> Bool {
            let (now, before) = (now.milliseconds, usedAt.load(ordering: .relaxed))
            // Most calls write nothing here, so that loops do not compete for this cache line.
            // The clock may have gone back.
            if (0..<1000).contains(now - before) { return false }
            usedAt.store(now, ordering: .relaxed)
            let noted = notedAt.load(ordering: .relaxed)
            if noted != 0, (0..<KeyBucket.noteMilliseconds).contains(now - noted) { return false }
            let (isMine, _) = notedAt.compareExchange(expected: noted, desired: now, ordering: .relaxed)
            return isMine && noted != 0
        }

        private static let noteMilliseconds: Int64 = 3_600_000

        fileprivate let refused = Monitor(RefusedCalls())
    }

    /// A limit that a call has exceeded, and the time to wait.
    package struct Exceeded: Error, Equatable {
        package let scope: RateLimitScope
        /// The time until the next call is allowed, in microseconds.
        package let wait: Int64

        /// The time in whole seconds, at least one.
        package var retryAfterSeconds: Int { max(1, Int((wait + 999_999) / 1_000_000)) }
    }

    package init(_ limits: RateLimits) {
        key = Pace(limits.key)
        claim = Pace(limits.claim)
        identity = Pace(limits.identity).map { ($0, BucketTable()) }
    }

    /// The bucket of a key; each key always has the same bucket.
    package func bucket(of key: KeyID) -> KeyBucket {
        RateLimiter.bucket(of: key, in: keys)
    }

    /// The bucket of an app's calls without a key.
    package func bucket(of app: AppID) -> KeyBucket {
        RateLimiter.bucket(of: app, in: apps)
    }

    private static func bucket<Owner: Hashable & Sendable>(
        of owner: Owner, in buckets: Monitor<[Owner: KeyBucket]>
    ) -> KeyBucket {
        buckets.withLock { buckets in
            if let bucket = buckets[owner] { return bucket }
            let bucket = KeyBucket()
            buckets[owner] = bucket
            return bucket
        }
    }

    /// Counts a call with a key. Answers the used part of the key's limit in percent, if the key has a limit.
    package func count(_ bucket: KeyBucket, at now: Instant) throws(Exceeded) -> Int? {
        do throws(Exceeded) {
            return try key.flatMap { key throws(Exceeded) in try RateLimiter.count(bucket.slot, key, at: now) }
        } catch {
            bucket.refused.withLock { $0.add(at: now) }
            throw error
        }
    }

    /// Counts a call of the Claim dialect, which has a limit of its own.
    package func countClaim(_ bucket: KeyBucket, at now: Instant) throws(Exceeded) {
        do throws(Exceeded) {
            _ = try claim.flatMap { claim throws(Exceeded) in try RateLimiter.count(bucket.claimSlot, claim, at: now) }
        } catch {
            bucket.refused.withLock { $0.add(at: now) }
            throw error
        }
    }

    /// What a key has used of its limits, and the calls that were refused; nil for a key that has not called.
    package func use(of key: KeyID, at now: Instant) -> KeyLimitUse? {
        guard let bucket = keys.withLock({ $0[key] }) else { return nil }
        let moment = RateLimiter.microseconds(now)
        let shares = [
            (self.key, bucket.slot.load(ordering: .relaxed)), (claim, bucket.claimSlot.load(ordering: .relaxed)),
        ]
        .map { pace, slot in pace.map { $0.percentage(owing: $0.debt(slot, at: moment)) } ?? 0 }
        return bucket.refused.withLock { refused in
            KeyLimitUse(
                refusedInHour: refused.count(in: RefusedCalls.hour, at: now),
                refusedInDay: refused.count(in: RefusedCalls.day, at: now), lastAt: refused.lastAt,
                percentage: shares.max() ?? 0)
        }
    }

    private static func count(_ slot: borrowing Atomic<UInt64>, _ pace: Pace, at now: Instant) throws(Exceeded) -> Int {
        let now = microseconds(now)
        var found = slot.load(ordering: .relaxed)
        while true {
            switch pace.grant(owing: pace.debt(found, at: now)) {
            case .refused(let wait): throw Exceeded(scope: .key, wait: wait)
            case .granted(let debt):
                let (isDone, other) = slot.weakCompareExchange(
                    expected: found, desired: pace.slot(tag: 0, owing: debt, at: now), ordering: .relaxed)
                if isDone { return pace.percentage(owing: debt) }
                found = other
            }
        }
    }

    /// Counts a call for its identities. If an identity exceeds its limit, the identities before it are counted.
    package func count(_ identities: [Identity], at now: Instant) throws(Exceeded) {
        guard let (pace, buckets) = identity else { return }
        let now = RateLimiter.microseconds(now)
        for identity in identities {
            if case .refused(let wait) = buckets.take(identity.key.hash.low, pace, at: now) {
                throw Exceeded(scope: .identity, wait: wait)
            }
        }
    }

    private static func microseconds(_ moment: Instant) -> UInt64 {
        UInt64(bitPattern: moment.milliseconds) &* 1000
    }
}

/// Buckets for more things than the table has room for. A new thing replaces the bucket with the smallest debt, and most
/// debts are zero a moment after the call. No thread waits for another thread.
///
/// A set of slots is one cache line. The lowest bits of a hash choose the set, and the highest bits recognize the hash in the
/// set. Two hashes are confused with a chance of 1 in 2^29, and then share a limit. Threads that find a new hash together may
/// give it two slots; afterwards only the first slot counts.
@safe
final class BucketTable: Sendable {
    // The storage lives as long as the object; its atomics need no lock.
    private nonisolated(unsafe) let slots: UnsafeMutablePointer<Atomic<UInt64>>

    private static let setSlots = 8
    private static let sets = 8192
    private static let capacity = sets * setSlots

    init() {
        let memory = UnsafeMutableRawPointer.allocate(
            byteCount: BucketTable.capacity * MemoryLayout<Atomic<UInt64>>.stride, alignment: 64)
        unsafe slots = memory.bindMemory(to: Atomic<UInt64>.self, capacity: BucketTable.capacity)
        for index in 0..<BucketTable.capacity { unsafe (slots + index).initialize(to: Atomic(0)) }
    }

    deinit {
        unsafe slots.deinitialize(count: BucketTable.capacity)
        unsafe UnsafeMutableRawPointer(slots).deallocate()
    }

    /// Counts a call for a hash.
    func take(_ hash: UInt64, _ pace: Pace, at now: UInt64) -> Pace.Grant {
        let set = unsafe slots + Int(truncatingIfNeeded: hash & UInt64(BucketTable.sets - 1)) * BucketTable.setSlots
        let tag = hash & Pace.tagMask
        while true {
            // The hash's own slot, or else the first slot with the smallest debt.
            var (place, found, debt) = (0, UInt64(0), Int64.max)
            var isOwn = false
            for index in 0..<BucketTable.setSlots {
                let slot = unsafe set[index].load(ordering: .relaxed)
                let owed = pace.debt(slot, at: now)
                if slot & Pace.tagMask == tag {
                    (place, found, debt, isOwn) = (index, slot, owed, true)
                    break
                }
                if owed < debt { (place, found, debt) = (index, slot, owed) }
            }
            let grant = pace.grant(owing: isOwn ? debt : 0)
            guard case .granted(let more) = grant else { return grant }
            let desired = pace.slot(tag: tag, owing: more, at: now)
            if unsafe set[place].weakCompareExchange(expected: found, desired: desired, ordering: .relaxed).exchanged {
                return grant
            }
        }
    }
}
