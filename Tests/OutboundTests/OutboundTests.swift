import HTTPServer
import Outbound
import TLS
import TestKit
import Testing
import Threads

@Suite("Calls to other servers")
struct OutboundTests {
    private func url(_ text: String) throws -> OutboundURL { try #require(OutboundURL(text)) }

    /// Makes a call and waits for what comes of it.
    private func call(
        _ client: OutboundClient, _ url: OutboundURL,
        _ method: OutboundCall.Method = .post(Array("token".utf8), contentType: "text/plain")
    ) throws -> OutboundClient.Result {
        let result = Monitor<OutboundClient.Result?>(nil)
        client.submit(OutboundCall(method, url)) { answer in result.change { $0 = answer } }
        return try #require(result.wait(milliseconds: Patience.milliseconds) { $0 })
    }

    /// Limits that a busy machine does not reach.
    private var patient: OutboundLimits {
        var limits = OutboundLimits()
        (limits.connectMilliseconds, limits.wholeMilliseconds) = (Patience.milliseconds, Patience.milliseconds)
        return limits
    }

    /// Makes one call with a client of its own.
    private func call(
        _ url: OutboundURL, _ method: OutboundCall.Method = .post(Array("token".utf8), contentType: "text/plain"),
        limits: (inout OutboundLimits) -> Void = { _ in }
    ) throws -> OutboundClient.Result {
        var chosen = patient
        limits(&chosen)
        let client = OutboundClient(limits: chosen)
        defer { client.stop() }
        return try call(client, url, method)
    }

    @Test("bring every status and its body", arguments: [200, 204, 400, 404, 500, 503])
    func statuses(_ status: Int) throws {
        let body = status == 204 ? "" : "body of \(status)"
        let server = StandIn(.status(status, body))
        let answer = try call(url(server.url)).get()
        #expect(answer == OutboundAnswer(status: status, body: Array(body.utf8)))
    }

    @Test("tell the other server's clock, and when it takes the call again")
    func fields() throws {
        let date = "Sun, 06 Nov 1994 08:49:37 GMT"
        for (fields, seconds) in [
            (["Date: \(date)", "Retry-After: 7"], 7), (["date: \(date)", "retry-after: soon"], nil),
            (["Date: \(date)", "Retry-After: -1"], nil),
        ] as [([String], Int?)] {
            let seen = Monitor<[OutboundAnswer]>([])
            let client = OutboundClient { answer in seen.withLock { $0.append(answer) } }
            defer { client.stop() }
            let server = StandIn(.status(503, "", fields: fields))
            let answer = try call(client, url(server.url), .get).get()
            #expect(answer.date == date && answer.retryAfterSeconds == seconds)
            #expect(seen.withLock { $0 } == [answer])
        }
        let plain = try call(url(StandIn(.status(200, "")).url)).get()
        #expect(plain.date == nil && plain.retryAfterSeconds == nil)
    }

    @Test("say what they are told to say, and no more")
    func request() throws {
        let server = StandIn(.status(200, ""))
        _ = try call(url(server.url + "api/v1/?q=1")).get()
        _ = try call(url(server.url), .post([], contentType: "text/plain")).get()
        _ = try call(url(server.url), .get).get()
        let received = server.received
        try #require(received.count == 3)
        let (post, empty, get) = (received[0], received[1], received[2])
        #expect(post.line == "POST /api/v1/?q=1 HTTP/1.1" && post.body == "token")
        #expect(
            post.fields.sorted() == [
                "Accept: */*", "Content-Length: 5", "Content-Type: text/plain", "Host: 127.0.0.1:\(server.port)",
                "User-Agent: onym",
            ])
        #expect(empty.body == "" && empty.fields.contains("Content-Length: 0"))
        #expect(get.line == "GET / HTTP/1.1" && get.body == "")
    }

    @Test("follow nobody who sends them elsewhere")
    func redirect() throws {
        let other = StandIn(.status(200, "other"))
        let server = StandIn(.status(302, "", fields: ["Location: \(other.url)"]))
        #expect(try call(url(server.url)).get().status == 302)
        #expect(other.received.isEmpty)
    }

