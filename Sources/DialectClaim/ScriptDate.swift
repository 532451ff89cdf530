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
        guard let match = text.wholeMatch(of: /(\d{4}-\d{2}-\d{2}[T ])24(:00(?::00(?:\.0+)?)?)(.*)/) else { return nil }
        let day = "\(match.1)00\(match.2)\(match.3)"
        return (iso(day) ?? withoutSeconds(day)).map { $0 + 86_400_000 }
    }

    private static let months = [
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ]

    /// `Sat, 21 Nov 2026 10:00:00 GMT`.
    private static func http(_ text: String) -> Int64? {
        guard
            let match = text.wholeMatch(
                of: /(?:[A-Za-z]{3}, )?(\d{1,2}) ([A-Za-z]{3}) (\d{4}) (\d{2}:\d{2}:\d{2})(?: (?:GMT|UTC|Z))?/),
            let month = months.firstIndex(of: match.2.lowercased())
        else { return nil }
        let (day, number) = (match.1.count == 1 ? "0\(match.1)" : "\(match.1)", month + 1)
        return iso("\(match.3)-\(number < 10 ? "0" : "")\(number)-\(day)T\(match.4)Z")
    }
}
