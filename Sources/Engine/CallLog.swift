package import Domain
import Threads

/// The calls for the call log that the store does not have yet. The threads of the server add calls, and the writer's thread gives
/// them to the store.
package final class CallLog: Sendable {
    private struct State: Sendable {
        var segments: [ProjectID: LogSegment] = [:]
        var bytes = 0
        /// The last committed call of the journal.
        var last = JournalSequence.zero
        /// The projects with calls that had no room, and the moment of the first such call.
        var lost: [ProjectID: Instant] = [:]
        /// Finds repeated calls; nil if other processes also write to the store, because this process does not know their calls.
        var repeats: CallRepeats?
        /// The repeated calls that no segment notes yet.
        var repeated: [ProjectID: RepeatNote] = [:]
        /// The number of times that the store got all calls.
        var writes = 0
        var isWanted = false
        var figures = Figures()
    }

    /// The numbers of calls since the start.
    package struct Figures: Equatable, Sendable {
        package var kept = 0
        /// The calls that were left out because they repeat the last call of their naming component.
        package var repeated = 0
        /// The calls that had no room.
        package var dropped = 0
        package var bytes = 0
    }

    /// The limit of bytes that wait. Further calls are dropped, and a note says so.
    private let bytes: Int
    /// The number of this server in a store that several servers share; 0 otherwise.
    private let writer: UInt64
    private let state: Monitor<State>

    /// - Parameters:
    ///   - last: the last committed call of the journal.
    ///   - bytes: the limit of bytes that wait.
    ///   - writer: the number of this server, if several servers share the store; 0 otherwise.
    ///   - buckets: the buckets of the table that finds repeated calls; nil to keep each call.
    package init(after last: JournalSequence, bytes: Int = 8 << 20, writer: UInt64 = 0, buckets: Int? = nil) {
        self.bytes = bytes
        self.writer = writer
        var state = State(last: last)
        state.repeats = writer == 0 ? buckets.map { CallRepeats(buckets: $0) } : nil
        self.state = Monitor(state)
    }

    /// Adds a call that was decided over committed facts.
    package func add(_ call: LoggedCall.Packed, in project: ProjectID) {
        let content = call.canRepeat ? call.content(in: project) : nil
        state.withLock { add(call, content, in: project, at: $0.last, &$0) }
    }

    /// Adds the calls of a batch, and notes the last call of the batch. This happens before anybody learns an answer, so that a
    /// later call of the same caller also has a later place.
    ///
    /// - Parameters:
    ///   - calls: the calls, with the numbers of entries of the batch up to each.
    ///   - entries: the entries of the batch.
    ///   - last: the last entry in the journal.
    func add(_ calls: [Pending], _ entries: [JournalEntry], last: JournalSequence) {
        let names = findsRepeats ? entries.map(\.names) : []
        state.withLock { state in
            var noted = 0
            func note(upTo count: Int) {
                while noted < min(count, names.count) {
                    state.repeats?.note(names[noted])
                    noted += 1
                }
            }
            for call in calls {
                note(upTo: call.entries)
                let place = JournalSequence(rawValue: last.rawValue - Int64(entries.count - call.entries))
                let content = call.packed.canRepeat ? call.packed.content(in: call.project) : nil
                add(call.packed, content, in: call.project, at: max(place, state.last), &state)
            }
            note(upTo: names.count)
            state.last = max(state.last, last)
        }
    }

    /// A call of a batch that is not yet committed.
    struct Pending {
        let packed: LoggedCall.Packed
        let project: ProjectID
        /// The number of entries of the batch up to the call.
        let entries: Int
    }

    private func add(
        _ call: LoggedCall.Packed, _ content: UInt64?, in project: ProjectID, at place: JournalSequence,
        _ state: inout State
    ) {
        if let content, state.repeats?.isRepeat(call.names, content: content) == true {
            state.repeated[project, default: RepeatNote()].add(call)
            state.figures.repeated += 1
            return
        }
        guard state.bytes < bytes else {
            if state.lost[project] == nil { state.lost[project] = call.at }
            state.figures.dropped += 1
            state.repeats?.note(call.names)
            return
        }
        let before = state.segments[project]?.byteCount ?? 0
        if state.segments[project] == nil {
            var segment = LogSegment(project: project, last: place, at: call.at, content: .calls([]))
            if writer != 0 { segment.add(writer: writer) }
            state.segments[project] = segment
        }
        state.segments[project]?.add(call, at: place)
        let added = (state.segments[project]?.byteCount ?? 0) - before
        state.bytes += added
        state.figures.kept += 1
        state.figures.bytes += added
        state.repeats?.note(call.names, content: content)
    }

    /// Takes all calls, for the store.
    ///
    /// - Parameter isLast: whether the server ends, so that all notes go to the store.
    func take(at now: Instant, isLast: Bool = false) -> [LogSegment] {
        state.withLock { state in
            // A note about repeated calls waits for a call, so that a quiet second writes nothing.
            for (project, note) in state.repeated {
                if state.segments[project] == nil {
                    guard isLast || state.isWanted else { continue }
                    state.segments[project] = LogSegment(
                        project: project, last: state.last, at: now, content: .calls([]))
                }
                state.segments[project]?.add(note)
                state.repeated[project] = nil
            }
            var segments = state.segments.values.sorted { $0.project.rawValue < $1.project.rawValue }
            for (project, since) in state.lost {
                let milliseconds = max(1, now.milliseconds - since.milliseconds)
                segments.append(
                    LogSegment(project: project, last: state.last, at: now, content: .gap(milliseconds: milliseconds)))
            }
            (state.segments, state.bytes, state.lost, state.isWanted) = ([:], 0, [:], false)
            return segments
        }
    }

    /// Notes that the store did not keep segments of ``take(at:isLast:)``.
    func lose(_ segments: [LogSegment], at now: Instant) {
        state.withLock { state in
            for segment in segments where state.lost[segment.project] == nil { state.lost[segment.project] = now }
            state.repeats?.forget()
        }
    }

    // MARK: - Repeated calls

    /// Whether repeated calls are looked for.
    var findsRepeats: Bool { state.withLock { $0.repeats != nil } }

    /// Reads the calls of the log, and the calls of the journal of the same time, and puts their names into naming components. From
    /// then on repeated calls are left out. With too many calls the log keeps each call.
    ///
    /// - Parameters:
    ///   - limit: the greatest number of calls that are read.
    ///   - isEnding: whether the server ends.
    package func learn(from store: any Store, limit: Int, isEnding: () -> Bool) throws(StoreFault) {
        let end = store.counts.lastSequence
        let projects = store.directory.projects.keys
        let begin = try store.read { snapshot throws(StoreFault) in
            var begin = end
            for project in projects {
                let missing = try snapshot.logNotes(in: project).last { $0.content == .missing }
                begin = min(begin, missing?.last ?? .zero)
            }
            return begin
        }
        var left = limit
        guard end.rawValue - begin.rawValue <= Int64(left) else { return }
        var place = begin
        while place < end {
            if isEnding() { return }
            let calls = try store.read { snapshot throws(StoreFault) in
                try snapshot.namingCalls(after: place, limit: CallLog.learnedAtOnce)
            }
            guard let last = calls.last else { break }
            learn(calls.map { $0.names(store.hash) })
            place = last.sequence
            left -= calls.count
        }
        for project in projects {
            var after: Int64 = 0
            var isAtEnd = false
            while !isAtEnd {
                if isEnding() || left < 0 { return }
                let segments = try store.read { snapshot throws(StoreFault) in
                    try snapshot.logged(in: project, after: after, limit: CallLog.segmentsAtOnce)
                }
                for stored in segments {
                    let calls = stored.segment.reading.calls
                    learn(calls.map(\.names))
                    left -= calls.count
                    after = stored.number
                }
                isAtEnd = segments.count < CallLog.segmentsAtOnce
            }
        }
        state.withLock { $0.repeats?.isComplete = true }
    }

    private static let learnedAtOnce = 512
    private static let segmentsAtOnce = 16

    private func learn(_ calls: [[UInt64]]) {
        state.withLock { state in
            for names in calls { state.repeats?.learn(names) }
        }
    }

    /// Notes that the store has all calls that ``take(at:)`` gave.
    func wrote() { state.change { $0.writes += 1 } }

    /// Whether somebody waits for the calls.
    var isWanted: Bool { state.withLock { $0.isWanted } }

    package var figures: Figures { state.withLock { $0.figures } }

    /// Waits until the store has all calls up to now, or for a time.
    package func waitUntilWritten(milliseconds: Int) {
        let before = state.withLock { state in
            state.isWanted = true
            return state.writes
        }
        // A write that has already begun does not have the last calls, so one more write must follow.
        let _: Bool? = state.wait(milliseconds: milliseconds) { $0.writes > before && !$0.isWanted ? true : nil }
    }
}
