import Foundation
import TestKit
import Testing

/// What once went wrong with access, on every store.
@Suite("Former mistakes of Entitlements")
struct FormerMistakesTests {
    private func erase(_ user: String, _ client: AccessClient) throws {
        #expect(try client.administrator("DELETE", "/people/sandbox_user_id:\(user)").status == 200)
    }

    /// A purchase X of u1's that u2 has had transferred; and by which transfer.
    private func transferred(
        _ kind: StoreKind
    ) throws -> (client: AccessClient, from: Install, to: Install, transfer: Substring) {
        let client = try AccessClient(kind, restore: "transfer")
        let (a, b) = (try Install("A", .exact, client), try Install("B", .exact, client))
        try a.buy("X", "t1")
        try a.identify("u1")
        try b.identify("u2")
        let answer = try b.restore([client.receipt("X", "t1")])
        let transfer = try #require(answer.body.firstMatch(of: /"transfer_id":"(t_[0-9]+)"/)?.1, "\(answer)")
        return (client, a, b, transfer)
    }

    @Test("a transfer from somebody who was erased is not undone", arguments: StoreKind.allCases)
    func undoAfterErasure(_ kind: StoreKind) throws {
        let (client, _, to, transfer) = try transferred(kind)
        try erase("QON_A", client)
        for query in ["?dry_run=true", ""] {
            #expect(try client.administrator("POST", "/transfers/\(transfer)/undo\(query)").status == 409)
        }
        #expect(try to.active() == ["X"])
    }

    @Test(
        "a repeated restore, and a repeated undo of it, name the others until these are erased",
        arguments: StoreKind.allCases)
    func repeatedAfterErasure(_ kind: StoreKind) throws {
        let client = try AccessClient(kind, restore: "transfer")
        let (a, b) = (try Install("A", .exact, client), try Install("B", .exact, client))
        try a.buy("X", "t1")
        try a.identify("u1")
        try b.identify("u2")
        let body = #"{"transactions":["\#(client.receipt("X", "t1"))"]}"#
        func restore() throws -> String {
            try client.call(
                "POST", "/v3/users/\(b.current)/restore", body, key: client.secretKey,
                fields: b.fields + [("Idempotency-Key", "restore")]
            ).body
        }
        let restored = try restore()
        #expect(restored.contains(#""outcome":"moved","from":["u1"]"#), "\(restored)")
        #expect(try restore() == restored)
        let transfer = try #require(restored.firstMatch(of: /"transfer_id":"(t_[0-9]+)"/)?.1, "\(restored)")
        func undo() throws -> String {
            try client.call(
                "POST", "/onym/v1/transfers/\(transfer)/undo", "{}", key: client.server.credentials.adminKey,
                fields: [("Idempotency-Key", "undo")]
            ).body
        }
        let undone = try undo()
        #expect(undone.contains(#""from":["u2"],"to":["u1"]"#), "\(undone)")
        #expect(try undo() == undone)
        try erase("QON_A", client)
        #expect(try restore() == restored.replacing(#"["u1"]"#, with: "[]"))
        #expect(try undo() == undone.replacing(#"["u1"]"#, with: "[]"))
    }

    @Test("what a store account with a name paid for goes with its reporter", arguments: StoreKind.allCases)
    func erasedAccount(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        let a = try Install("A", .exact, client)
        try a.buy("X", "t1", account: "ada")
        try erase("QON_A", client)
        try client.makeUser("QON_A")
        let b = try Install("B", .exact, client)
        try b.buy("Y", "t2", account: "ada")
        #expect(try b.active() == ["Y"])
        #expect(try a.buy("X", "t1", account: "ada").status == 201, "nobody knows it any more")
        #expect(try a.active() == ["X", "Y"])
        // What belongs to somebody else as well stays with them.
        try b.identify("u2")
        try erase("QON_A", client)
        #expect(try b.active() == ["X", "Y"])
    }

