import Foundation

/// The commands of a document, and the answers that stand there: a test runs them all, in one shell, and what it finds is what
/// has to stand there, or is written there where `ONYM_RECORD` is set.
package struct DocumentedCalls {
    private let file: URL

    /// What stands in a document: lines that are kept, and commands with what they answer.
    private enum Part {
        case text(String)
        case command(String)
    }

    /// What a run came to.
    package struct Outcome {
        /// What stands in the document.
        package let document: String
        /// What would stand there by this run.
        package let recorded: String
        package let errors: String
        /// Whether each command had its answer.
        package let isComplete: Bool
    }

    /// - Parameter name: of a document in `docs`.
    package init(_ name: String) {
        file = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appending(path: "docs/\(name)")
    }

    /// Runs the commands.
    ///
    /// - Parameters:
    ///   - setUp: commands that come first, and stand nowhere.
    ///   - settled: what is written of an answer, without what differs from run to run.
    package func run(
        environment: [String: String], setUp: String = "", settled: (String) -> String
    ) throws -> Outcome {
        let document = try String(contentsOf: file, encoding: .utf8)
        let parts = parts(document)
        let end = "\u{1E}"
        var script = setUp + "\n"
        for case .command(let command) in parts { script += "\(command.dropFirst(2))\nprintf '\(end)'\n" }
        let folder = TemporaryFolder()
        let result = try Shell.result(
            ["bash", "-u", "-s"], environment: environment, folder: folder.path, input: script)
        var outputs = settled(result.output).split(separator: end, omittingEmptySubsequences: false)
            .map(String.init)[...]
        var lines: [String] = []
        for part in parts {
            switch part {
            case .text(let line): lines.append(line)
            case .command(let command):
                lines.append(command)
                let output = (outputs.popFirst() ?? "").trimmingCharacters(in: .newlines)
                if !output.isEmpty { lines.append(output) }
            }
        }
        let recorded = lines.joined(separator: "\n")
        let isComplete = outputs == [""]
        if ProcessInfo.processInfo.environment["ONYM_RECORD"] != nil, isComplete {
            try recorded.write(to: file, atomically: true, encoding: .utf8)
            return Outcome(document: recorded, recorded: recorded, errors: result.errors, isComplete: true)
        }
        return Outcome(document: document, recorded: recorded, errors: result.errors, isComplete: isComplete)
    }

    /// A command begins with `$ ` and goes on for as long as a quotation or a line is open.
    private func parts(_ document: String) -> [Part] {
        var parts: [Part] = []
        var isConsole = false
        var command: String?
        for line in document.split(separator: "\n", omittingEmptySubsequences: false).map(String.init) {
            if let open = command {
                command = open + "\n" + line
            } else if isConsole, line.hasPrefix("$ ") {
                command = line
            } else if isConsole, line != "```" {
                continue
            } else {
                isConsole = line == "```console"
                parts.append(.text(line))
            }
            if let whole = command, !whole.hasSuffix("\\"), whole.count(where: { $0 == "'" }).isMultiple(of: 2) {
                parts.append(.command(whole))
                command = nil
            }
        }
        return parts
    }
}
