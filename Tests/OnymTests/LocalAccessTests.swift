import ClientKit
import Foundation
import Onym
import Testing

/// What the device's shop has verified gives access at once, marked as local, for at most three days without the server.
@Suite("Access for which the device's shop vouches", .timeLimit(.minutes(10)))
struct LocalAccessTests {
    private let shop = ScriptedShop()
    private let bench: Bench
    private let day: TimeInterval = 86_400

    init() {
        let shop = shop
        bench = Bench(.entitlements(key: "key")) {
            $0.shop = shop
            $0.entitlementsOfProducts = ["plus.year": ["plus"]]
        }
    }

    private var access: Access { bench.onym.access }

    private func until(_ condition: () -> Bool) async {
        await eventually {
            bench.settle()
            return condition()
        }
    }

    /// Answers the next request whose path ends in a text, and refuses to answer other ones.
    @discardableResult
    private func answer(_ path: String, _ answer: ScriptedTransport.Answer) async -> HTTPRequest? {
        await until { bench.transport.open.contains { $0.path.hasSuffix(path) } }
        let index = bench.transport.open.firstIndex { $0.path.hasSuffix(path) } ?? 0
        return bench.answer(answer, at: index)
    }

    private static func list(_ ids: String...) -> ScriptedTransport.Answer {
        .json(200, ["data": .array(ids.map { ["id": .string($0), "active": true] })])
    }

    /// Makes the server know the user, who may use nothing.
    private func start() async {
        access.entitlements(.fresh, callback: { _ in })
        await until { !bench.transport.open.isEmpty }
        bench.answer(.json(201, [:]))
        await answer("/entitlements", LocalAccessTests.list())
        await until { bench.transport.open.first?.path.contains("/v3/products/") == true }
        bench.answer(.bytes(200, "[]", ["X-Request-Id": "r"]))
        await until { access.cached?.isEmpty == true }
    }

    private func report(_ transaction: ShopTransaction) async {
        await until { shop.isWatched }
        shop.report(transaction)
        await until { bench.transport.open.first?.path.hasSuffix("/purchases") == true }
    }

    /// Ends all requests as a device without a network does.
    private func fail() {
        while !bench.transport.open.isEmpty { bench.answer(.fault(.offline)) }
    }

