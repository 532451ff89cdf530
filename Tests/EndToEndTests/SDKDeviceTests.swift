import Foundation
import Onym
import TestKit
import Testing

@Suite("The SDK: the user of a device", .timeLimit(.minutes(30)))
struct SDKDeviceTests {
    private let scene: SDKScene

    init() throws { scene = try SDKScene() }

    private func device(_ name: String, _ deviceClass: String = "phone") throws -> OnymClient {
        let linking = scene.store.linking
        return try scene.device(name, .linking(appID: linking["app_id"], secret: linking["app_secret"])) {
            $0.device.deviceClass = deviceClass
        }
    }

    /// What the app's own back end does.
    private func backend(_ path: String, _ user: String) throws -> [String: Any] {
        let answer = try scene.server.client.call(
            "POST", path, fields: [("Authorization", "Bearer \(scene.store.linking["api_key"] ?? "")")],
            json: "{\"external_id\":\"\(user)\"}")
        return try JSONSerialization.jsonObject(with: Data(answer.body.utf8)) as? [String: Any] ?? [:]
    }

    private func code(_ user: String) throws -> String {
        try #require(try backend("/users/auth-code", user)["authentication_code"] as? String)
    }

    @Test("a second phone gets the same user, and the first hears that it was superseded")
    func takeover() async throws {
        let first = try device("first")
        let made = try await first.device.createUser(try code("u"))
        #expect(made.isLinked && made.deactivation == nil)
        #expect(try await first.device.token().expires > Date())
        let second = try device("second")
        #expect(try await second.device.createUser(try code("u")).userID == made.userID)
        let state = try await first.device.refresh()
        #expect(state.userID == made.userID)
        #expect(state.deactivation?.reason == "superseded" && state.deactivation?.byDeviceClass == "phone")
        await #expect(throws: OnymError.refused(.disabled)) { try await first.device.token() }
        // It begins anew, and takes over again.
        try await first.device.reset()
        #expect(first.device.state?.userID == nil)
        #expect(try await first.device.createUser(try code("u")).userID == made.userID)
        #expect(try await second.device.refresh().deactivation?.reason == "superseded")
    }

    @Test("a tablet behind a phone waits, and works when the phone is gone")
    func tablet() async throws {
        let (phone, tablet) = (try device("phone"), try device("tablet", "tablet"))
        try await phone.device.createUser(try code("u"))
        let waiting = try await tablet.device.createUser(try code("u"))
        #expect(waiting.deactivation?.byDeviceClass == "phone")
        try await phone.device.reset()
        try await phone.flush()
        #expect(try await tablet.device.refresh().deactivation == nil)
    }

    @Test("a process that ends in the middle of a creation has the same user at its next launch")
    func resume() async throws {
        let code = try code("u")
        let user = try await device("other").device.createUser(try self.code("u")).userID
        // A transport whose answers are all lost.
        let configuration = try scene.configuration(
            "phone", .linking(appID: nil, secret: nil))
        let deaf = Deaf()
        var broken = configuration
        broken.transport = deaf
        let phone = try OnymClient(broken)
        phone.device.createUser(code, callback: { _ in })
        while deaf.answered == 0 { try await Task.sleep(for: .milliseconds(5)) }
        phone.close()
        let again = try OnymClient(configuration)
        while again.device.state?.phase == .creating { try await Task.sleep(for: .milliseconds(5)) }
        #expect(again.device.state?.userID == user)
        await #expect(throws: OnymError.refused(.userExists)) { try await again.device.createUser(try self.code("v")) }
    }

    /// Sends, and never lets an answer through.
    private final class Deaf: Transport, @unchecked Sendable {
        private let inner = URLSessionTransport()
        private let lock = NSLock()
        private var count = 0
        var answered: Int { lock.withLock { count } }

        func send(
            _ request: HTTPRequest, completion: @escaping @Sendable (Result<HTTPAnswer, TransportFault>) -> Void
        ) -> @Sendable () -> Void {
            inner.send(request) { _ in self.lock.withLock { self.count += 1 } }
        }
    }

    @Test("a code is good once, and what is wrong is told as it is")
    func codes() async throws {
        let code = try code("u")
        try await device("first").device.createUser(code)
        await #expect {
            try await device("second").device.createUser(code)
        } throws: { error in
            guard case .http(let failure) = error as? OnymError else { return false }
            return failure.code == "INVALID_AUTHENTICATION_CODE" && failure.status == 400 && failure.requestID != nil
        }
    }

    @Test("an app with its id and secret links by its own back end")
    func linker() async throws {
        let phone = try device("phone")
        let (port, key) = (scene.server.port, scene.store.linking["api_key"] ?? "")
        let state = try await phone.device.createUser { install in
            try HTTPClient(port: port).call(
                "POST", "/v2/users/\(install)/link", fields: [("Authorization", "Bearer \(key)")],
                json: #"{"external_id":"u"}"#
            ).status == 200
        }
        #expect(state.isLinked && state.userID != nil)
        let other = try device("other")
        await #expect(throws: OnymError.refused(.appFailed)) { try await other.device.createUser { _ in true } }
        #expect(try await other.device.createUser(linker: nil).isLinked == false)
        #expect(try await other.device.link(try code("new")).isLinked)
        #expect(try await device("third").device.createUser(try code("new")).userID == other.device.state?.userID)
    }
}
