import Domain
import Foundation
import TestKit
import Testing

/// The answers to uploads, on which each kind of client depends (spec/idsync-clients.md 1 and 2).
@Suite("Answers to uploads")
struct UploadAnswerTests {
    @Test("tell native clients what the recorded answers told them", arguments: StoreKind.allCases)
    func native(_ kind: StoreKind) throws {
        let client = IDSyncClient(try TestServer(kind))
        let mpid = try client.identify(#"{"customerid":"7"}"#).mpid
        let key = client.server.credentials.idsyncKey
        let body = """
            {"dt":"h","id":"one","ct":1795213137087,"mpid":\(mpid),"das":"D-1","ck":{"uid":{"c":"g=E-2"}},\
            "msgs":[{"dt":"e","n":"a"}]}
            """
        var ids: Set<String> = []
        for path in ["/v2/\(key)/events", "/nativeevents/v2/\(key)/events"] {
            let answer = try client.call(path, body, by: .basic)
            #expect(answer.status == 202 && answer["Content-Type"]?.hasPrefix("application/json") == true)
            // The digits are exact: a double would round them.
            #expect(answer.body.contains(#""ci":{"mpid":\#(mpid),"ck":{},"das":"D-1"}}"#), "\(answer.body)")
            let object = try JSONSerialization.jsonObject(with: Data(answer.body.utf8)) as? [String: Any]
            #expect(Set((object ?? [:]).keys) == ["dt", "id", "ct", "msgs", "ci"])
            #expect(object?["dt"] as? String == "rh" && (object?["msgs"] as? [Any])?.isEmpty == true)
            #expect(UUID(uuidString: object?["id"] as? String ?? "") != nil)
            ids.insert(object?["id"] as? String ?? "")
            #expect((object?["ct"] as? Int64 ?? 0) > 1_600_000_000_000)
        }
        #expect(ids.count == 2, "each answer has an id of its own")
        #expect(try client.timeline(mpid).count == 1, "the second answer is that of a repeated upload")
        let plain = try client.call("/v2/\(key)/events", #"{"user_identities":{"customerid":"7"}}"#, by: .basic)
        #expect(plain.body.hasSuffix(#""ci":{"mpid":\#(mpid),"ck":{}}}"#), "\(plain.body)")
        let wrong = try client.call("/v2/\(key)/events", "{", by: .basic)
        #expect(wrong.status == 400 && !wrong.body.isEmpty)
    }

    static let lost = [
        ("cut off by a browser", #"{"source_request_id":"u-1","mpid":"5","events":[{"event_ty"#, "Upload u-1: "),
        ("no JSON", "nonsense", "The body is not valid JSON."),
        ("of nobody", #"{"source_request_id":"u-1","events":[]}"#, "Upload u-1: mpid must name"),
        ("of an MPID that nobody has", #"{"source_request_id":"u-1","mpid":"5"}"#, "Upload u-1: There is no person"),
        ("with wrong events", #"{"source_request_id":"u-1","mpid":"5","events":7}"#, "Upload u-1: events must be"),
        (
            "with too many events",
            #"{"source_request_id":"u-1","mpid":"5","events":[{}\#(String(repeating: ",{}", count: 5000))]}"#,
            "Upload u-1: events must have at most 5000 events"
        ),
    ]

    @Test(
        "never make a web client repeat what nobody can keep", arguments: StoreKind.allCases, lost.map(\.0))
    func web(_ kind: StoreKind, _ name: String) throws {
        let (_, body, reason) = try #require(Self.lost.first { $0.0 == name })
        let client = IDSyncClient(try TestServer(kind))
        let before = client.server.store.counts
        let path = "/webevents/v3/JS/\(client.server.credentials.idsyncWebKey)/events"
        let answer = try client.http.call(
            "POST", path, fields: [("Content-Type", "text/plain;charset=UTF-8")], body: Array(body.utf8))
        #expect(answer.status == 202 && answer.body.isEmpty, "\(answer)")
        #expect(client.server.store.counts.people == before.people && client.server.store.counts.rows == before.rows)
        #expect(client.server.store.counts.lastSequence.rawValue == before.lastSequence.rawValue + 1)
        let call = try client.server.store.read { snapshot throws(StoreFault) in
            try snapshot.calls(after: before.lastSequence, limit: 1).first
        }
        #expect(call?.kind.name == "refuse_upload" && call?.note?.hasPrefix(reason) == true, "\(call?.note ?? "")")
        #expect(call?.events.map(\.kind) == [.refused])
        let metrics = try client.http.call(
            "GET", "/metrics", fields: [("Authorization", "Bearer \(client.server.credentials.adminKey)")])
        #expect(metrics.body.contains("\nonym_refused_uploads_total 1\n"))
        // A back end and an app learn what is wrong.
        let key = client.server.credentials.idsyncKey
        for path in ["/v2/events", "/v2/\(key)/events"] {
            #expect(try client.call(path, body, by: .basic).status == 400, "\(path)")
        }
    }

    @Test("of a revoked or wrong key say so to every client, and a store that fails says when to come again")
    func others() throws {
        let server = try TestServer(.memory, wrap: failing)
        let client = IDSyncClient(server)
        let key = server.credentials.idsyncWebKey
        for path in ["/v3/JS/\(key)/events", "/v2/\(key)/events"] {
            let answer = try client.http.call(
                "POST", path, json: #"{"user_identities":{"customerid":"1"},"events":[{"event_type":"x"}]}"#)
            #expect(answer.status == 503 && answer["Retry-After"] == "5", "\(answer)")
            let wrong = try client.http.call(
                "POST", path.replacing(key, with: "us1-\(String(repeating: "0", count: 32))"), json: "{}")
            #expect(wrong.status == 401 && wrong.body.isEmpty)
        }
    }
}

/// A store whose commits fail.
private func failing(_ store: any Store) -> any Store {
    let failing = FailingStore(store)
    failing.failNextCommit(.before, failedRecoveries: 1000)
    return failing
}
