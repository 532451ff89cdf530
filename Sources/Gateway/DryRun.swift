package import HTTPMessage
package import HTTPServer

/// The parameter of calls that can be tried first.
package enum DryRun {
    package static let parameter = Schema.Property(
        "dry_run", .boolean("Whether the call only answers the result, and changes nothing."))
}

extension Request {
    /// Whether the call is a dry run: `?dry_run=true`. A misspelled parameter is refused, so that a call that was meant as a
    /// dry run never changes anything.
    ///
    /// - Parameter refusal: makes the dialect's refusal from a message.
    package borrowing func isDryRun(else refusal: (String) -> Response) throws(Rejection) -> Bool {
        guard let query else { throw Rejection(refusal("The query is malformed.")) }
        switch query["dry_run"] {
        case nil, "false": return false
        case "true": return true
        default: throw Rejection(refusal("dry_run must be true or false."))
        }
    }
}
