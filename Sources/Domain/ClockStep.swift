/// A step by which the server's clock went back between two calls of the journal (spec/entitlements-live.md 9).
///
/// The moments of the journal are those of the clock, so that a wrong clock that was corrected leaves the right moments behind
/// it. The journal has a note for each step back, and the moments grow between two notes.
package struct ClockStep: Equatable, Sendable {
    /// The note in the journal.
    package let sequence: JournalSequence
    /// The moment of the call before the note.
    package let before: Instant
    /// The moment of the note.
    package let after: Instant

    /// Calls may be a little late: up to this difference the journal repeats its last moment.
    package static let slackMilliseconds: Int64 = 10_000

    /// The versions of this document are the steps.
    static let key = DocumentKey(.clockSteps, of: 0)

    /// Whether the clock went back so far that the journal notes it.
    package static func isBack(from before: Instant, to after: Instant) -> Bool {
        after < before && before.milliseconds - after.milliseconds > slackMilliseconds
    }

    /// The change that keeps a step.
    static func put(from before: Instant, to after: Instant) -> Change {
        var packer = Packer()
        packer.add(before)
        packer.add(after)
        return .documentPut(key, .nobody, packer.bytes)
    }

    fileprivate init?(_ sequence: JournalSequence, packed: [UInt8]) {
        var unpacker = Unpacker(packed)
        guard let before = unpacker.instant(), let after = unpacker.instant(), unpacker.isAtEnd else { return nil }
        (self.sequence, self.before, self.after) = (sequence, before, after)
    }

    /// The text of the note.
    static func text(from before: Instant, to after: Instant) -> String {
        "The clock went back by \((before.milliseconds - after.milliseconds) / 1000) s: it was ahead before, or is behind now."
    }
}

extension Outcome {
    /// The note of a step of the clock.
    package static func clockStep(from before: Instant, to after: Instant) -> Outcome {
        Outcome(
            kind: .clockStep, person: nil, changes: [ClockStep.put(from: before, to: after)],
            note: ClockStep.text(from: before, to: after))
    }
}

extension ActKind {
    /// A note that the server's clock went back.
    package static let clockStep = ActKind(95, "clock_step", undo: .never(.noteOfServer))
}

extension Snapshot {
    /// The steps of the clock, the earliest first.
    package func clockSteps() throws(StoreFault) -> [ClockStep] {
        guard try document(ClockStep.key) != nil else { return [] }
        var steps: [ClockStep] = []
        for version in try versions(of: ClockStep.key, since: .zero) {
            guard let step = try content(of: version).flatMap({ ClockStep(version.madeBy, packed: $0) }) else {
                throw StoreFault(.corrupt, "A step of the clock cannot be read.")
            }
            steps.append(step)
        }
        return steps.sorted { $0.sequence < $1.sequence }
    }

    /// The last call up to a moment; zero if the journal begins later. After a step back, the calls behind it come first.
    package func lastCall(upTo moment: Instant) throws(StoreFault) -> JournalSequence {
        var end = try lastCall()
        for step in try clockSteps().reversed() where step.sequence <= end {
            if step.after <= moment { return try lastCall(upTo: moment, from: step.sequence, through: end) }
            end = JournalSequence(rawValue: step.sequence.rawValue - 1)
        }
        return try lastCall(upTo: moment, from: .zero, through: end)
    }

    /// The number of the first call at a moment or after it; the number after the last call if there is no such call.
    package func firstCall(from moment: Instant) throws(StoreFault) -> JournalSequence {
        var (low, high) = (Int64(1), try lastCall().rawValue + 1)
        // The moments up to such a step reach the moment, and grow until they do.
        if let step = try clockSteps().first(where: { $0.before >= moment }) {
            high = min(high, step.sequence.rawValue)
        }
        let end = high
        while low < high {
            let middle = (low + high) / 2
            // The numbers of the journal may have gaps.
            let call = try calls(after: JournalSequence(rawValue: middle - 1), limit: 1).first
            if let call, call.at < moment, call.sequence.rawValue < end {
                low = call.sequence.rawValue + 1
            } else {
                high = middle
            }
        }
        return JournalSequence(rawValue: min(low, end))
    }

    /// The last call up to a moment among calls whose moments grow.
    private func lastCall(
        upTo moment: Instant, from first: JournalSequence, through end: JournalSequence
    ) throws(StoreFault) -> JournalSequence {
        var (low, high) = (first, end)
        while low < high {
            let middle = JournalSequence(rawValue: low.rawValue + (high.rawValue - low.rawValue + 1) / 2)
            // The numbers of the journal may have gaps.
            let call = try calls(after: JournalSequence(rawValue: middle.rawValue - 1), limit: 1).first
            if let call, call.at <= moment, call.sequence <= high {
                low = max(middle, call.sequence)
            } else {
                high = JournalSequence(rawValue: middle.rawValue - 1)
            }
        }
        return low
    }
}
