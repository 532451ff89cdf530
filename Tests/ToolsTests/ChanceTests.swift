import Foundation
import TestKit
import Testing

/// A life of the world follows from one number, so no part of the server takes chance of its own (spec/one-seed.md, part 2).
@Suite("Chance")
struct ChanceTests {
    /// What runs in apps has no seed, and `Program` gives the server its chance.
    private static let others = [
        "Onym", "OnymMParticle", "OnymOwl", "OnymQonversion", "OnymSentiance", "OnymTesting", "Owlmetry", "Program",
        "Qonversion", "SENTSDK", "mParticle_Apple_SDK", "onym",
    ]
    /// Arguments that the world gives, and whose value is by chance without it.
    private static let arguments = [
        "Sources/Engine/Engine.swift": "seed: UInt64 = .random(",
        "Sources/HTTPServer/Server.swift": "package var chance: @Sendable () -> UInt64 = { UInt64.random(",
    ]

    @Test("comes to each part of the server as an argument")
    func arguments() throws {
        let root = URL(filePath: ToolsFolder.path).deletingLastPathComponent()
        let names = ["SystemRandomNumberGenerator", ".random(", ".randomElement(", ".shuffled(", "UUID()"]
        var (files, allowed) = (0, 0)
        for target in try FileManager.default.contentsOfDirectory(atPath: root.appending(path: "Sources").path) {
            if ChanceTests.others.contains(target) { continue }
            let folder = FileManager.default.enumerator(atPath: root.appending(path: "Sources/\(target)").path)
            for case let file as String in folder ?? .init() where file.hasSuffix(".swift") {
                let path = "Sources/\(target)/\(file)"
                files += 1
                for line in try String(contentsOf: root.appending(path: path), encoding: .utf8).split(separator: "\n")
                where names.contains(where: { line.contains($0) }) {
                    if ChanceTests.arguments[path].map({ line.contains($0) }) == true {
                        allowed += 1
                    } else {
                        Issue.record("\(path) takes chance of its own: \(line)")
                    }
                }
            }
        }
        #expect(files > 400 && allowed == ChanceTests.arguments.count)
    }
}
