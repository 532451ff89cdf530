import ByteText

/// A second of a day, in UTC.
package struct CivilTime: Equatable, Sendable {
    package let date: CivilDate
    package let hour: Int
    package let minute: Int
    package let second: Int

    package init(secondsSince1970 seconds: Int) {
        let day = seconds.floorDivided(by: 86_400)
        let secondOfDay = seconds - day * 86_400
        date = CivilDate(daysSince1970: day)
        hour = secondOfDay / 3600
        minute = secondOfDay / 60 % 60
        second = secondOfDay % 60
    }

    /// Makes a second; nil if the second does not exist; 60 is a leap second.
    package init?(_ date: CivilDate, hour: Int, minute: Int, second: Int) {
        guard (0..<24).contains(hour), (0..<60).contains(minute), (0...60).contains(second) else { return nil }
        self.date = date
        self.hour = hour
        self.minute = minute
        self.second = second
    }

    package var secondsSince1970: Int { date.daysSince1970 * 86_400 + hour * 3600 + minute * 60 + second }
}

extension [UInt8] {
    /// Appends `14:32:03`.
    mutating func append(clockOf time: CivilTime) {
        append(decimal: time.hour, digits: 2)
        append(":")
        append(decimal: time.minute, digits: 2)
        append(":")
        append(decimal: time.second, digits: 2)
    }
}

extension BinaryInteger {
    /// The quotient rounded down, so that times before 1970 get the right day.
    func floorDivided(by divisor: Self) -> Self {
        let (quotient, remainder) = quotientAndRemainder(dividingBy: divisor)
        return remainder < 0 ? quotient - 1 : quotient
    }
}
