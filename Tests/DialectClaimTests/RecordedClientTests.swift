import ByteText
import Crypto
import Foundation
import Gateway
import TestKit
import Testing
import Threads

/// Sessions of the vendor's Node and Android clients, in the shape in which these clients send them (spec/claim.md 3.2, 3.3).
@Suite("Recorded exchanges of the Node and Android clients")
struct RecordedClientTests {
    /// An app of the project, and a server whose commits may fail.
    private struct Place {
        let owl: OwlClient
        let app: String
        let key: String
        let failing: FailingStore

        init(_ kind: StoreKind, platform: String, bundleID: String?, rates: RateLimits = .off) throws {
            let store = Monitor<FailingStore?>(nil)
            let server = try TestServer(
                kind, configure: { $0.rates = rates },
                wrap: { inner in
                    let wrapped = FailingStore(inner)
                    store.withLock { $0 = wrapped }
                    return wrapped
                })
            owl = OwlClient(server)
            failing = try #require(store.withLock { $0 })
            let bundle = bundleID.map { #","bundle_id":"\#($0)""# } ?? ""
            let made = JSONAnswer(
                try owl.call(
                    "POST", "/v1/apps",
                    #"{"name":"App","platform":"\#(platform)","project_id":"\#(try owl.project())"\#(bundle)}"#,
                    key: server.credentials.claimAgentKey))
            (app, key) = (try #require(made.text("id")), try #require(made.text("client_secret")))
        }

        /// All events of a read, page by page.
        func events(_ query: String) throws -> [[String: Any]] {
            var (found, cursor): ([[String: Any]], String?) = ([], nil)
            repeat {
                let page = try owl.agent("/v1/events?\(query)" + (cursor.map { "&cursor=\($0)" } ?? ""))
                found += page["events"] as? [[String: Any]] ?? []
                cursor = page["cursor"] as? String
            } while cursor != nil
            return found
        }
    }

    /// An event with the members of a client; a nil member is left out, as the clients do.
    private static func event(
        _ kind: OwlTransport.Kind, _ message: String, user: String?, session: String, at: Date = .now,
        level: String = "info", attributes: [String: String] = [:], isDevelopment: Bool = false
    ) throws -> (id: String, members: [String: Any], json: String) {
        let id = UUID().uuidString.lowercased()
        var members: [String: Any] = [
            "client_event_id": id, "session_id": session, "level": level, "message": message,
            "is_dev": isDevelopment,
            "timestamp": at.formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true)),
        ]
        members["user_id"] = user
        switch kind {
        case .node:
            members.merge(
                [
                    "environment": "backend", "sdk_name": "owlmetry-node", "sdk_version": "0.2.0",
                    "source_module": "orders.js:12", "app_version": "2.4.0",
                ]) { $1 }
            if !attributes.isEmpty { members["custom_attributes"] = attributes }
        case .android:
            let system = ["_file": "Cart.kt", "_function": "pay", "_line": "42", "_connection": "wifi"]
            members.merge(
                [
                    "environment": "android", "sdk_name": "owlmetry-android", "sdk_version": "0.1.1",
                    "source_module": "Cart.kt:pay:42", "app_version": "3.1.0", "build_number": "310",
                    "os_version": "15", "device_model": "Pixel 9", "locale": "de_DE", "preferred_language": "de-DE",
                    "supported_languages": ["de", "en"], "screen_name": "Cart",
                    "custom_attributes": attributes.merging(system) { $1 },
                ]) { $1 }
        }
        let bytes = try JSONSerialization.data(withJSONObject: members, options: .sortedKeys)
        return (id, members, String(decoding: bytes, as: UTF8.self))
    }

    /// Whether a row of a read says what the client sent.
    private func compare(_ row: [String: Any], _ sent: [String: Any], user: String?) {
        // The languages belong to the app.
        for (name, value) in sent where name != "supported_languages" && name != "user_id" {
            #expect((row[name] as? NSObject) == (value as? NSObject), "\(name): \(row[name] ?? "none")")
        }
        #expect(row["user_id"] as? String == user)
    }

