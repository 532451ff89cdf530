/// A day of the Gregorian calendar, extended to all years.
package struct CivilDate: Equatable, Sendable {
    package let daysSince1970: Int
    package let year: Int
    package let month: Int
    package let day: Int
    /// Sunday is 0.
    package var weekday: Int { ((daysSince1970 + 4) % 7 + 7) % 7 }

    /// Counts in eras of 400 years that begin on the first of March, so that a leap day is the last day of its year.
    package init(daysSince1970: Int) {
        self.daysSince1970 = daysSince1970
        let shifted = daysSince1970 + 719_468
        let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let monthFromMarch = (5 * dayOfYear + 2) / 153
        day = dayOfYear - (153 * monthFromMarch + 2) / 5 + 1
        month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
        year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
    }

    /// Makes a day; nil if the day does not exist.
    package init?(year: Int, month: Int, day: Int) {
        guard (1...9999).contains(year), (1...12).contains(month), (1...31).contains(day) else { return nil }
        let yearFromMarch = month <= 2 ? year - 1 : year
        let (era, yearOfEra) = (yearFromMarch / 400, yearFromMarch % 400)
        let dayOfYear = (153 * ((month + 9) % 12) + 2) / 5 + day - 1
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        self.init(daysSince1970: era * 146_097 + dayOfEra - 719_468)
        // The 31st of a shorter month would become a day of the next month.
        guard self.day == day else { return nil }
    }
}
