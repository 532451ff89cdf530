package import Domain

/// The limits of questions to each store. All projects share the rate of a store and the number of its open questions. Pauses
/// after faults and a lower rate count for one project at one store, because each project has its own settings.
package struct StoreLines {
    private struct Line {
        var allowance: Double
        var inFlight = 0
    }

    /// One project at one store.
    private struct Place: Hashable {
        let source: Purchase.Source
        let project: ProjectID
    }

    private struct Trouble {
        var faultsInRow = 0
        var pausedUntil: UInt64 = 0
        var slowUntil: UInt64 = 0
        /// The questions that may begin while the rate is lower.
        var allowance = 1.0
    }

    /// What the end of a question says about the store.
    package enum End: Sendable {
        case answer
        case fault
        /// The store was not asked, or the settings of the project are wrong.
        case other
    }

    private let perSecond: Double
    private var lines: [Purchase.Source: Line]
    /// The projects at stores that had a fault lately.
    private var troubles: [Place: Trouble] = [:]
    /// The moment of the last refill. All moments are nanoseconds of a clock that never goes back.
    private var filledAt: UInt64

    private static let second: UInt64 = 1_000_000_000
    private static let inFlightAtMost = PurchaseChecker.Limits.openAtMost
    private static let faultsInRowAtMost = 5

    /// Makes the limits.
    /// - Parameters:
    ///   - perSecond: the questions to one store in a second.
    ///   - now: the present moment.
    package init(perSecond: Int, at now: UInt64) {
        filledAt = now
        self.perSecond = Double(perSecond)
        lines = Dictionary(
            uniqueKeysWithValues: Purchase.Source.allCases.map { ($0, Line(allowance: Double(perSecond))) })
    }

    /// Adds the questions of the time since the last refill.
    package mutating func refill(at now: UInt64) {
        let seconds = Double(now - min(now, filledAt)) / Double(StoreLines.second)
        filledAt = now
        for source in Purchase.Source.allCases {
            lines[source]?.allowance.refill(perSecond, seconds)
        }
        let slowRate = perSecond / 2
        for (place, trouble) in troubles {
            if trouble.faultsInRow == 0, now >= trouble.pausedUntil, now >= trouble.slowUntil {
                troubles[place] = nil
            } else {
                troubles[place]?.allowance.refill(slowRate, seconds)
            }
        }
    }

    /// The number of questions of a project to each store that may begin now.
    package func allowed(of project: ProjectID) -> [Purchase.Source: Int] {
        var allowed = lines.mapValues { line in
            max(0, min(Int(line.allowance), StoreLines.inFlightAtMost - line.inFlight))
        }
        for source in Purchase.Source.allCases {
            guard let trouble = troubles[Place(source: source, project: project)] else { continue }
            if filledAt < trouble.pausedUntil {
                allowed[source] = 0
            } else if filledAt < trouble.slowUntil {
                allowed[source] = min(allowed[source] ?? 0, max(0, Int(trouble.allowance)))
            }
        }
        return allowed
    }

    /// Notes that a question begins.
    package mutating func begin(_ source: Purchase.Source, _ project: ProjectID) {
        lines[source]?.allowance -= 1
        lines[source]?.inFlight += 1
        troubles[Place(source: source, project: project)]?.allowance -= 1
    }

    /// Notes the end of a question. After several faults in a row the project does not ask the store for a minute.
    package mutating func end(_ source: Purchase.Source, _ project: ProjectID, _ end: End, at now: UInt64) {
        lines[source]?.inFlight -= 1
        let place = Place(source: source, project: project)
        switch end {
        case .other: break
        case .answer: troubles[place]?.faultsInRow = 0
        case .fault:
            var trouble = troubles[place] ?? Trouble()
            trouble.faultsInRow += 1
            if trouble.faultsInRow >= StoreLines.faultsInRowAtMost {
                trouble.pausedUntil = now + 60 * StoreLines.second
                trouble.faultsInRow = 0
            }
            troubles[place] = trouble
        }
    }

    /// Halves the rate for five minutes: the store has said that the project's questions are too many.
    package mutating func slowDown(_ source: Purchase.Source, _ project: ProjectID, at now: UInt64) {
        troubles[Place(source: source, project: project), default: Trouble()].slowUntil =
            now + 300 * StoreLines.second
    }

    /// Begins no question for the time that the store has asked for, at most an hour.
    package mutating func pause(_ source: Purchase.Source, _ project: ProjectID, seconds: Int, at now: UInt64) {
        let until = now + UInt64(min(max(0, seconds), StoreLines.pauseSecondsAtMost)) * StoreLines.second
        let place = Place(source: source, project: project)
        troubles[place, default: Trouble()].pausedUntil = max(troubles[place]?.pausedUntil ?? 0, until)
    }

    private static let pauseSecondsAtMost = 3600
}

extension Double {
    /// Adds the questions of a time to an allowance, up to the questions of one second; at least one question fits.
    fileprivate mutating func refill(_ rate: Double, _ seconds: Double) {
        self = min(self + rate * seconds, max(1, rate))
    }
}
