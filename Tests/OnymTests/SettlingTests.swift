import ClientKit
import Foundation
import Onym
import Testing

/// Whether an answer settles what was sent: only the server's own word does (spec/sdk-apple.md 2).
@Suite("What may be thrown away")
struct SettlingTests {
    /// Something that waits to be sent, of each dialect that has such.
    enum Letter: String, CaseIterable, Sendable {
        case event
        case claimedEvent
        case claim
        case property
        case purchase

        func bench() -> Bench {
            let bench: Bench
            switch self {
            case .event:
                bench = Bench(.idSync(key: "k", secret: nil))
                bench.onym.identity.identify(callback: { _ in })
                bench.answer(IdentityTests.mpid(1))
                bench.onym.log("a")
            case .claimedEvent, .claim:
                bench = Bench(.claim(key: "owl_client_k", bundleID: "b"))
                if self == .claim { try? bench.onym.setUser("u") } else { bench.onym.log("a") }
            case .property, .purchase:
                bench = Bench(.entitlements(key: "k"))
                bench.onym.access.userInfo(callback: { _ in })
                bench.answer(.json(201, [:]))
                if self == .property {
                    bench.onym.access.setProperties(["a": "b"])
                } else {
                    bench.onym.access.purchase(SettlingTests.purchase, callback: { _ in })
                }
            }
            return bench
        }

        /// An error as the dialect says it.
        func word(_ status: Int) -> ScriptedTransport.Answer {
            switch self {
            case .event: .json(status, ["errors": [["code": "VALIDATION_ERROR", "message": "no"]]])
            case .claimedEvent, .claim: .json(status, ["error": "no"])
            case .property, .purchase:
                .json(status, ["error": ["type": "request", "code": "invalid_data", "message": "no"]])
            }
        }
    }

    static let purchase = Purchase(
        price: "9.99", currency: "EUR", purchased: Date(timeIntervalSince1970: 1_799_999_000), appStoreReceipt: "jws")

    private func waiting(_ bench: Bench) -> Int {
        [bench.onym.idsync?.mailbox.count, bench.onym.claim?.mailbox.count, bench.onym.entitlements?.mailbox.count]
            .compactMap { $0 }.reduce(0, +)
    }

    private func flush(_ bench: Bench) -> Collector<Result<Void, OnymError>> {
        let ends = Collector<Result<Void, OnymError>>()
        bench.onym.flush(callback: ends.callback)
        return ends
    }

    private func isDropped(_ bench: Bench) -> Bool {
        bench.notices.contains { if case .dropped = $0 { true } else { false } }
    }

    private func held(_ bench: Bench) -> [(status: Int?, waiting: Int)] {
        bench.notices.compactMap { notice in
            guard case .held(let error, let waiting) = notice else { return nil }
            return (error.status, waiting)
        }
    }

    /// What somebody between the device and the server may say.
    static func others(_ status: Int) -> [ScriptedTransport.Answer] {
        [
            .bytes(status, "<html>Sign in</html>"), .bytes(status, ""), .bytes(status, "{\"error\":\"no\"}"),
            .bytes(status, "<html>no</html>", ["X-Request-Id": "r"]), .json(status, ["message": "Forbidden"]),
        ]
    }

    @Test(
        "nothing is, on the word of a firewall or a proxy", arguments: Letter.allCases,
        [400, 401, 403, 404, 409, 413, 422])
    func others(letter: Letter, status: Int) {
        for answer in SettlingTests.others(status) {
            let bench = letter.bench()
            let ends = flush(bench)
            let first = bench.answer(answer)
            #expect(ends.values.map { $0.failure?.status } == [status])
            #expect(waiting(bench) == 1 && !isDropped(bench))
            #expect(held(bench).map(\.status) == [status] && held(bench).map(\.waiting) == [1])
            bench.relaunch()
            _ = flush(bench)
            #expect(bench.transport.open.last?.body == first?.body)
        }
    }

