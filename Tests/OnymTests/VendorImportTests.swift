import ClientKit
import Foundation
import Onym
import Testing

/// What a vendor's SDK may have left on a device, and who the user is after the app has changed to this SDK.
struct LeftBehind: CustomTestStringConvertible, Sendable {
    let testDescription: String
    let store: MemoryVendorStore
    /// What is known then, in words that a test finds out.
    let expected: [String]
    let kept: Int
    let skipped: Int

    init(
        _ name: String, _ store: MemoryVendorStore, kept: Int, skipped: Int = 0, _ expected: String...
    ) {
        (testDescription, self.store, self.expected) = (name, store, expected)
        (self.kept, self.skipped) = (kept, skipped)
    }
}

extension LeftBehind {
    private static let stamp: JSON = "1A2B3C4D-0000-4000-8000-ABCDEFABCDEF"

    private static func mParticle(_ values: [String: JSON], group: [String: JSON]? = nil) -> MemoryVendorStore {
        func named(_ values: [String: JSON]) -> [String: JSON] {
            Dictionary(values.map { ("mParticle::\($0.key)", $0.value) }, uniquingKeysWith: { $1 })
        }
        return MemoryVendorStore(named(values), suites: group.map { ["group.a": named($0)] } ?? [:])
    }

    private static func name(_ number: Int64, _ value: JSON) -> JSON { ["n": .integer(number), "i": value, "dfs": 1] }

    static let mParticle: [LeftBehind] = [
        LeftBehind("nothing", mParticle([:]), kept: 0, "stamp own", "current none"),
        LeftBehind(
            "a stamp alone", mParticle(["dast": stamp]), kept: 1, "stamp 1A2B3C4D-0000-4000-8000-ABCDEFABCDEF",
            "current none"),
        LeftBehind(
            "a user", mParticle(["dast": stamp, "mpid": 5]), kept: 2, "stamp 1A2B3C4D-0000-4000-8000-ABCDEFABCDEF",
            "current 5", "users 5"),
        LeftBehind("a negative MPID", mParticle(["mpid": .integer(.min)]), kept: 1, "current \(Int64.min)"),
        LeftBehind("an MPID that is a number of JSON's", mParticle(["mpid": 5.0]), kept: 1, "current 5"),
        LeftBehind("an MPID of zero", mParticle(["mpid": 0]), kept: 0, skipped: 1, "current none"),
        LeftBehind("an MPID that is a text", mParticle(["mpid": "5"]), kept: 0, skipped: 1, "current none"),
        LeftBehind("an MPID that is a list", mParticle(["mpid": [5]]), kept: 0, skipped: 1, "current none"),
        LeftBehind("a stamp that is a number", mParticle(["dast": 1]), kept: 0, skipped: 1, "stamp own"),
        LeftBehind("a stamp that is empty", mParticle(["dast": ""]), kept: 0, skipped: 1, "stamp own"),
        LeftBehind(
            "names", mParticle(["mpid": 5, "5::ui": [name(1, "ada"), name(7, "a@x"), name(19, "+1")]]), kept: 4,
            "names customerid=ada email=a@x mobile_number=+1"),
        LeftBehind(
            "names of the device", mParticle(["mpid": 5, "5::ui": [name(22, "idfa"), name(25, "s"), name(1, "ada")]]),
            kept: 2, "names customerid=ada"),
        LeftBehind(
            "names of no type, or without a value",
            mParticle(["mpid": 5, "5::ui": [name(8, "x"), name(26, "x"), name(-1, "x"), name(1, ""), name(1, 3), 7]]),
            kept: 1, skipped: 6, "names "),
        LeftBehind("names that are no list", mParticle(["mpid": 5, "5::ui": "x"]), kept: 1, skipped: 1, "names "),
        LeftBehind(
            "attributes", mParticle(["mpid": 5, "5::ua": ["plan": "pro", "n": 3, "l": ["a"]]]), kept: 2,
            "attributes l n plan"),
        LeftBehind(
            "attributes that are a text", mParticle(["mpid": 5, "5::ua": "x"]), kept: 1, skipped: 1, "attributes "),
        LeftBehind(
            "when a user was seen", mParticle(["mpid": 5, "5::fsu": 1_700_000_000_000, "5::lsu": 1_750_000_000_000]),
            kept: 3, "first 1700000000"),
        LeftBehind(
            "a time that is none", mParticle(["mpid": 5, "5::fsu": "x", "5::lsu": -1]), kept: 1, skipped: 2,
            "first 1800000000"),
        LeftBehind(
            "two users",
            mParticle([
                "mpid": 5, "5::lsu": 1_750_000_000_000, "-6::lsu": 1_740_000_000_000, "-6::ui": [name(1, "bob")],
                "-6::is_ephemeral": 1,
            ]), kept: 5, "current 5", "users 5 -6"),
        LeftBehind(
            "users, and none who is the current one", mParticle(["6::ui": [name(1, "bob")]]), kept: 1, "current none",
            "users 6"),
        LeftBehind(
            "a consent", mParticle(["mpid": 5, "5::consent_state": "{\"gdpr\":{}}"]), kept: 2, "notes consent_state"),
        LeftBehind(
            "somebody who has opted out", mParticle(["dast": stamp, "mpid": 5, "s": 1]), kept: 3, "out", "current none",
            "stamp own"),
        LeftBehind("somebody who has opted in again", mParticle(["mpid": 5, "s": 0]), kept: 2, "in", "current 5"),
        LeftBehind(
            "a group, which comes before the app's own",
            mParticle(
                ["sgi": "group.a", "dast": "old", "mpid": 1],
                group: ["dast": stamp, "mpid": 5, "5::ui": [name(1, "ada")]]),
            kept: 3, "stamp 1A2B3C4D-0000-4000-8000-ABCDEFABCDEF", "current 5", "names customerid=ada"),
        LeftBehind(
            "a group with nothing in it", mParticle(["sgi": "group.a", "mpid": 1]), kept: 1, "current 1"),
        LeftBehind(
            "keys of another kind", mParticle(["mpid": 5, "x::ui": [], "5::ui::z": 1, "0::ua": [:]]), kept: 1, "users 5"
        ),
    ]

