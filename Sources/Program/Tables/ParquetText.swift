import Compression

/// The bytes of a table as a Parquet file (version 1). Debian has no library for this format.
///
///     PAR1 | row group: for each column one page | … | FileMetaData | its length (4, little-endian) | PAR1
///     page: PageHeader | gzip of (length of levels (4) | definition levels | the values that are not null, PLAIN)
struct ParquetText: TableText {
    private struct Column {
        let column: TableColumn
        /// For each row whether it has a value, a bit each, the lowest bit first.
        var levels: [UInt8] = []
        /// The values that are not null.
        var values: [UInt8] = []
    }

    /// A column's page in a row group, as the end of the file describes it.
    private struct Chunk {
        let offset: Int
        let rows: Int
        /// The size of the header and the page.
        let plainBytes: Int
        let compressedBytes: Int
    }

    private struct RowGroup {
        let rows: Int
        let chunks: [Chunk]
    }

    private var columns: [Column]
    private var rows = 0
    private var groups: [RowGroup] = []
    /// The bytes that ``take()`` has returned already.
    private var written = 0
    private var bytes: [UInt8] = Array("PAR1".utf8)

    /// A row group ends when its values have so many bytes, or when it has so many rows.
    private static let bytesPerGroup = 16 << 20
    private static let rowsPerGroup = 250_000

    init(_ columns: [TableColumn]) { self.columns = columns.map { Column(column: $0) } }

    mutating func add(_ row: [TableCell]) {
        for (place, cell) in row.enumerated() {
            if rows % 8 == 0 { columns[place].levels.append(0) }
            switch cell {
            case .null: continue
            case .number(let number), .moment(let number):
                columns[place].values.add(UInt64(bitPattern: number), bytes: 8)
            case .text(let text):
                columns[place].values.add(UInt64(text.count), bytes: 4)
                columns[place].values += text
            }
            columns[place].levels[rows / 8] |= 1 << UInt8(rows % 8)
        }
        rows += 1
        let isFull = columns.reduce(0) { $0 + $1.values.count } >= ParquetText.bytesPerGroup
        if isFull || rows == ParquetText.rowsPerGroup { endGroup() }
    }

    mutating func take() -> [UInt8] {
        defer { bytes.removeAll(keepingCapacity: true) }
        written += bytes.count
        return bytes
    }

    mutating func end() {
        if rows > 0 { endGroup() }
        let metadata = self.metadata
        bytes += metadata
        bytes.add(UInt64(metadata.count), bytes: 4)
        bytes += "PAR1".utf8
    }

    private mutating func endGroup() {
        var chunks: [Chunk] = []
        for place in columns.indices {
            // A run of groups of eight levels, which have one bit each.
            var levels: [UInt8] = []
            levels.add(varint: UInt64(columns[place].levels.count) << 1 | 1)
            levels += columns[place].levels
            var plain: [UInt8] = []
            plain.reserveCapacity(4 + levels.count + columns[place].values.count)
            plain.add(UInt64(levels.count), bytes: 4)
            plain += levels
            plain += columns[place].values
            let page = Gzip.deflate(plain, .least)
            var header = ThriftText()
            header.integer(1, 0)
            header.integer(2, Int64(plain.count))
            header.integer(3, Int64(page.count))
            header.structure(5) { data in
                data.integer(1, Int64(rows))
                data.integer(2, Encoding.plain)
                data.integer(3, Encoding.levels)
                data.integer(4, Encoding.levels)
            }
            header.stop()
            chunks.append(
                Chunk(
                    offset: written + bytes.count, rows: rows, plainBytes: header.bytes.count + plain.count,
                    compressedBytes: header.bytes.count + page.count))
            bytes += header.bytes
            bytes += page
            columns[place].levels.removeAll(keepingCapacity: true)
            columns[place].values.removeAll(keepingCapacity: true)
        }
        groups.append(RowGroup(rows: rows, chunks: chunks))
        rows = 0
    }

    private enum Encoding {
        static let plain: Int64 = 0
        /// Runs and bit-packed values.
        static let levels: Int64 = 3
    }

    private static let gzip: Int64 = 2

    private var metadata: [UInt8] {
        var file = ThriftText()
        file.integer(1, 1)
        file.list(2, count: columns.count + 1) { schema in
            schema.element { root in
                root.text(4, "onym")
                root.integer(5, Int64(columns.count))
            }
            for column in columns {
                schema.element { element in
                    element.integer(1, column.column.kind.parquetType)
                    element.integer(3, 1)
                    element.text(4, column.column.name)
                    if let converted = column.column.kind.convertedType { element.integer(6, converted) }
                }
            }
        }
        file.long(3, Int64(groups.reduce(0) { $0 + $1.rows }))
        file.list(4, count: groups.count) { list in
            for group in groups {
                list.element { element in
                    element.list(1, count: group.chunks.count) { chunks in
                        for (chunk, column) in zip(group.chunks, columns) {
                            chunks.element { ParquetText.describe(chunk, of: column.column, &$0) }
                        }
                    }
                    element.long(2, Int64(group.chunks.reduce(0) { $0 + $1.plainBytes }))
                    element.long(3, Int64(group.rows))
                }
            }
        }
        file.text(6, "onym")
        file.stop()
        return file.bytes
    }

