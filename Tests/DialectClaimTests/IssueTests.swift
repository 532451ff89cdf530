import Foundation
import TestKit
import Testing

/// Issues, which error events make (spec/claim.md 1.7), on every store.
@Suite("Issues")
struct IssueTests {
    /// One moment for all of a test's errors: what lies between them is what the test says.
    private let now = Date()

    private func issues(_ client: OwlClient, _ query: String = "data_mode=all") throws -> [[String: Any]] {
        let projects = try client.agent("/v1/projects")["projects"] as? [[String: Any]]
        let project = try #require(projects?.first?["id"] as? String)
        let page = try client.agent("/v1/projects/\(project)/issues?\(query)")
        #expect(page["is_partial"] == nil, "every answer is whole")
        return page["issues"] as? [[String: Any]] ?? []
    }

    private func error(
        _ user: String?, _ message: String, session: Int, secondsAgo: Int = 0, id: String? = UUID().uuidString,
        more: String = ""
    ) -> String {
        let at = now.addingTimeInterval(Double(-secondsAgo)).formatted(.iso8601)
        let user = user.map { #""user_id":"\#($0)","# } ?? ""
        let id = id.map { #""client_event_id":"\#($0)","# } ?? ""
        let session = "6F9619FF-8B86-D011-B42D-" + String(1_000_000_000_00 + session)
        return
            #"{\#(id)\#(user)"session_id":"\#(session)","level":"error","message":"\#(message)","timestamp":"\#(at)"\#(more)}"#
    }

    private func counts(_ issue: [String: Any]?) -> [Int?] {
        [issue?["occurrence_count"] as? Int, issue?["unique_user_count"] as? Int]
    }

    @Test("errors that are alike are one issue, once for each session", arguments: StoreKind.allCases)
    func alike(_ kind: StoreKind) throws {
        let client = try OwlClient(kind)
        let sent = try client.ingest([
            error("ada", "Request 17 failed after 2.5 s", session: 1, secondsAgo: 600),
            error("ada", "Request 18 failed after 30 s", session: 1, secondsAgo: 300),
            error("bob", "Request 19 failed after 1 s", session: 2, secondsAgo: 200),
            error("bob", "Out of memory", session: 2, secondsAgo: 100),
            OwlClient.event("ada", "Request 20 failed after 1 s"),
        ])
        #expect(sent.body == #"{"accepted":5,"rejected":0}"#)
        let issues = try issues(client)
        #expect(issues.map { $0["title"] as? String } == ["Out of memory", "Request 17 failed after 2.5 s"])
        #expect(counts(issues.last) == [2, 2])
        #expect(counts(issues.first) == [1, 1])
        #expect((issues.first?["fingerprint"] as? String)?.count == 64)
        let id = try #require(issues.last?["id"] as? String)
        let issue = try client.agent("/v1/issues/\(id)")
        let occurrences = issue["occurrences"] as? [[String: Any]] ?? []
        #expect(occurrences.map { $0["user_id"] as? String } == ["bob", "ada"])
        #expect(issue["last_seen_at"] as? String == occurrences.first?["timestamp"] as? String)
        #expect(issue["first_seen_at"] as? String == occurrences.last?["timestamp"] as? String)
        let none = try client.call("GET", "/v1/issues/x", key: client.server.credentials.claimAgentKey)
        #expect(none.status == 404 && none.body == #"{"error":"Issue not found"}"#)
        #expect(try client.call("GET", "/v1/issues/\(id)").status == 403, "agents alone read issues")
    }

    @Test("what broke takes other things with it, for five seconds", arguments: StoreKind.allCases)
    func joined(_ kind: StoreKind) throws {
        let client = try OwlClient(kind)
        _ = try client.ingest([error("ada", "first", session: 1, secondsAgo: 60)])
        _ = try client.ingest([
            error("ada", "second", session: 1, secondsAgo: 57), error("ada", "third", session: 1, secondsAgo: 55),
            error("ada", "elsewhere", session: 2, secondsAgo: 57), error("ada", "later", session: 1, secondsAgo: 50),
        ])
        #expect(try issues(client).map { $0["title"] as? String } == ["later", "elsewhere", "first"])
    }

    @Test("an error that is sent again is no other one", arguments: StoreKind.allCases)
    func repeated(_ kind: StoreKind) throws {
        let client = try OwlClient(kind)
        let batch = [error("ada", "lost", session: 1), error("ada", "lost", session: 2)]
        for _ in 0..<3 { _ = try client.ingest(batch) }
        // Hours later, in the same session, but with another id.
        _ = try client.ingest([error("ada", "lost", session: 1, secondsAgo: 7200)])
        #expect(try issues(client).map(counts) == [[2, 1]])
    }

    @Test("who is one user after a claim counts once, and twice again after undo", arguments: StoreKind.allCases)
    func claimed(_ kind: StoreKind) throws {
        let client = try OwlClient(kind)
        _ = try client.ingest([
            error("owl_anon_1", "lost", session: 1), error("ada", "lost", session: 2), error(nil, "lost", session: 3),
        ])
        #expect(try issues(client).map(counts) == [[3, 2]])
        _ = try client.claim("owl_anon_1", "ada")
        #expect(try issues(client).map(counts) == [[3, 1]])
        _ = try client.ingest([error("owl_anon_1", "lost", session: 4)])
        #expect(try issues(client).map(counts) == [[4, 1]])
        let id = try #require(try issues(client).first?["id"] as? String)
        let occurrences = try client.agent("/v1/issues/\(id)")["occurrences"] as? [[String: Any]] ?? []
        #expect(Set(occurrences.map { $0["user_id"] as? String }) == ["ada", nil])
        let merges = try client.person("ada")["merges"] as? [[String: Any]]
        let merge = try #require(merges?.first?["id"] as? String)
        _ = try client.call("POST", "/onym/v1/merges/\(merge)/undo", "{}", key: client.server.credentials.adminKey)
        #expect(try issues(client).map(counts) == [[4, 2]])
    }

    @Test("development builds have issues of their own, and types part what messages do not")
    func parted() throws {
        let client = try OwlClient(.memory)
        _ = try client.ingest([
            error("ada", "lost", session: 1), error("ada", "lost", session: 2, more: #","is_dev":true"#),
            error("ada", "lost", session: 3, more: #","custom_attributes":{"_error_type":"URLError"}"#),
            error("ada", "lost", session: 4, more: #","source_module":"Main.swift:load():12""#),
        ])
        #expect(try issues(client).count == 4)
        #expect(try issues(client, "").count == 3)
        #expect(try issues(client, "data_mode=development").map { $0["is_dev"] as? Bool } == [true])
        #expect(try issues(client, "data_mode=all&limit=3").count == 3)
        #expect(try issues(client, "data_mode=all&limit=3&cursor=3").count == 1)
    }

    static let normalized: [(String, String, Bool)] = [
        ("took 5 ms", "took 1,234.5 ms", true), ("took 5ms", "took 7ms", true), ("utf8", "utf16", false),
        ("user 6F9619FF-8B86-D011-B42D-00CF4FC964FF", "user 00000000-0000-0000-0000-000000000000", true),
        ("at 0x7fff1a", "at 0x10", true), ("commit deadbeef01", "commit 0123456789abcdef", true),
        ("no 'a' here", "no 'bcd e' here", true), ("no `a` here", "no `b` here", true),
        ("can't read 'a'", "can't read 'it's'", true), ("can't read", "can't write", false),
        ("  two   spaces ", "two spaces", true), ("it 'never ends", "it 'never stops", false),
        ("facade", "decade", false), ("a:b", "a|b", false),
    ]

    @Test("messages are alike but for what differs from one time to the next", arguments: normalized)
    func normalizes(_ one: String, _ other: String, _ isOne: Bool) throws {
        let client = try OwlClient(.memory)
        _ = try client.ingest([error("ada", one, session: 1), error("ada", other, session: 2)])
        #expect(try issues(client).count == (isOne ? 1 : 2))
    }
}
