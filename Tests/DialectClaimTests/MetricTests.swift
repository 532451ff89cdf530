import Foundation
import TestKit
import Testing

/// Metrics and funnels (spec/claim.md 1.7), on every store.
@Suite("Metrics and funnels")
struct MetricTests {
    private func project(_ client: OwlClient) throws -> String {
        let projects = try client.agent("/v1/projects")["projects"] as? [[String: Any]]
        return "/v1/projects/" + (try #require(projects?.first?["id"] as? String))
    }

    private func send(
        _ client: OwlClient, _ user: String?, _ message: String, minutes: Int = 0, _ attributes: String = ""
    )
        throws
    {
        let at = Date(timeIntervalSinceNow: Double(-minutes) * 60).formatted(.iso8601)
        let event = OwlClient.event(
            user, message, more: #","timestamp":"\#(at)","custom_attributes":{\#(attributes)}"#)
        #expect(try client.ingest([event]).body == #"{"accepted":1,"rejected":0}"#)
    }

    private func define(_ client: OwlClient, _ slug: String, _ steps: [String]) throws {
        let steps = steps.map { #"{"step":"\#($0)"}"# }.joined(separator: ",")
        let answer = try client.call(
            "PUT", "/onym/v1/funnels/\(slug)", #"{"name":"Checkout","steps":[\#(steps)]}"#,
            key: client.server.credentials.adminKey)
        #expect(answer.status == 200, "\(answer)")
    }

    private func users(_ client: OwlClient, _ slug: String, _ query: String = "") throws -> [Int?] {
        let funnel = try client.agent("\(try project(client))/funnels/\(slug)/query?\(query)")
        return (funnel["steps"] as? [[String: Any]] ?? []).map { $0["users"] as? Int }
    }

    @Test("a metric is counted and averaged, in all and by the day", arguments: StoreKind.allCases)
    func metric(_ kind: StoreKind) throws {
        let client = try OwlClient(kind)
        for duration in 1...20 {
            try send(client, "ada", "metric:load:complete", minutes: 5, #""duration_ms":"\#(duration * 10)""#)
        }
        try send(client, "owl_anon_1", "metric:load:fail", minutes: 3 * 1440, #""error":"timeout""#)
        try send(client, "owl_anon_1", "metric:load:start", minutes: 2)
        try send(client, nil, "metric:load:record")
        try send(client, "ada", "metric:other:record")
        let path = "\(try project(client))/metrics/load"
        var load = try client.agent("\(path)/query")
        #expect(load["count"] as? Int == 23 && load["unique_users"] as? Int == 2 && load["name"] is NSNull)
        #expect(
            load["phases"] as? [String: Int] == ["start": 1, "complete": 20, "fail": 1, "cancel": 0, "record": 1])
        let rate = try #require(load["success_rate"] as? Double)
        #expect(abs(rate - 20.0 / 21.0) < 1e-9)
        let duration = load["duration_ms"] as? [String: Double]
        #expect(duration == ["count": 20, "sum": 2100, "avg": 105, "p50": 100, "p95": 190])
        let buckets = load["buckets"] as? [[String: Any]] ?? []
        #expect(buckets.count >= 2 && buckets.first?["count"] as? Int == 1)
        #expect(buckets.first?["duration_ms"] is NSNull && (buckets.first?["date"] as? String)?.count == 10)
        _ = try client.claim("owl_anon_1", "ada")
        _ = try client.call(
            "PUT", "/onym/v1/metrics/load", #"{"name":"Load time"}"#, key: client.server.credentials.adminKey)
        load = try client.agent("\(path)/query?since=1d")
        #expect(load["count"] as? Int == 22 && load["unique_users"] as? Int == 1)
        #expect(load["name"] as? String == "Load time")
        #expect(try client.agent("\(path)/query?data_mode=development")["count"] as? Int == 0)
    }

    @Test("measurements are listed, page by page, as the users' that they are", arguments: StoreKind.allCases)
    func listed(_ kind: StoreKind) throws {
        let client = try OwlClient(kind)
        for number in 0..<5 {
            try send(client, "owl_anon_1", "metric:load:record", minutes: number, #""n":"\#(number)""#)
        }
        try send(client, "owl_anon_1", "metric:load:start", minutes: 9)
        _ = try client.claim("owl_anon_1", "ada")
        let path = "\(try project(client))/metrics/load/events"
        var (cursor, seen): (String?, [String]) = ("0", [])
        while let next = cursor {
            let page = try client.agent("\(path)?limit=2&phase=record&cursor=\(next)")
            let events = page["events"] as? [[String: Any]] ?? []
            #expect(events.allSatisfy { $0["user_id"] as? String == "ada" && $0["phase"] as? String == "record" })
            seen += events.compactMap { ($0["attributes"] as? [String: String])?["n"] }
            cursor = page["cursor"] as? String
        }
        #expect(seen == ["0", "1", "2", "3", "4"])
        #expect((try client.agent(path)["events"] as? [Any])?.count == 6)
    }

    @Test("a funnel counts people, and a step only after those before it", arguments: StoreKind.allCases)
    func funnel(_ kind: StoreKind) throws {
        let client = try OwlClient(kind)
        try define(client, "checkout", ["open", "pay", "done"])
        // The first steps were taken before anybody knew who it was.
        try send(client, "owl_anon_1", "step:open", minutes: 9)
        try send(client, "owl_anon_1", "track:pay", minutes: 8)
        try send(client, "ada", "step:done", minutes: 7)
        // Paid first, and opened then.
        try send(client, "bob", "step:pay", minutes: 6)
        try send(client, "bob", "step:open", minutes: 5)
        try send(client, nil, "step:open", minutes: 4)
        #expect(try users(client, "checkout") == [2, 1, 0])
        #expect(try users(client, "checkout", "mode=open") == [2, 2, 1])
        _ = try client.claim("owl_anon_1", "ada")
        #expect(try users(client, "checkout") == [2, 1, 1])
        #expect(try users(client, "checkout", "mode=open") == [2, 2, 1])
        #expect(try users(client, "checkout", "since=450s") == [1, 0, 0])
        let steps = try client.agent("\(try project(client))/funnels/checkout/query")["steps"] as? [[String: Any]]
        #expect(steps?.last?["conversion_from_start"] as? Double == 0.5)
        #expect(steps?.last?["conversion_from_previous"] as? Double == 1)
    }

    @Test("funnels and metrics are defined, listed and taken away", arguments: StoreKind.allCases)
    func definitions(_ kind: StoreKind) throws {
        let client = try OwlClient(kind)
        let admin = client.server.credentials.adminKey
        try define(client, "b", ["two"])
        try define(client, "a", ["one"])
        try define(client, "a", ["one"])
        let funnels = try client.administrator("/onym/v1/funnels")["funnels"] as? [[String: Any]]
        #expect(funnels?.map { $0["slug"] as? String } == ["a", "b"])
        #expect((funnels?.first?["steps"] as? [[String: String]]) == [["name": "one", "step": "one"]])
        _ = try client.call("PUT", "/onym/v1/metrics/m", #"{"name":"M"}"#, key: admin)
        #expect(try client.call("DELETE", "/onym/v1/funnels/a", key: admin).body == #"{"removed":"a"}"#)
        #expect((try client.administrator("/onym/v1/funnels")["funnels"] as? [Any])?.count == 1)
        #expect((try client.administrator("/onym/v1/metrics")["metrics"] as? [Any])?.count == 1)
        let none = try client.call(
            "GET", "\(try project(client))/funnels/a/query", key: client.server.credentials.claimAgentKey)
        #expect(none.status == 404 && none.body == #"{"error":"Funnel not found"}"#)
    }

    static let refused: [(String, String)] = [
        ("/onym/v1/funnels/A", #"{"steps":[{"step":"a"}]}"#), ("/onym/v1/funnels/a", #"{"steps":[]}"#),
        ("/onym/v1/funnels/a", #"{"steps":[{"name":"a"}]}"#), ("/onym/v1/funnels/a", #"{"steps":[{"step":""}]}"#),
        ("/onym/v1/funnels/a", #"{"steps":[{"step":"a"}],"more":1}"#), ("/onym/v1/metrics/a", "{}"),
        ("/onym/v1/metrics/a", "["),
    ]

    @Test("what is no definition is refused", arguments: refused)
    func refuses(_ path: String, _ body: String) throws {
        let client = try OwlClient(.memory)
        #expect(try client.call("PUT", path, body, key: client.server.credentials.adminKey).status == 400)
    }
}
