import ByteText

/// What other programs write and the parser refuses: half of a surrogate pair, `\ud83d`, which JavaScript writes if it has cut a text
/// inside a character, and integers beyond 64 bits, which JavaScript writes in digits up to 10²¹.
enum Mending {
    /// The document with U+FFFD for each lone surrogate, as a conversion of such a text to UTF-8 has it, and with a fraction behind each
    /// integer beyond 64 bits, so that it is a double; nil without such things.
    static func mended(_ document: [UInt8]) -> [UInt8]? {
        var mended: [UInt8] = []
        // Everything before this place is in the mended document.
        var copied = 0
        func replace(_ range: Range<Int>, with bytes: String.UTF8View) {
            mended += document[copied..<range.lowerBound]
            mended += bytes
            copied = range.upperBound
        }
        var (place, isInText) = (0, false)
        while place < document.count {
            switch document[place] {
            case UInt8(ascii: "\""):
                isInText.toggle()
                place += 1
            case UInt8(ascii: "\\"):
                let (length, isLone) = escape(in: document, at: place)
                if isLone { replace(place + 2..<place + 6, with: "fffd".utf8) }
                place += length
            case UInt8(ascii: "-") where !isInText, UInt8(ascii: "0")...UInt8(ascii: "9") where !isInText:
                let end = document[place...].firstIndex { !isOfNumber($0) } ?? document.count
                if isTooLong(document[place..<end]) { replace(end..<end, with: ".0".utf8) }
                place = end
            default: place += 1
            }
        }
        return copied == 0 ? nil : mended + document[copied...]
    }

    private static func isOfNumber(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "+"), UInt8(ascii: "."),
            UInt8(ascii: "e"), UInt8(ascii: "E"):
            true
        default: false
        }
    }

    /// Whether a number is an integer that 64 bits cannot hold.
    private static func isTooLong(_ number: ArraySlice<UInt8>) -> Bool {
        guard number.count >= 19, number.dropFirst().allSatisfy({ 0x30...0x39 ~= $0 }) else { return false }
        let text = String(decoding: number, as: UTF8.self)
        return Int64(text) == nil && UInt64(text) == nil
    }

    /// The length of the escape at a place, and whether it is a lone surrogate.
    private static func escape(in document: [UInt8], at place: Int) -> (length: Int, isLone: Bool) {
        guard let unit = unit(in: document, at: place) else { return (2, false) }
        if 0xD800..<0xDC00 ~= unit, let next = self.unit(in: document, at: place + 6), 0xDC00..<0xE000 ~= next {
            return (12, false)
        }
        return (6, 0xD800..<0xE000 ~= unit)
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
