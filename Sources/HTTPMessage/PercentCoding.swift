import ByteText

/// Percent-encoding (RFC 3986 2.1), and the query strings in this encoding.
package enum PercentCoding {
    /// Appends the decoded bytes to a buffer; false if two digits are missing after a `%`, or if an escape stands for NUL.
    package static func decode(
        _ bytes: borrowing Span<UInt8>, plusIsSpace: Bool = false, into buffer: inout [UInt8]
    ) -> Bool {
        var index = 0
        while index < bytes.count {
            let byte = bytes[index]
            if byte == UInt8(ascii: "%") {
                guard index + 2 < bytes.count,
                    let high = ASCII.hexadecimal(bytes[index + 1]),
                    let low = ASCII.hexadecimal(bytes[index + 2]),
                    high | low != 0
                else { return false }
                buffer.append(high << 4 | low)
                index += 3
            } else {
                buffer.append(plusIsSpace && byte == UInt8(ascii: "+") ? ASCII.space : byte)
                index += 1
            }
        }
        return true
    }

    /// The decoded text; nil for malformed text, or text that is not UTF-8.
    package static func decodedText(_ bytes: borrowing Span<UInt8>, plusIsSpace: Bool = false) -> String? {
        var buffer: [UInt8] = []
        buffer.reserveCapacity(bytes.count)
        guard decode(bytes, plusIsSpace: plusIsSpace, into: &buffer) else { return nil }
        return String(validating: buffer, as: UTF8.self)
    }

    /// The text for a path or a query: all bytes but letters, digits, `-`, `.`, `_` and `~` become escapes.
    package static func encode(_ text: String) -> String {
        var bytes: [UInt8] = []
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
                UInt8(ascii: "~"):
                bytes.append(byte)
            default:
                bytes.append(UInt8(ascii: "%"))
                bytes += Array(Hexadecimal.encode([byte]).uppercased().utf8)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}

/// The parameters of a query string, decoded once.
package struct Query: Equatable, Sendable {
    package struct Parameter: Equatable, Sendable {
        package let name: String
        package let value: String
    }

    package let parameters: [Parameter]

    /// A query without parameters.
    package init() { parameters = [] }

    /// Reads `name=value&…`, with `+` for a space; nil for a malformed escape, or text that is not UTF-8.
    package init?(_ bytes: borrowing Span<UInt8>) {
        var parameters: [Parameter] = []
        var start = 0
        while start < bytes.count {
            let end = bytes.firstIndex(of: UInt8(ascii: "&"), in: start..<bytes.count) ?? bytes.count
            defer { start = end + 1 }
            if start == end { continue }
            let equals = bytes.firstIndex(of: UInt8(ascii: "="), in: start..<end) ?? end
            guard let name = PercentCoding.decodedText(bytes.extracting(start..<equals), plusIsSpace: true),
                let value = PercentCoding.decodedText(
                    bytes.extracting(min(equals + 1, end)..<end), plusIsSpace: true)
            else { return nil }
            parameters.append(Parameter(name: name, value: value))
        }
        self.parameters = parameters
    }

    /// The value of a parameter; of several parameters with one name, the last.
    package subscript(name: String) -> String? {
        parameters.last { $0.name == name }?.value
    }
}
