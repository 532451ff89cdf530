import Foundation
import TestKit
import Testing

/// The commands of docs/entitlements.md, run as a reader would; `ONYM_RECORD=1 swift test --filter EntitlementsDocumentTests`
/// writes their answers anew.
@Suite("docs/entitlements.md", .serialized)
struct EntitlementsDocumentTests {
    private static let file = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appending(path: "docs/entitlements.md")

    /// A line that the shell prints after each answer.
    private static let mark = "----- answered -----"

    @Test("shows what its commands answer")
    func commands() throws {
        let document = try String(contentsOf: EntitlementsDocumentTests.file, encoding: .utf8)
        var (script, commands): ([String], [String]) = ([], [])
        var block: String?
        for line in document.split(separator: "\n", omittingEmptySubsequences: false).map(String.init) {
            if line == "```" { block = nil }
            if block == "sh" { script.append(line) }
            if block == "console", line.hasPrefix("$ ") {
                commands.append(String(line.dropFirst(2)))
                script += [String(line.dropFirst(2)), "echo '\(EntitlementsDocumentTests.mark)'"]
            }
            if line.hasPrefix("```"), line != "```" { block = String(line.dropFirst(3)) }
        }
        #expect(commands.count == 48)
        let said = try run(script.joined(separator: "\n"))
        let answers = said.components(separatedBy: EntitlementsDocumentTests.mark + "\n").dropLast()
        try #require(answers.count == commands.count, "\(said)")
        let recorded = write(Array(answers), into: document)
        if ProcessInfo.processInfo.environment["ONYM_RECORD"] != nil {
            try recorded.write(to: EntitlementsDocumentTests.file, atomically: true, encoding: .utf8)
        } else {
            #expect(
                timeless(recorded) == timeless(document),
                "ONYM_RECORD=1 swift test --filter EntitlementsDocumentTests writes the answers anew.")
        }
    }

    /// Runs a script against a server with a fresh store; answers what it prints after the products are set.
    private func run(_ script: String) throws -> String {
        let folder = TemporaryFolder()
        let data = folder.path + "/data"
        let made = try Shell.result([ServerProcess.program, "init", "--data", data, "--json"])
        let keys = try JSONSerialization.jsonObject(with: Data(made.output.utf8)) as? [String: Any]
        let entitlements = try #require(keys?["entitlements"] as? [String: String])
        let (key, secret) = (try #require(entitlements["project_key"]), try #require(entitlements["secret_key"]))
        let server = try ServerProcess(data: data)
        let prelude = "onym() { '\(ServerProcess.program)' \"$@\" --data '\(data)'; }\n"
        let result = try Shell.result(
            ["bash", "-c", prelude + script],
            environment: ["ONYM": server.base, "PROJECT_KEY": key, "SECRET_KEY": secret])
        #expect(result.code == 0 && result.errors.isEmpty, "\(result.errors)")
        #expect(server.stop() == 0)
        let products = "X  type subscription  duration_seconds 2592000  entitlements X\nY\n"
        #expect(result.output.contains(products))
        guard let start = result.output.range(of: "entitlements Y\n") else { return result.output }
        return String(result.output[start.upperBound...])
    }

    /// The document with each command followed by its answer.
    private func write(_ answers: [String], into document: String) -> String {
        var lines: [String] = []
        var rest = answers[...]
        var isInside = false
        for line in document.split(separator: "\n", omittingEmptySubsequences: false).map(String.init) {
            if line.hasPrefix("```") { isInside = line == "```console" }
            if isInside, !line.hasPrefix("$ "), !line.hasPrefix("```") { continue }
            lines.append(line)
            if isInside, line.hasPrefix("$ "), let answer = rest.popFirst() {
                lines += answer.split(separator: "\n").map(String.init)
            }
        }
        return lines.joined(separator: "\n")
    }

    /// A text without what is another each time: times, ids that the server makes.
    private func timeless(_ text: String) -> String {
        text.replacing(/"created":\d+/, with: "\"created\":0").replacing(/QON_[0-9a-f]{32}/, with: "QON_…")
            .replacing(/t_\d{10,}/, with: "t_…")
    }
}