    @Test("take no answer that is no HTTP, or breaks off")
    func garbage() throws {
        for bytes in ["garbage\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort", ""] {
            #expect(try call(url(StandIn(.bytes(Array(bytes.utf8))).url)) == .failure(.broken), "\(bytes)")
        }
    }

    @Test("wait as long as they are told, and no longer")
    func hang() throws {
        let server = StandIn(.hang)
        let begin = ContinuousClock.now
        #expect(try call(url(server.url)) { $0.wholeMilliseconds = 200 } == .failure(.timedOut))
        #expect(ContinuousClock.now - begin > .milliseconds(150))
    }

    @Test("tell why nobody is reached")
    func unreachable() throws {
        #expect(try call(url("http://127.0.0.1:\(StandIn.deadPort)/")) == .failure(.notConnected))
        #expect(try call(url("http://nobody.invalid/")) == .failure(.notResolved))
    }

    @Test("take no more of an answer than they want")
    func huge() throws {
        let limit = OutboundLimits().answerBytes
        let fits = StandIn(.status(200, String(repeating: "x", count: limit)))
        #expect(try call(url(fits.url)).get().body.count == limit)
        let large = StandIn(.status(200, String(repeating: "x", count: limit + 1)))
        #expect(try call(url(large.url)) == .failure(.answerTooLarge))
        let endless = Array("HTTP/1.1 200 OK\r\n\r\n".utf8) + [UInt8](repeating: 120, count: 32 << 20)
        #expect(try call(url(StandIn(.bytes(endless)).url)) == .failure(.answerTooLarge))
    }