    @Test(
        "nothing is, on a success that comes from a hotel's network", arguments: Letter.allCases, [200, 201, 202, 204])
    func portal(letter: Letter, status: Int) {
        for body in ["", "{}", #"{"accepted":1,"rejected":0}"#, #"{"claimed":true}"#] {
            let bench = letter.bench()
            let ends = flush(bench)
            let first = bench.answer(.bytes(status, body))
            #expect(ends.values.map { $0.failure?.status } == [status])
            #expect(waiting(bench) == 1 && !isDropped(bench))
            _ = flush(bench)
            #expect(bench.transport.open.last?.body == first?.body)
        }
    }

    @Test(
        "an event, a claim or a property is, on the server's word for what it will never take",
        arguments: [400, 409, 413, 422])
    func word(status: Int) {
        for letter in Letter.allCases {
            let bench = letter.bench()
            let ends = flush(bench)
            bench.answer(letter.word(status))
            #expect(waiting(bench) == 0 && isDropped(bench))
            guard case .dropped(1, .refused(let error))? = ends.values.first?.failure else {
                Issue.record("\(letter): the flush ended with \(ends.values)")
                continue
            }
            #expect(error.status == status && error.serversStatus == status)
        }
    }

    @Test(
        "a key that is not good enough is tried each hour, and whoever flushes tries at once",
        arguments: Letter.allCases, [401, 403])
    func key(letter: Letter, status: Int) {
        let bench = letter.bench()
        _ = flush(bench)
        bench.answer(letter.word(status))
        bench.advance(3599)
        #expect(bench.transport.open.isEmpty)
        bench.advance(2)
        #expect(bench.transport.open.count == 1)
        bench.answer(letter.word(status))
        // Told once, not each hour.
        #expect(held(bench).count == 1 && waiting(bench) == 1 && !isDropped(bench))
        let ends = flush(bench)
        #expect(bench.transport.open.count == 1)
        bench.answer(.json(200, [:]))
        #expect(ends.values.map(\.failure) == [nil] && waiting(bench) == 0)
    }

    @Test("a batch that is too large for a proxy goes in parts")
    func proxyLimit() {
        let bench = Bench(.claim(key: "owl_client_k", bundleID: "b"))
        for number in 0..<8 { bench.onym.log("\(number)") }
        _ = flush(bench)
        var sizes: [Int] = []
        while let open = bench.transport.open.first {
            let count = open.json["events"]?.elements?.count ?? 0
            sizes.append(count)
            bench.answer(count > 2 ? .bytes(413, "<html>") : .json(200, ["accepted": 2, "rejected": 0]))
        }
        #expect(sizes.prefix(3) == [8, 4, 2] && waiting(bench) == 0 && !isDropped(bench))
    }

    // MARK: - Purchases

    @Test(
        "a purchase is kept beside, and blocks nothing, if the server refuses it for good",
        arguments: ["invalid_data", "purchase_fraud", "already_exists", "not_implemented"])
    func refusedPurchase(code: String) throws {
        let bench = Letter.purchase.bench()
        let user = try #require(bench.onym.access.user?.id)
        bench.onym.access.setProperties(["a": "b"])
        bench.answer(
            .json(422, ["error": ["type": "logical", "code": .string(code), "message": "no"]]))
        #expect(waiting(bench) == 1 && isDropped(bench))
        #expect(bench.answer(.json(200, [:]))?.path.hasSuffix("/properties") == true)
        bench.relaunch()
        let refused = bench.onym.access.refusedPurchases
        #expect(refused.map(\.code) == [code] && refused.map(\.user) == [user])
        #expect(refused.first?.purchase["price"] == "9.99" && refused.first?.message == "no")
        #expect(refused.first?.purchase["app_store_data"]?["receipt"] == "jws")
        bench.onym.access.forgetRefusedPurchases()
        bench.relaunch()
        #expect(bench.onym.access.refusedPurchases.isEmpty)
    }

    @Test("a purchase waits, whatever else the server says of it")
    func purchaseWaits() {
        let bench = Letter.purchase.bench()
        bench.answer(.json(409, ["error": ["type": "request", "code": "not_now", "message": "no"]]))
        #expect(waiting(bench) == 1 && !isDropped(bench) && bench.onym.access.refusedPurchases.isEmpty)
    }