    @Test("a purchase without a network gives access at once; the server's answer takes its place")
    func offline() async throws {
        await start()
        async let outcome = access.buy("plus.year")
        await until { access.cached?["plus"]?.isLocal == true }
        #expect(access.cached?["plus"]?.isActive == true && bench.notices.contains(.accessChanged))
        // A check on a network that hangs is answered at once.
        let ends = Collector<Result<[String: Entitlement], OnymError>>()
        access.entitlements(callback: ends.callback)
        await until { ends.values.count == 1 }
        #expect(try ends.values.first?.get()["plus"]?.isLocal == true)
        await answer("/purchases", .fault(.offline))
        await until {
            fail()
            return bench.onym.entitlements?.mailbox.count == 1 && bench.transport.open.isEmpty
        }
        let task = Task { [access] in try? await access.onym.flush() }
        await answer("/purchases", .json(201, [:]))
        #expect(access.cached?["plus"]?.isLocal == true)
        let fresh = Collector<Result<[String: Entitlement], OnymError>>()
        access.entitlements(.fresh, callback: fresh.callback)
        while access.cached?["plus"]?.isLocal == true {
            await until { !bench.transport.open.isEmpty || access.cached?["plus"]?.isLocal == false }
            if !bench.transport.open.isEmpty { bench.answer(LocalAccessTests.list("plus")) }
        }
        #expect(access.cached?["plus"] == Entitlement(id: "plus"))
        guard case .bought(let list) = try await outcome else { return #expect(Bool(false), "nothing was bought") }
        #expect(list["plus"]?.isActive == true)
        _ = await task.value
    }

    @Test("it ends after three days, over launches, and a clock that is set back starts it no second time")
    func days() async {
        await start()
        await report(ScriptedShop.transaction("1", "plus.year"))
        #expect(access.cached?["plus"]?.isLocal == true)
        bench.time.advance(2 * day)
        bench.relaunch()
        #expect(access.cached?["plus"]?.isLocal == true)
        // The shop reports the unfinished transaction at each start: it counts from its first time.
        await until { bench.transport.open.contains { $0.path.hasSuffix("/purchases") } }
        bench.time.advance(day - 60)
        #expect(access.cached?["plus"]?.isActive == true)
        bench.time.advance(60)
        #expect(access.cached?["plus"] == nil)
        bench.relaunch()
        bench.time.advance(-day)
        #expect(access.cached?["plus"] == nil)
    }

    @Test("a subscription ends before that, if it expires")
    func expires() async {
        await start()
        await report(ScriptedShop.transaction("1", "plus.year", expires: bench.time.now.addingTimeInterval(100)))
        #expect(access.cached?["plus"]?.expires == bench.time.now.addingTimeInterval(100))
        bench.time.advance(99)
        #expect(access.cached?["plus"]?.isActive == true)
        bench.time.advance(1)
        #expect(access.cached?["plus"] == nil)
    }

    @Test("it ends when the server refuses the purchase, and a firewall does not refuse")
    func refused() async {
        await start()
        await report(ScriptedShop.transaction("1", "plus.year"))
        bench.answer(.bytes(403, "blocked"))
        #expect(access.cached?["plus"]?.isLocal == true)
        bench.relaunch()
        await answer("/purchases", .json(422, ["error": ["code": "purchase_fraud", "message": "no"]]))
        await until { access.refusedPurchases.count == 1 }
        #expect(access.cached?["plus"] == nil)
    }

    @Test("the server's word ends it, also if the server grants nothing for the purchase")
    func nothing() async {
        await start()
        await report(ScriptedShop.transaction("1", "plus.year"))
        await answer("/purchases", .json(201, [:]))
        #expect(access.cached?["plus"]?.isLocal == true)
        access.entitlements(.fresh, callback: { _ in })
        await answer("/entitlements", LocalAccessTests.list("other"))
        #expect(access.cached?.keys.sorted() == ["other"])
    }

    @Test("a restore gives access on the person's tap, without a network; its answer decides")
    func restores() async throws {
        await start()
        shop.own([ScriptedShop.transaction("5", "plus.year"), ScriptedShop.transaction("6", "unknown")])
        let task = Task { [access] in try? await access.restore() }
        await until { access.cached?["plus"]?.isLocal == true }
        await answer("/restore", .fault(.offline))
        #expect(await task.value == nil)
        #expect(access.cached?.keys.sorted() == ["plus"])
        // An answer of a server that has not seen the transactions is no word about them.
        access.entitlements(.fresh, callback: { _ in })
        await answer("/entitlements", LocalAccessTests.list())
        #expect(access.cached?["plus"]?.isLocal == true)
        let again = Task { [access] in try? await access.restore() }
        await answer("/restore", .json(200, ["transactions": [["transaction_id": "5", "outcome": "kept"]]]))
        #expect(await again.value?.map(\.outcome) == ["kept"])
        access.entitlements(.fresh, callback: { _ in })
        await answer("/entitlements", LocalAccessTests.list())
        #expect(access.cached?.isEmpty == true)
    }

    @Test("what the shop has taken back gives nothing, and takes back what it gave")
    func revoked() async {
        await start()
        await report(ScriptedShop.transaction("1", "plus.year"))
        #expect(access.cached?["plus"]?.isLocal == true)
        shop.report(ScriptedShop.transaction("1", "plus.year", isRevoked: true))
        await until {
            if !bench.transport.open.isEmpty { bench.answer(.fault(.offline)) }
            return access.cached?["plus"] == nil
        }
    }

    @Test("nobody gets what the shop vouches for to another; an opt-out forgets it")
    func others() async {
        await start()
        await report(ScriptedShop.transaction("1", "plus.year"))
        bench.onym.entitlements?.login("bob") { _ in }
        await until { access.cached?["plus"] == nil }
        bench.onym.logout()
        #expect(access.cached?["plus"]?.isLocal == true)
        bench.onym.optOut()
        bench.onym.optIn()
        #expect(access.cached == nil)
    }

    @Test("the server's catalog says what a product grants, before the app's own table, once a day")
    func catalog() async {
        access.entitlements(.fresh, callback: { _ in })
        await until { !bench.transport.open.isEmpty }
        bench.answer(.json(201, [:]))
        bench.answer(LocalAccessTests.list())
        await answer(
            bench.onym.access.user?.deviceID ?? "",
            .bytes(
                200, #"[{"qonversionId":"y","storeId":"plus.year","entitlements":["gold","plus"]}]"#,
                ["X-Request-Id": "r"]))
        access.entitlements(.fresh, callback: { _ in })
        bench.answer(LocalAccessTests.list())
        #expect(bench.transport.open.isEmpty)
        bench.relaunch()
        await report(ScriptedShop.transaction("1", "plus.year"))
        #expect(access.cached?.keys.sorted() == ["gold", "plus"])
        #expect(access.cached?.values.allSatisfy { $0.isLocal && $0.source == "appstore" } == true)
    }

    @Test("a widget sees it too, and no longer than the app")
    func reader() async {
        await start()
        await report(ScriptedShop.transaction("1", "plus.year"))
        let reader = OnymReader(files: bench.files, time: bench.time)
        #expect(reader.access["plus"]?.isLocal == true)
        bench.time.advance(3 * day)
        #expect(reader.access.isEmpty)
    }
}
