import DialectClaim
import Domain
import Foundation
import TestKit
import Testing
import Threads

/// The rows and documents that reads touch: what a page, a count or a figure needs, whatever the size of the store
/// (spec/claim-reads.md 9 and 10). Times depend on the machine, so tests bound the work.
@Suite("The work of reads")
struct ReadWorkTests {
    /// A server with some events, most of one user and one app, and with a counter of what its reads get.
    private struct Place {
        static let short = 64
        static let long = 512
        let client: OwlClient
        let counter = ReadCounter()
        /// The number of all events. The last of them are in no run.
        let events: Int

        init(_ kind: StoreKind, longRuns: Int) throws {
            var lengths = RunKeeper.Lengths()
            (lengths.short, lengths.long, lengths.pauseMilliseconds) = (Int64(Self.short), Int64(Self.long), 2)
            let (runs, counter) = (lengths, counter)
            client = OwlClient(
                try TestServer(kind) {
                    $0.runs = runs
                } wrap: { store in
                    let failing = FailingStore(store)
                    failing.readCounter.withLock { $0 = counter }
                    return failing
                })
            // Each message is one row, but of the tenth there is a measurement too.
            events = (longRuns * Self.long + Self.short + Self.short / 2) * 10 / 11
            for start in stride(from: 0, to: events, by: 100) {
                let part = (start..<min(start + 100, events)).map(Self.event)
                let answer = try client.ingest(part)
                precondition(answer.body == #"{"accepted":\#(part.count),"rejected":0}"#, "\(answer)")
            }
            try awaitRuns()
        }

        /// Waits until the server makes no further runs.
        private func awaitRuns() throws {
            let store = client.server.store
            var (end, calls, looks) = (0, store.counts.lastSequence, 0)
            try Patience.until {
                end = try store.read { snapshot throws(StoreFault) in
                    var unpacker = Unpacker(try snapshot.document(DocumentKey(.runsEnd, of: 0)) ?? [])
                    return Int(unpacker.integer() ?? 1)
                }
                looks = store.counts.lastSequence == calls ? looks + 1 : 0
                calls = store.counts.lastSequence
                return end + Self.short > Int(store.counts.rows) && looks > 20
            }
        }

        private static func event(_ number: Int) -> String {
            let user = number % 10 == 0 ? "user\(number % 50)" : "ada"
            let session = "00000000-0000-4000-8000-0000000000\(10 + number % 20)"
            let level = number % 97 == 0 ? "debug" : number % 3 == 0 ? "warn" : "info"
            let screen = number % 400 == 7 ? "rare" : "s\(number % 4)"
            let message = number % 10 == 5 ? "metric:load:complete" : "opened"
            return """
                {"client_event_id":"\(UUID().uuidString)","user_id":"\(user)","session_id":"\(session)",\
                "level":"\(level)","message":"\(message)","screen_name":"\(screen)","environment":"ios",\
                "custom_attributes":{"duration_ms":"\(number % 50)"}}
                """
        }

        /// A read's answer, and what it got from the store.
        func read(_ path: String) throws -> (answer: [String: Any], work: ReadCounter.Work) {
            _ = counter.take()
            let answer = try client.agent(path)
            return (answer, counter.take())
        }
    }

    private static let limit = 50

    /// Filters of pages and of counts.
    private static let filters = [
        "", "user_id=ada", "user_id=user10", "user_id=nobody", "level=debug", "level=info,warn", "screen_name=rare",
        "screen_name=none", "environment=ios", "environment=web",
        "session_id=00000000-0000-4000-8000-000000000013", "user_id=ada&level=warn&screen_name=s2",
        "level=debug&screen_name=s1", "since=1h&until=2030-01-01",
    ]

    @Test("does not grow with the store: pages, their next pages, counts and figures", arguments: StoreKind.allCases)
    func bounds(_ kind: StoreKind) throws {
        // The work of the second time, when the server knows what it has derived from the long runs.
        var again: [[String: ReadCounter.Work]] = []
        for longRuns in [3, 12] {
            let place = try Place(kind, longRuns: longRuns)
            var known: [String: ReadCounter.Work] = [:]
            for filter in Self.filters {
                let path = "/v1/events?limit=\(Self.limit)&\(filter)"
                for turn in 1...2 {
                    let (page, work) = try place.read(path)
                    expectPage(work, longRuns, turn, path)
                    known[path] = work
                    guard let cursor = page["cursor"] as? String else { continue }
                    let next = try place.read("\(path)&cursor=\(cursor)")
                    #expect((next.answer["events"] as? [Any])?.isEmpty == false, "\(path)")
                    expectPage(next.work, longRuns, turn, "\(path), next")
                }
                let count = "/v1/events/count?\(filter)"
                for turn in 1...2 {
                    let (answer, work) = try place.read(count)
                    #expect(answer["count"] is Int, "\(answer)")
                    expectFigure(work, longRuns, turn, count)
                    known[count] = work
                }
            }
            let metric = "/v1/projects/\(try place.client.project())/metrics/load/query"
            for turn in 1...2 {
                let (answer, work) = try place.read(metric)
                let total = (answer["aggregation"] as? [String: Any])?["total_count"] as? Int
                #expect(total == (0..<place.events).count { $0 % 10 == 5 }, "\(answer)")
                expectFigure(work, longRuns, turn, metric)
                known["metric"] = work
            }
            again.append(known)
        }
        for (path, work) in again[0] {
            let larger = try #require(again[1][path])
            let rows = path.contains(Self.small) ? Self.rowsOfSmallUser : max(work.rows, Self.limit + 1)
            #expect(larger.rows <= rows, "\(path): \(work), \(larger)")
            #expect(larger.documents - larger.rows <= work.documents - work.rows + 4, "\(path): \(work), \(larger)")
        }
    }

    /// A user with few rows is read by these rows.
    private static let small = "user10"
    private static let rowsOfSmallUser = 200
    /// The rows beside the long runs.
    private static let rest = Place.long + Place.short

    /// A page gets its rows and one more, and the rows that are in no run.
    private func expectPage(_ work: ReadCounter.Work, _ longRuns: Int, _ turn: Int, _ path: String) {
        expect(work, rows: Self.limit + 1 + (turn == 1 ? Self.rest : 0), longRuns, turn, path)
    }

    /// A count or a figure gets columns, and no rows but those that are in no run.
    private func expectFigure(_ work: ReadCounter.Work, _ longRuns: Int, _ turn: Int, _ path: String) {
        expect(work, rows: turn == 1 ? Self.rest : 0, longRuns, turn, path)
    }

    private func expect(_ work: ReadCounter.Work, rows: Int, _ longRuns: Int, _ turn: Int, _ path: String) {
        let place = "turn \(turn) of \(path), \(longRuns) runs: \(work)"
        #expect(work.rows <= (path.contains(Self.small) ? Self.rowsOfSmallUser : rows), "\(place)")
        // Each row may have a newer body, and each part of a run is a document, which the server keeps in memory.
        #expect(work.documents <= work.rows + 20 + (turn == 1 ? 20 * longRuns : 0), "\(place)")
        #expect(work.people <= 20 && work.calls == 0, "\(place)")
    }
}
