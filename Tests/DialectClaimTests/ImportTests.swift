import Foundation
import TestKit
import Testing

/// Imports of known events (spec/claim-reads.md 1): the newest content and the newest user stand, in every read.
@Suite("Imports of known events")
struct ImportTests {
    private struct Importer {
        let client: OwlClient
        let clock: ManualClock
        let project: String

        init(_ kind: StoreKind) throws {
            let clock = ManualClock(1_781_262_000_000)
            self.clock = clock
            client = OwlClient(try TestServer(kind) { $0.clock = { clock.now } })
            project = try client.project()
        }

        var key: String { client.server.credentials.claimImportKey }

        func event(_ user: String?, _ message: String, _ id: String, _ more: String = "", level: String = "info")
            -> String
        {
            let at = #","timestamp":"2026-06-12T10:00:00.000Z""#
            return OwlClient.event(user, message, id: id, more: at + more)
                .replacing(#""level":"info""#, with: #""level":"\#(level)""#)
        }

        @discardableResult func send(_ events: [String]) throws -> String {
            try client.ingest(events, bundle: nil, path: "/v1/import", key: key).body
        }

        func read(_ path: String, _ name: String) throws -> [[String: Any]] {
            let separator = path.contains("?") ? "&" : "?"
            return try client.agent("\(path)\(separator)data_mode=all")[name] as? [[String: Any]] ?? []
        }

        func events(_ query: String = "") throws -> [[String: Any]] { try read("/v1/events?\(query)", "events") }

        func count(_ user: String) throws -> Int? {
            try client.agent("/v1/events/count?data_mode=all&user_id=\(user)")["count"] as? Int
        }

        func metric(_ slug: String) throws -> [[String: Any]] {
            try read("/v1/projects/\(project)/metrics/\(slug)/events", "events")
        }
    }

    static func id(_ number: Int) -> String { "aaaaaaaa-0000-4000-8000-0000000000\(number < 10 ? "0" : "")\(number)" }

