extension History {
    /// A shorter life that fails by the same oracle.
    ///
    /// - Parameters:
    ///   - budget: the number of lives that may be tried.
    ///   - judge: lives a life, and answers why it failed.
    package func shrunk(
        _ failure: Failure, budget: Int = 400, by judge: (History) -> Failure? = { $0.run().failure }
    ) -> (history: History, failure: Failure, tries: Int) {
        var (best, why, tries) = (self, failure, 0)
        best.steps = Array(steps.prefix(failure.step + 1))
        func fails(_ candidate: [Step]) -> Failure? {
            guard tries < budget else { return nil }
            tries += 1
            var history = best
            history.steps = candidate
            guard let found = judge(history), found.oracle == failure.oracle else { return nil }
            return found
        }
        if fails(best.steps) == nil { best.steps = steps }
        // Halves, quarters and so on, down to single steps; again, as long as that takes something out.
        var size = max(1, best.steps.count / 2)
        while true {
            var (start, isShorter) = (0, false)
            while start < best.steps.count {
                var candidate = best.steps
                candidate.removeSubrange(start..<min(start + size, candidate.count))
                if let found = fails(candidate) {
                    (best.steps, why, isShorter) = (candidate, found, true)
                } else {
                    start += size
                }
            }
            if size == 1, !isShorter || tries >= budget { break }
            size = max(1, size / 2)
        }
        // Then the numbers of the steps that are left, as long as one of them gets smaller.
        for place in best.steps.indices {
            while let smaller = best.steps[place].smaller {
                var candidate = best.steps
                candidate[place] = smaller
                guard let found = fails(candidate) else { break }
                (best.steps, why) = (candidate, found)
            }
        }
        return (best, why, tries)
    }

    /// A test that lives this life.
    package var asTest: String {
        let lines = steps.map { "        .\($0.source)," }.joined(separator: "\n")
        return """
            @Test("a life that failed")
            func life() {
                var history = History(seed: 0x\(String(seed, radix: 16)), calls: 0)
                history.steps = [
            \(lines)
                ]
                #expect(history.run().failure == nil)
            }
            """
    }
}

extension History.Step {
    /// The same step with a smaller number; nil for a step without one.
    fileprivate var smaller: History.Step? {
        switch self {
        case .fail(let operation, let skip, let times) where skip > 0 || times > 1:
            .fail(operation, skip: skip / 2, times: max(1, times / 2))
        case .powerCutWithin(let changes) where changes > 0: .powerCutWithin(changes: changes / 2)
        case .fill(let room) where room > 0: .fill(room: room / 2)
        case .slowSyncs(let milliseconds) where milliseconds > 1: .slowSyncs(milliseconds: milliseconds / 2)
        case .jump(let milliseconds) where abs(milliseconds) > 1: .jump(milliseconds: milliseconds / 2)
        case .pass(let milliseconds) where milliseconds > 1: .pass(milliseconds: milliseconds / 2)
        default: nil
        }
    }

    fileprivate var source: String {
        switch self {
        case .call(let deed, let seed): "call(.\(deed.rawValue), seed: 0x\(String(seed, radix: 16)))"
        case .twice(let deed, let seed): "twice(.\(deed.rawValue), seed: 0x\(String(seed, radix: 16)))"
        case .both(let one, let other, let seed, let isPipelined):
            "both(.\(one.rawValue), .\(other.rawValue), seed: 0x\(String(seed, radix: 16)), isPipelined: \(isPipelined))"
        case .flood: "flood"
        case .restart: "restart"
        case .kill: "kill"
        case .powerCut(let loss): "powerCut(.\(loss))"
        case .fail(let operation, let skip, let times): "fail(.\(operation.rawValue), skip: \(skip), times: \(times))"
        case .powerCutWithin(let changes): "powerCutWithin(changes: \(changes))"
        case .fill(let room): "fill(room: \(room))"
        case .makeRoom: "makeRoom"
        case .slowSyncs(let milliseconds): "slowSyncs(milliseconds: \(milliseconds))"
        case .jump(let milliseconds): "jump(milliseconds: \(milliseconds))"
        case .pass(let milliseconds): "pass(milliseconds: \(milliseconds))"
        }
    }
}