    private static func qonversion(_ values: [String: JSON], own: [String: JSON] = [:]) -> MemoryVendorStore {
        func named(_ values: [String: JSON]) -> [String: JSON] {
            Dictionary(values.map { ("com.qonversion.keys.\($0.key)", $0.value) }, uniquingKeysWith: { $1 })
        }
        return MemoryVendorStore(suites: ["qonversion.localstorage.main": named(values), "group.a": named(own)])
    }

    static let qonversion: [LeftBehind] = [
        LeftBehind("nothing", qonversion([:]), kept: 0, "device own", "current own", "identity none"),
        LeftBehind(
            "a device", qonversion(["originalUserID": "QON_a", "storedUserID": "QON_a"]), kept: 2, "device QON_a",
            "current QON_a", "identity none", "created"),
        LeftBehind(
            "somebody logged in",
            qonversion(["originalUserID": "QON_a", "storedUserID": "QON_b", "identityUserID": "ada"]), kept: 3,
            "device QON_a", "current QON_b", "identity ada", "new"),
        LeftBehind(
            "another user without an identity, whom nothing leads to",
            qonversion(["originalUserID": "QON_a", "storedUserID": "QON_b", "identityUserID": 7]), kept: 2, skipped: 1,
            "device QON_a", "current QON_a", "identity none", "created"),
        LeftBehind(
            "a stored user alone", qonversion(["storedUserID": "QON_b"]), kept: 1, "device QON_b", "current QON_b"),
        LeftBehind(
            "an original user alone", qonversion(["originalUserID": "QON_a"]), kept: 1, "device QON_a",
            "current QON_a"),
        LeftBehind(
            "wrong types", qonversion(["originalUserID": 7, "storedUserID": [:], "identityUserID": ""]), kept: 0,
            skipped: 3, "device own", "current own", "identity none"),
        LeftBehind(
            "an app's own suite, which comes first",
            qonversion(["originalUserID": "QON_old"], own: ["originalUserID": "QON_a", "storedUserID": "QON_a"]),
            kept: 2,
            "device QON_a"),
    ]

