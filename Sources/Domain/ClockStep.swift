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

    /// The parts of the journal in which moments grow: a step back begins the next part. The first part comes first.
    package func growingParts() throws(StoreFault) -> [GrowingPart] {
        let end = try lastCall().rawValue + 1
        let steps = try clockSteps().filter { $0.sequence.rawValue < end }
        let bounds = [1] + steps.map(\.sequence.rawValue) + [end]
        return (0...steps.count).map { place in
            GrowingPart(
                numbers: bounds[place]..<bounds[place + 1], first: place == 0 ? nil : steps[place - 1].after,
                last: place == steps.count ? nil : steps[place].before)
        }
    }

    /// The last call up to a moment; zero if the journal begins later. After a step back, the calls behind it come first.
    package func lastCall(upTo moment: Instant) throws(StoreFault) -> JournalSequence {
        let parts = try growingParts()
        let part = parts.last { part in part.first.map { $0 <= moment } ?? true } ?? parts[0]
        return JournalSequence(rawValue: try end(in: part) { $0 <= moment } - 1)
    }

    /// The number of the first call at a moment or after it; the number after the last call if there is no such call.
    package func firstCall(from moment: Instant) throws(StoreFault) -> JournalSequence {
        let parts = try growingParts()
        let part = parts.first { part in part.last.map { $0 >= moment } ?? true } ?? parts[0]
        return JournalSequence(rawValue: try end(in: part) { $0 < moment })
    }

    /// The number behind the last call of a part whose moment counts; the first number of the part if none does. All moments
    /// that count are before the others.
    package func end(
        in part: GrowingPart, where counts: (Instant) -> Bool
    ) throws(StoreFault) -> Int64 {
        var (low, high) = (part.numbers.lowerBound, part.numbers.upperBound)
        while low < high {
            let middle = low + (high - low) / 2
            // The numbers of the journal may have gaps.
            let call = try calls(after: JournalSequence(rawValue: middle - 1), limit: 1).first
            if let call, call.sequence.rawValue < part.numbers.upperBound, counts(call.at) {
                low = call.sequence.rawValue + 1
            } else {
                high = middle
            }
        }
        return low
    }
}

/// A part of the journal in which the moments of calls grow.
package struct GrowingPart: Equatable, Sendable {
    package let numbers: Range<Int64>
    /// The moment of the step back that begins the part; nil for the first part.
    let first: Instant?
    /// The moment before the step back that ends the part; nil for the last part.
    let last: Instant?
}