    /// Announces a file and sends it to the address of the answer.
    private func attach(_ text: String, to event: String, as user: String, _ transport: inout OwlTransport) throws {
        let bytes = Array(text.utf8)
        let digest = Hexadecimal.encode(SHA256.digest(of: bytes).bytes)
        let announced = JSONAnswer(
            try transport.post(
                "/v1/ingest/attachment",
                """
                {"client_event_id":"\(event)","user_id":"\(user)","original_filename":"log.txt",\
                "content_type":"text/plain","size_bytes":\(bytes.count),"sha256":"\(digest)","is_dev":false}
                """))
        #expect(announced.status == 201 && announced.text("expires_at") != nil, "\(announced)")
        let address = try #require(URL(string: announced.text("upload_url") ?? ""))
        #expect(address.lastPathComponent == announced.text("attachment_id"))
        // The second attempt comes when the answer to the first one was lost.
        for (status, member) in [(200, "attachment_id"), (409, "code")] {
            let put = JSONAnswer(
                try transport.http.call(
                    "PUT", address.path(),
                    fields: [
                        ("Authorization", "Bearer \(transport.key)"), ("Content-Type", "application/octet-stream"),
                    ], body: bytes))
            #expect(put.status == status && put.text(member) != nil, "\(put)")
        }
    }

    // MARK: - Node

