import Foundation
import TestKit
import Testing

/// Programs that tests run.
@Suite("Programs that tests run")
struct ShellTests {
    private static var openFiles: Int {
        get throws { try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count }
    }

    @Test("leave no file open in the process of the tests")
    func files() throws {
        let before = try ShellTests.openFiles
        for _ in 0..<40 { _ = try Shell.result(["true"]) }
        // Other tests run meanwhile. Three files a run would be 120.
        #expect(try ShellTests.openFiles < before + 60)
    }
}
