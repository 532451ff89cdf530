import Domain

/// The findings of blocks of long runs, which the server keeps in memory (docs/decisions/0070). A long run never changes, so a
/// later search with the same conditions adds the findings of blocks, and looks at the newest runs only.
///
/// A block has 4 runs, or 8 blocks of 4 runs. A search may use a block if all rows of the block count: the search's range of time
/// has them all, and no row is superseded, expired or of an erased person.
struct RunSums<Finding: RowFinding>: Sendable {
    private let values: DerivedValues
    private let hash: KeyedHash
    private let owner: DocumentKey
    /// The conditions as bytes.
    private let conditions: [UInt8]
    private let heads: [RunHead]
    /// Whether a search may use the sum of each run.
    private let isWhole: [Bool]

    /// Nil for a reading in which each row must be looked at.
    init?(
        _ conditions: RunConditions, _ range: RowsByTime, _ reading: inout RunReading, _ snapshot: any Snapshot
    ) throws(StoreFault) {
        guard let values = snapshot.derived?.sums, range.after == nil else { return nil }
        (self.values, hash) = (values, snapshot.hash)
        owner = RunList.key(of: reading.kind, in: reading.project)
        var packer = Packer()
        for condition in conditions.columns {
            packer.add(condition.column.rawValue)
            packer.add(UInt64(condition.values.count))
            for value in condition.values.sorted() { packer.add(value) }
        }
        self.conditions = packer.bytes
        heads = reading.runs.map(\.head)
        isWhole = try reading.wholeRuns(range)
    }

    /// The lengths of blocks.
    private static var few: Int { 4 }
    private static var many: Int { 32 }

    /// The finding of the longest known block that begins with a run, and the number of its runs.
    func known(from index: Int) -> (finding: Finding, runs: Int)? {
        for length in [Self.many, Self.few] {
            guard let key = key(from: index, length) else { continue }
            if let finding = values.value(key, Finding.self) { return (finding, length) }
            guard length == Self.many, let sum = sumOfBlocks(from: index) else { continue }
            values.keep(sum, key, bytes: sum.byteCount)
            return (sum, length)
        }
        return nil
    }

    /// The sum of known blocks; nil if one of them is unknown.
    private func sumOfBlocks(from index: Int) -> Finding? {
        var sum: Finding?
        for start in stride(from: index, to: index + Self.many, by: Self.few) {
            guard let key = key(from: start, Self.few), let finding = values.value(key, Finding.self) else {
                return nil
            }
            if sum == nil { sum = finding } else { sum?.add(finding) }
        }
        return sum
    }

    /// The number of runs in the block that begins with a run, if a search should keep its finding.
    func block(from index: Int) -> Int? { key(from: index, Self.few) == nil ? nil : Self.few }

    /// Keeps the finding of a block.
    func keep(_ finding: Finding, from index: Int) {
        if let key = key(from: index, Self.few) { values.keep(finding, key, bytes: finding.byteCount) }
    }

    /// The name of a block; nil if no block of a length begins here, or if a search must look at its rows.
    private func key(from index: Int, _ length: Int) -> DerivedValues.Key? {
        guard index % length == 0, index + length <= heads.count else { return nil }
        let block = index..<index + length
        guard isWhole[block].allSatisfy(\.self) else { return nil }
        var packer = Packer()
        packer.add(UInt64(length))
        for head in heads[block] {
            packer.add(UInt64(bitPattern: head.first))
            packer.add(UInt64(head.count))
            packer.add(head.version)
        }
        packer.add(conditions)
        packer.add(owner.hash.low)
        let name = hash.hash(tag: Self.tag, packer.bytes.span)
        return DerivedValues.Key(of: DocumentKey(owner.kind, hash: name), form: UInt64(length))
    }

    /// The kind of the hashed value.
    private static var tag: UInt64 { 0x7375_6D73_6F66_7275 }
}

extension RunReading {
    /// For each run, whether it is long and all its rows count in a range of time.
    mutating func wholeRuns(_ range: RowsByTime) throws(StoreFault) -> [Bool] {
        guard hasNoErased else { return runs.map { _ in false } }
        try readRemoved()
        return runs.map { run in
            let head = run.head
            if !head.isSplit || hasRemoved(head) || isExpiring(head) { return false }
            if let since = range.since, head.since < since.milliseconds { return false }
            if let until = range.until, head.until >= until.milliseconds { return false }
            return true
        }
    }
}
