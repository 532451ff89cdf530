import DialectClaim
import Foundation
import Outbound
import TestKit
import Testing
import Threads

/// `POST /v1/identity/attribution/:source` (spec/claim.md 1.5, 4.1, 6), with a stand-in for Apple.
@Suite("POST /v1/identity/attribution/:source")
struct AttributionTests {
    /// A server that asks the stand-in.
    private func client(
        _ kind: StoreKind, _ apple: StandIn, isProduction: Bool = false, retry: Int = 3600, url: String? = nil
    ) throws -> OwlClient {
        let url = try #require(OutboundURL(url ?? apple.url + "api/v1/"))
        return OwlClient(
            try TestServer(kind) { configuration in
                configuration.attribution.url = url
                configuration.attribution.takesMocks = !isProduction
                configuration.attribution.retryAfterSeconds = retry
            })
    }

    private func apple(_ body: String, status: Int = 200) -> StandIn { StandIn(.status(status, body)) }

    private static let paid = """
        {"attribution":true,"orgId":40669820,"campaignId":542370539,"conversionType":"Download","claimType":"Click",\
        "adGroupId":542317095,"countryOrRegion":"US","keywordId":87675432,"adId":542317136,"creativeSetId":7,\
        "supplyPlacement":"APPSTORE_SEARCH_RESULTS"}
        """

    @Test("keeps what Apple says of an ad", arguments: StoreKind.allCases)
    func attributed(_ kind: StoreKind) throws {
        let apple = apple(AttributionTests.paid)
        let client = try client(kind, apple)
        let answer = try client.attribute("ada", "t0ken/+==")
        let properties = """
            {"attribution_source":"apple_search_ads","asa_campaign_id":"542370539","asa_ad_group_id":"542317095",\
            "asa_keyword_id":"87675432","asa_claim_type":"Click","asa_ad_id":"542317136","asa_creative_set_id":"7"}
            """
        #expect(answer.status == 200)
        #expect(answer.body == #"{"attributed":true,"pending":false,"properties":\#(properties)}"#)
        let call = try #require(apple.received.first)
        #expect(apple.received.count == 1 && call.line == "POST /api/v1/ HTTP/1.1" && call.body == "t0ken/+==")
        #expect(call.fields.contains("Content-Type: text/plain"))
        let kept = try client.kept("ada")
        #expect(kept.count == 7 && kept["asa_campaign_id"] == "542370539" && kept["asa_claim_type"] == "Click")
    }

