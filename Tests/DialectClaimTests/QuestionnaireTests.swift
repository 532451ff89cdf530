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
            "GET", "/v1/questionnaires/\(slug)/responses?data_mode=all&\(query)",
            key: client.server.credentials.claimAgentKey)
        #expect(answer.status == 200, "\(answer)")
        let page = try JSONSerialization.jsonObject(with: Data(answer.body.utf8)) as? [String: Any]
        return page?["responses"] as? [[String: Any]] ?? []
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
        #expect(try client.call("GET", path).body == #"{"error":"Missing permission: questionnaires:read"}"#)
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
            ("POST", "/v1/feedback", client.clientKey, #"{"message":"m","user_id":"ada"}"#),
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
}
