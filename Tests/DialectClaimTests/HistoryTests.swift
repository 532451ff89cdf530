import Domain
import Foundation
import TestKit
import Testing

/// Counts, filters and pages over random histories (spec/claim-reads.md, decision 9): a read by a user id returns a row exactly if
/// the row shows this user id.
@Suite("Reads over random histories")
struct HistoryTests {
    private static let users = ["ada", "bob", "eve"]
    private static let anonymous = ["owl_anon_1", "owl_anon_2", "owl_anon_3"]
    private static let otherSession = "0F9619FF-8B86-D011-B42D-00CF4FC964AA"
    /// The id of the app that sends the events.
    private static let app = "6f6e796d-0002-8000-8000-000000000002"

    private struct History {
        let client: OwlClient
        var random: SeededGenerator
        private var number = 0
        private var hasErased = false
        private let start = Date().timeIntervalSince1970.rounded()

        init(_ kind: StoreKind, seed: UInt64) throws {
            client = try OwlClient(withRuns: kind)
            random = SeededGenerator(seed: seed)
            let funnel = #"{"name":"Cart","steps":[{"step":"cart"},{"step":"paid"},{"step":"rated"}]}"#
            _ = try client.call("PUT", "/onym/v1/funnels/cart", funnel, key: client.server.credentials.adminKey)
            _ = try client.call(
                "POST", "/v1/projects/\(try client.project())/metrics", #"{"name":"Load","slug":"load"}"#,
                key: client.server.credentials.claimAgentKey)
        }

        /// The ids of the imported events. An import mostly names one of them again.
        private var imported: [String] = []

        private mutating func one(_ values: [String]) -> String {
            values[Int.random(in: 0..<values.count, using: &random)]
        }

        private func person(_ user: String) throws -> [String: Any] { try client.person(user) }

