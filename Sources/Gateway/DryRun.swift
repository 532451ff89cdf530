package import HTTPMessage
package import HTTPServer

extension Request {
    /// Whether the caller only wants to know what would be: `?dry_run=true`. Whoever misspells it is refused, and does not do
    /// what they wanted to look at.
    ///
    /// - Parameter refusal: what is wrong, in the dialect's words.
    package borrowing func isDryRun(else refusal: (String) -> Response) throws(Rejection) -> Bool {
        guard let query else { throw Rejection(refusal("The query is malformed.")) }
        switch query["dry_run"] {
        case nil, "false": return false
        case "true": return true
        default: throw Rejection(refusal("dry_run must be true or false."))
        }
    }
}
