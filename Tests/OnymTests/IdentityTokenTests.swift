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
}
