import Foundation
import TestKit
import Testing

@Suite("Explanations")
struct ExplainTests {
    private func explain(_ client: NativeClient, _ one: String, _ other: String) throws -> NativeClient.Answer {
        try client.get("/onym/v1/explain?a=\(one)&b=\(other)")
    }

    private func facts(_ answer: NativeClient.Answer) -> [String] {
        answer.list("chain").compactMap { $0["fact"] as? String }
    }

    @Test("of one person: a link, and a link", arguments: StoreKind.allCases)
    func onePerson(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        let person = try client.identify(#"{"customerid":"42","ios_idfv":"V"}"#)
        let answer = try explain(client, "customerid:42", "ios_idfv:V")
        #expect(answer["connected"] as? Bool == true && answer.text("root") == person, "\(answer)")
        let chain = answer.list("chain")
        #expect(chain.map { $0["from"] as? String } == ["customerid:42", person])
        #expect(chain.map { $0["to"] as? String } == [person, "ios_idfv:V"])
        #expect(chain.allSatisfy { $0["call"] is Int && $0["key"] is String && $0["request_id"] is String })
        #expect(facts(try explain(client, "customerid:42", person)) == ["link"])
        #expect(facts(try explain(client, person, person)) == [])
    }

    @Test("over merges and aliases, the shortest way", arguments: StoreKind.allCases)
    func overMerges(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        let people = try ["a", "b", "c", "d"].map { try client.identify(#"{"customerid":"\#($0)"}"#) }
        _ = try client.merge(people[0], into: people[1])
        let second = try client.merge(people[1], into: people[2])
        let whole = try explain(client, "customerid:a", "customerid:c")
        #expect(facts(whole) == ["link", "merge", "merge", "link"] && whole.text("root") == people[2], "\(whole)")
        #expect(whole.list("chain")[1]["rule"] as? String == "administrator")
        #expect(whole.list("chain")[1]["call"] is Int)
        #expect(whole.list("chain").map { $0["merge"] as? String }[2] == second, "the id that an undo takes")
        #expect(whole.list("chain")[0]["merge"] == nil)

        #expect(try client.post("/onym/v1/merges/\(second)/undo").status == 200)
        let apart = try explain(client, "customerid:a", "customerid:c")
        #expect(apart["connected"] as? Bool == false && apart.text("reason") == "merge_undone", "\(apart)")
        #expect(apart.list("undone").first?["kind"] as? String == "undo_merge")
        #expect(try explain(client, "customerid:a", "customerid:d").text("reason") == "never_together")
    }

    @Test("of two that shared a device, with the time of each, and with typed reasons", arguments: StoreKind.allCases)
    func sharedDevice(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        let ada = try client.identify(#"{"customerid":"ada","ios_idfv":"TABLET"}"#)
        let bob = try client.identify(#"{"customerid":"bob","ios_idfv":"TABLET"}"#)
        #expect(ada != bob)
        let answer = try explain(client, "customerid:ada", "customerid:bob")
        #expect(answer.text("reason") == "shared_device", "\(answer)")
        let device = try #require(answer.list("devices").first)
        #expect(device["type"] as? String == "ios_idfv" && device["value"] as? String == "TABLET")
        let held = device["held"] as? [[String: Any]] ?? []
        #expect(held.map { $0["person"] as? String } == [ada, bob], "\(held)")
        #expect(held.allSatisfy { $0["until"] is NSNull && $0["since"] is String })
        _ = try client.modify(ada, #"[{"identity_type":"ios_idfv","old_value":"TABLET","new_value":null}]"#)
        let later = try explain(client, "customerid:ada", "customerid:bob").list("devices").first
        let spans = later?["held"] as? [[String: Any]] ?? []
        #expect(spans.first?["until"] is String && spans.last?["until"] is NSNull, "\(spans)")

        let merge = try client.post("/onym/v1/merges", #"{"from":"\#(ada)","into":"\#(bob)","reason":"one human"}"#)
        let whole = try explain(client, "customerid:ada", "customerid:bob")
        #expect(whole.list("chain").contains { $0["reason"] as? String == "one human" }, "\(whole)")
        let id = try #require(merge.text("id"))
        #expect(try client.post("/onym/v1/merges/\(id)/undo", #"{"reason":"two after all"}"#).status == 200)
        let apart = try explain(client, "customerid:ada", "customerid:bob")
        #expect(apart.list("undone").contains { $0["reason"] as? String == "two after all" }, "\(apart)")
    }

    @Test("of two that a rule kept apart, and of one that was taken", arguments: StoreKind.allCases)
    func refused(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        try client.makeEmailUnique()
        let first = try client.identify(#"{"customerid":"a","email":"e"}"#)
        let second = try client.identify(#"{"customerid":"b","email":"e"}"#)
        #expect(first != second)
        let refused = try explain(client, "customerid:b", "email:e")
        #expect(refused.text("reason") == "refused", "\(refused)")
        #expect(refused.list("refused").first?["rule"] as? String == "held_elsewhere")

        let taken = try client.modify(second, #"[{"identity_type":"email","old_value":null,"new_value":"e"}]"#)
        #expect(taken.status == 200, "\(taken)")
        let moved = try explain(client, "customerid:a", "email:e")
        #expect(moved.text("reason") == "moved" && !moved.list("undone").isEmpty, "\(moved)")
        #expect(facts(try explain(client, "customerid:b", "email:e")) == ["link", "link"])
    }

    @Test("of what nobody holds", arguments: StoreKind.allCases)
    func unknown(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        _ = try client.identify(#"{"customerid":"a"}"#)
        #expect(try explain(client, "customerid:x", "customerid:a").text("reason") == "first_unknown")
        #expect(try explain(client, "customerid:a", "customerid:x").text("reason") == "second_unknown")
        #expect(try explain(client, "77", "customerid:a").text("reason") == "first_unknown")
        for query in ["a=customerid:a", "b=customerid:a", "a=x&b=customerid:a", "a=nothing:1&b=customerid:a", ""] {
            let answer = try client.get("/onym/v1/explain?\(query)")
            #expect(answer.status == 400 && answer.code == "validation_error", "\(query)")
        }
    }

    @Test("draw all that a person is made of", arguments: StoreKind.allCases)
    func graph(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        let one = try client.identify(#"{"customerid":"a","email":"e"}"#)
        let two = try client.identify(#"{"customerid":"b"}"#)
        _ = try client.merge(one, into: two)
        let graph = try client.get("/onym/v1/people/\(one)/graph")
        let nodes = Set(graph.list("nodes").compactMap { $0["id"] as? String })
        #expect(nodes == [one, two, "customerid:a", "email:e", "customerid:b"], "\(graph)")
        #expect(graph.list("edges").compactMap { $0["fact"] as? String } == ["link", "link", "link", "merge"])
        #expect(graph.list("edges").allSatisfy { nodes.contains($0["from"] as? String ?? "") })
        #expect(try client.get("/onym/v1/people/77/graph").status == 404)
    }

    @Test("draw many identities and members as one node", arguments: StoreKind.allCases)
    func largeGraph(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        let one = try client.identify(#"{"customerid":"a","ios_idfv":"D0"}"#)
        let two = try client.identify(#"{"customerid":"b"}"#)
        for (person, value) in [(one, "D1"), (one, "D2"), (one, "D3"), (one, "D4"), (two, "D0")] {
            let attached = try client.post(
                "/onym/v1/people/\(person)/identities", #"{"type":"ios_idfv","value":"\#(value)"}"#)
            #expect(attached.status == 200, "\(attached)")
        }
        _ = try client.merge(two, into: one)
        let path = "/onym/v1/people/\(one)/graph"

        // A device of two members is a node of its own.
        let graph = try client.get("\(path)?collapse=3")
        let group = "group \(one) ios_idfv"
        #expect(
            Set(graph.list("nodes").compactMap { $0["id"] as? String })
                == [one, two, "customerid:a", "customerid:b", "ios_idfv:D0", group], "\(graph)")
        let node = try #require(graph.list("nodes").first { $0["id"] as? String == group })
        #expect(node["count"] as? Int == 4 && node["type"] as? String == "ios_idfv" && node["holder"] as? String == one)
        #expect(graph.list("edges").contains { $0["from"] as? String == group && $0["to"] as? String == one })
        #expect(graph.list("edges").count == 6 && graph.number("hidden") == 0, "\(graph)")
        let behind = try client.get("/onym/v1/people/\(two)/identities?type=ios_idfv&holder=\(one)")
        #expect(behind.list("identities").count == 5)
        #expect(try client.get("\(path)?collapse=4").list("nodes").count == 9)

        // What the limit leaves out is counted, and no edge leads there.
        let cut = try client.get("\(path)?collapse=3&limit=4")
        let left = Set(cut.list("nodes").compactMap { $0["id"] as? String })
        #expect(left.count == 4 && left.isSuperset(of: [one, two]) && cut.number("hidden") == 2)
        #expect(cut.list("edges").allSatisfy { left.contains($0["from"] as? String ?? "") })
        for query in ["collapse=0", "limit=0", "limit=x"] {
            #expect(try client.get("\(path)?\(query)").code == "validation_error", "\(query)")
        }
        #expect(try client.get("/onym/v1/people/\(one)/identities?holder=x").code == "validation_error")
    }

    @Test("draw a merge that was undone, and an identity that was refused", arguments: StoreKind.allCases)
    func graphOfThePast(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        try client.makeEmailUnique()
        let two = try client.identify(#"{"customerid":"b","email":"e"}"#)
        let one = try client.identify(#"{"customerid":"a","email":"e"}"#)
        let merge = try client.merge(one, into: two)
        #expect(try client.post("/onym/v1/merges/\(merge)/undo").status == 200)
        let graph = try client.get("/onym/v1/people/\(one)/graph")
        let undone = try #require(graph.list("edges").first { $0["undone_at"] != nil }, "\(graph)")
        #expect(undone["fact"] as? String == "merge" && undone["merge"] as? String == merge)
        #expect([undone["from"] as? String, undone["to"] as? String] == [one, two])
        let outside = graph.list("nodes").filter { $0["member"] as? Bool == false }
        #expect(outside.compactMap { $0["id"] as? String } == [two])
        let refused = try #require(graph.list("edges").first { $0["fact"] as? String == "refused" }, "\(graph)")
        #expect(refused["from"] as? String == "email:e" && refused["to"] as? String == one)
        #expect(refused["rule"] as? String == "held_elsewhere")
        #expect(graph.list("nodes").contains { $0["id"] as? String == "email:e" })
    }
}
