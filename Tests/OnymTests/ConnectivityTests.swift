import ClientKit
import Foundation
import Onym
import Testing

@Suite("Networks that come and go")
struct ConnectivityTests {
    private let network = ManualConnectivity()

    private func bench(_ key: Configuration.Key, _ change: (inout Configuration) -> Void = { _ in }) -> Bench {
        Bench(key) {
            $0.connectivity = network
            change(&$0)
        }
    }

    private static let claim = Configuration.Key.claim(key: "owl_client_k", bundleID: "b")
    private let gone = NetworkPath(isAvailable: false)
    private let there = NetworkPath(isAvailable: true)
    private let constrained = NetworkPath(isAvailable: true, isConstrained: true)

    @Test("what waits goes within two seconds when the network is back, however long it was gone")
    func back() throws {
        let bench = bench(ConnectivityTests.claim)
        network.send(there)
        try bench.onym.setUser("u")
        network.send(gone)
        for _ in 0..<9 {
            bench.answer(.fault(.offline))
            bench.advance(420)
        }
        bench.answer(.fault(.offline))
        let before = bench.transport.requests.count
        network.send(there)
        bench.advance(2)
        #expect(bench.transport.requests.count == before + 1 && bench.transport.open.count == 1)
        bench.answer(.json(200, ["claimed": true]))
        #expect(bench.onym.claim?.mailbox.count == 0)
    }

    @Test("devices that come back together do not come at once")
    func spread() throws {
        var delays: Set<Int> = []
        for seed in 1...8 as ClosedRange<UInt64> {
            let network = ManualConnectivity()
            let bench = Bench(ConnectivityTests.claim, seed: seed) { $0.connectivity = network }
            network.send(gone)
            try bench.onym.setUser("u")
            for _ in 0..<6 {
                bench.answer(.fault(.offline))
                bench.advance(130)
            }
            bench.answer(.fault(.offline))
            network.send(there)
            delays.insert(Int((bench.time.nextDelay ?? 9) * 10))
        }
        #expect(delays.count > 3 && delays.allSatisfy { (0...20).contains($0) })
    }

    @Test("what the server holds back is held, whatever the network does", arguments: [401, 503])
    func held(status: Int) throws {
        let bench = bench(ConnectivityTests.claim)
        try bench.onym.setUser("u")
        bench.answer(status == 401 ? .json(401, ["error": "no"]) : .bytes(503, "", ["Retry-After": "600"]))
        network.send(gone)
        network.send(there)
        bench.advance(100)
        #expect(bench.transport.open.isEmpty && bench.transport.requests.count == 1)
    }

    @Test("a network that only changes its way wakes nobody")
    func otherWay() throws {
        let bench = bench(ConnectivityTests.claim)
        network.send(there)
        try bench.onym.setUser("u")
        for _ in 0..<6 {
            bench.answer(.fault(.offline))
            bench.advance(130)
        }
        bench.answer(.fault(.offline))
        let before = bench.transport.requests.count
        network.send(there)
        bench.advance(2)
        #expect(bench.transport.requests.count == before)
    }

    @Test("an identity call that is made again by itself does not wait either, and ends once")
    func identity() {
        let bench = bench(.idSync(key: "k", secret: nil)) { $0.retry = .automatic(attempts: 10) }
        let ends = Collector<OnymError?>()
        bench.onym.identity.identify(callback: { ends.callback($0.failure) })
        network.send(gone)
        for _ in 0..<6 {
            bench.answer(.fault(.offline))
            bench.advance(170)
        }
        bench.answer(.fault(.offline))
        let before = bench.transport.requests.count
        network.send(there)
        bench.advance(2)
        #expect(bench.transport.requests.count == before + 1)
        bench.answer(.json(200, ["mpid": "1"]))
        bench.advance(1000)
        #expect(ends.values == [nil] && bench.transport.requests.count == before + 1)
    }

