import TestKit
import Testing

@Suite("The rows of a person by spans of time")
struct BucketTests {
    private func upload(_ client: NativeClient, _ mpid: String, _ names: [String]) throws {
        let events = names.map { #"{"n":"\#($0)","dt":4}"# }.joined(separator: ",")
        let answer = try client.server.client.call(
            "POST", "/v3/JS/\(client.server.credentials.idsyncWebKey)/events",
            json: #"{"mpid":"\#(mpid)","events":[\#(events)]}"#)
        #expect(answer.status == 202, "\(answer)")
    }

    @Test("are counted for each member, in as many spans as the caller takes", arguments: StoreKind.allCases)
    func spans(_ kind: StoreKind) throws {
        let clock = ManualClock()
        let client = NativeClient(try TestServer(kind) { $0.clock = { clock.now } })
        let ada = try client.identify(#"{"customerid":"ada"}"#)
        let bob = try client.identify(#"{"customerid":"bob"}"#)
        try upload(client, ada, ["one", "two"])
        clock.advance(milliseconds: 30_000)
        try upload(client, ada, ["three"])
        clock.advance(milliseconds: 2 * 3_600_000)
        try upload(client, bob, ["four"])
        _ = try client.merge(bob, into: ada)
        func buckets(_ query: String = "") throws -> JSONAnswer {
            let answer = try client.get("/onym/v1/people/customerid:ada/timeline/buckets\(query)")
            #expect(answer.status == 200 && answer["complete"] as? Bool == true, "\(answer)")
            return answer
        }
        func told(_ answer: JSONAnswer) -> [String] {
            answer.list("buckets").map { bucket in
                let events = (bucket["counts"] as? [String: Int])?["event"] ?? 0
                return "\(bucket["from"] ?? "") \(bucket["to"] ?? "") \(bucket["member"] ?? "") \(events)"
            }
        }
        let all = try buckets()
        let first = "2027-01-15T08:00:00.000Z 2027-01-15T08:01:00.000Z \(ada) 3"
        let last = "2027-01-15T10:00:00.000Z 2027-01-15T10:01:00.000Z \(bob) 1"
        #expect(told(all) == [first, last] && all.number("read") == 4, "\(all)")
        // Fewer spans are longer ones, and have the same rows.
        for most in [2, 3, 50] {
            let few = try buckets("?buckets=\(most)").list("buckets")
            #expect(Set(few.compactMap { $0["from"] as? String }).count <= most)
            #expect(few.reduce(0) { $0 + ((($1["counts"] as? [String: Int])?["event"]) ?? 0) } == 4, "\(few)")
        }
        #expect(told(try buckets("?since=2027-01-15T09:00:00Z")) == [last])
        #expect(told(try buckets("?until=2027-01-15T09:00:00Z")) == [first])
        let none = try buckets("?kinds=metric")
        #expect(told(none).isEmpty && none.number("read") == 0, "rows that are left out do not count: \(none)")
        for query in ["buckets=1", "buckets=501", "buckets=x", "kinds=x", "since=x", "limit=1", "cursor=x"] {
            let path = "/onym/v1/people/customerid:ada/timeline/buckets?\(query)"
            #expect(try client.get(path).status == 400, "\(query)")
        }
        #expect(try client.get("/onym/v1/people/customerid:nobody/timeline/buckets").status == 404)
        for query in ["buckets=2", "cursor=null", "cursor=200", "cursor=", "cursor=AQ"] {
            #expect(try client.get("/onym/v1/people/customerid:ada/timeline?\(query)").status == 400, "\(query)")
        }
    }

    @Test("are read in slices, all of them", arguments: [StoreKind.memory, .sqlite])
    func slices(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        let ada = try client.identify(#"{"customerid":"ada"}"#)
        for _ in 0..<11 { try upload(client, ada, (0..<100).map { "e\($0)" }) }
        let answer = try client.get("/onym/v1/people/\(ada)/timeline/buckets")
        #expect(answer.number("read") == 1100 && answer["complete"] as? Bool == true, "\(answer)")
        let counts = answer.list("buckets").compactMap { ($0["counts"] as? [String: Int])?["event"] }
        #expect(counts.reduce(0, +) == 1100, "\(answer)")
    }
}