    private static let anonymous = "owl_anon_1A2B3C4D-0000-4000-8000-ABCDEFABCDEF"
    private static let attribution = "owlmetry.attribution.apple-search-ads."

    private static func owlmetry(
        _ values: [String: JSON] = [:], anonymous: String? = anonymous, queue: String? = nil
    ) -> MemoryVendorStore {
        MemoryVendorStore(
            values, keychain: anonymous.map { ["com.owlmetry.sdk/anonymousId": $0] } ?? [:],
            files: queue.map { [.applicationSupport("Owlmetry/offline_queue.json"): Array($0.utf8)] } ?? [:])
    }

    private static func event(_ id: Int, _ user: String?) -> String {
        let owner = user.map { ",\"user_id\":\"\($0)\"" } ?? ""
        return
            "{\"client_event_id\":\"e\(id)\",\"message\":\"m\(id)\",\"timestamp\":\"2027-01-15T07:00:0\(id).000Z\"\(owner)}"
    }

    static let owlmetry: [LeftBehind] = [
        LeftBehind("nothing", owlmetry(anonymous: nil), kept: 0, "user own", "anonymous own"),
        LeftBehind("nobody known", owlmetry(), kept: 1, "user \(anonymous)", "anonymous \(anonymous)"),
        LeftBehind(
            "somebody known", owlmetry(["owlmetry.userId": "ada"]), kept: 2, "user ada", "anonymous \(anonymous)",
            "sends claim"),
        LeftBehind(
            "somebody known, and no keychain", owlmetry(["owlmetry.userId": "ada"], anonymous: nil), kept: 1,
            "user ada", "anonymous own", "sends claim"),
        LeftBehind("an anonymous id that is none", owlmetry(anonymous: "x"), kept: 0, skipped: 1, "anonymous own"),
        LeftBehind(
            "a user of the wrong type", owlmetry(["owlmetry.userId": 7]), kept: 1, skipped: 1, "user \(anonymous)"),
        LeftBehind(
            "a user who is anonymous", owlmetry(["owlmetry.userId": "owl_anon_x"]), kept: 1, skipped: 1,
            "user \(anonymous)"),
        LeftBehind(
            "an install that is attributed",
            owlmetry(["\(attribution)captured_for_anon_\(anonymous)": 1]), kept: 2, "captured"),
        LeftBehind(
            "an install that is not", owlmetry(["\(attribution)captured_for_anon_\(anonymous)": 0]), kept: 2,
            "not captured"),
        LeftBehind(
            "attempts", owlmetry(["\(attribution)pending_attempts_for_anon_\(anonymous)": 3]), kept: 2, "attempts 3"),
        LeftBehind(
            "another install's attempts", owlmetry(["\(attribution)pending_attempts_for_anon_x": 3]), kept: 1,
            "attempts 0"),
        LeftBehind(
            "events", owlmetry(["owlmetry.userId": "ada"], queue: "[\(event(1, anonymous)),\(event(2, "ada"))]"),
            kept: 4, "sends e1 of \(anonymous), e2 of ada, claim"),
        LeftBehind(
            "events of nobody in particular", owlmetry(queue: "[\(event(1, nil))]"), kept: 2,
            "sends e1 of \(anonymous)"),
        LeftBehind(
            "a queue with something else in it", owlmetry(queue: "[7,{},\(event(1, "ada")),{\"message\":\"m\"}]"),
            kept: 2, skipped: 3, "sends e1 of ada"),
        LeftBehind("a queue that was cut off", owlmetry(queue: "[{\"mess"), kept: 1, skipped: 1, "sends nothing"),
        LeftBehind("an empty queue", owlmetry(queue: "[]"), kept: 1, "sends nothing"),
    ]
}

