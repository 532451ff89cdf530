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
        /// The number of times that the store got all calls.
        var writes = 0
        var isWanted = false
        var dropped = 0
    }

    /// The limit of bytes that wait. Further calls are dropped, and a note says so.
    private let bytes: Int
    private let state: Monitor<State>

    package init(after last: JournalSequence, bytes: Int = 8 << 20) {
        self.bytes = bytes
        state = Monitor(State(last: last))
    }

    /// Adds a call that was decided over committed facts.
    package func add(_ call: LoggedCall.Packed, in project: ProjectID, at moment: Instant) {
        state.withLock { add(call, in: project, at: $0.last, moment, &$0) }
    }

    /// Adds the calls of a batch, and notes the last call of the batch. This happens before anybody learns an answer, so that a
    /// later call of the same caller also has a later place.
    ///
    /// - Parameter calls: the calls, with the numbers of entries of the batch up to each.
    func add(_ calls: [Pending], entries: Int, last: JournalSequence, at moment: Instant) {
        state.withLock { state in
            for call in calls {
                let place = JournalSequence(rawValue: last.rawValue - Int64(entries - call.entries))
                add(call.packed, in: call.project, at: max(place, state.last), moment, &state)
            }
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
        _ call: LoggedCall.Packed, in project: ProjectID, at place: JournalSequence, _ moment: Instant,
        _ state: inout State
    ) {
        guard state.bytes < bytes else {
            if state.lost[project] == nil { state.lost[project] = moment }
            state.dropped += 1
            return
        }
        let before = state.segments[project]?.byteCount ?? 0
        state.segments[
            project, default: LogSegment(project: project, last: place, at: moment, content: .calls([]))
        ].add(call, at: place, moment)
        state.bytes += (state.segments[project]?.byteCount ?? 0) - before
    }

    /// Takes all calls, for the store.
    func take(at now: Instant) -> [LogSegment] {
        state.withLock { state in
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

    /// Notes that the store has all calls that ``take(at:)`` gave.
    func wrote() { state.change { $0.writes += 1 } }

    /// Whether somebody waits for the calls.
    var isWanted: Bool { state.withLock { $0.isWanted } }

    /// The number of calls that had no room since the start.
    package var dropped: Int { state.withLock { $0.dropped } }

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
