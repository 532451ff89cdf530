/// The rows that a split gives to the other person, as ranges of row numbers. A row belongs to them if a range has its number, and
/// if the row was the person's before the split.
package struct SplitRows: Equatable, Sendable {
    /// Ranges in their order, which do not overlap.
    package let ranges: [ClosedRange<Int64>]
    /// The number of rows of each kind at the moment of the split.
    package let counts: [RowKind: Int]

    /// The limit of ranges of one split.
    package static let rangesAtMost = 20_000

    package init(ranges: [ClosedRange<Int64>], counts: [RowKind: Int]) {
        self.ranges = ranges
        self.counts = counts
    }

    /// Whether a range has the number of a row.
    package func contains(_ row: RowNumber) -> Bool {
        var (low, high) = (0, ranges.count)
        while low < high {
            let middle = (low + high) / 2
            if ranges[middle].upperBound < row.rawValue { low = middle + 1 } else { high = middle }
        }
        return low < ranges.count && ranges[low].contains(row.rawValue)
    }

    /// Whether some number is in ranges of both.
    func overlaps(_ other: SplitRows) -> Bool {
        var rest = other.ranges[...]
        for range in ranges {
            while let first = rest.first, first.upperBound < range.lowerBound { rest.removeFirst() }
            if let first = rest.first, first.overlaps(range) { return true }
        }
        return false
    }

    func pack(into packer: inout Packer) {
        packer.add(UInt64(ranges.count))
        var last: Int64 = 0
        for range in ranges {
            packer.add(UInt64(range.lowerBound - last))
            packer.add(UInt64(range.upperBound - range.lowerBound))
            last = range.upperBound
        }
        packer.add(counts)
    }

    init?(unpacking unpacker: inout Unpacker) {
        guard let count = unpacker.integer() else { return nil }
        var ranges: [ClosedRange<Int64>] = []
        var last: Int64 = 0
        for _ in 0..<count {
            guard let gap = unpacker.count(), let length = unpacker.count() else { return nil }
            let first = last.addingReportingOverflow(Int64(gap))
            let end = first.partialValue.addingReportingOverflow(Int64(length))
            if first.overflow || end.overflow { return nil }
            last = end.partialValue
            ranges.append(first.partialValue...last)
        }
        guard let counts = unpacker.rowCounts() else { return nil }
        self.init(ranges: ranges, counts: counts)
    }
}

extension Packer {
    mutating func add(_ counts: [RowKind: Int]) {
        add(UInt64(counts.count))
        for (kind, count) in counts.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
            add(kind.rawValue)
            add(UInt64(count))
        }
    }
}

extension Unpacker {
    mutating func rowCounts() -> [RowKind: Int]? {
        guard let kinds = integer() else { return nil }
        var counts: [RowKind: Int] = [:]
        for _ in 0..<kinds {
            guard let kind = byte().flatMap(RowKind.init(rawValue:)), let count = self.count() else { return nil }
            counts[kind] = count
        }
        return counts
    }
}

extension RowKind {
    /// Whether a split can give such rows to another person. The other rows belong to documents that stay with the person:
    /// installs, purchases, files and answers.
    package var isSplittable: Bool {
        switch self {
        case .event, .context, .metric, .step, .feedback, .occurrence: true
        case .answer, .attachment, .accessGranted, .accessLost, .accessTransferred, .accessProperties, .attribution,
            .install:
            false
        }
    }
}

/// The splits in force that gave rows to another person, of all projects, in the order in which the calls made them. Reads find the
/// owner of a row by them.
package struct RowRoutes: Equatable, Sendable {
    /// A split that gave rows to another person.
    package struct Route: Equatable, Sendable {
        package let split: SplitID
        package let person: PersonID
        package let into: PersonID
        /// The numbers of its rows at the moment of the split.
        package let counts: [RowKind: Int]
    }

    package private(set) var routes: [Route] = []

    package static let key = DocumentKey(.rowRoutes, of: Int64(0))

    package init(packed: [UInt8]?) {
        var unpacker = Unpacker(packed ?? [])
        while let split = unpacker.number(), let person = unpacker.person(), let into = unpacker.person(),
            let counts = unpacker.rowCounts()
        {
            routes.append(Route(split: SplitID(rawValue: split), person: person, into: into, counts: counts))
        }
    }

    init<V: DocumentFacts>(_ view: V) { self.init(packed: view.document(RowRoutes.key)) }

    mutating func add(_ split: Split, _ rows: SplitRows) {
        routes.append(Route(split: split.id, person: split.person, into: split.into, counts: rows.counts))
    }

    mutating func remove(_ split: SplitID) { routes.removeAll { $0.split == split } }

    /// The splits that name one of some people.
    package func splits(of people: [PersonID]) -> [Route] {
        routes.filter { people.contains($0.person) || people.contains($0.into) }
    }

    var put: Change {
        var packer = Packer()
        for route in routes {
            packer.add(UInt64(bitPattern: route.split.rawValue))
            packer.add(route.person)
            packer.add(route.into)
            packer.add(route.counts)
        }
        return .documentPut(RowRoutes.key, .nobody, packer.bytes)
    }
}

/// The identities by which later uploads for a person belong to another person, because a split gave the other person what comes
/// by these identities. A client that still names the first person sends such uploads.
struct SplitLanes {
    private struct Entry {
        let identity: Hash128
        let into: PersonID
        let split: SplitID
    }

    private let person: PersonID
    private var entries: [Entry] = []

    /// The limit of identities. The oldest go first.
    private static let entriesAtMost = 4000

    init<V: DocumentFacts>(of person: PersonID, _ view: V) {
        self.person = person
        var unpacker = Unpacker(view.document(SplitLanes.key(of: person)) ?? [])
        while let identity = unpacker.bytes().flatMap({ Hash128($0.span) }), let into = unpacker.person(),
            let split = unpacker.number()
        {
            entries.append(Entry(identity: identity, into: into, split: SplitID(rawValue: split)))
        }
    }

    private static func key(of person: PersonID) -> DocumentKey { DocumentKey(.splitLanes, of: person) }

    var isEmpty: Bool { entries.isEmpty }

    /// The people to whom uploads by some identities belong.
    var owners: Set<PersonID> { Set(entries.map(\.into)) }

    mutating func add(_ identities: [IdentityKey], of split: Split) {
        entries += identities.map { Entry(identity: $0.hash, into: split.into, split: split.id) }
        entries.removeFirst(max(0, entries.count - SplitLanes.entriesAtMost))
    }

    mutating func remove(_ split: SplitID) { entries.removeAll { $0.split == split } }

    /// The person to whom an upload by some identities belongs. The last split decides.
    private func owner(by identities: [Identity]) -> PersonID? {
        entries.last { entry in identities.contains { $0.key.hash == entry.identity } }?.into
    }

    var put: Change {
        var packer = Packer()
        for entry in entries {
            packer.add(entry.identity.bytes)
            packer.add(entry.into)
            packer.add(UInt64(bitPattern: entry.split.rawValue))
        }
        return .documentPut(SplitLanes.key(of: person), person, packer.bytes)
    }

    /// The person to whom an upload for a person belongs.
    static func owner<V: DecisionFacts>(
        of person: PersonID, by identities: [Identity], in project: ProjectID, _ view: V
    ) -> PersonID {
        var owner = person
        var seen: Set<PersonID> = [person]
        while let next = SplitLanes(of: owner, view).owner(by: identities), seen.insert(next).inserted,
            view.person(next, in: project) != nil
        {
            owner = next
        }
        return owner
    }
}
