import ClientKit
import Foundation
import Onym
import OnymSentiance
import Testing

/// The vendor calls completions on the main queue, on every platform (spec/facades.md, decision 6). On Linux the main queue of a program
/// without a run loop has no thread of its own, so the tests ask for the queue. Each test has an instance of its own.
@Suite("The queue of completions", .timeLimit(.minutes(30)))
struct CompletionQueueTests {
    private let transport = ScriptedTransport()
    private let sentiance = Sentiance()
    private static let mark: DispatchSpecificKey<Bool> = {
        let mark = DispatchSpecificKey<Bool>()
        DispatchQueue.main.setSpecific(key: mark, value: true)
        return mark
    }()
    /// The completions that came, and whether each came on the main queue.
    private let ends = Collector<(name: String, isOnMain: Bool)>()

    private func end(_ name: String) { ends.callback((name, Self.isOnMain)) }

    private static var isOnMain: Bool { DispatchQueue.getSpecific(key: mark) == true }

    /// Makes a call off the main queue, and waits for the completions with these names.
    private func expect(_ names: String..., answers: [(Int, JSON)] = [], _ call: () -> Void) async {
        let before = ends.values.count
        #expect(!Self.isOnMain)
        call()
        for (status, json) in answers {
            await eventually { !transport.open.isEmpty }
            transport.answer(.json(status, json))
        }
        await eventually { ends.values.count >= before + names.count }
        let came = ends.values.dropFirst(before)
        #expect(came.map(\.name) == names && came.allSatisfy(\.isOnMain), "\(came)")
    }

    @Test("is the main queue, with a user and without one")
    func withInstance() async {
        let options = SENTOptions()
        options.platformUrl = "https://onym.test"
        options.configure = { [transport] in
            let callbacks = $0.callbacks
            $0 = Bench.configuration($0.keys)
            ($0.transport, $0.files, $0.time, $0.callbacks) = (transport, MemoryFiles(), ManualTime(), callbacks)
        }
        sentiance.initialize(options: options)
        sentiance.setDidReceiveSdkStatusUpdateHandler { _ in end("status") }
        await expect("token") { sentiance.requestUserAccessToken { _, _ in end("token") } }
        let session: JSON = [
            "install_id": "5a18fc4b0962209e0000000d", "user_id": "u", "token": "t", "token_type": "Bearer",
            "expires_at": "2027-01-15T09:00:00.000Z", "refresh_token": "r", "is_active": true,
        ]
        await expect("create", answers: [(201, session)]) {
            sentiance.createUser(options: SENTUserCreationOptions(authenticationCode: "c")) { _, _ in end("create") }
        }
        await expect("again") {
            sentiance.initWithConfig(
                SENTConfig(appId: "a", secret: "s", link: nil), success: { end("again") }, failure: { _ in })
        }
        await expect("status", "enable") { sentiance.enableDetections { _, _ in end("enable") } }
        await expect("late") { sentiance.enableDetections(withExpiryDate: .distantPast) { _, _ in end("late") } }
        await expect("status", "disable") { sentiance.disableDetections { _, _ in end("disable") } }
        await expect("submit") { sentiance.submitDetections { _, _ in end("submit") } }
        await expect("link") { sentiance.linkUser(authCode: "c") { _, _ in end("link") } }
        await expect("token") { sentiance.requestUserAccessToken { _, _ in end("token") } }
        await expect("refresh", answers: [(200, ["is_active": true])]) {
            sentiance.refreshStatus { _ in end("refresh") }
        }
        await expect("reset", answers: [(200, [:])]) { sentiance.reset { _, _ in end("reset") } }
        sentiance.close()
    }

    @Test("is the main queue before a start and without an address of a server, too")
    func withoutInstance() async {
        guard Configuration.defaultEndpoint == nil else { return }
        await expect("create") {
            sentiance.createUser(options: SENTUserCreationOptions(authenticationCode: "c")) { _, _ in end("create") }
        }
        await expect("start") {
            sentiance.initWithConfig(
                SENTConfig(appId: "a", secret: "s", link: nil), success: {}, failure: { _ in end("start") })
        }
        await expect("link") { sentiance.linkUser(authCode: "c") { _, _ in end("link") } }
        await expect("token") { sentiance.requestUserAccessToken { _, _ in end("token") } }
        await expect("enable") { sentiance.enableDetections { _, _ in end("enable") } }
        await expect("refresh") { sentiance.refreshStatus { _ in end("refresh") } }
        await expect("reset") { sentiance.reset { _, _ in end("reset") } }
        #expect(sentiance.core == nil)
    }

    @Test("is the queue that the app's configuration names")
    func named() async {
        let options = SENTOptions()
        options.platformUrl = "https://onym.test"
        options.configure = { [transport] in
            $0 = Bench.configuration($0.keys)
            ($0.transport, $0.files, $0.callbacks) = (transport, MemoryFiles(), .background)
        }
        sentiance.initialize(options: options)
        sentiance.requestUserAccessToken { _, _ in end("token") }
        await eventually { !ends.values.isEmpty }
        #expect(ends.values.map(\.isOnMain) == [false])
        sentiance.close()
    }
}
