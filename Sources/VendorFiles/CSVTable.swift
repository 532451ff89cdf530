import ByteText
import JSON

/// The bytes of a cell, or of another text of a record.
typealias Bytes = ArraySlice<UInt8>

/// Reads a CSV file (RFC 4180) from chunks of any size: one record at a time, whose cells are slices of the buffer.
///
/// Commas separate cells, LF or CRLF end records. A quote opens a quoted cell only as the first character of the cell. A slice
/// must be gone before the next record is read: otherwise the buffer is copied.
final class CSVTable {
    static let byteOrderMark: [UInt8] = [0xEF, 0xBB, 0xBF]

    private var buffer: [UInt8] = []
    /// The start of the bytes that belong to no record yet.
    private var start = 0
    /// The place up to which the search for the end of the record has come.
    private var scanned = 0
    private var isQuoted = false
    private var hasQuotes = false
    private var hasEnded = false
    private var isAtBeginning = true
    private var nextLine = 1
    private var newlines = 0
    private var cells: [Range<Int>] = []

    /// The number of the record's first line.
    private(set) var line = 1
    /// The names of the columns, in lower case.
    private(set) var columns: [String] = []
    private var names: [[UInt8]] = []

    func append(_ chunk: [UInt8]) {
        // The rest of a record moves to the front, so that the buffer does not grow.
        if start > 0 {
            buffer.removeSubrange(..<start)
            scanned -= start
            start = 0
        }
        buffer += chunk
    }

    /// Tells that the last chunk has come.
    func end() { hasEnded = true }

    /// The number of cells of the record.
    var count: Int { cells.count }

    /// A cell of the record; empty for an index of a column that the table does not have.
    subscript(_ index: Int) -> Bytes { index < 0 ? [] : buffer[cells[index]] }

    /// Whether the record is an empty line.
    var isBlank: Bool { cells.count == 1 && cells[0].isEmpty && columns.count > 1 }

    /// Whether the record is UTF-8 without NUL characters.
    private(set) var isText = true

    /// The index of a column by its name in lower case; -1 if the table does not have the column.
    func column(_ name: String) -> Int { columns.firstIndex(of: name) ?? -1 }

    /// The columns that a vendor's reader does not know, by their names in the file.
    func unknownColumns(known: Set<String>) -> [String] {
        columns.indices.filter { !known.contains(columns[$0]) }.map { index in
            let name = names[index]
            return String(copying: name.span)
        }
    }

    /// The name of a column as the file has it.
    func name(of column: Int) -> [UInt8] { names[column] }

    /// Takes the record as the header.
    func takeHeader() {
        names = cells.map { Array(buffer[$0]) }
        columns = names.map { name in
            let letters = name.map(ASCII.lowercased)
            return String(copying: letters.span)
        }
    }

    /// The record as a JSON object, for the file of refused records.
    var recordJSON: [UInt8] {
        var json = JSONWriter()
        json.object { json in
            for (index, cell) in cells.enumerated() {
                if index < names.count {
                    let name = names[index]
                    json.key(name.span)
                } else {
                    json.key("column \(index + 1)")
                }
                let text = buffer[cell]
                json.string(String(copying: text.span))
            }
        }
        return json.bytes
    }

    /// Reads the next record; false if its end has not come yet.
    func next() throws(RecordTooLong) -> Bool {
        if isAtBeginning {
            guard buffer.count >= CSVTable.byteOrderMark.count || hasEnded else { return false }
            if buffer.starts(with: CSVTable.byteOrderMark) { start = CSVTable.byteOrderMark.count }
            scanned = start
            isAtBeginning = false
        }
        guard let end = findEnd() else {
            if buffer.count - start > VendorReader.longestRecord { throw RecordTooLong(line: nextLine) }
            return false
        }
        line = nextLine
        nextLine += newlines
        newlines = 0
        isText = isText(start..<end.content)
        split(start..<end.content)
        start = end.next
        scanned = start
        (isQuoted, hasQuotes) = (false, false)
        return true
    }

    private func isText(_ record: Range<Int>) -> Bool {
        let bytes = buffer
        return TextCheck.isText(bytes.span.extracting(record))
    }

