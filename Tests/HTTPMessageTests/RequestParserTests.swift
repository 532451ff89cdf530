import HTTPMessage
import Testing

@Suite("The request machine")
struct RequestParserTests {
    @Test("reads a request with a body")
    func readsARequest() {
        let dialogue = Dialogue(
            "POST /v1/identify?read_only=true HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
                + "Content-Length: 2\r\n\r\n{}")
        #expect(
            dialogue.messages == [
                .init(
                    line: "post /v1/identify?read_only=true 1.1 length(2) keep=true",
                    fields: ["Host: a", "Content-Type: application/json", "Content-Length: 2"], body: "{}",
                    isComplete: true)
            ])
        #expect(dialogue.endedBetweenMessages)
    }

    @Test("puts chunks together and drops trailers")
    func readsChunks() {
        let dialogue = Dialogue(
            "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                + "5\r\nhello\r\n7;x=y\r\n, world\r\n0\r\nX-Late: 1\r\n\r\n")
        #expect(dialogue.messages.map(\.body) == ["hello, world"])
        #expect(dialogue.messages.map(\.isComplete) == [true])
        #expect(dialogue.messages[0].fields.count == 2)
    }

    @Test("reads the same however the bytes are cut", arguments: Corpus.valid)
    func cutAnywhere(_ text: String) {
        let bytes = Array(text.utf8)
        let whole = Dialogue([bytes])
        #expect(whole.fault == nil)
        #expect(whole.endedBetweenMessages, "\(whole)")
        #expect(Dialogue(bytes.map { [$0] }) == whole, "one byte at a time")
        for place in 1..<bytes.count {
            #expect(Dialogue([Array(bytes[..<place]), Array(bytes[place...])]) == whole, "cut at \(place)")
        }
    }

    @Test("reads the same when messages follow each other at once")
    func joined() {
        let all = Dialogue(Corpus.valid.joined())
        #expect(all.fault == nil)
        #expect(all.messages == Corpus.valid.flatMap { Dialogue($0).messages })
    }

    @Test("knows which connections are kept")
    func keepsConnections() {
        func keeps(_ head: String) -> Bool { Dialogue(head + "\r\n\r\n").messages[0].line.hasSuffix("keep=true") }
        #expect(keeps("GET / HTTP/1.1\r\nHost: a"))
        #expect(!keeps("GET / HTTP/1.1\r\nHost: a\r\nConnection: close"))
        #expect(!keeps("GET / HTTP/1.1\r\nHost: a\r\nConnection: Close, keep-alive"))
        #expect(!keeps("GET / HTTP/1.0\r\nHost: a"))
        #expect(keeps("GET / HTTP/1.0\r\nConnection: Keep-Alive"))
    }

    // MARK: - Refusals

    struct Refused: CustomTestStringConvertible {
        let name: String
        let text: String
        let fault: MessageFault

        var testDescription: String { name }

        init(_ name: String, _ text: String, _ fault: MessageFault) {
            self.name = name
            self.text = text
            self.fault = fault
        }
    }

    static let refused: [Refused] = [
        Refused("no target", "GET HTTP/1.1\r\nHost: a\r\n\r\n", .malformed(.requestLine)),
        Refused("no version", "GET /\r\nHost: a\r\n\r\n", .malformed(.requestLine)),
        Refused("two spaces", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", .malformed(.requestLine)),
        Refused("a space after the version", "GET / HTTP/1.1 \r\nHost: a\r\n\r\n", .malformed(.requestLine)),
        Refused("a method that is no token", "G(T / HTTP/1.1\r\nHost: a\r\n\r\n", .malformed(.requestLine)),
        Refused("no method", " / HTTP/1.1\r\nHost: a\r\n\r\n", .malformed(.requestLine)),
        Refused("a relative target", "GET x HTTP/1.1\r\nHost: a\r\n\r\n", .malformed(.target)),
        Refused("a target of another scheme", "GET ftp://a/b HTTP/1.1\r\nHost: a\r\n\r\n", .malformed(.target)),
        Refused("a target without a path", "GET http://a HTTP/1.1\r\nHost: a\r\n\r\n", .malformed(.target)),
        Refused("a fragment", "GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", .malformed(.target)),
        Refused("a control byte in the target", "GET /a\u{1}b HTTP/1.1\r\nHost: a\r\n\r\n", .malformed(.target)),
        Refused("a byte above ASCII in the target", "GET /é HTTP/1.1\r\nHost: a\r\n\r\n", .malformed(.target)),
        Refused("lower-case http", "GET / http/1.1\r\nHost: a\r\n\r\n", .malformed(.requestLine)),
        Refused("HTTP/2.0", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", .unsupportedVersion),
        Refused("HTTP/1.2", "GET / HTTP/1.2\r\nHost: a\r\n\r\n", .unsupportedVersion),
        Refused("a bare LF after the request line", "GET / HTTP/1.1\nHost: a\r\n\r\n", .malformed(.lineEnd)),
        Refused("a bare LF after a field", "GET / HTTP/1.1\r\nHost: a\n\r\n", .malformed(.lineEnd)),
        Refused("a bare LF that ends the head", "GET / HTTP/1.1\r\nHost: a\r\n\n", .malformed(.lineEnd)),
        Refused("a bare LF before the request", "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", .malformed(.lineEnd)),
        Refused("a bare CR in a field", "GET / HTTP/1.1\r\nHost: a\rb\r\n\r\n", .malformed(.lineEnd)),
        Refused("a folded field", "GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n 2\r\n\r\n", .malformed(.foldedField)),
        Refused(
            "a field folded by a tab", "GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n\t2\r\n\r\n", .malformed(.foldedField)),
        Refused("a space before the colon", "GET / HTTP/1.1\r\nHost : a\r\n\r\n", .malformed(.fieldName)),
        Refused("a field without a name", "GET / HTTP/1.1\r\nHost: a\r\n: x\r\n\r\n", .malformed(.fieldName)),
        Refused("a field without a colon", "GET / HTTP/1.1\r\nHost: a\r\nxyz\r\n\r\n", .malformed(.fieldName)),
        Refused("a NUL in a value", "GET / HTTP/1.1\r\nHost: a\r\nX: a\u{0}b\r\n\r\n", .malformed(.fieldValue)),
        Refused("a DEL in a value", "GET / HTTP/1.1\r\nHost: a\r\nX: a\u{7F}b\r\n\r\n", .malformed(.fieldValue)),
        Refused("no host", "GET / HTTP/1.1\r\nX: 1\r\n\r\n", .malformed(.host)),
        Refused("two hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", .malformed(.host)),
        Refused(
            "both lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
            .malformed(.bothLengths)),
        Refused(
            "both lengths, the other way round",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
            .malformed(.bothLengths)),
        Refused(
            "two lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n",
            .malformed(.contentLength)),
        Refused(
            "a list of lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3, 3\r\n\r\n",
            .malformed(.contentLength)),
        Refused(
            "a signed length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +3\r\n\r\n", .malformed(.contentLength)),
        Refused(
            "a negative length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -3\r\n\r\n", .malformed(.contentLength)),
        Refused(
            "a length in hexadecimal", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x3\r\n\r\n",
            .malformed(.contentLength)),
        Refused("an empty length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n", .malformed(.contentLength)),
        Refused(
            "a length past all bounds", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n",
            .malformed(.contentLength)),
        Refused(
            "another coding", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
            .unsupportedTransferCoding),
        Refused(
            "a coding before chunked", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            .unsupportedTransferCoding),
        Refused(
            "chunked twice",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
            .unsupportedTransferCoding),
        Refused(
            "a coding that looks like chunked", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n",
            .unsupportedTransferCoding),
        Refused(
            "chunked in HTTP/1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
            .malformed(.transferCodingInHTTP10)),
        Refused("another expectation", "POST / HTTP/1.1\r\nHost: a\r\nExpect: tea\r\n\r\n", .unsupportedExpectation),
        chunks("no size", "\r\nabc", .malformed(.chunkSize)),
        chunks("a size that is no number", "xyz\r\n", .malformed(.chunkSize)),
        chunks("a negative size", "-1\r\n", .malformed(.chunkSize)),
        chunks("a size with 0x", "0x3\r\nabc\r\n", .malformed(.chunkSize)),
        chunks("a space before the size", " 3\r\nabc\r\n", .malformed(.chunkSize)),
        chunks("a space after the size", "3 \r\nabc\r\n", .malformed(.chunkSize)),
        chunks("a size past all bounds", "FFFFFFFFFFFFFFFFF\r\n", .malformed(.chunkSize)),
        chunks("a bare LF after the size", "3\nabc\r\n", .malformed(.chunkSize)),
        chunks("a control byte in an extension", "3;a\u{1}\r\nabc\r\n", .malformed(.chunkSize)),
        chunks("more than it announced", "3\r\nabcd\r\n", .malformed(.chunkEnd)),
        chunks("a bare LF after the data", "3\r\nabc\n", .malformed(.chunkEnd)),
        chunks("a bare CR after the data", "3\r\nabc\rx", .malformed(.chunkEnd)),
        chunks("a trailer without a colon", "0\r\nabc\r\n\r\n", .malformed(.fieldName)),
        chunks("a bare LF after a trailer", "0\r\nA: b\n\r\n", .malformed(.lineEnd)),
    ]

    private static func chunks(_ name: String, _ body: String, _ fault: MessageFault) -> Refused {
        Refused("chunks: \(name)", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\(body)", fault)
    }

    @Test("refuses what the grammar does not allow, however the bytes are cut", arguments: refused)
    func refuses(_ refused: Refused) {
        let bytes = Array(refused.text.utf8)
        #expect(Dialogue([bytes]).fault == refused.fault)
        #expect(Dialogue(bytes.map { [$0] }).fault == refused.fault, "one byte at a time")
    }

    @Test("stays refused")
    func staysRefused() {
        var parser = RequestParser()
        var offset = 0
        let bad = Array("GET / HTTP/1.1\nHost: a\r\n\r\n".utf8)
        let good = Array("GET / HTTP/1.1\r\nHost: a\r\n\r\n".utf8)
        #expect(throws: MessageFault.malformed(.lineEnd)) { _ = try parser.next(in: bad.span, from: &offset) }
        offset = 0
        #expect(throws: MessageFault.malformed(.lineEnd)) { _ = try parser.next(in: good.span, from: &offset) }
    }

    @Test("lets close win over keep-alive, in one field or in several")
    func closeWins() {
        for fields in [
            "Connection: close, keep-alive\r\n", "Connection: close\r\nConnection: keep-alive\r\n",
            "Connection: keep-alive\r\nConnection: close\r\n",
        ] {
            let line = Dialogue("GET / HTTP/1.1\r\nHost: a\r\n\(fields)\r\n").messages[0].line
            #expect(line.hasSuffix("keep=false"), "\(fields)")
        }
    }

    @Test("limits short trailers too")
    func limitsTrailers() {
        let start = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
        #expect(Dialogue(start + String(repeating: "a:b\r\n", count: 10_000)).fault == .headTooLarge)
    }

    // MARK: - Limits

    @Test("refuses a head that is too large, before it is complete")
    func limitsHeads() {
        var limits = RequestParser.Limits()
        limits.headBytes = 128
        limits.targetBytes = 64
        let fits = "GET / HTTP/1.1\r\nHost: a\r\nX: " + String(repeating: "x", count: 95) + "\r\n\r\n"
        #expect(fits.utf8.count == 127)
        #expect(Dialogue(fits, limits: limits).fault == nil)
        #expect(
            Dialogue("GET / HTTP/1.1\r\nHost: a\r\nX: " + String(repeating: "x", count: 200), limits: limits).fault
                == .headTooLarge)
        #expect(Dialogue("GET /" + String(repeating: "x", count: 200), limits: limits).fault == .targetTooLong)
        #expect(
            Dialogue("GET /" + String(repeating: "x", count: 64) + " HTTP/1.1\r\nHost: a\r\n\r\n", limits: limits).fault
                == .targetTooLong)
    }

    @Test("refuses too many fields")
    func limitsFields() {
        var limits = RequestParser.Limits()
        limits.fields = 3
        #expect(Dialogue("GET / HTTP/1.1\r\nHost: a\r\nA: 1\r\nB: 2\r\n\r\n", limits: limits).fault == nil)
        #expect(
            Dialogue("GET / HTTP/1.1\r\nHost: a\r\nA: 1\r\nB: 2\r\nC: 3\r\n\r\n", limits: limits).fault == .headTooLarge
        )
    }

    @Test("refuses a body past its limit as soon as it is known")
    func limitsBodies() {
        #expect(Dialogue("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", bodyLimit: 5).fault == nil)
        #expect(
            Dialogue("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\n", bodyLimit: 5).fault == .bodyTooLarge)
        let chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        #expect(Dialogue(chunked + "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", bodyLimit: 5).fault == nil)
        #expect(Dialogue(chunked + "3\r\nabc\r\n3\r\n", bodyLimit: 5).fault == .bodyTooLarge)
    }

    @Test(
        "refuses what is both too long and malformed for its length, however the bytes are cut",
        arguments: [
            String(repeating: "a", count: 300) + "\n",
            "GET / HTTP/1.1\r\nHost: " + String(repeating: "a", count: 600) + "\n\n",
            "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + String(repeating: "a", count: 300)
                + "\n",
        ])
    func lengthBeforeGrammar(text: String) {
        var limits = RequestParser.Limits()
        (limits.headBytes, limits.targetBytes, limits.chunkOverheadBytes) = (512, 200, 64)
        let whole = Dialogue(text, limits: limits)
        #expect(whole.fault == .headTooLarge || whole.fault == .targetTooLong)
        #expect(Dialogue(text.utf8.map { [$0] }, limits: limits) == whole)
    }

    @Test("refuses chunks that are mostly extensions, or trailers without end")
    func limitsChunkOverhead() {
        var limits = RequestParser.Limits()
        limits.chunkOverheadBytes = 100
        let start = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        let plain = String(repeating: "1\r\nx\r\n", count: 1000) + "0\r\n\r\n"
        #expect(Dialogue(start + plain, limits: limits).fault == nil, "small chunks alone are no offense")
        let extended = String(repeating: "1;extension=value\r\nx\r\n", count: 20)
        #expect(Dialogue(start + extended, limits: limits).fault == .headTooLarge)
        #expect(
            Dialogue(start + "0\r\nA: " + String(repeating: "x", count: 200), limits: limits).fault == .headTooLarge)
    }
}
