import Foundation
import TestKit
import Testing

/// The vendor's six examples and the two problems that it has published (spec/entitlements.md 2.4), over HTTP, in both
/// views, on every store.
@Suite("Who sees which purchase")
struct ExampleTests {
    private static let folder = URL(filePath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    static let examples: [AccessExample] = {
        do {
            let file = try Data(contentsOf: folder.appending(path: "Tests/WorkedExamples/entitlements.json"))
            return try JSONDecoder().decode([AccessExample].self, from: file)
        } catch {
            preconditionFailure("The examples cannot be read: \(error).")
        }
    }()

    @Test("as the examples say", arguments: examples, StoreKind.allCases)
    func example(_ example: AccessExample, _ kind: StoreKind) throws {
        for view in Install.DecisionFacts.allCases { try example.play(view, on: kind) }
    }

    @Test("all six are there, and both known problems")
    func count() {
        #expect(ExampleTests.examples.map(\.id).count == 8)
        #expect(ExampleTests.examples.flatMap(\.steps).count == 48)
    }
}

/// One example of Tests/WorkedExamples/entitlements.json.
struct AccessExample: Decodable, Sendable, CustomTestStringConvertible {
    struct Step: Decodable, Sendable {
        /// The install that does something.
        let install: String?
        /// `install`, `buy X`, `identify u1`, `logout` or `restore X`.
        let call: String
        /// What installs see then, by our own SDK's view.
        let sees: [String: [String]]?
        /// What they see otherwise by the vendor's SDKs.
        let plain: [String: [String]]?
        /// What they see otherwise by the launch results of shipped mobile SDKs, which send their receipts with each call.
        let launch: [String: [String]]?
    }

    let id: String
    let says: String
    let restore: String?
    let steps: [Step]

    var testDescription: String { id }

    func play(_ view: Install.DecisionFacts, on kind: StoreKind) throws {
        let client = try AccessClient(kind, restore: restore ?? "copy")
        var installs: [String: Install] = [:]
        for (place, step) in steps.enumerated() {
            let words = step.call.split(separator: " ").map(String.init)
            if let name = step.install {
                let install = try installs[name] ?? Install(name, view, client)
                installs[name] = install
                switch words[0] {
                case "install": break
                case "buy": #expect(try install.buy(words[1]).status == 201)
                case "identify": try install.identify(words[1])
                case "logout": install.logOut()
                case "restore": #expect(try install.restore([client.receipt(words[1], "\(words[1])1")]).status == 200)
                default: Issue.record("\(id) has a step \(step.call)")
                }
            }
            let sees = (step.sees ?? [:]).merging(view == .plain ? step.plain ?? [:] : [:]) { $1 }
            for (name, expected) in sees.sorted(by: { $0.key < $1.key }) {
                let active = try installs[name]?.active() ?? client.active(name)
                #expect(active == expected, "\(id), \(view), step \(place + 1) (\(step.call)): what \(name) sees")
            }
        }
    }
}
