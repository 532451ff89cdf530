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

    /// The tests that a text names, as `SuiteTests.function`.
    private static func names(in text: String) -> [(suite: String, function: String)] {
        text.split(separator: "`").compactMap { found in
            let parts = found.split(separator: ".", omittingEmptySubsequences: false)
            guard parts.count == 2, parts[0].hasSuffix("Tests"), parts[0].wholeMatch(of: /\w+/) != nil,
                parts[1].wholeMatch(of: /\w+/) != nil, parts[1] != "swift"
            else { return nil }
            return (String(parts[0]), String(parts[1]))
        }
    }

    @Test("exist, in each page")
    func exist() throws {
        let sources = Dictionary(grouping: try NamedTestsTests.texts(in: "Tests", "Tests.swift"), by: \.name)
        var count = 0
        for page in try NamedTestsTests.texts(in: "docs", ".md") {
            for line in page.text.split(separator: "\n") {
                for (suite, function) in NamedTestsTests.names(in: String(line)) {
                    count += 1
                    #expect(
                        sources[suite]?.contains { $0.text.contains("func \(function)(") } == true,
                        "\(page.name) names \(suite).\(function), which does not exist")
                }
            }
        }
        #expect(count > 150)
    }

    // MARK: - The threat model

    /// A paragraph, an item of a list or a row of a table.
    private struct Block {
        let section: String
        var text: String
    }

    /// The blocks of a page, without its titles and the heads of its tables.
    private static func blocks(of page: String) -> [Block] {
        var blocks: [Block] = []
        var (section, isInBlock) = ("", false)
        for line in page.split(separator: "\n", omittingEmptySubsequences: false).map(String.init) {
            if line.hasPrefix("#") {
                (section, isInBlock) = (line, false)
            } else if line.isEmpty {
                isInBlock = false
            } else if line.hasPrefix("|---") {
                blocks.removeLast()
            } else if isInBlock, !line.hasPrefix("|"), line.prefixMatch(of: /(-|\d+\.)\s/) == nil {
                blocks[blocks.count - 1].text += " \(line.drop { $0 == " " })"
            } else {
                blocks.append(Block(section: section, text: line))
                isInBlock = !line.hasPrefix("|")
            }
        }
        return blocks
    }

    /// The sections of the threat model that state nothing that a test could show: the contents of the page, and advice.
    private static let sectionsWithout = ["# Threat model", "## Before going live"]
    /// The beginnings of other blocks without a name: the scope of the page, the heads of lists, and things that Onym cannot do.
    private static let blocksWithout = [
        "Onym protects identities and groups,", "Onym protects these things from:", "- all users of an app or a page",
        "- thieves of a server's key", "- other projects", "Onym cannot protect these things",
        "Where tokens are required, an attacker", "- **The operator of the process**",
        "An erasure does not reach these things:", "- a database's archived log", "- exports",
    ]

    @Test("are in each paragraph and in each row of the threat model, but for advice")
    func threatModel() throws {
        let page = try #require(try NamedTestsTests.texts(in: "docs", ".md").first { $0.name == "threat-model" })
        let blocks = NamedTestsTests.blocks(of: page.text)
        let nameless = blocks.filter { NamedTestsTests.names(in: $0.text).isEmpty }
        for block in nameless where !NamedTestsTests.sectionsWithout.contains(block.section) {
            #expect(
                NamedTestsTests.blocksWithout.contains { block.text.hasPrefix($0) },
                "\(block.section): no test is named for: \(block.text)")
        }
        for beginning in NamedTestsTests.blocksWithout {
            #expect(nameless.count { $0.text.hasPrefix(beginning) } == 1, "\(beginning): is out of date in this test")
        }
        #expect(Set(NamedTestsTests.sectionsWithout).isSubset(of: Set(nameless.map(\.section))))
        #expect(blocks.count > 80)
    }

    @Test("are looked for in every paragraph, item and row")
    func blocks() {
        let page = """
            # A

            One `ATests.a`,
            two.
            - three
              goes on
            - four

            | head | of |
            |---|---|
            | five | `ATests.swift` |
            | six | `BTests.b` |
            1. seven
            """
        let blocks = NamedTestsTests.blocks(of: page)
        #expect(
            blocks.map(\.text) == [
                "One `ATests.a`, two.", "- three goes on", "- four", "| five | `ATests.swift` |",
                "| six | `BTests.b` |", "1. seven",
            ])
        #expect(blocks.map { NamedTestsTests.names(in: $0.text).count } == [1, 0, 0, 0, 1, 0])
    }
}
