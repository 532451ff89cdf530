import Foundation
import TestKit
import Testing

/// The SDK as an app gets it: by the address of the repository and a tag.
@Suite("An app's package", .serialized, .timeLimit(.minutes(15)))
struct AppPackageTests {
    private static let repository = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    @Test("the manifest needs tools 6.0, and systems from iOS 15 on")
    func floors() throws {
        // The folder of the build that runs this test is in use.
        let place = TemporaryFolder()
        let dump = try Shell.result(
            ["swift", "package", "--scratch-path", place.path, "dump-package"],
            folder: AppPackageTests.repository.path)
        let manifest = try #require(
            JSONSerialization.jsonObject(with: Data(dump.output.utf8)) as? [String: Any], "\(dump)")
        let tools = try #require(manifest["toolsVersion"] as? [String: Any])
        #expect(tools["_version"] as? String == "6.0.0")
        let platforms = try #require(manifest["platforms"] as? [[String: Any]])
        let floors = platforms.map { "\($0["platformName"] ?? "") \($0["version"] ?? "")" }
        #expect(Set(floors) == ["ios 15.0", "tvos 15.0", "watchos 8.0", "macos 12.0", "visionos 1.0"])
    }

    /// Names that newer systems than the floors have.
    private static let newNames =
        #"\b(URL\(filePath:|appending\(path|\.(host|path|query|fragment)\(|sleep\(for:|ContinuousClock|SuspendingClock|Duration\b|\.gmt\b|Mutex<|Atomic<|@Observable\b|firstRange\(of|\.replacing\(|Regex<)"#

    @Test("the SDK uses nothing that its oldest systems or its oldest compiler lack")
    func names() throws {
        for target in ["Onym", "OnymMParticle", "OnymOwl", "OnymQonversion", "OnymSentiance", "OnymTesting"] {
            let folder = AppPackageTests.repository.appending(path: "Sources/\(target)")
            let files = try #require(FileManager.default.enumerator(at: folder, includingPropertiesForKeys: nil))
            for case let file as URL in files where file.pathExtension == "swift" {
                for (number, line) in try String(contentsOf: file, encoding: .utf8).components(separatedBy: "\n")
                    .enumerated()
                where !line.drop(while: \.isWhitespace).hasPrefix("//") {
                    let names = [AppPackageTests.newNames, #"(^|[=( ])unsafe [a-z]"#]
                    for name in names where line.range(of: name, options: .regularExpression) != nil {
                        Issue.record("\(file.lastPathComponent):\(number + 1): \(line)")
                    }
                }
            }
        }
    }

    @Test("an app builds with the SDK by address and tag, without any C library, and runs")
    func app() throws {
        let place = TemporaryFolder()
        let copy = place.path + "/onym"
        try FileManager.default.createDirectory(atPath: copy, withIntermediateDirectories: true)
        for part in ["Package.swift", "Sources", "Tests", "Examples", "Benchmarks"] {
            try Shell.run("cp", "-r", AppPackageTests.repository.appending(path: part).path, copy)
        }
        let name = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
        for command in [["init", "-q"], ["add", "."], name + ["commit", "-q", "-m", "all"], ["tag", "0.2.0"]] {
            let done = try Shell.result(["git"] + command, folder: copy)
            try #require(done.code == 0, "\(done)")
        }
        let app = place.path + "/app"
        try FileManager.default.createDirectory(atPath: app + "/Sources/app", withIntermediateDirectories: true)
        try """
        // swift-tools-version: 6.0
        import PackageDescription

        let package = Package(
            name: "app",
            dependencies: [.package(url: "file://\(copy)", exact: "0.2.0")],
            targets: [
                .executableTarget(
                    name: "app",
                    dependencies: [
                        .product(name: "Onym", package: "onym"), .product(name: "Qonversion", package: "onym"),
                    ])
            ])
        """.write(toFile: app + "/Package.swift", atomically: true, encoding: .utf8)
        try """
        import Foundation
        import Onym
        import Qonversion

        let endpoint = URL(string: "http://127.0.0.1:1")!
        let folder = URL(fileURLWithPath: CommandLine.arguments[1])
        let configuration = Configuration(endpoint: endpoint, key: .entitlements(key: "k"), folder: folder)
        let onym = try OnymClient(configuration)
        onym.close()
        // The module's name is not hidden by a type.
        let user: Onym.User? = onym.users.current
        print("Onym \\(OnymClient.version)", user == nil, Qonversion.ErrorCode.unknown.rawValue)
        """.write(toFile: app + "/Sources/app/main.swift", atomically: true, encoding: .utf8)
        // An app has no ONYM_STRICT; with it, SwiftPM refuses the SDK's flags.
        let made = try Shell.result(
            ["env", "-u", "ONYM_STRICT", "PKG_CONFIG_LIBDIR=/nonexistent", "swift", "build"], folder: app)
        try #require(made.code == 0, "\(made)")
        let ran = try Shell.result([app + "/.build/debug/app", place.path + "/files"])
        #expect(ran.output == "Onym 0.2.0 true 0\n", "\(ran)")
    }
}
