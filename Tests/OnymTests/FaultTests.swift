import ClientKit
import Foundation
import Onym
import Testing

/// What a server or a network can do to a call, and what the call makes of it.
struct Fault: CustomTestStringConvertible, Sendable {
    let testDescription: String
    let answer: ScriptedTransport.Answer
    let error: OnymError
    /// After how many seconds the same is sent again by itself; nil for never.
    let wait: ClosedRange<TimeInterval>?

    private init(
        _ name: String, _ answer: ScriptedTransport.Answer, _ error: OnymError, again wait: ClosedRange<TimeInterval>?
    ) {
        (testDescription, self.answer, self.error, self.wait) = (name, answer, error, wait)
    }

    /// The server's own word, as the Claim dialect has it. IDSync has errors of another form.
    private static func refusal(_ status: Int, again wait: ClosedRange<TimeInterval>? = nil) -> Fault {
        Fault(
            "\(status)", .json(status, ["error": "no"]),
            .http(HTTPFailure(status: status, message: "no", requestID: "r", isServersWord: true)), again: wait)
    }

    /// Somebody has to do something about a key.
    private static let hourly: ClosedRange<TimeInterval> = 3600...3600

    /// The first wait of the SDK's own, with its chance.
    private static let soon: ClosedRange<TimeInterval> = 1...1.4

    static let table: [Fault] = [
        refusal(400), refusal(409), refusal(413), refusal(422), refusal(401, again: hourly),
        refusal(403, again: hourly), refusal(404, again: soon), refusal(418, again: soon),
        Fault("a firewall's 400", .bytes(400, "<html>"), .http(HTTPFailure(status: 400)), again: soon),
        Fault("a firewall's 403", .bytes(403, "<html>"), .http(HTTPFailure(status: 403)), again: hourly),
        Fault("a proxy's 404", .bytes(404, "<html>"), .http(HTTPFailure(status: 404)), again: soon),
        Fault("429", .bytes(429, ""), .http(HTTPFailure(status: 429)), again: soon),
        Fault(
            "429 with Retry-After", .bytes(429, "", ["Retry-After": "30"]),
            .http(HTTPFailure(status: 429, retryAfter: 30)), again: 30...30),
        Fault(
            "503 with the date to come again", .bytes(503, "", ["Retry-After": "Fri, 15 Jan 2027 08:01:00 GMT"]),
            .http(HTTPFailure(status: 503, retryAfter: 60)), again: 60...60),
        Fault(
            "503 that wants a year", .bytes(503, "", ["Retry-After": "31536000"]),
            .http(HTTPFailure(status: 503, retryAfter: 31_536_000)), again: 86_400...86_400),
        Fault(
            "503 with a date, by a clock that is not ours",
            .bytes(
                503, "",
                ["Retry-After": "Sat, 16 Jan 2027 08:01:00 GMT", "Date": "Sat, 16 Jan 2027 08:00:20 GMT"]),
            .http(HTTPFailure(status: 503, retryAfter: 40)), again: 40...40),
        Fault("302", .bytes(302, ""), .http(HTTPFailure(status: 302)), again: soon),
        Fault("500", .bytes(500, "<html>"), .http(HTTPFailure(status: 500)), again: soon),
        Fault("503", .bytes(503, ""), .http(HTTPFailure(status: 503)), again: soon),
        Fault("an empty body", .bytes(200, ""), .malformed(status: 200, requestID: nil), again: soon),
        Fault("garbage", .bytes(200, "\u{0}garbage"), .malformed(status: 200, requestID: nil), again: soon),
        Fault("half a body", .bytes(200, "{\"mpid\":\"1"), .malformed(status: 200, requestID: nil), again: soon),
        Fault("somebody else's answer", .bytes(200, "[]"), .malformed(status: 200, requestID: nil), again: soon),
        Fault("no answer", .hang, .timeout, again: soon),
        Fault("TLS", .fault(.tls("not trusted")), .tls("not trusted"), again: soon),
        Fault("no network", .fault(.offline), .offline, again: soon),
        Fault("a broken connection", .fault(.connection("reset")), .connection("reset"), again: soon),
    ]
}

