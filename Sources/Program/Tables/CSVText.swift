import CivilTime

/// The text of a table as comma-separated values (RFC 4180). A null has no quotes and no characters; an empty text has quotes.
struct CSVText: TableText {
    private(set) var bytes: [UInt8] = []

    init(_ columns: [TableColumn]) {
        bytes += columns.map(\.name).joined(separator: ",").utf8
        endRow()
    }

    mutating func add(_ row: [TableCell]) {
        for (place, cell) in row.enumerated() {
            if place > 0 { bytes.append(UInt8(ascii: ",")) }
            switch cell {
            case .null: break
            case .number(let number): bytes += "\(number)".utf8
            case .moment(let milliseconds): bytes += ISO8601.format(millisecondsSince1970: milliseconds)
            case .text(let text): add(text)
            }
        }
        endRow()
    }

    mutating func end() {}

    mutating func take() -> [UInt8] {
        defer { bytes.removeAll(keepingCapacity: true) }
        return bytes
    }

    private mutating func add(_ text: [UInt8]) {
        let quote = UInt8(ascii: "\"")
        let isPlain = !text.isEmpty && !text.contains { $0 == quote || $0 == UInt8(ascii: ",") || $0 < 0x20 }
        if isPlain {
            bytes += text
            return
        }
        bytes.append(quote)
        for byte in text {
            if byte == quote { bytes.append(quote) }
            bytes.append(byte)
        }
        bytes.append(quote)
    }

    private mutating func endRow() { bytes += "\r\n".utf8 }
}
