import Foundation
import TestKit
import Testing

/// Restoring purchases (spec/entitlements.md, decision 5, and 2.4 rule 6), on every store.
@Suite("POST /v3/users/{id}/restore")
struct RestoreTests {
    /// A phone whose purchase X is u1's, and on which u2 is signed in now.
    private func phone(
        _ kind: StoreKind, _ strategy: String, _ view: Install.DecisionFacts = .exact
    ) throws -> (client: AccessClient, phone: Install, other: Install) {
        let client = try AccessClient(kind, restore: strategy)
        let (phone, other) = (try Install("A", view, client), try Install("B", view, client))
        try phone.buy("X", "t1")
        try phone.identify("u1")
        try other.identify("u1")
        phone.logOut()
        try phone.identify("u2")
        return (client, phone, other)
    }

    static let strategies: [(String, String, mine: [String], theirs: [String])] = [
        ("copy", #""outcome":"shared""#, ["X"], ["X"]),
        ("transfer", #""outcome":"moved","from":["u1"]"#, ["X"], []),
        ("keep_original", #""outcome":"kept","by":["u1"]"#, [], ["X"]),
        ("transfer_if_inactive", #""outcome":"kept","by":["u1"]"#, [], ["X"]),
    ]

    @Test("goes by the strategy, of the project or of the call", arguments: strategies, Install.DecisionFacts.allCases)
    func strategy(
        _ row: (strategy: String, outcome: String, mine: [String], theirs: [String]), _ view: Install.DecisionFacts
    ) throws {
        for (kind, isCalls) in [(StoreKind.memory, false), (.sqlite, false), (.memory, true), (.sqlite, true)] {
            let (client, phone, other) = try phone(kind, isCalls ? "copy" : row.strategy, view)
            let receipts = [client.receipt("X", "t1")]
            let strategy = isCalls ? row.strategy : nil
            let before = client.server.store.counts
            let dry = try phone.restore(receipts, strategy: strategy, isDryRun: true, isServer: true)
            #expect(
                dry.body
                    == #"{"user_id":"\#(phone.current)","strategy":"\#(row.strategy)","dry_run":true,"transactions":[{"transaction_id":"t1","product_id":"X",\#(row.outcome)}]}"#
            )
            #expect(client.server.store.counts == before, "a dry run changes nothing")
            #expect(try phone.active() == [])
            let answer = try phone.restore(receipts, strategy: strategy, isServer: true)
            #expect(answer.status == 200 && answer.body.contains(row.outcome), "\(answer)")
            #expect(try phone.active() == row.mine)
            #expect(try other.active() == row.theirs)
            // Again: nothing more comes of it.
            let counts = client.server.store.counts
            let again = try phone.restore(receipts, strategy: strategy, isServer: true)
            let outcome = row.mine.isEmpty ? row.outcome : #""outcome":"yours""#
            #expect(again.body.contains(outcome) && !again.body.contains("transfer_id"), "\(again)")
            #expect(client.server.store.counts == counts)
        }
    }

    /// For each strategy of a project, those that give away no more.
    static let allowed: [String: Set<String>] = [
        "copy": ["copy", "keep_original"], "transfer": ["transfer", "transfer_if_inactive", "keep_original"],
        "keep_original": ["keep_original"], "transfer_if_inactive": ["transfer_if_inactive", "keep_original"],
    ]

    @Test(
        "a client's key names no strategy that gives away more than the project's, and is not told whose a purchase is",
        arguments: StoreKind.allCases, allowed.keys.sorted())
    func clientsStrategy(_ kind: StoreKind, _ project: String) throws {
        for (named, outcome, mine, theirs) in Self.strategies {
            for isDryRun in [true, false] {
                let (client, phone, other) = try phone(kind, project)
                let answer = try phone.restore([client.receipt("X", "t1")], strategy: named, isDryRun: isDryRun)
                #expect(!answer.body.contains("u1"), "\(project), \(named): \(answer)")
                let isAllowed = Self.allowed[project]?.contains(named) == true
                #expect(answer.status == (isAllowed ? 200 : 422), "\(project), \(named): \(answer)")
                if isAllowed { #expect(answer.body.contains(outcome.prefix { $0 != "," }), "\(answer)") }
                let isDone = isAllowed && !isDryRun
                #expect(try phone.active() == (isDone ? mine : []))
                #expect(try other.active() == (isDone ? theirs : ["X"]))
            }
        }
    }

    @Test("a dry run tells who would have which access by another strategy", arguments: StoreKind.allCases)
    func strategyDryRun(_ kind: StoreKind) throws {
        let (client, phone, other) = try phone(kind, "keep_original")
        // By what holds u1 keeps it; asked for twice, it is told once.
        for _ in 0..<2 { #expect(try phone.restore([client.receipt("X", "t1")]).body.contains(#""outcome":"kept""#)) }
        let rules = #"{"strategy":{"restore":{"production":"copy","sandbox":"transfer"}}}"#
        let begun = try client.administrator("POST", "/strategy/dry-run", rules)
        func object(_ answer: Wire.Answer) throws -> [String: Any] {
            try JSONSerialization.jsonObject(with: Data(answer.body.utf8)) as? [String: Any] ?? [:]
        }
        let id = try #require(try object(begun)["id"] as? String)
        var answer: [String: Any] = [:]
        try Patience.until {
            answer = try object(try client.administrator("GET", "/strategy/dry-run/\(id)"))
            return answer["state"] as? String == "done"
        }
        let difference = try #require(answer["difference"] as? [String: Any])
        #expect(
            difference["access"] as? [String: Int] == [
                "restores": 1, "answered_otherwise": 1, "people_gaining": 1, "people_losing": 1, "unknown": 0,
            ], "\(answer)")
        let samples = try #require(difference["samples"] as? [String: [[String: Any]]])
        let changes = samples["access"]?.map { "\($0["product"] ?? "") \($0["change"] ?? "")" }
        #expect(changes?.sorted() == ["X gained", "X lost"], "\(answer)")
        let call = try #require(samples["access_calls"]?.first)
        #expect(call["now"] as? String == "kept" && call["then"] as? String == "moved", "\(answer)")
        #expect(try phone.active() == [] && other.active() == ["X"], "nothing that holds has changed")
    }

    @Test("what has run out goes over where only that may", arguments: StoreKind.allCases)
    func inactive(_ kind: StoreKind) throws {
        let (client, phone, other) = try phone(kind, "transfer_if_inactive")
        let receipt = client.receipt("X", "t1")
        client.clock.advance(days: 31)
        let answer = try phone.restore([receipt], isServer: true)
        #expect(answer.body.contains(#""outcome":"moved","from":["u1"]"#), "\(answer)")
        #expect(try phone.active() == [])
        _ = try client.purchase(other.original, client.receipt("X", "t2", original: "t1"))
        #expect(try phone.active() == ["X"], "a renewal is the new owner's")
        #expect(try other.active() == [])
    }

    @Test("takes receipts of some megabytes, as a purchase does")
    func large() throws {
        let client = try AccessClient(.memory)
        try client.makeUser("A")
        let receipt = String(repeating: "x", count: 2 << 20)
        let restored = try client.call("POST", "/v3/users/A/restore", #"{"transactions":["\#(receipt)"]}"#)
        #expect(restored.status == 200 && restored.body.contains(#""outcome":"invalid""#), "\(restored.status)")
        let bought = try client.call(
            "POST", "/v3/users/A/purchases",
            #"{"price":"1","currency":"EUR","purchased":1700000000,"app_store_data":{"receipt":"\#(receipt)"}}"#)
        #expect(bought.status != 413, "\(bought)")
    }

    @Test("an anonymous restore never strips an identity", arguments: StoreKind.allCases, strategies.map(\.0))
    func anonymous(_ kind: StoreKind, _ strategy: String) throws {
        let (client, _, other) = try phone(kind, strategy)
        let new = try Install("C", .exact, client)
        #expect(try new.active() == [])
        let answer = try new.restore([client.receipt("X", "t1")])
        #expect(answer.body.contains(#""outcome":"yours""#), "\(answer)")
        #expect(try new.active() == ["X"], "it is installed anew, with the same store account")
        #expect(try other.active() == ["X"])
        try new.identify("u3")
        #expect(try new.active() == [], "nor is it anybody's who logs in there")
    }

    @Test(
        "merges an anonymous buyer with who restores, where the strategy says so, and not again after an undo",
        arguments: StoreKind.allCases)
    func joinsAnonymous(_ kind: StoreKind) throws {
        let client = try AccessClient(kind, restore: "keep_original")
        let set = try client.administrator("PUT", "/strategy", #"{"restore":{"joins_anonymous":true}}"#)
        #expect(set.status == 200 && set.body.contains(#""joins_anonymous":true"#), "\(set)")
        let (buyer, other) = (try Install("A", .exact, client), try Install("B", .exact, client))
        try buyer.buy("X", "t1")
        try other.identify("zeno")
        func merges(_ user: String) throws -> [[String: Any]] {
            let person = try client.administrator("GET", "/people/\(user)")
            let object = try JSONSerialization.jsonObject(with: Data(person.body.utf8)) as? [String: Any]
            return try #require(object?["merges"] as? [[String: Any]], "\(person)")
        }
        _ = try other.restore([client.receipt("X", "t1")], isDryRun: true)
        #expect(try merges("QON_A").isEmpty)
        for _ in 1...2 {
            _ = try other.restore([client.receipt("X", "t1")])
            #expect(try merges("QON_A").map { $0["rule"] as? String } == ["restore"])
        }
        let merge = try #require(try merges("QON_A").first?["id"] as? String)
        #expect(try client.administrator("POST", "/merges/\(merge)/undo", "{}").status == 200)
        _ = try other.restore([client.receipt("X", "t1")])
        #expect(try merges("QON_A").isEmpty, "the undo parts them for all rules")
        // A known buyer is nobody's.
        let known = try Install("C", .exact, client)
        try known.identify("ada")
        try known.buy("Y", "t2")
        _ = try other.restore([client.receipt("Y", "t2")])
        #expect(try merges("QON_B").isEmpty && merges("QON_C").isEmpty)
    }

    @Test("merges no more anonymous buyers than a group may have", arguments: StoreKind.allCases)
    func joinsWithinBounds(_ kind: StoreKind) throws {
        let client = try AccessClient(kind, restore: "keep_original")
        let set = try client.administrator(
            "PUT", "/strategy", #"{"restore":{"joins_anonymous":true},"group_limits":{"members":3}}"#)
        #expect(set.status == 200, "\(set)")
        for number in 0..<6 { try Install("A\(number)", .exact, client).buy("X", "t\(number)") }
        let other = try Install("B", .exact, client)
        try other.identify("zeno")
        _ = try other.restore((0..<6).map { client.receipt("X", "t\($0)") })
        let person = try client.administrator("GET", "/people/QON_B")
        let object = try JSONSerialization.jsonObject(with: Data(person.body.utf8)) as? [String: Any]
        #expect((object?["members"] as? [String])?.count == 3, "\(person)")
    }

    @Test("tells each transaction apart, and takes what nobody knew", arguments: StoreKind.allCases)
    func each(_ kind: StoreKind) throws {
        let (client, phone, _) = try phone(kind, "transfer")
        let answer = try phone.restore([
            client.receipt("X", "t1"), client.receipt("Y", "t2"), "nonsense", "onym_receipt_x.y",
            client.receipt("Z", "t3", purchased: 1, expires: 2), client.receipt("Y", "t2"),
        ])
        let object = try #require(
            try JSONSerialization.jsonObject(with: Data(answer.body.utf8)) as? [String: Any], "\(answer)")
        let outcomes = (object["transactions"] as? [[String: Any]] ?? []).map { $0["outcome"] as? String }
        // What is over is known from now on, and gives nothing.
        #expect(outcomes == ["moved", "yours", "invalid", "invalid", "yours", "yours"])
        #expect(try phone.active() == ["X", "Y"])
    }

    @Test("both sides are told, and an administrator moves it back", arguments: StoreKind.allCases)
    func undo(_ kind: StoreKind) throws {
        let (client, phone, other) = try phone(kind, "transfer")
        let answer = try phone.restore([client.receipt("X", "t1")])
        let id = try #require(answer.body.firstMatch(of: /"transfer_id":"(t_[0-9]+)"/)?.1, "\(answer)")
        #expect(try client.events("QON_A").first == "entitlement_transferred")
        #expect(try client.events(phone.current) == ["entitlement_transferred"])
        let undone = #""transactions":[{"transaction_id":"t1","product_id":"X","from":["u2"],"to":["u1"]}]}"#
        let dry = try client.administrator("POST", "/transfers/\(id)/undo?dry_run=true")
        #expect(dry.body.hasPrefix(#"{"id":"\#(id)","dry_run":true,\#(undone.dropLast()),"last_seq":"#), "\(dry)")
        #expect(try other.active() == [])
        let seen = try #require(dry.body.firstMatch(of: /"last_seq":([0-9]+)/)?.1)
        let attached = try client.administrator(
            "POST", "/people/sandbox_user_id:QON_A/identities", #"{"type":"facebook","value":"f"}"#)
        #expect(attached.status == 200, "\(attached)")
        let late = try client.administrator("POST", "/transfers/\(id)/undo?if_seq=\(seen)")
        #expect(late.status == 409 && late.body.contains("changed_meanwhile"), "\(late)")
        #expect(
            try client.administrator("POST", "/transfers/\(id)/undo").body
                == #"{"id":"\#(id)","dry_run":false,\#(undone)"#)
        #expect(try other.active() == ["X"])
        #expect(try phone.active() == [])
        #expect(try client.events(phone.current) == ["entitlement_transferred", "entitlement_transferred"])
        for name in [id, "t_1", "t_x", "x"] {
            #expect(try client.administrator("POST", "/transfers/\(name)/undo").status == 404, "\(name)")
        }
    }

    @Test("what has moved on is not moved back", arguments: StoreKind.allCases)
    func outdated(_ kind: StoreKind) throws {
        let (client, phone, other) = try phone(kind, "transfer")
        let receipt = client.receipt("X", "t1")
        let first = try phone.restore([receipt]).body.firstMatch(of: /"transfer_id":"(t_[0-9]+)"/)?.1
        _ = try other.restore([receipt])
        #expect(try other.active() == ["X"])
        let answer = try client.administrator("POST", "/transfers/\(try #require(first))/undo")
        #expect(answer.status == 409, "\(answer)")
        #expect(try other.active() == ["X"])
    }

    static let bad: [(String, Int, String)] = [
        ("{}", 400, "transactions"), (#"{"transactions":{}}"#, 400, "transactions"), ("[]", 400, "the body"),
        (#"{"transactions":[],"strategy":"steal"}"#, 400, "strategy"), (#"{"transactions":[7]}"#, 400, "a transaction"),
        (#"{"transactions":[{}]}"#, 400, "a transaction"), ("", 400, "error"), ("{", 400, "error"),
        (#"{"transactions":[{"app_store_data":{},"stripe_store_data":{}}]}"#, 400, "a transaction"),
        (#"{"transactions":[]}"#, 200, #""transactions":[]"#),
        (#"{"transactions":[{"app_store_data":{"receipt":"x"}}]}"#, 200, #""outcome":"invalid""#),
    ]

    @Test("refuses what is no restore", arguments: bad)
    func refuses(_ body: String, _ status: Int, _ text: String) throws {
        let client = try AccessClient(.memory)
        try client.makeUser("A")
        let answer = try client.call("POST", "/v3/users/A/restore", body)
        #expect(answer.status == status && answer.body.contains(text), "\(answer)")
        let many = Array(repeating: #""x""#, count: 1001).joined(separator: ",")
        #expect(try client.call("POST", "/v3/users/A/restore", #"{"transactions":[\#(many)]}"#).status == 400)
        #expect(try client.call("POST", "/v3/users/B/restore", #"{"transactions":[]}"#).status == 404)
    }
}
