import ByteText

/// The machine that reads requests: a strict HTTP/1.1 grammar over bytes, with no socket, clock or route in it.
///
/// It is fed the unread bytes of a connection and answers with the next event, as often as there is one:
///
///     head ─▶ body, body, … ─▶ end ─▶ head …
///
/// A body event lends a range of the input, so nothing is copied. What the machine refuses it refuses for good: every
/// later call throws the same fault. It takes one grammar only, because two readers of a message that disagree on where
/// it ends are how requests are smuggled: lines end in CR LF, one length is given, chunk sizes are digits.
package struct RequestParser: Sendable {
    /// What may be read.
    package struct Limits: Equatable, Sendable {
        /// The bytes of a head, its request line included.
        package var headBytes = 16 * 1024
        /// The bytes of a request target.
        package var targetBytes = 8 * 1024
        /// The fields of a head.
        package var fields = 100
        /// The bytes that a chunked body may spend on chunk extensions and trailers.
        package var chunkOverheadBytes = 16 * 1024

        package init() {}
    }

    package enum Event: Equatable, Sendable {
        /// The head is complete and stands in ``RequestParser/head``; it is `byteCount` bytes long and ends at `offset`.
        case head
        /// Bytes of the body, as a range of the input.
        case body(Range<Int>)
        /// The message is complete.
        case end
    }

    private enum State: Equatable {
        /// Before or inside a head, of which `scanned` bytes hold no end.
        case head(scanned: Int)
        case length(remaining: Int)
        case chunkSize
        case chunkData(remaining: Int)
        case chunkEnd
        case trailers
        case end
        case failed(MessageFault)
    }

    /// The head of the message being read.
    package private(set) var head = RequestHead()
    /// The most bytes that the body of this message may have. Set it after the head event; every head resets it.
    package var bodyLimit = Int.max

    private let limits: Limits
    private var state = State.head(scanned: 0)
    /// Where the lines of the head that is being read end, each by its line feed, counted from the head's first byte.
    private var lineFeeds: [Int] = []
    private var bodyBytes = 0
    private var chunkOverhead = 0

    package init(limits: Limits = Limits()) {
        self.limits = limits
    }

    /// Whether the machine stands between two messages.
    package var isIdle: Bool { state == .head(scanned: 0) }

    /// Reads on from `offset`, which it moves past what it has consumed.
    ///
    /// Answers nil when more bytes are needed; then the bytes from `offset` on must be there again, at the front of a
    /// longer input.
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
                // However short, a trailer costs.
                chunkOverhead += 9
                if line.isEmpty {
                    state = .end
                } else {
                    // Trailers are checked and dropped: no route of ours has a use for one.
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

    /// Consumes up to `most` bytes that are there; nil if there are none.
    private mutating func take(_ most: Int, _ input: borrowing Span<UInt8>, _ offset: inout Int) -> Range<Int>? {
        let count = min(most, input.count - offset)
        guard count > 0 else { return nil }
        defer { offset += count }
        bodyBytes += count
        return offset..<offset + count
    }

    // MARK: - Head

    /// Finds where the head that begins at `offset` ends, looking only at bytes that were not there before.
    private mutating func endOfHead(
        _ input: borrowing Span<UInt8>, _ offset: inout Int, _ scanned: Int
    ) throws(MessageFault) -> Int? {
        var index = offset + scanned
        // RFC 9112 2.2: empty lines before a request line are passed over. They count for nothing, nor are they kept.
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
        // Limits come before the grammar, so that a head is refused for the same reason however it was cut.
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
        // Where no line has ended yet, the next call looks at the request line from its start: once more per read, and
        // no more than the target's limit, so that the limit above is seen to belong to the request line.
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

    /// Splits a target into path and query. The absolute form is taken as RFC 9112 3.2.2 demands; its host is not kept,
    /// because nothing here depends on the host that a client names.
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

    /// Takes one line off the input; the range leaves out its CR LF. Chunk lines and trailers share one allowance.
    private mutating func line(
        _ input: borrowing Span<UInt8>, _ offset: inout Int, limit malformation: Malformation
    ) throws(MessageFault) -> Range<Int>? {
        let lineFeed = input.firstIndex(of: ASCII.lineFeed, from: offset)
        // A size line of up to eight digits is what chunking costs; whatever is longer draws on the allowance.
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

/// The fields that decide where the message ends and what becomes of the connection.
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

    /// Decides once all fields have been seen.
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

    /// Reads a list of options; "close" wins over "keep-alive", whatever their order, and in however many fields.
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
