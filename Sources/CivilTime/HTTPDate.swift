import ByteText

/// The date of HTTP (RFC 9110 5.6.7): `Sun, 06 Nov 1994 08:49:37 GMT`.
package enum HTTPDate {
    /// Writes a time in whole seconds since 1970.
    package static func format(secondsSince1970 seconds: Int) -> [UInt8] {
        let time = CivilTime(secondsSince1970: seconds)
        var text: [UInt8] = []
        text.append(days[time.date.weekday])
        text.append(", ")
        text.append(decimal: time.date.day, digits: 2)
        text.append(" ")
        text.append(months[time.date.month - 1])
        text.append(" ")
        text.append(decimal: time.date.year, digits: 4)
        text.append(" ")
        text.append(clockOf: time)
        text.append(" GMT")
        return text
    }

    /// Reads a date in the form that ``format(secondsSince1970:)`` writes; nil for another form.
    package static func seconds(_ text: String) -> Int? {
        let parts = text.split(separator: " ")
        guard parts.count == 6, parts[5] == "GMT", let day = Int(parts[1]), let year = Int(parts[3]),
            let month = months.firstIndex(where: { "\($0)" == parts[2] }), (1...31).contains(day),
            (1970...9999).contains(year)
        else { return nil }
        let clock = parts[4].split(separator: ":").compactMap { Int($0) }
        guard clock.count == 3, (0...23).contains(clock[0]), (0...59).contains(clock[1]), (0...60).contains(clock[2])
        else { return nil }
        // The days since 1970: years begin in March, so that the leap day is the last one.
        let (late, years) = (month < 2 ? 1 : 0, year - (month < 2 ? 1 : 0))
        let days =
            years * 365 + years / 4 - years / 100 + years / 400 + (153 * (month + 12 * late - 2) + 2) / 5 + day
            - 719_469
        return days * 86_400 + clock[0] * 3600 + clock[1] * 60 + clock[2]
    }

    private static let days: [StaticString] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
    private static let months: [StaticString] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]
}
