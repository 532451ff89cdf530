import Compression
import Foundation
import HTTPServer
import TestKit
import Testing
import Threads

@Suite("The HTTP server over a socket", .timeLimit(.minutes(30)))
struct ServerTests {
    private let patience = Patience.milliseconds

    // MARK: - Plain calls

    @Test("answers calls one after the other over one connection")
    func keepAlive() throws {
        let fixture = try ServerFixture()
        let wire = try Wire(port: fixture.port)
        for _ in 0..<3 {
            try wire.send("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n")
            let answer = try wire.readAnswer()
            #expect(answer.status == 200 && answer.body == "hello")
            #expect(answer["Content-Type"] == "text/plain")
            #expect(answer["Connection"] == nil)
            #expect(answer["Date"]?.hasSuffix("GMT") == true)
        }
        #expect(fixture.server.openConnections == 1)
    }

    @Test("decodes path parameters and queries once")
    func parameters() throws {
        let client = HTTPClient(port: try ServerFixture().keep().port)
        #expect(try client.call("GET", "/say/a%2Fb%20c?q=x%26y+z").body == "a/b c x&y z")
        #expect(try client.call("GET", "/say/a%252Fb").body == "a%2Fb -")
        let bad = try client.call("GET", "/say/%ff")
        #expect(bad.status == 400 && bad.body.contains("malformed_target"))
    }

    @Test("answers pipelined calls in their order, whichever is done first")
    func pipelining() throws {
        let fixture = try ServerFixture()
        let wire = try Wire(port: fixture.port)
        let calls = ["/slow", "/hello", "/slow", "/later", "/hello"]
        try wire.send(calls.map { "GET \($0) HTTP/1.1\r\nHost: a\r\n\r\n" }.joined())
        let slow = try fixture.waitForSlow(2)
        #expect(slow.count == 2)
        fixture.answer(slow[1], "second")
        fixture.answer(slow[0], "first")
        #expect(try (0..<5).map { _ in try wire.readAnswer().body } == ["first", "hello", "second", "later", "hello"])
    }

    @Test("reads no more calls of a connection than may wait, and goes on when they are answered")
    func pipelineLimit() throws {
        let fixture = try ServerFixture { $0.pipelinedRequests = 4 }
        let wire = try Wire(port: fixture.port)
        try wire.send(String(repeating: "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n", count: 20))
        for number in 0..<20 {
            let waiting = try fixture.waitForSlow(number + 1)
            #expect(waiting.count <= number + 4)
            fixture.answer(waiting[number], "\(number)")
            #expect(try wire.readAnswer().body == "\(number)")
        }
    }

    @Test("answers HEAD as GET, without the body")
    func head() throws {
        let fixture = try ServerFixture()
        let wire = try Wire(port: fixture.port)
        try wire.send("HEAD /hello HTTP/1.1\r\nHost: a\r\n\r\nGET /hello HTTP/1.1\r\nHost: a\r\n\r\n")
        let head = try wire.readAnswer(toHead: true)
        #expect(head.status == 200 && head["Content-Length"] == "5")
        #expect(try wire.readAnswer().body == "hello")
    }

