import Foundation
import TestKit
import Testing

@Suite("Deliberate mistakes")
struct MutationTests {
    @Test("each patch still applies")
    func apply() throws {
        let root = (0..<3).reduce(URL(filePath: #filePath)) { url, _ in url.deletingLastPathComponent() }
        let process = Process()
        process.executableURL = URL(filePath: root.path() + "Tools/mutate")
        process.arguments = ["--check"]
        let output = Pipe()
        process.standardOutput = output
        try process.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        #expect(process.terminationStatus == 0, "\(text)")
        let patches = try FileManager.default.contentsOfDirectory(atPath: root.path() + "Tests/Mutations")
        #expect(patches.count > 10)
    }
}
