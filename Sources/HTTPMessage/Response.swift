import ByteText

/// An answer: what a route makes and a connection writes.
package struct Response: Equatable, Sendable {
    /// One header field, as it goes over the wire, so that one that many answers have is put together once.
    package struct Field: Equatable, Sendable {
        fileprivate let line: [UInt8]

        /// A byte of the value that could end it early becomes a space.
        package init(_ name: String, _ value: String) {
            let value = value.utf8.map { ByteClass.isFieldValue($0) ? $0 : ASCII.space }
            line = Array("\(name): ".utf8) + value + Array("\r\n".utf8)
        }
    }

    /// What a body is.
    package struct ContentType: Equatable, Sendable, ExpressibleByStringLiteral {
        fileprivate let field: Field

        package init(_ text: String) { field = Field("Content-Type", text) }
        package init(stringLiteral text: String) { self.init(text) }
    }

    package var status: Status
    package var contentType: ContentType?
    package var fields: [Field]
    package var body: [UInt8]

    package init(_ status: Status, contentType: ContentType? = nil, fields: [Field] = [], body: [UInt8] = []) {
        self.status = status
        self.contentType = contentType
        self.fields = fields
        self.body = body
    }
}

/// How an answer has to be put so that the client of one request reads it right.
package struct ResponseFraming: Equatable, Sendable {
    /// Whether the connection is kept.
    package var keepsAlive = true
    /// Whether the request was HTTP/1.0, so that keeping the connection has to be said.
    package var isHTTP10 = false
    /// Whether the request was HEAD: then the length is said and the body is not sent.
    package var omitsBody = false

    package init() {}
}

extension Response {
    /// Appends the answer as it goes over the wire, with the fields that the connection adds to it.
    ///
    /// - Parameter length: how long the body is, where it is sent later, piece by piece.
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
