import Foundation
import TestKit
import Testing

/// `POST /v1/feedback` and reading it (spec/claim.md 1.7, 4.1), on every store.
@Suite("Feedback")
struct FeedbackTests {
    /// A server whose clock is right.
    private func client(_ kind: StoreKind) throws -> OwlClient { OwlClient(try TestServer(kind)) }

    private var bundle: String { #""bundle_id":"com.example.demo""# }

    /// Sends feedback; answers its id.
    private func send(_ client: OwlClient, _ user: String?, _ message: String) throws -> String {
        let user = user.map { #","user_id":"\#($0)""# } ?? ""
        let answer = try client.call("POST", "/v1/feedback", #"{"message":"\#(message)",\#(bundle)\#(user)}"#)
        #expect(answer.status == 201, "\(answer)")
        let body = try JSONSerialization.jsonObject(with: Data(answer.body.utf8)) as? [String: String]
        #expect(body?.keys.sorted() == ["created_at", "id"])
        return try #require(body?["id"])
    }

    private func list(_ client: OwlClient, _ query: String = "", path: String = "/v1/feedback") throws -> [String: Any]
    {
        let answer = try client.call(
            "GET", "\(path)?data_mode=all&\(query)", key: client.server.credentials.claimAgentKey)
        #expect(answer.status == 200, "\(answer)")
        return try JSONSerialization.jsonObject(with: Data(answer.body.utf8)) as? [String: Any] ?? [:]
    }

    private func items(_ client: OwlClient, _ query: String = "") throws -> [[String: Any]] {
        try list(client, query)["feedback"] as? [[String: Any]] ?? []
    }

    private func messages(_ client: OwlClient, _ query: String = "") throws -> [String] {
        try items(client, query).compactMap { $0["message"] as? String }
    }

    @Test("is kept with all that it says, and listed", arguments: StoreKind.allCases)
    func keeps(_ kind: StoreKind) throws {
        let client = try client(kind)
        let name = String(repeating: "n", count: 300)
        let answer = try client.call(
            "POST", "/v1/feedback",
            #"""
            {"message":"  Nice app \n","submitter_name":"\#(name)","submitter_email":"ada@example.com","user_id":"ada",
            "session_id":"\#(OwlClient.session)","environment":"ios","app_version":"1.2","is_dev":true,
            "bundle_id":"com.example.demo","unknown":[1]}
            """#)
        #expect(answer.status == 201, "\(answer)")
        let item = try #require(try items(client).first)
        #expect(item["message"] as? String == "Nice app")
        #expect((item["submitter_name"] as? String)?.count == 255)
        #expect(item["submitter_email"] as? String == "ada@example.com" && item["user_id"] as? String == "ada")
        #expect(item["session_id"] as? String == OwlClient.session && item["environment"] as? String == "ios")
        #expect(item["app_version"] as? String == "1.2" && item["is_dev"] as? Bool == true)
        #expect(item["country_code"] is NSNull && (item["app_id"] as? String)?.count == 36)
        #expect(item["status"] as? String == "new" && item["app_name"] as? String == "Test (claim)")
        #expect(
            item["project_name"] as? String == "Test" && (item["user_properties"] as? [String: String])?.isEmpty == true
        )
        #expect(item["updated_at"] as? String == item["created_at"] as? String)
        #expect(answer.body.contains(try #require(item["id"] as? String)))
        #expect(answer.body.contains(try #require(item["created_at"] as? String)))
        let production = try client.call("GET", "/v1/feedback", key: client.server.credentials.claimAgentKey)
        #expect(production.body == #"{"feedback":[],"cursor":null,"has_more":false}"#)
        #expect((try client.person("ada")["counts"] as? [String: Int])?["feedback"] == 1)
    }

    static let refused: [(String, Int, String)] = [
        ("{}", 400, "message is required"), ("[]", 400, "message is required"),
        (#"{"message":7}"#, 400, "message is required"), (#"{"message":" \n\t "}"#, 400, "message is required"),
        (
            #"{"message":"\#(String(repeating: "m", count: 4001))"}"#, 400, "message must be at most 4000 characters"
        ),
        (#"{"message":"m","submitter_email":"ada"}"#, 400, "submitter_email is not a valid email address"),
        (#"{"message":"m","submitter_email":"a@b"}"#, 400, "submitter_email is not a valid email address"),
        (#"{"message":"m","submitter_email":"a b@c.d"}"#, 400, "submitter_email is not a valid email address"),
        (#"{"message":"m","submitter_email":"a@b@c.d"}"#, 400, "submitter_email is not a valid email address"),
        (#"{"message":"m","submitter_email":"a@.d"}"#, 400, "submitter_email is not a valid email address"),
        (#"{"message":"m","submitter_email":7}"#, 400, "submitter_email is not a valid email address"),
        (
            #"{"message":"m","submitter_email":"\#(String(repeating: "a", count: 317))@b.c"}"#, 400,
            "submitter_email is not a valid email address"
        ),
        (#"{"message":"m","session_id":"s"}"#, 400, "session_id must be a UUID"),
        (#"{"message":"m","session_id":7}"#, 400, "session_id must be a UUID"),
        (
            #"{"message":"m","environment":"android"}"#, 400,
            #"environment \"android\" is not allowed for apple apps (allowed: ios, ipados, macos, watchos)"#
        ),
        (#"{"message":"m","user_id":7}"#, 400, "user_id must be a string"),
        (
            #"{"message":"m","user_id":"\#(String(repeating: "u", count: 256))"}"#, 400,
            "user_id must have at most 255 characters"
        ),
        (
            #"{"message":"m","bundle_id":"other"}"#, 403,
            "bundle_id does not match the app associated with this API key"
        ),
        (#"{"message":"m"}"#, 400, "bundle_id is required"),
        (#"{"message":"m","bundle_id":""}"#, 400, "bundle_id is required"),
    ]

    @Test("is refused where it is none, in the vendor's words, and nothing is kept", arguments: refused)
    func refuses(_ body: String, _ status: Int, _ message: String) throws {
        let client = try OwlClient(.memory)
        let answer = try client.call("POST", "/v1/feedback", body)
        #expect(answer.status == status && answer.body == #"{"error":"\#(message)"}"#, "\(answer)")
        #expect(client.server.store.counts.people == 0)
    }

    @Test("takes what just fits")
    func fits() throws {
        let client = try OwlClient(.memory)
        let message = String(repeating: "😀", count: 2000)
        for more in [#""submitter_email":null"#, #""submitter_email":"""#, #""session_id":null"#, #""user_id":"""#] {
            let answer = try client.call("POST", "/v1/feedback", #"{"message":" \#(message) ",\#(bundle),\#(more)}"#)
            #expect(answer.status == 201, "\(answer)")
        }
        let nul = try client.call("POST", "/v1/feedback", #"{"message":"a\u0000b","bundle_id":"com.example.demo"}"#)
        #expect(nul.status == 400 && nul.body.contains("must not hold a NUL character"), "\(nul)")
    }

    @Test("is sent with a client key, and read with an agent's")
    func keys() throws {
        let client = try OwlClient(.memory)
        let credentials = client.server.credentials
        let imported = try client.call(
            "POST", "/v1/feedback", #"{"message":"m"}"#, key: credentials.claimImportKey)
        #expect(imported.status == 403 && imported.body == #"{"error":"Client key required for feedback ingest"}"#)
        #expect(try client.call("POST", "/v1/feedback", "{}", key: credentials.claimAgentKey).status == 403)
        #expect(try client.call("GET", "/v1/feedback").body == #"{"error":"Missing permission: feedback:read"}"#)
    }

    /// The path of feedback.
    private func path(_ client: OwlClient, _ id: String) throws -> String {
        "/v1/projects/\(try client.project())/feedback/\(id)"
    }

    @Test("is reviewed by agents, counted, and deleted by administrators", arguments: StoreKind.allCases)
    func review(_ kind: StoreKind) throws {
        let clock = ManualClock(1_750_000_000_000)
        let client = OwlClient(try TestServer(kind) { $0.clock = { clock.now } })
        let keys = client.server.credentials
        _ = try client.properties("ada", #"{"plan":"pro"}"#)
        let id = try send(client, "ada", "one")
        let other = try send(client, nil, "two")
        let path = try path(client, id)
        func call(_ method: String, _ path: String, _ body: String? = nil, key: String? = nil) throws -> Wire.Answer {
            try client.call(method, path, body, key: key ?? keys.claimAgentKey)
        }
        func check(_ answer: Wire.Answer, _ status: Int, _ body: String, _ line: Int = #line) {
            #expect(answer.status == status && answer.body == body, "line \(line): \(answer)")
        }
        let first = try OwlClient.json(try call("GET", path))
        #expect((first["comments"] as? [Any])?.isEmpty == true && first["message"] as? String == "one")
        #expect(first["user_properties"] as? [String: String] == ["plan": "pro"])
        #expect(try OwlClient.json(try call("GET", try self.path(client, other)))["user_properties"] is NSNull)
        for (body, text) in [
            ("{}", "status is required"), (#"{"status":""}"#, "status is required"),
            (#"{"status":"x"}"#, "Invalid status. Must be one of: new, in_review, addressed, dismissed"),
        ] {
            check(try call("PATCH", path, body), 400, #"{"error":"\#(text)"}"#)
        }
        clock.advance(milliseconds: 1000)
        let changed = try OwlClient.json(try call("PATCH", path, #"{"status":"in_review"}"#))
        #expect(changed["status"] as? String == "in_review" && changed["message"] as? String == "one")
        #expect(changed["updated_at"] as? String == "2025-06-15T15:06:41.000Z")
        #expect(changed["created_at"] as? String == "2025-06-15T15:06:40.000Z")
        #expect(try messages(client, "status=in_review") == ["one"] && messages(client, "status=new") == ["two"])
        for (query, number) in [
            ("", 2), ("status=in_review", 1), ("since=1h", 2), ("since=2025-06-15T15:06:40.001Z", 0),
            ("data_mode=development", 0), ("is_dev=true", 0), ("is_dev=false&data_mode=development", 2),
            ("project_id=x", 0), ("team_id=x", 0),
        ] {
            check(try call("GET", "/v1/feedback/count?\(query)"), 200, #"{"count":\#(number)}"#)
        }
        let none = #"{"error":"Feedback not found"}"#
        check(try call("GET", try self.path(client, "x")), 404, none)
        check(try call("PATCH", try self.path(client, "x"), #"{"status":"new"}"#), 404, none)
        check(try call("GET", "/v1/projects/x/feedback/\(id)"), 404, #"{"error":"Project not found"}"#)
        check(
            try call("PATCH", path, #"{"status":"new"}"#, key: keys.claimClientKey), 403,
            #"{"error":"Missing permission: feedback:write"}"#)
        check(try call("DELETE", path), 403, #"{"error":"Only users can delete feedback"}"#)
        check(try call("DELETE", path, key: keys.adminKey), 200, #"{"deleted":true}"#)
        for method in ["GET", "DELETE"] { check(try call(method, path, key: keys.adminKey), 404, none) }
        check(try call("PATCH", path, #"{"status":"new"}"#), 404, none)
        #expect(try messages(client) == ["two"])
    }

    @Test("gets comments, which their writers change", arguments: StoreKind.allCases)
    func comments(_ kind: StoreKind) throws {
        let clock = ManualClock(1_750_000_000_000)
        let client = OwlClient(try TestServer(kind) { $0.clock = { clock.now } })
        let keys = client.server.credentials
        let feedback = try send(client, "ada", "one")
        let path = try path(client, feedback) + "/comments"
        func call(_ method: String, _ path: String, _ body: String? = nil, key: String? = nil) throws -> Wire.Answer {
            try client.call(method, path, body, key: key ?? keys.claimAgentKey)
        }
        func check(_ answer: Wire.Answer, _ status: Int, _ body: String, _ line: Int = #line) {
            #expect(answer.status == status && answer.body == body, "line \(line): \(answer)")
        }
        for body in ["{}", #"{"body":" \n"}"#, #"{"body":7}"#] {
            check(try call("POST", path, body), 400, #"{"error":"body is required"}"#)
        }
        let posted = try call("POST", path, #"{"body":" by an agent "}"#)
        let comment = try OwlClient.json(posted)
        #expect(
            comment.keys.sorted() == [
                "author_id", "author_name", "author_type", "body", "created_at", "feedback_id", "id", "updated_at",
            ])
        #expect(posted.status == 201 && comment["feedback_id"] as? String == feedback)
        #expect(comment["body"] as? String == "by an agent" && comment["author_type"] as? String == "agent")
        #expect(comment["author_name"] as? String == "Agent")
        clock.advance(milliseconds: 1000)
        let other = try OwlClient.json(try call("POST", path, #"{"body":"by a person"}"#, key: keys.adminKey))
        #expect(other["author_type"] as? String == "user")
        let (own, others) = ("\(path)/\(comment["id"] ?? "")", "\(path)/\(other["id"] ?? "")")
        let edited = try OwlClient.json(try call("PATCH", own, #"{"body":"changed"}"#))
        #expect(edited["body"] as? String == "changed" && edited["created_at"] as? String == "2025-06-15T15:06:40.000Z")
        #expect(edited["updated_at"] as? String == "2025-06-15T15:06:41.000Z")
        let notAuthor = #"{"error":"Only the original author can edit this comment"}"#
        check(try call("PATCH", others, #"{"body":"x"}"#), 403, notAuthor)
        check(try call("PATCH", own, #"{"body":"x"}"#, key: keys.adminKey), 403, notAuthor)
        check(try call("PATCH", own, #"{"body":""}"#), 400, #"{"error":"body is required"}"#)
        func bodies() throws -> [String?] {
            let shown = try OwlClient.json(try call("GET", try self.path(client, feedback)))
            let listed = try OwlClient.json(try call("GET", path))["comments"] as? [[String: Any]] ?? []
            let comments = shown["comments"] as? [[String: Any]] ?? []
            #expect(comments.map { $0["id"] as? String } == listed.map { $0["id"] as? String })
            return comments.map { $0["body"] as? String }
        }
        #expect(try bodies() == ["changed", "by a person"])
        check(
            try call("DELETE", others), 403,
            #"{"error":"Only the original author or a team admin can delete this comment"}"#)
        check(try call("DELETE", own, key: keys.adminKey), 200, #"{"deleted":true}"#)
        check(try call("DELETE", own, key: keys.adminKey), 404, #"{"error":"Comment not found"}"#)
        check(try call("PATCH", "\(path)/x", #"{"body":"x"}"#), 404, #"{"error":"Comment not found"}"#)
        check(
            try call("POST", "/v1/projects/x/feedback/\(feedback)/comments", "{}"), 404,
            #"{"error":"Project not found"}"#)
        #expect(try bodies() == ["by a person"])
        // The comments go with the person of the feedback.
        let person = try client.person("ada")["id"] as? String ?? ""
        #expect(try call("DELETE", "/onym/v1/people/\(person)", key: keys.adminKey).status == 200)
        check(try call("GET", path), 404, #"{"error":"Feedback not found"}"#)
    }

    @Test("moves with a claim and back, and what was deleted stays where it was", arguments: StoreKind.allCases)
    func claims(_ kind: StoreKind) throws {
        let client = try client(kind)
        let admin = client.server.credentials.adminKey
        _ = try send(client, "owl_anon_1", "kept")
        let id = try send(client, "owl_anon_1", "deleted")
        #expect(try client.call("DELETE", try path(client, id), key: admin).body == #"{"deleted":true}"#)
        _ = try client.claim("owl_anon_1", "ada")
        _ = try send(client, "owl_anon_1", "late")
        #expect(try messages(client, "user_id=ada") == ["late", "kept"])
        #expect(try items(client).map { $0["user_id"] as? String } == ["ada", "ada"])
        try client.undoClaim("ada")
        #expect(try messages(client, "user_id=ada").isEmpty)
        #expect(try messages(client, "user_id=owl_anon_1") == ["late", "kept"])
    }

    @Test("is listed page by page, none twice and none left out", arguments: StoreKind.allCases)
    func pages(_ kind: StoreKind) throws {
        let client = try client(kind)
        for number in 0..<12 { _ = try send(client, number.isMultiple(of: 2) ? "ada" : nil, "m\(number)") }
        var (query, all): (String, [String]) = ("limit=5", [])
        for _ in 0..<20 {
            let page = try list(client, query)
            all += (page["feedback"] as? [[String: Any]] ?? []).compactMap { $0["message"] as? String }
            guard page["has_more"] as? Bool == true, let cursor = page["cursor"] as? String else { break }
            query = "limit=5&cursor=\(cursor)"
        }
        #expect(all == (0..<12).reversed().map { "m\($0)" })
        #expect(try messages(client, "user_id=ada").count == 6)
        #expect(try messages(client, "since=1h").count == 12 && messages(client, "until=1h").isEmpty)
        let projects = try client.call("GET", "/v1/projects", key: client.server.credentials.claimAgentKey)
        let project = try #require(projects.body.firstMatch(of: /"id":"([^"]+)"/)?.1)
        let own = try list(client, path: "/v1/projects/\(project)/feedback")["feedback"] as? [Any]
        #expect(own?.count == 12)
        let other = try client.call(
            "GET", "/v1/projects/\(OwlClient.session)/feedback", key: client.server.credentials.claimAgentKey)
        #expect(other.status == 404)
    }
}
