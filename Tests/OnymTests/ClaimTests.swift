import ClientKit
import Compression
import Foundation
import Onym
import TestKit
import Testing

@Suite("Claims")
struct ClaimTests {
    let bench = Bench(.claim(key: "owl_client_k", bundleID: "com.example"))

    private static let taken: ScriptedTransport.Answer = .json(200, ["accepted": 1, "rejected": 0])
    private static let claimed: ScriptedTransport.Answer = .json(200, ["claimed": true, "events_reassigned_count": 1])

    /// What an upload says happened, and to whom.
    private func events(_ request: HTTPRequest?) -> [String] {
        (request?.json["events"]?.elements ?? []).map { "\($0["user_id"]?.text ?? ""):\($0["message"]?.text ?? "")" }
    }

    @Test("a user who becomes known is told after all that happened before, and what follows is the user's at once")
    func setUser() throws {
        let anonymous = try #require(bench.onym.claimUser)
        #expect(anonymous.hasPrefix("owl_anon_") && anonymous.count == 45)
        bench.onym.log("before")
        try bench.onym.setUser("u")
        bench.onym.log("after")
        let first = bench.answer(ClaimTests.taken)
        #expect(first?.path == "/v1/ingest" && events(first) == ["\(anonymous):before"])
        #expect(first?.fields["Authorization"] == "Bearer owl_client_k")
        let second = bench.answer(ClaimTests.claimed)
        #expect(second?.path == "/v1/identity/claim")
        #expect(second?.json == ["anonymous_id": .string(anonymous), "user_id": "u"])
        let third = bench.answer(ClaimTests.taken)
        #expect(events(third) == ["u:after"])
        #expect(bench.transport.open.isEmpty)
    }

    @Test("nothing is lost or out of turn when the process ends in between")
    func crash() throws {
        let anonymous = try #require(bench.onym.claimUser)
        bench.onym.log("before")
        try bench.onym.setUser("u")
        bench.onym.log("after")
        bench.answer(.fault(.offline))
        bench.relaunch()
        bench.onym.log("later")
        bench.advance(5)
        #expect(events(bench.answer(ClaimTests.taken)) == ["\(anonymous):before"])
        #expect(bench.answer(ClaimTests.claimed)?.path == "/v1/identity/claim")
        let rest = bench.answer(ClaimTests.taken)
        #expect(events(rest).first == "u:after")
        while bench.transport.open.first?.path == "/v1/identity/claim" { bench.answer(ClaimTests.claimed) }
        bench.advance(10)
        #expect(events(rest) + events(bench.answer(ClaimTests.taken)) == ["u:after", "u:later"])
    }

    @Test("each launch claims again, once")
    func claimAgain() throws {
        try bench.onym.setUser("u")
        bench.answer(ClaimTests.claimed)
        for _ in 0..<3 { bench.relaunch() }
        bench.advance(5)
        #expect(bench.transport.open.map(\.path) == ["/v1/identity/claim"])
        bench.answer(ClaimTests.claimed)
        #expect(bench.transport.open.isEmpty)
    }

    @Test("what follows a user who is gone is somebody else's, unless the app wants it otherwise")
    func clearUser() throws {
        let first = try #require(bench.onym.claimUser)
        try bench.onym.setUser("u")
        bench.onym.clearUser()
        let second = try #require(bench.onym.claimUser)
        #expect(second != first && second.hasPrefix("owl_anon_"))
        bench.onym.clearUser(newAnonymousID: false)
        #expect(bench.onym.claimUser == second)
        bench.relaunch()
        #expect(bench.onym.claimUser == second)
    }

    @Test(
        "user ids that no server takes are refused here",
        arguments: ["", "owl_anon_x", "a\u{0}", String(repeating: "x", count: 256)])
    func refusal(id: String) {
        #expect(throws: OnymError.self) { try bench.onym.setUser(id) }
    }

    @Test("properties go together, to the user whom they were set for")
    func properties() throws {
        let anonymous = try #require(bench.onym.claimUser)
        bench.onym.properties.set(["plan": "pro"])
        try bench.onym.setUser("u")
        bench.onym.properties.set(["plan": "free", "a": "b"])
        bench.onym.properties.remove("plan")
        let first = bench.answer(.json(200, ["updated": true, "properties": [:]]))
        #expect(first?.json == ["user_id": .string(anonymous), "properties": ["plan": "pro"]])
        bench.answer(ClaimTests.claimed)
        let second = bench.answer(.json(200, ["updated": true, "properties": [:]]))
        #expect(second?.json == ["user_id": "u", "properties": ["plan": "", "a": "b"]])
    }

