import Foundation
import TestKit
import Testing

/// `POST /v1/feedback` and reading it (spec/claim.md 1.7, 4.1), on every store.
@Suite("Feedback")
struct FeedbackTests {
    /// A server whose clock is right.
    private func client(_ kind: StoreKind) throws -> OwlClient { OwlClient(try TestServer(kind)) }

    /// Sends feedback; answers its id.
    private func send(_ client: OwlClient, _ user: String?, _ message: String) throws -> String {
        let user = user.map { #","user_id":"\#($0)""# } ?? ""
        let answer = try client.call("POST", "/v1/feedback", #"{"message":"\#(message)"\#(user)}"#)
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
        #expect(item["locale"] is NSNull && (item["app_id"] as? String)?.count == 36)
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
            let answer = try client.call("POST", "/v1/feedback", #"{"message":" \#(message) ",\#(more)}"#)
            #expect(answer.status == 201, "\(answer)")
        }
        let nul = try client.call("POST", "/v1/feedback", #"{"message":"a\u0000b"}"#)
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
        let id = try send(client, "ada", "m")
        #expect(
            try client.call("DELETE", "/v1/feedback/\(id)").body == #"{"error":"Missing permission: feedback:write"}"#)
    }

    @Test("moves with a claim and back, and what was deleted stays where it was", arguments: StoreKind.allCases)
    func claims(_ kind: StoreKind) throws {
        let client = try client(kind)
        let agent = client.server.credentials.claimAgentKey
        _ = try send(client, "owl_anon_1", "kept")
        let id = try send(client, "owl_anon_1", "deleted")
        #expect(try client.call("DELETE", "/v1/feedback/\(id)", key: agent).body == #"{"deleted":true}"#)
        #expect(try client.call("DELETE", "/v1/feedback/\(id)", key: agent).status == 404)
        #expect(
            try client.call("DELETE", "/v1/feedback/x", key: agent).body == #"{"error":"Feedback not found"}"#)
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
