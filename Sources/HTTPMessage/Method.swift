import ByteText

/// A request method that a route can have. A token that is none of these is still a valid method, which no route has.
package enum Method: UInt8, CaseIterable, Sendable {
    case get, head, post, put, patch, delete, options, other

    /// The method as it stands in a request line; empty for `other`.
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
