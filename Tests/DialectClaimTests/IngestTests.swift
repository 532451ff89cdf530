import Compression
import Foundation
import TestKit
import Testing

/// `POST /v1/ingest` and `/v1/import` (spec/claim.md 1.6), on every store.
@Suite("POST /v1/ingest")
struct IngestTests {
    @Test("keeps the good events of a batch and tells of the others", arguments: StoreKind.allCases)
    func partial(_ kind: StoreKind) throws {
        let client = try OwlClient(kind)
        let answer = try client.ingest([
            OwlClient.event("ada", "first"), "null", #"{"message":1}"#, OwlClient.event("ada", "", id: nil),
            OwlClient.event("ada", "last"),
        ])
        #expect(answer.status == 200)
        #expect(
            answer.body.hasPrefix(#"{"accepted":2,"rejected":3,"errors":[{"index":1,"message":"events[1]: "#),
            "\(answer.body)")
        #expect(try client.messages("ada") == ["last", "first"])
    }

    static let unfitEvents: [(String, String)] = [
        (#"{}"#, "message is required and must be a string"),
        (#"{"message":"m"}"#, "level must be one of info, debug, warn, error"),
        (#"{"message":"m","level":"trace"}"#, "level must be one of info, debug, warn, error"),
        (#"{"message":"m","level":"info"}"#, "session_id is required and must be a string"),
        (#"{"message":"m","level":"info","session_id":"s"}"#, "session_id must be a UUID"),
        (OwlClient.bare(#""client_event_id":"c""#), "client_event_id must be a UUID"),
        (OwlClient.bare(#""timestamp":"yesterday""#), "timestamp must be a valid ISO 8601 date"),
        (
            OwlClient.bare(#""timestamp":"2099-01-01T00:00:00Z""#),
            "timestamp cannot be more than 5 minutes in the future"
        ),
        (OwlClient.bare(#""timestamp":"2020-01-01""#), "timestamp cannot be more than 30 days in the past"),
        (OwlClient.bare(#""timestamp":1577836800000"#), "timestamp cannot be more than 30 days in the past"),
        (OwlClient.bare(#""timestamp":{}"#), "timestamp must be a valid ISO 8601 date"),
        (
            OwlClient.bare(#""environment":"android""#),
            #"environment \"android\" is not allowed for apple apps (allowed: ios, ipados, macos, watchos)"#
        ),
        (OwlClient.bare(#""user_id":7"#), "user_id must be a string"),
        (
            OwlClient.bare(#""user_id":"\#(String(repeating: "u", count: 256))""#),
            "user_id must have at most 255 characters"
        ),
        (
            OwlClient.bare(#""app_version":"\#(String(repeating: "1", count: 51))""#),
            "app_version must have at most 50 characters"
        ),
        (OwlClient.bare(#""screen_name":"a\u0000b""#), "must not hold a NUL character"),
    ]

    @Test("turns a bad event away by itself", arguments: unfitEvents)
    func unfit(_ event: String, _ message: String) throws {
        let client = try OwlClient(.memory)
        let answer = try client.ingest([event, OwlClient.event("ada")])
        #expect(
            answer.body.hasPrefix(#"{"accepted":1,"rejected":1,"errors":[{"index":0,"message":"events[0]: "#),
            "\(answer.body)")
        #expect(answer.body.contains(message), "\(answer.body)")
    }

    static let badUploads: [(String, Int, String)] = [
        ("{}", 400, "events array is required"), (#"{"events":[]}"#, 400, "events array is required"),
        ("[]", 400, "events array is required"), ("null", 400, "events array is required"),
        (
            #"{"events":[\#(Array(repeating: "{}", count: 101).joined(separator: ","))]}"#, 400,
            "Maximum batch size is 100"
        ),
        (#"{"events":[{}]}"#, 400, "bundle_id is required"),
        (#"{"events":[{}],"bundle_id":"other"}"#, 403, "bundle_id does not match the app associated with this API key"),
    ]

    @Test("turns away an upload that is none", arguments: badUploads)
    func uploads(_ body: String, _ status: Int, _ message: String) throws {
        let client = try OwlClient(.memory)
        let answer = try client.call("POST", "/v1/ingest", body)
        #expect(answer.status == status && answer.body == #"{"error":"\#(message)"}"#, "\(answer)")
    }

    @Test("keeps an event once, whatever the case of its id", arguments: StoreKind.allCases)
    func repeated(_ kind: StoreKind) throws {
        let client = try OwlClient(kind)
        let id = UUID().uuidString
        let event = OwlClient.event("owl_anon_1", "metric:load:record", id: id)
        #expect(try client.ingest([event, event]).body == #"{"accepted":1,"rejected":0}"#)
        let lower = OwlClient.event("owl_anon_1", "metric:load:record", id: id.lowercased())
        #expect(try client.ingest([lower]).body == #"{"accepted":0,"rejected":0}"#)
        #expect(try client.messages("owl_anon_1").count == 1)
        #expect(try client.messages("owl_anon_1", kinds: "metric") == ["load"])
    }

    @Test("makes metrics and steps of what messages tell of", arguments: StoreKind.allCases)
    func derived(_ kind: StoreKind) throws {
        let client = try OwlClient(kind)
        let attributes =
            #","custom_attributes":{"duration_ms":"120.7","tracking_id":"\#(OwlClient.session)","n":null,"o":{},"l":[1,2]}"#
        for message in [
            "metric:photo-load:complete", "metric:a:b:start", "metric:Bad:start", "metric:x:pause", "metric:",
            "metric::start",
            "step:paywall", "track:old", "step:",
        ] {
            #expect(
                try client.ingest([OwlClient.event("ada", message, more: attributes)]).body.contains("\"accepted\":1"))
        }
        #expect(try client.messages("ada", kinds: "metric") == ["photo-load"])
        #expect(try client.messages("ada", kinds: "step") == ["old", "paywall"])
        let rows =
            try client.administrator("/onym/v1/people/claim_user_id:ada/timeline?kinds=metric")["rows"]
            as? [[String: Any]]
        let body = rows?.first?["body"] as? [String: Any]
        #expect(body?["duration_ms"] as? Int == 120 && body?["tracking_id"] as? String == OwlClient.session)
        #expect((body?["attributes"] as? [String: String])?["l"] == "1,2")
    }

    @Test("cuts attributes to length and keeps all of them", arguments: StoreKind.allCases)
    func attributes(_ kind: StoreKind) throws {
        let client = try OwlClient(kind)
        let long = String(repeating: "😀", count: 150)
        let many = (0..<60).map { "\"k\($0)\":true" }.joined(separator: ",")
        let more = #","custom_attributes":{"long":"\#(long)","_error_stack":"\#(long)",\#(many)}"#
        _ = try client.ingest([OwlClient.event("ada", more: more)])
        let rows = try client.administrator("/onym/v1/people/claim_user_id:ada/timeline")["rows"] as? [[String: Any]]
        let attributes = (rows?.first?["body"] as? [String: Any])?["custom_attributes"] as? [String: String]
        #expect(attributes?.count == 62 && attributes?["long"] == String(repeating: "😀", count: 100))
        #expect(attributes?["_error_stack"] == long && attributes?["k7"] == "true")
    }

    @Test("takes gzip, and no more than it may inflate to")
    func gzip() throws {
        let client = try OwlClient(.memory)
        func send(_ body: [UInt8]) throws -> Wire.Answer {
            try client.http.call(
                "POST", "/v1/ingest",
                fields: [
                    ("Authorization", "Bearer \(client.clientKey)"), ("Content-Type", "application/json"),
                    ("Content-Encoding", "gzip"),
                ], body: body)
        }
        let body = #"{"bundle_id":"com.example.demo","events":[\#(OwlClient.event("ada"))]}"#
        #expect(try send(Gzip.deflate(Array(body.utf8))).body == #"{"accepted":1,"rejected":0}"#)
        #expect(try send(Array("garbage".utf8)).body.contains(#""code":"Z_DATA_ERROR""#))
        let bomb = try send(Gzip.deflate([UInt8](repeating: UInt8(ascii: " "), count: 2 << 20)))
        #expect(bomb.status == 413 && bomb.body.contains("Decompressed payload too large"))
    }

    @Test("keeps events of nobody in particular", arguments: StoreKind.allCases)
    func nobody(_ kind: StoreKind) throws {
        let client = try OwlClient(kind)
        #expect(try client.ingest([OwlClient.event(nil), OwlClient.event("")]).body == #"{"accepted":2,"rejected":0}"#)
        #expect(client.server.store.counts.people == 1 && client.server.store.counts.rows == 2)
    }

    @Test("imports events of any age with an import key", arguments: StoreKind.allCases)
    func imports(_ kind: StoreKind) throws {
        let client = try OwlClient(kind)
        let old = OwlClient.event("ada", "old", more: #","timestamp":"2001-01-01T00:00:00Z""#)
        let refused = try client.ingest([old], path: "/v1/import")
        #expect(refused.status == 403)
        #expect(refused.body == #"{"error":"This endpoint requires an import API key (owl_import_*)"}"#)
        let key = client.server.credentials.claimImportKey
        #expect(
            try client.ingest([old], path: "/v1/import", key: key).body == #"{"accepted":1,"updated":0,"rejected":0}"#)
        #expect(
            try client.ingest([old], path: "/v1/import", key: key).body == #"{"accepted":0,"updated":1,"rejected":0}"#)
        let person = try client.person("ada")
        #expect((person["counts"] as? [String: Int])?["event"] == 1)
        // By a claimed id too.
        _ = try client.claim("owl_anon_1", "ada")
        _ = try client.ingest([OwlClient.event("owl_anon_1", "older")], path: "/v1/import", key: key)
        #expect(try client.messages("ada") == ["older", "old"])
    }

    @Test("holds a key to the vendor's limit")
    func rate() throws {
        let server = try TestServer(.memory) { $0.rates = .init() }
        let client = OwlClient(server)
        var statuses: [Int] = []
        for _ in 0..<130 { statuses.append(try client.ingest([OwlClient.event("ada")]).status) }
        #expect(statuses.prefix(100).allSatisfy { $0 == 200 } && statuses.contains(429))
        let answer = try client.ingest([OwlClient.event("ada")])
        if answer.status == 429 {
            #expect(answer.body == #"{"error":"Rate limit exceeded"}"# && answer["Retry-After"] == "1")
        }
        #expect(try client.claim("owl_anon_1", "ada").status == 200, "claims are not limited")
    }
}
