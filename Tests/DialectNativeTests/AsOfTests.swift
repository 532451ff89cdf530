import Foundation
import TestKit
import Testing

/// Questions about people as they were at some moment.
@Suite("Questions about the past")
struct AsOfTests {
    /// The last call of the journal after a call.
    private func lastSequence(_ client: NativeClient, after sequence: Int = 0) throws -> Int {
        var last = sequence
        while try client.get("/onym/v1/calls/\(last + 1)").status == 200 { last += 1 }
        return last
    }

    /// An answer without the last sighting: the journal does not have sightings that changed nothing.
    private func settled(_ answer: NativeClient.Answer) -> String {
        answer.wire.body.replacing(/"last_seen":"[^"]*"/, with: "")
    }

    /// What a call of `modify` changes, by the e-mail addresses of a person before and after the call. No address is an empty text.
    private static let changes: [(before: [String], changes: [(String, String)], after: [String])] = [
        (["a"], [("a", "b")], ["b"]),
        (["a"], [("a", "b"), ("b", "c")], ["c"]),
        (["a"], [("", "b"), ("b", "")], ["a"]),
        (["a"], [("a", ""), ("", "a")], ["a"]),
        (["a"], [("a", "b"), ("b", "a")], ["a"]),
        (["a"], [("a", ""), ("", "a"), ("a", "")], []),
        (["a"], [("", "b"), ("b", ""), ("", "b")], ["a", "b"]),
        (["a", "b"], [("a", "t"), ("b", "a"), ("t", "b")], ["a", "b"]),
        (["a", "b"], [("a", "t"), ("b", "a")], ["a", "t"]),
    ]