    @Test("closes after the answer where the client wants it, and speaks HTTP/1.0")
    func closing() throws {
        let fixture = try ServerFixture()
        for call in ["GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "GET /hello HTTP/1.0\r\n\r\n"] {
            let wire = try Wire(port: fixture.port)
            try wire.send(call)
            let text = try wire.readAll()
            #expect(text.hasSuffix("\r\n\r\nhello") && text.contains("\r\nConnection: close\r\n"))
        }
        let wire = try Wire(port: fixture.port)
        try wire.send("GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        #expect(try wire.readAnswer()["Connection"] == "keep-alive")
    }

    @Test("names each request, as its client does if it does")
    func requestIDs() throws {
        let client = HTTPClient(port: try ServerFixture().keep().port)
        let one = try #require(try client.call("GET", "/hello")["X-Request-Id"])
        let other = try #require(try client.call("GET", "/hello")["X-Request-Id"])
        #expect(one.count == 32 && one != other)
        #expect(try client.call("GET", "/hello", fields: [("x-request-id", "my-id/7")])["X-Request-Id"] == "my-id/7")
        for bad in ["a b", String(repeating: "x", count: 129), "caf\u{E9}"] {
            #expect(try client.call("GET", "/hello", fields: [("X-Request-Id", bad)])["X-Request-Id"]?.count == 32)
        }
        let traced = try client.call("GET", "/shared", fields: [("X-Request-Id", "mine")])
        #expect(traced["X-Request-Id"] == "mine")
        #expect(traced["X-Trace"]?.count == 32)
        #expect(try client.call("GET", "/nope", fields: [("X-Request-Id", "mine")]).body.contains("\"id\":\"mine\""))
    }

    // MARK: - Refusals

    @Test("refuses what no route takes")
    func noRoute() throws {
        let client = HTTPClient(port: try ServerFixture().keep().port)
        let missing = try client.call("GET", "/nope")
        #expect(missing.status == 404 && missing.body.contains("not_found"))
        let wrong = try client.call("DELETE", "/hello")
        #expect(wrong.status == 405 && wrong["Allow"] == "GET, HEAD, OPTIONS")
        #expect(try client.call("BREW", "/echo")["Allow"] == "POST, OPTIONS")
        let asked = try client.call("OPTIONS", "/echo")
        #expect(asked.status == 204 && asked["Allow"] == "POST, OPTIONS")
        #expect(try client.call("OPTIONS", "*").status == 204)
    }

    @Test("refuses bodies that are missing, too long, of another type, or in another coding")
    func bodies() throws {
        let client = HTTPClient(port: try ServerFixture().keep().port)
        #expect(try client.call("POST", "/echo").status == 411)
        #expect(try client.call("POST", "/echo", json: "{}").body == "{}")
        #expect(try client.call("POST", "/echo", body: Array("[]".utf8)).body == "[]", "no type is taken for JSON")
        for type in ["application/json; charset=utf-8", "Application/JSON", "application/vnd.x+json"] {
            let answer = try client.call("POST", "/echo", fields: [("Content-Type", type)], body: Array("1".utf8))
            #expect(answer.status == 200)
        }
        for type in ["text/plain", "application/jsonx", "application/x-www-form-urlencoded"] {
            let answer = try client.call("POST", "/echo", fields: [("Content-Type", type)], body: Array("1".utf8))
            #expect(answer.status == 415 && answer.body.contains("unsupported_media_type"))
        }
        let coded = try client.call("POST", "/echo", fields: [("Content-Encoding", "br")], body: Array("1".utf8))
        #expect(coded.status == 415 && coded.body.contains("unsupported_content_encoding"))
        #expect(try client.call("POST", "/echo", fields: [("Content-Encoding", "identity")], json: "1").status == 200)
        #expect(try client.call("POST", "/echo", json: String(repeating: "1", count: 1000)).status == 200)
        let long = try client.call("POST", "/echo", json: String(repeating: "1", count: 1001))
        #expect(long.status == 413 && long["Connection"] == "close")
    }

    @Test("refuses a chunked body when it passes the limit")
    func chunkedLimit() throws {
        let fixture = try ServerFixture()
        let wire = try Wire(port: fixture.port)
        try wire.send("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        try wire.send("3\r\n[1,\r\n2\r\n2]\r\n0\r\n\r\n")
        #expect(try wire.readAnswer().body == "[1,2]")
        try wire.send("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in 0..<11 { try wire.send("64\r\n\(String(repeating: "1", count: 100))\r\n") }
        let answer = try wire.readAnswer()
        #expect(answer.status == 413 && answer["Connection"] == "close")
    }

    @Test("inflates gzip, up to the limit")
    func gzip() throws {
        let client = HTTPClient(port: try ServerFixture().keep().port)
        func call(_ body: [UInt8]) throws -> Wire.Answer {
            try client.call("POST", "/echo", fields: [("Content-Encoding", "gzip")], body: body)
        }
        #expect(try call(Gzip.deflate(Array("{\"a\":1}".utf8))).body == "{\"a\":1}")
        let bomb = try call(Gzip.deflate([UInt8](repeating: 32, count: 100_000)))
        #expect(bomb.status == 413)
        let garbage = try call(Array("not gzip".utf8))
        #expect(garbage.status == 400 && garbage.body.contains("malformed_gzip"))
        #expect(try call(Gzip.deflate(Array("1".utf8))).status == 200, "the connection is still good")
    }

    @Test("reads and drops a body that nobody wants")
    func unwantedBody() throws {
        let client = HTTPClient(port: try ServerFixture().keep().port)
        #expect(try client.call("POST", "/nope", json: "{}").status == 404)
        #expect(try client.call("GET", "/hello", json: "{}").body == "hello")
        #expect(try client.call("DELETE", "/hello", json: "{}").status == 405)
        #expect(try client.call("GET", "/hello").body == "hello")
    }

    @Test(
        "refuses what is not HTTP, and closes",
        arguments: [
            ("nonsense\r\n\r\n", 400, "malformed_request"),
            ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505, "unsupported_version"),
            ("GET /\(String(repeating: "x", count: 9000)) HTTP/1.1\r\nHost: a\r\n\r\n", 414, "target_too_long"),
            ("GET / HTTP/1.1\r\nHost: a\r\nX: \(String(repeating: "x", count: 17_000))\r\n\r\n", 431, "head_too_large"),
            (
                "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400,
                "malformed_request"
            ),
            ("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 501, "unsupported_transfer_coding"),
            ("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400, "malformed_request"),
            ("POST /echo HTTP/1.1\r\nHost: a\r\nExpect: tea\r\n\r\n", 417, "unsupported_expectation"),
        ])
    func malformed(_ bytes: String, _ status: Int, _ code: String) throws {
        let fixture = try ServerFixture()
        let wire = try Wire(port: fixture.port)
        try wire.send(bytes)
        let answer = try wire.readAnswer()
        #expect(answer.status == status)
        #expect(answer.body.contains(code))
        #expect(answer["Connection"] == "close")
        #expect(wire.isClosedByPeer)
    }

    @Test("answers what came before a malformed message, and nothing after it")
    func malformedAfterGood() throws {
        let fixture = try ServerFixture()
        let wire = try Wire(port: fixture.port)
        try wire.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\nbad\r\n\r\nGET /hello HTTP/1.1\r\nHost: a\r\n\r\n")
        fixture.answer(try fixture.waitForSlow(1)[0], "good")
        #expect(try wire.readAnswer().body == "good")
        #expect(try wire.readAnswer().status == 400)
        #expect(wire.isClosedByPeer)
    }

    // MARK: - Expect

    @Test("asks for a body that the client holds back")
    func expectContinue() throws {
        let fixture = try ServerFixture()
        let wire = try Wire(port: fixture.port)
        try wire.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        #expect(try wire.readAnswer().status == 100)
        try wire.send("[]")
        #expect(try wire.readAnswer().body == "[]")
    }

    @Test("refuses at once a body that the client holds back and nobody wants")
    func expectRefused() throws {
        let fixture = try ServerFixture()
        for (path, length, status) in [("/nope", 2, 404), ("/echo", 2000, 413)] {
            let wire = try Wire(port: fixture.port)
            try wire.send(
                "POST \(path) HTTP/1.1\r\nHost: a\r\nContent-Length: \(length)\r\nExpect: 100-continue\r\n\r\n")
            let answer = try wire.readAnswer()
            #expect(answer.status == status && answer["Connection"] == "close")
        }
    }

    // MARK: - Browsers

    @Test("tells browsers what other origins may do")
    func cors() throws {
        let client = HTTPClient(port: try ServerFixture().keep().port)
        let origin = ("Origin", "https://shop.example")
        let preflight = try client.call(
            "OPTIONS", "/shared", fields: [origin, ("Access-Control-Request-Method", "POST")])
        #expect(preflight.status == 204)
        #expect(preflight["Access-Control-Allow-Origin"] == "https://shop.example")
        #expect(preflight["Access-Control-Allow-Methods"] == "POST, GET, HEAD, OPTIONS")
        #expect(preflight["Access-Control-Allow-Headers"] == "content-type, x-key")
        #expect(preflight["Access-Control-Max-Age"] == "7200")
        let call = try client.call("POST", "/shared", fields: [origin], json: "{}")
        #expect(call["Access-Control-Allow-Origin"] == "https://shop.example")
        #expect(call["Access-Control-Expose-Headers"] == "X-Seen")
        #expect(call["Vary"] == "Origin")
        #expect(
            try client.call("POST", "/shared", fields: [origin])["Access-Control-Allow-Origin"] != nil, "errors, too")
        #expect(try client.call("GET", "/shared")["Access-Control-Allow-Origin"] == nil)
        let evil = try client.call("GET", "/shared", fields: [("Origin", "https://evil.example")])
        #expect(evil["Access-Control-Allow-Origin"] == nil)
        #expect(try client.call("GET", "/hello", fields: [origin])["Access-Control-Allow-Origin"] == nil)
    }

    // MARK: - Clients that misbehave

    @Test("answers a client that has sent its call and closed its side")
    func halfClose() throws {
        let fixture = try ServerFixture()
        let wire = try Wire(port: fixture.port)
        try wire.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
        let slow = try fixture.waitForSlow(1)
        wire.finishSending()
        fixture.answer(slow[0], "still here")
        #expect(try wire.readAll().hasSuffix("still here"))
    }

    @Test("survives clients that go away at any point, and serves the others")
    func disconnects() throws {
        let fixture = try ServerFixture()
        let other = HTTPClient(port: fixture.port)
        let call = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n0123456789"
        for length in stride(from: 0, through: call.utf8.count, by: 3) {
            let wire = try Wire(port: fixture.port)
            try wire.send(String(call.prefix(length)))
            if length.isMultiple(of: 2) { wire.reset() } else { wire.close() }
            #expect(try other.call("GET", "/hello").body == "hello")
        }
        let waiting = try Wire(port: fixture.port)
        try waiting.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
        let slow = try fixture.waitForSlow(1)
        waiting.reset()
        fixture.answer(slow[0], "nobody listens")
        #expect(try other.call("GET", "/hello").body == "hello")
        #expect(
            fixture.observer.open.wait(milliseconds: patience) { $0 == 1 ? true : nil } == true,
            "all but one are closed")
    }

    @Test("gives up on heads and bodies that drip, and tells why")
    func deadlines() throws {
        let fixture = try ServerFixture {
            $0.headMilliseconds = 2000
            $0.bodyMilliseconds = 2000
        }
        let head = try Wire(port: fixture.port)
        try head.send("GET /hello HTTP/1.1\r\n")
        let body = try Wire(port: fixture.port)
        try body.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n012")
        let silent = try Wire(port: fixture.port)
        for wire in [head, body] {
            let answer = try wire.readAnswer()
            #expect(answer.status == 408 && answer["Connection"] == "close")
        }
        #expect(try silent.readAll() == "", "who has said nothing is told nothing")
    }

    @Test("extends no deadline for another drop")
    func drip() throws {
        let fixture = SteppedFixture { $0.headMilliseconds = 3000 }
        let wire = fixture.connect()
        for _ in 0..<28 {
            wire.write("X".utf8)
            fixture.pass(milliseconds: 100)
        }
        #expect(fixture.answers(wire) == "")
        for _ in 0..<8 {
            wire.write("X".utf8)
            fixture.pass(milliseconds: 100)
        }
        #expect(fixture.answers(wire).hasPrefix("HTTP/1.1 408 "))
    }

    @Test("closes connections that have been idle for too long")
    func idle() throws {
        let fixture = try ServerFixture { $0.idleMilliseconds = 2000 }
        let wire = try Wire(port: fixture.port)
        try wire.send("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n")
        _ = try wire.readAnswer()
        #expect(try wire.readAll() == "")
    }

    @Test("does not mistake waiting for an answer for idling")
    func waitingIsNotIdling() throws {
        let fixture = SteppedFixture {
            $0.idleMilliseconds = 3000
            $0.headMilliseconds = 3000
            $0.bodyMilliseconds = 3000
        }
        let wire = fixture.connect()
        wire.write("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n".utf8)
        fixture.pass(milliseconds: 60_000)
        #expect(fixture.answers(wire) == "" && !wire.isClosed)
        try fixture.answerSlow("patience")
        #expect(fixture.answers(wire).hasSuffix("patience"))
        // From here on it idles.
        fixture.pass(milliseconds: 4000)
        #expect(wire.isClosed)
    }

    @Test("takes only so many connections, in all and from one address")
    func connectionLimits() throws {
        for perAddress in [true, false] {
            let fixture = try ServerFixture {
                if perAddress { $0.connectionsPerAddress = 3 } else { $0.connections = 3 }
            }
            let held = try (0..<3).map { _ in try Wire(port: fixture.port) }
            for wire in held {
                try wire.send("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n")
                _ = try wire.readAnswer()
            }
            #expect(try Wire(port: fixture.port).isClosedByPeer)
            #expect(fixture.observer.refused.wait(milliseconds: patience) { $0 > 0 ? $0 : nil } == 1)
            held[0].close()
            #expect(fixture.observer.open.wait(milliseconds: patience) { $0 == 2 ? true : nil } == true)
            #expect(try HTTPClient(port: fixture.port).call("GET", "/hello").status == 200)
            // Held until here: what nothing uses any more may be closed.
            for wire in held.dropFirst() { wire.close() }
        }
    }

    @Test("holds up nobody else for a client that does not read")
    func slowReader() throws {
        let fixture = try ServerFixture(loops: 1) { $0.writeMilliseconds = 60_000 }
        let slow = try Wire(port: fixture.port)
        try slow.send(String(repeating: "GET /large HTTP/1.1\r\nHost: a\r\n\r\n", count: 10))
        let other = HTTPClient(port: fixture.port)
        for _ in 0..<20 { #expect(try other.call("GET", "/hello").body == "hello") }
        let made = fixture.observer.answers.withLock { $0.filter { $0.hasSuffix("200") }.count } - 20
        #expect(made < 10, "no answers are made for whom nobody takes away those there are")
        for _ in 0..<10 { #expect(try slow.readAnswer().body.utf8.count == 8 << 20) }
    }

    @Test("gives up on a client that takes nothing of its answer")
    func stalledReader() throws {
        let fixture = try ServerFixture(loops: 1) { $0.writeMilliseconds = 500 }
        let stalled = try Wire(port: fixture.port)
        try stalled.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\nGET /large HTTP/1.1\r\nHost: a\r\n\r\n")
        #expect(fixture.observer.opened.wait(milliseconds: patience) { $0 == 1 ? true : nil } == true)
        #expect(fixture.observer.open.wait(milliseconds: patience) { $0 == 0 ? true : nil } == true)
    }

    // MARK: - Uploads

    @Test("passes a streamed body on as it arrives")
    func upload() throws {
        let fixture = try ServerFixture()
        let client = HTTPClient(port: fixture.port)
        let body = [UInt8](repeating: 7, count: 900_000)
        #expect(try client.call("PUT", "/upload", body: body).body == "900000")
        #expect(try client.call("PUT", "/upload", body: body).body == "900000")
        let long = try client.call("PUT", "/upload", body: [UInt8](repeating: 7, count: (1 << 20) + 1))
        #expect(long.status == 413)
        #expect(fixture.uploads.state.withLock { $0.finished } == 2)
    }

    @Test("leaves a streamed body with the client while nobody takes it")
    func uploadWaits() throws {
        let fixture = try ServerFixture(loops: 1)
        fixture.uploads.state.change { $0.waits = true }
        let wire = try Wire(port: fixture.port)
        let body = [UInt8](repeating: 7, count: 1 << 20)
        let sender = WorkerThread(name: "sender") {
            try? wire.send("PUT /upload HTTP/1.1\r\nHost: a\r\nContent-Length: \(body.count)\r\n\r\n")
            try? wire.send(body)
        }
        let exchange = try #require(fixture.uploads.state.wait(milliseconds: patience) { $0.waiting.first })
        // The loop reads whatever is there before it reads of clients that come later.
        for _ in 0..<5 { #expect(try HTTPClient(port: fixture.port).call("GET", "/hello").status == 200) }
        #expect(fixture.uploads.state.withLock { $0.bytes } < body.count)
        exchange.post { exchange.resume() }
        #expect(try wire.readAnswer().body == "\(body.count)")
        sender.join()
    }

    @Test("ends a streamed body of which the last piece was waited with")
    func uploadWaitsWithLastPiece() throws {
        let fixture = try ServerFixture()
        fixture.uploads.state.change { $0.waits = true }
        let wire = try Wire(port: fixture.port)
        try wire.send("PUT /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n0123456789")
        let exchange = try #require(fixture.uploads.state.wait(milliseconds: patience) { $0.waiting.first })
        exchange.post { exchange.resume() }
        #expect(try wire.readAnswer().body == "10")
    }

    @Test("sends a body that comes in pieces, in its turn and no faster than it is taken")
    func pieces() throws {
        let fixture = try ServerFixture(loops: 1)
        let wire = try Wire(port: fixture.port)
        try wire.send(
            "GET /later HTTP/1.1\r\nHost: a\r\n\r\nGET /pieces/40 HTTP/1.1\r\nHost: a\r\n\r\n"
                + "HEAD /pieces/40 HTTP/1.1\r\nHost: a\r\n\r\nGET /hello HTTP/1.1\r\nHost: a\r\n\r\n")
        #expect(try wire.readAnswer().body == "later")
        #expect(try wire.readAnswer().body.utf8.count == 40 << 16)
        #expect(try wire.readAnswer(toHead: true)["Content-Length"] == "\(40 << 16)")
        #expect(try wire.readAnswer().body == "hello")
        // Nobody takes this one: only as much of it is made as may wait.
        try wire.send("GET /pieces/4000 HTTP/1.1\r\nHost: a\r\n\r\n")
        // No more pieces are made as soon as others are served meanwhile and the number stays.
        var made = 0
        let isStill = try Patience.until { () throws in
            let before = fixture.pieces.withLock(\.self)
            for _ in 0..<5 { #expect(try HTTPClient(port: fixture.port).call("GET", "/hello").status == 200) }
            made = fixture.pieces.withLock(\.self)
            return made == before && made > 80
        }
        #expect(isStill && made < 2000, "\(made)")
        wire.reset()
        #expect(fixture.observer.open.wait(milliseconds: patience) { $0 == 0 ? true : nil } == true)
    }

    @Test("closes where the rest of a body cannot be had, so that nobody takes it for whole")
    func piecesFail() throws {
        let fixture = try ServerFixture(loops: 1)
        let wire = try Wire(port: fixture.port)
        try wire.send("GET /pieces/-3 HTTP/1.1\r\nHost: a\r\n\r\n")
        #expect(throws: (any Error).self) { _ = try wire.readAnswer() }
        #expect(wire.isClosedByPeer)
    }

    @Test("tells who takes a streamed body that it will not be completed")
    func uploadAbandoned() throws {
        let fixture = try ServerFixture()
        let wire = try Wire(port: fixture.port)
        try wire.send("PUT /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n0123456789")
        #expect(fixture.uploads.state.wait(milliseconds: patience) { $0.bytes == 10 ? true : nil } == true)
        wire.reset()
        #expect(fixture.uploads.state.wait(milliseconds: patience) { $0.abandoned == 1 ? true : nil } == true)
        #expect(fixture.uploads.state.withLock { $0.finished } == 0)
    }

    // MARK: - Ends

    @Test("sends all that is due before it closes, however slowly it is taken")
    func closesBehindBacklog() throws {
        let fixture = try ServerFixture(loops: 1)
        let slow = try Wire(port: fixture.port)
        try slow.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
        #expect(fixture.observer.answers.wait(milliseconds: patience) { $0.isEmpty ? nil : true } == true)
        try slow.send(
            "GET /hello HTTP/1.1\r\nHost: a\r\n\r\nGET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        slow.finishSending()
        #expect(try slow.readAnswer().body.utf8.count == 8 << 20)
        #expect(try slow.readAnswer().body == "hello")
        #expect(try slow.readAnswer().body == "hello")
        #expect(slow.isClosedByPeer)
    }

    @Test("reads no request of a connection while its output waits, and all of them when that is taken")
    func unreadOutput() throws {
        let fixture = try ServerFixture(loops: 1)
        let wire = try Wire(port: fixture.port)
        try wire.send(String(repeating: "GET /large HTTP/1.1\r\nHost: a\r\n\r\n", count: 20))
        #expect(fixture.observer.answers.wait(milliseconds: patience) { $0.isEmpty ? nil : true } == true)
        // Whoever comes later is served, and by then nothing more was read of the one before.
        for _ in 0..<5 { #expect(try HTTPClient(port: fixture.port).call("GET", "/hello").status == 200) }
        #expect(fixture.observer.answers.withLock { $0.count } <= 2 + 5)
        for _ in 0..<20 { #expect(try wire.readAnswer().body.utf8.count == 8 << 20) }
    }

    @Test("closes those that take nothing, the slowest first, where too much output waits in all")
    func allOutput() throws {
        let fixture = try ServerFixture(loops: 1) { $0.allOutputBytes = 40 << 20 }
        let wires = try (0..<12).map { _ in try Wire(port: fixture.port) }
        for wire in wires { try wire.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n") }
        // Before all have asked, few connections may be open as well.
        #expect(Patience.until { fixture.observer.answers.withLock { $0.count } >= wires.count })
        #expect(Patience.until { fixture.server.openConnections <= 5 })
        let client = HTTPClient(port: fixture.port)
        #expect(try client.call("GET", "/large").body.utf8.count == 8 << 20, "whoever takes what it asks for is served")
        #expect(fixture.server.openConnections >= 4)
        withExtendedLifetime(wires) {}
    }

    @Test("counts a body once for all that share it, and closes none of them")
    func sharedOutput() throws {
        let fixture = SteppedFixture { $0.allOutputBytes = 20 << 20 }
        let readers = (0..<100).map { _ in fixture.connect() }
        for reader in readers { reader.write("GET /document HTTP/1.1\r\nHost: a\r\n\r\n".utf8) }
        fixture.pass(milliseconds: 5000)
        #expect(readers.allSatisfy { !$0.isClosed })
        // Bodies of their own pass the limit, and two of them have room.
        let others = (0..<6).map { _ in fixture.connect() }
        for other in others { other.write("GET /large HTTP/1.1\r\nHost: a\r\n\r\n".utf8) }
        fixture.pass(milliseconds: 1000)
        #expect(others.count { !$0.isClosed } == 2)
    }

    @Test("ends the requests whose bodies have taken the longest, where too many bytes of bodies wait in all")
    func allBodies() throws {
        let fixture = try ServerFixture(loops: 1) { $0.allBodyBytes = 100_000 }
        let wires = try (0..<8).map { _ in try Wire(port: fixture.port) }
        for wire in wires {
            try wire.send(
                "POST /shared HTTP/1.1\r\nHost: a\r\nContent-Length: 40000\r\n\r\n"
                    + String(repeating: "x", count: 30_000))
        }
        #expect(Patience.until { fixture.observer.answers.withLock { $0.count } >= 5 })
        // Three of them have room.
        for wire in wires { try? wire.send(String(repeating: "x", count: 10_000)) }
        let statuses = try wires.map { try $0.readAnswer().status }
        #expect(statuses.count { $0 == 408 } == 5 && statuses.count { $0 == 200 } == 3, "\(statuses)")
    }

    @Test("reads no request behind one that said it would be the last, even while that one waits")
    func nothingBehindClose() throws {
        let fixture = try ServerFixture(loops: 1)
        let wire = try Wire(port: fixture.port)
        try wire.send("GET /slow HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
        let slow = try fixture.waitForSlow(1)
        // Whoever comes later is served, and by then nothing more was read of the one before.
        for _ in 0..<5 { #expect(try HTTPClient(port: fixture.port).call("GET", "/hello").status == 200) }
        #expect(try fixture.waitForSlow(1).count == 1)
        fixture.answer(slow[0], "last")
        #expect(try wire.readAnswer().body == "last")
        #expect(wire.isClosedByPeer)
    }

    @Test("gives each head its own time, also when half of it comes with the one before")
    func headDeadlinePerHead() throws {
        let fixture = SteppedFixture { $0.headMilliseconds = 12_000 }
        let (wire, other) = (fixture.connect(), fixture.connect())
        let (first, second) = ("GET /hello HTTP/1.1\r\nHo", "st: a\r\n\r\n")
        for wire in [wire, other] { wire.write(first.utf8) }
        fixture.pass(milliseconds: 6000)
        wire.write((second + first).utf8)
        #expect(fixture.answers(wire).hasSuffix("hello"))
        fixture.pass(milliseconds: 7000)
        #expect(fixture.answers(other).hasPrefix("HTTP/1.1 408 "), "the time of the first head is over")
        wire.write(second.utf8)
        #expect(fixture.answers(wire).hasSuffix("hello"))
    }

    @Test("lets empty lines win an idle connection no time")
    func idleDrip() throws {
        let fixture = SteppedFixture { $0.idleMilliseconds = 2000 }
        let wire = fixture.connect()
        wire.write("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n".utf8)
        #expect(fixture.answers(wire).hasSuffix("hello"))
        for _ in 0..<18 {
            fixture.pass(milliseconds: 100)
            wire.write("\r\n".utf8)
        }
        #expect(!wire.isClosed)
        fixture.pass(milliseconds: 600)
        #expect(wire.isClosed && fixture.observer.open.withLock { $0 } == 0)
    }

    // MARK: - Stopping

    @Test("sends what is on its way before it stops")
    func drainingSlowReader() throws {
        let fixture = try ServerFixture(loops: 1)
        let slow = try Wire(port: fixture.port)
        try slow.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
        #expect(fixture.observer.answers.wait(milliseconds: patience) { $0.isEmpty ? nil : true } == true)
        let server = fixture.server
        let stopping = WorkerThread(name: "stopping") { server.stop() }
        #expect(Patience.until { (try? Wire(port: fixture.port)) == nil }, "a server that stops takes nobody new")
        #expect(try slow.readAnswer().body.utf8.count == 8 << 20)
        slow.close()
        stopping.join()
    }

    @Test("finishes what is in flight when it is told to stop, and takes nothing new")
    func draining() throws {
        let fixture = try ServerFixture()
        let idle = try Wire(port: fixture.port)
        try idle.send("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n")
        _ = try idle.readAnswer()
        let busy = try Wire(port: fixture.port)
        try busy.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
        let slow = try fixture.waitForSlow(1)

        let server = fixture.server
        let stopping = WorkerThread(name: "stopping") { server.stop() }
        #expect(try idle.readAll() == "", "an idle connection is closed")
        fixture.answer(slow[0], "done")
        let answer = try busy.readAnswer()
        #expect(answer.body == "done" && answer["Connection"] == "close")
        #expect(busy.isClosedByPeer)
        stopping.join()
        #expect(throws: Wire.Closed.self) { try Wire(port: fixture.port) }
    }

    @Test("stops after its time even if something stays in flight")
    func drainDeadline() throws {
        let fixture = try ServerFixture { $0.drainMilliseconds = 300 }
        let wire = try Wire(port: fixture.port)
        try wire.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
        _ = try fixture.waitForSlow(1)
        fixture.server.stop()
        #expect(wire.isClosedByPeer)
    }

    @Test("lets no two servers have one port")
    func portTaken() throws {
        let fixture = try ServerFixture()
        let fault = #expect(throws: (any Error).self) { try Server.empty(on: "127.0.0.1:\(fixture.port)") }
        #expect("\(String(describing: fault))".contains("address already in use"))
        #expect(throws: (any Error).self) { try Server.empty(on: "192.0.2.1:0") }
    }

    // MARK: - Many at once

    @Test("serves many connections at once, each with its own answers")
    func crowd() throws {
        let fixture = try ServerFixture()
        let port = fixture.port
        let wrong = Monitor(0)
        let threads = (0..<8).map { number in
            WorkerThread(name: "client-\(number)") {
                do {
                    let wires = try (0..<25).map { _ in try Wire(port: port) }
                    for round in 0..<10 {
                        for (index, wire) in wires.enumerated() {
                            try wire.send(
                                "GET /say/\(number)-\(index)-\(round) HTTP/1.1\r\nHost: a\r\n\r\nGET /later HTTP/1.1\r\nHost: a\r\n\r\n"
                            )
                        }
                        for (index, wire) in wires.enumerated() {
                            let said = try wire.readAnswer().body
                            let later = try wire.readAnswer().body
                            if said != "\(number)-\(index)-\(round) -" || later != "later" { wrong.change { $0 += 1 } }
                        }
                    }
                } catch {
                    wrong.change { $0 += 1000 }
                }
            }
        }
        for thread in threads { thread.join() }
        #expect(wrong.withLock { $0 } == 0)
    }
}

extension ServerFixture {
    /// Keeps the server until the test's process ends, where only its port is needed.
    func keep() -> ServerFixture {
        ServerFixture.kept.change { $0.append(self) }
        return self
    }

    private static let kept = Monitor<[ServerFixture]>([])
}
