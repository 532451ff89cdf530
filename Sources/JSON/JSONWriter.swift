import ByteText

/// Writes one JSON document into bytes. The document is well formed if each `begin` has its `end`.
package struct JSONWriter: Sendable {
    package private(set) var bytes: [UInt8]
    /// Whether a value precedes the next value in the same array or object.
    private var needsComma = false

    package init(reserving capacity: Int = 256) {
        bytes = []
        bytes.reserveCapacity(capacity)
    }

    package mutating func beginObject() { begin(UInt8(ascii: "{")) }
    package mutating func endObject() { end(UInt8(ascii: "}")) }
    package mutating func beginArray() { begin(UInt8(ascii: "[")) }
    package mutating func endArray() { end(UInt8(ascii: "]")) }

    /// Writes an object's braces around what a body writes.
    package mutating func object(_ body: (inout JSONWriter) -> Void) {
        beginObject()
        body(&self)
        endObject()
    }

    /// Writes an array's brackets around what a body writes.
    package mutating func array(_ body: (inout JSONWriter) -> Void) {
        beginArray()
        body(&self)
        endArray()
    }

    /// Writes a key of letters that need no escape.
    package mutating func key(_ key: StaticString) {
        bytes.append(quoted: key, comma: needsComma, colon: true)
        needsComma = false
    }

    package mutating func key(_ key: String) {
        write(quoted: key.utf8.span, colon: true)
        needsComma = false
    }

    /// Writes a key of UTF-8 in bytes.
    package mutating func key(_ utf8: borrowing Span<UInt8>) {
        write(quoted: utf8, colon: true)
        needsComma = false
    }

    /// Writes a key that a parser has read.
    package mutating func key(_ key: JSONText) {
        key.withBytes { write(quoted: $0, colon: true) }
        needsComma = false
    }

    package mutating func null() { literal("null") }
    package mutating func bool(_ value: Bool) { literal(value ? "true" : "false") }

    package mutating func integer(_ value: some FixedWidthInteger) {
        separate()
        bytes.append(decimal: value)
    }

    /// Writes a number; a number without a form in JSON becomes null.
    package mutating func double(_ value: Double) {
        guard value.isFinite else { return null() }
        separate()
        bytes.append(contentsOf: "\(value)".utf8)
    }

    package mutating func string(_ value: String) {
        write(quoted: value.utf8.span, colon: false)
        needsComma = true
    }

    /// Writes a text that a parser has read.
    package mutating func string(_ text: JSONText) {
        text.withBytes { write(quoted: $0, colon: false) }
        needsComma = true
    }

    /// Writes a text of UTF-8 in bytes.
    package mutating func string(_ utf8: borrowing Span<UInt8>) {
        write(quoted: utf8, colon: false)
        needsComma = true
    }

    /// Writes a word of the server's own, with letters that need no escape.
    package mutating func word(_ word: StaticString) {
        bytes.append(quoted: word, comma: needsComma, colon: false)
        needsComma = true
    }

    /// Writes a string of ASCII that needs no escape: digits, dates, words of the server's own.
    package mutating func plainString(_ value: some Collection<UInt8>) {
        separate()
        bytes.append(UInt8(ascii: "\""))
        bytes.append(contentsOf: value)
        bytes.append(UInt8(ascii: "\""))
    }

    /// Writes an integer as a string, because many readers lose integers with more than 53 bits.
    package mutating func decimalString(_ value: some FixedWidthInteger) {
        separate()
        bytes.append(UInt8(ascii: "\""))
        bytes.append(decimal: value)
        bytes.append(UInt8(ascii: "\""))
    }

    /// Writes a value that a parser has read, with every number and every string unchanged.
    package mutating func copy(_ value: JSONValue) {
        switch value.kind {
        case .null: null()
        case .bool: bool((try? value.bool(at: "")) ?? false)
        case .integer, .unsigned, .double:
            separate()
            value.appendNumber(to: &bytes)
        case .string:
            string(value.anyText)
        case .array:
            beginArray()
            try? value.forEachElement(at: "") { copy($0) }
            endArray()
        case .object:
            beginObject()
            value.forEachAnyMember { key, value in
                self.key(key)
                copy(value)
            }
            endObject()
        }
    }

    /// Writes a part of an object that is already JSON, and ends before a value: `{"kind":` or `,"name":`.
    package mutating func part(_ json: StaticString) {
        bytes.append(json)
        needsComma = false
    }

    /// Writes a value that is already JSON.
    package mutating func raw(_ json: [UInt8]) {
        separate()
        bytes.append(contentsOf: json)
    }

    private mutating func begin(_ bracket: UInt8) {
        separate()
        bytes.append(bracket)
        needsComma = false
    }

    private mutating func end(_ bracket: UInt8) {
        bytes.append(bracket)
        needsComma = true
    }

    private mutating func literal(_ text: StaticString) {
        separate()
        bytes.append(text)
    }

    private mutating func separate() {
        if needsComma { bytes.append(UInt8(ascii: ",")) }
        needsComma = true
    }

    private mutating func write(quoted utf8: borrowing Span<UInt8>, colon: Bool) {
        if JSONWriter.needsNoEscape(utf8) {
            bytes.append(quoted: utf8, comma: needsComma, colon: colon)
        } else {
            separate()
            bytes.append(UInt8(ascii: "\""))
            write(escaping: utf8)
            bytes.append(UInt8(ascii: "\""))
            if colon { bytes.append(UInt8(ascii: ":")) }
        }
    }

    /// Searches for quotes, backslashes and control characters, eight bytes at a time.
    private static func needsNoEscape(_ utf8: borrowing Span<UInt8>) -> Bool {
        let ones: UInt64 = 0x0101_0101_0101_0101
        let tops: UInt64 = ones << 7
        var index = 0
        while index + 8 <= utf8.count {
            let word = unsafe utf8.bytes.unsafeLoadUnaligned(fromUncheckedByteOffset: index, as: UInt64.self)
            let quotes = word ^ (ones &* UInt64(UInt8(ascii: "\"")))
            let slashes = word ^ (ones &* UInt64(UInt8(ascii: "\\")))
            // A byte with its top bit set is part of a longer character, and needs no escape.
            let marks =
                ((word &- ones &* 0x20) | (quotes &- ones) | (slashes &- ones)) & ~word & tops
            if marks != 0 { return false }
            index += 8
        }
        while index < utf8.count {
            if JSONWriter.isEscaped(utf8[index]) { return false }
            index += 1
        }
        return true
    }

    private static func isEscaped(_ byte: UInt8) -> Bool {
        byte < 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\")
    }

    private mutating func write(escaping utf8: borrowing Span<UInt8>) {
        var clean = 0
        for index in utf8.indices where JSONWriter.isEscaped(utf8[index]) {
            bytes.append(copying: utf8.extracting(clean..<index))
            clean = index + 1
            let byte = utf8[index]
            switch byte {
            case UInt8(ascii: "\""): bytes.append("\\\"")
            case UInt8(ascii: "\\"): bytes.append("\\\\")
            case 0x08: bytes.append("\\b")
            case 0x09: bytes.append("\\t")
            case 0x0A: bytes.append("\\n")
            case 0x0C: bytes.append("\\f")
            case 0x0D: bytes.append("\\r")
            default:
                bytes.append("\\u00")
                bytes.append(Hexadecimal.digit(byte >> 4))
                bytes.append(Hexadecimal.digit(byte & 15))
            }
        }
        bytes.append(copying: utf8.extracting(clean...))
    }
}
