import ClientKit
import Foundation
import Onym
import Testing

@Suite("Access")
struct AccessTests {
    let bench = Bench(.entitlements(key: "key"))

    typealias Users = Collector<Result<AccessUser, OnymError>>
    typealias Lists = Collector<Result<[String: Entitlement], OnymError>>

    private var device: String { bench.onym.access.user?.deviceID ?? "" }
    private static let missing: ScriptedTransport.Answer = .json(
        404, ["error": ["type": "resource", "code": "not_found", "message": "Identity not found"]])

    private static func refusal(_ message: String) -> ScriptedTransport.Answer {
        .json(422, ["error": ["type": "resource", "code": "already_exists", "message": .string(message)]])
    }

    private static func owner(_ user: String) -> ScriptedTransport.Answer {
        .json(200, ["id": "i", "user_id": .string(user)])
    }

    private func list(_ ids: String..., expires: Int64? = nil) -> ScriptedTransport.Answer {
        let data = ids.map { id -> JSON in
            .sparse([
                "id": .string(id), "active": true, "started": 1, "expires": expires.map(JSON.integer) ?? .null,
                "source": "appstore",
                "product": [
                    "product_id": "p", "subscription": ["renew_state": "will_renew", "current_period_type": "trial"],
                ],
            ])
        }
        return .json(200, ["object": "list", "data": .array(data)])
    }

    private func create() {
        bench.onym.access.userInfo(callback: { _ in })
        bench.answer(.json(201, ["id": .string(device), "created": 1, "environment": "sandbox"]))
    }

    private func identify(_ id: String, _ answers: ScriptedTransport.Answer...) -> Users {
        let ends = Users()
        bench.onym.access.identify(id, callback: ends.callback)
        for answer in answers { bench.answer(answer) }
        return ends
    }

    private func check() -> Lists {
        let ends = Lists()
        bench.onym.access.entitlements(.newerThan(300), callback: ends.callback)
        bench.settle()
        return ends
    }

    @Test("a device makes its own user, and says who looks in each call")
    func creation() throws {
        #expect(device.count == 36 && device.hasPrefix("QON_"))
        let ends = Users()
        bench.onym.access.userInfo(callback: ends.callback)
        let request = bench.answer(.json(201, ["id": .string(device)]))
        #expect(request?.path == "/v3/users/\(device)" && request?.json == ["environment": "sandbox"])
        #expect(request?.fields["Authorization"] == "Bearer test_key")
        #expect(request?.fields["Onym-Device-User"] == device && request?.fields["Onym-Identity"] == "")
        #expect(try ends.values[0].get() == AccessUser(id: device, deviceID: device, identityID: nil))
        bench.relaunch()
        bench.onym.access.userInfo(callback: ends.callback)
        bench.settle()
        #expect(ends.values.count == 2 && bench.transport.requests.count == 1)
    }

    @Test("a user who is there already, because an answer was lost, is read back")
    func lostCreation() throws {
        let ends = Users()
        bench.onym.access.userInfo(callback: ends.callback)
        bench.answer(AccessTests.refusal("User with given uid already exists"))
        #expect(bench.answer(.json(200, ["id": .string(device)]))?.method == "GET")
        #expect(try ends.values[0].get().id == device)
    }

    @Test("somebody new is linked with this device's user, and somebody known is gone over to")
    func identify() throws {
        create()
        let first = identify("a/b?@ü", AccessTests.missing)
        let request = bench.answer(AccessTests.owner(device))
        #expect(request?.url.absoluteString == "https://onym.test/v3/identities/a%2Fb%3F%40%C3%BC")
        #expect(request?.method == "POST" && request?.json == ["user_id": .string(device)])
        #expect(try first.values[0].get() == AccessUser(id: device, deviceID: device, identityID: "a/b?@ü"))
        bench.onym.access.logout()
        let second = identify("known", AccessTests.owner("QON_other"))
        #expect(try second.values[0].get() == AccessUser(id: "QON_other", deviceID: device, identityID: "known"))
        #expect(bench.notices.contains(.userChanged(.entitlements, from: device, to: "QON_other")))
        bench.relaunch()
        #expect(bench.onym.access.user?.identityID == "known")
        let count = bench.transport.requests.count
        let again = identify("known")
        bench.settle()
        #expect(again.values.count == 1 && bench.transport.requests.count == count)
        bench.onym.access.logout()
        #expect(bench.onym.access.user == AccessUser(id: device, deviceID: device, identityID: nil))
    }

