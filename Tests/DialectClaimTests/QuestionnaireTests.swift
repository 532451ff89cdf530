import Foundation
import TestKit
import Testing

/// Questionnaires (spec/claim.md 1.7, 4.1), on every store.
@Suite("Questionnaires")
struct QuestionnaireTests {
    private static let questions = #"""
        {"version":1,"questions":[
        {"id":"q1","type":"nps","title":"How likely?","required":true},
        {"id":"q2","type":"text","title":"Why?","subtitle":"In short","placeholder":"Because","multiline":true},
        {"id":"q3","type":"single_choice","title":"Which?","options":[{"id":"a","label":"A"},{"id":"b","label":"B"}]},
        {"id":"q4","type":"multi_choice","title":"Which ones?","options":[{"id":"a","label":"A"},{"id":"b","label":"B"}]},
        {"id":"q5","type":"rating","title":"How good?","scale":5}]}
        """#

    private static let bundle = #""bundle_id":"com.example.demo""#

    private func put(
        _ client: OwlClient, _ slug: String = "nps", _ body: String? = nil, more: String = ""
    ) throws -> Wire.Answer {
        try client.call(
            "PUT", "/onym/v1/questionnaires/\(slug)",
            body ?? #"{"name":"Survey","description":null\#(more),"schema":\#(QuestionnaireTests.questions)}"#,
            key: client.server.credentials.adminKey)
    }

    /// A server that has a questionnaire.
    private func client(_ kind: StoreKind) throws -> OwlClient {
        let client = OwlClient(try TestServer(kind))
        let answer = try put(client)
        #expect(answer.status == 200, "\(answer)")
        return client
    }

    private func offer(_ client: OwlClient, _ user: String?, slug: String = "nps", more: String = "") throws -> String {
        let user = user.map { "&user_id=\($0)" } ?? ""
        let answer = try client.call("GET", "/v1/questionnaires/\(slug)?bundle_id=com.example.demo\(user)\(more)")
        #expect(answer.status == 200, "\(answer)")
        return answer.body
    }

    /// The answers of a draft, as they are offered.
    private func draft(_ client: OwlClient, _ user: String, slug: String = "nps") throws -> String? {
        try offer(client, user, slug: slug).firstMatch(of: /"answers":(\{.*?\})\}\}$/).map { String($0.1) }
    }

    private func answer(
        _ client: OwlClient, _ user: String?, _ answers: String, complete: Bool = false, slug: String = "nps"
    ) throws -> Wire.Answer {
        let user = user.map { #","user_id":"\#($0)""# } ?? ""
        return try client.call(
            "POST", "/v1/questionnaires/\(slug)/responses",
            #"{\#(QuestionnaireTests.bundle)\#(user),"answers":\#(answers),"is_complete":\#(complete)}"#)
    }

    private func responses(_ client: OwlClient, slug: String = "nps", _ query: String = "") throws -> [[String: Any]] {
        let answer = try client.call(
            "GET", "\(try path(client, slug))/responses?data_mode=all&submitted_only=true&\(query)",
            key: client.server.credentials.claimAgentKey)
        #expect(answer.status == 200, "\(answer)")
        let page = try JSONSerialization.jsonObject(with: Data(answer.body.utf8)) as? [String: Any]
        return page?["responses"] as? [[String: Any]] ?? []
    }

    /// The path of a questionnaire.
    private func path(_ client: OwlClient, _ slug: String = "nps") throws -> String {
        let path = "/v1/projects/\(try client.project())/questionnaires"
        let all = try client.agent(path)["questionnaires"] as? [[String: Any]] ?? []
        let id = all.first { $0["slug"] as? String == slug }?["id"] as? String
        return "\(path)/\(id ?? "none")"
    }

    private static let responded = #"{"eligible":false,"reason":"already_responded"}"#

    // MARK: - Making them

    @Test("are made, shown, changed and taken back by an administrator", arguments: StoreKind.allCases)
    func definition(_ kind: StoreKind) throws {
        let client = try client(kind)
        let key = client.server.credentials.adminKey
        let path = "/onym/v1/questionnaires/nps"
        let shown = try client.call("GET", path, key: key)
        #expect(shown.status == 200 && shown.body.contains(#""active":true"#), "\(shown)")
        #expect(shown.body.contains(#"{"id":"q5","type":"rating","title":"How good?","required":false,"scale":5}"#))
        #expect(try put(client, "nps", shown.body).body == shown.body, "what was answered can be sent back")
        let before = client.server.store.counts.lastSequence
        _ = try put(client)
        #expect(client.server.store.counts.lastSequence == before, "what changes nothing is not journalled")
        _ = try put(client, "other")
        let list = try client.administrator("/onym/v1/questionnaires")["questionnaires"] as? [[String: Any]]
        #expect(list?.compactMap { $0["slug"] as? String } == ["nps", "other"])
        let gone = try client.call("DELETE", path, key: key)
        #expect(gone.status == 200 && gone.body.contains(#""active":false"#), "\(gone)")
        #expect(try offer(client, "ada") == #"{"eligible":false,"reason":"inactive"}"#)
        #expect(try offer(client, "ada", more: "&force=true").contains("inactive"))
        let refused = try answer(client, "ada", "{}")
        #expect(refused.status == 409 && refused.body.contains(#""reason":"inactive""#), "\(refused)")
        _ = try put(client)
        #expect(try offer(client, "ada").hasPrefix(#"{"eligible":true"#))
        #expect(try client.call("GET", "/onym/v1/questionnaires/none", key: key).status == 404)
        #expect(try client.call("DELETE", "/onym/v1/questionnaires/none", key: key).status == 404)
        #expect(try client.call("GET", path).status == 401, "no client's key")
    }

    private static func one(_ question: String) -> String { #"{"name":"n","schema":{"questions":[\#(question)]}}"# }

    private static func choice(_ options: Int) -> String {
        let options = (0..<options).map { #"{"id":"o\#($0)","label":"l"}"# }.joined(separator: ",")
        return one(#"{"id":"q","type":"single_choice","title":"t","options":[\#(options)]}"#)
    }

    private static func many(_ count: Int) -> String {
        one((0..<count).map { #"{"id":"q\#($0)","type":"nps","title":"t"}"# }.joined(separator: ","))
    }

    static let unfit: [(String, String)] = [
        ("{}", "name is required"), (#"{"name":"n"}"#, "schema is required"), (one(""), "must have 1 to 30 questions"),
        (many(31), "must have 1 to 30 questions"), (choice(1), "must have 2 to 20 options"),
        (choice(21), "must have 2 to 20 options"),
        (one(#"{"id":"q","type":"slider","title":"t"}"#), "schema.questions[0].type must be one of text"),
        (one(#"{"id":"q","type":"nps"}"#), "schema.questions[0].title is required"),
        (one(#"{"type":"nps","title":"t"}"#), "schema.questions[0].id is required"),
        (one(#"{"id":"q q","type":"nps","title":"t"}"#), "schema.questions[0].id must have"),
        (one(#"{"id":"q","type":"nps","title":"t","colour":1}"#), "is not a field of a question"),
        (one(#"{"id":"q","type":"rating","title":"t","scale":7}"#), "scale must be 5"),
        (
            one(#"{"id":"q","type":"nps","title":"t"},{"id":"q","type":"nps","title":"t"}"#),
            "schema.questions[1].id is there twice"
        ),
    ]

    @Test("are refused where they would not work, with the place", arguments: unfit)
    func unfitDefinition(_ body: String, _ message: String) throws {
        let client = try OwlClient(.memory)
        let answer = try put(client, "nps", body)
        #expect(answer.status == 400 && answer.body.contains(message), "\(answer)")
    }

    @Test("have 30 questions and 20 options at most, and a slug in small letters")
    func limits() throws {
        let client = try OwlClient(.memory)
        #expect(try put(client, "a", QuestionnaireTests.many(30)).status == 200)
        #expect(try put(client, "b", QuestionnaireTests.choice(20)).status == 200)
        #expect(try put(client, "B", QuestionnaireTests.choice(2)).status == 400)
    }

    // MARK: - Asking and answering

    @Test("are offered with their questions", arguments: StoreKind.allCases)
    func offers(_ kind: StoreKind) throws {
        let client = try client(kind)
        let body = try offer(client, "ada")
        #expect(body.hasPrefix(#"{"eligible":true,"questionnaire":{"id":""#), "\(body)")
        #expect(body.contains(#""slug":"nps","name":"Survey","description":null,"schema":{"version":1,"questions":["#))
        #expect(!body.contains("in_progress"))
        let missing = try client.call("GET", "/v1/questionnaires/none?bundle_id=com.example.demo")
        #expect(missing.status == 404 && missing.body == #"{"error":"Questionnaire not found"}"#)
        for query in ["", "?bundle_id=other"] {
            let answer = try client.call("GET", "/v1/questionnaires/nps\(query)")
            #expect(answer.status == 403 && answer.body == #"{"error":"bundle_id does not match the app"}"#)
        }
        let key = client.server.credentials.claimImportKey
        #expect(try client.call("GET", "/v1/questionnaires/nps?bundle_id=com.example.demo", key: key).status == 403)
        #expect(client.server.store.counts.people == 0, "asking makes nobody")
    }

    @Test("take answers one after the other, until they are all there", arguments: StoreKind.allCases)
    func drafts(_ kind: StoreKind) throws {
        let client = try client(kind)
        let first = try answer(client, "ada", #"{"q2":"so","q3":"a"}"#)
        #expect(first.status == 201 && first.body.contains(#""was_submitted":false"#), "\(first)")
        let second = try answer(client, "ada", #"{"q3":"b","q4":["b","a"],"q2":null}"#)
        #expect(second.status == 200 && second.body == first.body)
        #expect(try draft(client, "ada") == #"{"q3":"b","q4":["b","a"]}"#)
        #expect(try offer(client, "ada").contains(#""in_progress":{"response_id":""#))
        let early = try answer(client, "ada", #"{"q5":5}"#, complete: true)
        #expect(early.status == 400 && early.body == #"{"error":"\"q1\" is required"}"#)
        #expect(try draft(client, "ada") == #"{"q3":"b","q4":["b","a"]}"#, "what is refused leaves nothing")
        #expect(try responses(client).isEmpty)
        let done = try answer(client, "ada", #"{"q1":10}"#, complete: true)
        #expect(done.status == 200 && done.body == first.body.replacing("false", with: "true"))
        #expect(try offer(client, "ada") == QuestionnaireTests.responded)
        #expect(try offer(client, "ada", more: "&force=true").hasPrefix(#"{"eligible":true"#))
        let again = try answer(client, "ada", #"{"q1":1}"#)
        #expect(again.status == 409 && again.body == #"{"error":"Already responded","reason":"already_responded"}"#)
        let item = try #require(try responses(client).first)
        #expect(item["user_id"] as? String == "ada" && item["submitted_at"] is String)
        #expect((item["answers"] as? [String: Any])?.keys.sorted() == ["q1", "q3", "q4"])
        #expect((item["answers"] as? [String: Any])?["q1"] as? Int == 10)
        #expect(try responses(client, "user_id=bob").isEmpty)
        // At once, and all of it.
        let whole = try answer(client, "bob", #"{"q1":0}"#, complete: true)
        #expect(whole.status == 201 && whole.body.contains(#""was_submitted":true"#))
        #expect(try responses(client).count == 2)
    }

    static let badAnswers: [(String, String)] = [
        (#"{"q1":11}"#, #"\"q1\" must be an integer 0-10"#), (#"{"q1":-1}"#, #"\"q1\" must be an integer 0-10"#),
        (#"{"q1":5.5}"#, #"\"q1\" must be an integer 0-10"#), (#"{"q1":"5"}"#, #"\"q1\" must be an integer 0-10"#),
        (#"{"q1":true}"#, #"\"q1\" must be an integer 0-10"#), (#"{"zz":1}"#, #"unknown question id \"zz\""#),
        (#"{"q1":18446744073709551615}"#, #"\"q1\" must be an integer 0-10"#),
        (#"{"q5":0}"#, #"\"q5\" must be an integer 1-5"#), (#"{"q5":6}"#, #"\"q5\" must be an integer 1-5"#),
        (#"{"q2":7}"#, #"\"q2\" must be a string"#),
        (#"{"q2":"\#(String(repeating: "x", count: 4001))"}"#, #"\"q2\" must be at most 4000 characters"#),
        (#"{"q3":"c"}"#, #"\"q3\" must be one of the options"#),
        (#"{"q3":["a"]}"#, #"\"q3\" must be one of the options"#),
        (#"{"q4":"a"}"#, #"\"q4\" must be an array of different options"#),
        (#"{"q4":["c"]}"#, #"\"q4\" must be an array of different options"#),
        (#"{"q4":["a","a"]}"#, #"\"q4\" must be an array of different options"#),
        (#"{"q4":[1]}"#, #"\"q4\" must be an array of different options"#),
        ("[]", "answers must be an object"), ("null", "answers must be an object"),
        (#""a""#, "answers must be an object"),
    ]

    @Test("turn away what is no answer, and keep nothing of it", arguments: badAnswers)
    func unfitAnswers(_ answers: String, _ message: String) throws {
        let client = try client(.memory)
        let answer = try answer(client, "ada", answers)
        #expect(answer.status == 400 && answer.body == #"{"error":"\#(message)"}"#, "\(answer)")
        #expect(client.server.store.counts.people == 0)
    }

    @Test("turn away calls that are none")
    func unfitCalls() throws {
        let client = try client(.memory)
        let path = "/v1/questionnaires/nps/responses"
        #expect(try answer(client, "ada", "{}", slug: "none").status == 404)
        for body in ["{}", "[]", #"{"bundle_id":"other","answers":{}}"#] {
            let answer = try client.call("POST", path, body)
            #expect(answer.status == 403 && answer.body == #"{"error":"bundle_id does not match the app"}"#)
        }
        let session = try client.call(
            "POST", path, #"{\#(QuestionnaireTests.bundle),"answers":{},"session_id":"s"}"#)
        #expect(session.status == 400 && session.body == #"{"error":"session_id must be a UUID"}"#)
        let complete = try client.call(
            "POST", path, #"{\#(QuestionnaireTests.bundle),"answers":{},"is_complete":"yes"}"#)
        #expect(complete.status == 400 && complete.body == #"{"error":"is_complete must be a boolean"}"#)
        let import403 = try client.call("POST", path, "{}", key: client.server.credentials.claimImportKey)
        #expect(import403.status == 403)
        #expect(
            try client.call("GET", try self.path(client) + "/responses").body
                == #"{"error":"Missing permission: questionnaires:read"}"#)
    }

    @Test("count each response of nobody in particular", arguments: StoreKind.allCases)
    func nobody(_ kind: StoreKind) throws {
        let client = try client(kind)
        for score in 1...3 {
            #expect(try answer(client, nil, #"{"q1":\#(score)}"#, complete: true).status == 201)
        }
        #expect(try offer(client, nil).hasPrefix(#"{"eligible":true"#))
        let all = try responses(client)
        #expect(all.compactMap { ($0["answers"] as? [String: Any])?["q1"] as? Int } == [3, 2, 1])
        #expect(all.allSatisfy { $0["user_id"] is NSNull })
    }

    @Test("ask nobody who has dismissed them, whatever number of properties there is", arguments: StoreKind.allCases)
    func dismissal(_ kind: StoreKind) throws {
        let client = try client(kind)
        let path = "/v1/questionnaires/dismiss"
        let properties = (0..<50).map { "\"k\($0)\":\"v\"" }.joined(separator: ",")
        #expect(try client.properties("owl_anon_1", "{\(properties)}").status == 200)
        let answer = try client.call("POST", path, #"{\#(QuestionnaireTests.bundle),"user_id":"owl_anon_1"}"#)
        let moment = try #require(answer.body.firstMatch(of: /^\{"dismissed_at":"(.+Z)"\}$/)?.1, "\(answer)")
        #expect(answer.status == 200)
        let all = try client.properties("owl_anon_1", "{}").body
        #expect(all.contains(#""_questionnaires_dismissed_at":"\#(moment)""#))
        _ = try client.claim("owl_anon_1", "ada")
        let dismissed = #"{"eligible":false,"reason":"globally_dismissed"}"#
        #expect(try offer(client, "ada") == dismissed && offer(client, "owl_anon_1") == dismissed)
        #expect(try offer(client, "ada", more: "&force=true").hasPrefix(#"{"eligible":true"#))
        let refused = try self.answer(client, "ada", "{}")
        #expect(refused.status == 409 && refused.body.contains(#""reason":"globally_dismissed""#), "\(refused)")
        try client.undoClaim("ada")
        #expect(try offer(client, "ada").hasPrefix(#"{"eligible":true"#))
        #expect(
            try client.call("POST", path, "{\(QuestionnaireTests.bundle)}").body == #"{"error":"user_id is required"}"#)
        #expect(try client.call("POST", path, #"{"user_id":"ada"}"#).status == 403)
    }

    // MARK: - Claims

    @Test("move a draft by a claim: the user goes on with it", arguments: StoreKind.allCases)
    func draftMoves(_ kind: StoreKind) throws {
        let client = try client(kind)
        let first = try answer(client, "owl_anon_1", #"{"q2":"so"}"#)
        _ = try client.claim("owl_anon_1", "ada")
        #expect(try draft(client, "ada") == #"{"q2":"so"}"#)
        let second = try answer(client, "ada", #"{"q3":"a"}"#)
        #expect(second.status == 200 && second.body == first.body, "it is the same response")
        // By the stale id it is the same draft.
        #expect(try answer(client, "owl_anon_1", #"{"q5":4}"#).status == 200)
        #expect(try draft(client, "ada") == #"{"q2":"so","q3":"a","q5":4}"#)
        try client.undoClaim("ada")
        #expect(try draft(client, "ada") == #"{"q3":"a"}"#, "each has what came by its own id")
        #expect(try draft(client, "owl_anon_1") == #"{"q2":"so","q5":4}"#)
    }

    @Test("hide a draft where the user has submitted, until the claim is undone", arguments: StoreKind.allCases)
    func draftHidden(_ kind: StoreKind) throws {
        let client = try client(kind)
        _ = try answer(client, "owl_anon_1", #"{"q2":"draft"}"#)
        _ = try answer(client, "ada", #"{"q1":9}"#, complete: true)
        _ = try client.claim("owl_anon_1", "ada")
        #expect(try offer(client, "ada") == QuestionnaireTests.responded)
        #expect(try offer(client, "owl_anon_1") == QuestionnaireTests.responded)
        #expect(try answer(client, "owl_anon_1", #"{"q2":"more"}"#).status == 409)
        #expect(try responses(client).count == 1)
        try client.undoClaim("ada")
        #expect(try draft(client, "owl_anon_1") == #"{"q2":"draft"}"#)
        #expect(try offer(client, "ada") == QuestionnaireTests.responded)
    }

    @Test("never give up what was submitted for a draft", arguments: StoreKind.allCases)
    func submittedWins(_ kind: StoreKind) throws {
        let client = try client(kind)
        _ = try answer(client, "ada", #"{"q2":"draft"}"#)
        _ = try answer(client, "owl_anon_1", #"{"q1":3}"#, complete: true)
        _ = try client.claim("owl_anon_1", "ada")
        #expect(try offer(client, "ada") == QuestionnaireTests.responded)
        let item = try #require(try responses(client, "user_id=ada").first)
        #expect((item["answers"] as? [String: Any])?["q1"] as? Int == 3)
        try client.undoClaim("ada")
        #expect(try draft(client, "ada") == #"{"q2":"draft"}"#)
    }

    @Test("prefer the known user's among equals, and leave the other for when they part", arguments: StoreKind.allCases)
    func equals(_ kind: StoreKind) throws {
        let client = try client(kind)
        _ = try put(client, "other")
        for slug in ["nps", "other"] {
            let isComplete = slug == "nps"
            _ = try answer(client, "ada", #"{"q1":1}"#, complete: isComplete, slug: slug)
            _ = try answer(client, "owl_anon_1", #"{"q1":2}"#, complete: isComplete, slug: slug)
        }
        _ = try client.claim("owl_anon_1", "ada")
        let all = try responses(client)
        #expect(all.map { ($0["answers"] as? [String: Any])?["q1"] as? Int } == [1])
        #expect(try draft(client, "ada", slug: "other") == #"{"q1":1}"#)
        // What comes by the stale id goes to the draft that is shown; the hidden one stays as it is.
        #expect(try answer(client, "owl_anon_1", #"{"q5":5}"#, slug: "other").status == 200)
        #expect(try draft(client, "ada", slug: "other") == #"{"q1":1,"q5":5}"#)
        try client.undoClaim("ada")
        #expect(try draft(client, "owl_anon_1", slug: "other") == #"{"q1":2}"#)
        #expect(try responses(client).count == 2)
    }

    @Test("decide each questionnaire by itself", arguments: StoreKind.allCases)
    func mixed(_ kind: StoreKind) throws {
        let client = try client(kind)
        for slug in ["b", "c"] { _ = try put(client, slug) }
        _ = try answer(client, "owl_anon_1", #"{"q2":"moves"}"#)
        _ = try answer(client, "owl_anon_1", #"{"q2":"hidden"}"#, slug: "b")
        _ = try answer(client, "ada", #"{"q1":1}"#, complete: true, slug: "b")
        _ = try answer(client, "ada", #"{"q2":"own"}"#, slug: "c")
        _ = try client.claim("owl_anon_1", "ada")
        #expect(try draft(client, "ada") == #"{"q2":"moves"}"#)
        #expect(try offer(client, "ada", slug: "b") == QuestionnaireTests.responded)
        #expect(try draft(client, "ada", slug: "c") == #"{"q2":"own"}"#)
        // What is submitted is whole, with what the anonymous user had answered.
        #expect(try answer(client, "ada", #"{"q1":7}"#, complete: true).status == 200)
        try client.undoClaim("ada")
        let item = try #require(try responses(client, "user_id=ada").first)
        #expect((item["answers"] as? [String: Any])?.count == 2)
        #expect(try draft(client, "owl_anon_1") == #"{"q2":"moves"}"#)
    }

    @Test("forget a draft that nobody has gone on with for ninety days", arguments: StoreKind.allCases)
    func stale(_ kind: StoreKind) throws {
        let clock = ManualClock()
        let client = OwlClient(try TestServer(kind) { $0.clock = { clock.now } })
        _ = try put(client)
        let day: Int64 = 24 * 3600 * 1000
        let first = try answer(client, "ada", #"{"q2":"a"}"#)
        clock.advance(milliseconds: 89 * day)
        #expect(try answer(client, "ada", #"{"q3":"a"}"#).body == first.body)
        clock.advance(milliseconds: 90 * day - 1)
        #expect(try draft(client, "ada") == #"{"q2":"a","q3":"a"}"#)
        clock.advance(milliseconds: 1)
        #expect(try draft(client, "ada") == nil)
        let second = try answer(client, "ada", #"{"q1":5}"#, complete: true)
        #expect(second.status == 201 && second.body != first.body.replacing("false", with: "true"))
        clock.advance(milliseconds: 900 * day)
        #expect(try offer(client, "ada") == QuestionnaireTests.responded, "what was submitted never goes stale")
        let item = try #require(try responses(client).first)
        #expect((item["answers"] as? [String: Any])?.count == 1)
    }

    @Test("answer a call that is repeated as they did before", arguments: StoreKind.allCases)
    func repeated(_ kind: StoreKind) throws {
        let client = try client(kind)
        let credentials = client.server.credentials
        let calls: [(method: String, path: String, key: String, body: String)] = [
            (
                "POST", "/v1/feedback", client.clientKey,
                #"{"message":"m","user_id":"ada",\#(QuestionnaireTests.bundle)}"#
            ),
            (
                "POST", "/v1/questionnaires/nps/responses", client.clientKey,
                #"{\#(QuestionnaireTests.bundle),"user_id":"ada","answers":{"q1":1},"is_complete":true}"#
            ),
            ("PUT", "/onym/v1/questionnaires/new", credentials.adminKey, QuestionnaireTests.choice(2)),
        ]
        for (number, call) in calls.enumerated() {
            let answers = try (0..<2).map { _ in
                try client.http.call(
                    call.method, call.path,
                    fields: [("Authorization", "Bearer \(call.key)"), ("Idempotency-Key", "call-\(number)")],
                    json: call.body)
            }
            #expect(answers[0].status < 300 && answers[0].status == answers[1].status, "\(answers)")
            #expect(answers[0].body == answers[1].body)
        }
        #expect(try responses(client).count == 1)
        #expect((try client.person("ada")["counts"] as? [String: Int])?["feedback"] == 1)
    }

    @Test("leave out of a draft what no longer fits the questions", arguments: StoreKind.allCases)
    func changed(_ kind: StoreKind) throws {
        let client = try client(kind)
        _ = try answer(client, "ada", #"{"q2":"gone","q3":"b"}"#)
        _ = try put(client, "nps", QuestionnaireTests.one(#"{"id":"q3","type":"text","title":"t","required":true}"#))
        #expect(try draft(client, "ada") == #"{"q3":"b"}"#)
        #expect(try answer(client, "ada", "{}", complete: true).status == 200)
        let item = try #require(try responses(client).first)
        #expect(item["answers"] as? [String: String] == ["q3": "b"])
    }

    // MARK: - Agents

    @Test("are made, listed, changed and deleted by agents", arguments: StoreKind.allCases)
    func surveys(_ kind: StoreKind) throws {
        let clock = ManualClock(1_750_000_000_000)
        let client = OwlClient(try TestServer(kind) { $0.clock = { clock.now } })
        let all = "/v1/projects/\(try client.project())/questionnaires"
        func call(_ method: String, _ path: String, _ body: String? = nil) throws -> Wire.Answer {
            try client.call(method, path, body, key: client.server.credentials.claimAgentKey)
        }
        func check(_ answer: Wire.Answer, _ status: Int, _ text: String, _ line: Int = #line) {
            #expect(answer.status == status && answer.body == #"{"error":"\#(text)"}"#, "line \(line): \(answer)")
        }
        let schema = #""schema":\#(QuestionnaireTests.questions)"#
        let name = "name must be 1-200 chars"
        for (body, text) in [
            ("{}", "slug must have 1 to 100 of a-z, 0-9 and -"),
            (#"{"slug":"A","name":"N",\#(schema)}"#, "slug must have 1 to 100 of a-z, 0-9 and -"),
            (#"{"slug":"a",\#(schema)}"#, name), (#"{"slug":"a","name":" ",\#(schema)}"#, name),
            (#"{"slug":"a","name":"\#(String(repeating: "n", count: 201))",\#(schema)}"#, name),
            (#"{"slug":"a","name":"N"}"#, "schema is required"),
            (#"{"slug":"a","name":"N","schema":{"questions":[]}}"#, "schema.questions must have 1 to 30 questions"),
            (#"{"slug":"a","name":"N","is_active":1,\#(schema)}"#, "is_active must be a boolean"),
            (#"{"slug":"a","name":"N","app_id":7,\#(schema)}"#, "app_id must be a string"),
        ] { check(try call("POST", all, body), 400, text) }
        check(try call("POST", all, #"{"slug":"a","name":"N","app_id":"x",\#(schema)}"#), 404, "App not found")
        var ids: [String] = []
        for slug in ["a", "b", "c"] {
            clock.advance(milliseconds: 1000)
            let made = try call("POST", all, #"{"slug":"\#(slug)","name":"N","app_id":null,\#(schema)}"#)
            let one = try OwlClient.json(made)
            #expect(made.status == 201 && one["slug"] as? String == slug && one["is_active"] as? Bool == true)
            #expect(one["response_count"] as? Int == 0 && one["last_response_at"] is NSNull && one["app_id"] is NSNull)
            ids.append(one["id"] as? String ?? "")
        }
        check(
            try call("POST", all, #"{"slug":"a","name":"N",\#(schema)}"#), 409,
            #"A questionnaire with slug \"a\" already exists in this project"#)
        let path = "\(all)/\(ids[0])"
        // Also with the value that the questionnaire has.
        for (body, member) in [
            (#"{"slug":"z","name":"M"}"#, "slug"), (#"{"slug":"a","name":"M"}"#, "slug"),
            (#"{"app_id":"x","name":"M"}"#, "app_id"), (#"{"app_id":null,"name":"M"}"#, "app_id"),
            (#"{"app_id":7}"#, "app_id"),
        ] { check(try call("PATCH", path, body), 400, "\(member) is immutable after creation") }
        #expect(try OwlClient.json(try call("GET", path))["name"] as? String == "N", "a refused call changes nothing")
        check(try call("PATCH", path, #"{"unknown":1}"#), 400, "no editable fields provided")
        check(try call("PATCH", path, #"{"name":""}"#), 400, name)
        let changed = try OwlClient.json(
            try call("PATCH", path, #"{"name":"M","description":"D","is_active":false}"#))
        #expect(changed["name"] as? String == "M" && changed["description"] as? String == "D")
        #expect(changed["is_active"] as? Bool == false)
        #expect(try OwlClient.json(try call("PATCH", path, #"{"description":null}"#))["description"] is NSNull)
        // Pages, and filters.
        var (query, found): (String, [String]) = ("limit=2", [])
        for _ in 0..<4 {
            let page = try OwlClient.json(try call("GET", "\(all)?\(query)"))
            found += (page["questionnaires"] as? [[String: Any]] ?? []).compactMap { $0["slug"] as? String }
            guard page["has_more"] as? Bool == true, let cursor = page["cursor"] as? String else { break }
            query = "limit=2&cursor=\(cursor)"
        }
        #expect(found == ["c", "b", "a"])
        func slugs(_ path: String) throws -> [String?] {
            let page = try OwlClient.json(try call("GET", path))["questionnaires"] as? [[String: Any]] ?? []
            return page.map { $0["slug"] as? String }
        }
        #expect(try slugs("\(all)?is_active=false") == ["a"] && slugs("\(all)?is_active=true") == ["c", "b"])
        #expect(try slugs("/v1/questionnaires") == ["c", "b", "a"] && slugs("/v1/questionnaires?team_id=x").isEmpty)
        // The app of a questionnaire asks its users; another app does not.
        let other = try client.otherApp()
        let apps = try client.agent("/v1/apps")["apps"] as? [[String: Any]] ?? []
        let app = apps.first { $0["bundle_id"] as? String == "com.example.other" }?["id"] as? String ?? ""
        #expect(try call("POST", all, #"{"slug":"o","name":"O","app_id":"\#(app)",\#(schema)}"#).status == 201)
        #expect(try client.call("GET", "/v1/questionnaires/o?bundle_id=com.example.demo").status == 404)
        #expect(try client.call("GET", "/v1/questionnaires/o?bundle_id=com.example.other", key: other).status == 200)
        #expect(try answer(client, "ada", #"{"q1":1}"#, slug: "o").status == 404)
        #expect(
            try slugs("\(all)?app_id=\(app)") == ["o", "c", "b", "a"] && slugs("\(all)?app_id=x").isEmpty)
        // A deleted slug is free.
        #expect(try call("DELETE", path).body == #"{"deleted":true}"#)
        for (method, body) in [("GET", nil), ("DELETE", nil), ("PATCH", #"{"name":"M"}"#)] as [(String, String?)] {
            check(try call(method, path, body), 404, "Questionnaire not found")
        }
        #expect(try call("POST", all, #"{"slug":"a","name":"N",\#(schema)}"#).status == 201)
        check(try call("GET", "/v1/projects/x/questionnaires"), 404, "Project not found")
    }

    @Test("have responses, which are listed, reviewed, counted and deleted", arguments: StoreKind.allCases)
    func reviewed(_ kind: StoreKind) throws {
        let client = try client(kind)
        let (all, keys) = ("\(try path(client))/responses", client.server.credentials)
        func call(_ method: String, _ path: String, _ body: String? = nil, key: String? = nil) throws -> Wire.Answer {
            try client.call(method, path, body, key: key ?? keys.claimAgentKey)
        }
        func check(_ answer: Wire.Answer, _ status: Int, _ body: String, _ line: Int = #line) {
            #expect(answer.status == status && answer.body == body, "line \(line): \(answer)")
        }
        func users(_ query: String = "") throws -> [String?] {
            let page = try OwlClient.json(try call("GET", "\(all)?\(query)"))["responses"] as? [[String: Any]] ?? []
            return page.map { $0["user_id"] as? String }
        }
        _ = try answer(client, "ada", #"{"q1":9,"q2":"good","q3":"a","q4":["a","b"],"q5":4}"#, complete: true)
        _ = try answer(client, "bob", #"{"q1":3,"q5":5}"#, complete: true)
        _ = try answer(client, "eve", #"{"q2":"so"}"#)
        #expect(try users() == ["eve", "bob", "ada"] && users("submitted_only=true") == ["bob", "ada"])
        // A draft that is completed is the same response.
        _ = try answer(client, "eve", #"{"q1":10}"#, complete: true)
        #expect(try users("submitted_only=true") == ["eve", "bob", "ada"])
        let list = try OwlClient.json(try call("GET", "\(all)?user_id=ada"))["responses"] as? [[String: Any]]
        let ada = try #require(list?.first)
        #expect(ada["is_complete"] as? Bool == true && ada["status"] as? String == "new")
        #expect(ada["questionnaire_slug"] as? String == "nps" && ada["questionnaire_name"] as? String == "Survey")
        #expect((ada["schema_snapshot"] as? [String: Any])?["questions"] != nil)
        let id = ada["id"] as? String ?? ""
        let changed = try OwlClient.json(try call("PATCH", "\(all)/\(id)", #"{"status":"addressed"}"#))
        #expect(changed["status"] as? String == "addressed" && (changed["comments"] as? [Any])?.isEmpty == true)
        #expect(try users("status=addressed") == ["ada"] && users("status=new") == ["eve", "bob"])
        let comment = try OwlClient.json(try call("POST", "\(all)/\(id)/comments", #"{"body":"thanks"}"#))
        #expect(comment["questionnaire_response_id"] as? String == id)
        // The snapshot has the questions that were answered.
        _ = try put(client, "nps", QuestionnaireTests.one(#"{"id":"q9","type":"text","title":"New","required":true}"#))
        let shown = try OwlClient.json(try call("GET", "\(all)/\(id)"))
        #expect(
            "\(shown["schema_snapshot"] ?? "")".contains("How likely?") && (shown["comments"] as? [Any])?.count == 1)
        _ = try put(client)
        check(try call("GET", "/v1/questionnaires/count"), 200, #"{"count":3}"#)
        check(try call("GET", "/v1/questionnaires/count?data_mode=development"), 200, #"{"count":0}"#)
        check(
            try call("GET", "\(try path(client))/analytics"), 200,
            #"{"questionnaire_id":"\#(ada["questionnaire_id"] ?? "")","slug":"nps","total_responses":3,"submitted_count":3,"#
                + #""questions":[{"id":"q1","type":"nps","total_answered":3,"score":33,"detractors":1,"passives":0,"#
                + #""promoters":2,"buckets":[\#((0...10).map { #"{"value":\#($0),"count":\#([3, 9, 10].contains($0) ? 1 : 0)}"# }.joined(separator: ","))]},"#
                + #"{"id":"q2","type":"text","total_answered":2,"recent_answers":"#
                + #"[\#(try recent(client, all, ["eve": "so", "ada": "good"]))]},"#
                + #"{"id":"q3","type":"single_choice","total_answered":1,"choices":[{"id":"a","label":"A","count":1},"#
                + #"{"id":"b","label":"B","count":0}]},{"id":"q4","type":"multi_choice","total_answered":1,"choices":"#
                + #"[{"id":"a","label":"A","count":1},{"id":"b","label":"B","count":1}]},"#
                + #"{"id":"q5","type":"rating","total_answered":2,"average":4.5,"buckets":["#
                + (1...5).map { #"{"value":\#($0),"count":\#($0 > 3 ? 1 : 0)}"# }.joined(separator: ",") + "]}]}")
        check(try call("DELETE", "\(all)/\(id)"), 403, #"{"error":"Only users can delete responses"}"#)
        check(try call("DELETE", "\(all)/\(id)", key: keys.adminKey), 200, #"{"deleted":true}"#)
        for method in ["GET", "DELETE"] {
            check(try call(method, "\(all)/\(id)", key: keys.adminKey), 404, #"{"error":"Response not found"}"#)
        }
        #expect(try users() == ["eve", "bob"])
        // The user can answer again.
        #expect(try answer(client, "ada", #"{"q1":1}"#, complete: true).status == 201)
        #expect(try users() == ["ada", "eve", "bob"])
        let one = try OwlClient.json(try call("GET", try path(client)))
        #expect(one["response_count"] as? Int == 3 && one["submitted_count"] as? Int == 3)
    }

    /// All calls about the comments of a response get the 404 of a missing response.
    private func expectNoComments(_ client: OwlClient, _ response: String, _ comment: String) throws {
        let text = #"{"body":"x"}"#
        for (method, path, body) in [
            ("GET", "", nil), ("POST", "", text), ("PATCH", "/\(comment)", text), ("DELETE", "/\(comment)", nil),
        ] as [(String, String, String?)] {
            let answer = try client.call(
                method, "\(response)/comments\(path)", body, key: client.server.credentials.claimAgentKey)
            #expect(
                answer.status == 404 && answer.body == #"{"error":"Response not found"}"#,
                "\(method) \(response): \(answer)")
        }
    }

    /// Makes a response of a user with a comment; returns the ids of both.
    private func commented(_ client: OwlClient, _ user: String) throws -> (response: String, comment: String) {
        _ = try answer(client, user, #"{"q1":9}"#, complete: true)
        let id = try #require(try responses(client, "user_id=\(user)").first?["id"] as? String)
        let made = try client.call(
            "POST", "\(try path(client))/responses/\(id)/comments", #"{"body":"thanks"}"#,
            key: client.server.credentials.claimAgentKey)
        #expect(made.status == 201, "\(made)")
        return (id, try #require(try OwlClient.json(made)["id"] as? String))
    }

    @Test("show comments about a response under its own path, until they are deleted", arguments: StoreKind.allCases)
    func commentsByPath(_ kind: StoreKind) throws {
        let client = try client(kind)
        _ = try put(client, "other")
        let (response, comment) = try commented(client, "ada")
        let (own, other, none) = (try path(client), try path(client, "other"), try path(client, "none"))
        for questionnaire in [other, none] {
            try expectNoComments(client, "\(questionnaire)/responses/\(response)", comment)
        }
        let comments = try client.agent("\(own)/responses/\(response)/comments")["comments"] as? [[String: Any]]
        #expect(comments?.map { $0["body"] as? String } == ["thanks"])
        #expect(comments?.first?["questionnaire_response_id"] as? String == response)
        let key = client.server.credentials.claimAgentKey
        let edited = try client.call(
            "PATCH", "\(own)/responses/\(response)/comments/\(comment)", #"{"body":"changed"}"#, key: key)
        #expect(try edited.status == 200 && OwlClient.json(edited)["body"] as? String == "changed", "\(edited)")
        #expect(try client.call("DELETE", own, key: key).body == #"{"deleted":true}"#)
        try expectNoComments(client, "\(own)/responses/\(response)", comment)
    }

    @Test("show no comments about a response of an erased user", arguments: StoreKind.allCases)
    func commentsOfErased(_ kind: StoreKind) throws {
        let client = try client(kind)
        let (theirs, others) = (try commented(client, "ada"), try commented(client, "bob"))
        let erased = try client.call(
            "DELETE", "/onym/v1/people/claim_user_id:ada", key: client.server.credentials.adminKey)
        #expect(erased.status == 200, "\(erased)")
        let all = "\(try path(client))/responses"
        try expectNoComments(client, "\(all)/\(theirs.response)", theirs.comment)
        let left = try client.agent("\(all)/\(others.response)/comments")["comments"] as? [Any]
        #expect(left?.count == 1)
    }

    @Test(
        "of another questionnaire, a deleted one or an erased user are neither reviewed nor deleted",
        arguments: StoreKind.allCases)
    func gone(_ kind: StoreKind) throws {
        let client = try client(kind)
        _ = try put(client, "other")
        let (erased, left) = (try commented(client, "ada").response, try commented(client, "bob").response)
        let (own, other, key) = (try path(client), try path(client, "other"), client.server.credentials.adminKey)
        func expectNone(_ response: String) throws {
            let calls = client.server.store.counts.lastSequence
            for (method, body) in [("PATCH", #"{"status":"addressed"}"#), ("DELETE", nil)] as [(String, String?)] {
                let answer = try client.call(method, response, body, key: key)
                #expect(
                    answer.status == 404 && answer.body == #"{"error":"Response not found"}"#,
                    "\(method) \(response): \(answer)")
            }
            #expect(client.server.store.counts.lastSequence == calls, "a refused call changes nothing: \(response)")
        }
        try expectNone("\(other)/responses/\(left)")
        #expect(try client.call("DELETE", "/onym/v1/people/claim_user_id:ada", key: key).status == 200)
        try expectNone("\(own)/responses/\(erased)")
        #expect(try client.call("DELETE", own, key: key).body == #"{"deleted":true}"#)
        try expectNone("\(own)/responses/\(left)")
    }

    /// The newest answers to a text, as the analytics show them.
    private func recent(_ client: OwlClient, _ path: String, _ texts: [String: String]) throws -> String {
        let page = try client.agent("\(path)?data_mode=all")["responses"] as? [[String: Any]] ?? []
        return page.compactMap { response in
            guard let user = response["user_id"] as? String, let text = texts[user] else { return nil }
            let (id, at) = (response["id"] ?? "", response["created_at"] ?? "")
            return #"{"response_id":"\#(id)","answer":"\#(text)","created_at":"\#(at)"}"#
        }.joined(separator: ",")
    }

    @Test("list a response once that a claim made one, and both after its undo", arguments: StoreKind.allCases)
    func continued(_ kind: StoreKind) throws {
        let client = try client(kind)
        _ = try answer(client, "owl_anon_1", #"{"q2":"so"}"#)
        _ = try client.claim("owl_anon_1", "ada")
        _ = try answer(client, "ada", #"{"q1":5}"#, complete: true)
        func shown() throws -> [[String: Any]] {
            try client.agent("\(try path(client))/responses?data_mode=all")["responses"] as? [[String: Any]] ?? []
        }
        let one = try shown()
        #expect(one.map { $0["user_id"] as? String } == ["ada"] && one.first?["is_complete"] as? Bool == true)
        let id = one.first?["id"] as? String ?? ""
        #expect(try client.agent("\(try path(client))/responses/\(id)")["user_id"] as? String == "ada")
        try client.undoClaim("ada")
        #expect(Set(try shown().map { $0["user_id"] as? String }) == ["ada", "owl_anon_1"])
    }
}
