import Foundation

/// Runs other programs.
package enum Shell {
    package struct Failed: Error, CustomStringConvertible {
        package let description: String

        package init(description: String) { self.description = description }
    }

    package struct Result: Sendable {
        package let code: Int32
        package let output: String
        package let errors: String
    }

    /// Runs a program to its end, whatever its exit code. Few programs of a test take longer than the usual limit: then they hang.
    package static func result(
        _ arguments: [String], environment: [String: String]? = nil, folder: String? = nil, input: String = "",
        withinMilliseconds limit: Int = 10 * Patience.milliseconds
    ) throws -> Result {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = arguments
        if let environment {
            process.environment = ProcessInfo.processInfo.environment.merging(environment) { $1 }
        }
        if let folder { process.currentDirectoryURL = URL(filePath: folder) }
        // Files, not pipes: nobody has to read while the program runs.
        let files = TemporaryFolder()
        func file(_ name: String, _ text: String = "") throws -> FileHandle {
            let url = URL(filePath: files.path + "/" + name)
            try Data(text.utf8).write(to: url)
            return try FileHandle(forUpdating: url)
        }
        let (input, output, errors) = (try file("in", input), try file("out"), try file("err"))
        // Foundation keeps the handles of a process for ever. With more than a thousand open files its next start of a process reads
        // beyond the end of a list of them, and can crash.
        defer { for file in [input, output, errors] { try? file.close() } }
        process.standardInput = input
        process.standardOutput = output
        process.standardError = errors
        try process.start()
        let hasEnded = process.end(withinMilliseconds: limit)
        func text(_ name: String) -> String {
            (try? String(decoding: Data(contentsOf: URL(filePath: files.path + "/" + name)), as: UTF8.self)) ?? ""
        }
        guard hasEnded else {
            let words = arguments.joined(separator: " ")
            throw Failed(description: "\(words): killed, for it did not end.\n\(text("out"))\n\(text("err"))")
        }
        return Result(code: process.terminationStatus, output: text("out"), errors: text("err"))
    }

    /// Runs a program that has to succeed; answers what it printed.
    @discardableResult
    package static func run(_ arguments: String...) throws -> String {
        let result = try result(arguments)
        guard result.code == 0 else {
            throw Failed(description: "\(arguments.joined(separator: " ")): \(result.code)\n\(result.errors)")
        }
        return result.output
    }
}
