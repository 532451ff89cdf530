import ByteText
package import HTTPMessage

/// A request whose head, and body if the route buffers it, are there.
package struct Request: Sendable {
    package let id: RequestID
    package let head: RequestHead
    /// The bytes that ``head`` points into.
    private let headBytes: [UInt8]
    /// The parameters of the route's path, decoded, in the order in which the path has them.
    package let parameters: [String]
    /// The body, inflated where it came compressed; empty where the route streams it.
    package let body: [UInt8]

    package init(id: RequestID, head: RequestHead, headBytes: [UInt8], parameters: [String] = [], body: [UInt8] = []) {
        self.id = id
        self.head = head
        self.headBytes = headBytes
        self.parameters = parameters
        self.body = body
    }

    /// Lends the value of the first field with a name, given in lower case; nil where there is none.
    @inline(__always)
    package func withField<Result>(_ name: StaticString, _ body: (borrowing Span<UInt8>) -> Result) -> Result? {
        let bytes = headBytes.span
        guard let range = head.value(of: name, in: bytes) else { return nil }
        return body(bytes.extracting(range))
    }

    /// The value of the first field with a name, given in lower case. Bytes that are not UTF-8 become U+FFFD.
    package func field(_ name: StaticString) -> String? {
        withField(name) { value in String(copying: value) }
    }

    package func hasField(_ name: StaticString) -> Bool {
        head.value(of: name, in: headBytes.span) != nil
    }

    /// The path as it was received, percent-encoding and all.
    package var rawPath: String {
        guard case .path(let path, _) = head.target else { return "*" }
        return String(copying: headBytes.span.extracting(path))
    }

    /// The query string as it was received, without its question mark; nil where there is none.
    package var rawQuery: String? {
        guard case .path(_, .some(let query)) = head.target else { return nil }
        return String(copying: headBytes.span.extracting(query))
    }

    /// The parameters of the query string; nil where an escape in it is malformed.
    package var query: Query? {
        guard case .path(_, .some(let query)) = head.target else { return Query() }
        return Query(headBytes.span.extracting(query))
    }
}

/// What a request is called in logs, answers and the journal: the client's own name for it, or one made here.
package struct RequestID: Equatable, Sendable {
    /// 128 bits that no other request has.
    fileprivate let high: UInt64
    fileprivate let low: UInt64
    /// The `X-Request-Id` of the client: 1 to 128 visible ASCII characters.
    fileprivate let given: String?

    /// The most characters that a client's own id may have; a longer one is replaced.
    package static let givenLength = 1...128

    package init(high: UInt64, low: UInt64, given: String? = nil) {
        self.high = high
        self.low = low
        self.given = given
    }

    /// Takes a client's id if it is one that can be repeated safely.
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

    /// Appends 32 hexadecimal digits that stand for a request, whatever its client calls it.
    package mutating func append(traceOf id: RequestID) {
        append(hexadecimal: id.high, id.low)
    }
}