    @Test("a purchase of a user whom the server has lost goes once the server knows the user again")
    func lostUser() {
        let bench = Letter.purchase.bench()
        bench.answer(.json(404, ["error": ["type": "resource", "code": "not_found", "message": "User not found"]]))
        #expect(bench.answer(.json(201, [:]))?.path == "/v3/users/\(bench.onym.access.user?.deviceID ?? "")")
        #expect(bench.answer(.json(201, [:]))?.path.hasSuffix("/purchases") == true)
        #expect(waiting(bench) == 0)
    }

    @Test("what may be used is known, whatever a hotel's network says")
    func accessBehindPortal() throws {
        let bench = Bench(.entitlements(key: "k"))
        func check() -> Collector<Result<[String: Entitlement], OnymError>> {
            let ends = Collector<Result<[String: Entitlement], OnymError>>()
            bench.onym.access.entitlements(.newerThan(300), callback: ends.callback)
            return ends
        }
        _ = check()
        bench.answer(.json(201, [:]))
        bench.answer(.json(200, ["data": [["id": "plus", "active": true, "started": 1]]]))
        bench.advance(400)
        let ends = check()
        bench.answer(.bytes(403, "<html>"))
        #expect(try ends.values[0].get()["plus"]?.isActive == true)
    }

    @Test("nobody is disabled, and no code used up, by a hotel's network")
    func deviceBehindPortal() throws {
        let bench = Bench(.linking(appID: nil, secret: nil))
        let ends = Collector<Result<DeviceState, OnymError>>()
        bench.onym.device.createUser("code", callback: ends.callback)
        let first = bench.answer(.bytes(404, "<html>"))
        bench.onym.device.createUser("code", callback: ends.callback)
        let session: JSON = [
            "install_id": "i", "user_id": "u", "token": "t", "refresh_token": "r",
            "expires_at": "2027-01-15T09:00:00.000Z", "is_active": true,
        ]
        let second = bench.answer(.json(201, session))
        #expect(first?.json["install_key"] == second?.json["install_key"])
        bench.advance(4000)
        bench.onym.device.refresh(callback: ends.callback)
        bench.answer(.bytes(401, "<html>"))
        #expect(bench.onym.device.state?.deactivation == nil && ends.values.count == 3)
    }

    // MARK: - What is told

    @Test("a flush fails if any of what it covers was dropped, and says how many and why")
    func flushTells() {
        let bench = Bench(.claim(key: "owl_client_k", bundleID: "b"))
        for number in 0..<3 { bench.onym.log("\(number)") }
        let ends = flush(bench)
        // This one is none of the flush's.
        bench.onym.log("later")
        bench.answer(
            .json(
                200,
                [
                    "accepted": 1, "rejected": 2,
                    "errors": [
                        ["index": 0, "message": "events[0]: level must be one of info, debug, warn, error"],
                        ["index": 2, "message": "events[2]: session_id is required"],
                    ],
                ]))
        let text = "events[0]: level must be one of info, debug, warn, error; events[2]: session_id is required"
        let reason = DropReason.refused(.http(HTTPFailure(status: 200, message: text)))
        #expect(bench.notices == [.dropped(2, reason)])
        #expect(ends.values.map(\.failure) == [.dropped(2, reason)])
        #expect(OnymError.dropped(2, reason).description.contains("level must be one of"))
        let next = flush(bench)
        bench.answer(.json(200, ["accepted": 1, "rejected": 0]))
        #expect(next.values.map(\.failure) == [nil])
    }

    @Test("over the limit, one notice a second has the count, and a flush that waits hears of it")
    func overflow() {
        let bench = Bench(.claim(key: "owl_client_k", bundleID: "b")) { $0.eventLimit = 10 }
        for number in 0..<10 { bench.onym.log("\(number)") }
        let ends = flush(bench)
        bench.answer(.fault(.offline))
        #expect(ends.values.map(\.failure) == [.offline])
        let again = flush(bench)
        for number in 10..<200 { bench.onym.log("\(number)") }
        // Ten are on their way, which nobody takes back.
        bench.settle()
        #expect(bench.notices.isEmpty)
        bench.advance(1)
        #expect(bench.notices == [.dropped(189, .overflow)])
        bench.onym.log("one more")
        bench.onym.close()
        bench.settle()
        #expect(bench.notices == [.dropped(189, .overflow), .dropped(1, .overflow)])
        #expect(again.values.count == 1)
    }

