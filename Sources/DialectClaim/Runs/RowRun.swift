import Domain

/// The place of a run among the runs of a project and a kind.
struct RunHead: Equatable, Sendable {
    /// The range of row numbers that the run covers; the end is not in the range.
    let first: Int64
    let end: Int64
    let count: Int
    /// The first and the last moment of the rows.
    let since: Int64
    let until: Int64
    /// Whether each part of the run is a document of its own. A short run is one document.
    let isSplit: Bool
    /// Counts the versions of the run, so that no read mixes their parts.
    let version: UInt8
}

/// The runs of a project's rows of one kind, in the order of their ranges.
struct RunList: Equatable, Sendable {
    var runs: [RunHead] = []
    /// The number after the last range.
    var end: Int64 = 1

    static func key(of kind: RowKind, in project: ProjectID) -> DocumentKey {
        DocumentKey(.runList, of: Int64(project.rawValue) << 8 | Int64(kind.rawValue))
    }

    /// The number of the first row that no run has. Every run of any project and kind ends before it.
    static let endKey = DocumentKey(.runsEnd, of: 0)

    static func end(_ packed: [UInt8]?) -> Int64 {
        var unpacker = Unpacker(packed ?? [])
        return unpacker.integer().map(Int64.init(bitPattern:)) ?? 1
    }

    static func packed(end: Int64) -> [UInt8] {
        var packer = Packer()
        packer.add(UInt64(bitPattern: end))
        return packer.bytes
    }

    init() {}

    init(packed: [UInt8]?) {
        var unpacker = Unpacker(packed ?? [])
        func next() -> Int64? { unpacker.integer().map(Int64.init(bitPattern:)) }
        end = next() ?? 1
        while let first = next(), let end = next(), let count = next(), let since = next(), let until = next(),
            let form = unpacker.byte(), let version = unpacker.byte()
        {
            runs.append(
                RunHead(
                    first: first, end: end, count: Int(count), since: since, until: until, isSplit: form == 1,
                    version: version))
        }
    }

    var packed: [UInt8] {
        var packer = Packer()
        packer.add(UInt64(bitPattern: end))
        for run in runs {
            for number in [run.first, run.end, Int64(run.count), run.since, run.until] {
                packer.add(UInt64(bitPattern: number))
            }
            packer.add(run.isSplit ? 1 as UInt8 : 0)
            packer.add(run.version)
        }
        return packer.bytes
    }
}

/// The rows of one project and kind in a range of numbers, as columns. A column has its different values in their order, and for
/// each row the place of its value.
///
///     numbers   2 bytes for each row: the number minus the first number of the range
///     times     8 bytes for each row
///     values    8 bytes for each value of a column
///     places    1 byte for each row if the column has up to 256 values, else 2; none if it has one value
///
/// All integers are little-endian. The rows are in the order of their numbers.
final class RowRun {
    /// A part of a run, by the number under which the store keeps it.
    enum Part: Hashable {
        case numbers, times
        case values(RunColumn)
        case places(RunColumn)

        var number: UInt8 {
            switch self {
            case .numbers: 0
            case .times: 1
            case .values(let column): column.rawValue << 1
            case .places(let column): column.rawValue << 1 | 1
            }
        }
    }

    /// A column: its different values in their order, and for each row the place of its value; nil if all rows have one value.
    struct Column {
        let values: [UInt64]
        let places: [UInt16]?

        func value(of row: Int) -> UInt64 { values[places.map { Int($0[row]) } ?? 0] }
    }

    let head: RunHead
    /// Reads a part; nil if the run is replaced.
    private let read: (Part) throws(StoreFault) -> [UInt8]?

    init(_ head: RunHead, read: @escaping (Part) throws(StoreFault) -> [UInt8]?) {
        (self.head, self.read) = (head, read)
    }

    /// The longest range of a run: places and numbers have two bytes.
    static let numbersAtMost: Int64 = 1 << 16

    // MARK: - Reading

    /// The row numbers; nil if the run is replaced.
    func numbers() throws(StoreFault) -> [Int64]? {
        try read(.numbers).map { Words.read16($0).map { Int64($0) + head.first } }
    }

    func times() throws(StoreFault) -> [Int64]? {
        try read(.times).map { Words.read64($0).map(Int64.init(bitPattern:)) }
    }

    func values(of column: RunColumn) throws(StoreFault) -> [UInt64]? { try read(.values(column)).map(Words.read64) }

    func column(_ column: RunColumn) throws(StoreFault) -> Column? {
        guard let values = try values(of: column) else { return nil }
        if values.count <= 1 { return Column(values: values, places: nil) }
        guard let bytes = try read(.places(column)) else { return nil }
        return Column(values: values, places: values.count <= 256 ? bytes.map(UInt16.init) : Words.read16(bytes))
    }

    /// All rows, in the order of their numbers; nil if the run is replaced.
    func rows(_ columns: [RunColumn]) throws(StoreFault) -> [RunRow]? {
        var read: [Column] = []
        for name in columns {
            guard let column = try column(name) else { return nil }
            read.append(column)
        }
        guard let numbers = try numbers(), let times = try times() else { return nil }
        return numbers.indices.map { row in
            RunRow(number: numbers[row], at: times[row], values: read.map { $0.value(of: row) })
        }
    }

