import Foundation
import TestKit
import Testing

/// The login of users that come from no vendor (spec/rules.md, section 5).
@Suite("POST /onym/v1/identify")
struct IdentifyCallTests {
    private func call(
        _ client: NativeClient, _ json: String, key: String? = nil, query: String = "",
        fields: [(String, String)] = []
    ) throws -> NativeClient.Answer {
        let key = key ?? client.server.credentials.onymClientKey
        return NativeClient.Answer(
            try client.server.client.call(
                "POST", "/onym/v1/identify\(query)", fields: [("Authorization", "Bearer \(key)")] + fields, json: json))
    }

    private func rules(_ client: NativeClient, _ json: String) throws {
        #expect(try client.call("PUT", "/onym/v1/strategy", json).status == 200)
    }

    @Test("answers the person and what the call did", arguments: StoreKind.allCases)
    func answer(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        try rules(client, #"{"preset":"mixpanel_simplified"}"#)
        let first = try call(client, #"{"ids":{"device_application_stamp":"6f0c"}}"#)
        #expect(first.status == 200 && first["new"] as? Bool == true && first["known"] as? Bool == false)
        #expect(first["linked"] as? [String] == ["device_application_stamp"])
        let user = try call(client, #"{"kind":"login","ids":{"customerid":"ada","email":null,"other":""}}"#)
        #expect(user["known"] as? Bool == true && user["linked"] as? [String] == ["customerid"])
        let body = #"{"kind":"login","ids":{"customerid":"ada","device_application_stamp":"6f0c"},"previous":null}"#
        let foreseen = try call(client, body, query: "?dry_run=true&explain=true")
        #expect(foreseen.list("merged").first?["id"] is NSNull && foreseen.text("person") == user.text("person"))
        let steps = try #require(foreseen["explain"] as? [String: Any])
        #expect(steps["ground"] as? String == "customerid")
        #expect(!foreseen.wire.body.contains("\"people\""), "a key of an app gets no other people's ids")
        let merged = try call(client, body, key: client.server.credentials.onymServerKey, query: "?explain=true")
        #expect(merged.text("person") == user.text("person") && merged.text("root") == user.text("person"))
        #expect(merged.list("merged").first?["from"] as? String == first.text("person"))
        #expect(merged.wire.body.contains("\"people\""))
        #expect(merged["matched"] as? [String] == ["customerid"] && merged["new"] as? Bool == false)
        let again = try call(client, body, key: client.server.credentials.adminKey)
        #expect(again.list("merged").isEmpty && again.text("person") == user.text("person"))

        let other = try call(client, #"{"ids":{"customerid":"otto","device_application_stamp":"6f0c"}}"#)
        #expect(
            other["new"] as? Bool == true && other.list("kept_apart").first?["rule"] as? String == "known_into_known")
        let left = try #require(other.list("left").first)
        #expect(left["type"] as? String == "device_application_stamp" && left["rule"] as? String == "held_elsewhere")

        // The merge is a fact with the rule `match`. Its undo keeps the two people apart.
        let merge = try #require(merged.list("merged").first?["id"] as? String)
        #expect(try client.get("/onym/v1/people/customerid:ada").list("merges").first?["rule"] as? String == "match")
        #expect(try client.post("/onym/v1/merges/\(merge)/undo").status == 200)
        let parted = try call(client, body)
        #expect(parted.list("merged").isEmpty && parted.list("kept_apart").first?["rule"] as? String == "parted")
    }

    /// Names a user of Claim.
    private func claim(_ client: NativeClient, _ user: String) throws -> String {
        let answer = try client.claimDialect("properties", #"{"user_id":"\#(user)","properties":{"a":"b"}}"#)
        #expect(answer.status == 200, "\(answer)")
        return try #require(client.get("/onym/v1/people/claim_user_id:\(user)").text("id"))
    }

    @Test("tells the merge with an equal user id of another dialect, and its root", arguments: StoreKind.allCases)
    func sameUserID(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        try rules(client, #"{"same_user_id":true}"#)
        let claimed = try claim(client, "ada")
        let body = #"{"kind":"login","ids":{"customerid":"ada"}}"#
        let foreseen = try call(client, body, query: "?dry_run=true")
        #expect(foreseen.text("person") == "0" && foreseen.text("root") == claimed, "\(foreseen)")
        #expect(foreseen.list("merged").first?["from"] as? String == "0")
        let first = try call(client, body)
        #expect(first["new"] as? Bool == true && first.text("root") == claimed, "\(first)")
        let merged = try #require(first.list("merged").first)
        #expect(merged["from"] as? String == first.text("person") && merged["into"] as? String == claimed)
        let again = try call(client, body)
        #expect(again.text("person") == first.text("person") && again.text("root") == claimed, "\(again)")
        #expect(again.list("merged").isEmpty)
    }

    @Test("finds a known group by an equal user id of another dialect", arguments: StoreKind.allCases)
    func foundByEqualUserID(_ kind: StoreKind) throws {
        for isJoining in [true, false] {
            let client = try NativeClient(kind)
            try rules(client, #"{"same_user_id":\#(isJoining)}"#)
            let device = try call(client, #"{"ids":{"ios_idfv":"1"}}"#).text("person") ?? ""
            let claimed = try claim(client, "ada")
            #expect(try client.post("/onym/v1/merges", #"{"from":"\#(device)","into":"\#(claimed)"}"#).status == 200)
            // The user id of somebody else does not find the group, and neither does the device alone.
            for ids in [#"{"customerid":"bob","ios_idfv":"1"}"#, #"{"ios_idfv":"1"}"#] {
                #expect(try call(client, #"{"ids":\#(ids)}"#, query: "?dry_run=true")["new"] as? Bool == true)
            }
            let login = #"{"kind":"login","ids":{"customerid":"ada","ios_idfv":"1"}}"#
            for query in ["?dry_run=true", ""] {
                let answer = try call(client, login, query: query)
                #expect(answer["new"] as? Bool == !isJoining, "\(answer)")
                #expect((answer.text("person") == device) == isJoining, "\(answer)")
            }
            let ada = try client.get("/onym/v1/people/customerid:ada")
            #expect((ada["members"] as? [String] ?? []).contains(device) == isJoining, "\(ada)")
        }
    }

    @Test("finds no group by an equal user id after an undo has parted the two", arguments: StoreKind.allCases)
    func partedEqualUserID(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        try rules(client, #"{"same_user_id":true,"hierarchy":["ios_idfv","customerid"]}"#)
        let claimed = try claim(client, "ada")
        let first = try call(client, #"{"kind":"login","ids":{"customerid":"ada"}}"#)
        let merge = try #require(first.list("merged").first?["id"] as? String)
        #expect(try client.post("/onym/v1/merges/\(merge)/undo").status == 200)
        let device = try call(client, #"{"ids":{"ios_idfv":"1"}}"#).text("person") ?? ""
        #expect(try client.post("/onym/v1/merges", #"{"from":"\#(device)","into":"\#(claimed)"}"#).status == 200)
        let answer = try call(client, #"{"kind":"login","ids":{"customerid":"ada","ios_idfv":"1"}}"#)
        #expect(answer.text("person") == first.text("person"), "\(answer)")
    }

    @Test("writes traits with the call or not at all", arguments: StoreKind.allCases)
    func traits(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        let ada = #""ids":{"customerid":"ada"}"#
        func traits() throws -> [String: Any]? {
            let properties = try client.get("/onym/v1/people/customerid:ada")["properties"] as? [String: Any]
            return (properties?["onym"] as? [String: Any])?.compactMapValues { ($0 as? [String: Any])?["value"] }
        }
        let first = try call(client, #"{\#(ada),"traits":{"plan":"pro","seats":3,"old":null,"tags":["a"]}}"#)
        #expect(first.status == 200 && first["new"] as? Bool == true, "\(first)")
        let known = try #require(try traits())
        #expect(known["plan"] as? String == "pro" && known["seats"] as? Int == 3 && known.count == 3)
        // The same call again changes nothing.
        func journalled() throws -> Int { try client.get("/onym/v1/people/customerid:ada/journal").list("calls").count }
        let before = try journalled()
        _ = try call(client, #"{\#(ada),"traits":{"plan":"pro"}}"#)
        #expect(try journalled() == before)
        _ = try call(client, #"{\#(ada),"traits":{"plan":null,"seats":4}}"#)
        #expect(try traits()?["seats"] as? Int == 4)
        #expect(try traits()?["plan"] == nil && journalled() == before + 1)
        // A dry run and a refused call write nothing.
        _ = try call(client, #"{\#(ada),"traits":{"seats":5}}"#, query: "?dry_run=true")
        try rules(client, #"{"preset":"sentiance"}"#)
        _ = try call(client, #"{"ids":{"customerid":"ada","device_application_stamp":"d"}}"#)
        let body = #"{"ids":{"customerid":"eve","device_application_stamp":"d"},"traits":{"seats":6}}"#
        let refused = try call(client, body)
        #expect(refused.status == 409 && refused.code == "limit_reached", "\(refused)")
        #expect(try traits()?["seats"] as? Int == 4)

        let many = (0..<199).map { "\"t\($0)\":1" }.joined(separator: ",")
        let full = try call(client, #"{\#(ada),"traits":{\#(many)}}"#)
        #expect(full.status == 400 && full.code == "too_many_traits", "seats and tags are there already: \(full)")
        let feed = try client.get("/onym/v1/changes?kinds=properties.changed").list("changes")
        let told = try #require(feed.last?["data"] as? [String: Any])
        #expect(told["dialect"] as? String == "onym" && told["names"] as? [String] == ["seats"], "\(feed)")
        #expect(told["removed"] as? [String] == ["plan"])
    }

    @Test("a group shows the trait that a call wrote last", arguments: StoreKind.allCases)
    func traitsOfGroup(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        let ada = try call(client, #"{"ids":{"customerid":"ada"},"traits":{"plan":"pro"}}"#).text("person") ?? ""
        let bob = try call(client, #"{"ids":{"customerid":"bob"}}"#).text("person") ?? ""
        #expect(try client.post("/onym/v1/merges", #"{"from":"\#(bob)","into":"\#(ada)"}"#).status == 200)
        func plan() throws -> String? {
            let properties =
                try client.get("/onym/v1/people/\(ada)")["properties"] as? [String: [String: [String: Any]]]
            return properties?["onym"]?["plan"]?["value"] as? String
        }
        _ = try call(client, #"{"ids":{"customerid":"bob"},"traits":{"plan":"free"}}"#)
        #expect(try plan() == "free")
        // The member has this value already, and the group shows another.
        _ = try call(client, #"{"ids":{"customerid":"ada"},"traits":{"plan":"pro"}}"#)
        #expect(try plan() == "pro")
    }

    @Test("says that the previous person is unknown", arguments: StoreKind.allCases)
    func unknownPrevious(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        let first = try call(client, #"{"ids":{"ios_idfv":"1"},"previous":"17"}"#)
        #expect(first.list("left").map { $0["rule"] as? String } == ["previous_unknown"])
        let person = first.text("person") ?? ""
        let known = try call(client, #"{"ids":{"ios_idfv":"1"},"previous":"\#(person)"}"#)
        #expect(known.list("left").isEmpty && known.text("person") == person)
        #expect(try client.call("DELETE", "/onym/v1/people/\(person)", nil).status < 300)
        let erased = try call(client, #"{"ids":{"ios_idfv":"1"},"previous":"\#(person)"}"#)
        #expect(erased.list("left").map { $0["type"] as? String } == ["previous"])
    }

    @Test("answers what other rules would do", arguments: StoreKind.allCases)
    func whatIf(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        let admin = client.server.credentials.adminKey
        let phone = try call(client, #"{"ids":{"device_application_stamp":"p"}}"#).text("person")
        let ada = try call(client, #"{"ids":{"customerid":"ada"}}"#).text("person")
        let body = #"{"ids":{"customerid":"ada","device_application_stamp":"p"},"strategy":{"preset":"segment"}}"#
        let both = try call(client, body, key: admin, query: "?dry_run=true&explain=true")
        let now = try #require(both["now"] as? [String: Any])
        let then = try #require(both["then"] as? [String: Any])
        #expect(now["person"] as? String == ada && (now["merged"] as? [Any])?.isEmpty == true, "\(both)")
        let merge = try #require((then["merged"] as? [[String: Any]])?.first)
        #expect(then["person"] as? String == phone && merge["from"] as? String == ada, "\(both)")
        #expect(then["explain"] != nil && now["explain"] != nil)
        // It changed nothing, neither people nor rules.
        #expect(try client.get("/onym/v1/people/\(ada ?? "")").list("merges").isEmpty)
        #expect(try client.get("/onym/v1/strategy").text("preset") == "default")
        let plain = try call(client, body, key: admin)
        #expect(plain.status == 400 && plain.code == "bad_body")
        let client403 = try call(client, body, query: "?dry_run=true")
        #expect(client403.status == 403 && client403.code == "admins_only")
        let wrong = try call(
            client, #"{"ids":{"customerid":"ada"},"strategy":{"merge_on_match":"any"}}"#, key: admin,
            query: "?dry_run=true")
        #expect(wrong.status == 400 && wrong.code == "merge_needs_group", "\(wrong)")
    }

    @Test(
        "is refused by code",
        arguments: [
            (#"{"ids":{}}"#, "no_identity"), (#"{"ids":{"email":""}}"#, "no_identity"), (#"{}"#, "no_identity"),
            (#"{"ids":{"shoe_size":"1"}}"#, "unknown_type"), (#"{"ids":{"email":1}}"#, "bad_body"),
            (#"{"kind":"search","ids":{"email":"e"}}"#, "bad_body"), (#"{"ids":{"email":"e"},"more":1}"#, "bad_body"),
            (#"{"ids":{"email":"e"},"traits":[]}"#, "bad_body"),
            (#"{"ids":{"email":"e"},"traits":{"":1}}"#, "bad_body"),
            (#"{"ids":{"email":"e"},"traits":{"a":"\#(String(repeating: "t", count: 16 << 10))"}}"#, "bad_body"),
            (#"{"ids":{"email":"e"},"previous":"x"}"#, "bad_body"), ("[]", "bad_body"), ("{", "bad_body"),
            (#"{"ids":{"email":"\#(String(repeating: "e", count: 4097))"}}"#, "bad_body"),
        ])
    func refusals(_ body: String, _ code: String) throws {
        let answer = try call(try NativeClient(.memory), body)
        #expect(answer.status == 400 && answer.code == code, "\(answer)")
    }

    @Test("takes the keys of its dialect and of administrators only")
    func keys() throws {
        let client = try NativeClient(.memory)
        let credentials = client.server.credentials
        for key in [credentials.idsyncKey, credentials.claimClientKey, "onym_client_0", ""] {
            let answer = try call(client, #"{"ids":{"email":"e"}}"#, key: key)
            #expect(answer.status == 401 && answer.code == "unauthorized", "\(answer)")
        }
        for (method, path) in [("GET", "/onym/v1/strategy"), ("GET", "/onym/v1/people?type=email&value=e")] {
            let answer = try client.server.client.call(
                method, path, fields: [("Authorization", "Bearer \(credentials.onymServerKey)")])
            #expect(answer.status == 401, "\(path)")
        }
        let app = try client.post("/onym/v1/apps", #"{"name":"Shop","dialect":"onym","platform":"web"}"#)
        let id = try #require(app.text("id"))
        let made = try client.post("/onym/v1/keys", #"{"kind":"onym_client","app":"\#(id)"}"#)
        #expect(try call(client, #"{"ids":{"email":"e"}}"#, key: made.text("key")).status == 200)
    }

    @Test("answers a repeated call as before, and needs a login identity where the strategy says so")
    func repetition() throws {
        let client = try NativeClient(.sqlite)
        try rules(client, #"{"preset":"profile_isolation"}"#)
        let body = #"{"kind":"login","ids":{"customerid":"a","ios_idfv":"1"}}"#
        let first = try call(client, body, fields: [("Idempotency-Key", "k")])
        let again = try call(client, body, fields: [("Idempotency-Key", "k")])
        #expect(first["new"] as? Bool == true && again.wire.body == first.wire.body)
        let other = try call(client, #"{"ids":{"ios_idfv":"2"}}"#, fields: [("Idempotency-Key", "k")])
        #expect(other.status == 422)
        let device = try call(client, #"{"kind":"login","ids":{"ios_idfv":"1"}}"#)
        #expect(device.status == 400 && device.code == "no_login_identity")
    }

    @Test("may be called from a page", arguments: ["/onym/v1/identify", "/onym/v1/strategy"])
    func browser(_ path: String) throws {
        let client = try NativeClient(.memory)
        let answer = try client.server.client.call(
            "OPTIONS", path,
            fields: [
                ("Origin", "https://shop.example"), ("Access-Control-Request-Method", "POST"),
                ("Access-Control-Request-Headers", "authorization,content-type"),
            ])
        #expect((answer["Access-Control-Allow-Origin"] != nil) == (path == "/onym/v1/identify"), "\(answer)")
    }

    @Test("asks a client for a token where known users need one, and merges nobody without a proof")
    func proof() throws {
        let client = try NativeClient(.memory)
        try rules(client, #"{"preset":"mixpanel_simplified","signed_identities":{"onym":"require"}}"#)
        let refused = try call(client, #"{"ids":{"customerid":"ada"}}"#)
        #expect(refused.status == 403 && refused.code?.hasPrefix("identity_token") == true, "\(refused)")
        let server = client.server.credentials.onymServerKey
        #expect(try call(client, #"{"ids":{"customerid":"ada"}}"#, key: server).status == 200)
        // While another dialect requires proof, a client without proof merges nobody.
        try rules(client, #"{"signed_identities":{"onym":"off","claim":"require"}}"#)
        #expect(try call(client, #"{"ids":{"ios_idfv":"1"}}"#).status == 200)
        let body = #"{"ids":{"customerid":"ada","ios_idfv":"1"}}"#
        let apart = try call(client, body)
        #expect(apart.list("merged").isEmpty)
        #expect(apart.list("kept_apart").first?["rule"] as? String == "identity_token_required")
        let stranger = try client.identify(#"{"customerid":"ada","ios_idfv":"1"}"#)
        #expect(try client.get("/onym/v1/people/\(stranger)").list("merges").isEmpty, "so it is for IDSync")
        #expect(try call(client, body, key: server).list("merged").count == 1)
    }

    @Test("a dry run names the person that documents name, as the call does", arguments: StoreKind.allCases)
    func foreseen(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        try rules(client, #"{"preset":"profile_conversion","device_without_user":"last_known"}"#)
        _ = try call(client, #"{"kind":"login","ids":{"customerid":"ada","email":"a@x"}}"#)
        // The stand-in of calls whose only identity belongs to Ada.
        let address = #"{"ids":{"email":"a@x"}}"#
        #expect(try call(client, address, query: "?dry_run=true")["new"] as? Bool == true)
        let standIn = try call(client, address)
        #expect(standIn["new"] as? Bool == true)
        let foreseen = try call(client, address, query: "?dry_run=true")
        #expect(foreseen["new"] as? Bool == false && foreseen.text("person") == standIn.text("person"), "\(foreseen)")
        // The last user of a device.
        let login = try call(client, #"{"kind":"login","ids":{"customerid":"bob","ios_idfv":"1"}}"#)
        let device = #"{"ids":{"ios_idfv":"1"}}"#
        for query in ["?dry_run=true", ""] {
            let answer = try call(client, device, query: query)
            #expect(answer.text("person") == login.text("person") && answer["new"] as? Bool == false, "\(answer)")
        }
    }

    @Test("asks for the proof that IDSync asks for, because both name the same users")
    func signing() throws {
        let client = try NativeClient(.memory)
        try rules(client, #"{"signed_identities":{"idsync":"require"}}"#)
        let refused = try call(client, #"{"ids":{"customerid":"ada"}}"#)
        #expect(refused.status == 403 && refused.code?.hasPrefix("identity_token") == true, "\(refused)")
        #expect(try call(client, #"{"ids":{"ios_idfv":"1"}}"#).status == 200)
    }

    @Test("a call merges a hundred groups at most, and a later call the next ones")
    func manyGroups() throws {
        let client = try NativeClient(.memory)
        let rules = #"{"decide_on":"group","merge_on_match":"any","known_into_known":true}"#
        #expect(try client.call("PUT", "/onym/v1/strategy", rules).status == 200)
        for number in 0..<120 {
            let person = try client.identify(#"{"ios_idfv":"device-\#(number)"}"#)
            let email = #"{"type":"email","value":"shared@example.com"}"#
            #expect(try client.post("/onym/v1/people/\(person)/identities", email).status == 200)
        }
        let names = #"{"customerid":"new","email":"shared@example.com"}"#
        let person = try client.identify(names)
        func members() throws -> Int? { try client.get("/onym/v1/people/\(person)").number("members_count") }
        let first = try #require(try members())
        #expect((100...102).contains(first), "\(first)")
        try client.identify(names)
        let second = try #require(try members())
        #expect((120...121).contains(second), "\(second)")
    }

    @Test("what an undo has parted is decided by the writer, also before a limit", arguments: StoreKind.allCases)
    func partedBeforeLimit(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        #expect(try client.call("PUT", "/onym/v1/strategy", #"{"preset":"segment"}"#).status == 200)
        let one = try client.identify(#"{"customerid":"c1"}"#)
        let two = try client.identify(#"{"customerid":"c2","ios_idfv":"D"}"#)
        let merge = try client.merge(one, into: two)
        #expect(try client.post("/onym/v1/merges/\(merge)/undo").status == 200)
        #expect(try client.identify(#"{"customerid":"c1","ios_idfv":"D"}"#) == one)
        let held = try client.get("/onym/v1/people/\(one)").list("identities").map { $0["value"] as? String }
        #expect(held == ["c1", "D"], "\(held)")
    }
}
