import Domain
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

    private func analytics(_ client: OwlClient, _ slug: String, _ query: String = "") throws -> [String: Any] {
        let answer = try client.agent("\(try project(client))/funnels/\(slug)/query?\(query)")
        #expect(answer["slug"] as? String == slug)
        return answer["analytics"] as? [String: Any] ?? [:]
    }

    private func users(_ client: OwlClient, _ slug: String, _ query: String = "") throws -> [Int?] {
        let steps = try analytics(client, slug, query)["steps"] as? [[String: Any]] ?? []
        return steps.map { $0["unique_users"] as? Int }
    }

    private func aggregation(_ client: OwlClient, _ query: String = "") throws -> [String: Any] {
        let answer = try client.agent("\(try project(client))/metrics/load/query?\(query)")
        #expect(answer["slug"] as? String == "load")
        return answer["aggregation"] as? [String: Any] ?? [:]
    }

    private func refusal(_ client: OwlClient, _ method: String, _ path: String, _ body: String? = nil) throws -> String
    {
        let answer = try client.call(method, path, body, key: client.server.credentials.claimAgentKey)
        let error = try JSONSerialization.jsonObject(with: Data(answer.body.utf8)) as? [String: Any]
        return "\(answer.status) \(error?["error"] as? String ?? "")"
    }

    @Test("a metric is counted and averaged", arguments: StoreKind.allCases)
    func metric(_ kind: StoreKind) throws {
        let client = try OwlClient(withRuns: kind)
        for duration in [100, 141] {
            try send(client, "ada", "metric:load:complete", minutes: 5, #""duration_ms":"\#(duration)""#)
        }
        for error in ["timeout", "lost", "timeout"] {
            try send(client, "owl_anon_1", "metric:load:fail", minutes: 7, #""error":"\#(error)""#)
        }
        try send(client, "owl_anon_1", "metric:load:start", minutes: 2)
        try send(client, nil, "metric:load:record")
        try send(client, "ada", "metric:load:cancel", minutes: 3 * 1440)
        try send(client, "ada", "metric:other:record")
        let load = try aggregation(client)
        let counts = ["total", "start", "complete", "fail", "cancel", "record"].map { load["\($0)_count"] as? Int }
        #expect(counts == [7, 1, 2, 3, 0, 1])
        #expect(load["unique_users"] as? Int == 2 && load["success_rate"] as? Double == 40)
        #expect(load["duration_avg_ms"] as? Double == 120.5 && load["duration_p50_ms"] as? Double == 120.5)
        #expect(load["duration_p95_ms"] as? Double == 138.95 && load["duration_p99_ms"] as? Double == 140.59)
        let errors = load["error_breakdown"] as? [[String: Any]] ?? []
        #expect(errors.map { "\($0["error"] ?? "") \($0["count"] ?? "")" } == ["timeout 2", "lost 1"])
        #expect(load["groups"] == nil)
        #expect(try aggregation(client, "since=7d")["cancel_count"] as? Int == 1)
        #expect(try aggregation(client, "user_id=ada")["total_count"] as? Int == 2)
        _ = try client.claim("owl_anon_1", "ada")
        #expect(try aggregation(client)["unique_users"] as? Int == 1)
        #expect(try aggregation(client, "user_id=ada")["total_count"] as? Int == 6)
        #expect(try aggregation(client, "user_id=owl_anon_1")["total_count"] as? Int == 0)
        let none = try aggregation(client, "data_mode=development")
        #expect(none["total_count"] as? Int == 0 && none["success_rate"] is NSNull)
        #expect(none["duration_p50_ms"] is NSNull && (none["error_breakdown"] as? [Any])?.isEmpty == true)
    }

    @Test("measurements are grouped by time and by member", arguments: StoreKind.allCases)
    func grouped(_ kind: StoreKind) throws {
        // 2026-06-14, a Sunday, at 23:30 UTC.
        let server = try TestServer(kind) {
            $0.clock = { Instant(milliseconds: 1_781_479_800_000) }
            $0.runs = TestServer.tinyRuns
        }
        let client = OwlClient(server)
        func event(_ time: String, _ version: String?) -> String {
            let version = version.map { #","app_version":"\#($0)""# } ?? ""
            return OwlClient.event("ada", "metric:load:complete", more: #","timestamp":"\#(time)"\#(version)"#)
        }
        _ = try client.ingest([
            event("2026-06-14T22:59:59.999Z", "2.0"), event("2026-06-14T22:00:00Z", "2.0"),
            event("2026-06-14T23:00:00Z", "1.0"), event("2026-06-08T00:00:00Z", nil),
            event("2026-06-07T23:59:59Z", "1.0"), event("2026-06-14T23:10:00Z", "2.0"),
        ])
        func groups(_ name: String) throws -> [String] {
            let groups = try aggregation(client, "since=30d&group_by=\(name)")["groups"] as? [[String: Any]] ?? []
            #expect(groups.allSatisfy { $0["key"] as? String == name && $0["success_rate"] as? Int == 100 })
            return groups.map { "\($0["value"] as? String ?? "null") \($0["total_count"] ?? "")" }
        }
        #expect(
            try groups("time:hour") == [
                "2026-06-07 23:00:00+00 1", "2026-06-08 00:00:00+00 1", "2026-06-14 22:00:00+00 2",
                "2026-06-14 23:00:00+00 2",
            ])
        #expect(
            try groups("time:day") == [
                "2026-06-07 00:00:00+00 1", "2026-06-08 00:00:00+00 1", "2026-06-14 00:00:00+00 4",
            ])
        #expect(try groups("time:week") == ["2026-06-01 00:00:00+00 1", "2026-06-08 00:00:00+00 5"])
        #expect(try groups("app_version") == ["2.0 3", "1.0 2", "null 1"])
        #expect(try groups("app_id").count == 1)
        let refused = try refusal(client, "GET", "\(try project(client))/metrics/load/query?group_by=x")
        #expect(refused == "400 Invalid group_by value: x")
    }

    @Test("measurements are listed, page by page, as the users' that they are", arguments: StoreKind.allCases)
    func listed(_ kind: StoreKind) throws {
        let client = try OwlClient(withRuns: kind)
        for number in 0..<5 {
            try send(client, "owl_anon_1", "metric:load:record", minutes: number, #""n":"\#(number)""#)
        }
        try send(client, "owl_anon_1", "metric:load:start", minutes: 9)
        _ = try client.claim("owl_anon_1", "ada")
        let path = "\(try project(client))/metrics/load/events"
        var (cursor, seen): (String?, [String]) = ("", [])
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
        let client = try OwlClient(withRuns: kind)
        try define(client, "checkout", ["open", "pay", "done"])
        // The first steps were taken before anybody knew who it was.
        try send(client, "owl_anon_1", "step:open", minutes: 9)
        try send(client, "owl_anon_1", "track:pay", minutes: 8)
        try send(client, "ada", "step:done", minutes: 7)
        // Paid first, and opened then.
        try send(client, "bob", "step:pay", minutes: 6)
        try send(client, "bob", "step:open", minutes: 5)
        try send(client, nil, "step:open", minutes: 4)
        #expect(try users(client, "checkout", "mode=closed") == [2, 1, 0])
        #expect(try users(client, "checkout") == [3, 3, 1])
        _ = try client.claim("owl_anon_1", "ada")
        #expect(try users(client, "checkout", "mode=closed") == [2, 1, 1])
        #expect(try users(client, "checkout", "mode=open") == [2, 2, 1])
        #expect(try users(client, "checkout", "mode=closed&since=450s") == [1, 0, 0])
        let found = try analytics(client, "checkout", "mode=closed")
        #expect(found["total_users"] as? Int == 2 && found["mode"] as? String == "closed")
        #expect((found["funnel"] as? [String: Any])?["slug"] as? String == "checkout")
        let steps = found["steps"] as? [[String: Any]] ?? []
        func numbers(_ name: String) -> [Double?] { steps.map { $0[name] as? Double } }
        #expect(numbers("percentage") == [100, 50, 50] && numbers("drop_off_percentage") == [0, 50, 0])
        #expect(numbers("drop_off_count") == [0, 1, 0] && numbers("step_index") == [0, 1, 2])
        let ends = try client.agent("/v1/funnels/completions/count")
        #expect(ends["count"] as? Int == 1 && ends["started"] as? Int == 2)
        // Each funnel counts its own users.
        try define(client, "again", ["open", "done"])
        let twice = try client.agent("/v1/funnels/completions/count")
        #expect(twice["count"] as? Int == 2 && twice["started"] as? Int == 4)
        let unknown = try analytics(client, "checkout", "group_by=locale")
        #expect((unknown["steps"] as? [Any])?.isEmpty == true && (unknown["breakdown"] as? [Any])?.isEmpty == true)
        #expect(unknown["total_users"] as? Int == 0)
    }

    @Test("a funnel ends now without until: a step may happen after its upload", arguments: StoreKind.allCases)
    func ahead(_ kind: StoreKind) throws {
        // 2026-06-14 at 23:30 UTC.
        let clock = ManualClock(1_781_479_800_000)
        let client = OwlClient(
            try TestServer(kind) {
                $0.clock = { clock.now }
                $0.runs = TestServer.tinyRuns
            })
        try define(client, "checkout", ["open"])
        let later = #","timestamp":\#(clock.now.milliseconds + 240_000)"#
        let sent = try client.ingest([
            OwlClient.event("ada", "step:open"), OwlClient.event("bob", "step:open", more: later),
        ])
        #expect(sent.body == #"{"accepted":2,"rejected":0}"#)
        #expect(try users(client, "checkout") == [1])
        #expect(try users(client, "checkout", "until=2026-06-15T00:00:00Z") == [2])
        clock.advance(milliseconds: 240_000)
        #expect(try users(client, "checkout") == [2])
    }

    @Test("a funnel's groups add up to the whole, and a step can ask for a screen", arguments: StoreKind.allCases)
    func groupedFunnel(_ kind: StoreKind) throws {
        let client = try OwlClient(withRuns: kind)
        let funnels = "\(try project(client))/funnels"
        let key = client.server.credentials.claimAgentKey
        let steps =
            #"[{"name":"Cart","event_filter":{"step_name":"cart","screen_name":"Shop"}},"#
            + #"{"name":"Paid","event_filter":{"screen_name":"Till"}}]"#
        let made = try client.call("POST", funnels, #"{"name":"F","slug":"f","steps":\#(steps)}"#, key: key)
        #expect(made.status == 201, "\(made)")
        func step(_ user: String, _ name: String, _ screen: String, _ version: String) -> String {
            OwlClient.event(
                user, "step:\(name)", more: #","screen_name":"\#(screen)","app_version":"\#(version)""#)
        }
        _ = try client.ingest([
            step("ada", "cart", "Shop", "1"), step("ada", "cart", "Shop", "2"), step("bob", "cart", "Home", "1"),
            step("eve", "cart", "Shop", "1"), step("eve", "any", "Till", "1"), OwlClient.event("zed", "step:cart"),
        ])
        #expect(try users(client, "f") == [2, 1])
        let found = try analytics(client, "f", "group_by=app_version")
        let parts = found["breakdown"] as? [[String: Any]] ?? []
        #expect(parts.map { "\($0["value"] ?? "") \($0["total_users"] ?? "")" } == ["1 2", "2 1"])
        #expect(found["total_users"] as? Int == 3)
    }

    static let badSteps: [(String, String)] = [
        ("[]", "steps must be a non-empty array"), ("7", "steps must be a non-empty array"),
        ("[7]", "steps[0]: must be an object"), (#"[{"name":""}]"#, "steps[0]: name is required"),
        (#"[{"name":"a"}]"#, "steps[0]: event_filter is required"),
        (
            #"[{"name":"a","event_filter":{"step_name":""}}]"#,
            "steps[0]: event_filter must have at least step_name or screen_name"
        ),
        ("[\(Array(repeating: "1", count: 21).joined(separator: ","))]", "Maximum 20 steps allowed"),
    ]

    @Test("metrics and funnels are made, changed and deleted by agents", arguments: StoreKind.allCases)
    func definitionCalls(_ kind: StoreKind) throws {
        let client = try OwlClient(withRuns: kind)
        let (project, key) = (try project(client), client.server.credentials.claimAgentKey)
        let steps = #","steps":[{"name":"a","event_filter":{"step_name":"a"}}]"#
        for (name, more) in [
            ("metric", #","schema_definition":{"b":1,"a":[2.5]},"documentation":"d""#), ("funnel", steps),
        ] {
            let (path, title) = ("\(project)/\(name)s", name.capitalized)
            let body = #"{"name":"One","slug":"one"\#(more)}"#
            let made = try client.call("POST", path, body, key: key)
            #expect(made.status == 201, "\(made)")
            let id = try #require(made.body.firstMatch(of: /"id":"([^"]+)"/)?.1)
            #expect(
                try refusal(client, "POST", path, body) == "409 A \(name) with this slug already exists in this project"
            )
            #expect(try refusal(client, "POST", path, #"{"name":"x"\#(more)}"#) == "400 name and slug are required")
            #expect(try refusal(client, "POST", path, #"{"name":"x","slug":"A b"\#(more)}"#).hasPrefix("400 slug must"))
            #expect(try refusal(client, "PATCH", "\(path)/one", "{}") == "400 At least one field to update is required")
            // Also with the slug that the definition has.
            for slug in [#""two""#, #""one""#, "null"] {
                #expect(
                    try refusal(client, "PATCH", "\(path)/one", #"{"name":"x","slug":\#(slug)}"#)
                        == "400 slug is immutable after creation")
            }
            #expect(try refusal(client, "PATCH", "\(path)/two", #"{"name":"x"}"#) == "404 \(title) not found")
            #expect(try refusal(client, "DELETE", "\(path)/two") == "404 \(title) not found")
            let changed = try client.call("PATCH", "\(path)/one", #"{"description":"why","name":"Uno"}"#, key: key)
            #expect(changed.status == 200 && changed.body.contains(#""name":"Uno""#), "\(changed)")
            for place in ["\(path)/one", "/v1/\(name)s/by-id/\(id)"] {
                #expect(try client.call("GET", place, key: key).body == changed.body)
            }
            if name == "metric" { #expect(changed.body.contains(#""schema_definition":{"b":1,"a":[2.5]}"#)) }
            _ = try client.call("POST", path, #"{"name":"Two","slug":"two"\#(more)}"#, key: key)
            for list in [path, "/v1/\(name)s", "/v1/\(name)s?team_id=6f6e796d-0006-8000-8000-000000000001"] {
                let all = try client.agent(list)["\(name)s"] as? [[String: Any]]
                #expect(Set(all?.compactMap { $0["slug"] as? String } ?? []) == ["one", "two"], "\(list)")
            }
            #expect((try client.agent("/v1/\(name)s?team_id=x")["\(name)s"] as? [Any])?.isEmpty == true)
            #expect(try client.call("DELETE", "\(path)/one", key: key).body == #"{"deleted":true}"#)
            for place in ["\(path)/one", "/v1/\(name)s/by-id/\(id)", "/v1/\(name)s/by-id/x"] {
                #expect(try refusal(client, "GET", place) == "404 \(title) not found")
            }
            #expect(try client.call("POST", path, body, key: key).body.contains(#""id":"\#(id)""#), "the old id")
            #expect(try client.call("POST", path, body).status == 403, "a client's key may not define")
        }
        for (steps, message) in MetricTests.badSteps {
            let body = #"{"name":"x","slug":"x","steps":\#(steps)}"#
            #expect(try refusal(client, "POST", "\(project)/funnels", body) == "400 \(message)")
        }
        try send(client, "ada", "metric:one:complete")
        try send(client, "ada", "metric:one:fail")
        try send(client, "ada", "metric:other:fail")
        let stats = try client.agent("\(project)/metric-stats")["stats"] as? [[String: Any]] ?? []
        let shown = stats.map { "\($0["slug"] ?? "") \($0["complete_count"] ?? "") \($0["fail_count"] ?? "")" }
        #expect(Set(shown) == ["one 1 1", "two 0 0"])
        let all = try client.agent("/v1/metric-stats")["stats"] as? [[String: Any]] ?? []
        #expect(all.count == 2 && all.allSatisfy { $0["project_id"] is String })
        let ends = try client.agent("/v1/metrics/completions/count")
        #expect(ends["count"] as? Int == 1 && ends["failed"] as? Int == 2)
    }

    @Test("funnels and metrics are defined, listed and taken away", arguments: StoreKind.allCases)
    func definitions(_ kind: StoreKind) throws {
        let client = try OwlClient(withRuns: kind)
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