    // MARK: - Making

    /// The parts of a run of some rows.
    static func parts(_ rows: [RunRow], _ columns: [RunColumn], from first: Int64) -> [Part: [UInt8]] {
        var parts: [Part: [UInt8]] = [
            .numbers: Words.bytes(rows.map { UInt16($0.number - first) }),
            .times: Words.bytes(rows.map { UInt64(bitPattern: $0.at) }),
        ]
        for (index, column) in columns.enumerated() {
            let values = Set(rows.lazy.map { $0.values[index] }).sorted()
            parts[.values(column)] = Words.bytes(values)
            if values.count <= 1 { continue }
            var places: [UInt64: UInt16] = [:]
            for (place, value) in values.enumerated() { places[value] = UInt16(place) }
            let all = rows.map { places[$0.values[index]] ?? 0 }
            parts[.places(column)] =
                values.count <= 256 ? all.map { UInt8(truncatingIfNeeded: $0) } : Words.bytes(all)
        }
        return parts
    }

    /// A run in memory.
    convenience init(_ rows: [RunRow], _ columns: [RunColumn], from first: Int64, to end: Int64) {
        let parts = RowRun.parts(rows, columns, from: first)
        self.init(RunHead(rows, from: first, to: end)) { part in parts[part] }
    }
}

extension RunHead {
    /// The head of a run of some rows.
    init(_ rows: [RunRow], from first: Int64, to end: Int64, isSplit: Bool = false, version: UInt8 = 0) {
        self.init(
            first: first, end: end, count: rows.count, since: rows.map(\.at).min() ?? 0,
            until: rows.map(\.at).max() ?? 0, isSplit: isSplit, version: version)
    }

    /// The key of a part, or of the whole run if it is short.
    func key(of part: RowRun.Part?, _ kind: RowKind, in project: ProjectID) -> DocumentKey {
        let owner = UInt64(UInt32(bitPattern: project.rawValue)) << 32 | UInt64(kind.rawValue) << 16
        let form: UInt64 = isSplit ? 1 : 0
        return DocumentKey(
            .runPart,
            hash: Hash128(
                high: UInt64(bitPattern: first) << 8 | UInt64(version),
                low: owner | form << 8 | UInt64(part?.number ?? 0)))
    }

    /// The parts of a run of a kind.
    static func parts(of kind: RowKind) -> [RowRun.Part] {
        [.numbers, .times] + (RunColumn.columns(of: kind) ?? []).flatMap { [.values($0), .places($0)] }
    }

    /// The documents of a run.
    func documents(
        _ parts: [RowRun.Part: [UInt8]], _ kind: RowKind, in project: ProjectID
    ) -> [(key: DocumentKey, body: [UInt8])] {
        let ordered = RunHead.parts(of: kind).compactMap { part in parts[part].map { (part, $0) } }
        if isSplit { return ordered.map { (key(of: $0.0, kind, in: project), $0.1) } }
        var packer = Packer()
        for (part, body) in ordered {
            packer.add(part.number)
            packer.add(body)
        }
        return [(key(of: nil, kind, in: project), packer.bytes)]
    }

    /// The keys of the documents of a run.
    func keys(_ kind: RowKind, in project: ProjectID) -> [DocumentKey] {
        isSplit ? RunHead.parts(of: kind).map { key(of: $0, kind, in: project) } : [key(of: nil, kind, in: project)]
    }

    /// The run, which reads its parts from the store when a search needs them.
    func run(_ kind: RowKind, in project: ProjectID, _ snapshot: any Snapshot) -> RowRun {
        if isSplit {
            return RowRun(self) { part throws(StoreFault) in try snapshot.document(key(of: part, kind, in: project)) }
        }
        var parts: [UInt8: [UInt8]]?
        return RowRun(self) { part throws(StoreFault) in
            if parts == nil {
                guard let whole = try snapshot.document(key(of: nil, kind, in: project)) else { return nil }
                var unpacker = Unpacker(whole)
                var read: [UInt8: [UInt8]] = [:]
                while let number = unpacker.byte(), let body = unpacker.bytes() { read[number] = body }
                parts = read
            }
            return parts?[part.number]
        }
    }
}

/// Integers as little-endian bytes.
enum Words {
    static func bytes(_ values: [UInt64]) -> [UInt8] {
        unsafe values.withUnsafeBytes { unsafe Array($0) }
    }

    static func bytes(_ values: [UInt16]) -> [UInt8] {
        unsafe values.withUnsafeBytes { unsafe Array($0) }
    }

    static func read64(_ bytes: [UInt8]) -> [UInt64] {
        unsafe Array(unsafeUninitializedCapacity: bytes.count / 8) { words, count in
            unsafe UnsafeMutableRawBufferPointer(words).copyBytes(from: bytes.prefix(bytes.count / 8 * 8))
            count = bytes.count / 8
        }
    }

    static func read16(_ bytes: [UInt8]) -> [UInt16] {
        unsafe Array(unsafeUninitializedCapacity: bytes.count / 2) { words, count in
            unsafe UnsafeMutableRawBufferPointer(words).copyBytes(from: bytes.prefix(bytes.count / 2 * 2))
            count = bytes.count / 2
        }
    }
}
