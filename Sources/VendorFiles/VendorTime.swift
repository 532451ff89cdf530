import ByteText
import CivilTime
import JSON

/// The times of vendors: ISO 8601, the forms of databases, and numbers since 1970.
enum VendorTime {
    enum Unit: String {
        case milliseconds = "ms"
        case seconds = "s"
        /// Milliseconds from 10^11 on, and seconds below: the limit is the year 5138 in seconds, and 1973 in milliseconds.
        case either
    }

    /// The first and the last moment that a date of four digits can name.
    private static let range: ClosedRange<Int64> = -62_135_596_800_000...253_402_300_799_999

    /// Reads a time in a text, in milliseconds since 1970; nil for a text that is not a time.
    static func read(_ text: Bytes, _ unit: Unit = .either) -> Int64? {
        if let number = number(text) { return scale(number.whole, number.thousandths, unit) }
        guard let moment = ISO8601.parse(text.span, assumesUTC: true), range.contains(moment) else { return nil }
        return moment
    }

    /// Reads a time in JSON: a number, or a text. Nil for null, and for a value that is not a time.
    static func read(_ value: JSONValue, _ unit: Unit = .either) -> Int64? {
        switch value.kind {
        case .integer: return (try? value.integer(at: "")).flatMap { scale($0, 0, unit) }
        case .double:
            guard let number = try? value.number(at: ""), number.magnitude < 1e15 else { return nil }
            let whole = number.rounded(.down)
            return scale(Int64(whole), Int64(((number - whole) * 1000).rounded()), unit)
        case .string: return (try? value.text(at: "")).flatMap { read(ArraySlice($0.copied), unit) }
        case .null, .bool, .unsigned, .array, .object: return nil
        }
    }

    private static func scale(_ whole: Int64, _ thousandths: Int64, _ unit: Unit) -> Int64? {
        let isSeconds = unit == .seconds || unit == .either && whole.magnitude < 100_000_000_000
        if !isSeconds { return range.contains(whole) ? whole : nil }
        let (product, overflows) = whole.multipliedReportingOverflow(by: 1000)
        guard !overflows, range.contains(product) else { return nil }
        return product + thousandths
    }

    /// Digits, with a fraction.
    private static func number(_ text: Bytes) -> (whole: Int64, thousandths: Int64)? {
        guard let first = text.first, text.count <= 30 else { return nil }
        let isNegative = first == UInt8(ascii: "-")
        var (whole, thousandths) = (Int64(0), Int64(0))
        var digits = 0
        // The value of the next digit of the fraction; nil before the point.
        var unit: Int64?
        for byte in isNegative ? text.dropFirst() : text {
            if byte == UInt8(ascii: "."), unit == nil, digits > 0 {
                unit = 100
                continue
            }
            let digit = Int64(byte) - Int64(UInt8(ascii: "0"))
            guard (0..<10).contains(digit) else { return nil }
            if let value = unit {
                thousandths += digit * value
                unit = value / 10
            } else {
                digits += 1
                guard digits <= 18 else { return nil }
                whole = whole * 10 + digit
            }
        }
        guard digits > 0 else { return nil }
        return isNegative ? (-whole, -thousandths) : (whole, thousandths)
    }
}
