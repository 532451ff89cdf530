import ClientKit
import Foundation
import Onym
import Testing

/// The last launch answer, which the device keeps for the user of the answer (spec/entitlements-live.md 1.2).
@Suite("The kept launch answer")
struct LaunchTests {
    private let bench = Bench(.entitlements(key: "k"))

    /// An answer with one offering, and with the history of one entitlement.
    private var answer: ScriptedTransport.Answer {
        .json(
            200,
            [
                "data": [
                    "offerings": [
                        ["id": "spring-sale", "tag": 1, "products": [["id": "yearly", "store_id": "com.app.yearly"]]]
                    ],
                    "permissions": [["id": "plus", "renews_count": 3, "grant_type": "offer_code"]],
                ]
            ])
    }

    private func ask(newerThan seconds: TimeInterval? = nil) -> Collector<Result<Launch, OnymError>> {
        let ends = Collector<Result<Launch, OnymError>>()
        bench.onym.access.launch(newerThan: seconds, callback: ends.callback)
        bench.settle()
        return ends
    }

    /// Has the server answer the first start.
    private func know() throws -> Launch {
        let ends = ask()
        bench.answer(.json(201, [:]))
        #expect(bench.answer(answer)?.path == "/v1/user/init")
        let launch = try ends.values[0].get()
        #expect(launch.offerings.map(\.id) == ["spring-sale"] && launch.histories["plus"]?.renewals == 3)
        return launch
    }

    /// Whether a file of the device has the answer.
    private var isOnDisk: Bool {
        bench.files.contents.values.contains { String(decoding: $0, as: UTF8.self).contains("spring-sale") }
    }

    @Test("counts after a restart, without a network and for its time alone")
    func restart() throws {
        let launch = try know()
        #expect(isOnDisk)
        bench.relaunch()
        #expect(bench.onym.access.knownLaunch == launch)
        // A new process asks the server, however young the answer is; without a network the kept answer counts.
        let ends = ask(newerThan: 300)
        #expect(ends.values.isEmpty)
        bench.answer(.fault(.offline))
        #expect(ends.values == [.success(launch)])
        bench.time.advance(30 * 86_400)
        #expect(bench.onym.access.knownLaunch == nil)
        let late = ask()
        bench.answer(.fault(.offline))
        #expect(late.values == [.failure(.offline)])
    }

    @Test("a restart keeps it for its user alone")
    func users() throws {
        let launch = try know()
        bench.onym.access.identify("bob", callback: { _ in })
        bench.answer(.json(200, ["user_id": "QON_bob"]))
        bench.relaunch()
        #expect(bench.onym.access.knownLaunch == nil)
        let ends = ask()
        bench.answer(.fault(.offline))
        #expect(ends.values == [.failure(.offline)])
        bench.onym.access.logout()
        #expect(bench.onym.access.knownLaunch == launch)
    }

    @Test("ends with an opt-out, on the disk too, and does not come back")
    func optOut() throws {
        _ = try know()
        bench.onym.optOut()
        #expect(bench.onym.access.knownLaunch == nil && !isOnDisk)
        let ends = ask()
        #expect(ends.values == [.failure(.refused(.optedOut))])
        bench.relaunch()
        #expect(bench.onym.access.knownLaunch == nil && bench.transport.open.isEmpty)
        bench.onym.optIn()
        #expect(bench.onym.access.knownLaunch == nil)
        let next = ask()
        bench.answer(.fault(.offline))
        #expect(next.values == [.failure(.offline)] && !isOnDisk)
    }

    @Test("an answer that comes after an opt-out is not kept")
    func late() {
        let ends = ask()
        bench.answer(.json(201, [:]))
        bench.onym.optOut()
        bench.answer(answer)
        bench.onym.optIn()
        bench.settle()
        #expect(ends.values == [.failure(.refused(.optedOut))])
        #expect(bench.onym.access.knownLaunch == nil && !isOnDisk)
    }
}
