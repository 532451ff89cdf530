import ByteText

/// A machine that reads requests: a strict HTTP/1.1 grammar over bytes, without a socket, clock or route.
///
/// The machine gets the unread bytes of a connection, and answers the next event as long as an event exists:
///
///     head ─▶ body, body, … ─▶ end ─▶ head …
///
/// A body event lends a range of the input, so nothing is copied. A refusal is final: every later call throws the same fault.
/// The machine accepts one grammar only: lines end in CR LF, a message has one length, chunk sizes are digits. Attackers
/// smuggle requests where two readers disagree about the end of a message.
package struct RequestParser: Sendable {
    /// The limits of reading.
    package struct Limits: Equatable, Sendable {
        /// The greatest number of bytes of a head, with its request line.
        package var headBytes = 16 * 1024
        /// The greatest number of bytes of a request target.
        package var targetBytes = 8 * 1024
        /// The greatest number of fields of a head.
        package var fields = 100
        /// The greatest number of bytes for chunk extensions and trailers in a chunked body.
        package var chunkOverheadBytes = 16 * 1024

        package init() {}
    }

    package enum Event: Equatable, Sendable {
        /// The head is complete, in ``RequestParser/head``; it is `byteCount` bytes long and ends at `offset`.
        case head
        /// Bytes of the body, as a range of the input.
        case body(Range<Int>)
        /// The message is complete.
        case end
    }

    private enum State: Equatable {
        /// Before or inside a head; its first `scanned` bytes contain no end.
        case head(scanned: Int)
        case length(remaining: Int)
        case chunkSize
        case chunkData(remaining: Int)
        case chunkEnd
        case trailers
        case end
        case failed(MessageFault)
    }

    /// The head of the current message.
    package private(set) var head = RequestHead()
    /// The greatest number of bytes of this message's body. Set it after the head event; every head resets it.
    package var bodyLimit = Int.max

    private let limits: Limits
    private var state = State.head(scanned: 0)
    /// The line feeds at the ends of the current head's lines, counted from the head's first byte.
    private var lineFeeds: [Int] = []
    private var bodyBytes = 0
    private var chunkOverhead = 0

    package init(limits: Limits = Limits()) {
        self.limits = limits
    }

    /// Whether the machine is between two messages.
    package var isIdle: Bool { state == .head(scanned: 0) }

    /// Reads from `offset`, and moves `offset` past the consumed bytes.
    ///
    /// Answers nil if it needs more bytes. The next input must then begin with the bytes from `offset` on.
    package mutating func next(
        in input: borrowing Span<UInt8>, from offset: inout Int
    ) throws(MessageFault) -> Event? {
        do throws(MessageFault) {
            return try step(input, &offset)
        } catch {
            state = .failed(error)
            throw error
        }
    }

    private mutating func step(_ input: borrowing Span<UInt8>, _ offset: inout Int) throws(MessageFault) -> Event? {
        while true {
            switch state {
            case .head(let scanned):
                guard let end = try endOfHead(input, &offset, scanned) else { return nil }
                try readHead(input.extracting(offset..<end))
                offset = end
                (bodyBytes, chunkOverhead, bodyLimit) = (0, 0, .max)
                state =
                    switch head.framing {
                    case .none: .end
                    case .length(let length): length == 0 ? .end : .length(remaining: length)
                    case .chunked: .chunkSize
                    }
                return .head

            case .length(let remaining):
                guard remaining <= bodyLimit - bodyBytes else { throw .bodyTooLarge }
                guard let range = take(remaining, input, &offset) else { return nil }
                state = range.count == remaining ? .end : .length(remaining: remaining - range.count)
                return .body(range)

            case .chunkSize:
                guard let line = try line(input, &offset, limit: .chunkSize) else { return nil }
                let size = try chunkSize(input.extracting(line))
                guard size <= bodyLimit - bodyBytes else { throw .bodyTooLarge }
                state = size == 0 ? .trailers : .chunkData(remaining: size)

            case .chunkData(let remaining):
                guard let range = take(remaining, input, &offset) else { return nil }
                state = range.count == remaining ? .chunkEnd : .chunkData(remaining: remaining - range.count)
                return .body(range)

            case .chunkEnd:
                guard offset < input.count else { return nil }
                guard input[offset] == ASCII.carriageReturn else { throw .malformed(.chunkEnd) }
                guard offset + 1 < input.count else { return nil }
                guard input[offset + 1] == ASCII.lineFeed else { throw .malformed(.chunkEnd) }
                offset += 2
                state = .chunkSize

            case .trailers:
                guard let line = try line(input, &offset, limit: .lineEnd) else { return nil }
                // Every trailer has a cost, also a short one.
                chunkOverhead += 9
                if line.isEmpty {
                    state = .end
                } else {
                    // Trailers are checked and dropped, because no route uses them.
                    try _ = field(input.extracting(line))
                }

            case .end:
                state = .head(scanned: 0)
                return .end

            case .failed(let fault):
                throw fault
            }
        }
    }

    /// Consumes up to `most` bytes; nil if the input has no bytes.
    private mutating func take(_ most: Int, _ input: borrowing Span<UInt8>, _ offset: inout Int) -> Range<Int>? {
        let count = min(most, input.count - offset)
        guard count > 0 else { return nil }
        defer { offset += count }
        bodyBytes += count
        return offset..<offset + count
    }

    // MARK: - Head

    /// Finds the end of the head that begins at `offset`, and reads only new bytes.
    private mutating func endOfHead(
        _ input: borrowing Span<UInt8>, _ offset: inout Int, _ scanned: Int
    ) throws(MessageFault) -> Int? {
        var index = offset + scanned
        // RFC 9112 2.2: empty lines before a request line are ignored.
        while index == offset, index < input.count {
            guard input[index] == ASCII.carriageReturn else {
                break
            }
            guard index + 1 < input.count else { return nil }
            guard input[index + 1] == ASCII.lineFeed else { throw .malformed(.lineEnd) }
            offset += 2
            index = offset
        }
        if index == offset { lineFeeds.removeAll(keepingCapacity: true) }
        // Limits come before the grammar, so that the way in which a head was split does not change its refusal.
        while let lineFeed = input.firstIndex(of: ASCII.lineFeed, from: index) {
            if index == offset, lineFeed - offset > limits.targetBytes + 32 { throw .targetTooLong }
            if lineFeed - offset >= limits.headBytes { throw .headTooLarge }
            guard lineFeed > offset, input[lineFeed - 1] == ASCII.carriageReturn else {
                throw .malformed(.lineEnd)
            }
            if let last = lineFeeds.last, lineFeed - offset == last + 2 { return lineFeed + 1 }
            lineFeeds.append(lineFeed - offset)
            index = lineFeed + 1
        }
        let pending = input.count - offset
        if pending > limits.targetBytes + 32, index == offset { throw .targetTooLong }
        if pending >= limits.headBytes { throw .headTooLarge }
        // Before the end of the first line, the next call reads the request line from its start. That costs at most the
        // target's limit once per read, and it makes the check above concern the request line only.
        state = .head(scanned: index - offset)
        return nil
    }

    private mutating func readHead(_ bytes: borrowing Span<UInt8>) throws(MessageFault) {
        head.fields.removeAll(keepingCapacity: true)
        head.nameLengths = 0
        head.framing = .none
        head.expectsContinue = false
        head.byteCount = bytes.count

        guard let requestLine = lineFeeds.first else { throw .malformed(.requestLine) }
        try readRequestLine(bytes, end: requestLine - 1)
        head.keepsAlive = head.minorVersion == 1

        var framing = FramingFields()
        var start = requestLine + 1
        for lineFeed in lineFeeds.dropFirst() {
            if head.fields.count == limits.fields { throw .headTooLarge }
            let first = bytes[start]
            if first == ASCII.space || first == ASCII.tab { throw .malformed(.foldedField) }
            let line = try field(bytes.extracting(start..<lineFeed - 1))
            let field = RequestHead.Field(
                name: line.name.lowerBound + start..<line.name.upperBound + start,
                value: line.value.lowerBound + start..<line.value.upperBound + start)
            head.fields.append(field)
            head.nameLengths |= 1 << UInt64(field.name.count & 63)
            try framing.read(field, bytes, into: &head)
            start = lineFeed + 1
        }
        try framing.settle(&head)
    }

    /// Reads `method SP target SP HTTP/1.x`, which ends before `end`.
    private mutating func readRequestLine(_ bytes: borrowing Span<UInt8>, end: Int) throws(MessageFault) {
        guard let methodEnd = bytes.firstIndex(of: ASCII.space, in: 0..<end), methodEnd > 0 else {
            throw .malformed(.requestLine)
        }
        for index in 0..<methodEnd where !ByteClass.isToken(bytes[index]) {
            throw .malformed(.requestLine)
        }
        head.method = Method(bytes.extracting(0..<methodEnd))

        let targetStart = methodEnd + 1
        var targetEnd = targetStart
        while targetEnd < end, bytes[targetEnd] != ASCII.space {
            guard ByteClass.isTarget(bytes[targetEnd]) else { throw .malformed(.target) }
            targetEnd += 1
        }
        if targetEnd - targetStart > limits.targetBytes { throw .targetTooLong }
        guard targetEnd > targetStart, targetEnd < end else { throw .malformed(.requestLine) }
        head.target = try target(bytes, targetStart..<targetEnd)

        let version = bytes.extracting(targetEnd + 1..<end)
        guard version.count == 8, version.extracting(0..<5).equals("HTTP/") else { throw .malformed(.requestLine) }
        if version.equals("HTTP/1.1") {
            head.minorVersion = 1
        } else if version.equals("HTTP/1.0") {
            head.minorVersion = 0
        } else {
            throw .unsupportedVersion
        }
    }

    /// Splits a target into path and query. RFC 9112 3.2.2 demands that the absolute form is accepted; its host is not kept,
    /// because nothing depends on the client's choice of host.
    private func target(
        _ bytes: borrowing Span<UInt8>, _ range: Range<Int>
    ) throws(MessageFault) -> RequestHead.Target {
        var path = range
        if bytes[range.lowerBound] != UInt8(ascii: "/") {
            if bytes.extracting(range).equals("*") { return .asterisk }
            var authority = range.lowerBound
            for scheme: StaticString in ["http://", "https://"]
            where range.count > scheme.utf8CodeUnitCount
                && bytes.extracting(range.lowerBound..<range.lowerBound + scheme.utf8CodeUnitCount)
                    .equalsIgnoringCase(scheme)
            {
                authority += scheme.utf8CodeUnitCount
            }
            guard authority > range.lowerBound,
                let slash = bytes.firstIndex(of: UInt8(ascii: "/"), in: authority..<range.upperBound),
                slash > authority
            else { throw .malformed(.target) }
            path = slash..<range.upperBound
        }
        guard let mark = bytes.firstIndex(of: UInt8(ascii: "?"), in: path) else { return .path(path, query: nil) }
        return .path(path.lowerBound..<mark, query: mark + 1..<path.upperBound)
    }

    /// Reads `name: value`, a line without its end.
    private func field(_ line: borrowing Span<UInt8>) throws(MessageFault) -> RequestHead.Field {
        var colon = 0
        while colon < line.count, ByteClass.isToken(line[colon]) { colon += 1 }
        guard colon > 0, colon < line.count, line[colon] == UInt8(ascii: ":") else {
            throw .malformed(.fieldName)
        }
        if let index = ByteClass.firstForbiddenInFieldValue(line, from: colon + 1) {
            throw .malformed(line[index] == ASCII.carriageReturn ? .lineEnd : .fieldValue)
        }
        return RequestHead.Field(name: 0..<colon, value: line.trimming(colon + 1..<line.count))
    }

    // MARK: - Chunks

    /// Takes one line from the input; the range has no CR LF. Chunk lines and trailers share one allowance.
    private mutating func line(
        _ input: borrowing Span<UInt8>, _ offset: inout Int, limit malformation: Malformation
    ) throws(MessageFault) -> Range<Int>? {
        let lineFeed = input.firstIndex(of: ASCII.lineFeed, from: offset)
        // A size line of up to eight digits is the normal cost of a chunk; longer lines use the allowance.
        let overhead = chunkOverhead + max(0, (lineFeed ?? input.count) - offset - 9)
        if overhead > limits.chunkOverheadBytes { throw .headTooLarge }
        guard let lineFeed else { return nil }
        guard lineFeed > offset, input[lineFeed - 1] == ASCII.carriageReturn else {
            throw .malformed(malformation)
        }
        chunkOverhead = overhead
        defer { offset = lineFeed + 1 }
        return offset..<lineFeed - 1
    }

    /// Reads `size [;extension]`. Extensions are checked and ignored.
    private func chunkSize(_ line: borrowing Span<UInt8>) throws(MessageFault) -> Int {
        var size = 0
        var digits = 0
        while digits < line.count, let digit = ASCII.hexadecimal(line[digits]) {
            guard digits < 15 else { throw .malformed(.chunkSize) }
            size = size << 4 | Int(digit)
            digits += 1
        }
        guard digits > 0 else { throw .malformed(.chunkSize) }
        let rest = line.trimming(digits..<line.count)
        if !rest.isEmpty {
            guard line[rest.lowerBound] == UInt8(ascii: ";") else { throw .malformed(.chunkSize) }
            if ByteClass.firstForbiddenInFieldValue(line, from: rest.lowerBound) != nil { throw .malformed(.chunkSize) }
        } else if digits != line.count {
            throw .malformed(.chunkSize)
        }
        return size
    }
}