    @Test("events have all that the wire asks for, and are the same when they are sent again")
    func wire() throws {
        bench.onym.log(Event("hello", level: .error, screen: "Home", attributes: ["n": 1, "_source": "A.swift:f:1"]))
        bench.advance(5)
        let first = bench.answer(.fault(.timeout))
        bench.advance(2)
        let second = bench.answer(ClaimTests.taken)
        #expect(first?.body == second?.body)
        let event = try #require(first?.json["events"]?.elements?.first)
        #expect(first?.json["bundle_id"] == "com.example")
        #expect(event["level"] == "error" && event["screen_name"] == "Home" && event["source_module"] == "A.swift:f:1")
        #expect(event["timestamp"] == "2027-01-15T08:00:00.000Z")
        #expect(UUID(uuidString: event["client_event_id"]?.text ?? "") != nil)
        #expect(UUID(uuidString: event["session_id"]?.text ?? "") != nil)
        #expect(event["custom_attributes"] == ["n": 1])
    }

    @Test("the same over and over is kept ten times a minute")
    func repeats() {
        for number in 0..<15 { bench.onym.log(Event("again", attributes: ["_line": .integer(Int64(number))])) }
        bench.onym.log("other")
        bench.advance(61)
        bench.onym.log("again")
        bench.advance(5)
        var all: [String] = []
        while bench.transport.open.first != nil { all += events(bench.answer(ClaimTests.taken)) }
        bench.advance(60)
        while bench.transport.open.first != nil { all += events(bench.answer(ClaimTests.taken)) }
        #expect(all.filter { $0.hasSuffix(":again") }.count == 11 && all.filter { $0.hasSuffix(":other") }.count == 1)
    }

    @Test("rows that the server rejects are told")
    func rejected() {
        bench.onym.log("a")
        bench.advance(5)
        bench.answer(.json(200, ["accepted": 0, "rejected": 1]))
        #expect(bench.notices.contains(.dropped(1, .refused(.http(HTTPFailure(status: 200))))))
    }

    @Test("properties that cannot be sent are bounded as events are, and claims stay")
    func bound() throws {
        let bench = Bench(.claim(key: "owl_client_k", bundleID: "b")) { $0.eventLimit = 10 }
        try bench.onym.setUser("u")
        bench.answer(.fault(.offline))
        for number in 0..<30 { bench.onym.properties.set(["p\(number)": "v"]) }
        bench.settle()
        #expect(bench.onym.claim?.mailbox.count == 10)
        #expect(bench.onym.claim?.mailbox.letters.first?.owner == "u")
        bench.advance(1)
        #expect(bench.notices.filter { if case .dropped = $0 { true } else { false } } == [.dropped(21, .overflow)])
    }

    @Test("large events go in batches of no more than half a megabyte")
    func large() {
        for number in 0..<30 {
            bench.onym.log("\(number)", ["text": .string(String(repeating: "x", count: 60_000))])
        }
        bench.onym.log("too large", ["text": .string(String(repeating: "x", count: 70_000))])
        bench.advance(5)
        var all: [String] = []
        while let request = bench.answer(ClaimTests.taken) {
            #expect(request.body.count < 600_000)
            all += events(request)
        }
        #expect(all.count == 30 && bench.transport.requests.count == 4)
        #expect(bench.notices.count == 1)
    }

    @Test("a message is cut where the server counts")
    func long() throws {
        bench.onym.log(String(repeating: "👩‍👩‍👧", count: 1000))
        bench.advance(5)
        let event = bench.answer(ClaimTests.taken)?.json["events"]?.elements?.first
        #expect(event?["message"]?.text?.unicodeScalars.count == 2000)
    }

    private func open() async {
        await eventually { !bench.transport.open.isEmpty }
    }

