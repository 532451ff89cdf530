import Foundation
import TestKit
import Testing

/// The vendors' public names, compared with what the compiler found in the facades.
@Suite("The vendors' names", .timeLimit(.minutes(5)))
struct CoverageTests {
    private static let facades = [
        ("OnymMParticle", "mParticle"), ("OnymOwl", "OwlMetry"), ("OnymQonversion", "Qonversion"),
        ("OnymSentiance", "Sentiance"),
    ]

    private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    /// The members of each type of values.
    private static let general: Set<String> = ["==(_:_:)", "hash(into:)", "init(rawValue:)"]

    /// The names of one facade, as its list has them.
    private struct Names {
        /// The members of each type.
        var rows: [(type: String, names: [String], needsApple: Bool)] = []
        /// The names that the vendor does not have.
        var own: [String] = []
        /// The names that do not exist, and the way out.
        var absent: [(names: [String], wayOut: String)] = []

        init(_ text: String) throws {
            for line in text.split(separator: "\n") where !line.hasPrefix("#") {
                let parts = line.split(separator: ": ", maxSplits: 1).map(String.init)
                try #require(parts.count == 2, "\(line)")
                let head = parts[0].split(separator: " ").map(String.init)
                let names = parts[1].split(separator: " ").map(String.init)
                if head[0] == "absent" {
                    absent.append((Array(head.dropFirst()), parts[1]))
                } else if head[0] == "own" {
                    own += names.map { "\(head[1]).\($0)" }
                } else {
                    rows.append((head[head.count - 1], names, head[0] == "apple"))
                }
            }
        }
    }

    /// What the compiler found in a facade.
    private struct Symbols {
        /// Whether each public symbol is inert.
        var isInert: [String: Bool] = [:]
        /// The parameters of a symbol whose documentation says that they are inert.
        var inertParameters: [String: [String]] = [:]
    }

