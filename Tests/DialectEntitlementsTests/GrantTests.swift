import Domain
import TestKit
import Testing

/// Granting and revoking by hand, and properties (spec/entitlements.md 1.4 and 1.5), on every store.
@Suite("Grants and properties of Entitlements")
struct GrantTests {
    private static let later = 1_800_000_000
    private static let notFound = #"{"error":{"type":"resource","code":"not_found","message":"User not found"}}"#
    private static let undefined =
        #"{"error":{"type":"request","code":"invalid_entitlement_data","message":"Invalid entitlement uid, no such entitlement found"}}"#

    private func grant(_ client: AccessClient, _ user: String, _ json: String) throws -> Wire.Answer {
        try client.call("POST", "/v3/users/\(user)/entitlements", json, key: client.secretKey)
    }

    @Test("a clock that was ahead once has no say in what is past", arguments: StoreKind.allCases)
    func clockAhead(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        try client.makeUser("A")
        client.clock.advance(days: 5)
        try client.makeUser("B")
        client.clock.advance(days: -5)
        let ready = try client.http.call("GET", "/readyz")
        #expect(ready.status == 200 && ready.body.contains("The clock is 432000 s behind the journal"), "\(ready)")
        func metrics() throws -> String {
            try client.call("GET", "/metrics", key: client.server.credentials.adminKey).body
        }
        #expect(try metrics().contains("onym_clock_behind_seconds 432000"))
        let answer = try grant(client, "A", #"{"id":"X","expires":\#(client.clock.seconds + 3600)}"#)
        #expect(
            answer.status == 200 && answer.body.contains(#""active":true,"started":\#(client.clock.seconds)"#),
            "\(answer)")
        // The grant has noted the step, and the journal goes on by the clock.
        #expect(
            try Patience.until {
                let ready = try client.http.call("GET", "/readyz").body
                return ready.contains("The clock was set back by 43") && !ready.contains("behind the journal")
            })
        #expect(try metrics().contains("onym_clock_behind_seconds 0"))
        let notes = try client.server.store.read { snapshot throws(StoreFault) in
            try snapshot.calls(after: .zero, limit: 100).filter { $0.kind == .clockStep }.map(\.note)
        }
        #expect(notes == ["The clock went back by 432000 s: it was ahead before, or is behind now."])
    }

