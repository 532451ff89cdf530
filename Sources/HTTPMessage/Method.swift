import ByteText

/// A request method of routes. Any other token is still a valid method, but no route has it.
package enum Method: UInt8, CaseIterable, Sendable {
    case get, head, post, put, patch, delete, options, other

    /// The method's text in a request line; empty for `other`.
    package var name: StaticString {
        switch self {
        case .get: "GET"
        case .head: "HEAD"
        case .post: "POST"
        case .put: "PUT"
        case .patch: "PATCH"
        case .delete: "DELETE"
        case .options: "OPTIONS"
        case .other: ""
        }
    }

    /// Reads a method; methods are case-sensitive (RFC 9110 9.1).
    init(_ token: borrowing Span<UInt8>) {
        self = .other
        for method in Method.allCases where method != .other && token.equals(method.name) {
            self = method
            return
        }
    }
}
