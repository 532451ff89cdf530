import ClientKit
import Foundation
import Onym
import Testing

@Suite("The user of a device", .timeLimit(.minutes(30)))
struct DeviceTests {
    let bench = Bench(.linking(appID: "app", secret: "secret"))

    typealias States = Collector<Result<DeviceState, OnymError>>

    private static let moment = "2027-01-15T09:00:00.000Z"

    private static func session(
        _ user: JSON = "u", token: String = "t1", refresh: String = "r1", expires: String = moment,
        isActive: Bool = true
    ) -> ScriptedTransport.Answer {
        let status: [String: JSON] = [
            "is_active": .bool(isActive), "reason": isActive ? .null : "superseded",
            "by_device_class": isActive ? .null : "tablet", "since": isActive ? .null : .string(moment),
        ]
        return .json(
            201,
            .object(
                [
                    "install_id": "install", "user_id": user, "token": .string(token), "token_type": "Bearer",
                    "expires_at": .string(expires), "refresh_token": .string(refresh), "restored": false,
                    "config": .object(status),
                ].merging(status) { $1 }))
    }

    private static func refusal(_ status: Int, _ code: String) -> ScriptedTransport.Answer {
        .json(status, ["message": "no", "errorCode": .string(code), "ref": "ref"])
    }

    @discardableResult
    private func create(_ code: String = "c", _ answer: ScriptedTransport.Answer = session()) -> States {
        let ends = States()
        bench.onym.device.createUser(code, callback: ends.callback)
        bench.answer(answer)
        return ends
    }

    @Test("a code makes the user, once, and a second is refused without a call")
    func code() throws {
        let ends = create()
        let request = bench.transport.requests[0]
        #expect(request.path == "/sdk/users" && request.json["authentication_code"] == "c")
        #expect(UUID(uuidString: request.json["install_key"]?.text ?? "") != nil)
        #expect(try ends.values[0].get().userID == "u" && ends.values.count == 1)
        #expect(bench.onym.device.state?.isLinked == true)
        let second = States()
        bench.onym.device.createUser("d", callback: second.callback)
        bench.settle()
        #expect(second.values == [.failure(.refused(.userExists))] && bench.transport.requests.count == 1)
        bench.relaunch()
        #expect(bench.onym.device.state?.userID == "u" && bench.transport.open.isEmpty)
    }

    @Test("a second creation while one is under way is refused; the same one joins")
    func overlap() {
        let (first, same, other) = (States(), States(), States())
        bench.onym.device.createUser("c", callback: first.callback)
        bench.onym.device.createUser("c", callback: same.callback)
        bench.onym.device.createUser("d", callback: other.callback)
        bench.answer(DeviceTests.session())
        #expect(first.values.count == 1 && same.values == first.values)
        #expect(other.values == [.failure(.refused(.inProgress))])
        #expect(bench.transport.requests.count == 1)
    }

    @Test("a process that ends before the answer comes finds the same user at the next launch")
    func resume() throws {
        bench.onym.device.createUser("c", callback: { _ in })
        let first = bench.transport.requests[0]
        bench.relaunch()
        let late = States()
        // The app does not know, and has asked for another code.
        bench.onym.device.createUser("d", callback: late.callback)
        bench.advance(0)
        let second = bench.answer(DeviceTests.session())
        #expect(second?.json == first.json)
        #expect(bench.onym.device.state?.userID == "u")
        #expect(late.values == [.failure(.refused(.userExists))])
    }

    @Test("if the code of a former launch is good no more, the new one is taken")
    func resumeFails() throws {
        bench.onym.device.createUser("c", callback: { _ in })
        bench.relaunch()
        let late = States()
        bench.onym.device.createUser("d", callback: late.callback)
        bench.advance(0)
        bench.answer(DeviceTests.refusal(400, "INVALID_AUTHENTICATION_CODE"))
        #expect(bench.answer(DeviceTests.session())?.json["authentication_code"] == "d")
        #expect(try late.values[0].get().userID == "u")
    }

    @Test("an answer that was lost is asked for again by the same key, if the app wants to")
    func sameKey() {
        #expect(create("c", .fault(.timeout)).values[0].failure == .timeout)
        bench.relaunch()
        bench.advance(100)
        #expect(bench.transport.open.isEmpty)
        create("c")
        let keys = bench.transport.requests.map { $0.json["install_key"] }
        #expect(keys.count == 2 && keys[0] == keys[1])
    }

