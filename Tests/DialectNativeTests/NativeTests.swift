import DialectIDSync
import Foundation
import TestKit
import Testing

@Suite("The server's own surface")
struct NativeTests {
    private func object(_ answer: Wire.Answer) -> [String: Any] {
        (try? JSONSerialization.jsonObject(with: Data(answer.body.utf8)) as? [String: Any]) ?? [:]
    }

    @Test("tells how it is", arguments: StoreKind.allCases)
    func health(_ kind: StoreKind) throws {
        let client = try TestServer(kind).keep().client
        let health = try client.call("GET", "/healthz").body
        #expect(health.wholeMatch(of: /\{"status":"ok","version":"\d+\.\d+\.\d+"\}/) != nil, "\(health)")
        #expect(try client.call("GET", "/readyz").body == #"{"status":"ready"}"#)
        #expect(try client.call("HEAD", "/healthz").status == 200)
    }

    @Test("refuses with problems that people and programs can read")
    func problems() throws {
        let client = try TestServer(.memory).keep().client
        let missing = try client.call("GET", "/nothing/here", fields: [("X-Request-Id", "r-1")])
        #expect(missing.status == 404)
        #expect(missing["Content-Type"] == "application/problem+json")
        #expect(
            missing.body
                == #"{"type":"about:blank","title":"Not Found","status":404,"detail":"There is no GET /nothing/here.","code":"not_found","request_id":"r-1"}"#
        )
        let wrong = object(try client.call("POST", "/healthz", json: "{}"))
        #expect(wrong["code"] as? String == "method_not_allowed")
        #expect(wrong["detail"] as? String == "This path takes only GET, HEAD, OPTIONS.")
    }

    @Test("shows metrics to administrators only")
    func metricsKey() throws {
        let server = try TestServer(.memory)
        let client = server.client
        for fields in [
            [], [("Authorization", "Bearer nonsense")], [("Authorization", "Bearer \(server.credentials.idsyncKey)")],
            [("Authorization", "Basic \(server.credentials.adminKey)")],
        ] {
            let answer = try client.call("GET", "/metrics", fields: fields)
            #expect(answer.status == 401 && answer["WWW-Authenticate"] == "Bearer")
            #expect(object(answer)["code"] as? String == "unauthorized")
        }
        let key = ("Authorization", "Bearer \(server.credentials.adminKey)")
        #expect(try client.call("GET", "/metrics", fields: [key]).status == 200)
    }

    @Test("counts what it does", arguments: StoreKind.allCases)
    func metrics(_ kind: StoreKind) throws {
        let server = try TestServer(kind)
        let client = server.client
        for number in 1...3 {
            _ = try client.call(
                "POST", "/v1/identify", fields: [("x-mp-key", server.credentials.idsyncWebKey)],
                json: #"{"environment":"development","known_identities":{"email":"\#(number)","other":"x\#(number)"}}"#)
        }
        _ = try client.call("POST", "/v1/identify", json: "{}")
        _ = try client.call("GET", "/nowhere")
        let text = try client.call(
            "GET", "/metrics", fields: [("Authorization", "Bearer \(server.credentials.adminKey)")]
        ).body
        for line in [
            #"onym_http_requests_total{route="POST /v1/identify",status="200"} 3"#,
            #"onym_http_requests_total{route="POST /v1/identify",status="401"} 1"#,
            #"onym_http_requests_total{route="none",status="404"} 1"#,
            #"onym_http_request_duration_seconds_count{route="POST /v1/identify"} 4"#,
            "onym_people 3", "onym_identities 6", "onym_links 6", "onym_journal_sequence 4", "onym_queue_calls 0",
            "onym_store_faults_total 0", "onym_connections 1", "onym_batch_calls_sum 3.0",
        ] {
            #expect(text.contains("\n\(line)\n"), "\(line)")
        }
        for name in ["onym_batch_duration_seconds_bucket", "process_resident_memory_bytes"] {
            #expect(text.contains("\n\(name)"), "\(name)")
        }
    }

    @Test("describes its calls as docs/openapi.json does; ONYM_RECORD=1 writes the file anew")
    func goldenDescription() throws {
        let server = try TestServer(.memory)
        let described = APIDescription.lines(try server.client.call("GET", "/openapi.json").body)
        if ProcessInfo.processInfo.environment["ONYM_RECORD"] == "1" {
            try described.write(to: APIDescription.file, atomically: true, encoding: .utf8)
        }
        let golden = try String(contentsOf: APIDescription.file, encoding: .utf8)
        #expect(described == golden, "The description has changed: record it, and look at the difference.")
    }

    @Test("has examples that fit their descriptions; Tools/examples takes them from tests")
    func examples() throws {
        let description = try #require(APIDescription.shared)
        let faults = description.faultsOfExamples
        #expect(faults.isEmpty, "\(faults.joined(separator: "\n"))")
        // A new call gets its example when it is complete. The description has more than 300 calls.
        let missing = description.callsWithoutExample
        #expect(missing.count < 30, "\(missing)")
    }

    @Test("describes every call that it answers, and no other")
    func openAPI() throws {
        let server = try TestServer(.memory)
        let document = object(try server.client.call("GET", "/openapi.json"))
        #expect(document["openapi"] as? String == "3.1.0")
        let paths = try #require(document["paths"] as? [String: [String: Any]])
        #expect(paths.keys.contains("/v1/identify"))
        let schemes = try #require((document["components"] as? [String: Any])?["securitySchemes"] as? [String: Any])
        let ids = paths.values.flatMap(\.values).compactMap { ($0 as? [String: Any])?["operationId"] as? String }
        #expect(Set(ids).count == ids.count, "Two calls have one id in the description.")
        for (path, operations) in paths {
            for (method, operation) in operations {
                let operation = try #require(operation as? [String: Any])
                // What is described is there, and answers as it is described.
                let called = path.replacing(/\{[a-z_]+\}/, with: "1")
                let answer = try server.client.call(method.uppercased(), called, json: "{}")
                let described = try #require(operation["responses"] as? [String: Any])
                #expect(described["\(answer.status)"] != nil, "\(method) \(path) answered \(answer.status)")
                for scheme in operation["security"] as? [[String: Any]] ?? [] {
                    for name in scheme.keys { #expect(schemes[name] != nil, "\(name)") }
                }
            }
        }
    }
}

extension TestServer {
    /// Keeps the server until the test's process ends, where only its client is needed.
    func keep() -> TestServer {
        _ = Unmanaged.passRetained(self)
        return self
    }
}