@Suite("Ids of the vendor's SDK")
struct VendorImportTests {
    private static func bench(
        _ key: Configuration.Key, _ vendor: VendorImport, _ store: MemoryVendorStore,
        files: MemoryFiles = MemoryFiles(),
        _ change: (inout Configuration) -> Void = { _ in }
    ) -> Bench {
        Bench(key, files: files) {
            $0.imports = [vendor]
            $0.vendorStore = store
            change(&$0)
        }
    }

    private func tally(_ bench: Bench) -> [Notice] {
        bench.settle()
        return bench.notices.filter { if case .imported = $0 { true } else { false } }
    }

    private func expected(_ row: LeftBehind, _ vendor: String) -> [Notice] {
        row.kept + row.skipped == 0 ? [] : [.imported(vendor, kept: row.kept, skipped: row.skipped)]
    }

    /// A look at the device; the second start says the same, and imports nothing.
    private func check(
        _ row: LeftBehind, _ vendor: String, _ bench: Bench, _ look: (Bench) -> Set<String>
    ) {
        #expect(tally(bench) == expected(row, vendor))
        for _ in 0..<2 {
            let seen = look(bench)
            for fact in row.expected { #expect(seen.contains(fact), "\(seen.sorted())") }
            let before = tally(bench).count
            bench.relaunch()
            #expect(tally(bench).count == before)
        }
    }

    // MARK: - mParticle

    @Test("of mParticle", arguments: LeftBehind.mParticle)
    func mParticle(row: LeftBehind) {
        let bench = VendorImportTests.bench(.idSync(key: "k", secret: nil), .mParticle, row.store)
        check(row, "mParticle", bench) { bench in
            let users = bench.onym.users
            let current = users.current
            let stamp = users.deviceApplicationStamp ?? ""
            // One of our own is a UUID of version 8, in small letters.
            let isOwn = stamp == stamp.lowercased() && UUID(uuidString: stamp) != nil
            let names = (current?.identities ?? [:]).map { "\($0.key.rawValue)=\($0.value)" }.sorted()
            return [
                "stamp \(isOwn ? "own" : stamp)", "current \(current.map { "\($0.id)" } ?? "none")",
                "users \(users.all.map { "\($0.id)" }.joined(separator: " "))",
                "names \(names.joined(separator: " "))",
                "attributes \((current?.attributes ?? [:]).keys.sorted().joined(separator: " "))",
                "notes \((current?.notes ?? [:]).keys.sorted().joined(separator: " "))",
                "first \(Int(current?.firstSeen.timeIntervalSince1970 ?? 0))", bench.onym.isOptedOut ? "out" : "in",
            ]
        }
    }

    private static let ada = MemoryVendorStore([
        "mParticle::dast": "STAMP", "mParticle::mpid": 5, "mParticle::5::ui": [["n": 1, "i": "ada", "dfs": 1]],
        "mParticle::5::ua": ["plan": "pro"],
    ])

    private func sent(_ request: HTTPRequest?) -> [String] {
        (request?.json["events"]?.elements ?? []).compactMap { event in
            event["data"]?["event_name"]?.text.map { "\(request?.json["mpid"]?.text ?? ""):\($0)" }
        }
    }

    @Test(
        "the first identify sends the names, the stamp and the MPID, and events follow the answer", arguments: [5, 77])
    func firstIdentify(mpid: Int64) throws {
        let bench = VendorImportTests.bench(.idSync(key: "k", secret: nil), .mParticle, VendorImportTests.ada)
        bench.onym.log("before")
        let user = try #require(bench.onym.users.current)
        bench.onym.users.setAttribute("seen", true, of: user)
        // A crash in between changes nothing.
        bench.relaunch()
        bench.advance(6)
        #expect(bench.transport.open.isEmpty)
        bench.onym.identity.identify(callback: { _ in })
        let request = bench.answer(IdentityTests.mpid(mpid, isLoggedIn: true))
        #expect(request?.json["known_identities"] == ["customerid": "ada", "device_application_stamp": "STAMP"])
        #expect(request?.json["previous_mpid"] == "5")
        let batch = try #require(bench.transport.open.first)
        #expect(sent(batch) == ["\(mpid):before"] && batch.json["user_attributes"] == ["seen": true])
        #expect(bench.onym.users.all.map(\.id) == [mpid])
        #expect(bench.onym.users.current?.attributes == ["plan": "pro", "seen": true])
        #expect(bench.onym.users.current?.identities == [.customerID: "ada"] && bench.onym.users.isLoggedIn)
    }

    /// One value of the vendor's, replaced by a value of each kind: what is left of the others counts.
    private static let replaced: [(key: String, value: JSON)] = [
        "dast", "mpid", "s", "5::ui", "5::ua", "5::fsu", "5::lsu", "5::is_ephemeral", "5::consent_state",
    ].flatMap { key in
        let values: [JSON] = [.null, true, 7, "x", [1], ["a": 1]]
        return values.map { (key, $0) }
    }

    @Test(
        "a value of any kind in the place of another one costs at most that one value", arguments: [5, 77] as [Int64])
    func anyKind(mpid: Int64) throws {
        for (key, value) in VendorImportTests.replaced {
            var store = VendorImportTests.ada
            store.values["", default: [:]]["mParticle::\(key)"] = value
            let bench = VendorImportTests.bench(.idSync(key: "k", secret: nil), .mParticle, store)
            let words: Comment = "\(key): \(value)"
            if bench.onym.isOptedOut {
                #expect(key == "s" && [true, 7].contains(value), words)
                bench.onym.identity.identify(callback: { _ in })
                #expect(bench.transport.requests.isEmpty, words)
                continue
            }
            if key != "dast" { #expect(bench.onym.users.deviceApplicationStamp == "STAMP", words) }
            if key != "mpid" { #expect(bench.onym.users.current?.id == 5, words) }
            bench.onym.log("before")
            bench.onym.identity.identify(callback: { _ in })
            bench.answer(IdentityTests.mpid(mpid, isLoggedIn: true))
            #expect(sent(bench.transport.open.first) == ["\(mpid):before"], words)
            #expect(bench.onym.users.current?.id == mpid, words)
            bench.relaunch()
            #expect(bench.onym.users.current?.id == mpid, words)
        }
    }

    @Test("what an imported user did is not another's, who logs in first")
    func loginFirst() throws {
        let bench = VendorImportTests.bench(.idSync(key: "k", secret: nil), .mParticle, VendorImportTests.ada)
        bench.onym.log("adas")
        bench.onym.identity.login(IdentityRequest([.customerID: "bob"]), callback: { _ in })
        bench.answer(IdentityTests.mpid(9, isLoggedIn: true))
        bench.onym.log("bobs")
        #expect(sent(bench.answer(.empty(202))) == ["5:adas"])
        bench.advance(6)
        #expect(sent(bench.answer(.empty(202))) == ["9:bobs"])
        #expect(bench.onym.users.all.map(\.id) == [9, 5])
    }

    @Test("an identify by other names is another user's too")
    func identifyOther() {
        let bench = VendorImportTests.bench(.idSync(key: "k", secret: nil), .mParticle, VendorImportTests.ada)
        bench.onym.log("adas")
        bench.onym.identity.identify(IdentityRequest([.customerID: "bob"]), callback: { _ in })
        bench.answer(IdentityTests.mpid(9))
        #expect(sent(bench.answer(.empty(202))) == ["5:adas"])
    }

    @Test("a change of names finds out first who the imported user is")
    func modify() {
        let bench = VendorImportTests.bench(.idSync(key: "k", secret: nil), .mParticle, VendorImportTests.ada)
        bench.onym.identity.modify(IdentityRequest([.email: "a@x"]), callback: { _ in })
        #expect(bench.answer(IdentityTests.mpid(77))?.path == "/v1/identify")
        #expect(bench.transport.open.first?.path == "/v1/77/modify")
    }

    // MARK: - Qonversion

    @Test("of Qonversion", arguments: LeftBehind.qonversion)
    func qonversion(row: LeftBehind) {
        let bench = VendorImportTests.bench(.entitlements(key: "k"), .qonversion(suite: "group.a"), row.store)
        check(row, "Qonversion", bench) { bench in
            let user = bench.onym.access.user
            func word(_ id: String?) -> String { id.map { $0.utf8.count == 36 ? "own" : $0 } ?? "none" }
            bench.onym.access.userInfo(callback: { _ in })
            let isCreated = bench.transport.open.isEmpty
            return [
                "device \(word(user?.deviceID))", "current \(word(user?.id))", "identity \(word(user?.identityID))",
                isCreated ? "created" : "new",
            ]
        }
    }

    @Test("a server that lacks the vendor's user is told of it, and then has what was bought")
    func qonversionUnknown() {
        let store = MemoryVendorStore(
            suites: ["qonversion.localstorage.main": ["com.qonversion.keys.originalUserID": "QON_a"]])
        let bench = VendorImportTests.bench(.entitlements(key: "k"), .qonversion(suite: nil), store)
        let missing: ScriptedTransport.Answer = .json(
            404, ["error": ["type": "resource", "code": "not_found", "message": "User not found"]])
        bench.onym.access.setProperties(["a": "b"])
        bench.onym.access.purchase(SettlingTests.purchase, callback: { _ in })
        #expect(bench.answer(missing)?.path == "/v3/users/QON_a/properties")
        #expect(bench.answer(.json(201, [:]))?.path == "/v3/users/QON_a")
        #expect(bench.answer(.json(200, [:]))?.path == "/v3/users/QON_a/properties")
        #expect(bench.answer(.json(201, [:]))?.path == "/v3/users/QON_a/purchases")
        // A user who was erased keeps nobody else's purchases from being sent.
        bench.onym.access.setProperties(["c": "d"])
        bench.onym.access.purchase(SettlingTests.purchase, callback: { _ in })
        bench.answer(missing)
        bench.answer(.json(201, [:]))
        bench.answer(missing)
        #expect(bench.answer(missing)?.path == "/v3/users/QON_a/purchases")
        bench.answer(.json(201, [:]))
        bench.answer(missing)
        #expect(bench.onym.entitlements?.mailbox.count == 0)
        #expect(bench.onym.access.refusedPurchases.map(\.code) == ["not_found"])
    }

    /// A device on which ada was logged in; the device's user has never bought anything.
    private static let adasDevice = MemoryVendorStore(
        suites: [
            "qonversion.localstorage.main": [
                "com.qonversion.keys.originalUserID": "QON_a", "com.qonversion.keys.storedUserID": "QON_b",
                "com.qonversion.keys.identityUserID": "ada",
            ]
        ])

    @Test(
        "a user who is logged in is one at the server before anything is asked or sent for the user",
        arguments: [true, false])
    func qonversionLoggedIn(isKnown: Bool) {
        let bench = VendorImportTests.bench(
            .entitlements(key: "k"), .qonversion(suite: nil), VendorImportTests.adasDevice)
        bench.onym.access.setProperties(["a": "b"])
        bench.onym.access.entitlements(.fresh, callback: { _ in })
        // The app says at each launch who the user is.
        let users = Collector<Result<AccessUser, OnymError>>()
        bench.onym.access.identify("ada", callback: users.callback)
        var calls: [String] = []
        for _ in 0..<20 {
            bench.advance(1)
            guard let request = bench.transport.open.first else { continue }
            calls.append("\(request.method) \(request.path)")
            switch (request.method, request.path) {
            case ("GET", "/v3/identities/ada") where !isKnown:
                bench.answer(.json(404, ["error": ["code": "not_found", "message": "no"]]))
            case (_, "/v3/identities/ada"):
                if !isKnown { #expect(request.json == ["user_id": "QON_b"]) }
                bench.answer(.json(201, ["user_id": "QON_b"]))
            case ("GET", _): bench.answer(.json(200, ["data": []]))
            default: bench.answer(.json(201, [:]))
            }
        }
        let user = AccessUser(id: "QON_b", deviceID: "QON_a", identityID: "ada")
        #expect(users.values == [.success(user)] && bench.onym.access.user == user)
        let first = calls.prefix { $0 != "GET /v3/users/QON_b/entitlements" && !$0.hasSuffix("/properties") }
        #expect(first.contains("POST /v3/users/QON_a") && first.contains("POST /v3/users/QON_b"), "\(calls)")
        #expect(first.contains("GET /v3/identities/ada"), "\(calls)")
        #expect(first.contains("POST /v3/identities/ada") == !isKnown, "\(calls)")
        #expect(calls.contains("POST /v3/users/QON_b/properties") && bench.onym.entitlements?.mailbox.count == 0)
        #expect(calls.contains("GET /v3/users/QON_b/entitlements"))
    }

    @Test("what a user who is logged in bought before any answer is the user's, over a logout and a crash")
    func qonversionOffline() throws {
        let bench = VendorImportTests.bench(
            .entitlements(key: "k"), .qonversion(suite: nil), VendorImportTests.adasDevice)
        bench.onym.access.purchase(SettlingTests.purchase, callback: { _ in })
        bench.onym.access.logout()
        #expect(bench.onym.access.user?.id == "QON_a" && bench.onym.access.user?.identityID == nil)
        bench.relaunch()
        for _ in 0..<50 where bench.onym.entitlements?.mailbox.count != 0 {
            bench.advance(5)
            while let request = bench.transport.open.first {
                switch (request.method, request.path) {
                case ("GET", "/v3/identities/ada"):
                    bench.answer(.json(404, ["error": ["code": "not_found", "message": "no"]]))
                case (_, "/v3/identities/ada"): bench.answer(.json(201, ["user_id": "QON_b"]))
                default: bench.answer(.json(201, [:]))
                }
            }
        }
        let sent = try #require(bench.transport.requests.last { $0.path.hasSuffix("/purchases") })
        #expect(sent.path == "/v3/users/QON_b/purchases" && sent.fields["Onym-Identity"] == "ada")
        #expect(bench.onym.access.user?.id == "QON_a")
    }

    // MARK: - OwlMetry

    @Test("of OwlMetry", arguments: LeftBehind.owlmetry)
    func owlmetry(row: LeftBehind) {
        let bench = VendorImportTests.bench(.claim(key: "owl_client_k", bundleID: "b"), .owlmetry, row.store)
        check(row, "OwlMetry", bench) { bench in
            func word(_ id: String?, _ own: String) -> String {
                id?.hasSuffix("ABCDEFABCDEF") == false && id?.hasPrefix("owl_anon_") == true ? own : id ?? ""
            }
            let state = bench.onym.claim?.kept
            let letters = bench.onym.claim?.mailbox.letters.map { letter -> String in
                let content = try? bench.onym.claim?.mailbox.content(of: letter)
                return content?["w"]?["client_event_id"]?.text.map { "\($0) of \(letter.owner)" } ?? "claim"
            }
            return [
                "user \(word(bench.onym.claimUser, "own"))", "anonymous \(word(bench.onym.claimAnonymousUser, "own"))",
                state?["captured"]?.bool == true ? "captured" : "not captured",
                "attempts \(state?["pendings"]?.integer ?? -1)",
                "sends \(letters?.isEmpty == false ? letters?.joined(separator: ", ") ?? "" : "nothing")",
            ]
        }
    }

    @Test("what OwlMetry's SDK could not send goes as that would have sent it, before the claim")
    func queue() throws {
        let event = """
            {"client_event_id":"e1","session_id":"s","user_id":"owl_anon_A","level":"warn","message":"m",\
            "timestamp":"2027-01-15T07:00:00Z","app_version":"1","custom_attributes":{"a":"b"}}
            """
        let store = MemoryVendorStore(
            ["owlmetry.userId": "ada"], keychain: ["com.owlmetry.sdk/anonymousId": "owl_anon_A"],
            files: [.applicationSupport("Owlmetry/offline_queue.json"): Array("[\(event)]".utf8)])
        let bench = VendorImportTests.bench(.claim(key: "owl_client_k", bundleID: "b"), .owlmetry, store)
        bench.onym.flush(callback: { _ in })
        let first = bench.answer(.json(200, ["accepted": 1, "rejected": 0]))
        #expect(
            first?.json["events"] == [
                [
                    "client_event_id": "e1", "session_id": "s", "user_id": "owl_anon_A", "level": "warn",
                    "message": "m",
                    "timestamp": "2027-01-15T07:00:00.000Z", "app_version": "1", "custom_attributes": ["a": "b"],
                ]
            ])
        let second = bench.answer(.json(200, ["claimed": true]))
        #expect(second?.json == ["anonymous_id": "owl_anon_A", "user_id": "ada"])
    }

    @Test("events of years ago go as the oldest that are taken")
    func oldQueue() {
        let event = "{\"client_event_id\":\"e1\",\"message\":\"m\",\"timestamp\":\"2020-01-15T07:00:00.000Z\"}"
        let store = MemoryVendorStore(
            keychain: ["com.owlmetry.sdk/anonymousId": "owl_anon_A"],
            files: [.applicationSupport("Owlmetry/offline_queue.json"): Array("[\(event)]".utf8)])
        let bench = VendorImportTests.bench(.claim(key: "owl_client_k", bundleID: "b"), .owlmetry, store)
        bench.advance(5)
        let sent = bench.transport.open.first?.json["events"]?.elements?.first
        #expect(sent?["timestamp"]?.text?.hasPrefix("2026-12-16T08:10:") == true)
        #expect(sent?["custom_attributes"]?["_late_ms"]?.text != nil && sent?["session_id"]?.text != nil)
    }

    // MARK: - Our own

    @Test("our own state wins, and so does an id that outlived the app")
    func ownWins() {
        let files = MemoryFiles()
        let first = Bench(.idSync(key: "k", secret: nil), files: files)
        let stamp = first.onym.users.deviceApplicationStamp
        let second = VendorImportTests.bench(
            .idSync(key: "k", secret: nil), .mParticle, VendorImportTests.ada, files: files.survive())
        #expect(second.onym.users.deviceApplicationStamp == stamp && second.onym.users.current == nil)
        #expect(tally(second).isEmpty)

        let keepsakes = Kept(["idsync.stamp": "own"])
        let third = VendorImportTests.bench(.idSync(key: "k", secret: nil), .mParticle, VendorImportTests.ada) {
            $0.keepsakes = keepsakes
            $0.reinstall = .restore
        }
        #expect(third.onym.users.deviceApplicationStamp == "own")
    }

    private final class Kept: Keepsakes, @unchecked Sendable {
        private var texts: [String: String]
        init(_ texts: [String: String]) { self.texts = texts }
        func text(_ name: String) -> String? { texts[name] }
        func keep(_ text: String?, as name: String) { texts[name] = text }
    }

    @Test("a dialect reads what its own vendor has left, and no other")
    func others() {
        let bench = VendorImportTests.bench(
            .claim(key: "owl_client_k", bundleID: "b"), .mParticle, VendorImportTests.ada)
        #expect(tally(bench).isEmpty)
    }

    @Test("the device's own user defaults and files are read as they are")
    func device() throws {
        let suite = "onym.tests.\(UUID().uuidString)"
        let defaults = try #require(UserDefaults(suiteName: suite))
        defer { defaults.removePersistentDomain(forName: suite) }
        defaults.set("STAMP", forKey: "mParticle::dast")
        defaults.set(NSNumber(value: Int64.min), forKey: "mParticle::mpid")
        defaults.set(true, forKey: "mParticle::s")
        defaults.set(["a": ["x", 1.5]] as [String: Any], forKey: "mParticle::ua")
        let store = DeviceVendorStore()
        #expect(store.value("mParticle::dast", suite: suite) == "STAMP")
        #expect(store.value("mParticle::mpid", suite: suite) == .integer(.min))
        #expect(store.value("mParticle::s", suite: suite) == 1)
        #expect(store.value("mParticle::ua", suite: suite) == ["a": ["x", 1.5]])
        #expect(store.value("mParticle::none", suite: suite) == nil)
        #expect(store.keys(prefix: "mParticle::d", suite: suite) == ["mParticle::dast"])
        #expect(store.file(.applicationSupport("onym-tests/none.json")) == nil)
    }
}
