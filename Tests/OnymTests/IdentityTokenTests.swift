import ClientKit
import Foundation
import Onym
import Testing

/// Tokens by which an app shows for whom it may speak.
@Suite("Identity tokens")
struct IdentityTokenTests {
    private func bench(_ tokens: Collector<String>?) -> Bench {
        Bench(.claim(key: "owl_client_k", bundleID: "com.example")) { configuration in
            guard let tokens else { return }
            configuration.identityTokens = { tokens.values }
        }
    }

    private static let taken: ScriptedTransport.Answer = .json(200, ["accepted": 1, "rejected": 0])
    private static let refused: ScriptedTransport.Answer = .json(403, ["error": "send Onym-Identity-Token"])

    @Test("go with each request, as they are then")
    func fields() throws {
        let tokens = Collector<String>()
        let bench = bench(tokens)
        bench.onym.log("one")
        bench.advance(5)
        #expect(bench.answer(IdentityTokenTests.taken)?.fields["Onym-Identity-Token"] == nil)
        tokens.callback("a.b.c")
        tokens.callback("d.e.f")
        bench.onym.log("two")
        bench.advance(5)
        #expect(bench.answer(IdentityTokenTests.taken)?.fields["Onym-Identity-Token"] == "a.b.c, d.e.f")
    }

    @Test(
        "are waited for where the app has some; without them what is refused is held, and told")
    func waiting() throws {
        let tokens = Collector<String>()
        let bench = bench(tokens)
        bench.onym.log("kept")
        bench.advance(5)
        bench.answer(IdentityTokenTests.refused)
        tokens.callback("a.b.c")
        bench.advance(30)
        let again = bench.answer(IdentityTokenTests.taken)
        #expect(again?.fields["Onym-Identity-Token"] == "a.b.c")
        #expect(again?.json["events"]?.elements?.first?["message"]?.text == "kept")
        #expect(!bench.notices.contains { if case .dropped = $0 { true } else { false } })

        let without = self.bench(nil)
        without.onym.log("held")
        without.advance(5)
        without.answer(IdentityTokenTests.refused)
        without.advance(300)
        #expect(without.transport.open.isEmpty)
        without.settle()
        #expect(without.notices.contains { if case .held(_, waiting: 1) = $0 { true } else { false } })
    }

    /// The refusal of the Entitlements dialect: shipped clients stop after 403 (docs/entitlements.md).
    private static let refusedAccess: ScriptedTransport.Answer = .json(
        422, ["error": ["type": "request", "code": "identity_token_required", "message": "send Onym-Identity-Token"]])

    @Test("a property and a purchase wait for the token too", arguments: [true, false])
    func access(isProperty: Bool) throws {
        let tokens = Collector<String>()
        let bench = Bench(.entitlements(key: "k")) { $0.identityTokens = { tokens.values } }
        bench.onym.access.userInfo(callback: { _ in })
        bench.answer(.json(201, [:]))
        if isProperty {
            bench.onym.access.setProperties(["a": "b"])
            bench.advance(5)
        } else {
            bench.onym.access.purchase(SettlingTests.purchase, callback: { _ in })
        }
        bench.answer(IdentityTokenTests.refusedAccess)
        #expect(bench.onym.entitlements?.mailbox.count == 1)
        tokens.callback("a.b.c")
        bench.advance(2)
        #expect(bench.answer(.json(201, [:]))?.fields["Onym-Identity-Token"] == "a.b.c")
        #expect(bench.onym.entitlements?.mailbox.count == 0 && bench.onym.access.refusedPurchases.isEmpty)
        #expect(!bench.notices.contains { if case .dropped = $0 { true } else { false } })
    }

    @Test("the device's user is not made as long as the server asks for a token")
    func user() throws {
        let tokens = Collector<String>()
        let bench = Bench(.entitlements(key: "k")) { $0.identityTokens = { tokens.values } }
        bench.onym.access.setProperties(["a": "b"])
        bench.advance(5)
        bench.answer(IdentityTokenTests.refusedAccess)
        tokens.callback("a.b.c")
        bench.advance(2)
        let device = try #require(bench.onym.access.user?.deviceID)
        #expect(bench.answer(.json(201, [:]))?.path == "/v3/users/\(device)")
        #expect(bench.answer(.json(200, [:]))?.path.hasSuffix("/properties") == true)
    }
}
