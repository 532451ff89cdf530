import TestKit
import Testing

/// `POST /v1/identity/claim` (spec/claim.md 1.3, 4.1), on every store.
@Suite("POST /v1/identity/claim")
struct ClaimTests {
    private static let anonymous = "owl_anon_1"

    @Test("gives the events of an anonymous id to a user, once", arguments: StoreKind.allCases)
    func claims(_ kind: StoreKind) throws {
        let client = try OwlClient(kind)
        let sent = try client.ingest([OwlClient.event("owl_anon_1", "a"), OwlClient.event("owl_anon_1", "b")])
        #expect(sent.body == #"{"accepted":2,"rejected":0}"#)
        let answer = try client.claim("owl_anon_1", "ada")
        #expect(answer.status == 200)
        #expect(answer.body == #"{"claimed":true,"events_reassigned_count":2}"#)
        #expect(try client.messages("ada") == ["b", "a"])
        #expect(try client.claim("owl_anon_1", "ada").body == #"{"claimed":true,"events_reassigned_count":0}"#)
        // What comes in later is the user's at once, by either id.
        _ = try client.ingest([OwlClient.event("owl_anon_1", "late"), OwlClient.event("ada", "own")])
        #expect(try client.messages("ada") == ["own", "late", "b", "a"])
        #expect(try client.messages("owl_anon_1") == ["own", "late", "b", "a"])
    }

    @Test("takes any of the four cases", arguments: StoreKind.allCases)
    func cases(_ kind: StoreKind) throws {
        for (anonymousIsThere, userIsThere) in [(true, true), (true, false), (false, true), (false, false)] {
            let client = try OwlClient(kind)
            if anonymousIsThere { _ = try client.ingest([OwlClient.event("owl_anon_1", "a")]) }
            if userIsThere { _ = try client.ingest([OwlClient.event("ada", "u")]) }
            let count = anonymousIsThere ? 1 : 0
            #expect(
                try client.claim("owl_anon_1", "ada").body == #"{"claimed":true,"events_reassigned_count":\#(count)}"#)
            let person = try client.person("ada")
            #expect((person["members"] as? [String])?.count == 2)
            #expect(person["id"] as? String == person["root"] as? String, "the known user is the one that is shown")
            #expect(try client.messages("ada") == (userIsThere ? ["u"] : []) + (anonymousIsThere ? ["a"] : []))
        }
    }

    @Test("never makes two known users one", arguments: StoreKind.allCases)
    func conflict(_ kind: StoreKind) throws {
        let client = try OwlClient(kind)
        _ = try client.ingest([OwlClient.event("owl_anon_1", "a")])
        #expect(try client.claim("owl_anon_1", "ada").status == 200)
        let before = client.server.store.counts
        let second = try client.claim("owl_anon_1", "bob")
        #expect(second.status == 409)
        #expect(second.body == #"{"error":"anonymous_id is already claimed by another user"}"#)
        let after = client.server.store.counts
        #expect(after.people == before.people && after.merges == 1)
        #expect(after.lastSequence == before.lastSequence.next, "the refusal is journalled")
        #expect(try client.messages("ada") == ["a"])
    }

    @Test("one user may claim many", arguments: StoreKind.allCases)
    func many(_ kind: StoreKind) throws {
        let client = try OwlClient(kind)
        for number in 0..<20 {
            _ = try client.ingest([OwlClient.event("owl_anon_\(number)", "m\(number)")])
            #expect(try client.claim("owl_anon_\(number)", "ada").body.contains("count\":1}"))
        }
        #expect(try client.messages("ada").count == 20)
        #expect((try client.person("ada")["members"] as? [String])?.count == 21)
    }

