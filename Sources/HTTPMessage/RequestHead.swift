import ByteText

/// A request line and its fields, as places in the bytes of the head.
///
/// Every range counts from the first byte of the head, so the head can be kept or moved as one run of bytes.
package struct RequestHead: Equatable, Sendable {
    /// One field, without the white space around its value.
    package struct Field: Equatable, Sendable {
        package var name: Range<Int>
        package var value: Range<Int>
    }

    /// The rule that finds the end of the body.
    package enum Framing: Equatable, Sendable {
        /// Neither Content-Length nor Transfer-Encoding: the message has no body.
        case none
        case length(Int)
        case chunked
    }

    /// The target: a path, or the whole server.
    package enum Target: Equatable, Sendable {
        case path(Range<Int>, query: Range<Int>?)
        case asterisk
    }

    package internal(set) var method = Method.get
    package internal(set) var target = Target.asterisk
    /// The minor version: 0 or 1.
    package internal(set) var minorVersion = 1
    package internal(set) var fields: [Field] = []
    /// A bit for each length below 64 of the fields' names. So the search for a missing field costs nothing.
    var nameLengths: UInt64 = 0
    package internal(set) var framing = Framing.none
    /// Whether the client wants the connection kept after the answer.
    package internal(set) var keepsAlive = true
    /// Whether the client waits for `100 Continue` before it sends the body.
    package internal(set) var expectsContinue = false
    /// The number of bytes of the head, with its last empty line.
    package internal(set) var byteCount = 0

    package init() {}

    /// The place of the value of the first field with a name in lower case; nil if the field does not exist.
    package func value(of name: StaticString, in bytes: borrowing Span<UInt8>) -> Range<Int>? {
        let length = name.utf8CodeUnitCount
        guard nameLengths & 1 << UInt64(length & 63) != 0 else { return nil }
        for field in fields where field.name.count == length {
            if bytes.extracting(field.name).equalsIgnoringCase(name) { return field.value }
        }
        return nil
    }
}
