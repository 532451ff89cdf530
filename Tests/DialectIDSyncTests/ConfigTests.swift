import ByteText
import Crypto
import DialectIDSync
import Domain
import Foundation
import TestKit
import Testing

/// What clients ask for when they start, and keys in paths.
@Suite("Configuration")
struct ConfigTests {
    private static let paths = [
        "/v4/KEY/config", "/config/v4/KEY/config", "/JS/v2/KEY/config", "/tags/JS/v2/KEY/config", "/js/v2/KEY/config",
        "/v1/KEY/audience", "/nativeevents/v1/KEY/audience",
    ]

    private func path(_ path: String, _ key: String) -> String { path.replacing("KEY", with: key) }

    @Test("is what each kind of client reads")
    func documents() throws {
        let server = try TestServer(.memory)
        func body(_ path: String) throws -> String {
            try server.client.call("GET", self.path(path, server.credentials.idsyncKey)).body
        }
        let native = try body("/v4/KEY/config?av=1.0&sv=9.4.0")
        let id = native.dropFirst(17).prefix(36)
        #expect(UUID(uuidString: String(id)) != nil)
        #expect(
            native
                == #"{"dt":"ac","id":"\#(id)","ct":1600000000000,"dbg":false,"amw":90,"alias_max_window":90,"flags":{},"#
                + #""eks":[],"oo":false,"dur":false}"#)
        #expect(
            try body("/JS/v2/KEY/config?env=1")
                == #"{"aliasMaxWindow":90,"flags":{"eventsV3":"100"},"kitConfigs":[],"pixelConfigs":[]}"#)
        #expect(try body("/v1/KEY/audience?mpid=-5") == #"{"dt":"ar","m":[],"audience_memberships":[]}"#)
    }

    @Test("is served to every key of the dialect under every prefix, and not sent twice", arguments: StoreKind.allCases)
    func unchanged(_ kind: StoreKind) throws {
        let server = try TestServer(kind)
        // One client, so that what follows a 304 on its connection is read right.
        let client = server.client
        for key in [server.credentials.idsyncKey, server.credentials.idsyncWebKey] {
            for path in Self.paths.map({ path($0, key) }) {
                let first = try client.call("GET", path, fields: [("Origin", "https://shop.example")])
                #expect(first.status == 200 && first["Content-Type"] == "application/json; charset=utf-8", "\(path)")
                #expect(first["Cache-Control"] == "max-age=3600")
                #expect(first["Access-Control-Allow-Origin"] == "https://shop.example")
                let tag = try #require(first["ETag"])
                let again = try client.call("GET", path, fields: [("If-None-Match", tag)])
                #expect(again.status == 304 && again.body.isEmpty && again["ETag"] == tag)
                #expect(again["Content-Length"] == nil)
                let other = try client.call("GET", path, fields: [("If-None-Match", "\"other\"")])
                #expect(other.status == 200 && other.body == first.body)
            }
        }
    }

