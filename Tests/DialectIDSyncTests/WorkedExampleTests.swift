import Foundation
import TestKit
import Testing

/// The vendor's worked examples (spec/idsync.md 3.5) over HTTP, on every store; and as tables in docs/idsync.md, which
/// `ONYM_RECORD=1 swift test --filter WorkedExampleTests` writes anew.
@Suite("The worked examples of the vendor's documentation")
struct WorkedExampleTests {
    private static let folder = URL(filePath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    static let examples: [WorkedExample] = {
        do {
            let file = try Data(contentsOf: folder.appending(path: "Tests/WorkedExamples/idsync.json"))
            let decoder = JSONDecoder()
            decoder.keyDecodingStrategy = .convertFromSnakeCase
            return try decoder.decode([WorkedExample].self, from: file)
        } catch {
            preconditionFailure("The worked examples cannot be read: \(error).")
        }
    }()

    @Test("come to the same people, who hold the same", arguments: examples, StoreKind.allCases)
    func example(_ example: WorkedExample, _ kind: StoreKind) throws {
        for played in try example.play(on: kind) {
            #expect(played.expectedPerson == nil || played.person == played.expectedPerson, "\(played)")
            #expect(played.expectedHeld == nil || played.held == played.expectedHeld, "\(played)")
            for orphan in played.orphans { #expect(orphan.held == "nothing", "\(played)") }
        }
    }

    @Test("are all six there")
    func count() {
        #expect(WorkedExampleTests.examples.count == 6)
        #expect(WorkedExampleTests.examples.flatMap(\.steps).count == 32)
    }

    @Test("stand in docs/idsync.md as they come out")
    func documented() throws {
        let file = WorkedExampleTests.folder.appending(path: "docs/idsync.md")
        let document = try String(contentsOf: file, encoding: .utf8)
        var recorded = document
        for example in WorkedExampleTests.examples {
            let (begin, end) = ("<!-- worked example: \(example.id) -->\n", "<!-- end -->")
            let head = try #require(recorded.range(of: begin), "\(example.id) has no place in the document")
            let tail = try #require(recorded.range(of: end, range: head.upperBound..<recorded.endIndex))
            let rows = try example.play(on: .memory).map(\.row)
            let table = ["| call | answered with | who then holds |", "|---|---|---|"] + rows
            recorded.replaceSubrange(head.upperBound..<tail.lowerBound, with: table.joined(separator: "\n") + "\n")
        }
        if ProcessInfo.processInfo.environment["ONYM_RECORD"] != nil {
            try recorded.write(to: file, atomically: true, encoding: .utf8)
        } else {
            #expect(
                document == recorded, "ONYM_RECORD=1 swift test --filter WorkedExampleTests writes the tables anew.")
        }
    }
}

/// One example of Tests/WorkedExamples/idsync.json.
struct WorkedExample: Decodable, Sendable, CustomTestStringConvertible {
    struct Config: Decodable, Sendable {
        let priority: [String]
        let loginIds: [String]?
        let uniqueIds: [String]?
        let onNewKnown: String?
        let onLogout: String?
        /// People who are there before the first step.
        let given: [String: [String: String]]?
    }

    struct Step: Decodable, Sendable {
        let call: String
        let body: [String: String]
        let profile: String
        let identities: [String: Values]?
        let orphaned: [String]?
        /// Whom the app aliases to whoever it finds now.
        let sourceProfile: String?
    }

    /// One value of a type, or several.
    struct Values: Decodable, Sendable {
        let values: [String]

        init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            values =
                if let value = try? container.decode(String.self) { [value] } else {
                    try container.decode([String].self)
                }
        }
    }

    let id: String
    let config: Config
    let steps: [Step]

    var testDescription: String { id }

    /// What one step came to, and what it should.
    struct Played {
        let call: String
        let answer: String
        let person: String
        let held: String
        var expectedPerson: String?
        var expectedHeld: String?
        var orphans: [(name: String, held: String)] = []

