package import Domain
import Foundation
import StoreMemory
package import Threads

/// When a commit fails.
package enum CommitFault: Sendable, CaseIterable {
    /// Before anything of it is kept.
    case before
    /// When all of it is kept, and only the answer is lost.
    case after
}

/// A store whose commits fail when a test says so, and whose recovery may take several attempts.
package final class FailingStore: Store {
    /// What can fail once beside a commit.
    package enum Step { case fold, keep, read }

    private struct Plan {
        var nextCommit: CommitFault?
        var failedRecoveries = 0
        var failing: Set<Step> = []
        var isBroken = false
        var holdsSweeps = false
    }

    private let store: any Store
    private let plan = Monitor(Plan())
    /// People of whom it was kept when they were last seen.
    package let foldedPeople = Monitor<Set<PersonID>>([])

    package init(_ store: any Store) { self.store = store }

    /// The committed entries, if the store is in memory.
    package var journal: [JournalEntry] { (store as? MemoryStore)?.journal ?? [] }

    /// Has the next commit fail, and then some attempts to recover.
    package func failNextCommit(_ fault: CommitFault, failedRecoveries: Int = 0) {
        plan.withLock {
            $0.nextCommit = fault
            $0.failedRecoveries = failedRecoveries
        }
    }

    /// Has the next step of a kind fail.
    package func failNext(_ step: Step) { plan.withLock { _ = $0.failing.insert(step) } }

    private func failIfPlanned(_ step: Step) throws(StoreFault) {
        if plan.withLock({ $0.failing.remove(step) }) != nil { throw FailingStore.fault }
    }

    package func cancelCommitFault() {
        plan.withLock { $0.nextCommit = nil }
    }

    package func discard() throws(StoreFault) { try store.discard() }

    /// Has no sweep begin, as at the moment after an erasure.
    package func holdSweeps() { plan.withLock { $0.holdsSweeps = true } }

    package func sweep() throws(StoreFault) -> Bool {
        if plan.withLock(\.holdsSweeps) { return false }
        return try store.sweep()
    }

    package func compact() throws(StoreFault) -> Compaction { try store.compact() }
    package var hash: KeyedHash { store.hash }
    package var lastPerson: PersonID? { store.lastPerson }
    package var lastMoment: Instant? { store.lastMoment }
    package var latestMoment: Instant? { store.latestMoment }
    package var counts: StoreCounts { store.counts }
    package var directory: Directory { store.directory }

    package func peek(_ call: Call, _ command: any Act, _ stamp: Stamp) -> Peek { store.peek(call, command, stamp) }

    package func decide(_ needs: any BatchNeeds, _ body: (any BatchFacts) -> Void) throws(StoreFault) {
        precondition(!plan.withLock { $0.isBroken }, "A batch was given to a store that has to be recovered.")
        try store.decide(needs, body)
    }

    package func commit(_ entries: [JournalEntry]) throws(StoreFault) {
        let fault = plan.withLock { plan in
            defer { plan.nextCommit = nil }
            plan.isBroken = plan.nextCommit != nil
            return plan.nextCommit
        }
        if fault != .before { try store.commit(entries) }
        if fault != nil { throw FailingStore.fault }
    }

    package func see(_ sightings: [PersonID: SeenAt]) { store.see(sightings) }

    package func expire(_ old: OldRows, limit: Int) throws(StoreFault) -> OldRows? {
        try store.expire(old, limit: limit)
    }

    package func forgetVersions(
        after place: Int64, supersededUpTo call: JournalSequence, limit: Int
    ) throws(StoreFault) -> Int64 {
        try store.forgetVersions(after: place, supersededUpTo: call, limit: limit)
    }

    package func keep(_ segments: [LogSegment], within limit: LogLimit) throws(StoreFault) {
        try failIfPlanned(.keep)
        try store.keep(segments, within: limit)
    }

    package func replace(_ segments: [LogSegment.Stored]) throws(StoreFault) { try store.replace(segments) }

    package func fold(_ sightings: [PersonID: SeenAt]) throws(StoreFault) -> Bool {
        try failIfPlanned(.fold)
        let isMore = try store.fold(sightings)
        foldedPeople.withLock { $0.formUnion(sightings.keys) }
        return isMore
    }

    package func read<Result>(
        until limit: ReadLimit, _ body: (any Snapshot) throws(StoreFault) -> Result
    ) throws(StoreFault) -> Result {
        try failIfPlanned(.read)
        if let act = beforeReading.withLock(\.self), FailingStore.isReader { act() }
        guard readings.withLock({ $0.areHeld }), FailingStore.isReader else {
            return try readCounted(until: limit, body)
        }
        readings.change { $0.held += 1 }
        defer { readings.change { $0.held -= 1 } }
        while !limit.isOver() { _ = readings.wait(milliseconds: 1) { $0.areHeld ? nil : true } }
        try limit.check()
        return try readCounted(until: limit, body)
    }

    private func readCounted<Result>(
        until limit: ReadLimit, _ body: (any Snapshot) throws(StoreFault) -> Result
    ) throws(StoreFault) -> Result {
        guard let counter = readCounter.withLock(\.self), FailingStore.isReader else {
            return try store.read(until: limit, body)
        }
        return try store.read(until: limit) { snapshot throws(StoreFault) in
            try body(CountedSnapshot(base: snapshot, counter: counter))
        }
    }

    /// Counts what calls read; nil if nobody counts.
    package let readCounter = Monitor<ReadCounter?>(nil)

    /// Whether this is one of the threads that read for calls.
    private static var isReader: Bool {
        let name = try? String(contentsOfFile: "/proc/thread-self/comm", encoding: .utf8)
        return name?.hasPrefix("onym-read-") == true
    }

    /// Readings of calls that a test holds up.
    package struct Readings: Sendable {
        /// Whether those that begin take until they are ended.
        package var areHeld = false
        /// How many are held.
        package var held = 0
    }

    package let readings = Monitor(Readings())

    /// What happens before each reading of a call.
    package let beforeReading = Monitor<(@Sendable () -> Void)?>(nil)

    package func glance<Result>(_ body: (any Snapshot) throws(StoreFault) -> Result) -> Result? { store.glance(body) }

    package func recover() throws(StoreFault) {
        let fails = plan.withLock { plan in
            guard plan.failedRecoveries > 0 else {
                plan.isBroken = false
                return false
            }
            plan.failedRecoveries -= 1
            return true
        }
        if fails { throw FailingStore.fault }
        try store.recover()
    }

    package static let fault = StoreFault(.inputOutput, "The test says so.")
}