    @Test("an update replaces the content and moves the event from user to user", arguments: StoreKind.allCases)
    func moves(_ kind: StoreKind) throws {
        let importer = try Importer(kind)
        let (client, id) = (importer.client, ImportTests.id(1))
        let more = #","screen_name":"Shop","app_version":"1.0","preferred_language":"de","custom_attributes":{"a":"1"}"#
        let fields = [
            ("Authorization", "Bearer \(client.clientKey)"), ("CF-IPCountry", "DE"),
        ]
        _ = try client.http.call(
            "POST", "/v1/ingest", fields: fields,
            json: #"{"bundle_id":"com.example.demo","events":[\#(importer.event("ada", "first", id, more))]}"#)
        let before = try #require(try importer.events().first)
        importer.clock.advance(milliseconds: 60_000)
        let other = importer.event("bob", "second", id.uppercased(), #","preferred_language":"fr","is_dev":true"#)
            .replacing("10:00:00", with: "09:00:00")
        #expect(try importer.send([other]) == #"{"accepted":0,"updated":1,"rejected":0}"#)
        let shown = try importer.events()
        let after = try #require(shown.first)
        #expect(shown.count == 1)
        for name in [
            "id", "timestamp", "received_at", "client_event_id", "app_id", "api_key_id", "country_code",
            "preferred_language",
        ] {
            #expect(after[name] as? String == before[name] as? String && before[name] is String, "\(name)")
        }
        #expect(after["message"] as? String == "second" && after["user_id"] as? String == "bob")
        for name in ["screen_name", "app_version", "custom_attributes"] { #expect(after[name] is NSNull, "\(name)") }
        #expect(after["is_dev"] as? Bool == true)
        #expect(try importer.count("ada") == 0 && importer.count("bob") == 1)
        #expect(try importer.events("user_id=ada").isEmpty && importer.events("user_id=bob").count == 1)
        #expect(try client.person("ada")["counts"] as? [String: Int] == [:])
        #expect(try client.person("bob")["counts"] as? [String: Int] == ["event": 1])
        let number = try #require(before["id"] as? String)
        let one = try client.agent("/v1/events/\(number)")
        #expect(one["message"] as? String == "second" && one["id"] as? String == number)
        // The same content again writes nothing.
        let calls = client.server.store.counts.lastSequence
        #expect(try importer.send([other]) == #"{"accepted":0,"updated":1,"rejected":0}"#)
        #expect(client.server.store.counts.lastSequence == calls)
        // The rows of the later versions are no events of their own.
        for row in 1...Int(client.server.store.counts.rows) {
            let digits = String(row, radix: 16)
            let candidate = number.dropLast(digits.count) + digits
            let answer = try client.call(
                "GET", "/v1/events/\(candidate)", key: client.server.credentials.claimAgentKey)
            #expect((answer.status == 200) == (candidate == number), "\(candidate)")
        }
        // What an app sends again stays as it is.
        _ = try client.ingest([importer.event("eve", "third", id)])
        #expect(try importer.events().map { $0["message"] as? String } == ["second"])
        #expect(try importer.send([importer.event("ada", "fourth", id)]).contains(#""updated":1"#))
        #expect(try importer.count("ada") == 1 && importer.count("bob") == 0)
        #expect(try importer.events().first?["received_at"] as? String == before["received_at"] as? String)
    }

    @Test("an update replaces each member that it may replace, also by nothing", arguments: StoreKind.allCases)
    func eachMember(_ kind: StoreKind) throws {
        let importer = try Importer(kind)
        let texts = [
            "source_module", "screen_name", "environment", "os_version", "app_version", "sdk_name", "sdk_version",
            "device_model", "build_number", "locale",
        ]
        /// The members that each event has, with some more.
        func event(_ value: String, _ session: Int, _ level: String, _ more: [String: String]) -> [String: String] {
            let session = "00000000-0000-4000-8000-00000000000\(session)"
            return ["message": value, "session_id": session, "level": level, "user_id": value].merging(more) { $1 }
        }
        func send(_ members: [String: String], _ more: String) throws {
            let pairs = members.map { #""\#($0.key)":"\#($0.value)""# }.joined(separator: ",")
            try importer.send([#"{"client_event_id":"\#(ImportTests.id(1))",\#(pairs)\#(more)}"#])
        }
        for (value, environment) in [("a", "ios"), ("b", "macos")] {
            var members = Dictionary(uniqueKeysWithValues: texts.map { ($0, "\(value)-\($0.count)") })
            members["environment"] = environment
            members = event(value, value == "a" ? 1 : 2, value == "a" ? "info" : "error", members)
            let isDevelopment = value == "b"
            try send(members, #","custom_attributes":{"k":"\#(value)"},"is_dev":\#(isDevelopment)"#)
            let shown = try #require(try importer.events().first)
            for (name, text) in members { #expect(shown[name] as? String == text, "\(name)") }
            #expect(shown["custom_attributes"] as? [String: String] == ["k": value])
            #expect(shown["is_dev"] as? Bool == isDevelopment)
        }
        let bare = event("c", 3, "debug", [:])
        try send(bare, "")
        let shown = try #require(try importer.events().first)
        for (name, text) in bare { #expect(shown[name] as? String == text, "\(name)") }
        for name in texts + ["custom_attributes"] { #expect(shown[name] is NSNull, "\(name)") }
        #expect(try shown["is_dev"] as? Bool == false && importer.events().count == 1)
    }

    @Test("measurements, steps and issues are views of their event", arguments: StoreKind.allCases)
    func views(_ kind: StoreKind) throws {
        let importer = try Importer(kind)
        let client = importer.client
        let (measured, stepped, failed) = (ImportTests.id(1), ImportTests.id(2), ImportTests.id(3))
        func occurrences() throws -> [[Int?]] {
            try importer.read("/v1/issues", "issues").map {
                [$0["occurrence_count"] as? Int, $0["unique_user_count"] as? Int]
            }
        }
        func issueUsers() throws -> [String?] {
            guard let issue = try importer.read("/v1/issues", "issues").first?["id"] as? String else { return [] }
            let detail = try client.agent("/v1/projects/\(importer.project)/issues/\(issue)")
            let rows = detail["occurrences"] as? [[String: Any]] ?? []
            return rows.map { $0["user_id"] as? String }
        }
        try importer.send([
            importer.event("ada", "metric:a:start", measured), importer.event("ada", "plain", stepped),
            importer.event("ada", "It broke", failed, level: "error"),
        ])
        #expect(try importer.metric("a").count == 1 && occurrences() == [[1, 1]])

        try importer.send([importer.event("bob", "metric:b:complete", measured)])
        #expect(try importer.metric("a").isEmpty)
        #expect(try importer.metric("b").map { $0["user_id"] as? String } == ["bob"])
        #expect(try importer.metric("b").first?["received_at"] as? String == "2026-06-12T11:00:00.000Z")
        try importer.send([importer.event("bob", "plain", measured)])
        #expect(try importer.metric("b").isEmpty)
        try importer.send([importer.event("bob", "metric:b:fail", measured)])
        #expect(try importer.metric("b").map { $0["phase"] as? String } == ["fail"])

        let funnel = #"{"name":"F","slug":"f","steps":[{"name":"Paid","event_filter":{"step_name":"paid"}}]}"#
        let made = try client.call(
            "POST", "/v1/projects/\(importer.project)/funnels", funnel, key: client.server.credentials.claimAgentKey)
        #expect(made.status == 201, "\(made)")
        func paid() throws -> Int? {
            let answer = try client.agent("/v1/projects/\(importer.project)/funnels/f/query?data_mode=all")
            return (answer["analytics"] as? [String: Any])?["total_users"] as? Int
        }
        #expect(try paid() == 0)
        try importer.send([importer.event("ada", "step:paid", stepped)])
        #expect(try paid() == 1)
        try importer.send([importer.event("bob", "step:other", stepped)])
        #expect(try paid() == 0)

        // The error moves to another user, ends, and comes back.
        try importer.send([importer.event("bob", "It broke", failed, level: "error")])
        #expect(try occurrences() == [[1, 1]] && issueUsers() == ["bob"])
        // A second error of the session is behind the same occurrence.
        try importer.send([importer.event("ada", "It broke", ImportTests.id(4), level: "error")])
        #expect(try occurrences() == [[1, 1]] && issueUsers() == ["bob"])
        try importer.send([importer.event("bob", "It broke", failed)])
        #expect(try occurrences() == [[1, 1]])
        try importer.send([importer.event("ada", "It broke", ImportTests.id(4))])
        #expect(try occurrences().isEmpty)
        try importer.send([importer.event("eve", "It broke", failed, level: "error")])
        #expect(try occurrences() == [[1, 1]] && issueUsers() == ["eve"])
        // A corrected error has the issue of its new message.
        try importer.send([importer.event("eve", "It differs", failed, level: "error")])
        #expect(try occurrences() == [[1, 1]] && issueUsers() == ["eve"])
        #expect(try importer.read("/v1/issues", "issues").map { $0["title"] as? String } == ["It differs"])
        try importer.send([importer.event("eve", "It differs", failed)])
        #expect(try occurrences().isEmpty)
        // Two errors of one session move together, and their occurrence with them.
        for user in ["ada", "bob"] {
            try importer.send(
                [failed, ImportTests.id(4)].map { importer.event(user, "It broke", $0, level: "error") })
            #expect(try occurrences() == [[1, 1]] && issueUsers() == [user])
        }
    }

    @Test("a claim counts the rows that updates leave, and an undo gives them back", arguments: StoreKind.allCases)
    func claims(_ kind: StoreKind) throws {
        let importer = try Importer(kind)
        let client = importer.client
        try importer.send((1...3).map { importer.event("owl_anon_1", "m\($0)", ImportTests.id($0)) })
        try importer.send([importer.event("bob", "m1", ImportTests.id(1))])
        #expect(try client.claim("owl_anon_1", "ada").body == #"{"claimed":true,"events_reassigned_count":2}"#)
        #expect(try [importer.count("ada"), importer.count("bob")] == [2, 1])
        // Into a claimed id, out of it, and to the known user itself.
        try importer.send([
            importer.event("owl_anon_1", "m1", ImportTests.id(1)), importer.event("bob", "m2", ImportTests.id(2)),
            importer.event("ada", "m3", ImportTests.id(3)),
        ])
        #expect(try [importer.count("ada"), importer.count("bob"), importer.count("owl_anon_1")] == [2, 1, 0])
        try client.undoClaim("ada")
        #expect(try [importer.count("ada"), importer.count("bob"), importer.count("owl_anon_1")] == [1, 1, 1])
        #expect(try importer.events("user_id=owl_anon_1").map { $0["message"] as? String } == ["m1"])
        #expect(try importer.events("user_id=ada").map { $0["message"] as? String } == ["m3"])
        // An erased user takes its rows along, and none of the rows that it has lost.
        let person = try #require(try client.person("bob")["id"] as? String)
        _ = try client.call("DELETE", "/onym/v1/people/\(person)", key: client.server.credentials.adminKey)
        #expect(try importer.events().compactMap { $0["message"] as? String }.sorted() == ["m1", "m3"])
        // The id of an erased event is new again, and the erased user's old events stay away.
        #expect(
            try importer.send([importer.event("eve", "again", ImportTests.id(2))])
                == #"{"accepted":1,"updated":0,"rejected":0}"#)
        try importer.send([importer.event("bob", "late", ImportTests.id(1))])
        #expect(try importer.count("bob") == 0 && importer.count("owl_anon_1") == 1)
    }

    @Test(
        "an erased user's old event is in none of the numbers, also twice in a batch", arguments: StoreKind.allCases)
    func erasedTwice(_ kind: StoreKind) throws {
        let importer = try Importer(kind)
        let (client, id) = (importer.client, ImportTests.id(1))
        try importer.send([importer.event("ada", "first", ImportTests.id(2))])
        let person = try #require(try client.person("ada")["id"] as? String)
        _ = try client.call("DELETE", "/onym/v1/people/\(person)", key: client.server.credentials.adminKey)
        #expect(
            try importer.send([importer.event("ada", "old", id), importer.event("ada", "older", id)])
                == #"{"accepted":0,"updated":0,"rejected":0}"#)
        // The last event stands, and it is another user's.
        #expect(
            try importer.send([importer.event("ada", "old", id), importer.event("bob", "own", id)])
                == #"{"accepted":1,"updated":0,"rejected":0}"#)
        #expect(try importer.events().map { $0["message"] as? String } == ["own"])
        // An event that is dropped replaces none: the last event of another user stands, new and known.
        let other = ImportTests.id(3)
        let (before, after) = (importer.event("ada", "old", other), importer.event("ada", "older", other))
        #expect(
            try importer.send([before, importer.event("bob", "metric:kept:start", other), after])
                == #"{"accepted":1,"updated":0,"rejected":0}"#)
        #expect(try importer.metric("kept").map { $0["user_id"] as? String } == ["bob"])
        let corrected = importer.event("bob", "metric:kept:fail", other)
        #expect(
            try importer.send([importer.event("eve", "a", other), corrected, after])
                == #"{"accepted":0,"updated":2,"rejected":0}"#)
        #expect(try importer.metric("kept").map { $0["phase"] as? String } == ["fail"])
        #expect(try importer.events("user_id=bob").count == 2 && importer.events().count == 2)
        #expect(
            try importer.send([importer.event("bob", "new", id), importer.event("bob", "newer", id)])
                == #"{"accepted":0,"updated":2,"rejected":0}"#)
    }

    @Test(
        "an import knows an event at any time, and so does an upload of an event that happened before",
        arguments: StoreKind.allCases)
    func anyTime(_ kind: StoreKind) throws {
        let importer = try Importer(kind)
        let client = importer.client
        try importer.send([importer.event("ada", "first", ImportTests.id(1))])
        _ = try client.ingest([importer.event("ada", "sent", ImportTests.id(2))])
        for day in 1...12 {
            importer.clock.advance(milliseconds: 12 * 3_600_000)
            _ = try client.ingest([OwlClient.event("eve", "later \(day)")])
        }
        #expect(
            try importer.send([importer.event("bob", "second", ImportTests.id(1))])
                == #"{"accepted":0,"updated":1,"rejected":0}"#)
        let again = try client.ingest([importer.event("ada", "repeated", ImportTests.id(2))])
        #expect(again.body == #"{"accepted":0,"rejected":0}"#)
        // Memory alone knows an event that comes with a new time. Only the embedded store forgets by the time.
        let isKept = kind == .sqlite
        let new = try client.ingest([OwlClient.event("ada", "again", id: ImportTests.id(2))])
        #expect(new.body == #"{"accepted":\#(isKept ? 1 : 0),"rejected":0}"#)
        #expect(try importer.events("user_id=bob").map { $0["message"] as? String } == ["second"])
        let shown = try importer.events("user_id=ada").compactMap { $0["message"] as? String }.sorted()
        #expect(shown == (isKept ? ["again", "sent"] : ["sent"]))
    }

    @Test("an erasure leaves no earlier version of an event", arguments: StoreKind.allCases)
    func erasure(_ kind: StoreKind) throws {
        let importer = try Importer(kind)
        let client = importer.client
        let (secret, id) = ("metric:mustleavethestore:start", ImportTests.id(1))
        try importer.send([importer.event("ada", secret, id)])
        try importer.send([importer.event("bob", "plain", id)])
        #expect(try client.person("ada")["counts"] as? [String: Int] == [:])
        if kind == .sqlite { #expect(try client.server.storeBytes().contains(Data("mustleavethestore".utf8))) }
        let person = try #require(try client.person("bob")["id"] as? String)
        _ = try client.call("DELETE", "/onym/v1/people/\(person)", key: client.server.credentials.adminKey)
        #expect(try importer.events().isEmpty && importer.metric("mustleavethestore").isEmpty)
        guard kind != .memory else { return }
        try Patience.until {
            importer.clock.advance(milliseconds: 20)
            return try !client.server.storeBytes().contains(Data("mustleavethestore".utf8))
        }
        #expect(try !client.server.storeBytes().contains(Data("mustleavethestore".utf8)))
    }

    @Test("imports, uploads and claims at once make no event twice", arguments: StoreKind.allCases)
    func atOnce(_ kind: StoreKind) throws {
        let importer = try Importer(kind)
        let (server, key) = (importer.client.server, importer.key)
        for round in 0..<min(1000, 20 * Soak.factor) {
            let ids = (0..<4).map { _ in UUID().uuidString }
            let call: @Sendable (Int, OwlClient) throws -> Int = { number, client in
                let user = "\(number == 2 ? "owl_anon_" : "u")\(round)"
                let events = ids.map { OwlClient.event(user, "\(number)", id: $0) }
                switch number {
                case 0: return try client.claim("owl_anon_\(round)", "u\(round)").status
                case 1: return try client.ingest(events).status
                default: return try client.ingest(events, bundle: nil, path: "/v1/import", key: key).status
                }
            }
            let crowd = Crowd(of: 6, client: { OwlClient(server) }, http: \.http, call)
            #expect(crowd.faults.isEmpty && Set(crowd.results) == [200], "\(crowd.results)")
            let shown = try importer.events("user_id=u\(round)")
            #expect(shown.count == 4 && Set(shown.compactMap { $0["client_event_id"] as? String }).count == 4)
            #expect(try importer.count("u\(round)") == 4)
        }
    }

    @Test("an attachment without a user follows its event", arguments: StoreKind.allCases)
    func attachments(_ kind: StoreKind) throws {
        let importer = try Importer(kind)
        let (client, id) = (importer.client, ImportTests.id(1))
        for user in ["", #""user_id":"ada","#] {
            let reserved = try client.call(
                "POST", "/v1/ingest/attachment",
                #"""
                {"client_event_id":"\#(id)",\#(user)"original_filename":"log.txt","content_type":"text/plain",\#
                "size_bytes":3,"sha256":"\#(String(repeating: "a", count: 64))"}
                """#)
            #expect(reserved.status == 201, "\(reserved)")
        }
        func shown() throws -> [[String?]] {
            try importer.read("/v1/attachments", "attachments").map {
                [$0["user_id"] as? String, $0["event_id"] as? String, $0["issue_id"] is String ? "issue" : nil]
            }
        }
        try importer.send([importer.event("bob", "It broke", id, level: "error")])
        let event = try #require(try importer.events().first?["id"] as? String)
        #expect(try shown() == [["ada", event, "issue"], ["bob", event, "issue"]])
        #expect(try importer.read("/v1/attachments?event_id=\(event)", "attachments").count == 2)
        try importer.send([importer.event("eve", "well", id)])
        #expect(try importer.read("/v1/attachments?event_id=\(event)", "attachments").count == 2)
        #expect(try shown() == [["ada", event, nil], ["eve", event, nil]])
        let usage = { (user: String) throws -> Int? in
            let path = "/v1/projects/\(importer.project)/attachment-usage?user_id=\(user)"
            return try client.agent(path)["user_used_bytes"] as? Int
        }
        #expect(try [usage("bob"), usage("eve"), usage("ada")] == [0, 3, 3])
    }

    @Test(
        "lists of this dialect have no event of the IDSync dialect, whatever the event says",
        arguments: StoreKind.allCases)
    func foreign(_ kind: StoreKind) throws {
        let importer = try Importer(kind)
        let (client, credentials) = (importer.client, importer.client.server.credentials)
        func post(_ path: String, _ body: String) throws -> Wire.Answer {
            let pair = Data("\(credentials.idsyncKey):\(credentials.idsyncSecret)".utf8).base64EncodedString()
            return try client.http.call("POST", path, fields: [("Authorization", "Basic \(pair)")], json: body)
        }
        let known = try post(
            "/v1/identify",
            #"""
            {"client_sdk":{"platform":"ios","sdk_vendor":"mparticle","sdk_version":"9.4.0"},"context":null,\#
            "environment":"development","request_timestamp_ms":1762457821105,"known_identities":{"customerid":"7"}}
            """#)
        let mpid = try #require(try OwlClient.json(known)["mpid"] as? String, "\(known)")
        try importer.send([importer.event("ada", "first", ImportTests.id(1))])
        let app = #""app_id":2,"level":"error","message":"It broke","session_id":"\#(OwlClient.session)""#
        // The id by which an import recognizes its event.
        let same = #""source_message_id":"2 \#(ImportTests.id(2))""#
        for number in ["-9223372036854775808", "9223372036854775807", "1"] {
            let more = #"\#(app),\#(same),"first_row":\#(number),"first_received_at":\#(number),"first_key":\#(number)"#
            for (path, body) in [
                ("/v2/events", #"{"mpid":"\#(mpid)","events":[{"event_type":"custom_event",\#(more)}]}"#),
                (
                    "/v2/\(credentials.idsyncKey)/events",
                    #"{"mpid":\#(mpid),"ct":100,"msgs":[{"dt":"e",\#(more)},{"et":"e",\#(more)},{\#(more)}]}"#
                ),
            ] {
                let answer = try post(path, body)
                #expect(answer.status == 202, "\(answer)")
            }
        }
        #expect(try importer.events().map { $0["message"] as? String } == ["first"])
        #expect(try client.agent("/v1/events/count?data_mode=all")["count"] as? Int == 1)
        #expect(
            try importer.send([importer.event("bob", "second", ImportTests.id(2))])
                == #"{"accepted":1,"updated":0,"rejected":0}"#)
        #expect(
            try importer.send([importer.event("bob", "third", ImportTests.id(2))])
                == #"{"accepted":0,"updated":1,"rejected":0}"#)
        #expect(Set(try importer.events().map { $0["message"] as? String }) == ["first", "third"])
    }
}