/// The fields that decide the end of the message and the future of the connection.
private struct FramingFields {
    private var hosts = 0
    private var length: Int?
    private var isChunked = false
    private var (closes, keeps) = (false, false)

    mutating func read(
        _ field: RequestHead.Field, _ bytes: borrowing Span<UInt8>, into head: inout RequestHead
    ) throws(MessageFault) {
        let name = bytes.extracting(field.name)
        let value = bytes.extracting(field.value)
        switch name.count {
        case 4 where name.equalsIgnoringCase("host"):
            hosts += 1
        case 6 where name.equalsIgnoringCase("expect"):
            guard value.equalsIgnoringCase("100-continue") else { throw .unsupportedExpectation }
            head.expectsContinue = head.minorVersion == 1
        case 10 where name.equalsIgnoringCase("connection"):
            readConnection(value)
        case 14 where name.equalsIgnoringCase("content-length"):
            guard length == nil else { throw .malformed(.contentLength) }
            length = try contentLength(value)
        case 17 where name.equalsIgnoringCase("transfer-encoding"):
            if head.minorVersion == 0 { throw .malformed(.transferCodingInHTTP10) }
            guard !isChunked, value.equalsIgnoringCase("chunked") else { throw .unsupportedTransferCoding }
            isChunked = true
        default:
            break
        }
    }

