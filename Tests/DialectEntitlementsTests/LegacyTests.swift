import Foundation
import TestKit
import Testing

/// What shipped mobile SDKs send, and what their readers need (spec/entitlements-live.md 1), on every store.
@Suite("The first two generations of Entitlements")
struct LegacyTests {
    /// A shipped SDK, by the fields and members that it sends.
    enum SDK: String, CaseIterable, Sendable {
        case iOS4 = "4.0.1"
        case iOS6 = "6.13.0"
        case android6 = "6.3.0"
        case android8 = "8.2.4"
        case android9 = "9.6.0"

        var isAndroid: Bool { self != .iOS4 && self != .iOS6 }

        func fields(_ trigger: String) -> [(String, String)] {
            switch self {
            case .iOS4: [("Platform", "ios")]
            case .iOS6: [("Platform", "iOS"), ("Trigger", trigger), ("Source", "rn"), ("Source-Version", "9.0.0")]
            case .android6: [("Platform", "android")]
            case .android8, .android9: [("Platform", "android"), ("Trigger", trigger)]
            }
        }

        func body(_ user: String, _ more: String) -> String {
            isAndroid
                ? #"{"install_date":1700000000,"access_token":"x","q_uid":"\#(user)","version":"\#(rawValue)","debug_mode":"0","receipt":"","device":{"os":"Android","device_id":"d"}\#(more)}"#
                : #"{"install_date":"1700000000","q_uid":"\#(user)","client_uid":"\#(user)","version":"\#(rawValue)","debug_mode":0,"device":{"os":"ios","device_id":"d"}\#(more)}"#
        }
    }

    private func send(
        _ client: AccessClient, _ sdk: SDK, _ path: String, _ user: String, _ more: String = "",
        trigger: String = "Init"
    ) throws -> Wire.Answer {
        try client.call("POST", path, sdk.body(user, more), fields: sdk.fields(trigger))
    }

    private func start(_ client: AccessClient, _ user: String, _ more: String = "", trigger: String = "Init") throws
        -> Wire.Answer
    {
        try send(client, .iOS6, "/v1/user/init", user, more, trigger: trigger)
    }

