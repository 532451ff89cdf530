import CivilTime
import Domain
import HTTPMessage
import HTTPServer
import JSON

/// The ids in this dialect's answers: UUIDs, made from the store's numbers.
enum ClaimID {
    /// The kind of thing that an id names.
    enum Subject: UInt16 {
        case project = 1
        case app = 2
        case key = 3
        case user = 4
        case row = 5
        case team = 6
        case feedback = 7
        case attachment = 8
        case questionnaire = 9
        case response = 10
        case issue = 30
    }

    /// 32 bits: `onym` | 16 bits: the subject | version 8 | variant 10 | 62 bits: the number.
    static func text(_ subject: Subject, _ number: Int64) -> String {
        let digits =
            hexadecimal(0x6F6E_796D_0000_8000 | UInt64(subject.rawValue) << 16, 16)
            + hexadecimal(1 << 63 | UInt64(bitPattern: number) & (1 << 62 - 1), 16)
        let ends = [0, 8, 12, 16, 20, 32]
        return zip(ends, ends.dropFirst()).map { String(digits.dropFirst($0).prefix($1 - $0)) }.joined(separator: "-")
    }

    /// The number in an id of a subject; nil for another text.
    static func number(_ subject: Subject, _ text: String) -> Int64? {
        let digits = text.filter { $0 != "-" }
        guard text.utf8.count == 36, digits.utf8.count == 32, let low = UInt64(digits.suffix(16), radix: 16) else {
            return nil
        }
        let number = Int64(bitPattern: low & (1 << 62 - 1))
        return self.text(subject, number) == text.lowercased() ? number : nil
    }

    private static func hexadecimal(_ value: UInt64, _ digits: Int) -> String {
        let text = String(value, radix: 16)
        return String(repeating: "0", count: digits - text.count) + text
    }
}

extension JSONWriter {
    /// Writes a moment in the form of this dialect: ISO 8601, in UTC.
    mutating func moment(_ moment: Instant) {
        plainString(ISO8601.format(millisecondsSince1970: moment.milliseconds))
    }

    mutating func text(_ value: String?) {
        if let value { string(value) } else { null() }
    }
}

/// The parameters of a list, from the query.
struct ReadQuery {
    private let request: Query

    init(_ request: borrowing Request) throws(ClaimFault) {
        guard let query = request.query else { throw ClaimFault("the query is malformed") }
        self.request = query
    }

    subscript(name: String) -> String? { request[name].flatMap { $0.isEmpty ? nil : $0 } }

    /// 1 to 200, and 50 by default. A value outside this range becomes the nearest limit, as with the vendor.
    var limit: Int { min(200, max(1, self["limit"].flatMap(Int.init) ?? 50)) }

    /// A moment: ISO 8601, or a distance from now (`1h`, `7d`).
    func moment(_ name: String, at now: Instant) throws(ClaimFault) -> Instant? {
        guard let text = self[name] else { return nil }
        if let milliseconds = ISO8601.parse(text.utf8.span) ?? ISO8601.parse((text + "Z").utf8.span) {
            return Instant(milliseconds: milliseconds)
        }
        let units: [Character: Int64] = ["s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000]
        if let unit = text.last.flatMap({ units[$0] }), let count = Int64(text.dropLast()),
            (0...1_000_000).contains(count)
        {
            return now.advanced(byMilliseconds: -count * unit)
        }
        throw ClaimFault("\(name) must be an ISO 8601 date, or how long ago, as in 1h or 7d")
    }

    /// Whether the caller wants rows of development builds; nil for both kinds.
    func isDevelopment() throws(ClaimFault) -> Bool? {
        switch self["data_mode"] {
        case nil, "production": false
        case "development": true
        case "all": nil
        default: throw ClaimFault("data_mode must be production, development or all")
        }
    }
}