    @Test("granting twice keeps the first, and revoking what is not there is fine", arguments: StoreKind.allCases)
    func grants(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        try client.makeUser("A")
        #expect(try client.call("GET", "/v3/users/A/entitlements").body == #"{"object":"list","data":[]}"#)
        let granted =
            #"{"id":"X","active":true,"started":1750000000,"expires":\#(GrantTests.later),"source":"manual"}"#
        let first = try grant(client, "A", #"{"id":"X","expires":\#(GrantTests.later)}"#)
        #expect(first.status == 200 && first.body == granted, "\(first)")
        #expect(try grant(client, "A", #"{"id":"X","expires":\#(GrantTests.later + 5)}"#).body == granted)
        #expect(
            try client.call("GET", "/v3/users/A/entitlements").body == #"{"object":"list","data":[\#(granted)]}"#)
        for _ in 0..<2 {
            let revoked = try client.call("DELETE", "/v3/users/A/entitlements/X", key: client.secretKey)
            #expect(revoked.status == 200 && revoked.body == "{}", "\(revoked)")
        }
        #expect(try client.active("A") == [])
        #expect(try client.events("A") == ["entitlement_lost", "entitlement_granted"])
        #expect(
            try grant(client, "A", #"{"id":"X"}"#).body
                == #"{"id":"X","active":true,"started":1750000000,"source":"manual"}"#, "for ever")
    }

    @Test("what was granted ends by the server's clock, and may be granted again", arguments: StoreKind.allCases)
    func ends(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        try client.makeUser("A")
        let expires = client.clock.seconds + 86_400
        _ = try grant(client, "A", #"{"id":"X","expires":\#(expires)}"#)
        client.clock.advance(days: 1)
        #expect(try client.active("A") == [])
        #expect(
            try client.call("GET", "/v3/users/A/entitlements").body
                == #"{"object":"list","data":[{"id":"X","active":false,"started":1750000000,"expires":\#(expires),"source":"manual"}]}"#
        )
        #expect(
            try grant(client, "A", #"{"id":"X","expires":\#(expires + 9)}"#).body.contains(
                #""expires":\#(expires + 9)"#))
        #expect(try client.active("A") == ["X"])
    }

    @Test("an end may come as a text, and an empty text is no end", arguments: StoreKind.allCases)
    func texts(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        try client.makeUser("A")
        let given = try grant(client, "A", #"{"id":"X","expires":"\#(GrantTests.later)"}"#)
        #expect(given.status == 200 && given.body.contains(#""expires":\#(GrantTests.later),"#), "\(given)")
        let endless = try grant(client, "A", #"{"id":"Y","expires":""}"#)
        #expect(endless.status == 200 && !endless.body.contains("expires"), "\(endless)")
        let wrong = try grant(client, "A", #"{"id":"Z","expires":"soon"}"#)
        #expect(wrong.status == 400 && wrong.body.contains("expires"), "\(wrong)")
        #expect(try client.active("A") == ["X", "Y"])
    }

    @Test("explain is true or false", arguments: [("true", 200), ("false", 200), ("1", 400), ("", 400), ("TRUE", 400)])
    func explain(_ value: String, _ status: Int) throws {
        let client = try AccessClient(.memory)
        try client.makeUser("A")
        let answer = try client.call("GET", "/v3/users/A/entitlements?explain=\(value)")
        #expect(answer.status == status, "\(answer)")
        if status == 400 { #expect(answer.body.contains("explain must be true or false"), "\(answer)") }
    }

    @Test("refuses in the vendor's words and order", arguments: StoreKind.allCases)
    func refuses(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        try client.makeUser("A")
        let past =
            #"{"error":{"type":"request","code":"invalid_entitlement_data","message":"Invalid expires at value has been provided, should be in unix timestamp format in seconds in future"}}"#
        for (user, body, status, answer) in [
            ("nobody", #"{"id":"nothing","expires":1}"#, 404, GrantTests.notFound),
            ("A", #"{"id":"nothing","expires":1}"#, 400, GrantTests.undefined),
            ("A", #"{"id":"X","expires":1750000000}"#, 400, past), ("A", #"{"id":"X","expires":0}"#, 400, past),
            ("A", #"{"id":"X","expires":-9223372036854775808}"#, 400, past),
            ("A", #"{"id":"X","expires":9223372036854775807}"#, 400, past),
        ] {
            let given = try grant(client, user, body)
            #expect(given.status == status && given.body == answer, "\(given)")
        }
        for (path, status, answer) in [
            ("/v3/users/nobody/entitlements/nothing", 404, GrantTests.notFound),
            ("/v3/users/A/entitlements/nothing", 400, GrantTests.undefined),
        ] {
            let given = try client.call("DELETE", path, key: client.secretKey)
            #expect(given.status == status && given.body == answer, "\(given)")
        }
        let unknown = try client.call("GET", "/v3/users/nobody/entitlements")
        #expect(unknown.status == 404 && unknown.body == GrantTests.notFound)
        // A key that is not enough is told like one that is none.
        for (method, path) in [("POST", "/v3/users/A/entitlements"), ("DELETE", "/v3/users/A/entitlements/X")] {
            let answer = try client.call(method, path, #"{"id":"X"}"#)
            #expect(answer.status == 401 && answer.body == UserTests.unauthorized, "\(answer)")
        }
        #expect(try client.active("A") == [])
    }

    @Test("what is granted to an identity is seen where it is signed in", arguments: StoreKind.allCases)
    func principals(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        let (a, b) = (try Install("A", .exact, client), try Install("B", .exact, client))
        _ = try grant(client, a.original, #"{"id":"X"}"#)
        try a.identify("u1")
        _ = try grant(client, a.current, #"{"id":"Y"}"#)
        try b.identify("u1")
        #expect(try a.active() == ["X", "Y"])
        #expect(try b.active() == ["Y"], "X was given to A's install")
        a.logOut()
        b.logOut()
        #expect(try a.active() == ["X"])
        #expect(try b.active() == [])
    }

    @Test("properties are kept in part, and read as a bare array", arguments: StoreKind.allCases)
    func properties(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        try client.makeUser("A")
        #expect(try client.call("GET", "/v3/users/A/properties").body == "[]")
        let answer = try client.call(
            "POST", "/v3/users/A/properties",
            #"[{"key":"_q_custom_user_id","value":"42"},{"key":"invalid key","value":"x"},{"key":"_own","value":"x"},{"key":"k","value":""},{"key":"level","value":"7"}]"#
        )
        #expect(answer.status == 200)
        #expect(
            answer.body
                == #"{"savedProperties":[{"key":"_q_custom_user_id","value":"42"},{"key":"level","value":"7"}],"propertyErrors":[{"key":"invalid key","error":"Property key: invalid key. Error: invalid key format."},{"key":"_own","error":"Property key: _own. Error: reserved key."},{"key":"k","error":"Property key: k. Error: invalid value format."}]}"#
        )
        _ = try client.call("POST", "/v3/users/A/properties", #"[{"key":"level","value":"8"}]"#)
        #expect(
            try client.call("GET", "/v3/users/A/properties").body
                == #"[{"key":"_q_custom_user_id","value":"42"},{"key":"level","value":"8"}]"#)
        #expect(try client.events("A") == ["properties_changed", "properties_changed"], "integrations are told")
        for (user, body, status) in [
            ("nobody", #"[{"key":"a","value":"b"}]"#, 404), ("A", #"[{"key":"1","value":"b"}]"#, 400), ("A", "{}", 400),
            ("A", #"[{"key":7,"value":"b"}]"#, 400), ("A", "[7]", 400), ("A", "[]", 200),
        ] {
            let given = try client.call("POST", "/v3/users/\(user)/properties", body)
            #expect(given.status == status, "\(body): \(given)")
        }
        #expect(try client.call("GET", "/v3/users/nobody/properties").body == GrantTests.notFound)
    }

    static let values: [(String, String, Bool)] = [
        (String(repeating: "k", count: 80), "v", true), (String(repeating: "k", count: 81), "v", false),
        ("a-b_c.d:e9", "v", true), ("9", "v", false), ("ü", "v", false),
        ("k", String(repeating: "v", count: 120), true),
        ("k", String(repeating: "v", count: 121), false), ("k", "a'b", false), ("k", "a\\\"b", false),
        ("k", "a\\nb", false), ("k", "ü €", true), ("_q_email", "ada@example.com", true), ("_q_other", "v", false),
    ]

    @Test("a property is what the vendor takes for one", arguments: values)
    func value(_ key: String, _ value: String, _ isTaken: Bool) throws {
        let client = try AccessClient(.memory)
        try client.makeUser("A")
        let answer = try client.call("POST", "/v3/users/A/properties", #"[{"key":"\#(key)","value":"\#(value)"}]"#)
        #expect(answer.status == (isTaken ? 200 : 400), "\(answer)")
    }

    @Test("a user has at most 100 properties", arguments: StoreKind.allCases)
    func many(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        try client.makeUser("A")
        let list = (0..<100).map { #"{"key":"k\#($0)","value":"v"}"# }
        #expect(try client.call("POST", "/v3/users/A/properties", "[\(list.joined(separator: ","))]").status == 200)
        let more = try client.call(
            "POST", "/v3/users/A/properties", #"[{"key":"k1","value":"w"},{"key":"k100","value":"v"}]"#)
        #expect(
            more.body
                == #"{"savedProperties":[{"key":"k1","value":"w"}],"propertyErrors":[{"key":"k100","error":"Property key: k100. Error: too many properties."}]}"#
        )
        let tooLong = (list + list).joined(separator: ",")
        #expect(try client.call("POST", "/v3/users/A/properties", "[\(tooLong)]").status == 400)
    }

    @Test("a custom user id never changes who may use what", arguments: StoreKind.allCases)
    func label(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        let (a, b) = (try Install("A", .plain, client), try Install("B", .plain, client))
        try a.buy("X")
        for install in [a, b] {
            _ = try client.call(
                "POST", "/v3/users/\(install.current)/properties", #"[{"key":"_q_custom_user_id","value":"u1"}]"#)
        }
        #expect(try a.active() == ["X"])
        #expect(try b.active() == [])
        try b.identify("u1")
        #expect(try b.active() == [], "nor is it an identity")
    }
}
