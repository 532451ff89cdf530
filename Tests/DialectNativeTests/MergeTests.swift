import Foundation
import TestKit
import Testing

/// Merging people and taking it back, as an administrator does, on every store.
@Suite("Merges by an administrator")
struct MergeTests {
    @Test(
        "identify still answers each member's own MPID, and looking shows the whole (decision 14)",
        arguments: StoreKind.allCases)
    func merge(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        let (one, two) = (try client.identify(#"{"customerid":"a"}"#), try client.identify(#"{"customerid":"b"}"#))
        let body = #"{"from":"\#(one)","into":"\#(two)"}"#
        let answer = try client.post("/onym/v1/merges", body)
        #expect(answer.status == 200 && answer.text("into") == two, "\(answer)")
        #expect(try client.identify(#"{"customerid":"a"}"#) == one)
        #expect(try client.identify(#"{"customerid":"b"}"#) == two)
        for id in [one, two, "customerid:a"] {
            let shown = try client.get("/onym/v1/people/\(id)")
            #expect(shown.text("root") == two)
            #expect(Set(shown["members"] as? [String] ?? []) == [one, two])
            #expect(shown.list("identities").count == 2)
        }
        #expect(try client.post("/onym/v1/merges", body).status == 409)
        let id = try #require(answer.text("id"))
        #expect(try client.post("/onym/v1/merges/\(id)/undo").status == 200)
        #expect(try client.post("/onym/v1/merges/\(id)/undo").status == 404)
        #expect(try client.get("/onym/v1/people/\(one)")["members"] as? [String] == [one])
    }

    @Test(
        "refuses what is no merge",
        arguments: [
            ("{}", 400), ("[]", 400), (#"{"from":"1","into":"x"}"#, 400), (#"{"from":1,"into":"2"}"#, 400),
            (#"{"from":"1","into":"2"}"#, 404), (#"{"from":"1","into":"2","because":""}"#, 400),
        ])
    func refuses(_ body: String, _ status: Int) throws {
        #expect(try NativeClient(.memory).post("/onym/v1/merges", body).status == status)
    }

    @Test("what is sent again under its key has the first answer", arguments: StoreKind.allCases)
    func repeated(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        let (one, two) = (try client.identify(#"{"customerid":"a"}"#), try client.identify(#"{"customerid":"b"}"#))
        func post(_ path: String, _ body: String, key: String) throws -> NativeClient.Answer {
            let fields = [("Authorization", "Bearer \(client.server.credentials.adminKey)"), ("Idempotency-Key", key)]
            return NativeClient.Answer(try client.server.client.call("POST", path, fields: fields, json: body))
        }
        let body = #"{"from":"\#(one)","into":"\#(two)"}"#
        let first = try post("/onym/v1/merges", body, key: "m")
        let id = try #require(first.text("id"))
        let again = try post("/onym/v1/merges", body, key: "m")
        #expect(again.status == 200 && again.wire.body == first.wire.body, "\(again)")
        #expect(try post("/onym/v1/merges", #"{"from":"\#(two)","into":"\#(one)"}"#, key: "m").status == 422)
        #expect(try post("/onym/v1/merges", #"{"from":"1","into":"2"}"#, key: "m").status == 422)
        #expect(try post("/onym/v1/merges", body, key: "other").status == 409)
        #expect(try post("/onym/v1/merges", #"{"from":"1","into":"2"}"#, key: "third").status == 404)

        let undone = try post("/onym/v1/merges/\(id)/undo", "{}", key: "u")
        #expect(undone.status == 200)
        let undoneAgain = try post("/onym/v1/merges/\(id)/undo", "{}", key: "u")
        #expect(undoneAgain.status == 200 && undoneAgain.wire.body == undone.wire.body, "\(undoneAgain)")
        #expect(try post("/onym/v1/merges/\(id)/undo", "{}", key: "other").status == 404)
        #expect(try post("/onym/v1/merges/\(id)/undo?dry_run=true", "{}", key: "dry").status == 404)
        #expect(try post("/onym/v1/merges", body, key: "m").text("id") == id, "it was made, whatever came of it")
        #expect(try client.get("/onym/v1/people/\(one)")["members"] as? [String] == [one])
    }

    private func ingest(_ client: NativeClient, _ mpid: String, _ plan: String) throws {
        let key = client.server.credentials.idsyncWebKey
        let answer = try client.server.client.call(
            "POST", "/v3/JS/\(key)/events",
            json: #"{"mpid":"\#(mpid)","ua":{"plan":"\#(plan)"},"events":[{"n":"e","dt":4}]}"#)
        #expect(answer.status == 202, "\(answer)")
    }

    @Test("a dry run says what would come together, and changes nothing", arguments: StoreKind.allCases)
    func dryRun(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        let (one, two) = (try client.identify(#"{"customerid":"a"}"#), try client.identify(#"{"customerid":"b"}"#))
        try ingest(client, one, "free")
        try ingest(client, two, "pro")
        let body = #"{"from":"\#(one)","into":"\#(two)","reason":"one and the same"}"#
        let dry = try client.post("/onym/v1/merges?dry_run=true", body)
        #expect(dry.status == 200 && dry["id"] is NSNull && dry.text("root") == two, "\(dry)")
        #expect((dry["moved"] as? [String: Any])?["identities"] as? Int == 1)
        #expect(((dry["moved"] as? [String: Any])?["rows"] as? [String: Int])?["event"] == 1)
        #expect(dry.list("conflicts").first?["property"] as? String == "plan")
        #expect(dry.list("conflicts").first?["kept"] as? String == "pro")
        #expect(dry.list("conflicts").first?["hidden"] as? String == "free")
        #expect(dry.list("now").compactMap { $0["person"] as? String } == [one, two], "\(dry)")
        #expect(dry.list("then").compactMap { $0["person"] as? String } == [two])
        let joined = try #require(dry.list("then").first)
        #expect((joined["counts"] as? [String: Int])?["event"] == 2 && (joined["identities"] as? [Any])?.count == 2)
        #expect(try client.get("/onym/v1/people/\(one)")["members"] as? [String] == [one])

        let merge = try client.post("/onym/v1/merges", body)
        #expect(merge.list("conflicts").count == 1 && merge.text("id") != nil)
        let id = try #require(merge.text("id"))
        let undry = try client.post("/onym/v1/merges/\(id)/undo?dry_run=true")
        #expect((undry["sides"] as? [String: [String]]) == ["from": [one], "into": [two]], "\(undry)")
        #expect(undry.list("now").compactMap { $0["person"] as? String } == [two], "\(undry)")
        #expect(undry.list("then").compactMap { $0["person"] as? String } == [one, two])
        #expect(undry["undone"] == nil)
        #expect(try client.get("/onym/v1/people/\(one)").text("root") == two)
        #expect(
            try client.post("/onym/v1/merges/\(id)/undo", #"{"reason":"two after all"}"#)["undone"] as? Bool == true)
        let journal = try client.get("/onym/v1/people/\(one)/journal").list("calls")
        #expect(journal.prefix(2).map { $0["reason"] as? String } == ["two after all", "one and the same"])
    }

    @Test(
        "a claim stays in force when an earlier merge of the same two is undone, and no stranger gets the anonymous id",
        arguments: StoreKind.allCases)
    func supportingClaim(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        let anonymous = "owl_anon_0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
        for user in [anonymous, "ada", "eve"] {
            #expect(
                try client.claimDialect("properties", #"{"user_id":"\#(user)","properties":{"p":"1"}}"#).status == 200)
        }
        let from = try #require(try client.get("/onym/v1/people/claim_anonymous_id:\(anonymous)").text("id"))
        let into = try #require(try client.get("/onym/v1/people/claim_user_id:ada").text("id"))
        let merge = try client.post("/onym/v1/merges", #"{"from":"\#(from)","into":"\#(into)"}"#)
        let id = try #require(merge.text("id"))
        for _ in 1...2 {
            #expect(
                try client.claimDialect("claim", #"{"anonymous_id":"\#(anonymous)","user_id":"ada"}"#).status == 200)
        }
        let merges = try client.get("/onym/v1/people/\(into)").list("merges")
        #expect(merges.compactMap { $0["rule"] as? String } == ["administrator", "claim"], "\(merges)")

        let dry = try client.post("/onym/v1/merges/\(id)/undo?dry_run=true")
        #expect(dry["still_one"] as? [String] == ["claim"], "\(dry)")
        #expect((dry["moved"] as? [String: Any])?["identities"] as? Int == 0)
        let undone = try client.post("/onym/v1/merges/\(id)/undo")
        #expect(undone.status == 200 && undone["still_one"] as? [String] == ["claim"], "\(undone)")
        #expect(try client.get("/onym/v1/people/\(from)").text("root") == into)
        #expect(try client.claimDialect("claim", #"{"anonymous_id":"\#(anonymous)","user_id":"eve"}"#).status == 409)

        let last = try #require(try client.get("/onym/v1/people/\(into)").list("merges").first?["id"] as? String)
        let parted = try client.post("/onym/v1/merges/\(last)/undo")
        #expect(parted.status == 200 && parted["still_one"] == nil, "\(parted)")
        #expect(try client.get("/onym/v1/people/\(from)")["members"] as? [String] == [from])
        #expect(try client.claimDialect("claim", #"{"anonymous_id":"\#(anonymous)","user_id":"eve"}"#).status == 200)
    }

    @Test("people are one as long as one reason is in force, in every order of undos", arguments: StoreKind.allCases)
    func reasons(_ kind: StoreKind) throws {
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let client = try NativeClient(kind)
            let people = try ["a", "b", "c"].map { try client.identify(#"{"customerid":"\#($0)"}"#) }
            let merges = try [(0, 1), (1, 2), (2, 0)].map { from, into in
                let answer = try client.post(
                    "/onym/v1/merges", #"{"from":"\#(people[from])","into":"\#(people[into])"}"#)
                return try #require(answer.text("id"), "\(answer)")
            }
            let again = try client.post("/onym/v1/merges", #"{"from":"\#(people[0])","into":"\#(people[2])"}"#)
            #expect(again.status == 409 && again.text("code") == "one_already", "\(again)")
            for (number, place) in order.enumerated() {
                let undone = try client.post("/onym/v1/merges/\(merges[place])/undo")
                #expect(undone.status == 200 && (undone["still_one"] != nil) == (number == 0), "\(undone)")
                let counts = try people.map { (try client.get("/onym/v1/people/\($0)")["members"] as? [String])?.count }
                #expect(counts.reduce(0) { $0 + ($1 ?? 0) } == [9, 5, 3][number], "\(order) \(counts)")
            }
        }
    }

    @Test("an undo lists the calls that came to what they did by the merge", arguments: StoreKind.allCases)
    func depended(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        let anonymous = "owl_anon_0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
        #expect(try client.claimDialect("claim", #"{"anonymous_id":"\#(anonymous)","user_id":"ada"}"#).status == 200)
        #expect(try client.claimDialect("properties", #"{"user_id":"bob","properties":{"own":"1"}}"#).status == 200)
        #expect(try client.claimDialect("claim", #"{"anonymous_id":"\#(anonymous)","user_id":"bob"}"#).status == 409)
        #expect(
            try client.claimDialect("properties", #"{"user_id":"\#(anonymous)","properties":{"p":"1"}}"#).status == 200)
        let person = try client.get("/onym/v1/people/claim_user_id:ada")
        let merge = try #require(person.list("merges").first?["id"] as? String, "\(person)")
        func places(_ answer: NativeClient.Answer) -> [Int?] { answer.list("depended").map { $0["seq"] as? Int } }
        let dry = try client.post("/onym/v1/merges/\(merge)/undo?dry_run=true")
        let undone = try client.post("/onym/v1/merges/\(merge)/undo")
        #expect(dry["depended_count"] as? Int == 1 && undone["depended_count"] as? Int == 1, "\(dry) \(undone)")
        #expect(places(dry) == places(undone) && undone["depended_next"] is NSNull)
        let listed = try client.get("/onym/v1/merges/\(merge)/depended?limit=1")
        #expect(places(listed) == places(undone) && listed["next_cursor"] is NSNull)
        let call = try #require(listed.list("depended").first?["seq"] as? Int, "\(listed)")
        let behind = try client.get("/onym/v1/merges/\(merge)/depended?cursor=\(call)")
        #expect(behind["depended_count"] as? Int == 1 && behind.list("depended").isEmpty, "\(behind)")
        #expect(try client.get("/onym/v1/merges/m_1/depended").status == 404)
        let depended = undone.list("depended").compactMap { $0["refused"] as? String ?? $0["kind"] as? String }
        #expect(depended == ["claimed_by_another"], "\(undone)")
        let agent = [("Authorization", "Bearer \(client.server.credentials.claimAgentKey)")]
        let users = NativeClient.Answer(try client.server.client.call("GET", "/v1/app-users", fields: agent))
        let ids = users.list("users").compactMap { $0["id"] as? String }
        #expect(ids.count == 3 && Set(ids).count == 3, "each has an id of its own again: \(users)")
    }

    /// An undo of the rule's merge parts the two for good, so a decision about them looks for the note of that: only a batch has it.
    @Test("a new user id of somebody whom an undo has parted from its user is refused", arguments: StoreKind.allCases)
    func parted(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        #expect(try client.call("PUT", "/onym/v1/strategy", #"{"same_user_id":true}"#).status == 200)
        let person = try client.identify(#"{"email":"p@x"}"#)
        #expect(try client.claimDialect("properties", #"{"user_id":"ada","properties":{"plan":"pro"}}"#).status == 200)
        _ = try client.merge(person, into: "claim_user_id:ada")
        let user = try client.identify(#"{"customerid":"ada"}"#, "login")
        let merges = try client.get("/onym/v1/people/\(user)").list("merges")
        let rule = try #require(merges.first { $0["rule"] as? String == "same_user_id" }?["id"] as? String, "\(merges)")
        #expect(try client.post("/onym/v1/merges/\(rule)/undo").status == 200)
        let modified = try client.modify(
            person, #"[{"identity_type":"customerid","old_value":null,"new_value":"ada"}]"#)
        #expect(modified.status == 400 && modified.wire.body.contains("another login identity"), "\(modified)")
        #expect(try client.get("/healthz").status == 200)
    }

    @Test("a merge is looked at and undone after a split has moved rows of its people", arguments: StoreKind.allCases)
    func splitRows(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        let person = try client.identify(#"{"device_application_stamp":"S1"}"#)
        #expect(try client.claimDialect("properties", #"{"user_id":"bob","properties":{"plan":"0"}}"#).status == 200)
        #expect(try client.claimDialect("claim", #"{"anonymous_id":"owl_anon_2","user_id":"bob"}"#).status == 200)
        try client.identify(#"{"device_application_stamp":"S1","ios_idfv":"D1"}"#)
        let call = try #require(client.get("/onym/v1/stats").number("last_seq"))
        let merge = try client.merge(person, into: "owl_anon_2")
        let key = client.server.credentials.idsyncWebKey
        let upload = try client.server.client.call(
            "POST", "/v3/JS/\(key)/events", json: #"{"mpid":"\#(person)","events":[{"n":"e","dt":4}]}"#)
        #expect(upload.status == 202, "\(upload)")
        try client.identify(#"{"customerid":"bob","ios_idfv":"D1","email":"z@x"}"#, "login")
        #expect(
            try client.claimDialect("properties", #"{"user_id":"owl_anon_2","properties":{"plan":"2"}}"#).status == 200)
        let split = try client.post("/onym/v1/people/\(person)/split", #"{"at_call":\#(call)}"#)
        #expect(
            split.status == 200 && ((split["moved"] as? [String: Any])?["rows"] as? [String: Int])?["event"] == 1,
            "\(split)")
        #expect(try client.get("/onym/v1/merges/\(merge)/depended").status == 200)
        #expect(try client.post("/onym/v1/merges/\(merge)/undo?dry_run=true").status == 200)
        #expect(try client.post("/onym/v1/merges/\(merge)/undo").status == 200)
    }
}
