import Foundation
import TestKit
import Testing

@Suite("Finding what a text names")
struct SearchTests {
    private func find(_ client: NativeClient, _ text: String) throws -> [[String: Any]] {
        let body = try #require(String(data: JSONSerialization.data(withJSONObject: ["q": text]), encoding: .utf8))
        let answer = try client.post("/onym/v1/search", body)
        #expect(answer.status == 200, "\(text): \(answer)")
        return answer.list("results")
    }

    @Test("A person is found by each id and each whole value", arguments: StoreKind.allCases)
    func people(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        let person = try client.identify(#"{"customerid":"ada","email":"ada@example.com","ios_idfv":"PHONE"}"#)
        let anonymous = "owl_anon_11111111-1111-4111-8111-111111111111"
        let claimed = try client.server.client.call(
            "POST", "/v1/ingest", fields: [("Authorization", "Bearer \(client.server.credentials.claimClientKey)")],
            json: #"{"bundle_id":"com.example.demo","events":[{"session_id":"99999999-9999-4999-8999-999999999999","#
                + #""user_id":"\#(anonymous)","level":"info","message":"m"}]}"#)
        #expect(claimed.status == 200, "\(claimed)")
        for text in [
            person, "ada", " ada ", "customerid:ada", "ADA@example.com", "ada@example.com", "PHONE",
            "email:ADA@EXAMPLE.COM",
        ] {
            let found = try find(client, text)
            #expect(found.count == 1, "\(text): \(found)")
            let first = try #require(found.first)
            #expect(first["kind"] as? String == "person" && first["person"] as? String == person, "\(text)")
            #expect(first["label"] as? String == "ada@example.com" && first["identities"] as? Int == 3, "\(first)")
        }
        #expect(try find(client, anonymous).first?["kind"] as? String == "person")
        for text in ["nobody", "m_1", "s_1", "phone", "0", "-1", "customerid:", "é", "9223372036854775807"] {
            #expect(try find(client, text).isEmpty, "\(text)")
        }
        for body in ["{}", #"{"q":""}"#, #"{"q":"  "}"#, #"{"q":1}"#, #"{"q":"a","x":1}"#] {
            #expect(try client.post("/onym/v1/search", body).status == 400, "\(body)")
        }
        let long = String(repeating: "a", count: 1025)
        #expect(try client.get("/onym/v1/search?q=\(long)").status == 400)
        #expect(try client.get("/onym/v1/search?q=ada").list("results").count == 1)
    }

    @Test("Merges, splits, purchases and keys are found by their names", arguments: StoreKind.allCases)
    func things(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        let (one, other) = (try client.identify(#"{"customerid":"a"}"#), try client.identify(#"{"customerid":"b"}"#))
        let merge = try client.merge(one, into: other)
        let found = try #require(try find(client, merge).first)
        #expect(found["kind"] as? String == "merge" && found["from"] as? String == one && found["undone_at"] is NSNull)
        #expect(try client.post("/onym/v1/keys", #"{"kind":"admin","name":"Night job"}"#).status == 201)
        #expect(try find(client, "Night job").first?["kind"] as? String == "key")
        #expect(try client.post("/onym/v1/merges/\(merge)/undo").status == 200)
        #expect(try find(client, merge).first?["undone_at"] is String)
        let made = try client.post(
            "/onym/v1/people/\(one)/split", #"{"identities":[{"type":"customerid","value":"a"}]}"#)
        let split = try #require(made.text("id"), "\(made)")
        let shown = try #require(try find(client, split).first)
        #expect(shown["kind"] as? String == "split" && shown["from"] as? String == one && shown["undone_at"] is NSNull)
        #expect(try client.post("/onym/v1/splits/\(split)/undo").status == 200)
        #expect(try find(client, split).first?["undone_at"] is String)
    }

    /// A slice of a scan: the roots and values that were found, the number of identities that were read, and the next place.
    private func scan(_ client: NativeClient, _ more: String) throws -> (found: [String], read: Int, next: String?) {
        let answer = try client.post("/onym/v1/search/scan", "{\(more)}")
        #expect(answer.status == 200, "\(more): \(answer)")
        let found = answer.list("results").map { result in
            let match = result["match"] as? [String: Any] ?? [:]
            return "\(result["root"] ?? "") \(match["type"] ?? "")=\(match["value"] ?? "")"
        }
        return (found, try #require(answer.number("read")), answer.text("next_cursor"))
    }

    @Test("A part of a value finds people, each once, and no ended identity", arguments: StoreKind.allCases)
    func parts(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        let ada = try client.identify(#"{"customerid":"ada","email":"Ada.Lovelace@example.com"}"#)
        let bob = try client.identify(#"{"customerid":"bob","email":"bob@example.com"}"#)
        let erased = try client.identify(#"{"email":"gone@example.com"}"#)
        #expect(try client.call("DELETE", "/onym/v1/people/\(erased)").status == 200)
        #expect(try client.call("DELETE", "/onym/v1/people/\(bob)/identities/customerid/bob").status == 200)

        let lovelace = try scan(client, #""text":"LOVELACE""#)
        #expect(lovelace.found == ["\(ada) email=Ada.Lovelace@example.com"] && lovelace.next == nil, "\(lovelace)")
        #expect(lovelace.read == 3, "the identities in force: \(lovelace)")
        let example = try scan(client, #""text":"@example.""#)
        #expect(example.found == ["\(bob) email=bob@example.com", "\(ada) email=Ada.Lovelace@example.com"])
        #expect(try scan(client, #""text":"gone""#).found.isEmpty)
        #expect(try scan(client, #""text":"bob","types":["customerid"]"#).found.isEmpty)
        #expect(
            try scan(client, #""text":"ad","types":["customerid"],"cursor":null"#).found == ["\(ada) customerid=ada"])
        let rest = try scan(client, #""text":"ad","cursor":"1""#)
        #expect(rest.found.isEmpty && rest.read == 0 && rest.next == nil)
        for wrong in [
            "", #""text":"a""#, #""text":"\#(String(repeating: "a", count: 257))""#, #""text":"ada","types":["x"]"#,
            #""text":"ada","cursor":"x""#, #""text":"ada","cursor":"0""#, #""text":"ada","x":1"#, #""text":1"#,
        ] {
            #expect(try client.post("/onym/v1/search/scan", "{\(wrong)}").status == 400, "\(wrong)")
        }
        // One person with several matching values is one result.
        _ = try client.merge(bob, into: ada)
        #expect(try scan(client, #""text":"@example.""#).found == ["\(ada) email=bob@example.com"])
    }

    @Test(
        "A scan ends a slice with its two hundredth person, and the next slice has the rest",
        arguments: [StoreKind.memory, .sqlite])
    func slices(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        let people = try (0..<203).map { try client.identify(#"{"customerid":"user-\#($0)"}"#) }
        let first = try scan(client, #""text":"user-""#)
        #expect(first.found.count == 200 && first.read == 200)
        let cursor = try #require(first.next)
        let rest = try scan(client, #""text":"user-","cursor":"\#(cursor)""#)
        #expect(rest.found.count == 3 && rest.next == nil, "\(rest)")
        #expect(Set((first.found + rest.found).map { String($0.prefix { $0 != " " }) }) == Set(people))
    }

    @Test("The people that calls changed last come first, each once", arguments: StoreKind.allCases)
    func recent(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        let ada = try client.identify(#"{"customerid":"ada"}"#)
        let bob = try client.identify(#"{"customerid":"bob"}"#)
        let carol = try client.identify(#"{"customerid":"carol"}"#)
        let gone = try client.identify(#"{"customerid":"gone"}"#)
        #expect(try client.call("DELETE", "/onym/v1/people/\(gone)").status == 200)
        func list(_ query: String = "") throws -> JSONAnswer {
            let answer = try client.get("/onym/v1/people?order=recent\(query)")
            #expect(answer.status == 200, "\(answer)")
            return answer
        }
        func ids(_ answer: JSONAnswer) -> [String?] { answer.list("people").map { $0["id"] as? String } }
        let all = try list()
        #expect(ids(all) == [carol, bob, ada] && all["next_cursor"] is NSNull, "\(all)")
        #expect(all.list("people").first?["changed_by"] as? String == "identify", "\(all)")
        #expect(all.list("people").first?["label"] as? String == "carol")
        // A call that only finds a person changes nothing.
        _ = try client.identify(#"{"customerid":"bob"}"#)
        #expect(try ids(list()) == [carol, bob, ada])
        _ = try client.identify(#"{"customerid":"ada","email":"ada@example.com"}"#)
        #expect(try ids(list()) == [ada, carol, bob])
        let page = try list("&limit=2")
        let cursor = try #require(page.text("next_cursor"))
        #expect(ids(page) == [ada, carol])
        #expect(try ids(list("&limit=2&cursor=\(cursor)")).prefix(1) == [bob])
        _ = try client.merge(carol, into: bob)
        let merged = try list()
        #expect(ids(merged) == [bob, ada] && merged.list("people").first?["members"] as? Int == 2, "\(merged)")
        for query in [
            "order=x", "order=recent&type=email&value=a", "order=recent&limit=0", "order=recent&at=seq:1", "limit=5",
            "type=email&value=a&limit=5", "type=email&value=a&cursor=5",
        ] {
            #expect(try client.get("/onym/v1/people?\(query)").status == 400, "\(query)")
        }
    }

    @Test("The merges of a person have their callers, reasons and ends", arguments: StoreKind.allCases)
    func merges(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        let people = try (0..<3).map { try client.identify(#"{"customerid":"c\#($0)"}"#) }
        let made = try client.post(
            "/onym/v1/merges", #"{"from":"\#(people[0])","into":"\#(people[1])","reason":"one mail"}"#)
        let first = try #require(made.text("id"))
        let second = try client.merge(people[2], into: people[1])
        #expect(try client.post("/onym/v1/merges/\(first)/undo").status == 200)

        let all = try client.get("/onym/v1/merges?person=\(people[1])").list("merges")
        #expect(all.map { $0["id"] as? String } == [second, first])
        #expect(all[1]["reason"] as? String == "one mail" && all[1]["undone_at"] is String && all[1]["key"] is String)
        #expect(all[0]["undone_at"] is NSNull && all[0]["rule"] as? String == "administrator")
        func ids(_ query: String) throws -> [String?] {
            try client.get("/onym/v1/merges?\(query)").list("merges").map { $0["id"] as? String }
        }
        #expect(try ids("person=\(people[1])&state=undone") == [first])
        #expect(try ids("person=\(people[1])&state=in_force") == [second])
        #expect(try ids("person=customerid:c0") == [first])
        let page = try client.get("/onym/v1/merges?person=\(people[1])&limit=1")
        #expect(page.text("next_cursor") != nil)
        let one = try client.get("/onym/v1/merges/\(first)")
        #expect(
            one.text("reason") == "one mail" && one["undone_at"] is String && one.text("undone_by") != nil, "\(one)")
        #expect(try client.get("/onym/v1/merges/m_1").status == 404)
        let unknown = try client.get("/onym/v1/merges?rule=nope")
        #expect(unknown.status == 400 && unknown.wire.body.contains("administrator, same_user_id"), "\(unknown)")
        #expect(try client.get("/onym/v1/merges?rule=claim").list("merges").isEmpty)
        #expect(try client.get("/onym/v1/merges/1").status == 404)
        #expect(try ids("") == [second, first] && ids("rule=administrator") == [second, first])
        #expect(try ids("rule=claim").isEmpty && ids("state=undone") == [first])
        #expect(try ids("since=2999-01-01T00:00:00Z").isEmpty)
        let newest = try client.get("/onym/v1/merges?limit=1")
        #expect(newest.list("merges").map { $0["id"] as? String } == [second])
        #expect(try ids("limit=1&cursor=\(try #require(newest.text("next_cursor")))") == [first])
        #expect(try client.get("/onym/v1/merges?since=x").status == 400)
        #expect(try client.get("/onym/v1/merges?person=\(people[1])&state=x").status == 400)
        #expect(try client.get("/onym/v1/merges?person=1").status == 404)
    }

    @Test("A person's members come in pages", arguments: StoreKind.allCases)
    func members(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        let ada = try client.identify(#"{"customerid":"ada"}"#)
        var people = [ada]
        for number in 0..<4 {
            let other = try client.identify(#"{"ios_idfv":"PHONE-\#(number)"}"#)
            _ = try client.merge(other, into: ada)
            people.append(other)
        }
        for limit in [1, 2, 5] {
            var (members, cursor): ([String], String?) = ([], nil)
            repeat {
                let page = try client.get(
                    "/onym/v1/people/\(ada)?limit=\(limit)" + (cursor.map { "&cursor=\($0)" } ?? ""))
                #expect(page["members_count"] as? Int == 5, "\(page)")
                members += page["members"] as? [String] ?? []
                cursor = page.text("next_cursor")
            } while cursor != nil
            #expect(members.sorted() == people.sorted(), "\(limit) at once")
        }
        #expect(try client.get("/onym/v1/people/\(ada)?limit=0").status == 400)
    }

    @Test("Identities come in pages, with the people that share them", arguments: StoreKind.allCases)
    func identities(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        let ada = try client.identify(#"{"customerid":"ada","ios_idfv":"TABLET"}"#)
        let bob = try client.identify(#"{"customerid":"bob","ios_idfv":"TABLET"}"#)
        let third = try client.identify(#"{"customerid":"third"}"#)
        _ = try client.merge(third, into: ada)
        let whole = try client.get("/onym/v1/people/\(ada)/identities")
        #expect(whole.number("of") == 3 && whole["next_cursor"] is NSNull, "\(whole)")
        let tablet = try #require(whole.list("identities").first { $0["type"] as? String == "ios_idfv" })
        #expect(tablet["shared_with"] as? Int == 1 && tablet["holder"] as? String == ada)
        #expect(whole.list("identities").count { $0["shared_with"] as? Int == 0 } == 2)
        var (values, cursor): ([String], String?) = ([], nil)
        repeat {
            let page = try client.get(
                "/onym/v1/people/\(ada)/identities?limit=2" + (cursor.map { "&cursor=\($0)" } ?? ""))
            values += page.list("identities").compactMap { $0["value"] as? String }
            cursor = page.text("next_cursor")
        } while cursor != nil
        #expect(values.sorted() == ["TABLET", "ada", "third"])
        #expect(try client.get("/onym/v1/people/\(ada)/identities?type=customerid&q=THI").number("of") == 1)
        #expect(try client.get("/onym/v1/people/\(ada)/identities?cursor=99").list("identities").isEmpty)
        #expect(try client.get("/onym/v1/people/\(ada)/identities?type=x").status == 400)
        #expect(try client.get("/onym/v1/people/1/identities").status == 404)

        let shared = try client.get("/onym/v1/people/\(third)/shared").list("shared")
        #expect(shared.count == 1, "\(shared)")
        let first = try #require(shared.first)
        #expect(first["count"] as? Int == 2 && first["set_aside"] as? Bool == false)
        let people = first["people"] as? [[String: Any]]
        #expect(people?.map { $0["id"] as? String } == [bob] && people?.first?["label"] as? String == "bob")
        #expect(try client.get("/onym/v1/people/1/shared").status == 404)
    }

    @Test("A shared identity is set aside by the number of its people, or by its value")
    func setAside() throws {
        let client = try NativeClient(.memory)
        let people = try ["ada", "bob", "third"].map {
            try client.identify(#"{"customerid":"\#($0)","ios_idfv":"TABLET"}"#)
        }
        _ = try client.merge(people[2], into: people[0])
        func shared() throws -> [String: Any] {
            try #require(client.get("/onym/v1/people/\(people[0])/shared").list("shared").first)
        }
        func set(_ rules: String) throws {
            #expect(try client.call("PUT", "/onym/v1/strategy", rules).status == 200)
        }
        #expect(try shared()["count"] as? Int == 2 && shared()["set_aside"] as? Bool == false)
        try set(#"{"shared_device_people":3}"#)
        #expect(try shared()["count"] as? Int == 2 && shared()["set_aside"] as? Bool == true, "three people hold it")
        try set(#"{"shared_device_people":1000}"#)
        #expect(try shared()["set_aside"] as? Bool == false)
        try set(#"{"blocked_values":["TABLET"]}"#)
        #expect(try shared()["set_aside"] as? Bool == true)
    }

    @Test("An install is found by its id, with its person and its state", arguments: StoreKind.allCases)
    func install(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        let credentials = client.server.credentials
        let made = NativeClient.Answer(
            try client.server.client.call(
                "POST", "/sdk/installs",
                json: #"{"app_id":"\#(credentials.linkingAppID)","secret":"\#(credentials.linkingAppSecret)","#
                    + #""device":{"class":"phone"},"sdk":{"version":"1.0"}}"#))
        let id = try #require(made.text("install_id"), "\(made)")
        let person = try #require(try client.get("/onym/v1/installs/\(id)").text("person"))
        let found = try find(client, id)
        let install = try #require(found.first { $0["kind"] as? String == "install" }, "\(found)")
        #expect(install["id"] as? String == id && install["person"] as? String == person)
        #expect(install["state"] as? String == "unlinked", "\(install)")
        #expect(try client.call("DELETE", "/onym/v1/people/\(person)").status == 200)
        #expect(try find(client, id).allSatisfy { $0["kind"] as? String == "request" })
    }

    @Test("An audit calls nobody operator who is not on the command line")
    func callersWithoutKeys() throws {
        let client = try NativeClient(.memory)
        let credentials = client.server.credentials
        let start = try #require(client.get("/onym/v1/server").number("last_seq"))
        let install = try client.server.client.call(
            "POST", "/sdk/installs",
            json: #"{"app_id":"\#(credentials.linkingAppID)","secret":"\#(credentials.linkingAppSecret)","#
                + #""device":{"class":"phone","os":"android","model":"Pixel"},"sdk":{"version":"1.0"}}"#)
        #expect(install.status / 100 == 2, "\(install)")
        let code = try #require(
            client.post("/onym/v1/console/links", #"{"role":"support","name":"Grace"}"#).text("code"))
        let opened = try client.server.client.call(
            "POST", "/onym/v1/console/session", fields: [("Onym-Console", "1")], json: #"{"code":"\#(code)"}"#)
        #expect(opened.status == 201, "\(opened)")
        let calls = try client.get("/onym/v1/audit?after=\(start)").list("calls")
        let told = calls.map { call in
            ["kind", "role", "name"].map { call[$0] as? String ?? "-" }.joined(separator: " ")
        }
        #expect(told.contains("make_install device -") && told.contains("open_console support Grace"), "\(told)")
        #expect(!told.contains { $0.contains("operator") }, "\(told)")
    }

    @Test("An audit has the calls of people with their names, and no calls of apps", arguments: StoreKind.allCases)
    func audit(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        _ = try client.identify(#"{"customerid":"a"}"#)
        _ = try client.identify(#"{"customerid":"b"}"#)
        let start = try #require(client.get("/onym/v1/server").number("last_seq"))
        let made = try client.post(
            "/onym/v1/merges", #"{"from":"customerid:a","into":"customerid:b","reason":"one mail"}"#)
        #expect(made.status == 200, "\(made)")
        for names in [#""from":"customerid:nobody","into":"1""#, #""from":"customerid:b","into":"customerid:nobody""#] {
            #expect(try client.post("/onym/v1/merges", "{\(names)}").status == 404)
        }
        #expect(try client.post("/onym/v1/keys", #"{"kind":"admin","name":"Night job"}"#).status == 201)
        let all = try client.get("/onym/v1/audit?after=\(start)")
        #expect(all.list("calls").map { $0["kind"] as? String } == ["merge", "make_key"], "\(all)")
        #expect(all.list("calls").allSatisfy { $0["role"] as? String == "key" && $0["name"] is String })
        #expect(all.list("calls").first?["reason"] as? String == "one mail" && all["next_after"] is NSNull)
        let first = try client.get("/onym/v1/audit?after=\(start)&limit=1")
        let next = try #require(first.number("next_after"))
        #expect(
            try client.get("/onym/v1/audit?after=\(next)").list("calls").map { $0["kind"] as? String } == ["make_key"])
        #expect(try client.get("/onym/v1/audit?kind=merge").list("calls").count == 1)
        #expect(try client.get("/onym/v1/audit?name=nobody").list("calls").isEmpty)
        for query in ["after=x", "kind=merges", "kind="] {
            #expect(try client.get("/onym/v1/audit?\(query)").status == 400, "\(query)")
        }
    }

    @Test("The state of the server is told", arguments: StoreKind.allCases)
    func status(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        let before = try client.get("/onym/v1/server")
        #expect(before.text("version") != nil && before.text("started_at") != nil, "\(before)")
        #expect((before["store"] as? [String: Any])?["writable"] as? Bool == true)
        #expect((before["queue"] as? [String: Any])?["calls"] as? Int == 0)
        #expect((before["clock"] as? [String: Any])?["behind_ms"] as? Int == 0)
        #expect((before["console"] as? [String: Any])?["hash"] is String)
        try client.identify(#"{"customerid":"a"}"#)
        let last = try #require(client.get("/onym/v1/server").number("last_seq"))
        #expect(try last > #require(before.number("last_seq")))
        #expect(try client.post("/onym/v1/projects", #"{"name":"Other"}"#).status == 201)
        let one = try client.get("/onym/v1/server")
        #expect(
            one["last_seq"] == nil && one["queue"] == nil && (one["store"] as? [String: Any])?["bytes"] == nil, "\(one)"
        )
    }
}
