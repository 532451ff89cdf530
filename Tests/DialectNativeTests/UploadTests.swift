import Foundation
import TestKit
import Testing

/// What the journal, questions about then and splits know of uploads that only bring rows, on every store.
@Suite("Uploads for known people")
struct UploadTests {
    /// Uploads events of users, with further members.
    private func ingest(
        _ client: NativeClient, _ events: [(user: String, message: String)], with members: String = ""
    ) throws {
        let list = events.map { event in
            #"{"client_event_id":"\#(UUID().uuidString.lowercased())","session_id":"\#(UUID().uuidString.lowercased())","user_id":"\#(event.user)","level":"info","message":"\#(event.message)"\#(members)}"#
        }
        let answer = try client.server.client.call(
            "POST", "/v1/ingest", fields: [("Authorization", "Bearer \(client.server.credentials.claimClientKey)")],
            json: #"{"bundle_id":"com.example.demo","events":[\#(list.joined(separator: ","))]}"#)
        #expect(answer.status == 200, "\(answer)")
    }

    private func lastCall(_ client: NativeClient) throws -> Int {
        try #require(client.get("/onym/v1/stats").number("last_seq"))
    }

    private func messages(_ client: NativeClient, _ person: String, at call: Int? = nil) throws -> [String] {
        try client.get("/onym/v1/people/\(person)/timeline\(call.map { "?at=seq:\($0)" } ?? "")").list("rows")
            .compactMap {
                ($0["body"] as? [String: Any])?["message"] as? String
            }
    }

    @Test(
        "the journal has each upload, and a question about then answers what was there", arguments: StoreKind.allCases)
    func journal(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        var calls: [Int] = []
        for message in ["one", "two", "three"] {
            try ingest(client, [("ada", message)])
            calls.append(try lastCall(client))
        }
        // An upload for several people is in the journal of each of them.
        try ingest(client, [("ada", "four"), ("bob", "his")])
        calls.append(try lastCall(client))
        try ingest(client, [("bob", "more")])
        let ada = "claim_user_id:ada"
        let journal = try client.get("/onym/v1/people/\(ada)/journal").list("calls").compactMap { $0["seq"] as? Int }
        #expect(Set(calls).isSubset(of: journal), "\(journal)")
        for (place, call) in calls.enumerated() {
            let then = Array(["one", "two", "three", "four"].prefix(place + 1).reversed())
            #expect(try messages(client, ada, at: call) == then)
            let counts = try client.get("/onym/v1/people/\(ada)?at=seq:\(call)")["counts"] as? [String: Int]
            #expect(counts?["event"] == place + 1)
        }
        let rows = try client.get("/onym/v1/people/\(ada)/timeline").list("rows")
        let named = rows.compactMap { $0["identifier"] as? String }
        #expect(named == [ada, ada, ada], "the upload for two people does not say which id is whose: \(rows)")
    }

    @Test(
        "a split by a lane takes what came from the lane, and no upload of another one", arguments: StoreKind.allCases)
    func lanes(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        try ingest(client, [("ada", "phone 1")])
        let ada = try #require(client.get("/onym/v1/people/claim_user_id:ada").text("id"))
        let tablet = #"{"type":"device_application_stamp","value":"TABLET"}"#
        #expect(try client.post("/onym/v1/people/\(ada)/identities", tablet).status == 200)
        let key = client.server.credentials.idsyncWebKey
        let upload = try client.server.client.call(
            "POST", "/v3/JS/\(key)/events",
            json: #"{"mpid":"\#(ada)","events":[{"n":"e","dt":4}],"das":"TABLET","ui":[]}"#)
        #expect(upload.status == 202, "\(upload)")
        for number in 2...4 { try ingest(client, [("ada", "phone \(number)")]) }
        try ingest(client, [("ada", "both 1"), ("bob", "both 2")])
        let lanes = try client.get("/onym/v1/people/\(ada)/lanes")
        let rows = Dictionary(
            lanes.list("lanes").map { ($0["value"] as? String ?? "", $0["rows"] as? Int ?? 0) }, uniquingKeysWith: +)
        #expect(rows["ada"] == 4 && (lanes.number("unknown") ?? 0) >= 1, "\(lanes)")

        let phone = #"{"lanes":[{"type":"claim_user_id","value":"ada"}]}"#
        let split = try client.post("/onym/v1/people/\(ada)/split", phone)
        let other = try #require(split.text("into"), "\(split)")
        #expect(((split["moved"] as? [String: Any])?["rows"] as? [String: Int])?["event"] == 4, "\(split)")
        #expect(try messages(client, other) == ["phone 4", "phone 3", "phone 2", "phone 1"])
        #expect(try messages(client, ada) == ["both 1"])
    }

    @Test("a split since a call takes the uploads since then", arguments: StoreKind.allCases)
    func since(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        try ingest(client, [("ada", "one")])
        try ingest(client, [("ada", "two")])
        let call = try lastCall(client)
        try ingest(client, [("ada", "three")])
        let split = try client.post("/onym/v1/people/claim_user_id:ada/split", #"{"since":"seq:\#(call)"}"#)
        let other = try #require(split.text("into"), "\(split)")
        #expect(try messages(client, other) == ["three", "two"])
        #expect(try messages(client, "claim_user_id:ada") == ["one"])
    }

    @Test("a user that a claim renames keeps its build", arguments: StoreKind.allCases)
    func development(_ kind: StoreKind) throws {
        let client = try NativeClient(kind)
        func upload(_ user: String, _ members: String) throws { try ingest(client, [(user, "m")], with: members) }
        func users(_ mode: String) throws -> [[String: Any]] {
            let answer = try client.server.client.call(
                "GET", "/v1/app-users?data_mode=\(mode)",
                fields: [("Authorization", "Bearer \(client.server.credentials.claimAgentKey)")])
            return NativeClient.Answer(answer).list("users")
        }
        try upload("owl_anon_1", #","is_dev":true,"app_version":"1""#)
        #expect(try client.claimDialect("claim", #"{"anonymous_id":"owl_anon_1","user_id":"ada"}"#).status == 200)
        let renamed = try users("development")
        #expect(renamed.map { $0["user_id"] as? String } == ["ada"], "\(renamed)")
        // What the user sends next is what is shown, also within the minute to which sightings are kept.
        try upload("bob", #","is_dev":false,"app_version":"1""#)
        try upload("owl_anon_2", #","is_dev":true,"app_version":"2""#)
        #expect(try client.claimDialect("claim", #"{"anonymous_id":"owl_anon_2","user_id":"bob"}"#).status == 200)
        try upload("bob", #","is_dev":false,"app_version":"3""#)
        let bob = try users("all").first { $0["user_id"] as? String == "bob" }
        #expect(bob?["last_app_version"] as? String == "3", "\(String(describing: bob))")
    }
}
