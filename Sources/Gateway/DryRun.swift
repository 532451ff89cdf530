package import HTTPMessage
package import HTTPServer

/// The parameter of calls that can be tried first.
package enum DryRun {
    package static let parameter = Schema.Property(
        "dry_run", .boolean("Whether the call only answers the result, and changes nothing."))
}

extension Request {
    /// Whether a parameter of the query is `true`; nil if it is there with another value than `true` or `false`.
    package borrowing func flag(_ name: String) -> Bool? {
        switch query?[name] {
        case nil, "false": false
        case "true": true
        default: nil
        }
    }

    /// Whether the call is a dry run: `?dry_run=true`. A misspelled parameter is refused, so that a call that was meant as a
    /// dry run never changes anything.
    ///
    /// - Parameter refusal: makes the dialect's refusal from a message.
    package borrowing func isDryRun(else refusal: (String) -> Response) throws(Rejection) -> Bool {
        if query == nil { throw Rejection(refusal("The query is malformed.")) }
        guard let isDryRun = flag("dry_run") else { throw Rejection(refusal("dry_run must be true or false.")) }
        return isDryRun
    }
}
