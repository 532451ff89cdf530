import ClientKit
import Foundation
import Onym
import Testing

/// What the device knows is answered at once; the network makes it newer.
@Suite("Access that the device knows")
struct CachedAccessTests {
    private let bench = Bench(.entitlements(key: "k"))

    private func list(_ ids: String...) -> ScriptedTransport.Answer {
        .json(
            200,
            [
                "data": .array(
                    ids.map { ["id": .string($0), "active": true, "started": 1, "expires": 1_800_100_000] })
            ])
    }

    private func ask(_ freshness: Access.Freshness = .cached) -> Collector<Result<[String: Entitlement], OnymError>> {
        let ends = Collector<Result<[String: Entitlement], OnymError>>()
        bench.onym.access.entitlements(freshness, callback: ends.callback)
        bench.settle()
        return ends
    }

    private func names(_ ends: Collector<Result<[String: Entitlement], OnymError>>) -> [[String]] {
        ends.values.map { result in ((try? result.get()) ?? [:]).filter(\.value.isActive).keys.sorted() }
    }

    /// Has the server say what may be used.
    private func know(_ ids: ScriptedTransport.Answer) {
        let ends = ask()
        #expect(bench.onym.access.cached == nil && ends.values.isEmpty)
        bench.answer(.json(201, [:]))
        bench.answer(ids)
        #expect(ends.values.count == 1)
    }

    @Test("a check on a network that hangs is answered at once, also after a start")
    func hangs() {
        know(list("plus"))
        bench.relaunch()
        #expect(bench.onym.access.cached?["plus"]?.isActive == true)
        let ends = ask()
        #expect(names(ends) == [["plus"]])
        #expect(bench.transport.open.map(\.path).count == 1)
        bench.answer(.hang)
        bench.advance(100)
        #expect(ends.values.count == 1)
    }

    @Test("a newer answer is told of, and the next check has it")
    func newer() {
        know(list("plus"))
        bench.advance(400)
        #expect(names(ask()) == [["plus"]])
        let before = bench.notices.count { $0 == .accessChanged }
        bench.answer(list("gold"))
        #expect(bench.notices.count { $0 == .accessChanged } == before + 1)
        #expect(names(ask()) == [["gold"]] && bench.transport.open.isEmpty)
    }

    @Test("as new as it is wanted")
    func freshness() {
        know(list("plus"))
        bench.advance(100)
        #expect(names(ask(.newerThan(101))) == [["plus"]] && bench.transport.open.isEmpty)
        let newer = ask(.newerThan(99))
        #expect(newer.values.isEmpty)
        bench.answer(list("gold"))
        #expect(names(newer) == [["gold"]])
        let fresh = ask(.fresh)
        #expect(fresh.values.isEmpty)
        bench.answer(.fault(.offline))
        #expect(names(fresh) == [["gold"]])
    }

    @Test("what was bought a moment ago is not answered by what was known before")
    func bought() {
        know(list())
        bench.onym.access.purchase(SettlingTests.purchase, callback: { _ in })
        bench.answer(.json(201, [:]))
        let ends = ask()
        #expect(ends.values.isEmpty)
        bench.answer(list("plus"))
        #expect(names(ends) == [["plus"]])
    }

    @Test("what has expired is not active, and an answer of a month ago is none")
    func expiry() {
        know(list("plus"))
        bench.advance(100_001)
        #expect(bench.onym.access.cached?["plus"]?.isActive == false)
        bench.time.advance(30 * 86_400)
        #expect(bench.onym.access.cached == nil)
    }

    @Test("nobody gets what another may use")
    func others() {
        know(list("plus"))
        bench.onym.access.identify("bob", callback: { _ in })
        bench.answer(.json(200, ["user_id": "QON_bob"]))
        #expect(bench.onym.access.cached == nil)
        bench.onym.access.logout()
        #expect(bench.onym.access.cached?["plus"] != nil)
        bench.onym.optOut()
        #expect(bench.onym.access.cached == nil)
    }

