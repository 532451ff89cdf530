import CivilTime
package import Domain

/// The counts of the last days of a project, as far as the journal has been read: from its last call backwards.
///
/// Calls of the past never change. So the counts of each whole block of calls are kept for later questions, and only the calls that no
/// question has read are read.
package struct JournalDays: Sendable {
    /// The counts of one day.
    package struct Counts: Equatable, Sendable {
        package internal(set) var (peopleMade, linked, undone, split, erased, unproven) = (0, 0, 0, 0, 0, 0)
        /// Merges by rules.
        var merged: [String: Int] = [:]
        /// Refusals by codes.
        var refused: [String: Int] = [:]
        /// Values that a rule kept from a person, by rules.
        var setAside: [String: Int] = [:]
        /// Rows by kinds.
        var rows: [String: Int] = [:]
        /// Calls by kinds.
        var calls: [String: Int] = [:]
        /// The call before the day's first call; nil if the day has none.
        var after: JournalSequence?
    }

    /// The counts of a block of calls.
    private struct Block: Sendable {
        /// The counts by the numbers of the days.
        var days: [Int64: Counts] = [:]
        /// The moments of the first and the last call of all projects.
        var moments: ClosedRange<Instant>?
        /// Whether the moments of the calls have the order of the calls.
        var isInOrder = true
    }

    private let project: ProjectID
    private let firstDay: Int64
    private let now: Instant
    private let callsAtMost: Int
    package private(set) var counts: [Counts]
    package private(set) var callsRead = 0
    /// The calls that were read for this question.
    package private(set) var callsReadNow = 0
    /// Whether all calls of the days were read.
    package private(set) var isComplete = false
    /// The moment from which on the counts have all calls.
    package private(set) var since: Instant
    /// The first call of the days, as the first slice finds it; the call after the last call of the journal if the days have none.
    private var firstCall = JournalSequence(rawValue: 1)
    /// The call after the next slice; nil before the first slice.
    private var end: Int64?
    /// The moment of the earliest step back of the clock that was read.
    private var steppedTo: Instant?
    /// The block whose last calls were read; nil if its end was not read.
    private var open: Block?

    /// The number of calls of a block.
    private let block: Int64

    private static let callsPerSlice = 1000
    /// The known blocks of a slice.
    private static let blocksPerSlice = 1000
    /// About how much memory the counts of a block take.
    private static let blockBytes = 2000
    private static let dayMilliseconds: Int64 = 86_400_000

    /// - Parameters:
    ///   - callsAtMost: the greatest number of calls to read for this question.
    ///   - block: the number of calls of a block.
    package init(
        _ days: Int, until now: Instant, in project: ProjectID, callsAtMost: Int, block: Int64 = 1000
    ) {
        (self.project, self.now, self.callsAtMost, self.block) = (project, now, callsAtMost, block)
        firstDay = now.milliseconds / JournalDays.dayMilliseconds - Int64(days) + 1
        counts = Array(repeating: Counts(), count: days)
        since = now
    }

    /// The names of the days, the oldest first.
    var names: [String] {
        counts.indices.map { place in
            let start = (firstDay + Int64(place)) * JournalDays.dayMilliseconds
            return String(decoding: ISO8601.format(millisecondsSince1970: start).prefix(10), as: UTF8.self)
        }
    }

    private var first: Instant { Instant(milliseconds: firstDay * JournalDays.dayMilliseconds) }

    /// Reads the next slice; true at the end.
    package mutating func read(_ snapshot: any Snapshot) throws(StoreFault) -> Bool {
        if end == nil {
            firstCall = try snapshot.firstCall(from: first)
            advance(to: try snapshot.lastCall().rawValue + 1)
        }
        var blocks = 0
        while !isComplete, takeBlock(snapshot) {
            blocks += 1
            if blocks == JournalDays.blocksPerSlice { return false }
        }
        guard let end, !isComplete else { return true }
        try read(before: end, snapshot)
        return isComplete || callsReadNow >= callsAtMost
    }

    // MARK: - Blocks

    private func key(of block: Int64) -> DerivedValues.Key {
        // No document has the counts, so they have the name of another document of the whole journal.
        DerivedValues.Key(of: DocumentKey(.clockSteps, of: Int64(project.rawValue)), form: UInt64(bitPattern: block))
    }

    /// Takes the counts of a whole block that an earlier question has read; false if the next calls are not known.
    private mutating func takeBlock(_ snapshot: any Snapshot) -> Bool {
        guard let end, end > block, (end - 1) % block == 0,
            let known = snapshot.physical.derived?.sums?.value(key(of: (end - 1) / block), Block.self),
            let moments = known.moments, moments.upperBound <= now
        else { return false }
        for (day, counts) in known.days {
            add(counts, on: day)
            callsRead += counts.calls.values.reduce(0, +)
        }
        since = min(since, max(first, moments.lowerBound))
        advance(to: end - block)
        return true
    }

    private mutating func advance(to call: Int64) {
        end = call
        if call <= firstCall.rawValue { isComplete = true }
        if isComplete { since = first }
    }

    // MARK: - Calls

    /// Reads calls before a call. No slice has calls of two blocks.
    private mutating func read(before end: Int64, _ snapshot: any Snapshot) throws(StoreFault) {
        let (last, blockStart) = (end - 1, (end - 2) / block * block)
        let start = max(blockStart, last - Int64(min(JournalDays.callsPerSlice, callsAtMost - callsReadNow)), 0)
        let calls = try snapshot.calls(after: JournalSequence(rawValue: start), limit: Int(last - start))
        if last % block == 0 { open = Block() }
        var slice = open ?? Block()
        for call in calls.reversed() where call.sequence.rawValue <= last {
            slice.isInOrder =
                slice.isInOrder && call.kind != .clockStep && call.at <= slice.moments?.lowerBound ?? call.at
            slice.moments = call.at...max(call.at, slice.moments?.upperBound ?? call.at)
            if call.sequence < firstCall {
                isComplete = true
                break
            }
            callsReadNow += 1
            if call.kind == .clockStep { steppedTo = call.at }
            // The clock was ahead at a call in the future, until a step back.
            let moment = call.at > now ? steppedTo ?? call.at : call.at
            // The clock went back afterwards.
            if moment < first { continue }
            since = min(since, moment)
            // Other projects' calls are nothing that the answer may tell.
            guard call.project == project else { continue }
            callsRead += 1
            let day = moment.milliseconds / JournalDays.dayMilliseconds
            let one = Counts(call)
            add(one, on: day)
            if open != nil { slice.days[day, default: Counts()].add(one) }
        }
        if open != nil { open = slice }
        let isWholeBlock = start == blockStart && !isComplete
        advance(to: start + 1)
        if isWholeBlock { keepBlock(snapshot) }
    }

    /// Keeps the counts of the block whose first call was read.
    private mutating func keepBlock(_ snapshot: any Snapshot) {
        guard let read = open, let end else { return }
        open = nil
        // The moments of other blocks may mean other days for a later question.
        guard read.isInOrder, let moments = read.moments, moments.lowerBound >= first, moments.upperBound <= now else {
            return
        }
        let number = (end - 1) / block + 1
        snapshot.physical.derived?.sums?.keep(read, key(of: number), bytes: JournalDays.blockBytes)
    }

    private mutating func add(_ counts: Counts, on day: Int64) {
        // Known blocks have earlier days, too. The clock of another server may be ahead.
        let place = Int(day - firstDay)
        if place < 0 { return }
        self.counts[min(place, self.counts.count - 1)].add(counts)
    }
}

