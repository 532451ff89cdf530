import DialectNative
import Domain
import TestKit
import Testing

@Suite("What happened on each day")
struct DayTests {
    @Test("is counted from the journal, for each day in UTC", arguments: StoreKind.allCases)
    func days(_ kind: StoreKind) throws {
        let clock = ManualClock()
        let client = NativeClient(try TestServer(kind) { $0.clock = { clock.now } })
        let ada = try client.identify(#"{"customerid":"ada","email":"ada@example.com"}"#)
        let bob = try client.identify(#"{"customerid":"bob"}"#)
        clock.advance(milliseconds: 86_400_000)
        let merge = try client.merge(bob, into: ada)
        #expect(try client.post("/onym/v1/merges/\(merge)/undo").status == 200)
        clock.advance(milliseconds: 86_400_000)
        #expect(try client.call("DELETE", "/onym/v1/people/\(bob)").status == 200)

        let answer = try client.get("/onym/v1/stats/days?days=3")
        #expect(answer.status == 200 && answer["complete"] as? Bool == true, "\(answer)")
        let days = answer.list("days")
        #expect(days.map { $0["day"] as? String } == ["2027-01-15", "2027-01-16", "2027-01-17"], "\(answer)")
        #expect(answer.text("since") == "2027-01-15T00:00:00.000Z")
        func number(_ name: String) -> [Int?] { days.map { $0[name] as? Int } }
        func group(_ name: String, _ day: Int) -> [String: Int] { days[day][name] as? [String: Int] ?? [:] }
        #expect(number("people_made").dropFirst() == [0, 0] && number("erased") == [0, 0, 1], "\(answer)")
        #expect(number("undone") == [0, 1, 0] && group("merged", 1) == ["administrator": 1], "\(answer)")
        #expect(group("merged", 0).isEmpty && group("calls", 1) == ["merge": 1, "undo_merge": 1], "\(answer)")
        // The present day alone, and a day on which nothing happened.
        #expect(try client.get("/onym/v1/stats/days?days=1").list("days").count == 1)
        clock.advance(milliseconds: 86_400_000)
        let quiet = try client.get("/onym/v1/stats/days?days=1")
        #expect(quiet["complete"] as? Bool == true && quiet.list("days").first?["erased"] as? Int == 0, "\(quiet)")
        #expect(try client.get("/onym/v1/stats/days").list("days").count == 30)
    }

    @Test(
        "is counted no further than the limit of calls, and the answer says since when", arguments: StoreKind.allCases)
    func limit(_ kind: StoreKind) throws {
        let clock = ManualClock()
        let client = NativeClient(try TestServer(kind) { $0.clock = { clock.now } })
        for name in ["a", "b", "c"] {
            clock.advance(milliseconds: 1000)
            try client.identify(#"{"customerid":"\#(name)"}"#)
        }
        let part = try client.get("/onym/v1/stats/days?calls=2")
        #expect(part["complete"] as? Bool == false && part.number("read") == 2, "\(part)")
        #expect(part.list("days").last?["people_made"] as? Int == 2, "\(part)")
        #expect(part.text("since") == "2027-01-15T08:00:02.000Z", "\(part)")
        let whole = try client.get("/onym/v1/stats/days")
        #expect(whole["complete"] as? Bool == true && whole.list("days").last?["people_made"] as? Int == 3, "\(whole)")
        for query in ["days=0", "days=91", "days=x", "calls=0", "calls=100001"] {
            #expect(try client.get("/onym/v1/stats/days?\(query)").status == 400, "\(query)")
        }
    }

    @Test(
        "has calls from a clock that was ahead on the day on which the clock went back", arguments: StoreKind.allCases)
    func clockSetBack(_ kind: StoreKind) throws {
        let clock = ManualClock()
        let client = NativeClient(try TestServer(kind) { $0.clock = { clock.now } })
        let day: Int64 = 86_400_000
        try client.identify(#"{"customerid":"a"}"#)
        clock.advance(milliseconds: 41 * day)
        try client.identify(#"{"customerid":"ahead"}"#)
        clock.advance(milliseconds: -40 * day)
        try client.identify(#"{"customerid":"b"}"#)
        clock.advance(milliseconds: day)
        try client.identify(#"{"customerid":"c"}"#)
        func made(_ query: String) throws -> [Int?] {
            let answer = try client.get("/onym/v1/stats/days?\(query)")
            #expect(answer["complete"] as? Bool == true, "\(answer)")
            return answer.list("days").map { $0["people_made"] as? Int }
        }
        #expect(try made("days=3") == [1, 2, 1])
        #expect(try made("days=1") == [1])
        clock.advance(milliseconds: day)
        #expect(try made("days=4") == [1, 2, 1, 0], "the count of a day stays the same")
        #expect(try made("days=1") == [0])
    }

    @Test("has no call of another project")
    func projects() throws {
        let client = try NativeClient(.memory)
        #expect(try client.post("/onym/v1/projects", #"{"name":"Other"}"#).status == 201)
        try client.identify(#"{"customerid":"a"}"#)
        let day = try #require(client.get("/onym/v1/stats/days?days=1").list("days").first)
        let calls = day["calls"] as? [String: Int] ?? [:]
        #expect(calls["identify"] == 1 && day["people_made"] as? Int == 1, "\(day)")
    }
}

/// Counts that were kept from one question to the next, beside counts of the whole journal.
@Suite("Days of a journal, block by block")
struct JournalDaysTests {
    private static let day: Int64 = 86_400_000

    private func ask(
        _ fixture: StoreFixture, days: Int = 30, callsAtMost: Int = .max, block: Int64
    ) throws -> JournalDays {
        var found = JournalDays(
            days, until: fixture.clock.now, in: World.project, callsAtMost: callsAtMost, block: block)
        try fixture.store.read { snapshot throws(StoreFault) in
            for _ in 0..<10_000 where try found.read(snapshot) { return }
        }
        return found
    }

    @Test("are the same as of the whole journal", arguments: StoreKind.allCases, 1...Soak.factor * 6)
    func blocks(_ kind: StoreKind, _ seed: Int) throws {
        let fixture = try StoreFixture(kind)
        var generator = SeededGenerator(seed: UInt64(seed))
        for round in 0..<12 {
            for number in 0..<Int.random(in: 0..<20, using: &generator) {
                fixture.clock.advance(milliseconds: Int64.random(in: 0..<JournalDaysTests.day / 8, using: &generator))
                if Int.random(in: 0..<40, using: &generator) == 0 {
                    fixture.clock.advance(milliseconds: -3 * JournalDaysTests.day)
                }
                let person = try fixture.identify([.customerID: "c\(round)-\(number)", .email: "e\(number)"]).person
                if number % 5 == 4 { _ = try fixture.process(ErasePerson(person)) }
            }
            for days in [1, 3, 30] {
                let whole = try ask(fixture, days: days, block: .max)
                let found = try ask(fixture, days: days, block: 7)
                #expect(found.counts == whole.counts, "seed \(seed), round \(round), \(days) days")
                #expect(found.since == whole.since && found.isComplete && whole.isComplete)
            }
        }
    }

    @Test("continue where the last question ended", arguments: StoreKind.allCases.filter { $0 != .memory })
    func limits(_ kind: StoreKind) throws {
        let fixture = try StoreFixture(kind)
        for number in 0..<60 { _ = try fixture.identify([.customerID: "c\(number)"]) }
        var counted: [Int] = []
        for _ in 0..<10 {
            let found = try ask(fixture, callsAtMost: 25, block: 7)
            counted.append(found.callsRead)
            #expect(found.callsReadNow <= 25)
            if !found.isComplete { continue }
            #expect(found.counts.last?.peopleMade == 60, "\(found)")
            let again = try ask(fixture, callsAtMost: 25, block: 7)
            #expect(again.isComplete && again.callsReadNow < 7 && again.counts == found.counts, "\(again)")
            break
        }
        #expect(counted.count > 2 && counted.count < 10 && counted == counted.sorted(), "\(counted)")
    }
}
