import ByteText

/// Lone surrogates, which JavaScript writes if it has cut a text inside a character: `\ud83d` without its other half.
enum LoneSurrogates {
    /// The document with U+FFFD for each lone surrogate, as a conversion of such a text to UTF-8 has it; nil without a lone
    /// surrogate.
    static func replaced(in document: [UInt8]) -> [UInt8]? {
        var mended = document
        var (place, isMended) = (0, false)
        while place + 1 < document.count {
            guard document[place] == UInt8(ascii: "\\") else {
                place += 1
                continue
            }
            guard let unit = unit(in: document, at: place) else {
                place += 2
                continue
            }
            if 0xD800..<0xDC00 ~= unit, let next = self.unit(in: document, at: place + 6), 0xDC00..<0xE000 ~= next {
                place += 12
                continue
            }
            if 0xD800..<0xE000 ~= unit {
                mended.replaceSubrange(place + 2..<place + 6, with: "fffd".utf8)
                isMended = true
            }
            place += 6
        }
        return isMended ? mended : nil
    }

    /// The code unit of an escape: `\u` and four digits.
    private static func unit(in document: [UInt8], at place: Int) -> UInt16? {
        guard place + 6 <= document.count, document[place] == UInt8(ascii: "\\"),
            document[place + 1] == UInt8(ascii: "u"),
            let bytes = Hexadecimal.decode(document[place + 2..<place + 6].span)
        else { return nil }
        return UInt16(bytes[0]) << 8 | UInt16(bytes[1])
    }
}
