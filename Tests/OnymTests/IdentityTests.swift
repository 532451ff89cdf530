import ClientKit
import Foundation
import Onym
import Testing

@Suite("Identity calls")
struct IdentityTests {
    let bench = Bench(.idSync(key: "us1-key", secret: "secret"))

    typealias Ends = Collector<Result<IdentityResult, OnymError>>

    static func mpid(_ id: Int64, isLoggedIn: Bool = false) -> ScriptedTransport.Answer {
        .json(
            200, ["mpid": .string("\(id)"), "is_logged_in": .bool(isLoggedIn), "context": .null, "is_ephemeral": false])
    }

    /// Has the server say who the user is.
    @discardableResult
    func become(_ id: Int64, _ request: IdentityRequest? = nil) -> Ends {
        let ends = Ends()
        bench.onym.identity.identify(request, callback: ends.callback)
        bench.answer(IdentityTests.mpid(id))
        return ends
    }

    @Test("identify names the device by itself, signs, and goes over to the user")
    func identify() throws {
        let ends = Ends()
        bench.onym.identity.identify(IdentityRequest([.customerID: "1"]), callback: ends.callback)
        let request = try #require(bench.transport.open.first)
        #expect(request.path == "/v1/identify")
        #expect(request.fields["x-mp-key"] == "us1-key")
        let date = try #require(request.fields["Date"])
        #expect(date == "Fri, 15 Jan 2027 08:00:00 GMT")
        let message = Array("POST\n\(date)\n/v1/identify".utf8) + request.body
        #expect(request.fields["x-mp-signature"] == hexadecimal(SHA256.authenticate(message, key: "secret".utf8)))
        #expect(
            request.json["known_identities"]?.texts == [
                "customerid": "1", "device_application_stamp": try #require(bench.onym.users.deviceApplicationStamp),
            ])
        #expect(request.json["previous_mpid"] == nil)
        #expect(ends.values.isEmpty)

