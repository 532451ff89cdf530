import Glibc
import Program

/// The environment, as names and values.
private func environment() -> [String: String] {
    var variables: [String: String] = [:]
    var entry = unsafe environ
    while let text = unsafe entry.pointee {
        let pair = unsafe String(cString: text).split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        if pair.count == 2 { variables[String(pair[0])] = String(pair[1]) }
        unsafe entry += 1
    }
    return variables
}

exit(Program.run(Array(CommandLine.arguments.dropFirst()), environment: environment()))
