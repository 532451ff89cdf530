import Glibc

/// The end of a program that the system gives too little to go on.
package enum Shortage {
    /// Says what is missing, in a line on standard error, and ends the process with exit code 1. Nothing that was acknowledged is
    /// lost by that.
    package static func end(missing what: String) -> Never {
        let line = Array(
            "onym: The system gives no \(what). Raise the limits on memory and threads, or free some memory.\n".utf8)
        _ = unsafe write(STDERR_FILENO, line, line.count)
        _exit(EXIT_FAILURE)
    }
}