    @Test("Low Data Mode holds events where the app wants that, and nothing else")
    func lowData() throws {
        let bench = bench(ConnectivityTests.claim) { $0.allowsConstrained = false }
        network.send(constrained)
        try bench.onym.setUser("u")
        #expect(bench.answer(.json(200, ["claimed": true]))?.path == "/v1/identity/claim")
        bench.onym.log("a")
        bench.advance(60)
        #expect(bench.transport.open.isEmpty)
        let ends = Collector<OnymError?>()
        bench.onym.flush(callback: { ends.callback($0.failure) })
        bench.settle()
        #expect(ends.values == [.refused(.constrained)] && bench.transport.open.isEmpty)
        network.send(there)
        bench.advance(2)
        #expect(bench.transport.open.first?.path == "/v1/ingest")
    }

    @Test("without such a wish, Low Data Mode holds nothing")
    func lowDataAllowed() {
        let bench = bench(ConnectivityTests.claim)
        network.send(constrained)
        bench.onym.log("a")
        bench.advance(5)
        #expect(bench.transport.open.count == 1)
    }

    @Test("an instance that has ended is not told any more")
    func end() {
        let bench = bench(ConnectivityTests.claim)
        #expect(network.count == 1)
        bench.onym.close()
        #expect(network.count == 0)
    }

    @Test(
        "events go after thirty seconds, in development after five, or when there are twenty", arguments: [true, false])
    func interval(isDevelopment: Bool) {
        let bench = bench(ConnectivityTests.claim) { $0.environment = isDevelopment ? .development : .production }
        let seconds: TimeInterval = isDevelopment ? 5 : 30
        #expect(bench.configuration.flushInterval == seconds)
        bench.onym.log("a")
        bench.advance(seconds - 0.1)
        #expect(bench.transport.open.isEmpty)
        bench.advance(0.2)
        bench.answer(.json(200, ["accepted": 1, "rejected": 0]))
        #expect(bench.transport.requests.count == 1)
        for number in 0..<20 { bench.onym.log("\(number)") }
        bench.advance(0)
        #expect(bench.transport.open.first?.json["events"]?.elements?.count == 20)
    }

    @Test("an app that does nothing has no timers, in any dialect, also after a start")
    func idle() {
        let bench = Bench(
            .idSync(key: "k", secret: nil), .claim(key: "owl_client_k", bundleID: "b"), .entitlements(key: "e"),
            .linking(appID: nil, secret: nil))
        bench.onym.identity.identify(callback: { _ in })
        bench.onym.log("a")
        bench.onym.properties.set(["a": "b"])
        bench.onym.access.setProperties(["a": "b"])
        #expect(bench.time.nextDelay != nil)
        for _ in 0..<20 {
            bench.advance(10)
            while let request = bench.transport.open.first {
                switch request.path {
                case "/v1/identify": bench.answer(IdentityTests.mpid(1))
                case "/v1/ingest": bench.answer(.json(200, ["accepted": 1, "rejected": 0]))
                default: bench.answer(.json(request.path.hasSuffix("/events") ? 202 : 201, [:]))
                }
            }
        }
        let waiting = [
            bench.onym.idsync?.mailbox.count, bench.onym.claim?.mailbox.count, bench.onym.entitlements?.mailbox.count,
            bench.onym.linking?.mailbox.count,
        ]
        #expect(waiting == [0, 0, 0, 0])
        for _ in 0..<2 {
            let count = bench.transport.requests.count
            bench.advance(1)
            #expect(bench.time.nextDelay == nil)
            bench.advance(86_400)
            #expect(bench.transport.requests.count == count)
            bench.relaunch()
        }
    }

    @Test("an interval of the app's own is kept, in any world")
    func ownInterval() {
        var configuration = Bench.configuration([])
        configuration.flushInterval = 7
        configuration.environment = .production
        #expect(configuration.flushInterval == 7)
    }
}
