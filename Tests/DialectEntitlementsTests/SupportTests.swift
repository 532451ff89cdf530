import Foundation
import TestKit
import Testing

/// What support sees of a person's access, and moves.
@Suite("Access for support")
struct SupportTests {
    private func shown(_ client: AccessClient, _ user: String, at: String? = nil) throws -> [String: Any] {
        let query = at.map { "?at=\($0)" } ?? ""
        let answer = try client.administrator("GET", "/people/sandbox_user_id:\(user)/access\(query)")
        #expect(answer.status == 200, "\(answer)")
        return try #require(try JSONSerialization.jsonObject(with: Data(answer.body.utf8)) as? [String: Any])
    }

    private func active(_ shown: [String: Any]) -> [String] {
        (shown["access"] as? [[String: Any]] ?? []).compactMap { $0["entitlement"] as? String }
    }

    private func ended(_ shown: [String: Any]) -> [String] {
        (shown["ended"] as? [[String: Any]] ?? []).map {
            "\($0["entitlement"] ?? "") \($0["why"] ?? "") \($0["to"] ?? "")"
        }
    }

    private func lastCall(_ client: AccessClient, _ user: String) throws -> Int {
        let answer = try client.administrator("GET", "/people/sandbox_user_id:\(user)/journal?limit=1")
        return try #require(answer.body.firstMatch(of: /"seq":([0-9]+)/).flatMap { Int($0.1) }, "\(answer)")
    }

    @Test("tells what a person may use, and why, and why not", arguments: StoreKind.allCases)
    func access(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        let one = try Install("A", .exact, client)
        try one.identify("u1")
        _ = try one.restore([client.receipt("X", "t1")])
        _ = try client.call(
            "POST", "/v3/users/\(one.current)/entitlements", #"{"id":"Y","expires":\#(client.clock.seconds + 100)}"#,
            key: client.secretKey)
        let now = try shown(client, one.current)
        #expect(active(now) == ["X", "Y"], "\(now)")
        let reasons = (now["access"] as? [[String: Any]])?.compactMap { ($0["because"] as? [[String: Any]])?.first }
        #expect(reasons?.map { $0["kind"] as? String } == ["purchase", "grant"])
        #expect(reasons?.map { $0["principal"] as? String } == ["u1", "u1"])
        #expect(reasons?.first?["store_account"] as? String == "appstore:t1", "\(now)")
        #expect(ended(now) == [])
        client.clock.advance(days: 40)
        let later = try shown(client, one.current)
        #expect(active(later) == [] && ended(later) == ["X expired []", "Y expired []"], "\(later)")
    }

    @Test("moves a purchase without a receipt, and takes it back", arguments: StoreKind.allCases)
    func transfer(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        let (one, two) = (try Install("A", .exact, client), try Install("B", .exact, client))
        try one.identify("u1")
        try two.identify("u2")
        _ = try one.restore([client.receipt("X", "t1")])
        let owner = try lastCall(client, one.current)
        let body = #"{"transaction":"t1","to":"sandbox_identity:u2","reason":"she pays"}"#
        let dry = try client.administrator("POST", "/transfers?dry_run=true", body)
        #expect(dry.status == 200 && dry.body.contains(#""id":null"#), "\(dry)")
        #expect(try one.active() == ["X"])
        let moved = try client.administrator("POST", "/transfers", body)
        #expect(
            moved.body.contains(
                #""transactions":[{"transaction_id":"t1","product_id":"X","from":["u1"],"to":["u2"]}]"#),
            "\(moved)")
        #expect(try one.active() == [] && two.active() == ["X"])
        let (loser, winner) = (try shown(client, one.current), try shown(client, two.current))
        #expect(active(loser) == [] && ended(loser).first?.hasPrefix("X transferred") == true, "\(loser)")
        #expect(ended(loser).count == 1 && ended(loser)[0].contains("u2"), "\(loser)")
        let because = ((winner["access"] as? [[String: Any]])?.first?["because"] as? [[String: Any]])?.first
        #expect(active(winner) == ["X"] && because?["moved_by"] as? String == "transfer", "\(winner)")
        #expect(active(try shown(client, one.current, at: "seq:\(owner)")) == ["X"], "as it was then")

        let call = try lastCall(client, two.current)
        let undone = try client.administrator("POST", "/calls/\(call)/undo", "{}")
        #expect(undone.status == 200, "\(undone)")
        #expect(try one.active() == ["X"] && two.active() == [])
        #expect(try client.events(one.current).first == "entitlement_transferred")
        let again = try client.administrator("POST", "/transfers", body)
        let id = try #require(again.body.firstMatch(of: /"id":"(t_[0-9]+)"/)?.1, "\(again)")
        #expect(try client.administrator("POST", "/transfers/\(id)/undo").status == 200)
        #expect(try one.active() == ["X"] && two.active() == [])
    }

    @Test("a grant is taken back, and its end too", arguments: StoreKind.allCases)
    func grants(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        try client.makeUser("A")
        _ = try client.call("POST", "/v3/users/A/entitlements", #"{"id":"X"}"#, key: client.secretKey)
        let granted = try lastCall(client, "A")
        _ = try client.call("POST", "/v3/users/A/entitlements", #"{"id":"Y"}"#, key: client.secretKey)
        #expect(try client.active("A") == ["X", "Y"])
        #expect(try client.administrator("POST", "/calls/\(granted)/undo", "{}").status == 200)
        #expect(try client.active("A") == ["Y"])
        let undo = try lastCall(client, "A")
        #expect(try client.administrator("POST", "/calls/\(undo)/undo", "{}").status == 200)
        #expect(try client.active("A") == ["X", "Y"])
        #expect(try client.events("A").prefix(2) == ["entitlement_granted", "entitlement_lost"])
    }

    static let bad: [(String, Int, String)] = [
        ("{}", 400, "required"), (#"{"transaction":"t1"}"#, 400, "required"),
        (#"{"transaction":"none","to":"sandbox_user_id:A"}"#, 404, "purchase"),
        (#"{"transaction":"t1","to":"sandbox_user_id:nobody"}"#, 404, "person"),
        (#"{"transaction":"t1","to":"sandbox_user_id:B"}"#, 409, "no_identity"),
        (#"{"transaction":"playstore:t1","to":"sandbox_user_id:A"}"#, 404, "purchase"),
        (#"{"transaction":"t1","to":"sandbox_user_id:A","why":"x"}"#, 400, "why"),
    ]

    @Test("refuses what is no transfer", arguments: bad)
    func refuses(_ body: String, _ status: Int, _ text: String) throws {
        let client = try AccessClient(.memory)
        try client.makeUser("A")
        try client.makeUser("B")
        _ = try client.purchase("A", client.receipt("X", "t1"))
        let answer = try client.administrator("POST", "/transfers", body)
        #expect(answer.status == status && answer.body.contains(text), "\(answer)")
    }
}
