import ByteText

/// The date of JSON documents and logs: `2021-02-03T14:32:03.076Z`.
package enum ISO8601 {
    /// Writes a moment, given in milliseconds since 1970, in UTC with three decimals.
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
        text.append(decimal: Int(milliseconds - seconds * 1000), digits: 3)
        text.append("Z")
        return text
    }
}