        bench.answer(.json(200, ["mpid": "-9223372036854775808", "is_logged_in": true]))
        let result = try #require(ends.values.first).get()
        #expect(result.user.id == .min && result.user.isLoggedIn && result.previousUser == nil)
        #expect(bench.onym.users.current?.identities == [.customerID: "1"])
        #expect(bench.notices == [.userChanged(.idSync, from: nil, to: "-9223372036854775808")])
    }

    @Test("calls wait their turn, identical ones join, and each ends once")
    func queue() {
        let (first, joined, second, third) = (Ends(), Ends(), Ends(), Ends())
        let login = IdentityRequest([.customerID: "1"])
        bench.onym.identity.login(login, callback: first.callback)
        bench.onym.identity.login(login, callback: joined.callback)
        bench.onym.identity.logout(callback: second.callback)
        bench.onym.identity.login(login, callback: third.callback)
        #expect(bench.transport.requests.map(\.path) == ["/v1/login"])
        bench.answer(IdentityTests.mpid(1, isLoggedIn: true))
        #expect(first.values.count == 1 && joined.values.count == 1 && second.values.isEmpty)
        #expect(bench.transport.open.first?.json["previous_mpid"] == "1")
        bench.answer(IdentityTests.mpid(2))
        bench.answer(IdentityTests.mpid(1, isLoggedIn: true))
        #expect(bench.transport.requests.map(\.path) == ["/v1/login", "/v1/logout", "/v1/login"])
        #expect([first, joined, second, third].allSatisfy { $0.values.count == 1 })
        #expect(bench.onym.users.current?.id == 1)
        #expect(bench.onym.users.isLoggedIn)
    }

    @Test("an app may have overlaps refused instead")
    func refuse() {
        let bench = Bench(.idSync(key: "k", secret: nil)) { $0.overlap = .refuse }
        let (first, second) = (Ends(), Ends())
        bench.onym.identity.identify(callback: first.callback)
        bench.onym.identity.logout(callback: second.callback)
        bench.settle()
        #expect(second.values == [.failure(.refused(.inProgress))])
        bench.answer(IdentityTests.mpid(1))
        #expect(first.values.count == 1)
    }

    @Test("a logout that was cut off is made at the next start, and nobody is found logged in")
    func cutOffLogout() {
        become(1, IdentityRequest([.customerID: "1"]))
        bench.onym.identity.logout(callback: { _ in })
        bench.relaunch()
        bench.onym.identity.identify(callback: { _ in })
        #expect(bench.transport.open.map(\.path) == ["/v1/logout"])
        #expect(bench.transport.open.first?.json["known_identities"]?["customerid"] == nil)
        bench.answer(IdentityTests.mpid(2))
        #expect(bench.onym.users.current?.id == 2)
    }

    @Test("the next start asks by the names of the last user, and knows whether that one is logged in")
    func relaunch() {
        bench.onym.identity.login(IdentityRequest([.customerID: "1", .email: "a@x"]), callback: { _ in })
        bench.answer(IdentityTests.mpid(5, isLoggedIn: true))
        let stamp = bench.onym.users.deviceApplicationStamp ?? ""
        bench.relaunch()
        #expect(bench.onym.users.current?.id == 5 && bench.onym.users.isLoggedIn)
        bench.onym.identity.identify(callback: { _ in })
        let names = bench.transport.open.first?.json["known_identities"]?.texts
        #expect(names == ["customerid": "1", "email": "a@x", "device_application_stamp": stamp])
    }

    @Test("users are listed once each, the current one first, then the newest")
    func users() {
        for id in [1, 2, 3, 2, 1] as [Int64] {
            bench.advance(10)
            become(id, IdentityRequest([.customerID: "\(id)"]))
        }
        bench.advance(10)
        #expect(bench.onym.users.all.map(\.id) == [1, 2, 3])
        #expect(bench.onym.users.all[0].lastSeen == bench.time.now)
        #expect(bench.onym.users.user(2)?.firstSeen == Date(timeIntervalSince1970: 1_800_000_020))
        #expect(bench.onym.users.user(2)?.lastSeen == Date(timeIntervalSince1970: 1_800_000_050))
        #expect(bench.onym.users.user(9) == nil)
        bench.relaunch()
        #expect(bench.onym.users.all.map(\.id) == [1, 2, 3])
    }

    @Test("modify sends what changes, and nothing at all if nothing does")
    func modify() throws {
        become(1, IdentityRequest([.customerID: "1", .email: "a@x"]))
        let ends = Ends()
        bench.onym.identity.modify(IdentityRequest([.customerID: "1"]), callback: ends.callback)
        bench.onym.identity.modify(IdentityRequest([.other: nil]), callback: ends.callback)
        bench.settle()
        #expect(ends.values.count == 2 && bench.transport.open.isEmpty)
        bench.onym.identity.modify(
            IdentityRequest([.email: "b@x", .customerID: "1", "other2": "o"]), callback: ends.callback)
        let request = bench.answer(
            .json(200, ["change_results": [["identity_type": "email", "modified_mpid": "1"]]]))
        #expect(request?.path == "/v1/1/modify")
        #expect(
            request?.json["identity_changes"] == [
                ["identity_type": "email", "old_value": "a@x", "new_value": "b@x"],
                ["identity_type": "other2", "old_value": .null, "new_value": "o"],
            ])
        #expect(try ends.values[2].get().changes == [.init(user: 1, type: .email)])
        bench.onym.identity.modify(IdentityRequest([.email: nil]), callback: ends.callback)
        bench.answer(.json(200, ["change_results": []]))
        #expect(bench.onym.users.current?.identities == [.customerID: "1", "other2": "o"])
        #expect(try ends.values[3].get().previousUser == nil)
    }

    @Test("modify before there is anybody asks first who that is")
    func modifyFirst() throws {
        let ends = Ends()
        bench.onym.identity.modify(IdentityRequest([.email: "a@x"]), callback: ends.callback)
        #expect(bench.answer(IdentityTests.mpid(1))?.path == "/v1/identify")
        #expect(bench.answer(.json(200, ["change_results": []]))?.path == "/v1/1/modify")
        #expect(try ends.values[0].get().user.identities == [.email: "a@x"])
    }

    @Test("search finds somebody and changes nothing")
    func search() throws {
        become(1)
        let ends = Ends()
        bench.onym.identity.search(IdentityRequest([.email: "a@x"]), callback: ends.callback)
        bench.answer(IdentityTests.mpid(2, isLoggedIn: true))
        bench.onym.identity.search(IdentityRequest([.email: "b@x"]), callback: ends.callback)
        bench.answer(.json(404, ["errors": [["code": "NOT_FOUND_ERROR", "message": "nobody"]]]))
        #expect(try ends.values[0].get().user.id == 2)
        #expect(ends.values[1].failure?.status == 404)
        #expect(bench.onym.users.current?.id == 1)
    }

    @Test("events from before there is anybody belong to the first one, over crashes and logins")
    func early() {
        bench.onym.log("first")
        bench.relaunch()
        bench.onym.log("second", ["n": 1])
        bench.advance(60)
        #expect(bench.transport.requests.isEmpty)
        become(1)
        // The upload fails, somebody else logs in, and the process ends.
        bench.answer(.fault(.offline))
        bench.onym.identity.login(IdentityRequest([.customerID: "2"]), callback: { _ in })
        bench.answer(IdentityTests.mpid(2), at: 0)
        bench.onym.log("third")
        bench.relaunch()
        bench.advance(10)
        let first = bench.answer(.empty(202))
        let second = bench.answer(.empty(202))
        #expect(first?.path == "/v2/us1-key/events")
        #expect(first?.json["mpid"] == "1" && names(first) == ["first", "second"])
        #expect(second?.json["mpid"] == "2" && names(second) == ["third"])
        bench.advance(1000)
        #expect(bench.transport.open.isEmpty)
    }

    func names(_ request: HTTPRequest?) -> [String] {
        (request?.json["events"]?.elements ?? []).compactMap { $0["data"]?["event_name"]?.text }
    }

    @Test("events that are sent again are the same ones")
    func sentAgain() {
        become(1)
        bench.onym.log("a")
        bench.advance(5)
        let first = bench.answer(.fault(.timeout))
        bench.onym.log("b")
        bench.advance(10)
        let second = bench.answer(.empty(202))
        func ids(_ request: HTTPRequest?) -> [JSON?] {
            (request?.json["events"]?.elements ?? []).map { $0["data"]?["source_message_id"] }
        }
        #expect(ids(first).count == 1 && ids(second).count == 2)
        #expect(ids(first)[0] == ids(second)[0] && ids(second)[0] != ids(second)[1])
        #expect(first?.json["source_request_id"] != second?.json["source_request_id"])
    }

    @Test("attributes count at once, go out with events, and are each user's own")
    func attributes() throws {
        become(1)
        let one = try #require(bench.onym.users.current)
        bench.onym.users.setAttribute("eyes", "brown", of: one)
        bench.onym.users.setAttribute("age", 7, of: one)
        bench.onym.users.setAttribute("vip", .null, of: one)
        bench.onym.users.removeAttribute("eyes", of: one)
        #expect(bench.onym.users.user(1)?.attributes == ["age": 7, "vip": .null])
        become(2)
        #expect(bench.onym.users.current?.attributes == [:])
        bench.onym.users.setAttributes(["late": true, "vip": .null], of: one)
        bench.relaunch()
        #expect(bench.onym.users.user(1)?.attributes == ["late": true, "vip": .null])
        bench.advance(10)
        let request = bench.answer(.empty(202))
        #expect(request?.json["mpid"] == "1")
        #expect(request?.json["user_attributes"]?.members == ["vip": .null, "late": true])
        #expect(request?.json["deleted_user_attributes"] == ["age", "eyes"])
    }

    @Test("an alias goes after the events that came before it")
    func alias() throws {
        become(1)
        bench.onym.log("a")
        become(2)
        let (source, destination) = (
            try #require(bench.onym.users.user(1)), try #require(bench.onym.users.user(2))
        )
        try bench.onym.identity.alias(AliasRequest(source: source, destination: destination, now: bench.time.now))
        #expect(bench.answer(.empty(202))?.path == "/v2/us1-key/events")
        let request = bench.answer(.empty(202))
        #expect(request?.path == "/v1/identity/us1-key/alias")
        #expect(request?.json["data"]?["source_mpid"] == "1" && request?.json["data"]?["destination_mpid"] == "2")
        #expect(throws: OnymError.self) {
            try bench.onym.identity.alias(AliasRequest(source: source, destination: source))
        }
    }

    @Test("an alias of users reaches back ninety days, one of numbers as far as it says")
    func aliasWindow() {
        let now = Date(timeIntervalSince1970: 1_900_000_000)
        var old = User(kept: ["m": 1, "f": 0, "s": 1_899_999_999_000])
        let window = now.addingTimeInterval(-90 * 86_400)
        let new = User(kept: ["m": 2])
        #expect(AliasRequest(source: old!, destination: new!, now: now).start == window)
        old = User(kept: ["m": 1, "f": 0, "s": 1])
        #expect(AliasRequest(source: old!, destination: new!, now: now).end == window)
    }

    @Test("who opts out is forgotten at once, and nothing is sent")
    func optOut() {
        become(1, IdentityRequest([.email: "secret@x"]))
        bench.onym.log("secret")
        let ends = Ends()
        bench.onym.identity.logout(callback: ends.callback)
        bench.onym.optOut()
        bench.settle()
        #expect(ends.values == [.failure(.refused(.optedOut))])
        bench.answer(IdentityTests.mpid(9))
        bench.onym.log("later")
        bench.onym.identity.identify(callback: ends.callback)
        bench.advance(100)
        #expect(ends.values.last == .failure(.refused(.optedOut)))
        #expect(bench.onym.users.all.isEmpty)
        #expect(bench.transport.requests.count == 2)
        let text = bench.files.contents.values.map { String(decoding: $0, as: UTF8.self) }.joined()
        #expect(!text.contains("secret") && !text.contains("later"))
        bench.relaunch()
        bench.onym.identity.identify(callback: ends.callback)
        bench.settle()
        #expect(ends.values.count == 3)
        bench.onym.optIn()
        become(3)
        #expect(bench.onym.users.current?.id == 3)
    }

    @Test("a call that waits to be made again is not made for whoever opts in")
    func optInAnew() {
        let bench = Bench(.idSync(key: "k", secret: nil)) { $0.retry = .automatic(attempts: 3) }
        bench.onym.identity.login(IdentityRequest([.email: "secret@x"]), callback: { _ in })
        bench.answer(.fault(.offline))
        bench.onym.optOut()
        bench.onym.optIn()
        bench.advance(100)
        #expect(bench.transport.requests.count == 1)
    }

    @Test("who has opted out has for what the app learns later as well")
    func optOutOfLater() throws {
        bench.onym.optOut()
        bench.configuration.keys.append(.claim(key: "owl_client_k", bundleID: "b"))
        bench.relaunch()
        #expect(bench.onym.isOptedOut)
        bench.onym.log("later")
        bench.advance(100)
        #expect(bench.transport.requests.isEmpty && bench.onym.claim?.mailbox.count == 0)
        bench.onym.optIn()
        bench.relaunch()
        #expect(!bench.onym.isOptedOut)
    }

    @Test("a user whom a start leads to has the names that it was asked by")
    func movedOn() throws {
        become(1, IdentityRequest([.customerID: "c"]))
        bench.relaunch()
        bench.onym.identity.identify(callback: { _ in })
        bench.answer(IdentityTests.mpid(2))
        #expect(bench.onym.users.current?.identities == [.customerID: "c"])
    }

    @Test("a dialect that has nobody yet keeps no other from sending")
    func flushAll() {
        let bench = Bench(.idSync(key: "k", secret: nil), .claim(key: "owl_client_k", bundleID: "b"))
        bench.onym.log("a")
        let ends = Collector<Result<Void, OnymError>>()
        bench.onym.flush(callback: ends.callback)
        bench.settle()
        #expect(bench.answer(.json(200, ["accepted": 1, "rejected": 0]))?.path == "/v1/ingest")
        #expect(ends.values.map(\.failure) == [.refused(.noUser)])
        #expect(bench.onym.claim?.mailbox.count == 0)
    }

    @Test("an event that no dialect of the app takes is told")
    func nowhere() {
        let bench = Bench(.entitlements(key: "k"))
        bench.onym.log("a")
        bench.settle()
        #expect(bench.notices == [.dropped(1, .refused(.refused(.notConfigured)))])
    }

    @Test("with a policy for it, calls are made again under the same id")
    func retry() throws {
        let bench = Bench(.idSync(key: "k", secret: nil)) { $0.retry = .automatic(attempts: 3) }
        let ends = Ends()
        bench.onym.identity.identify(callback: ends.callback)
        let first = bench.answer(.fault(.offline))
        bench.advance(2)
        let second = bench.answer(.json(503, [:], ["Retry-After": "50"]))
        bench.advance(49)
        #expect(bench.transport.open.isEmpty)
        bench.advance(2)
        let third = bench.answer(IdentityTests.mpid(1))
        #expect(try ends.values[0].get().user.id == 1)
        #expect(Set([first, second, third].map { $0?.json["request_id"] }).count == 1)
        // The server compares bodies too.
        #expect(Set([first, second, third].map { $0?.body }).count == 1)
        bench.advance(1)
        bench.onym.identity.modify(IdentityRequest([.email: "a@x"]), callback: ends.callback)
        let lost = bench.answer(.fault(.timeout))
        bench.advance(2)
        #expect(bench.transport.open.first?.body == lost?.body)
    }

    @Test("of ten thousand and more events that wait, the oldest go, and it is told")
    func overflow() {
        let bench = Bench(.idSync(key: "k", secret: nil)) { $0.eventLimit = 50 }
        for number in 0..<60 { bench.onym.log("\(number)") }
        bench.advance(1)
        #expect(bench.notices == [.dropped(10, .overflow)])
        bench.onym.identity.identify(callback: { _ in })
        bench.answer(IdentityTests.mpid(1))
        #expect(names(bench.answer(.empty(202))) == (10..<60).map(String.init))
    }

    @Test("of a batch that is refused, the good events are sent all the same")
    func poison() {
        become(1)
        for number in 0..<8 { bench.onym.log("\(number)") }
        var taken: [String] = []
        bench.advance(5)
        while let open = bench.transport.open.first {
            let names = names(open)
            if names.contains("5") {
                bench.answer(.json(400, ["errors": [["code": "VALIDATION_ERROR", "message": "no"]]]))
            } else {
                taken += names
                bench.answer(.empty(202))
            }
        }
        #expect(taken == ["0", "1", "2", "3", "4", "6", "7"])
        #expect(
            bench.notices.contains(
                .dropped(
                    1,
                    .refused(
                        .http(
                            HTTPFailure(
                                status: 400, code: "VALIDATION_ERROR", message: "no", requestID: "r",
                                isServersWord: true))))))
    }
}

extension Result {
    var failure: Failure? {
        guard case .failure(let error) = self else { return nil }
        return error
    }
}