    @Test("trust no certificate that nobody vouches for")
    func certificates() throws {
        let folder = TemporaryFolder()
        let (certificate, key) = (folder.path + "/cert.pem", folder.path + "/key.pem")
        try Shell.run(
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1",
            "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate)
        let server = try TestServer(.memory) {
            $0.tls = try? TLSIdentity(TLSContext(certificateFile: certificate, keyFile: key))
        }
        #expect(try call(url("https://127.0.0.1:\(server.port)/healthz"), .get) == .failure(.notTrusted))
        let client = OutboundClient(limits: patient, authorities: certificate)
        defer { client.stop() }
        #expect(try call(client, url("https://127.0.0.1:\(server.port)/healthz"), .get).get().status == 200)
        // The certificate is for another name.
        #expect(try call(client, url("https://localhost:\(server.port)/healthz"), .get) == .failure(.notTrusted))
    }

    @Test("are made many at once, and those that find no place at once wait for one")
    func many() throws {
        let server = StandIn { .status(200, $0.body) }
        var limits = patient
        (limits.callsAtOnce, limits.callsWaiting) = (8, 300)
        let client = OutboundClient(limits: limits)
        defer { client.stop() }
        let answers = Monitor<[String]>([])
        let url = try url(server.url)
        for number in 0..<300 {
            client.submit(OutboundCall(.post(Array("\(number)".utf8), contentType: "text/plain"), url)) { answer in
                answers.change {
                    $0.append((try? answer.get()).map { String(decoding: $0.body, as: UTF8.self) } ?? "-")
                }
            }
        }
        let all = try #require(answers.wait(milliseconds: Patience.milliseconds) { $0.count == 300 ? $0 : nil })
        #expect(Set(all) == Set((0..<300).map(String.init)))
    }

    @Test("are turned away when too many wait, and wait no longer because others do")
    func overload() throws {
        let server = StandIn(.hang)
        var limits = OutboundLimits()
        (limits.callsAtOnce, limits.callsWaiting, limits.wholeMilliseconds) = (2, 40, 5000)
        let client = OutboundClient(limits: limits)
        defer { client.stop() }
        let results = Monitor<[OutboundClient.Result]>([])
        let call = OutboundCall(.get, try url(server.url))
        for _ in 0..<60 { client.submit(call) { result in results.change { $0.append(result) } } }
        // One after the other they would take twenty times as long as one may.
        _ = results.wait(milliseconds: Patience.milliseconds) { $0.count == 60 ? true : nil }
        let all = results.withLock { $0 }
        let refused = all.count { $0 == .failure(.overloaded) }
        // Some may have been taken from the queue while the others came.
        #expect((18...20).contains(refused) && all.count { $0 == .failure(.timedOut) } == 60 - refused)
    }

    @Test("end when the client is stopped")
    func stop() throws {
        let server = StandIn(.hang)
        var limits = OutboundLimits()
        limits.callsAtOnce = 2
        let client = OutboundClient(limits: limits)
        let results = Monitor<[OutboundClient.Result]>([])
        let call = OutboundCall(.get, try url(server.url))
        for _ in 0..<5 { client.submit(call) { result in results.change { $0.append(result) } } }
        client.stop()
        client.submit(call) { result in results.change { $0.append(result) } }
        #expect(results.withLock { $0 } == Array(repeating: .failure(.cancelled), count: 6))
        client.stop()
    }

    @Test(
        "go to addresses of HTTP only",
        arguments: [
            "file:///etc/passwd", "ftp://host/", "gopher://host/", "", "/path", "http://", "http://a b/", "host:80",
            "http://host:0/", "http://a..b/", "http://.a/", "http://1.2.3.4.5/", "http://1.2.3.400/",
            "http://host/#part", "https://-a.com/", "https://a-.com/", "https://xn--/",
            "https://\(String(repeating: "a", count: 64)).com/",
            "https://\(Array(repeating: "aaaa", count: 60).joined(separator: "."))/",
        ])
    func addresses(_ text: String) { #expect(OutboundURL(text) == nil) }

    @Test(
        "have names and addresses of all usual forms",
        arguments: [
            "http://host", "https://a.b.example.:8443/p?q=1", "http://127.0.0.1:1/", "http://127.1/",
            "http://[::1]:80/", "http://4you.example/", "http://xn--bcher-kva.example/", "http://a_b/",
        ])
    func usualAddresses(_ text: String) { #expect(OutboundURL(text) != nil) }

    @Test("calls with a name share: one joins the open call, and those that follow share one that begins after it")
    func sharing() throws {
        let isSlow = Monitor(true)
        let stand = StandIn { request in
            Patience.until { !isSlow.withLock { $0 } }
            return .status(200, request.line)
        }
        let client = OutboundClient()
        defer { client.stop() }
        let url = try #require(OutboundURL(stand.url + "x"))
        let answers = Monitor<[String]>([])
        func ask(_ name: String, _ sharing: OutboundCall.Sharing) {
            client.submit(OutboundCall(.get, url, sharing: sharing)) { result in
                let status = (try? result.get().status) ?? 0
                answers.change { $0.append("\(name) \(status)") }
            }
        }
        ask("first", .follows("a"))
        #expect(Patience.until { stand.received.count == 1 })
        for number in 0..<5 { ask("next \(number)", .follows("a")) }
        ask("joined", .joins("a"))
        ask("other", .follows("b"))
        #expect(Patience.until { stand.received.count == 2 }, "another name does not wait")
        #expect(answers.withLock { $0.isEmpty })
        isSlow.withLock { $0 = false }
        #expect(Patience.until { answers.withLock { $0.count } == 8 })
        #expect(stand.received.count == 3)
        let order = answers.withLock { $0 }
        let place = try #require(order.firstIndex(of: "joined 200"))
        for number in 0..<5 { #expect(try #require(order.firstIndex(of: "next \(number) 200")) > place) }
        // After the last answer the name is free again.
        ask("again", .joins("a"))
        #expect(Patience.until { answers.withLock { $0.contains("again 200") } })
        #expect(stand.received.count == 4)
    }

    @Test("a stopping client answers the callers of shared calls too")
    func sharedStop() throws {
        let stand = StandIn(.hang)
        let client = OutboundClient()
        let url = try #require(OutboundURL(stand.url))
        let answers = Monitor<[OutboundFault?]>([])
        for sharing in [OutboundCall.Sharing.follows("a"), .follows("a"), .joins("a")] {
            client.submit(OutboundCall(.get, url, sharing: sharing)) { result in
                answers.change { answers in
                    if case .failure(let fault) = result { answers.append(fault) } else { answers.append(nil) }
                }
            }
        }
        #expect(Patience.until { !stand.received.isEmpty })
        client.stop()
        #expect(answers.withLock { $0 } == [.cancelled, .cancelled, .cancelled])
    }
}