    private func identify(_ client: AccessClient, _ user: String, _ identity: String) throws -> Wire.Answer {
        try client.call("POST", "/v2/identities", #"{"anon_id":"\#(user)","identity_id":"\#(identity)"}"#)
    }

    // MARK: - Answers

    @Test("a start makes the user, and tells what is sold", arguments: StoreKind.allCases)
    func start(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        let first = try start(client, "QON_A")
        #expect(first.status == 200)
        #expect(
            first.body.hasPrefix(
                #"{"success":true,"data":{"uid":"QON_A","timestamp":1750000000,"permissions":[],"products":[{"id":"X","store_id":"X","type":1,"duration":1},"#
            ),
            "\(first)")
        #expect(
            first.body.hasSuffix(
                #""user_products":[],"offerings":[],"products_permissions":{"X":["X"],"Y":["Y"],"Z":["Z"]}}}"#))
        #expect(!first.body.contains("null"))
        #expect(try start(client, "QON_A").body == first.body)
        // The third generation knows the same user.
        #expect(try client.call("GET", "/v3/users/QON_A").status == 200)
        #expect(
            try client.call("GET", "/v2/users/QON_A").body == #"{"success":true,"data":{"id":"QON_A","uid":"QON_A"}}"#)
        #expect(try client.call("GET", "/v2/users/nobody").body.contains(#""code":10004"#))
    }

    @Test("a launch result can be read as strictly as Android reads it", arguments: SDK.allCases, StoreKind.allCases)
    func launchResult(_ sdk: SDK, _ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        try client.sell("life", #"{"type":"non_consumable","store_id":"store.life","entitlements":["Z"]}"#)
        try client.sell(
            "month",
            #"{"type":"subscription","store_id":"store.month","base_plan":"p1m","duration_seconds":2592000,"entitlements":["Y"]}"#
        )
        try client.administrator("PUT", "/offerings/main", #"{"main":true,"products":["month","life"]}"#)
        for (product, transaction) in [("store.life", "1"), ("store.month", "2")] {
            let receipt = client.receipt(product, transaction)
            let purchase =
                sdk.isAndroid
                ? #","purchase":{"purchase_token":"\#(receipt)","purchase_time":1750000000,"transaction_id":"\#(transaction)","original_transaction_id":"","product":"\#(product)","product_id":"month","context_keys":[],"screen_uid":""}"#
                : #","receipt":"\#(receipt)","purchase":{"product":"\#(product)","currency":"USD","value":"9.99","transaction_id":"\#(transaction)","original_transaction_id":"","period_unit":"2"}"#
            let bought = try send(client, sdk, "/v1/user/purchase", "QON_A", purchase, trigger: "Purchase")
            #expect(bought.status == 200, "\(bought)")
        }
        let renewal = client.receipt("store.month", "3", purchased: client.clock.seconds + 9, original: "2")
        _ = try client.purchase("QON_A", renewal)
        let answer = try send(client, sdk, "/v1/user/init", "QON_A", #","purchases":[]"#)
        let launch = try LaunchReader(answer.body)
        #expect(launch.user == "QON_A" && launch.products["life"] == (sdk == .android8 || sdk == .android9 ? 3 : 2))
        #expect(launch.products["month"] == 1 && launch.offerings == ["main"])
        #expect(launch.active.sorted() == ["Y", "Z"] && launch.associated == ["Y": "month", "Z": "life"])
        #expect(launch.renewals == ["Y": 1, "Z": 0])
        #expect(
            launch.transactionKinds["Z"]
                == [sdk.isAndroid ? "non_consumable_purchase" : "nonconsumable_purchase"])
        #expect(launch.transactionKinds["Y"] == ["subscription_renewed", "subscription_started"])
        #expect(answer.body.contains(#""base_plan_id":"p1m""#))
    }

    @Test("one call identifies, and never conflicts", arguments: StoreKind.allCases)
    func identify(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        for user in ["A", "B"] { _ = try start(client, user) }
        let linked = #"{"success":true,"data":{"anon_id":"A"}}"#
        for user in ["A", "A", "B"] {
            let answer = try identify(client, user, "u1")
            #expect(answer.status == 200 && answer.body == linked, "\(answer)")
        }
        // Another identity on the same phone is another user.
        let other = try identify(client, "A", "u2")
        let made = try #require(other.body.firstMatch(of: /"anon_id":"(QON_[0-9a-f]{32})"/)?.1, "\(other)")
        #expect(try identify(client, "B", "u2").body.contains(made))
        let unknown = try identify(client, "nobody", "u3")
        #expect(unknown.status == 400 && unknown.body.contains(#""data":{"message":"#), "\(unknown)")
        #expect(unknown.body.contains(#""code":10004"#) && unknown.body.contains(#""error":{"type":"#), "\(unknown)")
        #expect(try identify(client, "", "u3").body.contains(#""success":false"#))
    }

    // MARK: - Starts, purchases and restores

    @Test(
        "two installs of one account both see what it paid for, however often each restores",
        arguments: StoreKind.allCases)
    func noPingPong(_ kind: StoreKind) throws {
        let client = try AccessClient(kind, restore: "transfer")
        let receipt = #","receipt":"\#(client.receipt("X", "t1"))""#
        #expect(try start(client, "A", receipt).body.contains(#""id":"X""#), "what is bought comes with a start")
        for user in ["A", "B", "A", "B"] {
            #expect(try start(client, user, receipt, trigger: "Restore").status == 200)
            #expect(try client.active("A") == ["X"])
        }
        #expect(try client.active("B") == ["X"])
    }

    @Test("a start moves nothing, and a restore goes by the project's strategy", arguments: StoreKind.allCases)
    func restores(_ kind: StoreKind) throws {
        for (strategy, holders) in [
            ("copy", ["A", "B"]), ("transfer", ["B"]), ("keep_original", ["A"]), ("transfer_if_inactive", ["A"]),
        ] {
            let client = try AccessClient(kind, restore: strategy)
            let receipt = #","receipt":"\#(client.receipt("X", "t1"))""#
            for (user, identity) in [("A", "u1"), ("B", "u2")] {
                _ = try start(client, user)
                _ = try identify(client, user, identity)
            }
            let purchase = #"\#(receipt),"purchase":{"product":"X","transaction_id":"t1"}"#
            #expect(try send(client, .iOS6, "/v1/user/purchase", "A", purchase).status == 200)
            func holding() throws -> [String] { try ["A", "B"].filter { try client.active($0) == ["X"] } }
            // Neither a launch nor a sync nor a report of a known purchase moves it.
            for (path, trigger) in [
                ("/v1/user/init", "Init"), ("/v1/user/init", "ActualizePermissions"),
                ("/v1/user/init", "SyncHistoricalData"), ("/v1/user/restore", "SyncPurchases"),
            ] {
                let answer = try send(client, .iOS6, path, "B", receipt, trigger: trigger)
                #expect(answer.status == 200 && answer.body.contains(#""uid":"B""#), "\(trigger): \(answer)")
                #expect(try holding() == ["A"], "\(strategy), \(trigger)")
            }
            #expect(try send(client, .iOS6, "/v1/user/purchase", "B", purchase).status == 200)
            #expect(try holding() == ["A"], "\(strategy)")
            let restored = try start(client, "B", receipt, trigger: "Restore")
            #expect(restored.status == 200 && restored.body.contains(#""uid":"B""#), "\(restored)")
            #expect(try holding() == holders, "\(strategy)")
        }
    }

    @Test("Android restores by all tokens of its history", arguments: StoreKind.allCases)
    func history(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        let tokens = [("X", "t1"), ("Y", "t2")].map {
            #"{"product":"\#($0)","purchase_token":"\#(client.receipt($0, $1))","purchase_time":1750000000}"#
        }
        let history = #","history":[\#(tokens.joined(separator: ","))]"#
        for (user, trigger) in [("A", "Restore"), ("B", "SyncPurchases")] {
            let answer = try send(client, .android9, "/v1/user/restore", user, history, trigger: trigger)
            #expect(try LaunchReader(answer.body).active == ["X", "Y"], "\(answer)")
        }
        let wrapped = #","purchases":[{"purchase":{"purchase_token":"\#(client.receipt("X", "t1"))"}}]"#
        #expect(try LaunchReader(send(client, .android9, "/v1/user/init", "C", wrapped).body).active == ["X"])
        let none = try send(client, .android9, "/v1/user/restore", "D", #","history":[]"#, trigger: "Restore")
        #expect(none.status == 200 && none.body.contains(#""permissions":[]"#), "\(none)")
    }

    @Test("an anonymous purchase goes with whoever logs in, and an owner's stays", arguments: StoreKind.allCases)
    func owners(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        let receipt = #","receipt":"\#(client.receipt("X", "t1"))""#
        _ = try start(client, "A", receipt)
        _ = try identify(client, "A", "u1")
        // Another install of the account sees it signed out, and its own identity does not.
        #expect(try start(client, "B", receipt).body.contains(#""id":"X""#))
        #expect(try client.active("A") == ["X"])
        _ = try identify(client, "B", "u2")
        #expect(try start(client, "B", receipt).body.contains(#""permissions":[]"#))
        #expect(try client.active("A") == ["X"])
    }

    @Test("tells for which products a first price is there", arguments: StoreKind.allCases)
    func eligibility(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        for (name, group) in [("week", "g"), ("year", "g"), ("other", "h")] {
            try client.sell(name, #"{"type":"subscription","store_id":"s.\#(name)","group":"\#(group)"}"#)
        }
        try client.sell("coins", #"{"type":"consumable","store_id":"s.coins"}"#)
        _ = try start(client, "A", #","receipt":"\#(client.receipt("s.week", "t1"))""#)
        let asked = ["week", "year", "other", "coins", "unknown"].map { #"{"store_id":"s.\#($0)"}"# }
        let answer = try send(
            client, .iOS6, "/v1/products/get", "A", #","products_local_data":[\#(asked.joined(separator: ","))]"#)
        let words = answer.body.matches(of: /"id":"([a-z]+)"[^}]*},"intro_eligibility_status":"([a-z_]+)"/).map {
            "\($0.1) \($0.2)"
        }
        #expect(
            words == [
                "week intro_or_trial_ineligible", "year intro_or_trial_ineligible", "other intro_or_trial_eligible",
                "coins non_intro_or_trial_product",
            ], "\(answer)")
    }

    @Test("keeps properties and what an advertising network says", arguments: StoreKind.allCases)
    func properties(_ kind: StoreKind) throws {
        let client = try AccessClient(kind)
        let done = #"{"success":true,"data":{}}"#
        #expect(
            try send(client, .iOS4, "/v1/properties", "A", #","properties":{"_q_email":"a@b.c","n":5,"":"x"}"#).body
                == done)
        #expect(
            try client.call("GET", "/v3/users/A/properties").body
                == #"[{"key":"_q_email","value":"a@b.c"},{"key":"n","value":"5"}]"#)
        #expect(
            try send(
                client, .iOS6, "/attribution", "A", #","provider_data":{"provider":"adjust","d":{"a":[1,null]}}"#
            ).body == done)
        let rows = try client.administrator("GET", "/people/sandbox_user_id:A/timeline?kinds=attribution").body
        #expect(rows.contains(#"{"provider":"adjust","d":{"a":[1]}}"#), "\(rows)")
        let large = String(repeating: "x", count: 70_000)
        let refused = try send(client, .iOS6, "/attribution", "A", #","provider_data":{"x":"\#(large)"}"#)
        #expect(refused.status == 413, "\(refused)")
    }

    // MARK: - Refusals

    static let bad: [(String, String, Int, Int)] = [
        ("/v1/user/init", "{", 400, 10007), ("/v1/user/init", "{}", 400, 10004), ("/v1/user/init", "[]", 400, 10007),
        ("/v1/user/init", #"{"q_uid":"","client_uid":null}"#, 400, 10004),
        ("/v1/user/purchase", #"{"q_uid":"A"}"#, 422, 20102),
        ("/v1/user/purchase", #"{"q_uid":"A","purchase":7}"#, 422, 20102),
        ("/v1/user/purchase", #"{"q_uid":"A","receipt":"x.y.z","purchase":{}}"#, 503, 20104),
        ("/v1/user/purchase", #"{"q_uid":"A","purchase":{"purchase_token":"x"}}"#, 503, 20201),
        ("/v1/user/purchase", #"{"q_uid":"A","purchase":{"purchase_token":"onym_receipt_x.y"}}"#, 422, 10008),
        ("/v1/user/restore", #"{"q_uid":"A","history":[{"purchase_token":"onym_receipt_x.y"}]}"#, 422, 20008),
        ("/v1/user/restore", #"{"q_uid":"A","history":[7,{}]}"#, 422, 20008), ("/v2/identities", "{}", 400, 10004),
        ("/v1/user/init", #"{"q_uid":"a\u000ab"}"#, 400, 10004),
    ]

    @Test("refuses in its own words", arguments: bad)
    func refuses(_ path: String, _ body: String, _ status: Int, _ code: Int) throws {
        let client = try AccessClient(.memory)
        let answer = try client.call("POST", path, body)
        #expect(answer.status == status && answer.body.contains(#""code":\#(code),"#), "\(answer)")
        if status == 503 { #expect(answer["Retry-After"] != nil, "\(answer)") }
    }

    @Test("a start succeeds whatever its receipt is, and an unknown user is made by each call")
    func starts() throws {
        let client = try AccessClient(.memory)
        for receipt in ["nonsense", "onym_receipt_x.y", "a.b.c", "MIIB"] {
            #expect(try start(client, "A", #","receipt":"\#(receipt)""#).status == 200, "\(receipt)")
        }
        for (number, path) in ["/v1/user/restore", "/v1/products/get", "/v1/properties", "/attribution"].enumerated() {
            #expect(try send(client, .iOS6, path, "U\(number)").status == 200, "\(path)")
            #expect(try client.call("GET", "/v3/users/U\(number)").status == 200, "\(path)")
        }
    }

    @Test("a call has so many purchases and properties, wherever they are, and one look at its receipt")
    func limits() throws {
        let client = try AccessClient(.memory)
        let receipt = client.receipt("X", "t1")
        func body(_ member: String, _ count: Int) -> String {
            #"{"q_uid":"A","receipt":"\#(receipt)""# + String(repeating: ",\(member)", count: count) + "}"
        }
        for member in [#""purchase":{}"#, #""history":[{},{}]"#, #""purchases":[{"purchase":{}}]"#] {
            let refused = try client.call("POST", "/v1/user/init", body(member, 8_000))
            #expect(refused.status == 400 && refused.body.contains("at most 1000"), "\(refused)")
        }
        #expect(try client.call("POST", "/v1/user/init", body(#""purchase":{}"#, 100)).body.contains(#""id":"X""#))
        let names = (0..<101).map { #""n\#($0)":"x""# }.joined(separator: ",")
        let many = try client.call("POST", "/v1/properties", #"{"q_uid":"A","properties":{\#(names)}}"#)
        #expect(many.status == 400 && many.body.contains("at most 100"), "\(many)")
        let repeated = String(repeating: #""n":"x","#, count: 5_000)
        #expect(
            try client.call("POST", "/v1/properties", #"{"q_uid":"A","properties":{\#(repeated)"n":"y"}}"#).status
                == 200)
        #expect(try client.call("GET", "/v3/users/A/properties").body == #"[{"key":"n","value":"y"}]"#)
    }

    @Test("takes the key from the body, and the user from a field")
    func token() throws {
        let client = try AccessClient(.memory)
        func start(_ token: String) throws -> Wire.Answer {
            try client.http.call("POST", "/v1/user/init", json: #"{"q_uid":"A","access_token":"\#(token)"}"#)
        }
        #expect(try start(client.projectKey).status == 200)
        let refused = try start("nonsense")
        #expect(refused.status == 401 && refused.body.contains(#""code":10003"#), "\(refused)")
        #expect(try client.http.call("POST", "/v1/user/init", json: "{").status == 401)
        let named = try client.call("POST", "/v1/user/init", #"{"q_uid":""}"#, fields: [("User-Id", "F")])
        #expect(named.body.contains(#""uid":"F""#), "\(named)")
    }

    static let empty: [(String, String, Int, String)] = [
        ("GET", "/v3/remote-config", 200, #"{"payload":{}}"#), ("GET", "/v3/remote-configs", 200, "[]"),
        ("GET", "/v3/screens?preload=true", 200, "[]"), ("POST", "/v3/experiments/e/users/A", 200, "{}"),
        ("DELETE", "/v3/experiments/e/users/A", 200, "{}"),
        ("POST", "/v3/remote-configurations/c/users/A", 200, "{}"),
        ("DELETE", "/v3/remote-configurations/c/users/A", 200, "{}"),
        ("POST", "/v3/users/A/screen-events", 200, "{}"), ("GET", "/v3/screens/s", 404, #"{"error":{"#),
        ("GET", "/v3/contexts/c/screens", 404, #"{"error":{"#), ("POST", "/v4/web/redeem", 404, #"{"error":{"#),
        ("POST", "/v4/web/redeem/status", 200, #"{"consumed":false,"expired":true}"#),
        ("POST", "/v4/web/redeem/reissue", 200, "{}"),
        ("GET", "/v3/products/permissions", 200, #"{"products_permissions":{}}"#),
        (
            "GET", "/v3/products/A", 200,
            #"[{"qonversionId":"X","storeId":"X","offeringId":"o","entitlements":["X"]},{"qonversionId":"Y","#
        ),
        ("PUT", "/v3/device/A", 200, #"{"a":1}"#), ("POST", "/v3/device/A", 200, #"{"a":1}"#),
        ("POST", "/v3/appleads/A", 200, #"{"a":1}"#),
        ("POST", "/v1/user/push-token", 200, #"{"success":true,"data":{}}"#),
        ("POST", "/v2/events", 200, #"{"success":true,"data":{}}"#),
        ("POST", "/v2/screens/s/views", 200, #"{"success":true,"data":{}}"#),
        ("GET", "/v2/users/A/action-points", 200, #"{"success":true,"data":{"items":[]}}"#),
        ("GET", "/v2/screens/s", 404, #"{"success":false,"data":{"message":"#),
    ]

    @Test("what Onym does not have is answered so that apps go on", arguments: empty)
    func nothing(_ method: String, _ path: String, _ status: Int, _ start: String) throws {
        let client = try AccessClient(.memory)
        try client.administrator("PUT", "/offerings/o", #"{"products":["X"]}"#)
        let answer = try client.call(method, path, method == "GET" || method == "DELETE" ? nil : #"{"a":1,"b":null}"#)
        #expect(answer.status == status && answer.body.hasPrefix(start), "\(answer)")
        #expect(try client.http.call(method, path, json: "{}").status == 401, "needs a key")
    }
}

/// Reads a launch result as Android does: a missing member or another type is a failure.
struct LaunchReader {
    private(set) var user = ""
    private(set) var products: [String: Int] = [:]
    private(set) var offerings: [String] = []
    private(set) var active: [String] = []
    private(set) var associated: [String: String] = [:]
    private(set) var renewals: [String: Int] = [:]
    private(set) var transactionKinds: [String: [String]] = [:]

    private struct Wrong: Error { let member: String }

    init(_ body: String) throws {
        func member<Value>(_ object: [String: Any], _ name: String, as type: Value.Type = Value.self) throws -> Value {
            guard let value = object[name] as? Value else { throw Wrong(member: "\(name): \(body)") }
            return value
        }
        let answer = try JSONSerialization.jsonObject(with: Data(body.utf8)) as? [String: Any] ?? [:]
        guard try member(answer, "success", as: Bool.self) else { throw Wrong(member: body) }
        let data = try member(answer, "data", as: [String: Any].self)
        user = try member(data, "uid")
        guard try member(data, "timestamp", as: Int.self) > 0 else { throw Wrong(member: "timestamp") }
        _ = try member(data, "user_products", as: [[String: Any]].self)
        _ = try member(data, "products_permissions", as: [String: [String]].self)
        for product in try member(data, "products", as: [[String: Any]].self) {
            _ = try member(product, "store_id", as: String.self)
            products[try member(product, "id")] = try member(product, "type", as: Int.self)
        }
        for offering in try member(data, "offerings", as: [[String: Any]].self) {
            offerings.append(try member(offering, "id"))
            _ = try member(offering, "tag", as: Int.self)
            guard try member(offering, "products", as: [[String: Any]].self).count == 2 else {
                throw Wrong(member: "products of an offering")
            }
        }
        for permission in try member(data, "permissions", as: [[String: Any]].self) {
            let id: String = try member(permission, "id")
            associated[id] = try member(permission, "associated_product", as: String.self)
            let isActive = try member(permission, "active", as: Int.self)
            guard [0, 1].contains(isActive) else { throw Wrong(member: "active") }
            if isActive == 1 { active.append(id) }
            for name in ["renew_state", "started_timestamp"] { _ = try member(permission, name, as: Int.self) }
            for name in ["source", "grant_type"] { _ = try member(permission, name, as: String.self) }
            renewals[id] = try member(permission, "renews_count", as: Int.self)
            for transaction in try member(permission, "store_transactions", as: [[String: Any]].self) {
                for name in ["original_transaction_id", "transaction_id", "environment", "ownership_type"] {
                    _ = try member(transaction, name, as: String.self)
                }
                _ = try member(transaction, "transaction_timestamp", as: Int.self)
                transactionKinds[id, default: []].append(try member(transaction, "type"))
            }
        }
    }
}
