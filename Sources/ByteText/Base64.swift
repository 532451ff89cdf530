/// Base64 (RFC 4648 4), for example in Basic authentication.
package enum Base64 {
    package static func encode(_ bytes: some Collection<UInt8>) -> String {
        var text: [UInt8] = []
        text.reserveCapacity((bytes.count + 2) / 3 * 4)
        var bits: UInt32 = 0
        var held = 0
        for byte in bytes {
            bits = bits << 8 | UInt32(byte)
            held += 8
            while held >= 6 {
                held -= 6
                text.append(letter(bits >> UInt32(held)))
            }
        }
        if held > 0 { text.append(letter(bits << UInt32(6 - held))) }
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
        var bytes: [UInt8] = []
        bytes.reserveCapacity(end * 3 / 4)
        var bits: UInt32 = 0
        var held = 0
        for index in 0..<end {
            guard let value = value(text[index]) else { return nil }
            bits = bits << 6 | UInt32(value)
            held += 6
            if held >= 8 {
                held -= 8
                bytes.append(UInt8(truncatingIfNeeded: bits >> UInt32(held)))
            }
        }
        return bits & (1 << UInt32(held) - 1) == 0 ? bytes : nil
    }

    /// Encodes with the letters for addresses and signed tokens (RFC 4648 5), and without padding.
    package static func encodeForAddresses(_ bytes: some Collection<UInt8>) -> String {
        var text = encode(bytes)
        while text.utf8.last == UInt8(ascii: "=") { text.removeLast() }
        return text.replacing("+", with: "-").replacing("/", with: "_")
    }

    package static func decodeForAddresses(_ text: borrowing Span<UInt8>) -> [UInt8]? {
        var letters: [UInt8] = []
        letters.reserveCapacity(text.count)
        for index in text.indices {
            switch text[index] {
            case UInt8(ascii: "-"): letters.append(UInt8(ascii: "+"))
            case UInt8(ascii: "_"): letters.append(UInt8(ascii: "/"))
            case UInt8(ascii: "+"), UInt8(ascii: "/"), UInt8(ascii: "="): return nil
            case let letter: letters.append(letter)
            }
        }
        return decode(letters.span)
    }

    private static func letter(_ bits: UInt32) -> UInt8 {
        let value = UInt8(bits & 63)
        return switch value {
        case 0..<26: UInt8(ascii: "A") + value
        case 26..<52: UInt8(ascii: "a") + value - 26
        case 52..<62: UInt8(ascii: "0") + value - 52
        case 62: UInt8(ascii: "+")
        default: UInt8(ascii: "/")
        }
    }

    private static func value(_ letter: UInt8) -> UInt8? {
        switch letter {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): letter - UInt8(ascii: "A")
        case UInt8(ascii: "a")...UInt8(ascii: "z"): letter - UInt8(ascii: "a") + 26
        case UInt8(ascii: "0")...UInt8(ascii: "9"): letter - UInt8(ascii: "0") + 52
        case UInt8(ascii: "+"): 62
        case UInt8(ascii: "/"): 63
        default: nil
        }
    }
}