    private static func describe(_ chunk: Chunk, of column: TableColumn, _ text: inout ThriftText) {
        text.long(2, Int64(chunk.offset))
        text.structure(3) { data in
            data.integer(1, column.kind.parquetType)
            data.integers(2, [Encoding.plain, Encoding.levels])
            data.texts(3, [column.name])
            data.integer(4, gzip)
            data.long(5, Int64(chunk.rows))
            data.long(6, Int64(chunk.plainBytes))
            data.long(7, Int64(chunk.compressedBytes))
            data.long(9, Int64(chunk.offset))
        }
    }
}

extension TableColumn.Kind {
    /// The physical type in a Parquet file: INT64 or BYTE_ARRAY.
    fileprivate var parquetType: Int64 {
        switch self {
        case .id, .moment: 2
        case .text, .json: 6
        }
    }

    /// The meaning of the values: UTF8, TIMESTAMP_MILLIS or JSON; nil for plain integers.
    fileprivate var convertedType: Int64? {
        switch self {
        case .id: nil
        case .text: 0
        case .moment: 9
        case .json: 19
        }
    }
}

/// A structure in Thrift's compact protocol: fields in ascending order, each with its type and the difference to the number of the
/// field before.
struct ThriftText {
    private(set) var bytes: [UInt8] = []
    private var last: Int = 0

    private enum Kind {
        static let int32: UInt8 = 5
        static let int64: UInt8 = 6
        static let binary: UInt8 = 8
        static let list: UInt8 = 9
        static let structure: UInt8 = 12
    }

    mutating func integer(_ field: Int, _ value: Int64) {
        begin(field, Kind.int32)
        bytes.add(zigzag: value)
    }

    mutating func long(_ field: Int, _ value: Int64) {
        begin(field, Kind.int64)
        bytes.add(zigzag: value)
    }

    mutating func text(_ field: Int, _ text: String) {
        begin(field, Kind.binary)
        add(text)
    }

    mutating func integers(_ field: Int, _ values: [Int64]) {
        beginList(field, Kind.int32, values.count)
        for value in values { bytes.add(zigzag: value) }
    }

    mutating func texts(_ field: Int, _ texts: [String]) {
        beginList(field, Kind.binary, texts.count)
        for text in texts { add(text) }
    }

    /// Writes a field that is a structure.
    mutating func structure(_ field: Int, _ body: (inout ThriftText) -> Void) {
        begin(field, Kind.structure)
        element(body)
    }

    /// Writes a list of structures; the body writes each as an element.
    mutating func list(_ field: Int, count: Int, _ body: (inout ThriftText) -> Void) {
        beginList(field, Kind.structure, count)
        body(&self)
    }

    /// Writes a structure without a field's number: an element of a list.
    mutating func element(_ body: (inout ThriftText) -> Void) {
        var inner = ThriftText()
        body(&inner)
        inner.stop()
        bytes += inner.bytes
    }

    /// Ends the structure.
    mutating func stop() { bytes.append(0) }

    private mutating func begin(_ field: Int, _ kind: UInt8) {
        precondition(field > last && field - last < 16, "Fields are in ascending order.")
        bytes.append(UInt8(field - last) << 4 | kind)
        last = field
    }

    private mutating func beginList(_ field: Int, _ kind: UInt8, _ count: Int) {
        begin(field, Kind.list)
        if count < 15 {
            bytes.append(UInt8(count) << 4 | kind)
        } else {
            bytes.append(0xF0 | kind)
            bytes.add(varint: UInt64(count))
        }
    }

    private mutating func add(_ text: String) {
        bytes.add(varint: UInt64(text.utf8.count))
        bytes += text.utf8
    }
}

extension [UInt8] {
    /// Appends the low bytes of a number, the lowest first.
    fileprivate mutating func add(_ number: UInt64, bytes count: Int) {
        for place in 0..<count { append(UInt8(truncatingIfNeeded: number >> UInt64(8 * place))) }
    }

    fileprivate mutating func add(varint number: UInt64) {
        var rest = number
        while rest >= 0x80 {
            append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        append(UInt8(rest))
    }

    fileprivate mutating func add(zigzag number: Int64) {
        add(varint: UInt64(bitPattern: number << 1 ^ number >> 63))
    }
}
