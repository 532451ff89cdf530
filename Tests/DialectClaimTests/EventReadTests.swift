import Domain
import Foundation
import TestKit
import Testing

/// The reads of events (spec/claim-reads.md 2), on every store.
@Suite("Events")
struct EventReadTests {
    private func get(_ client: OwlClient, _ path: String, key: String? = nil) throws -> Wire.Answer {
        try client.call("GET", path, key: key ?? client.server.credentials.claimAgentKey)
    }

    private func read(_ client: OwlClient, _ path: String) throws -> [String: Any] {
        let answer = try get(client, path)
        #expect(answer.status == 200, "\(path): \(answer)")
        return try JSONSerialization.jsonObject(with: Data(answer.body.utf8)) as? [String: Any] ?? [:]
    }

    private func messages(_ client: OwlClient, _ query: String) throws -> [String] {
        (try read(client, "/v1/events?data_mode=all&order=asc&\(query)")["events"] as? [[String: Any]] ?? [])
            .compactMap { $0["message"] as? String }
    }

    private func counts(_ client: OwlClient, _ query: String) throws -> [Int?] {
        let counts = try read(client, "/v1/events/count?data_mode=all&\(query)")
        return ["count", "unique_users", "unique_sessions"].map { counts[$0] as? Int }
    }

    private static let otherSession = "0F9619FF-8B86-D011-B42D-00CF4FC964AA"

