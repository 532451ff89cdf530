import Domain

/// The findings of long runs, which the server keeps in memory (docs/decisions/0070). A long run never changes, so a later search
/// with the same conditions takes the finding of all long runs up to the last one that there was, and looks at the newest runs only.
///
/// A search in a part of all time, whose first run is another one each time, adds the findings of blocks: 4 runs, or 8 blocks of 4
/// runs. A search may use a finding if all rows of its runs count: the search's range of time has them all, and no row is superseded,
/// expired or of an erased person.
struct RunSums<Finding: RowFinding>: Sendable {
    private let values: DerivedValues
    private let hash: KeyedHash
    private let owner: DocumentKey
    /// The name of the finding and the conditions, as bytes.
    private let conditions: [UInt8]
    private let heads: [RunHead]
    /// Whether a search may use the sum of each run.
    private let isWhole: [Bool]
    /// The first runs in a row of which a search may use the sum; nil without any.
    let whole: Range<Int>?

    /// The finding of runs that follow each other.
    private struct Whole: Sendable {
        let heads: [RunHead]
        let finding: Finding
    }

    /// Nil for a reading in which each row must be looked at.
    init?(
        _ name: [UInt8], _ conditions: RunConditions, _ range: RowsByTime, _ reading: inout RunReading,
        _ snapshot: any Snapshot
    ) throws(StoreFault) {
        guard let values = snapshot.derived?.sums, range.after == nil else { return nil }
        (self.values, hash) = (values, snapshot.hash)
        owner = RunList.key(of: reading.kind, in: reading.project)
        var packer = Packer()
        packer.add(name)
        for condition in conditions.columns {
            packer.add(condition.column.rawValue)
            packer.add(UInt64(condition.values.count))
            for value in condition.values.sorted() { packer.add(value) }
        }
        self.conditions = packer.bytes
        heads = reading.runs.map(\.head)
        let isWhole = try reading.wholeRuns(range)
        self.isWhole = isWhole
        whole = isWhole.firstIndex(of: true).map { first in
            first..<(isWhole[first...].firstIndex(of: false) ?? isWhole.count)
        }
    }

    /// The lengths of blocks.
    private static var few: Int { 4 }
    private static var many: Int { 32 }

    /// The known finding of the most runs that begin with a run, and the number of these runs.
    func known(from index: Int) -> (finding: Finding, runs: Int)? {
        if let whole, index == whole.lowerBound, let known = values.value(wholeKey(whole), Whole.self),
            heads[whole].starts(with: known.heads)
        {
            return (known.finding, known.heads.count)
        }
        guard Finding.keepsBlocks else { return nil }
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

    /// Keeps the finding of all runs of which a search may use the sum, if these are the runs that the search has taken, and no finding
    /// of more runs is known: a search up to a moment in the past must not replace that one.
    func keepWhole(_ finding: Finding, of taken: [RunHead]) {
        guard let whole, heads[whole].elementsEqual(taken) else { return }
        let key = wholeKey(whole)
        if let known = values.value(key, Whole.self), known.heads.starts(with: taken) { return }
        values.keep(
            Whole(heads: taken, finding: finding), key,
            bytes: finding.byteCount + taken.count * MemoryLayout<RunHead>.stride)
    }

    /// The name of the finding that begins with the first run of some.
    private func wholeKey(_ runs: Range<Int>) -> DerivedValues.Key {
        var packer = Packer()
        packer.add(UInt64(bitPattern: heads[runs.lowerBound].first))
        packer.add(conditions)
        packer.add(owner.hash.low)
        let name = hash.hash(tag: Self.tag, packer.bytes.span)
        return DerivedValues.Key(of: DocumentKey(owner.kind, hash: name), form: 0)
    }

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
            if !head.isSplit || head.end - 1 > last || hasRemoved(head) || isExpiring(head) { return false }
            if let since = range.since, head.since < since.milliseconds { return false }
            if let until = range.until, head.until >= until.milliseconds { return false }
            return true
        }
    }
}