    @Test(
        "of the Node client: no bundle id, users and sessions of the back end, no country",
        arguments: StoreKind.allCases)
    func node(_ kind: StoreKind) throws {
        let place = try Place(kind, platform: "backend", bundleID: nil)
        var transport = OwlTransport(.node, place.owl.http, key: place.key)
        let session = UUID().uuidString.lowercased()
        func event(
            _ message: String, user: String? = "ada", level: String = "info", _ attributes: [String: String] = [:]
        )
            throws -> (id: String, members: [String: Any], json: String)
        {
            try Self.event(.node, message, user: user, session: session, level: level, attributes: attributes)
        }
        // A short body is plain, a long body is in gzip, and a full buffer makes several batches.
        let first = try event("started", user: nil)
        let short = #"{"events":[{"session_id":"\#(session)","level":"debug","message":"up","environment":"backend"}]}"#
        #expect(try transport.post("/v1/ingest", short).body == #"{"accepted":1,"rejected":0}"#)
        #expect(transport.compressed == 0)
        let tracking = UUID().uuidString.lowercased()
        let error = try event(
            "Cannot pay", level: "error",
            ["_error_type": "TypeError", "_error_stack": String(repeating: "at pay (orders.js:12)\n", count: 300)])
        let sent =
            [
                first, error, try event("step:cart"),
                try event("metric:order:start", ["tracking_id": tracking]),
                try event("metric:order:complete", ["tracking_id": tracking, "duration_ms": "120"]),
            ] + (try (0..<40).map { try event("request \($0)", ["route": "/orders/\($0)"]) })
        try transport.flush(sent.map(\.json))
        #expect(transport.answers.map(\.body) == [20, 20, 5].map { #"{"accepted":\#($0),"rejected":0}"# })
        #expect(transport.compressed == 3)
        // A proxy says where the back end is; this is not the place of the user.
        let answer = try transport.post(
            "/v1/ingest", #"{"events":[\#(try event("routed").json)]}"#, more: [("CF-IPCountry", "DE")])
        #expect(answer.body == #"{"accepted":1,"rejected":0}"#, "\(answer)")
        // The client reads the names of the properties, and the id of feedback.
        let properties = try transport.post(
            "/v1/identity/properties", #"{"user_id":"ada","properties":{"plan":"pro"}}"#)
        #expect(properties.body == #"{"updated":true,"properties":{"plan":"pro"}}"#, "\(properties)")
        let feedback = JSONAnswer(
            try transport.post(
                "/v1/feedback",
                #"{"message":"Good","user_id":"ada","session_id":"\#(session)","environment":"backend","is_dev":false}"#
            ))
        #expect(feedback.status == 201 && feedback.text("id") != nil && feedback.text("created_at") != nil)
        try attach("the request", to: error.id, as: "ada", &transport)
        // Reads have all of it as it was sent.
        let rows = try place.events("app_id=\(place.app)&session_id=\(session)&limit=20")
        #expect(rows.count == 47 && rows.allSatisfy { $0["country_code"] is NSNull })
        for event in sent {
            let row = rows.first { $0["client_event_id"] as? String == event.id }
            compare(try #require(row), event.members, user: event.id == first.id ? nil : "ada")
        }
        let count = try place.owl.agent("/v1/events/count?app_id=\(place.app)")
        #expect(
            count["count"] as? Int == 47 && count["unique_users"] as? Int == 1 && count["unique_sessions"] as? Int == 1)
        let user = (try place.owl.agent("/v1/app-users?app_id=\(place.app)")["users"] as? [[String: Any]])?.first
        #expect(user?["user_id"] as? String == "ada" && user?["is_anonymous"] as? Bool == false)
        #expect(user?["last_country_code"] is NSNull && user?["last_sdk_name"] as? String == "owlmetry-node")
        let files = try place.owl.agent("/v1/attachments?event_id=\(rowID(error.id, rows))")["attachments"]
        #expect((files as? [[String: Any]])?.first?["user_id"] as? String == "ada")
        let query = try place.owl.agent("/v1/projects/\(try place.owl.project())/metrics/order/query")
        let figures = query["aggregation"] as? [String: Any]
        #expect(figures?["start_count"] as? Int == 1 && figures?["duration_avg_ms"] as? Int == 120)
    }

    private func rowID(_ event: String, _ rows: [[String: Any]]) -> String {
        rows.first { $0["client_event_id"] as? String == event }?["id"] as? String ?? "none"
    }

    @Test("a back end's development build makes no development user", arguments: StoreKind.allCases)
    func development(_ kind: StoreKind) throws {
        let place = try Place(kind, platform: "backend", bundleID: nil)
        var transport = OwlTransport(.node, place.owl.http, key: place.key)
        let session = UUID().uuidString.lowercased()
        try transport.flush([
            Self.event(.node, "tried", user: "ada", session: session, isDevelopment: true).json
        ])
        let users = try place.owl.agent("/v1/app-users")["users"] as? [[String: Any]]
        #expect(users?.map { $0["user_id"] as? String } == ["ada"] && users?.first?["is_dev"] as? Bool == false)
        #expect(try place.events("data_mode=development").count == 1)
    }

    @Test(
        "the Node client repeats a batch after 429 and 503, and drops it after other refusals",
        arguments: StoreKind.allCases)
    func nodeRetries(_ kind: StoreKind) throws {
        let rates = RateLimits(key: .off, identity: .off, claim: RateLimit(perSecond: 2, burst: 2))
        let place = try Place(kind, platform: "backend", bundleID: nil, rates: rates)
        var transport = OwlTransport(.node, place.owl.http, key: place.key)
        let session = UUID().uuidString.lowercased()
        let sent = try (0..<80).map { try Self.event(.node, "m\($0)", user: "ada", session: session).json }
        // The first commit is lost with its answer, and the second one before anything is kept.
        place.failing.failNextCommit(.after)
        try transport.flush(Array(sent.prefix(20)))
        place.failing.failNextCommit(.before)
        try transport.flush(Array(sent.dropFirst(20)))
        let statuses = transport.answers.map(\.status)
        #expect(Set(statuses) == [200, 429, 503] && transport.dropped.isEmpty, "\(statuses)")
        for answer in transport.answers where answer.status == 429 {
            #expect(answer.body == #"{"error":"Rate limit exceeded"}"# && answer["Retry-After"] == "1", "\(answer)")
        }
        // The repeated batch that was kept is not kept twice, and is no mistake of the client.
        let taken = transport.answers.filter { $0.status == 200 }.map { JSONAnswer($0) }
        #expect(taken.map { $0.number("accepted") } == [0] + Array(repeating: 20, count: 3))
        #expect(taken.allSatisfy { $0.number("rejected") == 0 && $0["errors"] == nil })
        #expect(try place.owl.agent("/v1/events/count?user_id=ada")["count"] as? Int == 80)
        // After other refusals the client goes on with the next batch.
        var agent = OwlTransport(.node, place.owl.http, key: place.owl.server.credentials.claimAgentKey)
        try agent.flush(Array(sent.prefix(20)))
        #expect(agent.answers.map(\.status) == [403] && agent.dropped.count == 20)
    }

    // MARK: - Android

    /// The shop's id of the Android app.
    private static let bundleID = "com.example.shop.android"

    @Test(
        "of the Android client: small letters in ids, a claim at each launch, answers of a form",
        arguments: StoreKind.allCases)
    func android(_ kind: StoreKind) throws {
        let place = try Place(kind, platform: "android", bundleID: Self.bundleID)
        var transport = OwlTransport(.android, place.owl.http, key: place.key, bundleID: Self.bundleID)
        let anonymous = "owl_anon_\(UUID().uuidString.lowercased())"
        let session = UUID().uuidString.lowercased()
        func event(_ message: String, user: String, level: String = "info", _ attributes: [String: String] = [:])
            throws -> (id: String, members: [String: Any], json: String)
        {
            try Self.event(.android, message, user: user, session: session, level: level, attributes: attributes)
        }
        let launch = try event("sdk:session_started", user: anonymous, ["_launch_ms": "312"])
        let error = try event("Payment failed", user: anonymous, level: "error", ["_error_type": "IOException"])
        let before = [launch, error] + (try (0..<38).map { try event("viewed \($0)", user: anonymous) })
        try transport.flush(before.map(\.json))
        #expect(transport.answers.map(\.body) == Array(repeating: #"{"accepted":20,"rejected":0}"#, count: 2))
        #expect(transport.compressed == 2)
        try attach("logcat", to: error.id, as: anonymous, &transport)
        // The user logs in: the buffer goes first, and then the claim, which comes again after a lost answer and at the next launch.
        let claim = #"{"anonymous_id":"\#(anonymous)","user_id":"ada"}"#
        #expect(
            try transport.post("/v1/identity/claim", claim).body == #"{"claimed":true,"events_reassigned_count":40}"#)
        for _ in 0..<2 {
            let answer = try transport.post("/v1/identity/claim", claim)
            #expect(
                answer.status == 200 && answer.body == #"{"claimed":true,"events_reassigned_count":0}"#, "\(answer)")
        }
        // The queue on the disk still has an event from before the login.
        let late = try event("was offline", user: anonymous)
        let after = try event("paid", user: "ada")
        let answer = try transport.post(
            "/v1/ingest", #"{"bundle_id":"\#(Self.bundleID)","events":[\#(late.json),\#(after.json)]}"#,
            more: [("CF-IPCountry", "at")])
        #expect(answer.body == #"{"accepted":2,"rejected":0}"#, "\(answer)")
        let rows = try place.events("user_id=ada&limit=30")
        #expect(rows.count == 42)
        for event in before + [late, after] {
            let row = rows.first { $0["client_event_id"] as? String == event.id }
            compare(try #require(row), event.members, user: "ada")
        }
        // Session ids are found in small and in capital letters.
        for session in [session, session.uppercased()] {
            #expect(try place.owl.agent("/v1/events/count?session_id=\(session)")["count"] as? Int == 42)
        }
        let user = (try place.owl.agent("/v1/app-users")["users"] as? [[String: Any]])?.first
        #expect(user?["user_id"] as? String == "ada" && user?["claimed_from"] as? [String] == [anonymous])
        #expect(user?["last_country_code"] as? String == "AT" && user?["last_locale"] as? String == "de_DE")
        let app = try place.owl.agent("/v1/apps/\(place.app)")
        #expect(
            app["latest_app_version"] as? String == "3.1.0" && app["supported_languages"] as? [String] == ["de", "en"])
        let files =
            try place.owl.agent("/v1/attachments?event_client_id=\(error.id)")["attachments"] as? [[String: Any]]
        #expect(
            files?.first?["user_id"] as? String == "ada"
                && files?.first?["event_id"] as? String == rowID(error.id, rows))
        try questionnaire(place, &transport, session)
    }

    /// The client asks for a questionnaire, saves a draft, and sends the answers; each call is one attempt.
    private func questionnaire(_ place: Place, _ transport: inout OwlTransport, _ session: String) throws {
        let survey = #"{"name":"NPS","schema":{"questions":[{"id":"q1","type":"nps","title":"How?","required":true}]}}"#
        _ = try place.owl.call("PUT", "/onym/v1/questionnaires/nps", survey, key: place.owl.server.credentials.adminKey)
        let query = "bundle_id=\(Self.bundleID)&user_id=ada"
        func offer() throws -> JSONAnswer {
            JSONAnswer(try place.owl.call("GET", "/v1/questionnaires/nps?\(query)", key: place.key))
        }
        #expect(try offer()["eligible"] as? Bool == true && offer()["in_progress"] == nil)
        func send(_ more: String) throws -> JSONAnswer {
            JSONAnswer(
                try transport.post(
                    "/v1/questionnaires/nps/responses",
                    """
                    {"bundle_id":"\(Self.bundleID)","user_id":"ada","session_id":"\(session)",\(more),"is_dev":false,\
                    "environment":"android","sdk_name":"owlmetry-android","sdk_version":"0.1.1","app_version":"3.1.0"}
                    """))
        }
        let draft = try send(#""answers":{"q1":9},"is_complete":false"#)
        #expect(draft.status == 201 && draft["was_submitted"] as? Bool == false, "\(draft)")
        let progress = try offer()["in_progress"] as? [String: Any]
        #expect(progress?["response_id"] as? String == draft.text("id") && draft.text("id") != nil)
        #expect(progress?["answers"] as? [String: Int] == ["q1": 9])
        let whole = try send(#""answers":{"q1":10},"is_complete":true"#)
        #expect(whole.status == 200 && whole["was_submitted"] as? Bool == true && whole.text("id") == draft.text("id"))
        let again = try send(#""answers":{"q1":1},"is_complete":true"#)
        #expect(again.status == 409 && again.text("reason") == "already_responded", "\(again)")
        #expect(try offer().text("reason") == "already_responded")
    }

    @Test(
        "the Android client keeps what the server did not take, and sends it again first", arguments: StoreKind.allCases
    )
    func androidRetries(_ kind: StoreKind) throws {
        let rates = RateLimits(key: .off, identity: .off, claim: RateLimit(perSecond: 2, burst: 2))
        let place = try Place(kind, platform: "android", bundleID: Self.bundleID, rates: rates)
        var transport = OwlTransport(.android, place.owl.http, key: place.key, bundleID: Self.bundleID)
        let session = UUID().uuidString.lowercased()
        let sent = try (0..<100).map { try Self.event(.android, "m\($0)", user: "ada", session: session).json }
        // A lost answer: the client sends the same events again, which count once.
        place.failing.failNextCommit(.after)
        try transport.flush(Array(sent.prefix(20)))
        #expect(transport.answers.first?.status == 503 && transport.answers.last?.status == 200)
        #expect(transport.answers.last?.body == #"{"accepted":0,"rejected":0}"#)
        // After 429 the client does not repeat the batch at once: it waits in the queue for the next flush.
        try transport.flush(Array(sent.dropFirst(20)))
        #expect(transport.answers.contains { $0.status == 429 } && !transport.waiting.isEmpty)
        let isEmptied = try Patience.until {
            try transport.flush()
            return transport.waiting.isEmpty
        }
        #expect(isEmptied)
        #expect(try place.owl.agent("/v1/events/count?user_id=ada")["count"] as? Int == 100)
        // A batch with a wrong bundle id is refused each time, and nothing of it is kept.
        var wrong = OwlTransport(.android, place.owl.http, key: place.key, bundleID: "com.example.other")
        try wrong.flush([Self.event(.android, "lost", user: "ada", session: session).json])
        let isRefused = try Patience.until {
            try wrong.flush()
            return wrong.answers.count { $0.status == 403 } >= 2
        }
        let refusal = #"{"error":"bundle_id does not match the app associated with this API key"}"#
        #expect(wrong.answers.allSatisfy { $0.status == 403 && $0.body == refusal || $0.status == 429 })
        #expect(isRefused && wrong.waiting.count == 1)
        #expect(try place.owl.agent("/v1/events/count?user_id=ada")["count"] as? Int == 100)
    }
}
