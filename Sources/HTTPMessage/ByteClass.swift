import ByteText

/// The bytes that RFC 9110 and 9112 allow in each part of a message.
enum ByteClass {
    /// Whether a byte is allowed in a token: a method, a field name.
    @inline(__always)
    static func isToken(_ byte: UInt8) -> Bool {
        contains(byte, low: 0x03FF_6CFA_0000_0000, high: 0x57FF_FFFF_C7FF_FFFE)
    }

    /// Whether a byte is allowed in a field value: visible characters, space, tab, and bytes above ASCII.
    @inline(__always)
    static func isFieldValue(_ byte: UInt8) -> Bool {
        byte >= 0x20 && byte != 0x7F || byte == ASCII.tab
    }

    /// The first byte at or after an index that is not allowed in a field value. The search reads eight bytes at a time.
    static func firstForbiddenInFieldValue(_ bytes: borrowing Span<UInt8>, from start: Int) -> Int? {
        let ones: UInt64 = 0x0101_0101_0101_0101
        var index = start
        while index < bytes.count {
            if index + 8 <= bytes.count {
                let word = unsafe bytes.bytes.unsafeLoadUnaligned(fromUncheckedByteOffset: index, as: UInt64.self)
                let controls = (word &- ones &* 0x20) & ~word
                let deletes = word ^ ones &* 0x7F
                if (controls | (deletes &- ones) & ~deletes) & ones << 7 == 0 {
                    index += 8
                    continue
                }
            }
            // A tab is possible here, or the last few bytes.
            if !isFieldValue(bytes[index]) { return index }
            index += 1
        }
        return nil
    }

    /// Whether a byte is allowed in a request target: visible ASCII without the characters that RFC 3986 never allows.
    @inline(__always)
    static func isTarget(_ byte: UInt8) -> Bool {
        // All of 0x21...0x7E but " # < > \ ^ ` { | }. Real clients send the brackets, the quote and the bar unescaped; none
        // of these characters can change the end of a message. So only the fragment sign is refused.
        byte > 0x20 && byte < 0x7F && byte != UInt8(ascii: "#")
    }

    @inline(__always)
    private static func contains(_ byte: UInt8, low: UInt64, high: UInt64) -> Bool {
        guard byte < 128 else { return false }
        let bits = byte < 64 ? low : high
        return bits &>> UInt64(byte & 63) & 1 == 1
    }
}
