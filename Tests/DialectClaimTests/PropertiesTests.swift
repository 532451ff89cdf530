import TestKit
import Testing

/// `POST /v1/identity/properties` (spec/claim.md 1.4, 4.1), on every store.
@Suite("POST /v1/identity/properties")
struct PropertiesTests {
    @Test("sets, replaces and takes away, and answers all of them", arguments: StoreKind.allCases)
    func sets(_ kind: StoreKind) throws {
        let client = try OwlClient(kind)
        #expect(
            try client.properties("ada", #"{"plan":"free","a":"1"}"#).body
                == #"{"updated":true,"properties":{"a":"1","plan":"free"}}"#)
        #expect(
            try client.properties("ada", #"{"plan":"pro"}"#).body
                == #"{"updated":true,"properties":{"a":"1","plan":"pro"}}"#)
        #expect(
            try client.properties("ada", #"{"a":"","b":"2"}"#).body
                == #"{"updated":true,"properties":{"b":"2","plan":"pro"}}"#)
        #expect(try client.properties("ada", "{}").body == #"{"updated":true,"properties":{"b":"2","plan":"pro"}}"#)
    }

    @Test("makes nobody of what takes nothing away", arguments: StoreKind.allCases)
    func nobody(_ kind: StoreKind) throws {
        let client = try OwlClient(kind)
        for properties in ["{}", #"{"a":""}"#] {
            #expect(try client.properties("ada", properties).body == #"{"updated":true,"properties":{}}"#)
        }
        #expect(client.server.store.counts.people == 0)
        #expect(try client.properties("owl_anon_1", #"{"a":"1"}"#).status == 200)
        #expect(client.server.store.counts.people == 1)
    }

    @Test("of several properties with one name the last counts, be they few or very many", arguments: [2, 40, 50_000])
    func lastCounts(_ count: Int) throws {
        let client = try OwlClient(.memory)
        let many = (0..<count).map { #""n\#($0 % (count / 2))":"\#($0)""# }.joined(separator: ",")
        let answer = try client.properties("ada", "{\(many)}")
        #expect(answer.status == (count > 100 ? 400 : 200), "\(answer)")
        if count <= 100 { #expect(answer.body.contains(#""n0":"\#(count / 2)""#), "\(answer)") }
    }

    static let refused: [(String, String)] = [
        ("{}", "user_id is required"), (#"{"user_id":7,"properties":{}}"#, "user_id is required"),
        (#"{"user_id":"u"}"#, "properties must be an object"),
        (#"{"user_id":"u","properties":null}"#, "properties must be an object"),
        (#"{"user_id":"u","properties":[]}"#, "properties must be an object"),
        (#"{"user_id":"u","properties":"a"}"#, "properties must be an object"),
        (#"{"user_id":"u","properties":{"":"a"}}"#, "Property keys must be non-empty strings"),
        (#"{"user_id":"u","properties":{"\#(String(repeating: "k", count: 51))":"a"}}"#, "exceeds max length of 50"),
        (#"{"user_id":"u","properties":{"k":1}}"#, #"Property value for \"k\" must be a string"#),
        (#"{"user_id":"u","properties":{"k":null}}"#, #"Property value for \"k\" must be a string"#),
        (
            #"{"user_id":"u","properties":{"k":"\#(String(repeating: "v", count: 201))"}}"#,
            #"Property value for \"k\" exceeds max length of 200"#
        ),
    ]

    @Test("refuses what is none, in the vendor's words, and keeps nothing of it", arguments: refused)
    func refuses(_ body: String, _ message: String) throws {
        let client = try OwlClient(.memory)
        let answer = try client.call("POST", "/v1/identity/properties", body)
        #expect(answer.status == 400 && answer.body.contains(message), "\(answer)")
        #expect(client.server.store.counts.people == 0)
    }

    @Test("counts lengths as the vendor's language does", arguments: StoreKind.allCases)
    func units(_ kind: StoreKind) throws {
        let client = try OwlClient(kind)
        let emoji = String(repeating: "😀", count: 100)
        #expect(try client.properties("ada", #"{"k":"\#(emoji)"}"#).status == 200)
        #expect(try client.properties("ada", #"{"k":"\#(emoji)x"}"#).status == 400)
    }

    @Test("turns away more than fifty before anything is kept", arguments: StoreKind.allCases)
    func limit(_ kind: StoreKind) throws {
        let client = try OwlClient(kind)
        func properties(_ range: Range<Int>) -> String {
            "{\(range.map { "\"k\($0)\":\"v\"" }.joined(separator: ","))}"
        }
        #expect(try client.properties("ada", properties(0..<50)).status == 200)
        let refused = try client.properties("ada", #"{"new":"v","k0":"changed"}"#)
        #expect(refused.status == 400)
        #expect(refused.body == #"{"error":"Total properties count exceeds max of 50"}"#)
        #expect(try client.properties("ada", "{}").body.contains(#""k0":"v""#))
        // One goes and one comes.
        #expect(try client.properties("ada", #"{"k0":"","new":"v"}"#).status == 200)
        // A claim may bring more; then what adds none still works.
        #expect(try client.properties("owl_anon_1", properties(100..<140)).status == 200)
        #expect(try client.claim("owl_anon_1", "ada").status == 200)
        #expect(try client.properties("ada", #"{"new":"w"}"#).status == 200)
        #expect(try client.properties("ada", #"{"another":"w"}"#).status == 400)
    }

    @Test("fold over a claim: the known user's go first, then the newest", arguments: StoreKind.allCases)
    func fold(_ kind: StoreKind) throws {
        let client = try OwlClient(kind)
        _ = try client.properties("ada", #"{"both":"known","mine":"1"}"#)
        _ = try client.properties("owl_anon_1", #"{"both":"anonymous","other":"2"}"#)
        _ = try client.claim("owl_anon_1", "ada")
        let all = #"{"updated":true,"properties":{"both":"known","mine":"1","other":"2"}}"#
        #expect(try client.properties("ada", "{}").body == all)
        // By a stale id it is the same user.
        #expect(try client.properties("owl_anon_1", "{}").body == all)
    }

    @Test("asks for the permission to write users")
    func permission() throws {
        let client = try OwlClient(.memory)
        let agent = client.server.credentials.claimAgentKey
        let answer = try client.call(
            "POST", "/v1/identity/properties", #"{"user_id":"u","properties":{}}"#, key: agent)
        #expect(answer.status == 403)
        #expect(answer.body == #"{"error":"Client or import key required for identity calls"}"#)
    }
}
