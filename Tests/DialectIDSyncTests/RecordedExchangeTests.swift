import Foundation
import TestKit
import Testing

/// One session of each shipped client, call by call, in the shape in which the client sends it (spec/idsync.md 1, spec/idsync-clients.md).
/// The bodies have members that the server does not read, as the clients' own bodies do.
@Suite("Recorded exchanges of shipped clients")
struct RecordedExchangeTests {
    /// A call and the shape of its answer. `$source` and `$mpid` stand for the people of the session.
    struct Exchange {
        let path: String
        let body: String
        let status: Int
        /// The answer as JSON; `<text>`, `<integer>` and `<list>` stand for any value of the type. Nil for an empty answer.
        let answer: String?

        init(_ path: String, _ body: String, _ status: Int, _ answer: String?) {
            (self.path, self.body, self.status, self.answer) = (path, body, status, answer)
        }

        init(_ path: String, _ body: String, _ answer: String) { self.init(path, body, 200, answer) }
    }

    private static let batchAnswer = """
        {"dt":"rh","id":"<text>","ct":"<integer>","msgs":"<list>","ci":{"mpid":"<integer>","ck":{},"das":"D-1"}}
        """

    private static func person(_ matched: String, isLoggedIn: Bool) -> String {
        """
        {"context":null,"mpid":"<text>","matched_identities":\(matched),"is_ephemeral":false,"is_logged_in":\(isLoggedIn)}
        """
    }

    private static func base(_ platform: String, _ version: String) -> String {
        """
        "client_sdk":{"platform":"\(platform)","sdk_vendor":"mparticle","sdk_version":"\(version)"},\
        "environment":"development","request_timestamp_ms":1795213136000,"request_id":"ad58a7c1-cf35-4be5-8c42-a09989f85cc1"
        """
    }