    @Test("keeps that no ad led to the app", arguments: StoreKind.allCases)
    func organic(_ kind: StoreKind) throws {
        let client = try client(kind, apple(#"{"attribution":false}"#))
        let answer = try client.attribute("owl_anon_1")
        #expect(
            answer.body == #"{"attributed":false,"pending":false,"properties":{"attribution_source":"none"}}"#)
        #expect(try client.kept("owl_anon_1") == ["attribution_source": "none"])
    }

    @Test("writes nothing while Apple does not know", arguments: StoreKind.allCases)
    func pending(_ kind: StoreKind) throws {
        let client = try client(kind, apple("", status: 404))
        let before = client.server.store.counts.lastSequence
        let answer = try client.attribute("ada")
        #expect(answer.status == 200)
        #expect(
            answer.body == #"{"attributed":null,"pending":true,"retry_after_seconds":3600,"properties":{}}"#)
        #expect(client.server.store.counts.lastSequence == before)
        let other = try self.client(kind, apple("", status: 404), retry: 60)
        #expect(try other.attribute("ada").body.contains(#""retry_after_seconds":60"#))
    }

    @Test("turns away a token that Apple turns away, and writes nothing", arguments: StoreKind.allCases)
    func rejected(_ kind: StoreKind) throws {
        let client = try client(kind, apple("", status: 400))
        let before = client.server.store.counts.lastSequence
        let answer = try client.attribute("ada")
        #expect(answer.status == 400 && answer.body == #"{"error":"Attribution token rejected by upstream"}"#)
        #expect(client.server.store.counts.lastSequence == before)
    }

    @Test("asks nobody about an empty token")
    func emptyToken() throws {
        let apple = apple(AttributionTests.paid)
        let client = try client(.memory, apple)
        let answer = try client.attribute("ada", "")
        #expect(answer.status == 400)
        #expect(answer.body == #"{"error":"Attribution token rejected by upstream","reason":"empty token"}"#)
        #expect(apple.received.isEmpty)
    }

    static let faults: [(StandIn.Answer, Int)] = [
        (.status(500, "down"), 500), (.status(503, ""), 503), (.status(401, ""), 401), (.status(429, ""), 429),
        (.status(302, "", fields: ["Location: http://127.0.0.1:1/"]), 302), (.status(200, "garbage"), 200),
        (.status(200, ""), 200), (.status(204, ""), 204), (.status(200, "[]"), 200), (.status(200, "{}"), 200),
        (.status(200, #"{"attribution":"yes"}"#), 200), (.status(200, #"{"attribution":null}"#), 200),
        (.bytes(Array("garbage".utf8)), 0), (.close, 0),
        (.status(200, "{\"attribution\":true,\"x\":\"\(String(repeating: "x", count: 3 << 20))\"}"), 0),
    ]

    @Test("tells of a fault of Apple's, and writes nothing", arguments: StoreKind.allCases)
    func faults(_ kind: StoreKind) throws {
        let apple = apple("")
        let client = try client(kind, apple)
        let before = client.server.store.counts.lastSequence
        for (fault, status) in AttributionTests.faults {
            apple.answer(fault)
            let answer = try client.attribute("ada")
            #expect(answer.status == 502, "\(fault)")
            #expect(
                answer.body.hasPrefix(
                    #"{"error":"Attribution upstream error","statusCode":\#(status),"message":""#), "\(fault) \(answer)"
            )
        }
        #expect(client.server.store.counts.lastSequence == before)
    }

    @Test("tells when Apple cannot be reached")
    func unreachable() throws {
        let client = try client(.memory, apple(""), url: "http://127.0.0.1:\(StandIn.deadPort)/")
        let answer = try client.attribute("ada")
        #expect(answer.status == 502)
        #expect(
            answer.body
                == #"{"error":"Attribution upstream error","statusCode":0,"message":"The server cannot be reached."}"#)
    }

    static let mocks: [(String, String)] = [
        (
            "attributed",
            """
            {"attributed":true,"pending":false,"properties":{"attribution_source":"apple_search_ads",\
            "asa_campaign_id":"542370539","asa_ad_group_id":"542317095","asa_keyword_id":"87675432",\
            "asa_claim_type":"click","asa_ad_id":"542317097","asa_creative_set_id":"542317096"}}
            """
        ),
        ("unattributed", #"{"attributed":false,"pending":false,"properties":{"attribution_source":"none"}}"#),
        ("pending", #"{"attributed":null,"pending":true,"retry_after_seconds":3600,"properties":{}}"#),
    ]

    @Test("answers a mock without Apple, but not in production", arguments: mocks)
    func mock(_ name: String, _ body: String) throws {
        let apple = apple(#"{"attribution":false}"#)
        let client = try client(.sqlite, apple)
        #expect(try client.attribute("ada", mock: name).body == body)
        #expect(try client.attribute("bob", "", mock: name).body == body, "the token may be empty")
        #expect(apple.received.isEmpty)
        #expect(
            try client.kept("ada").count == body.components(separatedBy: "asa_").count - (name == "pending" ? 1 : 0))

        let production = try self.client(.sqlite, apple, isProduction: true)
        #expect(try production.attribute("ada", mock: name).body.contains(#""attribution_source":"none""#))
        #expect(try production.attribute("ada", "", mock: name).body.contains("empty token"))
        #expect(apple.received.count == 1)
    }

    @Test("takes no notice of a mock that there is not", arguments: ["\"other\"", "7", "null", "true"])
    func noMock(_ mock: String) throws {
        let apple = apple(#"{"attribution":false}"#)
        let client = try client(.memory, apple)
        let body = #"{"user_id":"ada","attribution_token":"t","dev_mock":\#(mock)}"#
        #expect(try client.call("POST", OwlClient.attributionPath, body).status == 200)
        #expect(apple.received.count == 1)
    }

    /// What Apple says of apps that nobody got from the store, and what looks a little like it.
    static let payloads: [(String, String)] = [
        (#""campaignId":1234567890,"adGroupId":1234567890,"adId":1234567890"#, "apple_test_install"),
        (#""campaignId":1234567890,"adGroupId":1234567890"#, "apple_test_install"),
        (#""campaignId":1234567890,"adGroupId":1234567890,"keywordId":12323222"#, "apple_test_install"),
        // The payload of Apple's page.
        (
            #""orgId":1234567890,"campaignId":1234567890,"adGroupId":1234567890,"keywordId":123222,"adId":542317136"#,
            "apple_test_install"
        ),
        (#""campaignId":1,"adGroupId":1,"adId":2"#, "apple_search_ads"),
        (#""campaignId":1,"adGroupId":2,"adId":1"#, "apple_search_ads"),
        (#""orgId":1,"campaignId":1,"adGroupId":2,"adId":3"#, "apple_search_ads"),
        (#""campaignId":0,"adGroupId":0,"adId":0"#, "apple_search_ads"),
        (#""campaignId":"1","adGroupId":"1","adId":"1""#, "apple_search_ads"),
        (#""x":1"#, "apple_search_ads"),
    ]

    @Test("knows Apple's test payloads", arguments: payloads)
    func fixtures(_ payload: String, _ source: String) throws {
        let client = try client(.memory, apple(#"{"attribution":true,\#(payload)}"#))
        let answer = try client.attribute("ada")
        #expect(answer.body.contains(#""attribution_source":"\#(source)""#), "\(answer)")
        if source == "apple_test_install" {
            #expect(
                answer.body
                    == #"{"attributed":false,"pending":false,"properties":{"attribution_source":"apple_test_install"}}"#
            )
            #expect(try client.kept("ada") == ["attribution_source": source])
        }
    }

    @Test("keeps only ids and words that are some")
    func unfit() throws {
        let long = String(repeating: "x", count: 201)
        for (payload, more) in [
            (#""campaignId":-1,"adGroupId":0,"keywordId":null,"adId":"7","creativeSetId":1.5"#, ""),
            (#""claimType":"""#, ""), (#""claimType":7"#, ""), (#""claimType":"\#(long)""#, ""),
            (#""campaignId":9223372036854775807,"adGroupId":99999999999999999999"#, ""),
            (#""campaignId":9223372036854775807"#, #","asa_campaign_id":"9223372036854775807""#),
        ] {
            let client = try client(.memory, apple(#"{"attribution":true,\#(payload)}"#))
            let answer = try client.attribute("ada")
            let isReadable = !payload.contains("99999999999999999999")
            #expect(answer.status == (isReadable ? 200 : 502), "\(payload) \(answer)")
            if isReadable {
                #expect(answer.body.contains(#"{"attribution_source":"apple_search_ads"\#(more)}"#), "\(answer)")
            }
        }
    }

    @Test("of an anonymous id is the real user's after the claim", arguments: StoreKind.allCases)
    func staleAnonymousID(_ kind: StoreKind) throws {
        let client = try client(kind, apple(AttributionTests.paid))
        #expect(try client.claim("owl_anon_1", "ada").status == 200)
        let people = client.server.store.counts.people
        #expect(try client.attribute("owl_anon_1").status == 200)
        #expect(try client.kept("ada")["asa_campaign_id"] == "542370539")
        #expect(client.server.store.counts.people == people)
    }

    @Test("is carried to the real user by the claim", arguments: StoreKind.allCases)
    func carried(_ kind: StoreKind) throws {
        let client = try client(kind, apple(AttributionTests.paid))
        #expect(try client.attribute("owl_anon_1").status == 200)
        _ = try client.properties("ada", #"{"plan":"pro"}"#)
        #expect(try client.claim("owl_anon_1", "ada").status == 200)
        let kept = try client.kept("ada")
        #expect(kept["attribution_source"] == "apple_search_ads" && kept["plan"] == "pro" && kept.count == 8)
    }

    @Test("is kept beside as many properties as a user may have", arguments: StoreKind.allCases)
    func full(_ kind: StoreKind) throws {
        let client = try client(kind, apple(AttributionTests.paid))
        let many = (0..<50).map { #""k\#($0)":"v""# }.joined(separator: ",")
        #expect(try client.properties("ada", "{\(many)}").status == 200)
        #expect(try client.attribute("ada").status == 200)
        #expect(try client.kept("ada").count == 57)
    }

    static let refused: [(String, String, String)] = [
        ("google-ads", "{}", "Unknown attribution source: google-ads"),
        ("Apple-Search-Ads", "{}", "Unknown attribution source: Apple-Search-Ads"),
        ("apple-search-ads", "{}", "user_id is required"),
        ("apple-search-ads", "null", "user_id is required"), ("apple-search-ads", "[]", "user_id is required"),
        ("apple-search-ads", #"{"user_id":"","attribution_token":"t"}"#, "user_id is required"),
        ("apple-search-ads", #"{"user_id":7,"attribution_token":"t"}"#, "user_id is required"),
        ("apple-search-ads", #"{"user_id":"ada"}"#, "attribution_token is required"),
        ("apple-search-ads", #"{"user_id":"ada","attribution_token":7}"#, "attribution_token is required"),
        ("apple-search-ads", #"{"user_id":"ada","attribution_token":null}"#, "attribution_token is required"),
        (
            "apple-search-ads", #"{"user_id":"ada","attribution_token":"\#(String(repeating: "t", count: 16_385))"}"#,
            "attribution_token must have at most 16384 bytes"
        ),
        (
            "apple-search-ads", #"{"user_id":"\#(String(repeating: "u", count: 256))","attribution_token":"t"}"#,
            "user_id must have at most 255 characters"
        ),
    ]

    @Test("refuses what it cannot ask about, in the vendor's words", arguments: refused)
    func refuses(_ source: String, _ body: String, _ message: String) throws {
        let apple = apple(AttributionTests.paid)
        let client = try client(.memory, apple)
        let answer = try client.call("POST", "/v1/identity/attribution/\(source)", body)
        #expect(answer.status == 400 && answer.body == #"{"error":"\#(message)"}"#, "\(answer)")
        #expect(apple.received.isEmpty)
    }

    @Test("needs a key that may write users")
    func keys() throws {
        let client = try client(.memory, apple(#"{"attribution":false}"#))
        let body = #"{"user_id":"ada","attribution_token":"t"}"#
        let path = OwlClient.attributionPath
        let none = try client.http.call("POST", path, json: body)
        #expect(none.status == 401 && none.body == #"{"error":"Missing authorization"}"#)
        #expect(try client.call("POST", path, "{", key: "owl_client_0").status == 400, "the body is looked at first")
        #expect(try client.call("POST", path, body, key: client.server.credentials.claimImportKey).status == 200)
        let agent = try client.call("POST", path, body, key: client.server.credentials.claimAgentKey)
        #expect(agent.status == 403)
        #expect(agent.body == #"{"error":"Client or import key required for identity calls"}"#)
        #expect(try client.call("GET", path).status == 404)
    }

    @Test("does not keep others waiting while Apple does")
    func hang() throws {
        let apple = StandIn(.hang)
        let client = OwlClient(
            try TestServer(.memory, loops: 1) { configuration in
                configuration.attribution.url = OutboundURL(apple.url) ?? configuration.attribution.url
                configuration.limits.drainMilliseconds = 100
            })
        // Many wait on connections of their own, and on this one, too, what comes after stands behind.
        let waiting = try (0..<20).map { _ in
            let wire = try Wire(port: client.server.port)
            let body = #"{"user_id":"ada","attribution_token":"t"}"#
            try wire.send(
                """
                POST \(OwlClient.attributionPath) HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer \(client.clientKey)\r
                Content-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)
                """)
            return wire
        }
        let begin = ContinuousClock.now
        for number in 0..<20 { #expect(try client.properties("u\(number)", #"{"a":"b"}"#).status == 200) }
        // Behind those that wait they would take as long as each of these may.
        #expect(ContinuousClock.now - begin < .seconds(Patience.seconds))
        withExtendedLifetime(waiting) {}
    }

    @Test("is answered to many at once", arguments: StoreKind.allCases)
    func many(_ kind: StoreKind) throws {
        let apple = StandIn { .status(200, #"{"attribution":true,"campaignId":\#($0.body)}"#) }
        let client = try client(kind, apple)
        let statuses = Monitor<[Int]>([])
        let (server, key) = (client.server, client.clientKey)
        let threads = (0..<8).map { thread in
            WorkerThread(name: "caller") {
                let http = server.client
                for number in 1...25 {
                    let id = thread * 100 + number
                    let answer = try? http.call(
                        "POST", OwlClient.attributionPath, fields: [("Authorization", "Bearer \(key)")],
                        json: #"{"user_id":"u\#(id)","attribution_token":"\#(id)"}"#)
                    let isOwn = answer?.body.contains(#""asa_campaign_id":"\#(id)""#) == true
                    statuses.change { $0.append(isOwn ? answer?.status ?? 0 : 0) }
                }
            }
        }
        for thread in threads { thread.join() }
        #expect(statuses.withLock { $0 } == Array(repeating: 200, count: 200))
        #expect(try client.kept("u707")["asa_campaign_id"] == "707")
    }

    @Test("recognizes a call that is made again", arguments: StoreKind.allCases)
    func repeated(_ kind: StoreKind) throws {
        let client = try client(kind, apple(AttributionTests.paid))
        func call(_ user: String) throws -> Wire.Answer {
            try client.http.call(
                "POST", OwlClient.attributionPath,
                fields: [("Authorization", "Bearer \(client.clientKey)"), ("Idempotency-Key", "k")],
                json: #"{"user_id":"\#(user)","attribution_token":"t"}"#)
        }
        let first = try call("ada")
        #expect(first.status == 200)
        #expect(try call("ada") == first)
        #expect(try call("bob").status == 422)
        #expect(client.server.store.counts.people == 1)
    }
}

extension OwlClient {
    static let attributionPath = "/v1/identity/attribution/apple-search-ads"

    func attribute(_ user: String, _ token: String = "token", mock: String? = nil) throws -> Wire.Answer {
        let mock = mock.map { #","dev_mock":"\#($0)""# } ?? ""
        return try call(
            "POST", OwlClient.attributionPath, #"{"user_id":"\#(user)","attribution_token":"\#(token)"\#(mock)}"#)
    }

    /// The properties that are kept of a user.
    func kept(_ user: String) throws -> [String: String] {
        let answer = try properties(user, "{}")
        let object = try JSONSerialization.jsonObject(with: Data(answer.body.utf8)) as? [String: Any]
        return object?["properties"] as? [String: String] ?? [:]
    }
}
