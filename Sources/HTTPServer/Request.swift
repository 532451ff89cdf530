import ByteText
package import HTTPMessage

/// A request with its complete head, and with its body if the route buffers the body.
package struct Request: Sendable {
    package let id: RequestID
    package let head: RequestHead
    /// The bytes to which ``head`` refers.
    private let headBytes: [UInt8]
    /// The decoded parameters of the route's path, in the order of the path.
    package let parameters: [String]
    /// The body, without compression; empty for a route that streams the body.
    package let body: [UInt8]
    /// A number for the address of the peer, which is a proxy's address behind a proxy.
    package let peer: UInt128

    package init(
        id: RequestID, head: RequestHead, headBytes: [UInt8], parameters: [String] = [], body: [UInt8] = [],
        peer: UInt128 = 0
    ) {
        self.peer = peer
        self.id = id
        self.head = head
        self.headBytes = headBytes
        self.parameters = parameters
        self.body = body
    }

    /// Lends the value of the first field with a name in lower case; nil if the field does not exist.
    @inline(__always)
    package func withField<Result>(_ name: StaticString, _ body: (borrowing Span<UInt8>) -> Result) -> Result? {
        let bytes = headBytes.span
        guard let range = head.value(of: name, in: bytes) else { return nil }
        return body(bytes.extracting(range))
    }

    /// The value of the first field with a name in lower case. Bytes that are not UTF-8 become U+FFFD.
    package func field(_ name: StaticString) -> String? {
        withField(name) { value in String(copying: value) }
    }

    package func hasField(_ name: StaticString) -> Bool {
        head.value(of: name, in: headBytes.span) != nil
    }

    /// Lends the path and the query as the client sent them; nil for a request without a path.
    package func withPathAndQuery<Result>(_ body: (borrowing Span<UInt8>) -> Result) -> Result? {
        guard case .path(let path, let query) = head.target else { return nil }
        return body(headBytes.span.extracting(path.lowerBound..<(query ?? path).upperBound))
    }

    /// The path as the client sent it, with its percent-encoding.
    package var rawPath: String {
        guard case .path(let path, _) = head.target else { return "*" }
        return String(copying: headBytes.span.extracting(path))
    }

    /// The query string as the client sent it, without its question mark; nil without a query.
    package var rawQuery: String? {
        guard case .path(_, .some(let query)) = head.target else { return nil }
        return String(copying: headBytes.span.extracting(query))
    }

    /// The parameters of the query string; nil for a malformed escape.
    package var query: Query? {
        guard case .path(_, .some(let query)) = head.target else { return Query() }
        return Query(headBytes.span.extracting(query))
    }
}

/// The id of a request in logs, answers and the journal: the client's own id, or an id made here.
package struct RequestID: Equatable, Sendable {
    /// 128 bits, different for each request.
    package let high: UInt64
    package let low: UInt64
    /// The `X-Request-Id` of the client: 1 to 128 visible ASCII characters.
    package let given: String?

    /// The allowed lengths of a client's own id; an id with another length is replaced.
    package static let givenLength = 1...128

    package init(high: UInt64, low: UInt64, given: String? = nil) {
        self.high = high
        self.low = low
        self.given = given
    }

    /// Takes a client's id, if the id can be repeated safely.
    func named(_ value: borrowing Span<UInt8>) -> RequestID {
        guard RequestID.givenLength.contains(value.count) else { return self }
        for index in value.indices where value[index] <= ASCII.space || value[index] >= 0x7F {
            return self
        }
        return RequestID(high: high, low: low, given: String(copying: value))
    }

    package var text: String {
        var bytes: [UInt8] = []
        bytes.append(self)
        return String(decoding: bytes, as: UTF8.self)
    }
}

extension [UInt8] {
    /// Appends the text of a request's id.
    package mutating func append(_ id: RequestID) {
        if let given = id.given {
            append(copying: given.utf8.span)
        } else {
            append(traceOf: id)
        }
    }

    /// Appends 32 hexadecimal digits that stand for a request, also if the client has its own id.
    package mutating func append(traceOf id: RequestID) {
        append(hexadecimal: id.high, id.low)
    }
}
