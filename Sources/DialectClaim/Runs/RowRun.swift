import Compression
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
    /// Whether each document of the run ends with its checksum. Older versions of the server made runs without checksums.
    let hasSums: Bool
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

    /// The bits of a run's form.
    private static let split: UInt8 = 1
    private static let summed: UInt8 = 2

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
                    first: first, end: end, count: Int(count), since: since, until: until,
                    isSplit: form & RunList.split != 0, hasSums: form & RunList.summed != 0, version: version))
        }
    }

    var packed: [UInt8] {
        var packer = Packer()
        packer.add(UInt64(bitPattern: end))
        for run in runs {
            for number in [run.first, run.end, Int64(run.count), run.since, run.until] {
                packer.add(UInt64(bitPattern: number))
            }
            packer.add((run.isSplit ? RunList.split : 0) | (run.hasSums ? RunList.summed : 0))
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

    /// The numbers of the rows.
    struct Numbers: Sendable {
        let first: Int64
        let offsets: [UInt16]

        subscript(row: Int) -> Int64 { first + Int64(offsets[row]) }
    }

    let head: RunHead
    /// Reads a part; nil if the run is replaced.
    private let read: (Part) throws(StoreFault) -> [UInt8]?
    /// The values that earlier reads have made of the parts; nil for a run in memory.
    private let known: RunMemory?

    init(
        _ head: RunHead, _ known: RunMemory? = nil, read: @escaping (Part) throws(StoreFault) -> [UInt8]?
    ) {
        (self.head, self.known, self.read) = (head, known, read)
    }

    /// The longest range of a run: places and numbers have two bytes.
    static let numbersAtMost: Int64 = 1 << 16

    // MARK: - Reading

    /// The row numbers; nil if the run is replaced.
    func numbers() throws(StoreFault) -> Numbers? {
        try made(of: .numbers) { part in Words.read16(part) }.map { Numbers(first: head.first, offsets: $0) }
    }

    func times() throws(StoreFault) -> [Int64]? {
        try made(of: .times) { part in Words.read64(part).map(Int64.init(bitPattern:)) }
    }

    func values(of column: RunColumn) throws(StoreFault) -> [UInt64]? {
        try made(of: .values(column)) { part in Words.read64(part) }
    }

    func column(_ column: RunColumn) throws(StoreFault) -> Column? {
        guard let values = try values(of: column) else { return nil }
        if values.count <= 1 { return Column(values: values, places: nil) }
        let isShort = values.count <= 256
        let places = try made(of: .places(column)) { part in
            isShort ? part.map(UInt16.init) : Words.read16(part)
        }
        return places.map { Column(values: values, places: $0) }
    }

    /// A value that is made of a part; nil if the run is replaced.
    private func made<Element: Sendable>(
        of part: Part, _ make: ([UInt8]) -> [Element]
    ) throws(StoreFault) -> [Element]? {
        let key = known?.key(of: part)
        if let key, let made = known?.values.value(key, [Element].self) { return made }
        guard let made = try read(part).map(make) else { return nil }
        if let key { known?.values.keep(made, key, bytes: MemoryLayout<Element>.stride * made.count) }
        return made
    }

    /// All rows, in the order of their numbers; nil if the run is replaced.
    func rows(_ columns: [RunColumn]) throws(StoreFault) -> [RunRow]? {
        var read: [Column] = []
        for name in columns {
            guard let column = try column(name) else { return nil }
            read.append(column)
        }
        guard let numbers = try numbers(), let times = try times() else { return nil }
        return times.indices.map { row in
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
            until: rows.map(\.at).max() ?? 0, isSplit: isSplit, hasSums: true, version: version)
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
        if isSplit { return ordered.map { (key(of: $0.0, kind, in: project), summed($0.1)) } }
        var packer = Packer()
        for (part, body) in ordered {
            packer.add(part.number)
            packer.add(body)
        }
        return [(key(of: nil, kind, in: project), summed(packer.bytes))]
    }

    /// A document with its checksum behind it.
    private func summed(_ body: [UInt8]) -> [UInt8] {
        var sum = CRC32()
        sum.add(body)
        return body + (0..<4).map { UInt8(truncatingIfNeeded: sum.value >> UInt32(8 * $0)) }
    }

    /// The document without its checksum; nil if the document is missing or damaged.
    private func whole(_ document: [UInt8]?) -> [UInt8]? {
        guard hasSums, var document else { return document }
        var sum = CRC32()
        sum.add(document.dropLast(4))
        let last = document.suffix(4).reversed().reduce(0 as UInt32) { $0 << 8 | UInt32($1) }
        guard document.count >= 4, sum.value == last else { return nil }
        document.removeLast(4)
        return document
    }

    /// The keys of the documents of a run.
    func keys(_ kind: RowKind, in project: ProjectID) -> [DocumentKey] {
        isSplit ? RunHead.parts(of: kind).map { key(of: $0, kind, in: project) } : [key(of: nil, kind, in: project)]
    }

    /// The run, which reads its parts from the store when a search needs them.
    func run(_ kind: RowKind, in project: ProjectID, _ snapshot: any Snapshot) -> RowRun {
        let known = snapshot.derived.map { RunMemory(values: $0, head: self, kind: kind, project: project) }
        return run(kind, in: project, snapshot, known)
    }

    /// The run, which reads all its parts from the store.
    func run(_ kind: RowKind, in project: ProjectID, _ facts: any RowFacts, _ known: RunMemory? = nil) -> RowRun {
        if isSplit {
            return RowRun(self, known) { part throws(StoreFault) in
                let body = whole(try facts.document(key(of: part, kind, in: project)))
                if body == nil { known?.noteUnread() }
                return body
            }
        }
        var parts: [UInt8: [UInt8]]?
        return RowRun(self, known) { part throws(StoreFault) in
            if parts == nil {
                guard let body = whole(try facts.document(key(of: nil, kind, in: project))) else {
                    known?.noteUnread()
                    return nil
                }
                var unpacker = Unpacker(body)
                var read: [UInt8: [UInt8]] = [:]
                while let number = unpacker.byte(), let body = unpacker.bytes() { read[number] = body }
                parts = read
            }
            return parts?[part.number]
        }
    }
}

/// The values that reads have made of the parts of a run. A run never changes, so the values hold as long as the list has the run.
struct RunMemory {
    let values: DerivedValues
    let head: RunHead
    let kind: RowKind
    let project: ProjectID

    func key(of part: RowRun.Part) -> DerivedValues.Key {
        // A version has one byte, so the number of rows tells versions apart, too.
        DerivedValues.Key(
            of: head.key(of: part, kind, in: project),
            form: UInt64(head.count) << 8 | UInt64(part.number))
    }
}

/// A run that a read could not read, because a document of it is missing or damaged.
struct UnreadRun: Sendable {
    let head: RunHead
    let kind: RowKind
    let project: ProjectID

    /// The last such run of a store is enough: the next read finds the next one.
    static let key = DerivedValues.Key(of: RunList.endKey, form: 1)
}

extension RunMemory {
    /// Notes that the run cannot be read, for the thread that makes runs.
    func noteUnread() { values.keep(UnreadRun(head: head, kind: kind, project: project), UnreadRun.key, bytes: 64) }
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