    @Test("has what an operator adds, under a tag of its own", arguments: StoreKind.allCases)
    func added(_ kind: StoreKind) throws {
        let server = try TestServer(kind)
        let admin = [("Authorization", "Bearer \(server.credentials.adminKey)")]
        func put(_ json: String) throws -> Wire.Answer {
            try server.client.call("PUT", "/onym/v1/client-config", fields: admin, json: json)
        }
        func get(_ path: String, _ tag: String? = nil) throws -> Wire.Answer {
            try server.client.call(
                "GET", self.path(path, server.credentials.idsyncKey), fields: tag.map { [("If-None-Match", $0)] } ?? [])
        }
        let before = (try get("/v4/KEY/config"), try get("/JS/v2/KEY/config"))
        let empty = try server.client.call("GET", "/onym/v1/client-config", fields: admin)
        #expect(empty.body == #"{"version":0,"at":null,"native":{},"web":{}}"#)
        for _ in 0..<2 {
            let set = try put(
                #"{"native":{"uitl":600,"stl":60,"flags":{"AudienceAPI":"True"}},"web":{"appName":"Shop"}}"#)
            #expect(set.status == 200 && set.body.contains(#""version":1,"#), "\(set)")
            #expect(
                set.body.hasSuffix(
                    #""native":{"flags":{"AudienceAPI":"True"},"stl":60,"uitl":600},"web":{"appName":"Shop"}}"#))
        }
        let (native, web) = (try get("/v4/KEY/config"), try get("/tags/JS/v2/KEY/config"))
        #expect(native.body.hasSuffix(#""flags":{"AudienceAPI":"True"},"stl":60,"uitl":600}"#), "\(native.body)")
        #expect(native.body.hasPrefix(#"{"dt":"ac","id":""#) && native.body.contains(#""eks":[]"#))
        #expect(native.body.components(separatedBy: "\"flags\"").count == 2, "no member is there twice")
        #expect(web.body.hasSuffix(#","appName":"Shop"}"#))
        #expect(native["ETag"] != before.0["ETag"] && web["ETag"] != before.1["ETag"])
        #expect(try get("/v4/KEY/config", before.0["ETag"]).status == 200)
        #expect(try get("/v4/KEY/config", native["ETag"]).status == 304)
        for (member, word) in [("dt", "configuration"), ("eks", "kits"), ("rp", "delete"), ("dur", "hosts")] {
            for part in ["native", "web"] {
                let refused = try put("{\"\(part)\":{\"\(member)\":1}}")
                #expect(refused.status == 400 && refused.body.contains(word), "\(refused)")
                #expect(refused.body.contains("\(part).\(member)"))
            }
        }
        #expect(try put(#"{"other":{}}"#).status == 400)
        #expect(try put(#"{"native":7}"#).status == 400)
        let large = String(repeating: "x", count: ClientConfig.documentBytes)
        #expect(try put("{\"native\":{\"x\":\"\(large)\"}}").status == 413)
        #expect(try put("{}").body.contains(#""version":2,"#))
        #expect(try get("/JS/v2/KEY/config").body == before.1.body)
    }

    @Test(
        "says what is not there",
        arguments: [
            ("GET", "/userprofile/v1/resolve?x=1"), ("POST", "/userprofile/v1/resolve"),
            ("GET", "/userprofile/v1/1/2/3/-5"), ("GET", "/platform/v2/audiences"), ("POST", "/v3/requests"),
            ("GET", "/v3/requests/1"), ("GET", "/platform/v2/calculated-attributes"), ("DELETE", "/v3/requests/1"),
            ("GET", "/v3/discovery"), ("POST", "/v1/opengdpr_requests"), ("PUT", "/UserProfile/v1/1/2/3/-5/a?x"),
            ("PATCH", "/platform/v2/workspaces/5/plans/"), ("GET", "/userprofile"),
        ])
    func missing(_ method: String, _ path: String) throws {
        let server = try TestServer(.memory)
        let answer = IDSyncClient.Answer(try server.client.call(method, path))
        #expect(answer.wire.status == 404 && answer.errorCode == "NOT_FOUND_ERROR")
        #expect(answer.message == "This server has no Profile API. See /onym/v1.")
    }

    @Test("says so of the vendor's paths alone", arguments: ["/userprofiles", "/v3/request", "/v1/platform", "/v3"])
    func others(_ path: String) throws {
        let server = try TestServer(.memory)
        let answer = try server.client.call("GET", path)
        #expect(answer.status == 404 && !answer.body.contains("Profile API"), "\(answer)")
    }

    @Test("may be asked for by a page of another origin")
    func preflight() throws {
        let server = try TestServer(.memory)
        let answer = try server.client.call(
            "OPTIONS", "/JS/v2/\(server.credentials.idsyncWebKey)/config",
            fields: [("Origin", "https://shop.example"), ("Access-Control-Request-Method", "GET")])
        #expect(answer.status == 204 && answer["Access-Control-Allow-Methods"]?.contains("GET") == true)
        #expect(answer["Access-Control-Allow-Headers"]?.contains("If-None-Match") == true)
    }

    @Test("is nobody's without a key, and a wrong proof is worse than none")
    func callers() throws {
        let server = try TestServer(.memory)
        let credentials = server.credentials
        func basic(_ key: String, _ secret: String) -> (String, String) {
            ("Authorization", "Basic \(Base64.encode(Array("\(key):\(secret)".utf8)))")
        }
        func signed(_ path: String) -> [(String, String)] {
            let head = IDSyncSignature.head("GET", date: Array("d".utf8), path: path)
            let signature = HMAC(key: Array(credentials.idsyncSecret.utf8)).authenticate(head, [])
            return [("Date", "d"), ("x-mp-signature", Hexadecimal.encode(signature.bytes))]
        }
        let (key, web) = (credentials.idsyncKey, credentials.idsyncWebKey)
        let signedPath = "/v4/\(key)/config"
        let callers: [(String, String, [(String, String)], Int)] = [
            ("a key", key, [], 200),
            ("a web key", web, [], 200),
            ("a key twice", key, [("x-mp-key", key)], 200),
            ("a key with its secret", key, [basic(key, credentials.idsyncSecret)], 200),
            ("a signature", key, signed(signedPath), 200),
            ("a signature with the key", key, signed(signedPath) + [("x-mp-key", key)], 200),
            ("a signature over the query", key, signed("\(signedPath)?av=1"), 200),
            ("no such key", "us1-00000000000000000000000000000000", [], 401),
            ("another dialect's key", credentials.claimClientKey, [], 401),
            ("two keys", key, [("x-mp-key", web)], 401),
            ("a key and what is none", key, [("x-mp-key", "x")], 401),
            ("a signature over another path", key, signed("/config\(signedPath)"), 401),
            ("a signature over another query", key, signed("\(signedPath)?av=2"), 401),
            ("a web key with a signature", web, signed("/v4/\(web)/config"), 401),
            ("another key's signature", web, signed(signedPath) + [("x-mp-key", key)], 401),
            ("a signature that is none", key, [("Date", "d"), ("x-mp-signature", "00")], 401),
            ("a wrong secret", key, [basic(key, "wrong")], 401),
            ("another key's secret", web, [basic(key, credentials.idsyncSecret)], 401),
        ]
        for prefix in ["", "/config"] {
            for (name, key, fields, status) in callers {
                let answer = try server.client.call("GET", "\(prefix)/v4/\(key)/config?av=1", fields: fields)
                #expect(answer.status == status, "\(name): \(answer)")
                if status == 401 { #expect(answer.body.isEmpty, "\(name)") }
            }
        }
    }
}
