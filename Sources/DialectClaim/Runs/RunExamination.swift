package import Domain

/// Compares runs with the rows from which the server made them, for `onym doctor`.
package enum RunExamination {
    private typealias Listed = (
        project: ProjectID, kind: RowKind, columns: [RunColumn], list: RunList, expired: ExpiredRows?
    )

    /// The rows that the examination reads at once.
    private static let rowsAtOnce = 4096

    /// The findings about the runs of projects: a run lacks rows, has rows that it should not have, or cannot be read.
    ///
    /// - Parameters:
    ///   - facts: the rows and the documents of one moment.
    ///   - projects: all projects of the store.
    package static func findings(_ facts: any RowFacts, of projects: [ProjectID]) throws(StoreFault) -> [Finding] {
        let end = RunList.end(try facts.document(RunList.endKey))
        if end <= 1 { return [] }
        let erased = ErasedFromRuns(packed: try facts.document(ErasedFromRuns.key)).people
        let lists = try lists(facts, of: projects)
        var findings: [Finding] = []
        // No run goes beyond a range of this length.
        for range in 0...(end - 1) / RowRun.numbersAtMost {
            let numbers = max(1, range * RowRun.numbersAtMost)..<min(end, (range + 1) * RowRun.numbersAtMost)
            var rows = try rows(facts, numbers, lists)
            let removed = RemovedRows(packed: try facts.document(RemovedRows.key(of: range)))
            for (place, listed) in lists.enumerated() {
                let (kind, project, columns) = (listed.kind, listed.project, listed.columns)
                let person = columns.firstIndex(of: .person)
                /// Whether readers see a row.
                func isShown(_ row: RunRow) -> Bool {
                    let number = RowNumber(rawValue: row.number)
                    if removed.contains(number) { return false }
                    if let expired = listed.expired, expired.includes(at: Instant(milliseconds: row.at), number) {
                        return false
                    }
                    return person.map { !erased.contains(PersonID(number: row.values[$0])) } ?? true
                }
                for head in listed.list.runs where numbers.contains(head.first) {
                    guard let found = try head.run(kind, in: project, facts).rows(columns) else {
                        findings.append(unreadable(head, kind, project))
                        rows[place].removeAll { head.first..<head.end ~= $0.number }
                        continue
                    }
                    let expected = rows[place].filter { head.first..<head.end ~= $0.number && isShown($0) }
                    rows[place].removeAll { head.first..<head.end ~= $0.number }
                    if let finding = finding(found.filter(isShown), expected, head, kind, project) {
                        findings.append(finding)
                    }
                }
                let left = rows[place].filter(isShown)
                guard let first = left.first, let last = left.last else { continue }
                findings.append(
                    Finding(
                        code: "run_gap",
                        description: """
                            \(left.count) rows (\(kind.name)) of project \(project.rawValue) from \(first.number) to \
                            \(last.number) are in no run, so lists and counts leave them out.
                            """))
            }
        }
        return findings
    }

    private static func lists(_ facts: any RowFacts, of projects: [ProjectID]) throws(StoreFault) -> [Listed] {
        var lists: [Listed] = []
        for kind in RowKind.allCases {
            guard let columns = RunColumn.columns(of: kind) else { continue }
            for project in projects {
                let list = RunList(packed: try facts.document(RunList.key(of: kind, in: project)))
                let expired = ExpiredRows(packed: try facts.document(ExpiredRows.key(of: kind, in: project)))
                lists.append((project, kind, columns, list, expired))
            }
        }
        return lists
    }

    /// The columns of the rows in a range of numbers, for each list.
    private static func rows(
        _ facts: any RowFacts, _ numbers: Range<Int64>, _ lists: [Listed]
    ) throws(StoreFault) -> [[RunRow]] {
        var rows = lists.map { _ in [RunRow]() }
        var last = numbers.lowerBound - 1
        while true {
            let page = try facts.rows(after: RowNumber(rawValue: last), limit: rowsAtOnce)
            let within = page.filter { numbers.contains($0.row.number.rawValue) }
            for (place, listed) in lists.enumerated() {
                let own = within.filter { $0.project == listed.project && $0.row.row.kind == listed.kind }
                if own.isEmpty { continue }
                rows[place] += try RunReading.rows(own.map(\.row), listed.columns, in: listed.project, facts)
            }
            guard within.count == rowsAtOnce, let number = page.last?.row.number.rawValue else { return rows }
            last = number
        }
    }

    private static func unreadable(_ head: RunHead, _ kind: RowKind, _ project: ProjectID) -> Finding {
        Finding(
            code: "run_unreadable",
            description: """
                The run (\(kind.name)) of project \(project.rawValue) from row \(head.first) is missing or damaged. The server \
                makes it again when a read needs it.
                """, isWarning: true)
    }

    private static func finding(
        _ found: [RunRow], _ expected: [RunRow], _ head: RunHead, _ kind: RowKind, _ project: ProjectID
    ) -> Finding? {
        if found == expected { return nil }
        let known = Dictionary(expected.map { ($0.number, $0) }, uniquingKeysWith: { one, _ in one })
        let numbers = Set(found.map(\.number))
        let missing = expected.count { !numbers.contains($0.number) }
        let wrong = found.count { known[$0.number] != $0 }
        return Finding(
            code: "run_rows",
            description: """
                The run (\(kind.name)) of project \(project.rawValue) from row \(head.first) lacks \(missing) rows, and has \
                \(wrong) rows that differ from the stored rows. Lists and counts are wrong.
                """)
    }
}
