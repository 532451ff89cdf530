import TestKit
import Testing
import Threads

@Suite("The change feed and the journal")
struct ChangeTests {
    private func kinds(_ answer: NativeClient.Answer) -> [String] {
        answer.list("changes").compactMap { $0["kind"] as? String }
    }

    @Test("tells what happened, in order, and never a value", arguments: StoreKind.allCases)
    func tells(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        try client.makeEmailUnique()
        let start = try #require(try client.get("/onym/v1/changes").number("next_after"))
        let one = try client.identify(#"{"customerid":"secret-a","email":"secret-e"}"#)
        let two = try client.identify(#"{"customerid":"secret-b"}"#)
        _ = try client.modify(two, #"[{"identity_type":"email","old_value":null,"new_value":"secret-e"}]"#)
        let merge = try client.merge(one, into: two)
        _ = try client.post("/onym/v1/merges/\(merge)/undo")
        _ = try client.modify("77", #"[{"identity_type":"email","old_value":null,"new_value":"secret-e"}]"#)

        let answer = try client.get("/onym/v1/changes?after=\(start)")
        #expect(
            kinds(answer) == [
                "person.created", "identity.linked", "identity.linked", "person.created", "identity.linked",
                "identity.moved", "person.merged", "merge.undone", "refused",
            ], "\(answer)")
        #expect(!answer.wire.body.contains("secret"))
        let changes = answer.list("changes")
        #expect(changes[5]["data"] as? [String: String] == ["type": "email", "from": one])
        #expect(
            changes[6]["data"] as? [String: String] == [
                "merge": merge, "from": one, "into": two, "rule": "administrator",
            ])
        #expect(changes[5]["person"] as? String == two && changes[5]["root"] as? String == two)

        let some = try client.get("/onym/v1/changes?after=\(start)&kinds=person.merged,refused")
        #expect(kinds(some) == ["person.merged", "refused"])
        #expect(some.number("next_after") == answer.number("next_after"))
    }

    @Test("refuses a place after the last call, and a list without kinds", arguments: StoreKind.allCases)
    func refuses(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        let end = try #require(try client.get("/onym/v1/changes").number("next_after"))
        #expect(try client.get("/onym/v1/changes?after=\(end)").list("changes").isEmpty)
        for after in [end + 1, Int.max] {
            let late = try client.get("/onym/v1/changes?after=\(after)&wait=1")
            #expect(late.status == 409 && late.code == "rewound", "\(late)")
        }
        for kinds in ["", ",", "x"] {
            #expect(try client.get("/onym/v1/changes?kinds=\(kinds)").status == 400, "\(kinds)")
        }
    }

    @Test("whoever goes on from next_after misses nothing and is told nothing twice", arguments: StoreKind.allCases)
    func pages(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        for number in 1...10 { try client.identify(#"{"customerid":"\#(number)","email":"e\#(number)"}"#) }
        let whole = try client.get("/onym/v1/changes?limit=200").list("changes")
        #expect(whole.count == 30)
        var (after, told): (Int, [Int]) = (0, [])
        while true {
            let page = try client.get("/onym/v1/changes?after=\(after)&limit=4")
            if page.list("changes").isEmpty { break }
            // Three of each call: never torn apart.
            #expect(page.list("changes").count == 6)
            told += page.list("changes").compactMap { $0["seq"] as? Int }
            after = try #require(page.number("next_after"))
        }
        #expect(told == whole.compactMap { $0["seq"] as? Int })
    }

    @Test(
        "a consumer that is killed at random points misses nothing, and keeps nothing twice",
        arguments: StoreKind.allCases)
    func killed(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        let isDone = Monitor(false)
        let writer = WorkerThread(name: "people") {
            let own = NativeClient(client.server)
            for number in 0..<150 { _ = try? own.identify(#"{"customerid":"\#(number)","email":"e\#(number % 9)"}"#) }
            isDone.change { $0 = true }
        }
        var generator = SeededGenerator(seed: 5)
        // What it keeps goes with where it was, both or none, as in a database of its own.
        var (kept, after): ([String], Int) = ([], 0)
        while true {
            let wasDone = isDone.withLock { $0 }
            let page = try client.get(
                "/onym/v1/changes?after=\(after)&limit=\(Int.random(in: 1...20, using: &generator))&wait=1")
            if generator.oneIn(3) { continue }
            for change in page.list("changes") {
                kept.append("\(change["seq"] ?? "") \(change["kind"] ?? "") \(change["data"] ?? "")")
            }
            let next = try #require(page.number("next_after"))
            if wasDone, next == after { break }
            after = next
        }
        writer.join()
        var (whole, place): ([String], Int) = ([], 0)
        while true {
            let page = try client.get("/onym/v1/changes?after=\(place)&limit=200")
            if page.list("changes").isEmpty { break }
            whole += page.list("changes").map { "\($0["seq"] ?? "") \($0["kind"] ?? "") \($0["data"] ?? "")" }
            place = try #require(page.number("next_after"))
        }
        #expect(kept == whole && whole.count > 150)
    }

    @Test("waits for what is not there yet", arguments: StoreKind.allCases)
    func waits(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        let start = try #require(try client.get("/onym/v1/changes").number("next_after"))
        let told = Monitor<Wire.Answer?>(nil)
        let thread = WorkerThread(name: "follower") {
            let answer = try? client.get("/onym/v1/changes?after=\(start)&wait=30").wire
            told.change { $0 = answer }
        }
        try client.identify(#"{"customerid":"late"}"#)
        thread.join()
        #expect(kinds(NativeClient.Answer(try #require(told.withLock { $0 }))).first == "person.created")
        let end = try #require(try client.get("/onym/v1/changes").number("next_after"))
        let nothing = try client.get("/onym/v1/changes?after=\(end)&wait=1")
        #expect(nothing.status == 200 && nothing.list("changes").isEmpty && nothing.number("next_after") == end)
    }

    @Test("nobody who waits holds up the end of the server")
    func ends() throws {
        let client = try NativeClient(.memory)
        let end = try #require(try client.get("/onym/v1/changes").number("next_after"))
        let told = Monitor<Wire.Answer?>(nil)
        let thread = WorkerThread(name: "follower") {
            let answer = try? client.get("/onym/v1/changes?after=\(end)&wait=60").wire
            told.change { $0 = answer }
        }
        // It may be asked before or after the server began to stop; either way it is told something.
        client.server.stop()
        thread.join()
        #expect(told.withLock { $0 }.map { $0.status == 200 } ?? true)
    }

    @Test(
        "says what is wrong with a question",
        arguments: ["after=x", "after=-1", "limit=0", "limit=201", "wait=61", "wait=x", "kinds=a", "what=1"])
    func refuses(_ query: String) throws {
        let answer = try NativeClient(.memory).get("/onym/v1/changes?\(query)")
        #expect(answer.status == 400 && answer.code == "validation_error")
    }

    @Test("the journal of a person has every call that touched it or a member", arguments: StoreKind.allCases)
    func journal(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        try client.makeEmailUnique()
        let one = try client.identify(#"{"customerid":"a","email":"e"}"#)
        let two = try client.identify(#"{"customerid":"b","email":"e"}"#)
        _ = try client.modify(two, #"[{"identity_type":"email","old_value":null,"new_value":"e"}]"#)
        func kinds(_ id: String, _ query: String = "") throws -> [String] {
            try client.get("/onym/v1/people/\(id)/journal\(query)").list("calls").compactMap { $0["kind"] as? String }
        }
        #expect(try kinds(one) == ["modify", "identify"], "it lost its e-mail address by a call of another")
        #expect(try kinds(two) == ["modify", "identify"])
        _ = try client.merge(one, into: two)
        #expect(try kinds(one) == ["merge", "modify", "identify", "identify"])
        let page = try client.get("/onym/v1/people/\(one)/journal?limit=3")
        #expect(page.list("calls").count == 3)
        let cursor = try #require(page.text("next_cursor"))
        #expect(try kinds(one, "?limit=3&cursor=\(cursor)") == ["identify"])
        // Named together with what another held already.
        let first = try #require(page.list("calls").last)
        #expect((first["named"] as? [[String: Any]])?.first?["fate"] as? String == "held_elsewhere")
        #expect(try client.get("/onym/v1/people/77/journal").status == 404)
    }
}
