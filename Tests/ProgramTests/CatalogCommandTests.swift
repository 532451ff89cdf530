import Foundation
import Program
import TestKit
import Testing
import Threads

/// `onym products`, `onym entitlements` and `onym receipt`, on a store that nobody serves.
@Suite("The program's catalog")
struct CatalogCommandTests {
    private let folder = TemporaryFolder()
    private var data: String { folder.path + "/data" }

    private final class Box: Sendable {
        let text = Monitor("")
    }

    private func run(_ words: String) -> (code: Int32, output: String, errors: String) {
        let (output, errors) = (Box(), Box())
        let terminal = Terminal(
            output: { text in output.text.withLock { $0 += text } },
            error: { text in errors.text.withLock { $0 += text } })
        let words = words.split(separator: " ").map(String.init)
        let code = Program.run(words + ["--data", data], environment: [:], terminal: terminal)
        return (code, output.text.withLock { $0 }, errors.text.withLock { $0 })
    }

    @Test("defines what is sold, shows it, and takes it away")
    func catalog() throws {
        #expect(run("init").code == 0)
        #expect(run("products list").output == "There are no products.\n")
        #expect(run("entitlements set --id plus --name Plus").output == "plus  name Plus\n")
        #expect(run("entitlements set --id a/b").output == "a/b\n")
        let set = run("products set --id month --type subscription --days 30 --entitlements plus,a/b --store-id com.m")
        let month = "month  type subscription  store_id com.m  duration_seconds 2592000  entitlements plus, a/b\n"
        #expect(set.code == 0 && set.output == month, "\(set)")
        #expect(run("products list").output == month)
        #expect(
            run("products list --json").output
                == #"{"products":[{"id":"month","type":"subscription","store_id":"com.m","duration_seconds":2592000,"entitlements":["plus","a/b"],"base_plan":null,"group":null}]}"#
                + "\n")
        let used = run("entitlements remove --id plus")
        #expect(used.code == 1 && used.errors.contains("Products give this entitlement"))
        let undefined = run("products set --id x --type consumable --entitlements none")
        #expect(undefined.code == 1 && undefined.errors.contains(#"entitlements has "none", which is not defined"#))
        #expect(run("offerings set --id o --products month --main").output == "o  main  products month\n")
        #expect(run("offerings list").output == "o  main  products month\n")
        let unsold = run("offerings set --id o --products month,year")
        #expect(unsold.code == 1 && unsold.errors.contains(#"products has "year", which is not defined"#))
        let offered = run("products remove --id month")
        #expect(offered.code == 1 && offered.errors.contains("Offerings have this product"))
        #expect(run("offerings remove --id o").output == "removed o\n")
        #expect(run("offerings remove --id o").code == 1)
        #expect(run("products remove --id month").output == "removed month\n")
        #expect(run("entitlements remove --id a/b").code == 0)
        #expect(run("entitlements list").output == "plus  name Plus\n")
        #expect(run("entitlements list --json").output == #"{"entitlements":[{"id":"plus","name":"Plus"}]}"# + "\n")
        #expect(run("products remove --id month").code == 1)
        for words in [
            "products set --id x", "products set --type subscription", "products set --id x --type t --days 0",
            "entitlements set", "entitlements remove", "receipt", "receipt --product x --expires soon", "products",
            "offerings set --id x",
        ] {
            #expect(run(words).code == 2, "\(words)")
        }
        #expect(run("products set --id x --type fancy").errors.contains("type must be subscription"))
        #expect(run("doctor").code == 0)
    }

    @Test("makes receipts, each with a transaction of its own")
    func receipt() throws {
        #expect(run("init").code == 0)
        let first = run("receipt --product month --store-account ada")
        #expect(first.code == 0)
        #expect(first.output.wholeMatch(of: /onym_receipt_[A-Za-z0-9_-]+\.[A-Za-z0-9_-]{43}\n/) != nil, "\(first)")
        #expect(run("receipt --product month --store-account ada").output != first.output)
        let named = run("receipt --product month --transaction t2 --original-transaction t1 --json").output
        let object = try JSONSerialization.jsonObject(with: Data(named.utf8)) as? [String: String]
        #expect(object?["transaction"] == "t2" && object?["receipt"]?.hasPrefix("onym_receipt_") == true)
        #expect(run("receipt --product month --source moon").errors.contains("source must be appstore"))
    }
}