    @Test("files do not wait for the batch of their event, are tried twice, and come as they are")
    func attachments() async throws {
        let folder = TemporaryFolder()
        let file = URL(filePath: folder.path + "/trace.log")
        try Data("hello".utf8).write(to: file)
        bench.onym.log(
            Event("failed"),
            attachments: [
                Attachment(name: "empty", contentType: "text/plain", data: Data()),
                Attachment(file: file, contentType: "text/plain"),
                Attachment(file: URL(filePath: folder.path + "/none")),
            ])
        let owner = try #require(bench.onym.claimUser)
        bench.onym.clearUser()
        await open()
        #expect(bench.transport.requests.map(\.path) == ["/v1/ingest/attachment"])
        let reserved = bench.answer(.fault(.offline))
        bench.advance(2)
        #expect(reserved?.body == bench.transport.open.first?.body)
        #expect(
            reserved?.json["sha256"] == "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824")
        #expect(reserved?.json["user_id"] == .string(owner) && reserved?.json["original_filename"] == "trace.log")
        bench.answer(.json(201, ["attachment_id": "a/1", "upload_url": "https://elsewhere.test/"]))
        // A slow network is given the time that the server gives.
        bench.advance(100)
        let upload = bench.answer(.json(200, ["attachment_id": "a/1"]), at: bench.transport.open.count - 1)
        #expect(upload?.method == "PUT" && upload?.body == [] && upload?.file == file)
        #expect(upload?.url.absoluteString == "https://onym.test/v1/ingest/attachment/a%2F1")
        let batch = try #require(bench.transport.requests.first { $0.path == "/v1/ingest" })
        #expect(batch.json["events"]?.elements?[0]["client_event_id"] == reserved?.json["client_event_id"])
        await eventually {
            bench.settle()
            return bench.notices.contains(.dropped(1, .storage))
        }
    }

    @Test("a file that the server will not have is told, once")
    func refusedAttachment() async {
        bench.onym.log(
            Event("failed"), attachments: [Attachment(name: "a", contentType: "b", data: Data("hello".utf8))])
        await open()
        bench.answer(.json(415, ["code": "disallowed_content_type", "message": "no"]))
        #expect(
            bench.notices == [
                .dropped(
                    1,
                    .refused(
                        .http(
                            HTTPFailure(status: 415, code: "disallowed_content_type", message: "no", requestID: "r"))))
            ])
        bench.advance(5)
        #expect(bench.transport.requests.filter { $0.path == "/v1/ingest/attachment" }.count == 1)
    }

    @Test("long bodies go in gzip, if it is wanted", arguments: [true, false])
    func gzip(isWanted: Bool) throws {
        let bench = Bench(.claim(key: "owl_client_k", bundleID: "b")) { $0.compressesBodies = isWanted }
        bench.onym.log("a")
        bench.advance(5)
        let short = bench.answer(ClaimTests.taken)
        #expect(short?.fields["Content-Encoding"] == nil && short?.json["events"]?.elements?.count == 1)
        for number in 0..<15 { bench.onym.log("event \(number)") }
        bench.advance(5)
        let long = try #require(bench.answer(ClaimTests.taken))
        #expect(long.fields["Content-Encoding"] == (isWanted ? "gzip" : nil))
        let body = isWanted ? try Gzip.inflate(long.body, limit: 1 << 20) : long.body
        #expect(JSON(body)?["events"]?.elements?.count == 15)
    }

    @Test("what the disk has lost is told")
    func lost() throws {
        bench.onym.log("a")
        bench.files.remove("claim-000001.log")
        bench.advance(5)
        bench.answer(ClaimTests.taken)
        #expect(bench.notices.contains(.dropped(1, .storage)))
    }

    @Test("ten thousand events go out in batches, and the folder stays small")
    func drain() {
        for number in 0..<10_000 { bench.onym.log("\(number)") }
        // Whoever logs does not send.
        #expect(bench.transport.requests.isEmpty)
        bench.advance(0)
        var count = 0
        while let request = bench.answer(ClaimTests.taken) {
            #expect(events(request).count <= 100)
            count += events(request).count
        }
        #expect(count == 10_000)
        #expect(bench.transport.requests.count <= 110)
        #expect(bench.files.byteCount < 2 * Journal.segmentBytes)
    }
}

@Suite("Attribution")
struct AttributionTests {
    private struct Tokens: AttributionTokens {
        func token() async throws -> String { "token" }
    }

    private func bench() -> Bench {
        Bench(.claim(key: "owl_client_k", bundleID: "b")) { $0.attributionTokens = Tokens() }
    }

    /// Asks, and gives the network's answer.
    private func capture(
        _ bench: Bench, _ answers: ScriptedTransport.Answer...
    ) async throws -> Result<AttributionOutcome, OnymError> {
        let ends = Collector<Result<AttributionOutcome, OnymError>>()
        let client = try #require(bench.onym.claim)
        let before = bench.transport.requests.count
        client.captureAttribution(ends.callback)
        for answer in answers {
            await eventually {
                if !bench.transport.open.isEmpty || !ends.values.isEmpty { return true }
                // The token comes from a task, which no clock hurries.
                bench.advance(bench.transport.requests.count > before ? 1 : 0)
                return false
            }
            bench.answer(answer)
        }
        await eventually {
            bench.settle()
            return !ends.values.isEmpty
        }
        #expect(ends.values.count == 1)
        return ends.values[0]
    }

