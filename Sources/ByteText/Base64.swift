/// Base64 (RFC 4648 4), for example in Basic authentication.
package enum Base64 {
    package static func encode(_ bytes: some Collection<UInt8>) -> String {
        var text = letters(of: Array(bytes), standard)
        while !text.count.isMultiple(of: 4) { text.append(UInt8(ascii: "=")) }
        return String(decoding: text, as: UTF8.self)
    }

    /// The bytes of a text with or without padding; nil for a text that is not Base64, or that has unused bits other than
    /// zero. So two texts never stand for the same bytes, except for padding.
    package static func decode(_ text: borrowing Span<UInt8>) -> [UInt8]? {
        var end = text.count
        while end > 0, text.count - end < 2, text[end - 1] == UInt8(ascii: "=") { end -= 1 }
        if end < text.count, !text.count.isMultiple(of: 4) { return nil }
        if end % 4 == 1 { return nil }
        return bytes(text, count: end, standardValues)
    }

    /// Encodes with the letters for addresses and signed tokens (RFC 4648 5), and without padding.
    package static func encodeForAddresses(_ bytes: some Collection<UInt8>) -> String {
        String(decoding: letters(of: Array(bytes), forAddresses), as: UTF8.self)
    }

    /// Appends bytes in these letters to a text.
    package static func appendForAddresses(_ bytes: [UInt8], to text: inout [UInt8]) {
        append(bytes, forAddresses, to: &text)
    }

    /// The bytes of a text with these letters; nil for other texts, also for texts with padding.
    package static func decodeForAddresses(_ text: borrowing Span<UInt8>) -> [UInt8]? {
        text.count % 4 == 1 ? nil : bytes(text, count: text.count, addressValues)
    }

    // Signed texts are long, so the loops below read tables.

    private static func letters(of bytes: [UInt8], _ alphabet: [UInt8]) -> [UInt8] {
        var text: [UInt8] = []
        text.reserveCapacity((bytes.count + 2) / 3 * 4)
        append(bytes, alphabet, to: &text)
        return text
    }

    private static func append(_ bytes: [UInt8], _ alphabet: [UInt8], to text: inout [UInt8]) {
        if bytes.isEmpty { return }
        text.append(addingCapacity: (bytes.count * 4 + 2) / 3) { text in
            var bits: UInt32 = 0
            var held = 0
            for byte in bytes {
                bits = bits << 8 | UInt32(byte)
                held += 8
                while held >= 6 {
                    held -= 6
                    text.append(alphabet[Int(bits >> UInt32(held) & 63)])
                }
            }
            if held > 0 { text.append(alphabet[Int(bits << UInt32(6 - held) & 63)]) }
        }
    }

    private static func bytes(_ text: borrowing Span<UInt8>, count: Int, _ values: [UInt8]) -> [UInt8]? {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(count * 3 / 4)
        var bits: UInt32 = 0
        var held = 0
        for index in 0..<count {
            let value = values[Int(text[index])]
            if value == noLetter { return nil }
            bits = bits << 6 | UInt32(value)
            held += 6
            if held >= 8 {
                held -= 8
                bytes.append(UInt8(truncatingIfNeeded: bits >> UInt32(held)))
            }
        }
        return bits & (1 << UInt32(held) - 1) == 0 ? bytes : nil
    }

    private static let common = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789".utf8)
    private static let standard = common + Array("+/".utf8)
    private static let forAddresses = common + Array("-_".utf8)
    private static let standardValues = values(of: standard)
    private static let addressValues = values(of: forAddresses)
    private static let noLetter: UInt8 = 0xFF

    /// The value of each byte as a letter.
    private static func values(of alphabet: [UInt8]) -> [UInt8] {
        var values = [UInt8](repeating: noLetter, count: 256)
        for (value, letter) in alphabet.enumerated() { values[Int(letter)] = UInt8(value) }
        return values
    }
}
