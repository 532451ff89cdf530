import Foundation
import TestKit
import Testing

/// What the server's sources must not have.
@Suite("Sources of the server")
struct ServerSourcesTests {
    /// What runs in apps has no seed and no monitor, and `Program` gives the server its chance.
    private static let apps = [
        "Onym", "OnymMParticle", "OnymOwl", "OnymQonversion", "OnymSentiance", "OnymTesting", "Owlmetry",
        "Qonversion", "SENTSDK", "mParticle_Apple_SDK",
    ]
    private static let programs = ["Program", "onym"]
    /// Arguments that the world gives, and whose value is by chance without it.
    private static let arguments = [
        "Sources/Engine/Engine.swift": "seed: UInt64 = .random(",
        "Sources/HTTPServer/Server.swift": "package var chance: @Sendable () -> UInt64 = { UInt64.random(",
    ]

    /// The lines that have one of some names, with the path of their file.
    private func lines(with names: [String], outside others: [String]) throws -> [(path: String, line: Substring)] {
        let root = URL(filePath: ToolsFolder.path).deletingLastPathComponent()
        var (files, lines) = (0, [(path: String, line: Substring)]())
        for target in try FileManager.default.contentsOfDirectory(atPath: root.appending(path: "Sources").path) {
            if others.contains(target) { continue }
            let folder = FileManager.default.enumerator(atPath: root.appending(path: "Sources/\(target)").path)
            for case let file as String in folder ?? .init() where file.hasSuffix(".swift") {
                let path = "Sources/\(target)/\(file)"
                files += 1
                let text = try String(contentsOf: root.appending(path: path), encoding: .utf8)
                for line in text.split(separator: "\n") where names.contains(where: { line.contains($0) }) {
                    lines.append((path, line))
                }
            }
        }
        #expect(files > 400)
        return lines
    }

    /// A life of the world follows from one number, so no part of the server takes chance of its own (spec/one-seed.md, part 2).
    @Test("take chance as an argument")
    func chance() throws {
        let names = ["SystemRandomNumberGenerator", ".random(", ".randomElement(", ".shuffled(", "UUID()"]
        var allowed = 0
        for (path, line) in try lines(with: names, outside: Self.apps + Self.programs) {
            if Self.arguments[path].map({ line.contains($0) }) == true {
                allowed += 1
            } else {
                Issue.record("\(path) takes chance of its own: \(line)")
            }
        }
        #expect(allowed == Self.arguments.count)
    }

    /// The thread sanitizer must see each lock (docs/decisions/0007).
    @Test("have monitors for locks")
    func locks() throws {
        for (path, line) in try lines(with: ["Mutex<", "Mutex("], outside: Self.apps) {
            Issue.record("\(path) has a lock that is no Monitor: \(line)")
        }
    }
}
