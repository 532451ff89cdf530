import TestKit
import Testing

/// Who may be active, by a project's policy (spec/linking.md, decision 4 and 3.4).
@Suite("Activation policies")
struct PolicyTests {
    static let stores = StoreKind.allCases

    /// A policy, the devices that come one after the other, and which of them are active in the end.
    static let rows: [(policy: String, devices: [String], active: [Int])] = [
        (#""last_wins""#, ["phone", "phone", "phone"], [2]),
        (#""last_wins""#, ["phone", "tablet", "tablet"], [0]),
        (#""last_wins""#, ["tablet", "phone", "tablet"], [1]),
        (#""last_wins","device_order":["phone"]"#, ["phone", "tablet"], [1]),
        (#""last_wins","device_order":["tablet","phone"]"#, ["tablet", "phone"], [0]),
        (#""last_wins","device_order":[]"#, ["phone", "tablet"], [1]),
        (#""first_wins""#, ["phone", "phone", "phone"], [0]),
        (#""first_wins""#, ["tablet", "phone"], [0]),
        (#""n_active","active_limit":2"#, ["phone", "phone", "phone"], [1, 2]),
        (#""n_active","active_limit":2"#, ["phone", "tablet", "phone"], [0, 2]),
        (#""n_active","active_limit":2"#, ["tablet", "phone", "tablet"], [1, 2]),
        (#""n_active","active_limit":2"#, ["phone", "phone", "tablet"], [0, 1]),
        (#""n_active","active_limit":100"#, ["phone", "tablet", "watch", "car"], [0, 1, 2, 3]),
    ]

    @Test("decide who is active", arguments: stores, rows)
    func policies(_ kind: StoreKind, _ row: (policy: String, devices: [String], active: [Int])) throws {
        let client = try LinkingClient(kind)
        let set = try client.activate(row.policy)
        #expect(set.status == 200, "\(set)")
        var installs: [LinkingAnswer] = []
        for device in row.devices {
            client.clock.advance(milliseconds: 1000)
            installs.append(try client.user("e1", device))
        }
        #expect(Set(installs.map(\.user)).count == 1)
        let active = try installs.indices.filter { try client.config(installs[$0].token).isActive == true }
        #expect(active == row.active)
        // Each change of who is active is a new epoch.
        #expect(installs.map(\.epoch) == Array(1...row.devices.count))
    }

    @Test("first_wins: who waits is next, when it asks", arguments: stores)
    func next(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        _ = try client.activate(#""first_wins""#)
        let (first, second) = (try client.user("e1"), try client.user("e1"))
        #expect(second.state == "blocked")
        #expect(try client.config(second.token).isActive == false)
        _ = try client.reset(first.token)
        #expect(try client.config(second.token).state == "active")
        #expect(try client.link(second.install, "e1").status == 200)
    }

    /// A policy with a lower limit, and which of a tablet and three phones stay active.
    static let limits: [(policy: String, active: [Int])] = [
        (#""last_wins""#, [3]), (#""n_active","active_limit":2"#, [2, 3]), (#""first_wins""#, [0]),
    ]

    @Test("a limit that is lowered holds from the next call of any install on", arguments: stores, limits)
    func lowered(_ kind: StoreKind, _ row: (policy: String, active: [Int])) throws {
        let client = try LinkingClient(kind)
        _ = try client.activate(#""n_active","active_limit":4"#)
        let installs = try ["tablet", "phone", "phone", "phone"].map { device in
            client.clock.advance(milliseconds: 1000)
            return try client.user("e1", device)
        }
        _ = try client.activate(row.policy)
        let now = client.clock.now.advanced(byMilliseconds: 1)
        client.clock.advance(milliseconds: 1000)
        let sent = try client.submit(installs[0].token, [("a", now)])
        #expect(sent.isActive == row.active.contains(0), "\(sent)")
        let active = try installs.indices.filter { try client.config(installs[$0].token).isActive == true }
        #expect(active == row.active)
        let waiting = try #require(installs.indices.first { !row.active.contains($0) })
        let config = try client.config(installs[waiting].token)
        #expect(config.state == "blocked" && config.reason == "blocked", "\(config)")
        // It waits, and is no worse off for it once there is room again.
        _ = try client.activate(#""n_active","active_limit":4"#)
        for install in installs { #expect(try client.config(install.token).isActive == true) }
    }

    @Test("a phone that is turned off keeps no tablet waiting, and goes first again when it is back", arguments: stores)
    func turnedOff(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let (phone, tablet) = (try client.user("e1"), try client.user("e1", "tablet"))
        #expect(try client.config(tablet.token).state == "blocked")
        _ = try client.disable(phone.install)
        #expect(try client.config(tablet.token).state == "active")
        _ = try client.disable(phone.install, false)
        #expect(try client.config(phone.token).state == "active")
        #expect(try client.config(tablet.token).state == "blocked")
        // Of two alike the one that was turned off has lost its place to the other.
        _ = try client.disable(phone.install)
        let other = try client.user("e1")
        #expect(other.isActive == true)
        _ = try client.disable(phone.install, false)
        #expect(try client.config(phone.token).state == "blocked")
        #expect(try client.config(other.token).state == "active")
    }

    @Test("one that waits and sends too late is told how many were dropped, not to give up", arguments: stores)
    func tooLate(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        _ = try client.set(#"{"grace_seconds":60}"#)
        let before = client.clock.now.advanced(byMilliseconds: -1)
        let (phone, tablet) = (try client.user("e1"), try client.user("e1", "tablet"))
        client.clock.advance(milliseconds: 60_001)
        let late = try client.submit(tablet.token, [("a", before), ("b", client.clock.now)])
        #expect(late.status == 200 && late.json["dropped"] as? Int == 2 && late.state == "blocked", "\(late)")
        _ = try client.reset(phone.token)
        #expect(try client.config(tablet.token).isActive == true)
        #expect(try client.submit(tablet.token, [("c", client.clock.now)]).json["accepted"] as? Int == 1)
    }

    @Test("what was gathered while it waited is nobody's after it lost its place, too", arguments: stores)
    func silences(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let (phone, tablet) = (try client.user("e1"), try client.user("e1", "tablet"))
        let waiting = client.clock.now.advanced(byMilliseconds: 10)
        client.clock.advance(milliseconds: 1000)
        _ = try client.reset(phone.token)
        #expect(try client.config(tablet.token).isActive == true)
        let active = client.clock.now.advanced(byMilliseconds: 10)
        client.clock.advance(milliseconds: 1000)
        _ = try client.user("e1")
        let gone = client.clock.now.advanced(byMilliseconds: 10)
        let sent = try client.submit(tablet.token, [("a", waiting), ("b", active), ("c", gone)])
        #expect(sent.json["accepted"] as? Int == 1 && sent.json["dropped"] as? Int == 2, "\(sent)")
        #expect(try client.events(of: tablet.user) == ["b"])
    }

    @Test("of very many that wait the first are let go", arguments: stores)
    func waiting(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let phone = try client.user("e1")
        let tablets = try (0..<17).map { _ in try client.user("e1", "tablet") }
        #expect(try client.config(tablets[0].token).state == "deactivated")
        #expect(try client.config(tablets[1].token).state == "blocked")
        #expect(try client.config(phone.token).isActive == true)
    }

    static let refusedPolicies = [
        #"{"activation":"newest"}"#, #"{"activation":"n_active"}"#, #"{"activation":"last_wins","active_limit":2}"#,
        #"{"activation":"n_active","active_limit":0}"#, #"{"activation":"n_active","active_limit":101}"#,
        #"{"active_limit":1}"#, #"{"device_order":["phone"]}"#,
        #"{"activation":"last_wins","device_order":["phone","phone"]}"#,
        #"{"activation":"last_wins","device_order":["fridge"]}"#, #"{"activation":1}"#,
    ]

    @Test("what is no policy is refused, and told where", arguments: refusedPolicies)
    func badPolicies(_ body: String) throws {
        let client = try LinkingClient(.memory)
        let before = try client.administrator("GET", "/onym/v1/strategy").body
        #expect(try client.administrator("PUT", "/onym/v1/strategy", body).status == 400)
        #expect(try client.administrator("GET", "/onym/v1/strategy").body == before)
    }

    @Test("a policy has versions like every rule, and an earlier one comes back", arguments: stores)
    func versions(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        #expect(try client.activate(#""first_wins","device_order":["phone"]"#).json["version"] as? Int == 2)
        #expect(try client.activate(#""first_wins","device_order":["phone"]"#).json["version"] as? Int == 2)
        #expect(try client.administrator("PUT", "/onym/v1/strategy", #"{"preset":"best_match"}"#).status == 200)
        let shown = try client.administrator("GET", "/onym/v1/strategy")
        #expect(
            shown.body.contains(#""activation":"first_wins","active_limit":1,"device_order":["phone"]"#), "\(shown)")
        let (first, second) = (try client.user("e1"), try client.user("e1"))
        #expect(first.isActive == true && second.state == "blocked")
        let back = try client.administrator("POST", "/onym/v1/strategy/rollback", #"{"version":1}"#)
        #expect(back.body.contains(#""activation":"last_wins","active_limit":1,"device_order":["phone","tablet"]"#))
        #expect(try client.user("e1").isActive == true)
        #expect(try client.config(first.token).state == "deactivated")
    }

    @Test("a dry run tells who would have been active", arguments: stores)
    func dryRun(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let (first, second) = (try client.user("e1"), try client.user("e1"))
        _ = try client.submit(second.token, [("a", client.clock.now)])
        let rules = #"{"strategy":{"activation":"first_wins"}}"#
        var answer = try client.administrator("POST", "/onym/v1/strategy/dry-run", rules)
        let id = try #require(answer.json["id"] as? String)
        try Patience.until {
            answer = try client.administrator("GET", "/onym/v1/strategy/dry-run/\(id)")
            return answer.json["state"] as? String == "done"
        }
        let difference = try #require(answer.json["difference"] as? [String: Any])
        #expect(
            difference["installs"] as? [String: Int] == [
                "active_now": 1, "active_then": 1, "otherwise": 2, "displaced_now": 1, "displaced_then": 0,
                "answered_otherwise": 2, "unknown": 0,
            ], "\(answer)")
        let samples = try #require(difference["samples"] as? [String: [[String: Any]]])
        let now = samples["installs"]?.map { "\($0["install_id"] ?? "") \($0["now"] ?? "") \($0["then"] ?? "")" }
        #expect(
            Set(now ?? []) == ["\(first.install) deactivated active", "\(second.install) active blocked"], "\(answer)")
        #expect(samples["install_calls"]?.map { $0["kind"] as? String } == ["redeem_code", "submit_rows"], "\(answer)")
        #expect(try client.config(second.token).isActive == true, "nothing that holds has changed")
    }

    static let refused = [
        #"{"activation":"first_wins"}"#, #"{"active_limit":1}"#, #"{"device_order":["phone"]}"#,
        #"{"code_seconds":59}"#,
        #"{"code_seconds":901}"#, #"{"token_seconds":"600"}"#, #"{"grace_seconds":-1}"#, #"{"apps":{"nothing":{}}}"#,
        #"{"nonsense":1}"#, #"{"apps":{"APP":{"linking":1}}}"#, #"{"apps":{"APP":{"nonsense":true}}}"#, "[]", "{",
    ]

    @Test("what is no setting is refused, and told where", arguments: refused)
    func badSettings(_ body: String) throws {
        let client = try LinkingClient(.memory)
        let body = body.replacing("APP", with: client.server.credentials.linkingAppID)
        let before = try client.administrator("GET", "/onym/v1/linking").body
        #expect(try client.set(body).status == 400)
        #expect(try client.administrator("GET", "/onym/v1/linking").body == before)
    }

    @Test("are kept, and shown", arguments: stores)
    func settings(_ kind: StoreKind) throws {
        let client = try LinkingClient(kind)
        let app = client.server.credentials.linkingAppID
        let standard = try client.administrator("GET", "/onym/v1/linking")
        #expect(
            standard.body
                == #"{"code_seconds":600,"token_seconds":600,"grace_seconds":86400,"apps":{"\#(app)":{"linking":true,"app_secret":true,"require_proof":false,"hide_foreign_installs":false}}}"#
        )
        _ = try client.set(#"{"code_seconds":90,"apps":{"\#(app)":{"app_secret":false}}}"#)
        _ = try client.set(#"{"grace_seconds":0}"#)
        let changed = try client.administrator("GET", "/onym/v1/linking")
        #expect(changed.json["code_seconds"] as? Int == 90 && changed.json["grace_seconds"] as? Int == 0)
        let refused = try client.makeInstall()
        #expect(refused.status == 403 && refused.code == "APP_SECRET_NOT_ACCEPTED")
    }
}
