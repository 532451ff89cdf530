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

    private static let days: [StaticString] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
    private static let months: [StaticString] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]
}
