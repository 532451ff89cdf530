import ClientKit
import Foundation
import Onym
import Testing

/// People set clocks, and batteries empty.
@Suite("Clocks that are set")
struct ClockTests {
    @Test("what is logged over and over is kept again, after a minute by any clock", arguments: [-86_400.0, 86_400])
    func repeats(jump: Double) {
        let bench = Bench(.claim(key: "owl_client_k", bundleID: "b"))
        for _ in 0..<15 { bench.onym.log("again") }
        bench.time.setClock(by: jump)
        bench.onym.log("again")
        #expect(bench.onym.claim?.mailbox.count == 11)
    }

    private func list(expires: Date) -> ScriptedTransport.Answer {
        .json(
            200,
            [
                "data": [
                    [
                        "id": "plus", "active": true, "started": 1,
                        "expires": .integer(Int64(expires.timeIntervalSince1970)),
                    ]
                ]
            ])
    }

    private func check(_ bench: Bench) -> Collector<Result<[String: Entitlement], OnymError>> {
        let ends = Collector<Result<[String: Entitlement], OnymError>>()
        bench.onym.access.entitlements(.newerThan(300), callback: ends.callback)
        bench.settle()
        return ends
    }

    @Test("a clock that is set back makes no old answer a fresh one, and brings back nothing that has expired")
    func access() throws {
        let bench = Bench(.entitlements(key: "k"))
        let start = bench.time.now
        _ = check(bench)
        bench.answer(.json(201, [:]))
        bench.answer(list(expires: start.addingTimeInterval(3600)))
        bench.time.setClock(by: 7200)
        _ = check(bench)
        // The server says that it is over.
        bench.answer(list(expires: start.addingTimeInterval(3600)))
        bench.time.setClock(by: -7200)
        let ends = check(bench)
        #expect(bench.transport.open.count == 1)
        bench.answer(.fault(.offline))
        #expect(try ends.values[0].get()["plus"]?.isActive == false)
    }

    @Test("waits are waits, whatever the clock says")
    func waits() throws {
        let bench = Bench(.claim(key: "owl_client_k", bundleID: "b"))
        try bench.onym.setUser("u")
        bench.answer(.fault(.offline))
        bench.time.setClock(by: -1_000_000)
        bench.advance(1.5)
        #expect(bench.transport.open.count == 1)
    }
}
