import ClientKit
import Foundation
import Onym
import Testing

/// What becomes of a call under way when something ends all that is under way.
@Suite("Calls that are given up", .timeLimit(.minutes(30)))
struct GivenUpTests {
    enum End: CaseIterable, Sendable {
        case close
        case optOut
        case reset
    }

    private func device() -> Bench {
        let bench = Bench(.linking(appID: "app", secret: "secret"))
        bench.onym.device.createUser(linker: nil, callback: { _ in })
        bench.answer(
            .json(
                201,
                [
                    "install_id": "install", "token": "t", "refresh_token": "r",
                    "expires_at": "2027-01-15T09:00:00.000Z",
                ]))
        bench.answer(.json(200, ["person_id": "p"]))
        return bench
    }

    private func end(_ bench: Bench, _ end: End) {
        switch end {
        case .close: bench.onym.close()
        case .optOut: bench.onym.optOut()
        case .reset: bench.onym.device.reset(callback: { _ in })
        }
        bench.settle()
    }

    @Test("the question of how the user stands ends, once", arguments: End.allCases, [false, true])
    func refresh(how: End, isStale: Bool) {
        let bench = device()
        if isStale { bench.advance(3600) }
        let ends = Collector<Result<DeviceState, OnymError>>()
        bench.onym.device.refresh(callback: ends.callback)
        end(bench, how)
        bench.answer(.json(200, ["is_active": true]))
        bench.advance(100)
        #expect(ends.values.count == 1 && ends.values.allSatisfy { $0.failure != nil })
    }

    @Test("a late link ends, once", arguments: [End.close, .optOut], [false, true])
    func link(how: End, isByLinker: Bool) {
        let bench = device()
        let ends = Collector<Result<DeviceState, OnymError>>()
        if isByLinker {
            bench.onym.device.link(
                linker: { _ in
                    try await Task.sleep(for: .seconds(3600))
                    return true
                }, callback: ends.callback)
        } else {
            bench.onym.device.link("c", callback: ends.callback)
        }
        end(bench, how)
        bench.answer(.json(200, ["user_id": "p"]))
        bench.advance(100)
        #expect(ends.values.count == 1 && ends.values.allSatisfy { $0.failure != nil })
    }

    /// Calls back nobody.
    private struct Nowhere: CallbackQueue {
        func run(_ action: @escaping @Sendable () -> Void) {}
    }

    @Test("a client that ends the last call of an instance that nobody holds lets it go")
    func lastCall() throws {
        let transport = ScriptedTransport()
        weak var gone: OnymClient?
        do {
            let onym = try OnymClient(
                runtime: Runtime(
                    Bench.configuration([.idSync(key: "k", secret: nil)]), files: MemoryFiles(), transport: transport,
                    time: ManualTime(), callbacks: Nowhere(), chance: { 7 }))
            gone = onym
            onym.identity.identify(callback: { _ in })
        }
        #expect(gone != nil)
        // The completion holds it, and goes where the lock is held.
        transport.answer(.json(200, ["mpid": "1"]))
        #expect(gone == nil)
    }

    @Test("feedback ends, once", arguments: [End.close, .optOut])
    func feedback(how: End) throws {
        let bench = Bench(.claim(key: "owl_client_k", bundleID: "b"))
        let ends = Collector<Result<ClaimClient.Receipt, OnymError>>()
        try #require(bench.onym.claim).sendFeedback("good", name: nil, email: nil, ends.callback)
        end(bench, how)
        bench.answer(.json(201, ["id": "1"]))
        bench.advance(100)
        #expect(ends.values.count == 1 && ends.values.allSatisfy { $0.failure != nil })
    }
}
