import DialectIDSync
import Domain
import TestKit
import Testing

@Suite("Dates of signatures")
struct SignedDateTests {
    /// 12 July 2017, 22:41:27 UTC.
    private static let moment = 1_499_899_287

    @Test(
        "are read as clients write them",
        arguments: [
            ("20170712T224127Z", moment, 0), ("20170712T224127.5Z", moment, 0),
            ("Wed, 12 Jul 2017 22:41:27 GMT", moment, 0), ("12 Jul 2017 22:41:27 UTC", moment, 0),
            ("  Thu,  12 jul 2017 22:41:27  gmt ", moment, 0), ("2017-07-12T22:41:27Z", moment, 0),
            ("2017-07-12T22:41:27.123Z", moment, 0), ("2017-07-12t22:41:27z", moment, 0),
            ("Thu, 13 Jul 2017 00:41:27 GMT+02:00", moment, 7200), ("Wed, 12 Jul 2017 14:41:27 GMT-8", moment, -28_800),
            ("Thu, 13 Jul 2017 04:11:27 +0530", moment, 19_800), ("2017-07-13T00:41:27+02:00", moment, 7200),
            ("20170712T124127-1000", moment, -36_000), ("Fri, 1 Mar 2024 00:00:00 GMT", 1_709_251_200, 0),
            ("Thu, 29 Feb 2024 23:59:60 GMT", 1_709_251_200, 0),
        ])
    func read(_ text: String, _ seconds: Int, _ offset: Int) throws {
        let date = try #require(SignedDate(text))
        #expect(date.offset == offset)
        #expect(date.reading - offset == seconds)
    }

    @Test(
        "are read without the zone, where its name says nothing",
        arguments: [
            "Thu, 13 Jul 2017 00:41:27 CET", "Thu, 13 Jul 2017 00:41:27", "Thu, 13 Jul 2017 00:41:27 MESZ",
            "Thu, 13 Jul 2017 00:41:27 Central European Time", "2017-07-13T00:41:27",
            "Thu, 13 Jul 2017 00:41:27 GMT+99",
        ])
    func unknownZones(_ text: String) throws {
        let date = try #require(SignedDate(text))
        #expect(date.offset == nil && date.reading == Self.moment + 7200)
        let now = Instant(milliseconds: Int64(Self.moment) * 1000)
        #expect(date.isWithin(minutes: 5, of: now))
        #expect(date.isWithin(minutes: 5, of: now.advanced(byMilliseconds: 12 * 3_600_000)))
        #expect(!date.isWithin(minutes: 5, of: now.advanced(byMilliseconds: 17 * 3_600_000)))
        #expect(!date.isWithin(minutes: 5, of: now.advanced(byMilliseconds: -13 * 3_600_000)))
    }

    @Test(
        "are not read where there is none",
        arguments: [
            "", " ", "d", "yesterday", "20170712", "T", "20170712T", "20170712T2241", "20171312T224127Z",
            "20170230T224127Z", "20170712T244127Z", "Wed, 12 Jul 2017", "Wed, 12 Foo 2017 22:41:27 GMT",
            "Wed, 32 Jul 2017 22:41:27 GMT", "Wed, 12 Jul 2017 22:61:27 GMT", "Wed, 12 Jul 99999999999 22:41:27 GMT",
            "1499899287", "2017-07-12 22:41:27", "Wed, -2 Jul 2017 22:41:27 GMT", "Wed, 30 Feb 2017 22:41:27 GMT",
        ])
    func nonsense(_ text: String) { #expect(SignedDate(text) == nil) }

    @Test("count for as long as the window is wide, on both sides")
    func window() throws {
        let date = try #require(SignedDate("20170712T224127Z"))
        for (seconds, isWithin) in [(0, true), (300, true), (-300, true), (301, false), (-301, false)] {
            let now = Instant(milliseconds: Int64(Self.moment + seconds) * 1000)
            #expect(date.isWithin(minutes: 5, of: now) == isWithin, "\(seconds)")
        }
    }
}