    @Test("what people who are one owned goes with all of them", arguments: StoreKind.allCases)
    func erasedTogether(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        let (a, b) = (try Install("A", .exact, client), try Install("B", .exact, client))
        try a.identify("u1")
        try a.buy("X", "t1")
        try b.identify("u2")
        #expect(try b.restore([client.receipt("X", "t1")]).body.contains(#""outcome":"shared""#))
        func id(_ user: String) throws -> Substring {
            let answer = try client.administrator("GET", "/people/sandbox_user_id:\(user)")
            return try #require(answer.body.firstMatch(of: /"id":"([0-9]+)"/)?.1, "\(answer)")
        }
        let merge = #"{"from":"\#(try id("QON_A"))","into":"\#(try id("QON_B"))","reason":"one"}"#
        #expect(try client.administrator("POST", "/merges", merge).status == 200)
        try erase("QON_A", client)
        try client.makeUser("QON_C")
        #expect(try client.purchase("QON_C", client.receipt("X", "t1")).status == 201, "nobody knows it any more")
    }

    @Test("who says only that nobody is signed in keeps what they buy", arguments: StoreKind.allCases)
    func noDevice(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        try client.makeUser("A")
        let fields = [("Onym-Identity", "")]
        #expect(try client.purchase("A", client.receipt("X", "t1"), fields: fields).status == 201)
        #expect(try client.active("A", fields: fields) == ["X"])
        #expect(try client.active("A") == ["X"])
    }