    /// Android: bodies in gzip, the MPIDs as numbers, no `context` and no members that are null.
    private static let android: [Exchange] = [
        Exchange(
            "/v1/identify",
            #"{\#(base("android", "5.60.0")),"known_identities":{"android_uuid":"f924","device_application_stamp":"D-1"}}"#,
            person("{}", isLoggedIn: false)),
        Exchange(
            "/v2/$key/events",
            """
            {"dt":"h","id":"b-1","ct":1795213136100,"sdk":"5.60.0","oo":false,"uitl":600,"stl":60,"mpid":$source,"das":"D-1",\
            "ai":{"apn":"com.example","av":"1.0","b":"7"},"di":{"dll":"en","duid":"f924","tz":"+02:00"},"ui":[],"ck":{},\
            "ua":{"vip":null,"level":"3"},"ia":{"1":{"k":"v"}},"pcd":false,"ltv":0,"con":{"gdpr":{}},\
            "msgs":[{"dt":"ss","id":"m-1","ct":1795213136050,"sct":1795213136050},\
            {"dt":"e","id":"m-2","ct":1795213136060,"n":"opened","et":"Other","est":1795213136060,"attrs":{"a":"b"},\
            "sid":"m-1","flags":{"f":["x"]}}]}
            """, 202, batchAnswer),
        Exchange(
            "/v1/login",
            """
            {\(base("android", "5.60.0")),"previous_mpid":$source,\
            "known_identities":{"customerid":"c-1","android_uuid":"f924","device_application_stamp":"D-1"}}
            """, person("\"<object>\"", isLoggedIn: true)),
        Exchange(
            "/v1/$mpid/modify",
            """
            {\(base("android", "5.60.0")),\
            "identity_changes":[{"identity_type":"email","old_value":null,"new_value":"c@example.com"}]}
            """, #"{"change_results":"<list>"}"#),
        Exchange(
            "/v1/identity/$key/alias",
            """
            {"request_id":"9c1d6ec2-92a0-4b8b-8a5c-7c1d2b6b6a01","request_type":"alias","environment":"development",\
            "api_key":"$key","data":{"source_mpid":$source,"destination_mpid":$mpid,"start_unixtime_ms":$start,\
            "end_unixtime_ms":$end,"device_application_stamp":"D-1"}}
            """, 202, nil),
        Exchange(
            "/v1/logout",
            """
            {\(base("android", "5.60.0")),"previous_mpid":$mpid,\
            "known_identities":{"android_uuid":"f924","device_application_stamp":"D-1"}}
            """, person("\"<object>\"", isLoggedIn: false)),
    ]

    /// Apple: plain bodies, the MPID of a path and of `previous_mpid` as a text, null for an identity that the app took away.
    private static let apple: [Exchange] = [
        Exchange(
            "/v1/identify",
            """
            {\(base("ios", "9.4.0")),\
            "known_identities":{"email":null,"ios_idfv":"V-1","device_application_stamp":"D-1"}}
            """, person("{}", isLoggedIn: false)),
        Exchange(
            "/v2/$key/events",
            """
            {"dt":"h","id":"b-2","ct":1795213136100,"sdk":"9.4.0","oo":false,"mpid":$source,"das":"D-1","ltv":0,\
            "ai":{"apn":"com.example","av":"1.0"},"di":{"dosv":"26.1","idfv":"V-1","arms":false},"ui":[],\
            "cs":{"exi":0},"pr":[],"con":{"gdpr":{"a":{"c":true,"ts":1}}},"uad":["old"],"ua":{"eyes":"brown"},\
            "msgs":[{"dt":"ast","id":"m-1","ct":1795213136050,"t":"app_init","ifr":true},\
            {"dt":"uac","id":"m-2","ct":1795213136060,"n":"eyes","nv":"brown","ov":null,"na":true,"d":false}]}
            """, 202, batchAnswer),
        Exchange(
            "/v1/login",
            """
            {\(base("ios", "9.4.0")),"previous_mpid":"$source",\
            "known_identities":{"customerid":"c-1","ios_idfv":"V-1","device_application_stamp":"D-1","push_token":"p-1"}}
            """, person("\"<object>\"", isLoggedIn: true)),
        Exchange(
            "/v1/$mpid/modify",
            """
            {\(base("ios", "9.4.0")),\
            "identity_changes":[{"identity_type":"push_token","old_value":"p-1","new_value":"p-2"},\
            {"identity_type":"email","old_value":null,"new_value":null}]}
            """, #"{"change_results":"<list>"}"#),
        Exchange(
            "/v1/identity/$key/alias",
            """
            {"request_id":"9c1d6ec2-92a0-4b8b-8a5c-7c1d2b6b6a02","request_type":"alias","environment":"development",\
            "api_key":"$key","data":{"source_mpid":$source,"destination_mpid":$mpid,"start_unixtime_ms":$start,\
            "end_unixtime_ms":$end,"device_application_stamp":"D-1"}}
            """, 202, nil),
        Exchange(
            "/v1/logout",
            """
            {\(base("ios", "9.4.0")),"previous_mpid":"$mpid",\
            "known_identities":{"ios_idfv":"V-1","device_application_stamp":"D-1"}}
            """, person("\"<object>\"", isLoggedIn: false)),
    ]

    /// The web: `context` is always there, MPIDs are texts, uploads are of the type text/plain.
    private static let web: [Exchange] = [
        Exchange(
            "/v1/identify",
            """
            {\(base("web", "2.71.2")),"context":null,"previous_mpid":null,\
            "known_identities":{"device_application_stamp":"D-1"}}
            """, person("{}", isLoggedIn: false)),
        Exchange(
            "/v3/JS/$key/events",
            """
            {"source_request_id":"b-3","mpid":"$source","timestamp_unixtime_ms":1795213136100,"environment":"development",\
            "events":[{"event_type":"session_start","data":{"timestamp_unixtime_ms":1795213136050,"session_uuid":"s-1"}},\
            {"event_type":"screen_view","data":{"screen_name":"Home","custom_attributes":{"title":"x"},"location":null,\
            "canonical_name":null,"source_message_id":"m-1"}}],"mp_deviceid":"D-1","sdk_version":"2.71.2",\
            "application_info":{"application_version":null},"device_info":{"platform":"web"},"user_attributes":{"vip":null},\
            "user_identities":{},"consent_state":null,"integration_attributes":{},"context":{"data_plan":{"plan_id":"p"}}}
            """, 202, nil),
        Exchange(
            "/v1/login",
            """
            {\(base("web", "2.71.2")),"context":null,"previous_mpid":"$source",\
            "known_identities":{"customerid":"c-1","device_application_stamp":"D-1"}}
            """, person("\"<object>\"", isLoggedIn: true)),
        Exchange(
            "/v1/$mpid/modify",
            """
            {\(base("web", "2.71.2")),"context":null,\
            "identity_changes":[{"identity_type":"customerid","old_value":"c-1","new_value":"c-1"},\
            {"identity_type":"email","old_value":null,"new_value":"c@example.com"}]}
            """, #"{"change_results":"<list>"}"#),
        Exchange(
            "/v1/identity/$key/alias",
            """
            {"request_id":"9c1d6ec2-92a0-4b8b-8a5c-7c1d2b6b6a03","request_type":"alias","environment":"development",\
            "api_key":"$key","data":{"source_mpid":"$source","destination_mpid":"$mpid","start_unixtime_ms":$start,\
            "end_unixtime_ms":$end,"scope":"device","device_application_stamp":"D-1"}}
            """, 202, nil),
        Exchange(
            "/v1/logout",
            """
            {\(base("web", "2.71.2")),"context":null,"previous_mpid":"$mpid",\
            "known_identities":{"device_application_stamp":"D-1"}}
            """, person("\"<object>\"", isLoggedIn: false)),
    ]

    @Test(
        "are answered as the client expects, and end at the right people", arguments: StoreKind.allCases,
        ["android", "apple", "web"])
    func session(_ kind: StoreKind, _ name: String) throws {
        let client = IDSyncClient(try TestServer(kind))
        let (proof, exchanges): (IDSyncClient.Proof, [Exchange]) =
            switch name {
            case "android": (.android, Self.android)
            case "apple": (.apple, Self.apple)
            default: (.web, Self.web)
            }
        // The user has used another device before.
        _ = try client.identify(#"{"customerid":"c-1"}"#, by: .basic)
        let credentials = client.server.credentials
        let now = Int64(Date().timeIntervalSince1970 * 1000)
        var known = [
            "$key": name == "web" ? credentials.idsyncWebKey : credentials.idsyncKey, "$start": "\(now - 86_400_000)",
            "$end": "\(now)",
        ]
        func filled(_ text: String) -> String { known.reduce(text) { $0.replacing($1.key, with: $1.value) } }
        for exchange in exchanges {
            let (path, body) = (filled(exchange.path), filled(exchange.body))
            let answer =
                name == "web" && path.contains("/JS/")
                ? try client.http.call(
                    "POST", path, fields: [("Content-Type", "text/plain;charset=UTF-8")], body: Array(body.utf8))
                : try client.call(path, body, by: proof)
            #expect(answer.status == exchange.status, "\(name) \(path): \(answer)")
            guard let expected = exchange.answer else {
                #expect(answer.body.isEmpty, "\(name) \(path): \(answer)")
                continue
            }
            #expect(answer["Content-Type"]?.hasPrefix("application/json") == true, "\(name) \(path)")
            let found = try JSONSerialization.jsonObject(with: Data(answer.body.utf8), options: .fragmentsAllowed)
            let shape = try JSONSerialization.jsonObject(with: Data(expected.utf8), options: .fragmentsAllowed)
            #expect(Self.has(found, shape), "\(name) \(path): \(answer.body) is not as \(expected)")
            if let mpid = (found as? [String: Any])?["mpid"] as? String {
                if path.hasSuffix("identify") { known["$source"] = mpid }
                if path.hasSuffix("login") { known["$mpid"] = mpid }
            }
        }
        let (source, mpid) = (known["$source"] ?? "", known["$mpid"] ?? "")
        // The events of the session are at the person of before the login, with the attributes.
        #expect(try client.timeline(source).count >= 2)
        let attributes = try client.attributes(of: source)
        switch name {
        case "android": #expect(attributes == ["vip": "null", "level": "\"3\""])
        case "apple": #expect(attributes == ["eyes": "\"brown\""])
        default: #expect(attributes == ["vip": "null"])
        }
        let profile = try client.http.call(
            "GET", "/onym/v1/people/\(mpid)", fields: [("Authorization", "Bearer \(credentials.adminKey)")])
        #expect(profile.body.contains(name == "apple" ? "p-2" : "c@example.com"), "\(profile.body)")
    }

    /// Whether a value has the shape, and no member besides.
    private static func has(_ found: Any, _ shape: Any) -> Bool {
        switch shape {
        case let shape as [String: Any]:
            guard let found = found as? [String: Any], Set(found.keys) == Set(shape.keys) else { return false }
            return shape.allSatisfy { has(found[$0] ?? 0, $1) }
        case let text as String where text == "<text>": return (found as? String)?.isEmpty == false
        case let text as String where text == "<object>": return found is [String: Any]
        case let text as String where text == "<list>": return found is [Any]
        case let text as String where text == "<integer>": return !(found is String) && found is Int64
        default: return (found as? NSObject) == (shape as? NSObject)
        }
    }
}
