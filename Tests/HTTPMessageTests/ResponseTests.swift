import HTTPMessage
import Testing

@Suite("Answers")
struct ResponseTests {
    private func wire(_ response: Response, _ framing: ResponseFraming = ResponseFraming()) -> String {
        var bytes: [UInt8] = []
        response.write(to: &bytes, framing: framing)
        return String(decoding: bytes, as: UTF8.self)
    }

    @Test("say their length, type and fields")
    func plain() {
        let response = Response(
            .ok, contentType: "application/json", fields: [.init("X-One", "1"), .init("X-Two", "2")],
            body: Array("{}".utf8))
        #expect(
            wire(response)
                == "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\nX-One: 1\r\nX-Two: 2\r\n\r\n{}"
        )
    }

    @Test("without a body still say so, unless the status has none")
    func empty() {
        #expect(wire(Response(.unauthorized)) == "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
        #expect(wire(Response(.noContent)) == "HTTP/1.1 204 No Content\r\n\r\n")
        #expect(wire(Response(.notModified, body: [1])) == "HTTP/1.1 304 Not Modified\r\n\r\n")
    }

    @Test("to HEAD say the length and leave the body out")
    func head() {
        var framing = ResponseFraming()
        framing.omitsBody = true
        #expect(wire(Response(.ok, body: Array("abc".utf8)), framing) == "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n")
    }

    @Test("say what becomes of the connection")
    func connection() {
        var closing = ResponseFraming()
        closing.keepsAlive = false
        #expect(wire(Response(.ok), closing).contains("\r\nConnection: close\r\n"))
        var old = ResponseFraming()
        old.isHTTP10 = true
        #expect(wire(Response(.ok), old).contains("\r\nConnection: keep-alive\r\n"))
    }

    @Test("let no value end a field early")
    func injection() {
        let text = wire(Response(.ok, fields: [.init("X", "a\r\nSet-Cookie: b\n\u{0}c")]))
        #expect(text.contains("X: a  Set-Cookie: b  c\r\n"))
        #expect(!text.contains("\r\nSet-Cookie"))
    }

    @Test("with a status that has no name are written all the same")
    func unknownStatus() {
        #expect(wire(Response(Status(rawValue: 299))).hasPrefix("HTTP/1.1 299 \r\n"))
        #expect(wire(Response(Status(rawValue: 777))).hasPrefix("HTTP/1.1 777 \r\n"))
    }
}
