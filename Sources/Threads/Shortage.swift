import Glibc

/// Ends the program if the system does not provide enough resources.
package enum Shortage {
    /// Names the missing resource in a line on standard error, and ends the process with exit code 1. No acknowledged call is
    /// lost.
    package static func end(missing what: String) -> Never {
        let line = Array(
            "onym: The system gives no \(what). Raise the limits on memory and threads, or free some memory.\n".utf8)
        _ = unsafe write(STDERR_FILENO, line, line.count)
        _exit(EXIT_FAILURE)
    }
}