    /// An event of 2026-06-12 at some second.
    private func event(_ user: String?, _ message: String, second: Int, _ more: String = "") -> String {
        let second = second < 10 ? "0\(second)" : "\(second)"
        return OwlClient.event(user, message, more: #","timestamp":"2026-06-12T10:00:\#(second).000Z"\#(more)"#)
    }

    /// A server at 2026-06-12 11:00 with five events of three users and one event without a user.
    private func client(_ kind: StoreKind) throws -> OwlClient {
        let server = try TestServer(kind) {
            $0.clock = { Instant.noon }
            $0.runs = TestServer.tinyRuns
        }
        let client = OwlClient(server)
        let sent = try client.ingest([
            event("ada", "a", second: 1, #","screen_name":"Shop","environment":"ios""#),
            event("ada", "b", second: 2, #","environment":"macos""#)
                .replacing(#""level":"info""#, with: #""level":"warn""#),
            event("owl_anon_1", "c", second: 3, #","screen_name":"Shop","is_dev":true"#),
            event("bob", "d", second: 4).replacing(OwlClient.session, with: EventReadTests.otherSession),
            event(nil, "e", second: 5).replacing(#""level":"info""#, with: #""level":"error""#),
        ])
        #expect(sent.body == #"{"accepted":5,"rejected":0}"#)
        return client
    }

    static let filterCases: [(String, [String])] = [
        ("", ["a", "b", "c", "d", "e"]), ("level=warn", ["b"]), ("level=warn,%20error,", ["b", "e"]),
        ("level=", ["a", "b", "c", "d", "e"]), ("level=%20,", ["a", "b", "c", "d", "e"]),
        ("user_id=ada", ["a", "b"]), ("user_id=owl_anon_1", ["c"]), ("user_id=nobody", []),
        ("session_id=0f9619ff-8b86-d011-b42d-00cf4fc964aa", ["d"]), ("session_id=x", []),
        ("environment=ios", ["a"]), ("environment=amiga", []), ("screen_name=Shop", ["a", "c"]),
        ("screen_name=shop", []), ("screen_name=Shop&user_id=ada", ["a"]), ("level=info&environment=macos", []),
        ("since=2026-06-12T10:00:03.000Z", ["c", "d", "e"]), ("until=2026-06-12T10:00:03.000Z", ["a", "b", "c"]),
        ("since=2026-06-12T10:00:02Z&until=2026-06-12T10:00:02Z", ["b"]),
        ("since=3599s", ["a", "b", "c", "d", "e"]), ("since=3597s", ["c", "d", "e"]), ("until=60m", []),
        ("since=99999999999999999999w", ["a", "b", "c", "d", "e"]), ("since=1w&until=1d", []),
        ("data_mode=production", ["a", "b", "d", "e"]), ("data_mode=development", ["c"]),
        ("data_mode=loud", ["a", "b", "d", "e"]), ("data_mode=", ["a", "b", "d", "e"]),
        ("app_id=x", []), ("project_id=x", []), ("team_id=x", []),
        ("team_id=6f6e796d-0006-8000-8000-000000000001", ["a", "b", "c", "d", "e"]),
        ("project_id=6f6e796d-0001-8000-8000-000000000001", ["a", "b", "c", "d", "e"]),
        ("app_id=6f6e796d-0002-8000-8000-000000000002&project_id=x", ["a", "b", "c", "d", "e"]),
        ("cursor=garbage", ["a", "b", "c", "d", "e"]), ("cursor=W10", ["a", "b", "c", "d", "e"]),
    ]

    @Test("each filter finds its rows, and the count counts the same rows", arguments: StoreKind.allCases)
    func filters(_ kind: StoreKind) throws {
        let client = try client(kind)
        for (query, expected) in EventReadTests.filterCases {
            // The first value of a parameter counts.
            let query = query.contains("data_mode") ? query : "data_mode=all&\(query)"
            let page = try read(client, "/v1/events?order=asc&\(query)")
            let found = (page["events"] as? [[String: Any]] ?? []).compactMap { $0["message"] as? String }
            #expect(found == expected, "\(query)")
            #expect(page["has_more"] as? Bool == false && page["cursor"] is NSNull, "\(query)")
            // A count has no pages.
            if query.contains("cursor") { continue }
            #expect(try read(client, "/v1/events/count?\(query)")["count"] as? Int == expected.count, "\(query)")
        }
        for (name, value) in [("cursor", "garbage"), ("limit", "1"), ("order", "asc"), ("screen", "s")] {
            let answer = try client.call(
                "GET", "/v1/events/count?\(name)=\(value)", key: client.server.credentials.claimAgentKey)
            #expect(
                answer.status == 400 && answer.body == #"{"error":"The call has no parameter \"\#(name)\"."}"#,
                "\(answer)")
        }
    }

    @Test("two filters together find the rows of both", arguments: StoreKind.allCases)
    func pairs(_ kind: StoreKind) throws {
        let client = try client(kind)
        // One value of each filter that finds some rows, and one that finds none.
        let single = EventReadTests.filterCases.filter { $0.0.split(separator: "=").count == 2 && !$0.0.contains("&") }
        func name(_ query: String) -> Substring { query.prefix { $0 != "=" } }
        var tried = 0
        for (place, (one, first)) in single.enumerated() {
            for (other, second) in single[(place + 1)...] where name(one) != name(other) {
                // A cursor is no filter, and an app makes the project of no effect.
                let names = [name(one), name(other)]
                if names.contains("cursor") || names == ["app_id", "project_id"] { continue }
                let mode = names.contains("data_mode") ? "" : "&data_mode=all"
                let query = "\(one)&\(other)\(mode)"
                let page = try read(client, "/v1/events?order=asc&\(query)")
                let found = (page["events"] as? [[String: Any]] ?? []).compactMap { $0["message"] as? String }
                let expected = first.filter(second.contains)
                #expect(found == expected, "\(query)")
                #expect(try read(client, "/v1/events/count?\(query)")["count"] as? Int == expected.count, "\(query)")
                tried += 1
            }
        }
        #expect(tried > 250, "\(tried) pairs")
    }

    static let refusedCases: [(String, String)] = [
        ("level=loud,info,x", "Unknown log level(s): loud, x. Allowed: info, debug, warn, error"),
        ("since=yesterday", "Invalid time input: \"yesterday\". Use relative (e.g. 1h, 30m, 7d) or ISO 8601 format."),
        ("until=7", "Invalid time input: \"7\". Use relative (e.g. 1h, 30m, 7d) or ISO 8601 format."),
        ("since=d", "Invalid time input: \"d\". Use relative (e.g. 1h, 30m, 7d) or ISO 8601 format."),
        ("since=-1d", "Invalid time input: \"-1d\". Use relative (e.g. 1h, 30m, 7d) or ISO 8601 format."),
    ]

    @Test("a filter that the server cannot read is refused in the list and in the count", arguments: refusedCases)
    func refuses(_ query: String, _ message: String) throws {
        let client = try OwlClient(.memory)
        for path in ["/v1/events", "/v1/events/count"] {
            let answer = try get(client, "\(path)?\(query)")
            let body = try JSONSerialization.jsonObject(with: Data(answer.body.utf8)) as? [String: String]
            #expect(answer.status == 400 && body == ["error": message], "\(answer)")
        }
    }

    static let limitCases: [(String, Int)] = [
        ("", 50), ("limit=0", 50), ("limit=x", 50), ("limit=-5", 1), ("limit=1", 1), ("limit=2.9", 2),
        ("limit=199", 199), ("limit=201", 200), ("limit=1e9", 200),
    ]

    @Test("a page has the events that its limit allows", arguments: limitCases)
    func limits(_ query: String, _ count: Int) throws {
        let client = try OwlClient(.memory)
        for _ in 0..<3 { _ = try client.ingest((0..<70).map { _ in OwlClient.event("ada") }) }
        let page = try read(client, "/v1/events?\(query)")
        #expect((page["events"] as? [Any])?.count == count && page["has_more"] as? Bool == true)
    }

    @Test("cursors pass 500 events of one moment, each once, and has_more is exact", arguments: StoreKind.allCases)
    func oneMoment(_ kind: StoreKind) throws {
        let server = try TestServer(kind) {
            $0.clock = { Instant.noon }
            $0.runs = TestServer.tinyRuns
        }
        let client = OwlClient(server)
        for batch in 0..<5 {
            _ = try client.ingest((0..<100).map { event("user-\($0 % 7)", "\(batch * 100 + $0)", second: 1) })
        }
        var orders: [[String]] = []
        for (order, user, total) in [("asc", "", 500), ("desc", "", 500), ("desc", "&user_id=user-3", 70)] {
            var (query, seen, pages): (String, [String], Int) = ("", [], 0)
            while pages < 100 {
                let page = try read(client, "/v1/events?limit=50&order=\(order)\(user)\(query)")
                seen += (page["events"] as? [[String: Any]] ?? []).compactMap { $0["message"] as? String }
                pages += 1
                guard page["has_more"] as? Bool == true else {
                    #expect(page["cursor"] is NSNull)
                    break
                }
                query = "&cursor=\(try #require(page["cursor"] as? String))"
            }
            #expect(seen.count == total && Set(seen).count == total && pages == (total + 49) / 50)
            orders.append(seen)
        }
        #expect(orders[0] == orders[1].reversed())
    }

    @Test("an event has all members, also in the call for one event", arguments: StoreKind.allCases)
    func members(_ kind: StoreKind) throws {
        let client = try client(kind)
        let all = [
            "id", "app_id", "client_event_id", "session_id", "user_id", "api_key_id", "level", "source_module",
            "message", "screen_name", "custom_attributes", "environment", "os_version", "app_version", "sdk_name",
            "sdk_version", "device_model", "build_number", "locale", "preferred_language", "country_code", "is_dev",
            "timestamp", "received_at",
        ]
        let page = try read(client, "/v1/events?limit=1&user_id=ada")
        let event = try #require((page["events"] as? [[String: Any]])?.first)
        #expect(Set(event.keys) == Set(all))
        #expect(event["timestamp"] as? String == "2026-06-12T10:00:02.000Z")
        #expect(event["received_at"] as? String == "2026-06-12T11:00:00.000Z")
        #expect(event["session_id"] as? String == OwlClient.session && event["source_module"] is NSNull)
        let keys = try read(client, "/v1/auth/keys")["api_keys"] as? [[String: Any]] ?? []
        let own = keys.first { $0["key_type"] as? String == "client" }?["id"] as? String
        #expect(event["api_key_id"] as? String == own && own != nil)

        let id = try #require(event["id"] as? String)
        let eventID = try #require(event["client_event_id"] as? String)
        let reserved = try client.call(
            "POST", "/v1/ingest/attachment",
            #"""
            {"client_event_id":"\#(eventID.lowercased())","original_filename":"log.txt","content_type":"text/plain",\#
            "size_bytes":3,"sha256":"\#(String(repeating: "a", count: 64))"}
            """#)
        #expect(reserved.status == 201, "\(reserved)")
        let one = try read(client, "/v1/events/\(id.uppercased())")
        #expect(Set(one.keys) == Set(all + ["project_id", "attachments"]))
        #expect(one["message"] as? String == "b" && one["api_key_id"] as? String == own)
        let attachment = try #require((one["attachments"] as? [[String: Any]])?.first)
        #expect(
            Set(attachment.keys) == ["id", "original_filename", "content_type", "size_bytes", "uploaded_at"]
                && attachment["uploaded_at"] is NSNull && attachment["size_bytes"] as? Int == 3)
        // Any data mode.
        let development = try read(client, "/v1/events?data_mode=development")["events"] as? [[String: Any]]
        let other = try #require(development?.first?["id"] as? String)
        #expect(try read(client, "/v1/events/\(other)")["is_dev"] as? Bool == true)
        for unknown in ["x", "6f6e796d-0005-8000-8000-0000000fffff", "6f6e796d-0002-8000-8000-000000000002"] {
            let answer = try get(client, "/v1/events/\(unknown)")
            #expect(answer.status == 404 && answer.body == #"{"error":"Event not found"}"#)
        }
        #expect(try get(client, "/v1/events/\(id)", key: client.clientKey).status == 403)
    }

    @Test("a claimed id answers nothing, until an undo", arguments: StoreKind.allCases)
    func claimed(_ kind: StoreKind) throws {
        let client = try client(kind)
        #expect(try counts(client, "") == [5, 3, 2])
        _ = try client.claim("owl_anon_1", "ada")
        #expect(try counts(client, "user_id=owl_anon_1") == [0, 0, 0])
        #expect(try counts(client, "user_id=ada") == [3, 1, 1])
        #expect(try counts(client, "") == [5, 2, 2])
        #expect(try messages(client, "user_id=owl_anon_1").isEmpty)
        #expect(try messages(client, "user_id=ada") == ["a", "b", "c"])
        try client.undoClaim("ada")
        #expect(try messages(client, "user_id=owl_anon_1") == ["c"])
        #expect(try messages(client, "user_id=ada") == ["a", "b"])
        #expect(try counts(client, "user_id=owl_anon_1") == [1, 1, 1])
    }

    @Test("counts over the shown ids add up, whatever an administrator has merged", arguments: StoreKind.allCases)
    func shownIDs(_ kind: StoreKind) throws {
        let client = try client(kind)
        _ = try client.claim("owl_anon_1", "ada")
        let ids = try ["ada", "bob"].map { try #require(try client.person($0)["id"] as? String) }
        let merged = try client.call(
            "POST", "/onym/v1/merges", #"{"from":"\#(ids[0])","into":"\#(ids[1])"}"#,
            key: client.server.credentials.adminKey)
        #expect(merged.status < 300, "\(merged)")
        let events = try read(client, "/v1/events?data_mode=all")["events"] as? [[String: Any]] ?? []
        let shown = Dictionary(grouping: events) { $0["user_id"] as? String ?? "" }.mapValues(\.count)
        #expect(shown.values.reduce(0, +) == 5 && shown.count == 2)
        for user in ["ada", "bob", "owl_anon_1"] {
            #expect(try counts(client, "user_id=\(user)")[0] == shown[user] ?? 0, "\(user)")
            #expect(try messages(client, "user_id=\(user)").count == shown[user] ?? 0, "\(user)")
        }
    }

    @Test("an administrator's key reads, and a DELETE may name JSON without a body")
    func keys() throws {
        let client = try client(.memory)
        let admin = client.server.credentials.adminKey
        #expect(try get(client, "/v1/events?data_mode=all", key: admin).body.contains(#""message":"a""#))
        #expect(try get(client, "/v1/events", key: "onym_admin_x").body == #"{"error":"Invalid API key"}"#)
        let fields = [("Authorization", "Bearer \(admin)"), ("Content-Type", "application/json")]
        let deleted = try client.http.call("DELETE", "/v1/attachments/x", fields: fields)
        #expect(deleted.status == 404, "\(deleted)")
        let posted = try client.http.call("POST", "/v1/ingest", fields: fields)
        #expect(posted.status == 400 && posted.body.contains("FST_ERR_CTP_EMPTY_JSON_BODY"))
    }
}

extension Instant {
    /// 2026-06-12 11:00 UTC.
    fileprivate static let noon = Instant(milliseconds: 1_781_262_000_000)
}