    private static let pending: ScriptedTransport.Answer = .json(
        200, ["attributed": .null, "pending": true, "retry_after_seconds": 3600, "properties": [:]])

    @Test("what the network says is asked once for an install")
    func once() async throws {
        let bench = bench()
        let outcome = try await capture(
            bench, .json(200, ["attributed": true, "pending": false, "properties": ["attribution_source": "x"]]))
        #expect(outcome == .success(.resolved(["attribution_source": "x"])))
        #expect(bench.transport.requests[0].json["attribution_token"] == "token")
        bench.relaunch()
        #expect(try await capture(bench) == .success(.captured))
    }

    @Test("a network that does not know yet is left alone for as long as it wants, over launches and clocks")
    func leftAlone() async throws {
        let bench = bench()
        #expect(try await capture(bench, AttributionTests.pending) == .success(.pending))
        for _ in 0..<5 {
            bench.relaunch()
            #expect(try await capture(bench) == .success(.pending))
        }
        bench.advance(3590)
        #expect(try await capture(bench) == .success(.pending))
        #expect(bench.transport.requests.count == 1)
        bench.advance(20)
        #expect(try await capture(bench, AttributionTests.pending) == .success(.pending))
        // Nobody waits for a clock that was set back.
        bench.time.setClock(by: -86_400)
        #expect(try await capture(bench, AttributionTests.pending) == .success(.pending))
        bench.onym.claim?.resetCapture()
        #expect(try await capture(bench, AttributionTests.pending) == .success(.pending))
        #expect(bench.transport.requests.count == 4)
    }

    @Test("a network that does not know yet is asked five times, and then it is nobody")
    func pendings() async throws {
        let bench = bench()
        for _ in 0..<4 {
            #expect(try await capture(bench, AttributionTests.pending) == .success(.pending))
            bench.relaunch()
            bench.advance(3600)
        }
        #expect(
            try await capture(bench, AttributionTests.pending) == .success(.resolved(["attribution_source": "none"])))
        let request = bench.answer(.json(200, ["updated": true, "properties": [:]]))
        #expect(request?.path == "/v1/identity/properties")
        #expect(request?.json["properties"] == ["attribution_source": "none"])
        bench.relaunch()
        #expect(try await capture(bench) == .success(.captured))
    }

    @Test("all tries are for the user who asked first, whoever comes after")
    func owner() async throws {
        let bench = bench()
        let ends = Collector<Result<AttributionOutcome, OnymError>>()
        let (client, asker) = (try #require(bench.onym.claim), try #require(bench.onym.claimUser))
        client.captureAttribution(ends.callback)
        bench.onym.clearUser()
        await eventually { !bench.transport.open.isEmpty }
        bench.answer(.fault(.offline))
        bench.onym.clearUser()
        bench.advance(2)
        bench.answer(.json(408, [:]))
        bench.advance(3)
        bench.answer(AttributionTests.pending)
        #expect(bench.transport.requests.map { $0.json["user_id"]?.text } == [asker, asker, asker])
        #expect(ends.values == [.success(.pending)])
    }

    private struct Silent: AttributionTokens {
        func token() async throws -> String {
            try await Task.sleep(for: .seconds(3600))
            return "late"
        }
    }

    @Test("a platform that gives no token ends the call, and not the next one")
    func silence() async throws {
        let bench = Bench(.claim(key: "owl_client_k", bundleID: "b")) { $0.attributionTokens = Silent() }
        let ends = Collector<Result<AttributionOutcome, OnymError>>()
        let client = try #require(bench.onym.claim)
        client.captureAttribution(ends.callback)
        client.captureAttribution(ends.callback)
        bench.advance(bench.configuration.timeout)
        #expect(ends.values == [.failure(.refused(.appFailed)), .failure(.refused(.appFailed))])
        client.captureAttribution(ends.callback)
        bench.advance(bench.configuration.timeout)
        #expect(ends.values.count == 3)
    }

    @Test("faults do not count as answers, and a token that is no good is not tried again")
    func faults() async throws {
        let bench = bench()
        let faults = (0..<5).map { _ in ScriptedTransport.Answer.fault(.offline) }
        let outcome = try await capture(bench, faults[0], faults[1], faults[2], faults[3], faults[4])
        #expect(outcome == .failure(.offline))
        bench.relaunch()
        #expect(try await capture(bench, .json(400, ["error": "rejected"])).failure?.status == 400)
        #expect(try await capture(bench) == .success(.captured))
    }
}
