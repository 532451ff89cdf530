import Gateway
import Program
import TestKit
import Testing

/// The limits of calls over HTTP, under a clock that stands still.
@Suite("Limits of IDSync calls")
struct RateLimitTests {
    private let clock = ManualClock()

    private func server(_ kind: StoreKind, _ limits: RateLimits) throws -> TestServer {
        try TestServer(kind, configure: with(limits))
    }

    private func with(_ limits: RateLimits) -> (inout RunningServer.Configuration) -> Void {
        { [clock] configuration in
            configuration.rates = limits
            configuration.clock = { clock.now }
        }
    }

    @Test("turn a key away that calls too often, and say how near it is", arguments: StoreKind.allCases)
    func key(_ kind: StoreKind) throws {
        let server = try server(kind, RateLimits(key: RateLimit(perSecond: 1, burst: 4), identity: .off))
        let client = IDSyncClient(server)
        for (number, used) in ["25", "50", "75", "100"].enumerated() {
            // New people and known ones: both ways to an answer.
            let answer = try client.identify("{\"email\":\"\(number / 2)\"}")
            #expect(answer.wire.status == 200 && answer.wire["X-mp-rate-limit-percentage-used"] == used)
        }
        let refused = try client.identify(#"{"email":"0"}"#)
        #expect(refused.wire.status == 429 && refused.errorCode == "TOO_MANY_REQUESTS")
        #expect(refused.wire["Retry-After"] == "5")
        #expect(refused.wire["X-mp-rate-limit-exceeded"] == "app")
        #expect(refused.wire["X-mp-rate-limit-percentage-used"] == nil)
        #expect(
            try client.identify(#"{"email":"0"}"#, by: .apple).wire.status == 200, "another key has a limit of its own")

        clock.advance(milliseconds: 1000)
        #expect(try client.identify(#"{"email":"0"}"#).wire.status == 200)
        #expect(try client.identify(#"{"email":"0"}"#).wire.status == 429)
    }

    @Test("turn calls away that name one identity too often", arguments: StoreKind.allCases)
    func identity(_ kind: StoreKind) throws {
        let server = try server(kind, RateLimits(key: .off, identity: RateLimit(perSecond: 1, burst: 3)))
        let client = IDSyncClient(server)
        for _ in 0..<3 {
            let answer = try client.identify(#"{"customerid":"hot","ios_idfv":"device"}"#)
            #expect(answer.wire.status == 200 && answer.wire["X-mp-rate-limit-percentage-used"] == nil)
        }
        let calls = [
            ("/v1/identify", #"{"customerid":"hot"}"#), ("/v1/login", #"{"customerid":"hot","email":"a"}"#),
            ("/v1/search", #"{"customerid":"hot"}"#), ("/v1/logout", #"{"ios_idfv":"device"}"#),
        ]
        for (path, identities) in calls {
            let answer = try client.call(path, IDSyncClient.body(identities), by: .basic)
            #expect(answer.status == 429 && answer["X-mp-rate-limit-exceeded"] == "acceleration", "\(path)")
            #expect(answer["Retry-After"] == "5")
        }
        #expect(try client.identify(#"{"customerid":"other"}"#).wire.status == 200)
        clock.advance(milliseconds: 1000)
        let person = try client.identify(#"{"customerid":"hot"}"#)
        #expect(person.wire.status == 200)
        let change = #"{"identity_type":"customerid","old_value":"hot","new_value":"cold"}"#
        let modify = #"{"environment":"development","identity_changes":[\#(change)]}"#
        let answer = try client.call("/v1/\(person.mpid)/modify", modify, by: .basic)
        #expect(answer.status == 429, "modify names them, too")
    }

    @Test("count the people of an alias, whose aliases each call reads")
    func aliases() throws {
        let server = try server(.memory, RateLimits(key: .off, identity: RateLimit(perSecond: 1, burst: 3)))
        let client = IDSyncClient(server)
        let people = try ["a", "b", "c"].map { try client.identify(#"{"customerid":"\#($0)"}"#).mpid }
        func alias(_ source: String, _ destination: String) throws -> Int {
            let span = "\"start_unixtime_ms\":1,\"end_unixtime_ms\":2"
            let data = "{\"source_mpid\":\(source),\"destination_mpid\":\(destination),\(span)}"
            let body = #"{"request_type":"alias","environment":"development","data":\#(data)}"#
            return try client.call("/v1/identity/\(server.credentials.idsyncKey)/alias", body, by: .basic).status
        }
        let answers = try (0..<4).map { _ in try alias(people[0], people[1]) }
        #expect(!answers.dropLast().contains(429) && answers.last == 429, "\(answers)")
        #expect(try alias(people[2], people[0]) == 429 && alias(people[2], people[1]) == 429)
        clock.advance(milliseconds: 2000)
        #expect(try alias(people[2], people[0]) != 429)
    }

    @Test("count only what was asked by somebody")
    func uncounted() throws {
        let server = try server(
            .memory, RateLimits(key: RateLimit(perSecond: 1, burst: 1), identity: RateLimit(perSecond: 1, burst: 1)))
        let client = server.client
        let body = IDSyncClient.body(#"{"email":"a"}"#)
        let key = ("x-mp-key", server.credentials.idsyncWebKey)
        for _ in 0..<3 {
            #expect(try client.call("GET", "/healthz").status == 200)
            #expect(try client.call("OPTIONS", "/v1/identify", fields: [("Origin", "https://a")]).status == 204)
            #expect(try client.call("POST", "/v1/identify", json: body).status == 401)
        }
        #expect(try client.call("POST", "/v1/identify", fields: [key], json: body).status == 200)
        #expect(try client.call("POST", "/v1/identify", fields: [key], json: body).status == 429)
    }

    @Test("count a key's calls that are refused, for its key alone")
    func refused() throws {
        let server = try server(
            .memory, RateLimits(key: RateLimit(perSecond: 1, burst: 2), identity: RateLimit(perSecond: 1, burst: 1)))
        let client = server.client
        let key = ("x-mp-key", server.credentials.idsyncWebKey)
        let calls = [("?a=b", IDSyncClient.body(#"{"email":"a"}"#)), ("", "{}"), ("", "{")]
        let statuses = try calls.map { query, body in
            try client.call("POST", "/v1/identify\(query)", fields: [key], json: body).status
        }
        #expect(statuses == [400, 400, 429])
        #expect(try IDSyncClient(server).identify(#"{"email":"a"}"#, by: .apple).wire.status == 200)
    }

    @Test("are counted by each process for itself, and in memory")
    func processes() throws {
        let limits = RateLimits(key: RateLimit(perSecond: 1, burst: 1), identity: .off)
        func statuses(_ server: TestServer) throws -> [Int] {
            try (0..<2).map { _ in try IDSyncClient(server).identify(#"{"email":"a"}"#).wire.status }
        }
        for kind in StoreKind.allCases where kind != .memory {
            let first = try server(kind, limits)
            #expect(try statuses(first) == [200, 429])
            // Only processes with PostgreSQL share a store.
            let other =
                try kind == .postgres
                ? TestServer(beside: first, configure: with(limits))
                : TestServer(restarting: first, configure: with(limits))
            #expect(try statuses(other) == [200, 429])
        }
    }

    @Test("are told to pages of other origins, too")
    func exposed() throws {
        let server = try server(.memory, RateLimits(key: RateLimit(perSecond: 1, burst: 1), identity: .off))
        let fields = [("x-mp-key", server.credentials.idsyncWebKey), ("Origin", "https://shop.example")]
        for status in [200, 429] {
            let answer = try server.client.call(
                "POST", "/v1/identify", fields: fields, json: IDSyncClient.body(#"{"email":"a"}"#))
            #expect(answer.status == status)
            let exposed = answer["Access-Control-Expose-Headers"] ?? ""
            for name in ["Retry-After", "X-mp-rate-limit-exceeded", "X-mp-rate-limit-percentage-used"] {
                #expect(exposed.contains(name), "\(name)")
            }
        }
    }

    @Test("hold other surfaces' callers, who are told in their own words")
    func problem() throws {
        let server = try server(.memory, RateLimits(key: RateLimit(perSecond: 1, burst: 1), identity: .off))
        let key = ("Authorization", "Bearer \(server.credentials.adminKey)")
        let first = try server.client.call("GET", "/metrics", fields: [key])
        #expect(first.status == 200 && first["X-mp-rate-limit-percentage-used"] == nil)
        let answer = try server.client.call("GET", "/metrics", fields: [key])
        #expect(answer.status == 429 && answer["Retry-After"] == "1")
        #expect(answer["Content-Type"] == "application/problem+json")
        #expect(answer.body.contains(#""code":"rate_limited""#))
    }
}
