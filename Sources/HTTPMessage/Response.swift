import ByteText

/// An answer: a route makes it, and a connection writes it.
package struct Response: Equatable, Sendable {
    /// One header field in the form of the wire. A field of many answers is made only once.
    package struct Field: Equatable, Sendable {
        fileprivate let line: [UInt8]

        /// Makes a field. A byte of the value that could end the value early becomes a space.
        package init(_ name: String, _ value: String) {
            line = Field.line(name.utf8.span, value.utf8.span)
        }

        /// Makes a field of a value in bytes, in the same way.
        package init(_ name: StaticString, bytes value: [UInt8]) {
            var bytes: [UInt8] = []
            bytes.append(name)
            line = Field.line(bytes.span, value.span)
        }

        private static func line(_ name: borrowing Span<UInt8>, _ value: borrowing Span<UInt8>) -> [UInt8] {
            var line: [UInt8] = []
            line.reserveCapacity(name.count + value.count + 4)
            line.append(copying: name)
            line.append(": ")
            line.append(copying: value)
            var next = name.count + 2
            while let index = ByteClass.firstForbiddenInFieldValue(line.span, from: next) {
                line[index] = ASCII.space
                next = index + 1
            }
            line.append("\r\n")
            return line
        }
    }

    /// The media type of a body.
    package struct ContentType: Equatable, Sendable, ExpressibleByStringLiteral {
        fileprivate let field: Field

        package init(_ text: String) { field = Field("Content-Type", text) }
        package init(stringLiteral text: String) { self.init(text) }
    }

    package var status: Status
    package var contentType: ContentType?
    package var fields: [Field]
    package var body: [UInt8]
    /// The last end of the access that the answer shows, in seconds; nil for an answer without such an end. It is not sent.
    package var accessEndsAt: Int64?
    /// The code of a refusal, for the log of requests; nil for other answers. It is not sent.
    package var code: String?

    package init(_ status: Status, contentType: ContentType? = nil, fields: [Field] = [], body: [UInt8] = []) {
        self.status = status
        self.contentType = contentType
        self.fields = fields
        self.body = body
    }
}

/// The form of an answer that the client of a request can read.
package struct ResponseFraming: Equatable, Sendable {
    /// Whether the connection stays open.
    package var keepsAlive = true
    /// Whether the request was HTTP/1.0: then the answer has to say that the connection stays open.
    package var isHTTP10 = false
    /// Whether the request was HEAD: then the answer names the length and has no body.
    package var omitsBody = false

    package init() {}
}

extension Response {
    /// Appends the answer in the form of the wire, with the fields of the connection.
    ///
    /// - Parameter length: the length of the body, if the body is sent later, piece by piece.
    package func write(
        to output: inout [UInt8], framing: ResponseFraming, length: Int? = nil,
        addFields: (inout [UInt8]) -> Void = { _ in }
    ) {
        output.append(copying: status.line.span)
        if let contentType { output.append(copying: contentType.field.line.span) }
        if !status.forbidsBody {
            output.append("Content-Length: ")
            output.append(decimal: length ?? body.count)
            output.append("\r\n")
        }
        for field in fields { output.append(copying: field.line.span) }
        addFields(&output)
        if !framing.keepsAlive {
            output.append("Connection: close\r\n")
        } else if framing.isHTTP10 {
            output.append("Connection: keep-alive\r\n")
        }
        output.append("\r\n")
        if !framing.omitsBody, !status.forbidsBody { output.append(copying: body.span) }
    }
}
