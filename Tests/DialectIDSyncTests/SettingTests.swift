import Foundation
import TestKit
import Testing

/// One example for each value of each setting of a strategy (spec/rules.md, section 8): calls, the person of each answer, and the groups
/// at the end.
@Suite("The settings of a strategy")
struct SettingTests {
    @Test("do what their examples show", arguments: SettingExample.all, StoreKind.allCases)
    func example(_ example: SettingExample, _ kind: StoreKind) throws {
        let scene = try IDSyncScene(kind, strategy: example.strategy)
        for line in example.calls {
            if let days = SettingExample.days(line) {
                scene.clock.advance(milliseconds: days * 24 * 3600 * 1000)
                continue
            }
            let call = try PresetExample.Call(line)
            let answer = try scene.play(call.idsync)
            #expect(answer.hasPrefix(call.answer), "\(line) was answered \(answer)")
        }
        #expect(try scene.groups() == example.groups.map(PresetExample.sorted))
    }

    @Test("do the same in the server's own call", arguments: SettingExample.all, StoreKind.allCases)
    func ownCall(_ example: SettingExample, _ kind: StoreKind) throws {
        let scene = try IDSyncScene(kind, strategy: example.strategy)
        for line in example.calls {
            if let days = SettingExample.days(line) {
                scene.clock.advance(milliseconds: days * 24 * 3600 * 1000)
                continue
            }
            let call = try PresetExample.Call(line)
            let foreseen = try scene.identify(call.kind, call.ids, query: "?dry_run=true")
            let answer = try scene.identify(call.kind, call.ids)
            #expect(answer.person == call.person, "\(line) was answered \(answer)")
            #expect(answer.merges == (call.merges ? 1 : 0), "\(line) was answered \(answer)")
            #expect(foreseen.person == answer.person || foreseen.person == "nobody", "\(line)")
        }
        #expect(try scene.groups() == example.groups.map(PresetExample.sorted))
    }

    @Test("stand in docs/rules.md")
    func documented() throws {
        let rows = SettingExample.all.map { example in
            let strategy = example.strategy.replacingOccurrences(of: "|", with: "\\|")
            return
                "| `\(strategy)` | \(example.calls.joined(separator: "; ")) | \(example.groups.joined(separator: "; ")) |"
        }
        try Recorded.check(["| strategy | calls | groups |", "|---|---|---|"] + rows, between: "settings")
    }

    @Test("all have an example")
    func complete() throws {
        var shown = Set(SettingExample.all.flatMap { $0.setting.components(separatedBy: ", ") })
        // Other pages have the examples of these settings, and the test of the dry run has the days of the log.
        shown.formUnion([
            "preset", "same_user_id", "signed_identities", "restore", "activation", "active_limit", "device_order",
            "strategy_dry_run_days",
        ])
        let scene = try IDSyncScene(.memory)
        let document = try scene.strategy()
        for name in document.keys where !["version", "order_free", "unmatched_types"].contains(name) {
            #expect(shown.contains(name), "\(name)")
        }
    }
}

/// One row of Tests/WorkedExamples/settings.json.
struct SettingExample: Sendable, CustomTestStringConvertible {
    let setting: String
    /// The changes of the default strategy, as JSON.
    let strategy: String
    let calls: [String]
    let groups: [String]

    var testDescription: String { strategy }

    static let all: [SettingExample] = {
        do {
            let file = try Data(contentsOf: PresetExample.folder.appending(path: "Tests/WorkedExamples/settings.json"))
            let rows = try JSONSerialization.jsonObject(with: file) as? [[String: Any]] ?? []
            return try rows.map { row in
                let strategy = try JSONSerialization.data(
                    withJSONObject: row["strategy"] ?? [:], options: [.sortedKeys, .withoutEscapingSlashes])
                return SettingExample(
                    setting: row["setting"] as? String ?? "", strategy: String(decoding: strategy, as: UTF8.self),
                    calls: row["calls"] as? [String] ?? [], groups: row["groups"] as? [String] ?? [])
            }
        } catch {
            preconditionFailure("The examples of settings cannot be read: \(error).")
        }
    }()

    /// The days of a line such as `after 8 days`.
    static func days(_ line: String) -> Int64? {
        let words = line.split(separator: " ")
        return words.first == "after" && words.last == "days" ? Int64(words[1]) : nil
    }
}

/// A table that a test writes into docs/rules.md.
enum Recorded {
    static func check(_ rows: [String], between name: String) throws {
        let file = PresetExample.folder.appending(path: "docs/rules.md")
        let document = try String(contentsOf: file, encoding: .utf8)
        let head = try #require(document.range(of: "<!-- \(name) -->\n"))
        let tail = try #require(document.range(of: "<!-- end -->", range: head.upperBound..<document.endIndex))
        let table = rows.joined(separator: "\n") + "\n"
        let recorded = document.replacingCharacters(in: head.upperBound..<tail.lowerBound, with: table)
        if ProcessInfo.processInfo.environment["ONYM_RECORD"] != nil {
            try recorded.write(to: file, atomically: true, encoding: .utf8)
        } else {
            #expect(
                document == recorded,
                "ONYM_RECORD=1 swift test --filter 'PresetTests|SettingTests' writes the tables anew.")
        }
    }
}
