import Compression
import Domain
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
        (#"{"message":7,"level":"info"}"#, "events[0]: message is required and must be a string"),
        (OwlClient.bare(#""timestamp":"2026-13-01""#), "timestamp must be a valid ISO 8601 date"),
        (OwlClient.bare(#""timestamp":"2026-11-21T10:""#), "timestamp must be a valid ISO 8601 date"),
        (OwlClient.bare(#""timestamp":"Sat, 21 Foo 2026 10:00:00 GMT""#), "timestamp must be a valid ISO 8601 date"),
        (OwlClient.bare(#""custom_attributes":{"a":"x\u0000"}"#), "custom_attributes.a must not hold a NUL character"),
        (OwlClient.bare(#""custom_attributes":{"a":[["\u0000"]]}"#), "custom_attributes.a must not hold a NUL"),
        (OwlClient.bare(#""custom_attributes":{"b\u0000":"x"}"#), "must not have a key with a NUL character"),
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

    static let readableDates: [(String, String)] = [
        ("2026-11-21", "2026-11-21T00:00:00.000Z"), ("2026-11", "2026-11-01T00:00:00.000Z"),
        ("2026", "2026-01-01T00:00:00.000Z"), ("2026-11-21T10:05", "2026-11-21T10:05:00.000Z"),
        ("2026-11-21T10:05Z", "2026-11-21T10:05:00.000Z"), ("2026-11-21T10:05+02:00", "2026-11-21T08:05:00.000Z"),
        ("2026-11-21T24:00:00Z", "2026-11-22T00:00:00.000Z"), ("2026-11-21T24:00", "2026-11-22T00:00:00.000Z"),
        ("Sat, 21 Nov 2026 10:00:00 GMT", "2026-11-21T10:00:00.000Z"),
        ("1 Nov 2026 10:00:00", "2026-11-01T10:00:00.000Z"),
    ]

    @Test("reads dates as the vendor's language does", arguments: readableDates)
    func dates(_ text: String, _ moment: String) throws {
        // 2026-11-22.
        let server = try TestServer(.memory) { $0.clock = { Instant(milliseconds: 1_795_305_600_000) } }
        let client = OwlClient(server)
        let body = #"{"bundle_id":"com.example.demo","events":[\#(OwlClient.bare(#""timestamp":"\#(text)""#))]}"#
        let answer = try client.call("POST", "/v1/import", body, key: server.credentials.claimImportKey)
        #expect(answer.body == #"{"accepted":1,"updated":0,"rejected":0}"#, "\(answer)")
        let read = try client.call("GET", "/v1/events?since=2000-01-01", key: server.credentials.claimAgentKey)
        #expect(read.body.contains(#""timestamp":"\#(moment)""#), "\(read)")
    }

    @Test("takes texts that were cut amid a character, as JavaScript writes them", arguments: StoreKind.allCases)
    func halves(_ kind: StoreKind) throws {
        let client = try OwlClient(kind)
        let events = [
            OwlClient.event("ada", #"a\ud83d"#), OwlClient.event("ada", #"\ude00\\ud83d\ud83d\ude00"#),
            OwlClient.event("ada", #"\uD83D\uD83D\uDE00b"#),
        ]
        #expect(try client.ingest(events).body == #"{"accepted":3,"rejected":0}"#)
        #expect(try client.messages("ada") == ["\u{FFFD}😀b", "\u{FFFD}\\ud83d😀", "a\u{FFFD}"])
        #expect(try client.properties("ada", #"{"a":"x\ud800"}"#).body.contains("\"a\":\"x\u{FFFD}\""))
        #expect(try client.ingest([#"{"a":"\ud83d"#]).status == 400)
        #expect(try client.ingest([#"{"a":"\ud8"}"#]).status == 400)
    }

    @Test("of several members with one name the last counts, custom_attributes among them")
    func lastMember() throws {
        let client = try OwlClient(.memory)
        let many = (0..<5000).map { #","custom_attributes":{"k\#($0)":"v"}"# }.joined()
        #expect(try client.ingest([OwlClient.event("ada", more: many)]).body == #"{"accepted":1,"rejected":0}"#)
        let page = try client.administrator("/onym/v1/people/claim_user_id:ada/timeline?kinds=event")
        let body = (page["rows"] as? [[String: Any]])?.first?["body"] as? [String: Any]
        #expect(body?["custom_attributes"] as? [String: String] == ["k4999": "v"])
    }

    @Test("an event's time is looked at before its environment")
    func order() throws {
        let client = try OwlClient(.memory)
        let event = OwlClient.bare(#""timestamp":"x","environment":"android""#)
        #expect(try client.ingest([event]).body.contains("timestamp must be a valid ISO 8601 date"))
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

    @Test("keeps an event once that is later than its upload, also after two days", arguments: StoreKind.allCases)
    func ahead(_ kind: StoreKind) throws {
        let clock = ManualClock(1_781_262_000_000)
        let client = OwlClient(try TestServer(kind) { $0.clock = { clock.now } })
        let hour: Int64 = 3_600_000
        // Memory forgets the uploads of twelve hours at once, and this event comes at their end.
        _ = try client.ingest([OwlClient.event("eve")])
        clock.advance(milliseconds: 12 * hour - 1000)
        let event = OwlClient.event("ada", more: #","timestamp":\#(clock.now.milliseconds + 300_000)"#)
        #expect(try client.ingest([event]).body == #"{"accepted":1,"rejected":0}"#)
        clock.advance(milliseconds: 1000)
        for _ in 0..<4 {
            _ = try client.ingest([OwlClient.event("eve")])
            clock.advance(milliseconds: 12 * hour)
        }
        _ = try client.ingest([OwlClient.event("eve")])
        #expect(try client.ingest([event]).body == #"{"accepted":0,"rejected":0}"#)
        #expect(try client.messages("ada").count == 1)
    }

    @Test("makes metrics and steps of what messages tell of", arguments: StoreKind.allCases)
    func derived(_ kind: StoreKind) throws {
        let client = try OwlClient(kind)
        let attributes =
            #","custom_attributes":{"duration_ms":"120.7","tracking_id":"\#(OwlClient.session)","n":null,"o":{},"l":[1,2]}"#
        for message in [
            "metric:photo-load:complete", "metric:a:b:start", "metric:Bad:start", "metric:x:pause", "metric:",
            "metric::start", "metric:\u{301}load:start", "metric:\u{200D}load:complete", "metric:a:\u{301}start",
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

    @Test(
        "writes numbers as the vendor's language does",
        arguments: [
            ("0.00001", "0.00001"), ("0.0000015", "0.0000015"), ("0.0000001", "1e-7"), ("-1.25e-9", "-1.25e-9"),
            ("1e16", "10000000000000000"), ("-1.5e17", "-150000000000000000"), ("1e20", "100000000000000000000"),
            ("1e21", "1e+21"), ("1.234e25", "1.234e+25"), ("100.0", "100"), ("-0.0", "0"), ("-0", "0"), ("0.1", "0.1"),
            ("123456.789", "123456.789"), ("5e-324", "5e-324"), ("1.7976931348623157e308", "1.7976931348623157e+308"),
            ("9007199254740993", "9007199254740993"),
        ])
    func numbers(_ sent: String, _ kept: String) throws {
        let client = try OwlClient(.memory)
        _ = try client.ingest([OwlClient.event("ada", more: #","custom_attributes":{"n":\#(sent)}"#)])
        let rows = try client.administrator("/onym/v1/people/claim_user_id:ada/timeline")["rows"] as? [[String: Any]]
        let attributes = (rows?.first?["body"] as? [String: Any])?["custom_attributes"] as? [String: String]
        #expect(attributes == ["n": kept])
    }

    @Test("keeps the last of attributes with one name, be they few or very many", arguments: [2, 40, 30_000])
    func repeatedAttributes(_ count: Int) throws {
        let client = try OwlClient(.memory)
        let names = (0..<count).map { "k\($0 % (count / 2))" }
        let members = names.enumerated().map { #""\#($1)":"\#($0)""# }.joined(separator: ",")
        let answer = try client.ingest([OwlClient.event("ada", more: #","custom_attributes":{\#(members)}"#)])
        #expect(answer.body.contains("\"accepted\":1"))
        let rows = try client.administrator("/onym/v1/people/claim_user_id:ada/timeline")["rows"] as? [[String: Any]]
        let attributes = (rows?.first?["body"] as? [String: Any])?["custom_attributes"] as? [String: String]
        #expect(attributes?.count == count / 2)
        #expect(attributes?["k0"] == "\(count / 2)" && attributes?["k\(count / 2 - 1)"] == "\(count - 1)")
    }

    @Test("knows users apart whose ids only look alike, within one upload as well", arguments: StoreKind.allCases)
    func lookAlikes(_ kind: StoreKind) throws {
        let client = try OwlClient(kind)
        let (one, other) = ("caf\u{e9}", "cafe\u{301}")
        _ = try client.ingest([OwlClient.event(one, "of one"), OwlClient.event(other, "of the other")])
        for (user, message) in [(one, "of one"), (other, "of the other")] {
            let name = user.utf8.map { "%" + String($0, radix: 16) }.joined()
            #expect(try client.messages(name) == [message])
        }
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

    @Test("an import names no app, and of two events with one id the last stands", arguments: StoreKind.allCases)
    func importsTwice(_ kind: StoreKind) throws {
        let client = try OwlClient(kind)
        let key = client.server.credentials.claimImportKey
        let id = UUID().uuidString
        func send(_ events: [String], bundle: String?) throws -> String {
            let bundle = bundle.map { #""bundle_id":"\#($0)","# } ?? ""
            let fields = [("Authorization", "Bearer \(key)"), ("CF-IPCountry", "DE")]
            return try client.http.call(
                "POST", "/v1/import", fields: fields,
                json: "{\(bundle)\"events\":[\(events.joined(separator: ","))]}"
            ).body
        }
        func event(_ user: String?, _ message: String, _ more: String = "") -> String {
            OwlClient.event(user, message, id: id, more: more)
        }
        // The first event is replaced, with its measurement.
        let first = [event("eve", "metric:load:start"), event("bob", "second", #","preferred_language":"de""#)]
        #expect(try send(first, bundle: nil) == #"{"accepted":1,"updated":1,"rejected":0}"#)
        func shown() throws -> [[String: Any]] {
            try client.agent("/v1/events?data_mode=all")["events"] as? [[String: Any]] ?? []
        }
        #expect(try shown().map { $0["message"] as? String } == ["second"])
        #expect(try shown().first?["user_id"] as? String == "bob" && shown().first?["country_code"] is NSNull)
        #expect(try client.person("bob")["counts"] as? [String: Int] == ["event": 1])
        // Every row touches its user, also a row that is replaced.
        let users = try client.agent("/v1/app-users?data_mode=all")["users"] as? [[String: Any]]
        #expect(Set(users?.compactMap { $0["user_id"] as? String } ?? []) == ["bob", "eve"])
        let again = [event("bob", "third"), event("bob", "fourth", #","preferred_language":"fr""#)]
        #expect(try send(again, bundle: "com.example.wrong") == #"{"accepted":0,"updated":2,"rejected":0}"#)
        #expect(try shown().map { $0["message"] as? String } == ["fourth"])
        #expect(try shown().first?["preferred_language"] as? String == "de", "an update keeps the language")
        #expect(try send([event("bob", "fourth")], bundle: nil) == #"{"accepted":0,"updated":1,"rejected":0}"#)
        let many = Array(repeating: "{}", count: 1001)
        #expect(try send(many, bundle: nil) == #"{"error":"Maximum import batch size is 1000"}"#)
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
