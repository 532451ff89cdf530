import Foundation
import TestKit
import Testing

/// `Tools/apple` compiles the lines of the SDK that no other check on Linux compiles. `make lint` runs it for all platforms.
@Suite("The SDK's lines for Apple's platforms")
struct AppleTests {
    private let folder = TemporaryFolder()
    /// A copy of the SDK's sources.
    private var sources: String { folder.path + "/Sources" }

    init() throws {
        let original = URL(filePath: ToolsFolder.path).deletingLastPathComponent().appending(path: "Sources")
        try FileManager.default.createDirectory(atPath: sources, withIntermediateDirectories: true)
        for module in ["Onym", "OnymTesting", "OnymMParticle", "OnymOwl", "OnymQonversion", "OnymSentiance"] {
            try FileManager.default.copyItem(
                at: original.appending(path: module), to: URL(filePath: sources + "/" + module))
        }
    }

    private func change(_ file: String, _ old: String, _ new: String) throws {
        let path = sources + "/" + file
        let text = try String(contentsOfFile: path, encoding: .utf8)
        try #require(text.contains(old))
        try Data(text.replacingOccurrences(of: old, with: new).utf8).write(to: URL(filePath: path))
    }

    private func check(_ words: String...) throws -> (code: Int32, output: String) {
        let result = try Shell.result([ToolsFolder.path + "/apple"] + words + ["--sources", sources])
        return (result.code, result.output + result.errors)
    }

    @Test(
        "fail the check with their file, line and platform where they do not compile",
        arguments: [
            // A name that a framework does not have.
            (
                "macOS", "Platform/PlatformShop.swift", "await transaction.finish()", "await transaction.done()",
                "no member 'done'"
            ),
            // A branch of one platform.
            (
                "tvOS", "Configuration.swift", "keepsakes = UserDefaultsKeepsakes()", "keepsakes = Nothing()",
                "'Nothing' in scope"
            ),
            // A rule of Swift 6 that only Apple's protocol brings.
            (
                "iOS", "OnymModel.swift", "nonisolated(unsafe) public let objectWillChange",
                "public let objectWillChange",
                "main actor-isolated"
            ),
        ])
    func faults(_ platform: String, _ file: String, _ old: String, _ new: String, _ message: String) throws {
        try change("Onym/" + file, old, new)
        let result = try check(platform)
        #expect(result.code == 1)
        let name = file.replacingOccurrences(of: "/", with: "-")
        #expect(result.output.contains("Onym on \(platform): \(name):"), "\(result.output)")
        #expect(result.output.contains(message), "\(result.output)")
    }

    @Test("are at most 400, in files that the guide names")
    func limits() throws {
        let line = "#if canImport(UIKit)\n    let stray = 1\n#endif\n"
        try change("Onym/Event.swift", "public import Foundation\n", "public import Foundation\n" + line)
        let unnamed = try check()
        #expect(unnamed.code == 1)
        #expect(
            unnamed.output.contains(
                "Onym/Event.swift has 1 lines for Apple's platforms, and docs/sdk.md does not name it"))
        try change("Onym/Event.swift", line, "")
        let many = (0..<400).map { "    let stray\($0) = 1\n" }.joined()
        try change("Onym/Platform/Pin.swift", "import Foundation\n", "import Foundation\n#if os(iOS)\n\(many)#endif\n")
        let result = try check()
        #expect(result.code == 1 && result.output.contains("lines need an Apple framework, and 400 are allowed"))
    }
}
