import Foundation
import Testing

/// A page that names a test for a statement must not outlive the test.
@Suite("The tests that pages name")
struct NamedTestsTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    /// The names of functions of each suite, as `Suite.function`.
    private static func functions() throws -> Set<String> {
        let folder = root.appending(path: "Tests")
        var names: Set<String> = []
        let files = try #require(FileManager.default.enumerator(at: folder, includingPropertiesForKeys: nil))
        for case let file as URL in files where file.pathExtension == "swift" {
            var suite = ""
            for line in try String(contentsOf: file, encoding: .utf8).split(separator: "\n") {
                if let found = line.firstMatch(of: /\b(?:struct|class|enum|extension) (\w+Tests)\b/) {
                    suite = String(found.1)
                }
                if let found = line.firstMatch(of: /\bfunc (\w+)/) { names.insert("\(suite).\(found.1)") }
            }
        }
        return names
    }

    @Test("exist, in each page and in the threat model's every part")
    func exist() throws {
        let functions = try NamedTestsTests.functions()
        let docs = NamedTestsTests.root.appending(path: "docs")
        var parts: [(name: String, tests: Int)] = []
        let files = try #require(FileManager.default.enumerator(at: docs, includingPropertiesForKeys: nil))
        for case let file as URL in files where file.pathExtension == "md" {
            for line in try String(contentsOf: file, encoding: .utf8).split(separator: "\n") {
                let isThreatModel = file.lastPathComponent == "threat-model.md"
                if isThreatModel, line.hasPrefix("#") { parts.append((String(line), 0)) }
                for found in line.matches(of: /`(\w+Tests\.\w+)`/) {
                    #expect(
                        functions.contains(String(found.1)),
                        "\(file.lastPathComponent) names \(found.1), which does not exist")
                    if isThreatModel { parts[parts.count - 1].tests += 1 }
                }
            }
        }
        let untested = parts.filter { $0.tests == 0 }.map(\.name)
        #expect(untested == ["# Threat model", "## With a client's key", "## Before going live"])
    }
}
