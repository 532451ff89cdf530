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

    @discardableResult
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

    private func admin(_ client: OwlClient, _ method: String, _ path: String) throws -> Wire.Answer {
        try client.call(method, path, key: client.server.credentials.adminKey)
    }

    private func list(_ client: OwlClient, _ query: String = "") throws -> [[String: Any]] {
        try json(try agent(client, "GET", "/v1/attachments?\(query)"))["attachments"] as? [[String: Any]] ?? []
    }

    /// The address in an answer for one attachment.
    private func address(_ answer: Wire.Answer) throws -> String {
        let link = try #require(try json(answer)["download_url"] as? [String: Any])
        return path(try #require(link["url"] as? String))
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
        // An announced file is listed too, without an address.
        let announced = try json(try agent(client, "GET", "/v1/attachments/\(id)"))
        #expect(announced["uploaded_at"] is NSNull && announced["download_url"] == nil)
        #expect(try list(client).first?["uploaded_at"] is NSNull)
        let sent = try json(try put(client, id, content))
        #expect(
            sent.keys.sorted() == ["attachment_id", "download_url", "download_url_expires_at", "sha256", "size_bytes"])
        #expect(sent["size_bytes"] as? Int == content.count && sent["attachment_id"] as? String == id)
        let url = try #require(sent["download_url"] as? String)
        let got = try client.http.call("GET", path(url))
        #expect(got.status == 200 && got.body == "what happened" && got["Content-Type"] == "text/plain")
        #expect(got["Content-Disposition"] == "attachment; filename=\"a b.txt\"" && got["Content-Length"] == "13")
        #expect(got["X-Content-Type-Options"] == "nosniff" && got["Cache-Control"] == "private, no-store")
        let item = try #require(try list(client).first)
        #expect(item["id"] as? String == id && item["user_id"] as? String == "ada")
        #expect(item["event_client_id"] as? String == AttachmentTests.event)
        #expect(item["original_filename"] as? String == "a b.txt" && item["size_bytes"] as? Int == content.count)
        #expect(
            item.keys.sorted() == [
                "app_id", "content_type", "created_at", "event_client_id", "event_id", "id", "is_dev", "issue_id",
                "original_filename", "project_id", "sha256", "size_bytes", "uploaded_at", "user_id",
            ])
        #expect(item["event_id"] is NSNull && item["issue_id"] is NSNull && item["uploaded_at"] is String)
        let one = try agent(client, "GET", "/v1/attachments/\(id)")
        let link = try json(one)["download_url"] as? [String: Any]
        #expect(
            link?.keys.sorted() == ["content_type", "expires_at", "original_filename", "size_bytes", "url"])
        #expect(try client.http.call("GET", address(one)).body == "what happened")
        #expect(try agent(client, "GET", "/v1/attachments/x").body == #"{"error":"Attachment not found"}"#)
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

    static let unfit: [(String, Int, String, String)] = {
        let user = "user_id must be a non-empty string of at most 255 chars"
        let name = "original_filename is required and must be at most 255 chars"
        let digest = "sha256 must be a 64-char lowercase hex string"
        let size = "size_bytes must be a positive integer"
        func bad(_ body: String, _ message: String) -> (String, Int, String, String) {
            (body, 400, "invalid_request", message)
        }
        let one = body([1])
        return [
            bad("{}", "client_event_id is required"), bad("[]", "client_event_id is required"),
            bad(body([1], event: ""), "client_event_id is required"),
            bad(body([1], event: "x"), "client_event_id must be a UUID"),
            bad(body([1], more: #","user_id":7"#), user), bad(body([1], user: ""), user),
            bad(body([1], user: String(repeating: "u", count: 256)), user),
            bad(one.replacing("a b.txt", with: ""), name),
            bad(one.replacing("a b.txt", with: String(repeating: "n", count: 256)), name),
            bad(one.replacing("text/plain", with: ""), "content_type is required"),
            bad(
                one.replacing("text/plain", with: String(repeating: "t", count: 256)),
                "content_type must be at most 255 chars"),
            (
                one.replacing("text/plain", with: "Application/X-SH; x=y"), 415, "disallowed_content_type",
                #"Content-Type \"Application/X-SH; x=y\" is not allowed for attachments"#
            ),
            (
                // The type comes before the size.
                body([]).replacing("text/plain", with: "application/java-archive"), 415, "disallowed_content_type",
                #"Content-Type \"application/java-archive\" is not allowed for attachments"#
            ),
            bad(body([]), size), bad(one.replacing(#""size_bytes":1"#, with: #""size_bytes":1.5"#), size),
            bad(
                one.replacing(#""size_bytes":1"#, with: #""size_bytes":2147483649"#),
                "size_bytes must be at most 2147483648"),
            bad(one.replacing(#""sha256":""#, with: #""sha256":"0"#), digest),
            bad(body([65]).replacing("sha256\":\"5", with: "sha256\":\"E"), digest),
        ]
    }()

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
            #expect(again.status == 404 && again.body == #"{"error":"Attachment not found"}"#, "\(again)")
        }
        #expect(try list(client).isEmpty)
        let id = try reserve(client, content)
        let short = try put(client, id, [48])
        #expect(
            short.body == #"{"code":"size_mismatch","message":"Uploaded size 1 does not match declared 10"}"#,
            "\(short)")
    }

    @Test("are sent once, as a file, by the app that announced them", arguments: StoreKind.allCases)
    func order(_ kind: StoreKind) throws {
        let clock = ManualClock(1_750_000_000_000)
        let folder = TemporaryFolder()
        let client = OwlClient(try TestServer(kind, in: folder) { $0.clock = { clock.now } })
        let content = Array("abc".utf8)
        let id = try reserve(client, content)
        let other = try client.otherApp()
        func check(_ answer: Wire.Answer, _ status: Int, _ body: String, _ line: Int = #line) {
            #expect(answer.status == status && answer.body == body, "line \(line): \(answer)")
        }
        func send(_ fields: [(String, String)], _ body: [UInt8], id: String) throws -> Wire.Answer {
            try client.http.call(
                "PUT", "/v1/ingest/attachment/\(id)",
                fields: [("Authorization", "Bearer \(client.clientKey)")] + fields,
                body: body)
        }
        let octets = [("Content-Type", "application/octet-stream")]
        let noFile =
            #"{"error":"Request body must be sent with Content-Type: application/octet-stream"}"#
        check(
            try put(client, "11111111-2222-4333-8444-555555555555", content), 404, #"{"error":"Attachment not found"}"#)
        check(
            try put(client, id, content, key: other), 403, #"{"error":"Attachment belongs to a different app"}"#)
        // A body that is no file does not end the reservation, and the parser of JSON does not see it.
        check(try send([("Content-Type", "application/json")], Array("{".utf8), id: id), 400, noFile)
        check(try send([], content, id: id), 400, noFile)
        check(try send(octets, [], id: id), 400, noFile)
        check(try send([("Content-Type", "application/octet-streams")], content, id: id), 400, noFile)
        // Nor does a fault of the folder.
        let incoming = "\(folder.path)/attachments/incoming"
        try FileManager.default.moveItem(atPath: incoming, toPath: incoming + ".away")
        try Data().write(to: URL(fileURLWithPath: incoming))
        #expect(try put(client, id, content).status == 503)
        try FileManager.default.removeItem(atPath: incoming)
        try FileManager.default.moveItem(atPath: incoming + ".away", toPath: incoming)
        #expect(try put(client, id, content).status == 200)
        check(
            try put(client, id, content), 409,
            #"{"code":"already_uploaded","message":"Attachment has already been uploaded"}"#)
        #expect(try put(client, id, content, key: "owl_client_x").status == 401)
        #expect(try put(client, id, content, key: client.server.credentials.claimAgentKey).status == 403)
        // The end that clients see is advice. The reservation ends after a day.
        let (late, gone) = (try reserve(client, content), try reserve(client, content))
        clock.advance(milliseconds: 86_400_000 - 1)
        #expect(try list(client).count == 3)
        #expect(try put(client, late, content).status == 200)
        clock.advance(milliseconds: 1)
        check(try put(client, gone, content), 404, #"{"error":"Attachment not found"}"#)
        #expect(try list(client).count == 2 && agent(client, "GET", "/v1/attachments/\(gone)").status == 404)
        #expect(try admin(client, "DELETE", "/v1/attachments/\(late)").body == #"{"ok":true}"#)
        check(try put(client, late, content), 410, #"{"error":"Attachment has been deleted"}"#)
        // One that was made while the clock was ahead does not last until the clock comes there again.
        clock.advance(milliseconds: 5 * 365 * 86_400_000)
        let ahead = try reserve(client, content)
        clock.advance(milliseconds: -5 * 365 * 86_400_000)
        check(try put(client, ahead, content), 404, #"{"error":"Attachment not found"}"#)
        // A reservation can be deleted too.
        let unwanted = try reserve(client, content)
        #expect(try admin(client, "DELETE", "/v1/attachments/\(unwanted)").status == 200)
        check(try put(client, unwanted, content), 410, #"{"error":"Attachment has been deleted"}"#)
    }

    @Test("are deleted by administrators alone", arguments: [StoreKind.memory])
    func deletion(_ kind: StoreKind) throws {
        let client = try OwlClient(kind)
        let id = try send(client, [65])
        let (path, keys) = ("/v1/attachments/\(id)", client.server.credentials)
        #expect(
            try agent(client, "DELETE", path).body == #"{"error":"Missing permission: events:write"}"#)
        for key in [keys.claimClientKey, keys.claimImportKey] {
            let answer = try client.call("DELETE", path, key: key)
            #expect(answer.status == 403 && answer.body == #"{"error":"Only users can delete attachments"}"#)
        }
        #expect(try admin(client, "DELETE", path).body == #"{"ok":true}"#)
        #expect(try admin(client, "DELETE", path).body == #"{"error":"Attachment not found"}"#)
    }

    @Test("are listed page by page, also those of one moment, and counted", arguments: StoreKind.allCases)
    func pages(_ kind: StoreKind) throws {
        let clock = ManualClock(1_750_000_000_000)
        let client = OwlClient(try TestServer(kind) { $0.clock = { clock.now } })
        var all: [String] = []
        for number in 0..<7 {
            if number == 4 { clock.advance(milliseconds: 1000) }
            all.append(try reserve(client, [65, 66], user: number.isMultiple(of: 2) ? "ada" : nil))
        }
        try put(client, all[6], [65, 66])
        var (query, found, pages): (String, [String], Int) = ("limit=3", [], 0)
        while pages < 9 {
            let page = try json(try agent(client, "GET", "/v1/attachments?\(query)"))
            found += (page["attachments"] as? [[String: Any]] ?? []).compactMap { $0["id"] as? String }
            pages += 1
            guard page["has_more"] as? Bool == true, let cursor = page["cursor"] as? String else {
                #expect(page["cursor"] is NSNull)
                break
            }
            query = "limit=3&cursor=\(cursor)"
        }
        #expect(found == all.reversed() && pages == 3)
        #expect(try json(try agent(client, "GET", "/v1/attachments?limit=7"))["has_more"] as? Bool == false)
        // The vendor's cursor is a moment: the page goes on before it.
        #expect(try list(client, "cursor=2025-06-15T15:06:41.000Z").count == 4)
        #expect(try list(client, "cursor=none").count == 7)
        let usage = try agent(client, "GET", "/v1/projects/\(try client.project())/attachment-usage?user_id=ada")
        let numbers = try json(usage)
        #expect(numbers["used_bytes"] as? Int == 14 && numbers["file_count"] as? Int == 7, "\(usage)")
        #expect(numbers["user_used_bytes"] as? Int == 8 && numbers["user_file_count"] as? Int == 4)
        #expect(numbers["user_id"] as? String == "ada" && numbers["quota_bytes"] as? Int == 5 << 30)
        #expect(numbers["user_quota_bytes"] as? Int == 250 << 20)
        let whole = try json(try agent(client, "GET", "/v1/projects/\(try client.project())/attachment-usage"))
        #expect(whole["user_id"] == nil && whole["user_used_bytes"] == nil)
        #expect(try agent(client, "GET", "/v1/projects/x/attachment-usage").status == 404)
    }

    @Test("are listed page by page for the kind of build that announced them", arguments: StoreKind.allCases)
    func modes(_ kind: StoreKind) throws {
        let client = try OwlClient(withRuns: kind)
        var (development, production): ([String], [String]) = ([], [])
        for number in 0..<9 {
            let isDevelopment = number % 3 == 1
            let body = AttachmentTests.body([65], user: "ada", more: isDevelopment ? #","is_dev":true"# : "")
            let reserved = try json(try client.call("POST", "/v1/ingest/attachment", body))
            let id = try #require(reserved["attachment_id"] as? String)
            if isDevelopment { development.insert(id, at: 0) } else { production.insert(id, at: 0) }
        }
        func pages(_ mode: String) throws -> [[String]] {
            var (query, found): (String, [[String]]) = ("data_mode=\(mode)&limit=2", [])
            while found.count < 9 {
                let page = try json(try agent(client, "GET", "/v1/attachments?\(query)"))
                let files = page["attachments"] as? [[String: Any]] ?? []
                #expect(files.allSatisfy { development.contains($0["id"] as? String ?? "") == $0["is_dev"] as? Bool })
                found.append(files.compactMap { $0["id"] as? String })
                guard page["has_more"] as? Bool == true, let cursor = page["cursor"] as? String else { break }
                query = "data_mode=\(mode)&limit=2&cursor=\(cursor)"
            }
            return found
        }
        #expect(try pages("development") == [Array(development.prefix(2)), Array(development.suffix(1))])
        #expect(try pages("production").map(\.count) == [2, 2, 2])
        #expect(try pages("production").flatMap(\.self) == production)
        #expect(try list(client, "data_mode=all").count == 9 && list(client).count == 9)
        #expect(try list(client, "data_mode=development&user_id=ada").count == 3)
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
        for missing in ["/v1/attachments/download", "/v1/attachments/download?t="] {
            let answer = try client.http.call("GET", missing)
            #expect(answer.status == 401 && answer.body == #"{"error":"Missing download token"}"#, "\(missing)")
        }
        for wrong in [
            "/v1/attachments/download?t=a.b.c", url + "0", url.replacing(id, with: other),
            "\(parts[0]).\((Int(parts[1]) ?? 0) + 1).\(parts[2])",
        ] {
            let answer = try client.http.call("GET", wrong)
            #expect(
                answer.status == 401 && answer.body == #"{"error":"Invalid or expired download token"}"#, "\(wrong)")
        }
        clock.advance(milliseconds: 61_000)
        #expect(try client.http.call("GET", url).status == 401)
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
        #expect(try admin(client, "DELETE", "/v1/attachments/\(deleted)").body == #"{"ok":true}"#)
        #expect(try admin(client, "DELETE", "/v1/attachments/\(deleted)").status == 404)
        _ = try client.claim("owl_anon_1", "ada")
        let late = try send(client, Array("late".utf8), user: "owl_anon_1")
        #expect(try list(client, "user_id=ada").map { $0["id"] as? String } == [late, kept])
        #expect(try list(client).map { $0["user_id"] as? String } == ["ada", "ada"])
        try client.undoClaim("ada")
        #expect(try list(client, "user_id=ada").isEmpty)
        #expect(try list(client, "user_id=owl_anon_1").count == 2)
        let url = try address(try agent(client, "GET", "/v1/attachments/\(kept)"))
        #expect(try client.http.call("GET", url).body == "same")
        #expect(try admin(client, "DELETE", "/v1/attachments/\(kept)").status == 200)
        #expect(try client.http.call("GET", url).status == 404)
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
            let found = try list(client, query)
            #expect(found.map { $0["id"] as? String } == [id], "\(query)")
            #expect(found.first?["event_id"] as? String == event && found.first?["issue_id"] as? String == issue)
        }
        // An announcement after its event knows the event when the file has arrived.
        let late = try send(client, [67], user: "ada", event: AttachmentTests.event)
        let found = try list(client, "issue_id=\(issue)")
        #expect(found.map { $0["id"] as? String } == [late, id] && found.first?["event_id"] as? String == event)
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
        clock.advance(milliseconds: 25 * 3_600_000)
        #expect(
            try refused(41, "ada") == #"{"code":"user_quota_exhausted","user_quota_bytes":100,"user_used_bytes":60}"#)
        #expect(try admin(client, "DELETE", "/v1/attachments/\(id)").status == 200)
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
                + "Content-Type: application/octet-stream\r\nContent-Length: 400000\r\n\r\n")
        try wire.send([UInt8](repeating: 65, count: 300_000))
        wire.reset()
        let incoming = "\(folder.path)/attachments/incoming"
        func left() -> Int { (try? FileManager.default.contentsOfDirectory(atPath: incoming).count) ?? 0 }
        #expect(try put(client, id, [UInt8](repeating: 65, count: 400_000)).status == 200)
        #expect(Patience.until { left() == 0 })
    }
}
