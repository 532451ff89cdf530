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

    private func path(_ client: OwlClient, _ id: String) throws -> String {
        "/v1/projects/\(try client.project())/issues/\(id)"
    }

    private func detail(_ client: OwlClient, _ id: String, _ query: String = "") throws -> [String: Any] {
        try client.agent("\(try path(client, id))?\(query)")
    }

    private func change(_ client: OwlClient, _ id: String, _ body: String) throws -> Wire.Answer {
        try client.call("PATCH", try path(client, id), body, key: client.server.credentials.claimAgentKey)
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
        let client = try OwlClient(withRuns: kind)
        let sent = try client.ingest([
            error("ada", "Request 17 failed after 2.5 s", session: 1, secondsAgo: 600),
            error("ada", "Request 18 failed after 30 s", session: 1, secondsAgo: 300),
            error("bob", "Request 19 failed after 1 s", session: 2, secondsAgo: 200),
            error("bob", "Out of memory", session: 2, secondsAgo: 100),
            OwlClient.event("ada", "Request 20 failed after 1 s"),
        ])
        #expect(sent.body == #"{"accepted":5,"rejected":0}"#)
        let issues = try issues(client)
        let titles = ["Out of memory", "Request 17 failed after 2.5 s"]
        #expect(Set(issues.map { $0["title"] as? String }) == Set(titles))
        let failed = try #require(issues.first { $0["title"] as? String == titles[1] })
        #expect(counts(failed) == [2, 2])
        #expect(counts(issues.first { $0["title"] as? String == titles[0] }) == [1, 1])
        #expect((failed["fingerprints"] as? [String])?.map(\.count) == [64] && failed["status"] as? String == "new")
        let issue = try detail(client, try #require(failed["id"] as? String))
        let occurrences = issue["occurrences"] as? [[String: Any]] ?? []
        #expect(occurrences.map { $0["user_id"] as? String } == ["bob", "ada"])
        #expect(issue["last_seen_at"] as? String == occurrences.first?["timestamp"] as? String)
        #expect(issue["first_seen_at"] as? String == occurrences.last?["timestamp"] as? String)
        #expect(try detail(client, "x")["error"] as? String == "Issue not found")
        #expect(try client.call("GET", "/v1/issues").status == 403, "agents alone read issues")
    }

    @Test("what broke takes other things with it, for five seconds", arguments: StoreKind.allCases)
    func joined(_ kind: StoreKind) throws {
        let client = try OwlClient(withRuns: kind)
        _ = try client.ingest([error("ada", "first", session: 1, secondsAgo: 60)])
        _ = try client.ingest([
            error("ada", "second", session: 1, secondsAgo: 57), error("ada", "third", session: 1, secondsAgo: 55),
            error("ada", "elsewhere", session: 2, secondsAgo: 57), error("ada", "later", session: 1, secondsAgo: 50),
        ])
        #expect(Set(try issues(client).map { $0["title"] as? String }) == ["later", "elsewhere", "first"])
        let first = try #require(try issues(client).first { $0["title"] as? String == "first" })
        #expect(counts(first) == [1, 1] && (first["fingerprints"] as? [String])?.count == 3)
        // The fingerprints stay with the issue: later errors of the same kind reach it.
        _ = try client.ingest([error("bob", "third", session: 3)])
        #expect(try issues(client).map(counts).max { ($0[0] ?? 0) < ($1[0] ?? 0) } == [2, 2])
        #expect(try issues(client).count == 3)
    }

    @Test("an error that is sent again is no other one", arguments: StoreKind.allCases)
    func repeated(_ kind: StoreKind) throws {
        let client = try OwlClient(withRuns: kind)
        let batch = [error("ada", "lost", session: 1), error("ada", "lost", session: 2)]
        for _ in 0..<3 { _ = try client.ingest(batch) }
        // Hours later, in the same session, but with another id.
        _ = try client.ingest([error("ada", "lost", session: 1, secondsAgo: 7200)])
        #expect(try issues(client).map(counts) == [[2, 1]])
    }

    @Test("who is one user after a claim counts once, and twice again after undo", arguments: StoreKind.allCases)
    func claimed(_ kind: StoreKind) throws {
        let client = try OwlClient(withRuns: kind)
        _ = try client.ingest([
            error("owl_anon_1", "lost", session: 1), error("ada", "lost", session: 2), error(nil, "lost", session: 3),
        ])
        #expect(try issues(client).map(counts) == [[3, 2]])
        _ = try client.claim("owl_anon_1", "ada")
        #expect(try issues(client).map(counts) == [[3, 1]])
        _ = try client.ingest([error("owl_anon_1", "lost", session: 4)])
        #expect(try issues(client).map(counts) == [[4, 1]])
        let id = try #require(try issues(client).first?["id"] as? String)
        let occurrences = try detail(client, id)["occurrences"] as? [[String: Any]] ?? []
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
        #expect(try issues(client, "").count == 4 && issues(client, "data_mode=production").count == 3)
        #expect(try issues(client, "is_dev=true&data_mode=production").count == 1)
        #expect(try issues(client, "data_mode=development").map { $0["is_dev"] as? Bool } == [true])
        let page = try client.agent("/v1/issues?data_mode=all&limit=3")
        let cursor = try #require(page["cursor"] as? String)
        #expect((page["issues"] as? [Any])?.count == 3 && page["has_more"] as? Bool == true)
        #expect(try issues(client, "limit=3&cursor=\(cursor)").count == 1)
        #expect(try issues(client, "limit=4&cursor=none").count == 4)
        let team = try client.agent("/v1/issues?limit=3")
        #expect(
            (team["issues"] as? [Any])?.count == 3 && team["has_more"] as? Bool == false && team["cursor"] is NSNull)
        #expect(((team["issues"] as? [[String: Any]])?.first?["project_name"] as? String) == "Test")
        #expect((try client.agent("/v1/issues?team_id=x")["issues"] as? [Any])?.isEmpty == true)
    }

    // MARK: - Status

    /// The statuses that can follow each status.
    static let transitions: [String: Set<String>] = [
        "new": ["in_progress", "resolved", "silenced", "snoozed"],
        "in_progress": ["new", "resolved", "silenced", "snoozed"],
        "resolved": ["new", "silenced", "snoozed"], "silenced": ["new", "in_progress", "resolved", "snoozed"],
        "snoozed": ["new", "in_progress", "resolved", "silenced"],
        "regressed": ["in_progress", "resolved", "silenced", "snoozed"],
    ]

    @Test("the status follows the table, and only the table", arguments: StoreKind.allCases)
    func statuses(_ kind: StoreKind) throws {
        let clock = ManualClock(Int64(now.timeIntervalSince1970 * 1000) + 10_000)
        let client = OwlClient(try TestServer(kind) { $0.clock = { clock.now } })
        _ = try client.ingest([error("ada", "lost", session: 1, more: #","app_version":"1.0""#)])
        let id = try #require(try issues(client).first?["id"] as? String)
        for (body, text) in [
            ("{}", "status is required"),
            (
                #"{"status":"x"}"#,
                "Invalid status. Must be one of: new, in_progress, resolved, silenced, regressed, snoozed"
            ), (#"{"status":"regressed"}"#, "Cannot transition from 'new' to 'regressed'"),
            (
                #"{"status":"resolved","resolved_at_version":" "}"#,
                "resolved_at_version is required when resolving an issue. Use status='silenced' if you don't want auto-regression."
            ),
        ] {
            let answer = try change(client, id, body)
            #expect(answer.status == 400 && answer.body == #"{"error":"\#(text)"}"#, "\(answer)")
        }
        #expect(try change(client, "x", #"{"status":"new"}"#).status == 404)
        // A comment changes the issue too.
        let before = try detail(client, id)["updated_at"] as? String
        clock.advance(milliseconds: 1000)
        _ = try client.call(
            "POST", try path(client, id) + "/comments", #"{"body":"seen"}"#,
            key: client.server.credentials.claimAgentKey)
        #expect(try detail(client, id)["updated_at"] as? String ?? "" > before ?? "")
        func set(_ status: String) throws -> Wire.Answer {
            try change(client, id, #"{"status":"\#(status)","resolved_at_version":" 1.9 "}"#)
        }
        var session = 1
        /// Leads the issue from `silenced` to a status.
        func lead(to status: String) throws {
            switch status {
            case "silenced": break
            case "regressed":
                _ = try set("resolved")
                session += 1
                let later = error("ada", "lost", session: session, more: #","app_version":"1.10""#)
                _ = try client.ingest([later])
            default: #expect(try set(status).status == 200)
            }
            #expect(try detail(client, id)["status"] as? String == status)
        }
        #expect(try set("silenced").status == 200)
        for (former, next) in IssueTests.transitions.sorted(by: { $0.key < $1.key }) {
            for status in IssueTests.transitions.keys.sorted() {
                try lead(to: former)
                clock.advance(milliseconds: 1000)
                let answer = try set(status)
                let issue = try detail(client, id)
                if next.contains(status) {
                    #expect(answer.status == 200 && issue["status"] as? String == status, "\(former) \(status)")
                    #expect((issue["resolved_at_version"] as? String == "1.9") || status != "resolved")
                    #expect(issue["resolved_at_version"] is NSNull || !["new", "in_progress"].contains(status))
                    #expect((issue["snoozed_at"] is NSNull) == (status != "snoozed"), "\(former) \(status)")
                    let moment = issue["snoozed_at"] as? String ?? issue["updated_at"] as? String
                    #expect(issue["updated_at"] as? String == moment)
                } else {
                    let text = #"{"error":"Cannot transition from '\#(former)' to '\#(status)'"}"#
                    #expect(answer.status == 400 && answer.body == text, "\(answer)")
                }
                // Back to where each case begins.
                if try detail(client, id)["status"] as? String != "silenced" {
                    #expect(try set("silenced").status == 200)
                }
            }
        }
    }

    @Test("a resolved issue regresses in a later version, and a snoozed one wakes", arguments: StoreKind.allCases)
    func byThemselves(_ kind: StoreKind) throws {
        let client = try OwlClient(withRuns: kind)
        var session = 0
        func occur(_ version: String?) throws -> String {
            session += 1
            let more = version.map { #","app_version":"\#($0)""# } ?? ""
            _ = try client.ingest([error("ada", "lost", session: session, more: more)])
            return try issues(client).first?["status"] as? String ?? ""
        }
        #expect(try occur("1.0") == "new")
        let id = try #require(try issues(client).first?["id"] as? String)
        func set(_ body: String) throws { #expect(try change(client, id, body).status == 200) }
        for (version, later, other) in [
            ("1.9", "1.10", "1.8"), ("2.0", "2.0.1", "2.0.0"), ("2.0-beta", "2.0", "2.0-alpha"),
            ("01.2", "1.3", "1.02"),
            ("9", "10", "9.0"),
        ] {
            try set(#"{"status":"resolved","resolved_at_version":"\#(version)"}"#)
            for earlier in [version, other, nil] { #expect(try occur(earlier) == "resolved", "\(earlier ?? "none")") }
            #expect(try occur(later) == "regressed", "\(later) after \(version)")
        }
        #expect(try issues(client).first?["resolved_at_version"] as? String == "9")
        #expect(try issues(client).first?["last_seen_app_version"] as? String == "10")
        try set(#"{"status":"snoozed"}"#)
        #expect(try issues(client, "status=snoozed").count == 1 && issues(client, "status=new").isEmpty)
        #expect(try issues(client, "status=unknown").count == 1)
        #expect(try occur("1.0") == "new" && issues(client).first?["snoozed_at"] is NSNull)
        try set(#"{"status":"silenced"}"#)
        #expect(try occur("99") == "silenced")
    }

    // MARK: - Groups

    @Test(
        "a new fingerprint joins the known issue of its burst, and two known issues stay apart",
        arguments: StoreKind.allCases)
    func bursts(_ kind: StoreKind) throws {
        let client = try OwlClient(withRuns: kind)
        func titles() throws -> [String: [Int?]] {
            try issues(client).reduce(into: [:]) { $0[$1["title"] as? String ?? ""] = counts($1) }
        }
        _ = try client.ingest([error("ada", "old", session: 1, secondsAgo: 900)])
        _ = try client.ingest([error("ada", "known", session: 2, secondsAgo: 900)])
        // The new error came first, and joins the issue that was known.
        _ = try client.ingest([
            error("ada", "fresh", session: 3, secondsAgo: 600), error("ada", "old", session: 3, secondsAgo: 599),
        ])
        #expect(try titles() == ["old": [2, 1], "known": [1, 1]])
        // Two known issues of one burst stay apart, and each of them occurs.
        _ = try client.ingest([
            error("ada", "old", session: 4, secondsAgo: 300), error("ada", "known", session: 4, secondsAgo: 298),
        ])
        #expect(try titles() == ["old": [3, 1], "known": [2, 1]])
        // The fifth second belongs to the burst, and the next does not.
        _ = try client.ingest([
            error("ada", "one", session: 5, secondsAgo: 100), error("ada", "two", session: 5, secondsAgo: 95),
            error("ada", "three", session: 5, secondsAgo: 94),
        ])
        #expect(Set(try titles().keys) == ["old", "known", "one", "three"])
        // Development and production never share a burst.
        _ = try client.ingest([
            error("ada", "four", session: 6), error("ada", "five", session: 6, more: #","is_dev":true"#),
        ])
        #expect(try titles().count == 6)
        // A title that says nothing gives way to the message of another error.
        _ = try client.ingest([error("ada", "metric:load:fail", session: 7), error("ada", "No disk", session: 7)])
        #expect(try titles()["No disk"] == [1, 1] && titles()["metric:load:fail"] == nil)
    }

    @Test("a burst gives an issue no more parts than few documents hold, and no long chain of parts")
    func endlessBurst() throws {
        let client = try OwlClient(.memory)
        // One moment and one session: as far as the client says, all of it is one burst.
        let letters = Array("abcdefghijklmnopqrstuvwxyz")
        func name(_ number: Int) -> String { "x\(letters[number / 26 % 26])\(letters[number % 26])" }
        for page in 0..<2 {
            _ = try client.ingest((0..<75).map { error("ada", name(page * 75 + $0), session: 1) })
        }
        let apart = try issues(client)
        #expect(apart.count == 50, "the first with its 100 parts, and the others alone")
        // Each session begins with a new error, and goes on with that of the next session: each becomes a part of the next.
        for number in 0..<6 { _ = try client.ingest([error("bob", "y\(letters[number])", session: 10 + number)]) }
        for number in 0..<5 { _ = try client.ingest([error("bob", "y\(letters[number + 1])", session: 10 + number)]) }
        let titles = try issues(client).compactMap { $0["title"] as? String }.filter { $0.hasPrefix("y") }
        #expect(titles.count == 2, "a part with parts of its parts joins nothing: \(titles)")
    }

    @Test("requests are alike by method, host and path")
    func requests() throws {
        let client = try OwlClient(.memory)
        func request(_ method: String, _ url: String, session: Int) -> String {
            error(
                "ada", "sdk:network_request", session: session,
                more: #","custom_attributes":{"_http_method":"\#(method)","_http_url":"\#(url)"}"#)
        }
        _ = try client.ingest([
            request("GET", "https://API.example.com/users/17?x=1", session: 1),
            request("get", "https://api.example.com/users/18#a", session: 2),
            request("POST", "https://api.example.com/users/18", session: 3),
            request("GET", "https://api.example.com/v1/6F9619FF-8B86-D011-B42D-00CF4FC964FF/abcdefghijk1", session: 4),
            request("GET", "https://api.example.com/v1/00000000-0000-0000-0000-000000000000/bbbbbbbbbbb2", session: 5),
            request("GET", "https://api.example.com/v1/00000000-0000-0000-0000-000000000000/shortname1", session: 6),
        ])
        let titles = try issues(client).reduce(into: [:]) { $0[$1["title"] as? String ?? ""] = counts($1)[0] }
        #expect(
            titles == [
                "Network error: GET api.example.com/users/<n>": 2, "Network error: POST api.example.com/users/<n>": 1,
                "Network error: GET api.example.com/v1/<uuid>/<id>": 2,
                "Network error: GET api.example.com/v1/<uuid>/shortname1": 1,
            ], "\(titles)")
    }

    @Test("two issues are merged, with their comments, and the merge is taken back", arguments: StoreKind.allCases)
    func merges(_ kind: StoreKind) throws {
        let client = try OwlClient(withRuns: kind)
        let key = client.server.credentials.claimAgentKey
        for (session, user) in [(1, "ada"), (2, "bob")] {
            _ = try client.ingest([error(user, "one", session: session, secondsAgo: 900)])
            _ = try client.ingest([error(user, "two", session: session, secondsAgo: 600)])
        }
        _ = try client.ingest([error("eve", "two", session: 3)])
        func id(_ title: String) throws -> String {
            try #require(try issues(client).first { $0["title"] as? String == title }?["id"] as? String)
        }
        let (one, two) = (try id("one"), try id("two"))
        for issue in [one, two] {
            let made = try client.call(
                "POST", try path(client, issue) + "/comments", #"{"body":"\#(issue)"}"#, key: key)
            #expect(made.status == 201, "\(made)")
        }
        func merge(_ source: String?, into target: String) throws -> Wire.Answer {
            let body = source.map { #"{"source_issue_id":"\#($0)"}"# } ?? "{}"
            return try client.call("POST", try path(client, target) + "/merge", body, key: key)
        }
        let foreign = "6f6e796d-001e-8000-8000-000000000001"
        for (source, target, status, text) in [
            (nil, one, 400, "source_issue_id is required"), (one, one, 400, "Cannot merge an issue into itself"),
            (two, "x", 404, "Target issue not found"), (two, foreign, 404, "Target issue not found"),
            ("x", one, 404, "Source issue not found in this project"),
            (foreign, one, 404, "Source issue not found in this project"),
        ] as [(String?, String, Int, String)] {
            let answer = try merge(source, into: target)
            #expect(answer.status == status && answer.body == #"{"error":"\#(text)"}"#, "\(answer)")
        }
        let whole = try OwlClient.json(try merge(two, into: one))
        #expect(counts(whole) == [3, 3] && whole["id"] as? String == one)
        #expect((whole["fingerprints"] as? [String])?.count == 2)
        #expect(try issues(client).map { $0["id"] as? String } == [one])
        // Later errors reach the target, and the id of the source shows the whole.
        _ = try client.ingest([error("dan", "two", session: 9)])
        let shown = try detail(client, two)
        #expect(shown["id"] as? String == one && counts(shown) == [4, 4])
        #expect((shown["comments"] as? [[String: Any]])?.map { $0["body"] as? String } == [one, two])
        let listed = try client.agent(try path(client, one) + "/comments")["comments"] as? [Any]
        #expect(listed?.count == 2)
        // The occurrences have pages, with one occurrence of a session.
        var (query, found): (String, [String]) = ("occurrence_limit=2", [])
        for _ in 0..<5 {
            let page = try detail(client, one, query)
            found += (page["occurrences"] as? [[String: Any]] ?? []).compactMap { $0["user_id"] as? String }
            guard page["occurrence_has_more"] as? Bool == true, let cursor = page["occurrence_cursor"] as? String else {
                break
            }
            query = "occurrence_limit=2&occurrence_cursor=\(cursor)"
        }
        #expect(Set(found) == ["ada", "bob", "eve", "dan"] && found.count == 4)
        // Back again.
        let undo = try path(client, one) + "/merges/\(two)"
        #expect(counts(try OwlClient.json(try client.call("DELETE", undo, key: key))) == [2, 2])
        let none = try client.call("DELETE", undo, key: key)
        #expect(none.status == 404 && none.body == #"{"error":"Source issue not found in this project"}"#)
        #expect(Set(try issues(client).map { $0["id"] as? String }) == [one, two])
        #expect(counts(try detail(client, two)) == [4, 4])
        // A part of a part is taken out of the whole alone.
        _ = try client.ingest([error("ada", "three", session: 10)])
        let three = try id("three")
        for (source, target) in [(two, one), (one, three)] {
            #expect(try merge(source, into: target).status == 200)
        }
        #expect(try issues(client).map { $0["id"] as? String } == [three])
        #expect(try client.call("DELETE", try path(client, three) + "/merges/\(two)", key: key).status == 200)
        #expect(Set(try issues(client).map { $0["id"] as? String }) == [two, three])
        // Errors of development stay apart from errors of production.
        _ = try client.ingest([error("ada", "one", session: 11, more: #","is_dev":true"#)])
        let development = try #require(try issues(client, "is_dev=true").first?["id"] as? String)
        #expect(try merge(development, into: one).status == 400)
    }

    @Test("a comment about a merged issue is changed under each issue that shows it", arguments: StoreKind.allCases)
    func commentsOfParts(_ kind: StoreKind) throws {
        let client = try OwlClient(withRuns: kind)
        let key = client.server.credentials.claimAgentKey
        let titles = ["one", "two", "three"]
        _ = try client.ingest(titles.enumerated().map { error("ada", $1, session: $0) })
        let found = try issues(client)
        let ids = try titles.map { title in
            try #require(found.first { $0["title"] as? String == title }?["id"] as? String)
        }
        let (one, two, three) = (ids[0], ids[1], ids[2])
        func call(_ method: String, _ issue: String, _ comment: String, _ text: String? = nil) throws -> Wire.Answer {
            let body = text.map { #"{"body":"\#($0)"}"# }
            return try client.call(method, try path(client, issue) + "/comments\(comment)", body, key: key)
        }
        func post(_ text: String) throws -> String {
            let id = try #require(try OwlClient.json(try call("POST", two, "", text))["id"] as? String)
            return "/\(id)"
        }
        func shown(_ comments: Any?) -> [[String?]] {
            (comments as? [[String: Any]] ?? []).map { [$0["issue_id"] as? String, $0["body"] as? String] }
        }
        func listed(_ issue: String) throws -> [[String?]] {
            shown(try OwlClient.json(try call("GET", issue, ""))["comments"])
        }
        func check(_ answer: Wire.Answer, _ issue: String, _ text: String, _ line: Int = #line) throws {
            let comment = try OwlClient.json(answer)
            #expect(answer.status == 200 && comment["body"] as? String == text, "line \(line): \(answer)")
            #expect(comment["issue_id"] as? String == issue, "line \(line): \(answer)")
        }
        let (first, second) = (try post("first"), try post("second"))
        let merges = try path(client, one) + "/merge"
        #expect(try client.call("POST", merges, #"{"source_issue_id":"\#(two)"}"#, key: key).status == 200)
        for issue in [one, two] { #expect(try listed(issue) == [[issue, "first"], [issue, "second"]]) }
        // The id of the part shows the whole issue, with the id of the whole.
        #expect(shown(try detail(client, two)["comments"]) == [[one, "first"], [one, "second"]])
        try check(try call("PATCH", one, first, "by the whole"), one, "by the whole")
        try check(try call("PATCH", two, first, "by the part"), two, "by the part")
        for method in ["PATCH", "DELETE"] {
            let answer = try call(method, three, first, method == "PATCH" ? "x" : nil)
            #expect(answer.status == 404 && answer.body == #"{"error":"Comment not found"}"#, "\(answer)")
        }
        #expect(try call("DELETE", one, first).body == #"{"deleted":true}"#)
        #expect(try call("PATCH", one, first, "x").status == 404)
        #expect(try listed(one) == [[one, "second"]])
        #expect(try call("DELETE", two, second).body == #"{"deleted":true}"#)
        #expect(try listed(one).isEmpty && listed(two).isEmpty)
        // After the merge is taken back, the comment is about its own issue alone.
        let third = try post("third")
        #expect(try client.call("DELETE", try path(client, one) + "/merges/\(two)", key: key).status == 200)
        #expect(try call("PATCH", one, third, "x").status == 404)
        try check(try call("PATCH", two, third, "own"), two, "own")
    }

    @Test("an occurrence shows its event and its user, and an issue its attachments", arguments: StoreKind.allCases)
    func details(_ kind: StoreKind) throws {
        let client = try OwlClient(withRuns: kind)
        let event = UUID().uuidString
        let sent = error(
            "ada", "lost", session: 1, id: event,
            more: #","app_version":"1.2","sdk_name":"owl","sdk_version":"0.5","environment":"ios""#)
        _ = try client.ingest([sent])
        let reserved = try client.call(
            "POST", "/v1/ingest/attachment",
            #"""
            {"client_event_id":"\#(event)","original_filename":"a.txt","content_type":"text/plain","size_bytes":1,
            "sha256":"\#(String(repeating: "0", count: 64))"}
            """#)
        #expect(reserved.status == 201, "\(reserved)")
        // A second event tells the attachment of another event about its issue at once.
        let later = UUID().uuidString
        _ = try client.call(
            "POST", "/v1/ingest/attachment",
            #"""
            {"client_event_id":"\#(later)","original_filename":"b.txt","content_type":"text/plain","size_bytes":1,
            "sha256":"\#(String(repeating: "0", count: 64))"}
            """#)
        _ = try client.ingest([error("ada", "lost", session: 2, id: later)])
        let id = try #require(try issues(client).first?["id"] as? String)
        let issue = try detail(client, id)
        let occurrence = try #require((issue["occurrences"] as? [[String: Any]])?.last)
        #expect(
            occurrence.keys.sorted() == [
                "app_user_id", "app_version", "country_code", "created_at", "environment", "event_id", "id", "issue_id",
                "sdk_name", "sdk_version", "session_id", "timestamp", "user_id",
            ])
        #expect(occurrence["issue_id"] as? String == id && occurrence["sdk_version"] as? String == "0.5")
        let events = try client.agent("/v1/events?data_mode=all&order=asc")["events"] as? [[String: Any]]
        let first = events?.first { $0["client_event_id"] as? String == event }
        #expect(occurrence["event_id"] as? String == first?["id"] as? String && first != nil)
        let users = try client.agent("/v1/app-users?data_mode=all")["users"] as? [[String: Any]]
        #expect(occurrence["app_user_id"] as? String == users?.first?["id"] as? String && users?.count == 1)
        #expect(issue["first_seen_app_version"] as? String == "1.2" && issue["last_seen_app_version"] is NSNull)
        let attached = issue["attachments"] as? [[String: Any]] ?? []
        #expect(attached.map { $0["original_filename"] as? String } == ["b.txt"])
        #expect(attached.first?["uploaded_at"] is NSNull && attached.first?["event_id"] is String)
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
