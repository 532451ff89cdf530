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

    private struct History {
        let client: OwlClient
        var random: SeededGenerator
        private var number = 0
        private var hasErased = false

        init(_ kind: StoreKind, seed: UInt64) throws {
            client = try OwlClient(withRuns: kind)
            random = SeededGenerator(seed: seed)
            let funnel = #"{"name":"Cart","steps":[{"step":"cart"},{"step":"paid"}]}"#
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

        /// Makes a random call. Some calls are refused, and change nothing.
        mutating func go() throws {
            let everybody = HistoryTests.users + HistoryTests.anonymous
            let admin = client.server.credentials.adminKey
            switch Int.random(in: 0..<16, using: &random) {
            case 0..<6:
                let user: String? = random.oneIn(6) ? nil : one(everybody)
                number += 1
                let messages = ["plain", "metric:load:complete", "step:cart"]
                var event = OwlClient.event(user, one(messages), more: #","screen_name":"s\#(number % 3)""#)
                if random.oneIn(4) { event = event.replacing(#""level":"info""#, with: #""level":"error""#) }
                _ = try client.ingest([event])
                let owner = user.map { #","user_id":"\#($0)""# } ?? ""
                if random.oneIn(3) {
                    _ = try client.call(
                        "POST", "/v1/feedback", #"{"message":"m","bundle_id":"com.example.demo"\#(owner)}"#)
                }
            case 12..<16:
                if imported.count < 12 { imported.append(UUID().uuidString) }
                let events = (0..<Int.random(in: 1...3, using: &random)).map { _ in
                    let user: String? = random.oneIn(6) ? nil : one(everybody)
                    let event = OwlClient.event(
                        user, one(["plain", "metric:load:complete", "metric:load:fail", "step:cart"]), id: one(imported)
                    )
                    return random.oneIn(4) ? event.replacing(#""level":"info""#, with: #""level":"error""#) : event
                }
                let answer = try client.ingest(
                    events, bundle: nil, path: "/v1/import", key: client.server.credentials.claimImportKey)
                let counts = try OwlClient.json(answer)
                // An erasure leaves late rows out of the numbers.
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

        /// Checks lists and counts with filters against all rows, read one after the other.
        private func checkModel(_ place: String) throws {
            let rows = try RowModel.events(client.server.store)
            let session = OwlClient.session.lowercased()
            let cases: [(String, (RowModel) -> Bool)] = [
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
        private func checkFigures(_ project: String, _ place: String) throws {
            let rows = try RowModel.rows(.metric, client.server.store)
            let (complete, failed) = (rows.count { $0["phase"] == "complete" }, rows.count { $0["phase"] == "fail" })
            let path = "/v1/projects/\(project)"
            let load = try client.agent("\(path)/metrics/load/query?data_mode=all&group_by=app_version")
            let figures = load["aggregation"] as? [String: Any] ?? [:]
            let names = ["total_count", "complete_count", "fail_count", "unique_users"]
            let expected = [rows.count, complete, failed, Set(rows.compactMap(\.user)).count]
            #expect(names.map { figures[$0] as? Int } == expected, "\(place)")
            let groups = figures["groups"] as? [[String: Any]] ?? []
            #expect(groups.compactMap { $0["total_count"] as? Int } == (rows.isEmpty ? [] : [rows.count]), "\(place)")
            let ends = try client.agent("/v1/metrics/completions/count?data_mode=all")
            #expect([ends["count"] as? Int, ends["failed"] as? Int] == [complete, failed], "\(place)")
            let stats = try client.agent("\(path)/metric-stats?data_mode=all")["stats"] as? [[String: Any]]
            #expect(stats?.first?["fail_count"] as? Int == failed, "\(place)")

            let users = Set(try RowModel.rows(.step, client.server.store).compactMap(\.user)).count
            let funnel = try client.agent("\(path)/funnels/cart/query?data_mode=all")["analytics"] as? [String: Any]
            let steps = funnel?["steps"] as? [[String: Any]] ?? []
            #expect(steps.map { $0["unique_users"] as? Int } == [users, 0], "\(place)")
            let completions = try client.agent("/v1/funnels/completions/count?data_mode=all")
            #expect([completions["count"] as? Int, completions["started"] as? Int] == [0, users], "\(place)")
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
