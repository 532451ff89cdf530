import Foundation
import TestKit
import Testing

/// The values of parameters (spec/claim-reads.md, decision 10): a call refuses a value that it does not know, unless the vendor is known
/// to pass over it.
@Suite("Unknown values of parameters")
struct QueryValueTests {
    /// What the words of the tables stand for.
    private struct Place {
        let client: OwlClient
        let words: [(name: String, text: String)]

        init(_ kind: StoreKind) throws {
            let client = try OwlClient(kind)
            let project = try client.project()
            let agent = client.server.credentials.claimAgentKey
            let admin = client.server.credentials.adminKey
            for name in ["ada", "bob"] {
                _ = try client.ingest([OwlClient.event(name, "metric:load:complete")])
                _ = try client.call(
                    "POST", "/v1/feedback", #"{"message":"m","bundle_id":"com.example.demo","user_id":"\#(name)"}"#)
            }
            _ = try client.ingest([OwlClient.event("ada", "x").replacing(#""info""#, with: #""error""#)])
            let survey = #"{"name":"NPS","schema":{"questions":[{"id":"q1","type":"nps","title":"How?"}]}}"#
            _ = try client.call("PUT", "/onym/v1/questionnaires/nps", survey, key: admin)
            _ = try client.call("PUT", "/onym/v1/funnels/cart", #"{"name":"C","steps":[{"step":"c"}]}"#, key: admin)
            func id(_ path: String, _ list: String) throws -> String {
                let answer = try OwlClient.json(try client.call("GET", path, key: agent))
                return (answer[list] as? [[String: Any]])?.first?["id"] as? String ?? "none"
            }
            self.client = client
            words = [
                ("SURVEY", "/v1/projects/\(project)/questionnaires/\(try id("/v1/questionnaires", "questionnaires"))"),
                ("PROJECT", "/v1/projects/\(project)"), ("APP", "/v1/apps/\(try id("/v1/apps", "apps"))"),
            ]
        }

        func get(_ path: String, key: String? = nil) throws -> Wire.Answer {
            let path = words.reduce(path) { $0.replacing($1.name, with: $1.text) }
            return try client.call("GET", path, key: key ?? client.server.credentials.claimAgentKey)
        }
    }

    private static let statuses = "Invalid status. Must be one of: new, in_review, addressed, dismissed"

    /// Parameters, their unknown values, the text of the refusal, and the calls with the parameter.
    private static let refused: [(name: String, values: [String], error: String, paths: [String])] = [
        (
            "status", ["typo", "", "New"], statuses,
            ["/v1/feedback", "/v1/feedback/count", "PROJECT/feedback", "SURVEY/responses"]
        ),
        (
            "is_dev", ["banana", "", "TRUE"], "is_dev must be true or false",
            [
                "/v1/feedback", "/v1/feedback/count", "PROJECT/feedback", "/v1/issues", "PROJECT/issues",
                "SURVEY/responses", "SURVEY/analytics", "/v1/questionnaires", "PROJECT/questionnaires",
                "/v1/questionnaires/count",
            ]
        ),
        (
            "submitted_only", ["yes", ""], "submitted_only must be true or false",
            ["SURVEY/responses", "SURVEY/analytics", "/v1/questionnaires/count"]
        ),
        (
            "is_active", ["banana", ""], "is_active must be true or false",
            ["/v1/questionnaires", "PROJECT/questionnaires"]
        ),
        ("is_anonymous", ["banana", ""], "is_anonymous must be true or false", ["/v1/app-users", "APP/users"]),
        ("mode", ["half"], "mode must be open or closed", ["PROJECT/funnels/cart/query"]),
        ("group_by", ["banana"], "Invalid group_by value: banana", ["PROJECT/metrics/load/query"]),
        ("level", ["loud"], "Unknown log level(s): loud. Allowed: info, debug, warn, error", ["/v1/events"]),
    ]

    /// Calls, and conditions that must not be empty.
    private static let conditions: [(path: String, names: [String])] = [
        (
            "/v1/events",
            ["user_id", "app_id", "project_id", "team_id", "session_id", "environment", "screen_name"]
        ),
        ("/v1/events/count", ["user_id", "session_id"]), ("/v1/feedback", ["user_id", "app_id"]),
        ("/v1/attachments", ["event_id", "event_client_id", "issue_id", "project_id"]),
        ("PROJECT/attachment-usage", ["user_id"]), ("/v1/app-users", ["app_id", "project_id", "team_id"]),
        ("PROJECT/metrics/load/events", ["tracking_id", "environment"]),
        ("PROJECT/metrics/load/query", ["group_by", "app_version", "user_id"]),
        ("PROJECT/funnels/cart/query", ["mode", "group_by"]), ("PROJECT/questionnaires", ["app_id"]),
        ("/v1/metrics/completions/count", ["app_id"]), ("/v1/funnels/completions/count", ["app_id"]),
    ]

    /// Values that the vendor passes over, by the specification.
    private static let passedOver: [(path: String, queries: [String])] = [
        (
            "/v1/events",
            [
                "limit=x", "limit=", "limit=0", "cursor=x", "cursor=", "order=x", "order=", "data_mode=x",
                "data_mode=", "level=",
            ]
        ),
        ("PROJECT/metrics/load/events", ["phase=x", "phase=", "data_mode=x"]),
        ("/v1/issues", ["status=typo", "status=", "cursor=x"]), ("PROJECT/issues", ["status=typo", "limit=x"]),
        ("/v1/app-users", ["billing_status=x", "billing_status=", "sort=x", "sort=", "search=", "cursor=x"]),
        ("/v1/feedback", ["data_mode=x", "limit=x", "cursor=x"]), ("SURVEY/responses", ["data_mode=x"]),
    ]

    @Test("are refused with a text that says the values or the name", arguments: StoreKind.allCases)
    func refusals(_ kind: StoreKind) throws {
        let place = try Place(kind)
        for (name, values, error, paths) in Self.refused {
            for path in paths {
                #expect(try place.get(path).status == 200, "\(path)")
                for value in values {
                    let answer = try place.get("\(path)?\(name)=\(value)")
                    let text = #"{"error":"\#(error)"}"#
                    #expect(answer.status == 400 && answer.body == text, "\(path)?\(name)=\(value): \(answer)")
                }
            }
        }
        let offer = "/v1/questionnaires/nps?bundle_id=com.example.demo"
        let key = place.client.clientKey
        #expect(try place.get(offer, key: key).status == 200)
        for (query, error) in [
            ("force=banana", "force must be true or false"), ("user_id=", "user_id must not be empty"),
        ] {
            let answer = try place.get("\(offer)&\(query)", key: key)
            #expect(answer.status == 400 && answer.body == #"{"error":"\#(error)"}"#, "\(query): \(answer)")
        }
    }

    @Test("an empty condition is refused: it would find everything", arguments: StoreKind.allCases)
    func empty(_ kind: StoreKind) throws {
        let place = try Place(kind)
        for (path, names) in Self.conditions {
            #expect(try place.get(path).status == 200, "\(path)")
            for name in names {
                let answer = try place.get("\(path)?\(name)=")
                let error = "\(name) must not be empty"
                #expect(answer.status == 400 && answer.body == #"{"error":"\#(error)"}"#, "\(path)?\(name)=: \(answer)")
            }
            for name in ["since", "until"] where path != "PROJECT/attachment-usage" {
                let answer = try place.get("\(path)?\(name)=")
                #expect(answer.status == 400 && answer.body.contains("Invalid time input"), "\(path) \(answer)")
            }
        }
    }

    @Test("are passed over where the vendor passes over them", arguments: StoreKind.allCases)
    func passedOver(_ kind: StoreKind) throws {
        let place = try Place(kind)
        for (path, queries) in Self.passedOver {
            let whole = try place.get(path)
            #expect(whole.status == 200 && whole.body.contains("\"id\"") == (path != "SURVEY/responses"), "\(path)")
            for query in queries {
                let answer = try place.get("\(path)?\(query)")
                #expect(answer.status == 200 && answer.body == whole.body, "\(path)?\(query)")
            }
        }
    }

    @Test("1 and 0 are true and false", arguments: StoreKind.allCases)
    func flags(_ kind: StoreKind) throws {
        let place = try Place(kind)
        for (path, name) in [
            ("/v1/feedback", "is_dev"), ("/v1/app-users", "is_anonymous"), ("SURVEY/responses", "submitted_only"),
            ("PROJECT/questionnaires", "is_active"),
        ] {
            let answers = try ["1", "true", "0", "false"].map { try place.get("\(path)?\(name)=\($0)").body }
            #expect(answers[0] == answers[1] && answers[2] == answers[3], "\(path)")
        }
    }
}
