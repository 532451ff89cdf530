import Foundation
import TestKit
import Testing

/// How this dialect says no where no call is reached, and that its description is whole (spec/claim.md 1.1).
@Suite("Envelopes of the Claim dialect")
struct EnvelopeTests {
    static let unknown: [(String, String)] = [
        ("POST", "/v1/app-users/nothing"), ("GET", "/v1/identity/claim"), ("DELETE", "/v1/ingest"),
        ("POST", "/v1/ingest/"), ("GET", "/v1/feedback/x/y"), ("POST", "/v1/events"), ("PATCH", "/v1/attachments/x"),
        ("GET", "/v1/questionnaires/dismiss/x"), ("POST", "/v1/import/"), ("POST", "/v1/projects/x/issues"),
        ("POST", "/v1/identity/claim/"), ("POST", "/v1/identity/properties/x"), ("GET", "/v1/teams"),
        ("POST", "/v1/teams/x/invitations"), ("GET", "/v1/audit-logs"), ("DELETE", "/v1/webhooks/x"),
        ("GET", "/v1/stats/x"),
    ]

    @Test("what is not served is told as the vendor tells it", arguments: unknown)
    func notFound(_ method: String, _ path: String) throws {
        let client = try OwlClient(.memory)
        let answer = try client.call(method, path, method == "GET" ? nil : "{}")
        #expect(answer.status == 404)
        #expect(
            answer.body == #"{"message":"Route \#(method):\#(path) not found","error":"Not Found","statusCode":404}"#)
    }

    @Test("what belongs to no dialect, or to two, is told in our own words")
    func ours() throws {
        let client = try OwlClient(.memory)
        for path in ["/v1", "/v1/identity/nothing", "/v1/nothing", "/v2/ingest", "/nothing/at/all"] {
            let answer = try client.call("GET", path)
            #expect(answer.status == 404 && answer.body.contains(#""code":"not_found""#), "\(answer)")
        }
    }

    @Test("bodies in an encoding are taken as gzip, or as they are")
    func encodings() throws {
        let client = try OwlClient(.memory)
        func send(_ encoding: String, _ body: [UInt8]) throws -> Wire.Answer {
            try client.http.call(
                "POST", "/v1/ingest",
                fields: [
                    ("Authorization", "Bearer \(client.clientKey)"), ("Content-Type", "application/json"),
                    ("Content-Encoding", encoding),
                ], body: body)
        }
        let large = try send("gzip", [UInt8](repeating: 0, count: 1_048_577))
        #expect(large.status == 413 && large.body == #"{"error":"Compressed payload too large"}"#, "\(large)")
        let deflated = try send("deflate", [0x78, 0x9C, 3, 0, 0, 0, 0, 1])
        #expect(deflated.status == 400 && deflated.body.contains("FST_ERR_CTP_INVALID_JSON_BODY"), "\(deflated)")
    }

    @Test("the server says that it is there")
    func health() throws {
        let client = try OwlClient(.memory)
        let answer = try client.http.call("GET", "/health")
        #expect(answer.status == 200 && answer.body == #"{"status":"ok"}"#, "\(answer)")
    }

    @Test("calls count before what they say is looked at")
    func limited() throws {
        let client = OwlClient(try TestServer(.memory) { $0.rates = .init() })
        let agent = client.server.credentials.claimAgentKey
        for (method, path, body) in [
            ("GET", "/v1/events?data_mode=x", nil), ("POST", "/v1/feedback", "{}"),
            ("POST", "/v1/ingest/attachment", "{}"), ("POST", "/v1/questionnaires/q/responses", "{}"),
        ] {
            let key = method == "GET" ? agent : client.clientKey
            let statuses = try (0..<220).map { _ in try client.call(method, path, body, key: key).status }
            #expect(statuses.contains(429), "\(path)")
        }
    }

    @Test("a project tells what holds for it")
    func project() throws {
        let server = try TestServer(.memory) { $0.retention.days = [.event: 120, .step: 365] }
        let client = OwlClient(server)
        let answer = try client.call("GET", "/v1/projects", key: server.credentials.claimAgentKey)
        for member in [
            #""name":"Test","slug":"test","color":null,"#, #""retention_days_events":null,"#,
            #""effective_retention_days_events":120,"#, #""effective_retention_days_metrics":null,"#,
            #""effective_retention_days_funnels":365,"#, #""effective_attachment_user_quota_bytes":262144000,"#,
            #""effective_attachment_project_quota_bytes":5368709120,"#, #""effective_issue_alert_frequency":"none""#,
        ] {
            #expect(answer.body.contains(member), "\(answer.body)")
        }
    }

