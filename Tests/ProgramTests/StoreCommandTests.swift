import Foundation
import Program
import TestKit
import Testing
import Threads

/// `onym stores`, on a store that nobody serves.
@Suite("The program's options of stores")
struct StoreCommandTests {
    private let folder = TemporaryFolder()

    private func run(_ words: [String], _ environment: [String: String] = [:]) -> (code: Int32, text: String) {
        let text = Monitor("")
        let terminal = Terminal(
            output: { line in text.withLock { $0 += line } }, error: { line in text.withLock { $0 += line } })
        return (
            Program.run(words + ["--data", folder.path + "/data"], environment: environment, terminal: terminal),
            text.withLock { $0 }
        )
    }

    @Test("are needed only by the calls about stores, if a file of the settings cannot be read")
    func unreadable() {
        #expect(run(["init"]).code == 0)
        let settings = ["ONYM_APP_STORE_KEY_FILE": "/nowhere/key"]
        #expect(run(["projects", "list"], settings).code == 0)
        let shown = run(["stores", "show"], settings)
        #expect(shown.code == 1 && shown.text.contains("/nowhere/key cannot be read"), "\(shown)")
    }

    @Test("are set, shown without secrets, and refused with the reason")
    func options() throws {
        #expect(run(["init"]).code == 0)
        let file = folder.path + "/key"
        try "rk_live_of_a_test\n".write(toFile: file, atomically: true, encoding: .utf8)
        let set = run(["stores", "set", "stripe.secret_key=@\(file)", "stripe.grace_days=5", "poll.enabled=off"])
        #expect(set.code == 0 && !set.text.contains("rk_live"), "\(set)")
        let shown = run(["stores", "show", "--json"]).text
        #expect(
            shown.contains(#""stripe":{"secret_key":{"set":true},"grace_days":5},"poll":{"enabled":false}"#), "\(shown)"
        )
        #expect(run(["stores", "set", "stripe.grace_days="]).code == 0)
        #expect(!run(["stores", "show", "--json"]).text.contains(#""grace_days":5"#))
        for (word, reason) in [
            ("stripe.color=1", "is no option of a store"), ("stripe", "must have the form"),
            ("stripe.grace_days=many", "must be a number"), ("stripe.secret_key=@/nowhere", "cannot be read"),
            ("app_store.key=x", "is no key of Apple"),
        ] {
            let refused = run(["stores", "set", word])
            #expect(refused.code != 0 && refused.text.contains(reason), "\(word): \(refused)")
        }
        #expect(run(["stores", "set"]).code == 2)
        #expect(run(["stores", "status"]).code == 0)
    }
}