        /// A random event at one of the last twelve half hours, so that many events happen in one millisecond.
        private mutating func event(_ user: String?, id: String = UUID().uuidString) -> String {
            let messages =
                ["plain"] + ["cart", "paid", "rated"].map { "step:\($0)" }
                + ["start", "complete", "complete", "fail"].map { "metric:load:\($0)" }
            var more = #","screen_name":"s\#(number % 3)""#
            let place = Double(Int.random(in: 1...12, using: &random))
            more += #","timestamp":"\#(Date(timeIntervalSince1970: start - 1800 * place).formatted(.iso8601))""#
            if !random.oneIn(5) { more += #","app_version":"1.\#(Int.random(in: 0...2, using: &random))""# }
            if random.oneIn(2) { more += #","environment":"\#(one(["ios", "macos"]))""# }
            var attributes: [String] = []
            if random.oneIn(2) {
                attributes.append(#""duration_ms":"\#(Int.random(in: 0...5000, using: &random))""#)
            }
            if random.oneIn(3) { attributes.append(#""error":"\#(one(["timeout", "refused"]))""#) }
            more += #","custom_attributes":{\#(attributes.joined(separator: ","))}"#
            var event = OwlClient.event(user, one(messages), id: id, more: more)
            if random.oneIn(4) { event = event.replacing(#""level":"info""#, with: #""level":"error""#) }
            if random.oneIn(3) { event = event.replacing(OwlClient.session, with: HistoryTests.otherSession) }
            return event
        }

        /// Makes a random call. Some calls are refused, and change nothing.
        mutating func go() throws {
            let everybody = HistoryTests.users + HistoryTests.anonymous
            let admin = client.server.credentials.adminKey
            switch Int.random(in: 0..<16, using: &random) {
            case 0..<6:
                let user: String? = random.oneIn(6) ? nil : one(everybody)
                number += 1
                _ = try client.ingest((0..<Int.random(in: 1...4, using: &random)).map { _ in event(user) })
                let owner = user.map { #","user_id":"\#($0)""# } ?? ""
                if random.oneIn(3) {
                    _ = try client.call(
                        "POST", "/v1/feedback", #"{"message":"m","bundle_id":"com.example.demo"\#(owner)}"#)
                }
            case 12..<16:
                if imported.count < 12 { imported.append(UUID().uuidString) }
                let events = (0..<Int.random(in: 1...3, using: &random)).map { _ in
                    let user: String? = random.oneIn(6) ? nil : one(everybody)
                    return event(user, id: one(imported))
                }
                let answer = try client.ingest(
                    events, bundle: nil, path: "/v1/import", key: client.server.credentials.claimImportKey)
                let counts = try OwlClient.json(answer)
                // A late row of an erased person is in none of the numbers.
                let sum = ["accepted", "updated", "rejected"].compactMap { counts[$0] as? Int }.reduce(0, +)
                #expect(sum <= events.count && (sum == events.count || hasErased), "\(answer)")
            case 6..<9: _ = try client.claim(one(HistoryTests.anonymous), one(HistoryTests.users))
            case 9:
                let merges = try person(one(HistoryTests.users))["merges"] as? [[String: Any]] ?? []
                guard let merge = merges.randomElement(using: &random)?["id"] as? String else { return }
                _ = try client.call("POST", "/onym/v1/merges/\(merge)/undo", "{}", key: admin)
            case 10:
                guard let from = try person(one(everybody))["id"] as? String,
                    let into = try person(one(everybody))["id"] as? String
                else { return }
                _ = try client.call("POST", "/onym/v1/merges", #"{"from":"\#(from)","into":"\#(into)"}"#, key: admin)
            default:
                guard random.oneIn(3), let id = try person(one(everybody))["id"] as? String else { return }
                hasErased = true
                _ = try client.call("DELETE", "/onym/v1/people/\(id)", key: admin)
            }
        }

        /// The user ids that the pages of a list show, and whether each page but the last is full.
        private func shown(_ path: String, _ name: String, limit: Int) throws -> [String?] {
            var (query, found): (String, [String?]) = ("data_mode=all&limit=\(limit)", [])
            while true {
                let page = try client.agent("\(path)?\(query)")
                let rows = page[name] as? [[String: Any]] ?? []
                found += rows.map { $0["user_id"] as? String }
                guard page["has_more"] as? Bool == true, let cursor = page["cursor"] as? String else { return found }
                #expect(rows.count == limit, "a page that has a next page is full")
                query = "data_mode=all&limit=\(limit)&cursor=\(cursor)"
            }
        }

        /// Whether runs have some rows.
        func hasRuns() throws -> Bool {
            try client.server.store.read { snapshot throws(StoreFault) in
                try snapshot.document(DocumentKey(.runsEnd, of: 0)) != nil
            }
        }

        /// A filter of one parameter, as a query and as a condition on rows.
        private typealias Filter = (name: String, query: String, includes: (RowModel) -> Bool)

        /// Random filters, at most two of which have the same parameter.
        private mutating func filters(of rows: [RowModel]) -> [Filter] {
            let moment =
                rows.isEmpty ? Instant(milliseconds: 0) : rows[Int.random(in: 0..<rows.count, using: &random)].at
            let time = Date(timeIntervalSince1970: Double(moment.milliseconds) / 1000)
                .formatted(.iso8601)
            let (user, screen) = (one(HistoryTests.users + HistoryTests.anonymous), "s\(number % 3)")
            let session = one([OwlClient.session, HistoryTests.otherSession]).lowercased()
            return [
                ("level", "level=error", { $0["level"] == "error" }),
                ("level", "level=info,warn", { $0["level"] == "info" }),
                ("user_id", "user_id=\(user)", { $0.user == user }),
                ("session_id", "session_id=\(session)", { $0["session_id"]?.lowercased() == session }),
                ("screen_name", "screen_name=\(screen)", { $0["screen_name"] == screen }),
                ("environment", "environment=ios", { $0["environment"] == "ios" }),
                ("since", "since=\(time)", { $0.at >= moment }), ("until", "until=\(time)", { $0.at <= moment }),
                ("app_id", "app_id=\(HistoryTests.app)", { _ in true }), ("app_id", "app_id=x", { _ in false }),
            ]
        }

        /// Checks lists and counts with filters, alone and in pairs, against all rows, read one after the other.
        private mutating func checkModel(_ place: String) throws {
            let rows = try RowModel.events(client.server.store)
            let session = OwlClient.session.lowercased()
            var pairs: [(String, (RowModel) -> Bool)] = []
            let filters = self.filters(of: rows)
            for (place, one) in filters.enumerated() {
                for other in filters[place...] where one.name != other.name {
                    pairs.append(("\(one.query)&\(other.query)", { one.includes($0) && other.includes($0) }))
                }
            }
            pairs.shuffle(using: &random)
            var cases = filters.map { ($0.query, $0.includes) } + pairs.prefix(12)
            cases += [
                ("", { _ in true }), ("level=error", { $0["level"] == "error" }),
                ("level=info,warn", { $0["level"] == "info" }), ("screen_name=s1", { $0["screen_name"] == "s1" }),
                ("session_id=\(session)", { $0["session_id"]?.lowercased() == session }),
                ("session_id=\(session)x", { _ in false }), ("environment=ios", { $0["environment"] == "ios" }),
                (
                    "level=info&user_id=ada&screen_name=s2",
                    {
                        $0["level"] == "info" && $0.user == "ada" && $0["screen_name"] == "s2"
                    }
                ),
            ]
            for (query, includes) in cases {
                let (wanted, query) = (rows.filter(includes), "data_mode=all&\(query)")
                let counts = try client.agent("/v1/events/count?\(query)")
                let expected = [
                    wanted.count, Set(wanted.compactMap(\.user)).count,
                    Set(wanted.compactMap { $0["session_id"]?.lowercased() }).count,
                ]
                let found = ["count", "unique_users", "unique_sessions"].map { counts[$0] as? Int }
                #expect(found == expected, "\(place): \(query)")
                for order in ["asc", "desc"] {
                    let events = try client.agent("/v1/events?\(query)&order=\(order)&limit=200")["events"]
                    let ids = (events as? [[String: Any]] ?? []).map { $0["client_event_id"] as? String }
                    let all = order == "asc" ? wanted : wanted.reversed()
                    #expect(ids == all.prefix(200).map { $0["client_event_id"] }, "\(place): \(query) \(order)")
                }
            }
        }

        /// Checks the figures of a metric and of a funnel against all rows, read one after the other.
        private mutating func checkFigures(_ project: String, _ place: String) throws {
            let rows = try RowModel.rows(.metric, client.server.store)
            let (complete, failed) = (rows.count { $0["phase"] == "complete" }, rows.count { $0["phase"] == "fail" })
            let path = "/v1/projects/\(project)"
            let ends = try client.agent("/v1/metrics/completions/count?data_mode=all")
            #expect([ends["count"] as? Int, ends["failed"] as? Int] == [complete, failed], "\(place)")
            let stats = try client.agent("\(path)/metric-stats?data_mode=all")["stats"] as? [[String: Any]]
            #expect(stats?.first?["fail_count"] as? Int == failed, "\(place)")
            for group in [nil] + FigureModel.groupings {
                let (range, includes) = self.range(of: rows)
                let model = FigureModel(rows.filter(includes), groupedBy: group)
                let query = "data_mode=all\(range)\(group.map { "&group_by=\($0)" } ?? "")"
                // The first question keeps the figures of runs, and the second one takes them.
                for turn in 1...2 {
                    let answer = try client.agent("\(path)/metrics/load/query?\(query)")
                    model.check(answer["aggregation"] as? [String: Any] ?? [:], "\(place): \(query), \(turn)")
                }
            }

            let steps = try RowModel.rows(.step, client.server.store)
            let users = FunnelModel(steps, isClosed: false).users
            let completions = try client.agent("/v1/funnels/completions/count?data_mode=all")
            let first = Set(steps.filter { $0["step_name"] == "cart" }.compactMap(\.user))
            let last = Set(steps.filter { $0["step_name"] == "rated" }.compactMap(\.user))
            #expect(completions["count"] as? Int == last.count && last.count == users[2], "\(place)")
            #expect(completions["started"] as? Int == first.union(last).count, "\(place)")
            for mode in ["open", "closed"] {
                for group in [nil, "app_version", "environment"] {
                    let (range, includes) = self.range(of: steps)
                    let query = "data_mode=all&mode=\(mode)\(range)\(group.map { "&group_by=\($0)" } ?? "")"
                    for turn in 1...2 {
                        let answer = try client.agent("\(path)/funnels/cart/query?\(query)")
                        FunnelModel.check(
                            answer["analytics"] as? [String: Any] ?? [:], steps.filter(includes),
                            isClosed: mode == "closed", groupedBy: group, "\(place): \(query), \(turn)")
                    }
                }
            }
        }

        /// A random range of time that begins and ends with rows, as a query and as a condition.
        private mutating func range(of rows: [RowModel]) -> (String, (RowModel) -> Bool) {
            guard !rows.isEmpty, !random.oneIn(3) else { return ("", { _ in true }) }
            let ends = (0..<2).map { _ in rows[Int.random(in: 0..<rows.count, using: &random)].at }.sorted()
            let texts = ends.map {
                Date(timeIntervalSince1970: Double($0.milliseconds) / 1000)
                    .formatted(.iso8601)
            }
            return ("&since=\(texts[0])&until=\(texts[1])", { ends[0] <= $0.at && $0.at <= ends[1] })
        }

        /// Checks that filters and counts agree with the user ids that rows show.
        mutating func check(_ place: String) throws {
            let limit = Int.random(in: 1...9, using: &random)
            let project = try client.project()
            for (path, name) in [
                ("/v1/events", "events"), ("/v1/projects/\(project)/metrics/load/events", "events"),
                ("/v1/feedback", "feedback"),
            ] {
                let rows = try shown(path, name, limit: limit)
                for user in HistoryTests.users + HistoryTests.anonymous {
                    let found =
                        try client.agent("\(path)?data_mode=all&limit=200&user_id=\(user)")[name] as? [[String: Any]]
                    #expect(found?.allSatisfy { $0["user_id"] as? String == user } == true, "\(place): \(path) \(user)")
                    #expect(found?.count == rows.count { $0 == user }, "\(place): \(path) \(user)")
                }
                guard path == "/v1/events" else { continue }
                try checkModel(place)
                try checkFigures(project, place)
                let all = try client.agent("/v1/events/count?data_mode=all")
                #expect(all["count"] as? Int == rows.count, "\(place)")
                #expect(all["unique_users"] as? Int == Set(rows.compactMap { $0 }).count, "\(place)")
                for user in HistoryTests.users + HistoryTests.anonymous {
                    let count = try client.agent("/v1/events/count?data_mode=all&user_id=\(user)")
                    #expect(count["count"] as? Int == rows.count { $0 == user }, "\(place): \(user)")
                }
            }
        }
    }

    @Test("agree with what their rows show", arguments: StoreKind.allCases, Soak.seeds(2))
    func histories(_ kind: StoreKind, _ seed: UInt64) throws {
        var history = try History(kind, seed: seed)
        for step in 1...60 {
            try history.go()
            if step.isMultiple(of: 15) { try history.check("seed \(seed), step \(step)") }
        }
        try Patience.until { try history.hasRuns() }
        #expect(try history.hasRuns())
        try history.check("seed \(seed), at the end")
    }
}
