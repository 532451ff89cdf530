package import Domain

extension Step {
    /// Settles the rows of people before their erasure (``SettleRows``), some in each call of the journal. After a crash the next
    /// try goes on.
    ///
    /// - Parameters:
    ///   - people: the people to erase.
    ///   - refused: continues if the rows changed meanwhile.
    ///   - then: continues when all rows are settled.
    package static func settling(
        _ people: [PersonID], in project: ProjectID, _ snapshot: any Snapshot,
        refused: @escaping @Sendable (Refusal) -> Step, then: @escaping @Sendable () -> Step
    ) throws(StoreFault) -> Step {
        guard let rows = try UnsettledRows(of: people, in: project, snapshot) else { return then() }
        return try settling(rows, snapshot, refused: refused, then: then)
    }

    private static func settling(
        _ rows: UnsettledRows, _ snapshot: any Snapshot, refused: @escaping @Sendable (Refusal) -> Step,
        then: @escaping @Sendable () -> Step
    ) throws(StoreFault) -> Step {
        var rows = rows
        let act = try rows.next(snapshot)
        let rest = rows
        return .decide(act) { result, _ in
            if case .failure(let refusal) = result { return refused(refusal) }
            if !act.ends.isEmpty { return then() }
            return .read { snapshot throws(StoreFault) in
                try settling(rest, snapshot, refused: refused, then: then)
            }
        }
    }
}
