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

    /// Ends the program if the system does not give it as many bytes in one piece. A program that begins with too little comes to a place
    /// at which nothing can say so: the report of Swift's runtime needs memory itself.
    package static func demand(bytes: Int) {
        guard
            let piece = unsafe mmap(
                nil, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0),
            unsafe piece != MAP_FAILED
        else { end(missing: "memory to start") }
        unsafe munmap(piece, bytes)
    }
}
