package import Crypto
package import Domain

/// Compares a store with the tree over its journal: each call with its leaf, and each fact with the facts of the leaf.
package struct TreeComparison<Facts: StoredFacts> {
    /// Where findings go.
    package struct Report {
        let found: (Finding) -> Void
        let differs: (LeafDifference) -> Void
        let thingDiffers: (ThingDifference) -> Void
        let listDiffers: (ListDifference) -> Void

        package init(
            found: @escaping (Finding) -> Void, differs: @escaping (LeafDifference) -> Void,
            thingDiffers: @escaping (ThingDifference) -> Void, listDiffers: @escaping (ListDifference) -> Void
        ) {
            (self.found, self.differs, self.thingDiffers, self.listDiffers) =
                (found, differs, thingDiffers, listDiffers)
        }
    }

    private let store: Facts
    private let report: Report
    /// The last call that is not compared.
    private let origin: Int64
    /// The last call that is compared.
    private let last: Int64
    private let hasher = SHA256()

    /// The edge of the tree behind the compared leaves.
    package private(set) var edge: MerkleEdge
    /// Whether a leaf of the present subtree differs.
    private var differs = false
    /// The facts of the present page.
    private var balance: FactBalance
    /// The moments before which retention has removed rows.
    private var expired: [Hash128: Int64] = [:]

    /// The leaves of a question. A leaf of an import has as many facts as thousands of other leaves.
    private var leavesOfQuestion = 1

    private static var leavesAtOnce: Int { 2000 }
    private static var leavesOfQuestionAtMost: Int { 256 }
    private static var factsOfQuestion: Int { 10_000 }
    private static var factsAtOnce: Int { 100_000 }

    /// - Parameters:
    ///   - origin: the last call that is not compared.
    ///   - last: the last call that is compared.
    ///   - edge: the edge of the tree behind the call `origin`.
    package init(
        _ store: Facts, _ hash: KeyedHash, after origin: Int64, upTo last: Int64, _ edge: MerkleEdge, _ report: Report
    ) throws(Facts.Tree.Failure) {
        (self.store, self.origin, self.last) = (store, origin, last)
        (self.edge, self.report) = (edge, report)
        let ends = try store.documents(.historyEnd).compactMap { HistoryEnd(packed: $0.body)?.call.rawValue }
        balance = FactBalance(hash, historyEnd: ends.max() ?? 0)
        for document in try store.documents(.expiredRows) {
            expired[document.key] = ExpiredRows.latest(packed: document.body)?.milliseconds
        }
    }

    /// Compares the calls of the next page. Returns the last of them; nil at the end.
    package mutating func comparePage(after: Int64) throws(Facts.Tree.Failure) -> Int64? {
        balance.begin()
        var (end, count, facts) = (after, 0, 0)
        while count < TreeComparison.leavesAtOnce, facts < TreeComparison.factsAtOnce {
            let rows = try store.tree.rows(from: end + 1, limit: leavesOfQuestion).prefix { $0.sequence <= last }
            if let row = rows.last, row.sequence <= end {
                self.found("leaf", "The leaves behind call \(end) are in no order. Restore a copy.", end)
                break
            }
            var found = 0
            for row in rows { found += try compare(row) }
            facts += found
            let isMany = found > TreeComparison.factsOfQuestion
            leavesOfQuestion = isMany ? max(1, leavesOfQuestion / 2) : 2 * leavesOfQuestion
            leavesOfQuestion = min(leavesOfQuestion, TreeComparison.leavesOfQuestionAtMost)
            guard let row = rows.last else { break }
            end = row.sequence
            count += rows.count
        }
        if count == 0 { return nil }
        if end > origin { try compareFacts(max(after, origin) + 1...end) }
        return end
    }

    private func found(_ code: String, _ text: String, _ call: Int64?, _ person: Int64? = nil) {
        report.found(
            Finding(
                code: code, description: text, call: call.map(JournalSequence.init),
                person: person.map(PersonID.init)))
    }

    /// Compares a call with its leaf, and notes the leaf's facts. Returns the number of facts.
    private mutating func compare(_ row: LeafRow) throws(Facts.Tree.Failure) -> Int {
        let call = row.sequence
        var (leaf, count, isMade) = (MerkleTree.empty, 0, true)
        if row.place != edge.count {
            found(
                "leaf", "Call \(call) has the place \(row.place) in the tree, and not \(edge.count). Restore a copy.",
                call)
            differs = true
        }
        if row.place == 0 {
            leaf = MerkleTree.leaf(row.opening, hasher)
        } else if let columns = row.columns {
            guard let opening = LeafOpening(packed: row.opening, hasher) else {
                found("leaf", "The leaf of call \(call) cannot be read. Restore a copy.", call)
                differs = true
                _ = edge.add(leaf, hasher)
                return 0
            }
            leaf = opening.leaf(columns, hasher)
            if let facts = balance.note(opening, columns) {
                count = facts
            } else {
                found("leaf", "The leaf of call \(call) has facts that this version cannot read.", call)
            }
        } else {
            found("leaf", "Call \(call) is in the tree and not in the journal. Restore a copy.", call)
            (isMade, differs) = (false, true)
        }
        if isMade, LeafOpening.mark(of: leaf) != row.mark {
            found("leaf", "Call \(call) differs from its leaf: the journal was changed. Restore a copy.", call)
            differs = true
        }
        if let computed = edge.add(leaf, hasher) {
            let kept = try store.tree.keptRoot(edge.count / MerkleEdge.keptLeaves - 1)
            if kept != computed, !differs {
                found(
                    "head",
                    "The tree has another hash for the \(MerkleEdge.keptLeaves) calls up to \(call). Restore a copy.",
                    call)
            }
            differs = false
        }
        return count
    }

    private mutating func compareFacts(_ calls: ClosedRange<Int64>) throws(Facts.Tree.Failure) {
        for fact in try store.facts(of: calls) where fact.call > origin {
            balance.take(fact)
        }
        for difference in balance.differences() where try isDamage(difference) { report.differs(difference) }
        for difference in balance.listDifferences() { report.listDiffers(difference) }
    }

    private func isDamage(_ known: LeafDifference) throws(Facts.Tree.Failure) -> Bool {
        // Later calls are not examined, and an erasure has removed the facts of a sealed part.
        if known.call > last || (!known.isMissing && balance.isSealed(known.call, known.person)) { return false }
        switch known.fact {
        case .rowSuperseded(_, let row):
            // Retention and erasures remove rows.
            if !known.isMissing { return true }
            guard let call = try store.replacement(of: row) else { return false }
            return call != known.call
        case .rowAdded(let kind, let at, _):
            if try store.isErased(known.person) { return false }
            if !known.isMissing { return true }
            let project = try store.project(of: known.person) ?? balance.projects[known.call] ?? 0
            let end = RowKind(rawValue: kind).map {
                ExpiredRows.key(of: $0, in: ProjectID(rawValue: Int32(truncatingIfNeeded: project))).hash
            }
            if at >= end.flatMap({ expired[$0] }) ?? .min { return true }
            // Retention removes the oldest rows first, so an older row that is there shows a loss.
            return try store.hasRow(of: kind, in: project, before: at, known.call)
        case .documentPut: return try !store.isErased(known.person)
        case .personMade, .linked, .unlinked, .merged, .mergeUndone, .personErased, .strategySet, .made, .revoked,
            .named:
            return true
        }
    }

    /// Compares the projects, apps and keys with the leaves of the calls that made and changed them.
    package func compareThings() throws(Facts.Tree.Failure) {
        let things = try store.things().filter { $0.madeBy <= last }
        for difference in balance.differences(of: things, after: origin) { report.thingDiffers(difference) }
    }
}
