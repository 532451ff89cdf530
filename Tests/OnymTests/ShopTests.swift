import ClientKit
import Foundation
import Onym
import TestKit
import Testing

@Suite("Purchases of the device's shop", .timeLimit(.minutes(10)))
struct ShopTests {
    private let shop = ScriptedShop()
    private let bench: Bench

    init() {
        let shop = shop
        bench = Bench(.entitlements(key: "key")) { $0.shop = shop }
    }

    /// Lets everything run until a condition holds.
    private func until(_ condition: () -> Bool) async {
        await eventually {
            bench.settle()
            return condition()
        }
    }

    /// Answers the next request, once it is there.
    @discardableResult
    private func answer(_ answer: ScriptedTransport.Answer) async -> HTTPRequest? {
        await until { !bench.transport.open.isEmpty }
        return bench.answer(answer)
    }

    @Test("a purchase is finished at the shop only after the server has it")
    func order() async throws {
        async let outcome = bench.onym.access.buy("plus")
        await answer(.json(201, [:]))
        await until { bench.transport.open.first?.path.hasSuffix("/purchases") == true }
        #expect(shop.finished == [])
        let sent = await answer(.json(201, [:]))
        #expect(sent?.fields["Idempotency-Key"]?.hasPrefix("as:1:") == true)
        await answer(.json(200, ["data": [["id": "plus", "active": true]]]))
        await until { shop.finished == ["1"] }
        guard case .bought(let list) = try await outcome else { return #expect(Bool(false), "nothing was bought") }
        #expect(list["plus"]?.isActive == true)
        let device = try #require(bench.onym.access.user?.deviceID)
        #expect(shop.accounts == [Access.account(of: device)])
    }

    @Test(
        "a purchase that did not come about says so, and nothing is kept or sent of it",
        arguments: [ScriptedShop.Next.pending, .cancelled, .fails])
    func notBought(next: ScriptedShop.Next) async {
        shop.next = next
        let ended: Result<PurchaseOutcome, OnymError>
        do throws(OnymError) {
            ended = .success(try await bench.onym.access.buy("plus"))
        } catch {
            ended = .failure(error)
        }
        switch next {
        case .pending: #expect(ended == .success(.pending))
        case .cancelled: #expect(ended == .success(.cancelled))
        case .fails, .bought: #expect(ended == .failure(.refused(.appFailed)))
        }
        bench.advance(100)
        #expect(bench.waiting == 0 && bench.transport.requests.isEmpty && bench.onym.access.cached == nil)
        #expect(shop.finished == [] && shop.accounts.count == 1)
    }

    @Test("products are asked for by the ids of the server's catalog, and have the shop's prices")
    func products() async throws {
        shop.sell([ShopProduct(id: "com.example.plus", displayPrice: "9,99 €")])
        async let offers = bench.onym.access.products(["plus.year"])
        await answer(.json(201, [:]))
        await answer(
            .bytes(200, #"[{"qonversionId":"plus.year","storeId":"com.example.plus"}]"#, ["X-Request-Id": "r"]))
        #expect(try await offers.map(\.displayPrice) == ["9,99 €"])
        // Without the server, the shop's own ids do.
        async let again = bench.onym.access.products(["com.example.plus"])
        await answer(.fault(.offline))
        #expect(try await again.map(\.id) == ["com.example.plus"])
    }

    /// What happens to a purchase, one after the other.
    enum Step: Int, CaseIterable {
        case beforeTheServerKnowsTheUser
        case beforeThePurchaseIsSent
        case afterTheServerHasItWithoutAnAnswer
        case afterTheAnswer
    }

    @Test(
        "a kill at any step of a purchase: bought once, finished once, never before the server has it",
        arguments: Step.allCases)
    func kills(step: Step) async throws {
        let task = Task { [bench] in _ = try? await bench.onym.access.buy("plus") }
        await until { !bench.transport.open.isEmpty }
        var keys: Set<String> = []
        var hasKilled = false
        @discardableResult
        func kill(at now: Step) -> Bool {
            guard now == step, !hasKilled else { return false }
            hasKilled = true
            bench.relaunch()
            return true
        }
        kill(at: .beforeTheServerKnowsTheUser)
        while shop.finished.isEmpty {
            await until { !bench.transport.open.isEmpty || !shop.finished.isEmpty }
            guard let request = bench.transport.open.first else { continue }
            if request.path.hasSuffix("/purchases") {
                #expect(shop.finished == [])
                if kill(at: .beforeThePurchaseIsSent) { continue }
                keys.insert(request.fields["Idempotency-Key"] ?? "")
                if kill(at: .afterTheServerHasItWithoutAnAnswer) { continue }
                bench.answer(.json(201, [:]))
                if kill(at: .afterTheAnswer) { continue }
            } else {
                bench.answer(.json(201, ["data": []]))
            }
        }
        // The shop itself takes a second finish of one transaction as none.
        #expect(Set(shop.finished) == ["1"] && keys.count == 1 && hasKilled)
        #expect(await shop.unfinished().isEmpty)
        task.cancel()
    }

    @Test("a kill at any place of the log of a purchase: bought once, finished once, never before the server has it")
    func killsInTheLog() async throws {
        let log = "entitlements-000001.log"
        func size() -> Int { bench.files.contents[log]?.count ?? 0 }
        let before = size()
        let task = Task { [bench] in _ = try? await bench.onym.access.buy("plus") }
        await answer(.json(201, [:]))
        await until { bench.transport.open.first?.path.hasSuffix("/purchases") == true }
        let sent = size()
        let key = await answer(.json(201, [:]))?.fields["Idempotency-Key"]
        let settled = size()
        await answer(.json(200, ["data": []]))
        await until { shop.finished == ["1"] }
        await task.value
        let whole = try #require(bench.files.contents[log])
        #expect(before < sent && sent < settled && settled <= whole.count)
        // Each end of a line, and places within lines.
        let ends = whole.indices.filter { whole[$0] == UInt8(ascii: "\n") }.map { $0 + 1 }
        let cuts = Set(ends + ends.flatMap { [$0 - 1, $0 - 20] } + [sent, settled, whole.count])
        for cut in cuts.sorted() where cut >= before {
            var left = bench.files.contents
            left[log] = Array(whole[..<cut])
            // The server has what it has answered. At the last byte before the answer, it may have it or not.
            for (isTaken, isFinished) in [(false, false), (true, false), (true, true)] {
                if isTaken ? cut < sent : cut > sent { continue }
                if isFinished, cut < settled { continue }
                try await goOn(MemoryFiles(left), key, isTaken, isFinished, "cut at \(cut)")
            }
        }
    }

    /// Goes on with what a killed process has left.
    private func goOn(
        _ files: MemoryFiles, _ key: String?, _ isTaken: Bool, _ isFinished: Bool, _ place: Comment
    ) async throws {
        let shop = ScriptedShop()
        if !isFinished { shop.leave([ScriptedShop.transaction("1", "plus")]) }
        let bench = Bench(.entitlements(key: "key"), files: files) { $0.shop = shop }
        var isTaken = isTaken
        var keys: Set<String?> = []
        await eventually {
            bench.settle()
            // What a login or a repeated question waits for has its time too.
            bench.advance(bench.time.nextDelay ?? 0)
            if !shop.finished.isEmpty { #expect(isTaken, place) }
            if let request = bench.transport.open.first {
                if request.path.hasSuffix("/purchases") {
                    keys.insert(request.fields["Idempotency-Key"])
                    isTaken = true
                }
                bench.answer(.json(201, ["data": []]))
            }
            return shop.isWatched && shop.finished == (isFinished ? [] : ["1"]) && bench.waiting == 0
        }
        // The server answers the same key with the same answer: so it is one purchase, and nobody buys again.
        #expect(isTaken && keys.isSubset(of: [key]) && shop.accounts.isEmpty, place)
        #expect(isFinished || keys == [key], place)
        await eventually { bench.transport.open.isEmpty || bench.answer(.json(201, ["data": []])) == nil }
        #expect(shop.finished == (isFinished ? [] : ["1"]), place)
    }

    @Test("what the last process left unfinished is sent at the start, under the same key, and finished once")
    func killed() async {
        let left = ScriptedShop.transaction("7", "plus")
        shop.report(left)
        bench.relaunch()
        await answer(.json(201, [:]))
        await until { bench.transport.open.first?.path.hasSuffix("/purchases") == true }
        let first = bench.transport.open.first
        // The process ends before the answer comes.
        bench.relaunch()
        await until { bench.transport.open.first?.path.hasSuffix("/purchases") == true }
        let second = await answer(.json(201, [:]))
        #expect(first?.fields["Idempotency-Key"] == second?.fields["Idempotency-Key"])
        await until { shop.finished == ["7"] }
        await until { bench.waiting == 0 }
        #expect(bench.transport.requests.filter { $0.path.hasSuffix("/purchases") }.count == 2)
    }

    @Test("what the shop has in its list and reports as well is sent once")
    func twice() async {
        let both = ScriptedShop.transaction("7", "plus")
        shop.leave([both])
        bench.relaunch()
        await answer(.json(201, [:]))
        await until { bench.transport.open.first?.path.hasSuffix("/purchases") == true }
        shop.report(both)
        shop.report(ScriptedShop.transaction("8", "plus"))
        await answer(.json(201, [:]))
        await until { bench.transport.open.first?.path.hasSuffix("/purchases") == true }
        await answer(.json(201, [:]))
        await until { shop.finished == ["7", "8"] }
        #expect(bench.transport.requests.filter { $0.path.hasSuffix("/purchases") }.count == 2)
    }

    @Test("a renewal that the shop reports is sent, and an invalid one is finished as well", arguments: [201, 422])
    func reported(status: Int) async {
        await until { shop.isWatched }
        shop.report(ScriptedShop.transaction("9", "plus"))
        await answer(.json(201, [:]))
        await answer(
            status == 201
                ? .json(201, [:]) : .json(422, ["error": ["code": "invalid_data", "message": "no"]]))
        await until { shop.finished == ["9"] }
        #expect(bench.onym.access.refusedPurchases.count == (status == 201 ? 0 : 1))
        if status == 201 { await until { bench.notices.contains(.purchaseReported("plus")) } }
    }

    @Test("an answer that is not the server's word finishes nothing")
    func firewall() async {
        await until { shop.isWatched }
        shop.report(ScriptedShop.transaction("9", "plus"))
        await answer(.json(201, [:]))
        await answer(.bytes(403, "blocked"))
        await until { bench.notices.contains { if case .held = $0 { true } else { false } } }
        #expect(shop.finished == [] && bench.waiting == 1)
    }

    private func keys(_ request: HTTPRequest?) -> [String?] {
        [request?.fields["Idempotency-Key"], request?.json["app_store_data"]?["receipt"]?.text]
    }

    @Test("a refund is sent also while its purchase waits; the same transaction waits once")
    func refund() async throws {
        await until { shop.isWatched }
        let bought = ScriptedShop.transaction("9", "plus")
        shop.report(bought)
        await until { !bench.transport.open.isEmpty }
        bench.answer(.fault(.offline))
        shop.report(bought)
        shop.report(ScriptedShop.transaction("9", "plus", isRevoked: true))
        await until {
            bench.answer(.fault(.offline))
            return bench.waiting == 2
        }
        // The end comes on the queue of callbacks, which only runs while this test waits for something.
        let ends = Collector<Result<Void, OnymError>>()
        bench.onym.flush(callback: ends.callback)
        await until {
            if bench.transport.open.first?.path.hasSuffix("/purchases") == false { bench.answer(.json(201, [:])) }
            return bench.transport.open.first?.path.hasSuffix("/purchases") == true
        }
        let (first, second) = (await answer(.json(201, [:])), await answer(.json(200, [:])))
        #expect(keys(first).last == bought.signed && keys(second).last != bought.signed)
        #expect(keys(first).first != keys(second).first && bench.transport.open.isEmpty)
        await until { !ends.values.isEmpty }
    }

    @Test("a transaction has one key for each user and price, because the server refuses another call with an old key")
    func keys() async throws {
        bench.onym.access.userInfo(callback: { _ in })
        await answer(.json(201, [:]))
        func sent(price: String) async throws -> HTTPRequest? {
            shop.own([
                ShopTransaction(
                    id: "9", productID: "plus", signed: "jws", price: price, currency: "EUR",
                    purchased: Date(timeIntervalSince1970: 1_800_000_000))
            ])
            async let end: Void = bench.onym.access.synchronizePurchases()
            let request = await answer(.json(201, [:]))
            try await end
            return request
        }
        let first = try await sent(price: "9.99")
        let again = try await sent(price: "9.99")
        let other = try await sent(price: "0")
        bench.onym.access.identify("bob", callback: { _ in })
        await answer(.json(200, ["user_id": "QON_bob"]))
        let ofBob = try await sent(price: "9.99")
        #expect(keys(first) == keys(again) && keys(first).first??.hasPrefix("as:9:") == true)
        #expect(Set([first, other, ofBob].map { keys($0).first }).count == 3)
        #expect(ofBob?.path == "/v3/users/QON_bob/purchases")
        // Carl is the device's own user: the same path and body, and yet another owner.
        let device = try #require(bench.onym.access.user?.deviceID)
        bench.onym.access.identify("carl", callback: { _ in })
        await answer(.json(200, ["user_id": .string(device)]))
        let ofCarl = try await sent(price: "9.99")
        #expect(ofCarl?.path == first?.path && ofCarl?.body == first?.body)
        #expect(Set([first, other, ofBob, ofCarl].map { keys($0).first }).count == 4)
    }

    @Test("what the shop reports while unfinished transactions wait for an answer is sent too")
    func reportedMeanwhile() async {
        let shop = ScriptedShop()
        shop.report(ScriptedShop.transaction("7", "plus"))
        let bench = Bench(.entitlements(key: "key")) { $0.shop = shop }
        await eventually {
            bench.settle()
            return bench.transport.open.count == 1
        }
        #expect(shop.isWatched)
        shop.report(ScriptedShop.transaction("8", "plus"))
        await eventually {
            bench.answer(.json(201, [:]))
            // Each is finished by a task of its own.
            return shop.finished.sorted() == ["7", "8"]
        }
    }

    @Test(
        "renewals, refunds, changes of the user, faults and kills: all is sent, under a user of its time, before it is finished"
    )
    func storm() async {
        var refunds = 0
        for seed in Soak.seeds(40) { refunds += await ShopStorm(seed).run() }
        #expect(refunds > 0)
    }

    @Test("the account of a device is a UUID of version 8, always the same")
    func account() {
        let account = Access.account(of: "QON_a").uuidString
        #expect(account == Access.account(of: "QON_a").uuidString && account != Access.account(of: "QON_b").uuidString)
        #expect(Array(account)[14] == "8" && Array(account)[19] == "8")
    }
}

/// A random history of a device with a shop.
private final class ShopStorm {
    private let seed: UInt64
    private var dice: SeededGenerator
    private let shop = ScriptedShop()
    private let bench: Bench
    /// The users of each signed text: who may have it, and who has it at the server.
    private var allowed: [String: Set<String>] = [:]
    private var taken: [String: Set<String>] = [:]
    private var reported: [ShopTransaction] = []

    init(_ seed: UInt64) {
        self.seed = seed
        dice = SeededGenerator(seed: seed)
        let shop = shop
        bench = Bench(.entitlements(key: "key"), seed: seed) { $0.shop = shop }
    }

    private func roll(_ sides: Int) -> Int { Int.random(in: 0..<sides, using: &dice) }

    /// Answers how many refunds the server has.
    func run() async -> Int {
        for _ in 0..<60 {
            switch roll(12) {
            case 0, 1: report(ScriptedShop.transaction("\(reported.count)", "plus"))
            case 2: refund()
            case 3: bench.onym.access.identify("u\(roll(3))", callback: { _ in })
            case 4: bench.onym.access.logout()
            case 5: bench.relaunch()
            case 6: bench.advance(bench.time.nextDelay ?? 1)
            default: answer(isWell: false)
            }
            await rest()
        }
        await eventually {
            while answer(isWell: true) {}
            bench.advance(bench.time.nextDelay ?? 1)
            // A shop knows the id alone: a late end of a purchase also ends the refund that came meanwhile.
            let bought = Set(reported.filter { !$0.isRevoked }.map(\.signed))
            return bought.isSubset(of: taken.keys) && bench.waiting == 0
                && Set(shop.finished) == Set(reported.map(\.id))
        }
        for (signed, users) in taken {
            #expect(users.isSubset(of: allowed[signed] ?? []), "seed \(seed): \(signed) is at \(users)")
        }
        return reported.count { $0.isRevoked && taken[$0.signed] != nil }
    }

    /// Lets the tasks of the SDK run, and notes who is logged in.
    private func rest() async {
        for _ in 0..<roll(20) { await Task.yield() }
        bench.settle()
        noteUser()
        for id in shop.finished {
            let signed = reported.filter { $0.id == id }.map(\.signed)
            #expect(signed.contains { taken[$0] != nil }, "seed \(seed): \(id) was finished before the server had it")
        }
    }

    private func noteUser() { for signed in allowed.keys { allowed[signed]?.insert(user) } }

    private var user: String { bench.onym.access.user?.id ?? "" }

    private func report(_ transaction: ShopTransaction) {
        reported.append(transaction)
        allowed[transaction.signed] = [user]
        shop.report(transaction)
    }

    /// The shop takes back what the SDK has finished.
    private func refund() {
        guard let id = shop.finished.randomElement(using: &dice) else { return }
        let refund = ScriptedShop.transaction(id, "plus", isRevoked: true)
        if allowed[refund.signed] == nil { report(refund) }
    }

    @discardableResult
    private func answer(isWell: Bool) -> Bool {
        guard let (request, completion) = bench.transport.take() else { return false }
        switch isWell ? 9 : roll(10) {
        case 0: ScriptedTransport.complete(completion, .fault(.offline))
        case 1: ScriptedTransport.complete(completion, .bytes(200, "{}"))
        case 2:
            _ = serve(request)
            ScriptedTransport.complete(completion, .fault(.timeout))
        default: ScriptedTransport.complete(completion, serve(request))
        }
        noteUser()
        bench.settle()
        return true
    }

    private func serve(_ request: HTTPRequest) -> ScriptedTransport.Answer {
        let parts = request.path.split(separator: "/").map(String.init)
        if parts[1] == "identities" { return .json(200, ["user_id": .string("QON_\(parts[2])")]) }
        guard request.path.hasSuffix("/purchases") else { return .json(201, ["data": []]) }
        taken[request.json["app_store_data"]?["receipt"]?.text ?? "", default: []].insert(parts[2])
        // Another user has the purchase.
        return roll(5) == 0
            ? .json(422, ["error": ["type": "resource", "code": "already_exists", "message": "no"]]) : .json(201, [:])
    }
}

extension Bench {
    /// The number of letters that wait. The shop's reports are written on another thread, so the count needs the lock.
    fileprivate var waiting: Int? { onym.entitlements.map { client in client.enter { client.mailbox.count } } }
}
