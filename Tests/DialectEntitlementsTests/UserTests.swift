import TestKit
import Testing

/// Users, identities, keys and errors over HTTP (spec/entitlements.md 1.1 to 1.3), on every store.
@Suite("Users and identities of Entitlements")
struct UserTests {
    @Test("a user is made once, with the client's own id", arguments: StoreKind.allCases)
    func make(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        client.world = ""
        let missing = try client.call("GET", "/v3/users/testProd1")
        #expect(missing.status == 404)
        #expect(missing.body == #"{"error":{"type":"resource","code":"not_found","message":"User not found"}}"#)
        let user = #"{"id":"testProd1","created":1750000000,"environment":"prod"}"#
        let made = try client.call("POST", "/v3/users/testProd1", #"{"environment":"prod"}"#)
        #expect(made.status == 201 && made.body == user, "\(made)")
        #expect(try client.call("GET", "/v3/users/testProd1").body == user)
        let again = try client.call("POST", "/v3/users/testProd1", #"{"environment":"prod"}"#)
        #expect(again.status == 422)
        #expect(
            again.body
                == #"{"error":{"type":"resource","code":"already_exists","message":"User with given uid already exists"}}"#
        )
        _ = try client.call("POST", "/v3/users/s", #"{"environment":"sandbox"}"#)
        #expect(try client.call("GET", "/v3/users/s").body.contains(#""environment":"sandbox"}"#))
    }

    @Test("an answer that was lost is given again under the same key", arguments: StoreKind.allCases)
    func lost(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        for world in ["", "test_"] {
            client.world = world
            for _ in 0..<2 {
                let answer = try client.call("POST", "/v3/users/a", "{}", fields: [("Idempotency-Key", "k")])
                #expect(answer.status == 201, "\(answer)")
            }
        }
        #expect(try client.call("POST", "/v3/users/b", "{}", fields: [("Idempotency-Key", "k")]).status == 422)
        #expect(try client.call("GET", "/v3/users/b").status == 404)
    }

    @Test("an identity is linked once, for ever", arguments: StoreKind.allCases)
    func link(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        try client.makeUser("A")
        try client.makeUser("B")
        #expect(try client.call("GET", "/v3/identities/u1").status == 404)
        let linked = try client.call("POST", "/v3/identities/u1", #"{"user_id":"A"}"#)
        #expect(linked.status == 201 && linked.body == #"{"id":"u1","user_id":"A"}"#, "\(linked)")
        #expect(try client.call("GET", "/v3/identities/u1").body == #"{"id":"u1","user_id":"A"}"#)
        #expect(
            try client.call("GET", "/v3/users/A").body
                == #"{"id":"A","created":1750000000,"environment":"sandbox","identity_id":"u1"}"#)
        for (path, body, status, message) in UserTests.refused {
            let answer = try client.call("POST", path, body)
            #expect(answer.status == status && answer.body.contains(#""message":"\#(message)"}}"#), "\(answer)")
        }
        #expect(try client.call("GET", "/v3/identities/u2").status == 404, "nothing of that was kept")
    }

    static let refused: [(String, String, Int, String)] = [
        ("/v3/identities/u1", #"{"user_id":"A"}"#, 422, "user already has identity"),
        ("/v3/identities/u2", #"{"user_id":"A"}"#, 422, "user already converted"),
        ("/v3/identities/u1", #"{"user_id":"B"}"#, 422, "identity already exists: it's linked to another user"),
        ("/v3/identities/u1", "{}", 422, "identity already exists: it's linked to another user"),
        ("/v3/identities/u2", #"{"user_id":"nobody"}"#, 400, "user not found"),
    ]

    @Test("without a user one is made", arguments: StoreKind.allCases)
    func makes(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        let answer = try client.call("POST", "/v3/identities/u1", "{}")
        let match = try #require(
            answer.body.firstMatch(of: /^\{"id":"u1","user_id":"(QON_[0-9a-f]{32})"\}$/), "\(answer)")
        #expect(
            try client.call("GET", "/v3/users/\(match.1)").body.contains(
                #""environment":"sandbox","identity_id":"u1"}"#))
        #expect(try client.call("POST", "/v3/identities/u2").status == 201, "a body may be left out")
    }

    @Test(
        "ids are decoded once, exactly",
        arguments: [
            ("a%2Fb", "a/b"), ("a%20x%3Fy", "a x?y"), ("ada%40example.com", "ada@example.com"), ("a%252Fb", "a%2Fb"),
            ("%C3%BC", "ü"), ("a+b", "a+b"), ("ada@example.com", "ada@example.com"), ("%22", "\\\""),
        ])
    func encoded(_ segment: String, _ id: String) throws {
        let client = try AccessClient(.memory)
        #expect(try client.call("POST", "/v3/users/\(segment)", "{}").body.contains(#"{"id":"\#(id)","#))
        let answer = try client.call("POST", "/v3/identities/\(segment)", #"{"user_id":"\#(id)"}"#)
        #expect(answer.body == #"{"id":"\#(id)","user_id":"\#(id)"}"#, "\(answer)")
        #expect(try client.call("GET", "/v3/identities/\(segment)").status == 200)
    }

    @Test("an id that is not encoded ends where HTTP ends it")
    func notEncoded() throws {
        let client = try AccessClient(.memory)
        // The rest would be a parameter of the query, which the call does not have.
        let answer = try client.call("POST", "/v3/identities/x?y", "{}")
        #expect(answer.status == 400 && answer.body.contains(#"no parameter \"y\""#), "\(answer)")
        #expect(try client.call("GET", "/v3/identities/x").status == 404)
        #expect(try client.call("POST", "/v3/identities/a/b", "{}").status == 404)
    }

    @Test("odd ids and bodies are refused with an error object")
    func odd() throws {
        let client = try AccessClient(.memory)
        let long = String(repeating: "x", count: 256)
        for (method, path, body, status) in [
            ("POST", "/v3/users/\(long)", "{}", 400), ("POST", "/v3/users/a%00b", "{}", 400),
            ("POST", "/v3/users/a%0Ab", "{}", 400), ("POST", "/v3/users/%FF", "{}", 400),
            ("POST", "/v3/users/%zz", "{}", 400), ("POST", "/v3/users/a", "{", 400),
            ("POST", "/v3/users/a", "[]", 400), ("POST", "/v3/users/a", #"{"environment":"x"}"#, 400),
            ("POST", "/v3/users/a", #"{"environment":7}"#, 400),
            ("POST", "/v3/identities/a", #"{"user_id":[]}"#, 400),
            ("POST", "/v3/identities/a", #"{"user_id":{}}"#, 400),
            ("POST", "/v3/nothing", "{}", 404), ("GET", "/v3/", nil, 404), ("PATCH", "/v3/users/a", nil, 405),
            ("GET", "/v3/users/", nil, 404),
        ] {
            let answer = try client.call(method, path, body)
            #expect(
                answer.status == status && answer.body.hasPrefix(#"{"error":{"type":"request","code":"invalid_"#),
                "\(method) \(path): \(answer)")
        }
        #expect(try client.call("POST", "/v3/users/\(long.dropLast())", "{}").status == 201)
        // An empty text and null are the same as nothing, and a number is a text.
        #expect(try client.call("POST", "/v3/users/7", #"{"environment":""}"#).status == 201)
        #expect(try client.call("POST", "/v3/users/b", #"{"environment":null}"#).status == 201)
        #expect(try client.call("POST", "/v3/identities/a", #"{"user_id":7}"#).body == #"{"id":"a","user_id":"7"}"#)
        #expect(try client.call("POST", "/v3/identities/b", #"{"user_id":""}"#).status == 201)
    }

    static let keys: [(String, Int)] = [
        ("Bearer PROJECT", 200), ("bearer PROJECT", 200), ("Bearer SECRET", 200), ("Bearer test_PROJECT", 404),
        ("Bearer test_SECRET", 404), ("Bearer nothing", 401), ("Bearer ", 401), ("Basic PROJECT", 401),
        ("Bearer test_", 401), ("Bearer test_test_PROJECT", 401), ("Bearer CLAIM", 401), ("Bearer ADMIN", 401),
    ]

    @Test("keys open their own world", arguments: keys)
    func authentication(_ field: String, _ status: Int) throws {
        let client = try AccessClient(.memory)
        client.world = ""
        try client.makeUser("A")
        let credentials = client.server.credentials
        let value = field.replacing("PROJECT", with: credentials.entitlementsProjectKey)
            .replacing("SECRET", with: credentials.entitlementsSecretKey)
            .replacing("CLAIM", with: credentials.claimClientKey).replacing("ADMIN", with: credentials.adminKey)
        let answer = try client.http.call("GET", "/v3/users/A", fields: [("Authorization", value)])
        #expect(answer.status == status, "\(answer)")
        if status == 401 { #expect(answer.body == UserTests.unauthorized) }
        #expect(try client.http.call("GET", "/v3/users/A").body == UserTests.unauthorized)
    }

    static let unauthorized =
        #"{"error":{"type":"request","code":"control_unauthorized","message":"Authorization error: project not found"}}"#

    @Test("sandbox and production know nothing of each other", arguments: StoreKind.allCases)
    func worlds(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        try client.makeUser("A")
        _ = try client.call("POST", "/v3/identities/u1", #"{"user_id":"A"}"#)
        #expect(try client.purchase("A", client.receipt("X", "1")).status == 201)
        client.world = ""
        #expect(try client.call("GET", "/v3/users/A").status == 404)
        #expect(try client.call("GET", "/v3/identities/u1").status == 404)
        try client.makeUser("A")
        #expect(try client.active("A") == [])
        let refused = try client.purchase("A", client.receipt("X", "2"))
        #expect(refused.status == 422, "receipts for trying are none in production: \(refused)")
        #expect(try client.call("POST", "/v3/identities/u1", #"{"user_id":"A"}"#).status == 201)
        #expect(try client.active("A") == [])
    }

    @Test("a page in a browser may call")
    func browser() throws {
        let client = try AccessClient(.memory)
        let preflight = try client.http.call(
            "OPTIONS", "/v3/users/A",
            fields: [
                ("Origin", "https://app.example.com"), ("Access-Control-Request-Method", "POST"),
                ("Access-Control-Request-Headers", "authorization,platform,platform-version,user-id,content-type"),
            ])
        #expect(preflight.status == 204)
        #expect(preflight["Access-Control-Allow-Origin"] == "https://app.example.com")
        for field in ["Platform", "Platform-Version", "User-Id", "Onym-Device-User", "Onym-Identity"] {
            #expect(preflight["Access-Control-Allow-Headers"]?.contains(field) == true)
        }
        let answer = try client.call("GET", "/v3/users/A", fields: [("Origin", "https://app.example.com")])
        #expect(answer["Access-Control-Allow-Origin"] == "https://app.example.com")
        #expect(answer["X-Request-Id"] != nil)
    }

    @Test("created is in milliseconds where the project wants it", arguments: StoreKind.allCases)
    func milliseconds(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        try client.makeUser("A")
        #expect(try client.administrator("PUT", "/access", #"{"created":"milliseconds"}"#).status == 200)
        #expect(try client.call("GET", "/v3/users/A").body.contains(#""created":1750000000000,"#))
        #expect(try client.makeUser("B").body.contains(#""created":1750000000000,"#))
    }
}