    @Test("a dry run that is misspelled is refused, and does nothing", arguments: StoreKind.allCases)
    func dryRun(_ kind: StoreKind) throws {
        let (client, from, to, transfer) = try transferred(kind)
        for query in ["dry_run=1", "dry_run=TRUE", "dry_run", "dry_run=", "dry_run=true&x=%zz", "x=%zz"] {
            let restored = try client.call(
                "POST", "/v3/users/QON_A/restore?\(query)", #"{"transactions":["\#(client.receipt("X", "t1"))"]}"#)
            #expect(restored.status == 400 && restored.body.contains("invalid_data"), "\(query): \(restored)")
            let undone = try client.administrator("POST", "/transfers/\(transfer)/undo?\(query)")
            #expect(undone.status == 400 && undone.body.contains("validation_error"), "\(query): \(undone)")
            let erased = try client.administrator("DELETE", "/people/sandbox_user_id:QON_A?\(query)")
            #expect(erased.status == 400, "\(query): \(erased)")
        }
        #expect(try to.active() == ["X"])
        #expect(try from.active() == [])
    }

    @Test("what a store said before is no news", arguments: StoreKind.allCases)
    func older(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        try client.makeUser("A")
        let now = client.clock.seconds
        let first = client.receipt("X", "t1", expires: now + 900, signed: now - 9)
        let later = client.receipt("X", "t1", expires: now + 600, signed: now - 5)
        let unsigned = client.receipt("X", "t1", expires: now + 999)
        for (receipt, status) in [(first, 201), (later, 200), (first, 200), (unsigned, 200)] {
            #expect(try client.purchase("A", receipt).status == status)
        }
        #expect(try client.call("GET", "/v3/users/A/entitlements").body.contains(#""expires":\#(now + 600),"#))
        // Said again, it is kept and told to nobody.
        let events = try client.events("A").count
        #expect(try client.purchase("A", client.receipt("X", "t1", expires: now + 600, signed: now)).status == 200)
        #expect(try client.events("A").count == events)
    }

    @Test("a product that is defined after it was bought lasts no longer for that", arguments: StoreKind.allCases)
    func definedLater(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        try client.makeUser("A")
        #expect(try client.purchase("A", client.receipt("day", "t1")).status == 201)
        try client.sell("day", #"{"type":"subscription","duration_seconds":86400,"entitlements":["Y"]}"#)
        let seen = try client.call("GET", "/v3/users/A/entitlements").body
        #expect(
            seen.contains(#""id":"Y","active":true,"started":1750000000,"expires":1750086400,"#)
                && seen.contains(#""subscription":{"#), "\(seen)")
        client.clock.advance(days: 1)
        #expect(try client.active("A") == [])
    }

    @Test("what is granted to an identity is its own, whatever its install was granted", arguments: StoreKind.allCases)
    func grants(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        let (a, b) = (try Install("A", .exact, client), try Install("B", .exact, client))
        func grant(_ json: String) throws -> Wire.Answer {
            try client.call("POST", "/v3/users/QON_A/entitlements", json, key: client.secretKey)
        }
        #expect(try grant(#"{"id":"X"}"#).status == 200)
        try a.identify("u1")
        #expect(try grant(#"{"id":"X","expires":1800000000}"#).body.contains(#""expires":1800000000"#))
        #expect(try grant(#"{"id":"X","expires":1900000000}"#).body.contains(#""expires":1800000000"#))
        try b.identify("u1")
        #expect(try b.active() == ["X"])
        #expect(try client.call("DELETE", "/v3/users/QON_A/entitlements/X", key: client.secretKey).status == 200)
        #expect(try a.active() == [])
        #expect(try b.active() == [])
    }

    @Test("what was granted is taken back also where it is no longer defined", arguments: StoreKind.allCases)
    func undefined(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        try client.makeUser("A")
        try client.define("gone")
        _ = try client.call("POST", "/v3/users/A/entitlements", #"{"id":"gone"}"#, key: client.secretKey)
        #expect(try client.administrator("DELETE", "/entitlements/gone").status == 200)
        #expect(try client.active("A") == ["gone"])
        for status in [200, 400] {
            #expect(try client.call("DELETE", "/v3/users/A/entitlements/gone", key: client.secretKey).status == status)
        }
        #expect(try client.active("A") == [])
    }

    @Test("beyond so many store accounts, an install sees what it has proven itself")
    func accounts() throws {
        let client = try AccessClient(.memory)
        let (phone, other) = (try Install("A", .exact, client), try Install("B", .exact, client))
        for number in 0..<32 { #expect(try phone.buy("X", "t\(number)", account: "a\(number)").status == 201) }
        #expect(try phone.buy("Y", "t32", account: "a32").status == 201)
        #expect(try phone.active() == ["X", "Y"])
        #expect(try other.buy("Z", "t33", account: "a32").status == 201)
        #expect(try other.active() == ["Y", "Z"])
        #expect(try phone.active() == ["X", "Y"])
    }

    @Test("a purchase has so many owners, and goes over from all of them at once")
    func owners() throws {
        let client = try AccessClient(.memory)
        let receipt = client.receipt("X", "t1")
        for number in 0..<100 {
            let install = try Install("u\(number)", .exact, client)
            try install.identify("i\(number)")
            #expect(try install.restore([receipt], strategy: "copy").status == 200)
        }
        let last = try Install("last", .exact, client)
        try last.identify("last")
        let refused = try last.restore([receipt], strategy: "copy")
        #expect(refused.status == 422 && refused.body.contains("100 owners"), "\(refused)")
        #expect(try last.restore([receipt], strategy: "transfer", isServer: true).status == 200)
        #expect(try last.active() == ["X"])
    }

    static let forged: [(String, String)] = [
        ("/v3/users/A/purchases", #"{"price":"1","currency":"EUR","app_store_data":{"receipt":"forged"}}"#),
        ("/v3/users/A/restore", #"{"transactions":["forged"]}"#),
        ("/v1/user/init", #"{"q_uid":"A","receipt":"forged"}"#),
        ("/v1/user/purchase", #"{"q_uid":"A","receipt":"forged"}"#),
        ("/v1/user/restore", #"{"q_uid":"A","receipt":"forged"}"#),
    ]

    @Test("a forged receipt is in the journal of who came with it", arguments: forged, StoreKind.allCases)
    func journal(_ call: (path: String, body: String), _ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        try client.makeUser("A")
        func count() throws -> Int {
            let answer = try client.administrator("GET", "/people/sandbox_user_id:A/journal")
            let page = try JSONSerialization.jsonObject(with: Data(answer.body.utf8)) as? [String: Any]
            return (page?["calls"] as? [Any])?.count ?? -1
        }
        let before = try count()
        _ = try client.call("POST", call.path, call.body)
        #expect(try count() == before + 1)
    }

    @Test("who joins an account is told, and throws nobody out", arguments: StoreKind.allCases)
    func joined(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        let (a, b) = (try Install("A", .exact, client), try Install("B", .exact, client))
        try a.buy("X", "t1")
        for _ in 0..<2 {
            for install in [a, b] {
                #expect(try install.restore([client.receipt("X", "t1")]).body.contains(#""outcome":"yours""#))
                #expect(try a.active() == ["X"])
            }
            #expect(try b.active() == ["X"])
        }
        #expect(try client.events("QON_A") == ["entitlement_granted"])
        #expect(try client.events("QON_B") == ["entitlement_granted"])
    }

    static let bodies: [(String, String)] = [
        ("purchases", "{"), ("purchases", "[]"), ("purchases", #"{"purchased":"x"}"#), ("entitlements", "{"),
        ("entitlements", "{}"), ("restore", "{"), ("restore", "{}"), ("properties", "{"), ("properties", "{}"),
        ("properties", #"[{"key":"1","value":"x"}]"#),
    ]

    @Test("a user that is not there is told before what is wrong with the body", arguments: bodies)
    func nobody(_ path: String, _ body: String) throws {
        let client = try AccessClient(.memory)
        let answer = try client.call("POST", "/v3/users/nobody/\(path)", body, key: client.secretKey)
        #expect(answer.status == 404 && answer.body.contains("User not found"), "\(answer)")
        try client.makeUser("A")
        #expect(try client.call("POST", "/v3/users/A/\(path)", body, key: client.secretKey).status == 400)
    }

    @Test("a property of another type is no property, and keeps no other from being set")
    func properties() throws {
        let client = try AccessClient(.memory)
        try client.makeUser("A")
        let answer = try client.call(
            "POST", "/v3/users/A/properties",
            #"[{"key":7,"value":"b"},{"key":"k","value":"v"},{"key":"n","value":5},7]"#)
        #expect(
            answer.body
                == #"{"savedProperties":[{"key":"k","value":"v"}],"propertyErrors":[{"key":"","error":"Property key: . Error: invalid key format."},{"key":"n","error":"Property key: n. Error: invalid value format."},{"key":"","error":"Property key: . Error: invalid key format."}]}"#
        )
    }

    @Test("two spellings of a letter are two ids", arguments: StoreKind.allCases)
    func spellings(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        try client.makeUser("A")
        #expect(try client.call("POST", "/v3/identities/%C3%A9", #"{"user_id":"A"}"#).status == 201)
        let other = try client.call("POST", "/v3/identities/e%CC%81", #"{"user_id":"A"}"#)
        #expect(other.status == 422 && other.body.contains("user already converted"), "\(other)")
        for (segment, name) in [("%C3%A9", "\u{E9}"), ("e%CC%81", "e\u{301}")] {
            try client.define(segment)
            let granted = try client.call(
                "POST", "/v3/users/A/entitlements", "{\"id\":\"\(name)\"}", key: client.secretKey)
            #expect(granted.status == 200)
        }
        #expect(try client.active("A").map { $0.unicodeScalars.count } == [2, 1])
    }

    static let administration: [(String, String, String?, Int)] = [
        ("DELETE", "/entitlements/nothing", nil, 404), ("DELETE", "/products/nothing", nil, 404),
        ("PUT", "/entitlements/%7F", "{}", 400),
        ("PUT", "/products/b", #"{"type":"consumable","store_id":"com.a"}"#, 409),
        ("PUT", "/products/a", #"{"type":"consumable","store_id":"com.a"}"#, 200),
        ("POST", "/people/sandbox_user_id:A/identities", #"{"type":"sandbox_identity","value":"u9"}"#, 400),
        ("POST", "/people/sandbox_user_id:A/identities", #"{"type":"access_user_id","value":"u9"}"#, 400),
        ("DELETE", "/people/sandbox_user_id:A/identities/sandbox_identity/u1", nil, 400),
        ("DELETE", "/people/sandbox_user_id:A/identities/sandbox_user_id/A", nil, 400),
    ]

    @Test("administrators are told what they cannot do", arguments: administration)
    func administer(_ method: String, _ path: String, _ body: String?, _ status: Int) throws {
        let client = try AccessClient(.memory)
        try client.makeUser("A")
        _ = try client.call("POST", "/v3/identities/u1", #"{"user_id":"A"}"#)
        try client.sell("a", #"{"type":"subscription","store_id":"com.a"}"#)
        let answer = try client.administrator(method, path, body)
        #expect(answer.status == status, "\(answer)")
        #expect(try client.call("GET", "/v3/identities/u1").body == #"{"id":"u1","user_id":"A"}"#)
    }

    @Test("a malformed query is refused")
    func query() throws {
        let client = try AccessClient(.memory)
        #expect(try client.call("POST", "/v3/identities/u1?device_user_id=%zz", "{}").status == 400)
        #expect(try client.call("GET", "/v3/identities/u1").status == 404)
    }
}
