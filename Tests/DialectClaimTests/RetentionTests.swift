import Foundation
import TestKit
import Testing

/// How long rows are kept (docs/operating.md), through the whole server.
@Suite("Retention")
struct RetentionTests {
    @Test(
        "what is too old goes, of the kinds that are told to, and claims count what is left",
        arguments: StoreKind.allCases)
    func pass(_ kind: StoreKind) throws {
        let clock = ManualClock(1_750_000_000_000)
        let client = OwlClient(
            try TestServer(kind) { configuration in
                configuration.clock = { clock.now }
                configuration.retention.days = [.event: 10]
            })
        let old = (0..<40).map {
            OwlClient.event("owl_anon_1", "metric:load:record", id: "\(UUID())", more: ",\"build_number\":\"\($0)\"")
        }
        _ = try client.ingest(old)
        clock.advance(milliseconds: 9 * 86_400_000)
        _ = try client.ingest([OwlClient.event("owl_anon_1", "young")])
        clock.advance(milliseconds: 2 * 86_400_000)
        var left: [String] = []
        // The pass is another thread's.
        try Patience.until {
            left = try client.messages("owl_anon_1")
            clock.advance(milliseconds: 20)
            return left == ["young"]
        }
        #expect(left == ["young"])
        #expect(try client.messages("owl_anon_1", kinds: "metric").count == 40)
        #expect(try client.claim("owl_anon_1", "ada").body == #"{"claimed":true,"events_reassigned_count":1}"#)
    }
}