    @Test("the description has every call, with what each may answer")
    func openAPI() throws {
        let client = try OwlClient(.memory)
        let document = try JSONSerialization.jsonObject(
            with: Data(try client.http.call("GET", "/openapi.json").body.utf8))
        let paths = try #require((document as? [String: Any])?["paths"] as? [String: [String: [String: Any]]])
        var calls: Set<String> = []
        for (path, operations) in paths {
            for (method, operation) in operations where (operation["tags"] as? [String]) == ["claim"] {
                calls.insert("\(method.uppercased()) \(path)")
                let answers = operation["responses"] as? [String: Any]
                #expect(answers?.keys.contains { $0.hasPrefix("2") } == true, "\(method) \(path)")
                if !["/v1/attachments/download", "/health"].contains(path) {
                    #expect(answers?["401"] != nil, "\(method) \(path)")
                }
            }
        }
        let listed: Set<String> = [
            "GET /health",
            "POST /v1/identity/claim", "POST /v1/identity/properties", "POST /v1/identity/attribution/{source}",
            "POST /v1/ingest", "POST /v1/import", "GET /v1/events", "GET /v1/events/count", "GET /v1/events/{id}",
            "GET /v1/app-users", "GET /v1/app-users/{id}", "GET /v1/users/locales", "GET /v1/auth/whoami",
            "GET /v1/projects/{id}/users/locales", "PATCH /v1/projects/{id}", "POST /v1/apps", "GET /v1/apps/{id}",
            "PATCH /v1/apps/{id}", "DELETE /v1/apps/{id}",
            "GET /v1/apps/{id}/users", "GET /v1/projects", "GET /v1/projects/{id}", "GET /v1/apps", "GET /v1/auth/keys",
            "POST /v1/feedback", "GET /v1/feedback", "GET /v1/projects/{id}/feedback", "GET /v1/feedback/count",
            "GET /v1/questionnaires/{slug}", "POST /v1/questionnaires/{slug}/responses",
            "POST /v1/questionnaires/dismiss", "GET /v1/questionnaires", "GET /v1/questionnaires/count",
            "GET /v1/projects/{id}/questionnaires/{questionnaire}/analytics",
            "GET /v1/projects/{id}/issues", "GET /v1/issues", "GET /v1/projects/{id}/issues/{issue}",
            "PATCH /v1/projects/{id}/issues/{issue}", "POST /v1/projects/{id}/issues/{issue}/merge",
            "DELETE /v1/projects/{id}/issues/{issue}/merges/{source}",
            "GET /v1/projects/{id}/metrics/{slug}/query", "GET /v1/projects/{id}/metrics/{slug}/events",
            "GET /v1/projects/{id}/funnels/{slug}/query", "GET /v1/projects/{id}/metric-stats", "GET /v1/metric-stats",
            "GET /v1/metrics/completions/count", "GET /v1/funnels/completions/count", "POST /v1/ingest/attachment",
            "PUT /v1/ingest/attachment/{id}", "GET /v1/attachments", "GET /v1/attachments/{id}",
            "DELETE /v1/attachments/{id}", "GET /v1/attachments/download", "GET /v1/projects/{id}/attachment-usage",
        ]
        let definitions = ["metrics", "funnels"].flatMap { kind in
            ["GET /v1/\(kind)", "GET /v1/\(kind)/by-id/{id}"]
                + ["GET", "POST"].map { "\($0) /v1/projects/{id}/\(kind)" }
                + ["GET", "PATCH", "DELETE"].map { "\($0) /v1/projects/{id}/\(kind)/{slug}" }
        }
        let survey = "/v1/projects/{id}/questionnaires"
        let things = ["/v1/projects/{id}/feedback/{feedback}", survey + "/{questionnaire}/responses/{response}"]
        let reviewed = things.flatMap { path in ["GET", "PATCH", "DELETE"].map { "\($0) \(path)" } }
        let comments = (things + ["/v1/projects/{id}/issues/{issue}"]).flatMap { path in
            ["GET", "POST"].map { "\($0) \(path)/comments" }
                + ["PATCH", "DELETE"].map { "\($0) \(path)/comments/{comment}" }
        }
        let surveys =
            ["GET", "POST"].map { "\($0) \(survey)" }
            + ["GET", "PATCH", "DELETE"].map { "\($0) \(survey)/{questionnaire}" }
            + ["GET \(survey)/{questionnaire}/responses"]
        let expected = listed.union(definitions).union(reviewed).union(comments).union(surveys)
        #expect(expected.subtracting(calls).isEmpty, "missing")
        #expect(calls.subtracting(expected).isEmpty, "more than is known here")
    }
}
