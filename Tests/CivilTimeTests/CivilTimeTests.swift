import CivilTime
import Foundation
import TestKit
import Testing

@Suite("Dates")
struct CivilTimeTests {
    @Test("are written as HTTP writes them")
    func http() {
        #expect(text(HTTPDate.format(secondsSince1970: 784_111_777)) == "Sun, 06 Nov 1994 08:49:37 GMT")
        #expect(text(HTTPDate.format(secondsSince1970: 0)) == "Thu, 01 Jan 1970 00:00:00 GMT")
        #expect(text(HTTPDate.format(secondsSince1970: 951_782_400)) == "Tue, 29 Feb 2000 00:00:00 GMT")
    }

    @Test("are written as ISO 8601 writes them, with milliseconds")
    func iso() {
        #expect(text(ISO8601.format(millisecondsSince1970: 1_612_362_723_076)) == "2021-02-03T14:32:03.076Z")
        #expect(text(ISO8601.format(millisecondsSince1970: -1)) == "1969-12-31T23:59:59.999Z")
        #expect(text(ISO8601.format(millisecondsSince1970: .min)) == "-292275055-05-16T16:47:04.192Z")
        #expect(text(ISO8601.format(millisecondsSince1970: .max)) == "292278994-08-17T07:12:55.807Z")
    }

    @Test("agree with Foundation's calendar over a thousand years")
    func calendar() throws {
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = try #require(TimeZone(identifier: "UTC"))
        var generator = SeededGenerator(seed: 7)
        for _ in 0..<2000 {
            let seconds = Int.random(in: -12_000_000_000...20_000_000_000, using: &generator)
            let parts = calendar.dateComponents(
                [.year, .month, .day, .hour, .minute, .second, .weekday],
                from: Date(timeIntervalSince1970: TimeInterval(seconds)))
            let time = CivilTime(secondsSince1970: seconds)
            #expect(
                [time.date.year, time.date.month, time.date.day, time.hour, time.minute, time.second]
                    == [parts.year, parts.month, parts.day, parts.hour, parts.minute, parts.second])
            #expect(time.date.weekday + 1 == parts.weekday)
            let date = try #require(
                CivilDate(year: time.date.year, month: time.date.month, day: time.date.day))
            let same = CivilTime(date, hour: time.hour, minute: time.minute, second: time.second)
            #expect(date == time.date && same?.secondsSince1970 == seconds)
        }
    }

    @Test("are only days and seconds that there are")
    func nonsense() {
        for (year, month, day) in [
            (2023, 2, 29), (1900, 2, 29), (2024, 4, 31), (2024, 0, 1), (2024, 13, 1), (2024, 1, 0), (2024, 1, 32),
            (0, 1, 1),
            (10_000, 1, 1),
        ] {
            #expect(CivilDate(year: year, month: month, day: day) == nil, "\(year)-\(month)-\(day)")
        }
        let day = CivilDate(daysSince1970: 0)
        for (hour, minute, second) in [(24, 0, 0), (-1, 0, 0), (0, 60, 0), (0, -1, 0), (0, 0, 61), (0, 0, -1)] {
            #expect(CivilTime(day, hour: hour, minute: minute, second: second) == nil)
        }
    }

    @Test("of databases are read with UTC assumed, and only then")
    func databases() {
        let moment = ISO8601.parse("2021-02-03T14:32:03.076Z".utf8.span)
        #expect(moment == 1_612_362_723_076)
        for date in [
            "2021-02-03 14:32:03.076", "2021-02-03T14:32:03.076", "2021-02-03 14:32:03.076 UTC",
            "2021-02-03 15:32:03.076 +0100",
        ] {
            #expect(ISO8601.parse(date.utf8.span, assumesUTC: true) == moment, "\(date)")
            #expect(ISO8601.parse(date.utf8.span) == nil, "\(date)")
        }
        for date in ["2021-02-03 14:32:03 ", "2021-02-03 14:32:03.", "2021-02-03 14:32", "2021-02-03 14:32:03 CET"] {
            let read = ISO8601.parse(date.utf8.span, assumesUTC: true)
            #expect(read == (date.hasSuffix(" ") ? 1_612_362_723_000 : nil), "\(date)")
        }
        #expect(ISO8601.parse("2021-02-03 14:32:03".utf8.span, assumesUTC: true) == 1_612_362_723_000)
    }

    private func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

    @Test(
        "a date of HTTP is read as it is written",
        arguments: [0, 951_782_400, 1_762_457_821, 4_107_542_399, 253_402_300_799])
    func httpDates(_ seconds: Int) {
        let text = String(decoding: HTTPDate.format(secondsSince1970: seconds), as: UTF8.self)
        #expect(HTTPDate.seconds(text) == seconds, "\(text)")
    }

    @Test(
        "another form of a date is none",
        arguments: [
            "", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994", "Sun, 06 Nov 1994 08:49:37 CET",
            "Sun, 06 Nov 1994 24:00:00 GMT", "Sun, 99 Nov 1994 08:49:37 GMT", "Sun, 06 Mai 1994 08:49:37 GMT",
        ])
    func otherDates(_ text: String) { #expect(HTTPDate.seconds(text) == nil) }
}
