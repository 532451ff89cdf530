import Foundation
import TestKit
import Testing

/// Trying rules on the journal, over HTTP, on every store.
@Suite("/onym/v1/strategy/dry-run")
struct DryRunCallsTests {
    /// Begins a dry run and waits until it is over.
    private func dryRun(_ client: NativeClient, _ strategy: String) throws -> NativeClient.Answer {
        var answer = try client.post("/onym/v1/strategy/dry-run", #"{"strategy":\#(strategy)}"#)
        #expect(answer.status == 202, "\(answer)")
        let id = try #require(answer.text("id"))
        try Patience.until {
            answer = try client.get("/onym/v1/strategy/dry-run/\(id)")
            return answer.text("state") != "running"
        }
        #expect(answer.text("state") == "done", "\(answer)")
        return answer
    }

    private func part(_ answer: NativeClient.Answer, _ name: String) -> [String: Int] {
        (answer["difference"] as? [String: Any])?[name] as? [String: Int] ?? [:]
    }

    private func samples(_ answer: NativeClient.Answer) -> [String: [Any]] {
        (answer["difference"] as? [String: Any])?["samples"] as? [String: [Any]] ?? [:]
    }

    @Test("tells who would be one, who several, and where calls would go", arguments: StoreKind.allCases)
    func difference(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        // By the rules that hold both are found by the device; where everybody who is new is made, they are two.
        let one = try client.identify(#"{"ios_idfv":"D"}"#)
        #expect(try client.identify(#"{"customerid":"a","ios_idfv":"D"}"#) == one)
        #expect(try client.identify(#"{"customerid":"b","ios_idfv":"E"}"#) != one)
        let before = try client.get("/onym/v1/strategy").wire.body
        let answer = try dryRun(client, #"{"preset":"profile_link"}"#)
        #expect(part(answer, "calls") == ["made_again": 3, "elsewhere": 1, "refused": 0], "\(answer)")
        #expect(
            part(answer, "people") == ["now": 2, "then": 3, "split": 1, "joined": 0, "access_moved": 0], "\(answer)")
        let samples = samples(answer)
        let elsewhere = try #require(samples["elsewhere"]?.first as? [String: Any])
        #expect(elsewhere["person"] as? String == one && elsewhere["instead"] as? String == "new")
        let split = try #require(samples["split"]?.first as? [String: Any])
        #expect(split["person"] as? String == one && (split["made_by"] as? [String])?.count == 2)
        #expect((answer["strategy"] as? [String: Any])?["preset"] as? String == "profile_link")
        #expect(try client.get("/onym/v1/strategy").wire.body == before, "nothing that holds has changed")
        #expect(try client.identify(#"{"customerid":"a"}"#) == one)
    }

    @Test("the rules that hold change nothing", arguments: StoreKind.allCases)
    func same(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        for number in 0..<5 { try client.identify(#"{"customerid":"c\#(number % 3)","email":"e\#(number)"}"#) }
        let answer = try dryRun(client, "{}")
        #expect(part(answer, "calls")["elsewhere"] == 0 && part(answer, "people")["now"] == 3, "\(answer)")
        #expect(part(answer, "people")["then"] == 3)
    }

    @Test("equal user ids are tried, too", arguments: StoreKind.allCases)
    func sameUserIDs(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        let one = try client.identify(#"{"customerid":"u1"}"#)
        let claim = try client.server.client.call(
            "POST", "/v1/identity/claim",
            fields: [("Authorization", "Bearer \(client.server.credentials.claimClientKey)")],
            json: #"{"anonymous_id":"owl_anon_x","user_id":"u1"}"#)
        #expect(claim.status == 200, "\(claim)")
        let answer = try dryRun(client, #"{"same_user_id":true}"#)
        #expect(part(answer, "people")["joined"] == 1, "\(answer)")
        let joined = try #require(samples(answer)["joined"]?.first as? [String])
        #expect(joined.count == 2 && joined.contains(one))
    }

    @Test(
        "what clients could have proved nobody knows: how many would have had to is told", arguments: StoreKind.allCases
    )
    func proofs(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        for identities in [#"{"customerid":"a"}"#, #"{"ios_idfv":"D"}"#, #"{"customerid":"b","ios_idfv":"E"}"#] {
            try client.identify(identities)
        }
        let rules = [
            #"{"signed_identities":{"idsync":"require"}}"#, #"{"signed_identities":{"claim":"require"}}"#, "{}",
        ]
        let counts = try rules.map { part(try dryRun(client, $0), "proofs")["unknown"] }
        #expect(counts == [2, 0, 0])
    }

    @Test("tells what the rules did, with samples and the explanation under these rules", arguments: StoreKind.allCases)
    func rules(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        let device = #"{"device_application_stamp":"d1"}"#
        let anonymous = try client.identify(device)
        let ada = try client.identify(#"{"customerid":"ada"}"#)
        // Two people now; under the preset the third call merges them.
        try client.identify(#"{"customerid":"ada","device_application_stamp":"d1"}"#)
        try client.identify(#"{"customerid":"bob","device_application_stamp":"d1"}"#)
        let merged = try dryRun(client, #"{"preset":"mixpanel_simplified"}"#)
        let difference = try #require(merged["difference"] as? [String: Any])
        #expect(difference["exact"] as? Bool == true, "\(merged)")
        #expect(difference["merged_by_rule"] as? [String: Int] == ["match": 1], "\(merged)")
        #expect(difference["kept_apart"] as? [String: Int] == ["known_into_known": 1])
        #expect((difference["refused"] as? [String: Int])?.isEmpty == true)
        let sample = try #require(samples(merged)["merged_by_rule"]?.first as? [String: Any])
        #expect(sample["rule"] as? String == "match" && sample["kind"] as? String == "identify")
        let explain = try #require(sample["explain"] as? [String: Any])
        #expect(explain["ground"] as? String == "customerid")
        let people = try #require(explain["rounds"] as? [[String: Any]]).flatMap { $0["people"] as? [String] ?? [] }
        #expect(people.contains(ada), "people of the answer are people of today: \(people)")
        #expect(samples(merged)["kept_apart"]?.count == 1)

        let refused = try dryRun(client, #"{"preset":"sentiance"}"#)
        #expect((refused["difference"] as? [String: Any])?["refused"] as? [String: Int] == ["limit_reached": 1])
        #expect((samples(refused)["refused"]?.first as? [String: Any])?["rule"] as? String == "limit_reached")

        // A call of the device alone: it belongs to two known users there.
        try client.identify(device)
        let neutral = try dryRun(client, #"{"contested_device":"stable_anonymous"}"#)
        #expect((neutral["difference"] as? [String: Any])?["neutral"] as? Int == 1, "\(neutral)")
        #expect(samples(neutral)["neutral"]?.count == 1)
        let unique = #"{"unique":["customerid","@device"],"hierarchy":["customerid","device_application_stamp"]}"#
        let standIn = try dryRun(client, unique)
        #expect((standIn["difference"] as? [String: Any])?["stand_ins"] as? Int == 1, "\(standIn)")

        // The calls of an erased person leave both sides.
        #expect(try client.call("DELETE", "/onym/v1/people/\(anonymous)").status == 200)
        let less = try dryRun(client, "{}")
        let erased = try #require((less["difference"] as? [String: Any])?["erased"] as? [String: Int])
        #expect(erased["people"] == 1 && erased["calls"] ?? 0 > 0, "\(less)")
        #expect(part(less, "people")["now"] == part(less, "people")["then"])
    }

    @Test("two undone merges that are one under other rules end once", arguments: StoreKind.allCases)
    func undoneTogether(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        let rules = #""decide_on":"group","merge_on_match":"any","known_into_known":true"#
        let hierarchy = #""hierarchy":["customerid","email","facebook""#
        let changed = try client.call("PUT", "/onym/v1/strategy", "{\(rules),\(hierarchy)]}")
        #expect(changed.status == 200, "\(changed)")
        for identities in [
            #"{"email":"e@x.de","other":"x"}"#, #"{"facebook":"f","other":"x"}"#, #"{"customerid":"1"}"#,
            #"{"customerid":"1","email":"e@x.de","facebook":"f"}"#,
        ] { try client.identify(identities) }
        let undone = try client.post("/onym/v1/calls/\(client.server.store.counts.lastSequence.rawValue)/undo")
        #expect(undone.status == 200, "\(undone)")
        let answer = try dryRun(client, "{\(rules),\(hierarchy),\"other\"]}")
        #expect(answer["difference"] != nil, "\(answer)")
    }

    static let wrong: [(body: String, status: Int, says: String)] = [
        ("{}", 400, "strategy is required"),
        (#"{"strategy":{"hierarchy":["shoe_size"]}}"#, 400, "shoe_size"),
        (#"{"strategy":{"hierarchy":[]}}"#, 400, "hierarchy"),
        (#"{"rules":{}}"#, 400, "rules"),
        ("[]", 400, "body"),
    ]

    @Test("says what is wrong with rules that would not work", arguments: wrong)
    func refused(_ row: (body: String, status: Int, says: String)) throws {
        let answer = try NativeClient(.memory).post("/onym/v1/strategy/dry-run", row.body)
        #expect(answer.status == row.status && answer.wire.body.contains(row.says), "\(answer)")
    }

    @Test("knows no other's, and none that never was")
    func unknown() throws {
        let client = try NativeClient(.memory)
        for id in ["1", "x", "-1", "99999999999999999999"] {
            #expect(try client.get("/onym/v1/strategy/dry-run/\(id)").status == 404)
            #expect(try client.call("DELETE", "/onym/v1/strategy/dry-run/\(id)").status == 404)
        }
        let answer = try dryRun(client, "{}")
        let id = try #require(answer.text("id"))
        // What is done stays done.
        #expect(try client.call("DELETE", "/onym/v1/strategy/dry-run/\(id)").text("state") == "done")
    }
}