    static let refused: [(String, String)] = [
        (#"{}"#, "anonymous_id is required"), (#"{"anonymous_id":""}"#, "anonymous_id is required"),
        (#"{"anonymous_id":1,"user_id":"u"}"#, "anonymous_id is required"), ("[]", "anonymous_id is required"),
        (#""text""#, "anonymous_id is required"), ("null", "anonymous_id is required"),
        (#"{"anonymous_id":"owl_anon_1"}"#, "user_id is required"),
        (#"{"anonymous_id":"owl_anon_1","user_id":""}"#, "user_id is required"),
        (#"{"anonymous_id":"OWL_ANON_1","user_id":"u"}"#, #"anonymous_id must start with \"owl_anon_\""#),
        (#"{"anonymous_id":"owl_anon_1","user_id":"owl_anon_2"}"#, "user_id must not start with anonymous prefix"),
        (#"{"anonymous_id":"owl_anon_1","user_id":"\u0000"}"#, "user_id must not hold a NUL character"),
    ]

    @Test("refuses what is no claim, in the vendor's words", arguments: refused)
    func refuses(_ body: String, _ message: String) throws {
        let client = try OwlClient(.memory)
        let answer = try client.call("POST", "/v1/identity/claim", body)
        #expect(answer.status == 400 && answer.body.contains(message), "\(answer)")
        #expect(answer.body.hasPrefix(#"{"error":""#))
    }

    @Test(
        "says what is missing where there is no body at all",
        arguments: [
            ("/v1/identity/claim", "anonymous_id is required"), ("/v1/identity/properties", "user_id is required"),
            ("/v1/ingest", "events array is required"), ("/v1/feedback", "message is required"),
        ])
    func nothing(_ path: String, _ message: String) throws {
        let answer = try OwlClient(.memory).call("POST", path)
        #expect(answer.status == 400 && answer.body == #"{"error":"\#(message)"}"#, "\(answer)")
    }

    @Test(
        "takes odd ids",
        arguments: [
            "owl_anon_", "owl_anon_ with spaces", "owl_anon_ü", "owl_anon_" + String(repeating: "x", count: 300),
        ])
    func odd(_ anonymous: String) throws {
        let client = try OwlClient(.sqlite)
        #expect(try client.claim(anonymous, " ").status == 200)
        let long = String(repeating: "u", count: 256)
        let answer = try client.claim(anonymous, long)
        #expect(answer.status == 400 && answer.body == #"{"error":"user_id must have at most 255 characters"}"#)
    }

    @Test("tells a broken body before it asks for a key")
    func bodyFirst() throws {
        let client = try OwlClient(.memory)
        let path = "/v1/identity/claim"
        let broken = try client.http.call("POST", path, json: "{")
        #expect(broken.status == 400 && broken.body.contains(#""code":"FST_ERR_CTP_INVALID_JSON_BODY""#))
        #expect(try client.http.call("POST", path, json: "").body.contains("FST_ERR_CTP_EMPTY_JSON_BODY"))
        #expect(try client.http.call("POST", path, json: "{}").body == #"{"error":"Missing authorization"}"#)
        let media = try client.http.call("POST", path, fields: [("Content-Type", "text/csv")], body: Array("a".utf8))
        #expect(media.status == 415 && media.body.contains("FST_ERR_CTP_INVALID_MEDIA_TYPE"))
        #expect(try client.call("GET", path).status == 404)
    }

    static let keys: [(String, Int, String)] = [
        ("Basic x", 401, "Invalid authorization format"), ("bearer owl_client_1", 401, "Invalid authorization format"),
        ("Bearer  owl_client_1", 401, "Invalid or expired token"), ("Bearer owl_client_00", 401, "Invalid API key"),
        ("Bearer eyJhbGciOi", 401, "Invalid or expired token"),
        ("Bearer AGENT", 403, "Missing permission: events:write"),
        ("Bearer IMPORT", 200, "claimed"),
    ]

    @Test("takes keys as the vendor does", arguments: keys)
    func authentication(_ field: String, _ status: Int, _ text: String) throws {
        let client = try OwlClient(.memory)
        let credentials = client.server.credentials
        let field = field.replacing("AGENT", with: credentials.claimAgentKey)
            .replacing("IMPORT", with: credentials.claimImportKey)
        let answer = try client.http.call(
            "POST", "/v1/identity/claim", fields: [("Authorization", field)],
            json: #"{"anonymous_id":"owl_anon_1","user_id":"u"}"#)
        #expect(answer.status == status && answer.body.contains(text), "\(answer)")
    }

    @Test("can be undone, and each side has what came by its own id", arguments: StoreKind.allCases)
    func undo(_ kind: StoreKind) throws {
        let client = try OwlClient(kind)
        _ = try client.ingest([OwlClient.event("owl_anon_1", "a"), OwlClient.event("ada", "u")])
        _ = try client.properties("owl_anon_1", #"{"plan":"free","from":"web"}"#)
        _ = try client.properties("ada", #"{"plan":"pro"}"#)
        _ = try client.claim("owl_anon_1", "ada")
        #expect(
            try client.properties("ada", "{}").body == #"{"updated":true,"properties":{"from":"web","plan":"pro"}}"#)
        _ = try client.ingest([OwlClient.event("owl_anon_1", "late")])
        let merges = try client.person("ada")["merges"] as? [[String: Any]]
        let id = try #require(merges?.first?["id"] as? String)
        let undone = try client.call(
            "POST", "/onym/v1/merges/\(id)/undo", "{}", key: client.server.credentials.adminKey)
        #expect(undone.status == 200, "\(undone)")
        #expect(try client.messages("ada") == ["u"])
        #expect(try client.messages("owl_anon_1") == ["late", "a"])
        #expect(try client.properties("owl_anon_1", "{}").body.contains(#""plan":"free""#))
        #expect(try client.properties("ada", "{}").body == #"{"updated":true,"properties":{"plan":"pro"}}"#)
        // Now another may claim it.
        #expect(try client.claim("owl_anon_1", "bob").body.contains("count\":2}"))
    }
}