    @Test("of what a flush covers, what goes for want of room is told to whoever flushes")
    func overflowOfFlush() {
        let bench = Bench(.idSync(key: "k", secret: nil)) { $0.eventLimit = 10 }
        for number in 0..<10 { bench.onym.log("\(number)") }
        bench.onym.identity.identify(callback: { _ in })
        bench.answer(IdentityTests.mpid(1))
        bench.answer(.fault(.offline))
        let ends = flush(bench)
        bench.answer(.fault(.offline))
        let covered = flush(bench)
        #expect(ends.values.count == 1 && covered.values.isEmpty)
        // The batch is on its way: what goes is what comes after it, which the flush does not cover.
        for number in 10..<13 { bench.onym.log("\(number)") }
        bench.answer(.empty(202))
        #expect(covered.values.map(\.failure) == [nil])
    }

    @Test("letters that wait behind some that stay give way in their order")
    func order() throws {
        let bench = Bench(.claim(key: "owl_client_k", bundleID: "b")) { $0.eventLimit = 6 }
        try bench.onym.setUser("u")
        bench.answer(.fault(.offline))
        for number in 0..<20 { bench.onym.log("\(number)") }
        bench.relaunch()
        let letters = try #require(bench.onym.claim?.mailbox.letters)
        let texts = letters.map { (try? bench.onym.claim?.mailbox.content(of: $0))?["n"]?.text ?? $0.kind }
        #expect(texts == ["c", "15", "16", "17", "18", "19"])
    }
}

/// A clock that is wrong loses nothing.
@Suite("Clocks that are wrong")
struct WrongClockTests {
    private static let right = 1_800_000_000.0

    /// An answer, with the date that the server's clock shows.
    private func answer(_ bench: Bench, _ status: Int, _ json: JSON) -> ScriptedTransport.Answer {
        .json(status, json, ["Date": HTTPDate.write(bench.time.trueNow)])
    }

    private func times(_ request: HTTPRequest?) -> [String] {
        (request?.json["events"]?.elements ?? []).compactMap { $0["timestamp"]?.text }
    }

