import Foundation
import TestKit
import Testing

/// Calls in which no identity is of the project's hierarchy (spec/idsync-clients.md decisions 8 and 9).
@Suite("Types outside the hierarchy")
struct UnmatchedTests {
    @Test("are warned of in the answer, the explanation, the strategy and the metrics", arguments: StoreKind.allCases)
    func warning(_ kind: StoreKind) throws {
        let client = IDSyncClient(try TestServer(kind))
        func call(_ identities: String, _ query: String = "") throws -> IDSyncClient.Answer {
            IDSyncClient.Answer(try client.call("/v1/identify\(query)", IDSyncClient.body(identities), by: .basic))
        }
        let first = try call(#"{"other2":"x","push_token":"t"}"#)
        #expect(first.wire.status == 200 && first.wire["X-Onym-Warning"] == "unmatched_types=other2,push_token")
        let second = try call(#"{"other2":"x"}"#)
        #expect(second.mpid != first.mpid && second.wire["X-Onym-Warning"] == "unmatched_types=other2")
        let explained = try call(#"{"other2":"x"}"#, "?explain=true&read_only=true")
        #expect(explained.wire.body.contains(#""unmatched_types":["other2"]"#), "\(explained.wire.body)")
        // One type of the hierarchy is enough.
        let known = try call(#"{"other2":"x","email":"a"}"#, "?explain=true")
        #expect(known.wire["X-Onym-Warning"] == nil && !known.wire.body.contains("unmatched_types"))
        let strategy = try client.administrator("/onym/v1/strategy") as? [String: Any]
        #expect(strategy?["unmatched_types"] as? [String: Int] == ["other2": 3, "push_token": 1])
        // The answer can be sent back as it is.
        let text = try client.http.call(
            "GET", "/onym/v1/strategy", fields: [("Authorization", "Bearer \(client.server.credentials.adminKey)")])
        let back = try client.http.call(
            "PUT", "/onym/v1/strategy", fields: [("Authorization", "Bearer \(client.server.credentials.adminKey)")],
            json: text.body)
        #expect(back.status == 200, "\(back)")
        let metrics = try client.http.call(
            "GET", "/metrics", fields: [("Authorization", "Bearer \(client.server.credentials.adminKey)")])
        #expect(metrics.body.contains(#"onym_unmatched_calls_total{project="1",type="other2"} 3"#), "\(metrics.body)")
    }

    @Test("of the default are few: a device of Amazon and a page of AMP are found again", arguments: StoreKind.allCases)
    func newTypes(_ kind: StoreKind) throws {
        let client = IDSyncClient(try TestServer(kind))
        for identity in [#"{"amp_id":"same"}"#, #"{"fire_aid":"same"}"#] {
            let first = try client.identify(identity)
            #expect(try client.identify(identity).mpid == first.mpid, "\(identity)")
            #expect(first.wire["X-Onym-Warning"] == nil)
        }
        let strategy = try client.administrator("/onym/v1/strategy") as? [String: Any]
        let types = strategy?["hierarchy"] as? [String] ?? []
        #expect(types.count == 20 && types.suffix(2) == ["amp_id", "device_application_stamp"])
        #expect(types.firstIndex(of: "fire_aid") == types.firstIndex(of: "android_uuid").map { $0 + 1 })
    }
}
