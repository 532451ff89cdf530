import Domain
import Foundation
import StoreSQLite
import TestKit
import Testing

/// The rules of a project over HTTP, on every store.
@Suite("/onym/v1/strategy")
struct StrategyCallsTests {
    private struct Client {
        let server: TestServer
        let http: HTTPClient

        init(_ server: TestServer) {
            self.server = server
            http = server.client
        }

        func call(_ method: String, _ path: String, _ json: String? = nil, key: String? = nil) throws -> Answer {
            let field = ("Authorization", "Bearer \(key ?? server.credentials.adminKey)")
            return Answer(
                try json.map { try http.call(method, "/onym/v1/strategy" + path, fields: [field], json: $0) }
                    ?? http.call(method, "/onym/v1/strategy" + path, fields: [field]))
        }

        func identify(_ path: String, _ identities: String) throws -> Answer {
            Answer(
                try http.call(
                    "POST", "/v1/\(path)", fields: [("x-mp-key", server.credentials.idsyncWebKey)],
                    json: #"{"environment":"development","known_identities":\#(identities)}"#))
        }
    }

    private struct Answer {
        let wire: Wire.Answer
        let object: [String: Any]

        init(_ wire: Wire.Answer) {
            self.wire = wire
            object = (try? JSONSerialization.jsonObject(with: Data(wire.body.utf8)) as? [String: Any]) ?? [:]
        }

        subscript(name: String) -> String { object[name].map { "\($0)" } ?? "none" }
        var versions: [[String: Any]] { object["versions"] as? [[String: Any]] ?? [] }
        var numbers: [Int] { versions.compactMap { $0["version"] as? Int } }
    }

    static let standard =
        #"{"version":1,"preset":"default","order_free":[],"hierarchy":["customerid","mobile_number","email","other","facebook","google","#
        + #""twitter","microsoft","yahoo","ios_idfa","ios_idfv","android_aaid","android_uuid","fire_aid","#
        + #""roku_aid","roku_publisher_id","microsoft_publisher_id","microsoft_aid","amp_id","#
        + #""device_application_stamp"],"#
        + #""login":["customerid"],"unique":["customerid"],"immutable":[],"on_new_known":"keep","on_logout":"create","#
        + #""lowercase_email":false,"blocked_values":["null","(null)","#

    @Test("shows the default where nobody set anything", arguments: StoreKind.allCases)
    func standard(_ kind: StoreKind) throws {
        let answer = try Client(TestServer(kind)).call("GET", "")
        #expect(answer.wire.status == 200 && answer.wire["Content-Type"] == "application/json")
        #expect(answer.wire.body.hasPrefix(StrategyCallsTests.standard), "\(answer.wire.body)")
    }

    @Test("takes what it answers, and calls that nothing new", arguments: StoreKind.allCases)
    func sentBack(_ kind: StoreKind) throws {
        let client = Client(try TestServer(kind))
        for preset in ["profile_link", "best_match", "profile_conversion", "profile_isolation", "default"] {
            let set = try client.call("PUT", "", "{\"preset\":\"\(preset)\"}")
            #expect(set.wire.status == 200 && set["preset"] == preset)
            #expect(try client.call("GET", "").wire.body == set.wire.body)
            #expect(try client.call("PUT", "", set.wire.body).wire.body == set.wire.body)
        }
        #expect(try client.call("GET", "")["version"] == "6")
    }

    @Test("decides from the next call on", arguments: StoreKind.allCases)
    func effect(_ kind: StoreKind) throws {
        let client = Client(try TestServer(kind))
        let device = try client.identify("identify", #"{"ios_idfv":"1"}"#)["mpid"]
        #expect(try client.call("PUT", "", #"{"preset":"profile_isolation"}"#).wire.status == 200)
        let user = try client.identify("login", #"{"customerid":"c","ios_idfv":"1"}"#)["mpid"]
        #expect(user != device)
        #expect(try client.identify("logout", #"{"ios_idfv":"1"}"#)["mpid"] == device)
        #expect(try client.identify("login", #"{"ios_idfv":"1"}"#).wire.status == 400, "a login has to log in")
        #expect(try client.call("POST", "/rollback", #"{"version":1}"#)["version"] == "3")
        #expect(try client.identify("logout", #"{"ios_idfv":"1"}"#)["mpid"] != device)
    }

    @Test("takes e-mail addresses in small letters where that is wanted", arguments: StoreKind.allCases)
    func lowercaseEmail(_ kind: StoreKind) throws {
        let client = Client(try TestServer(kind))
        let before = try client.identify("identify", #"{"email":"Ada@X.com"}"#)["mpid"]
        #expect(try client.identify("identify", #"{"email":"ada@x.com"}"#)["mpid"] != before)
        #expect(try client.call("PUT", "", #"{"lowercase_email":true}"#)["preset"] == "custom")
        let ada = try client.identify("identify", #"{"email":"ÄDA@x.com","other":"O"}"#)["mpid"]
        let found = try client.identify("identify", #"{"email":"äda@X.com","other":"o"}"#)
        #expect(found["mpid"] == ada && found.wire.body.contains(#""email":"äda@x.com""#))
        #expect(try client.identify("search", #"{"other":"O"}"#)["mpid"] == ada)
        let other = try client.identify("identify", #"{"customerid":"c"}"#)["mpid"]
        _ = try client.identify(
            "\(other)/modify", "{},\"identity_changes\":[{\"identity_type\":\"email\",\"new_value\":\"NEW@x\"}]")
        #expect(try client.identify("search", #"{"email":"new@x","customerid":"c"}"#)["mpid"] == other)
        let events = try client.http.call(
            "POST", "/v3/JS/\(client.server.credentials.idsyncWebKey)/events",
            json: #"{"user_identities":{"email":"EVENT@x"},"events":[]}"#)
        #expect(events.status == 202, "\(events)")
        #expect(try client.identify("search", #"{"email":"event@x"}"#).wire.status == 200)
        // 1,366 of these are 2,732 bytes, and 4,098 in small letters.
        let long = String(repeating: "\u{130}", count: 1366)
        #expect(try client.identify("identify", "{\"email\":\"\(long)\"}").wire.status == 400)
    }

    @Test("lists the versions, the newest first, and goes back to one", arguments: StoreKind.allCases)
    func versions(_ kind: StoreKind) throws {
        let client = Client(try TestServer(kind))
        for preset in ["profile_link", "best_match"] {
            _ = try client.call("PUT", "", "{\"preset\":\"\(preset)\"}")
        }
        let list = try client.call("GET", "/versions")
        #expect(list.numbers == [3, 2, 1] && list.wire.body.hasSuffix(#""next_cursor":null}"#))
        let newest = try #require(list.versions.first)
        #expect(
            newest["key"] as? String == "1"
                && (newest["document"] as? [String: Any])?["preset"] as? String == "best_match")
        let first = try #require(list.versions.last)
        #expect(first["key"] is NSNull && first["at"] as? String == "2020-09-13T12:26:40.000Z")

        let part = try client.call("GET", "/versions?limit=2")
        #expect(part.numbers == [3, 2] && part["next_cursor"] == "2")
        let rest = try client.call("GET", "/versions?limit=2&cursor=2")
        #expect(rest.numbers == [1] && rest.object["next_cursor"] is NSNull)
        for query in ["limit=0", "limit=201", "limit=x", "cursor=x", "cursor=-1"] {
            let refused = try client.call("GET", "/versions?\(query)")
            #expect(refused.wire.status == 400 && refused["code"] == "validation_error", "\(query)")
        }

        let back = try client.call("POST", "/rollback", #"{"version":2}"#)
        #expect(back["version"] == "4" && back["preset"] == "profile_link")
        #expect(try client.call("POST", "/rollback", #"{"version":4}"#)["version"] == "4", "nothing changes")
        for version in ["9", "0", "-1"] {
            let missing = try client.call("POST", "/rollback", "{\"version\":\(version)}")
            #expect(missing.wire.status == 404 && missing["code"] == "not_found")
        }
    }

    @Test("has its versions after a restart")
    func restart() throws {
        let folder = TemporaryFolder()
        let versions: String
        do {
            let client = Client(try TestServer(.sqlite, in: folder))
            _ = try client.call("PUT", "", #"{"hierarchy":["email","ios_idfv"],"blocked_values":["x","Ü"]}"#)
            versions = try client.call("GET", "/versions").wire.body
            #expect(versions.contains(#""blocked_values":["x","Ü"]"#))
        }
        let store = try SQLiteStore(StoreFile(folder: folder.path))
        defer { store.close() }
        let current = store.directory.strategies(of: World.project).current
        #expect(current.number == 2 && current.strategy.hierarchy == [.email, .iosIDFV])
        #expect(versions.contains("\"version\":\(current.number)"))
    }

    static let mistakes: [(body: String, detail: String)] = [
        (
            #"{"preset":"fancy"}"#,
            "preset must be default, profile_conversion, profile_link, profile_isolation, best_match, segment, amplitude, "
                + "mixpanel_simplified, mixpanel_original, posthog, rudderstack, snowplow, revenuecat_transfer, revenuecat_keep, sentiance, owlmetry, qonversion, "
                + "firebase_link, custom, mparticle.default, mparticle.conversion, mparticle.link, mparticle.isolation, "
                + "mparticle.best_match, not \"fancy\"."
        ),
        (#"{"preset":1}"#, "preset must be a string."),
        (#"{"hierarchy":["customerid","shoe_size"]}"#, "hierarchy has \"shoe_size\", which is not an identity type."),
        (#"{"hierarchy":["email","email"]}"#, "hierarchy has email twice."),
        (#"{"hierarchy":[]}"#, "hierarchy must name at least one identity type."),
        (#"{"hierarchy":"email"}"#, "hierarchy must be an array."),
        (#"{"login":[null]}"#, "each value of login must be a string."),
        (#"{"login":["ios_idfv"]}"#, "login must not have ios_idfv, because a device never logs a person in."),
        (#"{"unique":["Email"]}"#, "unique has \"Email\", which is not an identity type."),
        (#"{"immutable":["ios_idfa"]}"#, "immutable must not have ios_idfa, because several people can use a device."),
        (#"{"immutable":["email"]}"#, "immutable has email, which must be in unique and in login as well."),
        (
            #"{"immutable":["customerid"],"unique":[]}"#,
            "immutable has customerid, which must be in unique and in login as well."
        ),
        (#"{"on_new_known":"maybe"}"#, "on_new_known must be keep, create, not \"maybe\"."),
        (#"{"on_logout":"keep"}"#, "on_logout must be create, return, resolve, not \"keep\"."),
        (#"{"lowercase_email":"yes"}"#, "lowercase_email must be true or false."),
        (#"{"blocked_values":[""]}"#, "blocked_values must have values of 1 to 63 bytes, not \"\"."),
        (#"{"blocked_values":[1]}"#, "each value of blocked_values must be a string."),
        (#"{"blocked_values":[{}]}"#, "blocked_values[0] must have one test."),
        (#"{"blocked_values":["a",{"is":"a","blank":true}]}"#, "blocked_values[1] must have one test."),
        (#"{"blocked_values":[{"is":"a","case":1}]}"#, "blocked_values[0].case is not a field of a matcher."),
        (#"{"blocked_values":[{"blank":false}]}"#, "blocked_values[0].blank must be true."),
        (#"{"blocked_values":[{"blank":true,"quoted":true}]}"#, "blocked_values[0].quoted needs is or any_case."),
        (#"{"blocked_values":[{"shorter_than":0}]}"#, "blocked_values[0].shorter_than must be 1 to 4096."),
        (
            #"{"blocked_values":[{"is":"a","types":["shoe"]}]}"#,
            "blocked_values[0].types has \"shoe\", which is not an identity type."
        ),
        (
            #"{"limits":{"email":{"count":5,"per":"day"}}}"#,
            "limits.email.per must be ever, week, month, year, not \"day\"."
        ),
        (#"{"limits":{"email":{"count":5,"for":1}}}"#, "limits.email.for is not a field of a limit."),
        (#"{"limits":{"shoe":1}}"#, "limits.shoe is not an identity type."),
        (#"{"strategy_dry_run_days":401}"#, "strategy_dry_run_days must be 0 to 400."),
        (#"{"shared_device_people":0}"#, "shared_device_people must be 1 to 1000."),
        (#"{"person_limits":{"identities":0}}"#, "person_limits.identities must be 1 to 10000."),
        (#"{"person_limits":{"shoes":1}}"#, "shoes is not a field of person_limits."),
        (#"{"group_limits":{"members":1}}"#, "group_limits.members must be 2 to 100000."),
        (#"{"group_limits":{"shoes":1}}"#, "shoes is not a field of group_limits."),
        (#"{"restore":{"shoes":1}}"#, "shoes is not a field of restore."),
        (#"{"shoes":1}"#, "shoes is not a field of a strategy."),
        (#"{"signed_identities":{"shoes":"off"}}"#, "signed_identities.shoes is not a dialect with client keys."),
        (#"{"limits":{"email":{"per":"ever"}}}"#, "limits.email.count is required."),
        (#"{"limits":{"@device":0}}"#, "limits.@device must be 1 to 1000."),
        (
            #"{"merge_guards":["none"]}"#,
            "each value of merge_guards must be target_without_device, device_is_uuid4, not \"none\"."
        ),
        (#"{"decide_on":"root"}"#, "decide_on must be member, group, not \"root\"."),
        (#"{"version":"1"}"#, "version must be a 64-bit integer."),
        ("[]", "the body must be an object."),
    ]

    @Test("says what is wrong with a document, and changes nothing", arguments: mistakes)
    func mistake(_ body: String, _ detail: String) throws {
        let client = Client(try TestServer(.memory))
        let answer = try client.call("PUT", "", body)
        #expect(answer.wire.status == 400 && answer.wire["Content-Type"] == "application/problem+json")
        #expect(answer["code"] == "validation_error" && answer["detail"] == detail, "\(answer["detail"])")
        #expect(try client.call("GET", "")["version"] == "1")
    }

    @Test(
        "names rules that do not fit each other, and bad patterns",
        arguments: [
            (#"{"merge_on_match":"any"}"#, "merge_needs_group"),
            (#"{"merge_on_match":"anonymous_into_known","decide_on":"member"}"#, "merge_needs_group"),
            (#"{"merge_on_match":"any","decide_on":"group"}"#, "known_into_known_unlimited"),
            (
                #"{"merge_on_match":"any","decide_on":"group","limits":{"customerid":2}}"#,
                "known_into_known_unlimited"
            ),
            (
                #"{"merge_on_match":"any","decide_on":"group","limits":{"customerid":{"count":1,"per":"year"}}}"#,
                "known_into_known_unlimited"
            ),
            (#"{"blocked_values":[{"pattern":"("}]}"#, "bad_pattern"),
            (#"{"blocked_values":[{"pattern":"(a|b)*a(a|b){9}"}]}"#, "bad_pattern"),
        ])
    func rules(_ body: String, _ code: String) throws {
        let client = Client(try TestServer(.memory))
        let answer = try client.call("PUT", "", body)
        #expect(answer.wire.status == 400 && answer["code"] == code, "\(answer.wire)")
        #expect(try client.call("GET", "")["version"] == "1")
    }

    /// Each problem that the code of the document can tell occurs in a test above. The list is read from the code.
    @Test("has a test for each problem that it tells")
    func allProblems() throws {
        let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appending(path: "Sources/DialectNative/StrategyDocument.swift")
        let code = try String(contentsOf: folder, encoding: .utf8)
        let told = StrategyCallsTests.mistakes.map(\.detail)
        var problems = 0
        for match in code.matches(of: /\.wrong\(\s*"((?:[^"\\]|\\.)*)"\)/) {
            // What stands between interpolations is in one of the messages.
            let parts = String(match.1).replacing(
                /\\\([^()]*(?:\([^()]*(?:\([^()]*\)[^()]*)*\)[^()]*)*\)/, with: "\u{0}"
            )
            .replacing("\\\"", with: "\"").split(separator: "\u{0}").map(String.init)
            problems += 1
            let isTold = told.contains { message in parts.allSatisfy { message.contains($0) } }
            #expect(isTold || StrategyCallsTests.toldElsewhere.contains(String(match.1)), "\(match.1)")
        }
        #expect(problems > 15, "\(problems)")
        for fault in [
            StrategyFault.emptyHierarchy, .deviceLogsIn(.iosIDFV), .deviceIsImmutable(.iosIDFA),
            .immutableAlone(.email),
        ] { #expect(told.contains(fault.message), "\(fault)") }
    }

    /// Problems whose documents are too long for the table above; the test below has them.
    private static let toldElsewhere = [
        #"must have at most \(BlockedValues.countLimit) values"#,
        #"must have at most \(BlockedValues.patternsAtMost) patterns"#,
    ]

    @Test("refuses too many blocked values and patterns")
    func tooMany() throws {
        let client = Client(try TestServer(.memory))
        for (one, count, detail) in [
            (#""x""#, 1001, "blocked_values must have at most 1000 values."),
            (#"{"pattern":"^x$"}"#, 101, "blocked_values must have at most 100 patterns."),
        ] {
            let values = Array(repeating: one, count: count).joined(separator: ",")
            let answer = try client.call("PUT", "", #"{"blocked_values":[\#(values)]}"#)
            #expect(answer.wire.status == 400 && answer["detail"] == detail, "\(answer["detail"])")
        }
    }

    @Test("keeps every rule and matcher, and takes them back", arguments: StoreKind.allCases)
    func allRules(_ kind: StoreKind) throws {
        let folder = TemporaryFolder()
        let document = #"""
            {"unique":["customerid","@device"],"limits":{"customerid":{"count":1,"per":"ever"},"@device":7,
            "email":{"count":3,"per":"week"},"other":{"count":2,"per":"year"}},"strategy_dry_run_days":90,
            "on_limit":"separate","on_logout":"resolve","protect_known":false,"decide_on":"group","merge_on_match":"any",
            "merge_guards":["device_is_uuid4","target_without_device"],"known_into_known":true,"merge_root":"oldest",
            "device_without_user":"last_known","contested_device":"stable_anonymous","on_existing_user":"refuse",
            "blocked_values":[{"is":"NaN"},"plain",{"any_case":"guest","quoted":true},{"pattern":"^[0-]*$"},
            {"contains":"/"},{"blank":true},{"shorter_than":2,"types":["email","@device"]},{"longer_than":100},
            {"list":"posthog"}]}
            """#
        let client = Client(try TestServer(kind, in: folder))
        let set = try client.call("PUT", "", document)
        #expect(set.wire.status == 200 && set["preset"] == "custom", "\(set.wire)")
        for part in [
            #""protect_known":false,"decide_on":"group","merge_on_match":"any""#, #""merge_root":"oldest""#,
            #""blocked_values":["plain",{"is":"NaN"},{"any_case":"guest","quoted":true},{"pattern":"^[0-]*$"}"#,
            #"{"shorter_than":2,"types":["email","ios_idfa""#, #""on_limit":"separate""#, #""ios_idfv":7"#,
            #""email":{"count":3,"per":"week"}"#, #""other":{"count":2,"per":"year"}"#, #""strategy_dry_run_days":90"#,
        ] { #expect(set.wire.body.contains(part), "\(part)") }
        #expect(try client.call("PUT", "", set.wire.body).wire.body == set.wire.body)
        for vendor in ["segment", "amplitude", "snowplow", "firebase_link"] {
            let answer = try client.call("PUT", "", #"{"preset":"\#(vendor)"}"#)
            #expect(answer["preset"] == vendor)
            #expect(try client.call("PUT", "", answer.wire.body).wire.body == answer.wire.body)
        }
        #expect(try client.call("PUT", "", #"{"limits":{}}"#)["preset"] == "custom")
        #expect(try client.call("PUT", "", #"{"preset":"mparticle.link"}"#)["preset"] == "profile_link")
    }

    @Test("refuses bodies that are no documents, too many values and strange keys")
    func refusals() throws {
        let client = Client(try TestServer(.memory))
        let broken = try client.call("PUT", "", "{")
        #expect(broken.wire.status == 400 && broken["code"] == "malformed_body")
        let values = (0...1000).map { "\"v\($0)\"" }.joined(separator: ",")
        #expect(try client.call("PUT", "", "{\"blocked_values\":[\(values)]}").wire.status == 400)
        for body in ["{}", #"{"version":"2"}"#, #"{"version":1,"reason":"x"}"#] {
            #expect(try client.call("POST", "/rollback", body)["code"] == "validation_error")
        }
        for key in ["nonsense", client.server.credentials.idsyncKey, client.server.credentials.claimAgentKey] {
            #expect(try client.call("GET", "", key: key).wire.status == 401)
            #expect(try client.call("PUT", "", "{}", key: key).wire.status == 401)
        }
    }
}