    @Test("updates bring what is known, and what a purchase gives")
    func updates() async {
        know(list())
        var updates = bench.onym.access.updates.makeAsyncIterator()
        #expect(await updates.next()?.isEmpty == true)
        bench.onym.access.purchase(SettlingTests.purchase, callback: { _ in })
        bench.answer(.json(201, [:]))
        #expect(bench.transport.open.first?.path.hasSuffix("/entitlements") == true)
        bench.answer(list("plus"))
        #expect(await updates.next()?.keys.sorted() == ["plus"])
        // It comes to rest.
        bench.advance(10)
        #expect(bench.transport.open.isEmpty)
    }
}

@Suite("Small things that apps need")
struct AppNeedsTests {
    @Test("a change of a user's names goes to that user, whoever is the current one by then")
    func modifySupplied() throws {
        let bench = Bench(.idSync(key: "k", secret: nil))
        bench.onym.identity.login(IdentityRequest([.customerID: "ada"]), callback: { _ in })
        bench.answer(.json(200, ["mpid": "1", "is_logged_in": true]))
        let ada = try #require(bench.onym.users.current)
        bench.onym.identity.login(IdentityRequest([.customerID: "bob"]), callback: { _ in })
        bench.answer(.json(200, ["mpid": "2", "is_logged_in": true]))
        var request = IdentityRequest(ada)
        request.identities[.email] = "ada@x"
        let ends = Collector<Result<IdentityResult, OnymError>>()
        bench.onym.identity.modify(request, callback: ends.callback)
        let sent = bench.answer(.json(200, ["change_results": []]))
        #expect(sent?.path == "/v1/1/modify")
        #expect(
            sent?.json["identity_changes"] == [
                ["identity_type": "email", "old_value": .null, "new_value": "ada@x"]
            ])
        #expect(bench.onym.users.user(1)?.identities == [.customerID: "ada", .email: "ada@x"])
        #expect(bench.onym.users.current?.identities == [.customerID: "bob"])
        #expect(try ends.values.first?.get().user.id == 1)
        // Nothing that changes needs no server, and answers with that user too.
        bench.onym.identity.modify(request, callback: ends.callback)
        bench.settle()
        #expect(try ends.values.last?.get().user.id == 1 && bench.transport.open.isEmpty)
    }

    @Test("an imported user whom the server calls otherwise is still that user")
    func modifyImported() throws {
        let bench = Bench(.idSync(key: "k", secret: nil)) {
            $0.imports = [.mParticle]
            $0.vendorStore = MemoryVendorStore(["mParticle::mpid": 5])
        }
        var request = IdentityRequest(try #require(bench.onym.users.current))
        request.identities[.email] = "ada@x"
        bench.onym.identity.modify(request, callback: { _ in })
        bench.answer(.json(200, ["mpid": "77"]))
        #expect(bench.transport.open.first?.path == "/v1/77/modify")
    }

    @Test("events are changed before they are kept, or not kept, by what the app wants")
    func enrich() {
        let bench = Bench(.claim(key: "owl_client_k", bundleID: "b")) {
            $0.enrich = [
                { event in
                    event.attributes["plan"] = "pro"
                    return event.name != "secret"
                },
                { event in
                    event.name += "!"
                    return true
                },
            ]
        }
        bench.onym.log("secret")
        bench.onym.log("open")
        bench.advance(5)
        let events = bench.transport.open.first?.json["events"]?.elements
        #expect(events?.map { $0["message"]?.text } == ["open!"])
        #expect(events?.first?["custom_attributes"]?["plan"] == "pro")
    }

    @Test("an app's own tests can make what calls bring")
    func initialisers() {
        let user = User(id: 7, isLoggedIn: true, identities: [.email: "a@x"])
        #expect(IdentityResult(user: user).user.identities == [.email: "a@x"])
        #expect(Entitlement(id: "plus").isActive && !Entitlement(id: "plus", isActive: false).isActive)
        #expect(DeviceState(userID: "u", installID: nil).phase == .idle)
        #expect(AccessToken(value: "secret", expires: .distantFuture).description.contains("secret") == false)
    }
}