@Suite("The table of faults")
struct FaultTests {
    @Test("each gives an identity call its error, once, and the app decides", arguments: Fault.table)
    func identity(fault: Fault) {
        let bench = Bench(.idSync(key: "k", secret: nil))
        let ends = Collector<Result<IdentityResult, OnymError>>()
        // Its time begins now, for those that name a time.
        bench.onym.identity.identify(callback: ends.callback)
        bench.answer(fault.answer)
        bench.advance(bench.configuration.timeout)
        #expect(ends.values.map { $0.failure?.status } == [fault.error.status])
        if fault.error.serversStatus == nil { #expect(ends.values.map(\.failure) == [fault.error]) }
        bench.advance(100_000)
        #expect(bench.transport.requests.count == 1)
        #expect(bench.onym.users.current == nil)
    }

    @Test("each has the same claim sent again after its time, or tells that it never will be", arguments: Fault.table)
    func letters(fault: Fault) throws {
        let bench = Bench(.claim(key: "owl_client_k", bundleID: "b"))
        try bench.onym.setUser("u")
        let flush = Collector<Result<Void, OnymError>>()
        bench.onym.flush(callback: flush.callback)
        let first = try #require(bench.transport.open.first)
        bench.answer(fault.answer)
        if case .hang = fault.answer { bench.advance(bench.configuration.timeout) }
        if let wait = fault.wait {
            #expect(flush.values.compactMap(\.failure) == [fault.error] && flush.values.count == 1)
            #expect(bench.notices.filter { if case .dropped = $0 { true } else { false } }.isEmpty)
            bench.advance(wait.lowerBound - 0.01)
            #expect(bench.transport.requests.count == 1)
            bench.advance(wait.upperBound - wait.lowerBound + 0.02)
            #expect(bench.transport.requests.count == 2)
            #expect(bench.transport.open.first?.body == first.body)
            bench.answer(.json(200, ["claimed": true, "events_reassigned_count": 0]))
        } else {
            #expect(bench.notices.contains(.dropped(1, .refused(fault.error))))
            #expect(flush.values.map(\.failure) == [.dropped(1, .refused(fault.error))])
        }
        bench.advance(100_000)
        #expect(bench.transport.open.isEmpty && bench.transport.requests.count == (fault.wait == nil ? 1 : 2))
    }

    @Test("events whose file cannot be read wait, and go out whole as soon as it can")
    func unreadable() {
        let bench = Bench(.claim(key: "owl_client_k", bundleID: "b"))
        bench.onym.log("opened")
        bench.files.setDeviceLocked(true)
        let flush = Collector<Result<Void, OnymError>>()
        bench.onym.flush(callback: flush.callback)
        bench.advance(5)
        #expect(bench.transport.requests.isEmpty)
        #expect(flush.values.map(\.failure) == [.storage("the device is locked")])
        #expect(bench.notices.contains(.storageFailed("the device is locked")))
        bench.files.setDeviceLocked(false)
        bench.advance(7)
        let events = bench.transport.open.first?.json["events"]?.elements
        #expect(events?.map { $0["message"] } == ["opened"])
        #expect(!bench.notices.contains { if case .dropped = $0 { true } else { false } })
    }

    @Test("the app's log may ask the instance, also about what happens inside its lock", .timeLimit(.minutes(1)))
    func logThatAsks() {
        let (instance, asked) = (Collector<OnymClient>(), Collector<String?>())
        let bench = Bench(.claim(key: "owl_client_k", bundleID: "b")) {
            $0.log = .errors
            $0.logger = { _ in for onym in instance.values { asked.callback(onym.claimUser) } }
        }
        instance.callback(bench.onym)
        bench.files.fill(after: 0)
        bench.onym.log("lost")
        bench.settle()
        #expect(asked.values.count == 2 && asked.values.allSatisfy { $0 != nil })
    }

    @Test("tries that fail come further and further apart, and begin anew after a success")
    func backOff() throws {
        let bench = Bench(.claim(key: "owl_client_k", bundleID: "b")) { $0.timeout = 10_000 }
        try bench.onym.setUser("u")
        for delay in DialectClient.delays + [300] {
            bench.answer(.fault(.offline))
            bench.advance(delay - 0.01)
            #expect(bench.transport.open.isEmpty)
            bench.advance(delay * 0.4 + 0.02)
            #expect(bench.transport.open.count == 1)
        }
        bench.answer(.json(200, ["claimed": true]))
        try bench.onym.setUser("v")
        bench.answer(.fault(.offline))
        bench.advance(1.5)
        #expect(bench.transport.open.count == 1)
    }
}
