import CivilTime
import Domain
import Gateway
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
        case metric = 11
        case funnel = 12
        case comment = 13
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

    /// The id of the team. Each project has one team.
    static let team = text(.team, 1)

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
        guard let query = request.query else { throw ClaimFault(Refusal.malformedQuery.message) }
        self.request = query
    }

    /// The value of a parameter whose unknown values the vendor passes over; nil for a missing and for an empty value.
    subscript(name: String) -> String? { request[name].flatMap { $0.isEmpty ? nil : $0 } }

    /// The value of a condition; nil for a missing parameter. Refuses an empty value, which would be no condition.
    func condition(_ name: String) throws(ClaimFault) -> String? {
        guard let value = request[name] else { return nil }
        if value.isEmpty { throw ClaimFault("\(name) must not be empty") }
        return value
    }

    /// The value of a parameter that is true or false; nil for a missing parameter. Refuses other values.
    func flag(_ name: String) throws(ClaimFault) -> Bool? {
        switch request[name] {
        case nil: return nil
        case "true", "1": return true
        case "false", "0": return false
        default: throw ClaimFault("\(name) must be true or false")
        }
    }

    /// Reads a parameter that is true or false, and answers a mistake in the query.
    static func flag(_ name: String, of request: borrowing Request) throws(Rejection) -> Bool? {
        do throws(ClaimFault) {
            return try ReadQuery(request).flag(name)
        } catch {
            throw error.rejection()
        }
    }

    /// 1 to 200. 0, a missing value and a text that is no number stand for 50, as with the vendor.
    var limit: Int {
        guard let number = self["limit"].flatMap(Double.init), !number.isNaN, number != 0 else { return 50 }
        return Int(min(200, max(1, number)))
    }

    /// A moment: ISO 8601, or a distance from now (`1h`, `7d`).
    func moment(_ name: String, at now: Instant) throws(ClaimFault) -> Instant? {
        guard let text = request[name] else { return nil }
        if let milliseconds = ScriptDate.parse(text) { return Instant(milliseconds: milliseconds) }
        if let unit = text.last.flatMap({ ReadQuery.units[$0] }), text.utf8.count > 1,
            text.utf8.dropLast().allSatisfy({ $0 &- UInt8(ascii: "0") < 10 })
        {
            // A distance that is too large for a number begins before all rows.
            let (distance, overflow) = (Int64(text.dropLast()) ?? .max).multipliedReportingOverflow(by: unit)
            let isTooFar = overflow || distance > now.milliseconds - ReadQuery.firstMoment
            return isTooFar
                ? Instant(milliseconds: ReadQuery.firstMoment) : now.advanced(byMilliseconds: -distance)
        }
        throw ClaimFault(
            "Invalid time input: \"\(text)\". Use relative (e.g. 1h, 30m, 7d) or ISO 8601 format.")
    }

    private static let units: [Character: Int64] = [
        "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000,
    ]
    /// The first moment of the year 1, before which no event can happen.
    private static let firstMoment: Int64 = -62_135_596_800_000

    /// Whether the caller wants rows of development builds; nil for both kinds. An unknown mode is `production`, as with the
    /// vendor.
    var isDevelopment: Bool? {
        switch self["data_mode"] {
        case "development": true
        case "all": nil
        default: false
        }
    }

    /// The levels that a caller asks for, from a list with commas; nil for all levels.
    func levels() throws(ClaimFault) -> Set<String>? {
        let levels = (self["level"] ?? "").split(separator: ",").map { String($0).trimmed }.filter { !$0.isEmpty }
        let unknown = levels.filter { !ReadQuery.allLevels.contains($0) }
        guard unknown.isEmpty else {
            let allowed = ReadQuery.allLevels.joined(separator: ", ")
            throw ClaimFault("Unknown log level(s): \(unknown.joined(separator: ", ")). Allowed: \(allowed)")
        }
        return levels.isEmpty ? nil : Set(levels)
    }

    private static let allLevels = ["info", "debug", "warn", "error"]
}
