import Domain
import Engine
import Testing

/// The lines of the journal for calls that can come very often (docs/threat-model.md, "Overload").
@Suite("The calls that the journal notes once a day")
struct DailyCallsTests {
    private static let dayMilliseconds: Int64 = 86_400_000
    /// The last millisecond of a day.
    private static let evening = Instant(milliseconds: 18_000 * dayMilliseconds - 1)
    private static let midnight = Instant(milliseconds: 18_000 * dayMilliseconds)

    private static func refusal(_ code: String, about person: Int64?) -> Refusal {
        var refusal = Refusal(.forbidden, code, "No.")
        refusal.about = person.map(PersonID.init)
        return refusal
    }

    @Test("are one line for each key, person and reason")
    func once() {
        var daily = DailyCalls()
        let different: [(code: String, person: Int64?, key: Int64?)] = [
            ("missing", 1, 1), ("expired", 1, 1), ("missing", 2, 1), ("missing", nil, 1), ("missing", 1, 2),
            ("missing", 1, nil),
        ]
        for isFirst in [true, false, false] {
            for (code, person, key) in different {
                let refusal = DailyCallsTests.refusal(code, about: person)
                let isNoted = daily.note(refusal, key.map(KeyID.init), at: DailyCallsTests.evening)
                #expect(isNoted == isFirst, "\(code) \(String(describing: person)) \(String(describing: key))")
            }
        }
    }

    @Test("are noted again on the next day, and after a clock that was a day ahead")
    func nextDay() {
        var daily = DailyCalls()
        let refusal = DailyCallsTests.refusal("missing", about: 1)
        let key = KeyID(rawValue: 1)
        let moments: [(Instant, isNoted: Bool)] = [
            (DailyCallsTests.evening, true), (DailyCallsTests.evening, false), (DailyCallsTests.midnight, true),
            (DailyCallsTests.midnight, false), (DailyCallsTests.evening, true), (DailyCallsTests.evening, false),
        ]
        for (place, (moment, isNoted)) in moments.enumerated() {
            #expect(daily.note(refusal, key, at: moment) == isNoted, "call \(place)")
        }
    }

    @Test("are at most 65,536 in a day, and the next day begins at none")
    func limit() {
        var daily = DailyCalls()
        #expect(DailyCalls.notedAtMost == 65_536)
        func noted(_ people: Range<Int64>, at moment: Instant) -> Int {
            people.count { daily.note(DailyCallsTests.refusal("missing", about: $0), nil, at: moment) }
        }
        let all = Int64(DailyCalls.notedAtMost)
        #expect(noted(0..<all, at: DailyCallsTests.evening) == DailyCalls.notedAtMost)
        #expect(noted(all..<all + 100, at: DailyCallsTests.evening) == 0)
        #expect(noted(all..<all + 100, at: DailyCallsTests.midnight) == 100)
        #expect(noted(0..<all, at: DailyCallsTests.midnight) == DailyCalls.notedAtMost - 100)
    }
}
