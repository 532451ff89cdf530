import Foundation
import TestKit
import Testing

/// What is unusually large: shared identities, and people.
@Suite("Lists of what is large")
struct TopTests {
    /// Bob and Carl use Ada's tablet; Ada has three identities.
    private func client(_ kind: StoreKind) throws -> (NativeClient, people: [String]) {
        let client = try NativeClient(kind)
        let ada = try client.identify(#"{"customerid":"ada","email":"ada@example.com","ios_idfv":"TABLET"}"#)
        var people = [ada]
        for name in ["bob", "carl"] {
            let person = try client.identify(#"{"customerid":"\#(name)"}"#)
            let attached = try client.post(
                "/onym/v1/people/\(person)/identities", #"{"type":"ios_idfv","value":"TABLET"}"#)
            #expect(attached.status == 200, "\(attached)")
            people.append(person)
        }
        return (client, people)
    }

    private func shared(_ client: NativeClient, _ query: String = "") throws -> [String] {
        let answer = try client.get("/onym/v1/identities/shared\(query)")
        #expect(answer.status == 200 && answer["complete"] as? Bool == true, "\(answer)")
        return answer.list("identities").map { "\($0["type"] ?? ""):\($0["value"] ?? "") \($0["people"] ?? "")" }
    }

    @Test("The identities that the most people hold come first, and each once", arguments: StoreKind.allCases)
    func identities(_ kind: StoreKind) throws {
        let (client, people) = try client(kind)
        let attach = #"{"type":"android_uuid","value":"PAD"}"#
        for person in people.prefix(2) {
            #expect(try client.post("/onym/v1/people/\(person)/identities", attach).status == 200)
        }
        #expect(try shared(client) == ["ios_idfv:TABLET 3", "android_uuid:PAD 2"])
        #expect(try shared(client, "?min=3") == ["ios_idfv:TABLET 3"])
        #expect(try shared(client, "?type=android_uuid") == ["android_uuid:PAD 2"])
        #expect(try shared(client, "?type=email") == [])
        #expect(try shared(client, "?limit=1") == ["ios_idfv:TABLET 3"])
    }

    @Test("Members of one group count once, and a kept list shows no ended link", arguments: StoreKind.allCases)
    func groups(_ kind: StoreKind) throws {
        let (client, people) = try client(kind)
        _ = try client.merge(people[1], into: people[0])
        #expect(try shared(client) == ["ios_idfv:TABLET 2"])
        #expect(try client.post("/onym/v1/devices/ios_idfv/TABLET/release").status == 200)
        #expect(try shared(client) == [], "the list is kept, its entries are read again")
    }

    @Test("A list that was made while the clock was ahead is not kept until the clock comes there")
    func clockAhead() throws {
        let clock = ManualClock()
        let client = NativeClient(try TestServer(.memory, configure: { $0.clock = { clock.now } }))
        clock.advance(milliseconds: 20 * 86_400_000)
        let people = try ["ada", "bob"].map { try client.identify(#"{"customerid":"\#($0)"}"#) }
        #expect(try shared(client) == [])
        clock.advance(milliseconds: -20 * 86_400_000)
        for person in people {
            let attach = #"{"type":"ios_idfv","value":"TABLET"}"#
            #expect(try client.post("/onym/v1/people/\(person)/identities", attach).status == 200)
        }
        // The first call answers the old list, and reads on for the new one.
        _ = try shared(client)
        #expect(try Patience.until { try shared(client) == ["ios_idfv:TABLET 2"] })
    }

    @Test("The largest people come first, by identities, members or rows", arguments: StoreKind.allCases)
    func largest(_ kind: StoreKind) throws {
        let (client, people) = try client(kind)
        let by = { (measure: String) in
            let answer = try client.get("/onym/v1/people/largest?by=\(measure)")
            #expect(answer.status == 200 && answer["complete"] as? Bool == true, "\(answer)")
            return answer.list("people")
        }
        _ = try client.merge(people[2], into: people[1])
        let (identities, members) = (try by("identities"), try by("members"))
        #expect(identities.count == 2 && identities.first?["identities"] as? Int == 4, "\(identities)")
        #expect(members.first?["members"] as? Int == 2 && members.last?["id"] as? String == people[0], "\(members)")
        #expect(members.last?["label"] as? String == "ada@example.com")
        #expect(try by("rows").allSatisfy { $0["rows"] as? Int == 0 })
        #expect(try client.call("DELETE", "/onym/v1/people/\(people[0])").status == 200)
        #expect(try by("members").count == 1, "an erased person is in no list")
    }

    @Test("Wrong questions are refused, and each project has its own lists")
    func refusals() throws {
        let (client, _) = try client(.memory)
        for path in [
            "identities/shared?min=1", "identities/shared?type=nothing", "identities/shared?wait=x",
            "people/largest?by=age", "people/largest?limit=0",
        ] {
            let answer = try client.get("/onym/v1/\(path)")
            #expect(answer.status == 400 && answer.code == "validation_error", "\(path): \(answer)")
        }
        #expect(try shared(client, "?wait=true") == ["ios_idfv:TABLET 3"])
    }
}

/// The journal of a project.
@Suite("The journal of a project")
struct JournalCallTests {
    @Test("Its calls come in order, page by page, by key and by kind", arguments: StoreKind.allCases)
    func pages(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        var end: Int?
        // The calls of the start come before.
        let start = try client.get("/onym/v1/journal?limit=200").list("calls").last?["seq"] as? Int ?? 0
        let ada = try client.identify(#"{"customerid":"ada"}"#)
        let mail = try client.identify(#"{"email":"ada@example.com"}"#)
        _ = try client.merge(ada, into: mail)
        let all = try client.get("/onym/v1/journal?after=\(start)")
        #expect(all.list("calls").map { $0["kind"] as? String } == ["identify", "identify", "merge"], "\(all)")
        #expect(all["next_after"] is NSNull)
        var found: [String] = []
        for _ in 0..<4 {
            let page = try client.get("/onym/v1/journal?after=\(end ?? start)&limit=1")
            found += page.list("calls").compactMap { $0["kind"] as? String }
            end = page["next_after"] as? Int ?? end
        }
        #expect(found.prefix(3) == ["identify", "identify", "merge"], "\(found)")
        #expect(try client.get("/onym/v1/journal?after=\(start)&kind=merge").list("calls").count == 1)
        let key = try #require(all.list("calls").first?["key"] as? String)
        #expect(try client.get("/onym/v1/journal?after=\(start)&key=\(key)").list("calls").count == 2)
        for query in ["after=-1", "after=x", "key=x", "limit=0", "kind=merges", "kind="] {
            #expect(try client.get("/onym/v1/journal?\(query)").status == 400, "\(query)")
        }
    }
}

/// What the server says of itself, and of keys that call too often.
@Suite("The state of the server")
struct ServerStateTests {
    @Test("Keys that meet their limit are listed, with the number of refused calls")
    func limits() throws {
        let server = try TestServer(.memory) { configuration in
            configuration.rates.key = .init(perSecond: 1, burst: 5)
        }
        let client = NativeClient(server)
        for _ in 0..<9 {
            _ = try server.client.call(
                "POST", "/v1/identify", fields: [("x-mp-key", server.credentials.idsyncWebKey)],
                json: #"{"environment":"development","known_identities":{"customerid":"ada"}}"#)
        }
        let answer = try client.get("/onym/v1/stats/limits")
        let key = try #require(answer.list("keys").first, "\(answer)")
        let refused = try #require(key["limited_last_hour"] as? Int)
        #expect((1...4).contains(refused) && key["limited_last_day"] as? Int == refused, "\(answer)")
        #expect(key["last_at"] is String && (key["share_used"] as? Double ?? 0) > 0.5, "\(answer)")
        #expect(answer.text("since") != nil)
    }

    @Test("A clock that was set ahead and back at once is shown, with both steps")
    func steps() throws {
        let clock = ManualClock()
        let client = NativeClient(try TestServer(.memory) { configuration in configuration.clock = { clock.now } })
        _ = try client.identify(#"{"customerid":"before"}"#)
        #expect(!(try client.server.client.call("GET", "/readyz").body.contains("clock")))
        clock.advance(milliseconds: 600_000)
        _ = try client.identify(#"{"customerid":"ahead"}"#)
        clock.advance(milliseconds: -600_000)
        _ = try client.identify(#"{"customerid":"after"}"#)
        let ready = try client.server.client.call("GET", "/readyz").body
        #expect(ready.contains(#""clock":"The clock was set back by "#), "\(ready)")
        let shown = try #require(client.get("/onym/v1/server")["clock"] as? [String: Any])
        let steps = try #require(shown["steps"] as? [[String: Any]])
        // The clock of the test stands still between its steps, and the other one does not.
        let seconds = steps.compactMap { ($0["ms"] as? Int).map { Double($0) / 1000 } }
        #expect(seconds.count == 2 && abs(seconds[0] - 600) < 5 && abs(seconds[1] + 600) < 5, "\(shown)")
        #expect((steps.last?["at"] as? String)?.hasPrefix("2027-01-15T08:00:00") == true, "\(shown)")
    }

    @Test("A server tells its clock, its queue and its last fault")
    func state() throws {
        let answer = try NativeClient(.memory).get("/onym/v1/server")
        let clock = try #require(answer["clock"] as? [String: Any])
        #expect(clock["ahead_ms"] is NSNull && (clock["steps"] as? [Any])?.isEmpty == true, "\(answer)")
        #expect((answer["queue"] as? [String: Any])?["oldest_ms"] as? Int == 0, "\(answer)")
        #expect((answer["store"] as? [String: Any])?["last_fault"] is NSNull, "\(answer)")
        let console = try #require(answer["console"] as? [String: Any], "\(answer)")
        #expect((console["bytes"] as? Int ?? 0) > 10_000, "\(answer)")
    }
}