    /// Decides after all fields.
    func settle(_ head: inout RequestHead) throws(MessageFault) {
        if length != nil, isChunked { throw .malformed(.bothLengths) }
        if closes {
            head.keepsAlive = false
        } else if keeps {
            head.keepsAlive = true
        }
        if hosts > 1 || hosts == 0 && head.minorVersion == 1 { throw .malformed(.host) }
        if isChunked {
            head.framing = .chunked
        } else if let length {
            head.framing = .length(length)
        }
    }

    private func contentLength(_ value: borrowing Span<UInt8>) throws(MessageFault) -> Int {
        guard !value.isEmpty, value.count <= 18 else { throw .malformed(.contentLength) }
        var length = 0
        for index in value.indices {
            let digit = value[index] &- UInt8(ascii: "0")
            guard digit <= 9 else { throw .malformed(.contentLength) }
            length = length * 10 + Int(digit)
        }
        return length
    }

    /// Reads a list of options. "close" counts more than "keep-alive", in any order and in any number of fields.
    private mutating func readConnection(_ value: borrowing Span<UInt8>) {
        var start = 0
        while start <= value.count {
            let end = value.firstIndex(of: UInt8(ascii: ","), in: start..<value.count) ?? value.count
            let option = value.extracting(value.trimming(start..<end))
            if option.equalsIgnoringCase("close") { closes = true }
            if option.equalsIgnoringCase("keep-alive") { keeps = true }
            start = end + 1
        }
    }
}
