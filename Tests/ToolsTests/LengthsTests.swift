import Foundation
import TestKit
import Testing

/// `Tools/lengths` keeps functions short.
@Suite("The lengths of functions")
struct LengthsTests {
    private let folder = TemporaryFolder()

    private func check(_ arguments: String...) throws -> (code: Int32, output: String) {
        let result = try Shell.result([ToolsFolder.path + "/lengths"] + arguments)
        return (result.code, result.output)
    }

    @Test("no function of the sources is longer than it may be")
    func sources() throws {
        let result = try check()
        #expect(result.code == 0, "\(result.output)")
    }

    @Test(
        "a longer function is found by its name", arguments: [(60, false), (61, true)],
        ["func long(", "init(", "init?("])
    func long(_ length: (lines: Int, isFound: Bool), _ head: String) throws {
        let file = folder.path + "/Long.swift"
        let body = (0..<(length.lines - 3)).map { "        use(\($0))" }
        let lines = ["struct Long {", "    \(head)", "        _ one: Int) {"] + body + ["    }", "}", ""]
        try Data(lines.joined(separator: "\n").utf8).write(to: URL(filePath: file))
        let result = try check(folder.path)
        let name = head.hasPrefix("func") ? "long" : "init"
        #expect(result.output.contains("Long.swift:2: \(name) has 61 lines") == length.isFound, "\(result.output)")
    }
}
