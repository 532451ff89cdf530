import ByteText
import Crypto
import Foundation
import TestKit
import Testing

/// Attachments (spec/claim.md 1.7, 4.1), on every store.
@Suite("Attachments")
struct AttachmentTests {
    private static let event = "11111111-2222-4333-8444-555555555555"

    private static func body(
        _ content: [UInt8], user: String? = nil, event: String = event, more: String = ""
    ) -> String {
        let user = user.map { #","user_id":"\#($0)""# } ?? ""
        let digest = Hexadecimal.encode(SHA256.digest(of: content).bytes)
        return #"""
            {"client_event_id":"\#(event)","original_filename":"a b.txt","content_type":"text/plain",\#
            "size_bytes":\#(content.count),"sha256":"\#(digest)"\#(user)\#(more)}
            """#
    }

    private func json(_ answer: Wire.Answer) throws -> [String: Any] {
        try JSONSerialization.jsonObject(with: Data(answer.body.utf8)) as? [String: Any] ?? [:]
    }

    /// Announces a file; answers its id.
    private func reserve(
        _ client: OwlClient, _ content: [UInt8], user: String? = nil, event: String = event
    ) throws -> String {
        let answer = try client.call(
            "POST", "/v1/ingest/attachment", AttachmentTests.body(content, user: user, event: event))
        #expect(answer.status == 201, "\(answer)")
        return try #require(try json(answer)["attachment_id"] as? String)
    }

    private func put(_ client: OwlClient, _ id: String, _ content: [UInt8], key: String? = nil) throws -> Wire.Answer {
        try client.http.call(
            "PUT", "/v1/ingest/attachment/\(id)",
            fields: [
                ("Authorization", "Bearer \(key ?? client.clientKey)"), ("Content-Type", "application/octet-stream"),
            ], body: content)
    }

    @discardableResult
    private func send(
        _ client: OwlClient, _ content: [UInt8], user: String? = nil, event: String = event
    ) throws -> String {
        let id = try reserve(client, content, user: user, event: event)
        let answer = try put(client, id, content)
        #expect(answer.status == 200, "\(answer)")
        return id
    }

    private func agent(_ client: OwlClient, _ method: String, _ path: String) throws -> Wire.Answer {
        try client.call(method, path, key: client.server.credentials.claimAgentKey)
    }

    private func list(_ client: OwlClient, _ query: String = "") throws -> [[String: Any]] {
        try json(try agent(client, "GET", "/v1/attachments?data_mode=all&\(query)"))["attachments"] as? [[String: Any]]
            ?? []
    }

    private func path(_ url: String) -> String { String(url.dropFirst("http://127.0.0.1".count)) }

    @Test("are announced, sent, listed and got again", arguments: StoreKind.allCases)
    func wholeWay(_ kind: StoreKind) throws {
        let client = try OwlClient(kind)
        let content = Array("what happened".utf8)
        let reserved = try client.call("POST", "/v1/ingest/attachment", AttachmentTests.body(content, user: "ada"))
        let id = try #require(try json(reserved)["attachment_id"] as? String)
        #expect(try json(reserved).keys.sorted() == ["attachment_id", "expires_at", "upload_url"])
        #expect(try json(reserved)["upload_url"] as? String == "http://127.0.0.1/v1/ingest/attachment/\(id)")
        #expect(try list(client).isEmpty)
        let sent = try json(try put(client, id, content))
        #expect(
            sent.keys.sorted() == ["attachment_id", "download_url", "download_url_expires_at", "sha256", "size_bytes"])
        #expect(sent["size_bytes"] as? Int == content.count && sent["attachment_id"] as? String == id)
        let url = try #require(sent["download_url"] as? String)
        let got = try client.http.call("GET", path(url))
        #expect(got.status == 200 && got.body == "what happened" && got["Content-Type"] == "text/plain")
        #expect(got["Content-Disposition"] == "attachment; filename*=UTF-8''a%20b.txt")
        #expect(got["X-Content-Type-Options"] == "nosniff")
        let item = try #require(try list(client).first)
        #expect(item["id"] as? String == id && item["user_id"] as? String == "ada")
        #expect(item["event_client_id"] as? String == AttachmentTests.event)
        #expect(item["original_filename"] as? String == "a b.txt" && item["size_bytes"] as? Int == content.count)
        let one = try json(try agent(client, "GET", "/v1/attachments/\(id)"))
        #expect(try client.http.call("GET", path(try #require(one["download_url"] as? String))).body == "what happened")
        #expect(try agent(client, "GET", "/v1/attachments/x").status == 404)
    }

    @Test(
        "are sent with the type that was told, where that is one",
        arguments: [
            ("text/html; charset=utf-8", "text/html; charset=utf-8"), ("a\\r\\nX-Evil: 1", "application/octet-stream"),
            ("text/é", "application/octet-stream"), ("\\u007f", "application/octet-stream"),
        ])
    func types(_ said: String, _ sent: String) throws {
        let client = try OwlClient(.memory)
        let body = AttachmentTests.body([65]).replacing("text/plain", with: said)
        let id = try #require(
            try json(try client.call("POST", "/v1/ingest/attachment", body))["attachment_id"] as? String)
        let url = try #require(try json(try put(client, id, [65]))["download_url"] as? String)
        let got = try client.http.call("GET", path(url))
        #expect(got["Content-Type"] == sent && got["X-Evil"] == nil, "\(got)")
    }

    @Test("of megabytes go in and out in pieces", arguments: StoreKind.allCases)
    func large(_ kind: StoreKind) throws {
        let client = try OwlClient(kind)
        let content = (0..<5_000_000).map { UInt8(truncatingIfNeeded: 32 + $0 % 89) }
        let id = try reserve(client, content)
        let url = try #require(try json(try put(client, id, content))["download_url"] as? String)
        #expect(try client.http.call("GET", path(url)).body == String(decoding: content, as: UTF8.self))
        #expect(try client.http.call("HEAD", path(url))["Content-Length"] == "5000000")
    }

    static let unfit: [(String, Int, String, String)] = [
        ("{}", 400, "invalid_request", "client_event_id must be a UUID"),
        ("[]", 400, "invalid_request", "client_event_id must be a UUID"),
        (body([1], event: "x"), 400, "invalid_request", "client_event_id must be a UUID"),
        (
            body([1]).replacing("a b.txt", with: ""), 400, "invalid_request",
            "original_filename must have 1 to 255 characters"
        ),
        (
            body([1]).replacing("text/plain", with: String(repeating: "t", count: 256)), 400, "invalid_request",
            "content_type must have 1 to 255 characters"
        ),
        (body([]), 400, "invalid_request", "size_bytes must be an integer 1-2147483648"),
        (
            body([1]).replacing(#""size_bytes":1"#, with: #""size_bytes":2147483649"#), 400, "invalid_request",
            "size_bytes must be an integer 1-2147483648"
        ),
        (
            body([1]).replacing(#""sha256":""#, with: #""sha256":"0"#), 400, "invalid_request",
            "sha256 must have 64 hexadecimal digits"
        ),
        (body([1], more: #","user_id":7"#), 400, "invalid_request", "user_id must be a string"),
        (
            body([1], user: String(repeating: "u", count: 256)), 400, "invalid_request",
            "user_id must have at most 255 characters"
        ),
        (
            body([1]).replacing("text/plain", with: "Application/X-SH; x=y"), 415, "disallowed_content_type",
            "Files of type application/x-sh are not taken."
        ),
        (
            body([1]).replacing("text/plain", with: "application/java-archive"), 415, "disallowed_content_type",
            "Files of type application/java-archive are not taken."
        ),
    ]

    @Test("are refused by a code where they cannot be taken", arguments: unfit)
    func refuses(_ body: String, _ status: Int, _ code: String, _ message: String) throws {
        let client = try OwlClient(.memory)
        let answer = try client.call("POST", "/v1/ingest/attachment", body)
        #expect(answer.status == status && answer.body == #"{"code":"\#(code)","message":"\#(message)"}"#, "\(answer)")
        #expect(client.server.store.counts.rows == 0)
    }

    @Test("that are not what was announced are refused, and have to be announced anew", arguments: StoreKind.allCases)
    func mismatches(_ kind: StoreKind) throws {
        let client = try OwlClient(kind)
        let content = Array("0123456789".utf8)
        for (sent, status, code) in [
            (Array("012345678".utf8), 400, "size_mismatch"), (Array("0123456789a".utf8), 413, "size_mismatch"),
            (Array("012345678x".utf8), 400, "hash_mismatch"),
            ([UInt8](repeating: 1, count: 700_000), 413, "size_mismatch"),
        ] {
            let id = try reserve(client, content)
            let answer = try put(client, id, sent)
            #expect(try answer.status == status && json(answer)["code"] as? String == code, "\(answer)")
            #expect(try json(answer)["error"] == nil)
            let again = try put(client, id, content)
            #expect(try again.status == 410 && json(again)["code"] as? String == "gone", "\(again)")
        }
        #expect(try list(client).isEmpty)
    }

    @Test("are sent once, by the app that announced them, and in time", arguments: StoreKind.allCases)
    func order(_ kind: StoreKind) throws {
        let clock = ManualClock(1_750_000_000_000)
        let client = OwlClient(try TestServer(kind) { $0.clock = { clock.now } })
        let content = Array("abc".utf8)
        let id = try send(client, content)
        let again = try put(client, id, content)
        #expect(try again.status == 409 && json(again)["code"] as? String == "already_uploaded", "\(again)")
        let none = try put(client, "11111111-2222-4333-8444-555555555555", content)
        #expect(try none.status == 404 && json(none)["code"] as? String == "not_found", "\(none)")
        #expect(try put(client, id, content, key: "owl_client_x").status == 401)
        #expect(try put(client, id, content, key: client.server.credentials.claimAgentKey).status == 403)
        let late = try reserve(client, content)
        clock.advance(milliseconds: 15 * 60_000)
        #expect(try put(client, late, content).status == 410)
    }

    @Test("are got by a link for a minute, and by no other link", arguments: StoreKind.allCases)
    func links(_ kind: StoreKind) throws {
        let clock = ManualClock(1_750_000_000_000)
        let client = OwlClient(try TestServer(kind) { $0.clock = { clock.now } })
        let id = try reserve(client, [65])
        let url = path(try #require(try json(try put(client, id, [65]))["download_url"] as? String))
        let parts = url.split(separator: ".").map(String.init)
        #expect(try client.http.call("GET", url).status == 200)
        let other = try send(client, [66], event: OwlClient.session)
        for wrong in [
            "/v1/attachments/download", "/v1/attachments/download?t=", "/v1/attachments/download?t=a.b.c",
            url + "0", url.replacing(id, with: other), "\(parts[0]).\((Int(parts[1]) ?? 0) + 1).\(parts[2])",
        ] {
            let answer = try client.http.call("GET", wrong)
            #expect(answer.status == 403 && answer.body == #"{"error":"Invalid or expired download link"}"#, "\(wrong)")
        }
        clock.advance(milliseconds: 61_000)
        #expect(try client.http.call("GET", url).status == 403)
    }

    @Test(
        "move with a claim and back; what was deleted is gone, and its bytes with the last",
        arguments: StoreKind.allCases)
    func claims(_ kind: StoreKind) throws {
        let folder = TemporaryFolder()
        let client = OwlClient(try TestServer(kind, in: folder))
        let content = Array("same".utf8)
        let kept = try send(client, content, user: "owl_anon_1")
        let deleted = try send(client, content, user: "owl_anon_1", event: OwlClient.session)
        func files() -> [String] {
            let all = FileManager.default.enumerator(atPath: "\(folder.path)/attachments")
            return (all?.compactMap { $0 as? String } ?? []).filter { $0.contains("/") }
        }
        #expect(files().count == 1)
        #expect(try agent(client, "DELETE", "/v1/attachments/\(deleted)").body == #"{"deleted":true}"#)
        #expect(try agent(client, "DELETE", "/v1/attachments/\(deleted)").status == 404)
        _ = try client.claim("owl_anon_1", "ada")
        let late = try send(client, Array("late".utf8), user: "owl_anon_1")
        #expect(try list(client, "user_id=ada").map { $0["id"] as? String } == [late, kept])
        #expect(try list(client).map { $0["user_id"] as? String } == ["ada", "ada"])
        try client.undoClaim("ada")
        #expect(try list(client, "user_id=ada").isEmpty)
        #expect(try list(client, "user_id=owl_anon_1").count == 2)
        let url = try #require(try json(try agent(client, "GET", "/v1/attachments/\(kept)"))["download_url"] as? String)
        #expect(try client.http.call("GET", path(url)).body == "same")
        #expect(try agent(client, "DELETE", "/v1/attachments/\(kept)").status == 200)
        #expect(try client.http.call("GET", path(url)).status == 404)
        // Another thread removes the bytes.
        #expect(Patience.until { files().count == 1 })
    }

    @Test("without a user are the event's user's when the event comes", arguments: StoreKind.allCases)
    func backLink(_ kind: StoreKind) throws {
        let client = try OwlClient(kind)
        _ = try client.claim("owl_anon_1", "ada")
        try send(client, [65])
        #expect(try list(client).first?["user_id"] is NSNull)
        _ = try client.ingest([OwlClient.event("owl_anon_1", id: AttachmentTests.event)])
        #expect(try list(client).first?["user_id"] as? String == "ada")
        #expect(try list(client, "user_id=ada").count == 1)
    }

    @Test("are found by their event and their issue", arguments: StoreKind.allCases)
    func filters(_ kind: StoreKind) throws {
        let client = try OwlClient(kind)
        let id = try send(client, [65], user: "ada")
        try send(client, [66], user: "ada", event: OwlClient.session)
        let error = OwlClient.event("ada", "It broke", id: AttachmentTests.event)
            .replacing(#""level":"info""#, with: #""level":"error""#)
        _ = try client.ingest([error, OwlClient.event("ada", "other", id: OwlClient.session)])
        let events = try json(try agent(client, "GET", "/v1/events?data_mode=all&level=error"))["events"]
        let event = try #require((events as? [[String: Any]])?.first?["id"] as? String)
        let projects = try agent(client, "GET", "/v1/projects")
        let project = try #require(projects.body.firstMatch(of: /"id":"([^"]+)"/)?.1)
        let issues = try json(try agent(client, "GET", "/v1/projects/\(project)/issues?data_mode=all"))["issues"]
        let issue = try #require((issues as? [[String: Any]])?.first?["id"] as? String)
        for query in [
            "event_client_id=\(AttachmentTests.event)", "event_id=\(event)", "issue_id=\(issue)",
            "event_id=\(event)&project_id=\(project)",
        ] {
            #expect(try list(client, query).map { $0["id"] as? String } == [id], "\(query)")
        }
        for query in ["event_client_id=x", "event_id=x", "issue_id=x", "project_id=x", "user_id=grace"] {
            #expect(try list(client, query).isEmpty, "\(query)")
        }
    }

    @Test("have quotas, of a user with all that was claimed and of the project", arguments: StoreKind.allCases)
    func quotas(_ kind: StoreKind) throws {
        let clock = ManualClock(1_750_000_000_000)
        let server = try TestServer(kind) { configuration in
            configuration.clock = { clock.now }
            configuration.attachmentQuotas.userBytes = 100
            configuration.attachmentQuotas.projectBytes = 250
        }
        let client = OwlClient(server)
        func refused(_ count: Int, _ user: String?) throws -> String {
            let answer = try client.call(
                "POST", "/v1/ingest/attachment", AttachmentTests.body([UInt8](repeating: 65, count: count), user: user))
            return answer.status == 413 ? answer.body.replacing(/"message":"[^"]*",/, with: "") : "\(answer.status)"
        }
        let content = [UInt8](repeating: 65, count: 60)
        let id = try send(client, content, user: "owl_anon_1")
        _ = try reserve(client, [UInt8](repeating: 65, count: 30), user: "ada")
        #expect(
            try refused(41, "owl_anon_1")
                == #"{"code":"user_quota_exhausted","user_quota_bytes":100,"user_used_bytes":60}"#)
        _ = try client.claim("owl_anon_1", "ada")
        #expect(
            try refused(11, "ada") == #"{"code":"user_quota_exhausted","user_quota_bytes":100,"user_used_bytes":90}"#)
        _ = try reserve(client, content, user: "grace")
        _ = try reserve(client, content)
        #expect(try refused(41, "joan") == #"{"code":"quota_exhausted","quota_bytes":250,"used_bytes":210}"#)
        // What was announced and did not come counts no more.
        clock.advance(milliseconds: 17 * 60_000)
        #expect(
            try refused(41, "ada") == #"{"code":"user_quota_exhausted","user_quota_bytes":100,"user_used_bytes":60}"#)
        #expect(try agent(client, "DELETE", "/v1/attachments/\(id)").status == 200)
        _ = try reserve(client, [UInt8](repeating: 65, count: 100), user: "ada")
    }

    @Test("that a client breaks off leave nothing", arguments: StoreKind.allCases)
    func brokenOff(_ kind: StoreKind) throws {
        let folder = TemporaryFolder()
        let client = OwlClient(try TestServer(kind, in: folder))
        let id = try reserve(client, [UInt8](repeating: 65, count: 400_000))
        let wire = try Wire(port: client.server.port)
        try wire.send(
            "PUT /v1/ingest/attachment/\(id) HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer \(client.clientKey)\r\n"
                + "Content-Length: 400000\r\n\r\n")
        try wire.send([UInt8](repeating: 65, count: 300_000))
        wire.reset()
        let incoming = "\(folder.path)/attachments/incoming"
        func left() -> Int { (try? FileManager.default.contentsOfDirectory(atPath: incoming).count) ?? 0 }
        #expect(try put(client, id, [UInt8](repeating: 65, count: 400_000)).status == 200)
        #expect(Patience.until { left() == 0 })
    }
}
