import CivilTime
package import Domain

/// The date of a signature, as four kinds of clients write it (spec/idsync.md 1.2):
///
///     20170712T224127Z      Wed, 12 Jul 2017 22:41:27 GMT
///     2017-07-12T22:41:27Z  Wed, 12 Jul 2017 22:41:27 CET, … GMT+02:00, … +0200
///
/// The reader ignores a wrong weekday and fractions of a second.
package struct SignedDate: Equatable {
    /// The reading of the client's clock and calendar, in seconds since 1970 as if in UTC.
    package let reading: Int
    /// The seconds by which the client's zone is ahead of UTC; nil for a name that may mean any zone.
    package let offset: Int?

    /// The widest distance of a zone from UTC.
    private static let widestOffset = 14 * 3600

    package init?(_ text: String) {
        let words = text.split { " \t,".contains($0) }
        let parts: (date: CivilDate, clock: Substring, zone: Substring)?
        if words.count == 1, let word = words.first {
            parts = SignedDate.iso(word)
        } else {
            parts = SignedDate.written(words)
        }
        guard let parts, let time = SignedDate.clock(parts.clock, on: parts.date) else { return nil }
        reading = time.secondsSince1970
        offset = SignedDate.offset(parts.zone)
    }

    /// Whether the moment is within this distance from now; for an unknown zone, whether some zone makes that possible.
    package func isWithin(minutes: Int, of now: Instant) -> Bool {
        let now = Int(now.milliseconds / 1000)
        let offsets = offset.map { $0...$0 } ?? -SignedDate.widestOffset...SignedDate.widestOffset
        let (earliest, latest) = (reading - offsets.upperBound, reading - offsets.lowerBound)
        return latest >= now - minutes * 60 && earliest <= now + minutes * 60
    }

    /// `20170712T224127Z` or `2017-07-12T22:41:27.123+02:00`.
    private static func iso(_ word: Substring) -> (date: CivilDate, clock: Substring, zone: Substring)? {
        guard let middle = word.firstIndex(where: { "Tt".contains($0) }) else { return nil }
        let day = word[..<middle].filter { $0 != "-" }
        guard day.utf8.count == 8, let number = number(day[...]),
            let date = CivilDate(year: number / 10_000, month: number / 100 % 100, day: number % 100)
        else { return nil }
        let rest = word[word.index(after: middle)...]
        let end = rest.firstIndex { !"0123456789:.".contains($0) } ?? rest.endIndex
        return (date, rest[..<end], rest[end...])
    }

    /// `12 Jul 2017 22:41:27 GMT`, with or without the weekday before it.
    private static func written(_ words: [Substring]) -> (date: CivilDate, clock: Substring, zone: Substring)? {
        let words = words.first?.first?.isNumber == true ? words[...] : words.dropFirst()
        let fields = Array(words)
        guard fields.count >= 4, let day = number(fields[0]), let year = number(fields[2]),
            let month = months.firstIndex(of: fields[1].prefix(3).lowercased()),
            let date = CivilDate(year: year, month: month + 1, day: day)
        else { return nil }
        // A zone of several words has a name without a meaning for the reader.
        return (date, fields[3], fields.count == 5 ? fields[4] : "")
    }

    private static let months = [
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ]

    /// `22:41:27` or `224127`, with or without fractions.
    private static func clock(_ text: Substring, on date: CivilDate) -> CivilTime? {
        let whole = text.prefix { $0 != "." }.filter { $0 != ":" }
        guard whole.utf8.count == 6, let number = number(whole[...]) else { return nil }
        return CivilTime(date, hour: number / 10_000, minute: number / 100 % 100, second: number % 100)
    }

    /// `Z`, `GMT`, `UTC`, `+0200`, `GMT+02:00`, `GMT+2`.
    private static func offset(_ zone: Substring) -> Int? {
        var rest = zone.uppercased()[...]
        for name in ["GMT", "UTC", "UT", "Z"] where rest.hasPrefix(name) {
            rest = rest.dropFirst(name.count)
            if rest.isEmpty { return 0 }
            break
        }
        guard let sign = rest.first, "+-".contains(sign) else { return nil }
        let digits = rest.dropFirst().filter { $0 != ":" }
        guard let number = number(digits[...]) else { return nil }
        let (hours, minutes) = digits.utf8.count <= 2 ? (number, 0) : (number / 100, number % 100)
        let seconds = hours * 3600 + minutes * 60
        guard minutes < 60, seconds <= widestOffset else { return nil }
        return sign == "-" ? -seconds : seconds
    }

    /// At most eight digits, and no other character.
    private static func number(_ text: Substring) -> Int? {
        guard (1...8).contains(text.utf8.count), text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
            return nil
        }
        return Int(text)
    }
}