    @Test("a code that is no good is a server's refusal")
    func badCode() {
        let failure = create("c", DeviceTests.refusal(400, "INVALID_AUTHENTICATION_CODE")).values[0].failure
        #expect(
            failure
                == .http(
                    HTTPFailure(
                        status: 400, code: "INVALID_AUTHENTICATION_CODE", message: "no", requestID: "r",
                        isServersWord: true))
        )
        #expect(bench.onym.device.state?.phase == .idle)
    }

    // MARK: - Linkers

    /// Lets tasks of linkers come to their end.
    private func until(_ condition: () -> Bool) async {
        await eventually {
            bench.settle()
            return condition()
        }
    }

    private static let person: ScriptedTransport.Answer = .json(
        200, ["person_id": "p", "third_party_linked": true, "is_active": true])

    @Test("a linker gets the install, and the server is asked whether it is true")
    func linker() async throws {
        let ends = States()
        let installs = Collector<String>()
        bench.onym.device.createUser(
            linker: {
                installs.callback($0)
                return true
            }, callback: ends.callback)
        let made = bench.answer(DeviceTests.session(.null))
        #expect(made?.path == "/sdk/installs" && made?.json["app_id"] == "app" && made?.json["secret"] == "secret")
        await until { !bench.transport.open.isEmpty }
        #expect(installs.values == ["install"])
        let asked = bench.answer(DeviceTests.person)
        #expect(asked?.path == "/sdk/person" && asked?.fields["Authorization"] == "Bearer t1")
        #expect(try ends.values[0].get().userID == "p" && ends.values[0].get().isLinked)
    }

    @Test("a linker that fails, lies or never ends fails the creation, once, and the next gets the same install")
    func badLinkers() async throws {
        struct Failure: Error {}
        let failed = States()
        bench.onym.device.createUser(linker: { _ in throw Failure() }, callback: failed.callback)
        bench.answer(DeviceTests.session(.null))
        await until { !failed.values.isEmpty }
        let refused = States()
        bench.onym.device.createUser(linker: { _ in false }, callback: refused.callback)
        await until { !refused.values.isEmpty }
        let lying = States()
        bench.onym.device.createUser(linker: { _ in true }, callback: lying.callback)
        await until { !bench.transport.open.isEmpty }
        bench.answer(DeviceTests.refusal(404, "NOT_LINKED"))
        let hanging = States()
        bench.onym.device.createUser(
            linker: { _ in
                try await Task.sleep(for: .seconds(3600))
                return true
            }, callback: hanging.callback)
        bench.advance(LinkingClient.linkerTimeout)
        let again = States()
        bench.relaunch()
        bench.onym.device.createUser(linker: { $0 == "install" }, callback: again.callback)
        await until { !bench.transport.open.isEmpty }
        bench.answer(DeviceTests.person)
        for ends in [failed, refused, lying, hanging] {
            #expect(ends.values == [.failure(.refused(.appFailed))])
        }
        #expect(try again.values[0].get().userID == "p")
        #expect(bench.transport.requests.filter { $0.path == "/sdk/installs" }.count == 1)
    }

    @Test("without a linker, the user stays unlinked, and can be linked later")
    func lateLink() async throws {
        let ends = States()
        bench.onym.device.createUser(linker: nil, callback: ends.callback)
        bench.answer(DeviceTests.session(.null))
        #expect(bench.answer(.json(200, ["user_id": "p", "person_id": "p"]))?.path == "/sdk/link-legacy-install")
        #expect(try ends.values[0].get().userID == "p" && !ends.values[0].get().isLinked)
        let refused = States()
        bench.onym.device.link("c", callback: refused.callback)
        bench.answer(DeviceTests.refusal(403, "CANNOT_LINK_EXISTING_PERSON_TO_OTHER_PERSON"))
        #expect(refused.values[0].failure?.status == 403)
        let linked = States()
        bench.onym.device.link(linker: { _ in true }, callback: linked.callback)
        await until { !bench.transport.open.isEmpty }
        bench.answer(DeviceTests.person)
        #expect(try linked.values[0].get().isLinked)
        bench.onym.device.link("c", callback: refused.callback)
        bench.settle()
        #expect(refused.values.last == .failure(.refused(.alreadyLinked)))
    }

    @Test("there is nothing to link without a user")
    func noUser() {
        let ends = States()
        bench.onym.device.link("c", callback: ends.callback)
        bench.settle()
        #expect(ends.values == [.failure(.refused(.noUser))])
    }

    // MARK: - Tokens

    @Test("however many ask for a token, a new one is fetched once")
    func tokens() throws {
        create()
        let ends = Collector<Result<AccessToken, OnymError>>()
        bench.onym.device.token(callback: ends.callback)
        bench.settle()
        #expect(try ends.values[0].get().value == "t1" && bench.transport.requests.count == 1)
        bench.advance(3600)
        for _ in 0..<5 { bench.onym.device.token(callback: ends.callback) }
        let request = bench.answer(DeviceTests.session(token: "t2", refresh: "r2", expires: "2027-01-16T09:00:00.000Z"))
        #expect(request?.json == ["grant_type": "refresh_token", "refresh_token": "r1"])
        #expect(try ends.values.count == 6 && ends.values.dropFirst().allSatisfy { try $0.get().value == "t2" })
        #expect(bench.transport.requests.count == 2)
        bench.relaunch()
        bench.onym.device.token(callback: ends.callback)
        bench.settle()
        #expect(try ends.values[6].get().value == "t2" && bench.onym.device.state?.isLinked == true)
        #expect("\(try ends.values[6].get())".contains("t2") == false)
    }

    @Test("a network that is gone is no reason to be logged out, a token that is dead is")
    func deadToken() {
        create()
        bench.advance(3600)
        let ends = Collector<Result<AccessToken, OnymError>>()
        bench.onym.device.token(callback: ends.callback)
        bench.answer(.fault(.offline))
        #expect(ends.values[0].failure == .offline && bench.onym.device.state?.deactivation == nil)
        bench.onym.device.token(callback: ends.callback)
        bench.answer(DeviceTests.refusal(401, "INVALID_TOKEN"))
        bench.onym.device.token(callback: ends.callback)
        bench.settle()
        #expect(ends.values.dropFirst().map(\.failure) == [.refused(.disabled), .refused(.disabled)])
        #expect(bench.onym.device.state?.userID == "u")
    }

    @Test("a clock that is behind takes a dead token for good, until the server says otherwise")
    func clockBehind() throws {
        create()
        bench.advance(3600)
        bench.time.setClock(by: -7200)
        let ends = States()
        bench.onym.device.refresh(callback: ends.callback)
        bench.answer(DeviceTests.refusal(401, "INVALID_TOKEN"))
        #expect(bench.answer(DeviceTests.session(token: "t2", refresh: "r2"))?.path == "/sdk/token")
        #expect(bench.answer(.json(200, ["is_active": true]))?.fields["Authorization"] == "Bearer t2")
        #expect(try ends.values[0].get().userID == "u")
        // It is asked once more, and not for ever.
        bench.onym.device.refresh(callback: ends.callback)
        bench.answer(DeviceTests.refusal(401, "INVALID_TOKEN"))
        bench.answer(DeviceTests.session(token: "t3", refresh: "r3"))
        bench.answer(DeviceTests.refusal(401, "INVALID_TOKEN"))
        #expect(ends.values.count == 2 && ends.values[1].failure?.status == 401 && bench.transport.open.isEmpty)
    }

    // MARK: - Another device took over

    @Test("a device that was superseded hears by which, once, and works again when it may")
    func superseded() throws {
        create()
        let ends = States()
        bench.onym.device.refresh(callback: ends.callback)
        let status: JSON = [
            "is_active": false, "reason": "superseded", "by_device_class": "phone",
            "since": .string(DeviceTests.moment),
        ]
        #expect(bench.answer(.json(200, status))?.path == "/sdk/config")
        let deactivation = Deactivation(reason: "superseded", byDeviceClass: "phone", at: DeviceTests.moment)
        #expect(try ends.values[0].get().deactivation == deactivation)
        bench.onym.device.refresh(callback: ends.callback)
        bench.answer(.json(200, status))
        #expect(bench.notices == [.deactivated(deactivation)])
        bench.relaunch()
        #expect(bench.onym.device.state?.deactivation == deactivation)
        let token = Collector<Result<AccessToken, OnymError>>()
        bench.onym.device.token(callback: token.callback)
        bench.settle()
        #expect(token.values[0].failure == .refused(.disabled))
        bench.onym.device.refresh(callback: ends.callback)
        bench.answer(.json(200, ["is_active": true]))
        #expect(bench.onym.device.state?.deactivation == nil && bench.notices.last == .reactivated)
    }

    @Test("a tablet behind a phone is made, and waits")
    func blocked() throws {
        let state = try create("c", DeviceTests.session(isActive: false)).values[0].get()
        #expect(state.userID == "u" && state.deactivation?.byDeviceClass == "tablet")
    }

    // MARK: - Reset

    @Test("a reset forgets at once, tells the server, and allows the next user")
    func reset() throws {
        create()
        let ends = Collector<Result<Void, OnymError>>()
        bench.onym.device.reset(callback: ends.callback)
        #expect(bench.onym.device.state?.userID == nil && bench.onym.device.state?.phase == .resetting)
        let during = States()
        bench.onym.device.createUser("d", callback: during.callback)
        bench.onym.device.reset(callback: ends.callback)
        bench.settle()
        #expect(during.values == [.failure(.refused(.resetting))])
        let request = bench.answer(.empty(204))
        #expect(request?.path == "/sdk/reset" && request?.fields["Authorization"] == "Bearer t1")
        #expect(ends.values.map(\.failure) == [.refused(.resetting), nil])
        let text = bench.files.contents.values.map { String(decoding: $0, as: UTF8.self) }.joined()
        #expect(!text.contains("r1"))
        #expect(try create("e").values[0].get().userID == "u")
    }

    @Test("without a network, a reset is a reset, and the server hears of it later")
    func resetOffline() {
        create()
        let ends = Collector<Result<Void, OnymError>>()
        bench.onym.device.reset(callback: ends.callback)
        bench.answer(.fault(.offline))
        #expect(ends.values.count == 1 && ends.values[0].failure == nil)
        bench.relaunch()
        #expect(bench.onym.device.state?.userID == nil)
        bench.advance(6)
        #expect(bench.answer(.empty(204))?.path == "/sdk/reset")
        #expect(bench.transport.open.isEmpty)
    }

    @Test("a process that ends behind the farewell has logged out, and the server hears of it")
    func endOfLogout() throws {
        create()
        // The farewell is the first line that a logout writes.
        var state: JSON = .null
        let mailbox = try Mailbox(
            "linking", in: bench.files, id: 1, report: { _ in },
            fold: { if case .state(let kept) = $0 { state = kept } })
        try mailbox.post("r", of: "install", at: 1, #require(state["session"]).bytes)
        bench.relaunch()
        #expect(bench.onym.device.state?.userID == nil)
        bench.advance(6)
        let request = bench.answer(.empty(204))
        #expect(request?.path == "/sdk/reset" && request?.fields["Authorization"] == "Bearer t1")
        // The server may give the next user the same install.
        create("d", DeviceTests.session("v", token: "t2"))
        bench.relaunch()
        #expect(bench.onym.device.state?.userID == "v" && bench.transport.open.isEmpty)
    }

    @Test("a second reset does not keep the server from hearing of the first")
    func resetTwice() {
        create()
        bench.onym.device.reset(callback: { _ in })
        bench.answer(.fault(.offline))
        create("d", DeviceTests.session("v", token: "t2"))
        bench.onym.device.reset(callback: { _ in })
        let sent = (0..<2).map { _ in bench.answer(.empty(204))?.fields["Authorization"] }
        #expect(sent == ["Bearer t1", "Bearer t2"])
        #expect(bench.notices.isEmpty)
    }

    @Test("a reset of nobody does not keep the server from hearing of the one before", arguments: [true, false])
    func resetAgain(isHeld: Bool) {
        create()
        bench.onym.device.reset(callback: { _ in })
        bench.answer(isHeld ? .json(503, [:], ["Retry-After": "60"]) : .fault(.offline))
        let ends = Collector<Result<Void, OnymError>>()
        bench.onym.device.reset(callback: ends.callback)
        bench.settle()
        #expect(ends.values.count == 1 && bench.transport.open.isEmpty)
        // The server's word counts for a user who comes and goes meanwhile, who does not wait for it.
        create("d", DeviceTests.session("v", token: "t2"))
        bench.onym.device.reset(callback: ends.callback)
        if isHeld {
            bench.settle()
            #expect(ends.values.count == 2 && bench.transport.open.isEmpty)
            bench.advance(61)
        }
        let sent = (0..<2).map { _ in bench.answer(.empty(204))?.fields["Authorization"] }
        #expect(sent == ["Bearer t1", "Bearer t2"] && ends.values.count == 2)
    }

    @Test("who resets with a dead token says so with a fresh one, and keeps none", arguments: [true, false])
    func resetLate(isRefreshed: Bool) {
        create()
        bench.advance(10 * 86_400)
        let ends = Collector<Result<Void, OnymError>>()
        bench.onym.device.reset(callback: ends.callback)
        let asked = bench.answer(
            isRefreshed ? DeviceTests.session(token: "t9", refresh: "r9") : DeviceTests.refusal(401, "INVALID_TOKEN"))
        #expect(asked?.path == "/sdk/token" && asked?.json["refresh_token"] == "r1")
        let reset = bench.answer(isRefreshed ? .empty(204) : DeviceTests.refusal(401, "INVALID_TOKEN"))
        #expect(reset?.fields["Authorization"] == (isRefreshed ? "Bearer t9" : "Bearer t1"))
        #expect(ends.values.count == 1 && bench.transport.open.isEmpty)
        let text = bench.files.contents.values.map { String(decoding: $0, as: UTF8.self) }.joined()
        #expect(!text.contains("r1") && !text.contains("t1") && !text.contains("r9"))
    }

    @Test("there is no reset while a user is made, and one of nobody is done at once")
    func resetDuring() {
        let ends = Collector<Result<Void, OnymError>>()
        bench.onym.device.reset(callback: ends.callback)
        bench.settle()
        #expect(ends.values.count == 1 && ends.values[0].failure == nil)
        bench.onym.device.createUser("c", callback: { _ in })
        bench.onym.device.reset(callback: ends.callback)
        bench.settle()
        #expect(ends.values[1].failure == .refused(.inProgress))
    }
}
