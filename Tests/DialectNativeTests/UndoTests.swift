import Foundation
import TestKit
import Testing

/// Taking back single calls, as an administrator does, on every store.
@Suite("Undo of a call")
struct UndoTests {
    /// The number of the last call of a person.
    private func lastCall(_ client: NativeClient, of person: String) throws -> Int {
        let calls = try client.get("/onym/v1/people/\(person)/journal").list("calls")
        return try #require(calls.first?["seq"] as? Int)
    }

    private func identities(_ client: NativeClient, _ person: String) throws -> Set<String> {
        let shown = try client.get("/onym/v1/people/\(person)").list("identities")
        return Set(shown.compactMap { "\($0["type"] ?? ""):\($0["value"] ?? "")" })
    }

    /// The people on one side of an answer with their identities.
    private func side(_ name: String, of answer: JSONAnswer) -> [String: Set<String>] {
        var people: [String: Set<String>] = [:]
        for side in answer.list(name) {
            let held = side["identities"] as? [[String: String]] ?? []
            people[side["person"] as? String ?? ""] = Set(held.map { "\($0["type"] ?? ""):\($0["value"] ?? "")" })
        }
        return people
    }

    @Test("ends the links of a modify, and gives a moved value back", arguments: StoreKind.allCases)
    func modify(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        try client.makeEmailUnique()
        let one = try client.identify(#"{"customerid":"a","email":"ada@example.com"}"#)
        let two = try client.identify(#"{"customerid":"b"}"#)
        let move = #"[{"identity_type":"email","old_value":null,"new_value":"ada@example.com"}]"#
        #expect(try client.modify(two, move).status == 200)
        #expect(try identities(client, two) == ["customerid:b", "email:ada@example.com"])
        let call = try lastCall(client, of: two)

        let shown = try client.get("/onym/v1/calls/\(call)")
        let undo = try #require(shown["undo"] as? [String: Any])
        #expect(shown["kind"] as? String == "modify" && undo["possible"] as? Bool == true, "\(shown)")
        #expect((undo["facts_ended"] as? [[String: Any]])?.first?["person"] as? String == two)
        #expect((undo["facts_back"] as? [[String: Any]])?.first?["person"] as? String == one)
        #expect(shown["undone_by"] is NSNull)

        let dry = try client.post("/onym/v1/calls/\(call)/undo?dry_run=true")
        #expect(dry.status == 200 && dry["undone"] == nil, "\(dry)")
        #expect(try identities(client, two).count == 2, "a dry run changes nothing")
        #expect(
            side("now", of: dry) == [one: ["customerid:a"], two: ["customerid:b", "email:ada@example.com"]], "\(dry)")
        #expect(
            side("then", of: dry) == [one: ["customerid:a", "email:ada@example.com"], two: ["customerid:b"]], "\(dry)")
        let last = try #require(dry["last_seq"] as? Int)
        let done = try client.post("/onym/v1/calls/\(call)/undo?if_seq=\(last)", #"{"reason":"not hers"}"#)
        #expect(done.status == 200 && done["undone"] as? Bool == true, "\(done)")
        #expect(side("then", of: done) == side("then", of: dry))
        #expect(try identities(client, one) == ["customerid:a", "email:ada@example.com"])
        #expect(try identities(client, two) == ["customerid:b"])

        let after = try client.get("/onym/v1/calls/\(call)")
        let by = try #require(after["undone_by"] as? Int)
        #expect((after["undo"] as? [String: Any])?["code"] as? String == "already_undone", "\(after)")
        let again = try client.post("/onym/v1/calls/\(call)/undo")
        #expect(again.status == 409 && again.text("code") == "already_undone")
        let shownUndo = try client.get("/onym/v1/calls/\(by)")
        #expect(shownUndo["reason"] as? String == "not hers" && shownUndo["kind"] as? String == "undo_call")
        let events = try client.get("/onym/v1/changes?after=\(by - 1)").list("changes")
        #expect(events.contains { $0["kind"] as? String == "call.undone" }, "\(events)")

        #expect(try client.post("/onym/v1/calls/\(by)/undo").status == 200)
        #expect(try identities(client, two) == ["customerid:b", "email:ada@example.com"])
        #expect(try client.get("/onym/v1/calls/\(call)")["undone_by"] is NSNull)
    }

    @Test(
        "is refused where a later call built on the call, and takes both back with cascade",
        arguments: StoreKind.allCases)
    func cascade(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        try client.makeEmailUnique()
        let one = try client.identify(#"{"customerid":"a"}"#)
        let two = try client.identify(#"{"customerid":"b"}"#)
        let link = #"[{"identity_type":"email","old_value":null,"new_value":"ada@example.com"}]"#
        #expect(try client.modify(one, link).status == 200)
        let first = try lastCall(client, of: one)
        #expect(try client.modify(two, link).status == 200)
        let second = try lastCall(client, of: two)

        let refused = try client.post("/onym/v1/calls/\(first)/undo")
        #expect(refused.status == 409 && refused.text("code") == "built_upon", "\(refused)")
        #expect(refused.text("detail")?.contains("\(second)") == true, "\(refused)")
        let shown = try client.get("/onym/v1/calls/\(first)")
        #expect((shown["undo"] as? [String: Any])?["built_upon"] as? [Int] == [second], "\(shown)")
        let dry = try client.post("/onym/v1/calls/\(first)/undo?dry_run=true&cascade=true")
        #expect(dry.status == 200 && dry["built_upon"] as? [Int] == [second], "\(dry)")
        #expect(try identities(client, two).count == 2)
        #expect(
            side("then", of: dry) == [one: ["customerid:a"], two: ["customerid:b"]], "both calls are undone: \(dry)")
        let done = try client.post("/onym/v1/calls/\(first)/undo?cascade=true")
        #expect(done.status == 200 && done["undone"] as? Bool == true, "\(done)")
        #expect(try identities(client, one) == ["customerid:a"])
        #expect(try identities(client, two) == ["customerid:b"])
        for call in [first, second] {
            #expect(try client.get("/onym/v1/calls/\(call)")["undone_by"] is Int)
        }
    }

    @Test("reads the later calls once, however many facts the call has", arguments: StoreKind.allCases)
    func work(_ kind: StoreKind) throws {
        let works = try [1, 20].map { count in
            let counter = ReadCounter()
            let client = try NativeClient(kind, counter: counter)
            let person = try client.replaceAddresses(count, times: 6)
            let calls = try client.get("/onym/v1/people/\(person)/journal").list("calls").compactMap {
                $0["seq"] as? Int
            }
            _ = counter.take()
            // The call before it made the person.
            let answer = try client.post("/onym/v1/calls/\(calls.sorted()[1])/undo?dry_run=true&cascade=true")
            #expect(answer.status == 200, "\(answer)")
            return counter.take()
        }
        #expect(works[1].calls <= works[0].calls + 4, "\(works)")
    }

    @Test("of a claim and of a merge is the undo of the merge", arguments: StoreKind.allCases)
    func merge(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        let anonymous = "owl_anon_0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
        for user in [anonymous, "ada", "eve"] {
            _ = try client.claimDialect("properties", #"{"user_id":"\#(user)","properties":{"p":"\#(user)"}}"#)
        }
        let ada = try #require(try client.get("/onym/v1/people/claim_user_id:ada").text("id"))
        _ = try client.claimDialect("claim", #"{"anonymous_id":"\#(anonymous)","user_id":"ada"}"#)
        let call = try lastCall(client, of: ada)
        #expect(try client.claimDialect("claim", #"{"anonymous_id":"\#(anonymous)","user_id":"eve"}"#).status == 409)
        let shown = try client.get("/onym/v1/calls/\(call)")
        #expect(shown["depended_count"] as? Int == 1, "the refused claim depended: \(shown)")
        let undone = try client.post("/onym/v1/calls/\(call)/undo")
        #expect(undone.status == 200 && undone.list("depended").count == 1, "\(undone)")
        let both: Set = ["claim_anonymous_id:\(anonymous)", "claim_user_id:ada"]
        #expect(side("now", of: undone) == [ada: both], "\(undone)")
        #expect(side("then", of: undone).count == 2 && side("then", of: undone)[ada] == ["claim_user_id:ada"])
        #expect(try client.get("/onym/v1/people/\(ada)")["members"] as? [String] == [ada])
        #expect(try client.claimDialect("claim", #"{"anonymous_id":"\#(anonymous)","user_id":"eve"}"#).status == 200)
        let by = try #require(try client.get("/onym/v1/calls/\(call)")["undone_by"] as? Int)
        #expect(try client.post("/onym/v1/calls/\(by)/undo").status == 200, "a known user merged with two is allowed")

        let (one, two) = (try client.identify(#"{"customerid":"a"}"#), try client.identify(#"{"customerid":"b"}"#))
        let merge = try client.merge(one, into: two)
        let made = try lastCall(client, of: one)
        #expect(try client.post("/onym/v1/merges/\(merge)/undo").status == 200)
        let direct = try client.get("/onym/v1/calls/\(made)")
        #expect((direct["undo"] as? [String: Any])?["code"] as? String == "already_undone", "\(direct)")
        let undo = try #require(direct["undone_by"] as? Int)
        #expect(try client.post("/onym/v1/calls/\(undo)/undo").status == 200)
        #expect(try client.get("/onym/v1/people/\(one)").text("root") == two)
        #expect(try client.post("/onym/v1/calls/\(made)/undo").status == 200)
        #expect(try client.get("/onym/v1/people/\(one)").text("root") == one)
    }

    @Test("gives back properties that no later call wrote", arguments: StoreKind.allCases)
    func properties(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        func set(_ json: String) throws {
            #expect(try client.claimDialect("properties", #"{"user_id":"ada","properties":\#(json)}"#).status == 200)
        }
        func shown() throws -> [String: String] {
            let person = try client.get("/onym/v1/people/claim_user_id:ada")
            let claim = (person["properties"] as? [String: Any])?["claim"] as? [String: [String: Any]] ?? [:]
            return claim.compactMapValues { $0["value"] as? String }
        }
        try set(#"{"plan":"free","city":"Rome"}"#)
        try set(#"{"plan":"pro","city":"Oslo","team":"red"}"#)
        let call = try lastCall(client, of: "claim_user_id:ada")
        try set(#"{"city":"Bern"}"#)
        let undone = try client.post("/onym/v1/calls/\(call)/undo")
        #expect(undone.status == 200)
        let then = undone.list("then").first?["properties"] as? [String: [String: [String: Any]]]
        let values = then?["claim"]?.compactMapValues { $0["value"] as? String }
        #expect(values == ["plan": "free", "city": "Bern"], "\(undone)")
        #expect(try shown() == ["plan": "free", "city": "Bern"])
    }

    @Test("brings the former strategy back, unless a later version is in force", arguments: StoreKind.allCases)
    func strategy(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        func unique() throws -> [String] { try client.get("/onym/v1/strategy")["unique"] as? [String] ?? [] }
        let before = try unique()
        var last = 1
        while try client.get("/onym/v1/calls/\(last + 1)").status == 200 { last += 1 }
        try client.makeEmailUnique()
        let call = last + 1
        #expect(try client.get("/onym/v1/calls/\(call)")["kind"] as? String == "set_strategy")
        #expect(try client.call("PUT", "/onym/v1/strategy", #"{"unique":["customerid","google"]}"#).status == 200)
        let refused = try client.post("/onym/v1/calls/\(call)/undo")
        #expect(refused.status == 409 && refused.text("code") == "built_upon", "\(refused)")
        #expect(try client.post("/onym/v1/calls/\(call + 1)/undo").status == 200)
        #expect(Set(try unique()) == ["customerid", "email"])
        #expect(try client.post("/onym/v1/calls/\(call)/undo").status == 200)
        #expect(try unique() == before)
    }

    @Test("is refused with its reason, and for calls that do not exist")
    func refuses() throws {
        let client = try NativeClient(.memory)
        let one = try client.identify(#"{"customerid":"a"}"#)
        let call = try lastCall(client, of: one)
        for path in ["0", "999999", "x", "-1", "m_1"] {
            #expect(try client.get("/onym/v1/calls/\(path)").status == 404, "\(path)")
            #expect(try client.post("/onym/v1/calls/\(path)/undo").status == 404, "\(path)")
        }
        for query in ["dry_run=maybe", "cascade=x", "if_seq=x"] {
            #expect(try client.post("/onym/v1/calls/\(call)/undo?\(query)").status == 400, "\(query)")
        }
        #expect(try client.post("/onym/v1/calls/1/undo").text("code") == "revoke_instead")
        _ = try client.modify(one, #"[{"identity_type":"email","old_value":null,"new_value":"a@example.com"}]"#)
        let changed = try client.post("/onym/v1/calls/\(call)/undo?if_seq=\(call)")
        #expect(changed.status == 409 && changed.text("code") == "changed_meanwhile", "\(changed)")
        #expect(try client.call("DELETE", "/onym/v1/people/\(one)").status == 200)
        let erased = try client.post("/onym/v1/calls/\(call)/undo")
        #expect(erased.status == 409 && erased.text("code") == "erased", "\(erased)")
    }

    @Test("sent again under its key has the first effect only", arguments: StoreKind.allCases)
    func repeated(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        let one = try client.identify(#"{"customerid":"a"}"#)
        _ = try client.modify(one, #"[{"identity_type":"email","old_value":null,"new_value":"a@example.com"}]"#)
        let call = try lastCall(client, of: one)
        let fields = [("Authorization", "Bearer \(client.server.credentials.adminKey)"), ("Idempotency-Key", "u")]
        for _ in 1...2 {
            let answer = try client.server.client.call(
                "POST", "/onym/v1/calls/\(call)/undo", fields: fields, json: "{}")
            #expect(answer.status == 200, "\(answer)")
        }
        #expect(try client.get("/onym/v1/people/\(one)/journal").list("calls").count == 3)
        #expect(try client.post("/onym/v1/calls/\(call)/undo").status == 409)
    }
}