    @Test(
        "events come with the time that it was, ahead or behind, over launches",
        arguments: [600.0, -600.0, 34_560_000.0])
    func events(offset: TimeInterval) throws {
        let bench = Bench(.claim(key: "owl_client_k", bundleID: "b"))
        bench.time.setClock(by: offset)
        bench.onym.log("a")
        bench.advance(5)
        bench.answer(.bytes(503, "", ["Date": HTTPDate.write(bench.time.trueNow), "X-Request-Id": "r"]))
        bench.advance(1.5)
        #expect(
            times(bench.answer(answer(bench, 200, ["accepted": 1]))).allSatisfy { $0.hasPrefix("2027-01-15T08:00:0") })
        bench.relaunch()
        bench.onym.log("b")
        bench.advance(6)
        let all = bench.transport.requests.filter { $0.path == "/v1/ingest" }.flatMap(times)
        #expect(all.count == 3 && all.dropFirst().allSatisfy { $0.hasPrefix("2027-01-15T08:00:0") }, "\(all)")
    }

    @Test("an answer of somebody else says nothing of the time, and neither does one that is right within seconds")
    func others() {
        let bench = Bench(.claim(key: "owl_client_k", bundleID: "b"))
        bench.onym.log("a")
        bench.advance(5)
        bench.answer(.bytes(503, "", ["Date": "Fri, 15 Jan 2027 09:00:00 GMT"]))
        #expect(bench.onym.runtime.clock.correction == 0)
        bench.advance(2)
        bench.answer(.json(200, ["accepted": 1], ["Date": "Fri, 15 Jan 2027 08:00:02 GMT"]))
        #expect(bench.onym.runtime.clock.correction == 0)
        #expect(!bench.files.contents.keys.contains("clock"))
    }

    @Test("a clock that was set right needs no correction any more")
    func setRight() {
        let bench = Bench(.claim(key: "owl_client_k", bundleID: "b"))
        bench.time.setClock(by: 3600)
        bench.onym.log("a")
        bench.advance(5)
        bench.answer(answer(bench, 200, ["accepted": 1]))
        #expect(bench.onym.runtime.clock.correction == -3600)
        bench.time.setClock(by: -3600)
        bench.onym.log("b")
        bench.advance(5)
        bench.answer(answer(bench, 200, ["accepted": 1]))
        #expect(bench.onym.runtime.clock.correction == 0)
        bench.relaunch()
        #expect(bench.onym.runtime.clock.correction == 0)
    }

    @Test("what waited too long goes as the oldest that is taken, and says by how much")
    func late() throws {
        let bench = Bench(.claim(key: "owl_client_k", bundleID: "b"))
        bench.onym.log("old")
        bench.answer(.fault(.offline))
        bench.relaunch()
        bench.time.advance(31 * 86_400)
        bench.onym.flush(callback: { _ in })
        let event = try #require(bench.transport.open.first?.json["events"]?.elements?.first)
        // The server takes what is at most thirty days old.
        #expect(event["timestamp"] == "2027-01-16T08:10:00.000Z")
        #expect(event["custom_attributes"]?["_late_ms"] == .string("\(86_400_000 + 600_000)"))
    }

    @Test("a signed call that the server refuses for its date is made again with the right one, once")
    func signature() throws {
        let bench = Bench(.idSync(key: "k", secret: "s"))
        bench.time.setClock(by: 7200)
        let ends = Collector<Result<IdentityResult, OnymError>>()
        bench.onym.identity.identify(callback: ends.callback)
        #expect(bench.answer(answer(bench, 401, [:]))?.fields["Date"] == "Fri, 15 Jan 2027 10:00:00 GMT")
        #expect(ends.values.isEmpty)
        let second = bench.answer(answer(bench, 200, ["mpid": "1"]))
        #expect(second?.fields["Date"] == "Fri, 15 Jan 2027 08:00:00 GMT")
        #expect(second?.json["request_timestamp_ms"] == .integer(1_800_000_000_000))
        #expect(try ends.values.first?.get().user.id == 1)
        bench.onym.identity.login(callback: ends.callback)
        bench.answer(answer(bench, 401, [:]))
        #expect(ends.values.count == 2)
        bench.onym.log("a")
        bench.advance(5)
        let event = bench.transport.open.first?.json["events"]?.elements?.first
        #expect(event?["data"]?["timestamp_unixtime_ms"] == .integer(1_800_000_000_000))
    }

    @Test("events that the server refuses for the date of their signature go at once with the right one")
    func signedEvents() {
        let bench = Bench(.idSync(key: "k", secret: "s"))
        bench.onym.identity.identify(callback: { _ in })
        bench.answer(answer(bench, 200, ["mpid": "1"]))
        bench.time.setClock(by: -7200)
        bench.onym.log("a")
        bench.advance(5)
        bench.answer(answer(bench, 401, [:]))
        #expect(bench.transport.open.first?.fields["Date"] == "Fri, 15 Jan 2027 08:00:05 GMT")
        bench.answer(answer(bench, 401, [:]))
        // It is the key, then.
        bench.advance(3000)
        #expect(bench.transport.open.isEmpty)
    }

    @Test("a date is read as it is written", arguments: [0.0, 951_782_400.0, 1_800_000_000.0, 4_102_444_799.0])
    func dates(seconds: Double) {
        let date = Date(timeIntervalSince1970: seconds)
        #expect(HTTPDate.read(HTTPDate.write(date)) == date)
    }

    @Test(
        "what is no date is none",
        arguments: ["", "Fri, 15 Jan 2027 08:00:00 CET", "15 Jan 2027", "Fri, 15 Foo 2027 08:00:00 GMT", "1800000000"])
    func noDates(text: String) {
        #expect(HTTPDate.read(text) == nil)
    }
}
