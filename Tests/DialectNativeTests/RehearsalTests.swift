import Foundation
import TestKit
import Testing

/// Dry runs of an administrator's calls: the writer decides the call and keeps nothing (docs/decisions/0077).
@Suite("A dry run of a call")
struct RehearsalTests {
    private func set(_ client: NativeClient, _ strategy: String) throws {
        #expect(try client.call("PUT", "/onym/v1/strategy", strategy).status == 200)
    }

    private func lastCall(_ client: NativeClient) throws -> Int {
        try #require(try client.get("/onym/v1/stats").number("last_seq"))
    }

    /// Each side of an answer: its person, its identities and its numbers of rows.
    private func sides(_ name: String, of answer: JSONAnswer) -> [String] {
        answer.list(name).map { side in
            let held = side["identities"] as? [[String: String]] ?? []
            let names = held.map { "\($0["type"] ?? ""):\($0["value"] ?? "")" }.sorted()
            let counts = (side["counts"] as? [String: Int] ?? [:]).map { "\($0.key) \($0.value)" }.sorted()
            return "\(side["person"] as? String ?? "new") \(names) \(counts)"
        }
    }

    /// Tries a call, makes it, and compares what both show with the people afterwards. Answers the dry run.
    @discardableResult
    private func make(_ client: NativeClient, _ path: String, _ body: String = "{}") throws -> JSONAnswer {
        let before = try lastCall(client)
        let dry = try client.post("\(path)?dry_run=true", body)
        #expect(dry.status == 200, "\(dry)")
        #expect(try lastCall(client) == before, "nothing is kept")
        let done = try client.post(path, body)
        #expect(done.status == 200, "\(done)")
        #expect(sides("now", of: dry) == sides("now", of: done))
        let people = done.list("then").compactMap { $0["person"] as? String }
        var shown: [String] = []
        for person in people {
            let answer = try client.get("/onym/v1/people/\(person)")
            let names = answer.list("identities").map { "\($0["type"] ?? ""):\($0["value"] ?? "")" }
            let counts = (answer["counts"] as? [String: Int] ?? [:]).map { "\($0.key) \($0.value)" }.sorted()
            shown.append("\(person) \(Set(names).sorted()) \(counts)")
        }
        #expect(sides("then", of: done) == shown)
        let new = Set(people).subtracting(dry.list("then").compactMap { $0["person"] as? String })
        #expect(
            sides("then", of: dry)
                == shown.map { side in new.reduce(side) { $0.replacingOccurrences(of: $1, with: "new") } })
        return dry
    }

    @Test("shows that an undo joins people whose user ids are equal again", arguments: StoreKind.allCases)
    func joins(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        try set(client, #"{"same_user_id":true}"#)
        let ada = try client.identify(#"{"customerid":"ada","email":"ada@example.com"}"#)
        #expect(try client.call("DELETE", "/onym/v1/people/\(ada)/identities/customerid/ada").status == 200)
        let call = try lastCall(client)
        _ = try client.claimDialect("properties", #"{"user_id":"ada","properties":{"plan":"pro"}}"#)
        #expect(try client.get("/onym/v1/people/claim_user_id:ada").text("root") != ada)
        let dry = try make(client, "/onym/v1/calls/\(call)/undo")
        #expect(dry.list("then").count == 1, "\(dry)")
        #expect(sides("then", of: dry).first?.contains("claim_user_id:ada") == true, "\(dry)")
    }

    @Test("shows what other members of the group hold, and the rows that a call adds", arguments: StoreKind.allCases)
    func sides(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        let ada = try client.identify(#"{"customerid":"ada","ios_idfv":"PHONE"}"#)
        let bob = try client.identify(#"{"customerid":"bob"}"#)
        #expect(
            try client.post("/onym/v1/people/\(bob)/identities", #"{"type":"ios_idfv","value":"PHONE"}"#).status == 200)
        try make(client, "/onym/v1/merges", #"{"from":"\#(bob)","into":"\#(ada)"}"#)
        try make(
            client, "/onym/v1/people/\(ada)/split", #"{"identities":[{"type":"ios_idfv","value":"PHONE"}]}"#)

        #expect(try client.call("PUT", "/onym/v1/entitlements/pro", "{}").status == 200)
        let key = client.server.credentials.entitlementsProjectKey
        let made = try client.server.client.call(
            "POST", "/v3/users/QON_one", fields: [("Authorization", "Bearer \(key)")], json: #"{"environment":"prod"}"#)
        #expect(made.status == 201)
        let grants = "/onym/v1/people/access_user_id:QON_one/grants"
        #expect(try client.post(grants, #"{"entitlement":"pro"}"#).status == 200)
        try make(client, "/onym/v1/calls/\(lastCall(client))/undo")
    }

    @Test("names the facts of a call as the calls above it leave them", arguments: StoreKind.allCases)
    func cascade(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        try client.makeEmailUnique()
        let people = [try client.identify(#"{"customerid":"a"}"#), try client.identify(#"{"customerid":"b"}"#)]
        let link = #"[{"identity_type":"email","old_value":null,"new_value":"ada@example.com"}]"#
        var calls: [Int] = []
        for person in people + [people[0]] {
            #expect(try client.modify(person, link).status == 200)
            calls.append(try lastCall(client))
        }
        let path = "/onym/v1/calls/\(calls[0])/undo"
        let dry = try client.post("\(path)?dry_run=true&cascade=true")
        let done = try client.post("\(path)?cascade=true")
        #expect(dry.status == 200 && done.status == 200, "\(dry) \(done)")
        for name in ["facts_ended", "facts_back", "built_upon"] {
            #expect(dry[name] as? NSArray == done[name] as? NSArray, "\(name)")
        }
        #expect(sides("then", of: dry) == sides("then", of: done))
        #expect(done["built_upon"] as? [Int] == [calls[2], calls[1]], "\(done)")
    }

    @Test("is refused where the call is", arguments: StoreKind.allCases)
    func refused(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        let ada = try client.identify(#"{"customerid":"ada","ios_idfv":"PHONE","email":"ada@example.com"}"#)
        let bob = try client.identify(#"{"customerid":"bob","email":"ada@example.com"}"#)
        #expect(try client.call("DELETE", "/onym/v1/people/\(ada)/identities/email/ada@example.com").status == 200)
        let detached = try lastCall(client)
        try set(client, #"{"unique":["customerid","email"],"blocked_values":["test"]}"#)
        let split = try client.post(
            "/onym/v1/people/\(ada)/split", #"{"identities":[{"type":"ios_idfv","value":"PHONE"}]}"#)
        let (id, other) = (try #require(split.text("id")), try #require(split.text("into")))
        #expect(try client.call("DELETE", "/onym/v1/people/\(other)/identities/ios_idfv/PHONE").status == 200)

        let identities = "/onym/v1/people/\(ada)/identities"
        let calls: [(method: String, path: String, body: String?, code: String)] = [
            ("POST", "/onym/v1/merges", #"{"from":"\#(ada)","into":"\#(ada)"}"#, "one_already"),
            ("POST", "/onym/v1/merges", #"{"from":"\#(ada)","into":"77"}"#, "not_found"),
            ("POST", "/onym/v1/merges/m_77/undo", "{}", "not_found"),
            ("POST", identities, #"{"type":"customerid","value":"bob"}"#, "held_elsewhere"),
            ("POST", identities, #"{"type":"google","value":"test"}"#, "blocked_identity"),
            ("POST", identities, #"{"type":"access_user_id","value":"QON_x"}"#, "immutable_identity"),
            ("DELETE", "\(identities)/google/g", nil, "not_found"),
            ("POST", "/onym/v1/devices/ios_idfv/TABLET/release", "{}", "not_found"),
            (
                "POST", "/onym/v1/people/\(ada)/split", #"{"identities":[{"type":"google","value":"g"}]}"#,
                "not_found"
            ),
            (
                "POST", "/onym/v1/people/\(ada)/split",
                #"{"identities":[{"type":"customerid","value":"ada"}],"into":"\#(ada)"}"#, "one_already"
            ),
            ("POST", "/onym/v1/splits/\(id)/undo", "{}", "built_upon"),
            ("POST", "/onym/v1/splits/s_77/undo", "{}", "not_found"),
            ("POST", "/onym/v1/calls/\(detached)/undo", "{}", "built_upon"),
            ("POST", "/onym/v1/aliases/77/undo", "{}", "not_found"),
            ("POST", "/onym/v1/transfers/t_77/undo", "{}", "not_found"),
        ]
        for call in calls {
            let dry = try client.call(call.method, "\(call.path)?dry_run=true", call.body)
            let done = try client.call(call.method, call.path, call.body)
            #expect(dry.status == done.status && dry.code == done.code, "\(call): \(dry) \(done)")
            #expect(done.code == call.code && done.status >= 400, "\(call): \(done)")
            #expect(dry.text("detail") == done.text("detail"), "\(call)")
        }
        let shown = try client.get("/onym/v1/calls/\(detached)")
        let undo = try #require(shown["undo"] as? [String: Any])
        #expect(undo["possible"] as? Bool == false && undo["code"] as? String == "built_upon", "\(shown)")
        #expect(try client.get("/onym/v1/people/\(bob)").list("identities").count == 2)
    }

    @Test("beside many calls keeps nothing, and holds none of them up")
    func beside() throws {
        let client = try NativeClient(.sqlite)
        let (ada, bob) = (
            try client.identify(#"{"customerid":"ada"}"#), try client.identify(#"{"customerid":"bob"}"#)
        )
        let path = "/onym/v1/merges?dry_run=true"
        DispatchQueue.concurrentPerform(iterations: 8) { number in
            for round in 0..<20 {
                do {
                    if number.isMultiple(of: 2) {
                        let dry = try client.post(path, #"{"from":"\#(ada)","into":"\#(bob)"}"#)
                        #expect(dry.status == 200, "\(dry)")
                    } else {
                        try client.identify(#"{"customerid":"c\#(number)-\#(round)"}"#)
                    }
                } catch {
                    Issue.record(error)
                }
            }
        }
        #expect(try client.get("/onym/v1/people/\(ada)").text("root") == ada)
        #expect(try client.get("/onym/v1/stats").number("people") == 82)
    }
}