        /// The step as a row of a table.
        var row: String {
            let others = orphans.map { "; \($0.name): \($0.held)" }.joined()
            return "| `\(call)` | \(answer) | \(person): `\(held)`\(others) |"
        }
    }

    private var strategy: String {
        func list(_ types: [String]) -> String { "[\(types.map { "\"\($0)\"" }.joined(separator: ","))]" }
        var fields = ["\"hierarchy\":\(list(config.priority))"]
        if let types = config.loginIds { fields.append("\"login\":\(list(types))") }
        if let types = config.uniqueIds { fields.append("\"unique\":\(list(types))") }
        if let name = config.onNewKnown { fields.append("\"on_new_known\":\"\(name)\"") }
        if let name = config.onLogout { fields.append("\"on_logout\":\"\(name)\"") }
        return "{\(fields.joined(separator: ","))}"
    }

    private func names(_ identities: [String: String]) -> String {
        // In the order of the hierarchy, as people write it.
        func place(_ type: String) -> Int { config.priority.firstIndex(of: type) ?? .max }
        return identities.sorted { (place($0.key), $0.key) < (place($1.key), $1.key) }
            .map { "\($0.key)=\($0.value)" }.joined(separator: " ")
    }

    func play(on kind: StoreKind) throws -> [Played] {
        let scene = try IDSyncScene(kind, strategy: strategy)
        var played = try given(scene)
        for step in steps {
            let call = try step.call == "modify" ? modify(step, scene) : "\(step.call) \(names(step.body))"
            let answer = try scene.play(call)
            let person = step.call == "modify" ? step.profile : String(answer.prefix { $0 != " " })
            let expected = step.identities?.flatMap { type, values in values.values.map { "\(type)=\($0)" } }
            played.append(
                Played(
                    call: call, answer: answer, person: person, held: try scene.held(by: person),
                    expectedPerson: step.profile, expectedHeld: expected?.sorted().joined(separator: " "),
                    orphans: try (step.orphaned ?? []).map { ($0, try scene.held(by: $0)) }))
            if let source = step.sourceProfile {
                let alias = "alias \(source) \(person)"
                played.append(
                    Played(
                        call: alias, answer: try scene.play(alias), person: person, held: try scene.held(by: person),
                        expectedHeld: expected?.sorted().joined(separator: " ")))
            }
        }
        return played
    }

    /// Two of the sources' tables leave out what the e-mail address was, and have it gone all the same: an app says what
    /// it knows.
    private func modify(_ step: Step, _ scene: IDSyncScene) throws -> String {
        let (person, type) = (step.body["profile"] ?? "", step.body["type"] ?? "")
        let held = try scene.held(by: person).split(separator: " ").first { $0.hasPrefix("\(type)=") }
        let old = step.body["old"] ?? held.map { String($0.dropFirst(type.count + 1)) } ?? ""
        return "modify \(person) \(type) \(old)>\(step.body["new"] ?? "")"
    }

    /// Makes the people who are there at first. What an earlier one holds already is given to the next one by itself, so
    /// that it is not taken for the same person.
    private func given(_ scene: IDSyncScene) throws -> [Played] {
        var played: [Played] = []
        var taken: Set<String> = []
        for (person, identities) in (config.given ?? [:]).sorted(by: { $0.key < $1.key }) {
            let own = identities.filter { !taken.contains("\($0.key)=\($0.value)") }
            var calls = ["identify \(names(own))"]
            let shared = identities.filter { own[$0.key] == nil }.sorted { $0.key < $1.key }
            if !shared.isEmpty {
                calls.append("modify \(person) " + shared.map { "\($0.key) >\($0.value)" }.joined(separator: " "))
            }
            for call in calls {
                played.append(
                    Played(
                        call: call, answer: try scene.play(call), person: person, held: try scene.held(by: person),
                        expectedHeld: call == calls.last
                            ? identities.map { "\($0.key)=\($0.value)" }.sorted().joined(separator: " ") : nil))
            }
            taken.formUnion(identities.map { "\($0.key)=\($0.value)" })
        }
        return played
    }
}
