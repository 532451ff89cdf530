import Foundation
import TestKit
import Testing

/// `Tools/soak` names the suites that are larger in a long run: a suite that is missing there is never large.
@Suite("The long runs")
struct SoakTests {
    /// What the step of simulations matches.
    private static func larger() throws -> Regex<AnyRegexOutput> {
        let lines = try String(contentsOfFile: ToolsFolder.path + "/soak", encoding: .utf8).split(separator: "\n")
        let parts = lines.filter { $0.hasPrefix("larger") }.map { $0.split(separator: "'")[1] }
        #expect(parts.count == 3)
        return try Regex(parts.joined())
    }

    /// The suites that are larger in a long run, with their targets.
    private static func suites() throws -> Set<String> {
        let tests = URL(filePath: ToolsFolder.path).deletingLastPathComponent().appending(path: "Tests").path
        // Not in one piece, or this suite would seem to be larger too.
        let readings = ["factor", "histories"].map { "Soak." + $0 }
        var suites: Set<String> = []
        for target in try FileManager.default.contentsOfDirectory(atPath: tests) where target.hasSuffix("Tests") {
            let files = FileManager.default.enumerator(atPath: "\(tests)/\(target)")
            for case let file as String in files ?? .init() where file.hasSuffix(".swift") {
                var suite = file.replacing(".swift", with: "")
                for line in try String(contentsOfFile: "\(tests)/\(target)/\(file)", encoding: .utf8).split(
                    separator: "\n")
                {
                    if let found = line.firstMatch(of: #/^(?:final class|struct|extension) (\w+Tests)\b/#) {
                        suite = String(found.1)
                    }
                    if readings.contains(where: { line.contains($0) }) { suites.insert("\(target).\(suite)") }
                }
            }
        }
        return suites
    }

    @Test("have each suite that is larger in a long run")
    func isComplete() throws {
        let (larger, suites) = (try Self.larger(), try Self.suites())
        let missing = suites.filter { "\($0)/a()".firstMatch(of: larger) == nil }.sorted()
        #expect(missing.isEmpty, "The variable `larger` of Tools/soak lacks \(missing).")
        #expect(suites.contains("StoreContractTests.ActTableTests") && suites.count > 25, "\(suites.sorted())")
        #expect("StoreContractTests.SplitTests/a()".firstMatch(of: larger) == nil, "This suite is always the same.")
    }
}
