import Foundation
import TestKit

/// Where the programs for developers are.
enum ToolsFolder {
    static let path = URL(filePath: #filePath).deletingLastPathComponent()
        .appending(path: "../../Tools").standardizedFileURL.path()
}

/// A `swift` that has built tests which do what a script says.
struct FakeTests {
    let folder = TemporaryFolder()
    var environment: [String: String] {
        ["PATH": "\(folder.path):\(ProcessInfo.processInfo.environment["PATH"] ?? "")", "ONYM_TEST_MINUTES": "1"]
    }

    /// - Parameters:
    ///   - script: what is run for a filter, the third word after two of which library the tests are written for.
    ///   - list: the tests that are there.
    init(_ script: String, list: [String] = ["FirstTests.A/ends()", "FirstTests.A/waits()"]) throws {
        try folder.write("swift", "#!/bin/bash\necho '\(folder.path)'\n")
        let names = list.joined(separator: "\n")
        try folder.write(
            "onymPackageTests.xctest",
            """
            #!/bin/bash
            if [ "$3" = --list-tests ]; then echo '\(names)'; exit; fi
            \(script)
            """)
    }
}

extension TemporaryFolder {
    /// Makes a program of a script.
    func write(_ name: String, _ script: String) throws {
        let file = path + "/" + name
        try Data(script.utf8).write(to: URL(filePath: file))
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: file)
    }
}
