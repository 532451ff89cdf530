import Foundation
import TestKit
import Testing

/// The tables of spec/rules.md, section 4: calls under a vendor's preset, the person of each answer, and the groups at the end.
@Suite("The presets of vendors")
struct PresetTests {
    @Test("find the people that the vendors' documentation describes", arguments: PresetExample.all, StoreKind.allCases)
    func example(_ example: PresetExample, _ kind: StoreKind) throws {
        let scene = try IDSyncScene(kind, strategy: #"{"preset":"\#(example.preset)"}"#)
        #expect(try scene.play("preset") == example.preset)
        for line in example.calls {
            let call = try PresetExample.Call(line)
            let before = try scene.groups().count
            let answer = try scene.play(call.idsync)
            #expect(answer.hasPrefix(call.answer), "\(line) was answered \(answer)")
            if call.merges { #expect(try scene.groups().count < before, "\(line) merged nobody") }
        }
        #expect(try scene.groups() == example.groups.map(PresetExample.sorted))
    }

    @Test("stand in docs/rules.md")
    func documented() throws {
        let rows = PresetExample.all.map { example in
            "| `\(example.preset)` | \(example.calls.joined(separator: "; ")) | \(example.groups.joined(separator: "; ")) |"
        }
        try Recorded.check(["| preset | calls | groups |", "|---|---|---|"] + rows, between: "presets")
    }

    @Test("find the same people by the server's own call", arguments: PresetExample.all, StoreKind.allCases)
    func ownCall(_ example: PresetExample, _ kind: StoreKind) throws {
        let scene = try IDSyncScene(kind, strategy: #"{"preset":"\#(example.preset)"}"#)
        for line in example.calls {
            let call = try PresetExample.Call(line)
            let foreseen = try scene.identify(call.kind, call.ids, query: "?dry_run=true")
            let answer = try scene.identify(call.kind, call.ids)
            #expect(answer.person == call.person, "\(line) was answered \(answer)")
            #expect(answer.merges == (call.merges ? 1 : 0), "\(line) was answered \(answer)")
            #expect(foreseen.person == answer.person || foreseen.person == "nobody", "\(line)")
            #expect(foreseen.merges == answer.merges, "\(line)")
        }
        #expect(try scene.groups() == example.groups.map(PresetExample.sorted))
    }

    @Test("change nothing when a call is repeated", arguments: PresetExample.all)
    func repetition(_ example: PresetExample) throws {
        let scene = try IDSyncScene(.sqlite, strategy: #"{"preset":"\#(example.preset)"}"#)
        for line in example.calls {
            let call = try PresetExample.Call(line)
            let first = try scene.play(call.idsync)
            let facts = try scene.facts()
            #expect(try scene.play(call.idsync) == first, "\(line)")
            #expect(try scene.facts() == facts, "\(line)")
        }
    }
}

/// One table of Tests/WorkedExamples/presets.json.
struct PresetExample: Decodable, Sendable, CustomTestStringConvertible {
    let preset: String
    let calls: [String]
    let groups: [String]

    var testDescription: String { "\(preset), \(calls.count) calls" }

    static let folder = URL(filePath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    static let all: [PresetExample] = {
        do {
            let file = try Data(contentsOf: folder.appending(path: "Tests/WorkedExamples/presets.json"))
            return try JSONDecoder().decode([PresetExample].self, from: file)
        } catch {
            preconditionFailure("The worked examples cannot be read: \(error).")
        }
    }()

    /// A group with its values in a fixed order.
    static func sorted(_ group: String) -> String {
        let words = group.split(separator: " ").map(String.init)
        return ([words[0]] + words.dropFirst().sorted()).joined(separator: " ")
    }

    /// A line of a table: `d t1 u ines: P1 merged` is a login with a stamp of a device and a customer id.
    struct Call {
        let idsync: String
        let kind: String
        let ids: [(type: String, value: String)]
        let answer: String
        /// The person of the answer, or the status and the code.
        let person: String
        let merges: Bool

        struct Unreadable: Error { let line: String }

        private static let types = [
            "d": "device_application_stamp", "u": "customerid", "e": "email", "i": "ios_idfv", "w": "android_uuid",
            "g": "google",
        ]

        init(_ line: String) throws {
            guard let colon = line.range(of: ": ") else { throw Unreadable(line: line) }
            var words = line[..<colon.lowerBound].split(separator: " ").map(String.init)
            var kind = "identify"
            if words.first == "logout" { kind = words.removeFirst() }
            var ids: [(type: String, value: String)] = []
            for place in stride(from: 0, to: words.count, by: 2) {
                guard let type = Call.types[words[place]] else { throw Unreadable(line: line) }
                ids.append((type, words[place + 1]))
                if kind == "identify", words[place] == "u" || words[place] == "g" { kind = "login" }
            }
            self.kind = kind
            self.ids = ids
            idsync = ([kind] + ids.map { "\($0.type)=\($0.value)" }).joined(separator: " ")
            let end = String(line[colon.upperBound...])
            merges = end.hasSuffix(" merged")
            let expected = merges ? String(end.dropLast(" merged".count)) : end
            person = expected
            answer = expected.hasPrefix("409") ? expected.uppercased() : expected + " "
        }
    }
}
