import Foundation
import TestKit
import Testing

/// Splitting a person and taking it back, as an administrator does, on every store.
@Suite("Splits by an administrator")
struct SplitCallTests {
    private static let tablet = #"{"identities":[{"type":"ios_idfv","value":"TABLET"}],"reason":"Bob's tablet"}"#

    /// The tablet's story: Bob uses the tablet without a login, then Ada logs in on it.
    private func story(_ kind: StoreKind) throws -> (client: NativeClient, ada: String) {
        let client = try NativeClient(kind)
        let bob = try client.identify(#"{"ios_idfv":"TABLET"}"#)
        let ada = try client.identify(#"{"customerid":"ada","ios_idfv":"TABLET"}"#, "login")
        #expect(bob == ada, "the anonymous person became Ada")
        return (client, ada)
    }

    private func ingest(_ client: NativeClient, _ mpid: String, _ plan: String) throws {
        let key = client.server.credentials.idsyncWebKey
        let answer = try client.server.client.call(
            "POST", "/v3/JS/\(key)/events",
            json: #"{"mpid":"\#(mpid)","ua":{"plan":"\#(plan)"},"events":[{"n":"e","dt":4}]}"#)
        #expect(answer.status == 202, "\(answer)")
    }

    private func values(_ side: [String: Any]) -> [String] {
        (side["identities"] as? [[String: Any]] ?? []).compactMap { $0["value"] as? String }
    }

    @Test("a tablet leaves the person that it was taken for, and comes back", arguments: StoreKind.allCases)
    func tablet(_ kind: StoreKind) throws {
        let (client, ada) = try story(kind)
        let before = try client.get("/onym/v1/people/\(ada)")
        let dry = try client.post("/onym/v1/people/customerid:ada/split?dry_run=true", SplitCallTests.tablet)
        #expect(dry.status == 200 && dry["id"] is NSNull && dry["into"] is NSNull, "\(dry)")
        #expect(dry.list("now").map(values) == [["TABLET", "ada"]])
        #expect(dry.list("then").map(values) == [["ada"], ["TABLET"]])
        #expect((dry["moved"] as? [String: Any])?["identities"] as? Int == 1)
        #expect((dry["stays"] as? [String: Any])?["identities"] as? Int == 1)
        #expect((dry["warnings"] as? [String])?.count == 1)
        #expect(try client.get("/onym/v1/people/\(ada)").wire.body == before.wire.body)

        let seen = try #require(dry.number("last_seq"))
        let split = try client.post("/onym/v1/people/customerid:ada/split?if_seq=\(seen)", SplitCallTests.tablet)
        let (id, bob) = (try #require(split.text("id")), try #require(split.text("into")))
        #expect(split.status == 200 && id.hasPrefix("s_") && split.text("person") == ada, "\(split)")
        #expect(split.list("then").map { $0["person"] as? String } == [ada, bob])
        #expect(try client.identify(#"{"ios_idfv":"TABLET"}"#) == bob)
        #expect(try client.identify(#"{"customerid":"ada"}"#) == ada)
        try ingest(client, bob, "free")

        let explained = try client.get("/onym/v1/explain?a=customerid:ada&b=ios_idfv:TABLET")
        #expect(explained.text("reason") == "split_from", "\(explained)")
        let evidence = try #require(explained.list("undone").first)
        #expect(evidence["kind"] as? String == "split" && evidence["reason"] as? String == "Bob's tablet")
        #expect(evidence["split"] as? String == id)
        let journal = try client.get("/onym/v1/people/\(ada)/journal").list("calls")
        #expect(journal.first?["kind"] as? String == "split" && journal.first?["reason"] as? String == "Bob's tablet")

        let undo = try client.post("/onym/v1/splits/\(id)/undo", #"{"reason":"they share it"}"#)
        #expect(undo.status == 200 && undo["undone"] as? Bool == true, "\(undo)")
        #expect(undo.list("now").map(values) == [["ada"], ["TABLET"]])
        #expect(undo.list("then").map { Set(values($0)) } == [["ada", "TABLET"]], "Bob's event comes back, too")
        #expect(try client.get("/onym/v1/people/ios_idfv:TABLET").text("id") == ada)
        let after = try client.get("/onym/v1/people/\(ada)")
        #expect(after.text("root") == ada && (after["counts"] as? [String: Int])?["event"] == 1, "\(after)")
        func identities(_ answer: NativeClient.Answer) -> [NSDictionary] {
            answer.list("identities").map { $0 as NSDictionary }
        }
        #expect(identities(after) == identities(before), "with their calls, as they were")
        #expect(try client.post("/onym/v1/splits/\(id)/undo").status == 404)
        let calls = try client.get("/onym/v1/people/\(ada)/journal").list("calls")
        let call = try #require(calls.first { $0["kind"] as? String == "undo_split" }?["seq"] as? Int)
        let back = try client.post("/onym/v1/calls/\(call)/undo")
        #expect(back.status == 409 && back.wire.body.contains("Split the person again"), "\(back)")
        let made = try #require(calls.first { $0["kind"] as? String == "split" }?["seq"] as? Int)
        let byNumber = try client.post("/onym/v1/calls/\(made)/undo")
        #expect(byNumber.text("code") == "undo_split" && byNumber.wire.body.contains(id), "\(byNumber)")

        let kinds = try client.get("/onym/v1/changes?kinds=person.split,split.undone").list("changes")
        #expect(kinds.map { $0["kind"] as? String } == ["person.split", "split.undone"])
        #expect(kinds.allSatisfy { ($0["data"] as? [String: String]) == ["split": id, "into": bob] })
        #expect(kinds.allSatisfy { $0["person"] as? String == ada })
    }

    @Test("splits are listed since a moment, also after the clock was ahead for a while", arguments: StoreKind.allCases)
    func clockSetBack(_ kind: StoreKind) throws {
        let clock = ManualClock()
        let client = NativeClient(try TestServer(kind) { $0.clock = { clock.now } })
        func split(_ name: String) throws -> String {
            clock.advance(milliseconds: 3_600_000)
            let person = try client.identify(#"{"customerid":"\#(name)","ios_idfv":"\#(name)"}"#)
            let answer = try client.post(
                "/onym/v1/people/\(person)/split",
                #"{"identities":[{"type":"ios_idfv","value":"\#(name)"}],"reason":"\#(name)"}"#)
            return try #require(answer.text("id"), "\(answer)")
        }
        let begin = clock.now
        func listed(since hours: Int64) throws -> [String] {
            let moment = begin.advanced(byMilliseconds: hours * 3_600_000)
            let since = Date(timeIntervalSince1970: Double(moment.milliseconds) / 1000).ISO8601Format()
            let answer = try client.get("/onym/v1/splits?since=\(since)")
            return answer.list("splits").compactMap { $0["id"] as? String }
        }
        let first = try split("first")
        clock.advance(milliseconds: 41 * 86_400_000)
        let ahead = try split("ahead")
        clock.advance(milliseconds: -41 * 86_400_000)
        let back = try split("back")
        #expect(try listed(since: 0) == [back, ahead, first])
        #expect(try listed(since: 2) == [back, ahead])
        #expect(try listed(since: 4) == [ahead], "its moment is 41 days ahead")
        #expect(try listed(since: 50 * 24).isEmpty)
    }

    @Test("an undo without calls in between leaves a person as it was, byte for byte", arguments: StoreKind.allCases)
    func exact(_ kind: StoreKind) throws {
        let (client, ada) = try story(kind)
        try ingest(client, ada, "pro")
        let paths = ["", "/timeline", "/graph", "/identities"].map { "/onym/v1/people/\(ada)\($0)" }
        let before = try paths.map { try client.get($0).wire.body }
        let split = try client.post("/onym/v1/people/\(ada)/split", SplitCallTests.tablet)
        let id = try #require(split.text("id"), "\(split)")
        #expect(try client.get(paths[0]).wire.body != before[0])
        let dry = try client.post("/onym/v1/splits/\(id)/undo?dry_run=true")
        #expect(dry.status == 200 && dry["undone"] == nil && dry.list("then").count == 2, "\(dry)")
        #expect(try client.post("/onym/v1/splits/\(id)/undo").status == 200)
        #expect(try paths.map { try client.get($0).wire.body } == before)
    }

    /// Uploads an event for a person from a device, as a client does that knows its person.
    private func upload(
        _ client: NativeClient, _ mpid: String, _ name: String, from device: String, _ attributes: String = "{}"
    ) throws {
        let key = client.server.credentials.idsyncWebKey
        let answer = try client.server.client.call(
            "POST", "/v3/JS/\(key)/events",
            json: """
                {"mpid":"\(mpid)","device_info":{"ios_idfv":"\(device)"},"ua":\(attributes),
                 "events":[{"n":"\(name)","dt":4}]}
                """)
        #expect(answer.status == 202, "\(answer)")
    }

    private func names(_ client: NativeClient, _ person: String, _ query: String = "") throws -> [String] {
        let answer = try client.get("/onym/v1/people/\(person)/timeline?kinds=event\(query)")
        #expect(answer.status == 200, "\(answer)")
        return answer.list("rows").compactMap { row in
            let body = row["body"] as? [String: Any]
            return (body?["n"] ?? (body?["data"] as? [String: Any])?["event_name"]) as? String
        }
    }

    @Test("Bob's events and properties leave Ada with his tablet", arguments: StoreKind.allCases)
    func rows(_ kind: StoreKind) throws {
        let (client, ada) = try story(kind)
        try upload(client, ada, "b1", from: "TABLET", #"{"plan":"free","name":"Bob"}"#)
        try upload(client, ada, "a1", from: "PHONE", #"{"plan":"pro"}"#)
        let alone = try client.post("/onym/v1/people/\(ada)/split?dry_run=true", SplitCallTests.tablet)
        let start = try #require(alone.number("last_seq"))
        #expect(alone.list("depended").map { $0["kind"] as? String } == ["login"], "it came to Ada by the tablet")
        #expect(alone.number("depended_count") == 1)
        let lanes = try client.get("/onym/v1/people/customerid:ada/lanes")
        #expect(lanes.status == 200 && lanes.number("unknown") == 0, "\(lanes)")
        #expect(Set(lanes.list("lanes").compactMap { $0["value"] as? String }) == ["TABLET", "PHONE"])

        let body = """
            {"identities":[{"type":"ios_idfv","value":"TABLET"}],"lanes":[{"type":"ios_idfv","value":"TABLET"}],
             "reason":"Bob's tablet"}
            """
        let dry = try client.post("/onym/v1/people/\(ada)/split?dry_run=true", body)
        #expect((dry["moved"] as? [String: Any])?["rows"] as? [String: Int] == ["event": 1, "context": 1], "\(dry)")
        #expect((dry["stays"] as? [String: Any])?["rows"] as? [String: Int] == ["event": 1, "context": 1])
        #expect(dry.number("unknown_lane") == 0)
        #expect(dry.number("depended_count") == 3, "the call that linked the tablet, the login, and the upload")
        #expect(dry.list("depended").map { $0["kind"] as? String }.contains("ingest"))
        func plan(_ side: [String: Any]) -> String? {
            let properties = (side["properties"] as? [String: [String: [String: Any]]])?["idsync"]
            return properties?["plan"]?["value"] as? String
        }
        #expect(dry.list("now").map(plan) == ["pro"] && dry.list("then").map(plan) == ["pro", "free"], "\(dry)")
        let split = try client.post("/onym/v1/people/\(ada)/split", body)
        let (id, bob) = (try #require(split.text("id"), "\(split)"), try #require(split.text("into")))
        #expect(try names(client, ada) == ["a1"] && names(client, bob) == ["b1"])
        let profile = try client.get("/onym/v1/people/\(bob)")
        #expect((profile["counts"] as? [String: Int]) == ["event": 1, "context": 1], "\(profile)")
        #expect(split.list("then").map(plan) == ["pro", "free"])
        try upload(client, ada, "b2", from: "TABLET")
        #expect(try names(client, bob) == ["b2", "b1"], "the tablet still names Ada")
        #expect(try names(client, ada, "&at=seq:\(start)") == ["a1", "b1"])
        let listed = try client.get("/onym/v1/splits/\(id)")
        #expect(
            (listed["selectors"] as? [String: Any])?["lanes"] as? [[String: String]] == [
                ["type": "ios_idfv", "value": "TABLET"]
            ], "\(listed)")
        let export = try client.post("/onym/v1/people/\(bob)/export")
        #expect(export.wire.body.contains(#""b1""#) && !export.wire.body.contains(#""a1""#))

        let undo = try client.post("/onym/v1/splits/\(id)/undo")
        #expect(undo.status == 200, "\(undo)")
        #expect(undo.list("depended").map { $0["kind"] as? String } == ["ingest"], "it came to Bob by the split")
        #expect(try names(client, ada) == ["b2", "a1", "b1"])
        #expect(try client.get("/onym/v1/people/\(ada)/lanes").list("lanes").count == 2)
    }

    /// The plan of a side of a split.
    private static func plan(_ side: [String: Any]) -> String? {
        let properties = (side["properties"] as? [String: [String: [String: Any]]])?["idsync"]
        return properties?["plan"]?["value"] as? String
    }

    @Test("each side has its own properties, also after other splits and undos", arguments: StoreKind.allCases)
    func propertiesAgain(_ kind: StoreKind) throws {
        let (client, ada) = try story(kind)
        try upload(client, ada, "b1", from: "TABLET", #"{"plan":"free"}"#)
        try upload(client, ada, "a1", from: "PHONE", #"{"plan":"pro"}"#)
        try upload(client, ada, "b2", from: "TABLET", #"{"plan":"trial"}"#)
        let (tablet, phone) = (
            #"{"lanes":[{"type":"ios_idfv","value":"TABLET"}]}"#, #"{"lanes":[{"type":"ios_idfv","value":"PHONE"}]}"#
        )
        func split(_ body: String, _ query: String = "", of person: String? = nil) throws -> NativeClient.Answer {
            let answer = try client.post("/onym/v1/people/\(person ?? ada)/split\(query)", body)
            #expect(answer.status == 200, "\(answer)")
            return answer
        }
        let depended = try split(tablet, "?dry_run=true").number("depended_count")
        for _ in 0..<2 {
            let made = try split(tablet)
            #expect(made.list("then").map(SplitCallTests.plan) == ["pro", "trial"], "\(made)")
            let id = try #require(made.text("id"))
            #expect(try client.post("/onym/v1/splits/\(id)/undo").status == 200)
            #expect(try split(phone, "?dry_run=true").list("then").map(SplitCallTests.plan) == ["trial", "pro"])
            let again = try split(tablet, "?dry_run=true").number("depended_count")
            #expect(again == depended, "a split is no call that its own lanes would change")
        }

        // What the first split gave away is no property of the second.
        let bob = try #require(try split(tablet).text("into"))
        let rest = try split(phone, "?dry_run=true")
        #expect(rest.list("then").map(SplitCallTests.plan) == [nil, "pro"], "\(rest)")
        // The other person has the properties by the calls that wrote them.
        let back = try split(tablet, "?dry_run=true", of: bob)
        #expect(back.list("then").map(SplitCallTests.plan) == [nil, "trial"], "\(back)")
    }

    @Test("pages of each person's rows are all of them, in order", arguments: StoreKind.allCases)
    func pages(_ kind: StoreKind) throws {
        let (client, ada) = try story(kind)
        for number in 0..<12 { try upload(client, ada, "e\(number)", from: number % 3 == 0 ? "TABLET" : "PHONE") }
        let device = #"[{"type":"ios_idfv","value":"TABLET"}]"#
        let body = #"{"lanes":\#(device)}"#
        let bob = try #require(try client.post("/onym/v1/people/\(ada)/split", body).text("into"))
        for number in 12..<18 { try upload(client, ada, "e\(number)", from: number % 3 == 0 ? "TABLET" : "PHONE") }
        for (person, isBob) in [(ada, false), (bob, true)] {
            let whole = try names(client, person)
            #expect(whole == (0..<18).reversed().filter { ($0 % 3 == 0) == isBob }.map { "e\($0)" })
            for limit in [1, 2, 5] {
                var (paged, cursor): ([String], String?) = ([], nil)
                repeat {
                    let query = cursor.map { "&cursor=\($0)" } ?? ""
                    paged += try names(client, person, "&limit=\(limit)\(query)")
                    let path = "/onym/v1/people/\(person)/timeline?kinds=event&limit=\(limit)\(query)"
                    cursor = try client.get(path).text("next_cursor")
                } while cursor != nil
                #expect(paged == whole, "\(limit) at once")
            }
        }
    }

    @Test("a call that was taken back wrote nothing", arguments: StoreKind.allCases)
    func propertiesTakenBack(_ kind: StoreKind) throws {
        let (client, ada) = try story(kind)
        try upload(client, ada, "b1", from: "TABLET", #"{"plan":"free"}"#)
        try upload(client, ada, "a1", from: "PHONE", #"{"plan":"pro"}"#)
        try upload(client, ada, "b2", from: "TABLET", #"{"plan":"trial"}"#)
        let last = try #require(try client.get("/onym/v1/stats").number("last_seq"))
        let body = #"{"lanes":[{"type":"ios_idfv","value":"TABLET"}]}"#
        func plans() throws -> [String?] {
            try client.post("/onym/v1/people/\(ada)/split?dry_run=true", body).list("then").map(SplitCallTests.plan)
        }
        #expect(try plans() == ["pro", "trial"])
        #expect(try client.post("/onym/v1/calls/\(last)/undo").status == 200)
        #expect(try plans() == ["pro", "free"])
        let undo = try #require(try client.get("/onym/v1/stats").number("last_seq"))
        #expect(try client.post("/onym/v1/calls/\(undo)/undo").status == 200)
        #expect(try plans() == ["pro", "trial"])
    }

    @Test("a login that should have made somebody new", arguments: StoreKind.allCases)
    func atCall(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        let bob = try client.identify(#"{"ios_idfv":"TABLET"}"#)
        try upload(client, bob, "b1", from: "TABLET")
        #expect(try client.identify(#"{"customerid":"ada","ios_idfv":"TABLET"}"#, "login") == bob)
        try upload(client, bob, "a1", from: "PHONE", #"{"plan":"pro"}"#)
        let calls = try client.get("/onym/v1/people/\(bob)/journal").list("calls")
        let login = try #require(calls.first { $0["kind"] as? String == "login" }?["seq"] as? Int)
        let split = try client.post(
            "/onym/v1/people/\(bob)/split", #"{"at_call":\#(login),"reason":"a shared tablet"}"#)
        let ada = try #require(split.text("into"), "\(split)")
        #expect(split.list("then").map(values) == [["TABLET"], ["ada", "TABLET"]], "the login named the tablet")
        let moved = split["moved"] as? [String: Any]
        #expect(moved?["identities"] as? Int == 1, "ada alone has gone")
        #expect(try client.identify(#"{"customerid":"ada"}"#) == ada)
        #expect(try names(client, bob) == ["b1"] && names(client, ada) == ["a1"])
        try upload(client, bob, "a2", from: "TABLET")
        #expect(try names(client, ada) == ["a2", "a1"], "the tablet still names the person that the login answered")
        let back = try client.post("/onym/v1/splits/\(split.text("id") ?? "")/undo?dry_run=true")
        #expect(back.list("then").map(values).first == ["TABLET", "ada"], "\(back)")
        for wrong in [
            #"{"at_call":\#(login),"since":"seq:1"}"#, #"{"at_call":"x"}"#, #"{"since":"yesterday"}"#, #"{"key":"x"}"#,
        ] {
            #expect(try client.post("/onym/v1/people/\(bob)/split", wrong).status == 400, "\(wrong)")
        }
        #expect(try client.post("/onym/v1/people/\(bob)/split", #"{"at_call":9999}"#).status == 404)
        let nothing = try client.post("/onym/v1/people/\(bob)/split", #"{"since":"2999-01-01T00:00:00Z"}"#)
        #expect(nothing.code == "nothing_to_split", "\(nothing)")
    }

    @Test(
        "an erasure of one side of a split of rows leaves the rows of the other", arguments: StoreKind.allCases,
        [true, false])
    func eraseRows(_ kind: StoreKind, _ erasesFirst: Bool) throws {
        let (client, ada) = try story(kind)
        for number in 0..<600 where number % 200 < 4 {
            try upload(client, ada, "b\(number)", from: "TABLET")
        }
        try upload(client, ada, "a1", from: "PHONE")
        let body =
            #"{"lanes":[{"type":"ios_idfv","value":"TABLET"}],"identities":[{"type":"ios_idfv","value":"TABLET"}]}"#
        let bob = try #require(try client.post("/onym/v1/people/\(ada)/split", body).text("into"))
        let (gone, kept) = erasesFirst ? (ada, bob) : (bob, ada)
        let before = try names(client, kept)
        #expect(before.count == (erasesFirst ? 12 : 1))
        let dry = try client.call("DELETE", "/onym/v1/people/\(gone)?dry_run=true")
        let erased = try client.call("DELETE", "/onym/v1/people/\(gone)")
        #expect(erased.status == 200, "\(erased)")
        let taken = erasesFirst ? 1 : 12
        #expect(erased["rows"] as? [String: Int] == ["event": taken, "context": taken], "\(erased)")
        #expect(dry["rows"] as? [String: Int] == erased["rows"] as? [String: Int])
        #expect(try Set(names(client, kept)) == Set(before) && names(client, kept).count == before.count)
        #expect(try client.get("/onym/v1/people/\(gone)").status == 404)
        #expect(try client.call("DELETE", "/onym/v1/people/\(kept)").status == 200)
    }

    @Test("a dry run lists the calls that depended, page by page", arguments: StoreKind.allCases)
    func dependedInPages(_ kind: StoreKind) throws {
        let (client, ada) = try story(kind)
        for number in 0..<210 { try upload(client, ada, "e\(number)", from: number < 5 ? "PHONE" : "TABLET") }
        let path = "/onym/v1/people/\(ada)/split?dry_run=true"
        let tablet = #"[{"type":"ios_idfv","value":"TABLET"}]"#
        let body = #"{"identities":\#(tablet),"lanes":\#(tablet)}"#
        let first = try client.post(path, body)
        let cursor = try #require(first.text("depended_next"))
        let second = try client.post("\(path)&cursor=\(cursor)", body)
        #expect(second["depended_next"] is NSNull && second.number("depended_count") == first.number("depended_count"))
        let calls = (first.list("depended") + second.list("depended")).compactMap { $0["seq"] as? Int }
        // The identify call that linked the tablet, the login, and the uploads from the tablet.
        #expect(first.list("depended").count == 200 && calls.count == 207 && calls == Set(calls).sorted())
        #expect(first.number("depended_count") == 207)
        #expect(try client.post("\(path)&cursor=x", body).status == 400)
        #expect(try client.post("/onym/v1/people/\(ada)/split?cursor=\(cursor)", body).status == 400)
    }

    @Test("refuses what is no split", arguments: StoreKind.allCases)
    func refuses(_ kind: StoreKind) throws {
        let (client, ada) = try story(kind)
        func split(_ body: String, _ query: String = "") throws -> NativeClient.Answer {
            try client.post("/onym/v1/people/\(ada)/split\(query)", body)
        }
        for body in [
            "{}", "[]", #"{"identities":[]}"#, #"{"identities":[{}]}"#, #"{"identities":[{"type":"x","value":"y"}]}"#,
            #"{"identities":{"type":"ios_idfv","value":"TABLET"}}"#, #"{"lanes":[]}"#,
            #"{"identities":[{"type":"ios_idfv","value":"TABLET"}],"into":"x"}"#,
        ] {
            #expect(try split(body).status == 400, "\(body)")
        }
        #expect(try split(SplitCallTests.tablet, "?if_seq=x").status == 400)
        #expect(try split(SplitCallTests.tablet, "?dry_run=x").status == 400)
        for query in ["", "?dry_run=true"] {
            let other = #"{"identities":[{"type":"ios_idfv","value":"PHONE"}]}"#
            #expect(try split(other, query).status == 404)
            let install = #"{"identities":[{"type":"linking_install_id","value":"i"}]}"#
            #expect(try split(install, query).code == "immutable_identity")
            let same = #"{"identities":[{"type":"ios_idfv","value":"TABLET"}],"into":"\#(ada)"}"#
            #expect(try split(same, query).code == "one_already")
            let nobody = #"{"identities":[{"type":"ios_idfv","value":"TABLET"}],"into":"77"}"#
            #expect(try split(nobody, query).status == 404)
        }
        let seen = try #require(try split(SplitCallTests.tablet, "?dry_run=true").number("last_seq"))
        try client.identify(#"{"customerid":"ada","email":"a@x"}"#)
        #expect(try split(SplitCallTests.tablet, "?if_seq=\(seen)").code == "changed_meanwhile")
        for path in ["/splits/s_1", "/splits/1", "/splits/s_x"] {
            #expect(try client.get("/onym/v1\(path)").status == 404)
            #expect(try client.post("/onym/v1\(path)/undo").status == 404)
        }
    }

    @Test("an undo is refused where somebody took the device on", arguments: StoreKind.allCases)
    func builtUpon(_ kind: StoreKind) throws {
        let (client, ada) = try story(kind)
        let split = try client.post("/onym/v1/people/\(ada)/split", SplitCallTests.tablet)
        let (id, bob) = (try #require(split.text("id")), try #require(split.text("into")))
        #expect(try client.call("DELETE", "/onym/v1/people/\(bob)/identities/ios_idfv/TABLET").status == 200)
        for query in ["?dry_run=true", ""] {
            let answer = try client.post("/onym/v1/splits/\(id)/undo\(query)")
            #expect(answer.status == 409 && answer.code == "built_upon", "\(answer)")
        }
    }

    @Test("what is sent again under its key has the first answer", arguments: StoreKind.allCases)
    func repeated(_ kind: StoreKind) throws {
        let (client, ada) = try story(kind)
        func post(_ path: String, _ body: String, key: String) throws -> NativeClient.Answer {
            let fields = [("Authorization", "Bearer \(client.server.credentials.adminKey)"), ("Idempotency-Key", key)]
            return NativeClient.Answer(try client.server.client.call("POST", path, fields: fields, json: body))
        }
        let path = "/onym/v1/people/\(ada)/split"
        let first = try post(path, SplitCallTests.tablet, key: "s")
        let id = try #require(first.text("id"), "\(first)")
        let again = try post(path, SplitCallTests.tablet, key: "s")
        #expect(again.status == 200 && again.text("id") == id && again.text("into") == first.text("into"), "\(again)")
        #expect(again.list("then").map(values) == first.list("then").map(values))
        #expect(again.list("now").map(values).first.map(Set.init) == first.list("now").map(values).first.map(Set.init))
        #expect(try post(path, SplitCallTests.tablet, key: "other").status == 404)
        let undone = try post("/onym/v1/splits/\(id)/undo", "{}", key: "u")
        let undoneAgain = try post("/onym/v1/splits/\(id)/undo", "{}", key: "u")
        #expect(undone.status == 200 && undoneAgain.status == 200 && undoneAgain["undone"] as? Bool == true)
        #expect(try post("/onym/v1/splits/\(id)/undo", "{}", key: "third").status == 404)
        #expect(try client.get("/onym/v1/splits").list("splits").count == 1, "one split was made")
    }

    @Test("lists show splits with their callers, the last first", arguments: StoreKind.allCases)
    func lists(_ kind: StoreKind) throws {
        let (client, ada) = try story(kind)
        let start = try client.get("/onym/v1/splits")
        #expect(start.status == 200 && start.list("splits").isEmpty && start["next_cursor"] is NSNull)
        var ids: [String] = []
        for number in 1...3 {
            let person = try client.identify(#"{"customerid":"c\#(number)","email":"e\#(number)"}"#)
            let body = #"{"identities":[{"type":"email","value":"e\#(number)"}],"reason":"r\#(number)"}"#
            ids.append(try #require(try client.post("/onym/v1/people/\(person)/split", body).text("id")))
        }
        ids.append(
            try #require(try client.post("/onym/v1/people/\(ada)/split", SplitCallTests.tablet).text("id")))
        #expect(try client.post("/onym/v1/splits/\(ids[1])/undo").status == 200)
        func listed(_ query: String) throws -> [String] {
            let answer = try client.get("/onym/v1\(query)")
            #expect(answer.status == 200, "\(answer)")
            return answer.list("splits").compactMap { $0["id"] as? String }
        }
        #expect(try listed("/splits") == ids.reversed())
        #expect(try listed("/splits?state=undone") == [ids[1]])
        #expect(try listed("/splits?state=in_force") == [ids[3], ids[2], ids[0]])
        #expect(try listed("/splits?person=customerid:ada") == [ids[3]])
        #expect(try listed("/people/ios_idfv:TABLET/splits") == [ids[3]])
        #expect(try listed("/people/email:e2/splits") == [ids[1]])
        #expect(try listed("/splits?since=2001-01-01T00:00:00Z") == ids.reversed())
        #expect(try listed("/splits?since=2999-01-01T00:00:00Z").isEmpty)
        let page = try client.get("/onym/v1/splits?limit=3")
        let next = try #require(page.text("next_cursor"))
        #expect(try listed("/splits?limit=3&cursor=\(next)") == [ids[0]])
        for wrong in ["?state=x", "?since=x", "?limit=0", "?person=77"] {
            #expect(try client.get("/onym/v1/splits\(wrong)").status >= 400, "\(wrong)")
        }
        let one = try client.get("/onym/v1/splits/\(ids[1])")
        #expect(one.text("reason") == "r2" && one["undone_at"] is String && one["undone_by"] is String, "\(one)")
        let selectors = one["selectors"] as? [String: Any]
        #expect(selectors?["identities"] as? [[String: String]] == [["type": "email", "value": "e2"]])
    }

    @Test("an erasure of one side leaves the other", arguments: StoreKind.allCases)
    func erase(_ kind: StoreKind) throws {
        let (client, ada) = try story(kind)
        let split = try client.post("/onym/v1/people/\(ada)/split", SplitCallTests.tablet)
        let (id, bob) = (try #require(split.text("id")), try #require(split.text("into")))
        try ingest(client, bob, "free")
        #expect(try client.call("DELETE", "/onym/v1/people/\(ada)").status == 200)
        let left = try client.get("/onym/v1/people/ios_idfv:TABLET")
        #expect(left.text("id") == bob && (left["counts"] as? [String: Int])?["event"] == 1, "\(left)")
        #expect(try client.post("/onym/v1/splits/\(id)/undo").status == 404)
        #expect(try client.get("/onym/v1/splits/\(id)").status == 200)
        #expect(try client.call("DELETE", "/onym/v1/people/\(bob)").status == 200)
        let shown = try client.get("/onym/v1/splits/\(id)")
        #expect(!shown.wire.body.contains("TABLET"), "\(shown)")
    }
}