extension JournalDays.Counts {
    /// The counts of one call.
    init(_ call: RecordedCall) {
        after = JournalSequence(rawValue: call.sequence.rawValue - 1)
        calls[call.kind.name] = 1
        for input in call.inputs where input.fate.isRefusal { setAside[input.fate.name, default: 0] += 1 }
        for case .rowsAdded(_, let kind, let count, _) in call.facts { rows["\(kind.name)", default: 0] += count }
        for case .merged(let merge) in call.facts { merged["\(merge.rule.name)", default: 0] += 1 }
        if case .refused(let code) = call.answer, call.kind != .unproven { refused[code] = 1 }
        let events = call.events.map(\.kind)
        func number(_ kinds: ChangeEvent.Kind...) -> Int { events.count { kinds.contains($0) } }
        peopleMade = number(.personCreated)
        linked = number(.identityLinked, .identityMoved)
        undone = number(.mergeUndone)
        split = number(.personSplit)
        erased = number(.personErased)
        unproven = number(.identityUnproven)
    }

    mutating func add(_ other: JournalDays.Counts) {
        peopleMade += other.peopleMade
        linked += other.linked
        undone += other.undone
        split += other.split
        erased += other.erased
        unproven += other.unproven
        merged.merge(other.merged, uniquingKeysWith: +)
        refused.merge(other.refused, uniquingKeysWith: +)
        setAside.merge(other.setAside, uniquingKeysWith: +)
        rows.merge(other.rows, uniquingKeysWith: +)
        calls.merge(other.calls, uniquingKeysWith: +)
        after = [after, other.after].compactMap(\.self).min()
    }
}
