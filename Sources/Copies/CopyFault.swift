import Glibc

/// The reason why a copy could not be written, read or restored, in a sentence for the operator.
package struct CopyFault: Error, Equatable, Sendable, CustomStringConvertible {
    package let description: String

    package init(_ description: String) { self.description = description }

    /// A failed call to the system, with its message.
    static func system(_ what: String) -> CopyFault {
        CopyFault("\(what): \(unsafe String(cString: strerror(errno))).")
    }
}
