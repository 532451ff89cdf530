import ByteText
import CivilTime

/// Reads dates as the vendor's language does: complete and shortened ISO 8601, and the form of HTTP. A time without a zone is
/// UTC.
enum ScriptDate {
    /// Milliseconds since 1970; nil for a text that is not a date.
    static func parse(_ text: String) -> Int64? {
        if let known = iso(text) { return known }
        let bytes = Array(text.utf8)
        switch bytes.count {
        case 4: return iso(text + "-01-01")
        case 7: return iso(text + "-01")
        case 16...: return withoutSeconds(text) ?? atMidnight(text) ?? http(text)
        default: return nil
        }
    }

    private static func iso(_ text: String) -> Int64? {
        ISO8601.parse(text.utf8.span) ?? ISO8601.parse((text + "Z").utf8.span)
    }

    /// `2026-11-21T10:00`, with or without a zone.
    private static func withoutSeconds(_ text: String) -> Int64? {
        guard let end = text.utf8.index(text.startIndex, offsetBy: 16, limitedBy: text.endIndex) else { return nil }
        return end == text.endIndex || text.utf8[end] != UInt8(ascii: ":")
            ? iso("\(text[..<end]):00\(text[end...])") : nil
    }

    /// `2026-11-21T24:00:00Z`, the start of the next day.
    private static func atMidnight(_ text: String) -> Int64? {
        let (date, time) = (text.prefix(11), text.dropFirst(11))
        guard date.hasSuffix("T") || date.hasSuffix(" "), time.hasPrefix("24:00") else { return nil }
        let day = "\(date)00\(time.dropFirst(2))"
        return (iso(day) ?? withoutSeconds(day)).map { $0 + 86_400_000 }
    }

    private static let months = [
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ]

    /// `Sat, 21 Nov 2026 10:00:00 GMT`.
    private static func http(_ text: String) -> Int64? {
        var parts = text.split(separator: " ", omittingEmptySubsequences: false)[...]
        // The name of the day, which nothing compares with the date.
        if let name = parts.first, name.utf8.count == 4, name.hasSuffix(","),
            name.dropLast().allSatisfy({ $0.isASCII && $0.isLetter })
        {
            parts.removeFirst()
        }
        if parts.count == 5, ["GMT", "UTC", "Z"].contains(parts.last.map(String.init)) { parts.removeLast() }
        let words = Array(parts)
        guard words.count == 4, let month = months.firstIndex(of: words[1].lowercased()),
            (1...2).contains(words[0].utf8.count), words[2].utf8.count == 4, words[3].utf8.count == 8
        else { return nil }
        let (day, number) = (words[0].utf8.count == 1 ? "0\(words[0])" : "\(words[0])", month + 1)
        return iso("\(words[2])-\(number < 10 ? "0" : "")\(number)-\(day)T\(words[3])Z")
    }
}
