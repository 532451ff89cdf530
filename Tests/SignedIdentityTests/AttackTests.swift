import Domain
import Foundation
import TestKit
import Testing

/// What somebody can do to Ada who has nothing but the keys that every app carries; then Mallory, who has a good token for
/// herself. Where tokens are required: nothing. Each row names its attack.
@Suite("Attacks on known users")
struct AttackTests {
    static let stores = StoreKind.allCases

    struct Attack: Sendable {
        let name: String
        /// Whether a token is what it lacks; else it comes to nothing of Ada's.
        let isRefused: Bool
        let make: @Sendable (Scene, String?) throws -> Scene.Answer

        init(
            _ name: String, isRefused: Bool = true, _ make: @escaping @Sendable (Scene, String?) throws -> Scene.Answer
        ) {
            self.name = name
            self.isRefused = isRefused
            self.make = make
        }
    }

    /// Makes each attack twice: with no token, and with Mallory's.
    private func run(_ attacks: [Attack], _ scene: Scene) throws {
        let before = try scene.ada()
        #expect(before.joined().contains("ada-city") && before.joined().contains("ada-plan"))
        for attack in attacks {
            for (who, token) in [("nobody", nil), ("Mallory", scene.token("mallory"))] as [(String, String?)] {
                let answer = try attack.make(scene, token)
                #expect((400..<500).contains(answer.status) || !attack.isRefused, "\(attack.name), \(who): \(answer)")
                #expect(answer.wantsToken || !attack.isRefused, "\(attack.name), \(who): \(answer)")
                for text in Scene.privateTexts + [scene.mpid] {
                    #expect(!answer.wire.body.contains(text), "\(attack.name), \(who): \(answer)")
                }
                #expect(try scene.ada() == before, "\(attack.name), \(who)")
            }
        }
    }

    @Test("where nobody asks for tokens the same calls are taken: docs/threat-model.md lists them", arguments: stores)
    func open(_ kind: StoreKind) throws {
        // What is refused there as well, for other reasons.
        let refused = [
            "link her identity to oneself", "have a user made of her identity",
        ]
        for attack in AttackTests.idsync + AttackTests.claim + AttackTests.access where attack.isRefused {
            let scene = try Scene(kind, mode: nil)
            let answer = try attack.make(scene, nil)
            #expect((answer.status < 300) != refused.contains(attack.name), "\(attack.name): \(answer)")
        }
    }

