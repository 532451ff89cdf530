import Foundation
import Testing

@Suite("Oracles of the world")
struct OracleTests {
    @Test("are named where a reader looks for what a failure means")
    func named() throws {
        let root = URL(filePath: ToolsFolder.path).deletingLastPathComponent()
        func text(_ path: String) throws -> String {
            try String(contentsOf: root.appending(path: path), encoding: .utf8)
        }
        let sources = try text("Tests/OneSeed/Life.swift") + text("Tests/OnymWorld/main.swift")
        let names = Set(sources.matches(of: #/(?:fail\(\s*|oracle: )"([^"]+)"/#).map { String($0.1) })
        #expect(names.isSuperset(of: ["doctor", "memory", "time"]) && names.count > 20, "\(names.sorted())")
        let page = try text("CONTRIBUTING.md")
        let missing = names.filter { !page.contains("`\($0)`") }.sorted()
        #expect(missing.isEmpty, "CONTRIBUTING.md lacks \(missing)")
    }
}
