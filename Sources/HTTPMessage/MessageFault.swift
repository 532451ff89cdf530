/// The reason why this server does not accept bytes as a request. After a fault the connection cannot read further, because
/// the start of the next message is unknown.
package enum MessageFault: Error, Equatable, Sendable {
    /// The bytes break the grammar of HTTP/1.1, or contradict themselves about the end of the message.
    case malformed(Malformation)
    /// The request target is longer than its limit.
    case targetTooLong
    /// The head is longer than its limit, or has too many fields.
    case headTooLarge
    /// The body is longer than its limit.
    case bodyTooLarge
    /// The version is neither 1.0 nor 1.1.
    case unsupportedVersion
    /// The body is in a transfer coding other than chunked.
    case unsupportedTransferCoding
    /// The client expects something other than `100-continue`.
    case unsupportedExpectation

    /// The status of the answer to the client.
    package var status: Status {
        switch self {
        case .malformed: .badRequest
        case .targetTooLong: .uriTooLong
        case .headTooLarge: .requestHeaderFieldsTooLarge
        case .bodyTooLarge: .contentTooLarge
        case .unsupportedVersion: .versionNotSupported
        case .unsupportedTransferCoding: .notImplemented
        case .unsupportedExpectation: .expectationFailed
        }
    }

    /// A sentence for the client's programmer.
    package var message: String {
        switch self {
        case .malformed(let what): what.message
        case .targetTooLong: "The request target is too long."
        case .headTooLarge: "The request head is too large."
        case .bodyTooLarge: "The request body is too large."
        case .unsupportedVersion: "Only HTTP/1.1 and HTTP/1.0 are spoken here."
        case .unsupportedTransferCoding: "Only the transfer coding \"chunked\" is taken, by itself."
        case .unsupportedExpectation: "Only the expectation \"100-continue\" can be met."
        }
    }
}

/// The malformed part.
package enum Malformation: String, Equatable, Sendable {
    case requestLine = "The request line must be a method, a target and a version, with one space between."
    case target = "The request target must begin with a slash, or name a host, and hold only visible ASCII."
    case lineEnd = "Lines end in CR LF; a CR or an LF alone is not taken."
    case fieldName = "A field name must be a token, followed at once by a colon."
    case fieldValue = "A field value must not hold control bytes."
    case foldedField = "A field may not be folded over several lines."
    case host = "An HTTP/1.1 request must have exactly one Host field."
    case contentLength = "Content-Length must be one decimal number."
    case bothLengths = "A request may not have both Content-Length and Transfer-Encoding."
    case transferCodingInHTTP10 = "HTTP/1.0 has no Transfer-Encoding."
    case chunkSize = "A chunk must begin with its size in hexadecimal digits."
    case chunkEnd = "A chunk must end in CR LF after as many bytes as it announced."

    package var message: String { rawValue }
}
