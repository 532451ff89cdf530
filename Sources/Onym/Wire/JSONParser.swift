extension JSON {
    /// Reads exactly one value; nil if the bytes are not JSON, or are nested too deeply.
    public init?(_ bytes: some Collection<UInt8>) {
        var parser = JSONParser(bytes: Array(bytes))
        guard let value = parser.document() else { return nil }
        self = value
    }
}

/// Reads JSON strictly. No input can crash it: it returns nil for invalid input.
private struct JSONParser {
    let bytes: [UInt8]
    private var place = 0

    /// Deeper input is refused, so that no input exhausts the stack.
    private static let depth = 64

    init(bytes: [UInt8]) { self.bytes = bytes }

    mutating func document() -> JSON? {
        guard let value = value(JSONParser.depth) else { return nil }
        skipSpace()
        return place == bytes.count ? value : nil
    }

    private mutating func value(_ depth: Int) -> JSON? {
        skipSpace()
        guard depth > 0, place < bytes.count else { return nil }
        switch bytes[place] {
        case UInt8(ascii: "{"): return object(depth)
        case UInt8(ascii: "["): return array(depth)
        case UInt8(ascii: "\""): return string().map(JSON.string)
        case UInt8(ascii: "t"): return word("true", .bool(true))
        case UInt8(ascii: "f"): return word("false", .bool(false))
        case UInt8(ascii: "n"): return word("null", .null)
        default: return number()
        }
    }

    private mutating func skipSpace() {
        while place < bytes.count, [0x20, 0x0A, 0x0D, 0x09].contains(bytes[place]) { place += 1 }
    }

    /// Moves past a byte, if the byte is next after spaces.
    private mutating func takes(_ byte: UInt8) -> Bool {
        skipSpace()
        guard place < bytes.count, bytes[place] == byte else { return false }
        place += 1
        return true
    }

    private mutating func word(_ word: StaticString, _ value: JSON) -> JSON? {
        let text = Array(word.description.utf8)
        guard bytes[place...].starts(with: text) else { return nil }
        place += text.count
        return value
    }

    private mutating func array(_ depth: Int) -> JSON? {
        place += 1
        var elements: [JSON] = []
        if takes(UInt8(ascii: "]")) { return .array(elements) }
        while let element = value(depth - 1) {
            elements.append(element)
            if takes(UInt8(ascii: "]")) { return .array(elements) }
            guard takes(UInt8(ascii: ",")) else { return nil }
        }
        return nil
    }

    private mutating func object(_ depth: Int) -> JSON? {
        place += 1
        var members: [String: JSON] = [:]
        if takes(UInt8(ascii: "}")) { return .object(members) }
        while true {
            skipSpace()
            guard place < bytes.count, bytes[place] == UInt8(ascii: "\""), let name = string(),
                takes(UInt8(ascii: ":")), let value = value(depth - 1)
            else { return nil }
            members[name] = value
            if takes(UInt8(ascii: "}")) { return .object(members) }
            guard takes(UInt8(ascii: ",")) else { return nil }
        }
    }

    private mutating func number() -> JSON? {
        let start = place
        var isWhole = true
        while place < bytes.count {
            switch bytes[place] {
            case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"): break
            case UInt8(ascii: "+"), UInt8(ascii: "."), UInt8(ascii: "e"), UInt8(ascii: "E"): isWhole = false
            default: return finishNumber(start, isWhole)
            }
            place += 1
        }
        return finishNumber(start, isWhole)
    }

    private func finishNumber(_ start: Int, _ isWhole: Bool) -> JSON? {
        let digits = bytes[start..<place].drop { $0 == UInt8(ascii: "-") }
        // Only the number 0 may begin with a zero before the point.
        if digits.count > 1, digits.first == UInt8(ascii: "0"), isDigit(digits[digits.startIndex + 1]) { return nil }
        let text = String(decoding: bytes[start..<place], as: UTF8.self)
        guard let last = text.utf8.last, last >= UInt8(ascii: "0"), text.first != "+" else { return nil }
        if isWhole, let value = Int64(text) { return .integer(value) }
        return Double(text).map(JSON.number)
    }

    private func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }

    private mutating func string() -> String? {
        place += 1
        var text: [UInt8] = []
        while place < bytes.count {
            let byte = bytes[place]
            place += 1
            switch byte {
            case UInt8(ascii: "\""): return String(validating: text, as: UTF8.self)
            case UInt8(ascii: "\\"): guard escape(into: &text) else { return nil }
            case 0..<0x20: return nil
            default: text.append(byte)
            }
        }
        return nil
    }

    private mutating func escape(into text: inout [UInt8]) -> Bool {
        guard place < bytes.count else { return false }
        let byte = bytes[place]
        place += 1
        switch byte {
        case UInt8(ascii: "n"): text.append(0x0A)
        case UInt8(ascii: "t"): text.append(0x09)
        case UInt8(ascii: "r"): text.append(0x0D)
        case UInt8(ascii: "b"): text.append(0x08)
        case UInt8(ascii: "f"): text.append(0x0C)
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): text.append(byte)
        case UInt8(ascii: "u"):
            guard let scalar = scalar() else { return false }
            text += String(Character(scalar)).utf8
        default: return false
        }
        return true
    }

    private mutating func scalar() -> Unicode.Scalar? {
        guard let first = codeUnit() else { return nil }
        guard UTF16.isLeadSurrogate(first) else { return Unicode.Scalar(first) }
        guard bytes[place...].starts(with: "\\u".utf8) else { return nil }
        place += 2
        guard let second = codeUnit(), UTF16.isTrailSurrogate(second) else { return nil }
        return UTF16.decode(UTF16.EncodedScalar([first, second]))
    }

    private mutating func codeUnit() -> UInt16? {
        guard place + 4 <= bytes.count else { return nil }
        let digits = String(decoding: bytes[place..<place + 4], as: UTF8.self)
        place += 4
        return digits.utf8.contains(UInt8(ascii: "+")) ? nil : UInt16(digits, radix: 16)
    }
}