    /// Searches for the newline that ends the record, outside of quotes.
    private func findEnd() -> (content: Int, next: Int)? {
        let buffer = buffer
        let bytes = buffer.span
        var index = scanned
        while index < bytes.count {
            let byte = bytes[index]
            if isQuoted {
                if byte == UInt8(ascii: "\"") {
                    if index + 1 == bytes.count, !hasEnded { break }
                    if index + 1 < bytes.count, bytes[index + 1] == UInt8(ascii: "\"") {
                        index += 2
                        continue
                    }
                    isQuoted = false
                } else if byte == UInt8(ascii: "\n") {
                    newlines += 1
                }
            } else if byte == UInt8(ascii: "\n") {
                newlines += 1
                scanned = index
                return (index, index + 1)
            } else if byte == UInt8(ascii: "\""), index == start || bytes[index - 1] == UInt8(ascii: ",") {
                (isQuoted, hasQuotes) = (true, true)
            }
            index += 1
        }
        scanned = index
        return hasEnded && start < bytes.count ? (bytes.count, bytes.count) : nil
    }

    /// Finds the cells of a record.
    private func split(_ record: Range<Int>) {
        cells.removeAll(keepingCapacity: true)
        if hasQuotes { return splitQuoted(record) }
        let buffer = buffer
        let bytes = buffer.span
        var (cell, index) = (record.lowerBound, record.lowerBound)
        while index < record.upperBound {
            if bytes[index] == UInt8(ascii: ",") {
                cells.append(cell..<index)
                cell = index + 1
            }
            index += 1
        }
        cells.append(cell..<withoutReturn(cell, record.upperBound))
    }

    /// The end of the last cell, without the CR of CRLF.
    private func withoutReturn(_ lower: Int, _ upper: Int) -> Int {
        upper > lower && buffer[upper - 1] == UInt8(ascii: "\r") ? upper - 1 : upper
    }

    private func splitQuoted(_ record: Range<Int>) {
        var index = record.lowerBound
        while true {
            guard index < record.upperBound, buffer[index] == UInt8(ascii: "\"") else {
                let end = buffer[index..<record.upperBound].firstIndex(of: UInt8(ascii: ","))
                cells.append(index..<(end ?? withoutReturn(index, record.upperBound)))
                guard let end else { return }
                index = end + 1
                continue
            }
            // Doubled quotes become one, in place: the text only gets shorter.
            var (from, to) = (index + 1, index + 1)
            while from < record.upperBound {
                let byte = buffer[from]
                if byte == UInt8(ascii: "\"") {
                    guard from + 1 < record.upperBound, buffer[from + 1] == UInt8(ascii: "\"") else {
                        break
                    }
                    from += 1
                }
                if from != to { buffer[to] = byte }
                from += 1
                to += 1
            }
            // Bytes between the closing quote and the comma belong to the cell, as other readers have it.
            var end = min(from + 1, record.upperBound)
            while end < record.upperBound, buffer[end] != UInt8(ascii: ",") {
                if buffer[end] != UInt8(ascii: "\r") || end + 1 < record.upperBound {
                    buffer[to] = buffer[end]
                    to += 1
                }
                end += 1
            }
            cells.append(index + 1..<to)
            guard end < record.upperBound else { return }
            index = end + 1
        }
    }
}

/// The check of texts that become JSON.
enum TextCheck {
    /// Whether bytes are UTF-8 without NUL characters.
    static func isText(_ bytes: borrowing Span<UInt8>) -> Bool {
        var index = 0
        let tops: UInt64 = 0x8080_8080_8080_8080
        let ones: UInt64 = 0x0101_0101_0101_0101
        while index + 8 <= bytes.count {
            let word = unsafe bytes.bytes.unsafeLoadUnaligned(fromUncheckedByteOffset: index, as: UInt64.self)
            // No byte is zero, none has its top bit set.
            if (word | (word &- ones) & ~word) & tops != 0 { break }
            index += 8
        }
        while index < bytes.count {
            if bytes[index] == 0 { return false }
            if bytes[index] >= 0x80 { return isLongText(bytes) }
            index += 1
        }
        return true
    }

    private static func isLongText(_ bytes: borrowing Span<UInt8>) -> Bool {
        for index in bytes.indices where bytes[index] == 0 { return false }
        return unsafe bytes.withUnsafeBufferPointer { unsafe String(validating: $0, as: UTF8.self) } != nil
    }
}