    /// The public symbols of a facade.
    private func symbols(_ facade: String) throws -> Symbols {
        let build = URL(filePath: CommandLine.arguments[0]).deletingLastPathComponent()
        let folder = FileManager.default.temporaryDirectory.appending(path: "onym-symbols-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let made = try Shell.result([
            "swift", "symbolgraph-extract", "-module-name", facade, "-I", build.appending(path: "Modules").path(),
            "-target", build.deletingLastPathComponent().lastPathComponent, "-minimum-access-level", "public",
            "-output-dir", folder.path(),
        ])
        try #require(made.code == 0, "\(made)")
        var found = Symbols()
        let data = try Data(contentsOf: folder.appending(path: "\(facade).symbols.json"))
        let graph = try #require(JSONSerialization.jsonObject(with: data) as? [String: Any])
        for symbol in graph["symbols"] as? [[String: Any]] ?? [] {
            guard let path = symbol["pathComponents"] as? [String], let name = path.last,
                let id = (symbol["identifier"] as? [String: Any])?["precise"] as? String
            else { continue }
            // The compiler and the standard library make these.
            if id.contains("::SYNTHESIZED::") || CoverageTests.general.contains(name) { continue }
            let lines = (symbol["docComment"] as? [String: Any])?["lines"] as? [[String: Any]] ?? []
            let comment = lines.compactMap { $0["text"] as? String }.joined(separator: " ")
            let whole = path.joined(separator: ".")
            // Of two forms of one name, one has an effect.
            found.isInert[whole] = (found.isInert[whole] ?? true) && comment.hasPrefix("Inert:")
            found.inertParameters[whole] = comment.matches(of: /`(\w+)` is inert/).map { String($0.1) }
        }
        return found
    }

    /// The text of a facade's sources.
    private func sources(_ facade: String) throws -> String {
        let folder = CoverageTests.root.appending(path: "Sources/\(facade)")
        let files = try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
        return try files.filter { $0.pathExtension == "swift" }.map { try String(contentsOf: $0, encoding: .utf8) }
            .joined()
    }

    /// The functions and properties of a facade whose documentation says that they are inert, and that write no line to the log.
    private func silent(_ facade: String) throws -> [String] {
        let text = try sources(facade)
        let line = /note\(|note\.write\(|InertNote\(|zero\(|noteInert\(|inert\.append\(|refuse(Experiment)?\(/
        return text.components(separatedBy: "/// Inert: ").dropFirst().compactMap { part in
            // The declaration is between its documentation and the next one.
            let lines = part.split(separator: "\n").dropFirst()
            let code = lines.drop { $0.contains("///") }.prefix { !$0.contains("///") }.joined(separator: "\n")
            guard let found = code.firstMatch(of: /public (static )?(func|var) `?(\w+)/), !code.contains(line),
                !text.contains("note(\"PurchaseOptions.\(found.3)\")")
            else { return nil }
            return String(found.3)
        }
    }

    @Test("a name without an effect writes a line to the log", arguments: facades.map(\.0))
    func notes(facade: String) throws { #expect(try silent(facade) == []) }

    /// The table of one facade.
    private func table(_ facade: String, _ vendor: String) throws -> String {
        let list = CoverageTests.root.appending(path: "Tests/EndToEndTests/VendorNames/\(facade).txt")
        let names = try Names(try String(contentsOf: list, encoding: .utf8))
        let found = try symbols(facade)
        let symbols = found.isInert
        let text = try sources(facade)
        var lines = ["### \(vendor): `\(facade)`", "", "| type | there | inert |", "|---|---|---|"]
        var listed: Set<String> = []
        for row in names.rows {
            var (there, inert): ([String], [String]) = ([], [])
            for name in row.names {
                let path = row.type == "global" ? name : "\(row.type).\(name)"
                listed.insert(path)
                if row.needsApple {
                    let word = name.split(separator: "(")[0]
                    #expect(symbols[path] == nil, "\(path) needs no framework of Apple's")
                    let at = text.range(of: "(func|var) `?\(word)`?\\b", options: .regularExpression)
                    #expect(at != nil, "\(path) is not in the sources")
                    // The documentation is right above the declaration.
                    let before = at.map { text[..<$0.lowerBound].suffix(400) } ?? ""
                    let comment = before.components(separatedBy: "\n\n").last ?? ""
                    let isInert = comment.contains("/// Inert:") || symbols[row.type] == true
                    if isInert { inert.append(name) } else { there.append(name) }
                } else {
                    #expect(symbols[path] != nil, "\(path) does not exist")
                    // So are the members of an inert type.
                    if symbols[path] == true || symbols[row.type] == true {
                        inert.append(name)
                    } else {
                        there.append(name)
                        inert += (found.inertParameters[path] ?? []).map { "\($0):" }
                    }
                }
            }
            let cells = [there, inert].map { $0.map { "`\($0)`" }.joined(separator: " ") }
            let type = row.type == "global" ? "without a type" : "`\(row.type)`"
            lines.append(
                "| \(type)\(row.needsApple ? ", on Apple's platforms" : "") | \(cells.joined(separator: " | ")) |"
            )
        }
        for path in names.own { #expect(symbols[path] != nil, "\(path) does not exist") }
        lines += [
            "", "Names of this SDK alone: \(names.own.map { "`\($0)`" }.joined(separator: " ")).", "", "Absent:", "",
        ]
        for row in names.absent {
            for name in row.names { #expect(!symbols.keys.contains { $0.hasSuffix(name) }, "\(name) exists") }
            lines.append("- \(row.names.map { "`\($0)`" }.joined(separator: ", ")). \(row.wayOut)")
        }
        let types = names.rows.map(\.type)
        let missing = Set(symbols.keys).subtracting(listed).subtracting(names.own).subtracting(types)
        #expect(missing.isEmpty, "not in the list: \(missing.sorted())")
        return lines.joined(separator: "\n")
    }

    @Test("docs/sdk.md has the table of all names: there, inert or absent; ONYM_RECORD=1 writes it")
    func coverage() throws {
        let page = CoverageTests.root.appending(path: "docs/sdk.md")
        let text = try String(contentsOf: page, encoding: .utf8)
        let tables = try CoverageTests.facades.map { try table($0.0, $0.1) }.joined(separator: "\n\n")
        let (begin, end) = ("<!-- names: made from the sources -->\n", "\n<!-- end of names -->")
        let from = try #require(text.range(of: begin)?.upperBound)
        let to = try #require(text.range(of: end)?.lowerBound)
        if ProcessInfo.processInfo.environment["ONYM_RECORD"] == "1" {
            try text.replacingCharacters(in: from..<to, with: tables).write(to: page, atomically: true, encoding: .utf8)
        } else {
            #expect(
                text[from..<to] == tables,
                "docs/sdk.md is out of date: ONYM_RECORD=1 Tools/run-tests --filter CoverageTests")
        }
    }
}
