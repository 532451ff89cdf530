import ByteText

/// An answer: what a route makes and a connection writes.
package struct Response: Equatable, Sendable {
    /// One header field. Names and values come from the program or have been checked, never straight from a client.
    package struct Field: Equatable, Sendable {
        package let name: String
        package let value: String

        package init(_ name: String, _ value: String) {
            self.name = name
            self.value = value
        }
    }

    package var status: Status
    package var contentType: String?
    package var fields: [Field]
    package var body: [UInt8]

    package init(_ status: Status, contentType: String? = nil, fields: [Field] = [], body: [UInt8] = []) {
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
    package func write(
        to output: inout [UInt8], framing: ResponseFraming, addFields: (inout [UInt8]) -> Void = { _ in }
    ) {
        output.append(copying: status.line.span)
        if let contentType { output.append(field: "Content-Type", contentType) }
        if !status.forbidsBody {
            output.append("Content-Length: ")
            output.append(decimal: body.count)
            output.append("\r\n")
        }
        for field in fields {
            output.append(copying: field.name.utf8.span)
            output.append(field: "", field.value)
        }
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

extension [UInt8] {
    /// Appends a field with its line end; a byte of the value that could end it early is written as a space.
    fileprivate mutating func append(field name: StaticString, _ value: String) {
        append(name)
        append(": ")
        let bytes = value.utf8.span
        if ByteClass.firstForbiddenInFieldValue(bytes, from: 0) == nil {
            append(copying: bytes)
        } else {
            for byte in value.utf8 { append(ByteClass.isFieldValue(byte) ? byte : ASCII.space) }
        }
        append("\r\n")
    }
}