    /// A body that names a user in every way that any call knows.
    private static func everything(_ scene: Scene, _ user: String, _ mpid: String) -> String {
        #"""
        {"environment":"production","known_identities":{"customerid":"\#(user)"},"identity_changes":[{"identity_type":"other",
        "old_value":null,"new_value":"x"}],"mpid":"\#(mpid)","user_identities":{"customerid":"\#(user)"},
        "user_attributes":{"city":"x"},"user_id":"\#(user)","anonymous_id":"owl_anon_mallory","properties":{"a":"b"},
        "bundle_id":"com.example.demo","message":"m","answers":{"q1":"x"},"attribution_token":"t","dev_mock":"attributed",
        "client_event_id":"6F9619FF-8B86-D011-B42D-00CF4FC964FF","original_filename":"a","content_type":"text/plain",
        "size_bytes":1,"sha256":"\#(String(repeating: "0", count: 64))","identity_id":"\#(user)","anon_id":"QON_mallory",
        "q_uid":"QON_\#(user)","price":"1","currency":"usd","app_store_data":{"receipt":"\#(scene.receipt("t-x"))"},
        "receipt":"\#(scene.receipt("t-x"))","purchase":{},"transactions":["\#(scene.receipt("t-x"))"],"id":"pro",
        "external_id":"\#(user)","events":[{"user_id":"\#(user)","message":"m","level":"info","n":"e",
        "session_id":"6F9619FF-8B86-D011-B42D-00CF4FC964FF"}],"data":{"source_mpid":"\#(mpid)",
        "destination_mpid":"\#(mpid)","start_unixtime_ms":1,"end_unixtime_ms":\#(scene.clock.now.milliseconds)}}
        """#
    }

    @Test("every call that there is, with every client's key and all that names her", arguments: stores)
    func sweep(_ kind: StoreKind) throws {
        let scene = try Scene(kind)
        let answers = try sweep(scene, naming: "ada", scene.mpid, tokens: [nil, scene.token("mallory")])
        for (call, answer) in answers {
            // Two calls answer the body that they got.
            if call.contains(" /v3/device/") || call.contains(" /v3/appleads/") { continue }
            for text in Scene.privateTexts + [scene.mpid] {
                #expect(!answer.wire.body.contains(text), "\(call): \(answer)")
            }
        }
        #expect(answers.count > 600)
    }

    @Test("without tokens no call that names only oneself shows anything of hers, or changes it", arguments: stores)
    func sweepOfOneself(_ kind: StoreKind) throws {
        let scene = try Scene(kind, mode: nil)
        let mpid = try scene.identify(#"{"customerid":"mallory"}"#).told("mpid")
        let answers = try sweep(scene, naming: "mallory", mpid, tokens: [nil])
        for (call, answer) in answers {
            #expect(answer.status != 429, "\(call): a call over a limit shows nothing, and proves nothing")
            for text in Scene.privateTexts + [scene.mpid, "ada@x", "owl_anon_ada", "idfv-ada", "t-ada"] {
                #expect(!answer.wire.body.contains(text), "\(call): \(answer)")
            }
        }
        #expect(answers.count > 300 && answers.count { $0.answer.status < 300 } > 30)
        // The same calls show her texts to a caller that names her.
        let named = try sweep(scene, naming: "ada", scene.mpid, tokens: [nil], keepsAda: false)
        for text in ["ada-plan", "ada-tier", scene.mpid] {
            #expect(named.contains { $0.answer.wire.body.contains(text) }, "\(text)")
        }
    }

    /// Makes every call with each client's key, and returns the answers. The calls name a user in every way. No call may fail, or
    /// change anything of Ada's.
    private func sweep(
        _ scene: Scene, naming user: String, _ mpid: String, tokens: [String?], keepsAda: Bool = true
    ) throws -> [(call: String, answer: Scene.Answer)] {
        let before = try scene.ada()
        let credentials = scene.credentials
        let paths = try #require(
            try scene.call("GET", "/openapi.json", nil, []).object["paths"] as? [String: [String: Any]])
        var answers: [(call: String, answer: Scene.Answer)] = []
        for (pattern, operations) in paths.sorted(by: { $0.key < $1.key }) where !pattern.hasPrefix("/onym/") {
            for id in pattern.contains("{id}") ? [user, "QON_\(user)", mpid] : [""] {
                var path = pattern
                for (name, value) in [
                    ("id", id), ("api_key", credentials.idsyncWebKey), ("mpid", mpid), ("slug", "nps"),
                    ("source", "apple-search-ads"), ("user_id", mpid), ("install_id", mpid),
                    ("entitlement", "pro"), ("organization", "1"), ("account", "1"), ("workspace", "1"),
                    ("user", "QON_\(user)"),
                    ("key", "c"), ("set", "1"), ("folder", "decisions"), ("file", "main.js"), ("offer", "spring"),
                    ("feedback", "1"), ("questionnaire", "1"), ("response", "1"), ("issue", "1"), ("comment", "1"),
                ] { path = path.replacing("{\(name)}", with: value) }
                #expect(!path.contains("{"), "\(path): say here what its parameter is")
                // The description has the names of tests in its examples.
                if path.hasPrefix("/openapi.json") { continue }
                for (name, operation) in operations.sorted(by: { $0.key < $1.key }) {
                    let method = name.uppercased()
                    // A call refuses the parameters that it does not have.
                    let parameters = (operation as? [String: Any])?["parameters"] as? [[String: Any]] ?? []
                    let declared = Set(
                        parameters.filter { $0["in"] as? String == "query" }.map { $0["name"] as? String })
                    let query = [
                        ("user_id", user), ("bundle_id", "com.example.demo"), ("identity_id", user),
                        ("device_user_id", "QON_\(user)"), ("data_mode", "all"),
                    ].filter { declared.contains($0.0) }.map { "\($0)=\($1)" }.joined(separator: "&")
                    let target = query.isEmpty ? path : "\(path)?\(query)"
                    for fields in [
                        [("x-mp-key", credentials.idsyncWebKey)],
                        [("Authorization", "Bearer \(credentials.claimClientKey)")],
                        [("Authorization", "Bearer test_\(credentials.entitlementsProjectKey)")],
                    ] {
                        for token in tokens {
                            let body = method == "GET" ? nil : AttackTests.everything(scene, user, mpid)
                            let answer = try scene.call(method, target, body, token: token, fields)
                            #expect(answer.status < 500, "\(method) \(target): \(answer)")
                            answers.append(("\(method) \(target)", answer))
                        }
                    }
                }
            }
            if keepsAda { #expect(try scene.ada() == before, "\(pattern)") }
        }
        return answers
    }

    // MARK: - IDSync

    private static func body(_ more: String) -> String { #"{"environment":"production",\#(more)}"# }

    private static func modify(_ scene: Scene, _ person: String, _ changes: String, _ token: String?) throws
        -> Scene.Answer
    {
        try scene.web("/v1/\(person)/modify", body(#""identity_changes":[\#(changes)]"#), token: token)
    }

    private static func alias(_ scene: Scene, _ source: String, _ destination: String, _ token: String?) throws
        -> Scene.Answer
    {
        let now = scene.clock.now.milliseconds
        return try scene.web(
            "/v1/identity/\(scene.credentials.idsyncWebKey)/alias",
            """
            {"request_type":"alias","environment":"production","data":{"source_mpid":"\(source)",\
            "destination_mpid":"\(destination)","start_unixtime_ms":\(now - 1_000_000),"end_unixtime_ms":\(now)}}
            """, token: token)
    }

    /// Somebody new whom nobody knows.
    private static func stranger(_ scene: Scene) throws -> String {
        try scene.identify(#"{"ios_idfv":"idfv-mallory"}"#).told("mpid")
    }

    static let idsync: [Attack] = [
        Attack("identify as her customer id") { try $0.identify(#"{"customerid":"ada"}"#, token: $1) },
        Attack("login as her customer id") { try $0.identify(#"{"customerid":"ada"}"#, "login", token: $1) },
        Attack("logout to her customer id") { try $0.identify(#"{"customerid":"ada"}"#, "logout", token: $1) },
        Attack("search for her customer id") { try $0.identify(#"{"customerid":"ada"}"#, "search", token: $1) },
        Attack("look as her, writing nothing") {
            try $0.identify(#"{"customerid":"ada"}"#, "identify?read_only=true&return_matches=true", token: $1)
        },
        Attack("identify as her with a device of one's own") {
            try $0.identify(#"{"customerid":"ada","ios_idfv":"idfv-mallory"}"#, token: $1)
        },
        Attack("identify as both") { scene, token in
            // One value of a type is all that a call can have: the last.
            try scene.identify(#"{"customerid":"mallory","customerid":"ada"}"#, token: token)
        },
        Attack("identify by her e-mail address", isRefused: false) {
            try $0.identify(#"{"email":"ada@x"}"#, token: $1)
        },
        Attack("identify by her device", isRefused: false) { try $0.identify(#"{"ios_idfv":"idfv-ada"}"#, token: $1) },
        Attack("search for her e-mail address", isRefused: false) {
            try $0.identify(#"{"email":"ada@x"}"#, "search", token: $1)
        },
        Attack("identify as a customer id that nobody has yet") {
            try $0.identify(#"{"customerid":"grace"}"#, token: $1)
        },
        Attack("repeat her call by its request id") {
            try $0.web(
                "/v1/identify", body(#""request_id":"r-ada","known_identities":{"customerid":"ada"}"#), token: $1)
        },
        Attack("give her profile a device, by her MPID") {
            try modify($0, $0.mpid, #"{"identity_type":"other","old_value":null,"new_value":"x"}"#, $1)
        },
        Attack("take her customer id away, by her MPID") {
            try modify($0, $0.mpid, #"{"identity_type":"customerid","old_value":"ada","new_value":null}"#, $1)
        },
        Attack("have nothing changed, by her MPID") { try modify($0, $0.mpid, "", $1) },
        Attack("take her customer id for oneself") {
            try modify(
                $0, try stranger($0), #"{"identity_type":"customerid","old_value":null,"new_value":"ada"}"#, $1)
        },
        Attack("take her e-mail address for oneself") {
            try modify($0, try stranger($0), #"{"identity_type":"email","old_value":null,"new_value":"ada@x"}"#, $1)
        },
        Attack("alias her to oneself") { try alias($0, $0.mpid, try stranger($0), $1) },
        Attack("alias oneself to her") { try alias($0, try stranger($0), $0.mpid, $1) },
        Attack("upload events of hers, by her MPID") {
            try $0.web(
                "/v3/JS/\($0.credentials.idsyncWebKey)/events",
                #"{"mpid":"\#($0.mpid)","user_attributes":{"city":"x"},"events":[{"n":"e","dt":4}]}"#, token: $1)
        },
        Attack("upload events of hers, by her customer id") {
            try $0.web(
                "/v2/events", #"{"user_identities":{"customerid":"ada"},"events":[{"event_type":"x","n":"e"}]}"#,
                token: $1)
        },
        Attack("upload events of hers, by her customer id's number") {
            try $0.web("/v2/events", #"{"ui":[{"n":1,"i":"ada"}],"events":[{"event_type":"x","n":"e"}]}"#, token: $1)
        },
        Attack("upload events of hers among one's own") {
            try $0.web(
                "/v2/bulkevents",
                #"[{"user_identities":{"other":"o"},"events":[{"event_type":"x","n":"e"}]},{"mpid":"\#($0.mpid)","events":[{"event_type":"x","n":"e"}]}]"#,
                token: $1)
        },
        Attack("name her profile's MPID with one's own e-mail address") {
            try $0.web(
                "/v2/events", #"{"mpid":"\#($0.mpid)","user_identities":{"email":"m@x"},"events":[]}"#, token: $1)
        },
    ]

    @Test("IDSync", arguments: stores, ["default", "profile_conversion"])
    func idsync(_ kind: StoreKind, _ preset: String) throws {
        let scene = try Scene(kind, preset: preset)
        var attacks = AttackTests.idsync
        // Where an address is anybody's, having it takes it from nobody.
        if preset == "default" { attacks.removeAll { $0.name.contains("take her e-mail address") } }
        try run(attacks, scene)
    }

    @Test("IDSync, where an address logs in, and where nothing does", arguments: stores)
    func otherStrategies(_ kind: StoreKind) throws {
        let link = try Scene(kind, preset: "profile_link")
        try run(
            [
                Attack("identify by her e-mail address") { try $0.identify(#"{"email":"ada@x"}"#, token: $1) },
                Attack("identify by her e-mail address, as an address that is one's name") { scene, _ in
                    // A customer id that looks like an address is no address.
                    try scene.identify(#"{"email":"ada@x"}"#, token: scene.token("ada@x"))
                },
                Attack("identify as oneself with her e-mail address") {
                    try $0.identify(#"{"customerid":"mallory","email":"ada@x"}"#, token: $1)
                },
                Attack("take her e-mail address for oneself") {
                    try AttackTests.modify(
                        $0, try AttackTests.stranger($0),
                        #"{"identity_type":"email","old_value":null,"new_value":"ada@x"}"#, $1)
                },
            ], link)
        let best = try Scene(kind, preset: "best_match")
        try run(
            [
                Attack("identify by her device") { try $0.identify(#"{"ios_idfv":"idfv-ada"}"#, token: $1) },
                Attack("identify by her e-mail address") { try $0.identify(#"{"email":"ada@x"}"#, token: $1) },
                Attack("search for her device") { try $0.identify(#"{"ios_idfv":"idfv-ada"}"#, "search", token: $1) },
                Attack("upload events of hers, by her device") {
                    try $0.web(
                        "/v2/events", #"{"device_info":{"ios_idfv":"idfv-ada"},"events":[{"event_type":"x","n":"e"}]}"#,
                        token: $1)
                },
            ], best)
    }

    // MARK: - Claim

    static let claim: [Attack] = [
        Attack("claim something as her") {
            try $0.claim(
                "POST", "/v1/identity/claim", #"{"anonymous_id":"owl_anon_mallory","user_id":"ada"}"#, token: $1)
        },
        Attack("set a property of hers") {
            try $0.claim("POST", "/v1/identity/properties", #"{"user_id":"ada","properties":{"a":"b"}}"#, token: $1)
        },
        Attack("read her properties by setting none") {
            try $0.claim("POST", "/v1/identity/properties", #"{"user_id":"ada","properties":{}}"#, token: $1)
        },
        Attack("read her properties by her anonymous id") {
            try $0.claim("POST", "/v1/identity/properties", #"{"user_id":"owl_anon_ada","properties":{}}"#, token: $1)
        },
        Attack("set a property of hers by her anonymous id") {
            try $0.claim(
                "POST", "/v1/identity/properties", #"{"user_id":"owl_anon_ada","properties":{"a":"b"}}"#, token: $1)
        },
        Attack("say where she came from") {
            try $0.claim(
                "POST", "/v1/identity/attribution/apple-search-ads",
                #"{"user_id":"ada","attribution_token":"t","dev_mock":"attributed"}"#, token: $1)
        },
        Attack("send events of hers", isRefused: false) { scene, token in
            let answer = try scene.ingest(["ada"], token: token)
            #expect(answer.object["accepted"] as? Int == 0 && answer.wire.body.contains("Onym-Identity-Token"))
            return answer
        },
        Attack("announce an attachment of hers") {
            try $0.claim(
                "POST", "/v1/ingest/attachment",
                #"""
                {"client_event_id":"6F9619FF-8B86-D011-B42D-00CF4FC964FF","user_id":"ada","original_filename":"a.txt",
                "content_type":"text/plain","size_bytes":1,"sha256":"\#(String(repeating: "0", count: 64))"}
                """#, token: $1)
        },
        Attack("give feedback as her") {
            try $0.claim("POST", "/v1/feedback", #"{\#(Scene.bundle),"message":"m","user_id":"ada"}"#, token: $1)
        },
        Attack("read her answers") {
            try $0.claim("GET", "/v1/questionnaires/nps?bundle_id=com.example.demo&user_id=ada", token: $1)
        },
        Attack("read her answers by her anonymous id") {
            try $0.claim("GET", "/v1/questionnaires/nps?bundle_id=com.example.demo&user_id=owl_anon_ada", token: $1)
        },
        Attack("answer as her") {
            try $0.claim(
                "POST", "/v1/questionnaires/nps/responses",
                #"{\#(Scene.bundle),"user_id":"ada","answers":{"q1":"x"}}"#, token: $1)
        },
        Attack("answer by her anonymous id") {
            try $0.claim(
                "POST", "/v1/questionnaires/nps/responses",
                #"{\#(Scene.bundle),"user_id":"owl_anon_ada","answers":{"q1":"x"}}"#, token: $1)
        },
        Attack("keep her from being asked") {
            try $0.claim(
                "POST", "/v1/questionnaires/dismiss", #"{\#(Scene.bundle),"user_id":"ada"}"#, token: $1)
        },
        Attack("list what users have said", isRefused: false) { try $0.claim("GET", "/v1/feedback", token: $1) },
        Attack("list attachments", isRefused: false) { try $0.claim("GET", "/v1/attachments", token: $1) },
        Attack("list events", isRefused: false) { try $0.claim("GET", "/v1/events", token: $1) },
    ]

    @Test("Claim", arguments: stores)
    func claim(_ kind: StoreKind) throws {
        let scene = try Scene(kind)
        try run(AttackTests.claim, scene)
        // What Ada has claimed Mallory cannot: that was so without tokens, too.
        let answer = try scene.claim(
            "POST", "/v1/identity/claim", #"{"anonymous_id":"owl_anon_ada","user_id":"mallory"}"#,
            token: scene.token("mallory"))
        #expect(answer.status == 409, "\(answer)")
    }

    // MARK: - Entitlements

    static let access: [Attack] = [
        Attack("ask whose user she is") { try $0.access("GET", "/v3/identities/ada", token: $1) },
        Attack("link her identity to oneself") {
            try $0.access("POST", "/v3/identities/ada", #"{"user_id":"QON_mallory"}"#, token: $1)
        },
        Attack("have a user made of her identity") { try $0.access("POST", "/v3/identities/ada", "{}", token: $1) },
        Attack("link an identity that nobody has yet") {
            try $0.access("POST", "/v3/identities/grace", #"{"user_id":"QON_mallory"}"#, token: $1)
        },
        Attack("find her user, as older apps do") {
            try $0.access("POST", "/v2/identities", #"{"anon_id":"QON_mallory","identity_id":"ada"}"#, token: $1)
        },
        Attack("read her user") { try $0.access("GET", "/v3/users/QON_ada", token: $1) },
        Attack("read her access") { try $0.access("GET", "/v3/users/QON_ada/entitlements", token: $1) },
        Attack("read her access, and why") {
            try $0.access("GET", "/v3/users/QON_ada/entitlements?explain=true", token: $1)
        },
        Attack("read her access as her, signed in") {
            try $0.access("GET", "/v3/users/QON_ada/entitlements?identity_id=ada", token: $1)
        },
        Attack("read her access on one's own install") {
            try $0.access(
                "GET", "/v3/users/QON_ada/entitlements", token: $1,
                fields: [("Onym-Device-User", "QON_mallory"), ("Onym-Identity", "ada")])
        },
        Attack("read her properties") { try $0.access("GET", "/v3/users/QON_ada/properties", token: $1) },
        Attack("set a property of hers") {
            try $0.access("POST", "/v3/users/QON_ada/properties", #"[{"key":"a","value":"b"}]"#, token: $1)
        },
        Attack("tell of a purchase as her") { scene, token in
            try scene.access("POST", "/v3/users/QON_ada/purchases", scene.purchase("t-new"), token: token)
        },
        Attack("restore as her") { scene, token in
            try scene.access(
                "POST", "/v3/users/QON_ada/restore", #"{"transactions":["\#(scene.receipt("t-new"))"]}"#, token: token)
        },
        Attack("look what a restore as her would do") { scene, token in
            try scene.access(
                "POST", "/v3/users/QON_ada/restore?dry_run=true", #"{"transactions":[]}"#, token: token)
        },
        Attack("start as her, as older apps do") {
            try $0.access("POST", "/v1/user/init", #"{"q_uid":"QON_ada"}"#, token: $1)
        },
        Attack("restore as her, as older apps do") {
            try $0.access("POST", "/v1/user/restore", #"{"q_uid":"QON_ada","history":[]}"#, token: $1)
        },
        Attack("buy as her, as older apps do") { scene, token in
            try scene.access(
                "POST", "/v1/user/purchase",
                #"{"q_uid":"QON_ada","receipt":"\#(scene.receipt("t-new"))","purchase":{}}"#, token: token)
        },
        Attack("make her user anew", isRefused: false) { try $0.access("POST", "/v3/users/QON_ada", "{}", token: $1) },
        Attack("give her access", isRefused: false) {
            try $0.access("POST", "/v3/users/QON_ada/entitlements", #"{"id":"pro"}"#, token: $1)
        },
        Attack("take her access", isRefused: false) {
            try $0.access("DELETE", "/v3/users/QON_ada/entitlements/pro", token: $1)
        },
        Attack("tell of her purchase as one's own, by a receipt that was overheard", isRefused: false) { scene, token in
            try scene.access("POST", "/v3/users/QON_mallory/purchases", scene.purchase("t-ada"), token: token)
        },
    ]

    @Test("Entitlements", arguments: stores)
    func access(_ kind: StoreKind) throws { try run(AttackTests.access, try Scene(kind)) }

    // MARK: - Going from one dialect to another

    @Test("who is watched in one dialect gets nowhere by another that asks for nothing", arguments: stores)
    func acrossDialects(_ kind: StoreKind) throws {
        let scene = try Scene(kind, mode: #"{"idsync":"require","claim":"off"}"#)
        try scene.administer("PUT", "/strategy", #"{"same_user_id":true}"#)
        let before = try scene.administer("GET", "/people/\(scene.mpid)").wire.body
        // Ada herself was claimed before; this user is new, and IDSync knows one of that name.
        let login = #"{"environment":"production","known_identities":{"customerid":"grace"}}"#
        let grace = try scene.backEnd("/v1/login", login).told("mpid")
        let claim = #"{"anonymous_id":"owl_anon_mallory","user_id":"grace"}"#
        #expect(try scene.claim("POST", "/v1/identity/claim", claim).status == 200)
        #expect(try scene.administer("GET", "/people/\(grace)").object["members"] as? [String] == [grace])
        #expect(try scene.administer("GET", "/people/\(scene.mpid)").wire.body == before)
        // With a token it is one and the same, where both are not yet linked.
        #expect(try scene.backEnd("/v1/login", login.replacing("grace", with: "hedy")).status == 200)
        let proven = claim.replacing("grace", with: "hedy").replacing("mallory", with: "hedy")
        #expect(try scene.claim("POST", "/v1/identity/claim", proven, token: scene.token("hedy")).status == 200)
        let hedy = try scene.administer("GET", "/people/claim_user_id:hedy")
        #expect((hedy.object["members"] as? [String])?.count == 3, "\(hedy)")
    }

    /// An administrator merges somebody into the user bob, and a client then names mallory there.
    @Test(
        "whom an administrator has merged into a user is nobody else's, whatever dialect names another user",
        arguments: stores)
    func mergedIntoUser(_ kind: StoreKind) throws {
        let scene = try Scene(kind, mode: nil, hasAda: false)
        func merge(_ from: String, _ into: String) throws -> Scene.Answer {
            let people = try [from, into].map { try scene.administer("GET", "/people/\($0)").told("id") }
            return try scene.administer("POST", "/merges", #"{"from":"\#(people[0])","into":"\#(people[1])"}"#)
        }
        func count(_ name: String) throws -> Int? {
            (try scene.administer("GET", "/people/\(name)").object["members"] as? [String])?.count
        }
        let login = #"{"environment":"production","known_identities":{"customerid":"bob"}}"#
        for joinsEqualIDs in [false, true] {
            let turn = joinsEqualIDs ? "2" : "1"
            try scene.administer("PUT", "/strategy", #"{"same_user_id":\#(joinsEqualIDs)}"#)
            let bob = "bob\(turn)"
            #expect(try scene.backEnd("/v1/login", login.replacing("bob", with: bob)).status == 200)
            // A visitor of each dialect.
            let device = #"{"environment":"production","known_identities":{"device_application_stamp":"\#(turn)"}}"#
            let mpid = try scene.web("/v1/identify", device).told("mpid")
            let visitor = "owl_anon_\(turn)"
            let properties = #"{"user_id":"\#(visitor)","properties":{"plan":"x"}}"#
            #expect(try scene.claim("POST", "/v1/identity/properties", properties).status == 200)
            #expect(try scene.access("POST", "/v3/users/QON_\(turn)", "{}").status == 201)
            let install = try scene.call(
                "POST", "/sdk/installs",
                """
                {"app_id":"\(scene.credentials.linkingAppID)","secret":"\(scene.credentials.linkingAppSecret)",\
                "device":{"class":"phone","os":"android","model":"Pixel"},"sdk":{"version":"1.0"}}
                """, [])
            for one in [
                mpid, "claim_anonymous_id:\(visitor)", "sandbox_user_id:QON_\(turn)",
                "linking_install_id:\(install.told("install_id"))",
            ] {
                #expect(try merge(one, "customerid:\(bob)").status == 200, "\(one)")
            }
            let whole = try count("customerid:\(bob)")
            #expect(whole == 5)
            func modify(_ user: String) throws -> Int {
                try AttackTests.modify(
                    scene, mpid, #"{"identity_type":"customerid","old_value":null,"new_value":"\#(user)"}"#, nil
                ).status
            }
            func claim(_ user: String) throws -> Int {
                try scene.claim(
                    "POST", "/v1/identity/claim", #"{"anonymous_id":"\#(visitor)","user_id":"\#(user)"}"#
                ).status
            }
            func identify(_ user: String) throws -> Int {
                try scene.access("POST", "/v3/identities/\(user)", #"{"user_id":"QON_\#(turn)"}"#).status
            }
            func link(_ user: String) throws -> Int {
                let code = try scene.call(
                    "POST", "/users/auth-code", #"{"external_id":"\#(user)"}"#,
                    [("Authorization", "Bearer \(scene.credentials.linkingKey)")]
                ).told("authentication_code")
                return try scene.call(
                    "POST", "/sdk/users/link", #"{"authentication_code":"\#(code)"}"#,
                    [("Authorization", "Bearer \(install.told("token"))")]
                ).status
            }
            let mallory = "mallory\(turn)"
            #expect(try modify(mallory) == 400)
            let upload = #""mpid":"\#(mpid)","user_identities":{"customerid":"\#(mallory)"},"events":[]"#
            #expect(try scene.web("/v2/events", AttackTests.body(upload)).status == 202, "late events reach their user")
            #expect(try claim(mallory) == 409)
            #expect(try identify(mallory) == 422)
            #expect(try link(mallory) == 409)
            #expect(try count("customerid:\(bob)") == whole)
            // Where equal user ids are one human's, bob is bob in each dialect.
            if joinsEqualIDs {
                #expect(try claim(bob) == 200)
                #expect(try identify(bob) == 201)
                #expect(try link(bob) == 200)
            } else {
                #expect(try claim(bob) == 409)
            }
            #expect(try modify(bob) == 200)
        }
    }

    @Test("a claim joins no two users of the Linking dialect, whom no administrator may join", arguments: stores)
    func claimOfLinkedUsers(_ kind: StoreKind) throws {
        let scene = try Scene(kind, mode: nil, preset: "segment", hasAda: false)
        let users = try ["e1", "e2"].map { try linkedUser($0, scene) }
        for (name, user) in zip(["owl_anon_a", "v"], users) {
            let properties = #"{"user_id":"\#(name)","properties":{"plan":"x"}}"#
            #expect(try scene.claim("POST", "/v1/identity/properties", properties).status == 200)
            let type = name == "v" ? "claim_user_id" : "claim_anonymous_id"
            let person = try scene.administer("GET", "/people/\(type):\(name)").told("id")
            let merge = try scene.administer("POST", "/merges", #"{"from":"\#(person)","into":"\#(user)"}"#)
            #expect(merge.status == 200, "\(merge)")
        }
        let refused = try scene.administer("POST", "/merges", #"{"from":"\#(users[0])","into":"\#(users[1])"}"#)
        #expect(refused.status == 409)
        let claim = try scene.claim("POST", "/v1/identity/claim", #"{"anonymous_id":"owl_anon_a","user_id":"v"}"#)
        #expect(claim.status == 409, "\(claim)")
    }

    /// A user of the Linking dialect, by a code.
    private func linkedUser(_ external: String, _ scene: Scene) throws -> String {
        let code = try scene.call(
            "POST", "/users/auth-code", #"{"external_id":"\#(external)"}"#,
            [("Authorization", "Bearer \(scene.credentials.linkingKey)")])
        return try scene.call(
            "POST", "/sdk/users",
            """
            {"authentication_code":"\(code.told("authentication_code"))",\
            "install_key":"\(UUID().uuidString)","device":{"class":"phone"}}
            """, []
        ).told("user_id")
    }

    private func merge(_ from: String, _ into: String, _ scene: Scene) throws {
        let people = try [from, into].map { try scene.administer("GET", "/people/\($0)").told("id") }
        let merged = try scene.administer("POST", "/merges", #"{"from":"\#(people[0])","into":"\#(people[1])"}"#)
        #expect(merged.status == 200, "\(merged)")
    }

    private func root(_ name: String, _ scene: Scene) throws -> String {
        try scene.administer("GET", "/people/\(name)").told("root")
    }

    @Test("equal user ids join no second user of the Linking dialect, also one that the call makes", arguments: stores)
    func linkedByEqualID(_ kind: StoreKind) throws {
        let scene = try Scene(kind, mode: nil, hasAda: false)
        try scene.administer("PUT", "/strategy", #"{"same_user_id":true}"#)
        #expect(try scene.identify(#"{"customerid":"bob"}"#, "login").status == 200)
        let zed = try linkedUser("zed", scene)
        try merge("linking_external_id:zed", "customerid:bob", scene)
        let bob = try linkedUser("bob", scene)
        #expect(bob != zed)
        #expect(try root("linking_external_id:bob", scene) != root("linking_external_id:zed", scene))
        // A user whom a claim makes has both for equals, and gets one of them.
        let claim = #"{"anonymous_id":"owl_anon_b","user_id":"bob"}"#
        #expect(try scene.claim("POST", "/v1/identity/claim", claim).status == 200)
        #expect(try root("linking_external_id:bob", scene) != root("linking_external_id:zed", scene))
        #expect(try linkedUser("bob", scene) == bob)
    }

    @Test("a user of another dialect gets no second user by IDSync", arguments: stores)
    func userOfOtherDialect(_ kind: StoreKind) throws {
        let scene = try Scene(kind, hasAda: false)
        let properties = #"{"user_id":"alice","properties":{"plan":"x"}}"#
        #expect(
            try scene.claim("POST", "/v1/identity/properties", properties, token: scene.token("alice")).status == 200)
        let alice = try scene.administer("GET", "/people/claim_user_id:alice").told("id")
        let bob = #"{"identity_type":"customerid","old_value":null,"new_value":"bob"}"#
        let taken = try AttackTests.modify(scene, alice, bob, scene.token("bob"))
        #expect(taken.status >= 400, "\(taken)")
        let upload = #""mpid":"\#(alice)","user_identities":{"customerid":"bob"},"events":[]"#
        _ = try scene.web("/v2/events", AttackTests.body(upload), token: scene.token("bob"))
        #expect(try scene.administer("GET", "/people/customerid:bob").status == 404)
    }

    @Test("without login types, who has a customer id is protected in each dialect that is asked to", arguments: stores)
    func protectedByCustomerID(_ kind: StoreKind) throws {
        let scene = try Scene(kind, mode: nil, preset: "best_match", hasAda: false)
        try scene.administer("PUT", "/strategy", #"{"protect_known":true}"#)
        #expect(try scene.identify(#"{"customerid":"alice"}"#, "login").status == 200)
        let properties = #"{"user_id":"owl_anon_a","properties":{"plan":"x"}}"#
        #expect(try scene.claim("POST", "/v1/identity/properties", properties).status == 200)
        try merge("claim_anonymous_id:owl_anon_a", "customerid:alice", scene)
        let claim = #"{"anonymous_id":"owl_anon_a","user_id":"bob"}"#
        #expect(try scene.claim("POST", "/v1/identity/claim", claim).status == 409)
    }

    @Test("a value that is blocked for one dialect names nobody there", arguments: stores)
    func blockedElsewhere(_ kind: StoreKind) throws {
        let scene = try Scene(kind, mode: nil, hasAda: false)
        #expect(try scene.identify(#"{"customerid":"v"}"#, "login").status == 200)
        let set = try scene.administer(
            "PUT", "/strategy", #"{"same_user_id":true,"blocked_values":[{"is":"v","types":["customerid"]}]}"#)
        #expect(set.status == 200, "\(set)")
        let properties = #"{"user_id":"v","properties":{"plan":"x"}}"#
        #expect(try scene.claim("POST", "/v1/identity/properties", properties).status == 200)
        #expect(try root("customerid:v", scene) != root("claim_user_id:v", scene))
        #expect(try scene.administer("POST", "/same-user-ids", "{}").status < 300)
        #expect(try root("customerid:v", scene) != root("claim_user_id:v", scene))
    }

    @Test("equal user ids that an undo has parted are not joined again by way of a third dialect", arguments: stores)
    func partedByThird(_ kind: StoreKind) throws {
        let scene = try Scene(kind, mode: nil, hasAda: false)
        try scene.administer("PUT", "/strategy", #"{"same_user_id":true}"#)
        let login = #"{"environment":"production","known_identities":{"customerid":"7777"}}"#
        let first = try scene.backEnd("/v1/login", login).told("mpid")
        let claim = #"{"anonymous_id":"owl_anon_7","user_id":"7777"}"#
        #expect(try scene.claim("POST", "/v1/identity/claim", claim).status == 200)
        let merges = try scene.administer("GET", "/people/\(first)").object["merges"] as? [[String: Any]] ?? []
        let merge = try #require(merges.first { $0["rule"] as? String == "same_user_id" })
        #expect(try scene.administer("POST", "/merges/\(merge["id"] ?? "")/undo", "{}").status == 200)
        #expect(try scene.access("POST", "/v3/users/QON_seven", "{}").status == 201)
        #expect(try scene.access("POST", "/v3/identities/7777", #"{"user_id":"QON_seven"}"#).status == 201)
        func areApart() throws -> Bool { try root("customerid:7777", scene) != root("claim_user_id:7777", scene) }
        #expect(try areApart())
        // Nor by a claim of whom an administrator has merged into the one, or by a change of such a person.
        let properties = #"{"user_id":"owl_anon_8","properties":{"plan":"x"}}"#
        #expect(try scene.claim("POST", "/v1/identity/properties", properties).status == 200)
        try self.merge("claim_anonymous_id:owl_anon_8", "customerid:7777", scene)
        #expect(try scene.claim("POST", "/v1/identity/claim", claim.replacing("anon_7", with: "anon_8")).status == 409)
        #expect(try areApart())
        let device = try scene.identify(#"{"device_application_stamp":"d"}"#).told("mpid")
        try self.merge(device, "customerid:7777", scene)
        _ = try AttackTests.modify(
            scene, device, #"{"identity_type":"customerid","old_value":null,"new_value":"7777"}"#, nil)
        #expect(try areApart())
    }

    // MARK: - Open risks (docs/threat-model.md)

    @Test(
        "the device of an anonymous person that was merged with a user still brings rows and addresses",
        arguments: stores)
    func mergedAnonymous(_ kind: StoreKind) throws {
        let scene = try Scene(kind)
        let mpid = try scene.identify(#"{"ios_idfv":"idfv-late"}"#).told("mpid")
        try merge(mpid, "customerid:ada", scene)
        func timeline() throws -> String {
            try scene.administer("GET", "/people/\(scene.mpid)/timeline?limit=200").wire.body
        }
        let before = try timeline()
        func upload(_ mpid: String) throws -> Scene.Answer {
            let event = #"{"event_type":"x","n":"late-event"}"#
            return try scene.web(
                "/v2/events",
                AttackTests.body(#""mpid":"\#(mpid)","user_attributes":{"town":"late-town"},"events":[\#(event)]"#))
        }
        func add(_ address: String, to person: String) throws -> Scene.Answer {
            let change = #"{"identity_type":"email","old_value":null,"new_value":"\#(address)"}"#
            return try AttackTests.modify(scene, person, change, nil)
        }
        #expect(try upload(mpid).status == 202)
        #expect(try add("late@x", to: mpid).status == 200)
        let ada = try scene.administer("GET", "/people/\(scene.mpid)").wire.body
        #expect(ada.contains("late-town") && ada.contains("late@x"), "\(ada)")
        #expect(try timeline() != before)
        // Her own person and her names stay closed.
        #expect(try upload(scene.mpid).wantsToken && add("other@x", to: scene.mpid).wantsToken)
        #expect(try scene.identify(#"{"ios_idfv":"idfv-late","customerid":"ada"}"#).wantsToken)
    }

    @Test(
        "a stolen anonymous id is claimed for the thief, or takes late events for its user, and shows nothing",
        arguments: stores)
    func stolenAnonymousID(_ kind: StoreKind) throws {
        let scene = try Scene(kind)
        let properties = #"{"user_id":"owl_anon_new","properties":{"plan":"x"}}"#
        #expect(try scene.claim("POST", "/v1/identity/properties", properties).status == 200)
        let claim = #"{"anonymous_id":"owl_anon_new","user_id":"mallory"}"#
        #expect(try scene.claim("POST", "/v1/identity/claim", claim).wantsToken)
        #expect(try scene.claim("POST", "/v1/identity/claim", claim, token: scene.token("mallory")).status == 200)
        // Ada has claimed this one.
        let sent = try scene.ingest(["owl_anon_ada"])
        #expect(sent.object["accepted"] as? Int == 1, "\(sent)")
        let feedback = try scene.claim(
            "POST", "/v1/feedback", #"{\#(Scene.bundle),"message":"late","user_id":"owl_anon_ada"}"#)
        #expect(feedback.status == 201, "\(feedback)")
        let listed = try scene.call(
            "GET", "/v1/feedback?data_mode=all", nil,
            [("Authorization", "Bearer \(scene.credentials.claimAgentKey)")])
        #expect(listed.list("feedback").first?["user_id"] as? String == "ada", "\(listed)")
        for text in Scene.privateTexts + [scene.mpid] {
            #expect(!(sent.wire.body + feedback.wire.body).contains(text), "\(text)")
        }
    }

    // MARK: - Linking

    @Test("an install's token, or the app's secret, links and erases nobody else", arguments: stores)
    func linking(_ kind: StoreKind) throws {
        let scene = try Scene(kind)
        let credentials = scene.credentials
        func server(_ method: String, _ path: String, _ json: String) throws -> Scene.Answer {
            try scene.call(method, path, json, [("Authorization", "Bearer \(credentials.linkingKey)")])
        }
        func install(_ external: String) throws -> Scene.Answer {
            let code = try server("POST", "/users/auth-code", #"{"external_id":"\#(external)"}"#)
            return try scene.call(
                "POST", "/sdk/users",
                """
                {"authentication_code":"\(code.told("authentication_code"))",\
                "install_key":"\(UUID().uuidString)","device":{"class":"phone"}}
                """, [])
        }
        let (ada, mallory) = (try install("ada"), try install("mallory"))
        #expect(ada.status == 201 && mallory.status == 201, "\(ada) \(mallory)")
        let before = try scene.administer("GET", "/people/linking_external_id:ada").wire.body
        let own = [("Authorization", "Bearer \(mallory.told("token"))")]
        let rows: [(String, String, String, String?, [(String, String)])] = [
            ("erase her", "DELETE", "/users/\(ada.told("user_id"))", nil, own),
            (
                "link her id to one's own install", "POST", "/v2/users/\(mallory.told("install_id"))/link",
                #"{"external_id":"ada"}"#, own
            ),
            ("ask for a code of hers", "POST", "/users/auth-code", #"{"external_id":"ada"}"#, own),
            ("ask for a code without a key", "POST", "/users/auth-code", #"{"external_id":"ada"}"#, []),
            (
                "link by a code that was made up", "POST", "/sdk/users/link",
                #"{"authentication_code":"\#(String(repeating: "a", count: 128))"}"#, own
            ),
            (
                "begin by a code that was made up", "POST", "/sdk/users",
                #"{"authentication_code":"\#(String(repeating: "a", count: 128))","install_key":"\#(UUID().uuidString)"}"#,
                []
            ),
            (
                "bring a token for her to a call that takes none", "GET", "/sdk/person", nil,
                [("Authorization", "Bearer \(scene.token("ada"))")]
            ),
            (
                "bring her refresh token with a letter changed", "POST", "/sdk/token",
                #"{"grant_type":"refresh_token","refresh_token":"B\#(ada.told("refresh_token").dropFirst())"}"#, []
            ),
        ]
        for (name, method, path, json, fields) in rows {
            let answer = try scene.call(method, path, json, fields)
            #expect((400..<500).contains(answer.status), "\(name): \(answer)")
            #expect(!answer.wire.body.contains(ada.told("user_id")), "\(name): \(answer)")
            #expect(try scene.administer("GET", "/people/linking_external_id:ada").wire.body == before, "\(name)")
        }
    }
}
