import Foundation
import Testing

/// A page that names a test for a statement must not outlive the test.
@Suite("The tests that pages name")
struct NamedTestsTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    /// The files of a folder with an ending of their names, and their texts.
    private static func texts(in folder: String, _ ending: String) throws -> [(name: String, text: String)] {
        let files = FileManager.default.enumerator(at: root.appending(path: folder), includingPropertiesForKeys: nil)
        return try #require(files).compactMap { file in
            guard let file = file as? URL, file.lastPathComponent.hasSuffix(ending) else { return nil }
            return (file.deletingPathExtension().lastPathComponent, try String(contentsOf: file, encoding: .utf8))
        }
    }

    @Test("exist, in each page and in the threat model's every part")
    func exist() throws {
        let sources = Dictionary(grouping: try NamedTestsTests.texts(in: "Tests", "Tests.swift"), by: \.name)
        var parts: [(name: Substring, tests: Int)] = []
        for page in try NamedTestsTests.texts(in: "docs", ".md") {
            let isThreatModel = page.name == "threat-model"
            for line in page.text.split(separator: "\n")
            where line.hasPrefix("#") || line.utf8.contains(UInt8(ascii: "`")) {
                if isThreatModel, line.hasPrefix("#") { parts.append((line, 0)) }
                for found in line.split(separator: "`") where found.contains("Tests.") {
                    let names = found.split(separator: ".")
                    guard names.count == 2, names[0].hasSuffix("Tests") else { continue }
                    #expect(
                        sources[String(names[0])]?.contains { $0.text.contains("func \(names[1])(") } == true,
                        "\(page.name) names \(found), which does not exist")
                    if isThreatModel { parts[parts.count - 1].tests += 1 }
                }
            }
        }
        #expect(parts.filter { $0.tests == 0 }.map(\.name) == ["# Threat model", "## Before going live"])
    }
}