    @Test("a call that changes a value twice has one result for all readers", arguments: StoreKind.allCases)
    func changedTwice(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        for (number, row) in Self.changes.enumerated() {
            let person = try client.identify(#"{"customerid":"c\#(number)"}"#)
            func modify(_ changes: [(String, String)], _ type: String = "email") throws {
                let items = changes.map { old, new in
                    let (old, new) = (old.isEmpty ? "null" : "\"\(old)\"", new.isEmpty ? "null" : "\"\(new)\"")
                    return #"{"identity_type":"\#(type)","old_value":\#(old),"new_value":\#(new)}"#
                }
                let answer = try client.modify(person, "[\(items.joined(separator: ","))]")
                #expect(answer.status == 200, "\(answer)")
            }
            func emails(_ query: String = "") throws -> [String] {
                let identities = try client.get("/onym/v1/people/\(person)\(query)").list("identities")
                return identities.filter { $0["type"] as? String == "email" }.compactMap { $0["value"] as? String }
                    .sorted()
            }
            try modify(row.before.map { ("", $0) })
            let before = try lastSequence(client)
            try modify(row.changes)
            let call = try lastSequence(client, after: before)
            #expect(try emails() == row.after, "\(row)")
            #expect((call == before) == (row.before == row.after), "\(row)")
            try modify([("", "later")], "other")
            #expect(try emails("?at=seq:\(before)") == row.before, "\(row)")
            #expect(try emails("?at=seq:\(call)") == row.after, "\(row)")
            if call == before { continue }
            let undo = try client.post("/onym/v1/calls/\(call)/undo")
            #expect(undo.status == 200, "\(undo)")
            #expect(try emails() == row.before, "\(row)")
        }
    }

    @Test("each answer is the answer that was given then", arguments: StoreKind.allCases)
    func asThen(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        try client.makeEmailUnique()
        var generator = SeededGenerator(seed: 11)
        var people: [String] = []
        for number in 0..<4 {
            people.append(try client.identify(#"{"customerid":"c\#(number)","email":"e\#(number)@example.com"}"#))
        }
        var merges: [String] = []
        var then: [(sequence: Int, path: String, body: String)] = []
        var sequence = 0
        for round in 0..<20 {
            let (one, other) = (people[round % 4], people[Int.random(in: 0..<4, using: &generator)])
            switch Int.random(in: 0..<5, using: &generator) {
            case 0:
                _ = try client.modify(
                    one,
                    #"[{"identity_type":"email","old_value":null,"new_value":"e\#(round % 3)@example.com"}]"#)
            case 1:
                let answer = try client.post("/onym/v1/merges", #"{"from":"\#(one)","into":"\#(other)"}"#)
                if let id = answer.text("id") { merges.append(id) }
            case 2:
                guard let merge = merges.randomElement(using: &generator) else { continue }
                _ = try client.post("/onym/v1/merges/\(merge)/undo")
            case 3:
                let user = #"{"user_id":"u\#(round % 2)","properties":{"p":"\#(round)"}}"#
                _ = try client.claimDialect("properties", user)
            default:
                let key = client.server.credentials.idsyncWebKey
                _ = try client.server.client.call(
                    "POST", "/v3/JS/\(key)/events",
                    json: #"{"mpid":"\#(one)","ua":{"plan":"p\#(round)"},"events":[{"n":"e","dt":4}]}"#)
            }
            sequence = try lastSequence(client, after: sequence)
            var paths = people.flatMap { person in
                ["", "/journal", "/timeline", "/graph", "/access"].map { "/onym/v1/people/\(person)\($0)" }
            }
            paths.append("/onym/v1/people?type=email&value=e1@example.com")
            paths.append("/onym/v1/explain?a=customerid:c0&b=customerid:c1")
            for path in paths { then.append((sequence, path, settled(try client.get(path)))) }
        }
        for (sequence, path, body) in then {
            let mark = path.contains("?") ? "&" : "?"
            let now = settled(try client.get("\(path)\(mark)at=seq:\(sequence)"))
            #expect(now == body, "\(path) at \(sequence)")
        }
        #expect(then.count > 200 && Set(then.map(\.sequence)).count > 8)
    }

    @Test(
        "a history with an end: earlier moments are gone, and so is the undo of earlier calls",
        arguments: StoreKind.allCases)
    func end(_ kind: StoreKind) throws {
        let clock = ManualClock(1_750_000_000_000)
        let client = NativeClient(
            try TestServer(kind) { configuration in
                configuration.clock = { clock.now }
                configuration.retention.historyDays = 3
                configuration.retention.longestRestMilliseconds = 0
            })
        func set(_ plan: Int) throws -> Int {
            _ = try client.claimDialect("properties", #"{"user_id":"ada","properties":{"plan":"p\#(plan)"}}"#)
            var last = try lastSequence(client)
            while try client.get("/onym/v1/calls/\(last)").text("kind") != "set_properties", last > 0 { last -= 1 }
            return last
        }
        func plan(_ at: Int?) throws -> NativeClient.Answer {
            try client.get("/onym/v1/people/claim_user_id:ada\(at.map { "?at=seq:\($0)" } ?? "")")
        }
        let (first, second) = (try set(1), try set(2))
        clock.advance(milliseconds: 2 * 86_400_000)
        let third = try set(3)
        #expect(try plan(first).wire.body.contains(#""value":"p1""#))
        let figure = /\nonym_old_version_bytes [1-9]/
        #expect(try Patience.until { try client.get("/metrics").wire.body.contains(figure) })
        clock.advance(milliseconds: 2 * 86_400_000)
        // The pass is another thread's.
        try Patience.until {
            clock.advance(milliseconds: 20)
            return try plan(first).status == 410
        }
        let gone = try plan(first)
        #expect(gone.status == 410 && gone.text("code") == "history_gone")
        #expect(gone.wire.body.contains("begins with call \(second)"))
        for path in ["/timeline", "/graph", "/journal", "/access"] {
            let answer = try client.get("/onym/v1/people/claim_user_id:ada\(path)?at=seq:\(first)")
            #expect(answer.status == 410 && answer.text("code") == "history_gone", "\(path)")
        }
        #expect(try client.get("/onym/v1/people?type=claim_user_id&value=ada&at=2001-01-01T00:00:00Z").status == 410)
        #expect(try client.get("/onym/v1/explain?a=claim_user_id:ada&b=claim_user_id:eve&at=seq:0").status == 410)
        // What the end leaves is as it was.
        #expect(try plan(second).wire.body.contains(#""value":"p2""#))
        #expect(try plan(third).wire.body.contains(#""value":"p3""#))
        let call = try client.get("/onym/v1/calls/\(second)")
        #expect(call.wire.body.contains(#""undo":{"possible":false,"code":"history_gone""#), "\(call.wire.body)")
        let refused = try client.post("/onym/v1/calls/\(second)/undo")
        #expect(refused.status == 409 && refused.text("code") == "history_gone")
        #expect(try client.post("/onym/v1/calls/\(third)/undo").status == 200)
        #expect(try plan(nil).wire.body.contains(#""value":"p2""#))
    }

    @Test(
        "an undo that is sent again under its key has its answer, also after the end of its history",
        arguments: StoreKind.allCases)
    func repeatedAfterEnd(_ kind: StoreKind) throws {
        let clock = ManualClock(1_750_000_000_000)
        let client = NativeClient(
            try TestServer(kind) { configuration in
                configuration.clock = { clock.now }
                configuration.retention.historyDays = 1
                configuration.retention.longestRestMilliseconds = 0
            })
        func undo(_ path: String) throws -> NativeClient.Answer {
            let fields = [("Authorization", "Bearer \(client.server.credentials.adminKey)"), ("Idempotency-Key", path)]
            return NativeClient.Answer(try client.server.client.call("POST", path, fields: fields, json: "{}"))
        }
        let bob = try client.identify(#"{"ios_idfv":"TABLET"}"#)
        let ada = try client.identify(#"{"customerid":"ada","ios_idfv":"TABLET"}"#, "login")
        #expect(ada == bob)
        for (device, plan) in [("TABLET", "free"), ("PHONE", "pro"), ("TABLET", "trial")] {
            let answer = try client.server.client.call(
                "POST", "/v3/JS/\(client.server.credentials.idsyncWebKey)/events",
                json: """
                    {"mpid":"\(ada)","device_info":{"ios_idfv":"\(device)"},"ua":{"plan":"\(plan)"},
                     "events":[{"n":"e","dt":4}]}
                    """)
            #expect(answer.status == 202)
        }
        let written = try lastSequence(client)
        let lanes = #"{"lanes":[{"type":"ios_idfv","value":"TABLET"}]}"#
        let split = try client.post("/onym/v1/people/\(ada)/split", lanes)
        let id = try #require(split.text("id"), "\(split)")
        clock.advance(milliseconds: 23 * 3_600_000)
        let paths = ["/onym/v1/splits/\(id)/undo", "/onym/v1/calls/\(written)/undo"]
        let first = try paths.map(undo)
        #expect(first.map(\.status) == [200, 200], "\(first)")
        // The answers are kept for a day.
        clock.advance(milliseconds: 2 * 3_600_000)
        for name in ["a", "b"] {
            _ = try client.claimDialect("properties", #"{"user_id":"\#(name)","properties":{"plan":"p"}}"#)
        }
        try Patience.until {
            clock.advance(milliseconds: 20)
            return try client.get("/onym/v1/people/\(ada)?at=seq:\(written)").status == 410
        }
        for (path, answer) in zip(paths, first) {
            let again = try undo(path)
            #expect(again.status == 200 && again["undone"] as? Bool == true, "\(path): \(again)")
            #expect(again.text("id") == answer.text("id") && again.number("call") == answer.number("call"))
        }
    }

    @Test("takes a time or a call, and nothing else")
    func forms() throws {
        let client = try NativeClient(.memory)
        let one = try client.identify(#"{"customerid":"a"}"#)
        let before = try lastSequence(client)
        _ = try client.modify(one, #"[{"identity_type":"customerid","old_value":"a","new_value":"b"}]"#)
        #expect(try client.get("/onym/v1/people/customerid:a").status == 404)
        #expect(try client.get("/onym/v1/people/customerid:a?at=seq:\(before)").text("id") == one)
        #expect(try client.get("/onym/v1/people/customerid:b?at=seq:\(before)").status == 404)
        #expect(try client.get("/onym/v1/people/\(one)?at=seq:0").status == 404)
        #expect(try client.get("/onym/v1/people/\(one)?at=2001-01-01T00:00:00Z").status == 404)
        #expect(try client.get("/onym/v1/people/\(one)?at=2999-01-01T00:00:00Z").text("id") == one)
        #expect(try client.get("/onym/v1/people/\(one)?at=seq:999999").text("id") == one)
        for at in ["x", "seq:", "seq:x", "-1", "seq:-1"] {
            #expect(try client.get("/onym/v1/people/\(one)?at=\(at)").status == 400, "\(at)")
        }
        #expect(try client.call("DELETE", "/onym/v1/people/\(one)").status == 200)
        #expect(try client.get("/onym/v1/people/\(one)?at=seq:\(before)").status == 404, "an erasure is for all times")
    }
}