    @Test("if another was quicker, that one is gone over to")
    func race() throws {
        create()
        let ends = identify(
            "i", AccessTests.missing, AccessTests.refusal("identity already exists: it's linked to another user"),
            AccessTests.owner("QON_winner"))
        #expect(try ends.values[0].get().id == "QON_winner")
    }

    @Test("if this device's user is somebody else's already, the server makes a user")
    func converted() throws {
        create()
        let ends = identify(
            "i", AccessTests.missing, AccessTests.refusal("user already converted"), AccessTests.missing)
        #expect(bench.answer(AccessTests.owner("QON_new"))?.json == [:])
        #expect(try ends.values[0].get().id == "QON_new")
    }

    @Test("a fault leaves all as it was", arguments: [ScriptedTransport.Answer.fault(.offline), .bytes(500, "")])
    func failure(answer: ScriptedTransport.Answer) {
        create()
        let ends = identify("i", answer)
        #expect(ends.values[0].failure != nil)
        #expect(bench.onym.access.user?.identityID == nil)
        #expect(identify("i", AccessTests.missing, .bytes(500, "")).values[0].failure?.status == 500)
        #expect(bench.onym.access.user?.identityID == nil)
    }

    @Test("a logout during an identify wins, and both are told once", arguments: [0, 1])
    func logoutWins(answered: Int) throws {
        create()
        let ends = Users()
        bench.onym.access.identify("i", callback: ends.callback)
        if answered == 1 { bench.answer(AccessTests.missing) }
        let late = bench.transport.take()
        bench.onym.access.logout()
        ScriptedTransport.complete(try #require(late).completion, AccessTests.owner("QON_other"))
        bench.settle()
        #expect(ends.values == [.failure(.refused(.superseded))])
        #expect(bench.onym.access.user == AccessUser(id: device, deviceID: device, identityID: nil))
        bench.relaunch()
        #expect(bench.onym.access.user?.identityID == nil)
        #expect(try identify("j", AccessTests.owner("QON_j")).values[0].get().identityID == "j")
    }

    @Test("what may be used is asked once in five minutes, and then again")
    func freshness() throws {
        create()
        let first = check()
        bench.answer(list("plus"))
        #expect(try first.values[0].get()["plus"]?.isActive == true)
        #expect(try first.values[0].get()["plus"]?.period == "trial")
        #expect(try check().values[0].get()["plus"]?.productID == "p")
        #expect(bench.transport.requests.count == 2)
        bench.advance(301)
        #expect(check().values.isEmpty && bench.transport.open.count == 1)
    }

    @Test("without a network, what was known counts for a month, but nothing longer than it lasts")
    func offline() throws {
        create()
        _ = check()
        bench.answer(list("forever"))
        bench.advance(301)
        _ = check()
        let week = Int64(bench.time.now.timeIntervalSince1970) + 7 * 86_400
        bench.answer(list("week", expires: week))
        bench.relaunch()
        func offline() -> Lists {
            let ends = check()
            bench.answer(.fault(.offline))
            return ends
        }
        #expect(try offline().values[0].get()["week"]?.isActive == true)
        bench.advance(7 * 86_400 + 1)
        #expect(try offline().values[0].get()["week"]?.isActive == false)
        bench.advance(24 * 86_400)
        #expect(offline().values[0].failure == .offline)
    }

    @Test("a subscription that ends within the five minutes is asked for at once")
    func expiry() throws {
        create()
        _ = check()
        bench.answer(list("plus", expires: Int64(bench.time.now.timeIntervalSince1970) + 60))
        bench.advance(61)
        let ends = check()
        #expect(bench.transport.open.count == 1)
        bench.answer(.fault(.timeout))
        #expect(try ends.values[0].get()["plus"]?.isActive == false)
    }

    @Test("nobody gets what another could use, not even without a network")
    func cacheOfOthers() throws {
        create()
        _ = identify("u1", AccessTests.owner("QON_1"))
        _ = check()
        #expect(bench.answer(list("plus"))?.fields["Onym-Identity"] == "u1")
        bench.onym.access.logout()
        let ends = check()
        bench.answer(.fault(.offline))
        #expect(ends.values[0].failure == .offline)
        _ = identify("u2", AccessTests.owner("QON_2"))
        let other = check()
        bench.answer(.fault(.offline))
        #expect(other.values[0].failure == .offline)
        _ = identify("u1", AccessTests.owner("QON_1"))
        bench.advance(301)
        let again = check()
        bench.answer(.fault(.offline))
        #expect(try again.values[0].get()["plus"]?.isActive == true)
    }

    @Test("a server that has lost the user is told of it anew")
    func lostUser() throws {
        create()
        let ends = check()
        bench.answer(AccessTests.missing)
        #expect(bench.answer(.json(201, [:]))?.path == "/v3/users/\(device)")
        bench.answer(list("plus"))
        #expect(try ends.values[0].get().count == 1)
    }

    @Test("properties go to the user they were set for, over logout and crash")
    func properties() throws {
        create()
        _ = identify("i", AccessTests.owner("QON_i"))
        bench.onym.access.setProperties(["_q_email": "a@x"])
        bench.onym.access.logout()
        bench.onym.access.setProperties(["plan": "b"])
        bench.onym.access.setProperties(["plan": "c"])
        bench.relaunch()
        bench.advance(10)
        let first = bench.answer(.json(200, ["savedProperties": [], "propertyErrors": [["key": "x", "error": "no"]]]))
        let second = bench.answer(.json(200, ["savedProperties": [], "propertyErrors": []]))
        #expect(first?.path == "/v3/users/QON_i/properties")
        #expect(first?.json == [["key": "_q_email", "value": "a@x"]])
        #expect(second?.path == "/v3/users/\(device)/properties" && second?.json == [["key": "plan", "value": "c"]])
        #expect(bench.notices.contains(.dropped(1, .refused(.http(HTTPFailure(status: 200, message: "x: no"))))))
    }

    @Test("properties make sure first that there is a user to have them")
    func propertiesFirst() {
        bench.onym.access.setProperties(["a": "b"])
        bench.advance(5)
        #expect(bench.answer(.bytes(401, ""))?.path == "/v3/users/\(device)")
        #expect(bench.transport.open.isEmpty)
        bench.advance(3601)
        bench.answer(AccessTests.refusal("User with given uid already exists"))
        #expect(bench.answer(.json(200, [:]))?.path == "/v3/users/\(device)/properties")
    }

    @Test("a purchase is kept until the server has it, for whom it was made, under one key")
    func purchase() throws {
        create()
        _ = identify("i", AccessTests.owner("QON_i"))
        let ends = Collector<Result<Void, OnymError>>()
        bench.onym.access.purchase(
            Purchase(price: "9.99", currency: "EUR", purchased: bench.time.now, appStoreReceipt: "jws"),
            callback: ends.callback)
        let first = bench.answer(.bytes(503, ""))
        #expect(ends.values.map { $0.failure?.status } == [503])
        bench.onym.access.logout()
        bench.relaunch()
        bench.advance(6)
        let second = bench.answer(.json(201, ["user_id": "QON_i"]))
        #expect(first?.path == "/v3/users/QON_i/purchases" && second?.path == first?.path)
        #expect(first?.fields["Onym-Identity"] == "i" && second?.fields["Onym-Identity"] == "i")
        #expect(first?.body == second?.body)
        #expect(first?.fields["Idempotency-Key"] == second?.fields["Idempotency-Key"])
        #expect(second?.json["app_store_data"]?["receipt"] == "jws" && second?.json["price"] == "9.99")
        #expect(ends.values.count == 1)
    }

    @Test("a purchase whose file cannot be read waits, and its buyer hears of it; one that is lost is told")
    func unreadablePurchase() {
        create()
        let ends = Collector<Result<Void, OnymError>>()
        let purchase = Purchase(price: "9.99", currency: "EUR", purchased: bench.time.now, appStoreReceipt: "jws")
        bench.onym.access.purchase(purchase, callback: ends.callback)
        bench.answer(.fault(.offline))
        bench.files.setDeviceLocked(true)
        bench.advance(5)
        #expect(bench.transport.open.isEmpty)
        bench.files.setDeviceLocked(false)
        bench.advance(7)
        #expect(bench.transport.open.first?.json["price"] == "9.99")
        #expect(ends.values.map(\.failure) == [.offline])
        bench.answer(.json(201, [:]))
        bench.onym.access.purchase(purchase, callback: ends.callback)
        bench.answer(.fault(.offline))
        for name in bench.files.names() where name.hasPrefix("entitlements-") { bench.files.remove(name) }
        bench.advance(5)
        #expect(bench.transport.open.isEmpty && bench.notices.contains(.dropped(1, .storage)))
    }

    @Test("what is bought while the server looks is asked for anew")
    func boughtMeanwhile() throws {
        create()
        let first = check()
        bench.onym.access.purchase(
            Purchase(price: "1", currency: "EUR", purchased: bench.time.now, appStoreReceipt: "jws"),
            callback: { _ in })
        bench.answer(.json(201, [:]), at: 1)
        bench.answer(list())
        #expect(try first.values[0].get().isEmpty)
        _ = check()
        #expect(bench.transport.open.count == 1)
    }

    @Test("who buys hears at once how it stands: without a network, and while the server wants to be left alone")
    func buyersHear() throws {
        let ends = Collector<Result<Void, OnymError>>()
        func buy() {
            bench.onym.access.purchase(
                Purchase(price: "1", currency: "EUR", purchased: bench.time.now, appStoreReceipt: "jws"),
                callback: ends.callback)
        }
        buy()
        // The user has to be made first.
        bench.answer(.fault(.offline))
        #expect(ends.values.map(\.failure) == [.offline])
        buy()
        bench.answer(.json(503, [:], ["Retry-After": "600"]))
        buy()
        bench.settle()
        #expect(ends.values.map { $0.failure?.status } == [nil, 503, 503])
        bench.advance(601)
        bench.answer(.json(201, [:]))
        for _ in 0..<3 { #expect(bench.answer(.json(201, [:]))?.path.hasSuffix("/purchases") == true) }
        #expect(ends.values.count == 3 && bench.onym.entitlements?.mailbox.count == 0)
    }

    @Test("a restore tells what became of each purchase, and what may be used is asked anew")
    func restore() throws {
        create()
        _ = check()
        bench.answer(list())
        let ends = Collector<Result<[RestoredPurchase], OnymError>>()
        bench.onym.access.restore(["r1"], strategy: "transfer", callback: ends.callback)
        let request = bench.answer(
            .json(
                200, ["transactions": [["transaction_id": "t", "product_id": "p", "outcome": "moved", "from": ["u1"]]]])
        )
        #expect(request?.json == ["transactions": ["r1"], "strategy": "transfer"])
        #expect(
            try ends.values[0].get()
                == [RestoredPurchase(transactionID: "t", productID: "p", outcome: "moved", others: ["u1"])])
        _ = check()
        #expect(bench.transport.open.count == 1)
    }
}
