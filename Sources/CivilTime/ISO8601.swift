import ByteText

/// The date of JSON documents and logs: `2021-02-03T14:32:03.076Z`.
package enum ISO8601 {
    /// Writes a time in milliseconds since 1970, in UTC with three decimals. Every number has a text.
    package static func format(millisecondsSince1970 milliseconds: Int64) -> [UInt8] {
        let seconds = milliseconds.floorDivided(by: 1000)
        let time = CivilTime(secondsSince1970: Int(seconds))
        var text: [UInt8] = []
        text.reserveCapacity(24)
        text.append(decimal: time.date.year, digits: 4)
        text.append("-")
        text.append(decimal: time.date.month, digits: 2)
        text.append("-")
        text.append(decimal: time.date.day, digits: 2)
        text.append("T")
        text.append(clockOf: time)
        text.append(".")
        // The product of the seconds can be too small for 64 bits.
        text.append(decimal: Int((milliseconds % 1000 + 1000) % 1000), digits: 3)
        text.append("Z")
        return text
    }

    /// Reads a date, or a date and a time with its zone: `2021-02-03`, `2021-02-03T14:32:03Z`,
    /// `2021-02-03T14:32:03.076+01:00`. Answers milliseconds since 1970; nil for other texts. Digits below a millisecond are
    /// cut off.
    ///
    /// - Parameters:
    ///   - text: the date.
    ///   - assumesUTC: also reads the forms of databases: a time without a zone, which is UTC then, and a space before the zone
    ///     or before `UTC`.
    package static func parse(_ text: borrowing Span<UInt8>, assumesUTC: Bool = false) -> Int64? {
        guard text.count >= 10, let year = digits(text, 0..<4), text[4] == UInt8(ascii: "-"),
            let month = digits(text, 5..<7), text[7] == UInt8(ascii: "-"), let day = digits(text, 8..<10),
            let date = CivilDate(year: year, month: month, day: day)
        else { return nil }
        let midnight = Int64(date.daysSince1970) * 86_400_000
        if text.count == 10 { return midnight }
        guard text.count >= (assumesUTC ? 19 : 20),
            text[10] | 0x20 == UInt8(ascii: "t") || text[10] == UInt8(ascii: " "),
            let hour = digits(text, 11..<13), text[13] == UInt8(ascii: ":"), let minute = digits(text, 14..<16),
            text[16] == UInt8(ascii: ":"), let second = digits(text, 17..<19), hour < 24, minute < 60, second <= 60
        else { return nil }
        var milliseconds: Int64 = 0
        var zone = 19
        if zone < text.count, text[zone] == UInt8(ascii: ".") || text[zone] == UInt8(ascii: ",") {
            zone += 1
            var unit: Int64 = 100
            while zone < text.count, let digit = digits(text, zone..<zone + 1) {
                milliseconds += Int64(digit) * unit
                unit /= 10
                zone += 1
            }
            guard zone > 20 else { return nil }
        }
        if assumesUTC, zone < text.count, text[zone] == ASCII.space { zone += 1 }
        let isUTC = assumesUTC && (zone == text.count || text.extracting(zone...).equals("UTC"))
        guard let offset = isUTC ? 0 : offset(text, from: zone) else { return nil }
        let seconds = Int64(hour * 3600 + minute * 60 + second) - offset
        return midnight + seconds * 1000 + milliseconds
    }

    /// A zone, in seconds east of Greenwich: `Z`, `+01:00`, `+0100`, `+01`.
    private static func offset(_ text: borrowing Span<UInt8>, from start: Int) -> Int64? {
        guard start < text.count else { return nil }
        if text[start] | 0x20 == UInt8(ascii: "z") { return start + 1 == text.count ? 0 : nil }
        let sign: Int64
        switch text[start] {
        case UInt8(ascii: "+"): sign = 1
        case UInt8(ascii: "-"): sign = -1
        default: return nil
        }
        guard text.count >= start + 3, let hours = digits(text, start + 1..<start + 3), hours < 24 else { return nil }
        if text.count == start + 3 { return sign * Int64(hours) * 3600 }
        let colon = text[start + 3] == UInt8(ascii: ":") ? 1 : 0
        let first = start + 3 + colon
        guard text.count == first + 2, let minutes = digits(text, first..<first + 2), minutes < 60 else { return nil }
        return sign * (Int64(hours) * 3600 + Int64(minutes) * 60)
    }

    private static func digits(_ text: borrowing Span<UInt8>, _ range: Range<Int>) -> Int? {
        var value = 0
        for index in range {
            let digit = text[index] &- UInt8(ascii: "0")
            guard digit < 10 else { return nil }
            value = value * 10 + Int(digit)
        }
        return value
    }
}
