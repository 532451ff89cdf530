/// The reason why bytes are not the expected JSON.
package struct JSONFault: Error, Equatable, Sendable {
    package enum Problem: Equatable, Sendable {
        case malformed
        case empty
        case notUTF8
        case tooDeep
        case badNumber
        case tooLarge
        /// A value has the wrong kind, or is out of its range: "must be a string".
        case wrong(String)
    }

    /// The place of the value, like `known_identities.email`; nil for the document itself.
    package let path: String?
    package let problem: Problem

    package init(_ problem: Problem, at path: String? = nil) {
        self.problem = problem
        self.path = path
    }

    /// A sentence for the client's programmer.
    package var message: String {
        switch problem {
        case .malformed: "The body is not valid JSON."
        case .empty: "The body is empty; it must be a JSON document."
        case .notUTF8: "The body is not valid UTF-8."
        case .tooDeep: "The body is nested too deep."
        case .badNumber: "The body has a number that is malformed, or that does not fit a 64-bit integer or a double."
        case .tooLarge: "The body is too large."
        case .wrong(let demand): "\(path ?? "the body") \(demand)"
        }
    }
}
