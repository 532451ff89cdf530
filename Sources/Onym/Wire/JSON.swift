/// A JSON value. Integers are exact up to 64 bits, because an MPID has 64 bits.
public enum JSON: Hashable, Sendable {
    /// Null.
    case null
    /// True or false.
    case bool(Bool)
    /// A number without a fraction.
    case integer(Int64)
    /// A number with a fraction, or beyond 64 bits.
    case number(Double)
    /// A text.
    case string(String)
    /// A list.
    case array([JSON])
    /// Named values.
    case object([String: JSON])
}

extension JSON: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral,
    ExpressibleByBooleanLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
    /// Makes a text.
    public init(stringLiteral value: String) { self = .string(value) }
    /// Makes an integer.
    public init(integerLiteral value: Int64) { self = .integer(value) }
    /// Makes a number.
    public init(floatLiteral value: Double) { self = .number(value) }
    /// Makes true or false.
    public init(booleanLiteral value: Bool) { self = .bool(value) }
    /// Makes a list.
    public init(arrayLiteral elements: JSON...) { self = .array(elements) }
    /// Makes an object; of two equal names, the last counts.
    public init(dictionaryLiteral elements: (String, JSON)...) {
        self = .object(Dictionary(elements, uniquingKeysWith: { $1 }))
    }
}

extension JSON {
    /// The text; nil for a value of another kind.
    public var text: String? {
        guard case .string(let text) = self else { return nil }
        return text
    }

    /// The integer, also from a text of digits; nil for other values.
    public var integer: Int64? {
        switch self {
        case .integer(let value): value
        case .string(let text): Int64(text)
        default: nil
        }
    }

    /// True or false; nil for a value of another kind.
    public var bool: Bool? {
        guard case .bool(let value) = self else { return nil }
        return value
    }

    /// The list; nil for a value of another kind.
    public var elements: [JSON]? {
        guard case .array(let elements) = self else { return nil }
        return elements
    }

    /// The members of an object; nil for a value of another kind.
    public var members: [String: JSON]? {
        guard case .object(let members) = self else { return nil }
        return members
    }

    /// A member of an object by name; nil if the member does not exist or is null.
    public subscript(name: String) -> JSON? {
        guard case .object(let members) = self, let value = members[name], value != .null else { return nil }
        return value
    }

    /// The members with text values.
    package var texts: [String: String] { (members ?? [:]).compactMapValues(\.text) }

    /// An object of texts.
    package static func texts(_ texts: [String: String]) -> JSON { .object(texts.mapValues(JSON.string)) }

    /// A text, or null.
    package static func optional(_ text: String?) -> JSON { text.map(JSON.string) ?? .null }

    /// An object without null members: the services of the Entitlements dialect fail on null.
    package static func sparse(_ members: [String: JSON]) -> JSON { .object(members.filter { $0.value != .null }) }
}

// MARK: - Writing

extension JSON {
    /// The value as UTF-8, with an object's members in the order of their names.
    public var bytes: [UInt8] {
        var bytes: [UInt8] = []
        write(to: &bytes)
        return bytes
    }

    package func write(to bytes: inout [UInt8]) {
        switch self {
        case .null: bytes += "null".utf8
        case .bool(let value): bytes += (value ? "true" : "false").utf8
        case .integer(let value): bytes += value.description.utf8
        // JSON has no infinity and no NaN.
        case .number(let value): bytes += (value.isFinite ? value.description : "null").utf8
        case .string(let text): JSON.write(text, to: &bytes)
        case .array(let elements):
            bytes.append(UInt8(ascii: "["))
            for (place, element) in elements.enumerated() {
                if place > 0 { bytes.append(UInt8(ascii: ",")) }
                element.write(to: &bytes)
            }
            bytes.append(UInt8(ascii: "]"))
        case .object(let members): JSON.write(members, to: &bytes)
        }
    }

    private static func write(_ members: [String: JSON], to bytes: inout [UInt8]) {
        bytes.append(UInt8(ascii: "{"))
        var isFirst = true
        for (name, value) in members.sorted(by: { $0.key < $1.key }) {
            if !isFirst { bytes.append(UInt8(ascii: ",")) }
            isFirst = false
            write(name, to: &bytes)
            bytes.append(UInt8(ascii: ":"))
            value.write(to: &bytes)
        }
        bytes.append(UInt8(ascii: "}"))
    }

    package static func write(_ text: String, to bytes: inout [UInt8]) {
        bytes.append(UInt8(ascii: "\""))
        // Most texts need no escaping.
        if !text.utf8.contains(where: { $0 < 0x20 || $0 == UInt8(ascii: "\"") || $0 == UInt8(ascii: "\\") }) {
            bytes += text.utf8
            bytes.append(UInt8(ascii: "\""))
            return
        }
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"):
                bytes.append(UInt8(ascii: "\\"))
                bytes.append(byte)
            case 0..<0x20:
                bytes += "\\u00".utf8
                bytes.append(hexadecimal(byte >> 4))
                bytes.append(hexadecimal(byte & 15))
            default: bytes.append(byte)
            }
        }
        bytes.append(UInt8(ascii: "\""))
    }
}

/// The hexadecimal digit of a value below 16.
package func hexadecimal(_ value: UInt8) -> UInt8 {
    value + (value < 10 ? UInt8(ascii: "0") : UInt8(ascii: "a") - 10)
}

/// Bytes as lower-case hexadecimal digits.
package func hexadecimal(_ bytes: some Sequence<UInt8>) -> String {
    String(decoding: bytes.flatMap { [hexadecimal($0 >> 4), hexadecimal($0 & 15)] }, as: UTF8.self)
}
