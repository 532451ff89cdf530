package import Domain

/// The use that a key makes of its limits.
package struct KeyLimitUse: Equatable, Sendable {
    /// The calls that were refused in the last hour and in the last day, each to five minutes.
    package let refusedInHour: Int
    package let refusedInDay: Int
    /// The last refused call; nil if no call was refused.
    package let lastAt: Instant?
    /// The used part of the limit in percent.
    package let percentage: Int
}

/// The numbers of refused calls of a day, in steps of five minutes. Older calls are forgotten.
struct RefusedCalls: Sendable {
    static let hour = 12
    static let day = 288
    private static let stepMilliseconds: Int64 = 300_000

    /// The counts of the steps; empty before the first refusal. The count of a step is at its number modulo the size.
    private var counts: [Int] = []
    private var lastStep: Int64 = 0
    private(set) var lastAt: Instant?

    /// Counts a refused call. A clock that was set back counts in the present step.
    mutating func add(at now: Instant) {
        if counts.isEmpty { counts = Array(repeating: 0, count: RefusedCalls.day) }
        let step = max(lastStep, now.milliseconds / RefusedCalls.stepMilliseconds)
        if step - lastStep >= RefusedCalls.day {
            counts = Array(repeating: 0, count: RefusedCalls.day)
        } else {
            // The steps between two refusals have none.
            for passed in lastStep..<step { counts[place(passed + 1)] = 0 }
        }
        lastStep = step
        counts[place(step)] += 1
        lastAt = now
    }

    /// The refused calls of the last steps, with the present one.
    func count(in steps: Int, at now: Instant) -> Int {
        if counts.isEmpty { return 0 }
        let step = max(lastStep, now.milliseconds / RefusedCalls.stepMilliseconds)
        let first = max(step - Int64(steps) + 1, lastStep - Int64(RefusedCalls.day) + 1)
        guard first <= lastStep else { return 0 }
        return (first...lastStep).reduce(0) { $0 + counts[place($1)] }
    }

    private func place(_ step: Int64) -> Int { Int(step % Int64(RefusedCalls.day)) }
}
